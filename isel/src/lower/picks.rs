//! The first elements of lines, picked one by one.
//!
//! ```text
//! lanes   each sorts what it holds of a line, as far as its first k items
//! k times the least of the lanes' first items is found, word by word: the least upper word, of those who have it the least lower word, …
//!         the lane whose item that is moves its others up by one
//! ```
//!
//! All lanes of a warp hold one line, or copies of what others hold, so that the least word of a warp ([`tilelift_lane::Inst::Redux`]) is that of a line.
//! Behind it neighbouring lanes have neighbouring items, all copies of them. Where elements are asked for without positions, equal ones are told apart by their lanes.

use super::keys::{Item, Keys};
use super::network::is_set;
use super::sort_price::{Work, ordered, words};
use crate::layout::{Owner, owners};
use smallvec::SmallVec;
use tilelift_ir::CmpOp;
use tilelift_ir::layout::{Axis, Coord, Layout};
use tilelift_lane::{BinOp, LVal, LaneBuilder, Special, Target};

/// Which elements are picked, and where they lie afterwards.
pub(super) struct Picks {
    /// Lines of a lane: where they lie beside the axis, and the registers that hold them.
    lines: Vec<(Coord, Vec<usize>)>,
    /// How a lane sorts what it holds of a line.
    sorted: Vec<Pair>,
    /// Bits of a lane's number by which lanes hold other elements of a line.
    lanes: u32,
    dim: usize,
    /// Elements that are picked.
    first: usize,
    /// Where they lie behind it.
    pub to: Layout,
}

/// Two items that are put in order.
struct Pair {
    low: usize,
    high: usize,
    /// How many of them are looked at afterwards.
    looked_at: u64,
    /// The lower one comes from a lower position.
    in_order: bool,
}

impl Picks {
    /// How the first elements of lines along `dim` are picked; `None` if a warp holds several lines at a time, or parts of them.
    pub fn new(from: &Layout, dim: usize, first: u32, target: &Target) -> Option<Picks> {
        let shape = from.shape();
        let elsewhere = from.bits(Axis::Block) + from.bits(Axis::Off) > 0 || from.odd_size(Axis::Lane) > 1 || from.odd_size(Axis::Warp) > 1;
        if !target.redux || elsewhere || !shape[dim].is_power_of_two() {
            return None;
        }
        let (mut lanes, mut held) = (0, 1);
        for owner in owners(from, dim)? {
            match owner {
                Owner::Reg(_) => held *= 2,
                Owner::Lane(i) => lanes |= 1 << i,
                Owner::Warp(_) => return None,
            }
        }
        let beside = |i: u32| lanes >> i & 1 == 0 && from.column(Axis::Lane, i).iter().any(|&x| x != 0);
        if (0..from.bits(Axis::Lane)).any(beside) {
            return None;
        }
        let lines = lines(from, dim);
        if lines.iter().any(|line| line.1.len() != held) {
            return None;
        }
        let first = first as usize;
        Some(Picks { lines, sorted: pairs(held, first), lanes, dim, first, to: behind(from, dim, first as u32)? })
    }

    /// What a warp does.
    pub fn work(&self, keys: Keys) -> Work {
        let (lines, held, first) = (self.lines.len() as u64, self.lines[0].1.len() as u64, self.first as u64);
        let dealt =
            self.to.size(Axis::Reg).max(1) as u64 * ((1 << self.to.shape()[self.dim].trailing_zeros().min(self.to.bits(Axis::Lane))) - 1);
        let sorted: u64 = self.sorted.iter().map(|pair| ordered(keys, pair.looked_at, pair.in_order)).sum();
        let levels = u64::from(held.ilog2());
        let levels = levels * (levels + 1) / 2;
        if self.lanes == 0 {
            return Work { simple: lines * sorted + dealt * words(keys), waits: [levels, 0, 0], ..Work::default() };
        }
        // Equal ones are told apart by one word more, where positions don't.
        let told_by = words(keys) + u64::from(!keys.placed);
        let moved: u64 = (0..first).map(|n| held.min(first - 1 - n)).sum();
        let rounds = first * 2 * told_by;
        Work {
            simple: lines * (sorted + rounds + moved * words(keys)) + dealt * words(keys),
            reduxes: lines * first * told_by,
            waits: [levels + 2 * first, 0, first * told_by],
            ..Work::default()
        }
    }
}

/// The registers of each line that a lane holds, by their positions in it.
fn lines(layout: &Layout, dim: usize) -> Vec<(Coord, Vec<usize>)> {
    let mut lines: Vec<(Coord, Vec<(u32, usize)>)> = Vec::new();
    for r in 0..layout.size(Axis::Reg) {
        let mut at = layout.reg_coord(r);
        let place = std::mem::take(&mut at[dim]);
        match lines.iter_mut().find(|line| line.0 == at) {
            Some(line) => line.1.push((place, r as usize)),
            None => lines.push((at, vec![(place, r as usize)])),
        }
    }
    let by_place = |mut list: Vec<(u32, usize)>| {
        list.sort_unstable();
        list.into_iter().map(|x| x.1).collect()
    };
    lines.into_iter().map(|(at, list)| (at, by_place(list))).collect()
}

/// The layout behind it: of the bits of the first elements' order lanes have the low ones, registers the others.
fn behind(from: &Layout, dim: usize, first: u32) -> Option<Layout> {
    let mut shape = from.shape().to_vec();
    shape[dim] = first.next_power_of_two();
    let bits = shape[dim].trailing_zeros();
    let by_lanes = bits.min(from.bits(Axis::Lane));
    let columns = [Axis::Reg, Axis::Lane, Axis::Warp].map(|axis| {
        let along = |i: u32| -> Coord { (0..shape.len()).map(|d| if d == dim { 1 << i } else { 0 }).collect() };
        let mut list: Vec<Coord> = if axis == Axis::Reg { (by_lanes..bits).map(along).collect() } else { Vec::new() };
        for i in 0..from.bits(axis) {
            let c = from.column(axis, i);
            match axis {
                Axis::Lane if i < by_lanes => list.push(along(i)),
                Axis::Lane => list.push(SmallVec::from_elem(0, shape.len())),
                _ if c[dim] != 0 => {}
                _ => list.push(c),
            }
        }
        (axis, list)
    });
    let to = Layout::from_columns(&shape, &columns).ok()?;
    (to.odd(Axis::Reg) == from.odd(Axis::Reg) && lines(&to, dim).len() == lines(from, dim).len()).then_some(to)
}

/// Batcher's odd-even merge sort of so many items, a power of two, as far as the first ones are looked at.
fn pairs(items: usize, first: usize) -> Vec<Pair> {
    let mut list = Vec::new();
    let mut run = 1;
    while run < items {
        let mut apart = run;
        while apart > 0 {
            for start in (apart % run..items - apart).step_by(2 * apart) {
                let both = (start..(start + apart).min(items - apart)).filter(|i| i / (2 * run) == (i + apart) / (2 * run));
                // At first each of two runs has what it began with.
                list.extend(both.map(|low| Pair { low, high: low + apart, looked_at: 0, in_order: apart == run }));
            }
            apart /= 2;
        }
        run *= 2;
    }
    let mut looked_at: Vec<bool> = (0..items).map(|i| i < first).collect();
    for pair in list.iter_mut().rev() {
        pair.looked_at = u64::from(looked_at[pair.low]) + u64::from(looked_at[pair.high]);
        if pair.looked_at > 0 {
            (looked_at[pair.low], looked_at[pair.high]) = (true, true);
        }
    }
    list.retain(|pair| pair.looked_at > 0);
    list
}

/// Picks the first of items by registers, as the layouts say.
pub(super) fn picked(b: &mut LaneBuilder, how: &Picks, keys: Keys, items: &[Item]) -> Vec<Item> {
    let line = |b: &mut LaneBuilder, registers: &[usize]| of_line(b, how, keys, registers.iter().map(|&r| items[r]).collect());
    let lines: Vec<Vec<Vec<LVal>>> = how.lines.iter().map(|(_, registers)| line(b, registers)).collect();
    let lanes: Vec<(usize, LVal)> = (0..how.to.bits(Axis::Lane))
        .filter_map(|i| Some((how.to.column(Axis::Lane, i)[how.dim] as usize, is_set(b, Owner::Lane(i))?)).filter(|lane| lane.0 != 0))
        .collect();
    let made = (0..how.to.size(Axis::Reg)).map(|r| {
        let mut at = how.to.reg_coord(r);
        let first = std::mem::take(&mut at[how.dim]) as usize;
        let line = &lines[how.lines.iter().position(|line| line.0 == at).unwrap_or(0)];
        // Behind the last one anything will do.
        let mut all: Vec<Vec<LVal>> = (first..first + (1 << lanes.len())).map(|at| line[at.min(how.first - 1)].clone()).collect();
        for &(apart, upper) in lanes.iter().rev() {
            let (low, high) = all.split_at(apart);
            let both = |(x, y): (&Vec<LVal>, &Vec<LVal>)| x.iter().zip(y).map(|(&x, &y)| b.select(upper, y, x)).collect();
            all = low.iter().zip(high).map(both).collect();
        }
        keys.of_words(b, &all[0])
    });
    made.collect()
}

/// The words of the first items of a line, of which a lane has these.
fn of_line(b: &mut LaneBuilder, how: &Picks, keys: Keys, list: Vec<Item>) -> Vec<Vec<LVal>> {
    let mut list: Vec<Vec<LVal>> = list.iter().map(|&item| keys.words(b, item)).collect();
    for pair in &how.sorted {
        (list[pair.low], list[pair.high]) = keys.ordered_words(b, &list[pair.low], &list[pair.high], pair.in_order);
    }
    list.truncate(how.first);
    if how.lanes == 0 {
        return list;
    }
    let lane = (!keys.placed).then(|| {
        let (lane, bits) = (b.special(Special::Lane), b.i32(i64::from(how.lanes)));
        b.bin(BinOp::And, lane, bits)
    });
    // What comes behind all items: its lowest word is no position.
    let (most, ones) = (b.i32(i64::from(i32::MAX)), b.i32(-1));
    let last: Vec<LVal> = (0..list[0].len()).map(|n| if n == 0 { most } else { ones }).collect();
    let mut picked = Vec::with_capacity(how.first);
    for n in 1..=how.first {
        let (least, own) = least(b, &list[0], lane);
        picked.push(least);
        // So many are looked at later.
        for at in 0..list.len().min(how.first - n) {
            let next = list.get(at + 1).unwrap_or(&last).clone();
            for (word, next) in list[at].iter_mut().zip(next) {
                *word = b.select(own, next, *word);
            }
        }
    }
    picked
}

/// The least of the items that lanes have, given by their words, and whether it is the lane's own.
fn least(b: &mut LaneBuilder, words: &[LVal], lane: Option<LVal>) -> (Vec<LVal>, LVal) {
    let ones = b.i32(-1);
    let mut least = vec![b.redux(BinOp::Minimum, words[0])];
    let mut own = b.cmp(CmpOp::Eq, words[0], least[0]);
    for &word in words[1..].iter().chain(&lane) {
        // Lanes whose upper words are greater have no say.
        let asks = b.select(own, word, ones);
        least.push(b.redux(BinOp::MinimumU, asks));
        let same = b.cmp(CmpOp::Eq, word, least[least.len() - 1]);
        own = b.bin(BinOp::And, own, same);
    }
    least.truncate(words.len());
    (least, own)
}

#[cfg(test)]
mod tests {
    use super::pairs;

    /// Every network sorts all zeros and ones, so it sorts everything.
    #[test]
    fn networks_sort() {
        for items in [1, 2, 4, 8, 16] {
            for first in 1..=items {
                let network = pairs(items, first);
                for bits in 0..1u32 << items {
                    let mut list: Vec<u32> = (0..items).map(|i| bits >> i & 1).collect();
                    for pair in &network {
                        if list[pair.low] > list[pair.high] {
                            list.swap(pair.low, pair.high);
                        }
                    }
                    let zeros = items - bits.count_ones() as usize;
                    assert!((0..first).all(|i| list[i] == u32::from(i >= zeros)), "{items} {first} {bits:b}");
                }
            }
        }
        let count = |items, first| pairs(items, first).len();
        assert_eq!([count(2, 2), count(4, 4), count(8, 8), count(16, 16)], [1, 5, 19, 63]);
        assert_eq!([count(8, 1), count(16, 1)], [7, 15]);
    }
}
