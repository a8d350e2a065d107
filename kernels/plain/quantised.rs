//! A residual is added, rows are normalised, and stored as 8-bit floats with a scale for each row.

use super::operators::{Operators, unit};
use crate::facts::{known, matrix, programs};
use crate::rms_norm::RmsNorm;
use crate::softmax::row_warps;
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, ReduceOp, Scalar, num};

/// Magnitudes below this count as this, so that a scale is never 0.
const LEAST: f64 = 1e-4;
/// The distance of the smallest codes of `f8e4m3`.
const LEAST_STEP: f64 = 1.0 / 512.0;

/// `h = x + residual`, `q = rms_norm(h) / s` with `s[row] = max |rms_norm(h)[row, :]| / 448`.
///
/// # Errors
/// The builder's.
pub fn residual_norm_quantise(rows: u32, cols: u32) -> Result<Operators, BuildErrors> {
    let (mut g, elem) = (Operators::default(), Scalar::BF16);
    let (x, residual) = (g.input("x", elem, &[rows, cols]), g.input("residual", elem, &[rows, cols]));
    let w = g.input("w", elem, &[cols]);
    let h = g.output("h", elem, &[rows, cols]);
    let n = g.between("n", elem, &[rows, cols]);
    let q = g.output("q", Scalar::F8E4M3, &[rows, cols]);
    let s = g.output("s", Scalar::F32, &[rows, 1]);
    g.pointwise("add", &[x, residual], &[h], |b, t| vec![b.add(t[0], t[1])])?;
    let norm = RmsNorm::new(elem, cols).for_shape(rows, cols);
    g.step("norm", norm.build()?, norm.grid(rows), &[h.into(), w.into(), n.into(), 1e-5.into()]);
    g.step("quantise", quantise_rows(elem, Scalar::F8E4M3, rows, cols)?, [programs(rows, 1), 1, 1], &[n.into(), q.into(), s.into()]);
    // The norm may go on without being rounded, and with it the largest element, so that quotients in between of two codes become either.
    let code = Scalar::F8E4M3;
    g.bound(s, 0.0, 2.0 * unit(elem));
    g.bound(q, LEAST_STEP, 2.0 * unit(code));
    Ok(g)
}

/// `s[row] = max(max |x[row, :]|, 1e-4) / largest(to)`, `q = x / s`.
fn quantise_rows(from: Scalar, to: Scalar, rows: u32, cols: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("quantise_rows");
    let wide = cols.next_power_of_two();
    b.warps(row_warps(wide));
    let x = b.param(matrix(from, known(rows), known(cols)));
    let q = b.param(matrix(to, known(rows), known(cols)));
    let s = b.param(matrix(Scalar::F32, known(rows), known(1)));
    let (row, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let t = b.load(x, &[row, zero], &[1, wide]);
    let t = b.cast(t, Scalar::F32);
    let size = b.abs(t);
    let most = b.reduce_keep(ReduceOp::Maximum, size, 1);
    let most = b.maximum(most, LEAST);
    let scale = b.div(most, num::largest(to));
    b.store(s, &[row, zero], scale);
    let t = b.div(t, scale);
    let t = b.cast(t, to);
    b.store(q, &[row, zero], t);
    b.finish()
}
