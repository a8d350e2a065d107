//! Error types. Every error names a place: a column of the text for parse errors, an instruction
//! with CTA, warp and lane for run-time errors.

use std::fmt;

/// The text was not understood. `Display` prints the line with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line number, from 1.
    pub line: u32,
    /// Column (in characters), from 1.
    pub col: u32,
    /// What is wrong and, where known, what to do.
    pub message: String,
    /// The whole source line.
    pub source_line: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}: {}", self.line, self.col, self.message)?;
        writeln!(f, "  {}", self.source_line)?;
        write!(f, "  {:>w$}", "^", w = self.col as usize)
    }
}

impl std::error::Error for ParseError {}

/// What kind of fault stopped a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// Two conflicting accesses without an order between them.
    Race,
    /// An undefined value reached an address, a predicate that guards something, or global memory.
    Poison,
    /// An access outside every buffer, the shared window, or the parameters; or a write to read-only data.
    OutOfBounds,
    /// A load of bytes that nothing has written.
    Uninitialised,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// A warp-wide or CTA-wide operation executed by only a part of its threads.
    Divergence,
    /// No warp can make progress.
    Deadlock,
    /// The instruction budget ran out.
    Budget,
    /// Misuse of a barrier: wrong id, wrong thread count, double arrival.
    Barrier,
    /// The kernel executed `trap`.
    Trap,
    /// An operand value for which PTX defines no result (for example a bad `shfl` member mask).
    Undefined,
    /// The launch description does not fit the kernel.
    BadLaunch,
    /// An asynchronous access to data of ordinary accesses without the proxy fence between them.
    Proxy,
    /// Misuse of an mbarrier: not initialised, initialised twice, count or transaction overflow.
    Mbarrier,
    /// A wait for a phase that is already lost, or a phase that completes too early.
    Phase,
    /// A register of an asynchronous matrix operation touched before the wait that covers it, or without a fence.
    InFlight,
    /// A global access that does not wait for the launches in front, where launches overlap.
    LaunchOrder,
    /// Misuse of clusters: memory of a CTA that has exited, wrong rank, barrier out of step.
    Cluster,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Race => "race",
            ErrorKind::Poison => "poison",
            ErrorKind::OutOfBounds => "out of bounds",
            ErrorKind::Uninitialised => "uninitialised read",
            ErrorKind::Misaligned => "misaligned access",
            ErrorKind::Divergence => "divergence",
            ErrorKind::Deadlock => "deadlock",
            ErrorKind::Budget => "did not finish",
            ErrorKind::Barrier => "barrier misuse",
            ErrorKind::Trap => "trap",
            ErrorKind::Undefined => "undefined behaviour",
            ErrorKind::BadLaunch => "bad launch",
            ErrorKind::Proxy => "missing proxy fence",
            ErrorKind::Mbarrier => "mbarrier misuse",
            ErrorKind::Phase => "phase",
            ErrorKind::InFlight => "register in flight",
            ErrorKind::LaunchOrder => "launch order",
            ErrorKind::Cluster => "cluster misuse",
        })
    }
}

/// One place in an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The instruction as written.
    pub text: String,
    /// Its line in the PTX text, from 1.
    pub line: u32,
    /// CTA coordinates.
    pub cta: [u32; 3],
    /// Warp index within the CTA.
    pub warp: u32,
    /// Lane, when one lane is to blame.
    pub lane: Option<u32>,
    /// Address of the access, when it is one (global: virtual address; shared: window address).
    pub address: Option<u64>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        write!(f, "line {}: `{}` (CTA {x},{y},{z} warp {}", self.line, self.text, self.warp)?;
        if let Some(l) = self.lane {
            write!(f, " lane {l}")?;
        }
        if let Some(a) = self.address {
            write!(f, " address {a:#x}")?;
        }
        f.write_str(")")
    }
}

/// A launch was stopped. `Display` prints kind, message, sites and notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimError {
    /// The kind of fault.
    pub kind: ErrorKind,
    /// One sentence.
    pub message: String,
    /// Where it was detected (absent for [`ErrorKind::BadLaunch`] and whole-grid reports).
    pub site: Option<Box<Site>>,
    /// The other guilty place, for example the earlier access of a race.
    pub other: Option<Box<Site>>,
    /// More lines, for example one per blocked warp.
    pub notes: Vec<String>,
}

impl SimError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Box<SimError> {
        Box::new(SimError { kind, message: message.into(), site: None, other: None, notes: Vec::new() })
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        if let Some(s) = &self.site {
            write!(f, "\n  at   {s}")?;
        }
        if let Some(s) = &self.other {
            write!(f, "\n  with {s}")?;
        }
        for n in &self.notes {
            write!(f, "\n  {n}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SimError {}

/// A fault, boxed: it is large and rare.
pub(crate) type Fail = Box<SimError>;

pub(crate) type R<T> = Result<T, Fail>;
