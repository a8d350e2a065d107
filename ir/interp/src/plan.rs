//! What is known of a kernel before it runs: when values die, what instructions cost, which buffers are written.

use super::shapes::count;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tilelift_ir::Type;
use tilelift_ir::kernel::{Kernel, ValueDef};
use tilelift_ir::ops::{Attr, Effects, Op, Rule};
use tilelift_ir::{Inst, Region, Value};

/// Per-instruction facts of a kernel.
pub(crate) struct Plan {
    /// Values whose last use is a direct operand of the instruction: dropped before it computes, so that it may work in place.
    pub(crate) dies_before: SecondaryMap<Inst, SmallVec<[Value; 2]>>,
    /// Values whose last use is inside a region of the instruction: dropped when it ends.
    pub(crate) dies_after: SecondaryMap<Inst, SmallVec<[Value; 2]>>,
    /// Fuel the instruction takes: the most elements of any operand or result, of views none, at least 1; `m * n * k` for a product, for a sort that
    /// times the comparisons of an element, for long functions that times what one of them takes.
    pub(crate) cost: SecondaryMap<Inst, u64>,
}

/// Sums that take as long as an element of an op.
fn weight(op: Op) -> u64 {
    if matches!(op, Op::Erf | Op::Sin | Op::Cos) { 16 } else { 1 }
}

impl Plan {
    pub(crate) fn new(kernel: &Kernel) -> Plan {
        // Where each region hangs: the instruction that holds it and the region of that instruction.
        let mut holder: SecondaryMap<Region, Option<(Inst, Region)>> = SecondaryMap::new();
        let mut place: SecondaryMap<Inst, Option<Region>> = SecondaryMap::new();
        for (region, data) in kernel.regions.iter() {
            for &inst in &data.insts {
                place[inst] = Some(region);
                for &inner in &kernel.insts[inst].regions {
                    holder[inner] = Some((inst, region));
                }
            }
        }
        let home = |v: Value| match kernel.values[v].def {
            ValueDef::Result(inst, _) => place[inst],
            ValueDef::RegionParam(region, _) => Some(region),
            ValueDef::KernelParam(_) => Some(kernel.body),
        };
        // Uses are met in program order, so that the last record of a value is its last use, seen from its own region.
        let mut last: SecondaryMap<Value, Option<(Inst, bool)>> = SecondaryMap::new();
        kernel.walk(kernel.body, &mut |user| {
            for &v in &kernel.insts[user].args {
                let (target, mut inst, mut direct, mut region) = (home(v), user, true, place[user]);
                while region != target {
                    let Some((outer, at)) = region.and_then(|r| holder[r]) else { break };
                    (inst, direct, region) = (outer, false, Some(at));
                }
                let nested_before = matches!(last[v], Some((i, false)) if i == inst);
                last[v] = Some((inst, direct && !nested_before));
            }
        });
        let mut plan = Plan { dies_before: SecondaryMap::new(), dies_after: SecondaryMap::new(), cost: SecondaryMap::new() };
        for v in kernel.values.keys() {
            match last[v] {
                Some((inst, true)) => plan.dies_before[inst].push(v),
                Some((inst, false)) => plan.dies_after[inst].push(v),
                None => {
                    if let ValueDef::Result(inst, _) = kernel.values[v].def {
                        plan.dies_after[inst].push(v);
                    }
                }
            }
        }
        for (inst, d) in kernel.insts.iter() {
            let elements = |v: &Value| match kernel.ty(*v) {
                Type::Shared(s) => count(&s.shape) as u64,
                t => t.shape().map_or(1, |s| count(s) as u64),
            };
            let widest = d.args.iter().chain(&d.results).map(elements).max().unwrap_or(1).max(1);
            // A combining region runs about once per element.
            let inside: usize =
                if d.op.info().effects == Effects::Pure { d.regions.iter().map(|&r| kernel.regions[r].insts.len()).sum() } else { 0 };
            let widest = widest * (1 + inside as u64);
            let extents = |v: Value| match kernel.ty(v) {
                Type::Shared(s) => &s.shape[..],
                t => t.shape().unwrap_or(&[]),
            };
            let first = d.args.first().map_or(&[][..], |&a| extents(a));
            plan.cost[inst] = match d.op.info().rule {
                _ if matches!(d.op, Op::Dot | Op::AsyncDot | Op::DotScaled) => {
                    d.results.first().map_or(1, |r| elements(r).saturating_mul(u64::from(first.last().copied().unwrap_or(1))))
                }
                Rule::Sort | Rule::ArgSort | Rule::TopK | Rule::ArgTopK => {
                    let along = d.attrs.iter().find_map(|a| if let Attr::Dim(axis) = a { first.get(*axis as usize) } else { None });
                    widest * u64::from(1 + along.map_or(0, |n| n.ilog2()))
                }
                _ => widest.saturating_mul(weight(d.op)),
            };
        }
        plan
    }
}
