//! Checks barriers where wavefronts go ways of their own by their number: all meet as many on each way, and those that have met one more than others
//! where they come to an instruction are far enough from what the others do meanwhile.
//!
//! The first wavefront and each other one are followed together. A branch that the wavefront's number decides each takes as it must; at any other branch both go the same
//! way, and must have come there both. In between, their barriers are counted: where both come to the same place for a second time, the difference is what it was, and there is none where
//! the program ends. While there is a difference of one, what one wavefront does between two barriers is done beside what the other one does one barrier earlier: of two neighbours
//! neither may write local data share that the other one accesses.
//!
//! The program is one before allocation, in which a register has a name.

use super::effects::{effects, named};
use crate::isa::{Access, Format, Kind, Opcode, Variant};
use crate::mir::{Block, BlockData, File, Fixed, Inst, Operand, Program, Reg, VReg};
use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;

/// A wavefront whose barriers are not those of the first one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BarrierFault {
    /// The wavefront's number.
    pub wave: u32,
    /// The block in which that shows.
    pub at: Block,
    /// What is wrong.
    pub what: Drift,
}

/// What is wrong with barriers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Drift {
    /// The two come to different places.
    Apart,
    /// It has met more barriers, or fewer, than the other one, or than when it was there before: by so many.
    Count(i64),
    /// Neighbouring stretches access the same local data share, and one of them writes.
    Near,
}

/// Bits of a lane's number.
const LANE_BITS: i64 = 6;

/// Registers whose value follows from the wavefront's number.
fn known(program: &Program, wave: u32) -> FxHashMap<VReg, i64> {
    let mut writes: FxHashMap<VReg, u32> = FxHashMap::default();
    for inst in program.blocks.values().flat_map(|b| &b.insts) {
        for effect in effects(inst).iter().filter(|e| e.writes) {
            if let Reg::Virtual(reg) = effect.span.reg {
                *writes.entry(reg).or_default() += 1;
            }
        }
    }
    let mut known: FxHashMap<VReg, i64> = FxHashMap::default();
    let Some(entry) = program.blocks.values().next() else { return known };
    for inst in &entry.insts {
        let Some(&Operand::Reg(to)) = inst.operands.first() else { continue };
        let is_lane = |o: &Operand| matches!(o, Operand::Reg(s) if s.reg == Reg::Physical(File::Vector, 0) && (s.first, s.words) == (0, 1));
        let value = match (inst.op, &inst.operands[1..]) {
            (Opcode::VBfeU32, [lane, Operand::Imm(first @ LANE_BITS..10), Operand::Imm(bits @ 1..5)]) if is_lane(lane) => {
                (i64::from(wave) << LANE_BITS >> first) & ((1 << bits) - 1)
            }
            (Opcode::VReadfirstlaneB32, [Operand::Reg(from)]) => match from.reg {
                Reg::Virtual(reg) if known.contains_key(&reg) => known[&reg],
                _ => continue,
            },
            _ if to.reg == Reg::Physical(File::Vector, 0) => break,
            _ => continue,
        };
        if let Reg::Virtual(reg) = to.reg
            && writes.get(&reg) == Some(&1)
        {
            known.insert(reg, value);
        }
    }
    known
}

/// What is done to local data share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SharedTouch {
    reads: bool,
    writes: bool,
}

impl SharedTouch {
    fn of(inst: &Inst) -> SharedTouch {
        let desc = inst.op.desc();
        let moves = matches!(inst.op, Opcode::DsBpermuteB32 | Opcode::DsPermuteB32 | Opcode::DsSwizzleB32);
        if desc.form.variant == Variant::ToLds {
            return SharedTouch { reads: false, writes: true };
        }
        if desc.form.format != Format::Ds || moves {
            return SharedTouch::default();
        }
        let is = |result: bool| desc.slots.iter().any(|s| s.kind == Kind::VectorOrAcc && (s.access != Access::Use) == result);
        SharedTouch { reads: is(true), writes: is(false) }
    }

    fn or(self, other: SharedTouch) -> SharedTouch {
        SharedTouch { reads: self.reads || other.reads, writes: self.writes || other.writes }
    }

    fn conflicts(self, other: SharedTouch) -> bool {
        self.writes && (other.reads || other.writes) || self.reads && other.writes
    }
}

/// What a wavefront has done since its last barrier, and between that and the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stretches {
    last: SharedTouch,
    now: SharedTouch,
}

impl Stretches {
    /// Does an instruction; true if the stretch then conflicts with the one before.
    fn does(&mut self, inst: &Inst) -> bool {
        if inst.op == Opcode::SBarrier {
            *self = Stretches { last: self.now, now: SharedTouch::default() };
            return false;
        }
        self.now = self.now.or(SharedTouch::of(inst));
        self.now.conflicts(self.last)
    }

    fn or(self, other: Stretches) -> Stretches {
        Stretches { last: self.last.or(other.last), now: self.now.or(other.now) }
    }
}

/// A wavefront's view of a program.
struct Wave<'a> {
    program: &'a Program,
    known: FxHashMap<VReg, i64>,
}

impl Wave<'_> {
    /// Where it goes from a block, if its number or nothing decides that.
    fn next(&self, data: &BlockData) -> Option<Block> {
        if let [only] = data.next[..] {
            return Some(only);
        }
        let (branch, before) = data.insts.split_last()?;
        let taken = match branch.op {
            Opcode::SCbranchScc0 => false,
            Opcode::SCbranchScc1 => true,
            _ => return None,
        };
        let compare = before.iter().rev().find(|i| named(i, Fixed::Scc).1)?;
        let (Some(Operand::Reg(left)), Some(Operand::Imm(right))) = (compare.operands.first(), compare.operands.get(1)) else {
            return None;
        };
        let Reg::Virtual(reg) = left.reg else { return None };
        let equal = self.known.get(&reg)? == right;
        let scc = match compare.op {
            Opcode::SCmpEqU32 => equal,
            Opcode::SCmpLgU32 => !equal,
            _ => return None,
        };
        let Some(&Operand::Block(to)) = branch.operands.first() else { return None };
        if scc == taken { Some(to) } else { data.next.iter().copied().find(|&b| b != to) }
    }

    /// The blocks that it goes through from one on, up to one that its number does not decide about.
    fn way(&self, from: Block) -> Vec<Block> {
        let mut way = vec![from];
        while let Some(to) = self.program.blocks.get(way[way.len() - 1]).and_then(|data| self.next(data)) {
            // A way that does not end goes in a circle.
            if way.len() > self.program.blocks.len() {
                break;
            }
            way.push(to);
        }
        way
    }

    fn barriers(&self, way: &[Block]) -> i64 {
        let all = way.iter().flat_map(|&b| &self.program.blocks[b].insts);
        all.filter(|i| i.op == Opcode::SBarrier).count() as i64
    }
}

/// Checks a program before allocation.
///
/// # Errors
/// All faults of each wavefront.
pub fn barriers(program: &Program) -> Result<(), Vec<BarrierFault>> {
    let of = |wave| Wave { program, known: known(program, wave) };
    let first = of(0);
    let mut faults = Vec::new();
    for wave in 1..program.waves {
        let own = of(wave);
        if own.known != first.known {
            faults.extend(beside(&first, &own).into_iter().map(|(at, what)| BarrierFault { wave, at, what }));
        }
    }
    faults.sort_unstable();
    faults.dedup();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Follows two wavefronts.
fn beside(first: &Wave<'_>, own: &Wave<'_>) -> Vec<(Block, Drift)> {
    let program = first.program;
    let mut faults = Vec::new();
    // Where neither goes on by itself: how many barriers more the second one has met, and what it has done since.
    let mut seen: FxHashMap<Block, (i64, Stretches)> = FxHashMap::default();
    let mut open = vec![(Block::new(0), 0, Stretches::default())];
    while let Some((from, difference, mut stretches)) = open.pop() {
        let (theirs, ours) = (first.way(from), own.way(from));
        let at = ours[ours.len() - 1];
        if theirs[theirs.len() - 1] != at {
            faults.push((at, Drift::Apart));
            continue;
        }
        let behind = difference + own.barriers(&ours) - first.barriers(&theirs);
        // The one that has met more comes later to all places.
        let late = if behind < 0 || difference < 0 { &theirs } else { &ours };
        for &block in late {
            let near = program.blocks[block].insts.iter().fold(false, |near, inst| stretches.does(inst) | near);
            if near && difference != 0 && behind != 0 {
                faults.push((block, Drift::Near));
            }
        }
        let ends = program.blocks[at].next.is_empty();
        if ends && behind != 0 || behind.abs() > 1 {
            faults.push((at, Drift::Count(behind)));
            continue;
        }
        let (now, known) = match seen.get(&at) {
            Some(&(before, _)) if before != behind => {
                faults.push((at, Drift::Count(behind - before)));
                continue;
            }
            Some(&(_, known)) => (known.or(stretches), Some(known)),
            None => (stretches, None),
        };
        if known != Some(now) {
            seen.insert(at, (behind, now));
            open.extend(program.blocks[at].next.iter().map(|&to| (to, behind, now)));
        }
    }
    faults
}
