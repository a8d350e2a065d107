//! Reductions in the order that the op fixes, or, where every order gives the same bits, registers first ([`fold_order`]): axis bits in registers combine
//! in place, in lanes by shuffles, in warps through shared memory, several warp bits in one exchange. Every lane ends with the result (an all-reduce), so copies are identical.

use super::Lower;
use super::elementwise::{Coords, scalar_op};
use super::location::{Tile, ValueLocation};
use crate::layout::{Owner, fold_order, memory_type, owners};
use crate::lower::exchange::Exchange;
use crate::lower::location::Bundle;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout, coalesced};
use tilelift_ir::{Attr, CmpOp, Inst, Op, ReduceOp, Scalar, TileType, Type, Value};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, ShuffleFrom, Special, Target, UnOp};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::Plan;
use tilelift_schedule::reason::{Missing, NoAxis, NoRegister};

pub(super) fn combine_op(r: ReduceOp) -> Op {
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

/// A layout in which every bit of every axis has an owner of its own.
pub(super) fn spread_layout(t: &TileType, target: &Target, plan: &Plan) -> Result<Rc<Layout>, LowerError> {
    let order: Vec<usize> = (0..t.shape.len()).rev().collect();
    let bytes = memory_type(t.elem).bytes();
    Ok(Rc::new(coalesced(&t.shape, bytes, &order, target.vector_bytes / bytes, target.lanes, plan.warps)?))
}

/// How a fold goes.
pub(super) struct Fold<'f> {
    pub layout: &'f Layout,
    /// The axis.
    pub dim: usize,
    /// The owners of the bits of the axis.
    pub owned: &'f [Owner],
    /// The bits in folding order.
    pub bits: &'f [u32],
    /// Types of what travels.
    pub tys: &'f [LTy],
    /// True if the first element may stand on either side.
    pub commutes: bool,
}

impl Lower<'_> {
    pub(super) fn reduce(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (Some(Attr::Reduce(r)), Type::Tile(t)) = (d.attrs.first(), self.kernel.ty(d.args[0])) else {
            return Err(Missing::Reduce.into());
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
            return Err(NoAxis::Reduce(t.clone()).into());
        };

        // Truth values are combined as words.
        let truth = t.elem == Scalar::I1;
        let ty = if truth { LTy::I32 } else { LTy::Num(t.elem) };
        let (one, zero) = (b.i32(1), b.i32(0));
        let live = tile.regs.iter().map(|&v| Bundle::from_slice(&[if truth { b.select(v, one, zero) } else { v }])).collect();
        let combine =
            |b: &mut LaneBuilder, x: &[LVal], y: &[LVal]| Bundle::from_slice(&[scalar_op(b, combine_op(*r), &[], &[x[0], y[0]], ty)]);
        let bits = fold_order(self.kernel, i, dim, &owned);
        let fold = Fold { layout: &tile.layout, dim, owned: &owned, bits: &bits, tys: &[ty], commutes: true };
        let live = self.fold(b, &fold, live, &combine)?;
        let done: Vec<Option<LVal>> =
            live.iter().map(|v| v.as_ref().map(|v| if truth { b.cmp(CmpOp::Ne, v[0], zero) } else { v[0] })).collect();
        self.reduced(d.results[0], &tile.layout, dim, &done)
    }

    /// The owners of the bits of an axis of a layout that keeps them apart.
    pub(super) fn owned(&self, layout: &Layout, dim: usize, i: Inst) -> Result<Vec<Owner>, LowerError> {
        owners(layout, dim).ok_or_else(|| NoAxis::Along(self.kernel.insts[i].op, dim, layout.shape().to_vec()).into())
    }

    /// Positions of extremes. Elements become integers of the same order (a NaN above all), the larger key wins, then the lower
    /// position: that choice is associative and commutative, so the fold may take any order.
    pub(super) fn arg_reduce(&mut self, b: &mut LaneBuilder, i: Inst, largest: bool) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let Type::Tile(t) = self.kernel.ty(d.args[0]) else {
            return Err(Missing::Extreme.into());
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
            return Err(NoAxis::Of(d.op, t.clone()).into());
        };
        let key = if t.elem.bits() == 64 { LTy::I64 } else { LTy::I32 };
        let coords = Coords::new(b, &tile.layout);
        let live = (0..tile.regs.len())
            .map(|r| {
                let at = coords.at(b, dim, tile.layout.reg_coord(r as u32)[dim]);
                Bundle::from_slice(&[ordered_key(b, tile.regs[r], key, largest), at])
            })
            .collect();
        let combine = |b: &mut LaneBuilder, x: &[LVal], y: &[LVal]| {
            let (more, same, before) = (b.cmp(CmpOp::Gt, y[0], x[0]), b.cmp(CmpOp::Eq, y[0], x[0]), b.cmp(CmpOp::Lt, y[1], x[1]));
            let tie = b.bin(BinOp::And, same, before);
            let take = b.bin(BinOp::Or, more, tie);
            Bundle::from_slice(&[b.select(take, y[0], x[0]), b.select(take, y[1], x[1])])
        };
        let bits = fold_order(self.kernel, i, dim, &owned);
        let fold = Fold { layout: &tile.layout, dim, owned: &owned, bits: &bits, tys: &[key, LTy::I32], commutes: true };
        let live = self.fold(b, &fold, live, &combine)?;
        let done: Vec<Option<LVal>> = live.iter().map(|v| v.as_ref().map(|v| v[1])).collect();
        self.reduced(d.results[0], &tile.layout, dim, &done)
    }

    /// Folds the axis: odd digits first, then the bits in order; what is left stands in every lane and warp along the axis.
    pub(super) fn fold(
        &self,
        b: &mut LaneBuilder,
        f: &Fold<'_>,
        live: Vec<Bundle>,
        combine: Combine<'_>,
    ) -> Result<Vec<Option<Bundle>>, LowerError> {
        let &Fold { layout, dim, owned, bits, tys, commutes } = f;
        let mut live: Vec<Option<Bundle>> = live.into_iter().map(Some).collect();
        fold_odd_digits(layout, dim, &mut live, |x, y| combine(b, x, y));
        let mut k = 0;
        while k < bits.len() {
            match owned[bits[k] as usize] {
                Owner::Reg(bit) => {
                    for r in (0..live.len()).filter(|r| r >> bit & 1 == 0) {
                        let other = live[r | 1 << bit].take();
                        if let (Some(x), Some(y)) = (&live[r], other) {
                            live[r] = Some(combine(b, x, &y));
                        }
                    }
                    k += 1;
                }
                Owner::Lane(bit) => {
                    let later = if commutes { None } else { Some(bit_is(b, Special::Lane, bit, true)) };
                    for slot in live.iter_mut().flatten() {
                        let other: Bundle = slot.iter().map(|&v| b.shuffle(v, ShuffleFrom::Xor(1 << bit))).collect();
                        *slot = combine_ordered(b, later, slot, &other, combine);
                    }
                    k += 1;
                }
                Owner::Warp(_) => {
                    let mut warp_bits = Vec::new();
                    while let Some(Owner::Warp(bit)) = bits.get(k).map(|&a| owned[a as usize]) {
                        warp_bits.push(bit);
                        k += 1;
                    }
                    self.exchange(b, &warp_bits, tys, &mut live, combine)?;
                }
            }
        }
        Ok(live)
    }

    /// Binds a result to what a fold of a layout left.
    pub(super) fn reduced(&mut self, result: Value, from: &Layout, dim: usize, live: &[Option<LVal>]) -> Result<(), LowerError> {
        let to_result = from.slice_registers(dim);
        let layout = Rc::new(from.slice(dim));
        let mut regs: Vec<Option<LVal>> = vec![None; layout.size(Axis::Reg) as usize];
        for (r, v) in live.iter().enumerate().filter(|(_, v)| v.is_some()) {
            regs[to_result[r] as usize] = *v;
        }
        let regs = regs.into_iter().collect::<Option<Vec<LVal>>>().ok_or(NoRegister::Reduce)?;
        if let Type::Scalar(_) = self.kernel.ty(result) {
            self.values[result] = Some(ValueLocation::Scalar(regs[0]));
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
        tys: &[LTy],
        live: &mut [Option<Bundle>],
        combine: Combine<'_>,
    ) -> Result<(), LowerError> {
        let count = live.iter().flatten().count() as u32;
        let others = Exchange::new(self, b, tys, count, "reduction")?;
        others.write(b, (0u32..).zip(live.iter().flatten()));
        let mask = bits.iter().fold(0i64, |m, bit| m | 1 << bit);
        let rest = b.i32(!mask);
        let cleared = b.bin(BinOp::And, others.warp, rest);
        let rows = others.rows(b, cleared, bits);
        for (n, v) in (0u32..).zip(live.iter_mut().flatten()) {
            let mut all = others.read(b, &rows, n);
            while all.len() > 1 {
                all = all.chunks(2).map(|p| combine(b, &p[0], &p[1])).collect();
            }
            *v = all.swap_remove(0);
        }
        Ok(())
    }
}

/// How many bundles each exchange between warps of a fold brings, in order; see [`Lower::fold`].
pub(super) fn exchanges(layout: &Layout, dim: usize, owned: &[Owner], bits: &[u32]) -> Vec<u32> {
    let mut live = vec![Some(()); layout.size(Axis::Reg) as usize];
    fold_odd_digits(layout, dim, &mut live, |(), ()| ());
    let (mut counts, mut inside) = (Vec::new(), false);
    for &bit in bits {
        match owned.get(bit as usize) {
            Some(Owner::Reg(bit)) => (0..live.len()).filter(|r| r >> bit & 1 == 1).for_each(|r| live[r] = None),
            Some(Owner::Warp(_)) if !inside => counts.push(live.iter().flatten().count() as u32),
            Some(Owner::Lane(_) | Owner::Warp(_)) | None => {}
        }
        inside = matches!(owned.get(bit as usize), Some(Owner::Warp(_)));
    }
    counts
}

/// Combines two bundles.
pub(super) type Combine<'c> = &'c dyn Fn(&mut LaneBuilder, &[LVal], &[LVal]) -> Bundle;

/// True in the lanes or warps whose number has the bit, or has it not.
pub(super) fn bit_is(b: &mut LaneBuilder, what: Special, bit: u32, set: bool) -> LVal {
    let at = b.special(what);
    let mask = b.i32(1 << bit);
    let found = b.bin(BinOp::And, at, mask);
    let zero = b.i32(0);
    b.cmp(if set { CmpOp::Ne } else { CmpOp::Eq }, found, zero)
}

/// Combines what a lane has with what another has; where `later` holds the other's comes first. `None` where that is the same.
pub(super) fn combine_ordered(b: &mut LaneBuilder, later: Option<LVal>, own: &[LVal], other: &[LVal], combine: Combine<'_>) -> Bundle {
    let Some(later) = later else { return combine(b, own, other) };
    let first: Bundle = own.iter().zip(other).map(|(&x, &y)| b.select(later, y, x)).collect();
    let second: Bundle = own.iter().zip(other).map(|(&x, &y)| b.select(later, x, y)).collect();
    combine(b, &first, &second)
}

/// An integer key that orders as the element does, or the other way round for the smallest; a NaN is above all, zeros are equal.
fn ordered_key(b: &mut LaneBuilder, v: LVal, key: LTy, largest: bool) -> LVal {
    let LTy::Num(elem) = b.ty(v) else { return v };
    let turned = |b: &mut LaneBuilder, k: LVal| if largest { k } else { b.un(UnOp::Not, k) };
    if !elem.is_float() {
        let k = b.cvt(v, key);
        return turned(b, k);
    }
    let x = if elem.bits() < 32 { b.cvt(v, LTy::F32) } else { v };
    let wide = b.ty(x);
    let (zero_float, zero) = (b.constant(wide, 0), b.constant(key, 0));
    let most = if key == LTy::I64 { i64::MAX } else { i64::from(i32::MAX) };
    let most = b.constant(key, most as u64);
    let bits = b.bitcast(x, key);
    let is_zero = b.cmp(CmpOp::Eq, x, zero_float);
    let bits = b.select(is_zero, zero, bits);
    // Below zero a larger size is a smaller number: complement all bits but the sign.
    let shift = b.constant(key, u64::from(key.bits() - 1));
    let sign = b.bin(BinOp::ShrS, bits, shift);
    let flip = b.bin(BinOp::And, sign, most);
    let k = b.bin(BinOp::Xor, bits, flip);
    let k = turned(b, k);
    let nan = b.cmp(CmpOp::Ne, x, x);
    b.select(nan, most, k)
}

/// Folds the odd part of a dimension, which lies in registers, in ascending order of the elements. The part may be several digits (a
/// reshape makes 387 of 3 and 129); they count as one number.
fn fold_odd_digits<T>(layout: &Layout, dim: usize, live: &mut [Option<T>], mut combine: impl FnMut(&T, &T) -> T) {
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
            if let (Some(x), Some(y)) = (&live[first], other) {
                live[first] = Some(combine(x, &y));
            }
        }
    }
}
