//! Random programs, line by line.

use super::Random;

/// A text in the making.
pub struct Draft {
    pub lines: Vec<String>,
    /// The number of the next value.
    pub next: usize,
    pub random: Random,
}

impl Draft {
    /// One whose first value has a number.
    pub fn new(first: usize, seed: u64) -> Draft {
        Draft { lines: Vec::new(), next: first, random: Random(seed) }
    }

    /// A number below `n`.
    pub fn pick(&mut self, n: usize) -> usize {
        (self.random.next() % n as u64) as usize
    }

    /// A line that makes a value; its name.
    pub fn push(&mut self, code: &str) -> String {
        let v = format!("v{}", self.next);
        self.next += 1;
        self.lines.push(format!("{v} = {code}"));
        v
    }
}
