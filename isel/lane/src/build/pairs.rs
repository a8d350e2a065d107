//! Two 16-bit floats at once: words of operands of matrix instructions whose halves were computed alike.
//!
//! ```text
//! pack (a0 op b0), (a1 op b1)      ─►   (pack a0, a1) op (pack b0, b1)            one instruction for both
//! pack (float n0), (float n1)      ─►   the codes n0, n1 under the exponent of a large number, less that number
//! ```
//!
//! A fraction of seven bits does not hold a byte: of `bf16`, the lower bits stand under the exponent of 128, and what is taken away is 128 or, where the
//! byte is negative, 256.
//!
//! Values are made one by one, and remember how; when two of them are packed, what made them is made again for both, and what nobody wants any more
//! goes. Every bit is that of one at a time: sums, differences and products are fused multiply-adds with 1, -1 and -0, which round once.

use super::LaneBuilder;
use super::equal::What;
use super::origins::{Origin, Picked};
use crate::inst::{Inst, Opcode};
use crate::op::{BinOp, UnOp};
use crate::value::{LTy, LVal};
use tilelift_ir::Scalar;

/// The bits of two equal halves.
const fn twice(half: i64) -> i64 {
    half << 16 | half
}

impl LaneBuilder {
    /// A byte of a word and a constant: all four are computed at once, and this is one of them.
    pub(super) fn bytes_of_word(&mut self, op: BinOp, a: LVal, b: LVal) -> Option<LVal> {
        if self.ty(a) != LTy::Num(Scalar::I8) {
            return None;
        }
        let ((word, n), c) = (self.byte_of_word(a)?, self.as_const(b)? as u8);
        let word = self.bitcast(word, LTy::I32);
        let four = |byte: u8| i64::from(i32::from_ne_bytes([byte; 4]));
        let bits = match op {
            BinOp::And | BinOp::Or | BinOp::Xor => {
                let by = self.i32(four(c));
                self.bin(op, word, by)
            }
            // What moved over from the byte beside it goes.
            BinOp::Shl | BinOp::ShrU if c <= 7 => {
                let (by, own) = (self.i32(i64::from(c)), self.i32(four(if op == BinOp::Shl { 0xff << c } else { 0xff >> c })));
                let moved = self.bin(op, word, by);
                self.bin(BinOp::And, moved, own)
            }
            BinOp::ShrS if (1..=7).contains(&c) => self.shift_signed_bytes(word, c),
            BinOp::Add => self.add_to_bytes(word, c),
            BinOp::Sub => self.add_to_bytes(word, c.wrapping_neg()),
            _ => return None,
        };
        let word = self.bitcast(bits, LTy::B32);
        Some(self.unpack(word, LTy::Num(Scalar::I8))[n as usize])
    }

    /// A number added to each byte of a word: to seven bits of each, so that nothing moves over to the byte beside it, and the eighth is their sum without it.
    fn add_to_bytes(&mut self, word: LVal, c: u8) -> LVal {
        let four = |byte: u8| i64::from(i32::from_ne_bytes([byte; 4]));
        let [lower, by, own] = [0x7f, c & 0x7f, c & 0x80].map(|byte| self.i32(four(byte)));
        let seven = self.bin(BinOp::And, word, lower);
        let sum = self.bin(BinOp::Add, seven, by);
        let top = match self.clear_bits(word) & 0x8080_8080 {
            0x8080_8080 => own,
            _ => self.masked_over(word, four(0x80), own),
        };
        self.bin(BinOp::Xor, sum, top)
    }

    /// Each byte of a word shifted down by 1 to 7, its sign in the upper bits: the sign times what fills them.
    fn shift_signed_bytes(&mut self, word: LVal, c: u8) -> LVal {
        let four = |byte: u8| i64::from(i32::from_ne_bytes([byte; 4]));
        let [by, own, sign, fill] = [i64::from(c), four(0xff >> c), four(0x80 >> c), 2 * ((1 << c) - 1)].map(|x| self.i32(x));
        let moved = self.bin(BinOp::ShrU, word, by);
        let moved = self.bin(BinOp::And, moved, own);
        let signs = self.bin(BinOp::And, moved, sign);
        self.fma(signs, fill, moved)
    }

    /// The `f32` of a byte of a word: the byte, counted from -128, is the end of the fraction of a large number, and that is taken away.
    pub(super) fn single_of_byte(&mut self, v: LVal) -> Option<LVal> {
        let (word, n) = self.byte_of_word(v).filter(|_| self.packed_halves)?;
        let word = self.bitcast(word, LTy::I32);
        let (word, less) = match self.bits_of_byte(v) {
            Some(bits) if bits & 0x80 == 0 => (word, 0x4b00_0000),
            _ => {
                let flip = self.i32(0x8080_8080u32 as i32 as i64);
                (self.bin(BinOp::Xor, word, flip), 0x4b00_0080)
            }
        };
        let (exponent, picks) = (self.i32(0x4b00_0000), self.i32(i64::from(0x7540 + n)));
        let large = self.permute(word, exponent, picks);
        let large = self.bitcast(large, LTy::F32);
        let less = self.constant(LTy::F32, less);
        Some(self.bin(BinOp::Sub, large, less))
    }

    /// Says that a float is that of the signed 4 bits of a word from bit `at` on.
    pub fn note_float_of_half(&mut self, v: LVal, word: LVal, at: u32) {
        self.pairs.origins[v] = Some(Origin::Nibble(word, at));
    }

    /// Says that a 16-bit float is that of a byte, which is of a type.
    pub fn note_float_of_byte(&mut self, v: LVal, byte: LVal, elem: Scalar) {
        self.pairs.origins[v] = Some(Origin::Byte(byte, elem));
    }

    /// Two 16-bit or four 8-bit values into a word, computed anew two at a time where that is possible.
    pub fn pack_computed(&mut self, parts: &[LVal]) -> LVal {
        let both = match *parts {
            [x, y] if self.packed_halves => self.pair(x, y),
            _ => None,
        };
        match both {
            Some(word) => self.bitcast(word, LTy::B32),
            None => self.pack(parts),
        }
    }

    /// Two values computed at once, as an `i32`; `None` if they were computed otherwise.
    fn pair(&mut self, x: LVal, y: LVal) -> Option<LVal> {
        let LTy::Num(elem @ (Scalar::F16 | Scalar::BF16)) = self.ty(x) else { return None };
        match (self.pairs.origins[x]?, self.pairs.origins[y]?) {
            (Origin::Bin(op, a, b), Origin::Bin(other, c, d)) if op == other => {
                if !matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul) {
                    return None;
                }
                let [left, right] = [[a, c], [b, d]].map(|[x, y]| self.both(x, y));
                let one = if elem == Scalar::F16 { 0x3c00 } else { 0x3f80 };
                Some(match op {
                    BinOp::Add => {
                        let one = self.i32(twice(one));
                        self.fma_pair(elem, left, one, right)
                    }
                    BinOp::Sub => {
                        let minus_one = self.i32(twice(one | 0x8000));
                        self.fma_pair(elem, right, minus_one, left)
                    }
                    _ => {
                        let minus_zero = self.i32(twice(0x8000));
                        self.fma_pair(elem, left, right, minus_zero)
                    }
                })
            }
            (Origin::Nibble(word, at), Origin::Nibble(other, next)) if word == other && next == at + 4 && at % 8 == 0 => {
                Some(self.nibbles(word, at, elem))
            }
            (Origin::Byte(a, of), Origin::Byte(b, other)) if of == other => self.bytes([a, b], of, elem),
            _ => None,
        }
    }

    /// Two values in an `i32`.
    fn both(&mut self, x: LVal, y: LVal) -> LVal {
        self.pair(x, y).unwrap_or_else(|| {
            let word = self.pack(&[x, y]);
            self.bitcast(word, LTy::I32)
        })
    }

    fn fma_pair(&mut self, elem: Scalar, a: LVal, b: LVal, c: LVal) -> LVal {
        match elem {
            Scalar::F16 => self.pure(What::Row(Opcode::FmaF16x2), LTy::I32, &[a, b, c], |dst| Inst::FmaF16x2 { dst, a, b, c }),
            _ => self.pure(What::Row(Opcode::FmaBf16x2), LTy::I32, &[a, b, c], |dst| Inst::FmaBf16x2 { dst, a, b, c }),
        }
    }

    /// The bits of a word that a mask names, those of a constant inverted.
    fn masked(&mut self, word: LVal, mask: i64, flip: i64) -> LVal {
        let flip = self.i32(flip);
        self.masked_over(word, mask, flip)
    }

    /// The bits of a word that a mask names, those of another word inverted where they are set.
    pub(super) fn masked_over(&mut self, word: LVal, mask: i64, flip: LVal) -> LVal {
        let (a, mask) = (word, self.i32(mask));
        self.pure(What::Row(Opcode::MaskFlip), LTy::I32, &[a, mask, flip], |dst| Inst::MaskFlip { dst, a, mask, flip })
    }

    /// The floats of the two signed halves of the byte of a word that begins at a bit.
    fn nibbles(&mut self, word: LVal, at: u32, elem: Scalar) -> LVal {
        let byte = i64::from(at / 8);
        if elem == Scalar::F16 {
            // The byte in both halves: the upper one's fraction has the code four bits further up.
            let both = match self.pairs.gathered[word] {
                Some(from) => {
                    let Picked { word, lane, at } = from[byte as usize];
                    let picks = self.picks(lane, 0x1111, 0x1111 * i64::from(at));
                    self.permute(word, word, picks)
                }
                None => {
                    let picks = self.i32(byte * 0x1111);
                    self.permute(word, word, picks)
                }
            };
            // 1024 + (code + 8), and 1024 + 16 (code + 8), of which the sixteenth is 64 + code + 8.
            let large = self.masked(both, 0x00f0_000f, 0x6480_6408);
            let (scale, less) = (self.i32(0x2c00_3c00), self.i32(0xd480_e408u32 as i32 as i64));
            return self.fma_pair(elem, large, scale, less);
        }
        // A fraction of seven bits: the upper code moves down.
        let four = self.i32(4);
        let down = self.bin(BinOp::ShrU, word, four);
        let picks = self.i32(byte * 0x1111 + 0x4400);
        let both = self.permute(word, down, picks);
        // 128 + (code + 8).
        let large = self.masked(both, 0x000f_000f, 0x4308_4308);
        let (one, less) = (self.i32(0x3f80_3f80), self.i32(0xc308_c308u32 as i32 as i64));
        self.fma_pair(elem, large, one, less)
    }

    /// Two `f16` of a word as `bf16`.
    fn halves_as_bf16(&mut self, word: LVal) -> LVal {
        let word = self.bitcast(word, LTy::B32);
        let halves = self.unpack(word, LTy::Num(Scalar::F16));
        let halves: Vec<LVal> = halves.into_iter().map(|half| self.cvt(half, LTy::F32)).collect();
        let halves: Vec<LVal> = halves.into_iter().map(|half| self.cvt(half, LTy::Num(Scalar::BF16))).collect();
        let both = self.pack(&halves);
        self.bitcast(both, LTy::I32)
    }

    /// The floats of two bytes of a word, if the machine makes them at once.
    fn bytes(&mut self, [a, b]: [LVal; 2], of: Scalar, elem: Scalar) -> Option<LVal> {
        let (of_integers, of_codes) = (of == Scalar::I8, of == Scalar::F8E4M3 && self.code_casts.contains(&of));
        if !(of_integers || of_codes) {
            return None;
        }
        // The bytes, and what stands beside them: the exponent of 1024, of which a smaller float takes nothing, or nothing.
        let beside = self.i32(0x6464_6464);
        let spread = |at: [u32; 2]| {
            if of_integers { i64::from(at[0]) + 0x4040 + (i64::from(at[1]) << 8) } else { i64::from(at[0]) + (i64::from(at[1]) << 4) }
        };
        let both = match (self.pairs.picked[a], self.pairs.picked[b]) {
            (Some(x), Some(y)) if x.word == y.word && x.lane == y.lane => {
                let times = if of_integers { 0x0101 } else { 0x0011 };
                let picks = self.picks(x.lane, times, spread([x.at, y.at]));
                self.permute(x.word, beside, picks)
            }
            _ => {
                let ((word, x), (other, y)) = (self.byte_of_word(a)?, self.byte_of_word(b)?);
                let [low, high] = [word, other].map(|w| self.bitcast(w, LTy::I32));
                if word == other {
                    let picks = self.i32(spread([x, y]));
                    self.permute(low, beside, picks)
                } else if of_codes {
                    let picks = self.i32(i64::from(x | (y + 4) << 4));
                    self.permute(low, high, picks)
                } else {
                    let picks = self.i32(i64::from(x | (y + 4) << 8));
                    let both = self.permute(low, high, picks);
                    if elem == Scalar::F16 { self.masked(both, 0x00ff_00ff, 0x6400_6400) } else { both }
                }
            }
        };
        if of_codes {
            let decoded = self.un(UnOp::DecodeE4M3x2, both);
            return Some(if elem == Scalar::F16 { decoded } else { self.halves_as_bf16(decoded) });
        }
        // Never negative: a seventh bit's place is the last that counts.
        if [a, b].iter().all(|&v| self.bits_of_byte(v).is_some_and(|bits| bits & 0x80 == 0)) {
            let (exponent, one) = if elem == Scalar::F16 { (0x6400, 0x3c00) } else { (0x4300, 0x3f80) };
            let large = self.masked(both, 0x007f_007f, twice(exponent));
            let (one, less) = (self.i32(twice(one)), self.i32(twice(exponent | 0x8000)));
            return Some(self.fma_pair(elem, large, one, less));
        }
        if elem == Scalar::BF16 {
            let (lower, upper) = (self.masked(both, 0x007f_007f, 0x4300_4300), self.masked(both, 0x0080_0080, 0x4300_4300));
            let minus_one = self.i32(twice(0xbf80));
            return Some(self.fma_pair(elem, upper, minus_one, lower));
        }
        // 1024 + (number + 128).
        let flip = self.i32(0x0080_0080);
        let large = self.bin(BinOp::Xor, both, flip);
        let (one, less) = (self.i32(0x3c00_3c00), self.i32(0xe480_e480u32 as i32 as i64));
        Some(self.fma_pair(elem, large, one, less))
    }
}
