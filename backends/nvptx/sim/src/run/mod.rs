//! The run of a launch: its checks, whose turn it is, one instruction after the other, and why nobody can go on.

mod deadlock;
mod fill;
mod hop;
mod launch;
mod sched;
mod step;
mod turns;

pub(crate) use launch::launch;
