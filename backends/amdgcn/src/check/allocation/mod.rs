//! Checks an allocation: both programs are walked side by side over all ways until nothing new is learned, and each read must find its value.
//!
//! Instructions that the allocation added must be moves that spilling makes; those that it removed must be moves, or results that nobody
//! reads any more: a later read of one is found, since no place holds it.

mod masks;
mod state;

use super::effects::{Effect, asks_exec, effects, is_matrix, named};
use crate::alloc::Allocated;
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Opcode};
use crate::mir::{Block, File, Fixed, Inst, Mods, Operand, Program, Reg, Span};
use cranelift_entity::EntityRef;
use masks::Mask;
use state::{Place, State, WordNumber};

/// What is wrong with an allocation, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationFault {
    /// The block.
    pub block: Block,
    /// The instruction's number in its block, behind allocation.
    pub at: usize,
    /// What is wrong.
    pub what: Misplaced,
}

/// What is wrong with an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misplaced {
    /// The operand's register does not hold, on some way and in some lane, what the program before allocation reads.
    Value {
        /// The operand.
        operand: usize,
    },
    /// Instructions do not correspond: other operation, other modifiers, other operands, or another order.
    Shape,
    /// The operand's registers do not exist, are of the wrong file, or are not aligned.
    Register {
        /// The operand.
        operand: usize,
    },
    /// A result lies over a source that is still being read.
    Overlap {
        /// The result's operand.
        operand: usize,
    },
    /// An instruction is gone that does more than write registers.
    Removed,
    /// An instruction was added that is no move.
    Added,
    /// `scc` is read, and the instruction that wrote it is gone.
    Condition,
    /// Blocks, or what follows on what, differ.
    Blocks,
}

const SIZES: [u32; 3] = [102, 256, 256];
const FIRST: [u32; 3] = [0, 102, 358];
const LANES: u32 = 614;
const SCRATCH: u32 = LANES + 256 * 64;

fn register(file: File, number: u32) -> Option<Place> {
    (number < SIZES[file as usize]).then(|| FIRST[file as usize] + number)
}

/// Rounds over all blocks before what is known may only shrink.
const PATIENCE: usize = 40;

struct Checker<'a> {
    before: &'a Program,
    after: &'a Allocated,
    first: Vec<u32>,
    values: u32,
}

/// Checks that an allocation means what the program meant.
///
/// # Errors
/// All faults found, in the order of the program.
pub fn allocation(before: &Program, after: &Allocated) -> Result<(), Vec<AllocationFault>> {
    let mut first = Vec::new();
    let mut values = 0;
    for data in before.vregs.values() {
        first.push(values);
        values += u32::from(data.words);
    }
    let checker = Checker { before, after, first, values };
    checker.run()
}

impl Checker<'_> {
    fn run(&self) -> Result<(), Vec<AllocationFault>> {
        let blocks = self.before.blocks.len();
        let same = blocks == self.after.program.blocks.len()
            && blocks == self.after.origin.len()
            && self.before.blocks.iter().all(|(b, data)| self.after.program.blocks[b].next == data.next)
            && self.after.program.blocks.iter().all(|(b, data)| self.after.origin[b.index()].len() == data.insts.len());
        if !same || blocks == 0 {
            return if same { Ok(()) } else { Err(vec![AllocationFault { block: Block::new(0), at: 0, what: Misplaced::Blocks }]) };
        }
        let entry = self.states(blocks);
        let mut faults = Vec::new();
        for (index, state) in entry.into_iter().enumerate() {
            if let Some(mut state) = state {
                self.block(Block::new(index), &mut state, &mut faults);
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// What is known at the begin of each block: what all ways there agree on.
    fn states(&self, blocks: usize) -> Vec<Option<State>> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks];
        for (block, data) in self.before.blocks.iter() {
            data.next.iter().for_each(|next| before[next.index()].push(block.index()));
        }
        // Blocks where ways with different masks meet: `exec` gets a name of its own there, from the start.
        let mut named = vec![false; blocks];
        loop {
            if let Some(entry) = self.settle(&before, &mut named) {
                return entry;
            }
        }
    }

    /// Visits blocks in order until nothing changes; answers nothing if one more block needs a name. Should it take long, what was known before
    /// is kept only where it is found again, which comes to an end.
    fn settle(&self, before: &[Vec<usize>], named: &mut [bool]) -> Option<Vec<Option<State>>> {
        let blocks = named.len();
        let mut entry: Vec<Option<State>> = vec![None; blocks];
        let mut exit: Vec<Option<State>> = vec![None; blocks];
        for round in 0.. {
            let mut settled = true;
            for index in 0..blocks {
                let mut ways: Vec<State> = before[index].iter().filter_map(|&b| exit[b].clone()).collect();
                if index == 0 {
                    ways.push(self.start());
                }
                if round > PATIENCE {
                    ways.extend(entry[index].clone());
                }
                if named[index] {
                    for way in &mut ways {
                        if let Some(renewed) = way.masks.rename(Mask(index as u32 + 1)) {
                            way.renewed(renewed);
                        }
                    }
                } else if ways.iter().zip(ways.iter().skip(1)).any(|(a, b)| a.masks.current != b.masks.current) {
                    named[index] = true;
                    return None;
                }
                let Some(mut state) = ways.into_iter().reduce(|mut a, b| {
                    a.join(&b);
                    a
                }) else {
                    continue;
                };
                if entry[index].as_ref() == Some(&state) {
                    continue;
                }
                settled = false;
                entry[index] = Some(state.clone());
                self.block(Block::new(index), &mut state, &mut Vec::new());
                exit[index] = Some(state);
            }
            if settled {
                break;
            }
        }
        Some(entry)
    }

    /// What the kernel finds in registers.
    fn start(&self) -> State {
        let mut state = State::new((self.values + LANES + 1) as usize);
        // Nothing is zero before it is made so.
        state.lose(self.zero(), Mask::ALL);
        let groups = (0..3).filter_map(|axis| self.before.entry.workgroup_sgpr(axis)).map(|s| (File::Scalar, u32::from(s)));
        for (file, number) in groups.chain([(File::Scalar, 0), (File::Scalar, 1), (File::Vector, 0)]) {
            if let Some(place) = register(file, number) {
                state.write(place, self.values + place, Mask::ALL);
            }
        }
        state
    }

    fn value(&self, span: Span, word: u8) -> Option<WordNumber> {
        let word = u32::from(span.first) + u32::from(word);
        match span.reg {
            Reg::Virtual(reg) => Some(self.first[reg.index()] + word),
            Reg::Physical(file, number) => Some(self.values + register(file, u32::from(number) + word)?),
            Reg::Fixed(_) => None,
        }
    }

    fn place(span: Span, word: u8) -> Option<Place> {
        let Reg::Physical(file, number) = span.reg else { return None };
        register(file, u32::from(number) + u32::from(span.first) + u32::from(word))
    }

    fn block(&self, block: Block, state: &mut State, faults: &mut Vec<AllocationFault>) {
        let before = &self.before.blocks[block].insts;
        let after = &self.after.program.blocks[block].insts;
        let origins = &self.after.origin[block.index()];
        // What is gone counts as done right behind the instruction before it: moves around it can only find more then.
        let gone = |at: usize, state: &mut State, faults: &mut Vec<AllocationFault>, from: usize| {
            let to = origins[at..].iter().flatten().map(|o| *o as usize).next().unwrap_or(before.len());
            for inst in before.get(from..to).unwrap_or_default() {
                if !self.removed(inst, state) {
                    faults.push(AllocationFault { block, at, what: Misplaced::Removed });
                }
            }
        };
        gone(0, state, faults, 0);
        let mut next = 0;
        for (at, (inst, origin)) in after.iter().zip(origins).enumerate() {
            let mut report = |what| faults.push(AllocationFault { block, at, what });
            match origin.map(|o| o as usize) {
                None => {
                    if self.added(inst, state).is_none() {
                        report(Misplaced::Added);
                    }
                }
                Some(origin) if origin < next || origin >= before.len() => report(Misplaced::Shape),
                Some(origin) => {
                    next = origin + 1;
                    self.kept(&before[origin], inst, (block, origin), state, &mut report);
                    gone(at + 1, state, faults, next);
                }
            }
        }
    }

    /// A move that spilling made.
    fn added(&self, inst: &Inst, state: &mut State) -> Option<()> {
        let now = state.masks.current;
        let reg = |at: usize| match inst.operands.get(at) {
            Some(Operand::Reg(span)) if span.words == 1 => Self::place(*span, 0),
            _ => None,
        };
        let file = |at: usize| match inst.operands.get(at) {
            Some(Operand::Reg(Span { reg: Reg::Physical(file, _), .. })) => Some(*file),
            _ => None,
        };
        let lane = |at: usize| match inst.operands.get(2) {
            Some(&Operand::Imm(lane)) if (0..64).contains(&lane) => Some(LANES + (reg(at)? - FIRST[1]) * 64 + lane as u32),
            _ => None,
        };
        let mods = Mods { offset: 0, ..inst.mods };
        let slot = || (inst.mods.offset >= 0 && inst.mods.offset % 4 == 0).then(|| SCRATCH + inst.mods.offset as u32 / 4);
        if mods != Mods::default() {
            return None;
        }
        let (to, from, lanes) = match inst.op {
            Opcode::VAccvgprReadB32 if (file(0), file(1)) == (Some(File::Vector), Some(File::Acc)) => (reg(0)?, reg(1)?, now),
            Opcode::VAccvgprWriteB32 if (file(0), file(1)) == (Some(File::Acc), Some(File::Vector)) => (reg(0)?, reg(1)?, now),
            Opcode::VReadlaneB32 if (file(0), file(1)) == (Some(File::Scalar), Some(File::Vector)) => (reg(0)?, lane(1)?, Mask::ALL),
            Opcode::VWritelaneB32 if (file(0), file(1)) == (Some(File::Vector), Some(File::Scalar)) => {
                state.clobber(reg(0)?);
                state.copy(lane(0)?, reg(1)?, Mask::ALL);
                return Some(());
            }
            Opcode::SMovB32 if self.zero_is_named() && file(0) == Some(File::Scalar) && inst.operands[1] == Operand::Imm(0) => {
                state.write(reg(0)?, self.zero(), Mask::ALL);
                return Some(());
            }
            Opcode::ScratchLoadDword if inst.operands[1] == Operand::Off && self.begins_at_zero(inst, state) => (reg(0)?, slot()?, now),
            Opcode::ScratchStoreDword if inst.operands[0] == Operand::Off && self.begins_at_zero(inst, state) => (slot()?, reg(1)?, now),
            _ => return None,
        };
        self.lanes_lost(to, state);
        state.copy(to, from, lanes);
        Some(())
    }

    /// The value of a register that is zero for accesses of scratch memory.
    fn zero(&self) -> WordNumber {
        self.values + LANES
    }

    /// Accesses of scratch memory name a register beside the offset.
    fn zero_is_named(&self) -> bool {
        self.before.chip == Chip::Gfx90a
    }

    /// What an access of scratch memory adds to its offset is zero.
    fn begins_at_zero(&self, inst: &Inst, state: &State) -> bool {
        match inst.operands.get(2) {
            Some(Operand::Off) => !self.zero_is_named(),
            Some(Operand::Reg(span)) => {
                self.zero_is_named() && Self::place(*span, 0).is_some_and(|at| state.holds(at, self.zero(), Mask::ALL))
            }
            _ => false,
        }
    }

    /// A vector register is written: what was in its lanes is gone.
    fn lanes_lost(&self, place: Place, state: &mut State) {
        if (FIRST[1]..FIRST[2]).contains(&place) {
            let first = LANES + (place - FIRST[1]) * 64;
            (first..first + 64).for_each(|lane| state.clobber(lane));
        }
    }

    /// An instruction that is gone: a move between registers, or one that only writes registers.
    fn removed(&self, inst: &Inst, state: &mut State) -> bool {
        let effects = effects(inst);
        if let Some((to, from)) = copies(inst) {
            for word in 0..to.words {
                if let (Some(to_value), Some(from_value)) = (self.value(to, word), self.value(from, word)) {
                    state.rename(to_value, from_value, self.lanes(inst, to, state));
                }
            }
            return effects.iter().all(|e| !matches!(e.span.reg, Reg::Fixed(_)));
        }
        let only_writes = match inst.op.desc().form.format {
            Format::Sopp | Format::Smem | Format::Ds | Format::Global | Format::Scratch | Format::Mubuf => false,
            _ => !matches!(inst.op, Opcode::SSetpcB64 | Opcode::SSwappcB64 | Opcode::SSetregB32 | Opcode::SSetregImm32B32),
        };
        let hidden = inst.op.desc().implicit.iter().any(|i| i.access != Access::Use && i.reg != Fixed::Scc);
        let mut alright = only_writes && !hidden;
        for effect in effects.iter().filter(|e| e.writes) {
            alright &= matches!(effect.span.reg, Reg::Virtual(_));
            for word in 0..effect.span.words {
                if let Some(value) = self.value(effect.span, word) {
                    state.lose(value, self.lanes(inst, effect.span, state));
                }
            }
        }
        state.condition_lost |= named(inst, Fixed::Scc).1;
        alright
    }

    /// Lanes in which an instruction touches a register.
    fn lanes(&self, inst: &Inst, span: Span, state: &State) -> Mask {
        let scalar = match span.reg {
            Reg::Virtual(reg) => self.before.vregs[reg].file == File::Scalar,
            Reg::Physical(file, _) => file == File::Scalar,
            Reg::Fixed(_) => true,
        };
        if scalar || !asks_exec(inst) { Mask::ALL } else { state.masks.current }
    }

    /// An instruction that is in both programs.
    fn kept(&self, old: &Inst, new: &Inst, (block, at): (Block, usize), state: &mut State, report: &mut impl FnMut(Misplaced)) {
        if old.op != new.op || old.mods != new.mods || old.operands.len() != new.operands.len() {
            return report(Misplaced::Shape);
        }
        for (operand, (a, b)) in old.operands.iter().zip(&new.operands).enumerate() {
            match (a, b) {
                (Operand::Reg(a), Operand::Reg(b)) => {
                    if !self.right_register(*a, *b) {
                        return report(Misplaced::Register { operand });
                    }
                }
                _ if a == b => {}
                _ => return report(Misplaced::Shape),
            }
        }
        if let Some(operand) = different_files(new) {
            report(Misplaced::Register { operand });
        }
        let olds = effects(old);
        let spans = |e: &Effect| match new.operands.get(e.at) {
            Some(Operand::Reg(span)) => Some((e.span, *span)),
            _ => None,
        };
        for effect in olds.iter().filter(|e| e.reads) {
            let Some((a, b)) = spans(effect) else { continue };
            let lanes = self.lanes(old, a, state);
            let wrong = |word| match (self.value(a, word), Self::place(b, word)) {
                (Some(value), Some(place)) => !state.holds(place, value, lanes),
                _ => !matches!(a.reg, Reg::Fixed(_)),
            };
            if (0..a.words).any(wrong) {
                report(Misplaced::Value { operand: effect.at });
            }
        }
        let (reads_condition, writes_condition) = named(old, Fixed::Scc);
        if reads_condition && state.condition_lost {
            report(Misplaced::Condition);
        }
        if writes_condition {
            state.condition_lost = false;
        }
        if let Some(operand) = overlap(new) {
            report(Misplaced::Overlap { operand });
        }
        // Results reach the lanes that take part before the instruction.
        let saved = state.masks.saves(old);
        let copied = copies(old);
        for effect in olds.iter().filter(|e| e.writes) {
            let Some((a, b)) = spans(effect) else { continue };
            let lanes = self.lanes(old, a, state);
            for word in 0..a.words {
                let (Some(value), Some(place)) = (self.value(a, word), Self::place(b, word)) else { continue };
                self.lanes_lost(place, state);
                let source = copied.and_then(|(_, from)| self.value(from, word));
                let source_place = new.operands.get(1).and_then(|o| match o {
                    Operand::Reg(span) => Self::place(*span, word),
                    _ => None,
                });
                match (source, source_place) {
                    (Some(source), Some(source_place))
                        if a.words == 1 && !state.is_new(source) && state.holds(source_place, source, lanes) =>
                    {
                        state.rename(value, source, lanes);
                        state.copy(place, source_place, lanes);
                    }
                    _ => state.write(place, value, lanes),
                }
            }
        }
        let name = Mask(1 + self.before.blocks.len() as u32 + self.number(block, at));
        let renewed = named(old, Fixed::Exec).1.then(|| state.masks.write(old, name)).flatten();
        if let Some(renewed) = renewed {
            state.renewed(renewed);
        }
        for effect in olds.iter().filter(|e| e.writes) {
            if let Reg::Virtual(reg) = effect.span.reg {
                let whole = effect.span.first == 0 && effect.span.words == 2;
                state.masks.save(reg, saved.filter(|&m| whole && (renewed.is_none() || m != name)));
            }
        }
    }

    /// Number of an instruction in the whole program.
    fn number(&self, block: Block, at: usize) -> u32 {
        (self.before.blocks.iter().take_while(|(b, _)| *b != block).map(|(_, d)| d.insts.len()).sum::<usize>() + at) as u32
    }

    fn right_register(&self, old: Span, new: Span) -> bool {
        if old.words != new.words {
            return false;
        }
        match (old.reg, new.reg) {
            (Reg::Fixed(a), Reg::Fixed(b)) => a == b && old.first == new.first,
            (Reg::Physical(a, m), Reg::Physical(b, n)) => a == b && m + u16::from(old.first) == n + u16::from(new.first),
            (Reg::Virtual(reg), Reg::Physical(file, number)) => {
                let Some(data) = self.before.vregs.get(reg) else { return false };
                let number = u32::from(number) + u32::from(new.first);
                let allowed = file == data.file || data.either && file != File::Scalar && data.file != File::Scalar;
                // Parts that spilling moved keep the alignment that their size asks for.
                let align = u32::from(data.align.max(1).min(part(old.words)));
                let first = u32::from(old.first);
                allowed && number + u32::from(old.words) <= SIZES[file as usize] && number % align == first % align
            }
            _ => false,
        }
    }
}

/// Alignment that a part of so many words asks for.
fn part(words: u8) -> u8 {
    match words {
        1 => 1,
        2 | 3 => 2,
        _ => 4,
    }
}

/// Result and source of a move.
fn copies(inst: &Inst) -> Option<(Span, Span)> {
    let moves = [Opcode::SMovB32, Opcode::SMovB64, Opcode::VMovB32, Opcode::VMovB64, Opcode::VAccvgprMovB32];
    if !moves.contains(&inst.op) || inst.mods != Mods::default() {
        return None;
    }
    match inst.operands[..] {
        [Operand::Reg(to), Operand::Reg(from)] if to.words == from.words => Some((to, from)),
        _ => None,
    }
}

/// Physical registers of an operand.
fn registers(inst: &Inst, at: usize) -> Option<(File, u16, u16)> {
    match inst.operands.get(at) {
        Some(Operand::Reg(Span { reg: Reg::Physical(file, number), first, words })) => {
            let start = number + u16::from(*first);
            Some((*file, start, start + u16::from(*words)))
        }
        _ => None,
    }
}

/// The operand that is in another file than the instruction's first one that must be in the same.
fn different_files(inst: &Inst) -> Option<usize> {
    let slots = inst.op.desc().slots;
    let tied = |at: &usize| match slots[*at].kind {
        Kind::AccSource => true,
        Kind::VectorOrAcc => !is_matrix(inst) || slots[*at].access != Access::Use,
        _ => false,
    };
    let mut files = (0..slots.len()).filter(tied).filter_map(|at| Some((at, registers(inst, at)?.0)));
    let (_, first) = files.next()?;
    files.find(|&(_, file)| file != first).map(|(at, _)| at)
}

/// A result over sources that are read after the result begins to be written.
fn overlap(inst: &Inst) -> Option<usize> {
    let all = effects(inst);
    let result = all.iter().find(|e| e.writes)?;
    let (file, start, end) = registers(inst, result.at)?;
    let words = end - start;
    let matrix = is_matrix(inst) && words > 4;
    let scalar_load = inst.op.desc().form.format == Format::Smem && words > 1;
    if !matrix && !scalar_load && !matches!(inst.op, Opcode::VMadU64U32 | Opcode::VMadI64I32) {
        return None;
    }
    let hit = all.iter().filter(|e| !e.writes).any(|e| {
        let Some((other, from, to)) = registers(inst, e.at) else { return false };
        let same = matrix && e.kind == Kind::AccSource && (from, to) == (start, end);
        other == file && from < end && start < to && !same
    });
    hit.then_some(result.at)
}
