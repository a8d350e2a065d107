//! Counters of rings by slot and phase: what goes round needs no division.
//!
//! ```text
//! carry n:          slot = n rem D      phase = (n div D) and 1      slot before = (n - 1) rem D      next n + 1
//! carry slot, phase, slot before:       next = slot = D - 1 ? 0, phase xor 1 : slot + 1, phase, and slot
//! ```
//!
//! The proof of a barrier protocol follows counters; what is printed goes round. Counters begin at a number that is not negative and
//! grow by one, through loops and choices, or by another such number: that takes one division where it is added. What nothing else reads
//! of them is dropped.

use super::inst::{Block, Control, For, If, Inst, Role, Roles};
use super::op::BinOp;
use super::program::Program;
use super::value::Carried;
use super::value::{LTy, LVal, Special};
use super::visit::{blocks, reads};
use crate::hash::{Map, Set};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::BTreeSet;
use tilelift_ir::{CmpOp, Scalar};

/// The most slots of a ring.
const SLOTS: std::ops::RangeInclusive<i64> = 2..=64;

/// Values that slots and phases take in many programs.
const ADDED: usize = 64;

/// How a counter is made.
#[derive(Clone, Copy)]
enum CounterDef {
    Literal(i64),
    /// A number that is not negative: a quotient of unsigned numbers by a literal above 1, the maximum of a number and a literal, or such a
    /// number times which of two replicas this is.
    Natural,
    /// Which of two replicas this is.
    OneOfTwo,
    Plus(LVal, i64),
    /// A sum of two values.
    Sum(LVal, LVal),
    /// In a loop: in front of it, and by its body.
    Carried(LVal, LVal),
    /// Behind a loop: what it is in the loop.
    Behind(LVal),
    Chosen(LVal, LVal),
}

/// What is known of a program's counters.
#[derive(Default)]
struct Facts {
    made: SecondaryMap<LVal, Option<CounterDef>>,
    /// The role that is looked at has two replicas.
    two: bool,
    /// Remainders and quotients by literals: of what, by what.
    remainders: Vec<(LVal, LVal, i64)>,
    quotients: Map<LVal, (LVal, i64)>,
    /// Lowest bits: of what.
    bits: Vec<(LVal, LVal)>,
    /// How often each value is read, once it is counted.
    reads: SecondaryMap<LVal, u32>,
}

impl Facts {
    /// Those of a program: of its `i32`, which all counters are.
    fn of(program: &Program) -> Facts {
        let mut facts = Facts::default();
        facts.made.resize(program.vals.len());
        let types = program.vals.values().as_slice();
        facts.look(&program.body, &|v| types[v.index()] == I32);
        facts
    }

    fn literal(&self, v: LVal) -> Option<i64> {
        match self.made[v].as_ref() {
            Some(CounterDef::Literal(n)) => Some(*n),
            _ => None,
        }
    }

    fn look(&mut self, block: &Block, whole: &dyn Fn(LVal) -> bool) {
        for inst in block {
            match *inst {
                Inst::Const { dst, bits } if whole(dst) => self.made[dst] = Some(CounterDef::Literal(bits as i64)),
                Inst::Bin { dst, op, a, b } if whole(dst) => {
                    match (op, self.literal(a), self.literal(b)) {
                        (BinOp::Add, _, Some(n)) => self.made[dst] = Some(CounterDef::Plus(a, n)),
                        (BinOp::Add, Some(n), _) => self.made[dst] = Some(CounterDef::Plus(b, n)),
                        (BinOp::Add, None, None) => self.made[dst] = Some(CounterDef::Sum(a, b)),
                        (BinOp::DivU, _, Some(n)) if n > 1 => self.made[dst] = Some(CounterDef::Natural),
                        (BinOp::Sub, _, Some(n)) => self.made[dst] = Some(CounterDef::Plus(a, -n)),
                        (BinOp::Rem, _, Some(n)) if SLOTS.contains(&n) => self.remainders.push((dst, a, n)),
                        (BinOp::Div, _, Some(n)) if SLOTS.contains(&n) => _ = self.quotients.insert(dst, (a, n)),
                        (BinOp::And, _, Some(1)) => self.bits.push((dst, a)),
                        (BinOp::And, Some(1), _) => self.bits.push((dst, b)),
                        (BinOp::Maximum, _, Some(n)) if n >= 0 => self.made[dst] = Some(CounterDef::Natural),
                        (BinOp::Mul, ..) if self.is_share(a, b) || self.is_share(b, a) => self.made[dst] = Some(CounterDef::Natural),
                        _ => {}
                    };
                }
                Inst::Special { dst, what: Special::Replica } if self.two => self.made[dst] = Some(CounterDef::OneOfTwo),
                Inst::For(ref l) => {
                    for c in l.carried.iter().filter(|c| whole(c.param)) {
                        self.made[c.param] = Some(CounterDef::Carried(c.init, c.next));
                        self.made[c.result] = Some(CounterDef::Behind(c.param));
                    }
                }
                Inst::If(ref c) => {
                    let chosen = c.results.iter().filter(|r| whole(r.0));
                    chosen.for_each(|&(r, a, b)| self.made[r] = Some(CounterDef::Chosen(a, b)));
                }
                _ => {}
            }
            if let Inst::Roles(r) = inst {
                for role in &r.roles {
                    self.two = role.replicas == 2;
                    self.look(&role.body, whole);
                }
                continue;
            }
            blocks(inst).for_each(|b| self.look(b, whole));
        }
    }

    /// True for a number that is not negative, and which of two replicas this is: their product is the number, or 0.
    fn is_share(&self, number: LVal, replica: LVal) -> bool {
        let natural = |v: LVal| matches!(self.made[v], Some(CounterDef::Natural));
        let more = || matches!(self.made[number], Some(CounterDef::Plus(u, n)) if n >= 0 && natural(u));
        matches!(self.made[replica], Some(CounterDef::OneOfTwo)) && (natural(number) || more())
    }

    /// Counts how often each value is read. Loops on a condition stay as they are, so what they read is read once more.
    fn count(&mut self, block: &Block) {
        for inst in block {
            let mut read = |v: LVal| self.reads[v] += 1;
            match inst.control() {
                None => inst.operands(|v, _| read(v)),
                Some(Control::For(l)) => {
                    [l.lo, l.hi, l.step].into_iter().for_each(&mut read);
                    l.carried.iter().for_each(|c| [c.init, c.next].into_iter().for_each(&mut read));
                    self.count(&l.body);
                }
                Some(Control::While(_)) => (0..2).for_each(|_| reads(inst, &mut read)),
                Some(Control::If(c)) => {
                    read(c.condition);
                    c.results.iter().for_each(|&(_, a, b)| [a, b].into_iter().for_each(&mut read));
                    self.count(&c.then);
                    self.count(&c.otherwise);
                }
                Some(Control::Roles(r)) => r.roles.iter().for_each(|r| self.count(&r.body)),
            }
        }
    }

    /// True for a counter: what it may be made of is assumed to count, until something says that it does not.
    fn counts(&self, v: LVal, assumed: &mut Set<LVal>) -> bool {
        if !assumed.insert(v) {
            return true;
        }
        match self.made[v].as_ref() {
            Some(&CounterDef::Literal(n)) => n >= 0,
            Some(CounterDef::Natural) => true,
            Some(&CounterDef::Plus(u, 1)) => self.counts(u, assumed),
            Some(&CounterDef::Sum(a, b)) => self.leap(a, b).is_some_and(|(u, _)| self.counts(u, assumed)),
            Some(&(CounterDef::Carried(a, b) | CounterDef::Chosen(a, b))) => self.counts(a, assumed) && self.counts(b, assumed),
            Some(&CounterDef::Behind(p)) => self.counts(p, assumed),
            Some(CounterDef::Plus(..) | CounterDef::OneOfTwo) | None => false,
        }
    }

    /// Of a sum the counter, and the number that is added.
    fn leap(&self, a: LVal, b: LVal) -> Option<(LVal, LVal)> {
        let natural = |v: LVal| matches!(self.made[v].as_ref(), Some(CounterDef::Natural));
        match (natural(a), natural(b)) {
            (_, true) => Some((a, b)),
            (true, false) => Some((b, a)),
            (false, false) => None,
        }
    }

    /// What a counter's slot and phase are made of, and with `before` its slot before.
    fn close(&self, v: LVal, before: bool, need: &mut Wanted) {
        if std::mem::replace(&mut need[v][usize::from(before)], true) {
            return;
        }
        match self.made[v].as_ref() {
            Some(&CounterDef::Plus(u, _)) => self.close(u, false, need),
            Some(&CounterDef::Sum(a, b)) => {
                if let Some((u, _)) = self.leap(a, b) {
                    self.close(u, false, need);
                }
            }
            Some(&(CounterDef::Carried(a, b) | CounterDef::Chosen(a, b))) => [a, b].into_iter().for_each(|x| self.close(x, before, need)),
            Some(&CounterDef::Behind(p)) => self.close(p, before, need),
            Some(CounterDef::Literal(_) | CounterDef::Natural | CounterDef::OneOfTwo) | None => {}
        }
    }
}

/// Whether a counter's slot and phase are wanted, and whether its slot before is.
type Wanted = SecondaryMap<LVal, [bool; 2]>;

/// Slot, phase and slot before of counters.
type Shadow = [Option<LVal>; 3];

/// The rewriting for rings of one size.
struct Rings {
    slots: i64,
    facts: Facts,
    /// Counters whose slot and phase are wanted, and whose slot before is.
    need: Wanted,
    shadows: Map<LVal, Shadow>,
    /// Names that slot, phase and slot before of a counter have already.
    names: Map<(LVal, usize), LVal>,
    /// What is made of names, and need not be computed.
    dropped: Set<LVal>,
    /// Opposite phases: of which counter.
    flips: Map<LVal, LVal>,
    made: Vec<Inst>,
    literals: Map<i64, LVal>,
    vals: Vec<LTy>,
    next: usize,
    /// What a counter is made of was not met.
    lost: bool,
}

const I32: LTy = LTy::Num(Scalar::I32);

impl Rings {
    fn fresh(&mut self, ty: LTy) -> LVal {
        self.vals.push(ty);
        self.next += 1;
        LVal::new(self.next - 1)
    }

    fn literal(&mut self, n: i64) -> LVal {
        if let Some(&v) = self.literals.get(&n) {
            return v;
        }
        let dst = self.fresh(I32);
        self.made.push(Inst::Const { dst, bits: n as u64 });
        self.literals.insert(n, dst);
        dst
    }

    fn wants(&self, v: LVal) -> bool {
        self.need[v] != [false; 2]
    }

    /// What of a counter is wanted.
    fn parts(&self, v: LVal) -> [bool; 3] {
        let [slot, before] = self.need[v];
        [slot, slot, before]
    }

    fn shadow(&mut self, v: LVal, part: usize) -> LVal {
        if let Some(n) = self.facts.literal(v) {
            let n = [n % self.slots, n / self.slots % 2, (n - 1) % self.slots][part];
            return self.literal(n);
        }
        let found = self.shadows.get(&v).and_then(|s| s[part]);
        self.lost |= found.is_none();
        found.unwrap_or(v)
    }

    fn named(&mut self, v: LVal, part: usize) -> LVal {
        match self.names.get(&(v, part)) {
            Some(&name) => name,
            None => self.fresh(I32),
        }
    }

    /// Names for what is wanted of a counter.
    fn name(&mut self, v: LVal) -> Shadow {
        let parts = self.parts(v);
        let mut out = [None; 3];
        for part in (0..3).filter(|&n| parts[n]) {
            out[part] = Some(self.named(v, part));
        }
        self.shadows.insert(v, out);
        out
    }

    fn block(&mut self, block: &Block) -> Block {
        let mut out = Block::with_capacity(block.len() + 8);
        for inst in block {
            match inst {
                Inst::Bin { dst, .. } if self.dropped.contains(dst) => {}
                Inst::Bin { dst, .. } if self.flips.contains_key(dst) => {
                    let (v, one) = (self.flips[dst], self.literal(1));
                    let a = self.shadow(v, 1);
                    out.push(Inst::Bin { dst: *dst, op: BinOp::Xor, a, b: one });
                }
                Inst::Bin { dst, .. } if self.wants(*dst) => {
                    out.push(inst.clone());
                    match self.facts.made[*dst].as_ref() {
                        Some(CounterDef::Natural) => self.divide(*dst, *dst, None, &mut out),
                        Some(&CounterDef::Sum(a, b)) => self.leap(*dst, a, b, &mut out),
                        _ => self.plus(*dst, &mut out),
                    }
                }
                Inst::For(l) => {
                    let l = self.counted_loop(l);
                    out.push(Inst::For(Box::new(l)));
                }
                Inst::If(c) => {
                    let c = self.choice(c);
                    out.push(Inst::If(Box::new(c)));
                }
                Inst::Roles(r) => {
                    let role = |r: &Role| Role { body: self.block(&r.body), name: r.name.clone(), ..*r };
                    let roles = r.roles.iter().map(role).collect();
                    out.push(Inst::Roles(Box::new(Roles { roles })));
                }
                other => out.push(other.clone()),
            }
        }
        out
    }

    /// The counter one further.
    fn plus(&mut self, v: LVal, out: &mut Block) {
        let Some(&CounterDef::Plus(u, _)) = self.facts.made[v].as_ref() else { return };
        let [slot, phase] = [0, 1].map(|part| self.shadow(u, part));
        let mut shadow = [None, None, Some(slot)];
        if self.need[v][0] {
            let [zero, one, last] = [0, 1, self.slots - 1].map(|n| self.literal(n));
            let (next, wraps, other) = (self.fresh(I32), self.fresh(LTy::I1), self.fresh(I32));
            let (to, flipped) = (self.fresh(I32), self.fresh(I32));
            out.push(Inst::Bin { dst: next, op: BinOp::Add, a: slot, b: one });
            out.push(Inst::Cmp { dst: wraps, op: CmpOp::Eq, a: slot, b: last });
            out.push(Inst::Bin { dst: other, op: BinOp::Xor, a: phase, b: one });
            out.push(Inst::Select { dst: to, c: wraps, a: zero, b: next });
            out.push(Inst::Select { dst: flipped, c: wraps, a: other, b: phase });
            (shadow[0], shadow[1]) = (Some(to), Some(flipped));
        }
        self.shadows.insert(v, shadow);
    }

    /// The counter further by a number.
    fn leap(&mut self, v: LVal, a: LVal, b: LVal, out: &mut Block) {
        let Some((u, by)) = self.facts.leap(a, b) else { return };
        let [slot, phase] = [0, 1].map(|part| self.shadow(u, part));
        let at = self.fresh(I32);
        out.push(Inst::Bin { dst: at, op: BinOp::Add, a: slot, b: by });
        self.divide(v, at, Some(phase), out);
    }

    /// Slot, phase and slot before of a number, which are those of a counter; its phase is another one where the counter's has flipped already.
    fn divide(&mut self, v: LVal, at: LVal, flipped: Option<LVal>, out: &mut Block) {
        let [zero, one, last, size] = [0, 1, self.slots - 1, self.slots].map(|n| self.literal(n));
        let mut bin = |r: &mut Self, op: BinOp, a: LVal, b: LVal| {
            let dst = r.fresh(I32);
            out.push(Inst::Bin { dst, op, a, b });
            dst
        };
        let slot = bin(self, BinOp::RemU, at, size);
        let lap = bin(self, BinOp::DivU, at, size);
        let mut phase = bin(self, BinOp::And, lap, one);
        if let Some(flipped) = flipped {
            phase = bin(self, BinOp::Xor, phase, flipped);
        }
        let below = bin(self, BinOp::Sub, slot, one);
        let (wraps, before) = (self.fresh(LTy::I1), self.fresh(I32));
        out.push(Inst::Cmp { dst: wraps, op: CmpOp::Eq, a: slot, b: zero });
        out.push(Inst::Select { dst: before, c: wraps, a: last, b: below });
        self.shadows.insert(v, [Some(slot), Some(phase), Some(before)]);
    }

    fn counted_loop(&mut self, l: &For) -> For {
        let counters: Vec<Carried> = l.carried.iter().copied().filter(|c| self.wants(c.param)).collect();
        let params: Vec<Shadow> = counters.iter().map(|c| self.name(c.param)).collect();
        let body = self.block(&l.body);
        let mut l = For { body, carried: l.carried.clone(), ..*l };
        for (c, params) in counters.iter().zip(params) {
            let mut results = [None; 3];
            for (part, param) in params.iter().enumerate() {
                let Some(param) = *param else { continue };
                let (init, next) = (self.shadow(c.init, part), self.shadow(c.next, part));
                let result = self.named(c.result, part);
                l.carried.push(Carried { param, init, next, result });
                results[part] = Some(result);
            }
            self.shadows.insert(c.result, results);
        }
        l
    }

    fn choice(&mut self, c: &If) -> If {
        let (then, otherwise) = (self.block(&c.then), self.block(&c.otherwise));
        let mut made = If { then, otherwise, condition: c.condition, results: c.results.clone() };
        for &(r, a, b) in &c.results {
            if !self.wants(r) {
                continue;
            }
            let names = self.name(r);
            for (part, name) in names.iter().enumerate() {
                if let Some(name) = *name {
                    let (a, b) = (self.shadow(a, part), self.shadow(b, part));
                    made.results.push((name, a, b));
                }
            }
        }
        made
    }
}

/// The values that stand for counters.
type Chain = SecondaryMap<LVal, bool>;

/// True if something but the counters themselves reads one of them.
fn alive(block: &Block, chain: &Chain) -> bool {
    block.iter().any(|inst| match inst {
        Inst::For(l) => {
            let others = l.carried.iter().filter(|c| !chain[c.param]).flat_map(|c| [c.init, c.next]);
            [l.lo, l.hi, l.step].into_iter().chain(others).any(|v| chain[v]) || alive(&l.body, chain)
        }
        Inst::If(c) => {
            let others = c.results.iter().filter(|r| !chain[r.0]).flat_map(|r| [r.1, r.2]);
            [c.condition].into_iter().chain(others).any(|v| chain[v]) || alive(&c.then, chain) || alive(&c.otherwise, chain)
        }
        Inst::Roles(r) => r.roles.iter().any(|r| alive(&r.body, chain)),
        Inst::Bin { dst, .. } if chain[*dst] => false,
        Inst::While(_) => {
            let mut found = false;
            reads(inst, &mut |v| found |= chain[v]);
            found
        }
        plain => {
            let mut found = false;
            plain.operands(|v, _| found |= chain[v]);
            found
        }
    })
}

/// Leaves counters out that nothing reads.
fn without(block: &mut Block, chain: &Chain) {
    block.retain(|inst| !matches!(inst, Inst::Bin { dst, .. } if chain[*dst]));
    for inst in block {
        match inst {
            Inst::For(l) => {
                l.carried.retain(|c| !chain[c.param]);
                without(&mut l.body, chain);
            }
            Inst::If(c) => {
                c.results.retain(|r| !chain[r.0]);
                without(&mut c.then, chain);
                without(&mut c.otherwise, chain);
            }
            Inst::Roles(r) => r.roles.iter_mut().for_each(|r| without(&mut r.body, chain)),
            _ => {}
        }
    }
}

/// The program with the counters of rings of some size by slot and phase; `None` if it has none.
fn reduced(program: &Program, slots: i64, mut facts: Facts) -> Option<Program> {
    let mut need = Wanted::new();
    let (mut names, mut dropped, mut flips) = (Map::default(), Set::default(), Map::default());
    let in_loop = |f: &Facts, v: LVal| matches!(f.made[v], Some(CounterDef::Carried(..) | CounterDef::Behind(_)));
    let counter = |f: &Facts, v: LVal| in_loop(f, v) && f.counts(v, &mut Set::default());
    // How many of the reads of a value are left out.
    let mut gone: Map<LVal, u32> = Map::default();
    for &(dst, v, n) in &facts.remainders {
        let (of, part) = match facts.made[v].as_ref() {
            Some(&CounterDef::Plus(u, -1)) => (u, 2),
            _ => (v, 0),
        };
        if n == slots && program.vals[dst] == I32 && counter(&facts, of) && !names.contains_key(&(of, part)) {
            names.insert((of, part), dst);
            dropped.insert(dst);
            facts.close(of, part == 2, &mut need);
            *gone.entry(v).or_default() += 1;
        }
    }
    if names.is_empty() {
        return None;
    }
    facts.reads.resize(program.vals.len());
    facts.count(&program.body);
    for &(dst, q) in &facts.bits {
        let (of, flips_it) = match facts.made[q].as_ref() {
            Some(&CounterDef::Plus(of, 1)) => (of, true),
            _ => (q, false),
        };
        let Some(&(v, n)) = facts.quotients.get(&of) else { continue };
        if n != slots || !counter(&facts, v) || (!flips_it && names.contains_key(&(v, 1))) {
            continue;
        }
        if flips_it {
            flips.insert(dst, v);
        } else {
            names.insert((v, 1), dst);
            dropped.insert(dst);
        }
        facts.close(v, false, &mut need);
        *gone.entry(q).or_default() += 1;
        if flips_it && facts.reads[q] == gone[&q] {
            *gone.entry(of).or_default() += 1;
        }
    }
    let makes = |v: &LVal| facts.quotients.contains_key(v) || matches!(facts.made[*v], Some(CounterDef::Plus(..)));
    let unread: Vec<LVal> =
        gone.iter().filter(|&(v, n)| facts.reads[*v] == *n && makes(v) && need[*v] == [false; 2]).map(|x| *x.0).collect();
    dropped.extend(unread);
    let next = program.vals.len();
    let mut r = Rings {
        slots,
        facts,
        need,
        shadows: Map::default(),
        names,
        dropped,
        flips,
        made: Vec::new(),
        literals: Map::default(),
        vals: Vec::with_capacity(ADDED),
        next,
        lost: false,
    };
    let mut body = r.block(&program.body);
    if r.lost {
        return None;
    }
    let mut chain = Chain::new();
    chain.resize(r.next);
    let stays = |v: LVal| matches!(r.facts.made[v], Some(CounterDef::Literal(_) | CounterDef::Natural));
    r.need.iter().filter(|&(_, need)| *need != [false; 2]).for_each(|(v, _)| chain[v] = !stays(v));
    if !alive(&body, &chain) {
        without(&mut body, &chain);
    }
    body.splice(0..0, r.made);
    let vals = program.vals.values().chain(&r.vals).copied().collect();
    let (name, params, allocs) = (program.name.clone(), program.params.clone(), program.allocs.clone());
    Some(Program { name, params, allocs, vals, body, ..*program })
}

/// The program with the counters of its rings by slot and phase; `None` if it has none. It does the same.
pub fn by_slots(program: &Program) -> Option<Program> {
    program.roles()?;
    let facts = Facts::of(program);
    let sizes: BTreeSet<i64> = facts.remainders.iter().map(|r| r.2).collect();
    let mut known = Some(facts);
    let mut out: Option<Program> = None;
    for slots in sizes {
        let at = out.as_ref().unwrap_or(program);
        let facts = known.take().unwrap_or_else(|| Facts::of(at));
        out = reduced(at, slots, facts).or(out);
    }
    out
}
