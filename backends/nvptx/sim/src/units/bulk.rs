//! `cp.async.bulk`, its tensor and reduction forms, bulk groups, `st.async`, `red.async`, `cp.async.mbarrier.arrive`.

use crate::config::Landing;
use crate::error::{ErrorKind, R};
use crate::memory::{RANK_SHIFT, SHARED_BASE};
use crate::program::hop::{Bulk, End, Remote, reduction_ok};
use crate::program::operand::{Addr, Reg};
use crate::state::Simulator;
use crate::state::flight::{Flight, Mem, Plan, Run, Way};
use crate::state::mbar::At;
use crate::state::race::StreamKind;
use crate::state::warp::{BulkThread, Warp, lanes};
use crate::tensor_map::{MapElement, TensorMap};
use crate::types::{Space, Ty};
use crate::units::proxy::Issue;

/// Boxes of tensor copies begin at multiples of so many bytes of a row.
const BOX_ALIGN: i64 = 16;

/// The type a tensor reduction works on.
fn reduce_type(e: MapElement) -> Option<Ty> {
    Some(match e {
        MapElement::U32 => Ty::U32,
        MapElement::S32 => Ty::S32,
        MapElement::U64 => Ty::U64,
        MapElement::F16 => Ty::F16,
        MapElement::Bf16 => Ty::Bf16,
        MapElement::F32 => Ty::F32,
        MapElement::U8 | MapElement::U16 | MapElement::S64 | MapElement::F64 | MapElement::Tf32 => return None,
    })
}

impl Simulator<'_> {
    /// Address of one lane; a shared one keeps its rank bits.
    fn lane_address(&self, w: &Warp, at: u32, l: usize, a: &Addr) -> R<(u64, bool)> {
        let pl = self.addresses(w, at, 1 << l, a)?;
        Ok((pl.addr[l], pl.shared >> l & 1 == 1))
    }

    fn lane_value(&self, w: &Warp, at: u32, l: usize, r: Reg, what: &str) -> R<u64> {
        if w.poison(r) >> l & 1 == 1 {
            let m = format!("the {what} is an undefined value");
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(l as u32), None));
        }
        Ok(if r.is_wide() { w.d[r.i()][l] } else { w.r[r.i()][l].into() })
    }

    /// CTA position and offset of a shared range.
    fn shared_range(&self, w: &Warp, at: u32, l: usize, a: &Addr, len: u64, align: u64) -> R<(usize, u64)> {
        let (addr, shared) = self.lane_address(w, at, l, a)?;
        let (cta, addr) = if a.space == Space::Shared || !shared { (self.cur, addr) } else { self.cluster_address(w, at, l, addr)? };
        if !addr.is_multiple_of(align) {
            let m = format!("a shared address that is {} past a multiple of {align}", addr % align);
            return Err(self.fail(w, at, ErrorKind::Misaligned, m, Some(l as u32), Some(addr)));
        }
        let off = addr.wrapping_sub(SHARED_BASE);
        let have = self.ctas[cta].shared.bytes.len() as u64;
        if !shared || off > have || off + len > have {
            let m = format!("{len} bytes at shared address {addr:#x} are not inside the {have} bytes from {SHARED_BASE:#x}");
            return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, Some(l as u32), Some(addr)));
        }
        Ok((cta, off))
    }

    #[expect(clippy::too_many_arguments, reason = "one instruction's operands")]
    fn linear_plan(&self, w: &Warp, at: u32, l: usize, shared: u64, global: &Addr, len: u64, write: bool) -> R<Plan> {
        self.behind_launches(w, at, 1 << l)?;
        let (addr, sh) = self.lane_address(w, at, l, global)?;
        if sh || !addr.is_multiple_of(16) {
            let m = "a bulk copy needs a global address that is a multiple of 16";
            return Err(self.fail(w, at, ErrorKind::Misaligned, m, Some(l as u32), Some(addr)));
        }
        let (b, off) = self.global_range(w, at, l, addr, len, write)?;
        let runs = vec![Run { shared, mem: Mem::Global(b, off), len: len as u32 }];
        Ok(Plan { runs, rows: vec![(b, off, len)], bytes: len, fill: Vec::new(), tf32: false })
    }

    /// All global bytes that are read must have been written.
    fn sources_written(&self, w: &Warp, at: u32, l: usize, rows: &[(u32, u64, u64)]) -> R<()> {
        if !self.cfg.strict_uninit {
            return Ok(());
        }
        for &(b, off, len) in rows {
            let buf = &self.mem.buffers[b as usize];
            if let Some(k) = buf.written.first_clear(off as usize, len as usize) {
                let m = format!("byte {k} of buffer `{}` was never written", buf.name);
                return Err(self.fail(w, at, ErrorKind::Uninitialised, m, Some(l as u32), Some(buf.base + k as u64)));
            }
        }
        Ok(())
    }

    /// Shared source bytes must be written and defined.
    fn shared_source(&self, w: &Warp, at: u32, l: usize, cta: usize, runs: impl Iterator<Item = (u64, u32)>) -> R<()> {
        let s = &self.ctas[cta].shared;
        for (off, len) in runs {
            let mut k = 0;
            while k < len {
                let n = (len - k).min(32);
                let o = off as usize + k as usize;
                let all = ((1u64 << n) - 1) as u32;
                let missing = !s.written.get(o, n) & all;
                let poison = s.poison.get(o, n);
                if missing != 0 && self.cfg.strict_uninit || poison != 0 {
                    let bad = o as u64 + u64::from((if missing != 0 { missing } else { poison }).trailing_zeros());
                    let (kind, what) = if missing != 0 {
                        (ErrorKind::Uninitialised, "was never written")
                    } else {
                        (ErrorKind::Poison, "holds an undefined value")
                    };
                    let m = format!("byte {bad} of shared memory, the source of this copy, {what}");
                    return Err(self.fail(w, at, kind, m, Some(l as u32), Some(SHARED_BASE + bad)));
                }
                k += n;
            }
        }
        Ok(())
    }

    /// Makes the destination undefined until the copy lands.
    fn undefine(&mut self, cta: usize, off: u64, len: u64) {
        let s = &mut self.ctas[cta].shared;
        let mut k = 0;
        while k < len {
            let n = (len - k).min(32) as u32;
            s.written.set((off + k) as usize, n, true);
            s.poison.set((off + k) as usize, n, true);
            k += u64::from(n);
        }
    }

    /// The mbarrier a copy completes on; its stream and clock.
    fn target(&mut self, w: &Warp, at: u32, l: usize, cta: usize, off: u64) -> R<(At, u32, u32)> {
        // That the CTA outlives the copy is checked by the stream, not as a remote access.
        let mb = self.mbar_at(w, at, l, cta, off, true)?;
        let b = &mut self.ctas[cta].mbars[mb.1];
        b.in_flight += 1;
        let (stream, dense, clock) = (b.stream, b.dense, b.phase as u32 + 1);
        let owed = &mut self.ctas[cta].owed.streams;
        match owed.iter_mut().find(|x| x.0 == dense) {
            Some(x) => (x.1, x.2) = (clock, at),
            None => owed.push((dense, clock, at)),
        }
        Ok((mb, stream, clock))
    }

    /// Bulk and tensor copies of the lanes of `mask`.
    pub(crate) fn bulk(&mut self, w: &mut Warp, at: u32, mask: u32, b: &Bulk) -> R<()> {
        for l in lanes(mask) {
            match (&b.dst, &b.src) {
                (End::Shared(dst), End::Shared(src)) => self.bulk_between(w, at, l, b, dst, src)?,
                (End::Shared(dst), _) => self.bulk_in(w, at, l, b, dst)?,
                (_, End::Shared(src)) => self.bulk_out(w, at, l, b, src)?,
                // The decoder makes no others.
                (_, _) => {}
            }
        }
        // Accesses after the issue are not part of what it inherited.
        Self::tick(w);
        Ok(())
    }

    fn size_of(&self, w: &Warp, at: u32, l: usize, r: Option<Reg>) -> R<u64> {
        let Some(r) = r else { return Ok(0) };
        let n = self.lane_value(w, at, l, r, "size")?;
        if n == 0 || !n.is_multiple_of(16) {
            let m = format!("a size of {n} bytes is not a positive multiple of 16");
            return Err(self.fail(w, at, ErrorKind::Undefined, m, Some(l as u32), None));
        }
        Ok(n)
    }

    fn tensor(&self, w: &Warp, at: u32, l: usize, map: &Addr, coords: &[Reg]) -> R<(TensorMap, Vec<i64>)> {
        self.behind_launches(w, at, 1 << l)?;
        self.box_at(w, at, l, map, coords)
    }

    /// The map and the coordinates of a tensor operand, checked.
    pub(crate) fn box_at(&self, w: &Warp, at: u32, l: usize, map: &Addr, coords: &[Reg]) -> R<(TensorMap, Vec<i64>)> {
        let (addr, _) = self.lane_address(w, at, l, map)?;
        let m = self.map_at(w, at, l, addr)?;
        if m.dims.len() != coords.len() {
            let e = format!("{} coordinates for a tensor map of rank {}", coords.len(), m.dims.len());
            return Err(self.fail(w, at, ErrorKind::Undefined, e, Some(l as u32), Some(addr)));
        }
        let c: R<Vec<i64>> = coords.iter().map(|&r| Ok(i64::from(self.lane_value(w, at, l, r, "coordinate")? as u32 as i32))).collect();
        let c = c?;
        let column = c[0] * i64::from(m.element.bytes());
        if column % BOX_ALIGN != 0 {
            let e = format!(
                "the innermost coordinate {} is {column} bytes into the row, no multiple of {BOX_ALIGN}: hardware raises an illegal instruction",
                c[0]
            );
            let mut e = self.fail(w, at, ErrorKind::Misaligned, e, Some(l as u32), None);
            e.notes.push(format!("let the box begin at a multiple of {BOX_ALIGN} bytes, or move these elements by ordinary accesses"));
            return Err(e);
        }
        Ok((m, c))
    }

    /// Refuses a store of a box that reaches beyond the last column, if that does not end a unit: hardware writes all of the unit.
    fn ends_with_units(&self, w: &Warp, at: u32, l: usize, map: &TensorMap, c: &[i64]) -> R<()> {
        let row = map.dims[0] * u64::from(map.element.bytes());
        let (end, columns) = (c[0] + i64::from(map.box_dims[0]), map.dims[0] as i64);
        if row.is_multiple_of(BOX_ALIGN as u64) || end <= columns || c[0] >= columns {
            return Ok(());
        }
        let m = format!("rows of {row} bytes are stored in units of {BOX_ALIGN}: what lies behind the last column would be written");
        let mut e = self.fail(w, at, ErrorKind::Misaligned, m, Some(l as u32), None);
        e.notes.push(format!(
            "store boxes that end inside the rows, let rows be multiples of {BOX_ALIGN} bytes, or store by ordinary accesses"
        ));
        Err(e)
    }

    /// Global to shared, of one or several CTAs.
    fn bulk_in(&mut self, w: &Warp, at: u32, l: usize, b: &Bulk, dst: &Addr) -> R<()> {
        let size = self.size_of(w, at, l, b.size)?;
        let (plan, cta, off) = match &b.src {
            End::Tensor(map, coords) => {
                let (map, c) = self.tensor(w, at, l, map, coords)?;
                let (cta, off) = self.shared_range(w, at, l, dst, map.tile_bytes(), 128)?;
                (self.tile_plan(w, at, l, &map, &c, off, false)?, cta, off)
            }
            End::Global(g) => {
                let (cta, off) = self.shared_range(w, at, l, dst, size, 16)?;
                (self.linear_plan(w, at, l, off, g, size, false)?, cta, off)
            }
            End::Shared(_) => return Ok(()),
        };
        let Some(mbar) = &b.mbar else { return Ok(()) };
        let (mcta, moff) = self.shared_range(w, at, l, mbar, 8, 8)?;
        self.sources_written(w, at, l, &plan.rows)?;
        let lead = self.lead();
        let ctas: Vec<(usize, usize)> = match b.multicast {
            None if mcta != cta => {
                let m = "the mbarrier is in another CTA than the destination";
                return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(SHARED_BASE + moff)));
            }
            None => vec![(cta, mcta)],
            Some(r) => {
                let set = self.lane_value(w, at, l, r, "CTA mask")?;
                if set == 0 || set >> self.cluster_size != 0 {
                    let m = format!("the CTA mask {set:#x} does not fit a cluster of {}", self.cluster_size);
                    return Err(self.fail(w, at, ErrorKind::Cluster, m, Some(l as u32), None));
                }
                (0..self.cluster_size as usize).filter(|r| set >> r & 1 == 1).map(|r| (lead + r, lead + r)).collect()
            }
        };
        for (n, (c, mc)) in ctas.into_iter().enumerate() {
            if c != self.cur {
                // Says so when that CTA has exited.
                let rank = (c - lead + 1) as u64;
                self.cluster_address(w, at, l, rank << RANK_SHIFT | SHARED_BASE)?;
            }
            let (mb, stream, clock) = self.target(w, at, l, mc, moff)?;
            let i = Issue { w, at, lane: l as u32, eye: &w.clocks, stream, clock, write: true, strong: false, generic: false };
            self.async_shared(&i, c, off, plan.bytes)?;
            if n == 0 {
                let i = Issue { write: false, ..i };
                for &(buf, o, len) in &plan.rows {
                    self.async_global(&i, buf, o, len)?;
                }
            }
            self.undefine(c, off, plan.bytes);
            let segments = self.segments(plan.runs.clone());
            let (cta, mlinear) = (self.ctas[c].linear, self.ctas[mb.0].linear);
            self.take_off(Flight {
                at,
                issuer: (w.linear, w.id, w.slot, l as u32),
                way: Way::In,
                segments,
                cta,
                from: cta,
                mbar: Some((mlinear, moff)),
                bytes: plan.bytes,
                group: None,
                reduce: None,
                fill: plan.fill.clone(),
                tf32: plan.tf32,
                data: Vec::new(),
                read: true,
                tells: None,
            })?;
        }
        Ok(())
    }

    /// The bulk groups of a thread.
    fn bulk_thread<'w>(&mut self, w: &'w mut Warp, l: usize) -> &'w mut BulkThread {
        let i = match w.bulk.iter().position(|t| usize::from(t.lane) == l) {
            Some(i) => i,
            None => {
                let read = self.new_stream(StreamKind::BulkRead, w.linear, w.id);
                let write = self.new_stream(StreamKind::BulkWrite, w.linear, w.id);
                w.bulk.push(BulkThread { lane: l as u8, read, write, committed: 0 });
                w.bulk.len() - 1
            }
        };
        &mut w.bulk[i]
    }

    /// Shared to global.
    fn bulk_out(&mut self, w: &mut Warp, at: u32, l: usize, b: &Bulk, src: &Addr) -> R<()> {
        let size = self.size_of(w, at, l, b.size)?;
        let mut reduce = None;
        let (plan, off) = match &b.dst {
            End::Tensor(map, coords) => {
                let (map, c) = self.tensor(w, at, l, map, coords)?;
                let (_, off) = self.shared_range(w, at, l, src, map.tile_bytes(), 128)?;
                self.ends_with_units(w, at, l, &map, &c)?;
                if let Some((op, _)) = b.reduce {
                    let ty = reduce_type(map.element).filter(|&t| reduction_ok(op, t));
                    let Some(ty) = ty else {
                        let m = format!("the reduction {op:?} does not exist for {:?} elements", map.element);
                        return Err(self.fail(w, at, ErrorKind::Undefined, m, Some(l as u32), None));
                    };
                    reduce = Some((op, ty));
                }
                (self.tile_plan(w, at, l, &map, &c, off, true)?, off)
            }
            End::Global(g) => {
                let (_, off) = self.shared_range(w, at, l, src, size, 16)?;
                reduce = b.reduce.and_then(|(op, ty)| Some((op, ty?)));
                (self.linear_plan(w, at, l, off, g, size, true)?, off)
            }
            End::Shared(_) => return Ok(()),
        };
        let t = *self.bulk_thread(w, l);
        let clock = t.committed + 1;
        let dense = self.streams[t.read as usize].dense;
        let w = &*w;
        let i = Issue { w, at, lane: l as u32, eye: &w.clocks, stream: t.read, clock, write: false, strong: false, generic: false };
        self.async_shared(&i, self.cur, off, plan.bytes)?;
        self.shared_source(w, at, l, self.cur, plan.runs.iter().map(|r| (r.shared, r.len)))?;
        if reduce.is_some() {
            self.sources_written(w, at, l, &plan.rows)?;
        }
        let i = Issue { stream: t.write, write: true, strong: reduce.is_some(), ..i };
        for &(buf, o, len) in &plan.rows {
            self.async_global(&i, buf, o, len)?;
        }
        let owed = &mut self.ctas[self.cur].owed.streams;
        match owed.iter_mut().find(|x| x.0 == dense) {
            Some(x) => (x.1, x.2) = (clock, at),
            None => owed.push((dense, clock, at)),
        }
        self.take_off(Flight {
            at,
            issuer: (w.linear, w.id, w.slot, l as u32),
            way: Way::Out,
            segments: vec![plan.runs],
            cta: w.linear,
            from: w.linear,
            mbar: None,
            bytes: plan.bytes,
            group: Some((t.read, clock)),
            reduce,
            fill: Vec::new(),
            tf32: false,
            data: Vec::new(),
            read: false,
            tells: None,
        })
    }

    /// Shared of this CTA to shared of the cluster.
    fn bulk_between(&mut self, w: &Warp, at: u32, l: usize, b: &Bulk, dst: &Addr, src: &Addr) -> R<()> {
        let size = self.size_of(w, at, l, b.size)?;
        let (cta, off) = self.shared_range(w, at, l, dst, size, 16)?;
        let (_, soff) = self.shared_range(w, at, l, src, size, 16)?;
        let Some(mbar) = &b.mbar else { return Ok(()) };
        let (mcta, moff) = self.shared_range(w, at, l, mbar, 8, 8)?;
        if mcta != cta {
            let m = "the mbarrier is in another CTA than the destination";
            return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(SHARED_BASE + moff)));
        }
        let (mb, stream, clock) = self.target(w, at, l, cta, moff)?;
        let reduce = b.reduce.and_then(|(op, ty)| Some((op, ty?)));
        let i = Issue { w, at, lane: l as u32, eye: &w.clocks, stream, clock, write: false, strong: false, generic: false };
        self.async_shared(&i, self.cur, soff, size)?;
        self.shared_source(w, at, l, self.cur, std::iter::once((soff, size as u32)))?;
        self.async_shared(&Issue { write: true, strong: reduce.is_some(), ..i }, cta, off, size)?;
        if reduce.is_none() {
            self.undefine(cta, off, size);
        } else {
            self.shared_source(w, at, l, cta, std::iter::once((off, size as u32)))?;
        }
        let runs = (0..size / 16).map(|k| Run { shared: off + 16 * k, mem: Mem::Shared(soff + 16 * k), len: 16 }).collect();
        let segments = self.segments(runs);
        let (cta, mlinear) = (self.ctas[cta].linear, self.ctas[mb.0].linear);
        self.take_off(Flight {
            at,
            issuer: (w.linear, w.id, w.slot, l as u32),
            way: Way::In,
            segments,
            cta,
            from: w.linear,
            mbar: Some((mlinear, moff)),
            bytes: size,
            group: None,
            reduce,
            fill: Vec::new(),
            tf32: false,
            data: Vec::new(),
            read: true,
            tells: None,
        })
    }

    /// `cp.async.bulk.commit_group`.
    pub(crate) fn bulk_commit(&mut self, w: &mut Warp, mask: u32) {
        for l in lanes(mask) {
            self.bulk_thread(w, l).committed += 1;
        }
    }

    /// `cp.async.bulk.wait_group`.
    pub(crate) fn bulk_wait(&mut self, w: &mut Warp, mask: u32, n: u32, read: bool) -> R<()> {
        for l in lanes(mask) {
            // A thread without groups has nothing to wait for.
            let Some(t) = w.bulk.iter().find(|t| usize::from(t.lane) == l).copied() else { continue };
            let upto = t.committed.saturating_sub(n);
            self.land_groups(t.read, upto, !read)?;
            w.clocks.raise(self.streams[t.read as usize].dense, upto);
            if !read {
                w.clocks.raise(self.streams[t.write as usize].dense, upto);
            }
        }
        Ok(())
    }

    /// `st.async` and `red.async`.
    pub(crate) fn remote(&mut self, w: &mut Warp, at: u32, mask: u32, r: &Remote) -> R<()> {
        let es = u64::from(r.ty.bytes());
        let size = es * r.vals.len() as u64;
        for l in lanes(mask) {
            let (cta, off) = self.shared_range(w, at, l, &r.addr, size, size)?;
            let (mcta, moff) = self.shared_range(w, at, l, &r.mbar, 8, 8)?;
            if mcta != cta {
                let m = "the mbarrier is in another CTA than the destination";
                return Err(self.fail(w, at, ErrorKind::Mbarrier, m, Some(l as u32), Some(SHARED_BASE + moff)));
            }
            let mut data = Vec::new();
            for &v in &r.vals {
                let x = self.lane_value(w, at, l, v, "value of an asynchronous store")?;
                data.extend_from_slice(&x.to_le_bytes()[..es as usize]);
            }
            let (mb, stream, clock) = self.target(w, at, l, cta, moff)?;
            let i = Issue { w, at, lane: l as u32, eye: &w.clocks, stream, clock, write: true, strong: r.op.is_some(), generic: true };
            self.async_shared(&i, cta, off, size)?;
            if r.op.is_none() {
                self.undefine(cta, off, size);
            } else {
                self.shared_source(w, at, l, cta, std::iter::once((off, size as u32)))?;
            }
            let segments = vec![vec![Run { shared: off, mem: Mem::Data(0), len: size as u32 }]];
            let (cta, mlinear) = (self.ctas[cta].linear, self.ctas[mb.0].linear);
            self.take_off(Flight {
                at,
                issuer: (w.linear, w.id, w.slot, l as u32),
                way: Way::In,
                segments,
                cta,
                from: cta,
                mbar: Some((mlinear, moff)),
                bytes: size,
                group: None,
                reduce: r.op.map(|op| (op, r.ty)),
                fill: Vec::new(),
                tf32: false,
                data,
                read: true,
                tells: Some(Box::new(w.clocks.told_by(w.slot as usize))),
            })?;
        }
        Self::tick(w);
        Ok(())
    }

    /// `cp.async.mbarrier.arrive`: an arrival when the copies of a lane so far have landed.
    pub(crate) fn cp_arrive(&mut self, w: &mut Warp, at: u32, mask: u32, addr: &Addr, noinc: bool) -> R<()> {
        for l in lanes(mask) {
            let (cta, off) = self.shared_range(w, at, l, addr, 8, 8)?;
            let (_, i) = self.mbar_at(w, at, l, cta, off, false)?;
            // Later copies of this lane get another ordinal.
            w.committed[l] += 1;
            let upto = w.committed[l];
            w.holes.push((l as u8, upto));
            let b = &mut self.ctas[cta].mbars[i];
            if !noinc {
                b.pending += 1;
            }
            b.in_flight += 1;
            let lin = self.ctas[cta].linear;
            let f = Flight {
                at,
                issuer: (w.linear, w.id, w.slot, l as u32),
                way: Way::Arrive(l as u8, upto, 1),
                segments: Vec::new(),
                cta: lin,
                from: lin,
                mbar: Some((lin, off)),
                bytes: 0,
                group: None,
                reduce: None,
                fill: Vec::new(),
                tf32: false,
                data: Vec::new(),
                read: true,
                tells: None,
            };
            if self.cfg.landing == Landing::Eager {
                // The warp is not in its place now, so its copies land here.
                let mut flights = std::mem::take(&mut w.flights);
                self.finish_copies(&mut flights, l as u8, upto);
                w.flights = flights;
            }
            self.take_off(f)?;
        }
        Ok(())
    }
}
