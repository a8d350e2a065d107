//! Sets of numbered facts, one for each who may know.

use smallvec::SmallVec;
use std::ops::Range;

/// A set of numbers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub fn set(&mut self, n: usize) {
        if self.0.len() <= n / 64 {
            self.0.resize(n / 64 + 1, 0);
        }
        self.0[n / 64] |= 1 << (n % 64);
    }

    fn mbarrier(&self, n: usize) -> u64 {
        self.0.get(n).copied().unwrap_or(0)
    }

    /// Those of an mbarrier that are in the set.
    pub fn only(&self, n: usize, w: u64) -> u64 {
        w & self.mbarrier(n)
    }

    /// Those that are not.
    pub fn less(&self, n: usize, w: u64) -> u64 {
        w & !self.mbarrier(n)
    }
}

/// A few numbers: which mbarriers of a set they are in, and where.
#[derive(Default)]
pub(crate) struct Few(SmallVec<[(usize, u64); 4]>);

impl Clone for Few {
    fn clone(&self) -> Few {
        Few(SmallVec::from_slice(&self.0))
    }
}

impl Few {
    pub fn set(&mut self, n: usize) {
        let (mbarrier, bit) = (n / 64, 1 << (n % 64));
        match self.0.iter_mut().find(|x| x.0 == mbarrier) {
            Some(x) => x.1 |= bit,
            None => self.0.push((mbarrier, bit)),
        }
    }

    /// Calls `f` for each.
    pub fn each(&self, mut f: impl FnMut(usize)) {
        for &(mbarrier, mask) in &self.0 {
            (0..64).filter(|n| mask >> n & 1 == 1).for_each(|n| f(64 * mbarrier + n));
        }
    }

    /// Which of an mbarrier.
    fn mask(&self, mbarrier: usize) -> u64 {
        self.0.iter().find(|x| x.0 == mbarrier).map_or(0, |x| x.1)
    }
}

/// Facts of 64 that go to other ones of 64, all by as much.
struct Way {
    from: u64,
    to: usize,
    by: u32,
}

/// Where facts and rows go. Those of a slot go together, so that of 64 there are few ways.
pub(crate) struct Moves {
    facts: usize,
    ways: Vec<SmallVec<[Way; 4]>>,
    rows: Vec<usize>,
}

impl Moves {
    /// By number; rows behind the last one stay.
    pub fn new(facts: &[usize], rows: Vec<usize>) -> Moves {
        let ways = |few: &[usize]| {
            let mut ways: SmallVec<[Way; 4]> = SmallVec::new();
            // Most go the way of the one in front.
            let mut last = 0;
            for (k, &fact) in few.iter().enumerate() {
                let (to, by) = (fact / 64, (64 + fact as u32 % 64 - k as u32) % 64);
                let same = |way: &Way| (way.to, way.by) == (to, by);
                if !ways.get(last).is_some_and(same) {
                    last = ways.iter().position(same).unwrap_or(ways.len());
                }
                match ways.get_mut(last) {
                    Some(way) => way.from |= 1 << k,
                    None => ways.push(Way { from: 1 << k, to, by }),
                }
            }
            ways
        };
        Moves { facts: facts.len(), ways: facts.chunks(64).map(ways).collect(), rows }
    }

    /// How many facts there are.
    pub fn facts(&self) -> usize {
        self.facts
    }
}

/// Sets of facts, one for each who may know: a row. Of 64 facts all rows lie together, so that what all forget is quickly forgotten.
#[derive(Default)]
pub(crate) struct Facts {
    mbarriers: Vec<u64>,
    /// Mbarriers of a row.
    width: usize,
    rows: usize,
}

impl Clone for Facts {
    fn clone(&self) -> Facts {
        Facts { mbarriers: self.mbarriers.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Facts) {
        self.mbarriers.clone_from(&other.mbarriers);
        (self.width, self.rows) = (other.width, other.rows);
    }
}

impl Facts {
    fn at(&self, row: usize, mbarrier: usize) -> usize {
        mbarrier * self.rows + row
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.mbarriers[..])
    }

    /// So many empty sets, at least.
    pub fn grow(&mut self, rows: usize) {
        if rows <= self.rows {
            return;
        }
        let rows = rows.next_multiple_of(32);
        let mut mbarriers = vec![0; rows * self.width];
        mbarriers
            .chunks_mut(rows)
            .zip(self.mbarriers.chunks(self.rows.max(1)))
            .for_each(|(to, from)| to[..from.len()].copy_from_slice(from));
        (self.mbarriers, self.rows) = (mbarriers, rows);
    }

    pub fn has(&self, row: usize, fact: usize) -> bool {
        fact / 64 < self.width && self.mbarriers[self.at(row, fact / 64)] >> (fact % 64) & 1 == 1
    }

    pub fn set(&mut self, row: usize, fact: usize) {
        if fact / 64 >= self.width {
            self.width = fact / 64 + 1;
            self.mbarriers.resize(self.rows * self.width, 0);
        }
        let at = self.at(row, fact / 64);
        self.mbarriers[at] |= 1 << (fact % 64);
    }

    pub fn clear(&mut self, row: usize, fact: usize) {
        if fact / 64 < self.width {
            let at = self.at(row, fact / 64);
            self.mbarriers[at] &= !(1 << (fact % 64));
        }
    }

    /// An mbarrier of every row.
    fn column(&mut self, mbarrier: usize) -> &mut [u64] {
        &mut self.mbarriers[mbarrier * self.rows..(mbarrier + 1) * self.rows]
    }

    /// Nobody knows it any more.
    pub fn forget(&mut self, fact: usize) {
        self.forget_of(fact / 64, 1 << (fact % 64));
    }

    /// Nobody knows any of them any more.
    pub fn forget_all(&mut self, few: &Few) {
        few.0.iter().for_each(|&(mbarrier, mask)| self.forget_of(mbarrier, mask));
    }

    /// The same of many.
    pub fn forget_bits(&mut self, bits: &Bits) {
        bits.0.iter().enumerate().filter(|x| *x.1 != 0).for_each(|(mbarrier, &mask)| self.forget_of(mbarrier, mask));
    }

    fn forget_of(&mut self, mbarrier: usize, mask: u64) {
        if mbarrier < self.width {
            self.column(mbarrier).iter_mut().for_each(|w| *w &= !mask);
        }
    }

    /// Who knows a fact knows another one instead, and nobody else does.
    pub fn rename(&mut self, from: usize, to: usize) {
        if from / 64 >= self.width {
            return self.forget(to);
        }
        if to / 64 >= self.width {
            self.width = to / 64 + 1;
            self.mbarriers.resize(self.rows * self.width, 0);
        }
        let (old, new) = (from % 64, to % 64);
        // Whole columns without a choice in them: they are many rows.
        if from / 64 == to / 64 {
            let keep = !(1 << old | 1 << new);
            self.column(from / 64).iter_mut().for_each(|w| *w = *w & keep | (*w >> old & 1) << new);
            return;
        }
        let (low, high) = (from.min(to) / 64, from.max(to) / 64);
        let (front, behind) = self.mbarriers.split_at_mut(high * self.rows);
        let (low, high) = (&mut front[low * self.rows..(low + 1) * self.rows], &mut behind[..self.rows]);
        let (olds, news) = if from < to { (low, high) } else { (high, low) };
        for (was, is) in olds.iter_mut().zip(news) {
            *is = *is & !(1 << new) | (*was >> old & 1) << new;
            *was &= !(1 << old);
        }
    }

    /// Nobody knows a few any more; who knew a fact knows another one instead.
    pub fn end_phase(&mut self, few: &Few, ended: usize, before: usize) {
        if ended / 64 >= self.width {
            return self.forget_all(few);
        }
        if before / 64 >= self.width {
            self.width = before / 64 + 1;
            self.mbarriers.resize(self.rows * self.width, 0);
        }
        let (from, to) = (ended % 64, before % 64);
        if ended / 64 == before / 64 {
            // As a rule: each row's mbarrier at once.
            let keep = !few.mask(ended / 64);
            self.column(ended / 64).iter_mut().for_each(|w| *w = *w & keep | (*w >> from & 1) << to);
            few.0.iter().filter(|x| x.0 != ended / 64).for_each(|&(mbarrier, mask)| self.forget_of(mbarrier, mask));
            return;
        }
        let known: SmallVec<[u64; 64]> = self.column(ended / 64).iter().map(|w| w >> from & 1).collect();
        self.forget_all(few);
        self.column(before / 64).iter_mut().zip(known).for_each(|(w, k)| *w |= k << to);
    }

    /// A set becomes empty.
    pub fn reset(&mut self, row: usize) {
        self.mbarriers.iter_mut().skip(row).step_by(self.rows.max(1)).for_each(|w| *w = 0);
    }

    /// A set is as another one, less what is in a third.
    pub fn copy(&mut self, to: usize, from: usize, except: Option<usize>) {
        self.reset(to);
        self.tell(to, from, except, |_, w| w);
    }

    /// A set becomes that behind it, and is empty then.
    pub fn hand_on(&mut self, row: usize) {
        for column in self.mbarriers.chunks_mut(self.rows.max(1)) {
            column[row + 1] = std::mem::take(&mut column[row]);
        }
    }

    /// To a set comes what is in another one, and not in a third, as far as a filter lets it pass: of mbarriers by number.
    pub fn tell(&mut self, to: usize, from: usize, except: Option<usize>, filter: impl Fn(usize, u64) -> u64) {
        for (n, column) in self.mbarriers.chunks_mut(self.rows.max(1)).enumerate() {
            // Most are empty.
            let known = column[from];
            if known != 0 {
                let hidden = except.map_or(0, |row| column[row]);
                column[to] |= filter(n, known & !hidden);
            }
        }
    }

    /// Of a set only these stay.
    pub fn keep(&mut self, row: usize, only: &Bits) {
        self.mbarriers.iter_mut().skip(row).step_by(self.rows.max(1)).enumerate().for_each(|(n, w)| *w &= only.mbarrier(n));
    }

    /// Of a set what is in the same set of another table, too; with `either`, what is in one of them.
    pub fn merge(&mut self, row: usize, other: &Facts, either: bool) {
        for mbarrier in 0..self.width.max(other.width) {
            let theirs = if mbarrier < other.width && row < other.rows { other.mbarriers[other.at(row, mbarrier)] } else { 0 };
            if mbarrier >= self.width {
                self.width = mbarrier + 1;
                self.mbarriers.resize(self.rows * self.width, 0);
            }
            let at = self.at(row, mbarrier);
            self.mbarriers[at] = if either { self.mbarriers[at] | theirs } else { self.mbarriers[at] & theirs };
        }
    }

    /// The same where rows and facts have other numbers, into a table for it.
    pub fn moved(&self, moves: &Moves, out: &mut Facts) {
        let width = moves.facts.div_ceil(64).max(self.width);
        (out.width, out.rows) = (width, self.rows);
        out.mbarriers.clear();
        out.mbarriers.resize(self.rows * width, 0);
        for (column, ways) in self.mbarriers.chunks(self.rows.max(1)).zip(&moves.ways) {
            for (row, &w) in column.iter().enumerate().filter(|x| *x.1 != 0) {
                let row = moves.rows.get(row).copied().unwrap_or(row);
                for way in ways.iter().filter(|way| w & way.from != 0) {
                    out.mbarriers[way.to * self.rows + row] |= (w & way.from).rotate_left(way.by);
                }
            }
        }
    }

    /// Of the sets of all rows but some only that stays which `known` has where rows and facts have other numbers. True if something went.
    pub fn keep_known(&mut self, moves: Option<&Moves>, own: &Range<usize>, known: &[(u64, u64)]) -> bool {
        let mut went = false;
        let find = |mbarrier: usize, row: usize| {
            let at = (mbarrier as u64) << 32 | row as u64;
            known.binary_search_by_key(&at, |x| x.0).map_or(0, |n| known[n].1)
        };
        for (mbarrier, column) in self.mbarriers.chunks_mut(self.rows.max(1)).enumerate() {
            for (row, w) in column.iter_mut().enumerate().filter(|x| *x.1 != 0) {
                let (there, ways) = match moves {
                    Some(m) => (m.rows.get(row).copied().unwrap_or(row), m.ways.get(mbarrier)),
                    None => (row, None),
                };
                if !own.contains(&there) {
                    let stays = match ways {
                        Some(ways) => ways.iter().map(|way| find(way.to, there).rotate_right(way.by) & way.from).fold(0, |all, k| all | k),
                        None => find(mbarrier, there),
                    };
                    went |= *w & !stays != 0;
                    *w &= stays;
                }
            }
        }
        went
    }

    /// All of it as numbers: the sets of some rows, and those of the others.
    pub fn key(&self, own: &Range<usize>, out: &mut Vec<u64>, others: &mut Vec<(u64, u64)>) {
        for (mbarrier, column) in self.mbarriers.chunks(self.rows.max(1)).enumerate() {
            for (n, few) in column.chunks(8).enumerate() {
                // Most are empty.
                if few.iter().fold(0, |any, w| any | w) == 0 {
                    continue;
                }
                for (k, &w) in few.iter().enumerate().filter(|x| *x.1 != 0) {
                    let row = 8 * n + k;
                    let at = (mbarrier as u64) << 32 | row as u64;
                    if own.contains(&row) {
                        out.extend([at, w]);
                    } else {
                        others.push((at, w));
                    }
                }
            }
        }
        out.push(u64::MAX);
    }
}

/// True if all that is known of one state, as [`Facts::key`] gives it, is known of another.
pub(crate) fn known_of(less: &[(u64, u64)], more: &[(u64, u64)]) -> bool {
    let mut more = more.iter();
    less.iter().all(|&(at, w)| more.find(|x| x.0 >= at).is_some_and(|x| x.0 == at && w & !x.1 == 0))
}

/// Of what is known of one state, as [`Facts::key`] gives it, keeps what is known of another, too.
pub(crate) fn known_of_both(one: &mut Vec<(u64, u64)>, other: &[(u64, u64)]) {
    let mut others = other.iter().copied().peekable();
    one.retain_mut(|(at, w)| {
        while others.next_if(|x| x.0 < *at).is_some() {}
        *w &= others.peek().filter(|x| x.0 == *at).map_or(0, |x| x.1);
        *w != 0
    });
}

#[cfg(test)]
mod tests {
    use crate::state::facts::*;

    /// Who knows what, one by one.
    fn known(f: &Facts, rows: usize, facts: usize) -> Vec<(usize, usize)> {
        (0..rows).flat_map(|r| (0..facts).filter(move |&n| f.has(r, n)).map(move |n| (r, n))).collect()
    }

    #[test]
    fn who_knows_more_knows_what_others_know() {
        let (mut a, mut b) = (Facts::default(), Facts::default());
        a.grow(10);
        b.grow(40);
        for (row, fact) in [(0, 3), (5, 100), (9, 4), (31, 64)] {
            b.set(row, fact);
            if row != 5 && row != 31 {
                a.set(row, fact);
            }
        }
        let key = |f: &Facts, own: Range<usize>| {
            let (mut numbers, mut others) = (Vec::new(), Vec::new());
            f.key(&own, &mut numbers, &mut others);
            (numbers, others)
        };
        let (less, more) = (key(&a, 20..30), key(&b, 20..30));
        assert_eq!(less.0, more.0);
        assert!(known_of(&less.1, &more.1) && !known_of(&more.1, &less.1) && known_of(&more.1, &more.1));
        // What is to be the same is among the numbers.
        assert_ne!(key(&a, 5..6).0, key(&b, 5..6).0);
        a.set(0, 2);
        assert!(!known_of(&key(&a, 20..30).1, &more.1));
    }

    #[test]
    fn who_knew_a_fact_knows_what_it_is_renamed_to() {
        let mut f = Facts::default();
        f.grow(10);
        [(0, 3), (0, 70), (1, 3), (2, 70), (2, 130)].into_iter().for_each(|(row, fact)| f.set(row, fact));
        f.rename(3, 130);
        f.rename(200, 5);
        assert_eq!(known(&f, 10, 210), [(0, 70), (0, 130), (1, 130), (2, 70)]);
    }

    #[test]
    fn sets_merge_with_those_of_another_table() {
        let (mut a, mut b) = (Facts::default(), Facts::default());
        a.grow(10);
        b.grow(40);
        [(1, 3), (1, 70), (2, 5)].into_iter().for_each(|(row, fact)| a.set(row, fact));
        [(1, 3), (1, 200), (2, 6)].into_iter().for_each(|(row, fact)| b.set(row, fact));
        let mut both = a.clone();
        both.merge(1, &b, false);
        assert_eq!(known(&both, 10, 300), [(1, 3), (2, 5)]);
        a.merge(1, &b, true);
        assert_eq!(known(&a, 10, 300), [(1, 3), (1, 70), (1, 200), (2, 5)]);
    }

    #[test]
    fn what_is_kept_is_what_is_known_elsewhere() {
        // Facts 3 and 70 change places, as rows 1 and 2 do.
        let places: Vec<usize> = (0..130)
            .map(|n| {
                if n == 3 {
                    70
                } else if n == 70 {
                    3
                } else {
                    n
                }
            })
            .collect();
        let moves = Moves::new(&places, vec![0, 2, 1]);
        let (mut here, mut there) = (Facts::default(), Facts::default());
        here.grow(10);
        there.grow(10);
        [(0, 3), (1, 3), (1, 70), (2, 129), (5, 3), (5, 4)].into_iter().for_each(|(row, fact)| here.set(row, fact));
        [(0, 70), (2, 70), (1, 129), (9, 1)].into_iter().for_each(|(row, fact)| there.set(row, fact));
        let mut all = Vec::new();
        there.key(&(0..0), &mut Vec::new(), &mut all);
        assert!(here.keep_known(Some(&moves), &(5..6), &all));
        // Row 5 keeps all.
        assert_eq!(known(&here, 10, 130), [(0, 3), (1, 3), (2, 129), (5, 3), (5, 4)]);
        let mut again = Vec::new();
        here.key(&(0..0), &mut Vec::new(), &mut again);
        assert!(!here.keep_known(None, &(0..0), &again));
        assert_eq!(known(&here, 10, 130), [(0, 3), (1, 3), (2, 129), (5, 3), (5, 4)]);
    }

    #[test]
    fn sets_of_many_rows_hold_what_sets_of_pairs_do() {
        let (rows, facts) = (200, 300);
        let (mut f, mut pairs) = (Facts::default(), std::collections::BTreeSet::new());
        f.grow(70);
        let mut seed = 1u64;
        let mut next = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        };
        for step in 0..4000 {
            if step == 100 {
                f.grow(rows);
            }
            let (a, b, x, y) = (next(69), next(if step < 100 { 70 } else { rows }), next(facts), next(facts));
            match next(8) {
                0..3 => {
                    f.set(b, x);
                    pairs.insert((b, x));
                }
                3 => {
                    f.forget(x);
                    pairs.retain(|p| p.1 != x);
                }
                4 => {
                    f.tell(b, a, Some(a / 2), |n, w| if n % 2 == 0 { w } else { 0 });
                    let told = |p: &&(usize, usize)| p.0 == a && (p.1 / 64).is_multiple_of(2) && !pairs.contains(&(a / 2, p.1));
                    let told: Vec<_> = pairs.iter().filter(told).map(|p| (b, p.1)).collect();
                    pairs.extend(told);
                }
                5 => {
                    f.clear(b, x);
                    pairs.remove(&(b, x));
                }
                6 if step % 16 == 0 => {
                    f.reset(b);
                    pairs.retain(|p| p.0 != b);
                }
                6 if step % 16 == 1 => {
                    f.hand_on(a);
                    let handed: Vec<_> = pairs.iter().filter(|p| p.0 == a).map(|p| (a + 1, p.1)).collect();
                    pairs.retain(|p| p.0 != a && p.0 != a + 1);
                    pairs.extend(handed);
                }
                6 => {
                    let mut few = Few::default();
                    [x, y, (x + 7) % facts].into_iter().for_each(|n| few.set(n));
                    f.end_phase(&few, x, y);
                    let knew: Vec<_> = pairs.iter().filter(|p| p.1 == x).map(|p| (p.0, y)).collect();
                    pairs.retain(|p| ![x, y, (x + 7) % facts].contains(&p.1));
                    pairs.extend(knew);
                }
                _ => {
                    f.copy(b, a, None);
                    let copied: Vec<_> = pairs.iter().filter(|p| p.0 == a).map(|p| (b, p.1)).collect();
                    pairs.retain(|p| p.0 != b);
                    pairs.extend(copied.into_iter().filter(|_| a != b));
                }
            }
            if step % 50 == 0 || step > 3990 {
                assert_eq!(known(&f, rows.min(f.rows), facts), pairs.iter().copied().collect::<Vec<_>>(), "step {step}");
            }
        }
        // Some facts stay, and all rows go.
        let to = |n: usize| if n < 20 { n } else { 20 + (n - 15) % (facts - 20) };
        let facts_to: Vec<usize> = (0..facts).map(to).collect();
        let mut moved = Facts::default();
        moved.grow(3);
        moved.set(0, 3 * facts);
        f.moved(&Moves::new(&facts_to, (0..rows).map(|row| (row + 3) % rows).collect()), &mut moved);
        let mut expected: Vec<_> = pairs.iter().map(|p| ((p.0 + 3) % rows, to(p.1))).collect();
        expected.sort_unstable();
        assert_eq!(known(&moved, rows, facts), expected);
        assert!(!expected.is_empty());
    }
}
