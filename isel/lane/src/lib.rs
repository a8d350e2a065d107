//! The lane IR: what one lane of a warp runs.
//!
//! ```text
//! Program ── params: [Param]     the launch ABI, in order
//!         ├─ allocs: [Alloc]     shared memory, placed by lifetime
//!         └─ body: Block = [Inst]     SSA, structured control (for, while, if own blocks)
//! ```
//!
//! Every value is a scalar of one lane; a tile value is spread over lanes and registers by its layout before it comes here.
//! Control flow is uniform over the program instance: conditions and bounds are the same in every lane.
//! Cross-lane instructions ([`Inst::Shuffle`], [`Inst::Matrix`], [`Inst::LoadMatrix`], [`Inst::Barrier`]) are executed by every lane.
//! Nothing here names a vendor: what a machine offers stands in [`Target`].
//! [`Roles`] and [`Unit`] are for warps that go their own ways and for the machinery beside them.

#![deny(missing_docs)]

pub mod abi;
mod build;
mod choice;
mod fold;
pub mod hash;
mod inst;
mod interp;
mod launch_order;
mod machine;
mod nest;
pub mod number;
mod op;
mod place;
mod print;
mod registers;
mod rings;
mod sink;
mod sweep;
mod table;
pub mod testing;
mod traffic;
mod unit;
mod verify;
pub mod visit;

pub use build::{Budget, INSTRUCTIONS, LaneBuilder, RoleSpec, SPARE};
pub use fold::{eval_cmp, eval_int};
pub use inst::{Control, Inst, Opcode};
pub use interp::{LaneArg, LaneError, LaneFault, LaneOptions, LaneStats, Space, interpret};
pub(crate) use launch_order::in_order;
pub use launch_order::overlap_launches;
pub use machine::{BulkTensor, Costs, GroupMatrix, GroupMatrixId, Machine, MatrixId, MatrixInstr, RegisterPool, Target, Units};
pub use op::{BinOp, Takes, UnOp};
pub use place::{Life, Room, placed};
pub use print::{inst_brief, inst_text};
pub use registers::{Holder, RegisterError, Registers};
pub use rings::by_slots;
pub use table::{Effect, Kind, Use};
pub use traffic::{Meter, Traffic};
pub use unit::{GroupOperand, Multiply, OperandA, Panels, Place, Reduction, Role, Roles, Unit, UnitCode, panel_byte};
pub use verify::{LaneProblem, LaneVerifyError, verify};

use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;
use std::fmt;
use tilelift_ir::{AtomicOp, CmpOp, GridAxis, MemoryOrder, Scalar, Scope};

/// A value of one lane. Prints as `l12`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LVal(u32);
entity_impl!(LVal, "l");

/// A block of shared memory. Prints as `s3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocId(u32);
entity_impl!(AllocId, "s");

/// The type of a lane value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum LTy {
    /// A number of an element type.
    Num(Scalar),
    /// 32 bits that hold two 16-bit or four 8-bit numbers, low bits first, or a raw word.
    B32,
}

impl LTy {
    /// `i1`, the type of conditions and guards.
    pub const I1: LTy = LTy::Num(Scalar::I1);
    /// `i32`, the type of indices and shared addresses.
    pub const I32: LTy = LTy::Num(Scalar::I32);
    /// `i64`, the type of global addresses.
    pub const I64: LTy = LTy::Num(Scalar::I64);
    /// `f32`.
    pub const F32: LTy = LTy::Num(Scalar::F32);

    /// The type of a lane value that holds a number of an element type: its own, but a byte for the codes of 8-bit floats, on which
    /// lanes do nothing but move them.
    pub const fn holding(elem: Scalar) -> LTy {
        if elem.is_narrow() { LTy::Num(Scalar::I8) } else { LTy::Num(elem) }
    }

    /// Width in bits; 8 for `i1`, which takes a byte in memory.
    pub const fn bits(self) -> u32 {
        match self {
            LTy::Num(s) => s.bytes() * 8,
            LTy::B32 => 32,
        }
    }
    /// Width in bytes.
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }
}

impl fmt::Display for LTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LTy::Num(s) => s.fmt(f),
            LTy::B32 => f.write_str("b32"),
        }
    }
}

/// What a launch parameter carries; the runtime fills parameters from the kernel's arguments by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ParamSource {
    /// Base address of view argument `.0`; type `i64`.
    Pointer(u32),
    /// Extent of dimension `.1` of view argument `.0`; type `i32`. Only dynamic extents are passed.
    Extent(u32, u32),
    /// Stride in elements of dimension `.1` of view argument `.0`; type `i64`. Only dynamic strides of views that declare strides are passed.
    Stride(u32, u32),
    /// Scalar argument `.0`; `i1` is passed as a byte.
    Scalar(u32),
    /// Extent of the launch grid along an axis, of a program whose instances run several grid positions each; type `i32`.
    Grid(GridAxis),
    /// The description of a view for bulk copies, in the machine's own form. No instruction reads it as a value; its type is `i64`.
    Tensor(TensorBox),
}

/// Which boxes of a view bulk copies move. Everything else (address, extents, strides) comes from the launch's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TensorBox {
    /// View argument.
    pub view: u32,
    /// Element type.
    pub elem: Scalar,
    /// Dimensions.
    pub rank: u8,
    /// The view's dimensions, innermost (contiguous) first.
    pub order: [u8; TensorBox::RANK],
    /// Extents of the box in that order.
    pub extents: [u32; TensorBox::RANK],
    /// Bytes of a panel's row; see [`Panels`].
    pub swizzle: u32,
    /// True if `f32` elements are rounded to tf32 on their way.
    pub tf32: bool,
}

impl TensorBox {
    /// Most dimensions.
    pub const RANK: usize = 5;

    /// Bytes of a box.
    pub fn bytes(&self) -> u32 {
        self.extents[..usize::from(self.rank)].iter().product::<u32>() * self.elem.bytes()
    }
}

/// A launch parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Param {
    /// Its type.
    pub ty: LTy,
    /// What it carries.
    pub source: ParamSource,
}

/// A block of shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alloc {
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
    /// Byte offset from the start of shared memory, once placed.
    pub offset: u32,
    /// Bytes of the parts in which roles hand it to one another; 0 for memory of which a role, or a ring, takes care.
    pub grain: u32,
    /// Bytes of its slots, which are used one after the other as a whole: a grain, or several; 0 as the grain.
    pub slot: u32,
    /// What the author of a program that names its memory calls it; else empty.
    pub name: String,
    /// What it is for; appears in comments of the text.
    pub purpose: &'static str,
}

/// Where a lane stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Special {
    /// Lane number in its warp.
    Lane,
    /// Warp number in the program instance.
    Warp,
    /// Position of the program instance on a grid axis.
    ProgramId(GridAxis),
    /// Extent of the grid along an axis.
    NumPrograms(GridAxis),
    /// Number of the running instance, where instances run several grid positions each.
    Worker,
    /// How many such instances run.
    Workers,
    /// Position of the program instance in its cluster.
    ClusterRank,
}

/// Which lane of the warp a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ShuffleFrom {
    /// Own lane number xor the mask.
    Xor(u32),
    /// The lane whose number is the value (`i32`, below the warp size).
    Lane(LVal),
}

/// A list of values, short as a rule.
pub type Vals = SmallVec<[LVal; 4]>;

/// An indivisible update of one value in memory, per lane whose guard holds.
///
/// Each lane with a true guard replaces the value at `addr + offset` bytes. `i32` and `i64` take every update; `f32` and `f64` take
/// `add` and `xchg`; `f16` and `bf16` take `add`. Lanes that meet in one place update it one after the other, in any order.
#[derive(Clone, PartialEq, Debug)]
pub struct Atomic {
    /// The value from before, zero where the guard is false; absent if nobody asks.
    pub dst: Option<LVal>,
    /// What is done.
    pub kind: AtomicKind,
    /// Which memory.
    pub space: Space,
    /// Address: `i64` for global, `i32` for shared memory.
    pub addr: LVal,
    /// Added to the address.
    pub offset: i32,
    /// The operand.
    pub value: LVal,
    /// Where it is false nothing happens.
    pub guard: Option<LVal>,
    /// What else is ordered, for this lane.
    pub order: MemoryOrder,
    /// Among whom the update is indivisible.
    pub scope: Scope,
}

/// What an [`Atomic`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicKind {
    /// An update by the operand.
    Op(AtomicOp),
    /// The operand replaces the value if that equals this one; integers only.
    Cas(LVal),
}

/// Instructions in order.
pub type Block = Vec<Inst>;

/// A counted loop.
#[derive(Clone, PartialEq, Debug)]
pub struct For {
    /// The index, defined in the body.
    pub iv: LVal,
    /// First index.
    pub lo: LVal,
    /// End, exclusive.
    pub hi: LVal,
    /// Increment.
    pub step: LVal,
    /// The first index is known to be below the end: the loop runs at least once.
    pub runs: bool,
    /// Values carried around the loop.
    pub carried: Vec<Carried>,
    /// The body.
    pub body: Block,
}

/// A value carried around a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Its name in the body.
    pub param: LVal,
    /// Its value in front of the loop.
    pub init: LVal,
    /// Its next value, made by the body.
    pub next: LVal,
    /// Its name behind the loop.
    pub result: LVal,
}

/// A loop on a condition. The body sees what the test makes; the carried parameters are seen by both.
#[derive(Clone, PartialEq, Debug)]
pub struct While {
    /// Values carried around the loop.
    pub carried: Vec<Carried>,
    /// Computes the condition from the carried values.
    pub test: Block,
    /// The condition, made by `test`.
    pub condition: LVal,
    /// Runs while the condition holds.
    pub body: Block,
}

/// A choice.
#[derive(Clone, PartialEq, Debug)]
pub struct If {
    /// The condition.
    pub condition: LVal,
    /// Runs if it holds.
    pub then: Block,
    /// Runs if not.
    pub otherwise: Block,
    /// `(result, value of then, value of otherwise)`.
    pub results: Vec<(LVal, LVal, LVal)>,
}

/// A lane program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Kernel name.
    pub name: String,
    /// Launch parameters in order.
    pub params: Vec<Param>,
    /// Warps per program instance.
    pub warps: u32,
    /// Lanes per warp.
    pub lanes: u32,
    /// Program instances, neighbours along x, that form a cluster; 1 without clusters. All lanes of a cluster of several meet at its end.
    pub cluster: u32,
    /// Shared memory.
    pub allocs: PrimaryMap<AllocId, Alloc>,
    /// Bytes of shared memory in all, after placement.
    pub shared_bytes: u32,
    /// Types of the values.
    pub vals: PrimaryMap<LVal, LTy>,
    /// The program.
    pub body: Block,
}

/// True if launch parameters are those of a program whose instances run several grid positions each: it is launched as a row of as many
/// instances as the machine runs at once, but no more than there are positions.
pub fn persistent(params: &[Param]) -> bool {
    params.iter().any(|p| matches!(p.source, ParamSource::Grid(_)))
}

impl Program {
    /// Threads per program instance.
    pub fn threads(&self) -> u32 {
        self.warps * self.lanes
    }

    /// True if an instance runs several positions of the launch grid, one after the other.
    pub fn persistent(&self) -> bool {
        persistent(&self.params)
    }

    /// True if launches of the program begin while the ones in front of them end: see [`Unit::AwaitPrevious`].
    pub fn early_launch(&self) -> bool {
        self.body.iter().any(|i| matches!(i, Inst::Unit(u) if **u == Unit::AwaitPrevious))
    }

    /// The roles, if warps go their own ways.
    pub fn roles(&self) -> Option<&Roles> {
        match self.body.last() {
            Some(Inst::Roles(r)) => Some(r),
            Some(_) | None => None,
        }
    }
}
