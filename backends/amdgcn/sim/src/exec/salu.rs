//! Scalar instructions on registers.

use super::{Ctx, Flow};
use crate::decode::inst::{EXEC, Scalar};
use crate::fault::{FaultKind, Result, Use};
use crate::isa::scalar::Special;
use crate::num::ones;

/// The mode register among those of the hardware.
const MODE: u32 = 1;
/// The number of the die; workgroups are dealt to them in turn.
const XCC_ID: u32 = 20;
const XCCS: u32 = 8;

impl Ctx<'_, '_> {
    pub(super) fn salu(&mut self, s: &Scalar) -> Result<Flow> {
        let row = s.row;
        let constant = (i64::from(s.imm) as u64) & 0xffff_ffff;
        let (a, a_defined) = self.scalar(s.a, row.a);
        let (mut b, mut b_defined) = self.scalar(s.b, row.b);
        if row.enc == crate::isa::scalar::Enc::SK {
            b = constant;
        }
        let exec = (self.wave.exec(), self.wave.s64_defined(EXEC));
        match row.special {
            Special::None => {}
            Special::SaveExec | Special::WriteExec => (b, b_defined) = exec,
            Special::DstSource => (b, b_defined) = self.scalar(crate::decode::inst::Src::S(s.dst), row.dst),
            Special::CMov => {
                self.known_scc()?;
                if self.wave.scc {
                    let value = if row.a == 0 { (constant, u64::MAX) } else { (a, a_defined) };
                    self.put(s.dst, row.dst, value);
                }
                return Ok(Flow::Next);
            }
            Special::GetPc => {
                self.put(s.dst, 2, (crate::state::device::CODE_BASE.wrapping_add(self.inst.next()), u64::MAX));
                return Ok(Flow::Next);
            }
            Special::SetPc | Special::SwapPc => {
                if a_defined != u64::MAX {
                    return Err(FaultKind::Undefined { used_as: Use::Address, lane: None });
                }
                if row.special == Special::SwapPc {
                    self.put(s.dst, 2, (crate::state::device::CODE_BASE.wrapping_add(self.inst.next()), u64::MAX));
                }
                return Ok(Flow::Jump(a.wrapping_sub(crate::state::device::CODE_BASE)));
            }
            Special::Call => {
                self.put(s.dst, 2, (crate::state::device::CODE_BASE.wrapping_add(self.inst.next()), u64::MAX));
                return Ok(Flow::Jump(self.inst.next().wrapping_add_signed(4 * i64::from(s.imm))));
            }
            Special::GetReg | Special::SetReg | Special::SetRegImm => return self.hardware_register(s, a),
            Special::Refused => return Err(FaultKind::Unsupported { words: self.inst.words.to_vec() }),
        }
        if row.reads_scc {
            self.known_scc()?;
        }
        let (value, scc) = (row.eval)(a, b, self.wave.scc);
        let width = ones(u32::from(row.dst.max(1)) * 32);
        let all = a_defined == u64::MAX && b_defined == u64::MAX;
        let defined = match (all, row.bitwise) {
            (true, _) => u64::MAX,
            // A bit that another known bit decides is known: all results of both values of the unknown ones are compared.
            (false, true) => {
                let f = |x: u64, y: u64| (row.eval)(x, y, self.wave.scc).0;
                let (a0, a1, b0, b1) = (a & a_defined, a | !a_defined, b & b_defined, b | !b_defined);
                let (p, q, r, t) = (f(a0, b0), f(a0, b1), f(a1, b0), f(a1, b1));
                !((p ^ q) | (p ^ r) | (p ^ t)) | !width
            }
            (false, false) => !width,
        };
        if row.special == Special::SaveExec {
            self.put(s.dst, 2, exec);
        }
        if matches!(row.special, Special::SaveExec | Special::WriteExec) {
            self.wave.set_s64(EXEC, value, defined);
        }
        if row.special != Special::SaveExec && row.dst > 0 {
            self.put(s.dst, row.dst, (value, defined));
        }
        if row.writes_scc {
            self.wave.scc = scc;
            self.wave.scc_defined = all || row.bitwise && value & defined & width != 0;
        }
        Ok(Flow::Next)
    }

    fn known_scc(&self) -> Result<()> {
        if self.wave.scc_defined { Ok(()) } else { Err(FaultKind::Undefined { used_as: Use::Condition, lane: None }) }
    }

    fn put(&mut self, dst: u8, dwords: u8, (value, defined): (u64, u64)) {
        if dwords == 1 {
            self.wave.set_s(dst, value as u32, defined as u32);
        } else {
            self.wave.set_s64(dst, value, defined);
        }
    }

    /// Reads and writes of the mode register; other registers of the hardware are refused, but for reads that give zero.
    fn hardware_register(&mut self, s: &Scalar, value: u64) -> Result<Flow> {
        let imm = s.imm as u32;
        let (id, at, size) = (imm & 63, imm >> 6 & 31, (imm >> 11 & 31) + 1);
        let mask = ones(size) as u32;
        if id == XCC_ID && s.row.special == Special::GetReg {
            self.put(s.dst, 1, (u64::from(self.group % XCCS) >> at & u64::from(mask), u64::MAX));
            return Ok(Flow::Next);
        }
        if id != MODE {
            return Err(FaultKind::UnsupportedField("a register of the hardware other than the mode"));
        }
        if s.row.special == Special::GetReg {
            self.put(s.dst, 1, (u64::from(self.wave.mode >> at & mask), u64::MAX));
            return Ok(Flow::Next);
        }
        self.wave.mode = self.wave.mode & !(mask << at) | (value as u32 & mask) << at;
        if self.wave.mode & 3 != 0 {
            return Err(FaultKind::UnsupportedField("rounding of f32 other than to the nearest"));
        }
        Ok(Flow::Next)
    }
}
