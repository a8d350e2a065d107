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

/// The digits of each, from the first on, and how many they are.
const DIGITS: [[u8; 4]; SMALL] = {
    let mut all = [[b'0'; 4]; SMALL];
    let mut n = 0;
    while n < SMALL {
        let [hundreds, tens, ones] = [b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
        all[n] = match n {
            0..10 => [ones, 0, 0, 1],
            10..100 => [tens, ones, 0, 2],
            _ => [hundreds, tens, ones, 3],
        };
        n += 1;
    }
    all
};

/// Bytes that are gathered before they are put behind the text.
const GATHERED: usize = 128;

/// Copies `N` to `2 * N` bytes as the first and the last `N` of them, without a call; false if they are not so many, or there is no room.
#[inline]
fn copied<const N: usize>(room: &mut [u8], bytes: &[u8]) -> bool {
    let (Some(&first), Some(&last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else { return false };
    if room.len() != bytes.len() || bytes.len() > 2 * N {
        return false;
    }
    if let Some(to) = room.first_chunk_mut() {
        *to = first;
    }
    if let Some(to) = room.last_chunk_mut() {
        *to = last;
    }
    true
}

/// Text under construction: ASCII. Pieces are short, and put down side by side in a place of their own first.
pub(crate) struct Text {
    out: Vec<u8>,
    gathered: [u8; GATHERED],
    used: usize,
}

impl Default for Text {
    fn default() -> Text {
        Text::with_capacity(0)
    }
}

impl Text {
    /// No text yet, with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Text {
        Text { out: Vec::with_capacity(bytes), gathered: [0; GATHERED], used: 0 }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len() + self.used
    }

    /// The text as a string.
    pub(crate) fn finish(mut self) -> String {
        self.flush();
        // Only whole strings and digits were appended.
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// Puts what is gathered behind the text.
    fn flush(&mut self) {
        self.out.extend_from_slice(&self.gathered[..self.used]);
        self.used = 0;
    }

    /// Appends bytes.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.used + bytes.len() > GATHERED {
            self.flush();
        }
        let room = self.gathered.get_mut(self.used..self.used + bytes.len()).unwrap_or_default();
        // Of a literal the length is known where this is inlined.
        let done = match bytes.len() {
            0 | 1 => copied::<1>(room, bytes),
            2..=4 => copied::<2>(room, bytes),
            5..=8 => copied::<4>(room, bytes),
            9..=16 => copied::<8>(room, bytes),
            17..=32 => copied::<16>(room, bytes),
            33..=64 => copied::<32>(room, bytes),
            _ => false,
        };
        if done {
            self.used += bytes.len();
        } else {
            self.flush();
            self.out.extend_from_slice(bytes);
        }
    }

    /// Appends the first `used` of three bytes, which are put down together.
    #[inline]
    fn put_of(&mut self, bytes: [u8; 3], used: u8) {
        if self.used + bytes.len() > GATHERED {
            self.flush();
        }
        if let Some(room) = self.gathered.get_mut(self.used..).and_then(|free| free.first_chunk_mut()) {
            *room = bytes;
            self.used += usize::from(used);
        }
    }

    /// Appends a piece.
    #[inline]
    pub(crate) fn s(&mut self, piece: &str) -> &mut Text {
        self.put(piece.as_bytes());
        self
    }

    /// Appends another text.
    pub(crate) fn text(&mut self, other: &Text) -> &mut Text {
        self.flush();
        self.out.extend_from_slice(&other.out);
        self.put(&other.gathered[..other.used]);
        self
    }

    /// Appends a number.
    #[inline]
    pub(crate) fn n(&mut self, x: impl Into<i64>) -> &mut Text {
        self.number(x.into())
    }

    fn number(&mut self, x: i64) -> &mut Text {
        if let Some(&[digits @ .., many]) = usize::try_from(x).ok().and_then(|n| DIGITS.get(n)) {
            self.put_of(digits, many);
            return self;
        }
        if x < 0 {
            self.put(b"-");
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
        self.put(&digits[at..]);
        self
    }

    fn hex<const DIGITS: usize>(&mut self, x: u64) -> &mut Text {
        let (mut all, mut left) = ([0; DIGITS], x);
        for digit in all.iter_mut().rev() {
            *digit = b"0123456789ABCDEF"[(left & 15) as usize];
            left >>= 4;
        }
        self.put(&all);
        self
    }

    /// Appends a register.
    pub(crate) fn r(&mut self, (class, number): Reg) -> &mut Text {
        let [name @ .., length] = class.name();
        self.put_of(name, length);
        self.number(number.into())
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
            Opnd::Imm(Class::F, bits) => self.s("0f").hex::<8>(bits),
            Opnd::Imm(Class::E, bits) => self.s("0d").hex::<16>(bits),
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
        let mut regs = regs.iter();
        regs.next().into_iter().for_each(|&r| _ = self.r(r));
        regs.for_each(|&r| _ = self.s(", ").r(r));
        self.s("}")
    }

    /// Starts an instruction.
    #[inline]
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
    #[inline]
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
        assert_eq!(t.finish(), "0 -7 -9223372036854775808 4294967295 0f3F800000 0dC000000000000000 -1 0x8000000000000000 -17408");
    }

    #[test]
    fn pieces_of_every_length_stand_one_behind_the_other() {
        let letters: String = ('a'..='z').cycle().take(300).collect();
        let (mut text, mut behind, mut all) = (Text::default(), Text::default(), String::new());
        for n in (0..300).chain((0..300).rev()) {
            text.s(&letters[..n]).r((Class::D, n as u32));
            all += &format!("{}%rd{n}", &letters[..n]);
        }
        assert_eq!(text.len(), all.len());
        behind.s("x").text(&text).s("y");
        assert_eq!(behind.finish(), format!("x{all}y"));
    }

    #[test]
    fn numbers_from_the_table_and_those_behind_it() {
        for x in (0..1200).chain([9_999, 10_000, 123_456_789]) {
            let [mut plus, mut minus] = [Text::default(), Text::default()];
            plus.n(x);
            minus.n(-x);
            assert_eq!((plus.finish(), minus.finish()), (x.to_string(), (-x).to_string()));
        }
    }
}
