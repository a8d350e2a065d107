//! Operands B that lie along their columns, where the instruction wants them along their rows (elements of 8 and of 32 bits): a task between producer
//! and consumers transposes them, through registers, from the ring of the copies to a ring of its own.
//!
//! ```text
//! transposer      wait full ─ wait until its own slot is empty ─ load, transpose, store, fence ─ arrive transposed full ─ arrive empty
//! consumers   a product of such an operand waits for its slot, too; what is given back is both
//! ```

use super::Refusal;
use super::schedule::{ProgramPlan, Transposed, buffer_type};
use super::write::{Arg, Writer, number};
use crate::plan::{Specialised, TRANSPOSED_SLOTS};
use tilelift_ir::{Attr, Inst, LayoutSpec, Op, Shape, TileType, Type, Value};

/// Bytes of a word.
const WORD: u32 = 4;

/// Columns of an accumulator, and of an operand A of 8-bit elements, of which a lane holds four.
const GROUP: u32 = 16;

/// Two dimensions, exchanged.
fn exchanged() -> Attr {
    Attr::Perm([1, 0].into_iter().collect())
}

impl ProgramPlan<'_> {
    /// Allocates the ring, which all loops share: a step of any of them fills a slot of it, with the same tiles.
    pub(super) fn alloc_transposed(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        if self.plan.transposed_b.is_empty() {
            return Ok(());
        }
        let depth = TRANSPOSED_SLOTS;
        let mut slots = Vec::new();
        for (_, t) in &self.plan.transposed_b {
            let shape: Vec<u32> = [depth].iter().chain(&t.shape).copied().collect();
            slots.push(w.buffer(&buffer_type(&shape, t), t)?);
        }
        let mbarriers = Type::Barrier(depth);
        let full = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&mbarriers))?;
        let empty = w.make(Op::BarrierAlloc, &[], &[Attr::Count(1)], Some(&mbarriers))?;
        let of = |plan: &Specialised| {
            let slots = plan.transposed_b.iter().zip(&slots).map(|((i, _), &v)| (*i, v)).collect();
            Some(Transposed { slots, full, empty, depth })
        };
        self.before.iter_mut().for_each(|s| s.transposed = of(s.plan));
        self.transposed = of(self.plan);
        Ok(())
    }

    /// The steps of the task that transposes; gives the number of the step behind.
    pub(super) fn transpose_steps(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let Some(transposed) = &self.transposed else { return Ok(start) };
        let ends = self.steps(w, &[start], |w, _, carried| {
            let step: Arg = carried[0].into();
            let slot = self.wait(w, step)?;
            let [own, before] = transposed.slot_and_round(w, step)?;
            let empty = w.bin(Op::BarrierIndex, transposed.empty, own)?;
            let phase = w.bin(Op::Add, before, number(1))?;
            w.act(Op::BarrierWait, &[empty.into(), phase.into()], &[]);
            self.see(w, slot, &transposed.slots.iter().map(|s| s.0).collect::<Vec<Inst>>())?;
            for &(i, slots) in &transposed.slots {
                let b = w.get(self.kernel.insts[i].args[1])?;
                let mut tile = w.make(Op::LocalLoad, &[b], &[], None)?;
                if let Some(spread) = self.diagonal(i) {
                    tile = w.make(Op::RequireLayout, &[tile.into()], &[Attr::Layout(Box::new(spread))], None)?;
                }
                if self.regrouped(i) {
                    tile = self.regroup(w, tile.into(), 0)?;
                }
                let tile = w.make(Op::Transpose, &[tile.into()], &[exchanged()], None)?;
                let buffer = w.bin(Op::LocalIndex, slots, own)?;
                w.act(Op::LocalStore, &[buffer.into(), tile.into()], &[]);
            }
            w.act(Op::FenceAsync, &[], &[]);
            let full = w.bin(Op::BarrierIndex, transposed.full, own)?;
            w.act(Op::BarrierArrive, &[full.into()], &[]);
            self.ring.give_back(w, carried[0])?;
            Ok(vec![w.bin(Op::Add, carried[0], number(1))?.into()])
        })?;
        Ok(ends[0].into())
    }

    /// How the lanes of a warpgroup hold an operand that they transpose: of bytes each four words of four, which are words again when they are
    /// transposed, along the diagonal of the words, so that no two lanes meet in a bank, neither where they load nor where they store.
    ///
    /// ```text
    /// lane l   word l of row block l ^ r      rows 4·(l ^ r) + 0, 1, 2, 3 (of words: row l ^ r); r counts registers and warps
    /// ```
    fn diagonal(&self, i: Inst) -> Option<LayoutSpec> {
        let t = self.kernel.ty(self.kernel.insts[i].args[1]).as_tile()?;
        // Elements of a word.
        let per = WORD / t.elem.bytes();
        // The rows in the order in which they are stored.
        let row = |n: u32| match n {
            1..4 if self.regrouped(i) => [8, 2, 4][n as usize - 1],
            n => 1 << n,
        };
        let ([rows, columns], lanes, warps) = ([t.shape[0], t.shape[1]], 5, self.units?.group_warps.ilog2());
        let words = |extent: u32| (extent.is_power_of_two() && extent >= per).then(|| (extent / per).ilog2());
        let [down, across] = [words(rows)?, words(columns)?];
        let at = |k: u32, n: u32| -> Shape { [k, n].into_iter().collect() };
        let block = |n: u32| if n < down { row(n + per.ilog2()) } else { 0 };
        let word = |n: u32| if n < across { per << n } else { 0 };
        let lane: Vec<Shape> = (0..lanes).map(|n| at(block(n), word(n))).collect();
        // Blocks of rows that the diagonal leaves, and words beyond the lanes', are registers' and warps'; lanes without words have rows of their own.
        let mut rest: Vec<Shape> = (0..down).filter(|&n| n < across || n >= lanes).map(|n| at(block(n), 0)).collect();
        rest.extend((lanes..across).map(|n| at(0, per << n)));
        let own = (rest.len() as u32).checked_sub(warps)? as usize;
        let inside = per.ilog2();
        let of_word = (0..inside).map(|n| at(0, 1 << n)).chain((0..inside).map(|n| at(row(n), 0)));
        let registers = of_word.chain(rest[..own].iter().cloned()).collect();
        Some(LayoutSpec::Linear { registers, lanes: lane, warps: rest[own..].to_vec() })
    }

    /// True for a product whose operand A lanes have just computed: they hold its columns as they hold those of an accumulator. Multiplied in that order,
    /// by rows of operand B in the same order, it is an operand A of 8-bit elements as it is.
    ///
    /// ```text
    /// a lane holds, of 16 columns:   accumulator 2t, 2t+1, 2t+8, 2t+9      operand A 4t, 4t+1, 4t+2, 4t+3
    /// ```
    pub(super) fn regrouped(&self, i: Inst) -> bool {
        let kernel = self.kernel;
        let a = kernel.insts[i].args[0];
        let here = kernel.def_inst(a).filter(|j| kernel.regions[self.region].insts.contains(j));
        let depth = kernel.ty(a).as_tile().map_or(0, |t| t.shape[1]);
        let in_memory = self.plan.staged.iter().any(|s| s.uses.iter().any(|u| (u.product, u.operand) == (i, 0)));
        here.is_some_and(|j| self.computed(j))
            && !in_memory
            && kernel.ty(a).elem().bytes() == 1
            && depth.is_multiple_of(GROUP)
            && self.transposed.as_ref().is_some_and(|t| t.slot_of(i).is_some())
    }

    /// A matrix whose columns (1) or rows (0) are in the order in which lanes hold those of an accumulator.
    pub(super) fn regroup(&self, w: &mut Writer<'_>, matrix: Arg, along: usize) -> Result<Value, Refusal> {
        let Some(ty) = w.tile(matrix) else { return Err(Refusal::Typed { op: Op::Reshape }) };
        let split = |k: usize, e: u32| if k == along { vec![e / GROUP, 2, 4, 2] } else { vec![e] };
        let shape: Shape = ty.shape.iter().enumerate().flat_map(|(k, &e)| split(k, e)).collect();
        let mut order: Shape = (0..shape.len() as u32).collect();
        order.swap(along + 1, along + 2);
        let parts = w.make(Op::Reshape, &[matrix], &[], Some(&Type::Tile(TileType { shape, elem: ty.elem })))?;
        let parts = w.make(Op::Transpose, &[parts.into()], &[Attr::Perm(order)], None)?;
        w.make(Op::Reshape, &[parts.into()], &[], Some(&Type::Tile(ty)))
    }

    /// Operand B of a product in a step: as the ring of the copies has it, or as it was transposed.
    pub(super) fn operand_b(&self, w: &mut Writer<'_>, i: Inst, step: Arg) -> Result<Arg, Refusal> {
        let transposed = self.transposed.as_ref().and_then(|t| Some((t, t.slot_of(i)?)));
        let Some((transposed, slots)) = transposed else {
            let b = self.kernel.insts[i].args[1];
            if let Some(brought) = self.brought(w, b)? {
                return Ok(brought);
            }
            return match self.staged(w, i, 1, Some(step))? {
                Some(stored) => Ok(stored),
                None => w.get(b),
            };
        };
        let [slot, times] = transposed.slot_and_round(w, step)?;
        let full = w.bin(Op::BarrierIndex, transposed.full, slot)?;
        w.act(Op::BarrierWait, &[full.into(), times], &[]);
        let buffer = w.bin(Op::LocalIndex, slots, slot)?;
        Ok(w.make(Op::LocalTranspose, &[buffer.into()], &[exchanged()], None)?.into())
    }

    /// Gives back what products of a step have read.
    pub(super) fn release(&self, w: &mut Writer<'_>, step: impl Into<Arg>) -> Result<(), Refusal> {
        let step = step.into();
        self.ring.give_back(w, step)?;
        let Some(transposed) = &self.transposed else { return Ok(()) };
        let [slot, _] = transposed.slot_and_round(w, step)?;
        let empty = w.bin(Op::BarrierIndex, transposed.empty, slot)?;
        w.act(Op::BarrierArrive, &[empty.into()], &[]);
        Ok(())
    }
}
