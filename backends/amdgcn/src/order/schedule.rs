//! Reorders instructions within blocks, before allocation: loads go up, and other instructions fill the time in which matrices are multiplied.
//!
//! A block is cut at barriers, branches and the like. Within a piece, an instruction stays behind those that it depends on: by registers,
//! word by word, those with names and `scc` included; and by memory, where stores keep their order and nothing of a kind of memory passes a
//! store to it. Since `exec` is a register, nothing that asks for lanes passes a change of it.
//!
//! Pieces are scheduled from the top: of the instructions that could be issued now, the one with the longest way to the end goes first. Only the
//! next [`WINDOW`] instructions in the old order are looked at, so that loads do not go so far up that registers become scarce.

use super::class::{Class, Unit, class, is_transcendental};
use crate::chip::Chip;
use crate::isa::{Access, Fixed, Format, Kind, Opcode, Variant};
use crate::mir::{File, Inst, Operand, Program, Reg};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Instructions that are looked at.
const WINDOW: usize = 96;

/// Issue slots of four cycles until results are there: guesses of the order of magnitude.
mod latency {
    pub(super) const GLOBAL: u32 = 120;
    pub(super) const SCALAR_MEMORY: u32 = 40;
    pub(super) const LDS: u32 = 24;
    pub(super) const TRANSCENDENTAL: u32 = 4;
    pub(super) const VECTOR: u32 = 2;
    pub(super) const SCALAR: u32 = 1;
}

/// Reorders the instructions of each block.
pub fn schedule(program: &Program) -> Program {
    let mut program = program.clone();
    let chip = program.chip;
    for data in program.blocks.values_mut() {
        let mut out = Vec::with_capacity(data.insts.len());
        let mut piece = Vec::new();
        for inst in std::mem::take(&mut data.insts) {
            if stays(&inst) {
                place(&mut piece, chip, &mut out);
                out.push(inst);
            } else {
                piece.push(inst);
            }
        }
        place(&mut piece, chip, &mut out);
        data.insts = out;
    }
    program
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

/// A word of a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    Of(Reg, u8),
    Physical(File, u16),
}

/// Words that an instruction reads and writes.
fn words(inst: &Inst) -> (SmallVec<[Word; 16]>, SmallVec<[Word; 16]>) {
    let (mut reads, mut writes) = (SmallVec::new(), SmallVec::new());
    let mut add = |word: Word, access: Access| {
        if access != Access::Def {
            reads.push(word);
        }
        if access != Access::Use {
            writes.push(word);
        }
    };
    let desc = inst.op.desc();
    for (operand, slot) in inst.operands.iter().zip(desc.slots) {
        let Operand::Reg(span) = operand else { continue };
        for word in span.first..span.first + span.words {
            let word = match span.reg {
                Reg::Physical(file, number) => Word::Physical(file, number + u16::from(word)),
                reg => Word::Of(reg, word),
            };
            add(word, slot.access);
        }
    }
    for implicit in desc.implicit {
        let count = if matches!(implicit.reg, Fixed::Vcc | Fixed::Exec) { 2 } else { 1 };
        (0..count).for_each(|word| add(Word::Of(Reg::Fixed(implicit.reg), word), implicit.access));
    }
    (reads, writes)
}

/// Kinds of memory that an instruction reads and writes: local data share, everything else.
fn memory(inst: &Inst) -> ([bool; 2], [bool; 2]) {
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
        (Class::Scalar, _) => (latency::SCALAR, 0),
    }
}

/// What follows on an instruction, and when.
#[derive(Default, Clone)]
struct Node {
    behind: Vec<(usize, u32)>,
    waits_for: u32,
    earliest: u32,
    length: u32,
    /// Slots that it keeps the matrix unit busy.
    busy: u32,
}

impl Node {
    /// When it can be issued.
    fn start(&self, matrix_free: u32) -> u32 {
        if self.busy > 0 { self.earliest.max(matrix_free) } else { self.earliest }
    }
}

/// What happened last to a word, or a kind of memory.
#[derive(Default, Clone)]
struct Last {
    write: Option<usize>,
    reads: SmallVec<[usize; 4]>,
}

fn graph(piece: &[Inst], chip: Chip) -> Vec<Node> {
    let mut nodes = vec![Node::default(); piece.len()];
    let mut registers: FxHashMap<Word, Last> = FxHashMap::default();
    let mut spaces = [Last::default(), Last::default()];
    let mut store: Option<usize> = None;
    let mut edges: Vec<(usize, u32)> = Vec::new();
    for (at, inst) in piece.iter().enumerate() {
        edges.clear();
        let (reads, writes) = words(inst);
        for word in &reads {
            let last = registers.entry(*word).or_default();
            edges.extend(last.write.map(|w| (w, costs(&piece[w], chip).0)));
            last.reads.push(at);
        }
        for word in &writes {
            let last = registers.entry(*word).or_default();
            // What was there is lost only when it has come.
            edges.extend(last.write.filter(|_| last.reads.is_empty()).map(|w| (w, costs(&piece[w], chip).0)));
            edges.extend(last.write.map(|w| (w, 1)));
            edges.extend(last.reads.iter().map(|&r| (r, 0)));
            *last = Last { write: Some(at), reads: SmallVec::new() };
        }
        let (loads, stores) = memory(inst);
        for ((last, loads), stores) in spaces.iter_mut().zip(loads).zip(stores) {
            if loads {
                edges.extend(last.write.map(|w| (w, 1)));
                last.reads.push(at);
            }
            if stores {
                edges.extend(last.write.map(|w| (w, 1)));
                edges.extend(last.reads.iter().map(|&r| (r, 0)));
                *last = Last { write: Some(at), reads: SmallVec::new() };
                if loads {
                    last.reads.push(at);
                }
            }
        }
        if stores.contains(&true) {
            edges.extend(store.map(|s| (s, 1)));
            store = Some(at);
        }
        edges.retain(|e| e.0 != at);
        edges.sort_unstable_by_key(|&(from, slots)| (from, Reverse(slots)));
        edges.dedup_by_key(|e| e.0);
        nodes[at].waits_for = edges.len() as u32;
        nodes[at].busy = costs(inst, chip).1;
        for &(from, slots) in &edges {
            nodes[from].behind.push((at, slots));
        }
    }
    for at in (0..nodes.len()).rev() {
        nodes[at].length = nodes[at].behind.iter().map(|&(to, slots)| nodes[to].length + slots.max(1)).max().unwrap_or(0);
    }
    nodes
}

/// Schedules a piece; it is empty then.
fn place(piece: &mut Vec<Inst>, chip: Chip, out: &mut Vec<Inst>) {
    if piece.len() < 3 {
        out.append(piece);
        return;
    }
    let mut nodes = graph(piece, chip);
    let mut insts: Vec<Option<Inst>> = std::mem::take(piece).into_iter().map(Some).collect();
    let mut open: Vec<usize> = Vec::with_capacity(WINDOW);
    let mut next = 0;
    let (mut now, mut matrix_free) = (0u32, 0u32);
    loop {
        while open.len() < WINDOW && next < insts.len() {
            open.push(next);
            next += 1;
        }
        // The earliest that may be issued; of those that may be issued now, the one with the longest way behind it.
        let best = open
            .iter()
            .enumerate()
            .filter(|&(_, &at)| nodes[at].waits_for == 0)
            .min_by_key(|&(_, &at)| (nodes[at].start(matrix_free).max(now), Reverse(nodes[at].length), at))
            .map(|(index, &at)| (index, at));
        let Some((index, at)) = best else { break };
        open.remove(index);
        let Some(inst) = insts[at].take() else { break };
        let start = nodes[at].start(matrix_free).max(now);
        now = start + 1;
        if nodes[at].busy > 0 {
            matrix_free = start + nodes[at].busy;
        }
        for (to, slots) in std::mem::take(&mut nodes[at].behind) {
            nodes[to].waits_for -= 1;
            nodes[to].earliest = nodes[to].earliest.max(start + slots);
        }
        out.push(inst);
    }
    // None is left, since the graph has no cycles; should one be, it keeps its place behind the others.
    out.extend(insts.into_iter().flatten());
}
