//! Building text without a format machine: numbers and registers go straight into one string.

use crate::class::Class;

/// A register: class and number.
pub(crate) type Reg = (Class, u32);

/// An operand as it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opnd {
    /// A register.
    Reg(Reg),
    /// Literal bits for a class.
    Imm(Class, u64),
}

/// Numbers below this are taken from a table.
const SMALL: usize = 1000;

/// The three digits of each, one behind the other.
const DIGITS: [u8; 3 * SMALL] = {
    let mut all = [b'0'; 3 * SMALL];
    let mut n = 0;
    while n < SMALL {
        (all[3 * n], all[3 * n + 1], all[3 * n + 2]) = (b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8);
        n += 1;
    }
    all
};

const SMALL_NUMBERS: &str = ascii(&DIGITS);

/// Digits as text.
const fn ascii(digits: &[u8]) -> &str {
    match std::str::from_utf8(digits) {
        Ok(text) => text,
        Err(_) => "",
    }
}

/// Text under construction.
#[derive(Default)]
pub(crate) struct Text {
    pub(crate) out: String,
}

impl Text {
    /// Appends a piece.
    pub(crate) fn s(&mut self, piece: &str) -> &mut Text {
        self.out.push_str(piece);
        self
    }

    /// Appends a number.
    pub(crate) fn n(&mut self, x: impl Into<i64>) -> &mut Text {
        let x: i64 = x.into();
        if let Some(n) = usize::try_from(x).ok().filter(|&n| n < SMALL) {
            let zeros = usize::from(n < 100) + usize::from(n < 10);
            self.out.push_str(&SMALL_NUMBERS[3 * n + zeros..3 * n + 3]);
            return self;
        }
        if x < 0 {
            self.out.push('-');
        }
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = x.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.push_str(ascii(&digits[at..]));
        self
    }

    fn hex(&mut self, x: u64, digits: usize) -> &mut Text {
        let all: [u8; 16] = std::array::from_fn(|n| b"0123456789ABCDEF"[(x >> (60 - 4 * n) & 15) as usize]);
        self.out.push_str(ascii(&all[16 - digits..]));
        self
    }

    /// Appends a register.
    pub(crate) fn r(&mut self, (class, number): Reg) -> &mut Text {
        self.s(class.prefix()).n(number)
    }

    /// Appends an operand.
    pub(crate) fn o(&mut self, operand: Opnd) -> &mut Text {
        match operand {
            Opnd::Reg(r) => self.r(r),
            Opnd::Imm(Class::P, bits) => self.n((bits & 1) as i64),
            Opnd::Imm(Class::H, bits) => self.n(bits as i16),
            Opnd::Imm(Class::R, bits) => self.n(bits as i32),
            // The most negative number has no decimal literal: the sign is an operator on a number that is too large.
            Opnd::Imm(Class::D, bits) if bits as i64 == i64::MIN => self.s("0x8000000000000000"),
            Opnd::Imm(Class::D, bits) => self.n(bits as i64),
            Opnd::Imm(Class::F, bits) => self.s("0f").hex(bits, 8),
            Opnd::Imm(Class::E, bits) => self.s("0d").hex(bits, 16),
        }
    }

    /// Appends registers in braces, or a single register without.
    pub(crate) fn vector(&mut self, regs: &[Reg]) -> &mut Text {
        if let [r] = regs {
            return self.r(*r);
        }
        self.braced(regs)
    }

    /// Appends registers in braces.
    pub(crate) fn braced(&mut self, regs: &[Reg]) -> &mut Text {
        self.s("{");
        for (i, &r) in regs.iter().enumerate() {
            if i > 0 {
                self.s(", ");
            }
            self.r(r);
        }
        self.s("}")
    }

    /// Starts an instruction.
    pub(crate) fn op(&mut self, mnemonic: &str) -> &mut Text {
        self.s("\t").s(mnemonic)
    }

    /// Starts an instruction that runs where the predicate holds.
    pub(crate) fn guarded(&mut self, guard: Option<Reg>, mnemonic: &str) -> &mut Text {
        self.s("\t");
        if let Some(p) = guard {
            self.s("@").r(p).s(" ");
        }
        self.s(mnemonic)
    }

    /// Ends an instruction.
    pub(crate) fn end(&mut self) {
        self.s(";\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_literals() {
        let mut t = Text::default();
        t.n(0).s(" ").n(-7).s(" ").n(i64::MIN).s(" ").n(u32::MAX).s(" ");
        t.o(Opnd::Imm(Class::F, u64::from(1f32.to_bits()))).s(" ").o(Opnd::Imm(Class::E, (-2f64).to_bits())).s(" ");
        t.o(Opnd::Imm(Class::R, 0xffff_ffff)).s(" ").o(Opnd::Imm(Class::D, 1 << 63)).s(" ").o(Opnd::Imm(Class::H, 0xbc00));
        assert_eq!(t.out, "0 -7 -9223372036854775808 4294967295 0f3F800000 0dC000000000000000 -1 0x8000000000000000 -17408");
    }

    #[test]
    fn numbers_from_the_table_and_those_behind_it() {
        for x in (0..1200).chain([9_999, 10_000, 123_456_789]) {
            let [mut plus, mut minus] = [Text::default(), Text::default()];
            plus.n(x);
            minus.n(-x);
            assert_eq!((plus.out, minus.out), (x.to_string(), (-x).to_string()));
        }
    }
}
