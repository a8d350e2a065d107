//! Small closed vocabularies of PTX: scalar types, state spaces, rounding modes, comparisons.

/// A PTX scalar type as written after a dot (`.u32`, `.bf16x2`, `.pred`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub(crate) enum Ty {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
}

/// Name and bit width of every type; the single source for parsing and printing.
const TYPES: [(Ty, &str, u32); 21] = [
    (Ty::Pred, "pred", 1),
    (Ty::B8, "b8", 8),
    (Ty::B16, "b16", 16),
    (Ty::B32, "b32", 32),
    (Ty::B64, "b64", 64),
    (Ty::B128, "b128", 128),
    (Ty::U8, "u8", 8),
    (Ty::U16, "u16", 16),
    (Ty::U32, "u32", 32),
    (Ty::U64, "u64", 64),
    (Ty::S8, "s8", 8),
    (Ty::S16, "s16", 16),
    (Ty::S32, "s32", 32),
    (Ty::S64, "s64", 64),
    (Ty::F16, "f16", 16),
    (Ty::F16x2, "f16x2", 32),
    (Ty::Bf16, "bf16", 16),
    (Ty::Bf16x2, "bf16x2", 32),
    (Ty::Tf32, "tf32", 32),
    (Ty::F32, "f32", 32),
    (Ty::F64, "f64", 64),
];

impl Ty {
    pub(crate) fn parse(s: &str) -> Option<Ty> {
        TYPES.iter().find(|t| t.1 == s).map(|t| t.0)
    }

    fn row(self) -> (Ty, &'static str, u32) {
        TYPES[self as usize]
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    pub(crate) fn bits(self) -> u32 {
        self.row().2
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub(crate) fn is_unsigned(self) -> bool {
        matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }

    /// Signed or unsigned integer (not an untyped `.bN`).
    pub(crate) fn is_int(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    pub(crate) fn is_bits(self) -> bool {
        matches!(self, Ty::B8 | Ty::B16 | Ty::B32 | Ty::B64 | Ty::B128)
    }

    pub(crate) fn is_float(self) -> bool {
        !self.is_int() && !self.is_bits() && self != Ty::Pred
    }

    /// Whether a register declared as `reg` may be an operand of instruction type `self`
    /// (PTX ISA, "Operand Type Checking"): same size, and equal kind unless one is untyped.
    pub(crate) fn accepts(self, reg: Ty) -> bool {
        self.bits() == reg.bits() && self.kind_accepts(reg)
    }

    /// The kind half of [`Ty::accepts`], ignoring size.
    pub(crate) fn kind_accepts(self, reg: Ty) -> bool {
        if (self == Ty::Pred) != (reg == Ty::Pred) {
            return false;
        }
        self == reg
            || self.is_bits()
            || reg.is_bits()
            || (self.is_int() && reg.is_int())
            || (self.is_float() && reg.is_float() && self.bits() != reg.bits())
    }
}

/// A state space named by an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    Global,
    Shared,
    /// The shared memory of every CTA of the cluster.
    Cluster,
    Param,
    Const,
    /// No state space given: the address is generic.
    Generic,
}

/// Rounding of a result to a floating-point format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Round {
    /// Nearest, ties to even.
    Rn,
    /// Nearest, ties away from zero.
    Rna,
    /// Toward zero.
    Rz,
    /// Toward minus infinity.
    Rm,
    /// Toward plus infinity.
    Rp,
}

/// Comparison operators of `setp`/`set`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

impl Cmp {
    /// `lo`, `ls`, `hi`, `hs` are the unsigned spellings of lt, le, gt, ge.
    pub(crate) fn parse(s: &str) -> Option<Cmp> {
        Some(match s {
            "eq" => Cmp::Eq,
            "ne" => Cmp::Ne,
            "lt" | "lo" => Cmp::Lt,
            "le" | "ls" => Cmp::Le,
            "gt" | "hi" => Cmp::Gt,
            "ge" | "hs" => Cmp::Ge,
            "equ" => Cmp::Equ,
            "neu" => Cmp::Neu,
            "ltu" => Cmp::Ltu,
            "leu" => Cmp::Leu,
            "gtu" => Cmp::Gtu,
            "geu" => Cmp::Geu,
            "num" => Cmp::Num,
            "nan" => Cmp::Nan,
            _ => return None,
        })
    }

    /// Applies the comparison to an ordering (`None` = unordered, some operand is NaN).
    pub(crate) fn holds(self, o: Option<std::cmp::Ordering>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match self {
            Cmp::Eq => o == Some(Equal),
            Cmp::Ne => matches!(o, Some(Less | Greater)),
            Cmp::Lt => o == Some(Less),
            Cmp::Le => matches!(o, Some(Less | Equal)),
            Cmp::Gt => o == Some(Greater),
            Cmp::Ge => matches!(o, Some(Greater | Equal)),
            Cmp::Equ => matches!(o, None | Some(Equal)),
            Cmp::Neu => o != Some(Equal),
            Cmp::Ltu => matches!(o, None | Some(Less)),
            Cmp::Leu => o != Some(Greater),
            Cmp::Gtu => matches!(o, None | Some(Greater)),
            Cmp::Geu => o != Some(Less),
            Cmp::Num => o.is_some(),
            Cmp::Nan => o.is_none(),
        }
    }
}

/// Boolean connectives (`setp ... .and`, `and.pred`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

impl BoolOp {
    pub(crate) fn parse(s: &str) -> Option<BoolOp> {
        match s {
            "and" => Some(BoolOp::And),
            "or" => Some(BoolOp::Or),
            "xor" => Some(BoolOp::Xor),
            _ => None,
        }
    }

    pub(crate) fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            BoolOp::And => a & b,
            BoolOp::Or => a | b,
            BoolOp::Xor => a ^ b,
        }
    }
}
