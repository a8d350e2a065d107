//! What the numbers of a tile do along its dimensions: where they are equal, where consecutive, from which multiples on.
//!
//! ```text
//! iota 1                       0 1 2 3 4 5 6 7 | 8 9 …       along 1 consecutive, from 0; along 0 equal
//! iota 1 + splat of 16·n       consecutive, from a multiple of 16
//!   … < splat of 8·m           equal in blocks of 8: a mask of which one bit decides for a vector of 8 elements
//! ```
//!
//! Facts follow from definitions, op by op; of what loops carry all is believed until an iteration breaks it. They say which elements
//! of a tile one access may take, so they are about blocks of powers of two that begin at their multiples: vectors lie so.

mod info;
mod ops;
#[cfg(test)]
mod tests;

use crate::facts::{MadeBy, ROUNDS, Slice};
use info::Info;
use smallvec::SmallVec;
use tilelift_ir::{Kernel, Value};

/// What is known of a tile along its dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisInfo(Info);

/// The length of a block.
fn length(exponent: u8) -> u32 {
    1 << exponent.min(31)
}

impl AxisInfo {
    /// What is known of a value.
    pub fn of(kernel: &Kernel, v: Value) -> AxisInfo {
        AxisInfo(behind(kernel, v).unwrap_or_else(|| Info::unknown(kernel.ty(v))))
    }

    /// The largest power of two up to 2^31 so that blocks of as many elements along a dimension, from its beginning, are equal.
    pub fn equal(&self, d: usize) -> u32 {
        length(self.0.equal(d))
    }

    /// All numbers, read signed, lie between these.
    pub(crate) fn range(&self) -> [i64; 2] {
        self.0.range
    }

    /// How many low bits of all numbers are known, and which number they are.
    pub(crate) fn low_bits(&self) -> (u8, u64) {
        (self.0.low.bits, self.0.low.rest)
    }

    /// The same for consecutive integers of which the first is a multiple of their count.
    pub fn run(&self, d: usize) -> u32 {
        length(self.0.aligned(d))
    }
}

/// The facts of a value, from those of what it is made of; none if they do not settle.
fn behind(kernel: &Kernel, v: Value) -> Option<Info> {
    let slice = Slice::behind(kernel, v);
    let mut known: Vec<Option<Info>> = vec![None; slice.made.len()];
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (n, (v, made)) in slice.made.iter().enumerate().rev() {
            let ty = kernel.ty(*v);
            let Some(now) = step(kernel, *v, *made, &slice.from[n], &known) else { continue };
            let carried = matches!(made, MadeBy::Carried(_));
            let next = known[n].as_ref().map_or_else(|| now.clone(), |before| before.meet(&now, ty, carried));
            if known[n].as_ref() != Some(&next) {
                known[n] = Some(next);
                changed = true;
            }
        }
        if !changed {
            return known.swap_remove(0);
        }
    }
    None
}

/// The facts of a value from those of its operands, as far as these are known by now.
fn step(kernel: &Kernel, v: Value, made: MadeBy, from: &[Option<usize>], known: &[Option<Info>]) -> Option<Info> {
    let ty = kernel.ty(v);
    let lost: SmallVec<[Option<Info>; 3]> = match made {
        // What found no room.
        MadeBy::Op(i) => kernel.insts[i].args.iter().zip(from).map(|(&a, at)| at.is_none().then(|| Info::unknown(kernel.ty(a)))).collect(),
        MadeBy::OneOf(list) | MadeBy::Index(list) | MadeBy::Carried(list) => {
            list.iter().zip(from).map(|(&a, at)| at.is_none().then(|| Info::unknown(kernel.ty(a)))).collect()
        }
        MadeBy::Unknown => SmallVec::new(),
    };
    let of = |k: usize| from.get(k).copied().flatten().map_or(lost.get(k)?.as_ref(), |n| known[n].as_ref());
    match made {
        MadeBy::Op(i) => {
            let args: SmallVec<[&Info; 4]> = (0..from.len()).map(of).collect::<Option<_>>()?;
            Some(ops::by_op(kernel, i, v, &args))
        }
        MadeBy::OneOf(_) | MadeBy::Carried(_) => match (of(0), of(1)) {
            (Some(a), Some(b)) => Some(a.meet(b, ty, false)),
            (one, other) => one.or(other).cloned(),
        },
        MadeBy::Index(_) => {
            let (first, by) = (of(0)?, of(1)?);
            let low = first.low.upto(by.low.zeros());
            Some(Info { low, range: [first.range[0], info::all_of(ty.elem())[1]], along: SmallVec::new() })
        }
        MadeBy::Unknown => Some(Info::unknown(ty)),
    }
}
