//! Normalisations as exporters write them: a mean is a sum of quotients or of products by 1/n, and a root is inverted by a quotient.
//!
//! ```text
//! layer_norm_2d      channels last, LayerNorm, channels first again (ConvNeXt)
//! latents            learned tokens for each image of a batch, LayerNorm, scale and shift of a condition (Q-Former, DiT)
//! add_norm_in_place  the residual is updated in memory and read back for the norm (vLLM)
//! padded_softmax     logits are scaled in place, and as many of them count as the vocabulary has
//! ```

use super::operators::{Id, Operators, unit};
use crate::facts::{known, programs};
use crate::softmax::row_warps;
use tilelift_ir::{Access, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

const ELEM: Scalar = Scalar::BF16;
const WORD: Scalar = Scalar::F32;
const EPS: f64 = 1e-5;
/// Pixels of a program's tile; images and tokens of one; programs that walk along rows.
const PIXELS: u32 = 32;
const TOKENS: [u32; 2] = [2, 4];
const PROGRAMS: u32 = 1024;

/// `z = layer_norm over channels of x`, where pixels are last in memory.
///
/// # Errors
/// The builder's.
pub fn layer_norm_2d(images: u32, pixels: u32, channels: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let x = g.input("x", WORD, &[images, channels, pixels]);
    let [w, shift] = ["w", "shift"].map(|name| g.input(name, WORD, &[channels]));
    let last = [images, pixels, channels];
    let (t, d, y) = (g.between("t", WORD, &last), g.between("d", WORD, &last), g.between("y", WORD, &last));
    let [m, v] = ["m", "v"].map(|name| g.between(name, WORD, &[images, pixels, 1]));
    let z = g.output("z", WORD, &[images, channels, pixels]);
    let grid = [programs(pixels, PIXELS), images, 1];
    let kernel = permute(&g, [x, t], channels, true)?;
    g.step("channels_last", kernel, grid, &[x.into(), t.into()]);
    let kernel = mean(&g, [t, m], channels, |b, t| b.div(t, f64::from(channels)))?;
    g.step("mean", kernel, grid, &[t.into(), m.into()]);
    g.pointwise("centre", &[t, m], &[d], |b, t| vec![b.sub(t[0], t[1])])?;
    let kernel = mean(&g, [d, v], channels, |b, t| {
        let square = b.mul(t, t);
        b.mul(square, 1.0 / f64::from(channels))
    })?;
    g.step("variance", kernel, grid, &[d.into(), v.into()]);
    g.pointwise("normalise", &[d, v, w, shift], &[y], |b, t| {
        let by = inverse_root(b, t[1]);
        let n = b.mul(t[0], by);
        let n = b.mul(n, t[2]);
        vec![b.add(n, t[3])]
    })?;
    let kernel = permute(&g, [y, z], channels, false)?;
    g.step("channels_first", kernel, grid, &[y.into(), z.into()]);
    // Elements are at most the root of the number of channels.
    g.bound(z, f64::from(channels).sqrt() * 2f64.powi(-16), 4.0 * unit(WORD));
    Ok(g)
}

/// `1 / sqrt(v + eps)`.
fn inverse_root(b: &mut KernelBuilder, v: Value) -> Value {
    let v = b.add(v, EPS);
    let root = b.sqrt(v);
    b.div(1.0, root)
}

/// Channels from first to last, or back.
fn permute(g: &Operators, ids: [Id; 2], channels: u32, last: bool) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new(if last { "channels_last" } else { "channels_first" });
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let (p, image, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let at = b.mul(p, PIXELS);
    let places = [[image, zero, at], [image, at, zero]];
    let (from, to) = if last { ([1, channels, PIXELS], 0) } else { ([1, PIXELS, channels], 1) };
    let t = b.load(x, &places[to], &from);
    let t = b.transpose(t, &[0, 2, 1]);
    b.store(y, &places[1 - to], t);
    b.finish()
}

/// The sum over channels of what a function makes of elements.
fn mean(g: &Operators, ids: [Id; 2], channels: u32, part: impl Fn(&mut KernelBuilder, Value) -> Value) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("mean");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let (p, image, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let at = b.mul(p, PIXELS);
    let t = b.load(x, &[image, at, zero], &[1, PIXELS, channels]);
    let t = b.cast(t, WORD);
    let t = part(&mut b, t);
    let sum = b.reduce_keep(ReduceOp::Add, t, 2);
    b.store(y, &[image, at, zero], sum);
    b.finish()
}

/// `y = layer_norm(latents of each image) * (1 + scale) + shift`, both from one condition, which comes as one row for the whole batch.
///
/// # Errors
/// The builder's.
pub fn latents(images: u32, tokens: u32, width: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let learned = g.input("learned", ELEM, &[1, tokens, width]);
    let condition = g.input("condition", ELEM, &[1, 1, 2 * width]);
    let all = [images, tokens, width];
    let (h, n, y) = (g.between("h", ELEM, &all), g.between("n", ELEM, &all), g.output("y", ELEM, &all));
    let grid = [programs(tokens, TOKENS[1]), programs(images, TOKENS[0]), 1];
    let kernel = expand(&g, [learned, h], width)?;
    g.step("expand", kernel, grid, &[learned.into(), h.into()]);
    let kernel = layer_norm(&g, [h, n], width)?;
    g.step("norm", kernel, grid, &[h.into(), n.into()]);
    let kernel = modulate(&g, [n, condition, y], width)?;
    g.step("modulate", kernel, grid, &[n.into(), condition.into(), y.into()]);
    // What is normalised is at most the root of the width. It may go on without being rounded, and is multiplied by 2 at most.
    g.bound(y, 2.0 * f64::from(width).sqrt() * unit(ELEM), 3.0 * unit(ELEM));
    Ok(g)
}

/// First image and token of a program.
fn place(b: &mut KernelBuilder) -> [Value; 3] {
    let (t, i, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    [b.mul(i, TOKENS[0]), b.mul(t, TOKENS[1]), zero]
}

fn expand(g: &Operators, ids: [Id; 2], width: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("expand");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let at = place(&mut b);
    let t = b.load(x, &[at[2], at[1], at[2]], &[1, TOKENS[1], width]);
    let t = b.broadcast(t, &[TOKENS[0], TOKENS[1], width]);
    b.store(y, &at, t);
    b.finish()
}

fn layer_norm(g: &Operators, ids: [Id; 2], width: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("norm");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let at = place(&mut b);
    let t = b.load(x, &at, &[TOKENS[0], TOKENS[1], width]);
    let t = b.cast(t, WORD);
    let part = b.div(t, f64::from(width));
    let mean = b.reduce_keep(ReduceOp::Add, part, 2);
    let d = b.sub(t, mean);
    let square = b.mul(d, d);
    let part = b.div(square, f64::from(width));
    let v = b.reduce_keep(ReduceOp::Add, part, 2);
    let by = inverse_root(&mut b, v);
    let t = b.mul(d, by);
    let t = b.cast(t, ELEM);
    b.store(y, &at, t);
    b.finish()
}

/// The condition is expanded to the batch, then to the tokens, and cut in two.
fn modulate(g: &Operators, ids: [Id; 3], width: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("modulate");
    b.warps(4);
    let [x, condition, y] = ids.map(|id| b.param(g.view(id)));
    let at = place(&mut b);
    let tile = [TOKENS[0], TOKENS[1], width];
    let t = b.load(x, &at, &tile);
    let t = b.cast(t, WORD);
    let c = b.load(condition, &[at[2]; 3], &[1, 1, 2 * width]);
    let c = b.cast(c, WORD);
    let c = b.broadcast(c, &[TOKENS[0], 1, 2 * width]);
    let c = b.broadcast(c, &[TOKENS[0], TOKENS[1], 2 * width]);
    let [scale, shift] = [0, width].map(|from| b.slice(c, &[0, 0, from], &tile));
    let scale = b.add(scale, 1.0);
    let t = b.mul(t, scale);
    let t = b.add(t, shift);
    let t = b.cast(t, ELEM);
    b.store(y, &at, t);
    b.finish()
}

/// A matrix whose number of columns is part of its type, as static shapes have it.
fn fixed(elem: Scalar, rows: u32, width: u32) -> ViewType {
    ViewType::dense(elem, &[known(rows), Extent::Fixed(width)])
}

/// First row and distance of the rows of a program, of as many programs as a machine runs at a time.
fn rows(b: &mut KernelBuilder) -> [Value; 2] {
    [b.program_id(0), b.num_programs(0)]
}

/// `residual = residual + x`, `y = rms_norm(residual) * w`.
///
/// # Errors
/// The builder's.
pub fn add_norm_in_place(count: u32, width: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let (x, w) = (g.input("x", ELEM, &[count, width]), g.input("w", ELEM, &[width]));
    let residual = g.updated("residual", ELEM, &[count, width], 2 * u64::from(count) * u64::from(width));
    let y = g.output("y", ELEM, &[count, width]);
    let mut b = KernelBuilder::new("add_norm");
    b.warps(row_warps(width));
    let [from, state] = [(); 2].map(|()| b.param(fixed(ELEM, count, width)));
    let scale = b.param(ViewType::dense(ELEM, &[known(width)]));
    let to = b.param(fixed(ELEM, count, width));
    let zero = b.constant(0, Scalar::I32);
    let ([first, step], end) = (rows(&mut b), b.dim(state, 0));
    b.for_loop(first, end, step, &[], |b, row, _| {
        let at = [row, zero];
        let [t, r] = [from, state].map(|view| {
            let t = b.load(view, &at, &[1, width]);
            b.cast(t, WORD)
        });
        let sum = b.add(t, r);
        let sum = b.cast(sum, ELEM);
        b.store(state, &at, sum);
        let t = b.load(state, &at, &[1, width]);
        let t = b.cast(t, WORD);
        let square = b.mul(t, t);
        let part = b.mul(square, 1.0 / f64::from(width));
        let mean = b.reduce_keep(ReduceOp::Add, part, 1);
        let by = inverse_root(b, mean);
        // Columns that the vector has, as programs with raw pointers ask.
        let (col, cols) = (b.iota(&[width], 0), b.dim(scale, 0));
        let mask = b.cmp(CmpOp::Lt, col, cols);
        let w = b.load_with(scale, &[zero], &[width], Access { mask: Some(mask), other: Some(0.0.into()), ..Access::default() });
        let w = b.cast(w, WORD);
        let w = b.expand_dims(w, 0);
        let t = b.mul(t, by);
        let t = b.mul(t, w);
        let t = b.cast(t, ELEM);
        b.store(to, &at, t);
        vec![]
    });
    g.step("add_norm", b.finish()?, [count.min(PROGRAMS), 1, 1], &[x.into(), residual.into(), w.into(), y.into()]);
    g.bound(residual, 0.0, 0.0);
    g.bound(y, 2f64.powi(-16), 2.0 * unit(ELEM));
    Ok(g)
}

/// `x = x * scale` for the columns that count, `p = softmax of them`, 0 elsewhere.
///
/// # Errors
/// The builder's.
pub fn padded_softmax(count: u32, width: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let x = g.updated("x", WORD, &[count, width], 2 * u64::from(count) * u64::from(width));
    let p = g.output("p", WORD, &[count, width]);
    let mut b = KernelBuilder::new("padded_softmax");
    b.warps(row_warps(width));
    let [logits, to] = [(); 2].map(|()| b.param(fixed(WORD, count, width)));
    let (valid, by) = (b.param(Scalar::I32), b.param(WORD));
    let zero = b.constant(0, Scalar::I32);
    let ([first, step], end) = (rows(&mut b), b.dim(logits, 0));
    b.for_loop(first, end, step, &[], |b, row, _| {
        let (at, tile) = ([row, zero], [1, width]);
        let col = b.iota(&tile, 1);
        let mask = b.cmp(CmpOp::Lt, col, valid);
        let masked = Access { mask: Some(mask), other: Some(0.0.into()), ..Access::default() };
        let t = b.load_with(logits, &at, &tile, masked);
        let t = b.mul(t, by);
        b.store_with(logits, &at, t, Some(mask));
        let t = b.load_with(logits, &at, &tile, masked);
        let low = b.full(&tile, f64::NEG_INFINITY, WORD);
        let t = b.select(mask, t, low);
        let most = b.reduce_keep(ReduceOp::Maximum, t, 1);
        let t = b.sub(t, most);
        let e = b.exp(t);
        let sum = b.reduce_keep(ReduceOp::Add, e, 1);
        let t = b.div(e, sum);
        b.store(to, &at, t);
        vec![]
    });
    let args = [x.into(), p.into(), (width.cast_signed() - 3).into(), 0.75f32.into()];
    g.step("softmax", b.finish()?, [count.min(PROGRAMS), 1, 1], &args);
    g.bound(x, 0.0, 0.0);
    g.bound(p, 0.0, 2f64.powi(-17));
    Ok(g)
}
