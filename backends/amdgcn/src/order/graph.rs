//! What depends on what among the instructions of a piece: by registers, word by word, those with names and `scc` included; and by memory, where
//! stores keep their order and nothing of a kind of memory passes a store to it.

use super::class::{Class, Unit, class, is_transcendental, keeps_part};
use super::latency;
use super::words::{WORDS, named, words};
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Opcode, Variant};
use crate::mir::{Inst, Operand, Program, Reg, Span};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use std::ops::Range;

/// Kinds of memory that an instruction reads and writes: local data share, everything else. No access passes a barrier.
pub(super) fn memory(inst: &Inst) -> ([bool; 2], [bool; 2]) {
    if inst.op == Opcode::SBarrier {
        return ([true; 2], [true; 2]);
    }
    // Lanes hand values to one another through the unit of local data share; what is stored there nobody reads or writes.
    if matches!(inst.op, Opcode::DsBpermuteB32 | Opcode::DsPermuteB32 | Opcode::DsSwizzleB32) {
        return ([false; 2], [false; 2]);
    }
    let desc = inst.op.desc();
    let data = desc.reads_data();
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
pub(super) fn costs(inst: &Inst, chip: Chip) -> (u32, u32) {
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

/// An instruction of a piece.
#[derive(Default, Clone)]
pub(super) struct OrderNode {
    /// Instructions in front of it that are not issued yet.
    pub(super) waits_for: u32,
    pub(super) earliest: u32,
    /// Slots to the end of the piece.
    pub(super) length: u32,
    /// Slots until its results are there, and slots that it keeps the matrix unit busy.
    pub(super) latency: u32,
    pub(super) busy: u32,
    /// A vector instruction, and one that makes a mask.
    pub(super) vector: bool,
    pub(super) mask: bool,
    /// Where the edges to it end among those of the piece, while these are found; then where those to instructions behind it do.
    pub(super) edges: u32,
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
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    slots: u32,
}

/// What depends on what, piece by piece; its lists serve all pieces.
pub(super) struct Graph {
    pub(super) chip: Chip,
    /// Per virtual register the number of its first word; physical words are numbered in front of all.
    first: Vec<u32>,
    /// Per word.
    last: Vec<Last>,
    piece: u32,
    pub(super) nodes: Vec<OrderNode>,
    /// To each instruction in turn, at most one from each.
    pub(super) edges: Vec<Edge>,
    /// Per instruction the last edge from it that was found.
    found: Vec<u32>,
    /// Edges by where they come from: where they go, and slots.
    pub(super) behind: Vec<(u32, u32)>,
}

impl Graph {
    pub(super) fn new(program: &Program) -> Graph {
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
    fn edge(nodes: &[OrderNode], edges: &mut Vec<Edge>, found: &mut [u32], from: u32, to: u32, slots: u32) {
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
    pub(super) fn read(&mut self, piece: &[Inst]) {
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
            self.nodes.push(OrderNode { latency, busy, vector, mask, edges: self.edges.len() as u32, ..OrderNode::default() });
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
}
