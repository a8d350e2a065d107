//! What a node costs: the logical cost of its optimised kernel, times its programs, plus what it writes, plus the launch.
//!
//! The unit is that of [`tilelift_egraph::cost`]: a sixteenth of a lane's operation, in which a byte that is read costs
//! `price(Read) / 4`. A byte that is written costs the same. Symbols count as [`super::FuseOptions::typical`].
//!
//! An operand of a product that is computed in the loop from what is loaded there can't be copied ahead by the machine's asynchronous
//! copies: the loop waits for its bytes. Where the target has such copies, such bytes cost [`EXPOSED`] times more.

use crate::graph::nodes::{Graph, Node};
use crate::graph::size::Count;
use std::collections::BTreeSet;
use tilelift_egraph::Skipped;
use tilelift_egraph::cost::Family;
use tilelift_ir::{Effects, Extent, Inst, Kernel, Literal, Op, Region, Type, Value, iterations, verify};
use tilelift_isel::Target;

/// A launch, in lane operations: about two microseconds of a large machine.
const LAUNCH: u64 = 1 << 30;
/// What waiting for a byte adds to its price, in prices of a byte. An estimate: a loop of products hides about this much.
const EXPOSED: u64 = 2;
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
    let (_, report) = tilelift_egraph::optimise(&verified, &tilelift_egraph::Options::default());
    // What is too large to be looked at has no price.
    if matches!(report.skipped, Some(Skipped::Size { .. })) {
        return Estimate { cost: u64::MAX, bytes: u64::MAX };
    }
    let values = vec![typical; graph.symbols.len()];
    let count = |c: &Count| u64::from(c.value(&values).unwrap_or(u32::MAX));
    let programs = node.grid.0.iter().fold(1u64, |n, c| n.saturating_mul(count(c)));
    let mut traffic = Traffic::default();
    traffic.region(&sized, sized.body, 1);
    let waited = if target.copy_async.is_empty() { 0 } else { traffic.exposed.saturating_mul(EXPOSED) };
    let written = traffic.written.saturating_add(waited).saturating_mul(Family::Read.price() / 4);
    let cost = report.after.saturating_add(written).saturating_mul(programs).saturating_add(LAUNCH);
    Estimate { cost, bytes: traffic.read.saturating_add(traffic.written).saturating_mul(programs) }
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

/// Bytes of a program.
#[derive(Default)]
struct Traffic {
    read: u64,
    written: u64,
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
            todo.extend(kernel.insts[i].args.iter().filter_map(|&a| here(a)));
        }
    }
    loads
}

impl Traffic {
    fn region(&mut self, kernel: &Kernel, region: Region, times: u64) {
        let insts = &kernel.regions[region].insts;
        if region != kernel.body {
            let dots = insts.iter().filter(|&&i| kernel.insts[i].op == Op::Dot);
            let loads: BTreeSet<Inst> =
                dots.flat_map(|&i| &kernel.insts[i].args[..2]).flat_map(|&v| computed_from(kernel, region, v)).collect();
            let waited = loads.iter().map(|&i| bytes(kernel, kernel.insts[i].results[0])).sum::<u64>();
            self.exposed = self.exposed.saturating_add(waited.saturating_mul(times));
        }
        for &i in insts {
            let d = &kernel.insts[i];
            let rounds = match d.op {
                Op::For => trips(kernel, &d.args),
                Op::While => TRIPS,
                _ => 1,
            };
            for &r in &d.regions {
                self.region(kernel, r, times.saturating_mul(rounds));
            }
            let moved = match d.op.info().effects.global() {
                Effects::Reads => d.results.first().or(kernel.operand(i, "buffer").first()).map_or(0, |&v| bytes(kernel, v)),
                Effects::Writes | Effects::Updates => {
                    kernel.operand(i, "value").first().or(kernel.operand(i, "buffer").first()).map_or(0, |&v| bytes(kernel, v))
                }
                _ => continue,
            };
            if d.op.info().effects.global() == Effects::Reads {
                self.read = self.read.saturating_add(moved.saturating_mul(times));
            } else {
                self.written = self.written.saturating_add(moved.saturating_mul(times));
            }
        }
    }
}

/// Rounds of a `for`.
fn trips(kernel: &Kernel, args: &[Value]) -> u64 {
    let int = |v: Value| {
        if let Some((Literal::Int(n), _)) = kernel.as_const(v) {
            return Some(n);
        }
        let d = &kernel.insts[kernel.def_inst(v)?];
        match (d.op, d.attrs.first(), d.args.first().and_then(|&a| kernel.ty(a).as_view())) {
            (Op::Dim, Some(tilelift_ir::Attr::Dim(k)), Some(view)) => match view.dims.get(*k as usize)? {
                Extent::Fixed(n) => Some(i64::from(*n)),
                Extent::Dynamic(_) => None,
            },
            _ => None,
        }
    };
    match (int(args[0]), int(args[1]), int(args[2])) {
        (Some(lo), Some(hi), Some(step)) => iterations(lo, hi, step).map_or(TRIPS, |n| n.max(1)),
        _ => TRIPS,
    }
}
