//! Scalar formats.

use super::encoded::{Encoded, Parts};
use super::error::{EncodeReason, Misfit, Modifier};
use super::mods::{none_left, require};
use super::operand::Coded;
use crate::isa::{Access, Format};
use crate::mir::Mods;

/// The literal of a scalar instruction: all of its literals are the same.
fn literal(operands: &[Coded]) -> Result<Option<u32>, EncodeReason> {
    let mut all = operands.iter().filter_map(|o| if let Coded::Literal(bits) = o { Some(*bits) } else { None });
    let first = all.next();
    if all.any(|other| Some(other) != first) {
        return Err(EncodeReason::TwoLiterals);
    }
    Ok(first)
}

pub(super) fn alu(p: &Parts) -> Result<Encoded, EncodeReason> {
    none_left(&p.inst.mods)?;
    let mut result = 0;
    let mut sources = [0; 2];
    let mut count = 0;
    for (slot, coded) in p.desc.slots.iter().zip(&p.operands) {
        if slot.access == Access::Use {
            sources[count.min(1)] = coded.register();
            count += 1;
        } else {
            result = coded.register();
        }
    }
    let [a, b] = sources;
    let op = u32::from(p.number);
    let word = match p.desc.form.format {
        Format::Sop1 => 0b1_0111_1101 << 23 | result << 16 | op << 8 | a,
        Format::Sopc => 0b1_0111_1110 << 23 | op << 16 | b << 8 | a,
        _ => 0b10 << 30 | op << 23 | result << 16 | b << 8 | a,
    };
    Ok(Encoded::new([word]).behind(literal(&p.operands)?))
}

/// With a constant of 16 bits.
pub(super) fn sopk(p: &Parts) -> Result<Encoded, EncodeReason> {
    none_left(&p.inst.mods)?;
    let mut word = 0b1011 << 28 | u32::from(p.number) << 23;
    for coded in &p.operands {
        match *coded {
            Coded::Field(bits) => word |= bits as u32 & 0xffff,
            Coded::Literal(_) => {}
            other => word |= other.register() << 16,
        }
    }
    Ok(Encoded::new([word]).behind(literal(&p.operands)?))
}

pub(super) fn sopp(p: &Parts) -> Result<Encoded, EncodeReason> {
    none_left(&p.inst.mods)?;
    let word = 0b1_0111_1111 << 23 | u32::from(p.number) << 16;
    Ok(match p.operands.first() {
        Some(&Coded::Field(bits)) => Encoded::new([word | bits as u32 & 0xffff]),
        Some(&Coded::Target(block)) => Encoded::new([word]).to(block),
        _ => Encoded::new([word]),
    })
}

/// Offsets of buffers have no sign.
fn smem_offset(p: &Parts, offset: i64) -> bool {
    let buffer = p.desc.slots.get(1).is_some_and(|s| s.words == 4);
    (if buffer { 0..1 << 20 } else { -(1 << 20)..1 << 20 }).contains(&offset)
}

/// Scalar memory: an offset in a register may have a constant beside it, which is a modifier.
pub(super) fn smem(p: &Parts) -> Result<Encoded, EncodeReason> {
    let Mods { offset, sc0, .. } = p.inst.mods;
    none_left(&Mods { offset: 0, sc0: false, ..p.inst.mods })?;
    let mut low = 0b110000 << 26 | u32::from(p.number) << 18 | u32::from(sc0) << 16;
    let mut high = 0;
    for (at, (slot, coded)) in p.desc.slots.iter().zip(&p.operands).enumerate() {
        match *coded {
            Coded::Field(bits) => {
                require(offset == 0, Modifier::Offset)?;
                if !smem_offset(p, bits) {
                    return Err(EncodeReason::Operand(at, Misfit::Field));
                }
                low |= 1 << 17;
                high |= bits as u32 & 0x1f_ffff;
            }
            _ if slot.access == Access::Def => low |= coded.register() << 6,
            // The base is a pair.
            _ if at == 1 => low |= coded.register() >> 1,
            _ if offset == 0 => high |= coded.register(),
            Coded::Scalar(code, _) => {
                require(smem_offset(p, offset.into()), Modifier::Offset)?;
                low |= 1 << 17 | 1 << 14;
                high |= offset as u32 & 0x1f_ffff | u32::from(code) << 25;
            }
            _ => return Err(EncodeReason::Operand(at, Misfit::Kind)),
        }
    }
    require(offset == 0 || p.operands.len() == 3, Modifier::Offset)?;
    require(!sc0 || p.operands.len() == 3, Modifier::Sc0)?;
    Ok(Encoded::new([low, high]))
}
