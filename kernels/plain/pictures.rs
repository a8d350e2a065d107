//! Pictures: positions are computed from flat indices by quotients and remainders, and clamped, as tensor languages without bounds do it.
//!
//! ```text
//! patches   a picture cut into squares, an embedding's rows (ViT); indices from the end count backwards, and are clamped (JAX)
//! resize    nearest neighbours, positions by floats, one scale for each axis (upsampling of videos), then hard swish in steps
//! ```

use super::operators::{Id, Operators, unit};
use crate::facts::programs;
use tilelift_ir::{Access, BuildErrors, CmpOp, Kernel, KernelBuilder, Scalar, Value};

const ELEM: Scalar = Scalar::BF16;
/// Side of a square patch, and colours.
const SIDE: u32 = 16;
const COLOURS: u32 = 3;
/// Rows, columns and channels of a tile that is resized.
const TILE: [u32; 3] = [4, 8, 64];

/// Patches of a picture of `across` by `across` patches, each a row, with colours between -1 and 1.
///
/// # Errors
/// The builder's.
pub fn patches(across: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let line = across * SIDE * COLOURS;
    let x = g.input("x", ELEM, &[across * SIDE * line]);
    let cut = g.between("cut", ELEM, &[across, across, SIDE * SIDE * COLOURS]);
    let y = g.output("y", ELEM, &[across, across, SIDE * SIDE * COLOURS]);
    let kernel = cut_out(&g, [x, cut], across)?;
    g.step("cut", kernel, [across, 1, 1], &[x.into(), cut.into()]);
    g.pointwise("normalise", &[cut], &[y], |b, t| {
        let t = b.sub(t[0], 0.5);
        vec![b.div(t, 0.5)]
    })?;
    g.bound(y, 0.0, 2.0 * unit(ELEM));
    Ok(g)
}

/// An index as indexing with wrap-around and clamped gathers make it.
fn wrapped(b: &mut KernelBuilder, index: Value, extent: u32) -> Value {
    let negative = b.cmp(CmpOp::Lt, index, 0);
    let from_end = b.add(index, extent);
    let index = b.select(negative, from_end, index);
    let index = b.maximum(index, 0);
    b.minimum(index, extent - 1)
}

/// A program cuts a strip of the picture, patch by patch.
fn cut_out(g: &Operators, ids: [Id; 2], across: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("cut");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let line = across * SIDE * COLOURS;
    let elements = SIDE * SIDE * COLOURS;
    let pid = b.program_id(0);
    let strip = wrapped(&mut b, pid, across);
    let top = b.mul(strip, SIDE);
    let top = b.mul(top, line);
    b.for_loop(0, across, 1, &[], |b, patch, _| {
        // Row, column and colour of an element, each by the same two operators.
        let e = b.iota(&[elements], 0);
        let coordinate = |b: &mut KernelBuilder, step: u32, extent: u32| {
            let t = b.div(e, step);
            b.rem(t, extent)
        };
        let row = coordinate(b, SIDE * COLOURS, SIDE);
        let col = coordinate(b, COLOURS, SIDE);
        let colour = coordinate(b, 1, COLOURS);
        let left = b.mul(patch, SIDE);
        let col = b.add(col, left);
        let col = b.mul(col, COLOURS);
        let row = b.mul(row, line);
        let at = b.add(row, col);
        let at = b.add(at, colour);
        let at = b.add(at, top);
        let at = wrapped(b, at, across * SIDE * line);
        let t = b.gather(x, &[at], Access::default());
        let t = b.reshape(t, &[1, 1, elements]);
        let zero = b.constant(0, Scalar::I32);
        b.store(y, &[pid, patch, zero], t);
        vec![]
    });
    b.finish()
}

/// `y = hard_swish(x with twice as many columns)`.
///
/// # Errors
/// The builder's.
pub fn resize(rows: u32, cols: u32, channels: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let x = g.input("x", ELEM, &[rows, cols, channels]);
    let large = [rows, 2 * cols, channels];
    let [near, third] = ["near", "third"].map(|name| g.between(name, ELEM, &large));
    let y = g.output("y", ELEM, &large);
    let kernel = nearest(&g, [x, near])?;
    let grid = [programs(channels, TILE[2]), programs(2 * cols, TILE[1]), programs(rows, TILE[0])];
    g.step("nearest", kernel, grid, &[x.into(), near.into()]);
    g.pointwise("relu", &[near], &[third], |b, t| {
        let t = b.add(t[0], 3.0);
        vec![b.maximum(t, 0.0)]
    })?;
    g.pointwise("hard_swish", &[near, third], &[y], |b, t| {
        let six = b.maximum(t[1], 0.0);
        let six = b.minimum(six, 6.0);
        let t = b.mul(t[0], six);
        vec![b.div(t, 6.0)]
    })?;
    g.bound(y, 2.0 * unit(ELEM), 2.0 * unit(ELEM));
    Ok(g)
}

/// Rows stay, columns are twice as many: positions are floats times the scale of their axis, rounded down.
fn nearest(g: &Operators, ids: [Id; 2]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("nearest");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let mut at = Vec::new();
    let mut from = Vec::new();
    for (d, scale) in [1.0, 0.5, 1.0].into_iter().enumerate() {
        let pid = b.program_id(2 - d);
        let first = b.mul(pid, TILE[d]);
        let steps = b.iota(&TILE, d as u32);
        let place = b.add(steps, first);
        at.push(first);
        let place = if d == 2 {
            place
        } else {
            let t = b.cast(place, Scalar::F32);
            let t = b.mul(t, scale);
            let t = b.floor(t);
            b.cast(t, Scalar::I32)
        };
        from.push(place);
    }
    let t = b.gather(x, &from, Access::default());
    b.store(y, &at, t);
    b.finish()
}
