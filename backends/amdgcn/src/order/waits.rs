//! Waits for memory: as few and as weak as may be.
//!
//! Vector memory operations are done in the order of issue: a result is there when at most as many operations are left as were issued behind
//! it. So each word knows how many that are. Where ways meet, the smaller number holds; it is a wait that suffices on all of them. Operations on
//! local data share are done in order, too, but share their counter with scalar loads, which are done in any order: while one of those may be
//! in flight, only zero tells anything.
//!
//! A wait does for later ones, too, where what those are for was issued by then, and is there as a rule: it was issued long before, or together with what the
//! wait is for.
//!
//! A barrier orders accesses of the workgroup: the wavefront first waits for its operations on local data share, for loads into it, and for its
//! stores to global memory. So what loads fill of local data share is read behind a barrier, but by a wavefront that is alone in its workgroup: that one
//! waits before it touches local data share. Others' accesses between a load that fills and the barrier are to what no load fills. Loads from global memory may stay in flight, since a compute unit executes memory operations in order.

use super::class::{Class, class};
use super::flow;
use super::latency;
use super::words::{WORDS, used};
use crate::chip::Chip;
use crate::isa::{Counter, Format, Opcode, Variant, Wait};
use crate::mir::{BlockData, Inst, Operand, Program};
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;

/// Nothing is in flight.
const DONE: u8 = u8::MAX;
/// The most operations that a counter can leave in flight.
const MOST_VECTOR: u8 = 63;
const MOST_LDS: u8 = 15;
/// Slots within which operations are issued together: what the first one brings and what the last one brings come together, too.
const TOGETHER: u32 = 4;

/// What may be in flight at a point: per word, how many operations of its counter were issued behind the one that writes it.
#[derive(Clone, PartialEq)]
struct Flight {
    vector: Vec<u8>,
    lds: Vec<u8>,
    scalar: Vec<bool>,
    /// The newest store to memory, load into local data share, or write-back of caches.
    store: u8,
    fill: u8,
    write_back: u8,
    /// The newest load from memory.
    load: u8,
    /// An operation on local data share, a scalar load.
    any_lds: bool,
    any_scalar: bool,
    /// The wavefront is the only one of its workgroup.
    alone: bool,
}

impl Flight {
    fn new(alone: bool) -> Flight {
        Flight {
            alone,
            vector: vec![DONE; WORDS],
            lds: vec![DONE; WORDS],
            scalar: vec![false; WORDS],
            store: DONE,
            fill: DONE,
            write_back: DONE,
            load: DONE,
            any_lds: false,
            any_scalar: false,
        }
    }

    fn join(&mut self, other: &Flight) {
        let least = |a: &mut [u8], b: &[u8]| a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).min(*b));
        least(&mut self.vector, &other.vector);
        least(&mut self.lds, &other.lds);
        self.scalar.iter_mut().zip(&other.scalar).for_each(|(a, b)| *a |= b);
        self.store = self.store.min(other.store);
        self.fill = self.fill.min(other.fill);
        self.write_back = self.write_back.min(other.write_back);
        self.load = self.load.min(other.load);
        self.any_lds |= other.any_lds;
        self.any_scalar |= other.any_scalar;
    }

    /// The wait that an instruction needs before it.
    fn needed(&self, inst: &Inst) -> Wait {
        let mut wait = Wait::NONE;
        let vector = |wait: &mut Wait, age: u8| {
            if age != DONE {
                wait.vector = wait.vector.min(age.min(MOST_VECTOR - 1));
            }
        };
        for word in used(inst).flat_map(|u| u.words) {
            vector(&mut wait, self.vector[word]);
            if self.scalar[word] {
                wait.lgkm = 0;
            }
            if self.lds[word] != DONE {
                wait.lgkm = if self.any_scalar { 0 } else { wait.lgkm.min(self.lds[word].min(MOST_LDS - 1)) };
            }
        }
        match inst.op {
            Opcode::SBarrier => {
                vector(&mut wait, self.store);
                vector(&mut wait, self.fill);
                vector(&mut wait, self.write_back);
                if self.any_lds {
                    wait.lgkm = 0;
                }
            }
            // What was loaded before must be there before caches are emptied.
            Opcode::BufferInv => vector(&mut wait, self.load),
            _ if inst.op.desc().counter() == Some(Counter::Vector) => vector(&mut wait, self.write_back),
            _ => {}
        }
        // Local data share that a load fills is not read before it is there. Between wavefronts, a barrier sees to that.
        if self.alone && inst.op.desc().counter() == Some(Counter::Lds) {
            vector(&mut wait, self.fill);
        }
        wait
    }

    /// A wait is over.
    fn wait(&mut self, wait: Wait) {
        let drop = |age: &mut u8, left: u8| {
            if *age != DONE && *age >= left {
                *age = DONE;
            }
        };
        if wait.vector < MOST_VECTOR {
            self.vector.iter_mut().for_each(|age| drop(age, wait.vector));
            for age in [&mut self.store, &mut self.fill, &mut self.write_back, &mut self.load] {
                drop(age, wait.vector);
            }
        }
        if wait.lgkm == 0 {
            self.scalar.fill(false);
            self.lds.fill(DONE);
            (self.any_lds, self.any_scalar) = (false, false);
        } else if wait.lgkm < MOST_LDS && !self.any_scalar {
            self.lds.iter_mut().for_each(|age| drop(age, wait.lgkm));
        }
    }

    /// An instruction is issued.
    fn issue(&mut self, inst: &Inst) {
        let results = || used(inst).filter(|u| u.writes && u.operand != usize::MAX).flat_map(|u| u.words);
        let older = |age: &mut u8| {
            if *age != DONE {
                *age = (*age + 1).min(DONE - 1);
            }
        };
        match inst.op.desc().counter() {
            Some(Counter::Vector) => {
                self.vector.iter_mut().for_each(older);
                for age in [&mut self.store, &mut self.fill, &mut self.write_back, &mut self.load] {
                    older(age);
                }
                let mut loads = false;
                for word in results() {
                    self.vector[word] = 0;
                    loads = true;
                }
                match (inst.op, inst.op.desc().form.variant) {
                    (Opcode::BufferWbl2, _) => self.write_back = 0,
                    (_, Variant::ToLds) => self.fill = 0,
                    _ if loads => self.load = 0,
                    _ => {}
                }
                if stores(inst) {
                    self.store = 0;
                }
            }
            Some(Counter::Lds) => {
                self.lds.iter_mut().for_each(older);
                results().for_each(|word| self.lds[word] = 0);
                self.any_lds = true;
            }
            Some(Counter::ScalarMemory) => {
                results().for_each(|word| self.scalar[word] = true);
                self.any_scalar = true;
            }
            None => {}
        }
    }
}

/// True if the instruction may write global memory: it reads data that is no address.
fn stores(inst: &Inst) -> bool {
    inst.op.desc().reads_data() && inst.op.desc().form.format != Format::Scratch
}

/// The wait that an instruction is.
fn explicit(inst: &Inst) -> Option<Wait> {
    match (inst.op, inst.operands.first()) {
        (Opcode::SWaitcnt, Some(Operand::Imm(bits))) => Some(Wait::of(*bits as u16)),
        _ => None,
    }
}

/// Walks a block; hands each instruction with the wait that it needs to `each`.
fn walk(block: &BlockData, flight: &mut Flight, mut each: impl FnMut(usize, Wait)) {
    for (at, inst) in block.insts.iter().enumerate() {
        if let Some(wait) = explicit(inst) {
            flight.wait(wait);
            continue;
        }
        let wait = flight.needed(inst);
        if wait != Wait::NONE {
            flight.wait(wait);
            each(at, wait);
        }
        flight.issue(inst);
    }
}

/// When the operations of a counter are issued in a block, in slots from its beginning on.
#[derive(Default)]
struct Issued {
    /// Of each operation.
    slots: Vec<u32>,
    /// Per instruction, how many were issued in front of it.
    before: Vec<u32>,
}

impl Issued {
    /// When an operation was issued; those that are in flight at the beginning, whose numbers are negative, then at the latest.
    fn slot(&self, number: i64) -> u32 {
        usize::try_from(number).ok().and_then(|n| self.slots.get(n)).copied().unwrap_or(0)
    }
}

/// The order in which instructions of a block are issued, if none waits for memory: slots of each, and operations by counter.
fn issued(block: &BlockData, chip: Chip) -> (Vec<u32>, [Issued; 2]) {
    let (mut now, mut matrix_free) = (0u32, 0u32);
    let mut out = [Issued::default(), Issued::default()];
    let mut slots = Vec::with_capacity(block.insts.len());
    for inst in &block.insts {
        if let Class::Matrix(_, passes) = class(inst, chip) {
            now = now.max(matrix_free);
            matrix_free = now.saturating_add(passes.into());
        }
        slots.push(now);
        out.iter_mut().for_each(|o| o.before.push(o.slots.len() as u32));
        match inst.op.desc().counter() {
            Some(Counter::Vector) => out[0].slots.push(now),
            Some(Counter::Lds | Counter::ScalarMemory) => out[1].slots.push(now),
            None => {}
        }
        now = now.saturating_add(1);
    }
    (slots, out)
}

/// Waits of one counter, in order: the instruction in front of which one stands, and how many operations may be left in flight. One is dropped where the one
/// in front of it may do for both: where what it is for was issued by then, and is there, too, as a rule.
fn merged(waits: &[(usize, u8)], slots: &[u32], issued: &Issued, latency: u32) -> Vec<(usize, u8)> {
    // The number of the first operation that may be left in flight.
    let first = |&(at, left): &(usize, u8)| i64::from(issued.before[at]) - i64::from(left);
    let mut out: Vec<(usize, u8)> = Vec::with_capacity(waits.len());
    for wait in waits {
        if let Some(last) = out.last_mut() {
            let (own, to) = (first(last), first(wait));
            let here = i64::from(issued.before[last.0]);
            let issued_at = issued.slot(to - 1);
            let there = slots[last.0] - issued_at.min(slots[last.0]) >= latency;
            let together = own > 0 && issued_at - issued.slot(own - 1).min(issued_at) <= TOGETHER;
            if to <= here && (there || together) {
                last.1 = (here - to.max(own)) as u8;
                continue;
            }
        }
        out.push(*wait);
    }
    out
}

/// The waits of a block, which is entered with what is in flight.
fn waits(block: &BlockData, flight: &mut Flight, chip: Chip) -> Vec<(usize, Wait)> {
    let (mut vector, mut lgkm) = (Vec::new(), Vec::new());
    walk(block, flight, |at, wait| {
        vector.extend((wait.vector < MOST_VECTOR).then_some((at, wait.vector)));
        lgkm.extend((wait.lgkm < MOST_LDS).then_some((at, wait.lgkm)));
    });
    if vector.is_empty() && lgkm.is_empty() {
        return Vec::new();
    }
    let (slots, [vectors, others]) = issued(block, chip);
    let mut out: BTreeMap<usize, Wait> = BTreeMap::new();
    for (at, left) in merged(&vector, &slots, &vectors, latency::GLOBAL) {
        out.entry(at).or_insert(Wait::NONE).vector = left;
    }
    for (at, left) in merged(&lgkm, &slots, &others, latency::LDS) {
        out.entry(at).or_insert(Wait::NONE).lgkm = left;
    }
    out.into_iter().collect()
}

/// Inserts waits.
pub(super) fn insert(program: &mut Program) {
    let chip = program.chip;
    let mut entry = flow::entries(program, Flight::new(program.waves == 1), Flight::join, |flight, block| walk(block, flight, |_, _| {}));
    for (block, data) in program.blocks.iter_mut() {
        let Some(mut flight) = entry[block.index()].take() else { continue };
        let waits = waits(data, &mut flight, chip);
        if waits.is_empty() {
            continue;
        }
        let mut out = Vec::with_capacity(data.insts.len() + waits.len());
        let mut waits = waits.into_iter().peekable();
        for (at, inst) in std::mem::take(&mut data.insts).into_iter().enumerate() {
            if let Some((_, wait)) = waits.next_if(|w| w.0 == at) {
                out.push(Inst::new(Opcode::SWaitcnt, [Operand::Imm(i64::from(wait.bits()))]));
            }
            out.push(inst);
        }
        data.insts = out;
    }
}
