//! References: what a kernel must compute, in `f64` on the quantised inputs, and how far from it a result may be.
//!
//! Every tolerance is derived, none is measured. With `u = 2^-24` (half a unit in the last place of `f32`) an `f32` operation adds a
//! relative error `u`, the op table states the errors of the functions, and rounding the result to its type adds half a unit in
//! that type's last place. See each function for its sum.

use crate::activation::Activation;
use crate::tensor::{Tensor, in_parallel};
use std::ops::Range;
use tilelift_ir::{Scalar, num};

/// Half a unit in the last place of `f32` at 1.
pub(crate) const U: f64 = 1.0 / (1u64 << 24) as f64;

/// Above the magnitude of `silu(x)` for every `x` whose `e^-x` overflows `f32`: `89 e^-88.7 < 3e-37`.
const GATE_FLOOR: f64 = 3e-37;

/// The value an element must have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expected {
    /// The value; rounded to the type already if the tolerance is 0.
    pub value: f64,
    /// The largest absolute difference allowed; 0 asks for the same number, the sign of a zero included. Any NaN equals any NaN.
    pub tolerance: f64,
}

impl Expected {
    pub(crate) fn exact(value: f64) -> Expected {
        Expected { value, tolerance: 0.0 }
    }

    /// A value computed with an absolute error of at most `error` and then rounded to `elem`.
    pub(crate) fn rounded(value: f64, error: f64, elem: Scalar) -> Expected {
        let tolerance = error + half_ulp(value.abs() + error, elem);
        Expected { value, tolerance }
    }
}

/// Gives the expected values of a range of the output's elements, which lies in one row of the output.
pub type Reference<'a> = Box<dyn Fn(Range<usize>) -> Vec<Expected> + Send + Sync + 'a>;

/// Relative error of rounding to a float type: `2^-p` with `p` significant bits.
pub fn unit_roundoff(elem: Scalar) -> f64 {
    // The distance of 1 and the next number, by the number behind 1's bits.
    (num::from_bits(num::to_bits(1.0, elem) + 1, elem) - 1.0) / 2.0
}

/// At least the error of rounding a number of magnitude `a` to a float type: relative for normal numbers, half the smallest
/// subnormal below. `f32` and `f64` results count as subnormal-flushed: the smallest normal number, since the op table bounds only
/// relative errors there.
fn half_ulp(a: f64, elem: Scalar) -> f64 {
    let smallest = match elem {
        Scalar::F16 | Scalar::BF16 => num::from_bits(1, elem) / 2.0,
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 => {
            num::from_bits(1, elem) / 2.0
        }
        Scalar::F32 | Scalar::F64 => f64::from(f32::MIN_POSITIVE),
        Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => 0.0,
    };
    a * unit_roundoff(elem) + smallest
}

/// `a + b`, exactly rounded (floats) or wrapped (integers up to 32 bits).
pub fn vector_add<'a>(a: &'a Tensor, b: &'a Tensor) -> Reference<'a> {
    let elem = a.elem;
    Box::new(move |range| {
        let sum = |i| {
            let s = a.get(i) + b.get(i);
            if elem.is_float() { num::round(s, elem) } else { num::wrap(s as i64, elem) as f64 }
        };
        range.map(|i| Expected::exact(sum(i))).collect()
    })
}

/// `silu(a) * b`. Errors relative to the result: the activation's ([`Activation::error`]) and one multiplication. The gate is an `f32`:
/// below 3e-37 it is rounded before it meets `b`, and may be 0.
pub fn silu_mul<'a>(a: &'a Tensor, b: &'a Tensor) -> Reference<'a> {
    let one = move |i| {
        let (gate, y) = (Activation::Silu.eval(a.get(i)), b.get(i));
        let tiny = gate.abs() < GATE_FLOOR;
        let value = if tiny { num::round(gate, Scalar::F32) * y } else { gate * y };
        let error = value.abs() * (Activation::Silu.error() + U) + if tiny { GATE_FLOOR * y.abs() } else { 0.0 };
        Expected::rounded(value, if error.is_finite() { error } else { 0.0 }, a.elem)
    };
    Box::new(move |range| range.map(one).collect())
}

/// Row softmax. With `t = x - max`, an exponential has the relative error `2^-21 + |t| u` (the op's, and the rounding of `t`). The sum
/// inherits the errors weighted by probability, `2^-21 + u sum(p |t|)`, where `sum(p |t|) <= ln n` because it is the entropy less the
/// logarithm of the sum; its tree adds `log2 n + 1` roundings; the inverse and the product add two, and two more cover second
/// order terms.
pub fn softmax(x: &Tensor) -> Reference<'_> {
    let cols = row_length(x);
    Box::new(move |range| {
        let start = range.start / cols * cols;
        let row = x.read(start..start + cols);
        let max = row.iter().fold(f64::NEG_INFINITY, |m, &v| if v.is_nan() || m.is_nan() { f64::NAN } else { m.max(v) });
        let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
        let n = cols as f64;
        let shared = 2.0 * 2f64.powi(-21) + (n.ln() + n.log2().ceil() + 5.0) * U;
        let one = |i: usize| {
            let t = row[i - start] - max;
            let value = t.exp() / sum;
            let error = if value == 0.0 { 0.0 } else { value * (shared + t.abs() * U) };
            Expected::rounded(value, error, x.elem)
        };
        range.map(one).collect()
    })
}

/// RMSNorm. The squares, the tree of their sum (`log2 n + 1` levels), the division and the addition of `eps` add only numbers of one
/// sign, so their relative errors do not grow; the inverse square root halves them and adds `2^-22`; two products add two roundings.
pub fn rms_norm<'a>(x: &'a Tensor, w: &'a Tensor, eps: f64) -> Reference<'a> {
    let cols = row_length(x);
    Box::new(move |range| {
        let start = range.start / cols * cols;
        let row = x.read(start..start + cols);
        let n = cols as f64;
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / n + eps).sqrt();
        let relative = (n.log2().ceil() + 4.0) / 2.0 * U + 2f64.powi(-22) + 3.0 * U;
        let one = |i: usize| {
            let value = row[i - start] * scale * w.get(i - start);
            Expected::rounded(value, value.abs() * relative, x.elem)
        };
        range.map(one).collect()
    })
}

/// LayerNorm of `h = x`, or `h = x + residual`. With `L = log2 n + 2` levels of a sum and its division, the mean is off by at most
/// `L u mean |h|`, and `h` itself by `u |h|`; so every distance from the mean is off by at most `D = u (L mean |h| + 3 max |h|)`. The
/// variance is off by `2 sqrt(var) D + D^2` and `(L + 2) u` of itself; the inverse square root halves that relative error and adds
/// `2^-22`; two products, the bias and second order terms add four roundings.
pub fn layer_norm<'a>(x: &'a Tensor, residual: Option<&'a Tensor>, w: &'a Tensor, b: &'a Tensor, eps: f64) -> Reference<'a> {
    let cols = w.shape.iter().map(|&e| e as usize).product::<usize>().max(1);
    Box::new(move |range| {
        let start = range.start / cols * cols;
        let mut row = x.read(start..start + cols);
        if let Some(r) = residual {
            row.iter_mut().zip(r.read(start..start + cols)).for_each(|(h, r)| *h += r);
        }
        let n = cols as f64;
        let mean = row.iter().sum::<f64>() / n;
        let size = row.iter().map(|h| h.abs()).sum::<f64>() / n;
        let most = row.iter().fold(0.0f64, |m, h| m.max(h.abs()));
        let var = row.iter().map(|h| (h - mean).powi(2)).sum::<f64>() / n;
        let levels = n.log2().ceil() + 2.0;
        let distance = U * (levels * size + 3.0 * most);
        let scale = 1.0 / (var + eps).sqrt();
        let relative = (2.0 * var.sqrt() * distance + distance * distance) / (var + eps) / 2.0 + (levels + 2.0) / 2.0 * U + 2f64.powi(-22);
        let one = |i: usize| {
            let (d, weight, bias) = (row[i - start] - mean, w.get(i - start), b.get(i - start));
            let value = d * scale * weight + bias;
            let product = (d * scale * weight).abs();
            let error = scale * weight.abs() * distance + product * relative + 4.0 * U * (product + bias.abs());
            Expected::rounded(value, error, x.elem)
        };
        range.map(one).collect()
    })
}

/// Rotary embedding of `x[heads, length, dim]`: two products and a sum, three roundings of at most `u` of the products' magnitudes.
pub fn rotary<'a>(x: &'a Tensor, cos: &'a Tensor, sin: &'a Tensor, interleaved: bool) -> Reference<'a> {
    let dim = row_length(x);
    let length = row_count(cos);
    Box::new(move |range| {
        let start = range.start / dim * dim;
        let row = x.read(start..start + dim);
        let position = start / dim % length;
        let half = dim / 2;
        let one = |i: usize| {
            let c = i - start;
            let (pair, other, first) =
                if interleaved { (c / 2, c ^ 1, c.is_multiple_of(2)) } else { (c % half, (c + half) % dim, c < half) };
            let (cos, sin) = (cos.get(position * half + pair), sin.get(position * half + pair));
            let (a, b) = (row[c] * cos, row[other] * sin);
            Expected::rounded(if first { a - b } else { a + b }, 3.0 * U * (a.abs() + b.abs()), x.elem)
        };
        range.map(one).collect()
    })
}

/// The first `k` of every row in order, or their positions; NaN last, -0 before +0, equal ones by position.
pub fn select(x: &Tensor, descending: bool, positions: bool, k: usize) -> Reference<'_> {
    let cols = row_length(x);
    Box::new(move |range| {
        let r = range.start / k;
        let row = x.read(r * cols..(r + 1) * cols);
        let mut at: Vec<usize> = (0..cols).collect();
        at.sort_by(|&p, &q| {
            let (p, q) = (row[p], row[q]);
            let order = if descending { q.total_cmp(&p) } else { p.total_cmp(&q) };
            if p.is_nan() || q.is_nan() { p.is_nan().cmp(&q.is_nan()) } else { order }
        });
        range.map(|i| at[i - r * k]).map(|p| Expected::exact(if positions { p as f64 } else { row[p] })).collect()
    })
}

/// Rows of a matrix by number; zeros for a number outside.
pub fn gather_rows<'a>(x: &'a Tensor, index: &'a Tensor) -> Reference<'a> {
    let (cols, rows) = (row_length(x), row_count(x));
    Box::new(move |range| {
        let one = |i: usize| {
            let at = index.get(i / cols);
            if at >= 0.0 && at < rows as f64 { x.get(at as usize * cols + i % cols) } else { 0.0 }
        };
        range.map(|i| Expected::exact(one(i))).collect()
    })
}

/// How often each number appears.
pub fn bincount(x: &Tensor) -> Reference<'_> {
    let n = x.shape.iter().map(|&e| e as usize).product();
    let mut counts = std::collections::BTreeMap::new();
    for v in x.read(0..n) {
        *counts.entry(v as i64).or_insert(0u32) += 1;
    }
    Box::new(move |range| range.map(|i| Expected::exact(f64::from(*counts.get(&(i as i64)).unwrap_or(&0)))).collect())
}

/// Transposition of a matrix.
pub fn transpose(x: &Tensor) -> Reference<'_> {
    let cols = row_length(x);
    let rows = (x.shape.first().copied().unwrap_or(1) as usize).max(1);
    Box::new(move |range| range.map(|i| Expected::exact(x.get(i % rows * cols + i / rows))).collect())
}

/// What a GEMM's reference needs beside the operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GemmReference {
    /// Rows of C, columns of C, depth.
    pub shape: [usize; 3],
    /// A is stored `KxM`.
    pub trans_a: bool,
    /// B is stored `NxK`.
    pub trans_b: bool,
    /// Operands are rounded to tf32.
    pub tf32: bool,
    /// Applied to the biased sum.
    pub activation: Activation,
    /// Element type of C.
    pub out: Scalar,
}

impl GemmReference {
    /// `act(A B + bias)`. Products of the operands are exact in `f32`. Each of the `K` additions, and the bias's, adds at most one unit
    /// in the last place (`2u`: matrix units truncate where a processor rounds) of a partial sum, which is at most
    /// `S = sum |a| |b| + |bias|`; so the error before the activation is at most `(K + 2) 2u S`. The activation stretches it by its
    /// largest slope and adds its own error.
    pub fn of<'a>(self, a: &Tensor, b: &Tensor, bias: Option<&'a Tensor>) -> Reference<'a> {
        let [m, n, k] = self.shape;
        let a = row_major(a, m, k, self.trans_a, self.tf32);
        let b = Columns::of(b, k, n, self.trans_b, self.tf32);
        Box::new(move |range| {
            let (row, first) = (range.start / n, range.start % n);
            let width = range.len();
            let (sum, size) = b.times(&a[row * k..(row + 1) * k], first..first + width);
            let one = |(j, (mut s, mut z)): (usize, (f64, f64))| {
                if !self.out.is_float() {
                    // Integer sums wrap; these are far from it.
                    return Expected::exact(num::wrap(s as i64, self.out) as f64);
                }
                if let Some(bias) = bias {
                    let v = bias.get(first + j);
                    s += v;
                    z += v.abs();
                }
                let before = sum_error(k, self.tf32) * z;
                let error = self.activation.lipschitz() * before + self.activation.error() * (s.abs() + before);
                Expected::rounded(self.activation.eval(s), error, self.out)
            };
            sum.into_iter().zip(size).enumerate().map(one).collect()
        })
    }

    /// A bound of `||y - ref|| / ||ref||` for operands of independent signs, where the sum of squares is about that of the products.
    /// Partial sums pass through one truncation for every 8 products at least (half a unit, `u`, on average), so `K/8 u`, with a
    /// floor of `2^-19` for the activation and short sums; the output's rounding adds its unit roundoff. Integer products are exact.
    pub fn rel_l2(self) -> f64 {
        if !self.out.is_float() {
            return 0.0;
        }
        let rounding = if self.out == Scalar::F32 { 0.0 } else { unit_roundoff(self.out) };
        self.shape[2] as f64 / 8.0 * U + 2f64.powi(-19) + rounding + if self.tf32 { TIES } else { 0.0 }
    }
}

/// What the two ways to round a tie to tf32 make of a product of two matrices, relative: one operand in `2^13` is a tie, half of these
/// differ, by a unit of `2^-10` at most, in both factors, so `sqrt(2^-13) 2^-10`, with a factor of 2 for matrices of few elements.
pub(crate) const TIES: f64 = 3.0e-5;

/// The error of a sum of `k` products and a bias, in parts of the sum of their magnitudes. Of tf32 operands the rounded numbers count;
/// a target may round ties to even, which changes each of two factors by a unit of `2^-10` at most.
pub(crate) fn sum_error(k: usize, tf32: bool) -> f64 {
    (k as f64 + 2.0) * 2.0 * U + if tf32 { 2f64.powi(-9) } else { 0.0 }
}

/// A second factor of a matrix product, as a row is multiplied by it: columns side by side in groups, each group from the first row to the last,
/// so that the sums of a group stay in registers and its elements are read in order.
pub(crate) struct Columns {
    rows: usize,
    groups: Vec<[f64; Columns::GROUP]>,
}

impl Columns {
    /// Columns of a group.
    const GROUP: usize = 8;

    /// The columns of a `rows x cols` matrix, from a tensor that holds it so or transposed.
    pub(crate) fn of(t: &Tensor, rows: usize, cols: usize, transposed: bool, tf32: bool) -> Columns {
        let get = element_of(t, rows, cols, transposed, tf32);
        let parts = (0..cols.div_ceil(Self::GROUP)).collect();
        let groups = in_parallel(parts, |group: usize| {
            let at = |row: usize, i: usize| if group * Self::GROUP + i < cols { get(row, group * Self::GROUP + i) } else { 0.0 };
            (0..rows).map(|row| std::array::from_fn(|i| at(row, i))).collect::<Vec<_>>()
        });
        Columns { rows, groups: groups.concat() }
    }

    /// A row times some of the columns: the sums of the products, and of their magnitudes.
    pub(crate) fn times(&self, row: &[f64], columns: Range<usize>) -> (Vec<f64>, Vec<f64>) {
        let (mut sum, mut size) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        let mut at = columns.start;
        while at < columns.end {
            let (group, first) = (at / Self::GROUP, at % Self::GROUP);
            let (mut s, mut z) = ([0.0f64; Self::GROUP], [0.0f64; Self::GROUP]);
            for (&x, line) in row.iter().zip(&self.groups[group * self.rows..(group + 1) * self.rows]) {
                for i in 0..Self::GROUP {
                    let product = x * line[i];
                    s[i] += product;
                    z[i] += product.abs();
                }
            }
            let end = (columns.end - group * Self::GROUP).min(Self::GROUP);
            sum.extend_from_slice(&s[first..end]);
            size.extend_from_slice(&z[first..end]);
            at += end - first;
        }
        (sum, size)
    }
}

/// The matrix in row-major order as `rows x cols`, from a tensor that holds it so or transposed.
pub(crate) fn row_major(t: &Tensor, rows: usize, cols: usize, transposed: bool, tf32: bool) -> Vec<f64> {
    let get = element_of(t, rows, cols, transposed, tf32);
    (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c))).map(|(r, c)| get(r, c)).collect()
}

/// Elements by row and column of a `rows x cols` matrix, from a tensor that holds it so or transposed.
fn element_of(t: &Tensor, rows: usize, cols: usize, transposed: bool, tf32: bool) -> impl Fn(usize, usize) -> f64 + Sync + '_ {
    move |r, c| {
        let v = t.get(if transposed { c * rows + r } else { r * cols + c });
        if tf32 { num::round_tf32(v) } else { v }
    }
}

/// Rows of a matrix; at least 1.
fn row_count(t: &Tensor) -> usize {
    (t.shape.first().copied().unwrap_or(1) as usize).max(1)
}

/// Elements of a row; at least 1.
fn row_length(t: &Tensor) -> usize {
    (t.shape.last().copied().unwrap_or(1) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Init, TensorSpec};

    fn tensor(elem: Scalar, shape: &[u32], seed: u64) -> Tensor {
        TensorSpec::input("t", elem, shape, Init::Normal(seed)).make()
    }

    #[test]
    fn unit_roundoff_is_two_to_the_minus_significant_bits() {
        for (elem, p) in [(Scalar::F16, 11), (Scalar::BF16, 8), (Scalar::F32, 24), (Scalar::F64, 53)] {
            assert_eq!(unit_roundoff(elem), 2f64.powi(-p));
        }
    }

    #[test]
    fn rounding_stays_within_half_ulp() {
        for elem in [Scalar::F16, Scalar::BF16, Scalar::F32] {
            for i in 0..20_000 {
                let x = crate::rng::normal(5, i) * 2f64.powi((i % 60) as i32 - 45);
                let e = Expected::rounded(x, 0.0, elem);
                assert!((num::round(x, elem) - x).abs() <= e.tolerance, "{elem} {x}");
            }
        }
    }

    #[test]
    fn sums_wrap_and_round() {
        let a = tensor(Scalar::I32, &[100], 1);
        let b = tensor(Scalar::I32, &[100], 2);
        for (i, e) in vector_add(&a, &b)(0..100).iter().enumerate() {
            assert_eq!(e.value as i32, (a.get(i) as i32).wrapping_add(b.get(i) as i32));
        }
        let (a, b) = (tensor(Scalar::F32, &[100], 1), tensor(Scalar::F32, &[100], 2));
        for (i, e) in vector_add(&a, &b)(0..100).iter().enumerate() {
            assert_eq!((e.value as f32, e.tolerance), (a.get(i) as f32 + b.get(i) as f32, 0.0));
        }
    }

    #[test]
    fn rows_of_a_softmax_sum_to_one_and_keep_ratios() {
        let x = tensor(Scalar::F32, &[7, 13], 4);
        let f = softmax(&x);
        for r in 0..7 {
            let row = f(r * 13..(r + 1) * 13);
            assert!((row.iter().map(|e| e.value).sum::<f64>() - 1.0).abs() < 1e-14);
            for c in 1..13 {
                let want = (x.get(r * 13 + c) - x.get(r * 13)).exp();
                assert!((row[c].value / row[0].value / want - 1.0).abs() < 1e-13);
                // The bar that the kernel was asked to meet is wider.
                assert!(row[c].tolerance < 1e-5 * row[c].value + 1e-7);
            }
            // A part of a row is the same part of the whole row.
            assert_eq!(f(r * 13 + 3..r * 13 + 9), row[3..9]);
        }
    }

    #[test]
    fn normalised_rows_have_unit_mean_square() {
        let x = tensor(Scalar::F16, &[5, 100], 4);
        let w = tensor(Scalar::F16, &[100], 5);
        let y = rms_norm(&x, &w, 0.0)(200..300);
        let mean = y.iter().enumerate().map(|(c, e)| (e.value / w.get(c)).powi(2)).sum::<f64>() / 100.0;
        assert!((mean - 1.0).abs() < 1e-12);
        let big_eps = rms_norm(&x, &w, 1e12)(200..201)[0].value;
        assert!((big_eps * 1e6 - x.get(200) * w.get(0)).abs() < 1e-9);
    }

    #[test]
    fn transposing_twice_is_nothing() {
        let x = tensor(Scalar::I8, &[5, 9], 4);
        let y = transpose(&x)(0..45);
        let bytes = y.iter().map(|e| e.value as i8 as u8).collect();
        let y = Tensor { elem: Scalar::I8, shape: vec![9, 5], bytes };
        let z: Vec<f64> = transpose(&y)(0..45).iter().map(|e| e.value).collect();
        assert_eq!(z, x.read(0..45));
        assert_eq!(y.get(2 * 5 + 3), x.get(3 * 9 + 2));
    }

    #[test]
    fn a_product_equals_the_sum_by_the_formula_in_every_order() {
        let (m, n, k) = (4usize, 6usize, 5usize);
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            for tf32 in [false, true] {
                let a = tensor(Scalar::F32, &[20], 1);
                let b = tensor(Scalar::F32, &[30], 2);
                let bias = tensor(Scalar::F32, &[6], 3);
                let q = |x: f64| if tf32 { num::round_tf32(x) } else { x };
                let r = GemmReference { shape: [m, n, k], trans_a, trans_b, tf32, activation: Activation::Relu, out: Scalar::F16 };
                let f = r.of(&a, &b, Some(&bias));
                for i in 0..m {
                    for j in 0..n {
                        let x = |p: usize| q(a.get(if trans_a { p * m + i } else { i * k + p }));
                        let y = |p: usize| q(b.get(if trans_b { j * k + p } else { p * n + j }));
                        let want = ((0..k).map(|p| x(p) * y(p)).sum::<f64>() + bias.get(j)).max(0.0);
                        let e = f(i * n + j..i * n + j + 1)[0];
                        assert!((e.value - want).abs() < 1e-14);
                        assert!(
                            e.tolerance > want * 2f64.powi(-11) && e.tolerance < want * 2f64.powi(-11) + if tf32 { 3e-2 } else { 1e-4 }
                        );
                    }
                }
            }
        }
    }
}
