//! Three plain kernels, scores, softmax of rows and a product, become one: the general rules for producers that fold rows or multiply.
//!
//! In the exact mode bits are equal. Else a bound follows from the roundings on both ways: `u` of each type that is stored, and one of
//! `f32` for each term of a sum.

use super::*;
use tilelift::graph::{FuseRule, How};
use tilelift::ir::{Access, CmpOp, Kernel, KernelBuilder, ReduceOp, Value, ViewType};

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
    pub softmax_in_loops: bool,
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
    softmax_in_loops: false,
};

fn cube(elem: Scalar) -> ViewType {
    ViewType::dense(elem, &[ANY; 3])
}

const SCALE: f32 = 0.125;

/// `s[h, i, j] = q[h, i, :] . k[h / group, j, :] / 8`, tiles of 32 x 32.
fn scores(s: &Shape) -> Kernel {
    let mut b = KernelBuilder::new("scores");
    b.warps(4);
    let [q, k] = [(); 2].map(|()| b.param(cube(s.elem)));
    let out = b.param(cube(s.scores));
    let [j, i, h] = [0, 1, 2].map(|axis| b.program_id(axis));
    let (col, row) = (b.mul(j, 32), b.mul(i, 32));
    let of = b.div(h, s.group);
    let flat = |b: &mut KernelBuilder, v, rows, cols| b.reshape(v, &[rows, cols]);
    let zero = b.full(&[32, 32], 0, Scalar::F32);
    let t = match s.step {
        None => {
            let start = origin(&mut b);
            let p = b.load(q, &[h, row, start], &[1, 32, s.depth]);
            let r = b.load(k, &[of, col, start], &[1, 32, s.depth]);
            let (p, r) = (flat(&mut b, p, 32, s.depth), flat(&mut b, r, 32, s.depth));
            let r = b.transpose(r, &[1, 0]);
            b.dot(p, r, zero)
        }
        Some(step) => {
            let depth = b.dim(q, 2);
            b.for_loop(0, depth, step, &[zero], |b, d, acc| {
                let p = b.load(q, &[h, row, d], &[1, 32, step]);
                let r = b.load(k, &[of, col, d], &[1, 32, step]);
                let (p, r) = (flat(b, p, 32, step), flat(b, r, 32, step));
                let r = b.transpose(r, &[1, 0]);
                vec![b.dot(p, r, acc[0])]
            })[0]
        }
    };
    let mut t = b.mul(t, SCALE);
    if s.seen != Seen::All {
        let along = |b: &mut KernelBuilder, start: Value, axis: u32| {
            let steps = b.iota(&[32, 32], axis);
            b.add(steps, start)
        };
        let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
        let mut sees = b.cmp(CmpOp::Le, c, r);
        if let Seen::Window(w) = s.seen {
            let far = b.add(c, w);
            let near = b.cmp(CmpOp::Gt, far, r);
            sees = b.and(sees, near);
        }
        let none = b.full(&[32, 32], f64::NEG_INFINITY, Scalar::F32);
        t = b.select(sees, t, none);
    }
    let t = b.cast(t, s.scores);
    let t = b.reshape(t, &[1, 32, 32]);
    b.store(out, &[h, row, col], t);
    b.finish().expect("well built")
}

fn origin(b: &mut KernelBuilder) -> Value {
    b.constant(0, Scalar::I32)
}

/// Softmax of rows of a cube, four rows a program, whole rows of up to `cols` columns.
fn rows_softmax(s: &Shape, cols: u32) -> Kernel {
    let mut b = KernelBuilder::new("softmax");
    b.warps(4);
    let (x, y) = (b.param(cube(s.scores)), b.param(cube(s.weights)));
    let (i, h) = (b.program_id(0), b.program_id(1));
    let (row, zero) = (b.mul(i, 4), origin(&mut b));
    let other = || Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    if s.softmax_in_loops {
        let n = b.dim(x, 2);
        let piece = |b: &mut KernelBuilder, j: Value| {
            let t = b.load_with(x, &[h, row, j], &[1, 4, 32], other());
            let t = b.reshape(t, &[4, 32]);
            b.cast(t, Scalar::F32)
        };
        let low = b.full(&[4, 1], f64::NEG_INFINITY, Scalar::F32);
        let most = b.for_loop(0, n, 32, &[low], |b, j, m| {
            let t = piece(b, j);
            let t = b.reduce_keep(ReduceOp::Maximum, t, 1);
            vec![b.maximum(m[0], t)]
        })[0];
        let none = b.full(&[4, 1], 0, Scalar::F32);
        let sum = b.for_loop(0, n, 32, &[none], |b, j, l| {
            let t = piece(b, j);
            let t = b.sub(t, most);
            let t = b.exp(t);
            let t = b.reduce_keep(ReduceOp::Add, t, 1);
            vec![b.add(l[0], t)]
        })[0];
        b.for_loop(0, n, 32, &[], |b, j, _| {
            let t = piece(b, j);
            let t = b.sub(t, most);
            let t = b.exp(t);
            let t = b.div(t, sum);
            let t = b.cast(t, s.weights);
            let t = b.reshape(t, &[1, 4, 32]);
            b.store(y, &[h, row, j], t);
            vec![]
        });
        return b.finish().expect("well built");
    }
    let t = b.load_with(x, &[h, row, zero], &[1, 4, cols], other());
    let t = b.reshape(t, &[4, cols]);
    let t = b.cast(t, Scalar::F32);
    let max = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let t = b.sub(t, max);
    let e = b.exp(t);
    let sum = b.reduce_keep(ReduceOp::Add, e, 1);
    let p = b.div(e, sum);
    let p = b.cast(p, s.weights);
    let p = b.reshape(p, &[1, 4, cols]);
    b.store(y, &[h, row, zero], p);
    b.finish().expect("well built")
}

/// `o[h, i, :] = sum over j of p[h, i, j] * v[h / group, j, :]`, 32 rows a program, 32 keys an iteration.
fn values(s: &Shape) -> Kernel {
    let mut b = KernelBuilder::new("values");
    b.warps(4);
    let p = b.param(cube(s.weights));
    let [v, o] = [(); 2].map(|()| b.param(cube(s.elem)));
    let (i, h) = (b.program_id(0), b.program_id(1));
    let (row, zero) = (b.mul(i, 32), origin(&mut b));
    let of = b.div(h, s.group);
    let n = b.dim(p, 2);
    let none = b.full(&[32, s.depth], 0, Scalar::F32);
    let acc = b.for_loop(0, n, 32, &[none], |b, j, acc| {
        let a = b.load(p, &[h, row, j], &[1, 32, 32]);
        let c = b.load(v, &[of, j, zero], &[1, 32, s.depth]);
        let (a, c) = (b.reshape(a, &[32, 32]), b.reshape(c, &[32, s.depth]));
        vec![b.dot(a, c, acc[0])]
    });
    let t = b.cast(acc[0], s.elem);
    let t = b.reshape(t, &[1, 32, s.depth]);
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
    let grid = [s.keys.div_ceil(32), s.rows.div_ceil(32), s.heads];
    g.add("scores", scores(s), grid, &[q.into(), k.into(), t.into()]).expect("scores");
    let cols = s.keys.next_power_of_two();
    g.add("softmax", rows_softmax(s, cols), [s.rows.div_ceil(4), s.heads, 1], &[t.into(), p.into()]).expect("softmax");
    g.add("values", values(s), [s.rows.div_ceil(32), s.heads, 1], &[p.into(), v.into(), o.into()]).expect("values");
    g
}

/// Half a unit in the last place, relative.
fn unit(elem: Scalar) -> f64 {
    match elem {
        Scalar::BF16 => 2f64.powi(-8),
        Scalar::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-24),
    }
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

fn text(fused: &Fused) -> String {
    tilelift::ir::text::print(&fused.graph.nodes().last().expect("a node").kernel)
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
        Shape { softmax_in_loops: true, keys: 80, ..PLAIN },
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
        assert!(!text.contains("x64xf32>") || s.depth == 64, "whole rows are not held:\n{text}");
    }
}
