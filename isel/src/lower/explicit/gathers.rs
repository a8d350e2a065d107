//! Gathers by the lanes of a task into a buffer: asynchronous copies of the pieces of rows that are whole in both memories.
//!
//! ```text
//! indices of neighbours in a row ── a piece of 4, 8 or 16 bytes, at the address of its first element ─► its place in the slot
//! ```
//!
//! What the target has no copy for goes through registers, as `copy_async` does.

use super::super::Lower;
use super::super::shared::representative;
use super::super::vectors::{from_words, to_words, word_types};
use super::lanes::Lies;
use crate::layout::assign::access_layout;
use crate::layout::{legal_width, memory_type};
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, vectors_without};
use tilelift_ir::{CacheHint, Inst};
use tilelift_lane::{LVal, LaneBuilder, Vals};
use tilelift_schedule::LowerError;
use tilelift_schedule::indexed::indexed_vectors;

impl Lower<'_> {
    pub(super) fn gather_async(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let local = self.local(kernel.operand(i, "buffer")[0])?;
        let layout = Rc::new(access_layout(kernel, self.target, &self.plan, i, kernel.operand(i, "indices")[0])?);
        let elem = kernel.ty(kernel.insts[i].args[0]).elem();
        let bytes = elem.bytes();
        let v = indexed_vectors(kernel, i, layout.rank(), self.target.vector_bytes);
        // A piece must be one in both memories.
        let whole = if local.contiguous() == v.order.first().copied() { (v.elements * bytes).min(local.vector_bytes()) } else { bytes };
        let most = legal_width(whole / bytes, memory_type(elem)) * bytes;
        let columns = AccessColumns::global(&layout, &v.order)?;
        let vectors = vectors_without(&columns, bytes, most, layout.free_mask(Axis::Reg));
        let size = vectors.width * bytes;
        let once = layout.free_mask(Axis::Lane) | layout.free_mask(Axis::Warp) == 0;
        let plain = !once || !self.target.copies(size);
        let x = self.indexed(b, i, &layout)?;
        let t = self.task_mut()?;
        t.met = false;
        t.traces.stored |= plain;
        self.order_indexed(b, x.view, false, &layout);
        let lies = Lies::new(b, &local, None, &layout);
        let guard = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        for part in &vectors.groups {
            let (global, inside) = self.place(b, &x, part[0] as usize);
            let (addr, offset) = lies.at(b, &local, &layout, part[0])?;
            if !plain {
                b.meter.global(&columns, bytes, vectors.width, self.plan.warps);
                b.copy_async(local.alloc, (addr, offset), (global, 0), size, inside);
                continue;
            }
            let n = part.len() as u32;
            let words = b.load_global_hinted(&word_types(n, elem), (global, 0), inside, Vals::new(), CacheHint::Normal);
            let elems: Vec<LVal> = from_words(b, &words, elem, n);
            let words = to_words(b, &elems, elem);
            b.store_shared(words, local.alloc, addr, offset, guard);
        }
        Ok(())
    }
}
