//! What async units write to global memory. Nothing orders it within a program: `async_store_wait` speaks of what is read.

use super::fiber::Fiber;
use super::ops::malformed;
use super::{Cluster, Protocol};
use crate::access::{Access, rows};
use crate::error::Fault;
use crate::exec::{Machine, indices, view_of};
use crate::indexed::{Change, Places};
use crate::shapes;
use std::collections::BTreeMap;
use std::ops::Range;
use tilelift_ir::Inst;
use tilelift_ir::ops::{Attr, Op};

/// Bytes of a buffer.
pub(super) type Bytes = (usize, Range<usize>);

/// The bytes that the async units of a program have written, or are writing.
#[derive(Default)]
pub(super) struct Written {
    stored: Spans,
    reduced: Spans,
}

/// Ranges that do not meet, by buffer and first byte: their ends, and what wrote them.
#[derive(Default)]
struct Spans(BTreeMap<(usize, usize), (usize, Inst)>);

impl Spans {
    fn meets(&self, (buffer, r): &Bytes) -> Option<Inst> {
        let (&(b, _), &(end, by)) = self.0.range(..(*buffer, r.end)).next_back()?;
        (b == *buffer && end > r.start).then_some(by)
    }

    fn add(&mut self, (buffer, mut r): Bytes, by: Inst) {
        while let Some((&at, &(end, _))) = self.0.range(..(buffer, r.end)).next_back()
            && at.0 == buffer
            && end > r.start
        {
            self.0.remove(&at);
            r = r.start.min(at.1)..r.end.max(end);
        }
        self.0.insert((buffer, r.start), (r.end, by));
    }
}

impl Written {
    /// What else writes some of the bytes; updates do not mind one another.
    fn meets(&self, rows: &[Bytes], reduces: bool) -> Option<Inst> {
        let all = if reduces { &[&self.stored][..] } else { &[&self.stored, &self.reduced] };
        all.iter().find_map(|s| rows.iter().find_map(|r| s.meets(r)))
    }

    fn note(&mut self, rows: Vec<Bytes>, reduces: bool, by: Inst) {
        let spans = if reduces { &mut self.reduced } else { &mut self.stored };
        rows.into_iter().for_each(|r| spans.add(r, by));
    }
}

impl Cluster<'_, '_> {
    /// Begins a store or an update of a box.
    pub(super) fn async_store(&mut self, f: &mut Fiber, inst: Inst) -> Result<(), Fault> {
        let kernel = self.machine.kernel;
        let d = &kernel.insts[inst];
        let buf = self.buf(f, kernel.operand(inst, "buffer").first().copied().ok_or(malformed("no buffer"))?)?;
        let data = self.read(f, inst, f.block, &buf, true)?;
        self.blocks[f.block].locals[buf.local].used(&buf, f.here(inst), f.stores, false);
        f.stores += 1;
        let index = self.at(inst, buf.shape.len())?;
        let index = indices(&index.into_iter().collect(), buf.shape.len())?;
        let view = view_of(kernel, &self.machine.views, d)?;
        let rows = rows(view, &index, &buf.shape)?;
        let reduces = d.op == Op::AsyncReduce;
        if let Some(by) = self.blocks[f.block].written.meets(&rows, reduces) {
            return Err(Fault::Protocol(Protocol::Overwritten { by: self.place(by) }));
        }
        self.blocks[f.block].written.note(rows, reduces, inst);
        let machine = &mut *self.machine;
        let (grid, subset) = (machine.grid, machine.subset);
        let view = view_of(kernel, &machine.views, d)?;
        let mut access = Access { memory: machine.memory, shadows: machine.shadows, me: machine.me, released: &machine.released };
        let program = |w| Machine::program_of(grid, subset, w);
        let Some(Attr::Atomic(word)) = d.attrs.first() else { return access.store(view, &index, &buf.shape, &data, None, program) };
        // The indices of every element, which the update may skip outside the view.
        let n = shapes::count(&buf.shape);
        let strides = shapes::strides(&buf.shape);
        let place = |dim: usize| (0..n).map(|e| index[dim] + (e / strides[dim] % buf.shape[dim] as usize) as i64).collect::<Vec<i64>>();
        let tiles: Vec<Vec<i64>> = (0..buf.shape.len()).map(place).collect();
        let places = Places { view, index: tiles.iter().map(Vec::as_slice).collect(), mask: None };
        access.update(&places, &Change::Op(*word, &data), program).map(|_| ())
    }
}
