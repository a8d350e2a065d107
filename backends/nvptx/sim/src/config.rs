//! How to run a launch: interleaving, landing of asynchronous copies, limits, what to check.

use crate::tensor_map::TensorMap;

/// Order in which warps run. Every policy is deterministic for its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each warp in turn, one instruction at a time.
    Lockstep,
    /// Lowest CTA and warp first, each until it blocks.
    InOrder,
    /// Highest first, each until it blocks.
    Reverse,
    /// A random warp for a random number of instructions.
    Random,
    /// Random priorities, of which on average this many change per 65536 instructions (probabilistic concurrency
    /// testing).
    Pct(u32),
    /// The warp with this index within its CTA runs only when no other can.
    Starve(u32),
}

/// When asynchronous operations take effect: the bytes of `cp.async`, bulk copies and remote stores, and the results of
/// wgmma. Programs must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// At issue.
    Eager,
    /// When somebody waits for it and, for what completes on an mbarrier, nobody can run.
    Lazy,
    /// At a random moment in between.
    Random,
}

/// Options of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Seed of every random choice.
    pub seed: u64,
    /// Interleaving of warps.
    pub policy: Policy,
    /// Landing of asynchronous copies.
    pub landing: Landing,
    /// Warp instructions after which a launch is given up.
    pub max_instructions: u64,
    /// Detect races on shared memory.
    pub races: bool,
    /// Detect races on global memory, between warps and between CTAs.
    pub global_races: bool,
    /// Reading a byte that nothing wrote is an error (otherwise the value is poison).
    pub strict_uninit: bool,
    /// Count wavefronts and sectors.
    pub counters: bool,
    /// CTAs in flight at the same time, at least 1.
    pub resident: u32,
    /// Linear indices of the CTAs to run; all of them when absent. Of a cluster all or none are named.
    pub ctas: Option<Vec<u32>>,
    /// CTAs per cluster, for kernels whose text does not fix it.
    pub cluster: Option<[u32; 3]>,
    /// An asynchronous write over bytes that ordinary loads have read needs a proxy fence after the loads. The PTX
    /// ISA's examples have it; much software leaves it out.
    pub strict_proxy_reads: bool,
    /// The launch may begin before those in front of it are done (programmatic stream serialization): a thread touches global memory behind
    /// `griddepcontrol.wait` only, its own or that of one it is ordered behind. Texts with a `griddepcontrol` are held to that in any case.
    pub early_launch: bool,
}

impl Default for SimConfig {
    /// Seed 0, random interleaving and landing, every check on, 400 million warp instructions.
    fn default() -> SimConfig {
        SimConfig {
            seed: 0,
            policy: Policy::Random,
            landing: Landing::Random,
            max_instructions: 400_000_000,
            races: true,
            global_races: true,
            strict_uninit: true,
            counters: true,
            resident: 2,
            ctas: None,
            cluster: None,
            strict_proxy_reads: true,
            early_launch: false,
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform enough below `n` (n > 0).
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// A kernel argument. Its size must be that of the parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
    /// Eight bytes, for example a buffer address.
    U64(u64),
    /// Four bytes.
    S32(i32),
    /// Eight bytes.
    S64(i64),
    /// Four bytes.
    F32(f32),
    /// Eight bytes.
    F64(f64),
    /// A parameter array.
    Bytes(Vec<u8>),
    /// A tensor map, for a `.param .align 64 .b8 name[128]`.
    TensorMap(Box<TensorMap>),
}

/// A launch.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// CTAs per dimension.
    pub grid: [u32; 3],
    /// Threads per dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// One per parameter.
    pub args: &'a [Arg],
    /// How to run.
    pub config: SimConfig,
}
