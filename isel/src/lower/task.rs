//! What is known of the task that is being lowered.

use crate::lower::commits::Commits;
use crate::lower::location::Local;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tilelift_ir::{CmpOp, Inst, Loc, Region, Value};
use tilelift_lane::{AllocId, LVal, LaneBuilder, Unit};
use tilelift_schedule::plan::TaskPlan;

/// What lowering a task needs to know.
pub(crate) struct TaskState {
    pub plan: Rc<TaskPlan>,
    /// Launch parameters that describe the views of copies.
    pub maps: BTreeMap<Inst, u32>,
    /// Allocations by the instruction that makes them.
    pub allocs: BTreeMap<Inst, AllocId>,
    /// Those that units read or write, by the instruction that makes them.
    pub for_units: BTreeSet<Inst>,
    /// Those that units fill only behind a fence of the one who has them filled: who reads needs none.
    pub fenced_fills: BTreeSet<Inst>,
    /// The `fence_async` that order global memory, too.
    pub fences_global: BTreeSet<Inst>,
    /// Mbarriers, which live as long as the program.
    pub mbarriers: Vec<AllocId>,
    /// Mbarriers were made that nobody else sees yet.
    pub unpublished: bool,
    /// Named barriers, by the author's numbers.
    pub named: Vec<u32>,
    /// The first of the named barriers of a task whose groups take turns; all tasks', and this one's.
    pub turns: BTreeMap<Region, u32>,
    pub turn: Option<u32>,
    /// The turn that begins in front of the next instruction, and where it is asked for.
    pub begins: Option<(Unit, Loc)>,
    /// The one that begins in what is lowered.
    pub due: Option<(Unit, Loc)>,
    /// True in one lane of the task; absent if the task is one lane.
    pub first: Option<LVal>,
    /// Warpgroups of the task.
    pub groups: u32,
    /// Fewer instances may run than the launch grid has positions.
    pub persistent: bool,
    /// What is decided of groups that act for themselves.
    pub groupwise: Groupwise,
    /// Each group of the task acts for itself.
    pub apart: bool,
    /// True in one lane of each group, where groups arrive one by one although they meet elsewhere.
    pub arrives: Option<LVal>,
    /// Accumulators that begin at zero, of the loops around: whether it is a later step than the first.
    pub fresh: BTreeMap<Value, Fresh>,
    /// For each region, what lanes may have done behind it, by what they may have done in front of it.
    pub regions: Summaries,
    /// Copies that wait for the first operands of a product.
    pub late: Vec<Late>,
    /// Stores to local memory right in front, one behind the other.
    pub beside: Vec<Inst>,
    /// Comparisons that hold here.
    pub less: Vec<[LVal; 2]>,
    /// The task, or the kernel where there is one, has products of the units.
    pub products: bool,
    /// All lanes of the task have come to a point behind their last wait, so that one may speak for them.
    pub met: bool,
    /// What lanes may have done to local memory that others wait for.
    pub traces: Traces,
    /// Which products are committed together.
    pub commits: Rc<Commits>,
}

impl TaskState {
    /// True if the kernel has products of the units.
    pub fn multiplies(&self) -> bool {
        !self.plan.dots.is_empty()
    }
}

/// The step of a loop whose accumulator begins at zero: in the first one products look at no accumulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    /// Index and lower bound.
    pub at: [LVal; 2],
}

impl Fresh {
    /// True in every step but the first.
    pub fn later(self, b: &mut LaneBuilder) -> LVal {
        b.cmp(CmpOp::Ne, self.at[0], self.at[1])
    }
}

/// What lanes have read of swizzled buffers: a unit may write there next, when all have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Reads {
    /// Nothing since they met.
    #[default]
    None,
    /// It is ordered in front of what units do, lane by lane.
    Fenced,
    /// It is not.
    Open,
}

/// What lanes may have done to local memory since they met.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Traces {
    /// They have written.
    pub stored: bool,
    /// They have read what units may write next.
    pub reads: Reads,
    /// They have read anything: a wait for products says nothing of that.
    pub looked: bool,
}

impl Traces {
    /// All that there are.
    pub const ALL: [Traces; 12] = {
        let mut all = [Traces { stored: false, reads: Reads::None, looked: false }; 12];
        let reads = [Reads::None, Reads::Fenced, Reads::Open];
        let mut n = 0;
        while n < all.len() {
            all[n] = Traces { stored: n % 6 >= 3, reads: reads[n % 3], looked: n >= 6 };
            n += 1;
        }
        all
    };

    /// Its number among them.
    pub fn number(self) -> usize {
        6 * usize::from(self.looked) + 3 * usize::from(self.stored) + self.reads as usize
    }

    /// One or the other.
    pub fn or(self, other: Traces) -> Traces {
        Traces { stored: self.stored || other.stored, reads: self.reads.max(other.reads), looked: self.looked || other.looked }
    }

    /// Each lane has fenced what it did.
    pub fn fenced(&mut self) {
        self.reads = self.reads.min(Reads::Fenced);
    }

    /// All lanes have met.
    pub fn met(&mut self) {
        (self.stored, self.looked) = (false, false);
        if self.reads == Reads::Fenced {
            self.reads = Reads::None;
        }
    }
}

/// What each region makes of what lanes may have done in front of it, by [`Traces::number`].
#[derive(Default)]
pub(crate) struct Summaries(pub RefCell<BTreeMap<Region, [Traces; 12]>>);

/// What begins once a product has its first operands.
pub(crate) enum Late {
    /// A copy with its indices and buffer.
    Copy(Inst, Vec<LVal>, Rc<Local>),
    /// The end of a group.
    Commit,
}

/// What is decided of all tasks before one of them is lowered.
#[derive(Clone, Default)]
pub(crate) struct Groupwise {
    /// Tasks in which each group acts for itself, and how many groups they have.
    pub tasks: BTreeMap<Region, u32>,
    /// Tasks whose groups arrive at barriers one by one, though they meet elsewhere, and how many groups they have.
    pub arriving: BTreeMap<Region, u32>,
    /// Arrivals that end a phase, by the instruction that allocates the barriers; as many as it says where nothing is said here.
    pub arrivals: BTreeMap<Inst, u32>,
    /// Rows of each box of the stores that such tasks begin.
    pub rows: BTreeMap<Inst, u32>,
    /// Rows of a group's share of what tasks of several groups store by `async_store`, whether or not each group acts for itself.
    pub shares: BTreeMap<Inst, u32>,
}
