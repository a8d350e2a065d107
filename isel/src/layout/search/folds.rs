//! What reductions and scans cost in a layout: the steps that their lowering takes.

use crate::layout::{Owner, owners};
use smallvec::SmallVec;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_lane::Costs;

/// What one fold does, per warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FoldCount {
    /// Combinations of two registers.
    pub combines: u64,
    /// Shuffles.
    pub shuffles: u64,
    /// Stores and loads of a word to and from shared memory.
    pub words: u64,
    /// Exchanges between warps.
    pub exchanges: u64,
}

impl FoldCount {
    /// Its price for all warps.
    pub fn price(self, costs: &Costs, combine: u64, warps: u64) -> u64 {
        let each = self.combines * combine + self.shuffles * costs.shuffle + self.words * costs.wavefront;
        // Barriers in front of the stores and behind them, then the loads.
        let wait = 2 * (costs.barrier[0] + costs.barrier[1] * warps) + 2 * costs.shared_latency;
        each * warps + self.exchanges * wait
    }
}

/// The steps of a reduction of `dim`, whose bits are folded in the order that `order` gives of their owners; `None` if the layout does not keep the bits of
/// the axis apart.
pub(crate) fn reduction(layout: &Layout, dim: usize, order: impl FnOnce(&[Owner]) -> SmallVec<[u32; 24]>) -> Option<FoldCount> {
    let owned = owners(layout, dim)?;
    let order = order(&owned);
    let mut live = u64::from(layout.size(Axis::Reg));
    let mut count = FoldCount::default();
    // Odd digits of the axis are folded first, in registers.
    for k in 0..layout.odd(Axis::Reg).len() {
        let (to, step) = layout.odd_column(Axis::Reg, k);
        if to == dim && step != 0 {
            let radix = u64::from(layout.odd(Axis::Reg)[k]);
            count.combines += live / radix * (radix - 1);
            live /= radix;
        }
    }
    let mut warps = 0;
    for (k, &bit) in order.iter().enumerate() {
        match owned[bit as usize] {
            Owner::Reg(_) => {
                live /= 2;
                count.combines += live;
            }
            Owner::Lane(_) => {
                count.shuffles += live;
                count.combines += live;
            }
            Owner::Warp(_) => {
                warps += 1;
                let last = order.get(k + 1).is_none_or(|&b| !matches!(owned[b as usize], Owner::Warp(_)));
                if last {
                    count.words += live * (1 + (1 << warps));
                    count.combines += live * ((1 << warps) - 1);
                    count.exchanges += 1;
                    warps = 0;
                }
            }
        }
    }
    Some(count)
}

/// The steps of a scan along `dim`, roughly: each bit combines and selects in every register that differs.
pub(crate) fn scan(layout: &Layout, dim: usize) -> Option<FoldCount> {
    let owned = owners(layout, dim)?;
    let regs = u64::from(layout.size(Axis::Reg));
    let mut count = FoldCount::default();
    // Registers of one block have one total.
    let mut totals = regs;
    for owner in owned {
        match owner {
            Owner::Reg(_) => {
                totals = (totals / 2).max(1);
                count.combines += regs / 2 + totals;
            }
            Owner::Lane(_) => {
                count.shuffles += totals;
                count.combines += 2 * regs + totals;
            }
            Owner::Warp(_) => {
                count.words += 2 * totals;
                count.combines += 2 * regs + totals;
                count.exchanges += 1;
            }
        }
    }
    count.combines += regs * u64::from(layout.odd_size(Axis::Reg) > 1);
    Some(count)
}

/// The price of a sorting network along `dim` for keys of so many words, for all warps; `None` if the layout does not keep the bits of the
/// axis apart. Each step waits for the one before: where few elements are compared, for as long as that takes.
pub(crate) fn network(layout: &Layout, dim: usize, words: u64, costs: &Costs, warps: u64) -> Option<u64> {
    let owned = owners(layout, dim)?;
    let items = u64::from(layout.size(Axis::Reg));
    let [compared, moved] = costs.step_latency;
    // A comparison, its direction, a choice, while the elements of other warps are on their way.
    let kept = items * (2 * words + 1) * costs.alu * warps;
    let beside = |moves: u64| moves.max(kept) + moves.min(kept) / 4;
    let mut sum = 0;
    for (bit, owner) in owned.iter().enumerate() {
        let times = (owned.len() - bit) as u64;
        let each = match owner {
            // Of two registers both are chosen anew, by one comparison.
            Owner::Reg(_) => (items / 2 * (3 * words + 1) * costs.alu * warps).max(compared),
            Owner::Lane(_) => beside(items * words * costs.shuffle * warps).max(moved + compared),
            Owner::Warp(_) => {
                let trip = FoldCount { exchanges: 1, ..FoldCount::default() };
                trip.price(costs, costs.alu, warps) + beside(2 * words * items * costs.wavefront * warps).max(compared)
            }
        };
        sum += times * each;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        alu: 8,
        special: 32,
        product: 12,
        shuffle: 16,
        redux: [32, 608],
        step_latency: [240, 384],
        wavefront: 16,
        shared_latency: 480,
        barrier: [198, 32],
        global_latency: 10_560,
        sector: 30,
        line: 16,
        spill: 64,
        group_product: 0,
        group_operands: [0; 2],
        group_left: 0,
        group_wait: 0,
        group_turn: 0,
        box_start: 0,
        box_row: 0,
        box_sector: 0,
        chain: 160,
        processors: 132,
        megahertz: 1980,
        launch: 2100,
    };

    fn price(line: u32, regs: u32, words: u64, costs: &Costs) -> u64 {
        let layout = Layout::blocked(&[1, line], &[1, regs], &[1, 32], &[1, line / 32 / regs], &[0, 1]).expect("a layout");
        network(&layout, 1, words, costs, u64::from(line / 32 / regs)).expect("bits apart")
    }

    #[test]
    fn a_network_waits_for_its_steps_where_it_compares_little() {
        // A warp, an element a lane: 15 steps, each through a shuffle.
        assert_eq!(price(32, 1, 1, &COSTS), 15 * (384 + 240));
        // Many elements: what is issued decides, in proportion to their number and the words of a key.
        let quick = Costs { step_latency: [0; 2], ..COSTS };
        assert_eq!(price(1024, 32, 1, &COSTS), price(1024, 32, 1, &quick));
        assert!(price(1024, 32, 2, &COSTS) > price(1024, 32, 1, &COSTS));
        assert!(price(256, 4, 1, &COSTS) > price(64, 2, 1, &COSTS));
    }
}
