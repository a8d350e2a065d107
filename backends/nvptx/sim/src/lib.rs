//! An adversarial simulator of PTX text.
//!
//! [`Module::parse`] reads PTX as an assembler would; [`Module::launch`] runs a grid on simulated
//! [`Memory`]. It computes what the kernel computes, and it looks for faults that hardware hides:
//!
//! * **Poison.** Registers and shared memory start undefined; so is the destination of an asynchronous copy until
//!   it is waited for. Undefined values may be moved, computed with and stored to shared memory, but
//!   one that reaches an address, a guard or branch predicate, or global memory is an error.
//! * **Races** between warps on shared memory, and between warps and CTAs on global memory, by
//!   happens-before, whatever the interleaving. Asynchronous operations (`cp.async`, bulk and tensor copies, wgmma,
//!   remote stores) count as agents of their own: their accesses are ordered by their own completion only.
//! * **Proxies**: an asynchronous access to what ordinary code wrote (or read, before an overwrite) without the proxy
//!   fence between them.
//! * **Addresses**: out of bounds, misaligned, never written.
//! * **Barriers**: executed by a part of a warp, wrong counts, numbers used by two groups at once, warps that wait for ever. mbarriers:
//!   use before initialisation, wrong counts and bytes, phases that complete too early or that a waiter can miss.
//! * **Registers of wgmma** touched before the wait that covers them, or used by a wgmma without a fence.
//! * **Clusters**: memory of a CTA that has exited, hand-over with the wrong scope; registers that `setmaxnreg` cannot give.
//! * **Launches that overlap** (a text with `griddepcontrol`, or [`SimConfig::early_launch`]): a global access of a thread that has not waited
//!   for the launches in front and is ordered behind none that has.
//! * **Tensor copies** that begin at no multiple of 16 bytes of a row.
//!
//! Warps run in seeded orders ([`Policy`]) and asynchronous operations land when the seed says ([`Landing`]): the same seed
//! gives the same run on every machine. The [`Report`] counts instructions, bank conflicts and
//! global sectors (of ordinary accesses). A [`Recording`] holds what warps waited for and what was in flight. A deadlock names every waiting warp, its instruction, and the state of what it waits for.
//!
//! Kernels that use tensor maps get them as [`Arg::TensorMap`], or from memory as [`TensorMap::encode`] gives them.
//!
//! # What is exact
//! Integer operations, conversions, and add, sub, mul, fma, div, sqrt, rcp in f32, f16 and bf16 are
//! correctly rounded. The other `.approx` functions are computed in f64 and rounded once to the type.
//! `mma` and `wgmma` sum exact products in f64 and round once. Compare those two groups with a tolerance.
//! NaN results are the canonical NaN; f64 directed rounding is not modelled.
//!
//! # Model limits
//! The instruction set is that of sm_80 and most of sm_90a: not sparse wgmma, im2col and gather copies, device-side changes of tensor
//! maps, cluster launch control, 128-bit registers. Whatever is not modelled is a [`ParseError`] that names it. Within a warp, program
//! order counts as an order between lanes. A warp that has exited does not count as arrived at a CTA barrier.
//! An asynchronous copy between two CTAs that is ordered by counting alone (the default scope of a remote arrival) is
//! accepted after asynchronous reads, as ring buffers in practice rely on; for ordinary data it is not.
//! `st.async` and `red.async` have the latency of copies but are of the ordinary proxy. A matrix descriptor's base
//! offset shifts the rows by which the swizzle pattern repeats.
//!
//! # Example
//! ```
//! use tilelift_nvptx_sim::{Arg, Init, Launch, Memory, Module, SimConfig};
//! let ptx = r#"
//! .version 7.0
//! .target sm_80
//! .address_size 64
//! .visible .entry double(.param .u64 p) {
//!   .reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
//!   ld.param.u64 %rd1, [p];
//!   mov.u32 %r1, %tid.x;
//!   mad.wide.u32 %rd2, %r1, 4, %rd1;
//!   ld.global.f32 %f1, [%rd2];
//!   add.rn.f32 %f2, %f1, %f1;
//!   st.global.f32 [%rd2], %f2;
//!   ret;
//! }"#;
//! let module = Module::parse(ptx)?;
//! let mut mem = Memory::new();
//! let x: Vec<u8> = (0..32).flat_map(|i| (i as f32).to_le_bytes()).collect();
//! let p = mem.alloc("x", Init::Bytes(x));
//! let launch = Launch {
//!     entry: "double", grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0,
//!     args: &[Arg::U64(p)], config: SimConfig::default(),
//! };
//! module.launch(&launch, &mut mem)?;
//! assert_eq!(mem.read(p + 4 * 7, 4)?, 14f32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod banks;
mod config;
mod decode;
mod error;
mod exec;
mod memory;
mod num;
mod program;
mod record;
mod report;
mod run;
mod state;
mod tensor_map;
mod text;
mod types;
mod units;

pub use config::{Arg, Landing, Launch, Policy, SimConfig};
pub use error::{ErrorKind, ParseError, SimError, Site};
pub use memory::{Init, Memory, MemoryError};
pub use record::{Event, MAX_EVENTS, Recording, Transfer, WaitFor, What};
pub use report::{Report, SiteReport};
pub use tensor_map::{MapElement, MapFill, MapSwizzle, TensorMap, TensorMapError};

use program::op::Program;
use types::Space;

/// A parsed and decoded PTX module.
#[derive(Clone, Debug)]
pub struct Module {
    src: String,
    version: (u32, u32),
    target: String,
    programs: Vec<Program>,
    vars: Vec<text::ast::Var>,
}

impl Module {
    /// Parses and decodes PTX text.
    ///
    /// # Errors
    /// On anything an assembler would reject and the simulator notices, and on every directive, instruction or
    /// modifier that is not modelled.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        let ast = text::parse(text)?;
        let programs = decode::decode(text, &ast)?;
        Ok(Module { src: text.to_string(), version: ast.version, target: ast.target, programs, vars: ast.vars })
    }

    /// Names of the entries, in text order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|p| p.name.as_str())
    }

    /// The `.version` directive as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The `.target` directive.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Parameter sizes in bytes of an entry, in order; `None` when there is no such entry.
    pub fn params(&self, entry: &str) -> Option<Vec<u64>> {
        let p = self.programs.iter().find(|p| p.name == entry)?;
        Some(p.params.iter().map(|p| p.bytes).collect())
    }

    /// Runs a launch to completion, changing `mem`. Module variables in global and constant memory are
    /// placed in `mem` by the first launch on it, under their own names, and keep their values.
    ///
    /// # Errors
    /// The first fault found; `mem` is then left as it was at that moment.
    pub fn launch(&self, launch: &Launch<'_>, mem: &mut Memory) -> Result<Report, SimError> {
        self.run(launch, mem, None)
    }

    /// As [`Module::launch`], and takes down what warps waited for and what was in flight. Where a fault ends the launch, the recording holds what was
    /// before it.
    ///
    /// # Errors
    /// As [`Module::launch`].
    pub fn launch_recorded(&self, launch: &Launch<'_>, mem: &mut Memory, recording: &mut Recording) -> Result<Report, SimError> {
        self.run(launch, mem, Some(recording))
    }

    fn run(&self, launch: &Launch<'_>, mem: &mut Memory, record: Option<&mut Recording>) -> Result<Report, SimError> {
        let Some(prog) = self.programs.iter().find(|p| p.name == launch.entry) else {
            let m = format!("there is no entry `{}`", launch.entry);
            return Err(*SimError::new(ErrorKind::BadLaunch, m));
        };
        let mut globals = Vec::new();
        for v in &self.vars {
            if v.space == Space::Shared {
                globals.push(0);
                continue;
            }
            globals.push(mem.module_variable(v));
        }
        run::launch(prog, &self.src, &globals, launch, mem, record).map_err(|e| *e)
    }
}
