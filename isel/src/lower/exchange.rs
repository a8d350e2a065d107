//! Values that warps give to one another: each writes its own to shared memory, then reads the rows of others.

use super::location::Bundle;
use super::{Lower, sizes};
use tilelift_lane::{AllocId, BinOp, LTy, LVal, LaneBuilder, Special, Vals};
use tilelift_schedule::LowerError;

/// Shared memory with a place for every lane of every warp, per slot and component of its bundle.
pub(super) struct Exchange<'t> {
    alloc: AllocId,
    base: LVal,
    lane: LVal,
    /// The own warp.
    pub warp: LVal,
    lanes: u32,
    warps: u32,
    tys: &'t [LTy],
    slots: u32,
}

impl<'t> Exchange<'t> {
    /// Memory for bundles of some types.
    pub fn new(cx: &Lower<'_>, b: &mut LaneBuilder, tys: &'t [LTy], slots: u32, purpose: &'static str) -> Result<Exchange<'t>, LowerError> {
        let (lanes, warps) = (cx.target.lanes, cx.plan.warps);
        let alloc = cx.alloc(b, sizes::exchange(cx.target, warps, slots, tys), purpose)?;
        let base = b.shared_addr(alloc);
        let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
        Ok(Exchange { alloc, base, lane, warp, lanes, warps, tys, slots })
    }

    /// The lane's place in a warp's row of values of a size.
    fn address(&self, b: &mut LaneBuilder, warp: LVal, size: u32) -> LVal {
        let row = b.i32(i64::from(self.lanes * size));
        let row = b.mul(warp, row);
        let size = b.i32(i64::from(size));
        let column = b.mul(self.lane, size);
        let at = b.add(row, column);
        b.add(self.base, at)
    }

    /// Where a slot of a component starts.
    fn offset(&self, component: usize, slot: u32) -> i32 {
        let bytes = |ty: LTy| self.warps * self.lanes * ty.bytes();
        let before: u32 = self.tys[..component].iter().map(|&ty| self.slots * bytes(ty)).sum();
        (before + slot * bytes(self.tys[component])) as i32
    }

    /// Writes the bundles of the own lane, with their slots.
    pub fn write<'v>(&self, b: &mut LaneBuilder, bundles: impl Iterator<Item = (u32, &'v Bundle)> + Clone) {
        b.before_shared_writes();
        for (c, ty) in self.tys.iter().enumerate() {
            let own = self.address(b, self.warp, ty.bytes());
            for (slot, v) in bundles.clone() {
                b.store_shared(Vals::from_slice(&[v[c]]), self.alloc, own, self.offset(c, slot), None);
            }
        }
    }

    /// Per component, the rows of the warps that a warp becomes by setting some bits, which are clear in it, or not.
    pub fn rows(&self, b: &mut LaneBuilder, clear: LVal, bits: &[u32]) -> Vec<Vec<LVal>> {
        let mut row = |x: u32, ty: &LTy| {
            let set = bits.iter().enumerate().fold(0i64, |m, (j, bit)| m | i64::from(x >> j & 1) << bit);
            let set = b.i32(set);
            let from = b.bin(BinOp::Or, clear, set);
            self.address(b, from, ty.bytes())
        };
        self.tys.iter().map(|ty| (0..1u32 << bits.len()).map(|x| row(x, ty)).collect()).collect()
    }

    /// A slot's bundles in such rows, in their order.
    pub fn read(&self, b: &mut LaneBuilder, rows: &[Vec<LVal>], slot: u32) -> Vec<Bundle> {
        let mut load = |c: usize, x: usize| b.load_shared(&[self.tys[c]], self.alloc, rows[c][x], self.offset(c, slot))[0];
        let each = rows.first().map_or(0, Vec::len);
        (0..each).map(|x| (0..self.tys.len()).map(|c| load(c, x)).collect()).collect()
    }
}
