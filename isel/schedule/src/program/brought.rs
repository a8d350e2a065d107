//! Operands that are the same in every step, where registers don't hold them: the producer brings them once, and products read them from shared
//! memory.
//!
//! ```text
//! producer    expect their bytes ─ begin the copies ─ the steps
//! consumers   wait for them ─ the steps
//! ```
//!
//! Of nested loops both stand in front of the outermost one.

use super::Refusal;
use super::schedule::{Brought, ProgramPlan, buffer_type};
use super::write::{Arg, Writer, number};
use std::collections::BTreeSet;
use tilelift_ir::{Attr, Inst, Op, Type, Value};

impl ProgramPlan<'_> {
    /// Allocates buffers and mbarriers of what is brought, for all loops.
    pub(super) fn bring(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        for s in self.before.iter_mut() {
            s.bring(w)?;
        }
        if self.plan.brought.is_empty() {
            return Ok(());
        }
        let mut buffers = Vec::new();
        for b in &self.plan.brought {
            buffers.push(w.buffer(&buffer_type(&b.tile.shape, &b.tile), &b.tile)?);
        }
        let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&Type::Barrier(1)))?;
        self.brought = Some(Brought { buffers, full });
        Ok(())
    }

    /// The producer's copies.
    pub(super) fn bring_operands(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let Some(brought) = &self.brought else { return Ok(()) };
        let full = w.bin(Op::BarrierIndex, brought.full, number(0))?;
        let bytes = self.plan.brought.iter().map(|b| b.tile.bytes()).sum();
        w.act(Op::BarrierExpect, &[full.into()], &[Attr::Count(bytes)]);
        for (b, &buffer) in self.plan.brought.iter().zip(&brought.buffers) {
            let mut args = vec![w.get(self.kernel.insts[b.load].args[0])?];
            args.extend(self.all(w, self.kernel.operand(b.load, "indices"))?);
            args.extend([Arg::from(buffer), full.into()]);
            w.act(Op::AsyncLoad, &args, &[]);
        }
        Ok(())
    }

    /// The consumers wait until all is there, at the loop of the steps; where a loop stands around that, they have waited in front of it.
    pub(super) fn wait_brought(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        if self.goes_round(self.plan.main) { self.wait_brought_once(w) } else { Ok(()) }
    }

    /// The same in front of a loop around the steps.
    pub(super) fn wait_brought_in_front(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        self.before.iter().chain([self]).filter(|s| s.goes_round(i)).try_for_each(|s| s.wait_brought_once(w))
    }

    /// True for the outermost loop around the steps, or their own: what is brought is brought in front of it.
    pub(super) fn goes_round(&self, i: Inst) -> bool {
        let first = self.plan.around.iter().copied().find(|&j| self.kernel.insts[j].op == Op::For);
        first.unwrap_or(self.plan.main) == i
    }

    fn wait_brought_once(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        let Some(brought) = &self.brought else { return Ok(()) };
        let full = w.bin(Op::BarrierIndex, brought.full, number(0))?;
        w.act(Op::BarrierWait, &[full.into(), number(0)], &[]);
        Ok(())
    }

    /// An operand as it was brought; `None` if it was not.
    pub(super) fn brought(&self, w: &mut Writer<'_>, v: Value) -> Result<Option<Arg>, Refusal> {
        let Some(n) = self.plan.brought.iter().position(|b| b.value == v) else { return Ok(None) };
        let buffer = self.brought.as_ref().and_then(|b| b.buffers.get(n)).ok_or(Refusal::Written { value: v })?;
        self.seen_as(w, (self.plan.brought[n].load, *buffer), v).map(Some)
    }

    /// A value as another view of the buffer that a load fills. What these values are in registers stays as it is.
    fn seen_as(&self, w: &mut Writer<'_>, (load, buffer): (Inst, Value), v: Value) -> Result<Arg, Refusal> {
        let i = self.kernel.def_inst(v).ok_or(Refusal::Written { value: v })?;
        if i == load {
            return Ok(buffer.into());
        }
        let of = self.kernel.insts[i].args[0];
        let from = self.seen_as(w, (load, buffer), of)?;
        let before = [w.swap(of, Some(from)), w.swap(v, None)];
        self.look(w, i)?;
        let seen = w.get(v)?;
        let [old_of, old] = before;
        w.swap(of, old_of);
        w.swap(v, old);
        Ok(seen)
    }

    /// Loads, and other views of what they bring, that nobody looks at but products which find it brought.
    pub(super) fn brought_only(&self) -> BTreeSet<Inst> {
        let kernel = self.kernel;
        let mut out = BTreeSet::new();
        for s in self.before.iter().chain([self]) {
            for b in &s.plan.brought {
                let mut v = b.value;
                // From the operand to the load: what one of them has of users but those is looked at.
                while let Some(i) = kernel.def_inst(v) {
                    let mut others = false;
                    kernel.walk(kernel.body, &mut |j| {
                        let product = s.plan.dots.iter().any(|d| d.0 == j) && v == b.value;
                        let uses = kernel.insts[j].args.iter().enumerate().any(|(n, a)| *a == v && !(product && n < 2));
                        others |= uses && !out.contains(&j);
                    });
                    if others {
                        break;
                    }
                    out.insert(i);
                    if i == b.load {
                        break;
                    }
                    v = kernel.insts[i].args[0];
                }
            }
        }
        out
    }
}
