//! What the checker looks up before it runs: comparisons, loop indices, and the values that matter.

use super::value::Abs;
use cranelift_entity::EntityRef;
use tilelift_ir::CmpOp;
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::visit::{blocks, computed, reads};
use tilelift_lane::{AllocId, Block, Inst, LTy, LVal, OperandA, Program, Unit};

/// The comparisons `lo < hi` of a block and the blocks inside it.
pub(super) fn comparisons(block: &Block, less: &mut Map<LVal, (LVal, LVal)>) {
    for inst in block {
        if let Inst::Cmp { dst, op: CmpOp::Lt, a, b } = inst {
            less.insert(*dst, (*a, *b));
        }
        blocks(inst).into_iter().for_each(|b| comparisons(b, less));
    }
}

/// The values that decide what roles do to one another: what the units around the ring read, and what that is computed from.
pub(super) fn relevant(program: &Program, counted: bool, local: &dyn Fn(LVal) -> bool) -> Set<LVal> {
    let mut set = Set::default();
    // Values flow forward in the text, and around loops: until nothing is added.
    loop {
        let before = set.len();
        mark(&program.body, counted, local, &mut set);
        if set.len() == before {
            return set;
        }
    }
}

fn mark(block: &Block, counted: bool, local: &dyn Fn(LVal) -> bool, set: &mut Set<LVal>) {
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
                    set.extend([to.addr, barrier.addr]);
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
                    set.extend([to.addr, barrier.addr]);
                    set.extend(guard);
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
                if computed(other).is_some_and(|list| list.iter().any(|v| set.contains(v))) {
                    reads(other, &mut |v| {
                        set.insert(v);
                    });
                }
            }
        }
    }
}

/// The addresses at which lanes read what bulk copies fill.
pub(super) fn read_by_lanes(program: &Program) -> Set<LVal> {
    // What each value is made of, the first allocation that it is an address in, and where copies go and lanes read.
    #[derive(Default)]
    struct Found {
        from: Map<LVal, Vec<LVal>>,
        allocs: Map<LVal, AllocId>,
        filled: Vec<LVal>,
        read: Vec<LVal>,
    }
    fn visit(block: &Block, out: &mut Found) {
        for inst in block {
            match inst {
                Inst::SharedAddr { dst, alloc } => {
                    out.allocs.insert(*dst, *alloc);
                }
                Inst::LoadShared { addr, .. } | Inst::LoadMatrix { addr, .. } => out.read.push(*addr),
                Inst::Unit(u) => {
                    if let Unit::BulkLoad { to, .. } = &**u {
                        out.filled.push(to.addr);
                    }
                }
                Inst::For(l) => l.carried.iter().for_each(|c| {
                    out.from.insert(c.param, vec![c.init, c.next]);
                    out.from.insert(c.result, vec![c.init, c.next]);
                }),
                Inst::If(c) => c.results.iter().for_each(|&(r, a, b)| {
                    out.from.insert(r, vec![a, b]);
                }),
                other => {
                    if let Some(list) = computed(other) {
                        let mut sources = Vec::new();
                        reads(other, &mut |v| sources.push(v));
                        list.iter().for_each(|&v| {
                            out.from.insert(v, sources.clone());
                        });
                    }
                }
            }
            blocks(inst).into_iter().for_each(|b| visit(b, out));
        }
    }
    let mut found = Found::default();
    visit(&program.body, &mut found);
    if found.read.is_empty() || found.filled.is_empty() {
        return Set::default();
    }
    let within = |v: LVal| {
        let (mut open, mut seen, mut out) = (vec![v], Set::default(), Vec::new());
        while let Some(v) = open.pop() {
            if seen.insert(v) {
                out.extend(found.allocs.get(&v));
                open.extend(found.from.get(&v).into_iter().flatten());
            }
        }
        out
    };
    let rings: Vec<AllocId> = found.filled.iter().flat_map(|&v| within(v)).collect();
    found.read.iter().copied().filter(|&v| within(v).iter().any(|a| rings.contains(a))).collect()
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
                other => blocks(other).into_iter().for_each(|b| visit(program, b, out)),
            }
        }
    }
    let mut out = vec![None; program.vals.len()];
    visit(program, &program.body, &mut out);
    out
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

/// True if a block passes over phases of mbarriers.
pub(super) fn passes(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => matches!(**u, Unit::Pass { .. }),
        other => blocks(other).into_iter().any(passes),
    })
}
