//! Products with weights: which kernels run them, and what is left to whoever comes next.
//!
//! The library ranks the ways of a product by itself. An engine knows more: that the kernel behind may add up the parts of a depth, so that these cost no
//! launch, and that it may multiply rows of zeros beside its own, as copies of whole boxes are quicker than those that lie outside in part.

use super::device::Outcome;
use tilelift_kernels::plan::{Candidate, DeviceFacts, Plan, Problem, Ready, Sharing, ranked};

/// Buffers have a multiple of so many rows.
pub(crate) const ROWS: u32 = 16;

/// What a launch more costs, in microseconds.
pub(crate) const LAUNCH: f64 = 2.0;

/// Launches less that count for ways that somebody asks for.
const PREFERRED: f64 = -1e6;

/// What somebody may ask of an engine, instead of its own choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineOptions {
    /// Chunks of keys in decode.
    pub chunks: Option<u32>,
    /// Whether the gate's product is joined with the other.
    pub gate: Option<bool>,
    /// Whether products may have more rows than there are tokens.
    pub pad: bool,
    /// Whether products are in parts of their depth wherever the kernel behind adds them up.
    pub split: bool,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { chunks: None, gate: None, pad: true, split: false }
    }
}

/// A planned product.
pub(crate) struct Product {
    pub plan: Plan,
    /// Sums of so many parts wait in the first workspace, `[parts, rows, N]`: the next kernel takes them, with the epilogue.
    pub parts: Option<u32>,
    /// Predicted microseconds.
    pub cost: f64,
}

impl Product {
    /// The quickest way, of the own rows if the options allow also of more; if parts of the depth are `taken` by the kernel behind, without the launch that adds them up.
    pub fn new(problem: &Problem, device: &DeviceFacts, taken: bool, options: EngineOptions) -> Outcome<Product> {
        let own = problem.shape[0];
        let mut ways: Vec<(f64, Problem, Candidate)> = Vec::new();
        let padded = own.next_multiple_of(ROWS);
        let all: &[u32] = if options.pad && padded != own { &[own, padded] } else { &[own] };
        for &rows in all {
            let problem = problem.clone().rows(rows);
            for way in ranked(&problem, device)? {
                let more = match way.sharing {
                    Sharing::Whole | Sharing::Clusters(..) => 0.0,
                    Sharing::SplitK(_) if taken && options.split => PREFERRED,
                    Sharing::SplitK(_) => f64::from(u8::from(!taken)),
                    Sharing::StreamK(_) => 1.0,
                };
                ways.push((way.micros + LAUNCH * more, problem.clone(), way));
            }
        }
        Product::first(ways, taken)
    }

    /// The first that has launches. Of equal ones the library's order decides, and no rows too many.
    fn first(mut ways: Vec<(f64, Problem, Candidate)>, taken: bool) -> Outcome<Product> {
        ways.sort_by(|a, b| a.0.total_cmp(&b.0));
        let plan = |(cost, problem, way): (f64, Problem, Candidate)| {
            let parts = match way.sharing {
                Sharing::SplitK(parts) if taken => Some(parts),
                Sharing::SplitK(_) | Sharing::Whole | Sharing::StreamK(_) | Sharing::Clusters(..) => None,
            };
            Plan::of(&problem, way).ok().map(|plan| Product { plan, parts, cost })
        };
        ways.into_iter().find_map(plan).ok_or_else(|| "no way to run a product".into())
    }

    /// What is launched.
    pub fn launches(&self) -> &[Ready] {
        let all = &self.plan.launches;
        &all[..all.len() - usize::from(self.parts.is_some())]
    }

    /// Rows that it has.
    pub fn rows(&self) -> u32 {
        self.plan.problem.shape[0]
    }
}
