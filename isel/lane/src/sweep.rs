//! Dead code: removes pure instructions and loads whose results nothing uses, and carried values that nothing reads.

use super::inst::{Block, Inst};
use super::value::Carried;
use super::value::LVal;
use cranelift_entity::SecondaryMap;

/// Removes pure instructions (and loads) whose results nothing uses; marks what is used.
pub(super) fn sweep(block: &mut Block, live: &mut SecondaryMap<LVal, bool>) {
    let mut keep = vec![true; block.len()];
    for (i, inst) in block.iter_mut().enumerate().rev() {
        match inst {
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
            plain => {
                if let Inst::Atomic(a) = plain {
                    a.dst = a.dst.filter(|&d| live[d]);
                }
                keep[i] = !plain.effect().removable() || plain.results().iter().any(|&d| live[d]);
                if keep[i] {
                    plain.operands(|v, _| live[v] = true);
                }
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
