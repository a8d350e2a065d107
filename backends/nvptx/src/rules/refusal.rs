//! Why an operation has no row for a type.

use super::rule::Key;
use crate::target::FUNCTIONS;
use std::fmt;
use tilelift_isel::lane::{LTy, Opcode, Takes};

/// Why an operation has no rule for a type, and what to do instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRule {
    /// It makes several values, or none.
    Results,
    /// None is filed.
    Unfiled,
    /// The rule by way of `f32` is missing.
    ViaF32,
    /// The machine has no such instruction.
    Instruction,
    /// A conversion to the same type.
    SameType,
    /// A fused multiply-add of a type that has none.
    Fused,
    /// It rounds an f32 to bf16.
    Single,
    /// It converts codes, as words.
    Words,
    /// It takes floats.
    Floats,
    /// A raw word.
    RawWord,
    /// A truth value.
    Truth,
    /// It takes integers.
    Integers,
}

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoRule::Results => "it makes several values, or none, and has no text of its own",
            NoRule::Unfiled => "no rule is filed for this type; cast the operands",
            NoRule::ViaF32 => "its f32 rule is missing; cast the operands",
            NoRule::Instruction => "the machine has no such instruction; write it as others",
            NoRule::SameType => "a conversion to the same type is no instruction; use the value",
            NoRule::Fused => "fma takes floats, i32 or i64; use mul and add",
            NoRule::Single => "an f32 is rounded to bf16; cast the operand",
            NoRule::Words => "codes are converted as i32; widen the operand",
            NoRule::Floats => "the operation takes floats; cast the operands",
            NoRule::RawWord => "a raw word has no arithmetic; unpack or bitcast it",
            NoRule::Truth => "i1 has no arithmetic; use and, or, xor, or cast to i32",
            NoRule::Integers => "the operation takes integers; cast or bitcast the operands",
        })
    }
}

/// Why an operation has no row for a type, and what to do instead; `None` if it should have one.
pub(crate) fn refusal(key: Key, ty: LTy) -> Option<NoRule> {
    match key {
        Key::Un(op) if op.is_optional() && op.takes().allows(ty) => {
            let own = FUNCTIONS.iter().any(|&(f, s)| f == op && LTy::Num(s) == ty);
            (!own).then_some(NoRule::Instruction)
        }
        Key::Un(op) => not_taken(op.takes(), ty),
        Key::Bin(op) => not_taken(op.takes(), ty),
        Key::Cmp(op) if op.is_unsigned() => not_taken(Takes::Ints, ty),
        Key::Cvt(from) if LTy::Num(from) == ty => Some(NoRule::SameType),
        Key::Plain(Opcode::Fma) if !Takes::Fused.allows(ty) => Some(NoRule::Fused),
        Key::Plain(_) | Key::Cmp(_) | Key::Cvt(_) | Key::Bits(_) => None,
    }
}

/// Why an operation does not take a type.
fn not_taken(takes: Takes, ty: LTy) -> Option<NoRule> {
    if takes.allows(ty) {
        return None;
    }
    Some(match (takes, ty) {
        (Takes::Single, _) => NoRule::Single,
        (Takes::Words, _) => NoRule::Words,
        (Takes::Floats, _) => NoRule::Floats,
        (_, LTy::B32) => NoRule::RawWord,
        (_, LTy::I1) => NoRule::Truth,
        (_, LTy::Num(_)) => NoRule::Integers,
    })
}
