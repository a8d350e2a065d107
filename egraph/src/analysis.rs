//! Facts of a class, which hold for every node in it: type, constant, bounds, alignment, affine form, availability.
//!
//! Facts are joins of what the nodes say, so they only get sharper. A class whose elements all equal a constant gets that constant
//! as a node. *Availability* is the number, in program order, of the event after which a value can be computed: entering a region,
//! an effect, a read. A node's is the latest of its children's, a class's the earliest of its nodes'; since a rule's right side is
//! made of parts of its left side, the earliest node of a class can stand wherever any of them stood.

use crate::graph::{Affine, Context, Fact, Graph, as_int, bit, full_range, note};
use crate::language::{Head, Node, TypeId};
use crate::log::{Event, Step};
use crate::term::Term;
use egg::{Analysis, DidMerge, Id};
use smallvec::SmallVec;
use tilelift_interp as interp;
use tilelift_ir::multiples::{Known, low_zeros, zeros_of};
use tilelift_ir::{Attr, Extent, Literal, Op, Scalar, Type, num};

fn fit((lo, hi): (i128, i128), elem: Scalar) -> (i64, i64) {
    let (min, max) = full_range(elem);
    if lo >= i128::from(min) && hi <= i128::from(max) { (lo as i64, hi as i64) } else { (min, max) }
}

/// True for ops whose elements are elements of their operands.
fn moves(op: Op) -> bool {
    matches!(op, Op::Splat | Op::Broadcast | Op::Reshape | Op::Transpose | Op::Slice | Op::Flip | Op::Split | Op::Concat | Op::Join)
}

impl Context {
    fn constant(&self, node: &Node, kids: &[&Fact]) -> Option<Literal> {
        let Head::Op { op, attrs, ty, .. } = node.head else { return None };
        let attrs = self.pool.attrs(attrs);
        if op == Op::Const {
            return attrs.iter().find_map(|a| if let Attr::Literal(l) = a { Some(*l) } else { None });
        }
        if kids.is_empty() {
            return None;
        }
        let first = kids[0].value?;
        if moves(op) {
            return kids.iter().all(|k| k.value == Some(first)).then_some(first);
        }
        if !op.computes_elements() {
            return None;
        }
        let args: Option<SmallVec<[(Literal, Scalar); 3]>> = kids.iter().map(|k| k.value.map(|v| (v, self.pool.ty(k.ty).elem()))).collect();
        interp::fold(op, attrs, &args?, self.pool.ty(ty).elem())
    }

    fn range(&self, node: &Node, kids: &[&Fact]) -> (i64, i64) {
        let Head::Op { op, attrs, ty, .. } = node.head else { return self.leaf_range(node) };
        let (attrs, ty) = (self.pool.attrs(attrs), self.pool.ty(ty));
        let elem = ty.elem();
        let full = full_range(elem);
        if elem.is_float() {
            return full;
        }
        let wide = |i: usize| (i128::from(kids[i].range.0), i128::from(kids[i].range.1));
        let whole = |i: usize| !self.pool.ty(kids[i].ty).elem().is_float();
        match op {
            Op::ProgramId => (0, i64::from(i32::MAX) - 1),
            Op::NumPrograms => (1, i64::from(i32::MAX)),
            Op::Popcount | Op::Clz => fit((0, i128::from(elem.bits())), elem),
            Op::Dim => (0, i64::from(i32::MAX)),
            Op::Iota => match (attrs.first(), ty.shape()) {
                (Some(Attr::Dim(d)), Some(shape)) => fit((0, i128::from(shape[*d as usize]) - 1), elem),
                _ => full,
            },
            Op::Add => fit((wide(0).0 + wide(1).0, wide(0).1 + wide(1).1), elem),
            Op::Sub => fit((wide(0).0 - wide(1).1, wide(0).1 - wide(1).0), elem),
            Op::Mul => {
                let ((a, b), (c, d)) = (wide(0), wide(1));
                let all = [a * c, a * d, b * c, b * d];
                fit((all.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0)), elem)
            }
            Op::Minimum => (kids[0].range.0.min(kids[1].range.0), kids[0].range.1.min(kids[1].range.1)),
            Op::Maximum => (kids[0].range.0.max(kids[1].range.0), kids[0].range.1.max(kids[1].range.1)),
            Op::Div if kids[1].range.0 > 0 => {
                let ((a, b), (c, d)) = (kids[0].range, kids[1].range);
                // Toward zero: the smallest divisor gives the largest magnitude.
                (if a < 0 { a / c } else { a / d }, if b < 0 { b / d } else { b / c })
            }
            Op::Rem if kids[1].range.0 > 0 => {
                let top = kids[1].range.1 - 1;
                let ((a, b), low) = (kids[0].range, -top);
                (if a >= 0 { 0 } else { low.max(a) }, if b <= 0 { 0 } else { top.min(b) })
            }
            Op::And if kids[0].range.0 >= 0 || kids[1].range.0 >= 0 => {
                let tops = kids.iter().filter(|k| k.range.0 >= 0).map(|k| k.range.1);
                (0, tops.min().unwrap_or(full.1))
            }
            Op::ShrS | Op::ShrU if kids[0].range.0 >= 0 => {
                let by = if kids[1].range.0 >= 0 { kids[1].range.0.min(63) } else { 0 };
                (0, kids[0].range.1 >> by)
            }
            Op::ShrU if kids[1].range.0 > 0 && kids[1].range.1 < i64::from(elem.bits()) => {
                (0, (u64::MAX >> (64 - elem.bits()) >> kids[1].range.0) as i64)
            }
            Op::Select => (kids[1].range.0.min(kids[2].range.0), kids[1].range.1.max(kids[2].range.1)),
            Op::Cast if whole(0) && elem != Scalar::I1 => fit(wide(0), elem),
            Op::Concat | Op::Join => (kids[0].range.0.min(kids[1].range.0), kids[0].range.1.max(kids[1].range.1)),
            Op::Assume | Op::RequireLayout | Op::ReleaseLayout => kids[0].range,
            _ if moves(op) => kids[0].range,
            _ => full,
        }
    }

    fn leaf_range(&self, node: &Node) -> (i64, i64) {
        full_range(self.pool.ty(node.ty()).elem())
    }

    fn zeros(&self, node: &Node, kids: &[&Fact]) -> u8 {
        let Head::Op { op, attrs, ty, .. } = node.head else { return 0 };
        let known = |k: &&Fact| Known { ty: self.pool.ty(k.ty), zeros: k.zeros, value: as_int(k.value) };
        let args: SmallVec<[Known<'_>; 4]> = kids.iter().map(known).collect();
        low_zeros(op, self.pool.attrs(attrs), self.pool.ty(ty), &args)
    }

    fn same(&self, node: &Node, kids: &[&Fact]) -> u8 {
        let Head::Op { op, attrs, ty, .. } = node.head else {
            let folded = match node.head {
                Head::Fold { .. } => kids[3..].iter().fold(u8::MAX, |m, k| m & k.same),
                Head::State { .. } => kids[0].same,
                Head::Leaf { .. } | Head::Op { .. } => 0,
            };
            return folded | self.ones(node.ty());
        };
        let ones = self.ones(ty);
        let Some(shape) = self.pool.ty(ty).shape() else { return 0 };
        let all = (1u8 << shape.len()) - 1;
        let from = |i: usize| self.pool.ty(kids[i].ty).shape().unwrap_or(&[]);
        let attr = self.pool.attrs(attrs);
        ones | match op {
            Op::Splat => all,
            Op::Iota => match attr.first() {
                Some(Attr::Dim(d)) => all & !(1 << d),
                _ => 0,
            },
            Op::Broadcast => {
                let grown = (0..shape.len()).filter(|&d| shape[d] != from(0)[d]).fold(0, |m, d| m | 1 << d);
                kids[0].same | grown
            }
            Op::Transpose => match attr.first() {
                Some(Attr::Perm(p)) => p.iter().enumerate().fold(0, |m, (i, &d)| m | (kids[0].same >> d & 1) << i),
                _ => 0,
            },
            Op::Slice | Op::Flip | Op::RequireLayout | Op::ReleaseLayout => kids[0].same,
            // A tile of equal elements stays one in any form.
            Op::Reshape if kids[0].same == (1 << from(0).len()) - 1 => all,
            // Halves of one element differ; halves that are the same all along make elements that are.
            Op::Bitcast if !self.elementwise(node, kids[0].ty) => {
                let last = 1 << (shape.len() - 1);
                if self.pool.ty(ty).elem().bits() < self.pool.ty(kids[0].ty).elem().bits() { kids[0].same & !last } else { kids[0].same }
            }
            _ if op.computes_elements() => {
                let of = |k: &&Fact| if matches!(self.pool.ty(k.ty), Type::Scalar(_)) { all } else { k.same };
                kids.iter().map(of).fold(all, |m, s| m & s)
            }
            _ => 0,
        }
    }

    /// The dimensions of extent 1.
    fn ones(&self, ty: TypeId) -> u8 {
        let shape = self.pool.ty(ty).shape().unwrap_or(&[]);
        shape.iter().enumerate().filter(|&(_, &e)| e == 1).fold(0, |m, (d, _)| m | 1 << d)
    }

    fn affine(&self, node: &Node, kids: &[&Fact], id: Id) -> Option<Affine> {
        let ty = self.pool.ty(node.ty());
        if !ty.elem().is_int() {
            return None;
        }
        let rank = ty.shape()?.len();
        let zero = || SmallVec::from_elem(0, rank);
        let own = || matches!(ty, Type::Scalar(_)).then(|| Affine { base: Some(id), offset: 0, steps: SmallVec::new() });
        let Head::Op { op, attrs, .. } = node.head else { return own() };
        let of = |i: usize| kids[i].affine.as_ref();
        let attr = self.pool.attrs(attrs).first();
        match op {
            Op::Const => Some(Affine { base: None, offset: as_int(self.constant(node, kids))?, steps: SmallVec::new() }),
            // A scalar that was cast or computed stands for itself.
            Op::Splat => of(0).map(|a| Affine { base: a.base, offset: a.offset, steps: zero() }),
            Op::Iota => match attr {
                Some(Attr::Dim(d)) => {
                    let mut steps = zero();
                    steps[*d as usize] = 1;
                    Some(Affine { base: None, offset: 0, steps })
                }
                _ => None,
            },
            Op::Add | Op::Sub => {
                let sum = || {
                    let (a, b) = (of(0)?, of(1)?);
                    let sign = if op == Op::Sub { -1 } else { 1 };
                    let base = match (a.base, b.base) {
                        (x, None) => x,
                        (None, y) if sign == 1 => y,
                        _ => return None,
                    };
                    let offset = num::wrap(a.offset.wrapping_add(b.offset.wrapping_mul(sign)), ty.elem());
                    let steps = a.steps.iter().zip(&b.steps).map(|(x, y)| x.wrapping_add(y.wrapping_mul(sign))).collect();
                    Some(Affine { base, offset, steps })
                };
                sum().or_else(own)
            }
            Op::Mul => {
                let scaled = || {
                    let (a, c) = match (of(0), as_int(kids[1].value), of(1), as_int(kids[0].value)) {
                        (Some(a), Some(c), _, _) | (_, _, Some(a), Some(c)) => (a, c),
                        _ => return None,
                    };
                    if a.base.is_some() {
                        return None;
                    }
                    let by = |x: &i64| num::wrap(x.wrapping_mul(c), ty.elem());
                    Some(Affine { base: None, offset: by(&a.offset), steps: a.steps.iter().map(by).collect() })
                };
                scaled().or_else(own)
            }
            Op::Broadcast => {
                let (a, from) = (of(0)?, self.pool.ty(kids[0].ty).shape()?);
                let shape = ty.shape()?;
                let steps = (0..rank).map(|d| if from[d] == shape[d] { a.steps[d] } else { 0 }).collect();
                Some(Affine { base: a.base, offset: a.offset, steps })
            }
            Op::Transpose => match attr {
                Some(Attr::Perm(p)) => {
                    let a = of(0)?;
                    Some(Affine { base: a.base, offset: a.offset, steps: p.iter().map(|&d| a.steps[d as usize]).collect() })
                }
                _ => None,
            },
            Op::Reshape if rank > 0 => {
                // Extents of 1 come and go; the others keep their order.
                let (a, from) = (of(0)?, self.pool.ty(kids[0].ty).shape()?);
                let shape = ty.shape()?;
                let long = |s: &[u32]| s.iter().copied().filter(|&e| e != 1).collect::<SmallVec<[u32; 4]>>();
                if long(from) != long(shape) {
                    return None;
                }
                let mut old = (0..from.len()).filter(|&d| from[d] != 1).map(|d| a.steps[d]);
                let steps = shape.iter().map(|&e| if e == 1 { 0 } else { old.next().unwrap_or(0) }).collect();
                Some(Affine { base: a.base, offset: a.offset, steps })
            }
            _ => own(),
        }
    }
}

impl Analysis<Node> for Context {
    type Data = Fact;

    fn make(graph: &mut Graph, node: &Node, id: Id) -> Fact {
        let context = &graph.analysis;
        let kids: SmallVec<[&Fact; 4]> = node.kids.iter().map(|&k| &graph[k].data).collect();
        let (own, free) = context.own(node);
        let avail = kids.iter().map(|k| k.avail).fold(own, u32::max);
        let mut free = kids.iter().fold(free, |f, k| f | k.free);
        if let Head::Fold { range, .. } = node.head {
            free &= !bit(Some(range));
        }
        let mut range = context.range(node, &kids);
        let mut zeros = context.zeros(node, &kids);
        if let Head::Leaf { value, .. } = node.head
            && let Some(l) = context.loops[value]
        {
            let (lo, hi, step) = (&graph[l.lo].data, &graph[l.hi].data, &graph[l.step].data);
            let last = match (as_int(lo.value), as_int(hi.value), as_int(step.value)) {
                // The last round of a loop whose bounds are known.
                (Some(lo), Some(hi), Some(step)) if step > 0 && hi > lo => {
                    hi.checked_sub(lo).map_or(hi - 1, |n| lo + (n - 1) / step * step)
                }
                _ => hi.range.1.saturating_sub(1),
            };
            range = (lo.range.0, last.max(lo.range.0));
            zeros = lo.zeros.min(step.zeros);
        }
        let mut value = context.constant(node, &kids);
        if let Head::Op { op: Op::Dim, attrs, .. } = node.head
            && let (Some(v), Some(Attr::Dim(d))) = (context.pool.ty(kids[0].ty).as_view(), context.pool.attrs(attrs).first())
            && let Extent::Fixed(n) = v.dims[*d as usize]
        {
            value = Some(Literal::Int(i64::from(n)));
        }
        if (1..63).contains(&zeros) {
            // Bounds of a multiple are multiples.
            let below = |x: i64| x >> zeros << zeros;
            let (lo, hi) = (range.0.checked_add((1 << zeros) - 1).map_or(range.0, below), below(range.1));
            range = if lo <= hi { (lo, hi) } else { range };
        }
        let elem = context.pool.ty(node.ty()).elem();
        if value.is_none() && range.0 == range.1 && !elem.is_float() && !matches!(context.pool.ty(node.ty()), Type::View(_)) {
            value = Some(Literal::Int(range.0));
        }
        if let Some(Literal::Int(i)) = value {
            (range, zeros) = ((i, i), zeros_of(i));
        }
        let affine = match value {
            Some(Literal::Int(offset)) if elem.is_int() => {
                let rank = context.pool.ty(node.ty()).shape().unwrap_or(&[]).len();
                Some(Affine { base: None, offset, steps: SmallVec::from_elem(0, rank) })
            }
            _ => context.affine(node, &kids, id),
        };
        Fact { ty: node.ty(), avail, free, value, range, zeros, same: context.same(node, &kids), affine }
    }

    fn merge(&mut self, a: &mut Fact, b: Fact) -> DidMerge {
        debug_assert_eq!(a.ty, b.ty, "a rule made a class of two types: {} and {}", self.pool.ty(a.ty), self.pool.ty(b.ty));
        let value = match (a.value, b.value) {
            // Any NaN is as good as another; which one it is follows from neither's order.
            (Some(Literal::Float(x)), Some(Literal::Float(y))) if [x, y].iter().all(|&bits| f64::from_bits(bits).is_nan()) => {
                Some(Literal::Float(x.min(y)))
            }
            (x, y) => {
                debug_assert!(x.is_none() || y.is_none() || x == y, "a rule made {a:?} equal to {b:?}");
                x.or(y)
            }
        };
        let (lo, hi) = (a.range.0.max(b.range.0), a.range.1.min(b.range.1));
        // Code that never runs may have contradictory facts; any of them will do there.
        let range = if lo <= hi { (lo, hi) } else { a.range };
        // The form without a base says most.
        let prefer_b = match (&a.affine, &b.affine) {
            (Some(x), Some(y)) => x.base.is_some() && y.base.is_none(),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let joined = Fact {
            ty: a.ty,
            avail: a.avail.min(b.avail),
            free: a.free & b.free,
            value,
            range,
            zeros: a.zeros.max(b.zeros),
            same: a.same | b.same,
            affine: if prefer_b { b.affine.clone() } else { a.affine.clone() },
        };
        let differs = |x: &Fact, y: &Fact| {
            x.avail != y.avail
                || x.free != y.free
                || x.value != y.value
                || x.range != y.range
                || x.zeros != y.zeros
                || x.same != y.same
                || x.affine != y.affine
        };
        let did = DidMerge(differs(&joined, a), differs(&joined, &b));
        *a = joined;
        did
    }

    fn modify(graph: &mut Graph, id: Id) {
        let fact = &graph[id].data;
        let Some(literal) = fact.value else { return };
        let ty = graph.analysis.pool.ty(fact.ty).clone();
        let term = Term::full(literal, &ty);
        if term.find(graph) == Some(graph.find(id)) {
            return;
        }
        let Some(constant) = term.build(graph) else { return };
        if graph.analysis.log.is_some() {
            let node = graph.id_to_node(id).clone();
            note(graph, Event::Step(Step { rule: crate::log::FOLD, class: id, node, left: id, right: Some(constant) }));
        }
        graph.union_trusted(id, constant, crate::log::FOLD);
    }
}
