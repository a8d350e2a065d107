//! The optimizer's logical stage: equality saturation over a verified kernel.
//!
//! ```text
//! Verified ── skeleton ─► Graph + Skeleton ── saturate ─► Graph ── extract ─► Choice ── elaborate ─► Kernel
//!             pure ops in, effects in order     rules            cost              value numbering, loops
//! ```
//!
//! [`optimise`] is a pure function: the same kernel and options give the same bytes on any machine and any thread. It always has an
//! answer: fuel that runs out means extraction of what is there. `docs/optimizer.md` lists the rules.
//!
//! The crate knows no target.

#![deny(missing_docs)]

mod analysis;
pub mod cost;
mod elaborate;
pub mod explain;
mod extract;
mod fault;
mod folds;
mod forest;
mod fuse;
mod graph;
mod hash;
mod language;
mod log;
mod narrow;
mod options;
mod passes;
pub mod physical;
pub mod prove;
mod rescale;
pub mod rules;
mod saturate;
mod sink;
mod skeleton;
mod term;
mod whole;
mod windows;

pub use fault::{Broken, Fallback};
pub use narrow::{End, Narrowed};
pub use options::{Options, PhaseReport, RuleReport, Stop};
pub use rules::{Class, Rule};

use extract::Mode;
use forest::{Choice, Forest};
use graph::Read;
use std::fmt;
use std::time::{Duration, Instant};
use tilelift_decisions::{Decision, Told, listened_to, taken};
use tilelift_ir::{Kernel, Type, Verified, VerifiedKernel, VerifyCode};
use whole::Whole;

/// Instructions beyond which a program is taken in windows, a graph each ([`Report::windows`]): a graph takes about 1 KB and 4 us of one.
pub const MOST_INSTRUCTIONS: usize = 50_000;

/// Why a program stays as it is, and no graph is made of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// Who does what, and in which order, is its author's business.
    Explicit,
    /// It has more instructions than [`MOST_INSTRUCTIONS`], and is taken in windows: there is no one graph to look at.
    Size {
        /// As many.
        instructions: usize,
    },
}

impl Skipped {
    /// Why a program is not looked at, if it is not.
    pub(crate) fn of(kernel: &Kernel) -> Option<Skipped> {
        let instructions = kernel.insts.len();
        if kernel.is_explicit() {
            return Some(Skipped::Explicit);
        }
        (instructions > MOST_INSTRUCTIONS).then_some(Skipped::Size { instructions })
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skipped::Explicit => f.write_str("its author says who does what"),
            Skipped::Size { instructions } => {
                write!(f, "the graph takes {MOST_INSTRUCTIONS} instructions, and the program has {instructions}")
            }
        }
    }
}

/// What an optimisation did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Set if the program was not looked at: nothing else is said then.
    pub skipped: Option<Skipped>,
    /// Windows that the program was taken in, for it has more than [`MOST_INSTRUCTIONS`]; 0 where one graph holds it. What is said of phases is the sum then, and of
    /// iterations and limits the most.
    pub windows: usize,
    /// Loops that go round less often, in front of all phases.
    pub narrowed: Vec<Narrowed>,
    /// The phases.
    pub phases: Vec<PhaseReport>,
    /// The rules that were tried, in table order.
    pub rules: Vec<RuleReport>,
    /// Cost of the program that was read, by the logical model.
    pub before: u64,
    /// Cost of the program that was made.
    pub after: u64,
    /// Set if a check failed and the input was returned: a bug, which the tests exclude.
    pub fallback: Option<Fallback>,
    /// Time of building, saturating, extracting and elaborating, in that order.
    pub times: [Duration; 4],
}

impl Report {
    /// Classes that rules made one.
    pub fn unions(&self) -> usize {
        self.rules.iter().map(|r| r.applied).sum()
    }
    /// How often a rule applied.
    pub fn applied(&self, name: &str) -> usize {
        self.rules.iter().find(|r| r.name == name).map_or(0, |r| r.applied)
    }
    /// The loosest class of a rule that applied, or of what else was done.
    pub fn loosest(&self) -> Class {
        let narrowed = if self.narrowed.is_empty() { Class::Exact } else { Class::Reassoc };
        self.rules.iter().filter(|r| r.applied > 0).map(|r| r.class).max().unwrap_or(Class::Exact).max(narrowed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = self.skipped {
            return writeln!(f, "the program stays as it is: {why}");
        }
        if self.windows > 0 {
            writeln!(f, "taken in {} windows", self.windows)?;
        }
        for n in &self.narrowed {
            writeln!(f, "{n}")?;
        }
        for p in &self.phases {
            writeln!(f, "{:<10} {} after {} iterations: {} nodes in {} classes", p.name, p.stop, p.iterations, p.nodes, p.classes)?;
        }
        writeln!(f, "cost       {} before, {} after", self.before, self.after)?;
        for (name, t) in ["build", "saturate", "extract", "elaborate"].iter().zip(self.times) {
            writeln!(f, "{name:<10} {:.3} ms", t.as_secs_f64() * 1e3)?;
        }
        for r in self.rules.iter().filter(|r| r.applied > 0) {
            let ms = r.time.as_secs_f64() * 1e3;
            writeln!(f, "{:<32} {:<8} {} matches, {} applied, {ms:.3} ms", r.name, r.class.word(), r.matches, r.applied)?;
        }
        if let Some(why) = &self.fallback {
            writeln!(f, "the input was kept: {why}")?;
        }
        Ok(())
    }
}

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

/// Makes a better kernel of a kernel.
pub fn optimise(kernel: &Verified<'_>, options: &Options) -> (VerifiedKernel, Report) {
    let same = || VerifiedKernel::from(*kernel);
    let kept = |why: Fallback, report: Report| (same(), Report { fallback: Some(why), ..report });
    let (made, report) = match (Skipped::of(kernel), options.window) {
        (Some(why @ Skipped::Explicit), _) => return (same(), Report { skipped: Some(why), ..Report::default() }),
        (_, Some(window)) => windows::optimise(kernel, options, window),
        (Some(Skipped::Size { .. }), None) => windows::optimise(kernel, options, windows::WINDOW),
        (None, None) => match solve(kernel, options, false) {
            Some(Solved { made, report, .. }) => (made.map_err(Fallback::Broken), report),
            None => return kept(Fallback::NoProgram, Report::default()),
        },
    };
    match made {
        Err(why) => kept(why, report),
        Ok(made) => match VerifiedKernel::of(made) {
            Ok(made) => (made, report),
            // What moved lets layouts meet that the author keeps apart.
            Err(e) if e.errors.iter().all(|e| e.code == VerifyCode::Layout) => (same(), report),
            Err(e) => kept(Fallback::Invalid(Box::new(e)), report),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_kernels::{Size, cases};

    /// The kernel that is taken is the best of those that were kept, and ranking by the whole kernel is more than ranking by nodes.
    #[test]
    fn the_best_whole_kernel_is_taken() {
        let (mut kept, mut overruled) = (0, 0);
        for case in cases().iter().filter(|c| c.size == Size::Small) {
            let kernel = case.build().expect("kernels of the library build");
            let options = Options { allow: Class::Approx, ..Options::default() };
            // Those that are not written elsewhere, since they can't be better, are here.
            let s = solve(&kernel, &options, true).expect("a program");
            for (other, whole) in &s.others {
                assert_eq!(s.forest.check(other), Ok(()), "{}", case.name);
                assert!((whole.time(), other.total) >= (s.whole.time(), s.choice.total), "{}: {whole} before {}", case.name, s.whole);
                overruled += usize::from(other.total < s.choice.total);
            }
            assert_eq!(s.forest.check(&s.choice), Ok(()), "{}", case.name);
            assert_eq!(whole::judge(s.made.as_ref().expect("it was made")), s.whole, "{}", case.name);
            kept += s.others.len();
        }
        assert!(kept >= 50, "only {kept} runners-up");
        println!("{kept} kept, {overruled} overruled");
    }
}
