//! Values of a lane: their types, where a lane stands, where memory is.

use cranelift_entity::entity_impl;
use smallvec::SmallVec;
use std::fmt;
use tilelift_ir::{GridAxis, Scalar};

/// A value of one lane. Prints as `l12`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LVal(u32);
entity_impl!(LVal, "l");

/// The type of a lane value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum LTy {
    /// A number of an element type.
    Num(Scalar),
    /// 32 bits that hold two 16-bit or four 8-bit numbers, low bits first, or a raw word.
    B32,
}

impl LTy {
    /// `i1`, the type of conditions and guards.
    pub const I1: LTy = LTy::Num(Scalar::I1);
    /// `i32`, the type of indices and shared addresses.
    pub const I32: LTy = LTy::Num(Scalar::I32);
    /// `i64`, the type of global addresses.
    pub const I64: LTy = LTy::Num(Scalar::I64);
    /// `f32`.
    pub const F32: LTy = LTy::Num(Scalar::F32);

    /// The type of a lane value that holds a number of an element type: its own, but a byte for the codes of 8-bit floats, on which
    /// lanes do nothing but move them.
    pub const fn holding(elem: Scalar) -> LTy {
        if elem.is_narrow() { LTy::Num(Scalar::I8) } else { LTy::Num(elem) }
    }

    /// Width in bits; 8 for `i1`, which takes a byte in memory.
    pub const fn bits(self) -> u32 {
        match self {
            LTy::Num(s) => s.bytes() * 8,
            LTy::B32 => 32,
        }
    }
    /// Width in bytes.
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }
}

impl fmt::Display for LTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LTy::Num(s) => s.fmt(f),
            LTy::B32 => f.write_str("b32"),
        }
    }
}

/// Where a lane stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Special {
    /// Lane number in its warp.
    Lane,
    /// Warp number in the program instance.
    Warp,
    /// Position of the program instance on a grid axis.
    ProgramId(GridAxis),
    /// Extent of the grid along an axis.
    NumPrograms(GridAxis),
    /// Number of the running instance, where instances run several grid positions each.
    Worker,
    /// How many such instances run.
    Workers,
    /// Position of the program instance in its cluster.
    ClusterRank,
    /// Which replica of its role the lane belongs to.
    Replica,
}

/// Which lane of the warp a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ShuffleFrom {
    /// Own lane number xor the mask.
    Xor(u32),
    /// The lane whose number is the value (`i32`), modulo the warp size.
    Lane(LVal),
}

/// A list of values, short as a rule.
pub type Vals = SmallVec<[LVal; 4]>;

/// Global or shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Global memory; addresses carry the buffer number plus one above bit 40.
    Global,
    /// Shared memory.
    Shared,
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Global => "global",
            Space::Shared => "shared",
        })
    }
}

/// A place in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Byte address, `i32`.
    pub addr: LVal,
    /// Added to it.
    pub offset: i32,
}

/// A value carried around a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Its name in the body.
    pub param: LVal,
    /// Its value in front of the loop.
    pub init: LVal,
    /// Its next value, made by the body.
    pub next: LVal,
    /// Its name behind the loop.
    pub result: LVal,
}
