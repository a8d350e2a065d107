//! Errors of the interpreter: what a launch got wrong, and faults while a program ran.

use super::protocol::Protocol;
use std::fmt;
use tilelift_ir::kernel::Loc;
use tilelift_ir::ops::Op;
use tilelift_ir::types::{Extent, Scalar};
use tilelift_ir::{Inst, Kernel};

/// Why an interpretation ended without an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum InterpError {
    /// The arguments break what the kernel's parameters promise.
    Args(ArgError),
    /// A grid extent is above `i32::MAX`.
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
    /// The grid is no multiple of the positions that an instance stands for.
    Positions {
        /// The grid asked for.
        grid: [u32; 3],
        /// Positions of an instance along each axis.
        positions: [u32; 3],
    },
    /// A program of [`super::Options::programs`] is not in the grid.
    Program {
        /// The program.
        program: [u32; 3],
        /// The grid.
        grid: [u32; 3],
    },
    /// The programs of the grid have more instructions than [`super::Options::instructions`] allows, even if no loop goes round.
    Work {
        /// Programs that are to run.
        programs: u64,
        /// Instructions of each, outside of regions.
        each: u64,
        /// The instructions that are allowed.
        limit: u64,
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
        /// The author's name of the parameter that the fault is about.
        name: Option<Box<ParamName>>,
    },
}

impl InterpError {
    /// A fault of an instruction, told by the names of the kernel.
    pub(crate) fn at(kernel: &Kernel, inst: Inst, program: [u32; 3], fault: Fault) -> InterpError {
        let name = fault.param().and_then(|p| kernel.params.get(p)).and_then(|&v| kernel.names[v].clone());
        let name = name.map(|n| Box::new(ParamName(n)));
        InterpError::Fault { fault, inst, op: kernel.insts[inst].op, loc: kernel.locs[inst], program, name }
    }
}

/// What an author calls a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamName(Box<str>);

impl fmt::Display for ParamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A parameter as a message calls it.
struct Called<'a> {
    /// From 0.
    param: usize,
    name: Option<&'a ParamName>,
}

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => name.fmt(f),
            None => write!(f, "parameter {}", self.param),
        }
    }
}

/// What can go wrong at an instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The fuel of [`super::Options::fuel`] is spent.
    Fuel {
        /// The fuel that was given.
        limit: u64,
        /// Rounds of the loop that was given up; 0 outside of loops.
        rounds: u64,
    },
    /// As many instructions have run as [`super::Options::instructions`] allows.
    Instructions {
        /// The instructions that were allowed.
        limit: u64,
        /// Rounds of the loop that was given up; 0 outside of loops.
        rounds: u64,
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

impl Fault {
    /// The parameter that it is about.
    fn param(&self) -> Option<usize> {
        match *self {
            Fault::Uninitialised { param, .. }
            | Fault::Conflict { param, .. }
            | Fault::InsideByte { param, .. }
            | Fault::Collision { param, .. } => Some(param),
            Fault::Fuel { .. }
            | Fault::Instructions { .. }
            | Fault::Step { .. }
            | Fault::Rounds { .. }
            | Fault::Assumption { .. }
            | Fault::Assertion { .. }
            | Fault::Protocol(_)
            | Fault::Malformed(_) => None,
        }
    }

    /// Tells it, where the parameter has a name, by that.
    fn tell(&self, f: &mut fmt::Formatter<'_>, name: Option<&ParamName>) -> fmt::Result {
        let called = |param: &usize| Called { param: *param, name };
        match self {
            Fault::Fuel { limit, rounds } => {
                write!(f, "no more than {limit} element operations are allowed")?;
                gone_round(f, *rounds)?;
                write!(f, "; use smaller tiles or a subset of the grid, or allow more (`--steps`, `Options::fuel`)")
            }
            Fault::Instructions { limit, rounds } => {
                write!(f, "no more than {limit} instructions are allowed")?;
                gone_round(f, *rounds)?;
                write!(f, "; use larger tiles, fewer rounds or fewer programs, or allow more (`--steps`, `Options::instructions`)")
            }
            Fault::Rounds { limit } => {
                write!(f, "the loop ran {limit} rounds and goes on; mend its condition, or allow more (`--steps`, `Options::steps`)")
            }
            Fault::Step { step } => write!(f, "the step of the loop is {step}; steps are positive"),
            Fault::Uninitialised { param, at } => {
                write!(f, "element {at:?} of {} is read but was never written; fill the buffer or mask the load", called(param))
            }
            Fault::Conflict { param, at, other } => write!(
                f,
                "element {at:?} of {} was read or written by program {other:?}, and programs have no order; \
                 let one program own each element that is written",
                called(param)
            ),
            Fault::InsideByte { param, index } => write!(
                f,
                "the access to {} begins at the odd innermost index {index}, inside a byte that two elements share; use even indices",
                called(param)
            ),
            Fault::Collision { param, at } => write!(
                f,
                "element {at:?} of {} is written twice by one scatter with different values, and which one stays is not \
                 defined; mask one of them, or use an atomic update",
                called(param)
            ),
            Fault::Assumption { value, divisor } => {
                write!(f, "{value} is no multiple of {divisor}, as the kernel promises; pass other arguments or drop the promise")
            }
            Fault::Assertion { element } => write!(f, "the assertion fails at element {element}"),
            Fault::Protocol(p) => write!(f, "{p}"),
            Fault::Malformed(what) => write!(f, "the kernel is malformed ({what}); run the verifier"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f, None)
    }
}

/// What is said of a loop that was given up.
fn gone_round(f: &mut fmt::Formatter<'_>, rounds: u64) -> fmt::Result {
    if rounds > 0 { write!(f, ", and this loop is in round {rounds} (if it is to end before, mend its bounds)") } else { Ok(()) }
}

impl fmt::Display for InterpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterpError::Args(e) => e.fmt(f),
            InterpError::Grid { grid } => write!(f, "the grid is {grid:?}; its extents are at most {}", i32::MAX),
            InterpError::Cluster { grid, cluster } => {
                write!(f, "the grid is {grid:?}; with clusters of {cluster}, its first extent is a multiple of {cluster}")
            }
            InterpError::Positions { grid, positions } => {
                write!(f, "the grid is {grid:?}; an instance stands for {positions:?} positions, of which its extents are multiples")
            }
            InterpError::Program { program, grid } => write!(f, "program {program:?} is outside the grid {grid:?}"),
            InterpError::Work { programs, each, limit } => write!(
                f,
                "{programs} programs of at least {each} instructions are more than the {limit} instructions that are allowed; \
                 run a smaller grid with larger tiles, or allow more (`--steps`, `Options::instructions`)"
            ),
            InterpError::Fault { fault, inst, op, loc, program, name } => {
                match loc.is_known() {
                    true => write!(f, "{loc}: `{op}`")?,
                    false => write!(f, "`{op}` ({inst})")?,
                }
                write!(f, " in program {program:?}: ")?;
                fault.tell(f, name.as_deref())
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
            InterpError::Grid { .. }
            | InterpError::Cluster { .. }
            | InterpError::Positions { .. }
            | InterpError::Program { .. }
            | InterpError::Work { .. } => None,
        }
    }
}

impl From<ArgError> for InterpError {
    fn from(e: ArgError) -> InterpError {
        InterpError::Args(e)
    }
}

/// What of an argument list breaks a promise. `param` counts parameters from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgError {
    /// Number of arguments.
    Count {
        /// Parameters of the kernel.
        want: usize,
        /// Arguments given.
        got: usize,
    },
    /// A view where a number belongs, or a number where a view belongs.
    Kind {
        /// Parameter.
        param: usize,
        /// Its type.
        want: String,
    },
    /// Element type.
    Element {
        /// Parameter.
        param: usize,
        /// The parameter's.
        want: Scalar,
        /// The argument's.
        got: Scalar,
    },
    /// Number of extents or strides.
    Rank {
        /// Parameter.
        param: usize,
        /// The parameter's rank.
        want: usize,
        /// The argument's number of extents.
        extents: usize,
        /// The argument's number of strides.
        strides: usize,
    },
    /// An extent that is negative or above `i32::MAX`.
    ExtentRange {
        /// Parameter.
        param: usize,
        /// Dimension.
        dim: usize,
        /// The extent.
        got: i64,
    },
    /// An extent that its fact excludes.
    Extent {
        /// Parameter.
        param: usize,
        /// Dimension.
        dim: usize,
        /// The fact.
        fact: Extent,
        /// The extent.
        got: i64,
    },
    /// A number that is no multiple of what the kernel assumes.
    Multiple {
        /// Parameter.
        param: usize,
        /// What is assumed.
        multiple_of: u32,
        /// The number.
        got: i64,
    },
    /// A negative stride.
    StrideRange {
        /// Parameter.
        param: usize,
        /// Dimension.
        dim: usize,
        /// The stride.
        got: i64,
    },
    /// A stride that its fact excludes.
    Stride {
        /// Parameter.
        param: usize,
        /// Dimension.
        dim: usize,
        /// The fact.
        fact: Extent,
        /// The stride, in elements.
        got: i64,
    },
    /// A view declared dense whose strides are not those of a dense row-major tensor.
    NotDense {
        /// Parameter.
        param: usize,
        /// Dimension.
        dim: usize,
        /// The stride that density asks for, in elements.
        want: i64,
        /// The stride given.
        got: i64,
    },
    /// A base that is not aligned as declared.
    Alignment {
        /// Parameter.
        param: usize,
        /// Alignment in bytes.
        align: u32,
        /// The offset in the buffer, in bytes.
        offset: u64,
    },
    /// No such buffer.
    Buffer {
        /// Parameter.
        param: usize,
        /// The index.
        buffer: usize,
        /// Number of buffers.
        count: usize,
    },
    /// Elements outside the buffer.
    Outside {
        /// Parameter.
        param: usize,
        /// Where the last element ends, in bytes.
        end: u128,
        /// Length of the buffer in bytes.
        len: u64,
    },
    /// A view that the kernel writes has two elements in one place.
    SelfOverlap {
        /// Parameter.
        param: usize,
    },
    /// A view that the kernel writes shares bytes with another view.
    Overlap {
        /// The written parameter.
        written: usize,
        /// The other parameter.
        other: usize,
    },
    /// Two views that have to be one, for a kernel that works in place, differ.
    NotInPlace {
        /// The one that is written.
        output: usize,
        /// The one that is read.
        input: usize,
    },
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgError::Count { want, got } => write!(f, "the kernel has {want} parameters, but {got} arguments were given"),
            ArgError::Kind { param, want } => write!(f, "argument {param} is of the wrong kind: the parameter is {want}"),
            ArgError::Element { param, want, got } => {
                write!(f, "argument {param} has {got} elements, the parameter {want}; convert the data or build the kernel for {got}")
            }
            ArgError::Rank { param, want, extents, strides } => {
                write!(f, "argument {param} has {extents} extents and {strides} strides; the parameter has {want} dimensions")
            }
            ArgError::ExtentRange { param, dim, got } => {
                write!(f, "extent {dim} of argument {param} is {got}; extents are 0 to {}", i32::MAX)
            }
            ArgError::Extent { param, dim, fact, got } => write!(
                f,
                "extent {dim} of argument {param} is {got}, but the parameter promises `{fact}`; pad the tensor or build the kernel with `?`"
            ),
            ArgError::Multiple { param, multiple_of, got } => write!(
                f,
                "argument {param} is {got}, but the kernel assumes a multiple of {multiple_of}; pass one, or compile the kernel without that"
            ),
            ArgError::StrideRange { param, dim, got } => {
                write!(f, "stride {dim} of argument {param} is {got}; strides are 0 or more, so flip the tensor by copying it")
            }
            ArgError::Stride { param, dim, fact, got } => write!(
                f,
                "stride {dim} of argument {param} is {got} elements, but the parameter promises `{fact}`; copy the tensor or weaken the fact"
            ),
            ArgError::NotDense { param, dim, want, got } => write!(
                f,
                "argument {param} is declared dense, but its stride {dim} is {got} elements, not {want}; copy the tensor or declare strides"
            ),
            ArgError::Alignment { param, align, offset } => write!(
                f,
                "argument {param} starts {offset} bytes into its buffer, but the parameter promises alignment {align}; move it or declare `align`"
            ),
            ArgError::Buffer { param, buffer, count } => {
                write!(f, "argument {param} names buffer {buffer}, but there are {count}; add the buffer to the memory first")
            }
            ArgError::Outside { param, end, len } => {
                write!(f, "argument {param} ends at byte {end} of a buffer of {len} bytes; check extents, strides and offset")
            }
            ArgError::SelfOverlap { param } => write!(
                f,
                "argument {param} is written, but its strides put several elements in one place; write to a tensor without shared elements"
            ),
            ArgError::NotInPlace { output, input } => {
                write!(f, "arguments {output} and {input} differ, but the kernel works in place; pass one view for both")
            }
            ArgError::Overlap { written, other } => {
                write!(f, "argument {written} is written and shares bytes with argument {other}; pass an in-place tensor as one parameter")
            }
        }
    }
}

impl std::error::Error for ArgError {}
