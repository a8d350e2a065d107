//! Conditions that are asked for a step ahead, so that nobody waits for memory where a choice is made.
//!
//! ```text
//! for i … {                    for i … carry c = c(first i) {
//!     c = c(i)            ─►       next = c(i + step)
//!     … c …                        … c …
//! }                                yield next
//!                              }
//! ```

use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Scalar, Type, Value, ValueData, ValueDef};
use tilelift_lane::hash::Set;

/// Instructions that a condition is computed by, at most, to be asked for a step ahead.
const MOST_ASKED: usize = 16;

impl Rewrite {
    /// The condition of a choice that stands in a loop's body. One that asks memory which nobody writes, at places that follow from the loop's index, is
    /// carried, and asked for a step ahead; others stay as they are.
    pub(super) fn asked_ahead(&mut self, (region, choice): (Region, Inst), written: &Set<Value>) -> Value {
        let condition = self.kernel.insts[choice].args[0];
        let kernel = &self.kernel;
        let Some(main) = kernel.holder(region).filter(|&i| kernel.insts[i].op == Op::For) else { return condition };
        let Some(holder) = kernel.regions.iter().find(|r| r.1.insts.contains(&main)).map(|r| r.0) else { return condition };
        let (Some(end), Some(asked)) = (kernel.terminator(region), asked(kernel, region, condition, written)) else { return condition };
        let Some(&front) = kernel.regions[region].insts.first() else { return condition };
        let index = kernel.regions[region].params[0];
        let [lo, step] = [0, 2].map(|n| kernel.insts[main].args[n]);
        let ty = kernel.ty(index).clone();
        let first = self.for_index(&asked, (holder, main), (index, lo), condition);
        let later = self.put((region, front), (Op::Add, &[index, step], &[]), ty);
        let next = self.for_index(&asked, (region, front), (index, later), condition);
        let own = self.kernel.add_region_param(region, Type::Scalar(Scalar::I1));
        self.kernel.insts[main].args.push(first);
        self.kernel.insts[end].args.push(next);
        let def = ValueDef::Result(main, self.kernel.insts[main].results.len() as u32);
        let result = self.kernel.values.push(ValueData { ty: Type::Scalar(Scalar::I1), def });
        self.kernel.insts[main].results.push(result);
        self.kernel.insts[choice].args[0] = own;
        self.forget(region, &asked);
        own
    }

    /// Computes a value once more for another index, in front of an instruction.
    fn for_index(&mut self, asked: &[Inst], at: (Region, Inst), index: (Value, Value), of: Value) -> Value {
        let mut own: BTreeMap<Value, Value> = [index].into_iter().collect();
        self.again(asked, at, &mut own);
        own.get(&of).copied().unwrap_or(of)
    }

    /// Takes what nobody reads any more out of a body.
    pub(super) fn forget(&mut self, region: Region, list: &[Inst]) {
        let kernel = &mut self.kernel;
        for &i in list.iter().rev() {
            let results = kernel.insts[i].results.clone();
            let mut used = false;
            kernel.walk(kernel.body, &mut |j| used |= kernel.insts[j].args.iter().any(|a| results.contains(a)));
            if !used {
                kernel.regions[region].insts.retain(|&j| j != i);
            }
        }
    }
}

/// What of a loop's body a condition is computed by, in order, if it loads something, and may be computed for any index.
fn asked(kernel: &Kernel, region: Region, condition: Value, written: &Set<Value>) -> Option<Vec<Inst>> {
    let (mut wanted, mut loads): (BTreeSet<Value>, bool) = ([condition].into_iter().collect(), false);
    let mut out = Vec::new();
    for &i in kernel.regions[region].insts.iter().rev() {
        let d = &kernel.insts[i];
        if !d.results.iter().any(|v| wanted.contains(v)) {
            continue;
        }
        let unwritten = d.op == Op::Load && !written.contains(&d.args[0]);
        let small = d.results.iter().all(|&v| kernel.ty(v).as_tile().is_none_or(|t| t.elements() == 1));
        let divides = matches!(d.op, Op::Div | Op::Rem | Op::DivU | Op::RemU) && kernel.as_const(d.args[1]).is_none();
        if !(unwritten || matches!(d.op.info().effects, Effects::Pure)) || !small || divides || !d.regions.is_empty() {
            return None;
        }
        loads |= unwritten;
        wanted.extend(d.args.iter().copied());
        out.push(i);
    }
    // What is carried is not known a step ahead.
    let carried = kernel.regions[region].params[1..].iter().any(|p| wanted.contains(p));
    out.reverse();
    (loads && !carried && out.len() <= MOST_ASKED).then_some(out)
}
