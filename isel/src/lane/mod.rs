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
//! Nothing here names a vendor: what a machine offers stands in [`crate::Target`].
//! [`Roles`] and [`Unit`] are for warps that go their own ways and for the machinery beside them.

mod build;
mod choice;
mod fold;
pub(crate) mod interp;
mod launch_order;
mod place;
pub(crate) mod print;
mod rings;
mod sink;
mod sweep;
mod traffic;
mod unit;
mod verify;
pub(crate) mod visit;

pub(crate) use build::SPARE;
pub use build::{LaneBuilder, RoleSpec};
pub(crate) use fold::{eval_cmp, eval_int};
pub use interp::{LaneArg, LaneError, LaneFault, LaneOptions, LaneStats, Space, interpret};
pub(crate) use launch_order::{overlap_launches, touches_global};
pub use rings::by_slots;
pub use traffic::Traffic;
pub use unit::{GroupOperand, LeftOperand, Multiply, Panels, Place, Reduction, Role, Roles, Unit, panel_byte};
pub(crate) use verify::entry_registers;
pub use verify::{LaneProblem, LaneVerifyError, verify};

use crate::target::MatrixId;
use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;
use std::fmt;
use tilelift_ir::{AtomicOp, CacheHint, CmpOp, GridAxis, MemoryOrder, Scalar, Scope};

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
    pub span: u32,
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

/// One-operand operations; meanings as the tile ops of the same name. The last four are for machines that convert codes, see
/// [`crate::Target::code_casts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum UnOp {
    Neg,
    Abs,
    Not,
    Exp,
    Exp2,
    Log,
    Log2,
    Sqrt,
    Rsqrt,
    Tanh,
    Floor,
    Ceil,
    Round,
    Trunc,
    Rcp,
    Sin,
    Cos,
    Erf,
    Popcount,
    Clz,
    /// An `f32` rounded to the nearest `bf16`.
    RoundBf16,
    /// The code of the `f8e4m3` nearest to the `f32` of those bits, infinities becoming the largest number; `i32` only, as the next three.
    EncodeE4M3,
    /// As [`UnOp::EncodeE4M3`], for `f8e5m2`; it saturates, too.
    EncodeE5M2,
    /// The bits of the `f32` that the code of an `f8e4m3` stands for; upper bits of the code do not matter.
    DecodeE4M3,
    /// As [`UnOp::DecodeE4M3`], for `f8e5m2`.
    DecodeE5M2,
}

/// Two-operand operations; meanings as the tile ops of the same name (division by zero, wide shifts and NaN included).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Minimum,
    Maximum,
    MinNum,
    MaxNum,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    DivU,
    RemU,
    MulHi,
    MulHiU,
    MinimumU,
    MaximumU,
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

/// An instruction. Results come first; every value is defined once.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // the fields are named in each variant's text
pub enum Inst {
    /// A value that nobody may look at: the accumulator of a multiplication that does not read it.
    Undefined { dst: LVal },
    /// A literal: its bits, in the low bits (integers are sign-extended to 64; `i1` is 0 or 1).
    Const { dst: LVal, bits: u64 },
    /// Launch parameter number `index`.
    Param { dst: LVal, index: u32 },
    /// Where the lane stands; `i32`.
    Special { dst: LVal, what: Special },
    /// The byte address of an allocation in shared memory; `i32`.
    SharedAddr { dst: LVal, alloc: AllocId },
    /// `op a`; operand and result have one type.
    Un { dst: LVal, op: UnOp, a: LVal },
    /// `a op b`; operands and result have one type.
    Bin { dst: LVal, op: BinOp, a: LVal, b: LVal },
    /// `a * b + c` with one rounding, as the tile op `fma`; for `i32` and `i64` the wrapping `a * b + c`.
    Fma { dst: LVal, a: LVal, b: LVal, c: LVal },
    /// `i64`: sign-extended `i32` a times sign-extended `i32` b plus `i64` c.
    MadWide { dst: LVal, a: LVal, b: LVal, c: LVal },
    /// Comparison of two values of one type; `i1`.
    Cmp { dst: LVal, op: CmpOp, a: LVal, b: LVal },
    /// `c ? a : b`.
    Select { dst: LVal, c: LVal, a: LVal, b: LVal },
    /// Quotients of several pairs of `f32`, each as `Bin` has it, in lanes that run together: what one check may decide for all of them
    /// is checked once.
    Divide { dsts: Vals, a: Vals, b: Vals },
    /// Conversion by value between the types of `a` and `dst`, as the tile op `cast`.
    Cvt { dst: LVal, a: LVal },
    /// Rounds an `f32` to tf32 (nearest, ties away), kept in an `f32`.
    RoundTf32 { dst: LVal, a: LVal },
    /// The same bits under another type of that width.
    Bitcast { dst: LVal, a: LVal },
    /// Two 16-bit or four 8-bit values into a `b32`, low bits first.
    Pack { dst: LVal, parts: Vals },
    /// A `b32` into two 16-bit or four 8-bit values, low bits first.
    Unpack { dsts: Vals, a: LVal },
    /// Reads `dsts.len()` consecutive values of one type (1, 2 or 4; at most 16 bytes, aligned to their total) at `addr + offset`
    /// bytes. Where the guard is false nothing is read and the results are `other` (zeros if absent).
    LoadGlobal { dsts: Vals, addr: LVal, offset: i32, guard: Option<LVal>, other: Vals, cache: CacheHint },
    /// Writes consecutive values, as `LoadGlobal` reads them.
    StoreGlobal { srcs: Vals, addr: LVal, offset: i32, guard: Option<LVal>, cache: CacheHint },
    /// Updates one value in memory; see [`Atomic`].
    Atomic(Box<Atomic>),
    /// Reads consecutive values from shared memory at `addr + offset` bytes.
    LoadShared { dsts: Vals, addr: LVal, offset: i32 },
    /// Writes consecutive values to shared memory.
    StoreShared { srcs: Vals, addr: LVal, offset: i32, guard: Option<LVal> },
    /// Loads 1, 2 or 4 matrices of 8 by 8 16-bit elements from shared memory: lanes 8q to 8q+7 give the addresses of the 16-byte
    /// rows of matrix q; result q of lane l holds elements (row l/4, columns 2(l%4) and +1), or with `trans` the elements
    /// (rows 2(l%4) and +1, column l/4), of matrix q. Results are `b32`.
    LoadMatrix { dsts: Vals, addr: LVal, offset: i32, trans: bool },
    /// Starts copying `bytes` (4, 8 or 16) bytes from global to shared memory, aligned to their number; where `valid` is given and false, zeros
    /// are written and nothing is read. Complete for the lane at the [`Inst::WaitCopies`] that covers its group.
    CopyAsync { shared: LVal, offset: i32, global: LVal, global_offset: i32, bytes: u32, valid: Option<LVal> },
    /// Closes the lane's group of copies started since the last close; the group may be empty.
    CommitCopies,
    /// Waits until all but the newest `pending` groups of the lane are complete.
    WaitCopies { pending: u32 },
    /// Waits for all lanes of the program instance; orders their memory accesses.
    Barrier,
    /// Stops the launch with an error in a lane where the condition does not hold.
    Assert { condition: LVal },
    /// The value that another lane of the warp holds; 32-bit types only.
    Shuffle { dst: LVal, a: LVal, from: ShuffleFrom },
    /// A matrix instruction of the target: fragments in the order of the target's table, packed into `b32` where elements are narrower than 32 bits.
    Matrix { dsts: SmallVec<[LVal; 16]>, instr: MatrixId, a: Vals, b: Vals, c: SmallVec<[LVal; 16]> },
    /// `for iv in lo..hi step step` (signed; the step is positive).
    For(Box<For>),
    /// Repeats while the first block's condition holds.
    While(Box<While>),
    /// Runs one of two blocks.
    If(Box<If>),
    /// What asynchronous units do.
    Unit(Box<Unit>),
    /// Warps go their own ways; the last instruction of a program.
    Roles(Box<Roles>),
}

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
