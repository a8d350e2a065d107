//! Moves: broadcast, reshape, transpose, slice, flip, join and concat cancel, and arithmetic is done on the side with fewer elements.

use super::Types;
use super::rule::{Class, NUMBERS, Phase, Roots, Rule};
use crate::graph::{Graph, Read};
use crate::language::{Head, Node};
use crate::term::Term;
use egg::Id;
use smallvec::SmallVec;
use tilelift_ir::{Attr, Op, Shape, Type};

const EVERY: Types = Types::Pairs(|t, u| t == u);

fn shape(g: &Graph, id: Id) -> &[u32] {
    g.ty(id).shape().unwrap_or(&[])
}

fn again(g: &Graph, n: &Node, x: Id) -> Option<Term> {
    Term::again(g, n, 0, SmallVec::from_elem(x.into(), 1))
}

/// A move of the operand to the type of `n`, without attributes.
fn to_type(g: &Graph, op: Op, n: &Node, x: Id) -> Term {
    Term::with(op, &[], Some(g.node_ty(n).clone()), [x.into()])
}

fn perm<'g>(g: &'g Graph, n: &Node) -> Option<&'g Shape> {
    match g.attrs(n).first() {
        Some(Attr::Perm(p)) => Some(p),
        _ => None,
    }
}

fn offsets<'g>(g: &'g Graph, n: &Node) -> Option<&'g Shape> {
    match g.attrs(n).first() {
        Some(Attr::Offsets(o)) => Some(o),
        _ => None,
    }
}

/// Which result of its op a node is.
fn result(n: &Node) -> u8 {
    match n.head {
        Head::Op { result, .. } => result,
        Head::Leaf { .. } | Head::Fold { .. } | Head::State { .. } => 0,
    }
}

/// The operand, if all of it is one scalar.
fn splatted(g: &Graph, id: Id) -> Option<Id> {
    g.get(id, Op::Splat).map(|n| n.kids[0])
}

/// Of a broadcast tile what a transpose makes the tile of it: the small tile with its extents back in order, broadcast.
fn before_transpose(g: &Graph, id: Id, p: &Shape, from: &[u32]) -> Option<Term> {
    let small = g.get(id, Op::Broadcast)?.kids[0];
    let ty = g.ty(small).as_tile()?;
    let back: Shape = (0..p.len() as u32).map(|d| p.iter().position(|&e| e == d).map_or(d, |i| i as u32)).collect();
    let moved = Term::with(Op::Transpose, &[Attr::Perm(back)], None, [small.into()]);
    Some(Term::with(Op::Broadcast, &[], Some(Type::tile(from, ty.elem)), [moved]))
}

/// An elementwise op on operands that one and the same move made (or that are splats, and beside transposes broadcasts): the move of the op.
fn sunk(g: &Graph, n: &Node, mover: Op) -> Option<Term> {
    let ty = g.node_ty(n).as_tile()?;
    let moved = |k: &Id| g.get(*k, mover).filter(|_| g.fact(*k).value.is_none());
    let first = n.kids.iter().find_map(moved)?;
    let from = g.ty(first.kids[0]).shape()?.to_vec();
    let mut kids: SmallVec<[Term; 3]> = SmallVec::new();
    for k in &n.kids {
        let elem = g.ty(*k).elem();
        if matches!(g.ty(*k), Type::Scalar(_)) {
            kids.push(k.into());
        } else if let Some(m) = moved(k).filter(|m| g.attrs(m) == g.attrs(first) && g.ty(m.kids[0]).shape() == Some(&from[..])) {
            kids.push(m.kids[0].into());
        } else if let Some(t) = perm(g, first).and_then(|p| before_transpose(g, *k, p, &from)) {
            kids.push(t);
        } else {
            let s = splatted(g, *k)?;
            kids.push(Term::with(Op::Splat, &[], Some(Type::tile(&from, elem)), [s.into()]));
        }
    }
    let Head::Op { op, .. } = n.head else { return None };
    let inner_ty = op.info().typed().then(|| Type::tile(&from, ty.elem));
    let inner = Term::make(op, g.attrs(n), inner_ty, kids);
    let outer_ty = mover.info().typed().then(|| g.node_ty(n).clone());
    Some(Term::with(mover, g.attrs(first), outer_ty, [inner]))
}

const MOVERS: &[Op] = &[Op::Broadcast, Op::Reshape, Op::Transpose, Op::Slice, Op::Flip];

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "move-nothing",
        class: Class::Exact,
        says: "a broadcast, reshape or slice to the same type, a transpose in order, a flip of equal elements are their operand",
        phase: Phase::Simplify,
        roots: Roots::Ops(MOVERS),
        apply: |g, _, n| {
            let x = n.kids[0];
            let nothing = match n.op()? {
                Op::Transpose => perm(g, n)?.iter().enumerate().all(|(i, &d)| i == d as usize),
                Op::Flip => match g.attrs(n).first() {
                    Some(Attr::Dim(d)) => g.fact(x).same >> d & 1 == 1,
                    _ => false,
                },
                _ => g.ty(x) == g.node_ty(n),
            };
            nothing.then(|| x.into())
        },
        over: EVERY,
        fires: "v20 = broadcast a : A\nv21 = reshape v20 : A\nv22 = transpose v21, [0, 1]\nv23 = slice v22, [0, 0] : A",
        keeps: "v20 = transpose a, [1, 0]\nv21 = flip v20, axis 0",
    },
    Rule {
        name: "move-splat",
        class: Class::Exact,
        says: "a moved splat is a splat",
        phase: Phase::Simplify,
        roots: Roots::Ops(MOVERS),
        apply: |g, _, n| {
            let s = splatted(g, n.kids[0])?;
            Some(if matches!(g.node_ty(n), Type::Tile(_)) { to_type(g, Op::Splat, n, s) } else { s.into() })
        },
        over: EVERY,
        fires: "v20 = splat s : A\nv21 = transpose v20, [1, 0]\nv22 = slice v21, [3, 1] : tile<4x2xT>\nv23 = reshape v22 : tile<8xT>",
        keeps: "v21 = transpose a, [1, 0]",
    },
    Rule {
        name: "transpose-transpose",
        class: Class::Exact,
        says: "transpose (transpose x p) q = transpose x (p after q)",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Transpose]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Transpose)?;
            let (p, q) = (perm(g, m)?, perm(g, n)?);
            let both: Shape = q.iter().map(|&d| p[d as usize]).collect();
            Some(Term::with(Op::Transpose, &[Attr::Perm(both)], None, [m.kids[0].into()]))
        },
        over: EVERY,
        fires: "v20 = reshape a : tile<8x4x4xT>\nv21 = transpose v20, [1, 2, 0]\nv22 = transpose v21, [1, 0, 2]",
        keeps: "v20 = transpose a, [1, 0]\nv21 = reshape v20 : tile<4x32xT>",
    },
    Rule {
        name: "transpose-ones",
        class: Class::Exact,
        says: "a transpose that only moves extents of 1 is a reshape",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Transpose]),
        apply: |g, _, n| {
            let (p, from) = (perm(g, n)?, shape(g, n.kids[0]));
            let long: SmallVec<[u32; 6]> = p.iter().copied().filter(|&d| from[d as usize] != 1).collect();
            long.windows(2).all(|w| w[0] < w[1]).then(|| to_type(g, Op::Reshape, n, n.kids[0]))
        },
        over: EVERY,
        fires: "v20 = reshape a : tile<1x128xT>\nv21 = transpose v20, [1, 0]",
        keeps: "v20 = transpose a, [1, 0]",
    },
    Rule {
        name: "reshape-reshape",
        class: Class::Exact,
        says: "reshape (reshape x) = reshape x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Reshape]),
        apply: |g, _, n| Some(to_type(g, Op::Reshape, n, g.get(n.kids[0], Op::Reshape)?.kids[0])),
        over: EVERY,
        fires: "v20 = reshape a : tile<128xT>\nv21 = reshape v20 : tile<4x32xT>",
        keeps: "v20 = transpose a, [1, 0]\nv21 = reshape v20 : tile<4x32xT>",
    },
    Rule {
        name: "broadcast-broadcast",
        class: Class::Exact,
        says: "broadcast (broadcast x) = broadcast x",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Broadcast]),
        apply: |g, _, n| Some(to_type(g, Op::Broadcast, n, g.get(n.kids[0], Op::Broadcast)?.kids[0])),
        over: EVERY,
        fires: "v20 = slice a, [2, 3] : tile<1x1xT>\nv21 = broadcast v20 : tile<1x16xT>\nv22 = broadcast v21 : A",
        keeps: "v20 = slice a, [2, 0] : tile<1x16xT>\nv22 = broadcast v20 : A",
    },
    Rule {
        name: "slice-slice",
        class: Class::Exact,
        says: "slice (slice x p) q = slice x (p + q)",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Slice]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Slice)?;
            let sum: Shape = offsets(g, m)?.iter().zip(offsets(g, n)?).map(|(a, b)| a + b).collect();
            Some(Term::with(Op::Slice, &[Attr::Offsets(sum)], Some(g.node_ty(n).clone()), [m.kids[0].into()]))
        },
        over: EVERY,
        fires: "v20 = slice a, [2, 3] : tile<4x8xT>\nv21 = slice v20, [1, 4] : tile<2x4xT>",
        keeps: "v20 = flip a, axis 0\nv21 = slice v20, [1, 4] : tile<2x4xT>",
    },
    Rule {
        name: "slice-broadcast",
        class: Class::Exact,
        says: "slice (broadcast x) = broadcast (slice x)",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Slice]),
        apply: |g, _, n| {
            let x = g.get(n.kids[0], Op::Broadcast)?.kids[0];
            let (from, want, at) = (shape(g, x), g.node_ty(n).shape()?, offsets(g, n)?);
            let kept = |d: usize, v: u32, one: u32| if from[d] == 1 { one } else { v };
            let at: Shape = (0..from.len()).map(|d| kept(d, at[d], 0)).collect();
            let extents: Shape = (0..from.len()).map(|d| kept(d, want[d], 1)).collect();
            let inner = Term::with(Op::Slice, &[Attr::Offsets(at)], Some(Type::tile(&extents, g.ty(x).elem())), [x.into()]);
            Some(Term::with(Op::Broadcast, &[], Some(g.node_ty(n).clone()), [inner]))
        },
        over: EVERY,
        fires: "v20 = slice a, [2, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = slice v21, [1, 4] : tile<2x4xT>",
        keeps: "v20 = slice a, [2, 0] : tile<1x16xT>\nv21 = broadcast v20 : A",
    },
    Rule {
        name: "slice-concat",
        class: Class::Exact,
        says: "a slice inside one part of a concat is a slice of that part",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Slice]),
        apply: |g, _, n| {
            let m = g.get(n.kids[0], Op::Concat)?;
            let Some(Attr::Dim(axis)) = g.attrs(m).first() else { return None };
            let axis = *axis as usize;
            let (mut at, extent) = (offsets(g, n)?.clone(), g.node_ty(n).shape()?[axis]);
            let seam = shape(g, m.kids[0])[axis];
            let part = if at[axis] + extent <= seam {
                m.kids[0]
            } else {
                at[axis] = at[axis].checked_sub(seam)?;
                m.kids[1]
            };
            Some(Term::with(Op::Slice, &[Attr::Offsets(at)], Some(g.node_ty(n).clone()), [part.into()]))
        },
        over: EVERY,
        fires: "v20 = concat a, b, axis 1\nv21 = slice v20, [1, 18] : tile<4x8xT>",
        keeps: "v20 = concat a, b, axis 1\nv21 = slice v20, [1, 12] : tile<4x8xT>",
    },
    Rule {
        name: "slice-early",
        class: Class::Exact,
        says: "slice (x op y) = slice x op slice y",
        phase: Phase::Move,
        roots: Roots::Ops(&[Op::Slice]),
        apply: |g, _, n| {
            let elementwise = |m: &&Node| g.is_elementwise(m) && m.kids.iter().all(|&k| matches!(g.ty(k), Type::Tile(_)));
            let m = g[n.kids[0]].nodes.iter().find(elementwise)?;
            let want = g.node_ty(n).shape()?;
            let cut = |k: &Id| Term::with(Op::Slice, g.attrs(n), Some(Type::tile(want, g.ty(*k).elem())), [k.into()]);
            let ty = m.op()?.info().typed().then(|| g.node_ty(n).clone());
            Some(Term::make(m.op()?, g.attrs(m), ty, m.kids.iter().map(cut).collect()))
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = mul a, b\nv21 = slice v20, [1, 4] : tile<2x4xT>",
        keeps: "v20 = flip a, axis 0\nv21 = slice v20, [1, 4] : tile<2x4xT>",
    },
    Rule {
        name: "flip-flip",
        class: Class::Exact,
        says: "flip (flip x) = x, along one axis",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Flip]),
        apply: |g, _, n| g.get(n.kids[0], Op::Flip).filter(|m| g.attrs(m) == g.attrs(n)).map(|m| m.kids[0].into()),
        over: EVERY,
        fires: "v20 = flip a, axis 1\nv21 = flip v20, axis 1",
        keeps: "v20 = flip a, axis 1\nv21 = flip v20, axis 0",
    },
    Rule {
        name: "split-join",
        class: Class::Exact,
        says: "split (join x y) = x, y",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Split]),
        apply: |g, _, n| g.get(n.kids[0], Op::Join).map(|m| m.kids[result(n) as usize].into()),
        over: EVERY,
        fires: "v20 = join a, b\nv21, v22 = split v20\nv23 = select m, v21, v22",
        keeps: "v20 = reshape a : tile<64x2xT>\nv21, v22 = split v20\nv23 = concat v21, v22, axis 0",
    },
    Rule {
        name: "join-split",
        class: Class::Exact,
        says: "join of the two halves of a split is what was split",
        phase: Phase::Simplify,
        roots: Roots::Ops(&[Op::Join]),
        apply: |g, _, n| {
            let half = |k: Id, r: u8| g[k].nodes.iter().find(|m| m.op() == Some(Op::Split) && result(m) == r).map(|m| m.kids[0]);
            let (x, y) = (half(n.kids[0], 0)?, half(n.kids[1], 1)?);
            (x == y).then(|| x.into())
        },
        over: EVERY,
        fires: "v20 = reshape a : tile<64x2xT>\nv21, v22 = split v20\nv23 = join v21, v22",
        keeps: "v20 = reshape a : tile<64x2xT>\nv21, v22 = split v20\nv23 = join v22, v21",
    },
    Rule {
        name: "broadcast-late",
        class: Class::Exact,
        says: "broadcast x op broadcast y = broadcast (x op y); a splat counts as either",
        phase: Phase::Move,
        roots: Roots::Elementwise,
        apply: |g, _, n| sunk(g, n, Op::Broadcast),
        over: Types::Each(NUMBERS),
        fires: "v20 = slice a, [2, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = slice b, [1, 0] : tile<1x16xT>\nv23 = broadcast v22 : A\nv24 = mul v21, v23\nv25 = splat s : A\nv26 = add v24, v25",
        keeps: "v20 = slice a, [2, 0] : tile<1x16xT>\nv21 = broadcast v20 : A\nv22 = slice b, [0, 1] : tile<8x1xT>\nv23 = broadcast v22 : A\nv24 = mul v21, v23",
    },
    Rule {
        name: "transpose-late",
        class: Class::Exact,
        says: "transpose x op transpose y = transpose (x op y), flips likewise; not in front of what widens",
        phase: Phase::Move,
        roots: Roots::Elementwise,
        apply: |g, _, n| {
            let widens = g.node_ty(n).elem().bits() > n.kids.iter().map(|&k| g.ty(k).elem().bits()).max().unwrap_or(0);
            if widens { None } else { sunk(g, n, Op::Transpose).or_else(|| sunk(g, n, Op::Flip)) }
        },
        over: Types::Each(NUMBERS),
        fires: "v20 = transpose a, [1, 0]\nv21 = transpose b, [1, 0]\nv22 = mul v20, v21\nv23 = flip v22, axis 0\nv24 = neg v23",
        keeps: "v20 = transpose a, [1, 0]\nv21 = reshape b : tile<16x8xT>\nv22 = mul v20, v21",
    },
    Rule {
        name: "widen-late",
        class: Class::Exact,
        says: "transpose, flip and reshape of a cast to a wider type = the cast of the moved",
        phase: Phase::Move,
        roots: Roots::Ops(&[Op::Transpose, Op::Flip, Op::Reshape]),
        apply: |g, _, n| {
            let x = g.get(n.kids[0], Op::Cast)?.kids[0];
            let (small, large) = (g.ty(x).elem(), g.node_ty(n).elem());
            if small.bits() >= large.bits() || small.bits() < 8 {
                return None;
            }
            let moved = match n.op()? {
                Op::Reshape => Term::with(Op::Reshape, &[], Some(g.node_ty(n).with_elem(small)), [x.into()]),
                _ => again(g, n, x)?,
            };
            Some(Term::with(Op::Cast, &[], Some(g.node_ty(n).clone()), [moved]))
        },
        over: Types::Pairs(|t, u| t.bits() >= 8 && t.bits() < u.bits()),
        fires: "v20 = cast a : B\nv21 = transpose v20, [1, 0]\nv22 = flip v21, axis 1",
        keeps: "v20 = cast a : tile<8x16xi1>\nv21 = transpose v20, [1, 0]",
    },
    Rule {
        name: "narrow-early",
        class: Class::Exact,
        says: "a cast to a narrower type of a reshape, concat or join = the reshape, concat or join of the cast",
        phase: Phase::Move,
        roots: Roots::Ops(&[Op::Cast]),
        apply: |g, _, n| {
            let (ty, x) = (g.node_ty(n), n.kids[0]);
            let (large, small) = (g.ty(x).elem(), ty.elem());
            if small.bits() >= large.bits() || small.bits() < 8 || !matches!(ty, Type::Tile(_)) {
                return None;
            }
            let m = [Op::Reshape, Op::Concat, Op::Join].into_iter().find_map(|op| g.get(x, op))?;
            let cut = |k: &Id| match g.ty(*k) {
                Type::Tile(_) => Some(Term::with(Op::Cast, &[], Some(g.ty(*k).with_elem(small)), [k.into()])),
                Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => None,
            };
            let kids: SmallVec<[Term; 3]> = m.kids.iter().map(cut).collect::<Option<_>>()?;
            let written = m.op()?.info().typed().then(|| ty.clone());
            Some(Term::make(m.op()?, g.attrs(m), written, kids))
        },
        over: Types::Pairs(|t, u| u.bits() >= 8 && t.bits() > u.bits()),
        fires: "v20 = concat a, b, axis 1\nv21 = reshape v20 : tile<128x2xT>\nv22 = cast v21 : tile<128x2xU>\nv23 = join c, c\nv24 = cast v23 : tile<8x16x2xU>\nv25 = reshape v24 : tile<128x2xU>\nv26 = concat v22, v25, axis 0",
        keeps: "v20 = cast a : B\nv21 = reshape v20 : tile<128xU>",
    },
];
