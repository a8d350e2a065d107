//! Why the chosen program: the chain of rules for each value that is computed in another way than it was written.
//!
//! While a graph is saturated for an explanation, every equality is noted as a step: rule, node, node. In the final graph the
//! steps join the nodes of a class; the explanation of a class is a shortest path from a node of the input program to the chosen
//! one. Operands are explained in their own classes, so an explanation is as long as the program, not as the trees in it (a proof
//! over whole terms would copy what the program shares).

use crate::cost::{Family, once};
use crate::forest::{Choice, Forest, canonical};
use crate::graph::{Graph, Read};
use crate::hash::{IndexMap, IndexSet};
use crate::language::{Head, Node};
use crate::log::{Event, Step};
use crate::options::Options;
use crate::report::Skipped;
use crate::solve::{Solved, solve};
use crate::whole::Whole;
use egg::Id;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Write;
use tilelift_ir::{Attr, Verified, text};

/// A node in words: operands are classes, `e` and their number.
pub(crate) fn words(g: &Graph, node: &Node) -> String {
    let kid = |&k: &Id| match g.fact(k).value {
        Some(l) => text::literal_text(l, g.ty(k).elem()),
        None => format!("e{}", g.find(k)),
    };
    match node.head {
        Head::Leaf { value, .. } => format!("value {value}"),
        Head::Fold { .. } | Head::State { .. } => {
            let kids: Vec<String> = node.kids.iter().map(kid).collect();
            format!("{node} {} : {}", kids.join(", "), g.node_ty(node))
        }
        Head::Op { op, result, .. } => {
            let mut out = op.to_string();
            for a in g.attrs(node) {
                let _ = match a {
                    Attr::Literal(l) => write!(out, " {}", text::literal_text(*l, g.node_ty(node).elem())),
                    other => write!(out, " {other:?}"),
                };
            }
            let kids: Vec<String> = node.kids.iter().map(kid).collect();
            let _ = write!(out, " {}", kids.join(", "));
            if op.info().results() > 1 {
                let _ = write!(out, " #{result}");
            }
            format!("{} : {}", out.trim_end(), g.node_ty(node))
        }
    }
}

/// The steps between canonical nodes, by the node on either side.
struct Steps {
    list: Vec<(Node, Node, &'static str)>,
    at: IndexMap<Node, Vec<usize>>,
}

impl Steps {
    fn new(g: &Graph) -> Steps {
        let mut s = Steps { list: Vec::new(), at: IndexMap::default() };
        for event in g.analysis.log.iter().flatten() {
            let Event::Step(Step { rule, left, right: Some(right), .. }) = event else { continue };
            let (a, b) = (canonical(g, g.id_to_node(*left)), canonical(g, g.id_to_node(*right)));
            if a != b {
                s.at.entry(a.clone()).or_default().push(s.list.len());
                s.at.entry(b.clone()).or_default().push(s.list.len());
                s.list.push((a, b, rule));
            }
        }
        s
    }

    /// A shortest chain from one of some nodes to a node: rules with the node each leads to.
    fn chain(&self, from: &[Node], to: &Node) -> Option<(Node, Vec<(&'static str, Node)>)> {
        let mut came: IndexMap<Node, Option<(Node, &'static str)>> = from.iter().map(|n| (n.clone(), None)).collect();
        let mut queue: VecDeque<Node> = from.iter().cloned().collect();
        while let Some(n) = queue.pop_front() {
            if n == *to {
                let (mut path, mut at) = (Vec::new(), n);
                while let Some((before, rule)) = came[&at].clone() {
                    path.push((rule, at));
                    at = before;
                }
                path.reverse();
                return Some((at, path));
            }
            for &i in self.at.get(&n).into_iter().flatten() {
                let (a, b, rule) = &self.list[i];
                let next = if *a == n { b } else { a };
                if !came.contains_key(next) {
                    came.insert(next.clone(), Some((n.clone(), *rule)));
                    queue.push_back(next.clone());
                }
            }
        }
        None
    }
}

/// What costs are counted in, see [`crate::cost`].
const UNIT: &str = "in sixteenths of one operation of a lane, on no particular machine: they rank programs, and are no times";

/// The explanation of a kernel's optimisation as text.
pub fn explain(kernel: &Verified<'_>, options: &Options) -> String {
    if let Some(why) = Skipped::of(kernel.kernel()) {
        let what = match why {
            Skipped::Explicit => "left as it is",
            Skipped::Size { .. } => "not explained",
        };
        return format!("@{}: {what}, because {why}\n", kernel.name);
    }
    let Some(s) = solve(kernel.kernel(), options, true) else { return "no program could be extracted\n".into() };
    let mut out = format!("@{}: cost {} as written, {} chosen ({UNIT})\n", kernel.name, s.report.before, s.report.after);
    for n in &s.report.narrowed {
        let _ = writeln!(out, "{n}");
    }
    let steps = Steps::new(&s.graph);
    let original: IndexSet<Node> = s.skeleton.original.iter().map(|n| canonical(&s.graph, n)).collect();
    let order = s.forest.order(&s.choice.of, &s.forest.roots).unwrap_or_default();
    for class in order {
        let Some(c) = s.forest.chosen(&s.choice, class) else { continue };
        let id = s.forest.ids[class];
        if original.contains(&c.node) || c.node.op().is_none() {
            continue;
        }
        let inputs: Vec<Node> = s.graph[id].nodes.iter().filter(|n| original.contains(*n)).cloned().collect();
        let place = s.skeleton.origin.iter().find(|(k, _)| s.graph.find(**k) == id).map(|(_, &inst)| kernel.locs[inst]);
        let line = place.filter(|l| l.is_text()).map_or(String::new(), |l| format!(" (line {})", l.line));
        match steps.chain(&inputs, &c.node) {
            Some((start, path)) => {
                let _ = writeln!(out, "e{id}{line} = {}", words(&s.graph, &start));
                for (rule, node) in path {
                    let _ = writeln!(out, "    = {:<60} by {rule}", words(&s.graph, &node));
                }
            }
            // A value that no instruction of the input computed: a part of some rule's answer.
            None => {
                let _ = writeln!(out, "e{id} := {}", words(&s.graph, &c.node));
            }
        }
    }
    removed(kernel, &s, &steps, &mut out);
    let _ = writeln!(out, "whole kernel {} (in the same unit)", s.whole);
    if let Some((other, whole)) = s.others.first() {
        runner_up(&s, other, whole, &mut out);
    }
    out
}

/// The values of the input that the chosen program does not compute as they were written, for another value of the input is the same, or
/// because nobody needs them any more.
fn removed(kernel: &Verified<'_>, s: &Solved, steps: &Steps, out: &mut String) {
    let g = &s.graph;
    let needed: IndexSet<usize> = s.forest.order(&s.choice.of, &s.forest.roots).unwrap_or_default().into_iter().collect();
    let original: IndexSet<Node> = s.skeleton.original.iter().map(|n| canonical(g, n)).collect();
    for node in &original {
        // Constants are parts of what uses them.
        if node.op().is_none_or(|op| Family::of(op, g.node_ty(node).elem()) == Family::Free) {
            continue;
        }
        let Some(id) = g.lookup(node.clone()) else { continue };
        let class = s.forest.at(g, id);
        let place = s.skeleton.origin.iter().find(|(k, _)| g.find(**k) == g.find(id)).map(|(_, &inst)| kernel.locs[inst]);
        let line = place.filter(|l| l.is_text()).map_or(String::new(), |l| format!(" (line {})", l.line));
        let chosen = s.forest.chosen(&s.choice, class).filter(|_| needed.contains(&class));
        match chosen {
            Some(c) if c.node == *node || !original.contains(&c.node) => {}
            Some(c) => {
                let _ = writeln!(out, "e{id}{line} = {}", words(g, node));
                match steps.chain(std::slice::from_ref(node), &c.node) {
                    Some((_, path)) => {
                        for (rule, node) in path {
                            let _ = writeln!(out, "    = {:<60} by {rule}", words(g, &node));
                        }
                    }
                    None => {
                        let _ = writeln!(out, "    = {}", words(g, &c.node));
                    }
                }
            }
            None => {
                let _ = writeln!(out, "e{id}{line} = {}\n    is not needed any more", words(g, node));
            }
        }
    }
}

/// What the next best program does otherwise, and why it was not taken: the cost of the whole kernel, and of nodes by family of ops.
fn runner_up(s: &Solved, other: &Choice, whole: &Whole, out: &mut String) {
    let _ = writeln!(out, "next best program {whole}");
    let (ours, theirs) = (s.whole.time(), whole.time());
    let nodes = i128::from(other.total) - i128::from(s.choice.total);
    let _ = match theirs.cmp(&ours) {
        Ordering::Greater => writeln!(out, "    not taken: the whole kernel costs {} more; its nodes {nodes:+}", theirs - ours),
        Ordering::Equal if nodes > 0 => writeln!(out, "    not taken: the whole kernel costs the same, its nodes {nodes:+}"),
        Ordering::Equal | Ordering::Less => writeln!(out, "    not taken: all costs are the same, and it was found later"),
    };
    let spent = |choice: &Choice| {
        let mut by: IndexMap<Family, i128> = IndexMap::default();
        for class in s.forest.order(&choice.of, &s.forest.roots).unwrap_or_default() {
            if let Some(c) = s.forest.chosen(choice, class)
                && let Some(op) = c.node.op()
            {
                *by.entry(Family::of(op, s.graph.node_ty(&c.node).elem())).or_default() += i128::from(once(&s.graph, &c.node).max(1));
            }
        }
        by
    };
    for class in 0..s.forest.ids.len() {
        let (Some(a), Some(b)) = (s.forest.chosen(&s.choice, class), s.forest.chosen(other, class)) else { continue };
        if a.node != b.node {
            let _ = writeln!(out, "    e{}: {} instead of {}", s.forest.ids[class], words(&s.graph, &b.node), words(&s.graph, &a.node));
        }
    }
    let (ours, theirs) = (spent(&s.choice), spent(other));
    let families: IndexSet<Family> = ours.keys().chain(theirs.keys()).copied().collect();
    for f in families {
        let difference = theirs.get(&f).unwrap_or(&0) - ours.get(&f).unwrap_or(&0);
        if difference != 0 {
            let _ = writeln!(out, "    {f:?}: {difference:+}");
        }
    }
}

/// The graph for Graphviz: a box per class, the chosen nodes filled.
pub fn dot(kernel: &Verified<'_>, options: &Options) -> String {
    let Some(s) = (if Skipped::of(kernel.kernel()).is_some() { None } else { solve(kernel.kernel(), options, false) }) else {
        return String::new();
    };
    let Solved { graph: g, forest, choice, .. } = &s;
    let mut out = format!("digraph \"{}\" {{\n  compound=true; rankdir=BT; node [shape=box];\n", kernel.name);
    for (class, &id) in forest.ids.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_{class} {{ label=\"e{id}\";");
        for (n, node) in g[id].nodes.iter().enumerate() {
            let filled = if is_chosen(forest, choice, class, node) { " style=filled" } else { "" };
            let _ = writeln!(out, "    n{class}_{n} [label=\"{}\"{filled}];", words(g, node).replace('"', "'"));
        }
        out.push_str("  }\n");
    }
    for (class, &id) in forest.ids.iter().enumerate() {
        for (n, node) in g[id].nodes.iter().enumerate() {
            for &k in &node.kids {
                let to = forest.at(g, k);
                let _ = writeln!(out, "  n{to}_0 -> n{class}_{n} [ltail=cluster_{to}];");
            }
        }
    }
    out.push_str("}\n");
    out
}

fn is_chosen(forest: &Forest, choice: &Choice, class: usize, node: &Node) -> bool {
    forest.chosen(choice, class).is_some_and(|c| c.node == *node)
}
