//! Programs from seeds get waits and wait states, and the checkers are content; what is taken away, they miss.

use super::{finish, schedule, schedule_and_allocate};
use crate::alloc::{Allocated, allocate};
use crate::check;
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Opcode, Wait};
use crate::mir::{Block, BlockData, Dpp, File, Inst, Mods, Operand, Program, Span};
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
        if let Err(faults) = check::priorities(&program) {
            panic!("seed {seed}: {:?}\n{}", faults[0], dump(&program));
        }
        if let Err(faults) = check::hazards(&program) {
            panic!("seed {seed}: {:?}\n{}", faults[0], dump(&program));
        }
    }
}

/// A wavefront that shares its unit raises the products of its loops and nothing else; one that has it for itself does not.
#[test]
fn products_of_loops_are_raised() {
    let raises = |program: Program| {
        let program = finish(allocate(program).unwrap_or_else(|e| panic!("{e}")));
        if let Err(faults) = check::priorities(&program) {
            panic!("{:?}\n{}", faults[0], dump(&program));
        }
        let of = |b: &BlockData| b.insts.iter().filter(|i| i.op == Opcode::SSetprio).count();
        program.blocks.values().map(of).collect::<Vec<_>>()
    };
    let one = |waves| schedule(&crate::testing::product::product(waves, 2, 2, 1));
    assert_eq!(raises(one(4)), [0, 2, 0]);
    assert_eq!(raises(one(8)), [0, 2, 0]);
    assert_eq!(raises(schedule(&crate::testing::product::product(4, 4, 4, 1))), [0, 0, 0], "352 registers");
    // Without the step down, the checker sees it.
    let mut program = finish(allocate(one(4)).unwrap_or_else(|e| panic!("{e}")));
    let at = positions(&program, is(Opcode::SSetprio));
    program.blocks[at[1].0].insts.remove(at[1].1);
    assert!(check::priorities(&program).is_err());
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

fn span(file: File, first: u16, words: u8) -> Operand {
    Span::physical(file, first, words).into()
}

fn v(first: u16, words: u8) -> Operand {
    span(File::Vector, first, words)
}

fn s(first: u16, words: u8) -> Operand {
    span(File::Scalar, first, words)
}

fn one_block(chip: Chip, insts: Vec<Inst>) -> Program {
    let mut program = crate::testing::generate::empty(chip, 4);
    program.blocks.push(BlockData { insts, ..BlockData::default() });
    program
}

/// Wait states between pairs of instructions, as the manuals and LLVM have them.
#[test]
fn known_wait_states() {
    use Opcode::*;
    let inst = |op: Opcode, operands: &[Operand]| Inst::new(op, operands.iter().copied());
    let short = inst(VMfmaF32_16x16x16F16, &[v(0, 4), v(8, 2), v(10, 2), v(0, 4)]);
    let long = inst(VMfmaF32_32x32x8F16, &[v(0, 16), v(20, 2), v(22, 2), v(40, 16)]);
    let single = inst(VMfmaF32_16x16x4F32, &[v(0, 4), v(8, 1), v(10, 1), v(0, 4)]);
    let double = inst(VMfmaF64_16x16x4F64, &[v(0, 8), v(20, 2), v(22, 2), v(0, 8)]);
    let add = |to: u16, a: u16| inst(VAddF32, &[v(to, 1), v(a, 1), v(60, 1)]);
    let read = add(50, 1);
    let store = inst(GlobalStoreDword, &[v(60, 1), v(2, 1), s(0, 2)]);
    let factor = inst(VMfmaF32_16x16x16F16, &[v(30, 4), v(0, 2), v(10, 2), v(30, 4)]);
    let shifted = inst(VMfmaF32_16x16x16F16, &[v(30, 4), v(24, 2), v(26, 2), v(2, 4)]);
    let compare = inst(VCmpLtF32, &[s(4, 2), v(50, 1), v(51, 1)]);
    let dpp = Dpp { ctrl: 0x121, row_mask: 15, bank_mask: 15, bound_ctrl: true };
    let lanes = inst(VMovB32, &[v(52, 1), v(50, 1)]).with(Mods { dpp: Some(dpp), ..Mods::default() });
    let to_exec = inst(VCmpxLtF32, &[s(4, 2), v(50, 1), v(51, 1)]);
    let cases = [
        // First, second; states on gfx90a, gfx942, gfx950.
        (&short, &read, [11, 7, 8]),
        (&long, &read, [19, 11, 12]),
        (&short, &store, [11, 7, 8]),
        (&short, &add(1, 60), [11, 7, 8]),
        (&short, &factor, [11, 7, 8]),
        (&short, &short, [0, 0, 0]),
        (&short, &shifted, [8, 5, 6]),
        (&long, &add(41, 60), [15, 7, 7]),
        (&single, &read, [11, 10, 12]),
        (&double, &read, [11, 11, 11]),
        (&double, &store, [18, 18, 18]),
        (&add(8, 60), &short, [2, 2, 2]),
        (&add(50, 60), &lanes, [2, 2, 2]),
        (&to_exec, &lanes, [5, 5, 5]),
        (&to_exec, &short, [4, 4, 4]),
        (&compare, &inst(VCndmaskB32, &[v(53, 1), v(54, 1), v(55, 1), s(4, 2)]), [0, 2, 2]),
        (&compare, &inst(GlobalLoadDword, &[v(53, 1), v(54, 1), s(4, 2)]), [5, 5, 5]),
        (&inst(VReadfirstlaneB32, &[s(6, 1), v(50, 1)]), &inst(VReadlaneB32, &[s(7, 1), v(54, 1), s(6, 1)]), [4, 4, 4]),
        (&inst(VExpF32, &[v(50, 1), v(51, 1)]), &add(53, 50), [0, 1, 1]),
        (&inst(VExpF32, &[v(50, 1), v(51, 1)]), &inst(VLogF32, &[v(53, 1), v(50, 1)]), [0, 0, 0]),
        (&inst(GlobalStoreDwordx4, &[v(60, 1), v(50, 4), s(0, 2)]), &add(51, 60), [1, 2, 2]),
        (&add(50, 60), &add(51, 50), [0, 0, 0]),
    ];
    for (index, (first, second, states)) in cases.into_iter().enumerate() {
        for (chip, states) in Chip::ALL.into_iter().zip(states) {
            let mut program = one_block(chip, vec![first.clone(), second.clone()]);
            super::hazards::insert(&mut program);
            let nops = program.blocks[Block::new(0)].insts.iter().filter(|i| i.op == SNop).map(|i| match i.operands.first() {
                Some(Operand::Imm(n)) => n + 1,
                _ => 0,
            });
            assert_eq!(nops.sum::<i64>(), states, "case {index}, {chip}: {:?} then {:?}", first.op, second.op);
            assert_eq!(check::hazards(&program), Ok(()), "case {index}, {chip}");
        }
    }
}

/// Counts leave younger operations in flight; scalar loads leave none; barriers wait for local data share and stores, not for loads.
#[test]
fn known_waits() {
    use Opcode::*;
    let inst = |op: Opcode, operands: &[Operand]| Inst::new(op, operands.iter().copied());
    let load = |to: u16| inst(GlobalLoadDword, &[v(to, 1), v(60, 1), s(0, 2)]);
    let read = |to: u16| inst(DsReadB32, &[v(to, 1), v(60, 1)]);
    let add = |a: u16| inst(VAddF32, &[v(50, 1), v(a, 1), v(60, 1)]);
    let barrier = || inst(SBarrier, &[]);
    let store = || inst(GlobalStoreDword, &[v(60, 1), v(61, 1), s(0, 2)]);
    let scalar = || inst(SLoadDword, &[s(8, 1), s(0, 2), Operand::Imm(0)]);
    let idle = |n: usize| vec![inst(VMovB32, &[v(51, 1), Operand::Imm(0)]); n];
    let product = || inst(VMfmaF32_32x32x8F16, &[v(64, 16), v(80, 2), v(82, 2), v(64, 16)]);
    let vector = |n: u8| Wait { vector: n, ..Wait::NONE };
    let lgkm = |n: u8| Wait { lgkm: n, ..Wait::NONE };
    let cases = [
        (vec![load(1), load(2), load(3), add(1)], vec![vector(2)]),
        (vec![load(1), load(2), add(2), add(1)], vec![vector(0)]),
        (vec![read(1), read(2), read(3), add(2)], vec![lgkm(1)]),
        (vec![read(1), scalar(), read(2), add(1)], vec![lgkm(0)]),
        (vec![load(1), read(2), add(1), add(2)], vec![vector(0), lgkm(0)]),
        (vec![load(1), store(), load(2), barrier(), add(1)], vec![vector(1)]),
        (vec![load(1), barrier(), add(60)], vec![]),
        (vec![read(1), barrier()], vec![lgkm(0)]),
        (vec![load(1), load(1)], vec![vector(0)]),
        // One wait does for both of what was issued together, and of what was issued long before.
        (vec![read(1), read(2), add(1), add(2)], vec![lgkm(0)]),
        (vec![read(1), read(2), read(3), add(1), add(2)], vec![lgkm(1)]),
        ([vec![read(1)], idle(8), vec![read(2), add(1), add(2)]].concat(), vec![lgkm(1), lgkm(0)]),
        ([vec![read(1)], idle(8), vec![read(2)], idle(24), vec![add(1), add(2)]].concat(), vec![lgkm(0)]),
        ([vec![read(1)], idle(8), vec![read(2)], vec![product(); 4], vec![add(1), add(2)]].concat(), vec![lgkm(0)]),
        (vec![load(1), load(2), read(3), add(1), add(3), add(2)], vec![vector(0), lgkm(0)]),
        // What is issued behind the first wait has one of its own.
        (vec![read(1), add(1), read(2), add(2)], vec![lgkm(0), lgkm(0)]),
    ];
    for (index, (insts, waits)) in cases.into_iter().enumerate() {
        let mut program = one_block(Chip::Gfx942, insts);
        super::waits::insert(&mut program);
        let found: Vec<Wait> = program.blocks[Block::new(0)]
            .insts
            .iter()
            .filter_map(|i| match (i.op, i.operands.first()) {
                (SWaitcnt, Some(Operand::Imm(bits))) => Some(Wait::of(*bits as u16)),
                _ => None,
            })
            .collect();
        assert_eq!(found, waits, "case {index}");
        assert_eq!(check::waits(&program), Ok(()), "case {index}");
    }
}

/// A barrier waits for all that stores to global memory or updates it, whatever comes back and whichever registers data are in.
#[test]
fn barriers_wait_for_all_that_changes_memory() {
    let (mut stores, mut updates) = (0, 0);
    for op in Opcode::all().filter(|op| matches!(op.desc().form.format, Format::Global | Format::Mubuf)) {
        let desc = op.desc();
        let name = desc.mnemonic(Chip::Gfx942);
        let [store, update] = ["_store_", "_atomic_"].map(|part| name.contains(part));
        if !store && !update {
            continue;
        }
        let operands = desc.slots.iter().enumerate().map(|(at, slot)| match slot.kind {
            Kind::Vector | Kind::VectorOrAcc => v(8 * at as u16, slot.words),
            Kind::VectorOrOff | Kind::Address => v(60, 1),
            Kind::ScalarSource => Operand::Imm(0),
            _ => s(8, slot.words),
        });
        let program = one_block(Chip::Gfx942, vec![Inst::new(op, operands), Inst::new(Opcode::SBarrier, [])]);
        let mut waits = program.clone();
        super::waits::insert(&mut waits);
        let of = |program: &Program| program.blocks[Block::new(0)].insts.iter().map(|i| i.op).collect::<Vec<Opcode>>();
        assert_eq!(of(&waits), [op, Opcode::SWaitcnt, Opcode::SBarrier], "{name}");
        assert_eq!(check::waits(&waits), Ok(()), "{name}");
        assert!(check::waits(&program).is_err(), "{name}");
        (stores, updates) = (stores + usize::from(store), updates + usize::from(update));
    }
    assert!(stores >= 16 && updates >= 60, "{stores} stores and {updates} updates are in the table");
}

/// Both orders are allocated to the end, and compared; the search that leaves out what cannot matter finds the same.
#[test]
fn the_better_order_is_found_without_looking_at_all_of_the_other() {
    let (mut early, mut selected, mut spilled) = (0, 0, 0);
    for seed in 0..72 {
        let shape = Shape {
            chip: Chip::Gfx942,
            length: [150, 300, 600][(seed % 3) as usize],
            waves: [8, 24, 32][(seed / 3 % 3) as usize],
            keep: [20, 60, 120][(seed / 9 % 3) as usize],
            wide: seed % 2 == 1,
        };
        let before = program(seed, shape);
        let scheduled = schedule(&before);
        let cost = |a: &Allocated| {
            let spills = a.facts.spills;
            (spills.to_scratch, spills.to_acc, spills.to_lanes, 4 - (512 / a.facts.pool()).min(4))
        };
        let wanted = match (allocate(scheduled.clone()), allocate(before.clone())) {
            (Ok(a), Ok(b)) if cost(&a) > cost(&b) => Ok((before.clone(), b)),
            (Ok(a), _) => Ok((scheduled.clone(), a)),
            (Err(_), second) => second.map(|b| (before.clone(), b)),
        };
        if let Ok((program, allocated)) = &wanted {
            early += usize::from(*program == scheduled && *program != before);
            selected += usize::from(*program == before && *program != scheduled);
            spilled += usize::from(allocated.facts.spills != Default::default());
        }
        assert!(schedule_and_allocate(before) == wanted, "seed {seed}");
    }
    assert!(early > 20 && selected > 0 && spilled > 5, "{early} {selected} {spilled}");
}

/// The opcodes of a block as it is scheduled.
fn order_of(insts: Vec<Inst>) -> Vec<Opcode> {
    let program = schedule(&one_block(Chip::Gfx942, insts));
    program.blocks.values().flat_map(|b| b.insts.iter().map(|i| i.op)).collect()
}

/// Sixteen products of fragments from local data share, and what the next step stores there.
fn step_of_a_product() -> (Vec<Inst>, Vec<Inst>) {
    use Opcode::*;
    let mut products: Vec<Inst> = (0..16).map(|i| Inst::new(DsReadB64, [v(100 + 4 * i, 2), v(90, 1)])).collect();
    products.extend((0..16).map(|i| {
        let (sums, part) = (v(16 * (i % 4), 16), v(100 + 4 * i, 2));
        Inst::new(VMfmaF32_32x32x8F16, [sums, part, v(92, 2), sums])
    }));
    let mut stores = Vec::new();
    for i in 0..8 {
        stores.push(Inst::new(VPermB32, [v(170 + 2 * i, 1), v(190, 1), v(200 + i, 1), s(4, 1)]));
        stores.push(Inst::new(DsWriteB32, [v(91, 1), v(170 + 2 * i, 1)]));
    }
    (products, stores)
}

/// Fragments are loaded while others are multiplied, and the last products hide the stores behind the barrier.
#[test]
fn products_hide_what_stands_around_them() {
    use Opcode::*;
    let (products, stores) = step_of_a_product();
    let barrier = Inst::new(SBarrier, []);
    let order = order_of([products.clone(), vec![barrier.clone()], stores.clone()].concat());
    let all = |op: Opcode| order.iter().enumerate().filter(move |o| *o.1 == op).map(|(at, _)| at).collect::<Vec<usize>>();
    let (reads, multiplied, writes) = (all(DsReadB64), all(VMfmaF32_32x32x8F16), all(DsWriteB32));
    let at = all(SBarrier)[0];
    assert_eq!((reads.len(), multiplied.len(), writes.len()), (16, 16, 8));
    assert!(reads.iter().all(|&r| r < at) && writes.iter().all(|&w| w > at), "accesses pass no barrier: {order:?}");
    let early = reads.iter().filter(|&&r| r < multiplied[0]).count();
    assert!((4..=12).contains(&early), "{early} loads in front of the first product: {order:?}");
    let late = multiplied.iter().filter(|&&m| m > at).count();
    assert!((2..=8).contains(&late), "{late} products behind the barrier: {order:?}");
    assert!(multiplied[15] > writes[3], "products among the stores: {order:?}");
    // Where products stand on both sides, the barrier is passed by nothing.
    let order = order_of([products.clone(), vec![barrier], stores, products].concat());
    let at = order.iter().position(|&o| o == SBarrier).unwrap_or(0);
    assert_eq!(order[..at].iter().filter(|&&o| o == VMfmaF32_32x32x8F16).count(), 16);
}
