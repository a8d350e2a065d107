//! What async units write to global memory. Nothing orders it within a program: `async_store_wait` speaks of what is read.

use super::cluster::Cluster;
use super::fiber::Fiber;
use super::operands::malformed;
use crate::access::{Access, rows};
use crate::error::Fault;
use crate::exec::{Interpreter, indices, view_of};
use crate::indexed::{Change, Places};
use crate::protocol::Protocol;
use crate::shapes;
use tilelift_ir::Inst;
use tilelift_ir::ops::{Attr, Op};

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
        let program = |w| Interpreter::program_of(grid, subset, w);
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
