//! The graph, what is known of its classes, and how rules read it.

use crate::language::{Head, Kids, Node, Pool, TypeId};
use crate::log::Event;
use cranelift_entity::SecondaryMap;
use egg::{EGraph, Id};
use smallvec::SmallVec;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, Effects, Inst, Literal, Op, Region, Scalar, Type, Value};

/// The graph.
pub(crate) type Graph = EGraph<Node, Context>;

/// An integer tile as `base + offset + sum(steps[d] * index[d])`, modulo the width of its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Affine {
    /// A scalar class.
    pub(crate) base: Option<Id>,
    pub(crate) offset: i64,
    pub(crate) steps: SmallVec<[i64; 4]>,
}

/// What is known of a class.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) ty: TypeId,
    /// Event after which the value can be computed.
    pub(crate) avail: u32,
    /// Bit `r`: the value differs between iterations over range `r`, so it may stand in loops over it only.
    pub(crate) free: u64,
    /// Every element equals it.
    pub(crate) value: Option<Literal>,
    /// Bounds of every element, for integers and `i1`.
    pub(crate) range: (i64, i64),
    /// Every element is a multiple of 2 to this power.
    pub(crate) zeros: u8,
    /// Bit `d`: elements do not differ along dimension `d`.
    pub(crate) same: u8,
    /// Affine form of an integer.
    pub(crate) affine: Option<Affine>,
}

/// A `for` as its index sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) lo: Id,
    pub(crate) hi: Id,
    pub(crate) step: Id,
}

/// What loops run over that are folds of the graph: bounds, in one region and one state of memory. Loops that agree in all of it share the
/// index, hence the reads and the work of their bodies.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// The region of the loops that are made of it: none of the kernel, but one behind the last of them.
    pub(crate) region: Region,
    /// The index: that of the first loop.
    pub(crate) index: Value,
    /// The loops of the kernel, in order.
    pub(crate) loops: Vec<Inst>,
    /// The range itself, and those of the folds in its loops.
    pub(crate) inner: u64,
}

/// A store whose elements nothing has written since.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// View, then indices.
    pub(crate) place: Kids,
    pub(crate) value: Id,
    pub(crate) mask: Option<Id>,
}

/// What nodes alone do not say: the pool, events, loops, stores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) pool: Pool,
    /// The event that makes each leaf.
    pub(crate) leaf_event: SecondaryMap<Value, u32>,
    /// The range of each leaf that is its index.
    pub(crate) leaf_range: SecondaryMap<Value, Option<u32>>,
    /// The ranges of folds.
    pub(crate) ranges: Vec<Range>,
    /// The region of each event.
    pub(crate) event_region: Vec<Region>,
    /// The event that opens each epoch; epoch 0 is that of pure ops.
    pub(crate) epoch_event: Vec<u32>,
    /// The range in whose loops each epoch is.
    pub(crate) epoch_range: Vec<Option<u32>>,
    /// The stores that are still to be read in each epoch, the last one at the end.
    pub(crate) epoch_stores: Vec<Vec<Stored>>,
    /// Loops by their index.
    pub(crate) loops: SecondaryMap<Value, Option<Loop>>,
    /// Every equality in order, where an explanation is wanted.
    pub(crate) log: Option<Vec<Event>>,
}

/// All values of an integer type, `i1` included.
pub(crate) fn full_range(elem: Scalar) -> (i64, i64) {
    match elem.bits() {
        1 => (0, 1),
        b @ 2..=63 => (-(1 << (b - 1)), (1 << (b - 1)) - 1),
        _ => (i64::MIN, i64::MAX),
    }
}

pub(crate) fn as_int(l: Option<Literal>) -> Option<i64> {
    match l {
        Some(Literal::Int(i)) => Some(i),
        Some(Literal::Float(_)) | None => None,
    }
}

/// Notes an event, if an explanation is wanted.
pub(crate) fn note(graph: &mut Graph, event: Event) {
    if let Some(log) = &mut graph.analysis.log {
        log.push(event);
    }
}

/// Reads of a graph that rules make.
pub(crate) trait Read {
    /// Facts of a class.
    fn fact(&self, id: Id) -> &Fact;
    /// Type of a class.
    fn ty(&self, id: Id) -> &Type;
    /// The first node of an op in a class.
    fn get(&self, id: Id, op: Op) -> Option<&Node>;
    /// Attributes of a node.
    fn attrs(&self, node: &Node) -> &[Attr];
    /// The integer that every element equals.
    fn int(&self, id: Id) -> Option<i64>;
    /// The float that every element equals.
    fn float(&self, id: Id) -> Option<f64>;
    /// The type of a node's result.
    fn node_ty(&self, node: &Node) -> &Type;
    /// True if each element of a node's result follows from the operands' at the same place.
    fn is_elementwise(&self, node: &Node) -> bool;
}

impl Read for Graph {
    fn fact(&self, id: Id) -> &Fact {
        &self[id].data
    }
    fn ty(&self, id: Id) -> &Type {
        self.analysis.pool.ty(self[id].data.ty)
    }
    fn get(&self, id: Id, op: Op) -> Option<&Node> {
        self[id].nodes.iter().find(|n| n.op() == Some(op))
    }
    fn attrs(&self, node: &Node) -> &[Attr] {
        match node.head {
            Head::Op { attrs, .. } => self.analysis.pool.attrs(attrs),
            Head::Leaf { .. } | Head::Fold { .. } | Head::State { .. } => &[],
        }
    }
    fn int(&self, id: Id) -> Option<i64> {
        as_int(self[id].data.value)
    }
    fn float(&self, id: Id) -> Option<f64> {
        match self[id].data.value {
            Some(Literal::Float(bits)) => Some(f64::from_bits(bits)),
            Some(Literal::Int(_)) | None => None,
        }
    }
    fn node_ty(&self, node: &Node) -> &Type {
        self.analysis.pool.ty(node.ty())
    }
    fn is_elementwise(&self, node: &Node) -> bool {
        node.kids.first().is_some_and(|&k| self.analysis.elementwise(node, self[k].data.ty))
    }
}

/// True for ops that stay where they are: they read memory or check a promise.
pub(crate) fn pinned(op: Op) -> bool {
    use tilelift_ir::Effects::{AsyncReads, AsyncUpdates, AsyncWrites, Control, Observes, Pure, Reads, Shared, Updates, Writes};
    match op.info().effects {
        Pure => op.info().rule == Rule::Assume,
        Reads => true,
        Writes | Updates | Observes | Control | Shared | AsyncReads | AsyncWrites | AsyncUpdates => false,
    }
}

/// True for ops whose region combines elements: without effects, but kept in the skeleton as control is, for the sake of the region.
pub(crate) fn combining(op: Op) -> bool {
    op.info().effects == Effects::Pure && op.info().regions > 0
}

/// The bit of a range in a set of them.
pub(crate) fn bit(range: Option<u32>) -> u64 {
    range.map_or(0, |r| 1 << r)
}

impl Context {
    /// The event that makes a node, whatever its operands are, and the ranges to which it belongs.
    pub(crate) fn own(&self, node: &Node) -> (u32, u64) {
        match node.head {
            Head::Leaf { value, .. } => (self.leaf_event[value], bit(self.leaf_range[value])),
            Head::Op { epoch, .. } => (self.epoch_event[epoch as usize], bit(self.epoch_range[epoch as usize])),
            Head::Fold { .. } => (0, 0),
            Head::State { range, .. } => (0, bit(Some(range))),
        }
    }

    /// True for a read in the loops of a range, in which it stands where it is used.
    pub(crate) fn floats(&self, node: &Node) -> bool {
        self.epoch_range[node.epoch() as usize].is_some()
    }

    /// True if each element of a node follows from the operands' at its place; `operand` is the type of the first.
    pub(crate) fn elementwise(&self, node: &Node, operand: TypeId) -> bool {
        node.op().is_some_and(|op| op.is_elementwise(self.pool.ty(operand).elem(), self.pool.ty(node.ty()).elem()))
    }
}
