//! What the checker looks up before it runs: comparisons, loop indices, and the values that matter.

use super::value::Abs;
use cranelift_entity::{EntityRef, EntitySet};
use tilelift_ir::CmpOp;
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::visit::{blocks, computed, reads};
use tilelift_lane::{Block, For, If, Inst, LTy, LVal, OperandA, Program, Unit, visit};

/// The comparisons `lo < hi` of a block and the blocks inside it.
pub(super) fn comparisons(block: &Block, less: &mut Map<LVal, (LVal, LVal)>) {
    for inst in block {
        if let Inst::Cmp { dst, op: CmpOp::Lt, a, b } = inst {
            less.insert(*dst, (*a, *b));
        }
        blocks(inst).for_each(|b| comparisons(b, less));
    }
}

/// The values that decide what roles do to one another: what units read, and what that is computed from.
pub(super) fn relevant(program: &Program, local: &dyn Fn(LVal) -> bool) -> EntitySet<LVal> {
    // Whether a loop goes round once or not at all is asked as a choice is.
    let mut ends = Set::default();
    chosen_ends(&program.body, &mut Set::default(), &mut ends);
    let mut marks = Marks { set: EntitySet::with_capacity(program.vals.len()), grew: false };
    marks.extend(&ends);
    // Values flow forward in the text, and around loops: until nothing is added.
    loop {
        marks.grew = false;
        mark(&program.body, local, &mut marks);
        if !marks.grew {
            return marks.set;
        }
    }
}

/// Values that are found to matter.
struct Marks {
    set: EntitySet<LVal>,
    /// One was added.
    grew: bool,
}

impl Marks {
    fn insert(&mut self, v: LVal) {
        self.grew |= self.set.insert(v);
    }

    fn extend<'v>(&mut self, values: impl IntoIterator<Item = &'v LVal>) {
        values.into_iter().for_each(|&v| self.insert(v));
    }

    fn contains(&self, v: LVal) -> bool {
        self.set.contains(v)
    }
}

/// The ends of loops that are one number or another one, as a condition says.
pub(super) fn chosen_ends(block: &Block, selects: &mut Set<LVal>, out: &mut Set<LVal>) {
    for inst in block {
        match inst {
            Inst::Select { dst, .. } => _ = selects.insert(*dst),
            Inst::For(l) => out.extend(selects.contains(&l.hi).then_some(l.hi)),
            _ => {}
        }
        blocks(inst).for_each(|b| chosen_ends(b, selects, out));
    }
}

fn mark(block: &Block, local: &dyn Fn(LVal) -> bool, set: &mut Marks) {
    for inst in block.iter().rev() {
        match inst {
            Inst::Unit(u) => match &**u {
                Unit::BulkStore { from, guard, .. } if local(from.addr) => {
                    set.insert(from.addr);
                    set.extend(guard);
                }
                Unit::StoreMatrix { to, .. } if local(to.addr) => {
                    set.insert(to.addr);
                }
                Unit::StoreMatrix { .. } | Unit::BulkStore { .. } | Unit::PrefetchMap { .. } => {}
                Unit::BulkLoad { to, barrier, ranks, guard, .. } => {
                    set.extend(&[to.addr, barrier.addr]);
                    set.extend(ranks.iter().chain(guard));
                }
                Unit::Multiply(m) => {
                    set.insert(m.b.at.addr);
                    if let OperandA::Shared(o) = &m.a {
                        set.insert(o.at.addr);
                    }
                }
                Unit::RemoteLoad { from, .. } => {
                    set.insert(from.addr);
                }
                Unit::RemoteStore { to, guard, .. } => {
                    set.insert(to.addr);
                    set.extend(guard);
                }
                Unit::RemoteStoreAsync { to, barrier, guard, .. } => {
                    set.extend(&[to.addr, barrier.addr]);
                    set.extend(guard);
                }
                other => other.operands(|v, _| {
                    set.insert(v);
                }),
            },
            Inst::For(l) => {
                set.extend(&[l.lo, l.step]);
                // Where a counter stands behind its loop matters to whoever reads it there, not to the loop.
                for c in &l.carried {
                    if set.contains(c.param) || set.contains(c.result) {
                        set.extend(&[c.next, c.init]);
                    }
                }
                mark(&l.body, local, set);
            }
            Inst::If(c) => {
                set.insert(c.condition);
                for &(r, a, b) in &c.results {
                    if set.contains(r) {
                        set.extend(&[a, b]);
                    }
                }
                mark(&c.then, local, set);
                mark(&c.otherwise, local, set);
            }
            Inst::Roles(r) => r.roles.iter().for_each(|r| mark(&r.body, local, set)),
            // Which lanes touch which local memory.
            Inst::LoadShared { addr, .. } | Inst::LoadMatrix { addr, .. } if local(*addr) => {
                set.insert(*addr);
            }
            Inst::CopyAsync { shared, .. } if local(*shared) => {
                set.insert(*shared);
            }
            Inst::StoreShared { addr, guard, .. } if local(*addr) => {
                set.insert(*addr);
                set.extend(guard);
            }
            other => {
                if computed(other).is_some_and(|list| list.iter().any(|&v| set.contains(v))) {
                    reads(other, &mut |v| {
                        set.insert(v);
                    });
                }
            }
        }
    }
}

/// The values that are the same in all lanes, roles and blocks: numbers, and where memory lies.
pub(super) fn fixed(program: &Program) -> Vec<Option<Abs>> {
    fn visit(program: &Program, block: &Block, out: &mut [Option<Abs>]) {
        for inst in block {
            match inst {
                Inst::Const { dst, bits } if matches!(program.vals[*dst], LTy::Num(s) if !s.is_float()) => {
                    out[dst.index()] = Some(Abs::All(*bits as i64));
                }
                Inst::SharedAddr { dst, alloc } => out[dst.index()] = Some(Abs::All(i64::from(program.allocs[*alloc].offset))),
                other => blocks(other).for_each(|b| visit(program, b, out)),
            }
        }
    }
    let mut out = vec![None; program.vals.len()];
    visit(program, &program.body, &mut out);
    out
}

/// Calls `f` for every counted loop.
pub(super) fn loops<'p>(block: &'p Block, f: &mut dyn FnMut(&'p For)) {
    for inst in block {
        if let Inst::For(l) = inst {
            f(l);
        }
        blocks(inst).for_each(|b| loops(b, f));
    }
}

/// Calls `f` for every choice.
pub(super) fn choices<'p>(block: &'p Block, f: &mut dyn FnMut(&'p If)) {
    for inst in block {
        if let Inst::If(c) = inst {
            f(c);
        }
        blocks(inst).for_each(|b| choices(b, f));
    }
}

/// True if lanes copy in a block.
pub(super) fn copies(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::CopyAsync { .. } | Inst::CommitCopies | Inst::WaitCopies { .. } => true,
        Inst::Unit(u) if matches!(**u, Unit::ArriveCopies { .. }) => true,
        other => visit::blocks(other).any(copies),
    })
}

/// True if an instruction of a block, at any depth, is one of these.
pub(super) fn any(block: &Block, is: &dyn Fn(&Inst) -> bool) -> bool {
    block.iter().any(|i| is(i) || blocks(i).any(|b| any(b, is)))
}

/// True if all warps of a role meet in a block, at any depth.
pub(super) fn meets(block: &Block) -> bool {
    any(block, &|i| matches!(i, Inst::Barrier))
}
