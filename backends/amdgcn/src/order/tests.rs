//! Programs from seeds get waits and wait states, and the checkers are content; what is taken away, they miss.

use super::{finish, schedule, schedule_and_allocate};
use crate::alloc::allocate;
use crate::check;
use crate::chip::Chip;
use crate::isa::{Access, Format, Opcode, Wait};
use crate::mir::{Block, Operand, Program};
use crate::testing::dump;
use crate::testing::generate::{Shape, program};
use crate::testing::interpret::run;
use cranelift_entity::EntityRef;

fn finished(seed: u64) -> Program {
    let shape = Shape {
        chip: [Chip::Gfx942, Chip::Gfx950, Chip::Gfx90a][(seed % 3) as usize],
        length: [20, 60, 150, 300][(seed / 3 % 4) as usize],
        waves: [1, 4, 8][(seed / 12 % 3) as usize],
        keep: [4, 12, 20][(seed / 36 % 3) as usize],
        wide: seed / 108 % 2 == 1,
    };
    let before = program(seed, shape);
    match allocate(before) {
        Ok(allocated) => finish(allocated),
        Err(e) => panic!("seed {seed}: {e}"),
    }
}

#[test]
fn random_programs_wait_enough() {
    for seed in 0..300 {
        let program = finished(seed);
        if let Err(faults) = check::waits(&program) {
            panic!("seed {seed}: {:?}\n{}", faults[0], dump(&program));
        }
        if let Err(faults) = check::hazards(&program) {
            panic!("seed {seed}: {:?}\n{}", faults[0], dump(&program));
        }
    }
}

fn positions(program: &Program, wanted: impl Fn(&Program, Block, usize) -> bool) -> Vec<(Block, usize)> {
    let all = program.blocks.iter().flat_map(|(b, data)| (0..data.insts.len()).map(move |at| (b, at)));
    all.filter(|&(b, at)| wanted(program, b, at)).collect()
}

fn is(op: Opcode) -> impl Fn(&Program, Block, usize) -> bool {
    move |p, b, at| p.blocks[b].insts[at].op == op
}

/// Each wait is needed, and each count is the largest that will do.
#[test]
fn dropped_and_weaker_waits_are_found() {
    let (mut planted, mut weaker) = (0, 0);
    for seed in (0..300).step_by(3) {
        let program = finished(seed + seed / 3 % 3);
        for (block, at) in positions(&program, is(Opcode::SWaitcnt)) {
            let mut without = program.clone();
            without.blocks[block].insts.remove(at);
            assert!(check::waits(&without).is_err(), "seed {seed}: a dropped wait in {block} at {at} is not found\n{}", dump(&program));
            planted += 1;
            let Some(Operand::Imm(bits)) = program.blocks[block].insts[at].operands.first() else { continue };
            let wait = Wait::of(*bits as u16);
            // Counts that are capped wait for more than they must.
            let vector = (wait.vector < 62).then_some(Wait { vector: wait.vector + 1, ..wait });
            let lgkm = (wait.lgkm < 14).then_some(Wait { lgkm: wait.lgkm + 1, ..wait });
            for wrong in vector.into_iter().chain(lgkm) {
                let mut other = program.clone();
                other.blocks[block].insts[at].operands[0] = Operand::Imm(wrong.bits().into());
                assert!(
                    check::waits(&other).is_err(),
                    "seed {seed}: {wrong:?} for {wait:?} in {block} at {at} is not found\n{}",
                    dump(&program)
                );
                weaker += 1;
            }
        }
    }
    assert!(planted > 500 && weaker > 500, "{planted} {weaker}");
}

#[test]
fn dropped_and_shorter_nops_are_found() {
    let mut planted = 0;
    let mut missed = 0;
    for seed in 0..300 {
        let program = finished(seed);
        for (block, at) in positions(&program, is(Opcode::SNop)) {
            let mut without = program.clone();
            without.blocks[block].insts.remove(at);
            planted += 1;
            if check::hazards(&without).is_ok() {
                missed += 1;
                eprintln!("seed {seed}: {block} {at}\n{}", dump(&program));
            }
        }
    }
    assert!(planted > 300, "{planted}");
    eprintln!("{missed} of {planted} missed");
    assert_eq!(missed, 0);
}

#[test]
fn blocks_keep_their_order() {
    let program = finished(5);
    assert!(program.blocks.keys().enumerate().all(|(i, b)| b.index() == i));
}

/// Per block the instructions on local data share, or on other memory: stores in order, and between them the loads in any order.
fn accesses(program: &Program, lds: bool) -> Vec<Vec<String>> {
    let block = |data: &crate::mir::BlockData| {
        let mut all: Vec<String> = Vec::new();
        let mut loads: Vec<String> = Vec::new();
        for inst in &data.insts {
            let desc = inst.op.desc();
            let fence = desc.form.format == Format::Sopp;
            let mine = if lds { desc.form.format == Format::Ds } else { matches!(desc.form.format, Format::Global | Format::Smem) };
            let store = desc.slots.iter().all(|s| s.access == Access::Use);
            if fence || mine && store {
                loads.sort();
                all.append(&mut loads);
                all.push(format!("{inst:?}"));
            } else if mine {
                loads.push(format!("{inst:?}"));
            }
        }
        loads.sort();
        all.append(&mut loads);
        all
    };
    program.blocks.values().map(block).collect()
}

/// What each instruction reads was written by the same instructions as before: the interpreter sees the same stores in the same order.
#[test]
fn reordered_programs_do_the_same() {
    let mut moved = 0;
    for seed in 0..150 {
        let shape = Shape {
            chip: Chip::Gfx942,
            length: [20, 60, 150, 400][(seed % 4) as usize],
            waves: 4,
            keep: [4, 12, 40][(seed / 4 % 3) as usize],
            wide: seed % 2 == 1,
        };
        let before = program(seed, shape);
        let after = schedule(&before);
        moved += usize::from(after != before);
        assert_eq!(accesses(&before, true), accesses(&after, true), "seed {seed}");
        assert_eq!(accesses(&before, false), accesses(&after, false), "seed {seed}");
        let (a, b) = (run(&before, 20_000), run(&after, 20_000));
        let common = a.stores.len().min(b.stores.len());
        assert_eq!(a.stores[..common], b.stores[..common], "seed {seed}");
        assert!(a.stores.len().abs_diff(b.stores.len()) < 64, "seed {seed}");
        assert_eq!(a.ended, b.ended, "seed {seed}");
        let (allocated_of, allocated) = schedule_and_allocate(before).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(check::allocation(&allocated_of, &allocated), Ok(()), "seed {seed}");
    }
    assert!(moved > 120, "{moved}");
}
