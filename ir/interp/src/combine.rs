//! Reductions and scans with the author's own op, in the trees that are part of their meaning (`reduce.rs`, `scan.rs`).
//!
//! A step of a tree combines many pairs at once: the elements of the pairs are picked out of the tiles, and the region runs once
//! over all of them.

use super::data::{Bundle, Data};
use super::shapes::count;
use std::rc::Rc;
use tilelift_ir::reduce::reduce_order;

/// Combines element `i` of the first bundle with element `i` of the second, for every `i`.
pub(crate) type Combine<'c, E> = &'c mut dyn FnMut(Bundle, Bundle) -> Result<Bundle, E>;

fn pick_data(a: &Data, at: &[usize]) -> Data {
    match a {
        Data::Float(v) => Data::floats(at.iter().map(|&i| v[i]).collect()),
        Data::Int(v) => Data::ints(at.iter().map(|&i| v[i]).collect()),
    }
}

fn pick(a: &Bundle, at: &[usize]) -> Bundle {
    a.iter().map(|d| pick_data(d, at)).collect()
}

/// Writes elements to their places.
fn put(a: &mut Bundle, at: &[usize], from: &Bundle) {
    for (a, from) in a.iter_mut().zip(from) {
        match (a, from) {
            (Data::Float(a), Data::Float(from)) => {
                let a = Rc::make_mut(a);
                at.iter().zip(from.iter()).for_each(|(&i, &x)| a[i] = x);
            }
            (Data::Int(a), Data::Int(from)) => {
                let a = Rc::make_mut(a);
                at.iter().zip(from.iter()).for_each(|(&i, &x)| a[i] = x);
            }
            // The verifier sees to the types.
            (Data::Float(_), Data::Int(_)) | (Data::Int(_), Data::Float(_)) => {}
        }
    }
}

/// Folds tiles of a shape along an axis.
pub(crate) fn reduce<E>(tiles: Bundle, shape: &[u32], axis: usize, combine: Combine<'_, E>) -> Result<Bundle, E> {
    let (outer, inner) = (count(&shape[..axis]), count(&shape[axis + 1..]));
    let order = reduce_order(shape[axis]);
    let (odd, mut extent) = (order.odd as usize, order.pow2() as usize);
    // Places of the elements whose index along an axis of `of` is among those given, in order.
    let places = |of: usize, along: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
        let along: Vec<usize> = along.collect();
        (0..outer)
            .flat_map(|o| along.iter().flat_map(move |&i| (0..inner).map(move |k| (o * of + i) * inner + k)).collect::<Vec<_>>())
            .collect()
    };
    let block = |d: usize| pick(&tiles, &places(odd * extent, &mut (d * extent..(d + 1) * extent)));
    let mut acc = block(0);
    for d in 1..odd {
        acc = combine(acc, block(d))?;
    }
    // After each bit the tiles are compacted to the indices left; `left` keeps their bit numbers, ascending.
    let mut left: Vec<u32> = (0..order.bits.len() as u32).collect();
    for bit in &order.bits {
        let place = left.iter().position(|b| b == bit).unwrap_or(0);
        left.remove(place);
        let clear = places(extent, &mut (0..extent).filter(|i| i >> place & 1 == 0));
        let set = places(extent, &mut (0..extent).filter(|i| i >> place & 1 == 1));
        acc = combine(pick(&acc, &clear), pick(&acc, &set))?;
        extent /= 2;
    }
    Ok(acc)
}

/// The inclusive scan of tiles of a shape along an axis, forward, or from the last element backward.
pub(crate) fn scan<E>(tiles: Bundle, shape: &[u32], axis: usize, reverse: bool, combine: Combine<'_, E>) -> Result<Bundle, E> {
    let (outer, inner, extent) = (count(&shape[..axis]), count(&shape[axis + 1..]), shape[axis] as usize);
    // Places of the elements at the positions of the scan that are given, in every line.
    let places = |along: &[usize]| -> Vec<usize> {
        let mut out = Vec::with_capacity(along.len() * outer * inner);
        for o in 0..outer {
            for &i in along {
                let i = if reverse { extent - 1 - i } else { i };
                out.extend((0..inner).map(|k| (o * extent + i) * inner + k));
            }
        }
        out
    };
    let bits = extent.trailing_zeros();
    let mut total = tiles.clone();
    let mut pre = tiles;
    for b in 0..bits {
        let low: Vec<usize> = (0..extent).filter(|i| i >> b & 1 == 0).collect();
        let high: Vec<usize> = low.iter().map(|i| i | 1 << b).collect();
        let (low, high) = (places(&low), places(&high));
        let first = pick(&total, &low);
        let scanned = combine(first.clone(), pick(&pre, &high))?;
        let both = combine(first, pick(&total, &high))?;
        put(&mut pre, &high, &scanned);
        put(&mut total, &low, &both);
        put(&mut total, &high, &both);
    }
    let mut carry: Option<Bundle> = None;
    for d in 0..extent >> bits {
        let block = places(&((d << bits)..(d + 1) << bits).collect::<Vec<_>>());
        let all = pick(&total, &block);
        carry = Some(match carry {
            None => all,
            Some(c) => {
                let scanned = combine(c.clone(), pick(&pre, &block))?;
                put(&mut pre, &block, &scanned);
                combine(c, all)?
            }
        });
    }
    Ok(pre)
}
