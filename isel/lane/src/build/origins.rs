//! How values came about of which two may be computed at once: see [`super::pairs`].

use crate::op::BinOp;
use crate::value::LVal;
use cranelift_entity::SecondaryMap;
use tilelift_ir::Scalar;

/// How a value came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// An operation on two 16-bit floats.
    Bin(BinOp, LVal, LVal),
    /// The float of the signed 4 bits of a word from a bit on.
    Nibble(LVal, u32),
    /// The float of a byte, which is an integer or a code.
    Byte(LVal, Scalar),
}

/// A byte of a word that each lane picks for itself: number `lane + at`, of which `lane` is the lane's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Picked {
    pub word: LVal,
    pub lane: LVal,
    pub at: u32,
}

/// How values came about of which two may be computed at once.
#[derive(Default)]
pub(super) struct Pairs {
    pub origins: SecondaryMap<LVal, Option<Origin>>,
    pub picked: SecondaryMap<LVal, Option<Picked>>,
    /// Words of four such bytes.
    pub gathered: SecondaryMap<LVal, Option<[Picked; 4]>>,
}

impl Pairs {
    /// Says of which values an operation made a 16-bit float.
    pub(super) fn computed(&mut self, v: LVal, op: BinOp, a: LVal, b: LVal) {
        self.origins[v] = Some(Origin::Bin(op, a, b));
    }
}
