//! Accesses through tiles of indices: gather, scatter, atomic updates. Bounds checked.
//!
//! ```text
//! address = pointer + bytes * sum over d of index[d] * stride[d]        in bounds iff for every d: (unsigned) index[d] < extent[d]
//! ```
//!
//! Where the indices of neighbours are known to be neighbours in a row, gather and scatter move vectors, each at the address and under the guard
//! of its first element; else, as an update does, one element at a time.
//!
//! Lanes, warps and registers that hold copies of an element take no part in a write; the old values of an update reach them by
//! shuffles and through shared memory.

use super::Lower;
use super::location::Tile;
use super::scratch::Scratch;
use super::shared::representative;
use super::vectors::{from_words, to_words, word_types};
use crate::layout::assign::scattered_layout;
use crate::layout::{legal_width, memory_type};
use crate::lower::scratch::{first_copies, plain_copies};
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, vectors_without};
use tilelift_ir::{Attr, CmpOp, Extent, Inst, MemoryOrder, Scalar, Scope, Value};
use tilelift_lane::{Atomic, AtomicKind, BinOp, LTy, LVal, LaneBuilder, Param, ParamSource, ShuffleFrom, Space, Special, Vals};
use tilelift_schedule::LowerError;
use tilelift_schedule::indexed::indexed_vectors;
use tilelift_schedule::reason::{Missing, NoRegister};

/// The tiles of an access in one layout.
pub(super) struct Indexed {
    pub(super) view: Value,
    index: Vec<Rc<Tile>>,
    mask: Option<Rc<Tile>>,
}

impl Lower<'_> {
    pub(super) fn indexed(&mut self, b: &mut LaneBuilder, i: Inst, layout: &Rc<Layout>) -> Result<Indexed, LowerError> {
        let kernel = self.kernel;
        let index = kernel.operand(i, "indices").iter().map(|&v| self.tile(b, v, layout)).collect::<Result<Vec<_>, _>>()?;
        let mask = match kernel.operand(i, "mask").first() {
            Some(&m) => Some(self.tile(b, m, layout)?),
            None => None,
        };
        Ok(Indexed { view: kernel.insts[i].args[0], index, mask })
    }

    /// Address and guard of the element in a register.
    pub(super) fn place(&self, b: &mut LaneBuilder, x: &Indexed, reg: usize) -> (LVal, Option<LVal>) {
        let n = self.param_number(x.view);
        let mut addr = b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(n) });
        let mut guard = x.mask.as_ref().map(|m| m.regs[reg]);
        let Some(view) = self.kernel.ty(x.view).as_view() else { return (addr, guard) };
        let bytes = i64::from(view.elem.bytes());
        for (d, index) in x.index.iter().enumerate() {
            let at = index.regs[reg];
            let extent = self.extent(b, x.view, d);
            let inside = b.cmp(CmpOp::Ult, at, extent);
            guard = b.and_guard(guard, Some(inside));
            addr = match view.stride(d) {
                Extent::Fixed(s) if i32::try_from(i64::from(s) * bytes).is_ok() => {
                    let s = b.i32(i64::from(s) * bytes);
                    b.mad_wide(at, s, addr)
                }
                Extent::Fixed(_) | Extent::Dynamic(_) => {
                    let stride = self.stride(b, x.view, d);
                    let scale = b.i64(bytes);
                    let stride = b.mul(stride, scale);
                    let at = b.cvt(at, LTy::I64);
                    let term = b.mul(at, stride);
                    b.add(addr, term)
                }
            };
        }
        (addr, guard)
    }

    pub(super) fn gather(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let result = self.kernel.insts[i].results[0];
        let elem = self.kernel.ty(result).elem();
        let layout = self.layout_of(result)?;
        let x = self.indexed(b, i, &layout)?;
        let other = match self.kernel.operand(i, "other").first() {
            Some(&o) => {
                let o = self.scalar(o)?;
                [o].into_iter().collect()
            }
            None => Vals::new(),
        };
        self.order_indexed(b, x.view, false, &layout);
        let cache = self.cache_hint(i);
        let copies = first_copies(&layout);
        let mut regs: Vec<Option<LVal>> = vec![None; copies.len()];
        for part in self.parts(i, &layout, elem)? {
            // Other registers may hold the same elements.
            if part.iter().all(|&r| copies[r as usize] < r as usize) {
                continue;
            }
            let (addr, guard) = self.place(b, &x, part[0] as usize);
            let n = part.len() as u32;
            let other = if other.is_empty() { Vals::new() } else { to_words(b, &vec![other[0]; part.len()], elem) };
            let words = b.load_global_hinted(&word_types(n, elem), (addr, 0), guard, other, cache);
            for (&r, v) in part.iter().zip(from_words(b, &words, elem, n)) {
                regs[r as usize] = Some(v);
            }
        }
        let held = (0..copies.len()).map(|r| regs[r].or(regs[copies[r]])).collect::<Option<Vec<LVal>>>();
        self.set_tile(result, Tile { layout, regs: held.ok_or(NoRegister::Load)? });
        Ok(())
    }

    /// The registers of each access of a gather or scatter.
    fn parts(&self, i: Inst, layout: &Layout, elem: Scalar) -> Result<Vec<Vec<u32>>, LowerError> {
        let v = indexed_vectors(self.kernel, i, layout.rank(), self.target.vector_bytes);
        let most = legal_width(v.elements, memory_type(elem));
        let columns = AccessColumns::global(layout, &v.order)?;
        let groups = vectors_without(&columns, elem.bytes(), most * elem.bytes(), layout.free_mask(Axis::Reg)).groups;
        let part =
            |g: &Vec<u32>| g.chunks(legal_width(g.len() as u32, memory_type(elem)) as usize).map(<[u32]>::to_vec).collect::<Vec<_>>();
        Ok(groups.iter().flat_map(part).collect())
    }

    pub(super) fn scatter(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let value = self.kernel.operand(i, "value")[0];
        let elem = self.kernel.ty(value).elem();
        let layout = self.layout_of(value)?;
        let tile = self.tile(b, value, &layout)?;
        let x = self.indexed(b, i, &layout)?;
        self.order_indexed(b, x.view, true, &layout);
        let writer = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let cache = self.cache_hint(i);
        let copies = first_copies(&layout);
        for part in self.parts(i, &layout, elem)? {
            if part.iter().all(|&r| copies[r as usize] < r as usize) {
                continue;
            }
            let (addr, guard) = self.place(b, &x, part[0] as usize);
            let elems: Vec<LVal> = part.iter().map(|&r| tile.regs[r as usize]).collect();
            let words = to_words(b, &elems, elem);
            let guard = b.and_guard(writer, guard);
            b.store_global_hinted(words, addr, 0, guard, cache);
        }
        Ok(())
    }

    pub(super) fn update(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let result = d.results[0];
        let t = kernel.ty(result).as_tile().cloned().ok_or(Missing::UpdateTile)?;
        let mut layout = self.layout_of(result)?;
        if !plain_copies(&layout) {
            layout = Rc::new(scattered_layout(&t.shape, t.elem.bytes(), self.target, &self.plan)?);
        }
        let value = self.tile(b, kernel.operand(i, "value")[0], &layout)?;
        let compare = match kernel.operand(i, "compare").first() {
            Some(&c) => Some(self.tile(b, c, &layout)?),
            None => None,
        };
        let x = self.indexed(b, i, &layout)?;
        let (order, scope) = d
            .attrs
            .iter()
            .find_map(|a| if let Attr::Sync(o, s) = a { Some((*o, *s)) } else { None })
            .unwrap_or((MemoryOrder::Relaxed, Scope::Gpu));
        // What the other lanes did in front of a releasing update comes before it: each of them may be the one that is seen.
        if order.releases() {
            self.order_all(b);
        }
        self.order_indexed(b, x.view, true, &layout);
        let (idle_lanes, idle_warps) = (layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let writer = representative(b, idle_lanes, idle_warps);
        let copies = first_copies(&layout);
        let mut regs: Vec<LVal> = Vec::new();
        for (r, &first) in copies.iter().enumerate() {
            if first < r {
                regs.push(regs[first]);
                continue;
            }
            let (addr, guard) = self.place(b, &x, r);
            let kind = match (&compare, d.attrs.first()) {
                (Some(c), _) => AtomicKind::Cas(c.regs[r]),
                (None, Some(Attr::Atomic(op))) => AtomicKind::Op(*op),
                (None, _) => return Err(Missing::UpdateOp.into()),
            };
            let guard = b.and_guard(writer, guard);
            let value = value.regs[r];
            regs.push(b.atomic(None, Atomic { dst: None, kind, space: Space::Global, addr, offset: 0, value, guard, order, scope }));
        }
        if order.acquires() {
            self.order_all(b);
        }
        let used = !self.assigned.users[result].is_empty();
        if used && (idle_lanes | idle_warps) != 0 {
            self.spread_copies(b, &mut regs, &copies, idle_lanes, idle_warps)?;
        }
        self.set_tile(result, Tile { layout, regs });
        Ok(())
    }

    /// Gives the lanes and warps that hold copies the values of those that hold the elements.
    fn spread_copies(
        &self,
        b: &mut LaneBuilder,
        regs: &mut [LVal],
        copies: &[usize],
        idle_lanes: u32,
        idle_warps: u32,
    ) -> Result<(), LowerError> {
        let cleared = |b: &mut LaneBuilder, what: Special, mask: u32| {
            let at = b.special(what);
            let rest = b.i32(i64::from(!(mask as i32)));
            b.bin(BinOp::And, at, rest)
        };
        let lane = cleared(b, Special::Lane, idle_lanes);
        let firsts: Vec<usize> = (0..regs.len()).filter(|&r| copies[r] == r).collect();
        if idle_lanes != 0 {
            for &r in &firsts {
                regs[r] = b.shuffle(regs[r], ShuffleFrom::Lane(lane));
            }
        }
        if idle_warps != 0 {
            let ty = b.ty(regs[0]);
            let (lanes, warps) = (self.target.lanes, self.plan.warps);
            let scratch = Scratch::new(self, b, u64::from(lanes * warps) * firsts.len() as u64, ty, "old values")?;
            let row = |b: &mut LaneBuilder, warp: LVal| {
                let (n, lane) = (b.i32(i64::from(lanes)), b.special(Special::Lane));
                let at = b.mul(warp, n);
                b.add(at, lane)
            };
            let warp = b.special(Special::Warp);
            let own = row(b, warp);
            let own = scratch.address(b, own);
            b.before_shared_writes();
            let step = lanes * warps;
            for (n, &r) in firsts.iter().enumerate() {
                scratch.store(b, own, n as u32 * step, regs[r], None);
            }
            let from = cleared(b, Special::Warp, idle_warps);
            let from = row(b, from);
            let from = scratch.address(b, from);
            for (n, &r) in firsts.iter().enumerate() {
                regs[r] = scratch.load(b, from, n as u32 * step);
            }
        }
        for r in 0..regs.len() {
            regs[r] = regs[copies[r]];
        }
        Ok(())
    }
}
