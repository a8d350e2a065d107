//! Pairs of numbers: rotary embeddings taken back, and complex states, whose halves are put together and taken apart from operator to operator.
//!
//! ```text
//! rotary_back    pairs to halves, rotation by minus the angle, halves to pairs, 8-bit floats kept as bytes, read back (a cache whose keys move)
//! complex_state  h = h * a + b * x, y = real part of c * h, a copy of h; complex numbers are pairs of floats (LRU, S5)
//! ```

use super::operators::{Id, Operators, unit};
use crate::facts::programs;
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, Scalar, Value};

const ELEM: Scalar = Scalar::BF16;
const WORD: Scalar = Scalar::F32;
const NARROW: Scalar = Scalar::F8E4M3;
/// Elements of a head, and rows of a program.
const HEAD: u32 = 64;
const ROWS: u32 = 32;
/// Rows and channels of a program over states.
const STATES: [u32; 2] = [4, 128];
/// What 8-bit floats are multiplied by.
const SCALE: f64 = 0.0625;

/// Keys of a cache turned back by the angle of their rows, kept as bytes.
///
/// # Errors
/// The builder's.
pub fn rotary_back(rows: u32, heads: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let all = [rows, heads * HEAD];
    let x = g.input("x", ELEM, &all);
    let [cos, sin] = ["cos", "sin"].map(|name| g.input(name, WORD, &[rows, HEAD / 2]));
    let [halves, turned, pairs] = ["halves", "turned", "pairs"].map(|name| g.between(name, ELEM, &all));
    let (cache, y) = (g.output("cache", Scalar::I8, &all), g.output("y", ELEM, &all));
    let grid = [heads, programs(rows, ROWS), 1];
    let kernel = in_halves(&g, [x, halves])?;
    g.step("halves", kernel, grid, &[x.into(), halves.into()]);
    let kernel = turn_back(&g, [halves, cos, sin, turned])?;
    g.step("turn", kernel, grid, &[halves.into(), cos.into(), sin.into(), turned.into()]);
    let kernel = in_pairs(&g, [turned, pairs])?;
    g.step("pairs", kernel, grid, &[turned.into(), pairs.into()]);
    g.pointwise("keep", &[pairs], &[cache], |b, t| {
        let t = b.div(t[0], SCALE);
        let t = b.cast(t, NARROW);
        vec![b.bitcast(t, Scalar::I8)]
    })?;
    g.pointwise("read", &[cache], &[y], |b, t| {
        let t = b.bitcast(t[0], NARROW);
        let t = b.cast(t, WORD);
        vec![b.mul(t, SCALE)]
    })?;
    // A code may be the next one where a rounding in front of it differs.
    g.bound(y, 2f64.powi(-8), 2.0 * unit(NARROW));
    Ok(g)
}

fn start(b: &mut KernelBuilder) -> [Value; 2] {
    let (h, r) = (b.program_id(0), b.program_id(1));
    [b.mul(r, ROWS), b.mul(h, HEAD)]
}

fn in_halves(g: &Operators, ids: [Id; 2]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("halves");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let at = start(&mut b);
    let t = b.load(x, &at, &[ROWS, HEAD]);
    let t = b.reshape(t, &[ROWS, HEAD / 2, 2]);
    let (even, odd) = b.split(t);
    let t = b.concat(even, odd, 1);
    b.store(y, &at, t);
    b.finish()
}

/// `x * cos + rotate_half(x) * -sin`, with `rotate_half(a, b) = (-b, a)`, and tables that hold each half's.
fn turn_back(g: &Operators, ids: [Id; 4]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("turn");
    b.warps(4);
    let [x, cos, sin, y] = ids.map(|id| b.param(g.view(id)));
    let at = start(&mut b);
    let zero = b.constant(0, Scalar::I32);
    let half = [ROWS, HEAD / 2];
    let [c, s] = [cos, sin].map(|view| {
        let t = b.load(view, &[at[0], zero], &half);
        b.concat(t, t, 1)
    });
    let back = b.neg(s);
    let t = b.load(x, &at, &[ROWS, HEAD]);
    let t = b.cast(t, WORD);
    let [first, last] = [0, HEAD / 2].map(|from| b.slice(t, &[0, from], &half));
    let minus = b.neg(last);
    let rotated = b.concat(minus, first, 1);
    let (p, q) = (b.mul(t, c), b.mul(rotated, back));
    let t = b.add(p, q);
    let t = b.cast(t, ELEM);
    b.store(y, &at, t);
    b.finish()
}

fn in_pairs(g: &Operators, ids: [Id; 2]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("pairs");
    b.warps(4);
    let [x, y] = ids.map(|id| b.param(g.view(id)));
    let at = start(&mut b);
    let t = b.load(x, &at, &[ROWS, HEAD]);
    let [first, last] = [0, HEAD / 2].map(|from| b.slice(t, &[0, from], &[ROWS, HEAD / 2]));
    let t = b.join(first, last);
    let t = b.reshape(t, &[ROWS, HEAD]);
    b.store(y, &at, t);
    b.finish()
}

/// A step of a linear recurrent unit.
///
/// # Errors
/// The builder's.
pub fn complex_state(rows: u32, width: u32) -> Result<Operators, BuildErrors> {
    let mut g = Operators::default();
    let pairs = [rows, width, 2];
    let h = g.input("h", WORD, &pairs);
    let [a, input, output] = ["a", "b", "c"].map(|name| g.input(name, WORD, &[1, width, 2]));
    let x = g.input("x", ELEM, &[rows, width]);
    let next = g.between("next", WORD, &pairs);
    let (kept, y) = (g.output("kept", WORD, &pairs), g.output("y", ELEM, &[rows, width]));
    let grid = [programs(width, STATES[1]), programs(rows, STATES[0]), 1];
    let kernel = advance(&g, [h, a, input, x, next])?;
    g.step("advance", kernel, grid, &[h.into(), a.into(), input.into(), x.into(), next.into()]);
    let kernel = real_part(&g, [next, output, y])?;
    g.step("real", kernel, grid, &[next.into(), output.into(), y.into()]);
    let kernel = copy(&g, [next, kept])?;
    g.step("copy", kernel, grid, &[next.into(), kept.into()]);
    g.bound(kept, 2f64.powi(-20), 0.0);
    g.bound(y, 2f64.powi(-18), 2.0 * unit(ELEM));
    Ok(g)
}

/// Real and imaginary parts of a tile of complex numbers.
fn parts(b: &mut KernelBuilder, view: Value, at: [Value; 3], rows: u32) -> (Value, Value) {
    let t = b.load(view, &at, &[rows, STATES[1], 2]);
    b.split(t)
}

fn states(b: &mut KernelBuilder) -> [Value; 3] {
    let (c, r, zero) = (b.program_id(0), b.program_id(1), b.constant(0, Scalar::I32));
    [b.mul(r, STATES[0]), b.mul(c, STATES[1]), zero]
}

fn advance(g: &Operators, ids: [Id; 5]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("advance");
    b.warps(4);
    let [h, a, input, x, next] = ids.map(|id| b.param(g.view(id)));
    let at = states(&mut b);
    let once = [at[2], at[1], at[2]];
    let (hr, hi) = parts(&mut b, h, at, STATES[0]);
    let (ar, ai) = parts(&mut b, a, once, 1);
    let (br, bi) = parts(&mut b, input, once, 1);
    let x = b.load(x, &at[..2], &STATES);
    let x = b.cast(x, WORD);
    let (p, q) = (b.mul(hr, ar), b.mul(hi, ai));
    let real = b.sub(p, q);
    let (p, q) = (b.mul(hr, ai), b.mul(hi, ar));
    let imaginary = b.add(p, q);
    let (p, q) = (b.mul(x, br), b.mul(x, bi));
    let (real, imaginary) = (b.add(real, p), b.add(imaginary, q));
    let t = b.join(real, imaginary);
    b.store(next, &at, t);
    b.finish()
}

fn real_part(g: &Operators, ids: [Id; 3]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("real");
    b.warps(4);
    let [h, c, y] = ids.map(|id| b.param(g.view(id)));
    let at = states(&mut b);
    let (hr, hi) = parts(&mut b, h, at, STATES[0]);
    let (cr, ci) = parts(&mut b, c, [at[2], at[1], at[2]], 1);
    let (p, q) = (b.mul(hr, cr), b.mul(hi, ci));
    let t = b.sub(p, q);
    let t = b.cast(t, ELEM);
    b.store(y, &at[..2], t);
    b.finish()
}

/// A complex tensor made of the real and the imaginary part of one, as exporters without complex numbers copy it.
fn copy(g: &Operators, ids: [Id; 2]) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("copy");
    b.warps(4);
    let [h, y] = ids.map(|id| b.param(g.view(id)));
    let at = states(&mut b);
    let (real, imaginary) = parts(&mut b, h, at, STATES[0]);
    let t = b.join(real, imaginary);
    b.store(y, &at, t);
    b.finish()
}
