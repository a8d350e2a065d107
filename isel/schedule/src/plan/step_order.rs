//! The order of a step that computes between its products and does not reach into the next one: a product begins as soon as its operands
//! are there, and is waited for where somebody looks at it.
//!
//! ```text
//! written     S = dot ─ P = exp S ─ T = dot ─ U = P * T ─ V += dot P ─ W += dot U
//! ordered     begin S, T ─ wait S ─ P ─ begin V ─ wait T ─ U ─ begin W ─ wait V, W
//! ```
//!
//! What is ready keeps the order of the kernel, except for what needs no product (loads, above all): it comes in front of the wait for the
//! products that it meets, not sooner, since it takes registers. Everything that touches memory that the kernel writes keeps its order.

use super::replay::needs;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value, ValueDef};

/// A part of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepPart {
    /// A product begins.
    Begin(Inst),
    /// It is over; so many that began later may still run.
    Wait(Inst, u32),
    /// Lanes compute it.
    Compute(Inst),
}

/// What a step consists of.
struct StepOrder<'a> {
    kernel: &'a Kernel,
    /// What is done, in program order.
    todo: Vec<Inst>,
    /// What each needs of what is done in the step.
    needs: BTreeMap<Inst, BTreeSet<Inst>>,
    /// What needs no product: it is done where it is wanted.
    free: BTreeSet<Inst>,
    /// Products that have begun and are not over, in order.
    running: Vec<Inst>,
    done: BTreeSet<Inst>,
    parts: Vec<StepPart>,
}

/// The order of a step of `region` in which `computed` says what is done.
pub(crate) fn step_order(kernel: &Kernel, region: Region, written: &HashSet<Value>, computed: &dyn Fn(Inst) -> bool) -> Vec<StepPart> {
    let todo: Vec<Inst> = kernel.regions[region].insts.iter().copied().filter(|&i| computed(i)).collect();
    let mine: BTreeSet<Inst> = todo.iter().copied().collect();
    let mut all: BTreeMap<Inst, BTreeSet<Inst>> = BTreeMap::new();
    let mut before: Option<Inst> = None;
    for &i in &todo {
        let mut of = BTreeSet::new();
        needs(kernel, i, &mut |v| {
            if let ValueDef::Result(j, _) = kernel.values[v].def
                && mine.contains(&j)
            {
                of.insert(j);
            }
        });
        if keeps_place(kernel, i, written) {
            of.extend(before.replace(i));
        }
        all.insert(i, of);
    }
    let mut free = BTreeSet::new();
    for &i in &todo {
        if kernel.insts[i].op != Op::Dot && !keeps_place(kernel, i, written) && all[&i].iter().all(|j| free.contains(j)) {
            free.insert(i);
        }
    }
    let mut order = StepOrder { kernel, todo, needs: all, free, running: Vec::new(), done: BTreeSet::new(), parts: Vec::new() };
    order.fill();
    order.parts
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
fn keeps_place(kernel: &Kernel, i: Inst, written: &HashSet<Value>) -> bool {
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
            match next.or(self.running.len().checked_sub(1)) {
                Some(last) => self.wait(last),
                None => break,
            }
        }
        let rest: Vec<Inst> = self.open().collect();
        rest.into_iter().for_each(|i| self.emit(i));
    }

    /// What is neither done nor running, in program order.
    fn open(&self) -> impl Iterator<Item = Inst> {
        self.todo.iter().copied().filter(|i| !self.done.contains(i) && !self.running.contains(i))
    }

    /// Does in program order whatever needs no product that runs, or has not begun.
    fn what_is_ready(&mut self) {
        for n in 0..self.todo.len() {
            let i = self.todo[n];
            let open = !self.done.contains(&i) && !self.running.contains(&i) && !self.free.contains(&i);
            if open && self.needs[&i].iter().all(|j| self.done.contains(j) || self.free.contains(j)) {
                self.bring(i);
                self.emit(i);
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
        let wanted: Vec<Inst> = self.todo.iter().copied().filter(|i| wanted.contains(i)).collect();
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

    /// The place of the last running product that an instruction needs itself, if what it needs beside them is done, or needs no product.
    fn runs_until(&self, i: Inst) -> Option<usize> {
        let mut last = None;
        for j in self.needs[&i].iter().filter(|j| !self.done.contains(j) && !self.free.contains(j)) {
            last = last.max(Some(self.running.iter().position(|r| r == j)?));
        }
        last
    }

    /// Waits for a running product. What those who look at it then need beside it is brought in front.
    fn wait(&mut self, last: usize) {
        let next: Vec<Inst> = self.open().filter(|&i| self.runs_until(i).is_some_and(|n| n <= last)).collect();
        next.into_iter().for_each(|i| self.bring(i));
        let over: Vec<Inst> = self.running.drain(..=last).collect();
        let behind = self.running.len() as u32;
        for i in over {
            self.parts.push(StepPart::Wait(i, behind));
            self.done.insert(i);
        }
    }
}
