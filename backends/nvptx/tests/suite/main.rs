//! Tests of the NVIDIA backend, one program: it is linked once, and its tests run side by side.
//! `cargo test -p tilelift-nvptx FILE::` runs those of one file.

mod atomics;
mod cluster_gemm;
mod cluster_proofs;
mod clusters;
mod common;
mod control;
mod epilogue_operands;
mod explicit;
mod functions;
mod lane_registers;
mod late_products;
mod loops;
mod memory;
mod mixed_schedules;
mod narrow_weights;
mod pipelines;
mod planted;
mod planted_registers;
mod products;
mod proof_bounds;
mod proof_choices;
mod proof_litmus;
mod renew;
mod ring_gemm;
mod ring_layouts;
mod rotating_rings;
mod rules;
mod schedules;
mod searched_rings;
mod specialised;
mod text;
mod turns;
mod written;
