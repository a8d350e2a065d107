//! What a proof may take.

use crate::error::{ProtocolError, Spot};
use crate::problem::{Many, Problem};
use std::cell::Cell;
use std::rc::Rc;

/// Steps that a proof may take in all, whatever it tries: an instruction of an agent counts each time that it is followed, and so do
/// `BYTES_PER_STEP` bytes of a state that is kept. Behind them a program counts as too complex to prove.
pub const MOST_STEPS: u64 = 3_000_000;
pub(super) const BYTES_PER_STEP: usize = 64;

/// Steps that are left.
#[derive(Clone)]
pub(crate) struct Fuel(Rc<Cell<u64>>);

impl Default for Fuel {
    fn default() -> Fuel {
        Fuel(Rc::new(Cell::new(MOST_STEPS)))
    }
}

impl Fuel {
    pub(super) fn burn(&self, steps: usize) {
        self.0.set(self.0.get().saturating_sub(steps as u64));
    }

    /// True if none is left.
    pub fn spent(&self) -> bool {
        self.0.get() == 0
    }

    /// Those that were taken.
    pub fn burnt(&self) -> u64 {
        MOST_STEPS - self.0.get()
    }
}

/// The answer where a proof takes more than it may.
pub(super) fn too_complex<T>(what: Many) -> Result<T, ProtocolError> {
    Err(ProtocolError { problem: Problem::TooComplex(what), here: Spot::program("the program"), other: None })
}
