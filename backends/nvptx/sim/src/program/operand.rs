//! Operands of decoded instructions: planes, predicates, addresses, and the types and operations that instructions share.

use crate::types::Space;

/// A 32-bit or 64-bit plane. The top bit of the index selects the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reg(u32);

const WIDE: u32 = 1 << 31;

impl Reg {
    pub(crate) fn r(i: u32) -> Reg {
        Reg(i)
    }

    pub(crate) fn d(i: u32) -> Reg {
        Reg(i | WIDE)
    }

    pub(crate) fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    pub(crate) fn i(self) -> usize {
        (self.0 & !WIDE) as usize
    }
}

/// A predicate register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pred(pub(crate) u32);

/// A predicate operand, possibly negated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PSrc {
    pub(crate) p: Pred,
    pub(crate) neg: bool,
}

/// `[base + off]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub(crate) base: Reg,
    pub(crate) off: i64,
    pub(crate) space: Space,
}

/// Read-modify-write operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

/// Element formats of matrix operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MmaTy {
    F16,
    Bf16,
    Tf32,
    F64,
    S8,
    U8,
    E4m3,
    E5m2,
}
