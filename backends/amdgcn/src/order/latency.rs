//! Issue slots of four cycles until results are there: guesses of the order of magnitude.

pub(super) const GLOBAL: u32 = 120;
pub(super) const SCALAR_MEMORY: u32 = 40;
pub(super) const LDS: u32 = 24;
pub(super) const TRANSCENDENTAL: u32 = 5;
pub(super) const VECTOR: u32 = 2;
/// Of what lanes compute, for matrix instructions; of masks, for lanes.
pub(super) const ACROSS: u32 = 3;
pub(super) const SCALAR: u32 = 1;
