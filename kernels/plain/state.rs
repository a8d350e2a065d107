//! A step of a selective state space (Mamba), one token a row:
//!
//! ```text
//! d = softplus(dt + bias)          per row and channel
//! a = exp(d * A)                   per row, channel and state
//! u = d * B * x
//! h = h * a + u                    the state, in place
//! y = (sum over states of h * C) + D * x, times silu(z)
//! ```

use super::operators::{Operators, unit};
use crate::activation::Activation;
use crate::facts::programs;
use tilelift_ir::{BuildErrors, CmpOp, KernelBuilder, ReduceOp, Scalar};

const ELEM: Scalar = Scalar::BF16;
const WORD: Scalar = Scalar::F32;
/// Channels of a program that adds up states.
const CHANNELS: u32 = 256;

/// The graph.
///
/// # Errors
/// The builder's.
pub fn state_update(rows: u32, width: u32, states: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let [dt, x, z] = ["dt", "x", "z"].map(|name| g.input(name, ELEM, &[rows, width, 1]));
    let [bias, skip] = ["bias", "skip"].map(|name| g.input(name, WORD, &[1, width, 1]));
    let decay = g.input("decay", WORD, &[1, width, states]);
    let [from, to] = ["from", "to"].map(|name| g.input(name, ELEM, &[rows, 1, states]));
    let cube = [rows, width, states];
    let h = g.input("h", WORD, &cube);
    let d = g.between("d", WORD, &[rows, width, 1]);
    let [a, u] = ["a", "u"].map(|name| g.between(name, WORD, &cube));
    let next = g.output("next", WORD, &cube);
    let [sum, s] = ["sum", "s"].map(|name| g.between(name, WORD, &[rows, width, 1]));
    let y = g.output("y", ELEM, &[rows, width, 1]);
    g.pointwise("softplus", &[dt, bias], &[d], |b, t| {
        let t = b.add(t[0], t[1]);
        let e = b.exp(t);
        let e = b.add(e, 1.0);
        let l = b.log(e);
        let large = b.cmp(CmpOp::Gt, t, 20.0);
        vec![b.select(large, t, l)]
    })?;
    g.pointwise("discretise", &[d, decay], &[a], |b, t| {
        let t = b.mul(t[0], t[1]);
        vec![b.exp(t)]
    })?;
    g.pointwise("input", &[d, from, x], &[u], |b, t| {
        let l = b.mul(t[0], t[2]);
        vec![b.mul(l, t[1])]
    })?;
    g.pointwise("update", &[h, a, u], &[next], |b, t| {
        let l = b.mul(t[0], t[1]);
        vec![b.add(l, t[2])]
    })?;
    let mut b = KernelBuilder::new("output");
    b.warps(4);
    let params = [next, to, sum].map(|id| b.param(g.view(id)));
    let (c, row, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    let col = b.mul(c, CHANNELS);
    let wide = states.next_power_of_two();
    let t = b.load(params[0], &[row, col, zero], &[1, CHANNELS, wide]);
    let by = b.load(params[1], &[row, zero, zero], &[1, 1, wide]);
    let by = b.cast(by, WORD);
    let t = b.mul(t, by);
    let t = b.reduce_keep(ReduceOp::Add, t, 2);
    b.store(params[2], &[row, col, zero], t);
    g.step("output", b.finish()?, [programs(width, CHANNELS), rows, 1], &[next.into(), to.into(), sum.into()]);
    g.pointwise("skip", &[sum, x, skip], &[s], |b, t| {
        let l = b.mul(t[1], t[2]);
        vec![b.add(t[0], l)]
    })?;
    g.pointwise("gate", &[s, z], &[y], |b, t| {
        let l = Activation::Silu.apply(b, t[1]);
        vec![b.mul(t[0], l)]
    })?;
    // Numbers are at most 2.4; functions are off by 2^-20, products and sums by a unit each.
    g.bound(next, 2f64.powi(-17), 0.0);
    g.bound(y, f64::from(states) * 2f64.powi(-16), 2.0 * unit(ELEM));
    Ok(g)
}
