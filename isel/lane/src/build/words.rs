//! Words of packed elements: put together, taken apart, and what is known of their parts.
//!
//! Whoever packs what came out of a word gets that word, or a permutation of bytes; whoever packs what was rounded, or made a code, gets two made at once.

use super::LaneBuilder;
use super::equal::{Key, What};
use super::known::Known;
use crate::inst::{Inst, Opcode};
use crate::op::UnOp;
use crate::value::{LTy, LVal, Vals};
use tilelift_ir::Scalar;

impl LaneBuilder {
    /// Two 16-bit or four 8-bit values into a word; the word itself if they are its parts. Codes that the machine makes are made in pairs, bytes of other
    /// words are taken from these.
    pub fn pack(&mut self, parts: &[LVal]) -> LVal {
        if let Known::Part(word, 0) = self.facts[parts[0]].known
            && parts.iter().enumerate().all(|(i, &p)| self.facts[p].known == Known::Part(word, i as u32))
            && self.ty(parts[0]).bits() * parts.len() as u32 == 32
        {
            return word;
        }
        if let &[a, b, c, d] = parts
            && let [Some(a), Some(b), Some(c), Some(d)] = [a, b, c, d].map(|v| self.encoded(v))
            && [b, c, d].iter().all(|x| x.0 == a.0)
        {
            let halves = [(a, b), (c, d)].map(|(low, high)| self.code_pair(a.0, low.1, high.1));
            return self.pack(&halves);
        }
        if let &[a, b, c, d] = parts
            && let [Some(a), Some(b), Some(c), Some(d)] = [a, b, c, d].map(|v| self.byte_of_word(v))
        {
            let (low, high) = (self.byte_pair(a, b), self.byte_pair(c, d));
            let bytes = low.1 | (low.1 + 1) << 4 | (high.1 + 4) << 8 | (high.1 + 5) << 12;
            return self.permute_packed(low.0, high.0, bytes);
        }
        if let &[low, high] = parts
            && let [Some(low), Some(high)] = [low, high].map(|v| self.rounded(v))
        {
            return match self.ty(parts[0]) {
                LTy::Num(Scalar::F16) => {
                    self.pure(What::Row(Opcode::CvtF16x2), LTy::B32, &[low, high], |dst| Inst::CvtF16x2 { dst, low, high })
                }
                _ => self.pure(What::Row(Opcode::CvtBf16x2), LTy::B32, &[low, high], |dst| Inst::CvtBf16x2 { dst, low, high }),
            };
        }
        self.pure(What::Row(Opcode::Pack), LTy::B32, parts, |dst| Inst::Pack { dst, parts: Vals::from_slice(parts) })
    }

    /// Bytes of two packed words, which ones being known.
    fn permute_packed(&mut self, a: LVal, b: LVal, bytes: u32) -> LVal {
        let [a, b] = [a, b].map(|v| self.bitcast(v, LTy::I32));
        let picks = self.i32(bytes.into());
        let word = self.permute(a, b, picks);
        self.bitcast(word, LTy::B32)
    }

    /// A word with two bytes of words side by side, and where. Bytes at the same place of both stand in a word with those beside them: who transposes
    /// words asks for these, too.
    fn byte_pair(&mut self, (a, n): (LVal, u32), (b, m): (LVal, u32)) -> (LVal, u32) {
        if n == m {
            let even = n & !1;
            return (self.permute_packed(a, b, even | (even + 4) << 4 | (even + 1) << 8 | (even + 5) << 12), 2 * (n & 1));
        }
        (self.permute_packed(a, b, n | (m + 4) << 4 | n << 8 | (m + 4) << 12), 0)
    }

    /// How a byte is made of an `f32`, and the bits of that.
    fn encoded(&self, v: LVal) -> Option<(UnOp, LVal)> {
        match self.facts[v].known {
            Known::Code(how, bits) if self.ty(v) == LTy::Num(Scalar::I8) => Some((how, bits)),
            _ => None,
        }
    }

    /// The codes of the `f32` with these bits, side by side.
    fn code_pair(&mut self, how: UnOp, low: LVal, high: LVal) -> LVal {
        let [low, high] = [low, high].map(|bits| self.bitcast(bits, LTy::F32));
        let ty = LTy::Num(Scalar::I16);
        match how {
            UnOp::EncodeE5M2 => self.pure(What::Row(Opcode::CvtE5M2x2), ty, &[low, high], |dst| Inst::CvtE5M2x2 { dst, low, high }),
            _ => self.pure(What::Row(Opcode::CvtE4M3x2), ty, &[low, high], |dst| Inst::CvtE4M3x2 { dst, low, high }),
        }
    }

    /// The `f32` that a 16-bit float was rounded from, where the machine rounds two at once.
    fn rounded(&self, v: LVal) -> Option<LVal> {
        match self.facts[v].known {
            Known::Rounded(x) if self.packed_halves => Some(x),
            _ => None,
        }
    }

    /// A word into values of a 16-bit or 8-bit type.
    pub fn unpack(&mut self, word: LVal, ty: LTy) -> Vals {
        let n = 32 / ty.bits() as usize;
        let parts =
            self.pure_all(Key::of(What::Unpack(ty), &[word]), (ty, n), &[word], |d| Inst::Unpack { dsts: Vals::from_slice(d), a: word });
        for (i, &p) in parts.iter().enumerate() {
            self.learn(p, Known::Part(word, i as u32));
        }
        parts
    }

    /// The word and number of a byte that [`LaneBuilder::unpack`] made.
    pub fn byte_of_word(&self, v: LVal) -> Option<(LVal, u32)> {
        match self.facts[v].known {
            Known::Part(word, n) if self.ty(v) == LTy::Num(Scalar::I8) => Some((word, n)),
            Known::Part(..) | Known::Nothing | Known::Const(_) | Known::AddConst(..) => None,
            Known::Cast(_) | Known::Rounded(_) | Known::Code(..) | Known::Half(..) => None,
        }
    }
}
