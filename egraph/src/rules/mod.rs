//! The rules: a table, one entry a rule, in a file per family.
//!
//! A rule looks at one node of a class and answers with a term that equals it, or with nothing. It reads facts of classes
//! (`analysis.rs`) and nodes a level or two down, changes nothing, and says each identity in one direction: the right side costs
//! no more. Order of operands is settled where nodes are made, so no rule commutes or associates.
//!
//! An entry carries its own proof material: `fires` and `keeps` are programs in which the rule must and must not apply, over all the
//! types of `over`; the tests run both, and compare the first with the interpreter on random inputs. A field that is missing does not
//! compile. The contract, in [`Class`]: an `exact` rule keeps every bit (a NaN stays a NaN).

mod algebra;
mod casts;
mod dots;
mod float;
mod integer;
mod loops;
mod masks;
mod moments;
mod moves;
mod reduces;
pub(crate) mod rule;
mod scales;
mod types;

pub use rule::{Class, Rule};
pub use types::{Types, pairs};

/// The tables, in order.
const TABLES: &[&[Rule]] = &[
    algebra::RULES,
    integer::RULES,
    float::RULES,
    scales::RULES,
    casts::RULES,
    moves::RULES,
    masks::RULES,
    reduces::RULES,
    dots::RULES,
    loops::RULES,
    moments::RULES,
];

/// A rule whose programs are empty does not compile.
const _: () = {
    let mut t = 0;
    while t < TABLES.len() {
        let mut r = 0;
        while r < TABLES[t].len() {
            let rule = &TABLES[t][r];
            assert!(!rule.fires.is_empty() && !rule.keeps.is_empty() && !rule.says.is_empty(), "a rule without its programs");
            r += 1;
        }
        t += 1;
    }
};

/// Every rule, in table order.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().flat_map(|t| t.iter())
}

/// Number of the rule set; part of a compile's identity.
pub const VERSION: u32 = 8;
