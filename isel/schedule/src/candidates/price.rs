//! What a specialised loop costs at one grid position, in parts: an iteration's copies, its products, what operands A take through
//! registers, and the epilogue.
//!
//! ```text
//! loop  = iterations * (copies + products + operand A)                  of copies and products what an iteration waits for counts whole
//! price = loop + epilogue                                               cooperative consumers
//!         max(loop + handover, (loop + epilogue) / 2)                   in ping-pong: one set's epilogue runs beside the other's loop
//! ```
//!
//! Costs are those of the target's table, in sixteenths of a cycle of one multiprocessor.

use crate::access::GlobalAccess;
use crate::plan::{EpilogueStore, Plan, Specialised, SwizzledTile, lane_cost, value_at};
use crate::transfers::{behind, fragments, global_access, through};
use tilelift_ir::layout::swizzle_of_width;
use tilelift_ir::layout::{Layout, SharedMap};
use tilelift_ir::propagate::{Pass, pass_at};
use tilelift_ir::{Inst, Kernel, Literal, Value, iterations};
use tilelift_lane::{Costs, GroupMatrix, Target};

/// Iterations of a loop whose bounds are not known.
const ITERATIONS: u64 = 16;

/// A price, in sixteenths of a cycle of a multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Price {
    /// Iterations of the loop at a grid position, as far as they are known.
    pub iterations: u64,
    /// Bulk copies of an iteration, as far as products do not hide them.
    pub copies: u64,
    /// Products of an iteration, as far as copies do not hide them.
    pub products: u64,
    /// What an iteration spends on operands A that go through registers: the fetch, and the wait for the products that read them.
    pub operand_a: u64,
    /// Stores of results.
    pub epilogue: u64,
    /// Of consumers in ping-pong: until the matrix units are the other set's.
    pub handover: Option<u64>,
}

impl Price {
    /// The price of a grid position.
    pub fn total(&self) -> u64 {
        let main = self.iterations.saturating_mul(self.copies + self.products + self.operand_a);
        let both = main.saturating_add(self.epilogue);
        self.handover.map_or(both, |handover| main.saturating_add(handover).max(both / 2))
    }

    /// Both together; the loop is the same.
    pub(super) fn plus(&self, other: &Price) -> Price {
        Price {
            iterations: self.iterations.max(other.iterations),
            copies: self.copies + other.copies,
            products: self.products + other.products,
            operand_a: self.operand_a + other.operand_a,
            epilogue: self.epilogue + other.epilogue,
            handover: self.handover.or(other.handover),
        }
    }
}

/// Prices of the parts of a plan.
pub(super) struct Prices<'a> {
    pub kernel: &'a Kernel,
    pub target: &'a Target,
    pub plan: &'a Specialised,
    warps: u64,
    pub iterations: u64,
    /// Copies are what an iteration waits for, not multiplications.
    copies_last: bool,
}

impl<'a> Prices<'a> {
    pub fn of(kernel: &'a Kernel, target: &'a Target, plan: &'a Plan) -> Option<Prices<'a>> {
        let s: &Specialised = plan.specialised()?;
        let iterations = trips(kernel, &kernel.insts[s.main].args);
        let mut out = Prices { kernel, target, plan: s, warps: plan.warps.into(), iterations, copies_last: false };
        let products: u64 = s.dots.iter().filter_map(|&(i, _)| out.units(i, false)).sum();
        let copies: u64 = s.loads.iter().map(|(_, t)| moved(t, &target.costs)).sum();
        // Neighbours ask for the same at the same time, and share what comes.
        out.copies_last = copies / 2 >= products;
        Some(out)
    }

    fn row(&self, dot: Inst) -> Option<&'a GroupMatrix> {
        let q = self.plan.dots.iter().find(|d| d.0 == dot)?.1;
        self.target.units.as_ref()?.matrix.get(q.as_u32() as usize)
    }

    /// A barrier of the program, and the warps' way to it.
    fn meet(&self) -> u64 {
        self.target.costs.barrier[0] + self.target.costs.barrier[1] * self.warps
    }

    /// What the matrix units take for a dot: as many columns as there are, or the operands that come from shared memory.
    fn units(&self, dot: Inst, registers: bool) -> Option<u64> {
        let (kernel, c, row) = (self.kernel, &self.target.costs, self.row(dot)?);
        let d = &kernel.insts[dot];
        let (a, b) = (kernel.ty(d.args[0]).as_tile()?, kernel.ty(d.args[1]).as_tile()?);
        let (m, k, n) = (u64::from(a.shape[0]), u64::from(a.shape[1]), u64::from(b.shape[1]));
        let least = if registers { c.group_left } else { c.group_operands[0] + c.group_operands[1] * n };
        let each = (u64::from(row.m) * u64::from(row.k) * n * c.group_product / 1024).max(least);
        Some(m / u64::from(row.m) * (k / u64::from(row.k)) * each)
    }

    /// What a load adds to an iteration, with the dots whose operand A it brings, from shared memory or through registers.
    pub fn loaded(&self, load: Inst, swizzle: u32, dots: &[(Inst, bool)]) -> Option<Price> {
        let mut price = Price { iterations: self.iterations, copies: self.load(load, swizzle)?, ..Price::default() };
        let mut fetched: Vec<Value> = Vec::new();
        for &(dot, registers) in dots {
            let [products, waits] = self.dot(dot, true, registers)?;
            price.products += products;
            price.operand_a += waits;
            let a = self.kernel.insts[dot].args[0];
            if registers && !fetched.contains(&a) {
                fetched.push(a);
                price.operand_a += self.operand_a(dot, swizzle)?;
            }
        }
        Some(price)
    }

    /// What nothing decides: dots whose operand A the ring does not bring.
    pub fn rest(&self, decided: &[Inst]) -> Option<Price> {
        let others = self.plan.dots.iter().map(|d| d.0).filter(|i| !decided.contains(i));
        let products = others.map(|i| self.dot(i, false, true).map(|p| p[0])).sum::<Option<u64>>()?;
        let handover = (self.plan.consumer_sets > 1).then_some(self.target.costs.group_wait);
        Some(Price { iterations: self.iterations, products, handover, ..Price::default() })
    }

    /// What lanes compute in an iteration, half of it: products hide it, but a chip that has no power to spare slows down for it (products of four-bit weights,
    /// H200: 786 cycles an iteration where lanes compute 384, 618 where they compute half of that).
    pub fn lanes(&self) -> u64 {
        let body = &self.kernel.regions[self.kernel.insts[self.plan.main].regions[0]].insts;
        // Transposes of what waits in shared memory are the unit's.
        let computes = |&i: &Inst| matches!(pass_at(self.kernel, i), Pass::Elementwise | Pass::Reduce | Pass::Along);
        let computed: Vec<Inst> = body.iter().copied().filter(computes).collect();
        lane_cost(self.kernel, self.target, &computed) / 2
    }

    /// The copies of a load in an iteration.
    pub fn load(&self, load: Inst, swizzle: u32) -> Option<u64> {
        let (_, tile) = self.plan.loads.iter().find(|l| l.0 == load)?;
        Some(beside(moved(&with_swizzle(tile, swizzle), &self.target.costs), self.copies_last))
    }

    /// A dot in an iteration, and what it waits for if its operand A goes from the ring through registers.
    pub fn dot(&self, dot: Inst, from_ring: bool, registers: bool) -> Option<[u64; 2]> {
        let products = self.units(dot, registers || !from_ring)?;
        // Another group multiplies while one waits.
        let waits = registers && from_ring && !self.plan.mixed && !self.plan.promoted;
        let groups = u64::from(self.plan.consumers * self.plan.consumer_sets).max(1);
        Some([beside(products, !self.copies_last), if waits { self.target.costs.group_wait / groups } else { 0 }])
    }

    /// The fetch of an operand A from its slot to the registers of the lanes.
    pub fn operand_a(&self, dot: Inst, swizzle: u32) -> Option<u64> {
        let (kernel, c) = (self.kernel, &self.target.costs);
        let a = kernel.insts[dot].args[0];
        let (load, views) = behind(kernel, a)?;
        let map = through(kernel, &swizzled_map(kernel, load, kernel.insts[load].results[0], swizzle)?, &views)?;
        let tile = kernel.ty(a).as_tile()?;
        let fragment = self.row(dot)?.a.as_ref()?;
        let layout = Layout::operand_of(&tile.shape, fragment, &[self.plan.consumers, 1], &[0, 1], &[Some(0), None]).ok()?;
        let [wavefronts, instructions] = fragments(&map, &layout, self.target.load_matrix, tile.elem.bytes(), self.target).ok()?;
        Some((u64::from(wavefronts) * c.wavefront + u64::from(instructions) * 2 * c.alu) * self.warps + self.meet() + c.shared_latency)
    }

    /// A store of results: in bulk from a swizzled tile, into which lanes bring them, or by lanes.
    pub fn store(&self, store: Inst, way: EpilogueStore) -> Option<u64> {
        let (kernel, c) = (self.kernel, &self.target.costs);
        let v = kernel.insts[store].args[value_at(kernel, store)];
        let (_, tile) = self.plan.stores.iter().find(|x| x.0 == store)?;
        match way {
            EpilogueStore::Lanes => global_access(kernel, self.target, self.warps, store, &self.accumulator(v)?, false),
            EpilogueStore::Bulk(swizzle) => {
                let staged = u64::from(tile.bytes()).div_ceil(128) * c.wavefront + 2 * self.meet() + c.shared_latency;
                // The next position's products run beside it, where there is one.
                Some(staged + beside(moved(&with_swizzle(tile, swizzle), c) * 2, !self.plan.persistent))
            }
        }
    }

    /// The layout of accumulators, for a tile of results of their shape.
    fn accumulator(&self, v: Value) -> Option<Layout> {
        let from = crate::plan::behind_reshapes(self.kernel, v);
        let shape = |v: Value| self.kernel.ty(v).shape();
        let like = |i: Inst| shape(self.kernel.insts[i].results[0]) == shape(from);
        let dot = self.plan.dots.iter().map(|d| d.0).find(|&i| like(i)).or(self.plan.dots.first().map(|d| d.0))?;
        let accumulator = Layout::fragment(shape(from)?, &self.row(dot)?.d, &[self.plan.consumers, 1], &[0, 1]).ok()?;
        if from == v { Some(accumulator) } else { accumulator.reshape(shape(v)?).ok() }
    }
}

/// Iterations of a loop with these bounds.
fn trips(kernel: &Kernel, bounds: &[Value]) -> u64 {
    let known = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(x), _)) => Some(x),
        _ => None,
    };
    match (known(bounds[0]), known(bounds[1]), known(bounds[2])) {
        (Some(a), Some(b), Some(_)) if b <= a => 1,
        (Some(a), Some(b), Some(s)) => iterations(a, b, s).unwrap_or(ITERATIONS),
        _ => ITERATIONS,
    }
}

/// A tile with another swizzle width.
fn with_swizzle(tile: &SwizzledTile, swizzle: u32) -> SwizzledTile {
    SwizzledTile { swizzle, per: swizzle / tile.elem.bytes(), ..tile.clone() }
}

/// What copying a tile takes: its boxes, its rows or its bytes, whichever take longest.
fn moved(tile: &SwizzledTile, c: &Costs) -> u64 {
    let rows = u64::from(tile.boxes()) * u64::from(tile.rows);
    (rows * c.box_row).max(u64::from(tile.bytes() / 32) * c.box_sector).max(u64::from(tile.boxes()) * c.box_start)
}

/// What runs beside something else: the whole of what an iteration waits for, a quarter of what is done by then.
fn beside(cost: u64, last: bool) -> u64 {
    if last { cost } else { cost / 4 }
}

/// How elements lie in the swizzled tile of a load or of a store.
pub(super) fn swizzled_map(kernel: &Kernel, i: Inst, v: Value, swizzle: u32) -> Option<SharedMap> {
    let contiguous = GlobalAccess::of(kernel, i).contiguous()?;
    let t = kernel.ty(v).as_tile()?;
    swizzle_of_width(&t.shape, t.elem.bytes(), contiguous, swizzle).ok()
}
