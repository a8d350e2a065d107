//! Scans in the order that is part of their meaning, and the positions of extremes.
//!
//! ```text
//! extent S = 2^v * odd          element number = i + 2^v * d,  0 <= i < 2^v,  0 <= d < odd
//! (1) total[i] = pre[i] = x[i] in each block d; for each bit b = 0, 1, …, v-1, with p the partner i xor 2^b:
//!       bit b of i is 1         pre[i] = total[p] op pre[i],  total[i] = total[p] op total[i]
//!       bit b of i is 0                                       total[i] = total[i] op total[p]
//! (2) blocks d in ascending order: each pre[i] of block d becomes carry op pre[i], where the carry is
//!     (total of block 0 op total of block 1) op … up to block d-1
//! ```

use super::data::Data;
use super::elementwise::{maximum, minimum};
use super::error::Fault;
use super::shapes::count;
use tilelift_ir::num;
use tilelift_ir::ops::ReduceOp;
use tilelift_ir::types::Scalar;

/// The inclusive scan along `axis`, forward, or from the last element backward.
pub(crate) fn scan(op: ReduceOp, elem: Scalar, a: &Data, shape: &[u32], axis: usize, reverse: bool) -> Result<Data, Fault> {
    let float = |v: &[f64], f: &dyn Fn(f64, f64) -> f64| Data::floats(lines(v, shape, axis, |line| scan_line(line, reverse, f)));
    let int = |v: &[i64], f: &dyn Fn(i64, i64) -> i64| Data::ints(lines(v, shape, axis, |line| scan_line(line, reverse, f)));
    Ok(match (a, op) {
        (Data::Float(v), ReduceOp::Add) => float(v, &|x, y| num::round(x + y, elem)),
        (Data::Float(v), ReduceOp::Mul) => float(v, &|x, y| num::round(x * y, elem)),
        (Data::Float(v), ReduceOp::Minimum) => float(v, &minimum),
        (Data::Float(v), ReduceOp::Maximum) => float(v, &maximum),
        (Data::Float(_), ReduceOp::And | ReduceOp::Or | ReduceOp::Xor) => return Err(Fault::Malformed("a bitwise scan of floats")),
        (Data::Int(v), ReduceOp::Add) => int(v, &|x, y| num::wrap(x.wrapping_add(y), elem)),
        (Data::Int(v), ReduceOp::Mul) => int(v, &|x, y| num::wrap(x.wrapping_mul(y), elem)),
        (Data::Int(v), ReduceOp::Minimum) => int(v, &i64::min),
        (Data::Int(v), ReduceOp::Maximum) => int(v, &i64::max),
        (Data::Int(v), ReduceOp::And) => int(v, &|x, y| x & y),
        (Data::Int(v), ReduceOp::Or) => int(v, &|x, y| x | y),
        (Data::Int(v), ReduceOp::Xor) => int(v, &|x, y| x ^ y),
    })
}

/// Rewrites every line along an axis.
fn lines<T: Copy>(v: &[T], shape: &[u32], axis: usize, f: impl Fn(&mut [T])) -> Vec<T> {
    let (extent, inner) = (shape[axis] as usize, count(&shape[axis + 1..]));
    let mut out = v.to_vec();
    let mut line = Vec::with_capacity(extent);
    for block in out.chunks_mut(extent * inner) {
        for i in 0..inner {
            line.clear();
            line.extend(block[i..].iter().step_by(inner));
            f(&mut line);
            block[i..].iter_mut().step_by(inner).zip(&line).for_each(|(to, &from)| *to = from);
        }
    }
    out
}

fn scan_line<T: Copy>(x: &mut [T], reverse: bool, f: &dyn Fn(T, T) -> T) {
    if reverse {
        x.reverse();
    }
    let bits = x.len().trailing_zeros();
    let mut carry: Option<T> = None;
    for pre in x.chunks_mut(1 << bits) {
        let mut total = pre.to_vec();
        for b in 0..bits {
            let before = total.clone();
            for i in 0..pre.len() {
                let partner = before[i ^ 1 << b];
                if i >> b & 1 == 1 {
                    pre[i] = f(partner, pre[i]);
                    total[i] = f(partner, before[i]);
                } else {
                    total[i] = f(before[i], partner);
                }
            }
        }
        let all = total[0];
        if let Some(c) = carry {
            pre.iter_mut().for_each(|p| *p = f(c, *p));
        }
        carry = Some(carry.map_or(all, |c| f(c, all)));
    }
    if reverse {
        x.reverse();
    }
}

/// Positions along `axis` of the largest or smallest elements, the lowest of equal ones; of the first NaN where there is one.
pub(crate) fn arg(a: &Data, shape: &[u32], axis: usize, largest: bool) -> Data {
    fn best<T: Copy>(v: &[T], shape: &[u32], axis: usize, better: impl Fn(T, T) -> bool) -> Data {
        let (extent, inner) = (shape[axis] as usize, count(&shape[axis + 1..]));
        let mut out = Vec::with_capacity(v.len() / extent);
        for block in v.chunks(extent * inner) {
            for i in 0..inner {
                let at = (1..extent).fold(0, |at, k| if better(block[i + k * inner], block[i + at * inner]) { k } else { at });
                out.push(at as i64);
            }
        }
        Data::ints(out)
    }
    match a {
        Data::Float(v) => best(v, shape, axis, |new, old| !old.is_nan() && (new.is_nan() || if largest { new > old } else { new < old })),
        Data::Int(v) => best(v, shape, axis, |new, old| if largest { new > old } else { new < old }),
    }
}
