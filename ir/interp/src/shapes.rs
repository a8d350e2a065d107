//! Ops that make or move elements without computing with them: iota, splat, broadcast, transpose, join, split, concat, slice, flip.
//!
//! Broadcast and transpose are one strided gather: result element `i0, i1, …` is operand element `Σ i_d * stride_d`, with stride 0
//! along a repeated dimension.

use super::data::Data;
use super::error::Fault;
use smallvec::SmallVec;
use tilelift_ir::num;
use tilelift_ir::types::{Scalar, Shape};

/// Row-major strides of a shape, in elements.
pub(crate) fn strides(shape: &[u32]) -> SmallVec<[usize; 4]> {
    let mut s: SmallVec<[usize; 4]> = SmallVec::from_elem(1, shape.len());
    for d in (1..shape.len()).rev() {
        s[d - 1] = s[d] * shape[d] as usize;
    }
    s
}

/// Number of elements of a shape.
pub(crate) fn count(shape: &[u32]) -> usize {
    shape.iter().map(|&e| e as usize).product()
}

/// The index along a dimension, wrapped to the element type.
pub(crate) fn iota(shape: &[u32], dim: usize, elem: Scalar) -> Data {
    let (inner, extent) = (count(&shape[dim + 1..]), shape[dim] as usize);
    Data::ints((0..count(shape)).map(|i| num::wrap((i / inner % extent) as i64, elem)).collect())
}

/// A scalar repeated.
pub(crate) fn splat(value: &Data, n: usize) -> Data {
    match value {
        Data::Float(v) => Data::floats(vec![v.first().copied().unwrap_or(0.0); n]),
        Data::Int(v) => Data::ints(vec![v.first().copied().unwrap_or(0); n]),
    }
}

/// Repeats the dimensions whose extent is 1 in `from`.
pub(crate) fn broadcast(a: Data, from: &[u32], to: &[u32]) -> Data {
    if from == to {
        return a;
    }
    let mut s = strides(from);
    for (s, &e) in s.iter_mut().zip(from) {
        if e == 1 {
            *s = 0;
        }
    }
    gather(&a, to, &s)
}

/// Result dimension `i` is operand dimension `perm[i]`.
pub(crate) fn transpose(a: Data, from: &[u32], perm: &[u32]) -> Data {
    let s = strides(from);
    let shape: Shape = perm.iter().map(|&p| from[p as usize]).collect();
    let moved: SmallVec<[usize; 4]> = perm.iter().map(|&p| s[p as usize]).collect();
    gather(&a, &shape, &moved)
}

/// Both tiles' elements in turn.
pub(crate) fn join(a: &Data, b: &Data) -> Result<Data, Fault> {
    concat(a, b, [1, 1])
}

/// The elements `first`, `first + 2`, ….
pub(crate) fn every_other(a: &Data, first: usize) -> Data {
    match a {
        Data::Float(v) => Data::floats(v.iter().skip(first).step_by(2).copied().collect()),
        Data::Int(v) => Data::ints(v.iter().skip(first).step_by(2).copied().collect()),
    }
}

/// Chunks of the tiles in turn, of `chunks[0]` elements of the first and `chunks[1]` of the second.
pub(crate) fn concat(a: &Data, b: &Data, chunks: [usize; 2]) -> Result<Data, Fault> {
    fn weave<T: Copy>(a: &[T], b: &[T], [m, n]: [usize; 2]) -> Vec<T> {
        a.chunks(m).zip(b.chunks(n)).flat_map(|(x, y)| x.iter().chain(y).copied()).collect()
    }
    match (a, b) {
        (Data::Float(a), Data::Float(b)) => Ok(Data::floats(weave(a, b, chunks))),
        (Data::Int(a), Data::Int(b)) => Ok(Data::ints(weave(a, b, chunks))),
        (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => Err(Fault::Malformed("operands of different classes")),
    }
}

/// The elements of extents `to` at `offsets`.
pub(crate) fn slice(a: &Data, from: &[u32], offsets: &[u32], to: &[u32]) -> Data {
    let s = strides(from);
    let start: usize = offsets.iter().zip(&s).map(|(&o, &s)| o as usize * s).sum();
    match a {
        Data::Float(v) => Data::floats(gather_elements(&v[start..], to, &s)),
        Data::Int(v) => Data::ints(gather_elements(&v[start..], to, &s)),
    }
}

/// The opposite order along an axis.
pub(crate) fn flip(a: &Data, shape: &[u32], axis: usize) -> Data {
    fn turn<T: Copy>(v: &[T], inner: usize, row: usize) -> Vec<T> {
        v.chunks(row).flat_map(|r| r.chunks(inner).rev().flatten().copied()).collect()
    }
    let (inner, row) = (count(&shape[axis + 1..]), count(&shape[axis..]));
    match a {
        Data::Float(v) => Data::floats(turn(v, inner, row)),
        Data::Int(v) => Data::ints(turn(v, inner, row)),
    }
}

fn gather(a: &Data, shape: &[u32], strides: &[usize]) -> Data {
    match a {
        Data::Float(v) => Data::floats(gather_elements(v, shape, strides)),
        Data::Int(v) => Data::ints(gather_elements(v, shape, strides)),
    }
}

fn gather_elements<T: Copy>(a: &[T], shape: &[u32], strides: &[usize]) -> Vec<T> {
    let mut out = Vec::with_capacity(count(shape));
    let last = shape.len() - 1;
    let (extent, stride) = (shape[last] as usize, strides[last]);
    each_row(&shape[..last], |outer| {
        let at: usize = outer.iter().zip(strides).map(|(&i, &s)| i * s).sum();
        match stride {
            0 => out.extend(std::iter::repeat_n(a[at], extent)),
            1 => out.extend_from_slice(&a[at..at + extent]),
            _ => out.extend((0..extent).map(|i| a[at + i * stride])),
        }
    });
    out
}

/// Calls `f` with every coordinate tuple of a shape in row-major order (once, with none, for the empty shape).
pub(crate) fn each_row(shape: &[u32], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut at: SmallVec<[usize; 6]> = SmallVec::from_elem(0, shape.len());
    loop {
        f(&at);
        let mut d = shape.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            at[d] += 1;
            if at[d] < shape[d] as usize {
                break;
            }
            at[d] = 0;
        }
    }
}
