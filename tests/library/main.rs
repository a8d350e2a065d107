//! Tests of the library as engines see it: examples, graphs, plans, faults that the simulator must see.
//! `cargo test -p tilelift --test library graph::` runs those of one file.

#[cfg(feature = "sim")]
mod attention;
#[cfg(feature = "sim")]
mod decisions;
#[cfg(feature = "sim")]
mod examples;
#[cfg(feature = "sim")]
mod faults;
#[cfg(feature = "sim")]
mod graph;
#[cfg(feature = "sim")]
mod kernel_plans;
mod plans;
#[cfg(feature = "sim")]
mod rules;
mod staging;
#[cfg(feature = "sim")]
mod wider;
