//! Instructions on LDS, and those that use its crossbar to move data between lanes.

use super::{Ctx, atomic, lanes};
use crate::check::flight::{Kind, Landing, Pending};
use crate::decode::inst::{Ds, File, M0};
use crate::fault::{FaultKind, Result, Use};
use crate::isa::memory::{Atomic, DsKind, Load, Part};
use crate::num::sext;
use crate::span::{Span, Touch};
use smallvec::{SmallVec, smallvec};

/// The register's value of a loaded element of one or two bytes.
pub(super) fn extended(l: Load, raw: u32, old: u32) -> u32 {
    let bits = 8 * u32::from(l.bytes);
    let v = if l.signed { sext(u64::from(raw), bits) as u32 } else { raw };
    match l.part {
        Part::Whole => v,
        Part::Low => old & 0xffff_0000 | v & 0xffff,
        Part::High => old & 0xffff | v << 16,
    }
}

impl Ctx<'_, '_> {
    pub(super) fn ds(&mut self, d: &Ds) -> Result<()> {
        if d.gds {
            return Err(FaultKind::UnsupportedField("global data share"));
        }
        let exec = self.active()?;
        let file = if d.acc { File::A } else { File::V };
        let dst = self.wave.slot(file, u16::from(d.dst));
        let data = d.data.map(|n| self.wave.slot(file, u16::from(n)));
        let mut spans = Vec::new();
        let mut landing = 0;
        match d.row.kind {
            DsKind::Read(l) => {
                landing = l.bytes.div_ceil(4);
                for lane in lanes(exec) {
                    let at = self.lds_address(d, lane)? + u64::from(d.offset16());
                    self.lds_read(&mut spans, at, l.bytes, align(l.bytes), lane, dst, l)?;
                }
            }
            DsKind::Read2 { bytes, step } => {
                landing = bytes / 2;
                // All lanes' accesses at one distance, then all at the other. What is read may go where the address was.
                let bases = lanes(exec).map(|lane| self.lds_address(d, lane).map(|base| (lane, base))).collect::<Result<Vec<_>>>()?;
                for (i, &o) in d.offset.iter().enumerate() {
                    for &(lane, base) in &bases {
                        let at = base + u64::from(o) * u64::from(step);
                        let l = Load { bytes, signed: false, part: Part::Whole };
                        self.lds_read(&mut spans, at, bytes, u32::from(bytes).min(8), lane, dst + i * usize::from(bytes / 4), l)?;
                    }
                }
            }
            DsKind::Write { bytes, high } => {
                for lane in lanes(exec) {
                    let at = self.lds_address(d, lane)? + u64::from(d.offset16());
                    self.lds_write(&mut spans, at, bytes, align(bytes), lane, data[0], high)?;
                }
            }
            DsKind::Write2 { bytes, step } => {
                for (i, &o) in d.offset.iter().enumerate() {
                    for lane in lanes(exec) {
                        let at = self.lds_address(d, lane)? + u64::from(o) * u64::from(step);
                        self.lds_write(&mut spans, at, bytes, u32::from(bytes), lane, data[i], false)?;
                    }
                }
            }
            DsKind::Atomic { op, bytes, returns } => {
                landing = if returns { bytes / 4 } else { 0 };
                for lane in lanes(exec) {
                    let at = self.lds_address(d, lane)? + u64::from(d.offset16());
                    self.lds_atomic(&mut spans, (op, bytes), at, lane, data, returns.then_some(dst))?;
                }
            }
            DsKind::Swizzle | DsKind::Permute | DsKind::BackPermute => {
                landing = 1;
                self.exchange(d, exec, dst, data[0])?;
            }
            DsKind::ReadAddTid | DsKind::WriteAddTid => {
                let (base, defined) = self.scalar(crate::decode::inst::Src::S(M0), 1);
                if defined != u64::MAX {
                    return Err(FaultKind::Undefined { used_as: Use::M0, lane: None });
                }
                for lane in lanes(exec) {
                    let at = (base & 0xffff) + u64::from(d.offset16()) + 4 * lane as u64;
                    if d.row.kind == DsKind::WriteAddTid {
                        self.lds_write(&mut spans, at, 4, 4, lane, data[0], false)?;
                    } else {
                        landing = 1;
                        self.lds_read(&mut spans, at, 4, 4, lane, dst, Load { bytes: 4, signed: false, part: Part::Whole })?;
                    }
                }
            }
            DsKind::ReadTransposed { bits } => {
                landing = 2;
                self.read_transposed(d, &mut spans, exec, dst, u32::from(bits))?;
            }
            DsKind::Nop => {}
            DsKind::Refused => return Err(FaultKind::Unsupported { words: self.inst.words.to_vec() }),
        }
        self.device.report.lds(self.device.chip, self.inst, &spans, &mut self.wave.cycles);
        let landings: SmallVec<[Landing; 1]> =
            if landing > 0 { smallvec![Landing { vector: true, first: dst as u16, count: landing }] } else { SmallVec::new() };
        self.issue(Pending { id: 0, from: self.inst.address, kind: Kind::Ds, landings, spans, global: Vec::new() });
        Ok(())
    }

    fn lds_address(&self, d: &Ds, lane: usize) -> Result<u64> {
        let n = usize::from(d.addr);
        if self.wave.v_defined[n] >> lane & 1 == 0 {
            return Err(FaultKind::Undefined { used_as: Use::Address, lane: Some(lane as u32) });
        }
        Ok(u64::from(self.wave.v[n][lane]))
    }

    /// Notes an access for races; checks bounds and alignment.
    #[allow(clippy::too_many_arguments)]
    fn touch(&mut self, spans: &mut Vec<Span>, at: u64, bytes: u8, align: u32, lane: usize, touch: Touch, data: &[u8]) -> Result<usize> {
        let address = self.lds.check(at, u32::from(bytes), align, lane as u32)?;
        let span = Span { address: address as u32, len: u16::from(bytes), touch };
        let flight = &self.wave.flight;
        // Reads of this very instruction are not in the flight yet.
        let own = |a: u32| {
            let here = spans.iter().filter(|s| s.touch == Touch::Read && (s.address..s.address + u32::from(s.len)).contains(&a)).count();
            flight.reads_of(a).saturating_add(here.min(255) as u8)
        };
        self.lds.issue(self.wave.index, lane as u32, span, data, &own)?;
        spans.push(span);
        Ok(address)
    }

    #[allow(clippy::too_many_arguments)]
    fn lds_read(&mut self, spans: &mut Vec<Span>, at: u64, bytes: u8, align: u32, lane: usize, slot: usize, l: Load) -> Result<()> {
        let address = self.touch(spans, at, bytes, align, lane, Touch::Read, &[])?;
        let (data, defined) = self.lds.read(address, usize::from(bytes));
        let mut words = [0u32; 4];
        for (i, &b) in data.iter().enumerate() {
            words[i / 4] |= u32::from(b) << (8 * (i % 4));
        }
        if bytes < 4 {
            words[0] = extended(l, words[0], self.wave.v[slot][lane]);
        }
        for (i, &w) in words[..usize::from(bytes.div_ceil(4))].iter().enumerate() {
            self.wave.set_v(slot + i, lane, w, defined);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn lds_write(&mut self, spans: &mut Vec<Span>, at: u64, bytes: u8, align: u32, lane: usize, slot: usize, high: bool) -> Result<()> {
        let mut data = [0u8; 16];
        let mut defined = true;
        for i in 0..usize::from(bytes.div_ceil(4)) {
            let w = self.wave.v[slot + i][lane] >> if high { 16 } else { 0 };
            data[4 * i..4 * i + 4].copy_from_slice(&w.to_le_bytes());
            defined &= self.wave.v_defined[slot + i] >> lane & 1 != 0;
        }
        let data = &data[..usize::from(bytes)];
        let address = self.touch(spans, at, bytes, align, lane, Touch::Write, if defined { data } else { &[] })?;
        self.lds.write(address, data, defined);
        Ok(())
    }

    fn lds_atomic(
        &mut self,
        spans: &mut Vec<Span>,
        (op, bytes): (Atomic, u8),
        at: u64,
        lane: usize,
        data: [usize; 2],
        dst: Option<usize>,
    ) -> Result<()> {
        let address = self.touch(spans, at, bytes, u32::from(bytes), lane, Touch::Atomic, &[])?;
        let (old, mut defined) = self.lds.read(address, usize::from(bytes));
        let old = old.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        let operand = |slot: usize| {
            let w = |i: usize| u64::from(self.wave.v[slot + i][lane]);
            if bytes == 8 { w(0) | w(1) << 32 } else { w(0) }
        };
        let two = matches!(op, Atomic::CmpSwap | Atomic::CmpSwapF | Atomic::MaskOr);
        let (a, b) = (operand(data[0]), if two { operand(data[1]) } else { 0 });
        for &slot in &data[..1 + usize::from(two)] {
            for i in 0..usize::from(bytes / 4) {
                defined &= self.wave.v_defined[slot + i] >> lane & 1 != 0;
            }
        }
        let new = atomic::apply(op, bytes, old, a, b);
        self.lds.write(address, &new.to_le_bytes()[..usize::from(bytes)], defined);
        if let Some(slot) = dst {
            for i in 0..usize::from(bytes / 4) {
                self.wave.set_v(slot + i, lane, (old >> (32 * i)) as u32, defined);
            }
        }
        Ok(())
    }

    fn exchange(&mut self, d: &Ds, exec: u64, dst: usize, data: usize) -> Result<()> {
        let source = if d.row.kind == DsKind::Swizzle { usize::from(d.addr) } else { data };
        let (values, defined) = (self.wave.v[source], self.wave.v_defined[source]);
        let mut out = [(0u32, true); 64];
        for lane in lanes(exec) {
            if d.row.kind == DsKind::Swizzle {
                let from = swizzle(d.offset16(), lane).ok_or(FaultKind::UnsupportedField("this swizzle"))?;
                if exec >> from & 1 != 0 {
                    out[lane] = (values[from], defined >> from & 1 != 0);
                }
                continue;
            }
            let other = ((self.lds_address(d, lane)? + u64::from(d.offset16())) / 4 % 64) as usize;
            if d.row.kind == DsKind::Permute {
                out[other] = (values[lane], defined >> lane & 1 != 0);
            } else if exec >> other & 1 != 0 {
                out[lane] = (values[other], defined >> other & 1 != 0);
            }
        }
        for lane in lanes(exec) {
            self.wave.set_v(dst, lane, out[lane].0, out[lane].1);
        }
        Ok(())
    }

    /// Sixteen lanes read rows of 64 bits and each gets a column: lane `i` of the sixteen gives address of the row piece, and the
    /// elements of its column are spread over the pieces.
    fn read_transposed(&mut self, d: &Ds, spans: &mut Vec<Span>, exec: u64, dst: usize, bits: u32) -> Result<()> {
        if exec != u64::MAX {
            return Err(FaultKind::UnsupportedField("a transposing read with inactive lanes"));
        }
        let mut rows = [(0u64, true); 64];
        for (lane, row) in rows.iter_mut().enumerate() {
            let at = self.lds_address(d, lane)? + u64::from(d.offset16());
            let address = self.touch(spans, at, 8, 8, lane, Touch::Read, &[])?;
            let (data, defined) = self.lds.read(address, 8);
            *row = (data.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b)), defined);
        }
        let per = 64 / bits as usize;
        for lane in 0..64 {
            let (group, i) = (lane & !15, lane & 15);
            let (mut v, mut defined) = (0u64, true);
            for e in 0..per {
                // The block of 16 columns lies in 16 / per neighbouring lanes of a row.
                let pieces = 16 / per;
                let from = group + e * pieces + i / per;
                v |= (rows[from].0 >> (bits as usize * (i % per)) & crate::num::ones(bits)) << (bits as usize * e);
                defined &= rows[from].1;
            }
            self.wave.set_v(dst, lane, v as u32, defined);
            self.wave.set_v(dst + 1, lane, (v >> 32) as u32, defined);
        }
        Ok(())
    }
}

fn align(bytes: u8) -> u32 {
    match bytes {
        12 => 16,
        b => u32::from(b),
    }
}

/// The lane that a lane reads by the offset of `ds_swizzle`.
fn swizzle(offset: u32, lane: usize) -> Option<usize> {
    if offset & 0xe000 == 0xe000 || offset & 0xe000 == 0xc000 {
        if offset & 0xe000 == 0xe000 {
            return None;
        }
        // Rotation within 32 lanes.
        let (left, n, mask) = (offset >> 10 & 1 == 0, (offset >> 5 & 31) as usize, (offset & 31) as usize);
        let i = lane & 31;
        let to = if left { (i + n) & 31 } else { (i + 32 - n) & 31 };
        return Some((lane & 32) | (i & mask) | (to & !mask & 31));
    }
    if offset & 0x8000 != 0 {
        return Some((lane & !3) + (offset as usize >> (2 * (lane & 3)) & 3));
    }
    let (and, or, xor) = (offset as usize & 31, offset as usize >> 5 & 31, offset as usize >> 10 & 31);
    Some((lane & 32) | ((((lane & 31) & and) | or) ^ xor))
}

#[cfg(test)]
mod tests {
    use super::swizzle;

    #[test]
    fn swizzles() {
        assert_eq!(swizzle(0x041f, 5), Some(4));
        assert_eq!(swizzle(0x401f, 5), Some(21));
        assert_eq!(swizzle(0x801b, 0), Some(3));
        assert_eq!(swizzle(0xc020, 33), Some(34));
    }
}
