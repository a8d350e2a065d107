//! The rows: one line per instruction, in files by what they are about.
//!
//! ```text
//! name in Rust, "mnemonic" ( / "that of gfx90a"), form, number, [operands] implicit registers;
//! ```
//!
//! The number is one for all chips, or `[gfx90a gfx942 gfx950]` with `-` where a chip lacks it. `words.rs` and `form.rs` have the words.
//! Each file is a macro that hands its rows to the next one's, and the last ones to `define`, so that a new instruction is one line.

#[macro_use]
mod scalar;
#[macro_use]
mod vector;
#[macro_use]
mod compare;
#[macro_use]
mod matrix;
#[macro_use]
mod lds;
#[macro_use]
mod memory;
mod words;

use super::desc::Desc;
use super::form::words as forms;
use words::*;

macro_rules! numbers {
    ([$($number:tt)*]) => { [$(number!($number)),*] };
    ($number:literal) => { [Some($number); 3] };
}

macro_rules! number {
    (-) => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}

macro_rules! old_name {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

macro_rules! define {
    ($($op:ident $name:literal $(/ $old:literal)? $form:ident $number:tt [$($slot:ident)*] $implicit:ident;)*) => {
        /// An instruction. Named as the assembler has it on gfx942, without underscores but between digits: `v_add_f32` is `VAddF32`.
        ///
        /// Where one mnemonic has several lists of operands, each is a row: atomics that return what was there end in `Rtn`, and buffer
        /// loads to local data share in `Lds`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)] // the manuals' names
        pub enum Opcode {
            $($op),*
        }

        const ALL: &[Opcode] = &[$(Opcode::$op),*];

        static TABLE: &[Desc] = &[$(Desc {
            name: $name,
            old_name: old_name!($($old)?),
            form: forms::$form,
            numbers: numbers!($number),
            slots: &[$($slot),*],
            implicit: $implicit,
        }),*];
    };
}

scalar_rows! {}

impl Opcode {
    /// All of them, in the table's order.
    pub fn all() -> impl ExactSizeIterator<Item = Opcode> {
        ALL.iter().copied()
    }

    /// Its row.
    pub fn desc(self) -> &'static Desc {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Chip;
    use crate::isa::{Access, Format, Variant};
    use std::collections::HashMap;

    /// As names are made: an underscore stays between digits.
    fn camel(mnemonic: &str) -> String {
        mnemonic.split('_').fold(String::new(), |mut name, part| {
            let digits = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            if digits(name.chars().last()) && digits(part.chars().next()) {
                name.push('_');
            }
            let mut letters = part.chars();
            name.extend(letters.next().map(|c| c.to_ascii_uppercase()));
            name.push_str(letters.as_str());
            name
        })
    }

    #[test]
    fn rows_are_named_as_the_assembler_names_them() {
        for op in Opcode::all() {
            let (desc, name) = (op.desc(), format!("{op:?}"));
            let behind = match (desc.form.variant, desc.form.format) {
                (Variant::Returns, _) => "Rtn",
                (Variant::ToLds, Format::Mubuf) => "Lds",
                _ => "",
            };
            let told = camel(desc.mnemonic(Chip::Gfx942)) + behind;
            // Some rows are gfx90a's alone, and spelled there without an underscore.
            let told = if desc.number(Chip::Gfx942).is_none() { told.to_lowercase().replace('_', "") } else { told };
            let name = if desc.number(Chip::Gfx942).is_none() { name.to_lowercase().replace('_', "") } else { name };
            assert_eq!(name, told);
        }
    }

    #[test]
    fn no_two_rows_have_a_number() {
        for chip in Chip::ALL {
            let mut seen = HashMap::new();
            for op in Opcode::all() {
                let desc = op.desc();
                let Some(number) = desc.number(chip) else { continue };
                // What a bit tells apart has one number.
                let returns = desc.form.variant == Variant::Returns && desc.form.format != Format::Ds;
                let to_lds = desc.form.variant == Variant::ToLds && desc.form.format == Format::Mubuf;
                // The longer forms of short formats are numbered with those that have no other.
                let format = desc.form.long.map_or(desc.form.format, |(long, _)| long);
                let vector = |f| {
                    if f == Format::Vop3b {
                        Format::Vop3a
                    } else if f == Format::Vop3px2 || f == Format::Mai {
                        Format::Vop3p
                    } else {
                        f
                    }
                };
                let number = desc.form.long.map_or(number, |(_, by)| number + by);
                let scaled = desc.form.format == Format::Vop3px2;
                let other = seen.insert((vector(format), number, returns, to_lds, scaled), op);
                assert_eq!(other, None, "{op:?} on {chip}");
            }
        }
    }

    #[test]
    fn results_stand_first() {
        for op in Opcode::all() {
            let slots = op.desc().slots;
            let sources_begin = slots.iter().position(|s| s.access == Access::Use).unwrap_or(slots.len());
            assert!(slots[sources_begin..].iter().all(|s| s.access == Access::Use), "{op:?}");
        }
    }
}
