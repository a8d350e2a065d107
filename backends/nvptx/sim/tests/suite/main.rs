//! Tests of the simulator of PTX.
//! `cargo test -p tilelift-nvptx-sim FILE::` runs those of one file.

mod alu;
mod async_litmus;
mod cluster;
mod common;
mod control;
mod fuzz;
mod gemm;
mod hand_made;
mod litmus;
mod matrix;
mod parse;
mod pipeline;
mod recording;
mod speed;
mod tensor_copies;
mod wgmma;
