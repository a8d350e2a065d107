//! Programs from seeds: the checker is content, and an interpreter sees no difference.

use super::fuel::{Fuel, STEPS};
use super::{AllocError, Allocated, Budget, Spills, allocate, allocate_within};
use crate::check;
use crate::chip::Chip;
use crate::isa::{Access, Opcode};
use crate::mir::{Block, BlockData, File, Inst, Operand, Program, Reg, Span, VRegData};
use crate::testing::dump;
use crate::testing::generate::{Rng, Shape, empty, program};
use crate::testing::interpret::{POISON, run};
use crate::testing::product::product;
use cranelift_entity::EntityRef;

fn shape(seed: u64) -> Shape {
    Shape {
        chip: Chip::Gfx942,
        length: [20, 60, 200, 900][(seed % 4) as usize],
        waves: [1, 4, 8, 16][(seed / 4 % 4) as usize],
        keep: [4, 12, 60, 250][(seed / 16 % 4) as usize],
        wide: seed / 64 % 2 == 1,
    }
}

fn sound(seed: u64, before: &Program) -> (Allocated, usize) {
    sound_within(seed, before, Budget::of(before.waves))
}

fn sound_within(seed: u64, before: &Program, budget: Budget) -> (Allocated, usize) {
    let after = allocate_within(before.clone(), budget, &Fuel::new(STEPS)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let (a, b) = (run(before, 20_000), run(&after.program, 60_000));
    let differ = a.stores.iter().zip(&b.stores).position(|(a, b)| *a != POISON && a != b);
    assert_eq!(differ, None, "seed {seed}: the programs store different values");
    let known = a.stores.iter().filter(|s| **s != POISON).count();
    assert!(!a.ended || b.ended && a.stores.len() == b.stores.len(), "seed {seed}: the allocated program does not end");
    if let Err(faults) = check::allocation(before, &after) {
        eprintln!("{}\n{}", dump(before), dump(&after.program));
        panic!("seed {seed}: {:?}", &faults[..faults.len().min(6)]);
    }
    (after, known)
}

#[test]
fn random_programs_allocate_and_check() {
    let range = std::env::var("RA_SEEDS").ok();
    let range: Vec<u64> = range.iter().flat_map(|r| r.split(',')).filter_map(|n| n.parse().ok()).collect();
    let (from, to) = if let [from, to] = range[..] { (from, to) } else { (0, 192) };
    let (mut spilled, mut removed, mut compared) = (0, 0, 0);
    for seed in from..to {
        let before = program(seed, shape(seed));
        let (after, known) = sound(seed, &before);
        compared += known;
        let count = |p: &Program| p.blocks.values().map(|b| b.insts.len()).sum::<usize>();
        spilled += usize::from(after.facts.spills != Default::default());
        removed += usize::from(count(&after.program) < count(&before));
    }
    assert!(removed > 150, "{removed} programs lost a move");
    eprintln!("{spilled} programs spill, {removed} lose moves, {compared} stores compared");
}

/// With a few registers, everything goes everywhere.
#[test]
fn spilled_programs_check() {
    let mut spills = [0; 3];
    for seed in 0..90 {
        // Chips differ in how they name scratch memory.
        let chip = [Chip::Gfx942, Chip::Gfx90a][(seed / 3 % 2) as usize];
        let before = program(seed, Shape { chip, wide: false, ..shape(seed) });
        let budget = [
            Budget { scalars: 40, file: 256, pool: 40 },
            Budget { scalars: 102, file: 30, pool: 80 },
            Budget { scalars: 36, file: 32, pool: 56 },
        ][(seed % 3) as usize];
        let (after, _) = sound_within(seed, &before, budget);
        let Spills { to_lanes, to_acc, to_scratch } = after.facts.spills;
        spills.iter_mut().zip([to_lanes, to_acc, to_scratch]).for_each(|(n, some)| *n += u32::from(some > 0));
        let finished = crate::order::finish(after);
        assert_eq!(check::waits(&finished), Ok(()), "seed {seed}");
        assert_eq!(check::hazards(&finished), Ok(()), "seed {seed}");
        assert_eq!(check::scratch(&finished), Ok(()), "seed {seed}");
    }
    eprintln!("{spills:?}");
    assert!(spills.iter().all(|&n| n > 8), "{spills:?}");
}

/// Programs for gfx90a that keep registers in scratch memory, before and behind allocation.
fn in_scratch() -> impl Iterator<Item = (u64, Program, Allocated)> {
    let budget = Budget { scalars: 102, file: 30, pool: 60 };
    let programs = (0..60).map(|seed| (seed, program(seed, Shape { chip: Chip::Gfx90a, wide: false, ..shape(seed) })));
    let allocated = programs.map(move |(seed, before)| {
        let after = allocate_within(before.clone(), budget, &Fuel::new(STEPS)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        (seed, before, after)
    });
    allocated.filter(|(_, _, after)| after.facts.spills.to_scratch > 0)
}

/// The register beside the offset must be zero: one that is not made so, or another one, is found.
#[test]
fn scratch_memory_begins_at_zero() {
    let mut planted = 0;
    for (seed, before, after) in in_scratch().take(8) {
        assert_eq!(check::allocation(&before, &after), Ok(()), "seed {seed}");
        let begin = Block::new(0);
        let zero = |i: &Inst| i.op == Opcode::SMovB32 && i.operands[1] == Operand::Imm(0);
        let at = after.program.blocks[begin].insts.iter().position(zero).unwrap();
        assert_eq!(after.origin[0][at], None);
        let mut faults = [after.clone(), after.clone(), after.clone()];
        faults[0].program.blocks[begin].insts.remove(at);
        faults[0].origin[0].remove(at);
        faults[1].program.blocks[begin].insts[at].operands[1] = 4.into();
        let accesses = faults[2].program.blocks.values_mut().flat_map(|b| &mut b.insts);
        let access = accesses.into_iter().find(|i| i.op == Opcode::ScratchLoadDword).unwrap();
        access.operands[2] = Span::physical(File::Scalar, 101, 1).into();
        for (index, wrong) in faults.iter().enumerate() {
            assert!(check::allocation(&before, wrong).is_err(), "seed {seed}: fault {index}\n{}", dump(&wrong.program));
            planted += 1;
        }
    }
    assert_eq!(planted, 24);
}

/// What a planted fault does to the instructions of a block.
type InBlock = fn(&mut Vec<Inst>);

/// Its address is made at the kernel's beginning: what is left out, in another order, or of other registers is found.
#[test]
fn scratch_memory_is_set_up() {
    let mut planted = 0;
    for (seed, before, after) in in_scratch().take(8) {
        let good = crate::order::finish(after);
        assert_eq!(check::scratch(&good), Ok(()), "seed {seed}");
        let insts = &good.blocks[Block::new(0)].insts;
        assert_eq!((insts[0].op, insts[1].op, insts[2].op), (Opcode::SAddU32, Opcode::SAddcU32, Opcode::SMovB32), "{:?}", before.entry);
        let plants: [InBlock; 8] = [
            |i| drop(i.remove(0)),
            |i| drop(i.remove(1)),
            |i| drop(i.remove(2)),
            |i| i.swap(0, 1),
            |i| i.swap(0, 2),
            |i| i[1].operands[1] = i[0].operands[1],
            |i| i[0].operands[2] = i[2].operands[1],
            |i| {
                let set_up: Vec<Inst> = i.drain(..2).collect();
                i.extend(set_up);
            },
        ];
        for (index, plant) in plants.into_iter().enumerate() {
            let mut wrong = good.clone();
            plant(&mut wrong.blocks[Block::new(0)].insts);
            assert!(check::scratch(&wrong).is_err(), "seed {seed}: fault {index}\n{}", dump(&wrong));
            planted += 1;
        }
        // Fewer bytes than it accesses.
        for bytes in [0, good.scratch_bytes - 4] {
            let wrong = Program { scratch_bytes: bytes, ..good.clone() };
            assert!(check::scratch(&wrong).is_err(), "seed {seed}: {bytes} bytes");
        }
    }
    assert_eq!(planted, 64);
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
    let meets =
        |inst: &Inst, i: usize| vector_words(inst, i).is_some_and(|(n, w)| n < first + u16::from(words) && first < n + u16::from(w));
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
    for seed in 0..128 {
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
    assert!(planted.iter().all(|&n| n > 40), "{planted:?}");
}

#[test]
fn products_spill_nothing() {
    for (waves, rows, columns, most) in [(4, 2, 2, 104), (8, 2, 4, 192), (4, 4, 4, 352), (16, 2, 2, 104), (4, 2, 6, 288)] {
        let before = product(waves, rows, columns, 2);
        let (after, _) = sound(0, &before);
        let facts = after.facts;
        eprintln!("{waves} {rows}x{columns}: {facts:?} pool {}", facts.pool());
        assert_eq!(facts.spills, Default::default());
        assert!(facts.pool() <= most, "{waves} waves, {rows}x{columns}: {facts:?}");
        let finished = crate::order::finish(after);
        assert_eq!(check::waits(&finished), Ok(()));
        assert_eq!(check::hazards(&finished), Ok(()));
    }
}

/// Long programs take time in proportion; the bound is loose, for machines under load.
#[test]
fn time_is_near_linear() {
    let long = product(4, 4, 3, 420);
    let count: usize = long.blocks.values().map(|b| b.insts.len()).sum();
    let start = std::time::Instant::now();
    let after = allocate(long).unwrap_or_else(|e| panic!("{e}"));
    let allocated = start.elapsed();
    let finished = crate::order::finish(after);
    let all = start.elapsed();
    let start = std::time::Instant::now();
    let random = program(3, Shape { chip: Chip::Gfx942, length: 20_000, waves: 4, keep: 30, wide: true });
    let insts: usize = random.blocks.values().map(|b| b.insts.len()).sum();
    let generated = start.elapsed();
    let spilled = allocate(random).map(|a| a.facts);
    eprintln!("{count} instructions: allocation {allocated:?}, with waits and hazards {all:?}, {} blocks", finished.blocks.len());
    eprintln!("random, {insts} instructions: {:?} {spilled:?}", start.elapsed() - generated);
    assert!(all.as_secs() < 5, "{all:?}");
}

/// Loads under guards, one behind another, that are all alive until they are converted and stored: `count` of them.
fn guarded_loads(count: usize) -> Program {
    let mut p = empty(Chip::Gfx942, 1);
    let reg = |p: &mut Program, file: File, words: u8| {
        let align = if words == 1 { 1 } else { 2 };
        Span::whole(p.vregs.push(VRegData { file, either: false, words, align }), words)
    };
    let mut body = BlockData::default();
    let base = reg(&mut p, File::Scalar, 2);
    body.insts.push(Inst::new(Opcode::SLoadDwordx2, [base.into(), Span::physical(File::Scalar, 0, 2).into(), Operand::Imm(0)]));
    let lane = reg(&mut p, File::Vector, 1);
    body.insts.push(Inst::new(Opcode::VAndB32, [lane.into(), Operand::Imm(63), Span::physical(File::Vector, 0, 1).into()]));
    let exec = Span { reg: Reg::Fixed(crate::isa::Fixed::Exec), first: 0, words: 2 };
    let guarded = |p: &mut Program, body: &mut BlockData, inst: Inst| {
        let (mask, saved) = (reg(p, File::Scalar, 2), reg(p, File::Scalar, 2));
        body.insts.push(Inst::new(Opcode::VCmpGtU32, [mask.into(), Operand::Imm(60), lane.into()]));
        body.insts.push(Inst::new(Opcode::SAndSaveexecB64, [saved.into(), mask.into()]));
        body.insts.push(inst);
        body.insts.push(Inst::new(Opcode::SMovB64, [exec.into(), saved.into()]));
    };
    let loaded: Vec<Span> = (0..count)
        .map(|_| {
            let to = reg(&mut p, File::Vector, 1);
            body.insts.push(Inst::new(Opcode::VMovB32, [to.into(), Operand::Imm(0)]));
            guarded(&mut p, &mut body, Inst::new(Opcode::GlobalLoadDword, [to.into(), lane.into(), base.into()]));
            to
        })
        .collect();
    let converted: Vec<Span> = loaded
        .iter()
        .map(|&from| {
            let to = reg(&mut p, File::Vector, 1);
            body.insts.push(Inst::new(Opcode::VCvtI32F32, [to.into(), from.into()]));
            to
        })
        .collect();
    for from in converted {
        guarded(&mut p, &mut body, Inst::new(Opcode::GlobalStoreDword, [lane.into(), from.into(), base.into()]));
    }
    body.insts.push(Inst::new(Opcode::SEndpgm, []));
    p.blocks.push(body);
    p
}

/// What is alive at a time and has no register lies in scratch memory, whose words are shared by what is not alive at a time.
#[test]
fn long_tiles_share_scratch_memory() {
    let before = guarded_loads(999);
    let (after, _) = sound(0, &before);
    let Spills { to_lanes, to_acc, to_scratch } = after.facts.spills;
    assert!(to_acc > 200 && to_scratch > 800, "{:?}", after.facts);
    assert!((4 * 450..4 * 600).contains(&after.program.scratch_bytes), "{} bytes", after.program.scratch_bytes);
    let spilled = after.program.spilled;
    assert_eq!((spilled.scalars, spilled.vectors), (to_lanes, to_acc + to_scratch));
    let yaml = crate::kernel::metadata(&after.program);
    assert!(format!("{yaml:?}").contains(&format!("(\".vgpr_spill_count\", Number({}))", to_acc + to_scratch)), "{yaml:?}");
}

/// More than registers and scratch memory hold at a time is refused before anything is spilled.
#[test]
fn what_has_no_room_is_refused_at_once() {
    let draft = |count| super::Draft::new(guarded_loads(count)).map(|_| ());
    assert_eq!(draft(1600), Err(AllocError::ScratchFull));
    assert_eq!(draft(1400), Ok(()));
}

/// Steps that a program's allocation takes.
fn steps(program: &Program) -> u64 {
    let fuel = Fuel::new(STEPS);
    allocate_within(program.clone(), Budget::of(program.waves), &fuel).unwrap_or_else(|e| panic!("{e}"));
    STEPS - fuel.left()
}

#[test]
fn too_much_work_is_refused_at_the_same_step() {
    let program = guarded_loads(600);
    let needed = steps(&program);
    assert_eq!(steps(&program), needed, "steps differ from run to run");
    let with = |steps: u64| allocate_within(program.clone(), Budget::of(1), &Fuel::new(steps)).map(|a| a.facts);
    assert!(with(8 * needed).is_ok());
    for part in [2, 3, 10, 100, 1000] {
        assert_eq!(with(needed / part), Err(AllocError::TooMuchWork), "with a part of {part}");
    }
    assert_eq!(with(0), Err(AllocError::TooMuchWork));
}

/// Twice the program, all of it in want of registers, takes not many more than twice the steps.
#[test]
fn steps_grow_as_the_program() {
    let (short, long) = (steps(&guarded_loads(600)), steps(&guarded_loads(1200)));
    eprintln!("{short} and {long} steps");
    assert!(long < 4 * short, "{short} and {long} steps");
    assert!(long < STEPS / 4, "{long} steps");
}

/// Loops one behind another, each with sums and a counter of its own, which the next one begins with: `count` of them.
fn loops_in_a_row(count: usize) -> Program {
    let mut p = empty(Chip::Gfx942, 1);
    let reg = |p: &mut Program, file: File| Span::whole(p.vregs.push(VRegData { file, either: false, words: 1, align: 1 }), 1);
    let mut head = BlockData::default();
    let lane = reg(&mut p, File::Vector);
    head.insts.push(Inst::new(Opcode::VAndB32, [lane.into(), Operand::Imm(63), Span::physical(File::Vector, 0, 1).into()]));
    let mut sums = [lane; 4];
    for _ in 0..count {
        let at = p.blocks.next_key().index() + 1;
        let (body, counter) = (Block::new(at), reg(&mut p, File::Scalar));
        let new = sums.map(|_| reg(&mut p, File::Vector));
        head.insts.push(Inst::new(Opcode::SMovB32, [counter.into(), Operand::Imm(9)]));
        head.insts.extend(new.iter().zip(sums).map(|(&to, from)| Inst::new(Opcode::VAddU32, [to.into(), from.into(), lane.into()])));
        head.next.push(body);
        p.blocks.push(std::mem::take(&mut head));
        let mut data = BlockData { depth: 1, ..BlockData::default() };
        data.insts.extend(new.iter().map(|&sum| Inst::new(Opcode::VAddU32, [sum.into(), sum.into(), lane.into()])));
        data.insts.push(Inst::new(Opcode::SSubU32, [counter.into(), counter.into(), Operand::Imm(1)]));
        data.insts.push(Inst::new(Opcode::SCmpLgU32, [counter.into(), Operand::Imm(0)]));
        data.insts.push(Inst::new(Opcode::SCbranchScc1, [Operand::Block(body)]));
        data.next.extend([body, Block::new(at + 1)]);
        p.blocks.push(data);
        sums = new;
    }
    let base = Span::physical(File::Scalar, 0, 2);
    head.insts.extend(sums.iter().map(|&sum| Inst::new(Opcode::GlobalStoreDword, [lane.into(), sum.into(), base.into()])));
    head.insts.push(Inst::new(Opcode::SEndpgm, []));
    p.blocks.push(head);
    p
}

/// What is alive between blocks is looked at where it is alive, not in all blocks.
#[test]
fn steps_grow_as_the_loops() {
    sound(0, &loops_in_a_row(50));
    let (few, many) = (steps(&loops_in_a_row(500)), steps(&loops_in_a_row(4000)));
    eprintln!("{few} and {many} steps");
    assert!(many < 12 * few, "{few} and {many} steps");
}

/// A tree of maxima answers as a list does.
#[test]
fn pressure_answers_as_a_list_does() {
    let mut rng = Rng::new(5);
    for rows in [1, 2, 7, 64, 100] {
        let (mut tree, mut list) = (super::pressure::Pressure::new(rows), vec![0i32; rows]);
        for _ in 0..200 {
            let start = rng.below(rows);
            let seg = super::live::Seg { start: start as u32, end: (start + 1 + rng.below(rows - start)) as u32 };
            let range = seg.start as usize..seg.end as usize;
            let by = if rng.below(3) == 0 && list[range.clone()].iter().all(|&n| n > 0) { -1 } else { 1 };
            tree.add(&[seg], by);
            list[range].iter_mut().for_each(|n| *n += by);
            let (a, b) = (rng.below(rows), rng.below(rows));
            let part = a.min(b)..a.max(b) + 1;
            let asked = super::live::Seg { start: part.start as u32, end: part.end as u32 };
            assert_eq!(tree.within(&[asked]), list[part].iter().copied().max().unwrap_or(0) as usize);
            let limit = rng.below(20);
            assert_eq!(tree.above(a, limit), (a..rows).find(|&row| list[row] > limit as i32));
        }
        assert_eq!(tree.highest(), list.iter().copied().max().unwrap_or(0) as usize);
    }
}

/// Sets of blocks and of rows answer as sets of rows do.
#[test]
fn blocks_of_rows_answer_as_rows_do() {
    use super::live::Seg;
    use super::matrix::Matrix;
    let mut rng = Rng::new(9);
    let rows = 300;
    let mut matrix = Matrix::new(rows);
    let mut list = vec![[false; 8]; rows];
    let mut taken: Vec<(usize, Seg)> = Vec::new();
    for _ in 0..2000 {
        let start = rng.below(rows);
        let seg = Seg { start: start as u32, end: (start + 1 + rng.below(rows - start)) as u32 };
        let register = rng.below(8);
        let inside = seg.start as usize..seg.end as usize;
        if list[inside.clone()].iter().all(|row| !row[register]) {
            matrix.take(register, &[seg]);
            list[inside.clone()].iter_mut().for_each(|row| row[register] = true);
            taken.push((register, seg));
        } else if !taken.is_empty() {
            let (register, seg) = taken.swap_remove(rng.below(taken.len()));
            matrix.release(register, &[seg]);
            list[seg.start as usize..seg.end as usize].iter_mut().for_each(|row| row[register] = false);
        }
        let set = matrix.taken(&[seg]);
        for register in 0..8 {
            assert_eq!(set.contains(register), list[inside.clone()].iter().any(|row| row[register]), "{seg:?} {register}");
        }
    }
}
