//! A bound of work: steps, not time, so that the same program always ends in the same way.

use super::result::AllocError;
use std::cell::Cell;
use std::rc::Rc;

/// Steps that allocation may take: one or two hundred millions of them take a second.
pub(super) const STEPS: u64 = 100_000_000;

/// Steps that allocation may still take; clones take from the same ones.
#[derive(Clone, Debug)]
pub(super) struct Fuel(Rc<Cell<u64>>);

impl Fuel {
    /// So many steps.
    pub(super) fn new(steps: u64) -> Fuel {
        Fuel(Rc::new(Cell::new(steps)))
    }

    /// Takes steps away; what is more than there was counts as all of it.
    pub(super) fn burn(&self, steps: usize) {
        self.0.set(self.0.get().saturating_sub(steps as u64));
    }

    /// Steps that are left.
    pub(super) fn left(&self) -> u64 {
        self.0.get()
    }

    /// # Errors
    /// If none is left.
    pub(super) fn check(&self) -> Result<(), AllocError> {
        if self.left() == 0 { Err(AllocError::TooMuchWork) } else { Ok(()) }
    }
}
