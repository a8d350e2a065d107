//! An attention as a tracer emits it: scores, softmax of rows, product with the values, three plain kernels.
//!
//! ```text
//! s[h, i, j] = cap(q[h, i, :] · k[h / group, j, :] * scale) + slope(h) * (j - i), -inf for keys that are not seen
//! p[h, i, :] = exp(s - max s) / (sum exp(s - max s) [+ exp(sink(h) - max s)])
//! o[h, i, :] = sum over j of p[h, i, j] * v[h / group, j, :]
//! ```

use super::operators::{Fill, Id, Operators, Passed, unit};
use crate::facts::programs;
use tilelift_ir::{Access, BuildErrors, CmpOp, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sees {
    /// All.
    All,
    /// Those that are not behind it.
    Causal,
    /// So many up to itself.
    Window(i32),
}

/// What is special about scores or their softmax.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Variant {
    /// Nothing.
    Plain,
    /// Scores are `cap * tanh(score / cap)`.
    SoftCap,
    /// A number for each head counts in the sum as a key without a value.
    Sink,
    /// Scores fall with the distance of the key, by a slope for each head.
    Alibi,
    /// Queries and keys are made `f32` in front of their product, and scores are divided by the root of the depth (GPT-J, ViT in half precision).
    Upcast,
    /// Scores are products as they are, plus a number for each head, query and key (T5's position bias).
    Bias,
    /// Scores are products times a learned number for each head (CLIP, Swin v2).
    Temperature,
    /// What is seen is composed of functions: causal, a window that is causal itself, and keys that are no padding, which one library says as
    /// "not to be ignored" and the next one hides where it does not hold (Hugging Face in front of `masked_fill`).
    Composed,
    /// Weights are scores over their sum (linear attention, written out).
    Linear,
}

/// Where scores end that are capped.
const CAP: f32 = 20.0;
/// Keys up to a query that a composed mask shows, and the token that is padding.
const WINDOW: i32 = 1024;
const PADDING: i32 = 5;

/// An attention.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlainAttention {
    /// Query heads.
    pub heads: u32,
    /// Query heads for each head of keys.
    pub group: u32,
    /// Queries.
    pub rows: u32,
    /// Keys.
    pub keys: u32,
    /// Elements of a query.
    pub depth: u32,
    /// Element type of queries, keys, values and results.
    pub elem: Scalar,
    /// Element type of scores.
    pub scores: Scalar,
    /// Element type of weights.
    pub weights: Scalar,
    /// Scores are products times this.
    pub scale: f32,
    /// Which keys count.
    pub sees: Sees,
    /// What is special.
    pub variant: Variant,
    /// The depth is taken in pieces of this width, if any.
    pub step: Option<u32>,
    /// Softmax in loops over columns of this width, instead of whole rows.
    pub pieces: Option<u32>,
    /// Rows and columns of a tile of the scores.
    pub tile: [u32; 2],
    /// Rows of a program of the softmax.
    pub lines: u32,
    /// Rows of a program of the product with the values, and keys of a step.
    pub out: [u32; 2],
}

impl PlainAttention {
    /// As many keys as rows, with tiles for long rows.
    pub fn new(elem: Scalar, heads: u32, rows: u32, depth: u32) -> PlainAttention {
        PlainAttention {
            heads,
            group: 1,
            rows,
            keys: rows,
            depth,
            elem,
            scores: Scalar::F32,
            weights: elem,
            scale: 1.0 / (depth as f32).sqrt(),
            sees: Sees::All,
            variant: Variant::Plain,
            step: None,
            pieces: None,
            tile: [128, 128],
            lines: 2,
            out: [128, 64],
        }
    }

    /// The operators; weights are a result of the graph if they are `seen`.
    ///
    /// # Errors
    /// The builder's.
    pub fn draw(&self, seen: bool) -> Result<Operators, BuildErrors> {
        let mut g = Operators::default();
        let of = self.heads / self.group.max(1);
        // Sums of scores are far from 0 where something is divided by them.
        let least = if self.variant == Variant::Linear { 0.5 } else { -1.0 };
        let q = g.filled("q", self.elem, &[self.heads, self.rows, self.depth], Fill::Between(least, 1.0));
        let k = g.filled("k", self.elem, &[of, self.keys, self.depth], Fill::Between(least, 1.0));
        let v = g.input("v", self.elem, &[of, self.keys, self.depth]);
        let s = g.between("s", self.scores, &[self.heads, self.rows, self.keys]);
        let weights = [self.heads, self.rows, self.keys];
        let p = if seen { g.output("p", self.weights, &weights) } else { g.between("p", self.weights, &weights) };
        let o = g.output("o", self.elem, &[self.heads, self.rows, self.depth]);
        let more = match self.variant {
            Variant::Plain | Variant::SoftCap | Variant::Upcast | Variant::Linear => None,
            Variant::Sink | Variant::Alibi | Variant::Temperature => Some(g.input("per_head", Scalar::F32, &[self.heads])),
            Variant::Bias => Some(g.input("bias", Scalar::F32, &[self.heads, self.rows, self.keys])),
            Variant::Composed => Some(g.filled("tokens", Scalar::I32, &[self.keys], Fill::Steps(1))),
        };
        let with = |mut args: Vec<Passed>, of_softmax: bool| {
            args.extend(more.filter(|_| (self.variant == Variant::Sink) == of_softmax).map(Passed::Tensor));
            args
        };
        let grid = [programs(self.keys, self.tile[1]), programs(self.rows, self.tile[0]), self.heads];
        let [scores, softmax, values] = [self.scores(&g, [q, k, s], more)?, self.softmax(&g, [s, p])?, self.values(&g, [p, v, o])?];
        g.step("scores", scores, grid, &with(vec![q.into(), k.into(), s.into()], false));
        g.step("softmax", softmax, [programs(self.rows, self.lines), self.heads, 1], &with(vec![s.into(), p.into()], true));
        g.step("values", values, [programs(self.rows, self.out[0]), self.heads, 1], &[p.into(), v.into(), o.into()]);
        // Keys behind a query are half of all.
        let keys = if self.sees == Sees::Causal { self.keys.div_ceil(2) } else { self.keys };
        for _ in 0..2 {
            g.counts(self.elem, [self.heads * self.rows, keys, self.depth]);
        }
        g.bound(o, self.bound(), 0.0);
        g.bound(p, self.bound(), 0.0);
        Ok(g)
    }

    /// How far results may be apart: elements are at most 1, so scores are at most the depth times the scale, and the distance with a slope
    /// of up to 1, and weights add up to 1.
    pub fn bound(&self) -> f64 {
        let (depth, keys) = (f64::from(self.depth), f64::from(self.keys));
        let far = match self.variant {
            Variant::Alibi => f64::from(self.rows.max(self.keys)),
            Variant::Bias => 1.0,
            _ => 0.0,
        };
        let by = if matches!(self.variant, Variant::Bias | Variant::Temperature) { 1.0 } else { f64::from(self.scale) };
        let scores = depth * by + far;
        let word = unit(Scalar::F32);
        // Each way: scores as stored and as summed change an exponent; exp, sums and quotients are off by 2^-21 and a unit per term.
        let exponent = scores * (unit(self.scores) + depth * word);
        let weight = 2.0 * exponent + 4.0 * 2f64.powi(-21) + keys * word;
        2.0 * (weight + unit(self.weights) + keys * word + unit(self.elem)) + 2f64.powi(-24)
    }

    fn scores(&self, g: &Operators, [q, k, s]: [Id; 3], more: Option<Id>) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("scores");
        let tile @ [high, wide] = self.tile;
        b.warps((high / 16).clamp(4, 8));
        let [q, k, s] = [q, k, s].map(|id| b.param(g.view(id)));
        let more = more.filter(|_| self.variant != Variant::Sink).map(|id| b.param(g.view(id)));
        let [j, i, h] = [0, 1, 2].map(|axis| b.program_id(axis));
        let (col, row, zero) = (b.mul(j, wide), b.mul(i, high), b.constant(0, Scalar::I32));
        let of = if self.group == 1 { h } else { b.div(h, self.group) };
        let none = b.full(&tile, 0, Scalar::F32);
        let pair = |b: &mut KernelBuilder, at: Value, deep: u32| {
            let p = b.load(q, &[h, row, at], &[1, high, deep]);
            let r = b.load(k, &[of, col, at], &[1, wide, deep]);
            let (mut p, mut r) = (b.reshape(p, &[high, deep]), b.reshape(r, &[wide, deep]));
            if self.variant == Variant::Upcast {
                (p, r) = (b.cast(p, Scalar::F32), b.cast(r, Scalar::F32));
            }
            (p, b.transpose(r, &[1, 0]))
        };
        let t = match self.step {
            None => {
                let (p, r) = pair(&mut b, zero, self.depth);
                b.dot(p, r, none)
            }
            Some(step) => {
                let depth = b.dim(q, 2);
                b.for_loop(0, depth, step, &[none], |b, d, sum| {
                    let (p, r) = pair(b, d, step);
                    vec![b.dot(p, r, sum[0])]
                })[0]
            }
        };
        let per_head = |b: &mut KernelBuilder, of: Value| {
            let by = b.load(of, &[h], &[1]);
            b.reshape(by, &[1, 1])
        };
        let mut t = match (self.variant, more) {
            (Variant::Bias, Some(bias)) => {
                let bias = b.load(bias, &[h, row, col], &[1, high, wide]);
                let bias = b.reshape(bias, &tile);
                b.add(t, bias)
            }
            (Variant::Temperature, Some(numbers)) => {
                let by = per_head(&mut b, numbers);
                b.mul(t, by)
            }
            (Variant::Upcast, _) => b.div(t, (self.depth as f32).sqrt()),
            _ => b.mul(t, self.scale),
        };
        if self.variant == Variant::SoftCap {
            t = b.mul(t, 1.0 / CAP);
            t = b.tanh(t);
            t = b.mul(t, CAP);
        }
        let along = |b: &mut KernelBuilder, start: Value, axis: u32| {
            let steps = b.iota(&tile, axis);
            b.add(steps, start)
        };
        if let (Variant::Alibi, Some(slope)) = (self.variant, more) {
            let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
            let far = b.sub(c, r);
            let far = b.cast(far, Scalar::F32);
            let by = per_head(&mut b, slope);
            let far = b.mul(far, by);
            t = b.add(t, far);
        }
        if let (Variant::Composed, Some(tokens)) = (self.variant, more) {
            let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
            let causal = b.cmp(CmpOp::Le, c, r);
            let far = b.add(c, WINDOW);
            let near = b.cmp(CmpOp::Gt, far, r);
            let window = b.and(causal, near);
            let all = b.full(&tile, 1, Scalar::I1);
            let sees = [window, causal].into_iter().fold(all, |sees, mask| b.and(sees, mask));
            let tokens = b.load(tokens, &[col], &[wide]);
            let kept = b.cmp(CmpOp::Ne, tokens, PADDING);
            let ignored = b.not(kept);
            let kept = b.not(ignored);
            let kept = b.expand_dims(kept, 0);
            let kept = b.broadcast(kept, &tile);
            let sees = b.and(sees, kept);
            let hidden = b.not(sees);
            let none = b.full(&tile, f64::NEG_INFINITY, Scalar::F32);
            t = b.select(hidden, none, t);
        } else if self.sees != Sees::All {
            let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
            let mut sees = b.cmp(CmpOp::Le, c, r);
            if let Sees::Window(w) = self.sees {
                let far = b.add(c, w);
                let near = b.cmp(CmpOp::Gt, far, r);
                sees = b.and(sees, near);
            }
            let none = b.full(&tile, f64::NEG_INFINITY, Scalar::F32);
            t = b.select(sees, t, none);
        }
        let t = b.cast(t, self.scores);
        let t = b.reshape(t, &[1, high, wide]);
        b.store(s, &[h, row, col], t);
        b.finish()
    }

    fn per_head(&self) -> ViewType {
        ViewType::dense(Scalar::F32, &[crate::facts::known(self.heads)])
    }

    /// Softmax, `lines` rows a program, of whole rows or piece by piece.
    fn softmax(&self, g: &Operators, [s, p]: [Id; 2]) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("softmax");
        b.warps(4);
        let [x, y] = [s, p].map(|id| b.param(g.view(id)));
        let sink = (self.variant == Variant::Sink).then(|| b.param(self.per_head()));
        let (i, h) = (b.program_id(0), b.program_id(1));
        let lines = self.lines;
        let (row, zero) = (b.mul(i, lines), b.constant(0, Scalar::I32));
        let width = self.pieces.unwrap_or(self.keys.next_power_of_two());
        let piece = |b: &mut KernelBuilder, j: Value| {
            let other = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
            let t = b.load_with(x, &[h, row, j], &[1, lines, width], other);
            let t = b.reshape(t, &[lines, width]);
            b.cast(t, Scalar::F32)
        };
        let stored = |b: &mut KernelBuilder, t: Value, sum: Value, j: Value| {
            let t = b.div(t, sum);
            let t = b.cast(t, self.weights);
            let t = b.reshape(t, &[1, lines, width]);
            b.store(y, &[h, row, j], t);
        };
        let with_sink = |b: &mut KernelBuilder, most: Value, sum: Value| {
            let Some(sink) = sink else { return sum };
            let t = b.load(sink, &[h], &[1]);
            let t = b.reshape(t, &[1, 1]);
            let t = b.sub(t, most);
            let t = b.exp(t);
            b.add(sum, t)
        };
        if self.variant == Variant::Linear {
            let t = b.load(x, &[h, row, zero], &[1, lines, width]);
            let t = b.reshape(t, &[lines, width]);
            let t = b.cast(t, Scalar::F32);
            let sum = b.reduce_keep(ReduceOp::Add, t, 1);
            stored(&mut b, t, sum, zero);
            return b.finish();
        }
        if self.pieces.is_none() {
            let t = piece(&mut b, zero);
            let most = b.reduce_keep(ReduceOp::Maximum, t, 1);
            let t = b.sub(t, most);
            let e = b.exp(t);
            let sum = b.reduce_keep(ReduceOp::Add, e, 1);
            let sum = with_sink(&mut b, most, sum);
            stored(&mut b, e, sum, zero);
            return b.finish();
        }
        let n = b.dim(x, 2);
        let low = b.full(&[lines, 1], f64::NEG_INFINITY, Scalar::F32);
        let most = b.for_loop(0, n, width, &[low], |b, j, m| {
            let t = piece(b, j);
            let t = b.reduce_keep(ReduceOp::Maximum, t, 1);
            vec![b.maximum(m[0], t)]
        })[0];
        let none = b.full(&[lines, 1], 0, Scalar::F32);
        let shifted = |b: &mut KernelBuilder, j: Value| {
            let t = piece(b, j);
            let t = b.sub(t, most);
            b.exp(t)
        };
        let sum = b.for_loop(0, n, width, &[none], |b, j, l| {
            let t = shifted(b, j);
            let t = b.reduce_keep(ReduceOp::Add, t, 1);
            vec![b.add(l[0], t)]
        })[0];
        let sum = with_sink(&mut b, most, sum);
        b.for_loop(0, n, width, &[], |b, j, _| {
            let t = shifted(b, j);
            stored(b, t, sum, j);
            vec![]
        });
        b.finish()
    }

    fn values(&self, g: &Operators, [p, v, o]: [Id; 3]) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("values");
        b.warps(self.out[0].div_ceil(16).clamp(4, 8));
        let [p, v, o] = [p, v, o].map(|id| b.param(g.view(id)));
        let (i, h) = (b.program_id(0), b.program_id(1));
        let [high, step] = self.out;
        let (row, zero) = (b.mul(i, high), b.constant(0, Scalar::I32));
        let of = if self.group == 1 { h } else { b.div(h, self.group) };
        let keys = b.dim(p, 2);
        let none = b.full(&[high, self.depth], 0, Scalar::F32);
        let sum = b.for_loop(0, keys, step, &[none], |b, j, sum| {
            let a = b.load(p, &[h, row, j], &[1, high, step]);
            let c = b.load(v, &[of, j, zero], &[1, step, self.depth]);
            let (a, c) = (b.reshape(a, &[high, step]), b.reshape(c, &[step, self.depth]));
            vec![b.dot(a, c, sum[0])]
        });
        let t = b.cast(sum[0], self.elem);
        let t = b.reshape(t, &[1, high, self.depth]);
        b.store(o, &[h, row, zero], t);
        b.finish()
    }
}

/// An attention of rows, heads and a depth; causal, but where the variant is one of encoders.
///
/// # Errors
/// The builder's.
pub(super) fn variant(extents: &[u32], variant: Variant) -> Result<Operators, BuildErrors> {
    let [rows, heads, depth] = [extents[0], extents[1], extents[2]];
    let encodes = matches!(variant, Variant::Upcast | Variant::Bias | Variant::Temperature | Variant::Linear);
    let sees = if encodes { Sees::All } else { Sees::Causal };
    PlainAttention { sees, variant, ..PlainAttention::new(Scalar::BF16, heads, rows, depth) }.draw(false)
}
