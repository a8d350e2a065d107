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

/// Up to eight bytes that stand side by side, the first in the lowest, and how many they are.
#[derive(Clone, Copy)]
struct Word {
    bytes: u64,
    used: u32,
}

impl Word {
    const NONE: Word = Word { bytes: 0, used: 0 };

    const fn of(text: &[u8]) -> Word {
        let mut word = Word::NONE;
        while (word.used as usize) < text.len() {
            word.bytes |= (text[word.used as usize] as u64) << (8 * word.used);
            word.used += 1;
        }
        word
    }

    /// Two, one behind the other, that are no more than eight bytes together.
    #[inline]
    const fn then(self, other: Word) -> Word {
        Word { bytes: self.bytes | other.bytes.unbounded_shl(8 * self.used), used: self.used + other.used }
    }
}

/// The digits of each, the first in the lowest byte, and how many they are in the highest.
const DIGITS: [u32; SMALL] = {
    let mut all = [0; SMALL];
    let mut n = 0;
    while n < SMALL {
        let [hundreds, tens, ones] = [b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
        all[n] = u32::from_le_bytes(match n {
            0..10 => [ones, 0, 0, 1],
            10..100 => [tens, ones, 0, 2],
            _ => [hundreds, tens, ones, 3],
        });
        n += 1;
    }
    all
};

/// What names of registers of each class begin with.
const NAMES: [Word; Class::ALL.len()] = {
    let mut all = [Word::NONE; Class::ALL.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = Word::of(Class::ALL[n].prefix().as_bytes());
        n += 1;
    }
    all
};

/// Text under construction: ASCII. Pieces are short, and put down as words or as chunks of known sizes: what of them is too much goes again.
#[derive(Default)]
pub(crate) struct Text {
    out: Vec<u8>,
}

impl Text {
    /// No text yet, with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Text {
        Text { out: Vec::with_capacity(bytes) }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// The text as a string.
    pub(crate) fn finish(mut self) -> String {
        self.out.shrink_to_fit();
        // Only whole strings and digits were appended.
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// Appends the first `used` bytes of a chunk.
    #[inline]
    pub(crate) fn chunk<const N: usize>(&mut self, chunk: &[u8; N], used: usize) -> &mut Text {
        let end = self.out.len() + used;
        self.out.extend_from_slice(chunk);
        self.out.truncate(end);
        self
    }

    #[inline]
    fn word(&mut self, word: Word) {
        self.chunk(&word.bytes.to_le_bytes(), word.used as usize);
    }

    /// Appends `N` to `2 * N` bytes, as the first and the last `N` of them.
    #[inline]
    fn ends<const N: usize>(&mut self, bytes: &[u8]) {
        if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
            self.chunk(first, bytes.len() - N);
            self.out.extend_from_slice(last);
        }
    }

    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]) {
        match bytes.len() {
            4..=8 => self.ends::<4>(bytes),
            9..=16 => self.ends::<8>(bytes),
            17..=32 => self.ends::<16>(bytes),
            _ => self.out.extend_from_slice(bytes),
        }
    }

    /// Appends a piece. Of a literal the length is known where this is inlined.
    #[inline]
    pub(crate) fn s(&mut self, piece: &str) -> &mut Text {
        match *piece.as_bytes() {
            [] => {}
            [a] => self.out.push(a),
            [a, b] => self.out.extend_from_slice(&[a, b]),
            [a, b, c] => self.word(Word::of(&[a, b, c])),
            ref more => self.put(more),
        }
        self
    }

    /// Appends another text.
    pub(crate) fn text(&mut self, other: &Text) -> &mut Text {
        self.out.extend_from_slice(&other.out);
        self
    }

    /// Puts another text in front of this one.
    pub(crate) fn behind(&mut self, other: &Text) {
        let (own, front) = (self.out.len(), other.out.len());
        self.out.reserve_exact(front);
        self.out.resize(own + front, 0);
        self.out.copy_within(..own, front);
        self.out[..front].copy_from_slice(&other.out);
    }

    /// Appends a number.
    #[inline]
    pub(crate) fn n(&mut self, x: impl Into<i64>) -> &mut Text {
        self.number(Word::NONE, x.into())
    }

    /// Appends a number behind no more than five bytes.
    fn number(&mut self, before: Word, x: i64) -> &mut Text {
        if let Some(&digits) = usize::try_from(x).ok().and_then(|n| DIGITS.get(n)) {
            self.word(before.then(Word { bytes: u64::from(digits & 0xff_ffff), used: digits >> 24 }));
            return self;
        }
        self.word(before);
        if x < 0 {
            self.s("-");
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
        self.out.extend_from_slice(&digits[at..]);
        self
    }

    fn hex<const DIGITS: usize>(&mut self, x: u64) -> &mut Text {
        let (mut all, mut left) = ([0; DIGITS], x);
        for digit in all.iter_mut().rev() {
            *digit = b"0123456789ABCDEF"[(left & 15) as usize];
            left >>= 4;
        }
        self.out.extend_from_slice(&all);
        self
    }

    /// Appends a register.
    pub(crate) fn r(&mut self, (class, number): Reg) -> &mut Text {
        self.number(NAMES[class as usize], number.into())
    }

    /// Appends a comma and a register.
    pub(crate) fn then(&mut self, (class, number): Reg) -> &mut Text {
        self.number(Word::of(b", ").then(NAMES[class as usize]), number.into())
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
        regs.for_each(|&r| _ = self.then(r));
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
        behind.behind(&text);
        assert_eq!(behind.finish(), format!("{all}x{all}y"));
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
