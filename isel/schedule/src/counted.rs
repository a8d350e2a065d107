//! Loops on a condition that count, as counted loops.
//!
//! ```text
//! while carry i = first, a { yield i < end } do carry i, a {        for i in first..end step s carry a {
//!     … i … a …                                                ─►       … i … a …
//!     yield i + s, b                                                    yield b
//! }                                                                 }
//!
//! while carry i = first, a { yield i > end } do carry i, a {        for j in 0..first - end step s carry a {
//!     … i … a …                                                ─►       i = first - j
//!     yield i - s, b                                                    … i … a …
//! }                                                                     yield b
//!                                                                   }
//! ```
//!
//! Everything that knows loops knows counted ones: copies run ahead of them, and their products run beside the lanes. Such a loop is found by what it
//! does (`find`): whatever it begins with, whatever stays the same is added or taken away, on whichever side of the comparison the counter stands. What
//! the counter is behind the loop is computed of the bounds, if somebody asks. The rewrite is from tile IR to tile IR.
//!
//! *Numbers wrap, counted loops do not.* Both go round as often if the condition is false where the closed form says that the loop ends:
//!
//! ```text
//! rounds = ceil((end - first) / s), by distances without a sign      all numbers in front of it lie between first and end, so the loop goes on
//! last   = first + rounds * s, by sums that wrap                     what the counter is then; if the loop goes on here, it has wrapped
//! ```
//!
//! Where bounds and multiples do not show that (`certain`), the launch asserts it, in a few instructions in front of the loop. A loop that wraps goes once around all
//! numbers, or for ever (one on `ne`, which may meet its end at once, counts only where all is certain): by steps below 1,024 that are more rounds than interpreters go, whose launches end with an error, too (`docs/language.md`).

mod ahead;
mod certain;
mod find;
#[cfg(test)]
mod tests;
mod write;

use crate::reason::UncountedLoop;
use crate::written::written_views;
use ahead::RoundsAhead;
use find::Count;
use tilelift_ir::{Inst, Kernel, Op, Region, Value};
use tilelift_lane::hash::Set;
use write::Counting;

/// The kernel with loops on a condition that count as counted loops; `None` if there are none.
pub fn counted(kernel: &Kernel) -> Option<Kernel> {
    rewritten(kernel, |written, i| Count::of(kernel, written, i).ok(), |to, at, count| to.write(at.0, at.1, count))
}

/// The kernel with loops on a condition that hold products as loops of as many rounds as scalars in front of them count (`ahead`); `None` if there are none.
pub fn counted_ahead(kernel: &Kernel) -> Option<Kernel> {
    rewritten(kernel, |written, i| RoundsAhead::of(kernel, written, i), |to, at, ahead| to.write_behind(at.0, at.1, ahead))
}

/// The kernel with those loops on a condition written anew of which something is found.
fn rewritten<T>(
    kernel: &Kernel,
    find: impl Fn(&Set<Value>, Inst) -> Option<T>,
    write: impl Fn(&mut Counting, (Region, Inst), &T),
) -> Option<Kernel> {
    if kernel.is_explicit() || !kernel.insts.values().any(|d| d.op == Op::While) {
        return None;
    }
    let written = written_views(kernel);
    let mut found = Vec::new();
    for (region, data) in kernel.regions.iter() {
        let loops = data.insts.iter().copied().filter(|&i| kernel.insts[i].op == Op::While);
        found.extend(loops.filter_map(|i| Some(((region, i), find(&written, i)?))));
    }
    if found.is_empty() {
        return None;
    }
    let mut made = Counting::of(kernel);
    found.iter().for_each(|(at, how)| write(&mut made, *at, how));
    Some(made.finish())
}

/// Why a loop on a condition is not counted; `None` if it is.
pub(crate) fn not_counted(kernel: &Kernel, main: Inst) -> Option<UncountedLoop> {
    Count::of(kernel, &written_views(kernel), main).err()
}
