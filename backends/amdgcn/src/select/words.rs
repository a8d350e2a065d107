//! 64-bit values whose words are known apart: a value that is put together of two words, as other lanes' values are, costs no instructions but
//! copies, and none where the words are made in its registers.
//!
//! ```text
//! and x 0xffffffff      low x, 0                shl x 32      0, low x
//! or of such            word by word            shru x 32     high x, 0
//! ```

use super::selector::{Home, Late, Selector, part};
use crate::isa::Opcode;
use crate::mir::{Operand, Span};
use tilelift_lane::{BinOp, LVal};

/// A word, if it is known without an instruction.
type Known = Option<Operand>;

/// A word of what an operation makes of two.
fn combined(op: BinOp, x: Known, y: Known) -> Known {
    let (zero, ones) = (Some(Operand::Imm(0)), Some(Operand::Imm(-1)));
    match op {
        BinOp::And if x == zero || y == zero => zero,
        BinOp::And if x == ones => y,
        BinOp::And if y == ones => x,
        BinOp::Or | BinOp::Xor if x == zero => y,
        BinOp::Or | BinOp::Xor if y == zero => x,
        _ => None,
    }
}

impl Selector<'_> {
    /// What is known of a 64-bit value's words.
    fn words_known(&self, v: LVal) -> [Known; 2] {
        match (self.late.get(&v), self.home(v)) {
            (Some(Late::Words(words)), _) => words.map(Some),
            (Some(Late::Product { word, by: 1 }), _) => [Some(*word), None],
            (Some(Late::Product { .. }), _) | (None, Home::Nowhere) => [None; 2],
            (None, Home::Const(bits)) => [0, 1].map(|w| Some(part(Operand::Imm(bits as i64), w))),
            (None, Home::Reg(span)) => [0, 1].map(|w| Some(span.part(w, 1).into())),
        }
    }

    /// Makes the result of an operation whose words are those of its operands, if it is such a one: now, or where it is read, if it is read once.
    pub(super) fn of_words(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal) -> bool {
        if self.in_scalars(dst) {
            return false;
        }
        let x = self.words_known(a);
        let zero = Some(Operand::Imm(0));
        let words = match (op, self.constant(b)) {
            (BinOp::Shl, Some(32)) => [zero, x[0]],
            (BinOp::ShrU, Some(32)) => [x[1], zero],
            (BinOp::And | BinOp::Or | BinOp::Xor, _) => {
                let y = self.words_known(b);
                [0, 1].map(|w| combined(op, x[w], y[w]))
            }
            _ => return false,
        };
        let [Some(low), Some(high)] = words else { return false };
        self.late.remove(&a);
        self.late.remove(&b);
        if self.webs.place(dst).is_none() && self.live.read_once(dst) && self.stays(low) && self.stays(high) {
            self.late.insert(dst, Late::Words([low, high]));
        } else {
            let to = self.def(dst);
            self.put_together(to, [low, high]);
        }
        true
    }

    /// Copies two words to registers that hold neither of them.
    pub(super) fn put_together(&mut self, to: Span, words: [Operand; 2]) {
        for (w, word) in (0..).zip(words) {
            self.valu(Opcode::VMovB32, to.part(w, 1), &[word]);
        }
    }

    /// The lower word of a value that was left for later as two words.
    pub(super) fn late_low(&mut self, v: LVal) -> Known {
        let Some(&Late::Words([low, _])) = self.late.get(&v) else { return None };
        self.late.remove(&v);
        Some(low)
    }
}
