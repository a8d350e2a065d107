//! Graphs of plain kernels as a tracer emits them ([`tilelift_kernels::plain`]): how many kernels are left of each at an engine's sizes, and
//! that results keep within their bounds at small ones.

use super::near::always;
use super::*;
use tilelift::graph::NodeArg;
use tilelift::interp::ScalarArg;
use tilelift_kernels::plain::{self, Operators, Passed};
use tilelift_kernels::tensor;

/// The graph of operators.
pub fn graph_of(operators: &Operators) -> Graph {
    let mut g = Graph::new();
    let mut ids = Vec::new();
    for t in &operators.tensors {
        let role = match t.role {
            tensor::Role::In => Role::Input,
            tensor::Role::Out => Role::Output,
            tensor::Role::InOut => Role::InOut,
            tensor::Role::Scratch => Role::Intermediate,
        };
        ids.push(g.tensor(t.name, t.elem, &t.shape.iter().map(|&e| e.into()).collect::<Vec<_>>(), role));
    }
    for s in &operators.steps {
        let arg = |a: &Passed| -> NodeArg {
            match *a {
                Passed::Tensor(id) => ids[id.0].into(),
                Passed::Number(x) => ScalarArg::float(Scalar::F32, f64::from(x)).into(),
                Passed::Count(n) => ScalarArg::int(Scalar::I32, i64::from(n)).into(),
            }
        };
        g.add(s.name, s.kernel.clone(), s.grid, &s.args.iter().map(arg).collect::<Vec<_>>()).expect("an operator");
    }
    g
}

/// Kernels of each graph, and those that are left of them on a machine with specialised loops.
const LEFT: &[(&str, [usize; 2])] = &[
    ("qkv", [8, 4]),
    ("swiglu", [5, 3]),
    ("gelu_mlp", [6, 3]),
    ("norm_quantise", [3, 1]),
    ("routing", [3, 1]),
    ("group_norm_conv", [4, 4]),
    ("cross_entropy", [6, 1]),
    ("state_update", [7, 1]),
    ("sampling", [8, 1]),
    ("attention_softcap", [3, 1]),
    ("attention_sink", [3, 1]),
    ("attention_alibi", [3, 1]),
    ("attention_upcast", [3, 1]),
    ("attention_bias", [3, 1]),
    ("attention_temperature", [3, 1]),
    ("attention_composed", [3, 1]),
    ("attention_linear", [3, 1]),
    ("w8a8", [5, 2]),
    ("fake_quantised", [5, 2]),
    ("w4a16", [2, 2]),
    ("layer_norm_2d", [6, 1]),
    ("latents", [3, 1]),
    ("add_norm_in_place", [1, 1]),
    ("padded_softmax", [1, 1]),
    ("rotary_back", [5, 1]),
    ("complex_state", [3, 1]),
    ("short_conv", [4, 1]),
    ("returns", [3, 1]),
    ("received", [1, 1]),
    ("patches", [2, 1]),
    ("resize", [3, 1]),
    ("preference", [10, 1]),
];

#[test]
fn graphs_of_an_engine_become_few_kernels() {
    let target = targets::by_name("sm_90a").expect("a known target");
    assert_eq!(plain::ALL.iter().map(|e| e.name).collect::<Vec<_>>(), LEFT.iter().map(|l| l.0).collect::<Vec<_>>());
    for (entry, (_, want)) in plain::ALL.iter().zip(LEFT) {
        let extents: Vec<u32> = entry.extents.iter().map(|e| e.usual).collect();
        let g = graph_of(&(entry.draw)(&extents, &target).expect("it is drawn"));
        let fused = g.fuse(&target, &FuseOptions::default());
        assert_eq!([g.nodes().len(), fused.graph.nodes().len()], *want, "{}: {}", entry.name, fused.report);
        // Main loops of products stay specialised.
        for node in fused.graph.nodes() {
            let lowered = tilelift::lower(&node.kernel, &target, &Options::default()).expect("it lowers");
            let dots = near::printed(&node.kernel).contains(" dot ");
            assert_eq!(lowered.plan.specialised().is_some(), dots, "{}: `{}`", entry.name, node.name);
        }
    }
}

/// True if elements of a tensor are near enough, by the bound that comes with it.
fn is_near(t: &plain::TensorOf, want: &Memory, got: &Memory, i: usize) -> bool {
    if want.buffers[i].bytes() == got.buffers[i].bytes() {
        return true;
    }
    let [absolute, relative] = t.apart;
    let pairs = near::numbers(want, i, t.elem).into_iter().zip(near::numbers(got, i, t.elem));
    t.elem.is_float()
        && pairs
            .into_iter()
            .all(|(w, g)| w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= absolute + relative * w.abs().max(g.abs()))
}

#[test]
fn graphs_of_operators_keep_their_meaning() {
    let target = targets::usual();
    for entry in plain::ALL {
        let extents: Vec<u32> = entry.extents.iter().map(|e| e.small).collect();
        let operators = (entry.draw)(&extents, &target).expect("it is drawn");
        let g = graph_of(&operators);
        let start = |g: &Graph| {
            let mut memory = g.memory(&Bound::default()).expect("it fits");
            for (buffer, t) in memory.buffers.iter_mut().zip(&operators.tensors) {
                if matches!(t.role, tensor::Role::In | tensor::Role::InOut) {
                    *buffer = Buffer::from_bytes(t.filled());
                }
            }
            memory
        };
        let run = |g: &Graph| {
            let mut memory = start(g);
            g.interpret(&Bound::default(), &mut memory).expect("it runs");
            memory
        };
        let want = run(&g);
        for options in [FuseOptions::default(), always(FuseOptions::default()), always(FuseOptions::exact())] {
            let fused = g.fuse(&target, &options);
            let got = run(&fused.graph);
            for (i, t) in operators.tensors.iter().enumerate().filter(|(_, t)| t.role.is_output()) {
                assert!(is_near(t, &want, &got, i), "{}: `{}`\n{}", entry.name, t.name, fused.report);
            }
        }
    }
}
