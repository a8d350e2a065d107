//! The rows.

/// An instruction. Named as the assembler has it on gfx942, without underscores: `v_add_f32` is `VAddF32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Opcode {
    /// The wavefront ends.
    SEndpgm,
}
