//! Restep: a loop of a producer that folds a row piece by piece takes pieces as wide as the tile that is wanted.
//!
//! ```text
//! for j in 0..n step 16 { m = maximum m, (reduce of x[j..j + 16]) }  ─►  for j in 0..n step 32 { m = maximum m, (reduce of x[j..j + 32]) }
//! ```
//!
//! So all loops over a row go in the same steps, and the optimizer may join them. What lies beyond the row's end has to be the op's
//! neutral element, since the last piece ends elsewhere; sums of floats need leave to be rounded in another order.

use super::super::maker::Maker;
use super::super::report::{FuseRule, Refusal};
use super::outside::{Outside, neutral};
use super::writer::{Axis, Window, Writer};
use crate::graph::size::Size;
use tilelift_egraph::Class;
use tilelift_ir::{Attr, Inst, Literal, Op, ReduceOp, Scalar, Value, ValueDef};

/// A loop that folds a row piece by piece.
struct Pieces {
    /// The fold of a piece, and what is combined with what is carried.
    reduce: Inst,
    part: Value,
    combine: Op,
    op: ReduceOp,
    size: Size,
    step: u32,
    width: u32,
}

impl<'g> Writer<'_, 'g> {
    /// Result `n` of a loop in other steps, if it is such a fold.
    pub fn restep(&mut self, maker: &mut Maker<'g>, inst: Inst, n: usize, axes: &[Axis]) -> Result<Option<Value>, Refusal> {
        let Some(pieces) = self.pieces(inst, n) else { return Ok(None) };
        let seen = &self.source.seen;
        let d = &seen.node.kernel.insts[inst];
        let index = seen.node.kernel.regions[d.regions[0]].params[0];
        let Some(start) = seen.sums.get(&index).cloned() else { return Ok(None) };
        let lo = maker.literal(Literal::Int(0), Scalar::I32);
        let hi = maker.size(&pieces.size)?;
        let step = maker.literal(Literal::Int(i64::from(pieces.width)), Scalar::I32);
        let init = self.tile(maker, d.args[3 + n], axes)?;
        maker.rules.push(FuseRule::Restep { op: pieces.op, from: pieces.step, to: pieces.width });
        let made = self.fold(maker, [lo, hi, step], init, |this, maker, at, so_far| {
            let whole = this.sources.graph.divisor(&pieces.size).is_multiple_of(pieces.width);
            let inside = whole.then(|| pieces.size.clone());
            this.windows.push(Window { start, extent: pieces.step, at, shape: pieces.width, dim: None, low: false, inside });
            let outer = this.pieced.replace((pieces.reduce, this.windows.len() - 1));
            let part = this.tile(maker, pieces.part, axes);
            this.pieced = outer;
            maker.op(pieces.combine, &[so_far, part?], &[], None)
        })?;
        Ok(Some(made))
    }

    fn pieces(&self, inst: Inst, n: usize) -> Option<Pieces> {
        let seen = &self.source.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        let number = |v: Value| seen.sums.get(&v).and_then(|s| s.as_number());
        let step = u32::try_from(number(d.args[2])?).ok().filter(|_| number(d.args[0]) == Some(0))?;
        // What is yielded: the carried value and a part that knows nothing of what is carried.
        let last = kernel.def_inst(*kernel.yields(region).get(n)?)?;
        let (combine, carried) = (kernel.insts[last].op, params[n + 1]);
        let part = match kernel.insts[last].args[..] {
            [a, b] if a == carried => b,
            [a, b] if b == carried => a,
            _ => return None,
        };
        let mut v = part;
        let reduce = loop {
            let i = kernel.def_inst(v)?;
            match kernel.insts[i].op {
                Op::Reshape => v = kernel.insts[i].args[0],
                Op::Reduce => break i,
                _ => return None,
            }
        };
        let r = &kernel.insts[reduce];
        let (Attr::Reduce(op), Attr::Dim(axis)) = (r.attrs.first()?, r.attrs.last()?) else { return None };
        let (op, axis, x) = (*op, *axis as usize, r.args[0]);
        let elem = kernel.ty(x).elem();
        let alike = matches!(
            (op, combine),
            (ReduceOp::Add, Op::Add) | (ReduceOp::Mul, Op::Mul) | (ReduceOp::Maximum, Op::Maximum) | (ReduceOp::Minimum, Op::Minimum)
        );
        let rounds = elem.is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul);
        if !alike || (rounds && self.sources.allow < Class::Reassoc) || self.uses_more(region, inst) {
            return None;
        }
        let outside = Outside::new(self.sources, self.source);
        let (index, size) = outside.origin(x, axis)?;
        let here = seen.sums.get(&params[0]) == Some(&index) && kernel.ty(x).shape()?[axis] == step;
        if !here || !self.sources.is_size(seen.sums.get(&d.args[1])?, &size) {
            return None;
        }
        // A row of the tile that is stored which goes as far.
        let dims = &self.sources.graph.tensors[self.source.tensor.index()].dims;
        let width = self.windows[..self.outer].iter().find(|w| w.dim.is_some_and(|d| dims[d] == size) && w.extent > 1)?.shape;
        let ends = width != step && outside.is(x, axis, (&index, &size), neutral(op, elem)?);
        ends.then_some(Pieces { reduce, part, combine, op, size, step, width })
    }

    /// True if a loop's index is used for more than places and coordinates, or what it carries for more than what is yielded in its place.
    fn uses_more(&self, region: tilelift_ir::Region, inst: Inst) -> bool {
        let kernel = &self.source.seen.node.kernel;
        let params = &kernel.regions[region].params;
        let mut more = !kernel.insts[inst].regions.contains(&region);
        kernel.walk(region, &mut |i| {
            let d = &kernel.insts[i];
            more |= !matches!(d.op, Op::Load | Op::Splat) && d.args.contains(&params[0]);
            let carried = |v: &Value| matches!(kernel.values[*v].def, ValueDef::RegionParam(r, k) if r == region && k > 0);
            let yielded = || d.results.iter().all(|r| kernel.yields(region).contains(r));
            more |= d.args.iter().any(carried) && d.op != Op::Yield && !yielded();
        });
        more
    }
}
