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
//! after a trip through shared memory.
//!
//! Of what is kept of two registers one is left. Of two lanes, whose runs rise in the one and fall in the other, each keeps half of what is kept, as
//! long as it has two registers of it: the lanes' bit takes the register's place among the bits of positions. Then both keep all.

use super::Lower;
use super::keys::{Item, Keys, choose};
use super::scratch::Scratch;
use super::sort_price::{Work, compared, ordered, words};
use crate::layout::{Owner, owners};
use tilelift_ir::CmpOp;
use tilelift_ir::layout::{Axis, Coord, Layout};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, ShuffleFrom, Special};
use tilelift_schedule::LowerError;

/// Shared memory for an exchange between warps.
const EXCHANGE_BYTES: u32 = 1 << 15;

/// What is done with the elements of lines, and where they lie afterwards.
pub(super) struct Network {
    steps: Vec<Step>,
    /// Registers in front of it.
    registers: usize,
    /// Where what is kept lies behind it, by its order.
    pub to: Layout,
}

/// All items meet those at positions that differ in some bits.
#[derive(Clone, Copy)]
struct Step {
    /// Which differ.
    across: Across,
    kind: Kind,
}

/// What is done with two items.
#[derive(Clone, Copy)]
enum Kind {
    /// The lesser one goes where the top bit is 0, or where it is 1 if what holds the other bit has 1 there.
    Apart { top: Owner, falling: Option<Owner> },
    /// The lesser one is kept, in the register that lacks this bit.
    Fold { gone: u32 },
    /// The lesser one is kept: of the registers without a bit where the owner's bit is 0, of those with it where that is 1.
    Halve { by: Owner, gone: u32 },
    /// The lesser one is kept by both.
    Keep,
}

/// Bits of registers, lanes and warps.
#[derive(Clone, Copy, Default)]
struct Across {
    reg: u32,
    lane: u32,
    warp: u32,
}

impl Across {
    fn of(owners: &[Owner]) -> Across {
        let mut all = Across::default();
        for owner in owners {
            match owner {
                Owner::Reg(i) => all.reg |= 1 << i,
                Owner::Lane(i) => all.lane |= 1 << i,
                Owner::Warp(i) => all.warp |= 1 << i,
            }
        }
        all
    }
}

impl Kind {
    /// The bit of registers that are given up.
    fn gone(self) -> u32 {
        match self {
            Kind::Fold { gone } | Kind::Halve { gone, .. } => gone,
            Kind::Apart { .. } | Kind::Keep => 0,
        }
    }

    /// What is left of registers.
    fn left(self, alive: &[usize]) -> Vec<usize> {
        alive.iter().copied().filter(|r| *r as u32 & self.gone() == 0).collect()
    }
}

impl Network {
    /// The network for the first `kept` elements, a power of two, of lines along `dim`; `None` if the layout does not keep the bits of the line
    /// apart.
    pub fn new(from: &Layout, dim: usize, kept: u32) -> Option<Network> {
        let beside = from.bits(Axis::Block) + from.bits(Axis::Off);
        if !from.shape()[dim].is_power_of_two() || beside > 0 || from.odd(Axis::Reg).len() > 1 {
            return None;
        }
        let mut owned = owners(from, dim)?;
        owned.sort_by_key(|owner| match owner {
            Owner::Reg(i) => (0, *i),
            Owner::Lane(i) => (1, *i),
            Owner::Warp(i) => (2, *i),
        });
        let kept = (kept.trailing_zeros() as usize).min(owned.len());
        let (steps, gone) = steps(&mut owned, kept);
        let mut shape = from.shape().to_vec();
        shape[dim] = 1 << kept;
        let columns = [Axis::Reg, Axis::Lane, Axis::Warp].map(|axis| {
            let there = (0..from.bits(axis)).filter(|i| axis != Axis::Reg || gone >> i & 1 == 0);
            let list = there.map(|i| {
                let mut c = from.column(axis, i);
                if c[dim] != 0 {
                    c[dim] = owned[..kept].iter().position(|&o| o == owner(axis, i)).map_or(0, |at| 1 << at);
                }
                c
            });
            (axis, list.collect::<Vec<Coord>>())
        });
        let to = Layout::from_columns(&shape, &columns).ok()?;
        let registers = from.size(Axis::Reg) as usize;
        let same = to.size(Axis::Reg) as usize == registers >> gone.count_ones() && to.odd(Axis::Reg) == from.odd(Axis::Reg);
        same.then_some(Network { steps, registers, to })
    }

    /// What a warp does.
    pub fn work(&self, keys: Keys) -> Work {
        let (mut alive, words) = (self.registers as u64, words(keys));
        let mut all = Work::default();
        for &Step { across, kind } in &self.steps {
            // Where lanes and warps come in, a bit of their numbers turns the comparison.
            let (compared, simple, sent) = match kind {
                Kind::Apart { top: Owner::Reg(_), falling: None } => (alive / 2, ordered(keys, 2, false), 0),
                Kind::Apart { top: Owner::Reg(_), falling: Some(_) } => (alive / 2, compared(keys) + 1 + 2 * words, 0),
                Kind::Apart { .. } => (alive, compared(keys) + 1 + words, alive),
                Kind::Fold { .. } => (alive / 2, ordered(keys, 1, false), 0),
                Kind::Halve { .. } => (alive / 2, 2 * words + ordered(keys, 1, false), alive / 2),
                Kind::Keep => (alive, ordered(keys, 1, false), alive),
            };
            all.simple += compared * simple;
            all.waits[0] += 1;
            if across.warp != 0 {
                (all.traded, all.meetings) = (all.traded + sent * words, all.meetings + 1);
            } else {
                (all.shuffles, all.waits[1]) = (all.shuffles + sent * words, all.waits[1] + u64::from(sent > 0));
            }
            alive >>= kind.gone().count_ones();
        }
        all
    }

    /// Bytes of each array in shared memory, in order.
    pub fn scratch(&self, keys: Keys, threads: u32) -> Vec<u64> {
        let mut alive = self.registers;
        let mut list = Vec::new();
        for step in &self.steps {
            let left = alive >> step.kind.gone().count_ones();
            let sent = if matches!(step.kind, Kind::Halve { .. }) { left } else { alive };
            let most = at_once(keys, threads);
            for first in (0..sent).step_by(most).filter(|_| step.across.warp != 0) {
                let each = u64::from(threads) * most.min(sent - first) as u64;
                list.push(each * u64::from(keys.ty().bytes()));
                list.extend(keys.pair().then_some(each * u64::from(LTy::I32.bytes())));
            }
            alive = left;
        }
        list
    }
}

/// What is compared, in order, and the bits of registers that are given up. Of `owned`, who holds each bit of a position, the first `kept` are those of the
/// result behind it.
fn steps(owned: &mut [Owner], kept: usize) -> (Vec<Step>, u32) {
    let (mut steps, mut all) = (Vec::new(), 0);
    let moves = |owner: Owner| (!matches!(owner, Owner::Reg(_))).then_some(owner);
    for stage in 0..kept {
        // The last runs fall where the merge behind it wants that.
        let falling = if stage + 1 == kept { owned.get(kept).and_then(|&o| moves(o)) } else { None };
        steps.push(Step { across: Across::of(&owned[..=stage]), kind: Kind::Apart { top: owned[stage], falling } });
        apart(&mut steps, &owned[..stage], falling);
    }
    for stage in kept..owned.len() {
        let by = owned[stage];
        let half = owned[..kept].iter().rposition(|o| matches!(o, Owner::Reg(_)));
        let (across, kind) = match (by, half.map(|at| (at, owned[at]))) {
            (Owner::Reg(i), _) => {
                let run = Across::of(&owned[..kept]);
                (Across { reg: run.reg | 1 << i, ..run }, Kind::Fold { gone: 1 << i })
            }
            (_, Some((at, Owner::Reg(i)))) => {
                owned[at] = by;
                (Across::of(&[by]), Kind::Halve { by, gone: 1 << i })
            }
            _ => (Across::of(&[by]), Kind::Keep),
        };
        all |= kind.gone();
        steps.push(Step { across, kind });
        let falling = owned.get(stage + 1).and_then(|&o| moves(o));
        apart(&mut steps, &owned[..kept], falling);
    }
    (steps, all)
}

/// Sorts what falls after it rises, or rises after it falls.
fn apart(steps: &mut Vec<Step>, owned: &[Owner], falling: Option<Owner>) {
    steps.extend(owned.iter().rev().map(|&top| Step { across: Across::of(&[top]), kind: Kind::Apart { top, falling } }));
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
        for &Step { across, kind } in &net.steps {
            let left = kind.left(&alive);
            match kind {
                Kind::Apart { top: Owner::Reg(top), falling } => {
                    let falling = falling.and_then(|o| is_set(b, o));
                    for &r in alive.iter().filter(|&&r| r >> top & 1 == 0) {
                        let s = r ^ across.reg as usize;
                        (items[r], items[s]) = match falling {
                            None => keys.ordered(b, items[r], items[s]),
                            Some(falling) => {
                                let first = keys.before(b, items[r], items[s]);
                                let keep = b.bin(BinOp::Xor, first, falling);
                                (choose(b, keep, items[r], items[s]), choose(b, keep, items[s], items[r]))
                            }
                        };
                    }
                }
                Kind::Apart { top, falling } => {
                    let sent = alive.iter().map(|&r| items[r ^ across.reg as usize]).collect();
                    let others = self.others(b, keys, across, sent)?;
                    let turns = [Some(top), falling].map(|o| o.and_then(|o| is_set(b, o)));
                    let turns = turns.into_iter().flatten().reduce(|x, y| b.bin(BinOp::Xor, x, y));
                    for (&r, other) in alive.iter().zip(others) {
                        let mine = items[r];
                        let first = keys.before(b, mine, other);
                        let keep = turns.map_or(first, |t| b.bin(BinOp::Xor, first, t));
                        items[r] = choose(b, keep, mine, other);
                    }
                }
                Kind::Fold { .. } => left.iter().for_each(|&r| items[r] = keys.ordered(b, items[r], items[r ^ across.reg as usize]).0),
                Kind::Halve { by, gone } => {
                    let mut sent = Vec::with_capacity(left.len());
                    if let Some(upper) = is_set(b, by) {
                        for &r in &left {
                            let [low, high] = [items[r], items[r | gone as usize]];
                            sent.push(choose(b, upper, low, high));
                            items[r] = choose(b, upper, high, low);
                        }
                    }
                    let others = self.others(b, keys, across, sent)?;
                    left.iter().zip(others).for_each(|(&r, other)| items[r] = keys.ordered(b, items[r], other).0);
                }
                Kind::Keep => {
                    let sent = alive.iter().map(|&r| items[r]).collect();
                    let others = self.others(b, keys, across, sent)?;
                    alive.iter().zip(others).for_each(|(&r, other)| items[r] = keys.ordered(b, items[r], other).0);
                }
            }
            alive = left;
        }
        Ok(alive.into_iter().map(|r| items[r]).collect())
    }

    /// What the lanes and warps at the other positions of a step send.
    fn others(&self, b: &mut LaneBuilder, keys: Keys, across: Across, sent: Vec<Item>) -> Result<Vec<Item>, LowerError> {
        if across.warp == 0 {
            let from = ShuffleFrom::Xor(across.lane);
            let moved = |x: Item| Item { key: b.shuffle(x.key, from), place: x.place.map(|p| b.shuffle(p, from)) };
            return Ok(sent.into_iter().map(moved).collect());
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
        let mut out = Vec::with_capacity(sent.len());
        for part in sent.chunks(at_once(keys, threads)) {
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

/// True where a bit of a lane's or warp's number is 1; nothing for registers.
pub(super) fn is_set(b: &mut LaneBuilder, owner: Owner) -> Option<LVal> {
    let (of, bit) = match owner {
        Owner::Lane(bit) => (Special::Lane, bit),
        Owner::Warp(bit) => (Special::Warp, bit),
        Owner::Reg(_) => return None,
    };
    let (at, mask, zero) = (b.special(of), b.i32(1 << bit), b.i32(0));
    let set = b.bin(BinOp::And, at, mask);
    Some(b.cmp(CmpOp::Ne, set, zero))
}
