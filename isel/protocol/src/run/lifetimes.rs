//! Memory that nobody touches any more: what was known of it is forgotten, or each ring of a row of loops would multiply the states of those
//! behind it.
//!
//! ```text
//! ring 0 ── loop 0 ──┐ slots written and read, copies that some lanes know of: five ways that it may end
//! ring 1 ── loop 1 ──┤ … times five; but nobody asks any more
//! ```
//!
//! That nobody comes back is found in the text: the last instruction of each body that names an allocation. It need not be believed. What is
//! forgotten is taken for a write of nobody's, of which nobody ever knows that it is over, and for an mbarrier that was not made: who touches
//! it after all is refused. What the end of the program asks for (copies, reads and bytes that are in flight) is not forgotten.

use super::code::{Code, Op, What};
use super::progress::{Life, Task};
use crate::state::analysis::Analysis;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use tilelift_lane::{AllocId, LTy, LVal, Program, Use};

/// An allocation that is done with while loops are still to come.
pub(super) struct Lifetime {
    pub(super) place: Range<i64>,
    last: Last,
}

/// The bodies that touch an allocation, by number, each with the last of its instructions that does.
type Last = SmallVec<[(usize, usize); 2]>;

/// Calls `f` for every address of shared memory that an instruction, or one inside it, touches: of those that are followed.
fn touched(program: &Program, code: &Code<'_>, op: &Op<'_>, f: &mut dyn FnMut(LVal)) {
    let mut addresses = |v: LVal, how: Use| {
        if matches!(how, Use::Address(_)) && matches!(program.vals[v], LTy::Num(s) if s.bytes() == 4) {
            f(v);
        }
    };
    match op.what {
        What::Unit(u) => return u.operands(addresses),
        What::Accesses(n) => return code.accesses(n).all.iter().for_each(|x| x.0.operands(&mut addresses)),
        // What roles touch is told by their own bodies.
        What::Loop(_) | What::Choice(..) | What::Endless(..) | What::Compute(_) | What::Copies(_) | What::Roles | What::Barrier => {}
    }
    op.blocks(code).into_iter().flatten().flat_map(|b| code.ops(b)).for_each(|op| touched(program, code, op, f));
}

/// True for what an agent may have to ask for answers in.
fn asks(op: &Op<'_>) -> bool {
    matches!(op.what, What::Loop(_) | What::Choice(..) | What::Endless(..) | What::Roles)
}

/// The allocations that die in front of other loops, by the bodies of a program.
pub(super) fn lifetimes(program: &Program, e: &Analysis, code: &Code<'_>, bodies: &[usize]) -> Vec<Lifetime> {
    // The last touch of each by each body, and what may come behind it.
    let (mut last, mut unknown): (BTreeMap<AllocId, Last>, bool) = (BTreeMap::new(), false);
    for &body in bodies {
        for (at, op) in code.ops(body).iter().enumerate() {
            touched(program, code, op, &mut |v| match e.of(v) {
                None => unknown = true,
                Some(id) => match last.entry(id).or_default().last_mut() {
                    Some(x) if x.0 == body => x.1 = at,
                    _ => last.entry(id).or_default().push((body, at)),
                },
            });
        }
    }
    if unknown {
        return Vec::new();
    }
    let early = |&(body, at): &(usize, usize)| code.ops(body)[at + 1..].iter().any(asks);
    // Of what a role takes care of nothing is noted: it may lie where others did.
    let range = |id: AllocId| program.allocs[id].offset..program.allocs[id].offset + program.allocs[id].bytes;
    let apart = |a: AllocId, b: AllocId| a == b || range(a).end <= range(b).start || range(b).end <= range(a).start;
    let all: Vec<AllocId> = last.keys().copied().collect();
    let dies = |id: AllocId, last: &Last| last.iter().any(early) && all.iter().all(|&other| apart(id, other));
    let lifetime = |id: AllocId, last: Last| Lifetime { place: i64::from(range(id).start)..i64::from(range(id).end), last };
    last.into_iter().filter(|(id, last)| dies(*id, last)).map(|(id, last)| lifetime(id, last)).collect()
}

impl Lifetime {
    /// True if a task that runs a body has passed its last touch.
    pub(super) fn is_over(&self, body: usize, task: &Task) -> bool {
        let Some(&(_, last)) = self.last.iter().find(|x| x.0 == body) else { return true };
        match (task.life, task.frames.first()) {
            (Life::Asleep, _) => false,
            (Life::Done, _) | (Life::Awake, None) => true,
            // What is open inside a loop or a choice belongs to the instruction in front.
            (Life::Awake, Some(f)) => f.at > last + usize::from(task.frames.len() > 1),
        }
    }
}
