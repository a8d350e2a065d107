//! Which loops of different roles go round equally often: those whose bounds are the same expressions of the same things.
//!
//! A loop may have its first step in front of it: `if x < hi { …; for x + step to hi step { … } }` goes round as often as
//! `for x to hi step`, the choice being its first iteration.
//!
//! A loop may take every `k`th iteration of another one, from the `a`th on: from `x + a step` to the same end by `k step`. The same instruction
//! in another block of a cluster goes round equally often if its bounds are the same in all blocks.
//!
//! A choice is taken alike by roles that ask the same: it counts as a loop that goes round once or not at all.
//!
//! What loops on a condition carry is the same behind them if it is at first, and if, as long as it was, the condition and all next ones are, too.
//!
//! What loops of one number carry is the same if it is at first, and in each next iteration as long as it was: bounds and conditions may be asked for a
//! step ahead.

use super::makers::Makers;
use super::unwritten::Unwritten;
use cranelift_entity::EntitySet;
use std::ops::Range;
use tilelift_ir::{CmpOp, GridAxis};
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::visit::blocks;
use tilelift_lane::{BinOp, Block, For, If, Inst, LVal, Program, Special, Unit, While};

/// Numbers of loops: loops with one number go round equally often. Keyed by the loop's index.
#[derive(Default)]
pub(super) struct TripClasses {
    /// The numbers.
    pub of: Map<LVal, usize>,
    /// Loops whose first step stands in front of them.
    pub behind: Set<LVal>,
    /// Loops that take every k-th iteration of the others of their number, and the first one that they take.
    pub strides: Map<LVal, (usize, usize)>,
    /// Loops in such loops: how many of the others' runs they pass over at first, and after each of their own.
    pub skips: Map<LVal, (usize, usize)>,
    /// Loops that go round equally often in all blocks of a cluster.
    pub shared: Set<LVal>,
    /// The numbers of the ends of loops.
    pub ends: Map<LVal, LVal>,
    /// Choices that are asked about as loops are, and whether the answer is the same in all blocks. Keyed by the place of the instruction.
    pub choices: Map<usize, (usize, bool)>,
    /// Choices to amend what units bring, all lanes of a role alike. By the place of the instruction.
    pub amends: Set<usize>,
}

impl TripClasses {
    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.of.values().chain(self.choices.values().map(|c| &c.0)).max().map_or(0, |m| m + 1)
    }

    /// The number of a choice, and whether the answer is the same in all blocks.
    pub fn choice(&self, c: &If) -> Option<(usize, bool)> {
        self.choices.get(&std::ptr::from_ref(c).addr()).copied()
    }
}

/// A loop as far as it decides how often it goes round.
struct CountedLoop {
    role: usize,
    bounds: [LVal; 3],
    trip_class: usize,
    /// The number of the loop around it.
    around: Option<usize>,
    /// It takes every iteration of its number.
    every: bool,
    /// Behind nothing but the steps of the loop around it.
    direct: bool,
    /// Mbarriers are used in it.
    meets: bool,
}

/// A choice that has a number.
struct Choice {
    role: usize,
    condition: LVal,
    number: usize,
    /// The number of what is around it.
    around: Option<usize>,
}

/// Where a loop stands.
#[derive(Clone, Copy, Default)]
struct Around {
    trip_class: Option<usize>,
    stride: Option<(usize, usize)>,
    /// It goes round equally often in all blocks.
    shared: bool,
    /// No choice, and no second loop, lies in between.
    direct: bool,
    /// The index of the loop around.
    index: Option<LVal>,
    /// Roles that come here do so in every iteration of what is around, or in every run of the arm.
    always: bool,
}

/// A sum of multiples of values, and a number.
#[derive(Clone, Default)]
struct Sum {
    terms: Vec<(LVal, i64)>,
    number: i64,
}

/// The largest stride that is followed.
const STRIDE: i64 = 64;

struct Finder<'a> {
    program: &'a Program,
    /// Choices are numbered, too.
    choices: bool,
    unwritten: Unwritten,
    /// The instruction behind each computed value, and the loop behind each index.
    makers: Makers<'a>,
    /// What loops carry: the loop's index, what is carried into its first iteration, and what into the next ones.
    carried: Map<LVal, [LVal; 3]>,
    /// Loops on a condition, by what they leave behind, and its number.
    endless: Map<LVal, (&'a While, usize)>,
    /// What stands in front of all roles.
    front: EntitySet<LVal>,
    trip_classes: TripClasses,
    known: Vec<CountedLoop>,
    /// Loops, by their place in the list, of the other branch of a choice: of the two only one goes round.
    instead: Vec<Range<usize>>,
    /// Choices that have a number.
    asked: Vec<Choice>,
    same: Map<(LVal, LVal), bool>,
    agreed: Map<LVal, bool>,
    uniform: Map<LVal, bool>,
    cluster: u32,
    /// Accesses of shared memory count.
    local: bool,
}

/// What is asked about while a program is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// Loops: whether they go round once more.
    Loops,
    /// And choices that all lanes take alike: which arm.
    LoopsAndChoices,
}

/// Numbers the loops, and choices, in which mbarriers are used.
pub(super) fn trip_classes(program: &Program, asked: Asked) -> TripClasses {
    let mut f = Finder {
        program,
        choices: asked == Asked::LoopsAndChoices,
        unwritten: Unwritten::default(),
        makers: Makers::of(program),
        carried: Map::default(),
        endless: Map::default(),
        front: EntitySet::with_capacity(program.vals.len()),
        trip_classes: TripClasses::default(),
        known: Vec::new(),
        instead: Vec::new(),
        asked: Vec::new(),
        same: Map::default(),
        agreed: Map::default(),
        uniform: Map::default(),
        cluster: program.cluster,
        local: program.allocs.values().any(|a| a.region_bytes > 0),
    };
    let top = Around { shared: true, direct: true, always: true, ..Around::default() };
    let roles = program.roles().map_or(&[][..], |r| &r.roles[..]);
    f.makers_of(&program.body, true);
    roles.iter().for_each(|r| f.makers_of(&r.body, false));
    f.unwritten = Unwritten::new(program, &f.makers);
    f.loops(roles.len(), &program.body, top, None);
    for (n, role) in roles.iter().enumerate() {
        f.loops(n, &role.body, top, None);
    }
    f.trip_classes
}

/// True if mbarriers, or what they guard, are used in a block; with `local`, lanes' accesses of shared memory count.
pub(super) fn matters(block: &Block, local: bool) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => !matches!(**u, Unit::PrefetchMap { .. }),
        Inst::LoadShared { .. } | Inst::LoadMatrix { .. } | Inst::StoreShared { .. } => local,
        Inst::CopyAsync { .. } | Inst::CommitCopies | Inst::WaitCopies { .. } => local,
        other => blocks(other).any(|b| matters(b, local)),
    })
}

/// True for a choice one of whose blocks has lanes write, fences behind that, has all meet behind that, and does no more, while the other one is empty.
pub(super) fn amends(choice: &If) -> bool {
    let meets = |i: &Inst| match i {
        Inst::Barrier => true,
        Inst::Unit(u) => matches!(**u, Unit::GroupBarrier { .. }),
        _ => false,
    };
    fn writes(i: &Inst, meets: &dyn Fn(&Inst) -> bool) -> bool {
        match i {
            Inst::StoreShared { .. } => true,
            Inst::If(c) => c.then.iter().chain(&c.otherwise).all(|i| writes(i, &|_| false)),
            other => meets(other) || other.effect().computes(),
        }
    }
    let is_fence = |i: &Inst| matches!(i, Inst::Unit(u) if matches!(**u, Unit::FenceUnits));
    let (block, other) = if matters(&choice.then, true) { (&choice.then, &choice.otherwise) } else { (&choice.otherwise, &choice.then) };
    let Some(fence) = block.iter().position(is_fence).filter(|_| !matters(other, true)) else { return false };
    let mut behind = block[fence + 1..].iter().filter(|i| !i.effect().computes());
    block[..fence].iter().all(|i| writes(i, &meets)) && behind.next().is_some_and(meets) && behind.next().is_none()
}

/// True if a role meets others by mbarriers in a block.
fn uses_mbarriers(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => matches!(
            **u,
            Unit::Wait { .. }
                | Unit::Arrive { .. }
                | Unit::ArriveExpect { .. }
                | Unit::ArriveCopies { .. }
                | Unit::RemoteArrive { .. }
                | Unit::BulkLoad { .. }
        ),
        other => blocks(other).any(uses_mbarriers),
    })
}

impl<'a> Finder<'a> {
    fn makers_of(&mut self, block: &'a Block, front: bool) {
        for inst in block {
            match inst {
                Inst::LoadGlobal { dsts, .. } => dsts.iter().for_each(|&d| self.makers.insert(d, inst)),
                Inst::For(l) => {
                    l.carried.iter().for_each(|c| _ = self.carried.insert(c.param, [l.iv, c.init, c.next]));
                    self.makers_of(&l.body, false);
                }
                Inst::While(l) => {
                    self.endless.extend(l.carried.iter().enumerate().map(|(n, c)| (c.result, (&**l, n))));
                    [&l.test, &l.body].into_iter().for_each(|b| self.makers_of(b, false));
                }
                computed if computed.effect().computes() => {
                    for &d in computed.results() {
                        self.makers.insert(d, inst);
                        if front {
                            self.front.insert(d);
                        }
                    }
                }
                other => blocks(other).for_each(|b| self.makers_of(b, false)),
            }
        }
    }

    /// Numbers the loops of a block; `choice` is the condition of the choice whose block it is, and whether that stands directly in what is around.
    fn loops(&mut self, role: usize, block: &'a Block, around: Around, choice: Option<(LVal, bool)>) {
        for inst in block {
            match inst {
                Inst::For(l) if matters(&l.body, self.local) => self.number(role, l, around, choice),
                Inst::If(c) => {
                    if amends(c) && self.lanes_agree(c.condition) {
                        self.trip_classes.amends.insert(std::ptr::from_ref(&**c).addr());
                    }
                    let first = self.known.len();
                    // Loops of an arm are told from those of other arms and choices.
                    let arms = self.choice(role, c, around).map(|n| [n, n + 1].map(|n| Some(usize::MAX / 2 + n)));
                    let inside = |arm: usize| Around {
                        direct: false,
                        always: arms.is_some(),
                        trip_class: arms.map_or(around.trip_class, |a| a[arm]),
                        ..around
                    };
                    self.loops(role, &c.then, inside(0), Some((c.condition, around.direct)));
                    self.instead.push(first..self.known.len());
                    self.loops(role, &c.otherwise, inside(1), None);
                    self.instead.pop();
                }
                // They come on their own.
                Inst::Roles(_) => {}
                other => blocks(other).for_each(|b| self.loops(role, b, around, None)),
            }
        }
    }

    /// Numbers a choice that does not ask for a loop, if all lanes answer alike; gives twice its number. Choices of other roles have the same number
    /// if they ask the same, in the same place; each role asks once there, and not in some iterations only: the `n`th answer is that of the `n`th
    /// iteration for all.
    fn choice(&mut self, role: usize, c: &'a If, around: Around) -> Option<usize> {
        let less = match self.makers.get(c.condition) {
            Some(Inst::Cmp { op: CmpOp::Lt, a, b, .. }) => Some((*a, *b)),
            Some(Inst::Cmp { op: CmpOp::Gt, a, b, .. }) => Some((*b, *a)),
            _ => None,
        };
        let mine = |i: &Inst| matches!(i, Inst::For(l) if l.runs && less == Some((l.lo, l.hi)));
        if !self.choices
            || !around.always
            || around.stride.is_some()
            || c.then.iter().any(mine)
            || !(matters(&c.then, self.local) || matters(&c.otherwise, self.local))
        {
            return None;
        }
        let first = c.then.iter().any(|i| matches!(i, Inst::For(l) if self.first_step(c.condition, l).is_some()));
        // Which iteration it is, is followed.
        let follows = matches!(self.makers.get(c.condition), Some(Inst::Cmp { a, b, .. }) if [Some(*a), Some(*b)].contains(&around.index));
        if first || follows || !self.lanes_agree(c.condition) {
            return None;
        }
        let own: Vec<usize> = self.asked.iter().filter(|a| a.role == role).map(|a| a.number).collect();
        let others: Vec<(usize, LVal)> = (self.asked.iter())
            .filter(|a| a.role != role && a.around == around.trip_class && !own.contains(&a.number))
            .map(|a| (a.number, a.condition))
            .collect();
        let found = others.into_iter().find(|o| self.equal(o.1, c.condition)).map(|o| o.0);
        let number = found.unwrap_or_else(|| self.trip_classes.count());
        let shared = around.shared && self.uniform(c.condition);
        self.trip_classes.choices.insert(std::ptr::from_ref(c).addr(), (number, shared));
        self.asked.push(Choice { role, condition: c.condition, number, around: around.trip_class });
        Some(2 * number)
    }

    /// True if a value is the same in all lanes, whoever computes it: made of parameters, the place in the grid, indices of loops, what these carry of such
    /// values, and what is read where nobody writes.
    fn lanes_agree(&mut self, v: LVal) -> bool {
        if let Some(&known) = self.agreed.get(&v) {
            return known;
        }
        let result = match self.makers.get(v) {
            Some(Inst::Const { .. } | Inst::Param { .. }) => true,
            Some(Inst::Special { what, .. }) => {
                matches!(what, Special::NumPrograms(_) | Special::ProgramId(_) | Special::Worker | Special::Workers)
            }
            Some(Inst::LoadGlobal { addr, guard, other, .. }) => {
                self.unwritten.is_read_only(self.program, &self.makers, *addr)
                    && [addr].into_iter().chain(guard).chain(other).all(|&v| self.lanes_agree(v))
            }
            Some(
                computed @ (Inst::Un { .. }
                | Inst::Bin { .. }
                | Inst::Cmp { .. }
                | Inst::Select { .. }
                | Inst::Fma { .. }
                | Inst::MadWide { .. }
                | Inst::Cvt { .. }
                | Inst::Bitcast { .. }),
            ) => {
                let mut of = Vec::new();
                computed.operands(|v, _| of.push(v));
                of.into_iter().all(|v| self.lanes_agree(v))
            }
            Some(_) => false,
            None => self.trip_classes.of.contains_key(&v) || self.carried_agree(v),
        };
        self.agreed.insert(v, result);
        result
    }

    /// The same of what a loop carries: lanes agree at first, and as long as they have agreed so far.
    fn carried_agree(&mut self, v: LVal) -> bool {
        let Some(&[index, init, next]) = self.carried.get(&v) else { return false };
        if !self.trip_classes.of.contains_key(&index) || !self.lanes_agree(init) {
            return false;
        }
        self.agreed.insert(v, true);
        let agree = self.lanes_agree(next);
        if !agree {
            // What was concluded of it falls with it.
            self.agreed.clear();
        }
        agree
    }

    fn number(&mut self, role: usize, l: &'a For, around: Around, choice: Option<(LVal, bool)>) {
        let first = choice.and_then(|c| self.first_step(c.0, l));
        // Behind nothing but its own first step.
        let alone = if first.is_some() { choice.is_some_and(|c| c.1) } else { around.direct };
        let top = around.trip_class.is_none() && alone;
        // A choice that asks whether the loop goes round at all is its own first answer, and nothing in between.
        let around = Around { direct: around.direct || choice.is_some_and(|c| c.1 && self.asks_for(c.0, l)), ..around };
        if first.is_some() {
            self.trip_classes.behind.insert(l.iv);
        }
        let bounds = [first.unwrap_or(l.lo), l.hi, l.step];
        let instead = |n: usize| self.instead.iter().any(|r| r.contains(&n));
        let own: Vec<usize> =
            self.known.iter().enumerate().filter(|(n, k)| k.role == role && !instead(*n)).map(|(_, k)| k.trip_class).collect();
        // One in which nobody meets another role goes round beside those of others, which it may have in front of one that does.
        let meets = uses_mbarriers(&l.body);
        let others: Vec<(usize, [LVal; 3], bool, bool)> = self
            .known
            .iter()
            .filter(|k| k.role != role && k.meets == meets && k.around == around.trip_class && !own.contains(&k.trip_class))
            .map(|k| (k.trip_class, k.bounds, k.every, k.direct))
            .collect();
        // The runs of a loop in one that takes some iterations only are counted, and each is as long as the others.
        let counted =
            |f: &Self, direct: bool| around.stride.is_none() || (around.direct && direct && bounds.iter().all(|b| f.front.contains(*b)));
        let found = others
            .iter()
            .find(|o| o.2 && counted(self, o.3) && bounds.iter().zip(o.1).all(|(&a, b)| self.equal(a, b)))
            .map(|o| (o.0, None));
        let part = |f: &mut Self| {
            let mut all = others.iter().filter(|o| top && o.2 && o.3);
            all.find_map(|o| Some((o.0, Some(f.stride(bounds, o.1)?))))
        };
        let found = found.or_else(|| part(self));
        let (trip_class, stride) = found.unwrap_or((self.trip_classes.count(), None));
        self.trip_classes.of.insert(l.iv, trip_class);
        self.trip_classes.ends.insert(l.iv, l.hi);
        if let Some(s) = stride {
            self.trip_classes.strides.insert(l.iv, s);
        }
        if let Some((first, each)) = around.stride.filter(|_| found.is_some()) {
            self.trip_classes.skips.insert(l.iv, (first, each - 1));
        }
        let shared = around.shared && bounds.iter().all(|&b| self.uniform(b));
        if shared {
            self.trip_classes.shared.insert(l.iv);
        }
        let known =
            CountedLoop { role, bounds, trip_class, around: around.trip_class, every: stride.is_none(), direct: around.direct, meets };
        self.known.push(known);
        // In the loops of a loop that takes some iterations only nothing is counted.
        let trip_class = if around.stride.is_some() { Some(usize::MAX - self.known.len()) } else { Some(trip_class) };
        self.loops(role, &l.body, Around { trip_class, stride, shared, direct: true, index: Some(l.iv), always: true }, None);
    }

    /// Which iterations of a loop another one to the same end takes: the first, and how many there are from one to the next.
    fn stride(&mut self, [lo, hi, step]: [LVal; 3], [lo_all, hi_all, step_all]: [LVal; 3]) -> Option<(usize, usize)> {
        if !self.equal(hi, hi_all) {
            return None;
        }
        let one = self.sum(step_all, 8)?;
        let from = self.sum(lo_all, 8)?;
        let first = self.sum(lo, 8)?;
        let ahead = self.plus(first, &from, -1);
        let by = self.sum(step, 8)?;
        let (a, k) = (self.times(&ahead, &one)?, self.times(&by, &one)?);
        ((0..STRIDE).contains(&a) && (1..STRIDE).contains(&k)).then_some((a as usize, k as usize))
    }

    /// How often a sum holds another one.
    fn times(&mut self, all: &Sum, one: &Sum) -> Option<i64> {
        let whole = |x: i64, y: i64| (y != 0 && x % y == 0).then(|| x / y);
        let n = match one.terms.first() {
            None => whole(all.number, one.number)?,
            Some(&(v, c)) => {
                let have = all.terms.iter().find(|t| self.equal(t.0, v)).map_or(0, |t| t.1);
                whole(have, c)?
            }
        };
        let rest = self.plus(all.clone(), one, -n);
        (rest.terms.is_empty() && rest.number == 0).then_some(n)
    }

    fn plus(&mut self, mut a: Sum, b: &Sum, times: i64) -> Sum {
        a.number += times * b.number;
        for &(v, c) in &b.terms {
            match a.terms.iter().position(|t| self.equal(t.0, v)) {
                Some(n) => a.terms[n].1 += times * c,
                None => a.terms.push((v, times * c)),
            }
        }
        a.terms.retain(|t| t.1 != 0);
        a
    }

    /// A value as a sum; `None` if its numbers are large.
    fn sum(&mut self, v: LVal, depth: u32) -> Option<Sum> {
        let leaf = Sum { terms: vec![(v, 1)], number: 0 };
        let small = |n: i64| (-(1 << 24)..1 << 24).contains(&n);
        let made = match self.makers.get(v) {
            Some(Inst::Const { bits, .. }) => Sum { terms: Vec::new(), number: *bits as i64 },
            Some(&Inst::Bin { op, a, b, .. }) if depth > 0 => {
                let (x, y) = (self.sum(a, depth - 1)?, self.sum(b, depth - 1)?);
                let number = |s: &Sum| s.terms.is_empty().then_some(s.number);
                match (op, number(&x), number(&y)) {
                    (BinOp::Add, ..) => self.plus(x, &y, 1),
                    (BinOp::Sub, ..) => self.plus(x, &y, -1),
                    (BinOp::Mul, _, Some(n)) => self.plus(Sum::default(), &x, n),
                    (BinOp::Mul, Some(n), _) => self.plus(Sum::default(), &y, n),
                    (BinOp::Shl, _, Some(n)) if (0..24).contains(&n) => self.plus(Sum::default(), &x, 1 << n),
                    _ => leaf,
                }
            }
            _ => leaf,
        };
        (small(made.number) && made.terms.iter().all(|t| small(t.1))).then_some(made)
    }

    /// True if a value is the same in all blocks of a cluster.
    fn uniform(&mut self, v: LVal) -> bool {
        if let Some(&known) = self.uniform.get(&v) {
            return known;
        }
        let constant = |f: &Self, v: LVal| match f.makers.get(v) {
            Some(Inst::Const { bits, .. }) => Some(*bits as i64),
            _ => None,
        };
        let number = |f: &Self, v: LVal| matches!(f.makers.get(v), Some(Inst::Special { what: Special::ProgramId(GridAxis::X), .. }));
        let cluster = i64::from(self.cluster);
        let result = match self.makers.get(v) {
            Some(Inst::Const { .. } | Inst::Param { .. }) => true,
            Some(Inst::Special { what, .. }) => {
                matches!(what, Special::NumPrograms(_) | Special::ProgramId(GridAxis::Y | GridAxis::Z))
            }
            // Clusters are neighbours along x, from a multiple of their size on.
            Some(&Inst::Bin { op: BinOp::Div | BinOp::DivU, a, b, .. })
                if number(self, a) && constant(self, b).is_some_and(|c| c > 0 && c % cluster == 0) =>
            {
                true
            }
            Some(&Inst::Bin { op: BinOp::ShrS | BinOp::ShrU, a, b, .. })
                if number(self, a) && constant(self, b).is_some_and(|c| (0..31).contains(&c) && (1 << c) % cluster == 0) =>
            {
                true
            }
            Some(Inst::LoadGlobal { addr, guard, other, .. }) => {
                self.unwritten.is_read_only(self.program, &self.makers, *addr)
                    && [addr].into_iter().chain(guard).chain(other).all(|&v| self.uniform(v))
            }
            // What is computed of the same numbers is the same.
            Some(computed) => {
                let mut of = Vec::new();
                computed.operands(|v, _| of.push(v));
                of.into_iter().all(|v| self.uniform(v))
            }
            None => self.trip_classes.shared.contains(&v),
        };
        self.uniform.insert(v, result);
        result
    }

    /// True if a condition says that a loop goes round at all.
    fn asks_for(&self, condition: LVal, l: &For) -> bool {
        let less = matches!(self.makers.get(condition), Some(Inst::Cmp { op: CmpOp::Lt, a, b, .. }) if (*a, *b) == (l.lo, l.hi));
        less && l.runs
    }

    /// Where a loop would begin with its first step in it, if `condition` says that there is one.
    fn first_step(&mut self, condition: LVal, l: &For) -> Option<LVal> {
        let Some(&Inst::Cmp { op: CmpOp::Lt, a: x, b: hi, .. }) = self.makers.get(condition) else { return None };
        let constant = |f: &Self, v: LVal| match f.makers.get(v) {
            Some(Inst::Const { bits, .. }) => Some(*bits as i64),
            _ => None,
        };
        let behind = match self.makers.get(l.lo) {
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

    /// True if two loads find the same number at the same place, which nobody writes.
    fn loads_equal(&mut self, (a, x): (LVal, &Inst), (b, y): (LVal, &Inst)) -> bool {
        let (
            Inst::LoadGlobal { dsts, addr, offset, guard, other, .. },
            Inst::LoadGlobal { dsts: dsts_y, addr: addr_y, offset: offset_y, guard: guard_y, other: other_y, .. },
        ) = (x, y)
        else {
            return false;
        };
        let nth = |dsts: &[LVal], v: LVal| dsts.iter().position(|&d| d == v);
        let (Some(n), Some(m)) = (nth(dsts, a), nth(dsts_y, b)) else { return false };
        let same = |f: &mut Self, x: Option<&LVal>, y: Option<&LVal>| match (x, y) {
            (Some(&x), Some(&y)) => f.equal(x, y),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        n == m
            && offset == offset_y
            && self.program.vals[a] == self.program.vals[b]
            && self.unwritten.is_read_only(self.program, &self.makers, *addr)
            && self.equal(*addr, *addr_y)
            && same(self, guard.as_ref(), guard_y.as_ref())
            && same(self, other.get(n), other_y.get(m))
    }

    /// True if two values are the same expression.
    fn equal(&mut self, a: LVal, b: LVal) -> bool {
        if a == b {
            return true;
        }
        if let Some(&known) = self.same.get(&(a, b)) {
            return known;
        }
        let every = |v: &LVal| !self.trip_classes.strides.contains_key(v) && !self.trip_classes.skips.contains_key(v);
        let indices = every(&a) && every(&b) && self.trip_classes.of.get(&a).zip(self.trip_classes.of.get(&b)).is_some_and(|(x, y)| x == y);
        let result = indices
            || match (self.makers.get(a), self.makers.get(b)) {
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
                | (Some(Inst::Fma { a: c, b: a, c: b, .. }), Some(Inst::Fma { a: d, b: e, c: f, .. }))
                | (Some(Inst::MadWide { a: c, b: a, c: b, .. }), Some(Inst::MadWide { a: d, b: e, c: f, .. })) => {
                    self.equal(*c, *d) && self.equal(*a, *e) && self.equal(*b, *f)
                }
                (Some(Inst::Cvt { a: x, .. }), Some(Inst::Cvt { a: y, .. }))
                | (Some(Inst::Bitcast { a: x, .. }), Some(Inst::Bitcast { a: y, .. })) => {
                    self.program.vals[a] == self.program.vals[b] && self.equal(*x, *y)
                }
                (Some(x @ Inst::LoadGlobal { .. }), Some(y @ Inst::LoadGlobal { .. })) => self.loads_equal((a, x), (b, y)),
                (None, None) => self.carried_equal(a, b) || self.left_equal(a, b),
                _ => false,
            };
        self.same.insert((a, b), result);
        result
    }

    /// True if what loops of one number carry is the same in each of their iterations: the same at first, and the same as long as it was so far. Both take
    /// every iteration, none of them in front of the loop.
    fn carried_equal(&mut self, a: LVal, b: LVal) -> bool {
        let (Some(&[loop_a, init_a, next_a]), Some(&[loop_b, init_b, next_b])) = (self.carried.get(&a), self.carried.get(&b)) else {
            return false;
        };
        let whole = |v: &LVal| {
            let TripClasses { strides, skips, behind, .. } = &self.trip_classes;
            !strides.contains_key(v) && !skips.contains_key(v) && !behind.contains(v)
        };
        let numbers = [loop_a, loop_b].map(|v| self.trip_classes.of.get(&v).copied().filter(|_| whole(&v)));
        if numbers[0].is_none() || numbers[0] != numbers[1] || !self.equal(init_a, init_b) {
            return false;
        }
        self.same.insert((a, b), true);
        let equal = self.equal(next_a, next_b);
        if !equal {
            // What was concluded of it falls with it.
            self.same.clear();
        }
        equal
    }

    /// True if loops on a condition leave the same behind: all that they carry is the same at first, and as long as it was so far, both go on, or neither,
    /// with the same.
    fn left_equal(&mut self, a: LVal, b: LVal) -> bool {
        let (Some(&(x, n)), Some(&(y, m))) = (self.endless.get(&a), self.endless.get(&b)) else { return false };
        let pairs = || x.carried.iter().zip(&y.carried);
        if n != m || x.carried.len() != y.carried.len() || !pairs().all(|(c, d)| self.equal(c.init, d.init)) {
            return false;
        }
        self.same.extend(pairs().map(|(c, d)| ((c.param, d.param), true)));
        let equal = self.equal(x.condition, y.condition) && pairs().all(|(c, d)| self.equal(c.next, d.next));
        if !equal {
            // What was concluded of it falls with it.
            self.same.clear();
        }
        equal
    }
}
