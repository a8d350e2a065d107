//! Local data share, global and scratch memory, buffers.

use super::encoded::{Encoded, Parts};
use super::error::{EncodeReason, Misfit, Modifier};
use super::mods::{none_left, require};
use super::operand::Coded;
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Variant};
use crate::mir::Mods;
use smallvec::SmallVec;

/// The operands of a memory instruction by role.
#[derive(Default)]
struct MemoryRoles {
    /// What is loaded.
    result: Option<Coded>,
    address: Option<Coded>,
    /// What is stored.
    data: SmallVec<[Coded; 2]>,
    /// The scalar part of the address.
    base: Option<Coded>,
    /// The buffer's descriptor.
    descriptor: Option<Coded>,
    /// Bytes beside a buffer's address.
    bytes: Option<Coded>,
}

impl MemoryRoles {
    fn of(p: &Parts) -> Result<MemoryRoles, EncodeReason> {
        let mut roles = MemoryRoles::default();
        for (at, (slot, &coded)) in p.desc.slots.iter().zip(&p.operands).enumerate() {
            match slot.kind {
                Kind::VectorOrAcc | Kind::Vector if slot.access != Access::Use => roles.result = Some(coded),
                Kind::VectorOrAcc | Kind::Vector if roles.address.is_some() || slot.kind == Kind::VectorOrAcc => roles.data.push(coded),
                Kind::Vector | Kind::VectorOrOff | Kind::Address => roles.address = Some(coded),
                Kind::ScalarOrOff => roles.base = Some(coded),
                Kind::Scalar => roles.descriptor = Some(coded),
                _ if matches!(coded, Coded::Literal(_)) => return Err(EncodeReason::Operand(at, Misfit::Literal)),
                _ => roles.bytes = Some(coded),
            }
        }
        Ok(roles)
    }

    /// Whether data are in the accumulation file: all of them, or none.
    fn acc(&self) -> Result<u32, EncodeReason> {
        let mut files = self.data.iter().chain(&self.result).map(|c| c.is_acc());
        let first = files.next().unwrap_or(false);
        if files.any(|other| other != first) {
            return Err(EncodeReason::TwoFiles);
        }
        Ok(first.into())
    }

    fn result(&self) -> u32 {
        self.result.map_or(0, Coded::register)
    }

    fn data(&self, n: usize) -> u32 {
        self.data.get(n).map_or(0, |c| c.register())
    }

    fn address(&self) -> u32 {
        self.address.map_or(0, Coded::register)
    }
}

pub(super) fn lds(p: &Parts) -> Result<Encoded, EncodeReason> {
    let roles = MemoryRoles::of(p)?;
    let mods = &p.inst.mods;
    none_left(&Mods { offset: 0, offset1: 0, ..*mods })?;
    let offsets = if p.desc.form.variant == Variant::TwoOffsets {
        require((0..=255).contains(&mods.offset), Modifier::Offset)?;
        mods.offset as u32 | u32::from(mods.offset1) << 8
    } else {
        require(mods.offset1 == 0, Modifier::Offset1)?;
        require((0..=0xffff).contains(&mods.offset), Modifier::Offset)?;
        mods.offset as u32
    };
    require(mods.offset == 0 || !p.operands.is_empty(), Modifier::Offset)?;
    let low = 0b110110 << 26 | roles.acc()? << 25 | u32::from(p.number) << 17 | offsets;
    Ok(Encoded::new([low, roles.address() | roles.data(0) << 8 | roles.data(1) << 16 | roles.result() << 24]))
}

/// The bits that say how caches treat it. The first one of an atomic says that it returns what was there: its row says that.
fn caches(p: &Parts) -> Result<[u32; 3], EncodeReason> {
    let Mods { sc0, sc1, nt, .. } = p.inst.mods;
    let returns = p.desc.form.variant == Variant::Returns;
    if returns || p.desc.form.variant == Variant::Atomic {
        require(!sc0, Modifier::Sc0)?;
        // Of some of that chip's atomics, LLVM's assembler drops the bit.
        require(!sc1 || p.chip != Chip::Gfx90a, Modifier::Sc1)?;
    }
    Ok([u32::from(sc0 || returns), u32::from(sc1), u32::from(nt)])
}

/// Global and scratch memory.
pub(super) fn flat(p: &Parts) -> Result<Encoded, EncodeReason> {
    let roles = MemoryRoles::of(p)?;
    let mods = &p.inst.mods;
    none_left(&Mods { offset: 0, sc0: false, sc1: false, nt: false, ..*mods })?;
    let scratch = p.desc.form.format == Format::Scratch;
    let by_lane = roles.address.is_some_and(Coded::is_vector);
    let by_wave = matches!(roles.base, Some(Coded::Scalar(..)));
    // Scratch accesses by a scalar register fault where the offset is negative (LLVM: FeatureNegativeScratchOffsetBug of GFX9).
    let least = if scratch && by_wave { 0 } else { -4096 };
    require((least..4096).contains(&mods.offset), Modifier::Offset)?;
    if scratch && p.chip == Chip::Gfx90a && by_lane == by_wave {
        return Err(EncodeReason::Operand(p.operands.len() - 1, Misfit::Kind));
    }
    let [sc0, sc1, nt] = caches(p)?;
    let segment = if scratch { 1 } else { 2 };
    let lane_bit = u32::from(scratch && by_lane && p.chip != Chip::Gfx90a);
    let low = 0b110111 << 26
        | sc1 << 25
        | u32::from(p.number) << 18
        | nt << 17
        | sc0 << 16
        | segment << 14
        | lane_bit << 13
        | mods.offset as u32 & 0x1fff;
    const NO_BASE: u32 = 0x7f;
    let base = if by_wave { roles.base.map_or(NO_BASE, Coded::register) } else { NO_BASE };
    let high = roles.address() | roles.data(0) << 8 | base << 16 | roles.acc()? << 23 | roles.result() << 24;
    Ok(Encoded::new([low, high]))
}

pub(super) fn buffer(p: &Parts) -> Result<Encoded, EncodeReason> {
    let roles = MemoryRoles::of(p)?;
    let mods = &p.inst.mods;
    none_left(&Mods { offset: 0, sc0: false, sc1: false, nt: false, ..*mods })?;
    require((0..4096).contains(&mods.offset), Modifier::Offset)?;
    require(mods.offset == 0 || !p.operands.is_empty(), Modifier::Offset)?;
    let by_lane = u32::from(roles.address.is_some_and(Coded::is_vector));
    let to_lds = u32::from(p.desc.form.variant == Variant::ToLds);
    let [sc0, sc1, nt] = caches(p)?;
    let low =
        0b111000 << 26 | u32::from(p.number) << 18 | nt << 17 | to_lds << 16 | sc1 << 15 | sc0 << 14 | by_lane << 12 | mods.offset as u32;
    // Descriptors begin at a multiple of four.
    let descriptor = roles.descriptor.map_or(0, Coded::register) >> 2;
    let bytes = roles.bytes.map_or(0, Coded::register);
    let data = roles.result() | roles.data(0);
    Ok(Encoded::new([low, roles.address() | data << 8 | descriptor << 16 | roles.acc()? << 23 | bytes << 24]))
}
