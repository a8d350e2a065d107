//! Checks that accesses lie inside of a lane's scratch memory, and the set-up of it on chips that have no address of it ready: before it is accessed,
//! `flat_scratch` is the sum of what the kernel finds at its beginning, and nothing else takes those registers for its own.

use super::effects::{effects, named};
use super::walk::Position;
use crate::chip::Chip;
use crate::isa::{Fixed, Format, Kind, Opcode};
use crate::mir::{File, Inst, Operand, Program, Reg, Span};
use cranelift_entity::EntityRef;

/// A wrong set-up of scratch memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ScratchFault {
    /// The instruction.
    pub at: Position,
    /// What is wrong about it.
    pub what: Unready,
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unready {
    /// It accesses scratch memory before both halves of the address are there.
    Address,
    /// It writes the address, and not the sum that belongs there.
    Sum,
    /// It reads a register that still holds what the address is made of, or another number of the workgroup than it asks for.
    Register(u16),
    /// It ends the first block, and the workgroup's number along an axis has not come to where it is asked for.
    Number(usize),
    /// It accesses bytes that the lane does not have, from this one on.
    Outside(i32),
}

/// What a scalar register holds since the kernel began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Given {
    /// The address of all wavefronts' scratch memory, its lower and its upper half.
    Base(u8),
    /// The workgroup's number along an axis.
    Number(usize),
    /// The bytes to the wavefront's own.
    Offset,
}

struct ScratchWalk<'a> {
    program: &'a Program,
    given: Vec<Option<Given>>,
    /// The halves of the address that are there.
    ready: [bool; 2],
    /// `scc` is the carry of the lower half.
    carry: bool,
    /// The workgroup's numbers that have been where they are asked for.
    numbers: [bool; 3],
    faults: Vec<ScratchFault>,
}

/// Accesses outside of what a lane has.
fn outside(program: &Program) -> Vec<ScratchFault> {
    let mut faults = Vec::new();
    for (block, data) in program.blocks.iter() {
        for (at, inst) in data.insts.iter().enumerate().filter(|(_, i)| i.op.desc().form.format == Format::Scratch) {
            let stores = inst.op.desc().slots.first().is_some_and(|slot| slot.kind == Kind::Address);
            let data = inst.operands.get(usize::from(stores));
            let bytes = if let Some(Operand::Reg(span)) = data { 4 * i64::from(span.words) } else { 0 };
            let from = inst.mods.offset;
            if from < 0 || i64::from(from) + bytes > i64::from(program.scratch_bytes) {
                faults.push(ScratchFault { at: (block, at), what: Unready::Outside(from) });
            }
        }
    }
    faults
}

/// Checks a program with physical registers.
///
/// # Errors
/// All faults in the order of the program.
pub fn scratch(program: &Program) -> Result<(), Vec<ScratchFault>> {
    let faults = outside(program);
    if program.chip != Chip::Gfx90a || program.scratch_bytes == 0 {
        return if faults.is_empty() { Ok(()) } else { Err(faults) };
    }
    let numbers = (0..3).filter(|&axis| program.entry.workgroup[axis]).map(Given::Number);
    let held = [Given::Base(0), Given::Base(1)].into_iter().chain(numbers).chain([Given::Offset]).map(Some);
    let given: Vec<Option<Given>> = [None, None].into_iter().chain(held).collect();
    let there = |axis: usize| {
        let at = program.entry.workgroup_sgpr(axis);
        at.is_none_or(|at| given.get(usize::from(at)).copied().flatten() == Some(Given::Number(axis)))
    };
    let numbers = [0, 1, 2].map(there);
    let mut walk = ScratchWalk { program, given, ready: [false; 2], carry: false, numbers, faults };
    // Kernels do not come back to their beginning.
    for (block, data) in program.blocks.iter() {
        if block.index() == 1 {
            walk.given.clear();
        }
        data.insts.iter().enumerate().for_each(|(at, inst)| walk.visit((block, at), inst));
        if block.index() == 0 {
            let end = (block, data.insts.len().saturating_sub(1));
            let missing = (0..3).filter(|&axis| !walk.numbers[axis]);
            walk.faults.extend(missing.map(|axis| ScratchFault { at: end, what: Unready::Number(axis) }));
        }
    }
    if walk.faults.is_empty() { Ok(()) } else { Err(walk.faults) }
}

impl ScratchWalk<'_> {
    fn held(&self, operand: Option<&Operand>) -> Option<Given> {
        match operand {
            Some(Operand::Reg(span)) => self.register(span).and_then(|n| self.given.get(usize::from(n)).copied().flatten()),
            _ => None,
        }
    }

    fn register(&self, span: &Span) -> Option<u16> {
        match span.reg {
            Reg::Physical(File::Scalar, number) if span.words == 1 => Some(number + u16::from(span.first)),
            _ => None,
        }
    }

    fn visit(&mut self, at: Position, inst: &Inst) {
        let half = match inst.operands.first() {
            Some(Operand::Reg(Span { reg: Reg::Fixed(Fixed::FlatScratch), first, words: 1 })) => Some(*first),
            _ => None,
        };
        let sources = [self.held(inst.operands.get(1)), self.held(inst.operands.get(2))];
        let sum = match (inst.op, half, sources) {
            (Opcode::SAddU32, Some(0), [Some(Given::Base(0)), Some(Given::Offset)] | [Some(Given::Offset), Some(Given::Base(0))]) => {
                Some(0)
            }
            (Opcode::SAddcU32, Some(1), [Some(Given::Base(1)), None]) if self.carry && inst.operands.get(2) == Some(&Operand::Imm(0)) => {
                Some(1)
            }
            _ => None,
        };
        let moved = match (inst.op, inst.operands.first(), sources[0]) {
            (Opcode::SMovB32, Some(Operand::Reg(to)), Some(Given::Number(axis))) => {
                self.register(to).filter(|&to| self.program.entry.workgroup_sgpr(axis) == Some(to)).map(|to| (to, axis))
            }
            _ => None,
        };
        let mut report = |what| self.faults.push(ScratchFault { at, what });
        if named(inst, Fixed::FlatScratch).1 && sum.is_none() {
            report(Unready::Sum);
        }
        if inst.op.desc().form.format == Format::Scratch && self.ready != [true; 2] {
            report(Unready::Address);
        }
        for effect in effects(inst) {
            let Reg::Physical(File::Scalar, first) = effect.span.reg else { continue };
            for number in (0..u16::from(effect.span.words)).map(|word| first + u16::from(effect.span.first) + word) {
                let Some(held) = self.given.get_mut(usize::from(number)) else { continue };
                let asks = match *held {
                    Some(Given::Number(axis)) => self.program.entry.workgroup_sgpr(axis) != Some(number),
                    Some(Given::Base(_) | Given::Offset) => true,
                    None => false,
                };
                if effect.reads && asks && sum.is_none() && moved.is_none() {
                    self.faults.push(ScratchFault { at, what: Unready::Register(number) });
                }
                if effect.writes {
                    *held = None;
                }
            }
        }
        if let Some((to, axis)) = moved {
            self.given[usize::from(to)] = Some(Given::Number(axis));
            self.numbers[axis] = true;
        }
        if let Some(half) = sum {
            self.ready[half] = true;
        }
        if named(inst, Fixed::Scc).1 {
            self.carry = sum == Some(0);
        }
    }
}
