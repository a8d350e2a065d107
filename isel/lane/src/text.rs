//! How the fields of instructions look in a text.

use crate::frame::{Alloc, AllocId};
use crate::machine::MatrixId;
use crate::op::{BinOp, Reduction, UnOp};
use crate::value::{Carried, LTy, LVal, Place, ShuffleFrom, Special, Vals};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;
use std::fmt;
use std::fmt::Write;
use tilelift_ir::{CacheHint, CmpOp, num};

/// What a text asks of the program around an instruction: types of values, and what memory is for.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub vals: &'a PrimaryMap<LVal, LTy>,
    pub allocs: &'a PrimaryMap<AllocId, Alloc>,
}

/// A field on its way to a text; [`crate::print`] says how each type looks.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a, T: ?Sized> {
    pub names: Names<'a>,
    pub it: &'a T,
}

impl<'a> Shown<'a, AllocId> {
    /// What the allocation is for.
    pub fn purpose(&self) -> Option<&'a str> {
        self.names.allocs.get(*self.it).map(|a| a.purpose)
    }
}

/// An address and its offset as a place.
pub(crate) fn place_of(addr: LVal, offset: i32) -> Place {
    Place { addr, offset }
}

/// A list of values with commas between them.
pub(crate) fn list(f: &mut dyn Write, vals: impl IntoIterator<Item = LVal>) -> fmt::Result {
    for (i, v) in vals.into_iter().enumerate() {
        write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
    }
    Ok(())
}

pub(crate) fn defs(p: Names<'_>, f: &mut dyn Write, vals: impl Iterator<Item = LVal>) -> fmt::Result {
    for (i, v) in vals.enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        def(p, f, v)?;
    }
    Ok(())
}

/// A value with its type; a value that the program doesn't have (the verifier refuses it) prints with `?`.
pub(crate) fn def(p: Names<'_>, f: &mut dyn Write, v: LVal) -> fmt::Result {
    match p.vals.get(v) {
        Some(ty) => write!(f, "{v}:{ty}"),
        None => write!(f, "{v}:?"),
    }
}

/// What an instruction makes, in front of its text.
pub(crate) fn results(p: Names<'_>, f: &mut dyn Write, vals: &[LVal]) -> fmt::Result {
    if vals.is_empty() {
        return Ok(());
    }
    defs(p, f, vals.iter().copied())?;
    f.write_str(" = ")
}

pub(crate) fn carry(p: Names<'_>, f: &mut dyn Write, carried: &[Carried]) -> fmt::Result {
    for (i, c) in carried.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { " carry " })?;
        def(p, f, c.param)?;
        write!(f, " = {}", c.init)?;
    }
    Ok(())
}

pub(crate) fn word(f: &mut fmt::Formatter<'_>, name: impl fmt::Debug) -> fmt::Result {
    f.write_str(&format!("{name:?}").to_lowercase())
}

/// A word where something is so.
pub(crate) fn flag(on: Shown<'_, bool>, text: &'static str) -> &'static str {
    if *on.it { text } else { "" }
}

/// Something that may be absent, with a text in front of it.
pub(crate) fn maybe(text: &str, what: Option<impl fmt::Display>) -> String {
    what.map_or(String::new(), |x| format!("{text}{x}"))
}

/// An operand with its type.
pub(crate) fn typed(v: Shown<'_, LVal>) -> String {
    let mut s = String::new();
    // Writing to a string can't fail.
    let _ = def(v.names, &mut s, *v.it);
    s
}

/// The number that bits stand for under the type of a value.
pub(crate) fn bits(v: Shown<'_, LVal>, bits: Shown<'_, u64>) -> String {
    let bits = *bits.it;
    match v.names.vals.get(*v.it) {
        Some(&LTy::Num(s)) if s.is_float() => format!("{:?} // {bits:#x}", num::from_bits(bits, s)),
        Some(LTy::Num(_)) => (bits as i64).to_string(),
        Some(LTy::B32) | None => format!("{bits:#x}"),
    }
}

macro_rules! shown {
    ($($ty:ty => |$it:ident, $f:ident| $show:expr;)*) => {
        $(impl fmt::Display for Shown<'_, $ty> {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $it = self.it;
                $show
            }
        })*
    };
}

shown! {
    u32 => |n, f| n.fmt(f);
    LVal => |v, f| v.fmt(f);
    AllocId => |a, f| a.fmt(f);
    MatrixId => |m, f| m.fmt(f);
    CmpOp => |op, f| op.fmt(f);
    UnOp => |op, f| word(f, op);
    BinOp => |op, f| word(f, op);
    Vals => |all, f| list(f, all.iter().copied());
    SmallVec<[LVal; 16]> => |all, f| list(f, all.iter().copied());
    Option<LVal> => |guard, f| guard.map_or(Ok(()), |g| write!(f, " if {g}"));
    Option<Reduction> => |op, f| op.map_or(Ok(()), |r| write!(f, ".{r}"));
    CacheHint => |cache, f| if *cache == CacheHint::Normal { Ok(()) } else { write!(f, ".{cache}") };
    Place => |at, f| match at.offset {
        0 => write!(f, "[{}]", at.addr),
        o if o < 0 => write!(f, "[{} - {}]", at.addr, o.unsigned_abs()),
        o => write!(f, "[{} + {o}]", at.addr),
    };
    ShuffleFrom => |from, f| match from {
        ShuffleFrom::Xor(mask) => write!(f, "xor {mask}"),
        ShuffleFrom::Lane(l) => write!(f, "lane {l}"),
    };
    Special => |what, f| match what {
        Special::Lane => f.write_str("lane"),
        Special::Warp => f.write_str("warp"),
        Special::ProgramId(a) => write!(f, "program_id {a}"),
        Special::NumPrograms(a) => write!(f, "num_programs {a}"),
        Special::Worker => f.write_str("worker"),
        Special::Workers => f.write_str("workers"),
        Special::ClusterRank => f.write_str("cluster_rank"),
        Special::Replica => f.write_str("replica"),
    };
}
