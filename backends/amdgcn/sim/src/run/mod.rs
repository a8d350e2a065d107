//! Running a launch: workgroups, waves and their order; per step the checks, the execution, and the notes.

pub(crate) mod device;
mod launch;
pub(crate) mod races;
mod step;

pub use launch::{Launch, SimConfig};
