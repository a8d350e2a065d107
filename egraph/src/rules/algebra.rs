//! Identities of arithmetic, selection and bits that hold for every type of the op.

use super::Types;
use super::rule::{Class, INTS, NUMBERS, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::Node;
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Literal, Op, Scalar};

const BITS: &[Scalar] = &[Scalar::I1, Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
const ALL: Types = Types::Pairs(|t, u| t == u);

/// `op(op(x))`: the inner operand.
fn inner(g: &Graph, node: &Node, op: Op) -> Option<Id> {
    g.get(node.kids[0], op).map(|n| n.kids[0])
}

/// True if every element is the integer or float of that value; floats compare by value.
fn is(g: &Graph, id: Id, x: i64) -> bool {
    match g.fact(id).value {
        Some(Literal::Int(i)) => i == x,
        Some(Literal::Float(bits)) => f64::from_bits(bits) == x as f64,
        None => false,
    }
}

/// All bits set: -1, or true.
fn is_ones(g: &Graph, id: Id) -> bool {
    let want = if g.ty(id).elem() == Scalar::I1 { 1 } else { -1 };
    g.int(id) == Some(want)
}

/// The other operand where one satisfies a condition, and that one's class.
fn either(node: &Node, f: impl Fn(Id) -> bool) -> Option<(Id, Id)> {
    let (a, b) = (node.kids[0], node.kids[1]);
    if f(b) {
        Some((a, b))
    } else if f(a) {
        Some((b, a))
    } else {
        None
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "neg-neg",
        class: Class::Exact,
        says: "neg (neg x) = x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Neg]),
        apply: |g, _, n| inner(g, n, Op::Neg).map(Term::Class),
        over: Types::Each(NUMBERS),
        fires: "v20 = neg a\nv21 = neg v20",
        keeps: "v20 = abs a\nv21 = neg v20",
    },
    Rule {
        name: "not-not",
        class: Class::Exact,
        says: "not (not x) = x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Not]),
        apply: |g, _, n| inner(g, n, Op::Not).map(Term::Class),
        over: Types::Each(BITS),
        fires: "v20 = not a\nv21 = not v20",
        keeps: "v20 = not a\nv21 = and v20, b",
    },
    Rule {
        name: "abs-abs",
        class: Class::Exact,
        says: "abs (abs x) = abs (neg x) = abs x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Abs]),
        apply: |g, _, n| inner(g, n, Op::Abs).or_else(|| inner(g, n, Op::Neg)).map(|x| Term::op(Op::Abs, [x.into()])),
        over: Types::Each(NUMBERS),
        fires: "v20 = neg a\nv21 = abs v20\nv22 = abs v21",
        keeps: "v20 = abs a\nv21 = neg v20",
    },
    Rule {
        name: "add-neg",
        class: Class::Exact,
        says: "x + neg y = x - y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Add]),
        apply: |g, _, n| {
            let (x, y) = either(n, |id| g.get(id, Op::Neg).is_some())?;
            Some(Term::op(Op::Sub, [x.into(), g.get(y, Op::Neg)?.kids[0].into()]))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = neg a\nv21 = add v20, b",
        keeps: "v20 = neg a\nv21 = mul v20, b",
    },
    Rule {
        name: "sub-neg",
        class: Class::Exact,
        says: "x - neg y = x + y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Sub]),
        apply: |g, _, n| {
            let y = g.get(n.kids[1], Op::Neg)?.kids[0];
            Some(Term::op(Op::Add, [n.kids[0].into(), y.into()]))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = neg a\nv21 = sub b, v20",
        keeps: "v20 = neg a\nv21 = sub v20, b",
    },
    Rule {
        name: "mul-one",
        class: Class::Exact,
        says: "x * 1 = x / 1 = x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul, Op::Div, Op::DivU]),
        apply: |g, _, n| {
            if n.op() == Some(Op::Mul) {
                return either(n, |id| is(g, id, 1)).map(|(x, _)| x.into());
            }
            is(g, n.kids[1], 1).then(|| n.kids[0].into())
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = cast one : T\nv21 = splat v20 : A\nv22 = mul a, v21\nv23 = div v22, v21",
        keeps: "v20 = cast one : T\nv21 = splat v20 : A\nv22 = div v21, a",
    },
    Rule {
        name: "mul-minus-one",
        class: Class::Exact,
        says: "x * -1 = x / -1 = neg x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul, Op::Div]),
        apply: |g, _, n| {
            let x = match n.op() {
                Some(Op::Mul) => either(n, |id| is(g, id, -1))?.0,
                _ => is(g, n.kids[1], -1).then(|| n.kids[0])?,
            };
            Some(Term::op(Op::Neg, [x.into()]))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = cast one : T\nv21 = neg v20\nv22 = splat v21 : A\nv23 = mul a, v22\nv24 = div b, v22\nv25 = minimum v23, v24",
        keeps: "v20 = cast one : T\nv21 = neg v20\nv22 = splat v21 : A\nv23 = add a, v22",
    },
    Rule {
        name: "mul-neg-neg",
        class: Class::Exact,
        says: "neg x * neg y = x * y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let (x, y) = (g.get(n.kids[0], Op::Neg)?.kids[0], g.get(n.kids[1], Op::Neg)?.kids[0]);
            Some(Term::op(Op::Mul, [x.into(), y.into()]))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = neg a\nv21 = neg b\nv22 = mul v20, v21",
        keeps: "v20 = neg a\nv22 = mul v20, b",
    },
    Rule {
        name: "choose-again",
        class: Class::Exact,
        says: "minimum (minimum x y) x = minimum x y, and so for the other choices",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Minimum, Op::Maximum, Op::MinimumU, Op::MaximumU, Op::And, Op::Or]),
        apply: |g, _, n| {
            let op = n.op()?;
            let hit = |outer: Id, x: Id| g.get(outer, op).is_some_and(|m| m.kids.contains(&x));
            let (a, b) = (n.kids[0], n.kids[1]);
            if hit(a, b) { Some(a.into()) } else { hit(b, a).then(|| b.into()) }
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = maximum a, b\nv21 = maximum v20, a",
        keeps: "v20 = maximum a, b\nv21 = maximum v20, c",
    },
    Rule {
        name: "sub-self",
        class: Class::Exact,
        says: "x - x = x xor x = 0, for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Sub, Op::Xor]),
        apply: |g, _, n| {
            let ty = g.node_ty(n);
            (n.kids[0] == n.kids[1] && !ty.elem().is_float()).then(|| Term::int(0, ty))
        },
        over: Types::Each(INTS),
        fires: "v20 = sub a, a\nv21 = xor b, b\nv22 = add v20, v21",
        keeps: "v20 = sub a, b",
    },
    Rule {
        name: "add-zero",
        class: Class::Exact,
        says: "x + 0 = x - 0 = x xor 0 = x or 0 = x; for floats x + -0 and x - +0",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Add, Op::Sub, Op::Xor, Op::Or]),
        apply: |g, _, n| {
            let op = n.op()?;
            let zero = |id: Id| match g.fact(id).value {
                Some(Literal::Int(0)) => true,
                Some(Literal::Float(bits)) => bits == if op == Op::Sub { 0.0f64 } else { -0.0 }.to_bits(),
                _ => false,
            };
            if op == Op::Sub { zero(n.kids[1]).then(|| n.kids[0].into()) } else { either(n, zero).map(|(x, _)| x.into()) }
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = cast zero : T\nv21 = neg v20\nv22 = splat v21 : A\nv23 = add v22, a\nv24 = splat v20 : A\nv25 = sub v23, v24",
        keeps: "v20 = cast one : T\nv21 = splat v20 : A\nv22 = add v21, a",
    },
    Rule {
        name: "bits-ones",
        class: Class::Exact,
        says: "x and ones = x, x or ones = ones, x xor ones = not x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::And, Op::Or, Op::Xor]),
        apply: |g, _, n| {
            let (x, ones) = either(n, |id| is_ones(g, id))?;
            Some(match n.op()? {
                Op::And => x.into(),
                Op::Or => ones.into(),
                _ => Term::op(Op::Not, [x.into()]),
            })
        },
        over: Types::Each(INTS),
        fires: "v20 = splat -1 : A\nv21 = and a, v20\nv22 = xor v21, v20\nv23 = or b, v20\nv24 = sub v22, v23",
        keeps: "v20 = splat 1 : A\nv21 = and a, v20",
    },
    Rule {
        name: "select-known",
        class: Class::Exact,
        says: "select true x y = x, select false x y = y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Select]),
        apply: |g, _, n| g.int(n.kids[0]).map(|c| if c != 0 { n.kids[1] } else { n.kids[2] }.into()),
        over: ALL,
        fires: "v20 = splat true : M\nv21 = select v20, a, b\nv22 = select false, v21, c",
        keeps: "v20 = select m, a, b",
    },
    Rule {
        name: "select-not",
        class: Class::Exact,
        says: "select (not c) x y = select c y x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Select]),
        apply: |g, _, n| inner(g, n, Op::Not).map(|c| Term::op(Op::Select, [c.into(), n.kids[2].into(), n.kids[1].into()])),
        over: ALL,
        fires: "v20 = not m\nv21 = select v20, a, b",
        keeps: "v20 = or m, m\nv21 = select v20, a, b",
    },
    Rule {
        name: "select-nested",
        class: Class::Exact,
        says: "select c (select c x y) z = select c x z, and so for the other arm",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Select]),
        apply: |g, _, n| {
            let arm = |at: usize| g.get(n.kids[at], Op::Select).filter(|m| m.kids[0] == n.kids[0]).map(|m| m.kids[at]);
            let (x, y) = (arm(1), arm(2));
            (x.is_some() || y.is_some())
                .then(|| Term::op(Op::Select, [n.kids[0].into(), x.unwrap_or(n.kids[1]).into(), y.unwrap_or(n.kids[2]).into()]))
        },
        over: ALL,
        fires: "v20 = select m, a, b\nv21 = select m, v20, c",
        keeps: "v20 = select m, a, b\nv21 = not m\nv22 = and m, v21\nv23 = select v22, v20, c",
    },
];
