//! What a run over many graphs comes to.

use super::judge::GraphAnswer;
use std::collections::BTreeMap;
use std::fmt;

/// Counts of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphSummary {
    /// Graphs.
    pub graphs: u64,
    /// Those of which fusion made fewer kernels: exactly, and where it may round otherwise.
    pub fewer: [u64; 2],
    /// Those of which one kernel is left.
    pub one: [u64; 2],
    /// Kernels before, behind the exact fusion, behind the other.
    pub kernels: [u64; 3],
    /// The sums of what each graph answered.
    pub all: GraphAnswer,
}

impl GraphSummary {
    /// Counts a graph.
    pub fn add(&mut self, a: &GraphAnswer) {
        self.graphs += 1;
        self.kernels[0] += a.before as u64;
        for (n, &after) in a.after.iter().enumerate() {
            self.fewer[n] += u64::from(after < a.before);
            self.one[n] += u64::from(after == 1);
            self.kernels[n + 1] += after as u64;
        }
        let add = |to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>| {
            from.iter().for_each(|(k, n)| *to.entry(k.clone()).or_default() += n);
        };
        add(&mut self.all.ways, &a.ways);
        add(&mut self.all.refused, &a.refused);
        self.all.launched += a.launched;
        for (to, from) in self.all.elements.iter_mut().zip(a.elements) {
            *to += from;
        }
        for (to, from) in self.all.worst.iter_mut().zip(a.worst) {
            *to = to.max(from);
        }
    }
}

impl fmt::Display for GraphSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, exact, free] = self.kernels;
        writeln!(f, "{} graphs of {before} kernels: {exact} are left exactly, {free} where roundings may change", self.graphs)?;
        let [a, b] = self.fewer;
        writeln!(f, "  fewer kernels: {a} and {b} graphs; one kernel: {} and {}", self.one[0], self.one[1])?;
        self.all.ways.iter().try_for_each(|(k, n)| writeln!(f, "  {n:6} {k}"))?;
        writeln!(f, "  {} launches", self.all.launched)?;
        self.all.refused.iter().try_for_each(|(k, n)| writeln!(f, "  {n:6} refused, {k}"))?;
        let [elements, without] = self.all.elements;
        let [interp, ideal, device] = self.all.worst;
        write!(f, "  {elements} elements compared, {without} without a bound; most of a bound: {interp:.3} on the interpreter, ")?;
        write!(f, "{ideal:.3} in f64, {device:.3} on devices")
    }
}
