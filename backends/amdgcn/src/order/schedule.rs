//! Reorders instructions within blocks, before allocation: loads go up, and other instructions fill the time in which matrices are multiplied.
//!
//! A block is cut at barriers, branches and the like; products in front of a barrier may be multiplied behind it, beside what is stored there. Within a piece, an instruction stays behind those that it depends on
//! ([`super::graph`]). Since `exec` is a register, nothing that asks for lanes passes a change of it.
//!
//! Pieces are scheduled from the top: of the instructions that could be issued now, the one with the longest way to the end goes first. Only the
//! next [`WINDOW`] instructions in the old order are looked at, so that loads do not go so far up that registers become scarce.

use super::class::{Class, class, is_transcendental};
use super::graph::{Graph, OrderNode, costs, memory};
use super::latency;
use crate::chip::Chip;
use crate::isa::{Format, Opcode};
use crate::mir::{Block, BlockData, Inst, Program};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Instructions that are looked at.
const WINDOW: usize = 112;

/// Slots of matrix instructions by which fragments are loaded ahead, beside those that pass until the first one is there.
const AHEAD: u32 = latency::LDS;

/// Reorders the instructions of each block.
pub fn schedule(program: &Program) -> Program {
    schedule_beside(program, None)
}

/// The same, but for a block whose barriers nothing passes.
pub(super) fn schedule_beside(program: &Program, cut: Option<Block>) -> Program {
    let mut graph = Graph::new(program);
    let mut order = Vec::new();
    let mut reordered = |(block, data): (Block, &BlockData)| {
        order.clear();
        let mut from = 0;
        for at in cuts(data, program.chip, cut != Some(block)) {
            graph.place(from, &data.insts[from..at], &mut order);
            order.push(at);
            from = at + 1;
        }
        graph.place(from, &data.insts[from..], &mut order);
        let insts = order.iter().map(|&at| data.insts[at].clone()).collect();
        BlockData { insts, next: data.next.clone(), depth: data.depth }
    };
    Program {
        name: program.name.clone(),
        chip: program.chip,
        waves: program.waves,
        lds_bytes: program.lds_bytes,
        args: program.args.clone(),
        vregs: program.vregs.clone(),
        blocks: program.blocks.iter().map(&mut reordered).collect(),
        entry: program.entry,
        scratch_bytes: program.scratch_bytes,
        spilled: program.spilled,
    }
}

/// True for instructions that nothing passes.
pub(super) fn stays(inst: &Inst) -> bool {
    let control = inst.op.desc().form.format == Format::Sopp;
    let caches = matches!(inst.op, Opcode::BufferInv | Opcode::BufferWbl2 | Opcode::BufferInvl2 | Opcode::SDcacheInv | Opcode::SDcacheWb);
    let state = matches!(
        inst.op,
        Opcode::SSetregB32
            | Opcode::SSetregImm32B32
            | Opcode::SGetregB32
            | Opcode::SMemtime
            | Opcode::SMemrealtime
            | Opcode::SGetpcB64
            | Opcode::SSetpcB64
            | Opcode::SSwappcB64
    );
    control || caches || state
}

/// Instructions of a block that others do not pass: those that nothing passes, but, if some are passed, for barriers between products and what multiplies
/// nothing.
fn cuts(data: &BlockData, chip: Chip, some: bool) -> Vec<usize> {
    let multiplies = |range: Range<usize>| data.insts[range].iter().any(|i| costs(i, chip).1 > 0);
    let stay: Vec<usize> = (0..data.insts.len()).filter(|&at| stays(&data.insts[at])).collect();
    let mut cuts = Vec::with_capacity(stay.len());
    for (i, &at) in stay.iter().enumerate() {
        let from = i.checked_sub(1).map_or(0, |i| stay[i] + 1);
        let end = stay.get(i + 1).copied().unwrap_or(data.insts.len());
        let passed = some && data.insts[at].op == Opcode::SBarrier && multiplies(from..at) && !multiplies(at + 1..end);
        if !passed {
            cuts.push(at);
        }
    }
    cuts
}

/// Slots that an instruction takes to be issued.
fn issue(inst: &Inst) -> u32 {
    if is_transcendental(inst.op) { latency::TRANSCENDENTAL - 1 } else { 1 }
}

/// When an instruction may be issued, how long the way behind it is, and its number: what is less comes first.
type Rank = (u32, Reverse<u32>, u32);

/// Instructions that wait for none.
#[derive(Default)]
struct Ready {
    /// Those whose operands are there, with the longest way first: the length of the way, and the number.
    now: BinaryHeap<(u32, Reverse<u32>)>,
    /// The others, by when they are.
    later: BinaryHeap<Reverse<Rank>>,
}

impl Ready {
    fn push(&mut self, at: u32, node: &OrderNode) {
        // The matrix unit has all of its instructions to execute: those that come first are done first, so that what follows on them begins.
        let length = if node.busy > 0 { 0 } else { node.length };
        self.later.push(Reverse((node.earliest, Reverse(length), at)));
    }

    /// The first one, if none is issued before a slot. Slots that are asked for do not fall.
    fn best(&mut self, slot: u32) -> Option<Rank> {
        while let Some(&Reverse((earliest, Reverse(length), at))) = self.later.peek()
            && earliest <= slot
        {
            self.later.pop();
            self.now.push((length, Reverse(at)));
        }
        let now = self.now.peek().map(|&(length, Reverse(at))| (slot, Reverse(length), at));
        now.or_else(|| self.later.peek().map(|rank| rank.0))
    }

    /// Takes the one that was found last.
    fn pop(&mut self) {
        if self.now.pop().is_none() {
            self.later.pop();
        }
    }
}

impl Graph {
    /// Beside matrix instructions, fragments are loaded no earlier than some of these before they are multiplied, and what stands behind a
    /// barrier comes so late that the last products hide it, and that loads from memory have had their time.
    fn hold_back(&mut self, piece: &[Inst]) {
        // Slots of the matrix unit in front of each of its instructions.
        let mut busy = 0;
        let mut before = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            before.push(busy);
            busy += node.busy;
        }
        if busy == 0 {
            return;
        }
        let mut from = 0;
        for (at, inst) in piece.iter().enumerate() {
            let end = self.nodes[at].edges;
            let behind = &self.behind[std::mem::replace(&mut from, end) as usize..end as usize];
            let loads = memory(inst) == ([true, false], [false; 2]);
            if loads && behind.iter().all(|&(to, _)| self.nodes[to as usize].busy > 0 || piece[to as usize].op == Opcode::SBarrier) {
                let first = behind.iter().map(|&(to, _)| before[to as usize]).min();
                self.nodes[at].earliest = first.unwrap_or(0).saturating_sub(AHEAD);
            }
        }
        if let Some(at) = piece.iter().position(|inst| inst.op == Opcode::SBarrier) {
            let left = (piece.len() - at) as u32;
            let earliest = (latency::LDS + busy).saturating_sub(left + left / 4);
            self.nodes[at..].iter_mut().for_each(|node| node.earliest = earliest);
        }
    }

    /// Schedules a piece that begins at instruction `base` of its block.
    fn place(&mut self, base: usize, piece: &[Inst], order: &mut Vec<usize>) {
        // Where nothing is waited for, another order gains no time, and may need more registers.
        let waits = |inst: &Inst| matches!(class(inst, self.chip), Class::Matrix(..) | Class::Memory);
        if piece.len() < 3 || !piece.iter().any(waits) {
            order.extend(base..base + piece.len());
            return;
        }
        self.read(piece);
        self.hold_back(piece);
        let nodes = &mut self.nodes;
        // Of the instructions that are looked at, those that wait for none: those that the matrix unit executes, and others.
        let mut ready = [Ready::default(), Ready::default()];
        let mut open = 0;
        let mut next = 0;
        let (mut now, mut matrix_free) = (0u32, 0u32);
        loop {
            while open < WINDOW && next < nodes.len() {
                if nodes[next].waits_for == 0 {
                    ready[usize::from(nodes[next].busy > 0)].push(next as u32, &nodes[next]);
                }
                open += 1;
                next += 1;
            }
            // The earliest that may be issued: the matrix unit is not left idle. Of others that may be issued now, the one with the longest way
            // behind it.
            let [others, matrices] = &mut ready;
            let best = match (others.best(now), matrices.best(now.max(matrix_free))) {
                (Some(a), Some(b)) => {
                    if b.0 <= a.0 {
                        b
                    } else {
                        a
                    }
                }
                (a, b) => match a.or(b) {
                    Some(best) => best,
                    // None is left, since the graph has no cycles.
                    None => break,
                },
            };
            let (start, _, at) = best;
            let at = at as usize;
            ready[usize::from(nodes[at].busy > 0)].pop();
            open -= 1;
            now = start + issue(&piece[at]);
            if nodes[at].busy > 0 {
                matrix_free = start + nodes[at].busy;
            }
            let first = at.checked_sub(1).map_or(0, |before| nodes[before].edges) as usize;
            for &(to, slots) in &self.behind[first..nodes[at].edges as usize] {
                let node = &mut nodes[to as usize];
                node.waits_for -= 1;
                node.earliest = node.earliest.max(start + slots);
                if node.waits_for == 0 && (to as usize) < next {
                    ready[usize::from(node.busy > 0)].push(to, node);
                }
            }
            order.push(base + at);
        }
    }
}
