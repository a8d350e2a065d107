//! What agents run, without what is nobody else's affair: in a kernel's text one instruction of some hundreds matters.

use super::super::env::Env;
use super::super::trip_classes::{amends, matters};
use super::super::value::Abs;
use crate::env::Homes;
use crate::find::{any, copies};
use crate::state::analysis::Analysis;
use cranelift_entity::EntityRef;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use tilelift_lane::hash::Map;
use tilelift_lane::visit::{blocks, computed, reads};
use tilelift_lane::{Block, Carried, For, If, Inst, LVal, Multiply, Place, Program, Unit, While};

/// What says which instructions matter.
pub(crate) struct Needs<'c> {
    pub program: &'c Program,
    pub analysis: &'c Analysis,
    /// Values that are followed, by number.
    pub computed: &'c [bool],
    pub homes: &'c Homes,
}

/// What an instruction does to the state.
pub(in super::super) enum What<'a> {
    /// A run of instructions that compute.
    Compute(usize),
    Loop(usize),
    Choice(usize),
    /// A loop without a count: its body, and its test, and what they do at most.
    Endless(&'a While, [usize; 2], Repeats),
    /// Lanes close their group of copies, or wait until so many of the newest groups are in flight.
    Copies(Option<u32>),
    Unit(&'a Unit),
    /// Accesses of local memory that nothing stands between, by their number.
    Accesses(usize),
    Roles,
    Barrier,
}

/// How local memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum AccessKind {
    Multiply,
    /// By lanes.
    Read,
    Write,
    /// By copies that lanes begin.
    Copy,
}

/// Which lanes of an agent access local memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Lanes {
    All,
    /// Where a guard holds.
    If(LVal),
    /// So many of each warp, the first ones: each names a row of a matrix. What the others give as addresses is not looked at.
    Rows(u32),
}

/// An access of local memory.
pub(in super::super) enum Access<'a> {
    Product(&'a Multiply),
    /// Of so many bytes by each of some lanes.
    Lanes(Place, u32, Lanes),
}

/// What says where accesses go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum AccessInput {
    Address(LVal),
    Lanes(Lanes),
}

/// Accesses side by side, with their instructions.
pub(in super::super) struct Accesses<'a> {
    pub kind: AccessKind,
    pub all: Vec<(&'a Inst, Access<'a>)>,
    /// What all of them ask for. The products of a step take the same few addresses, so that most of it is there.
    pub asked: Vec<AccessInput>,
}

/// How far back is looked for what is asked for again.
const NEAR: usize = 4;

impl<'a> Accesses<'a> {
    fn add(&mut self, inst: &'a Inst, access: Access<'a>) {
        let mut ask = |x: AccessInput| {
            if !self.asked.iter().rev().take(NEAR).any(|y| *y == x) {
                self.asked.push(x);
            }
        };
        match &access {
            Access::Lanes(place, _, lanes) => [AccessInput::Address(place.addr), AccessInput::Lanes(*lanes)].into_iter().for_each(&mut ask),
            Access::Product(m) => m.operands_in_shared().for_each(|o| ask(AccessInput::Address(o.at.addr))),
        }
        self.all.push((inst, access));
    }
}

/// What the blocks of a choice do, as far as others have part in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Arms {
    /// They only read. A fence of theirs shows nothing behind the choice, because the other way may have none.
    Read,
    /// They multiply, and nobody meets anybody: no product is in flight where they begin, nor where they end.
    Multiply,
    /// They let results leave.
    Leave,
    /// One puts something else in some places of what units have brought, shows it to them, and all lanes of the role meet; the other does nothing.
    Amend,
    Any,
}

/// What a round of a loop without a count does, as far as others have part in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Repeats {
    /// Lanes read and write, and those of the role meet.
    Lanes,
    /// Lanes copy: how many groups are in flight has to be known.
    Copies,
    Any,
}

/// A loop.
pub(in super::super) struct Loop<'a> {
    pub l: &'a For,
    /// Its block.
    pub body: usize,
    /// What matters of what it carries: of hundreds of accumulator registers nothing does. With each whether it counts.
    pub carried: Vec<(&'a Carried, bool)>,
    /// Slots that are forgotten where it begins: nobody asks for them any more.
    pub dead: Vec<usize>,
    /// Its end is assumed, and only whether there is another iteration depends on that.
    pub same_in_all_cases: bool,
    /// It begins with the end of a loop of which a case is assumed late.
    pub asks: bool,
}

/// A choice.
pub(in super::super) struct FollowedChoice<'a> {
    pub c: &'a If,
    /// Its blocks, and what these do at most.
    pub arms: [usize; 2],
    pub does: Arms,
    /// Its results that are followed, each with what it is where the condition holds and where it does not: of hundreds of sums in registers none is.
    pub results: Vec<(LVal, LVal, LVal)>,
}

/// An instruction.
pub(in super::super) struct Op<'a> {
    pub inst: &'a Inst,
    pub what: What<'a>,
}

impl Op<'_> {
    /// The blocks inside it.
    pub fn blocks(&self, code: &Code<'_>) -> [Option<usize>; 2] {
        match self.what {
            What::Loop(n) => [Some(code.counted_loop(n).body), None],
            What::Choice(n) => code.choice(n).arms.map(Some),
            What::Endless(_, both, _) => both.map(Some),
            What::Compute(_) | What::Copies(_) | What::Unit(_) | What::Accesses(_) | What::Roles | What::Barrier => [None; 2],
        }
    }
}

/// Instructions that compute, and nothing else stands between them that matters to them.
#[derive(Default)]
pub(in super::super) struct Group<'a> {
    pub insts: Vec<&'a Inst>,
    /// The slots of what they read that they do not make, and of what they make.
    pub reads: Vec<usize>,
    pub makes: Vec<usize>,
    /// They make the same of the same, whoever runs them, and are many enough to ask what they have made before.
    pub again: bool,
    /// They want to know the end of a loop of which a case is assumed late.
    pub asks: bool,
    before: RefCell<Map<u64, SmallVec<[Made; 1]>>>,
}

/// What a run reads, and a hash of it.
pub(in super::super) struct Read {
    hash: u64,
    of: Values,
}

type Values = SmallVec<[Abs; 4]>;

/// What a run has made of what it has read.
struct Made {
    of: Values,
    what: SmallVec<[Abs; 8]>,
}

/// Blocks, and runs of instructions that compute, by number.
#[derive(Default)]
pub(in super::super) struct Code<'a> {
    blocks: Vec<Vec<Op<'a>>>,
    groups: Vec<Group<'a>>,
    loops: Vec<Loop<'a>>,
    choices: Vec<FollowedChoice<'a>>,
    accesses: Vec<Accesses<'a>>,
}

/// Instructions that a run is worth looking up for.
const WORTH: usize = 3;

impl<'a> Code<'a> {
    pub fn ops(&self, block: usize) -> &[Op<'a>] {
        &self.blocks[block]
    }

    pub fn group(&self, n: usize) -> &Group<'a> {
        &self.groups[n]
    }

    pub fn counted_loop(&self, n: usize) -> &Loop<'a> {
        &self.loops[n]
    }

    pub fn choice(&self, n: usize) -> &FollowedChoice<'a> {
        &self.choices[n]
    }

    /// Says what is forgotten where loops begin, by their number.
    pub fn forget(&mut self, dead: Vec<(usize, Vec<usize>)>) {
        dead.into_iter().for_each(|(n, slots)| self.loops[n].dead = slots);
    }

    /// The loops, each with its number, to take note of something.
    pub fn loops_mut(&mut self) -> &mut [Loop<'a>] {
        &mut self.loops
    }

    /// The runs that compute, to take note of something.
    pub fn groups_mut(&mut self) -> &mut [Group<'a>] {
        &mut self.groups
    }

    pub fn accesses(&self, n: usize) -> &Accesses<'a> {
        &self.accesses[n]
    }

    /// Calls `f` for everything that an operation reads but for its blocks.
    pub fn own_reads(&self, op: &Op<'a>, f: &mut dyn FnMut(LVal)) {
        match op.what {
            What::Compute(n) => self.group(n).insts.iter().for_each(|inst| reads(inst, f)),
            What::Accesses(n) => self.accesses(n).all.iter().for_each(|x| reads(x.0, f)),
            What::Unit(_) | What::Endless(..) => reads(op.inst, f),
            What::Loop(n) => {
                let l = self.counted_loop(n);
                [l.l.lo, l.l.hi, l.l.step].into_iter().for_each(&mut *f);
                l.carried.iter().for_each(|c| [c.0.init, c.0.next].into_iter().for_each(&mut *f));
            }
            What::Choice(n) => {
                let c = self.choice(n);
                f(c.c.condition);
                c.results.iter().for_each(|r| [r.1, r.2].into_iter().for_each(&mut *f));
            }
            What::Copies(_) | What::Roles | What::Barrier => {}
        }
    }

    /// Calls `f` for all operations of a block, and of those inside it.
    pub fn each_inside(&self, block: usize, f: &mut dyn FnMut(&Op<'a>)) {
        for op in self.ops(block) {
            f(op);
            op.blocks(self).into_iter().flatten().for_each(|b| self.each_inside(b, f));
        }
    }

    /// Takes a block in; its number.
    pub fn add(&mut self, c: &Needs<'_>, block: &'a Block) -> usize {
        let mut ops: Vec<Op<'a>> = Vec::new();
        // Where the run stands to which the next one that computes belongs, and what is made behind it.
        let (mut run, mut late): (Option<usize>, Vec<LVal>) = (None, Vec::new());
        for inst in block {
            let computes = computed(inst).is_some_and(|list| list.iter().any(|v| c.computed[v.index()]));
            if computes {
                let mut waits = false;
                reads(inst, &mut |v| waits |= late.contains(&v));
                if waits {
                    (run, late) = (None, Vec::new());
                }
                let n = *run.get_or_insert_with(|| {
                    self.groups.push(Group::default());
                    ops.push(Op { inst, what: What::Compute(self.groups.len() - 1) });
                    self.groups.len() - 1
                });
                self.groups[n].insts.push(inst);
            } else if let Some((kind, access)) = access(c, inst) {
                if let Access::Product(m) = access {
                    late.extend(&m.dsts);
                }
                match ops.last().map(|op| &op.what) {
                    Some(&What::Accesses(n)) if self.accesses[n].kind == kind => self.accesses[n].add(inst, access),
                    _ => {
                        ops.push(Op { inst, what: What::Accesses(self.accesses.len()) });
                        let mut first = Accesses { kind, all: Vec::new(), asked: Vec::new() };
                        first.add(inst, access);
                        self.accesses.push(first);
                    }
                }
            } else if let Some(what) = self.what(c, inst) {
                match &what {
                    // What loops and choices tell of their bounds counts behind them.
                    What::Loop(..) | What::Choice(..) | What::Roles | What::Endless(..) => (run, late) = (None, Vec::new()),
                    What::Unit(u) => late.extend(u.results()),
                    _ => {}
                }
                ops.push(Op { inst, what });
            }
        }
        for op in &ops {
            if let What::Compute(n) = op.what {
                self.groups[n].close(c);
            }
        }
        self.blocks.push(ops);
        self.blocks.len() - 1
    }

    /// What an instruction does, if anything.
    fn what(&mut self, c: &Needs<'_>, inst: &'a Inst) -> Option<What<'a>> {
        let local = c.analysis.local;
        match inst {
            Inst::For(l) => matters(&l.body, local).then(|| {
                let body = self.add(c, &l.body);
                let matters = |x: &&Carried| c.computed[x.param.index()] || c.computed[x.result.index()];
                let carried = l.carried.iter().filter(matters).map(|x| (x, c.analysis.counters.contains(&x.param)));
                self.loops.push(Loop { l, body, carried: carried.collect(), dead: Vec::new(), same_in_all_cases: false, asks: false });
                What::Loop(self.loops.len() - 1)
            }),
            Inst::If(choice) => (matters(&choice.then, local) || matters(&choice.otherwise, local)).then(|| {
                let arms = [&choice.then, &choice.otherwise];
                let does = if !c.analysis.alone && amends(choice) {
                    Arms::Amend
                } else if arms.iter().any(|b| copies(b)) {
                    // How many groups are in flight has to be known.
                    Arms::Any
                } else if c.analysis.alone && arms.iter().any(|b| any(b, &multiplies)) {
                    Arms::Multiply
                } else if c.analysis.alone || arms.iter().all(|b| only_reads(c, b)) {
                    Arms::Read
                } else if arms.iter().all(|b| leaves(b)) {
                    Arms::Leave
                } else {
                    Arms::Any
                };
                let arms = arms.map(|b| self.add(c, b));
                let results = choice.results.iter().copied().filter(|r| c.homes.slot(r.0).is_some()).collect();
                self.choices.push(FollowedChoice { c: choice, arms, does, results });
                What::Choice(self.choices.len() - 1)
            }),
            Inst::While(l) => (matters(&l.test, local) || matters(&l.body, local)).then(|| {
                let both = [&l.body, &l.test];
                let does = if both.iter().any(|b| copies(b)) {
                    Repeats::Copies
                } else if both.iter().all(|b| lanes_alone(b)) {
                    Repeats::Lanes
                } else {
                    Repeats::Any
                };
                What::Endless(l, both.map(|b| self.add(c, b)), does)
            }),
            Inst::Unit(u) => match **u {
                Unit::FenceMatrices | Unit::Hold | Unit::FenceGlobal | Unit::AwaitPrevious | Unit::PrefetchMap { .. } => None,
                // What is tracked is an access.
                Unit::StoreMatrix { .. } => None,
                Unit::BulkStore { from, .. } if !c.analysis.tracked(c.program, from.addr) => None,
                _ => Some(What::Unit(u)),
            },
            Inst::CommitCopies => Some(What::Copies(None)),
            Inst::WaitCopies { pending } => Some(What::Copies(Some(*pending))),
            Inst::Roles(_) => Some(What::Roles),
            Inst::Barrier => Some(What::Barrier),
            _ => None,
        }
    }
}

/// Bytes of a row of a matrix, which a lane names, and rows of a matrix.
const ROW: u32 = 16;
const ROWS: u32 = 8;

/// An access of what goes from agent to agent.
fn access<'a>(c: &Needs<'_>, inst: &'a Inst) -> Option<(AccessKind, Access<'a>)> {
    let bytes = |list: &[LVal]| list.iter().map(|&v| c.program.vals[v].bytes()).sum();
    let lanes = |kind: AccessKind, addr: LVal, offset: i32, bytes: u32, who: Lanes| {
        c.analysis.tracked(c.program, addr).then_some((kind, Access::Lanes(Place { addr, offset }, bytes, who)))
    };
    let rows = |matrices: &[LVal]| Lanes::Rows(ROWS * matrices.len() as u32);
    match inst {
        Inst::LoadMatrix { dsts, addr, offset, .. } => lanes(AccessKind::Read, *addr, *offset, ROW, rows(dsts)),
        Inst::LoadShared { dsts, addr, offset } => lanes(AccessKind::Read, *addr, *offset, bytes(dsts), Lanes::All),
        Inst::StoreShared { srcs, addr, offset, guard } => {
            lanes(AccessKind::Write, *addr, *offset, bytes(srcs), guard.map_or(Lanes::All, Lanes::If))
        }
        // Where its guard does not hold zeros are written, in time with the copies of the others.
        Inst::CopyAsync { shared, offset, bytes, .. } => lanes(AccessKind::Copy, *shared, *offset, *bytes, Lanes::All),
        Inst::Unit(u) => match &**u {
            Unit::Multiply(m) => Some((AccessKind::Multiply, Access::Product(m))),
            Unit::StoreMatrix { srcs, to } => lanes(AccessKind::Write, to.addr, to.offset, ROW, rows(srcs)),
            _ => None,
        },
        _ => None,
    }
}

impl Group<'_> {
    /// Finds out what it reads and makes.
    fn close(&mut self, c: &Needs<'_>) {
        let (mut read, mut made): (Vec<LVal>, Vec<LVal>) = (Vec::new(), Vec::new());
        let mut alone = self.insts.len() >= WORTH;
        for inst in &self.insts {
            reads(inst, &mut |v| {
                if !made.contains(&v) && !read.contains(&v) {
                    read.push(v);
                }
            });
            let makes = computed(inst).unwrap_or_default();
            made.extend(makes);
            // Lanes and blocks differ, and what is assumed is not made.
            alone &= !matches!(inst, Inst::Special { .. }) && !makes.iter().any(|&v| c.analysis.splits(v));
        }
        let slots = |list: &[LVal]| list.iter().filter_map(|&v| c.homes.slot(v)).collect();
        (self.reads, self.makes) = (slots(&read), slots(&made));
        self.again = alone;
    }

    /// Sets what it has made of the same before; if it has not, what it reads, for [`Group::note`].
    pub fn recall(&self, env: &mut Env) -> Option<Read> {
        let mut hasher = FxHasher::default();
        self.reads.iter().for_each(|&n| env.at(n).hash(&mut hasher));
        let hash = hasher.finish();
        let before = self.before.borrow();
        let same = |m: &&Made| m.of.iter().zip(&self.reads).all(|(&a, &n)| a == env.at(n));
        let Some(made) = before.get(&hash).and_then(|l| l.iter().find(same)) else {
            return Some(Read { hash, of: self.reads.iter().map(|&n| env.at(n)).collect() });
        };
        self.makes.iter().zip(&made.what).for_each(|(&n, &a)| env.put(n, a));
        None
    }

    /// Takes note of what it has made of what it has read.
    pub fn note(&self, read: Read, env: &Env) {
        let what = self.makes.iter().map(|&n| env.at(n)).collect();
        self.before.borrow_mut().entry(read.hash).or_default().push(Made { of: read.of, what });
    }
}

/// True for a product, and for a wait for some.
fn multiplies(inst: &Inst) -> bool {
    matches!(inst, Inst::Unit(u) if matches!(**u, Unit::Multiply(_) | Unit::WaitMatrices { .. }))
}

/// True if a block touches what goes from agent to agent by reads of lanes only.
fn only_reads(c: &Needs<'_>, block: &Block) -> bool {
    block.iter().all(|i| match i {
        Inst::Unit(u) => matches!(**u, Unit::FenceUnits | Unit::FenceGlobal | Unit::Hold | Unit::PrefetchMap { .. }),
        Inst::StoreShared { addr, .. } | Inst::CopyAsync { shared: addr, .. } => !c.analysis.tracked(c.program, *addr),
        other => blocks(other).all(|b| only_reads(c, b)),
    })
}

/// True if no unit has part in a block, at any depth: what its lanes write is there for the next round once they have met, and nothing is in flight.
fn lanes_alone(block: &Block) -> bool {
    use Unit::*;
    block.iter().all(|i| match i {
        Inst::Unit(u) => matches!(**u, StoreMatrix { .. } | FenceUnits | FenceGlobal | GroupBarrier { .. } | Hold | PrefetchMap { .. }),
        other => blocks(other).all(lanes_alone),
    })
}

/// True if the units of a block, at any depth, do no more than let a task's results leave. What they touch of local memory is followed.
fn leaves(block: &Block) -> bool {
    use Unit::*;
    block.iter().all(|i| match i {
        Inst::Unit(u) => matches!(
            **u,
            StoreMatrix { .. }
                | FenceUnits
                | FenceGlobal
                | GroupBarrier { .. }
                | BulkStore { .. }
                | CommitStores { .. }
                | WaitStoresRead { .. }
                | PrefetchMap { .. }
        ),
        other => blocks(other).all(leaves),
    })
}
