//! Conversions between register layouts: renames, selects, shuffles, round trips through shared memory, as the plan says.

use super::location::Tile;
use super::shared::{SharedPoints, representative};
use super::vectors::{from_words, to_words, word_types};
use super::{Lower, sizes};
use crate::layout::{legal_width, memory_type};
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::layout::{Axis, Conversion, Layout, RoundTripPlan, SelectStep, SharedOp, Shuffle, ShufflePlan};
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{AllocId, BinOp, LVal, LaneBuilder, ShuffleFrom, Special};
use tilelift_schedule::LowerError;
use tilelift_schedule::reason::NoRegister;

impl Lower<'_> {
    /// The tile in another layout.
    pub(super) fn convert(&mut self, b: &mut LaneBuilder, tile: &Tile, want: &Rc<Layout>, elem: Scalar) -> Result<Tile, LowerError> {
        let bytes = memory_type(elem).bytes();
        let plan = self.planned.between(&tile.layout, want, bytes, self.target)?;
        match &*plan {
            Conversion::Identity | Conversion::Rename(_) => {}
            Conversion::InLane(_) => self.conversions[0] += 1,
            Conversion::InWarp(_) => self.conversions[1] += 1,
            Conversion::RoundTrip(_) => self.conversions[2] += 1,
        }
        taken(Decision::Conversion, || {
            Told::of(match &*plan {
                Conversion::Identity => "none",
                Conversion::Rename(_) => "registers have other names",
                Conversion::InLane(_) => "selects in a lane",
                Conversion::InWarp(_) => "shuffles in a warp",
                Conversion::RoundTrip(_) => "a round trip through shared memory",
            })
        });
        let regs = match &*plan {
            Conversion::Identity => tile.regs.clone(),
            Conversion::Rename(map) => map.iter().map(|&r| tile.regs[r as usize]).collect(),
            Conversion::InLane(p) => {
                let mut regs = tile.regs.clone();
                for s in &p.steps {
                    regs = select_step(b, s, &regs);
                }
                p.rename.iter().map(|&r| regs[r as usize]).collect()
            }
            Conversion::InWarp(p) => shuffle(b, p, &tile.regs),
            Conversion::RoundTrip(p) => {
                debug_assert_eq!(sizes::conversion(&tile.layout, bytes), u64::from(p.map.elements()) * u64::from(bytes));
                let alloc = self.alloc(b, sizes::conversion(&tile.layout, bytes), "conversion")?;
                round_trip(b, p, alloc, &tile.regs, elem, want.size(Axis::Reg))?
            }
        };
        Ok(Tile { layout: want.clone(), regs })
    }
}

/// Parity of the masked bits of lane and warp number, as a condition; the mask is not empty.
fn parity(b: &mut LaneBuilder, lane_mask: u32, warp_mask: u32) -> LVal {
    let mut sum: Option<LVal> = None;
    for (what, mask) in [(Special::Lane, lane_mask), (Special::Warp, warp_mask)] {
        for bit in (0..32).filter(|i| mask >> i & 1 == 1) {
            let at = b.special(what);
            let by = b.i32(bit);
            let x = b.bin(BinOp::ShrU, at, by);
            sum = Some(match sum {
                None => x,
                Some(s) => b.bin(BinOp::Xor, s, x),
            });
        }
    }
    let (one, zero) = (b.i32(1), b.i32(0));
    let odd = b.bin(BinOp::And, sum.unwrap_or(zero), one);
    b.cmp(CmpOp::Ne, odd, zero)
}

fn select_step(b: &mut LaneBuilder, s: &SelectStep, regs: &[LVal]) -> Vec<LVal> {
    let taken = parity(b, s.lane_mask, s.warp_mask);
    (0..regs.len()).map(|r| b.select(taken, regs[r ^ s.reg_xor as usize], regs[r])).collect()
}

fn shuffle(b: &mut LaneBuilder, p: &ShufflePlan, source: &[LVal]) -> Vec<LVal> {
    let mut regs: Vec<LVal> = p.load.iter().map(|&r| source[r as usize]).collect();
    for s in &p.before {
        regs = select_step(b, s, &regs);
    }
    let mut indexed: Option<LVal> = None;
    for (x, how) in p.shuffles.iter().enumerate() {
        regs[x] = match how {
            Shuffle::Keep => regs[x],
            Shuffle::Xor(mask) => b.shuffle(regs[x], ShuffleFrom::Xor(*mask)),
            Shuffle::Indexed { xor } => {
                let from = match indexed {
                    Some(l) => l,
                    None => {
                        let lane = b.special(Special::Lane);
                        let warp = b.special(Special::Warp);
                        let zero = b.i32(0);
                        let l = super::shared::xor_map(b, lane, &p.lane_map).unwrap_or(zero);
                        let w = super::shared::xor_map(b, warp, &p.warp_map).unwrap_or(zero);
                        b.bin(BinOp::Xor, l, w)
                    }
                };
                indexed = Some(from);
                let flip = b.i32(i64::from(*xor));
                let lane = b.bin(BinOp::Xor, from, flip);
                b.shuffle(regs[x], ShuffleFrom::Lane(lane))
            }
        };
    }
    for s in &p.after {
        regs = select_step(b, s, &regs);
    }
    p.store.iter().map(|&y| regs[y as usize]).collect()
}

fn round_trip(
    b: &mut LaneBuilder,
    p: &RoundTripPlan,
    alloc: AllocId,
    source: &[LVal],
    elem: Scalar,
    registers: u32,
) -> Result<Vec<LVal>, LowerError> {
    let bytes = memory_type(elem).bytes();
    let base = b.shared_addr(alloc);
    b.before_shared_writes();
    let columns = p.store_columns.scaled(bytes)?;
    let points = SharedPoints::new(b, &columns, base);
    let guard = representative(b, p.idle_lanes, p.idle_warps);
    for group in &p.store_regs {
        for part in group.chunks(legal_width(group.len() as u32, memory_type(elem)) as usize) {
            let (addr, offset) = points.at(b, part[0]);
            let elems: Vec<LVal> = part.iter().map(|&r| source[r as usize]).collect();
            let words = to_words(b, &elems, elem);
            let writing = b.warps() >> p.idle_warps.count_ones();
            b.meter.shared(&columns, part.len() as u32 * bytes, SharedOp::Store, p.idle_lanes, writing);
            b.store_shared(words, alloc, addr, offset, guard);
        }
    }
    let columns = p.load_columns.scaled(bytes)?;
    let points = SharedPoints::new(b, &columns, base);
    let mut out: Vec<Option<LVal>> = vec![None; registers as usize];
    for group in &p.load_regs {
        for part in group.chunks(legal_width(group.len() as u32, memory_type(elem)) as usize) {
            let (addr, offset) = points.at(b, part[0]);
            let warps = b.warps();
            b.meter.shared(&columns, part.len() as u32 * bytes, SharedOp::Load, 0, warps);
            let words = b.load_shared(&word_types(part.len() as u32, elem), alloc, addr, offset);
            let elems = from_words(b, &words, elem, part.len() as u32);
            for (&r, e) in part.iter().zip(elems) {
                out[r as usize] = Some(e);
            }
        }
    }
    out.into_iter().collect::<Option<Vec<LVal>>>().ok_or_else(|| NoRegister::Conversion.into())
}
