//! Keeps registers elsewhere: scalars in lanes of a vector register, vector registers in the other file or in scratch memory.
//!
//! Each instruction that names a spilled register gets a register of its own instead, which is loaded before and stored behind it. Loads and
//! stores reach the lanes that take part, as the instruction does; lanes of a scalar's home are written whatever `exec` says. So registers
//! that an instruction reads or writes in lanes that do not take part are not spilled.

use super::effects::{ignores_exec, touches};
use super::exec::{Level, Levels, saves};
use super::fuel::Fuel;
use super::live::Seg;
use super::pressure::Pressure;
use super::result::{AllocError, Spills};
use super::work::Work;
use crate::chip::Chip;
use crate::isa::{Access, Fixed, Opcode};
use crate::mir::{Block, File, Inst, Mods, Operand, Program, Reg, Span, VReg, VRegData};
use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Offsets of scratch memory that an instruction can name.
pub(super) const SCRATCH_BYTES: u32 = 4096;

/// Where a spilled register is.
#[derive(Clone, Debug)]
enum SpillHome {
    /// Each word in a lane.
    Lanes(SmallVec<[(VReg, u8); 4]>),
    /// In the other vector file.
    Acc(VReg),
    /// Each word at a byte of scratch memory.
    Scratch {
        /// A register that is zero, where instructions must name one beside the offset.
        zero: Option<VReg>,
        at: SmallVec<[u32; 4]>,
    },
}

/// Registers that stay: those that instructions read or write in lanes that do not take part, where not all do, and masks that `exec` is saved
/// in or comes from, since nothing would be known of a mask that went through memory.
pub(super) fn unspillable(program: &Program, levels: &Levels) -> Vec<bool> {
    let mut found = vec![false; program.vregs.len()];
    for (block, data) in program.blocks.iter() {
        let mut changes = levels.changes[block.index()].iter().peekable();
        let mut level = levels.entry[block.index()];
        for (at, inst) in data.insts.iter().enumerate() {
            if level != Level::Known(0) && ignores_exec(inst.op) {
                for touch in touches(inst) {
                    if let Reg::Virtual(reg) = touch.span.reg {
                        found[reg.index()] |= program.vregs[reg].file != File::Scalar;
                    }
                }
            }
            for mask in masks(inst) {
                found[mask.index()] = true;
            }
            if let Some(&(_, _, behind)) = changes.next_if(|c| c.0 == at) {
                level = behind;
            }
        }
    }
    found
}

/// Registers that an instruction saves `exec` in, or that `exec` comes back from. A mask that only takes lanes away may have been anywhere.
fn masks(inst: &Inst) -> SmallVec<[VReg; 2]> {
    let is_exec = |at: usize| matches!(inst.operands.get(at), Some(Operand::Reg(s)) if s.reg == Reg::Fixed(Fixed::Exec));
    let places: &[usize] = match inst.op {
        Opcode::SMovB64 if is_exec(0) => &[1],
        Opcode::SMovB64 if is_exec(1) => &[0],
        Opcode::SOrB64 | Opcode::SXorB64 if is_exec(0) => &[1, 2],
        Opcode::SAndn2B64 if is_exec(0) => &[1],
        op if saves(op) => &[0],
        _ => &[],
    };
    let reg = |at: &usize| match inst.operands.get(*at) {
        Some(Operand::Reg(Span { reg: Reg::Virtual(reg), .. })) => Some(*reg),
        _ => None,
    };
    places.iter().filter_map(reg).collect()
}

/// What an instruction does to a spilled register. Its operands lie in the words from `first` to `end`, all of which it need not touch: where those are several they
/// begin at an even one, as tuples do.
struct Use {
    reg: VReg,
    first: u8,
    end: u8,
    reads: u32,
    writes: u32,
}

fn bits(first: u8, words: u8) -> u32 {
    let ones = if words >= 32 { u32::MAX } else { (1 << words) - 1 };
    ones.checked_shl(u32::from(first)).unwrap_or(0)
}

fn uses(inst: &Inst, homes: &FxHashMap<VReg, SpillHome>) -> SmallVec<[Use; 2]> {
    let mut found: SmallVec<[Use; 2]> = SmallVec::new();
    for touch in touches(inst) {
        let Reg::Virtual(reg) = touch.span.reg else { continue };
        if !homes.contains_key(&reg) {
            continue;
        }
        let (first, end) = (touch.span.first, touch.span.first + touch.span.words);
        let words = bits(first, touch.span.words);
        let reads = if touch.access == Access::Def { 0 } else { words };
        let writes = if touch.access == Access::Use { 0 } else { words };
        match found.iter_mut().find(|u| u.reg == reg) {
            Some(old) => {
                (old.first, old.end) = (old.first.min(first), old.end.max(end));
                old.reads |= reads;
                old.writes |= writes;
            }
            None => found.push(Use { reg, first, end, reads, writes }),
        }
    }
    for operand in &inst.operands {
        let Operand::Reg(Span { reg: Reg::Virtual(reg), first, words }) = operand else { continue };
        if let Some(used) = found.iter_mut().find(|u| u.reg == *reg) {
            (used.first, used.end) = (used.first.min(*first), used.end.max(first + words));
        }
    }
    for used in found.iter_mut().filter(|u| u.end - u.first > 1) {
        used.first &= !1;
    }
    found
}

fn scratch(op: Opcode, value: Span, zero: Option<VReg>, offset: u32) -> Inst {
    let base = zero.map_or(Operand::Off, |zero| Span::whole(zero, 1).into());
    let operands: [Operand; 3] = match op {
        Opcode::ScratchStoreDword => [Operand::Off, value.into(), base],
        _ => [value.into(), Operand::Off, base],
    };
    Inst::new(op, operands).with(Mods { offset: offset as i32, ..Mods::default() })
}

impl SpillHome {
    fn load(&self, word: u8, to: Span) -> Option<Inst> {
        Some(match self {
            SpillHome::Lanes(lanes) => {
                let &(reg, lane) = lanes.get(usize::from(word))?;
                Inst::new(Opcode::VReadlaneB32, [to.into(), Span::whole(reg, 1).into(), Operand::Imm(lane.into())])
            }
            SpillHome::Acc(reg) => {
                Inst::new(Opcode::VAccvgprReadB32, [to.into(), Span { reg: Reg::Virtual(*reg), first: word, words: 1 }.into()])
            }
            SpillHome::Scratch { zero, at } => scratch(Opcode::ScratchLoadDword, to, *zero, *at.get(usize::from(word))?),
        })
    }

    fn store(&self, word: u8, from: Span) -> Option<Inst> {
        Some(match self {
            SpillHome::Lanes(lanes) => {
                let &(reg, lane) = lanes.get(usize::from(word))?;
                Inst::new(Opcode::VWritelaneB32, [Span::whole(reg, 1).into(), from.into(), Operand::Imm(lane.into())])
            }
            SpillHome::Acc(reg) => {
                Inst::new(Opcode::VAccvgprWriteB32, [Span { reg: Reg::Virtual(*reg), first: word, words: 1 }.into(), from.into()])
            }
            SpillHome::Scratch { zero, at } => scratch(Opcode::ScratchStoreDword, from, *zero, *at.get(usize::from(word))?),
        })
    }
}

/// Room that the files still have.
pub(super) struct Room<'a> {
    /// Accumulation registers in use.
    pub acc: &'a mut Pressure,
    /// How many there may be.
    pub limit: usize,
    /// Rows of a word of a register.
    pub rows: &'a dyn Fn(VReg) -> Vec<Seg>,
    /// Steps.
    pub fuel: &'a Fuel,
}

/// Words of scratch memory that registers share which are not in use at a time.
#[derive(Default)]
struct Slots {
    /// Per word its offset, and rows in which it is in use, by their first one: the row behind them.
    words: Vec<(u32, BTreeMap<u32, u32>)>,
}

impl Slots {
    /// A word that is free in all the rows: the first there is, or a new one.
    fn take(&mut self, rows: &[Seg], program: &mut Program, fuel: &Fuel) -> Result<u32, AllocError> {
        let free = |taken: &BTreeMap<u32, u32>| {
            rows.iter().all(|seg| {
                fuel.burn(4);
                taken.range(..seg.end).next_back().is_none_or(|(_, &end)| end <= seg.start)
            })
        };
        let found = self.words.iter().position(|(_, taken)| free(taken));
        let index = match found {
            Some(index) => index,
            None => {
                let offset = program.scratch_bytes;
                if offset + 4 > SCRATCH_BYTES {
                    return Err(AllocError::ScratchFull);
                }
                program.scratch_bytes += 4;
                self.words.push((offset, BTreeMap::new()));
                self.words.len() - 1
            }
        };
        let (offset, taken) = &mut self.words[index];
        taken.extend(rows.iter().map(|seg| (seg.start, seg.end)));
        Ok(*offset)
    }
}

/// Rows of several words together: sorted and disjoint.
fn united(mut rows: Vec<Seg>) -> Vec<Seg> {
    rows.sort_unstable();
    let mut all: Vec<Seg> = Vec::with_capacity(rows.len());
    for seg in rows {
        match all.last_mut() {
            Some(last) if seg.start <= last.end => last.end = last.end.max(seg.end),
            _ => all.push(seg),
        }
    }
    all
}

fn homes(
    work: &mut Work,
    spilled: &[VReg],
    files: &[File],
    room: &mut Room<'_>,
    counts: &mut Spills,
) -> Result<FxHashMap<VReg, SpillHome>, AllocError> {
    let mut homes = FxHashMap::default();
    let mut slots = Slots::default();
    // In the order in which they begin, so that what ends makes room for what comes.
    let mut spilled: Vec<(u32, VReg)> =
        spilled.iter().map(|&reg| ((room.rows)(reg).iter().map(|s| s.start).min().unwrap_or(0), reg)).collect();
    spilled.sort_unstable();
    for (_, reg) in spilled {
        let data = work.program.vregs[reg];
        let words = usize::from(data.words);
        let home = if data.file == File::Scalar {
            let mut lanes = std::mem::take(&mut work.lanes);
            let home = (0..words).map(|_| lanes.next(work)).collect();
            work.lanes = lanes;
            counts.to_lanes += u32::from(data.words);
            SpillHome::Lanes(home)
        } else {
            let rows = united((room.rows)(reg));
            let fits = room.acc.within(&rows) + words <= room.limit;
            if files[reg.index()] == File::Vector && !data.either && fits {
                room.acc.add(&rows, words as i32);
                counts.to_acc += u32::from(data.words);
                let align = if words > 1 { 2 } else { 1 };
                SpillHome::Acc(work.push(VRegData { file: File::Acc, either: false, words: data.words, align }))
            } else {
                counts.to_scratch += u32::from(data.words);
                let at = (0..words).map(|_| slots.take(&rows, &mut work.program, room.fuel)).collect::<Result<_, _>>()?;
                SpillHome::Scratch { zero: (work.program.chip == Chip::Gfx90a).then(|| work.zero()), at }
            }
        };
        homes.insert(reg, home);
    }
    Ok(homes)
}

/// Alignment of a part of a tuple.
fn part_align(data: &VRegData, first: u8, words: u8) -> u8 {
    let wanted = match words {
        1 => 1,
        2 | 3 => 2,
        _ => 4,
    };
    let mut align = data.align.max(1).min(wanted);
    while align > 1 && !first.is_multiple_of(align) {
        align /= 2;
    }
    align
}

/// Rewrites a program so that registers live elsewhere.
pub(super) fn spill(work: &mut Work, spilled: &[VReg], files: &[File], room: &mut Room<'_>, counts: &mut Spills) -> Result<(), AllocError> {
    let homes = homes(work, spilled, files, room, counts)?;
    for index in 0..work.program.blocks.len() {
        let block = Block::new(index);
        let insts = std::mem::take(&mut work.program.blocks[block].insts);
        let origins = std::mem::take(&mut work.origin[index]);
        let mut out = Vec::with_capacity(insts.len());
        let mut from = Vec::with_capacity(insts.len());
        for (mut inst, origin) in insts.into_iter().zip(origins) {
            let uses = uses(&inst, &homes);
            let mut behind: SmallVec<[Inst; 4]> = SmallVec::new();
            for used in &uses {
                let data = work.program.vregs[used.reg];
                let Some(home) = homes.get(&used.reg) else { continue };
                let words = used.end - used.first;
                let either = data.either && matches!(home, SpillHome::Scratch { .. });
                let temporary = work.temporary(VRegData { words, align: part_align(&data, used.first, words), either, ..data });
                for word in used.first..used.end {
                    let at = Span { reg: Reg::Virtual(temporary), first: word - used.first, words: 1 };
                    if used.reads & bits(word, 1) != 0 {
                        out.extend(home.load(word, at));
                    }
                    if used.writes & bits(word, 1) != 0 {
                        behind.extend(home.store(word, at));
                    }
                }
                for operand in &mut inst.operands {
                    if let Operand::Reg(span) = operand
                        && span.reg == Reg::Virtual(used.reg)
                    {
                        *span = Span { reg: Reg::Virtual(temporary), first: span.first - used.first, words: span.words };
                    }
                }
            }
            from.resize(out.len(), None);
            out.push(inst);
            from.push(origin);
            out.extend(behind);
            from.resize(out.len(), None);
        }
        work.program.blocks[block].insts = out;
        work.origin[index] = from;
    }
    Ok(())
}
