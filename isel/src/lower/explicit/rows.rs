//! Copies of machines whose lanes' pieces lie side by side in shared memory, behind an address alike in all lanes of a warp
//! ([`Target::copies_in_rows`](tilelift_lane::Target::copies_in_rows)): who copies which element follows from where elements lie.
//!
//! ```text
//! slot   bits of a place, low first:  within a piece │ lane │ warp │ rest
//! copy   a warp's lanes in order, then the warps, then again: lane l of warp w has piece l of row w
//! global the elements that lie there: an XOR of the slot's map moves pieces within rows of memory
//! ```
//!
//! Places outside of the view are to be zeros, so a copy goes through a window ([`super::super::window`]); where the tile has none, lanes copy through registers.

use super::super::Lower;
use super::super::shared::SharedPoints;
use crate::lower::location::Local;
use std::rc::Rc;
use tilelift_ir::Inst;
use tilelift_ir::layout::{AccessColumns, Axis, Coord, Layout, SharedMap, SharedOp, vectors_without};
use tilelift_lane::{LVal, LaneBuilder};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;

/// Which lanes copy which elements of a slot, in pieces of `size` bytes; `None` if it has too few pieces, or gaps.
fn side_by_side(map: &SharedMap, elem: u32, size: u32, [lanes, warps]: [u32; 2]) -> Option<Layout> {
    let places = map.layout();
    let whole = places.odd_size(Axis::Off) == 1 && map.elements() == places.shape().iter().product::<u32>();
    if !whole || !lanes.is_power_of_two() || !warps.is_power_of_two() || !size.is_multiple_of(elem) {
        return None;
    }
    let (piece, lane, warp) = ((size / elem).ilog2(), lanes.ilog2(), warps.ilog2());
    let columns = |from: u32, to: u32| (from..to).map(|bit| places.column(Axis::Off, bit));
    let (row, all) = (piece + lane + warp, places.bits(Axis::Off));
    if row > all {
        return None;
    }
    let reg: Vec<Coord> = columns(0, piece).chain(columns(row, all)).collect();
    let axes = [(Axis::Reg, reg), (Axis::Lane, columns(piece, piece + lane).collect()), (Axis::Warp, columns(piece + lane, row).collect())];
    Layout::from_columns(places.shape(), &axes).ok()
}

impl Lower<'_> {
    /// Begins copies of a slot whose lanes' pieces lie side by side; false if there are none, and nothing is begun.
    pub(super) fn copy_in_rows(&mut self, b: &mut LaneBuilder, i: Inst, indices: &[LVal], local: &Local) -> Result<bool, LowerError> {
        let access = GlobalAccess::of(self.kernel, i);
        let (elem, order) = (access.view.elem.bytes(), access.order());
        let Some(&size) = self.target.copy_async.iter().max() else { return Ok(false) };
        let map = match local.buffer.seen(&local.parts) {
            Some(map) => map,
            None => match local.staged() {
                Ok(staged) => staged.map,
                Err(_) => return Ok(false),
            },
        };
        let Some(layout) = side_by_side(&map, elem, size, [self.target.lanes, self.plan.warps]) else { return Ok(false) };
        let layout = Rc::new(layout);
        let global = AccessColumns::global(&layout, &order)?;
        let vectors = vectors_without(&global, elem, size, 0);
        if vectors.width * elem != size || access.vector_elements(size) * elem < size {
            return Ok(false);
        }
        let points = self.points(b, access, indices, &layout)?;
        let Some(window) = self.window(b, &points, &layout, size).filter(|w| b.as_const(w.near) != Some(0)) else { return Ok(false) };
        self.order_access(b, points.access.view_value, false, &layout, indices);
        let columns = map.columns_from(&layout)?.scaled(elem)?;
        let lies = SharedPoints::new(b, &columns, local.base);
        let firsts: Vec<u32> = vectors.groups.iter().map(|g| g[0]).collect();
        let through = |cx: &mut Self, b: &mut LaneBuilder| {
            for &reg in &firsts {
                let (address, guard) = window.point(b, cx, &points, (&layout, reg), None);
                let shared = lies.at(b, reg);
                b.copy_async(local.alloc, shared, (address, 0), size, Some(guard));
            }
            Ok::<_, LowerError>(Vec::new())
        };
        let guarded = |cx: &mut Self, b: &mut LaneBuilder| {
            for &reg in &firsts {
                let (address, offset, guard) = cx.point(b, &points, &layout, reg);
                let shared = lies.at(b, reg);
                b.copy_async(local.alloc, shared, (address, offset), size, guard);
            }
            Ok::<_, LowerError>(Vec::new())
        };
        for _ in &firsts {
            b.meter.global(&global, elem, size / elem, self.plan.warps);
            b.meter.shared(&columns, size, SharedOp::Store, 0, self.plan.warps);
        }
        match b.as_const(window.near) {
            Some(_) => through(self, b)?,
            None => b.if_else(self, window.near, through, guarded)?,
        };
        Ok(true)
    }
}
