//! Which lanes take part: how far a write of a vector register reaches.
//!
//! A vector instruction under `exec` writes the lanes that take part and keeps the others. Whether it ends the life of what was there depends
//! on which lanes are read later. Each point of the program gets a *level*: 0 where all lanes take part, more where lanes may have been
//! switched off. The levels keep this promise:
//!
//! > If `P` and `Q` are points of one path, and no level between them, ends included, is lower than that of `P`, then the lanes that take part
//! > at `Q` took part at `P`.
//!
//! So a write at `P` ends the life of what is needed by `Q`, and liveness carries the lowest level between here and the read as what is
//! *needed*. Lanes come back only from masks that were saved. A saved mask has the level of the place where it was saved; when `exec` becomes
//! narrower, the level rises above those of all masks that are still saved; when a mask is restored, the level falls to the mask's. When
//! control flow meets, the higher level holds. An `exec` of unknown origin needs all lanes and ends no lives.

use super::effects::{format, touches};
use super::fuel::Fuel;
use crate::isa::{Access, Format, Opcode};
use crate::mir::{Block, BlockData, Fixed, Inst, Operand, Program, Reg, Span, VReg};
use cranelift_entity::EntityRef;
use rustc_hash::{FxHashMap, FxHashSet};

/// Levels above this are not told apart from unknown masks.
pub(super) const HIGHEST: u8 = 60;

/// A level, or that nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// All masks saved at lower levels are wider or unknown.
    Known(u8),
    /// Nothing is known.
    Unknown,
}

impl Level {
    /// The level that a read here needs.
    pub(super) fn needs(self) -> u8 {
        match self {
            Level::Known(n) => n,
            Level::Unknown => 0,
        }
    }

    /// True if a write here ends the life of what is needed at a level.
    pub(super) fn covers(self, need: u8) -> bool {
        matches!(self, Level::Known(n) if n <= need)
    }

    fn join(self, other: Level) -> Level {
        match (self, other) {
            (Level::Known(a), Level::Known(b)) => Level::Known(a.max(b)),
            _ => Level::Unknown,
        }
    }

    fn above(level: u8) -> Level {
        if level < HIGHEST { Level::Known(level + 1) } else { Level::Unknown }
    }
}

/// An instruction that writes `exec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// What is needed behind it is needed at this level before it, if that is lower.
    pub cap: u8,
}

/// Levels of a program.
#[derive(Debug)]
pub(super) struct Levels {
    /// Per block the level at its begin.
    pub entry: Vec<Level>,
    /// Per block the instructions that write `exec`, in order: where, how far needs sink, and the level behind.
    pub changes: Vec<Vec<(usize, Change, Level)>>,
}

impl Levels {
    /// The level behind a block's last instruction.
    pub(super) fn exit(&self, block: Block) -> Level {
        self.changes[block.index()].last().map_or(self.entry[block.index()], |&(_, _, level)| level)
    }
}

/// What is known where: the level, and the levels of masks in virtual registers.
#[derive(Clone, PartialEq, Debug)]
struct LevelState {
    level: Level,
    saved: FxHashMap<VReg, u8>,
}

impl LevelState {
    /// The highest level of a mask that may come back.
    fn top(&self) -> u8 {
        self.saved.values().copied().max().unwrap_or(0)
    }

    fn narrowed(&mut self) {
        if let Level::Known(now) = self.level {
            let above = Level::above(self.top());
            self.level = above.join(Level::Known(now));
        }
    }

    /// Lanes of masks of level `level` may be back: masks saved further in are of no use any more.
    fn sink(&mut self, level: u8) {
        self.saved.retain(|_, &mut of| of <= level);
    }

    /// Where control flow meets: the higher level, and masks that are the same level's on both ways.
    fn join(&mut self, other: &LevelState) {
        self.level = self.level.join(other.level);
        self.saved.retain(|reg, level| other.saved.get(reg) == Some(level));
    }
}

/// A mask that an instruction reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadMask {
    /// `exec` itself.
    Exec,
    /// A saved mask, or all lanes.
    Saved(u8),
    /// Any lanes.
    Any,
}

/// What becomes of `exec`.
enum Outcome {
    /// Lanes may have been switched off.
    Narrower,
    /// It is a mask that was saved.
    Restored(u8),
    /// It is a part of masks of which the lowest level is this one.
    Part(u8),
    /// Nothing is known.
    Unknown,
}

fn mask(state: &LevelState, operand: &Operand) -> ReadMask {
    match operand {
        Operand::Imm(-1) => ReadMask::Saved(0),
        Operand::Reg(span) => match span.reg {
            Reg::Fixed(Fixed::Exec) => ReadMask::Exec,
            Reg::Virtual(reg) if span.first == 0 && span.words == 2 => {
                state.saved.get(&reg).map_or(ReadMask::Any, |&level| ReadMask::Saved(level))
            }
            _ => ReadMask::Any,
        },
        _ => ReadMask::Any,
    }
}

/// Part of one of two masks.
fn part_of_either(a: ReadMask, b: ReadMask) -> Outcome {
    match (a, b) {
        (ReadMask::Exec, _) | (_, ReadMask::Exec) => Outcome::Narrower,
        (ReadMask::Saved(a), ReadMask::Saved(b)) => Outcome::Part(a.max(b)),
        (ReadMask::Saved(a), ReadMask::Any) | (ReadMask::Any, ReadMask::Saved(a)) => Outcome::Part(a),
        (ReadMask::Any, ReadMask::Any) => Outcome::Unknown,
    }
}

/// Part of both together.
fn part_of_both(a: ReadMask, b: ReadMask) -> Outcome {
    match (a, b) {
        (ReadMask::Exec, ReadMask::Exec) => Outcome::Narrower,
        (ReadMask::Saved(a), ReadMask::Saved(b)) => Outcome::Part(a.min(b)),
        (ReadMask::Saved(a), ReadMask::Exec) | (ReadMask::Exec, ReadMask::Saved(a)) => Outcome::Part(a),
        (ReadMask::Any, _) | (_, ReadMask::Any) => Outcome::Unknown,
    }
}

/// What an instruction that writes `exec` makes of it.
fn outcome(state: &LevelState, inst: &Inst) -> Outcome {
    let at = |i: usize| inst.operands.get(i).map_or(ReadMask::Any, |o| mask(state, o));
    let masks = |i: usize, j: usize| (at(i), at(j));
    match inst.op {
        Opcode::SMovB64 => match at(1) {
            ReadMask::Exec => Outcome::Narrower,
            ReadMask::Saved(level) => Outcome::Restored(level),
            ReadMask::Any => Outcome::Unknown,
        },
        Opcode::SAndSaveexecB64 => Outcome::Narrower,
        // The old mask is taken away from the source.
        Opcode::SAndn2SaveexecB64 => match at(1) {
            ReadMask::Saved(level) => Outcome::Part(level),
            _ => Outcome::Unknown,
        },
        Opcode::SXorSaveexecB64 => part_of_both(ReadMask::Exec, at(1)),
        Opcode::SOrSaveexecB64 => match at(1) {
            ReadMask::Saved(level) => Outcome::Restored(level),
            ReadMask::Exec => Outcome::Narrower,
            ReadMask::Any => Outcome::Unknown,
        },
        Opcode::SAndB64 => {
            let (a, b) = masks(1, 2);
            part_of_either(a, b)
        }
        Opcode::SAndn2B64 => match at(1) {
            ReadMask::Exec => Outcome::Narrower,
            ReadMask::Saved(level) => Outcome::Part(level),
            ReadMask::Any => Outcome::Unknown,
        },
        Opcode::SOrB64 => match masks(1, 2) {
            (ReadMask::Exec, ReadMask::Saved(level)) | (ReadMask::Saved(level), ReadMask::Exec) => Outcome::Restored(level),
            (a, b) => part_of_both(a, b),
        },
        Opcode::SXorB64 | Opcode::SCselectB64 => {
            let (a, b) = masks(1, 2);
            part_of_both(a, b)
        }
        // Comparisons write the lanes that take part and are true.
        op if matches!(format(op), Format::Vopc) => Outcome::Narrower,
        _ => Outcome::Unknown,
    }
}

/// True if the first operand becomes the mask as it was.
pub(super) fn saves(op: Opcode) -> bool {
    matches!(op, Opcode::SAndSaveexecB64 | Opcode::SOrSaveexecB64 | Opcode::SXorSaveexecB64 | Opcode::SAndn2SaveexecB64)
}

fn writes_exec(inst: &Inst) -> bool {
    let named = touches(inst).any(|t| t.access != Access::Use && t.span.reg == Reg::Fixed(Fixed::Exec));
    named || inst.op.desc().implicit.iter().any(|i| i.access != Access::Use && i.reg == Fixed::Exec)
}

/// Executes an instruction; answers how far needs sink if it writes `exec`.
fn step(state: &mut LevelState, inst: &Inst) -> Option<Change> {
    let before = state.level;
    let change = writes_exec(inst).then(|| outcome(state, inst));
    let copied = match (inst.op, inst.operands.get(1)) {
        (Opcode::SMovB64, Some(source)) => match mask(state, source) {
            ReadMask::Exec => Some(before),
            ReadMask::Saved(level) => Some(Level::Known(level)),
            ReadMask::Any => None,
        },
        _ if saves(inst.op) => Some(before),
        _ => None,
    };
    for touch in touches(inst).filter(|t| t.access != Access::Use) {
        if let Reg::Virtual(reg) = touch.span.reg {
            match copied {
                Some(Level::Known(level)) if touch.span.first == 0 && touch.span.words == 2 => state.saved.insert(reg, level),
                _ => state.saved.remove(&reg),
            };
        }
    }
    Some(match change? {
        Outcome::Narrower => {
            state.narrowed();
            Change { cap: u8::MAX }
        }
        Outcome::Restored(level) => {
            state.sink(level);
            state.level = Level::Known(level);
            Change { cap: level }
        }
        Outcome::Part(level) => {
            state.sink(level);
            state.level = Level::above(level);
            Change { cap: level }
        }
        Outcome::Unknown => {
            state.saved.clear();
            state.level = Level::Unknown;
            Change { cap: 0 }
        }
    })
}

/// Which masks are still of use: a mask that nobody reads again does not come back.
struct MaskUses {
    /// Per block the instructions that write `exec`, or name registers that masks are saved in: no others change what is known.
    notable: Vec<Vec<usize>>,
    /// Masks that are read in or behind a block.
    entry: Vec<FxHashSet<VReg>>,
    /// Per block the instructions that read a mask for the last time.
    last: Vec<Vec<(usize, VReg)>>,
}

impl MaskUses {
    fn new(program: &Program, fuel: &Fuel) -> MaskUses {
        let writes = |inst: &Inst| saves(inst.op) || inst.op == Opcode::SMovB64;
        let target = |inst: &Inst| match inst.operands.first() {
            Some(Operand::Reg(Span { reg: Reg::Virtual(reg), .. })) if writes(inst) => Some(*reg),
            _ => None,
        };
        let mut is_mask = vec![false; program.vregs.len()];
        program.blocks.values().flat_map(|b| b.insts.iter().filter_map(target)).for_each(|reg| is_mask[reg.index()] = true);
        let names_mask = |inst: &Inst| touches(inst).any(|t| matches!(t.span.reg, Reg::Virtual(reg) if is_mask[reg.index()]));
        let notable = |inst: &Inst| writes_exec(inst) || names_mask(inst);
        let of_block = |data: &BlockData| data.insts.iter().enumerate().filter(|(_, inst)| notable(inst)).map(|(at, _)| at).collect();
        let mut uses = MaskUses {
            notable: program.blocks.values().map(of_block).collect(),
            entry: vec![FxHashSet::default(); program.blocks.len()],
            last: vec![Vec::new(); program.blocks.len()],
        };
        let mut changed = true;
        while changed && fuel.left() > 0 {
            changed = false;
            for (block, data) in program.blocks.iter().rev() {
                let mut alive: FxHashSet<VReg> = data.next.iter().flat_map(|n| uses.entry[n.index()].iter().copied()).collect();
                fuel.burn(4 * (data.insts.len() + alive.len()));
                let mut last = Vec::new();
                for &at in uses.notable[block.index()].iter().rev() {
                    let inst = &data.insts[at];
                    let masks = |access| {
                        touches(inst).filter(move |t| (t.access == Access::Def) == access).filter_map(|t| match t.span.reg {
                            Reg::Virtual(reg) if is_mask[reg.index()] => Some((reg, t.span.words)),
                            _ => None,
                        })
                    };
                    for (reg, words) in masks(true) {
                        if words == 2 && !masks(false).any(|(r, _)| r == reg) {
                            alive.remove(&reg);
                        }
                    }
                    for (reg, _) in masks(false) {
                        if alive.insert(reg) {
                            last.push((at, reg));
                        }
                    }
                }
                last.reverse();
                if uses.entry[block.index()] != alive || uses.last[block.index()] != last {
                    uses.entry[block.index()] = alive;
                    uses.last[block.index()] = last;
                    changed = true;
                }
            }
        }
        uses
    }

    /// Executes an instruction and forgets masks that it read for the last time.
    fn step(&self, block: Block, at: usize, state: &mut LevelState, inst: &Inst) -> Option<Change> {
        let last = &self.last[block.index()];
        let from = last.partition_point(|l| l.0 < at);
        let read = last[from..].iter().take_while(|l| l.0 == at);
        if !saves(inst.op) && inst.op != Opcode::SMovB64 {
            let change = step(state, inst);
            read.for_each(|(_, reg)| {
                state.saved.remove(reg);
            });
            return change;
        }
        // What the instruction writes may be what it read.
        let target = inst.operands.first().copied();
        let change = step(state, inst);
        read.filter(|(_, reg)| !matches!(target, Some(Operand::Reg(s)) if s.reg == Reg::Virtual(*reg))).for_each(|(_, reg)| {
            state.saved.remove(reg);
        });
        change
    }
}

/// Rounds after which the search gives up: more nested loops than anybody writes.
const ROUNDS: usize = 64;

/// Visits blocks until nothing changes; answers nothing if a floor rose.
fn settle(program: &Program, uses: &MaskUses, before: &[Vec<usize>], floor: &mut [Level], fuel: &Fuel) -> Option<Vec<Option<LevelState>>> {
    let count = program.blocks.len();
    let mut entry: Vec<Option<LevelState>> = vec![None; count];
    let mut exit: Vec<Option<LevelState>> = vec![None; count];
    for _ in 0..ROUNDS {
        let mut settled = true;
        for (block, data) in program.blocks.iter() {
            let index = block.index();
            if fuel.left() == 0 {
                return None;
            }
            let start = (index == 0).then(|| LevelState { level: Level::Known(0), saved: FxHashMap::default() });
            let ways = before[index].iter().filter_map(|&b| exit[b].clone());
            let Some(mut state) = start.into_iter().chain(ways).reduce(|mut a, b| {
                a.join(&b);
                a
            }) else {
                continue;
            };
            state.saved.retain(|reg, _| uses.entry[index].contains(reg));
            state.level = state.level.join(floor[index]);
            match &entry[index] {
                Some(old) if *old == state => continue,
                Some(old) if old.level != state.level => {
                    floor[index] = state.level.join(old.level);
                    return None;
                }
                _ => {}
            }
            settled = false;
            fuel.burn(4 * (data.insts.len() + state.saved.len()));
            entry[index] = Some(state.clone());
            for &at in &uses.notable[index] {
                uses.step(block, at, &mut state, &data.insts[at]);
            }
            exit[index] = Some(state);
        }
        if settled {
            return Some(entry);
        }
    }
    None
}

/// Finds the levels of a program.
pub(super) fn levels(program: &Program, fuel: &Fuel) -> Levels {
    let count = program.blocks.len();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (block, data) in program.blocks.iter() {
        for next in &data.next {
            before[next.index()].push(block.index());
        }
    }
    let uses = MaskUses::new(program, fuel);
    // A level that a loop raises at its begin is raised from the start the next time: what the loop saved at the lower level is wrong.
    let mut floor = vec![Level::Known(0); count];
    let mut entry = None;
    for _ in 0..ROUNDS {
        entry = settle(program, &uses, &before, &mut floor, fuel);
        if entry.is_some() {
            break;
        }
    }
    let settled = entry.is_some();
    let entry = entry.unwrap_or_else(|| vec![None; count]);
    let unknown = || LevelState { level: Level::Unknown, saved: FxHashMap::default() };
    let mut levels = Levels { entry: Vec::with_capacity(count), changes: Vec::with_capacity(count) };
    for ((block, data), state) in program.blocks.iter().zip(entry) {
        let mut state = state.filter(|_| settled).unwrap_or_else(unknown);
        levels.entry.push(state.level);
        let changes = uses.notable[block.index()].iter().filter_map(|&at| {
            let change = uses.step(block, at, &mut state, &data.insts[at])?;
            if !settled {
                state = unknown();
            }
            Some((at, if settled { change } else { Change { cap: 0 } }, state.level))
        });
        levels.changes.push(changes.collect());
    }
    levels
}
