//! The skeleton: what keeps its order. Effects, control and the places of reads, each naming classes of the graph.
//!
//! ```text
//! kernel ── build ─► Graph (pure ops, reads)  +  Skeleton: Block [ Effect, Anchor, Control [ Block … ] ] yields
//! ```
//!
//! A read is a node with an *epoch*: a state of memory and a region. Memory changes state at every write and update, at the entry of
//! a loop that writes, and behind control that writes. A read is looked up in the epochs of the enclosing regions first, so it is
//! shared with one that stands before it in an outer region; its *anchor* says where it stood, the only place where it may stand.
//!
//! An op with a combining region (`reduce_by`, the scans) is an entry like control: its operands and its region's values are classes, so
//! both are optimised, what the region need not repeat leaves it, and an op whose results nobody needs is left out.
//!
//! Loops that are folds ([`crate::folds`]) are nodes: what is left of them is where the last over each range stood, and a region for the
//! loops that will be made of the range.

use crate::cost::LANES;
use crate::folds::{self, Folds, Slot};
use crate::graph::{Context, Graph, Loop, Range, Read, Stored, bit, combining, pinned};
use crate::hash::IndexMap;
use crate::language::{Attrs, Head, Kids, Node};
use crate::rules::Class;
use crate::term::{Term, order};
use cranelift_entity::SecondaryMap;
use egg::Id;
use smallvec::SmallVec;
use tilelift_ir::{Effects, Extent, Inst, Kernel, Literal, Op, Region, Value, ViewType, iterations};

/// An entry of a block.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// An instruction with an effect, and the classes of its operands.
    Effect { inst: Inst, args: Vec<Id> },
    /// Where a pure op stood, and its results: the order of what has no place of its own is the author's, as far as it can be.
    Pure { classes: SmallVec<[Id; 1]> },
    /// Where a read or another op that keeps its place stood.
    Anchor { inst: Inst, class: Id, epoch: u32 },
    /// Where a loop stood whose results are folds over that range.
    Folds { inst: Inst, range: u32 },
    /// Control, or an op with a combining region, with its operands and regions.
    Control { inst: Inst, args: Vec<Id>, blocks: Vec<Block> },
}

/// A region: its entries, and what it yields.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) region: Region,
    pub(crate) items: Vec<Item>,
    pub(crate) yields: Vec<Id>,
    pub(crate) end: Option<Inst>,
}

/// Where a region hangs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) parent: Option<Region>,
    /// Depth in the tree of regions.
    pub(crate) depth: u32,
    /// True for regions that repeat.
    pub(crate) repeats: bool,
    /// True for the region of a combining op, which holds ops on scalars only.
    pub(crate) combines: bool,
    /// How often an instruction of it runs, by estimate.
    pub(crate) weight: u64,
}

/// The skeleton of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Skeleton {
    pub(crate) body: Block,
    pub(crate) places: SecondaryMap<Region, Place>,
    /// The instruction each class was made of first.
    pub(crate) origin: IndexMap<Id, Inst>,
    /// The nodes of the input program.
    pub(crate) original: Vec<Node>,
    /// The class of each value of the input kernel.
    pub(crate) class: SecondaryMap<Value, Option<Id>>,
    /// Carried values that are folds: the class, with the loop's result and parameter.
    pub(crate) carried: Vec<(Id, Value, Value)>,
    /// A sum of matrix products is made of the product that adds.
    pub(crate) products_add: bool,
}

/// Stores that a state of memory remembers at most.
const STORES: usize = 32;
/// Rounds of a loop whose bounds are not known.
const TRIPS: u64 = 16;
/// The heaviest weight of a region.
const HEAVIEST: u64 = 1 << 20;
/// A bound from here on says nothing.
const FAR: u64 = 1 << 30;

/// Splits a kernel into graph and skeleton.
pub(crate) fn build(kernel: &Kernel, allow: Class, explained: bool) -> (Graph, Skeleton) {
    let log = explained.then(Vec::new);
    let context = Context {
        log,
        event_region: vec![kernel.body],
        epoch_event: vec![0],
        epoch_range: vec![None],
        epoch_stores: vec![Vec::new()],
        ..Context::default()
    };
    let graph = Graph::new(context);
    let graph = if explained { graph.with_explanations_enabled().without_explanation_length_optimization() } else { graph };
    let mut b = Builder {
        kernel,
        graph,
        class: SecondaryMap::new(),
        memory: 0,
        memories: 0,
        stores: Vec::new(),
        scopes: vec![kernel.body],
        epochs: IndexMap::default(),
        places: SecondaryMap::new(),
        origin: IndexMap::default(),
        original: Vec::new(),
        folds: folds::find(kernel, allow),
        ranges: IndexMap::default(),
        carried: Vec::new(),
        in_front: Vec::new(),
    };
    b.places[kernel.body] = Place { weight: 1, ..Place::default() };
    for &p in &kernel.params {
        b.leaf(p, 0);
    }
    let body = b.block(kernel.body);
    b.graph.rebuild();
    let Builder { graph, places, origin, original, class, carried, .. } = b;
    (graph, Skeleton { body, places, origin, original, class, carried, products_add: allow >= Class::Free })
}

struct Builder<'k> {
    kernel: &'k Kernel,
    graph: Graph,
    class: SecondaryMap<Value, Option<Id>>,
    /// The state of memory, and the number of states.
    memory: u32,
    memories: u32,
    /// The stores that this state of memory still shows.
    stores: Vec<Stored>,
    scopes: Vec<Region>,
    epochs: IndexMap<(Option<u32>, Region), u32>,
    places: SecondaryMap<Region, Place>,
    origin: IndexMap<Id, Inst>,
    original: Vec<Node>,
    folds: Folds,
    /// Numbers of ranges by region, state of memory and bounds.
    ranges: IndexMap<(Region, u32, [Id; 3]), u32>,
    carried: Vec<(Id, Value, Value)>,
    /// Reads of the loops of folds that stand in front of them.
    in_front: Vec<Item>,
}

impl Builder<'_> {
    fn event(&mut self, region: Region) -> u32 {
        self.graph.analysis.event_region.push(region);
        (self.graph.analysis.event_region.len() - 1) as u32
    }

    fn leaf(&mut self, value: Value, event: u32) {
        self.graph.analysis.leaf_event[value] = event;
        let ty = self.graph.analysis.pool.add_type(self.kernel.ty(value));
        self.class[value] = Some(self.graph.add_uncanonical(Node { head: Head::Leaf { value, ty }, kids: Kids::new() }));
    }

    fn of(&self, v: Value) -> Id {
        self.class[v].expect("a verified kernel defines values before their use")
    }

    fn all(&self, values: &[Value]) -> Vec<Id> {
        values.iter().map(|&v| self.of(v)).collect()
    }

    fn region(&self) -> Region {
        self.scopes[self.scopes.len() - 1]
    }

    fn forget(&mut self) {
        self.memories += 1;
        self.memory = self.memories;
        self.stores.clear();
    }

    /// Notes a store, and the earlier ones of the same view that it cannot have touched.
    fn stored(&mut self, args: &[Id], earlier: Vec<Stored>) {
        let g = &self.graph;
        let rank = g.ty(args[0]).as_view().map_or(0, |v| v.rank());
        let new = Stored { place: args[..1 + rank].iter().copied().collect(), value: args[1 + rank], mask: args.get(2 + rank).copied() };
        self.stores = earlier.into_iter().filter(|old| g.find(old.place[0]) == g.find(new.place[0]) && apart(g, old, &new)).collect();
        // The oldest are the least likely to be read.
        if self.stores.len() == STORES {
            self.stores.remove(0);
        }
        self.stores.push(new);
    }

    fn writes(&self, inst: Inst) -> bool {
        let mut found = false;
        for &r in &self.kernel.insts[inst].regions {
            self.kernel.walk(r, &mut |i| found |= writes(self.kernel.insts[i].op));
        }
        found
    }

    fn block(&mut self, region: Region) -> Block {
        let kernel = self.kernel;
        let mut block = Block { region, items: Vec::new(), yields: Vec::new(), end: None };
        for &inst in &kernel.regions[region].insts {
            let d = &kernel.insts[inst];
            match d.op.info().effects {
                Effects::Pure if combining(d.op) => {
                    let item = self.control(inst);
                    block.items.push(item);
                }
                Effects::Pure if !pinned(d.op) => {
                    self.pure(inst, 0);
                    block.items.push(Item::Pure { classes: d.results.iter().map(|&r| self.of(r)).collect() });
                }
                Effects::Pure | Effects::Reads => {
                    let epoch = self.anchored(inst);
                    block.items.push(Item::Anchor { inst, class: self.of(d.results[0]), epoch });
                }
                Effects::Writes
                | Effects::Updates
                | Effects::Observes
                | Effects::Shared
                | Effects::AsyncReads
                | Effects::AsyncWrites
                | Effects::AsyncUpdates => {
                    let args = self.all(&d.args);
                    if writes(d.op) {
                        let earlier = std::mem::take(&mut self.stores);
                        self.forget();
                        if d.op == Op::Store && kernel.ty(d.args[0]).as_view().is_some_and(injective) {
                            self.stored(&args, earlier);
                        }
                    }
                    if !d.results.is_empty() {
                        let event = self.event(region);
                        d.results.iter().for_each(|&r| self.leaf(r, event));
                    }
                    block.items.push(Item::Effect { inst, args });
                }
                Effects::Control if d.op == Op::Yield => (block.yields, block.end) = (self.all(&d.args), Some(inst)),
                Effects::Control if self.folds.slots.contains_key(&inst) => {
                    let range = self.fold(inst);
                    block.items.append(&mut self.in_front);
                    block.items.push(Item::Folds { inst, range });
                }
                Effects::Control => {
                    let item = self.control(inst);
                    block.items.push(item);
                }
            }
        }
        block
    }

    /// The range of a loop whose results are folds.
    fn range(&mut self, inst: Inst) -> u32 {
        let (kernel, outer) = (self.kernel, self.region());
        let d = &kernel.insts[inst];
        let bounds = [0, 1, 2].map(|i| self.of(d.args[i]));
        let index = kernel.regions[d.regions[0]].params[0];
        if let Some(&range) = self.ranges.get(&(outer, self.memory, bounds)) {
            let of = &mut self.graph.analysis.ranges[range as usize];
            of.loops.push(inst);
            self.class[index] = self.class[of.index];
            return range;
        }
        let range = self.ranges.len() as u32;
        self.ranges.insert((outer, self.memory, bounds), range);
        let region = Region::from_u32((kernel.regions.len() + range as usize) as u32);
        let place = self.places[outer];
        let weight = place.weight.saturating_mul(self.trips(&bounds)).min(HEAVIEST);
        self.places[region] = Place { parent: Some(outer), depth: place.depth + 1, repeats: true, combines: false, weight };
        let event = self.event(self.real());
        let context = &mut self.graph.analysis;
        context.loops[index] = Some(Loop { lo: bounds[0], hi: bounds[1], step: bounds[2] });
        context.leaf_range[index] = Some(range);
        context.ranges.push(Range { region, index, loops: vec![inst], inner: bit(Some(range)) });
        // It is inside the loops around it.
        let mut at = Some(outer);
        while let Some(around) = at.and_then(|r| context.ranges.iter_mut().find(|o| o.region == r)) {
            around.inner |= bit(Some(range));
            at = self.places[around.region].parent;
        }
        self.leaf(index, event);
        range
    }

    /// The innermost region of the kernel: ranges have others.
    fn real(&self) -> Region {
        let count = self.kernel.regions.len();
        self.scopes.iter().rev().copied().find(|r| (r.as_u32() as usize) < count).unwrap_or(self.kernel.body)
    }

    /// Makes nodes of a loop whose results are folds; its range.
    fn fold(&mut self, inst: Inst) -> u32 {
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let range = self.range(inst);
        let slots = self.folds.slots[&inst].clone();
        let params = &kernel.regions[d.regions[0]].params;
        for (k, slot) in slots.iter().enumerate() {
            if *slot == Slot::Same {
                let init = self.of(d.args[3 + k]);
                (self.class[params[1 + k]], self.class[d.results[k]]) = (Some(init), Some(init));
            }
        }
        self.scopes.push(self.graph.analysis.ranges[range as usize].region);
        for &i in &kernel.regions[d.regions[0]].insts {
            let inner = &kernel.insts[i];
            match inner.op.info().effects {
                _ if self.folds.steps[i] => {
                    if let Some(k) = slots.iter().position(|s| matches!(s, Slot::Step { step, .. } if *step == i)) {
                        self.step(inst, range, k, slots[k]);
                    }
                }
                Effects::Pure => self.pure(i, 0),
                Effects::Reads => _ = self.anchored(i),
                _ if inner.op == Op::For => _ = self.fold(i),
                _ => {}
            }
        }
        self.scopes.pop();
        range
    }

    /// Makes a node of a carried value, at its step: what comes behind may see its states.
    fn step(&mut self, inst: Inst, range: u32, k: usize, slot: Slot) {
        let Slot::Step { step, op, element, factor, seen } = slot else { return };
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let (result, acc, y) = (d.results[k], kernel.regions[d.regions[0]].params[1 + k], kernel.insts[step].results[0]);
        let element = match element {
            Some(e) => self.of(e),
            None => self.product(step),
        };
        let ty = self.graph.analysis.pool.add_type(kernel.ty(result));
        let mut kids: Kids = [0, 1, 2, 3 + k].map(|i| self.of(d.args[i])).into_iter().collect();
        kids.push(element);
        kids.extend(factor.map(|(h, _)| self.of(h)));
        let node = Node { head: Head::Fold { op, range, online: factor.is_some(), ty }, kids };
        self.original.push(node.clone());
        let id = self.graph.add_uncanonical(node);
        self.class[result] = Some(id);
        self.origin.entry(id).or_insert(inst);
        self.carried.push((id, result, acc));
        for ((value, before), _) in [(acc, true), (y, false)].into_iter().zip(seen).filter(|(_, seen)| *seen) {
            let node = Node { head: Head::State { range, before, ty }, kids: [id].into_iter().collect() };
            self.class[value] = Some(self.graph.add_uncanonical(node));
        }
    }

    /// The matrix product of an instruction that adds one to an accumulator.
    fn product(&mut self, step: Inst) -> Id {
        let d = &self.kernel.insts[step];
        let ty = self.kernel.ty(d.results[0]);
        let none = if ty.elem().is_float() { Term::float(0.0, ty) } else { Term::int(0, ty) };
        let none = none.build(&mut self.graph).expect("a literal has a type");
        let attrs: Attrs = d.attrs.iter().cloned().collect();
        let pool = &mut self.graph.analysis.pool;
        let head = Head::Op { op: d.op, present: d.present, attrs: pool.add_attrs(&attrs), ty: pool.add_type(ty), result: 0, epoch: 0 };
        let node = Node { head, kids: [self.of(d.args[0]), self.of(d.args[1]), none].into_iter().collect() };
        self.original.push(node.clone());
        let id = self.graph.add_uncanonical(node);
        self.origin.entry(id).or_insert(step);
        id
    }

    fn control(&mut self, inst: Inst) -> Item {
        let (kernel, outer) = (self.kernel, self.region());
        let d = &kernel.insts[inst];
        let args = self.all(&d.args);
        let writes = self.writes(inst);
        let repeats = d.op != Op::If;
        if writes && repeats {
            self.forget();
        }
        let (before, stored) = (self.memory, self.stores.clone());
        let carried_from = if d.op == Op::For { 3 } else { 0 };
        let trips = match d.op {
            Op::For => self.trips(&args),
            // About once per element, by all lanes.
            op if combining(op) => kernel.ty(d.args[0]).as_tile().map_or(2, |t| t.elements() / LANES).max(2),
            _ => TRIPS,
        };
        let mut blocks = Vec::new();
        for &r in &d.regions {
            let place = self.places[outer];
            let weight = if repeats { place.weight.saturating_mul(trips).min(HEAVIEST) } else { place.weight };
            self.places[r] = Place { parent: Some(outer), depth: place.depth + 1, repeats, combines: combining(d.op), weight };
            let event = self.event(r);
            for (n, &p) in kernel.regions[r].params.iter().enumerate() {
                let carried = if d.op == Op::For { n.checked_sub(1) } else { Some(n) };
                match carried {
                    Some(k) if self.unchanged(inst, k) => self.class[p] = Some(args[carried_from + k]),
                    Some(_) => self.leaf(p, event),
                    None => {
                        self.graph.analysis.loops[p] = Some(Loop { lo: args[0], hi: args[1], step: args[2] });
                        self.leaf(p, event);
                    }
                }
            }
            (self.memory, self.stores) = (before, stored.clone());
            self.scopes.push(r);
            blocks.push(self.block(r));
            self.scopes.pop();
        }
        if writes {
            self.forget();
        }
        let event = self.event(outer);
        for (k, &r) in d.results.iter().enumerate() {
            if repeats && self.unchanged(inst, k) {
                self.class[r] = Some(args[carried_from + k]);
            } else {
                self.leaf(r, event);
            }
        }
        Item::Control { inst, args, blocks }
    }

    /// True if a loop yields its carried value `k` as it got it.
    fn unchanged(&self, inst: Inst, k: usize) -> bool {
        let d = &self.kernel.insts[inst];
        let Some(&body) = d.regions.last() else { return false };
        let first = usize::from(d.op == Op::For);
        d.op != Op::If && !combining(d.op) && self.kernel.yields(body).get(k) == self.kernel.regions[body].params.get(first + k)
    }

    fn trips(&self, args: &[Id]) -> u64 {
        // The most that it may have: what a mask cuts off is known at launch only.
        let fact = |id: Id| &self.graph[id].data;
        let int = |id: Id| match fact(id).value {
            Some(Literal::Int(i)) => Some(i),
            _ => None,
        };
        let near = |n: i64| (n.unsigned_abs() < FAR).then_some(n);
        let (lo, hi) = (int(args[0]).or(near(fact(args[0]).range.0)), int(args[1]).or(near(fact(args[1]).range.1)));
        match (lo, hi, int(args[2])) {
            (Some(lo), Some(hi), Some(step)) => iterations(lo, hi, step).map_or(TRIPS, |n| n.max(1)),
            _ => TRIPS,
        }
    }

    fn pure(&mut self, inst: Inst, epoch: u32) {
        for n in 0..self.kernel.insts[inst].results.len() {
            let node = self.node(inst, n as u8, epoch);
            let id = self.graph.add_uncanonical(node.clone());
            self.class[self.kernel.insts[inst].results[n]] = Some(id);
            self.origin.entry(id).or_insert(inst);
            self.original.push(node);
        }
    }

    fn node(&mut self, inst: Inst, result: u8, epoch: u32) -> Node {
        let d = &self.kernel.insts[inst];
        let kids: Kids = d.args.iter().map(|&v| self.of(v)).collect();
        let attrs: Attrs = d.attrs.iter().cloned().collect();
        let pool = &mut self.graph.analysis.pool;
        let ty = pool.add_type(self.kernel.ty(d.results[result as usize]));
        let head = Head::Op { op: d.op, present: d.present, attrs: pool.add_attrs(&attrs), ty, result, epoch };
        let mut node = Node { head, kids };
        order(&self.graph, &mut node);
        node
    }

    /// A read, or another op that keeps its place: shared with an equal one that stands in front of it in an enclosing region.
    fn anchored(&mut self, inst: Inst) -> u32 {
        let reads = self.kernel.insts[inst].op.info().effects == Effects::Reads;
        let memory = reads.then_some(self.memory);
        let scopes: SmallVec<[Region; 8]> = self.scopes.iter().copied().collect();
        for scope in scopes {
            let Some(&epoch) = self.epochs.get(&(memory, scope)) else { continue };
            let node = self.node(inst, 0, epoch);
            if let Some(id) = self.graph.lookup(node) {
                self.class[self.kernel.insts[inst].results[0]] = Some(id);
                return epoch;
            }
        }
        let region = self.stands_in(inst);
        let hoisted = region != self.region() && region == self.real();
        let epoch = match self.epochs.get(&(memory, region)) {
            Some(&e) => e,
            None => {
                let event = self.event(self.real());
                let context = &mut self.graph.analysis;
                context.epoch_event.push(event);
                context.epoch_range.push(context.ranges.iter().position(|r| r.region == region).map(|r| r as u32));
                context.epoch_stores.push(if reads { self.stores.clone() } else { Vec::new() });
                let epoch = (context.epoch_event.len() - 1) as u32;
                self.epochs.insert((memory, region), epoch);
                epoch
            }
        };
        self.pure(inst, epoch);
        if hoisted {
            self.in_front.push(Item::Anchor { inst, class: self.of(self.kernel.insts[inst].results[0]), epoch });
        }
        epoch
    }

    /// Where a read stands: in front of the loops of folds in which it is always the same. Such loops write nothing, and reading is right anywhere.
    fn stands_in(&self, inst: Inst) -> Region {
        let reads = self.kernel.insts[inst].op.info().effects == Effects::Reads;
        let ranges = &self.graph.analysis.ranges;
        let free = self.kernel.insts[inst].args.iter().fold(0, |free, &v| free | self.graph[self.of(v)].data.free);
        let differs = |r: Region| ranges.iter().position(|o| o.region == r).is_none_or(|n| free >> n & 1 == 1);
        self.scopes.iter().rev().copied().find(|&r| !reads || differs(r)).unwrap_or(self.kernel.body)
    }
}

/// True if different indices are different addresses: the view is dense, or its fixed strides leave room for what is inside of them.
fn injective(view: &ViewType) -> bool {
    let Some(strides) = &view.strides else { return true };
    let fixed = |e: &Extent| if let Extent::Fixed(n) = e { Some(u64::from(*n)) } else { None };
    let Some(mut dims) = strides.iter().zip(&view.dims).map(|(s, d)| Some((fixed(s)?, fixed(d)))).collect::<Option<Vec<_>>>() else {
        return false;
    };
    dims.sort_unstable();
    // The largest distance of elements so far, if it is known.
    let mut span = Some(0u64);
    dims.into_iter().all(|(stride, extent)| {
        let fits = span.is_some_and(|s| stride > s);
        span = extent.zip(span).and_then(|(e, s)| stride.checked_mul(e.saturating_sub(1))?.checked_add(s));
        fits
    })
}

/// True if two stores of one view touch no element in common: along some dimension their indices differ by a known distance.
fn apart(g: &Graph, a: &Stored, b: &Stored) -> bool {
    let (Some(x), Some(y)) = (g.ty(a.value).shape(), g.ty(b.value).shape()) else { return false };
    (0..x.len().min(y.len())).any(|d| {
        let (Some(p), Some(q)) = (&g.fact(a.place[1 + d]).affine, &g.fact(b.place[1 + d]).affine) else { return false };
        // Distances modulo 2^32, as indices are.
        let (up, down) = (q.offset.wrapping_sub(p.offset) as u32, p.offset.wrapping_sub(q.offset) as u32);
        p.base.map(|i| g.find(i)) == q.base.map(|i| g.find(i)) && up >= x[d] && down >= y[d]
    })
}

/// True for ops that change memory.
fn writes(op: Op) -> bool {
    match op.info().effects {
        Effects::Writes | Effects::Updates | Effects::Shared | Effects::AsyncReads | Effects::AsyncWrites | Effects::AsyncUpdates => true,
        Effects::Pure | Effects::Reads | Effects::Observes | Effects::Control => false,
    }
}

impl Skeleton {
    /// The innermost region in which something stands that is known from an event on, and differs between iterations of ranges.
    pub(crate) fn home(&self, g: &Graph, event: u32, free: u64) -> Region {
        let mut home = g.analysis.event_region[event as usize];
        if free != 0 {
            for r in (0..g.analysis.ranges.len()).filter(|r| free >> r & 1 == 1) {
                let region = g.analysis.ranges[r].region;
                if self.places[region].depth > self.places[home].depth {
                    home = region;
                }
            }
        }
        home
    }

    /// Every class that the skeleton names, in program order; anchors are no uses.
    pub(crate) fn visit_classes(&self, visit: &mut dyn FnMut(Id, Region)) {
        visit_block(&self.body, visit);
    }
}

fn visit_block(block: &Block, visit: &mut dyn FnMut(Id, Region)) {
    for item in &block.items {
        match item {
            Item::Effect { args, .. } => args.iter().for_each(|&a| visit(a, block.region)),
            Item::Pure { .. } | Item::Anchor { .. } | Item::Folds { .. } => {}
            Item::Control { args, blocks, .. } => {
                args.iter().for_each(|&a| visit(a, block.region));
                blocks.iter().for_each(|b| visit_block(b, visit));
            }
        }
    }
    block.yields.iter().for_each(|&y| visit(y, block.region));
}
