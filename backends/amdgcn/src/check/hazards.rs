//! Checks wait states: from each instruction, those that may follow within the longest hazard are compared with it, pair by pair.

use super::effects::{Effect, asks_exec, effects, is_matrix, named};
use super::walk::{Position, all, forward};
use crate::chip::Chip;
use crate::isa::{Access, Fixed, Format, Kind, Opcode, Variant};
use crate::mir::{File, Inst, Operand, Part, Program, Reg, Span};
use std::collections::BTreeSet;

/// Two instructions that are too near.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HazardFault {
    /// The second one.
    pub at: Position,
    /// The first one.
    pub from: Position,
    /// Wait states that are needed between them.
    pub needed: u32,
    /// Wait states that are there, on some way.
    pub there: u32,
}

/// No hazard is longer.
const FAR: u32 = 20;

/// Checks that hazards of the chip are kept.
///
/// # Errors
/// All pairs that are too near, in the order of the second ones.
pub fn hazards(program: &Program) -> Result<(), Vec<HazardFault>> {
    let mut faults = BTreeSet::new();
    for (from, first) in all(program) {
        if !interesting(first) {
            continue;
        }
        forward(program, from, 0, |at, second, there| {
            let needed = needed(first, second, program.chip);
            if needed > there {
                faults.insert(HazardFault { at, from, needed, there });
            }
            let behind = there + states(second);
            (behind < FAR).then_some(behind)
        });
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.into_iter().collect()) }
}

/// Wait states that an instruction is.
fn states(inst: &Inst) -> u32 {
    match (inst.op, inst.operands.first()) {
        (Opcode::SNop, Some(Operand::Imm(more))) => 1 + (*more as u32 & 15),
        _ => 1,
    }
}

/// Vector instructions, stores, and those that write `m0`.
fn interesting(inst: &Inst) -> bool {
    is_vector(inst) || is_matrix(inst) || is_memory(inst) || named(inst, Fixed::M0).1
}

fn is_vector(inst: &Inst) -> bool {
    use Format::{Mai, Vop1, Vop2, Vop3a, Vop3b, Vop3p, Vop3px2, Vopc};
    matches!(inst.op.desc().form.format, Vop1 | Vop2 | Vop3a | Vop3b | Vop3p | Vopc | Mai | Vop3px2) && !is_matrix(inst)
}

fn is_memory(inst: &Inst) -> bool {
    matches!(inst.op.desc().form.format, Format::Ds | Format::Global | Format::Scratch | Format::Mubuf)
}

/// Registers as numbers: scalar ones, named ones from 120 on, vector ones from 200, accumulation ones from 500.
fn registers(span: Span) -> (u32, u32) {
    let start = u32::from(span.first)
        + match span.reg {
            Reg::Physical(File::Scalar, n) => u32::from(n),
            Reg::Physical(File::Vector, n) => 200 + u32::from(n),
            Reg::Physical(File::Acc, n) => 500 + u32::from(n),
            Reg::Fixed(Fixed::FlatScratch) => 118,
            Reg::Fixed(Fixed::Vcc) => 120,
            Reg::Fixed(Fixed::M0) => 124,
            Reg::Fixed(Fixed::Exec) => 126,
            Reg::Fixed(Fixed::Scc) | Reg::Virtual(_) => 1000,
        };
    (start, start + u32::from(span.words))
}

fn vector_file(range: (u32, u32)) -> bool {
    (200..1000).contains(&range.0)
}

fn meet(a: (u32, u32), b: (u32, u32)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

fn written(inst: &Inst) -> Vec<(u32, u32)> {
    let mut all: Vec<_> = effects(inst).iter().filter(|e| e.writes).map(|e| registers(e.span)).collect();
    all.extend(
        [(Fixed::Vcc, (120, 122)), (Fixed::Exec, (126, 128)), (Fixed::M0, (124, 125))]
            .into_iter()
            .filter(|(f, _)| named(inst, *f).1)
            .map(|f| f.1),
    );
    all
}

fn reads(inst: &Inst) -> Vec<(Effect, (u32, u32))> {
    effects(inst).into_iter().filter(|e| e.reads).map(|e| (e, registers(e.span))).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Narrow,
    F32,
    F64,
}

/// Type and passes of a matrix instruction: from its results, but for what differs.
fn matrix(inst: &Inst, chip: Chip) -> (Type, u32) {
    use Opcode::*;
    let results = inst.op.desc().slots.first().map_or(0, |s| s.words);
    match inst.op {
        VMfmaF64_16x16x4F64 => return (Type::F64, 8),
        VMfmaF64_4x4x4_4bF64 => return (Type::F64, 4),
        VMfmaF32_4x4x1_16bF32 => return (Type::F32, 2),
        VMfmaF32_16x16x4F32 | VMfmaF32_16x16x1_4bF32 => return (Type::F32, 8),
        VMfmaF32_32x32x2F32 | VMfmaF32_32x32x1_2bF32 => return (Type::F32, 16),
        VMfmaF32_4x4x4_16bF16 | VMfmaF32_4x4x4_16bBf16 | VMfmaI32_4x4x4_16bI8 => return (Type::Narrow, 2),
        _ => {}
    }
    // These multiply more at a time than others with as many results, or do so at half the rate.
    let long = matches!(
        inst.op,
        VMfmaF32_16x16x128F8f6f4
            | VMfmaScaleF32_16x16x128F8f6f4
            | VMfmaF32_32x32x64F8f6f4
            | VMfmaScaleF32_32x32x64F8f6f4
            | VMfmaI32_16x16x16I8
            | VMfmaI32_32x32x8I8
    );
    let blocks = matches!(inst.op, VMfmaF32_16x16x4_4bF16 | VMfmaF32_16x16x4_4bBf16 | VMfmaI32_16x16x4_4bI8);
    let twice = if long || chip == Chip::Gfx90a && results < 32 && !blocks { 2 } else { 1 };
    let passes = match results {
        32 => 16,
        16 => 8,
        _ => 4,
    };
    (Type::Narrow, passes * twice)
}

/// Wait states that must lie between two instructions.
fn needed(first: &Inst, second: &Inst, chip: Chip) -> u32 {
    if is_matrix(first) {
        return behind_matrix(first, second, chip);
    }
    let new = chip != Chip::Gfx90a;
    let mut most = 0;
    let mut ask = |when: bool, states: u32| {
        if when {
            most = most.max(states);
        }
    };
    if named(first, Fixed::M0).1 && !is_vector(first) {
        ask(second.op.desc().form.variant == Variant::ToLds, 1);
    }
    if is_memory(first) && first.op.desc().form.format != Format::Ds && is_vector(second) {
        // A wide store reads its data late.
        for (e, range) in reads(first) {
            let data = matches!(first.op.desc().slots.get(e.at), Some(s) if s.kind == Kind::VectorOrAcc && s.access == Access::Use);
            ask(data && range.1 - range.0 > 2 && written(second).iter().any(|w| meet(*w, range)), 1);
        }
    }
    if !is_vector(first) {
        return most;
    }
    let lane_moves = matches!(second.op, Opcode::VReadlaneB32 | Opcode::VReadfirstlaneB32 | Opcode::VWritelaneB32);
    let dpp = second.mods.dpp.is_some();
    for result in written(first) {
        if result == (126, 128) {
            ask(is_matrix(second), 4);
            ask(dpp, 5);
            ask(lane_moves && new, 4);
            continue;
        }
        let vector = vector_file(result);
        for (e, range) in reads(second) {
            if !meet(result, range) {
                continue;
            }
            if vector {
                ask(is_matrix(second), 2);
                ask(dpp && is_vector(second), 2);
                ask(new && transcendental(first.op) && is_vector(second) && !transcendental(second.op), 1);
                ask(new && half(first) && is_vector(second), 1);
                ask(new && matches!(second.op, Opcode::VReadlaneB32 | Opcode::VReadfirstlaneB32), 1);
                ask(dot(first.op) && is_vector(second) && second.op != first.op, 3);
            } else {
                ask(is_memory(second), 5);
                ask(matches!(second.op, Opcode::VReadlaneB32 | Opcode::VWritelaneB32) && e.at == 2, 4);
                ask(new && (is_vector(second) || is_matrix(second)), 2);
            }
        }
        if !vector && result == (120, 122) && named(second, Fixed::Vcc).0 && is_vector(second) {
            ask(new, 2);
            ask(matches!(second.op, Opcode::VDivFmasF32 | Opcode::VDivFmasF64), 4);
        }
        if vector && is_vector(second) && written(second).iter().any(|w| meet(*w, result)) {
            ask(dot(first.op) && second.op != first.op, 3);
            ask(new && half(first), 1);
        }
    }
    most
}

fn behind_matrix(first: &Inst, second: &Inst, chip: Chip) -> u32 {
    let (kind, passes) = matrix(first, chip);
    let Some(d) = effects(first).iter().find(|e| e.writes).map(|e| registers(e.span)) else { return 0 };
    let c = effects(first).iter().find(|e| e.reads && e.kind == Kind::AccSource).map(|e| registers(e.span));
    let large = kind == Type::F64 && passes == 8;
    // Before others read it, before it is a factor, before it is an addend that does not lie on it exactly.
    let (read, memory, factor, overlap) = match (kind, chip) {
        (Type::F64, _) if large => (11, 18, 11, 9),
        (Type::F64, _) => (6, 9, 6, 4),
        (_, Chip::Gfx90a) => (passes + 3, passes + 3, passes + 3, passes),
        (Type::Narrow, Chip::Gfx942) => (passes + 3, passes + 3, passes + 3, passes + 1),
        (Type::F32, Chip::Gfx942) => (passes + 2, passes + 2, passes + 2, passes),
        (Type::Narrow, Chip::Gfx950) => (passes + 4, passes + 4, passes + 4, passes + 2),
        // Nobody wrote this one down for the last chip: at least as on the one before.
        (Type::F32, Chip::Gfx950) => (passes + 2, passes + 2, passes + 2, passes),
    };
    let exact = match kind {
        Type::F64 => {
            if large {
                0
            } else {
                4
            }
        }
        _ => {
            if passes == 2 && chip != Chip::Gfx90a {
                2
            } else {
                0
            }
        }
    };
    let mut most = 0;
    for (e, range) in reads(second).into_iter().filter(|(_, range)| meet(*range, d)) {
        most = most.max(if is_matrix(second) {
            match e.kind {
                Kind::AccSource if range == d => exact,
                Kind::AccSource => overlap,
                _ => factor,
            }
        } else if is_memory(second) {
            memory
        } else if is_vector(second) {
            read
        } else {
            0
        });
    }
    if is_memory(second) {
        // What is loaded must not come before what was to be overwritten.
        let overwrites = written(second).iter().any(|range| meet(*range, d));
        most = most.max(if overwrites { memory } else { 0 });
    }
    if is_vector(second) {
        for range in written(second) {
            if meet(range, d) {
                most = most.max(read);
            }
            let late = kind == Type::Narrow || kind == Type::F32 && chip == Chip::Gfx90a;
            if late && c.is_some_and(|c| meet(range, c)) {
                most = most.max(passes - 1);
            }
        }
    }
    most
}

fn transcendental(op: Opcode) -> bool {
    use Opcode::*;
    let f32s =
        matches!(op, VExpF32 | VLogF32 | VRcpF32 | VRsqF32 | VSqrtF32 | VSinF32 | VCosF32 | VRcpIflagF32 | VExpLegacyF32 | VLogLegacyF32);
    let others = matches!(op, VExpF16 | VLogF16 | VRcpF16 | VRsqF16 | VSqrtF16 | VSinF16 | VCosF16 | VRcpF64 | VRsqF64 | VSqrtF64);
    f32s || others
}

fn dot(op: Opcode) -> bool {
    use Opcode::*;
    let sums = matches!(op, VDot2F32F16 | VDot2F32Bf16 | VDot4I32I8 | VDot4U32U8 | VDot2I32I16 | VDot2U32U16);
    sums || matches!(op, VDot2cF32F16 | VDot2cF32Bf16 | VDot4cI32I8)
}

/// The instruction writes the upper half of a register, or another part.
fn half(inst: &Inst) -> bool {
    let upper = inst.mods.op_sel >> 3 & 1 == 1 || inst.mods.sdwa.is_some_and(|s| s.dst != Part::Dword);
    upper && asks_exec(inst)
}
