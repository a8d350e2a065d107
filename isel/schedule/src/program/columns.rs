//! Tasks that share the columns of accumulators: the first one makes what all multiply by, and hands it over.
//!
//! ```text
//! first      wait for the slot ─ its products, what lanes make of them ─ wait until all have read what was handed over ─ store it ─ fence ─ it is there
//!            its columns' products ─ give the slot back
//! another    wait until it is there ─ wait for the slot ─ its columns' products ─ it is read ─ give the slot back
//! behind     the first hands over numbers of rows; each stores its columns
//! ```

use super::Refusal;
use super::schedule::{Handed, ProgramPlan, buffer_type};
use super::write::{Arg, Writer, number};
use crate::plan::{ColumnTasks, StepPart, SwizzledTile, is_swizzle, needs, slice_by, step_order, written_views};
use std::collections::BTreeMap;
use tilelift_ir::{Attr, Effects, Inst, Literal, Op, SharedType, Type, Value};

/// What values are in a task that has a part of their columns.
struct ColumnPart {
    number: u32,
    made: BTreeMap<Value, Value>,
}

impl ProgramPlan<'_> {
    /// Allocates buffers and mbarriers of what is handed over, if tasks share columns.
    pub(super) fn alloc_handed(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let Some(plan) = &self.plan.columns else { return Ok(()) };
        let kernel = self.kernel;
        let plain = |w: &mut Writer<'_>, v: Value| {
            let Some(t) = kernel.ty(v).as_tile() else { return Err(Refusal::Written { value: v }) };
            w.make(Op::LocalAlloc, &[], &[Attr::Count(0)], Some(&Type::Shared(SharedType::new(&t.shape, t.elem))))
        };
        let mut buffers = [Vec::new(), Vec::new()];
        for (v, tile) in &plan.handed {
            buffers[0].push(match tile {
                Some(tile) => w.buffer(&buffer_type(&tile.shape, tile), tile)?,
                None => plain(w, *v)?,
            });
        }
        for &v in &plan.handed_behind {
            buffers[1].push(plain(w, v)?);
        }
        let mut barrier = |count: u32| w.make(Op::BarrierAlloc, &[], &[Attr::Count(count)], Some(&Type::Barrier(1)));
        let (full, empty, behind) = (barrier(1)?, barrier(plan.tasks - 1)?, barrier(1)?);
        self.handed = Some(Handed { buffers, full, empty, behind });
        Ok(())
    }

    /// A task's part of the columns, by its number: all that it does.
    pub(super) fn columns(&self, w: &mut Writer<'_>, number: u32) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let (Some(plan), Some(handed)) = (&self.plan.columns, &self.handed) else { return Ok(()) };
        let mut part = ColumnPart { number, made: BTreeMap::new() };
        let first = number == 0;
        let top = &kernel.regions[kernel.body].insts;
        if !first {
            let own = |i: &&Inst| plan.others.contains(*i) && !self.front.contains(*i);
            top.iter().filter(own).try_for_each(|&i| w.copy(i))?;
        }
        let mut over = false;
        for &i in top {
            let d = &kernel.insts[i];
            let wide = d.results.iter().any(|v| plan.wide.contains(v));
            if i == self.plan.main {
                self.column_loop(w, (plan, handed), &mut part)?;
            } else if d.op == Op::Store && plan.wide.contains(&kernel.operand(i, "value")[0]) {
                if !std::mem::replace(&mut over, true) {
                    self.hand_over_behind(w, (plan, handed), first)?;
                }
                self.store_columns(w, plan, &mut part, i)?;
            } else if !first || wide {
                // Wide values are made where they are wanted.
            } else if is_swizzle(kernel, i) {
                let v = w.get(d.args[0])?;
                w.set(d.results[0], v);
            } else if d.op != Op::Yield && !self.front.contains(&i) {
                w.copy(i)?;
            }
        }
        Ok(())
    }

    /// The loop.
    fn column_loop(&self, w: &mut Writer<'_>, (plan, handed): (&ColumnTasks, &Handed), part: &mut ColumnPart) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[self.plan.main];
        let (params, yields) = (&kernel.regions[self.region].params[1..], kernel.yields(self.region));
        let first = part.number == 0;
        if first {
            self.wait_brought(w)?;
        }
        let (mut shared, mut own) = (Vec::new(), Vec::new());
        for (k, p) in params.iter().enumerate() {
            match plan.wide.contains(p) {
                true => shared.push(k),
                false if first => own.push(k),
                false => {}
            }
        }
        let bounds = self.bounds(w)?;
        let mut init = Vec::new();
        for &k in &own {
            init.push(w.get(d.args[3 + k])?);
        }
        for &k in &shared {
            init.push(self.wide(w, plan, part, d.args[3 + k])?.into());
        }
        init.push(number(0));
        let ends = w.for_loop(bounds, &init, |w, index, carried| {
            let mut part = ColumnPart { number: part.number, made: BTreeMap::new() };
            w.set(kernel.regions[self.region].params[0], index);
            own.iter().zip(carried).for_each(|(&k, &v)| w.set(params[k], v));
            part.made.extend(shared.iter().zip(&carried[own.len()..]).map(|(&k, &v)| (params[k], v)));
            let done = carried[own.len() + shared.len()];
            match first {
                true => self.first_step(w, (plan, handed), &mut part, done)?,
                false => self.other_step(w, (plan, handed), &mut part, done)?,
            }
            self.ring.give_back(w, done)?;
            let mut next = Vec::new();
            for &k in &own {
                next.push(w.get(yields[k])?);
            }
            for &k in &shared {
                next.push(self.wide(w, plan, &mut part, yields[k])?.into());
            }
            next.push(w.bin(Op::Add, done, number(1))?.into());
            Ok(next)
        })?;
        own.iter().zip(&ends).for_each(|(&k, &v)| w.set(d.results[k], v));
        part.made.extend(shared.iter().zip(&ends[own.len()..]).map(|(&k, &v)| (d.results[k], v)));
        Ok(())
    }

    /// A step of the first task.
    fn first_step(
        &self,
        w: &mut Writer<'_>,
        (plan, handed): (&ColumnTasks, &Handed),
        part: &mut ColumnPart,
        done: Value,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let slot = self.wait(w, done.into())?;
        self.see(w, slot, &self.plan.dots.iter().map(|d| d.0).collect::<Vec<Inst>>())?;
        let wide = |i: Inst| kernel.insts[i].results.iter().any(|v| plan.wide.contains(v));
        let order = step_order(kernel, self.region, &written_views(kernel), &|i| self.computed(i));
        // What the shared products need comes first, all else runs beside them.
        let wanted = plan.products.iter().flat_map(|&i| kernel.insts[i].args.iter().copied()).chain(plan.handed.iter().map(|h| h.0));
        let first = slice_by(kernel, wanted.collect(), &|i, take| needs(kernel, i, take));
        let beside = |i: Inst| !first.contains(&i) && kernel.insts[i].op.info().effects == Effects::Pure;
        let (mut over, mut later) = (false, Vec::new());
        for step in order {
            match step {
                StepPart::Begin(i) if plan.products.contains(&i) => {
                    if !std::mem::replace(&mut over, true) {
                        self.hand_over(w, (plan, handed), done)?;
                    }
                    let a = w.get(kernel.insts[i].args[0])?;
                    self.column_product(w, plan, part, (i, a))?;
                    std::mem::take(&mut later).into_iter().try_for_each(|i| self.compute(w, i))?;
                }
                StepPart::Begin(i) => {
                    let a = self.operand_a(w, i)?;
                    let accumulator = self.accumulator(w, kernel.insts[i].args[2])?;
                    let product = self.begin(w, i, done.into(), [a, accumulator])?;
                    w.set(kernel.insts[i].results[0], product);
                }
                StepPart::Wait(i, behind) => {
                    let result = kernel.insts[i].results[0];
                    match part.made.get(&result).copied() {
                        Some(v) => {
                            let v = w.make(Op::AsyncDotWait, &[v.into()], &[Attr::Count(behind)], None)?;
                            part.made.insert(result, v);
                        }
                        None => {
                            let v = w.get(result)?;
                            let v = w.make(Op::AsyncDotWait, &[v], &[Attr::Count(behind)], None)?;
                            w.set(result, v);
                        }
                    }
                }
                StepPart::Compute(i) if wide(i) => {}
                StepPart::Compute(i) if !over && beside(i) => later.push(i),
                StepPart::Compute(i) => self.compute(w, i)?,
                // Nothing reaches into the next step.
                StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => {}
            }
        }
        Ok(())
    }

    /// A step of another task.
    fn other_step(
        &self,
        w: &mut Writer<'_>,
        (plan, handed): (&ColumnTasks, &Handed),
        part: &mut ColumnPart,
        done: Value,
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let full = w.bin(Op::BarrierIndex, handed.full, number(0))?;
        w.act(Op::BarrierWait, &[full.into(), done.into()], &[]);
        for ((v, tile), &buffer) in plan.handed.iter().zip(&handed.buffers[0]) {
            if tile.is_none() {
                let rows = w.make(Op::LocalLoad, &[buffer.into()], &[], None)?;
                w.set(*v, rows);
            }
        }
        let accumulators: Vec<Value> = plan.products.iter().map(|&i| kernel.insts[i].args[2]).collect();
        for v in accumulators {
            self.wide(w, plan, part, v)?;
        }
        let slot = self.wait(w, done.into())?;
        self.see(w, slot, &plan.products)?;
        for &i in &plan.products {
            let a = kernel.insts[i].args[0];
            let at = plan.handed.iter().position(|h| h.0 == a).ok_or(Refusal::Written { value: a })?;
            self.column_product(w, plan, part, (i, handed.buffers[0][at].into()))?;
        }
        for (n, &i) in plan.products.iter().enumerate() {
            let result = kernel.insts[i].results[0];
            let v = part.made.get(&result).copied().ok_or(Refusal::Written { value: result })?;
            let behind = (plan.products.len() - 1 - n) as u32;
            let v = w.make(Op::AsyncDotWait, &[v.into()], &[Attr::Count(behind)], None)?;
            part.made.insert(result, v);
        }
        w.act(Op::TaskBarrier, &[], &[]);
        let empty = w.bin(Op::BarrierIndex, handed.empty, number(0))?;
        w.act(Op::BarrierArrive, &[empty.into()], &[]);
        Ok(())
    }

    /// Begins the product of a part of the columns, with its operand A.
    fn column_product(&self, w: &mut Writer<'_>, plan: &ColumnTasks, part: &mut ColumnPart, (i, a): (Inst, Arg)) -> Result<(), Refusal> {
        let d = &self.kernel.insts[i];
        let b = w.get(d.args[1])?;
        let ty = self.kernel.ty(d.args[1]);
        let (Some(shape), Some(extents)) = (ty.shape(), w.extents(b)) else { return Err(Refusal::Written { value: d.args[1] }) };
        let columns = shape.last().copied().unwrap_or(0) / plan.tasks;
        let mut of = extents.clone();
        let mut at = vec![0; extents.len()];
        if let (Some(n), Some(at)) = (of.last_mut(), at.last_mut()) {
            (*n, *at) = (columns, part.number * columns);
        }
        let seen = Type::Shared(SharedType::new(&of, ty.elem()));
        let b = w.make(Op::LocalSlice, &[b], &[Attr::Offsets(at.into_iter().collect())], Some(&seen))?;
        let accumulator = self.wide(w, plan, part, d.args[2])?;
        let product = w.make(Op::AsyncDot, &[a, b.into(), accumulator.into()], &d.attrs, None)?;
        part.made.insert(d.results[0], product);
        Ok(())
    }

    /// The first task hands over what it has made in a step.
    fn hand_over(&self, w: &mut Writer<'_>, (plan, handed): (&ColumnTasks, &Handed), done: Value) -> Result<(), Refusal> {
        // The phase before the one that is filled.
        let before = w.bin(Op::Add, done, number(1))?;
        let empty = w.bin(Op::BarrierIndex, handed.empty, number(0))?;
        w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
        for ((v, _), &buffer) in plan.handed.iter().zip(&handed.buffers[0]) {
            let tile = w.get(*v)?;
            w.act(Op::LocalStore, &[buffer.into(), tile], &[]);
        }
        if plan.handed.iter().any(|h: &(Value, Option<SwizzledTile>)| h.1.is_some()) {
            w.act(Op::FenceAsync, &[], &[]);
        }
        w.act(Op::TaskBarrier, &[], &[]);
        let full = w.bin(Op::BarrierIndex, handed.full, number(0))?;
        w.act(Op::BarrierArrive, &[full.into()], &[]);
        Ok(())
    }

    /// What is handed over behind the loop: the first task stores it, others load it.
    fn hand_over_behind(&self, w: &mut Writer<'_>, (plan, handed): (&ColumnTasks, &Handed), first: bool) -> Result<(), Refusal> {
        if plan.handed_behind.is_empty() {
            return Ok(());
        }
        let there = w.bin(Op::BarrierIndex, handed.behind, number(0))?;
        if !first {
            w.act(Op::BarrierWait, &[there.into(), number(0)], &[]);
        }
        for (&v, &buffer) in plan.handed_behind.iter().zip(&handed.buffers[1]) {
            if first {
                let tile = w.get(v)?;
                w.act(Op::LocalStore, &[buffer.into(), tile], &[]);
            } else {
                let tile = w.make(Op::LocalLoad, &[buffer.into()], &[], None)?;
                w.set(v, tile);
            }
        }
        if first {
            w.act(Op::TaskBarrier, &[], &[]);
            w.act(Op::BarrierArrive, &[there.into()], &[]);
        }
        Ok(())
    }

    /// A store of a part of the columns.
    fn store_columns(&self, w: &mut Writer<'_>, plan: &ColumnTasks, part: &mut ColumnPart, i: Inst) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let v = kernel.operand(i, "value")[0];
        let value = self.wide(w, plan, part, v)?;
        let columns = kernel.ty(v).shape().and_then(|s| s.last().copied()).unwrap_or(0) / plan.tasks;
        let mut args = vec![w.get(d.args[0])?];
        args.extend(self.all(w, kernel.operand(i, "indices"))?);
        if let Some(last) = args.last_mut().filter(|_| part.number > 0) {
            *last = match *last {
                Arg::Literal(Literal::Int(0), _) => number(part.number * columns),
                at => w.bin(Op::Add, at, number(part.number * columns))?.into(),
            };
        }
        args.push(value.into());
        w.act(Op::Store, &args, &d.attrs);
        Ok(())
    }

    /// A value of which the task has a part of the columns.
    fn wide(&self, w: &mut Writer<'_>, plan: &ColumnTasks, part: &mut ColumnPart, v: Value) -> Result<Value, Refusal> {
        if let Some(&made) = part.made.get(&v) {
            return Ok(made);
        }
        let kernel = self.kernel;
        let nothing = Refusal::Written { value: v };
        let (Some(i), true) = (kernel.def_inst(v), plan.wide.contains(&v)) else { return Err(nothing) };
        let d = &kernel.insts[i];
        let mut ty = kernel.ty(v).as_tile().cloned().ok_or(nothing)?;
        if let Some(n) = ty.shape.last_mut() {
            *n /= plan.tasks;
        }
        let mut args = Vec::new();
        for &a in &d.args {
            args.push(match plan.wide.contains(&a) {
                true => self.wide(w, plan, part, a)?.into(),
                false => w.get(a)?,
            });
        }
        let ty = Type::Tile(ty);
        let made = w.make(d.op, &args, &d.attrs, d.op.info().typed().then_some(&ty))?;
        part.made.insert(v, made);
        Ok(made)
    }
}
