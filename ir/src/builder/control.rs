//! Builder methods that own regions: loops, choices, and reductions and scans with an op of the caller's.

use super::{KernelBuilder, Operand};
use crate::cursor::Cursor;
use crate::entities::{Region, Value};
use crate::ops::{Attr, Op};
use crate::types::Type;
use crate::typing::combine_types;

impl KernelBuilder {
    /// A loop over `lo, lo + step, …` below `hi`; the body gets the index and the carried values and returns the next ones.
    #[track_caller]
    pub fn for_loop(
        &mut self,
        lo: impl Into<Operand>,
        hi: impl Into<Operand>,
        step: impl Into<Operand>,
        init: &[Value],
        body: impl FnOnce(&mut KernelBuilder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let (lo, hi) = self.unify(lo.into(), hi.into());
        let index = self.ty(lo).clone();
        let step = self.value(step.into(), Some(index.elem()));
        let r = self.kernel.add_region();
        let iv = self.kernel.add_region_param(r, index);
        let carried = self.region_params(r, init);
        self.in_region(r, |b| body(b, iv, &carried));
        let mut args = vec![lo, hi, step];
        args.extend_from_slice(init);
        self.close(Op::For, &args, &[r], init)
    }

    /// A loop that repeats while `condition` of the carried values returns true.
    #[track_caller]
    pub fn while_loop(
        &mut self,
        init: &[Value],
        condition: impl FnOnce(&mut KernelBuilder, &[Value]) -> Value,
        body: impl FnOnce(&mut KernelBuilder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let (test, run) = (self.kernel.add_region(), self.kernel.add_region());
        let seen = self.region_params(test, init);
        self.in_region(test, |b| vec![condition(b, &seen)]);
        let carried = self.region_params(run, init);
        self.in_region(run, |b| body(b, &carried));
        self.close(Op::While, init, &[test, run], init)
    }

    /// Both arms return values of the same types, which are the results.
    #[track_caller]
    pub fn if_else(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut KernelBuilder) -> Vec<Value>,
        otherwise: impl FnOnce(&mut KernelBuilder) -> Vec<Value>,
    ) -> Vec<Value> {
        let (a, b) = (self.kernel.add_region(), self.kernel.add_region());
        self.in_region(a, then);
        self.in_region(b, otherwise);
        let results: Vec<Value> = self.kernel.yields(a).to_vec();
        self.close(Op::If, &[condition], &[a, b], &results)
    }

    /// Runs the body where the condition holds.
    #[track_caller]
    pub fn if_then(&mut self, condition: Value, then: impl FnOnce(&mut KernelBuilder)) {
        let (a, b) = (self.kernel.add_region(), self.kernel.add_region());
        self.in_region(a, |b| {
            then(b);
            Vec::new()
        });
        self.in_region(b, |_| Vec::new());
        self.close(Op::If, &[condition], &[a, b], &[]);
    }

    /// As [`KernelBuilder::reduce`], of one or more tiles of one shape, with an op of the caller's: `combine` gets an element of each
    /// tile, another of each, and returns what they combine to. The op should be associative and commutative.
    #[track_caller]
    pub fn reduce_by(
        &mut self,
        tiles: &[Value],
        axis: u32,
        combine: impl FnOnce(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.combine_op(Op::ReduceBy, tiles, axis, combine)
    }

    /// As [`KernelBuilder::scan`], of one or more tiles of one shape, with an associative op of the caller's, which gets what comes
    /// earlier along the axis first.
    #[track_caller]
    pub fn scan_by(
        &mut self,
        tiles: &[Value],
        axis: u32,
        combine: impl FnOnce(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.combine_op(Op::ScanBy, tiles, axis, combine)
    }

    /// As [`KernelBuilder::scan_by`] from the last element backward.
    #[track_caller]
    pub fn scan_reverse_by(
        &mut self,
        tiles: &[Value],
        axis: u32,
        combine: impl FnOnce(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.combine_op(Op::ScanReverseBy, tiles, axis, combine)
    }

    #[track_caller]
    fn combine_op(
        &mut self,
        op: Op,
        tiles: &[Value],
        axis: u32,
        combine: impl FnOnce(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let attrs = [Attr::Dim(axis)];
        let typed = combine_types(op, &tiles.iter().map(|&v| self.ty(v)).collect::<Vec<_>>(), &attrs);
        let types = match typed {
            Ok(types) => types,
            Err(message) => {
                self.note(op.info().name, message);
                tiles.iter().map(|&v| self.ty(v).clone()).collect()
            }
        };
        let r = self.kernel.add_region();
        let elems: Vec<Type> = tiles.iter().map(|&v| Type::Scalar(self.ty(v).elem())).collect();
        let params: Vec<Value> = elems.iter().chain(&elems).map(|t| self.kernel.add_region_param(r, t.clone())).collect();
        let (x, y) = params.split_at(tiles.len());
        self.in_region(r, |b| combine(b, x, y));
        let inst = self.kernel.add_inst(op, tiles, 0, &attrs, &[r], &types);
        self.insert(inst);
        self.kernel.insts[inst].results.to_vec()
    }

    fn region_params(&mut self, r: Region, like: &[Value]) -> Vec<Value> {
        like.iter()
            .map(|&v| {
                let ty = self.ty(v).clone();
                self.kernel.add_region_param(r, ty)
            })
            .collect()
    }

    #[track_caller]
    pub(super) fn in_region(&mut self, r: Region, body: impl FnOnce(&mut KernelBuilder) -> Vec<Value>) {
        let outer = std::mem::replace(&mut self.at, Cursor::start(r));
        let values = body(self);
        let inst = self.kernel.add_inst(Op::Yield, &values, 0, &[], &[], &[]);
        self.insert(inst);
        self.at = outer;
    }

    /// Places a control instruction whose results have the types of `like`.
    #[track_caller]
    fn close(&mut self, op: Op, args: &[Value], regions: &[Region], like: &[Value]) -> Vec<Value> {
        let types: Vec<Type> = like.iter().map(|&v| self.ty(v).clone()).collect();
        let inst = self.kernel.add_inst(op, args, 0, &[], regions, &types);
        self.insert(inst);
        self.kernel.insts[inst].results.to_vec()
    }
}
