//! What the search over a graph knows, and the two questions that take time: what a kernel becomes, and whether the target takes it.

use super::cost::Estimate;
use super::outside::alike;
use super::report::{Effort, FuseRule, How, Refusal, RefusalKind};
use super::sets::Set;
use super::waiting::{LARGEST, for_a_lane, too_many};
use crate::compile::{OptLevel, Options, lower};
use crate::graph::nodes::{Graph, Node, Tensor, TensorId, Use, uses};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tilelift_egraph::Class;
use tilelift_isel::{LowerOptions, Schedule, Target};

/// What fusion may be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuseOptions {
    /// What symbols count as when costs are compared.
    pub typical: u32,
    /// Fuse wherever it is right, whatever it costs; for tests.
    pub always: bool,
    /// What may change of results: with [`Class::Reassoc`] the number and order of roundings, of tensors that are stored no more, too, with
    /// [`Class::Free`] nothing but what a `dot` leaves open.
    pub allow: Class,
}

impl Default for FuseOptions {
    fn default() -> FuseOptions {
        FuseOptions { typical: 2048, always: false, allow: Class::Reassoc }
    }
}

impl FuseOptions {
    /// Fused kernels compute the same bits as those that they stand for, but for the order of sums that `dot` leaves open.
    pub fn exact() -> FuseOptions {
        FuseOptions { allow: Class::Free, ..FuseOptions::default() }
    }
}

/// How much a fusion is worth: launches that go (only if all is fused that is right), then what it gains.
pub(super) type Worth = (usize, u64);

/// A producer and a consumer, by their places, with the tensor between them.
pub(super) type Link = (usize, usize, TensorId);

/// A fused node that may take the place of two.
pub(super) struct Way {
    pub how: How,
    pub node: Node,
    pub after: Estimate,
    /// What stays in the producer's place, and the tensors from there to the fused node.
    pub folds: Option<(Node, Estimate, Vec<Tensor>)>,
    /// The target is known to take it.
    pub accepted: bool,
}

impl Way {
    /// Cost of all that takes the place of the two.
    pub fn cost(&self) -> Estimate {
        let folds = self.folds.as_ref().map_or(Estimate::default(), |f| f.1);
        Estimate { cost: self.after.cost.saturating_add(folds.cost), bytes: self.after.bytes.saturating_add(folds.bytes) }
    }
}

/// Who uses each tensor of a pair, in order.
pub(super) type Users = Vec<Vec<(u32, Use)>>;

/// What is known of a pair.
pub(super) struct Known {
    /// What it rests on.
    pub users: Users,
    /// Tensors of the graph when folds got theirs.
    pub tensors: usize,
    /// The ways that pay, the cheapest first.
    pub ways: Vec<Way>,
    /// What is against the others.
    pub reasons: Vec<(Option<How>, Refusal)>,
    /// What takes the producer apart was tried, too.
    pub split: bool,
}

/// Producers inside of their sink.
pub(super) struct Joined {
    pub node: Node,
    pub after: Estimate,
    pub rules: Vec<FuseRule>,
    /// The target is known to take it.
    pub accepted: bool,
}

/// What was made of sets of producers, by the numbers of the nodes: it rests on these alone. What rests on other nodes is asked in each step.
pub(super) type Made = BTreeMap<(Vec<u32>, Vec<TensorId>), Result<Joined, Refusal>>;

pub(super) struct Search<'a> {
    pub(super) graph: Graph,
    /// A number per node that is never used again.
    pub(super) ids: Vec<u32>,
    pub(super) costs: Vec<Estimate>,
    /// What each node does to tensors.
    pub(super) uses: Vec<Vec<(TensorId, Use)>>,
    pub(super) next: u32,
    pub(super) known: BTreeMap<(u32, u32, TensorId), Known>,
    pub(super) made: Made,
    /// The sets that stay apart in this step.
    pub(super) refused: BTreeMap<Set, Refusal>,
    pub(super) target: &'a Target,
    pub(super) options: &'a FuseOptions,
    pub(super) effort: Cell<Effort>,
    /// Rules of the optimizer, and in how many kernels each fired.
    pub(super) fired: RefCell<BTreeMap<&'static str, usize>>,
}

impl Search<'_> {
    pub(super) fn worth(&self, launches: usize, before: u64, after: u64) -> Worth {
        (if self.options.always { launches } else { 0 }, before.saturating_sub(after))
    }

    /// What a node does to a tensor.
    pub(super) fn does(&self, node: usize, t: TensorId) -> Use {
        self.uses[node].iter().find(|u| u.0 == t).map_or(Use::default(), |u| u.1)
    }

    /// By tensor the nodes that use it, in order.
    pub(super) fn users(&self) -> Vec<Vec<(usize, Use)>> {
        let mut users = vec![Vec::new(); self.graph.tensors.len()];
        for (n, uses) in self.uses.iter().enumerate() {
            uses.iter().for_each(|&(t, u)| users[t.index()].push((n, u)));
        }
        users
    }

    /// The node with its kernel through the logical stage.
    pub(super) fn improved(&self, graph: &Graph, node: Node) -> Result<Node, Refusal> {
        self.count(|e| e.made += 1);
        let node = alike(graph, node);
        let verified = tilelift_ir::verify(&node.kernel).map_err(|e| Refusal::new(RefusalKind::Shape, e.to_string()))?;
        let options = tilelift_egraph::Options { allow: self.options.allow, ..Default::default() };
        let (kernel, report) = tilelift_egraph::optimise(&verified, &options);
        let mut fired = self.fired.borrow_mut();
        report.rules.iter().filter(|r| r.applied > 0).for_each(|r| *fired.entry(r.name).or_default() += 1);
        Ok(Node { kernel: kernel.into_kernel(), ..node })
    }

    /// Whether the target takes the node, and its main loop as well as those of the nodes that it stands for.
    pub(super) fn accepted(&self, before: &[usize], node: &Node) -> Result<(), Refusal> {
        self.count(|e| e.lowered += 1);
        let no = |why: String| Refusal::new(RefusalKind::Target, why);
        let parts = before.iter().map(|&n| for_a_lane(&self.graph.nodes[n].kernel)).max().unwrap_or(u64::MAX);
        let elements = for_a_lane(&node.kernel);
        if elements > LARGEST.max(parts) {
            return Err(no(format!("each lane would hold {elements} elements of a tile")));
        }
        let options = Options { opt: OptLevel::None, ..Options::default() };
        let lowered = lower(&node.kernel, self.target, &options).map_err(|e| no(e.to_string()))?;
        if let Some(n) = too_many(&node.kernel, lowered.plan.warps).filter(|_| !before.is_empty()) {
            return Err(no(format!("sums and what waits beside them would take {n} registers of each lane")));
        }
        if let Schedule::Pipelined { why } = &lowered.plan.schedule {
            let special = |n: usize| {
                let plan = tilelift_isel::plan(&self.graph.nodes[n].kernel, self.target, &LowerOptions::default());
                plan.is_ok_and(|p| p.specialised().is_some())
            };
            if let Some(n) = before.iter().copied().find(|&n| special(n)) {
                return Err(no(format!("the main loop of `{}` would no longer be specialised: {why}", self.graph.nodes[n].name)));
            }
        }
        Ok(())
    }

    fn count(&self, add: impl FnOnce(&mut Effort)) {
        let mut effort = self.effort.get();
        add(&mut effort);
        self.effort.set(effort);
    }
}

/// Where the fused node may run: in the consumer's place, or in the producer's.
pub(super) fn position(graph: &Graph, p: usize, c: usize) -> Result<usize, Refusal> {
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
