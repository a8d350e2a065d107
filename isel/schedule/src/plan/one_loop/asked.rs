//! What the parts of the decision are asked of.

use crate::plan::loop_facts::LoopFacts;
use crate::plan::options::LowerOptions;
use crate::plan::ring_layouts::RingLayouts;
use tilelift_ir::{Inst, Kernel, Region, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{GroupMatrixId, Target, Units};

/// A product and its matrix instruction.
pub(super) type GroupProduct = (Inst, GroupMatrixId);

/// A loop, what is known of it, and what is asked for.
#[derive(Clone, Copy)]
pub(in crate::plan) struct Asked<'a> {
    pub kernel: &'a Kernel,
    pub target: &'a Target,
    pub units: &'a Units,
    pub options: &'a LowerOptions,
    pub ring_layouts: &'a RingLayouts,
    /// Views that are written.
    pub written: &'a Set<Value>,
    /// The loop.
    pub main: Inst,
    /// No other loop takes the ring.
    pub sole: bool,
    pub facts: &'a LoopFacts,
}

impl<'a> Asked<'a> {
    /// A step.
    pub fn region(&self) -> Region {
        self.kernel.insts[self.main].regions[0]
    }

    /// The instructions of a step.
    pub fn body(&self) -> &'a [Inst] {
        &self.kernel.regions[self.region()].insts
    }
}
