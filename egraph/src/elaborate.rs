//! Elaboration: the chosen nodes become a kernel again.
//!
//! ```text
//! liveness    what effects need, through chosen nodes and carried values; control without effect or need is dropped
//! placement   per class, operands last: the regions of its uses meet in one; from there it leaves loops that it does not depend on
//! emission    the skeleton in order; an item first demands its operands, each in its place; other values where their author had them
//! ```
//!
//! A class is computed once per place (value numbering). Reads and promises stand where they stood, if still needed. Literals,
//! splats and position queries are made anew in each region that uses them: cheaper than a register over a loop.
//!
//! Folds over one range in one place and pass are one loop ([`crate::fuse`]), made where the first of them is needed, or where the last loop
//! over the range stood.

use crate::fault::Broken;
use crate::forest::{Candidate, Choice, Forest};
use crate::graph::{Graph, Read, combining, pinned};
use crate::hash::{IndexMap, IndexSet};
use crate::language::Head;
use crate::passes::Fused;
use crate::sink;
use crate::skeleton::{Block, Item, Place, Skeleton};
use cranelift_entity::SecondaryMap;
use egg::Id;
use smallvec::SmallVec;
use std::cell::Cell;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::ops::OperandKind;
use tilelift_ir::{Inst, Kernel, Literal, Loc, Op, Region, Type, Value, ValueDef};

/// Looks at operands per class, all in all, before values are computed where they are used instead of where their author had them.
const LOOKS: usize = 64;

/// Ops made anew where they are used.
pub(crate) fn remade(op: Op) -> bool {
    matches!(op, Op::Const | Op::Splat | Op::Iota | Op::ProgramId | Op::NumPrograms | Op::Dim)
}

/// Makes the kernel of a choice.
pub(crate) fn elaborate(input: &Kernel, g: &Graph, s: &Skeleton, forest: &Forest, choice: &Choice) -> Result<Kernel, Broken> {
    let live = Live::new(input, g, s, forest, choice)?;
    let place = placement(input, g, s, forest, choice, &live)?;
    taken(Decision::Placement, || {
        let (all, inside) = (place.iter().flatten().count(), place.iter().flatten().filter(|&&r| r != input.body).count());
        Told::of(format!("{inside} of {all} values are computed in loops and choices"))
    });
    let fused = Fused::new(g, s, forest, choice, &live.class)?;
    let mut out = Kernel::with_capacity(&input.name, input.insts.len(), input.values.len());
    out.hints = input.hints;
    out.positions = input.positions;
    let mut origin: Vec<Option<Inst>> = vec![None; forest.ids.len()];
    for (&id, &inst) in &s.origin {
        origin[forest.at(g, id)].get_or_insert(inst);
    }
    let mut regions = SecondaryMap::new();
    regions[input.body] = Some(out.body);
    let mut e = Emitter {
        input,
        g,
        s,
        forest,
        choice,
        live: &live,
        place: &place,
        fused,
        origin,
        out,
        regions,
        values: forest.ids.iter().map(|_| SmallVec::new()).collect(),
        made: SecondaryMap::new(),
        looks: Cell::new(LOOKS * (1024 + forest.ids.len())),
        pairs: IndexMap::default(),
        named: IndexSet::default(),
        loc: Loc::default(),
    };
    for &p in &input.params {
        let v = e.out.add_param(input.ty(p).clone());
        e.bind(p, input.body, v);
    }
    e.block(&s.body)?;
    e.yields(&s.body)?;
    sink::widening(&mut e.out);
    Ok(e.out)
}

/// What is needed.
struct Live {
    class: Vec<bool>,
    control: IndexSet<Inst>,
    /// Carried values and results of control: (instruction, number).
    slot: IndexSet<(Inst, usize)>,
}

struct Marker<'a> {
    input: &'a Kernel,
    forest: &'a Forest,
    g: &'a Graph,
    items: SecondaryMap<Inst, Option<&'a Item>>,
    owner: SecondaryMap<Region, Option<Inst>>,
    /// The control around control.
    around: SecondaryMap<Inst, Option<Inst>>,
    live: Live,
    work: Vec<usize>,
}

impl Live {
    fn new(input: &Kernel, g: &Graph, s: &Skeleton, forest: &Forest, choice: &Choice) -> Result<Live, Broken> {
        let live = Live { class: vec![false; forest.ids.len()], control: IndexSet::default(), slot: IndexSet::default() };
        let (items, owner) = (SecondaryMap::new(), SecondaryMap::new());
        let mut m = Marker { input, forest, g, items, owner, around: SecondaryMap::new(), live, work: Vec::new() };
        m.register(&s.body);
        m.effects(&s.body);
        s.body.yields.iter().for_each(|&y| m.need(y));
        while let Some(class) = m.work.pop() {
            let c = forest.chosen(choice, class).ok_or(Broken::NoChoice { class: usize::from(forest.ids[class]) })?;
            m.work.extend(c.kids.iter().copied().filter(|&k| !std::mem::replace(&mut m.live.class[k], true)));
            if let Head::Leaf { value, .. } = c.node.head {
                m.leaf(value);
            }
        }
        Ok(m.live)
    }

    fn needs(&self, inst: Inst, n: usize) -> bool {
        self.slot.contains(&(inst, n))
    }
}

impl<'a> Marker<'a> {
    fn register(&mut self, block: &'a Block) {
        for item in &block.items {
            if let Item::Control { inst, blocks, .. } = item {
                self.items[*inst] = Some(item);
                self.around[*inst] = self.owner[block.region];
                for b in blocks {
                    self.owner[b.region] = Some(*inst);
                    self.register(b);
                }
            }
        }
    }

    /// Marks what effects need; true if there are any.
    fn effects(&mut self, block: &'a Block) -> bool {
        let mut any = false;
        for item in &block.items {
            match item {
                Item::Effect { args, .. } => {
                    args.iter().for_each(|&a| self.need(a));
                    any = true;
                }
                Item::Pure { .. } | Item::Anchor { .. } | Item::Folds { .. } => {}
                Item::Control { inst, blocks, .. } => {
                    let mut inner = false;
                    for b in blocks {
                        inner |= self.effects(b);
                    }
                    // A `while` may never end, which is an effect.
                    if inner || self.input.insts[*inst].op == Op::While {
                        self.control(*inst);
                        any = true;
                    }
                }
            }
        }
        any
    }

    fn need(&mut self, id: Id) {
        let class = self.forest.at(self.g, id);
        if !std::mem::replace(&mut self.live.class[class], true) {
            self.work.push(class);
        }
    }

    fn control(&mut self, inst: Inst) {
        if !self.live.control.insert(inst) {
            return;
        }
        let Some(Item::Control { args, blocks, .. }) = self.items[inst] else { return };
        match self.input.insts[inst].op {
            Op::For => args[..3].iter().for_each(|&a| self.need(a)),
            Op::While => self.need(blocks[0].yields[0]),
            // Any result may hang on any operand.
            op if combining(op) => {
                self.live.slot.extend((0..args.len()).map(|n| (inst, n)));
                args.iter().chain(&blocks[0].yields).for_each(|&a| self.need(a));
            }
            _ => self.need(args[0]),
        }
        // The control around it runs, too.
        if let Some(around) = self.around[inst] {
            self.control(around);
        }
    }

    fn leaf(&mut self, value: Value) {
        match self.input.values[value].def {
            ValueDef::KernelParam(_) => {}
            ValueDef::Result(inst, n) => {
                if self.items[inst].is_some() {
                    self.slot(inst, n as usize);
                }
            }
            ValueDef::RegionParam(region, n) => {
                let Some(inst) = self.owner[region] else { return };
                match (self.input.insts[inst].op, n as usize) {
                    (Op::For, 0) => self.control(inst),
                    (op, _) if combining(op) => self.control(inst),
                    (Op::For, n) => self.slot(inst, n - 1),
                    (_, n) => self.slot(inst, n),
                }
            }
        }
    }

    fn slot(&mut self, inst: Inst, n: usize) {
        self.control(inst);
        if !self.live.slot.insert((inst, n)) {
            return;
        }
        let Some(Item::Control { args, blocks, .. }) = self.items[inst] else { return };
        match self.input.insts[inst].op {
            op if combining(op) => {}
            Op::For => [args[3 + n], blocks[0].yields[n]].into_iter().for_each(|a| self.need(a)),
            Op::While => [args[n], blocks[1].yields[n]].into_iter().for_each(|a| self.need(a)),
            _ => blocks.iter().for_each(|b| self.need(b.yields[n])),
        }
    }
}

fn is_pinned(c: &Candidate) -> bool {
    c.node.op().is_some_and(pinned)
}

/// The region in which both are visible.
fn meet(s: &Skeleton, mut a: Region, mut b: Region) -> Region {
    while a != b {
        let (x, y) = (s.places[a].depth, s.places[b].depth);
        if x >= y {
            a = s.places[a].parent.unwrap_or(a);
        }
        if y >= x && a != b {
            b = s.places[b].parent.unwrap_or(b);
        }
    }
    a
}

/// True if what `outer` defines is visible in `inner`.
fn visible(s: &Skeleton, outer: Region, inner: Region) -> bool {
    let mut at = inner;
    while s.places[at].depth > s.places[outer].depth {
        at = s.places[at].parent.unwrap_or(outer);
    }
    at == outer
}

/// The operands of control that its liveness asks for, with the region in which each is used.
fn control_uses(input: &Kernel, live: &Live, inst: Inst, home: Region, args: &[Id], blocks: &[Block], visit: &mut dyn FnMut(Id, Region)) {
    let op = input.insts[inst].op;
    if combining(op) {
        args.iter().for_each(|&a| visit(a, home));
        return blocks[0].yields.iter().for_each(|&y| visit(y, blocks[0].region));
    }
    let carried = if op == Op::For { 3 } else { 0 };
    match op {
        Op::For => args[..3].iter().for_each(|&a| visit(a, home)),
        Op::While => visit(blocks[0].yields[0], blocks[0].region),
        _ => visit(args[0], home),
    }
    for n in 0..input.insts[inst].results.len() {
        if !live.needs(inst, n) {
            continue;
        }
        if op != Op::If {
            visit(args[carried + n], home);
        }
        for b in blocks.iter().skip(usize::from(op == Op::While)) {
            visit(b.yields[n], b.region);
        }
    }
}

fn placement(
    input: &Kernel,
    g: &Graph,
    s: &Skeleton,
    forest: &Forest,
    choice: &Choice,
    live: &Live,
) -> Result<Vec<Option<Region>>, Broken> {
    let mut used: Vec<Option<Region>> = vec![None; forest.ids.len()];
    let join = |used: &mut Vec<Option<Region>>, class: usize, r: Region| {
        used[class] = Some(used[class].map_or(r, |u| meet(s, u, r)));
    };
    // Uses by the skeleton.
    fn visit<'b>(block: &'b Block, live: &Live, f: &mut dyn FnMut(&'b Item, Region)) {
        for item in &block.items {
            f(item, block.region);
            if let Item::Control { inst, blocks, .. } = item
                && live.control.contains(inst)
            {
                blocks.iter().for_each(|b| visit(b, live, f));
            }
        }
    }
    let mut roots = IndexSet::default();
    let mut uses: Vec<(usize, Region)> = Vec::new();
    visit(&s.body, live, &mut |item, region| match item {
        Item::Effect { args, .. } => uses.extend(args.iter().map(|&a| (forest.at(g, a), region))),
        Item::Pure { .. } | Item::Folds { .. } => {}
        Item::Anchor { class, epoch, .. } => {
            let class = forest.at(g, *class);
            if live.class[class]
                && let Some(c) = forest.chosen(choice, class)
                && is_pinned(c)
                && c.node.epoch() == *epoch
            {
                roots.insert(class);
                uses.extend(c.kids.iter().map(|&k| (k, region)));
            }
        }
        Item::Control { inst, args, blocks } => {
            if live.control.contains(inst) {
                control_uses(input, live, *inst, region, args, blocks, &mut |id, r| uses.push((forest.at(g, id), r)));
            }
        }
    });
    uses.extend(s.body.yields.iter().map(|&y| (forest.at(g, y), input.body)));
    for (class, region) in uses {
        roots.insert(class);
        join(&mut used, class, region);
    }
    let roots: Vec<usize> = roots.into_iter().collect();
    let order = forest.order(&choice.of, &roots).ok_or(Broken::Cycle)?;
    let mut place = vec![None; forest.ids.len()];
    for &class in order.iter().rev() {
        let (Some(c), Some(at)) = (forest.chosen(choice, class), used[class]) else { continue };
        let target = match c.node.head {
            Head::Leaf { .. } => continue,
            // In the loop where it is used.
            Head::Op { op, .. } if pinned(op) && g.analysis.floats(&c.node) => s.home(g, 0, g[forest.ids[class]].data.free),
            Head::Op { op, .. } if pinned(op) => continue,
            Head::Op { op, .. } if remade(op) => allowed(s, op, at),
            Head::Op { .. } => hoisted(g, s, forest, class, at),
            Head::Fold { range, .. } | Head::State { range, .. } => {
                let inside = g.analysis.ranges[range as usize].region;
                // Where the loops of the kernel stood: memory may be another where the value is used.
                let mut outside = s.places[inside].parent.unwrap_or(inside);
                if c.state.is_none() {
                    outside = hoisted(g, s, forest, class, meet(s, at, outside));
                }
                place[class] = Some(if c.state.is_some() { inside } else { outside });
                c.kids[..4].iter().for_each(|&k| join(&mut used, k, outside));
                c.kids[4..].iter().for_each(|&k| join(&mut used, k, inside));
                continue;
            }
        };
        place[class] = Some(target);
        c.kids.iter().for_each(|&k| join(&mut used, k, target));
    }
    Ok(place)
}

/// Where an op that is made anew in a region may stand: a combining region holds ops on scalars only.
fn allowed(s: &Skeleton, op: Op, at: Region) -> Region {
    match s.places[at] {
        Place { combines: true, parent: Some(parent), .. } if !op.is_scalar() => parent,
        _ => at,
    }
}

/// From `at` outward, out of every loop in which the class does not change.
fn hoisted(g: &Graph, s: &Skeleton, forest: &Forest, class: usize, at: Region) -> Region {
    let fact = &g[forest.ids[class]].data;
    let early = s.home(g, fact.avail, fact.free);
    let (mut best, mut r) = (at, at);
    while r != early {
        let Some(parent) = s.places[r].parent else { break };
        if s.places[r].repeats {
            best = parent;
        }
        r = parent;
    }
    best
}

/// What instructions with several results are known by: region, op, attributes and operands.
type Pair = (Region, Op, crate::language::AttrsId, SmallVec<[Value; 3]>);

pub(crate) struct Emitter<'a> {
    pub(crate) input: &'a Kernel,
    pub(crate) g: &'a Graph,
    pub(crate) s: &'a Skeleton,
    pub(crate) forest: &'a Forest,
    pub(crate) choice: &'a Choice,
    live: &'a Live,
    pub(crate) place: &'a [Option<Region>],
    pub(crate) fused: Fused,
    origin: Vec<Option<Inst>>,
    pub(crate) out: Kernel,
    /// New regions by old ones.
    pub(crate) regions: SecondaryMap<Region, Option<Region>>,
    /// Values of each class by the old region in which they stand.
    values: Vec<SmallVec<[(Region, Value); 1]>>,
    /// Classes with values in each old region that is open.
    made: SecondaryMap<Region, Vec<u32>>,
    /// Classes that [`Emitter::ready`] may still look at.
    looks: Cell<usize>,
    pairs: IndexMap<Pair, Inst>,
    /// Old values whose names a new value has.
    named: IndexSet<Value>,
    pub(crate) loc: Loc,
}

impl Emitter<'_> {
    /// A new value takes the name of the old one that it stands for; the first, if it is computed in several places.
    pub(crate) fn take_name(&mut self, old: Value, new: Value) {
        if let Some(name) = &self.input.names[old]
            && self.named.insert(old)
        {
            self.out.names[new] = Some(name.clone());
        }
    }

    pub(crate) fn bind(&mut self, old: Value, region: Region, new: Value) {
        self.take_name(old, new);
        if let Some(id) = self.s.class[old] {
            let class = self.forest.at(self.g, id);
            // A leaf that equals something else is bound only where it was chosen.
            if let Some(c) = self.forest.chosen(self.choice, class)
                && matches!(c.node.head, Head::Leaf { value, .. } if value == old)
            {
                self.known(class, region, new);
            }
        }
    }

    pub(crate) fn known(&mut self, class: usize, region: Region, v: Value) {
        self.values[class].push((region, v));
        self.made[region].push(class as u32);
    }

    /// Forgets what stands in a region behind whose end the rest follows.
    pub(crate) fn close(&mut self, region: Region) {
        for class in std::mem::take(&mut self.made[region]) {
            self.values[class as usize].retain(|(r, _)| *r != region);
        }
    }

    pub(crate) fn value(&self, class: usize, region: Region) -> Option<Value> {
        self.values[class].iter().rev().find(|(r, _)| visible(self.s, *r, region)).map(|(_, v)| *v)
    }

    pub(crate) fn append(&mut self, region: Region, inst: Inst, loc: Loc) -> Result<(), Broken> {
        let new = self.regions[region].ok_or(Broken::Closed(region))?;
        self.out.regions[new].insts.push(inst);
        self.out.locs[inst] = loc;
        Ok(())
    }

    /// The value of a class in a region, computed there or further out if it is not yet.
    fn demand(&mut self, id: Id, region: Region) -> Result<Value, Broken> {
        let class = self.forest.at(self.g, id);
        self.demand_class(class, region)
    }

    pub(crate) fn demand_class(&mut self, class: usize, region: Region) -> Result<Value, Broken> {
        let mut stack: SmallVec<[(usize, Region, usize); 8]> = SmallVec::new();
        let (forest, choice) = (self.forest, self.choice);
        let open = |e: &Self, class: usize, region: Region| -> Result<(usize, Region, usize), Broken> {
            let c = forest.chosen(choice, class).ok_or(Broken::NoChoice { class: usize::from(forest.ids[class]) })?;
            let target = match c.node.head {
                Head::Op { op, .. } if remade(op) => allowed(e.s, op, region),
                Head::Op { op, .. } if !pinned(op) || e.g.analysis.floats(&c.node) => e.place[class].ok_or(Broken::NoPlace(op))?,
                Head::Op { op, .. } => return Err(Broken::Early(op)),
                Head::Leaf { value, .. } => return Err(Broken::Hidden(value)),
                Head::Fold { .. } | Head::State { .. } => return Err(Broken::State),
            };
            Ok((class, target, 0))
        };
        if let Some(v) = self.value(class, region) {
            return Ok(v);
        }
        let fold = |class: usize| forest.chosen(choice, class).is_some_and(|c| matches!(c.node.head, Head::Fold { .. }));
        if fold(class) {
            self.fold(class)?;
        } else {
            stack.push(open(self, class, region)?);
        }
        while let Some(&(at, target, next)) = stack.last() {
            let c = forest.chosen(choice, at).ok_or(Broken::NoChoice { class: usize::from(forest.ids[at]) })?;
            match c.kids.get(next) {
                Some(&kid) => {
                    let top = stack.len() - 1;
                    stack[top].2 += 1;
                    if self.value(kid, target).is_none() && fold(kid) {
                        self.fold(kid)?;
                    } else if self.value(kid, target).is_none() {
                        stack.push(open(self, kid, target)?);
                    }
                }
                None => {
                    self.emit(at, c, target)?;
                    stack.pop();
                }
            }
        }
        self.value(class, region).ok_or(Broken::Unseen { class: usize::from(self.forest.ids[class]) })
    }

    /// Appends the chosen node of a class, whose operands are there, to a region.
    fn emit(&mut self, class: usize, c: &Candidate, region: Region) -> Result<(), Broken> {
        let Head::Op { op, present, attrs, ty, result, .. } = c.node.head else { return Err(Broken::Leaf) };
        let mut args = SmallVec::<[Value; 3]>::new();
        for &k in &c.kids {
            args.push(self.value(k, region).ok_or(Broken::Lacks(op))?);
        }
        let pool = &self.g.analysis.pool;
        let ty = pool.ty(ty);
        let loc = self.origin[class].map_or(self.loc, |i| self.input.locs[i]);
        let count = op.info().results();
        let inst = if count == 1 {
            let inst = self.out.add_inst(op, &args, present, pool.attrs(attrs), &[], std::slice::from_ref(ty));
            self.append(region, inst, loc)?;
            inst
        } else {
            let key: Pair = (region, op, attrs, args.clone());
            match self.pairs.get(&key) {
                Some(&inst) => inst,
                None => {
                    let types: SmallVec<[Type; 2]> = std::iter::repeat_n(ty.clone(), count).collect();
                    let inst = self.out.add_inst(op, &args, present, pool.attrs(attrs), &[], &types);
                    self.append(region, inst, loc)?;
                    self.pairs.insert(key, inst);
                    inst
                }
            }
        };
        let v = self.out.insts[inst].results[usize::from(result)];
        self.known(class, region, v);
        if let Some(i) = self.origin[class]
            && let [old] = self.input.insts[i].results[..]
        {
            self.take_name(old, v);
        }
        Ok(())
    }

    /// True if all that a class needs is there, or can be computed from what is, as far as that is quickly seen.
    fn ready(&self, class: usize, region: Region) -> bool {
        // Mostly the operands stand there.
        let chosen = self.forest.chosen(self.choice, class);
        if chosen.is_some_and(|c| c.kids.iter().all(|&k| self.value(k, region).is_some())) {
            return true;
        }
        let (mut seen, mut work) = (IndexSet::default(), vec![class]);
        while let Some(at) = work.pop() {
            let Some(left) = self.looks.get().checked_sub(1) else { return false };
            self.looks.set(left);
            if self.value(at, region).is_some() || !seen.insert(at) {
                continue;
            }
            match self.forest.chosen(self.choice, at) {
                Some(c) if self.anywhere(c) => work.extend(&c.kids),
                Some(_) | None => return false,
            }
        }
        true
    }

    /// True for what stands where it is used.
    pub(crate) fn anywhere(&self, c: &Candidate) -> bool {
        match c.node.head {
            Head::Leaf { value, .. } => self.g.analysis.leaf_range[value].is_some(),
            Head::Op { op, .. } => !pinned(op) || self.g.analysis.floats(&c.node),
            Head::Fold { .. } | Head::State { .. } => true,
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), Broken> {
        let region = block.region;
        for item in &block.items {
            match item {
                Item::Effect { inst, args } => self.effect(*inst, args, region)?,
                Item::Pure { classes } => {
                    for &id in classes {
                        let class = self.forest.at(self.g, id);
                        // A value that belongs here, and whose reads have been made, is computed where its author did.
                        if self.live.class[class] && self.place[class] == Some(region) && self.ready(class, region) {
                            self.demand_class(class, region)?;
                        }
                    }
                }
                Item::Anchor { inst, class, epoch } => {
                    let class = self.forest.at(self.g, *class);
                    self.loc = self.input.locs[*inst];
                    let c = self.forest.chosen(self.choice, class);
                    if let Some(c) = c
                        && self.live.class[class]
                        && is_pinned(c)
                        && c.node.epoch() == *epoch
                        && self.value(class, region).is_none()
                    {
                        for &k in &c.kids {
                            self.demand_class(k, region)?;
                        }
                        self.emit(class, c, region)?;
                    }
                }
                Item::Folds { inst, range } => {
                    if self.g.analysis.ranges[*range as usize].loops.last() == Some(inst) {
                        self.loc = self.input.locs[*inst];
                        self.folds(*range)?;
                    }
                }
                Item::Control { inst, args, blocks } => {
                    if self.live.control.contains(inst) {
                        self.control(*inst, args, blocks, region)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What a part of a program hands on to what is behind it; a program's body ends without.
    fn yields(&mut self, body: &Block) -> Result<(), Broken> {
        let Some(end) = body.end else { return Ok(()) };
        let mut yields = SmallVec::<[Value; 8]>::new();
        for &id in &body.yields {
            yields.push(self.demand(id, body.region)?);
        }
        let made = self.out.add_inst(Op::Yield, &yields, 0, &[], &[], &[]);
        self.append(body.region, made, self.input.locs[end])
    }

    fn effect(&mut self, inst: Inst, args: &[Id], region: Region) -> Result<(), Broken> {
        let d = &self.input.insts[inst];
        self.loc = self.input.locs[inst];
        let (kept, present) = self.without_true_mask(inst, args);
        let mut new = SmallVec::<[Value; 6]>::new();
        for id in kept {
            new.push(self.demand(id, region)?);
        }
        let types: SmallVec<[Type; 1]> = d.results.iter().map(|&r| self.input.ty(r).clone()).collect();
        let made = self.out.add_inst(d.op, &new, present, &d.attrs, &[], &types);
        self.append(region, made, self.input.locs[inst])?;
        for (n, &r) in d.results.iter().enumerate() {
            let v = self.out.insts[made].results[n];
            self.bind(r, region, v);
        }
        Ok(())
    }

    /// The operands but a mask that is true everywhere.
    fn without_true_mask(&self, inst: Inst, args: &[Id]) -> (SmallVec<[Id; 6]>, u8) {
        let d = &self.input.insts[inst];
        let (mut kept, mut present) = (SmallVec::from_slice(args), d.present);
        let words: SmallVec<[usize; 2]> = (0..d.op.info().operands.len())
            .filter(|&i| d.op.info().operands[i].kind == OperandKind::Keyword && d.present >> i & 1 == 1)
            .collect();
        for (n, &word) in words.iter().enumerate() {
            let at = args.len() - words.len() + n;
            if d.op.info().operands[word].name == "mask" && self.g.fact(args[at]).value == Some(Literal::Int(1)) {
                kept.remove(at);
                present &= !(1 << word);
            }
        }
        (kept, present)
    }

    fn control(&mut self, inst: Inst, args: &[Id], blocks: &[Block], region: Region) -> Result<(), Broken> {
        let d = &self.input.insts[inst];
        let loc = self.input.locs[inst];
        self.loc = loc;
        let carried = if d.op == Op::For { 3 } else { 0 };
        let slots: SmallVec<[usize; 8]> = (0..d.results.len()).filter(|&n| self.live.needs(inst, n)).collect();
        let mut operands = SmallVec::<[Value; 8]>::new();
        let fixed = match d.op {
            Op::For => 3,
            Op::If => 1,
            op if combining(op) => args.len(),
            _ => 0,
        };
        for &a in &args[..fixed] {
            operands.push(self.demand(a, region)?);
        }
        if d.op != Op::If && !combining(d.op) {
            for &n in &slots {
                operands.push(self.demand(args[carried + n], region)?);
            }
        }
        let mut regions = SmallVec::<[Region; 2]>::new();
        for b in blocks {
            let new = self.out.add_region();
            self.regions[b.region] = Some(new);
            regions.push(new);
            for (n, &p) in self.input.regions[b.region].params.iter().enumerate() {
                let slot = if d.op == Op::For { n.checked_sub(1) } else { Some(n) };
                if combining(d.op) || slot.is_none_or(|n| slots.contains(&n)) {
                    let v = self.out.add_region_param(new, self.input.ty(p).clone());
                    self.bind(p, b.region, v);
                }
            }
            self.block(b)?;
            let condition = d.op == Op::While && regions.len() == 1;
            let wanted: SmallVec<[Id; 8]> =
                if condition { SmallVec::from_slice(&b.yields) } else { slots.iter().map(|&n| b.yields[n]).collect() };
            let mut yields = SmallVec::<[Value; 8]>::new();
            for id in wanted {
                yields.push(self.demand(id, b.region)?);
            }
            let end = self.out.add_inst(Op::Yield, &yields, 0, &[], &[], &[]);
            let end_loc = b.end.map_or(Loc::default(), |e| self.input.locs[e]);
            self.append(b.region, end, end_loc)?;
            self.close(b.region);
        }
        let types: SmallVec<[Type; 4]> = slots.iter().map(|&n| self.input.ty(d.results[n]).clone()).collect();
        let made = self.out.add_inst(d.op, &operands, d.present, &d.attrs, &regions, &types);
        self.append(region, made, loc)?;
        for (at, &n) in slots.iter().enumerate() {
            let v = self.out.insts[made].results[at];
            self.bind(d.results[n], region, v);
        }
        Ok(())
    }
}
