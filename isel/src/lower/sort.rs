//! Ops that order or count the elements of a tile, or look them up by position.
//!
//! A sort is Batcher's bitonic network (Batcher 1968) on lines padded to a power of two. Every element becomes one integer key, or a key
//! and a position, so that one signed comparison decides:
//!
//! ```text
//! integer      x                                  floats and descending: padding and NaN have the largest key, so they come last
//! float bits   x ^ (sign(x) & 0x7f..f)            descending: the complement
//! with place   key << 32 | position               one i64 for elements up to 32 bits, else a pair
//! ```
//!
//! Two elements of a step that lie in registers of one lane are compared in place, those in two lanes after a shuffle, those in two
//! warps after a trip through shared memory.

use super::elementwise::Coords;
use super::location::Tile;
use super::scratch::{Scratch, first_copies, position, row_major};
use super::shared::representative;
use super::{Lower, sizes};
use crate::layout::assign::scattered_layout;
use crate::layout::{Owner, owners};
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{AtomicOp, Attr, CmpOp, Inst, Kernel, MemoryOrder, Op, Scalar, Scope, SortOrder};
use tilelift_lane::{Atomic, AtomicKind, BinOp, LTy, LVal, LaneBuilder, ShuffleFrom, Space, Special, Target};
use tilelift_schedule::plan::Plan;
use tilelift_schedule::reason::{NoAxis, Remedy};
use tilelift_schedule::{LowerError, Resource};

/// Shared memory for an exchange between warps.
const EXCHANGE_BYTES: u32 = 1 << 15;

/// The key of an element and, if it does not fit there, its position.
#[derive(Clone, Copy)]
struct Item {
    key: LVal,
    place: Option<LVal>,
}

/// How elements become keys.
#[derive(Clone, Copy)]
struct Keys {
    elem: Scalar,
    descending: bool,
    /// Positions are sorted as well.
    placed: bool,
}

impl Keys {
    /// The type of the bare key.
    fn bare(self) -> LTy {
        if self.elem.bits() == 64 { LTy::I64 } else { LTy::I32 }
    }

    /// The type of [`Item::key`].
    fn ty(self) -> LTy {
        if self.placed { LTy::I64 } else { self.bare() }
    }

    /// True if positions stand beside the key.
    fn pair(self) -> bool {
        self.placed && self.elem.bits() == 64
    }

    /// Items that are exchanged at once: as many as a part of the shared memory holds.
    fn at_once(self, threads: u32) -> usize {
        (EXCHANGE_BYTES / (threads * self.ty().bytes())).max(1) as usize
    }

    fn largest(self, b: &mut LaneBuilder) -> LVal {
        if self.bare() == LTy::I64 { b.i64(i64::MAX) } else { b.i32(i64::from(i32::MAX)) }
    }

    /// An integer with the order of the element.
    fn key(self, b: &mut LaneBuilder, x: LVal) -> LVal {
        let bare = self.bare();
        let mut key = if self.elem == Scalar::I1 {
            let (one, zero) = (b.i32(1), b.i32(0));
            b.select(x, one, zero)
        } else if self.elem.is_float() {
            // Formats below 32 bits are exact in f32.
            let wide = if self.elem.bits() < 32 { b.cvt(x, LTy::F32) } else { x };
            let bits = b.bitcast(wide, bare);
            let (shift, low) = if bare == LTy::I64 { (b.i64(63), b.i64(i64::MAX)) } else { (b.i32(31), b.i32(i64::from(i32::MAX))) };
            let sign = b.bin(BinOp::ShrS, bits, shift);
            let flip = b.bin(BinOp::And, sign, low);
            b.bin(BinOp::Xor, bits, flip)
        } else {
            b.cvt(x, bare)
        };
        if self.descending {
            let ones = if bare == LTy::I64 { b.i64(-1) } else { b.i32(-1) };
            key = b.bin(BinOp::Xor, key, ones);
        }
        if self.elem.is_float() {
            let nan = b.cmp(CmpOp::Ne, x, x);
            let last = self.largest(b);
            key = b.select(nan, last, key);
        }
        key
    }

    /// A bare key and a position as an item.
    fn item(self, b: &mut LaneBuilder, key: LVal, place: LVal) -> Item {
        if !self.placed {
            return Item { key, place: None };
        }
        if self.pair() {
            return Item { key, place: Some(place) };
        }
        let (key, place) = (b.cvt(key, LTy::I64), b.cvt(place, LTy::I64));
        let by = b.i64(32);
        let high = b.bin(BinOp::Shl, key, by);
        Item { key: b.bin(BinOp::Or, high, place), place: None }
    }

    /// The element of a key.
    fn value(self, b: &mut LaneBuilder, key: LVal) -> LVal {
        let bare = self.bare();
        let mut bits = key;
        if self.descending {
            let ones = if bare == LTy::I64 { b.i64(-1) } else { b.i32(-1) };
            bits = b.bin(BinOp::Xor, bits, ones);
        }
        if self.elem == Scalar::I1 {
            let zero = b.i32(0);
            return b.cmp(CmpOp::Ne, bits, zero);
        }
        if !self.elem.is_float() {
            return b.cvt(bits, LTy::Num(self.elem));
        }
        let (shift, low) = if bare == LTy::I64 { (b.i64(63), b.i64(i64::MAX)) } else { (b.i32(31), b.i32(i64::from(i32::MAX))) };
        let sign = b.bin(BinOp::ShrS, bits, shift);
        let flip = b.bin(BinOp::And, sign, low);
        let bits = b.bin(BinOp::Xor, bits, flip);
        let wide = b.bitcast(bits, if bare == LTy::I64 { LTy::Num(Scalar::F64) } else { LTy::F32 });
        let x = b.cvt(wide, LTy::Num(self.elem));
        // The largest key has the bits of some NaN; the result is the default one.
        let nan = b.constant(LTy::Num(self.elem), tilelift_ir::num::to_bits(f64::NAN, self.elem));
        let is_nan = b.cmp(CmpOp::Ne, x, x);
        b.select(is_nan, nan, x)
    }

    /// The position of an item.
    fn place(self, b: &mut LaneBuilder, item: Item) -> LVal {
        match item.place {
            Some(p) => p,
            None => b.cvt(item.key, LTy::I32),
        }
    }

    /// True if `x` comes in front of `y`.
    fn before(self, b: &mut LaneBuilder, x: Item, y: Item) -> LVal {
        let less = b.cmp(CmpOp::Lt, x.key, y.key);
        let (Some(p), Some(q)) = (x.place, y.place) else { return less };
        let same = b.cmp(CmpOp::Eq, x.key, y.key);
        let first = b.cmp(CmpOp::Lt, p, q);
        let tie = b.bin(BinOp::And, same, first);
        b.bin(BinOp::Or, less, tie)
    }
}

/// The shape in which lines are sorted.
fn padded(shape: &[u32], dim: usize) -> Vec<u32> {
    let mut out = shape.to_vec();
    out[dim] = shape[dim].next_power_of_two();
    out
}

/// Bytes of each scratch array of a sort of tiles of a shape, in order; see [`Lower::sort`].
///
/// # Errors
/// No layout sorts it.
pub(super) fn scratch_bytes(kernel: &Kernel, target: &Target, plan: &Plan, i: Inst, shape: &[u32]) -> Result<Vec<u64>, LowerError> {
    let d = &kernel.insts[i];
    let dim = super::facts::dim_of(kernel, i);
    let keys = Keys { elem: kernel.ty(d.args[0]).elem(), descending: false, placed: matches!(d.op, Op::ArgSort | Op::ArgTopK) };
    let padded = padded(shape, dim);
    let layout = scattered_layout(&padded, 4, target, plan)?;
    let owned = owners(&layout, dim).unwrap_or_default();
    let threads = target.lanes * plan.warps;
    let mut list = vec![sizes::array(shape, keys.bare().bytes())];
    let (items, most) = (layout.size(Axis::Reg) as usize, keys.at_once(threads));
    for stage in 0..owned.len() {
        for _ in (0..=stage).filter(|&step| matches!(owned[step], Owner::Warp(_))) {
            for first in (0..items).step_by(most) {
                let each = u64::from(threads) * (items - first).min(most) as u64;
                list.push(each * u64::from(keys.ty().bytes()));
                list.extend(keys.pair().then_some(each * u64::from(LTy::I32.bytes())));
            }
        }
    }
    let result = LTy::Num(kernel.ty(d.results[0]).elem());
    list.push(sizes::array(&padded, sizes::scratch_type(result).bytes()));
    Ok(list)
}

fn choose(b: &mut LaneBuilder, c: LVal, x: Item, y: Item) -> Item {
    let key = b.select(c, x.key, y.key);
    let place = x.place.zip(y.place).map(|(p, q)| b.select(c, p, q));
    Item { key, place }
}

impl Lower<'_> {
    pub(super) fn sort(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (result, dim) = (d.results[0], self.dim_attr(i));
        let tile = self.own_tile(b, d.args[0])?;
        let elem = self.kernel.ty(d.args[0]).elem();
        let descending = d.attrs.first() == Some(&Attr::Sort(SortOrder::Descending));
        let placed = matches!(d.op, Op::ArgSort | Op::ArgTopK);
        let keys = Keys { elem, descending, placed };

        // Keys go through shared memory into lines of a power of two, in a layout that spreads their bits over lanes and warps.
        let shape = tile.layout.shape().to_vec();
        let padded = padded(&shape, dim);
        let layout = scattered_layout(&padded, 4, self.target, &self.plan)?;
        if layout.size(Axis::Reg) > crate::layout::MAX_REGISTERS_PER_TILE {
            return Err(LowerError::ResourceExceeded {
                resource: Resource::TileRegisters,
                need: u64::from(layout.size(Axis::Reg)),
                have: u64::from(crate::layout::MAX_REGISTERS_PER_TILE),
                remedy: Box::new(Remedy::Sort),
                loc: Default::default(),
            });
        }
        let Some(owned) = owners(&layout, dim) else {
            return Err(NoAxis::Sort.into());
        };
        let strides = row_major(&shape);
        let elements: u64 = shape.iter().map(|&e| u64::from(e)).product();
        let bare = Tile { layout: tile.layout.clone(), regs: tile.regs.iter().map(|&x| keys.key(b, x)).collect() };
        let scratch = Scratch::new(self, b, elements, keys.bare(), "sort")?;
        scratch.store_tile(b, &bare, &strides);
        let coords = Coords::new(b, &layout);
        let mut items = Vec::new();
        for r in 0..layout.size(Axis::Reg) {
            let place = coords.at(b, dim, layout.reg_coord(r)[dim]);
            let at = position(b, &coords, &layout, r, &strides);
            let key = if padded[dim] == shape[dim] {
                let at = scratch.address(b, at);
                scratch.load(b, at, 0)
            } else {
                // Behind the line's end any address will do, as long as something was written there.
                let (end, zero) = (b.i32(i64::from(shape[dim])), b.i32(0));
                let inside = b.cmp(CmpOp::Lt, place, end);
                let at = b.select(inside, at, zero);
                let at = scratch.address(b, at);
                let key = scratch.load(b, at, 0);
                let last = keys.largest(b);
                b.select(inside, key, last)
            };
            items.push(keys.item(b, key, place));
        }

        self.network(b, keys, &coords, &layout, dim, &owned, &mut items)?;

        // Back through shared memory into the result's layout.
        let out_shape = self.kernel.ty(result).shape().unwrap_or(&[]).to_vec();
        let regs: Vec<LVal> = items.iter().map(|&x| if placed { keys.place(b, x) } else { keys.value(b, x.key) }).collect();
        let want = self.layout_of(result)?;
        let ty = LTy::Num(self.kernel.ty(result).elem());
        let scratch = Scratch::new(self, b, padded.iter().map(|&e| u64::from(e)).product(), ty, "sort")?;
        let strides = row_major(&padded);
        scratch.store_tile(b, &Tile { layout: Rc::new(layout), regs }, &strides);
        debug_assert!(out_shape.iter().zip(&padded).all(|(o, p)| o <= p));
        let regs = scratch.load_tile(b, &want, &strides);
        self.set_tile(result, Tile { layout: want, regs });
        Ok(())
    }

    /// The bitonic network: runs of `2^(stage + 1)` elements, up where bit `stage + 1` of the position is 0.
    #[allow(clippy::too_many_arguments)] // the parts of one sort
    fn network(
        &self,
        b: &mut LaneBuilder,
        keys: Keys,
        coords: &Coords,
        layout: &Layout,
        dim: usize,
        owned: &[Owner],
        items: &mut [Item],
    ) -> Result<(), LowerError> {
        let bits = owned.len() as u32;
        for stage in 0..bits {
            for step in (0..=stage).rev() {
                let others: Option<Vec<Item>> = match owned[step as usize] {
                    Owner::Reg(_) => None,
                    Owner::Lane(bit) => {
                        let from = ShuffleFrom::Xor(1 << bit);
                        Some(
                            items
                                .iter()
                                .map(|x| Item { key: b.shuffle(x.key, from), place: x.place.map(|p| b.shuffle(p, from)) })
                                .collect(),
                        )
                    }
                    Owner::Warp(bit) => Some(self.swap_warps(b, keys, bit, items)?),
                };
                // True where the smaller element belongs at the lower position.
                let up = |b: &mut LaneBuilder, r: usize| -> LVal {
                    if stage + 1 == bits {
                        return b.constant(LTy::I1, 1);
                    }
                    bit_is_zero(b, coords, layout, dim, r as u32, stage + 1)
                };
                match (others, owned[step as usize]) {
                    (Some(others), _) => {
                        for r in 0..items.len() {
                            let lower = bit_is_zero(b, coords, layout, dim, r as u32, step);
                            let up = up(b, r);
                            let differ = b.bin(BinOp::Xor, lower, up);
                            // The lower position of a rising run keeps its own if that comes first.
                            let mine = keys.before(b, items[r], others[r]);
                            let keep = b.bin(BinOp::Xor, mine, differ);
                            items[r] = choose(b, keep, items[r], others[r]);
                        }
                    }
                    (None, Owner::Reg(bit)) => {
                        for r in (0..items.len()).filter(|r| r >> bit & 1 == 0) {
                            let s = r | 1 << bit;
                            let up = up(b, r);
                            let first = keys.before(b, items[r], items[s]);
                            let swap = b.bin(BinOp::Xor, first, up);
                            let (low, high) = (choose(b, swap, items[s], items[r]), choose(b, swap, items[r], items[s]));
                            (items[r], items[s]) = (low, high);
                        }
                    }
                    (None, Owner::Lane(_) | Owner::Warp(_)) => {}
                }
            }
        }
        Ok(())
    }

    /// The items that the warp whose number differs in one bit holds.
    fn swap_warps(&self, b: &mut LaneBuilder, keys: Keys, bit: u32, items: &[Item]) -> Result<Vec<Item>, LowerError> {
        let (lanes, warps) = (self.target.lanes, self.plan.warps);
        let threads = lanes * warps;
        let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
        let row = |b: &mut LaneBuilder, warp: LVal| {
            let n = b.i32(i64::from(lanes));
            let at = b.mul(warp, n);
            b.add(at, lane)
        };
        let flip = b.i32(1 << bit);
        let other = b.bin(BinOp::Xor, warp, flip);
        let (own, other) = (row(b, warp), row(b, other));
        let mut out = Vec::with_capacity(items.len());
        let most = keys.at_once(threads);
        for part in items.chunks(most) {
            let elements = u64::from(threads) * part.len() as u64;
            let mut swap = |values: Vec<LVal>, ty: LTy| -> Result<Vec<LVal>, LowerError> {
                let s = Scratch::new(self, b, elements, ty, "sort")?;
                b.before_shared_writes();
                let (to, from) = (s.address(b, own), s.address(b, other));
                values.iter().enumerate().for_each(|(n, &v)| s.store(b, to, n as u32 * threads, v, None));
                Ok((0..values.len()).map(|n| s.load(b, from, n as u32 * threads)).collect())
            };
            let got = swap(part.iter().map(|x| x.key).collect(), keys.ty())?;
            let places: Option<Vec<LVal>> = part.iter().map(|x| x.place).collect();
            let places = match places {
                Some(p) => Some(swap(p, LTy::I32)?),
                None => None,
            };
            out.extend(got.into_iter().enumerate().map(|(n, key)| Item { key, place: places.as_ref().map(|p| p[n]) }));
        }
        Ok(out)
    }

    pub(super) fn gather_tile(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (result, dim) = (d.results[0], self.dim_attr(i));
        let tile = self.own_tile(b, d.args[0])?;
        let layout = self.layout_of(result)?;
        let index = self.tile(b, d.args[1], &layout)?;
        let shape = tile.layout.shape().to_vec();
        let strides = row_major(&shape);
        let ty = LTy::holding(self.kernel.ty(result).elem());
        let scratch = Scratch::new(self, b, shape.iter().map(|&e| u64::from(e)).product(), ty, "gather")?;
        scratch.store_tile(b, &tile, &strides);
        let coords = Coords::new(b, &layout);
        let mut rest = strides.clone();
        rest[dim] = 0;
        let zero = b.constant(ty, 0);
        let mut regs: Vec<LVal> = Vec::new();
        for (r, first) in first_copies(&layout).into_iter().enumerate() {
            if first < r {
                regs.push(regs[first]);
                continue;
            }
            let (extent, none) = (b.i32(i64::from(shape[dim])), b.i32(0));
            let inside = b.cmp(CmpOp::Ult, index.regs[r], extent);
            let along = b.select(inside, index.regs[r], none);
            let s = b.i32(i64::from(strides[dim]));
            let along = b.mul(along, s);
            let at = position(b, &coords, &layout, r as u32, &rest);
            let at = b.add(at, along);
            let at = scratch.address(b, at);
            let v = scratch.load(b, at, 0);
            regs.push(b.select(inside, v, zero));
        }
        self.set_tile(result, Tile { layout, regs });
        Ok(())
    }

    pub(super) fn histogram(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let tile = self.own_tile(b, d.args[0])?;
        let mask = match d.args.get(1) {
            Some(&m) => Some(self.tile(b, m, &tile.layout.clone())?),
            None => None,
        };
        let out = self.layout_of(result)?;
        let bins = out.shape()[0];
        let scratch = Scratch::new(self, b, u64::from(bins), LTy::I32, "histogram")?;
        let zero = b.i32(0);
        let zeros = Tile { layout: out.clone(), regs: vec![zero; out.size(Axis::Reg) as usize] };
        scratch.store_tile(b, &zeros, &[1]);
        b.barrier();
        let layout = &tile.layout;
        let counter = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let one = b.i32(1);
        for (r, first) in first_copies(layout).into_iter().enumerate() {
            if first < r {
                continue;
            }
            let wide = b.cvt(tile.regs[r], LTy::I64);
            let end = b.i64(i64::from(bins));
            let inside = b.cmp(CmpOp::Ult, wide, end);
            let guard = b.and_guard(counter, Some(inside));
            let guard = b.and_guard(guard, mask.as_ref().map(|m| m.regs[r]));
            let at = b.cvt(wide, LTy::I32);
            let addr = scratch.address(b, at);
            let add = Atomic {
                dst: None,
                kind: AtomicKind::Op(AtomicOp::Add),
                space: Space::Shared,
                addr,
                offset: 0,
                value: one,
                guard,
                order: MemoryOrder::Relaxed,
                scope: Scope::Cta,
            };
            b.atomic(Some(scratch.alloc), add);
        }
        let regs = scratch.load_tile(b, &out, &[1]);
        self.set_tile(result, Tile { layout: out, regs });
        Ok(())
    }
}

/// True where a bit of the coordinate along `dim` of a register's element is 0.
fn bit_is_zero(b: &mut LaneBuilder, coords: &Coords, layout: &Layout, dim: usize, reg: u32, bit: u32) -> LVal {
    let at = coords.at(b, dim, layout.reg_coord(reg)[dim]);
    let mask = b.i32(1 << bit);
    let set = b.bin(BinOp::And, at, mask);
    let zero = b.i32(0);
    b.cmp(CmpOp::Eq, set, zero)
}
