//! Checks of `for`, `while`, `if` and combining regions: carried values, region parameters, yields and results agree.

use super::check::Checker;
use super::error::{Place, VerifyCode};
use crate::entities::{Inst, Region, Value};
use crate::kernel::{InstData, ValueDef};
use crate::ops::{Attr, Literal, Op};
use crate::types::{Scalar, Type};
use crate::typing::combine_types;

/// A list of types in a message.
fn listed(types: &[Type]) -> String {
    if types.is_empty() {
        return "nothing".to_owned();
    }
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
}

impl<'k> Checker<'k> {
    /// A control instruction whose row is in order.
    pub(super) fn control(&mut self, i: Inst, d: &'k InstData) {
        match d.op {
            Op::For => {
                self.bounds(i, d);
                if let (Some(carried), Some(index)) = (self.all_types(&d.args[3..]), self.sound_type(d.args[0]).cloned()) {
                    let mut params = vec![index];
                    params.extend_from_slice(&carried);
                    self.region_params(i, d.regions[0], &params);
                    self.yield_types(i, d.regions[0], &carried);
                    self.results(i, d, &carried);
                }
            }
            Op::While => {
                if let Some(carried) = self.all_types(&d.args) {
                    for &r in &d.regions {
                        self.region_params(i, r, &carried);
                    }
                    self.yield_types(i, d.regions[0], &[Type::Scalar(Scalar::I1)]);
                    self.yield_types(i, d.regions[1], &carried);
                    self.results(i, d, &carried);
                }
            }
            Op::If => {
                if let Some(t) = self.sound_type(d.args[0])
                    && *t != Type::Scalar(Scalar::I1)
                {
                    let message = format!("the condition of `if` is {t}; it must be a scalar i1, so compare or reduce it");
                    self.error_inst(VerifyCode::Condition, i, message);
                }
                for &r in &d.regions {
                    self.region_params(i, r, &[]);
                }
                if let Some(types) = self.yielded(d.regions[0]).and_then(|(_, vs)| self.all_types(vs)) {
                    self.yield_types(i, d.regions[1], &types);
                    self.results(i, d, &types);
                }
            }
            Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy => self.combine(i, d),
            Op::Tasks => self.tasks(i, d),
            // Ops without regions: the caller checks them by their typing rule.
            Op::Const | Op::ProgramId | Op::NumPrograms | Op::Dim | Op::Iota | Op::Splat => {}
            elementwise_ops!() => {}
            Op::Broadcast | Op::Reshape | Op::Transpose => {}
            Op::Join | Op::Split | Op::Concat | Op::Slice | Op::Flip | Op::Scan | Op::ScanReverse | Op::ArgMin | Op::ArgMax => {}
            Op::Assume | Op::Assert | Op::Print | Op::Philox | Op::RequireLayout | Op::ReleaseLayout => {}
            Op::Reduce | Op::Dot | Op::DotScaled | Op::Load | Op::Store | Op::Prefetch | Op::Yield => {}
            Op::Gather | Op::Scatter | Op::Atomic | Op::AtomicCas => {}
            Op::GatherTile | Op::Histogram | Op::Sort | Op::ArgSort | Op::TopK | Op::ArgTopK => {}
            explicit_actions!() => {}
        }
    }

    /// Tiles, region and results of an op with a combining region.
    fn combine(&mut self, i: Inst, d: &'k InstData) {
        let Some(types) = self.all_types(&d.args) else { return };
        let args: Vec<&Type> = types.iter().collect();
        let results = match combine_types(d.op, &args, &d.attrs) {
            Ok(results) => results,
            Err(message) => return self.error_inst(VerifyCode::TypeRule, i, message),
        };
        let elems: Vec<Type> = types.iter().map(|t| Type::Scalar(t.elem())).collect();
        self.region_params(i, d.regions[0], &[&elems[..], &elems[..]].concat());
        self.yield_types(i, d.regions[0], &elems);
        self.results(i, d, &results);
        let k = self.k;
        let Some(region) = k.regions.get(d.regions[0]) else { return };
        for &j in &region.insts {
            let Some(inner) = k.insts.get(j) else { continue };
            let scalar = |&v: &Value| matches!(self.sound_type(v), Some(Type::Scalar(_)) | None);
            if inner.op != Op::Yield && !inner.op.is_scalar() || !inner.args.iter().chain(&inner.results).all(scalar) {
                let message = format!(
                    "`{}` stands in the region of `{}`, which computes with scalars only; compute it in front, or choose with `select`",
                    inner.op, d.op
                );
                self.error_inst(VerifyCode::CombineRegion, j, message);
            }
        }
    }

    /// The types of values, unless one of them is unsound or missing, which is reported elsewhere.
    fn all_types(&self, values: &[Value]) -> Option<Vec<Type>> {
        values.iter().map(|&v| self.sound_type(v).filter(|t| !matches!(t, Type::View(_)) && !t.is_handle()).cloned()).collect()
    }

    /// The `yield` that ends a region, and its operands.
    fn yielded(&self, r: Region) -> Option<(Inst, &'k [Value])> {
        let k = self.k;
        let i = *k.regions.get(r)?.insts.last()?;
        let d = k.insts.get(i).filter(|d| d.op == Op::Yield)?;
        Some((i, &d.args))
    }

    fn bounds(&mut self, i: Inst, d: &InstData) {
        let Some(types) = self.all_types(&d.args[..3]) else { return };
        let good = matches!(&types[0], Type::Scalar(s) if s.is_int()) && types.iter().all(|t| *t == types[0]);
        if !good {
            let message = format!("bounds and step of `for` are {}; they must be scalars of one integer type", listed(&types));
            return self.error_inst(VerifyCode::LoopBounds, i, message);
        }
        // The definition of the step may lie anywhere in a broken kernel, so it is looked up with care.
        let step = match self.k.values.get(d.args[2]).map(|v| v.def) {
            Some(ValueDef::Result(by, _)) => self.k.insts.get(by).filter(|d| d.op == Op::Const).and_then(|d| d.attrs.first()),
            Some(ValueDef::RegionParam(..) | ValueDef::KernelParam(_)) | None => None,
        };
        if let Some(Attr::Literal(Literal::Int(n))) = step
            && *n <= 0
        {
            self.error_inst(VerifyCode::LoopStep, i, format!("the step of `for` is {n}; it must be positive"));
        }
    }

    pub(super) fn region_params(&mut self, i: Inst, r: Region, want: &[Type]) {
        let k = self.k;
        let Some(data) = k.regions.get(r) else { return };
        let Some(have) = self.all_types(&data.params) else { return };
        if have != want {
            let loc = self.loc(i);
            let message = format!("{r} has parameters {}; its `{}` gives it {}", listed(&have), k.insts[i].op, listed(want));
            self.error(VerifyCode::RegionParams, Place::Region(r), loc, message);
        }
    }

    pub(super) fn yield_types(&mut self, i: Inst, r: Region, want: &[Type]) {
        let Some((y, values)) = self.yielded(r) else { return };
        let Some(have) = self.all_types(values) else { return };
        if have != want {
            let op = self.k.insts[i].op;
            let message = format!("`yield` gives {}; {r} of its `{op}` must give {}", listed(&have), listed(want));
            self.error_inst(VerifyCode::YieldTypes, y, message);
        }
    }

    pub(super) fn results(&mut self, i: Inst, d: &InstData, want: &[Type]) {
        if !self.result_count(i, d, want.len()) {
            return;
        }
        for (n, (&v, want)) in d.results.iter().zip(want).enumerate() {
            if let Some(have) = self.k.values.get(v).map(|v| &v.ty)
                && have != want
            {
                let message = format!("result {n} of `{}` is {have}; what it carries or yields makes it {want}", d.op);
                self.error_inst(VerifyCode::ResultType, i, message);
            }
        }
    }
}
