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
use egg::{
    Applier, EGraph, Id, PatternAst, Rewrite, RewriteScheduler, Runner, RunnerLimits, RunnerResult, SearchMatches, Searcher, StopReason,
    Subst, Symbol, Var,
};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;
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
        let mut classes: SmallVec<[Id; 32]> = SmallVec::new();
        for kind in self.0.roots.kinds() {
            g.classes_for_op(&kind).into_iter().flatten().for_each(|id| classes.push(id));
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

/// The rules as egg takes them, in table order: made once, since they hold nothing of a graph.
fn rewrites() -> &'static [(&'static Rule, Rewrite<Node, Context>)] {
    static REWRITES: OnceLock<Vec<(&'static Rule, Rewrite<Node, Context>)>> = OnceLock::new();
    let made = |r: &'static Rule| (r, Rewrite::new(r.name, Find(r), Add(r)).expect("a rule without variables"));
    REWRITES.get_or_init(|| crate::rules::all().map(made).collect())
}

/// Bounds the matches of each rule and counts them.
struct Fuel {
    limit: usize,
    names: Vec<Symbol>,
    /// The rule that comes next, if they come in order.
    next: usize,
    /// The round in which rules are applied.
    round: Option<usize>,
    /// Rules are timed.
    timed: bool,
    /// Rules that have nothing to say of the graph as it was handed over: the phase in front applied them to the end.
    settled: Vec<bool>,
    counts: Rc<RefCell<Vec<Count>>>,
}

impl Fuel {
    /// The number of a rule. They come one after the other.
    fn index(&mut self, name: Symbol) -> usize {
        let i = match self.names.get(self.next) {
            Some(&n) if n == name => self.next,
            _ => self.names.iter().position(|&n| n == name).unwrap_or(0),
        };
        self.next = (i + 1) % self.names.len().max(1);
        i
    }

    /// Now, if somebody wants to know how long a rule takes: two looks at the clock take longer than most rules.
    fn now(&self) -> Option<Instant> {
        self.timed.then(Instant::now)
    }
}

/// The time since then.
fn since(start: Option<Instant>) -> Duration {
    start.map_or(Duration::ZERO, |s| s.elapsed())
}

impl RewriteScheduler<Node, Context> for Fuel {
    /// Limits are looked at in front of a round and behind each rule that is applied: nothing grows here.
    fn search_rewrites<'a>(
        &mut self,
        round: usize,
        g: &Graph,
        rules: &[&'a Rewrite<Node, Context>],
        _: &RunnerLimits,
    ) -> RunnerResult<Vec<Vec<SearchMatches<'a, Node>>>> {
        Ok(rules.iter().map(|rule| self.search_rewrite(round, g, rule)).collect())
    }

    fn search_rewrite<'a>(&mut self, round: usize, g: &Graph, rule: &'a Rewrite<Node, Context>) -> Vec<SearchMatches<'a, Node>> {
        let start = self.now();
        let i = self.index(rule.name);
        if round == 0 && self.settled[i] {
            return Vec::new();
        }
        let left = self.limit - self.counts.borrow()[i].matches.min(self.limit);
        let found = rule.searcher.search_with_limit(g, left);
        let c = &mut self.counts.borrow_mut()[i];
        c.matches += found.len();
        c.starved |= c.matches >= self.limit;
        c.time += since(start);
        found
    }

    fn apply_rewrite(
        &mut self,
        round: usize,
        g: &mut EGraph<Node, Context>,
        rule: &Rewrite<Node, Context>,
        found: Vec<SearchMatches<'_, Node>>,
    ) -> usize {
        let start = self.now();
        if self.round != Some(round) {
            self.round = Some(round);
            note(g, Event::Rebuild);
        }
        let n = rule.apply(g, &found).len();
        let i = self.index(rule.name);
        let c = &mut self.counts.borrow_mut()[i];
        c.applied += n;
        c.time += since(start);
        n
    }
}

/// Runs the phases on a graph.
pub(crate) fn saturate(mut g: Graph, options: &Options) -> (Graph, Vec<PhaseReport>, Vec<RuleReport>) {
    let mut phases = Vec::new();
    let mut reports: Vec<RuleReport> = Vec::with_capacity(rewrites().len());
    // The phase up to which all rules have been applied to the end.
    let mut settled: Option<Phase> = None;
    for phase in [Phase::Simplify, Phase::Move] {
        let mut rules = Vec::with_capacity(rewrites().len());
        rules.extend(rewrites().iter().filter(|(r, _)| r.phase <= phase && options.admits(r)));
        if let Some(seed) = options.chaos {
            shuffle(&mut rules, seed);
        }
        let counts = Rc::new(RefCell::new(vec![Count::default(); rules.len()]));
        let fuel = Fuel {
            limit: options.matches,
            names: rules.iter().map(|(_, r)| r.name).collect(),
            next: 0,
            round: None,
            timed: options.timed,
            settled: rules.iter().map(|(r, _)| settled.is_some_and(|p| r.phase <= p)).collect(),
            counts: Rc::clone(&counts),
        };
        let runner: Runner<Node, Context> = Runner::new(Context::default())
            .with_egraph(g)
            .with_scheduler(fuel)
            .with_iter_limit(options.iterations)
            .with_node_limit(options.nodes)
            .with_time_limit(Duration::MAX)
            .run(rules.iter().map(|(_, r)| r));
        let counts = counts.borrow();
        let starved = counts.iter().any(|c| c.starved);
        let stop = match &runner.stop_reason {
            Some(StopReason::Saturated) | None if starved => Stop::Matches,
            Some(StopReason::Saturated) | None => Stop::Saturated,
            Some(StopReason::IterationLimit(_)) => Stop::Iterations,
            Some(StopReason::NodeLimit(_)) => Stop::Nodes,
            Some(StopReason::TimeLimit(_) | StopReason::Other(_)) => Stop::Iterations,
        };
        settled = (stop == Stop::Saturated).then_some(phase);
        g = runner.egraph;
        phases.push(PhaseReport {
            name: phase.name(),
            stop,
            iterations: runner.iterations.len(),
            nodes: g.total_number_of_nodes(),
            classes: g.number_of_classes(),
        });
        for ((rule, _), c) in rules.iter().zip(counts.iter()) {
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
