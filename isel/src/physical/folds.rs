//! What reductions and scans cost in a layout: the steps that their lowering takes.

use crate::lower::{Owner, owners};
use crate::target::Costs;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::reduce::reduce_order;

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

/// The steps of a reduction of `dim`; `None` if the layout does not keep the bits of the axis apart.
pub(crate) fn reduction(layout: &Layout, dim: usize) -> Option<FoldCount> {
    let owned = owners(layout, dim)?;
    let order = reduce_order(layout.shape()[dim]);
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
    for (k, &bit) in order.bits.iter().enumerate() {
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
                let last = order.bits.get(k + 1).is_none_or(|&b| !matches!(owned[b as usize], Owner::Warp(_)));
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
