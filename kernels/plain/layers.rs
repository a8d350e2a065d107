//! Parts of a transformer's layer: products of rows with weights that are stored `N x K`, as engines have them, and what stands around them.
//!
//! Rows of a normalised matrix and weights are such that sums are about 1. Errors of single roundings are independent of one another: a sum
//! of `k` terms, each off by `u`, is off by a unit as a rule, and by eight units with six standard deviations in both ways.

use super::operators::{Fill, Id, Operators, unit};
use crate::activation::Activation;
use crate::facts::{known, programs};
use crate::gemm::Gemm;
use crate::layer_norm::LayerNorm;
use crate::plan::{Candidate, DeviceFacts, Problem, Sharing, ranked};
use crate::rms_norm::RmsNorm;
use tilelift_ir::{Access, BuildErrors, Kernel, KernelBuilder, Scalar, ViewType};
use tilelift_lane::Target;

/// The element type of all graphs here.
const ELEM: Scalar = Scalar::BF16;
/// Units by which sums of products of rounded numbers are apart, and units of the element itself: two roundings.
const ABSOLUTE: f64 = 8.0;
const RELATIVE: f64 = 2.0;
/// Elements of a head.
const HEAD: u32 = 128;
/// Rows and columns of a program's tile in kernels over heads.
const HEAD_ROWS: u32 = 32;

/// The kernel that the planner of products chooses. What a graph launches is one kernel with the compiler's consumers.
fn planned(problem: &Problem, target: &Target) -> Gemm {
    let plain = |c: &Candidate| c.sharing == Sharing::Whole && c.options.consumer_sets.unwrap_or(1) == 1 && !c.gemm.swapped;
    let found = ranked(problem, &DeviceFacts::usual(target)).ok().and_then(|all| all.into_iter().find(plain));
    let (trans, [m, n, k]) = (problem.trans, problem.shape);
    found.map_or_else(|| Gemm::new(problem.elem).transposed(trans.0, trans.1).for_shape(m, n, k), |c| c.gemm)
}

/// `to = from · wᵀ`, with the tile that the planner of products chooses for the target.
pub(super) fn linear(g: &mut Operators, name: &'static str, [from, w, to]: [Id; 3], target: &Target) -> Result<(), BuildErrors> {
    let [m, k] = g.matrix(from);
    let [_, n] = g.matrix(to);
    let gemm = planned(&Problem::new(ELEM, [m, n, k]).transposed(false, true), target);
    g.step(name, gemm.build()?, gemm.grid(m, n), &[from.into(), w.into(), to.into()]);
    g.counts(ELEM, [m, n, k]);
    Ok(())
}

fn near(g: &mut Operators, id: Id) {
    g.bound(id, ABSOLUTE * unit(ELEM), RELATIVE * unit(ELEM));
}

/// RMSNorm, three products, rotary embedding of queries and keys, keys and values into a cache at the slots of their rows.
///
/// # Errors
/// The builder's.
pub fn qkv(rows: u32, width: u32, heads: [u32; 2], target: &Target) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let [wide, narrow] = heads.map(|h| h * HEAD);
    let (x, scale) = (g.input("x", ELEM, &[rows, width]), g.input("scale", ELEM, &[width]));
    let [wq, wk, wv] = [("wq", wide), ("wk", narrow), ("wv", narrow)].map(|(name, n)| g.weight(name, ELEM, &[n, width], width));
    let [cos, sin] = ["cos", "sin"].map(|name| g.input(name, Scalar::F32, &[rows, HEAD / 2]));
    // Rows take every other slot of the cache.
    let slots = g.filled("slots", Scalar::I32, &[rows], Fill::Steps(2));
    let n = g.between("n", ELEM, &[rows, width]);
    let [q, k, v] = [("q", wide), ("k", narrow), ("v", narrow)].map(|(name, n)| g.between(name, ELEM, &[rows, n]));
    let turned = g.output("q_turned", ELEM, &[rows, wide]);
    let k_turned = g.between("k_turned", ELEM, &[rows, narrow]);
    let written = u64::from(rows) * u64::from(narrow);
    let [k_cache, v_cache] = ["k_cache", "v_cache"].map(|name| g.updated(name, ELEM, &[2 * rows, narrow], written));
    let norm = RmsNorm::new(ELEM, width).for_shape(rows, width);
    g.step("norm", norm.build()?, norm.grid(rows), &[x.into(), scale.into(), n.into(), 1e-5.into()]);
    linear(&mut g, "query", [n, wq, q], target)?;
    linear(&mut g, "key", [n, wk, k], target)?;
    linear(&mut g, "value", [n, wv, v], target)?;
    for (name, from, to, heads) in [("rotary_q", q, turned, heads[0]), ("rotary_k", k, k_turned, heads[1])] {
        let kernel = rotary(rows, heads * HEAD)?;
        g.step(name, kernel, [heads, programs(rows, HEAD_ROWS), 1], &[from.into(), cos.into(), sin.into(), to.into()]);
    }
    for (name, from, to) in [("cache_k", k_turned, k_cache), ("cache_v", v, v_cache)] {
        let kernel = cache(rows, narrow)?;
        g.step(name, kernel, [heads[1], programs(rows, HEAD_ROWS), 1], &[from.into(), slots.into(), to.into()]);
    }
    for id in [turned, k_cache, v_cache] {
        near(&mut g, id);
    }
    Ok(g)
}

/// Turns pairs of elements half a head apart.
fn rotary(rows: u32, cols: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("rotary");
    b.warps(4);
    let x = b.param(ViewType::dense(ELEM, &[known(rows), known(cols)]));
    let table = ViewType::dense(Scalar::F32, &[known(rows), known(HEAD / 2)]);
    let (cos, sin) = (b.param(table.clone()), b.param(table));
    let y = b.param(ViewType::dense(ELEM, &[known(rows), known(cols)]));
    let (h, r) = (b.program_id(0), b.program_id(1));
    let (col, row, zero) = (b.mul(h, HEAD), b.mul(r, HEAD_ROWS), b.constant(0, Scalar::I32));
    let half = [HEAD_ROWS, HEAD / 2];
    let t = b.load(x, &[row, col], &[HEAD_ROWS, HEAD]);
    let t = b.cast(t, Scalar::F32);
    let (c, s) = (b.load(cos, &[row, zero], &half), b.load(sin, &[row, zero], &half));
    let (x1, x2) = (b.slice(t, &[0, 0], &half), b.slice(t, &[0, HEAD / 2], &half));
    let (p, q) = (b.mul(x1, c), b.mul(x2, s));
    let y1 = b.sub(p, q);
    let (p, q) = (b.mul(x2, c), b.mul(x1, s));
    let y2 = b.add(p, q);
    let t = b.concat(y1, y2, 1);
    let t = b.cast(t, ELEM);
    b.store(y, &[row, col], t);
    b.finish()
}

/// Writes rows to their slots; a row without one (-1) goes nowhere.
fn cache(rows: u32, cols: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("cache");
    b.warps(4);
    let x = b.param(ViewType::dense(ELEM, &[known(rows), known(cols)]));
    let slots = b.param(ViewType::dense(Scalar::I32, &[known(rows)]));
    let y = b.param(ViewType::dense(ELEM, &[known(2 * rows), known(cols)]));
    let (h, r) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(h, HEAD), b.mul(r, HEAD_ROWS));
    let tile = [HEAD_ROWS, HEAD];
    let t = b.load(x, &[row, col], &tile);
    let nowhere = b.constant(-1, Scalar::I32);
    let slot = b.load_with(slots, &[row], &tile[..1], Access { other: Some(nowhere.into()), ..Access::default() });
    let slot = b.expand_dims(slot, 1);
    let slot = b.broadcast(slot, &tile);
    let steps = b.iota(&tile, 1);
    let at = b.add(steps, col);
    b.scatter(y, &[slot, at], t, None);
    b.finish()
}

/// `y = (silu(x · gateᵀ) * (x · upᵀ)) · downᵀ + x`.
///
/// # Errors
/// The builder's.
pub fn swiglu(rows: u32, width: u32, inner: u32, target: &Target) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let x = g.input("x", ELEM, &[rows, width]);
    let [gate, up] = ["w_gate", "w_up"].map(|name| g.weight(name, ELEM, &[inner, width], width));
    let down = g.weight("w_down", ELEM, &[width, inner], inner);
    let [p, q, a] = ["gate", "up", "a"].map(|name| g.between(name, ELEM, &[rows, inner]));
    let d = g.between("d", ELEM, &[rows, width]);
    let y = g.output("y", ELEM, &[rows, width]);
    linear(&mut g, "gate", [x, gate, p], target)?;
    linear(&mut g, "up", [x, up, q], target)?;
    g.pointwise("silu_mul", &[p, q], &[a], |b, t| {
        let gate = Activation::Silu.apply(b, t[0]);
        vec![b.mul(gate, t[1])]
    })?;
    linear(&mut g, "down", [a, down, d], target)?;
    g.pointwise("residual", &[d, x], &[y], |b, t| vec![b.add(t[0], t[1])])?;
    near(&mut g, y);
    Ok(g)
}

/// `y = gelu(layer_norm(x) · w1ᵀ + b1) · w2ᵀ + b2 + x`.
///
/// # Errors
/// The builder's.
pub fn gelu_mlp(rows: u32, width: u32, inner: u32, target: &Target) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let x = g.input("x", ELEM, &[rows, width]);
    let [scale, shift] = ["scale", "shift"].map(|name| g.input(name, ELEM, &[width]));
    let (w1, b1) = (g.weight("w1", ELEM, &[inner, width], width), g.input("b1", ELEM, &[inner]));
    let (w2, b2) = (g.weight("w2", ELEM, &[width, inner], inner), g.input("b2", ELEM, &[width]));
    let n = g.between("n", ELEM, &[rows, width]);
    let [t, u] = ["t", "u"].map(|name| g.between(name, ELEM, &[rows, inner]));
    let [s, z] = ["s", "z"].map(|name| g.between(name, ELEM, &[rows, width]));
    let y = g.output("y", ELEM, &[rows, width]);
    let norm = LayerNorm::new(ELEM, width, false).for_shape(rows, width);
    g.step("norm", norm.build()?, norm.grid(rows), &[x.into(), scale.into(), shift.into(), n.into(), 1e-5.into()]);
    linear(&mut g, "first", [n, w1, t], target)?;
    g.pointwise("bias_gelu", &[t, b1], &[u], |b, t| {
        let sum = b.add(t[0], t[1]);
        vec![Activation::Gelu.apply(b, sum)]
    })?;
    linear(&mut g, "second", [u, w2, s], target)?;
    g.pointwise("bias", &[s, b2], &[z], |b, t| vec![b.add(t[0], t[1])])?;
    g.pointwise("residual", &[z, x], &[y], |b, t| vec![b.add(t[0], t[1])])?;
    near(&mut g, y);
    Ok(g)
}

/// `y = act(rms_norm(x) · w + bias) + residual`.
///
/// # Errors
/// The builder's.
pub fn layer(elem: Scalar, activation: Activation, [m, n, k]: [u32; 3], target: &Target) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let (x, scale) = (g.input("x", elem, &[m, k]), g.input("scale", elem, &[k]));
    let (w, bias) = (g.weight("w", elem, &[k, n], k), g.input("bias", Scalar::F32, &[n]));
    let residual = g.input("residual", elem, &[m, n]);
    let [h, t, u] = [("h", k), ("t", n), ("u", n)].map(|(name, cols)| g.between(name, elem, &[m, cols]));
    let y = g.output("y", elem, &[m, n]);
    let norm = RmsNorm::new(elem, k).for_shape(m, k);
    g.step("norm", norm.build()?, norm.grid(m), &[x.into(), scale.into(), h.into(), 1e-5.into()]);
    let gemm = planned(&Problem::new(elem, [m, n, k]), target);
    g.step("product", gemm.build()?, gemm.grid(m, n), &[h.into(), w.into(), t.into()]);
    g.counts(elem, [m, n, k]);
    g.pointwise("bias_act", &[t, bias], &[u], |b, t| {
        let sum = b.add(t[0], t[1]);
        vec![activation.apply(b, sum)]
    })?;
    g.pointwise("residual", &[u, residual], &[y], |b, t| vec![b.add(t[0], t[1])])?;
    Ok(g)
}
