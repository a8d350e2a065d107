//! The lane interpreter: runs a lane program exactly, and refuses what a device would only sometimes get wrong.
//!
//! ```text
//! program, grid ── verify ─► each program instance in turn, x fastest
//!                               all its threads in lockstep, instruction by instruction: a value is a column, one entry per thread
//!                               shared memory with race detection (`shared`), global memory with bounds (`global`)
//! ```
//!
//! It is the definition of the lane IR: what a backend emits must do the same. Divergent control flow, races, reads of bytes without
//! a value, accesses out of bounds and misaligned vectors are errors that name the instruction, the program and the thread.

mod cluster;
mod error;
mod exec;
mod global;
mod machine;
mod matrix;
mod ops;
mod shared;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod unit_state;
mod units;

pub use error::{LaneError, LaneFault};
pub use machine::LaneStats;
/// An argument of a launch, as the tile interpreter takes it.
pub use tilelift_interp::Arg as LaneArg;

use super::program::Program;
use super::verify::verify;
use crate::abi::marshal;
use crate::machine::Target;
use global::Global;
use tilelift_interp::Memory;

/// What to run, and how far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneOptions {
    /// Thread instructions after which the run stops with [`LaneFault::Fuel`].
    pub fuel: u64,
    /// Rounds of one `while` after which the run stops with [`LaneFault::Rounds`].
    pub steps: u64,
    /// The programs to run, in this order; `None` runs the whole grid, x fastest.
    pub programs: Option<Vec<[u32; 3]>>,
    /// How many instances of a persistent program run, if there are as many grid positions. A run of a list of programs gives each of
    /// them an instance of its own.
    pub workers: u32,
}

impl Default for LaneOptions {
    /// Fuel for some minutes, loops of some seconds, the whole grid.
    fn default() -> LaneOptions {
        LaneOptions { fuel: 1 << 38, steps: 1 << 22, programs: None, workers: 3 }
    }
}

/// Runs a program on a grid of program instances.
///
/// Arguments are those of the kernel; [`tilelift_interp::check_args`] says whether they keep its promises, which is not asked again
/// here.
///
/// # Errors
/// A program that [`verify`] refuses, arguments that don't fit the parameters, programs outside the grid, and the first fault. After a
/// fault the memory holds what was written until then.
pub fn interpret(
    program: &Program,
    target: &Target,
    grid: [u32; 3],
    args: &[LaneArg],
    memory: &mut Memory,
    options: &LaneOptions,
) -> Result<LaneStats, LaneError> {
    verify(program, target)?;
    // No programs: nothing to do, and nothing is wrong.
    if grid.contains(&0) && options.programs.as_ref().is_none_or(Vec::is_empty) {
        return Ok(LaneStats::default());
    }
    if grid.iter().any(|&n| n > i32::MAX as u32) {
        return Err(LaneError::Grid { grid });
    }
    let Some(grid) = tilelift_ir::instances(grid, program.positions) else {
        return Err(LaneError::Positions { grid, positions: program.positions });
    };
    if !grid[0].is_multiple_of(program.cluster) {
        return Err(LaneError::Cluster { grid, cluster: program.cluster });
    }
    let count = memory.buffers.len();
    for arg in args {
        if let LaneArg::View(v) = arg
            && v.buffer >= count
        {
            return Err(LaneError::Buffer { buffer: v.buffer, count });
        }
    }
    let params = marshal(&program.params, grid, args, global::address)?;
    let program = &*program.roles_apart();
    let tables = target.matrix.iter().map(|_| None).collect();
    let mut machine = machine::Interpreter::new(program, target, tables, &params, grid, Global::new(memory), [options.fuel, options.steps]);
    let persistent = program.persistent().then_some(options.workers.max(1));
    let done = run_all(&mut machine, grid, options.programs.as_deref(), persistent);
    let stats = machine.finish();
    done.map(|()| stats)
}

fn run_all(
    machine: &mut machine::Interpreter<'_>,
    grid: [u32; 3],
    subset: Option<&[[u32; 3]]>,
    persistent: Option<u32>,
) -> Result<(), LaneError> {
    // The launch parameters have been filled, so positions fit 32 bits where instances run several.
    let linear = |[x, y, z]: [u32; 3]| x.wrapping_add(grid[0].wrapping_mul(y.wrapping_add(grid[1].wrapping_mul(z))));
    let all = grid[0].wrapping_mul(grid[1]).wrapping_mul(grid[2]);
    if let Some(programs) = subset {
        for &program in programs {
            if program.iter().zip(grid).any(|(&at, n)| at >= n) {
                return Err(LaneError::Program { program, grid });
            }
            if !program[0].is_multiple_of(machine.blocks() as u32) {
                continue;
            }
            machine.program(program, [linear(program), all])?;
        }
        return Ok(());
    }
    if let Some(workers) = persistent {
        let workers = workers.min(all);
        return (0..workers).try_for_each(|w| machine.program([w, 0, 0], [w, workers]));
    }
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in (0..grid[0]).step_by(machine.blocks()) {
                machine.program([x, y, z], [0, 1])?;
            }
        }
    }
    Ok(())
}
