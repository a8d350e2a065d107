//! Layout assignment: a register layout for every tile value.
//!
//! Values that elementwise ops tie together form a class with one layout. Anchors propose layouts: a dot the accumulator layout of
//! its matrix instruction, a global access the coalesced one. Dots come first, then the largest access; a chosen layout spreads
//! through transposes, reshapes, broadcasts and reductions to the classes beside it; what is left gets the default. Where a value
//! is wanted in another layout than its own, the lowering converts.
//!
//! A value that a requirement of the author's holds has that layout and is in no class: it proposes it to those beside it.
//!
//! ```text
//!   load A ─ cast ─┐                                 class 1 {load A, cast, …}   anchor: the load
//!                  add ─ store C                     class 2 {dot, cast, add}    anchor: the dot
//!   dot ─── cast ──┘                                 the store converts if class 2 is not coalesced enough
//! ```

use crate::layout::dot_plan::DotPlan;
use crate::layout::kept_operands::{Known, kept_operands};
use crate::layout::packed;
use crate::layout::plan_dots::{plan_dots, product_behind};
use crate::layout::require::{RequiredLayouts, holds};
use crate::layout::sorted_pairs::{OtherHalf, sorted_pairs};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_egraph::physical::{InstLayouts, Solution, Variant};
use tilelift_ir::layout::{Layout, LayoutError, coalesced, coalesced_rows, coalesced_runs, coalesced_values};
use tilelift_ir::propagate::{Map, Tie, Touch, carried, passage};
use tilelift_ir::{Inst, InstData, Kernel, Op, Region, Type, Value};
use tilelift_lane::Target;
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::indexed::indexed_vectors;
use tilelift_schedule::plan::{Plan, handle, stores_load};
use tilelift_schedule::reason::OfScalar;

/// The outcome.
#[derive(Clone)]
pub(crate) struct Assignment {
    layouts: SecondaryMap<Value, Option<Rc<Layout>>>,
    /// Plans of the dots.
    pub dots: SecondaryMap<Inst, Option<Rc<DotPlan>>>,
    /// Ways to run an instruction, where they were searched: it runs once in each.
    pub runs: SecondaryMap<Inst, Rc<[InstLayouts]>>,
    /// True if layouts and maps were searched.
    pub searched: bool,
    /// The layouts that the author requires, of the values that they hold.
    pub held: RequiredLayouts,
    /// The layouts in which a value is had, where they were searched; see [`Variant`].
    pub variants: SecondaryMap<Value, Rc<[Variant]>>,
    /// The instructions that take each value, in order.
    pub users: SecondaryMap<Value, SmallVec<[Inst; 2]>>,
    /// Loads of operands that stay in registers ([`kept_operands`]).
    pub kept: SecondaryMap<Inst, bool>,
    /// What is sorted with each sort.
    pub sorted_pairs: SecondaryMap<Inst, Option<OtherHalf>>,
}

impl Assignment {
    /// The layout of a tile value.
    pub fn layout(&self, v: Value) -> Option<&Rc<Layout>> {
        self.layouts[v].as_ref()
    }

    /// True if both give every value the same layout.
    pub fn same_layouts(&self, other: &Assignment) -> bool {
        self.layouts == other.layouts
    }

    /// This assignment with what was found for its values.
    pub fn with(mut self, found: &Solution) -> Assignment {
        self.searched = true;
        for (v, list) in found.values.iter() {
            let Some(first) = list.first() else { continue };
            self.layouts[v] = Some(first.layout.clone());
            self.variants[v] = list.as_slice().into();
        }
        for (i, list) in found.runs.iter() {
            self.runs[i] = list.as_slice().into();
            let (Some(run), Some(plan)) = (list.first(), &self.dots[i]) else { continue };
            let taken = plan.that_takes(run).clone();
            self.dots[i] = Some(taken);
        }
        self
    }
}

#[derive(Default)]
struct Classes {
    lead: SecondaryMap<Value, Option<Value>>,
    /// Values with a layout of their own.
    held: SecondaryMap<Value, bool>,
    /// The layout, by number from 1 on, of the products in flight that a class has, by who leads it.
    in_flight: SecondaryMap<Value, u32>,
    /// Values that would share a layout, one of them held, or both products in flight.
    loose: Vec<[Value; 2]>,
}

impl Classes {
    fn find(&self, mut v: Value) -> Value {
        while let Some(p) = self.lead[v] {
            v = p;
        }
        v
    }
    /// As `find`, and the way becomes shorter.
    fn lead(&mut self, mut v: Value) -> Value {
        while let Some(p) = self.lead[v] {
            if self.lead[p].is_some() {
                self.lead[v] = self.lead[p];
            }
            v = p;
        }
        v
    }
    /// Every value points to the one that leads its class.
    fn settle(&mut self) {
        for v in self.lead.keys().collect::<Vec<_>>() {
            self.lead(v);
            // Whoever leads has a smaller number, and was settled before.
            if let Some(p) = self.lead[v] {
                self.lead[v] = self.lead[p].or(Some(p));
            }
        }
    }
    fn union(&mut self, a: Value, b: Value) {
        if self.held[a] || self.held[b] {
            self.loose.push([a, b]);
            return;
        }
        let (first, second) = (self.lead(a), self.lead(b));
        // The smaller number leads, so that the result does not depend on the order of unions.
        if first != second {
            let (lead, other) = if first < second { (first, second) } else { (second, first) };
            match (self.in_flight[lead], self.in_flight[other]) {
                (x, y) if x != y && x > 0 && y > 0 => return self.loose.push([a, b]),
                (x, y) => self.in_flight[lead] = x.max(y),
            }
            self.lead[other] = Some(lead);
        }
    }

    /// Products in flight can't be brought into another layout: what has one of theirs is in no class with what has another one.
    fn keep_apart(&mut self, in_flight: impl Iterator<Item = (Value, Rc<Layout>)>) {
        let mut layouts: Vec<Rc<Layout>> = Vec::new();
        for (v, layout) in in_flight {
            let known = layouts.iter().position(|l| *l == layout).unwrap_or_else(|| {
                layouts.push(layout);
                layouts.len() - 1
            });
            self.in_flight[v] = known as u32 + 1;
        }
    }
}

/// How a layout spreads from one value to another: by the map of an instruction, forward or backward, or as it is.
type Link = Option<(Rc<Map>, bool)>;

fn spread(l: &Layout, link: &Link) -> Option<Layout> {
    match link {
        None => Some(l.clone()),
        Some((map, true)) => map.forward(l),
        Some((map, false)) => map.backward(l),
    }
}

/// Extents of a tile value; `None` for scalars and views.
fn tile_shape(kernel: &Kernel, v: Value) -> Option<&[u32]> {
    kernel.ty(v).as_tile().map(|t| &t.shape[..])
}

/// Assigns layouts.
///
/// # Errors
/// A tile that no layout can spread.
pub(crate) fn assign(kernel: &Kernel, target: &Target, plan: &Plan) -> Result<Assignment, LowerError> {
    let mut out = Assignment {
        layouts: kernel.by_value(),
        dots: SecondaryMap::new(),
        runs: SecondaryMap::new(),
        searched: false,
        held: SecondaryMap::new(),
        variants: SecondaryMap::new(),
        users: users(kernel),
        kept: SecondaryMap::new(),
        sorted_pairs: sorted_pairs(kernel),
    };
    // Tasks have warps of their own, and no tile goes from one to another. The replicas of one have the same layouts.
    let roles = plan.task_plan().map_or(&[][..], |e| &e.roles);
    for r in roles.iter().filter(|r| r.replica == 0) {
        let own = Plan { warps: r.warps[1], ..plan.clone() };
        assign_part(kernel, target, &own, r.region, &mut out)?;
    }
    let front = Plan { warps: plan.task_plan().map_or(plan.warps, |e| e.front), ..plan.clone() };
    assign_part(kernel, target, &front, kernel.body, &mut out)?;
    taken(Decision::PlainLayout, || Told::of(format!("{} tiles have one", out.layouts.values().filter(|l| l.is_some()).count())));
    Ok(out)
}

fn users(kernel: &Kernel) -> SecondaryMap<Value, SmallVec<[Inst; 2]>> {
    let mut users: SecondaryMap<Value, SmallVec<[Inst; 2]>> = kernel.by_value();
    for (i, d) in kernel.insts.iter() {
        for &v in &d.args {
            if users[v].last() != Some(&i) {
                users[v].push(i);
            }
        }
    }
    users
}

/// True if instructions of a part, or its parameters, make tiles: a producer's copies have none.
fn makes_tiles(kernel: &Kernel, part: Region, insts: &[Inst]) -> bool {
    let tile = |&v: &Value| tile_shape(kernel, v).is_some();
    let params = |&r: &Region| kernel.regions[r].params.iter().any(tile);
    params(&part) || insts.iter().map(|&i| &kernel.insts[i]).any(|d| d.results.iter().any(tile) || d.regions.iter().any(params))
}

/// Assigns layouts to what a region makes, but for the tasks in it.
fn assign_part(kernel: &Kernel, target: &Target, plan: &Plan, part: Region, out: &mut Assignment) -> Result<(), LowerError> {
    let mut insts = Vec::with_capacity(kernel.insts.len());
    own_insts(kernel, part, &mut insts);
    if !makes_tiles(kernel, part, &insts) {
        return Ok(());
    }
    let mut classes = Classes::default();
    let mut links: Vec<(Value, Value, Link)> = Vec::new();
    let mut here: SecondaryMap<Inst, bool> = kernel.by_inst();
    insts.iter().for_each(|&i| here[i] = true);
    plan_dots(kernel, target, plan, &insts, &mut out.dots)?;
    let held = holds(kernel, target, plan, &out.dots, &here)?;
    for (v, layout) in held.iter().filter(|h| h.1.is_some()) {
        classes.held[v] = true;
        out.held[v] = layout.clone();
    }
    let in_flight = |i: &&Inst| kernel.insts[**i].op == Op::AsyncDot;
    classes.keep_apart(
        insts.iter().filter(in_flight).filter_map(|&i| Some((kernel.insts[i].results[0], out.dots[i].as_ref()?.whole.clone()))),
    );
    for &i in &insts {
        collect(kernel, i, &mut classes, &mut links);
    }
    for [a, b] in std::mem::take(&mut classes.loose) {
        links.push((a, b, None));
        links.push((b, a, None));
    }
    classes.settle();
    // By the class that they start from.
    let mut from: Vec<(Value, u32)> = links.iter().enumerate().map(|(n, link)| (classes.find(link.0), n as u32)).collect();
    from.sort_unstable();

    let mut chosen: BTreeMap<Value, Rc<Layout>> = BTreeMap::new();
    // The class that waits longest stands at the end.
    let mut queue: VecDeque<Value> = VecDeque::new();
    for (v, layout) in held.iter() {
        if let Some(l) = layout {
            chosen.insert(v, l.clone());
            queue.push_back(v);
        }
    }
    // An operand in registers that a loop carries is carried as the product reads it: what would be rearranged in front of the product would be written
    // while the one before reads it.
    for (i, d) in insts.iter().map(|&i| (i, &kernel.insts[i])).filter(|(_, d)| d.op == Op::AsyncDot) {
        let carried = kernel.def_inst(d.args[0]).is_none() && kernel.ty(d.args[0]).as_tile().is_some();
        if let Some(plan) = out.dots[i].as_ref().filter(|_| carried) {
            let class = classes.find(d.args[0]);
            chosen.entry(class).or_insert_with(|| {
                queue.push_back(class);
                plan.a.clone()
            });
        }
    }
    // A product in flight can't be brought into another layout, so that it comes first.
    for &i in insts.iter().filter(in_flight).chain(insts.iter().filter(|i| !in_flight(i))) {
        if let Some(dot) = &out.dots[i] {
            let class = classes.find(kernel.insts[i].results[0]);
            chosen.entry(class).or_insert_with(|| {
                queue.push_back(class);
                dot.whole.clone()
            });
        }
    }

    for (i, layout) in kept_operands(&Known { kernel, dots: &out.dots, users: &out.users }, target, &insts) {
        out.kept[i] = true;
        let class = classes.find(kernel.insts[i].results[0]);
        chosen.entry(class).or_insert_with(|| {
            queue.push_back(class);
            layout
        });
    }

    // Scales are few, and neighbours of theirs lie in the same lines of the cache: lanes read those that the instruction wants of them.
    for &i in &insts {
        let Some([of_a, of_b]) = out.dots[i].as_ref().and_then(|dot| dot.scales.clone()) else { continue };
        for (at, layout) in [(1, of_a), (3, of_b)] {
            let class = classes.find(kernel.insts[i].args[at]);
            chosen.entry(class).or_insert_with(|| {
                queue.push_back(class);
                layout
            });
        }
    }

    for (class, layout) in operands_in_local_memory(kernel, &insts, &out.dots, &mut classes) {
        chosen.entry(class).or_insert_with(|| {
            queue.push_back(class);
            layout
        });
    }

    // What lanes compute for the unit is computed as it takes it, unless what it is computed of says otherwise, or memory is read for it.
    let read: Vec<Value> = insts.iter().filter(|&&i| reads_memory(kernel, i)).map(|&i| classes.find(kernel.insts[i].results[0])).collect();
    let computed = insts.iter().filter(in_flight).filter_map(|&i| {
        let (v, dot) = (kernel.insts[i].args[0], out.dots[i].as_ref()?);
        (tile_shape(kernel, v) == Some(dot.a.shape())).then(|| (classes.find(v), dot.a.clone()))
    });
    let computed: Vec<(Value, Rc<Layout>)> = computed.filter(|c| !read.contains(&c.0)).collect();
    let mut computed = computed.into_iter();

    // Accesses by size, largest first, those in loops before others; the earlier one wins a tie.
    let mut again = SecondaryMap::new();
    in_loops(kernel, part, false, &mut again);
    let weight = |i: Inst, bytes: u64| if again[i] { bytes * ROUNDS } else { bytes };
    let mut anchors: Vec<(u64, Inst, Value)> = Vec::new();
    for &i in &insts {
        let d = &kernel.insts[i];
        let v = match d.op {
            Op::Load => d.results[0],
            Op::Store | Op::LocalStore | Op::RemoteStore | Op::RemoteStoreAsync => kernel.operand(i, "value")[0],
            Op::LocalLoad | Op::RemoteLoad => d.results[0],
            Op::Gather | Op::Atomic | Op::AtomicCas => d.results[0],
            Op::Scatter => kernel.operand(i, "value")[0],
            // The lanes that copy an element know its indices.
            Op::GatherAsync => {
                let tiles = kernel.operand(i, "indices").iter().chain(kernel.operand(i, "mask"));
                anchors.extend(tiles.filter_map(|&v| Some((kernel.ty(v).as_tile()?.elements(), i, v))));
                continue;
            }
            _ => continue,
        };
        if let Type::Tile(t) = kernel.ty(v) {
            let bytes = t.elements() * u64::from(t.elem.bytes());
            let each = if t.elem.is_packed() { bytes / 2 } else { bytes };
            anchors.push((weight(i, each), i, v));
        }
    }
    let vector = |v: Value| tile_shape(kernel, v).is_some_and(|s| s.iter().filter(|&&e| e > 1).count() <= 1);
    let shared = insts.iter().filter(|&&i| kernel.insts[i].op == Op::Broadcast).filter_map(|&i| {
        let v = kernel.insts[i].results[0];
        let t = kernel.ty(v).as_tile()?;
        let bytes = weight(i, t.elements() * u64::from(t.elem.bytes()));
        (!vector(v) && anchors.iter().all(|a| a.0 >= bytes || vector(a.2))).then_some((bytes, i, v))
    });
    // Tiles that come from no memory, where rows and columns that do are shared by them: who reads an element there wants it where the tile lies.
    let shared: Vec<(u64, Inst, Value)> = shared.collect();
    anchors.extend(shared);
    anchors.sort_by_key(|&(bytes, i, _)| (std::cmp::Reverse(bytes), i));
    let mut anchors = anchors.into_iter();
    let mut rest = insts.iter().flat_map(|&i| kernel.insts[i].results.iter().copied()).collect::<Vec<_>>().into_iter();

    loop {
        while let Some(class) = queue.pop_back() {
            let layout = chosen[&class].clone();
            let own = from[from.partition_point(|f| f.0 < class)..].iter().take_while(|f| f.0 == class);
            for (_, to, link) in own.filter_map(|&(_, n)| links.get(n as usize)) {
                let to = classes.find(*to);
                if !chosen.contains_key(&to)
                    && let Some(l) = spread(&layout, link)
                {
                    chosen.insert(to, Rc::new(l));
                    queue.push_front(to);
                }
            }
        }
        if let Some((class, layout)) = computed.by_ref().find(|c| !chosen.contains_key(&c.0)) {
            chosen.insert(class, layout);
            queue.push_back(class);
            continue;
        }
        let next = anchors.by_ref().find(|(_, _, v)| !chosen.contains_key(&classes.find(*v)));
        if let Some((_, i, v)) = next {
            let made = kernel.insts[i].op == Op::Broadcast;
            let l = if made { default_layout(kernel, target, plan, v)? } else { access_layout(kernel, target, plan, i, v)? };
            let class = classes.find(v);
            chosen.insert(class, Rc::new(l));
            queue.push_back(class);
            continue;
        }
        let next = rest.by_ref().find(|&v| tile_shape(kernel, v).is_some() && !chosen.contains_key(&classes.find(v)));
        let Some(v) = next else { break };
        let l = default_layout(kernel, target, plan, v)?;
        let class = classes.find(v);
        chosen.insert(class, Rc::new(l));
        queue.push_back(class);
    }

    let mut own: Vec<Value> = kernel.regions[part].params.to_vec();
    for &i in &insts {
        own.extend(&kernel.insts[i].results);
        own.extend(kernel.insts[i].regions.iter().flat_map(|&r| kernel.regions[r].params.iter().copied()));
    }
    for v in own {
        if tile_shape(kernel, v).is_some() {
            out.layouts[v] = match chosen.get(&classes.find(v)) {
                Some(l) => Some(l.clone()),
                // A region parameter of a loop that no instruction of the walk mentions.
                None => Some(Rc::new(default_layout(kernel, target, plan, v)?)),
            };
        }
    }
    Ok(())
}

/// Rounds that a loop is taken to have.
const ROUNDS: u64 = 8;

/// Notes which instructions of a region stand in loops of it, or are in one with it.
fn in_loops(kernel: &Kernel, part: Region, inside: bool, again: &mut SecondaryMap<Inst, bool>) {
    for &i in &kernel.regions[part].insts {
        let d = &kernel.insts[i];
        if inside {
            again[i] = true;
        }
        let inside = inside || matches!(d.op, Op::For | Op::While);
        d.regions.iter().for_each(|&r| in_loops(kernel, r, inside, again));
    }
}

/// True if an operand of a product is computed of the sums of another one: where these lie decides what lies between the two costs.
pub(crate) fn multiplies_products(kernel: &Kernel, assigned: &Assignment) -> bool {
    let factors = |d: &InstData| d.op.factors().into_iter().flat_map(|[a, b, _]| [d.args[a], d.args[b]]).collect::<SmallVec<[Value; 2]>>();
    let behind = |v| product_behind(kernel, v, &assigned.dots).is_some();
    assigned
        .dots
        .iter()
        .any(|(i, plan)| plan.as_ref().is_some_and(|p| p.instr.is_some()) && factors(&kernel.insts[i]).into_iter().any(behind))
}

/// True for what brings a tile from global memory, or another block's.
fn reads_memory(kernel: &Kernel, i: Inst) -> bool {
    matches!(kernel.insts[i].op, Op::Load | Op::Gather | Op::Atomic | Op::AtomicCas | Op::RemoteLoad)
}

/// Operands of products that come from local memory alone, with the layouts in which they are multiplied: any layout is as good to fetch.
fn operands_in_local_memory(
    kernel: &Kernel,
    insts: &[Inst],
    dots: &SecondaryMap<Inst, Option<Rc<DotPlan>>>,
    classes: &mut Classes,
) -> Vec<(Value, Rc<Layout>)> {
    let mut fetched: BTreeMap<Value, bool> = BTreeMap::new();
    for &i in insts {
        let d = &kernel.insts[i];
        let (v, local) = match d.op {
            Op::LocalLoad => (d.results[0], true),
            Op::Load | Op::Gather | Op::Atomic | Op::AtomicCas | Op::RemoteLoad => (d.results[0], false),
            Op::Store | Op::Scatter => (kernel.operand(i, "value")[0], false),
            _ => continue,
        };
        *fetched.entry(classes.find(v)).or_insert(true) &= local;
    }
    let mut out = Vec::new();
    for &i in insts {
        let Some(dot) = &dots[i] else { continue };
        for (at, layout) in dot.factors_at().into_iter().zip([&dot.a, &dot.b]) {
            let v = kernel.insts[i].args[at];
            let class = classes.find(v);
            if fetched.get(&class) == Some(&true) && tile_shape(kernel, v) == Some(layout.shape()) {
                out.push((class, layout.clone()));
            }
        }
    }
    out
}

/// The instructions of a region and the regions inside it, but for those of tasks.
fn own_insts(kernel: &Kernel, r: Region, out: &mut Vec<Inst>) {
    for &i in &kernel.regions[r].insts {
        out.push(i);
        if kernel.insts[i].op != Op::Tasks {
            kernel.insts[i].regions.iter().for_each(|&inner| own_insts(kernel, inner, out));
        }
    }
}

/// Unions and links of one instruction.
fn collect(kernel: &Kernel, i: Inst, classes: &mut Classes, links: &mut Vec<(Value, Value, Link)>) {
    for c in carried(kernel, i).into_iter().filter(|c| tile_shape(kernel, c.result).is_some()) {
        c.params.iter().chain(&c.yields).for_each(|&v| classes.union(v, c.result));
        if let Some(init) = c.init {
            links.push((c.result, init, None));
            links.push((init, c.result, None));
        }
    }
    let Some(p) = passage(kernel, i) else { return };
    let values = |side: &[Touch]| side.iter().filter_map(|t| t.value(kernel, i)).collect::<SmallVec<[Value; 4]>>();
    let (near, far) = (values(&p.near), values(&p.far));
    let [forward, backward] = p.map.proposes();
    let one = |classes: &mut Classes, side: &[Value]| {
        if let Some((&last, others)) = side.split_last() {
            others.iter().for_each(|&v| classes.union(v, last));
        }
    };
    match p.tie {
        Tie::One => {
            one(classes, &near);
            // Sums along one axis say nothing of each other.
            if backward {
                one(classes, &far);
            }
        }
        Tie::Equal => {
            for pair in near.windows(2) {
                links.push((pair[0], pair[1], None));
                links.push((pair[1], pair[0], None));
            }
        }
        Tie::First => {
            for pair in near.windows(2) {
                links.push((near[0], pair[1], None));
            }
        }
    }
    let heard = if backward { &far[..far.len().min(1)] } else { &far[..] };
    if let Some(&from) = near.first().filter(|_| !heard.is_empty()) {
        let map = Rc::new(p.map);
        for &to in heard {
            links.extend(forward.then(|| (from, to, Some((map.clone(), true)))));
            links.extend(backward.then(|| (to, from, Some((map.clone(), false)))));
        }
    }
}

/// The coalesced layout of a load or store of `v`, or of a gather or scatter.
pub(crate) fn access_layout(kernel: &Kernel, target: &Target, plan: &Plan, i: Inst, v: Value) -> Result<Layout, LowerError> {
    let Type::Tile(t) = kernel.ty(v) else {
        return Err(OfScalar::Access.into());
    };
    if matches!(kernel.insts[i].op, Op::LocalLoad | Op::LocalStore | Op::RemoteLoad | Op::RemoteStore | Op::RemoteStoreAsync) {
        return local_layout(kernel, target, plan, i, &t.shape, t.elem.bytes());
    }
    if kernel.insts[i].op == Op::GatherAsync {
        let (vectors, view) = (indexed_vectors(kernel, i, t.shape.len(), target.vector_bytes), kernel.insts[i].args[0]);
        return Ok(coalesced(&t.shape, kernel.ty(view).elem().bytes(), &vectors.order, vectors.elements, target.lanes, plan.warps)?);
    }
    if matches!(kernel.insts[i].op, Op::Gather | Op::Scatter) {
        let vectors = indexed_vectors(kernel, i, t.shape.len(), target.vector_bytes);
        return Ok(coalesced_values(&t.shape, t.elem.bytes(), &vectors.order, vectors.elements, target.lanes, plan.warps)?);
    }
    if !matches!(kernel.insts[i].op, Op::Load | Op::Store) {
        return scattered_layout(&t.shape, t.elem.bytes(), target, plan);
    }
    let access = GlobalAccess::of(kernel, i);
    let vec = access.vector_elements(target.vector_bytes);
    if access.packed {
        let shape = packed::byte_shape(&t.shape);
        let bytes = coalesced(&shape, 1, &access.order(), vec, target.lanes, plan.warps)?;
        return Ok(packed::halves_of(&bytes)?.0);
    }
    Ok(moved_layout(kernel, target, plan, (i, &t.shape))?)
}

/// The layout of a load or store of a tile whose elements do not share bytes.
///
/// # Errors
/// See [`coalesced`].
pub(crate) fn moved_layout(kernel: &Kernel, target: &Target, plan: &Plan, (i, shape): (Inst, &[u32])) -> Result<Layout, LayoutError> {
    let access = GlobalAccess::of(kernel, i);
    let bytes = access.view.elem.bytes();
    let run = stored_along(kernel, plan, i).map(|d| (d, (RUN_BYTES / bytes).max(1)));
    let vec = access.vector_elements(target.vector_bytes);
    coalesced_runs(shape, bytes, &access.order(), (vec, run), target.lanes, plan.warps)
}

/// The layout of a load or store of a tile in which lanes go along whole rows, if elements do not share bytes.
pub(crate) fn row_layout(kernel: &Kernel, target: &Target, plan: &Plan, i: Inst, v: Value) -> Option<Layout> {
    let shape = kernel.ty(v).shape()?;
    let access = GlobalAccess::of(kernel, i);
    let (bytes, vec) = (access.view.elem.bytes(), access.vector_elements(target.vector_bytes));
    (!access.packed).then(|| coalesced_rows(shape, bytes, &access.order(), vec, target.lanes, plan.warps).ok())?
}

/// Bytes of the runs that lanes store where another dimension is contiguous than where they loaded: what a matrix instruction takes of a lane at once.
const RUN_BYTES: u32 = 8;

/// The dimension that is contiguous where a loaded tile is stored to local memory as it is, and goes nowhere else.
fn stored_along(kernel: &Kernel, plan: &Plan, load: Inst) -> Option<usize> {
    let plan = plan.task_plan().filter(|e| e.by_lanes)?;
    let v = *kernel.insts[load].results.first()?;
    // Stores behind which there is a load are few.
    let mut along = None;
    for (&root, buffer) in plan.buffers.iter().filter(|(_, b)| b.swizzled.is_some()) {
        for &i in plan.locals.uses(root).iter().filter(|&&i| stores_load(kernel, i) == Some(load)) {
            let h = handle(kernel, kernel.insts[i].args[0])?;
            along = h.parts.iter().position(|p| Some(p.of) == buffer.swizzled.map(|s| s.contiguous));
        }
    }
    along.filter(|_| kernel.insts.values().filter(|d| d.args.contains(&v)).count() == 1)
}

/// The layout of an access of local memory: lanes side by side along the rows, each with as much as it may take at once.
fn local_layout(kernel: &Kernel, target: &Target, plan: &Plan, i: Inst, shape: &[u32], bytes: u32) -> Result<Layout, LowerError> {
    let found = handle(kernel, kernel.operand(i, "buffer")[0]);
    let mut order: Vec<usize> = (0..shape.len()).rev().collect();
    let mut vec = 1;
    if let Some((h, buffer)) = found.and_then(|h| plan.task_plan()?.buffers.get(&h.root).map(|f| (h, f))) {
        order.sort_by_key(|&d| std::cmp::Reverse(h.parts[d].of));
        let along = buffer.swizzled.map_or(buffer.shape.len() - 1, |p| p.contiguous);
        if let Some(d) = h.parts.iter().position(|p| p.of == along) {
            order.retain(|&x| x != d);
            order.insert(0, d);
            vec = (target.vector_bytes / bytes).max(1);
        }
    }
    Ok(coalesced(shape, bytes, &order, vec, target.lanes, plan.warps)?)
}

/// The layout of an access whose elements may lie anywhere: neighbours in neighbouring lanes, one element at a time.
pub(crate) fn scattered_layout(shape: &[u32], bytes: u32, target: &Target, plan: &Plan) -> Result<Layout, LowerError> {
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    Ok(coalesced(shape, bytes, &order, 1, target.lanes, plan.warps)?)
}

fn default_layout(kernel: &Kernel, target: &Target, plan: &Plan, v: Value) -> Result<Layout, LowerError> {
    let Type::Tile(t) = kernel.ty(v) else {
        return Err(OfScalar::Layout.into());
    };
    let order: Vec<usize> = (0..t.shape.len()).rev().collect();
    let bytes = t.elem.bytes();
    Ok(coalesced_values(&t.shape, bytes, &order, target.vector_bytes / bytes, target.lanes, plan.warps)?)
}
