//! Matrix products: what is added goes into the accumulator, what was only widened goes in as it was.

use super::{Class, Phase, Roots, Rule, Types};
use crate::analysis::{Graph, Read};
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Attr, Literal, Op, Precision, Scalar, num};

const INTO_F32: Types = Types::Each(&[Scalar::F16, Scalar::BF16]);

fn zero(g: &Graph, id: Id) -> bool {
    match g.fact(id).value {
        Some(Literal::Int(i)) => i == 0,
        Some(Literal::Float(bits)) => f64::from_bits(bits) == 0.0,
        None => false,
    }
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
        name: "dot-nothing",
        class: Class::Exact,
        says: "dot 0 b c = dot a 0 c = c, for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Dot]),
        apply: |g, _, n| {
            let whole = !g.node_ty(n).elem().is_float();
            (whole && (zero(g, n.kids[0]) || zero(g, n.kids[1]))).then(|| n.kids[2].into())
        },
        over: Types::Each(&[Scalar::I8]),
        fires: "v20 = splat 0 : tile<16x8xT>\nv21 = splat i : tile<8x8xi32>\nv22 = dot a, v20, v21",
        keeps: "v20 = transpose b, [1, 0]\nv21 = splat i : tile<8x8xi32>\nv22 = dot a, v20, v21",
    },
];
