//! Random numbers in kernels, built on `philox`: words from a seed and an offset, then uniform and normal numbers.
//!
//! Everything is a fixed sequence of integer ops and correctly rounded `f32` ops, without `log`, `sin` or `cos`, which devices
//! compute with errors of their own. A number therefore has the same bits on every device.

use crate::builder::{KernelBuilder, Operand};
use crate::entities::Value;
use crate::ops::{CmpOp, Op};
use crate::types::{Scalar, Type};

/// `1/3, 1/5, … 1/13`, from the last: the series of `atanh(s) / s - 1` in `s * s`, divided by that. The rest is below 2^-39, as `s * s < 0.03`.
const ATANH: [f32; 6] = [1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0];
/// The Taylor series of `sin(x) / x - 1` and of `cos(x) - 1`, divided by `x * x`, for `|x| <= π/4`, from the last term.
const SIN: [f32; 4] = [1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0];
const COS: [f32; 5] = [-1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5];

impl KernelBuilder {
    /// Philox4x32-10: four random words from a counter and a key, as `i32` of the operands' shape. A Rust number takes the shape of
    /// the first word that is a value.
    #[track_caller]
    pub fn philox(&mut self, counter: [impl Into<Operand>; 4], key: [impl Into<Operand>; 2]) -> [Value; 4] {
        let words: Vec<Operand> = counter.into_iter().map(Into::into).chain(key.into_iter().map(Into::into)).collect();
        let tile = words.iter().find_map(|&w| match w {
            Operand::Value(v) => self.ty(v).as_tile().map(|t| t.shape.clone()),
            Operand::Int(_) | Operand::Float(_) => None,
        });
        let mut spread: Vec<Value> = Vec::new();
        for w in words {
            let v = self.constant(w, Scalar::I32);
            spread.push(match (&tile, self.ty(v)) {
                (Some(shape), Type::Scalar(_)) => self.splat(v, shape),
                (_, Type::Scalar(_) | Type::Tile(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_)) => v,
            });
        }
        self.push_many(Op::Philox, &spread)
    }

    /// Four random words for a scalar seed (`i64`, of which all bits count, or `i32`) and an offset, which gives the shape: `philox`
    /// with the key `(seed & 0xffffffff, seed >> 32)` and the counter `(offset & 0xffffffff, offset >> 32, 0, 0)`.
    #[track_caller]
    pub fn random_words(&mut self, seed: Value, offset: Value) -> [Value; 4] {
        let (k0, k1) = self.word_halves(seed);
        let (c0, c1) = self.word_halves(offset);
        let zero = self.constant(0, Scalar::I32);
        self.philox([c0, c1, zero, zero], [k0, k1])
    }

    /// The lower and the upper word of an integer, the upper one 0 for an `i32`.
    #[track_caller]
    fn word_halves(&mut self, v: Value) -> (Value, Value) {
        if self.ty(v).elem() == Scalar::I64 {
            let low = self.cast(v, Scalar::I32);
            let high = self.shr_u(v, 32i64);
            (low, self.cast(high, Scalar::I32))
        } else {
            let zero = self.sub(v, v);
            (v, zero)
        }
    }

    /// A word as a number of `f32` in [0, 1): its upper 24 bits times 2^-24, which is exact.
    #[track_caller]
    pub fn uniform_of(&mut self, word: Value) -> Value {
        let top = self.shr_u(word, 8);
        let top = self.cast(top, Scalar::F32);
        self.mul(top, 2f32.powi(-24))
    }

    /// A uniform number of `f32` in [0, 1) per offset: [`KernelBuilder::uniform_of`] the first of the random words.
    #[track_caller]
    pub fn uniform(&mut self, seed: Value, offset: Value) -> Value {
        let words = self.random_words(seed, offset);
        self.uniform_of(words[0])
    }

    /// A number of the standard normal distribution per offset, of `f32`: [`KernelBuilder::normal_of`] the first two random words.
    #[track_caller]
    pub fn normal(&mut self, seed: Value, offset: Value) -> Value {
        let words = self.random_words(seed, offset);
        self.normal_of(words[0], words[1])[0]
    }

    /// Two independent normal numbers of `f32` from two words, by the Box-Muller transform: `sqrt(-2 ln u)` times cosine and sine of
    /// `2 π t`, where `u` is `(word >> 8) + 1` times 2^-24 and `t` the upper 24 bits of the other word times 2^-24. They are within
    /// 2^-20 of the exact values, and at most 5.8 in size.
    #[track_caller]
    pub fn normal_of(&mut self, radius: Value, turn: Value) -> [Value; 2] {
        let n = self.shr_u(radius, 8);
        let n = self.add(n, 1);
        let ln = self.minus_log_of_fraction(n);
        let twice = self.add(ln, ln);
        let r = self.sqrt(twice);
        let [cos, sin] = self.turn_of(turn);
        [self.mul(r, cos), self.mul(r, sin)]
    }

    /// `p(x)` by Horner's rule, the last coefficient first.
    #[track_caller]
    fn horner(&mut self, coefficients: &[f32], x: Value) -> Value {
        let mut sum = None;
        for &c in coefficients {
            sum = Some(match sum {
                None => {
                    let zero = self.sub(x, x);
                    self.add(zero, c)
                }
                Some(s) => self.fma(s, x, c),
            });
        }
        sum.unwrap_or(x)
    }

    /// `-ln(n / 2^24)` for an integer from 1 to 2^24: `2 atanh((1 - m) / (1 + m)) - e ln 2` with `n = 2^(24 + e) m`, `m` in [0.707, 1.414).
    #[track_caller]
    fn minus_log_of_fraction(&mut self, n: Value) -> Value {
        // The exponent and the fraction of `n` as a float, which is exact; a fraction above sqrt 2 is halved.
        let bits = self.cast(n, Scalar::F32);
        let bits = self.bitcast(bits, Scalar::I32);
        let offset = self.sub(bits, 0x3f35_04f3);
        let e = self.shr_s(offset, 23);
        let low = self.and(offset, 0x007f_ffff);
        let m = self.add(low, 0x3f35_04f3);
        let m = self.bitcast(m, Scalar::F32);
        let neg = self.neg(m);
        let (top, bottom) = (self.add(neg, 1.0f32), self.add(m, 1.0f32));
        let s = self.div(top, bottom);
        let z = self.mul(s, s);
        let series = self.horner(&ATANH, z);
        let twice = self.add(s, s);
        let tail = self.mul(z, twice);
        let atanh = self.fma(tail, series, twice);
        let up = self.sub(24, e);
        let up = self.cast(up, Scalar::F32);
        // ln 2 in two parts, of which the first times up to 24 is exact.
        let fine = self.fma(up, 1.428_606_8e-6f32, atanh);
        self.fma(up, 0.693_145_75f32, fine)
    }

    /// Cosine and sine of `2 π t` for the upper 24 bits of a word as a fraction `t`.
    #[track_caller]
    fn turn_of(&mut self, word: Value) -> [Value; 2] {
        // The nearest quarter, and what is left of it: an exact number of 2^-24 turns in [-1/8, 1/8).
        let q = self.add(word, 0x2000_0000);
        let quarter = self.shr_u(q, 30);
        let rest = self.and(q, 0x3fff_ff00);
        let rest = self.sub(rest, 0x2000_0000);
        let rest = self.shr_s(rest, 8);
        let rest = self.cast(rest, Scalar::F32);
        let x = self.mul(rest, std::f32::consts::TAU / 16_777_216.0);
        let z = self.mul(x, x);
        let sin_series = self.horner(&SIN, z);
        let cos_series = self.horner(&COS, z);
        let xz = self.mul(x, z);
        let sin = self.fma(xz, sin_series, x);
        let zero = self.sub(z, z);
        let one = self.add(zero, 1.0f32);
        let cos = self.fma(z, cos_series, one);
        // Quarters turn (c, s) into (-s, c), (-c, -s), (s, -c).
        let odd = self.and(quarter, 1);
        let odd = self.cmp(CmpOp::Ne, odd, 0);
        let (c, s) = (self.select(odd, sin, cos), self.select(odd, cos, sin));
        let after = self.add(quarter, 1);
        let (c_sign, s_sign) = (self.and(after, 2), self.and(quarter, 2));
        let (c_minus, s_minus) = (self.cmp(CmpOp::Ne, c_sign, 0), self.cmp(CmpOp::Ne, s_sign, 0));
        let (c_neg, s_neg) = (self.neg(c), self.neg(s));
        [self.select(c_minus, c_neg, c), self.select(s_minus, s_neg, s)]
    }
}
