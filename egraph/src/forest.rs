//! What extraction chooses from: classes by dense numbers, the nodes of each that may be chosen with their costs, and what is needed.
//!
//! A node may be chosen only if it can be computed as early as any node of its class, and in as few loops ([`crate::analysis`]), so that
//! each use of the class finds it.

use crate::cost::{Pipe, once, pipe};
use crate::graph::{Graph, bit};
use crate::hash::IndexSet;
use crate::language::{Head, Node};
use crate::skeleton::Skeleton;
use egg::Id;
use smallvec::SmallVec;

/// Dense numbers of classes, their candidates with costs, and the roots.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    /// The class of each number, ascending.
    pub(crate) ids: Vec<Id>,
    /// The event after which each class can be computed.
    pub(crate) avail: Vec<u32>,
    /// The ranges between whose iterations each class differs, and how many ranges there are.
    pub(crate) free: Vec<u64>,
    pub(crate) ranges: usize,
    /// Candidates of each class.
    pub(crate) nodes: Vec<SmallVec<[Candidate; 1]>>,
    /// What the program needs.
    pub(crate) roots: Vec<usize>,
}

/// A node that may be chosen.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) node: Node,
    pub(crate) cost: u64,
    /// The part of a machine that is busy with it.
    pub(crate) pipe: Pipe,
    /// The event that makes it, if it is a leaf or a read.
    pub(crate) own: u32,
    /// What it stands on; of a state what its fold stands on.
    pub(crate) kids: SmallVec<[usize; 3]>,
    /// The candidate whose state it is.
    pub(crate) state: Option<(usize, u32)>,
}

/// A choice of a candidate per class that is needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// The candidate of each class.
    pub(crate) of: Vec<Option<u32>>,
    /// The cost of all that the roots need.
    pub(crate) total: u64,
}

impl Forest {
    pub(crate) fn new(g: &Graph, skeleton: &Skeleton) -> Forest {
        let mut ids: Vec<Id> = g.classes().map(|c| c.id).collect();
        ids.sort_unstable();
        let mut number: Vec<u32> = vec![u32::MAX; ids.last().map_or(0, |&i| usize::from(i) + 1)];
        ids.iter().enumerate().for_each(|(n, &id)| number[usize::from(id)] = n as u32);
        let at = |id: Id| number[usize::from(g.find(id))] as usize;
        let original = originals(g, skeleton);
        let mut states: Vec<(usize, Candidate, usize)> = Vec::new();
        let mut nodes: Vec<SmallVec<[Candidate; 1]>> = ids
            .iter()
            .enumerate()
            .map(|(n, &id)| {
                let class = &g[id];
                let mut list = SmallVec::new();
                for node in &class.nodes {
                    let (own, _) = g.analysis.own(node);
                    if known(g, node) == (class.data.avail, class.data.free) {
                        let cost = cost(g, skeleton, node, original.contains(node));
                        let kids = node.kids.iter().map(|&k| at(k)).collect();
                        let c = Candidate { node: node.clone(), cost, pipe: pipe(g, node), own, kids, state: None };
                        match node.head {
                            Head::State { .. } => states.push((n, c, at(node.kids[0]))),
                            Head::Leaf { .. } | Head::Op { .. } | Head::Fold { .. } => list.push(c),
                        }
                    }
                }
                list
            })
            .collect();
        // A state is made of what one of the folds of its class is made of.
        for (class, c, of) in states {
            for n in 0..nodes[of].len() {
                let fold = &nodes[of][n];
                let same = matches!((fold.node.head, c.node.head), (Head::Fold { range: a, .. }, Head::State { range: b, .. }) if a == b);
                if same {
                    let c = Candidate { kids: fold.kids.clone(), state: Some((of, n as u32)), ..c.clone() };
                    nodes[class].push(c);
                }
            }
        }
        let mut roots = IndexSet::default();
        skeleton.visit_classes(&mut |id, _| {
            roots.insert(at(id));
        });
        let avail = ids.iter().map(|&id| g[id].data.avail).collect();
        let free = ids.iter().map(|&id| g[id].data.free).collect();
        Forest { ids, avail, free, ranges: g.analysis.ranges.len(), nodes, roots: roots.into_iter().collect() }
    }

    /// The number of a class.
    pub(crate) fn at(&self, g: &Graph, id: Id) -> usize {
        self.ids.binary_search(&g.find(id)).expect("a class of the graph")
    }

    /// The chosen candidate of a class.
    pub(crate) fn chosen(&self, choice: &Choice, class: usize) -> Option<&Candidate> {
        choice.of[class].map(|c| &self.nodes[class][c as usize])
    }

    /// The classes that the roots need, operands first; `None` if the choice has a cycle or a hole.
    pub(crate) fn order(&self, of: &[Option<u32>], roots: &[usize]) -> Option<Vec<usize>> {
        // 0 unseen, 1 open, 2 done
        let mut state = vec![0u8; self.ids.len()];
        let mut out = Vec::with_capacity(self.ids.len());
        let mut stack: Vec<(usize, usize)> = Vec::with_capacity(16);
        for &root in roots {
            if state[root] == 0 {
                state[root] = 1;
                stack.push((root, 0));
            }
            while let Some(&mut (class, ref mut next)) = stack.last_mut() {
                let candidate = &self.nodes[class][of[class]? as usize];
                match candidate.kids.get(*next) {
                    Some(&kid) => {
                        *next += 1;
                        match state[kid] {
                            0 => {
                                state[kid] = 1;
                                stack.push((kid, 0));
                            }
                            1 => return None,
                            _ => {}
                        }
                    }
                    None => {
                        state[class] = 2;
                        out.push(class);
                        stack.pop();
                    }
                }
            }
        }
        Some(out)
    }
}

/// What a program costs that no rule has seen: each class has one node. `None` where one has more, or where loops are folds.
pub(crate) fn as_written(g: &Graph, skeleton: &Skeleton) -> Option<u64> {
    if !g.analysis.ranges.is_empty() {
        return None;
    }
    let original = originals(g, skeleton);
    let mut seen = vec![false; g.classes().map(|c| usize::from(c.id) + 1).max().unwrap_or(0)];
    let mut open: Vec<Id> = Vec::with_capacity(seen.len());
    skeleton.visit_classes(&mut |id, _| open.push(g.find(id)));
    let mut total = 0u64;
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[usize::from(id)], true) {
            continue;
        }
        let [node] = &g[id].nodes[..] else { return None };
        total = total.saturating_add(cost(g, skeleton, node, original.contains(node)));
        open.extend(node.kids.iter().map(|&k| g.find(k)));
    }
    Some(total)
}

/// The author's nodes.
fn originals(g: &Graph, skeleton: &Skeleton) -> IndexSet<Node> {
    skeleton.original.iter().map(|n| canonical(g, n)).collect()
}

/// A node over canonical classes.
pub(crate) fn canonical(g: &Graph, node: &Node) -> Node {
    use egg::Language;
    node.clone().map_children(|k| g.find(k))
}

/// When a node can be computed, and the ranges between whose iterations it differs.
fn known(g: &Graph, node: &Node) -> (u32, u64) {
    let own = g.analysis.own(node);
    let (avail, free) = node.kids.iter().map(|&k| &g[k].data).fold(own, |(a, f), k| (a.max(k.avail), f | k.free));
    match node.head {
        Head::Fold { range, .. } => (avail, free & !bit(Some(range))),
        Head::Leaf { .. } | Head::Op { .. } | Head::State { .. } => (avail, free),
    }
}

/// The cost of a node of a class: at least 1, so that a program's cost falls along every edge; weighted by the trips of the loop in
/// which its operands are there, since elaboration moves it out of the loops inside of which they don't change.
fn cost(g: &Graph, skeleton: &Skeleton, node: &Node, original: bool) -> u64 {
    let home = match node.head {
        Head::Leaf { .. } => skeleton.home(g, 0, 0),
        // Elements are put together in the loop.
        Head::Fold { range, .. } => g.analysis.ranges[range as usize].region,
        Head::Op { .. } | Head::State { .. } => {
            let (avail, free) = known(g, node);
            skeleton.home(g, avail, free)
        }
    };
    let weight = skeleton.places[home].weight;
    // Of equal programs the author's.
    once(g, node).saturating_mul(weight).saturating_add(if original { 1 } else { 2 })
}
