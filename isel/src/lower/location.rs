//! Where values are: in registers, in shared memory, in the slots of loops.

use smallvec::SmallVec;
use std::rc::Rc;
use tilelift_ir::layout::{Layout, SharedMap};
use tilelift_lane::{AllocId, LVal};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{BufferLayout, Parts};

/// A tile value spread over registers.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    pub layout: Rc<Layout>,
    pub regs: Vec<LVal>,
}

/// Where a value is.
#[derive(Clone, Debug)]
pub(crate) enum ValueLocation {
    Scalar(LVal),
    Tile(Rc<Tile>),
    Staged(Rc<Staged>),
    /// Local memory, or a part of it.
    Local(Rc<Local>),
    /// Mbarriers.
    Mbarriers(Mbarriers),
}

/// A tile in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    /// Where each element lies, in elements from the base.
    pub map: SharedMap,
    /// Byte address of the map's start.
    pub base: LVal,
    /// The memory it lies in.
    pub alloc: AllocId,
}

impl Staged {
    /// The same memory seen as the transposed tile.
    pub fn transpose(&self, perm: &[usize]) -> Result<Staged, LowerError> {
        Ok(Staged { map: self.map.transpose(perm)?, ..self.clone() })
    }

    /// The same memory seen with other extents.
    pub fn reshape(&self, shape: &[u32]) -> Result<Staged, LowerError> {
        Ok(Staged { map: self.map.reshape(shape)?, ..self.clone() })
    }
}

/// A buffer, or a part of it.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub alloc: AllocId,
    /// Address of the buffer, plus what indices that are not known add to it.
    pub base: LVal,
    pub buffer: Rc<BufferLayout>,
    /// Its dimensions.
    pub parts: Parts,
}

/// Mbarriers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mbarriers {
    /// The first one.
    pub at: LVal,
}

/// How many lane values a carried value takes, and their layout if it is a tile.
pub(crate) struct Slot {
    pub layout: Option<Rc<Layout>>,
    pub count: usize,
}

/// What travels together through a fold: an element, or its key and position.
pub(crate) type Bundle = SmallVec<[LVal; 2]>;
