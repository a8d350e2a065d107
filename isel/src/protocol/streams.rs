//! Which loops of different roles go round equally often: those whose bounds are the same expressions of the same things.
//!
//! A loop may have its first step in front of it: `if x < hi { …; for x + step to hi step { … } }` goes round as often as
//! `for x to hi step`, the choice being its first turn.

use crate::lane::visit::blocks;
use crate::lane::{BinOp, Block, For, Inst, LVal, Program, Roles, Unit};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use tilelift_ir::CmpOp;

/// Numbers of loops: loops with one number go round equally often. Keyed by the loop's index.
#[derive(Default)]
pub(super) struct Streams {
    /// The numbers.
    pub of: HashMap<LVal, usize>,
    /// Loops whose first step stands in front of them.
    pub behind: HashSet<LVal>,
}

/// A loop as far as it decides how often it goes round.
struct Known {
    role: usize,
    bounds: [LVal; 3],
    stream: usize,
    /// The number of the loop around it.
    around: Option<usize>,
}

struct Finder<'a> {
    /// The instruction behind each computed value, and the loop behind each index.
    makers: HashMap<LVal, &'a Inst>,
    streams: Streams,
    known: Vec<Known>,
    /// Loops, by their place in the list, of the other branch of a choice: of the two only one goes round.
    instead: Vec<Range<usize>>,
    same: HashMap<(LVal, LVal), bool>,
    /// Accesses of shared memory count.
    local: bool,
}

/// Numbers the loops in which barrier words are used.
pub(super) fn streams(program: &Program, roles: &Roles) -> Streams {
    let mut f = Finder {
        makers: HashMap::new(),
        streams: Streams::default(),
        known: Vec::new(),
        instead: Vec::new(),
        same: HashMap::new(),
        local: program.allocs.values().any(|a| a.grain > 0),
    };
    f.makers_of(&program.body);
    for (n, role) in roles.roles.iter().enumerate() {
        f.makers_of(&role.body);
        f.loops(n, &role.body, None, None);
    }
    f.streams
}

/// True if barrier words, or what they guard, are used in a block; with `local`, lanes' accesses of shared memory count.
pub(super) fn matters(block: &Block, local: bool) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => !matches!(**u, Unit::PrefetchMap { .. }),
        Inst::LoadShared { .. } | Inst::StoreShared { .. } => local,
        other => blocks(other).into_iter().any(|b| matters(b, local)),
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

    /// Numbers the loops of a block; `choice` is the condition of the choice whose block it is.
    fn loops(&mut self, role: usize, block: &'a Block, around: Option<usize>, choice: Option<LVal>) {
        for inst in block {
            match inst {
                Inst::For(l) if matters(&l.body, self.local) => {
                    let first = choice.and_then(|c| self.first_step(c, l));
                    if first.is_some() {
                        self.streams.behind.insert(l.iv);
                    }
                    let bounds = [first.unwrap_or(l.lo), l.hi, l.step];
                    let instead = |n: usize| self.instead.iter().any(|r| r.contains(&n));
                    let own: Vec<usize> =
                        self.known.iter().enumerate().filter(|(n, k)| k.role == role && !instead(*n)).map(|(_, k)| k.stream).collect();
                    let others: Vec<(usize, [LVal; 3])> =
                        self.known.iter().filter(|k| k.role != role && k.around == around).map(|k| (k.stream, k.bounds)).collect();
                    let found =
                        others.into_iter().find(|(s, other)| !own.contains(s) && bounds.iter().zip(other).all(|(&a, &b)| self.equal(a, b)));
                    let stream = found.map_or(self.streams.of.values().max().map_or(0, |m| m + 1), |f| f.0);
                    self.streams.of.insert(l.iv, stream);
                    self.known.push(Known { role, bounds, stream, around });
                    self.loops(role, &l.body, Some(stream), None);
                }
                Inst::If(c) => {
                    let first = self.known.len();
                    self.loops(role, &c.then, around, Some(c.condition));
                    self.instead.push(first..self.known.len());
                    self.loops(role, &c.otherwise, around, None);
                    self.instead.pop();
                }
                other => blocks(other).into_iter().for_each(|b| self.loops(role, b, around, None)),
            }
        }
    }

    /// Where a loop would begin with its first step in it, if `condition` says that there is one.
    fn first_step(&mut self, condition: LVal, l: &For) -> Option<LVal> {
        let Some(&Inst::Cmp { op: CmpOp::Lt, a: x, b: hi, .. }) = self.makers.get(&condition).copied() else { return None };
        let constant = |f: &Self, v: LVal| match f.makers.get(&v) {
            Some(Inst::Const { bits, .. }) => Some(*bits as i64),
            _ => None,
        };
        let behind = match self.makers.get(&l.lo).copied() {
            Some(&Inst::Bin { op: BinOp::Add, a, b, .. }) => {
                (self.equal(a, x) && self.equal(b, l.step)) || (self.equal(b, x) && self.equal(a, l.step))
            }
            Some(Inst::Const { bits, .. }) => {
                constant(self, x).zip(constant(self, l.step)).is_some_and(|(x, step)| x.checked_add(step) == Some(*bits as i64))
            }
            _ => false,
        };
        (behind && !l.runs && self.equal(l.hi, hi)).then_some(x)
    }

    /// True if two values are the same expression.
    fn equal(&mut self, a: LVal, b: LVal) -> bool {
        if a == b {
            return true;
        }
        if let Some(&known) = self.same.get(&(a, b)) {
            return known;
        }
        let indices = self.streams.of.get(&a).zip(self.streams.of.get(&b)).is_some_and(|(x, y)| x == y);
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
