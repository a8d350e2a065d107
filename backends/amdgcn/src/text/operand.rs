//! Operands as text.

use crate::isa::{Constant, Kind, Slot, Value};
use crate::mir::{Block, File, Fixed, Operand, Reg, Span};

/// The label of a block.
pub(super) fn label(block: Block) -> String {
    format!(".L{block}")
}

/// An operand in its slot.
pub(super) fn operand(operand: &Operand, slot: Option<&Slot>) -> String {
    match *operand {
        Operand::Reg(span) => register(span),
        Operand::Block(block) => label(block),
        Operand::Off => "off".to_owned(),
        Operand::Imm(bits) => constant(bits, slot),
    }
}

fn constant(bits: i64, slot: Option<&Slot>) -> String {
    let Some(slot) = slot else { return bits.to_string() };
    let words = match (slot.kind, slot.value) {
        // An element of C.
        (Kind::AccSource, Value::F64) => 2,
        (Kind::AccSource, _) => 1,
        _ => slot.words,
    };
    match slot.kind {
        Kind::Literal => format!("{:#x}", bits as u32),
        Kind::Field => format!("{:#x}", bits as u16),
        Kind::ScalarOffset if bits < 0 => format!("-{:#x}", bits.unsigned_abs()),
        Kind::ScalarOffset => format!("{bits:#x}"),
        _ => match Constant::of(bits, slot.value, words) {
            Ok(constant) => constant.text(slot.value, words),
            Err(_) => bits.to_string(),
        },
    }
}

/// Registers as the assembler names them; virtual ones as `r12`, and words of them as `r12.0:1`.
fn register(span: Span) -> String {
    let (first, words) = (u32::from(span.first), u32::from(span.words));
    match span.reg {
        Reg::Virtual(reg) => match (first, words) {
            (_, 0 | 1) => format!("{reg}.{first}"),
            _ => format!("{reg}.{first}:{}", first + words - 1),
        },
        Reg::Physical(file, number) => {
            let letter = match file {
                File::Scalar => 's',
                File::Vector => 'v',
                File::Acc => 'a',
            };
            let number = u32::from(number) + first;
            match words {
                0 | 1 => format!("{letter}{number}"),
                _ => format!("{letter}[{number}:{}]", number + words - 1),
            }
        }
        Reg::Fixed(fixed) => {
            let name = match fixed {
                Fixed::Vcc => "vcc",
                Fixed::Exec => "exec",
                Fixed::M0 => return "m0".to_owned(),
                Fixed::Scc => return "scc".to_owned(),
            };
            match (first, words) {
                (0, 2) => name.to_owned(),
                (0, _) => format!("{name}_lo"),
                _ => format!("{name}_hi"),
            }
        }
    }
}
