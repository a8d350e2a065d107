//! Folds along an axis: of one element, of equal elements, of moved tiles. The order of a fold depends on its extent alone.

use super::Types;
use super::rule::{Class, FLOATS, NUMBERS, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::Node;
use crate::term::Term;
use egg::Id;
use tilelift_ir::{Attr, Op, ReduceOp, Shape, Type, num};

fn parts(g: &Graph, n: &Node) -> Option<(ReduceOp, usize)> {
    match g.attrs(n) {
        [Attr::Reduce(op), Attr::Dim(axis)] => Some((*op, *axis as usize)),
        _ => None,
    }
}

/// The extent along the axis, if elements are equal along it.
fn equal_along(g: &Graph, n: &Node, axis: usize) -> Option<u32> {
    let extent = g.ty(n.kids[0]).shape()?[axis];
    (extent > 1 && g.fact(n.kids[0]).same >> axis & 1 == 1).then_some(extent)
}

/// The first element along an axis, without the axis.
fn first(g: &Graph, n: &Node, axis: usize) -> Option<Term> {
    let ty = g.ty(n.kids[0]).as_tile()?;
    let mut shape = ty.shape.clone();
    shape[axis] = 1;
    let at: Shape = shape.iter().map(|_| 0).collect();
    let slice = Term::with(Op::Slice, &[Attr::Offsets(at)], Some(Type::tile(&shape, ty.elem)), [n.kids[0].into()]);
    Some(Term::with(Op::Reshape, &[], Some(g.node_ty(n).clone()), [slice]))
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "reduce-one",
        class: Class::Exact,
        says: "a reduction of one element is that element; a scan likewise",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce, Op::Scan, Op::ScanReverse]),
        apply: |g, _, n| {
            let (_, axis) = parts(g, n)?;
            if g.ty(n.kids[0]).shape()?[axis] != 1 {
                return None;
            }
            let x: Id = n.kids[0];
            Some(if n.op() == Some(Op::Reduce) { Term::with(Op::Reshape, &[], Some(g.node_ty(n).clone()), [x.into()]) } else { x.into() })
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = reshape a : tile<8x1x16xT>\nv21 = scan add v20, axis 1\nv22 = reduce add v21, axis 1",
        keeps: "v22 = reduce add a, axis 1",
    },
    Rule {
        name: "scan-flip",
        class: Class::Exact,
        says: "scan (flip x) = flip (scan_reverse x), along the axis, and the other way round",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Scan, Op::ScanReverse]),
        apply: |g, _, n| {
            let (_, axis) = parts(g, n)?;
            let along = [Attr::Dim(axis as u32)];
            let x = g.get(n.kids[0], Op::Flip).filter(|m| g.attrs(m) == along)?.kids[0];
            let back = if n.op() == Some(Op::Scan) { Op::ScanReverse } else { Op::Scan };
            Some(Term::with(Op::Flip, &along, None, [Term::with(back, g.attrs(n), None, [x.into()])]))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = flip a, axis 1\nv21 = scan add v20, axis 1\nv22 = flip b, axis 0\nv23 = scan_reverse maximum v22, axis 0\nv24 = minimum v21, v23",
        keeps: "v20 = flip a, axis 0\nv21 = scan add v20, axis 1",
    },
    Rule {
        name: "reduce-add-equal",
        class: Class::Exact,
        says: "the sum of n equal elements is n times the first: for integers, and for floats where n is a power of two",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (op, axis) = parts(g, n)?;
            let extent = equal_along(g, n, axis).filter(|_| op == ReduceOp::Add)?;
            let (ty, by) = (g.node_ty(n), f64::from(extent));
            let many = if !ty.elem().is_float() {
                Term::int(i64::from(extent), ty)
            } else if extent.is_power_of_two() && num::round(by, ty.elem()) == by {
                // Every step of the tree doubles, which is exact, or overflows as the product does.
                Term::float(by, ty)
            } else {
                return None;
            };
            Some(Term::op(Op::Mul, [first(g, n, axis)?, many]))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = slice a, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = reduce add v21, axis 1",
        keeps: "v20 = slice a, [0, 3] : tile<8x1xT>\nv21 = broadcast v20 : A\nv22 = reduce add v21, axis 0",
    },
    Rule {
        name: "reduce-broadcast",
        class: Class::Exact,
        says: "reduce (broadcast x) = broadcast (reduce x), along an axis that the broadcast leaves",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (_, axis) = parts(g, n)?;
            let x = g.get(n.kids[0], Op::Broadcast)?.kids[0];
            let whole = g.ty(x).shape()?[axis] == g.ty(n.kids[0]).shape()?[axis];
            (whole && matches!(g.node_ty(n), Type::Tile(_))).then(|| {
                let inner = Term::with(Op::Reduce, g.attrs(n), None, [x.into()]);
                Term::with(Op::Broadcast, &[], Some(g.node_ty(n).clone()), [inner])
            })
        },
        over: Types::Each(FLOATS),
        fires: "v20 = slice a, [3, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = reduce add v21, axis 1",
        keeps: "v20 = slice a, [3, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = reduce add v21, axis 0",
    },
    Rule {
        name: "reduce-transpose",
        class: Class::Exact,
        says: "reduce (transpose x) = transpose (reduce x along the axis that comes there)",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reduce]),
        apply: |g, _, n| {
            let (op, axis) = parts(g, n)?;
            let m = g.get(n.kids[0], Op::Transpose)?;
            let Some(Attr::Perm(p)) = g.attrs(m).first() else { return None };
            let from = p[axis];
            let rest: Shape = p.iter().filter(|&&d| d != from).map(|&d| d - u32::from(d > from)).collect();
            let sum = Term::with(Op::Reduce, &[Attr::Reduce(op), Attr::Dim(from)], None, [m.kids[0].into()]);
            let ordered = rest.windows(2).all(|w| w[0] < w[1]);
            Some(if ordered { sum } else { Term::with(Op::Transpose, &[Attr::Perm(rest)], None, [sum]) })
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = transpose a, [1, 0]\nv21 = reduce add v20, axis 1\nv22 = reshape b : tile<8x4x4xT>\nv23 = transpose v22, [1, 2, 0]\nv24 = reduce maximum v23, axis 1\nv25 = reshape v24 : tile<32xT>\nv26 = slice v25, [0] : tile<16xT>\nv27 = add v21, v26",
        keeps: "v20 = transpose a, [1, 0]\nv21 = reshape v20 : tile<4x32xT>\nv22 = reduce add v21, axis 1",
    },
];
