//! What is known of `wgmma` operations: registers that they hold, operations of a warpgroup that are not over.

use crate::state::race::Clocks;
use std::collections::VecDeque;

/// What holds a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Hold {
    #[default]
    Free,
    /// Accumulator of a shape: N and bytes of an element.
    Acc(u32, u32),
    A,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lock {
    pub(crate) hold: Hold,
    /// Group ordinal of the newest operation, and that operation.
    pub(crate) ordinal: u32,
    pub(crate) at: u32,
}

/// A warp's side of wgmma.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    pub(crate) locks: Vec<Lock>,
    pub(crate) locked: u32,
    /// Per plane: the newest ordinary instruction that named it (its number in the warp, its index).
    pub(crate) touch: Vec<(u32, u32)>,
    pub(crate) fence: Option<(u32, Box<Clocks>)>,
    /// Groups committed.
    pub(crate) committed: u32,
    pub(crate) waited: u32,
    /// Operations issued.
    pub(crate) issued: u64,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) at: u32,
    /// Which warps have issued it; their operands agree.
    pub(crate) warps: u8,
    pub(crate) a: Option<u64>,
    pub(crate) b: u64,
    pub(crate) scale_d: bool,
    pub(crate) ordinal: u32,
    pub(crate) eye: Option<Box<Clocks>>,
    pub(crate) hb: Vec<u32>,
    pub(crate) computed: bool,
}

/// A warpgroup.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) stream: Option<u32>,
    pub(crate) queue: VecDeque<Pending>,
    /// Number of the first operation in the queue.
    pub(crate) base: u64,
}
