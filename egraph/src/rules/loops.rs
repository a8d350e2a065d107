//! Folds, loops whose body does not see the accumulator: factors leave them, and a sum that waits for a maximum over the same range follows
//! it instead, so that one pass does for both.
//!
//! Folds over one range and pass share a loop without a rule (`passes.rs`, `fuse.rs`).

use super::Types;
use super::rule::{Class, Phase, Roots, Rule};
use crate::graph::{Graph, Read, bit};
use crate::language::{Head, Node};
use crate::rescale::rescaled;
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Attr, CmpOp, Literal, Op, Scalar, Type};

const WIDE: Types = Types::Each(&[Scalar::F32, Scalar::F64]);

/// A plain fold that starts from 0, in which factors and ratios do not meet anything else.
fn plain(g: &Graph, n: &Node, want: Op) -> Option<u32> {
    let Head::Fold { op, range, online: false, .. } = n.head else { return None };
    let zero = match g.fact(n.kids[3]).value {
        Some(Literal::Float(bits)) => f64::from_bits(bits) == 0.0,
        Some(Literal::Int(i)) => i == 0,
        None => false,
    };
    (op == want && (zero || want != Op::Add)).then_some(range)
}

fn wide(g: &Graph, n: &Node) -> bool {
    matches!(g.node_ty(n).elem(), Scalar::F32 | Scalar::F64)
}

/// The fold with another element.
fn folded(n: &Node, element: Id) -> Term {
    let kids = n.kids.iter().enumerate().map(|(i, &k)| Term::from(if i == 4 { element } else { k }));
    Term::of_loop(n.head, kids)
}

/// What a product or quotient does to a sum: the factor that does not change from iteration to iteration, and the other.
fn factor(g: &Graph, element: Id, range: u32, op: Op) -> Option<(Id, Id)> {
    let changes = |id: Id| g.fact(id).free & bit(Some(range)) != 0;
    g[element].nodes.iter().filter(|m| m.op() == Some(op)).find_map(|m| {
        let (a, b) = (m.kids[0], m.kids[1]);
        match (changes(a), changes(b)) {
            (true, false) => Some((a, b)),
            (false, true) if op == Op::Mul => Some((b, a)),
            _ => None,
        }
    })
}

/// A value, and 0 where the loop does nothing at all: a sum of nothing is 0, whatever it is multiplied by.
fn unless_empty(g: &Graph, n: &Node, value: Term) -> Term {
    let (lo, hi, ty) = (n.kids[0], n.kids[1], g.node_ty(n));
    if g.fact(lo).range.1 < g.fact(hi).range.0 {
        return value;
    }
    let some = Term::with(Op::Cmp, &[Attr::Cmp(CmpOp::Lt)], None, [lo.into(), hi.into()]);
    let some = match ty {
        Type::Tile(_) => Term::with(Op::Splat, &[], Some(ty.with_elem(Scalar::I1)), [some]),
        _ => some,
    };
    Term::op(Op::Select, [some, value, n.kids[3].into()])
}

/// Rounds of a fold whose bounds are known.
fn rounds(g: &Graph, n: &Node) -> Option<i64> {
    let (lo, hi, step) = (g.int(n.kids[0])?, g.int(n.kids[1])?, g.int(n.kids[2])?);
    (step > 0 && lo < hi).then(|| hi.checked_sub(lo).map(|d| (d - 1) / step + 1))?
}

/// Products of 8-bit integers that an element of a matrix product sums, if nothing is added to them.
fn narrow_products(g: &Graph, id: Id) -> Option<i64> {
    let m = g.get(id, Op::Dot).filter(|m| g.int(m.kids[2]) == Some(0))?;
    let narrow = m.kids[..2].iter().all(|&k| g.ty(k).elem() == Scalar::I8);
    narrow.then(|| g.ty(m.kids[0]).shape()?.last().map(|&e| i64::from(e)))?
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "fold-linear",
        class: Class::Reassoc,
        says: "sum over j of x * s = (sum over j of x) * s, for s that is the same for all j, quotients likewise; 0 where there is no j",
        phase: Phase::Simplify,
        roots: Roots::Folds,
        apply: |g, _, n| {
            let range = plain(g, n, Op::Add).filter(|_| wide(g, n))?;
            [Op::Mul, Op::Div].into_iter().find_map(|op| {
                let (x, s) = factor(g, n.kids[4], range, op)?;
                let scaled = Term::op(op, [folded(n, x), s.into()]);
                // Nothing times a number is nothing.
                let number = g.float(s).is_some_and(|c| c.is_finite() && (op == Op::Mul || c != 0.0));
                Some(if number { scaled } else { unless_empty(g, n, scaled) })
            })
        },
        over: WIDE,
        fires: "v17 = cast one : T\nv18 = splat v17 : A\nv19 = abs c\nv16 = add v19, v18\nv20 = cast zero : T\nv21 = splat v20 : A\nv22 = for v23 in 0..i step 1 carry v24 = v21 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = mul v27, b\nv29 = div v28, v16\nv30 = add v24, v29\nyield v30\n}",
        keeps: "v20 = cast zero : T\nv21 = splat v20 : A\nv22 = for v23 in 0..i step 1 carry v24 = v21 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = add v27, b\nv29 = div c, v28\nv30 = add v24, v29\nyield v30\n}",
    },
    Rule {
        name: "fold-integers",
        class: Class::Reassoc,
        says: "sum over j of dots of i8 made floats = the conversion of the sum over j of the dots, for at most 2^16 products",
        phase: Phase::Simplify,
        roots: Roots::Folds,
        apply: |g, _, n| {
            plain(g, n, Op::Add).filter(|_| wide(g, n) && g.fact(n.kids[3]).value == Some(Literal::Float(0)))?;
            let x = g.get(n.kids[4], Op::Cast)?.kids[0];
            let products = rounds(g, n)?.checked_mul(narrow_products(g, x)?)?;
            // 2^16 products of at most 2^14.
            let Head::Fold { op, range, online, .. } = n.head else { return None };
            (products <= 1 << 16).then(|| {
                let none = Term::int(0, g.ty(x));
                let kids = n.kids[..3].iter().map(Term::from).chain([none, x.into()]);
                let sum = Term::of_loop(Head::Fold { op, range, online, ty: g.fact(x).ty }, kids);
                Term::with(Op::Cast, &[], Some(g.node_ty(n).clone()), [sum])
            })
        },
        over: WIDE,
        fires: "v19 = splat 0 : tile<8x8xi32>\nv20 = cast zero : T\nv21 = splat v20 : tile<8x8xT>\nv16 = cast m : tile<8x16xi8>\nv17 = transpose v13, [1, 0]\nv22 = for v23 in 0..64 step 16 carry v24 = v21 {\nv25 = cast v23 : i8\nv26 = splat v25 : tile<8x16xi8>\nv27 = add v16, v26\nv28 = dot v27, v17, v19\nv29 = cast v28 : tile<8x8xT>\nv30 = add v24, v29\nyield v30\n}",
        keeps: "v19 = splat 0 : tile<8x8xi32>\nv20 = cast zero : T\nv21 = splat v20 : tile<8x8xT>\nv16 = cast m : tile<8x16xi8>\nv17 = transpose v13, [1, 0]\nv22 = for v23 in 0..i step 16 carry v24 = v21 {\nv25 = cast v23 : i8\nv26 = splat v25 : tile<8x16xi8>\nv27 = add v16, v26\nv28 = dot v27, v17, v19\nv29 = cast v28 : tile<8x8xT>\nv30 = add v24, v29\nyield v30\n}",
    },
    Rule {
        name: "fold-scale",
        class: Class::Exact,
        says: "maximum over j of x * c = (maximum over j of x) * c, for a constant c above 0 and a start of -inf; minimum likewise",
        phase: Phase::Simplify,
        roots: Roots::Folds,
        apply: |g, _, n| {
            let Head::Fold { op, .. } = n.head else { return None };
            let start = match op {
                Op::Maximum => f64::NEG_INFINITY,
                Op::Minimum => f64::INFINITY,
                _ => return None,
            };
            plain(g, n, op).filter(|_| g.float(n.kids[3]) == Some(start))?;
            let m = g.get(n.kids[4], Op::Mul)?;
            let c = g.float(m.kids[1]).filter(|c| c.is_finite() && *c > 0.0)?;
            Some(Term::op(Op::Mul, [folded(n, m.kids[0]), Term::float(c, g.node_ty(n))]))
        },
        over: Types::Each(super::rule::FLOATS),
        fires: "v21 = splat -inf_T : A\nv22 = for v23 in 0..i step 1 carry v24 = v21 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = splat 1.5 : A\nv29 = mul v27, v28\nv30 = maximum v24, v29\nyield v30\n}",
        keeps: "v21 = splat -inf_T : A\nv22 = for v23 in 0..i step 1 carry v24 = v21 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = splat -1.5 : A\nv29 = mul v27, v28\nv30 = maximum v24, v29\nyield v30\n}",
    },
    Rule {
        name: "fold-rescale",
        class: Class::Reassoc,
        says: "a sum over j that needs the maximum over j of x and scales as it moves (products with exp (x - maximum), sums and matrix products of such) takes the maximum so far, and multiplies what it has by exp (before - after); a row of -inf alone has the sum 0, not NaN",
        phase: Phase::Simplify,
        roots: Roots::Folds,
        apply: |g, id, n| {
            let range = plain(g, n, Op::Add).filter(|_| wide(g, n))?;
            let done = |m: &Node| matches!(m.head, Head::Fold { online: true, range: of, .. } if of == range);
            if g[id].nodes.iter().any(done) {
                return None;
            }
            let Head::Fold { op, ty, .. } = n.head else { return None };
            let (element, factor) = rescaled(g, range, n.kids[4], g.node_ty(n))?;
            let kids = n.kids[..4].iter().map(Term::from).chain([element, factor]);
            Some(Term::of_loop(Head::Fold { op, range, online: true, ty }, kids))
        },
        over: WIDE,
        fires: "v21 = splat -inf_T : tile<8xT>\nv22 = for v23 in 0..3 step 1 carry v24 = v21 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = reduce maximum v27, axis 1\nv29 = maximum v24, v28\nyield v29\n}\nv30 = cast zero : T\nv31 = splat v30 : tile<8xT>\nv32 = for v33 in 0..3 step 1 carry v34 = v31 {\nv35 = cast v33 : T\nv36 = splat v35 : A\nv37 = mul a, v36\nv38 = reshape v22 : tile<8x1xT>\nv39 = broadcast v38 : A\nv40 = sub v37, v39\nv41 = exp v40\nv42 = mul v41, b\nv43 = reduce add v42, axis 1\nv44 = add v34, v43\nyield v44\n}",
        keeps: "v21 = splat -inf_T : tile<8xT>\nv22 = for v23 in 0..3 step 1 carry v24 = v21 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = reduce maximum v27, axis 1\nv29 = maximum v24, v28\nyield v29\n}\nv30 = cast zero : T\nv31 = splat v30 : tile<8xT>\nv32 = for v33 in 0..3 step 1 carry v34 = v31 {\nv35 = cast v33 : T\nv36 = splat v35 : A\nv37 = mul a, v36\nv38 = reshape v22 : tile<8x1xT>\nv39 = broadcast v38 : A\nv40 = sub v37, v39\nv41 = exp v40\nv42 = add v41, b\nv43 = reduce add v42, axis 1\nv44 = add v34, v43\nyield v44\n}",
    },
];
