//! What both texts are read into: steps that write and read registers, and where control goes behind them.

/// A register by its number in the [`Code`].
pub(super) type Reg = u32;

/// A function of either text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Code {
    pub name: String,
    pub steps: Vec<Step>,
    /// Registers are numbered below.
    pub registers: u32,
    /// Steps of the matrix instructions, by their numbers.
    pub products: Vec<usize>,
}

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// Line of PTX, address of SASS.
    pub place: u32,
    pub writes: Vec<Reg>,
    /// What flows into the results: addresses of loads do not.
    pub reads: Vec<Reg>,
    /// It may leave its results as they were.
    pub guarded: bool,
    pub kind: Kind,
    pub next: Next,
}

/// What an instruction is, as far as origins care.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It computes.
    Compute,
    /// It moves what is there, or reads a constant or its own stack.
    Copy,
    /// It depends on every bit of what it reads, as far as an assembler can know.
    Keeps,
    /// It reads shared memory.
    Shared,
    /// It reads global memory.
    Global,
    /// A matrix instruction of a warpgroup.
    Multiply(Multiply),
}

/// A matrix instruction of a warpgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Multiply {
    /// Rows, columns, depth.
    pub shape: [u32; 3],
    /// Registers of operand A; none where it lies in shared memory.
    pub a: Vec<Reg>,
    /// The sum before; none where it counts as zero.
    pub c: Vec<Reg>,
    /// A predicate decides whether the sum before counts.
    pub perhaps: bool,
}

/// Where control goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// To the step behind.
    Falls,
    /// To a step.
    Jumps(usize),
    /// To a step, or to the one behind.
    Branches(usize),
    /// Nowhere.
    Ends,
    /// Nowhere, or to the step behind.
    MayEnd,
}

impl Code {
    /// With the matrix instructions numbered as they stand.
    pub fn numbered(mut self) -> Code {
        self.products = (0..self.steps.len()).filter(|&i| matches!(self.steps[i].kind, Kind::Multiply(_))).collect();
        self
    }

    /// The matrix instructions with their steps, by number.
    pub fn multiplies(&self) -> impl Iterator<Item = (usize, &Multiply)> {
        self.products.iter().filter_map(|&i| match &self.steps[i].kind {
            Kind::Multiply(m) => Some((i, m)),
            _ => None,
        })
    }
}
