//! Branches farther than their field reaches go by bridges: branches on the way, which nothing falls into.
//!
//! ```text
//!        s_cbranch_scc0 far          s_cbranch_scc0 island
//!        ...                         ...
//!                              ──►           s_branch over
//!                                    island: s_branch far
//!                                    over:   ...
//!   far: ...                    far: ...
//! ```
//!
//! Islands need no register, change no condition, and only add to what lies between two instructions, so waits and wait states stay right. They
//! stand together in pools, where priority is as kernels begin; a pool has one island for each target that is reached by it.

use crate::encode;
use crate::isa::Opcode;
use crate::mir::{Block, BlockData, Inst, Operand, Program};
use cranelift_entity::{EntityRef, PrimaryMap};
use rustc_hash::FxHashMap;

/// The most words that an instruction has.
const WIDEST: usize = 4;
/// Words that a branch's field reaches in either direction.
const FIELD: usize = 0x7fff;
/// Words from a pool to the next, pools not counted.
const APART: usize = 10_000;
/// Words that a step by bridges goes at most, pools not counted: what is left of the field is theirs.
const STEP: usize = 24_000;

/// Where a branch goes.
#[derive(Clone, Copy)]
enum Way {
    /// To the block.
    Straight,
    /// To an island: number of its pool, place in it.
    Island(usize, usize),
}

/// Islands before an instruction.
struct Pool {
    block: Block,
    at: usize,
    /// Words before it.
    word: usize,
    /// The target of each island and the way there.
    islands: Vec<(Block, Way)>,
    /// The island of a target.
    of: FxHashMap<Block, usize>,
}

/// Where things are, in words.
struct WordPlaces {
    /// Begins of blocks.
    blocks: Vec<usize>,
    /// Branches: block, place in it, target, word.
    branches: Vec<(Block, usize, Block, usize)>,
    pools: Vec<Pool>,
}

/// Puts bridges where branches of the program do not reach.
pub(super) fn insert(program: &mut Program) {
    let most: usize = program.blocks.values().map(|b| WIDEST * b.insts.len()).sum();
    if most <= FIELD {
        return;
    }
    let mut places = WordPlaces::of(program);
    if !places.some_are_far() {
        return;
    }
    let branches = std::mem::take(&mut places.branches);
    let ways: FxHashMap<(Block, usize), Way> =
        branches.into_iter().map(|(block, at, to, word)| ((block, at), places.way(word, to))).collect();
    rebuild(program, &places.pools, &ways);
}

/// The block that a branch goes to.
fn target(inst: &Inst) -> Option<Block> {
    inst.operands.iter().find_map(|o| if let Operand::Block(to) = o { Some(*to) } else { None })
}

fn branch(to: Block) -> Inst {
    Inst::new(Opcode::SBranch, [Operand::Block(to)])
}

impl WordPlaces {
    fn of(program: &Program) -> WordPlaces {
        let mut places = WordPlaces { blocks: Vec::with_capacity(program.blocks.len()), branches: Vec::new(), pools: Vec::new() };
        let (mut word, mut next) = (0, APART);
        for (block, data) in program.blocks.iter() {
            places.blocks.push(word);
            let mut raised = false;
            for (at, inst) in data.insts.iter().enumerate() {
                if word >= next && !raised {
                    next = word + APART;
                    places.pools.push(Pool { block, at, word, islands: Vec::new(), of: FxHashMap::default() });
                }
                if let (Opcode::SSetprio, Some(&Operand::Imm(priority))) = (inst.op, inst.operands.first()) {
                    raised = priority > 0;
                }
                places.branches.extend(target(inst).map(|to| (block, at, to, word)));
                // What has no encoding, the encoder refuses.
                word += encode::words(inst, program.chip).unwrap_or(0);
            }
        }
        places
    }

    fn begin(&self, block: Block) -> usize {
        self.blocks.get(block.index()).copied().unwrap_or(0)
    }

    fn some_are_far(&self) -> bool {
        self.branches.iter().any(|&(_, _, to, word)| self.begin(to).abs_diff(word + 1) > FIELD)
    }

    /// The pool that lies farthest on the way from a word to another, within a step.
    fn step(&self, from: usize, to: usize) -> Option<usize> {
        let on_the_way = |p: &&Pool| if from < to { from < p.word && p.word < to } else { to < p.word && p.word < from };
        let near = |p: &&Pool| p.word.abs_diff(from) <= STEP;
        let mut pools = self.pools.iter().enumerate().filter(|(_, p)| on_the_way(p) && near(p)).map(|(i, _)| i);
        if from < to { pools.next_back() } else { pools.next() }
    }

    /// The way from a word to a block, with the islands that are missing on it. A branch with no pool on its way stays: the encoder judges it.
    fn way(&mut self, from: usize, to: Block) -> Way {
        let goal = self.begin(to);
        let (mut from, mut first): (usize, Option<Way>) = (from, None);
        let mut behind: Option<(usize, usize)> = None;
        while goal.abs_diff(from) > STEP {
            let Some(pool) = self.step(from, goal) else { break };
            let known = self.pools[pool].of.get(&to).copied();
            let island = known.unwrap_or(self.pools[pool].islands.len());
            if known.is_none() {
                self.pools[pool].of.insert(to, island);
                self.pools[pool].islands.push((to, Way::Straight));
            }
            let way = Way::Island(pool, island);
            first = first.or(Some(way));
            if let Some((before, at)) = behind {
                self.pools[before].islands[at].1 = way;
            }
            if known.is_some() {
                break;
            }
            behind = Some((pool, island));
            from = self.pools[pool].word;
        }
        first.unwrap_or(Way::Straight)
    }
}

/// Writes the blocks again, with pools between their parts.
fn rebuild(program: &mut Program, pools: &[Pool], ways: &FxHashMap<(Block, usize), Way>) {
    let mut begins = Vec::with_capacity(program.blocks.len());
    let mut islands = vec![0; pools.len()];
    let mut count = 0;
    let mut waiting = pools.iter().enumerate().filter(|(_, p)| !p.islands.is_empty()).peekable();
    for block in program.blocks.keys() {
        begins.push(count);
        count += 1;
        while let Some((number, pool)) = waiting.next_if(|(_, p)| p.block == block) {
            islands[number] = count;
            count += pool.islands.len() + 1;
        }
    }
    let goes = |to: Block, way: Way| match way {
        // A block that is missing stays missing.
        Way::Straight => Block::new(begins.get(to.index()).copied().unwrap_or(count + to.index())),
        Way::Island(pool, at) => Block::new(islands[pool] + at),
    };
    let old = std::mem::take(&mut program.blocks);
    let mut blocks = PrimaryMap::new();
    let mut waiting = pools.iter().filter(|p| !p.islands.is_empty()).peekable();
    for (block, data) in old {
        let mut part = Vec::new();
        for (at, mut inst) in data.insts.into_iter().enumerate() {
            if let Some(pool) = waiting.next_if(|p| p.block == block && p.at == at) {
                let over = Block::new(blocks.len() + 1 + pool.islands.len());
                part.push(branch(over));
                push(&mut blocks, std::mem::take(&mut part), data.depth);
                for &(to, way) in &pool.islands {
                    push(&mut blocks, vec![branch(goes(to, way))], data.depth);
                }
            }
            let way = ways.get(&(block, at)).copied().unwrap_or(Way::Straight);
            for operand in &mut inst.operands {
                if let Operand::Block(to) = operand {
                    *to = goes(*to, way);
                }
            }
            part.push(inst);
        }
        push(&mut blocks, part, data.depth);
    }
    program.blocks = blocks;
}

/// A block with the blocks behind it: where its branches go, and the one behind where it falls through.
fn push(blocks: &mut PrimaryMap<Block, BlockData>, insts: Vec<Inst>, depth: u32) {
    let mut next: smallvec::SmallVec<[Block; 2]> = insts.iter().filter_map(target).collect();
    if !insts.last().is_some_and(|i| matches!(i.op, Opcode::SBranch | Opcode::SEndpgm)) {
        next.push(Block::new(blocks.len() + 1));
    }
    next.dedup();
    blocks.push(BlockData { insts, next, depth });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::allocate;
    use crate::check;
    use crate::chip::Chip;
    use crate::mir::{File, Span};
    use crate::testing::generate::{Shape, empty, program};
    use crate::testing::interpret::run;

    /// A finished program with so many words of nothing in each of its blocks.
    fn stretched(seed: u64, words: usize) -> Program {
        let shape = Shape { chip: Chip::ALL[(seed % 3) as usize], length: 150, waves: 4, keep: 8, wide: seed % 2 == 1 };
        let allocated = allocate(program(seed, shape)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut program = crate::order::finish(allocated);
        for (block, data) in program.blocks.iter_mut() {
            let filler = vec![Inst::new(Opcode::SNop, [Operand::Imm(0)]); words + 100 * block.index()];
            data.insts.splice(0..0, filler);
        }
        program
    }

    fn same(before: &Program, what: &str) -> Program {
        let mut after = before.clone();
        insert(&mut after);
        assert_eq!(encode::encode(before).is_err(), after != *before, "{what}");
        encode::encode(&after).unwrap_or_else(|e| panic!("{what}: {e}"));
        let [old, new] = [before, &after].map(|p| run(p, 2_000_000));
        assert_eq!((old.ended, old.stores), (new.ended, new.stores), "{what}");
        after
    }

    #[test]
    fn branches_reach_and_programs_do_the_same() {
        let mut most = 0;
        for seed in 0..4 {
            let before = stretched(seed, [2_000, 4_000, 9_000, 20_000][seed as usize]);
            let after = same(&before, &format!("seed {seed}"));
            most = most.max(after.blocks.len() - before.blocks.len());
            check::waits(&after).unwrap_or_else(|f| panic!("seed {seed}: {f:?}"));
            check::hazards(&after).unwrap_or_else(|f| panic!("seed {seed}: {f:?}"));
            check::priorities(&after).unwrap_or_else(|f| panic!("seed {seed}: {f:?}"));
        }
        assert!(most > 5, "{most}");
    }

    /// A loop of three rounds, then a branch over what would store something else: so many words each.
    fn far(words: usize) -> Program {
        let scalar = |n| Operand::Reg(Span::physical(File::Scalar, n, 1));
        let vector = |n| Operand::Reg(Span::physical(File::Vector, n, 1));
        let filler = || vec![Inst::new(Opcode::SNop, [Operand::Imm(0)]); words];
        let to = |b| Operand::Block(Block::new(b));
        let first = vec![Inst::new(Opcode::SMovB32, [scalar(10), 3.into()])];
        let mut body = filler();
        body.extend([
            Inst::new(Opcode::SSubU32, [scalar(10), scalar(10), 1.into()]),
            Inst::new(Opcode::SCmpLgU32, [scalar(10), 0.into()]),
            Inst::new(Opcode::SCbranchScc1, [to(1)]),
        ]);
        let choice = vec![Inst::new(Opcode::SCmpLgU32, [scalar(10), 5.into()]), Inst::new(Opcode::SCbranchScc1, [to(4)])];
        let mut skipped = filler();
        skipped.push(Inst::new(Opcode::SMovB32, [scalar(10), 77.into()]));
        let store = [vector(1), vector(2), Operand::Reg(Span::physical(File::Scalar, 0, 2))];
        let last = vec![
            Inst::new(Opcode::VMovB32, [vector(1), 0.into()]),
            Inst::new(Opcode::VMovB32, [vector(2), scalar(10)]),
            Inst::new(Opcode::GlobalStoreDword, store),
            Inst::new(Opcode::SEndpgm, []),
        ];
        let mut blocks = PrimaryMap::new();
        [first, body, choice, skipped, last].into_iter().for_each(|insts| push(&mut blocks, insts, 0));
        Program { blocks, ..empty(Chip::Gfx942, 1) }
    }

    #[test]
    fn loops_and_choices_of_any_length_run() {
        for (words, islands) in [(32_000, 0), (33_000, 2), (100_000, 8)] {
            let before = far(words);
            assert!(run(&before, 2_000_000).ended);
            let after = same(&before, &format!("{words} words"));
            let alone = |b: &&BlockData| b.insts.len() == 1 && b.insts[0].op == Opcode::SBranch;
            assert_eq!(after.blocks.values().filter(alone).count(), islands, "{words} words");
        }
    }

    #[test]
    fn nothing_changes_where_all_reach() {
        for seed in [0, 4, 8] {
            let before = stretched(seed, 100);
            assert!(encode::encode(&before).is_ok());
            let mut after = before.clone();
            insert(&mut after);
            assert!(before == after, "seed {seed}");
        }
    }

    /// Blocks that are missing, the encoder refuses, with bridges, too.
    #[test]
    fn missing_blocks_stay_missing() {
        let mut program = stretched(0, 40_000);
        let count = program.blocks.len();
        program.blocks[Block::new(0)].insts.push(branch(Block::new(count + 1)));
        insert(&mut program);
        assert!(program.blocks.len() > count);
        assert!(matches!(encode::encode(&program).map_err(|e| e.reason), Err(encode::EncodeReason::NoBlock(_))));
    }
}
