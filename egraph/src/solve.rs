//! One graph of a program: built, saturated, and the best kernel of it.

use crate::elaborate;
use crate::extract::{self, Mode};
use crate::fault::Broken;
use crate::forest::{self, Choice, Forest};
use crate::graph::{self, Read};
use crate::narrow;
use crate::options::Options;
use crate::report::Report;
use crate::rules::Class;
use crate::saturate;
use crate::skeleton;
use crate::whole::{self, Whole};
use std::time::Instant;
use tilelift_decisions::{Decision, Told, listened_to, taken};
use tilelift_ir::{Kernel, Type};

/// A choice with its kernel.
struct Ranked {
    choice: Choice,
    /// By its nodes it is nowhere less work than the cheapest choice.
    beaten: bool,
    made: Result<Kernel, Broken>,
    whole: Whole,
}

/// A graph after saturation, with the choice: what [`optimise`] and [`explain`] share.
pub(crate) struct Solved {
    /// The kernel that the graph was built from, if loops of the one that was read were narrowed.
    pub(crate) narrower: Option<Kernel>,
    pub(crate) graph: graph::Graph,
    pub(crate) skeleton: skeleton::Skeleton,
    pub(crate) forest: Forest,
    pub(crate) choice: Choice,
    /// The kernel of the choice.
    pub(crate) made: Result<Kernel, Broken>,
    /// What the kernel of the choice costs.
    pub(crate) whole: Whole,
    /// The choices behind it, with what their kernels cost.
    pub(crate) others: Vec<(Choice, Whole)>,
    pub(crate) report: Report,
}

pub(crate) fn solve(kernel: &Kernel, options: &Options, explained: bool) -> Option<Solved> {
    let start = Instant::now();
    let may = options.allow >= Class::Reassoc && options.only.is_none_or(|n| n == narrow::NAME);
    let (narrower, narrowed) = may.then(|| narrow::narrow(kernel)).flatten().map_or((None, Vec::new()), |(k, n)| (Some(k), n));
    let kernel = narrower.as_ref().unwrap_or(kernel);
    let (graph, skeleton) = skeleton::build(kernel, options.allow, explained);
    let built = Instant::now();
    let searched = || extract::extract(&Forest::new(&graph, &skeleton), Mode::Best, 0, 0).map_or(0, |(c, _)| c.total);
    let before = forest::as_written(&graph, &skeleton).unwrap_or_else(searched);
    debug_assert!(graph.number_of_classes() > 1 << 10 || before == searched());
    let options = &options.scaled(graph.total_number_of_nodes());
    let (graph, phases, rules) = saturate::saturate(graph, options);
    let saturated = Instant::now();
    let forest = Forest::new(&graph, &skeleton);
    let mode = options.chaos.map_or(Mode::Best, Mode::Chaos);
    let (first, others) = extract::extract(&forest, mode, options.keep.saturating_sub(1), options.trials)?;
    debug_assert_eq!(forest.check(&first), Ok(()));
    let extracted = Instant::now();
    // Nothing that is dearer than the program as written, node by node, gets a chance.
    let limit = first.total.max(before);
    let rank = |choice: Choice, beaten: bool| {
        let made = elaborate::elaborate(kernel, &graph, &skeleton, &forest, &choice);
        let whole = made.as_ref().map_or(Whole::default(), whole::judge);
        Ranked { choice, beaten, made, whole }
    };
    let first = rank(first, false);
    // A kernel costs no less than another one if no part of a machine has less to do, and that one does not spill, or differs in numbers alone; it is
    // written to be told of only.
    let least = if first.made.is_ok() { forest.work(&first.choice.of) } else { None };
    let fits = first.whole.spills == 0;
    let beaten = |first: &Choice, o: &Choice| {
        let number = |class: usize| matches!(graph.ty(forest.ids[class]), Type::Scalar(_));
        let pairs = least.and_then(|least| Some(least.into_iter().zip(forest.work(&o.of)?)));
        (fits || (0..forest.ids.len()).all(|c| first.of[c] == o.of[c] || number(c)))
            && pairs.is_some_and(|mut pairs| pairs.all(|(least, own)| own >= least))
    };
    let mut ranked = vec![first];
    for other in others.into_iter().filter(|o| o.total <= limit) {
        let beaten = beaten(&ranked[0].choice, &other);
        if !beaten || explained || listened_to() {
            ranked.push(rank(other, beaten));
        }
    }
    // Of kernels that cost the same the one whose nodes cost less; the sort keeps the order of choices.
    ranked.sort_by_key(|r| (r.made.is_err(), r.beaten, r.whole.time(), r.choice.total));
    let mut ranked = ranked.into_iter();
    let Ranked { choice, made, whole, .. } = ranked.next()?;
    let others: Vec<(Choice, Whole)> = ranked.filter(|r| r.made.is_ok()).map(|r| (r.choice, r.whole)).collect();
    taken(Decision::Algebra, || {
        let fired: Vec<&str> = rules.iter().filter(|r| r.applied > 0).map(|r| r.name).collect();
        let by = if fired.is_empty() { "no rule".to_owned() } else { fired.join(", ") };
        let told = Told::at(format!("the cheapest of {} programs, by {by}", others.len() + 1), whole.time());
        others.first().map_or(told.clone(), |(_, next)| told.before("another one", Some(next.time())))
    });
    let elaborated = Instant::now();
    let report = Report {
        skipped: None,
        windows: 0,
        narrowed,
        phases,
        rules,
        before,
        after: choice.total,
        fallback: None,
        times: [built - start, saturated - built, extracted - saturated, elaborated - extracted],
    };
    Some(Solved { narrower, graph, skeleton, forest, choice, made, whole, others, report })
}
