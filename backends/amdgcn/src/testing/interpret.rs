//! An interpreter that knows no arithmetic: a result is a hash of the operation and of what it reads. Two programs that store the same hashes
//! in the same order do the same, whatever their operations mean. Lanes, `exec` and branches are as they are.

use crate::isa::{Access, Format, Opcode};
use crate::mir::{Block, File, Fixed, Inst, Operand, Program, Reg, Span};
use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;

const LANES: usize = 64;

/// What was never written. What is computed from it is it, too.
pub(crate) const POISON: u64 = u64::MAX;

/// What a run left behind: hashes of all stores, and whether it came to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub stores: Vec<u64>,
    pub ended: bool,
    /// Steps that were executed, of instructions that both programs have.
    pub steps: usize,
}

#[derive(Default)]
struct Machine {
    scalars: FxHashMap<(u32, u16), u64>,
    vectors: FxHashMap<(u32, u16), [u64; LANES]>,
    scratch: FxHashMap<i32, [u64; LANES]>,
    exec: u64,
    vcc: u64,
    scc: u64,
    /// Where control flow goes depends on what was never written.
    lost: bool,
}

fn mix(a: u64, b: u64) -> u64 {
    if a == POISON || b == POISON {
        return POISON;
    }
    (a.rotate_left(23) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_add(a)
}

/// A register's word: files of physical ones stand behind all virtual ones.
fn key(span: Span, word: u8) -> (u32, u16) {
    let word = u16::from(span.first) + u16::from(word);
    match span.reg {
        Reg::Virtual(reg) => (reg.index() as u32, word),
        Reg::Physical(file, number) => (u32::MAX - file as u32, number + word),
        Reg::Fixed(fixed) => (u32::MAX - 8 - fixed as u32, word),
    }
}

fn is_scalar(program: &Program, span: Span) -> bool {
    match span.reg {
        Reg::Virtual(reg) => program.vregs[reg].file == File::Scalar,
        Reg::Physical(file, _) => file == File::Scalar,
        Reg::Fixed(_) => true,
    }
}

impl Machine {
    fn mask(&self, operand: &Operand) -> u64 {
        match operand {
            Operand::Imm(value) => *value as u64,
            Operand::Reg(span) if span.reg == Reg::Fixed(Fixed::Exec) => self.exec,
            Operand::Reg(span) if span.reg == Reg::Fixed(Fixed::Vcc) => self.vcc,
            Operand::Reg(span) => {
                let (low, high) = (self.scalar(*span, 0), self.scalar(*span, 1));
                if low == POISON || high == POISON {
                    return POISON;
                }
                low | high << 32
            }
            _ => 0,
        }
    }

    fn scalar(&self, span: Span, word: u8) -> u64 {
        self.scalars.get(&key(span, word)).copied().unwrap_or(POISON)
    }

    fn vector(&self, span: Span, word: u8, lane: usize) -> u64 {
        self.vectors.get(&key(span, word)).map_or(POISON, |lanes| lanes[lane])
    }

    fn set_mask(&mut self, span: Span, value: u64) {
        match span.reg {
            Reg::Fixed(Fixed::Exec) => self.exec = value,
            Reg::Fixed(Fixed::Vcc) => self.vcc = value,
            _ => {
                self.scalars.insert(key(span, 0), value & 0xffff_ffff);
                self.scalars.insert(key(span, 1), value >> 32);
            }
        }
    }

    fn poison_mask(&mut self, span: Span) {
        match span.reg {
            Reg::Fixed(_) => self.lost = true,
            _ => {
                self.scalars.insert(key(span, 0), POISON);
                self.scalars.insert(key(span, 1), POISON);
            }
        }
    }
}

/// A scalar result.
fn low(value: u64) -> u64 {
    if value == POISON { POISON } else { value & 0xffff_ffff }
}

/// Runs a program for at most `most` steps.
pub(crate) fn run(program: &Program, most: usize) -> Run {
    let mut machine = Machine { exec: u64::MAX, ..Machine::default() };
    for s in 0..3 {
        machine.scalars.insert(key(Span::physical(File::Scalar, s, 1), 0), 100 + u64::from(s));
    }
    machine.vectors.insert(key(Span::physical(File::Vector, 0, 1), 0), std::array::from_fn(|lane| lane as u64));
    let mut run = Run { stores: Vec::new(), ended: false, steps: 0 };
    let mut block = Block::new(0);
    'blocks: loop {
        for inst in &program.blocks[block].insts {
            run.steps += 1;
            if run.steps > most || machine.lost {
                return run;
            }
            match inst.op {
                Opcode::SEndpgm => {
                    run.ended = true;
                    return run;
                }
                Opcode::SCbranchScc0 | Opcode::SCbranchScc1 if machine.scc == POISON => return run,
                Opcode::SBranch | Opcode::SCbranchScc0 | Opcode::SCbranchScc1 | Opcode::SCbranchExecz | Opcode::SCbranchExecnz => {
                    let taken = match inst.op {
                        Opcode::SCbranchScc0 => machine.scc == 0,
                        Opcode::SCbranchScc1 => machine.scc == 1,
                        Opcode::SCbranchExecz => machine.exec == 0,
                        Opcode::SCbranchExecnz => machine.exec != 0,
                        _ => true,
                    };
                    if let (true, Some(Operand::Block(to))) = (taken, inst.operands.first()) {
                        block = *to;
                        continue 'blocks;
                    }
                }
                _ => step(program, &mut machine, inst, &mut run.stores),
            }
        }
        block = Block::new(block.index() + 1);
        if block.index() >= program.blocks.len() {
            return run;
        }
    }
}

fn step(program: &Program, machine: &mut Machine, inst: &Inst, stores: &mut Vec<u64>) {
    let ops = &inst.operands;
    let to = match ops.first() {
        Some(Operand::Reg(span)) => Some(*span),
        _ => None,
    };
    let word = |machine: &Machine, operand: &Operand| match operand {
        Operand::Imm(value) => *value as u64 & 0xffff_ffff,
        Operand::Reg(span) => machine.scalar(*span, 0),
        _ => 0,
    };
    // Instructions whose meaning decides where control flow goes, and moves.
    let masks = |i: usize| ops.get(i).map_or(0, |o| machine.mask(o));
    let is_imm = |i: usize| matches!(ops.get(i), Some(Operand::Imm(_)));
    let poisoned = |i: usize| {
        !is_imm(i) && masks(i) == POISON && !matches!(ops.get(i), Some(Operand::Reg(s)) if s.reg == Reg::Fixed(Fixed::Exec)) && {
            matches!(ops.get(i), Some(Operand::Reg(s)) if machine.scalar(*s, 0) == POISON || machine.scalar(*s, 1) == POISON)
        }
    };
    let binary = match inst.op {
        Opcode::SMovB64 => Some((masks(1), poisoned(1))),
        Opcode::SAndB64 => Some((masks(1) & masks(2), poisoned(1) || poisoned(2))),
        Opcode::SAndn2B64 => Some((masks(1) & !masks(2), poisoned(1) || poisoned(2))),
        Opcode::SOrB64 => Some((masks(1) | masks(2), poisoned(1) || poisoned(2))),
        Opcode::SXorB64 => Some((masks(1) ^ masks(2), poisoned(1) || poisoned(2))),
        Opcode::SCselectB64 if machine.scc == 1 => Some((masks(1), poisoned(1))),
        Opcode::SCselectB64 => Some((masks(2), poisoned(2) || machine.scc == POISON)),
        _ => None,
    };
    match (inst.op, to, binary) {
        (_, Some(to), Some((_, true))) => return machine.poison_mask(to),
        (_, Some(to), Some((value, false))) => return machine.set_mask(to, value),
        (Opcode::SAndSaveexecB64, Some(to), _) => {
            let (mask, old, lost) = (masks(1), machine.exec, poisoned(1));
            machine.set_mask(to, old);
            machine.exec = old & mask;
            machine.lost |= lost;
            return;
        }
        _ => {}
    }
    match (inst.op, to) {
        (Opcode::SMovB32, Some(to)) => {
            let value = word(machine, &ops[1]);
            machine.scalars.insert(key(to, 0), value);
            return;
        }
        (Opcode::SSubU32, Some(to)) => {
            let (a, b) = (word(machine, &ops[1]), word(machine, &ops[2]));
            let value = if a == POISON || b == POISON { POISON } else { low(a.wrapping_sub(b)) };
            machine.scalars.insert(key(to, 0), value);
            return;
        }
        (Opcode::SCmpLgU32, _) => {
            let (a, b) = (word(machine, &ops[0]), word(machine, &ops[1]));
            machine.scc = if a == POISON || b == POISON { POISON } else { u64::from(a != b) };
            return;
        }
        (Opcode::VReadlaneB32, Some(to)) => {
            if let (Operand::Reg(from), Operand::Imm(lane)) = (ops[1], ops[2]) {
                let value = low(machine.vector(from, 0, lane as usize));
                machine.scalars.insert(key(to, 0), value);
            }
            return;
        }
        (Opcode::VWritelaneB32, Some(to)) => {
            let value = word(machine, &ops[1]);
            if let Operand::Imm(lane) = ops[2] {
                machine.vectors.entry(key(to, 0)).or_insert([POISON; LANES])[lane as usize] = value;
            }
            return;
        }
        // The register beside the offset is zero.
        (Opcode::ScratchStoreDword | Opcode::ScratchLoadDword, _) if ops[2] != Operand::Off && word(machine, &ops[2]) != 0 => {
            machine.lost = true;
            return;
        }
        (Opcode::ScratchStoreDword, _) => {
            if let Operand::Reg(from) = ops[1] {
                let exec = machine.exec;
                let values: [u64; LANES] = std::array::from_fn(|lane| machine.vector(from, 0, lane));
                let slot = machine.scratch.entry(inst.mods.offset).or_insert([POISON; LANES]);
                (0..LANES).filter(|l| exec >> l & 1 == 1).for_each(|l| slot[l] = values[l]);
            }
            return;
        }
        (Opcode::ScratchLoadDword, Some(to)) => {
            let slot = machine.scratch.get(&inst.mods.offset).copied().unwrap_or([POISON; LANES]);
            let exec = machine.exec;
            let register = machine.vectors.entry(key(to, 0)).or_insert([POISON; LANES]);
            (0..LANES).filter(|l| exec >> l & 1 == 1).for_each(|l| register[l] = slot[l]);
            return;
        }
        _ => {}
    }
    compute(program, machine, inst, stores);
}

fn compute(program: &Program, machine: &mut Machine, inst: &Inst, stores: &mut Vec<u64>) {
    let plain_move =
        matches!(inst.op, Opcode::VMovB32 | Opcode::VAccvgprReadB32 | Opcode::VAccvgprWriteB32) && inst.mods == Default::default();
    let slots = inst.op.desc().slots;
    let matrix = inst.op.desc().form.format == Format::Mai && !matches!(inst.op, Opcode::VAccvgprReadB32 | Opcode::VAccvgprWriteB32);
    let partial = inst.mods.dpp.is_some_and(|d| !d.bound_ctrl);
    let exec = if matrix { u64::MAX } else { machine.exec };
    let stores_memory = inst.operands.iter().zip(slots).all(|(_, slot)| slot.access == Access::Use);
    // What each lane reads; scalars are read by all.
    let mut lanes = [0u64; LANES];
    for (lane, hash) in lanes.iter_mut().enumerate() {
        *hash = mix(0x51, inst.op as u64);
        for (operand, slot) in inst.operands.iter().zip(slots) {
            if slot.access == Access::Def && !partial {
                continue;
            }
            match operand {
                Operand::Imm(value) if plain_move => *hash = *value as u64,
                Operand::Imm(value) => *hash = mix(*hash, *value as u64),
                Operand::Reg(span) => {
                    for word in 0..span.words {
                        let value = match span.reg {
                            Reg::Fixed(Fixed::Vcc) => machine.vcc,
                            Reg::Fixed(Fixed::Exec) => machine.exec,
                            _ if is_scalar(program, *span) => machine.scalar(*span, word),
                            _ => machine.vector(*span, word, lane),
                        };
                        *hash = if plain_move { value } else { mix(*hash, value) };
                    }
                }
                _ => {}
            }
        }
    }
    if stores_memory {
        let all = lanes.iter().enumerate().filter(|(l, _)| exec >> l & 1 == 1).fold(0, |h, (l, v)| mix(mix(h, l as u64), *v));
        stores.push(all);
        return;
    }
    let first_active = lanes[exec.trailing_zeros().min(63) as usize];
    for (index, (operand, slot)) in inst.operands.iter().zip(slots).enumerate() {
        let Operand::Reg(span) = *operand else { continue };
        if slot.access == Access::Use {
            continue;
        }
        if is_scalar(program, span) {
            if inst.op.desc().form.format == Format::Vopc {
                if (0..LANES).any(|l| exec >> l & 1 == 1 && lanes[l] == POISON) {
                    machine.poison_mask(span);
                    continue;
                }
                let mask = (0..LANES).filter(|l| exec >> l & 1 == 1 && lanes[*l] >> 7 & 1 == 1).fold(0u64, |m, l| m | 1 << l);
                machine.set_mask(span, mask);
                continue;
            }
            for word in 0..span.words {
                let value = low(mix(first_active, u64::from(word) + index as u64 * 64));
                machine.scalars.insert(key(span, word), value);
            }
            continue;
        }
        for word in 0..span.words {
            let register = machine.vectors.entry(key(span, word)).or_insert([POISON; LANES]);
            for (lane, hash) in lanes.iter().enumerate().filter(|(l, _)| exec >> l & 1 == 1) {
                register[lane] = if plain_move { *hash } else { mix(*hash, u64::from(word) + index as u64 * 64) };
            }
        }
    }
}
