//! Which loops of different roles go round equally often: those whose bounds are the same expressions of the same things.

use crate::lane::visit::blocks;
use crate::lane::{Block, For, Inst, LVal, Program, Roles, Unit};
use std::collections::HashMap;

/// Numbers of loops: loops with one number go round equally often. Keyed by the loop's index.
pub(super) type Streams = HashMap<LVal, usize>;

struct Finder<'a> {
    /// The instruction behind each computed value, and the loop behind each index.
    makers: HashMap<LVal, &'a Inst>,
    streams: Streams,
    /// A loop of each number, by role, and the number of the loop around it.
    known: Vec<(usize, &'a For, Option<usize>)>,
    same: HashMap<(LVal, LVal), bool>,
}

/// Numbers the loops in which barrier words are used.
pub(super) fn streams(program: &Program, roles: &Roles) -> Streams {
    let mut f = Finder { makers: HashMap::new(), streams: HashMap::new(), known: Vec::new(), same: HashMap::new() };
    f.makers_of(&program.body);
    for (n, role) in roles.roles.iter().enumerate() {
        f.makers_of(&role.body);
        f.loops(n, &role.body, None);
    }
    f.streams
}

/// True if barrier words, or what they guard, are used in a block.
pub(super) fn matters(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => !matches!(**u, Unit::PrefetchMap { .. }),
        other => blocks(other).into_iter().any(matters),
    })
}

impl<'a> Finder<'a> {
    fn makers_of(&mut self, block: &'a Block) {
        for inst in block {
            match inst {
                Inst::Const { dst, .. }
                | Inst::Param { dst, .. }
                | Inst::Special { dst, .. }
                | Inst::Un { dst, .. }
                | Inst::Bin { dst, .. }
                | Inst::Fma { dst, .. }
                | Inst::Cmp { dst, .. }
                | Inst::Select { dst, .. }
                | Inst::Cvt { dst, .. } => {
                    self.makers.insert(*dst, inst);
                }
                other => blocks(other).into_iter().for_each(|b| self.makers_of(b)),
            }
        }
    }

    fn loops(&mut self, role: usize, block: &'a Block, around: Option<usize>) {
        for inst in block {
            match inst {
                Inst::For(l) if matters(&l.body) => {
                    let taken: Vec<usize> = self.known.iter().enumerate().filter(|(_, k)| k.0 == role).map(|(n, _)| n).collect();
                    let candidates: Vec<(usize, &'a For)> =
                        self.known.iter().filter(|k| k.0 != role && k.2 == around).map(|k| (self.streams[&k.1.iv], k.1)).collect();
                    let own: Vec<usize> = taken.iter().map(|&n| self.streams[&self.known[n].1.iv]).collect();
                    let found = candidates.into_iter().find(|(s, k)| {
                        !own.contains(s) && [(l.lo, k.lo), (l.hi, k.hi), (l.step, k.step)].into_iter().all(|(a, b)| self.equal(a, b))
                    });
                    let stream = found.map_or(self.streams.values().max().map_or(0, |m| m + 1), |f| f.0);
                    self.streams.insert(l.iv, stream);
                    self.known.push((role, l, around));
                    self.loops(role, &l.body, Some(stream));
                }
                other => blocks(other).into_iter().for_each(|b| self.loops(role, b, around)),
            }
        }
    }

    /// True if two values are the same expression.
    fn equal(&mut self, a: LVal, b: LVal) -> bool {
        if a == b {
            return true;
        }
        if let Some(&known) = self.same.get(&(a, b)) {
            return known;
        }
        let indices = self.streams.get(&a).zip(self.streams.get(&b)).is_some_and(|(x, y)| x == y);
        let result = indices
            || match (self.makers.get(&a).copied(), self.makers.get(&b).copied()) {
                (Some(Inst::Const { bits: x, .. }), Some(Inst::Const { bits: y, .. })) => x == y,
                (Some(Inst::Param { index: x, .. }), Some(Inst::Param { index: y, .. })) => x == y,
                (Some(Inst::Special { what: x, .. }), Some(Inst::Special { what: y, .. })) => x == y,
                (Some(Inst::Un { op: x, a, .. }), Some(Inst::Un { op: y, a: b, .. })) => x == y && self.equal(*a, *b),
                (Some(Inst::Bin { op: x, a, b, .. }), Some(Inst::Bin { op: y, a: c, b: d, .. })) => {
                    x == y && self.equal(*a, *c) && self.equal(*b, *d)
                }
                (Some(Inst::Cmp { op: x, a, b, .. }), Some(Inst::Cmp { op: y, a: c, b: d, .. })) => {
                    x == y && self.equal(*a, *c) && self.equal(*b, *d)
                }
                (Some(Inst::Select { c, a, b, .. }), Some(Inst::Select { c: d, a: e, b: f, .. }))
                | (Some(Inst::Fma { a: c, b: a, c: b, .. }), Some(Inst::Fma { a: d, b: e, c: f, .. })) => {
                    self.equal(*c, *d) && self.equal(*a, *e) && self.equal(*b, *f)
                }
                (Some(Inst::Cvt { a, .. }), Some(Inst::Cvt { a: b, .. })) => self.equal(*a, *b),
                _ => false,
            };
        self.same.insert((a, b), result);
        result
    }
}
