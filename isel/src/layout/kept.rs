//! The layouts that a kernel was lowered with, for those who want to look at them.

use crate::layout::assign::Assignment;
use std::fmt;
use std::rc::Rc;
use tilelift_ir::Value;
use tilelift_ir::layout::Layout;
use tilelift_schedule::plan::{Plan, TaskPlan};

/// The layouts of what was lowered: the kernel, or the program that its loops are written as. Two are equal if they have equal layouts for tiles and
/// buffers.
#[derive(Clone)]
pub struct Layouts {
    pub(crate) assigned: Rc<Assignment>,
    pub(crate) plan: Plan,
}

impl Layouts {
    /// The layout of a tile in registers, or the map in which it waits in shared memory.
    pub fn of(&self, v: Value) -> Option<&Rc<Layout>> {
        self.assigned.layout(v)
    }

    /// What was decided of its buffers, if it has some.
    pub(crate) fn tasks(&self) -> Option<&Rc<TaskPlan>> {
        self.plan.task_plan()
    }
}

impl PartialEq for Layouts {
    fn eq(&self, other: &Layouts) -> bool {
        self.plan == other.plan && self.assigned.same_layouts(&other.assigned)
    }
}

impl fmt::Debug for Layouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layouts").finish_non_exhaustive()
    }
}
