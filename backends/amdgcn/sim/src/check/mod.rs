//! Checks of what hardware leaves to the program: waits for what is in flight, and wait states between instructions.

pub(crate) mod flight;
pub(crate) mod hazard;
