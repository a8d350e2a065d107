//! A specialised loop, as it is planned: who does what of it, with what.

use super::columns::ColumnTasks;
use super::epilogue_operands::Epilogue;
use super::late_products::Late;
use super::overlap::Overlap;
use super::products::BroughtOperand;
use super::replay::Replay;
use super::staged::StagedOperand;
use super::tensor_boxes::SwizzledTile;
use super::updates::BulkUpdate;
use crate::reason::LoopOutline;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use tilelift_ir::Inst;
use tilelift_lane::GroupMatrixId;

/// Most slots of a ring that nobody asked for.
pub const MAX_DEPTH: u32 = 8;

/// Slots of the ring beside results of 32-bit elements, at least: with fewer, they leave by lanes.
pub const WIDE_RESULTS_LEAST: u32 = 3;

/// Slots of the ring of operands that are transposed.
pub const TRANSPOSED_SLOTS: u32 = 2;

/// Turns in which the groups of a loop multiply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// From in front of a step's last product to behind the next step's first one: no product runs beside what lanes make of another one.
    Products {
        /// Behind it a turn ends.
        first: Inst,
        /// In front of it the next one begins.
        last: Inst,
    },
    /// While a step begins its products, which run while lanes compute.
    Begun,
}

/// A kernel whose main loop is split between a producer that copies and consumers that compute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Specialised {
    /// Warpgroups that compute, each a share of the rows.
    pub consumers: u32,
    /// Consumer sets of so many groups: two of them take grid positions in ping-pong, one multiplying while the other stores.
    pub consumer_sets: u32,
    /// Sets of so many groups that take the steps of one position in turns, each into accumulators of its own.
    pub slices: u32,
    /// Consumers compute the operands of the next step while products of this one run.
    pub converts_ahead: bool,
    /// Slots of the ring between them.
    pub depth: u32,
    /// Groups of multiplications that may be in flight while the next ones are issued; none where the lanes add to the accumulators.
    pub in_flight: u32,
    /// Registers per lane of producer and consumers, if they move.
    pub registers: Option<[u32; 2]>,
    /// An instance runs several grid positions.
    pub persistent: bool,
    /// Bytes of a slot.
    pub stage_bytes: u32,
    /// Bytes that slots may take, beside all else.
    pub ring_bytes: u32,
    /// Bytes through which results leave.
    pub staging_bytes: u32,
    /// Of a group's rows so many parts leave one behind the other through the same bytes: consumer sets have the time, and the ring the room.
    pub staging_parts: u32,
    /// All results leave through the same bytes, one behind the other.
    pub staging_shared: bool,
    /// Results that leave through the bytes of an operand that was brought, by number: products have read it by then.
    pub results_over: BTreeMap<Inst, usize>,
    /// The loop does more than multiply and add up.
    pub mixed: bool,
    /// Its parts, if its products run while the lanes compute.
    pub overlap: Option<Overlap>,
    /// Else what of a step ends in the next one.
    pub late: Option<Late>,
    /// Its groups multiply in turns.
    pub turns: Option<Turns>,
    /// The loop.
    pub main: Inst,
    /// The loops and choices around it, the outermost one first.
    pub around: Vec<Inst>,
    /// What the producer computes again: the loop's bounds, and the indices of its copies.
    pub replay: Replay,
    /// Which of the loop's carried values the consumers carry.
    pub carried: Vec<usize>,
    /// Loops in front of it that take the same ring.
    pub before: Vec<Specialised>,
    /// Its loads, in program order.
    pub loads: Vec<(Inst, SwizzledTile)>,
    /// Those among them that the producer's lanes copy.
    pub by_lanes: Vec<Inst>,
    /// Those among them whose masks lanes apply in their slots.
    pub masked: Vec<Inst>,
    /// Its dots.
    pub dots: Vec<(Inst, GroupMatrixId)>,
    /// Dots whose operand A goes from the ring through registers.
    pub register_a: Vec<Inst>,
    /// Operands from in front of the loop that the producer brings, once: operands B, and those A that registers don't hold beside the accumulators.
    pub brought: Vec<BroughtOperand>,
    /// Operands that the consumers compute and store for their products.
    pub staged: Vec<StagedOperand>,
    /// Columns that tasks share, one of which makes what all multiply by.
    pub columns: Option<ColumnTasks>,
    /// Atomic sums that bulk copies do.
    pub updates: Vec<BulkUpdate>,
    /// Products whose operand B a task of its own transposes, and how it lies then.
    pub transposed_b: Vec<(Inst, SwizzledTile)>,
    /// Loads that the consumers do a step ahead, into registers.
    pub prefetched: Vec<Inst>,
    /// Loads of tiles that lanes read, which the ring brings, too.
    pub lane_tiles: Vec<(Inst, SwizzledTile)>,
    /// Loads of short tiles that the producer's lanes copy into slots beside the ring.
    pub vectors: Vec<Inst>,
    /// Tiles that stand behind the loop, and that the ring brings in steps of their own.
    pub epilogue: Epilogue,
    /// Accumulators are there twice, and the lanes add.
    pub promoted: bool,
    /// Stores that bulk copies do.
    pub stores: Vec<(Inst, SwizzledTile)>,
    /// Bytes of shared memory that it should do with, so that others run beside it: as many as there are, or a share of them.
    pub share: u32,
}

impl Specialised {
    /// All loops that take the ring, in program order.
    pub fn loops(&self) -> impl Iterator<Item = &Specialised> {
        self.before.iter().chain([self])
    }

    /// The same with so many slots.
    pub(super) fn with_slots(self, depth: u32) -> Specialised {
        let epilogue = if self.waits_behind(depth) { Epilogue::default() } else { self.epilogue };
        Specialised { depth, epilogue, ..self }
    }

    /// The same, which is this one if it has as many.
    pub fn slotted(self: &Rc<Specialised>, depth: u32) -> Rc<Specialised> {
        if self.depth == depth && !self.waits_behind(depth) {
            return Rc::clone(self);
        }
        Rc::new(Specialised::clone(self).with_slots(depth))
    }

    /// One of two sets waits until all that stands behind the loop is there, with the loop's last slot in its hands.
    fn waits_behind(&self, depth: u32) -> bool {
        self.consumer_sets > 1 && self.epilogue.steps() >= depth
    }

    /// True for a loop or choice around one of them.
    pub fn is_around(&self, i: Inst) -> bool {
        self.loops().any(|s| s.around.contains(&i))
    }

    /// What is said of it.
    pub(super) fn outline(&self) -> LoopOutline {
        LoopOutline {
            consumers: self.consumers,
            consumer_sets: self.consumer_sets,
            slices: self.slices,
            depth: self.depth,
            stage_bytes: self.stage_bytes,
            in_flight: self.in_flight,
            registers: self.registers,
            stored_through: (!self.stores.is_empty()).then_some(self.staging_bytes),
            narrow: self.loads.iter().filter(|l| l.1.swizzle < l.1.widest).map(|l| l.1.swizzle).collect(),
            a_from_registers: !self.register_a.is_empty(),
            transposed: !self.transposed_b.is_empty(),
            overlap: self.overlap.is_some() || self.converts_ahead,
            late: self.late.is_some(),
            turns: self.turns.is_some(),
            columns: self.columns.is_some(),
            persistent: self.persistent,
            by_lanes: self.loops().any(|s| !s.by_lanes.is_empty()),
        }
    }
}

impl fmt::Display for Specialised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outline().fmt(f)
    }
}
