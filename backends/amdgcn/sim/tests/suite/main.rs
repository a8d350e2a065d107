//! Tests of the simulator of code objects.
//! `cargo test -p tilelift-amdgcn-sim FILE::` runs those of one file.

mod common;
mod faults;
mod fuzz;
mod gfx950;
mod hazards;
mod llc;
mod matrix;
mod memory;
mod names;
mod planted;
mod scratch;
mod triton;
mod vadd;
mod vector;
