//! Reorders instructions within blocks, before allocation: loads go up, and other instructions fill the time in which matrices are multiplied.
//!
//! A block is cut at barriers, branches and the like; products in front of a barrier may be multiplied behind it, beside what is stored there. Within a piece, an instruction stays behind those that it depends on: by registers,
//! word by word, those with names and `scc` included; and by memory, where stores keep their order and nothing of a kind of memory passes a
//! store to it. Since `exec` is a register, nothing that asks for lanes passes a change of it.
//!
//! Pieces are scheduled from the top: of the instructions that could be issued now, the one with the longest way to the end goes first. Only the
//! next [`WINDOW`] instructions in the old order are looked at, so that loads do not go so far up that registers become scarce.

use super::class::{Class, Unit, class, is_transcendental, keeps_part};
use super::latency;
use super::words::{WORDS, named, words};
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Opcode, Variant};
use crate::mir::{BlockData, Inst, Operand, Program, Reg, Span};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Instructions that are looked at.
const WINDOW: usize = 112;

/// Slots of matrix instructions by which fragments are loaded ahead, beside those that pass until the first one is there.
const AHEAD: u32 = latency::LDS;

/// Reorders the instructions of each block.
pub fn schedule(program: &Program) -> Program {
    let mut graph = Graph::new(program);
    let mut order = Vec::new();
    let mut reordered = |data: &BlockData| {
        order.clear();
        let mut from = 0;
        for at in cuts(data, program.chip) {
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
        blocks: program.blocks.values().map(&mut reordered).collect(),
        entry: program.entry,
        scratch_bytes: program.scratch_bytes,
        spilled: program.spilled,
    }
}

/// True for instructions that nothing passes.
fn stays(inst: &Inst) -> bool {
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

/// Instructions of a block that others do not pass: those that nothing passes, but for barriers between products and what multiplies nothing.
fn cuts(data: &BlockData, chip: Chip) -> Vec<usize> {
    let multiplies = |range: Range<usize>| data.insts[range].iter().any(|i| costs(i, chip).1 > 0);
    let stay: Vec<usize> = (0..data.insts.len()).filter(|&at| stays(&data.insts[at])).collect();
    let mut cuts = Vec::with_capacity(stay.len());
    for (i, &at) in stay.iter().enumerate() {
        let from = i.checked_sub(1).map_or(0, |i| stay[i] + 1);
        let end = stay.get(i + 1).copied().unwrap_or(data.insts.len());
        let passed = data.insts[at].op == Opcode::SBarrier && multiplies(from..at) && !multiplies(at + 1..end);
        if !passed {
            cuts.push(at);
        }
    }
    cuts
}

/// Kinds of memory that an instruction reads and writes: local data share, everything else. No access passes a barrier.
fn memory(inst: &Inst) -> ([bool; 2], [bool; 2]) {
    if inst.op == Opcode::SBarrier {
        return ([true; 2], [true; 2]);
    }
    // Lanes hand values to one another through the unit of local data share; what is stored there nobody reads or writes.
    if matches!(inst.op, Opcode::DsBpermuteB32 | Opcode::DsPermuteB32 | Opcode::DsSwizzleB32) {
        return ([false; 2], [false; 2]);
    }
    let desc = inst.op.desc();
    let data = desc.slots.iter().any(|s| s.kind == Kind::VectorOrAcc && s.access != Access::Def);
    let result = desc.slots.iter().any(|s| s.access != Access::Use);
    match (desc.form.format, desc.form.variant) {
        (Format::Ds, _) => ([!data || result, false], [data || !result, false]),
        (Format::Smem, _) => ([false, true], [false, false]),
        (_, Variant::ToLds) => ([false, true], [true, false]),
        (Format::Global | Format::Mubuf | Format::Scratch, _) => ([false, !data || result], [false, data || !result]),
        _ => ([false; 2], [false; 2]),
    }
}

fn writes_m0(inst: &Inst) -> bool {
    matches!(inst.operands.first(), Some(Operand::Reg(span)) if *span == Span::M0)
}

/// Slots until results are there, and slots that the matrix unit is busy.
fn costs(inst: &Inst, chip: Chip) -> (u32, u32) {
    match (class(inst, chip), inst.op.desc().form.format) {
        (Class::Matrix(unit, passes), _) => {
            let behind = if unit == Unit::Double { 3 } else { 4 };
            (u32::from(passes) + behind, u32::from(passes))
        }
        (Class::Memory, Format::Ds) => (latency::LDS, 0),
        (Class::Memory, _) => (latency::GLOBAL, 0),
        (Class::Vector, _) if is_transcendental(inst.op) => (latency::TRANSCENDENTAL, 0),
        (Class::Vector, _) => (latency::VECTOR, 0),
        (Class::Scalar, Format::Smem) => (latency::SCALAR_MEMORY, 0),
        // A wait state stands between `m0` and the load to local data share behind it.
        (Class::Scalar, _) if writes_m0(inst) => (latency::VECTOR, 0),
        (Class::Scalar, _) => (latency::SCALAR, 0),
    }
}

/// Slots that an instruction takes to be issued.
fn issue(inst: &Inst) -> u32 {
    if is_transcendental(inst.op) { latency::TRANSCENDENTAL - 1 } else { 1 }
}

/// An instruction of a piece.
#[derive(Default, Clone)]
struct Node {
    /// Instructions in front of it that are not issued yet.
    waits_for: u32,
    earliest: u32,
    /// Slots to the end of the piece.
    length: u32,
    /// Slots until its results are there, and slots that it keeps the matrix unit busy.
    latency: u32,
    busy: u32,
    /// A vector instruction, and one that makes a mask.
    vector: bool,
    mask: bool,
    /// Where the edges to it end among those of the piece, while these are found; then where those to instructions behind it do.
    edges: u32,
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
    fn push(&mut self, at: u32, node: &Node) {
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

/// What happened last to a word, or a kind of memory.
#[derive(Default, Clone)]
struct Last {
    /// The piece in which that was.
    piece: u32,
    write: Option<u32>,
    reads: SmallVec<[u32; 4]>,
}

impl Last {
    fn written(&mut self, at: u32) {
        self.write = Some(at);
        self.reads.clear();
    }
}

/// An instruction, and one that follows on it after so many slots.
#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    slots: u32,
}

/// What depends on what, piece by piece; its lists serve all pieces.
struct Graph {
    chip: Chip,
    /// Per virtual register the number of its first word; physical words are numbered in front of all.
    first: Vec<u32>,
    /// Per word.
    last: Vec<Last>,
    piece: u32,
    nodes: Vec<Node>,
    /// To each instruction in turn, at most one from each.
    edges: Vec<Edge>,
    /// Per instruction the last edge from it that was found.
    found: Vec<u32>,
    /// Edges by where they come from: where they go, and slots.
    behind: Vec<(u32, u32)>,
}

impl Graph {
    fn new(program: &Program) -> Graph {
        let mut total = WORDS as u32;
        let mut next = |words: u8| {
            total += u32::from(words);
            total - u32::from(words)
        };
        let first = program.vregs.values().map(|data| next(data.words)).collect();
        Graph {
            chip: program.chip,
            first,
            last: vec![Last::default(); total as usize],
            piece: 0,
            nodes: Vec::new(),
            edges: Vec::new(),
            found: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// Numbers of words that an operand names.
    fn words(&self, span: Span) -> Range<usize> {
        match span.reg {
            Reg::Virtual(reg) => {
                let start = self.first[reg.index()] as usize + usize::from(span.first);
                start..start + usize::from(span.words)
            }
            Reg::Physical(..) | Reg::Fixed(_) => words(span),
        }
    }

    /// What happened to a word in this piece.
    fn last(&mut self, word: usize) -> &mut Last {
        let last = &mut self.last[word];
        if last.piece != self.piece {
            last.piece = self.piece;
            last.write = None;
            last.reads.clear();
        }
        last
    }

    /// The edge to `to`, the newest instruction; of several from one instruction the longest counts.
    fn edge(nodes: &[Node], edges: &mut Vec<Edge>, found: &mut [u32], from: u32, to: u32, slots: u32) {
        if from == to {
            return;
        }
        let own = nodes[to as usize].edges;
        let known = found[from as usize];
        match edges.get_mut(known as usize) {
            Some(edge) if known >= own && edge.from == from => edge.slots = edge.slots.max(slots),
            _ => {
                found[from as usize] = edges.len() as u32;
                edges.push(Edge { from, to, slots });
            }
        }
    }

    /// Finds what depends on what in a piece.
    fn read(&mut self, piece: &[Inst]) {
        self.piece += 1;
        self.nodes.clear();
        self.edges.clear();
        self.found.clear();
        self.found.resize(piece.len(), u32::MAX);
        let mut spaces = [Last::default(), Last::default()];
        let mut store: Option<u32> = None;
        for (at, inst) in piece.iter().enumerate() {
            let at = at as u32;
            let (latency, busy) = costs(inst, self.chip);
            let vector = class(inst, self.chip) == Class::Vector && !is_transcendental(inst.op);
            let mask = vector && matches!(inst.op.desc().slots.first(), Some(slot) if slot.kind == Kind::Scalar);
            self.nodes.push(Node { latency, busy, vector, mask, edges: self.edges.len() as u32, ..Node::default() });
            self.registers(at, inst);
            let (nodes, edges, found) = (&self.nodes, &mut self.edges, &mut self.found);
            let mut edge = |from: u32, slots: u32| Graph::edge(nodes, edges, found, from, at, slots);
            let (loads, stores) = memory(inst);
            // A barrier waits for what was loaded from local data share.
            let waited = [if inst.op == Opcode::SBarrier { latency::LDS } else { 0 }, 0];
            for (((last, loads), stores), waited) in spaces.iter_mut().zip(loads).zip(stores).zip(waited) {
                if loads {
                    last.write.into_iter().for_each(|w| edge(w, 1));
                    last.reads.push(at);
                }
                if stores {
                    last.write.into_iter().for_each(|w| edge(w, 1));
                    last.reads.iter().for_each(|&r| edge(r, waited));
                    last.written(at);
                    if loads {
                        last.reads.push(at);
                    }
                }
            }
            if stores.contains(&true) {
                store.into_iter().for_each(|s| edge(s, 1));
                store = Some(at);
            }
            let node = &mut self.nodes[at as usize];
            node.waits_for = self.edges.len() as u32 - node.edges;
        }
        self.link();
    }

    /// Words to which a matrix instruction adds where they are.
    fn sums(&self, inst: &Inst) -> Range<usize> {
        match (class(inst, self.chip), inst.operands.first(), inst.operands.get(3)) {
            (Class::Matrix(..), Some(Operand::Reg(to)), Some(Operand::Reg(sum))) if to == sum => self.words(*sum),
            _ => 0..0,
        }
    }

    /// Edges that registers make to the newest instruction.
    fn registers(&mut self, at: u32, inst: &Inst) {
        let (desc, keeps) = (inst.op.desc(), keeps_part(inst));
        let operands = inst.operands.iter().zip(desc.slots).filter_map(|(operand, slot)| match operand {
            Operand::Reg(span) if slot.access == Access::Def && keeps => Some((self.words(*span), Access::Update)),
            Operand::Reg(span) => Some((self.words(*span), slot.access)),
            _ => None,
        });
        let implicit = desc.implicit.iter().map(|i| (named(i.reg), i.access));
        let used: SmallVec<[(Range<usize>, Access); 8]> = operands.chain(implicit).collect();
        let (sums, multiplies) = (self.sums(inst), matches!(class(inst, self.chip), Class::Matrix(..)));
        for word in used.iter().filter(|u| u.1 != Access::Def).flat_map(|u| u.0.clone()) {
            let last = self.last(word);
            last.reads.push(at);
            if let Some(write) = last.write {
                let node = &self.nodes[write as usize];
                // Sums are added to as soon as the unit is free; what lanes compute, and masks, others read later than lanes read what they computed.
                let latency = match node {
                    node if sums.contains(&word) && node.busy > 0 => node.busy,
                    node if node.mask || node.vector && multiplies => latency::ACROSS,
                    node => node.latency,
                };
                Graph::edge(&self.nodes, &mut self.edges, &mut self.found, write, at, latency);
            }
        }
        for word in used.iter().filter(|u| u.1 != Access::Use).flat_map(|u| u.0.clone()) {
            self.last(word);
            let last = &mut self.last[word];
            if let Some(write) = last.write {
                // What was there is lost only when it has come.
                let slots = if last.reads.is_empty() { self.nodes[write as usize].latency.max(1) } else { 1 };
                Graph::edge(&self.nodes, &mut self.edges, &mut self.found, write, at, slots);
            }
            for &read in &last.reads {
                Graph::edge(&self.nodes, &mut self.edges, &mut self.found, read, at, 0);
            }
            last.written(at);
        }
    }

    /// Orders edges by where they come from, and finds how long the ways behind instructions are.
    fn link(&mut self) {
        let (nodes, edges) = (&mut self.nodes, &self.edges);
        // The matrix unit has all that come later still in front of it.
        let mut left = 0;
        for node in nodes.iter_mut().rev() {
            left += node.busy;
            (node.edges, node.length) = (0, if node.busy > 0 { left } else { 0 });
        }
        for edge in edges.iter().rev() {
            // All edges from where this one goes come later in the list.
            let length = nodes[edge.to as usize].length + edge.slots.max(1);
            let from = &mut nodes[edge.from as usize];
            from.length = from.length.max(length);
            from.edges += 1;
        }
        let mut end = 0;
        for node in nodes.iter_mut() {
            let count = std::mem::replace(&mut node.edges, end);
            end += count;
        }
        self.behind.clear();
        self.behind.resize(edges.len(), (0, 0));
        for edge in edges {
            let at = &mut nodes[edge.from as usize].edges;
            self.behind[*at as usize] = (edge.to, edge.slots);
            *at += 1;
        }
    }

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
