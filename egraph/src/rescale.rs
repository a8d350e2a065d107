//! How a value changes when a maximum in it moves: what makes a sum of exponentials one that is rescaled as its maximum grows.
//!
//! ```text
//! ratio (exp a)        = exp (delta a)               delta (x - M) = before M - after M,  x <= M and free of M
//! ratio (a * b)        = ratio a,  b free of M       delta (a * k) = delta a * k,         k a constant above 0
//! ratio (select c a 0) = ratio a                     delta (select c a -inf) = delta a
//! ratio (sum a), ratio (dot a b 0)                   the ratio, if it is the same along the axis that is summed
//! anything else                                      no answer
//! ```
//!
//! A ratio is known, never written as `exp x * exp -M`, which overflows. Each answer comes with the value over the state of the maximum
//! behind the iteration, one node a class: the rules find its other forms. A row without an unmasked element has -inf for a maximum so
//! far; it is taken from 0 instead, and its sum is 0 until an element comes. That needs elements that are no larger than the maximum, as
//! does the range of the exponential: `x` must be the class of which the maximum is taken, or what that class is unmasked.

use crate::graph::{Graph, Read};
use crate::hash::IndexMap;
use crate::language::{Head, Node};
use crate::term::Term;
use egg::Id;
use smallvec::SmallVec;
use tilelift_ir::{Attr, CmpOp, Op, ReduceOp, Scalar, Type};

/// Classes and nodes that a look goes through.
const LOOKS: usize = 2048;
/// Levels that it goes down, and nodes that it makes.
const DEPTH: usize = 64;
const MOST: usize = 256;

/// Of each dimension, the dimension of the maximum along which it differs.
pub(crate) type Dims = SmallVec<[Option<u8>; 4]>;

/// The dimensions of a type: none where there is one element.
fn own_dims(ty: &Type) -> Option<Dims> {
    Some(ty.shape()?.iter().enumerate().map(|(d, &e)| (e != 1).then_some(d as u8)).collect())
}

/// Dimensions behind a broadcast, reshape, splat or transpose.
fn moved(g: &Graph, node: &Node, dims: &Dims) -> Option<Dims> {
    let (from, to) = (g.ty(node.kids[0]).shape()?, g.node_ty(node).shape()?);
    match (node.op()?, g.attrs(node).first()) {
        (Op::Splat, _) => Some(to.iter().map(|_| None).collect()),
        (Op::Broadcast, _) => Some((0..to.len()).map(|d| dims[d].filter(|_| from[d] == to[d])).collect()),
        (Op::Transpose, Some(Attr::Perm(p))) => Some(p.iter().map(|&d| dims[d as usize]).collect()),
        (Op::Reshape, _) => {
            let mut long = (0..from.len()).filter(|&d| from[d] != 1);
            let same = from.iter().filter(|&&e| e != 1).eq(to.iter().filter(|&&e| e != 1));
            same.then(|| to.iter().map(|&e| if e == 1 { None } else { long.next().and_then(|d| dims[d]) }).collect())
        }
        _ => None,
    }
}

/// The dimensions of `of` that the elements of `max` are maxima over, or from which they come: `max` is at least every element of `of` that
/// lies there.
fn maximum_of(g: &Graph, max: Id, of: Id, depth: usize) -> Option<Dims> {
    if g.find(max) == g.find(of) {
        return own_dims(g.ty(of));
    }
    let depth = depth.checked_sub(1)?;
    g[max].nodes.iter().find_map(|n| match (n.op()?, g.attrs(n)) {
        (Op::Reduce, &[Attr::Reduce(ReduceOp::Maximum), Attr::Dim(axis)]) => {
            let dims = maximum_of(g, n.kids[0], of, depth)?;
            let less = |d: &Option<u8>| d.filter(|&d| u32::from(d) != axis).map(|d| if u32::from(d) > axis { d - 1 } else { d });
            Some(dims.iter().map(less).collect())
        }
        // From the end to the start: what the moved elements come from.
        (Op::Reshape, _) => {
            let dims = maximum_of(g, n.kids[0], of, depth)?;
            let (from, to) = (g.ty(n.kids[0]).shape()?, g.node_ty(n).shape()?);
            let long = |s: &[u32]| (0..s.len()).filter(|&d| s[d] != 1).map(|d| (d, s[d])).collect::<SmallVec<[(usize, u32); 4]>>();
            let (a, b) = (long(from), long(to));
            if !a.iter().map(|x| x.1).eq(b.iter().map(|x| x.1)) {
                return None;
            }
            Some(dims.iter().map(|d| d.and_then(|d| a.iter().position(|x| x.0 == usize::from(d))).map(|i| b[i].0 as u8)).collect())
        }
        (Op::Maximum, _) => n.kids.iter().find_map(|&k| maximum_of(g, k, of, depth)),
        _ => None,
    })
}

/// True if `x` is no larger than what a maximum spreads over its dimensions: `max` is a maximum over them, or a fold of such.
fn dominated(g: &Graph, x: Id, max: Id, dims: &Dims, masks: &[Id]) -> bool {
    let over = |top: Id| {
        let at_least = |x: Id| maximum_of(g, top, x, 4).is_some_and(|d| d == *dims);
        let unmasked = |n: &Node| match n.op() {
            Some(Op::Select) => {
                masks.iter().any(|&m| g.find(m) == g.find(n.kids[0]))
                    && g.find(n.kids[1]) == g.find(x)
                    && g.float(n.kids[2]) == Some(f64::NEG_INFINITY)
            }
            _ => false,
        };
        at_least(x) || (!masks.is_empty() && parts(g, top, 4).into_iter().any(|y| g[y].nodes.iter().any(unmasked) && at_least(y)))
    };
    let folded = |n: &Node| match n.head {
        Head::Fold { op: Op::Maximum, online: false, .. } => over(n.kids[4]),
        _ => false,
    };
    over(max) || g[max].nodes.iter().any(folded)
}

/// The classes that a maximum is taken of.
fn parts(g: &Graph, max: Id, depth: usize) -> Vec<Id> {
    let mut out = vec![max];
    if let Some(depth) = depth.checked_sub(1) {
        for n in &g[max].nodes {
            let takes = matches!((n.op(), g.attrs(n).first()), (Some(Op::Reduce), Some(Attr::Reduce(ReduceOp::Maximum))))
                || matches!(n.op(), Some(Op::Reshape | Op::Maximum));
            if takes {
                n.kids.iter().for_each(|&k| out.extend(parts(g, k, depth)));
            }
        }
    }
    out
}

/// True if a value lies between 0 and 1: the exponential of what is at most 0, perhaps masked.
pub(crate) fn is_share(g: &Graph, id: Id) -> bool {
    let spread = |id: Id| {
        let (mut at, mut nodes) = (id, Vec::new());
        for _ in 0..4 {
            let mover = |n: &&Node| matches!(n.op(), Some(Op::Broadcast | Op::Reshape | Op::Splat));
            let Some(n) = g[at].nodes.iter().find(mover) else { break };
            nodes.push(n);
            at = n.kids[0];
        }
        let dims = nodes.iter().rev().try_fold(own_dims(g.ty(at))?, |d, n| moved(g, n, &d))?;
        Some((at, dims))
    };
    let below = |x: Id, max: Id| spread(max).is_some_and(|(max, dims)| dominated(g, x, max, &dims, &[]));
    g[id].nodes.iter().any(|n| match n.op() {
        Some(Op::Exp | Op::Exp2) => g.get(n.kids[0], Op::Sub).is_some_and(|m| below(m.kids[0], m.kids[1])),
        _ => false,
    })
}

/// A maximum, as a fold over a range.
#[derive(Clone, Copy)]
struct Maximum {
    class: Id,
    /// It is a number from the start.
    finite: bool,
}

/// By what a value is multiplied when the maximum moves: a value of the shape of the maximum, and where it goes.
#[derive(Clone)]
struct Ratio {
    by: Term,
    dims: Dims,
}

/// How much a value changes when the maximum moves: by its change times a number.
#[derive(Clone)]
struct Delta {
    times: f64,
    dims: Dims,
}

/// A value over the state of the maximum, how many nodes that takes, and how it changes.
#[derive(Clone)]
struct Moved<T> {
    twin: Term,
    size: usize,
    change: Option<T>,
    /// Between 0 and 1.
    share: bool,
}

struct Look<'g> {
    g: &'g Graph,
    range: u32,
    max: Maximum,
    looks: usize,
    /// Whether a class needs no last value of a fold over the range.
    free: IndexMap<Id, bool>,
}

/// A fold of `element` that is rescaled as a maximum moves: element and factor.
pub(crate) fn rescaled(g: &Graph, range: u32, element: Id, ty: &Type) -> Option<(Term, Term)> {
    maxima(g, range, element).into_iter().find_map(|max| {
        let mut look = Look { g, range, max, looks: LOOKS, free: IndexMap::default() };
        let moved = look.ratio(element, &[], DEPTH)?;
        let ratio = moved.change?;
        (moved.size <= MOST).then_some(())?;
        Some((moved.twin, shaped(g, max, ratio, ty)?))
    })
}

/// The maxima over a range whose last values a value may need.
fn maxima(g: &Graph, range: u32, element: Id) -> Vec<Maximum> {
    let (mut seen, mut work, mut out) = (IndexMap::default(), vec![element], Vec::new());
    while let Some(at) = work.pop().map(|id| g.find(id)) {
        if seen.len() > LOOKS {
            return Vec::new();
        }
        if seen.insert(at, ()).is_some() {
            continue;
        }
        let mut fold = false;
        for n in &g[at].nodes {
            match n.head {
                Head::Fold { op, range: of, online, .. } if of == range => {
                    fold = true;
                    if op == Op::Maximum && !online && g.node_ty(n).elem().is_float() {
                        out.push(Maximum { class: at, finite: g.float(n.kids[3]).is_some_and(f64::is_finite) });
                    }
                }
                _ => {}
            }
        }
        if !fold {
            work.extend(g[at].nodes.iter().flat_map(|n| &n.kids));
        }
    }
    out
}

/// A state of a maximum.
fn state(g: &Graph, range: u32, max: Maximum, before: bool) -> Term {
    Term::of_loop(Head::State { range, before, ty: g.fact(max.class).ty }, [max.class.into()])
}

/// The maximum behind the iteration; 0 in rows of which nothing was there so far.
fn reference(g: &Graph, range: u32, max: Maximum) -> Term {
    let (ty, after) = (g.ty(max.class), state(g, range, max, false));
    if max.finite {
        return after;
    }
    let nothing = Term::with(Op::Cmp, &[Attr::Cmp(CmpOp::Eq)], None, [after.clone(), Term::float(f64::NEG_INFINITY, ty)]);
    Term::op(Op::Select, [nothing, Term::float(0.0, ty), after])
}

/// A ratio in the shape of an accumulator.
fn shaped(g: &Graph, max: Maximum, ratio: Ratio, ty: &Type) -> Option<Term> {
    let from = g.ty(max.class);
    let shape = ty.shape()?;
    let cast = |t: Term, from: &Type| {
        if from.elem() == ty.elem() { t } else { Term::with(Op::Cast, &[], Some(from.with_elem(ty.elem())), [t]) }
    };
    let by = cast(ratio.by, from);
    let Type::Tile(tile) = from else {
        return Some(if matches!(ty, Type::Tile(_)) { Term::with(Op::Splat, &[], Some(ty.clone()), [by]) } else { by });
    };
    // All of its dimensions, in order, between ones.
    let used: SmallVec<[u8; 4]> = ratio.dims.iter().flatten().copied().collect();
    let long: SmallVec<[u8; 4]> = (0..tile.shape.len()).filter(|&d| tile.shape[d] != 1).map(|d| d as u8).collect();
    if used != long || shape.is_empty() {
        return None;
    }
    let flat: SmallVec<[u32; 4]> = ratio.dims.iter().map(|d| d.map_or(1, |d| tile.shape[usize::from(d)])).collect();
    let by = if flat[..] == tile.shape[..] { by } else { Term::with(Op::Reshape, &[], Some(Type::tile(&flat, ty.elem())), [by]) };
    Some(if flat[..] == *shape { by } else { Term::with(Op::Broadcast, &[], Some(ty.clone()), [by]) })
}

impl Look<'_> {
    fn look(&mut self) -> Option<()> {
        self.looks = self.looks.checked_sub(1)?;
        Some(())
    }

    /// True if a class has a form without last values of folds over the range.
    fn free(&mut self, id: Id, depth: usize) -> bool {
        let id = self.g.find(id);
        if let Some(&known) = self.free.get(&id) {
            return known;
        }
        let Some(depth) = depth.checked_sub(1).filter(|_| self.look().is_some()) else { return false };
        // A form that needs its own class is none.
        self.free.insert(id, false);
        let g = self.g;
        let free = g[id].nodes.iter().any(|n| match n.head {
            Head::Fold { range, .. } if range == self.range => false,
            Head::State { .. } => false,
            Head::Leaf { .. } | Head::Op { .. } | Head::Fold { .. } => n.kids.iter().all(|&k| self.free(k, depth)),
        });
        self.free.insert(id, free);
        free
    }

    fn kept<T>(id: Id) -> Moved<T> {
        Moved { twin: id.into(), size: 0, change: None, share: false }
    }

    /// A node with other children.
    fn again(&self, node: &Node, kids: SmallVec<[Term; 3]>) -> Option<Term> {
        let Head::Op { present, .. } = node.head else { return None };
        Term::again(self.g, node, present, kids)
    }

    /// A node whose child `at` is another; the others are free.
    fn with<T>(&mut self, node: &Node, at: usize, kid: Term, size: usize, depth: usize, change: Option<T>) -> Option<Moved<T>> {
        let others = (0..node.kids.len()).all(|k| k == at || self.free(node.kids[k], depth));
        let mut kids: SmallVec<[Term; 3]> = node.kids.iter().map(Term::from).collect();
        kids[at] = kid;
        let twin = self.again(node, kids).filter(|_| others)?;
        Some(Moved { twin, size: size + 1, change, share: false })
    }

    fn delta(&mut self, id: Id, masks: &[Id], depth: usize) -> Option<Moved<Delta>> {
        let depth = depth.checked_sub(1)?;
        if self.free(id, depth) {
            return Some(Self::kept(id));
        }
        let g = self.g;
        if g.find(id) == self.max.class {
            let twin = reference(g, self.range, self.max);
            return Some(Moved { twin, size: 4, change: Some(Delta { times: 1.0, dims: own_dims(g.ty(id))? }), share: false });
        }
        g[id].nodes.iter().find_map(|n| {
            self.look()?;
            match n.op()? {
                Op::Sub => {
                    let b = self.delta(n.kids[1], masks, depth)?;
                    let change = b.change.filter(|d| d.times > 0.0)?;
                    if !self.below(n.kids[0], &change, masks) {
                        return None;
                    }
                    self.with(n, 1, b.twin, b.size, depth, Some(Delta { times: -change.times, ..change }))
                }
                // x * c - M * c, as one.
                Op::Fma => {
                    let b = self.delta(n.kids[2], masks, depth)?;
                    let change = b.change.filter(|d| d.times < 0.0)?;
                    let (x, c) = (n.kids[0], g.float(n.kids[1])?);
                    let plain = Delta { times: 1.0, dims: change.dims.clone() };
                    if c != -change.times || !self.below(x, &plain, masks) {
                        return None;
                    }
                    self.with(n, 2, b.twin, b.size, depth, Some(change))
                }
                Op::Mul => {
                    let k = g.float(n.kids[1]).filter(|k| k.is_finite() && *k != 0.0)?;
                    let a = self.delta(n.kids[0], masks, depth)?;
                    let change = a.change?;
                    self.with(n, 0, a.twin, a.size, depth, Some(Delta { times: change.times * k, ..change }))
                }
                Op::Neg => {
                    let a = self.delta(n.kids[0], masks, depth)?;
                    let change = a.change?;
                    self.with(n, 0, a.twin, a.size, depth, Some(Delta { times: -change.times, ..change }))
                }
                Op::Select if g.float(n.kids[2]) == Some(f64::NEG_INFINITY) => {
                    let mut masks: SmallVec<[Id; 4]> = masks.into();
                    masks.push(n.kids[0]);
                    let a = self.delta(n.kids[1], &masks, depth)?;
                    self.with(n, 1, a.twin, a.size, depth, a.change)
                }
                Op::Broadcast | Op::Reshape | Op::Transpose | Op::Splat => {
                    let a = self.delta(n.kids[0], masks, depth)?;
                    let change = a.change?;
                    let dims = moved(g, n, &change.dims)?;
                    self.with(n, 0, a.twin, a.size, depth, Some(Delta { dims, ..change }))
                }
                _ => None,
            }
        })
    }

    /// True if a value is no larger than the maximum that a change is of, times its number.
    fn below(&self, x: Id, change: &Delta, masks: &[Id]) -> bool {
        let g = self.g;
        let dominates = |x: Id| dominated(g, x, self.max.class, &change.dims, masks);
        let scaled = |n: &Node| n.op() == Some(Op::Mul) && g.float(n.kids[1]) == Some(change.times) && dominates(n.kids[0]);
        if change.times == 1.0 { dominates(x) } else { g[x].nodes.iter().any(scaled) }
    }

    fn ratio(&mut self, id: Id, masks: &[Id], depth: usize) -> Option<Moved<Ratio>> {
        let depth = depth.checked_sub(1)?;
        if self.free(id, depth) {
            return Some(Self::kept(id));
        }
        let g = self.g;
        g[id].nodes.iter().find_map(|n| {
            self.look()?;
            let same = |l: &mut Self, at: usize, masks: &[Id]| {
                let a = l.ratio(n.kids[at], masks, depth)?;
                let share = a.share;
                Some(Moved { share, ..l.with(n, at, a.twin, a.size, depth, Some(a.change?))? })
            };
            match n.op()? {
                op @ (Op::Exp | Op::Exp2) => {
                    let a = self.delta(n.kids[0], masks, depth)?;
                    // An exponential that falls as the maximum grows, of what is at most 0.
                    let change = a.change.filter(|d| d.times < 0.0)?;
                    let ty = g.ty(self.max.class);
                    let (before, after) = (state(g, self.range, self.max, true), reference(g, self.range, self.max));
                    let fell = Term::op(Op::Sub, [before, after]);
                    let times = -change.times;
                    let fell = if times == 1.0 { fell } else { Term::op(Op::Mul, [fell, Term::float(times, ty)]) };
                    let ratio = Ratio { by: Term::op(op, [fell]), dims: change.dims };
                    Some(Moved { share: true, ..self.with(n, 0, a.twin, a.size, depth, Some(ratio))? })
                }
                Op::Mul => {
                    let at = if self.free(n.kids[1], depth) { 0 } else { 1 };
                    Some(Moved { share: false, ..same(self, at, masks)? })
                }
                Op::Div => Some(Moved { share: false, ..same(self, 0, masks)? }),
                Op::Neg => Some(Moved { share: false, ..same(self, 0, masks)? }),
                Op::Select if g.float(n.kids[2]) == Some(0.0) => {
                    let mut masks: SmallVec<[Id; 4]> = masks.into();
                    masks.push(n.kids[0]);
                    same(self, 1, &masks)
                }
                Op::Cast => {
                    let (from, to) = (g.ty(n.kids[0]).elem(), g.node_ty(n).elem());
                    let a = same(self, 0, masks)?;
                    passes_cast(from, to, a.share).then_some(a)
                }
                Op::Broadcast | Op::Reshape | Op::Transpose | Op::Splat => {
                    let a = same(self, 0, masks)?;
                    let ratio = a.change?;
                    let dims = moved(g, n, &ratio.dims)?;
                    Some(Moved { change: Some(Ratio { dims, ..ratio }), twin: a.twin, size: a.size, share: a.share })
                }
                Op::Reduce => {
                    let &[Attr::Reduce(ReduceOp::Add), Attr::Dim(axis)] = g.attrs(n) else { return None };
                    let a = same(self, 0, masks)?;
                    let mut ratio = a.change?;
                    let along = ratio.dims.remove(axis as usize);
                    along.is_none().then_some(Moved { change: Some(ratio), twin: a.twin, size: a.size, share: false })
                }
                Op::Dot if g.float(n.kids[2]) == Some(0.0) => {
                    let side = usize::from(self.free(n.kids[0], depth));
                    let a = same(self, side, masks)?;
                    let mut ratio = a.change?;
                    // The other operand's dimension takes the place of the one that is summed.
                    let axis = ratio.dims.len() - 1 - side;
                    let along = std::mem::take(&mut ratio.dims[axis]);
                    along.is_none().then_some(Moved { change: Some(ratio), twin: a.twin, size: a.size, share: false })
                }
                _ => None,
            }
        })
    }
}

/// True if a cast to a narrower float keeps what is scaled in its range; roundings move.
pub(crate) fn passes_cast(from: Scalar, to: Scalar, share: bool) -> bool {
    let wide = matches!(
        (from, to),
        (Scalar::F32, Scalar::BF16) | (Scalar::F16 | Scalar::BF16, Scalar::F32 | Scalar::F64) | (Scalar::F32, Scalar::F64)
    );
    wide || share && matches!((from, to), (Scalar::F32 | Scalar::F64, Scalar::F16 | Scalar::BF16) | (Scalar::F64, Scalar::F32))
}
