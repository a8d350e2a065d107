//! Fusion: kernels of a graph whose tiles line up become one.
//!
//! ```text
//! for every producer and consumer of a tensor:  may they become neighbours? ─► epilogue, prologue, same tile ─► verify, optimise
//!                                                ─► does the target take it as well as the two? ─► cost
//! the pair that gains most is fused, and so on until no pair gains
//! ```
//!
//! Nothing is recognised by name: a kernel is what its instructions say. Indices are compared as sums (`sym.rs`), tiles as places
//! (`tiles.rs`), bodies are rewritten instruction by instruction (`retile.rs`). Where a proof fails both kernels stay, with the reason.

mod access;
mod cost;
mod demand;
mod maker;
mod pair;
mod report;
mod retile;
mod split;
mod sym;
mod tiles;

pub use report::{Decision, FuseReport, How, Outcome, Refusal, RefusalKind};

use crate::compile::{OptLevel, Options, lower};
use crate::graph::nodes::{Graph, Node, Tensor, TensorId, uses};
use cost::{Estimate, estimate};
use pair::Pair;
use std::collections::BTreeMap;
use tilelift_isel::{LowerOptions, Schedule, Target};

/// What fusion may be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuseOptions {
    /// What symbols count as when costs are compared.
    pub typical: u32,
    /// Fuse wherever it is right, whatever it costs; for tests.
    pub always: bool,
}

impl Default for FuseOptions {
    fn default() -> FuseOptions {
        FuseOptions { typical: 2048, always: false }
    }
}

/// A graph after fusion.
#[derive(Clone, PartialEq, Debug)]
pub struct Fused {
    /// The graph; tensors have their old numbers, and those that disappeared are in no node.
    pub graph: Graph,
    /// What was done.
    pub report: FuseReport,
}

/// A fused node that may take the place of two.
struct Candidate {
    how: How,
    node: Node,
    after: Estimate,
    /// The position at which it runs, when both are taken out.
    at: usize,
    /// What stays in the producer's place, and the tensors from there to the fused node.
    folds: Option<(Node, Estimate, Vec<Tensor>)>,
}

impl Candidate {
    /// Cost of all that takes the place of the two.
    fn cost(&self) -> Estimate {
        let folds = self.folds.as_ref().map_or(Estimate::default(), |f| f.1);
        Estimate { cost: self.after.cost.saturating_add(folds.cost), bytes: self.after.bytes.saturating_add(folds.bytes) }
    }
}

/// What was found out about pairs, by what stays the same while other nodes are fused.
type Known = BTreeMap<(u32, u32, TensorId), Result<Candidate, Vec<(Option<How>, Refusal)>>>;

impl Graph {
    /// Makes one kernel of several where their tiles line up, it costs less, and the target takes it as well.
    ///
    /// Fused nodes compute the same bits as those that they stand for, but for the order of sums that `dot` leaves open.
    pub fn fuse(&self, target: &Target, options: &FuseOptions) -> Fused {
        let mut search = Search {
            graph: self.clone(),
            ids: (0..self.nodes.len() as u32).collect(),
            costs: self.nodes.iter().map(|n| estimate(self, n, options.typical, target)).collect(),
            next: self.nodes.len() as u32,
            known: Known::new(),
            target,
            options,
        };
        let mut report = FuseReport::default();
        let total = |costs: &[Estimate]| costs.iter().fold([0u64; 2], |n, e| [n[0].saturating_add(e.cost), n[1].saturating_add(e.bytes)]);
        let before = total(&search.costs);
        while let Some(decision) = search.step() {
            report.decisions.push(decision);
        }
        report.decisions.extend(search.rest());
        let after = total(&search.costs);
        (report.cost, report.bytes) = ([before[0], after[0]], [before[1], after[1]]);
        Fused { graph: search.graph, report }
    }
}

struct Search<'a> {
    graph: Graph,
    /// A number per node that is never used again.
    ids: Vec<u32>,
    costs: Vec<Estimate>,
    next: u32,
    known: Known,
    target: &'a Target,
    options: &'a FuseOptions,
}

impl Search<'_> {
    /// Producers and consumers with the tensor between them, in program order.
    fn pairs(&self) -> Vec<(usize, usize, TensorId)> {
        let nodes = &self.graph.nodes;
        let mut all = Vec::new();
        for t in (0..self.graph.tensors.len() as u32).map(TensorId) {
            let uses: Vec<_> = nodes.iter().map(|n| uses(n, t)).collect();
            for (p, _) in uses.iter().enumerate().filter(|(_, u)| u.writes) {
                // Up to the next writer, which may read first.
                let end = (p + 1..nodes.len()).find(|&n| uses[n].writes).map_or(nodes.len(), |n| n + 1);
                all.extend((p + 1..end).filter(|&c| uses[c].reads).map(|c| (p, c, t)));
            }
        }
        all.sort_unstable();
        all
    }

    /// Fuses the pair that gains most, if one gains.
    fn step(&mut self) -> Option<Decision> {
        let mut best: Option<(u64, (usize, usize, TensorId))> = None;
        for (p, c, t) in self.pairs() {
            let key = (self.ids[p], self.ids[c], t);
            if !self.known.contains_key(&key) {
                let found = self.candidate(p, c, t);
                self.known.insert(key, found);
            }
            let Some(Ok(found)) = self.known.get(&key) else { continue };
            let gain = self.costs[p].cost.saturating_add(self.costs[c].cost).saturating_sub(found.cost().cost);
            if best.is_none_or(|(g, _)| gain > g) {
                best = Some((gain, (p, c, t)));
            }
        }
        let (_, (p, c, t)) = best?;
        let key = (self.ids[p], self.ids[c], t);
        let Some(Ok(found)) = self.known.remove(&key) else { return None };
        let (before, after) = ([self.costs[p], self.costs[c]], found.cost());
        let decision = self.decision(
            (p, c, t),
            Outcome::Fused {
                how: found.how,
                cost: [before[0].cost.saturating_add(before[1].cost), after.cost],
                bytes: [before[0].bytes.saturating_add(before[1].bytes), after.bytes],
            },
        );
        for n in [c, p] {
            self.graph.nodes.remove(n);
            self.ids.remove(n);
            self.costs.remove(n);
        }
        self.insert(found.at, found.node, found.after);
        if let Some((node, cost, tensors)) = found.folds {
            self.graph.tensors.extend(tensors);
            self.insert(p, node, cost);
        }
        // Proofs and reasons that rest on order, on who else reads, or on the nodes that are gone.
        self.known.clear();
        Some(decision)
    }

    fn insert(&mut self, at: usize, node: Node, cost: Estimate) {
        self.graph.nodes.insert(at, node);
        self.ids.insert(at, self.next);
        self.costs.insert(at, cost);
        self.next += 1;
    }

    fn decision(&self, (p, c, t): (usize, usize, TensorId), outcome: Outcome) -> Decision {
        let name = |n: usize| self.graph.nodes[n].name.clone();
        Decision { producer: name(p), consumer: name(c), tensor: self.graph.tensors[t.index()].name.clone(), outcome }
    }

    /// The pairs that stay apart.
    fn rest(&mut self) -> Vec<Decision> {
        let mut all = Vec::new();
        for (p, c, t) in self.pairs() {
            let key = (self.ids[p], self.ids[c], t);
            if let Some(Err(why)) = self.known.get(&key) {
                all.push(self.decision((p, c, t), Outcome::Refused(why.clone())));
            }
        }
        all
    }

    /// The cheapest way to fuse a pair, or the reasons against all.
    fn candidate(&self, p: usize, c: usize, t: TensorId) -> Result<Candidate, Vec<(Option<How>, Refusal)>> {
        let at = position(&self.graph, p, c).map_err(|why| vec![(None, why)])?;
        let pair = Pair::new(&self.graph, p, c, t);
        let mut best: Option<Candidate> = None;
        let mut reasons = Vec::new();
        let before = self.costs[p].cost.saturating_add(self.costs[c].cost);
        for &how in How::ALL {
            let made = match how {
                How::Epilogue => pair.epilogue().map(|node| (node, None)),
                How::SameTile => pair.same_tile().map(|node| (node, None)),
                How::Prologue => pair.prologue().map(|node| (node, None)),
                // Where the whole producer goes in front of the consumer there is nothing to split.
                How::SplitPrologue if best.is_some() => continue,
                How::SplitPrologue => self.split(&pair, p, c, t).map(|(node, folds)| (node, Some(folds))),
            };
            let found = made.and_then(|(node, folds)| {
                let node = self.accepted(p, c, self.improved(node)?)?;
                let mut sized = self.graph.clone();
                let folds = match folds {
                    Some((node, tensors)) => {
                        sized.tensors.extend(tensors.iter().cloned());
                        let node = self.accepted(p, p, self.improved(node)?)?;
                        Some((estimate(&sized, &node, self.options.typical, self.target), node, tensors))
                    }
                    None => None,
                };
                let after = estimate(&sized, &node, self.options.typical, self.target);
                Ok(Candidate { how, node, after, at, folds: folds.map(|(cost, node, tensors)| (node, cost, tensors)) })
            });
            match found {
                Ok(found) => {
                    let all = found.cost();
                    let after = all.cost;
                    if after >= before && !self.options.always {
                        let [one, two] = [self.costs[p], self.costs[c]];
                        let why = format!(
                            "it would cost {after} instead of {before} ({} and {}), and ask for {} bytes instead of {}",
                            one.cost,
                            two.cost,
                            all.bytes,
                            one.bytes.saturating_add(two.bytes)
                        );
                        reasons.push((Some(how), Refusal::new(RefusalKind::Cost, why)));
                    } else if best.as_ref().is_none_or(|b| after < b.cost().cost) {
                        best = Some(found);
                    }
                }
                Err(why) => reasons.push((Some(how), why)),
            }
        }
        best.ok_or(reasons)
    }

    /// The fused node of a producer whose folds stay behind, the node of these, and the tensors between them.
    fn split(&self, pair: &Pair<'_>, p: usize, c: usize, t: TensorId) -> Result<(Node, (Node, Vec<Tensor>)), Refusal> {
        if pair.wanted() {
            let why = format!("`{}` is read by others, too", self.graph.tensors[t.index()].name);
            return Err(Refusal::new(RefusalKind::Place, why));
        }
        let trial = split::split(&self.graph, p, t)?;
        position(&trial, p + 1, c + 1)?;
        let node = Pair::new(&trial, p + 1, c + 1, t).prologue()?;
        Ok((node, (trial.nodes[p].clone(), trial.tensors[self.graph.tensors.len()..].to_vec())))
    }

    /// The node with its kernel through the logical stage.
    fn improved(&self, node: Node) -> Result<Node, Refusal> {
        let verified = tilelift_ir::verify(&node.kernel).map_err(|e| Refusal::new(RefusalKind::Shape, e.to_string()))?;
        let (kernel, _) = tilelift_egraph::optimise(&verified, &tilelift_egraph::Options::default());
        Ok(Node { kernel: kernel.into_kernel(), ..node })
    }

    /// Whether the target takes the node, and its main loop as well as before.
    fn accepted(&self, p: usize, c: usize, node: Node) -> Result<Node, Refusal> {
        let no = |why: String| Refusal::new(RefusalKind::Target, why);
        let options = Options { opt: OptLevel::None, ..Options::default() };
        let lowered = lower(&node.kernel, self.target, &options).map_err(|e| no(e.to_string()))?;
        if let Schedule::Pipelined { why } = &lowered.plan.schedule {
            let special = |n: usize| {
                let plan = tilelift_isel::plan(&self.graph.nodes[n].kernel, self.target, &LowerOptions::default());
                plan.is_ok_and(|p| p.specialised().is_some())
            };
            if let Some(n) = [p, c].into_iter().find(|&n| special(n)) {
                return Err(no(format!("the main loop of `{}` would no longer be specialised: {why}", self.graph.nodes[n].name)));
            }
        }
        Ok(node)
    }
}

/// Where the fused node may run: in the consumer's place, or in the producer's.
fn position(graph: &Graph, p: usize, c: usize) -> Result<usize, Refusal> {
    let nodes = &graph.nodes;
    let conflict = |a: &Node, b: &Node| {
        let ids = a.args.iter().filter_map(|x| x.tensor()).map(|(t, _)| t);
        ids.into_iter().any(|t| {
            let (a, b) = (uses(a, t), uses(b, t));
            (a.writes && (b.reads || b.writes)) || (b.writes && a.reads)
        })
    };
    let against = |moved: usize| (p + 1..c).find(|&n| conflict(&nodes[moved], &nodes[n]));
    match (against(p), against(c)) {
        (None, _) => Ok(c - 1),
        (_, None) => Ok(p),
        (Some(n), Some(_)) => Err(Refusal::new(
            RefusalKind::Order,
            format!("`{}` stands between `{}` and `{}` and needs the order", nodes[n].name, nodes[p].name, nodes[c].name),
        )),
    }
}
