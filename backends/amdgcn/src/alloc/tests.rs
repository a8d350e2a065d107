//! Programs from seeds: the checker is content, and an interpreter sees no difference.

use super::{Allocated, allocate};
use crate::check;
use crate::chip::Chip;
use crate::mir::Program;
use crate::testing::dump;
use crate::testing::generate::{Shape, program};
use crate::testing::interpret::{POISON, run};

fn shape(seed: u64) -> Shape {
    Shape {
        chip: Chip::Gfx942,
        length: [20, 60, 150, 400][(seed % 4) as usize],
        waves: [1, 4, 8, 16][(seed / 4 % 4) as usize],
        keep: [4, 12, 40, 90][(seed / 16 % 4) as usize],
        wide: seed / 64 % 2 == 1,
    }
}

fn sound(seed: u64, before: &Program) -> (Allocated, usize) {
    let after = allocate(before.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    if let Err(faults) = check::allocation(before, &after) {
        eprintln!("{}\n{}", dump(before), dump(&after.program));
        panic!("seed {seed}: {:?}", &faults[..faults.len().min(6)]);
    }
    let (a, b) = (run(before, 20_000), run(&after.program, 60_000));
    let differ = a.stores.iter().zip(&b.stores).position(|(a, b)| *a != POISON && a != b);
    assert_eq!(differ, None, "seed {seed}: the programs store different values");
    let known = a.stores.iter().filter(|s| **s != POISON).count();
    assert!(!a.ended || b.ended && a.stores.len() == b.stores.len(), "seed {seed}: the allocated program does not end");
    (after, known)
}

#[test]
fn random_programs_allocate_and_check() {
    let range = std::env::var("RA_SEEDS").ok();
    let range: Vec<u64> = range.iter().flat_map(|r| r.split(',')).filter_map(|n| n.parse().ok()).collect();
    let (from, to) = if let [from, to] = range[..] { (from, to) } else { (0, 400) };
    let (mut spilled, mut removed, mut compared) = (0, 0, 0);
    for seed in from..to {
        let before = program(seed, shape(seed));
        let (after, known) = sound(seed, &before);
        compared += known;
        let count = |p: &Program| p.blocks.values().map(|b| b.insts.len()).sum::<usize>();
        spilled += usize::from(after.facts.spills != Default::default());
        removed += usize::from(count(&after.program) < count(&before));
    }
    assert!(removed > 300, "{removed} programs lost a move");
    eprintln!("{spilled} programs spill, {removed} lose moves, {compared} stores compared");
}

#[test]
fn show_levels() {
    let Some(seed) = std::env::var("RA_SHOW").ok().and_then(|s| s.parse().ok()) else { return };
    let program = program(seed, shape(seed));
    let levels = super::exec::levels(&program);
    for (block, data) in program.blocks.iter() {
        use cranelift_entity::EntityRef;
        eprintln!("{block} {:?} -> {:?} {:?}", levels.entry[block.index()], data.next, levels.changes[block.index()]);
    }
}
