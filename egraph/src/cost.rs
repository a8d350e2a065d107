//! The logical cost of a node: a price per op family times the elements it makes or takes, times how often it runs.
//!
//! The unit is an operation of one lane. A scalar costs every lane of a program the operation, so it counts as many lanes. Prices are
//! those of no particular machine: what they must get right is the order of alternatives that are the same for every machine.

use crate::graph::{Graph, Read};
use crate::language::{Head, Node};
use smallvec::SmallVec;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, Op, Precision, Scalar, Type, Work};

/// Lanes that a program is thought to have.
pub(crate) const LANES: u64 = 128;
/// Prices are in sixteenths, so that cheap ops differ from free ones.
const UNIT: u64 = 16;

/// The family of an op: one row of the price table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Literals, splats, position queries: a register name.
    Free,
    /// Moves that only rename elements.
    Rename,
    /// Adds, compares, bit ops, selects, conversions.
    Simple,
    /// Products of wide integers.
    Product,
    /// Integer quotients.
    Quotient,
    /// Float quotients.
    Division,
    /// Functions of the special unit.
    Function,
    /// Functions of which the special unit does a part.
    Composite,
    /// Moves between lanes.
    Move,
    /// Folds along an axis.
    Fold,
    /// Sorts.
    Sort,
    /// Matrix products, per product of two 16-bit numbers; wider ones in proportion, exact 32 and 64 bits on the lanes.
    Matrix,
    /// Reads of memory.
    Read,
}

/// The price table, in sixteenths of a lane operation per element.
pub const PRICES: &[(Family, u64)] = &[
    (Family::Free, 0),
    (Family::Rename, 4),
    (Family::Simple, UNIT),
    (Family::Product, 2 * UNIT),
    (Family::Quotient, 24 * UNIT),
    (Family::Division, 8 * UNIT),
    (Family::Function, 4 * UNIT),
    (Family::Composite, 10 * UNIT),
    (Family::Move, 6 * UNIT),
    (Family::Fold, 3 * UNIT),
    (Family::Sort, 64 * UNIT),
    (Family::Matrix, 1),
    (Family::Read, 32 * UNIT),
];

/// The parts of a machine that work side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Pipe {
    /// Arithmetic of the lanes.
    Lanes,
    /// The special pipe.
    Functions,
    /// Moves between lanes.
    Exchange,
    /// Matrix products.
    Matrix,
    /// Memory.
    Memory,
}

impl Pipe {
    /// Every pipe.
    pub const ALL: &'static [Pipe] = &[Pipe::Lanes, Pipe::Functions, Pipe::Exchange, Pipe::Matrix, Pipe::Memory];
}

impl Family {
    /// The part of a machine that is busy with it.
    pub fn pipe(self) -> Pipe {
        match self {
            Family::Free | Family::Rename | Family::Simple | Family::Product | Family::Quotient | Family::Division => Pipe::Lanes,
            Family::Function | Family::Composite => Pipe::Functions,
            Family::Move | Family::Fold | Family::Sort => Pipe::Exchange,
            Family::Matrix => Pipe::Matrix,
            Family::Read => Pipe::Memory,
        }
    }
    /// Its price.
    pub fn price(self) -> u64 {
        PRICES.iter().find(|(f, _)| *f == self).map_or(UNIT, |(_, p)| *p)
    }
    /// The family of an op on elements of a type.
    pub fn of(op: Op, elem: Scalar) -> Family {
        match op.info().rule {
            Rule::Explicit | Rule::Index | Rule::Splat | Rule::Assume => Family::Free,
            Rule::Iota | Rule::Held => Family::Rename,
            Rule::Broadcast | Rule::Reshape | Rule::Slice | Rule::Join | Rule::Split | Rule::Concat | Rule::Bitcast => Family::Rename,
            Rule::Transpose | Rule::Flip | Rule::GatherTile => Family::Move,
            Rule::Reduce | Rule::ArgReduce | Rule::Scan | Rule::Histogram => Family::Fold,
            Rule::Sort | Rule::ArgSort | Rule::TopK | Rule::ArgTopK => Family::Sort,
            Rule::Dot | Rule::DotScaled => Family::Matrix,
            Rule::Load | Rule::Gather => Family::Read,
            _ => match op.info().work {
                Some(Work::Division) if elem.is_float() => Family::Division,
                Some(Work::Division | Work::Quotient) => Family::Quotient,
                Some(Work::Product) if elem.is_int() => Family::Product,
                Some(Work::Sign) if elem.is_float() => Family::Rename,
                Some(Work::Rename) => Family::Rename,
                Some(Work::Special(_)) => Family::Function,
                Some(Work::Composite(_)) => Family::Composite,
                Some(Work::Simple | Work::Sign | Work::Product) | None => Family::Simple,
            },
        }
    }
}

fn lanes(ty: &Type) -> u64 {
    match ty {
        Type::Tile(t) => t.elements().max(LANES),
        Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => LANES,
    }
}

/// The cost of running an op once on operands of some types, in sixteenths of a lane's operation.
pub fn price(op: Op, attrs: &[Attr], ty: &Type, kids: &[&Type]) -> u64 {
    let family = Family::of(op, ty.elem());
    let widest = || kids.iter().map(|k| lanes(k)).chain([lanes(ty)]).max().unwrap_or(LANES);
    let amount = match family {
        Family::Matrix => {
            let (elem, depth) = (kids[0].elem(), kids[0].shape().and_then(|s| s.last()).map_or(1, |&k| u64::from(k)));
            let bits = u64::from(elem.bits());
            let exact = elem.is_float() && bits >= 32 && attrs.contains(&Attr::Precision(Precision::Exact));
            let width = if exact { bits * UNIT / 2 } else { bits };
            lanes(ty).saturating_mul(depth).saturating_mul(width) / 16
        }
        Family::Rename | Family::Move | Family::Read => widest().saturating_mul(u64::from(ty.elem().bytes())) / 4,
        Family::Fold | Family::Sort => widest(),
        Family::Free | Family::Simple | Family::Product | Family::Quotient | Family::Division | Family::Function | Family::Composite => {
            // A wide type takes a pair of registers.
            lanes(ty).saturating_mul(u64::from(ty.elem().bits().max(32) / 32))
        }
    };
    let masks = if family == Family::Read { 1 + kids.len() as u64 } else { 0 };
    amount.saturating_mul(family.price()).saturating_add(masks)
}

/// The cost of running a node once.
pub(crate) fn once(g: &Graph, node: &Node) -> u64 {
    let op = match node.head {
        Head::Leaf { .. } | Head::State { .. } => return 0,
        Head::Op { op, .. } => op,
        Head::Fold { op, online, .. } => {
            let ty = g.node_ty(node);
            let scaled = if online { price(Op::Mul, &[], ty, &[ty, ty]) } else { 0 };
            // A matrix product adds by itself.
            let added = op == Op::Add && g.get(node.kids[4], Op::Dot).is_some();
            return scaled + if added { 0 } else { price(op, &[], ty, &[ty, ty]) };
        }
    };
    let kids: SmallVec<[&Type; 6]> = node.kids.iter().map(|&k| g.ty(k)).collect();
    price(op, g.attrs(node), g.node_ty(node), &kids)
}

/// The part of a machine that is busy with a node.
pub(crate) fn pipe(g: &Graph, node: &Node) -> Pipe {
    match node.head {
        Head::Leaf { .. } | Head::State { .. } => Pipe::Lanes,
        Head::Op { op, .. } | Head::Fold { op, .. } => Family::of(op, g.node_ty(node).elem()).pipe(),
    }
}
