//! Sequences: a short convolution beside a state, sums from the end, sums of what keys get.
//!
//! ```text
//! short_conv  new tokens behind a state of three: a tap reads either, under the masks of a concatenation, tokens last for the convolution (Mamba)
//! returns     r = flip(cumsum(flip(x))): sums from the end, of tensor languages that have sums from the start only
//! received    a key's weights, summed over the queries behind it, which a program begins at its own keys (caches that drop keys, H2O)
//! ```

use super::operators::{Id, Operators, unit};
use crate::activation::Activation;
use crate::facts::programs;
use tilelift_ir::{Access, BuildErrors, CmpOp, Kernel, KernelBuilder, ReduceOp, Scalar};

const ELEM: Scalar = Scalar::BF16;
const WORD: Scalar = Scalar::F32;
/// Taps of the convolution, one more than tokens of its state; channels of a program.
const TAPS: u32 = 4;
const CHANNELS: u32 = 256;
/// Queries of a step, and keys of a program.
const TILE: [u32; 2] = [64, 128];
/// Rows of a program that sums.
const LINES: u32 = 4;

/// `y = silu(sum over taps of w * token)` for tokens that follow a state.
///
/// # Errors
/// The builder's.
pub fn short_conv(rows: u32, tokens: u32, width: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let (first, last) = ([rows, tokens, width], [rows, width, tokens]);
    let x = g.input("x", ELEM, &first);
    let state = g.input("state", ELEM, &[rows, width, TAPS - 1]);
    let w = g.input("w", WORD, &[width, TAPS]);
    let (u, t, n) = (g.between("u", ELEM, &last), g.between("t", WORD, &last), g.between("n", ELEM, &last));
    let y = g.output("y", ELEM, &first);
    let grid = [programs(width, CHANNELS), rows, 1];
    let kernel = permute(&g, [x, u], tokens, true)?;
    g.step("tokens_last", kernel, grid, &[x.into(), u.into()]);
    let kernel = taps(&g, [u, state, w, t], tokens)?;
    g.step("conv", kernel, grid, &[u.into(), state.into(), w.into(), t.into()]);
    g.pointwise("silu", &[t], &[n], |b, t| vec![Activation::Silu.apply(b, t[0])])?;
    let kernel = permute(&g, [n, y], tokens, false)?;
    g.step("tokens_first", kernel, grid, &[n.into(), y.into()]);
    g.bound(y, 2f64.powi(-16), 2.0 * unit(ELEM));
    Ok(g)
}

/// Tokens from first to last, or back.
fn permute(g: &Operators, ids: [Id; 2], tokens: u32, last: bool) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new(if last { "tokens_last" } else { "tokens_first" });
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let (c, row, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let col = b.mul(c, CHANNELS);
    let (first, behind) = ([row, zero, col], [row, col, zero]);
    let (from, to, tile) = if last { (first, behind, [1, tokens, CHANNELS]) } else { (behind, first, [1, CHANNELS, tokens]) };
    let t = b.load(x, &from, &tile);
    let t = b.transpose(t, &[0, 2, 1]);
    b.store(y, &to, t);
    b.finish()
}

fn taps(g: &Operators, ids: [Id; 4], tokens: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("conv");
    b.warps(4);
    let [x, state, w, y] = ids.map(|id| b.param(g.view(id)));
    let (c, row, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let col = b.mul(c, CHANNELS);
    let tile = [1, CHANNELS, tokens];
    let steps = b.iota(&tile, 2);
    let mut sum = b.full(&tile, 0, WORD);
    for tap in 0..TAPS {
        // The place in the tokens that are new; those in front of it are in the state.
        let back = TAPS - 1 - tap;
        let at = b.sub(steps, back);
        let new = b.cmp(CmpOp::Ge, at, 0);
        let old = b.cmp(CmpOp::Lt, at, 0);
        let masked = |m| Access { mask: Some(m), other: Some(0.0.into()), ..Access::default() };
        let (from, first) = (b.sub(zero, back), b.constant(tap, Scalar::I32));
        let p = b.load_with(x, &[row, col, from], &tile, masked(new));
        let q = b.load_with(state, &[row, col, first], &tile, masked(old));
        let t = b.select(new, p, q);
        let t = b.cast(t, WORD);
        let by = b.load(w, &[col, first], &[CHANNELS, 1]);
        let by = b.expand_dims(by, 0);
        let t = b.mul(t, by);
        sum = b.add(sum, t);
    }
    b.store(y, &[row, col, zero], sum);
    b.finish()
}

/// Sums of rewards from each step to the end.
///
/// # Errors
/// The builder's.
pub fn returns(rows: u32, steps: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let all = [rows, steps];
    let x = g.input("x", WORD, &all);
    let [turned, sums] = ["turned", "sums"].map(|name| g.between(name, WORD, &all));
    let y = g.output("y", WORD, &all);
    let grid = [programs(rows, LINES), 1, 1];
    for (name, ids, flips) in [("flip", [x, turned], true), ("cumsum", [turned, sums], false), ("flip_back", [sums, y], true)] {
        let mut b = KernelBuilder::new(name);
        b.warps(4);
        let [from, to] = ids.map(|id| b.param(g.view(id)));
        let (pid, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
        let row = b.mul(pid, LINES);
        let t = b.load(from, &[row, zero], &[LINES, steps]);
        let t = if flips { b.flip(t, 1) } else { b.scan(ReduceOp::Add, t, 1) };
        b.store(to, &[row, zero], t);
        g.step(name, b.finish()?, grid, &ids.map(Into::into));
    }
    let n = f64::from(steps);
    g.bound(y, n * n * unit(WORD), 0.0);
    Ok(g)
}

/// Sums over queries of the weights that keys get, which are above 0 for no query in front of the key.
///
/// # Errors
/// The builder's.
pub fn received(heads: u32, rows: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let p = g.input("p", WORD, &[heads, rows, rows]);
    g.tensors[p.0].touched = Some(u64::from(heads) * u64::from(rows) * u64::from(rows + 1) / 2);
    let y = g.output("y", WORD, &[heads, rows]);
    let mut b = KernelBuilder::new("received");
    b.warps(4);
    let [weights, to] = [p, y].map(|id| b.param(g.view(id)));
    let (pid, h, end) = (b.program_id(0), b.program_id(1), b.dim(weights, 1));
    let col = b.mul(pid, TILE[1]);
    let none = b.full(&[TILE[1]], 0, WORD);
    // The step in which the first key is a query, whatever tiles are.
    let first = b.div(col, TILE[0]);
    let first = b.mul(first, TILE[0]);
    let sum = b.for_loop(first, end, TILE[0], &[none], |b, row, sum| {
        let t = b.load(weights, &[h, row, col], &[1, TILE[0], TILE[1]]);
        let t = b.reshape(t, &TILE);
        let [r, c] = [(row, 0), (col, 1)].map(|(first, axis)| {
            let steps = b.iota(&TILE, axis);
            b.add(steps, first)
        });
        let behind = b.cmp(CmpOp::Le, c, r);
        let none = b.full(&TILE, 0, WORD);
        let t = b.select(behind, t, none);
        let t = b.reduce(ReduceOp::Add, t, 0);
        vec![b.add(sum[0], t)]
    })[0];
    let sum = b.reshape(sum, &[1, TILE[1]]);
    b.store(to, &[h, col], sum);
    g.step("received", b.finish()?, [programs(rows, TILE[1]), heads, 1], &[p.into(), y.into()]);
    g.bound(y, f64::from(rows) * 8.0 * unit(WORD), 0.0);
    Ok(g)
}
