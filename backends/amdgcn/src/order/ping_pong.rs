//! Ping-pong: of two wavefronts that share a SIMD, one multiplies while the other one loads and stores.
//!
//! ```text
//! wavefronts 0 to 3 │ load ║ multiply ║ load ║ multiply ║ … ║ store    ║ multiply ║
//! wavefronts 4 to 7 │      ║ load     ║ multiply ║ load ║ … ║ multiply ║ store    ║ multiply ║
//! ```
//!
//! The loop's body is cut by barriers (║) in stretches that access local data share and stretches that multiply, one after the other (Triton calls them memory clusters and dot clusters). One half of the workgroup waits once more in
//! front of the loop, the other one once more behind it, so that the halves are one stretch apart, and as many barriers are met by both.
//!
//! What is stored for the next step lies between the last two stretches of products, whose operands are loaded before: so the stretches beside the one that stores
//! multiply, and whatever the other half does at that time, it accesses no local data share. Barriers that kept all wavefronts in step keep a stretch of one half apart from
//! all of the other half's but its neighbours.
//!
//! It is done where a workgroup has two wavefronts for each SIMD by itself, in loops that write no memory, whose products depend on loads and sums alone, and whose stores to local
//! data share stand behind a barrier of their own; where the slots that a step takes are fewer, as [`super::replay`] counts them; and where registers suffice, which [`super::orders`] sees.

use super::class::{Class, class, fills_lds};
use super::graph::{Edge, Graph, costs, memory};
use super::replay::slots;
use super::schedule::{schedule_beside, stays};
use crate::isa::{Format, Opcode};
use crate::mir::{Block, BlockData, File, Inst, Operand, Program, Span, VRegData};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::ops::Range;

/// SIMDs of a compute unit: wavefront `w` is on SIMD `w % 4`.
const SIMDS: u32 = 4;
/// Wavefronts of a workgroup that share a SIMD.
const HALVES: u32 = 2;
/// The bit of `v0` that says which half a wavefront is in: lanes are numbered by 6 bits, SIMDs by 2.
const HALF_BIT: i64 = 8;
/// Stretches of products of a step.
const STRETCHES: Range<usize> = 2..9;
/// Products of a stretch, at least.
const PRODUCTS: usize = 4;

/// The ping-pong of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PingPong {
    /// Stretches of products.
    pub(crate) stretches: usize,
    /// Slots that a step takes two wavefronts of a SIMD.
    pub(crate) slots: u32,
    /// Slots that it takes them in step.
    pub(crate) in_step: u32,
}

/// Programs that may be taken in place of one, in whose other order loads are early: its ping-pongs, with loads early within stretches, what takes least first.
pub(super) fn candidates(program: &Program, early: &Program) -> Vec<(PingPong, Program)> {
    if program.waves != HALVES * SIMDS {
        return Vec::new();
    }
    let Some(place) = Loop::only(program) else { return Vec::new() };
    let Some(step) = LoopStep::of(program, &place) else { return Vec::new() };
    let way = place.way(program);
    let in_step = slots(early, &way, false);
    let way: Vec<Block> = way.into_iter().map(|block| place.number(block.index())).collect();
    let mut all: Vec<(PingPong, Program)> = STRETCHES
        .take_while(|stretches| step.products.len() >= stretches * PRODUCTS)
        .filter_map(|stretches| {
            let made = place.apart(program, &step.body(&step.stretches(stretches)?));
            let made = schedule_beside(&made, Some(place.number(place.latch.index())));
            Some((PingPong { stretches, slots: slots(&made, &way, true), in_step }, made))
        })
        .filter(|(found, _)| found.slots < in_step)
        .collect();
    all.sort_by_key(|(found, _)| found.slots);
    all
}

/// A loop that is entered at its first block and left behind its last one.
struct Loop {
    header: Block,
    latch: Block,
}

/// True for what accesses local data share.
fn shares(inst: &Inst) -> bool {
    memory(inst).0[0] || memory(inst).1[0] || fills_lds(inst)
}

/// True for what others may see in memory: a barrier orders that, too.
fn shows(inst: &Inst) -> bool {
    memory(inst).1[1]
}

impl Loop {
    /// The one loop that multiplies.
    fn only(program: &Program) -> Option<Loop> {
        let multiplies = |b: &BlockData| b.insts.iter().any(|i| matches!(class(i, program.chip), Class::Matrix(..)));
        let mut found = program.blocks.iter().filter(|(_, b)| b.depth > 0 && multiplies(b)).map(|(block, _)| block);
        let (Some(latch), None) = (found.next(), found.next()) else { return None };
        let data = &program.blocks[latch];
        let header = *data.next.iter().find(|to| to.index() <= latch.index())?;
        let inside = header.index()..latch.index() + 1;
        let next = Block::new(latch.index() + 1);
        // From its last block the way goes back, or falls out.
        let last = data.insts.last().and_then(|i| i.operands.first());
        if data.next.len() != 2 || !data.next.contains(&next) || last != Some(&Operand::Block(header)) {
            return None;
        }
        for (block, data) in program.blocks.iter() {
            let within = inside.contains(&block.index());
            for to in &data.next {
                let enters = !within && inside.contains(&to.index());
                let leaves = within && block != latch && !inside.contains(&to.index());
                let back = within && block != latch && to.index() <= block.index();
                if enters && (*to != header || block.index() + 1 != header.index()) || leaves || back {
                    return None;
                }
            }
        }
        let falls_in = header.index().checked_sub(1).and_then(|n| program.blocks[Block::new(n)].insts.last());
        if falls_in.is_some_and(|i| i.operands.first() == Some(&Operand::Block(header))) || header.index() == 0 {
            return None;
        }
        // It begins with a barrier, behind which what was stored is loaded; up to the last block there is no other.
        let first = program.blocks[header].insts.first()?;
        let quiet = |block: usize| {
            let from = usize::from(block == header.index());
            let branch = |i: &Inst| i.op != Opcode::SBarrier && i.op.desc().form.format == Format::Sopp;
            program.blocks[Block::new(block)].insts[from..].iter().all(|i| branch(i) || !stays(i) && !shares(i) && !shows(i))
        };
        (first.op == Opcode::SBarrier && (header.index()..latch.index()).all(quiet)).then_some(Loop { header, latch })
    }

    /// The blocks on the shortest way through the loop.
    fn way(&self, program: &Program) -> Vec<Block> {
        let (first, last) = (self.header.index(), self.latch.index());
        // Per block the instructions in front of it, and the block from where that is.
        let mut least = vec![(usize::MAX, first); last + 1 - first];
        least[0].0 = 0;
        for block in first..last {
            let data = &program.blocks[Block::new(block)];
            let behind = least[block - first].0.saturating_add(data.insts.len());
            for to in data.next.iter().filter(|to| (first + 1..=last).contains(&to.index())) {
                let there = &mut least[to.index() - first];
                *there = (behind, block).min(*there);
            }
        }
        let mut way = vec![self.latch];
        let mut at = last;
        while at > first {
            at = least[at - first].1;
            way.push(Block::new(at));
        }
        way.reverse();
        way
    }

    /// The number of a block in the program with halves that are a stretch apart: two stand in front of the loop, and two behind it.
    fn number(&self, old: usize) -> Block {
        Block::new(old + if old >= self.header.index() { 2 } else { 0 } + if old > self.latch.index() { 2 } else { 0 })
    }

    /// The program with halves that are a stretch apart, and a body for the loop's last block.
    fn apart(&self, program: &Program, body: &[Inst]) -> Program {
        let mut made = program.clone();
        let data = VRegData { file: File::Scalar, either: false, words: 1, align: 1 };
        let half = Span::whole(made.vregs.push(data), 1);
        let bit = Span::whole(made.vregs.push(VRegData { file: File::Vector, ..data }), 1);
        let lane = Span::physical(File::Vector, 0, 1);
        let which = [
            Inst::new(Opcode::VBfeU32, [bit.into(), lane.into(), Operand::Imm(HALF_BIT), Operand::Imm(1)]),
            Inst::new(Opcode::VReadfirstlaneB32, [half.into(), bit.into()]),
        ];
        let (header, latch) = (self.header.index(), self.latch.index());
        let once_more = |compare: Opcode, at: usize| {
            let (wait, on) = (Block::new(at + 1), Block::new(at + 2));
            let depth = program.blocks[self.header].depth.saturating_sub(1);
            let ask = vec![Inst::new(compare, [half.into(), Operand::Imm(0)]), Inst::new(Opcode::SCbranchScc1, [Operand::Block(on)])];
            [
                BlockData { insts: ask, next: [on, wait].into_iter().collect(), depth },
                BlockData { insts: vec![Inst::new(Opcode::SBarrier, [])], next: [on].into_iter().collect(), depth },
            ]
        };
        let mut blocks = PrimaryMap::with_capacity(made.blocks.len() + 4);
        for (old, mut data) in std::mem::take(&mut made.blocks) {
            let old = old.index();
            for operand in data.insts.iter_mut().flat_map(|inst| &mut inst.operands) {
                if let Operand::Block(to) = operand {
                    *to = self.number(to.index());
                }
            }
            // What falls into the loop, or out of it, falls into a new block.
            let by_way = |to: usize| if to == header && old + 1 == header || to == latch + 1 && old == latch { 2 } else { 0 };
            data.next.iter_mut().for_each(|to| *to = Block::new(self.number(to.index()).index() - by_way(to.index())));
            if old == header {
                for data in once_more(Opcode::SCmpEqU32, header) {
                    blocks.push(data);
                }
            }
            if old == latch {
                let branch = data.insts.pop();
                data.insts = body.to_vec();
                data.insts.extend(branch);
            }
            blocks.push(data);
            if old == latch {
                for data in once_more(Opcode::SCmpLgU32, latch + 3) {
                    blocks.push(data);
                }
            }
        }
        made.blocks = blocks;
        if let Some(entry) = made.blocks.values_mut().next() {
            entry.insts.splice(0..0, which);
        }
        made
    }
}

/// What a step does in the loop's last block: loads and products, a barrier, stores.
struct LoopStep {
    /// The barrier in front, if the loop is one block.
    leading: Option<Inst>,
    /// Instructions but for barriers and the branch.
    insts: Vec<Inst>,
    /// How many of them stand in front of the barrier.
    loads: usize,
    /// The products.
    products: Vec<usize>,
    /// What accesses local data share.
    shared: Vec<bool>,
    /// What comes before what.
    edges: Vec<Edge>,
}

impl LoopStep {
    fn of(program: &Program, place: &Loop) -> Option<LoopStep> {
        let (_, all) = program.blocks[place.latch].insts.split_last()?;
        let (leading, all) = if place.header == place.latch { (all.first().cloned(), &all[1..]) } else { (None, all) };
        let mut barriers = (0..all.len()).filter(|&at| all[at].op == Opcode::SBarrier);
        let (Some(loads), None) = (barriers.next(), barriers.next()) else { return None };
        let mut insts = all.to_vec();
        insts.remove(loads);
        let mut graph = Graph::new(program);
        graph.read(&insts);
        let busy: Vec<u32> = insts.iter().map(|i| costs(i, program.chip).1).collect();
        let products: Vec<usize> = (0..insts.len()).filter(|&at| busy[at] > 0).collect();
        let stores = |i: &Inst| memory(i).1[0];
        let reads = |i: &Inst| memory(i).0[0];
        let (front, back) = insts.split_at(loads);
        // Nothing but sums follows on products, which stand in front of the barrier, as what loads does; what stores is behind it.
        let apart =
            products.iter().all(|&at| at < loads) && !front.iter().any(stores) && !back.iter().any(reads) && back.iter().any(stores);
        let sums = graph.edges.iter().all(|e| busy[e.from as usize] == 0 || busy[e.to as usize] > 0);
        if !apart || !sums || insts.iter().any(|i| stays(i) || fills_lds(i) || shows(i)) {
            return None;
        }
        let shared = insts.iter().map(shares).collect();
        Some(LoopStep { leading, loads, products, shared, edges: graph.edges, insts })
    }

    /// Marks what some instructions follow on.
    fn closure(&self, of: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut needed = vec![false; self.insts.len()];
        of.into_iter().for_each(|at| needed[at] = true);
        // Edges are in the order of where they go.
        for edge in self.edges.iter().rev() {
            needed[edge.from as usize] |= needed[edge.to as usize];
        }
        needed
    }

    /// The step in so many stretches of products: what accesses memory and what multiplies, alternating, then the rest. Nothing if that exchanges what depends on each other, or
    /// a stretch would load nothing.
    fn stretches(&self, count: usize) -> Option<Vec<Vec<usize>>> {
        let mut left = vec![true; self.insts.len()];
        self.products.iter().for_each(|&at| left[at] = false);
        let mut take = |wanted: &dyn Fn(usize) -> bool| {
            let taken: Vec<usize> = (0..left.len()).filter(|&at| left[at] && wanted(at)).collect();
            taken.iter().for_each(|&at| left[at] = false);
            taken
        };
        let bound = |n: usize| self.products.len() * n / count;
        let mut rows = Vec::with_capacity(2 * count + 1);
        for n in 0..count {
            // The operands of the last two stretches are loaded together.
            let end = if n + 2 == count { count } else { n + 1 };
            let row = if n + 1 == count {
                let stores = self.closure((self.loads..self.insts.len()).filter(|&at| self.shared[at]));
                take(&|at| stores[at])
            } else {
                let needed = self.closure(self.products[..bound(end)].iter().copied());
                // What no product needs, such as loads from memory, comes first.
                let all = self.closure(self.products.iter().copied());
                take(&|at| needed[at] || n == 0 && at < self.loads && !all[at])
            };
            if row.iter().all(|&at| !self.shared[at]) {
                return None;
            }
            rows.push(row);
            rows.push(self.products[bound(n)..bound(n + 1)].to_vec());
        }
        rows.push(take(&|_| true));
        let mut place = vec![0; self.insts.len()];
        rows.iter().flatten().enumerate().for_each(|(n, &at)| place[at] = n);
        self.edges.iter().all(|e| place[e.from as usize] < place[e.to as usize]).then_some(rows)
    }

    /// The block of stretches, but for its branch.
    fn body(&self, rows: &[Vec<usize>]) -> Vec<Inst> {
        let mut body: Vec<Inst> = self.leading.iter().cloned().collect();
        for (n, row) in rows.iter().enumerate() {
            // The last one is what stands behind the last products.
            if n > 0 && n + 1 < rows.len() {
                body.push(Inst::new(Opcode::SBarrier, []));
            }
            body.extend(row.iter().map(|&at| self.insts[at].clone()));
        }
        body
    }
}
