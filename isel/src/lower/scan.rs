//! Scans in the order that the op fixes: per bit of the axis, from the lowest up, every element learns the total of its partner's
//! block; the upper half puts it in front of what it has.
//!
//! ```text
//! bit in a register   the partner's total is another register
//!        a lane       a shuffle, and a select by the lane's bit
//!        a warp       totals through shared memory: one exchange for neighbouring warp bits
//! odd digit           a carry from register to register, ascending
//! ```
//!
//! Totals are equal for all elements of a block, so equal lane values stand for them: each is shuffled, stored and combined once.

use super::Lower;
use super::elementwise::scalar_op;
use super::location::{Bundle, Tile};
use super::reduce::{Combine, bit_is, combine_op, combine_ordered, spread_layout};
use crate::layout::{Owner, owners};
use crate::lower::exchange::Exchange;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Attr, CmpOp, Inst, Scalar, Type};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, ShuffleFrom, Special};
use tilelift_schedule::LowerError;
use tilelift_schedule::reason::Missing;

/// The state of a scan: per register what is scanned and the total of its block.
pub(super) struct Scan {
    pub pre: Vec<Bundle>,
    pub total: Vec<Bundle>,
}

/// What travels, and which way.
pub(super) struct Travel<'t> {
    pub tys: &'t [LTy],
    pub reverse: bool,
    /// True if the first element may stand on either side.
    pub commutes: bool,
}

impl Travel<'_> {
    /// True in the lanes or warps that come later: the bit is set, or clear when the scan runs backward.
    fn later(&self, b: &mut LaneBuilder, what: Special, bit: u32) -> LVal {
        bit_is(b, what, bit, !self.reverse)
    }
}

impl Lower<'_> {
    pub(super) fn scan(&mut self, b: &mut LaneBuilder, i: Inst, reverse: bool) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (Some(Attr::Reduce(op)), Type::Tile(t)) = (d.attrs.first(), self.kernel.ty(d.args[0])) else {
            return Err(Missing::Scan.into());
        };
        let dim = self.dim_attr(i);
        let mut tile = self.own_tile(b, d.args[0])?;
        if owners(&tile.layout, dim).is_none() {
            let l = spread_layout(t, self.target, &self.plan)?;
            tile = self.tile(b, d.args[0], &l)?;
        }
        let owned = self.owned(&tile.layout, dim, i)?;
        // Truth values are combined as words.
        let truth = t.elem == Scalar::I1;
        let ty = if truth { LTy::I32 } else { LTy::Num(t.elem) };
        let (one, zero) = (b.i32(1), b.i32(0));
        let x: Vec<Bundle> = tile.regs.iter().map(|&v| Bundle::from_slice(&[if truth { b.select(v, one, zero) } else { v }])).collect();
        let combine =
            |b: &mut LaneBuilder, x: &[LVal], y: &[LVal]| Bundle::from_slice(&[scalar_op(b, combine_op(*op), &[], &[x[0], y[0]], ty)]);
        let mut s = Scan { pre: x.clone(), total: x };
        // Every built-in combining op is commutative to the bit.
        let travel = Travel { tys: &[ty], reverse, commutes: true };
        self.scanned(b, &tile.layout, dim, &owned, &mut s, &travel, &combine)?;
        let regs = s.pre.iter().map(|v| if truth { b.cmp(CmpOp::Ne, v[0], zero) } else { v[0] }).collect();
        self.set_tile(d.results[0], Tile { layout: tile.layout.clone(), regs });
        Ok(())
    }

    /// Scans an axis of a layout.
    #[allow(clippy::too_many_arguments)] // a layout and its axis, what to scan, and how
    pub(super) fn scanned(
        &self,
        b: &mut LaneBuilder,
        layout: &Rc<Layout>,
        dim: usize,
        owned: &[Owner],
        s: &mut Scan,
        travel: &Travel<'_>,
        combine: Combine<'_>,
    ) -> Result<(), LowerError> {
        let mut k = 0;
        while k < owned.len() {
            match owned[k] {
                Owner::Reg(bit) => {
                    in_registers(b, s, bit, travel.reverse, combine);
                    k += 1;
                }
                Owner::Lane(bit) => {
                    in_lanes(b, s, bit, travel, combine);
                    k += 1;
                }
                Owner::Warp(_) => {
                    let bits: Vec<u32> =
                        owned[k..].iter().map_while(|o| if let Owner::Warp(bit) = o { Some(*bit) } else { None }).collect();
                    k += bits.len();
                    self.in_warps(b, s, &bits, travel, combine)?;
                }
            }
        }
        odd_digits(b, layout, dim, s, travel.reverse, combine);
        Ok(())
    }

    /// Every warp writes its totals; then each reads, bit by bit, the totals that make up the block beside its own.
    fn in_warps(
        &self,
        b: &mut LaneBuilder,
        s: &mut Scan,
        bits: &[u32],
        travel: &Travel<'_>,
        combine: Combine<'_>,
    ) -> Result<(), LowerError> {
        let mut slots: BTreeMap<Bundle, u32> = BTreeMap::new();
        for t in &s.total {
            let next = slots.len() as u32;
            slots.entry(t.clone()).or_insert(next);
        }
        let count = slots.len() as u32;
        let others = Exchange::new(self, b, travel.tys, count, "scan")?;
        others.write(b, slots.iter().map(|(t, &n)| (n, t)));
        let mut now: BTreeMap<Bundle, Bundle> = slots.keys().map(|t| (t.clone(), t.clone())).collect();
        for (j, &bit) in bits.iter().enumerate() {
            // The warps that differ in this bit, with every setting of the bits before it.
            let below = bits[..j].iter().fold(0i64, |m, bit| m | 1 << bit);
            let (keep, flip) = (b.i32(!below), b.i32(1 << bit));
            let cleared = b.bin(BinOp::And, others.warp, keep);
            let beside = b.bin(BinOp::Xor, cleared, flip);
            let rows = others.rows(b, beside, &bits[..j]);
            let later = travel.later(b, Special::Warp, bit);
            let mut other: BTreeMap<Bundle, Bundle> = BTreeMap::new();
            for (t, &n) in &slots {
                let mut all = others.read(b, &rows, n);
                while all.len() > 1 {
                    let pair = |p: &[Bundle]| if travel.reverse { combine(b, &p[1], &p[0]) } else { combine(b, &p[0], &p[1]) };
                    all = all.chunks(2).map(pair).collect();
                }
                other.insert(t.clone(), all.swap_remove(0));
            }
            for (pre, total) in s.pre.iter_mut().zip(&s.total) {
                let with = combine(b, &other[total], pre);
                *pre = choose(b, later, &with, pre);
            }
            for (t, o) in &other {
                if let Some(x) = now.get_mut(t) {
                    *x = combine_ordered(b, (!travel.commutes).then_some(later), x, o, combine);
                }
            }
        }
        s.total.iter_mut().for_each(|t| *t = now[t].clone());
        Ok(())
    }
}

/// How many totals each exchange between warps of a scan brings at most, in order: registers that an earlier bit has joined share one.
pub(super) fn scan_exchanges(layout: &Layout, owned: &[Owner]) -> Vec<u32> {
    let (mut counts, mut inside) = (Vec::new(), false);
    let mut count = layout.size(Axis::Reg);
    for owner in owned {
        match owner {
            Owner::Reg(_) => count /= 2,
            Owner::Warp(_) if !inside => counts.push(count),
            Owner::Lane(_) | Owner::Warp(_) => {}
        }
        inside = matches!(owner, Owner::Warp(_));
    }
    counts
}

fn choose(b: &mut LaneBuilder, condition: LVal, x: &[LVal], y: &[LVal]) -> Bundle {
    x.iter().zip(y).map(|(&x, &y)| b.select(condition, x, y)).collect()
}

fn in_registers(b: &mut LaneBuilder, s: &mut Scan, bit: u32, reverse: bool, combine: Combine<'_>) {
    for r in (0..s.pre.len()).filter(|r| r >> bit & 1 == 0) {
        let pair = (r, r | 1 << bit);
        let (first, later) = if reverse { (pair.1, pair.0) } else { pair };
        s.pre[later] = combine(b, &s.total[first], &s.pre[later]);
        let both = combine(b, &s.total[first], &s.total[later]);
        (s.total[first], s.total[later]) = (both.clone(), both);
    }
}

fn in_lanes(b: &mut LaneBuilder, s: &mut Scan, bit: u32, travel: &Travel<'_>, combine: Combine<'_>) {
    let later = travel.later(b, Special::Lane, bit);
    let mut done: BTreeMap<Bundle, (Bundle, Bundle)> = BTreeMap::new();
    for (pre, total) in s.pre.iter_mut().zip(&mut s.total) {
        let (other, both) = match done.get(total) {
            Some(found) => found.clone(),
            None => {
                let other: Bundle = total.iter().map(|&v| b.shuffle(v, ShuffleFrom::Xor(1 << bit))).collect();
                let both = combine_ordered(b, (!travel.commutes).then_some(later), total, &other, combine);
                done.insert(total.clone(), (other.clone(), both.clone()));
                (other, both)
            }
        };
        let with = combine(b, &other, pre);
        *pre = choose(b, later, &with, pre);
        *total = both;
    }
}

/// The carry from block to block along the odd digits, which lie in registers.
fn odd_digits(b: &mut LaneBuilder, layout: &Layout, dim: usize, s: &mut Scan, reverse: bool, combine: Combine<'_>) {
    let bits = layout.shape()[dim].trailing_zeros();
    let radices = layout.odd(Axis::Reg);
    // Registers that differ in nothing but the odd digits of the axis, by the number of their block.
    let mut groups: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
    for r in 0..s.pre.len() as u32 {
        let mut weight = 1u32 << layout.bits(Axis::Reg);
        let (mut rest, mut block) = (r, 0);
        for (k, &radix) in radices.iter().enumerate() {
            let (to, step) = layout.odd_column(Axis::Reg, k);
            if to == dim && step != 0 {
                let digit = r / weight % radix;
                rest -= digit * weight;
                block += digit * (step >> bits);
            }
            weight *= radix;
        }
        groups.entry(rest).or_default().insert(block, r as usize);
    }
    for blocks in groups.values() {
        let mut order: Vec<usize> = blocks.values().copied().collect();
        if reverse {
            order.reverse();
        }
        let mut carry: Option<Bundle> = None;
        for r in order {
            carry = Some(match carry {
                None => s.total[r].clone(),
                Some(c) => {
                    s.pre[r] = combine(b, &c, &s.pre[r]);
                    combine(b, &c, &s.total[r])
                }
            });
        }
    }
}
