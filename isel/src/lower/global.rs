//! Global loads and stores: addresses, bounds and masks per vector.
//!
//! ```text
//! address = pointer + bytes * sum over d of (index[d] + lane part[d] + register part[d]) * stride[d]
//! in bounds iff for every d: (unsigned) (index[d] + lane part[d] + register part[d]) < extent[d]
//! ```
//!
//! Where a power of two divides index and extent, the coordinate is rounded down to it in front of that comparison: registers share a guard, and
//! a tile that is no longer has one.
//!
//! The lane part is computed once per access; what does not change in a loop leaves it (the builder sees to that).

use super::Lower;
use super::elementwise::Coords;
use super::location::{Tile, ValueLocation};
use super::points::{Points, together};
use super::shared::representative;
use super::vectors::{from_words, to_words, word_types};
use super::window::Window;
use crate::layout::legal_width;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, vectors_without};
use tilelift_ir::{Attr, CacheHint, CmpOp, Extent, Inst, Type, Value, ValueDef};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Param, ParamSource, Vals};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::{GlobalAccess, access_layout_for};
use tilelift_schedule::reason::NoRegister;

/// Vectors of a lane from which on a choice between a tile that is all inside and one that may not be is worth its place.
const MIN_MASKED: usize = 4;
/// Accesses of a lane from which on a window costs less than guards of their own.
const MIN_WINDOW: usize = 2;

impl Lower<'_> {
    /// Declares the launch parameters of a view argument.
    pub(super) fn declare_view(&mut self, b: &mut LaneBuilder, n: u32, view: Value) {
        b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(n) });
        let Type::View(v) = self.kernel.ty(view) else { return };
        for (d, e) in v.dims.iter().enumerate() {
            if let Extent::Dynamic(_) = e {
                b.param(Param { ty: LTy::I32, source: ParamSource::Extent(n, d as u32) });
            }
        }
        for (d, e) in v.strides.iter().flatten().enumerate() {
            if let Extent::Dynamic(_) = e {
                b.param(Param { ty: LTy::I64, source: ParamSource::Stride(n, d as u32) });
            }
        }
    }

    pub(super) fn param_number(&self, view: Value) -> u32 {
        match self.kernel.values[view].def {
            ValueDef::KernelParam(n) => n,
            // Views are parameters only; the verifier sees to it.
            ValueDef::Result(..) | ValueDef::RegionParam(..) => 0,
        }
    }

    /// Extent `d` of a view, as `i32`.
    pub(super) fn extent(&self, b: &mut LaneBuilder, view: Value, d: usize) -> LVal {
        let n = self.param_number(view);
        match self.kernel.ty(view).as_view().map(|v| v.dims[d]) {
            Some(Extent::Fixed(e)) => b.i32(i64::from(e)),
            Some(Extent::Dynamic(_)) | None => b.param(Param { ty: LTy::I32, source: ParamSource::Extent(n, d as u32) }),
        }
    }

    /// Indices of a copy by a bulk unit. Such units know no tensor without elements: to them each extent is 1 at least, so that the tiles of an
    /// empty view are moved behind it.
    pub(super) fn bulk_indices(&self, b: &mut LaneBuilder, view: Value, slowest: usize, mut indices: Vec<LVal>) -> Vec<LVal> {
        let dynamic = |&d: &usize| self.kernel.ty(view).as_view().is_some_and(|v| matches!(v.dims[d], Extent::Dynamic(_)));
        let zero = b.i32(0);
        let empty = (0..indices.len()).filter(dynamic).fold(None, |empty, d| {
            let n = self.extent(b, view, d);
            let none = b.cmp(CmpOp::Eq, n, zero);
            Some(empty.map_or(none, |e| b.bin(BinOp::Or, e, none)))
        });
        if let (Some(empty), Some(index)) = (empty, indices.get_mut(slowest)) {
            let far = b.i32(1 << 30);
            let beyond = b.select(empty, far, zero);
            *index = b.add(*index, beyond);
        }
        indices
    }

    /// Stride `d` of a view in elements, as `i64`.
    pub(super) fn stride(&self, b: &mut LaneBuilder, view: Value, d: usize) -> LVal {
        let n = self.param_number(view);
        let Some(v) = self.kernel.ty(view).as_view() else { return b.i64(1) };
        match (v.stride(d), &v.strides) {
            (Extent::Fixed(s), _) => b.i64(i64::from(s)),
            (Extent::Dynamic(_), Some(_)) => b.param(Param { ty: LTy::I64, source: ParamSource::Stride(n, d as u32) }),
            (Extent::Dynamic(_), None) => {
                let mut s = b.i64(1);
                for k in (d + 1..v.rank()).rev() {
                    let e = self.extent(b, view, k);
                    let e = b.cvt(e, LTy::I64);
                    s = b.mul(s, e);
                }
                s
            }
        }
    }

    /// Prepares the addresses of an access whose indices have the given values.
    pub(super) fn points<'k>(
        &mut self,
        b: &mut LaneBuilder,
        access: GlobalAccess<'k>,
        indices: &[LVal],
        layout: &Rc<Layout>,
    ) -> Result<Points<'k>, LowerError> {
        let coords = Coords::new(b, layout);
        let mask = match access.mask {
            // The mask of packed elements is for halves of bytes: the caller makes one of bytes.
            Some(m) if !access.packed => Some(self.tile(b, m, layout)?),
            Some(_) | None => None,
        };
        // A guard that is alike in all lanes becomes a branch, and beside products of tasks a branch costs more than comparisons.
        let together = together(&access, access.packed || self.task.is_some());
        Ok(Points { view: access.view_value, access, coords, index: indices.to_vec(), together, mask })
    }

    /// Address, constant byte offset and guard of the vector that starts at register `reg`.
    pub(super) fn point(&self, b: &mut LaneBuilder, p: &Points<'_>, layout: &Layout, reg: u32) -> (LVal, i32, Option<LVal>) {
        let bytes = i64::from(p.access.view.elem.bytes());
        let c = layout.reg_coord(reg);
        let mut guard = None;
        let mut offset = 0i64;
        // Terms of the address: those of the indices and lanes, then those of the register.
        let n = self.param_number(p.view);
        let mut terms = Vec::new();
        let mut late = Vec::new();
        for d in 0..p.access.view.rank() {
            let (part, rest) = p.coords.split(b, d, c[d]);
            let lane = match part {
                Some(v) => b.add(p.index[d], v),
                None => p.index[d],
            };
            // Of elements that are inside together the first one is asked for.
            let here = if layout.shape()[d] <= p.together[d] {
                p.index[d]
            } else {
                b.add_const(lane, i64::from(p.coords.first_of(d, rest, p.together[d])))
            };
            let mut extent = self.extent(b, p.view, d);
            if p.access.packed && d + 1 == p.access.view.rank() {
                let one = b.i32(1);
                extent = b.bin(BinOp::ShrU, extent, one);
            }
            let inside = b.cmp(CmpOp::Ult, here, extent);
            guard = b.and_guard(guard, Some(inside));
            let wide = b.cvt(lane, LTy::I64);
            match p.access.view.stride(d) {
                Extent::Fixed(s) => {
                    let s = b.i64(i64::from(s) * bytes);
                    terms.push(b.mul(wide, s));
                    offset += i64::from(rest) * b.as_const(s).unwrap_or(0) as i64;
                }
                Extent::Dynamic(_) => {
                    let mut s = self.stride(b, p.view, d);
                    if p.access.packed {
                        let one = b.i64(1);
                        s = b.bin(BinOp::ShrU, s, one);
                    }
                    let scale = b.i64(bytes);
                    let s = b.mul(s, scale);
                    terms.push(b.mul(wide, s));
                    let rest = b.i64(i64::from(rest));
                    late.push(b.mul(s, rest));
                }
            }
        }
        let mut addr = b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(n) });
        // Loop-invariant terms first, so that their sum leaves the loop as well.
        terms.sort_by_key(|&t| b.depth(t));
        for t in terms.into_iter().chain(late) {
            addr = b.add(addr, t);
        }
        if let Some(m) = &p.mask {
            guard = b.and_guard(guard, Some(m.regs[reg as usize]));
        }
        match i32::try_from(offset) {
            Ok(o) => (addr, o, guard),
            Err(_) => {
                let o = b.i64(offset);
                (b.add(addr, o), 0, guard)
            }
        }
    }

    /// A condition, alike in all lanes, under which a whole tile is inside of its view, where that is not known and guards cost instructions.
    fn inside(&self, b: &mut LaneBuilder, p: &Points<'_>, layout: &Layout) -> Option<LVal> {
        // Where lanes are switched off for each access, even one guard for all of them costs more than a choice.
        let one_guard = !self.target.masked_lanes && layout.shape().iter().zip(&p.together).all(|(extent, together)| extent <= together);
        if p.mask.is_some() || p.access.packed || one_guard {
            return None;
        }
        let mut all = None;
        for (d, &extent) in layout.shape().iter().enumerate() {
            let most = self.extent(b, p.view, d);
            // First places of a whole tile; a negative one is none.
            let (room, zero) = (b.add_const(most, 1 - i64::from(extent)), b.i32(0));
            let room = b.bin(BinOp::Maximum, room, zero);
            let here = b.cmp(CmpOp::Ult, p.index[d], room);
            all = b.and_guard(all, Some(here));
        }
        all.filter(|&all| b.as_const(all).is_none())
    }

    pub(super) fn load(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let result = self.kernel.insts[i].results[0];
        if self.staged[i] {
            self.first_for(b, i)?;
            let s = self.stage(b, i)?;
            self.values[result] = Some(ValueLocation::Staged(Rc::new(s)));
            return Ok(());
        }
        let want = self.layout_of(result)?;
        let access = GlobalAccess::of(self.kernel, i);
        if access.packed {
            return self.load_packed(b, i, access);
        }
        let elem = access.view.elem;
        let layout = if self.direct || self.searched() || self.assigned.kept[i] {
            want
        } else {
            access_layout_for(self.target, self.plan.warps, &access, &want, elem, true)?
        };
        let indices = self.index_values(&access.indices)?;
        let other = match self.kernel.operand(i, "other").first() {
            Some(&o) => Some(self.scalar(o)?),
            None => None,
        };
        let regs = self.load_regs(b, access, &indices, &layout, (other, None), (self.cache_hint(i), Some(i)))?;
        self.set_tile(result, Tile { layout, regs });
        Ok(())
    }

    /// What the product right behind a load takes from registers.
    fn first_for(&mut self, b: &mut LaneBuilder, load: Inst) -> Result<(), LowerError> {
        let Some(dot) = self.behind[load] else { return Ok(()) };
        let Some(plan) = self.assigned.dots[dot].clone().filter(|p| p.instr.is_some() && p.whole.rank() == 2) else { return Ok(()) };
        let args = &self.kernel.insts[dot].args;
        for (v, layout) in [(args[0], &plan.a), (args[1], &plan.b), (args[2], &plan.whole)] {
            if matches!(self.values[v], Some(ValueLocation::Tile(_))) {
                self.tile(b, v, layout)?;
            }
        }
        Ok(())
    }

    /// The cache hint of an access.
    pub(super) fn cache_hint(&self, i: Inst) -> CacheHint {
        let hint = self.kernel.insts[i].attrs.iter().find_map(|a| if let Attr::Cache(c) = a { Some(*c) } else { None });
        hint.unwrap_or(CacheHint::Normal)
    }

    /// Values of index operands.
    pub(super) fn index_values(&self, indices: &[Value]) -> Result<Vec<LVal>, LowerError> {
        indices.iter().map(|&v| self.scalar(v)).collect()
    }

    /// Loads a tile into registers; of an instruction that may stand in rounds that are whole but for the last one it is given which. `byte_mask` stands for the access's own mask where that is one of halves of bytes.
    pub(super) fn load_regs(
        &mut self,
        b: &mut LaneBuilder,
        access: GlobalAccess<'_>,
        indices: &[LVal],
        layout: &Rc<Layout>,
        (other, byte_mask): (Option<LVal>, Option<Rc<Tile>>),
        (cache, inst): (CacheHint, Option<Inst>),
    ) -> Result<Vec<LVal>, LowerError> {
        let elem = access.view.elem;
        let columns = AccessColumns::global(layout, &access.order())?;
        let vec = legal_width(access.vector_elements(self.target.vector_bytes), crate::layout::memory_type(elem));
        let free = layout.free_mask(Axis::Reg);
        let vectors = vectors_without(&columns, elem.bytes(), vec * elem.bytes(), free);
        self.order_access(b, access.view_value, false, layout, indices);
        let mut points = self.points(b, access, indices, layout)?;
        points.mask = byte_mask.or(points.mask);
        let mut out: Vec<Option<LVal>> = vec![None; layout.size(Axis::Reg) as usize];
        let width = |group: &[u32]| legal_width(group.len() as u32, crate::layout::memory_type(elem)) as usize;
        let parts: Vec<&[u32]> = vectors.groups.iter().flat_map(|group| group.chunks(width(group))).collect();
        let each = |cx: &Self, b: &mut LaneBuilder, part: &[u32], inside: bool| {
            let n = part.len() as u32;
            let (addr, offset, guard) = cx.point(b, &points, layout, part[0]);
            let other = match other.filter(|_| !inside) {
                Some(o) => to_words(b, &vec![o; part.len()], elem),
                None => Vals::new(),
            };
            b.load_global_hinted(&word_types(n, elem), (addr, offset), guard.filter(|_| !inside), other, cache)
        };
        let choose = parts.len() >= MIN_MASKED && (self.target.masked_lanes || inst.is_some_and(|i| self.in_rounds(i)));
        let zeros = other.is_none_or(|o| b.as_const(o) == Some(0));
        let window =
            if parts.len() >= MIN_WINDOW && zeros { self.window(b, &points, layout, parts[0].len() as u32 * elem.bytes()) } else { None };
        let inside = if choose && window.is_none() { self.inside(b, &points, layout) } else { None };
        // Where all of the tile is inside, or it has a window, no lane is switched off.
        let words = match (&window, inside) {
            (Some(window), _) => {
                let through = |cx: &Self, b: &mut LaneBuilder, part: &[u32]| {
                    let (addr, guard) = window.point(b, cx, &points, (layout, part[0]), None);
                    b.load_global_hinted(&word_types(part.len() as u32, elem), (addr, 0), Some(guard), Vals::new(), cache)
                };
                let near =
                    |cx: &mut Self, b: &mut LaneBuilder| Ok::<_, LowerError>(parts.iter().flat_map(|part| through(cx, b, part)).collect());
                let far = |cx: &mut Self, b: &mut LaneBuilder| {
                    Ok::<_, LowerError>(parts.iter().flat_map(|part| each(cx, b, part, false)).collect::<Vec<LVal>>())
                };
                match b.as_const(window.near) {
                    Some(0) => None,
                    Some(_) => Some(near(self, b)?),
                    None => Some(b.if_else(self, window.near, near, far)?),
                }
            }
            (None, Some(inside)) => {
                let all = |inside: bool| {
                    let (each, parts) = (&each, &parts);
                    move |cx: &mut Self, b: &mut LaneBuilder| {
                        Ok::<_, LowerError>(parts.iter().flat_map(|part| each(cx, b, part, inside)).collect::<Vec<LVal>>())
                    }
                };
                Some(b.if_else(self, inside, all(true), all(false))?)
            }
            (None, None) => None,
        };
        let mut words = words.as_deref();
        for part in parts {
            let n = part.len() as u32;
            b.meter.global(&columns, elem.bytes(), n, self.plan.warps);
            let elems = match words.and_then(|words| words.split_at_checked(word_types(n, elem).len())) {
                Some((own, rest)) => {
                    words = Some(rest);
                    from_words(b, own, elem, n)
                }
                None => {
                    let own = each(self, b, part, false);
                    from_words(b, &own, elem, n)
                }
            };
            part.iter().zip(elems).for_each(|(&r, e)| out[r as usize] = Some(e));
        }
        // Registers that are copies of another hold the same value.
        (0..out.len()).map(|r| out[r].or(out[r & !(free as usize)])).collect::<Option<Vec<LVal>>>().ok_or_else(|| NoRegister::Load.into())
    }

    pub(super) fn store(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let value = self.kernel.operand(i, "value")[0];
        let access = GlobalAccess::of(self.kernel, i);
        let elem = access.view.elem;
        let held = match &self.values[value] {
            Some(ValueLocation::Tile(t)) => t.layout.clone(),
            Some(ValueLocation::Scalar(_) | ValueLocation::Staged(_) | ValueLocation::Local(_) | ValueLocation::Mbarriers(_)) | None => {
                self.layout_of(value)?
            }
        };
        let held = if access.packed { Rc::new(crate::layout::packed::bytes_of(&held)?) } else { held };
        let layout = if self.searched() && !access.packed {
            self.layout_of(value)?
        } else if self.as_held {
            held
        } else {
            access_layout_for(self.target, self.plan.warps, &access, &held, elem, false)?
        };
        let (tile, indices) = if access.packed {
            (self.bytes_in(b, value, &layout)?, self.byte_indices(b, &access)?)
        } else {
            (self.tile(b, value, &layout)?, self.index_values(&access.indices)?)
        };
        let columns = AccessColumns::global(&layout, &access.order())?;
        let vec = legal_width(access.vector_elements(self.target.vector_bytes), crate::layout::memory_type(elem));
        let vectors = vectors_without(&columns, elem.bytes(), vec * elem.bytes(), layout.free_mask(Axis::Reg));
        let writer = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        self.order_access(b, access.view_value, true, &layout, &indices);
        let points = self.points(b, access, &indices, &layout)?;
        let cache = self.cache_hint(i);
        let width = |group: &[u32]| legal_width(group.len() as u32, crate::layout::memory_type(elem)) as usize;
        let parts: Vec<&[u32]> = vectors.groups.iter().flat_map(|group| group.chunks(width(group))).collect();
        let writing = self.plan.warps >> layout.free_mask(Axis::Warp).count_ones();
        let words = |b: &mut LaneBuilder, part: &[u32]| {
            let elems: Vec<LVal> = part.iter().map(|&r| tile.regs[r as usize]).collect();
            to_words(b, &elems, elem)
        };
        for part in &parts {
            b.meter.global(&columns, elem.bytes(), part.len() as u32, writing);
        }
        let guarded = |cx: &mut Self, b: &mut LaneBuilder| {
            for part in &parts {
                let (addr, offset, guard) = cx.point(b, &points, &layout, part[0]);
                let (words, guard) = (words(b, part), b.and_guard(writer, guard));
                b.store_global_hinted(words, addr, offset, guard, cache);
            }
            Ok::<_, LowerError>(Vec::new())
        };
        let through = |window: &Window, cx: &mut Self, b: &mut LaneBuilder| {
            for part in &parts {
                let (addr, guard) = window.point(b, cx, &points, (&layout, part[0]), writer);
                let words = words(b, part);
                b.store_global_hinted(words, addr, 0, Some(guard), cache);
            }
            Ok::<_, LowerError>(Vec::new())
        };
        // Elsewhere elements are computed one by one, from stores back to loads, and no choice stands around all stores.
        let window = if parts.len() >= MIN_WINDOW && self.products {
            self.window(b, &points, &layout, parts[0].len() as u32 * elem.bytes())
        } else {
            None
        };
        match window.filter(|w| b.as_const(w.near) != Some(0)) {
            Some(window) if b.as_const(window.near).is_some() => through(&window, self, b)?,
            Some(window) => b.if_else(self, window.near, |cx, b| through(&window, cx, b), guarded)?,
            None => guarded(self, b)?,
        };
        Ok(())
    }
}
