//! Fused loops take wider K tiles where products run beside what lanes compute, and mean the same.

use super::attention::{PLAIN, attention};
use super::near::*;
use super::*;
use tilelift::graph::FuseRule;
use tilelift::ir::{Access, KernelBuilder, Scalar, ViewType};
use tilelift_kernels::plain::attention::{PlainAttention as Shape, Sees as Seen, Variant};

const LONG: Shape = Shape {
    heads: 1,
    rows: 128,
    keys: 256,
    depth: 64,
    elem: Scalar::BF16,
    weights: Scalar::BF16,
    tile: [128, 128],
    out: [128, 64],
    ..PLAIN
};

/// From what extent to which the K tiles of a fused graph's only kernel became wider.
fn widened(fused: &Fused) -> Option<(u32, u32)> {
    fused.report.decisions.iter().find_map(|d| match &d.outcome {
        Outcome::Fused { rules, .. } => rules.iter().find_map(|r| match r {
            FuseRule::Widen { from, to } => Some((*from, *to)),
            _ => None,
        }),
        Outcome::Refused(_) => None,
    })
}

fn fused(s: &Shape, target: &str, options: &FuseOptions) -> Fused {
    let made = attention(s, Role::Intermediate).fuse(&targets::by_name(target).expect("a known target"), options);
    assert_eq!(names(&made), ["scores + softmax + values"], "{}", made.report);
    made
}

#[test]
fn pieces_are_wider_where_products_run_beside_lanes() {
    for sees in [Seen::All, Seen::Causal] {
        let s = Shape { heads: 16, rows: 4096, keys: 4096, depth: 128, sees, ..LONG };
        let made = fused(&s, "sm_90a", &FuseOptions::default());
        assert_eq!(widened(&made), Some((64, 128)), "{}", made.report);
        let target = targets::by_name("sm_90a").expect("a known target");
        let lowered = tilelift::lower(&made.graph.nodes()[0].kernel, &target, &Options::default()).expect("it lowers");
        assert!(lowered.plan.specialised().is_some_and(|s| s.overlap.is_some()), "{}", lowered.plan);
        // Here nothing runs beside products.
        assert_eq!(widened(&fused(&s, "sm_80", &FuseOptions::default())), None);
    }
    let exact = attention(&LONG, Role::Intermediate).fuse(&targets::by_name("sm_90a").expect("known"), &always(FuseOptions::exact()));
    assert_eq!(widened(&exact), None, "roundings stay in the exact mode");
}

#[test]
fn wider_pieces_mean_the_same() {
    let mut wider = 0;
    for s in [
        LONG,
        Shape { sees: Seen::Causal, ..LONG },
        Shape { keys: 200, rows: 100, ..LONG },
        Shape { keys: 330, rows: 130, sees: Seen::Causal, ..LONG },
        Shape { keys: 384, rows: 384, sees: Seen::Window(70), ..LONG },
        Shape { variant: Variant::SoftCap, keys: 272, ..LONG },
        Shape { variant: Variant::Alibi, sees: Seen::Causal, ..LONG },
        Shape { variant: Variant::Sink, out: [128, 32], keys: 300, ..LONG },
        Shape { heads: 2, group: 2, depth: 128, out: [64, 48], keys: 240, ..LONG },
    ] {
        let g = attention(&s, Role::Intermediate);
        let made = fused(&s, "sm_90a", &always(FuseOptions::default()));
        wider += usize::from(widened(&made).is_some());
        let want = interpreted(&g, &Bound::default());
        let (got, _) = simulated(&made.graph, &Bound::default(), "sm_90a", 3);
        let o = g.tensors().iter().position(|t| t.name == "o").expect("a result");
        for (w, n) in numbers(&want, o, s.elem).into_iter().zip(numbers(&got, o, s.elem)) {
            assert!((w - n).abs() <= s.bound(), "{s:?}: {n}, not {w}\n{}", made.report);
        }
    }
    assert!(wider >= 5, "{wider} have wider pieces");
}

/// Steps stay where fewer of them would mean something else: what goes along the K tile but loads that reach to the end, and all that a step does but to
/// add products.
#[test]
fn steps_stay_where_more_is_done_in_them() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Also {
        Nothing,
        Other,
        Sum,
        Part,
        Decay,
        Most,
        Counter,
        Twice,
    }
    let rows = 128;
    let keys = 256;
    for also in [Also::Nothing, Also::Other, Also::Sum, Also::Part, Also::Decay, Also::Most, Also::Counter, Also::Twice] {
        let mut parts = Shape { keys, ..LONG }.draw(false).expect("an attention");
        // The last kernel again, by hand.
        let mut b = KernelBuilder::new("values");
        b.warps(8);
        let view = |dims: [u32; 3]| ViewType::dense(Scalar::BF16, &dims.map(tilelift::ir::Extent::Fixed));
        let [p, v, o] = [[1, rows, keys], [1, keys, 64], [1, rows, 64]].map(|d| b.param(view(d)));
        let (i, h, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
        let row = b.mul(i, 128);
        let none = b.full(&[128, 64], 0, Scalar::F32);
        let all = b.dim(p, 2);
        let end = if also == Also::Part { b.sub(all, 64) } else { all };
        let inits = if also == Also::Counter { vec![none, zero] } else { vec![none] };
        let sum = b.for_loop(0, end, 64, &inits, |b, j, carried| {
            let access = if also == Also::Other { Access { other: Some(1.0.into()), ..Access::default() } } else { Access::default() };
            let a = b.load_with(p, &[h, row, j], &[1, 128, 64], access);
            let c = b.load(v, &[h, j, zero], &[1, 64, 64]);
            let (a, c) = (b.reshape(a, &[128, 64]), b.reshape(c, &[64, 64]));
            let a = if also == Also::Sum { b.add(a, a) } else { a };
            let sum = if also == Also::Decay { b.mul(carried[0], 0.5) } else { carried[0] };
            let next = if also == Also::Most {
                let product = b.dot(a, c, none);
                b.maximum(sum, product)
            } else {
                b.dot(a, c, sum)
            };
            match also {
                Also::Counter => vec![next, b.add(carried[1], 1)],
                Also::Twice => vec![b.add(next, 1.0)],
                _ => vec![next],
            }
        })[0];
        let sum = b.cast(sum, Scalar::BF16);
        let sum = b.reshape(sum, &[1, 128, 64]);
        b.store(o, &[h, row, zero], sum);
        parts.steps[2].kernel = b.finish().expect("well built");
        let made = graph_of(&parts).fuse(&targets::by_name("sm_90a").expect("known"), &always(FuseOptions::default()));
        assert_eq!(widened(&made).is_some(), also == Also::Nothing, "{also:?}\n{}", made.report);
    }
}
