//! How layouts go through ops: the one table from which the assignment of layouts, the rules of their search and what authors require follow.
//!
//! ```text
//!            pass: which ops tie tiles            map: where elements go
//!   operands ───────── near side ── forward ──► far side ───────── results
//!                                ◄─ backward ─
//!   result = transpose a        the layout of a, its dimensions permuted
//!   result = add a, b           near side alone: one layout for all three
//!   result = dot a, b, c        near side alone: c and the result; a and b lie as the instruction wants
//! ```
//!
//! [`pass`] is the column of ops, [`passage`] what an instruction makes of it, [`Map`] the linear map between its sides. Who proposes a
//! layout to whom is the affair of [`Tie`] and [`Map::proposes`]; what control carries is in [`carried`].

mod control;
mod map;
#[cfg(test)]
mod tests;

pub use control::{Carried, carried};
pub use map::{Extra, Map, Part};

use crate::entities::{Inst, Value};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::ops::{Attr, Op};
use smallvec::{SmallVec, smallvec};

/// One of an instruction's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Touch {
    /// An operand.
    Operand(usize),
    /// A result.
    Result(usize),
}

impl Touch {
    /// The value.
    pub fn value(self, kernel: &Kernel, inst: Inst) -> Option<Value> {
        let d = &kernel.insts[inst];
        match self {
            Touch::Operand(k) => d.args.get(k).copied(),
            Touch::Result(k) => d.results.get(k).copied(),
        }
    }
}

/// What an op does to the layouts of its tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// It has no tiles, or each lies as it pleases.
    Apart,
    /// It makes a tile of scalars, in any layout.
    Born,
    /// It works element by element.
    Elementwise,
    /// It reads elements of a byte as halves of bytes, or the other way round.
    Packing,
    /// It says where its operand lies, or that this is free.
    Held,
    /// It repeats extents that are 1.
    Broadcast,
    /// It keeps the order of elements under other extents.
    Reshape,
    /// It permutes dimensions.
    Transpose,
    /// It makes a dimension of two tiles.
    Join,
    /// It makes two tiles of a dimension.
    Split,
    /// It puts tiles behind each other.
    Concat,
    /// It takes a part.
    Slice,
    /// It computes along an axis which stays.
    Along,
    /// It computes along an axis which goes.
    Reduce,
    /// It adds to a tile in its place.
    Accumulate,
    /// As `Accumulate`, by a unit that is not done when the instruction is.
    InFlight,
    /// It reads memory; masks and indices lie as what is read.
    Read,
    /// It writes memory; masks and indices lie as what is written.
    Write,
    /// It reads and writes memory, element by element.
    Update,
    /// It reads elements of a tile that another tile names.
    Pick,
    /// It puts elements in order.
    Sort,
    /// It counts elements that a mask names.
    Count,
    /// It carries tiles through regions; see [`carried`].
    Carry,
}

impl Pass {
    /// True if what is computed from a tile stays where the tile lies: what an author requires of it goes on to the result.
    pub const fn stays(self) -> bool {
        match self {
            Pass::Elementwise | Pass::Along | Pass::Accumulate => true,
            // Where a unit leaves what it has in flight is not for authors to say.
            Pass::InFlight => false,
            Pass::Held => false,
            Pass::Apart | Pass::Born | Pass::Packing | Pass::Carry => false,
            Pass::Broadcast | Pass::Reshape | Pass::Transpose | Pass::Join | Pass::Split | Pass::Concat | Pass::Slice => false,
            Pass::Reduce | Pass::Read | Pass::Write | Pass::Update | Pass::Pick | Pass::Sort | Pass::Count => false,
        }
    }
}

/// The column of the op table.
pub const fn pass(op: Op) -> Pass {
    match op {
        elementwise_ops!() => Pass::Elementwise,
        Op::Const | Op::ProgramId | Op::NumPrograms | Op::Dim | Op::Assume => Pass::Apart,
        Op::Iota | Op::Splat => Pass::Born,
        Op::Broadcast => Pass::Broadcast,
        Op::Reshape => Pass::Reshape,
        Op::Transpose => Pass::Transpose,
        Op::Join => Pass::Join,
        Op::Split => Pass::Split,
        Op::Concat => Pass::Concat,
        Op::Slice => Pass::Slice,
        Op::Flip | Op::Scan | Op::ScanReverse | Op::ScanBy | Op::ScanReverseBy => Pass::Along,
        Op::Reduce | Op::ReduceBy | Op::ArgMin | Op::ArgMax => Pass::Reduce,
        Op::Dot | Op::DotScaled => Pass::Accumulate,
        Op::AsyncDot | Op::AsyncDotWait => Pass::InFlight,
        Op::Load | Op::Gather => Pass::Read,
        Op::Store | Op::Scatter => Pass::Write,
        Op::Atomic | Op::AtomicCas => Pass::Update,
        Op::GatherTile => Pass::Pick,
        Op::Sort | Op::ArgSort => Pass::Sort,
        // Fewer elements than there were: they lie anew.
        Op::TopK | Op::ArgTopK => Pass::Apart,
        Op::Histogram => Pass::Count,
        Op::Philox | Op::Assert => Pass::Elementwise,
        Op::RequireLayout | Op::ReleaseLayout => Pass::Held,
        Op::For | Op::While | Op::If => Pass::Carry,
        Op::Prefetch | Op::Print | Op::Yield | Op::Tasks => Pass::Apart,
        Op::LocalAlloc | Op::LocalIndex | Op::LocalSlice | Op::LocalTranspose | Op::LocalReinterpret => Pass::Apart,
        Op::LocalLoad | Op::LocalStore | Op::RemoteLoad | Op::RemoteStore | Op::RemoteStoreAsync => Pass::Apart,
        Op::BarrierAlloc | Op::BarrierIndex | Op::BarrierExpect | Op::BarrierArrive | Op::BarrierWait => Pass::Apart,
        Op::TaskBarrier | Op::NamedBarrierSync | Op::NamedBarrierArrive | Op::FenceAsync | Op::SchedBarrier => Pass::Apart,
        Op::TurnFirst | Op::TurnWait | Op::TurnPass | Op::TurnLast => Pass::Apart,
        Op::AsyncLoad | Op::AsyncStore | Op::AsyncReduce | Op::AsyncStoreWait => Pass::Apart,
        Op::CopyAsync | Op::GatherAsync | Op::CopyAsyncCommit | Op::CopyAsyncWait | Op::CopyAsyncArrive => Pass::Apart,
        Op::ClusterRank | Op::ClusterSize | Op::WorkerId | Op::NumWorkers => Pass::Apart,
        Op::ClusterBarrier | Op::ClusterArrive | Op::ClusterWait | Op::RemoteArrive => Pass::Apart,
        Op::ChannelAlloc | Op::ChannelPut | Op::ChannelGet | Op::ChannelConsumed => Pass::Apart,
    }
}

/// The column for an instruction: a reshape of a scalar makes a tile, a bitcast may change extents.
pub fn pass_at(kernel: &Kernel, inst: Inst) -> Pass {
    let d = &kernel.insts[inst];
    let shape = |list: &[Value]| list.first().and_then(|&v| kernel.ty(v).shape());
    match pass(d.op) {
        Pass::Reshape if tile(kernel, &d.args, 0).is_none() => Pass::Born,
        Pass::Elementwise if d.op == Op::Bitcast && shape(&d.args) != shape(&d.results) => Pass::Packing,
        p => p,
    }
}

/// How the tiles of a side hang together, for who chooses layouts before costs are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// They have one layout.
    One,
    /// Each suits its neighbour.
    Equal,
    /// The first suits the others, which say nothing.
    First,
}

/// Tiles of an instruction whose layouts follow from one another.
#[derive(Clone, PartialEq, Debug)]
pub struct Passage {
    /// What the instruction does to layouts.
    pub pass: Pass,
    /// Tiles with the layout in front of the map.
    pub near: SmallVec<[Touch; 4]>,
    /// Tiles with the layout behind the map; none where it is the same one.
    pub far: SmallVec<[Touch; 4]>,
    /// From the near side to the far one.
    pub map: Map,
    /// Among the tiles of the near side.
    pub tie: Tie,
}

impl Passage {
    /// Both sides' layouts of the instruction as it runs without a move between lanes (or at its own price, where it computes along an
    /// axis), the layout of one of its tiles given. `None` if there are none, or none that this tile could say.
    pub fn lays(&self, touch: Touch, layout: &Layout) -> Option<[Layout; 2]> {
        if self.near.contains(&touch) { self.map.by_near(layout) } else { self.map.by_far(layout) }
    }
}

fn tile<'k>(kernel: &'k Kernel, list: &[Value], n: usize) -> Option<&'k [u32]> {
    list.get(n).and_then(|&v| kernel.ty(v).as_tile()).map(|t| &t.shape[..])
}

/// The dimension that an instruction names.
fn axis(kernel: &Kernel, inst: Inst) -> Option<usize> {
    kernel.insts[inst].attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None })
}

/// What an instruction ties; `None` for what has no tiles that hang together, and for what control carries.
pub fn passage(kernel: &Kernel, inst: Inst) -> Option<Passage> {
    let d = &kernel.insts[inst];
    let is_tile = |t: &Touch| t.value(kernel, inst).is_some_and(|v| kernel.ty(v).as_tile().is_some());
    let operands = || (0..d.args.len()).map(Touch::Operand).filter(is_tile);
    let results = || (0..d.results.len()).map(Touch::Result).filter(is_tile);
    let pass = pass_at(kernel, inst);
    let same = |near: SmallVec<[Touch; 4]>, tie| Some(Passage { pass, near, far: SmallVec::new(), map: Map::Same, tie });
    let over = |map| Some(Passage { pass, near: operands().collect(), far: results().collect(), map, tie: Tie::One });
    let (from, to) = (tile(kernel, &d.args, 0), tile(kernel, &d.results, 0));
    // An operand by its name, behind the tile in whose layout it is wanted.
    let with = |first: Touch, name: &str| {
        let other = kernel.operand(inst, name).first().and_then(|v| d.args.iter().position(|a| a == v));
        [first].into_iter().chain(other.map(Touch::Operand)).filter(is_tile).collect::<SmallVec<[Touch; 4]>>()
    };
    match pass {
        Pass::Apart if d.op == Op::LocalStore && d.args.len() > 2 => same(with(Touch::Operand(1), "mask"), Tie::First),
        Pass::Apart | Pass::Carry => None,
        Pass::Born | Pass::Elementwise | Pass::Along => same(operands().chain(results()).collect(), Tie::One),
        Pass::InFlight if d.op == Op::AsyncDotWait => same(smallvec![Touch::Operand(0), Touch::Result(0)], Tie::One),
        Pass::Accumulate | Pass::InFlight => same(smallvec![Touch::Operand(d.op.factors()?[2]), Touch::Result(0)], Tie::One),
        Pass::Held if d.op == Op::RequireLayout => same(smallvec![Touch::Result(0), Touch::Operand(0)], Tie::First),
        Pass::Held => same(smallvec![Touch::Operand(0), Touch::Result(0)], Tie::Equal),
        Pass::Read if d.op == Op::Load => same(with(Touch::Result(0), "mask"), Tie::First),
        Pass::Write if d.op == Op::Store => {
            let value = kernel.operand(inst, "value").first().and_then(|v| d.args.iter().position(|a| a == v))?;
            same(with(Touch::Operand(value), "mask"), Tie::First)
        }
        // Everything but the view and a scalar `other` has one shape: what is chosen for one suits the others.
        Pass::Read | Pass::Write | Pass::Update => same(operands().chain(results()).collect(), Tie::Equal),
        Pass::Pick => same(smallvec![Touch::Result(0), Touch::Operand(1)], Tie::Equal),
        Pass::Sort => same(smallvec![Touch::Operand(0), Touch::Result(0)], Tie::First),
        Pass::Count => same(with(Touch::Operand(0), "mask"), Tie::First),
        Pass::Transpose => {
            let Some(Attr::Perm(p)) = d.attrs.first() else { return None };
            over(Map::Transpose(p.iter().map(|&x| x as usize).collect()))
        }
        Pass::Reshape => over(Map::Reshape { from: from?.into(), to: to?.into() }),
        Pass::Broadcast => over(Map::Grow(Part::copies(from?, to?))),
        Pass::Reduce => over(Map::Shrink(Part::line(from?, axis(kernel, inst)?))),
        Pass::Join => over(Map::Grow(Part::minor(to?)?)),
        Pass::Split => over(Map::Shrink(Part::minor(from?)?)),
        Pass::Concat => over(Map::Grow(Part::halves(from?, tile(kernel, &d.args, 1)?, to?, axis(kernel, inst)?)?)),
        Pass::Slice => {
            let Some(Attr::Offsets(at)) = d.attrs.first() else { return None };
            match Part::chunk(from?, to?, at)? {
                p if p.dims.is_empty() => same(smallvec![Touch::Operand(0), Touch::Result(0)], Tie::First),
                p => over(Map::Shrink(p)),
            }
        }
        Pass::Packing => match kernel.ty(*d.results.first()?).elem().is_packed() {
            true => over(Map::Grow(Part::bytes(to?)?)),
            false => over(Map::Shrink(Part::bytes(from?)?)),
        },
    }
}
