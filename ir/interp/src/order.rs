//! Ops that move elements of a tile by their values: sorts, histograms, gathers inside a tile.

use super::data::Data;
use super::error::Fault;
use super::shapes::count;
use std::cmp::Ordering;
use tilelift_ir::num;
use tilelift_ir::ops::{Op, SortOrder};
use tilelift_ir::types::Scalar;

/// Where each element of the sorted lines came from: `first` positions of every line of `shape` along `axis`, in the result's order.
fn positions(a: &Data, shape: &[u32], axis: usize, order: SortOrder, first: usize) -> Vec<Vec<usize>> {
    let (outer, n, inner) = (count(&shape[..axis]), shape[axis] as usize, count(&shape[axis + 1..]));
    let compare = |x: usize, y: usize| -> Ordering {
        let turn = |o: Ordering| if order == SortOrder::Descending { o.reverse() } else { o };
        match a {
            Data::Int(v) => turn(v[x].cmp(&v[y])),
            Data::Float(v) => match (v[x].is_nan(), v[y].is_nan()) {
                (false, false) => turn(v[x].total_cmp(&v[y])),
                (p, q) => p.cmp(&q),
            },
        }
    };
    let mut lines = Vec::with_capacity(outer * inner);
    for o in 0..outer {
        for i in 0..inner {
            let at = |p: usize| (o * n + p) * inner + i;
            let mut line: Vec<usize> = (0..n).collect();
            // Stable: equal elements keep their order.
            line.sort_by(|&x, &y| compare(at(x), at(y)));
            line.truncate(first);
            lines.push(line);
        }
    }
    lines
}

/// `sort`, `argsort`, `top_k` and `arg_top_k`; `first` is the result's extent along the axis.
pub(crate) fn sort(op: Op, a: &Data, shape: &[u32], axis: usize, order: SortOrder, first: usize) -> Data {
    let lines = positions(a, shape, axis, order, first);
    let (outer, n, inner) = (count(&shape[..axis]), shape[axis] as usize, count(&shape[axis + 1..]));
    let places = |f: &mut dyn FnMut(usize, usize)| {
        for place in 0..outer * first * inner {
            let (o, k, i) = (place / (first * inner), place / inner % first, place % inner);
            let p = lines[o * inner + i][k];
            f(p, (o * n + p) * inner + i);
        }
    };
    let total = outer * first * inner;
    if matches!(op, Op::ArgSort | Op::ArgTopK) {
        let mut out = Vec::with_capacity(total);
        places(&mut |p, _| out.push(p as i64));
        return Data::ints(out);
    }
    match a {
        Data::Int(v) => {
            let mut out = Vec::with_capacity(total);
            places(&mut |_, at| out.push(v[at]));
            Data::ints(out)
        }
        Data::Float(v) => {
            let mut out = Vec::with_capacity(total);
            places(&mut |_, at| out.push(if v[at].is_nan() { f64::NAN } else { v[at] }));
            Data::floats(out)
        }
    }
}

/// How often each number below `bins` appears where the mask holds; counts wrap as `i32` does.
pub(crate) fn histogram(a: &[i64], mask: Option<&[i64]>, bins: usize) -> Data {
    let mut out = vec![0i64; bins];
    for (i, &x) in a.iter().enumerate() {
        if mask.is_none_or(|m| m[i] != 0)
            && let Some(slot) = usize::try_from(x).ok().and_then(|x| out.get_mut(x))
        {
            *slot += 1;
        }
    }
    Data::ints(out)
}

/// `result[o, i, l] = a[o, indices[o, i, l], l]`, 0 where the index is outside.
pub(crate) fn gather(a: &Data, elem: Scalar, shape: &[u32], axis: usize, indices: &[i64], extent: usize) -> Result<Data, Fault> {
    let (outer, n, inner) = (count(&shape[..axis]), shape[axis] as usize, count(&shape[axis + 1..]));
    if indices.len() != outer * extent * inner {
        return Err(Fault::Malformed("indices of another shape"));
    }
    let from = |k: usize| -> Option<usize> {
        let (o, l) = (k / (extent * inner), k % inner);
        let p = usize::try_from(indices[k]).ok().filter(|&p| p < n)?;
        Some((o * n + p) * inner + l)
    };
    Ok(match a {
        Data::Int(v) => Data::ints((0..indices.len()).map(|k| from(k).map_or(0, |at| v[at])).collect()),
        Data::Float(v) => {
            // All bits 0, which is no zero in a type without one.
            let zero = num::from_bits(0, elem);
            Data::floats((0..indices.len()).map(|k| from(k).map_or(zero, |at| v[at])).collect())
        }
    })
}
