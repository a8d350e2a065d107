//! Fusion: kernels of a graph whose tiles line up become one.
//!
//! ```text
//! for every producer and consumer of a tensor:  may they become neighbours? ─► epilogue, prologue, same tile ─► verify, optimise
//!                                                ─► does the target take it as well as the two? ─► cost
//! for every set of producers and a sink:         may they go to the sink's place? ─► inlined ─► the same
//! what gains most is fused, and so on until nothing gains
//! ```
//!
//! Nothing is recognised by name: a kernel is what its instructions say. Indices are compared as sums (`sym.rs`), tiles as places
//! (`tiles.rs`), bodies are rewritten instruction by instruction (`retile.rs`) or value by value
//! (`inline/`). Where a proof fails both kernels stay, with the reason.

mod access;
mod atoms;
mod cost;
mod demand;
mod inline;
mod maker;
mod outside;
mod pair;
mod programs;
mod report;
mod retile;
mod search;
mod sets;
mod shared;
mod split;
mod state;
mod sym;
mod tiles;
mod waiting;
mod ways;
mod widen;

pub use report::{Decision, Effort, FuseReport, FuseRule, How, Outcome, Refusal, RefusalKind};
pub use search::Fused;
pub use state::FuseOptions;
