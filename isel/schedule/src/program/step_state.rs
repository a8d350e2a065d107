//! A step of a mixed loop, while it is written.

use super::staged::StagedState;
use super::write::Arg;
use tilelift_ir::Inst;

/// A step that is being written.
pub(super) struct StepState {
    /// Its number.
    pub step: Arg,
    /// Its index, and the loop's step.
    pub index: Arg,
    pub by: Arg,
    /// What is loaded for the next one, once that has begun.
    pub ahead: Option<Vec<Arg>>,
    /// Its products that have begun.
    pub begun: Vec<Inst>,
    /// The buffers of what lanes store.
    pub buffers: StagedState,
}

impl StepState {
    pub fn new(step: Arg, [index, by]: [Arg; 2]) -> StepState {
        StepState { step, index, by, ahead: None, begun: Vec::new(), buffers: StagedState::default() }
    }
}
