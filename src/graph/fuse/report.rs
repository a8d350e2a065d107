//! What a fusion did: which kernels became one and how, and why others stay apart.

use std::fmt;

/// How two kernels became one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum How {
    /// The consumer runs on the producer's tiles, behind the producer.
    Epilogue,
    /// Each program of one grid runs both.
    SameTile,
    /// The producer runs on the consumer's tiles, in the place of its loads.
    Prologue,
    /// The producer's folds stay a kernel, and what it does with them runs in the place of the consumer's loads.
    SplitPrologue,
}

impl How {
    /// Every way, in the order in which equal costs choose.
    pub const ALL: &'static [How] = &[How::Epilogue, How::SameTile, How::Prologue, How::SplitPrologue];
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            How::Epilogue => "epilogue",
            How::SameTile => "same tile",
            How::Prologue => "prologue",
            How::SplitPrologue => "split prologue",
        }
    }
}

/// What kind of reason keeps two kernels apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum RefusalKind {
    /// A node between them needs the order.
    Order,
    /// Different grids.
    Grid,
    /// Different or unknown places in the tensor.
    Place,
    /// An op that is not pointwise, or shapes that do not fit.
    Shape,
    /// Tiles that are not known to cover the tensor.
    Coverage,
    /// Programs would meet in another tensor.
    Hazard,
    /// The target does not take the fused kernel, or not as well.
    Target,
    /// It would cost more.
    Cost,
}

/// Why two kernels stay apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The kind of reason.
    pub kind: RefusalKind,
    /// The reason.
    pub why: String,
}

impl Refusal {
    pub(super) fn new(kind: RefusalKind, why: impl Into<String>) -> Refusal {
        Refusal { kind, why: why.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// What became of a producer and a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// They are one.
    Fused {
        /// How.
        how: How,
        /// Cost of the two and of the one, in the logical model's unit.
        cost: [u64; 2],
        /// Bytes that the programs ask for and write, of the two and of the one.
        bytes: [u64; 2],
    },
    /// They are two: the reason against each way that was tried.
    Refused(Vec<(Option<How>, Refusal)>),
}

/// A producer, a consumer, the tensor between them, and what became of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Name of the producer.
    pub producer: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Name of the tensor.
    pub tensor: String,
    /// What became of them.
    pub outcome: Outcome,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` -> {} -> `{}`: ", self.producer, self.tensor, self.consumer)?;
        match &self.outcome {
            Outcome::Fused { how, cost, bytes } => {
                write!(f, "fused as {}, cost {} -> {}, bytes {} -> {}", how.word(), cost[0], cost[1], bytes[0], bytes[1])
            }
            Outcome::Refused(all) => {
                f.write_str("kept apart")?;
                all.iter().try_for_each(|(how, why)| write!(f, "; {}: {why}", how.map_or("order", How::word)))
            }
        }
    }
}

/// What a fusion did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FuseReport {
    /// Fusions in the order in which they were made, then the pairs that stay apart, in program order.
    pub decisions: Vec<Decision>,
    /// Cost of the graph before and after.
    pub cost: [u64; 2],
    /// Bytes of the graph before and after.
    pub bytes: [u64; 2],
}

impl fmt::Display for FuseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decisions.iter().try_for_each(|d| writeln!(f, "{d}"))?;
        write!(f, "cost {} -> {}, bytes {} -> {}", self.cost[0], self.cost[1], self.bytes[0], self.bytes[1])
    }
}
