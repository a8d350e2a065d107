//! Few kernels for many numbers of rows: what an engine compiles at its start, when batches of any length are to come.
//!
//! ```text
//! numbers of rows ── ranked(…) at each ─► pool of candidates ── times of each at each ─► the n that together lose least ─► which one, by rows
//!  16 32 … 256 320 … │ a span ends at each, and is answered as its end
//! ```
//!
//! Kernels are compiled without facts of M, so that one serves all of its rows; grids, workspaces and numbers of a launch are those of the M at hand.

use super::candidate::Candidate;
use super::device::DeviceFacts;
use super::error::PlanError;
use super::pipelined;
use super::problem::Problem;
use super::ranked::ranked;
use super::ready::{Plan, plan};
use super::sharing::Sharing;
use crate::facts::ANY;
use std::ops::RangeInclusive;
use tilelift_schedule::gemm;

/// A kernel of several, and where it is taken.
#[derive(Clone, Debug)]
pub struct RowKernel {
    /// The way to run.
    pub candidate: Candidate,
    /// Spans of numbers of rows, in order.
    pub spans: Vec<RangeInclusive<u32>>,
}

/// Kernels for a range of M.
#[derive(Clone, Debug)]
pub struct Rows {
    problem: Problem,
    device: DeviceFacts,
    kernels: Vec<RowKernel>,
    /// Last number of rows of each span, the kernel that takes it, and by what share its predicted time is more than the best candidate's there.
    spans: Vec<(u32, usize, f64)>,
    first: u32,
}

/// Candidates of each number of rows that go into the pool.
const POOLED: usize = 4;
/// Rows between neighbours among few and many rows, and the share of the rows among many more.
const STEPS: [u32; 3] = [16, 64, 16];
/// Up to where rows are few.
const FEW: u32 = 256;

impl Rows {
    /// The `most` kernels that together lose least against the best candidate of each number of rows; fewer where fewer lose nothing. The problem's own M counts for nothing.
    ///
    /// # Errors
    /// As [`ranked`] at the range's end; no rows, or no kernel.
    pub fn plan(problem: &Problem, device: &DeviceFacts, range: RangeInclusive<u32>, most: usize) -> Result<Rows, PlanError> {
        let (first, last) = ((*range.start()).max(1), *range.end());
        if most == 0 || last < first {
            return Err(PlanError::NoRows);
        }
        ranked(&problem.clone().rows(last), device)?;
        let ends = ends(first, last);
        let mut pool: Vec<Candidate> = Vec::new();
        let mut best = Vec::new();
        for &m in &ends {
            let list = for_any_rows(&problem.clone().rows(m), device)?;
            best.push(list.first().map_or(0.0, |c| c.micros));
            for c in list.into_iter().take(POOLED) {
                if !pool.iter().any(|p| same(p, &c)) {
                    pool.push(c);
                }
            }
        }
        // No columns or no batch: there is nothing to run, whatever the rows.
        if pool.is_empty() {
            return Ok(Rows { problem: problem.clone(), device: device.clone(), kernels: Vec::new(), spans: Vec::new(), first });
        }
        let losses: Vec<Vec<f64>> =
            pool.iter().map(|c| ends.iter().zip(&best).map(|(&m, &b)| loss(problem, device, c, m, b)).collect()).collect();
        let chosen = choose(&losses, ends.len(), most);
        let mut kernels: Vec<RowKernel> = chosen.iter().map(|&c| RowKernel { candidate: pool[c].clone(), spans: Vec::new() }).collect();
        let (mut spans, mut from): (Vec<(u32, usize, f64)>, u32) = (Vec::new(), first);
        for (at, &end) in ends.iter().enumerate() {
            let of = |&(_, &c): &(usize, &usize)| losses[c][at];
            let taken = chosen.iter().enumerate().min_by(|a, b| of(a).total_cmp(&of(b))).map_or((0, 0.0), |x| (x.0, of(&x)));
            spans.push((end, taken.0, taken.1));
            match kernels[taken.0].spans.last_mut() {
                Some(s) if s.end().saturating_add(1) == from => *s = *s.start()..=end,
                _ => kernels[taken.0].spans.push(from..=end),
            }
            from = end.saturating_add(1);
        }
        Ok(Rows { problem: problem.clone(), device: device.clone(), kernels, spans, first })
    }

    /// The kernels.
    pub fn kernels(&self) -> &[RowKernel] {
        &self.kernels
    }

    /// Which of the kernels so many rows take; none for rows that were not asked for, and where there is nothing to run.
    pub fn kernel_for(&self, m: u32) -> Option<usize> {
        self.span(m).map(|s| s.1)
    }

    /// By what share that kernel is predicted to take longer than the best candidate does, at the end of the span in which `m` lies.
    pub fn loss(&self, m: u32) -> Option<f64> {
        self.span(m).map(|s| s.2)
    }

    /// The largest of all losses.
    pub fn worst_loss(&self) -> f64 {
        self.spans.iter().fold(0.0, |worst, s| worst.max(s.2))
    }

    /// The launches for so many rows, by the kernel that takes them: the same kernels for all rows of its own. Rows that were not asked for are planned
    /// by themselves.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn launches(&self, m: u32) -> Result<Plan, PlanError> {
        let problem = self.problem.clone().rows(m);
        match self.kernel_for(m) {
            Some(k) => Plan::of(&problem, self.kernels[k].candidate.clone()),
            None => plan(&problem, &self.device),
        }
    }

    fn span(&self, m: u32) -> Option<&(u32, usize, f64)> {
        if m < self.first {
            return None;
        }
        self.spans.get(self.spans.partition_point(|s| s.0 < m))
    }
}

/// Where spans end: closer among few rows, where tiles are most of the difference.
fn ends(first: u32, last: u32) -> Vec<u32> {
    let mut list = Vec::new();
    let mut at = first;
    while at < last {
        let (step, whole) = if at < FEW { (STEPS[0], STEPS[0]) } else { ((at / STEPS[2]).next_multiple_of(STEPS[1]), STEPS[1]) };
        at = (at - 1).saturating_add(step) / whole * whole;
        if at < last {
            list.push(at);
        }
        at = at.saturating_add(1);
    }
    list.push(last);
    list
}

/// The candidates for a number of rows, without facts of it. Rows of a transposed A are as long as there are rows of C: without facts of them nothing
/// copies them, and those are pipelined.
fn for_any_rows(problem: &Problem, device: &DeviceFacts) -> Result<Vec<Candidate>, PlanError> {
    let mut list = if problem.trans.0 { pipelined::candidates(problem, device) } else { ranked(problem, device)? };
    if problem.is_empty() {
        list.clear();
    }
    list.iter_mut().for_each(|c| c.gemm.m = ANY);
    Ok(list)
}

/// One kernel does for both, whatever else their predictions say.
fn same(a: &Candidate, b: &Candidate) -> bool {
    a.gemm == b.gemm && a.sharing == b.sharing && a.options == b.options
}

/// By what share a candidate is predicted to take longer than the best one; infinite where it can't run.
fn loss(problem: &Problem, device: &DeviceFacts, candidate: &Candidate, m: u32, best: f64) -> f64 {
    let problem = problem.clone().rows(m);
    let micros = match &candidate.ranked {
        Some(r) => {
            let times = if problem.behind.gate { 2.0 } else { 1.0 };
            gemm::predict(device.target(), &problem.product(), &r.choice).map(|p| times * p.total())
        }
        None => Some(pipelined::predict(&problem, device, candidate)),
    };
    let runs = match candidate.sharing {
        Sharing::StreamK(_) | Sharing::Clusters(..) => Plan::of(&problem, candidate.clone()).is_ok(),
        Sharing::Whole | Sharing::SplitK(_) => true,
    };
    micros.filter(|_| runs).map_or(f64::INFINITY, |t| (t / best.max(f64::MIN_POSITIVE) - 1.0).max(0.0))
}

/// Those of a pool that together lose least over all places: one after the other the one that gains most, then each exchanged for a better one, if there is one.
fn choose(losses: &[Vec<f64>], places: usize, most: usize) -> Vec<usize> {
    // A place that nobody could run at is as bad as any number that is no infinity.
    let total =
        |list: &[usize]| -> f64 { (0..places).map(|at| list.iter().map(|&c| losses[c][at]).fold(f64::INFINITY, f64::min).min(1e6)).sum() };
    let better = |list: &[usize], now: f64, make: &dyn Fn(usize) -> Vec<usize>| -> Option<(f64, Vec<usize>)> {
        let others = (0..losses.len()).filter(|c| !list.contains(c)).map(make).map(|l| (total(&l), l));
        others.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|b| b.0 < now - 1e-9)
    };
    let (mut list, mut now) = (Vec::new(), f64::INFINITY);
    while list.len() < most {
        let Some((t, l)) = better(&list, now, &|c| list.iter().copied().chain([c]).collect()) else { break };
        (now, list) = (t, l);
    }
    for at in 0..list.len() {
        let exchanged = |c: usize| -> Vec<usize> { list.iter().enumerate().map(|(i, &old)| if i == at { c } else { old }).collect() };
        if let Some((t, l)) = better(&list, now, &exchanged) {
            (now, list) = (t, l);
        }
    }
    // What others do as well by now is left out.
    let mut at = 0;
    while at < list.len() && list.len() > 1 {
        let rest: Vec<usize> = list.iter().enumerate().filter(|&(i, _)| i != at).map(|(_, &c)| c).collect();
        if total(&rest) <= now + 1e-9 { list = rest } else { at += 1 }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_close_among_few_rows_and_cover_all() {
        assert_eq!(ends(1, 40), [16, 32, 40]);
        assert_eq!(ends(7, 7), [7]);
        assert_eq!(ends(250, 400), [256, 320, 384, 400]);
        let all = ends(1, 8192);
        assert!(all.len() < 120 && all.windows(2).all(|w| w[0] < w[1]) && all.last() == Some(&8192), "{all:?}");
        assert!(ends(1, 1 << 30).len() < 400);
    }

    #[test]
    fn those_are_chosen_that_lose_least_together() {
        // The one that is never best is the best one alone.
        let losses = [vec![0.0, 9.0, 9.0], vec![9.0, 0.0, 0.0], vec![1.0, 1.0, 1.0], vec![f64::INFINITY, 0.0, 0.0]];
        assert_eq!(choose(&losses, 3, 1), [2]);
        let mut two = choose(&losses, 3, 2);
        two.sort_unstable();
        assert_eq!(two, [0, 1]);
        // A third one gains nothing.
        assert_eq!(choose(&losses, 3, 9).len(), 2);
    }
}
