//! Masks and reads: what bounds, alignment and loops imply is not asked again; a store is read back from registers.

use super::Types;
use super::rule::{Class, Phase, Roots, Rule};
use crate::graph::{Affine, Graph, Read, Stored};
use crate::language::{Head, Node};
use crate::term::Term;
use egg::Id;
use smallvec::SmallVec;
use tilelift_ir::{Attr, CmpOp, Extent, Literal, Op, Scalar, Type, ViewType};

const EVERY: Types = Types::Pairs(|t, u| t == u);
const READS: &[Op] = &[Op::Load, Op::Gather];
/// Numbers that a bound is looked through for, where it is a minimum of some.
const BOUNDS: usize = 6;
const MASK: u8 = 0b0100;
const OTHER: u8 = 0b1000;

fn present(n: &Node) -> u8 {
    match n.head {
        Head::Op { present, .. } => present,
        Head::Leaf { .. } | Head::Fold { .. } | Head::State { .. } => 0,
    }
}

fn view<'g>(g: &'g Graph, n: &Node) -> Option<&'g ViewType> {
    g.ty(*n.kids.first()?).as_view()
}

/// The mask of a read.
fn mask(g: &Graph, n: &Node) -> Option<Id> {
    (present(n) & MASK != 0).then(|| n.kids.get(1 + view(g, n)?.rank()).copied()).flatten()
}

/// A read with another mask, or none.
fn masked(g: &Graph, n: &Node, new: Option<Id>) -> Option<Term> {
    let at = 1 + view(g, n)?.rank();
    let mut kids: SmallVec<[Term; 3]> = n.kids.iter().map(Term::from).collect();
    match new {
        Some(m) => kids[at] = m.into(),
        None => {
            kids.remove(at);
        }
    }
    Term::again(g, n, if new.is_none() { present(n) & !MASK } else { present(n) }, kids)
}

/// `x < y` of a comparison in either direction.
fn less(g: &Graph, mask: Id) -> Option<(Id, Id)> {
    let n = g.get(mask, Op::Cmp)?;
    match g.attrs(n).first() {
        Some(Attr::Cmp(CmpOp::Lt)) => Some((n.kids[0], n.kids[1])),
        Some(Attr::Cmp(CmpOp::Gt)) => Some((n.kids[1], n.kids[0])),
        _ => None,
    }
}

/// The scalar that every element of a tile equals.
fn scalar(g: &Graph, id: Id) -> Option<Id> {
    let a = g.fact(id).affine.as_ref()?;
    (a.offset == 0 && a.steps.iter().all(|&s| s == 0)).then_some(a.base?).map(|b| g.find(b))
}

/// True if a scalar is the extent of dimension `d` of a view.
fn is_extent(g: &Graph, id: Id, of: Id, d: usize) -> bool {
    g.get(id, Op::Dim)
        .is_some_and(|n| g.find(n.kids[0]) == g.find(of) && matches!(g.attrs(n).first(), Some(Attr::Dim(k)) if *k as usize == d))
}

/// True if the mask only asks whether elements lie inside the view along a dimension, which the read asks anyway.
fn asks_bounds(g: &Graph, n: &Node, mask: Id) -> bool {
    let (Some(v), Some((x, y))) = (view(g, n), less(g, mask)) else { return false };
    let Some(Affine { base, offset, steps }) = &g.fact(x).affine else { return false };
    (0..v.rank()).any(|d| {
        let extent = scalar(g, y).is_some_and(|y| is_extent(g, y, n.kids[0], d))
            || matches!((v.dims[d], g.int(y)), (Extent::Fixed(n), Some(c)) if i64::from(n) == c);
        let along = steps.iter().enumerate().all(|(k, &s)| s == i64::from(k == d) || g.node_ty(n).shape().is_some_and(|e| e[k] == 1));
        let Some(at) = &g.fact(n.kids[1 + d]).affine else { return false };
        extent && along && at.offset == *offset && at.base.map(|b| g.find(b)) == base.map(|b| g.find(b))
    })
}

/// True if `index + past` is below `end` in every round of the loop that owns the index: bounds and step are aligned, or nothing is added.
fn loop_covers(g: &Graph, index: Id, past: i64, end: Id) -> bool {
    let leaf = |n: &Node| match n.head {
        Head::Leaf { value, .. } => g.analysis.loops[value],
        Head::Op { .. } | Head::Fold { .. } | Head::State { .. } => None,
    };
    let Some(l) = g[index].nodes.iter().find_map(leaf) else { return false };
    // The index itself is, whatever the step.
    let aligned = || {
        let Some(step) = g.int(l.step).filter(|s| *s > 0 && s & (s - 1) == 0) else { return false };
        past < step && [l.lo, end].iter().all(|&id| u32::from(g.fact(id).zeros) >= step.trailing_zeros())
    };
    let same = |hi: Id| g.find(hi) == g.find(end) || (g.int(end).is_some() && g.int(end) == g.int(hi));
    (past <= 0 || aligned()) && ends(g, l.hi).into_iter().any(same)
}

/// Numbers that a bound is not above: itself, and what it is a minimum of.
fn ends(g: &Graph, hi: Id) -> SmallVec<[Id; 4]> {
    let mut list: SmallVec<[Id; 4]> = SmallVec::from_slice(&[hi]);
    let mut at = 0;
    while let Some(&bound) = list.get(at).filter(|_| list.len() < BOUNDS) {
        list.extend(g.get(bound, Op::Minimum).into_iter().flat_map(|least| least.kids.iter().copied()));
        at += 1;
    }
    list
}

/// True if the elements `index..index + extent` lie inside dimension `d` of a view.
fn inside(g: &Graph, of: Id, d: usize, index: Id, extent: u32) -> bool {
    let Some(v) = g.ty(of).as_view() else { return false };
    let (lo, hi) = g.fact(index).range;
    let fixed = matches!(v.dims[d], Extent::Fixed(n) if hi.saturating_add(i64::from(extent)) <= i64::from(n));
    let leaf = |n: &Node| match n.head {
        Head::Leaf { value, .. } => g.analysis.loops[value],
        Head::Op { .. } | Head::Fold { .. } | Head::State { .. } => None,
    };
    let looped = || {
        let hi = g[index].nodes.iter().find_map(leaf).map(|l| l.hi);
        let covers = |end: Id| is_extent(g, end, of, d) && loop_covers(g, index, i64::from(extent) - 1, end);
        hi.is_some_and(|hi| ends(g, hi).into_iter().any(covers))
    };
    lo >= 0 && (fixed || looped())
}

/// The store that a load reads back: of the same place, all of it inside the view.
fn source<'g>(g: &'g Graph, n: &Node) -> Option<&'g Stored> {
    let extents = g.node_ty(n).as_tile()?.shape.clone();
    let place = n.kids.get(..=extents.len())?;
    let same = |a: &Id, b: &Id| g.find(*a) == g.find(*b);
    let here = |s: &&Stored| s.place.len() == place.len() && s.place.iter().zip(place).all(|(a, b)| same(a, b));
    let stored = g.analysis.epoch_stores[n.epoch() as usize].iter().rev().find(here)?;
    let covered = (0..extents.len()).all(|d| inside(g, place[0], d, place[1 + d], extents[d]));
    (covered && g.ty(stored.value) == g.node_ty(n)).then_some(stored)
}

/// What a read makes of elements that it may not read, if nothing else is said.
fn nothing(ty: &Type) -> Option<Term> {
    match ty.elem() {
        // Its code 0 is no zero.
        Scalar::F8E8M0 => None,
        e if e.is_float() => Some(Term::float(0.0, ty)),
        _ => Some(Term::int(0, ty)),
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "mask-true",
        class: Class::Exact,
        says: "a read whose mask is true everywhere needs none",
        phase: Phase::Simplify,
        roots: Roots::Ops(READS),
        apply: |g, _, n| if g.int(mask(g, n)?) == Some(1) { masked(g, n, None) } else { None },
        over: EVERY,
        fires: "v20 = splat true : M\nv21 = load v0[0, 8], mask=v20, other=s : A",
        keeps: "v21 = load v0[0, 8], mask=m, other=s : A",
    },
    Rule {
        name: "mask-false",
        class: Class::Exact,
        says: "a read whose mask is false everywhere is its `other`",
        phase: Phase::Simplify,
        roots: Roots::Ops(READS),
        apply: |g, _, n| {
            if g.int(mask(g, n)?) != Some(0) {
                return None;
            }
            let ty = g.node_ty(n);
            if present(n) & OTHER != 0 {
                return Some(Term::with(Op::Splat, &[], Some(ty.clone()), [n.kids.last()?.into()]));
            }
            nothing(ty)
        },
        over: EVERY,
        fires: "v20 = splat false : M\nv21 = load v0[0, 8], mask=v20, other=s : A",
        keeps: "v21 = load v0[0, 8], mask=m, other=s : A",
    },
    Rule {
        name: "mask-bounds",
        class: Class::Exact,
        says: "a mask that asks for elements inside the view asks what the read asks anyway; a part of an `and` likewise",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Load]),
        apply: |g, _, n| {
            let m = mask(g, n)?;
            if asks_bounds(g, n, m) {
                return masked(g, n, None);
            }
            let and = g.get(m, Op::And)?;
            let at = (0..2).find(|&k| asks_bounds(g, n, and.kids[k]))?;
            masked(g, n, Some(and.kids[1 - at]))
        },
        over: EVERY,
        fires: "v20 = iota 1 : tile<8x16xi32>\nv21 = splat i : tile<8x16xi32>\nv22 = add v20, v21\nv23 = dim v0, 1\nv24 = splat v23 : tile<8x16xi32>\nv25 = cmp lt v22, v24\nv26 = and v25, m\nv27 = load v0[j, i], mask=v26, other=s : A",
        keeps: "v20 = iota 1 : tile<8x16xi32>\nv21 = splat i : tile<8x16xi32>\nv22 = add v20, v21\nv23 = dim v0, 0\nv24 = splat v23 : tile<8x16xi32>\nv25 = cmp lt v22, v24\nv27 = load v0[j, i], mask=v25, other=s : A",
    },
    Rule {
        name: "other-zero",
        class: Class::Exact,
        says: "a read that says 0 for what it may not read says what is so anyway",
        phase: Phase::Simplify,
        roots: Roots::Ops(READS),
        apply: |g, _, n| {
            if present(n) & OTHER == 0 || g.node_ty(n).elem() == Scalar::F8E8M0 {
                return None;
            }
            let (other, kids) = n.kids.split_last()?;
            let zero = match g.fact(*other).value {
                Some(Literal::Float(bits)) => bits == 0,
                Some(_) => g.int(*other) == Some(0),
                None => false,
            };
            if zero { Term::again(g, n, present(n) & !OTHER, kids.iter().map(Term::from).collect()) } else { None }
        },
        over: Types::Pairs(|t, u| t == u && t != Scalar::F8E8M0),
        fires: "v21 = load v0[0, 8], mask=m, other=zero_T : A",
        keeps: "v21 = load v0[0, 8], mask=m, other=s : A",
    },
    Rule {
        name: "mask-loop",
        class: Class::Exact,
        says: "index + e < end, in a loop up to `end` whose bounds and step are aligned to the tile, is true",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Cmp]),
        apply: |g, id, n| {
            let (x, y) = less(g, id)?;
            let a = g.fact(x).affine.as_ref()?;
            let extents = g.ty(x).shape()?;
            let past = a.steps.iter().zip(extents).map(|(&s, &e)| s.saturating_mul(i64::from(e) - 1)).fold(0i64, i64::saturating_add);
            let end = scalar(g, y).unwrap_or(y);
            let up = a.steps.iter().all(|&s| s >= 0) && a.offset >= 0;
            (up && loop_covers(g, g.find(a.base?), past.saturating_add(a.offset), end)).then(|| Term::int(1, g.node_ty(n)))
        },
        over: Types::Each(&[Scalar::I32]),
        fires: "v19 = shl i, 4\nv20 = for v21 in 0..v19 step 16 carry v22 = a {\nv23 = iota 1 : A\nv24 = splat v21 : A\nv25 = add v23, v24\nv26 = splat v19 : A\nv27 = cmp lt v25, v26\nv28 = cast v27 : A\nv29 = add v22, v28\nyield v29\n}",
        keeps: "v19 = shl i, 3\nv20 = for v21 in 0..v19 step 16 carry v22 = a {\nv23 = iota 1 : A\nv24 = splat v21 : A\nv25 = add v23, v24\nv26 = splat v19 : A\nv27 = cmp lt v25, v26\nv28 = cast v27 : A\nv29 = add v22, v28\nyield v29\n}",
    },
    Rule {
        name: "load-stored",
        class: Class::Exact,
        says: "a load of the place that was just stored, all of it inside the view, is what was stored; stores elsewhere in the view between them do no harm",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Load]),
        apply: |g, _, n| {
            let stored = source(g, n)?;
            (present(n) & MASK == 0 && stored.mask.is_none()).then(|| stored.value.into())
        },
        over: EVERY,
        fires: "store v0[0, 0], b\nstore v0[8, 0], c\nv20 = load v0[0, 0] : A\nstore v0[i, j], c\nv21 = add i, 4\nv22 = slice a, [0, 0] : tile<4x16xT>\nstore v0[v21, j], v22\nv23 = load v0[0, 0] : A\nv24 = select m, v20, v23",
        keeps: "store v0[0, 0], b\nstore v0[7, 0], c\nv20 = load v0[0, 0] : A\nstore v0[0, 0], b\nstore v0[i, 0], c\nv21 = load v0[0, 0] : A\nv22 = select m, v20, v21",
    },
    Rule {
        name: "load-stored-mask",
        class: Class::Exact,
        says: "a masked load of the place that was just stored, all of it inside the view, under the same mask or none, is select mask stored other",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Load]),
        apply: |g, _, n| {
            let (stored, m) = (source(g, n)?, mask(g, n)?);
            let ty = g.node_ty(n);
            let other =
                if present(n) & OTHER != 0 { Term::with(Op::Splat, &[], Some(ty.clone()), [n.kids.last()?.into()]) } else { nothing(ty)? };
            stored.mask.is_none_or(|s| g.find(s) == g.find(m)).then(|| Term::op(Op::Select, [m.into(), stored.value.into(), other]))
        },
        over: EVERY,
        fires: "store v0[0, 0], b, mask=m\nv20 = load v0[0, 0], mask=m, other=s : A\nstore v1[0, 0], a\nv21 = load v1[0, 0], mask=m, other=r : A\nv22 = select m, v21, v20",
        keeps: "store v0[0, 0], b, mask=m\nv19 = not m\nv20 = load v0[0, 0], mask=v19, other=s : A\nstore v0[0, 0], b, mask=m\nv21 = load v0[0, 0] : A\nv22 = select m, v20, v21",
    },
];
