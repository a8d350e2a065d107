//! Folds become loops again: those over one range in one place and pass are one loop.
//!
//! ```text
//! for j in range carry acc… = init… {  element, factor of each fold, in the order in which they need each other's states  }
//! ```
//!
//! A loop carries what its folds and the states in their elements need, so any choice becomes a kernel: how many loops there are, and what
//! is computed more than once, is a matter of price ([`crate::passes`]).

use crate::elaborate::{Emitter, remade};
use crate::fault::Broken;
use crate::graph::Read;
use crate::hash::{IndexMap, IndexSet};
use crate::language::Head;
use smallvec::SmallVec;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Inst, Literal, Op, Region, Value};

/// A fold as it is carried: its class, and which candidate of it.
type Carried = (usize, u32);

/// A loop that is to be made.
#[derive(Default)]
struct Plan {
    /// What it carries.
    carried: IndexSet<Carried>,
    /// States in it: the class, whose, and whether in front of the iteration.
    states: Vec<(usize, Carried, bool)>,
    /// Classes that are computed in front of it.
    outside: Vec<usize>,
}

impl Emitter<'_> {
    /// Makes the loops of a range that have not been made yet.
    pub(crate) fn folds(&mut self, range: u32) -> Result<(), Broken> {
        let mut left = self.fused.folds[range as usize].clone();
        left.sort_by_key(|&class| self.fused.pass[class]);
        for class in left {
            if self.place[class].is_some_and(|home| self.value(class, home).is_none()) {
                self.fold(class)?;
            }
        }
        Ok(())
    }

    /// Makes the loop that a fold shares with others of its range, place and pass.
    pub(crate) fn fold(&mut self, class: usize) -> Result<(), Broken> {
        let (choice, forest) = (self.choice, self.forest);
        let number = choice.of[class].ok_or(Broken::State)?;
        let Head::Fold { range, .. } = forest.nodes[class][number as usize].node.head else { return Err(Broken::State) };
        let home = self.place[class].ok_or(Broken::State)?;
        let mut members: Vec<Carried> = vec![(class, number)];
        // What a loop of another range waits for cannot wait for that loop.
        self.fused.open.insert(class);
        for &other in &self.fused.folds[range as usize] {
            let together = other != class
                && self.place[other] == Some(home)
                && self.fused.pass[other] == self.fused.pass[class]
                && self.value(other, home).is_none()
                && self.available(other, home);
            if together && let Some(n) = choice.of[other] {
                members.push((other, n));
            }
        }
        self.fused.open.extend(members.iter().map(|m| m.0));
        let plan = self.plan(range, &members);
        taken(Decision::Loops, || Told::of(format!("{} folds in one loop, with {} states", members.len(), plan.states.len())));
        for &c in &plan.outside {
            self.demand_class(c, home)?;
        }
        self.emit_loop(range, home, &plan)?;
        for (class, _) in members {
            self.fused.open.swap_remove(&class);
        }
        Ok(())
    }

    /// True if all that a class needs can be computed in a region now.
    fn available(&self, class: usize, region: Region) -> bool {
        let (mut seen, mut work) = (IndexSet::default(), vec![class]);
        while let Some(at) = work.pop() {
            if self.value(at, region).is_some() || !seen.insert(at) {
                continue;
            }
            if self.fused.open.contains(&at) {
                return false;
            }
            match self.forest.chosen(self.choice, at) {
                Some(c) if self.anywhere(c) => work.extend(&c.kids),
                Some(_) | None => return false,
            }
        }
        true
    }

    fn plan(&self, range: u32, members: &[Carried]) -> Plan {
        let (forest, inner) = (self.forest, self.g.analysis.ranges[range as usize].inner);
        let mut plan = Plan::default();
        let (mut seen, mut work) = (IndexSet::default(), Vec::new());
        let carry = |plan: &mut Plan, work: &mut Vec<usize>, fold: Carried| {
            if plan.carried.insert(fold) {
                let kids = &forest.nodes[fold.0][fold.1 as usize].kids;
                plan.outside.extend(&kids[..4]);
                work.extend(&kids[4..]);
            }
        };
        members.iter().for_each(|&m| carry(&mut plan, &mut work, m));
        while let Some(at) = work.pop() {
            if !seen.insert(at) {
                continue;
            }
            let Some(c) = forest.chosen(self.choice, at) else { continue };
            match (c.node.head, c.state) {
                (Head::State { range: of, before, .. }, Some(fold)) if of == range => {
                    plan.states.push((at, fold, before));
                    carry(&mut plan, &mut work, fold);
                }
                _ if forest.free[at] & inner != 0 || c.node.op().is_some_and(remade) => work.extend(&c.kids),
                _ => plan.outside.push(at),
            }
        }
        plan
    }

    /// The folds whose states behind the iteration a class needs in this loop.
    fn needs(&self, plan: &Plan, classes: &[usize]) -> Vec<Carried> {
        let (mut seen, mut work, mut out) = (IndexSet::default(), classes.to_vec(), Vec::new());
        while let Some(at) = work.pop() {
            if !seen.insert(at) {
                continue;
            }
            match plan.states.iter().find(|(class, ..)| *class == at) {
                Some(&(_, fold, false)) => out.push(fold),
                Some(_) => {}
                None => work.extend(self.forest.chosen(self.choice, at).into_iter().flat_map(|c| &c.kids)),
            }
        }
        out
    }

    fn emit_loop(&mut self, range: u32, home: Region, plan: &Plan) -> Result<(), Broken> {
        let (forest, choice, g) = (self.forest, self.choice, self.g);
        let of = &g.analysis.ranges[range as usize];
        let inside = of.region;
        let candidate = |(class, n): Carried| &forest.nodes[class][n as usize];
        let first = plan.carried.first().copied().ok_or(Broken::State)?;
        let mut operands: SmallVec<[Value; 8]> = SmallVec::new();
        for &k in &candidate(first).kids[..3] {
            operands.push(self.demand_class(k, home)?);
        }
        for &fold in &plan.carried {
            operands.push(self.demand_class(candidate(fold).kids[3], home)?);
        }
        let new = self.out.add_region();
        self.regions[inside] = Some(new);
        let index = self.out.add_region_param(new, self.input.ty(of.index).clone());
        self.bind(of.index, inside, index);
        let mut accs = IndexMap::default();
        for &fold in &plan.carried {
            let ty = g.analysis.pool.ty(candidate(fold).node.ty()).clone();
            let acc = self.out.add_region_param(new, ty);
            if let Some(&(_, param)) = self.fused.names.get(&fold.0) {
                self.take_name(param, acc);
            }
            accs.insert(fold, acc);
        }
        for &(class, fold, _) in plan.states.iter().filter(|s| s.2) {
            self.known(class, inside, accs[&fold]);
        }
        let loc = self.loc;
        let waits: Vec<(Carried, Vec<Carried>)> =
            plan.carried.iter().map(|&fold| (fold, self.needs(plan, &candidate(fold).kids[4..]))).collect();
        let mut next: IndexMap<Carried, Value> = IndexMap::default();
        while next.len() < plan.carried.len() {
            let free = |(fold, needs): &&(Carried, Vec<Carried>)| !next.contains_key(fold) && needs.iter().all(|n| next.contains_key(n));
            let &(fold, _) = waits.iter().find(free).ok_or(Broken::Knot)?;
            let v = self.step(fold, accs[&fold], inside)?;
            for &(class, ..) in plan.states.iter().filter(|s| s.1 == fold && !s.2) {
                self.known(class, inside, v);
            }
            next.insert(fold, v);
        }
        let yields: SmallVec<[Value; 8]> = plan.carried.iter().map(|fold| next[fold]).collect();
        let end = self.out.add_inst(Op::Yield, &yields, 0, &[], &[], &[]);
        self.append(inside, end, loc)?;
        self.close(inside);
        self.regions[inside] = None;
        let types: SmallVec<[_; 4]> = plan.carried.iter().map(|&f| g.analysis.pool.ty(candidate(f).node.ty()).clone()).collect();
        let made = self.out.add_inst(Op::For, &operands, 0, &[], &[new], &types);
        self.append(home, made, loc)?;
        for (n, &(class, number)) in plan.carried.iter().enumerate() {
            if choice.of[class] == Some(number) && self.place[class] == Some(home) && self.value(class, home).is_none() {
                let v = self.out.insts[made].results[n];
                self.known(class, home, v);
                if let Some(&(result, _)) = self.fused.names.get(&class) {
                    self.take_name(result, v);
                }
            }
        }
        Ok(())
    }

    /// Puts an element to an accumulator.
    fn step(&mut self, fold: Carried, acc: Value, inside: Region) -> Result<Value, Broken> {
        let (forest, g) = (self.forest, self.g);
        let c = &forest.nodes[fold.0][fold.1 as usize];
        let Head::Fold { op, ty, .. } = c.node.head else { return Err(Broken::State) };
        let ty = g.analysis.pool.ty(ty).clone();
        let acc = match c.kids.get(5) {
            Some(&factor) => {
                let factor = self.demand_class(factor, inside)?;
                let inst = self.out.add_inst(Op::Mul, &[acc, factor], 0, &[], &[], std::slice::from_ref(&ty));
                self.push(inst, inside)?
            }
            None => acc,
        };
        let element = c.kids[4];
        let product = forest.chosen(self.choice, element).filter(|e| {
            let none = |k: usize| match g.fact(forest.ids[k]).value {
                Some(Literal::Int(i)) => i == 0,
                Some(Literal::Float(bits)) => f64::from_bits(bits) == 0.0,
                None => false,
            };
            self.s.products_add && op == Op::Add && e.node.op() == Some(Op::Dot) && none(e.kids[2]) && self.value(element, inside).is_none()
        });
        let inst = match product {
            Some(e) => {
                let Head::Op { present, attrs, .. } = e.node.head else { return Err(Broken::State) };
                let args = [self.demand_class(e.kids[0], inside)?, self.demand_class(e.kids[1], inside)?, acc];
                self.out.add_inst(Op::Dot, &args, present, g.analysis.pool.attrs(attrs), &[], std::slice::from_ref(&ty))
            }
            None => {
                let element = self.demand_class(element, inside)?;
                self.out.add_inst(op, &[acc, element], 0, &[], &[], std::slice::from_ref(&ty))
            }
        };
        self.push(inst, inside)
    }

    fn push(&mut self, inst: Inst, region: Region) -> Result<Value, Broken> {
        self.append(region, inst, self.loc)?;
        Ok(self.out.insts[inst].results[0])
    }
}
