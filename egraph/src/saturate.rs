//! Saturation: rules are applied in phases under fuel, never under a clock.
//!
//! ```text
//! simplify   what only shrinks, until nothing changes
//! move       those and what moves conversions, broadcasts and transposes
//! ```
//!
//! Iterations and nodes are bounded per phase, matches per rule. A limit that bites ends the phase; what is in the graph by then is as
//! right as before. Matches are collected in the order of class numbers, so equal inputs give equal graphs.

use crate::graph::{Context, Graph, note};
use crate::language::Node;
use crate::log::{Event, Step};
use crate::options::{Options, PhaseReport, RuleReport, Stop};
use crate::rules::rule::{Phase, Rule};
use crate::term::Term;
use egg::{Applier, EGraph, Id, PatternAst, Rewrite, RewriteScheduler, Runner, SearchMatches, Searcher, StopReason, Subst, Symbol, Var};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Finds the classes where a rule has something to say.
struct Find(&'static Rule);

/// Adds what a rule says.
struct Add(&'static Rule);

fn answers(g: &Graph, rule: &Rule, id: Id, node: &Node) -> Option<Term> {
    let term = (rule.apply)(g, id, node)?;
    (term.find(g) != Some(g.find(id))).then_some(term)
}

impl Searcher<Node, Context> for Find {
    fn search_eclass_with_limit(&self, g: &Graph, id: Id, limit: usize) -> Option<SearchMatches<'_, Node>> {
        let rule = self.0;
        let mut nodes = g[id].nodes.iter().filter(|n| rule.roots.has(g, n));
        (limit > 0 && nodes.any(|n| answers(g, rule, id, n).is_some())).then(|| SearchMatches {
            eclass: id,
            substs: vec![Subst::default()],
            ast: None,
        })
    }

    fn search_with_limit(&self, g: &Graph, limit: usize) -> Vec<SearchMatches<'_, Node>> {
        let mut classes: Vec<Id> = Vec::new();
        for op in self.0.roots.ops() {
            classes.extend(g.classes_for_op(&Some(op)).into_iter().flatten());
        }
        classes.sort_unstable();
        classes.dedup();
        let found = classes.into_iter().filter_map(|id| self.search_eclass_with_limit(g, id, 1));
        found.take(limit).collect()
    }

    fn vars(&self) -> Vec<Var> {
        Vec::new()
    }
}

impl Applier<Node, Context> for Add {
    fn apply_one(&self, g: &mut Graph, id: Id, _: &Subst, _: Option<&PatternAst<Node>>, _: Symbol) -> Vec<Id> {
        let id = g.find(id);
        let nodes: Vec<Node> = g[id].nodes.iter().filter(|n| self.0.roots.has(g, n)).cloned().collect();
        let mut changed = Vec::new();
        for node in nodes {
            let Some(term) = answers(g, self.0, id, &node) else { continue };
            changed.extend(step(g, self.0.name, id, &node, &term));
        }
        changed
    }
}

/// Makes a node equal to what a rule says of it; the class, if that was new.
pub(crate) fn step(g: &mut Graph, rule: &'static str, class: Id, node: &Node, term: &Term) -> Option<Id> {
    let right = term.build(g);
    let left = if right.is_some() { g.add_uncanonical(node.clone()) } else { class };
    if g.analysis.log.is_some() {
        note(g, Event::Step(Step { rule, class, node: node.clone(), left, right }));
    }
    g.union_trusted(left, right?, rule).then(|| g.find(left))
}

/// What the runs of a rule came to.
#[derive(Clone, Copy, Default)]
struct Count {
    matches: usize,
    applied: usize,
    time: Duration,
    starved: bool,
}

/// Bounds the matches of each rule and counts them.
struct Fuel {
    limit: usize,
    names: Vec<Symbol>,
    /// The round in which rules are applied.
    round: Option<usize>,
    counts: Rc<RefCell<Vec<Count>>>,
}

impl Fuel {
    fn index(&self, name: Symbol) -> usize {
        self.names.iter().position(|&n| n == name).unwrap_or(0)
    }
}

impl RewriteScheduler<Node, Context> for Fuel {
    fn search_rewrite<'a>(&mut self, _: usize, g: &Graph, rule: &'a Rewrite<Node, Context>) -> Vec<SearchMatches<'a, Node>> {
        let start = Instant::now();
        let i = self.index(rule.name);
        let left = self.limit - self.counts.borrow()[i].matches.min(self.limit);
        let found = rule.searcher.search_with_limit(g, left);
        let c = &mut self.counts.borrow_mut()[i];
        c.matches += found.len();
        c.starved |= c.matches >= self.limit;
        c.time += start.elapsed();
        found
    }

    fn apply_rewrite(
        &mut self,
        round: usize,
        g: &mut EGraph<Node, Context>,
        rule: &Rewrite<Node, Context>,
        found: Vec<SearchMatches<'_, Node>>,
    ) -> usize {
        let start = Instant::now();
        if self.round != Some(round) {
            self.round = Some(round);
            note(g, Event::Rebuild);
        }
        let n = rule.apply(g, &found).len();
        let i = self.index(rule.name);
        let c = &mut self.counts.borrow_mut()[i];
        c.applied += n;
        c.time += start.elapsed();
        n
    }
}

/// Runs the phases on a graph.
pub(crate) fn saturate(mut g: Graph, options: &Options) -> (Graph, Vec<PhaseReport>, Vec<RuleReport>) {
    let mut phases = Vec::new();
    let mut reports: Vec<RuleReport> = Vec::new();
    for phase in [Phase::Simplify, Phase::Move] {
        let mut rules: Vec<&'static Rule> = crate::rules::all().filter(|r| r.phase <= phase && options.admits(r)).collect();
        if let Some(seed) = options.chaos {
            shuffle(&mut rules, seed);
        }
        let rewrites: Vec<Rewrite<Node, Context>> =
            rules.iter().map(|r| Rewrite::new(r.name, Find(r), Add(r)).expect("a rule without variables")).collect();
        let counts = Rc::new(RefCell::new(vec![Count::default(); rules.len()]));
        let fuel =
            Fuel { limit: options.matches, names: rewrites.iter().map(|r| r.name).collect(), round: None, counts: Rc::clone(&counts) };
        let runner: Runner<Node, Context> = Runner::new(Context::default())
            .with_egraph(g)
            .with_scheduler(fuel)
            .with_iter_limit(options.iterations)
            .with_node_limit(options.nodes)
            .with_time_limit(Duration::MAX)
            .run(&rewrites);
        let counts = counts.borrow();
        let starved = counts.iter().any(|c| c.starved);
        let stop = match &runner.stop_reason {
            Some(StopReason::Saturated) | None if starved => Stop::Matches,
            Some(StopReason::Saturated) | None => Stop::Saturated,
            Some(StopReason::IterationLimit(_)) => Stop::Iterations,
            Some(StopReason::NodeLimit(_)) => Stop::Nodes,
            Some(StopReason::TimeLimit(_) | StopReason::Other(_)) => Stop::Iterations,
        };
        g = runner.egraph;
        phases.push(PhaseReport {
            name: phase.name(),
            stop,
            iterations: runner.iterations.len(),
            nodes: g.total_number_of_nodes(),
            classes: g.number_of_classes(),
        });
        for (rule, c) in rules.iter().zip(counts.iter()) {
            match reports.iter_mut().find(|r| r.name == rule.name) {
                Some(r) => {
                    r.matches += c.matches;
                    r.applied += c.applied;
                    r.time += c.time;
                }
                None => {
                    reports.push(RuleReport { name: rule.name, class: rule.class, matches: c.matches, applied: c.applied, time: c.time });
                }
            }
        }
    }
    (g, phases, reports)
}

fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut state = seed | 1;
    for i in (1..list.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        list.swap(i, (state % (i as u64 + 1)) as usize);
    }
}
