//! Running a launch: workgroups, waves and their order; per step the checks, the execution, and the notes.

mod launch;
mod step;

pub use launch::{Launch, Order, SimConfig};
