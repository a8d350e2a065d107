//! Three plain kernels, scores, softmax of rows and a product, become one: the general rules for producers that fold rows or multiply.
//!
//! In the exact mode bits are equal. Else a bound follows from the roundings on both ways: `u` of each type that is stored, and one of
//! `f32` for each term of a sum.

use super::near::*;
use super::operators::graph_of;
use super::*;
use tilelift::graph::{FuseRule, How};
use tilelift::ir::{KernelBuilder, Op, ReduceOp, ViewType};
use tilelift_kernels::plain::attention::{PlainAttention as Shape, Sees as Seen, Variant};

pub const PLAIN: Shape = Shape {
    heads: 2,
    group: 1,
    rows: 32,
    keys: 64,
    depth: 32,
    elem: Scalar::F16,
    scores: Scalar::F32,
    weights: Scalar::F16,
    scale: 0.125,
    sees: Seen::All,
    variant: Variant::Plain,
    step: None,
    pieces: None,
    tile: [32, 32],
    lines: 4,
    out: [32, 32],
};

fn cube(elem: Scalar) -> ViewType {
    ViewType::dense(elem, &[ANY; 3])
}

pub fn attention(s: &Shape, weights: Role) -> Graph {
    graph_of(&s.draw(weights == Role::Output).expect("an attention"))
}

fn bound(s: &Shape) -> f64 {
    s.bound()
}

#[test]
fn attention_of_three_kernels_becomes_one() {
    let all = [
        PLAIN,
        Shape { sees: Seen::Causal, ..PLAIN },
        Shape { sees: Seen::Window(20), keys: 96, rows: 96, ..PLAIN },
        Shape { heads: 4, group: 2, ..PLAIN },
        Shape { rows: 37, keys: 75, ..PLAIN },
        Shape { rows: 70, keys: 70, sees: Seen::Causal, ..PLAIN },
        Shape { elem: Scalar::BF16, weights: Scalar::BF16, keys: 128, ..PLAIN },
        Shape { scores: Scalar::F16, keys: 96, ..PLAIN },
        Shape { step: Some(16), keys: 100, ..PLAIN },
        Shape { pieces: Some(16), keys: 80, ..PLAIN },
    ];
    for s in all {
        let g = attention(&s, Role::Intermediate);
        let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
        assert_eq!(names(&fused), ["scores + softmax + values"], "{s:?}\n{}", fused.report);
        let Outcome::Fused { how: How::Inlined, rules, .. } = &fused.report.decisions[0].outcome else { panic!("{}", fused.report) };
        assert!(
            rules.iter().any(|r| matches!(r, FuseRule::TileOfStore { tensor, shape } if tensor == "s" && shape[..] == [1, 32, 32])),
            "{rules:?}"
        );
        near(&g, &fused, &Bound::default(), bound(&s));
        let text = text(&fused);
        // The optimizer joins the three loops: scores are made once an iteration, beside the depth's own loop if there is one.
        assert_eq!(text.matches("dot ").count(), 2, "{text}");
        assert_eq!(text.matches(" = for ").count(), 1 + usize::from(s.step.is_some()), "{text}");
        let restep = rules.iter().filter(|r| matches!(r, FuseRule::Restep { from: 16, to: 32, .. })).count();
        assert_eq!(restep, if s.pieces.is_some() { 2 } else { 0 }, "{rules:?}");
        // The exact mode keeps every bit that a product's sums do not leave open; those of the interpreter do not.
        let exact = g.fuse(&targets::usual(), &always(FuseOptions::exact()));
        assert_eq!(exact.graph.nodes().len(), 1, "{s:?}\n{}", exact.report);
        assert!(!exact.report.to_string().contains("strip add"), "{}", exact.report);
        let (want, got) = (interpreted(&g, &Bound::default()), interpreted(&exact.graph, &Bound::default()));
        let o = g.tensors().len() - 1;
        assert!(want.buffers[o].bytes() == got.buffers[o].bytes(), "{s:?}\n{}", exact.report);
    }
}

#[test]
fn attention_that_was_fused_is_specialised_where_loops_are() {
    let s = Shape { heads: 1, rows: 128, keys: 200, depth: 64, elem: Scalar::BF16, weights: Scalar::BF16, ..PLAIN };
    let s = Shape { tile: [64, 64], out: [64, 64], sees: Seen::Causal, ..s };
    let g = attention(&s, Role::Intermediate);
    let target = targets::by_name("sm_90a").expect("a known target");
    let fused = g.fuse(&target, &FuseOptions::default());
    assert_eq!(names(&fused), ["scores + softmax + values"], "{}", fused.report);
    let lowered = tilelift::lower(&fused.graph.nodes()[0].kernel, &target, &Options::default()).expect("it lowers");
    assert!(lowered.plan.specialised().is_some(), "{}", lowered.plan);
    let want = interpreted(&g, &Bound::default());
    let (got, _) = simulated(&fused.graph, &Bound::default(), "sm_90a", 3);
    let o = g.tensors().len() - 1;
    for (w, g) in numbers(&want, o, s.elem).into_iter().zip(numbers(&got, o, s.elem)) {
        assert!((w - g).abs() <= bound(&s), "{g}, not {w}\n{}", fused.report);
    }
}

/// Parts of a machine work side by side: what three kernels write and read again of long rows is dearer than scores that are made in the loop; and what is
/// the same in all rounds is read in front of it.
#[test]
fn attention_over_long_rows_becomes_one_by_its_price() {
    for (seen, name) in [(Seen::All, "sm_80"), (Seen::Causal, "sm_90a"), (Seen::All, "sm_90a")] {
        let s = Shape { heads: 16, rows: 4096, keys: 4096, depth: 128, elem: Scalar::BF16, weights: Scalar::BF16, sees: seen, ..PLAIN };
        let s = Shape { tile: [128, 128], out: [128, 64], lines: 2, ..s };
        let fused = attention(&s, Role::Intermediate).fuse(&targets::by_name(name).expect("a known target"), &FuseOptions::default());
        assert_eq!(names(&fused), ["scores + softmax + values"], "{}", fused.report);
        let kernel = &fused.graph.nodes()[0].kernel;
        let mut loops = Vec::new();
        kernel.walk(kernel.body, &mut |i| loops.extend((kernel.insts[i].op == Op::For).then(|| kernel.insts[i].regions[0])));
        let [body] = loops[..] else { panic!("{} loops", loops.len()) };
        let mut loads = 0;
        kernel.walk(body, &mut |i| loads += usize::from(kernel.insts[i].op == Op::Load));
        assert_eq!(loads, 2, "keys and values are read in a round\n{}", tilelift::ir::text::print(kernel));
    }
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all[((self.0 >> 33) as usize) % all.len()]
    }
}

#[test]
fn random_attentions_keep_their_meaning() {
    let rounds = std::env::var("TILELIFT_GRAPH_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(24);
    let mut one = 0;
    for seed in 0..rounds {
        let r = &mut Random(seed * 7919 + 5);
        let elem = r.of(&[Scalar::F16, Scalar::BF16]);
        let heads = r.of(&[1, 2, 4]);
        let rows = r.of(&[1, 7, 32, 50, 64]);
        let s = Shape {
            heads,
            group: r.of(&[1, heads]),
            rows,
            keys: r.of(&[17, 32, 50, 64, 90, rows.max(8)]),
            depth: r.of(&[16, 32, 64]),
            elem,
            scores: r.of(&[Scalar::F32, Scalar::F32, elem]),
            weights: elem,
            scale: 0.125,
            sees: r.of(&[Seen::All, Seen::Causal, Seen::Window(9)]),
            variant: r.of(&[Variant::Plain, Variant::Plain, Variant::SoftCap, Variant::Sink, Variant::Alibi]),
            step: r.of(&[None, Some(16)]),
            pieces: r.of(&[None, None, Some(16), Some(32)]),
            tile: r.of(&[[16, 16], [32, 64], [64, 32]]),
            lines: r.of(&[1, 4, 16]),
            out: r.of(&[[16, 16], [32, 32], [64, 16], [16, 64]]),
        };
        let weights = if r.of(&[true, false, false]) { Role::Output } else { Role::Intermediate };
        let g = attention(&s, weights);
        let options = FuseOptions { always: r.of(&[true, true, false]), ..r.of(&[FuseOptions::default(), FuseOptions::exact()]) };
        let fused = g.fuse(&targets::usual(), &options);
        one += usize::from(fused.graph.nodes().len() == 1);
        near(&g, &fused, &Bound::default(), bound(&s));
    }
    assert!(rounds < 24 || one >= 6, "{one} of {rounds} became one");
}

#[test]
fn weights_that_the_caller_looks_at_stay() {
    let s = Shape { keys: 70, rows: 40, ..PLAIN };
    let g = attention(&s, Role::Output);
    let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
    assert_eq!(names(&fused), ["scores + softmax", "values"], "{}", fused.report);
    assert!(fused.report.to_string().contains("`scores + softmax` would have to stay: `p` is looked at by the caller"), "{}", fused.report);
    near(&g, &fused, &Bound::default(), bound(&s));
}

#[test]
fn what_lies_behind_a_row_does_not_count() {
    // Sums of rows of the weights are 1; a sink reads more columns than there are.
    for (pieces, keys) in [(None, 50), (Some(16), 50), (Some(32), 90)] {
        let s = Shape { heads: 1, keys, rows: 40, pieces, ..PLAIN };
        let mut g = attention(&s, Role::Intermediate);
        g = {
            let mut cut = Graph::new();
            for t in g.tensors() {
                cut.tensor(&t.name, t.elem, &t.dims, if t.name == "v" || t.name == "o" { Role::Input } else { t.role });
            }
            for n in &g.nodes()[..2] {
                cut.add(&n.name, n.kernel.clone(), n.grid.clone(), &n.args).expect("as before");
            }
            cut
        };
        let p = g.ids().nth(4).expect("the weights");
        let y = g.tensor("y", Scalar::F32, &[s.rows.into()], Role::Output);
        let mut b = KernelBuilder::new("sums");
        b.warps(4);
        let (x, z) = (b.param(cube(s.weights)), b.param(vector(Scalar::F32)));
        let pid = b.program_id(0);
        let (row, zero) = (b.mul(pid, 8), origin(&mut b));
        let t = b.load(x, &[zero, row, zero], &[1, 8, 128]);
        let t = b.reshape(t, &[8, 128]);
        let t = b.cast(t, Scalar::F32);
        let t = b.reduce(ReduceOp::Add, t, 1);
        b.store(z, &[row], t);
        g.add("sums", b.finish().expect("well built"), [5, 1, 1], &[p.into(), y.into()]).expect("sums");
        for options in [FuseOptions::default(), FuseOptions::exact()] {
            let fused = g.fuse(&targets::usual(), &always(options));
            assert_eq!(names(&fused), ["scores + softmax + sums"], "{}", fused.report);
            near(&g, &fused, &Bound::default(), f64::from(keys) * unit(Scalar::F16));
        }
    }
}
