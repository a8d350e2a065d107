//! What a row of the vector instructions says: encodings, types of operands, and the function of one lane.

use crate::num::Env;
use std::borrow::Cow;

/// The type of an operand. Modifiers act by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ty {
    /// Absent.
    No,
    B16,
    F16,
    B32,
    F32,
    B64,
    F64,
    /// Four dwords; only one instruction family, which is refused.
    B128,
    /// A mask of lanes in SGPRs: the lane sees its bit.
    Mask,
    /// The scalar lane number of `v_readlane`.
    Lane,
}

impl Ty {
    /// Dwords.
    pub fn dwords(self) -> u8 {
        match self {
            Ty::No => 0,
            Ty::B16 | Ty::F16 | Ty::B32 | Ty::F32 | Ty::Lane => 1,
            Ty::B64 | Ty::F64 | Ty::Mask => 2,
            Ty::B128 => 4,
        }
    }

    /// The bit of the sign, if modifiers apply.
    pub fn sign(self) -> Option<u32> {
        match self {
            Ty::F16 => Some(15),
            Ty::F32 => Some(31),
            Ty::F64 => Some(63),
            _ => None,
        }
    }
}

/// The shape of an instruction: what is done besides applying the function to every active lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The function's value is the destination.
    Lane,
    /// As `Lane`; the low dword of the result depends on low dwords only.
    Upward,
    /// As `Lane`; each dword of the result depends on the same dword of the source.
    Halves,
    /// The destination is the third source.
    Mac,
    /// The literal is the second (`MK`) or third (`AK`) source.
    MadMK,
    MadAK,
    /// A mask of lanes is the destination; `cmpx` writes EXEC, too.
    Cmp {
        exec: bool,
    },
    /// Bit 32 of the value goes to a mask of carries.
    Carry,
    /// 64-bit sum with a carry that is its own.
    Mad64 {
        signed: bool,
    },
    DivScale,
    /// Scaled up where VCC says so.
    DivFmas,
    /// The third source is the number of the lane.
    LaneId,
    /// The function is a truth table in the modifiers.
    BitOp3,
    ReadLane,
    ReadFirst,
    WriteLane,
    Swap,
    /// Exchanges rows of the two operands: every other row of 16 or half of 32.
    SwapRows(u8),
    AccRead,
    AccWrite,
    AccMov,
    /// Low and high halves apart.
    Packed16,
    /// Two dwords apart.
    Packed32,
    PkMov,
    /// The result is f32 (0), or f16 in the low (1) or high (2) half.
    Mix(u8),
    /// A part of the destination is written, chosen by op_sel: a half.
    Half,
    /// As `Half`: a byte.
    Byte,
    /// The source is a byte or half that op_sel chooses.
    FromByte,
    FromHalf,
    /// The lower half is written, the upper kept.
    KeepHigh,
    Nop,
    /// Known, and not simulated.
    Refused,
}

/// The class of an instruction for hazards and prices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Plain,
    /// The transcendental unit: a quarter of the rate.
    Trans,
    Dot,
    /// f64 and wide multiplications.
    Wide,
}

/// The encoding that gives the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Enc {
    V1,
    V2,
    VC,
    V3,
    P,
}

/// The function of a lane: sources to result.
pub(crate) type Eval = fn(&Env, [u64; 3]) -> u64;

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub name: Cow<'static, str>,
    pub enc: Enc,
    pub op: u16,
    pub chips: u8,
    pub src: [Ty; 3],
    pub dst: Ty,
    pub kind: Kind,
    pub class: Class,
    pub eval: Eval,
}

/// All chips, and those from MI300 and MI350 on.
pub(crate) const ALL: u8 = 7;
pub(crate) const MI300: u8 = 6;
pub(crate) const MI350: u8 = 4;
/// Only MI200.
pub(crate) const MI200: u8 = 1;

pub(super) fn row(name: &'static str, enc: Enc, op: u16, src: &[Ty], dst: Ty, eval: Eval) -> Row {
    let mut all = [Ty::No; 3];
    for (to, &from) in all.iter_mut().zip(src) {
        *to = from;
    }
    let class = if dst == Ty::F64 || all.contains(&Ty::F64) { Class::Wide } else { Class::Plain };
    Row { name: Cow::Borrowed(name), enc, op, chips: ALL, src: all, dst, kind: Kind::Lane, class, eval }
}

impl Row {
    pub(super) fn kind(mut self, kind: Kind) -> Row {
        self.kind = kind;
        self
    }

    pub(super) fn class(mut self, class: Class) -> Row {
        self.class = class;
        self
    }

    pub(super) fn on(mut self, chips: u8) -> Row {
        self.chips = chips;
        self
    }
}
