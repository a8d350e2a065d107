//! What a node costs: the logical cost of its optimised kernel, times its programs, plus what it writes, plus the launch.
//!
//! The unit is that of [`tilelift_egraph::cost`]: a sixteenth of a lane's operation, in which a byte that is read costs
//! `price(Read) / 4`. A byte that is written costs the same. Symbols count as [`super::FuseOptions::typical`].

use crate::graph::{Count, Graph, Node};
use tilelift_egraph::cost::Family;
use tilelift_ir::{Effects, Extent, Kernel, Literal, Op, Region, Type, verify};

/// A launch, in lane operations: about two microseconds of a large machine.
const LAUNCH: u64 = 1 << 30;
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
pub(crate) fn estimate(graph: &Graph, node: &Node, typical: u32) -> Estimate {
    let sized = with_sizes(graph, node, typical);
    let Ok(verified) = verify(&sized) else { return Estimate { cost: u64::MAX, bytes: u64::MAX } };
    let (_, report) = tilelift_egraph::optimise(&verified, &tilelift_egraph::Options::default());
    let values = vec![typical; graph.symbols.len()];
    let count = |c: &Count| u64::from(c.value(&values).unwrap_or(u32::MAX));
    let programs = node.grid.0.iter().fold(1u64, |n, c| n.saturating_mul(count(c)));
    let mut traffic = Traffic::default();
    traffic.region(&sized, sized.body, 1);
    let written = traffic.written.saturating_mul(Family::Read.price() / 4);
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
}

impl Traffic {
    fn region(&mut self, kernel: &Kernel, region: Region, times: u64) {
        for &i in &kernel.regions[region].insts {
            let d = &kernel.insts[i];
            let rounds = match d.op {
                Op::For => trips(kernel, &d.args),
                Op::While => TRIPS,
                _ => 1,
            };
            for &r in &d.regions {
                self.region(kernel, r, times.saturating_mul(rounds));
            }
            let bytes = |ty: &Type| ty.shape().map_or(0, |s| ty.elem().storage(s.iter().product::<u32>() as usize) as u64);
            let moved = match d.op.info().effects {
                Effects::Reads => bytes(kernel.ty(d.results[0])),
                Effects::Writes | Effects::Updates => kernel.operand(i, "value").first().map_or(0, |&v| bytes(kernel.ty(v))),
                Effects::Pure | Effects::Observes | Effects::Control => continue,
            };
            if d.op.info().effects == Effects::Reads {
                self.read = self.read.saturating_add(moved.saturating_mul(times));
            } else {
                self.written = self.written.saturating_add(moved.saturating_mul(times));
            }
        }
    }
}

/// Rounds of a `for`.
fn trips(kernel: &Kernel, args: &[tilelift_ir::Value]) -> u64 {
    let int = |v: tilelift_ir::Value| {
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
        (Some(lo), Some(hi), Some(step)) if step > 0 => (hi.saturating_sub(lo).max(0) as u64).div_ceil(step as u64).max(1),
        _ => TRIPS,
    }
}
