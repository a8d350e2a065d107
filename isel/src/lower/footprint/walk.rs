//! The walk through what consumers do, with layouts for values: the lowering's way through each op, without what it writes.

use super::super::indexed::{first_copies, plain_copies};
use super::super::reduce::{exchanges, spread_layout};
use super::super::scan::scan_exchanges;
use super::super::{dim_of, rearrange, sizes, sort};
use super::Piece;
use crate::hash::Map;
use crate::lane::{LTy, Target};
use crate::layout::assign::{Assignment, scattered_layout};
use crate::layout::packed::{bytes_of, halves_of};
use crate::layout::{memory_type, owners};
use cranelift_entity::SecondaryMap;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Conversion, Layout, operand_swizzle, plan_conversion};
use tilelift_ir::reduce::reduce_order;
use tilelift_ir::{Attr, Inst, Kernel, Loc, Op, Region, Scalar, Type, Value};
use tilelift_schedule::access::{GlobalAccess, access_layout_for};
use tilelift_schedule::plan::{Plan, Specialised, behind_reshapes, is_panels, is_view, is_zero, trace};

/// Where a value is.
#[derive(Clone)]
pub(super) enum At {
    Scalar,
    Tile(Rc<Layout>),
}

/// The walk: the lowering of the consumers, with layouts for values.
pub(super) struct Walk<'a> {
    pub kernel: &'a Kernel,
    pub target: &'a Target,
    pub plan: &'a Plan,
    pub ring: &'a Specialised,
    pub assigned: &'a Assignment,
    pub direct: bool,
    pub values: SecondaryMap<Value, Option<At>>,
    /// Conversions done, with the block they were done in.
    pub variants: Map<Value, Vec<(Rc<Layout>, u32)>>,
    /// Blocks that are open, the innermost one last, and how many there have been.
    pub open: Vec<u32>,
    pub blocks: u32,
    /// Where the instruction stands that is being looked at.
    pub loc: Loc,
    pub pieces: &'a mut Vec<Piece>,
}

/// The lowering refuses the instruction.
pub(super) struct Refused;

impl<E: std::error::Error> From<E> for Refused {
    fn from(_: E) -> Refused {
        Refused
    }
}

pub(super) type Walked<T = ()> = Result<T, Refused>;

impl<'a> Walk<'a> {
    /// In front of the kernel.
    pub fn of(
        kernel: &'a Kernel,
        target: &'a Target,
        (plan, ring): (&'a Plan, &'a Specialised),
        assigned: &'a Assignment,
        direct: bool,
        pieces: &'a mut Vec<Piece>,
    ) -> Walk<'a> {
        let (values, variants) = (SecondaryMap::new(), Map::default());
        Walk { kernel, target, plan, ring, assigned, direct, values, variants, open: vec![0], blocks: 0, loc: Loc::default(), pieces }
    }

    fn take(&mut self, bytes: u64, purpose: &'static str) {
        self.pieces.push(Piece { bytes, purpose, loc: self.loc });
    }

    pub fn in_block(&mut self, body: impl FnOnce(&mut Self) -> Walked) -> Walked {
        self.blocks += 1;
        self.open.push(self.blocks);
        let done = body(self);
        self.open.pop();
        done
    }

    pub fn is_tile(&self, v: Value) -> bool {
        matches!(self.kernel.ty(v), Type::Tile(_))
    }

    pub fn layout_of(&self, v: Value) -> Walked<Rc<Layout>> {
        self.assigned.layout(v).cloned().ok_or(Refused)
    }

    fn held(&self, v: Value) -> Walked<Rc<Layout>> {
        match &self.values[v] {
            Some(At::Tile(l)) => Ok(l.clone()),
            Some(At::Scalar) | None => Err(Refused),
        }
    }

    pub fn set(&mut self, v: Value, layout: Rc<Layout>) {
        self.values[v] = Some(At::Tile(layout));
    }

    /// A result in its own layout, or a number.
    pub fn set_own(&mut self, v: Value) -> Walked {
        let at = if self.is_tile(v) { At::Tile(self.layout_of(v)?) } else { At::Scalar };
        self.values[v] = Some(at);
        Ok(())
    }

    /// A tile is wanted in a layout.
    pub fn tile(&mut self, v: Value, want: &Rc<Layout>) -> Walked {
        let held = self.held(v)?;
        let block = self.open.last().copied().unwrap_or(0);
        let known = |list: &Vec<(Rc<Layout>, u32)>| list.iter().any(|(l, at)| l == want && self.open.contains(at));
        if held == *want || self.variants.get(&v).is_some_and(known) {
            return Ok(());
        }
        let born = self.kernel.def_inst(v).is_some_and(|i| matches!(self.kernel.insts[i].op, Op::Iota | Op::Splat));
        if !born {
            self.convert(&held, want, self.kernel.ty(v).elem())?;
        }
        self.variants.entry(v).or_default().push((want.clone(), block));
        Ok(())
    }

    fn own_tile(&mut self, v: Value) -> Walked<Rc<Layout>> {
        let layout = self.layout_of(v)?;
        self.tile(v, &layout)?;
        Ok(layout)
    }

    fn convert(&mut self, from: &Layout, want: &Layout, elem: Scalar) -> Walked {
        let bytes = memory_type(elem).bytes();
        if let Conversion::RoundTrip(p) = plan_conversion(from, want, bytes, self.target.lanes, &self.target.banks)? {
            self.take(sizes::conversion(&p, bytes), "conversion");
        }
        Ok(())
    }

    pub fn region(&mut self, r: Region) -> Walked {
        let kernel = self.kernel;
        kernel.regions[r].insts.iter().try_for_each(|&i| self.inst(i))
    }

    pub fn inst(&mut self, i: Inst) -> Walked {
        if self.in_ring(i) {
            return Ok(());
        }
        let around = std::mem::replace(&mut self.loc, self.kernel.locs[i]);
        self.inst_once(i)?;
        for &v in &self.kernel.insts[i].results {
            if let (Some(want), Some(At::Tile(l))) = (self.assigned.held[v].clone(), self.values[v].clone())
                && l != want
            {
                self.convert(&l, &want, self.kernel.ty(v).elem())?;
                self.set(v, want);
            }
        }
        self.loc = around;
        Ok(())
    }

    /// Loads into the ring, and other views of what is there.
    fn in_ring(&self, i: Inst) -> bool {
        let d = &self.kernel.insts[i];
        match d.op {
            Op::Load => self.ring.loads.iter().any(|l| l.0 == i),
            Op::Transpose | Op::Reshape => self.kernel.def_inst(d.args[0]).is_some_and(|j| self.in_ring(j)),
            _ => is_view(self.kernel, i) && self.kernel.def_inst(d.args[0]).is_some_and(|j| self.in_ring(j)),
        }
    }

    /// All tiles among values, wanted in one layout.
    fn tiles(&mut self, values: &[Value], want: &Rc<Layout>) -> Walked {
        values.iter().filter(|&&v| self.kernel.ty(v).as_tile().is_some()).try_for_each(|&v| self.tile(v, want))
    }

    fn inst_once(&mut self, i: Inst) -> Walked {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let result = || d.results.first().copied().ok_or(Refused);
        match d.op {
            Op::Const | Op::ProgramId | Op::NumPrograms | Op::Dim | Op::Assume | Op::Iota | Op::Splat => self.set_own(result()?)?,
            tilelift_ir::elementwise_ops!() => self.elementwise(i)?,
            Op::Philox => {
                if self.is_tile(result()?) {
                    let layout = self.layout_of(result()?)?;
                    self.tiles(&d.args, &layout)?;
                }
                d.results.iter().try_for_each(|&v| self.set_own(v))?;
            }
            Op::Broadcast => {
                let layout = self.layout_of(result()?)?;
                let (from, to) = (kernel.ty(d.args[0]).shape().ok_or(Refused)?, kernel.ty(result()?).shape().ok_or(Refused)?);
                let mut source = (*layout).clone();
                for k in (0..to.len()).filter(|&k| from[k] != to[k]) {
                    source = source.with_dim_broadcast(k);
                }
                self.tile(d.args[0], &Rc::new(source))?;
                self.set(result()?, layout);
            }
            Op::Reshape => self.reshape(d.args[0], result()?)?,
            Op::Transpose => {
                let Some(Attr::Perm(p)) = d.attrs.first() else { return Err(Refused) };
                let perm: Vec<usize> = p.iter().map(|&x| x as usize).collect();
                let layout = self.own_tile(d.args[0])?.transpose(&perm)?;
                self.set(result()?, Rc::new(layout));
            }
            Op::Join | Op::Split | Op::Concat | Op::Slice | Op::Flip => self.rearrange(i)?,
            Op::Reduce | Op::ArgMin | Op::ArgMax | Op::ReduceBy | Op::Scan | Op::ScanReverse | Op::ScanBy | Op::ScanReverseBy => {
                self.fold(i)?
            }
            Op::RequireLayout if is_panels(kernel, i) => self.values[result()?] = self.values[d.args[0]].clone(),
            Op::RequireLayout | Op::ReleaseLayout => {
                let layout = self.layout_of(result()?)?;
                self.tile(d.args[0], &layout)?;
                self.set(result()?, layout);
            }
            Op::Assert if self.is_tile(d.args[0]) => drop(self.own_tile(d.args[0])?),
            Op::Assert | Op::Prefetch | Op::Yield => {}
            Op::Dot => self.dot(i)?,
            Op::Load => self.load(i)?,
            Op::Store => self.store(i)?,
            Op::Gather | Op::Scatter | Op::Atomic | Op::AtomicCas => self.indexed(i)?,
            Op::GatherTile => {
                let from = self.own_tile(d.args[0])?;
                let layout = self.layout_of(result()?)?;
                self.tile(d.args[1], &layout)?;
                let ty = sizes::scratch_type(LTy::holding(kernel.ty(result()?).elem()));
                self.take(sizes::array(from.shape(), ty.bytes()), "gather");
                self.set(result()?, layout);
            }
            Op::Histogram => {
                let from = self.own_tile(d.args[0])?;
                self.tiles(&d.args[1..], &from)?;
                let out = self.layout_of(result()?)?;
                self.take(sizes::array(&out.shape()[..1], LTy::I32.bytes()), "histogram");
                self.set(result()?, out);
            }
            Op::Sort | Op::ArgSort | Op::TopK | Op::ArgTopK => {
                let from = self.own_tile(d.args[0])?;
                for bytes in sort::scratch_bytes(kernel, self.target, self.plan, i, from.shape())? {
                    self.take(bytes, "sort");
                }
                self.set_own(result()?)?;
            }
            Op::For if i == self.ring.main => self.main(i)?,
            Op::For => {
                let params = &kernel.regions[d.regions[0]].params[1..];
                self.looped(&d.args[3..], params, &d.results, |w| {
                    w.region(d.regions[0])?;
                    w.wanted(kernel.yields(d.regions[0]), params)
                })?;
            }
            Op::While => {
                let (test, run) = (d.regions[0], d.regions[1]);
                self.wanted(&d.args, &kernel.regions[run].params)?;
                for r in [test, run] {
                    self.in_block(|w| {
                        kernel.regions[r].params.iter().try_for_each(|&v| w.set_own(v))?;
                        w.region(r)?;
                        if r == run { w.wanted(kernel.yields(r), &kernel.regions[run].params) } else { Ok(()) }
                    })?;
                }
                d.results.iter().try_for_each(|&v| self.set_own(v))?;
            }
            Op::If => {
                for &r in &d.regions {
                    self.in_block(|w| {
                        w.region(r)?;
                        w.wanted(kernel.yields(r), &d.results)
                    })?;
                }
                d.results.iter().try_for_each(|&v| self.set_own(v))?;
            }
            Op::Print => return Err(Refused),
            tilelift_ir::explicit_ops!() => return Err(Refused),
        }
        Ok(())
    }

    /// Values are wanted in the layouts of others.
    pub fn wanted(&mut self, values: &[Value], like: &[Value]) -> Walked {
        for (&v, &l) in values.iter().zip(like) {
            if self.is_tile(l) {
                let layout = self.layout_of(l)?;
                self.tile(v, &layout)?;
            }
        }
        Ok(())
    }

    /// A loop: what it begins with, its body with the carried values bound, its results.
    pub fn looped(&mut self, init: &[Value], params: &[Value], results: &[Value], body: impl FnOnce(&mut Self) -> Walked) -> Walked {
        self.wanted(init, params)?;
        self.in_block(|w| {
            params.iter().try_for_each(|&v| w.set_own(v))?;
            body(w)
        })?;
        results.iter().zip(params).try_for_each(|(&v, &p)| match self.is_tile(v) {
            true => self.layout_of(p).map(|l| self.set(v, l)),
            false => self.set_own(v),
        })
    }

    fn elementwise(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let packed = |v: Value| self.kernel.ty(v).elem().is_packed();
        if self.is_tile(result) && d.op == Op::Bitcast && packed(result) != packed(d.args[0]) {
            if packed(result) {
                let bytes = self.own_tile(d.args[0])?;
                self.set(result, Rc::new(halves_of(&bytes)?.0));
            } else {
                let layout = self.layout_of(result)?;
                self.tile(d.args[0], &Rc::new(halves_of(&layout)?.0))?;
                self.set(result, layout);
            }
            return Ok(());
        }
        if self.is_tile(result) {
            let layout = self.layout_of(result)?;
            self.tiles(&d.args, &layout)?;
        }
        self.set_own(result)
    }

    fn reshape(&mut self, from: Value, to: Value) -> Walked {
        match (self.is_tile(from), self.kernel.ty(to).shape()) {
            (true, Some(shape)) => {
                let held = self.own_tile(from)?;
                let layout = match held.reshape(shape) {
                    Ok(layout) => Rc::new(layout),
                    Err(_) => {
                        self.take(sizes::array(shape, memory_type(self.kernel.ty(to).elem()).bytes()), "reshape");
                        self.layout_of(to)?
                    }
                };
                self.set(to, layout);
                Ok(())
            }
            (true, None) => {
                self.own_tile(from)?;
                self.set_own(to)
            }
            (false, _) => self.set_own(to),
        }
    }

    fn rearrange(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let through = |w: &mut Self, shape: &[u32]| {
            w.take(sizes::array(shape, memory_type(w.kernel.ty(result).elem()).bytes()), "rearrangement");
            w.set_own(result)
        };
        match d.op {
            Op::Join => {
                let layout = rearrange::joined(self.layout_of(result)?, &*self.layout_of(d.args[0])?)?;
                self.tiles(&d.args, &Rc::new(layout.slice(layout.rank() - 1)))?;
                self.set(result, layout);
            }
            Op::Split => {
                let layout = rearrange::split_from(self.layout_of(d.args[0])?, self.target, self.plan.warps)?;
                self.tile(d.args[0], &layout)?;
                for &r in &d.results {
                    match self.is_tile(r) {
                        true => self.set(r, Rc::new(layout.slice(layout.rank() - 1))),
                        false => self.set_own(r)?,
                    }
                }
            }
            Op::Concat => {
                let (x, y) = (self.own_tile(d.args[0])?, self.layout_of(d.args[1])?);
                if x.shape() == y.shape() {
                    self.tile(d.args[1], &x)?;
                    if let Ok((_, layout)) = rearrange::concatenated(&x, dim_of(self.kernel, i)) {
                        self.set(result, Rc::new(layout));
                        return Ok(());
                    }
                }
                self.own_tile(d.args[1])?;
                let shape = self.layout_of(result)?.shape().to_vec();
                through(self, &shape)?;
            }
            Op::Slice => {
                let Some(Attr::Offsets(offsets)) = d.attrs.first() else { return Err(Refused) };
                let from = self.own_tile(d.args[0])?;
                let to = self.layout_of(result)?.shape().to_vec();
                match rearrange::chunk_layout(&from, offsets, &to) {
                    Some(layout) => self.set(result, Rc::new(layout)),
                    None => through(self, from.shape())?,
                }
            }
            _ => {
                let from = self.own_tile(d.args[0])?;
                match rearrange::flips_in_place(&from, dim_of(self.kernel, i)) {
                    true => self.set(result, from),
                    false => through(self, from.shape())?,
                }
            }
        }
        Ok(())
    }

    /// Reductions and scans: exchanges between warps.
    fn fold(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let dim = dim_of(self.kernel, i);
        let t = self.kernel.ty(d.args[0]).as_tile().ok_or(Refused)?;
        let by = matches!(d.op, Op::ReduceBy | Op::ScanBy | Op::ScanReverseBy);
        let mut layout = self.layout_of(d.args[0])?;
        if !by {
            self.tile(d.args[0], &layout)?;
        }
        if owners(&layout, dim).is_none() {
            layout = spread_layout(t, self.target, self.plan)?;
        }
        let operands = if by { &d.args[..] } else { &d.args[..1] };
        self.tiles(operands, &layout)?;
        let owned = owners(&layout, dim).ok_or(Refused)?;
        let scans = matches!(d.op, Op::Scan | Op::ScanReverse | Op::ScanBy | Op::ScanReverseBy);
        let tys: Vec<LTy> = match d.op {
            Op::ArgMin | Op::ArgMax => vec![if t.elem.bits() == 64 { LTy::I64 } else { LTy::I32 }, LTy::I32],
            _ => operands.iter().map(|&a| sizes::combined_type(self.kernel.ty(a).elem())).collect(),
        };
        let (counts, purpose) = match scans {
            true => (scan_exchanges(&layout, &owned), "scan"),
            false => (exchanges(&layout, dim, &owned, &reduce_order(t.shape[dim]).bits), "reduction"),
        };
        for count in counts {
            self.take(sizes::exchange(self.target, self.plan.warps, count, &tys), purpose);
        }
        for &r in &d.results {
            match (scans, self.is_tile(r)) {
                (true, true) => self.set(r, layout.clone()),
                (false, true) => self.set(r, Rc::new(layout.slice(dim))),
                (_, false) => self.set_own(r)?,
            }
        }
        Ok(())
    }

    /// Loads that do not fill the ring.
    fn load(&mut self, i: Inst) -> Walked {
        let result = self.kernel.insts[i].results[0];
        let access = GlobalAccess::of(self.kernel, i);
        let want = self.layout_of(result)?;
        if access.packed {
            let bytes = access_layout_for(self.target, self.plan.warps, &access, &Rc::new(bytes_of(&want)?), Scalar::I8, true)?;
            let whole = Rc::new(halves_of(&bytes)?.0);
            if let Some(m) = access.mask {
                self.tile(m, &whole)?;
            }
            self.set(result, whole);
            return Ok(());
        }
        let elem = access.view.elem;
        let layout = if self.direct { want } else { access_layout_for(self.target, self.plan.warps, &access, &want, elem, true)? };
        if let Some(m) = access.mask {
            self.tile(m, &layout)?;
        }
        self.set(result, layout);
        Ok(())
    }

    /// Results leave through panels, or as they are held.
    fn store(&mut self, i: Inst) -> Walked {
        let value = self.kernel.operand(i, "value")[0];
        if self.ring.stores.iter().any(|s| s.0 == i) {
            let held = self.held(behind_reshapes(self.kernel, value))?;
            let sum = |&(j, _): &(Inst, _)| self.assigned.dots[j].as_ref().is_some_and(|p| *p.d == *held);
            if self.ring.dots.iter().any(sum) {
                return Ok(());
            }
        }
        let access = GlobalAccess::of(self.kernel, i);
        let held = self.held(value)?;
        if access.packed {
            return self.tile(value, &Rc::new(halves_of(&bytes_of(&held)?)?.0));
        }
        match access.mask {
            Some(m) => self.tile(m, &held),
            None => Ok(()),
        }
    }

    fn indexed(&mut self, i: Inst) -> Walked {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let operands = |name: &'static str| kernel.operand(i, name);
        let of = if d.op == Op::Scatter { operands("value")[0] } else { d.results[0] };
        let t = kernel.ty(of).as_tile().ok_or(Refused)?;
        let mut layout = self.layout_of(of)?;
        let updates = matches!(d.op, Op::Atomic | Op::AtomicCas);
        if updates && !plain_copies(&layout) {
            layout = Rc::new(scattered_layout(&t.shape, t.elem.bytes(), self.target, self.plan)?);
        }
        if d.op != Op::Gather {
            self.tiles(operands("value"), &layout)?;
        }
        if d.op == Op::AtomicCas {
            self.tiles(operands("compare"), &layout)?;
        }
        self.tiles(operands("indices"), &layout)?;
        self.tiles(operands("mask"), &layout)?;
        if updates && layout.free_mask(Axis::Warp) != 0 && kernel.insts.values().any(|x| x.args.contains(&of)) {
            let firsts = first_copies(&layout).into_iter().enumerate().filter(|&(r, first)| r == first).count() as u32;
            let ty = sizes::scratch_type(LTy::holding(t.elem));
            self.take(sizes::exchange(self.target, self.plan.warps, firsts, &[ty]), "old values");
        }
        if d.op != Op::Scatter {
            self.set(of, layout);
        }
        Ok(())
    }

    fn dot(&mut self, i: Inst) -> Walked {
        let d = &self.kernel.insts[i];
        let plan = self.assigned.dots[i].clone().ok_or(Refused)?;
        if plan.group.is_some() {
            let fresh = self.ring.mixed && is_zero(self.kernel, d.args[2]);
            if !fresh {
                self.tile(d.args[2], &plan.d)?;
            }
            self.left(i)?;
            self.set(d.results[0], plan.d.clone());
            return Ok(());
        }
        self.tile(d.args[2], &plan.whole)?;
        let batch = plan.whole.rank() == 3;
        for (n, (v, layout)) in [(d.args[0], &plan.a), (d.args[1], &plan.b)].into_iter().enumerate() {
            match (batch, plan.instr) {
                (true, _) => self.tile(v, &Rc::new(layout.expand_dims(0).broadcast(0, plan.whole.shape()[0])?))?,
                (false, Some(_)) => self.tile(v, layout)?,
                (false, None) => {
                    let own = self.own_tile(v)?;
                    if n == 0 || v != d.args[0] {
                        self.staged_operand(own.shape(), v)?;
                    }
                }
            }
        }
        if batch && plan.instr.is_none() {
            for _ in 0..plan.whole.shape()[0] {
                self.staged_operand(plan.a.shape(), d.args[0])?;
                self.staged_operand(plan.b.shape(), d.args[1])?;
            }
        }
        self.set(d.results[0], plan.whole.clone());
        Ok(())
    }

    fn staged_operand(&mut self, shape: &[u32], v: Value) -> Walked {
        let bytes = self.kernel.ty(v).elem().bytes();
        let map = operand_swizzle(shape, bytes, shape.len() - 1)?;
        self.take(u64::from(map.elements()) * u64::from(bytes), "operand");
        Ok(())
    }

    /// The left operand of a product, where it is not in the ring.
    pub fn left(&mut self, i: Inst) -> Walked {
        let v = self.kernel.insts[i].args[0];
        let plan = self.assigned.dots[i].clone().ok_or(Refused)?;
        let contiguous = |j: Inst| self.ring.loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
        if trace(self.kernel, v, &contiguous).is_some() { Ok(()) } else { self.tile(v, &plan.a) }
    }
}
