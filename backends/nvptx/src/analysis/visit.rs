//! Operands and results of lane instructions, each with the role it plays.
//!
//! Loops and choices report only what they read in front of their blocks; whoever walks blocks handles the rest.

use tilelift_isel::lane::{Control, Effect, For, If, Inst, LVal, Roles, Unit, Use, While};

/// How an operand is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// As a register or an immediate.
    Value,
    /// As the address of a memory access, to which a constant may be added for free.
    Address,
    /// As an operand word of a matrix instruction.
    Word,
}

/// True for offsets so small that three of them (an instruction's, a chain's, an allocation's) add up inside 32 bits.
pub(crate) fn folds(offset: i32) -> bool {
    (-(1 << 29)..1 << 29).contains(&offset)
}

fn address(offset: i32) -> Role {
    if folds(offset) { Role::Address } else { Role::Value }
}

/// Calls `f` for every operand read where the instruction stands.
pub(crate) fn operands(inst: &Inst, mut f: impl FnMut(LVal, Role)) {
    inst.operands(|v, how| {
        let role = match how {
            Use::Value | Use::Guard => Role::Value,
            Use::Word => Role::Word,
            Use::Address(offset) => address(offset),
        };
        f(v, role);
    });
}

/// True if an instruction only computes: unused, it may be left out.
pub(crate) fn is_pure(inst: &Inst) -> bool {
    matches!(inst.effect(), Effect::Compute | Effect::Stay)
}

/// An instruction by what its blocks are.
pub(crate) enum Nest<'a> {
    /// A counted loop.
    For(&'a For),
    /// A loop on a condition.
    While(&'a While),
    /// A choice.
    If(&'a If),
    /// Blocks of which each warp runs one.
    Roles(&'a Roles),
    /// No block; accumulators are named, because they stay in place.
    Matrix {
        /// Results.
        dsts: &'a [LVal],
        /// What they accumulate on.
        c: &'a [LVal],
    },
    /// No block.
    Plain,
}

/// The blocks of an instruction.
pub(crate) fn nest(inst: &Inst) -> Nest<'_> {
    match inst.control() {
        Some(Control::For(l)) => Nest::For(l),
        Some(Control::While(l)) => Nest::While(l),
        Some(Control::If(i)) => Nest::If(i),
        Some(Control::Roles(r)) => Nest::Roles(r),
        None => match inst {
            Inst::Matrix(m) => Nest::Matrix { dsts: &m.dsts, c: &m.c },
            Inst::Unit(u) => match &**u {
                Unit::Multiply(m) => Nest::Matrix { dsts: &m.dsts, c: &m.c },
                _ => Nest::Plain,
            },
            _ => Nest::Plain,
        },
    }
}
