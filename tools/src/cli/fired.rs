//! Which rules of the optimizer fire in programs that somebody would write: the library's kernels, graphs of operators, files.

use super::outcome::{CliError, Outcome, Streams};
use super::{input, layer};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use tilelift::graph::FuseOptions;
use tilelift_egraph::{Class, Options, Report, optimise, rules};
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::Target;
use tilelift_kernels::{cases, plain};

/// Where rules fired, in the order of columns.
const CORPORA: [&str; 3] = ["library", "graphs", "files"];

/// By rule the kernels of each corpus in which it fired.
#[derive(Default)]
struct Count {
    fired: BTreeMap<&'static str, [usize; CORPORA.len()]>,
    kernels: [usize; CORPORA.len()],
    seen: BTreeSet<String>,
}

impl Count {
    fn report(&mut self, corpus: usize, report: &Report) {
        for r in report.rules.iter().filter(|r| r.applied > 0) {
            self.fired.entry(r.name).or_default()[corpus] += 1;
        }
    }

    /// Optimises a kernel, with the rules that a caller gets who says nothing and with all of them; one that differs in its shape alone is one kernel.
    fn kernel(&mut self, corpus: usize, kernel: &Kernel) -> Outcome {
        if !self.seen.insert(text::print(kernel)) {
            return Ok(());
        }
        let verified = verify(kernel).map_err(|e| CliError::Failed(e.to_string()))?;
        self.kernels[corpus] += 1;
        self.report(corpus, &optimise(&verified, &Options { allow: Class::Approx, ..Options::default() }).1);
        Ok(())
    }
}

/// Counts, and prints a table: rules, and in how many kernels of each corpus each fired.
pub(super) fn fired(files: &[String], target: &Target, streams: &mut Streams<'_>) -> Outcome {
    let mut count = Count::default();
    for case in cases() {
        let kernel = case.build().map_err(|e| CliError::Failed(format!("{}: {e}", case.name)))?;
        count.kernel(0, &kernel)?;
    }
    for entry in plain::ALL {
        let graph = layer::drawn(entry, target)?;
        for node in graph.nodes() {
            count.kernel(1, &node.kernel)?;
        }
        let fused = graph.fuse(target, &FuseOptions::default());
        for node in fused.graph.nodes() {
            count.kernel(1, &node.kernel)?;
        }
        count.kernels[1] += fused.report.effort.made;
        for (name, kernels) in &fused.report.fired {
            count.fired.entry(name).or_default()[1] += kernels;
        }
    }
    for path in files {
        let source = input::read(path)?;
        for kernel in &input::load(&source, streams)?.kernels {
            count.kernel(2, kernel)?;
        }
    }
    let head: Vec<String> = CORPORA.iter().zip(count.kernels).map(|(name, n)| format!("{:>14}", format!("{name} {n}"))).collect();
    writeln!(streams.out, "{:<28} {:<8}{}", "rule", "class", head.join(""))?;
    for r in rules::all() {
        let n = count.fired.get(r.name).copied().unwrap_or_default();
        let columns: Vec<String> = n.iter().map(|n| format!("{n:>14}")).collect();
        let never = if n.iter().all(|&n| n == 0) { "  never" } else { "" };
        writeln!(streams.out, "{:<28} {:<8}{}{never}", r.name, r.class.word(), columns.join(""))?;
    }
    let never = rules::all().filter(|r| !count.fired.contains_key(r.name)).count();
    Ok(writeln!(streams.out, "{never} of {} rules never fire", rules::all().count())?)
}
