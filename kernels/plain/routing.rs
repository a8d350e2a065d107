//! Routing of tokens to experts: softmax of a row's logits, the 8 largest with their positions, divided by their sum.
//!
//! Logits are multiples of 1/64, so weights of different logits are apart by more than all roundings and positions are the same in any way.

use super::operators::{Fill, Operators, unit};
use crate::facts::{known, matrix, programs};
use crate::softmax::Softmax;
use tilelift_ir::{Access, BuildErrors, Kernel, KernelBuilder, ReduceOp, Scalar, SortOrder};

/// Experts for a token.
const CHOSEN: u32 = 8;
/// Rows of a program that selects, and of one that divides.
const ROWS: [u32; 2] = [1, 128];

/// `w, i = top_8(softmax(x))`, `y = w / sum w`.
///
/// # Errors
/// The builder's.
pub fn routing(rows: u32, experts: u32) -> Result<Operators, BuildErrors> {
    let (mut g, elem) = (Operators::default(), Scalar::F32);
    let x = g.filled("x", elem, &[rows, experts], Fill::Multiples(-4.0, 4.0, 1.0 / 64.0));
    let p = g.between("p", elem, &[rows, experts]);
    let w = g.between("w", elem, &[rows, CHOSEN]);
    let positions = g.output("positions", Scalar::I32, &[rows, CHOSEN]);
    let y = g.output("y", elem, &[rows, CHOSEN]);
    let softmax = Softmax::new(elem, experts).for_shape(rows, experts);
    g.step("softmax", softmax.build()?, softmax.grid(rows), &[x.into(), p.into()]);
    g.step("select", select(rows, experts)?, [programs(rows, ROWS[0]), 1, 1], &[p.into(), w.into(), positions.into()]);
    g.step("normalise", normalise(rows)?, [programs(rows, ROWS[1]), 1, 1], &[w.into(), y.into()]);
    // Exponentials and quotients are off by 2^-21 each, sums by a unit for each term.
    g.bound(y, 0.0, 2.0 * (4.0 * 2f64.powi(-21) + f64::from(experts + CHOSEN) * unit(elem)));
    Ok(g)
}

/// The largest of each row and their positions.
fn select(rows: u32, cols: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("select");
    b.warps(1);
    let x = b.param(matrix(Scalar::F32, known(rows), known(cols)));
    let values = b.param(matrix(Scalar::F32, known(rows), known(CHOSEN)));
    let positions = b.param(matrix(Scalar::I32, known(rows), known(CHOSEN)));
    let (pid, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let row = b.mul(pid, ROWS[0]);
    let other = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    let t = b.load_with(x, &[row, zero], &[ROWS[0], cols.next_power_of_two()], other);
    let (v, i) = b.top_k(SortOrder::Descending, t, 1, CHOSEN);
    b.store(values, &[row, zero], v);
    b.store(positions, &[row, zero], i);
    b.finish()
}

/// Rows divided by their sums.
fn normalise(rows: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("normalise");
    b.warps(1);
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F32, known(rows), known(CHOSEN))));
    let (pid, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let row = b.mul(pid, ROWS[1]);
    let t = b.load(x, &[row, zero], &[ROWS[1], CHOSEN]);
    let sum = b.reduce_keep(ReduceOp::Add, t, 1);
    let t = b.div(t, sum);
    b.store(y, &[row, zero], t);
    b.finish()
}
