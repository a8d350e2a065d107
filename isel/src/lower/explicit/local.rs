//! Local memory: where a handle's elements lie, and what lanes read and write there.
//!
//! ```text
//! byte of an element = base + blocks and rows + atom + (byte in the atom's row ^ swizzle of the row)
//! each of these is a part of the lane, computed once, and a constant of the register
//! ```

use super::super::elementwise::Coords;
use super::super::shared::{beside_alike, representative};
use super::super::vectors::{computed_words, from_words, to_words, word_types};
use super::super::{Lower, sizes};
use super::bytes::Words;
use super::lanes::Lies;
use crate::layout::{legal_width, memory_type};
use crate::lower::facts::is_fetched;
use crate::lower::location::{Local, Tile, ValueLocation};
use crate::lower::task::TaskState;
use std::collections::BTreeSet;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, vectors_without};
use tilelift_ir::{Inst, Op, Region, Scalar, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::number::gcd;
use tilelift_lane::{AllocName, BinOp, LVal, LaneBuilder, Place, Unit};
use tilelift_schedule::plan::{Part, allocation, handle};
use tilelift_schedule::reason::{Location, NoRegister, NotAddressed, Remedy, Unsupported};
use tilelift_schedule::{LowerError, Resource};

/// Bytes of the widest access of a lane.
const WIDEST: u32 = 16;

fn power_of_two(n: u32) -> u32 {
    if n == 0 { WIDEST } else { (1 << n.trailing_zeros()).min(WIDEST) }
}

impl Local {
    /// The dimension whose elements lie side by side, if the handle has it.
    pub(super) fn contiguous(&self) -> Option<usize> {
        let of = self.buffer.swizzled.map_or(self.buffer.shape.len() - 1, |p| p.contiguous);
        self.parts.iter().position(|p| p.of == of)
    }

    /// Dimensions, contiguous one first.
    pub(super) fn order(&self) -> Vec<usize> {
        let first = self.contiguous();
        let mut rest: Vec<usize> = (0..self.parts.len()).filter(|&d| Some(d) != first).collect();
        rest.sort_by_key(|&d| std::cmp::Reverse(self.parts[d].of));
        first.into_iter().chain(rest).collect()
    }

    /// Bytes up to which vectors are aligned.
    pub(super) fn vector_bytes(&self) -> u32 {
        let Some(d) = self.contiguous() else { return self.buffer.size };
        let p = self.parts[d];
        let rows = if self.buffer.swizzled.is_some() { WIDEST } else { power_of_two(self.buffer.shape[p.of] * self.buffer.size) };
        rows.min(power_of_two(p.at * self.buffer.size)).max(self.buffer.size)
    }

    /// Address and offset of the element at the lanes' coordinates and a register's.
    pub(super) fn at(&self, b: &mut LaneBuilder, coords: &Coords, c: &[u32]) -> Result<(LVal, i32), LowerError> {
        let buffer = &self.buffer;
        if buffer.slot.is_some() {
            return Err(NotAddressed::Slot.into());
        }
        let Some(swizzled) = buffer.swizzled else {
            let mut addr = None;
            let mut offset = 0;
            for (d, p) in self.parts.iter().enumerate() {
                let step = buffer.index_step(p.of).unwrap_or(0);
                let (part, rest) = coords.split(b, d, c[d]);
                if let Some(v) = part {
                    let s = b.i32(i64::from(step));
                    let v = b.mul(v, s);
                    addr = Some(addr.map_or(v, |a| b.add(a, v)));
                }
                offset += (rest + p.at) * step;
            }
            let addr = addr.map_or(self.base, |a| b.add(a, self.base));
            return Ok((addr, offset as i32));
        };
        let chunks = swizzled.swizzle / 16;
        let swizzle_by = 7 - (chunks.trailing_zeros() + 4);
        // What lanes give comes first: the base may be another one in each iteration of a loop.
        let mut addr = None::<LVal>;
        let plus = |b: &mut LaneBuilder, addr: Option<LVal>, v: LVal| Some(addr.map_or(v, |a| b.add(a, v)));
        let mut offset = 0u32;
        // In an atom's row: what lanes give and which bits they may set, what the register gives.
        let (mut low, mut busy, mut flip) = (None::<LVal>, 0u32, 0u32);
        let join = |b: &mut LaneBuilder, low: Option<LVal>, v: LVal| Some(low.map_or(v, |l| b.bin(BinOp::Xor, l, v)));
        for (d, p) in self.parts.iter().enumerate() {
            let (part, rest) = coords.split(b, d, c[d]);
            let mask = if part.is_some() { coords.mask(d) } else { 0 };
            if p.of == swizzled.contiguous {
                let (bytes, reach) = ((rest + p.at) * buffer.size, mask * buffer.size);
                if bytes & reach != 0 {
                    return Err(NotAddressed::Extent.into());
                }
                flip ^= bytes % swizzled.swizzle;
                offset += bytes / swizzled.swizzle * buffer.atom_stride();
                if let Some(v) = part {
                    let size = b.i32(i64::from(buffer.size));
                    let v = b.mul(v, size);
                    let inside = b.i32(i64::from(swizzled.swizzle - 1));
                    if reach & (swizzled.swizzle - 1) != 0 {
                        let x = if reach < swizzled.swizzle { v } else { b.bin(BinOp::And, v, inside) };
                        low = join(b, low, x);
                        busy |= reach & (swizzled.swizzle - 1);
                    }
                    if reach >= swizzled.swizzle {
                        let by = b.i32(i64::from(swizzled.swizzle.trailing_zeros()));
                        let n = b.bin(BinOp::ShrU, v, by);
                        let bytes = b.i32(i64::from(buffer.atom_stride()));
                        let v = b.mul(n, bytes);
                        addr = plus(b, addr, v);
                    }
                }
                continue;
            }
            let step = buffer.row_step(p.of);
            let rows = (rest + p.at) * step;
            if step.is_multiple_of(swizzled.rows) {
                // Whole blocks.
                offset += rows / swizzled.rows * buffer.block_bytes();
                if let Some(v) = part {
                    let bytes = b.i32(i64::from(step / swizzled.rows * buffer.block_bytes()));
                    let v = b.mul(v, bytes);
                    addr = plus(b, addr, v);
                }
                continue;
            }
            let together = buffer.block_rows() / step;
            let crosses = together == 0 || p.at % together + p.extent > together;
            if crosses || (step != 1 && !step.is_multiple_of(8)) || (step == 1 && mask & 7 & p.at != 0) {
                return Err(NotAddressed::Rows.into());
            }
            offset += rows / swizzled.rows * buffer.block_bytes() + rows % swizzled.rows * swizzled.swizzle;
            if step == 1 {
                flip ^= (rows >> swizzle_by & (chunks - 1)) << 4;
            }
            if let Some(v) = part {
                let bytes = b.i32(i64::from(step * swizzled.swizzle));
                let down = b.mul(v, bytes);
                addr = plus(b, addr, down);
                let swizzled_rows = mask >> swizzle_by & (chunks - 1);
                if step == 1 && swizzled_rows != 0 {
                    let (by, all, four) = (b.i32(i64::from(swizzle_by)), b.i32(i64::from(chunks - 1)), b.i32(4));
                    let moved = b.bin(BinOp::ShrU, v, by);
                    let moved = b.bin(BinOp::And, moved, all);
                    let moved = b.bin(BinOp::Shl, moved, four);
                    low = join(b, low, moved);
                    busy |= swizzled_rows << 4;
                }
            }
        }
        match low {
            None => Ok((addr.map_or(self.base, |a| b.add(a, self.base)), (offset + flip) as i32)),
            Some(low) => {
                let swizzle = b.i32(i64::from(flip & busy));
                let low = b.bin(BinOp::Xor, low, swizzle);
                let lanes = addr.map_or(low, |a| b.add(a, low));
                Ok((b.add(lanes, self.base), (offset + (flip & !busy)) as i32))
            }
        }
    }
}

/// The registers of each access of a handle in a layout; of a slot with a map of its own, whose columns are given.
fn groups(local: &Local, slot: Option<&AccessColumns>, layout: &Layout, elem: Scalar) -> Result<Vec<Vec<u32>>, LowerError> {
    let free = layout.free_mask(Axis::Reg);
    let vectors = match slot {
        Some(columns) => vectors_without(columns, elem.bytes(), WIDEST, free),
        None => {
            let most = if local.contiguous().is_some() { local.vector_bytes() } else { elem.bytes() };
            vectors_without(&AccessColumns::global(layout, &local.order())?, elem.bytes(), most, free)
        }
    };
    let legal = |g: &Vec<u32>| g.chunks(legal_width(g.len() as u32, memory_type(elem)) as usize).map(<[u32]>::to_vec).collect::<Vec<_>>();
    Ok(vectors.groups.iter().flat_map(legal).collect())
}

/// All registers of a tile, copies included, from those that were loaded.
fn filled(out: Vec<Option<LVal>>, layout: &Layout) -> Result<Vec<LVal>, LowerError> {
    let free = layout.free_mask(Axis::Reg) as usize;
    (0..out.len()).map(|r| out[r].or(out[r & !free])).collect::<Option<Vec<LVal>>>().ok_or_else(|| NoRegister::LocalLoad.into())
}

impl Lower<'_> {
    pub(super) fn local(&self, v: Value) -> Result<Rc<Local>, LowerError> {
        match &self.values[v] {
            Some(ValueLocation::Local(l)) => Ok(l.clone()),
            _ => Err(Unsupported::Location(v, Location::Buffer).into()),
        }
    }

    pub(super) fn local_alloc(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let plan = self.task()?.plan.clone();
        let Some(buffer) = plan.buffers.get(&i) else { return Ok(()) };
        let alloc = match sizes::shares(kernel, i).map(|root| self.task().map(|t| t.allocs.get(&root).copied())).transpose()?.flatten() {
            Some(same) => same,
            None => {
                let (bytes, align) = sizes::buffer(&plan, i).unwrap_or((0, 1));
                let n = u32::try_from(bytes).ok().filter(|&n| n <= self.target.shared_bytes);
                let Some(n) = n else {
                    return Err(LowerError::ResourceExceeded {
                        resource: Resource::SharedMemory,
                        need: bytes,
                        have: u64::from(self.target.shared_bytes),
                        remedy: Box::new(Remedy::Buffer),
                        loc: kernel.locs[i],
                    });
                };
                let alloc = b.alloc_aligned(n, align, "local memory");
                let [region_bytes, slot] = self.region_bytes(i, n);
                b.set_regions(alloc, region_bytes, slot);
                b.set_name(alloc, self.called(i));
                if !self.written_by_lanes(i) {
                    b.set_read_only(alloc);
                }
                alloc
            }
        };
        b.touch(alloc);
        self.task_mut()?.allocs.insert(i, alloc);
        let parts = buffer.shape.iter().enumerate().map(|(of, &extent)| Part { of, at: 0, extent }).collect();
        let local = Local { alloc, base: b.shared_addr(alloc), buffer: Rc::new(buffer.clone()), parts };
        self.values[d.results[0]] = Some(ValueLocation::Local(Rc::new(local)));
        Ok(())
    }

    /// True if lanes write an allocation and lanes of the same task read it: barriers of a task order nothing of another one's lanes.
    fn written_by_lanes(&self, i: Inst) -> bool {
        let (kernel, Some(task)) = (self.kernel, self.task.as_ref()) else { return false };
        let uses = task.plan.locals.uses(i);
        let writes = |j: &Inst| {
            let into = match kernel.insts[*j].op {
                Op::LocalStore | Op::RemoteStore | Op::RemoteStoreAsync => kernel.insts[*j].args.first(),
                Op::CopyAsync | Op::GatherAsync => kernel.operand(*j, "buffer").first(),
                _ => None,
            };
            into.is_some_and(|&v| handle(kernel, v).is_none_or(|h| allocation(kernel, h.root) == i))
        };
        let writers: Vec<Inst> = uses.iter().copied().filter(writes).collect();
        // Those who fill it by asynchronous copies alone do not look at it.
        if writers.iter().any(|&j| kernel.insts[j].op != Op::CopyAsync) {
            return true;
        }
        let looks = |j: &Inst| matches!(kernel.insts[*j].op, Op::LocalLoad | Op::RemoteLoad);
        let (fillers, readers): (Set<Inst>, Set<Inst>) = (writers.iter().copied().collect(), uses.iter().copied().filter(looks).collect());
        let homes = |r: Region| {
            let (mut fills, mut reads) = (false, false);
            kernel.walk(r, &mut |j| {
                fills |= fillers.contains(&j);
                reads |= readers.contains(&j);
            });
            fills && reads
        };
        !writers.is_empty() && (task.plan.roles.is_empty() || task.plan.roles.iter().any(|r| homes(r.region)))
    }

    /// What messages call what an instruction allocates.
    pub(super) fn called(&self, i: Inst) -> AllocName {
        AllocName { ty: self.kernel.ty(self.kernel.insts[i].results[0]).clone(), at: self.kernel.locs[i] }
    }

    /// The parts of an allocation of so many bytes that tasks may use apart from one another: slots, what parts that are cut out are made of as
    /// a whole, and other buffers in its bytes with theirs; and what the first index takes apart, which may hold several of them. Buffers that
    /// share bytes have no slots in common.
    fn region_bytes(&self, i: Inst, bytes: u32) -> [u32; 2] {
        let kernel = self.kernel;
        let (mut region_bytes, mut slot, mut shared) = (bytes, bytes, false);
        let Some(plan) = self.task.as_ref().map(|t| t.plan.clone()) else { return [bytes, bytes] };
        // What an allocation shares its bytes with is no alias itself.
        let aliases: BTreeSet<Inst> = plan.locals.aliases(i).iter().copied().collect();
        let own = |j: Inst| j == i || aliases.contains(&j);
        for &j in std::iter::once(&i).chain(&aliases).flat_map(|&a| plan.locals.uses(a)) {
            let d = &kernel.insts[j];
            // What nobody looks into divides nothing, and shares nothing.
            if d.results.iter().any(|v| kernel.ty(*v).is_handle() && !plan.locals.is_used(*v)) {
                continue;
            }
            let of = |v: Option<&Value>| v.and_then(|&v| handle(kernel, v)).filter(|h| own(allocation(kernel, h.root)));
            let buffer = |h: &tilelift_schedule::plan::Handle| self.task.as_ref().and_then(|t| t.plan.buffers.get(&h.root));
            let step = match d.op {
                Op::LocalIndex => of(d.args.first()).and_then(|h| buffer(&h)?.index_step(h.parts[0].of)),
                Op::LocalSlice => of(d.results.first()).and_then(|h| Some(buffer(&h)?.cut(&h.parts))),
                Op::LocalAlloc => of(d.results.first()).and_then(|h| u32::try_from(buffer(&h)?.bytes()).ok()),
                _ => None,
            };
            // Groups store rows of their own, or columns that are boxes.
            let rows = self.task.as_ref().and_then(|t| t.groupwise.shares.get(&j));
            if let (Some(m), Some(h)) = (rows, of(kernel.operand(j, "buffer").first()))
                && let Some(swizzled) = buffer(&h).and_then(|f| f.swizzled)
            {
                region_bytes = gcd(region_bytes, m * swizzled.swizzle);
            }
            shared |= d.op == Op::LocalAlloc && j != i && own(j);
            // All of it is no part.
            if let Some(step) = step.filter(|&n| n > 0) {
                region_bytes = gcd(region_bytes, step);
                // Of a buffer itself, not of a part.
                if d.args.first().and_then(|&v| kernel.def_inst(v)) == Some(i) {
                    slot = gcd(slot, step);
                }
            }
        }
        [region_bytes, if shared { bytes } else { slot }]
    }

    /// A handle made from another one.
    pub(super) fn local_view(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let mut local = (*self.local(d.args[0])?).clone();
        let result = d.results[0];
        if d.op == Op::LocalReinterpret {
            let Some(buffer) = self.task()?.plan.buffers.get(&i).cloned() else { return Ok(()) };
            local.parts = buffer.shape.iter().enumerate().map(|(of, &extent)| Part { of, at: 0, extent }).collect();
            local.buffer = Rc::new(buffer);
        } else if let Some(h) = handle(kernel, result) {
            if d.op == Op::LocalIndex {
                let p = local.parts[0];
                let Some(step) = local.buffer.index_step(p.of) else {
                    return Err(NotAddressed::Index.into());
                };
                let n = self.scalar(d.args[1])?;
                let n = b.add_const(n, i64::from(p.at));
                let step = b.i32(i64::from(step));
                let offset = b.mul(n, step);
                local.base = b.add(local.base, offset);
            }
            local.parts = h.parts;
        }
        self.values[result] = Some(ValueLocation::Local(Rc::new(local)));
        Ok(())
    }

    pub(super) fn local_load(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (result, local) = (d.results[0], self.local(d.args[0])?);
        if is_fetched(&self.task()?.plan.fetches, self.running.as_ref(), i) {
            let staged = local.staged()?;
            self.values[result] = Some(ValueLocation::Staged(Rc::new(staged)));
            return Ok(());
        }
        let layout = self.layout_of(result)?;
        let elem = self.kernel.ty(result).elem();
        let words = Words::of(&local, &layout, elem).filter(|_| local.buffer.slot.is_none() && b.packed_halves);
        let (wanted, layout) = (layout.clone(), words.as_ref().map_or(layout, |words| Rc::new(words.layout.clone())));
        let slot = local.buffer.seen(&local.parts).map(|map| map.columns_from(&layout)).transpose()?;
        let parts = groups(&local, slot.as_ref(), &layout, elem);
        let slot = slot.map(|columns| columns.scaled(elem.bytes())).transpose()?;
        let out = match if slot.is_some() { None } else { self.load_by_matrices(b, &local, &layout, elem)? } {
            Some(out) => out,
            None => {
                let lies = Lies::new(b, &local, slot.as_ref(), &layout);
                let mut out = vec![None; layout.size(Axis::Reg) as usize];
                for part in parts? {
                    let n = part.len() as u32;
                    let (addr, offset) = lies.at(b, &local, &layout, part[0])?;
                    let words = b.load_shared(&word_types(n, elem), local.alloc, addr, offset);
                    part.iter().zip(from_words(b, &words, elem, n)).for_each(|(&r, e)| out[r as usize] = Some(e));
                }
                out
            }
        };
        let mut regs = filled(out, &layout)?;
        if let Some(words) = words {
            regs = words.pick(b, &wanted, &regs).ok_or(NoRegister::LocalLoad)?;
        }
        self.set_tile(result, crate::lower::location::Tile { layout: wanted, regs });
        let reads = self.reads_of(self.kernel.insts[i].args[0]);
        let t = self.task_mut()?;
        (t.met, t.traces.looked) = (false, true);
        t.traces.reads = t.traces.reads.max(reads);
        Ok(())
    }

    /// True if a store stands right behind others, all of other buffers, which are still there: nothing stands between them that lanes would wait for.
    fn beside(&self, i: Inst) -> bool {
        let kernel = self.kernel;
        let root = |j: Inst| handle(kernel, kernel.insts[j].args[0]).map(|h| allocation(kernel, h.root));
        let masked = kernel.insts[i].args.len() > 2;
        let beside = |t: &TaskState| !t.beside.is_empty() && t.beside.iter().all(|&j| root(j) != root(i));
        self.task.as_ref().is_some_and(|t| (t.plan.by_lanes || masked) && beside(t))
    }

    pub(super) fn local_store(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let local = self.local(d.args[0])?;
        let mut tile = self.own_tile(b, d.args[1])?;
        if self.task()?.plan.rounded.contains(&i) {
            let regs = tile.regs.iter().map(|&r| b.round_tf32(r)).collect();
            tile = Rc::new(Tile { layout: tile.layout.clone(), regs });
        }
        let elem = self.kernel.ty(d.args[1]).elem();
        let layout = tile.layout.clone();
        // Of a group that acts for itself nothing but units reads what it has stored.
        match self.task()?.apart {
            true if self.task()?.traces.stored => self.meet(b, true)?,
            true => {}
            false if self.beside(i) => {}
            false => b.before_shared_writes(),
        }
        match d.args.get(2) {
            None => self.store_elements(b, &local, (&tile, None), elem)?,
            Some(&mask) => {
                let nothing = self.none_true(b, mask);
                let mask = self.tile(b, mask, &layout)?;
                match nothing.map(|n| (n, b.as_const(n))) {
                    None | Some((_, Some(0))) => self.store_elements(b, &local, (&tile, Some(&mask)), elem)?,
                    Some((_, Some(_))) => {}
                    Some((nothing, None)) => {
                        // The mask goes where it is needed.
                        b.into_arms = true;
                        let store = |s: &mut Self, b: &mut LaneBuilder| {
                            s.store_elements(b, &local, (&tile, Some(&mask)), elem).map(|()| Vec::new())
                        };
                        b.if_else(self, nothing, |_, _| Ok::<_, LowerError>(Vec::new()), store)?;
                    }
                }
            }
        }
        let t = self.task_mut()?;
        (t.met, t.traces.stored) = (false, true);
        Ok(())
    }

    /// Stores the elements of a tile, those that a mask leaves if there is one.
    fn store_elements(
        &mut self,
        b: &mut LaneBuilder,
        local: &Local,
        (tile, mask): (&Tile, Option<&Tile>),
        elem: Scalar,
    ) -> Result<(), LowerError> {
        let layout = &tile.layout;
        let slot = local.buffer.seen(&local.parts).map(|map| map.columns_from(layout)).transpose()?;
        if mask.is_none() && slot.is_none() && self.store_by_matrices(b, local, tile, elem)? {
            return Ok(());
        }
        let whole = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let mut parts = groups(local, slot.as_ref(), layout, elem)?;
        let slot = slot.map(|columns| columns.scaled(elem.bytes())).transpose()?;
        let lies = Lies::new(b, local, slot.as_ref(), layout);
        if let (true, Some(columns)) = (self.target.moves_by_lanes() && mask.is_none(), &slot) {
            // Two that differ by a constant may be one access.
            parts = beside_alike(parts, |part| columns.parts(Axis::Reg, part[0]).0 & columns.dynamic_mask());
        }
        let stays = |r: u32| mask.map(|m| m.regs[r as usize]);
        for part in parts {
            // What a mask tears leaves element by element.
            let torn = part.iter().any(|&r| stays(r) != stays(part[0]));
            for run in part.chunks(if torn { 1 } else { part.len() }) {
                let (addr, offset) = lies.at(b, local, layout, run[0])?;
                let elems: Vec<LVal> = run.iter().map(|&r| tile.regs[r as usize]).collect();
                let words = computed_words(b, &elems, elem);
                let guard = match (whole, stays(run[0])) {
                    (Some(w), Some(m)) => Some(b.bin(BinOp::And, w, m)),
                    (w, m) => w.or(m),
                };
                b.store_shared(words, local.alloc, addr, offset, guard);
            }
        }
        Ok(())
    }

    /// The same buffer of another block.
    fn elsewhere(&self, b: &mut LaneBuilder, buffer: Value, rank: Value) -> Result<Local, LowerError> {
        let local = self.local(buffer)?;
        let rank = self.scalar(rank)?;
        let base = b.remote(Place { addr: local.base, offset: 0 }, rank);
        Ok(Local { base, ..(*local).clone() })
    }

    pub(super) fn remote_load(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let local = self.elsewhere(b, d.args[0], d.args[1])?;
        let layout = self.layout_of(d.results[0])?;
        let elem = self.kernel.ty(d.results[0]).elem();
        let coords = Coords::new(b, &layout);
        let mut out: Vec<Option<LVal>> = vec![None; layout.size(Axis::Reg) as usize];
        for part in groups(&local, None, &layout, elem)? {
            let n = part.len() as u32;
            let (addr, offset) = local.at(b, &coords, &layout.reg_coord(part[0]))?;
            let words = b.remote_load(&word_types(n, elem), Place { addr, offset });
            part.iter().zip(from_words(b, &words, elem, n)).for_each(|(&r, e)| out[r as usize] = Some(e));
        }
        let regs = filled(out, &layout)?;
        self.set_tile(d.results[0], Tile { layout, regs });
        let t = self.task_mut()?;
        (t.met, t.traces.looked) = (false, true);
        Ok(())
    }

    pub(super) fn remote_store(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let local = self.elsewhere(b, d.args[0], d.args[1])?;
        let tile = self.own_tile(b, d.args[2])?;
        let elem = self.kernel.ty(d.args[2]).elem();
        let layout = tile.layout.clone();
        let guard = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let barrier = match d.args.get(3) {
            Some(&v) => {
                // Its bytes tell the other block that all lanes are done with what they read before.
                self.meet(b, false)?;
                let (place, rank) = (self.mbarrier(v)?, self.scalar(d.args[1])?);
                Some(Place { addr: b.remote(place, rank), offset: 0 })
            }
            None => None,
        };
        let coords = Coords::new(b, &layout);
        for part in groups(&local, None, &layout, elem)? {
            let (addr, offset) = local.at(b, &coords, &layout.reg_coord(part[0]))?;
            let elems: Vec<LVal> = part.iter().map(|&r| tile.regs[r as usize]).collect();
            let srcs = to_words(b, &elems, elem);
            let to = Place { addr, offset };
            match barrier {
                None => b.unit(Unit::RemoteStore { srcs, to, guard }),
                Some(_) if b.ty(srcs[0]).bits() != 32 => {
                    return Err(Unsupported::RemoteStore(elem).into());
                }
                Some(barrier) => b.unit(Unit::RemoteStoreAsync { srcs, to, barrier, guard }),
            }
        }
        if barrier.is_none() {
            let t = self.task_mut()?;
            (t.met, t.traces.stored) = (false, true);
        }
        Ok(())
    }
}
