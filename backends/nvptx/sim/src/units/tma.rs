//! Tensor maps at work: finding the map an address names, and turning a box into runs of bytes.

use crate::error::{ErrorKind, R};
use crate::memory::{PARAM_WINDOW, SHARED_BASE};
use crate::state::Simulator;
use crate::state::flight::Plan;
use crate::state::flight::{Mem, Run};
use crate::state::race::STREAM;
use crate::state::warp::Warp;
use crate::tensor_map::{MapElement, TensorMap};

impl Simulator<'_> {
    /// The tensor map at a generic address.
    pub(crate) fn map_at(&self, w: &Warp, at: u32, l: usize, addr: u64) -> R<TensorMap> {
        let lane = Some(l as u32);
        let off = addr.wrapping_sub(PARAM_WINDOW);
        let params = self.params.len() as u64;
        let bytes = if off < params {
            self.params.get(off as usize..off as usize + 128)
        } else if addr < params {
            let m = "the address of a tensor map is that of a parameter without cvta.param: hardware would read global memory there";
            return Err(self.fail(w, at, ErrorKind::OutOfBounds, m, lane, Some(addr)));
        } else {
            let (b, o) = self.global_range(w, at, l, addr, 128, false)?;
            self.map_fenced(w, at, l, b, o, addr)?;
            self.mem.buffers[b as usize].bytes.get(o as usize..o as usize + 128)
        };
        if !addr.is_multiple_of(64) {
            let m = "a tensor map at an address that is not a multiple of 64";
            return Err(self.fail(w, at, ErrorKind::Misaligned, m, lane, Some(addr)));
        }
        match bytes.and_then(TensorMap::decode) {
            Some(m) => Ok(m),
            None => {
                let m = "there is no tensor map at this address (encode one with `TensorMap::encode` or pass `Arg::TensorMap`)";
                Err(self.fail(w, at, ErrorKind::Undefined, m, lane, Some(addr)))
            }
        }
    }

    /// A map in global memory that this launch wrote needs `fence.proxy.tensormap` on its address before it is used.
    fn map_fenced(&self, w: &Warp, at: u32, l: usize, buf: u32, off: u64, addr: u64) -> R<()> {
        if !self.cfg.global_races || w.maps.contains(&addr) {
            return Ok(());
        }
        for g in off / crate::state::race::GRANULE..(off + 128).div_ceil(crate::state::race::GRANULE) {
            if let Some(r) = self.gshadow[buf as usize].peek(g).and_then(|c| c.newest_write()) {
                let m = "the tensor map was written by this kernel and fence.proxy.tensormap has not made it visible";
                let mut e = self.fail(w, at, ErrorKind::Proxy, m, Some(l as u32), Some(addr));
                if r.agent & STREAM == 0 {
                    e.other = Some(Box::new(self.record_site_global(&r, Some(addr))));
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// The bytes a copy of the box at `coords` moves between the tensor and the tile at shared offset `off`.
    #[expect(clippy::too_many_arguments, reason = "place, map and box of one instruction")]
    pub(crate) fn tile_plan(&self, w: &Warp, at: u32, l: usize, map: &TensorMap, coords: &[i64], off: u64, write: bool) -> R<Plan> {
        let es = i64::from(map.element.bytes());
        let tile = map.tile();
        let rank = tile.len();
        let inner = i64::from(tile[0]);
        let rows: u64 = tile[1..].iter().map(|&n| u64::from(n)).product();
        let mut plan = Plan {
            runs: Vec::new(),
            rows: Vec::new(),
            bytes: map.tile_bytes(),
            fill: map.fill_bytes(),
            tf32: map.element == MapElement::Tf32,
        };
        // Elements of a row inside the tensor: the same for every row.
        let lo = (-coords[0]).clamp(0, inner);
        let hi = (map.dims[0] as i64 - coords[0]).clamp(lo, inner);
        for row in 0..rows {
            let mut left = row;
            let mut inside = hi > lo;
            let mut global = map.base as i128 + i128::from(coords[0] + lo) * i128::from(es);
            for d in 1..rank {
                let i = (left % u64::from(tile[d])) as i64;
                left /= u64::from(tile[d]);
                let c = coords[d] + i * i64::from(map.element_strides[d]);
                inside &= c >= 0 && c < map.dims[d] as i64;
                global += i128::from(c) * i128::from(map.strides[d - 1]);
            }
            let base = SHARED_BASE + off + row * (inner * es) as u64;
            let (lo, hi) = if inside { (lo * es, hi * es) } else { (0, 0) };
            let mut place = None;
            if inside {
                let (b, o) = self.global_range(w, at, l, global as u64, (hi - lo) as u64, write)?;
                plan.rows.push((b, o, (hi - lo) as u64));
                place = Some((b, o));
            }
            // Pieces of the row that are contiguous on both sides: chunks of 16 bytes when swizzled.
            let step = if map.swizzle.width().is_some() { 16 } else { inner * es };
            let mut x = 0;
            while x < inner * es {
                let end = x + step;
                let phys = map.swizzle.apply(base + x as u64) - SHARED_BASE;
                let (a, b) = (lo.clamp(x, end), hi.clamp(x, end));
                let mut put = |from: i64, to: i64, mem: Mem| {
                    if to > from {
                        plan.runs.push(Run { shared: phys + (from - x) as u64, mem, len: (to - from) as u32 });
                    }
                };
                if let Some((buf, o)) = place.filter(|_| b > a) {
                    put(a, b, Mem::Global(buf, o + (a - lo) as u64));
                    if !write {
                        put(x, a, Mem::Fill);
                        put(b, end, Mem::Fill);
                    }
                } else if !write {
                    put(x, end, Mem::Fill);
                }
                x = end;
            }
        }
        Ok(plan)
    }
}
