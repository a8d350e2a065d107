//! Graphs of kernels and their fusion: what is fused computes the same, what is not says why.
//!
//! Each test builds a graph, fuses it, and runs both on the interpreter and on the simulator; what the caller looks at must be equal bit
//! for bit. Tensors start as poison where nobody filled them, so that an element that is read but was not written is an error.

mod attention;
mod growth;
mod kept;
mod kernels;
mod near;
mod operators;
mod pipeline;
mod random;
mod refusals;
mod rows;
mod wider;

use kernels::*;
pub use operators::graph_of;
use tilelift::graph::{Bound, Decision, FuseOptions, Fused, Graph, Launch, Outcome, RefusalKind, Role, TensorId};
use tilelift::interp::{Buffer, Memory};
use tilelift::ir::{Scalar, num};
use tilelift::runtime::sim::{Report, SimDevice};
use tilelift::{Options, compile, targets};

/// Memory for a graph: tensors that the caller fills hold numbers of a small range, others poison.
fn filled(graph: &Graph, bound: &Bound) -> Memory {
    let mut memory = graph.memory(bound).expect("the values fit");
    for (i, t) in graph.tensors().iter().enumerate().filter(|(_, t)| t.role.is_filled()) {
        let bytes = t.elem.bytes() as usize;
        let count = memory.buffers[i].len() / bytes;
        let value = |k: usize| {
            // A mixer of 32 bits: neighbours and tensors differ.
            let mut h = (k as u32).wrapping_mul(0x9e37_79b9) ^ (i as u32 + 1).wrapping_mul(0x85eb_ca6b);
            h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
            h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
            f64::from((h ^ (h >> 15)) % 2001) / 1000.0 - 1.0
        };
        let all: Vec<u8> =
            (0..count).flat_map(|k| num::to_bits(num::round(value(k), t.elem), t.elem).to_le_bytes()[..bytes].to_vec()).collect();
        memory.buffers[i] = Buffer::from_bytes(all);
    }
    memory
}

fn interpreted(graph: &Graph, bound: &Bound) -> Memory {
    let mut memory = filled(graph, bound);
    graph.interpret(bound, &mut memory).expect("the graph runs on the interpreter");
    memory
}

fn simulated(graph: &Graph, bound: &Bound, target: &str, seed: u64) -> (Memory, Vec<Report>) {
    let target = targets::by_name(target).expect("a known target");
    let mut memory = filled(graph, bound);
    let mut reports = Vec::new();
    graph
        .run(bound, &mut memory, |launch: &Launch<'_>, memory| -> Result<(), String> {
            let artifact = compile(launch.kernel, &target, &Options::default()).map_err(|e| e.to_string())?;
            let device = SimDevice::new(SimDevice::schedule(seed));
            let loaded = device.load(&artifact).map_err(|e| e.to_string())?;
            reports.push(device.execute(&loaded, launch.grid, &launch.args, memory).map_err(|e| e.to_string())?);
            Ok(())
        })
        .expect("the graph runs on the simulator");
    (memory, reports)
}

fn seen(graph: &Graph) -> Vec<usize> {
    let all = graph.tensors().iter().enumerate().filter(|(_, t)| t.role.is_seen()).map(|(i, _)| i);
    all.collect()
}

/// Fuses a graph and compares both on the interpreter and on the simulator.
fn fuse_as(graph: &Graph, bound: &Bound, target: &str, options: FuseOptions) -> Fused {
    let fused = graph.fuse(&targets::by_name(target).expect("a known target"), &options);
    let (want, got) = (interpreted(graph, bound), interpreted(&fused.graph, bound));
    for i in seen(graph) {
        assert!(
            want.buffers[i].bytes() == got.buffers[i].bytes(),
            "`{}` differs on the interpreter\n{}",
            graph.tensors()[i].name,
            fused.report
        );
    }
    let (want, _) = simulated(graph, bound, target, 0);
    for seed in 0..2 {
        let (got, _) = simulated(&fused.graph, bound, target, seed);
        for i in seen(graph) {
            let name = &graph.tensors()[i].name;
            assert!(want.buffers[i].bytes() == got.buffers[i].bytes(), "`{name}` differs on the simulator\n{}", fused.report);
        }
    }
    fused
}

fn fuse(graph: &Graph) -> Fused {
    fuse_as(graph, &Bound::default(), "sm_80", FuseOptions::exact())
}

fn names(fused: &Fused) -> Vec<&str> {
    fused.graph.nodes().iter().map(|n| n.name.as_str()).collect()
}

/// The reasons that keep a pair apart.
fn refusals(decision: &Decision) -> Vec<RefusalKind> {
    match &decision.outcome {
        Outcome::Refused(all) => all.iter().map(|(_, r)| r.kind).collect(),
        Outcome::Fused { .. } => Vec::new(),
    }
}

fn tensor(g: &mut Graph, name: &str, dims: &[u32], role: Role) -> TensorId {
    let dims: Vec<_> = dims.iter().map(|&d| d.into()).collect();
    g.tensor(name, Scalar::F16, &dims, role)
}
