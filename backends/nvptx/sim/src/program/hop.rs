//! Decoded operations of the asynchronous units of sm_90: mbarriers, bulk and tensor copies, wgmma, clusters, register pools.

use crate::program::operand::{Addr, AtomOp, MmaTy, PSrc, Pred, Reg};
use crate::types::Ty;
use smallvec::SmallVec;

/// Memory order of an mbarrier operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sem {
    pub(crate) relaxed: bool,
    /// The scope is the cluster (or wider), not the CTA.
    pub(crate) cluster: bool,
}

/// `mbarrier.arrive` and its relatives.
#[derive(Clone, Debug)]
pub(crate) struct Arrive {
    pub(crate) addr: Addr,
    pub(crate) state: Option<Reg>,
    pub(crate) count: Option<Reg>,
    /// Bytes to expect before the arrival.
    pub(crate) tx: Option<Reg>,
    pub(crate) drop: bool,
    pub(crate) no_complete: bool,
    pub(crate) sem: Sem,
}

/// What an mbarrier wait names: the token of an arrival, or a parity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    State(Reg),
    Parity(Reg),
}

/// `mbarrier.test_wait` and `try_wait`.
#[derive(Clone, Debug)]
pub(crate) struct MbarWait {
    pub(crate) addr: Addr,
    pub(crate) phase: Phase,
    pub(crate) p: Pred,
    pub(crate) suspend: bool,
    pub(crate) sem: Sem,
}

/// One end of a bulk copy.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// Shared memory; the address may name another CTA of the cluster when its space is `Cluster`.
    Shared(Addr),
    Global(Addr),
    /// Tensor map and coordinates, fastest dimension first.
    Tensor(Addr, SmallVec<[Reg; 5]>),
}

/// `cp.async.bulk*` and `cp.reduce.async.bulk*`.
#[derive(Clone, Debug)]
pub(crate) struct Bulk {
    pub(crate) dst: End,
    pub(crate) src: End,
    /// Bytes, for copies without a tensor map.
    pub(crate) size: Option<Reg>,
    /// The mbarrier; without one the copy belongs to a bulk group.
    pub(crate) mbar: Option<Addr>,
    /// 16-bit mask of the CTAs that receive the data.
    pub(crate) multicast: Option<Reg>,
    /// Reduction, and its type when there is no tensor map.
    pub(crate) reduce: Option<(AtomOp, Option<Ty>)>,
}

/// `st.async` and `red.async`.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) addr: Addr,
    pub(crate) vals: SmallVec<[Reg; 4]>,
    pub(crate) ty: Ty,
    pub(crate) mbar: Addr,
    pub(crate) op: Option<AtomOp>,
}

/// Where the A operand of a wgmma is.
#[derive(Clone, Debug)]
pub(crate) enum WgA {
    Regs(SmallVec<[Reg; 4]>),
    Desc(Reg),
}

/// `wgmma.mma_async`, `m64 x n x k`.
#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub(crate) n: u32,
    pub(crate) k: u32,
    /// F16, F32 or S32.
    pub(crate) acc: Ty,
    pub(crate) a_ty: MmaTy,
    pub(crate) b_ty: MmaTy,
    pub(crate) sat: bool,
    pub(crate) d: Vec<Reg>,
    pub(crate) a: WgA,
    pub(crate) b: Reg,
    pub(crate) scale_d: PSrc,
    pub(crate) neg: [bool; 2],
    /// A or B is stored with M (N) as the contiguous dimension.
    pub(crate) mn_major: [bool; 2],
}

/// Fences that are not memory fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProxyFence {
    /// `fence.proxy.async`, for shared and for global memory.
    Async { shared: bool, global: bool },
    /// `fence.mbarrier_init`.
    MbarInit,
}

/// An operation of this module.
#[derive(Clone, Debug)]
pub(crate) enum Hop {
    MbarInit {
        addr: Addr,
        count: Reg,
    },
    MbarInval {
        addr: Addr,
    },
    MbarArrive(Arrive),
    MbarTx {
        addr: Addr,
        bytes: Reg,
        expect: bool,
    },
    MbarWait(MbarWait),
    MbarPending {
        d: Reg,
        state: Reg,
    },
    CpArrive {
        addr: Addr,
        noinc: bool,
    },
    Bulk(Bulk),
    BulkCommit,
    BulkWait {
        n: u32,
        read: bool,
    },
    /// `prefetch.tensormap`: the address must be that of a tensor map.
    PrefetchMap {
        addr: Addr,
    },
    /// `cp.async.bulk.prefetch.tensor`: there must be a map, and a box of it.
    PrefetchBox {
        addr: Addr,
        coords: SmallVec<[Reg; 5]>,
    },
    /// `fence.proxy.tensormap::generic.acquire`.
    FenceMap {
        addr: Addr,
    },
    Fence(ProxyFence),
    WgFence,
    WgCommit,
    WgWait {
        n: u32,
    },
    Wgmma(Wgmma),
    SetMaxNReg {
        inc: bool,
        n: u32,
    },
    ClusterArrive {
        relaxed: bool,
        aligned: bool,
    },
    ClusterWait {
        aligned: bool,
    },
    Mapa {
        d: Reg,
        a: Reg,
        rank: Reg,
        generic: bool,
    },
    GetCtaRank {
        d: Reg,
        a: Reg,
        generic: bool,
    },
    Remote(Remote),
}

/// Does the reduction exist?
pub(crate) fn reduction_ok(op: AtomOp, ty: Ty) -> bool {
    match op {
        AtomOp::Add => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64),
        AtomOp::Min | AtomOp::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64 | Ty::F16 | Ty::Bf16),
        AtomOp::Inc | AtomOp::Dec => ty == Ty::U32,
        AtomOp::And | AtomOp::Or | AtomOp::Xor => matches!(ty, Ty::B32 | Ty::B64 | Ty::U32 | Ty::S32 | Ty::U64),
        AtomOp::Exch | AtomOp::Cas => false,
    }
}
