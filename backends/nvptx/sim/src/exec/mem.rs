//! Loads and stores.

use super::track::Access;
use crate::banks;
use crate::error::{ErrorKind, R};
use crate::memory::{RANK_SHIFT, SHARED_BASE, SHARED_WINDOW};
use crate::num::sext;
use crate::program::op::{MemOp, Order};
use crate::program::operand::{Addr, Reg};
use crate::state::Simulator;
use crate::state::warp::{Warp, lanes};
use crate::types::Space;
use smallvec::SmallVec;

/// Largest generic offset that still means the shared window.
pub(crate) const WINDOW_SIZE: u64 = 1 << 29;

/// Addresses of a warp access, split by where they point.
pub(crate) struct Where {
    /// Shared-window addresses or global addresses.
    pub(crate) addr: [u64; 32],
    pub(crate) shared: u32,
    pub(crate) global: u32,
}

impl Simulator<'_> {
    /// CTA position and window address of a shared::cluster address.
    pub(crate) fn cluster_address(&self, w: &Warp, at: u32, lane: usize, addr: u64) -> R<(usize, u64)> {
        let r = addr >> RANK_SHIFT;
        if r == 0 {
            return Ok((self.cur, addr));
        }
        let cta = self.lead() + r as usize - 1;
        if r > u64::from(self.cluster_size) {
            let m = format!("CTA rank {} in a cluster of {}", r - 1, self.cluster_size);
            return Err(self.fail(w, at, ErrorKind::Cluster, m, Some(lane as u32), Some(addr)));
        }
        if cta != self.cur && self.ctas[cta].done() {
            let m = format!("shared memory of the CTA of rank {} is used after that CTA has exited", r - 1);
            let mut e = self.fail(w, at, ErrorKind::Cluster, m, Some(lane as u32), Some(addr));
            e.notes.push("all CTAs of a cluster should meet at barrier.cluster before they exit".to_string());
            return Err(e);
        }
        Ok((cta, addr & ((1 << RANK_SHIFT) - 1)))
    }

    /// Notes that `w` touched the shared memory of another CTA, which must not exit before.
    pub(crate) fn touch_remote(&mut self, w: &Warp, at: u32, cta: usize) {
        if cta != self.cur {
            let clock = w.clocks.hb[w.slot as usize];
            self.ctas[cta].owed.remote[w.slot as usize] = (clock, Some((at, w.linear, w.id)));
        }
    }

    /// Buffer and offset of a global range.
    pub(crate) fn global_range(&self, w: &Warp, at: u32, l: usize, addr: u64, len: u64, write: bool) -> R<(u32, u64)> {
        let found = self.mem.find(addr).filter(|&(i, o)| o as u64 + len <= self.mem.buffers[i].bytes.len() as u64);
        let Some((i, o)) = found else {
            let m = format!("{len} bytes at {addr:#x}: {}", self.mem.nearest(addr, len));
            return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(addr)));
        };
        let b = &self.mem.buffers[i];
        if write && b.read_only {
            let m = format!("a write to the read-only buffer `{}`", b.name);
            return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(addr)));
        }
        Ok((i as u32, o as u64))
    }

    /// Computes addresses; poison in one is an error.
    pub(crate) fn addresses(&self, w: &Warp, at: u32, mask: u32, a: &Addr) -> R<Where> {
        let bad = w.poison(a.base) & mask;
        if bad != 0 {
            let m = "the address is computed from an undefined value";
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
        }
        let mut addr = [0u64; 32];
        if a.base.is_wide() {
            let b = &w.d[a.base.i()];
            for l in 0..32 {
                addr[l] = b[l].wrapping_add(a.off as u64);
            }
        } else {
            let b = &w.r[a.base.i()];
            for l in 0..32 {
                addr[l] = b[l].wrapping_add(a.off as u32).into();
            }
        }
        let (mut shared, mut global) = (0, 0);
        match a.space {
            Space::Shared => {
                // The own rank may stand above an address.
                let own = u64::from(self.ctas[self.cur].rank) + 1;
                addr.iter_mut().filter(|a| **a >> RANK_SHIFT == own).for_each(|a| *a &= (1 << RANK_SHIFT) - 1);
                shared = mask;
            }
            Space::Cluster => shared = mask,
            Space::Global | Space::Const | Space::Param => global = mask,
            Space::Generic => {
                for l in lanes(mask) {
                    let off = addr[l].wrapping_sub(SHARED_WINDOW);
                    if off < WINDOW_SIZE {
                        addr[l] = off;
                        shared |= 1 << l;
                    } else {
                        global |= 1 << l;
                    }
                }
            }
        }
        Ok(Where { addr, shared, global })
    }

    /// Splits shared lanes by CTA (position, lanes) and takes the rank off their addresses.
    pub(crate) fn by_cta(&mut self, w: &Warp, at: u32, pl: &mut Where, space: Space) -> R<SmallVec<[(usize, u32); 1]>> {
        let mut out: SmallVec<[(usize, u32); 1]> = SmallVec::new();
        if pl.shared == 0 {
            return Ok(out);
        }
        if space == Space::Shared || !lanes(pl.shared).any(|l| pl.addr[l] >> RANK_SHIFT != 0) {
            out.push((self.cur, pl.shared));
            return Ok(out);
        }
        for l in lanes(pl.shared) {
            let (cta, a) = self.cluster_address(w, at, l, pl.addr[l])?;
            pl.addr[l] = a;
            self.touch_remote(w, at, cta);
            match out.iter_mut().find(|x| x.0 == cta) {
                Some(x) => x.1 |= 1 << l,
                None => out.push((cta, 1 << l)),
            }
        }
        Ok(out)
    }

    /// Checks alignment and bounds of shared accesses; returns offsets from the window base.
    pub(crate) fn shared_offsets(&self, w: &Warp, at: u32, mask: u32, addr: &[u64; 32], size: u64) -> R<[u64; 32]> {
        let len = self.ctas[self.cur].shared.bytes.len() as u64;
        let mut offs = [0; 32];
        for l in lanes(mask) {
            let a = addr[l];
            if a & (size - 1) != 0 {
                return Err(self.misaligned(w, at, l, a, size));
            }
            let off = a.wrapping_sub(SHARED_BASE);
            if off >= len || off + size > len {
                let m = if a < SHARED_BASE {
                    format!("{size} bytes at shared address {a:#x}, below the window of {len} bytes at {SHARED_BASE:#x}")
                } else {
                    format!(
                        "{size} bytes at offset {off} of {len} bytes of shared memory, {} bytes past the end",
                        off.saturating_add(size).saturating_sub(len)
                    )
                };
                return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(a)));
            }
            offs[l] = off;
        }
        let mbars = &self.ctas[self.cur].mbars;
        if !mbars.is_empty()
            && let Some(l) = lanes(mask).find(|&l| mbars.iter().any(|b| b.off < offs[l] + size && offs[l] < b.off + 8))
        {
            let m = "an ordinary access to a live mbarrier";
            return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(addr[l])));
        }
        Ok(offs)
    }

    fn misaligned(&self, w: &Warp, at: u32, l: usize, a: u64, size: u64) -> crate::error::Fail {
        let m = format!("a {size}-byte access at an address that is {} past a multiple of {size}", a & (size - 1));
        self.fail(w, at, ErrorKind::Misaligned, m, Some(l as u32), Some(a))
    }

    /// In a kernel that may begin before the launch in front of it is done, the thread of an access has waited for that, or is ordered behind
    /// one that has.
    pub(crate) fn behind_launches(&self, w: &Warp, at: u32, mask: u32) -> R<()> {
        let early = mask & !w.awaited;
        if early == 0 || !(self.prog.overlaps || self.cfg.early_launch) {
            return Ok(());
        }
        let m = if self.prog.awaits {
            "a global access in front of `griddepcontrol.wait`: the launch before this one may not be done"
        } else {
            "a global access in a launch that may begin before the one in front of it is done, and no `griddepcontrol.wait` in the text"
        };
        let mut e = self.fail(w, at, ErrorKind::LaunchOrder, m, Some(early.trailing_zeros()), None);
        e.notes.push("the thread itself waits before, or another thread and then both meet at a barrier".to_string());
        Err(e)
    }

    /// Those of the lanes that touch what an earlier launch can have touched: all but what the module itself holds as constants.
    fn shared_by_launches(&self, mask: u32, addr: &[u64; 32]) -> u32 {
        let constant = |l: &usize| self.mem.find(addr[*l]).is_some_and(|(i, _)| self.mem.buffers[i].constant);
        lanes(mask).filter(|l| !constant(l)).fold(0, |m, l| m | 1 << l)
    }

    /// Checks alignment and bounds of global accesses; returns (buffer, offset) per lane.
    pub(crate) fn global_places(&self, w: &Warp, at: u32, mask: u32, addr: &[u64; 32], size: u64, write: bool) -> R<[(u32, u64); 32]> {
        if mask & !w.awaited != 0 && (self.prog.overlaps || self.cfg.early_launch) {
            self.behind_launches(w, at, self.shared_by_launches(mask, addr))?;
        }
        let mut out = [(0, 0); 32];
        let mut last = (0u32, 1u64, 0u64);
        for l in lanes(mask) {
            let a = addr[l];
            if a & (size - 1) != 0 {
                return Err(self.misaligned(w, at, l, a, size));
            }
            if a < last.1 || a.saturating_add(size) > last.2 {
                let found = self.mem.find(a).filter(|&(i, off)| off as u64 + size <= self.mem.buffers[i].bytes.len() as u64);
                let Some((i, _)) = found else {
                    let m = format!("{size} bytes at {a:#x}: {}", self.mem.nearest(a, size));
                    return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(a)));
                };
                let b = &self.mem.buffers[i];
                if write && b.read_only {
                    let m = format!("a write to the read-only buffer `{}`", b.name);
                    return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(a)));
                }
                last = (i as u32, b.base, b.base + b.bytes.len() as u64);
            }
            out[l] = (last.0, a - last.1);
        }
        Ok(out)
    }

    /// Reads shared bytes at checked offsets: value and poison bytes per lane.
    pub(crate) fn shared_read(&self, w: &Warp, at: u32, l: usize, off: u64, size: u64) -> R<(u128, u32)> {
        let s = &self.ctas[self.cur].shared;
        let all = ((1u64 << size) - 1) as u32;
        let off_ = off as usize;
        let missing = !s.written.get(off_, size as u32) & all;
        if missing != 0 && self.cfg.strict_uninit {
            let k = off + u64::from(missing.trailing_zeros());
            let m = format!("byte {k} of shared memory (address {:#x}) was never written", SHARED_BASE + k);
            return Err(self.fail(w, at, ErrorKind::Uninitialised, m, Some(l as u32), Some(SHARED_BASE + off)));
        }
        let poison = s.poison.get(off_, size as u32) | missing;
        let mut b = [0u8; 16];
        b[..size as usize].copy_from_slice(&s.bytes[off_..off_ + size as usize]);
        Ok((u128::from_le_bytes(b), poison))
    }

    /// Writes shared bytes at a checked offset.
    pub(crate) fn shared_write(&mut self, off: u64, size: u64, v: u128, poison: u32) {
        let s = &mut self.ctas[self.cur].shared;
        let at = off as usize;
        s.bytes[at..at + size as usize].copy_from_slice(&v.to_le_bytes()[..size as usize]);
        s.written.set(at, size as u32, true);
        s.poison.set(at, size as u32, false);
        if poison != 0 {
            for i in (0..size as usize).filter(|i| poison >> i & 1 == 1) {
                s.poison.set(at + i, 1, true);
            }
        }
    }

    /// Reads global bytes at a checked place; the mask tells never-written bytes (only when not strict).
    pub(crate) fn global_read(&self, w: &Warp, at: u32, l: usize, place: (u32, u64), size: u64) -> R<(u128, u32)> {
        let b = &self.mem.buffers[place.0 as usize];
        let off = place.1 as usize;
        let all = ((1u64 << size) - 1) as u32;
        let missing = !b.written.get(off, size as u32) & all;
        if missing != 0 && self.cfg.strict_uninit {
            let k = off + missing.trailing_zeros() as usize;
            let m = format!("byte {k} of buffer `{}` was never written", b.name);
            return Err(self.fail(w, at, ErrorKind::Uninitialised, m, Some(l as u32), Some(b.base + place.1)));
        }
        let mut v = [0u8; 16];
        v[..size as usize].copy_from_slice(&b.bytes[off..off + size as usize]);
        Ok((u128::from_le_bytes(v), missing))
    }

    /// Writes global bytes at a checked place.
    pub(crate) fn global_write(&mut self, place: (u32, u64), size: u64, v: u128) {
        let b = &mut self.mem.buffers[place.0 as usize];
        let off = place.1 as usize;
        b.bytes[off..off + size as usize].copy_from_slice(&v.to_le_bytes()[..size as usize]);
        b.written.set(off, size as u32, true);
    }

    /// `discard`: the 128 bytes at each address have no value until they are written again.
    pub(crate) fn discard(&mut self, w: &Warp, at: u32, mask: u32, addr: &Addr) -> R<()> {
        let pl = self.addresses(w, at, mask, addr)?;
        let places = self.global_places(w, at, mask, &pl.addr, 128, true)?;
        for l in lanes(mask) {
            let b = &mut self.mem.buffers[places[l].0 as usize];
            for k in 0..4 {
                b.written.set(places[l].1 as usize + 32 * k, 32, false);
            }
        }
        Ok(())
    }

    /// Counts a shared access.
    pub(crate) fn count_shared(&mut self, at: u32, mask: u32, offs: &[u64; 32], size: u32) {
        if self.cfg.counters && mask != 0 {
            let (n, ideal) = banks::shared(offs, mask, size);
            let s = &mut self.stats[at as usize];
            s.wavefronts += u64::from(n);
            s.ideal_wavefronts += u64::from(ideal);
        }
    }

    /// Counts a global access.
    pub(crate) fn count_global(&mut self, at: u32, mask: u32, addr: &[u64; 32], size: u32) {
        if self.cfg.counters && mask != 0 {
            let (sectors, lines) = banks::global(addr, mask, size);
            let s = &mut self.stats[at as usize];
            s.sectors += u64::from(sectors);
            s.lines += u64::from(lines);
            s.requested_bytes += u64::from(mask.count_ones() * size);
        }
    }

    /// `ld`.
    pub(crate) fn load(&mut self, w: &mut Warp, at: u32, mask: u32, m: &MemOp) -> R<()> {
        let es = u64::from(m.ty.bytes());
        let size = es * m.regs.len() as u64;
        let mut vals = [0u128; 32];
        let mut poison = [0u32; 32];
        if m.addr.space == Space::Param {
            let off = m.addr.off;
            let data = usize::try_from(off).ok().and_then(|o| self.params.get(o..o + size as usize));
            let Some(data) = data else {
                let t = format!("{size} bytes at offset {off} of {} parameter bytes", self.params.len());
                return Err(self.fail(w, at, ErrorKind::OutOfBounds, t, None, None));
            };
            if !(off as u64).is_multiple_of(size) {
                return Err(self.misaligned(w, at, 0, off as u64, size));
            }
            let mut b = [0u8; 16];
            b[..size as usize].copy_from_slice(data);
            vals = [u128::from_le_bytes(b); 32];
        } else {
            let mut pl = self.addresses(w, at, mask, &m.addr)?;
            let how = if m.order == Order::Weak { Access::Read } else { Access::Strong { write: false } };
            let homes = self.by_cta(w, at, &mut pl, m.addr.space)?;
            for &(cta, mask) in &homes {
                let home = std::mem::replace(&mut self.cur, cta);
                let offs = self.shared_offsets(w, at, mask, &pl.addr, size)?;
                if self.cfg.races {
                    self.track_shared(w, at, mask, &offs, size, how)?;
                }
                for l in lanes(mask) {
                    (vals[l], poison[l]) = self.shared_read(w, at, l, offs[l], size)?;
                }
                self.count_shared(at, mask, &offs, size as u32);
                if m.order != Order::Weak {
                    for l in lanes(mask) {
                        self.sync_read(w, pl.addr[l], m.order == Order::Acquire);
                    }
                }
                self.cur = home;
            }
            if pl.global != 0 {
                let places = self.global_places(w, at, pl.global, &pl.addr, size, false)?;
                if self.cfg.global_races {
                    self.track_global(w, at, pl.global, &places, size, how, 0)?;
                }
                for l in lanes(pl.global) {
                    (vals[l], poison[l]) = self.global_read(w, at, l, places[l], size)?;
                }
                self.count_global(at, pl.global, &pl.addr, size as u32);
            }
            if m.order != Order::Weak {
                for l in lanes(pl.global) {
                    self.sync_read(w, pl.addr[l], m.order == Order::Acquire);
                }
            }
        }
        let any = poison.iter().fold(0, |a, b| a | b);
        let ebits = es as u32 * 8;
        for (i, &r) in m.regs.iter().enumerate() {
            let p = if any == 0 { 0 } else { element_poison(&poison, i as u32 * es as u32, es as u32) };
            let shift = i as u32 * ebits;
            write_element(w, r, mask, &vals, shift, ebits, m.ty.is_signed(), p);
        }
        Ok(())
    }

    /// `st`.
    pub(crate) fn store(&mut self, w: &mut Warp, at: u32, mask: u32, m: &MemOp) -> R<()> {
        let es = u64::from(m.ty.bytes());
        let size = es * m.regs.len() as u64;
        let ebits = es as u32 * 8;
        let mut pl = self.addresses(w, at, mask, &m.addr)?;
        let mut vals = [0u128; 32];
        let mut poison = [0u32; 32];
        for (i, &r) in m.regs.iter().enumerate() {
            let p = w.poison(r) & mask;
            let v = w.wide(r);
            let shift = i as u32 * ebits;
            let low = crate::num::low(ebits);
            for l in 0..32 {
                vals[l] |= u128::from(v[l] & low) << shift;
            }
            if p != 0 {
                for l in lanes(p) {
                    poison[l] |= (((1u64 << es) - 1) as u32) << (i as u32 * es as u32);
                }
            }
        }
        let how = if m.order == Order::Weak { Access::Write } else { Access::Strong { write: true } };
        let release = (m.order == Order::Release).then_some(m.cta);
        if m.order != Order::Weak {
            for l in lanes(pl.global) {
                self.sync_write(w, false, pl.addr[l], release);
            }
        }
        let homes = self.by_cta(w, at, &mut pl, m.addr.space)?;
        for &(cta, mask) in &homes {
            let home = std::mem::replace(&mut self.cur, cta);
            if m.order != Order::Weak && (cta == home || !m.cta) {
                for l in lanes(mask) {
                    self.sync_write(w, true, pl.addr[l], release);
                }
            }
            let offs = self.shared_offsets(w, at, mask, &pl.addr, size)?;
            if self.cfg.races && self.track_shared(w, at, mask, &offs, size, how)? {
                self.check_same_instr(w, at, mask, &pl.addr, size, &vals)?;
            }
            for l in lanes(mask) {
                self.shared_write(offs[l], size, vals[l], poison[l]);
            }
            self.count_shared(at, mask, &offs, size as u32);
            self.cur = home;
        }
        if pl.global != 0 {
            if let Some(l) = lanes(pl.global).find(|&l| poison[l] != 0) {
                let t = "an undefined value is stored to global memory";
                return Err(self.fail(w, at, ErrorKind::Poison, t, Some(l as u32), Some(pl.addr[l])));
            }
            let places = self.global_places(w, at, pl.global, &pl.addr, size, true)?;
            let found = |l: &usize| {
                let b = &self.mem.buffers[places[*l].0 as usize];
                let bytes = b.base + places[*l].1;
                let same = self.mem.read_unchecked(bytes, size as usize).is_ok_and(|old| *old == vals[*l].to_le_bytes()[..size as usize]);
                same && self.mem.is_written(bytes, size as usize).unwrap_or(false)
            };
            let unchanged = lanes(pl.global).filter(found).fold(0u32, |m, l| m | 1 << l);
            if self.cfg.global_races && self.track_global(w, at, pl.global, &places, size, how, unchanged)? {
                self.check_same_instr(w, at, pl.global, &pl.addr, size, &vals)?;
            }
            for l in lanes(pl.global) {
                self.global_write(places[l], size, vals[l]);
            }
            self.count_global(at, pl.global, &pl.addr, size as u32);
        }
        Ok(())
    }
}

/// Lanes in which any of `n` bytes from `from` is poison.
fn element_poison(poison: &[u32; 32], from: u32, n: u32) -> u32 {
    let m = (((1u64 << n) - 1) as u32) << from;
    (0..32).fold(0, |a, l| a | u32::from(poison[l] & m != 0) << l)
}

#[expect(clippy::too_many_arguments, reason = "private helper of `load`")]
fn write_element(w: &mut Warp, r: Reg, mask: u32, vals: &[u128; 32], shift: u32, bits: u32, signed: bool, p: u32) {
    let low = crate::num::low(bits);
    let cut = |v: u128| {
        let v = (v >> shift) as u64 & low;
        if signed { sext(v, bits) as u64 } else { v }
    };
    if r.is_wide() {
        w.set_d(r, mask, &vals.map(cut), p);
    } else {
        w.set_r(r, mask, &vals.map(|v| cut(v) as u32), p);
    }
}
