//! Errors of the interpreter: what a launch got wrong, and faults while a program ran.

use super::args::ArgError;
use super::explicit::Protocol;
use std::fmt;
use tilelift_ir::Inst;
use tilelift_ir::kernel::Loc;
use tilelift_ir::ops::Op;

/// Why an interpretation ended without an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum InterpError {
    /// The arguments break what the kernel's parameters promise.
    Args(ArgError),
    /// A grid extent is 0 or above `i32::MAX`.
    Grid {
        /// The grid asked for.
        grid: [u32; 3],
    },
    /// The grid's extent along x is no multiple of the cluster.
    Cluster {
        /// The grid asked for.
        grid: [u32; 3],
        /// Program instances of a cluster.
        cluster: u32,
    },
    /// A program of [`super::Options::programs`] is not in the grid.
    Program {
        /// The program.
        program: [u32; 3],
        /// The grid.
        grid: [u32; 3],
    },
    /// An instruction could not be executed.
    Fault {
        /// What happened.
        fault: Fault,
        /// The instruction.
        inst: Inst,
        /// Its op.
        op: Op,
        /// Where it stands in the text, if it was parsed.
        loc: Loc,
        /// The program instance that ran.
        program: [u32; 3],
    },
}

/// What can go wrong at an instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The fuel of [`super::Options::fuel`] is spent.
    Fuel {
        /// The fuel that was given.
        limit: u64,
    },
    /// The step of a `for` is not positive.
    Step {
        /// The step.
        step: i64,
    },
    /// A load reads an element of which a byte was never written.
    Uninitialised {
        /// The kernel parameter, from 0.
        param: usize,
        /// The element's coordinates in the view.
        at: Vec<i64>,
    },
    /// Two program instances disagree about an element: both write it, with different bytes, or one reads what the other writes.
    Conflict {
        /// The kernel parameter, from 0.
        param: usize,
        /// The element's coordinates in the view.
        at: Vec<i64>,
        /// The program instance that touched the element first.
        other: [u32; 3],
    },
    /// An access to elements of which two share a byte begins at an odd one.
    InsideByte {
        /// The kernel parameter, from 0.
        param: usize,
        /// The innermost index.
        index: i64,
    },
    /// A `while` did not end within [`super::Options::steps`].
    Rounds {
        /// The rounds that were allowed.
        limit: u64,
    },
    /// Two elements of a scatter meet in one place with different bits.
    Collision {
        /// The kernel parameter, from 0.
        param: usize,
        /// The element's coordinates in the view.
        at: Vec<i64>,
    },
    /// An `assume` is broken.
    Assumption {
        /// The value.
        value: i64,
        /// What should divide it.
        divisor: u32,
    },
    /// An `assert` fails.
    Assertion {
        /// The first element that does not hold, in row-major order.
        element: usize,
    },
    /// Tasks, blocks of a cluster and async units do to one another what they may not.
    Protocol(Protocol),
    /// The kernel breaks an invariant that the verifier guarantees.
    Malformed(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Fuel { limit } => write!(
                f,
                "no more than {limit} element operations are allowed; does the loop end? otherwise use smaller tiles or a subset of the grid, or allow more (`--steps`, `Options::fuel`)"
            ),
            Fault::Rounds { limit } => {
                write!(f, "the loop ran {limit} rounds and goes on; mend its condition, or allow more (`--steps`, `Options::steps`)")
            }
            Fault::Step { step } => write!(f, "the step of the loop is {step}; steps are positive"),
            Fault::Uninitialised { param, at } => {
                write!(f, "element {at:?} of parameter {param} is read but was never written; fill the buffer or mask the load")
            }
            Fault::Conflict { param, at, other } => write!(
                f,
                "element {at:?} of parameter {param} was read or written by program {other:?}, and programs have no order; \
                 let one program own each element that is written"
            ),
            Fault::InsideByte { param, index } => write!(
                f,
                "the access to parameter {param} begins at the odd innermost index {index}, inside a byte that two elements share; use even indices"
            ),
            Fault::Collision { param, at } => write!(
                f,
                "element {at:?} of parameter {param} is written twice by one scatter with different values, and which one stays is not \
                 defined; mask one of them, or use an atomic update"
            ),
            Fault::Assumption { value, divisor } => {
                write!(f, "{value} is no multiple of {divisor}, as the kernel promises; pass other arguments or drop the promise")
            }
            Fault::Assertion { element } => write!(f, "the assertion fails at element {element}"),
            Fault::Protocol(p) => p.fmt(f),
            Fault::Malformed(what) => write!(f, "the kernel is malformed ({what}); run the verifier"),
        }
    }
}

impl fmt::Display for InterpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterpError::Args(e) => e.fmt(f),
            InterpError::Grid { grid } => write!(f, "the grid is {grid:?}; its extents are 1 to {}", i32::MAX),
            InterpError::Cluster { grid, cluster } => {
                write!(f, "the grid is {grid:?}; with clusters of {cluster}, its first extent is a multiple of {cluster}")
            }
            InterpError::Program { program, grid } => write!(f, "program {program:?} is outside the grid {grid:?}"),
            InterpError::Fault { fault, inst, op, loc, program } => {
                if loc.is_known() {
                    write!(f, "{loc}: ")?;
                }
                write!(f, "`{op}` ({inst}) in program {program:?}: {fault}")
            }
        }
    }
}

impl std::error::Error for Fault {}
impl std::error::Error for InterpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InterpError::Args(e) => Some(e),
            InterpError::Fault { fault, .. } => Some(fault),
            InterpError::Grid { .. } | InterpError::Cluster { .. } | InterpError::Program { .. } => None,
        }
    }
}

impl From<ArgError> for InterpError {
    fn from(e: ArgError) -> InterpError {
        InterpError::Args(e)
    }
}
