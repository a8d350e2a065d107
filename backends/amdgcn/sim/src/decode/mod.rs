//! Decoding: dwords of machine code to [`Inst`]. By the encodings' leading bits first, then by the tables of [`crate::isa`].

mod access;
pub(crate) mod inst;
mod memory;
mod print;
mod reader;

pub(crate) use print::wait_counts;
pub(crate) use reader::DecodeError;
mod vector;

use crate::chip::Chip;
use crate::isa::Table;
use crate::isa::scalar::{Enc, Special};
use inst::{Condition, Inst, Op, Program, Scalar, Smem, Src};
use reader::{Reader, bits};
use smallvec::SmallVec;

/// Decodes the instruction at an address; `fetch` gives the dwords of the code.
///
/// # Errors
/// [`DecodeError`], and the dwords that were read.
pub(crate) fn decode(chip: Chip, address: u64, fetch: &dyn Fn(u64) -> Option<u32>) -> Result<Inst, (DecodeError, SmallVec<[u32; 4]>)> {
    let mut r = Reader { fetch, address, words: SmallVec::new(), chip, table: Table::of(chip) };
    let op = match op(&mut r) {
        Ok(op) => op,
        Err(e) => return Err((e, r.words)),
    };
    let access = access::of(&op);
    Ok(Inst { address, words: r.words, op, access })
}

fn op(r: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let w = r.word()?;
    if w >> 31 == 0 {
        return vector::short(r, w);
    }
    match bits(w, 31, 26) {
        0b110000 => smem(r, w),
        0b110100 => vector::long(r, w),
        0b110110 => memory::ds(r, w),
        0b110111 => memory::flat(r, w),
        0b111000 => memory::buffer(r, w),
        _ if bits(w, 31, 30) == 0b10 => scalar(r, w),
        _ => Err(DecodeError::Unknown),
    }
}

fn scalar(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let (enc, op) = match bits(w, 31, 23) {
        0b1_0111_1101 => (Enc::S1, bits(w, 15, 8)),
        0b1_0111_1110 => (Enc::SC, bits(w, 22, 16)),
        0b1_0111_1111 => return program(w),
        _ if bits(w, 31, 28) == 0b1011 => (Enc::SK, bits(w, 27, 23)),
        _ => (Enc::S2, bits(w, 29, 23)),
    };
    let row = r.table.scalar(enc, op).ok_or(DecodeError::Unknown)?;
    let mut s = Scalar { row, dst: bits(w, 22, 16) as u8, a: Src::No, b: Src::No, imm: i32::from(w as u16 as i16) };
    match enc {
        Enc::SK => {
            if row.special == Special::SetRegImm {
                s.a = Src::Literal(r.word()?);
            } else if row.a > 0 {
                s.a = Src::S(s.dst);
            }
            return Ok(Op::Scalar(s));
        }
        Enc::SC => s.dst = 0,
        Enc::S1 | Enc::S2 => {}
    }
    if row.a > 0 {
        s.a = r.source(bits(w, 7, 0))?;
    }
    if row.b > 0 {
        s.b = r.source(bits(w, 15, 8))?;
    }
    if row.dst > 0 && s.dst > 108 && !matches!(s.dst, 124 | 126 | 127) {
        return Err(DecodeError::Unknown);
    }
    Ok(Op::Scalar(s))
}

fn program(w: u32) -> Result<Op, DecodeError> {
    let imm = w as u16;
    let to = |c| Program::Branch(imm as i16, c);
    let (name, p) = match bits(w, 22, 16) {
        0 => ("s_nop", Program::Nop(imm)),
        1 => ("s_endpgm", Program::End),
        2 => ("s_branch", to(Condition::Always)),
        3 => ("s_wakeup", Program::Hint),
        4 => ("s_cbranch_scc0", to(Condition::Scc(false))),
        5 => ("s_cbranch_scc1", to(Condition::Scc(true))),
        6 => ("s_cbranch_vccz", to(Condition::Vccz(true))),
        7 => ("s_cbranch_vccnz", to(Condition::Vccz(false))),
        8 => ("s_cbranch_execz", to(Condition::Execz(true))),
        9 => ("s_cbranch_execnz", to(Condition::Execz(false))),
        10 => ("s_barrier", Program::Barrier),
        11 => ("s_setkill", Program::Refused),
        12 => ("s_waitcnt", Program::Wait(imm)),
        13 => ("s_sethalt", Program::Hint),
        14 => ("s_sleep", Program::Hint),
        15 => ("s_setprio", Program::Priority((imm & 3) as u8)),
        16 => ("s_sendmsg", Program::Refused),
        17 => ("s_sendmsghalt", Program::Refused),
        18 => ("s_trap", Program::Trap),
        19 => ("s_icache_inv", Program::Hint),
        20 => ("s_incperflevel", Program::Hint),
        21 => ("s_decperflevel", Program::Hint),
        22 => ("s_ttracedata", Program::Hint),
        23 => ("s_cbranch_cdbgsys", Program::Refused),
        24 => ("s_cbranch_cdbguser", Program::Refused),
        25 => ("s_cbranch_cdbgsys_or_user", Program::Refused),
        26 => ("s_cbranch_cdbgsys_and_user", Program::Refused),
        27 => ("s_endpgm_saved", Program::Refused),
        28 => ("s_set_gpr_idx_off", Program::Refused),
        29 => ("s_set_gpr_idx_mode", Program::Refused),
        30 => ("s_endpgm_ordered_ps_done", Program::Refused),
        _ => return Err(DecodeError::Unknown),
    };
    Ok(Op::Program(name, p))
}

fn smem(r: &mut Reader<'_>, w: u32) -> Result<Op, DecodeError> {
    let (name, kind) = r.table.smem(bits(w, 25, 18)).ok_or(DecodeError::Unknown)?;
    let x = r.word()?;
    let offset = (bits(x, 20, 0) << 11) as i32 >> 11;
    let (imm, soe) = (bits(w, 17, 17) != 0, bits(w, 14, 14) != 0);
    let soffset = match (soe, imm) {
        (true, _) => Some(bits(x, 31, 25) as u8),
        (false, false) => Some(bits(x, 6, 0) as u8),
        (false, true) => None,
    };
    Ok(Op::Smem(Smem { name, kind, base: (bits(w, 5, 0) * 2) as u8, dst: bits(w, 12, 6) as u8, imm: imm.then_some(offset), soffset }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No dwords make the decoder panic, and what it decodes prints.
    #[test]
    fn any_dwords_decode_or_fail() {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..400_000u32 {
            let mut words = [0u32; 4];
            for w in &mut words {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                *w = x as u32;
            }
            // Favour the rarer encodings.
            if i % 2 == 0 {
                words[0] = words[0] & 0x03ff_ffff | [0xd0, 0xd8, 0xdc, 0xe0, 0xc0, 0xbc, 0xd3, 0x7e][(i / 2 % 8) as usize] << 24;
            }
            for chip in Chip::ALL {
                if let Ok(inst) = decode(chip, 0, &|a| words.get((a / 4) as usize).copied()) {
                    assert!(!inst.to_string().is_empty());
                }
            }
        }
    }
}
