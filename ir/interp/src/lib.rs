//! The reference interpreter: the definition of the IR.
//!
//! ```text
//!   Verified ─┐
//!   grid      │                  for each program of the grid, x fastest
//!   args      ├─► interpret ──►  for each instruction in order: elements in f64 / i64, rounded or wrapped after every op
//!   Memory   ─┘                  loads and stores on little-endian bytes, as a device sees them
//! ```
//!
//! It is complete (every op, every type, by an exhaustive match), exact (see [`tilelift_ir::num`]) and defensive: what a program may not
//! do on any device is a typed error here. It reads bytes that were never written as a fault, and two programs that disagree
//! about an element, whose order no device defines, as another. Where the IR leaves freedom, the interpreter chooses so:
//!
//! - atomic updates that meet happen in the order of the programs, and in one program in row-major order;
//! - `dot` sums in `f64` along k, from the accumulator, and rounds once;
//! - functions such as `exp` are computed in `f64` and rounded once;
//! - a NaN is the default NaN of its type when it is stored or its bits are read;
//! - `minnum` and `maxnum` order -0 below +0; a `cmp` of truth values orders false below true;
//! - a conversion of a float to `i1` asks whether it differs from 0, which a NaN does;
//! - tasks and blocks of a cluster take turns, async copies land as late as they can (see `explicit`);
//! - the index of a `for` never wraps: the loop ends at the first exact `lo + n * step` that is not below `hi`.
//!
//! ```
//! use tilelift_interp::{Buffer, Memory, Options, ViewArg, interpret};
//! use tilelift_ir::{Extent, KernelBuilder, Scalar, ViewType, verify};
//! let mut b = KernelBuilder::new("double");
//! let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
//! let pid = b.program_id(0);
//! let at = b.mul(pid, 4);
//! let t = b.load(x, &[at], &[4]);
//! let t = b.mul(t, 2.0f32);
//! b.store(x, &[at], t);
//! let kernel = b.finish().expect("well built");
//! let kernel = verify(&kernel).expect("well formed");
//!
//! let mut memory = Memory::new();
//! let buffer = memory.add(Buffer::from_f64(Scalar::F32, [1.0, 2.0, 3.0, 4.0, 5.0]));
//! let args = [ViewArg::dense(buffer, Scalar::F32, &[5]).into()];
//! interpret(&kernel, [2, 1, 1], &args, &mut memory, &Options::default()).expect("runs");
//! assert_eq!(memory.buffers[buffer].read_f64(Scalar::F32), [2.0, 4.0, 6.0, 8.0, 10.0]);
//! ```

mod access;
mod args;
mod codec;
mod combine;
mod data;
mod elementwise;
mod error;
mod exec;
mod explicit;
mod fold;
mod grid;
mod indexed;
mod memory;
mod order;
mod philox;
mod plan;
mod protocol;
mod scalar;
mod scan;
mod shapes;

pub use args::{Arg, ScalarArg, ViewArg, check_args, check_args_in, check_args_of, written_params};
pub use error::{ArgError, Fault, InterpError, ParamName};
pub use memory::{Buffer, Memory};
pub use philox::philox;
pub use protocol::Protocol;
pub use scalar::fold;

use crate::grid::{number_of, positions, program_at};
use access::{Released, Shadow, View};
use cranelift_entity::SecondaryMap;
use exec::Interpreter;
use tilelift_ir::kernel::Kernel;
use tilelift_ir::ops::Effects;
use tilelift_ir::verify::Verified;

/// How to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Element operations after which the run stops with [`Fault::Fuel`].
    pub fuel: u64,
    /// Instructions after which the run stops with [`Fault::Instructions`]: they bound its time where tiles are small.
    pub instructions: u64,
    /// Rounds of one `while` after which the run stops with [`Fault::Rounds`].
    pub steps: u64,
    /// The programs to run, in this order; `None` runs the whole grid, x fastest.
    pub programs: Option<Vec<[u32; 3]>>,
    /// Whether to look for programs that disagree about an element ([`Fault::Conflict`]). Takes 4 bytes per element
    /// of a written buffer, 8 if it is read as well.
    pub conflicts: bool,
}

impl Default for Options {
    /// Fuel for a matrix product of extent 4096, instructions and loops of some seconds, the whole grid, conflicts reported.
    fn default() -> Options {
        Options { fuel: 1 << 38, instructions: 1 << 26, steps: 1 << 22, programs: None, conflicts: true }
    }
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Program instances that ran.
    pub programs: u64,
    /// Element operations spent.
    pub fuel: u64,
}

/// Runs a kernel on a grid of programs.
///
/// On an error, memory holds what was written until then.
///
/// # Errors
/// Arguments that break the parameters' promises, an impossible grid, or the first fault of an instruction.
pub fn interpret(
    kernel: &Verified<'_>,
    grid: [u32; 3],
    args: &[Arg],
    memory: &mut Memory,
    options: &Options,
) -> Result<Stats, InterpError> {
    let kernel = kernel.kernel();
    check_args(kernel, args, memory)?;
    // No programs: nothing to do, and nothing is wrong.
    if grid.contains(&0) && options.programs.as_ref().is_none_or(Vec::is_empty) {
        return Ok(Stats::default());
    }
    if grid.iter().any(|&e| e > i32::MAX as u32) {
        return Err(InterpError::Grid { grid });
    }
    let Some(grid) = tilelift_ir::instances(grid, kernel.positions) else {
        return Err(InterpError::Positions { grid, positions: kernel.positions });
    };
    if !grid[0].is_multiple_of(kernel.cluster.max(1)) {
        return Err(InterpError::Cluster { grid, cluster: kernel.cluster });
    }
    for &program in options.programs.iter().flatten() {
        if program.iter().zip(&grid).any(|(p, e)| p >= e) {
            return Err(InterpError::Program { program, grid });
        }
    }
    let count = match &options.programs {
        Some(list) => list.len() as u64,
        None => positions(grid),
    };
    let each = kernel.regions[kernel.body].insts.len() as u64;
    if !kernel.is_persistent() && count.saturating_mul(each) > options.instructions {
        return Err(InterpError::Work { programs: count, each, limit: options.instructions });
    }
    let plan = plan::Plan::new(kernel);
    let mut shadows: Vec<Option<Shadow>> = memory.buffers.iter().map(|_| None).collect();
    if options.conflicts && count > 1 {
        make_shadows(&mut shadows, memory, args, kernel);
    }
    let mut views = Vec::new();
    let mut scalars = Vec::new();
    for (param, arg) in args.iter().enumerate() {
        views.push(match arg {
            Arg::View(a) => Some(View { param, arg: a.clone() }),
            Arg::Scalar(s) => {
                scalars.push((kernel.params[param], exec::scalar(s.elem(), s.bits())));
                None
            }
        });
    }
    let mut machine = Interpreter {
        kernel,
        plan: &plan,
        env: SecondaryMap::new(),
        views,
        memory,
        shadows: &mut shadows,
        grid,
        subset: options.programs.as_deref(),
        released: Released::default(),
        workers: 1,
        program: [0; 3],
        me: 0,
        fuel: options.fuel,
        limit: options.fuel,
        instructions: options.instructions,
        most_instructions: options.instructions,
        rounds: SecondaryMap::new(),
        steps: options.steps,
    };
    if kernel.is_persistent() {
        // A worker is given positions of its own, and its number where programs have their place along x.
        let workers = options.programs.as_ref().map_or(count.div_ceil(POSITIONS), |_| positions(grid));
        machine.workers = u32::try_from(workers).ok().filter(|&n| n <= i32::MAX as u32).ok_or(InterpError::Grid { grid })?;
        let numbers: Vec<u64> = match &options.programs {
            Some(list) => list.iter().map(|&p| number_of(grid, p)).collect(),
            None => (0..workers).collect(),
        };
        let programs = numbers.iter().zip(1u32..).map(|(&n, me)| ([n as u32, 0, 0], me));
        let count = machine.run_clusters(programs, &scalars)?;
        return Ok(Stats { programs: count, fuel: options.fuel - machine.fuel });
    }
    if kernel.is_explicit() {
        let programs = (0..count).map(|n| {
            let program = options.programs.as_ref().map_or_else(|| program_at(grid, n), |list| list[n as usize]);
            (program, u32::try_from(n + 1).unwrap_or(u32::MAX))
        });
        let count = machine.run_clusters(programs, &scalars)?;
        return Ok(Stats { programs: count, fuel: options.fuel - machine.fuel });
    }
    // A kernel without instructions takes no fuel, so its grid could run for ever.
    if !kernel.regions[kernel.body].insts.is_empty() {
        for n in 0..count {
            let program = match &options.programs {
                Some(list) => list[n as usize],
                None => program_at(grid, n),
            };
            machine.run_program(program, u32::try_from(n + 1).unwrap_or(u32::MAX), &scalars)?;
        }
    }
    Ok(Stats { programs: count, fuel: options.fuel - machine.fuel })
}

/// Grid positions of a worker of a persistent kernel, so that its loop goes round.
const POSITIONS: u64 = 3;

/// Shadows for the buffers that the kernel writes.
fn make_shadows(shadows: &mut [Option<Shadow>], memory: &Memory, args: &[Arg], kernel: &Kernel) {
    let views = || args.iter().filter_map(|a| if let Arg::View(v) = a { Some(v) } else { None });
    let read = args::params_of(kernel, |op| op.info().effects.global() == Effects::Reads);
    let updated = args::params_of(kernel, |op| op.info().effects.global() == Effects::Updates);
    for param in written_params(kernel) {
        let Arg::View(w) = &args[param] else { continue };
        let unit = views().filter(|v| v.buffer == w.buffer).map(|v| v.elem.bytes()).min().unwrap_or(1) as usize;
        let units = memory.buffers[w.buffer].len().div_ceil(unit);
        let is_read = read.iter().any(|&p| matches!(&args[p], Arg::View(v) if v.buffer == w.buffer));
        let is_updated = updated.iter().any(|&p| matches!(&args[p], Arg::View(v) if v.buffer == w.buffer));
        let kept = |yes: bool| if yes { vec![0; units] } else { Vec::new() };
        shadows[w.buffer] = Some(Shadow { unit, writer: vec![0; units], reader: kept(is_read), updater: kept(is_updated) });
    }
}
