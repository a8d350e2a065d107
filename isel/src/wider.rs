//! How many neighbouring grid positions an instance stands for, by what a position takes.
//!
//! ```text
//! kernel ── twice as wide along x, y, z (schedule's wider) ─► planned, priced ── the best one, twice as wide again … ─► better ones, best first
//! ```
//!
//! An instance takes its time, and there are so many of them for each multiprocessor, one at least; at the end of a launch half of one is lost in the mean. So
//! wider tiles pay if they take less time for each position, and leave enough instances. Only specialised loops have prices, so only they are asked.

use crate::pipeline::planned;
use tilelift_decisions::{Decision, Told, taken, unheard};
use tilelift_ir::{GridFacts, Kernel, Op, verify};
use tilelift_lane::Target;
use tilelift_schedule::candidates::position_cost;
use tilelift_schedule::plan::LowerOptions;
use tilelift_schedule::wider::wider;

/// Twofold steps that are taken at most.
const STEPS: usize = 5;

/// What is quicker by less than one part of so many is not taken: prices are no more exact.
const MARGIN: u64 = 32;

/// A form of a kernel, and the time that it takes for a launch, in units that are the same for all its forms.
pub struct WiderForm {
    kernel: Kernel,
    time: u64,
    /// The kernel's own time as it is, if it has a price.
    own: Option<u64>,
}

impl WiderForm {
    /// The kernel in this form.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The kernel in this form, which is the one that is taken.
    pub fn take(self) -> Kernel {
        taken(Decision::Positions, || {
            let told = Told { price: Some(self.time), ..Told::of(format!("{:?} positions", self.kernel.positions)) };
            told.before("one position", self.own)
        });
        self.kernel
    }
}

/// Grid positions of an instance.
fn positions_of(kernel: &Kernel) -> u64 {
    kernel.positions.iter().map(|&n| u64::from(n)).product()
}

/// The forms of a kernel with more than one grid position an instance that take less time than it does as it is, on grids of this kind: best first.
pub fn wider_forms(kernel: &Kernel, target: &Target, options: &LowerOptions, grid: &GridFacts) -> Vec<WiderForm> {
    let pinned = options.schedule.is_some() || options.warps.is_some() || options.consumers.is_some() || options.consumer_sets.is_some();
    // Other loops have no price.
    let open = !pinned && kernel.positions == [1; 3] && target.units.is_some() && kernel.has(kernel.body, &|op| op == Op::Dot);
    let Some(rates) = target.rates.as_ref().filter(|_| open) else { return Vec::new() };
    let processors = u64::from(rates.multiprocessors.max(1));
    // Of `positions / n` instances each multiprocessor takes its share, and half of one more.
    let time = |kernel: &Kernel, cost: u64| {
        let each = positions_of(kernel);
        let halves = (2 * u64::from(grid.positions) + processors * each).div_ceil(each);
        cost.saturating_mul(halves.max(2 * processors))
    };
    let priced = |kernel: &Kernel| {
        let (made, plan) = unheard(|| planned(kernel, target, options)).ok()?;
        Some(time(kernel, position_cost(&made, target, &plan)?))
    };
    let own = priced(kernel);
    // What is not specialised as it is has no price; it should at least leave no multiprocessor idle.
    let pays = |form: &WiderForm, before: Option<u64>| match before {
        Some(before) => form.time <= before - before / MARGIN,
        None => u64::from(grid.positions) >= processors * positions_of(&form.kernel),
    };
    let mut found: Vec<WiderForm> = Vec::new();
    let (mut from, mut before) = (kernel.clone(), own);
    for _ in 0..STEPS {
        let more = |axis: usize| {
            let made = wider(&from, axis).filter(|k| grid.multiple_of[axis].is_multiple_of(k.positions[axis]))?;
            debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
            let time = priced(&made)?;
            Some(WiderForm { kernel: made, time, own })
        };
        let mut forms: Vec<WiderForm> = (0..3).filter_map(more).filter(|f| pays(f, before)).collect();
        forms.sort_by_key(|f| f.time);
        let Some(best) = forms.first() else { break };
        (from, before) = (best.kernel.clone(), Some(best.time));
        found.extend(forms);
    }
    found.retain(|f| pays(f, own));
    found.sort_by_key(|f| f.time);
    found
}
