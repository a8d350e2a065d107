//! Floats of 4-bit codes, eight codes of a word at once: a permutation looks bytes up in tables of eight.
//!
//! ```text
//! codes of two bytes        s eem, four times           magnitudes name bytes of a table, signs are put over the upper ones
//! bytes of their floats     upper: H0 H1 H2 H3          lower: L0 L1 L2 L3
//! floats                    H1 L1 H0 L0, H3 L3 H2 L2    two in a word
//! ```

use super::LaneBuilder;
use crate::op::BinOp;
use crate::value::{LTy, LVal};
use tilelift_ir::{Scalar, num};

/// The magnitudes of a 4-bit float.
const MAGNITUDES: u64 = 8;

/// Byte `n` of the numbers that codes of `f4e2m1` stand for, in a wider type: those of codes 0 to 3, those of codes 4 to 7.
fn table(elem: Scalar, n: u32) -> [i64; 2] {
    let byte = |code: u64| (num::to_bits(num::from_bits(code, Scalar::F4E2M1), elem) >> (8 * n) & 0xff) as i64;
    let four = |first: u64| (first..first + MAGNITUDES / 2).rev().fold(0, |word, code| word << 8 | byte(code));
    [four(0), four(MAGNITUDES / 2)]
}

impl LaneBuilder {
    /// The 16-bit floats of the two codes of `f4e2m1` in byte `byte` of a word, the one of the lower half first, as a `b32`.
    pub fn floats_of_codes(&mut self, word: LVal, byte: u32, elem: Scalar) -> LVal {
        let (upper, lower) = self.code_bytes(word, byte / 2, elem);
        let at = i64::from(2 * (byte % 2));
        let picks = self.i32(0x5140 + 0x1111 * at);
        let both = self.permute(lower, upper, picks);
        self.bitcast(both, LTy::B32)
    }

    /// The upper and the lower bytes of the floats of the four codes of a half of a word.
    fn code_bytes(&mut self, word: LVal, half: u32, elem: Scalar) -> (LVal, LVal) {
        let magnitudes = self.i32(0x7777_7777);
        let magnitudes = self.bin(BinOp::And, word, magnitudes);
        let sixteen = self.i32(i64::from(16 * half));
        let codes = self.bin(BinOp::ShrU, magnitudes, sixteen);
        let [lower, upper] = [0, 1].map(|n| {
            let rows = table(elem, n);
            if rows == [0; 2] {
                return self.i32(0);
            }
            let [low, high] = rows.map(|row| self.i32(row));
            self.permute(low, high, codes)
        });
        // Each code at the upper end of a byte, where the sign is that of the byte.
        let four = self.i32(4);
        let up = self.bin(BinOp::Shl, word, four);
        let picks = self.i32(0x5140 + 0x2222 * i64::from(half));
        let spread = self.permute(up, word, picks);
        (self.masked_over(spread, 0x8080_8080, upper), lower)
    }
}
