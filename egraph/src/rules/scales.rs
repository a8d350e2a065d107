//! Scale folding: products by what is the same along an axis leave maxima and sums, meet each other, and end up in one fused product.
//!
//! ```text
//! exp (s * x - m)  =  exp2 ((s * x - m) * log2 e)  =  exp2 (fma x (s * log2 e) (m * -log2 e))
//!                     float-exp2                      float-fma-sub, float-fma-scale
//! ```
//!
//! A softmax of products thus costs one fused product and one exponential an element; of numbers that may be huge the difference comes first
//! ([`is_moderate`]). Each step rounds otherwise than what was written, except that
//! a maximum of scaled numbers is the scaled maximum to the bit: rounding keeps order.

use super::Types;
use super::float::is_moderate;
use super::rule::{Class, FLOATS, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::Node;
use crate::term::Term;
use egg::Id;
use smallvec::SmallVec;
use tilelift_ir::{Attr, Op, ReduceOp, Scalar, Shape, Type, num};

const WIDE: Types = Types::Each(&[Scalar::F32, Scalar::F64]);

fn wide(g: &Graph, n: &Node) -> bool {
    matches!(g.node_ty(n).elem(), Scalar::F32 | Scalar::F64)
}

/// True if a value is worked out on fewer elements than it has.
fn spread(g: &Graph, id: Id) -> bool {
    g.fact(id).value.is_some() || g.get(id, Op::Splat).is_some() || g.get(id, Op::Broadcast).is_some()
}

/// The factors of a product, the one that is spread last.
fn scaled(g: &Graph, id: Id) -> Option<(Id, Id)> {
    let m = g.get(id, Op::Mul)?;
    let (a, b) = (m.kids[0], m.kids[1]);
    if spread(g, b) { Some((a, b)) } else { spread(g, a).then_some((b, a)) }
}

/// A constant factor of moderate size: products of it and another factor leave the range about where the factor alone does.
fn moderate(g: &Graph, id: Id) -> Option<f64> {
    g.float(id).filter(|c| (2f64.powi(-10)..=2f64.powi(10)).contains(&c.abs()))
}

/// The product of a spread value and a constant; of two constants only if it is a number other than zero.
fn shrunk(g: &Graph, y: Id, c: f64, ty: &Type) -> Option<Term> {
    match g.float(y) {
        Some(d) => {
            let p = num::round(c * d, ty.elem());
            (p.is_finite() && p != 0.0).then(|| Term::float(p, ty))
        }
        None => Some(Term::op(Op::Mul, [y.into(), Term::float(c, ty)])),
    }
}

fn parts(g: &Graph, n: &Node) -> Option<(ReduceOp, usize)> {
    match g.attrs(n) {
        [Attr::Reduce(op), Attr::Dim(axis)] => Some((*op, *axis as usize)),
        _ => None,
    }
}

/// What a value that is the same along an axis is there, in the shape of a type without the axis.
pub(super) fn across(g: &Graph, y: Id, axis: usize, ty: &Type) -> Option<Term> {
    if let Some(c) = g.float(y) {
        return Some(Term::float(c, ty));
    }
    if let Some(s) = g.get(y, Op::Splat).map(|n| n.kids[0]) {
        return Some(match ty {
            Type::Tile(_) => Term::with(Op::Splat, &[], Some(ty.clone()), [s.into()]),
            Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => s.into(),
        });
    }
    let x = g.get(y, Op::Broadcast)?.kids[0];
    let from = g.ty(x).as_tile()?;
    if from.shape[axis] != 1 {
        return None;
    }
    let shape: Shape = from.shape.iter().enumerate().filter(|&(d, _)| d != axis).map(|(_, &e)| e).collect();
    let small = if shape.is_empty() { ty.clone() } else { Type::tile(&shape, from.elem) };
    let flat = Term::with(Op::Reshape, &[], Some(small.clone()), [x.into()]);
    Some(if small == *ty { flat } else { Term::with(Op::Broadcast, &[], Some(ty.clone()), [flat]) })
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "mul-neg-constant",
        class: Class::Exact,
        says: "neg x * c = x * -c, for a constant c",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let x = g.get(n.kids[0], Op::Neg)?.kids[0];
            let minus = match (g.float(n.kids[1]), g.int(n.kids[1])) {
                (Some(c), _) => Term::float(-c, g.node_ty(n)),
                (None, Some(c)) => Term::int(c.wrapping_neg(), g.node_ty(n)),
                (None, None) => return None,
            };
            Some(Term::op(Op::Mul, [x.into(), minus]))
        },
        over: Types::Each(super::rule::NUMBERS),
        fires: "v20 = neg a\nv21 = cast 3 : T\nv22 = splat v21 : A\nv23 = mul v20, v22",
        keeps: "v20 = neg a\nv21 = mul v20, b",
    },
    Rule {
        name: "float-fma-neg",
        class: Class::Reassoc,
        says: "x * y - z = fma x y (neg z), z - x * y = fma x (neg y) z; if z is the same along an axis, for x * y of moderate size or infinite",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Sub]),
        apply: |g, _, n| {
            if !wide(g, n) {
                return None;
            }
            let minus = |id: Id| Term::op(Op::Neg, [id.into()]);
            // What cancels a maximum of such products is rounded as they are.
            let along = |z: Id| g.fact(z).value.is_none() && (g.fact(z).same != 0 || spread(g, z));
            let cancels = |product: Id, z: Id| along(z) && !is_moderate(g, product, 1.0);
            if let Some(m) = g.get(n.kids[0], Op::Mul).filter(|_| !cancels(n.kids[0], n.kids[1])) {
                return Some(Term::op(Op::Fma, [m.kids[0].into(), m.kids[1].into(), minus(n.kids[1])]));
            }
            let m = g.get(n.kids[1], Op::Mul).filter(|_| !cancels(n.kids[1], n.kids[0]))?;
            let (x, y) = scaled(g, n.kids[1]).unwrap_or((m.kids[0], m.kids[1]));
            Some(Term::op(Op::Fma, [x.into(), minus(y), n.kids[0].into()]))
        },
        over: WIDE,
        fires: "v20 = mul a, b\nv21 = sub v20, c\nv22 = mul a, c\nv23 = sub v21, v22",
        keeps: "v20 = mul a, b\nv21 = add v20, c",
    },
    Rule {
        name: "float-scale-scale",
        class: Class::Reassoc,
        says: "(x * y) * c = x * (y * c), for y that is the same along an axis and a constant c of moderate size",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let c = moderate(g, n.kids[1]).filter(|_| wide(g, n))?;
            let (x, y) = scaled(g, n.kids[0]).filter(|&(_, y)| g.fact(y).value.is_none())?;
            Some(Term::op(Op::Mul, [x.into(), shrunk(g, y, c, g.node_ty(n))?]))
        },
        over: WIDE,
        fires: "v20 = splat s : A\nv21 = mul a, v20\nv22 = splat 2.5 : A\nv23 = mul v21, v22",
        keeps: "v21 = mul a, b\nv22 = splat 2.5 : A\nv23 = mul v21, v22",
    },
    Rule {
        name: "float-fma-scale",
        class: Class::Reassoc,
        says: "fma (x * y) c z = fma x (y * c) z, for y that is the same along an axis and a constant c of moderate size",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Fma]),
        apply: |g, _, n| {
            let c = moderate(g, n.kids[1]).filter(|_| wide(g, n))?;
            let (x, y) = scaled(g, n.kids[0])?;
            Some(Term::op(Op::Fma, [x.into(), shrunk(g, y, c, g.node_ty(n))?, n.kids[2].into()]))
        },
        over: WIDE,
        fires: "v20 = splat s : A\nv21 = mul a, v20\nv22 = splat 1.5 : A\nv23 = fma v21, v22, b",
        keeps: "v21 = mul a, b\nv22 = splat 1.5 : A\nv23 = fma v21, v22, c",
    },
    Rule {
        name: "float-scale-fma",
        class: Class::Reassoc,
        says: "(fma x c z) * d = fma x (c * d) (z * d), for z that is the same along an axis and constants c and d of moderate size",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let d = moderate(g, n.kids[1]).filter(|_| wide(g, n))?;
            let inner = g.get(n.kids[0], Op::Fma)?;
            let (x, c, z) = (inner.kids[0], inner.kids[1], inner.kids[2]);
            moderate(g, c).filter(|_| spread(g, z))?;
            let ty = g.node_ty(n);
            Some(Term::op(Op::Fma, [x.into(), shrunk(g, c, d, ty)?, shrunk(g, z, d, ty)?]))
        },
        over: WIDE,
        fires: "v20 = splat s : A\nv21 = splat 1.5 : A\nv22 = fma a, v21, v20\nv23 = splat 2.5 : A\nv24 = mul v22, v23",
        keeps: "v21 = splat 1.5 : A\nv22 = fma a, v21, b\nv23 = splat 2.5 : A\nv24 = mul v22, v23",
    },
    Rule {
        name: "select-scale",
        class: Class::Exact,
        says: "select m (x * c) k = (select m x k') * c, for a constant c and k' with k' * c = k to the bit: an infinity or a zero; likewise in the other arm",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Select]),
        apply: |g, _, n| {
            let ty = g.node_ty(n);
            let scaled = |at: usize| {
                let m = g.get(n.kids[at], Op::Mul)?;
                let c = g.float(m.kids[1]).filter(|c| c.is_finite() && *c != 0.0)?;
                let k = g.float(n.kids[3 - at]).filter(|k| k.is_infinite() || *k == 0.0)?;
                Some((at, m.kids[0], c, if c > 0.0 { k } else { -k }))
            };
            let (at, x, c, k) = scaled(1).or_else(|| scaled(2))?;
            let arms: [Term; 2] = if at == 1 { [x.into(), Term::float(k, ty)] } else { [Term::float(k, ty), x.into()] };
            let [a, b] = arms;
            Some(Term::op(Op::Mul, [Term::op(Op::Select, [n.kids[0].into(), a, b]), Term::float(c, ty)]))
        },
        over: Types::Each(FLOATS),
        fires: "v20 = splat 0.125 : A\nv21 = mul a, v20\nv22 = splat -inf : A\nv23 = select m, v21, v22\nv24 = splat -2.0 : A\nv25 = mul b, v24\nv26 = splat 0.0 : A\nv27 = select m, v26, v25\nv28 = maximum v23, v27",
        keeps: "v20 = splat 0.125 : A\nv21 = mul a, v20\nv22 = splat 1.0 : A\nv23 = select m, v21, v22\nv24 = mul b, c\nv25 = splat 0.0 : A\nv26 = select m, v24, v25\nv27 = maximum v23, v26",
    },
    Rule {
        name: "reduce-scale",
        class: Class::Exact,
        says: "maximum of x * c = (maximum of x) * c, for a constant c above 0, minimum likewise; below 0 they change places",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (op, axis) = parts(g, n)?;
            let m = g.get(n.kids[0], Op::Mul)?;
            let c = g.float(m.kids[1]).filter(|c| c.is_finite() && *c != 0.0)?;
            let op = match (op, c > 0.0) {
                (ReduceOp::Maximum, true) | (ReduceOp::Minimum, false) => ReduceOp::Maximum,
                (ReduceOp::Minimum, true) | (ReduceOp::Maximum, false) => ReduceOp::Minimum,
                (ReduceOp::Add | ReduceOp::Mul | ReduceOp::And | ReduceOp::Or | ReduceOp::Xor, _) => return None,
            };
            let inner = Term::with(Op::Reduce, &[Attr::Reduce(op), Attr::Dim(axis as u32)], None, [m.kids[0].into()]);
            Some(Term::op(Op::Mul, [inner, Term::float(c, g.node_ty(n))]))
        },
        over: Types::Each(FLOATS),
        fires: "v20 = splat 0.125 : A\nv21 = mul a, v20\nv22 = reduce maximum v21, axis 1\nv23 = splat -2.5 : A\nv24 = mul b, v23\nv25 = reduce maximum v24, axis 1\nv26 = minimum v22, v25",
        keeps: "v20 = splat s : A\nv21 = mul a, v20\nv22 = reduce maximum v21, axis 1",
    },
    Rule {
        name: "reduce-add-scale",
        class: Class::Reassoc,
        says: "sum of x * y = (sum of x) * y, for y that is the same along the axis",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (op, axis) = parts(g, n)?;
            let (x, y) = scaled(g, n.kids[0]).filter(|_| op == ReduceOp::Add && wide(g, n))?;
            let inner = Term::with(Op::Reduce, g.attrs(n), None, [x.into()]);
            Some(Term::op(Op::Mul, [inner, across(g, y, axis, g.node_ty(n))?]))
        },
        over: WIDE,
        fires: "v20 = slice b, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = mul a, v21\nv23 = reduce add v22, axis 1\nv24 = splat s : A\nv25 = mul c, v24\nv26 = reduce add v25, axis 1\nv27 = maximum v23, v26",
        keeps: "v20 = slice b, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = mul a, v21\nv23 = reduce add v22, axis 0",
    },
    Rule {
        name: "reduce-add-div",
        class: Class::Reassoc,
        says: "sum of x / y = (sum of x) / y, for y that is the same along the axis; where y is 0, an infinity may be NaN, and the other way round",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (op, axis) = parts(g, n)?;
            let m = g.get(n.kids[0], Op::Div).filter(|_| op == ReduceOp::Add && wide(g, n))?;
            let inner = Term::with(Op::Reduce, g.attrs(n), None, [m.kids[0].into()]);
            Some(Term::op(Op::Div, [inner, across(g, m.kids[1], axis, g.node_ty(n))?]))
        },
        over: WIDE,
        fires: "v17 = cast one : T\nv18 = splat v17 : A\nv19 = abs b\nv16 = add v19, v18\nv20 = slice v16, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = div a, v21\nv23 = reduce add v22, axis 1",
        keeps: "v20 = slice b, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = div a, v21\nv23 = reduce add v22, axis 0",
    },
    Rule {
        name: "reduce-dot",
        class: Class::Reassoc,
        says: "sum along a row of dot a b 0 = sum of a times the sums along the rows of b; along a column likewise",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (op, axis) = parts(g, n)?;
            let m = g.get(n.kids[0], Op::Dot).filter(|m| g.float(m.kids[2]) == Some(0.0) && op == ReduceOp::Add)?;
            let exact = matches!(g.attrs(m).first(), Some(Attr::Precision(tilelift_ir::Precision::Exact)));
            if !exact || g.node_ty(m).shape()?.len() != 2 || !wide(g, n) {
                return None;
            }
            let elem = g.node_ty(n).elem();
            // The operand that has the axis is summed first.
            let (keeps, folds) = (m.kids[1 - axis], m.kids[axis]);
            let widened = |id: Id| -> Term {
                if g.ty(id).elem() == elem { id.into() } else { Term::with(Op::Cast, &[], Some(g.ty(id).with_elem(elem)), [id.into()]) }
            };
            let fold = |x: Term, axis: usize| Term::with(Op::Reduce, &[Attr::Reduce(ReduceOp::Add), Attr::Dim(axis as u32)], None, [x]);
            let shape: SmallVec<[u32; 4]> = g.ty(keeps).shape()?.into();
            let depth = shape[axis];
            let flat: [u32; 2] = if axis == 1 { [1, depth] } else { [depth, 1] };
            let sums = Term::with(Op::Reshape, &[], Some(Type::tile(&flat, elem)), [fold(widened(folds), axis)]);
            let grown = if flat[..] == shape[..] { sums } else { Term::with(Op::Broadcast, &[], Some(Type::tile(&shape, elem)), [sums]) };
            Some(fold(Term::op(Op::Mul, [widened(keeps), grown]), axis))
        },
        over: Types::Each(&[Scalar::F16, Scalar::BF16, Scalar::F32]),
        fires: "v20 = slice a, [0, 0] : tile<4x2xT>\nv21 = slice b, [0, 0] : tile<2x4xT>\nv22 = splat 0.0 : tile<4x4xf32>\nv23 = dot v20, v21, v22\nv24 = reduce add v23, axis 1\nv25 = reduce add v23, axis 0\nv26 = sub v24, v25",
        keeps: "v20 = slice a, [0, 0] : tile<4x2xT>\nv21 = slice b, [0, 0] : tile<2x4xT>\nv22 = splat 1.0 : tile<4x4xf32>\nv23 = dot v20, v21, v22\nv24 = reduce add v23, axis 1",
    },
];
