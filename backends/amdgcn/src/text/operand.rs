//! Operands as text.

use crate::isa::{Constant, Fixed, Kind, Slot, Value};
use crate::mir::{Block, File, Operand, Reg, Span};
use std::fmt::{Result, Write};

/// Writes the label of a block.
pub(super) fn label(block: Block, out: &mut String) -> Result {
    write!(out, ".L{block}")
}

/// Writes an operand in its slot.
pub(super) fn operand(operand: &Operand, slot: Option<&Slot>, out: &mut String) -> Result {
    match *operand {
        Operand::Reg(span) => register(span, out),
        Operand::Block(block) => label(block, out),
        Operand::Off => out.write_str("off"),
        Operand::Imm(bits) => constant(bits, slot, out),
    }
}

fn constant(bits: i64, slot: Option<&Slot>, out: &mut String) -> Result {
    let Some(slot) = slot else { return write!(out, "{bits}") };
    let words = match (slot.kind, slot.value) {
        // An element of C.
        (Kind::AccSource, Value::F64) => 2,
        (Kind::AccSource, _) => 1,
        _ => slot.words,
    };
    match slot.kind {
        Kind::Literal => write!(out, "{:#x}", bits as u32),
        Kind::Field => write!(out, "{:#x}", bits as u16),
        Kind::ScalarOffset if bits < 0 => write!(out, "-{:#x}", bits.unsigned_abs()),
        Kind::ScalarOffset => write!(out, "{bits:#x}"),
        _ => match Constant::of(bits, slot.value, words) {
            Ok(constant) => constant.write(slot.value, words, out),
            Err(_) => write!(out, "{bits}"),
        },
    }
}

/// Writes a number: registers are most of a text.
fn decimal(number: u32, out: &mut String) {
    if number >= 10 {
        decimal(number / 10, out);
    }
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// Registers as the assembler names them; virtual ones as `r12.0`, and words of them as `r12.0:1`.
fn register(span: Span, out: &mut String) -> Result {
    let (first, words) = (u32::from(span.first), u32::from(span.words));
    match span.reg {
        Reg::Virtual(reg) => match (first, words) {
            (_, 0 | 1) => write!(out, "{reg}.{first}"),
            _ => write!(out, "{reg}.{first}:{}", first + words - 1),
        },
        Reg::Physical(file, number) => {
            let letter = match file {
                File::Scalar => 's',
                File::Vector => 'v',
                File::Acc => 'a',
            };
            let number = u32::from(number) + first;
            out.push(letter);
            if words <= 1 {
                decimal(number, out);
                return Ok(());
            }
            out.push('[');
            decimal(number, out);
            out.push(':');
            decimal(number + words - 1, out);
            out.push(']');
            Ok(())
        }
        Reg::Fixed(fixed) => {
            let name = match fixed {
                Fixed::Vcc => "vcc",
                Fixed::Exec => "exec",
                Fixed::FlatScratch => "flat_scratch",
                Fixed::M0 => return out.write_str("m0"),
                Fixed::Scc => return out.write_str("scc"),
            };
            out.write_str(name)?;
            match (first, words) {
                (0, 2) => Ok(()),
                (0, _) => out.write_str("_lo"),
                _ => out.write_str("_hi"),
            }
        }
    }
}
