//! Staging: tiles that only dots read go from global to shared memory, asynchronously where the target can. Loops whose copies run ahead are
//! written as programs, whose rings are theirs.

use super::Lower;
use super::location::Tile;
use super::shared::SharedPoints;
use super::vectors::to_words;
use crate::layout::assign::Assignment;
use crate::layout::search::staging;
use crate::layout::{legal_width, memory_type};
use crate::lower::location::Staged;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, LayoutError, SharedMap, SharedOp, coalesced, operand_swizzle, vectors_without};
use tilelift_ir::{Inst, Kernel, Scalar, Type};
use tilelift_lane::{AllocId, LVal, LaneBuilder, Target};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::reason::OfScalar;

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

/// Which lanes copy which elements of a tile that lanes copy to shared memory, as they would load it.
pub(super) fn copy_layout(access: &GlobalAccess<'_>, shape: &[u32], target: &Target, warps: u32) -> Result<Layout, LayoutError> {
    let elem = access.view.elem;
    let vec = legal_width(access.vector_elements(target.vector_bytes), memory_type(elem));
    coalesced(shape, elem.bytes(), &access.order(), vec, target.lanes, warps)
}

/// The map of a load on its way to shared memory, which a layout copies in vectors of so many bytes, runs of a dimension.
pub(crate) fn load_map(
    (kernel, target, assigned): (&Kernel, &Target, &Assignment),
    i: Inst,
    fast: usize,
    writer: (&Layout, u32),
) -> Result<SharedMap, LayoutError> {
    let (shape, bytes) = (writer.0.shape(), GlobalAccess::of(kernel, i).view.elem.bytes());
    let found = assigned.runs[i].first().and_then(|f| f.results.first()?.as_ref());
    match found {
        Some(l) => SharedMap::from_layout((**l).clone()),
        None if assigned.searched => {
            let readers = staging::readers(kernel, target, assigned, kernel.insts[i].results[0]);
            Ok(staging::choose(shape, bytes, fast, Some(writer), &readers, target)?.0)
        }
        None => operand_swizzle(shape, bytes, fast),
    }
}

/// The map of a tile in registers on its way to shared memory, for the lanes of a dot.
pub(super) fn tile_map(
    target: &Target,
    assigned: &Assignment,
    layout: &Layout,
    bytes: u32,
    reader: &Rc<Layout>,
) -> Result<SharedMap, LayoutError> {
    let (shape, last) = (layout.shape(), layout.rank() - 1);
    if !assigned.searched {
        return operand_swizzle(shape, bytes, last);
    }
    let readers = [staging::Reader::of(reader, false)];
    Ok(staging::choose(shape, bytes, last, Some((layout, target.vector_bytes)), &readers, target)?.0)
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
        let map = load_map((self.kernel, self.target, &self.assigned), i, order[0], (&layout, vec * bytes))?;
        // A vector must be one in both memories.
        let global = AccessColumns::global(&layout, &order)?;
        let width = vectors_without(&global, bytes, vec * bytes, 0).width;
        let columns = map.columns_from(&layout)?;
        let shared = vectors_without(&columns, bytes, width * bytes, 0);
        let copies = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp);
        let size = shared.width * bytes;
        let copy = (copies == 0 && self.target.copies(size)).then_some(size);
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
            let regs = self.load_regs(b, access, &indices, &p.layout, (None, None), (cache, None))?;
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
        let map = tile_map(self.target, &self.assigned, &tile.layout, bytes, reader)?;
        let alloc = self.alloc(b, u64::from(map.elements()) * u64::from(bytes), "operand")?;
        let base = b.shared_addr(alloc);
        let columns = map.columns_from(&tile.layout)?;
        let groups = vectors_without(&columns, bytes, self.target.vector_bytes, tile.layout.free_mask(Axis::Reg)).groups;
        let staged = Staged { map, base, alloc };
        b.before_shared_writes();
        put(b, &staged, &tile.layout, &columns.scaled(bytes)?, &groups, &tile.regs, elem);
        Ok(staged)
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
