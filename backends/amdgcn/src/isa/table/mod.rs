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
