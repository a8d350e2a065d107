//! A whole machine in numbers: what the model of [`crate::products`] multiplies and adds.

/// Prices of a machine that multiplies by groups of warps. Cycles are those of a multiprocessor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Cycles in a microsecond while matrix units are busy, if they moved no operands.
    pub clock: f64,
    /// Power: the share of the clock that is lost for every byte of operands per multiply-add.
    pub heat: f64,
    /// Cycles of a group matrix instruction per column, for 32 bytes of depth.
    pub column: f64,
    /// The same while it reads both operands from shared memory: once, and per column.
    pub operands: [f64; 2],
    /// Cycles from the end of a group's multiplications to the start of its next ones.
    pub turn: f64,
    /// Cycles until a group has the results of its last multiplication.
    pub drain: f64,
    /// Bytes per cycle and multiprocessor from the cache that all share, cycles until the first come, and the share of requests that
    /// is left where neighbours ask for the same.
    pub cache: [f64; 3],
    /// Bytes of that cache that a product can count on.
    pub cache_bytes: f64,
    /// Bytes per microsecond from memory, bytes per cycle that one multiprocessor can take, cycles until the first come.
    pub memory: [f64; 3],
    /// Cycles of a row of a box that lies outside its tensor.
    pub outside: f64,
    /// Bytes per cycle and multiprocessor that leave.
    pub store: f64,
    /// Cycles of an epilogue: once, and per sum of a lane and group.
    pub epilogue: [f64; 2],
    /// Microseconds of a launch, and until its first multiplication starts.
    pub launch: [f64; 2],
}

impl Machine {
    /// NVIDIA H200, from measurements of its units alone, and the last three rows from products of many tiles beside one another.
    pub const H200: Machine = Machine {
        multiprocessors: 132,
        clock: 1790.0,
        heat: 5.0,
        column: 0.5,
        operands: [16.0, 0.25],
        turn: 42.0,
        drain: 75.0,
        cache: [34.0, 800.0, 0.6],
        cache_bytes: 4e7,
        memory: [4.3e6, 67.0, 1400.0],
        outside: 3.0,
        store: 18.0,
        epilogue: [800.0, 6.0],
        launch: [0.9, 1.0],
    };
}
