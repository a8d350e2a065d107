//! The language of the e-graph: the op table's pure ops over small integers, and opaque leaves.
//!
//! ```text
//! node = head + children        head = Leaf(value, type)
//!                                    | Op(op, attributes, result type, which result, epoch)
//!                                    | Fold(op, range, online)     lo, hi, step, init, element, and the factor of an online one
//!                                    | State(range, before)        the fold whose value it is
//! ```
//!
//! Types and attribute lists are numbers of a [`Pool`] that belongs to one graph, so that nodes are compared and ordered as
//! integers and no string or global table decides an order. An op that reads memory carries an *epoch*: two loads are equal only
//! within one state of memory and one region; the epoch of a pure op is 0. A new pure op of the table needs no line here.
//!
//! A *fold* is a loop's carried value `acc' = acc op element`; the accumulator is not in the element, which is an ordinary class over the
//! index, a leaf that all loops over one range share. An *online* fold is `acc' = acc * factor + element`. The value of a fold in front of or
//! behind the iteration that runs is a *state*, which elements and factors of online folds are made of.

use egg::{FromOp, Id, Language};
use smallvec::SmallVec;
use std::fmt;
use tilelift_ir::{Attr, Op, Type, Value};

/// A type in a [`Pool`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct TypeId(u32);

/// An attribute list in a [`Pool`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct AttrsId(u32);

/// An attribute list, lead before trail.
pub(crate) type Attrs = SmallVec<[Attr; 1]>;

/// A set whose members have numbers; every node that is made asks for two.
type Numbered<T> = crate::hash::IndexSet<T>;

/// The types and attribute lists of one graph, numbered in order of appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    types: Numbered<Type>,
    attrs: Numbered<Attrs>,
}

impl Pool {
    pub(crate) fn add_type(&mut self, ty: &Type) -> TypeId {
        self.find_type(ty).unwrap_or_else(|| TypeId(self.types.insert_full(ty.clone()).0 as u32))
    }
    pub(crate) fn find_type(&self, ty: &Type) -> Option<TypeId> {
        self.types.get_index_of(ty).map(|i| TypeId(i as u32))
    }
    pub(crate) fn ty(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }
    pub(crate) fn add_attrs(&mut self, attrs: &Attrs) -> AttrsId {
        self.find_attrs(attrs).unwrap_or_else(|| AttrsId(self.attrs.insert_full(attrs.clone()).0 as u32))
    }
    pub(crate) fn find_attrs(&self, attrs: &Attrs) -> Option<AttrsId> {
        self.attrs.get_index_of(attrs).map(|i| AttrsId(i as u32))
    }
    pub(crate) fn attrs(&self, id: AttrsId) -> &Attrs {
        &self.attrs[id.0 as usize]
    }
}

/// What a node is, besides its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Head {
    /// A value that the graph does not look into: a parameter, or the result of an effect or of control.
    Leaf {
        /// The value of the input kernel.
        value: Value,
        /// Its type.
        ty: TypeId,
    },
    /// An op on the children.
    Op {
        /// The op; first, so that nodes of one op are neighbours in a class.
        op: Op,
        /// Presence bits of keyword operands.
        present: u8,
        /// Attributes.
        attrs: AttrsId,
        /// Type of the result.
        ty: TypeId,
        /// Which result of an op that has several.
        result: u8,
        /// State of memory and region of an op that reads; 0 for pure ops.
        epoch: u32,
    },
    /// The last value of `acc = acc op element`, over a range.
    Fold {
        /// How elements are put together.
        op: Op,
        /// The number of its [`Range`](crate::graph::Range).
        range: u32,
        /// The accumulator is multiplied by a factor first.
        online: bool,
        /// Its type.
        ty: TypeId,
    },
    /// What the fold that is its child has come to in the iteration that runs.
    State {
        /// The range of the fold.
        range: u32,
        /// In front of the iteration, not behind it.
        before: bool,
        /// Its type.
        ty: TypeId,
    },
}

/// Heads that rules tell apart when they look for nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A leaf.
    Leaf,
    /// An op.
    Op(Op),
    /// A fold.
    Fold,
    /// A state of a fold.
    State,
}

/// Children of a node.
pub(crate) type Kids = SmallVec<[Id; 3]>;

/// An e-node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Node {
    pub(crate) head: Head,
    pub(crate) kids: Kids,
}

impl Node {
    pub(crate) fn op(&self) -> Option<Op> {
        match self.head {
            Head::Leaf { .. } | Head::Fold { .. } | Head::State { .. } => None,
            Head::Op { op, .. } => Some(op),
        }
    }
    pub(crate) fn ty(&self) -> TypeId {
        match self.head {
            Head::Leaf { ty, .. } | Head::Op { ty, .. } | Head::Fold { ty, .. } | Head::State { ty, .. } => ty,
        }
    }
    pub(crate) fn epoch(&self) -> u32 {
        match self.head {
            Head::Leaf { .. } | Head::Fold { .. } | Head::State { .. } => 0,
            Head::Op { epoch, .. } => epoch,
        }
    }
}

impl Language for Node {
    type Discriminant = Kind;
    fn discriminant(&self) -> Kind {
        match self.head {
            Head::Leaf { .. } => Kind::Leaf,
            Head::Op { op, .. } => Kind::Op(op),
            Head::Fold { .. } => Kind::Fold,
            Head::State { .. } => Kind::State,
        }
    }
    fn matches(&self, other: &Node) -> bool {
        self.head == other.head && self.kids.len() == other.kids.len()
    }
    fn children(&self) -> &[Id] {
        &self.kids
    }
    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.kids
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.head {
            Head::Leaf { value, .. } => value.fmt(f),
            Head::Op { op, .. } => op.fmt(f),
            Head::Fold { op, range, online, .. } => write!(f, "{} {op} range{range}", if online { "online fold" } else { "fold" }),
            Head::State { range, before, .. } => write!(f, "{} range{range}", if before { "before" } else { "after" }),
        }
    }
}

/// Nodes are made from kernels, never from text.
#[derive(Debug)]
pub(crate) struct NotText;

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nodes are not parsed")
    }
}
impl std::error::Error for NotText {}

impl FromOp for Node {
    type Error = NotText;
    fn from_op(_: &str, _: Vec<Id>) -> Result<Node, NotText> {
        Err(NotText)
    }
}
