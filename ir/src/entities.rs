//! Entity references: the `u32` names by which everything in a kernel is called.
//!
//! Their `Display` is the text form: a [`Value`] prints as `v7`, a [`Region`] as `r1`, an [`Inst`] as `inst12`.

use cranelift_entity::entity_impl;

/// An SSA value: the result of an instruction, a parameter of a region, or a parameter of the kernel. Prints as `v7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction. Prints as `inst12`; the text form names instructions by their results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A region: an ordered list of instructions with parameters, closed by a `yield` unless it is the kernel's body. Prints as `r1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(u32);
entity_impl!(Region, "r");
