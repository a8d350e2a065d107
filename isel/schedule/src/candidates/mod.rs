//! Candidates: the ways to run a kernel that its author and caller leave open, with what each costs.
//!
//! ```text
//! kernel, target, hints ─► plan ── alternatives ─► choices, priced ── best first ─► candidates ─┬─ plan      as it is lowered
//!                                  of layouts,                                                 ├─ written   the kernel with tasks
//!                                  of consumers                                                 └─ price     in parts
//! ```
//!
//! The plan's own decisions are the first candidate unless another one is cheaper by more than prices are exact. What is decided is the layout
//! of the ring (swizzle widths, operand A from shared memory or registers) and how results leave (bulk or per lane); slots, registers and
//! staging follow from the plan that these give. Whether consumers cooperate or take grid positions in ping-pong is decided by the plan: kernels
//! are lowered from [`Candidates::of`], which keeps its sets. [`schedule`] alone, for what `--emit schedule` prints, compares the other number of
//! sets with them. Persistence has no price yet: what positions share in the cache decides it, which no price here sees. Where layouts are not
//! searched, and for what is not specialised, the plan alone is the list: nothing is enumerated.

mod alternatives;
mod list;
mod price;

use crate::error::LowerError;
use crate::plan::{LayoutChoice, LowerOptions, Plan, RingLayouts, plan, plan_with};
use crate::program::{self, Refusal};
use alternatives::{Alternatives, PricedOptions};
use price::Prices;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Inst, Kernel};
use tilelift_lane::Target;

pub use price::Price;

/// Most candidates of a kernel.
const MOST: usize = 32;

/// Prices are not more exact than this part: what is cheaper by less than the plan's own decisions is not put before them.
const SLACK: u64 = 64;

/// Random decisions that are tried until a plan takes them together.
const DRAWS: usize = 16;

/// A way to run a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// What is decided of the layouts of its specialised loop; nothing where it has none.
    pub ring_layouts: RingLayouts,
    /// Consumer sets that take grid positions in ping-pong, where that is decided here.
    pub consumer_sets: Option<u32>,
    /// What a grid position costs; `None` where the machine has no prices for it.
    pub price: Option<Price>,
}

/// The candidates of a kernel on a target, best first.
pub struct Candidates<'k> {
    kernel: &'k Kernel,
    target: &'k Target,
    hints: LowerOptions,
    plan: Plan,
    alternatives: Option<Alternatives>,
    own: Candidate,
    list: Vec<Candidate>,
}

/// Finds the ways to run a kernel. `hints` pins what it says; what the kernel's author requires is pinned as well.
///
/// # Errors
/// What [`plan`] says.
pub fn schedule<'k>(kernel: &'k Kernel, target: &'k Target, hints: &LowerOptions) -> Result<Candidates<'k>, LowerError> {
    let mut out = Candidates::of(kernel, target, hints, plan(kernel, target, hints)?);
    // Another number of consumer sets is another plan, with ring layouts of its own.
    if let Some((sets, plan)) = out.other_sets() {
        let hints = LowerOptions { consumer_sets: Some(sets), ..*hints };
        let others = Alternatives::of(kernel, target, &hints, &plan).map(|a| out.priced(&plan, &a, Some(sets)));
        out.list.extend(others.into_iter().flatten());
        out.sort();
    }
    Ok(out)
}

/// What a grid position takes as a plan has it, in sixteenths of a cycle of a multiprocessor: its price, and a part of what lanes compute in the loop
/// beside its products. `None` for what is not specialised, or has no price.
pub fn position_cost(kernel: &Kernel, target: &Target, plan: &Plan) -> Option<u64> {
    let decided = Alternatives::decided(kernel, plan)?;
    let prices = Prices::of(kernel, target, plan)?;
    let from_ring: Vec<Inst> = decided.operand_a.iter().map(|a| a.0).collect();
    let rest = prices.rest(&from_ring)?;
    let choices = decided.choices(&prices)?;
    let own = choices.iter().try_fold(rest, |sum, c| Some(sum.plus(&c.first()?.1)))?;
    Some(own.total().saturating_add(prices.iterations.saturating_mul(prices.lanes())))
}

impl<'k> Candidates<'k> {
    /// The candidates that leave a plan's consumers as they are: its ring layouts alone are decided.
    pub fn of(kernel: &'k Kernel, target: &'k Target, hints: &LowerOptions, plan: Plan) -> Candidates<'k> {
        let own = Candidate { ring_layouts: RingLayouts::default(), consumer_sets: None, price: None };
        let mut out = Candidates { kernel, target, hints: *hints, plan, alternatives: None, own, list: Vec::new() };
        if hints.layouts != LayoutChoice::Spread {
            out.alternatives = Alternatives::of(kernel, target, hints, &out.plan);
        }
        if let Some(a) = &out.alternatives {
            out.own.ring_layouts = a.own();
            out.list = out.priced(&out.plan, a, None);
        }
        out.sort();
        if out.alternatives.is_some() {
            taken(Decision::RingLayout, || out.told());
        }
        out
    }

    /// The first candidate, and the second.
    fn told(&self) -> Told {
        let what = |c: &Candidate| {
            let all = c.ring_layouts.swizzles.iter().map(|(&i, w)| format!("{} swizzle({w})", self.kernel.insts[i].results[0]));
            format!("{}{}", if self.is_own(c) { "the plan's own: " } else { "" }, all.collect::<Vec<_>>().join(", "))
        };
        let price = |c: &Candidate| c.price.map(|p| p.total());
        let told = Told { price: price(self.first()), ..Told::of(what(self.first())) };
        self.list.get(1).map_or(told.clone(), |next| told.before(what(next), price(next)))
    }

    /// The plan with the other number of consumer sets: in ping-pong where it is cooperative, and cooperative where it is in ping-pong.
    fn other_sets(&self) -> Option<(u32, Plan)> {
        if self.alternatives.is_none() || self.hints.consumer_sets.is_some() || self.hints.consumers.is_some() {
            return None;
        }
        let sets = if self.plan.specialised().is_some_and(|s| s.consumer_sets > 1) { 1 } else { 2 };
        let hints = LowerOptions { consumer_sets: Some(sets), ..self.hints };
        let plan = plan(self.kernel, self.target, &hints).ok()?;
        plan.specialised()?;
        Some((sets, plan))
    }

    /// The cheapest ways to decide, of a plan.
    fn priced(&self, plan: &Plan, alternatives: &Alternatives, consumer_sets: Option<u32>) -> Vec<Candidate> {
        let Some(prices) = Prices::of(self.kernel, self.target, plan) else { return Vec::new() };
        let decided: Vec<Inst> = alternatives.operand_a.iter().map(|a| a.0).collect();
        let Some((rest, choices)) = prices.rest(&decided).zip(alternatives.choices(&prices)) else { return Vec::new() };
        let found = cheapest(rest, &choices);
        found.into_iter().map(|(ring_layouts, price)| Candidate { ring_layouts, consumer_sets, price: Some(price) }).collect()
    }

    /// Sorts by price, the plan's own decisions first unless others are cheaper by more than prices are exact.
    fn sort(&mut self) {
        self.list.sort_by_key(|c| c.price.map_or(u64::MAX, |p| p.total()));
        let at = self.list.iter().position(|c| c.consumer_sets.is_none() && c.ring_layouts == self.own.ring_layouts);
        let own = at.map_or(self.own.clone(), |at| self.list.remove(at));
        self.own = own.clone();
        let best = self.list.first().and_then(|c| c.price).map(|p| p.total());
        let near = |best: u64, own: u64| own <= best.saturating_add(best / SLACK);
        let first = best.zip(own.price).is_none_or(|(best, own)| near(best, own.total()));
        let at = if first { 0 } else { self.list.partition_point(|c| c.price.map(|p| p.total()) <= own.price.map(|p| p.total())) };
        self.list.insert(at.min(MOST - 1), own);
        self.list.truncate(MOST);
    }

    /// All of them, best first; there is one at least.
    pub fn list(&self) -> &[Candidate] {
        &self.list
    }

    /// The plan's own decisions, with their price.
    pub fn own(&self) -> &Candidate {
        &self.own
    }

    /// The best one.
    pub fn first(&self) -> &Candidate {
        self.list.first().unwrap_or(&self.own)
    }

    /// Any decisions that a plan takes, by a seed, at no price: for tests. The plan's own if it takes none of those tried.
    pub fn random(&self, mut seed: u64) -> Candidate {
        let drawn = |a: &Alternatives| {
            let all = (0..DRAWS).map(|_| Candidate { ring_layouts: a.random(&mut seed), consumer_sets: None, price: None });
            let mut all = all.collect::<Vec<_>>().into_iter();
            all.find(|c| self.plan(c).is_ok_and(|p| p.specialised().is_some()))
        };
        self.alternatives.as_ref().and_then(drawn).unwrap_or_else(|| self.own.clone())
    }

    /// True for decisions that are the plan's own.
    pub fn is_own(&self, c: &Candidate) -> bool {
        c.consumer_sets.is_none() && c.ring_layouts == self.own.ring_layouts
    }

    /// The plan of a candidate: how it is lowered.
    ///
    /// # Errors
    /// What the plan says of these decisions together.
    pub fn plan(&self, c: &Candidate) -> Result<Plan, LowerError> {
        if self.is_own(c) {
            return Ok(self.plan.clone());
        }
        let hints = LowerOptions { consumer_sets: c.consumer_sets.or(self.hints.consumer_sets), ..self.hints };
        plan_with(self.kernel, self.target, &hints, &c.ring_layouts)
    }

    /// The kernel that a candidate is written as; `None` for what has nothing to write, or no plan.
    pub fn written(&self, c: &Candidate) -> Option<Result<Kernel, Refusal>> {
        let plan = self.plan(c).ok()?;
        match plan.specialised() {
            Some(s) => Some(program::written(self.kernel, self.target, s)),
            None => program::pipelined(self.kernel, self.target, &plan),
        }
    }
}

/// The cheapest ways to take an option of each choice, and the first option of each in any case. Prices add up, so the cheapest ways to decide
/// some choices are parts of the cheapest ways to decide all of them.
fn cheapest(rest: Price, choices: &[PricedOptions]) -> Vec<(RingLayouts, Price)> {
    let mut found = vec![(RingLayouts::default(), rest)];
    let mut own = (RingLayouts::default(), rest);
    for choice in choices {
        let with = |head: &(RingLayouts, Price), o: &(RingLayouts, Price)| (o.0.or(&head.0), head.1.plus(&o.1));
        found = found.iter().flat_map(|head| choice.iter().map(move |o| with(head, o))).collect();
        // Of equal ones the one that is nearer to the plan's.
        found.sort_by_key(|f| f.1.total());
        found.truncate(MOST);
        if let Some(first) = choice.first() {
            own = with(&own, first);
        }
    }
    if !found.iter().any(|f| f.0 == own.0) {
        found.push(own);
    }
    found
}
