//! Prices: what a run of an instruction costs, what a conversion costs, from the target's table.

use super::folds::{self, FoldCount};
use super::staging::Waiting;
use crate::layout::assign::{Assignment, access_layout, row_layout, scattered_layout};
use crate::layout::dot_plan::DotPlan;
use crate::layout::packed;
use crate::layout::{fold_order, legal_width, memory_type};
use cranelift_entity::SecondaryMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use tilelift_egraph::cost::Family;
use tilelift_egraph::physical::{CostModel, InstLayouts, Layouts};
use tilelift_ir::layout::{
    AccessColumns, Axis, Conversion, Layout, conversion_cost, plan_in_registers, plan_round_trip, sectors, vector_count,
};
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, Inst, Kernel, Op, Scalar, Type, Value};
use tilelift_lane::Target;
use tilelift_lane::hash::{Map, Set};
use tilelift_schedule::indexed::indexed_vectors;
use tilelift_schedule::plan::Plan;
use tilelift_schedule::transfers::{ADDRESS, SECTOR, global_access};

/// Instructions that make an integer with the order of an element, or the element again.
const KEY: u64 = 5;
/// Instructions that make an element of half a byte a byte with its sign, and put it into a word with others.
const UNPACK: u64 = 3;

/// Byte permutes of vectors: elements smaller than a word, which do not lie in it in the order of the registers.
fn byte_permutes(groups: &[Vec<u32>], bytes: u32) -> u64 {
    let pack = (4 / bytes.clamp(1, 4)) as usize;
    let whole = |w: &[u32]| w.len() == pack && w[0].is_multiple_of(pack as u32) && (w[0]..).zip(w).all(|(want, &r)| r == want);
    let words = groups.iter().flat_map(|g| g.chunks(pack)).filter(|w| w.len() > 1 && !whole(w));
    words.map(|w| w.len() as u64).sum()
}

/// The machine of a search.
pub(super) struct Prices<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) target: &'a Target,
    pub(super) plan: &'a Plan,
    pub(super) plain: &'a Assignment,
    /// Values that are in shared memory, not in registers.
    pub(super) memory: SecondaryMap<Value, bool>,
    /// Loads that wait in shared memory in the plain assignment, and need not, or may do so in other maps; and the plain maps of what is seen
    /// of them.
    pub(super) waiting: Map<Inst, Waiting>,
    pub(super) maps: SecondaryMap<Value, Option<Rc<Layout>>>,
    /// Accesses may go along whole rows: where products are, they say how tiles lie.
    by_rows: bool,
    /// Costs of fetching operands.
    pub(super) fetches: RefCell<Map<Fetch, Option<u64>>>,
}

/// An operand in shared memory: its map as a layout, the layout it is wanted in, bytes of an element, whether it is multiplied in its own
/// type.
pub(super) type Fetch = (Rc<Layout>, Rc<Layout>, u32, bool);

impl<'a> Prices<'a> {
    pub fn new(
        kernel: &'a Kernel,
        target: &'a Target,
        plan: &'a Plan,
        plain: &'a Assignment,
        (mut memory, stay): (SecondaryMap<Value, bool>, &Set<Inst>),
    ) -> Prices<'a> {
        let mut out = Prices {
            kernel,
            target,
            plan,
            plain,
            memory: SecondaryMap::new(),
            waiting: Map::default(),
            maps: SecondaryMap::new(),
            by_rows: !kernel.insts.values().any(|d| matches!(d.op, Op::Dot | Op::DotScaled | Op::AsyncDot)),
            fetches: RefCell::default(),
        };
        out.wait(&mut memory, stay);
        out.memory = memory;
        out
    }

    /// The layout that a value has in the plain assignment: registers, or the map it waits in.
    pub fn base(&self, v: Value) -> Option<Rc<Layout>> {
        if self.memory[v] {
            return None;
        }
        self.maps[v].clone().or_else(|| self.plain.layout(v).cloned())
    }

    pub(super) fn warps(&self) -> u64 {
        u64::from(self.plan.warps)
    }

    fn tile(&self, v: Value) -> bool {
        matches!(self.kernel.ty(v), Type::Tile(_)) && !self.memory[v]
    }

    /// The plain assignment's layouts of operands and results.
    fn plainly(&self, i: Inst) -> InstLayouts {
        let d = &self.kernel.insts[i];
        let of = |v: &Value| if self.tile(*v) { self.base(*v) } else { None };
        InstLayouts { operands: d.args.iter().map(of).collect(), results: d.results.iter().map(of).collect() }
    }

    /// One layout for all tiles of an instruction.
    fn all_in(&self, i: Inst, l: &Rc<Layout>) -> InstLayouts {
        let d = &self.kernel.insts[i];
        let of = |v: &Value| self.tile(*v).then(|| l.clone());
        InstLayouts { operands: d.args.iter().map(of).collect(), results: d.results.iter().map(of).collect() }
    }

    /// The ways to run a dot.
    fn dots(&self, i: Inst) -> Vec<InstLayouts> {
        let Some(plan) = &self.plain.dots[i] else { return vec![self.plainly(i)] };
        [plan].into_iter().chain(&plan.others).flat_map(|p| self.dot(i, p)).collect()
    }

    /// The runs of a dot by a plan: operands in registers, where they are so, or where they wait.
    fn dot(&self, i: Inst, plan: &DotPlan) -> Vec<InstLayouts> {
        let d = &self.kernel.insts[i];
        let mut run = self.plainly(i);
        run.results = [Some(plan.whole.clone())].into_iter().collect();
        let mut operands: Layouts = run.operands.clone();
        let [at_a, at_b] = plan.factors_at();
        let (scales_at, sums_at) = if plan.scales.is_some() { ([1, 3], 4) } else { ([0; 2], 2) };
        operands[sums_at] = Some(plan.whole.clone());
        for (at, l) in scales_at.into_iter().zip(plan.scales.iter().flatten()) {
            operands[at] = Some(l.clone());
        }
        let batch = if plan.whole.rank() == 3 { Some(plan.whole.shape()[0]) } else { None };
        let mut waits: [Vec<Rc<Layout>>; 2] = Default::default();
        for (n, (k, l)) in [(at_a, &plan.a), (at_b, &plan.b)].into_iter().enumerate() {
            if !self.tile(d.args[k]) {
                continue;
            }
            let maps = self.seen(d.args[k]);
            if !maps.is_empty() {
                waits[n] = maps;
                if plan.instr.is_some() {
                    waits[n].extend(self.taken(d.args[k]).then(|| l.clone()));
                } else if let Some(own) = self.base(d.args[k]).filter(|own| !own.in_memory()) {
                    waits[n].push(own);
                }
                continue;
            }
            match batch {
                Some(n) => match l.expand_dims(0).broadcast(0, n) {
                    Ok(l) => operands[k] = Some(Rc::new(l)),
                    Err(_) => return Vec::new(),
                },
                // Multiply-adds read shared memory, into which an operand goes from any layout.
                None if plan.instr.is_some() => operands[k] = Some(l.clone()),
                None => {}
            }
        }
        run.operands = operands;
        let mut runs = vec![run];
        for (k, list) in [at_a, at_b].into_iter().zip(&waits).filter(|w| !w.1.is_empty()) {
            let with = |f: &InstLayouts, l: &Rc<Layout>| {
                let mut f = f.clone();
                f.operands[k] = Some(l.clone());
                f
            };
            runs = runs.iter().flat_map(|f| list.iter().map(move |l| with(f, l))).collect();
        }
        runs
    }

    /// Cost of a global access in a layout, per direction.
    pub(super) fn access(&self, i: Inst, layout: &Layout, is_load: bool) -> Option<u64> {
        global_access(self.kernel, self.target, self.warps(), i, layout, is_load)
    }

    /// An access through tiles of indices: of what it does not move in vectors every lane its sector, as far as neighbours in the last dimension
    /// are not neighbours in lanes.
    fn scattered(&self, i: Inst, layout: &Layout, elem: Scalar) -> Option<u64> {
        let v = indexed_vectors(self.kernel, i, layout.rank(), self.target.vector_bytes);
        let columns = AccessColumns::global(layout, &v.order).ok()?;
        let (bytes, most) = (elem.bytes(), legal_width(v.elements, memory_type(elem)));
        let [width, groups] = vector_count(&columns, bytes, most * bytes, layout.free_mask(Axis::Reg));
        let touched = u64::from(sectors(&columns, bytes, width, SECTOR));
        let distinct = self.warps() >> layout.free_mask(Axis::Warp).count_ones();
        let c = &self.target.costs;
        Some(u64::from(groups) * (distinct * touched * c.sector + self.warps() * ADDRESS * c.alu))
    }

    /// An op on every register of a layout.
    fn per_register(&self, family: Family, layout: &Layout, elem: Scalar) -> u64 {
        let wide = u64::from(elem.bits().max(32) / 32);
        let c = &self.target.costs;
        // Prices of the logical model are in sixteenths of a simple op.
        let each = if family == Family::Function { c.special } else { family.price() * c.alu / 16 };
        u64::from(layout.size(Axis::Reg)) * wide * each * self.warps()
    }

    /// True if a gather or scatter of a tile may move vectors.
    fn in_vectors(&self, i: Inst, v: Value) -> bool {
        let rank = self.kernel.ty(v).shape().map_or(0, <[u32]>::len);
        indexed_vectors(self.kernel, i, rank, self.target.vector_bytes).elements > 1
    }

    fn axis(&self, i: Inst) -> usize {
        let attr = self.kernel.insts[i].attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None });
        attr.unwrap_or(0)
    }
}

impl CostModel for Prices<'_> {
    fn anchors(&self, i: Inst) -> Vec<InstLayouts> {
        let d = &self.kernel.insts[i];
        if let Some(w) = self.waiting.get(&i).filter(|w| w.ring) {
            let maps = w.maps.iter().map(|m| Rc::new(m.layout().clone()));
            let layouts = self.base(d.results[0]).into_iter().chain(maps).chain(w.registers.iter().cloned());
            return layouts.map(|l| self.all_in(i, &l)).collect();
        }
        if self.fixed(i) {
            return match d.op {
                Op::Dot | Op::DotScaled => self.dots(i),
                _ if d.args.iter().chain(&d.results).any(|&v| self.tile(v)) => vec![self.plainly(i)],
                _ => Vec::new(),
            };
        }
        let v = match d.op {
            Op::Load if !self.memory[d.results[0]] && self.maps[d.results[0]].is_none() => d.results[0],
            Op::Store => self.kernel.operand(i, "value")[0],
            Op::Gather if self.in_vectors(i, d.results[0]) => d.results[0],
            Op::Scatter if self.in_vectors(i, self.kernel.operand(i, "value")[0]) => self.kernel.operand(i, "value")[0],
            _ => return Vec::new(),
        };
        let plain = access_layout(self.kernel, self.target, self.plan, i, v).ok();
        let rows = if self.by_rows && matches!(d.op, Op::Load | Op::Store) {
            row_layout(self.kernel, self.target, self.plan, i, v).filter(|l| plain.as_ref() != Some(l))
        } else {
            None
        };
        plain.into_iter().chain(rows).map(|l| self.all_in(i, &Rc::new(l))).collect()
    }

    fn fixed(&self, i: Inst) -> bool {
        let d = &self.kernel.insts[i];
        let shape = |v: Value| self.kernel.ty(v).shape().map(<[u32]>::to_vec);
        match d.op.info().rule {
            // Local memory is accessed as the plain assignment says.
            _ if d.op.is_explicit() => true,
            Rule::Dot | Rule::DotScaled | Rule::Atomic | Rule::GatherTile | Rule::Histogram | Rule::Sort | Rule::ArgSort => true,
            Rule::TopK | Rule::ArgTopK | Rule::ReduceBy | Rule::ScanBy | Rule::Print => true,
            // Elements that share bytes change their shape on the way.
            Rule::Store => self.kernel.ty(self.kernel.operand(i, "value")[0]).elem().is_packed(),
            Rule::Bitcast => shape(d.args[0]) != shape(d.results[0]),
            _ => false,
        }
    }

    fn run(&self, i: Inst, run: &InstLayouts) -> Option<u64> {
        let d = &self.kernel.insts[i];
        let c = &self.target.costs;
        let operand = || run.operands.iter().flatten().next();
        let result = || run.results.iter().flatten().next();
        let rule = d.op.info().rule;
        if matches!(rule, Rule::Sort | Rule::ArgSort | Rule::TopK | Rule::ArgTopK) {
            return self.sorted(i, matches!(rule, Rule::ArgSort | Rule::ArgTopK));
        }
        if let Some(w) = self.waiting.get(&i).filter(|w| w.ring) {
            return self.ring_price(w, result()?);
        }
        if self.fixed(i) && !matches!(d.op, Op::Dot | Op::DotScaled) {
            return Some(1);
        }
        match rule {
            Rule::Dot | Rule::DotScaled => self.product(i, run),
            Rule::Load if self.kernel.ty(d.results[0]).elem().is_packed() => {
                let whole = result()?;
                let bytes = packed::bytes_of(whole).ok()?;
                // Both halves of a byte arrive in one lane.
                let arrives = packed::halves_of(&bytes).ok()?.0.key(0) == whole.key(0);
                if !arrives {
                    return None;
                }
                let unpacked = if self.as_bytes(d.results[0]) { UNPACK * c.alu } else { 0 };
                Some(self.access(i, &bytes, true)? + u64::from(whole.size(Axis::Reg)) * unpacked * self.warps())
            }
            Rule::Load => self.loaded(i, result()?),
            Rule::Store => {
                let value = self.kernel.insts[i].args.iter().position(|v| *v == self.kernel.operand(i, "value")[0])?;
                self.access(i, run.operands[value].as_ref()?, false)
            }
            Rule::Gather | Rule::Scatter => {
                let v = if d.op == Op::Gather { d.results[0] } else { self.kernel.operand(i, "value")[0] };
                self.scattered(i, result().or_else(operand)?, self.kernel.ty(v).elem())
            }
            Rule::Reduce | Rule::ArgReduce => {
                let (l, dim) = (operand()?, self.axis(i));
                let Some(count) = folds::reduction(l, dim, |owned| fold_order(self.kernel, i, dim, owned)) else {
                    return self.spread_first(l, d.args[0]);
                };
                let per = if d.op == Op::Reduce { c.alu } else { 6 * c.alu };
                let count = if d.op == Op::Reduce { count } else { FoldCount { shuffles: 2 * count.shuffles, ..count } };
                Some(count.price(c, per, self.warps()))
            }
            Rule::Scan => {
                let (l, dim) = (operand()?, self.axis(i));
                match folds::scan(l, dim) {
                    Some(count) => Some(count.price(c, c.alu, self.warps())),
                    None => self.spread_first(l, d.args[0]),
                }
            }
            Rule::Flip => {
                let (l, dim) = (operand()?, self.axis(i));
                match folds::scan(l, dim) {
                    Some(count) if count.exchanges == 0 => {
                        Some(if count.shuffles > 0 { u64::from(l.size(Axis::Reg)) * c.shuffle * self.warps() } else { 0 })
                    }
                    _ => self.spread_first(l, d.args[0]),
                }
            }
            Rule::Held => Some(0),
            Rule::Broadcast | Rule::Reshape | Rule::Transpose | Rule::Join | Rule::Split | Rule::Concat | Rule::Slice => {
                Some(if run.operands.iter().flatten().next().is_some() { self.moved(i, run) } else { 0 })
            }
            _ => {
                let Some(l) = result().or_else(operand) else { return Some(0) };
                let v = d.results.first().or(d.args.first())?;
                let elem = self.kernel.ty(*v).elem();
                // A narrowing conversion works on what it reads.
                let elem = if d.op == Op::Cast && self.kernel.ty(d.args[0]).elem().bits() > elem.bits() {
                    self.kernel.ty(d.args[0]).elem()
                } else {
                    elem
                };
                Some(self.per_register(Family::of(d.op, elem), l, elem))
            }
        }
    }

    fn convert(&self, from: &Layout, to: &Layout, elem: Scalar) -> Option<u64> {
        if from.in_memory() || to.in_memory() {
            return None;
        }
        let bytes = memory_type(elem).bytes();
        let c = &self.target.costs;
        match plan_in_registers(from, to, self.target.lanes).ok()? {
            None => self.round_trip(from, to, bytes),
            Some(plan) => {
                let cost = conversion_cost(&plan, bytes, self.plan.warps);
                let shuffles = if let Conversion::InWarp(p) = &plan { u64::from(p.shuffle_count() * bytes.div_ceil(4)) } else { 0 };
                Some((shuffles * c.shuffle + u64::from(cost.selects) * c.alu) * self.warps())
            }
        }
    }

    fn convert_exactly(&self, from: &Layout, to: &Layout, elem: Scalar) -> Option<u64> {
        if from.in_memory() || to.in_memory() {
            return None;
        }
        match plan_in_registers(from, to, self.target.lanes).ok()? {
            None => self.planned_trip(from, to, memory_type(elem).bytes()),
            Some(_) => self.convert(from, to, elem),
        }
    }

    fn registers(&self) -> [u64; 2] {
        self.room()
    }

    fn held(&self, value: Value, layout: &Layout, words: u64) -> [u64; 2] {
        self.held_by(value, layout, words)
    }

    fn spill(&self) -> u64 {
        self.target.costs.spill * self.warps()
    }
}

impl Prices<'_> {
    /// What a dot costs: its matrix instructions, and fetching the operands that wait in shared memory, in the swizzle that suits the
    /// run.
    fn product(&self, i: Inst, run: &InstLayouts) -> Option<u64> {
        let plan = self.plain.dots[i].as_ref()?;
        let waits = run.operands.iter().flatten().any(|l| l.in_memory());
        if plan.others.is_empty() && !waits {
            // Nothing to choose between.
            return Some(1);
        }
        let plan = plan.that_takes(run);
        let c = &self.target.costs;
        let depth = plan.a.shape().last().copied().map_or(1, u64::from);
        // Lanes that hold copies of an accumulator multiply, too.
        let mut sum = u64::from(plan.d.size(Axis::Reg) * self.target.lanes) * depth * c.product / 1024 * self.warps();
        for (n, (k, layout)) in plan.factors_at().into_iter().zip([&plan.a, &plan.b]).enumerate() {
            let v = self.kernel.insts[i].args[k];
            let Some(map) = run.operands[k].as_ref().filter(|l| l.in_memory()) else { continue };
            if plan.instr.is_none() {
                continue;
            }
            let elem = self.kernel.ty(v).elem();
            let plain = plan.factors[n] == elem;
            sum += self.fetched(map, layout, plain, elem)?;
        }
        Some(sum.max(1))
    }

    /// A trip through shared memory, without its plan: its map has no conflicts, so the bytes say how many wavefronts it takes; instructions are
    /// counted as if half of them were as wide as can be.
    fn round_trip(&self, from: &Layout, to: &Layout, bytes: u32) -> Option<u64> {
        let elements: u64 = from.shape().iter().map(|&e| u64::from(e)).product();
        if elements * u64::from(bytes) > u64::from(self.target.shared_bytes) {
            return None;
        }
        let side = |l: &Layout, copies: u32| (u64::from(l.size(Axis::Reg) * l.size(Axis::Lane)) * u64::from(bytes)) >> copies;
        let stored = side(from, from.free_mask(Axis::Reg).count_ones() + from.free_mask(Axis::Lane).count_ones());
        let stored = (stored * self.warps()) >> from.free_mask(Axis::Warp).count_ones();
        let loaded = side(to, to.free_mask(Axis::Lane).count_ones()) * self.warps();
        let line = u64::from(self.target.banks.banks) * 4;
        let c = &self.target.costs;
        Some((stored.div_ceil(line) + loaded.div_ceil(line)) * (c.wavefront + c.alu) + self.trip_waits())
    }

    /// A trip through shared memory, as its plan says it: the wavefronts of stores and loads, their instructions, and what they put together and
    /// take apart of elements that share words.
    fn planned_trip(&self, from: &Layout, to: &Layout, bytes: u32) -> Option<u64> {
        let c = &self.target.costs;
        let plan = plan_round_trip(from, to, bytes, &self.target.banks).ok()?;
        let writing = self.warps() >> plan.idle_warps.count_ones();
        let side = |wavefronts: u32, groups: &[Vec<u32>]| {
            u64::from(wavefronts) * c.wavefront + (groups.len() as u64 + byte_permutes(groups, bytes)) * c.alu
        };
        let stored = side(plan.store_wavefronts, &plan.store_regs) * writing;
        Some(stored + side(plan.load_wavefronts, &plan.load_regs) * self.warps() + self.trip_waits())
    }

    /// What a trip through shared memory waits for: barriers in front of the stores and of the loads, and the data, both ways.
    fn trip_waits(&self) -> u64 {
        let c = &self.target.costs;
        2 * c.shared_latency + 2 * (c.barrier[0] + c.barrier[1] * self.warps())
    }

    /// A sort, as if its keys went through shared memory into lines of a power of two, where the network sorts them, and back. Lines that lie well take less
    /// ([`crate::lower`] sorts them in place), the first elements much less: a bound from above, and the same for any choice of layouts.
    fn sorted(&self, i: Inst, placed: bool) -> Option<u64> {
        let c = &self.target.costs;
        let (v, dim) = (self.kernel.insts[i].args[0], self.axis(i));
        let mut shape = self.kernel.ty(v).shape()?.to_vec();
        shape[dim] = shape[dim].next_power_of_two();
        let layout = scattered_layout(&shape, 4, self.target, self.plan).ok()?;
        let bare = u64::from(self.kernel.ty(v).elem().bytes().div_ceil(4));
        let words = bare + u64::from(placed);
        let items = u64::from(layout.size(Axis::Reg));
        let trip = FoldCount { words: 2 * items * words, exchanges: 1, combines: items * KEY, ..FoldCount::default() };
        let sorted = folds::network(&layout, dim, words, c, self.warps())?;
        Some(2 * trip.price(c, c.alu, self.warps()) + sorted)
    }

    /// An op whose lowering first brings its operand to a layout that keeps bits apart.
    fn spread_first(&self, l: &Layout, v: Value) -> Option<u64> {
        let elem = self.kernel.ty(v).elem();
        let words = u64::from(l.size(Axis::Reg)) * self.warps() * u64::from(memory_type(elem).bytes().div_ceil(4));
        let c = &self.target.costs;
        Some(8 * words * c.wavefront + 4 * (c.barrier[0] + c.barrier[1] * self.warps()) + 4 * c.shared_latency)
    }

    /// True if an op reads elements of half a byte as bytes. Casts to floats take them from the words in which they came.
    fn as_bytes(&self, v: Value) -> bool {
        let (mut open, mut seen) = (vec![v], BTreeSet::from([v]));
        while let Some(v) = open.pop() {
            for d in self.plain.users[v].iter().map(|&i| &self.kernel.insts[i]) {
                match d.op.info().rule {
                    Rule::Cast if self.kernel.ty(d.results[0]).elem().is_float() => {}
                    Rule::Broadcast | Rule::Reshape | Rule::Transpose | Rule::Join | Rule::Split | Rule::Concat | Rule::Slice => {
                        open.extend(d.results.iter().copied().filter(|&r| seen.insert(r)));
                    }
                    _ => return true,
                }
            }
        }
        false
    }

    /// Renames; what does not follow by renaming goes through shared memory, word by word.
    fn moved(&self, i: Inst, run: &InstLayouts) -> u64 {
        let d = &self.kernel.insts[i];
        let follows = *run != self.plainly(i) || tilelift_egraph::physical::rules::follows(self.kernel, i, run);
        if follows { 0 } else { run.operands.iter().flatten().next().and_then(|l| self.spread_first(l, d.args[0])).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::byte_permutes;

    #[test]
    fn words_in_the_order_of_the_registers_are_moved_whole() {
        assert_eq!(byte_permutes(&[vec![0, 1, 2, 3], vec![4, 5, 6, 7]], 1), 0);
        assert_eq!(byte_permutes(&[vec![0, 1, 2, 3, 8, 9, 10, 11]], 1), 0);
        assert_eq!(byte_permutes(&[vec![0, 2, 1, 3], vec![4, 5, 6, 7]], 1), 4, "other order");
        assert_eq!(byte_permutes(&[vec![2, 3, 4, 5]], 1), 4, "parts of two words");
        assert_eq!(byte_permutes(&[vec![0], vec![1]], 1), 0, "bytes alone");
        assert_eq!(byte_permutes(&[vec![1, 0]], 2), 2);
        assert_eq!(byte_permutes(&[vec![3, 1, 0, 2]], 4), 0, "words");
    }
}
