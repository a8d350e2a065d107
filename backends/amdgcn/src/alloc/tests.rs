//! Programs from seeds: the checker is content, and an interpreter sees no difference.

use super::{Allocated, allocate};
use crate::check;
use crate::chip::Chip;
use crate::mir::Program;
use crate::testing::generate::{Shape, program};
use crate::testing::interpret::run;

fn shape(seed: u64) -> Shape {
    Shape {
        chip: Chip::Gfx942,
        length: [20, 60, 150, 400][(seed % 4) as usize],
        waves: [1, 4, 8, 16][(seed / 4 % 4) as usize],
        keep: [4, 12, 40, 90][(seed / 16 % 4) as usize],
        wide: seed / 64 % 2 == 1,
    }
}

fn sound(seed: u64, before: &Program) -> Allocated {
    let after = allocate(before.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    if let Err(faults) = check::allocation(before, &after) {
        panic!("seed {seed}: {:?} of {}", faults[0], faults.len());
    }
    let (a, b) = (run(before, 20_000), run(&after.program, 60_000));
    let common = a.stores.len().min(b.stores.len());
    assert_eq!(a.stores[..common], b.stores[..common], "seed {seed}: the programs store different values");
    assert!(!a.ended || b.ended && a.stores.len() == b.stores.len(), "seed {seed}: the allocated program does not end");
    after
}

#[test]
fn random_programs_allocate_and_check() {
    let (mut spilled, mut removed) = (0, 0);
    for seed in 0..600 {
        let before = program(seed, shape(seed));
        let after = sound(seed, &before);
        let count = |p: &Program| p.blocks.values().map(|b| b.insts.len()).sum::<usize>();
        spilled += usize::from(after.facts.spills != Default::default());
        removed += usize::from(count(&after.program) < count(&before));
    }
    assert!(removed > 300, "{removed} programs lost a move");
    eprintln!("{spilled} programs spill, {removed} lose moves");
}
