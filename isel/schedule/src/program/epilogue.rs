//! The consumers at a grid position: what stands in front of the loop, the loop, and the epilogue with its bulk stores.
//!
//! ```text
//! store v, c[row, col]    ─►    for each part p of v's rows:    wait until the buffer is read    local_store p    fence    meet
//!                                                               async_store c[row + rows in front of p, col], buffer
//! ```
//!
//! Stores stand in choices, too: all warps of the task take the same arm.

use super::ping_pong::PingPong;
use super::schedule::{ProgramPlan, Staging};
use super::write::{Arg, Writer, number};
use super::{Refusal, late, overlap};
use crate::plan::{behind_reshapes, is_swizzle, needs, slice_by};
use tilelift_ir::{Attr, DotPart, Inst, LayoutSpec, Op, Region, Shape, Type, Value};

impl ProgramPlan<'_> {
    /// The consumers at a grid position; `ping_pong` if others take the next one.
    pub(super) fn consume(&self, w: &mut Writer<'_>, start: Arg, ping_pong: Option<PingPong>) -> Result<Arg, Refusal> {
        let mut done = start;
        self.epilogue(w, self.kernel.body, &mut done, ping_pong)?;
        Ok(done)
    }

    /// The instructions of a region. `done` counts the steps of the ring.
    fn epilogue(&self, w: &mut Writer<'_>, r: Region, done: &mut Arg, ping_pong: Option<PingPong>) -> Result<(), Refusal> {
        let kernel = self.kernel;
        for &i in &kernel.regions[r].insts {
            let d = &kernel.insts[i];
            if let Some(s) = self.of_loop(i) {
                *done = match (&s.plan.overlap, &s.plan.late) {
                    (Some(parts), _) => overlap::main(s, parts, w, *done)?,
                    (None, _) if s.plan.converts_ahead => s.converted(w, *done)?,
                    (None, Some(late)) => late::main(s, late, w, *done)?,
                    (None, None) if s.plan.mixed => s.mixed(w, *done)?,
                    (None, None) => s.main(w, *done, ping_pong)?,
                };
                if s.hand_sums_over(w)? {
                    return Ok(());
                }
            } else if let Some(group) = self.epilogue_group(i) {
                *done = if group.slices.is_empty() { self.read_behind(w, group, *done)? } else { self.store_cut(w, group, *done)? };
            } else if self.is_cut(i) {
                // It is done where it is stored.
            } else if self.plan.is_around(i) && d.op == Op::For {
                self.wait_brought_in_front(w, i)?;
                self.round(w, i, done)?;
            } else if let Some(staging) = self.staging.get(&i) {
                self.store(w, i, staging)?;
            } else if d.op == Op::If && (self.stores_in(i) || self.plan.is_around(i)) {
                self.arms(w, i, done)?;
            } else if is_swizzle(kernel, i) {
                // The buffer lies so.
                let v = w.get(d.args[0])?;
                w.set(d.results[0], v);
            } else if d.op != Op::Yield && !self.front.contains(&i) {
                w.copy(i)?;
            }
        }
        Ok(())
    }

    /// True if bulk stores stand in an instruction.
    fn stores_in(&self, i: Inst) -> bool {
        let mut found = false;
        self.kernel.insts[i].regions.iter().for_each(|&r| self.kernel.walk(r, &mut |j| found |= self.staging.contains_key(&j)));
        found
    }

    /// A choice with bulk stores in it, or around the loop.
    fn arms(&self, w: &mut Writer<'_>, i: Inst, done: &mut Arg) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let (around, start) = (self.plan.is_around(i), *done);
        let arm = |w: &mut Writer<'_>, r: Region| {
            let mut steps = start;
            self.epilogue(w, r, &mut steps, None)?;
            let mut given = self.all(w, kernel.yields(r))?;
            // Elsewhere no step is taken.
            given.extend(around.then_some(steps));
            Ok(given)
        };
        let condition = w.get(d.args[0])?;
        let ends = w.choice(condition, |w| arm(w, d.regions[0]), |w| arm(w, d.regions[1]))?;
        if around && let Some(&steps) = ends.last() {
            *done = steps;
        }
        d.results.iter().zip(ends).for_each(|(&v, to)| w.set(v, to));
        Ok(())
    }

    /// A loop around the loop.
    fn round(&self, w: &mut Writer<'_>, i: Inst, done: &mut Arg) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let params = &kernel.regions[d.regions[0]].params;
        let bounds = [w.get(d.args[0])?, w.get(d.args[1])?, w.get(d.args[2])?];
        let mut init = self.all(w, &d.args[3..])?;
        let held = init.len();
        init.push(*done);
        let ends = w.for_loop(bounds, &init, |w, index, carried| {
            w.set(params[0], index);
            params[1..].iter().zip(carried).for_each(|(&p, &v)| w.set(p, v));
            let mut steps: Arg = carried[held].into();
            self.epilogue(w, d.regions[0], &mut steps, None)?;
            let mut next = self.all(w, kernel.yields(d.regions[0]))?;
            next.push(steps);
            Ok(next)
        })?;
        d.results.iter().zip(&ends).for_each(|(&v, &end)| w.set(v, end));
        *done = ends[held].into();
        Ok(())
    }

    /// True for what is computed of the loops' results, and lies as they do.
    fn made_by_loops(&self, v: Value) -> bool {
        let made = slice_by(self.kernel, vec![v], &|i, take| {
            if self.of_loop(i).is_none() {
                needs(self.kernel, i, take);
            }
        });
        made.into_iter().any(|i| self.of_loop(i).is_some())
    }

    /// A store by bulk copies.
    fn store(&self, w: &mut Writer<'_>, i: Inst, staging: &Staging) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let v = kernel.operand(i, "value")[0];
        let mut whole = w.get(v)?;
        if self.required || !self.made_by_loops(v) {
            // Whatever layout it comes in: each consumer warpgroup stores its own rows of the matrix.
            let matrix = behind_reshapes(kernel, v);
            let layout = Attr::Layout(Box::new(LayoutSpec::Mma(DotPart::Acc)));
            let held = w.get(matrix)?;
            let free = w.make(Op::ReleaseLayout, &[held], &[], None)?;
            whole = w.make(Op::RequireLayout, &[free.into()], &[layout], None)?.into();
            if kernel.ty(matrix) != kernel.ty(v) {
                whole = w.make(Op::Reshape, &[whole], &[], Some(kernel.ty(v)))?.into();
            }
        }
        self.store_parts(w, i, staging, whole)
    }

    /// A buffer leaves to where a store stores it, along one dimension so far behind.
    pub(super) fn leave(&self, w: &mut Writer<'_>, i: Inst, buffer: Arg, (down, past): (usize, u32)) -> Result<(), Refusal> {
        let kernel = self.kernel;
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        let mut args = vec![w.get(kernel.insts[i].args[0])?];
        for (d, &at) in kernel.operand(i, "indices").iter().enumerate() {
            let at = w.get(at)?;
            args.push(if d == down && past > 0 { w.bin(Op::Add, at, number(past))?.into() } else { at });
        }
        args.push(buffer);
        w.act(Op::AsyncStore, &args, &[]);
        Ok(())
    }

    /// The same of a matrix that lies as the loops' results do.
    pub(super) fn store_parts(&self, w: &mut Writer<'_>, i: Inst, staging: &Staging, whole: Arg) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let (v, buffer) = (kernel.operand(i, "value")[0], staging.buffer);
        let Some(tile) = kernel.ty(v).as_tile() else { return Err(Refusal::Written { value: v }) };
        let (down, parts) = staging.parts;
        let rows = tile.shape[down] / parts;
        for part in 0..parts {
            let value = if parts == 1 {
                whole
            } else {
                let mut at: Shape = tile.shape.iter().map(|_| 0).collect();
                at[down] = part * rows;
                let mut ty = tile.clone();
                ty.shape[down] = rows;
                w.make(Op::Slice, &[whole], &[Attr::Offsets(at)], Some(&Type::Tile(ty)))?.into()
            };
            w.act(Op::AsyncStoreWait, &[], &[Attr::Count(0)]);
            w.act(Op::LocalStore, &[buffer.into(), value], &[]);
            self.leave(w, i, buffer.into(), (down, part * rows))?;
        }
        Ok(())
    }
}
