//! The order of a step that computes between its products and does not reach into the next one: a product begins as soon as its operands
//! are there, and is waited for where somebody looks at it.
//!
//! ```text
//! written     S = dot ─ P = exp S ─ T = dot ─ U = P * T ─ V += dot P ─ W += dot U
//! ordered     begin S, T ─ wait S ─ P ─ begin V ─ wait T ─ U ─ begin W ─ wait V, W
//! late V, W   begin S ─ wait V, W of the step before │ wait S ─ begin T ─ P ─ begin V ─ wait T ─ U ─ begin W
//!
//! written     S = dot ─ T = dot + S ─ P = exp T
//! ordered     begin S ─ begin T, which adds to what S is adding to ─ wait T ─ P
//! ```
//!
//! At the bar the written loop goes round. An assembler does not follow round a loop what lanes read: there all products are waited for, or only
//! those run that nobody in the loop looks at:
//!
//! ```text
//! late V, W   begin S ─ wait V, W of the step before ─ begin T ─ wait S ─ P ─ begin V ─ wait T │ U ─ begin W
//! ```
//!
//! What is ready keeps the order of the kernel, except for what needs no product (loads, above all): it comes in front of the wait for the
//! products that it meets, not sooner, since it takes registers. Everything that touches memory that the kernel writes keeps its order.

use super::late_products::Late;
use super::overlap::is_zero;
use super::products::accumulates;
use super::replay::needs;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value, ValueDef};
use tilelift_lane::hash::{Map, Set};

/// A part of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepPart {
    /// A product begins.
    Begin(Inst),
    /// It is over; so many that began later may still run.
    Wait(Inst, u32),
    /// Lanes compute it.
    Compute(Inst),
    /// A product of the step before is over; so many that began later may still run.
    WaitBefore(Inst, u32),
    /// Lanes compute what looks at products of the step before.
    After,
    /// Nothing is left of the step before.
    Cut,
}

/// What a step consists of.
struct StepOrder<'a> {
    kernel: &'a Kernel,
    /// What ends in the next step.
    late: Option<&'a Late>,
    /// What each needs of the products of the step before.
    needs_before: BTreeMap<Inst, BTreeSet<Inst>>,
    /// Products of the step before that are not over, in order. They began in front of all others.
    before: Vec<Inst>,
    /// What looks at products of the step before is not done yet.
    after: bool,
    /// Something of the step before is left, or the cut behind it.
    reaches_back: bool,
    /// All products of this step are waited for where nothing is left of the step before.
    drains: bool,
    /// What is done, in program order.
    todo: Vec<Inst>,
    /// Where each of it stands there.
    places: Map<Inst, usize>,
    /// What each needs of what is done in the step.
    needs: BTreeMap<Inst, BTreeSet<Inst>>,
    /// The product to whose accumulator one adds that nobody else looks at: that one has begun.
    adds_to: BTreeMap<Inst, Inst>,
    /// What needs no product: it is done where it is wanted.
    free: BTreeSet<Inst>,
    /// Products that have begun and are not over, in order.
    running: Vec<Inst>,
    done: BTreeSet<Inst>,
    parts: Vec<StepPart>,
}

/// The order of a step of `region` in which `computed` says what is done, and of which nothing reaches into the next one.
pub(crate) fn step_order(kernel: &Kernel, region: Region, written: &Set<Value>, computed: &dyn Fn(Inst) -> bool) -> Vec<StepPart> {
    ordered(kernel, region, written, computed, None, false).parts
}

/// The order of a step some of whose products end in the next one, and what of it needs no product.
///
/// # Errors
/// The products that run at the end of the step, where they are others, or begin in another order.
pub(crate) fn late_order(
    kernel: &Kernel,
    region: Region,
    written: &Set<Value>,
    computed: &dyn Fn(Inst) -> bool,
    late: &Late,
) -> Result<(Vec<StepPart>, BTreeSet<Inst>), Vec<Inst>> {
    let mut order = ordered(kernel, region, written, computed, Some(late), false);
    if order.running == late.products
        && late.spare
        && let Some(parts) = cut_behind_waits(kernel, region, &order.parts, computed, late)
    {
        return Ok((parts, order.free));
    }
    order = ordered(kernel, region, written, computed, Some(late), true);
    if order.running == late.products { Ok((order.parts, order.free)) } else { Err(order.running) }
}

/// The same order with the cut behind the last wait where nothing runs but accumulators at which no lane of the loop looks.
fn cut_behind_waits(
    kernel: &Kernel,
    region: Region,
    parts: &[StepPart],
    computed: &dyn Fn(Inst) -> bool,
    late: &Late,
) -> Option<Vec<StepPart>> {
    let body = || kernel.regions[region].insts.iter().copied().filter(|&i| computed(i) && !late.after.contains(&i));
    let looked_at = |p: Inst| late.carried_as(p).is_none() || body().any(|i| late.carried_by(kernel, region, i).contains(&p));
    let mut running: Vec<Inst> = Vec::new();
    let (mut own, mut cut) = (false, None);
    for (n, part) in parts.iter().enumerate() {
        match *part {
            StepPart::Begin(i) => running.push(i),
            StepPart::Wait(i, _) => {
                running.retain(|&j| j != i);
                own = true;
            }
            StepPart::Compute(_) | StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => {}
        }
        // Waits that stand side by side are one.
        let waits_on = matches!(parts.get(n + 1), Some(StepPart::Wait(..)));
        if own && !waits_on && matches!(part, StepPart::Wait(..)) && running.iter().all(|&i| late.products.contains(&i) && !looked_at(i)) {
            cut = Some(n);
        }
    }
    let cut = cut?;
    let at = |part: &StepPart| *part != StepPart::Cut;
    let (first, rest) = parts.split_at(cut + 1);
    Some(first.iter().copied().filter(at).chain([StepPart::Cut]).chain(rest.iter().copied().filter(at)).collect())
}

fn ordered<'a>(
    kernel: &'a Kernel,
    region: Region,
    written: &Set<Value>,
    computed: &dyn Fn(Inst) -> bool,
    late: Option<&'a Late>,
    drains: bool,
) -> StepOrder<'a> {
    let after = |i: Inst| late.is_some_and(|l| l.after.contains(&i));
    let todo: Vec<Inst> = kernel.regions[region].insts.iter().copied().filter(|&i| computed(i) && !after(i)).collect();
    let mine: BTreeSet<Inst> = todo.iter().copied().collect();
    let mut all: BTreeMap<Inst, BTreeSet<Inst>> = BTreeMap::new();
    let mut needs_before: BTreeMap<Inst, BTreeSet<Inst>> = BTreeMap::new();
    let mut adds_to: BTreeMap<Inst, Inst> = BTreeMap::new();
    let mut before: Option<Inst> = None;
    for &i in &todo {
        let mut of = BTreeSet::new();
        let before_it = chained(kernel, region, i).filter(|j| late.is_none() && mine.contains(j));
        adds_to.extend(before_it.map(|j| (i, j)));
        needs(kernel, i, &mut |v| {
            if let ValueDef::Result(j, _) = kernel.values[v].def
                && mine.contains(&j)
                && before_it != Some(j)
            {
                of.insert(j);
            }
        });
        if keeps_place(kernel, i, written) {
            of.extend(before.replace(i));
        }
        all.insert(i, of);
        let of = late.map(|l| l.needed_by(kernel, region, i)).unwrap_or_default();
        if !of.is_empty() {
            needs_before.insert(i, of);
        }
    }
    let mut free = BTreeSet::new();
    for &i in &todo {
        let alone = kernel.insts[i].op != Op::Dot && !keeps_place(kernel, i, written) && !needs_before.contains_key(&i);
        if alone && all[&i].iter().all(|j| free.contains(j)) {
            free.insert(i);
        }
    }
    let mut order = StepOrder {
        kernel,
        late,
        needs_before,
        before: late.map(|l| l.products.clone()).unwrap_or_default(),
        after: late.is_some_and(|l| !l.after.is_empty()),
        reaches_back: late.is_some(),
        drains,
        places: todo.iter().enumerate().map(|(n, &i)| (i, n)).collect(),
        todo,
        adds_to,
        needs: all,
        free,
        running: Vec::new(),
        done: BTreeSet::new(),
        parts: Vec::new(),
    };
    order.fill();
    order
}

/// The product whose sums another one goes on with, if nobody looks at them between.
fn chained(kernel: &Kernel, region: Region, i: Inst) -> Option<Inst> {
    let d = &kernel.insts[i];
    let c = *d.args.get(2).filter(|_| d.op == Op::Dot)?;
    let before = kernel.def_inst(c).filter(|&j| kernel.insts[j].op == Op::Dot && kernel.regions[region].insts.contains(&j))?;
    let mut uses = 0;
    kernel.walk(kernel.body, &mut |j| uses += kernel.insts[j].args.iter().filter(|&&v| v == c).count());
    (uses == 1 && stays(kernel, region, i)).then_some(before)
}

/// True for a product whose chain begins with zeros, or goes on from step to step in the same place: sums in flight stay where they are.
fn stays(kernel: &Kernel, region: Region, i: Inst) -> bool {
    let mut first = i;
    while let Some(j) = kernel.def_inst(kernel.insts[first].args[2]).filter(|&j| kernel.insts[j].op == Op::Dot) {
        first = j;
    }
    is_zero(kernel, kernel.insts[first].args[2]) || accumulates(kernel, region, i)
}

/// The same where each product is waited for where it stands.
pub(crate) fn in_place(kernel: &Kernel, region: Region, computed: &dyn Fn(Inst) -> bool) -> Vec<StepPart> {
    let todo = kernel.regions[region].insts.iter().copied().filter(|&i| computed(i));
    let parts = |i: Inst| match kernel.insts[i].op {
        Op::Dot => vec![StepPart::Begin(i), StepPart::Wait(i, 0)],
        _ => vec![StepPart::Compute(i)],
    };
    todo.flat_map(parts).collect()
}

/// True for what stays behind what it stands behind: it touches memory that is written, or what others see.
pub(super) fn keeps_place(kernel: &Kernel, i: Inst, written: &Set<Value>) -> bool {
    let d = &kernel.insts[i];
    match d.op.info().effects {
        Effects::Pure => false,
        Effects::Reads => d.args.first().is_none_or(|v| written.contains(v)),
        Effects::Control => d.regions.iter().any(|&r| kernel.regions[r].insts.iter().any(|&j| keeps_place(kernel, j, written))),
        Effects::Writes
        | Effects::Updates
        | Effects::Observes
        | Effects::Shared
        | Effects::AsyncReads
        | Effects::AsyncWrites
        | Effects::AsyncUpdates => true,
    }
}

impl StepOrder<'_> {
    fn fill(&mut self) {
        loop {
            self.what_is_ready();
            // Who comes next waits for the last product that it needs; those before it are over by then, too.
            let next = self.open().find_map(|i| self.runs_until(i));
            if self.finish_before(next) {
                continue;
            }
            let late = |i: &Inst| self.late.is_some_and(|l| l.products.contains(i));
            match next.or_else(|| self.running.iter().rposition(|i| !late(i)).map(|n| self.before.len() + n)) {
                Some(last) => self.wait(last),
                None => break,
            }
        }
        if let Some(last) = self.before.len().checked_sub(1) {
            self.wait(last);
        }
        let rest: Vec<Inst> = self.open().collect();
        rest.into_iter().for_each(|i| self.emit(i));
    }

    /// Goes on with what is left of the step before, unless somebody waits for what ends sooner.
    fn finish_before(&mut self, next: Option<usize>) -> bool {
        if !self.reaches_back {
            return false;
        }
        let looked_at = |i: &Inst| self.late.is_some_and(|l| l.carried_as(*i).is_none());
        let last = if self.after { self.before.iter().rposition(looked_at) } else { self.before.len().checked_sub(1) };
        match last {
            Some(last) if next.is_none_or(|n| last < n) => self.wait(last),
            Some(_) => return false,
            None if self.after => {
                self.after = false;
                self.parts.push(StepPart::After);
            }
            None => {
                self.reaches_back = false;
                self.parts.push(StepPart::Cut);
                if next.is_some() && self.drains {
                    self.wait(self.running.len().saturating_sub(1));
                }
            }
        }
        true
    }

    /// True while something is left of the step before, and lanes that have finished it could go on with a product of this step that has begun:
    /// others would only take registers.
    fn held_back(&self) -> bool {
        let running = |j: &Inst| self.kernel.insts[*j].op == Op::Dot && !self.done.contains(j);
        let looks = |i: &Inst| self.kernel.insts[*i].op != Op::Dot && self.needs[i].iter().any(running);
        let first = if self.reaches_back { self.open().find(looks) } else { None };
        first.is_some_and(|i| self.needs[&i].iter().filter(|j| running(j)).all(|j| self.running.contains(j)))
    }

    /// What is neither done nor running, in program order.
    fn open(&self) -> impl Iterator<Item = Inst> {
        self.todo.iter().copied().filter(|i| !self.done.contains(i) && !self.running.contains(i))
    }

    /// True for what waits for no product, and is not done only where somebody wants it.
    fn is_ready(&self, i: Inst) -> bool {
        let needs = |j: &Inst| self.done.contains(j) || self.free.contains(j);
        let before = self.needs_before.get(&i).is_none_or(|of| of.iter().all(|j| !self.before.contains(j)));
        let before = before && self.adds_to.get(&i).is_none_or(|j| self.done.contains(j) || self.running.contains(j));
        !self.free.contains(&i) && before && self.needs[&i].iter().all(needs)
    }

    /// Does in program order whatever needs no product that runs, or has not begun. Products that were held back begin first.
    fn what_is_ready(&mut self) {
        let cut = self.parts.contains(&StepPart::Cut);
        for products_only in [true, false].into_iter().skip(usize::from(!cut)) {
            for n in 0..self.todo.len() {
                let i = self.todo[n];
                let open = !self.done.contains(&i) && !self.running.contains(&i);
                let product = self.kernel.insts[i].op == Op::Dot;
                let waits = if product { self.held_back() } else { products_only };
                if open && !waits && self.is_ready(i) {
                    self.bring(i);
                    self.emit(i);
                }
            }
        }
    }

    /// Does what an instruction needs that needs no product.
    fn bring(&mut self, i: Inst) {
        let mut open: Vec<Inst> = vec![i];
        let mut wanted = BTreeSet::new();
        while let Some(i) = open.pop() {
            open.extend(self.needs[&i].iter().copied().filter(|j| self.free.contains(j) && !self.done.contains(j) && wanted.insert(*j)));
        }
        let mut wanted: Vec<Inst> = wanted.into_iter().collect();
        wanted.sort_unstable_by_key(|i| self.places[i]);
        wanted.into_iter().for_each(|i| self.emit(i));
    }

    fn emit(&mut self, i: Inst) {
        if self.kernel.insts[i].op == Op::Dot {
            self.running.push(i);
            self.parts.push(StepPart::Begin(i));
        } else {
            self.done.insert(i);
            self.parts.push(StepPart::Compute(i));
        }
    }

    /// The place among all that run of the last product that an instruction needs itself, if what it needs beside them is done, or needs no product.
    fn runs_until(&self, i: Inst) -> Option<usize> {
        if self.adds_to.get(&i).is_some_and(|j| !self.done.contains(j) && !self.running.contains(j)) {
            return None;
        }
        let mut last = None;
        for j in self.needs[&i].iter().filter(|j| !self.done.contains(j) && !self.free.contains(j)) {
            last = last.max(Some(self.before.len() + self.running.iter().position(|r| r == j)?));
        }
        let before = self.needs_before.get(&i).and_then(|of| self.before.iter().rposition(|j| of.contains(j)));
        last.max(before)
    }

    /// Waits for a running product. What those who look at it then need beside it is brought in front.
    fn wait(&mut self, last: usize) {
        let next: Vec<Inst> = self.open().filter(|&i| self.runs_until(i).is_some_and(|n| n <= last)).collect();
        next.into_iter().for_each(|i| self.bring(i));
        let all = self.before.len() + self.running.len();
        let behind = all.saturating_sub(last + 1) as u32;
        let over = (last + 1).min(self.before.len());
        for i in self.before.drain(..over) {
            self.parts.push(StepPart::WaitBefore(i, behind));
        }
        let ended: Vec<Inst> = self.running.drain(..(last + 1 - over).min(all)).collect();
        // Whoever goes on with the sums of one waits for it, too.
        let goes_on = |i: Inst| self.adds_to.iter().any(|(j, &before)| before == i && (ended.contains(j) || self.running.contains(j)));
        let ends: Vec<Inst> = ended.iter().copied().filter(|&i| !goes_on(i)).collect();
        self.parts.extend(ends.into_iter().map(|i| StepPart::Wait(i, behind)));
        self.done.extend(ended);
    }
}
