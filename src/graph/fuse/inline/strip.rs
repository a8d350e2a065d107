//! Strip: a fold along a row that is wanted in front of a narrower tile becomes a loop over pieces of the row.
//!
//! ```text
//! reduce maximum x, 1 : 64x256 -> 64        m = -inf
//!                                           for j in 0..n step 32 { m = maximum m, (reduce maximum x[.., j..j + 32], 1) }
//! ```
//!
//! Maxima, minima and integers keep every bit; sums and products of floats are rounded in another order (`reassoc`). The row ends where
//! the tensor ends if what lies behind is known to be the op's neutral element, as `-inf` that a load reads outside; else where the
//! producer's tile ends.

use super::super::atoms::Sum;
use super::super::maker::Maker;
use super::super::report::{FuseRule, Refusal};
use super::outside::{Outside, neutral};
use super::writer::{Axis, Window, Writer};
use crate::graph::size::Size;
use tilelift_egraph::Class;
use tilelift_ir::{Attr, CmpOp, Inst, Literal, Op, ReduceOp, Scalar, Type, Value};

/// Elements of a tile of whole rows that are folded at once where no narrower tile is given, and the width of a piece of larger ones.
const WHOLE: u64 = 1 << 14;
const WIDTH: u32 = 64;
/// Elements of whole rows that a program holds at most.
const LARGEST: u64 = 1 << 17;

/// A fold that is taken piece by piece.
struct Strip {
    op: ReduceOp,
    axis: usize,
    start: i32,
    extent: u32,
    width: u32,
    /// Where the row ends, if nothing that counts lies behind, and whether the producer's tile is known to reach so far.
    end: Option<(Size, bool)>,
    neutral: Literal,
}

impl<'g> Writer<'_, 'g> {
    /// A fold along an axis.
    pub fn reduce(&mut self, maker: &mut Maker<'g>, inst: Inst, axes: &[Axis]) -> Result<Value, Refusal> {
        let d = &self.source.seen.node.kernel.insts[inst];
        let Some(Attr::Dim(axis)) = d.attrs.last() else { return self.no(inst, "has no axis") };
        let mut inner = axes.to_vec();
        if let Some((_, window)) = self.pieced.filter(|p| p.0 == inst) {
            inner.insert(*axis as usize, Axis::Window(window));
            let x = self.tile(maker, d.args[0], &inner)?;
            return maker.op(Op::Reduce, &[x], &d.attrs, None);
        }
        inner.insert(*axis as usize, Axis::Keep);
        match self.strip(inst, &inner) {
            Some(strip) => {
                let level = self.level(maker, d.results[0], axes);
                self.further_out(maker, level, |this, maker| this.strips(maker, inst, axes, &strip))
            }
            None => {
                let elements: u64 = self.shape(d.args[0], &inner).iter().map(|&e| u64::from(e)).product();
                if elements > LARGEST {
                    return self.no(inst, &format!("{elements} elements of whole rows are too many for a program"));
                }
                let x = self.tile(maker, d.args[0], &inner)?;
                maker.op(Op::Reduce, &[x], &d.attrs, None)
            }
        }
    }

    /// How a fold is taken piece by piece, if it shall and may be.
    fn strip(&self, inst: Inst, inner: &[Axis]) -> Option<Strip> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        let (Attr::Reduce(op), Attr::Dim(axis)) = (d.attrs.first()?, d.attrs.last()?) else { return None };
        let (op, axis, x) = (*op, *axis as usize, d.args[0]);
        let elem = kernel.ty(x).elem();
        let rounds = elem.is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul);
        if rounds && self.sources.allow < Class::Reassoc {
            return None;
        }
        let neutral = neutral(op, elem)?;
        let outside = Outside::new(self.sources, self.source);
        let (index, size) = outside.origin(x, axis)?;
        let extent = kernel.ty(x).shape()?[axis];
        let start = index.as_number().filter(|&s| s >= 0)?;
        let alike = |w: &&Window| w.start == index && w.extent == extent;
        let elements: u64 = self.shape(x, inner).iter().map(|&e| u64::from(e)).product();
        let window = self.windows[..self.outer].iter().find(alike);
        let width = match window {
            Some(w) => w.shape,
            None if elements > WHOLE => WIDTH,
            None => return None,
        };
        if width >= extent {
            return None;
        }
        let last = start as u32 + extent;
        let dims = &self.sources.graph.tensors[self.source.tensor.index()].dims;
        let whole = window.and_then(|w| w.dim).is_some_and(|d| self.source.whole[d] && dims[d] == size);
        let reaches = size.fixed().map_or(whole, |n| n <= last);
        let shorter = reaches || size.fixed().is_none();
        let end = Some((size, reaches)).filter(|(size, _)| shorter && outside.is(x, axis, (&index, size), neutral));
        Some(Strip { op, axis, start, extent, width, end, neutral })
    }

    fn strips(&mut self, maker: &mut Maker<'g>, inst: Inst, axes: &[Axis], strip: &Strip) -> Result<Value, Refusal> {
        let d = &self.source.seen.node.kernel.insts[inst];
        let (result, x) = (d.results[0], d.args[0]);
        let elem = self.source.seen.node.kernel.ty(x).elem();
        let int = |maker: &mut Maker<'g>, n: i64| maker.literal(Literal::Int(n), Scalar::I32);
        let last = i64::from(strip.start) + i64::from(strip.extent);
        let hi = match &strip.end {
            Some((size, true)) => maker.size(size)?,
            Some((size, false)) => {
                let (size, last) = (maker.size(size)?, int(maker, last));
                maker.op(Op::Minimum, &[size, last], &[], None)?
            }
            None => int(maker, last),
        };
        let bounds = [int(maker, i64::from(strip.start)), hi, int(maker, i64::from(strip.width))];
        let first = maker.literal(strip.neutral, elem);
        let shape = self.shape(result, axes);
        let init = if axes.is_empty() { first } else { maker.splat(first, &shape)? };
        let rule = FuseRule::Strip { op: strip.op, extent: strip.extent, width: strip.width, cut: strip.end.is_some() };
        maker.rules.push(rule);
        self.fold(maker, bounds, init, |this, maker, index, so_far| {
            // Pieces that end with the tensor, or before it.
            let whole = |size: &Size| strip.start == 0 && this.sources.graph.divisor(size).is_multiple_of(strip.width);
            let inside = strip.end.as_ref().map(|e| e.0.clone()).filter(whole);
            let start = Sum::number(strip.start);
            let window = Window { start, extent: strip.extent, at: index, shape: strip.width, dim: None, low: false, inside };
            this.windows.push(window);
            let mut inner = axes.to_vec();
            inner.insert(strip.axis, Axis::Window(this.windows.len() - 1));
            let mut piece = this.tile(maker, x, &inner)?;
            if strip.end.is_none() && !strip.extent.is_multiple_of(strip.width) {
                piece = this.before(maker, piece, (strip.axis, index, last), strip.neutral)?;
            }
            let piece = maker.op(Op::Reduce, &[piece], &d.attrs, None)?;
            maker.op(combine(strip.op), &[so_far, piece], &[], None)
        })
    }

    /// A piece of a row with the neutral element where it is beyond the row's end.
    fn before(
        &mut self,
        maker: &mut Maker<'g>,
        piece: Value,
        (axis, at, end): (usize, Value, i64),
        neutral: Literal,
    ) -> Result<Value, Refusal> {
        let Type::Tile(ty) = maker.kernel.ty(piece).clone() else { return Ok(piece) };
        let steps = maker.op(Op::Iota, &[], &[Attr::Dim(axis as u32)], Some(&Type::tile(&ty.shape, Scalar::I32)))?;
        let at = maker.splat(at, &ty.shape)?;
        let at = maker.op(Op::Add, &[at, steps], &[], None)?;
        let end = maker.literal(Literal::Int(end), Scalar::I32);
        let end = maker.splat(end, &ty.shape)?;
        let there = maker.op(Op::Cmp, &[at, end], &[Attr::Cmp(CmpOp::Lt)], None)?;
        let neutral = maker.literal(neutral, ty.elem);
        let neutral = maker.splat(neutral, &ty.shape)?;
        maker.op(Op::Select, &[there, piece, neutral], &[], None)
    }
}

/// The op that combines two elements.
fn combine(op: ReduceOp) -> Op {
    match op {
        ReduceOp::Add => Op::Add,
        ReduceOp::Mul => Op::Mul,
        ReduceOp::Minimum => Op::Minimum,
        ReduceOp::Maximum => Op::Maximum,
        ReduceOp::And => Op::And,
        ReduceOp::Or => Op::Or,
        ReduceOp::Xor => Op::Xor,
    }
}
