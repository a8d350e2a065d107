//! What is in flight: one asynchronous operation, until it has landed.

use crate::program::operand::AtomOp;
use crate::state::race::Clocks;
use crate::types::Ty;

/// The other side of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mem {
    Global(u32, u64),
    /// Offset in the source CTA's shared memory.
    Shared(u64),
    /// Out of bounds: the fill element.
    Fill,
    /// Offset in the operation's own data.
    Data(u32),
}

/// Contiguous bytes on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Offset in shared memory: the destination of loads, the source of stores.
    pub(crate) shared: u64,
    pub(crate) mem: Mem,
    pub(crate) len: u32,
}

/// What lands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Into shared memory.
    In,
    /// Out of shared memory into global memory.
    Out,
    /// `cp.async.mbarrier.arrive` of a lane: (lane, ordinal, arrivals).
    Arrive(u8, u32, u8),
}

/// One operation in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) at: u32,
    /// CTA (linear) and warp that issued it, its index in the cluster, and its lane.
    pub(crate) issuer: (u32, u32, u32, u32),
    pub(crate) way: Way,
    pub(crate) segments: Vec<Vec<Run>>,
    /// CTA (linear) on the shared side.
    pub(crate) cta: u32,
    /// CTA (linear) of a shared source.
    pub(crate) from: u32,
    /// CTA (linear) and offset of the mbarrier.
    pub(crate) mbar: Option<(u32, u64)>,
    pub(crate) bytes: u64,
    /// Read stream and ordinal of its bulk group.
    pub(crate) group: Option<(u32, u32)>,
    pub(crate) reduce: Option<(AtomOp, Ty)>,
    pub(crate) fill: Vec<u8>,
    /// `f32` from global memory are rounded to tf32.
    pub(crate) tf32: bool,
    pub(crate) data: Vec<u8>,
    /// The source has been read (stores).
    pub(crate) read: bool,
    /// What its bytes tell of what came before it (asynchronous stores).
    pub(crate) tells: Option<Box<Clocks>>,
}

/// A copy that has passed its checks: what moves, and the global bytes it covers as whole rows.
pub(crate) struct Plan {
    pub(crate) runs: Vec<Run>,
    pub(crate) rows: Vec<(u32, u64, u64)>,
    pub(crate) bytes: u64,
    pub(crate) fill: Vec<u8>,
    /// `f32` are rounded to tf32.
    pub(crate) tf32: bool,
}
