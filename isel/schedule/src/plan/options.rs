//! What a caller asks of a plan.

/// What the caller pins; the kernel's own hints come next, then the defaults here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct LowerOptions {
    /// Warps per program instance.
    pub warps: Option<u32>,
    /// Stages of pipelined loops, slots of a specialised one's ring; 1 turns pipelining off. Where lanes alone move tiles, fewer are taken if so many
    /// do not fit.
    pub stages: Option<u32>,
    /// How main loops run.
    pub schedule: Option<ScheduleKind>,
    /// Warpgroups that compute, of a specialised kernel.
    pub consumers: Option<u32>,
    /// Consumer sets of a specialised kernel that take grid positions in ping-pong, each with consumers of its own.
    pub consumer_sets: Option<u32>,
    /// Sets of consumers of a specialised kernel that take the steps of one grid position in turns, at most.
    pub slices: Option<u32>,
    /// Whether an instance of a specialised kernel runs several grid positions.
    pub persistent: Option<bool>,
    /// Whether products of a specialised loop run while lanes compute between them.
    pub overlap: Option<bool>,
    /// Whether a launch may begin while the one in front of it ends, where the target has that. Numbers do not depend on it.
    pub early_launch: Option<bool>,
    /// The swizzle width, in bytes, in which operands of a specialised loop wait.
    pub swizzle: Option<u32>,
    /// Whether operands A of a specialised loop's dots go from the ring through registers.
    pub a_from_registers: Option<bool>,
    /// Whether results of a specialised loop leave by bulk copies, where those take them.
    pub bulk_stores: Option<bool>,
    /// How layouts are chosen.
    pub layouts: LayoutChoice,
    /// What is proved before a kernel is lowered.
    pub proof: ProofScope,
    /// Programs of a launch, if that is known: so many at least, and fewer than twice as many. Only time depends on it.
    pub programs: Option<u32>,
}

/// Whose work of warps together is proved: for any number of iterations nobody waits for ever, nothing is read before it is there, or written while others
/// still read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum ProofScope {
    /// Nobody's.
    Nothing,
    /// An author's tasks, channels and barriers. Schedules of the compiler are proved where it is itself being worked on: in builds with debug assertions.
    #[default]
    Authors,
    /// The compiler's schedules, too, in every build: a kernel compiles in about twice the time. A loop whose schedule is not proved goes another way; what is not
    /// proved then, is refused.
    All,
}

/// How the layouts of tiles are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LayoutChoice {
    /// Dots and accesses propose, the first proposal spreads; but where lanes bring all fragments by themselves, products of products are searched.
    #[default]
    Spread,
    /// Equality saturation over layouts, conversions and their places, by machine cost.
    Searched,
    /// As searched, with random prices from a seed: any layouts that are equal, for tests.
    Random(u64),
}

/// How the main loop of a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ScheduleKind {
    /// All warps copy and compute; copies run some iterations ahead.
    Pipelined,
    /// One warp copies, the others compute.
    Specialised,
}
