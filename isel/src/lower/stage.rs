//! Staging: tiles that only dots read go from global to shared memory, asynchronously where the target can. Loops whose copies run ahead are
//! written as programs, whose rings are theirs.

use super::shared::SharedPoints;
use super::vectors::to_words;
use super::{Lower, Tile};
use crate::lane::{AllocId, LVal, LaneBuilder};
use crate::layout::legal_width;
use crate::layout::search::staging;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, SharedMap, SharedOp, coalesced, operand_swizzle, vectors_without};
use tilelift_ir::{Inst, Scalar, Type};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::reason::OfScalar;

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
            self.chosen.map(&t.shape, bytes, order[0], (&layout, vec * bytes), &readers, self.target)?
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
            self.chosen.map(shape, bytes, last, (&tile.layout, self.target.vector_bytes), &readers, self.target)?
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
