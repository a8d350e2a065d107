//! Floats: what is exact with NaN, infinities and both zeros; and, where the caller allows it, contraction and cheaper functions.

use super::Types;
use super::rule::{Class, FLOATS, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::{Head, Node};
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Op, Scalar, Type, num};

const WIDE: Types = Types::Each(&[Scalar::F32, Scalar::F64]);
const F32: Types = Types::Each(&[Scalar::F32]);

fn floats(g: &Graph, n: &Node) -> bool {
    g.node_ty(n).elem().is_float()
}

/// A float constant of a type, rounded.
fn near(x: f64, ty: &Type) -> Term {
    Term::float(num::round(x, ty.elem()), ty)
}

/// The product in an operand, and the other operand.
fn product(g: &Graph, n: &Node) -> Option<(Id, Id, Id)> {
    let mul = |id: Id| g.get(id, Op::Mul).map(|m| (m.kids[0], m.kids[1]));
    match (mul(n.kids[0]), mul(n.kids[1])) {
        (Some((a, b)), _) => Some((a, b, n.kids[1])),
        (None, Some((a, b))) => Some((a, b, n.kids[0])),
        (None, None) => None,
    }
}

/// True if a value is the result of an op that rounds, as a rule, or of a sum over a loop.
fn is_rounded(g: &Graph, id: Id) -> bool {
    let rounds = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Fma, Op::Dot];
    let same = [Op::Neg, Op::Broadcast, Op::Reshape];
    let from = |&x: &Id| same.into_iter().find_map(|op| g.get(x, op)).map(|n| n.kids[0]);
    // A class may hold what negates what negates it.
    std::iter::successors(Some(id), from).take(MOVED).any(|x| {
        let summed = |n: &Node| matches!(n.head, Head::Fold { op: Op::Add, .. });
        g[x].nodes.iter().any(summed) || rounds.into_iter().any(|op| g.get(x, op).is_some())
    })
}

/// Moves, signs and copies of a value that are looked through.
const MOVED: usize = 4;
/// Nodes that are looked at for how large a value may be.
const LOOKED_AT: usize = 64;
/// What elements of a product count as: scores of attention are less.
const PRODUCT: f64 = 65_536.0;
/// The largest number whose products with constants are off by 2^-4 at most.
const LARGEST: f64 = 1_048_576.0;

/// True if a value times a constant is known to be of moderate size, or an infinity: products of matrices, counted as [`PRODUCT`], bounded functions,
/// narrow integers, constants, and what is made of these alone.
///
/// What is equal cancels to zero in `x - y`, however large it is: a row of scores that a mask made -1e30 has the difference 0 from its maximum. Where
/// the difference is multiplied first, roundings of one factor are left, which are enormous for such numbers, and harmless for these.
pub(super) fn is_moderate(g: &Graph, id: Id, times: f64) -> bool {
    let mut left = LOOKED_AT;
    largest(g, id, &mut left).is_some_and(|most| most * times.abs() <= LARGEST)
}

/// What the finite ones of a value's elements are at most.
fn largest(g: &Graph, id: Id, left: &mut usize) -> Option<f64> {
    if let Some(c) = g.float(id) {
        return c.is_finite().then_some(c.abs());
    }
    for n in &g[id].nodes {
        *left = left.checked_sub(1)?;
        let infinite = |x: Id| g.float(x).is_some_and(f64::is_infinite);
        let mut of = |at: usize| largest(g, n.kids[at], left);
        let most = match (n.head, n.op()) {
            (Head::Fold { op: Op::Add, .. }, _) if g.get(n.kids[4], Op::Dot).is_some() => of(3).map(|start| start + PRODUCT),
            (_, Some(Op::Dot)) => of(2).map(|start| start + PRODUCT),
            (_, Some(Op::Tanh)) => Some(1.0),
            (_, Some(Op::Cast)) => match g.ty(n.kids[0]).elem() {
                Scalar::I1 => Some(1.0),
                Scalar::I8 => Some(128.0),
                Scalar::I16 => Some(32_768.0),
                from if from.is_float() => of(0),
                _ => None,
            },
            (_, Some(Op::Neg | Op::Broadcast | Op::Reshape | Op::Transpose)) => of(0),
            (_, Some(Op::Mul)) => of(0).and_then(|a| Some(a * of(1)?)),
            (_, Some(Op::Add | Op::Sub)) => of(0).and_then(|a| Some(a + of(1)?)),
            (_, Some(Op::Fma)) => of(0).and_then(|a| Some(a * of(1)?)).and_then(|p| Some(p + of(2)?)),
            (_, Some(Op::Select)) => match [infinite(n.kids[1]), infinite(n.kids[2])] {
                [true, _] => of(2),
                [_, true] => of(1),
                _ => of(1).and_then(|a| Some(a.max(of(2)?))),
            },
            _ => None,
        };
        if most.is_some() {
            return most;
        }
    }
    None
}

/// An exponential as a power of two.
fn power_of_two(g: &Graph, n: &Node) -> Option<Term> {
    let ty = g.node_ty(n);
    let scaled = || Term::op(Op::Mul, [n.kids[0].into(), near(std::f64::consts::LOG2_E, ty)]);
    matches!(ty.elem(), Scalar::F32).then(|| Term::op(Op::Exp2, [scaled()]))
}

const INTEGRAL: &[Op] = &[Op::Floor, Op::Ceil, Op::Round, Op::Trunc];

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "float-div-power",
        class: Class::Exact,
        says: "x / c = x * (1 / c), for c a power of two whose inverse is a number of the type",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Div]),
        apply: |g, _, n| {
            let c = g.float(n.kids[1]).filter(|c| c.is_finite() && *c != 0.0)?;
            let (ty, inverse) = (g.node_ty(n), 1.0 / c);
            let power = c.to_bits() & ((1 << 52) - 1) == 0 && c.is_normal() && inverse.is_normal();
            (power && num::round(inverse, ty.elem()) == inverse).then(|| Term::op(Op::Mul, [n.kids[0].into(), Term::float(inverse, ty)]))
        },
        over: Types::Each(FLOATS),
        fires: "v20 = splat 8.0 : A\nv21 = div a, v20",
        keeps: "v20 = splat 3.0 : A\nv21 = div a, v20",
    },
    Rule {
        name: "float-choose-infinity",
        class: Class::Exact,
        says: "minimum x inf = x, maximum x -inf = x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Minimum, Op::Maximum]),
        apply: |g, _, n| {
            let end = if n.op() == Some(Op::Minimum) { f64::INFINITY } else { f64::NEG_INFINITY };
            let at = (0..2).find(|&i| g.float(n.kids[i]) == Some(end))?;
            Some(n.kids[1 - at].into())
        },
        over: Types::Each(FLOATS),
        fires: "v20 = splat inf_T : A\nv21 = minimum a, v20\nv22 = splat -inf_T : A\nv23 = maximum v21, v22",
        keeps: "v20 = splat inf_T : A\nv21 = maximum a, v20",
    },
    Rule {
        name: "float-integral",
        class: Class::Exact,
        says: "floor, ceil, round and trunc of an integral value are that value",
        phase: Phase::Simplify,
        roots: Roots::Ops(INTEGRAL),
        apply: |g, _, n| {
            let x = n.kids[0];
            let from_int = |m: &Node| !g.ty(m.kids[0]).elem().is_float();
            let integral = INTEGRAL.iter().any(|&op| g.get(x, op).is_some()) || g.get(x, Op::Cast).is_some_and(from_int);
            integral.then(|| x.into())
        },
        over: Types::Each(FLOATS),
        fires: "v20 = floor a\nv21 = ceil v20\nv22 = cast v20 : tile<8x16xi32>\nv23 = cast v22 : A\nv24 = round v23\nv25 = minimum v21, v24",
        keeps: "v20 = neg a\nv21 = ceil v20",
    },
    Rule {
        name: "float-fma-trivial",
        class: Class::Exact,
        says: "fma x 1 y = x + y, fma x y -0 = x * y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Fma]),
        apply: |g, _, n| {
            if !matches!(g.node_ty(n).elem(), Scalar::F32 | Scalar::F64) {
                return None;
            }
            if let Some(at) = (0..2).find(|&i| g.float(n.kids[i]) == Some(1.0)) {
                return Some(Term::op(Op::Add, [n.kids[1 - at].into(), n.kids[2].into()]));
            }
            let minus_zero = g.float(n.kids[2]).is_some_and(|x| x == 0.0 && x.is_sign_negative());
            minus_zero.then(|| Term::op(Op::Mul, [n.kids[0].into(), n.kids[1].into()]))
        },
        over: WIDE,
        fires: "v20 = splat 1.0 : A\nv21 = fma a, v20, b\nv22 = splat -0.0 : A\nv23 = fma v21, c, v22",
        keeps: "v20 = splat 0.0 : A\nv21 = fma a, b, v20",
    },
    Rule {
        name: "float-fma",
        class: Class::Reassoc,
        says: "x * y + z = fma x y z",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Add]),
        apply: |g, _, n| {
            if !matches!(g.node_ty(n).elem(), Scalar::F32 | Scalar::F64) {
                return None;
            }
            let (x, y, z) = product(g, n)?;
            Some(Term::op(Op::Fma, [x.into(), y.into(), z.into()]))
        },
        over: WIDE,
        fires: "v20 = mul a, b\nv21 = add v20, c",
        keeps: "v20 = mul a, b\nv21 = sub c, v20",
    },
    Rule {
        name: "float-fma-sub",
        class: Class::Reassoc,
        says: "(x - y) * c = fma x c (neg (y * c)), for a constant c, y that is the same along an axis, and x * c of moderate size or infinite: products, bounded functions, narrow integers, constants and what is made of them",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let ty = g.node_ty(n);
            let c = g.float(n.kids[1]).filter(|_| floats(g, n) && matches!(ty.elem(), Scalar::F32 | Scalar::F64))?;
            let m = g.get(n.kids[0], Op::Sub)?;
            let shift = m.kids[1];
            // Worth it only where the shift is worked out on fewer elements.
            (g.fact(shift).same != 0 && g.get(shift, Op::Broadcast).is_some() && is_moderate(g, m.kids[0], c)).then(|| {
                let scaled = Term::op(Op::Mul, [shift.into(), Term::float(-c, ty)]);
                Term::op(Op::Fma, [m.kids[0].into(), n.kids[1].into(), scaled])
            })
        },
        over: F32,
        fires: "v18 = splat 0.5 : A\nv19 = tanh a\nv17 = mul v18, v19\nv20 = reduce maximum v17, axis 1\nv21 = reshape v20 : tile<8x1xT>\nv22 = broadcast v21 : A\nv23 = sub v17, v22\nv24 = splat 1.5 : A\nv25 = mul v23, v24",
        keeps: "v18 = splat -1e30 : A\nv19 = tanh a\nv17 = select m, v19, v18\nv20 = reduce maximum v17, axis 1\nv21 = reshape v20 : tile<8x1xT>\nv22 = broadcast v21 : A\nv23 = sub v17, v22\nv24 = splat 1.5 : A\nv25 = mul v23, v24",
    },
    Rule {
        name: "float-mul-mul",
        class: Class::Reassoc,
        says: "(x * c) * d = x * (c * d), for constants",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let d = g.float(n.kids[1]).filter(|_| floats(g, n))?;
            let m = g.get(n.kids[0], Op::Mul)?;
            let c = g.float(m.kids[1])?;
            let (ty, p) = (g.node_ty(n), c * d);
            let rounded = num::round(p, ty.elem());
            // A product that leaves the range would turn finite results into infinities or zeros.
            (rounded.is_finite() && rounded != 0.0).then(|| Term::op(Op::Mul, [m.kids[0].into(), near(p, ty)]))
        },
        over: WIDE,
        fires: "v20 = splat 1.5 : A\nv21 = mul a, v20\nv22 = splat 2.5 : A\nv23 = mul v21, v22",
        keeps: "v20 = splat 1.5 : A\nv21 = mul a, v20\nv23 = mul v21, b",
    },
    Rule {
        name: "float-exp2",
        class: Class::Reassoc,
        says: "exp x = exp2 (x * log2 e), for x that an op makes, of which it is rounded once more: the result is off by up to |x| 2^-23 more",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Exp]),
        apply: |g, _, n| is_rounded(g, n.kids[0]).then(|| power_of_two(g, n)).flatten(),
        over: F32,
        fires: "v20 = sub a, b\nv21 = exp v20",
        keeps: "v20 = exp a",
    },
    Rule {
        name: "float-exp2-any",
        class: Class::Approx,
        says: "exp x = exp2 (x * log2 e), for any x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Exp]),
        apply: |g, _, n| (!is_rounded(g, n.kids[0])).then(|| power_of_two(g, n)).flatten(),
        over: F32,
        fires: "v20 = exp a",
        keeps: "v20 = log a",
    },
    Rule {
        name: "float-div",
        class: Class::Reassoc,
        says: "x / y = x * (1 / y), for y that is no constant: off by 2^-21 at most; where |y| is beyond 2^126 or below 2^-126, 1 / y may be 0 or infinite, so that 0 / y is NaN for such small y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Div]),
        apply: |g, _, n| {
            let (x, y) = (n.kids[0], n.kids[1]);
            if g.node_ty(n).elem() != Scalar::F32 || g.float(y).is_some() {
                return None;
            }
            // What is the same along an axis is turned over once.
            let inverse = match g.get(y, Op::Broadcast) {
                Some(b) => Term::with(Op::Broadcast, &[], Some(g.node_ty(n).clone()), [Term::op(Op::Rcp, [b.kids[0].into()])]),
                None => Term::op(Op::Rcp, [y.into()]),
            };
            Some(if g.float(x) == Some(1.0) { inverse } else { Term::op(Op::Mul, [x.into(), inverse]) })
        },
        over: F32,
        fires: "v20 = reduce maximum b, axis 1\nv21 = reshape v20 : tile<8x1xT>\nv22 = broadcast v21 : A\nv23 = div a, v22\nv24 = abs c\nv25 = cast one : T\nv26 = splat v25 : A\nv27 = add v24, v26\nv28 = div v23, v27",
        keeps: "v20 = splat 3.0 : A\nv21 = div a, v20",
    },
    Rule {
        name: "float-rsqrt",
        class: Class::Approx,
        says: "1 / sqrt x = rcp (sqrt x) = rsqrt x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Rcp, Op::Div]),
        apply: |g, _, n| {
            let root = match n.op() {
                Some(Op::Rcp) => n.kids[0],
                _ => (g.float(n.kids[0]) == Some(1.0)).then(|| n.kids[1])?,
            };
            let x = g.get(root, Op::Sqrt)?.kids[0];
            matches!(g.node_ty(n).elem(), Scalar::F32).then(|| Term::op(Op::Rsqrt, [x.into()]))
        },
        over: F32,
        fires: "v20 = sqrt a\nv21 = rcp v20",
        keeps: "v20 = sqrt a\nv21 = div b, v20",
    },
];
