//! What the checker looks up before it runs: comparisons, loop indices, and the values that matter.

use crate::lane::visit::{blocks, computed, reads};
use crate::lane::{Block, Inst, LVal, LeftOperand, Program, Unit};
use std::collections::{HashMap, HashSet};
use tilelift_ir::CmpOp;

/// The comparisons `lo < hi` of a block and the blocks inside it.
pub(super) fn comparisons(block: &Block, less: &mut HashMap<LVal, (LVal, LVal)>) {
    for inst in block {
        if let Inst::Cmp { dst, op: CmpOp::Lt, a, b } = inst {
            less.insert(*dst, (*a, *b));
        }
        blocks(inst).into_iter().for_each(|b| comparisons(b, less));
    }
}

/// The values that decide what roles do to one another: what the units around the ring read, and what that is computed from.
pub(super) fn relevant(program: &Program, counted: bool, local: &dyn Fn(LVal) -> bool) -> HashSet<LVal> {
    let mut set = HashSet::new();
    // Values flow forward in the text, and around loops: until nothing is added.
    loop {
        let before = set.len();
        mark(&program.body, counted, local, &mut set);
        if set.len() == before {
            return set;
        }
    }
}

fn mark(block: &Block, counted: bool, local: &dyn Fn(LVal) -> bool, set: &mut HashSet<LVal>) {
    for inst in block.iter().rev() {
        match inst {
            Inst::Unit(u) => match &**u {
                Unit::BulkStore { from, .. } if local(from.addr) => {
                    set.insert(from.addr);
                }
                Unit::StoreMatrix { .. } | Unit::BulkStore { .. } | Unit::PrefetchMap { .. } => {}
                Unit::BulkLoad { to, barrier, ranks, guard, .. } => {
                    set.extend([to.addr, barrier.addr]);
                    set.extend(ranks.iter().chain(guard));
                }
                Unit::Multiply(m) => {
                    set.insert(m.b.at.addr);
                    if let LeftOperand::Shared(o) = &m.a {
                        set.insert(o.at.addr);
                    }
                }
                other => other.operands(|v, _| {
                    set.insert(v);
                }),
            },
            Inst::For(l) => {
                if counted {
                    set.extend([l.lo, l.step]);
                }
                for c in &l.carried {
                    if set.contains(&c.param) || set.contains(&c.result) {
                        set.extend([c.param, c.result, c.next, c.init]);
                    }
                }
                mark(&l.body, counted, local, set);
            }
            Inst::If(c) => {
                set.insert(c.condition);
                for &(r, a, b) in &c.results {
                    if set.contains(&r) {
                        set.extend([a, b]);
                    }
                }
                mark(&c.then, counted, local, set);
                mark(&c.otherwise, counted, local, set);
            }
            Inst::Roles(r) => r.roles.iter().for_each(|r| mark(&r.body, counted, local, set)),
            // Which lanes touch which local memory.
            Inst::LoadShared { addr, .. } | Inst::StoreShared { addr, .. } if local(*addr) => {
                set.insert(*addr);
            }
            other => {
                if computed(other).is_some_and(|list| list.iter().any(|v| set.contains(v))) {
                    reads(other, &mut |v| {
                        set.insert(v);
                    });
                }
            }
        }
    }
}

/// Calls `f` for the index of every counted loop.
pub(super) fn indices(block: &Block, f: &mut dyn FnMut(LVal)) {
    for inst in block {
        if let Inst::For(l) = inst {
            f(l.iv);
        }
        blocks(inst).into_iter().for_each(|b| indices(b, f));
    }
}

/// True if a block passes over phases of words.
pub(super) fn passes(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => matches!(**u, Unit::Pass { .. }),
        other => blocks(other).into_iter().any(passes),
    })
}
