//! Extremes of three numbers as one instruction: that of two, and of it and a third right behind.

use super::live::Live;
use super::selector::{Done, Selector};
use crate::isa::Opcode;
use tilelift_lane::{BinOp, Inst, LTy, LVal, Program};

/// Two extremes as one instruction.
pub(super) struct Triple {
    dst: LVal,
    op: BinOp,
    of: [LVal; 3],
}

/// Two extremes, one behind the other, as one.
pub(super) fn triple(program: &Program, live: &Live, first: &Inst, second: &Inst) -> Option<Triple> {
    let (&Inst::Bin { dst: inner, op, a, b }, &Inst::Bin { dst, op: same, a: x, b: y }) = (first, second) else { return None };
    let third = if x == inner { y } else { x };
    let one = op == same && program.vals[dst] == LTy::F32 && (x == inner) != (y == inner) && live.read_once(inner);
    (one && matches!(op, BinOp::Minimum | BinOp::Maximum | BinOp::MinNum | BinOp::MaxNum)).then_some(Triple { dst, op, of: [a, b, third] })
}

impl Selector<'_> {
    /// Both at once, if the chip has an instruction for that; says whether it was.
    pub(super) fn extreme_of_three(&mut self, t: &Triple) -> Result<bool, super::SelectError> {
        let code = match t.op {
            BinOp::MinNum => Opcode::VMin3F32,
            BinOp::MaxNum => Opcode::VMax3F32,
            BinOp::Minimum => Opcode::VMinimum3F32,
            _ => Opcode::VMaximum3F32,
        };
        if !self.live.read(t.dst) || code.desc().number(self.chip).is_none() {
            return Ok(false);
        }
        let operands = t.of.map(|v| self.op(v));
        let made: Done = self.compute(t.dst, |s, to| {
            s.valu(code, to, &operands);
            Ok(())
        });
        made.map(|()| true)
    }
}
