//! What is written of a specialised loop: its ring, its buffers, and which grid positions a task takes.

use super::Refusal;
use super::write::{Arg, Writer, number};
use crate::plan::{Replay, Specialised, SwizzledTile, is_view};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Inst, Kernel, Op, Region, SharedType, Type, Value};
use tilelift_lane::Units;

/// Slots of the ring, and what tells who may use them.
#[derive(Clone)]
pub(super) struct Ring {
    pub depth: u32,
    pub full: Value,
    pub empty: Value,
    /// The producer's lanes copy, in some loop.
    pub copied: bool,
    /// Units copy, in some loop.
    pub brought: bool,
    /// They copy what products read: who has waited shows it to the units.
    pub fenced: bool,
    /// Which of so many tasks this is that take steps in turns: each counts its own steps, and has every so many-th slot.
    pub turn: [u32; 2],
}

impl Ring {
    /// Waits until a slot has been filled so many times.
    pub fn wait_full(&self, w: &mut Writer<'_>, slot: Arg, round: Arg) -> Result<(), Refusal> {
        let full = w.bin(Op::BarrierIndex, self.full, slot)?;
        w.act(Op::BarrierWait, &[full.into(), round], &[]);
        if self.fenced {
            w.act(Op::FenceAsync, &[], &[]);
        }
        Ok(())
    }

    /// The slot of a step, and how often the ring has gone round before.
    pub fn slot_and_round(&self, w: &mut Writer<'_>, step: impl Into<Arg>) -> Result<[Value; 2], Refusal> {
        let step = step.into();
        let slot = self.slot(w, step)?;
        Ok([slot, w.bin(Op::Div, step, number(self.depth / self.turn[1]))?])
    }

    /// The slot of a step.
    pub fn slot(&self, w: &mut Writer<'_>, step: impl Into<Arg>) -> Result<Value, Refusal> {
        let [own, of] = self.turn;
        let nth = w.bin(Op::Rem, step, number(self.depth / of))?;
        if of == 1 {
            return Ok(nth);
        }
        let first = w.bin(Op::Mul, nth, number(of))?;
        if own == 0 { Ok(first) } else { w.bin(Op::Add, first, number(own)) }
    }

    /// Gives the slot of a step back.
    pub fn give_back(&self, w: &mut Writer<'_>, step: impl Into<Arg>) -> Result<(), Refusal> {
        let slot = self.slot(w, step)?;
        let empty = w.bin(Op::BarrierIndex, self.empty, slot)?;
        w.act(Op::BarrierArrive, &[empty.into()], &[]);
        Ok(())
    }
}

/// The ring of what is transposed.
#[derive(Clone)]
pub(super) struct Transposed {
    /// Its slots, by product.
    pub slots: Vec<(Inst, Value)>,
    /// Tells that a slot is full.
    pub full: Value,
    /// Tells that it is empty.
    pub empty: Value,
    /// How many there are.
    pub depth: u32,
}

impl Transposed {
    /// The slot of a step, and how often the ring has gone round before.
    pub fn slot_and_round(&self, w: &mut Writer<'_>, step: Arg) -> Result<[Arg; 2], Refusal> {
        match step {
            Arg::Value(_) => Ok([w.bin(Op::Rem, step, number(self.depth))?.into(), w.bin(Op::Div, step, number(self.depth))?.into()]),
            // The very first one.
            Arg::Literal(..) => Ok([number(0); 2]),
        }
    }

    /// The slots of a product's operand.
    pub fn slot_of(&self, i: Inst) -> Option<Value> {
        self.slots.iter().find(|s| s.0 == i).map(|s| s.1)
    }
}

/// The positions of an instance that a task takes: from the `first`th on, every `of`th.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub first: Arg,
    pub of: u32,
}

impl Share {
    /// All of them.
    pub fn all() -> Share {
        Share { first: number(0), of: 1 }
    }
}

/// What is written, and how.
pub(super) struct ProgramPlan<'k> {
    pub kernel: &'k Kernel,
    pub plan: &'k Specialised,
    pub units: Option<&'k Units>,
    /// The region of the loop.
    pub region: Region,
    /// What a step of a mixed loop computes that somebody looks at, but for what the ring holds.
    pub live: BTreeSet<Inst>,
    /// How many steps the loop has at every position, where tasks pass over those of others; absent if that is not the same at each.
    pub count: Option<Value>,
    pub ring: Ring,
    /// What guards the slots of loads that late products alone read, where these are filled and given back apart.
    pub ring_late: Option<Ring>,
    /// The slots of each load.
    pub slots: Vec<Value>,
    /// A buffer per bulk store.
    pub staging: BTreeMap<Inst, Staging>,
    /// The ring of operands B that a task transposes.
    pub transposed: Option<Transposed>,
    /// Operands that the producer brings once: their buffers, and the mbarrier that their bytes arrive at.
    pub brought: Option<Brought>,
    /// Through what tasks that share columns hand over.
    pub handed: Option<Handed>,
    /// Buffers of what the consumers store for products, in the order of the plan.
    pub staged: Vec<Value>,
    /// Buffers of the sums that bulk copies add, in the order of the plan.
    pub updates: Vec<Value>,
    /// Slots of the vectors beside the ring, in the order of the plan.
    pub vectors: Vec<Value>,
    /// Tasks that take the steps of the loop in turns.
    pub slices: Option<Slices>,
    /// Slots of the tiles of the ring that lanes read, in the order of the plan.
    pub lane_tiles: Vec<Value>,
    /// What has been computed in front of all tasks.
    pub front: BTreeSet<Inst>,
    /// Layouts in registers are required.
    pub required: bool,
    /// No other loop takes the ring.
    pub alone: bool,
    /// Loops in front of this one, which take the same ring.
    pub before: Vec<ProgramPlan<'k>>,
}

impl<'k> ProgramPlan<'k> {
    /// The loop that an instruction is, if its copies go through the ring.
    pub fn of_loop(&self, i: Inst) -> Option<&ProgramPlan<'k>> {
        if i == self.plan.main { Some(self) } else { self.before.iter().find(|s| s.plan.main == i) }
    }

    /// What guards the slots of a load.
    pub fn ring_of(&self, load: Inst) -> &Ring {
        let late = self.plan.overlap.as_ref().is_some_and(|o| o.read_late.contains(&load));
        self.ring_late.as_ref().filter(|_| late).unwrap_or(&self.ring)
    }

    /// What the producer computes again for all loops.
    pub fn replay(&self) -> Replay {
        let mut all = Replay::default();
        self.plan.loops().for_each(|s| all.add(s.replay.clone()));
        all
    }
}

/// What the producer brings once, in front of the first step.
#[derive(Clone)]
pub(super) struct Brought {
    /// The buffers, in the order of the plan.
    pub buffers: Vec<Value>,
    /// The mbarrier.
    pub full: Value,
}

/// Through what the tasks hand over.
#[derive(Clone)]
pub(super) struct Handed {
    /// Buffers of what is handed over in a step, and behind the loop, in the order of the plan.
    pub buffers: [Vec<Value>; 2],
    /// It is there; it is read; what is handed over behind the loop is there.
    pub full: Value,
    pub empty: Value,
    pub behind: Value,
}

/// What the tasks hand their sums over by.
#[derive(Clone)]
pub(super) struct Slices {
    /// Which of the tasks this is.
    pub own: u32,
    /// A buffer per accumulator, of each task but the first.
    pub buffers: Vec<Vec<Value>>,
    /// Tells that a task's sums are there; it arrives once.
    pub full: Value,
}

/// A buffer through which a result leaves.
pub(super) struct Staging {
    /// The buffer.
    pub buffer: Value,
    /// The dimension of the result that is cut, and into how many parts.
    pub parts: (usize, u32),
}

impl Staging {
    /// The shape of the buffer through which a tile leaves, so many parts one behind the other.
    pub fn shape(t: &SwizzledTile, parts: u32) -> (Vec<u32>, usize) {
        let down = t.down();
        let shape = t.shape.iter().enumerate().map(|(d, &e)| if d == down { e / parts } else { e });
        (shape.collect(), down)
    }
}

/// True if layouts in registers are required.
pub(super) fn required(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(kernel.body, &mut |i| found |= kernel.insts[i].op == Op::RequireLayout && !is_view(kernel, i));
    found
}

/// The type of a buffer of a tile's elements.
pub(super) fn buffer_type(shape: &[u32], t: &SwizzledTile) -> Type {
    Type::Shared(SharedType::new(shape, t.held()))
}
