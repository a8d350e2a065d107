//! Decoding of the vector instructions on LDS and memory.

use super::inst::{Ds, Mem, Op, Src};
use super::reader::{DecodeError, Reader, bits};
use crate::chip::Chip;
use crate::isa::memory::{MemKind, Space};

pub(super) fn ds(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let row = r.table.ds(bits(w, 24, 17)).ok_or(DecodeError::Unknown)?;
    let x = r.word()?;
    Ok(Op::Ds(Ds {
        row,
        offset: [bits(w, 7, 0) as u8, bits(w, 15, 8) as u8],
        gds: bits(w, 16, 16) != 0,
        acc: bits(w, 25, 25) != 0,
        addr: bits(x, 7, 0) as u8,
        data: [bits(x, 15, 8) as u8, bits(x, 23, 16) as u8],
        dst: bits(x, 31, 24) as u8,
    }))
}

pub(super) fn flat(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let space = match bits(w, 15, 14) {
        0 => Space::Flat,
        1 => Space::Scratch,
        2 => Space::Global,
        _ => return Err(DecodeError::Unknown),
    };
    let row = r.table.mem(space, bits(w, 24, 18)).ok_or(DecodeError::Unknown)?;
    let x = r.word()?;
    let saddr = bits(x, 22, 16);
    let sve = bits(w, 13, 13) != 0;
    let (mut vaddr, saddr) = (Some(bits(x, 7, 0) as u8), (space != Space::Flat && saddr != 0x7f).then_some(saddr as u8));
    if space == Space::Scratch {
        // MI200 has one of the two; later chips say whether the VGPR counts.
        let used = if r.chip == Chip::Gfx90a { saddr.is_none() } else { sve };
        vaddr = vaddr.filter(|_| used);
    }
    let offset = bits(w, 12, 0);
    let offset = if space == Space::Flat { (offset & 0xfff) as i32 } else { (offset << 19) as i32 >> 19 };
    Ok(Op::Mem(Mem {
        name: row.name,
        kind: row.kind,
        space,
        offset,
        offen: false,
        idxen: false,
        vaddr,
        saddr,
        soffset: Src::No,
        glc: bits(w, 16, 16) != 0,
        coherent: if r.chip == Chip::Gfx90a { bits(w, 16, 16) != 0 } else { bits(w, 25, 25) != 0 },
        lds: matches!(row.kind, MemKind::LoadLds { .. }),
        acc: bits(x, 23, 23) != 0,
        data: bits(x, 15, 8) as u8,
        dst: bits(x, 31, 24) as u8,
    }))
}

pub(super) fn buffer(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let row = r.table.mem(Space::Buffer, bits(w, 24, 18)).ok_or(DecodeError::Unknown)?;
    let x = r.word()?;
    let (offen, idxen, lds) = (bits(w, 12, 12) != 0, bits(w, 13, 13) != 0, bits(w, 16, 16) != 0);
    let kind = match (lds, row.kind) {
        (false, kind) => kind,
        (true, MemKind::Load(l)) if l.bytes <= 4 || r.chip == Chip::Gfx950 && l.bytes >= 12 => {
            MemKind::LoadLds { bytes: l.bytes, signed: l.signed }
        }
        (true, _) => return Err(DecodeError::Unknown),
    };
    let soffset = bits(x, 31, 24);
    if soffset == 255 {
        return Err(DecodeError::Unknown);
    }
    let soffset = if matches!(row.kind, MemKind::Cache) { Src::No } else { r.source(soffset)? };
    Ok(Op::Mem(Mem {
        name: row.name,
        kind,
        space: Space::Buffer,
        offset: bits(w, 11, 0) as i32,
        offen,
        idxen,
        vaddr: (offen || idxen).then_some(bits(x, 7, 0) as u8),
        saddr: Some((bits(x, 20, 16) * 4) as u8),
        soffset,
        glc: bits(w, 14, 14) != 0,
        coherent: if r.chip == Chip::Gfx90a { bits(w, 14, 14) != 0 } else { bits(w, 15, 15) != 0 },
        lds,
        acc: bits(x, 23, 23) != 0,
        data: bits(x, 15, 8) as u8,
        dst: bits(x, 15, 8) as u8,
    }))
}
