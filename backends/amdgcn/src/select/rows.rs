//! Operations that are one instruction: a row says for which types, and what scalar registers have for it.
//!
//! Integers of 8 and 16 bits live in 32, sign-extended; a row that leaves other bits there says so, and the sign is extended behind it.

use crate::isa::Opcode;
use tilelift_ir::Scalar;
use tilelift_lane::{BinOp, LTy, UnOp};

/// What a row is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Un(UnOp),
    Bin(BinOp),
}

/// A row.
pub(super) struct Row {
    op: Op,
    types: &'static [Scalar],
    /// Of vector registers.
    pub(super) vector: Opcode,
    /// Of scalar registers, for integers.
    pub(super) scalar: Option<Opcode>,
    /// The operands may change places, so that a literal stands first.
    pub(super) commutes: bool,
    /// The sign of what has fewer than 32 bits is to be extended.
    pub(super) extend: bool,
}

use Scalar::{F16, F32, F64, I8, I16, I32};

const NARROW: &[Scalar] = &[I8, I16];
const WORDS: &[Scalar] = &[I8, I16, I32];

/// Integers, two operands.
const fn int(op: BinOp, types: &'static [Scalar], vector: Opcode, scalar: Opcode, commutes: bool, extend: bool) -> Row {
    Row { op: Op::Bin(op), types, vector, scalar: Some(scalar), commutes, extend }
}

/// Floats, two operands.
const fn float(op: BinOp, types: &'static [Scalar], vector: Opcode, commutes: bool) -> Row {
    Row { op: Op::Bin(op), types, vector, scalar: None, commutes, extend: false }
}

/// Floats, one operand.
const fn one(op: UnOp, types: &'static [Scalar], vector: Opcode) -> Row {
    Row { op: Op::Un(op), types, vector, scalar: None, commutes: false, extend: false }
}

const ROWS: &[Row] = &[
    int(BinOp::Add, &[I32], Opcode::VAddU32, Opcode::SAddU32, true, false),
    int(BinOp::Add, NARROW, Opcode::VAddU32, Opcode::SAddU32, true, true),
    int(BinOp::Sub, &[I32], Opcode::VSubU32, Opcode::SSubU32, false, false),
    int(BinOp::Sub, NARROW, Opcode::VSubU32, Opcode::SSubU32, false, true),
    int(BinOp::Mul, &[I32], Opcode::VMulLoU32, Opcode::SMulI32, true, false),
    int(BinOp::Mul, NARROW, Opcode::VMulLoU32, Opcode::SMulI32, true, true),
    int(BinOp::And, WORDS, Opcode::VAndB32, Opcode::SAndB32, true, false),
    int(BinOp::Or, WORDS, Opcode::VOrB32, Opcode::SOrB32, true, false),
    int(BinOp::Xor, WORDS, Opcode::VXorB32, Opcode::SXorB32, true, false),
    int(BinOp::Minimum, WORDS, Opcode::VMinI32, Opcode::SMinI32, true, false),
    int(BinOp::Maximum, WORDS, Opcode::VMaxI32, Opcode::SMaxI32, true, false),
    // Extending the sign keeps the order of unsigned numbers.
    int(BinOp::MinimumU, WORDS, Opcode::VMinU32, Opcode::SMinU32, true, false),
    int(BinOp::MaximumU, WORDS, Opcode::VMaxU32, Opcode::SMaxU32, true, false),
    int(BinOp::MulHi, &[I32], Opcode::VMulHiI32, Opcode::SMulHiI32, true, false),
    int(BinOp::MulHiU, &[I32], Opcode::VMulHiU32, Opcode::SMulHiU32, true, false),
    Row { op: Op::Un(UnOp::Not), types: WORDS, vector: Opcode::VNotB32, scalar: Some(Opcode::SNotB32), commutes: false, extend: false },
    Row { op: Op::Un(UnOp::Own), types: &[I32], vector: Opcode::VMovB32, scalar: Some(Opcode::SMovB32), commutes: false, extend: false },
    float(BinOp::Add, &[F32], Opcode::VAddF32, true),
    float(BinOp::Sub, &[F32], Opcode::VSubF32, false),
    float(BinOp::Mul, &[F32], Opcode::VMulF32, true),
    float(BinOp::MinNum, &[F32], Opcode::VMinF32, true),
    float(BinOp::MaxNum, &[F32], Opcode::VMaxF32, true),
    one(UnOp::Floor, &[F32], Opcode::VFloorF32),
    one(UnOp::Ceil, &[F32], Opcode::VCeilF32),
    one(UnOp::Round, &[F32], Opcode::VRndneF32),
    one(UnOp::Trunc, &[F32], Opcode::VTruncF32),
    one(UnOp::Exp2, &[F32], Opcode::VExpF32),
    one(UnOp::RcpNormal, &[F32], Opcode::VRcpF32),
    float(BinOp::Add, &[F64], Opcode::VAddF64, true),
    float(BinOp::Mul, &[F64], Opcode::VMulF64, true),
    float(BinOp::MinNum, &[F64], Opcode::VMinF64, true),
    float(BinOp::MaxNum, &[F64], Opcode::VMaxF64, true),
    one(UnOp::Floor, &[F64], Opcode::VFloorF64),
    one(UnOp::Ceil, &[F64], Opcode::VCeilF64),
    one(UnOp::Round, &[F64], Opcode::VRndneF64),
    one(UnOp::Trunc, &[F64], Opcode::VTruncF64),
    float(BinOp::Add, &[F16], Opcode::VAddF16, true),
    float(BinOp::Sub, &[F16], Opcode::VSubF16, false),
    float(BinOp::Mul, &[F16], Opcode::VMulF16, true),
    float(BinOp::MinNum, &[F16], Opcode::VMinF16, true),
    float(BinOp::MaxNum, &[F16], Opcode::VMaxF16, true),
    one(UnOp::Floor, &[F16], Opcode::VFloorF16),
    one(UnOp::Ceil, &[F16], Opcode::VCeilF16),
    one(UnOp::Round, &[F16], Opcode::VRndneF16),
    one(UnOp::Trunc, &[F16], Opcode::VTruncF16),
    one(UnOp::Exp2, &[F16], Opcode::VExpF16),
    one(UnOp::Log2, &[F16], Opcode::VLogF16),
    one(UnOp::Rcp, &[F16], Opcode::VRcpF16),
    one(UnOp::Rsqrt, &[F16], Opcode::VRsqF16),
];

/// The row of an operation of a type, if it has one.
pub(super) fn row(op: Op, ty: LTy) -> Option<&'static Row> {
    let LTy::Num(s) = ty else { return None };
    ROWS.iter().find(|r| r.op == op && r.types.contains(&s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operation_has_two_rows_for_a_type() {
        for (i, a) in ROWS.iter().enumerate() {
            for b in &ROWS[i + 1..] {
                assert!(a.op != b.op || !a.types.iter().any(|t| b.types.contains(t)), "row {i}");
            }
        }
    }

    #[test]
    fn rows_fit_the_instruction_table() {
        for r in ROWS {
            let sources = match r.op {
                Op::Un(_) => 1,
                Op::Bin(_) => 2,
            };
            assert_eq!(r.vector.desc().slots.len(), 1 + sources, "{:?}", r.vector);
            if let Some(s) = r.scalar {
                assert_eq!(s.desc().slots.len(), 1 + sources, "{s:?}");
            }
        }
    }
}
