//! Live intervals: from where to where a value's register must not change.
//!
//! Every instruction has a position `p` in text order; it reads at `2p` and writes at `2p + 1`. An interval is closed and covers all
//! positions between the definition and the last use; a use inside a loop of a value from outside counts as a use at the loop's
//! end. Interval by interval this covers at least what control flow allows, so two values whose intervals are disjoint may share a register:
//!
//! ```text
//! for     p = head: reads bounds and initial values; params begin at 2p + 1; latch: reads the next values; results begin behind it
//! while   as for; carried params live through the test, because the loop leaves from there
//! if      results begin at its end
//! ```
//!
//! An asynchronous product reads its operand A until the wait that covers it, or as long as the loop runs in which it begins.

use super::defs::{Base, Defs};
use super::visit::{self, Role};
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tilelift_isel::lane::visit::{blocks, results};
use tilelift_isel::lane::{Block, Carried, Inst, LVal, OperandA, Program, Unit};

/// A closed range of half positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Interval {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A loop that is being walked.
struct Open {
    start: u32,
    /// Values from outside that are read inside.
    outside: Vec<LVal>,
}

/// Walks a program and gives each value its interval.
pub(crate) struct Live<'d, 'p> {
    defs: &'d Defs<'p>,
    at: SecondaryMap<LVal, Interval>,
    position: u32,
    loops: Vec<Open>,
    /// Words that products in flight read, by closed group, oldest first, and those of the open group.
    flying: VecDeque<Vec<LVal>>,
    begun: Vec<LVal>,
    rounds: Rounds,
    roles: Vec<[u32; 2]>,
}

/// What products in flight still read of an iteration's words where the next one begins.
#[derive(Default)]
pub(crate) struct Round {
    /// What the loop carries.
    pub(crate) carried: BTreeSet<LVal>,
    /// The next iteration makes some of it before it has waited for that.
    pub(crate) made: bool,
}

/// That of counted loops, by their index, where there is any.
pub(crate) type Rounds = BTreeMap<LVal, Round>;

/// What is known of when values live.
pub(crate) struct Lives {
    /// Intervals of the values that live in registers of their own; other values have a meaningless one.
    pub(crate) at: SecondaryMap<LVal, Interval>,
    /// What flies on into the next iteration of loops.
    pub(crate) rounds: Rounds,
    /// First and last half position of each role, in the order of the text.
    pub(crate) roles: Vec<[u32; 2]>,
    /// The last position.
    pub(crate) positions: u32,
}

impl Lives {
    /// Follows a program.
    pub(crate) fn of(defs: &Defs<'_>, program: &Program) -> Lives {
        let mut live = Live {
            defs,
            at: SecondaryMap::new(),
            position: 0,
            loops: Vec::new(),
            flying: VecDeque::new(),
            begun: Vec::new(),
            rounds: Rounds::new(),
            roles: Vec::new(),
        };
        live.at.resize(program.vals.len());
        live.block(&program.body);
        Lives { at: live.at, rounds: live.rounds, roles: live.roles, positions: live.position }
    }
}

impl Live<'_, '_> {
    fn step(&mut self) -> u32 {
        self.position += 1;
        self.position
    }

    fn define(&mut self, v: LVal, at: u32) {
        self.at[v] = Interval { start: at, end: at };
    }

    /// The value `v` (behind its names) is read at half position `at`.
    fn read(&mut self, v: LVal, at: u32) {
        let v = self.defs.root(v);
        if !self.defs.is_made(v) {
            return;
        }
        let live = &mut self.at[v];
        live.end = live.end.max(at);
        let start = live.start;
        // What is made in the innermost loop comes from outside of none.
        if self.loops.last().is_none_or(|l| l.start < start) {
            return;
        }
        // The outermost loop that the value comes from outside of; the loops are ordered by their start.
        let k = self.loops.partition_point(|l| l.start < start);
        if let Some(open) = self.loops.get_mut(k)
            && open.outside.last() != Some(&v)
        {
            open.outside.push(v);
        }
    }

    fn read_operands(&mut self, inst: &Inst, at: u32) {
        visit::operands(inst, |v, role| match role {
            Role::Value => self.read(v, at),
            Role::Word => self.read(self.defs.word(v), at),
            // In this role the instruction's own offset is small, so it does not decide what folds.
            Role::Address => match self.defs.address(v, 0).base {
                Base::Value(v) => self.read(v, at),
                Base::Shared => {}
            },
        });
    }

    fn open(&mut self, start: u32) {
        self.loops.push(Open { start, outside: Vec::new() });
    }

    fn close(&mut self, at: u32) {
        if let Some(open) = self.loops.pop() {
            for v in open.outside {
                self.at[v].end = self.at[v].end.max(at);
            }
        }
    }

    fn next_values(&mut self, carried: &[Carried], at: u32) {
        carried.iter().for_each(|c| self.read(c.next, at));
    }

    fn block(&mut self, block: &Block) {
        for inst in block {
            match inst {
                Inst::For(l) => {
                    let p = self.step();
                    self.read_operands(inst, 2 * p);
                    self.open(2 * p);
                    self.define(l.iv, 2 * p + 1);
                    l.carried.iter().for_each(|c| self.define(c.param, 2 * p + 1));
                    self.block(&l.body);
                    let latch = self.step();
                    // The latch reads the bounds once more; they come from outside.
                    [l.iv, l.hi, l.step].into_iter().for_each(|v| self.read(v, 2 * latch));
                    self.next_values(&l.carried, 2 * latch);
                    let flying = self.still_flying(2 * latch);
                    let carried: BTreeSet<LVal> = l.carried.iter().map(|c| c.param).filter(|p| flying.contains(p)).collect();
                    let made = !flying.is_empty() && self.made_again(&l.body, &mut self.flying.clone(), &mut self.begun.clone());
                    if made || !carried.is_empty() {
                        self.rounds.insert(l.iv, Round { carried, made });
                    }
                    self.close(2 * latch);
                    let end = self.step();
                    l.carried.iter().for_each(|c| self.define(c.result, 2 * end));
                }
                Inst::While(l) => {
                    let p = self.step();
                    self.read_operands(inst, 2 * p);
                    self.open(2 * p);
                    l.carried.iter().for_each(|c| self.define(c.param, 2 * p + 1));
                    self.block(&l.test);
                    let test = self.step();
                    self.read(l.condition, 2 * test);
                    l.carried.iter().for_each(|c| self.read(c.param, 2 * test));
                    self.block(&l.body);
                    let latch = self.step();
                    self.next_values(&l.carried, 2 * latch);
                    self.still_flying(2 * latch);
                    self.close(2 * latch);
                    let end = self.step();
                    l.carried.iter().for_each(|c| self.define(c.result, 2 * end));
                }
                Inst::If(i) => {
                    let p = self.step();
                    self.read_operands(inst, 2 * p);
                    self.block(&i.then);
                    let then = self.step();
                    i.results.iter().for_each(|r| self.read(r.1, 2 * then));
                    self.block(&i.otherwise);
                    let end = self.step();
                    i.results.iter().for_each(|r| self.read(r.2, 2 * end));
                    i.results.iter().for_each(|r| self.define(r.0, 2 * end + 1));
                }
                Inst::LoadGlobal { dsts, guard, .. } => {
                    let p = self.step();
                    self.read_operands(inst, 2 * p);
                    // A guarded load first sets the results to what they are without it, before the address is read.
                    let at = 2 * p + u32::from(guard.is_none());
                    dsts.iter().for_each(|&d| self.define(d, at));
                }
                Inst::Atomic(a) => {
                    let p = self.step();
                    self.read_operands(inst, 2 * p);
                    // The old value is written while operands are still needed: before a guarded update, and in every round of a loop.
                    a.dst.iter().for_each(|&d| self.define(d, 2 * p));
                }
                Inst::Roles(r) => {
                    self.step();
                    for role in &r.roles {
                        let first = 2 * self.position + 2;
                        self.block(&role.body);
                        self.roles.push([first, 2 * self.position + 1]);
                        self.flying.clear();
                        self.begun.clear();
                    }
                }
                _ => {
                    if !self.defs.printed(inst) {
                        continue;
                    }
                    let p = self.step();
                    self.read_operands(inst, 2 * p);
                    if let Inst::Unit(u) = inst {
                        self.fly(u, 2 * p);
                    }
                    inst.results().iter().for_each(|&d| self.define(d, 2 * p + 1));
                }
            }
        }
    }

    /// Follows what products in flight read.
    fn fly(&mut self, unit: &Unit, at: u32) {
        match unit {
            Unit::Multiply(m) => {
                if let OperandA::Regs(words) = &m.a {
                    self.begun.extend(words.iter().map(|&w| self.defs.word(w)));
                }
            }
            Unit::CommitMatrices => self.flying.push_back(std::mem::take(&mut self.begun)),
            Unit::WaitMatrices { pending } => {
                while self.flying.len() > *pending as usize {
                    let landed = self.flying.pop_front();
                    landed.into_iter().flatten().for_each(|w| self.read(w, at));
                }
            }
            _ => {}
        }
    }

    /// True if a block makes what products read that are in flight in front of it, before it waits for them.
    fn made_again(&self, block: &Block, flying: &mut VecDeque<Vec<LVal>>, begun: &mut Vec<LVal>) -> bool {
        block.iter().any(|inst| {
            match inst {
                Inst::Unit(u) => match &**u {
                    // Only what was in flight before counts; groups of the block stand for themselves.
                    Unit::CommitMatrices => flying.push_back(std::mem::take(begun)),
                    Unit::WaitMatrices { pending } => {
                        while flying.len() > *pending as usize {
                            flying.pop_front();
                        }
                    }
                    _ => {}
                },
                _ if flying.iter().flatten().chain(begun.iter()).next().is_none() => return false,
                _ => {}
            }
            let made = |v: &LVal| {
                let v = self.defs.root(*v);
                flying.iter().flatten().chain(begun.iter()).any(|&w| w == v)
            };
            results(inst).iter().any(made) || blocks(inst).any(|b| self.made_again(b, flying, begun))
        })
    }

    /// What flies on into the next iteration, and out of the loop, is read at its end.
    fn still_flying(&mut self, at: u32) -> BTreeSet<LVal> {
        let words: BTreeSet<LVal> = self.flying.iter().flatten().chain(&self.begun).copied().collect();
        words.iter().for_each(|&w| self.read(w, at));
        words
    }
}
