//! Machine code: bytes of a program with physical registers.
//!
//! ```text
//! Program ── operands (each against its slot) ── format (the shortest that holds them) ── words ── branches filled in ─► bytes
//! ```
//!
//! An instruction's words do not depend on where it stands but for a branch's distance, so one pass encodes and a second one fills that in.
//! What cannot be encoded is an error that names block, instruction and reason; nothing is cut off silently.

mod encoded;
mod error;
mod matrix;
mod memory;
mod mods;
mod operand;
mod parts;
mod roles;
mod scalar;
mod vector;

pub use error::{EncodeError, EncodeReason, Misfit, Modifier};

use crate::chip::Chip;
use crate::isa::Format;
use crate::mir::{Inst, Program};
use encoded::{Encoded, Parts};

/// Machine code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where each instruction begins, in the order in which they stand.
    pub starts: Vec<u32>,
}

/// The machine code of a program.
pub fn encode(program: &Program) -> Result<Code, EncodeError> {
    let mut words: Vec<u32> = Vec::new();
    let mut starts = Vec::new();
    let mut blocks: Vec<usize> = Vec::with_capacity(program.blocks.len());
    let mut branches = Vec::new();
    for (block, data) in program.blocks.iter() {
        blocks.push(words.len());
        for (at, inst) in data.insts.iter().enumerate() {
            let error = |reason| EncodeError { block, inst: at, op: inst.op, reason };
            let encoded = instruction(inst, program.chip).map_err(error)?;
            if let Some(target) = encoded.target {
                branches.push((words.len(), target, block, at));
            }
            // Programs of 4 GiB are more than what has room in memory beside their machine programs.
            starts.push(4 * words.len() as u32);
            words.extend(encoded.words);
        }
    }
    for (place, target, block, at) in branches {
        let error = |reason| EncodeError { block, inst: at, op: program.blocks[block].insts[at].op, reason };
        let to = *blocks.get(target.as_u32() as usize).ok_or_else(|| error(EncodeReason::NoBlock(target)))?;
        let distance = to as i64 - (place as i64 + 1);
        let bits = i16::try_from(distance).map_err(|_| error(EncodeReason::Branch(distance)))?;
        words[place] |= u32::from(bits as u16);
    }
    Ok(Code { bytes: words.iter().flat_map(|w| w.to_le_bytes()).collect(), starts })
}

/// Whether an instruction with physical registers can be encoded on a chip.
pub fn check(inst: &Inst, chip: Chip) -> Result<(), EncodeReason> {
    instruction(inst, chip).map(|_| ())
}

/// How many words an instruction has, if it can be encoded.
pub(crate) fn words(inst: &Inst, chip: Chip) -> Option<usize> {
    Some(instruction(inst, chip).ok()?.words.len())
}

fn instruction(inst: &Inst, chip: Chip) -> Result<Encoded, EncodeReason> {
    let desc = inst.op.desc();
    let number = desc.number(chip).ok_or(EncodeReason::Missing)?;
    let parts = Parts { inst, desc, chip, number, operands: operand::operands(inst, desc, chip)? };
    match desc.form.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc => scalar::alu(&parts),
        Format::Sopk => scalar::sopk(&parts),
        Format::Sopp => scalar::sopp(&parts),
        Format::Smem => scalar::smem(&parts),
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3a | Format::Vop3b => vector::alu(&parts),
        Format::Vop3p => vector::packed(&parts),
        Format::Mai | Format::Vop3px2 => matrix::matrix(&parts),
        Format::Ds => memory::lds(&parts),
        Format::Global | Format::Scratch => memory::flat(&parts),
        Format::Mubuf => memory::buffer(&parts),
    }
}
