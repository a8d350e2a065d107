//! Bytes that each lane picks for itself out of words that lanes side by side have in common.
//!
//! ```text
//! words      a, b, c, d     of which the lane wants byte q of each
//! gathered   a.q b.q c.q d.q     in one word, of which all four are computed at once
//! ```

use super::LaneBuilder;
use super::equal::What;
use super::origins::Picked;
use crate::inst::{Inst, Opcode};
use crate::value::{LTy, LVal};
use tilelift_ir::Scalar;

impl LaneBuilder {
    /// Four bytes of two words: see [`Inst::Permute`].
    pub fn permute(&mut self, low: LVal, high: LVal, picks: LVal) -> LVal {
        self.pure(What::Row(Opcode::Permute), LTy::I32, &[low, high, picks], |dst| Inst::Permute { dst, low, high, picks })
    }

    /// The bytes of words that each lane picks for itself, number `lane + at` of each word, as `i8`s.
    pub fn pick_bytes(&mut self, lane: LVal, from: &[(LVal, u32)]) -> Vec<LVal> {
        from.chunks(4).flat_map(|part| self.pick_four(lane, part)).collect()
    }

    /// Up to four such bytes, gathered in a word.
    fn pick_four(&mut self, lane: LVal, from: &[(LVal, u32)]) -> Vec<LVal> {
        let Some(&first) = from.first() else { return Vec::new() };
        let four: [(LVal, u32); 4] = std::array::from_fn(|n| *from.get(n).or(from.get(n % 2)).unwrap_or(&first));
        let four = four.map(|(word, at)| Picked { word: self.bitcast(word, LTy::I32), lane, at });
        let [a, b, c, d] = four;
        let (low, high) = (self.pick_two(a, b), self.pick_two(c, d));
        let gathered = if from.len() > 2 {
            let halves = self.i32(0x5410);
            self.permute(low, high, halves)
        } else {
            low
        };
        self.pairs.gathered[gathered] = Some(four);
        let word = self.bitcast(gathered, LTy::B32);
        let bytes = self.unpack(word, LTy::Num(Scalar::I8));
        bytes.iter().zip(four).for_each(|(&byte, from)| self.pairs.picked[byte] = Some(from));
        bytes.into_iter().take(from.len()).collect()
    }

    /// Two such bytes, in both halves of a word.
    fn pick_two(&mut self, a: Picked, b: Picked) -> LVal {
        let picks = self.picks(a.lane, 0x1111, 0x0101 * i64::from(a.at) + 0x1010 * i64::from(4 + b.at));
        self.permute(a.word, b.word, picks)
    }

    /// What a permutation picks: so many times the lane's part, and a constant.
    pub(super) fn picks(&mut self, lane: LVal, times: i64, constant: i64) -> LVal {
        let times = self.i32(times);
        let own = self.mul(lane, times);
        self.add_const(own, constant)
    }
}
