//! Three plain kernels, scores, softmax of rows and a product, become one: the general rules for producers that fold rows or multiply.
//!
//! In the exact mode bits are equal. Else a bound follows from the roundings on both ways: `u` of each type that is stored, and one of
//! `f32` for each term of a sum.

use super::near::*;
use super::*;
use tilelift::graph::{FuseRule, How};
use tilelift::ir::{Access, CmpOp, Kernel, KernelBuilder, Op, ReduceOp, Value, ViewType};

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Seen {
    All,
    Causal,
    Window(i32),
}

/// An attention as three kernels.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub heads: u32,
    /// Query heads for each head of keys.
    pub group: u32,
    pub rows: u32,
    pub keys: u32,
    pub depth: u32,
    pub elem: Scalar,
    pub scores: Scalar,
    pub weights: Scalar,
    pub seen: Seen,
    /// The depth is taken in pieces of this width, if any.
    pub step: Option<u32>,
    /// Softmax in loops over columns of this width, instead of whole rows.
    pub pieces: Option<u32>,
    /// Tiles of the scores, rows a program of the softmax, rows a program of the product with the values and keys an iteration.
    pub tile: [u32; 2],
    pub lines: u32,
    pub out: [u32; 2],
}

pub const PLAIN: Shape = Shape {
    heads: 2,
    group: 1,
    rows: 32,
    keys: 64,
    depth: 32,
    elem: Scalar::F16,
    scores: Scalar::F32,
    weights: Scalar::F16,
    seen: Seen::All,
    step: None,
    pieces: None,
    tile: [32, 32],
    lines: 4,
    out: [32, 32],
};

fn cube(elem: Scalar) -> ViewType {
    ViewType::dense(elem, &[ANY; 3])
}

const SCALE: f32 = 0.125;

/// `s[h, i, j] = q[h, i, :] . k[h / group, j, :] / 8`, in tiles.
fn scores(s: &Shape) -> Kernel {
    let mut b = KernelBuilder::new("scores");
    b.warps(4);
    let [q, k] = [(); 2].map(|()| b.param(cube(s.elem)));
    let out = b.param(cube(s.scores));
    let tile @ [high, wide] = s.tile;
    let [j, i, h] = [0, 1, 2].map(|axis| b.program_id(axis));
    let (col, row) = (b.mul(j, wide), b.mul(i, high));
    let of = b.div(h, s.group);
    let flat = |b: &mut KernelBuilder, v, rows, cols| b.reshape(v, &[rows, cols]);
    let zero = b.full(&tile, 0, Scalar::F32);
    let t = match s.step {
        None => {
            let start = origin(&mut b);
            let p = b.load(q, &[h, row, start], &[1, high, s.depth]);
            let r = b.load(k, &[of, col, start], &[1, wide, s.depth]);
            let (p, r) = (flat(&mut b, p, high, s.depth), flat(&mut b, r, wide, s.depth));
            let r = b.transpose(r, &[1, 0]);
            b.dot(p, r, zero)
        }
        Some(step) => {
            let depth = b.dim(q, 2);
            b.for_loop(0, depth, step, &[zero], |b, d, acc| {
                let p = b.load(q, &[h, row, d], &[1, high, step]);
                let r = b.load(k, &[of, col, d], &[1, wide, step]);
                let (p, r) = (flat(b, p, high, step), flat(b, r, wide, step));
                let r = b.transpose(r, &[1, 0]);
                vec![b.dot(p, r, acc[0])]
            })[0]
        }
    };
    let mut t = b.mul(t, SCALE);
    if s.seen != Seen::All {
        let along = |b: &mut KernelBuilder, start: Value, axis: u32| {
            let steps = b.iota(&tile, axis);
            b.add(steps, start)
        };
        let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
        let mut sees = b.cmp(CmpOp::Le, c, r);
        if let Seen::Window(w) = s.seen {
            let far = b.add(c, w);
            let near = b.cmp(CmpOp::Gt, far, r);
            sees = b.and(sees, near);
        }
        let none = b.full(&tile, f64::NEG_INFINITY, Scalar::F32);
        t = b.select(sees, t, none);
    }
    let t = b.cast(t, s.scores);
    let t = b.reshape(t, &[1, high, wide]);
    b.store(out, &[h, row, col], t);
    b.finish().expect("well built")
}

/// Softmax of rows of a cube, `lines` rows a program, whole rows of up to `cols` columns or pieces.
fn rows_softmax(s: &Shape, cols: u32) -> Kernel {
    let mut b = KernelBuilder::new("softmax");
    b.warps(4);
    let (x, y) = (b.param(cube(s.scores)), b.param(cube(s.weights)));
    let (i, h) = (b.program_id(0), b.program_id(1));
    let lines = s.lines;
    let (row, zero) = (b.mul(i, lines), origin(&mut b));
    let other = || Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    if let Some(width) = s.pieces {
        let n = b.dim(x, 2);
        let piece = |b: &mut KernelBuilder, j: Value| {
            let t = b.load_with(x, &[h, row, j], &[1, lines, width], other());
            let t = b.reshape(t, &[lines, width]);
            b.cast(t, Scalar::F32)
        };
        let low = b.full(&[lines, 1], f64::NEG_INFINITY, Scalar::F32);
        let most = b.for_loop(0, n, width, &[low], |b, j, m| {
            let t = piece(b, j);
            let t = b.reduce_keep(ReduceOp::Maximum, t, 1);
            vec![b.maximum(m[0], t)]
        })[0];
        let none = b.full(&[lines, 1], 0, Scalar::F32);
        let sum = b.for_loop(0, n, width, &[none], |b, j, l| {
            let t = piece(b, j);
            let t = b.sub(t, most);
            let t = b.exp(t);
            let t = b.reduce_keep(ReduceOp::Add, t, 1);
            vec![b.add(l[0], t)]
        })[0];
        b.for_loop(0, n, width, &[], |b, j, _| {
            let t = piece(b, j);
            let t = b.sub(t, most);
            let t = b.exp(t);
            let t = b.div(t, sum);
            let t = b.cast(t, s.weights);
            let t = b.reshape(t, &[1, lines, width]);
            b.store(y, &[h, row, j], t);
            vec![]
        });
        return b.finish().expect("well built");
    }
    let t = b.load_with(x, &[h, row, zero], &[1, lines, cols], other());
    let t = b.reshape(t, &[lines, cols]);
    let t = b.cast(t, Scalar::F32);
    let max = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let t = b.sub(t, max);
    let e = b.exp(t);
    let sum = b.reduce_keep(ReduceOp::Add, e, 1);
    let p = b.div(e, sum);
    let p = b.cast(p, s.weights);
    let p = b.reshape(p, &[1, lines, cols]);
    b.store(y, &[h, row, zero], p);
    b.finish().expect("well built")
}

/// `o[h, i, :] = sum over j of p[h, i, j] * v[h / group, j, :]`.
fn values(s: &Shape) -> Kernel {
    let mut b = KernelBuilder::new("values");
    b.warps(s.out[0].div_ceil(16).clamp(4, 8));
    let p = b.param(cube(s.weights));
    let [v, o] = [(); 2].map(|()| b.param(cube(s.elem)));
    let (i, h) = (b.program_id(0), b.program_id(1));
    let [high, step] = s.out;
    let (row, zero) = (b.mul(i, high), origin(&mut b));
    let of = b.div(h, s.group);
    let n = b.dim(p, 2);
    let none = b.full(&[high, s.depth], 0, Scalar::F32);
    let acc = b.for_loop(0, n, step, &[none], |b, j, acc| {
        let a = b.load(p, &[h, row, j], &[1, high, step]);
        let c = b.load(v, &[of, j, zero], &[1, step, s.depth]);
        let (a, c) = (b.reshape(a, &[high, step]), b.reshape(c, &[step, s.depth]));
        vec![b.dot(a, c, acc[0])]
    });
    let t = b.cast(acc[0], s.elem);
    let t = b.reshape(t, &[1, high, s.depth]);
    b.store(o, &[h, row, zero], t);
    b.finish().expect("well built")
}

pub fn attention(s: &Shape, weights: Role) -> Graph {
    let mut g = Graph::new();
    let of = s.heads / s.group;
    let mut make = |name: &str, elem, dims: [u32; 3], role| g.tensor(name, elem, &dims.map(Into::into), role);
    let q = make("q", s.elem, [s.heads, s.rows, s.depth], Role::Input);
    let [k, v] = ["k", "v"].map(|name| make(name, s.elem, [of, s.keys, s.depth], Role::Input));
    let t = make("s", s.scores, [s.heads, s.rows, s.keys], Role::Intermediate);
    let p = make("p", s.weights, [s.heads, s.rows, s.keys], weights);
    let o = make("o", s.elem, [s.heads, s.rows, s.depth], Role::Output);
    let grid = [s.keys.div_ceil(s.tile[1]), s.rows.div_ceil(s.tile[0]), s.heads];
    g.add("scores", scores(s), grid, &[q.into(), k.into(), t.into()]).expect("scores");
    let cols = s.keys.next_power_of_two();
    g.add("softmax", rows_softmax(s, cols), [s.rows.div_ceil(s.lines), s.heads, 1], &[t.into(), p.into()]).expect("softmax");
    g.add("values", values(s), [s.rows.div_ceil(s.out[0]), s.heads, 1], &[p.into(), v.into(), o.into()]).expect("values");
    g
}

/// How far outputs of an attention may be apart: elements are at most 1, so scores are at most `depth / 8` and weights add up to 1.
fn bound(s: &Shape) -> f64 {
    let scores = f64::from(s.depth) * f64::from(SCALE);
    let word = unit(Scalar::F32);
    // Each way: scores as stored and as summed change an exponent; exp, sums and quotients are off by 2^-21 and a unit per term.
    let exponent = scores * (unit(s.scores) + f64::from(s.depth) * word);
    let weight = 2.0 * exponent + 4.0 * 2f64.powi(-21) + f64::from(s.keys) * word;
    2.0 * (weight + unit(s.weights) + f64::from(s.keys) * word + unit(s.elem)) + 2f64.powi(-24)
}

#[test]
fn attention_of_three_kernels_becomes_one() {
    let all = [
        PLAIN,
        Shape { seen: Seen::Causal, ..PLAIN },
        Shape { seen: Seen::Window(20), keys: 96, rows: 96, ..PLAIN },
        Shape { heads: 4, group: 2, ..PLAIN },
        Shape { rows: 37, keys: 75, ..PLAIN },
        Shape { rows: 70, keys: 70, seen: Seen::Causal, ..PLAIN },
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
    let s = Shape { tile: [64, 64], out: [64, 64], seen: Seen::Causal, ..s };
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
        let s = Shape { heads: 16, rows: 4096, keys: 4096, depth: 128, elem: Scalar::BF16, weights: Scalar::BF16, seen, ..PLAIN };
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
            seen: r.of(&[Seen::All, Seen::Causal, Seen::Window(9)]),
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
