//! Webs: groups of values that share one register.
//!
//! PTX has no phi, so a loop-carried value is one register that the body changes. Joining a parameter with its initial, next and
//! result values, the branches of a choice with its result, and an accumulator with the result of its matrix instruction keeps
//! them in place; where two of them live at the same time they stay apart and the printer copies.

use super::defs::{Def, Defs};
use super::live::{self, Interval};
use super::visit::{Nest, nest};
use crate::class::Class;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use tilelift_isel::lane::{Block, LVal, Program};

/// The register webs of a program.
pub(crate) struct Webs {
    /// Union-find parents; absent for a representative.
    parent: SecondaryMap<LVal, PackedOption<LVal>>,
    /// Intervals of a representative's web, sorted; empty while the web is the value alone.
    spans: SecondaryMap<LVal, Vec<Interval>>,
    live: SecondaryMap<LVal, Interval>,
}

impl Webs {
    /// Joins what may be joined.
    pub(crate) fn new(program: &Program, defs: &Defs<'_>) -> Webs {
        let live = live::intervals(defs, &program.body);
        let mut webs = Webs { parent: SecondaryMap::new(), spans: SecondaryMap::new(), live };
        // Results first: the loop leaves with the parameter's register, so these joins are not a choice.
        webs.results(&program.body);
        webs.copies(defs, &program.body);
        webs
    }

    /// The value that stands for `v`'s web.
    pub(crate) fn representative(&self, mut v: LVal) -> LVal {
        while let Some(p) = self.parent[v].expand() {
            v = p;
        }
        v
    }

    fn spans(&self, v: LVal) -> Vec<Interval> {
        if self.spans[v].is_empty() { vec![self.live[v]] } else { self.spans[v].clone() }
    }

    fn join(&mut self, a: LVal, b: LVal) -> bool {
        let (a, b) = (self.representative(a), self.representative(b));
        if a == b {
            return true;
        }
        let Some(both) = merge(&self.spans(a), &self.spans(b)) else { return false };
        self.link(a, b, both);
        true
    }

    fn link(&mut self, a: LVal, b: LVal, both: Vec<Interval>) {
        self.parent[b] = a.into();
        self.spans[b] = Vec::new();
        self.spans[a] = both;
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
        let both = vec![self.live[param], self.live[result]];
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

/// Two sorted lists as one, if no interval of one meets one of the other.
fn merge(a: &[Interval], b: &[Interval]) -> Option<Vec<Interval>> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x.end < y.start => {
                i += 1;
                *x
            }
            (Some(x), Some(y)) if y.end < x.start => {
                j += 1;
                *y
            }
            (Some(_), Some(_)) => return None,
            (Some(x), None) => {
                i += 1;
                *x
            }
            (None, Some(y)) => {
                j += 1;
                *y
            }
            (None, None) => break,
        };
        out.push(next);
    }
    Some(out)
}
