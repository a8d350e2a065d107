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
mod reg;
mod verify;

pub use crate::isa::Fixed;
pub use inst::{Block, BlockData, Dpp, Inst, Mods, Operand, Part, Rest, Sdwa};
pub use reg::{File, Reg, Span, VReg, VRegData};
pub use verify::{MirError, MirProblem, verify};

use crate::chip::Chip;
use cranelift_entity::PrimaryMap;

/// A machine program: one kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Kernel name.
    pub name: String,
    /// The chip.
    pub chip: Chip,
    /// Wavefronts of 64 lanes per workgroup.
    pub waves: u32,
    /// Bytes of local data share.
    pub lds_bytes: u32,
    /// Kernel arguments in order.
    pub args: Vec<KernArg>,
    /// Virtual registers.
    pub vregs: PrimaryMap<VReg, VRegData>,
    /// Blocks in printed order; the first is the entry.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// What the kernel finds in registers when it begins.
    pub entry: Entry,
    /// Bytes of scratch memory per lane, for spills.
    pub scratch_bytes: u32,
}

/// A kernel argument in the argument segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernArg {
    /// Byte offset in the segment, a multiple of the size.
    pub offset: u32,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u32,
    /// What it is.
    pub kind: ArgKind,
}

/// What a kernel argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// A number.
    Value,
    /// The address of a buffer in global memory.
    Pointer,
    /// Workgroups along an axis (0 to 2), which the runtime fills in by itself.
    Workgroups(u8),
}

/// What the kernel finds in registers when it begins: `s[0:1]` is the address of the argument segment, then the numbers of the workgroup that
/// are asked for, in the order x, y, z, each in the next scalar register; `v0` has the lane's number in the workgroup along x in bits 0 to 9.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Which of the workgroup's numbers along x, y, z are asked for.
    pub workgroup: [bool; 3],
}

impl Entry {
    /// The scalar register of the workgroup's number along an axis, if it is asked for.
    pub fn workgroup_sgpr(&self, axis: usize) -> Option<u16> {
        self.workgroup[axis].then(|| 2 + self.workgroup[..axis].iter().filter(|&&asked| asked).count() as u16)
    }
}
