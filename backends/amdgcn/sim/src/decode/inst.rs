//! A decoded instruction.

use crate::isa::matrix::{Layout, MatRow};
use crate::isa::memory::{DsRow, MemKind, SmemKind, Space};
use crate::isa::{scalar, vector};
use smallvec::SmallVec;

/// A source operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Src {
    /// Absent.
    No,
    /// A scalar register by its code: SGPRs, VCC, M0, EXEC and their neighbours.
    S(u8),
    /// A VGPR.
    V(u8),
    /// An AGPR.
    A(u8),
    /// An inline constant by its code.
    Inline(u8),
    /// A literal.
    Literal(u32),
    /// A register that the hardware computes, by its code: apertures, VCCZ, EXECZ, SCC.
    Computed(u8),
}

/// Names of scalar registers with codes of their own.
pub(crate) const VCC: u8 = 106;
pub(crate) const M0: u8 = 124;
pub(crate) const EXEC: u8 = 126;
pub(crate) const FLAT_SCRATCH: u8 = 102;

/// A register file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum File {
    S,
    V,
    A,
}

/// What an instruction does with a register, as far as a hazard depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A source or result of no special kind.
    Plain,
    /// A or B of a matrix instruction.
    MatAB,
    /// The addend of a matrix instruction.
    MatC,
    /// Data that a store takes.
    Data,
    /// The source that DPP permutes.
    Dpp,
    /// The lane of `v_readlane` or `v_writelane`.
    LaneSelect,
    /// The vector source of `v_readlane` and `v_readfirstlane`.
    LaneSource,
    /// The VCC of `v_div_fmas`.
    DivFmas,
    /// A tuple that must begin at an even register.
    Tuple,
}

/// Registers that an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub file: File,
    pub first: u16,
    pub count: u8,
    pub write: bool,
    pub role: Role,
}

/// Lanes of the first source, permuted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dpp {
    pub control: u16,
    pub row_mask: u8,
    pub bank_mask: u8,
    /// Lanes out of bounds read zero.
    pub bound_zero: bool,
}

/// Parts of the sources and the destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sdwa {
    pub dst: u8,
    /// 0 zero, 1 sign, 2 keep.
    pub unused: u8,
    pub src: [u8; 2],
    pub sext: [bool; 2],
}

/// An instruction on vector registers.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub row: &'static vector::Row,
    /// A VGPR or AGPR, or an SGPR where the result is a mask or a lane.
    pub dst: u8,
    /// The SGPRs of a carry, or of the mask of a compare.
    pub mask_dst: u8,
    pub src: [Src; 3],
    pub neg: u8,
    pub abs: u8,
    pub omod: u8,
    pub clamp: bool,
    pub op_sel: u8,
    pub op_sel_hi: u8,
    pub neg_hi: u8,
    pub dpp: Option<Dpp>,
    pub sdwa: Option<Sdwa>,
    /// In the long encoding.
    pub long: bool,
}

/// A matrix instruction.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub row: &'static MatRow,
    pub layout: &'static Layout,
    pub dst: (File, u8),
    pub a: (File, u8),
    pub b: (File, u8),
    pub c: Src,
    pub cbsz: u8,
    pub abid: u8,
    pub blgp: u8,
    /// The scales of A and B, and which byte of them.
    pub scales: Option<[(Src, u8); 2]>,
}

/// An instruction on LDS.
#[derive(Clone, Debug)]
pub(crate) struct Ds {
    pub row: &'static DsRow,
    pub offset: [u8; 2],
    pub gds: bool,
    /// Data and destination are AGPRs.
    pub acc: bool,
    pub addr: u8,
    pub data: [u8; 2],
    pub dst: u8,
}

impl Ds {
    /// The 16-bit offset of the instructions that have one.
    pub fn offset16(&self) -> u32 {
        u32::from(self.offset[0]) | u32::from(self.offset[1]) << 8
    }
}

/// A vector instruction on memory.
#[derive(Clone, Debug)]
pub(crate) struct Mem {
    pub name: &'static str,
    pub kind: MemKind,
    pub space: Space,
    pub offset: i32,
    /// Buffer: the offset, or the index, is in a VGPR.
    pub offen: bool,
    pub idxen: bool,
    /// Flat and the like: the address, or the offset, is in a VGPR.
    pub vaddr: Option<u8>,
    /// The scalar base, or the buffer resource.
    pub saddr: Option<u8>,
    pub soffset: Src,
    /// The old value is returned (atomics); cache scope otherwise.
    pub glc: bool,
    /// Of the scope of the device: such accesses synchronise.
    pub coherent: bool,
    /// The data of a buffer load go to LDS.
    pub lds: bool,
    pub acc: bool,
    pub data: u8,
    pub dst: u8,
}

impl Mem {
    /// Dwords of data that are read, or of the result.
    pub fn dwords(&self) -> u8 {
        match self.kind {
            MemKind::Load(l) => l.bytes.div_ceil(4),
            MemKind::Store { bytes, .. } | MemKind::LoadLds { bytes, .. } | MemKind::Atomic { bytes, .. } => bytes.div_ceil(4),
            MemKind::Cache | MemKind::Refused => 0,
        }
    }
}

/// A scalar load.
#[derive(Clone, Debug)]
pub(crate) struct Smem {
    pub name: &'static str,
    pub kind: SmemKind,
    pub base: u8,
    pub dst: u8,
    pub imm: Option<i32>,
    pub soffset: Option<u8>,
}

/// A scalar instruction.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub row: &'static scalar::Row,
    pub dst: u8,
    pub a: Src,
    pub b: Src,
    /// The 16-bit constant, or where a jump goes.
    pub imm: i32,
}

/// What controls the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    Nop(u16),
    End,
    /// Jumps by dwords from the next instruction.
    Branch(i16, Condition),
    Barrier,
    Wait(u16),
    /// The wave's priority becomes this one.
    Priority(u8),
    /// Without effect here: sleep, caches, traces.
    Hint,
    Trap,
    Refused,
}

/// When a branch is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Always,
    Scc(bool),
    /// VCC is zero (true) or not.
    Vccz(bool),
    Execz(bool),
}

/// What an instruction is.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Scalar(Scalar),
    Program(&'static str, Program),
    Smem(Smem),
    Vector(Vector),
    Matrix(Matrix),
    Ds(Ds),
    Mem(Mem),
}

/// A decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub address: u64,
    pub words: SmallVec<[u32; 4]>,
    pub op: Op,
    pub access: SmallVec<[Access; 6]>,
}

impl Inst {
    /// The mnemonic.
    pub fn name(&self) -> String {
        match &self.op {
            Op::Scalar(s) => s.row.name.to_owned(),
            Op::Program(name, _) => (*name).to_owned(),
            Op::Smem(s) => s.name.to_owned(),
            Op::Vector(v) => v.row.name.to_string(),
            Op::Matrix(m) => match m.scales {
                Some(_) => m.row.name.replace("v_mfma_", "v_mfma_scale_"),
                None => m.row.name.to_owned(),
            },
            Op::Ds(d) => d.row.name.to_owned(),
            Op::Mem(m) => format!("{}{}", m.space.prefix(), m.name),
        }
    }

    /// The address of the next instruction.
    pub fn next(&self) -> u64 {
        self.address + 4 * self.words.len() as u64
    }
}
