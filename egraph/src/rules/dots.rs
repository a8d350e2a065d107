//! Matrix products: what is added goes into the accumulator; what was only widened, or dequantised, goes in as it was, and the scale
//! is applied to the result.

use super::Types;
use super::rule::{Class, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::Node;
use crate::rescale::{is_share, passes_cast};
use crate::term::Term;
use egg::Id;
use smallvec::SmallVec;
use tilelift_ir::{Attr, Literal, Op, Precision, Scalar, Shape, Type, num};

const INTO_F32: Types = Types::Each(&[Scalar::F16, Scalar::BF16]);

fn zero(g: &Graph, id: Id) -> bool {
    match g.fact(id).value {
        Some(Literal::Int(i)) => i == 0,
        Some(Literal::Float(bits)) => f64::from_bits(bits) == 0.0,
        None => false,
    }
}

/// A factor of an operand that is the same along the axis that the product sums over, as a factor of the result. The operand may be a transpose
/// of what has the factor.
fn outside(g: &Graph, s: Id, axis: usize, perm: Option<&Shape>, to: &Type) -> Option<Term> {
    if let Some(c) = g.float(s) {
        return Some(Term::float(c, to));
    }
    let widened = |x: Term, from: Scalar, ty: Type| if from == ty.elem() { x } else { Term::with(Op::Cast, &[], Some(ty), [x]) };
    if let Some(x) = g.get(s, Op::Splat).map(|n| n.kids[0]) {
        return Some(Term::with(Op::Splat, &[], Some(to.clone()), [widened(x.into(), g.ty(x).elem(), Type::Scalar(to.elem()))]));
    }
    let x = g.get(s, Op::Broadcast)?.kids[0];
    let from = g.ty(x).as_tile().filter(|t| t.shape[perm.map_or(axis, |p| p[axis] as usize)] == 1)?;
    let shape: Shape = perm.map_or_else(|| from.shape.clone(), |p| p.iter().map(|&d| from.shape[d as usize]).collect());
    let moved = perm.map_or_else(|| x.into(), |p| transposed(x.into(), p));
    let wide = widened(moved, from.elem, Type::tile(&shape, to.elem()));
    Some(if shape[..] == *to.shape()? { wide } else { Term::with(Op::Broadcast, &[], Some(to.clone()), [wide]) })
}

fn transposed(x: Term, perm: &Shape) -> Term {
    Term::with(Op::Transpose, &[Attr::Perm(perm.clone())], None, [x])
}

/// `(dot x y 0) op s`, where operand `side` is made of `x op s`, perhaps cast to a narrower float, perhaps transposed.
fn without_scale(g: &Graph, n: &Node, side: usize, op: Op, cast: bool) -> Option<Term> {
    let whole = n.kids[side];
    let straight = || without_scale_of(g, n, (side, op, cast), whole, None);
    straight().or_else(|| {
        let t = g.get(whole, Op::Transpose)?;
        let Some(Attr::Perm(perm)) = g.attrs(t).first() else { return None };
        without_scale_of(g, n, (side, op, cast), t.kids[0], Some(perm))
    })
}

fn without_scale_of(g: &Graph, n: &Node, (side, op, cast): (usize, Op, bool), made: Id, perm: Option<&Shape>) -> Option<Term> {
    let from = if cast { g.get(made, Op::Cast)?.kids[0] } else { made };
    let m = g.get(from, op)?;
    let rank = g.node_ty(n).shape()?.len();
    let axis = if side == 0 { rank - 1 } else { rank - 2 };
    let (wide, narrow) = (g.ty(from).elem(), g.ty(made));
    let narrows = wide.is_float() && narrow.elem().bits() < wide.bits();
    // What a product is made of may change places.
    (0..if op == Op::Mul { 2 } else { 1 }).find_map(|k| {
        let (x, s) = (m.kids[k], m.kids[1 - k]);
        let factor = outside(g, s, axis, perm, g.node_ty(n))?;
        let left = match cast {
            true if narrows && passes_cast(wide, narrow.elem(), is_share(g, x)) => {
                Term::with(Op::Cast, &[], Some(narrow.clone()), [x.into()])
            }
            true => return None,
            false => x.into(),
        };
        let mut kids: SmallVec<[Term; 3]> = n.kids.iter().map(Term::from).collect();
        kids[side] = perm.map_or(left.clone(), |p| transposed(left, p));
        Some(Term::op(op, [Term::make(Op::Dot, g.attrs(n), None, kids), factor]))
    })
}

/// As [`without_scale`] for either operand of a product that nothing is added to.
fn rescaled(g: &Graph, n: &Node, ops: &[Op], cast: bool) -> Option<Term> {
    let wide = matches!(g.node_ty(n).elem(), Scalar::F32 | Scalar::F64) && plus_zero(g, n.kids[2]);
    (0..2).filter(|_| wide).find_map(|side| ops.iter().find_map(|&op| without_scale(g, n, side, op, cast)))
}

/// The product of two operands that were converted from 8-bit integers, in 32 bits; its sums are exact.
fn of_integers(g: &Graph, n: &Node) -> Option<Term> {
    let narrow = |k: Id| g.get(k, Op::Cast).map(|m| m.kids[0]).filter(|&x| g.ty(x).elem() == Scalar::I8);
    let (a, b) = (narrow(n.kids[0])?, narrow(n.kids[1])?);
    let ty = g.node_ty(n);
    // 2^16 products of at most 2^14.
    let short = *g.ty(a).shape()?.last()? <= 1 << 16;
    (short && ty.elem() == Scalar::F32).then(|| {
        let none = Term::int(0, &ty.with_elem(Scalar::I32));
        let sum = Term::with(Op::Dot, &[Attr::Precision(Precision::Exact)], None, [a.into(), b.into(), none]);
        Term::with(Op::Cast, &[], Some(ty.clone()), [sum])
    })
}

/// True for a +0 in every element.
fn plus_zero(g: &Graph, id: Id) -> bool {
    g.fact(id).value == Some(Literal::Float(0))
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "dot-add",
        class: Class::Free,
        says: "dot a b 0 + c = dot a b c",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Add]),
        apply: |g, _, n| {
            let from = |product: Id, c: Id| {
                let m = g.get(product, Op::Dot).filter(|m| zero(g, m.kids[2]))?;
                Some(Term::with(Op::Dot, g.attrs(m), None, [m.kids[0].into(), m.kids[1].into(), c.into()]))
            };
            from(n.kids[0], n.kids[1]).or_else(|| from(n.kids[1], n.kids[0]))
        },
        over: INTO_F32,
        fires: "v20 = transpose b, [1, 0]\nv21 = splat 0.0 : tile<8x8xf32>\nv22 = dot a, v20, v21\nv23 = slice c, [0, 0] : tile<8x8xT>\nv24 = cast v23 : tile<8x8xf32>\nv25 = add v22, v24",
        keeps: "v20 = transpose b, [1, 0]\nv21 = splat 1.0 : tile<8x8xf32>\nv22 = dot a, v20, v21\nv23 = slice c, [0, 0] : tile<8x8xT>\nv24 = cast v23 : tile<8x8xf32>\nv25 = add v22, v24",
    },
    Rule {
        name: "dot-narrow",
        class: Class::Free,
        says: "dot of two operands that were widened without loss from one type = dot of the narrow ones",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Dot]),
        apply: |g, _, n| {
            let narrow = |k: Id| g.get(k, Op::Cast).map(|m| m.kids[0]).filter(|&x| num::embeds(g.ty(x).elem(), g.ty(k).elem()));
            let (a, b) = (narrow(n.kids[0])?, narrow(n.kids[1])?);
            // All of these fit tf32, too. A product that the machine lacks has no type, and is no term.
            (g.ty(a).elem() == g.ty(b).elem() && g.ty(a).elem().is_float())
                .then(|| Term::with(Op::Dot, &[Attr::Precision(Precision::Exact)], None, [a.into(), b.into(), n.kids[2].into()]))
        },
        over: INTO_F32,
        fires: "v20 = transpose b, [1, 0]\nv21 = splat 0.0 : tile<8x8xf32>\nv22 = cast a : tile<8x16xf32>\nv23 = cast v20 : tile<16x8xf32>\nv24 = dot v22, v23, v21",
        keeps: "v20 = transpose b, [1, 0]\nv21 = splat 0.0 : tile<8x8xf32>\nv22 = dot a, v20, v21",
    },
    Rule {
        name: "dot-integers",
        class: Class::Free,
        says: "dot of two operands that are i8 made floats, plus 0 = the conversion of the dot of the integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Dot]),
        apply: |g, _, n| if plus_zero(g, n.kids[2]) { of_integers(g, n) } else { None },
        over: INTO_F32,
        fires: "v20 = cast m : tile<8x16xi8>\nv21 = cast v20 : A\nv22 = transpose v13, [1, 0]\nv23 = cast v22 : tile<16x8xT>\nv24 = splat 0.0 : tile<8x8xf32>\nv25 = dot v21, v23, v24",
        keeps: "v20 = cast m : tile<8x16xi8>\nv21 = cast v20 : A\nv22 = transpose b, [1, 0]\nv24 = splat 0.0 : tile<8x8xf32>\nv25 = dot v21, v22, v24",
    },
    Rule {
        name: "dot-scale",
        class: Class::Reassoc,
        says: "dot (a * s) b 0 = (dot a b 0) * s, for s that is the same along the axis that is summed; b likewise; a transpose may stand between",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Dot]),
        apply: |g, _, n| rescaled(g, n, &[Op::Mul], false),
        over: Types::Each(&[Scalar::F32]),
        fires: "v20 = slice b, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = mul a, v21\nv23 = slice c, [0, 0] : tile<8x2xT>\nv24 = slice v22, [0, 0] : tile<8x2xT>\nv25 = slice v21, [0, 0] : tile<8x2xT>\nv26 = mul v23, v25\nv27 = splat s : tile<2x8xT>\nv28 = slice a, [0, 0] : tile<2x8xT>\nv29 = mul v28, v27\nv30 = splat 0.0 : tile<8x8xf32>\nv31 = dot v26, v28, v30\nv32 = dot v24, v29, v30\nv33 = sub v31, v32",
        keeps: "v20 = slice b, [3, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = mul a, v21\nv23 = transpose c, [1, 0]\nv30 = splat 0.0 : tile<8x8xf32>\nv31 = dot v22, v23, v30",
    },
    Rule {
        name: "dot-div",
        class: Class::Reassoc,
        says: "dot (a / s) b 0 = (dot a b 0) / s, for s that is the same along the axis that is summed; b likewise; a transpose may stand between",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Dot]),
        apply: |g, _, n| rescaled(g, n, &[Op::Div], false),
        over: Types::Each(&[Scalar::F32]),
        fires: "v17 = cast one : T\nv18 = splat v17 : A\nv19 = abs b\nv16 = add v19, v18\nv20 = slice v16, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = div a, v21\nv24 = div c, v21\nv23 = transpose v24, [1, 0]\nv30 = splat 0.0 : tile<8x8xf32>\nv31 = dot v22, v23, v30",
        keeps: "v20 = slice b, [3, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = div a, v21\nv23 = transpose c, [1, 0]\nv30 = splat 0.0 : tile<8x8xf32>\nv31 = dot v22, v23, v30",
    },
    Rule {
        name: "dot-cast-scale",
        class: Class::Reassoc,
        says: "dot (cast (a * s)) b 0 = (dot (cast a) b 0) * s, quotients likewise, for s that is the same along the axis that is summed, and a cast to a narrower float whose range holds a; b likewise; a transpose may stand between",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Dot]),
        apply: |g, _, n| rescaled(g, n, &[Op::Div, Op::Mul], true),
        over: Types::Each(&[Scalar::BF16]),
        fires: "v20 = cast m : tile<8x16xf32>\nv21 = splat 1.0 : tile<8x16xf32>\nv22 = cast a : tile<8x16xf32>\nv23 = add v20, v21\nv24 = slice v23, [0, 0] : tile<8x1xf32>\nv25 = broadcast v24 : tile<8x16xf32>\nv26 = div v22, v25\nv27 = cast v26 : A\nv32 = cast c : tile<8x16xf32>\nv33 = div v32, v25\nv34 = cast v33 : A\nv28 = transpose v34, [1, 0]\nv30 = splat 0.0 : tile<8x8xf32>\nv31 = dot v27, v28, v30",
        keeps: "v20 = slice b, [3, 0] : tile<1x16xT>\nv22 = cast a : tile<8x16xf32>\nv23 = cast v20 : tile<1x16xf32>\nv25 = broadcast v23 : tile<8x16xf32>\nv26 = div v22, v25\nv27 = cast v26 : A\nv28 = transpose c, [1, 0]\nv30 = splat 0.0 : tile<8x8xf32>\nv31 = dot v27, v28, v30",
    },
];
