//! The list.

use std::fmt;

/// Who takes a decision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Taker {
    /// The graph of equal programs of a kernel, by extraction.
    LogicalGraph,
    /// The graph of layouts of a kernel's values, by extraction.
    LayoutGraph,
    /// The search over kernels of a graph: what gains most is taken, until nothing gains.
    KernelSearch,
    /// A list of candidates, each priced whole.
    Candidates,
    /// A rule without alternatives: what it asks for is there, or not. Outside of all graphs.
    Rule,
}

impl Taker {
    /// Every taker.
    pub const ALL: &'static [Taker] = &[Taker::LogicalGraph, Taker::LayoutGraph, Taker::KernelSearch, Taker::Candidates, Taker::Rule];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Taker::LogicalGraph => "logical graph",
            Taker::LayoutGraph => "layout graph",
            Taker::KernelSearch => "search over kernels",
            Taker::Candidates => "candidates",
            Taker::Rule => "rule",
        }
    }

    /// True for what equal programs are extracted from.
    pub const fn is_graph(self) -> bool {
        matches!(self, Taker::LogicalGraph | Taker::LayoutGraph)
    }
}

impl fmt::Display for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What the list says of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The decision.
    pub decision: Decision,
    /// Its name.
    pub name: &'static str,
    /// What is decided.
    pub asks: &'static str,
    /// Who takes it.
    pub taker: Taker,
    /// What it is priced by, and in which unit; empty where nothing is priced.
    pub price: &'static str,
    /// The files in which it is taken, from the root of the project.
    pub files: &'static [&'static str],
}

macro_rules! decisions {
    ($($variant:ident $name:literal, $asks:literal, $taker:ident, $price:literal, $files:expr;)*) => {
        /// A decision of the compiler.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Decision {
            $(#[doc = $asks] $variant,)*
        }

        impl Decision {
            /// Every decision, in the order of a compile.
            pub const ALL: &'static [Decision] = &[$(Decision::$variant,)*];

            /// What the list says of it.
            pub const fn entry(self) -> Entry {
                match self {
                    $(Decision::$variant => Entry {
                        decision: self, name: $name, asks: $asks, taker: Taker::$taker, price: $price, files: &$files,
                    },)*
                }
            }
        }
    };
}

decisions! {
    // Which kernels run.
    Fusion "fusion", "Which kernels of a graph become one, and how", KernelSearch,
        "bytes, the busiest part of the machine, launches; in sixteenths of a lane's operation", ["src/graph/fuse/search.rs"];
    ProductTile "product tile", "Tile, stages, consumers and order of tiles of a product", Candidates,
        "a model of whole products; in nanoseconds", ["isel/schedule/src/gemm/rank.rs"];
    DepthSplit "depth split", "Whether a product's depth is split: parts of equal size, or stream-K", Candidates,
        "the same model, with what partial sums cost", ["isel/schedule/src/gemm/rank.rs"];
    Cluster "cluster", "Whether two blocks of a product share an operand", Candidates, "the same model", ["isel/schedule/src/gemm/rank.rs"];
    // What a kernel computes.
    Rounds "rounds", "Which rounds of a loop a mask leaves without effect, and go", Rule, "", ["egraph/src/narrow/mod.rs"];
    Algebra "algebra", "Which of all equal programs is computed: scales behind products, narrow operands of dots, masks that hold, and so on", LogicalGraph,
        "nodes, then whole kernels with their registers; in sixteenths of a lane's operation", ["egraph/src/solve.rs"];
    Loops "loops", "Which loops become one, online where one waits for the other", LogicalGraph, "passes over the range, as part of the algebra's price",
        ["egraph/src/fuse.rs"];
    Placement "placement", "In which region a value is computed, and in front of which loops", Rule, "", ["egraph/src/elaborate.rs"];
    OperandOrder "operand order", "Whether a product is computed with its operands exchanged", Rule, "",
        ["isel/schedule/src/exchange.rs"];
    ProductsBeside "products beside loops", "Whether a product in front of a loop of products, or behind it, is a loop of one round", Rule, "",
        ["isel/schedule/src/beside.rs"];
    ScaledProducts "scaled products", "Whether a block-scaled product is one of operands that lanes scale before, or of a unit that takes scales", Rule, "",
        ["isel/schedule/src/scaled.rs"];
    Padding "padding", "Whether a product with fewer rows, columns or less depth than a matrix instruction has is padded with zeros", Rule, "",
        ["isel/schedule/src/padded.rs"];
    Batches "batches", "Whether a product of a batch is products of matrices, one by one", Rule, "", ["isel/schedule/src/program/batches.rs"];
    RowLengths "row lengths", "Whether rows that copies do not take are read longer, with zeros behind, and how long", Rule, "",
        ["isel/schedule/src/whole_rows.rs"];
    GuardedProducts "guarded products", "Whether products in a choice of a loop are a loop of one round", Rule, "",
        ["isel/schedule/src/guarded.rs"];
    Offsets "offsets", "Whether loops carry a number instead of a tile that it is added to", Rule, "", ["isel/schedule/src/offsets.rs"];
    WideSums "wide sums", "Whether 16-bit sums of products are made in 32 bits", Rule, "", ["isel/schedule/src/wide_sums.rs"];
    LoadsAhead "loads ahead", "How many steps ahead loops load into registers what no product takes", Rule, "", ["isel/schedule/src/program/pipelined/carried.rs"];
    LoadsFirst "loads first", "Which loads stand in front of what is computed", Rule, "", ["isel/schedule/src/loads_first.rs"];
    // How it runs.
    Positions "positions", "How many neighbouring grid positions an instance stands for, where the launch's grid is known", Candidates,
        "what a position takes, and what is lost at the end of a launch; in sixteenths of a cycle, times twice the rounds of instances", ["isel/src/wider.rs"];
    Specialise "specialisation", "Whether a loop gets a producer warp and consumer warpgroups", Rule, "", ["isel/schedule/src/plan/decide.rs"];
    Warps "warps", "How many warps compute a program, where nobody says", Rule, "", ["isel/schedule/src/plan/decide.rs"];
    Consumers "consumers", "How many consumer warpgroups there are, and whether sets of them run in ping-pong", Rule, "",
        ["isel/schedule/src/plan/specialise.rs"];
    Persistence "persistence", "Whether a program runs several grid positions", Rule, "", ["isel/schedule/src/plan/specialise.rs"];
    Overlap "overlap", "Which products run while the lanes compute", Rule, "", ["isel/schedule/src/plan/specialise.rs"];
    Promotion "promotion", "Whether sums of the unit are added to sums of more bits by lanes", Rule, "", ["isel/schedule/src/plan/specialise.rs"];
    Registers "registers", "Registers of each role", Rule, "", ["isel/schedule/src/plan/specialise.rs"];
    Dequantisation "dequantisation", "Where operands that lanes compute wait for products: registers, or shared memory", Rule, "",
        ["isel/schedule/src/plan/specialise.rs"];
    Travel "travel", "How an operand comes to its slot: a tensor map's box, or pieces that lanes copy", Rule, "",
        ["isel/schedule/src/plan/contents.rs"];
    ProgramOrder "program order", "In which order positions of the grid are taken", Rule, "", ["isel/schedule/src/longest_first.rs"];
    DieOrder "order on dies", "Which instance of a launch works at which position of the grid, where chips have dies with caches of their own", Candidates,
        "bytes that come to a die's cache, and what the order takes to compute; in sixteenths of a cycle", ["isel/schedule/src/dies/mod.rs"];
    RingLayout "ring layout", "Swizzle widths of a specialised loop's operands, operand A from registers or shared memory, stores in bulk or per lane",
        Candidates, "copies, products, fetches and stores of a grid position; in sixteenths of a cycle", ["isel/schedule/src/candidates/mod.rs"];
    Slots "slots", "Slots of a ring, and whether what stands beside it is loaded at its use", Rule, "", ["isel/src/fit.rs"];
    Stages "stages", "Stages of a pipelined loop", Rule, "", ["isel/src/fit.rs"];
    // Where values lie.
    PlainLayout "plain layout", "A layout for each tile: what dots and accesses of memory ask for, carried to the others", Rule, "",
        ["isel/src/layout/assign.rs"];
    Layout "layout", "Layouts of tiles, where they are converted, and where operands of dots wait", LayoutGraph,
        "issue slots, shuffles, bank wavefronts, barriers, sectors; in sixteenths of a cycle", ["isel/src/layout/search/solve.rs"];
    Swizzle "swizzle", "The map of a tile in shared memory that lanes fill and dots fetch", Candidates,
        "bank wavefronts of copies and fragments, counted", ["isel/src/layout/search/staging.rs"];
    Conversion "conversion", "How a tile gets from one layout to another: renaming, in a lane, by shuffles, through shared memory", Rule, "",
        ["isel/src/lower/convert.rs"];
    Sorts "sorts", "Whether the first elements of lines are found by a network, or picked one by one", Candidates,
        "comparisons and choices, shuffles, least words of a warp, and what they wait for; in sixteenths of a cycle", ["isel/src/lower/sort.rs"];
    Masks "masks", "Whether a mask that holds in most steps becomes a choice", Rule, "", ["isel/src/lower/masks.rs"];
    WholeRounds "whole rounds", "Whether rounds in which masks hold everywhere are a loop of their own, in front of the others", Rule, "",
        ["isel/lane/src/whole_rounds.rs"];
    // What lanes and machines do.
    LaneOrder "lane order", "Whether computations go to their uses, depth first", Rule, "registers where most are live; in bytes of a lane",
        ["isel/lane/src/build/finish.rs"];
    LaunchOrder "launch order", "Where a program waits for the launch in front of it", Rule, "", ["isel/lane/src/launch_order.rs"];
    PingPong "ping-pong", "Whether of two wavefronts that share a SIMD one multiplies while the other one loads", Candidates,
        "slots of four cycles that a step takes both", ["backends/amdgcn/src/emit.rs"];
    Text "text", "Which instructions of the machine compute the lane program; on AMD chips their registers, order and waits, too", Rule, "",
        ["backends/nvptx/src/emit/mod.rs", "backends/amdgcn/src/emit.rs"];
    Level "level", "At which level a graph's kernel is compiled", Rule, "", ["src/compile.rs"];
}

impl Decision {
    /// Its name.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn names_are_unique_and_files_are_there() {
        let names: BTreeSet<&str> = Decision::ALL.iter().map(|d| d.name()).collect();
        assert_eq!(names.len(), Decision::ALL.len());
        for d in Decision::ALL {
            let entry = d.entry();
            assert!(!entry.files.is_empty() && entry.asks.chars().next().is_some_and(char::is_uppercase), "{entry:?}");
            for file in entry.files {
                assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file).is_file(), "{file}");
            }
            // What is chosen among several is priced; what a rule finds need not be.
            assert!(entry.taker == Taker::Rule || !entry.price.is_empty(), "{entry:?}");
        }
    }
}
