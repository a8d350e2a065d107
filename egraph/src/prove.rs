//! Proofs: every step of an optimisation is made again, and what the optimizer chose is shown to follow from what was written.
//!
//! ```text
//! saturate, egg's explanations on ─► log of steps ─► made again, one by one, in a fresh graph     each is an instance of its rule
//!                                 └► egg's proof: written = chosen, per root of the skeleton      each edge is a step of the log
//! ```
//!
//! A proof is a tree whose parts are shared. It is walked once per part, so its cost is that of the graph, not of the terms in it.

use crate::explain::words;
use crate::graph::Graph;
use crate::hash::{IndexMap, IndexSet};
use crate::language::{Head, Node};
use crate::log::FOLD;
use crate::log::{Event, Step};
use crate::options::Options;
use crate::solve::{Solved, solve};
use crate::{rules, skeleton};
use egg::{Id, TreeExplanation, TreeTerm};
use smallvec::SmallVec;
use std::fmt;
use std::rc::Rc;
use tilelift_ir::Verified;

/// What was proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// Steps that were made again.
    pub steps: usize,
    /// Values of the program that were proved to equal what was written.
    pub roots: usize,
    /// Uses of steps in those proofs.
    pub edges: usize,
}

/// Why an optimisation is not proved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gap {
    /// No program could be extracted.
    NoProgram,
    /// The choice has a cycle, or no node for what it needs.
    Choice,
    /// A step of the log is no instance of its rule.
    Step {
        /// The rule.
        rule: &'static str,
        /// What it was applied to.
        node: String,
        /// Why it is none.
        why: NoStep,
    },
    /// The steps, made again, are others.
    Other {
        /// The first step that differs, of so many.
        at: usize,
        /// Steps of the log.
        of: usize,
        /// What was made.
        made: String,
        /// What the log has.
        logged: String,
    },
    /// A proof is of something else.
    Elsewhere {
        /// What it was to be about.
        node: String,
    },
    /// A part of a proof goes both ways.
    BothWays,
    /// No step of the log leads where a proof goes.
    Missing {
        /// The rule that is named there.
        rule: String,
        /// Where.
        node: String,
    },
    /// A proof without parts.
    Empty,
}

/// Why a step is no instance of its rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoStep {
    /// No such rule may apply.
    Rule,
    /// The rule does not look at such nodes.
    Node,
    /// The rule has nothing to say of it.
    Silent,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::NoProgram => f.write_str("no program could be extracted"),
            Gap::Choice => f.write_str("the choice has a cycle, or no node for what it needs"),
            Gap::Step { rule, node, why } => write!(
                f,
                "{rule} on {node}: {}",
                match why {
                    NoStep::Rule => "no such rule may apply",
                    NoStep::Node => "the rule does not look at this node",
                    NoStep::Silent => "the rule has nothing to say",
                }
            ),
            Gap::Other { at, of, made, logged } => write!(f, "step {at} of {of} is {made} when it is made again, not {logged}"),
            Gap::Elsewhere { node } => write!(f, "a proof about {node} is of something else"),
            Gap::BothWays => f.write_str("a part of a proof goes both ways"),
            Gap::Missing { rule, node } => write!(f, "a gap of a proof at {node}: no step by {rule} leads there"),
            Gap::Empty => f.write_str("an empty proof"),
        }
    }
}

/// Proves an optimisation of a kernel.
///
/// # Errors
/// The first step that is no instance of its rule, or the first place where a proof has a gap.
pub fn prove(kernel: &Verified<'_>, options: &Options) -> Result<Proof, Gap> {
    if kernel.is_explicit() {
        // Nothing is done to it.
        return Ok(Proof::default());
    }
    let s = solve(kernel.kernel(), options, true).ok_or(Gap::NoProgram)?;
    let steps = repeat(kernel, &s, options)?;
    let (roots, edges) = follow(s)?;
    Ok(Proof { steps, roots, edges })
}

/// Checks that every root of the chosen program follows from what was written: roots, uses of steps.
fn follow(s: Solved) -> Result<(usize, usize), Gap> {
    let Solved { mut graph, skeleton, forest, choice, .. } = s;
    // The chosen program as terms of its own.
    let mut built: Vec<Option<Id>> = vec![None; forest.ids.len()];
    for class in forest.order(&choice.of, &forest.roots).ok_or(Gap::Choice)? {
        let c = forest.chosen(&choice, class).ok_or(Gap::Choice)?;
        if let Some((fold, n)) = c.state {
            // The fold whose state it is, which need not be chosen itself.
            let fold = &forest.nodes[fold][n as usize];
            let mut node = fold.node.clone();
            for (k, &kid) in node.kids.iter_mut().zip(&fold.kids) {
                *k = built[kid].ok_or(Gap::Choice)?;
            }
            let of = graph.add_uncanonical(node);
            built[class] = Some(graph.add_uncanonical(Node { kids: [of].into_iter().collect(), ..c.node.clone() }));
            continue;
        }
        let mut node = c.node.clone();
        for (k, &kid) in node.kids.iter_mut().zip(&c.kids) {
            *k = built[kid].ok_or(Gap::Choice)?;
        }
        built[class] = Some(graph.add_uncanonical(node));
    }
    let mut roots = IndexSet::default();
    skeleton.visit_classes(&mut |id, _| _ = roots.insert(id));
    let proofs: Vec<(Id, Id, TreeExplanation<_>)> = roots
        .into_iter()
        .map(|left| {
            let right = built[forest.at(&graph, left)].ok_or(Gap::Choice)?;
            Ok((left, right, graph.explain_id_equivalence(left, right).explanation_trees))
        })
        .collect::<Result<_, Gap>>()?;
    let mut checker = Checker::new(&graph);
    for (left, right, proof) in &proofs {
        checker.proof(*left, *right, proof)?;
    }
    Ok((proofs.len(), checker.edges))
}

/// Makes the steps of a log again in a fresh graph: where the log says so the named rule must answer, with that very term.
fn repeat(kernel: &Verified<'_>, s: &Solved, options: &Options) -> Result<usize, Gap> {
    let (mut g, _) = skeleton::build(s.narrower.as_ref().unwrap_or(kernel.kernel()), options.allow, true);
    let log = s.graph.analysis.log.as_deref().unwrap_or_default();
    let mut count = 0;
    for event in log {
        match event {
            Event::Rebuild => {
                g.rebuild();
                crate::graph::note(&mut g, Event::Rebuild);
            }
            // The graph folds by itself; whether it did is seen below.
            Event::Step(step) if step.rule == FOLD => {}
            Event::Step(step) => {
                again(&mut g, step, options).map_err(|why| Gap::Step { rule: step.rule, node: words(&s.graph, &step.node), why })?;
                count += 1;
            }
        }
    }
    g.rebuild();
    let made = g.analysis.log.as_deref().unwrap_or_default();
    if made != log {
        let at = made.iter().zip(log).take_while(|(a, b)| a == b).count();
        return Err(Gap::Other { at, of: log.len(), made: format!("{:?}", made.get(at)), logged: format!("{:?}", log.get(at)) });
    }
    Ok(count)
}

fn again(g: &mut Graph, step: &Step, options: &Options) -> Result<(), NoStep> {
    let rule = rules::all().find(|r| r.name == step.rule && options.admits(r)).ok_or(NoStep::Rule)?;
    if !rule.roots.has(g, &step.node) {
        return Err(NoStep::Node);
    }
    let term = (rule.apply)(g, step.class, &step.node).ok_or(NoStep::Silent)?;
    crate::saturate::step(g, rule.name, step.class, &step.node, &term);
    Ok(())
}

/// A term: its head and the numbers of its operands.
type NumberedTerm = (Head, SmallVec<[u32; 3]>);

/// Checks proofs against the steps of the log.
struct Checker<'g> {
    g: &'g Graph,
    terms: IndexSet<NumberedTerm>,
    of_id: IndexMap<Id, u32>,
    /// The steps: left term, right term, rule.
    steps: IndexSet<(u32, u32, &'static str)>,
    /// First and last term of the parts of proofs that were checked, by address.
    parts: IndexMap<*const TreeTerm<crate::language::Node>, (u32, u32)>,
    edges: usize,
}

impl<'g> Checker<'g> {
    fn new(g: &'g Graph) -> Checker<'g> {
        let mut c = Checker {
            g,
            terms: IndexSet::default(),
            of_id: IndexMap::default(),
            steps: IndexSet::default(),
            parts: IndexMap::default(),
            edges: 0,
        };
        for event in g.analysis.log.iter().flatten() {
            if let Event::Step(Step { rule, left, right: Some(right), .. }) = event {
                let step = (c.term(*left), c.term(*right), *rule);
                c.steps.insert(step);
            }
        }
        c
    }

    fn number(&mut self, head: Head, kids: SmallVec<[u32; 3]>) -> u32 {
        self.terms.insert_full((head, kids)).0 as u32
    }

    /// The term that a number of the graph stands for, as it was added.
    fn term(&mut self, id: Id) -> u32 {
        if let Some(&t) = self.of_id.get(&id) {
            return t;
        }
        let node = self.g.id_to_node(id);
        let kids = node.kids.iter().map(|&k| self.term(k)).collect();
        let t = self.number(node.head, kids);
        self.of_id.insert(id, t);
        t
    }

    fn proof(&mut self, left: Id, right: Id, proof: &TreeExplanation<crate::language::Node>) -> Result<(), Gap> {
        let (first, last) = self.chain(proof)?;
        if (first, last) != (self.term(left), self.term(right)) {
            return Err(Gap::Elsewhere { node: words(self.g, self.g.id_to_node(left)) });
        }
        Ok(())
    }

    /// Checks a chain of terms; its first and last.
    fn chain(&mut self, proof: &TreeExplanation<crate::language::Node>) -> Result<(u32, u32), Gap> {
        let mut ends: Option<(u32, u32)> = None;
        for part in proof {
            let (from, to) = self.part(part)?;
            let Some((first, before)) = ends else {
                ends = Some((from, to));
                continue;
            };
            let step = match (part.forward_rule, part.backward_rule) {
                (Some(rule), None) => Some((before, from, rule)),
                (None, Some(rule)) => Some((from, before, rule)),
                (None, None) => None,
                (Some(_), Some(_)) => return Err(Gap::BothWays),
            };
            let holds = match step {
                Some((a, b, rule)) => {
                    self.edges += 1;
                    rule_name(rule.as_str()).is_some_and(|name| self.steps.contains(&(a, b, name)))
                }
                None => before == from,
            };
            if !holds {
                let rule = step.map_or("the same operands".to_owned(), |s| s.2.to_string());
                return Err(Gap::Missing { rule: rule.to_owned(), node: words(self.g, &part.node) });
            }
            ends = Some((first, to));
        }
        ends.ok_or(Gap::Empty)
    }

    fn part(&mut self, part: &Rc<TreeTerm<crate::language::Node>>) -> Result<(u32, u32), Gap> {
        if let Some(&ends) = self.parts.get(&Rc::as_ptr(part)) {
            return Ok(ends);
        }
        let mut ends = (SmallVec::new(), SmallVec::new());
        for child in &part.child_proofs {
            let (first, last) = self.chain(child)?;
            ends.0.push(first);
            ends.1.push(last);
        }
        let ends = (self.number(part.node.head, ends.0), self.number(part.node.head, ends.1));
        self.parts.insert(Rc::as_ptr(part), ends);
        Ok(ends)
    }
}

/// The name of the table that a proof means.
fn rule_name(name: &str) -> Option<&'static str> {
    if name == FOLD { Some(FOLD) } else { rules::all().find(|r| r.name == name).map(|r| r.name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::{text, verify};

    /// A log that lacks a step, or names another rule for one, must not pass for a proof.
    #[test]
    fn a_broken_log_proves_nothing() {
        let source = "kernel @k(v0: view<i32, [16]>, v1: view<i32, [16]>) {\nv2 = load v0[0] : tile<16xi32>\nv3 = neg v2\nv4 = neg v3\nv5 = splat 0 : tile<16xi32>\nv6 = add v4, v5\nstore v1[0], v6\n}";
        let file = text::parse(source).expect("parses");
        let kernel = verify(&file.kernels[0]).expect("verifies");
        let options = Options::default();
        let solved = || solve(kernel.kernel(), &options, true).expect("a program");
        let proof = prove(&kernel, &options).expect("a proof");
        assert!(proof.steps >= 2 && proof.edges >= 2, "{proof:?}");
        let rules: Vec<usize> = {
            let s = solved();
            let log = s.graph.analysis.log.as_ref().expect("a log");
            (0..log.len()).filter(|&i| matches!(&log[i], Event::Step(s) if s.rule == "neg-neg" || s.rule == "add-zero")).collect()
        };
        assert!(rules.len() >= 2);
        for i in rules {
            let mut lacking = solved();
            lacking.graph.analysis.log.as_mut().expect("a log").remove(i);
            assert!(follow(lacking).is_err_and(|e| matches!(e, Gap::Missing { .. })));
            let mut wrong = solved();
            if let Event::Step(s) = &mut wrong.graph.analysis.log.as_mut().expect("a log")[i] {
                s.rule = "sub-self";
            }
            assert!(repeat(&kernel, &wrong, &options).is_err());
            assert!(follow(wrong).is_err());
        }
    }
}
