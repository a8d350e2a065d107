//! The search: candidates are made, priced, and the best one is taken, until none gains.

use super::cost::{Estimate, estimate};
use super::inline::{in_order, inlined};
use super::report::{Decision, FuseReport, FuseRule, How, Outcome, Refusal, RefusalKind};
use super::sets::{MOST_MADE, Set, closed, operands, sets};
use super::state::{FuseOptions, Joined, Link, Made, Search, Worth, position};
use super::widen::KLoop;
use crate::graph::nodes::{Graph, Node, TensorId, all_uses};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tilelift_decisions as decisions;
use tilelift_egraph::Class;
use tilelift_isel::{LowerOptions, Target};

/// A graph after fusion.
#[derive(Clone, PartialEq, Debug)]
pub struct Fused {
    /// The graph; tensors have their old numbers, and those that disappeared are in no node.
    pub graph: Graph,
    /// What was done.
    pub report: FuseReport,
}

/// Sets that are lowered for the target in one step, the best first.
const MOST_LOWERED: usize = 8;

impl Graph {
    /// Makes one kernel of several where their tiles line up, it costs less, and the target takes it as well.
    ///
    /// Fused nodes compute what those compute that they stand for, up to what [`FuseOptions::allow`] allows.
    pub fn fuse(&self, target: &Target, options: &FuseOptions) -> Fused {
        let mut search = Search {
            graph: self.clone(),
            ids: (0..self.nodes.len() as u32).collect(),
            costs: self.nodes.iter().map(|n| estimate(self, n, options.typical, target)).collect(),
            next: self.nodes.len() as u32,
            known: BTreeMap::new(),
            uses: self.nodes.iter().map(all_uses).collect(),
            effort: Cell::default(),
            fired: RefCell::default(),
            made: Made::new(),
            refused: BTreeMap::new(),
            target,
            options,
        };
        let mut report = FuseReport::default();
        let total = |costs: &[Estimate]| costs.iter().fold([0u64; 2], |n, e| [n[0].saturating_add(e.cost), n[1].saturating_add(e.bytes)]);
        let before = total(&search.costs);
        while let Some(decision) = search.step() {
            decisions::taken(decisions::Decision::Fusion, || told(&decision));
            report.decisions.push(decision);
        }
        report.decisions.extend(search.rest());
        let after = total(&search.costs);
        (report.cost, report.bytes) = ([before[0], after[0]], [before[1], after[1]]);
        (report.effort, report.fired) = (search.effort.get(), search.fired.into_inner());
        Fused { graph: search.graph, report }
    }
}

impl Search<'_> {
    /// Fuses the pair or set that gains most, if one gains.
    fn step(&mut self) -> Option<Decision> {
        let pair = self.best_pair();
        // What a pair does whole comes first; then what takes more.
        let simple = pair.is_some_and(|(_, (p, c, t))| self.joins(p, c, t) == Some(true));
        let set = if simple { None } else { self.best_set() };
        match (pair, set) {
            (Some((worth, pair)), set) if set.as_ref().is_none_or(|s| s.0 <= worth) => self.take_pair(pair),
            (_, Some((_, set))) => self.take_set(&set),
            (_, None) => None,
        }
    }

    fn take_pair(&mut self, (p, c, t): Link) -> Option<Decision> {
        let at = position(&self.graph, p, c).ok()?;
        let found = self.known.remove(&(self.ids[p], self.ids[c], t))?.ways.into_iter().next()?;
        let (before, after) = ([self.costs[p], self.costs[c]], found.cost());
        let decision = self.decision(
            &[(p, t)],
            c,
            Outcome::Fused {
                how: found.how,
                cost: [before[0].cost.saturating_add(before[1].cost), after.cost],
                bytes: [before[0].bytes.saturating_add(before[1].bytes), after.bytes],
                rules: Vec::new(),
            },
        );
        self.remove(&[p, c]);
        self.insert(at, found.node, found.after);
        if let Some((node, cost, tensors)) = found.folds {
            self.graph.tensors.extend(tensors);
            self.insert(p, node, cost);
        }
        Some(decision)
    }

    /// Cost and bytes of the kernels of a set as they are.
    fn apart(&self, set: &Set) -> [u64; 2] {
        let all = set.producers.iter().map(|p| p.0).chain([set.sink]).map(|n| self.costs[n]);
        all.fold([0u64; 2], |n, e| [n[0].saturating_add(e.cost), n[1].saturating_add(e.bytes)])
    }

    fn key(&self, set: &Set) -> (Vec<u32>, Vec<TensorId>) {
        let ids = set.producers.iter().map(|p| p.0).chain([set.sink]).map(|n| self.ids[n]);
        (ids.collect(), set.producers.iter().map(|p| p.1).collect())
    }

    /// Whether a set is one: nobody else needs its producers, pairs do not do, and all may run where the sink is.
    fn stands(&mut self, set: &Set) -> Result<(), Refusal> {
        closed(&self.graph, set)?;
        self.needed(set)?;
        in_order(&self.graph, set.sink, &set.producers)
    }

    /// The set that is worth most as it is and that the target takes, at its best step; few are lowered.
    fn best_set(&mut self) -> Option<(Worth, Set)> {
        self.refused.clear();
        let mut found = Vec::new();
        let mut left = MOST_MADE * self.graph.nodes.len();
        for set in sets(&self.graph) {
            if let Err(why) = self.stands(&set) {
                self.refused.insert(set, why);
                continue;
            }
            let key = self.key(&set);
            if !self.made.contains_key(&key) {
                if left == 0 {
                    self.refused.insert(set, Refusal::new(RefusalKind::Limit, "more kernels are not made at a time"));
                    continue;
                }
                left -= 1;
                let made = self.joined(&set);
                self.made.insert(key.clone(), made);
            }
            match self.made.get(&key) {
                Some(Ok(made)) => found.push((self.worth(set.producers.len(), self.apart(&set)[0], made.after.cost), set)),
                Some(Err(why)) => {
                    self.refused.insert(set, why.clone());
                }
                None => {}
            }
        }
        found.sort_by(|a, b| b.cmp(a));
        for (worth, set) in found.into_iter().take(MOST_LOWERED) {
            let key = self.key(&set);
            let Some(Ok(made)) = self.made.remove(&key) else { continue };
            let members: Vec<usize> = set.producers.iter().map(|p| p.0).chain([set.sink]).collect();
            let members = if self.options.always { &[] } else { &members[..] };
            let taken = if made.accepted { Ok(()) } else { self.accepted(members, &made.node) };
            match taken {
                Ok(()) => {
                    let made = if made.accepted { made } else { self.at_best_step(&set, members, made) };
                    let worth = (worth.0, self.worth(0, self.apart(&set)[0], made.after.cost).1);
                    self.made.insert(key, Ok(Joined { accepted: true, ..made }));
                    return Some((worth, set));
                }
                Err(why) => {
                    self.made.insert(key, Err(why.clone()));
                    self.refused.insert(set, why);
                }
            }
        }
        None
    }

    /// The kernel of a set, and what it costs.
    fn joined(&self, set: &Set) -> Result<Joined, Refusal> {
        let made = inlined(&self.graph, set.sink, &set.producers, self.options.allow)?;
        let node = self.improved(&self.graph, made.node)?;
        let after = estimate(&self.graph, &node, self.options.typical, self.target);
        let [before, bytes] = self.apart(set);
        if after.cost >= before && !self.options.always {
            let why = format!("it would cost {} instead of {before}, and ask for {} bytes instead of {bytes}", after.cost, after.bytes);
            return Err(Refusal::new(RefusalKind::Cost, why));
        }
        Ok(Joined { node, after, rules: made.rules, accepted: false })
    }

    /// The same with the sink's loop over wider K tiles, at the one that costs least. Only where products run beside lanes, and still do: there what
    /// lanes do once in each step keeps the next products from starting. Each extent is made, priced and, if it costs less, lowered.
    fn at_best_step(&self, set: &Set, members: &[usize], made: Joined) -> Joined {
        let sink = &self.graph.nodes[set.sink];
        let Some(sweep) = KLoop::of(&self.graph, sink).filter(|_| self.options.allow >= Class::Reassoc) else { return made };
        let overlaps = |node: &Node| {
            let plan = tilelift_isel::plan(&node.kernel, self.target, &LowerOptions::default());
            plan.is_ok_and(|p| p.specialised().is_some_and(|s| s.overlap.is_some()))
        };
        if !overlaps(&made.node) {
            return made;
        }
        let mut best = made;
        let mut graph = self.graph.clone();
        for width in sweep.wider() {
            graph.nodes[set.sink] = sweep.widened(sink, width);
            let wide = inlined(&graph, set.sink, &set.producers, self.options.allow);
            let Ok((node, mut rules)) = wide.and_then(|w| Ok((self.improved(&graph, w.node)?, w.rules))) else { continue };
            let after = estimate(&self.graph, &node, self.options.typical, self.target);
            if after.cost < best.after.cost && overlaps(&node) && self.accepted(members, &node).is_ok() {
                rules.insert(0, FuseRule::Widen { from: sweep.step, to: width });
                best = Joined { node, after, rules, accepted: true };
            }
        }
        best
    }

    /// Whether each producer of a set is there because pairs do not do: no pair of its links is joined, or would be if it paid; of operands of one
    /// product no pair that pays.
    fn needed(&mut self, set: &Set) -> Result<(), Refusal> {
        let whole = operands(&self.graph, set);
        let members = || set.producers.iter().map(|p| p.0).chain([set.sink]);
        for &(p, t) in &set.producers {
            let readers: Vec<usize> = members().filter(|&c| c > p && self.does(c, t).reads).collect();
            for c in readers {
                let joins = self.joins(p, c, t);
                if joins != Some(false) && !(whole && joins.is_none()) {
                    let [p, c] = [p, c].map(|n| &self.graph.nodes[n].name);
                    return Err(Refusal::new(RefusalKind::Cost, format!("`{p}` and `{c}` are joined as a pair, if at all")));
                }
            }
        }
        Ok(())
    }

    fn take_set(&mut self, set: &Set) -> Option<Decision> {
        let Some(Ok(made)) = self.made.remove(&self.key(set)) else { return None };
        let [cost, bytes] = self.apart(set);
        let (cost, bytes) = ([cost, made.after.cost], [bytes, made.after.bytes]);
        let decision = self.decision(&set.producers, set.sink, Outcome::Fused { how: How::Inlined, cost, bytes, rules: made.rules });
        let members: Vec<usize> = set.producers.iter().map(|p| p.0).chain([set.sink]).collect();
        self.remove(&members);
        self.insert(set.sink - set.producers.len(), made.node, made.after);
        Some(decision)
    }

    /// Takes nodes out, given in program order.
    fn remove(&mut self, nodes: &[usize]) {
        for &n in nodes.iter().rev() {
            self.graph.nodes.remove(n);
            self.ids.remove(n);
            self.costs.remove(n);
            self.uses.remove(n);
        }
    }

    fn insert(&mut self, at: usize, node: Node, cost: Estimate) {
        self.uses.insert(at, all_uses(&node));
        self.graph.nodes.insert(at, node);
        self.ids.insert(at, self.next);
        self.costs.insert(at, cost);
        self.next += 1;
    }

    fn decision(&self, producers: &[(usize, TensorId)], consumer: usize, outcome: Outcome) -> Decision {
        let name = |n: usize| self.graph.nodes[n].name.clone();
        let producer = producers.iter().map(|p| name(p.0)).collect::<Vec<_>>().join(", ");
        let tensors = producers.iter().map(|p| self.graph.tensors[p.1.index()].name.as_str());
        Decision { producer, consumer: name(consumer), tensor: tensors.collect::<Vec<_>>().join(", "), outcome }
    }

    /// The pairs and sets that stay apart.
    fn rest(&mut self) -> Vec<Decision> {
        let mut all = Vec::new();
        for (p, c, t) in self.pairs() {
            let key = (self.ids[p], self.ids[c], t);
            if let Some(known) = self.known.get(&key).filter(|k| k.ways.is_empty()) {
                all.push(self.decision(&[(p, t)], c, Outcome::Refused(known.reasons.clone())));
            }
        }
        for (set, why) in &self.refused {
            all.push(self.decision(&set.producers, set.sink, Outcome::Refused(vec![(Some(How::Inlined), why.clone())])));
        }
        all
    }
}

/// What was done, at its cost, before what it would cost to leave it.
fn told(decision: &Decision) -> decisions::Told {
    let price = |n: usize| match &decision.outcome {
        Outcome::Fused { cost, .. } => Some(cost[n]),
        Outcome::Refused(_) => None,
    };
    let how = match &decision.outcome {
        Outcome::Fused { how, .. } => how.word(),
        Outcome::Refused(_) => "apart",
    };
    let what = format!("`{}` and `{}` as {how}", decision.producer, decision.consumer);
    decisions::Told { price: price(1), ..decisions::Told::of(what) }.before("apart", price(0))
}
