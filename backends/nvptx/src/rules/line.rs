//! Lines of rules taken apart into texts and placeholders, once in a process.

use crate::class::Class;

/// The most bytes of one piece of text.
pub(crate) const MOST: usize = 24;

/// What stands behind a piece of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// More text, or the end.
    Nothing,
    /// The result.
    Result,
    /// The number that the condition found.
    Number,
    /// An operand.
    Operand(u8),
    /// An operand in a register.
    Register(u8),
    /// A scratch register of a class, by the number that lines call it by.
    Scratch(Class, u32),
}

/// A piece of text, and what stands behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The text, and what fills up.
    pub(crate) text: [u8; MOST],
    /// How many bytes the text is.
    pub(crate) used: u8,
    /// What stands behind it.
    pub(crate) then: Slot,
}

/// The pieces of lines, each with a tabulator in front of it and a semicolon behind it.
pub(super) fn pieces(lines: &[&str]) -> Box<[Piece]> {
    let mut out = Vec::new();
    let mut text = String::new();
    for line in lines {
        text.push('\t');
        let mut rest = *line;
        while let Some(mark) = rest.find(['$', '#']) {
            text.push_str(&rest[..mark]);
            let (then, behind) = slot(&rest[mark..]);
            put(&mut out, &mut text, then);
            rest = behind;
        }
        text.push_str(rest);
        text.push_str(";\n");
    }
    put(&mut out, &mut text, Slot::Nothing);
    out.into()
}

/// The placeholder that a text begins with, and what stands behind it.
fn slot(text: &str) -> (Slot, &str) {
    let (is_register, letter) = (text.starts_with('$'), text.as_bytes().get(1).copied().unwrap_or_default());
    let behind = text.get(2..).unwrap_or_default();
    match letter {
        b'd' => (Slot::Result, behind),
        b'k' => (Slot::Number, behind),
        b'a'..=b'c' if is_register => (Slot::Register(letter - b'a'), behind),
        b'a'..=b'c' => (Slot::Operand(letter - b'a'), behind),
        _ => {
            let after = behind.trim_start_matches(|c: char| c.is_ascii_digit());
            let number = behind[..behind.len() - after.len()].parse().unwrap_or_default();
            (Slot::Scratch(scratch_class(letter), number), after)
        }
    }
}

fn scratch_class(letter: u8) -> Class {
    match letter {
        b'p' => Class::P,
        b'h' => Class::H,
        b'q' => Class::D,
        b'f' => Class::F,
        b'e' => Class::E,
        _ => Class::R,
    }
}

/// Ends what is gathered of a text, in as many pieces as it takes.
fn put(out: &mut Vec<Piece>, text: &mut String, then: Slot) {
    let mut chunks = text.as_bytes().chunks(MOST).peekable();
    loop {
        let chunk = chunks.next().unwrap_or_default();
        let mut piece = Piece { text: [0; MOST], used: chunk.len() as u8, then: Slot::Nothing };
        piece.text[..chunk.len()].copy_from_slice(chunk);
        let last = chunks.peek().is_none();
        if last {
            piece.then = then;
        }
        out.push(piece);
        if last {
            break;
        }
    }
    text.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_texts_and_what_stands_between_them() {
        let all = pieces(&["a_mnemonic.that.is.longer.than.a.piece $d, #a, $k", "mov $r12, $b"]);
        let texts: Vec<&[u8]> = all.iter().map(|p| &p.text[..usize::from(p.used)]).collect();
        let wanted: [&[u8]; 7] = [b"\ta_mnemonic.that.is.long", b"er.than.a.piece ", b", ", b", ", b";\n\tmov ", b", ", b";\n"];
        assert_eq!(texts, wanted);
        let slots: Vec<Slot> = all.iter().map(|p| p.then).collect();
        use Slot::{Nothing, Number, Operand, Register, Result, Scratch};
        assert_eq!(slots, [Nothing, Result, Operand(0), Number, Scratch(Class::R, 12), Register(1), Nothing]);
    }
}
