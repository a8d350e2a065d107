//! Roles and asynchronous units: what warps do apart from one another, and what they leave to machinery beside them.
//!
//! ```text
//! roles   warps 0..4  producer, one lane     ── BulkLoad ─► slot ─┐ bytes arrive ─► full barrier
//!         warps 4..12 consumers               ◄─ Wait full ◄──────┘
//!                                             ── Multiply … Commit, WaitMatrices ─► Arrive ─► empty barrier ─► producer's Wait
//! ```
//!
//! A *mbarrier* is 8 bytes of shared memory: a phase bit, arrivals still expected in the phase, and bytes still expected.
//! A phase is over when both are zero; the next one then expects the same number of arrivals. `Wait` with parity `p` passes when the
//! phase of parity `p` is over; a fresh barrier is in phase 0, so parity 1 passes at once.
//!
//! A *box* in shared memory is a matrix whose rows lie `swizzle` bytes (128, 64 or 32) apart, with the 16-byte chunks of each row
//! swizzled: bits 4.. of the address xor bits 7.. . Eight of its rows are a swizzle atom. A wider tile is several boxes, one behind the
//! other. Bulk copies write and read one box at a time, group matrix instructions read atoms.

use super::value::{LVal, Space, Vals};
use crate::machine::GroupMatrixId;
use crate::op::{Reduction, Takes};
use crate::table::Values;
use crate::table::{Effect, Kind, Use, instructions};
use crate::text::{Names, Shown, defs, flag, list, maybe};
use crate::value::Place;
use std::fmt;
use std::fmt::Write;

/// How an operand of a group matrix instruction lies in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct SwizzleAtoms {
    /// The swizzle width in bytes: 128, 64 or 32.
    pub swizzle: u32,
    /// True if K runs along the rows; false if M (of A) or N (of B) does.
    pub along_k: bool,
    /// Bytes from a swizzle atom to the next one along the row.
    pub stride: u32,
}

/// An operand of a group matrix instruction: in shared memory, the address the same in all lanes of a group.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupOperand {
    /// Its first element.
    pub at: Place,
    /// How it lies.
    pub atoms: SwizzleAtoms,
}

/// The operand A of a group matrix instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum OperandA {
    /// In shared memory.
    Shared(GroupOperand),
    /// The words of its fragment, in the table's order. They must not change before the wait that covers the multiplication.
    Regs(Vals),
}

/// The ends of turns that the warpgroups of a role take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TurnEnd {
    /// The first turn begins: the first group's at once, any other's when the group in front of it passes its own.
    First,
    /// The next turn begins: the first group's when the last one passes its own.
    Wait,
    /// A turn ends, and the next group's begins.
    Pass,
    /// The last turn ends; the last group has nobody to pass it to.
    Last,
}

impl TurnEnd {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            TurnEnd::First => "first",
            TurnEnd::Wait => "wait",
            TurnEnd::Pass => "pass",
            TurnEnd::Last => "last",
        }
    }

    /// The group, of so many, whose barrier a group comes to, and whether it waits there; `None` where it does neither.
    pub const fn barrier(self, group: u32, groups: u32) -> Option<(u32, bool)> {
        match self {
            TurnEnd::First if group == 0 => None,
            TurnEnd::Last if group + 1 == groups => None,
            TurnEnd::First | TurnEnd::Wait => Some((group, true)),
            TurnEnd::Pass | TurnEnd::Last => Some(((group + 1) % groups, false)),
        }
    }
}

/// Multiplies matrices with all warps of each group at once, asynchronously: `D = A B + C`, or `A B` where `accumulate` is false.
#[derive(Clone, PartialEq, Debug)]
pub struct Multiply {
    /// Results, in the order of the accumulator fragment. Not to be read before the wait that covers them, but by another multiplication.
    pub dsts: Vec<LVal>,
    /// Accumulators.
    pub c: Vec<LVal>,
    /// The instruction.
    pub instr: GroupMatrixId,
    /// Columns of B and D.
    pub n: u32,
    /// Operand A.
    pub a: OperandA,
    /// Right operand.
    pub b: GroupOperand,
    /// False where `c` counts as zero; the same in all lanes. Absent: true.
    pub accumulate: Option<LVal>,
}

impl Multiply {
    /// The operands that are in shared memory, the left one first.
    pub fn operands_in_shared(&self) -> impl Iterator<Item = &GroupOperand> {
        let left = if let OperandA::Shared(o) = &self.a { Some(o) } else { None };
        left.into_iter().chain([&self.b])
    }
}

instructions! {
    /// What asynchronous units, and the barriers around them, do.
    #[derive(Clone, PartialEq, Debug)]
    pub enum Unit as UnitCode {
        /// Makes an mbarrier that expects `count` arrivals a phase, where the guard holds (in one lane).
        InitBarrier {
            /// The mbarrier.
            barrier: Place = place,
            /// Arrivals per phase.
            count: u32 = with,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Order, "init_barrier {barrier} count {count}{guard}";
        /// Shows made mbarriers to the units. A [`super::inst::Inst::Barrier`] shows them to the other lanes.
        PublishBarriers => Effect::Order, "publish_barriers";
        /// Waits until the launches in front are done, and sees what they wrote. A program that has it touches no global memory before.
        AwaitPrevious => Effect::Meet, "await_previous";
        /// One arrival per lane where the guard holds.
        Arrive {
            /// The mbarrier.
            barrier: Place = place,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Order, "arrive {barrier}{guard}";
        /// One arrival, and so many bytes more to expect in this phase, per lane where the guard holds.
        ArriveExpect {
            /// The mbarrier.
            barrier: Place = place,
            /// The bytes.
            bytes: u32 = with,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Order, "arrive {barrier} expect {bytes}{guard}";
        /// The phase expects one arrival more per lane, which comes when the copies that the lane has begun are there: over all, it lacks what it
        /// lacked before.
        ArriveCopies {
            /// The mbarrier.
            barrier: Place = place,
        } => Effect::Order, "arrive {barrier} copies";
        /// Waits until the phase of a parity is over.
        Wait {
            /// The mbarrier.
            barrier: Place = place,
            /// `i32`, 0 or 1.
            parity: LVal = read I32,
        } => Effect::Meet, "wait {barrier} parity {parity}";
        /// Fetches the description of a tensor ahead of its use.
        PrefetchMap {
            /// Launch parameter that holds it.
            map: u32 = with,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Hint, "prefetch_map {map}{guard}";
        /// Starts copying a box of a tensor to shared memory. What lies outside the tensor arrives as zeros. All bytes of the box count as arrived.
        BulkLoad {
            /// Launch parameter that describes tensor and box.
            map: u32 = with,
            /// The box in shared memory.
            to: Place = place,
            /// The mbarrier that counts the bytes.
            barrier: Place = place,
            /// First element, innermost dimension first, `i32`.
            at: Vals = read I32,
            /// The blocks of the cluster that get the box, a bit per rank (`i32`): each at the same place, counted by its own word of the
            /// same place. Absent: the own block alone.
            ranks: Option<LVal> = guard I32,
            /// Where it happens: in one lane.
            guard: Option<LVal> = guard,
        } => Effect::Copy, "bulk_load {to} = boxes {map} ({at}) arrives {barrier}{}{guard}", maybe(" ranks ", *ranks.it);
        /// Starts copying a box in shared memory to one of a tensor, from one lane. What lies outside the tensor is dropped.
        BulkStore {
            /// Launch parameter that describes tensor and box.
            map: u32 = with,
            /// The box in shared memory.
            from: Place = place,
            /// First element, innermost dimension first, `i32`.
            at: Vals = read I32,
            /// The elements are combined with those that are there, each indivisibly. Absent: they take their place.
            reduce: Option<Reduction> = with,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Copy, "bulk_store{reduce} boxes {map} ({at}) = {from}{guard}";
        /// Closes the lane's group of bulk stores.
        CommitStores {
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Order, "commit_stores{guard}";
        /// Waits until all but the newest `pending` groups of the lane's bulk stores have read their boxes.
        WaitStoresRead {
            /// Groups that may be in flight.
            pending: u32 = with,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Order, "wait_stores_read {pending}{guard}";
        /// Shows the lane's shared writes to the units.
        FenceUnits => Effect::Order, "fence_units";
        /// Orders what the lane has read of global memory in front of what units write there.
        FenceGlobal => Effect::Order, "fence_global";
        /// Waits for all lanes of the lane's group: `warps` warps whose first one is a multiple of that.
        GroupBarrier {
            /// Warps of a group.
            warps: u32 = with,
        } => Effect::Meet, "group_barrier {warps}";
        /// Stores 1, 2 or 4 matrices of 8 by 8 16-bit elements: the inverse of [`super::inst::Inst::LoadMatrix`] without `trans`.
        StoreMatrix {
            /// Where lane `8q + r` has row `r` of matrix `q`.
            to: Place = place,
            /// A word per matrix.
            srcs: Vals = read B32,
        } => Effect::Write(Space::Shared), "store_matrix {to} = {srcs}";
        /// Orders the lane's registers before the multiplications behind it.
        FenceMatrices => Effect::Order, "fence_matrices";
        /// Starts a multiplication.
        Multiply(multiply: Box<Multiply>) => Effect::Start;
        /// Closes the group of multiplications.
        CommitMatrices => Effect::Order, "commit_matrices";
        /// Keeps the next wait behind the computations in front of it: an assembler may move it up, where they would wait, too.
        Hold => Effect::Hint, "hold";
        /// Waits until all but the newest `pending` groups of multiplications are done.
        WaitMatrices {
            /// Groups that may be in flight.
            pending: u32 = with,
        } => Effect::Meet, "wait_matrices {pending}";
        /// Arrives at, and if asked waits for, a barrier of a number of warps of several roles. Every warp of the role takes part.
        NamedBarrier {
            /// Which one, from 0.
            id: u32 = with,
            /// Warps that arrive in each round.
            warps: u32 = with,
            /// Waits for the others.
            wait: bool = with,
        } => Effect::Meet, "named_barrier_{} {id} warps {warps}", if *wait.it { "sync" } else { "arrive" };
        /// Warpgroups of a role take turns, each at a named barrier of its own. Every warp of the role takes part, each group for itself.
        Turn {
            /// The first of the barriers: each group has one.
            id: u32 = with,
            /// Groups.
            groups: u32 = with,
            /// What begins, or ends.
            end: TurnEnd = with,
        } => Effect::Meet, "turn_{} {id} groups {groups}", end.it.word();
        /// The lanes arrive at the barrier of the cluster; their accesses up to here come before the wait of the others. Lanes that have
        /// ended count as arrived.
        ClusterArrive {
            /// Orders no accesses.
            relaxed: bool = with,
        } => Effect::Order, "cluster_arrive{}", flag(relaxed, " relaxed");
        /// Waits until all lanes of the cluster have arrived as often as this one.
        ClusterWait => Effect::Meet, "cluster_wait";
        /// The address of a place in the shared memory of a block of the cluster; `i32`. Only what is called remote takes it.
        Remote {
            /// The address.
            dst: LVal = def I32,
            /// The place, as the own block has it.
            place: Place = place,
            /// The block's rank, `i32`.
            rank: LVal = read I32,
        } => Effect::Remote, "remote {place} of {rank}";
        /// Reads consecutive values from the shared memory of a block of the cluster.
        RemoteLoad {
            /// The values.
            dsts: Vals = def T,
            /// Where they lie, a remote address.
            from: Place = place,
        } => Effect::Remote, "load.remote {from}";
        /// Writes consecutive values to the shared memory of a block of the cluster.
        RemoteStore {
            /// Where they go, a remote address.
            to: Place = place,
            /// The values.
            srcs: Vals = read T,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Remote, "store.remote {to} = {srcs}{guard}";
        /// Starts writing consecutive values of 32 bits to the shared memory of a block of the cluster. They count as arrived bytes there.
        RemoteStoreAsync {
            /// Where they go, a remote address.
            to: Place = place,
            /// The mbarrier of that block that counts the bytes, a remote address.
            barrier: Place = place,
            /// The values: 1, 2 or 4.
            srcs: Vals = read T,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Remote, takes Takes::Lane, "store_async.remote {to} = {srcs} arrives {barrier}{guard}";
        /// One arrival per lane where the guard holds, at an mbarrier of a block of the cluster.
        RemoteArrive {
            /// The mbarrier, a remote address.
            barrier: Place = place,
            /// Where it happens.
            guard: Option<LVal> = guard,
        } => Effect::Remote, "arrive.remote {barrier}{guard}";
    }
}

impl Multiply {
    pub(crate) fn operands(&self, mut f: impl FnMut(LVal, Use)) {
        match &self.a {
            OperandA::Shared(o) => f(o.at.addr, Use::Address(o.at.offset)),
            OperandA::Regs(words) => words.iter().for_each(|&v| f(v, Use::Value)),
        }
        f(self.b.at.addr, Use::Address(self.b.at.offset));
        self.c.iter().for_each(|&v| f(v, Use::Value));
        self.accumulate.iter().for_each(|&v| f(v, Use::Value));
    }

    pub(crate) fn results(&self) -> &[LVal] {
        &self.dsts
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        match &mut self.a {
            OperandA::Shared(o) => f(&mut o.at.addr),
            OperandA::Regs(words) => words.iter_mut().for_each(&mut *f),
        }
        f(&mut self.b.at.addr);
        self.accumulate.iter_mut().chain(&mut self.c).chain(&mut self.dsts).for_each(f);
    }

    pub(crate) fn typed<'i>(&'i self, mut f: impl FnMut(&'i [LVal], Kind, bool)) {
        match &self.a {
            OperandA::Shared(o) => f(o.at.addr.values(), Kind::I32, false),
            // Numbers of 32 bits are taken as words, too.
            OperandA::Regs(words) => f(words, Kind::B32, false),
        }
        f(self.b.at.addr.values(), Kind::I32, false);
        f(self.accumulate.values(), Kind::I1, false);
        f(&self.c, Kind::Own, false);
        f(&self.dsts, Kind::Own, true);
    }
}

/// The byte of a box that holds byte `column` of row `row`, from the box's start, which is aligned to eight rows.
pub fn swizzled_byte(swizzle: u32, row: u32, column: u32) -> u32 {
    let plain = row * swizzle + column;
    plain ^ (plain >> 3 & (swizzle / 16 - 1) << 4)
}

fn operand(p: Names<'_>, f: &mut dyn Write, o: &GroupOperand) -> fmt::Result {
    let along = if o.atoms.along_k { "k" } else { "mn" };
    write!(f, "{} along {along} swizzle {} stride {}", Shown { names: p, it: &o.at }, o.atoms.swizzle, o.atoms.stride)
}

impl Multiply {
    pub(crate) fn write(&self, p: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        defs(p, f, self.dsts.iter().copied())?;
        write!(f, " = {} n {} ", self.instr, self.n)?;
        match &self.a {
            OperandA::Shared(o) => operand(p, f, o)?,
            OperandA::Regs(words) => list(f, words.iter().copied())?,
        }
        f.write_char(' ')?;
        operand(p, f, &self.b)?;
        f.write_str(" on ")?;
        list(f, self.c.iter().copied())?;
        write!(f, "{}", Shown { names: p, it: &self.accumulate })
    }
}

#[cfg(test)]
mod tests {
    use super::swizzled_byte;

    #[test]
    fn chunks_are_xored_with_the_row() {
        for (swizzle, shift) in [(128, 0), (64, 1), (32, 2)] {
            for row in 0..16 {
                for column in 0..swizzle {
                    let chunk = (column / 16) ^ (row >> shift & (swizzle / 16 - 1));
                    assert_eq!(swizzled_byte(swizzle, row, column), row * swizzle + chunk * 16 + column % 16, "{swizzle} {row} {column}");
                }
            }
        }
    }
}
