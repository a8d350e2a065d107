//! The network of a sort, and of the first elements of one.
//!
//! ```text
//! sort     runs of 2, 4, 8, … elements, each of two rising runs: element i of the one is compared with element n - 1 - i of the other,
//!          then those that are n/2, n/4, …, 1 apart (Batcher's bitonic sort, with the second run turned round)
//! first k  runs of k elements are sorted; of two of them the lesser one of elements i and k - 1 - i is kept, and what is kept is sorted
//! ```
//!
//! The order of a line's positions is free until the end: those whose bits lie in registers come first, then lanes, then warps, since low bits
//! are compared most often. Two elements in registers of one lane are compared in place, those in two lanes after a shuffle, those in two warps
//! after a trip through shared memory. Of what is kept of two registers one is left; two lanes both keep it.

use super::Lower;
use super::keys::{Item, Keys, choose};
use super::scratch::Scratch;
use crate::layout::{Owner, owners};
use tilelift_ir::CmpOp;
use tilelift_ir::layout::{Axis, Coord, Layout};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Special};
use tilelift_schedule::LowerError;

/// Shared memory for an exchange between warps.
const EXCHANGE_BYTES: u32 = 1 << 15;

/// Where the elements of lines lie, and what is done with them.
pub(super) struct Network {
    /// Who holds each bit of a position, the lowest first.
    owned: Vec<Owner>,
    /// Where items lie before it is run, by their positions in the network.
    from: Layout,
    /// Where they lie afterwards.
    pub to: Layout,
    /// Bits of the number of elements that are wanted.
    kept: u32,
    /// Bits of registers that hold nothing afterwards.
    dead: u32,
}

/// All positions are compared with those that differ in the bits of a mask.
#[derive(Clone, Copy)]
struct Step {
    mask: u32,
    /// The bit in which the lower position of two has 0; none if both keep the lesser element.
    top: Option<u32>,
}

/// The bits of registers, lanes and warps that hold the bits of a mask.
#[derive(Clone, Copy, Default)]
struct Across {
    reg: u32,
    lane: u32,
    warp: u32,
}

impl Network {
    /// The network for the first `kept` elements, a power of two, of lines along `dim`; `None` if the layout does not keep the bits of the line
    /// apart.
    pub fn new(from: &Layout, dim: usize, kept: u32) -> Option<Network> {
        let beside = from.bits(Axis::Block) + from.bits(Axis::Off);
        if !from.shape()[dim].is_power_of_two() || beside > 0 || from.odd(Axis::Reg).len() > 1 {
            return None;
        }
        let mut owned: Vec<(Owner, u32)> = owners(from, dim)?.into_iter().zip(0..).collect();
        owned.sort_by_key(|&(owner, bit)| {
            let class = match owner {
                Owner::Reg(_) => 0,
                Owner::Lane(_) => 1,
                Owner::Warp(_) => 2,
            };
            (class, bit)
        });
        let owned: Vec<Owner> = owned.into_iter().map(|(owner, _)| owner).collect();
        let kept = kept.trailing_zeros().min(owned.len() as u32);
        let merged = |bit: usize| bit as u32 >= kept;
        let dead = (0..owned.len()).filter(|&j| merged(j)).fold(0, |all, j| match owned[j] {
            Owner::Reg(i) => all | 1 << i,
            Owner::Lane(_) | Owner::Warp(_) => all,
        });
        // The same layout with the bits of positions in their order, whole and behind the network.
        let renamed = |whole: bool| {
            let mut shape = from.shape().to_vec();
            if !whole {
                shape[dim] = 1 << kept;
            }
            let columns = [Axis::Reg, Axis::Lane, Axis::Warp].map(|axis| {
                let mut list: Vec<Coord> = Vec::new();
                for i in 0..from.bits(axis) {
                    if !whole && axis == Axis::Reg && dead >> i & 1 == 1 {
                        continue;
                    }
                    let mut c = from.column(axis, i);
                    if c[dim] != 0 {
                        let at = owned.iter().position(|&o| o == owner(axis, i))?;
                        c[dim] = if !whole && merged(at) { 0 } else { 1 << at };
                    }
                    list.push(c);
                }
                Some((axis, list))
            });
            let [reg, lane, warp] = columns;
            Layout::from_columns(&shape, &[reg?, lane?, warp?]).ok()
        };
        let (whole, to) = (renamed(true)?, renamed(false)?);
        let same = whole.size(Axis::Reg) == from.size(Axis::Reg) && whole.odd(Axis::Reg) == from.odd(Axis::Reg);
        same.then_some(Network { owned, from: from.clone(), to, kept, dead })
    }

    /// What is compared, in order.
    fn steps(&self) -> Vec<Step> {
        let bits = self.owned.len() as u32;
        let mut steps = Vec::new();
        let apart = |steps: &mut Vec<Step>, below: u32| steps.extend((0..below).rev().map(|j| Step { mask: 1 << j, top: Some(j) }));
        for stage in 0..self.kept {
            steps.push(Step { mask: (2 << stage) - 1, top: Some(stage) });
            apart(&mut steps, stage);
        }
        for stage in self.kept..bits {
            steps.push(Step { mask: 1 << stage | ((1 << self.kept) - 1), top: None });
            apart(&mut steps, self.kept);
        }
        steps
    }

    fn across(&self, mask: u32) -> Across {
        let mut all = Across::default();
        for (_, owner) in self.owned.iter().enumerate().filter(|(j, _)| mask >> j & 1 == 1) {
            match owner {
                Owner::Reg(i) => all.reg |= 1 << i,
                Owner::Lane(i) => all.lane |= 1 << i,
                Owner::Warp(i) => all.warp |= 1 << i,
            }
        }
        all
    }

    /// Registers that hold something before a step of two that keep the lesser element, given those that held something so far.
    fn left(&self, alive: &[usize], step: Step) -> Vec<usize> {
        let gone = match step.top {
            None => self.across(step.mask & !((1 << self.kept) - 1)).reg,
            Some(_) => 0,
        };
        alive.iter().copied().filter(|r| *r as u32 & gone == 0).collect()
    }

    /// Bytes of each array in shared memory, in order.
    pub fn scratch(&self, keys: Keys, threads: u32) -> Vec<u64> {
        let mut alive: Vec<usize> = (0..self.from.size(Axis::Reg) as usize).collect();
        let mut list = Vec::new();
        for step in self.steps() {
            if self.across(step.mask).warp != 0 {
                for part in alive.chunks(at_once(keys, threads)) {
                    let each = u64::from(threads) * part.len() as u64;
                    list.push(each * u64::from(keys.ty().bytes()));
                    list.extend(keys.pair().then_some(each * u64::from(LTy::I32.bytes())));
                }
            }
            alive = self.left(&alive, step);
        }
        list
    }

    /// Registers that hold the items behind it.
    fn registers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.from.size(Axis::Reg) as usize).filter(|&r| r as u32 & self.dead == 0)
    }
}

fn owner(axis: Axis, bit: u32) -> Owner {
    match axis {
        Axis::Reg => Owner::Reg(bit),
        Axis::Lane => Owner::Lane(bit),
        Axis::Warp | Axis::Block | Axis::Off => Owner::Warp(bit),
    }
}

/// Items that are exchanged at once: as many as a part of the shared memory holds.
fn at_once(keys: Keys, threads: u32) -> usize {
    (EXCHANGE_BYTES / (threads * keys.ty().bytes())).max(1) as usize
}

impl Lower<'_> {
    /// Runs a network: items by registers, as its layouts say.
    pub(super) fn network(&self, b: &mut LaneBuilder, net: &Network, keys: Keys, mut items: Vec<Item>) -> Result<Vec<Item>, LowerError> {
        let mut alive: Vec<usize> = (0..items.len()).collect();
        for step in net.steps() {
            let (across, rest) = (net.across(step.mask), net.left(&alive, step));
            if across.lane == 0 && across.warp == 0 {
                let top = step.top.map_or(across.reg & !net.across((1 << net.kept) - 1).reg, |t| net.across(1 << t).reg) as usize;
                for &r in alive.iter().filter(|&&r| r & top == 0) {
                    let s = r ^ across.reg as usize;
                    (items[r], items[s]) = keys.ordered(b, items[r], items[s]);
                }
            } else {
                let others = self.others(b, keys, across, &alive, &items)?;
                let upper = match step.top.map(|t| net.owned[t as usize]) {
                    Some(Owner::Lane(bit)) => Some(bit_is_set(b, Special::Lane, bit)),
                    Some(Owner::Warp(bit)) => Some(bit_is_set(b, Special::Warp, bit)),
                    Some(Owner::Reg(_)) | None => None,
                };
                for (&r, &other) in alive.iter().zip(&others) {
                    let mine = items[r];
                    items[r] = match upper {
                        Some(upper) => {
                            let first = keys.before(b, mine, other);
                            let keep = b.bin(BinOp::Xor, first, upper);
                            choose(b, keep, mine, other)
                        }
                        None => keys.ordered(b, mine, other).0,
                    };
                }
            }
            alive = rest;
        }
        Ok(net.registers().map(|r| items[r]).collect())
    }

    /// The items at the other positions of a step, for the registers that hold something.
    fn others(&self, b: &mut LaneBuilder, keys: Keys, across: Across, alive: &[usize], items: &[Item]) -> Result<Vec<Item>, LowerError> {
        let asked: Vec<Item> = alive.iter().map(|&r| items[r ^ across.reg as usize]).collect();
        if across.warp == 0 {
            let from = tilelift_lane::ShuffleFrom::Xor(across.lane);
            let moved = |x: Item| Item { key: b.shuffle(x.key, from), place: x.place.map(|p| b.shuffle(p, from)) };
            return Ok(asked.into_iter().map(moved).collect());
        }
        let (lanes, warps) = (self.target.lanes, self.plan.warps);
        let threads = lanes * warps;
        let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
        let row = |b: &mut LaneBuilder, warp: LVal, lane: LVal| {
            let n = b.i32(i64::from(lanes));
            let at = b.mul(warp, n);
            b.add(at, lane)
        };
        let own = row(b, warp, lane);
        let [lane, warp] = [(lane, across.lane), (warp, across.warp)].map(|(at, mask)| {
            let flip = b.i32(i64::from(mask));
            if mask == 0 { at } else { b.bin(BinOp::Xor, at, flip) }
        });
        let other = row(b, warp, lane);
        let mut out = Vec::with_capacity(asked.len());
        for part in asked.chunks(at_once(keys, threads)) {
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
}

/// True where a bit of a lane's or warp's number is 1.
fn bit_is_set(b: &mut LaneBuilder, of: Special, bit: u32) -> LVal {
    let (at, mask, zero) = (b.special(of), b.i32(1 << bit), b.i32(0));
    let set = b.bin(BinOp::And, at, mask);
    b.cmp(CmpOp::Ne, set, zero)
}
