//! Copies between views and swizzled buffers.

use super::super::Lower;
use crate::lower::location::Local;
use std::rc::Rc;
use tilelift_ir::{AtomicOp, Attr, Inst};
use tilelift_lane::{LVal, LaneBuilder, Place, Reduction, Unit, Vals};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{BufferLayout, Part, ROW_ALIGN, SwizzledTile};
use tilelift_schedule::reason::{Missing, NotAddressed, Unsupported};

/// Bytes from a buffer's base to a part of it at which a copy may begin: a swizzle atom, or a row that needs none.
fn copied_from(buffer: &BufferLayout, parts: &[Part]) -> Option<u32> {
    match buffer.swizzled {
        Some(p) => start(buffer, parts).filter(|o| o.is_multiple_of(8 * p.swizzle)),
        None => {
            let steps = parts.iter().map(|p| Some(p.at * buffer.index_step(p.of)?));
            steps.sum::<Option<u32>>().filter(|o| o.is_multiple_of(ROW_ALIGN))
        }
    }
}

/// Bytes from a buffer's base to a part of it, if a swizzle atom begins there.
pub(super) fn start(buffer: &BufferLayout, parts: &[Part]) -> Option<u32> {
    let swizzled = buffer.swizzled?;
    let mut offset = 0;
    for p in parts {
        if p.of == swizzled.contiguous {
            let bytes = p.at * buffer.size;
            offset += bytes / swizzled.swizzle * buffer.atom_stride() + bytes % swizzled.swizzle;
        } else {
            let rows = p.at * buffer.row_step(p.of);
            let inside = rows % swizzled.rows;
            if !inside.is_multiple_of(8) {
                return None;
            }
            offset += rows / swizzled.rows * buffer.block_bytes() + inside * swizzled.swizzle;
        }
    }
    Some(offset)
}

impl Lower<'_> {
    /// A copy's boxes: the launch parameter, and for each where it lies and where the box begins.
    #[allow(clippy::type_complexity)]
    fn boxes(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(u32, Vec<(Place, Vals)>), LowerError> {
        let kernel = self.kernel;
        let task = self.task()?;
        let (Some(&map), Some(tile)) = (task.maps.get(&i), task.plan.boxes.get(&i).cloned()) else {
            return Err(Missing::CopyPlan.into());
        };
        let tile: SwizzledTile = tile;
        let local = self.local(kernel.operand(i, "buffer")[0])?;
        let buffer: Rc<BufferLayout> = local.buffer.clone();
        let Some(first) = copied_from(&buffer, &local.parts) else { return Err(NotAddressed::Copy.into()) };
        let indices = self.index_values(kernel.operand(i, "indices"))?;
        let indices = self.bulk_indices(b, kernel.insts[i].args[0], tile.slowest(), indices);
        if let Some(&m) = self.task()?.groupwise.rows.get(&i) {
            return Ok((map, self.own_boxes(b, &tile, &local, &indices, m)?));
        }
        let boxes = (0..tile.boxes()).map(|p| {
            let offset = (first + p * buffer.atom_stride()) as i32;
            (Place { addr: local.base, offset }, tile.box_at(b, &indices, p))
        });
        Ok((map, boxes.collect()))
    }

    /// The boxes of a buffer that each group of the task stores: `m` rows at a time, alternating with the other groups.
    fn own_boxes(
        &mut self,
        b: &mut LaneBuilder,
        tile: &SwizzledTile,
        local: &Local,
        indices: &[LVal],
        m: u32,
    ) -> Result<Vec<(Place, Vals)>, LowerError> {
        let groups = self.task()?.groups;
        let (swizzle, down) = (tile.swizzle, tile.order[1]);
        let group = self.group_number(b);
        let bytes = b.i32(i64::from(m * swizzle));
        let own = b.mul(group, bytes);
        let addr = b.add(local.base, own);
        let rows = b.i32(i64::from(m));
        let rows = b.mul(group, rows);
        let mut indices = indices.to_vec();
        let row = b.add(indices[down], rows);
        let mut out = Vec::new();
        for first in (0..tile.rows).step_by((m * groups) as usize) {
            indices[down] = b.add_const(row, i64::from(first));
            for p in 0..tile.boxes() {
                let offset = (p * local.buffer.atom_stride() + first * swizzle) as i32;
                out.push((Place { addr, offset }, tile.box_at(b, &indices, p)));
            }
        }
        Ok(out)
    }

    pub(super) fn async_load(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        self.meet(b, false)?;
        let (map, boxes) = self.boxes(b, i)?;
        let barrier = self.mbarrier(kernel.operand(i, "barrier")[0])?;
        let ranks: Option<LVal> = match kernel.operand(i, "multicast").first() {
            Some(&v) if kernel.cluster > 1 => Some(self.scalar(v)?),
            Some(_) | None => None,
        };
        let guard = self.task()?.first;
        for (to, at) in boxes {
            b.unit(Unit::BulkLoad { map, to, at, barrier, ranks, guard });
        }
        Ok(())
    }

    pub(super) fn async_store(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        self.meet(b, false)?;
        let (map, boxes) = self.boxes(b, i)?;
        let guard = self.task()?.first;
        let reduce = match kernel.insts[i].attrs.first() {
            Some(Attr::Atomic(op)) => Some(match op {
                AtomicOp::Add => Reduction::Add,
                AtomicOp::Min => Reduction::Minimum,
                AtomicOp::Max => Reduction::Maximum,
                AtomicOp::And => Reduction::And,
                AtomicOp::Or => Reduction::Or,
                AtomicOp::Xor => Reduction::Xor,
                AtomicOp::Umin | AtomicOp::Umax | AtomicOp::Xchg => return Err(Unsupported::Reduction(*op).into()),
            }),
            _ => None,
        };
        for (from, at) in boxes {
            b.unit(Unit::BulkStore { map, from, at, reduce, guard });
        }
        b.unit(Unit::CommitStores { guard });
        Ok(())
    }
}
