//! What kind of instruction one is, as hazards see it.

use crate::chip::Chip;
use crate::isa::{Access, Fixed, Format, Opcode};
use crate::mir::{Inst, Part, Rest};

/// Units that multiply matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(super) enum Unit {
    /// Narrow types, and `xf32`.
    Xdl,
    /// `f32`.
    Single,
    /// `f64`.
    Double,
}

/// A kind of instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// A matrix instruction: its unit, and how many passes of four cycles it takes.
    Matrix(Unit, u8),
    /// Any other vector instruction.
    Vector,
    /// An instruction on memory by lanes: global, scratch, buffers, local data share.
    Memory,
    /// Everything else.
    Scalar,
}

/// The kind of an instruction on a chip.
pub(super) fn class(inst: &Inst, chip: Chip) -> Class {
    match inst.op.desc().form.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem => Class::Scalar,
        Format::Ds | Format::Global | Format::Scratch | Format::Mubuf => Class::Memory,
        Format::Mai | Format::Vop3px2 => matrix(inst.op, chip).map_or(Class::Vector, |(unit, passes)| Class::Matrix(unit, passes)),
        _ => Class::Vector,
    }
}

/// Unit and passes of a matrix instruction.
fn matrix(op: Opcode, chip: Chip) -> Option<(Unit, u8)> {
    use Opcode::*;
    let old = chip == Chip::Gfx90a;
    let half = |passes: u8| if old { 2 * passes } else { passes };
    Some(match op {
        VAccvgprReadB32 | VAccvgprWriteB32 => return None,
        VMfmaF32_4x4x1_16bF32 => (Unit::Single, 2),
        VMfmaF32_16x16x1_4bF32 | VMfmaF32_16x16x4F32 => (Unit::Single, 8),
        VMfmaF32_32x32x1_2bF32 | VMfmaF32_32x32x2F32 => (Unit::Single, 16),
        VMfmaF64_4x4x4_4bF64 => (Unit::Double, 4),
        VMfmaF64_16x16x4F64 => (Unit::Double, if chip == Chip::Gfx950 { 16 } else { 8 }),
        VMfmaF32_4x4x4_16bF16 | VMfmaF32_4x4x4_16bBf16 | VMfmaI32_4x4x4_16bI8 => (Unit::Xdl, 2),
        VMfmaF32_16x16x4_4bF16 | VMfmaF32_16x16x4_4bBf16 | VMfmaI32_16x16x4_4bI8 => (Unit::Xdl, 8),
        VMfmaF32_32x32x4_2bF16 | VMfmaF32_32x32x4_2bBf16 | VMfmaI32_32x32x4_2bI8 => (Unit::Xdl, 16),
        VMfmaF32_16x16x16F16 | VMfmaF32_16x16x16Bf16 => (Unit::Xdl, half(4)),
        VMfmaF32_32x32x8F16 | VMfmaF32_32x32x8Bf16 => (Unit::Xdl, half(8)),
        VMfmaI32_16x16x16I8 => (Unit::Xdl, 8),
        VMfmaI32_32x32x8I8 => (Unit::Xdl, 16),
        VMfmaI32_16x16x32I8 | VMfmaF32_16x16x8Xf32 => (Unit::Xdl, 4),
        VMfmaI32_32x32x16I8 | VMfmaF32_32x32x4Xf32 => (Unit::Xdl, 8),
        VMfmaF32_16x16x32Bf8Bf8 | VMfmaF32_16x16x32Bf8Fp8 | VMfmaF32_16x16x32Fp8Bf8 | VMfmaF32_16x16x32Fp8Fp8 => (Unit::Xdl, 4),
        VMfmaF32_32x32x16Bf8Bf8 | VMfmaF32_32x32x16Bf8Fp8 | VMfmaF32_32x32x16Fp8Bf8 | VMfmaF32_32x32x16Fp8Fp8 => (Unit::Xdl, 8),
        VMfmaF32_16x16x32F16 | VMfmaF32_16x16x32Bf16 | VMfmaI32_16x16x64I8 => (Unit::Xdl, 4),
        VMfmaF32_32x32x16F16 | VMfmaF32_32x32x16Bf16 | VMfmaI32_32x32x32I8 => (Unit::Xdl, 8),
        VMfmaF32_16x16x128F8f6f4 | VMfmaScaleF32_16x16x128F8f6f4 => (Unit::Xdl, 8),
        VMfmaF32_32x32x64F8f6f4 | VMfmaScaleF32_32x32x64F8f6f4 => (Unit::Xdl, 16),
        // A matrix instruction that is not listed is taken for the slowest.
        _ => (Unit::Xdl, 16),
    })
}

/// True for transcendental functions.
pub(super) fn is_transcendental(op: Opcode) -> bool {
    use Opcode::*;
    matches!(
        op,
        VExpF32
            | VExpF16
            | VLogF32
            | VLogF16
            | VRcpF32
            | VRcpF16
            | VRcpF64
            | VRcpIflagF32
            | VRsqF32
            | VRsqF16
            | VRsqF64
            | VSqrtF32
            | VSqrtF16
            | VSqrtF64
            | VSinF32
            | VSinF16
            | VCosF32
            | VCosF16
            | VExpLegacyF32
            | VLogLegacyF32
    )
}

/// True for products of short vectors.
pub(super) fn is_dot(op: Opcode) -> bool {
    use Opcode::*;
    matches!(
        op,
        VDot2cF32F16 | VDot4cI32I8 | VDot2cF32Bf16 | VDot2F32F16 | VDot2F32Bf16 | VDot4I32I8 | VDot4U32U8 | VDot2I32I16 | VDot2U32U16
    )
}

/// True if results keep some bits or lanes of what was there for reasons other than `exec`.
pub(super) fn keeps_part(inst: &Inst) -> bool {
    let mods = &inst.mods;
    mods.op_sel & 8 != 0
        || mods.dpp.is_some_and(|d| !d.bound_ctrl || d.row_mask != 15 || d.bank_mask != 15)
        || mods.sdwa.is_some_and(|s| s.rest == Rest::Keep && s.dst != Part::Dword)
}

/// True if the instruction writes a part of a register: half of it, or bytes.
pub(super) fn writes_half(inst: &Inst) -> bool {
    let narrow = inst.op.desc().slots.iter().any(|s| s.access == Access::Update && inst.op.desc().form.format == Format::Vop3a);
    let part = inst.mods.sdwa.is_some_and(|s| s.dst != Part::Dword);
    inst.mods.op_sel & 8 != 0 || narrow || part
}

/// True if the instruction loads from memory into local data share.
pub(super) fn fills_lds(inst: &Inst) -> bool {
    let desc = inst.op.desc();
    matches!(desc.form.format, Format::Global | Format::Mubuf) && desc.implicit.iter().any(|i| i.reg == Fixed::M0)
}
