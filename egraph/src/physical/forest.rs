//! The graph with dense numbers and prices: what extraction works on.
//!
//! ```text
//! class = a slot of the graph, or an instruction that has to run      item = what is paid once: a run of an instruction, or a conversion
//! ways:      an item and the classes it needs                          controls: the values that a loop or a choice carries together
//! converts:  an item and the class it starts from
//! ```
//!
//! An item costs what the cost model says times the trips of the region that it stands in: a run stands where its instruction does, a
//! conversion where its value is made.

use super::graph::{LayoutGraph, LayoutHead, LayoutId};
use super::problem::{CostModel, InstLayouts, Problem, Solution, Source, Variant};
use cranelift_entity::SecondaryMap;
use egg::Id;
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap, HashSet};
use tilelift_ir::layout::Axis;
use tilelift_ir::{Inst, Kernel, Literal, Op, Region, Value, ValueDef, iterations};

/// Rounds of a loop whose bounds are not known.
const TRIPS: u64 = 16;
/// The heaviest weight of a region.
const HEAVIEST: u64 = 1 << 24;

/// A way to have a class.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) item: u32,
    pub(crate) kids: SmallVec<[u32; 4]>,
}

/// What a choice takes for a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Pick {
    #[default]
    None,
    Given,
    Way(u32),
    Convert(u32),
}

/// A value in a layout, or an instruction that has to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayoutClass {
    pub(crate) value: Option<Value>,
    pub(crate) layout: LayoutId,
    pub(crate) ways: Vec<Way>,
    /// Classes of the same value to convert from, and the items.
    pub(crate) converts: Vec<(u32, u32)>,
    /// Carried by that control.
    pub(crate) given: Option<u32>,
    /// Uses of the value.
    pub(crate) fanout: u64,
}

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LayoutItem {
    InstLayouts(u32),
    Convert(u32, u32),
}

/// Values that one layout is chosen for.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// The layouts that all of them may have, that of the plain assignment first.
    pub(crate) layouts: Vec<LayoutId>,
    /// Values that have to be had in it: initial values and yields.
    pub(crate) wants: Vec<Value>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayoutForest {
    pub(crate) classes: Vec<LayoutClass>,
    /// Classes, operands first: those of values in program order, then those of instructions.
    pub(crate) order: Vec<u32>,
    /// Per value its classes.
    pub(crate) of: SecondaryMap<Value, SmallVec<[u32; 6]>>,
    pub(crate) items: Vec<LayoutItem>,
    pub(crate) cost: Vec<u64>,
    /// Classes of instructions that have to run.
    pub(crate) done: Vec<(u32, Inst)>,
    pub(crate) controls: Vec<Control>,
    /// Registers of the tile, per class.
    pub(crate) registers: Vec<[u64; 2]>,
    /// Layouts of several controls that go together: runs without conversions lead from one to the other. Per set the controls with their layouts.
    pub(crate) together: Vec<Vec<(usize, LayoutId)>>,
    /// What conversions have been looked at closely: layouts and bytes of an element.
    exact: HashSet<Trip>,
}

/// A conversion: from, to, bytes of an element.
type Trip = (LayoutId, LayoutId, u32);

/// A choice: a layout per control, a way per class that is needed, the cost of all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LayoutChoice {
    pub(crate) controls: Vec<LayoutId>,
    pub(crate) picks: Vec<Pick>,
    pub(crate) total: u64,
}

/// Where regions stand: per region how often it runs.
pub(crate) fn weights(kernel: &Kernel) -> SecondaryMap<Region, u64> {
    let mut out = SecondaryMap::with_default(1);
    fn visit(kernel: &Kernel, r: Region, here: u64, out: &mut SecondaryMap<Region, u64>) {
        out[r] = here;
        for &i in &kernel.regions[r].insts {
            let d = &kernel.insts[i];
            let rounds = match d.op {
                Op::For => trips(kernel, &d.args),
                Op::While => TRIPS,
                _ => 1,
            };
            d.regions.iter().for_each(|&inner| visit(kernel, inner, here.saturating_mul(rounds).min(HEAVIEST), out));
        }
    }
    visit(kernel, kernel.body, 1, &mut out);
    out
}

fn trips(kernel: &Kernel, args: &[Value]) -> u64 {
    let known = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(x), _)) => Some(x),
        _ => None,
    };
    match (known(args[0]), known(args[1]), known(args[2])) {
        (Some(a), Some(b), Some(_)) if b <= a => 1,
        (Some(a), Some(b), Some(s)) => iterations(a, b, s).unwrap_or(TRIPS),
        _ => TRIPS,
    }
}

/// The region of each instruction.
pub(crate) fn regions(kernel: &Kernel) -> SecondaryMap<Inst, Region> {
    let mut out = SecondaryMap::with_default(kernel.body);
    for (r, data) in kernel.regions.iter() {
        data.insts.iter().for_each(|&i| out[i] = r);
    }
    out
}

/// How often the place runs where a value is made.
fn place(kernel: &Kernel, weight: &SecondaryMap<Region, u64>, region: &SecondaryMap<Inst, Region>, v: Value) -> u64 {
    match kernel.values[v].def {
        ValueDef::Result(i, _) => weight[region[i]],
        ValueDef::RegionParam(r, _) => weight[r],
        ValueDef::KernelParam(_) => 1,
    }
}

/// Positions of values in program order; parameters of a region stand in front of it.
pub(crate) fn positions(kernel: &Kernel) -> (SecondaryMap<Inst, u32>, SecondaryMap<Value, u32>) {
    let (mut insts, mut values) = (SecondaryMap::new(), SecondaryMap::new());
    fn visit(kernel: &Kernel, r: Region, at: &mut u32, insts: &mut SecondaryMap<Inst, u32>, values: &mut SecondaryMap<Value, u32>) {
        for &p in &kernel.regions[r].params {
            values[p] = *at;
        }
        *at += 1;
        for &i in &kernel.regions[r].insts {
            kernel.insts[i].regions.iter().for_each(|&inner| visit(kernel, inner, at, insts, values));
            insts[i] = *at;
            kernel.insts[i].results.iter().for_each(|&v| values[v] = *at);
            *at += 1;
        }
    }
    visit(kernel, kernel.body, &mut 1, &mut insts, &mut values);
    (insts, values)
}

/// The sets of [`LayoutForest::together`]: classes that control, or runs of instructions of which `tied` holds, tie together.
fn together(f: &LayoutForest, tied: &dyn Fn(u32) -> bool) -> Vec<Vec<(usize, LayoutId)>> {
    let mut lead: Vec<u32> = (0..f.classes.len() as u32).collect();
    fn find(lead: &mut [u32], mut c: u32) -> u32 {
        while lead[c as usize] != c {
            lead[c as usize] = lead[lead[c as usize] as usize];
            c = lead[c as usize];
        }
        c
    }
    let join = |lead: &mut [u32], a: u32, b: u32| {
        let (a, b) = (find(lead, a), find(lead, b));
        lead[a.max(b) as usize] = a.min(b);
    };
    for (c, class) in f.classes.iter().enumerate().filter(|(_, class)| class.value.is_some()) {
        for way in class.ways.iter().filter(|w| tied(w.item)) {
            way.kids.iter().for_each(|&k| join(&mut lead, c as u32, k));
        }
    }
    let mut given: HashMap<(u32, LayoutId), Vec<u32>> = HashMap::new();
    for (c, class) in f.classes.iter().enumerate() {
        class.given.into_iter().for_each(|n| given.entry((n, class.layout)).or_default().push(c as u32));
    }
    let mut sets: BTreeMap<u32, Vec<(usize, LayoutId)>> = BTreeMap::new();
    for (n, control) in f.controls.iter().enumerate() {
        for &l in &control.layouts {
            let carried = given.get(&(n as u32, l)).into_iter().flatten().copied();
            let classes: Vec<u32> = control.wants.iter().filter_map(|&v| f.class(v, l)).chain(carried).collect();
            let Some((&first, rest)) = classes.split_first() else { continue };
            rest.iter().for_each(|&c| join(&mut lead, first, c));
        }
    }
    for (n, control) in f.controls.iter().enumerate() {
        for &l in &control.layouts {
            let Some(c) = control.wants.iter().find_map(|&v| f.class(v, l)) else { continue };
            let set = sets.entry(find(&mut lead, c)).or_default();
            if set.last().is_none_or(|last| last.0 != n) {
                set.push((n, l));
            }
        }
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

impl LayoutForest {
    pub(crate) fn new(g: &LayoutGraph<'_>, problem: &Problem<'_>, model: &dyn CostModel) -> LayoutForest {
        let (cx, kernel) = (&g.analysis, problem.kernel);
        let (weight, region) = (weights(kernel), regions(kernel));
        let mut f = LayoutForest::default();
        let mut at: HashMap<Id, u32> = HashMap::new();
        for (n, s) in cx.slots.iter().enumerate() {
            at.insert(g.find(s.id), n as u32);
            f.of[s.value].push(n as u32);
            let readers = cx.touching[s.value].iter().filter(|&&i| kernel.insts[i].args.contains(&s.value)).count().max(1);
            f.classes.push(LayoutClass { value: Some(s.value), layout: s.layout, fanout: readers as u64, ..LayoutClass::default() });
            let elem = kernel.ty(s.value).elem();
            // A map of memory takes no register.
            let layout = cx.layout(s.layout);
            let held = if layout.in_memory() { 0 } else { layout.size(Axis::Reg) };
            let bytes = u64::from(held) * u64::from(elem.bytes());
            f.registers.push(if held == 0 { [0; 2] } else { model.held(s.value, layout, bytes.div_ceil(4)) });
        }
        for (k, &(inst, id)) in cx.done.iter().enumerate() {
            let n = (cx.slots.len() + k) as u32;
            at.insert(g.find(id), n);
            f.done.push((n, inst));
            f.classes.push(LayoutClass { fanout: 1, ..LayoutClass::default() });
            f.registers.push([0; 2]);
        }
        // A run that the machine refuses is no item.
        let mut run_item: Vec<Option<u32>> = Vec::with_capacity(cx.runs.len());
        for (n, (key, _)) in cx.runs.iter().enumerate() {
            let cost = model.run(key.inst, &cx.run(key)).map(|c| c.saturating_mul(weight[region[key.inst]]));
            run_item.push(cost.map(|c| f.add_item(LayoutItem::InstLayouts(n as u32), c)));
        }
        let mut prices: HashMap<Trip, Option<u64>> = HashMap::new();
        for n in 0..f.classes.len() {
            let id = if n < cx.slots.len() { cx.slots[n].id } else { cx.done[n - cx.slots.len()].1 };
            for node in &g[g.find(id)].nodes {
                match node.head {
                    LayoutHead::Slot(_) | LayoutHead::Done(_) | LayoutHead::Given(_) => {}
                    LayoutHead::Run(run, _) => {
                        let Some(item) = run_item[run as usize] else { continue };
                        let kids = node.kids.iter().map(|&k| at[&g.find(k)]).collect();
                        f.classes[n].ways.push(Way { item, kids });
                    }
                    LayoutHead::Convert(_) => {
                        let from = at[&g.find(node.kids[0])];
                        let Some(v) = f.classes[n].value else { continue };
                        let (a, b) = (f.classes[from as usize].layout, f.classes[n].layout);
                        let elem = kernel.ty(v).elem();
                        let price = prices.entry((a, b, elem.bytes())).or_insert_with(|| model.convert(cx.layout(a), cx.layout(b), elem));
                        // A conversion is never quite free: of equal programs the one with fewer.
                        let Some(price) = *price else { continue };
                        let item = f.add_item(
                            LayoutItem::Convert(from, n as u32),
                            price.saturating_add(1).saturating_mul(place(kernel, &weight, &region, v)),
                        );
                        f.classes[n].converts.push((from, item));
                    }
                }
            }
            f.classes[n].ways.sort_by_key(|w| w.item);
            f.classes[n].converts.sort_unstable();
        }
        f.add_controls(cx, kernel, problem);
        let tied = |item: u32| match f.items[item as usize] {
            LayoutItem::InstLayouts(run) => cx.runs.get_index(run as usize).is_some_and(|(key, _)| !cx.fixed[key.inst]),
            LayoutItem::Convert(..) => false,
        };
        f.together = together(&f, &tied);
        let (_, positions) = positions(kernel);
        f.order = (0..f.classes.len() as u32).collect();
        f.order.sort_by_key(|&c| (f.classes[c as usize].value.map_or(u32::MAX, |v| positions[v]), c));
        f
    }

    /// Looks closely at the conversions that a choice takes. True if a price changed.
    pub(crate) fn correct(&mut self, g: &LayoutGraph<'_>, problem: &Problem<'_>, model: &dyn CostModel, choice: &LayoutChoice) -> bool {
        let Some(needed) = self.needed(&choice.controls, &choice.picks) else { return false };
        let cx = &g.analysis;
        let trip = |f: &LayoutForest, item: u32| match f.items[item as usize] {
            LayoutItem::Convert(from, to) => {
                let (a, b) = (&f.classes[from as usize], &f.classes[to as usize]);
                b.value.map(|v| (v, (a.layout, b.layout, problem.kernel.ty(v).elem().bytes())))
            }
            LayoutItem::InstLayouts(_) => None,
        };
        let mut news: HashMap<Trip, u64> = HashMap::new();
        for item in self.taken(&needed, &choice.picks) {
            let Some((v, key)) = trip(self, item) else { continue };
            if self.exact.insert(key)
                && let Some(price) = model.convert_exactly(cx.layout(key.0), cx.layout(key.1), problem.kernel.ty(v).elem())
            {
                news.insert(key, price);
            }
        }
        let (weight, region) = (weights(problem.kernel), regions(problem.kernel));
        let mut changed = false;
        for item in 0..self.items.len() as u32 {
            let Some((v, key)) = trip(self, item) else { continue };
            let Some(price) = news.get(&key) else { continue };
            let cost = price.saturating_add(1).saturating_mul(place(problem.kernel, &weight, &region, v));
            changed |= cost != self.cost[item as usize];
            self.cost[item as usize] = cost;
        }
        changed
    }

    /// Prices that mean nothing.
    pub(crate) fn shuffle(&mut self, seed: u64) {
        let mut state = seed;
        for c in &mut self.cost {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *c = 1 + (state >> 40) % 1000;
        }
    }

    fn add_item(&mut self, item: LayoutItem, cost: u64) -> u32 {
        self.items.push(item);
        self.cost.push(cost);
        self.items.len() as u32 - 1
    }

    fn add_controls(&mut self, cx: &super::graph::LayoutContext<'_>, kernel: &Kernel, problem: &Problem<'_>) {
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            for (k, &r) in d.results.iter().enumerate() {
                let Some(base) = &problem.base[r] else { continue };
                let (members, wants): (Vec<Value>, Vec<Value>) = match d.op {
                    Op::For => {
                        let body = d.regions[0];
                        (vec![kernel.regions[body].params[k + 1], r], vec![d.args[3 + k], kernel.yields(body)[k]])
                    }
                    Op::While => {
                        let params = d.regions.iter().map(|&r| kernel.regions[r].params[k]);
                        (params.chain([r]).collect(), vec![d.args[k], kernel.yields(d.regions[1])[k]])
                    }
                    Op::If => (vec![r], d.regions.iter().map(|&r| kernel.yields(r)[k]).collect()),
                    _ => continue,
                };
                let everywhere = |l: LayoutId| members.iter().chain(&wants).all(|&v| cx.find(v, l).is_some());
                let first = cx.layouts.get_index_of(base).map(|l| l as LayoutId);
                let mut layouts: Vec<LayoutId> = first.filter(|&l| everywhere(l)).into_iter().collect();
                let pinned = members.iter().any(|&v| cx.pinned[v]);
                for &s in cx.of[r].iter().filter(|_| !pinned) {
                    let l = cx.slots[s as usize].layout;
                    if everywhere(l) && !layouts.contains(&l) {
                        layouts.push(l);
                    }
                }
                let control = self.controls.len() as u32;
                for v in members {
                    for &c in &cx.of[v] {
                        self.classes[c as usize].given = Some(control);
                    }
                }
                self.controls.push(Control { layouts, wants });
            }
        });
    }

    /// The class of a value in a layout.
    pub(crate) fn class(&self, v: Value, l: LayoutId) -> Option<u32> {
        self.of[v].iter().copied().find(|&c| self.classes[c as usize].layout == l)
    }

    /// What the program needs: instructions that have to run, and what control carries.
    pub(crate) fn roots(&self, controls: &[LayoutId]) -> Option<Vec<u32>> {
        let mut roots: Vec<u32> = self.done.iter().map(|d| d.0).collect();
        for (c, &l) in self.controls.iter().zip(controls) {
            for &v in &c.wants {
                roots.push(self.class(v, l)?);
            }
        }
        Some(roots)
    }

    /// The items by which a class is made, if its value has other classes.
    pub(crate) fn items_of(&self, c: u32) -> Vec<u32> {
        let class = &self.classes[c as usize];
        if class.value.is_none_or(|v| self.of[v].len() < 2) {
            return Vec::new();
        }
        class.ways.iter().map(|w| w.item).chain(class.converts.iter().map(|c| c.1)).collect()
    }

    /// The classes that the roots need; `None` if one has no way, or ways in a circle.
    pub(crate) fn needed(&self, controls: &[LayoutId], picks: &[Pick]) -> Option<Vec<bool>> {
        let mut state = vec![0u8; self.classes.len()];
        for root in self.roots(controls)? {
            self.visit(root, controls, picks, &mut state)?;
        }
        Some(state.into_iter().map(|s| s == 2).collect())
    }

    fn visit(&self, c: u32, controls: &[LayoutId], picks: &[Pick], state: &mut [u8]) -> Option<()> {
        let mut stack = Vec::new();
        if self.open(c, controls, picks, state)? {
            stack.push((c, 0));
        }
        while let Some((c, next)) = stack.last_mut() {
            let class = &self.classes[*c as usize];
            let kid = match picks[*c as usize] {
                Pick::None | Pick::Given => None,
                Pick::Way(w) => class.ways.get(w as usize)?.kids.get(*next).copied(),
                Pick::Convert(x) => Some(class.converts.get(x as usize)?.0).filter(|_| *next == 0),
            };
            *next += 1;
            match kid {
                Some(k) if self.open(k, controls, picks, state)? => stack.push((k, 0)),
                Some(_) => {}
                None => {
                    state[*c as usize] = 2;
                    stack.pop();
                }
            }
        }
        Some(())
    }

    /// Begins a class. True if its operands are to be visited, false if that is done; `None` if it is among its own operands, or has no way.
    fn open(&self, c: u32, controls: &[LayoutId], picks: &[Pick], state: &mut [u8]) -> Option<bool> {
        match state[c as usize] {
            2 => return Some(false),
            1 => return None,
            _ => state[c as usize] = 1,
        }
        let class = &self.classes[c as usize];
        match picks[c as usize] {
            Pick::None => None,
            Pick::Given => (controls[class.given? as usize] == class.layout).then_some(true),
            Pick::Way(_) | Pick::Convert(_) => Some(true),
        }
    }

    /// The items that a choice takes, each once.
    pub(crate) fn taken(&self, needed: &[bool], picks: &[Pick]) -> Vec<u32> {
        let mut items: Vec<u32> = Vec::new();
        for (n, class) in self.classes.iter().enumerate().filter(|(n, _)| needed[*n]) {
            match picks[n] {
                Pick::None | Pick::Given => {}
                Pick::Way(w) => items.push(class.ways[w as usize].item),
                Pick::Convert(x) => items.push(class.converts[x as usize].1),
            }
        }
        items.sort_unstable();
        items.dedup();
        items
    }

    /// The cost of a choice from scratch.
    pub(crate) fn total(&self, controls: &[LayoutId], picks: &[Pick]) -> Option<u64> {
        let needed = self.needed(controls, picks)?;
        Some(self.taken(&needed, picks).iter().fold(0u64, |sum, &u| sum.saturating_add(self.cost[u as usize])))
    }

    /// Checks a choice: everything that is needed is available without a circle, control carries what it is chosen to, the cost is
    /// the stated one.
    pub(crate) fn check(&self, choice: &LayoutChoice) -> Result<(), String> {
        if choice.controls.len() != self.controls.len() || choice.picks.len() != self.classes.len() {
            return Err("the choice is of another program".into());
        }
        if let Some(n) = (0..self.controls.len()).find(|&n| !self.controls[n].layouts.contains(&choice.controls[n])) {
            return Err(format!("control {n} can't carry layout {}", choice.controls[n]));
        }
        match self.total(&choice.controls, &choice.picks) {
            None => Err("the choice has a circle or misses a class".into()),
            Some(t) if t != choice.total => Err(format!("the choice costs {t}, not {}", choice.total)),
            Some(_) => Ok(()),
        }
    }

    /// The choice in terms of the kernel.
    pub(crate) fn solution(&self, g: &LayoutGraph<'_>, choice: &LayoutChoice) -> Solution {
        let cx = &g.analysis;
        let mut out = Solution::default();
        let Some(needed) = self.needed(&choice.controls, &choice.picks) else { return out };
        let mut number: HashMap<u32, usize> = HashMap::new();
        for &item in &self.taken(&needed, &choice.picks) {
            let LayoutItem::InstLayouts(n) = self.items[item as usize] else { continue };
            let Some((key, _)) = cx.runs.get_index(n as usize) else { continue };
            let list = &mut out.runs[key.inst];
            number.insert(item, list.len());
            let run: InstLayouts = cx.run(key);
            list.push(run);
        }
        for (v, classes) in self.of.iter() {
            let mut list: Vec<(u32, Variant)> = Vec::new();
            let here = |c: &u32| needed[*c as usize];
            for &c in classes.iter().filter(|c| here(c)) {
                let class = &self.classes[c as usize];
                let (source, cost) = match choice.picks[c as usize] {
                    Pick::Given => (Source::Given, 0),
                    Pick::Way(w) => {
                        let item = class.ways[w as usize].item;
                        (Source::Run(number.get(&item).copied().unwrap_or(0)), self.cost[item as usize])
                    }
                    Pick::None | Pick::Convert(_) => continue,
                };
                let rule = cx.slots[c as usize].rule;
                list.push((c, Variant { layout: cx.layout(class.layout).clone(), source, cost, rule }));
            }
            // The first way in which an instruction runs makes the value itself.
            list.sort_by_key(|(_, x)| match x.source {
                Source::Run(n) => n,
                Source::Given | Source::Convert(_) => 0,
            });
            let made = list.len();
            for &c in classes.iter().filter(|c| here(c)) {
                let class = &self.classes[c as usize];
                let Pick::Convert(x) = choice.picks[c as usize] else { continue };
                let (from, item) = class.converts[x as usize];
                let Some(at) = list[..made].iter().position(|(f, _)| *f == from) else { continue };
                let rule = cx.slots[c as usize].rule;
                let layout = cx.layout(class.layout).clone();
                list.push((c, Variant { layout, source: Source::Convert(at), cost: self.cost[item as usize], rule }));
            }
            if !list.is_empty() {
                out.values[v] = list.into_iter().map(|(_, x)| x).collect();
            }
        }
        out
    }
}
