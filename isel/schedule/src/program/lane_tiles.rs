//! Tiles of the ring that lanes read: see [`crate::plan`]'s `lane_tiles`.

use super::Refusal;
use super::schedule::ProgramPlan;
use super::slots::Slots;
use super::write::{Arg, Writer};
use tilelift_ir::{Inst, Op, Value};

impl ProgramPlan<'_> {
    /// Allocates the slots, for all loops.
    pub(super) fn alloc_lane_tiles(&mut self, w: &mut Writer<'_>, slots: &mut Slots) -> Result<(), Refusal> {
        for s in self.before.iter_mut() {
            s.alloc_lane_tiles(w, slots)?;
        }
        self.lane_tiles = slots.of(w, self.ring.depth, self.plan.lane_tiles.iter().map(|t| (&t.1, false)))?;
        Ok(())
    }

    /// The loads that copies of the ring do, with their slots: operands, then tiles that lanes read.
    pub(super) fn copied(&self) -> impl Iterator<Item = (Inst, u32, Value)> {
        let operands = self.plan.loads.iter().zip(&self.slots);
        let tiles = self.plan.lane_tiles.iter().zip(&self.lane_tiles);
        operands.chain(tiles).map(|((load, tile), &slots)| (*load, tile.bytes(), slots))
    }

    /// Names the tiles of a slot.
    pub(super) fn see_lane_tiles(&self, w: &mut Writer<'_>, slot: Arg) -> Result<(), Refusal> {
        for (&(i, _), &slots) in self.plan.lane_tiles.iter().zip(&self.lane_tiles) {
            let buffer = w.bin(Op::LocalIndex, slots, slot)?;
            w.set(self.kernel.insts[i].results[0], buffer);
        }
        Ok(())
    }

    /// Reads such a tile from its slot; false for another instruction.
    pub(super) fn read_lane_tile(&self, w: &mut Writer<'_>, i: Inst) -> Result<bool, Refusal> {
        if self.plan.lane_tiles.iter().all(|l| l.0 != i) {
            return Ok(false);
        }
        let v = self.kernel.insts[i].results[0];
        let buffer = w.get(v)?;
        let mut tile = w.make(Op::LocalLoad, &[buffer], &[], None)?;
        let ty = self.kernel.ty(v);
        if ty.elem().is_packed() {
            tile = w.make(Op::Bitcast, &[tile.into()], &[], Some(ty))?;
        }
        if let Some(&mask) = self.kernel.operand(i, "mask").first() {
            let (mask, zeros) = (w.get(mask)?, self.zero(w, v)?);
            tile = w.make(Op::Select, &[mask, tile.into(), zeros.into()], &[], None)?;
        }
        w.set(v, tile);
        Ok(true)
    }

    /// True for a tile that lanes read as the ring has brought it, before anything else of the step is computed: vectors are read where they are wanted.
    pub(super) fn reads_first(&self, i: Inst) -> bool {
        self.plan.lane_tiles.iter().any(|l| l.0 == i) && self.kernel.operand(i, "mask").is_empty() && !self.brings_vector(i)
    }
}
