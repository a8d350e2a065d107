//! Registers: virtual ones and physical ones.

use crate::isa::Fixed;
use cranelift_entity::entity_impl;

/// A virtual register: a run of consecutive 32-bit registers of one file. Prints as `r12`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VReg(u32);
entity_impl!(VReg, "r");

/// A register file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum File {
    /// One value per wavefront, `s0` to `s101`.
    Scalar,
    /// One value per lane, `v0` to `v255`.
    Vector,
    /// One value per lane, `a0` to `a255`: for matrix instructions, moves, and what memory instructions load and store.
    Acc,
}

/// What a virtual register is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VRegData {
    /// Its file.
    pub file: File,
    /// True if the allocator may take the other vector file instead: every instruction that names it accepts both.
    pub either: bool,
    /// 32-bit registers in a row: 1 to 32.
    pub words: u8,
    /// The first one's number is a multiple of this: 1, 2 or 4. Vector tuples of several words are even on these chips.
    pub align: u8,
}

/// A register before or behind allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reg {
    /// Virtual.
    Virtual(VReg),
    /// Physical: the number of the first register of the run that a [`Span`] counts from.
    Physical(File, u16),
    /// One that has a name.
    Fixed(Fixed),
}

/// Consecutive 32-bit words of a register: an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The register.
    pub reg: Reg,
    /// First word, counted from the register's first.
    pub first: u8,
    /// Words.
    pub words: u8,
}

impl Span {
    /// All words of a virtual register.
    pub const fn whole(reg: VReg, words: u8) -> Span {
        Span { reg: Reg::Virtual(reg), first: 0, words }
    }

    /// Physical registers.
    pub const fn physical(file: File, first: u16, words: u8) -> Span {
        Span { reg: Reg::Physical(file, first), first: 0, words }
    }

    /// `vcc`.
    pub const VCC: Span = Span { reg: Reg::Fixed(Fixed::Vcc), first: 0, words: 2 };
    /// `exec`.
    pub const EXEC: Span = Span { reg: Reg::Fixed(Fixed::Exec), first: 0, words: 2 };
    /// `m0`.
    pub const M0: Span = Span { reg: Reg::Fixed(Fixed::M0), first: 0, words: 1 };
    /// `flat_scratch`.
    pub const FLAT_SCRATCH: Span = Span { reg: Reg::Fixed(Fixed::FlatScratch), first: 0, words: 2 };

    /// A part of it: `words` words from `first` on, counted from its own first.
    pub const fn part(self, first: u8, words: u8) -> Span {
        Span { reg: self.reg, first: self.first + first, words }
    }
}
