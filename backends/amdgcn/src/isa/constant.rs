//! Constants of operands: which are part of the instruction, and which need 32 bits behind it.

use super::desc::Value;
use std::fmt;

/// How a constant is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Constant {
    /// An integer from -16 to 64, by its code.
    Integer(u8),
    /// One of nine floats, by its code.
    Float(u8),
    /// 32 bits behind the instruction.
    Literal(u32),
}

/// Why a constant cannot be an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NoConstant {
    /// It has more bits than the operand.
    TooWide,
    /// The operand has 64 bits, and 32 of a literal do not say it: integers must be in 0 to 2^31 - 1, and the lower half of floats zero.
    NoLiteral,
}

/// Codes of the floats: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1 / 2pi.
const FIRST_FLOAT: u8 = 240;
/// The floats as the assembler reads them; the last one is written as bits where bits are read as a float.
pub const FLOAT_NAMES: [&str; 8] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"];
const HALVES: [u64; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];
const SINGLES: [u64; 9] =
    [0x3f00_0000, 0xbf00_0000, 0x3f80_0000, 0xbf80_0000, 0x4000_0000, 0xc000_0000, 0x4080_0000, 0xc080_0000, 0x3e22_f983];
const DOUBLES: [u64; 9] = [
    0x3fe0_0000_0000_0000,
    0xbfe0_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x4000_0000_0000_0000,
    0xc000_0000_0000_0000,
    0x4010_0000_0000_0000,
    0xc010_0000_0000_0000,
    0x3fc4_5f30_6dc9_c882,
];

impl Constant {
    /// How a constant of an operand is encoded: `bits` as [`crate::mir::Operand::Imm`] has them, of an operand of so many words.
    pub fn of(bits: i64, value: Value, words: u8) -> Result<Constant, NoConstant> {
        let wide = words == 2 && !matches!(value, Value::PackedF32 | Value::PackedBits);
        let (width, floats): (u32, &[u64]) = match value {
            Value::I16 | Value::PackedI16 => (16, &[]),
            Value::F16 | Value::PackedF16 => (16, &HALVES),
            _ if wide => (64, &DOUBLES),
            _ => (32, &SINGLES),
        };
        let integer = if width == 64 {
            bits
        } else {
            if bits < -(1 << (width - 1)) || bits >= 1 << width {
                return Err(NoConstant::TooWide);
            }
            bits << (64 - width) >> (64 - width)
        };
        let pattern = integer as u64 & (u64::MAX >> (64 - width));
        match integer {
            0..=64 => Ok(Constant::Integer(128 + integer as u8)),
            -16..=-1 => Ok(Constant::Integer(192 + integer.unsigned_abs() as u8)),
            _ => match floats.iter().position(|&f| f == pattern) {
                Some(at) => Ok(Constant::Float(FIRST_FLOAT + at as u8)),
                None if value == Value::F64 && pattern as u32 == 0 => Ok(Constant::Literal((pattern >> 32) as u32)),
                None if width < 64 || (value != Value::F64 && pattern < 1 << 31) => Ok(Constant::Literal(pattern as u32)),
                None => Err(NoConstant::NoLiteral),
            },
        }
    }

    /// Writes it as the assembler reads it back, in an operand of the same meaning.
    pub fn write(self, value: Value, words: u8, out: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Constant::Integer(code @ 128..=192) => write!(out, "{}", code - 128),
            Constant::Integer(code) => write!(out, "-{}", code - 192),
            Constant::Float(code) => match FLOAT_NAMES.get(usize::from(code - FIRST_FLOAT)) {
                Some(name) => out.write_str(name),
                None if value == Value::Mix => out.write_str("0.15915494"),
                None => {
                    let bits = match value {
                        Value::F16 | Value::PackedF16 => HALVES[8],
                        _ if words == 2 && !matches!(value, Value::PackedF32 | Value::PackedBits) => DOUBLES[8],
                        _ => SINGLES[8],
                    };
                    write!(out, "{bits:#x}")
                }
            },
            Constant::Literal(bits) => write!(out, "{bits:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_by_meaning() {
        let of = |bits, value, words| Constant::of(bits, value, words);
        assert_eq!(of(64, Value::Bits, 1), Ok(Constant::Integer(192)));
        assert_eq!(of(-16, Value::Bits, 1), Ok(Constant::Integer(208)));
        assert_eq!(of(0xffff_fff0, Value::Bits, 1), Ok(Constant::Integer(208)));
        assert_eq!(of(65, Value::Bits, 1), Ok(Constant::Literal(65)));
        assert_eq!(of(0x3f80_0000, Value::Bits, 1), Ok(Constant::Float(242)));
        assert_eq!(of(0x3c00, Value::F16, 1), Ok(Constant::Float(242)));
        assert_eq!(of(0x3c00, Value::I16, 1), Ok(Constant::Literal(0x3c00)));
        assert_eq!(of(0x1_0000, Value::I16, 1), Err(NoConstant::TooWide));
        assert_eq!(of(1 << 32, Value::F32, 1), Err(NoConstant::TooWide));
        assert_eq!(of(0x4059_0000_0000_0000, Value::F64, 2), Ok(Constant::Literal(0x4059_0000)));
        assert_eq!(of(0x4059_0000_0000_0001, Value::F64, 2), Err(NoConstant::NoLiteral));
        assert_eq!(of(-200, Value::Bits, 2), Err(NoConstant::NoLiteral));
        assert_eq!(of(-1, Value::Bits, 2), Ok(Constant::Integer(193)));
        assert_eq!(of(200, Value::Bits, 2), Ok(Constant::Literal(200)));
    }
}
