//! What a fusion did: which kernels became one and how, and why others stay apart.

use crate::graph::nodes::Node;
use std::collections::BTreeMap;
use std::fmt;
use tilelift_ir::ReduceOp;

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
    /// Producers of any kind run in the place of the consumer's loads, at the consumer's tiles.
    Inlined,
}

impl How {
    /// Every way that joins two kernels, in the order in which equal costs choose.
    pub const PAIRS: &'static [How] = &[How::Epilogue, How::SameTile, How::Prologue, How::SplitPrologue];
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            How::Epilogue => "epilogue",
            How::SameTile => "same tile",
            How::Prologue => "prologue",
            How::SplitPrologue => "split prologue",
            How::Inlined => "inlined",
        }
    }
}

/// A rule by which producers were written again in the place of loads.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum FuseRule {
    /// A load is what the producer would have stored there.
    TileOfStore {
        /// Name of the tensor.
        tensor: String,
        /// The tile.
        shape: Vec<u32>,
    },
    /// A fold along a row is a loop over pieces of the row.
    Strip {
        /// How elements are combined.
        op: ReduceOp,
        /// Extent of the producer's tile along the row.
        extent: u32,
        /// Extent of a piece.
        width: u32,
        /// The row ends where the tensor ends, since what lies behind is the op's neutral element.
        cut: bool,
    },
    /// A loop of the producer at another tile.
    Loop,
    /// A loop over pieces of a row that takes other pieces.
    Restep {
        /// How elements are combined.
        op: ReduceOp,
        /// Extent of a piece before.
        from: u32,
        /// Extent of a piece.
        to: u32,
    },
    /// The loop of the sink over K tiles takes wider ones.
    Widen {
        /// Extent of a tile before.
        from: u32,
        /// Extent of a tile.
        to: u32,
    },
}

impl fmt::Display for FuseRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FuseRule::TileOfStore { tensor, shape } => {
                let shape: Vec<String> = shape.iter().map(u32::to_string).collect();
                write!(f, "tile-of-store {tensor} {}", shape.join("x"))
            }
            FuseRule::Strip { op, extent, width, cut } => {
                write!(f, "strip {op} {extent} by {width}{}", if *cut { ", to the end of the tensor" } else { "" })
            }
            FuseRule::Loop => f.write_str("loop"),
            FuseRule::Restep { op, from, to } => write!(f, "restep {op} from {from} to {to}"),
            FuseRule::Widen { from, to } => write!(f, "widen from {from} to {to}"),
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
    /// As many kernels as a step may make were made.
    Limit,
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

/// What became of producers and a consumer.
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
        /// The rules by which producers were inlined, in order.
        rules: Vec<FuseRule>,
    },
    /// They are two: the reason against each way that was tried.
    Refused(Vec<(Option<How>, Refusal)>),
}

/// A producer, a consumer, the tensor between them, and what became of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Name of the producer, or names of several.
    pub producer: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Name of the tensor, or names of several.
    pub tensor: String,
    /// What became of them.
    pub outcome: Outcome,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` -> {} -> `{}`: ", self.producer, self.tensor, self.consumer)?;
        match &self.outcome {
            Outcome::Fused { how, cost, bytes, rules } => {
                write!(f, "fused as {}, cost {} -> {}, bytes {} -> {}", how.word(), cost[0], cost[1], bytes[0], bytes[1])?;
                rules.iter().try_for_each(|r| write!(f, "; {r}"))
            }
            Outcome::Refused(all) => {
                f.write_str("kept apart")?;
                all.iter().try_for_each(|(how, why)| write!(f, "; {}: {why}", how.map_or("order", How::word)))
            }
        }
    }
}

/// How much work a fusion was: what takes time, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effort {
    /// Kernels that were made of others, optimised and priced.
    pub made: usize,
    /// Kernels that were lowered for the target.
    pub lowered: usize,
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
    /// How much work it was.
    pub effort: Effort,
    /// Rules of the optimizer, and in how many of the kernels that were made each fired.
    pub fired: BTreeMap<&'static str, usize>,
}

impl fmt::Display for FuseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decisions.iter().try_for_each(|d| writeln!(f, "{d}"))?;
        write!(f, "cost {} -> {}, bytes {} -> {}", self.cost[0], self.cost[1], self.bytes[0], self.bytes[1])
    }
}

/// Refuses a kernel with explicit control, and one whose instances stand for several grid positions.
pub(in crate::graph) fn is_plain(node: &Node) -> Result<(), Refusal> {
    if node.kernel.is_explicit() {
        return Err(Refusal::new(RefusalKind::Shape, format!("`{}` says which tasks do what", node.name)));
    }
    if node.kernel.positions != [1; 3] {
        return Err(Refusal::new(RefusalKind::Grid, format!("an instance of `{}` stands for several grid positions", node.name)));
    }
    Ok(())
}
