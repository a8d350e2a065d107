//! Which bits of 32-bit integers are known to be clear, and what that saves.
//!
//! ```text
//! x & 15                        bits 4 to 31 are clear
//! byte n of (w & 0x0f0f0f0f)    as an integer: (w >> 8 n) & 15, whose sign nobody has to extend
//! (x & 15) - 8                  between -8 and 7: every f32 between holds it, and nothing is rounded twice
//! ```

use super::{Known, LaneBuilder};
use crate::op::BinOp;
use crate::value::{LTy, LVal};
use tilelift_ir::Scalar;

impl LaneBuilder {
    /// Bits of an integer of 32 bits that are known to be clear.
    pub(super) fn clear_bits(&self, v: LVal) -> u32 {
        self.as_const(v).map_or(self.bits.clear[v], |c| !(c as u32))
    }

    /// Notes which bits of a result are clear.
    pub(super) fn learn_bits(&mut self, v: LVal, op: BinOp, a: LVal, b: LVal) {
        if self.ty(v) != LTy::I32 || self.budget.spent() {
            return;
        }
        let (clear, by) = (self.clear_bits(a), self.as_const(b).map(|c| c as u32));
        let known = match (op, by) {
            (BinOp::And, _) => clear | self.clear_bits(b),
            (BinOp::Or | BinOp::Xor, _) => clear & self.clear_bits(b),
            (BinOp::ShrU, Some(n @ 0..32)) => clear >> n | !(u32::MAX >> n),
            (BinOp::Shl, Some(n @ 0..32)) => clear << n | !(u32::MAX << n),
            _ => 0,
        };
        if known != self.bits.clear[v] {
            self.bits.clear[v] = known;
        }
        if let (BinOp::And, Some(mask)) = (op, by)
            && mask & mask.wrapping_add(1) == 0
        {
            self.bits.masked.insert(v, (a, mask));
        }
        if let (BinOp::Add, Some(c)) = (op, by)
            && let Some(range) = self.between(a)
        {
            let sum = range.map(|x| x + i64::from(c as i32));
            if sum.iter().all(|&x| i32::try_from(x).is_ok()) {
                self.bits.between.insert(v, sum);
            } else {
                self.bits.between.remove(&v);
            }
        }
    }

    /// The least and the greatest number that an `i32` may be, if anything is known.
    fn between(&self, v: LVal) -> Option<[i64; 2]> {
        let most = i64::from(!self.clear_bits(v));
        self.bits.between.get(&v).copied().or((most <= i64::from(i32::MAX)).then_some([0, most]))
    }

    /// True for an `i32` that an `f32` holds.
    pub(super) fn fits_single(&self, v: LVal) -> bool {
        const MOST: i64 = 1 << 24;
        self.ty(v) == LTy::I32 && self.between(v).is_some_and(|[least, most]| -MOST <= least && most <= MOST)
    }

    /// An integer as an `f32` that holds it, where that is on the way to narrower floats.
    pub(super) fn exact_single(&mut self, v: LVal) -> Option<LVal> {
        if self.ty(v) == LTy::Num(Scalar::I8) {
            return self.single_of_byte(v);
        }
        self.fits_single(v).then(|| self.cvt(v, LTy::F32))
    }

    /// True if a mask takes nothing from an integer.
    pub(super) fn keeps_all(&self, v: LVal, mask: u32) -> bool {
        self.ty(v) == LTy::I32 && self.clear_bits(v) | mask == u32::MAX
    }

    /// Bits that a byte of a word may have, if it is known which word that is.
    pub(super) fn bits_of_byte(&self, v: LVal) -> Option<u32> {
        let (word, n) = self.byte_of_word(v)?;
        let Known::Cast(whole) = self.facts[word].known else { return None };
        (self.ty(whole) == LTy::I32).then(|| !(self.clear_bits(whole) >> (8 * n)) & 0xff)
    }

    /// A byte of a word that is never negative, as an `i32`.
    pub(super) fn unsigned_byte(&mut self, v: LVal) -> Option<LVal> {
        let bits = self.bits_of_byte(v).filter(|bits| bits & 0x80 == 0)?;
        let (word, n) = self.byte_of_word(v)?;
        let (word, by) = (self.bitcast(word, LTy::I32), self.i32(i64::from(8 * n)));
        let down = self.bin(BinOp::ShrU, word, by);
        let mask = self.i32(i64::from(u32::MAX >> bits.leading_zeros().min(31)));
        Some(self.bin(BinOp::And, down, mask))
    }

    /// An integer that is below a power of two, as one whose lower bits are all that counts; `None` if it is not known to be below.
    pub fn modulo(&self, v: LVal, power: u32) -> Option<LVal> {
        let mask = power.wrapping_sub(1);
        if self.ty(v) != LTy::Num(Scalar::I32) || !self.clear_bits(v) & !mask != 0 {
            return None;
        }
        match self.bits.masked.get(&v) {
            Some(&(whole, kept)) if kept == mask => Some(whole),
            _ => Some(v),
        }
    }
}
