//! GroupNorm, SiLU and a convolution of 3 x 3 with a border of zeros, channels last.
//!
//! ```text
//! sums     per image, line and channel: sum of x, sum of x^2
//! affine   per image and channel: what x is multiplied by and what is added, from the sums of the channel's group
//! apply    silu(x * scale + shift)
//! conv     a product over the 9 taps and the channels: tiles of an image, moved by a tap, times the tap's weights
//! ```

use super::operators::{Operators, unit};
use crate::activation::Activation;
use crate::facts::{known, programs};
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, ReduceOp, Scalar, ViewType};

const ELEM: Scalar = Scalar::BF16;
/// Channels of a group.
const GROUP: u32 = 8;
/// Pixels and, at most, channels of a program's tile of the result, channels of a step.
const PIXELS: u32 = 128;
const WIDEST: u32 = 256;
const STEP: u32 = 64;
/// Height and width of the window.
const TAPS: u32 = 3;

/// The graph; results have as many channels as the image.
///
/// # Errors
/// The builder's.
pub fn group_norm_conv(images: u32, side: u32, channels: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let picture = [images, side, side, channels];
    let x = g.input("x", ELEM, &picture);
    let [weight, bias] = ["weight", "bias"].map(|name| g.input(name, Scalar::F32, &[channels]));
    let depth = TAPS * TAPS * channels;
    let taps = g.weight("taps", ELEM, &[TAPS, TAPS, channels, channels], depth);
    let [sum, squares] = ["sum", "squares"].map(|name| g.between(name, Scalar::F32, &[images, side, channels]));
    let [scale, shift] = ["scale", "shift"].map(|name| g.between(name, Scalar::F32, &[images, 1, 1, channels]));
    let n = g.between("n", ELEM, &picture);
    let y = g.output("y", ELEM, &picture);
    g.step("sums", sums(images, side, channels)?, [side, images, 1], &[x.into(), sum.into(), squares.into()]);
    let args = [sum, squares, weight, bias, scale, shift].map(Into::into);
    g.step("affine", affine(images, side, channels)?, [images, 1, 1], &args);
    g.step("apply", apply(images, side, channels)?, [side, images, 1], &[x.into(), scale.into(), shift.into(), n.into()]);
    let wide = line(side);
    let lines = PIXELS / wide;
    let grid = [programs(channels, tile(channels)[1]), programs(side, wide) * programs(side, lines), images];
    g.step("conv", conv(images, side, channels)?, grid, &[n.into(), taps.into(), y.into()]);
    g.counts(ELEM, [images * side * side, channels, depth]);
    // As in `layers`: independent roundings, and the sums' own.
    g.bound(y, 8.0 * unit(ELEM) + f64::from(depth) * unit(Scalar::F32), 2.0 * unit(ELEM));
    Ok(g)
}

/// A program's tile of the result.
fn tile(channels: u32) -> [u32; 2] {
    [PIXELS, channels.next_power_of_two().min(WIDEST)]
}

/// Pixels of a line in a tile.
fn line(side: u32) -> u32 {
    side.next_power_of_two().min(64)
}

fn picture(images: u32, side: u32, channels: u32) -> ViewType {
    ViewType::dense(ELEM, &[images, side, side, channels].map(known))
}

fn sums(images: u32, side: u32, channels: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("sums");
    b.warps(8);
    let x = b.param(picture(images, side, channels));
    let out = ViewType::dense(Scalar::F32, &[images, side, channels].map(known));
    let views = [(); 2].map(|()| b.param(out.clone()));
    let (line, image, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let (wide, high) = (side.next_power_of_two(), channels.next_power_of_two());
    let t = b.load(x, &[image, line, zero, zero], &[1, 1, wide, high]);
    let t = b.reshape(t, &[wide, high]);
    let t = b.cast(t, Scalar::F32);
    let square = b.mul(t, t);
    for (view, t) in views.into_iter().zip([t, square]) {
        let t = b.reduce(ReduceOp::Add, t, 0);
        let t = b.reshape(t, &[1, 1, high]);
        b.store(view, &[image, line, zero], t);
    }
    b.finish()
}

fn affine(images: u32, side: u32, channels: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("affine");
    b.warps(8);
    let from = ViewType::dense(Scalar::F32, &[images, side, channels].map(known));
    let [sum, squares] = [(); 2].map(|()| b.param(from.clone()));
    let [weight, bias] = [(); 2].map(|()| b.param(ViewType::dense(Scalar::F32, &[known(channels)])));
    let to = ViewType::dense(Scalar::F32, &[known(images), known(1), known(1), known(channels)]);
    let [scale, shift] = [(); 2].map(|()| b.param(to.clone()));
    let (image, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let (lines, wide) = (side.next_power_of_two(), channels.next_power_of_two());
    let groups = wide / GROUP;
    let count = f64::from(side) * f64::from(side) * f64::from(GROUP);
    let [mean, square] = [sum, squares].map(|view| {
        let t = b.load(view, &[image, zero, zero], &[1, lines, wide]);
        let t = b.reshape(t, &[lines, wide]);
        let t = b.reduce(ReduceOp::Add, t, 0);
        let t = b.reshape(t, &[groups, GROUP]);
        let t = b.reduce_keep(ReduceOp::Add, t, 1);
        b.mul(t, (1.0 / count) as f32)
    });
    let both = b.mul(mean, mean);
    let var = b.sub(square, both);
    let var = b.add(var, 1e-5);
    let by = b.rsqrt(var);
    let [w, c] = [weight, bias].map(|view| {
        let t = b.load(view, &[zero], &[wide]);
        b.reshape(t, &[groups, GROUP])
    });
    let by = b.mul(w, by);
    let less = b.mul(by, mean);
    let plus = b.sub(c, less);
    for (view, t) in [(scale, by), (shift, plus)] {
        let t = b.reshape(t, &[1, 1, 1, wide]);
        b.store(view, &[image, zero, zero, zero], t);
    }
    b.finish()
}

fn apply(images: u32, side: u32, channels: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("apply");
    b.warps(8);
    let x = b.param(picture(images, side, channels));
    let of = ViewType::dense(Scalar::F32, &[known(images), known(1), known(1), known(channels)]);
    let [scale, shift] = [(); 2].map(|()| b.param(of.clone()));
    let y = b.param(picture(images, side, channels));
    let (line, image, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let (wide, high) = (side.next_power_of_two(), channels.next_power_of_two());
    let t = b.load(x, &[image, line, zero, zero], &[1, 1, wide, high]);
    let t = b.cast(t, Scalar::F32);
    let [by, plus] = [scale, shift].map(|v| b.load(v, &[image, zero, zero, zero], &[1, 1, 1, high]));
    let t = b.mul(t, by);
    let t = b.add(t, plus);
    let t = Activation::Silu.apply(&mut b, t);
    let t = b.cast(t, ELEM);
    b.store(y, &[image, line, zero, zero], t);
    b.finish()
}

/// Elements beside the image are 0, as a load reads them.
fn conv(images: u32, side: u32, channels: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("conv");
    b.warps(8).stages(4);
    let x = b.param(picture(images, side, channels));
    let taps = b.param(ViewType::dense(ELEM, &[known(TAPS), known(TAPS), known(channels), known(channels)]));
    let y = b.param(picture(images, side, channels));
    let [px, py, image] = [0, 1, 2].map(|axis| b.program_id(axis));
    let (wide, tile) = (line(side), tile(channels));
    let (lines, across) = (PIXELS / wide, programs(side, wide));
    let zero = b.constant(0, Scalar::I32);
    let out = b.mul(px, tile[1]);
    let (down, right) = (b.div(py, across), b.rem(py, across));
    let (row, col) = (b.mul(down, lines), b.mul(right, wide));
    let steps = programs(channels, STEP);
    let none = b.full(&tile, 0, Scalar::F32);
    let sum = b.for_loop(zero, TAPS * TAPS * steps, 1, &[none], |b, t, sum| {
        let (tap, c) = (b.div(t, steps), b.rem(t, steps));
        let c = b.mul(c, STEP);
        let (dy, dx) = (b.div(tap, TAPS), b.rem(tap, TAPS));
        let (r, s) = (b.add(row, dy), b.add(col, dx));
        let (r, s) = (b.sub(r, TAPS / 2), b.sub(s, TAPS / 2));
        let p = b.load(x, &[image, r, s, c], &[1, lines, wide, STEP]);
        let w = b.load(taps, &[dy, dx, c, out], &[1, 1, STEP, tile[1]]);
        let (p, w) = (b.reshape(p, &[PIXELS, STEP]), b.reshape(w, &[STEP, tile[1]]));
        vec![b.dot(p, w, sum[0])]
    })[0];
    let t = b.cast(sum, ELEM);
    let t = b.reshape(t, &[1, lines, wide, tile[1]]);
    b.store(y, &[image, row, col, out], t);
    b.finish()
}
