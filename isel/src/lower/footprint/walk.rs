//! The walk through a kernel, with layouts for values: the lowering's way through each op, without what it writes.

use super::super::lookup::{Looked, tables_in};
use super::super::{sizes, sort};
use super::piece::Piece;
use crate::layout::assign::Assignment;
use crate::layout::memory_type;
use crate::lower::explicit::beside::loads_at_use;
use crate::lower::explicit::lanes::last_uses;
use crate::lower::facts::{is_fetched, products_behind};
use crate::lower::rearrange::chunk_layout;
use cranelift_entity::{EntitySet, SecondaryMap};
use std::cell::OnceCell;
use std::rc::Rc;
use tilelift_egraph::physical::{InstLayouts, Source};
use tilelift_ir::layout::{Layout, plan_in_registers};
use tilelift_ir::{Attr, Inst, Kernel, Loc, Op, ProgramOrder, Region, Scalar, Type, Value};
use tilelift_lane::hash::Map;
use tilelift_lane::{LTy, Target};
use tilelift_lane::{Life, Owner};
use tilelift_schedule::plan::{Plan, TaskPlan, TaskRole, is_swizzle, tasks};

/// Where a value is.
#[derive(Clone)]
pub(super) enum At {
    /// A number, or a handle.
    Scalar,
    Tile(Rc<Layout>),
    /// In shared memory, for products: a piece of its own, or a part of a buffer.
    Staged(Option<usize>),
}

/// The walk: the lowering, with layouts for values.
pub(super) struct Walk<'a> {
    pub kernel: &'a Kernel,
    order: Rc<ProgramOrder>,
    /// What is read, once somebody asks.
    read: OnceCell<EntitySet<Value>>,
    pub target: &'a Target,
    /// The plan, with the warps of the task that is walked through.
    pub plan: Plan,
    pub explicit: Option<Rc<TaskPlan>>,
    pub assigned: &'a Assignment,
    /// Loads that go to shared memory for dots.
    pub staged: &'a SecondaryMap<Inst, bool>,
    /// See [`products_behind`].
    pub behind: SecondaryMap<Inst, Option<Inst>>,
    /// See [`sizes::left`].
    left: u64,
    pub direct: bool,
    /// Stores are done in the layout in which their tile is there.
    pub as_held: bool,
    /// The instruction that is looked at, and its run, where layouts were searched.
    running: Option<(Inst, InstLayouts)>,
    pub values: SecondaryMap<Value, Option<At>>,
    /// Conversions done, with the block they were done in.
    pub variants: Map<Value, Vec<(Rc<Layout>, u32)>>,
    /// Bytes of conversions from layout to layout, of elements of so many bytes, that go through shared memory.
    converted: Map<(Rc<Layout>, Rc<Layout>, u32), Option<u64>>,
    /// Layouts of chunks of so many elements: which one it is does not matter.
    chunks: Vec<(Rc<Layout>, Vec<u32>, Rc<Layout>)>,
    /// Swizzled that are open, the innermost one last, and how many there have been.
    pub open: Vec<u32>,
    pub blocks: u32,
    /// Where the instruction stands that is being looked at.
    pub loc: Loc,
    pub pieces: Vec<Piece>,
    /// What the kernel allocates itself, by the instruction that does.
    buffers: Map<Inst, usize>,
    /// Pieces that were made, and uses of them that others may follow.
    clock: u32,
    /// Pieces that were in use again after they were made, in order.
    touched: Vec<usize>,
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
        plan: &Plan,
        (assigned, staged): (&'a Assignment, &'a SecondaryMap<Inst, bool>),
        direct: bool,
    ) -> Walk<'a> {
        let explicit = plan.task_plan().cloned();
        let mut values = SecondaryMap::new();
        values.resize(kernel.values.len());
        let order = ProgramOrder::of(kernel);
        Walk {
            kernel,
            left: sizes::left(kernel, &order, target, plan),
            order: Rc::new(order),
            read: OnceCell::new(),
            target,
            plan: Plan { warps: explicit.as_ref().map_or(plan.warps, |e| e.front), ..plan.clone() },
            explicit,
            running: None,
            assigned,
            staged,
            behind: products_behind(kernel, target, staged),
            direct,
            as_held: direct,
            values,
            variants: Map::default(),
            converted: Map::default(),
            chunks: Vec::new(),
            open: vec![0],
            blocks: 0,
            loc: Loc::default(),
            pieces: Vec::new(),
            buffers: Map::default(),
            clock: 0,
            touched: Vec::new(),
        }
    }

    /// The kernel: what stands in front of its tasks, then task by task. Tasks run side by side: what stands in front of them is in use all along, and what
    /// one of them makes serves nobody else.
    pub fn whole(&mut self) -> Walked {
        let kernel = self.kernel;
        let tasks = tasks(kernel);
        let last = self.explicit.as_ref().map(|e| last_uses(kernel, tasks, e)).unwrap_or_default();
        for &i in kernel.regions[kernel.body].insts.iter().filter(|&&i| Some(i) != tasks) {
            self.inst(i)?;
            for root in last.get(&i).into_iter().flatten() {
                self.touch(self.buffers.get(root).copied());
            }
        }
        let (outer, direct) = (self.values.clone(), self.direct);
        let explicit = self.explicit.clone();
        // Another replica takes what the one before it takes.
        let mut before: Option<(&TaskRole, usize)> = None;
        for (number, role) in explicit.iter().flat_map(|e| &e.roles).enumerate() {
            let first = self.pieces.len();
            let alike = |r: &TaskRole| (r.region, r.warps[1], r.registers) == (role.region, role.warps[1], role.registers);
            match before {
                Some((r, from)) if alike(r) => self.pieces.extend_from_within(from..),
                _ => {
                    self.values = outer.clone();
                    self.variants.clear();
                    self.plan.warps = role.warps[1];
                    self.direct = loads_at_use(kernel, &self.order, self.assigned, role, direct);
                    self.region(role.region)?;
                }
            }
            let several = explicit.as_ref().is_some_and(|e| e.replicas(role) > 1);
            for p in &mut self.pieces[first..] {
                let part = if several { p.bytes.min(u32::MAX.into()) as u32 } else { 0 };
                p.owner = Some(Owner { role: number as u32, part });
            }
            before = Some((role, first));
        }
        let others: Vec<usize> = self.buffers.iter().filter(|b| !last.values().flatten().any(|l| l == b.0)).map(|b| *b.1).collect();
        others.into_iter().for_each(|n| self.touch(Some(n)));
        if tasks.is_some() {
            let all_along = Life { first: 0, last: self.clock };
            self.pieces.iter_mut().filter(|p| p.owner.is_none()).for_each(|p| p.life = all_along);
        }
        Ok(())
    }

    /// Scratch memory of one step of an instruction; gives its number.
    pub fn take(&mut self, bytes: u64, purpose: &'static str) -> usize {
        self.make(bytes, sizes::SCRATCH_ALIGN, purpose)
    }

    fn make(&mut self, bytes: u64, align: u32, purpose: &'static str) -> usize {
        self.clock += 1;
        let life = Life { first: self.clock, last: self.clock };
        self.pieces.push(Piece { bytes, align, purpose, loc: self.loc, life, owner: None });
        self.pieces.len() - 1
    }

    /// A piece is in use here.
    pub fn touch(&mut self, piece: Option<usize>) {
        if let Some((n, p)) = piece.and_then(|n| Some((n, self.pieces.get_mut(n)?))) {
            p.life.last = self.clock;
            self.touched.push(n);
        }
    }

    /// What a loop uses that was made before it lives to its end.
    fn in_loop(&mut self, body: impl FnOnce(&mut Self) -> Walked) -> Walked {
        self.clock += 1;
        let (start, mark) = (self.clock, self.touched.len());
        self.in_block(body)?;
        let now = self.clock;
        self.touched[mark..].sort_unstable();
        // An outer loop looks at each once, too.
        let mut kept = self.touched.split_off(mark);
        kept.dedup();
        kept.retain(|&n| self.pieces[n].life.first < start);
        kept.iter().for_each(|&n| self.pieces[n].life.last = now);
        self.touched.append(&mut kept);
        self.clock += 1;
        Ok(())
    }

    /// Memory that the kernel itself allocates.
    fn buffer(&mut self, i: Inst) {
        let kernel = self.kernel;
        let made = match kernel.ty(kernel.insts[i].results[0]) {
            Type::Barrier(n) => Some(self.make(u64::from(8 * n), 8, "barriers")),
            _ => match sizes::shares(kernel, i).and_then(|root| self.buffers.get(&root).copied()) {
                Some(same) => {
                    self.touch(Some(same));
                    Some(same)
                }
                None => {
                    let size = self.explicit.as_ref().and_then(|e| sizes::buffer(e, i));
                    size.map(|(bytes, align)| self.make(bytes, align, "buffer"))
                }
            },
        };
        if let Some(n) = made {
            self.buffers.insert(i, n);
        }
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
        let d = |i: Inst| &self.kernel.insts[i];
        let run = self.running.as_ref().and_then(|(i, run)| {
            let result = d(*i).results.iter().position(|&r| r == v).and_then(|k| run.results[k].as_ref());
            result.or_else(|| d(*i).args.iter().position(|&a| a == v).and_then(|k| run.operands[k].as_ref()))
        });
        run.or_else(|| self.assigned.layout(v)).cloned().ok_or(Refused)
    }

    pub fn held(&self, v: Value) -> Walked<Rc<Layout>> {
        match &self.values[v] {
            Some(At::Tile(l)) => Ok(l.clone()),
            Some(At::Scalar | At::Staged(_)) | None => Err(Refused),
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
        let known = |list: &Vec<(Rc<Layout>, u32)>| list.iter().any(|(l, at)| l == want && self.open.contains(at));
        if held == *want || self.variants.get(&v).is_some_and(known) {
            return Ok(());
        }
        let born = self.kernel.def_inst(v).is_some_and(|i| matches!(self.kernel.insts[i].op, Op::Iota | Op::Splat));
        if !born {
            self.convert(&held, want, self.kernel.ty(v).elem())?;
        }
        self.keep(v, want.clone());
        Ok(())
    }

    pub fn own_tile(&mut self, v: Value) -> Walked<Rc<Layout>> {
        let layout = self.layout_of(v)?;
        self.tile(v, &layout)?;
        Ok(layout)
    }

    /// The layout of a slice by renaming, if it is one.
    pub fn chunk_layout(&mut self, from: &Rc<Layout>, offsets: &[u32], to: &[u32]) -> Option<Rc<Layout>> {
        let whole = offsets.iter().zip(to).all(|(o, t)| o.is_multiple_of(*t));
        if let Some((.., layout)) = self.chunks.iter().find(|c| whole && Rc::ptr_eq(&c.0, from) && c.1 == to) {
            return Some(layout.clone());
        }
        let layout = Rc::new(chunk_layout(from, offsets, to)?);
        self.chunks.push((from.clone(), to.to_vec(), layout.clone()));
        Some(layout)
    }

    fn convert(&mut self, from: &Rc<Layout>, want: &Rc<Layout>, elem: Scalar) -> Walked {
        let bytes = memory_type(elem).bytes();
        let key = (from.clone(), want.clone(), bytes);
        let taken = match self.converted.get(&key) {
            Some(&taken) => taken,
            None => {
                let through = plan_in_registers(from, want, self.target.lanes)?.is_none();
                let taken = through.then(|| sizes::conversion(from, bytes));
                self.converted.insert(key, taken);
                taken
            }
        };
        if let Some(taken) = taken {
            self.take(taken, "conversion");
        }
        Ok(())
    }

    pub fn region(&mut self, r: Region) -> Walked {
        let kernel = self.kernel;
        kernel.regions[r].insts.iter().try_for_each(|&i| self.inst(i))
    }

    pub fn inst(&mut self, i: Inst) -> Walked {
        let around = std::mem::replace(&mut self.loc, self.kernel.locs[i]);
        let runs = self.assigned.runs[i].clone();
        if runs.is_empty() {
            self.inst_once(i)?;
            self.hold(i)?;
        }
        let results = &self.kernel.insts[i].results;
        let mut first = Vec::new();
        for (n, run) in runs.iter().enumerate() {
            self.running = Some((i, run.clone()));
            let done = self.inst_once(i);
            self.running = None;
            done?;
            self.hold(i)?;
            if n == 0 {
                first = results.iter().map(|&v| self.values[v].clone()).collect();
                continue;
            }
            for (&v, first) in results.iter().zip(&first) {
                if let Some(At::Tile(l)) = std::mem::replace(&mut self.values[v], first.clone()) {
                    self.keep(v, l);
                }
            }
        }
        self.convert_all(results)?;
        self.loc = around;
        Ok(())
    }

    /// The conversions of values that have just come to be.
    fn convert_all(&mut self, values: &[Value]) -> Walked {
        for &v in values {
            let list = self.assigned.variants[v].clone();
            for x in list.iter() {
                let Source::Convert(from) = x.source else { continue };
                self.tile(v, &list[from].layout)?;
                self.convert(&list[from].layout, &x.layout, self.kernel.ty(v).elem())?;
                self.keep(v, x.layout.clone());
            }
        }
        Ok(())
    }

    /// True if the layouts of the instruction that is looked at were searched.
    pub fn searched(&self) -> bool {
        self.running.is_some()
    }

    /// Brings values that a requirement holds into its layout.
    fn hold(&mut self, i: Inst) -> Walked {
        for &v in &self.kernel.insts[i].results {
            if let (Some(want), Some(At::Tile(l))) = (self.assigned.held[v].clone(), self.values[v].clone())
                && l != want
            {
                self.convert(&l, &want, self.kernel.ty(v).elem())?;
                self.set(v, want);
            }
        }
        Ok(())
    }

    /// A tile is there in a further layout while its block is open.
    fn keep(&mut self, v: Value, layout: Rc<Layout>) {
        let block = self.open.last().copied().unwrap_or(0);
        let list = self.variants.entry(v).or_default();
        list.retain(|(_, at)| self.open.contains(at));
        list.push((layout, block));
    }

    /// All tiles among values, wanted in one layout.
    pub fn tiles(&mut self, values: &[Value], want: &Rc<Layout>) -> Walked {
        values.iter().filter(|&&v| self.kernel.ty(v).as_tile().is_some()).try_for_each(|&v| self.tile(v, want))
    }

    /// Values that somebody reads.
    pub(super) fn read(&self) -> &EntitySet<Value> {
        self.read.get_or_init(|| {
            let mut read = EntitySet::with_capacity(self.kernel.values.len());
            self.kernel.insts.values().flat_map(|d| &d.args).for_each(|&v| _ = read.insert(v));
            read
        })
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
            // Other views of the same memory.
            Op::Transpose | Op::Reshape if matches!(self.values[d.args[0]], Some(At::Staged(_))) => {
                self.values[result()?] = self.values[d.args[0]].clone();
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
            Op::RequireLayout if is_swizzle(kernel, i) => self.values[result()?] = self.values[d.args[0]].clone(),
            Op::RequireLayout | Op::ReleaseLayout => {
                let layout = self.layout_of(result()?)?;
                self.tile(d.args[0], &layout)?;
                self.set(result()?, layout);
            }
            Op::Assert if self.is_tile(d.args[0]) => drop(self.own_tile(d.args[0])?),
            Op::Assert | Op::Prefetch | Op::Yield => {}
            Op::Dot | Op::DotScaled => self.dot(i)?,
            Op::Load => self.load(i)?,
            Op::Store => self.store(i)?,
            Op::Gather | Op::Scatter | Op::Atomic | Op::AtomicCas => self.indexed(i)?,
            Op::GatherTile => {
                let looked = Looked::new(kernel, self.target, self.plan.warps, i);
                let layout = self.layout_of(result()?)?;
                self.tile(d.args[1], &layout)?;
                if let Some(lanes) = &looked.lanes {
                    self.tile(looked.table, lanes)?;
                } else {
                    let from = self.own_tile(looked.table)?;
                    let ty = sizes::scratch_type(LTy::holding(kernel.ty(result()?).elem()));
                    self.take(sizes::array(from.shape(), ty.bytes()), "gather");
                }
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
                if sort::made_before(self.assigned, i) {
                    return Ok(());
                }
                let from = self.own_tile(d.args[0])?;
                let how = sort::Sorting::new((kernel, i), self.assigned, self.target, (&self.plan, self.left), &from)?;
                let sizes = how.scratch(kernel, from.shape(), self.target.lanes * self.plan.warps);
                // One behind the other: each is read before the next one is written.
                sizes.into_iter().for_each(|bytes| _ = self.take(bytes, "sort"));
                for v in how.results() {
                    match how.result(kernel, v) {
                        Some(layout) => self.set(v, layout),
                        None => self.set_own(v)?,
                    }
                }
            }
            Op::For => {
                self.operands_in_front(i)?;
                let params = &kernel.regions[d.regions[0]].params[1..];
                self.looped(&d.args[3..], params, &d.results, |w| {
                    w.region(d.regions[0])?;
                    w.wanted(kernel.yields(d.regions[0]), params)
                })?;
            }
            Op::While => {
                let (test, run) = (d.regions[0], d.regions[1]);
                self.wanted(&d.args, &kernel.regions[run].params)?;
                self.in_loop(|w| {
                    for r in [test, run] {
                        w.in_block(|w| {
                            kernel.regions[r].params.iter().try_for_each(|&v| w.set_own(v))?;
                            w.convert_all(&kernel.regions[r].params)?;
                            w.region(r)?;
                            if r == run { w.wanted(kernel.yields(r), &kernel.regions[run].params) } else { Ok(()) }
                        })?;
                    }
                    Ok(())
                })?;
                d.results.iter().try_for_each(|&v| self.set_own(v))?;
            }
            Op::If => {
                self.operands_in_front(i)?;
                for &r in &d.regions {
                    self.in_block(|w| {
                        w.region(r)?;
                        w.wanted(kernel.yields(r), &d.results)
                    })?;
                }
                d.results.iter().try_for_each(|&v| self.set_own(v))?;
            }
            Op::Print => return Err(Refused),
            Op::LocalAlloc | Op::BarrierAlloc => {
                self.buffer(i);
                self.set_own(result()?)?;
            }
            Op::LocalLoad if self.explicit.as_ref().is_some_and(|e| is_fetched(&e.fetches, self.running.as_ref(), i)) => {
                self.values[result()?] = Some(At::Staged(None));
            }
            Op::LocalStore => {
                let layout = self.own_tile(d.args[1])?;
                self.tiles(self.kernel.operand(i, "mask"), &layout)?;
            }
            Op::CopyAsync => self.copy(i)?,
            Op::GatherAsync => self.gather_async(i)?,
            Op::RemoteStore | Op::RemoteStoreAsync => drop(self.own_tile(d.args[2])?),
            Op::AsyncDot => self.async_dot(i)?,
            Op::AsyncDotWait => self.values[result()?] = self.values[d.args[0]].clone(),
            tilelift_ir::explicit_ops!() => d.results.iter().try_for_each(|&v| self.set_own(v))?,
        }
        Ok(())
    }

    /// Operands A of products in a loop or choice that are tiles from in front of it are brought into their layout there, and tables of lookups.
    fn operands_in_front(&mut self, i: Inst) -> Walked {
        let (kernel, order) = (self.kernel, self.order.clone());
        for j in kernel.insts[i].regions.iter().flat_map(|&r| order.with(r, |op| op == Op::AsyncDot)) {
            let a = kernel.insts[j].args[0];
            if let (Some(At::Tile(_)), Some(dot)) = (&self.values[a], self.assigned.dots[j].clone()) {
                self.tile(a, &dot.a)?;
            }
        }
        for (table, lanes) in tables_in(kernel, &order, self.target, self.plan.warps, i) {
            if let Some(At::Tile(_)) = &self.values[table] {
                self.tile(table, &lanes)?;
            }
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
        self.in_loop(|w| {
            params.iter().try_for_each(|&v| w.set_own(v))?;
            w.convert_all(params)?;
            body(w)
        })?;
        results.iter().zip(params).try_for_each(|(&v, &p)| match self.is_tile(v) {
            true => self.layout_of(p).map(|l| self.set(v, l)),
            false => self.set_own(v),
        })
    }
}
