//! A machine program, its arguments, and what it finds when it begins.

use super::inst::{Block, BlockData};
use super::reg::{VReg, VRegData};
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
    /// Registers that allocation keeps elsewhere.
    pub spilled: Spilled,
}

/// Registers of 32 bits that are kept elsewhere between their uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spilled {
    /// Scalar registers, in lanes of vector registers.
    pub scalars: u32,
    /// Vector registers, in the other vector file or in scratch memory.
    pub vectors: u32,
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

impl Program {
    /// Where a kernel finds what it makes the address of its scratch memory of, if it has scratch memory, and the chip has no such address ready.
    pub fn scratch_setup(&self) -> Option<ScratchSetup> {
        let given = self.entry.workgroup.iter().filter(|&&asked| asked).count() as u16;
        (self.chip == Chip::Gfx90a && self.scratch_bytes > 0).then_some(ScratchSetup { base: 2, offset: 4 + given })
    }
}

/// Scalar registers of a kernel that makes the address of its scratch memory itself. The workgroup's numbers are between the two: two registers
/// behind where [`Entry`] says, until the set-up is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScratchSetup {
    /// The first of two with the address of all wavefronts' scratch memory.
    pub base: u16,
    /// The one with the bytes from there to the wavefront's own.
    pub offset: u16,
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
