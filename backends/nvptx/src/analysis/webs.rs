//! Webs: groups of values that share one register.
//!
//! PTX has no phi, so a loop-carried value is one register that the body changes. Joining a parameter with its initial, next and
//! result values, the branches of a choice with its result, and an accumulator with the result of its matrix instruction keeps
//! them in place; where two of them live at the same time they stay apart and the printer copies.

use super::defs::{Def, Defs};
use super::live::{Interval, Lives, Rounds};
use super::visit::{Nest, nest};
use crate::class::Class;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use smallvec::SmallVec;
use tilelift_isel::lane::{Block, LVal, Program};

/// Intervals of a web, sorted: few, mostly.
type Spans = SmallVec<[Interval; 4]>;

/// A list of intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct List(u32);
entity_impl!(List);

/// The register webs of a program.
pub(crate) struct Webs {
    /// Union-find parents; absent for a representative.
    parent: SecondaryMap<LVal, PackedOption<LVal>>,
    /// Where in `lists` the intervals of a representative's web are; absent while the web is the value alone.
    spans: SecondaryMap<LVal, PackedOption<List>>,
    lists: PrimaryMap<List, Spans>,
    live: SecondaryMap<LVal, Interval>,
    /// What flies on into the next iteration of loops.
    pub(crate) rounds: Rounds,
}

impl Webs {
    /// Joins what may be joined.
    pub(crate) fn new(program: &Program, defs: &Defs<'_>) -> Webs {
        let Lives { at: live, rounds, .. } = Lives::of(defs, program);
        let mut webs = Webs { parent: SecondaryMap::new(), spans: SecondaryMap::new(), lists: PrimaryMap::new(), live, rounds };
        webs.parent.resize(program.vals.len());
        webs.spans.resize(program.vals.len());
        // Results first: the loop leaves with the parameter's register, so these joins are not a choice.
        webs.results(&program.body);
        webs.copies(defs, &program.body);
        program.vals.keys().for_each(|v| {
            webs.shortened(v);
        });
        webs
    }

    /// The value that stands for `v`'s web.
    pub(crate) fn representative(&self, mut v: LVal) -> LVal {
        while let Some(p) = self.parent[v].expand() {
            v = p;
        }
        v
    }

    /// The same, and all on the way there then know it: a chain of webs is as long as a chain of loops.
    fn shortened(&mut self, v: LVal) -> LVal {
        // Most are a step away from it, if that.
        let Some(p) = self.parent[v].expand() else { return v };
        if self.parent[p].is_none() {
            return p;
        }
        let r = self.representative(p);
        let mut at = v;
        while at != r {
            let next = self.parent[at].expand().unwrap_or(r);
            self.parent[at] = r.into();
            at = next;
        }
        r
    }

    /// The intervals of a representative's web.
    fn spans(&self, v: LVal) -> &[Interval] {
        self.spans[v].expand().map_or(std::slice::from_ref(&self.live[v]), |list| &self.lists[list])
    }

    fn join(&mut self, a: LVal, b: LVal) -> bool {
        let (a, b) = (self.shortened(a), self.shortened(b));
        if a == b {
            return true;
        }
        if !apart(self.spans(a), self.spans(b)) {
            return false;
        }
        // What is put in is what is shorter.
        let (long, short) = if self.spans(a).len() < self.spans(b).len() { (b, a) } else { (a, b) };
        let list = match self.spans[long].expand() {
            Some(list) => list,
            None => self.lists.push(SmallVec::from_slice(&[self.live[long]])),
        };
        let own = std::mem::take(&mut self.lists[list]);
        self.lists[list] = merge(own, self.spans(short));
        self.link(a, b, list);
        true
    }

    fn link(&mut self, a: LVal, b: LVal, both: List) {
        self.parent[b] = a.into();
        self.spans[b] = None.into();
        self.spans[a] = both.into();
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
        let both = self.lists.push(SmallVec::from_slice(&[self.live[param], self.live[result]]));
        self.link(param, result, both);
    }

    fn copies(&mut self, defs: &Defs<'_>, block: &Block) {
        for inst in block {
            match nest(inst) {
                Nest::For(l) => {
                    l.carried.iter().for_each(|c| self.try_join(defs, c.param, c.init));
                    self.copies(defs, &l.body);
                    l.carried.iter().for_each(|c| self.try_join(defs, c.param, c.next));
                }
                Nest::While(l) => {
                    l.carried.iter().for_each(|c| self.try_join(defs, c.param, c.init));
                    self.copies(defs, &l.test);
                    self.copies(defs, &l.body);
                    l.carried.iter().for_each(|c| self.try_join(defs, c.param, c.next));
                }
                Nest::If(i) => {
                    self.copies(defs, &i.then);
                    self.copies(defs, &i.otherwise);
                    for &(result, a, b) in &i.results {
                        self.try_join(defs, result, a);
                        self.try_join(defs, result, b);
                    }
                }
                Nest::Roles(r) => r.roles.iter().for_each(|r| self.copies(defs, &r.body)),
                Nest::Matrix { dsts, c } => dsts.iter().zip(c).for_each(|(&d, &c)| self.try_join(defs, d, c)),
                Nest::Plain => {}
            }
        }
    }

    fn try_join(&mut self, defs: &Defs<'_>, v: LVal, with: LVal) {
        let with = defs.root(with);
        let own_register = match defs.def(with) {
            Def::Register | Def::AddConst(..) | Def::Bits(_) => true,
            Def::Const(_) | Def::Same(_) | Def::Param(_) | Def::Special(_) | Def::Shared(_) => false,
        };
        if own_register && Class::of(defs.ty(v)) == Class::of(defs.ty(with)) {
            self.join(v, with);
        }
    }
}

/// The position of an interval in a sorted list that it may meet; `None` if it meets one.
fn place(list: &[Interval], x: Interval) -> Option<usize> {
    let at = list.partition_point(|y| y.end < x.start);
    list.get(at).is_none_or(|y| x.end < y.start).then_some(at)
}

/// True if no interval of one sorted list meets one of the other.
fn apart(a: &[Interval], b: &[Interval]) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    short.iter().all(|&x| place(long, x).is_some())
}

/// Two sorted lists that are apart as one. Webs grow towards the end of the program, a few intervals at a time.
fn merge(mut long: Spans, short: &[Interval]) -> Spans {
    if short.len() > 8 {
        long.extend_from_slice(short);
        long.sort_unstable_by_key(|x| x.start);
        return long;
    }
    for &x in short {
        let at = place(&long, x).unwrap_or(long.len());
        long.insert(at, x);
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(bounds: &[(u32, u32)]) -> Spans {
        bounds.iter().map(|&(start, end)| Interval { start, end }).collect()
    }

    #[test]
    fn lists_that_are_apart_become_one_in_order() {
        let odd: Vec<(u32, u32)> = (0..20).map(|i| (10 * i + 5, 10 * i + 7)).collect();
        for short in [vec![(0, 4)], vec![(8, 9), (28, 34)], (0..12).map(|i| (10 * i, 10 * i + 4)).collect()] {
            assert!(apart(&list(&odd), &list(&short)) && apart(&list(&short), &list(&odd)));
            let both = merge(list(&odd), &list(&short));
            assert_eq!(both, merge(list(&short), &list(&odd)));
            assert_eq!(both.len(), odd.len() + short.len());
            assert!(both.windows(2).all(|w| w[0].end < w[1].start), "{both:?}");
        }
        for meets in [(0, 5), (7, 7), (6, 6), (0, 100), (195, 300)] {
            assert!(!apart(&list(&odd), &list(&[meets])), "{meets:?}");
        }
    }
}
