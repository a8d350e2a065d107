//! What a kernel does to each element: random expressions, as instructions and as numbers with bounds.

use super::bounds::{Num, Rounding};
use crate::source::Source;
use tilelift_ir::{CmpOp, KernelBuilder, Scalar, Value};

/// Which numbers a graph computes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// Small integers, of which every sum is exact: results have to be equal in any order.
    Whole,
    /// Real numbers with functions; results stay within a bound.
    Real,
}

impl Family {
    pub fn rounding(self) -> Rounding {
        match self {
            Family::Whole => Rounding::NONE,
            Family::Real => Rounding::F32,
        }
    }

    /// The largest magnitude that a type may hold.
    pub fn most(self, elem: Scalar) -> f64 {
        match (self, elem) {
            (Family::Real, _) => 256.0,
            (Family::Whole, Scalar::BF16) => 256.0,
            (Family::Whole, Scalar::F16) => 2048.0,
            (Family::Whole, _) => SUMS,
        }
    }

    /// The largest magnitude in registers.
    pub fn inside(self) -> f64 {
        match self {
            Family::Whole => SUMS,
            Family::Real => 4096.0,
        }
    }
}

/// Integers up to here are exact in `f32`, and so are a few of their sums.
const SUMS: f64 = (1u32 << 22) as f64;

/// Where a condition holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// Row and column are both even or both odd.
    Checkered,
    /// The column is at most the row.
    Causal,
}

impl Where {
    pub fn holds(self, [row, col]: [usize; 2]) -> bool {
        match self {
            Where::Checkered => (row + col).is_multiple_of(2),
            Where::Causal => col <= row,
        }
    }
}

/// An expression of elements.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expr {
    In(usize),
    Const(f64),
    Add(Box<[Expr; 2]>),
    Sub(Box<[Expr; 2]>),
    Mul(Box<[Expr; 2]>),
    Max(Box<[Expr; 2]>),
    Min(Box<[Expr; 2]>),
    /// `x` above 0, a quarter of it below.
    Leaky(Box<Expr>),
    Clamp(Box<Expr>, f64),
    Exp(Box<Expr>),
    /// `1 / (1 + e^-x)`.
    Sigmoid(Box<Expr>),
    /// One of two by where the element is.
    By(Where, Box<[Expr; 2]>),
    /// The first where it is larger than the second, else the third: integers only, as there is a step.
    Pick(Box<[Expr; 3]>),
}

/// Where a tile is, for conditions.
#[derive(Clone, Copy)]
pub(super) struct At<'s> {
    pub row: Value,
    pub col: Value,
    /// Rows and columns; one extent of a tensor that is seen as a vector, where no condition can be.
    pub tile: &'s [u32],
}

impl Expr {
    /// The largest magnitude, of inputs of these.
    pub fn most(&self, of: &[f64]) -> f64 {
        let pair = |p: &[Expr; 2]| [p[0].most(of), p[1].most(of)];
        match self {
            Expr::In(i) => of[*i],
            Expr::Const(x) => x.abs(),
            Expr::Add(p) | Expr::Sub(p) => pair(p).iter().sum(),
            Expr::Mul(p) => pair(p).iter().product(),
            Expr::Max(p) | Expr::Min(p) | Expr::By(_, p) => pair(p)[0].max(pair(p)[1]),
            Expr::Leaky(x) => x.most(of),
            Expr::Clamp(x, most) => most.min(x.most(of)),
            Expr::Exp(x) => x.most(of).exp(),
            Expr::Sigmoid(_) => 1.0,
            Expr::Pick(p) => p[0].most(of).max(p[2].most(of)),
        }
    }

    /// True if it depends on where the element is.
    pub fn placed(&self) -> bool {
        match self {
            Expr::In(_) | Expr::Const(_) => false,
            Expr::Add(p) | Expr::Sub(p) | Expr::Mul(p) | Expr::Max(p) | Expr::Min(p) => p.iter().any(Expr::placed),
            Expr::Leaky(x) | Expr::Clamp(x, _) | Expr::Exp(x) | Expr::Sigmoid(x) => x.placed(),
            Expr::By(..) => true,
            Expr::Pick(p) => p.iter().any(Expr::placed),
        }
    }

    /// The number of an element.
    pub fn number(&self, of: &[Num], at: [usize; 2], r: Rounding) -> Num {
        let pair = |p: &[Expr; 2]| [p[0].number(of, at, r), p[1].number(of, at, r)];
        match self {
            Expr::In(i) => of[*i],
            Expr::Const(x) => Num::exact(*x),
            Expr::Add(p) => pair(p)[0].add(pair(p)[1], r),
            Expr::Sub(p) => pair(p)[0].sub(pair(p)[1], r),
            Expr::Mul(p) => pair(p)[0].mul(pair(p)[1], r),
            Expr::Max(p) => pair(p)[0].max(pair(p)[1]),
            Expr::Min(p) => pair(p)[0].min(pair(p)[1]),
            Expr::Leaky(x) => {
                let x = x.number(of, at, r);
                let less = x.mul(Num::exact(0.25), r);
                x.either(less, if x.v > 0.0 { x.v } else { less.v })
            }
            Expr::Clamp(x, most) => x.number(of, at, r).max(Num::exact(-most)).min(Num::exact(*most)),
            Expr::Exp(x) => x.number(of, at, r).exp(),
            Expr::Sigmoid(x) => {
                let e = x.number(of, at, r).neg().exp();
                Num::exact(1.0).div(e.add(Num::exact(1.0), r), r)
            }
            Expr::By(place, p) => p[usize::from(!place.holds(at))].number(of, at, r),
            Expr::Pick(p) => {
                let [a, b, c] = [0, 1, 2].map(|i| p[i].number(of, at, r));
                if a.v > b.v { a } else { c }
            }
        }
    }

    /// The tile of it, of tiles of `f32`.
    pub fn tile(&self, b: &mut KernelBuilder, of: &[Value], at: At<'_>) -> Value {
        let full = |b: &mut KernelBuilder, x: f64| b.full(at.tile, x, Scalar::F32);
        match self {
            Expr::In(i) => of[*i],
            Expr::Const(x) => full(b, *x),
            Expr::Add(p) | Expr::Sub(p) | Expr::Mul(p) | Expr::Max(p) | Expr::Min(p) => {
                let [x, y] = [0, 1].map(|i| p[i].tile(b, of, at));
                match self {
                    Expr::Add(_) => b.add(x, y),
                    Expr::Sub(_) => b.sub(x, y),
                    Expr::Mul(_) => b.mul(x, y),
                    Expr::Max(_) => b.maximum(x, y),
                    _ => b.minimum(x, y),
                }
            }
            Expr::Leaky(x) => {
                let x = x.tile(b, of, at);
                let zero = full(b, 0.0);
                let (up, less) = (b.cmp(CmpOp::Gt, x, zero), b.mul(x, 0.25));
                b.select(up, x, less)
            }
            Expr::Clamp(x, most) => {
                let x = x.tile(b, of, at);
                let x = b.maximum(x, -most);
                b.minimum(x, *most)
            }
            Expr::Exp(x) => {
                let x = x.tile(b, of, at);
                b.exp(x)
            }
            Expr::Sigmoid(x) => {
                let x = x.tile(b, of, at);
                let x = b.neg(x);
                let e = b.exp(x);
                let (one, e) = (full(b, 1.0), b.add(e, 1.0));
                b.div(one, e)
            }
            Expr::By(place, p) => {
                let [x, y] = [0, 1].map(|i| p[i].tile(b, of, at));
                let here = condition(b, *place, at);
                b.select(here, x, y)
            }
            Expr::Pick(p) => {
                let [x, y, z] = [0, 1, 2].map(|i| p[i].tile(b, of, at));
                let up = b.cmp(CmpOp::Gt, x, y);
                b.select(up, x, z)
            }
        }
    }
}

/// The tile of a condition.
pub(super) fn condition(b: &mut KernelBuilder, place: Where, at: At<'_>) -> Value {
    let [rows, cols] = [0, 1].map(|d| {
        let steps = b.iota(at.tile, d);
        b.add(steps, if d == 0 { at.row } else { at.col })
    });
    match place {
        Where::Checkered => {
            let sum = b.add(rows, cols);
            let odd = b.and(sum, 1);
            b.cmp(CmpOp::Eq, odd, 0)
        }
        Where::Causal => b.cmp(CmpOp::Le, cols, rows),
    }
}

/// A random expression in which every input takes part.
pub(super) fn any(src: &mut Source, family: Family, of: &[f64]) -> Expr {
    let mut x = one(src, family, Expr::In(0), of);
    for i in 1..of.len() {
        let y = one(src, family, Expr::In(i), of);
        let two = Box::new([x, y]);
        x = match src.below(6) {
            0 | 1 => Expr::Add(two),
            2 => Expr::Sub(two),
            3 => Expr::Mul(two),
            4 => Expr::Max(two),
            _ => Expr::By(if src.chance(128) { Where::Checkered } else { Where::Causal }, two),
        };
        x = within(x, of, family.inside());
    }
    one(src, family, x, of)
}

/// The expression, clamped if it may be larger than this.
pub(super) fn within(x: Expr, of: &[f64], most: f64) -> Expr {
    if x.most(of) > most { Expr::Clamp(Box::new(x), most.min(8.0)) } else { x }
}

/// Up to two more operations on an expression.
fn one(src: &mut Source, family: Family, mut x: Expr, of: &[f64]) -> Expr {
    let real = family == Family::Real;
    for _ in 0..src.below(3) {
        let c = *src.pick(&[2.0, 1.0, -1.0, 3.0]).unwrap_or(&2.0);
        let with = |x: Expr, c: f64| Box::new([x, Expr::Const(c)]);
        x = match src.below(9) {
            0 => Expr::Add(with(x, c)),
            1 => Expr::Mul(with(x, if real { c / 4.0 } else { c })),
            2 => Expr::Max(with(x, 0.0)),
            3 => Expr::Min(with(x, 1.0)),
            4 if real => Expr::Leaky(Box::new(x)),
            4 => Expr::Pick(Box::new([x.clone(), Expr::Const(c), Expr::Sub(Box::new([Expr::Const(0.0), x]))])),
            5 if real => Expr::Exp(Box::new(within(x, of, 2.0))),
            6 if real => Expr::Mul(Box::new([x.clone(), Expr::Sigmoid(Box::new(within(x, of, 8.0)))])),
            7 => Expr::By(if src.chance(128) { Where::Checkered } else { Where::Causal }, with(x, c)),
            _ => Expr::Sub(Box::new([Expr::Const(c), x])),
        };
        x = within(x, of, family.inside());
    }
    x
}
