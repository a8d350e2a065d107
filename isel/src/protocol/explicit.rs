//! What explicit programs need beside the ring of one channel: local memory in regions, named barriers, indices that count slots and laps.

use super::ProtocolError;
use super::regions::{Clash, PRODUCTS, STORES};
use super::run::{Checker, State, place, turn};
use super::value::{Abs, Env};
use super::word::Site;
use crate::lane::visit::blocks;
use crate::lane::{AllocId, BinOp, Block, Inst, LVal, LeftOperand, ParamSource, Place, Program, Special, Unit};
use cranelift_entity::EntityRef;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How much is kept apart: more proves more, and takes more states.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Effort {
    /// Numbers below the modulus are followed one by one, not only zero.
    pub exact: bool,
    /// Roles pass on what others have told them.
    pub relay: bool,
}

/// What is tried, one after the other.
pub(super) const EFFORTS: [Effort; 3] =
    [Effort { exact: false, relay: false }, Effort { exact: false, relay: true }, Effort { exact: true, relay: true }];

/// Where local memory is used, and what counts.
#[derive(Default)]
pub(super) struct Explicit {
    /// The allocation behind an address.
    allocs: HashMap<LVal, AllocId>,
    /// Indices and carried counters are followed modulo this; 0 or 1 if none matters.
    pub modulus: i64,
    /// Carried values that count.
    pub counters: HashSet<LVal>,
    /// Values that are not negative.
    pub natural: HashSet<LVal>,
    /// Remainders that are computed by a quotient: what is divided by which constant.
    pub remainders: HashMap<LVal, (LVal, i64)>,
    /// Local memory goes from role to role.
    pub on: bool,
    pub effort: Effort,
}

/// The largest modulus that is followed.
const MOST: i64 = 1 << 12;

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: i64, b: i64) -> i64 {
    a / gcd(a, b) * b
}

/// Looks for what lies where.
pub(super) fn look(program: &Program, effort: Effort) -> Explicit {
    fn addresses(block: &Block, allocs: &mut HashMap<LVal, AllocId>) {
        for inst in block {
            match inst {
                Inst::SharedAddr { dst, alloc } => {
                    allocs.insert(*dst, *alloc);
                }
                Inst::Bin { dst, op: BinOp::Add, a, b } => {
                    if let Some(&alloc) = allocs.get(a).or_else(|| allocs.get(b)) {
                        allocs.insert(*dst, alloc);
                    }
                }
                other => blocks(other).into_iter().for_each(|b| addresses(b, allocs)),
            }
        }
    }
    let mut e = Explicit { modulus: 1, on: program.allocs.values().any(|a| a.grain > 0), effort, ..Explicit::default() };
    if e.on {
        addresses(&program.body, &mut e.allocs);
    }
    e
}

/// What is looked up while looking for what counts.
struct Counting<'a> {
    program: &'a Program,
    relevant: &'a HashSet<LVal>,
    constants: HashMap<LVal, i64>,
    /// What lanes give their own numbers to.
    lanes: HashSet<LVal>,
    quotients: HashMap<LVal, (LVal, i64)>,
    products: HashMap<LVal, (LVal, i64)>,
    slots: i64,
    bits: i64,
}

impl Explicit {
    /// Looks for what counts, and modulo what.
    pub fn count(&mut self, program: &Program, relevant: &HashSet<LVal>) {
        let mut c = Counting {
            program,
            relevant,
            constants: HashMap::new(),
            lanes: HashSet::new(),
            quotients: HashMap::new(),
            products: HashMap::new(),
            slots: 1,
            bits: 1,
        };
        c.visit(&program.body, self);
        self.modulus = c.slots.saturating_mul(c.bits).min(MOST);
    }
}

impl Counting<'_> {
    fn visit(&mut self, block: &Block, e: &mut Explicit) {
        for inst in block {
            match inst {
                Inst::Const { dst, bits } => {
                    self.constants.insert(*dst, *bits as i64);
                    if *bits as i64 >= 0 {
                        e.natural.insert(*dst);
                    }
                }
                Inst::Param { dst, index } => {
                    let source = self.program.params.get(*index as usize).map(|p| p.source);
                    if matches!(source, Some(ParamSource::Extent(..))) {
                        e.natural.insert(*dst);
                    }
                }
                Inst::Special { dst, what: Special::Lane | Special::Warp } => {
                    self.lanes.insert(*dst);
                }
                Inst::Bin { dst, op, a, b } => self.arithmetic(*dst, *op, *a, *b, e),
                Inst::For(l) => {
                    self.visit(&l.body, e);
                    let counts = l.carried.iter().filter(|c| counts(&l.body, c.next, c.param, e, 8)).map(|c| c.param);
                    let counts: Vec<LVal> = counts.collect();
                    e.counters.extend(counts);
                    continue;
                }
                _ => {}
            }
            blocks(inst).into_iter().for_each(|b| self.visit(b, e));
        }
    }

    fn arithmetic(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal, e: &mut Explicit) {
        if self.lanes.contains(&a) || self.lanes.contains(&b) {
            self.lanes.insert(dst);
            return;
        }
        let by = self.constants.get(&b).copied().filter(|c| (1..=MOST).contains(c));
        // Extents are far from where sums of them would wrap.
        let keeps = matches!(op, BinOp::Div | BinOp::DivU | BinOp::ShrS | BinOp::ShrU | BinOp::Add);
        if keeps && e.natural.contains(&a) && e.natural.contains(&b) {
            e.natural.insert(dst);
        }
        match (op, by) {
            (BinOp::Div | BinOp::DivU, Some(c)) => {
                self.quotients.insert(dst, (a, c));
            }
            (BinOp::Mul, Some(c)) if self.quotients.get(&a).is_some_and(|q| q.1 == c) => {
                self.products.insert(dst, self.quotients[&a]);
            }
            (BinOp::Sub, _) if self.products.get(&b).is_some_and(|p| p.0 == a) => {
                e.remainders.insert(dst, self.products[&b]);
            }
            _ => {}
        }
        // Of extents nothing is followed.
        if self.relevant.contains(&dst) && !e.natural.contains(&a) {
            match (op, by) {
                (BinOp::Rem | BinOp::RemU | BinOp::Div | BinOp::DivU, Some(c)) => self.slots = lcm(self.slots, c).min(MOST),
                (BinOp::ShrS | BinOp::ShrU, Some(c)) if c < 12 => self.slots = lcm(self.slots, 1 << c).min(MOST),
                (BinOp::And, Some(c)) if c < 64 => self.bits = lcm(self.bits, c + 1).min(MOST),
                _ => {}
            }
        }
    }
}

/// True if a value is another one plus what is not negative, made in a block or in the loops and choices in it.
fn counts(block: &Block, v: LVal, from: LVal, e: &Explicit, depth: u32) -> bool {
    if v == from {
        return true;
    }
    if depth == 0 {
        return false;
    }
    block.iter().any(|inst| match inst {
        Inst::Bin { dst, op: BinOp::Add, a, b } if *dst == v => e.natural.contains(b) && counts(block, *a, from, e, depth - 1),
        Inst::For(l) => l
            .carried
            .iter()
            .any(|c| c.result == v && counts(block, c.init, from, e, depth - 1) && counts(&l.body, c.next, c.param, e, depth - 1)),
        Inst::If(c) => c.results.iter().any(|&(r, a, b)| {
            let arm = |x: LVal, arm: &Block| counts(arm, x, from, e, depth - 1) || counts(block, x, from, e, depth - 1);
            r == v && arm(a, &c.then) && arm(b, &c.otherwise)
        }),
        _ => false,
    })
}

impl Explicit {
    /// A number that counts, in the form that repeats.
    pub fn counted(&self, a: Abs) -> Abs {
        let m = self.modulus;
        match a {
            Abs::All(v) | Abs::Count(v, _) if m > 1 && v > 0 && !self.effort.exact => match a {
                Abs::Count(_, n) if n != m => a,
                _ => Abs::Count((v - 1) % m + 1, m),
            },
            Abs::All(v) if m > 1 && v >= 2 * m => Abs::Count(m + v % m, m),
            Abs::Count(v, n) if n == m && v >= 2 * m => Abs::Count(m + v % m, m),
            other => other,
        }
    }

    /// The allocation of an access, if it goes from role to role.
    pub fn tracked(&self, program: &Program, addr: LVal) -> Option<(AllocId, u32)> {
        let alloc = *self.allocs.get(&addr)?;
        let grain = program.allocs.get(alloc)?.grain;
        (grain > 0).then_some((alloc, grain))
    }
}

/// The addresses that the lanes of a role give.
fn addresses(env: &Env, p: &Place) -> Option<Vec<i64>> {
    let offset = i64::from(p.offset);
    match env.get(&p.addr) {
        Some(Abs::All(x)) => Some(vec![x + offset]),
        Some(Abs::Lanes(l)) => {
            let all: BTreeSet<i64> = l.iter().map(|x| x + offset).collect();
            Some(all.into_iter().collect())
        }
        Some(Abs::Any | Abs::Index(..) | Abs::Count(..)) | None => None,
    }
}

impl<'a> Checker<'a> {
    /// The regions that ranges of an allocation's bytes touch.
    fn regions(&self, ranges: impl Iterator<Item = (i64, i64)>) -> BTreeSet<i64> {
        let mut out = BTreeSet::new();
        for (from, to) in ranges {
            let found =
                self.program.allocs.values().find(|a| a.grain > 0 && (i64::from(a.offset)..i64::from(a.offset + a.bytes)).contains(&from));
            if let Some(a) = found {
                let (start, grain) = (i64::from(a.offset), i64::from(a.grain));
                out.extend(((from - start) / grain..=(to - 1 - start) / grain).map(|n| start + n * grain));
            }
        }
        out
    }

    fn clash<T>(&self, (what, other): Clash, here: Site) -> Result<T, ProtocolError> {
        self.error(format!("local memory {what}"), here, other)
    }

    /// An access of lanes to shared memory.
    pub(super) fn access(&self, s: &mut State<'a>, t: usize, here: Site, at: Place, bytes: u32, writes: bool) -> Result<(), ProtocolError> {
        if self.explicit.tracked(self.program, at.addr).is_none() {
            return Ok(());
        }
        let Some(list) = addresses(&s.tasks[t].env, &at) else {
            return self.error("the address of local memory is not understood", here, None);
        };
        for r in self.regions(list.into_iter().map(|a| (a, a + i64::from(bytes)))) {
            let done = if writes { s.regions.write(r, t, None, here) } else { s.regions.read(r, t, None, here) };
            done.or_else(|c| self.clash(c, here))?;
        }
        Ok(())
    }

    /// What a unit does to local memory, if it does anything.
    pub(super) fn unit_access(&self, s: &mut State<'a>, t: usize, here: Site, u: &Unit) -> Result<(), ProtocolError> {
        let boxed = |map: u32| match self.program.params.get(map as usize).map(|p| p.source) {
            Some(ParamSource::Tensor(b)) => i64::from(b.bytes()),
            Some(_) | None => 0,
        };
        match u {
            Unit::BulkLoad { map, to, barrier, .. } => {
                let (Some(at), Some(word)) = (place(&s.tasks[t].env, to), place(&s.tasks[t].env, barrier)) else {
                    return self.error("where a copy goes is not understood", here, None);
                };
                if !s.words.contains_key(&word) {
                    return self.error(format!("no barrier word is made at {word:#x}, used"), here, None);
                }
                let end = at + boxed(*map);
                for r in self.regions(std::iter::once((at, end))) {
                    s.regions.write(r, t, Some((word, (at, end))), here).or_else(|c| self.clash(c, here))?;
                }
                // It may land at once; who reads it must have waited for the word in any case.
                if let Some(w) = s.words.get_mut(&word) {
                    w.bytes -= end - at;
                }
                turn(s, word);
            }
            Unit::BulkStore { map, from, .. } => {
                let Some(list) = addresses(&s.tasks[t].env, from) else {
                    return self.error("where a copy comes from is not understood", here, None);
                };
                for r in self.regions(list.into_iter().map(|at| (at, at + boxed(*map)))) {
                    s.regions.read(r, t, Some(STORES), here).or_else(|c| self.clash(c, here))?;
                }
            }
            Unit::CommitStores { .. } => s.regions.close(t, STORES),
            Unit::WaitStoresRead { pending, .. } => s.regions.over(t, STORES, *pending),
            Unit::Multiply(m) => {
                let row = self.units.matrix.get(m.instr.index());
                let (rows, k, size) = row.map_or((0, 0, 1), |r| (r.m, r.k, r.operand.bytes()));
                let left = if let LeftOperand::Shared(o) = &m.a { Some((o, rows)) } else { None };
                for (o, rows) in left.into_iter().chain([(&m.b, m.n)]) {
                    let Some(list) = addresses(&s.tasks[t].env, &o.at) else {
                        return self.error("the address of an operand is not understood", here, None);
                    };
                    let span = i64::from(o.panels.span);
                    let (panels, bytes) = if o.panels.along_k {
                        (1, i64::from(rows) * span)
                    } else {
                        (rows.div_ceil(o.panels.span / size), i64::from(k) * span)
                    };
                    let stride = i64::from(o.panels.stride);
                    // From the start of its row of the panel.
                    let ranges = list.iter().flat_map(|&at| (0..i64::from(panels)).map(move |p| at / span * span + p * stride));
                    for r in self.regions(ranges.map(|at| (at, at + bytes))) {
                        s.regions.read(r, t, Some(PRODUCTS), here).or_else(|c| self.clash(c, here))?;
                    }
                }
            }
            Unit::CommitMatrices => s.regions.close(t, PRODUCTS),
            Unit::WaitMatrices { pending } => s.regions.over(t, PRODUCTS, *pending),
            _ => {}
        }
        Ok(())
    }

    /// A named barrier: false while the role waits at it.
    pub(super) fn named(
        &self,
        s: &mut State<'a>,
        t: usize,
        here: Site,
        (id, warps, wait): (u32, u32, bool),
    ) -> Result<bool, ProtocolError> {
        let own = self.roles.roles[t].warps;
        // Named barriers stand beside the words, below all addresses.
        let key = -1 - i64::from(id);
        let bar = s.named.entry(id).or_default();
        let round = match s.tasks[t].joined {
            Some(round) => round,
            None => {
                let round = bar.1;
                bar.0 += own;
                if bar.0 > warps {
                    return self.error("more warps come to a named barrier than it has,", here, None);
                }
                let full = bar.0 == warps;
                if full {
                    *bar = (0, !round);
                }
                s.regions.tell(t, key, self.explicit.effort.relay);
                if full {
                    s.regions.ended(key);
                }
                round
            }
        };
        let over = s.named.get(&id).is_some_and(|b| b.1 != round);
        s.tasks[t].joined = (wait && !over).then_some(round);
        if over && wait {
            s.regions.learn(t, key);
        }
        Ok(over || !wait)
    }
}

/// Named barriers: warps that have come, and whether the number of rounds is odd.
pub(super) type Named = BTreeMap<u32, (u32, bool)>;
