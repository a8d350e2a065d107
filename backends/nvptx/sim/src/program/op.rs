//! The decoded form of a kernel: what the executor runs.
//!
//! Every operand is the index of a *plane*, one value per lane. Immediates, shared-memory symbols and
//! special registers are planes too, filled when a warp starts, so the executor never asks what
//! kind of operand it has. Planes are 32 or 64 bits wide; narrower values sit zero-extended in 32-bit
//! planes; predicates are lane masks in a third file.

use crate::program::operand::{Addr, AtomOp, MmaTy, PSrc, Pred, Reg};
use crate::types::{BoolOp, Cmp, Round, Space, Ty};
use smallvec::SmallVec;

/// Integer operations of two or three operands (and unary ones, which ignore the rest).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IntOp {
    Add,
    Sub,
    MulLo,
    MulHi,
    /// Result is twice as wide as the type.
    MulWide,
    MadLo,
    MadHi,
    MadWide,
    Mul24Lo,
    Mad24Lo,
    Div,
    Rem,
    Abs,
    Neg,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    /// Logical not of C: 1 if zero.
    Cnot,
    Shl,
    Shr,
    Popc,
    Clz,
    Brev,
    /// Position of the most significant non-sign bit.
    Bfind,
    /// Bfind as a shift amount.
    BfindShift,
    Sad,
    /// Bit-field extract (source, position, length).
    Bfe,
    /// `add.sat.s32` and `sub.sat.s32`, `mad.hi.sat.s32`.
    AddSat,
    SubSat,
    Dp4aSS,
    Dp4aSU,
    Dp4aUS,
    Dp4aUU,
}

/// Floating-point operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FltOp {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Abs,
    Neg,
    Min,
    Max,
    /// `.NaN` forms: NaN if either operand is.
    MinNan,
    MaxNan,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Ex2,
    Lg2,
    Tanh,
    /// `testp` is not here: its destination is a predicate.
    Copysign,
}

/// Modifiers of a floating-point operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FMode {
    pub(crate) round: Round,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
}

/// Conversion, one value per lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cvt {
    pub(crate) to: Ty,
    pub(crate) from: Ty,
    pub(crate) round: Round,
    /// Round to an integral value (`.rni` ...), also for float to float.
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    pub(crate) d: Reg,
    pub(crate) s: Reg,
}

/// Memory ordering of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Plain: takes part in races.
    Weak,
    /// `.relaxed`, `.volatile`: does not race with other such accesses.
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

/// `ld` and `st`.
#[derive(Clone, Debug)]
pub(crate) struct MemOp {
    pub(crate) addr: Addr,
    pub(crate) ty: Ty,
    /// One register per vector element.
    pub(crate) regs: SmallVec<[Reg; 4]>,
    pub(crate) order: Order,
    /// The scope of `order` is the CTA.
    pub(crate) cta: bool,
}

/// `atom` and `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub(crate) op: AtomOp,
    pub(crate) ty: Ty,
    pub(crate) addr: Addr,
    /// `None` for `red`.
    pub(crate) d: Option<Reg>,
    pub(crate) b: Reg,
    pub(crate) c: Reg,
    pub(crate) order: Order,
    /// The scope of `order` is the CTA.
    pub(crate) cta: bool,
}

/// `cp.async`.
#[derive(Clone, Debug)]
pub(crate) struct CpAsync {
    pub(crate) dst: Addr,
    pub(crate) src: Addr,
    pub(crate) size: u32,
    /// Bytes to read; the rest is zero-filled.
    pub(crate) src_size: Option<Reg>,
    /// When true for a lane, nothing is read and all bytes are zero.
    pub(crate) ignore: Option<PSrc>,
}

/// `mma.sync`, `m x 8 x k`.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub(crate) m: u32,
    pub(crate) k: u32,
    pub(crate) a_ty: MmaTy,
    pub(crate) b_ty: MmaTy,
    /// F32, F16, S32 or F64; C and D have the same type.
    pub(crate) acc: Ty,
    pub(crate) sat: bool,
    pub(crate) d: SmallVec<[Reg; 4]>,
    pub(crate) a: SmallVec<[Reg; 4]>,
    pub(crate) b: SmallVec<[Reg; 2]>,
    pub(crate) c: SmallVec<[Reg; 4]>,
}

/// `shfl` modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shfl {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `vote` modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

/// Barrier forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BarKind {
    Sync,
    Arrive,
    /// `bar.red.popc`.
    RedPopc,
    RedAnd,
    RedOr,
}

/// One decoded operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Nop,
    Mov {
        d: Reg,
        s: Reg,
    },
    MovP {
        d: Pred,
        s: PSrc,
    },
    /// Concatenates `parts` (least significant first), each `bits` wide.
    Pack {
        d: Reg,
        parts: SmallVec<[Reg; 4]>,
        bits: u32,
    },
    /// Splits; `None` parts are dropped.
    Unpack {
        parts: SmallVec<[Option<Reg>; 4]>,
        s: Reg,
        bits: u32,
    },
    Int {
        op: IntOp,
        ty: Ty,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Lop3 {
        lut: u8,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    /// Funnel shift of {b:a} by c.
    Shf {
        left: bool,
        wrap: bool,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Prmt {
        mode: PrmtMode,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    /// Inserts the low `len` bits of a into b at `pos`.
    Bfi {
        wide: bool,
        d: Reg,
        a: Reg,
        b: Reg,
        pos: Reg,
        len: Reg,
    },
    Flt {
        op: FltOp,
        ty: Ty,
        m: FMode,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Testp {
        what: Testp,
        ty: Ty,
        d: Pred,
        a: Reg,
    },
    Cvt(Cvt),
    /// Two f32 into the codes of two 8-bit floats, `hi` in the upper byte; saturates.
    CvtToCodes {
        ty: MmaTy,
        d: Reg,
        hi: Reg,
        lo: Reg,
    },
    /// The codes of two 8-bit floats into two f16.
    CvtFromCodes {
        ty: MmaTy,
        d: Reg,
        s: Reg,
    },
    /// Two f32 into one packed register, `hi` in the upper half.
    CvtPack {
        to: Ty,
        round: Round,
        relu: bool,
        d: Reg,
        hi: Reg,
        lo: Reg,
    },
    Setp {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        d: Option<Pred>,
        q: Option<Pred>,
        a: Reg,
        b: Reg,
        comb: Option<(BoolOp, PSrc)>,
    },
    /// f16x2 and bf16x2 compare: one predicate per half.
    Setp2 {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        d: Option<Pred>,
        q: Option<Pred>,
        a: Reg,
        b: Reg,
        comb: Option<(BoolOp, PSrc)>,
    },
    Set {
        cmp: Cmp,
        to: Ty,
        ty: Ty,
        ftz: bool,
        d: Reg,
        a: Reg,
        b: Reg,
        comb: Option<(BoolOp, PSrc)>,
    },
    Selp {
        d: Reg,
        a: Reg,
        b: Reg,
        p: PSrc,
    },
    /// `slct`: a if c >= 0 else b; `ty` is the type of c.
    Slct {
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
        ty: Ty,
    },
    LogicP {
        op: BoolOp,
        d: Pred,
        a: PSrc,
        b: PSrc,
    },
    Ld(MemOp),
    St(MemOp),
    Atom(Box<Atom>),
    /// Makes 128 bytes undefined.
    Discard {
        addr: Addr,
    },
    /// Adds (`to_generic`) or removes the shared window.
    Cvta {
        space: Space,
        to_generic: bool,
        d: Reg,
        s: Reg,
    },
    Isspacep {
        space: Space,
        d: Pred,
        a: Reg,
    },
    Bra {
        target: u32,
        uni: bool,
    },
    Exit,
    Trap,
    /// `griddepcontrol.wait`.
    GridWait,
    Bar {
        kind: BarKind,
        id: Reg,
        count: Option<Reg>,
        aligned: bool,
        d: Option<Reg>,
        dp: Option<Pred>,
        p: Option<PSrc>,
    },
    BarWarp {
        mask: Reg,
    },
    Shfl {
        mode: Shfl,
        d: Option<Reg>,
        p: Option<Pred>,
        a: Reg,
        b: Reg,
        c: Reg,
        mask: Reg,
    },
    Vote {
        mode: Vote,
        d: Option<Reg>,
        p: Option<Pred>,
        a: PSrc,
        mask: Reg,
    },
    /// `match.any` (d) and `match.all` (d and p).
    Match {
        all: bool,
        d: Option<Reg>,
        p: Option<Pred>,
        a: Reg,
        mask: Reg,
    },
    Redux {
        op: IntOp,
        ty: Ty,
        d: Reg,
        a: Reg,
        mask: Reg,
    },
    ActiveMask {
        d: Reg,
    },
    Elect {
        d: Option<Reg>,
        p: Pred,
        mask: Reg,
    },
    /// `cta`: the fence publishes to the own CTA only.
    Fence {
        cta: bool,
    },
    CpAsync(Box<CpAsync>),
    CpCommit,
    CpWait {
        n: u32,
    },
    CpWaitAll,
    LdMatrix {
        addr: Addr,
        trans: bool,
        d: SmallVec<[Reg; 4]>,
    },
    StMatrix {
        addr: Addr,
        trans: bool,
        s: SmallVec<[Reg; 4]>,
    },
    MovMatrix {
        d: Reg,
        s: Reg,
    },
    Mma(Box<Mma>),
    /// The asynchronous units of sm_90.
    Hop(Box<crate::program::hop::Hop>),
}

/// `prmt` selection modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PrmtMode {
    Generic,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// `testp` questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Testp {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// An instruction ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) guard: Option<PSrc>,
    pub(crate) op: Op,
    /// Byte range in the source, for reports.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) line: u32,
}

/// Where the value of a constant plane comes from at warp start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    LaneMask(LaneMask),
    SmId,
    NSmId,
    GridId,
    ClusterId(u8),
    NClusterId(u8),
    ClusterCtaId(u8),
    ClusterNCtaId(u8),
    ClusterCtaRank,
    ClusterNCtaRank,
    DynSmemSize,
    TotalSmemSize,
}

/// `%lanemask_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum LaneMask {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

/// A module-level variable in global or constant memory, by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Fill {
    /// Uninitialised register.
    Undefined,
    Const(u64),
    Special(Special),
    /// Address of a shared variable in the CTA's own part of its cluster's window.
    Shared(u64),
    /// Address of module variable `n` plus an offset.
    Global(u32, i64),
}

/// One parameter of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A decoded entry.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) code: Vec<Inst>,
    /// Initial contents of the 32-bit planes, 64-bit planes; number of predicates.
    pub(crate) r: Vec<Fill>,
    pub(crate) d: Vec<Fill>,
    pub(crate) preds: u32,
    /// Predicates that are constant: index and value.
    pub(crate) const_preds: Vec<(u32, bool)>,
    pub(crate) params: Vec<Param>,
    pub(crate) param_bytes: u64,
    pub(crate) static_shared: u64,
    /// Alignment of the extern shared array (1 when there is none).
    pub(crate) dyn_align: u64,
    pub(crate) has_dynamic: bool,
    pub(crate) reqntid: Option<[u32; 3]>,
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) uses_cp_async: bool,
    pub(crate) uses_wgmma: bool,
    /// It has a `griddepcontrol.wait`.
    pub(crate) awaits: bool,
    /// It has a `griddepcontrol` of either kind: its launches overlap, and nothing global is touched in front of the wait.
    pub(crate) overlaps: bool,
    pub(crate) reqcluster: Option<[u32; 3]>,
    pub(crate) maxnreg: Option<u32>,
    pub(crate) minnctapersm: Option<u32>,
    /// Per instruction, the 32-bit planes it names; empty when the kernel has no wgmma.
    pub(crate) touched: Vec<SmallVec<[u32; 4]>>,
}
