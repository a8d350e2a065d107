//! What the kernel's beginning leaves in registers.

use crate::mir::{Operand, Span};

/// What the beginning leaves in registers.
#[derive(Default)]
pub(super) struct EntryValues {
    pub params: Vec<Option<Span>>,
    pub lane: Option<Span>,
    /// What names lanes by their distance, for those that loops ask for.
    pub far: Vec<(u32, Span)>,
    pub warp: Option<Span>,
    pub program: [Option<Span>; 3],
    pub grid: [Option<Span>; 3],
}

impl EntryValues {
    /// The lane's number.
    pub(super) fn lane(&self) -> Operand {
        self.lane.map_or(Operand::Imm(0), Operand::Reg)
    }
}
