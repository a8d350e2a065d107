//! Machine programs: instructions of the chip in blocks, with virtual registers before allocation and physical ones behind it.
//!
//! ```text
//! lane::Program ── select ─► Program (virtual registers) ── allocate ─► Program (physical registers) ── waits, hazards ─► text, bytes
//! ```
//!
//! Blocks stand in the order in which they are printed; a block without a branch at its end falls through to the next. Each wavefront has one
//! program counter: branches are scalar, and lanes that do not take part are switched off in `exec`. A register that is written while lanes
//! are switched off keeps its old value in those lanes: what is alive across such a write stays alive.

mod inst;
mod program;
mod reg;
mod verify;

pub use crate::isa::Fixed;
pub use inst::{Block, BlockData, Dpp, Inst, Mods, Operand, Part, Rest, Sdwa};
pub use program::{ArgKind, Entry, KernArg, Program, ScratchSetup, Spilled};
pub use reg::{File, Reg, Span, VReg, VRegData};
pub use verify::{MirError, MirProblem, verify};
