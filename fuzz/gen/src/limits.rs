//! Inputs that try to make a compile long or large, and what a compile may take.
//!
//! ```text
//! mutants      kernel texts with numbers, types and ops exchanged everywhere, lines repeated, instructions in long chains
//! generated    kernels of the generator, with tiles and steps of many sizes; kernels with tasks
//! grown        long chains, many loads, stores, choices and loops, tiles of many elements, dear functions
//! families     one step again and again, for every op: straight, in loops, choices and tasks (the table of `families`)
//! ```

mod families;
mod family;
mod grown;
mod large;
mod mutant;
mod names;
mod tasks;
mod text;

pub use families::{FAMILIES, SHAPES, of_seed};
pub use family::{Family, Need};
pub use grown::grown;
pub use large::{LARGE, Large};
pub use mutant::mutant;
pub use text::{Around, Text};

use crate::config::{Config, Mode};
use crate::explicit::generate_explicit;
use crate::kernel::generate;
use crate::source::Source;
use std::time::Duration;
use tilelift_ir::{Kernel, text as tile_text};
use tilelift_kernels::rng;

/// Instructions up to which a compile has a fixed allowance.
const SMALL: u64 = 50_000;

/// What the compile of a kernel of so many instructions may take.
pub fn time(instructions: usize) -> Duration {
    if instructions as u64 <= SMALL { Duration::from_secs(2) } else { Duration::from_micros(20 * instructions as u64) }
}

/// The most bytes that may be allocated at once in the compile of a kernel of so many instructions, itself left out.
pub fn memory(instructions: usize) -> u64 {
    if instructions as u64 <= SMALL { 256 << 20 } else { 4096 * instructions as u64 }
}

/// Where an input comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// A text of the corpus, changed.
    Mutant,
    /// A kernel of the generator.
    Generated,
    /// A kernel with tasks.
    Explicit,
    /// A kernel that repeats something many times.
    Grown,
    /// A kernel that repeats a step of [`FAMILIES`].
    Family,
}

/// The kernels of a seed; none where a mutant does not parse.
pub fn kernels(seed: u64, corpus: &[String]) -> (Kind, Vec<Kernel>) {
    let r = |i: u64| rng::bits(seed, i);
    let parsed = |source: &str| tile_text::parse(source).map(|f| f.kernels).unwrap_or_default();
    match r(0) % 16 {
        0..6 if !corpus.is_empty() => (Kind::Mutant, parsed(&mutant(&corpus[r(1) as usize % corpus.len()], seed))),
        6..8 => {
            let mode = if r(1) % 2 == 0 { Mode::Exact } else { Mode::Approx };
            let cfg = Config {
                mode,
                max_elements: 1 << (6 + r(2) % 11),
                max_steps: 4 << (r(3) % 8),
                max_depth: 1 + (r(4) % 6) as u32,
                max_work: u64::MAX >> 8,
                ..Config::default()
            };
            (Kind::Generated, generate(&mut Source::from_seed(seed), &cfg).map(|c| vec![c.kernel]).unwrap_or_default())
        }
        8 => (Kind::Explicit, generate_explicit(&mut Source::from_seed(seed)).map(|c| vec![c.kernel]).unwrap_or_default()),
        9..11 => (Kind::Grown, parsed(&grown(seed))),
        _ => (Kind::Family, parsed(&of_seed(seed, usize::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grown_kernels_parse_and_verify() {
        for seed in 0..200 {
            let source = grown(seed);
            if source.len() < 100_000 {
                let file = tile_text::parse(&source).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                assert!(tilelift_ir::verify(&file.kernels[0]).is_ok(), "seed {seed}");
            }
        }
    }

    #[test]
    fn families_parse_and_verify() {
        for family in FAMILIES {
            for (k, &around) in family.around.iter().enumerate() {
                for (s, &shape) in SHAPES.iter().enumerate() {
                    let shape = if family.square { [shape[1]; 2] } else { shape };
                    let ty = family.types[(k + s) % family.types.len()];
                    let source = family.kernel(around, 60, shape, ty, 1 << (s % 4));
                    let file = tile_text::parse(&source).unwrap_or_else(|e| panic!("{}: {e}\n{source}", family.name));
                    if let Err(e) = tilelift_ir::verify(&file.kernels[0]) {
                        panic!("{}, {around:?}: {e}\n{source}", family.name);
                    }
                    assert!(file.kernels[0].insts.len() >= 60, "{}: {}", family.name, file.kernels[0].insts.len());
                }
            }
        }
    }
}
