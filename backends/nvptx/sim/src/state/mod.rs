//! What a launch holds: CTAs and their warps, barriers, operations in flight, clocks. What happens to it is told elsewhere.

pub(crate) mod cta;
mod fault;
pub(crate) mod flight;
mod machine;
pub(crate) mod mbar;
pub(crate) mod race;
pub(crate) mod warp;
pub(crate) mod wgmma;

pub(crate) use machine::{Simulator, product};
