//! What is wrong with a kernel's channels.

use crate::entities::Inst;
use crate::kernel::Loc;
use crate::ops::Op;
use std::fmt;

/// Why nobody can say that a channel does not deadlock, or that it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelError {
    /// What is wrong.
    pub problem: ChannelProblem,
    /// The instructions that do not fit together.
    pub sites: Vec<(Inst, Op, Loc)>,
}

/// What is wrong with ops on channels. `Display` says it, and how to mend it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelProblem {
    /// An op stands in the kernel's body.
    OutsideTasks,
    /// An op stands in control of the kernel's body.
    NestedOutsideTasks,
    /// An op's step is not the number of those before it.
    Step,
    /// An op stands in control that is no loop of a known number of rounds.
    Conditional,
    /// The rounds of a loop do not use a channel equally often.
    UnevenRounds,
    /// A task uses channels at several depths of its loops.
    Depths,
    /// What is taken is put by nobody.
    NoPut,
    /// Several tasks put into one channel.
    SeveralPut,
    /// Another number of tasks takes than the channel has consumers.
    Consumers {
        /// Tasks that take.
        takers: u32,
        /// Consumers that the allocation names.
        want: u32,
    },
    /// Steps that are put, got and given back are not as many.
    Totals,
    /// Two tasks use a channel differently often in a round.
    UnevenTasks,
    /// A step is given back before it is got.
    ReturnBeforeGet,
    /// Tasks wait for one another.
    Circle,
}

impl fmt::Display for ChannelProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChannelProblem::OutsideTasks => "an op on a channel outside of tasks waits for itself; put it into a task",
            ChannelProblem::NestedOutsideTasks => "an op on a channel stands outside of tasks; put it into a task",
            ChannelProblem::Step => {
                "the step is not known to be the number of those before it in the task; count 0, 1, 2, … from round to round"
            }
            ChannelProblem::Conditional => "an op on a channel stands where it may or may not be reached; take it out of",
            ChannelProblem::UnevenRounds => "the rounds of a loop do not use a channel equally often; give each round the same number",
            ChannelProblem::Depths => {
                "a task uses channels at several depths of its loops, of which no deadlock can be excluded; use them in one loop"
            }
            ChannelProblem::NoPut => "nobody puts what is taken from the channel",
            ChannelProblem::SeveralPut => "several tasks put into one channel, in no order; let one task do it",
            ChannelProblem::Consumers { takers, want } => {
                return write!(f, "{takers} tasks take from a channel of {want} consumers; say how many there are where it is allocated");
            }
            ChannelProblem::Totals => {
                "a consumer does not get and give back as many steps as are put, or is not known to; let both count the same rounds"
            }
            ChannelProblem::UnevenTasks => "two tasks use a channel differently often in a round; give both the same number",
            ChannelProblem::ReturnBeforeGet => "a step is given back in front of where it is got; exchange the two",
            ChannelProblem::Circle => "tasks wait for each other in a circle; order their channels alike, or give them more slots",
        })
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)?;
        for (n, (inst, op, loc)) in self.sites.iter().enumerate() {
            f.write_str(if n == 0 { ": " } else { " and " })?;
            if loc.is_known() { write!(f, "`{op}` at {loc}")? } else { write!(f, "`{op}` ({inst})")? }
        }
        Ok(())
    }
}
impl std::error::Error for ChannelError {}
