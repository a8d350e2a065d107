//! Staging: tiles that only dots read go from global to shared memory, asynchronously where the target can, and in a pipeline of
//! several stages inside a loop.
//!
//! ```text
//! ring of S slots, one per stage; iteration i computes from slot i mod S while the copies for i+1 … i+S-1 are in flight
//!   front:  copy 0 … copy S-2, a group each
//!   body:   wait until at most S-2 groups are pending ─ barrier ─ compute from slot i mod S, and early in it: copy i+S-1 into slot (i-1) mod S
//!   behind: wait for all
//! ```
//!
//! The barrier shows the arrived slot to all warps, and proves that all have done with the slot that the next copy overwrites.
//! Copies past the end of the loop read only what the view's bounds allow and are never looked at.

use super::shared::SharedPoints;
use super::vectors::to_words;
use super::{Lower, Tile, ValueLocation};
use crate::lane::{AllocId, LVal, LaneBuilder};
use crate::layout::legal_width;
use crate::layout::search::staging;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, SharedMap, SharedOp, coalesced, operand_swizzle, vectors_without};
use tilelift_ir::{CmpOp, Effects, Inst, Op, Scalar, Type, Value};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::reason::{Location, OfScalar, Unsupported};

/// A tile in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    /// Where each element lies, in elements from the base.
    pub map: SharedMap,
    /// Byte address of the map's start.
    pub base: LVal,
    /// The memory it lies in.
    pub alloc: AllocId,
}

impl Staged {
    /// The same memory seen as the transposed tile.
    pub fn transpose(&self, perm: &[usize]) -> Result<Staged, LowerError> {
        Ok(Staged { map: self.map.transpose(perm)?, ..self.clone() })
    }

    /// The same memory seen with other extents.
    pub fn reshape(&self, shape: &[u32]) -> Result<Staged, LowerError> {
        Ok(Staged { map: self.map.reshape(shape)?, ..self.clone() })
    }
}

/// A load on its way to shared memory: how its lanes copy it.
struct Plan {
    inst: Inst,
    map: SharedMap,
    layout: Rc<Layout>,
    columns: AccessColumns,
    groups: Vec<Vec<u32>>,
    /// Bytes of one copy; `None` if it has to go through registers.
    copy: Option<u32>,
}

/// The copies that an iteration has to start. They wait until its first operands are fetched: in front of these they would only
/// keep the matrix unit idle.
pub(super) struct Refill {
    ring: Rc<Ring>,
    /// Where each load of the ring reads then. Known early: once the body is lowered, its values are those of this iteration.
    indices: Vec<Vec<LVal>>,
    /// Slot that they fill.
    slot: LVal,
    /// The block of the iteration; nested blocks may not run.
    block: u32,
}

/// The pipeline of a loop.
pub(super) struct Ring {
    plans: Vec<(Plan, AllocId, u32)>,
    iv: Value,
    step: LVal,
    stages: u32,
    /// First values of the carried slot numbers: the one to read, the one to fill.
    pub start: [LVal; 2],
}

impl Lower<'_> {
    fn plan_stage(&self, i: Inst) -> Result<Plan, LowerError> {
        let access = GlobalAccess::of(self.kernel, i);
        let elem = access.view.elem;
        let bytes = elem.bytes();
        let Type::Tile(t) = self.kernel.ty(self.kernel.insts[i].results[0]) else {
            return Err(OfScalar::Load.into());
        };
        let order = access.order();
        let vec = legal_width(access.vector_elements(self.target.vector_bytes), elem);
        let layout = coalesced(&t.shape, bytes, &order, vec, self.target.lanes, self.plan.warps)?;
        let found = self.assigned.forms[i].first().and_then(|f| f.results.first()?.as_ref());
        let map = if let Some(l) = found {
            SharedMap::from_layout((**l).clone())?
        } else if self.assigned.searched {
            let readers = staging::readers(self.kernel, self.target, &self.assigned, self.kernel.insts[i].results[0]);
            staging::choose(&t.shape, bytes, order[0], Some((&layout, vec * bytes)), &readers, self.target)?.0
        } else {
            operand_swizzle(&t.shape, bytes, order[0])?
        };
        // A vector must be one in both memories.
        let global = AccessColumns::global(&layout, &order)?;
        let width = vectors_without(&global, bytes, vec * bytes, 0).width;
        let columns = map.columns_from(&layout)?;
        let shared = vectors_without(&columns, bytes, width * bytes, 0);
        let copies = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp);
        let size = shared.width * bytes;
        let copy = (copies == 0 && self.target.copy_async.contains(&size)).then_some(size);
        Ok(Plan { inst: i, map, columns: columns.scaled(bytes)?, layout: Rc::new(layout), groups: shared.groups, copy })
    }

    /// Starts the copies of a load into a slot.
    fn copy_tile(&mut self, b: &mut LaneBuilder, p: &Plan, indices: &[LVal], alloc: AllocId, base: LVal) -> Result<(), LowerError> {
        let access = GlobalAccess::of(self.kernel, p.inst);
        self.order_access(b, access.view_value, false, &p.layout, indices);
        let target = SharedPoints::new(b, &p.columns, base);
        let (columns, size) = (AccessColumns::global(&p.layout, &access.order())?, access.view.elem.bytes());
        let points = self.points(b, access, indices, &p.layout)?;
        let bytes = p.copy.unwrap_or(0);
        for group in &p.groups {
            let (global, global_offset, guard) = self.point(b, &points, &p.layout, group[0]);
            let shared = target.at(b, group[0]);
            b.meter.global(&columns, size, bytes / size, self.plan.warps);
            b.meter.shared(&p.columns, bytes, SharedOp::Store, 0, self.plan.warps);
            b.copy_async(alloc, shared, (global, global_offset), bytes, guard);
        }
        Ok(())
    }

    /// Brings a load to shared memory now.
    pub(super) fn stage(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<Staged, LowerError> {
        let p = self.plan_stage(i)?;
        let access = GlobalAccess::of(self.kernel, i);
        let elem = access.view.elem;
        let alloc = self.alloc(b, u64::from(p.map.elements()) * u64::from(elem.bytes()), "operand")?;
        let base = b.shared_addr(alloc);
        let indices = self.index_values(&access.indices)?;
        if p.copy.is_some() {
            b.before_shared_writes();
            self.copy_tile(b, &p, &indices, alloc, base)?;
            b.commit_copies();
            b.wait_copies(0);
        } else {
            let cache = self.cache_hint(p.inst);
            let regs = self.load_regs(b, access, &indices, &p.layout, (None, None), cache)?;
            b.before_shared_writes();
            let staged = Staged { map: p.map, base, alloc };
            put(b, &staged, &p.layout, &p.columns, &p.groups, &regs, elem);
            return Ok(staged);
        }
        Ok(Staged { map: p.map, base, alloc })
    }

    /// Writes a tile that is in registers to shared memory, for a dot.
    pub(super) fn stage_tile(&mut self, b: &mut LaneBuilder, tile: &Tile, elem: Scalar, reader: &Rc<Layout>) -> Result<Staged, LowerError> {
        let bytes = elem.bytes();
        let shape = tile.layout.shape();
        let last = shape.len() - 1;
        let map = if self.assigned.searched {
            let readers = [staging::Reader::of(reader, false)];
            staging::choose(shape, bytes, last, Some((&tile.layout, self.target.vector_bytes)), &readers, self.target)?.0
        } else {
            operand_swizzle(shape, bytes, last)?
        };
        let alloc = self.alloc(b, u64::from(map.elements()) * u64::from(bytes), "operand")?;
        let base = b.shared_addr(alloc);
        let columns = map.columns_from(&tile.layout)?;
        let groups = vectors_without(&columns, bytes, self.target.vector_bytes, tile.layout.free_mask(Axis::Reg)).groups;
        let staged = Staged { map, base, alloc };
        b.before_shared_writes();
        put(b, &staged, &tile.layout, &columns.scaled(bytes)?, &groups, &tile.regs, elem);
        Ok(staged)
    }

    /// True if the loop body, regions included, only reads global memory.
    fn body_only_reads(&self, i: Inst) -> bool {
        let mut ok = true;
        for &r in &self.kernel.insts[i].regions {
            self.kernel.walk(r, &mut |j| ok &= self.kernel.insts[j].op.info().effects != Effects::Writes);
        }
        ok
    }

    /// Makes the ring of a loop and starts its first copies. `None` if the loop has nothing to pipeline.
    pub(super) fn open_pipeline(&mut self, b: &mut LaneBuilder, i: Inst, bounds: [LVal; 3]) -> Result<Option<Ring>, LowerError> {
        let stages = self.plan.stages;
        let kernel = self.kernel;
        let region = kernel.insts[i].regions[0];
        let iv = kernel.regions[region].params[0];
        if stages < 2 || self.target.copy_async.is_empty() || !self.body_only_reads(i) {
            return Ok(None);
        }
        let mut plans = Vec::new();
        let mut seen = HashSet::new();
        for &j in &kernel.regions[region].insts {
            if !self.staged[j] {
                continue;
            }
            let p = self.plan_stage(j)?;
            let known = GlobalAccess::of(kernel, j).indices.iter().all(|&v| self.follows(v, iv, &mut seen));
            if p.copy.is_some() && known {
                let elem = kernel.ty(kernel.insts[j].results[0]).elem();
                let slot = p.map.elements().saturating_mul(elem.bytes()).min(1 << 30).next_multiple_of(128);
                plans.push((p, slot));
            }
        }
        if plans.is_empty() {
            return Ok(None);
        }
        let plans = plans
            .into_iter()
            .map(|(p, slot)| Ok((p, self.alloc(b, u64::from(slot) * u64::from(stages), "pipeline")?, slot)))
            .collect::<Result<Vec<(Plan, AllocId, u32)>, LowerError>>()?;
        let ring = Ring { iv, step: bounds[2], stages, start: [b.i32(0), b.i32(i64::from(stages - 1))], plans };
        b.before_shared_writes();
        let mut at = bounds[0];
        for s in 0..stages - 1 {
            let slot = b.i32(i64::from(s));
            let indices = self.ring_indices(b, &ring, at)?;
            self.fill(b, &ring, &indices, slot)?;
            at = b.add(at, ring.step);
        }
        Ok(Some(ring))
    }

    /// Where each load of the ring reads at loop index `at`. In front of the loop's body, which must have no values yet.
    fn ring_indices(&mut self, b: &mut LaneBuilder, ring: &Ring, at: LVal) -> Result<Vec<Vec<LVal>>, LowerError> {
        let mut known = HashMap::from([(ring.iv, at)]);
        let mut all = Vec::with_capacity(ring.plans.len());
        for (p, ..) in &ring.plans {
            let access = GlobalAccess::of(self.kernel, p.inst);
            all.push(access.indices.iter().map(|&v| self.shifted(b, v, &mut known)).collect::<Result<Vec<LVal>, _>>()?);
        }
        Ok(all)
    }

    /// Starts the copies of the ring's loads at these indices into slot number `slot`, as one group.
    fn fill(&mut self, b: &mut LaneBuilder, ring: &Ring, indices: &[Vec<LVal>], slot: LVal) -> Result<(), LowerError> {
        for ((p, alloc, bytes), indices) in ring.plans.iter().zip(indices) {
            let base = slot_base(b, *alloc, slot, *bytes);
            self.copy_tile(b, p, indices, *alloc, base)?;
        }
        b.commit_copies();
        Ok(())
    }

    /// Starts the copies that wait, if this is the block of their iteration.
    pub(super) fn refill(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        self.late_copies(b)?;
        match self.refill.take() {
            Some(r) if r.block == b.block() => self.fill(b, &r.ring, &r.indices, r.slot),
            other => {
                self.refill = other;
                Ok(())
            }
        }
    }

    /// The start of an iteration: waits for its slot, leaves the copies of a later one to [`Self::refill`]; returns the next slot numbers.
    pub(super) fn turn_pipeline(
        &mut self,
        b: &mut LaneBuilder,
        ring: &Rc<Ring>,
        iv: LVal,
        slots: &[LVal],
    ) -> Result<Vec<LVal>, LowerError> {
        let (read, fill) = (slots[0], slots[1]);
        b.wait_copies(ring.stages - 2);
        b.barrier();
        let ahead = b.i32(i64::from(ring.stages - 1));
        let ahead = b.cvt(ahead, b.ty(ring.step));
        let ahead = b.mul(ring.step, ahead);
        let at = b.add(iv, ahead);
        let indices = self.ring_indices(b, ring, at)?;
        self.refill = Some(Refill { ring: ring.clone(), indices, slot: fill, block: b.block() });
        for (p, alloc, bytes) in &ring.plans {
            let base = slot_base(b, *alloc, read, *bytes);
            self.slots.insert(p.inst, Rc::new(Staged { map: p.map.clone(), base, alloc: *alloc }));
        }
        let last = b.i32(i64::from(ring.stages - 1));
        let (zero, one) = (b.i32(0), b.i32(1));
        Ok([read, fill]
            .map(|s| {
                let next = b.bin(crate::lane::BinOp::Add, s, one);
                let wraps = b.cmp(CmpOp::Eq, s, last);
                b.select(wraps, zero, next)
            })
            .to_vec())
    }

    /// Behind the loop: nothing may land in the ring any more.
    pub(super) fn close_pipeline(&mut self, b: &mut LaneBuilder, ring: Rc<Ring>) {
        b.wait_copies(0);
        for (p, alloc, _) in &ring.plans {
            self.slots.remove(&p.inst);
            b.touch(*alloc);
        }
    }

    /// True if a scalar depends on nothing that the loop makes but its index, by pure ops. `seen` holds values found to be so.
    fn follows(&self, v: Value, iv: Value, seen: &mut HashSet<Value>) -> bool {
        if v == iv || self.values[v].is_some() || matches!(self.kernel.ty(v), Type::View(_)) || seen.contains(&v) {
            return true;
        }
        let Some(i) = self.kernel.def_inst(v) else { return false };
        let d = &self.kernel.insts[i];
        let ok = d.op.info().effects == Effects::Pure
            && d.args.iter().all(|&a| !matches!(self.kernel.ty(a), Type::Tile(_)) && self.follows(a, iv, seen));
        if ok {
            seen.insert(v);
        }
        ok
    }

    /// The value that a scalar has when those in `known` are as given there; the loop body is not lowered yet, so what it makes has
    /// no value.
    fn shifted(&mut self, b: &mut LaneBuilder, v: Value, known: &mut HashMap<Value, LVal>) -> Result<LVal, LowerError> {
        if let Some(&l) = known.get(&v) {
            return Ok(l);
        }
        if let Some(ValueLocation::Scalar(l)) = &self.values[v] {
            return Ok(*l);
        }
        let Some(i) = self.kernel.def_inst(v) else {
            return Err(Unsupported::Location(v, Location::Ahead).into());
        };
        let d = &self.kernel.insts[i];
        let l = match d.op {
            Op::Const | Op::ProgramId | Op::NumPrograms | Op::Dim => self.leaf(b, i),
            _ => {
                let args = d.args.iter().map(|&a| self.shifted(b, a, known)).collect::<Result<Vec<LVal>, _>>()?;
                self.element_op(b, i, &args)
            }
        };
        known.insert(v, l);
        Ok(l)
    }
}

/// Writes registers of a layout to shared memory; `columns` in bytes, `groups` the registers of each vector.
fn put(b: &mut LaneBuilder, to: &Staged, layout: &Layout, columns: &AccessColumns, groups: &[Vec<u32>], regs: &[LVal], elem: Scalar) {
    let points = SharedPoints::new(b, columns, to.base);
    let writer = super::shared::representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
    for group in groups {
        for part in group.chunks(legal_width(group.len() as u32, elem) as usize) {
            let (addr, offset) = points.at(b, part[0]);
            let elems: Vec<LVal> = part.iter().map(|&r| regs[r as usize]).collect();
            let words = to_words(b, &elems, elem);
            let writing = b.warps() >> layout.free_mask(Axis::Warp).count_ones();
            let bytes = part.len() as u32 * elem.bytes();
            b.meter.shared(columns, bytes, SharedOp::Store, layout.free_mask(Axis::Lane), writing);
            b.store_shared(words, to.alloc, addr, offset, writer);
        }
    }
}

/// Address of a slot of a ring.
pub(super) fn slot_base(b: &mut LaneBuilder, alloc: AllocId, slot: LVal, bytes: u32) -> LVal {
    let base = b.shared_addr(alloc);
    let size = b.i32(i64::from(bytes));
    let at = b.mul(slot, size);
    b.add(base, at)
}
