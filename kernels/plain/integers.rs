//! Products of quantised numbers as exporters decompose them: integers become floats, are scaled, and floats are multiplied. Nothing says that
//! the product is one of integers.
//!
//! ```text
//! w8a8            q = round(x / s), s per row     (q - 0) * s     (w - 0) * t, t per row     product     1 * product + 1 * bias
//! fake_quantised  q = round(x * s), s per row     q / s           w / t, t for all           product, relu
//! w4a16           two codes of 4 bits a byte      (code - 8) * scale, of 128 along k         product
//! ```

use super::layers::linear;
use super::operators::{Fill, Id, Operators, unit};
use crate::facts::{known, matrix, programs};
use crate::softmax::row_warps;
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, ReduceOp, Scalar, Value};
use tilelift_lane::Target;

const ELEM: Scalar = Scalar::BF16;
const WORD: Scalar = Scalar::F32;
/// The largest code of 8 bits.
const MOST: f64 = 127.0;
/// Magnitudes of a row below this count as this.
const LEAST: f64 = 1e-5;
/// Elements along k that share a scale, and rows of weights that a program unpacks.
const GROUP: u32 = 128;
const UNPACKED: u32 = 64;
/// Rows and columns of a product's tile, and its steps along k.
const TILE: [u32; 2] = [128, 128];
const STEP: u32 = 64;

/// How scales are applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scales {
    /// Codes are numbers over a scale: what SmoothQuant's exported graph does, between observers' pairs of operators.
    Multiply,
    /// Codes are numbers times a scale: how BitNet and quantisation-aware training write it.
    Divide,
}

/// `y = x · wᵀ + bias` of 8-bit codes with a scale for each row of `x` and of `w`.
///
/// # Errors
/// The builder's.
pub fn w8a8(rows: u32, width: u32, cols: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let (w, t) = (g.filled("w", Scalar::I8, &[cols, width], Fill::Below(256)), g.filled("t", WORD, &[cols, 1], small(width)));
    let bias = g.input("bias", WORD, &[cols]);
    let (a, b) = operands(&mut g, [rows, width, cols], Scales::Multiply, [w, t])?;
    let [p, y] = [g.between("p", WORD, &[rows, cols]), g.output("y", ELEM, &[rows, cols])];
    product(&mut g, [a, b, p])?;
    g.pointwise("addmm", &[p, bias], &[y], |b, t| {
        let plus = b.mul(t[1], 1.0);
        vec![b.fma(t[0], 1.0, plus)]
    })?;
    g.bound(y, 8.0 * unit(ELEM), 2.0 * unit(ELEM));
    Ok(g)
}

/// `y = relu(x · wᵀ)` of 8-bit codes with a scale for each row of `x` and one for all of `w`.
///
/// # Errors
/// The builder's.
pub fn fake_quantised(rows: u32, width: u32, cols: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let w = g.filled("w", Scalar::I8, &[cols, width], Fill::Below(2));
    let t = g.filled("t", WORD, &[1, 1], Fill::Between(f64::from(width).sqrt(), 2.0 * f64::from(width).sqrt()));
    let (a, b) = operands(&mut g, [rows, width, cols], Scales::Divide, [w, t])?;
    let [p, y] = [g.between("p", WORD, &[rows, cols]), g.output("y", ELEM, &[rows, cols])];
    product(&mut g, [a, b, p])?;
    // A clamp without an upper bound, as languages write it whose clamp has two.
    g.pointwise("relu", &[p], &[y], |b, t| {
        let t = b.maximum(t[0], 0.0);
        vec![b.minimum(t, f64::INFINITY)]
    })?;
    g.bound(y, 8.0 * unit(ELEM), 2.0 * unit(ELEM));
    Ok(g)
}

/// Scales of weights whose codes are up to 128, for sums over `depth` of about 1.
fn small(depth: u32) -> Fill {
    let most = (3.0 / f64::from(depth)).sqrt() / 128.0;
    Fill::Between(0.5 * most, most)
}

/// Rows quantised, and codes made floats again, of both operands.
fn operands(g: &mut Operators, [rows, width, cols]: [u32; 3], scales: Scales, [w, t]: [Id; 2]) -> Result<(Id, Id), BuildErrors> {
    let x = g.input("x", ELEM, &[rows, width]);
    let (q, s) = (g.between("q", Scalar::I8, &[rows, width]), g.between("s", WORD, &[rows, 1]));
    g.step("quantise", quantise([rows, width], scales)?, [programs(rows, 1), 1, 1], &[x.into(), q.into(), s.into()]);
    let (a, b) = (g.between("a", WORD, &[rows, width]), g.between("b", WORD, &[cols, width]));
    for (name, codes, by, to) in [("dequantise_x", q, s, a), ("dequantise_w", w, t, b)] {
        g.pointwise(name, &[codes, by], &[to], |b, t| {
            let codes = b.cast(t[0], WORD);
            vec![match scales {
                Scales::Multiply => {
                    // The zero point of a symmetric quantisation.
                    let codes = b.sub(codes, 0.0);
                    b.mul(codes, t[1])
                }
                Scales::Divide => b.div(codes, t[1]),
            }]
        })?;
    }
    Ok((a, b))
}

/// Codes of rows, and a scale for each.
fn quantise([rows, width]: [u32; 2], scales: Scales) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("quantise");
    let wide = width.next_power_of_two();
    b.warps(row_warps(wide));
    let x = b.param(matrix(ELEM, known(rows), known(width)));
    let q = b.param(matrix(Scalar::I8, known(rows), known(width)));
    let s = b.param(matrix(WORD, known(rows), known(1)));
    let (row, zero) = (b.program_id(0), b.constant(0, Scalar::I32));
    let t = b.load(x, &[row, zero], &[1, wide]);
    let t = b.cast(t, WORD);
    let size = b.abs(t);
    let most = b.reduce_keep(ReduceOp::Maximum, size, 1);
    let most = b.maximum(most, LEAST);
    let scale = if scales == Scales::Multiply {
        b.div(most, MOST)
    } else {
        let all = b.full(&[1, 1], MOST, WORD);
        b.div(all, most)
    };
    b.store(s, &[row, zero], scale);
    let t = if scales == Scales::Multiply { b.div(t, scale) } else { b.mul(t, scale) };
    let t = b.round(t);
    let t = b.maximum(t, -MOST - 1.0);
    let t = b.minimum(t, MOST);
    let t = b.cast(t, Scalar::I8);
    b.store(q, &[row, zero], t);
    b.finish()
}

/// `to = a · bᵀ` in `tf32`, as engines multiply floats.
fn product(g: &mut Operators, [a, b, to]: [Id; 3]) -> Result<(), BuildErrors> {
    let [[m, k], [_, n]] = [a, to].map(|id| g.matrix(id));
    let mut f = KernelBuilder::new("product");
    f.warps(8);
    let views = [a, b, to].map(|id| f.param(g.view(id)));
    let (j, i, zero) = (f.program_id(0), f.program_id(1), f.constant(0, Scalar::I32));
    let (col, row) = (f.mul(j, TILE[1]), f.mul(i, TILE[0]));
    // Shapes are static: the depth is a number.
    let none = f.full(&TILE, 0, WORD);
    let sum = f.for_loop(zero, k, STEP, &[none], |f, k, sum| {
        let left = f.load(views[0], &[row, k], &[TILE[0], STEP]);
        let right = f.load(views[1], &[col, k], &[TILE[1], STEP]);
        let right = f.transpose(right, &[1, 0]);
        vec![f.dot_tf32(left, right, sum[0])]
    })[0];
    f.store(views[2], &[row, col], sum);
    g.step("product", f.finish()?, [programs(n, TILE[1]), programs(m, TILE[0]), 1], &[a.into(), b.into(), to.into()]);
    g.counts(Scalar::I8, [m, n, k]);
    Ok(())
}

/// `y = x · wᵀ` of weights that are codes of 4 bits, two in a byte, with a scale for each 128 of a row.
///
/// # Errors
/// The builder's.
pub fn w4a16(rows: u32, width: u32, cols: u32, target: &Target) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let x = g.input("x", ELEM, &[rows, width]);
    let codes = g.filled("codes", Scalar::I8, &[cols, width / 2], Fill::Below(256));
    // Codes less 8 are up to 8.
    let most = (3.0 / f64::from(width)).sqrt() / 8.0;
    let scales = g.filled("scales", WORD, &[cols, width / GROUP], Fill::Between(0.5 * most, most));
    let w = g.between("w", ELEM, &[cols, width]);
    let y = g.output("y", ELEM, &[rows, cols]);
    let kernel = unpack(&g, [codes, scales, w], width)?;
    g.step("unpack", kernel, [programs(cols, UNPACKED), 1, 1], &[codes.into(), scales.into(), w.into()]);
    linear(&mut g, "product", [x, w, y], target)?;
    g.bound(y, 8.0 * unit(ELEM), 2.0 * unit(ELEM));
    Ok(g)
}

/// Codes of a group after the other: the same shift and mask for each of a byte's codes, and positions as shader languages compute them, without
/// a sign.
fn unpack(g: &Operators, ids: [Id; 3], width: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("unpack");
    b.warps(4);
    let [codes, scales, w] = ids.map(|id| b.param(g.view(id)));
    let pid = b.program_id(0);
    let row = b.mul(pid, UNPACKED);
    let row = b.assume_multiple(row, UNPACKED);
    b.for_loop(0, width, GROUP, &[], |b, k, _| {
        let (group, inside) = (b.div_u(k, GROUP), b.rem_u(k, GROUP));
        let first = b.mul(group, GROUP);
        let at = b.add(first, inside);
        let byte = b.div_u(at, 2);
        let bytes = b.load(codes, &[row, byte], &[UNPACKED, GROUP / 2]);
        let [low, high] = [0, 4].map(|shift| code(b, bytes, shift));
        let t = b.join(low, high);
        let t = b.reshape(t, &[UNPACKED, GROUP]);
        let t = b.cast(t, WORD);
        let t = b.sub(t, 8.0);
        let scale = b.load(scales, &[row, group], &[UNPACKED, 1]);
        let t = b.mul(t, scale);
        let t = b.cast(t, ELEM);
        b.store(w, &[row, at], t);
        vec![]
    });
    b.finish()
}

/// The four bits of a byte from a position on.
fn code(b: &mut KernelBuilder, bytes: Value, shift: u32) -> Value {
    let t = b.shr_u(bytes, shift);
    b.and(t, 15)
}
