//! Sums of squared distances from a mean, in the pass that makes the mean.
//!
//! ```text
//! D r = sum of (x - r)^2,  r = S / n the mean so far       D r' = D r + n * (r - r')^2, since the distances from r sum up to 0
//! ```
//!
//! That is how Chan, Golub and LeVeque merge variances, a tile at a time. Nothing asks what the written mean is: from the mean of what was
//! summed to any other value the sum of squares goes by the same identity.

use super::Types;
use super::rule::{Class, Phase, Roots, Rule};
use super::scales::across;
use crate::graph::{Graph, Read, bit};
use crate::hash::IndexSet;
use crate::language::{Head, Node};
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Attr, Literal, Op, ReduceOp, Scalar, Shape, Type};

/// Classes that a look goes through.
const LOOKS: usize = 512;

/// A squared distance: `x`, what it is the distance from, and where it counts.
struct Square {
    x: Id,
    from: Id,
    mask: Option<Id>,
}

fn is_zero(g: &Graph, id: Id) -> bool {
    matches!(g.fact(id).value, Some(Literal::Float(bits)) if f64::from_bits(bits) == 0.0)
}

/// The arms of a choice between a value and 0.
fn masked(g: &Graph, id: Id) -> Option<(Id, Id)> {
    let n = g[id].nodes.iter().find(|n| n.op() == Some(Op::Select) && is_zero(g, n.kids[2]))?;
    Some((n.kids[0], n.kids[1]))
}

fn square(g: &Graph, id: Id) -> Option<Square> {
    let (mask, inner) = masked(g, id).map_or((None, id), |(m, x)| (Some(m), x));
    let m = g[inner].nodes.iter().find(|n| n.op() == Some(Op::Mul) && n.kids[0] == n.kids[1])?;
    let distance = m.kids[0];
    let (mask, distance) = match masked(g, distance) {
        Some((c, x)) if mask.is_none() => (Some(c), x),
        _ => (mask, distance),
    };
    let d = g.get(distance, Op::Sub)?;
    Some(Square { x: d.kids[0], from: d.kids[1], mask })
}

/// True if a value may need the last value of a fold over a range.
fn waits(g: &Graph, id: Id, range: u32) -> bool {
    let (mut seen, mut work) = (IndexSet::default(), vec![id]);
    while let Some(at) = work.pop().map(|id| g.find(id)) {
        if seen.len() > LOOKS {
            return false;
        }
        if !seen.insert(at) {
            continue;
        }
        for n in &g[at].nodes {
            if matches!(n.head, Head::Fold { range: of, .. } if of == range) {
                return true;
            }
            work.extend(&n.kids);
        }
    }
    false
}

/// A value without an axis, in the shape of a type that has it.
fn spread(value: Term, axis: usize, to: &Type) -> Option<Term> {
    let shape = to.shape()?;
    if shape.len() == 1 {
        return Some(Term::with(Op::Splat, &[], Some(to.clone()), [value]));
    }
    let flat: Shape = shape.iter().enumerate().map(|(d, &e)| if d == axis { 1 } else { e }).collect();
    let column = Term::with(Op::Reshape, &[], Some(Type::tile(&flat, to.elem())), [value]);
    Some(Term::with(Op::Broadcast, &[], Some(to.clone()), [column]))
}

fn moments(g: &Graph, n: &Node) -> Option<Term> {
    let Head::Fold { op: Op::Add, range, online: false, ty } = n.head else { return None };
    let row = g.node_ty(n);
    if !matches!(row.elem(), Scalar::F32 | Scalar::F64) || !is_zero(g, n.kids[3]) {
        return None;
    }
    let reduce = g.get(n.kids[4], Op::Reduce)?;
    let &[Attr::Reduce(ReduceOp::Add), Attr::Dim(axis)] = g.attrs(reduce) else { return None };
    let axis = axis as usize;
    let Square { x, from, mask } = square(g, reduce.kids[0])?;
    let here = |id: Id| g.fact(id).free & bit(Some(range)) != 0;
    if !here(x) || here(from) || !waits(g, from, range) {
        return None;
    }
    let tile = g.ty(x);
    let written = across(g, from, axis, row)?;
    let only = |value: Term| match mask {
        Some(m) => Term::op(Op::Select, [m.into(), value, Term::float(0.0, tile)]),
        None => value,
    };
    let sum = |value: Term| Term::with(Op::Reduce, g.attrs(reduce), None, [value]);
    let fold = |element: Term| {
        let kids = n.kids[..4].iter().map(Term::from).chain([element]);
        Term::of_loop(Head::Fold { op: Op::Add, range, online: false, ty }, kids)
    };
    let extent = f64::from(*tile.shape()?.get(axis)?);
    let counted = match mask {
        Some(_) => sum(only(Term::float(1.0, tile))),
        None => Term::float(extent, row),
    };
    let (count, total) = (fold(counted), fold(sum(only(x.into()))));
    let state = |of: &Term, before: bool| Term::of_loop(Head::State { range, before, ty }, [of.clone()]);
    let mean = |total: Term, count: Term| {
        let some = Term::op(Op::Maximum, [count, Term::float(1.0, row)]);
        Term::op(Op::Div, [total, some])
    };
    // What the squares of so many elements grow by as the value they are taken from moves to or from their mean.
    let moved = |count: Term, mean: Term, to: Term| {
        let distance = Term::op(Op::Sub, [mean, to]);
        Term::op(Op::Mul, [count, Term::op(Op::Mul, [distance.clone(), distance])])
    };
    let before = mean(state(&total, true), state(&count, true));
    let after = mean(state(&total, false), state(&count, false));
    let distance = Term::op(Op::Sub, [x.into(), spread(after.clone(), axis, tile)?]);
    let squares = sum(only(Term::op(Op::Mul, [distance.clone(), distance])));
    let element = Term::op(Op::Add, [squares, moved(state(&count, true), before, after)]);
    Some(Term::op(Op::Add, [fold(element), moved(count.clone(), mean(total, count), written)]))
}

pub(super) const RULES: &[Rule] = &[Rule {
    name: "fold-moments",
    class: Class::Reassoc,
    says: "sum over j of the sums of (x - m)^2, for m that waits for a fold over the same j = the squares from the mean so far, moved as the mean moves (Chan), and from the last mean to m; masked by 0 likewise",
    phase: Phase::Simplify,
    roots: Roots::Folds,
    apply: |g, id, n| {
        let range = if let Head::Fold { range, .. } = n.head { range } else { return None };
        let folded = |k: &Id| g[*k].nodes.iter().any(|m| matches!(m.head, Head::Fold { range: of, .. } if of == range));
        let done = g[id].nodes.iter().any(|m| matches!(m.op(), Some(Op::Add | Op::Fma)) && m.kids.iter().any(folded));
        if done { None } else { moments(g, n) }
    },
    over: Types::Each(&[Scalar::F32, Scalar::F64]),
    fires: "v19 = cast zero : T\nv20 = splat v19 : tile<8xT>\nv22 = for v23 in 0..3 step 1 carry v24 = v20 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = reduce add v27, axis 1\nv29 = add v24, v28\nyield v29\n}\nv30 = cast 48 : T\nv31 = splat v30 : tile<8xT>\nv18 = div v22, v31\nv32 = for v33 in 0..3 step 1 carry v34 = v20 {\nv35 = cast v33 : T\nv36 = splat v35 : A\nv37 = mul a, v36\nv38 = reshape v18 : tile<8x1xT>\nv39 = broadcast v38 : A\nv40 = sub v37, v39\nv41 = mul v40, v40\nv43 = reduce add v41, axis 1\nv44 = add v34, v43\nyield v44\n}",
    keeps: "v19 = cast zero : T\nv20 = splat v19 : tile<8xT>\nv22 = for v23 in 0..3 step 1 carry v24 = v20 {\nv25 = cast v23 : T\nv26 = splat v25 : A\nv27 = mul a, v26\nv28 = reduce add v27, axis 1\nv29 = add v24, v28\nyield v29\n}\nv30 = cast 48 : T\nv31 = splat v30 : tile<8xT>\nv18 = div v22, v31\nv32 = for v33 in 0..3 step 1 carry v34 = v20 {\nv35 = cast v33 : T\nv36 = splat v35 : A\nv37 = mul a, v36\nv38 = reshape v18 : tile<8x1xT>\nv39 = broadcast v38 : A\nv40 = sub v37, v39\nv41 = mul v40, v37\nv43 = reduce add v41, axis 1\nv44 = add v34, v43\nyield v44\n}",
}];
