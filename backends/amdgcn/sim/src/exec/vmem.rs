//! Vector loads, stores and atomics on global, flat, scratch and buffer addresses, and loads to LDS.

use super::ds::extended;
use super::{Ctx, atomic, lanes};
use crate::check::flight::{Kind, Landing, Pending};
use crate::decode::inst::{FLAT_SCRATCH, File, M0, Mem, Src};
use crate::fault::{FaultKind, Result, Use};
use crate::isa::memory::{Atomic, Load, MemKind, Part, Space};
use crate::span::{Span, Touch};
use crate::state::device::{PRIVATE_BASE, SHARED_BASE};
use crate::state::races::Access;
use smallvec::{SmallVec, smallvec};

/// Where a lane's access goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Global(u64),
    Scratch(u64),
    Lds(u64),
    /// Outside the records of a buffer: loads give zero, stores vanish.
    Nowhere,
}

/// A buffer resource.
#[derive(Clone, Copy, Debug)]
struct Resource {
    base: u64,
    stride: u64,
    records: u64,
    soffset: u64,
}

impl Ctx<'_, '_> {
    pub(super) fn vmem(&mut self, m: &Mem) -> Result<()> {
        let kind = match m.kind {
            MemKind::Refused => return Err(FaultKind::Unsupported { words: self.inst.words.to_vec() }),
            MemKind::Cache => {
                let p = Pending {
                    id: 0,
                    from: self.inst.address,
                    kind: Kind::Vm,
                    landings: SmallVec::new(),
                    spans: Vec::new(),
                    global: Vec::new(),
                };
                self.issue(p);
                return Ok(());
            }
            kind => kind,
        };
        let exec = self.active()?;
        let resource = if m.space == Space::Buffer { Some(self.resource(m)?) } else { None };
        let file = if m.acc { File::A } else { File::V };
        let (data, dst) = (self.wave.slot(file, u16::from(m.data)), self.wave.slot(file, u16::from(m.dst)));
        let m0 = if m.lds { Some(self.m0()?) } else { None };
        let (mut spans, mut global) = (Vec::new(), Vec::new());
        let mut addresses: Vec<(u64, u8)> = Vec::new();
        for lane in lanes(exec) {
            let place = self.place(m, resource, lane)?;
            let bytes = access_bytes(kind);
            if let Place::Global(a) = place {
                addresses.push((a, bytes));
                if !a.is_multiple_of(u64::from(bytes).min(4)) {
                    return Err(FaultKind::Misaligned { address: a, align: u32::from(bytes).min(4), lane: Some(lane as u32) });
                }
                let (write, sync) = match kind {
                    MemKind::Store { .. } => (true, m.coherent),
                    MemKind::Atomic { .. } => (true, true),
                    _ => (false, m.coherent),
                };
                // What is not in a buffer is reported as such, before races.
                let inside = self.inside(kind, a, bytes, lane)?;
                let equal = match kind {
                    MemKind::Store { bytes, high } => self.leaves(a, self.stored(bytes, high, lane, data), usize::from(bytes)),
                    _ => false,
                };
                let touch = Access { write, equal, sync, vector: m.space != Space::Flat };
                self.device.issue(self.group, self.wave.index, self.lds.epoch, a, u16::from(inside), touch, lane as u32)?;
                global.push((a, u16::from(inside), write));
            }
            match kind {
                MemKind::Load(l) => self.load(l, place, lane, dst)?,
                MemKind::Store { bytes, high } => self.store(bytes, high, place, lane, data)?,
                MemKind::LoadLds { bytes, signed } => {
                    let lane_bytes = u64::from(bytes.max(4)) * lane as u64;
                    let to = m0.unwrap_or(0) + lane_bytes + if m.space == Space::Buffer { m.offset as u64 } else { m.offset as i64 as u64 };
                    self.load_lds(&mut spans, (bytes, signed), place, lane, to)?;
                }
                MemKind::Atomic { op, bytes } => self.atomic(m, (op, bytes), place, lane, data, dst)?,
                MemKind::Cache | MemKind::Refused => {}
            }
        }
        self.device.report.global(self.inst, &addresses);
        let count = match kind {
            MemKind::Load(_) => m.dwords(),
            MemKind::Atomic { .. } if m.glc => m.dwords(),
            _ => 0,
        };
        let landings: SmallVec<[Landing; 1]> =
            if count > 0 { smallvec![Landing { vector: true, first: dst as u16, count }] } else { SmallVec::new() };
        if m.space == Space::Flat {
            let p = Pending {
                id: 0,
                from: self.inst.address,
                kind: Kind::Smem,
                landings: landings.clone(),
                spans: Vec::new(),
                global: Vec::new(),
            };
            self.issue(p);
        }
        self.issue(Pending { id: 0, from: self.inst.address, kind: Kind::Vm, landings, spans, global });
        Ok(())
    }

    fn m0(&self) -> Result<u64> {
        let (v, d) = self.scalar(Src::S(M0), 1);
        if d == u64::MAX { Ok(v & 0x3_fffc) } else { Err(FaultKind::Undefined { used_as: Use::M0, lane: None }) }
    }

    fn resource(&self, m: &Mem) -> Result<Resource> {
        let n = m.saddr.unwrap_or(0);
        let (low, high) = (self.address_part(n, 2)?, self.address_part(n + 2, 2)?);
        let (soffset, defined) = self.scalar(m.soffset, 1);
        if defined != u64::MAX {
            return Err(FaultKind::Undefined { used_as: Use::Address, lane: None });
        }
        // Swizzled resources and those that add the lane's number are for other languages.
        if low >> 63 != 0 || high >> 55 & 1 != 0 {
            return Err(FaultKind::UnsupportedField("a swizzled buffer resource"));
        }
        Ok(Resource { base: low & 0xffff_ffff_ffff, stride: low >> 48 & 0x3fff, records: high & 0xffff_ffff, soffset })
    }

    /// A lane's part of the address: so many dwords from a register on.
    fn vaddr(&self, n: u8, dwords: usize, lane: usize) -> Result<u64> {
        let n = usize::from(n);
        let mut v = 0;
        for i in 0..dwords {
            if self.wave.v_defined[n + i] >> lane & 1 == 0 {
                return Err(FaultKind::Undefined { used_as: Use::Address, lane: Some(lane as u32) });
            }
            v |= u64::from(self.wave.v[n + i][lane]) << (32 * i);
        }
        Ok(v)
    }

    fn place(&self, m: &Mem, resource: Option<Resource>, lane: usize) -> Result<Place> {
        let offset = m.offset as i64 as u64;
        match m.space {
            Space::Global => {
                let a = match (m.saddr, m.vaddr) {
                    (Some(s), Some(v)) => self.address_part(s, 2)?.wrapping_add(self.vaddr(v, 1, lane)?),
                    (None, Some(v)) => self.vaddr(v, 2, lane)?,
                    (_, None) => return Err(FaultKind::UnsupportedField("an address of no register")),
                };
                Ok(Place::Global(a.wrapping_add(offset)))
            }
            Space::Flat => {
                let a = self.vaddr(m.vaddr.unwrap_or(0), 2, lane)?.wrapping_add(offset);
                Ok(match a >> 32 << 32 {
                    SHARED_BASE => Place::Lds(a & 0xffff_ffff),
                    PRIVATE_BASE => {
                        self.scratch_address()?;
                        Place::Scratch(a & 0xffff_ffff)
                    }
                    _ => Place::Global(a),
                })
            }
            Space::Scratch => {
                self.scratch_address()?;
                if m.saddr.is_some() && m.offset < 0 {
                    return Err(FaultKind::ScratchOffset { offset: m.offset });
                }
                let s = m.saddr.map_or(Ok(0), |s| self.address_part(s, 1))?;
                let v = m.vaddr.map_or(Ok(0), |v| self.vaddr(v, 1, lane))?;
                Ok(Place::Scratch((s as u32).wrapping_add(v as u32).wrapping_add(offset as u32).into()))
            }
            Space::Buffer => {
                let Some(r) = resource else { return Ok(Place::Nowhere) };
                let (mut index, mut voffset) = (0, 0);
                if let Some(v) = m.vaddr {
                    if m.idxen {
                        index = self.vaddr(v, 1, lane)?;
                    }
                    if m.offen {
                        voffset = self.vaddr(v + u8::from(m.idxen), 1, lane)?;
                    }
                }
                let within = voffset + offset;
                let bytes = u64::from(access_bytes(m.kind));
                let outside =
                    if r.stride == 0 { within + bytes > r.records } else { index >= r.records || m.offen && within + bytes > r.stride };
                if outside {
                    return Ok(Place::Nowhere);
                }
                Ok(Place::Global(r.base + r.soffset + index * r.stride + within))
            }
        }
    }

    /// The address of the wave's scratch memory must be there, where kernels make it.
    fn scratch_address(&self) -> Result<()> {
        let Some(own) = self.wave.scratch_address else { return Ok(()) };
        let (made, defined) = self.scalar(Src::S(FLAT_SCRATCH), 2);
        match (defined, made) {
            (u64::MAX, made) if made == own => Ok(()),
            (u64::MAX, made) => Err(FaultKind::ScratchAddress { made, own }),
            _ => Err(FaultKind::Undefined { used_as: Use::FlatScratch, lane: None }),
        }
    }

    fn read_place(&mut self, place: Place, out: &mut [u8], lane: usize) -> Result<bool> {
        match place {
            Place::Nowhere => Ok(true),
            Place::Global(a) => self.device.read(a, out, Some(lane as u32)),
            Place::Scratch(a) => {
                let at = self.scratch(a, out.len(), lane)?;
                out.copy_from_slice(&self.wave.scratch[at..at + out.len()]);
                Ok(self.wave.scratch_defined[at..at + out.len()].iter().all(|&d| d))
            }
            Place::Lds(a) => {
                let at = self.lds.check(a, out.len() as u32, 1, lane as u32)?;
                let (data, defined) = self.lds.read(at, out.len());
                out.copy_from_slice(data);
                Ok(defined)
            }
        }
    }

    fn scratch(&self, a: u64, len: usize, lane: usize) -> Result<usize> {
        let per = self.wave.scratch.len() / 64;
        if a + len as u64 > per as u64 {
            return Err(FaultKind::OutOfBounds {
                address: a,
                bytes: len as u32,
                near: Some(("scratch".into(), a as i64 - per as i64)),
                lane: Some(lane as u32),
            });
        }
        Ok(lane * per + a as usize)
    }

    fn write_place(&mut self, place: Place, data: &[u8], defined: bool, lane: usize) -> Result<()> {
        match place {
            Place::Nowhere => Ok(()),
            Place::Global(_) if !defined => Err(FaultKind::Undefined { used_as: Use::Store, lane: Some(lane as u32) }),
            Place::Global(a) => self.device.write(a, data, Some(lane as u32)),
            Place::Scratch(a) => {
                let at = self.scratch(a, data.len(), lane)?;
                self.wave.scratch[at..at + data.len()].copy_from_slice(data);
                self.wave.scratch_defined[at..at + data.len()].fill(defined);
                Ok(())
            }
            Place::Lds(a) => {
                let at = self.lds.check(a, data.len() as u32, 1, lane as u32)?;
                self.lds.write(at, data, defined);
                Ok(())
            }
        }
    }

    fn load(&mut self, l: Load, place: Place, lane: usize, dst: usize) -> Result<()> {
        let mut raw = [0u8; 16];
        let defined = self.read_place(place, &mut raw[..usize::from(l.bytes)], lane)?;
        for i in 0..usize::from(l.bytes.div_ceil(4)) {
            let mut w = u32::from_le_bytes([raw[4 * i], raw[4 * i + 1], raw[4 * i + 2], raw[4 * i + 3]]);
            if l.bytes < 4 {
                w = extended(l, w, self.wave.v[dst][lane]);
            }
            self.wave.set_v(dst + i, lane, w, defined);
        }
        Ok(())
    }

    /// How many bytes of an access are in a buffer. A pair of halves that is updated may have the second one behind its end, in memory that is there
    /// since buffers begin and end with whole words: it keeps what it has.
    fn inside(&self, kind: MemKind, address: u64, bytes: u8, lane: usize) -> Result<u8> {
        let pair = matches!(kind, MemKind::Atomic { op: Atomic::PkAddF16 | Atomic::PkAddBf16, .. });
        match self.device.locate(address, u64::from(bytes), Some(lane as u32)) {
            Err(_) if pair && self.device.locate(address, 2, None).is_ok() => Ok(2),
            other => other.map(|()| bytes),
        }
    }

    /// True if a store leaves memory as it is: who else writes the same there does no harm.
    fn leaves(&self, address: u64, (raw, defined): ([u8; 16], bool), bytes: usize) -> bool {
        let mut held = [0u8; 16];
        defined && matches!(self.device.read(address, &mut held[..bytes], None), Ok(true)) && held[..bytes] == raw[..bytes]
    }

    /// What a lane stores, and whether it is defined.
    fn stored(&self, bytes: u8, high: bool, lane: usize, data: usize) -> ([u8; 16], bool) {
        let (mut raw, mut defined) = ([0u8; 16], true);
        for i in 0..usize::from(bytes.div_ceil(4)) {
            let w = self.wave.v[data + i][lane] >> if high { 16 } else { 0 };
            raw[4 * i..4 * i + 4].copy_from_slice(&w.to_le_bytes());
            defined &= self.wave.v_defined[data + i] >> lane & 1 != 0;
        }
        (raw, defined)
    }

    fn store(&mut self, bytes: u8, high: bool, place: Place, lane: usize, data: usize) -> Result<()> {
        let (raw, defined) = self.stored(bytes, high, lane, data);
        self.write_place(place, &raw[..usize::from(bytes)], defined, lane)
    }

    fn load_lds(&mut self, spans: &mut Vec<Span>, (bytes, signed): (u8, bool), place: Place, lane: usize, to: u64) -> Result<()> {
        let mut raw = [0u8; 16];
        let defined = self.read_place(place, &mut raw[..usize::from(bytes)], lane)?;
        let stored = bytes.max(4);
        if bytes < 4 {
            let w = extended(Load { bytes, signed, part: Part::Whole }, u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]), 0);
            raw[..4].copy_from_slice(&w.to_le_bytes());
        }
        let at = self.lds.check(to, u32::from(stored), 4, lane as u32)?;
        let span = Span { address: at as u32, len: u16::from(stored), touch: Touch::Fill };
        self.lds.issue(self.wave.index, lane as u32, span, &[], &|_| 0)?;
        spans.push(span);
        self.lds.write(at, &raw[..usize::from(stored)], defined);
        Ok(())
    }

    fn atomic(&mut self, m: &Mem, (op, bytes): (Atomic, u8), place: Place, lane: usize, data: usize, dst: usize) -> Result<()> {
        if place == Place::Nowhere {
            if m.glc {
                (0..usize::from(bytes / 4)).for_each(|i| self.wave.set_v(dst + i, lane, 0, true));
            }
            return Ok(());
        }
        let inside = match place {
            Place::Global(a) => self.inside(m.kind, a, bytes, lane)?,
            _ => bytes,
        };
        let mut raw = [0u8; 8];
        let mut defined = self.read_place(place, &mut raw[..usize::from(inside)], lane)?;
        let old = u64::from_le_bytes(raw);
        let n = usize::from(bytes / 4);
        let operand = |slot: usize| (0..n).fold(0u64, |v, i| v | u64::from(self.wave.v[slot + i][lane]) << (32 * i));
        // The data come first, then what is compared.
        let (first, second) = (operand(data), if op == Atomic::CmpSwap { operand(data + n) } else { 0 });
        let (a, b) = if op == Atomic::CmpSwap { (second, first) } else { (first, 0) };
        for i in 0..n * if op == Atomic::CmpSwap { 2 } else { 1 } {
            defined &= self.wave.v_defined[data + i] >> lane & 1 != 0;
        }
        let new = atomic::apply(op, bytes, old, a, b);
        self.write_place(place, &new.to_le_bytes()[..usize::from(inside)], defined, lane)?;
        if m.glc {
            (0..n).for_each(|i| self.wave.set_v(dst + i, lane, (old >> (32 * i)) as u32, defined));
        }
        Ok(())
    }
}

fn access_bytes(kind: MemKind) -> u8 {
    match kind {
        MemKind::Load(l) => l.bytes,
        MemKind::Store { bytes, .. } | MemKind::LoadLds { bytes, .. } | MemKind::Atomic { bytes, .. } => bytes,
        MemKind::Cache | MemKind::Refused => 0,
    }
}
