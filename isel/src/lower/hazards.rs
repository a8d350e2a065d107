//! Program order of global accesses. A tile program's loads and stores happen one after the other; its lanes run apart. Where a view
//! is stored to and accessed again by other lanes, a barrier goes between. Different views do not overlap where one is stored to
//! (launches are checked for it), so every view is looked at alone; a view that is only read, or stored to once, needs nothing.

use super::Lower;
use crate::lower::history::Seen;
use std::rc::Rc;
use tilelift_ir::Value;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_lane::{LVal, LaneBuilder};

/// Accesses of a view between two barriers at most: each is compared with all of them.
const MOST_SEEN: usize = 256;

/// Two tiles of a view have no element in common: along some dimension one begins, by a known number, behind the other's end.
fn apart(b: &LaneBuilder, seen: &Seen, layout: &Layout, indices: &[LVal]) -> bool {
    let extents = seen.layout.shape().iter().zip(layout.shape());
    seen.indices.len() == indices.len()
        && indices.len() == layout.shape().len()
        && seen.indices.len() == seen.layout.shape().len()
        && seen.indices.iter().zip(indices).zip(extents).any(|((&x, &y), (&ex, &ey))| {
            let ((bx, x), (by, y)) = (b.base_and_offset(x), b.base_and_offset(y));
            bx == by && (x + i64::from(ex) <= y || y + i64::from(ey) <= x)
        })
}

impl Lower<'_> {
    /// Call in front of an access: inserts the barrier that earlier accesses of the view ask for, and notes this one.
    pub(super) fn order_access(&mut self, b: &mut LaneBuilder, view: Value, store: bool, layout: &Rc<Layout>, indices: &[LVal]) {
        let h = &self.histories[view];
        if !h.matters {
            return;
        }
        // Of lanes that hold copies only one writes, but all of them read.
        let copies = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp) != 0;
        let own = |s: &Seen| s.indices == indices && *s.layout == **layout && (s.store == store || !copies);
        let clash = h.unknown || h.seen.iter().any(|s| (s.store || store) && !own(s) && !apart(b, s, layout, indices));
        if clash || h.seen.len() >= MOST_SEEN {
            self.order_all(b);
        }
        self.histories[view].seen.push(Seen { store, layout: layout.clone(), indices: indices.to_vec() });
    }

    /// As [`Lower::order_access`], for an access through tiles of indices: any lane may touch any element.
    pub(super) fn order_indexed(&mut self, b: &mut LaneBuilder, view: Value, store: bool, layout: &Rc<Layout>) {
        let h = &self.histories[view];
        if !h.matters {
            return;
        }
        if h.unknown || h.seen.iter().any(|s| s.store || store) {
            self.order_all(b);
        }
        // No other access has an empty list of indices, so none counts as the same.
        self.histories[view].seen.push(Seen { store, layout: layout.clone(), indices: Vec::new() });
    }

    /// A barrier between all accesses in front of it and all behind it.
    pub(super) fn order_all(&mut self, b: &mut LaneBuilder) {
        b.barrier();
        for &p in &self.kernel.params {
            self.histories[p].seen.clear();
            self.histories[p].unknown = false;
        }
    }

    /// True if a view that somebody writes may have been accessed since the last barrier.
    pub(super) fn accessed(&self) -> bool {
        self.kernel.params.iter().any(|&p| self.histories[p].unknown || !self.histories[p].seen.is_empty())
    }

    /// Call where control flow meets: at the start of a loop's body, behind it, and behind a choice.
    pub(super) fn forget_accesses(&mut self) {
        self.forget_task();
        for &p in &self.kernel.params {
            self.histories[p].unknown = self.histories[p].matters;
        }
    }
}
