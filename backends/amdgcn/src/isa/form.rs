//! How instructions are encoded.

/// An encoding. [`Format::Vop1`], [`Format::Vop2`] and [`Format::Vopc`] have 32 bits, and 64 with a literal, lanes or parts of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the manuals' names
pub enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3a,
    Vop3b,
    Vop3p,
    Mai,
    Vop3px2,
    Ds,
    Global,
    Scratch,
    Mubuf,
}

/// What a row says beyond its format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// Nothing.
    Plain,
    /// A constant of 32 bits stands behind it, always.
    Literal,
    /// Two offsets of 8 bits, in elements.
    TwoOffsets,
    /// An atomic that returns nothing.
    Atomic,
    /// An atomic that returns what was there: `sc0` is set (on gfx90a `glc`).
    Returns,
    /// A load into local data share.
    ToLds,
    /// A move between vector files.
    Move,
    /// Sources are `f32` or halves.
    Mix,
    /// A and B have the formats that modifiers name.
    Narrow,
    /// Integers that can be clamped.
    Saturates,
    /// Halves of registers can be selected, though sources are no halves.
    Halves,
    /// The byte of the result can be selected: bits 2 and 3 of [`crate::mir::Mods::op_sel`].
    Bytes,
}

/// How a row is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Form {
    /// The format that the row's numbers count in.
    pub format: Format,
    /// The longer format that holds more operands and modifiers, and what the number grows by there.
    pub long: Option<(Format, u16)>,
    /// What else.
    pub variant: Variant,
}

const fn form(format: Format, variant: Variant) -> Form {
    Form { format, long: None, variant }
}

const fn also(format: Format, long: Format, by: u16, variant: Variant) -> Form {
    Form { format, long: Some((long, by)), variant }
}

/// The words of the tables.
pub(super) mod words {
    use super::{Form, Format, Variant, also, form};

    pub const SOP1: Form = form(Format::Sop1, Variant::Plain);
    pub const SOP2: Form = form(Format::Sop2, Variant::Plain);
    pub const SOPC: Form = form(Format::Sopc, Variant::Plain);
    pub const SOPK: Form = form(Format::Sopk, Variant::Plain);
    pub const SOPK_LITERAL: Form = form(Format::Sopk, Variant::Literal);
    pub const SOPP: Form = form(Format::Sopp, Variant::Plain);
    pub const SMEM: Form = form(Format::Smem, Variant::Plain);
    pub const VOP1: Form = also(Format::Vop1, Format::Vop3a, 0x140, Variant::Plain);
    pub const VOP1_BYTE: Form = also(Format::Vop1, Format::Vop3a, 0x140, Variant::Halves);
    pub const VOP1_ONLY: Form = form(Format::Vop1, Variant::Plain);
    pub const VOP2: Form = also(Format::Vop2, Format::Vop3a, 0x100, Variant::Plain);
    pub const VOP2_SAT: Form = also(Format::Vop2, Format::Vop3a, 0x100, Variant::Saturates);
    pub const VOP2_PLAIN: Form = form(Format::Vop2, Variant::Plain);
    pub const VOP2_CARRY: Form = also(Format::Vop2, Format::Vop3b, 0x100, Variant::Saturates);
    pub const VOP2_ONLY: Form = form(Format::Vop2, Variant::Literal);
    pub const VOPC: Form = also(Format::Vopc, Format::Vop3a, 0, Variant::Plain);
    pub const VOP3: Form = form(Format::Vop3a, Variant::Plain);
    pub const VOP3_SAT: Form = form(Format::Vop3a, Variant::Saturates);
    pub const VOP3_HALF: Form = form(Format::Vop3a, Variant::Halves);
    pub const VOP3_BYTE: Form = form(Format::Vop3a, Variant::Bytes);
    pub const VOP3B: Form = form(Format::Vop3b, Variant::Plain);
    pub const VOP3P: Form = form(Format::Vop3p, Variant::Plain);
    pub const VOP3P_MIX: Form = form(Format::Vop3p, Variant::Mix);
    pub const MAI: Form = form(Format::Mai, Variant::Plain);
    pub const MAI_MOVE: Form = form(Format::Mai, Variant::Move);
    pub const MAI_NARROW: Form = form(Format::Mai, Variant::Narrow);
    pub const VOP3PX2: Form = form(Format::Vop3px2, Variant::Narrow);
    pub const DS: Form = form(Format::Ds, Variant::Plain);
    pub const DS2: Form = form(Format::Ds, Variant::TwoOffsets);
    pub const GLOBAL: Form = form(Format::Global, Variant::Plain);
    pub const GLOBAL_LDS: Form = form(Format::Global, Variant::ToLds);
    pub const GLOBAL_ATOM: Form = form(Format::Global, Variant::Atomic);
    pub const GLOBAL_RTN: Form = form(Format::Global, Variant::Returns);
    pub const SCRATCH: Form = form(Format::Scratch, Variant::Plain);
    pub const MUBUF: Form = form(Format::Mubuf, Variant::Plain);
    pub const MUBUF_LDS: Form = form(Format::Mubuf, Variant::ToLds);
    pub const MUBUF_ATOM: Form = form(Format::Mubuf, Variant::Atomic);
    pub const MUBUF_RTN: Form = form(Format::Mubuf, Variant::Returns);
}
