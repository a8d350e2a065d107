//! Dead code: removes pure instructions and loads whose results nothing uses, and carried values that nothing reads.

use super::{AtomicKind, Block, Carried, Inst, LVal, ShuffleFrom};
use cranelift_entity::SecondaryMap;

/// Removes pure instructions (and loads) whose results nothing uses; marks what is used.
pub(super) fn sweep(block: &mut Block, live: &mut SecondaryMap<LVal, bool>) {
    let mut keep = vec![true; block.len()];
    for (i, inst) in block.iter_mut().enumerate().rev() {
        match inst {
            Inst::Undefined { dst }
            | Inst::Const { dst, .. }
            | Inst::Param { dst, .. }
            | Inst::Special { dst, .. }
            | Inst::SharedAddr { dst, .. } => {
                keep[i] = live[*dst];
            }
            Inst::Un { dst, a, .. } | Inst::Cvt { dst, a } | Inst::RoundTf32 { dst, a } | Inst::Bitcast { dst, a } => {
                keep[i] = live[*dst];
                if keep[i] {
                    live[*a] = true;
                }
            }
            Inst::Bin { dst, a, b, .. } | Inst::Cmp { dst, a, b, .. } => {
                keep[i] = live[*dst];
                if keep[i] {
                    (live[*a], live[*b]) = (true, true);
                }
            }
            Inst::Fma { dst, a, b, c } | Inst::MadWide { dst, a, b, c } | Inst::Select { dst, c: a, a: b, b: c } => {
                keep[i] = live[*dst];
                if keep[i] {
                    (live[*a], live[*b], live[*c]) = (true, true, true);
                }
            }
            Inst::Pack { dst, parts } => {
                keep[i] = live[*dst];
                if keep[i] {
                    use_all(live, parts);
                }
            }
            Inst::Unpack { dsts, a } => {
                keep[i] = dsts.iter().any(|&d| live[d]);
                if keep[i] {
                    live[*a] = true;
                }
            }
            Inst::Divide { dsts, a, b } => {
                keep[i] = dsts.iter().any(|&d| live[d]);
                if keep[i] {
                    use_all(live, a);
                    use_all(live, b);
                }
            }
            Inst::LoadGlobal { dsts, addr, guard, other, .. } => {
                keep[i] = dsts.iter().any(|&d| live[d]);
                if keep[i] {
                    live[*addr] = true;
                    guard.iter().for_each(|&g| live[g] = true);
                    other.iter().for_each(|&o| live[o] = true);
                }
            }
            Inst::LoadShared { dsts, addr, .. } | Inst::LoadMatrix { dsts, addr, .. } => {
                keep[i] = dsts.iter().any(|&d| live[d]);
                if keep[i] {
                    live[*addr] = true;
                }
            }
            Inst::StoreGlobal { srcs, addr, guard, .. } | Inst::StoreShared { srcs, addr, guard, .. } => {
                use_all(live, srcs);
                live[*addr] = true;
                guard.iter().for_each(|&g| live[g] = true);
            }
            Inst::Atomic(a) => {
                a.dst = a.dst.filter(|&d| live[d]);
                use_all(live, &[a.addr, a.value]);
                if let AtomicKind::Cas(c) = a.kind {
                    live[c] = true;
                }
                a.guard.iter().for_each(|&g| live[g] = true);
            }
            Inst::CopyAsync { shared, global, valid, .. } => {
                use_all(live, &[*shared, *global]);
                valid.iter().for_each(|&g| live[g] = true);
            }
            Inst::CommitCopies | Inst::WaitCopies { .. } | Inst::Barrier => {}
            Inst::Assert { condition } => live[*condition] = true,
            Inst::Shuffle { dst, a, from } => {
                keep[i] = live[*dst];
                if keep[i] {
                    live[*a] = true;
                    if let ShuffleFrom::Lane(l) = from {
                        live[*l] = true;
                    }
                }
            }
            Inst::Matrix { dsts, a, b, c, .. } => {
                keep[i] = dsts.iter().any(|&d| live[d]);
                if keep[i] {
                    use_all(live, a);
                    use_all(live, b);
                    use_all(live, c);
                }
            }
            Inst::For(f) => {
                f.carried.iter().for_each(|c| live[c.next] = true);
                sweep(&mut f.body, live);
                drop_unused(&mut f.carried, live);
                use_all(live, &[f.lo, f.hi, f.step]);
                f.carried.iter().for_each(|c| live[c.init] = true);
            }
            Inst::While(w) => {
                w.carried.iter().for_each(|c| live[c.next] = true);
                sweep(&mut w.body, live);
                live[w.condition] = true;
                sweep(&mut w.test, live);
                drop_unused(&mut w.carried, live);
                w.carried.iter().for_each(|c| live[c.init] = true);
            }
            Inst::Unit(u) => u.operands(|v, _| live[v] = true),
            Inst::Roles(r) => r.roles.iter_mut().for_each(|r| sweep(&mut r.body, live)),
            Inst::If(f) => {
                f.results.retain(|(r, ..)| live[*r]);
                for &(_, a, b) in &f.results {
                    (live[a], live[b]) = (true, true);
                }
                sweep(&mut f.then, live);
                sweep(&mut f.otherwise, live);
                live[f.condition] = true;
            }
        }
    }
    let mut at = 0;
    block.retain(|_| {
        at += 1;
        keep[at - 1]
    });
}

fn use_all(live: &mut SecondaryMap<LVal, bool>, vs: &[LVal]) {
    vs.iter().for_each(|&v| live[v] = true);
}

/// Drops carried values that neither the body nor the code behind the loop reads.
fn drop_unused(carried: &mut Vec<Carried>, live: &SecondaryMap<LVal, bool>) {
    carried.retain(|c| live[c.param] || live[c.result]);
}
