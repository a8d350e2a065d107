//! Gives bundles their registers: the largest first, each the lowest place that is free in all its rows.
//!
//! Where nothing is free, what costs less to keep in memory makes way; what finds no place at all is spilled.

use super::bundle::{Bundle, Bundles};
use super::fuel::Fuel;
use super::live::{Ranges, Seg};
use super::matrix::{Matrix, Set};
use super::owners::Owners;
use super::result::AllocError;
use super::words::{FILES, Words, file_size};
use crate::mir::File;
use cranelift_entity::EntityRef;
use std::collections::BinaryHeap;

/// Registers of each file that may be used.
pub(super) type Limits = [usize; 3];

/// In which order bundles of as many words are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PlacingOrder {
    /// Those that occupy most first.
    Area,
    /// As they come in the program.
    Start,
}

/// Where bundles are.
#[derive(Debug)]
pub(super) struct Places {
    /// The first register of each, if it has a place.
    pub base: Vec<Option<u16>>,
    /// Those that have none.
    pub spilled: Vec<usize>,
    /// A bundle that has none and cannot be spilled.
    pub stuck: Option<usize>,
    /// Registers in use, per file.
    pub used: [usize; 3],
}

/// Physical registers that the program names: they cannot be moved.
pub(super) fn fixed(words: &Words, ranges: &Ranges) -> Vec<(File, usize, Vec<Seg>)> {
    let mut found = Vec::new();
    for file in FILES {
        for number in 0..file_size(file) {
            let segs = ranges.of(words.physical(file, number));
            if !segs.is_empty() {
                found.push((file, number, segs.to_vec()));
            }
        }
    }
    found
}

struct Assign<'a> {
    bundles: &'a Bundles,
    limits: Limits,
    taken: [Matrix; 3],
    fixed: [Matrix; 3],
    /// Who has which rows; kept from the first time on that something has to make way.
    owners: Option<Owners>,
    base: Vec<Option<u16>>,
    /// Bundles that made way, and how often.
    moved: Vec<u8>,
    fuel: &'a Fuel,
}

/// Times that a bundle makes way before it stays away.
const MOVES: u8 = 3;

impl Assign<'_> {
    /// Places where all words of a bundle are free, or are not taken for ever.
    fn free(&self, bundle: &Bundle, taken: &Matrix) -> Set {
        let file = bundle.file as usize;
        let count = bundle.words.len();
        let Some(limit) = (self.limits[file] + 1).checked_sub(count) else { return Set::default() };
        let mut free = Set::candidates(limit, bundle.align);
        let mut known: Option<(usize, Set)> = None;
        for (i, rows) in bundle.words.iter().enumerate() {
            let set = match known {
                Some((j, set)) if bundle.words[j] == *rows => set,
                _ => {
                    self.fuel.burn(Matrix::steps(rows));
                    taken.taken(rows)
                }
            };
            known = Some((i, set));
            free.remove_below(&set, i);
        }
        free
    }

    fn put(&mut self, index: usize, base: usize) {
        let bundle = &self.bundles.all[index];
        for (i, rows) in bundle.words.iter().enumerate() {
            self.fuel.burn(Matrix::steps(rows));
            self.taken[bundle.file as usize].take(base + i, rows);
            if let Some(owners) = &mut self.owners {
                owners.add(bundle.file, base + i, rows, index);
            }
        }
        self.base[index] = Some(base as u16);
    }

    fn remove(&mut self, index: usize) {
        let Some(base) = self.base[index].take() else { return };
        let bundle = &self.bundles.all[index];
        for (i, rows) in bundle.words.iter().enumerate() {
            let register = usize::from(base) + i;
            self.fuel.burn(Matrix::steps(rows));
            self.taken[bundle.file as usize].release(register, rows);
            if let Some(owners) = &mut self.owners {
                owners.remove(bundle.file, register, rows);
            }
        }
    }

    /// The place that most copies would like, if it is free.
    fn wished(&self, index: usize, free: &Set) -> Option<usize> {
        self.bundles.hints[index].iter().find_map(|hint| {
            let from = match hint.other {
                None => 0,
                Some(reg) => {
                    let (other, word) = self.bundles.of[reg.index()];
                    i32::from(self.base[other]?) + i32::from(word)
                }
            };
            usize::try_from(from + hint.by).ok().filter(|&at| free.contains(at))
        })
    }

    /// The place where the least has to make way, if that costs less than this bundle.
    fn cheapest(&mut self, index: usize) -> Option<(usize, Vec<usize>)> {
        let bundle = &self.bundles.all[index];
        let mut open = self.free(bundle, &self.fixed[bundle.file as usize]);
        let mut owners = self.owners.take().unwrap_or_else(|| Owners::new(&self.bundles.all, &self.base));
        let mut best: Option<(f32, usize, Vec<usize>)> = None;
        while let Some(base) = open.first() {
            open = without(open, base);
            let dear = best.as_ref().map_or(bundle.weight, |b| b.0);
            let price = |owner: usize| if self.moved[owner] < MOVES { self.bundles.all[owner].weight } else { f32::INFINITY };
            if let Some((worst, conflicts)) = owners.conflicts(bundle, base, dear, &price, self.fuel) {
                best = Some((worst, base, conflicts));
            }
        }
        self.owners = Some(owners);
        best.map(|(_, base, conflicts)| (base, conflicts))
    }
}

fn without(set: Set, register: usize) -> Set {
    let mut one = Set::default();
    one.insert(register);
    let mut rest = set;
    rest.remove_below(&one, 0);
    rest
}

/// Places all bundles.
///
/// # Errors
/// If the work becomes too much.
pub(super) fn assign(
    bundles: &Bundles,
    fixed: &[(File, usize, Vec<Seg>)],
    rows: usize,
    limits: Limits,
    order: PlacingOrder,
    fuel: &Fuel,
) -> Result<Places, AllocError> {
    let count = bundles.all.len();
    let mut names = FILES.map(|_| Matrix::new(rows));
    for (file, number, segs) in fixed {
        names[*file as usize].take(*number, segs);
    }
    fuel.burn(6 * rows + count);
    let mut assign =
        Assign { bundles, limits, taken: names.clone(), fixed: names, owners: None, base: vec![None; count], moved: vec![0; count], fuel };
    let mut used = [0; 3];
    for (file, number, _) in fixed {
        used[*file as usize] = used[*file as usize].max(number + 1);
    }
    // What cannot be spilled comes first, then what has more words; of equals the first. One number, so that comparing takes no steps.
    let key = |index: usize| {
        let bundle = &bundles.all[index];
        let second = match order {
            PlacingOrder::Area => bundle.area,
            PlacingOrder::Start => u64::from(u32::MAX - bundle.start()),
        };
        let parts =
            [u128::from(bundle.weight == f32::INFINITY), bundle.words.len() as u128, u128::from(second), u128::from(!(index as u32))];
        parts[0] << 127 | parts[1] << 96 | parts[2] << 32 | parts[3]
    };
    // All of them in order, the first one last; and those that made way.
    let mut queue: Vec<_> = (0..count).filter(|&i| !bundles.all[i].members.is_empty()).map(key).collect();
    queue.sort_unstable();
    let mut again = BinaryHeap::new();
    let mut spilled = Vec::new();
    let mut stuck = None;
    while let Some(next) = if again.peek() > queue.last() { again.pop() } else { queue.pop() } {
        fuel.check()?;
        let index = !(next as u32) as usize;
        let bundle = &bundles.all[index];
        let free = assign.free(bundle, &assign.taken[bundle.file as usize]);
        if let Some(base) = assign.wished(index, &free).or_else(|| free.first()) {
            assign.put(index, base);
        } else if let Some((base, conflicts)) = assign.cheapest(index) {
            for other in conflicts {
                assign.remove(other);
                assign.moved[other] += 1;
                again.push(key(other));
            }
            assign.put(index, base);
        } else if bundle.weight == f32::INFINITY {
            stuck = Some(index);
        } else {
            spilled.push(index);
        }
    }
    for (index, base) in assign.base.iter().enumerate() {
        if let Some(base) = base {
            let bundle = &bundles.all[index];
            let file = bundle.file as usize;
            used[file] = used[file].max(usize::from(*base) + bundle.words.len());
        }
    }

    Ok(Places { base: assign.base, spilled, stuck, used })
}
