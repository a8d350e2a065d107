//! Two computations of 32-bit floats by one instruction ([`super::packs`] says which).

use super::packs::Pack;
use super::selector::{Home, Selector};
use crate::isa::Opcode;
use crate::mir::{File, Inst, Mods, Operand, Span};
use smallvec::SmallVec;
use tilelift_lane::{BinOp, LVal};

impl Selector<'_> {
    /// Two computations as one instruction, if what they make and what they read stands side by side; says whether it was.
    pub(super) fn computed_together(&mut self, pack: &Pack) -> bool {
        let [d, e] = pack.dsts;
        let homes = [d, e].map(|v| self.placed_home(v));
        let Some(to) = self.beside(homes[0], homes[1]) else { return false };
        let fits = |s: &Self, &[a, b]: &[LVal; 2]| a == b || s.beside(s.home(a), s.home(b)).is_some();
        if !self.live.read(d) || !self.live.read(e) || !pack.operands.iter().all(|o| fits(self, o)) {
            return false;
        }
        let operands: SmallVec<[(Span, bool); 3]> = pack.operands.iter().map(|&[a, b]| self.pair_of(a, b)).collect();
        let op_sel_hi_off = operands.iter().enumerate().fold(0, |bits, (i, &(_, once))| bits | u8::from(once) << i);
        let operands = operands.into_iter().map(|(span, _)| Operand::Reg(span));
        let (code, mods) = match pack.op {
            Some(BinOp::Mul) => (Opcode::VPkMulF32, Mods::default()),
            Some(BinOp::Sub) => (Opcode::VPkAddF32, Mods { neg: 0b10, neg_hi: 0b10, ..Mods::default() }),
            Some(_) => (Opcode::VPkAddF32, Mods::default()),
            None => (Opcode::VPkFmaF32, Mods::default()),
        };
        let mods = Mods { op_sel_hi_off, ..mods };
        for v in pack.dsts {
            self.def(v);
        }
        self.push(Inst::new(code, [Operand::Reg(to)].into_iter().chain(operands)).with(mods));
        true
    }

    fn placed_home(&mut self, v: LVal) -> Home {
        self.placed(v).map_or(Home::Nowhere, Home::Reg)
    }

    /// Two words of vector registers as an aligned pair.
    fn beside(&self, a: Home, b: Home) -> Option<Span> {
        let (Home::Reg(a), Home::Reg(b)) = (a, b) else { return None };
        let pair = a.words == 1 && b.words == 1 && a.reg == b.reg && a.first.is_multiple_of(2) && b.first == a.first + 1;
        (pair && self.file(a) == File::Vector).then_some(Span { words: 2, ..a })
    }

    /// Registers with both values: their own; or, of what is one, a pair whose first word alone is read.
    fn pair_of(&mut self, a: LVal, b: LVal) -> (Span, bool) {
        match self.beside(self.home(a), self.home(b)) {
            Some(span) => (span, false),
            None => (self.in_pair(a), true),
        }
    }
}
