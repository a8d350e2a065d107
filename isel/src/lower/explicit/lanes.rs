//! Copies by the lanes of a task: asynchronous ones of the widths that the target has, others through registers.
//!
//! ```text
//! vectors that are whole in both memories ── width the target copies, nothing but zeros for what is masked ─► asynchronous copies
//!                                         └─ else ─► loads, and stores where they have arrived
//! ```

use super::super::Lower;
use super::super::elementwise::Coords;
use super::super::shared::{SharedPoints, representative};
use super::super::stage::copy_layout;
use super::super::vectors::to_words;
use crate::layout::{legal_width, memory_type};
use crate::lower::location::{Local, Staged};
use crate::lower::task::Late;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, SharedOp, operand_swizzle, vectors_without};
use tilelift_ir::{Inst, Kernel, Op};
use tilelift_lane::{LVal, LaneBuilder};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::plan::TaskPlan;
use tilelift_schedule::reason::NotAddressed;

/// Buffers that lanes alone use, of a kernel without tasks, by the instruction of its body behind whose end their bytes serve others: the
/// wait behind the last use, or the barrier, where nothing is on its way.
pub(in super::super) fn last_uses(kernel: &Kernel, tasks: Option<Inst>, plan: &TaskPlan) -> BTreeMap<Inst, Vec<Inst>> {
    let body = &kernel.regions[kernel.body].insts;
    let mut out: BTreeMap<Inst, Vec<Inst>> = BTreeMap::new();
    let ours = |i: Inst| tasks.is_none() && kernel.insts[i].op == Op::LocalAlloc && kernel.insts[i].args.is_empty();
    if !body.iter().any(|&i| ours(i)) {
        return out;
    }
    let lanes = |i: Inst| {
        let views = matches!(kernel.insts[i].op, Op::LocalIndex | Op::LocalSlice | Op::LocalTranspose | Op::LocalReinterpret);
        views || matches!(kernel.insts[i].op, Op::CopyAsync | Op::GatherAsync | Op::LocalLoad | Op::LocalStore)
    };
    // The place in the body of what an instruction stands in.
    let mut top: SecondaryMap<Inst, usize> = SecondaryMap::new();
    for (n, &i) in body.iter().enumerate() {
        top[i] = n;
        kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut |j| top[j] = n));
    }
    // What is on its way has to arrive: behind each place, the next wait for all.
    let (mut waits, mut meetings) = (vec![None; body.len() + 1], vec![None; body.len() + 1]);
    for (n, &i) in body.iter().enumerate().rev() {
        let all = kernel.insts[i].op == Op::CopyAsyncWait && crate::lower::facts::count(kernel, i, 0) == 0;
        waits[n] = if all { Some(i) } else { waits[n + 1] };
        meetings[n] = if kernel.insts[i].op == Op::TaskBarrier { Some(i) } else { meetings[n + 1] };
    }
    for &root in body.iter().filter(|&&i| ours(i)) {
        let mut uses = plan.locals.uses(root).iter().copied().filter(|&i| i != root);
        let filled = uses.clone().any(|i| matches!(kernel.insts[i].op, Op::CopyAsync | Op::GatherAsync));
        let last = uses.clone().map(|i| top[i]).max();
        let Some(last) = last.filter(|_| uses.all(lanes)) else { continue };
        // What lanes store is there, and read, when they have met.
        let end = if filled { waits[last + 1] } else { meetings[last + 1].filter(|_| plan.by_lanes) };
        if let Some(end) = end {
            out.entry(end).or_default().push(root);
        }
    }
    out
}

/// Where the registers of a layout lie in local memory: by the rows of its buffer, or by the map of a slot, in bytes.
pub(super) enum Lies<'a> {
    Rows(Coords),
    Mapped(SharedPoints<'a>),
}

impl<'a> Lies<'a> {
    /// Those of a handle.
    pub(super) fn new(b: &mut LaneBuilder, local: &Local, slot: Option<&'a AccessColumns>, layout: &Layout) -> Lies<'a> {
        match slot {
            Some(columns) => Lies::Mapped(SharedPoints::new(b, columns, local.base)),
            None => Lies::Rows(Coords::new(b, layout)),
        }
    }

    /// Address and offset of a register's element.
    pub(super) fn at(&self, b: &mut LaneBuilder, local: &Local, layout: &Layout, reg: u32) -> Result<(LVal, i32), LowerError> {
        match self {
            Lies::Rows(coords) => local.at(b, coords, &layout.reg_coord(reg)),
            Lies::Mapped(points) => Ok(points.at(b, reg)),
        }
    }
}

impl Local {
    /// The slot as products fetch it.
    pub(super) fn staged(&self) -> Result<Staged, LowerError> {
        let buffer = &self.buffer;
        if let Some(map) = buffer.seen(&self.parts) {
            return Ok(Staged { map, base: self.base, alloc: self.alloc });
        }
        let swizzled = buffer.swizzled.ok_or(NotAddressed::Slot)?;
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|&k| self.parts[k].of);
        let shape: Vec<u32> = order.iter().map(|&k| self.parts[k].extent).collect();
        let contiguous = order.iter().position(|&k| self.parts[k].of == swizzled.contiguous).ok_or(NotAddressed::Slot)?;
        let map = operand_swizzle(&shape, buffer.size, contiguous)?;
        let mut perm = vec![0; order.len()];
        order.iter().enumerate().for_each(|(n, &k)| perm[k] = n);
        Ok(Staged { map: map.transpose(&perm)?, base: self.base, alloc: self.alloc })
    }
}

impl Lower<'_> {
    pub(super) fn copy_async(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let access = GlobalAccess::of(self.kernel, i);
        let indices = if access.packed { self.byte_indices(b, &access)? } else { self.index_values(&access.indices)? };
        let local = self.local(self.kernel.operand(i, "buffer")[0])?;
        if self.task()?.plan.fetches.late[i] {
            // The mask comes to the lanes that copy here, and not while operands lie where it would pass through.
            if let Some(mask) = access.mask {
                let shape: Vec<u32> = local.parts.iter().map(|p| p.extent).collect();
                let layout = Rc::new(copy_layout(&access, &shape, self.target, self.plan.warps)?);
                self.tile(b, mask, &layout)?;
            }
            self.task_mut()?.late.push(Late::Copy(i, indices, local));
            return Ok(());
        }
        self.begin_copy(b, i, &indices, &local)
    }

    pub(super) fn commit_copies(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        if self.task()?.plan.fetches.late[i] {
            self.task_mut()?.late.push(Late::Commit);
        } else if !self.target.copy_async.is_empty() {
            b.commit_copies();
        }
        Ok(())
    }

    /// Begins the copies that wait.
    pub(in super::super) fn late_copies(&mut self, b: &mut LaneBuilder) -> Result<(), LowerError> {
        let late = self.task.as_mut().map(|t| std::mem::take(&mut t.late)).unwrap_or_default();
        for x in late {
            match x {
                Late::Copy(i, indices, local) => self.begin_copy(b, i, &indices, &local)?,
                Late::Commit if self.target.copy_async.is_empty() => {}
                Late::Commit => b.commit_copies(),
            }
        }
        Ok(())
    }

    fn begin_copy(&mut self, b: &mut LaneBuilder, i: Inst, indices: &[LVal], local: &Local) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let access = GlobalAccess::of(kernel, i);
        let elem = access.view.elem;
        let bytes = elem.bytes();
        let shape: Vec<u32> = local.parts.iter().map(|p| p.extent).collect();
        let order = access.order();
        let vec = legal_width(access.vector_elements(self.target.vector_bytes), memory_type(elem));
        let layout = Rc::new(copy_layout(&access, &shape, self.target, self.plan.warps)?);
        let columns = AccessColumns::global(&layout, &order)?;
        // A vector must be one in both memories.
        let slot = local.buffer.seen(&local.parts).map(|map| map.columns_from(&layout)).transpose()?;
        let most = if local.contiguous() == order.first().copied() { (vec * bytes).min(local.vector_bytes()) } else { bytes };
        let most =
            if slot.is_some() { vectors_without(&columns, bytes, vec * bytes, layout.free_mask(Axis::Reg)).width * bytes } else { most };
        let vectors = vectors_without(slot.as_ref().unwrap_or(&columns), bytes, most, layout.free_mask(Axis::Reg));
        let size = vectors.width * bytes;
        let once = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp) == 0;
        let other = kernel.operand(i, "other").first().map(|&v| self.scalar(v)).transpose()?;
        let zeros = other.is_none_or(|v| b.as_const(v) == Some(0));
        let plain = !once || !zeros || !self.target.copies(size);
        let t = self.task_mut()?;
        t.met = false;
        if self.target.copies_in_rows && zeros && self.copy_in_rows(b, i, indices, local)? {
            return Ok(());
        }
        let slot = slot.map(|columns| columns.scaled(bytes)).transpose()?;
        self.task_mut()?.traces.stored |= plain;
        if plain {
            return self.copy_through_registers(b, (i, access), indices, (local, slot.as_ref()), (&layout, &vectors.groups, other));
        }
        self.order_access(b, access.view_value, false, &layout, indices);
        let points = self.points(b, access, indices, &layout)?;
        let lies = Lies::new(b, local, slot.as_ref(), &layout);
        // Where the buffer's own order is a map of a slot, it says what the banks do.
        let banks = match &slot {
            Some(columns) => Some(columns.clone()),
            None => local.staged().ok().and_then(|s| s.map.columns_from(&layout).ok()?.scaled(bytes).ok()),
        };
        for group in &vectors.groups {
            let (global, global_offset, guard) = self.point(b, &points, &layout, group[0]);
            let shared = lies.at(b, local, &layout, group[0])?;
            b.meter.global(&columns, bytes, vectors.width, self.plan.warps);
            if let Some(banks) = &banks {
                b.meter.shared(banks, size, SharedOp::Store, 0, self.plan.warps);
            }
            b.copy_async(local.alloc, shared, (global, global_offset), size, guard);
        }
        Ok(())
    }

    /// The same by loads and stores.
    fn copy_through_registers(
        &mut self,
        b: &mut LaneBuilder,
        (i, access): (Inst, GlobalAccess<'_>),
        indices: &[LVal],
        (local, slot): (&Local, Option<&AccessColumns>),
        (layout, groups, other): (&Rc<Layout>, &[Vec<u32>], Option<LVal>),
    ) -> Result<(), LowerError> {
        let elem = access.view.elem;
        let cache = self.cache_hint(i);
        let regs = self.load_regs(b, access, indices, layout, (other, None), (cache, None))?;
        let guard = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let lies = Lies::new(b, local, slot, layout);
        for part in groups.iter().flat_map(|g| g.chunks(legal_width(g.len() as u32, memory_type(elem)) as usize)) {
            let (addr, offset) = lies.at(b, local, layout, part[0])?;
            let elems: Vec<LVal> = part.iter().map(|&r| regs[r as usize]).collect();
            let words = to_words(b, &elems, elem);
            b.store_shared(words, local.alloc, addr, offset, guard);
        }
        Ok(())
    }
}
