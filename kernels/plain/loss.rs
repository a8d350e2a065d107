//! Softmax cross entropy: `loss[row] = log(sum exp(x[row, :] - max)) + max - x[row, target[row]]`.

use super::operators::{Fill, Operators, unit};
use super::rows;
use crate::facts::programs;
use tilelift_ir::{BuildErrors, KernelBuilder, ReduceOp, Scalar};

/// Rows of a program that picks elements.
const PICKED: u32 = 128;

/// The graph.
///
/// # Errors
/// The builder's.
pub fn cross_entropy(count: u32, vocabulary: u32) -> Result<Operators, BuildErrors> {
    let (mut g, word) = (Operators::default(), Scalar::F32);
    let x = g.filled("x", Scalar::BF16, &[count, vocabulary], Fill::Between(-8.0, 8.0));
    let target = g.filled("target", Scalar::I32, &[count, 1], Fill::Below(vocabulary));
    let [most, sum, log, picked] = ["most", "sum", "log", "picked"].map(|name| g.between(name, word, &[count, 1]));
    let e = g.between("e", word, &[count, vocabulary]);
    let loss = g.output("loss", word, &[count, 1]);
    rows::fold(&mut g, "max", ReduceOp::Maximum, [x, most])?;
    g.pointwise("exp", &[x, most], &[e], |b, t| {
        let t = b.sub(t[0], t[1]);
        vec![b.exp(t)]
    })?;
    rows::fold(&mut g, "sum", ReduceOp::Add, [e, sum])?;
    g.pointwise("log", &[sum, most], &[log], |b, t| {
        let l = b.log(t[0]);
        vec![b.add(l, t[1])]
    })?;
    let mut b = KernelBuilder::new("pick");
    b.warps(4);
    let params = [x, target, picked].map(|id| b.param(g.view(id)));
    let (pid, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let row = b.mul(pid, PICKED);
    let at = b.load(params[1], &[row, zero], &[PICKED, 1]);
    let steps = b.iota(&[PICKED, 1], 0);
    let line = b.add(steps, row);
    let t = b.gather(params[0], &[line, at], Default::default());
    let t = b.cast(t, word);
    b.store(params[2], &[row, zero], t);
    g.step("pick", b.finish()?, [programs(count, PICKED), 1, 1], &[x.into(), target.into(), picked.into()]);
    g.pointwise("loss", &[log, picked], &[loss], |b, t| vec![b.sub(t[0], t[1])])?;
    // The sum is at least 1: what it is off by, relative, its logarithm is off by. A loop rounds once more a step.
    let relative = 2f64.powi(-20) + 2.0 * f64::from(vocabulary) * unit(word);
    g.bound(loss, 2.0 * (relative.min(1.0) + 64.0 * unit(word)), 2f64.powi(-20));
    Ok(g)
}
