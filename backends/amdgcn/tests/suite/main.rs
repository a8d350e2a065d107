//! Tests of the AMD backend.
//! `cargo test -p tilelift-amdgcn FILE::` runs those of one file.

mod attention;
mod checkers;
mod codes;
mod common;
mod encode;
mod fills;
mod kernels;
mod memory;
mod object;
mod ops;
mod ping_pong;
mod refusals;
mod run;
mod schedules;
mod select;
mod spills;
mod stages;
mod text;
mod triton_attention;
mod triton_gemm;
mod windows;
