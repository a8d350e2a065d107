//! Quotients, for machines that have none that rounds to nearest.
//!
//! ```text
//! |x| = 2^i m, |y| = 2^j d    m and d in [1, 2), and m twice as large where it is below d: m / d is in [1, 2)
//! r                           near 1 / d: the machine's reciprocal of f32, else a line with relative error 1/17, and steps r + r (1 - d r) of
//!                             Newton's method down to 2^-42 (f64) and 2^-30 (f32)
//! q = m r + (m - d m r) r     off by less than a unit u in the last place; whether the remainder m - d q, which fma has in full, is above
//!                             d u / 2 or below -d u / 2 says whether a neighbour is nearer. There are no ties
//! q 2^(i-j)                   by the exponent's field where the result is normal. Else the significand of q as an integer, two bits and the
//!                             sign of the remainder behind it, is shifted to the place of subnormal numbers and rounded there, once
//! ```

use super::wide::{F64, Wide, number, own, widened, with};
use tilelift_ir::{CmpOp, Scalar, num};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// `x / y`, rounded to nearest even.
pub(in crate::lower) fn div(b: &mut LaneBuilder, x: LVal, y: LVal, elem: Scalar) -> LVal {
    if b.quotients.contains(&elem) {
        return b.bin(BinOp::Div, x, y);
    }
    widened(b, [x, y], elem, |b, [x, y], wide| {
        if b.quotients.contains(&wide.scalar()) { b.bin(BinOp::Div, x, y) } else { Divider::of(wide).quotient(b, x, y) }
    })
}

/// `1 / d` on [1, 2], where there is no guess.
const LINE: [f64; 2] = [24.0 / 17.0, -8.0 / 17.0];

/// A float type by its parts.
#[derive(Clone, Copy)]
struct Divider {
    wide: Wide,
    int: LTy,
    /// Bits behind the point.
    fraction: i64,
    bias: i64,
    /// Subnormal numbers times 2 to this are normal.
    up: i64,
}

impl Divider {
    fn of(wide: Wide) -> Divider {
        match wide {
            Wide::F32 => Divider { wide, int: LTy::I32, fraction: 23, bias: 127, up: 24 },
            Wide::F64 => Divider { wide, int: LTy::I64, fraction: 52, bias: 1023, up: 54 },
        }
    }

    fn ty(self) -> LTy {
        LTy::Num(self.wide.scalar())
    }

    fn number(self, b: &mut LaneBuilder, x: f64) -> LVal {
        number(b, x, self.wide.scalar())
    }

    fn integer(self, b: &mut LaneBuilder, x: i64) -> LVal {
        b.constant(self.int, x as u64)
    }

    /// `2^n`.
    fn power(self, b: &mut LaneBuilder, n: i64) -> LVal {
        self.number(b, 2f64.powi(n as i32))
    }

    /// Significand in [1, 2) and exponent of a number that is not negative.
    fn split(self, b: &mut LaneBuilder, a: LVal) -> (LVal, LVal) {
        let (least, factor) = (self.power(b, 1 - self.bias), self.power(b, self.up));
        let small = b.cmp(CmpOp::Lt, a, least);
        let normal = b.mul(a, factor);
        let normal = b.select(small, normal, a);
        let bits = b.bitcast(normal, self.int);
        let exponent = with(b, BinOp::ShrU, bits, self.fraction);
        let (more, none) = (self.integer(b, self.bias + self.up), self.integer(b, self.bias));
        let less = b.select(small, more, none);
        let exponent = b.bin(BinOp::Sub, exponent, less);
        let m = with(b, BinOp::And, bits, (1 << self.fraction) - 1);
        let m = with(b, BinOp::Or, m, self.bias << self.fraction);
        (b.bitcast(m, self.ty()), exponent)
    }

    /// `m - d q`.
    fn rest(self, b: &mut LaneBuilder, m: LVal, d: LVal, q: LVal) -> LVal {
        let minus = b.un(UnOp::Neg, d);
        b.fma(minus, q, m)
    }

    /// Near `1 / d`.
    fn reciprocal(self, b: &mut LaneBuilder, d: LVal) -> LVal {
        let short = b.cvt(d, LTy::F32);
        let guess = own(b, UnOp::RcpNormal, short, Scalar::F32).or_else(|| own(b, UnOp::Rcp, short, Scalar::F32));
        let (mut r, steps) = match (guess, self.wide) {
            (Some(r), Wide::F32) => (r, 1),
            (Some(r), Wide::F64) => (b.cvt(r, F64), 2),
            (None, wide) => {
                let [whole, slope] = LINE.map(|x| self.number(b, x));
                (b.fma(d, slope, whole), if wide == Wide::F64 { 4 } else { 3 })
            }
        };
        let one = self.number(b, 1.0);
        for _ in 0..steps {
            let e = self.rest(b, one, d, r);
            r = b.fma(r, e, r);
        }
        r
    }

    /// `m / d` in [1, 2), rounded, and the remainder.
    fn ratio(self, b: &mut LaneBuilder, m: LVal, d: LVal) -> (LVal, LVal) {
        let r = self.reciprocal(b, d);
        let q = b.mul(m, r);
        let rest = self.rest(b, m, d, q);
        let q = b.fma(rest, r, q);
        let one = self.number(b, 1.0);
        let q = b.bin(BinOp::MaxNum, q, one);
        let rest = self.rest(b, m, d, q);
        let (unit, half) = (self.power(b, -self.fraction), self.power(b, -self.fraction - 1));
        let t = b.mul(d, half);
        let minus = b.un(UnOp::Neg, t);
        let (above, below) = (b.cmp(CmpOp::Gt, rest, t), b.cmp(CmpOp::Lt, rest, minus));
        let (next, before) = (b.add(q, unit), b.bin(BinOp::Sub, q, unit));
        let q = b.select(above, next, q);
        let q = b.select(below, before, q);
        (q, self.rest(b, m, d, q))
    }

    /// The bits of `q 2^n`, at most half a unit from what `q` was before it was rounded.
    fn scaled(self, b: &mut LaneBuilder, q: LVal, rest: LVal, n: LVal) -> LVal {
        let bits = b.bitcast(q, self.int);
        let field = with(b, BinOp::Shl, n, self.fraction);
        let normal = b.add(bits, field);
        let (zero, one, less) = (self.integer(b, 0), self.integer(b, 1), self.integer(b, -1));
        let whole = with(b, BinOp::And, bits, (1 << self.fraction) - 1);
        let whole = with(b, BinOp::Or, whole, 1 << self.fraction);
        let whole = with(b, BinOp::Shl, whole, 2);
        let none = self.number(b, 0.0);
        let (more, fewer) = (b.cmp(CmpOp::Gt, rest, none), b.cmp(CmpOp::Lt, rest, none));
        let sign = b.select(fewer, less, zero);
        let sign = b.select(more, one, sign);
        let whole = b.add(whole, sign);
        let first = self.integer(b, 3 - self.bias);
        let by = b.bin(BinOp::Sub, first, n);
        let most = self.integer(b, self.fraction + 5);
        let by = b.bin(BinOp::Minimum, by, most);
        let last = b.bin(BinOp::ShrU, whole, by);
        let last = with(b, BinOp::And, last, 1);
        let before = with(b, BinOp::Add, by, -1);
        let half = b.bin(BinOp::Shl, one, before);
        let half = with(b, BinOp::Add, half, -1);
        let sum = b.add(whole, half);
        let sum = b.add(sum, last);
        let subnormal = b.bin(BinOp::ShrU, sum, by);
        let (lowest, highest) = (self.integer(b, 1 - self.bias), self.integer(b, self.bias));
        let infinity = self.infinity(b);
        let (fits, beyond) = (b.cmp(CmpOp::Ge, n, lowest), b.cmp(CmpOp::Gt, n, highest));
        let bits = b.select(fits, normal, subnormal);
        b.select(beyond, infinity, bits)
    }

    /// The bits of infinity.
    fn infinity(self, b: &mut LaneBuilder) -> LVal {
        self.integer(b, (2 * self.bias + 1) << self.fraction)
    }

    fn quotient(self, b: &mut LaneBuilder, x: LVal, y: LVal) -> LVal {
        let (ax, ay) = (b.un(UnOp::Abs, x), b.un(UnOp::Abs, y));
        let ((m, i), (d, j)) = (self.split(b, ax), self.split(b, ay));
        let n = b.bin(BinOp::Sub, i, j);
        let (twice, before) = (b.add(m, m), with(b, BinOp::Add, n, -1));
        let below = b.cmp(CmpOp::Lt, m, d);
        let (m, n) = (b.select(below, twice, m), b.select(below, before, n));
        let (q, rest) = self.ratio(b, m, d);
        let bits = self.scaled(b, q, rest, n);
        // Zeros and infinities.
        let (zero, endless) = (self.number(b, 0.0), self.number(b, f64::INFINITY));
        let nothing = [b.cmp(CmpOp::Eq, ax, zero), b.cmp(CmpOp::Eq, ay, endless)];
        let everything = [b.cmp(CmpOp::Eq, ay, zero), b.cmp(CmpOp::Eq, ax, endless)];
        let (nothing, everything) = (b.bin(BinOp::Or, nothing[0], nothing[1]), b.bin(BinOp::Or, everything[0], everything[1]));
        let (none, infinity) = (self.integer(b, 0), self.infinity(b));
        let bits = b.select(nothing, none, bits);
        let bits = b.select(everything, infinity, bits);
        let (own, other) = (b.bitcast(x, self.int), b.bitcast(y, self.int));
        let sign = b.bin(BinOp::Xor, own, other);
        let top = self.integer(b, if self.wide == Wide::F64 { i64::MIN } else { i64::from(i32::MIN) });
        let sign = b.bin(BinOp::And, sign, top);
        let bits = b.bin(BinOp::Or, bits, sign);
        let value = b.bitcast(bits, self.ty());
        // Nothing over nothing, and what is no number.
        let unlike = [b.cmp(CmpOp::Ne, x, x), b.cmp(CmpOp::Ne, y, y), b.bin(BinOp::And, nothing, everything)];
        let unlike = unlike.into_iter().reduce(|p, q| b.bin(BinOp::Or, p, q));
        let nan = b.constant(self.ty(), num::to_bits(f64::NAN, self.wide.scalar()));
        unlike.map_or(value, |u| b.select(u, nan, value))
    }
}
