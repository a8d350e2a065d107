//! What a machine's work costs, as data: the table behind the choice of layouts.

/// Prices in sixteenths of a cycle of one multiprocessor, per instruction of a warp unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A simple integer or logic op, a select, a byte permute.
    pub alu: u64,
    /// A function of the special unit.
    pub special: u64,
    /// 1024 multiply-adds of a matrix instruction.
    pub product: u64,
    /// A shuffle.
    pub shuffle: u64,
    /// A redux ([`crate::inst::Inst::Redux`]), and until its result is there; nothing where there is none.
    pub redux: [u64; 2],
    /// Until a step of a chain is done whose every step waits for the one before, per program: a comparison and choices, and a shuffle's more.
    pub step_latency: [u64; 2],
    /// A pass over the banks of shared memory.
    pub wavefront: u64,
    /// Until data is back from shared memory, per program.
    pub shared_latency: u64,
    /// A barrier of a program, and more per warp.
    pub barrier: [u64; 2],
    /// Until data is back from global memory, per program.
    pub global_latency: u64,
    /// A sector to or from global memory.
    pub sector: u64,
    /// A line of the first-level cache that is looked up.
    pub line: u64,
    /// A register of a lane that is written to memory and read again.
    pub spill: u64,
    /// 1024 multiply-adds of a group matrix instruction; 0 where there is none.
    pub group_product: u64,
    /// What a group matrix instruction takes at least, for 32 bytes of depth: with both operands in shared memory once and per column, and with the
    /// left one in registers.
    pub group_operands: [u64; 2],
    /// See [`Costs::group_operands`].
    pub group_left: u64,
    /// Until a group has its accumulators and starts the next multiplications, where it waits for them.
    pub group_wait: u64,
    /// What groups that multiply in turns lose in each step, where one hands its turn over to the next.
    pub group_turn: u64,
    /// From box to box of bulk copies, from row to row, and from 32 bytes to the next, which come from the cache that all share: the slowest counts.
    pub box_start: u64,
    /// See [`Costs::box_start`].
    pub box_row: u64,
    /// See [`Costs::box_start`].
    pub box_sector: u64,
    /// A step of a function, where too few warps are there to hide how long it takes: per lane's element, not per warp.
    pub chain: u64,
    /// Multiprocessors of the machine, and megahertz of their clock.
    pub processors: u64,
    /// See [`Costs::processors`].
    pub megahertz: u64,
    /// Nanoseconds from one launch to the next of a kernel that does nothing.
    pub launch: u64,
}
