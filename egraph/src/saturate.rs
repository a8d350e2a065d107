//! Saturation: rules are applied in phases under fuel, never under a clock.
//!
//! ```text
//! simplify   what only shrinks, until nothing changes
//! move       those and what moves conversions, broadcasts and transposes
//! ```
//!
//! Iterations and nodes are bounded per phase, matches per rule. A limit that bites ends the phase; what is in the graph by then is as
//! right as before. Matches are collected in the order of class numbers, so equal inputs give equal graphs.

use crate::graph::{Graph, note};
use crate::language::{Kind, Node};
use crate::log::{Event, Step};
use crate::options::{Options, PhaseReport, RuleReport, Stop};
use crate::rules::rule::{Phase, Roots, Rule};
use crate::term::Term;
use egg::{Id, Language};
use smallvec::SmallVec;
use std::time::{Duration, Instant};
use tilelift_ir::Op;

fn answers(g: &Graph, rule: &Rule, id: Id, node: &Node) -> Option<Term> {
    let term = (rule.apply)(g, id, node)?;
    (term.find(g) != Some(g.find(id))).then_some(term)
}

/// The kinds of which a graph has nodes. Most rules look for others.
struct Kinds {
    ops: [bool; Op::ALL.len()],
    /// Those ops that compute elements.
    elementwise: SmallVec<[Op; 32]>,
    folds: bool,
}

impl Kinds {
    fn of(g: &Graph) -> Kinds {
        let mut kinds = Kinds { ops: [false; Op::ALL.len()], elementwise: SmallVec::new(), folds: false };
        for node in g.classes().flat_map(|c| &c.nodes) {
            match node.discriminant() {
                Kind::Op(op) => {
                    let seen = std::mem::replace(&mut kinds.ops[op as usize], true);
                    kinds.elementwise.extend((!seen && op.computes_elements()).then_some(op));
                }
                Kind::Fold => kinds.folds = true,
                Kind::Leaf | Kind::State => {}
            }
        }
        kinds
    }

    /// Kinds among whose nodes are those that a rule looks at.
    fn of_rule(&self, roots: Roots) -> impl Iterator<Item = Kind> + '_ {
        let (list, fold) = match roots {
            Roots::Ops(list) => (list, false),
            Roots::Folds => (&[][..], self.folds),
            Roots::Elementwise => (&self.elementwise[..], false),
        };
        let there = |&&op: &&Op| self.ops[op as usize];
        list.iter().filter(there).map(|&op| Kind::Op(op)).chain(fold.then_some(Kind::Fold))
    }
}

/// The classes in which a rule has something to say, so many at most, in the order of their numbers.
fn search(g: &Graph, rule: &Rule, kinds: &Kinds, most: usize) -> Vec<Id> {
    let mut classes: SmallVec<[Id; 32]> = SmallVec::new();
    for kind in kinds.of_rule(rule.roots) {
        g.classes_for_op(&kind).into_iter().flatten().for_each(|id| classes.push(id));
    }
    classes.sort_unstable();
    classes.dedup();
    let says = |&id: &Id| g[id].nodes.iter().any(|n| rule.roots.has(g, n) && answers(g, rule, id, n).is_some());
    classes.into_iter().filter(says).take(most).collect()
}

/// Adds what a rule says of a class; how many classes were new.
fn apply(g: &mut Graph, rule: &Rule, id: Id) -> usize {
    let id = g.find(id);
    let nodes: SmallVec<[Node; 1]> = g[id].nodes.iter().filter(|n| rule.roots.has(g, n)).cloned().collect();
    let mut changed = 0;
    for node in nodes {
        let Some(term) = answers(g, rule, id, &node) else { continue };
        changed += usize::from(step(g, rule.name, id, &node, &term).is_some());
    }
    changed
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

/// Puts a graph in order, if something was done to it since it was: egg sorts all classes anew in any case.
fn rebuilt(g: &mut Graph) {
    if !g.clean {
        g.rebuild();
    }
}

/// What the runs of a rule came to.
#[derive(Clone, Copy, Default)]
struct Count {
    matches: usize,
    applied: usize,
    time: Duration,
    starved: bool,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.matches += other.matches;
        self.applied += other.applied;
        self.time += other.time;
    }
}

/// A rule in a phase.
struct Entry {
    number: usize,
    rule: &'static Rule,
    /// It has nothing to say of the graph as it was handed over: the phase in front applied it to the end.
    settled: bool,
    count: Count,
}

/// A phase under way.
struct Run<'o> {
    options: &'o Options,
    entries: Vec<Entry>,
    /// Rounds that were begun.
    rounds: usize,
}

/// The time since then.
fn since(start: Option<Instant>) -> Duration {
    start.map_or(Duration::ZERO, |s| s.elapsed())
}

impl Run<'_> {
    /// Now, if somebody wants to know how long a rule takes: two looks at the clock take longer than most rules.
    fn now(&self) -> Option<Instant> {
        self.options.timed.then(Instant::now)
    }

    /// The limit that bites, if one does.
    fn spent(&self, g: &Graph) -> Option<Stop> {
        if g.total_size() > self.options.nodes {
            return Some(Stop::Nodes);
        }
        (self.rounds >= self.options.iterations).then_some(Stop::Iterations)
    }

    /// Runs rounds until one of them changes nothing, or a limit bites.
    fn finish(&mut self, g: &mut Graph) -> Stop {
        rebuilt(g);
        loop {
            let stop = self.spent(g).or_else(|| self.round(g));
            self.rounds += 1;
            if let Some(stop) = stop.or_else(|| self.spent(g)) {
                return stop;
            }
        }
    }

    /// All rules look at the graph; then they apply, one after the other, until a limit bites.
    fn round(&mut self, g: &mut Graph) -> Option<Stop> {
        let before = (g.total_size(), g.number_of_classes());
        let found = self.searched(g);
        note(g, Event::Rebuild);
        let (mut stop, mut applied) = (None, 0);
        for (i, found) in found {
            let start = self.now();
            let rule = self.entries[i].rule;
            let n: usize = found.into_iter().map(|id| apply(g, rule, id)).sum();
            applied += n;
            let c = &mut self.entries[i].count;
            c.applied += n;
            c.time += since(start);
            stop = self.spent(g);
            if stop.is_some() {
                break;
            }
        }
        rebuilt(g);
        let same = applied == 0 && before == (g.total_size(), g.number_of_classes());
        stop.or(same.then_some(Stop::Saturated))
    }

    /// The rules that have something to say, by number, and where. Nothing grows here.
    fn searched(&mut self, g: &Graph) -> Vec<(usize, Vec<Id>)> {
        let kinds = Kinds::of(g);
        let mut all = Vec::new();
        for i in 0..self.entries.len() {
            let start = self.now();
            let (options, first) = (self.options, self.rounds == 0);
            let Entry { rule, settled, count, .. } = &mut self.entries[i];
            if first && *settled {
                continue;
            }
            let found = search(g, rule, &kinds, options.matches.saturating_sub(count.matches));
            count.matches += found.len();
            count.starved |= count.matches >= options.matches;
            count.time += since(start);
            if !found.is_empty() {
                all.push((i, found));
            }
        }
        all
    }
}

/// Runs the phases on a graph. Reports are in table order, those of the first phase in front.
pub(crate) fn saturate(mut g: Graph, options: &Options) -> (Graph, Vec<PhaseReport>, Vec<RuleReport>) {
    const PHASES: [Phase; 2] = [Phase::Simplify, Phase::Move];
    let rules: Vec<&'static Rule> = crate::rules::all().filter(|r| options.admits(r)).collect();
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|&i| rules[i].phase);
    let mut counts = vec![Count::default(); rules.len()];
    let mut phases = Vec::with_capacity(PHASES.len());
    // The phase up to which all rules have been applied to the end.
    let mut settled: Option<Phase> = None;
    for phase in PHASES {
        let entry = |(number, &rule): (usize, &&'static Rule)| {
            let settled = settled.is_some_and(|p| rule.phase <= p);
            (rule.phase <= phase).then_some(Entry { number, rule, settled, count: Count::default() })
        };
        let mut run = Run { options, entries: rules.iter().enumerate().filter_map(entry).collect(), rounds: 0 };
        if let Some(seed) = options.chaos {
            shuffle(&mut run.entries, seed);
        }
        let stop = match run.finish(&mut g) {
            Stop::Saturated if run.entries.iter().any(|e| e.count.starved) => Stop::Matches,
            stop => stop,
        };
        settled = (stop == Stop::Saturated).then_some(phase);
        let (iterations, nodes, classes) = (run.rounds, g.total_number_of_nodes(), g.number_of_classes());
        phases.push(PhaseReport { name: phase.name(), stop, iterations, nodes, classes });
        run.entries.iter().for_each(|e| counts[e.number].add(e.count));
    }
    let report = |i: usize| {
        let (rule, Count { matches, applied, time, .. }) = (rules[i], counts[i]);
        RuleReport { name: rule.name, class: rule.class, matches, applied, time }
    };
    (g, phases, order.into_iter().map(report).collect())
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
