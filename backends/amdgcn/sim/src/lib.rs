//! An adversarial simulator of AMD CDNA code objects (gfx90a, gfx942, gfx950).
//!
//! [`Module::load`] reads a linked ELF code object; [`Module::launch`] executes the machine code in it: workgroups of waves of 64 lanes on
//! simulated [`Memory`]. It computes what the kernel computes, and it looks for what hardware leaves to the program:
//!
//! * **Waits.** Results of loads land as late as `s_waitcnt` allows: a register that one in flight still writes must be neither read nor
//!   written, nor LDS that a load to LDS still fills. Vector memory completes in order, LDS in order among its own, scalar loads in
//!   any order; flat accesses count for both counters.
//! * **Wait states** between instructions that the hardware does not interlock ([`Rule`]), by the numbers of the chip.
//! * **Races** on LDS between waves within a barrier interval, also with accesses that were not waited for before the barrier; and
//!   on global memory between waves and workgroups, ordered by barriers, and by atomics and accesses of the device's scope. Stores and
//!   scalar loads must be waited for before the barrier; vector loads need not, as a compute unit executes vector accesses in order.
//! * **Undefined values.** Registers, LDS and scratch start undefined. Undefined values may be moved and computed with; one that
//!   reaches an address, the condition of a branch, EXEC, or global memory is a fault.
//! * **Bounds**: accesses outside every buffer, LDS beyond the workgroup's, misaligned ones; registers beyond the descriptor's counts,
//!   tuples that begin at an odd register. Buffer resources are checked against their records: what is outside gives zero or vanishes.
//! * **Ends**: barriers that some waves never reach, programs that do not end, code that is no instruction.
//!
//! Waves run in seeded orders and change at random places; the same seed gives the same run everywhere. The [`Report`] counts
//! instructions by class, bank conflicts, transactions, and an estimate of cycles whose parameters are in [`Costs`].
//!
//! # What is exact
//! Integers, conversions, and add, sub, mul, fma, min, max of floats are rounded correctly. The transcendental instructions are computed in
//! f64 and rounded once, where hardware is within an ulp. Matrix products are summed exactly or in f64 and rounded once with the addend;
//! hardware rounds more often. f16 fma goes through f64, which rounds twice in rare cases. xf32 rounds its sources to 10 bits of mantissa.
//!
//! # Model limits
//! Rounding of f32 other than to the nearest, trap handlers, messages, global data share, formatted and typed buffers, sparse matrix
//! instructions, stores and atomics of the scalar cache, and relative register addressing are [`FaultKind::Unsupported`] or
//! [`FaultKind::UnsupportedField`]. 16-bit loads keep the other half of their register, as the documents say; with error correction
//! on, hardware may not. Workgroups that are split over compute units (`tg_split`) are refused. Caches are not modelled, either: an access of the device's scope synchronises whatever invalidations surround it. Between workgroups
//! clocks are those of workgroups, not of waves. A barrier that a wave has ended without is a fault, where
//! hardware stops counting that wave. The mapping of `ds_read_*_tr` follows what compilers make of it; which lanes of a 16-byte read of LDS share a cycle is known for gfx950 only.
//!
//! # Example
//! ```no_run
//! use tilelift_amdgcn_sim::{Init, Launch, Memory, Module, SimConfig};
//! let module = Module::load(&std::fs::read("vadd.hsaco")?)?;
//! let mut memory = Memory::new();
//! let mut args = Vec::new();
//! for init in [Init::Bytes(vec![0; 4096]), Init::Bytes(vec![0; 4096]), Init::Uninit(4096)] {
//!     args.extend(memory.alloc("buffer", init).to_le_bytes());
//! }
//! args.extend(1024u32.to_le_bytes());
//! let launch =
//!     Launch { kernel: "vadd", grid: [4, 1, 1], block: [256, 1, 1], dynamic_lds: 0, args: &args, config: SimConfig::default() };
//! let report = module.launch(&launch, &mut memory)?;
//! println!("{} instructions", report.instructions);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod check;
mod chip;
mod decode;
mod exec;
mod fault;
mod isa;
mod num;
mod object;
pub mod record;
mod remedy;
mod report;
mod run;
mod span;
mod state;

pub use chip::Chip;
pub use fault::{Counter, Fault, FaultKind, LaunchError, Rule, Shared, Site, Use};
pub use object::{Argument, ArgumentKind, Descriptor, Kernel, LoadError, Module};
pub use record::Recording;
pub use report::{Costs, Report, Traffic};
pub use run::{Launch, Order, SimConfig};
pub use state::memory::{Init, Memory, MemoryError};

/// The text and the dwords of the first instruction of some machine code; `None` if it is none that is known.
pub fn disassemble(chip: Chip, words: &[u32]) -> Option<(String, usize)> {
    let fetch = |a: u64| usize::try_from(a / 4).ok().and_then(|i| words.get(i).copied());
    let inst = decode::decode(chip, 0, &fetch).ok()?;
    Some((inst.to_string(), inst.words.len()))
}
