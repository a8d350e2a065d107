//! Programs from seeds: the checker is content, and an interpreter sees no difference.

use super::{Allocated, allocate};
use crate::check;
use crate::chip::Chip;
use crate::isa::Access;
use crate::mir::{Block, File, Inst, Operand, Program, Reg, Span};
use crate::testing::generate::{Rng, Shape, program};
use cranelift_entity::EntityRef;
use crate::testing::dump;
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

/// What a planted fault does to a program; nothing if the place does not suit.
type Plant = fn(&mut Program, Block, usize, &mut Rng) -> Option<()>;

/// Words of the vector file that an operand names.
fn vector_words(inst: &Inst, operand: usize) -> Option<(u16, u8)> {
    match inst.operands.get(operand)? {
        Operand::Reg(Span { reg: Reg::Physical(File::Vector, number), first: 0, words }) => Some((*number, *words)),
        _ => None,
    }
}

fn reads(inst: &Inst) -> Vec<usize> {
    let slots = inst.op.desc().slots;
    (0..inst.operands.len()).filter(|&i| slots.get(i).is_some_and(|s| s.access == Access::Use) && vector_words(inst, i).is_some()).collect()
}

/// The first instruction behind `at` in its block that reads the words before anything writes them.
fn reader(insts: &[Inst], at: usize, (first, words): (u16, u8)) -> Option<usize> {
    let meets = |inst: &Inst, i: usize| vector_words(inst, i).is_some_and(|(n, w)| n < first + u16::from(words) && first < n + u16::from(w));
    for (index, inst) in insts.iter().enumerate().skip(at + 1) {
        if reads(inst).into_iter().any(|i| meets(inst, i)) {
            return Some(index);
        }
        if (0..inst.operands.len()).any(|i| meets(inst, i)) {
            return None;
        }
    }
    None
}

/// A source is read from the next tuple.
fn wrong_source(program: &mut Program, block: Block, at: usize, rng: &mut Rng) -> Option<()> {
    let inst = &mut program.blocks[block].insts[at];
    let operands = reads(inst);
    let operand = *operands.get(rng.below(operands.len().max(1)))?;
    let (number, words) = vector_words(inst, operand)?;
    let step = if words > 1 { 2 } else { 1 };
    inst.operands[operand] = Span::physical(File::Vector, if number >= step { number - step } else { number + step }, words).into();
    Some(())
}

/// A result that is read later is written somewhere else.
fn wrong_result(program: &mut Program, block: Block, at: usize, _: &mut Rng) -> Option<()> {
    let insts = &program.blocks[block].insts;
    let written = vector_words(&insts[at], 0).filter(|_| insts[at].op.desc().slots.first().is_some_and(|s| s.access == Access::Def))?;
    reader(insts, at, written)?;
    program.blocks[block].insts[at].operands[0] = Span::physical(File::Vector, if written.0 > 150 { 100 } else { 200 }, written.1).into();
    Some(())
}

/// A result is written over another value that is still read.
fn clobber(program: &mut Program, block: Block, at: usize, _: &mut Rng) -> Option<()> {
    let insts = &program.blocks[block].insts;
    let written = vector_words(&insts[at], 0).filter(|_| insts[at].op.desc().slots.first().is_some_and(|s| s.access == Access::Def))?;
    let step = u16::from(written.1.next_multiple_of(2));
    let victim = (written.0 & !1) + step;
    let first_reader = reader(insts, at, (victim, written.1))?;
    if insts[at + 1..first_reader].iter().any(|i| i.op == insts[at].op) {
        return None;
    }
    program.blocks[block].insts[at].operands[0] = Span::physical(File::Vector, victim, written.1).into();
    Some(())
}

#[test]
fn planted_faults_are_found() {
    let plants: [(&str, Plant); 3] = [("source", wrong_source), ("result", wrong_result), ("clobber", clobber)];
    let mut planted = [0; 3];
    for seed in 0..240 {
        let before = program(seed, shape(seed));
        let after = allocate(before.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut rng = Rng::new(seed + 77);
        for (index, (name, plant)) in plants.iter().enumerate() {
            for _ in 0..20 {
                let mut wrong = after.clone();
                let block = Block::new(rng.below(wrong.program.blocks.len()));
                let count = wrong.program.blocks[block].insts.len();
                if count == 0 {
                    continue;
                }
                let at = rng.below(count);
                if plant(&mut wrong.program, block, at, &mut rng).is_none() {
                    continue;
                }
                let found = check::allocation(&before, &wrong).is_err();
                // The other register may hold the same value, by a move.
                if !found && run(&after.program, 60_000) == run(&wrong.program, 60_000) {
                    continue;
                }
                planted[index] += 1;
                assert!(found, "seed {seed}: {name} in {block} at {at} is not found\n{}\n{}", dump(&before), dump(&wrong.program));
                break;
            }
        }
    }
    assert!(planted.iter().all(|&n| n > 60), "{planted:?}");
}
