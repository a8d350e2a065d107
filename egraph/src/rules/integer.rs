//! Integers: constants gather, quotients and remainders become shifts and masks where bounds and alignment allow it.

use super::Types;
use super::rule::{Class, INTS, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::Node;
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Attr, CmpOp, Op, Scalar};

const I32: Types = Types::Each(&[Scalar::I32]);

fn ints(g: &Graph, n: &Node) -> bool {
    g.node_ty(n).elem().is_int()
}

/// `(x, c)` of `x op c`, where the constant stands on the right.
fn by_constant(g: &Graph, id: Id, op: Op) -> Option<(Id, i64)> {
    let n = g.get(id, op)?;
    match (g.int(n.kids[1]), g.int(n.kids[0])) {
        (Some(c), _) => Some((n.kids[0], c)),
        (None, Some(c)) if op != Op::Sub => Some((n.kids[1], c)),
        _ => None,
    }
}

/// The exponent of a positive power of two.
fn exponent(c: i64) -> Option<i64> {
    (c > 0 && c & (c - 1) == 0).then(|| i64::from(c.trailing_zeros()))
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "int-sub-constant",
        class: Class::Exact,
        says: "x - c = x + -c, for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Sub]),
        apply: |g, _, n| {
            let c = g.int(n.kids[1]).filter(|_| ints(g, n))?;
            Some(Term::op(Op::Add, [n.kids[0].into(), Term::int(c.wrapping_neg(), g.node_ty(n))]))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 3 : A\nv21 = sub a, v20",
        keeps: "v20 = splat 3 : A\nv21 = sub v20, a",
    },
    Rule {
        name: "int-add-add",
        class: Class::Exact,
        says: "(x + c) + d = x + (c + d), for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Add]),
        apply: |g, _, n| {
            let d = g.int(n.kids[1]).filter(|_| ints(g, n))?;
            let (x, c) = by_constant(g, n.kids[0], Op::Add)?;
            Some(Term::op(Op::Add, [x.into(), Term::int(c.wrapping_add(d), g.node_ty(n))]))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 100 : A\nv21 = add a, v20\nv22 = add v21, v20",
        keeps: "v20 = splat 100 : A\nv21 = add a, v20\nv22 = add v21, b",
    },
    Rule {
        name: "int-mul-mul",
        class: Class::Exact,
        says: "(x * c) * d = x * (c * d), for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let d = g.int(n.kids[1]).filter(|_| ints(g, n))?;
            let (x, c) = by_constant(g, n.kids[0], Op::Mul)?;
            Some(Term::op(Op::Mul, [x.into(), Term::int(c.wrapping_mul(d), g.node_ty(n))]))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 100 : A\nv21 = mul a, v20\nv22 = mul v21, v20",
        keeps: "v20 = splat 100 : A\nv21 = add a, v20\nv22 = mul v21, v20",
    },
    Rule {
        name: "int-cancel",
        class: Class::Exact,
        says: "(x - y) + y = (x + y) - y = x, for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Add, Op::Sub]),
        apply: |g, _, n| {
            let (a, b) = (n.kids[0], n.kids[1]);
            if !ints(g, n) {
                return None;
            }
            if n.op() == Some(Op::Add) {
                let from = |x: Id, y: Id| g.get(x, Op::Sub).filter(|m| m.kids[1] == y).map(|m| m.kids[0]);
                return from(a, b).or_else(|| from(b, a)).map(Term::Class);
            }
            let m = g.get(a, Op::Add)?;
            (m.kids[1] == b).then(|| m.kids[0]).or_else(|| (m.kids[0] == b).then(|| m.kids[1])).map(Term::Class)
        },
        over: Types::Each(INTS),
        fires: "v20 = add a, b\nv21 = sub v20, a\nv22 = sub v21, c\nv23 = add v22, c",
        keeps: "v20 = sub a, b\nv21 = sub v20, b",
    },
    Rule {
        name: "int-shift-zero",
        class: Class::Exact,
        says: "x << 0 = x >> 0 = x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Shl, Op::ShrS, Op::ShrU]),
        apply: |g, _, n| (g.int(n.kids[1]) == Some(0)).then(|| n.kids[0].into()),
        over: Types::Each(INTS),
        fires: "v20 = splat 0 : A\nv21 = shl a, v20\nv22 = shr_s v21, v20\nv23 = shr_u v22, v20",
        keeps: "v20 = splat 1 : A\nv21 = shl a, v20",
    },
    Rule {
        name: "int-rem-aligned",
        class: Class::Exact,
        says: "x rem_u c = 0, for x a multiple of c, a power of two; of rem the facts say so",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::RemU]),
        apply: |g, _, n| {
            let e = exponent(g.int(n.kids[1])?)?;
            (e <= i64::from(g.fact(n.kids[0]).zeros)).then(|| Term::int(0, g.node_ty(n)))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 16 : A\nv21 = mul a, v20\nv22 = splat 8 : A\nv23 = rem_u v21, v22",
        keeps: "v20 = splat 4 : A\nv21 = mul a, v20\nv22 = splat 8 : A\nv23 = rem_u v21, v22",
    },
    Rule {
        name: "int-div-mul",
        class: Class::Exact,
        says: "(x / c) * c = x, for x a multiple of c, a power of two; div_u likewise",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Mul]),
        apply: |g, _, n| {
            let c = g.int(n.kids[1])?;
            let over = |op: Op| g.get(n.kids[0], op).filter(|m| g.int(m.kids[1]) == Some(c)).map(|m| m.kids[0]);
            let x = over(Op::Div).or_else(|| over(Op::DivU))?;
            (exponent(c)? <= i64::from(g.fact(x).zeros)).then(|| x.into())
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 16 : A\nv21 = mul a, v20\nv22 = splat 8 : A\nv23 = div v21, v22\nv24 = mul v23, v22\nv25 = div_u v21, v20\nv26 = mul v25, v20\nv27 = add v24, v26",
        keeps: "v22 = splat 8 : A\nv23 = div a, v22\nv24 = mul v23, v22",
    },
    Rule {
        name: "int-div-power",
        class: Class::Exact,
        says: "x / 2^k = x >> k, for x not negative, or a multiple of 2^k; x div_u 2^k = x >> k",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Div, Op::DivU]),
        apply: |g, _, n| {
            let x = n.kids[0];
            let k = exponent(g.int(n.kids[1]).filter(|_| ints(g, n))?)?;
            let unsigned = n.op() == Some(Op::DivU);
            let sound = unsigned || g.fact(x).range.0 >= 0 || k <= i64::from(g.fact(x).zeros);
            let op = if unsigned || g.fact(x).range.0 >= 0 { Op::ShrU } else { Op::ShrS };
            sound.then(|| Term::op(op, [x.into(), Term::int(k, g.node_ty(n))]))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 8 : A\nv21 = div_u a, v20\nv22 = mul b, v20\nv23 = div v22, v20\nv24 = add v21, v23",
        keeps: "v20 = splat 8 : A\nv21 = div a, v20",
    },
    Rule {
        name: "int-rem-power",
        class: Class::Exact,
        says: "x rem 2^k = x and (2^k - 1), for x not negative; so for rem_u of any x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Rem, Op::RemU]),
        apply: |g, _, n| {
            let c = g.int(n.kids[1])?;
            exponent(c)?;
            let sound = n.op() == Some(Op::RemU) || g.fact(n.kids[0]).range.0 >= 0;
            sound.then(|| Term::op(Op::And, [n.kids[0].into(), Term::int(c - 1, g.node_ty(n))]))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 8 : A\nv21 = rem_u a, v20",
        keeps: "v20 = splat 8 : A\nv21 = rem a, v20",
    },
    Rule {
        name: "int-rem-small",
        class: Class::Exact,
        says: "x rem c = x and x / c = 0, for 0 <= x < c",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Rem, Op::RemU, Op::Div, Op::DivU]),
        apply: |g, _, n| {
            let (lo, hi) = g.fact(n.kids[0]).range;
            if !ints(g, n) || lo < 0 || hi >= g.fact(n.kids[1]).range.0 {
                return None;
            }
            Some(if matches!(n.op(), Some(Op::Rem | Op::RemU)) { n.kids[0].into() } else { Term::int(0, g.node_ty(n)) })
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 7 : A\nv21 = and a, v20\nv22 = splat 9 : A\nv23 = rem v21, v22\nv24 = div v21, v22\nv25 = add v23, v24",
        keeps: "v20 = splat 7 : A\nv21 = and a, v20\nv22 = splat 7 : A\nv23 = rem v21, v22",
    },
    Rule {
        name: "int-and-covered",
        class: Class::Exact,
        says: "x and (2^k - 1) = x, for 0 <= x < 2^k",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::And]),
        apply: |g, _, n| {
            let c = g.int(n.kids[1]).filter(|_| ints(g, n))?;
            let (lo, hi) = g.fact(n.kids[0]).range;
            (c > 0 && c < i64::MAX && exponent(c + 1).is_some() && lo >= 0 && hi <= c).then(|| n.kids[0].into())
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 7 : A\nv21 = and a, v20\nv22 = splat 15 : A\nv23 = and v21, v22",
        keeps: "v20 = splat 7 : A\nv21 = and a, v20\nv22 = splat 3 : A\nv23 = and v21, v22",
    },
    Rule {
        name: "int-choose-known",
        class: Class::Exact,
        says: "minimum x y = x where the bounds say x <= y, and so for maximum",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Minimum, Op::Maximum]),
        apply: |g, _, n| {
            let (a, b) = (n.kids[0], n.kids[1]);
            if !ints(g, n) {
                return None;
            }
            let below = |x: Id, y: Id| g.fact(x).range.1 <= g.fact(y).range.0;
            let (low, high) = if below(a, b) { (a, b) } else { below(b, a).then_some((b, a))? };
            Some(if n.op() == Some(Op::Minimum) { low } else { high }.into())
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 7 : A\nv21 = and a, v20\nv22 = minimum v21, v20\nv23 = splat 0 : A\nv24 = maximum v22, v23",
        keeps: "v20 = splat 7 : A\nv21 = minimum a, v20",
    },
    Rule {
        name: "int-assume-known",
        class: Class::Exact,
        says: "assume x multiple n = x, where n is known to divide x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Assume]),
        apply: |g, _, n| {
            let Some(Attr::Divisor(d)) = g.attrs(n).first() else { return None };
            (exponent(i64::from(*d))? <= i64::from(g.fact(n.kids[0]).zeros)).then(|| n.kids[0].into())
        },
        over: I32,
        fires: "v20 = mul i, 32\nv21 = assume v20, multiple 16\nv22 = splat v21 : A",
        keeps: "v20 = mul i, 32\nv21 = assume v20, multiple 64\nv23 = mul v21, 0\nv22 = splat v23 : A",
    },
    Rule {
        name: "cmp-bounds",
        class: Class::Exact,
        says: "x < y is known where the bounds of x and y do not meet",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Cmp]),
        apply: |g, _, n| {
            let Some(Attr::Cmp(c)) = g.attrs(n).first() else { return None };
            let (x, y) = (g.fact(n.kids[0]).range, g.fact(n.kids[1]).range);
            if g.ty(n.kids[0]).elem().is_float() || (c.is_unsigned() && (x.0 < 0 || y.0 < 0)) {
                return None;
            }
            let known = |yes: bool, no: bool| (yes || no).then_some(yes);
            let holds = match c {
                CmpOp::Lt | CmpOp::Ult => known(x.1 < y.0, x.0 >= y.1),
                CmpOp::Le | CmpOp::Ule => known(x.1 <= y.0, x.0 > y.1),
                CmpOp::Gt | CmpOp::Ugt => known(x.0 > y.1, x.1 <= y.0),
                CmpOp::Ge | CmpOp::Uge => known(x.0 >= y.1, x.1 < y.0),
                CmpOp::Eq => known(false, x.1 < y.0 || x.0 > y.1),
                CmpOp::Ne => known(x.1 < y.0 || x.0 > y.1, false),
            }?;
            Some(Term::int(i64::from(holds), g.node_ty(n)))
        },
        over: Types::Each(INTS),
        fires: "v20 = splat 7 : A\nv21 = and a, v20\nv22 = splat 8 : A\nv23 = cmp lt v21, v22",
        keeps: "v20 = splat 7 : A\nv21 = and a, v20\nv23 = cmp lt v21, v20",
    },
    Rule {
        name: "cmp-not",
        class: Class::Exact,
        says: "not (x < y) = x >= y, and so on, for integers; not (x == y) = x != y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Not]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Cmp)?;
            let Some(&Attr::Cmp(c)) = g.attrs(m).first() else { return None };
            if g.ty(m.kids[0]).elem().is_float() && !matches!(c, CmpOp::Eq | CmpOp::Ne) {
                return None;
            }
            Some(Term::with(Op::Cmp, &[Attr::Cmp(c.inverted())], None, [m.kids[0].into(), m.kids[1].into()]))
        },
        over: Types::Each(super::rule::NUMBERS),
        fires: "v20 = cmp eq a, b\nv21 = not v20",
        keeps: "v20 = cmp eq a, b\nv21 = and v20, m",
    },
    Rule {
        name: "select-choose",
        class: Class::Exact,
        says: "select (x < y) x y = minimum x y, and so on, for integers",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Select]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Cmp)?;
            if !ints(g, n) {
                return None;
            }
            let Some(Attr::Cmp(c)) = g.attrs(m).first() else { return None };
            let straight = m.kids[..] == n.kids[1..];
            let crossed = m.kids[0] == n.kids[2] && m.kids[1] == n.kids[1];
            let (small, large) = match c {
                CmpOp::Lt | CmpOp::Le => (Op::Minimum, Op::Maximum),
                CmpOp::Gt | CmpOp::Ge => (Op::Maximum, Op::Minimum),
                CmpOp::Ult | CmpOp::Ule => (Op::MinimumU, Op::MaximumU),
                CmpOp::Ugt | CmpOp::Uge => (Op::MaximumU, Op::MinimumU),
                CmpOp::Eq | CmpOp::Ne => return None,
            };
            let op = if straight { small } else { crossed.then_some(large)? };
            Some(Term::op(op, [n.kids[1].into(), n.kids[2].into()]))
        },
        over: Types::Each(INTS),
        fires: "v20 = cmp lt a, b\nv21 = select v20, a, b\nv22 = cmp uge b, c\nv23 = select v22, c, b\nv24 = add v21, v23",
        keeps: "v20 = cmp lt a, b\nv21 = select v20, a, c",
    },
];
