//! A graph with what it means: kernels of a plan, and what the caller fills tensors with.

use super::draw;
use super::expr::Family;
use super::kernels::{Dim, Habits, Maker};
use super::steps::Plan;
use crate::source::Source;
use std::fmt::Write;
use tilelift::graph::{Bound, Graph, Role, Size};
use tilelift_ir::num;
use tilelift_kernels::rng;

/// A graph with values for all that is known at launch, and what it means.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphCase {
    /// The graph.
    pub graph: Graph,
    /// Values of its symbols.
    pub bound: Bound,
    pub(super) plan: Plan,
    /// What the caller fills tensors with.
    pub(super) filled: Vec<Vec<f64>>,
}

/// A random graph of two to six kernels.
///
/// # Errors
/// The generator's fault: a kernel that does not build, or that does not fit its graph.
pub fn generate_graph(src: &mut Source) -> Result<GraphCase, String> {
    let plan = draw::draw(src);
    let mut graph = Graph::new();
    let mut bound = Bound::default();
    let dims: Vec<Dim> = plan
        .extents
        .iter()
        .enumerate()
        .map(|(i, &n)| {
            let n = n as u32;
            let power = 1 << n.trailing_zeros().min(4);
            if !src.chance(50) {
                return Dim { n, size: Size::from(n), divisor: power };
            }
            let divisor = if src.chance(128) { power } else { 1 };
            bound.sizes.push(n);
            Dim { n, size: graph.size(&format!("n{i}"), divisor), divisor }
        })
        .collect();
    let written = |t: usize| plan.steps.iter().any(|s| s.writes().contains(&t));
    let ids: Vec<_> = (0..plan.tensors.len())
        .map(|t| {
            let tensor = &plan.tensors[t];
            let role = match (tensor.filled, written(t), tensor.seen) {
                (true, true, _) => Role::InOut,
                (true, false, _) => Role::Input,
                (false, _, true) => Role::Output,
                (false, _, false) => Role::Intermediate,
            };
            let extents: Vec<Size> = tensor.dims.iter().map(|&d| dims[d].size.clone()).collect();
            graph.tensor(&format!("t{t}"), tensor.elem, &extents, role)
        })
        .collect();
    let seed = src.seed();
    let usual = Habits::any(src);
    for (i, step) in plan.steps.iter().enumerate() {
        let made = Maker::new(src, &plan, &dims, &ids, usual).make(step).map_err(|e| format!("step {i}: {e}"))?;
        graph.add(&format!("{}{i}", step.word()), made.kernel, made.grid, &made.args).map_err(|e| format!("step {i}: {e}"))?;
    }
    let filled = (0..plan.tensors.len()).map(|t| contents(&plan, t, seed)).collect();
    Ok(GraphCase { graph, bound, plan, filled })
}

/// What the caller fills a tensor with; nothing, if it does not.
fn contents(plan: &Plan, t: usize, seed: u64) -> Vec<f64> {
    let tensor = &plan.tensors[t];
    if !tensor.filled {
        return Vec::new();
    }
    let of = |i: usize| {
        let bits = rng::bits(seed ^ (t as u64) << 32, i as u64);
        match plan.family {
            Family::Whole => (bits % 5) as f64 - 2.0,
            Family::Real => num::round((bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0, tensor.elem),
        }
    };
    (0..plan.count(t)).map(of).collect()
}

impl GraphCase {
    /// The graph as a text for people: tensors, kernels, grids and arguments.
    pub fn to_text(&self) -> String {
        let mut out = format!("; {:?}, extents {:?}, sizes {:?}\n", self.plan.family, self.plan.extents, self.bound.sizes);
        for (t, tensor) in self.graph.tensors().iter().enumerate() {
            let shape = self.plan.shape(t);
            let _ = writeln!(out, "; {}: {} {shape:?} {:?}", tensor.name, tensor.elem, tensor.role);
        }
        out.push_str(&nodes(&self.graph));
        out
    }
}

/// The nodes of a graph as a text.
pub(super) fn nodes(graph: &Graph) -> String {
    let mut out = String::new();
    for node in graph.nodes() {
        let name = |a: &tilelift::graph::NodeArg| match a.tensor() {
            Some((t, flat)) => format!("{}{}", graph.tensors()[t.index()].name, if flat { " as a vector" } else { "" }),
            None => format!("{a:?}"),
        };
        let args: Vec<String> = node.args.iter().map(name).collect();
        let _ = writeln!(out, "; {} over {} of {}\n{}", node.name, node.grid, args.join(", "), tilelift_ir::text::print(&node.kernel));
    }
    out
}
