//! Reductions in the order that the op fixes: axis bits in registers combine in place, in lanes by shuffles, in warps through
//! shared memory, several warp bits in one exchange. Every lane ends with the result (an all-reduce), so copies are identical.

use super::elementwise::scalar_op;
use super::vectors::memory_type;
use super::{Held, Lower, Tile};
use crate::error::LowerError;
use crate::lane::{BinOp, LTy, LVal, LaneBuilder, ShuffleFrom, Special, Vals};
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout, coalesced};
use tilelift_ir::reduce::reduce_order;
use tilelift_ir::{Attr, CmpOp, Inst, Op, ReduceOp, Scalar, Type};

/// Which bit of which axis owns one bit of the reduced dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Reg(u32),
    Lane(u32),
    Warp(u32),
}

fn combine_op(r: ReduceOp) -> Op {
    match r {
        ReduceOp::Add => Op::Add,
        ReduceOp::Mul => Op::Mul,
        ReduceOp::Minimum => Op::Minimum,
        ReduceOp::Maximum => Op::Maximum,
        ReduceOp::And => Op::And,
        ReduceOp::Or => Op::Or,
        ReduceOp::Xor => Op::Xor,
    }
}

/// The owner of each bit of dimension `dim`; `None` unless each bit has an owner of its own.
fn owners(layout: &Layout, dim: usize) -> Option<Vec<Owner>> {
    let bits = layout.shape()[dim].trailing_zeros();
    let mut found = vec![None; bits as usize];
    for axis in [Axis::Reg, Axis::Lane, Axis::Warp] {
        for i in 0..layout.bits(axis) {
            let c = layout.column(axis, i);
            if c[dim] == 0 {
                continue;
            }
            let alone = c[dim].is_power_of_two() && c.iter().enumerate().all(|(k, &x)| k == dim || x == 0);
            let at = c[dim].trailing_zeros() as usize;
            if !alone || at >= found.len() || found[at].is_some() {
                return None;
            }
            found[at] = Some(match axis {
                Axis::Reg => Owner::Reg(i),
                Axis::Lane => Owner::Lane(i),
                Axis::Warp | Axis::Block | Axis::Off => Owner::Warp(i),
            });
        }
    }
    found.into_iter().collect()
}

impl Lower<'_> {
    pub(super) fn reduce(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (Some(Attr::Reduce(r)), Type::Tile(t)) = (d.attrs.first(), self.kernel.ty(d.args[0])) else {
            return Err(LowerError::unsupported("a reduction", "it has no op or no tile"));
        };
        let dim = self.dim_attr(i);
        let mut tile = self.own_tile(b, d.args[0])?;
        let mut owned = owners(&tile.layout, dim);
        if owned.is_none() {
            let order: Vec<usize> = (0..t.shape.len()).rev().collect();
            let vec = self.target.vector_bytes / memory_type(t.elem).bytes();
            let l = coalesced(&t.shape, memory_type(t.elem).bytes(), &order, vec, self.target.lanes, self.plan.warps)?;
            tile = self.tile(b, d.args[0], &Rc::new(l))?;
            owned = owners(&tile.layout, dim);
        }
        let Some(owned) = owned else {
            return Err(LowerError::unsupported(format!("a reduction of {t}"), "no layout keeps the bits of its axis apart"));
        };

        // Truth values are combined as words.
        let truth = t.elem == Scalar::I1;
        let ty = if truth { LTy::I32 } else { LTy::Num(t.elem) };
        let mut live: Vec<Option<LVal>> = tile
            .regs
            .iter()
            .map(|&v| {
                Some(if truth {
                    let (one, zero) = (b.i32(1), b.i32(0));
                    b.select(v, one, zero)
                } else {
                    v
                })
            })
            .collect();
        let combine = |b: &mut LaneBuilder, x: LVal, y: LVal| scalar_op(b, combine_op(*r), &[], &[x, y], ty);

        fold_odd_digits(&tile.layout, dim, &mut live, |x, y| combine(b, x, y));
        let order = reduce_order(t.shape[dim]);
        let mut k = 0;
        while k < order.bits.len() {
            match owned[order.bits[k] as usize] {
                Owner::Reg(bit) => {
                    for r in (0..live.len()).filter(|r| r >> bit & 1 == 0) {
                        let other = live[r | 1 << bit].take();
                        if let (Some(x), Some(y)) = (live[r], other) {
                            live[r] = Some(combine(b, x, y));
                        }
                    }
                    k += 1;
                }
                Owner::Lane(bit) => {
                    for slot in live.iter_mut().flatten() {
                        let other = b.shuffle(*slot, ShuffleFrom::Xor(1 << bit));
                        *slot = combine(b, *slot, other);
                    }
                    k += 1;
                }
                Owner::Warp(_) => {
                    let mut bits = Vec::new();
                    while let Some(Owner::Warp(bit)) = order.bits.get(k).map(|&a| owned[a as usize]) {
                        bits.push(bit);
                        k += 1;
                    }
                    self.exchange(b, &bits, ty, &mut live, &combine)?;
                }
            }
        }

        let to_result = tile.layout.slice_registers(dim);
        let layout = Rc::new(tile.layout.slice(dim));
        let mut regs: Vec<Option<LVal>> = vec![None; layout.size(Axis::Reg) as usize];
        for (r, v) in live.into_iter().enumerate() {
            if let Some(v) = v {
                let v = if truth {
                    let zero = b.i32(0);
                    b.cmp(CmpOp::Ne, v, zero)
                } else {
                    v
                };
                regs[to_result[r] as usize] = Some(v);
            }
        }
        let regs = regs
            .into_iter()
            .collect::<Option<Vec<LVal>>>()
            .ok_or_else(|| LowerError::unsupported("a reduction", "its result layout has a register without a value"))?;
        let result = d.results[0];
        if let Type::Scalar(_) = self.kernel.ty(result) {
            self.values[result] = Some(Held::Scalar(regs[0]));
        } else {
            self.set_tile(result, Tile { layout, regs });
        }
        Ok(())
    }

    /// Combines over warp bits: every warp writes its values, then every lane reads those of all warps that differ in the bits and
    /// folds them bit by bit in order.
    fn exchange(
        &self,
        b: &mut LaneBuilder,
        bits: &[u32],
        ty: LTy,
        live: &mut [Option<LVal>],
        combine: &impl Fn(&mut LaneBuilder, LVal, LVal) -> LVal,
    ) -> Result<(), LowerError> {
        let (lanes, warps) = (self.target.lanes, self.plan.warps);
        let count = live.iter().flatten().count() as u32;
        let size = ty.bytes();
        let alloc = self.alloc(b, u64::from(count) * u64::from(warps * lanes * size), "reduction")?;
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
        let slot_bytes = (warps * lanes * size) as i32;
        b.before_shared_writes();
        let own = address(b, warp);
        for (n, v) in live.iter().flatten().enumerate() {
            b.store_shared(Vals::from_slice(&[*v]), alloc, own, n as i32 * slot_bytes, None);
        }
        let mask = bits.iter().fold(0i64, |m, bit| m | 1 << bit);
        let rest = b.i32(!mask);
        let cleared = b.bin(BinOp::And, warp, rest);
        let rows: Vec<LVal> = (0..1u32 << bits.len())
            .map(|x| {
                let set = bits.iter().enumerate().fold(0i64, |m, (j, bit)| m | i64::from(x >> j & 1) << bit);
                let set = b.i32(set);
                let from = b.bin(BinOp::Or, cleared, set);
                address(b, from)
            })
            .collect();
        for (n, v) in live.iter_mut().flatten().enumerate() {
            let mut all: Vec<LVal> = rows.iter().map(|&row| b.load_shared(&[ty], alloc, row, n as i32 * slot_bytes)[0]).collect();
            while all.len() > 1 {
                all = all.chunks(2).map(|p| combine(b, p[0], p[1])).collect();
            }
            *v = all[0];
        }
        Ok(())
    }
}

/// Folds the odd part of a dimension, which lies in registers, in ascending order of the elements. The part may be several digits (a
/// reshape makes 387 of 3 and 129); they count as one number.
fn fold_odd_digits(layout: &Layout, dim: usize, live: &mut [Option<LVal>], mut combine: impl FnMut(LVal, LVal) -> LVal) {
    let mut digits: Vec<(usize, usize)> = Vec::new();
    let mut weight = 1usize << layout.bits(Axis::Reg);
    for (k, &radix) in layout.odd(Axis::Reg).iter().enumerate() {
        let (to, step) = layout.odd_column(Axis::Reg, k);
        if to == dim && step != 0 {
            digits.push((weight, radix as usize));
        }
        weight *= radix as usize;
    }
    if digits.is_empty() {
        return;
    }
    for first in (0..live.len()).filter(|r| digits.iter().all(|&(weight, radix)| (r / weight).is_multiple_of(radix))) {
        let mut terms = vec![first];
        for &(weight, radix) in &digits {
            terms = terms.iter().flat_map(|&r| (0..radix).map(move |digit| r + digit * weight)).collect();
        }
        // The digits are 0 in the first term, which therefore stays first and takes the sum.
        terms.sort_by_key(|&r| layout.reg_coord(r as u32)[dim]);
        for &r in &terms[1..] {
            let other = live[r].take();
            if let (Some(x), Some(y)) = (live[first], other) {
                live[first] = Some(combine(x, y));
            }
        }
    }
}
