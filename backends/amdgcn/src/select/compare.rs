//! Comparisons: masks of lanes. Those of integers that are alike in all lanes set `scc`, and a mask of all lanes or of none is made of that.

use super::error::{Computation, Reason};
use super::ops::narrow;
use super::selector::{Done, Selector};
use crate::isa::Opcode;
use crate::mir::Operand;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{LTy, LVal, Opcode as LaneOpcode};

/// Signed words, unsigned words.
const fn words(op: CmpOp) -> (Opcode, Opcode) {
    match op {
        CmpOp::Eq => (Opcode::VCmpEqU32, Opcode::SCmpEqU32),
        CmpOp::Ne => (Opcode::VCmpNeU32, Opcode::SCmpLgU32),
        CmpOp::Lt => (Opcode::VCmpLtI32, Opcode::SCmpLtI32),
        CmpOp::Le => (Opcode::VCmpLeI32, Opcode::SCmpLeI32),
        CmpOp::Gt => (Opcode::VCmpGtI32, Opcode::SCmpGtI32),
        CmpOp::Ge => (Opcode::VCmpGeI32, Opcode::SCmpGeI32),
        CmpOp::Ult => (Opcode::VCmpLtU32, Opcode::SCmpLtU32),
        CmpOp::Ule => (Opcode::VCmpLeU32, Opcode::SCmpLeU32),
        CmpOp::Ugt => (Opcode::VCmpGtU32, Opcode::SCmpGtU32),
        CmpOp::Uge => (Opcode::VCmpGeU32, Opcode::SCmpGeU32),
    }
}

const fn wide(op: CmpOp) -> Opcode {
    match op {
        CmpOp::Eq => Opcode::VCmpEqU64,
        CmpOp::Ne => Opcode::VCmpNeU64,
        CmpOp::Lt => Opcode::VCmpLtI64,
        CmpOp::Le => Opcode::VCmpLeI64,
        CmpOp::Gt => Opcode::VCmpGtI64,
        CmpOp::Ge => Opcode::VCmpGeI64,
        CmpOp::Ult => Opcode::VCmpLtU64,
        CmpOp::Ule => Opcode::VCmpLeU64,
        CmpOp::Ugt => Opcode::VCmpGtU64,
        CmpOp::Uge => Opcode::VCmpGeU64,
    }
}

/// Of `f16`, `f32`, `f64`: false if an operand is a NaN, but for `ne`.
const fn floats(op: CmpOp) -> [Opcode; 3] {
    match op {
        CmpOp::Eq => [Opcode::VCmpEqF16, Opcode::VCmpEqF32, Opcode::VCmpEqF64],
        CmpOp::Ne => [Opcode::VCmpNeqF16, Opcode::VCmpNeqF32, Opcode::VCmpNeqF64],
        CmpOp::Lt | CmpOp::Ult => [Opcode::VCmpLtF16, Opcode::VCmpLtF32, Opcode::VCmpLtF64],
        CmpOp::Le | CmpOp::Ule => [Opcode::VCmpLeF16, Opcode::VCmpLeF32, Opcode::VCmpLeF64],
        CmpOp::Gt | CmpOp::Ugt => [Opcode::VCmpGtF16, Opcode::VCmpGtF32, Opcode::VCmpGtF64],
        CmpOp::Ge | CmpOp::Uge => [Opcode::VCmpGeF16, Opcode::VCmpGeF32, Opcode::VCmpGeF64],
    }
}

/// The comparison of two numbers of a type in scalar registers, which sets `scc`.
pub(super) const fn scalar(op: CmpOp, ty: Scalar) -> Option<Opcode> {
    match (ty, op) {
        (Scalar::I8 | Scalar::I16 | Scalar::I32, _) => Some(words(op).1),
        (Scalar::I64, CmpOp::Eq) => Some(Opcode::SCmpEqU64),
        (Scalar::I64, CmpOp::Ne) => Some(Opcode::SCmpLgU64),
        _ => None,
    }
}

impl Selector<'_> {
    pub(super) fn compare(&mut self, dst: LVal, op: CmpOp, a: LVal, b: LVal) -> Done {
        let ty = self.ty(a);
        let (x, y) = (self.op(a), self.op(b));
        let LTy::Num(s) = ty else { return Self::refuse(Computation::Other(LaneOpcode::Cmp), ty, Reason::Type) };
        if let Some(code) = scalar(op, s).filter(|_| self.in_scalars(a) && self.in_scalars(b)) {
            self.salu(code, None, &[x, y]);
            return self.all_or_none(dst);
        }
        let code = match s {
            Scalar::I1 => return self.compare_truth(dst, op, x, y),
            Scalar::I8 | Scalar::I16 | Scalar::I32 => words(op).0,
            Scalar::I64 => wide(op),
            Scalar::F16 => floats(op)[0],
            Scalar::F32 => floats(op)[1],
            Scalar::F64 => floats(op)[2],
            Scalar::BF16 => {
                let [x, y] = [x, y].map(|o| Operand::Reg(self.widened(o, s)));
                let to = self.def(dst);
                self.valu(floats(op)[1], to, &[x, y]);
                return Ok(());
            }
            narrow!() => return Self::refuse(Computation::Other(LaneOpcode::Cmp), ty, Reason::Type),
        };
        let to = self.def(dst);
        self.valu(code, to, &[x, y]);
        Ok(())
    }

    /// A mask of all lanes if `scc` is set, else of none.
    fn all_or_none(&mut self, dst: LVal) -> Done {
        let to = self.def(dst);
        self.salu(Opcode::SCselectB64, Some(to), &[(-1).into(), 0.into()]);
        Ok(())
    }

    /// Truth values as the numbers 0 and 1.
    fn compare_truth(&mut self, dst: LVal, op: CmpOp, x: Operand, y: Operand) -> Done {
        let (code, x, y) = match op {
            CmpOp::Eq => (Opcode::SXnorB64, x, y),
            CmpOp::Ne => (Opcode::SXorB64, x, y),
            CmpOp::Lt | CmpOp::Ult => (Opcode::SAndn2B64, y, x),
            CmpOp::Gt | CmpOp::Ugt => (Opcode::SAndn2B64, x, y),
            CmpOp::Le | CmpOp::Ule => (Opcode::SOrn2B64, y, x),
            CmpOp::Ge | CmpOp::Uge => (Opcode::SOrn2B64, x, y),
        };
        let to = self.def(dst);
        self.salu(code, Some(to), &[x, y]);
        Ok(())
    }
}
