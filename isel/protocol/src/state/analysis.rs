//! What is looked up before a program runs: what lies where, what counts, and modulo what.

use crate::makers::Makers;
use crate::trip_classes::TripClasses;
use crate::value::Abs;
use cranelift_entity::{EntityRef, EntitySet, SecondaryMap};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::number::gcd;
use tilelift_lane::visit::{blocks, computed, reads};
use tilelift_lane::{Alloc, AllocId, BinOp, Block, For, Inst, LVal, ParamSource, Program, Special, Unit};

/// How much is kept apart: more proves more, and takes more states.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Effort {
    /// Slots that units write are followed as a whole, though parts of them are used apart.
    pub coarse: bool,
    /// Numbers below the modulus are followed one by one, not only zero.
    pub exact: bool,
    /// What ends of loops leave, modulo what counts, is assumed in front of everything, case by case.
    pub cases: bool,
    /// Loops of many iterations between constants go round as often as these say, and not as often as their class may: see `run::periods`.
    pub periods: bool,
}

/// What is tried, one after the other. Loops of many iterations between constants go round alike by their bounds, as a rule; one whose first iteration
/// stands in front of it, without a choice since it is known to be, does not, and goes round as often as it does.
pub(crate) const EFFORTS: [Effort; 6] = [
    Effort { coarse: true, exact: false, cases: true, periods: false },
    Effort { coarse: false, exact: false, cases: true, periods: false },
    Effort { coarse: false, exact: false, cases: false, periods: false },
    Effort { coarse: false, exact: true, cases: false, periods: false },
    Effort { coarse: true, exact: false, cases: true, periods: true },
    Effort { coarse: false, exact: false, cases: true, periods: true },
];

/// Of loops of fewer iterations each index is followed as a number.
const FEW: i64 = 64;

/// Where local memory is used, and what counts.
#[derive(Default)]
pub(crate) struct Analysis {
    /// The allocation behind an address.
    pub(crate) allocs: SecondaryMap<LVal, Option<AllocId>>,
    /// Those to which lanes write and go on.
    pub(crate) stored: Set<AllocId>,
    /// Those that one role alone touches: what happens there is nobody else's affair.
    pub own: Set<AllocId>,
    /// Indices and carried counters are followed modulo this; 0 or 1 if none matters.
    pub modulus: i64,
    /// Carried values that count.
    pub counters: Set<LVal>,
    /// Modulo what each value matters, where that is less.
    pub(crate) needs: Map<LVal, i64>,
    /// Values that are not negative.
    pub natural: Set<LVal>,
    /// Remainders that are computed by a quotient: what is divided by which constant.
    pub remainders: Map<LVal, (LVal, i64)>,
    /// Loops of few iterations between constants: bounds and step.
    pub trips: Map<LVal, (i64, i64, i64)>,
    /// Loops of many, where that counts: how often they go round.
    pub rounds: Map<LVal, i64>,
    /// Ends of loops of which a case is assumed.
    pub(crate) cases: BTreeSet<LVal>,
    /// All warps go together and meet nobody: what is not known of them is taken to go well.
    pub alone: bool,
    /// Lanes' accesses of shared memory count.
    pub local: bool,
    /// Blocks that are followed.
    pub blocks: usize,
    pub effort: Effort,
}

/// The most values of which cases are assumed, and cases of each.
const CASES: (usize, i64) = (2, 64);

/// The largest modulus that is followed.
const MOST: i64 = 1 << 12;

fn lcm(a: i64, b: i64) -> i64 {
    a / gcd(a, b) * b
}

/// True if a block uses other blocks of its cluster in a way that needs them all: `nested` if it is not what all warps do first.
fn reaches(block: &Block, nested: bool) -> bool {
    block.iter().any(|inst| match inst {
        Inst::Unit(u) => match &**u {
            Unit::Remote { .. }
            | Unit::RemoteLoad { .. }
            | Unit::RemoteStore { .. }
            | Unit::RemoteStoreAsync { .. }
            | Unit::RemoteArrive { .. }
            | Unit::BulkLoad { ranks: Some(_), .. } => true,
            Unit::ClusterArrive { .. } | Unit::ClusterWait => nested,
            _ => false,
        },
        other => blocks(other).any(|b| reaches(b, true)),
    })
}

/// Looks for what lies where.
pub(crate) fn analyse(program: &Program, effort: Effort) -> Analysis {
    fn addresses(block: &Block, allocs: &mut SecondaryMap<LVal, Option<AllocId>>) {
        for inst in block {
            match inst {
                Inst::SharedAddr { dst, alloc } => {
                    allocs[*dst] = Some(*alloc);
                }
                Inst::Bin { dst, op: BinOp::Add, a, b } => {
                    if let Some(alloc) = allocs[*a].or(allocs[*b]) {
                        allocs[*dst] = Some(alloc);
                    }
                }
                // The same place of another block.
                Inst::Unit(u) => {
                    if let Unit::Remote { dst, place, .. } = &**u
                        && let Some(alloc) = allocs[place.addr]
                    {
                        allocs[*dst] = Some(alloc);
                    }
                }
                other => blocks(other).for_each(|b| addresses(b, allocs)),
            }
        }
    }
    fn stores(block: &Block, f: &mut dyn FnMut(LVal)) {
        for inst in block {
            match inst {
                Inst::StoreShared { addr, .. } => f(*addr),
                Inst::Unit(u) => {
                    if let Unit::StoreMatrix { to, .. } = &**u {
                        f(to.addr);
                    }
                }
                other => blocks(other).for_each(|b| stores(b, f)),
            }
        }
    }
    let local = program.allocs.values().any(|a| a.region_bytes > 0);
    let blocks = if reaches(&program.body, false) { program.cluster.max(1) as usize } else { 1 };
    let mut e = Analysis { modulus: 1, blocks, local, effort, ..Analysis::default() };
    addresses(&program.body, &mut e.allocs);
    stores(&program.body, &mut |v| e.stored.extend(e.allocs[v]));
    if e.blocks == 1 {
        e.own = own(program, &e.allocs);
    }
    e
}

/// The allocations that one role touches, and nobody else.
fn own(program: &Program, allocs: &SecondaryMap<LVal, Option<AllocId>>) -> Set<AllocId> {
    let mut roles: Map<AllocId, Option<usize>> = Map::default();
    let mut look = |block: &Block, who: Option<usize>| {
        each(block, &mut |inst| {
            // Addresses that are computed are not touched yet.
            if computed(inst).is_none() && blocks(inst).is_empty() {
                reads(inst, &mut |v| {
                    if let Some(alloc) = allocs[v] {
                        roles.entry(alloc).and_modify(|old| *old = old.filter(|_| *old == who)).or_insert(who);
                    }
                });
            }
        });
    };
    look(&program.body, None);
    let all = program.roles().map_or(&[][..], |r| &r.roles[..]);
    all.iter().enumerate().for_each(|(n, r)| look(&r.body, Some(n)));
    roles.into_iter().filter(|(_, who)| who.is_some()).map(|x| x.0).collect()
}

fn all_loops<'p>(block: &'p Block, f: &mut dyn FnMut(&'p For)) {
    for inst in block {
        if let Inst::For(l) = inst {
            f(l);
        }
        blocks(inst).for_each(|b| all_loops(b, f));
    }
}

/// Bounds and step of a loop between constants.
fn between(l: &For, constants: &Map<LVal, i64>) -> Option<(i64, i64, i64)> {
    let number = |v: &LVal| constants.get(v).copied();
    let bounds = (number(&l.lo)?, number(&l.hi)?, number(&l.step)?);
    (bounds.2 > 0).then_some(bounds)
}

/// True if a program has loops of many iterations between constants.
pub(crate) fn goes_round_often(program: &Program) -> bool {
    let (mut constants, mut often) = (Map::default(), false);
    each(&program.body, &mut |inst| match inst {
        Inst::Const { dst, bits } => _ = constants.insert(*dst, *bits as i64),
        Inst::For(l) => often |= between(l, &constants).is_some_and(|(lo, hi, step)| (hi - lo) / step >= FEW),
        _ => {}
    });
    often
}

/// What is looked up while looking for what counts.
struct Counting<'a> {
    program: &'a Program,
    relevant: &'a EntitySet<LVal>,
    constants: Map<LVal, i64>,
    /// What lanes give their own numbers to.
    lanes: Set<LVal>,
    quotients: Map<LVal, (LVal, i64)>,
    products: Map<LVal, (LVal, i64)>,
    slots: i64,
    bits: i64,
    /// Sums, loops and choices behind values.
    makers: Makers<'a>,
    /// What is looked at is in a loop, a choice or a role.
    inside: bool,
}

impl Analysis {
    /// Looks for what counts, and modulo what.
    pub fn count(&mut self, program: &Program, relevant: &EntitySet<LVal>, trip_classes: &TripClasses) {
        let mut c = Counting {
            program,
            relevant,
            constants: Map::default(),
            lanes: Set::default(),
            quotients: Map::default(),
            products: Map::default(),
            slots: 1,
            bits: 1,
            makers: Makers::of(program),
            inside: false,
        };
        each(&program.body, &mut |inst| match inst {
            Inst::Bin { dst, op: BinOp::Add, .. } => c.makers.insert(*dst, inst),
            Inst::For(l) => l.carried.iter().for_each(|carried| c.makers.insert(carried.result, inst)),
            Inst::If(choice) => choice.results.iter().for_each(|r| c.makers.insert(r.0, inst)),
            _ => {}
        });
        c.visit(&program.body, self);
        self.modulus = c.slots.saturating_mul(c.bits).min(MOST);
        let constants = c.constants;
        if !self.effort.exact {
            self.needs = needs(program, relevant, &constants, &self.remainders, self.modulus);
        }
        if self.effort.cases {
            self.choose_cases(program, relevant, trip_classes, &constants);
        }
    }

    /// The ends of which cases are assumed: they are known in front of everything, and all loops that go round as often count by ones up
    /// to them.
    fn choose_cases(&mut self, program: &Program, relevant: &EntitySet<LVal>, trip_classes: &TripClasses, constants: &Map<LVal, i64>) {
        let mut loops = Vec::new();
        all_loops(&program.body, &mut |l| loops.push((l.iv, l.lo, l.hi, l.step)));
        let front = |v: LVal| program.body.iter().filter_map(computed).flatten().any(|&made| made == v);
        let number = |iv: &LVal| trip_classes.of.get(iv).copied();
        for &(iv, _, hi, _) in &loops {
            let Some(n) = number(&iv) else { continue };
            let plain = loops.iter().filter(|l| number(&l.0) == Some(n)).all(|&(iv, lo, end, step)| {
                let ones = constants.get(&lo) == Some(&0) && constants.get(&step) == Some(&1);
                ones && end == hi && !trip_classes.behind.contains(&iv) && !trip_classes.strides.contains_key(&iv)
            });
            if plain && self.natural.contains(&hi) && relevant.contains(hi) && !constants.contains_key(&hi) && front(hi) {
                self.cases.insert(hi);
            }
        }
        if self.cases.len() > CASES.0 || self.modulus > CASES.1 {
            self.cases.clear();
        }
    }

    /// True if a case is assumed of some end.
    pub fn any_splits(&self) -> bool {
        !self.cases.is_empty()
    }

    /// True for an end of loops of which a case is assumed.
    pub fn splits(&self, v: LVal) -> bool {
        self.cases.contains(&v)
    }
}

impl Counting<'_> {
    fn visit(&mut self, block: &Block, e: &mut Analysis) {
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
                    match between(l, &self.constants) {
                        Some((lo, hi, step)) if (hi - lo) / step < FEW => _ = e.trips.insert(l.iv, (lo, hi, step)),
                        Some((lo, hi, step)) if e.effort.periods => _ = e.rounds.insert(l.iv, (hi - lo + step - 1) / step),
                        _ => {}
                    }
                    self.within(&l.body, e);
                    let counts = l.carried.iter().filter(|c| counts(&self.makers, c.next, c.param, e, 8)).map(|c| c.param);
                    let counts: Vec<LVal> = counts.collect();
                    e.counters.extend(counts);
                    continue;
                }
                _ => {}
            }
            blocks(inst).for_each(|b| self.within(b, e));
        }
    }

    fn within(&mut self, block: &Block, e: &mut Analysis) {
        let outside = std::mem::replace(&mut self.inside, true);
        self.visit(block, e);
        self.inside = outside;
    }

    fn arithmetic(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal, e: &mut Analysis) {
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
        // The larger of two numbers is no less than either.
        if op == BinOp::Maximum && (e.natural.contains(&a) || e.natural.contains(&b)) {
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
        // Of extents nothing is followed, nor of what is computed once, in front of all loops: it does not count.
        if self.relevant.contains(dst) && !e.natural.contains(&a) && self.inside {
            match (op, by) {
                (BinOp::Rem | BinOp::RemU | BinOp::Div | BinOp::DivU, Some(c)) => self.slots = lcm(self.slots, c).min(MOST),
                (BinOp::ShrS | BinOp::ShrU, Some(c)) if c < 12 => self.slots = lcm(self.slots, 1 << c).min(MOST),
                (BinOp::And, Some(c)) if c < 64 => self.bits = lcm(self.bits, c + 1).min(MOST),
                _ => {}
            }
        }
    }
}

/// True if a value is another one plus what is not negative, through loops and choices, too.
fn counts(makers: &Makers<'_>, v: LVal, from: LVal, e: &Analysis, depth: u32) -> bool {
    if v == from {
        return true;
    }
    if depth == 0 {
        return false;
    }
    let counts = |v: LVal, from: LVal| counts(makers, v, from, e, depth - 1);
    match makers.get(v) {
        Some(Inst::Bin { a, b, .. }) => e.natural.contains(b) && counts(*a, from),
        Some(Inst::For(l)) => l.carried.iter().any(|c| c.result == v && counts(c.init, from) && counts(c.next, c.param)),
        Some(Inst::If(c)) => c.results.iter().any(|&(r, a, b)| r == v && counts(a, from) && counts(b, from)),
        _ => false,
    }
}

/// Modulo what each value matters: what it is divided by, and masked with, on its way to a slot or a parity.
fn needs(
    program: &Program,
    relevant: &EntitySet<LVal>,
    constants: &Map<LVal, i64>,
    remainders: &Map<LVal, (LVal, i64)>,
    modulus: i64,
) -> Map<LVal, i64> {
    let makes = |inst: &Inst| computed(inst).is_some_and(|list| list.iter().any(|&v| relevant.contains(v)));
    let mut all = Vec::new();
    each(&program.body, &mut |inst| match inst {
        Inst::For(_) | Inst::If(_) => all.push(inst),
        // A comparison with a number takes what is known at least.
        Inst::Cmp { .. } => {}
        other => all.extend(makes(other).then_some(other)),
    });
    // Backwards through the text, until nothing is added. It is one for what nobody has asked about.
    let mut out = vec![1i64; program.vals.len()];
    let mut changes = true;
    while changes {
        changes = false;
        for inst in all.iter().rev() {
            let mut needed: SmallVec<[(LVal, i64); 8]> = SmallVec::new();
            let mut need = |v: LVal, n: i64| {
                if n > 1 {
                    needed.push((v, n));
                }
            };
            let of = |v: LVal| out[v.index()];
            match inst {
                Inst::Bin { dst, op, a, b } => match (op, constants.get(b).copied().filter(|&c| c > 0)) {
                    _ if remainders.contains_key(dst) => need(remainders[dst].0, remainders[dst].1),
                    (BinOp::Rem | BinOp::RemU, Some(c)) => need(*a, c),
                    (BinOp::Div | BinOp::DivU, Some(c)) => need(*a, c.saturating_mul(of(*dst))),
                    (BinOp::ShrS | BinOp::ShrU, Some(c)) if c < 12 => need(*a, of(*dst) << c),
                    (BinOp::And, Some(c)) if c & (c + 1) == 0 => need(*a, c + 1),
                    (BinOp::Add | BinOp::Sub | BinOp::Mul, _) => {
                        need(*a, of(*dst));
                        need(*b, of(*dst));
                    }
                    _ => {
                        need(*a, modulus);
                        need(*b, modulus);
                    }
                },
                Inst::For(l) => {
                    need(l.hi, modulus);
                    for c in &l.carried {
                        let (param, result) = (of(c.param), of(c.result));
                        let n = if param == result { param } else { lcm(param, result) };
                        [c.init, c.next, c.param, c.result].into_iter().for_each(|v| need(v, n));
                    }
                }
                Inst::If(c) => {
                    for &(r, a, b) in &c.results {
                        need(a, of(r));
                        need(b, of(r));
                    }
                }
                other => reads(other, &mut |v| need(v, modulus)),
            }
            for (v, n) in needed {
                let own = &mut out[v.index()];
                // It counts modulo that as it is.
                if *own % n != 0 {
                    let more = gcd(lcm(*own, n), modulus);
                    changes |= more != std::mem::replace(own, more);
                }
            }
        }
    }
    let carried = all.iter().filter_map(|inst| if let Inst::For(l) = inst { Some(&l.carried) } else { None });
    carried.flatten().map(|c| (c.param, out[c.param.index()])).collect()
}

/// Calls `f` for every instruction of a block and the blocks inside it.
fn each<'p>(block: &'p Block, f: &mut dyn FnMut(&'p Inst)) {
    for inst in block {
        f(inst);
        blocks(inst).for_each(|b| each(b, f));
    }
}

impl Analysis {
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

    /// The same for a carried value, modulo no more than what matters of it.
    pub fn carried(&self, param: LVal, a: Abs) -> Abs {
        match (self.needs.get(&param), a) {
            (Some(&m), Abs::All(v)) if v > 0 => Abs::Count((v - 1) % m + 1, m),
            (Some(&m), Abs::Count(v, n)) if v > 0 => {
                let m = if n % m == 0 { m } else { n };
                Abs::Count((v - 1) % m + 1, m)
            }
            (_, a) => self.counted(a),
        }
    }

    /// The bytes of an allocation's regions, and whether they are more than what is used apart.
    pub fn region_bytes(&self, id: AllocId, a: &Alloc) -> (i64, bool) {
        let coarse = self.effort.coarse && a.slot > a.region_bytes && !self.stored.contains(&id);
        (i64::from(if coarse { a.slot } else { a.region_bytes }), coarse)
    }

    /// The allocation that an address is one of, wherever it leads.
    pub fn of(&self, addr: LVal) -> Option<AllocId> {
        self.allocs[addr]
    }

    /// True if memory at an address goes from agent to agent.
    pub fn tracked(&self, program: &Program, addr: LVal) -> bool {
        self.allocs[addr].and_then(|a| program.allocs.get(a)).is_some_and(|a| a.region_bytes > 0)
    }
}
