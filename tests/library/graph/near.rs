//! Comparisons of graphs whose roundings may differ.

use super::*;
use tilelift::ir::{Kernel, KernelBuilder, Value};

/// Half a unit in the last place, relative.
pub fn unit(elem: Scalar) -> f64 {
    match elem {
        Scalar::BF16 => 2f64.powi(-8),
        Scalar::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-24),
    }
}

/// Numbers of a buffer.
pub fn numbers(memory: &Memory, i: usize, elem: Scalar) -> Vec<f64> {
    let bytes = elem.bytes() as usize;
    let word = |b: &[u8]| b.iter().rev().fold(0u64, |n, &x| n << 8 | u64::from(x));
    memory.buffers[i].bytes().chunks_exact(bytes).map(|b| num::from_bits(word(b), elem)).collect()
}

/// Compares what the caller sees of two graphs on the interpreter and on the simulator; nothing may be further apart than the bound.
pub fn near(graph: &Graph, fused: &Fused, launch: &Bound, bound: f64) {
    let runs = [
        ("interpreter", interpreted(graph, launch), interpreted(&fused.graph, launch)),
        ("simulator", simulated(graph, launch, "sm_80", 0).0, simulated(&fused.graph, launch, "sm_80", 1).0),
    ];
    for (device, want, got) in runs {
        for i in seen(graph) {
            let t = &graph.tensors()[i];
            for (n, (w, g)) in numbers(&want, i, t.elem).into_iter().zip(numbers(&got, i, t.elem)).enumerate() {
                let same = (w.is_nan() && g.is_nan()) || w == g || (w - g).abs() <= bound;
                assert!(same, "{device}: element {n} of `{}` is {g}, not {w} within {bound}\n{}", t.name, fused.report);
            }
        }
    }
}

pub fn always(allow: FuseOptions) -> FuseOptions {
    FuseOptions { always: true, ..allow }
}

pub fn text(fused: &Fused) -> String {
    printed(&fused.graph.nodes().last().expect("a node").kernel)
}

pub fn printed(kernel: &Kernel) -> String {
    tilelift::ir::text::print(kernel)
}

/// The index of a first element.
pub fn origin(b: &mut KernelBuilder) -> Value {
    b.constant(0, Scalar::I32)
}
