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
    /// A pass over the banks of shared memory.
    pub wavefront: u64,
    /// Until data is back from shared memory, per program.
    pub shared_latency: u64,
    /// A barrier of a program, and more per warp.
    pub barrier: [u64; 2],
    /// A sector to or from global memory.
    pub sector: u64,
    /// A line of the first-level cache that is looked up.
    pub line: u64,
    /// A register of a lane that is written to memory and read again.
    pub spill: u64,
}

impl Costs {
    /// NVIDIA H200, measured: simple ops 64 lanes per cycle, special functions 16, shuffles 32; `mma` 2721 operations per cycle; a pass over the banks a cycle, 30 cycles
    /// until its data is there; barriers 12.4 + 2 per warp; sectors at 17 bytes per cycle and multiprocessor (4.5 TB/s).
    pub const H200: Costs = Costs {
        alu: 8,
        special: 32,
        product: 12,
        shuffle: 16,
        wavefront: 16,
        shared_latency: 480,
        barrier: [198, 32],
        sector: 30,
        line: 16,
        spill: 64,
    };

    /// AMD CDNA3, from its documented rates, not measured: four units of 16 lanes, 128 bytes of shared memory a cycle, 5.3 TB/s over 304
    /// compute units at 2.1 GHz.
    pub const CDNA3: Costs = Costs {
        alu: 16,
        special: 64,
        product: 16,
        shuffle: 32,
        wavefront: 16,
        shared_latency: 1024,
        barrier: [320, 32],
        sector: 62,
        line: 16,
        spill: 128,
    };
}
