//! Tiles that stand behind the loop and come through the ring, in steps of their own behind those of the loop.
//!
//! ```text
//! producer    … the loop's last copies ─ a step: wait empty ─ expect the bytes ─ begin the copies of its boxes ─ the next position's copies …
//! consumers   … the loop ─ a step: wait full ─ read its boxes ─ give the slot back ─ … ─ the tile is the boxes side by side
//! ```

use super::Refusal;
use super::schedule::Schedule;
use super::write::{Arg, Writer, number};
use crate::plan::{EpilogueOperand, Place, SwizzledTile};
use tilelift_ir::{Attr, Inst, Op, SharedType, Type, Value};

impl Schedule<'_> {
    /// What a load is, if the ring brings it behind the loop.
    pub(super) fn epilogue_operand(&self, i: Inst) -> Option<&EpilogueOperand> {
        self.plan.epilogue.iter().find(|e| e.load == i)
    }

    /// Steps of the ring behind those of the loop.
    pub(super) fn steps_behind(&self) -> u32 {
        self.plan.epilogue.iter().map(EpilogueOperand::steps).sum()
    }

    /// The producer's copies of a tile; gives the number of the step behind.
    pub(super) fn bring_behind(&self, w: &mut Writer<'_>, e: &EpilogueOperand, start: Arg) -> Result<Arg, Refusal> {
        let kernel = self.kernel;
        let view = w.get(kernel.insts[e.load].args[0])?;
        let at = self.all(w, kernel.operand(e.load, "indices"))?;
        let &[row, column] = &at[..] else { return Err(Refusal::Written { value: kernel.insts[e.load].results[0] }) };
        let mut done = start;
        for step in 0..e.steps() {
            let [slot, round] = self.ring.slot_and_round(w, done)?;
            let empty = w.bin(Op::BarrierIndex, self.ring.empty, slot)?;
            let before = w.bin(Op::Add, round, number(1))?;
            w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
            let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
            let bytes = e.boxes(step).count() as u32 * e.tile.box_bytes();
            w.act(Op::BarrierExpect, &[full.into()], &[Attr::Count(bytes)]);
            for (n, place) in e.boxes(step) {
                let buffer = self.place(w, e, slot, place)?;
                let first = if n == 0 { column } else { w.bin(Op::Add, column, number(n * e.tile.per))?.into() };
                w.act(Op::AsyncLoad, &[view, row, first, buffer.into(), full.into()], &[]);
            }
            done = w.bin(Op::Add, done, number(1))?.into();
        }
        Ok(done)
    }

    /// The consumers read a tile; gives the number of the step behind.
    pub(super) fn read_behind(&self, w: &mut Writer<'_>, e: &EpilogueOperand, start: Arg) -> Result<Arg, Refusal> {
        let (mut done, mut parts) = (start, Vec::new());
        for step in 0..e.steps() {
            let [slot, round] = self.ring.slot_and_round(w, done)?;
            self.ring.wait_full(w, slot.into(), round.into())?;
            for (_, place) in e.boxes(step) {
                let buffer = self.place(w, e, slot, place)?;
                parts.push(w.make(Op::LocalLoad, &[buffer.into()], &[], None)?);
            }
            self.ring.give_back(w, done)?;
            done = w.bin(Op::Add, done, number(1))?.into();
        }
        // Neighbours of one width side by side, again and again: so extents stay powers of two.
        while parts.len() > 1 {
            let join = |w: &mut Writer<'_>, pair: &[Value]| match *pair {
                [left, right] => w.make(Op::Concat, &[left.into(), right.into()], &[Attr::Dim(1)], None),
                _ => Ok(pair[0]),
            };
            parts = parts.chunks(2).map(|pair| join(w, pair)).collect::<Result<Vec<Value>, Refusal>>()?;
        }
        let v = self.kernel.insts[e.load].results[0];
        w.set(v, *parts.first().ok_or(Refusal::Written { value: v })?);
        Ok(done)
    }

    /// The place of a box in a slot.
    fn place(&self, w: &mut Writer<'_>, e: &EpilogueOperand, slot: Value, place: Place) -> Result<Value, Refusal> {
        let area: &SwizzledTile = &self.plan.loads[place.load].1;
        let mut buffer = w.bin(Op::LocalIndex, self.slots[place.load], slot)?;
        let [rows, per] = e.shape();
        if area.held() != e.tile.elem {
            let seen = Type::Shared(SharedType::new(&[area.rows, per], e.tile.elem));
            buffer = w.make(Op::LocalReinterpret, &[buffer.into()], &[], Some(&seen))?;
        }
        if area.rows == rows {
            return Ok(buffer);
        }
        let part = Type::Shared(SharedType::new(&[rows, per], e.tile.elem));
        w.make(Op::LocalSlice, &[buffer.into()], &[Attr::Offsets([place.row, 0].into_iter().collect())], Some(&part))
    }
}
