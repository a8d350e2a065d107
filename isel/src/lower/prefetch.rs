//! Requests to the caches, dealt out to all lanes.
//!
//! ```text
//! the tile in the layout of a copy with the widest vectors: of each vector, its first element is asked for
//! ```
//!
//! Requests of a warp's neighbouring lanes for one line go out as one, so there are as many instructions as of a load.

use super::Lower;
use super::shared::representative;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, coalesced, vectors_without};
use tilelift_ir::{Attr, CmpOp, Inst};
use tilelift_lane::{LaneBuilder, Special};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::reason::Missing;

/// Bytes of a line of the caches, of which one request is enough.
const LINE: u32 = 128;

impl Lower<'_> {
    pub(super) fn prefetch(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let Some(Attr::Offsets(extents)) = self.kernel.insts[i].attrs.first() else {
            return Err(Missing::Extents.into());
        };
        let access = GlobalAccess::of(self.kernel, i);
        let mut shape = extents.clone();
        let mut indices = self.index_values(&access.indices)?;
        if access.packed {
            indices = self.byte_indices(b, &access)?;
            if let Some(last) = shape.last_mut() {
                *last = last.div_ceil(2);
            }
        }
        let (bytes, order) = (access.view.elem.bytes(), access.order());
        // Without a dimension whose elements are next to each other every element has a line of its own.
        let vec = if access.contiguous().is_some() { LINE / bytes } else { 1 };
        // Layouts are of powers of two: the warps behind the last one ask for nothing.
        let warps = 1 << self.plan.warps.max(1).ilog2();
        let layout = Rc::new(coalesced(&shape, bytes, &order, vec, self.target.lanes, warps)?);
        let columns = AccessColumns::global(&layout, &order)?;
        let vectors = vectors_without(&columns, bytes, vec * bytes, layout.free_mask(Axis::Reg));
        let mut asks = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        if warps < self.plan.warps {
            let (warp, end) = (b.special(Special::Warp), b.i32(i64::from(warps)));
            let some = b.cmp(CmpOp::Lt, warp, end);
            asks = b.and_guard(asks, Some(some));
        }
        let points = self.points(b, access, &indices, &layout)?;
        for first in vectors.groups.iter().filter_map(|group| group.first()) {
            let (addr, offset, guard) = self.point(b, &points, &layout, *first);
            let guard = b.and_guard(asks, guard);
            b.prefetch(addr, offset, guard);
        }
        Ok(())
    }
}
