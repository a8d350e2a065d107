//! What a node costs: the time that the busiest part of a machine needs for its optimised kernel, a part of what the others need, and the launch.
//!
//! ```text
//! memory     bytes that are written, and those of the tensors that are read, from memory; all that programs ask for, from the cache
//! matrix, functions, lanes, exchange     the prices of the logical model, by the part that is busy ([`tilelift_egraph::cost::Pipe`])
//! behind     of lanes and functions what stands behind a loop of products, where warpgroups multiply: the units wait for it
//! cost       busiest + behind + 1/4 of the others + launch
//! ```
//!
//! The unit is that of [`tilelift_egraph::cost`]: a sixteenth of a lane's operation, in which a byte of memory costs
//! `price(Read) / 4`. Symbols count as [`super::FuseOptions::typical`].
//!
//! An operand of a product that is computed in the loop from what is loaded there can't be copied ahead by the machine's asynchronous
//! copies: the loop waits for its bytes. Where the target has such copies, such bytes cost [`EXPOSED`] times more. What another product makes of
//! operands as they are loaded (probabilities of scores) waits for none.

use crate::graph::nodes::{Graph, Node};
use crate::graph::size::Count;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_egraph::cost::{Family, Pipe, price};
use tilelift_ir::{Attr, Effects, Extent, Inst, Kernel, Op, Region, Type, Value, most_rounds, verify};
use tilelift_isel::Target;

/// A launch, in lane operations: about two microseconds of a large machine.
const LAUNCH: u64 = 1 << 30;
/// What waiting for a byte adds to its price, in prices of a byte. An estimate: a loop of products hides about this much.
const EXPOSED: u64 = 2;
/// Bytes that the cache gives in the time of one from memory.
const CACHE: u64 = 2;
/// Of what runs beside the busiest part one in so many is not hidden.
const HIDDEN: u64 = 4;
/// Rounds of a loop whose bounds are not known, as in the logical model.
const TRIPS: u64 = 16;

/// Cost and traffic of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Estimate {
    /// Cost by the logical model.
    pub cost: u64,
    /// Bytes that its programs ask for and write.
    pub bytes: u64,
}

/// Looks at a node; `typical` stands for symbols.
pub(crate) fn estimate(graph: &Graph, node: &Node, typical: u32, target: &Target) -> Estimate {
    let sized = with_sizes(graph, node, typical);
    let Ok(verified) = verify(&sized) else { return Estimate { cost: u64::MAX, bytes: u64::MAX } };
    let (made, report) = tilelift_egraph::optimise(&verified, &tilelift_egraph::Options::default());
    let kernel = &made.into_kernel();
    // What is too large to be looked at has no price.
    if report.windows > 0 {
        return Estimate { cost: u64::MAX, bytes: u64::MAX };
    }
    let values = vec![typical; graph.symbols.len()];
    let count = |c: &Count| u64::from(c.value(&values).unwrap_or(u32::MAX));
    let programs = node.grid.0.iter().fold(1u64, |n, c| n.saturating_mul(count(c)));
    let mut traffic = Traffic::default();
    traffic.region(kernel, kernel.body, 1);
    let all = |n: u64| n.saturating_mul(programs);
    let byte = Family::Read.price() / 4;
    let waited = if target.copy_async.is_empty() { 0 } else { traffic.exposed.saturating_mul(EXPOSED) };
    // No more than there is of each tensor comes from memory; the cache gives the rest.
    let there = |param: usize| {
        let (id, flat) = node.args.get(param)?.tensor()?;
        let extents = graph.extents(&graph.tensors[id.index()], flat);
        let elements = extents.iter().fold(1u64, |n, e| n.saturating_mul(u64::from(e.value(&values).unwrap_or(u32::MAX))));
        Some(graph.tensors[id.index()].elem.storage(usize::try_from(elements).unwrap_or(usize::MAX)) as u64)
    };
    let from_memory = |(&param, &read): (&usize, &u64)| there(param).map_or(all(read), |n| n.min(all(read)));
    let from_memory = traffic.of.iter().map(from_memory).fold(0u64, u64::saturating_add);
    let read = from_memory.max(all(traffic.read) / CACHE);
    let mut busy = traffic.busy.map(all);
    busy[Pipe::Memory as usize] = read.saturating_add(all(traffic.written)).saturating_add(all(waited)).saturating_mul(byte);
    let most = (0..busy.len()).max_by_key(|&pipe| busy[pipe]).unwrap_or(0);
    let busiest = busy[most];
    // One program has a multiprocessor there, and its warpgroups come to the end of a loop together.
    let computes = [Pipe::Lanes as usize, Pipe::Functions as usize];
    let waited_for = |&&pipe: &&usize| pipe != most && target.units.is_some();
    let after = computes.iter().filter(waited_for).map(|&pipe| all(traffic.behind[pipe])).fold(0u64, u64::saturating_add);
    let others = busy.iter().copied().fold(0u64, u64::saturating_add).saturating_sub(busiest);
    let rest = others.saturating_sub(after) / HIDDEN;
    let cost = busiest.saturating_add(after).saturating_add(rest).saturating_add(LAUNCH);
    Estimate { cost, bytes: all(traffic.read.saturating_add(traffic.written)) }
}

/// The kernel with the extents that the graph states, so that loops have their rounds.
fn with_sizes(graph: &Graph, node: &Node, typical: u32) -> Kernel {
    let mut kernel = node.kernel.clone();
    let values = vec![typical; graph.symbols.len()];
    for (param, arg) in node.args.iter().enumerate() {
        let (Some((id, flat)), v) = (arg.tensor(), kernel.params[param]) else { continue };
        if let Type::View(view) = &mut kernel.values[v].ty {
            let extents = graph.extents(&graph.tensors[id.index()], flat);
            for (dim, size) in view.dims.iter_mut().zip(&extents) {
                *dim = size.value(&values).map_or(*dim, Extent::Fixed);
            }
        }
    }
    kernel
}

/// What a program asks of memory, and how long parts of the machine are busy with it.
#[derive(Default)]
struct Traffic {
    read: u64,
    /// The same, by the parameter that is read.
    of: BTreeMap<usize, u64>,
    written: u64,
    /// By [`Pipe`], but for memory.
    busy: [u64; Pipe::ALL.len()],
    /// What of this stands behind a loop of products.
    behind: [u64; Pipe::ALL.len()],
    /// Read in loops for operands of products that are computed from them.
    exposed: u64,
}

/// Bytes of a value.
fn bytes(kernel: &Kernel, v: Value) -> u64 {
    let ty = kernel.ty(v);
    if let Some(s) = ty.as_shared() {
        return s.bytes();
    }
    ty.shape().map_or(0, |s| ty.elem().storage(s.iter().product::<u32>() as usize) as u64)
}

/// The loads of a region that an operand is computed from; none if it is loaded as it is.
fn computed_from(kernel: &Kernel, region: Region, operand: Value) -> BTreeSet<Inst> {
    let here = |v: Value| kernel.def_inst(v).filter(|i| kernel.regions[region].insts.contains(i));
    let mut v = operand;
    while let Some(i) = here(v).filter(|&i| matches!(kernel.insts[i].op, Op::Transpose | Op::Reshape)) {
        v = kernel.insts[i].args[0];
    }
    let mut loads = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut todo: Vec<Inst> = here(v).into_iter().filter(|&i| kernel.insts[i].op != Op::Load).collect();
    while let Some(i) = todo.pop() {
        if seen.insert(i) {
            if kernel.insts[i].op.info().effects == Effects::Reads {
                loads.insert(i);
            }
            // Another product's operands are copied for that one.
            if let Some([_, _, sums]) = kernel.insts[i].op.factors() {
                todo.extend(kernel.insts[i].args.get(sums).and_then(|&c| here(c)));
                continue;
            }
            todo.extend(kernel.insts[i].args.iter().filter_map(|&a| here(a)));
        }
    }
    loads
}

impl Traffic {
    fn region(&mut self, kernel: &Kernel, region: Region, times: u64) {
        let insts = &kernel.regions[region].insts;
        if region != kernel.body {
            let factors = |&i: &Inst| kernel.insts[i].op.factors().map(|[a, b, _]| [a, b].map(|at| kernel.insts[i].args[at]));
            let loads: BTreeSet<Inst> = insts.iter().filter_map(factors).flatten().flat_map(|v| computed_from(kernel, region, v)).collect();
            let waited = loads.iter().map(|&i| bytes(kernel, kernel.insts[i].results[0])).sum::<u64>();
            self.exposed = self.exposed.saturating_add(waited.saturating_mul(times));
        }
        let mut behind = false;
        for &i in insts {
            let d = &kernel.insts[i];
            let before = self.busy;
            let rounds = match d.op {
                Op::For => most_rounds(kernel, &d.args).map_or(TRIPS, |n| n.max(1)),
                Op::While => TRIPS,
                _ => 1,
            };
            for &r in &d.regions {
                self.region(kernel, r, times.saturating_mul(rounds));
            }
            self.work(kernel, i, times);
            let multiplies = |r: Region| kernel.regions[r].insts.iter().any(|&j| kernel.insts[j].op.factors().is_some());
            if behind && d.regions.is_empty() {
                self.behind.iter_mut().zip(self.busy.iter().zip(before)).for_each(|(n, (now, then))| *n = n.saturating_add(now - then));
            }
            behind |= d.op == Op::For && d.regions.iter().any(|&r| multiplies(r));
            let moved = match d.op.info().effects.global() {
                Effects::Reads => d.results.first().or(kernel.operand(i, "buffer").first()).map_or(0, |&v| bytes(kernel, v)),
                Effects::Writes | Effects::Updates => {
                    kernel.operand(i, "value").first().or(kernel.operand(i, "buffer").first()).map_or(0, |&v| bytes(kernel, v))
                }
                _ => continue,
            };
            if d.op.info().effects.global() == Effects::Reads {
                let moved = moved.saturating_mul(times);
                self.read = self.read.saturating_add(moved);
                if let Some(param) = kernel.params.iter().position(|p| d.args.first() == Some(p)) {
                    let of = self.of.entry(param).or_default();
                    *of = of.saturating_add(moved);
                }
            } else {
                self.written = self.written.saturating_add(moved.saturating_mul(times));
            }
        }
    }

    /// Adds what an instruction keeps busy, if that is not memory.
    fn work(&mut self, kernel: &Kernel, i: Inst, times: u64) {
        let d = &kernel.insts[i];
        let Some(&result) = d.results.first().filter(|_| d.op.info().effects == Effects::Pure) else { return };
        let ty = kernel.ty(result);
        let kids: Vec<&Type> = d.args.iter().map(|&v| kernel.ty(v)).collect();
        let attrs: Vec<Attr> = d.attrs.iter().cloned().collect();
        let pipe = Family::of(d.op, ty.elem()).pipe();
        if pipe != Pipe::Memory {
            let busy = &mut self.busy[pipe as usize];
            *busy = busy.saturating_add(price(d.op, &attrs, ty, &kids).saturating_mul(times));
        }
    }
}
