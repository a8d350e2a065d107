//! Numbers with bounds on what roundings may do to them.
//!
//! ```text
//! v   the number, in f64: what the graph means
//! e   how far a kernel may be from it, whatever the order of its sums and products
//! m   the number with every term taken by its magnitude: what roundings of terms that cancel are relative to
//! ```
//!
//! This is the running error analysis of Wilkinson, with magnitudes instead of numbers, so that a bound holds for a sum in any order, for
//! products that are distributed over it or taken out of it, and for tensors in between that are rounded or not.

use tilelift_ir::{Op, Scalar, num};

/// A number, how far a kernel may be from it, and its magnitude.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Num {
    pub v: f64,
    pub e: f64,
    pub m: f64,
}

/// What an operation adds to the error of its result, relative to its magnitude.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rounding {
    /// An op of `f32`; twice its unit, since taking a factor out of a sum or into it is another op for each term. 0 where every sum is exact.
    pub op: f64,
}

impl Rounding {
    /// Roundings of `f32`.
    pub const F32: Rounding = Rounding { op: 2.0 * UNIT };
    /// Numbers of which all sums and products are exact.
    pub const NONE: Rounding = Rounding { op: 0.0 };
}

/// Half a unit in the last place of `f32`.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// Half a unit in the last place of a type, relative, and half its smallest number.
pub(super) fn unit(elem: Scalar) -> [f64; 2] {
    match elem {
        Scalar::BF16 => [2f64.powi(-8), 2f64.powi(-134)],
        Scalar::F16 => [2f64.powi(-11), 2f64.powi(-25)],
        _ => [UNIT, 2f64.powi(-150)],
    }
}

/// The bound of the op table on a function of `f32`; what has none is off by a quotient's few units on machines.
pub(super) fn function(op: Op) -> f64 {
    op.info().error.map_or(4.0 * UNIT, |e| 2f64.powi(e.relative))
}

impl Num {
    /// A number that is as it is.
    pub fn exact(v: f64) -> Num {
        Num { v, e: 0.0, m: v.abs() }
    }

    /// A number without a bound: what follows from it has none, either.
    fn unbounded(v: f64) -> Num {
        Num { v, e: f64::INFINITY, m: f64::INFINITY }
    }

    fn rounded(self, by: f64) -> Num {
        let e = if by == 0.0 { self.e } else { self.e + by * (self.m + self.e) };
        // Infinity times 0 is no number, and no bound.
        if e.is_finite() && self.m.is_finite() { Num { e, ..self } } else { Num::unbounded(self.v) }
    }

    pub fn add(self, o: Num, r: Rounding) -> Num {
        Num { v: self.v + o.v, e: self.e + o.e, m: self.m + o.m }.rounded(r.op)
    }

    pub fn neg(self) -> Num {
        Num { v: -self.v, ..self }
    }

    pub fn sub(self, o: Num, r: Rounding) -> Num {
        self.add(o.neg(), r)
    }

    pub fn mul(self, o: Num, r: Rounding) -> Num {
        let e = self.m * o.e + o.m * self.e + self.e * o.e;
        Num { v: self.v * o.v, e, m: self.m * o.m }.rounded(r.op)
    }

    /// One of two numbers: the larger or the smaller.
    pub fn either(self, o: Num, v: f64) -> Num {
        Num { v, e: self.e.max(o.e), m: self.m.max(o.m) }
    }

    pub fn max(self, o: Num) -> Num {
        self.either(o, self.v.max(o.v))
    }

    pub fn min(self, o: Num) -> Num {
        self.either(o, self.v.min(o.v))
    }

    /// `e^x`, twice: a factor of it may be taken out.
    pub fn exp(self) -> Num {
        let v = self.v.exp();
        let m = v * self.e.exp();
        Num { v, e: v * self.e.exp_m1() + 2.0 * function(Op::Exp) * m + 2f64.powi(-126), m }.rounded(0.0)
    }

    /// A quotient, or a product with the reciprocal.
    pub fn div(self, o: Num, r: Rounding) -> Num {
        let least = o.v.abs() - o.e;
        if least <= 0.0 {
            return Num::unbounded(self.v / o.v);
        }
        let v = self.v / o.v;
        let m = self.m / least;
        Num { v, e: (self.e + v.abs() * o.e) / least + 2.0 * function(Op::Div) * m, m }.rounded(r.op)
    }

    /// `1 / sqrt(x)`.
    pub fn rsqrt(self) -> Num {
        let least = self.v - self.e;
        let v = 1.0 / self.v.sqrt();
        if least <= 0.0 {
            return Num::unbounded(v);
        }
        let m = 1.0 / least.sqrt();
        Num { v, e: m - v + 2.0 * function(Op::Rsqrt) * m, m }
    }

    /// The sum of numbers in any order.
    pub fn sum(terms: impl Iterator<Item = Num>, r: Rounding) -> Num {
        let (mut n, mut s) = (0.0, Num::exact(0.0));
        for t in terms {
            n += 1.0;
            s = Num { v: s.v + t.v, e: s.e + t.e, m: s.m + t.m };
        }
        s.rounded((n + 1.0) * r.op)
    }

    /// The number as an element of a type, or as it was.
    pub fn stored(self, elem: Scalar, r: Rounding) -> Num {
        if r.op == 0.0 {
            return self;
        }
        let [relative, least] = unit(elem);
        let most = self.v.abs() + self.e;
        let largest = num::from_bits(num::to_bits(f64::INFINITY, elem) - 1, elem);
        let e = if most < largest { self.e + relative * most + least } else { f64::INFINITY };
        Num { e, ..self }
    }

    /// Which part of the bound a kernel's number takes: at most 1 if it is right; `None` if there is no bound.
    pub fn part(self, got: f64) -> Option<f64> {
        if !self.e.is_finite() || self.v.is_nan() {
            return None;
        }
        let off = (got - self.v).abs();
        Some(if off == 0.0 {
            0.0
        } else if off.is_nan() {
            f64::INFINITY
        } else {
            off / self.e
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_for_sums_in_any_order_and_for_factors_taken_out() {
        let xs: Vec<f32> = (0..200u32).map(|i| ((i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0) - 0.5).collect();
        let (scale, r) = (0.7f32, Rounding::F32);
        let terms = || xs.iter().map(|&x| Num::exact(f64::from(x)));
        let sum = Num::sum(terms(), r).mul(Num::exact(f64::from(scale)), r);
        let ways = [
            xs.iter().sum::<f32>() * scale,
            xs.iter().rev().sum::<f32>() * scale,
            xs.iter().map(|x| x * scale).sum::<f32>(),
            xs.chunks(16).map(|c| c.iter().sum::<f32>()).sum::<f32>() * scale,
        ];
        for way in ways {
            assert!(sum.part(f64::from(way)).is_some_and(|p| p <= 1.0), "{way} of {sum:?}");
        }
        // A term that is left out, or taken twice, is far outside.
        assert!(sum.part(f64::from(ways[0] - xs[7] * scale)).is_some_and(|p| p > 100.0));
        let exact = Num::sum(terms().map(|n| Num::exact((n.v * 8.0).round())), Rounding::NONE);
        assert_eq!((exact.part(exact.v), exact.part(exact.v + 1.0)), (Some(0.0), Some(f64::INFINITY)));
    }
}
