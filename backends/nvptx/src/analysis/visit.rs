//! Operands and results of lane instructions, each with the role it plays.
//!
//! Loops and choices report only what they read in front of their blocks; whoever walks blocks handles the rest.

use tilelift_isel::lane::{AtomicKind, For, If, Inst, LVal, Roles, ShuffleFrom, Unit, While};
use tilelift_lane::computes;

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
    use Role::{Value, Word};
    match inst {
        Inst::Undefined { .. } | Inst::Const { .. } | Inst::Param { .. } | Inst::Special { .. } | Inst::SharedAddr { .. } => {}
        Inst::Unit(u) => u.operands(|v, offset| f(v, offset.map_or(Value, address))),
        Inst::Roles(_) | Inst::CommitCopies | Inst::WaitCopies { .. } | Inst::Barrier => {}
        Inst::Assert { condition } => f(*condition, Value),
        Inst::Un { a, .. } | Inst::Cvt { a, .. } | Inst::RoundTf32 { a, .. } | Inst::Bitcast { a, .. } | Inst::Unpack { a, .. } => {
            f(*a, Value);
        }
        Inst::Bin { a, b, .. } | Inst::Cmp { a, b, .. } => {
            f(*a, Value);
            f(*b, Value);
        }
        Inst::Fma { a, b, c, .. } | Inst::MadWide { a, b, c, .. } | Inst::Select { c, a, b, .. } => {
            f(*a, Value);
            f(*b, Value);
            f(*c, Value);
        }
        Inst::Pack { parts, .. } => parts.iter().for_each(|&v| f(v, Value)),
        Inst::Divide { a, b, .. } => a.iter().chain(b).for_each(|&v| f(v, Value)),
        Inst::LoadGlobal { addr, offset, guard, other, .. } => {
            f(*addr, address(*offset));
            guard.iter().chain(other).for_each(|&v| f(v, Value));
        }
        Inst::StoreGlobal { srcs, addr, offset, guard, .. } | Inst::StoreShared { srcs, addr, offset, guard } => {
            f(*addr, address(*offset));
            srcs.iter().chain(guard).for_each(|&v| f(v, Value));
        }
        Inst::Atomic(a) => {
            f(a.addr, address(a.offset));
            f(a.value, Value);
            if let AtomicKind::Cas(c) = a.kind {
                f(c, Value);
            }
            a.guard.iter().for_each(|&v| f(v, Value));
        }
        Inst::LoadShared { addr, offset, .. } | Inst::LoadMatrix { addr, offset, .. } => f(*addr, address(*offset)),
        Inst::CopyAsync { shared, offset, global, global_offset, valid, .. } => {
            f(*shared, address(*offset));
            f(*global, address(*global_offset));
            valid.iter().for_each(|&v| f(v, Value));
        }
        Inst::Shuffle { a, from, .. } => {
            f(*a, Value);
            match from {
                ShuffleFrom::Xor(_) => {}
                ShuffleFrom::Lane(l) => f(*l, Value),
            }
        }
        Inst::Matrix { a, b, c, .. } => {
            a.iter().chain(b).for_each(|&v| f(v, Word));
            c.iter().for_each(|&v| f(v, Value));
        }
        Inst::For(l) => {
            [l.lo, l.hi, l.step].into_iter().for_each(|v| f(v, Value));
            l.carried.iter().for_each(|c| f(c.init, Value));
        }
        Inst::While(l) => l.carried.iter().for_each(|c| f(c.init, Value)),
        Inst::If(i) => f(i.condition, Value),
    }
}

/// Calls `f` for every result of an instruction without blocks.
pub(crate) fn results(inst: &Inst, mut f: impl FnMut(LVal)) {
    match inst {
        Inst::Undefined { dst }
        | Inst::Const { dst, .. }
        | Inst::Param { dst, .. }
        | Inst::Special { dst, .. }
        | Inst::SharedAddr { dst, .. }
        | Inst::Un { dst, .. }
        | Inst::Bin { dst, .. }
        | Inst::Fma { dst, .. }
        | Inst::MadWide { dst, .. }
        | Inst::Cmp { dst, .. }
        | Inst::Select { dst, .. }
        | Inst::Cvt { dst, .. }
        | Inst::RoundTf32 { dst, .. }
        | Inst::Bitcast { dst, .. }
        | Inst::Pack { dst, .. }
        | Inst::Shuffle { dst, .. } => f(*dst),
        Inst::Unpack { dsts, .. }
        | Inst::Divide { dsts, .. }
        | Inst::LoadGlobal { dsts, .. }
        | Inst::LoadShared { dsts, .. }
        | Inst::LoadMatrix { dsts, .. } => {
            dsts.iter().for_each(|&d| f(d));
        }
        Inst::Matrix { dsts, .. } => dsts.iter().for_each(|&d| f(d)),
        Inst::Atomic(a) => a.dst.iter().for_each(|&d| f(d)),
        Inst::Unit(u) => u.results().iter().for_each(|&d| f(d)),
        Inst::Roles(_)
        | Inst::StoreGlobal { .. }
        | Inst::StoreShared { .. }
        | Inst::CopyAsync { .. }
        | Inst::CommitCopies
        | Inst::WaitCopies { .. }
        | Inst::Barrier
        | Inst::Assert { .. }
        | Inst::For(_)
        | Inst::While(_)
        | Inst::If(_) => {}
    }
}

/// True if an instruction only computes: unused, it may be left out.
pub(crate) fn is_pure(inst: &Inst) -> bool {
    match inst {
        Inst::Undefined { .. }
        | Inst::Const { .. }
        | Inst::Param { .. }
        | Inst::Special { .. }
        | Inst::SharedAddr { .. }
        | Inst::Un { .. }
        | Inst::Bin { .. }
        | Inst::Fma { .. }
        | Inst::MadWide { .. }
        | Inst::Cmp { .. }
        | Inst::Select { .. }
        | Inst::Cvt { .. }
        | Inst::RoundTf32 { .. }
        | Inst::Bitcast { .. }
        | Inst::Pack { .. }
        | Inst::Divide { .. }
        | Inst::Unpack { .. } => true,
        Inst::LoadGlobal { .. }
        | Inst::StoreGlobal { .. }
        | Inst::Atomic(_)
        | Inst::LoadShared { .. }
        | Inst::StoreShared { .. }
        | Inst::LoadMatrix { .. }
        | Inst::CopyAsync { .. }
        | Inst::CommitCopies
        | Inst::WaitCopies { .. }
        | Inst::Barrier
        | Inst::Assert { .. }
        | Inst::Shuffle { .. }
        | Inst::Matrix { .. }
        | Inst::For(_)
        | Inst::While(_)
        | Inst::If(_)
        | Inst::Unit(_)
        | Inst::Roles(_) => false,
    }
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
    match inst {
        Inst::For(l) => Nest::For(l),
        Inst::While(l) => Nest::While(l),
        Inst::If(i) => Nest::If(i),
        Inst::Matrix { dsts, c, .. } => Nest::Matrix { dsts, c },
        Inst::Unit(u) => match &**u {
            Unit::Multiply(m) => Nest::Matrix { dsts: &m.dsts, c: &m.c },
            _ => Nest::Plain,
        },
        Inst::Roles(r) => Nest::Roles(r),
        Inst::Undefined { .. }
        | computes!()
        | Inst::LoadGlobal { .. }
        | Inst::StoreGlobal { .. }
        | Inst::Atomic(_)
        | Inst::LoadShared { .. }
        | Inst::StoreShared { .. }
        | Inst::LoadMatrix { .. }
        | Inst::CopyAsync { .. }
        | Inst::CommitCopies
        | Inst::WaitCopies { .. }
        | Inst::Barrier
        | Inst::Assert { .. }
        | Inst::Shuffle { .. } => Nest::Plain,
    }
}
