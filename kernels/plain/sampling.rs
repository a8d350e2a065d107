//! Sampling of a token for each row: logits over a temperature, softmax, and the largest quotient of a weight and exponential noise, which
//! is a sample of the softmax (as the largest sum of a logit and Gumbel noise).

use super::operators::{Fill, Operators};
use super::rows;
use tilelift_ir::{BuildErrors, ReduceOp, Scalar};

/// The seed of the noise.
const SEED: i32 = 12345;
const TEMPERATURE: f32 = 0.75;

/// The graph.
///
/// # Errors
/// The builder's.
pub fn sampling(count: u32, vocabulary: u32) -> Result<Operators, BuildErrors> {
    let (mut g, word) = (Operators::default(), Scalar::F32);
    let whole = [count, vocabulary];
    let x = g.filled("x", Scalar::BF16, &whole, Fill::Between(-8.0, 8.0));
    let [t, e, p, noise, quotient] = ["t", "e", "p", "noise", "quotient"].map(|name| g.between(name, word, &whole));
    let [most, sum] = ["most", "sum"].map(|name| g.between(name, word, &[count, 1]));
    let token = g.output("token", Scalar::I32, &[count, 1]);
    g.pointwise("temperature", &[x], &[t], |b, t| vec![b.mul(t[0], 1.0 / TEMPERATURE)])?;
    rows::fold(&mut g, "max", ReduceOp::Maximum, [t, most])?;
    g.pointwise("exp", &[t, most], &[e], |b, t| {
        let t = b.sub(t[0], t[1]);
        vec![b.exp(t)]
    })?;
    rows::fold(&mut g, "sum", ReduceOp::Add, [e, sum])?;
    g.pointwise("weights", &[e, sum], &[p], |b, t| vec![b.div(t[0], t[1])])?;
    rows::noise(&mut g, "noise", SEED, noise)?;
    g.pointwise("quotient", &[p, noise], &[quotient], |b, t| vec![b.div(t[0], t[1])])?;
    rows::largest(&mut g, "largest", [quotient, token])?;
    Ok(g)
}
