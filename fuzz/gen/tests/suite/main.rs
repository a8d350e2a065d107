//! Tests of the generators.
//! `cargo test -p tilelift-fuzzgen FILE::` runs those of one file.

mod amdgcn;
mod coverage;
mod embedded;
mod explicit;
mod graphs;
mod levels;
mod loops;
mod oracles;
mod specialised;
mod trials;
