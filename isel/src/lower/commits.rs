//! Which products of a task are committed together.
//!
//! ```text
//! early, early, late, late, wait 2, …, wait 0      two groups: early ones, late ones; `wait 2` leaves one of them in flight
//! ```
//!
//! An author counts products, the unit groups of them. Products that stand side by side are one group where no wait tells them apart: all waits
//! are known of those that end in their own region, with nothing begun in between.

use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, Effects, Inst, Kernel, Op, ProgramOrder, Region, Type};

/// What is decided of a kernel's products.
#[derive(Default)]
pub(super) struct Commits {
    /// Products whose group goes on with the next one.
    open: BTreeSet<Inst>,
    /// Groups that a wait leaves in flight, where they are not as many as products.
    waits: BTreeMap<Inst, u32>,
}

/// True for what makes no lane compute: names of buffers, scalars, accumulators that begin somewhere.
pub(super) fn is_silent(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let tiles = d.results.iter().any(|&v| matches!(kernel.ty(v), Type::Tile(_)));
    d.op == Op::Splat || !tiles && d.regions.is_empty() && d.op.info().effects == Effects::Pure
}

fn pending(kernel: &Kernel, i: Inst) -> u32 {
    if let Some(Attr::Count(n)) = kernel.insts[i].attrs.first() { *n } else { 0 }
}

impl Commits {
    pub fn of(kernel: &Kernel, order: &ProgramOrder) -> Commits {
        let mut out = Commits::default();
        out.region(kernel, order, kernel.body);
        out
    }

    /// True if the unit is told that a group ends with this product.
    pub fn ends(&self, dot: Inst) -> bool {
        !self.open.contains(&dot)
    }

    /// Groups that a wait leaves in flight.
    pub fn left(&self, kernel: &Kernel, wait: Inst) -> u32 {
        self.waits.get(&wait).copied().unwrap_or_else(|| pending(kernel, wait))
    }

    fn region(&mut self, kernel: &Kernel, order: &ProgramOrder, r: Region) {
        let insts = &kernel.regions[r].insts;
        let mut at = 0;
        while let Some(&i) = insts.get(at) {
            kernel.insts[i].regions.iter().for_each(|&inner| self.region(kernel, order, inner));
            if kernel.insts[i].op != Op::AsyncDot {
                at += 1;
                continue;
            }
            let side = |j: &&Inst| kernel.insts[**j].op == Op::AsyncDot || is_silent(kernel, **j);
            let run: Vec<Inst> = insts[at..].iter().take_while(side).copied().collect();
            at += run.len();
            let dots: Vec<Inst> = run.into_iter().filter(|&j| kernel.insts[j].op == Op::AsyncDot).collect();
            if let Some(waits) = ended(kernel, order, &insts[at..]) {
                self.group(kernel, &dots, &waits);
            }
        }
    }

    /// Groups products by the waits that end them.
    fn group(&mut self, kernel: &Kernel, dots: &[Inst], waits: &[Inst]) {
        let told: BTreeSet<u32> = waits.iter().map(|&w| pending(kernel, w)).collect();
        if told.iter().any(|&n| n as usize > dots.len()) {
            return;
        }
        let behind = (0..dots.len() as u32).rev();
        self.open.extend(dots.iter().zip(behind).filter(|(_, n)| !told.contains(n)).map(|(&i, _)| i));
        for &w in waits {
            self.waits.insert(w, told.range(..pending(kernel, w)).count() as u32);
        }
    }
}

/// The waits up to the one that leaves nothing in flight, if nothing else is begun or waited for in front of that.
fn ended(kernel: &Kernel, order: &ProgramOrder, insts: &[Inst]) -> Option<Vec<Inst>> {
    let mut waits = Vec::new();
    for &i in insts {
        let d = &kernel.insts[i];
        let inner = d.regions.iter().any(|&r| order.has(r, |op| matches!(op, Op::AsyncDot | Op::AsyncDotWait)));
        match d.op {
            Op::AsyncDotWait => {
                waits.push(i);
                if pending(kernel, i) == 0 {
                    return Some(waits);
                }
            }
            Op::AsyncDot => return None,
            _ if inner => return None,
            _ => {}
        }
    }
    None
}
