//! Masks that hold everywhere in most steps: a tail of keys, the diagonal of a causal loop.
//!
//! ```text
//! select (at + iota < end) x y      is x where  at + extent - 1 < end:  one comparison of numbers that all lanes have alike
//! ```
//!
//! What a mask compares is known between bounds: `base + 0 … base + span`, base a scalar, span a constant. Where the bounds already
//! decide for true, a choice around the selects leaves out both them and the mask. That is done where lanes compute beside units that multiply, in
//! the rounds of a loop without products, and where a choice that is alike in all lanes is a branch that no lane is switched off for.

use super::Lower;
use super::location::Tile;
use super::task::TaskState;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::layout::Axis;
use tilelift_ir::{Attr, CmpOp, Inst, Op, Scalar, Type, Value, ValueDef};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder};
use tilelift_schedule::LowerError;
use tilelift_schedule::facts::divisor;
use tilelift_schedule::plan::keeps_extents;

/// Elements per lane from which on a choice is worth its place.
const MIN_REGISTERS: u32 = 16;

/// All elements of a tile lie in `base + 0 … base + span`, by `i32` arithmetic that wraps.
struct Range {
    base: LVal,
    span: i64,
    /// The scalar that the base is; of a base of 0 there is none.
    of: Option<Value>,
}

impl Lower<'_> {
    /// A select of tiles whose mask can be seen to hold everywhere: a choice. Nothing happens, and the answer is false, for any other.
    pub(super) fn masked_select(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<bool, LowerError> {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        if !matches!(self.kernel.ty(result), Type::Tile(_)) || !matches!(self.kernel.ty(d.args[0]), Type::Tile(_)) {
            return Ok(false);
        }
        let layout = self.layout_of(result)?;
        if layout.size(Axis::Reg) < MIN_REGISTERS || !(self.by_units() || self.in_rounds(i)) {
            return Ok(false);
        }
        let Some(all) = self.all_true(b, d.args[0]) else { return Ok(false) };
        taken(Decision::Masks, || Told::of(format!("the select at {result} is a choice")));
        let [mask, yes, no] = [d.args[0], d.args[1], d.args[2]].map(|v| self.tile(b, v, &layout));
        let (mask, yes, no) = (mask?, yes?, no?);
        let each = |_: &mut Self, b: &mut LaneBuilder| {
            let regs = (0..mask.regs.len()).map(|r| b.select(mask.regs[r], yes.regs[r], no.regs[r]));
            Ok::<_, LowerError>(regs.collect())
        };
        let regs = match b.as_const(all) {
            Some(0) => each(self, b)?,
            Some(_) => yes.regs.clone(),
            None => {
                // The mask goes where it is needed.
                b.into_arms = true;
                b.if_else(self, all, |_, _| Ok(yes.regs.clone()), each)?
            }
        };
        self.set_tile(result, Tile { layout, regs });
        Ok(true)
    }

    /// True where units copy and multiply, so that what lanes compute is what a step takes.
    fn by_units(&self) -> bool {
        self.task.as_ref().is_some_and(TaskState::multiplies)
    }

    /// True in the body of a counted loop: rounds over a row, all but the last of which are whole; with products only where lanes do all else, too.
    pub(super) fn in_rounds(&self, i: Inst) -> bool {
        self.in_rounds[i]
    }

    /// A condition on scalars under which a mask holds everywhere.
    fn all_true(&mut self, b: &mut LaneBuilder, mask: Value) -> Option<LVal> {
        let i = self.kernel.def_inst(mask)?;
        let d = &self.kernel.insts[i];
        match (d.op, d.attrs.first()) {
            (Op::And, _) => {
                let (x, y) = (self.all_true(b, d.args[0])?, self.all_true(b, d.args[1])?);
                Some(b.bin(BinOp::And, x, y))
            }
            (Op::Broadcast | Op::Reshape | Op::Transpose, _) => self.all_true(b, d.args[0]),
            (Op::Splat, _) => self.scalar(d.args[0]).ok(),
            (Op::Not, _) => self.none_true(b, d.args[0]),
            (Op::Cmp, Some(&Attr::Cmp(op))) => self.ordered(b, op, [d.args[0], d.args[1]]),
            _ => None,
        }
    }

    /// A condition on scalars under which a mask holds nowhere.
    pub(super) fn none_true(&mut self, b: &mut LaneBuilder, mask: Value) -> Option<LVal> {
        let i = self.kernel.def_inst(mask)?;
        let d = &self.kernel.insts[i];
        match (d.op, d.attrs.first()) {
            (Op::Or, _) => {
                let (x, y) = (self.none_true(b, d.args[0])?, self.none_true(b, d.args[1])?);
                Some(b.bin(BinOp::And, x, y))
            }
            (Op::And, _) => match (self.none_true(b, d.args[0]), self.none_true(b, d.args[1])) {
                (Some(x), Some(y)) => Some(b.bin(BinOp::Or, x, y)),
                (x, y) => x.or(y),
            },
            (Op::Broadcast | Op::Reshape | Op::Transpose, _) => self.none_true(b, d.args[0]),
            (Op::Not, _) => self.all_true(b, d.args[0]),
            (Op::Cmp, Some(&Attr::Cmp(op))) => self.ordered(b, op.inverted(), [d.args[0], d.args[1]]),
            _ => None,
        }
    }

    /// A condition on scalars under which all elements of two tiles are in that order.
    fn ordered(&mut self, b: &mut LaneBuilder, op: CmpOp, [x, y]: [Value; 2]) -> Option<LVal> {
        if self.kernel.ty(x).elem() != Scalar::I32 {
            return None;
        }
        let (x, y) = (self.range(b, x)?, self.range(b, y)?);
        let (less, more) = match op {
            CmpOp::Lt | CmpOp::Le => (x, y),
            CmpOp::Gt | CmpOp::Ge => (y, x),
            CmpOp::Eq | CmpOp::Ne | CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge => return None,
        };
        let strict = matches!(op, CmpOp::Lt | CmpOp::Gt);
        if strict && self.target.moves_by_lanes() && self.all_below(&less, &more) {
            return Some(b.constant(LTy::I1, 1));
        }
        let top = b.add_const(less.base, less.span);
        let decided = b.cmp(if strict { CmpOp::Lt } else { CmpOp::Le }, top, more.base);
        // Neither side wraps on its way.
        let more_top = b.add_const(more.base, more.span);
        let mut all = decided;
        for (r, top) in [(&less, top), (&more, more_top)] {
            if r.span > 0 {
                let straight = b.cmp(CmpOp::Le, r.base, top);
                all = b.bin(BinOp::And, all, straight);
            }
        }
        Some(all)
    }

    /// True if one range lies below another in all iterations: it begins at the index of a loop that ends there, and a power of two that is no less than its extent
    /// divides both.
    fn all_below(&self, less: &Range, more: &Range) -> bool {
        let (Some(index), Some(end)) = (less.of, more.of) else { return false };
        let ends = match self.kernel.values[index].def {
            ValueDef::RegionParam(r, 0) => {
                let holder = self.kernel.holder(r).map(|i| &self.kernel.insts[i]);
                holder.is_some_and(|d| d.op == Op::For && d.args.get(1).is_some_and(|&hi| self.same_number(hi, end)))
            }
            ValueDef::RegionParam(..) | ValueDef::Result(..) | ValueDef::KernelParam(_) => false,
        };
        let extent = u32::try_from(less.span + 1).ok().and_then(u32::checked_next_power_of_two);
        ends && more.span == 0 && extent.is_some_and(|n| [index, end].iter().all(|&v| divisor(self.kernel, v, n) >= n))
    }

    /// True if two values are one, or extents of a view in one dimension.
    fn same_number(&self, x: Value, y: Value) -> bool {
        let extent = |v: Value| self.kernel.def_inst(v).map(|i| &self.kernel.insts[i]).filter(|d| d.op == Op::Dim);
        x == y || matches!((extent(x), extent(y)), (Some(a), Some(b)) if a.args == b.args && a.attrs == b.attrs)
    }

    /// The bounds of a tile or scalar of `i32`.
    fn range(&mut self, b: &mut LaneBuilder, v: Value) -> Option<Range> {
        if let Type::Scalar(Scalar::I32) = self.kernel.ty(v) {
            return self.scalar(v).ok().map(|base| Range { base, span: 0, of: Some(v) });
        }
        let i = self.kernel.def_inst(v)?;
        let d = &self.kernel.insts[i];
        match d.op {
            Op::Splat | Op::Broadcast | Op::Transpose => self.range(b, d.args[0]),
            Op::Reshape if keeps_extents(self.kernel, i) => self.range(b, d.args[0]),
            Op::Iota => {
                let extent = self.kernel.ty(v).as_tile()?.shape[self.dim_attr(i)];
                Some(Range { base: b.constant(LTy::Num(Scalar::I32), 0), span: i64::from(extent) - 1, of: None })
            }
            Op::Add | Op::Sub => {
                let (x, y) = (self.range(b, d.args[0])?, self.range(b, d.args[1])?);
                let span = x.span + y.span;
                let base = if d.op == Op::Add {
                    b.add(x.base, y.base)
                } else {
                    let low = b.bin(BinOp::Sub, x.base, y.base);
                    b.add_const(low, -y.span)
                };
                let zero = |r: &Range| r.of.is_none() && b.as_const(r.base) == Some(0);
                let of = match d.op {
                    Op::Add if zero(&x) => y.of,
                    Op::Add if zero(&y) => x.of,
                    _ => None,
                };
                // A longer way could wrap twice.
                (span < i64::from(i32::MAX)).then_some(Range { base, span, of })
            }
            _ => None,
        }
    }
}
