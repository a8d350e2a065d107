//! Quotients and rests of 64-bit integers: long division, a bit per iteration. The dividend moves left through two registers; what has left them
//! is the rest so far, and the quotient's bits come in behind.
//!
//! ```text
//! rest | dividend  << 1
//! rest >= divisor:  rest -= divisor, the lowest bit of the dividend is set
//! ```

use super::selector::Selector;
use crate::isa::Opcode;
use crate::mir::{Operand, Span};
use tilelift_lane::BinOp;

impl Selector<'_> {
    pub(super) fn wide_divide(&mut self, to: Span, x: [Operand; 2], y: [Operand; 2], op: BinOp) {
        let signed = matches!(op, BinOp::Div | BinOp::Rem);
        let rest = matches!(op, BinOp::Rem | BinOp::RemU);
        let words = |s: Span| [Operand::Reg(s.part(0, 1)), Operand::Reg(s.part(1, 1))];
        let mut signs = [None; 2];
        let mut sizes = [self.vs(2), self.vs(2)];
        for (i, from) in [x, y].into_iter().enumerate() {
            if signed {
                let sign = Operand::Reg(self.v_of(Opcode::VAshrrevI32, &[31.into(), from[1]]));
                let flipped = from.map(|w| Operand::Reg(self.v_of(Opcode::VXorB32, &[w, sign])));
                self.minus(sizes[i], flipped, [sign, sign]);
                signs[i] = Some(sign);
            } else {
                for w in 0..2 {
                    self.valu(Opcode::VMovB32, sizes[i].part(w, 1), &[from[usize::from(w)]]);
                }
            }
        }
        let [dividend, divisor] = &mut sizes;
        let (dividend, divisor) = (*dividend, *divisor);
        let left = self.vs(2);
        for w in 0..2 {
            self.valu(Opcode::VMovB32, left.part(w, 1), &[0.into()]);
        }
        let counter = self.s();
        self.emit(Opcode::SMovB32, [counter.into(), 64.into()]);
        let head = self.label();
        self.depth += 1;
        self.start(head);
        // A bit that leaves the rest counts more than any divisor.
        let over = self.mask_of(Opcode::VCmpGtI32, &[0.into(), left.part(1, 1).into()]);
        // The highest bit moves from the dividend to the rest.
        self.valu(Opcode::VAlignbitB32, left.part(1, 1), &[left.part(1, 1).into(), left.part(0, 1).into(), 31.into()]);
        self.valu(Opcode::VAlignbitB32, left.part(0, 1), &[left.part(0, 1).into(), dividend.part(1, 1).into(), 31.into()]);
        self.valu(Opcode::VLshlrevB64, dividend, &[1.into(), dividend.into()]);
        let fits = self.mask_of(Opcode::VCmpGeU64, &[left.into(), divisor.into()]);
        let fits = self.s2_of(Opcode::SOrB64, &[fits.into(), over.into()]);
        let less = self.vs(2);
        self.minus(less, words(left), words(divisor));
        for w in 0..2 {
            self.pick(left.part(w, 1), fits, less.part(w, 1).into(), left.part(w, 1).into());
        }
        let bit = self.v();
        self.pick(bit, fits, 1.into(), 0.into());
        self.valu(Opcode::VOrB32, dividend.part(0, 1), &[bit.into(), dividend.part(0, 1).into()]);
        self.salu(Opcode::SSubU32, Some(counter), &[counter.into(), 1.into()]);
        self.salu(Opcode::SCmpLgU32, None, &[counter.into(), 0.into()]);
        self.branch(Opcode::SCbranchScc1, head);
        self.depth -= 1;
        let behind = self.label();
        self.start(behind);
        let mut result = if rest { left } else { dividend };
        if let [Some(a), Some(b)] = signs {
            let sign = if rest { a } else { self.v_of(Opcode::VXorB32, &[a, b]).into() };
            let flipped = words(result).map(|w| Operand::Reg(self.v_of(Opcode::VXorB32, &[w, sign])));
            result = self.vs(2);
            self.minus(result, flipped, [sign, sign]);
        }
        // By zero, the loop leaves the dividend as the rest, and a quotient of ones.
        if rest {
            for w in 0..2 {
                self.valu(Opcode::VMovB32, to.part(w, 1), &[words(result)[usize::from(w)]]);
            }
        } else {
            let any = self.v_of(Opcode::VOrB32, &[y[0], y[1]]);
            let zero = self.mask_of(Opcode::VCmpEqU32, &[0.into(), any.into()]);
            for w in 0..2 {
                self.pick(to.part(w, 1), zero, 0.into(), words(result)[usize::from(w)]);
            }
        }
    }
}
