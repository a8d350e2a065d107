//! Register classes: which kind of PTX register holds a lane value.
//!
//! `i8` lives sign-extended in a 16-bit register, `i1` in a predicate; 16-bit floats are bit patterns of 16-bit registers.

use tilelift_ir::Scalar;
use tilelift_isel::lane::LTy;

/// A kind of PTX register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Class {
    /// `.pred`
    P,
    /// `.b16`
    H,
    /// `.b32`
    R,
    /// `.b64`
    D,
    /// `.f32`
    F,
    /// `.f64`
    E,
}

impl Class {
    /// Every class, in the order of declarations.
    pub(crate) const ALL: [Class; 6] = [Class::P, Class::H, Class::R, Class::D, Class::F, Class::E];

    /// The class of a type's registers.
    pub(crate) const fn of(ty: LTy) -> Class {
        match ty {
            LTy::B32 => Class::R,
            LTy::Num(Scalar::I1) => Class::P,
            LTy::Num(Scalar::I8 | Scalar::I16 | Scalar::F16 | Scalar::BF16) => Class::H,
            // No lane value has these types: their codes are `i8`.
            LTy::Num(
                Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 | Scalar::I4,
            ) => Class::H,
            LTy::Num(Scalar::I32) => Class::R,
            LTy::Num(Scalar::I64) => Class::D,
            LTy::Num(Scalar::F32) => Class::F,
            LTy::Num(Scalar::F64) => Class::E,
        }
    }

    /// Prefix of register names.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Class::P => "%p",
            Class::H => "%h",
            Class::R => "%r",
            Class::D => "%rd",
            Class::F => "%f",
            Class::E => "%fd",
        }
    }

    /// Type in a register declaration.
    pub(crate) const fn declared(self) -> &'static str {
        match self {
            Class::P => ".pred",
            Class::H => ".b16",
            Class::R => ".b32",
            Class::D => ".b64",
            Class::F => ".f32",
            Class::E => ".f64",
        }
    }

    /// The move of a register; predicates move as `mov.pred`.
    pub(crate) const fn mov(self) -> &'static str {
        match self {
            Class::P => "mov.pred ",
            Class::H => "mov.b16 ",
            Class::R => "mov.b32 ",
            Class::D => "mov.b64 ",
            Class::F => "mov.f32 ",
            Class::E => "mov.f64 ",
        }
    }
}

/// True for types of a byte that are no truth value.
pub(crate) const fn is_byte(ty: LTy) -> bool {
    matches!(ty, LTy::Num(s) if !matches!(s, Scalar::I1) && s.bytes() == 1)
}

/// The suffix of a load or store of a type: `i1` is a byte, `i8` extends its sign.
pub(crate) const fn memory_type(ty: LTy) -> &'static str {
    if is_byte(ty) {
        return ".s8";
    }
    match Class::of(ty) {
        Class::P => ".u8",
        Class::H => ".b16",
        Class::R => ".b32",
        Class::D => ".b64",
        Class::F => ".f32",
        Class::E => ".f64",
    }
}

/// True if the same bits of one type under the other need no instruction: both live in the same class at the same width.
pub(crate) fn shares_bits(from: LTy, to: LTy) -> bool {
    Class::of(from) == Class::of(to) && from.bits() == to.bits()
}
