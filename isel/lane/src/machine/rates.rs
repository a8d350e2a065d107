//! A whole machine in numbers: what the model of matrix products (`tilelift_schedule::gemm`) multiplies and adds.

/// Prices of a machine that multiplies by warpgroups. Cycles are those of a multiprocessor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Cycles in a microsecond while all matrix units are busy, if they moved no operands.
    pub clock: f64,
    /// Power: what each multiprocessor without a tile gives the clock of the others, as a share of it per share of them.
    pub idle: f64,
    /// Power: the share of the clock that is lost for every byte in a cycle that a multiprocessor fetches from the shared cache, that
    /// its matrix unit reads from shared memory, and that comes or goes to memory.
    pub power_derating: [f64; 3],
    /// Cycles of a group matrix instruction per column, for 32 bytes of depth.
    pub column: f64,
    /// The same while it reads both operands from shared memory: once, and per column.
    pub operands: [f64; 2],
    /// Bytes per cycle through shared memory, operands read and copies written, where workers are at different depths.
    pub bytes_per_cycle: f64,
    /// Cycles that a step takes longer there for a warpgroup that shares its multiprocessor with no other.
    pub single_group_penalty: f64,
    /// Cycles from the end of a group's multiplications to the start of its next ones.
    pub handover: f64,
    /// Share of the time that a tile's results take to leave, by which two consumer sets in ping-pong are late for each other.
    pub skew: f64,
    /// Cycles until a group has the results of its last multiplication.
    pub drain: f64,
    /// Bytes per cycle and multiprocessor from the cache that all share, cycles until the first come, and the share of requests that
    /// is left where neighbours ask for the same.
    pub cache: [f64; 3],
    /// Cycles of a multiprocessor for a row of a box that is one line of that cache, and for one that lies in two, where rows of any operand do:
    /// requests of neighbours for parts of a line do not meet.
    pub row: [f64; 2],
    /// Cycles of a piece that a lane of the producer copies.
    pub piece: f64,
    /// Multiply-adds of 16-bit elements in a cycle of a multiprocessor whose warps copy for themselves and multiply by instructions of a warp: what a
    /// product gets that nothing else is worth the while for.
    pub pipelined: f64,
    /// What a block of a cluster of two pays of an operand's rows that both share, each fetching half of them for both, beside fetching all of them
    /// itself; none if that is not known.
    pub both: Option<f64>,
    /// What of the time in which results wider than 16 bits leave is added where lanes store them: with one set of consumers, which does not multiply
    /// meanwhile, and with two, whose stores are in each other's way.
    pub wide_by_lanes: [f64; 2],
    /// Cycles until a slot that is asked for is there, and bytes of it that come in a cycle then.
    pub fetch: [f64; 2],
    /// Bytes of that cache that a product can count on.
    pub cache_bytes: f64,
    /// Bytes per microsecond to and from memory, bytes per cycle that one multiprocessor can take, cycles until the first come.
    pub memory: [f64; 3],
    /// Cycles in a microsecond while matrix units wait for memory.
    pub memory_clock: f64,
    /// How well work and memory run beside one another: the whole is `(work^p + memory^p)^(1/p)`.
    pub overlap_exponent: f64,
    /// Cycles of a row of a box that lies outside its tensor.
    pub outside: f64,
    /// Bytes per cycle and multiprocessor that leave.
    pub store: f64,
    /// Cycles of an epilogue: once, and per accumulator register of a lane, for each group.
    pub epilogue: [f64; 2],
    /// Microseconds of a launch until its first multiplication starts, and between two launches.
    pub launch: [f64; 2],
}
