//! Loops that compute between their products: operands A are in registers, sums are looked at.
//!
//! ```text
//! attention   s = q · kᵀ    p = exp2 (s - its maximum so far)    o = o · fade + p · v         online softmax, causal or not, heads
//! layers      s = q · kᵀ    p = max(s, 0)                        o = o + p · v
//! scaled      f = number of the iteration                        o = o + (f · q) · v          q of the operands' type, or of a narrower one
//! decay       o = max(o / 2 + q · k, 0)                          (of the plain kind of products, but looked at)
//! gradients   s = q · kᵀ    t = g · vᵀ    d = min(s, 4)₊ · t     o = o + d · k
//! ```
//! Scores are small integers, so that powers of two of them are exact.

use super::classes::{Axis, Classes};
use super::matrix::{Batch, Matrix, Params, Storage};
use super::options;
use super::product::{Kind, iterations, ragged};
use super::subject::Trial;
use super::walk::table;
use crate::case::{Case, Tolerance};
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::builder::Access;
use tilelift_ir::{BuildErrors, CmpOp, KernelBuilder, ReduceOp, Scalar, Value};
use tilelift_isel::LowerOptions;

/// What the loop does between products.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Attention { causal: bool },
    Layers,
    Scaled { from: Scalar },
    Decay,
    Gradients,
}

impl Between {
    fn word(self) -> &'static str {
        match self {
            Between::Attention { causal: false } => "attention",
            Between::Attention { causal: true } => "causal attention",
            Between::Layers => "layers",
            Between::Scaled { .. } => "scaled operand",
            Between::Decay => "sum that is looked at",
            Between::Gradients => "gradients",
        }
    }

    /// Products of an iteration.
    fn products(self) -> u32 {
        match self {
            Between::Attention { .. } | Between::Layers => 2,
            Between::Scaled { .. } | Between::Decay => 1,
            Between::Gradients => 3,
        }
    }
}

fn pick(src: &mut Source, kind: Kind) -> Between {
    let wide = kind.elem.bytes() == 2;
    match src.weighted(&[8, 5, 4, 4, 3]) {
        0 if wide => Between::Attention { causal: src.chance(100) },
        2 if kind.acc == Scalar::F32 => {
            let narrow = [Scalar::I8, Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F32];
            let from = if src.chance(128) { *src.pick(&narrow).unwrap_or(&Scalar::I8) } else { kind.elem };
            Between::Scaled { from }
        }
        3 => Between::Decay,
        4 if wide => Between::Gradients,
        _ => Between::Layers,
    }
}

/// The matrices and numbers of a loop.
struct Loop {
    kind: Kind,
    /// Rows, columns of a step, and depth of the first product.
    shape: [u32; 3],
    h: Value,
    row: Value,
    q: Value,
    g: Option<Value>,
    keys: Matrix,
    values: Matrix,
    /// Where values have rows in any order: which one each key has.
    rows: Option<Value>,
    /// Keys in all.
    end: Value,
}

/// Makes one.
pub(super) fn mixed(src: &mut Source) -> Result<Trial, BuildErrors> {
    let mut classes = Classes::default();
    let kind = Kind::pick(src);
    let (elem, wide) = (kind.elem, kind.elem.bytes() == 2);
    let between = pick(src, kind);
    classes.add(Axis::Family, between.word());
    classes.add(Axis::Operands, kind.word());
    let rows = *src.pick(&[128u32, 64, 128, 128]).unwrap_or(&128);
    let cols = *src.pick(&[64u32, 32, 96, 128]).unwrap_or(&64);
    let dim = src.pick(&[128u32, 64, 128, 256]).unwrap_or(&128) / elem.bytes().max(2);
    let dim = if kind.promoted() || elem == Scalar::I8 { dim.max(32) } else { dim };
    let batch = match src.weighted(&[10, 3, 3]) {
        1 => Batch::Outer,
        2 => Batch::Middle,
        _ => Batch::None,
    };
    classes.add(Axis::Batch, batch.word());
    let heads = if batch == Batch::None { 1 } else { 1 + src.below(3) };
    let programs = 1 + src.below(3);
    let steps = iterations(src, &mut classes, rows * cols * dim * programs * heads * between.products());
    let queries = i64::from(rows * programs) - [0, 0, 3, 28][src.below(4) as usize];
    let all = (i64::from(cols * steps) - [0, 0, 8, 17, 1][src.below(5) as usize]).max(1);
    // Single products go along the depth, the others along the keys.
    let (single, scaled) = (between.products() == 1, matches!(between, Between::Scaled { .. }));
    let cut = i64::from(cols * steps) - all;
    let along = if scaled { (i64::from(dim * steps) - cut).max(1) } else { all };
    ragged(&mut classes, [("M", queries, rows), (if single { "K" } else { "keys" }, along, if scaled { dim } else { cols }), ("", 0, 1)]);
    let exact = !matches!(between, Between::Attention { .. });

    let mut b = KernelBuilder::new("mixed");
    let mut params = Params::default();
    let storage = |elem, transposed| Storage { elem, transposed, batch, count: heads };
    let small = |src: &mut Source| Init::Small(src.seed());
    // What a step takes of q lies in memory where sums do not run along the keys.
    let deep = between == Between::Decay;
    let from = if let Between::Scaled { from } = between { from } else { elem };
    let init = small(src);
    let q = params.matrix(&mut b, src, storage(from, false), [queries, if deep { all } else { i64::from(dim) }], init);
    let init = small(src);
    // Keys are depth by columns as operand B; they are stored by rows of the depth where the unit takes nothing else.
    let keys = if deep {
        let transposed = !(wide && src.chance(90));
        params.matrix(&mut b, src, storage(elem, transposed), [all, i64::from(dim)], init)
    } else {
        params.matrix(&mut b, src, storage(elem, true), [i64::from(dim), all], init)
    };
    let init = small(src);
    // Values are keys by columns.
    let values_transposed = !wide || src.chance(90);
    classes.add(Axis::Storage, format_args!("values {}", if values_transposed { 't' } else { 'n' }));
    let extents = if scaled { [along, i64::from(cols)] } else { [all, i64::from(dim)] };
    let values = params.matrix(&mut b, src, storage(elem, values_transposed), extents, init);
    let gathers = matches!(between, Between::Attention { .. } | Between::Layers) && batch == Batch::None && !values_transposed;
    let rows_of_values = (gathers && src.chance(90)).then(|| {
        let seed = src.seed();
        table(&mut b, &mut params, all as u32, Init::Between { seed, lo: 0, hi: all - 1 })
    });
    let init = small(src);
    let g = (between == Between::Gradients).then(|| params.matrix(&mut b, src, storage(elem, false), [queries, i64::from(dim)], init));
    let acc = kind.acc;
    let narrow = acc == Scalar::F32 && src.chance(128);
    let out = if narrow { *src.pick(&[Scalar::BF16, Scalar::F16]).unwrap_or(&Scalar::BF16) } else { acc };
    classes.add(Axis::Results, out);
    let sum_columns = if scaled { cols } else { dim };
    let init = Init::Rand(src.seed());
    let result = params.matrix(&mut b, src, storage(out, false), [queries, i64::from(sum_columns)], init);
    if !exact {
        // Each of so many sums is off by a unit of the last place, above and below the fraction; results are no larger than 2.
        let abs = (all + 16) as f64 * 2f64.powi(-21);
        params.near(Tolerance { rel: if narrow { 2f64.powi(-7) } else { 0.0 }, abs });
    }

    let (id, h) = (b.program_id(0), b.program_id(1));
    let row = b.mul(id, i64::from(rows));
    let zero = b.constant(0, Scalar::I32);
    let depth = if deep { cols } else { dim };
    // Keys, or what is walked along.
    let end = if scaled { values.extent(&mut b, 0) } else { keys.extent(&mut b, usize::from(!deep)) };
    let tile = if deep { b.full(&[rows, dim], 0, acc) } else { q.load(&mut b, h, [row, zero], [rows, depth]) };
    let g = g.map(|g| g.load(&mut b, h, [row, zero], [rows, dim]));
    let l = Loop { kind, shape: [rows, cols, dim], h, row, q: tile, g, keys, values, rows: rows_of_values, end };
    let sum = match between {
        Between::Attention { causal } => l.attention(&mut b, causal),
        Between::Layers => l.layers(&mut b),
        Between::Scaled { .. } => l.scaled(&mut b),
        Between::Decay => l.decay(&mut b, q),
        Between::Gradients => l.gradients(&mut b),
    };
    let sum = if out == acc { sum } else { b.cast(sum, out) };
    result.store(&mut b, h, [row, zero], [rows, sum_columns], sum);
    if between != Between::Decay {
        classes.add(Axis::OperandA, if from == elem { "computed" } else { "dequantised" });
    }
    let lower = options::random(src, vec![]);
    let overlap = [None, Some(true), Some(false)][src.below(3) as usize].filter(|&o| !o || between.products() > 1);
    let case = Case { kernel: b.finish()?, grid: [programs, heads, 1], params: params.0 };
    Ok(Trial::new(case, options::compile(src, LowerOptions { overlap, ..lower }), classes))
}

impl Loop {
    fn scores(&self, b: &mut KernelBuilder, q: Value, m: Matrix, at: Value) -> Value {
        let [rows, cols, dim] = self.shape;
        let zero = b.constant(0, Scalar::I32);
        let keys = m.load(b, self.h, [zero, at], [dim, cols]);
        let none = b.full(&[rows, cols], 0, self.kind.acc);
        self.kind.dot(b, q, keys, none)
    }

    fn weigh(&self, b: &mut KernelBuilder, p: Value, at: Value, sum: Value) -> Value {
        let [_, cols, dim] = self.shape;
        let zero = b.constant(0, Scalar::I32);
        let p = self.operand(b, p);
        let values = match self.rows {
            Some(rows) => {
                let row = b.load(rows, &[at], &[cols]);
                let row = b.reshape(row, &[cols, 1]);
                let row = b.broadcast(row, &[cols, dim]);
                let column = b.iota(&[cols, dim], 1);
                b.gather(self.values.view(), &[row, column], Access::default())
            }
            None => self.values.load(b, self.h, [at, zero], [cols, dim]),
        };
        self.kind.dot(b, p, values, sum)
    }

    /// A tile as an operand.
    fn operand(&self, b: &mut KernelBuilder, p: Value) -> Value {
        if b.ty(p).elem() == self.kind.elem { p } else { b.cast(p, self.kind.elem) }
    }

    fn attention(&self, b: &mut KernelBuilder, causal: bool) -> Value {
        let [rows, cols, dim] = self.shape;
        let f32 = Scalar::F32;
        let end = if causal {
            let diagonal = b.add(self.row, rows);
            b.minimum(self.end, diagonal)
        } else {
            self.end
        };
        let init = [b.full(&[rows, 1], f64::NEG_INFINITY, f32), b.full(&[rows, 1], 0.0, f32), b.full(&[rows, dim], 0.0, f32)];
        let ends = b.for_loop(0, end, cols, &init, |b, at, carried| {
            let s = self.scores(b, self.q, self.keys, at);
            let key = b.iota(&[rows, cols], 1);
            let key = b.add(key, at);
            let mut seen = b.cmp(CmpOp::Lt, key, self.end);
            if causal {
                let query = b.iota(&[rows, cols], 0);
                let query = b.add(query, self.row);
                let before = b.cmp(CmpOp::Le, key, query);
                seen = b.and(seen, before);
            }
            let hidden = b.full(&[rows, cols], f64::NEG_INFINITY, f32);
            let s = b.select(seen, s, hidden);
            let top = b.reduce_keep(ReduceOp::Maximum, s, 1);
            let most = b.maximum(carried[0], top);
            let all = b.broadcast(most, &[rows, cols]);
            let s = b.sub(s, all);
            let p = b.exp2(s);
            let fade = b.sub(carried[0], most);
            let fade = b.exp2(fade);
            let old = b.mul(carried[1], fade);
            let new = b.reduce_keep(ReduceOp::Add, p, 1);
            let fades = b.broadcast(fade, &[rows, dim]);
            let sum = b.mul(carried[2], fades);
            vec![most, b.add(old, new), self.weigh(b, p, at, sum)]
        });
        let share = b.rcp(ends[1]);
        let share = b.broadcast(share, &[rows, dim]);
        b.mul(ends[2], share)
    }

    fn layers(&self, b: &mut KernelBuilder) -> Value {
        let [rows, cols, dim] = self.shape;
        let kind = self.kind;
        let init = b.full(&[rows, dim], 0, kind.acc);
        b.for_loop(0, self.end, cols, &[init], |b, at, carried| {
            let s = self.scores(b, self.q, self.keys, at);
            let p = b.maximum(s, 0i64);
            // What narrow elements hold without rounding.
            let p = match kind.elem {
                Scalar::I8 => b.minimum(p, 100i64),
                Scalar::F8E4M3 => b.minimum(p, 16i64),
                Scalar::F8E5M2 => b.minimum(p, 8i64),
                _ => p,
            };
            vec![self.weigh(b, p, at, carried[0])]
        })[0]
    }

    fn scaled(&self, b: &mut KernelBuilder) -> Value {
        let [rows, cols, dim] = self.shape;
        let kind = self.kind;
        let init = b.full(&[rows, cols], 0, kind.acc);
        let zero = b.constant(0, Scalar::I32);
        b.for_loop(0, self.end, dim, &[init], |b, at, carried| {
            // 1, 2, 1, 2, …: what all types hold.
            let n = b.div(at, dim);
            let n = b.rem(n, 2);
            let n = b.add(n, 1);
            let f = b.cast(n, Scalar::F32);
            let q = if b.ty(self.q).elem() == Scalar::F32 { self.q } else { b.cast(self.q, Scalar::F32) };
            let x = b.mul(q, f);
            let x = self.operand(b, x);
            let y = self.values.load(b, self.h, [at, zero], [dim, cols]);
            vec![kind.dot(b, x, y, carried[0])]
        })[0]
    }

    fn decay(&self, b: &mut KernelBuilder, q: Matrix) -> Value {
        let [rows, cols, dim] = self.shape;
        let kind = self.kind;
        let zero = b.constant(0, Scalar::I32);
        b.for_loop(0, self.end, cols, &[self.q], |b, at, carried| {
            let x = q.load(b, self.h, [self.row, at], [rows, cols]);
            let y = self.keys.load(b, self.h, [at, zero], [cols, dim]);
            let old = if kind.acc == Scalar::F32 { b.mul(carried[0], 0.5) } else { b.sub(carried[0], 3i64) };
            let sum = kind.dot(b, x, y, old);
            vec![b.maximum(sum, 0i64)]
        })[0]
    }

    fn gradients(&self, b: &mut KernelBuilder) -> Value {
        let [rows, cols, dim] = self.shape;
        let zero = b.constant(0, Scalar::I32);
        let init = b.full(&[rows, dim], 0, self.kind.acc);
        b.for_loop(0, self.end, cols, &[init], |b, at, carried| {
            let keys = self.keys.load(b, self.h, [zero, at], [dim, cols]);
            let none = b.full(&[rows, cols], 0, self.kind.acc);
            let s = self.kind.dot(b, self.q, keys, none);
            let s = b.maximum(s, 0i64);
            let s = b.minimum(s, 4i64);
            let values = self.values.load(b, self.h, [at, zero], [cols, dim]);
            let values = b.transpose(values, &[1, 0]);
            let t = match self.g {
                Some(g) => self.kind.dot(b, g, values, none),
                None => none,
            };
            let d = b.mul(s, t);
            let d = self.operand(b, d);
            let back = b.transpose(keys, &[1, 0]);
            vec![self.kind.dot(b, d, back, carried[0])]
        })[0]
    }
}
