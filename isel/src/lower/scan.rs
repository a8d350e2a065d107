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

use super::elementwise::scalar_op;
use super::reduce::{Owner, combine_op, owners, spread_layout};
use super::{Lower, Tile};
use crate::error::LowerError;
use crate::lane::{BinOp, LTy, LVal, LaneBuilder, ShuffleFrom, Special, Vals};
use std::collections::BTreeMap;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Attr, CmpOp, Inst, Scalar, Type};

/// The state of a scan: per register the scanned value and the total of its block.
struct Scan {
    pre: Vec<LVal>,
    total: Vec<LVal>,
}

type Combine<'c> = &'c dyn Fn(&mut LaneBuilder, LVal, LVal) -> LVal;

impl Lower<'_> {
    pub(super) fn scan(&mut self, b: &mut LaneBuilder, i: Inst, reverse: bool) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (Some(Attr::Reduce(op)), Type::Tile(t)) = (d.attrs.first(), self.kernel.ty(d.args[0])) else {
            return Err(LowerError::unsupported("a scan", "it has no op or no tile"));
        };
        let dim = self.dim_attr(i);
        let mut tile = self.own_tile(b, d.args[0])?;
        let mut owned = owners(&tile.layout, dim);
        if owned.is_none() {
            let l = spread_layout(t, self.target, &self.plan)?;
            tile = self.tile(b, d.args[0], &l)?;
            owned = owners(&tile.layout, dim);
        }
        let Some(owned) = owned else {
            return Err(LowerError::unsupported(format!("a scan of {t}"), "no layout keeps the bits of its axis apart"));
        };
        // Truth values are combined as words.
        let truth = t.elem == Scalar::I1;
        let ty = if truth { LTy::I32 } else { LTy::Num(t.elem) };
        let (one, zero) = (b.i32(1), b.i32(0));
        let x: Vec<LVal> = tile.regs.iter().map(|&v| if truth { b.select(v, one, zero) } else { v }).collect();
        let combine = |b: &mut LaneBuilder, x: LVal, y: LVal| scalar_op(b, combine_op(*op), &[], &[x, y], ty);

        let mut s = Scan { pre: x.clone(), total: x };
        let mut k = 0;
        while k < owned.len() {
            match owned[k] {
                Owner::Reg(bit) => {
                    in_registers(b, &mut s, bit, reverse, &combine);
                    k += 1;
                }
                Owner::Lane(bit) => {
                    in_lanes(b, &mut s, bit, reverse, &combine);
                    k += 1;
                }
                Owner::Warp(_) => {
                    let bits: Vec<u32> =
                        owned[k..].iter().map_while(|o| if let Owner::Warp(bit) = o { Some(*bit) } else { None }).collect();
                    k += bits.len();
                    self.in_warps(b, &mut s, &bits, ty, reverse, &combine)?;
                }
            }
        }
        odd_digits(b, &tile.layout, dim, &mut s, reverse, &combine);

        let regs = s.pre.iter().map(|&v| if truth { b.cmp(CmpOp::Ne, v, zero) } else { v }).collect();
        self.set_tile(d.results[0], Tile { layout: tile.layout.clone(), regs });
        Ok(())
    }

    /// Every warp writes its totals; then each reads, bit by bit, the totals that make up the block beside its own.
    fn in_warps(
        &self,
        b: &mut LaneBuilder,
        s: &mut Scan,
        bits: &[u32],
        ty: LTy,
        reverse: bool,
        combine: Combine<'_>,
    ) -> Result<(), LowerError> {
        let (lanes, warps) = (self.target.lanes, self.plan.warps);
        let mut slots: BTreeMap<LVal, u32> = BTreeMap::new();
        for &t in &s.total {
            let next = slots.len() as u32;
            slots.entry(t).or_insert(next);
        }
        let size = ty.bytes();
        let slot_bytes = warps * lanes * size;
        let alloc = self.alloc(b, u64::from(slot_bytes) * slots.len() as u64, "scan")?;
        let base = b.shared_addr(alloc);
        let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
        let address = |b: &mut LaneBuilder, warp: LVal| {
            let row = b.i32(i64::from(lanes * size));
            let row = b.mul(warp, row);
            let size = b.i32(i64::from(size));
            let column = b.mul(lane, size);
            let at = b.add(row, column);
            b.add(base, at)
        };
        b.before_shared_writes();
        let own = address(b, warp);
        for (&t, &n) in &slots {
            b.store_shared(Vals::from_slice(&[t]), alloc, own, (n * slot_bytes) as i32, None);
        }
        let mut now: BTreeMap<LVal, LVal> = slots.keys().map(|&t| (t, t)).collect();
        for (j, &bit) in bits.iter().enumerate() {
            // The warps that differ in this bit, with every setting of the bits before it.
            let below = bits[..j].iter().fold(0i64, |m, bit| m | 1 << bit);
            let (keep, flip) = (b.i32(!below), b.i32(1 << bit));
            let cleared = b.bin(BinOp::And, warp, keep);
            let beside = b.bin(BinOp::Xor, cleared, flip);
            let rows: Vec<LVal> = (0..1u32 << j)
                .map(|x| {
                    let set = bits[..j].iter().enumerate().fold(0i64, |m, (q, bit)| m | i64::from(x >> q & 1) << bit);
                    let set = b.i32(set);
                    let from = b.bin(BinOp::Or, beside, set);
                    address(b, from)
                })
                .collect();
            let upper = upper_half(b, Special::Warp, bit, reverse);
            let mut other: BTreeMap<LVal, LVal> = BTreeMap::new();
            for (&t, &n) in &slots {
                let mut all: Vec<LVal> = rows.iter().map(|&row| b.load_shared(&[ty], alloc, row, (n * slot_bytes) as i32)[0]).collect();
                while all.len() > 1 {
                    all = all.chunks(2).map(|p| combine(b, p[0], p[1])).collect();
                }
                other.insert(t, all[0]);
            }
            for r in 0..s.pre.len() {
                let with = combine(b, other[&s.total[r]], s.pre[r]);
                s.pre[r] = b.select(upper, with, s.pre[r]);
            }
            for (&t, &o) in &other {
                if let Some(x) = now.get_mut(&t) {
                    *x = combine(b, *x, o);
                }
            }
        }
        s.total.iter_mut().for_each(|t| *t = now[t]);
        Ok(())
    }
}

/// True in the lanes or warps that come later: the bit is set, or clear when the scan runs backward.
fn upper_half(b: &mut LaneBuilder, what: Special, bit: u32, reverse: bool) -> LVal {
    let at = b.special(what);
    let mask = b.i32(1 << bit);
    let set = b.bin(BinOp::And, at, mask);
    let zero = b.i32(0);
    b.cmp(if reverse { CmpOp::Eq } else { CmpOp::Ne }, set, zero)
}

fn in_registers(b: &mut LaneBuilder, s: &mut Scan, bit: u32, reverse: bool, combine: Combine<'_>) {
    for r in (0..s.pre.len()).filter(|r| r >> bit & 1 == 0) {
        let pair = (r, r | 1 << bit);
        let (first, later) = if reverse { (pair.1, pair.0) } else { pair };
        s.pre[later] = combine(b, s.total[first], s.pre[later]);
        let both = combine(b, s.total[first], s.total[later]);
        (s.total[first], s.total[later]) = (both, both);
    }
}

/// Every combining op is commutative to the bit, so that both halves may put their own total first.
fn in_lanes(b: &mut LaneBuilder, s: &mut Scan, bit: u32, reverse: bool, combine: Combine<'_>) {
    let upper = upper_half(b, Special::Lane, bit, reverse);
    let mut done: BTreeMap<LVal, (LVal, LVal)> = BTreeMap::new();
    for r in 0..s.pre.len() {
        let own = s.total[r];
        let (other, both) = match done.get(&own) {
            Some(&found) => found,
            None => {
                let other = b.shuffle(own, ShuffleFrom::Xor(1 << bit));
                let both = combine(b, own, other);
                done.insert(own, (other, both));
                (other, both)
            }
        };
        let with = combine(b, other, s.pre[r]);
        s.pre[r] = b.select(upper, with, s.pre[r]);
        s.total[r] = both;
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
        let mut carry: Option<LVal> = None;
        for r in order {
            carry = Some(match carry {
                None => s.total[r],
                Some(c) => {
                    s.pre[r] = combine(b, c, s.pre[r]);
                    combine(b, c, s.total[r])
                }
            });
        }
    }
}
