//! A lane program.

use crate::frame::{Alloc, AllocId, Param, persistent};
use crate::inst::{Block, Inst, Roles};
use crate::pressure::{pressure, sizes};
use crate::text::Names;
use crate::unit::Unit;
use crate::value::{LTy, LVal};
use cranelift_entity::PrimaryMap;

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
    /// Neighbouring positions of the launch grid that an instance stands for, along each axis; launch parameters of the grid count instances.
    pub positions: [u32; 3],
    /// Shared memory.
    pub allocs: PrimaryMap<AllocId, Alloc>,
    /// Bytes of shared memory in all, after placement.
    pub shared_bytes: u32,
    /// Types of the values.
    pub vals: PrimaryMap<LVal, LTy>,
    /// The program.
    pub body: Block,
}

impl Program {
    /// What texts ask of it.
    pub(crate) fn names(&self) -> Names<'_> {
        Names { vals: &self.vals, allocs: &self.allocs }
    }

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

    /// Registers of a lane that its values take where most live at once, in the order in which they stand: an estimate of what an assembler gives it.
    pub fn registers(&self) -> u32 {
        pressure(&self.body, &self.vals, &sizes(&self.body, &self.vals)).most.div_ceil(4)
    }

    /// The roles, if warps go their own ways.
    pub fn roles(&self) -> Option<&Roles> {
        match self.body.last() {
            Some(Inst::Roles(r)) => Some(r),
            Some(_) | None => None,
        }
    }
}
