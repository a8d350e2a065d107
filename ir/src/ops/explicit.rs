//! What a `tasks` says of each of its tasks.

use std::fmt;

/// A task: its region runs on warps of its own, once per replica.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Task {
    /// Its name, an identifier.
    pub name: String,
    /// Warps of each replica: a power of two.
    pub warps: u32,
    /// Registers per lane, a multiple of 8 from 24 to 240; absent means that nothing is moved between tasks.
    pub registers: Option<u32>,
    /// How many times it runs; the region's parameter tells which replica is running.
    pub replicas: u32,
}

impl Task {
    /// One replica of a number of warps.
    pub fn new(name: &str, warps: u32) -> Task {
        Task { name: name.to_owned(), warps, registers: None, replicas: 1 }
    }
    /// The same task with so many registers per lane.
    pub fn registers(mut self, n: u32) -> Task {
        self.registers = Some(n);
        self
    }
    /// The same task, so many times.
    pub fn replicas(mut self, n: u32) -> Task {
        self.replicas = n;
        self
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} warps {}", self.name, self.warps)?;
        if let Some(n) = self.registers {
            write!(f, " registers {n}")?;
        }
        Ok(())
    }
}
