//! Reductions, in the order that is part of their meaning, and the matrix product.

use super::codec::{Float, float, round_all, wrap_all};
use super::data::Data;
use super::elementwise::{maximum, minimum};
use super::error::Fault;
use super::shapes::count;
use std::rc::Rc;
use tilelift_ir::num;
use tilelift_ir::ops::{Precision, ReduceOp};
use tilelift_ir::reduce::{ReduceOrder, reduce_order};
use tilelift_ir::types::Scalar;
use tilelift_ir::typing::SCALE_BLOCK;

/// Combines the elements along `axis` in the order of [`reduce_order`].
pub(crate) fn reduce(op: ReduceOp, elem: Scalar, a: &Data, shape: &[u32], axis: usize) -> Result<Data, Fault> {
    let (outer, inner) = (count(&shape[..axis]), count(&shape[axis + 1..]));
    let order = reduce_order(shape[axis]);
    let fold_f = |v: &[f64], f: &dyn Fn(&mut Folder<'_, f64>)| {
        let mut out = Vec::with_capacity(outer * inner);
        let mut folder = Folder { source: v, order: &order, outer, inner, out: &mut out };
        f(&mut folder);
        Data::floats(out)
    };
    let fold_i = |v: &[i64], f: &dyn Fn(&mut Folder<'_, i64>)| {
        let mut out = Vec::with_capacity(outer * inner);
        let mut folder = Folder { source: v, order: &order, outer, inner, out: &mut out };
        f(&mut folder);
        Data::ints(out)
    };
    let bits = Fault::Malformed("a bitwise reduction of floats");
    match a {
        Data::Float(v) => Ok(match op {
            ReduceOp::Add => float!(elem, R => fold_f(v, &|f| f.run(|x, y| R::round(x + y)))),
            ReduceOp::Mul => float!(elem, R => fold_f(v, &|f| f.run(|x, y| R::round(x * y)))),
            ReduceOp::Minimum => fold_f(v, &|f| f.run(minimum)),
            ReduceOp::Maximum => fold_f(v, &|f| f.run(maximum)),
            ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => return Err(bits),
        }),
        Data::Int(v) => Ok(match op {
            ReduceOp::Add => fold_i(v, &|f| f.run(|x, y| num::wrap(x.wrapping_add(y), elem))),
            ReduceOp::Mul => fold_i(v, &|f| f.run(|x, y| num::wrap(x.wrapping_mul(y), elem))),
            ReduceOp::Minimum => fold_i(v, &|f| f.run(i64::min)),
            ReduceOp::Maximum => fold_i(v, &|f| f.run(i64::max)),
            ReduceOp::And => fold_i(v, &|f| f.run(|x, y| x & y)),
            ReduceOp::Or => fold_i(v, &|f| f.run(|x, y| x | y)),
            ReduceOp::Xor => fold_i(v, &|f| f.run(|x, y| x ^ y)),
        }),
    }
}

struct Folder<'a, T> {
    source: &'a [T],
    order: &'a ReduceOrder,
    outer: usize,
    inner: usize,
    out: &'a mut Vec<T>,
}

impl<T: Copy> Folder<'_, T> {
    /// Folds every outer index by itself; the `inner` elements behind one index along the axis travel together.
    fn run(&mut self, f: impl Fn(T, T) -> T) {
        let pow2 = self.order.pow2() as usize * self.inner;
        let odd = self.order.odd as usize;
        let mut acc = Vec::with_capacity(pow2);
        for o in 0..self.outer {
            let row = &self.source[o * odd * pow2..(o + 1) * odd * pow2];
            acc.clear();
            acc.extend_from_slice(&row[..pow2]);
            for part in row[pow2..].chunks_exact(pow2) {
                acc.iter_mut().zip(part).for_each(|(x, &y)| *x = f(*x, y));
            }
            // After each bit the array is compacted to the indices left; `left` keeps their bit numbers, ascending.
            let mut left: Vec<u32> = (0..self.order.bits.len() as u32).collect();
            for bit in &self.order.bits {
                let place = left.iter().position(|b| b == bit).unwrap_or(0);
                left.remove(place);
                let half = self.inner << place;
                let (mut from, mut to) = (0, 0);
                while from < acc.len() {
                    for i in 0..half {
                        acc[to + i] = f(acc[from + i], acc[from + half + i]);
                    }
                    from += 2 * half;
                    to += half;
                }
                acc.truncate(to);
            }
            self.out.extend_from_slice(&acc);
        }
    }
}

/// `a * b + c` for `m x k` by `k x n`, matrix by matrix of a batch. Products are exact (except that `f64` fuses them), the sum runs in
/// `f64` along k in ascending order from `c`, and is rounded or wrapped once at the end.
pub(crate) fn dot(dims: [usize; 3], acc: Scalar, precision: Precision, a: &Data, b: &Data, c: Data) -> Result<Data, Fault> {
    let high = |v: &[f64]| -> Vec<f64> { v.iter().map(|&x| num::round_tf32(x)).collect() };
    let low = |v: &[f64]| -> Vec<f64> { v.iter().map(|&x| num::round_tf32(f64::from((x - num::round_tf32(x)) as f32))).collect() };
    // Sums of up to 2^24 products of i8 stay far below 2^53: exact in f64.
    let numbers = |d: &Data| match d {
        Data::Float(v) => Rc::clone(v),
        Data::Int(v) => Rc::new(v.iter().map(|&x| x as f64).collect::<Vec<f64>>()),
    };
    let (a, b) = (numbers(a), numbers(b));
    let terms: Vec<[Rc<Vec<f64>>; 2]> = match precision {
        Precision::Exact => vec![[a, b]],
        Precision::Tf32 => vec![[Rc::new(high(&a)), Rc::new(high(&b))]],
        Precision::Tf32x3 => {
            let ([ah, bh], [al, bl]) = ([&a, &b].map(|v| Rc::new(high(v))), [&a, &b].map(|v| Rc::new(low(v))));
            vec![[al, Rc::clone(&bh)], [Rc::clone(&ah), bl], [ah, bh]]
        }
    };
    let [m, k, n] = dims;
    let sum = |out: &mut [f64], fma: fn(f64, f64, f64) -> f64| {
        for [a, b] in &terms {
            for (z, c) in out.chunks_mut(m * n).enumerate() {
                accumulate(dims, &a[z * m * k..(z + 1) * m * k], &b[z * k * n..(z + 1) * k * n], c, fma);
            }
        }
    };
    match c {
        Data::Float(mut c) => {
            let out = Rc::make_mut(&mut c);
            if acc == Scalar::F64 {
                sum(out, f64::mul_add);
            } else {
                sum(out, |x, y, z| x * y + z);
                round_all(out, acc);
            }
            Ok(Data::Float(c))
        }
        Data::Int(mut c) => {
            let mut sums: Vec<f64> = c.iter().map(|&x| x as f64).collect();
            sum(&mut sums, |x, y, z| x * y + z);
            let out = Rc::make_mut(&mut c);
            out.iter_mut().zip(&sums).for_each(|(c, &s)| *c = s as i64);
            wrap_all(out, acc);
            Ok(Data::Int(c))
        }
    }
}

/// Four rows at a time, so that a row of `b` is read once for four products; columns in blocks that stay in the first-level cache.
fn accumulate([m, k, n]: [usize; 3], a: &[f64], b: &[f64], c: &mut [f64], fma: impl Fn(f64, f64, f64) -> f64 + Copy) {
    const COLUMNS: usize = 256;
    for (block, rows) in c.chunks_mut(4 * n).enumerate() {
        let first = block * 4;
        for j0 in (0..n).step_by(COLUMNS) {
            let j1 = (j0 + COLUMNS).min(n);
            if first + 4 <= m {
                let (r0, rest) = rows.split_at_mut(n);
                let (r1, rest) = rest.split_at_mut(n);
                let (r2, r3) = rest.split_at_mut(n);
                let (r0, r1, r2, r3) = (&mut r0[j0..j1], &mut r1[j0..j1], &mut r2[j0..j1], &mut r3[j0..j1]);
                for p in 0..k {
                    let (x0, x1, x2, x3) = (a[first * k + p], a[(first + 1) * k + p], a[(first + 2) * k + p], a[(first + 3) * k + p]);
                    let columns = r0.iter_mut().zip(r1.iter_mut()).zip(r2.iter_mut()).zip(r3.iter_mut());
                    for ((((c0, c1), c2), c3), &y) in columns.zip(&b[p * n + j0..p * n + j1]) {
                        *c0 = fma(x0, y, *c0);
                        *c1 = fma(x1, y, *c1);
                        *c2 = fma(x2, y, *c2);
                        *c3 = fma(x3, y, *c3);
                    }
                }
            } else {
                for (i, row) in rows.chunks_mut(n).enumerate() {
                    for p in 0..k {
                        let x = a[(first + i) * k + p];
                        row[j0..j1].iter_mut().zip(&b[p * n + j0..p * n + j1]).for_each(|(c, &y)| *c = fma(x, y, *c));
                    }
                }
            }
        }
    }
}

/// `a * b + c` with a scale per block of elements along k: the elements times their scales are exact in `f64`, and so are their products; see [`dot`].
pub(crate) fn dot_scaled(shapes: [&[u32]; 2], operands: [&Data; 2], scales: [&Data; 2], c: Data) -> Result<Data, Fault> {
    let malformed = || Fault::Malformed("a dot of something else than matrices");
    let ([.., m, k], [.., n]) = (shapes[0], shapes[1]) else { return Err(malformed()) };
    let mut scaled: [Vec<f64>; 2] = [operands[0].as_floats()?.to_vec(), operands[1].as_floats()?.to_vec()];
    let scales = [scales[0].as_floats()?, scales[1].as_floats()?];
    // Neighbours along a line share a scale in A; whole lines do in B.
    let block = SCALE_BLOCK as usize;
    let lines = [block, block * *n as usize];
    for (i, x) in scaled[0].iter_mut().enumerate() {
        *x *= scales[0][i / lines[0]];
    }
    for (i, x) in scaled[1].iter_mut().enumerate() {
        *x *= scales[1][i / lines[1] * *n as usize + i % *n as usize];
    }
    let [a, b] = scaled.map(Data::floats);
    dot([*m as usize, *k as usize, *n as usize], Scalar::F32, Precision::Exact, &a, &b, c)
}
