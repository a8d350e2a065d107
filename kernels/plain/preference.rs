//! The loss of preferences (DPO) as libraries compose it: log-likelihoods are losses with their sign turned, and the loss of a margin is a
//! softplus with two of them.
//!
//! ```text
//! logp = -loss, four times    margin = beta * ((chosen - rejected) - (chosen_ref - rejected_ref))
//! loss = -log_sigmoid(margin),  log_sigmoid(x) = -softplus(-x),  softplus(x) = max(x, 0) + log(1 + exp(-|x|))
//! ```

use super::operators::{Operators, unit};
use tilelift_ir::{BuildErrors, Scalar};

const WORD: Scalar = Scalar::F32;
const BETA: f32 = 0.1;

/// The graph, over losses of sequences.
///
/// # Errors
/// The builder's.
pub fn preference(sequences: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let all = [sequences];
    let names = [
        ["chosen_loss", "chosen"],
        ["rejected_loss", "rejected"],
        ["chosen_loss_ref", "chosen_ref"],
        ["rejected_loss_ref", "rejected_ref"],
    ];
    let mut logs = Vec::new();
    for (i, [loss, log]) in names.into_iter().enumerate() {
        let (loss, log) = (g.input(loss, WORD, &all), g.between(log, WORD, &all));
        // Some exporters have no negation but a product.
        g.pointwise("negate", &[loss], &[log], |b, t| vec![if i < 2 { b.neg(t[0]) } else { b.mul(t[0], -1.0) }])?;
        logs.push(log);
    }
    let [ratio, ratio_ref, margin, likely] = ["ratio", "ratio_ref", "margin", "likely"].map(|name| g.between(name, WORD, &all));
    let (y, reward) = (g.output("y", WORD, &all), g.output("reward", WORD, &all));
    g.pointwise("ratio", &logs[..2], &[ratio], |b, t| vec![b.sub(t[0], t[1])])?;
    g.pointwise("ratio_ref", &logs[2..], &[ratio_ref], |b, t| vec![b.sub(t[0], t[1])])?;
    g.pointwise("margin", &[ratio, ratio_ref], &[margin], |b, t| {
        let t = b.sub(t[0], t[1]);
        vec![b.mul(t, BETA)]
    })?;
    g.pointwise("log_sigmoid", &[margin], &[likely], |b, t| {
        let x = b.neg(t[0]);
        let positive = b.maximum(x, 0.0);
        let size = b.abs(x);
        let minus = b.neg(size);
        let e = b.exp(minus);
        let e = b.add(e, 1.0);
        let l = b.log(e);
        let soft = b.add(positive, l);
        vec![b.neg(soft)]
    })?;
    g.pointwise("loss", &[likely], &[y], |b, t| vec![b.neg(t[0])])?;
    g.pointwise("reward", &[logs[0], logs[2]], &[reward], |b, t| {
        let t = b.sub(t[0], t[1]);
        vec![b.mul(t, BETA)]
    })?;
    g.bound(y, 2f64.powi(-18), 4.0 * unit(WORD));
    g.bound(reward, 2f64.powi(-20), 4.0 * unit(WORD));
    Ok(g)
}
