//! What a kernel does to the tensors of its graph, instruction by instruction.

use super::atoms::{Atoms, Sum};
use super::maker::Start;
use crate::graph::nodes::{Graph, Node, TensorId};
use crate::graph::size::Grid;
use std::collections::BTreeMap;
use tilelift_ir::{Effects, Inst, Op, Region, Type, Value};

/// A tile of a tensor: its first element's index, and its shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub index: Vec<Sum>,
    pub shape: Vec<u32>,
    /// The tensor is seen as a vector.
    pub flat: bool,
}

impl Place {
    /// What is known of the first element's index in the programs of a grid.
    pub fn starts(&self, atoms: &Atoms, grid: &Grid) -> Vec<Start> {
        self.index.iter().map(|s| Start { number: s.as_number(), low: !atoms.not_negative(s, grid) }).collect()
    }
}

/// An access of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub inst: Inst,
    pub tensor: TensorId,
    pub reads: bool,
    pub writes: bool,
    /// Where, for loads and stores.
    pub place: Option<Place>,
    /// It stands in the kernel's body, not in a region of it.
    pub outermost: bool,
    pub masked: bool,
}

/// A tensor beside the pair's that the producer hands to the consumer.
pub(super) struct Shared {
    pub tensor: TensorId,
    /// The one store of it in the producer.
    pub store: Inst,
    /// Somebody else looks at it.
    pub keep: bool,
}

/// A node with what its scalars are and what it accesses, in program order.
pub(crate) struct Seen<'g> {
    pub node: &'g Node,
    pub sums: BTreeMap<Value, Sum>,
    pub accesses: Vec<Access>,
}

impl<'g> Seen<'g> {
    pub fn new(graph: &Graph, node: &'g Node, atoms: &mut Atoms) -> Seen<'g> {
        let mut sums = atoms.scalars(graph, node);
        for sum in sums.values_mut() {
            // What is the same in every program, such as the column of a product with one column of tiles.
            if let Some(n) = atoms.constant(sum, &node.grid) {
                *sum = Sum::number(n);
            }
        }
        let mut seen = Seen { node, sums, accesses: Vec::new() };
        seen.region(node.kernel.body, true);
        seen
    }

    fn region(&mut self, region: Region, outermost: bool) {
        let node = self.node;
        for &inst in &node.kernel.regions[region].insts {
            let d = &node.kernel.insts[inst];
            for &r in &d.regions {
                self.region(r, false);
            }
            let (reads, writes) = match d.op.info().effects.global() {
                Effects::Reads => (true, false),
                Effects::Writes => (false, true),
                Effects::Updates => (true, true),
                _ => continue,
            };
            let Some((tensor, flat)) = self.tensor(d.args[0]) else { continue };
            let place = self.place(inst, flat);
            let masked = !node.kernel.operand(inst, "mask").is_empty();
            self.accesses.push(Access { inst, tensor, reads, writes, place, outermost, masked });
        }
    }

    /// The tensor behind a view of the kernel.
    pub fn tensor(&self, view: Value) -> Option<(TensorId, bool)> {
        let param = self.node.kernel.params.iter().position(|&p| p == view)?;
        self.node.args[param].tensor()
    }

    fn place(&self, inst: Inst, flat: bool) -> Option<Place> {
        let kernel = &self.node.kernel;
        let tile = match kernel.insts[inst].op {
            Op::Load => kernel.insts[inst].results[0],
            Op::Store => *kernel.operand(inst, "value").first()?,
            _ => return None,
        };
        let Type::Tile(t) = kernel.ty(tile) else { return None };
        let index = kernel.operand(inst, "indices").iter().map(|v| self.sums.get(v).cloned()).collect::<Option<_>>()?;
        Some(Place { index, shape: t.shape.to_vec(), flat })
    }

    pub fn of(&self, tensor: TensorId) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(move |a| a.tensor == tensor)
    }
}
