//! Webs: groups of values that share one register.
//!
//! PTX has no phi, so a loop-carried value is one register that the body changes. Joining a parameter with its initial, next and
//! result values, the branches of a choice with its result, and an accumulator with the result of its matrix instruction keeps
//! them in place; where two of them live at the same time they stay apart and the printer copies.

use super::defs::Defs;
use super::live::{Interval, Lives, Rounds};
use super::visit::{Nest, nest};
use cranelift_entity::{EntityRef, SecondaryMap};
use smallvec::SmallVec;
use tilelift_isel::lane::{Block, LVal, Program};

/// Intervals of a web, sorted. Neighbours that touch are one, so they are few.
type Spans = SmallVec<[Interval; 4]>;

/// The register webs of a program.
pub(crate) struct Webs {
    /// Union-find parents; a representative is its own. When all is joined, each value's representative.
    parent: Vec<LVal>,
    /// What flies on into the next iteration of loops.
    pub(crate) rounds: Rounds,
}

impl Webs {
    /// Joins what may be joined.
    pub(crate) fn new(program: &Program, defs: &Defs<'_>) -> Webs {
        let Lives { at: live, rounds, .. } = Lives::of(defs, program);
        let values = program.vals.len();
        let parent = (0..values).map(LVal::new).collect();
        let mut joins = Joins { defs, parent, spans: vec![ALONE; values], lists: Vec::new(), live };
        // Results first: the loop leaves with the parameter's register, so these joins are not a choice.
        joins.results(&program.body);
        joins.copies(&program.body);
        for n in 0..values {
            let up = joins.parent[n];
            if up.index() != n {
                joins.parent[n] = joins.find(up);
            }
        }
        Webs { parent: joins.parent, rounds }
    }

    /// The value that stands for `v`'s web.
    #[inline]
    pub(crate) fn representative(&self, v: LVal) -> LVal {
        self.parent[v.index()]
    }
}

/// The place of the intervals of a web that has one.
const ALONE: u32 = u32::MAX;

/// The union-find that joins.
struct Joins<'d, 'p> {
    defs: &'d Defs<'p>,
    parent: Vec<LVal>,
    /// Where in `lists` the intervals of a representative's web are; [`ALONE`] while they are one, which `live` has.
    spans: Vec<u32>,
    lists: Vec<Spans>,
    live: SecondaryMap<LVal, Interval>,
}

impl Joins<'_, '_> {
    /// The representative of a value's web. All on the way there come closer to it: a chain of webs is as long as a chain of loops.
    fn find(&mut self, mut v: LVal) -> LVal {
        let mut up = self.parent[v.index()];
        while up != v {
            let next = self.parent[up.index()];
            self.parent[v.index()] = next;
            (v, up) = (up, next);
        }
        v
    }

    fn join(&mut self, a: LVal, b: LVal) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        match (self.spans[a.index()], self.spans[b.index()]) {
            (ALONE, ALONE) => {
                let (x, y) = (self.live[a], self.live[b]);
                if let Some(both) = x.touching(y) {
                    self.parent[b.index()] = a;
                    self.live[a] = both;
                } else if let Some(list) = x.beside(y) {
                    self.list(a, b, &list);
                }
            }
            (list, ALONE) => {
                if put(&mut self.lists[list as usize], self.live[b]) {
                    self.link(a, b, list);
                }
            }
            (ALONE, list) => {
                if put(&mut self.lists[list as usize], self.live[a]) {
                    self.link(a, b, list);
                }
            }
            (one, other) => {
                let of = |list: u32| &self.lists[list as usize];
                if apart(of(one), of(other)) {
                    // What is put in is what is shorter.
                    let (long, short) = if of(one).len() < of(other).len() { (other, one) } else { (one, other) };
                    let short = std::mem::take(&mut self.lists[short as usize]);
                    merge(&mut self.lists[long as usize], &short);
                    self.link(a, b, long);
                }
            }
        }
    }

    fn link(&mut self, a: LVal, b: LVal, both: u32) {
        self.parent[b.index()] = a;
        self.spans[a.index()] = both;
    }

    /// Links two webs whose intervals are those.
    fn list(&mut self, a: LVal, b: LVal, intervals: &[Interval]) {
        self.lists.push(SmallVec::from_slice(intervals));
        self.link(a, b, self.lists.len() as u32 - 1);
    }

    fn results(&mut self, block: &Block) {
        for inst in block {
            match nest(inst) {
                Nest::For(l) => {
                    l.carried.iter().for_each(|c| self.result(c.param, c.result));
                    self.results(&l.body);
                }
                Nest::While(l) => {
                    l.carried.iter().for_each(|c| self.result(c.param, c.result));
                    self.results(&l.test);
                    self.results(&l.body);
                }
                Nest::If(i) => {
                    self.results(&i.then);
                    self.results(&i.otherwise);
                }
                Nest::Roles(r) => r.roles.iter().for_each(|r| self.results(&r.body)),
                Nest::Matrix { .. } | Nest::Plain => {}
            }
        }
    }

    /// The result begins behind the loop, the parameter ends inside it.
    fn result(&mut self, param: LVal, result: LVal) {
        self.list(param, result, &[self.live[param], self.live[result]]);
    }

    fn copies(&mut self, block: &Block) {
        for inst in block {
            match nest(inst) {
                Nest::For(l) => {
                    l.carried.iter().for_each(|c| self.try_join(c.param, c.init));
                    self.copies(&l.body);
                    l.carried.iter().for_each(|c| self.try_join(c.param, c.next));
                }
                Nest::While(l) => {
                    l.carried.iter().for_each(|c| self.try_join(c.param, c.init));
                    self.copies(&l.test);
                    self.copies(&l.body);
                    l.carried.iter().for_each(|c| self.try_join(c.param, c.next));
                }
                Nest::If(i) => {
                    self.copies(&i.then);
                    self.copies(&i.otherwise);
                    for &(result, a, b) in &i.results {
                        self.try_join(result, a);
                        self.try_join(result, b);
                    }
                }
                Nest::Roles(r) => r.roles.iter().for_each(|r| self.copies(&r.body)),
                Nest::Matrix { dsts, c } => dsts.iter().zip(c).for_each(|(&d, &c)| self.try_join(d, c)),
                Nest::Plain => {}
            }
        }
    }

    fn try_join(&mut self, v: LVal, with: LVal) {
        let with = self.defs.root(with);
        if self.defs.is_made(with) && self.defs.class(v) == self.defs.class(with) {
            self.join(v, with);
        }
    }
}

impl Interval {
    /// One interval of two, if the second begins where the first ends.
    #[inline]
    fn touching(self, other: Interval) -> Option<Interval> {
        let (first, second) = if self.start < other.start { (self, other) } else { (other, self) };
        (first.end + 1 == second.start).then_some(Interval { start: first.start, end: second.end })
    }

    /// Two in order, if they do not meet.
    fn beside(self, other: Interval) -> Option<[Interval; 2]> {
        let (first, second) = if self.start < other.start { (self, other) } else { (other, self) };
        (first.end < second.start).then_some([first, second])
    }
}

/// How far from its end a list is looked through one by one.
const NEAR: usize = 2;

/// Where an interval goes in a sorted list: in front of the first that does not end before it.
fn place(list: &[Interval], x: Interval) -> usize {
    // Webs grow towards the end of the program, and most have an interval or two.
    let mut at = list.len();
    while at > 0 && list[at - 1].end >= x.start {
        if list.len() - at == NEAR {
            return list[..at].partition_point(|y| y.end < x.start);
        }
        at -= 1;
    }
    at
}

/// True if no interval of one sorted list meets one of the other.
fn apart(a: &[Interval], b: &[Interval]) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short.iter().all(|&x| long.get(place(long, x)).is_none_or(|y| x.end < y.start))
}

/// Puts an interval into a sorted list, if it meets none there.
fn put(list: &mut Spans, x: Interval) -> bool {
    let intervals = list.as_mut_slice();
    let at = place(intervals, x);
    if intervals.get(at).is_some_and(|y| y.start <= x.end) {
        return false;
    }
    let (before, behind) = intervals.split_at_mut(at);
    let joined = before.last_mut().and_then(|y| y.touching(x).map(|both| *y = both)).is_some();
    let own = before.last().copied().filter(|_| joined).unwrap_or(x);
    match (joined, behind.first_mut().and_then(|y| y.touching(own).map(|both| *y = both)).is_some()) {
        (true, true) => _ = list.remove(at - 1),
        (false, false) => list.insert(at, x),
        (true, false) | (false, true) => {}
    }
    true
}

/// Puts the intervals of one sorted list into another one, from which they are apart.
fn merge(long: &mut Spans, short: &[Interval]) {
    if short.len() > 8 {
        long.extend_from_slice(short);
        long.sort_unstable_by_key(|x| x.start);
        long.dedup_by(|next, before| before.touching(*next).map(|both| *before = both).is_some());
        return;
    }
    short.iter().for_each(|&x| _ = put(long, x));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(bounds: &[(u32, u32)]) -> Spans {
        bounds.iter().map(|&(start, end)| Interval { start, end }).collect()
    }

    /// The positions that a list covers.
    fn covered(list: &[Interval]) -> Vec<u32> {
        list.iter().flat_map(|x| x.start..=x.end).collect()
    }

    #[test]
    fn lists_that_are_apart_become_one_in_order() {
        let odd: Vec<(u32, u32)> = (0..20).map(|i| (10 * i + 5, 10 * i + 7)).collect();
        let filled = [
            vec![(0, 4)],
            vec![(8, 9), (28, 34)],
            (0..12).map(|i| (10 * i, 10 * i + 4)).collect(),
            vec![(8, 14)],
            vec![(1, 3), (209, 210)],
        ];
        for short in filled {
            assert!(apart(&list(&odd), &list(&short)) && apart(&list(&short), &list(&odd)));
            let (mut both, mut other) = (list(&odd), list(&short));
            merge(&mut both, &list(&short));
            merge(&mut other, &list(&odd));
            assert_eq!(both, other);
            let mut all = [covered(&list(&odd)), covered(&list(&short))].concat();
            all.sort_unstable();
            assert_eq!(covered(&both), all);
            assert!(both.windows(2).all(|w| w[0].end + 1 < w[1].start), "{both:?}");
        }
        for meets in [(0, 5), (7, 7), (6, 6), (0, 100), (195, 300)] {
            assert!(!apart(&list(&odd), &list(&[meets])), "{meets:?}");
        }
    }
}
