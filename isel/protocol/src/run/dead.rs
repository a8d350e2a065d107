//! Values that nobody asks for inside a loop, nor behind it: they are forgotten where it begins, or states would differ by them.
//!
//! ```text
//! for tile, c ─┬─ first = c …            asked for here only: dead in the loop below
//!              ├─ row = tile · …         asked for behind it
//!              └─ for step, d from c ─── d, what it reads of what stands in front, what the next tile reads of that: live
//! ```
//!
//! A value is live with all that it is made of: where it stands for a slot, the counter behind it says which.

use super::code::{Code, Op, What};
use crate::env::Homes;
use tilelift_lane::LVal;
use tilelift_lane::visit::reads;

/// A set of slots.
#[derive(Clone)]
struct Live(Vec<bool>);

struct DeadSlotSearch<'c, 'a> {
    code: &'c Code<'a>,
    homes: &'c Homes,
    /// True for the index of a loop whose iterations are followed one by one: it says whether there is another one.
    followed: &'c dyn Fn(LVal) -> bool,
    /// What each slot's value is made of, in slots.
    made: Vec<Vec<usize>>,
    /// For each loop that was met, by number, the slots that are dead in it.
    dead: Vec<(usize, Vec<usize>)>,
}

/// The slots that are dead in each loop of a role's body, by the loop's number; `followed` knows the indices of loops whose iterations are followed one by
/// one.
pub(super) fn dead(
    code: &Code<'_>,
    homes: &Homes,
    (body, slots): (usize, usize),
    followed: &dyn Fn(LVal) -> bool,
) -> Vec<(usize, Vec<usize>)> {
    let mut s = DeadSlotSearch { code, homes, followed, made: vec![Vec::new(); slots], dead: Vec::new() };
    s.makers(body);
    s.block(body, Live(vec![false; slots]));
    s.dead
}

impl DeadSlotSearch<'_, '_> {
    fn add(&self, live: &mut Live, v: LVal) {
        if let Some(n) = self.homes.slot(v) {
            self.add_slot(live, n);
        }
    }

    fn add_slot(&self, live: &mut Live, n: usize) {
        if live.0.get(n) == Some(&false) {
            live.0[n] = true;
            self.made[n].iter().for_each(|&m| self.add_slot(live, m));
        }
    }

    fn makers(&mut self, block: usize) {
        let code = self.code;
        for op in code.ops(block) {
            if let What::Compute(n) = op.what {
                for inst in &code.group(n).insts {
                    let mut of = Vec::new();
                    reads(inst, &mut |v| of.extend(self.homes.slot(v)));
                    for dst in inst.results() {
                        if let Some(slot) = self.homes.slot(*dst).filter(|&n| n < self.made.len()) {
                            self.made[slot].clone_from(&of);
                        }
                    }
                }
            }
            op.blocks(code).into_iter().flatten().for_each(|b| self.makers(b));
        }
    }

    /// Everything that a block reads, or one inside it.
    fn reads_of(&self, block: usize, live: &mut Live) {
        self.code.each_inside(block, &mut |op| self.own_reads(op, live));
    }

    fn own_reads(&self, op: &Op<'_>, live: &mut Live) {
        self.code.own_reads(op, &mut |v| self.add(live, v));
    }

    /// Goes through a block from its end, behind which some slots are live.
    fn block(&mut self, block: usize, mut live: Live) {
        let code = self.code;
        for op in code.ops(block).iter().rev() {
            if let What::Loop(n) = op.what {
                let l = code.counted_loop(n);
                let mut during = live.clone();
                [l.l.lo, l.l.hi, l.l.step].into_iter().for_each(|v| self.add(&mut during, v));
                l.carried.iter().for_each(|c| self.add(&mut during, c.0.next));
                self.reads_of(l.body, &mut during);
                let own = self.homes.iteration(l.l.iv);
                let dead = (0..during.0.len()).filter(|n| !during.0[*n] && !own.contains(n)).collect();
                self.dead.push((n, dead));
                // What the next iteration reads of what stands in front of the loop is live at the end of one; of what an iteration makes, what it carries is.
                let mut behind = during.clone();
                behind.0.iter_mut().enumerate().filter(|x| own.contains(&x.0)).for_each(|x| *x.1 = false);
                l.carried.iter().for_each(|c| self.add(&mut behind, c.0.next));
                if (self.followed)(l.l.iv) {
                    self.add(&mut behind, l.l.iv);
                }
                self.block(l.body, behind);
                // What the body reads and does not make is asked for by whatever stands in front, other loops included.
                live = during;
                live.0.iter_mut().enumerate().filter(|x| own.contains(&x.0)).for_each(|x| *x.1 = false);
            } else {
                for (arm, b) in op.blocks(code).into_iter().flatten().enumerate() {
                    let mut behind = live.clone();
                    match op.what {
                        What::Choice(n) => {
                            code.choice(n).results.iter().for_each(|r| self.add(&mut behind, if arm == 0 { r.1 } else { r.2 }))
                        }
                        _ => self.own_reads(op, &mut behind),
                    }
                    self.block(b, behind);
                }
                op.blocks(code).into_iter().flatten().for_each(|b| self.reads_of(b, &mut live));
            }
            self.own_reads(op, &mut live);
        }
    }
}
