//! What is benched: a problem, and the variants of the kernel that solves it.
//!
//! ```text
//! Problem (kernel, element type, shape) ── with a Variant (tile, warps, stages) ─► Workload of the kernel library
//! ```

use super::ablation::ladder;
use super::records::{self, Record};
use crate::{OptLevel, Options};
use std::fmt;
use tilelift_ir::{Scalar, SortOrder};
use tilelift_isel::products::{Choice, Product, Streams, rank};
use tilelift_isel::{LowerOptions, ScheduleKind, Target};
use tilelift_kernels::explicit::{BLOCKS, ClusterNorm, ClusterNormCase, RingGemm, RingGemmCase, StreamNorm, StreamNormCase, Teams};
use tilelift_kernels::tensor::Init;
use tilelift_kernels::workload::{
    AttentionCase, CumSumCase, FusedGemmCase, GemmCase, RmsNormCase, SiluMulCase, SoftmaxCase, SplitGemmCase, StreamGemmCase,
    TransposeCase, VectorAddCase, Workload,
};
use tilelift_kernels::workload_more::{LayerNormCase, SelectCase};
use tilelift_kernels::{
    Attention, CumSum, FusedGemm, Gemm, LayerNorm, RmsNorm, Select, SiluMul, Softmax, SplitGemm, StreamGemm, Transpose, VectorAdd,
};

/// A group of problems.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Suite {
    Elementwise,
    Norms,
    Rows,
    Transpose,
    Gemm,
    Attention,
}

impl Suite {
    pub(crate) const ALL: &'static [Suite] =
        &[Suite::Elementwise, Suite::Norms, Suite::Rows, Suite::Transpose, Suite::Gemm, Suite::Attention];

    /// The word on the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Suite::Elementwise => "elementwise",
            Suite::Norms => "norms",
            Suite::Rows => "rows",
            Suite::Transpose => "transpose",
            Suite::Gemm => "gemm",
            Suite::Attention => "attention",
        }
    }

    /// Extents of a shape, by name.
    pub(crate) const fn extents(self) -> &'static str {
        match self {
            Suite::Elementwise => "N",
            Suite::Norms | Suite::Rows | Suite::Transpose => "ROWSxCOLS",
            Suite::Gemm => "MxNxK",
            Suite::Attention => "BATCHxHEADSxLENGTHxDIM",
        }
    }

    /// Number of extents of a shape.
    pub(crate) const fn rank(self) -> usize {
        match self {
            Suite::Elementwise => 1,
            Suite::Norms | Suite::Rows | Suite::Transpose => 2,
            Suite::Gemm => 3,
            Suite::Attention => 4,
        }
    }

    /// True for shapes of so many extents: products may have a batch in front.
    pub(crate) const fn takes(self, extents: usize) -> bool {
        extents == self.rank() || (matches!(self, Suite::Gemm) && extents == 4)
    }
}

/// Storage orders of the operands of products, by name.
pub(crate) const ORDERS: [(&str, (bool, bool)); 4] =
    [("nn", (false, false)), ("nt", (false, true)), ("tn", (true, false)), ("tt", (true, true))];
/// Element types of operands.
pub(crate) const ELEMS: [(&str, Scalar); 7] = [
    ("bf16", Scalar::BF16),
    ("f16", Scalar::F16),
    ("f32", Scalar::F32),
    ("tf32", Scalar::F32),
    ("f8e4m3", Scalar::F8E4M3),
    ("f8e5m2", Scalar::F8E5M2),
    ("i8", Scalar::I8),
];
/// Element types of results.
pub(crate) const OUTS: [(&str, Scalar); 4] = [("bf16", Scalar::BF16), ("f16", Scalar::F16), ("f32", Scalar::F32), ("i32", Scalar::I32)];

/// A kernel of the library with element type and shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    VectorAdd {
        elem: Scalar,
        n: u32,
    },
    SiluMul {
        elem: Scalar,
        n: u32,
    },
    Softmax {
        elem: Scalar,
        rows: u32,
        cols: u32,
    },
    RmsNorm {
        elem: Scalar,
        rows: u32,
        cols: u32,
    },
    LayerNorm {
        elem: Scalar,
        rows: u32,
        cols: u32,
    },
    /// LayerNorm whose rows lie spread over clusters of so many blocks.
    ClusterNorm {
        elem: Scalar,
        rows: u32,
        cols: u32,
        blocks: u32,
    },
    /// The same by clusters that stay.
    StreamNorm {
        elem: Scalar,
        rows: u32,
        cols: u32,
        blocks: u32,
    },
    CumSum {
        elem: Scalar,
        rows: u32,
        cols: u32,
    },
    Sort {
        elem: Scalar,
        rows: u32,
        cols: u32,
    },
    Transpose {
        elem: Scalar,
        rows: u32,
        cols: u32,
    },
    Gemm {
        elem: Scalar,
        out: Scalar,
        trans: (bool, bool),
        /// How many products, each with operands of its own.
        batch: u32,
        m: u32,
        n: u32,
        k: u32,
    },
    /// As many queries as keys, of `heads` heads over all of the batch.
    Attention {
        elem: Scalar,
        causal: bool,
        heads: u32,
        length: u32,
        dim: u32,
    },
}

/// What a problem costs at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Cost {
    /// Bytes of memory, read and written.
    Bytes(f64),
    /// Operations; a multiply-add counts as two.
    Flops(f64),
}

/// A choice of tile and schedule; what is absent keeps the configuration's default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Variant {
    /// Tile of a program: up to three extents, in the order of the kernel's own (`block`; `rows`, `cols`; `bm`, `bn`, `bk`).
    pub(crate) tile: Option<[u32; 3]>,
    pub(crate) warps: Option<u32>,
    pub(crate) stages: Option<u32>,
    pub(crate) group: Option<u32>,
    /// Groups of warps that multiply, of a specialised kernel.
    pub(crate) consumers: Option<u32>,
    /// Teams that take tiles in turns.
    pub(crate) teams: Option<u32>,
    /// Operands are multiplied the other way round.
    pub(crate) swapped: bool,
    /// The kernel whose author says who does what, in teams of this kind.
    pub(crate) explicit: Option<Teams>,
    /// How the main loop runs.
    pub(crate) schedule: Option<ScheduleKind>,
    /// Whether products run while lanes compute, where loops are specialised.
    pub(crate) overlap: Option<bool>,
    /// Whether an instance runs several grid positions, where loops are specialised.
    pub(crate) persistent: Option<bool>,
    /// Whether a launch may begin while the one in front of it ends.
    pub(crate) early: Option<bool>,
    /// Bytes of the rows of panels, where loops are specialised; whether left operands go through registers, and results by bulk copies.
    pub(crate) span: Option<u32>,
    pub(crate) left: Option<bool>,
    pub(crate) bulk: Option<bool>,
    /// Parts of the depth of a product.
    pub(crate) splits: Option<u32>,
    /// Steps of the depth of a product are dealt out.
    pub(crate) streams: Option<Streams>,
    /// The machine has units that copy and multiply whole tiles.
    pub(crate) units: bool,
}

impl From<Choice> for Variant {
    fn from(c: Choice) -> Variant {
        Variant {
            tile: Some(c.tile),
            stages: Some(c.stages),
            group: Some(c.group),
            consumers: Some(c.consumers),
            teams: Some(c.teams),
            swapped: c.swapped,
            splits: Some(c.splits),
            streams: c.streams,
            // The second kernel of a product in parts has no loop to specialise.
            schedule: (!c.sums_apart()).then_some(ScheduleKind::Specialised),
            units: true,
            ..Variant::default()
        }
    }
}

impl Variant {
    /// What the compiler is told.
    pub(crate) fn options(&self, opt: OptLevel) -> Options {
        // A ring of slots is as deep as fits, unless its depth was asked for.
        let Variant { schedule, stages, overlap, persistent, consumers, teams, early: early_launch, .. } = *self;
        let Variant { span, left: left_registers, bulk: bulk_results, .. } = *self;
        let loops = LowerOptions { schedule, stages, overlap, persistent, consumers, teams, early_launch, ..LowerOptions::default() };
        let lower = LowerOptions { span, left_registers, bulk_results, ..loops };
        Options { opt, lower, ..Options::default() }
    }
}

impl Problem {
    pub(crate) const fn suite(&self) -> Suite {
        match self {
            Problem::VectorAdd { .. } | Problem::SiluMul { .. } => Suite::Elementwise,
            Problem::Softmax { .. }
            | Problem::RmsNorm { .. }
            | Problem::LayerNorm { .. }
            | Problem::ClusterNorm { .. }
            | Problem::StreamNorm { .. } => Suite::Norms,
            Problem::CumSum { .. } | Problem::Sort { .. } => Suite::Rows,
            Problem::Transpose { .. } => Suite::Transpose,
            Problem::Gemm { .. } => Suite::Gemm,
            Problem::Attention { .. } => Suite::Attention,
        }
    }

    pub(crate) const fn elem(&self) -> Scalar {
        match *self {
            Problem::VectorAdd { elem, .. }
            | Problem::SiluMul { elem, .. }
            | Problem::Softmax { elem, .. }
            | Problem::RmsNorm { elem, .. }
            | Problem::LayerNorm { elem, .. }
            | Problem::ClusterNorm { elem, .. }
            | Problem::StreamNorm { elem, .. }
            | Problem::CumSum { elem, .. }
            | Problem::Sort { elem, .. }
            | Problem::Transpose { elem, .. }
            | Problem::Gemm { elem, .. }
            | Problem::Attention { elem, .. } => elem,
        }
    }

    /// What it costs at least.
    pub(crate) fn cost(&self) -> Cost {
        match *self {
            Problem::Gemm { batch, m, n, k, .. } => Cost::Flops(2.0 * f64::from(batch) * f64::from(m) * f64::from(n) * f64::from(k)),
            // Two products; half of the scores are hidden from a causal one.
            Problem::Attention { causal, heads, length, dim, .. } => {
                Cost::Flops(4.0 * f64::from(heads) * f64::from(length).powi(2) * f64::from(dim) / if causal { 2.0 } else { 1.0 })
            }
            Problem::VectorAdd { .. }
            | Problem::SiluMul { .. }
            | Problem::Softmax { .. }
            | Problem::RmsNorm { .. }
            | Problem::LayerNorm { .. }
            | Problem::ClusterNorm { .. }
            | Problem::StreamNorm { .. }
            | Problem::CumSum { .. }
            | Problem::Sort { .. }
            | Problem::Transpose { .. } => {
                Cost::Bytes(self.workload(&Variant::default()).1.tensors().iter().map(|t| t.byte_len() as f64).sum())
            }
        }
    }

    /// The product, if it is one.
    pub(crate) fn product(&self) -> Option<Product> {
        match *self {
            Problem::Gemm { elem, out, trans, batch, m, n, k } => Some(Product { batch, shape: [m, n, k], elem, out, trans }),
            _ => None,
        }
    }

    /// The problem's name, with element types and extents.
    pub(crate) fn name(&self) -> String {
        self.workload(&Variant::default()).1.name()
    }

    /// The configuration of a variant, for people, and the workload. Tile extents of 0 keep the default.
    pub(crate) fn workload(&self, variant: &Variant) -> (String, Box<dyn Workload>) {
        let (mut name, work) = self.named(variant);
        if let Some(early) = variant.early {
            name += if early { " early" } else { " not early" };
        }
        name += &variant.span.map(|s| format!(" span {s}")).unwrap_or_default();
        if variant.left == Some(true) {
            name += " left by registers";
        }
        if variant.bulk == Some(false) {
            name += " results by lanes";
        }
        (name, work)
    }

    fn named(&self, variant: &Variant) -> (String, Box<dyn Workload>) {
        let init: fn(u64) -> Init = Init::Normal;
        let pick = |at: usize, usual: u32| variant.tile.map(|t| t[at]).filter(|&e| e > 0).unwrap_or(usual);
        match *self {
            Problem::VectorAdd { elem, n } => {
                let c = VectorAdd::new(elem).for_shape(n);
                let config = VectorAdd { block: pick(0, c.block), warps: variant.warps.unwrap_or(c.warps), ..c };
                (label(&[config.block], config.warps, None, None), Box::new(VectorAddCase { config, n, init }))
            }
            Problem::SiluMul { elem, n } => {
                let c = SiluMul::new(elem).for_shape(n);
                let config = SiluMul { block: pick(0, c.block), warps: variant.warps.unwrap_or(c.warps), ..c };
                (label(&[config.block], config.warps, None, None), Box::new(SiluMulCase { config, n, init }))
            }
            Problem::Softmax { elem, rows, cols } => {
                let c = Softmax::new(elem, cols).for_shape(rows, cols);
                let (tile_rows, warps) = (pick(0, c.tile_rows), variant.warps.unwrap_or(c.warps));
                let config = Softmax { tile_rows, warps, ..c };
                (label(&[tile_rows, config.tile_cols], warps, None, None), Box::new(SoftmaxCase { config, rows, cols, init }))
            }
            Problem::RmsNorm { elem, rows, cols } => {
                let c = RmsNorm::new(elem, cols).for_shape(rows, cols);
                let (tile_rows, warps) = (pick(0, c.tile_rows), variant.warps.unwrap_or(c.warps));
                let config = RmsNorm { tile_rows, warps, ..c };
                (label(&[tile_rows, config.tile_cols], warps, None, None), Box::new(RmsNormCase { config, rows, cols, init }))
            }
            Problem::LayerNorm { elem, rows, cols } => {
                let c = LayerNorm::new(elem, cols, false).for_shape(rows, cols);
                let (tile_rows, warps) = (pick(0, c.tile_rows), variant.warps.unwrap_or(c.warps));
                let config = LayerNorm { tile_rows, warps, ..c };
                (label(&[tile_rows, config.tile_cols], warps, None, None), Box::new(LayerNormCase { config, rows, cols, init }))
            }
            Problem::ClusterNorm { elem, rows, cols, blocks } => {
                let c = ClusterNorm::new(elem, blocks, cols).for_shape(rows, cols);
                let warps = variant.warps.unwrap_or(c.warps);
                let config = ClusterNorm { warps, ..c };
                (
                    label(&[1, config.tile_cols], warps, None, None) + &format!(" {blocks} blocks"),
                    Box::new(ClusterNormCase { config, rows, cols, init }),
                )
            }
            Problem::StreamNorm { elem, rows, cols, blocks } => {
                let c = StreamNorm::new(elem, blocks, cols);
                let warps = variant.warps.unwrap_or(c.warps);
                let (teams, slots) = (variant.consumers.unwrap_or(c.teams), variant.stages.unwrap_or(c.slots));
                let config = StreamNorm { warps, teams, slots, ..c };
                let columns = config.tile_chunks * config.chunk();
                (
                    label(&[1, columns], warps, None, None) + &format!(" {blocks} blocks, {} teams, {} slots", config.teams, config.slots),
                    Box::new(StreamNormCase { config, rows, cols, clusters: BLOCKS / blocks, init }),
                )
            }
            Problem::CumSum { elem, rows, cols } => {
                let c = CumSum::new(elem).for_shape(rows, cols);
                let (tile_rows, tile_cols) = (pick(0, c.tile_rows), pick(1, c.tile_cols));
                let config = CumSum { tile_rows, tile_cols, warps: variant.warps.unwrap_or(c.warps), ..c };
                (label(&[tile_rows, tile_cols], config.warps, None, None), Box::new(CumSumCase { config, rows, cols }))
            }
            Problem::Sort { elem, rows, cols } => {
                let c = Select::new(elem, SortOrder::Ascending, false, cols, cols).for_shape(rows, cols);
                let (tile_rows, warps) = (pick(0, c.tile_rows), variant.warps.unwrap_or(c.warps));
                let config = Select { tile_rows, warps, ..c };
                (label(&[tile_rows, config.tile_cols], warps, None, None), Box::new(SelectCase { config, rows, cols, init }))
            }
            Problem::Transpose { elem, rows, cols } => {
                let c = Transpose::new(elem).for_shape(rows, cols);
                let (tile_rows, tile_cols) = (pick(0, c.tile_rows), pick(1, c.tile_cols));
                let (warps, group) = (variant.warps.unwrap_or(c.warps), variant.group.unwrap_or(c.group));
                let config = Transpose { tile_rows, tile_cols, warps, group, ..c };
                (label(&[tile_rows, tile_cols], config.warps, None, Some(group)), Box::new(TransposeCase { config, rows, cols, init }))
            }
            Problem::Gemm { elem, trans, m, n, k, .. } if variant.explicit.is_some() => {
                let teams = variant.explicit.unwrap_or(Teams::Turns);
                let config = RingGemm::new(elem, teams).transposed(trans.1).for_shape(m, n, k);
                let word = if teams == Teams::Turns { "turns" } else { "halves" };
                let name = format!("{}x{}x{} explicit, in {word}", config.bm, config.bn, config.bk);
                (name, Box::new(RingGemmCase { config, m, n, k, programs: PROCESSORS }))
            }
            Problem::Gemm { elem, out, trans, batch, m, n, k } => {
                let c = Gemm::new(elem).output(out).transposed(trans.0, trans.1).for_shape(m, n, k);
                let (warps, stages) = (variant.warps.unwrap_or(c.warps), variant.stages.unwrap_or(c.stages));
                let (bm, bn, bk) = (pick(0, c.bm), pick(1, c.bn), pick(2, c.bk));
                let config =
                    Gemm { group: variant.group.unwrap_or(c.group), ..c.tile(bm, bn, bk).schedule(warps, stages).swap(variant.swapped) };
                let mut name = label(&[config.bm, config.bn, config.bk], warps, Some(stages), Some(config.group));
                if variant.units && variant.schedule != Some(ScheduleKind::Pipelined) {
                    // Warps and stages follow from the tile there.
                    let word = if variant.schedule.is_some() { " specialised" } else { "" };
                    name = format!("{}x{}x{}{word} g{}", config.bm, config.bn, config.bk, config.group);
                    for (letter, value) in [('c', variant.consumers), ('t', variant.teams.filter(|&t| t > 1)), ('s', variant.stages)] {
                        if let Some(v) = value {
                            name += &format!(" {letter}{v}");
                        }
                    }
                }
                if variant.swapped {
                    name += " swapped";
                }
                if variant.persistent == Some(false) {
                    name += " no persistent";
                }
                if batch > 1 {
                    return (name, Box::new(FusedGemmCase { config: FusedGemm::new(config).batched(batch), batch, m, n, k }));
                }
                let splits = variant.splits.unwrap_or(1);
                match variant.streams {
                    Some(s) => name += &format!(" d{s}"),
                    None if splits > 1 => name += &format!(" k{splits}"),
                    None => {}
                }
                (name, product_workload(config, splits, variant.streams, [m, n, k]))
            }
            Problem::Attention { elem, causal, heads, length, dim } => {
                let c = Attention::new(elem, dim, causal).for_shape(length, length).heads(heads);
                let c = if variant.units && variant.schedule != Some(ScheduleKind::Pipelined) { c.for_units() } else { c };
                let warps = variant.warps.unwrap_or(c.warps);
                let group = variant.group.filter(|g| heads.is_multiple_of(*g)).unwrap_or(c.group);
                let config = Attention { group, ..c.clone().tile(pick(0, c.tile_queries), pick(1, c.tile_keys), warps) };
                let mut name = format!("{}x{}", config.tile_queries, config.tile_keys);
                name += match variant.schedule {
                    Some(ScheduleKind::Specialised) => " specialised",
                    Some(ScheduleKind::Pipelined) => " pipelined",
                    None => "",
                };
                let numbers = [("w", variant.warps), ("s", variant.stages), ("g", variant.group), ("c", variant.consumers)];
                numbers.iter().filter_map(|(l, v)| v.map(|v| format!(" {l}{v}"))).for_each(|part| name += &part);
                let switches = [("overlap", variant.overlap), ("persistent", variant.persistent)];
                let word = |(what, on): &(&str, Option<bool>)| on.map(|on| format!(" {}{what}", if on { "" } else { "no " }));
                switches.iter().filter_map(word).for_each(|part| name += &part);
                (name, Box::new(AttentionCase { config, queries: length, keys: length, heads }))
            }
        }
    }
}

/// A product that is run whole, in parts of its depth, or dealt out by steps.
pub(crate) fn product_workload(config: Gemm, splits: u32, streams: Option<Streams>, [m, n, k]: [u32; 3]) -> Box<dyn Workload> {
    match streams {
        Some(Streams { workers, abreast, rest }) => {
            let config = StreamGemm { keep_whole: rest, ..StreamGemm::new(config).abreast(abreast) };
            Box::new(StreamGemmCase { config, workers, m, n, k })
        }
        None if splits > 1 => Box::new(SplitGemmCase { config: SplitGemm::new(config, splits), m, n, k }),
        None => Box::new(GemmCase { config, m, n, k }),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// `128x128x64 w8 s3 g8`.
fn label(tile: &[u32], warps: u32, stages: Option<u32>, group: Option<u32>) -> String {
    let extents: Vec<String> = tile.iter().map(u32::to_string).collect();
    let mut text = format!("{} w{warps}", extents.join("x"));
    for (letter, value) in [('s', stages), ('g', group)] {
        if let Some(v) = value {
            text += &format!(" {letter}{v}");
        }
    }
    text
}

/// Which problems of the suites, and which variants of each.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Selection {
    pub(crate) suites: Vec<Suite>,
    /// Lengths, columns, sides: every suite reads them in its way.
    pub(crate) sizes: Vec<u32>,
    /// Whole shapes; each belongs to the suites of its rank.
    pub(crate) shapes: Vec<Vec<u32>>,
    pub(crate) elems: Vec<Scalar>,
    /// Element type of C; the configuration's own if absent.
    pub(crate) out: Option<Scalar>,
    pub(crate) trans: Vec<(bool, bool)>,
    pub(crate) tiles: Vec<[u32; 3]>,
    pub(crate) warps: Vec<u32>,
    pub(crate) stages: Vec<u32>,
    pub(crate) groups: Vec<u32>,
    pub(crate) consumers: Vec<u32>,
    pub(crate) schedules: Vec<ScheduleKind>,
    /// Whether attention is causal.
    pub(crate) causal: Vec<bool>,
    pub(crate) overlaps: Vec<bool>,
    pub(crate) persistent: Vec<bool>,
    /// Whether launches overlap.
    pub(crate) early: Vec<bool>,
    /// Forms of specialised loops: see [`Variant`].
    pub(crate) spans: Vec<u32>,
    pub(crate) lefts: Vec<bool>,
    pub(crate) bulks: Vec<bool>,
    pub(crate) splits: Vec<u32>,
    pub(crate) streams: Vec<Streams>,
    pub(crate) teams: Vec<u32>,
    /// Whether operands of products are multiplied the other way round.
    pub(crate) swapped: bool,
    /// Kernels with explicit control, too, where there is one for a product.
    pub(crate) explicit: bool,
    /// Products run in steps from a pipelined loop to the choice of the model.
    pub(crate) ablation: bool,
    /// Measured choices, which go before the model's.
    pub(crate) records: Vec<Record>,
}

/// Columns from which on rows are spread over clusters, and fewest that are left to a program.
const WIDE: u32 = 16384;
const LEAST: u32 = 4096;
/// Instances of explicit products: one on each multiprocessor.
const PROCESSORS: u32 = 132;
/// Longest row that the bench sorts.
const SORT_COLS: u32 = 4096;

/// Queries of attention, over all heads, and their elements, where only a length is given.
const HEAD_ROWS: u32 = 1 << 18;
const HEAD_DIM: u32 = 128;

/// Rows of the norms where only columns are given.
const NORM_ROWS: u32 = 16384;

/// Norms by clusters of programs, which take rows that are long for one.
pub(crate) fn wide_norms(elem: Scalar, rows: u32, cols: u32) -> Vec<Problem> {
    let held = |b: &u32| cols >= WIDE && (LEAST..=WIDE).contains(&cols.div_ceil(*b));
    let clusters = [2, 4, 8].into_iter().filter(held).map(|blocks| Problem::ClusterNorm { elem, rows, cols, blocks });
    let stream = StreamNorm::for_cols(elem, cols).filter(|n| cols >= WIDE && cols.is_multiple_of(n.chunk()));
    clusters.chain(stream.map(|n| Problem::StreamNorm { elem, rows, cols, blocks: n.blocks })).collect()
}

impl Selection {
    /// Every problem, in the order of the suites.
    pub(crate) fn problems(&self, usual: &dyn Fn(Suite) -> Vec<Vec<u32>>) -> Vec<Problem> {
        let mut list = Vec::new();
        for &suite in &self.suites {
            for shape in self.shapes_of(suite, usual) {
                for &elem in &self.elems {
                    self.of_shape(suite, elem, &shape, &mut list);
                }
            }
        }
        list
    }

    fn shapes_of(&self, suite: Suite, usual: &dyn Fn(Suite) -> Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        let sized = self.sizes.iter().map(|&s| match suite {
            Suite::Elementwise => vec![s],
            Suite::Norms | Suite::Rows => vec![NORM_ROWS, s],
            Suite::Transpose => vec![s, s],
            Suite::Gemm => vec![s, s, s],
            Suite::Attention => vec![1, (HEAD_ROWS / s).max(1), s, HEAD_DIM],
        });
        let whole = self.shapes.iter().filter(|s| suite.takes(s.len())).cloned();
        let asked: Vec<Vec<u32>> = sized.chain(whole).collect();
        if asked.is_empty() { usual(suite) } else { asked }
    }

    fn of_shape(&self, suite: Suite, elem: Scalar, shape: &[u32], list: &mut Vec<Problem>) {
        // Types of 8 bits have products only.
        if suite != Suite::Gemm && elem.bytes() == 1 {
            return;
        }
        match (suite, shape) {
            (Suite::Elementwise, &[n]) => list.extend([Problem::VectorAdd { elem, n }, Problem::SiluMul { elem, n }]),
            (Suite::Norms, &[rows, cols]) => {
                list.extend([
                    Problem::Softmax { elem, rows, cols },
                    Problem::RmsNorm { elem, rows, cols },
                    Problem::LayerNorm { elem, rows, cols },
                ]);
                list.extend(wide_norms(elem, rows, cols));
            }
            // A sort holds its row in one tile.
            (Suite::Rows, &[rows, cols]) if cols > SORT_COLS => list.push(Problem::CumSum { elem, rows, cols }),
            (Suite::Rows, &[rows, cols]) => list.extend([Problem::CumSum { elem, rows, cols }, Problem::Sort { elem, rows, cols }]),
            (Suite::Transpose, &[rows, cols]) => list.push(Problem::Transpose { elem, rows, cols }),
            (Suite::Gemm, &[.., m, n, k]) => {
                let batch = if shape.len() == 4 { shape[0] } else { 1 };
                let out = self.out.unwrap_or_else(|| Gemm::new(elem).out);
                list.extend(self.trans.iter().map(|&trans| Problem::Gemm { elem, out, trans, batch, m, n, k }));
            }
            (Suite::Attention, &[batch, heads, length, dim]) => {
                let heads = batch.saturating_mul(heads);
                list.extend(self.causal.iter().map(|&causal| Problem::Attention { elem, causal, heads, length, dim }));
            }
            (Suite::Elementwise | Suite::Norms | Suite::Rows | Suite::Transpose | Suite::Gemm | Suite::Attention, _) => {}
        }
    }

    /// Every variant: all combinations of tiles, warps, stages, groups, consumers, parts and schedules. On a target with units, products
    /// run with the choice of the model where no tile is given.
    pub(crate) fn variants(&self, problem: &Problem, target: Option<&Target>) -> Vec<Variant> {
        fn each<T: Copy>(list: Vec<Variant>, values: &[T], used: bool, set: impl Fn(&mut Variant, T)) -> Vec<Variant> {
            if values.is_empty() || !used {
                return list;
            }
            let with = |v: &Variant, &x: &T| {
                let mut v = *v;
                set(&mut v, x);
                v
            };
            list.iter().flat_map(|v| values.iter().map(move |x| with(v, x))).collect()
        }
        let gemm = problem.suite() == Suite::Gemm;
        let attention = problem.suite() == Suite::Attention;
        let loops = gemm || attention;
        let rings = loops || matches!(problem, Problem::StreamNorm { .. });
        let pipelined = self.schedules.contains(&ScheduleKind::Pipelined);
        let units = target.filter(|t| loops && t.units.is_some());
        let modelled = units.filter(|_| gemm && self.tiles.is_empty() && !pipelined);
        let measured = problem.product().and_then(|p| records::best(&self.records, &p)).map(|r| r.choice);
        let best = modelled.and_then(|t| measured.or_else(|| rank(t, &problem.product()?).first().map(|r| r.choice)));
        let plain = Variant { units: units.is_some(), swapped: gemm && self.swapped, ..Variant::default() };
        if self.ablation
            && let (Some(best), Some(product)) = (best, problem.product())
        {
            return ladder(product.elem, Variant::from(best));
        }
        let list = vec![best.map_or(plain, Variant::from)];
        let list = each(list, &self.tiles, true, |v, x| v.tile = Some(x));
        let list = each(list, &self.warps, true, |v, x| v.warps = Some(x));
        let list = each(list, &self.stages, rings, |v, x| v.stages = Some(x));
        let list = each(list, &self.groups, loops || problem.suite() == Suite::Transpose, |v, x| v.group = Some(x));
        // Who asks for parts asks for no streams, and the other way round.
        let parts = self.splits.iter().map(|&k| (k, None)).chain(self.streams.iter().map(|&d| (1, Some(d))));
        let list = each(list, &parts.collect::<Vec<_>>(), gemm, |v, (k, d)| (v.splits, v.streams) = (Some(k), d));
        let list = each(list, &self.teams, gemm, |v, x| v.teams = Some(x));
        let list = each(list, &self.consumers, rings, |v, x| v.consumers = Some(x));
        let list = each(list, &self.overlaps, attention, |v, x| v.overlap = Some(x));
        let list = each(list, &self.persistent, loops, |v, x| v.persistent = Some(x));
        let list = each(list, &self.early, true, |v, x| v.early = Some(x));
        let list = each(list, &self.spans, rings, |v, x| v.span = Some(x));
        let list = each(list, &self.lefts, rings, |v, x| v.left = Some(x));
        let list = each(list, &self.bulks, rings, |v, x| v.bulk = Some(x));
        let mut list = each(list, &self.schedules, loops, |v, x| v.schedule = Some(x));
        let ring = |p: &Problem| matches!(*p, Problem::Gemm { elem: Scalar::F16 | Scalar::BF16, out, trans: (false, _), batch: 1, .. } if out == p.elem());
        if self.explicit && units.is_some() && ring(problem) {
            list.extend([Teams::Turns, Teams::Halves].map(|teams| Variant { explicit: Some(teams), ..Variant::default() }));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection() -> Selection {
        Selection {
            suites: Suite::ALL.to_vec(),
            sizes: Vec::new(),
            shapes: Vec::new(),
            elems: vec![Scalar::BF16],
            out: None,
            trans: vec![(false, false), (false, true)],
            tiles: Vec::new(),
            warps: Vec::new(),
            stages: Vec::new(),
            groups: Vec::new(),
            consumers: Vec::new(),
            schedules: Vec::new(),
            causal: vec![false, true],
            overlaps: Vec::new(),
            persistent: Vec::new(),
            early: Vec::new(),
            spans: Vec::new(),
            lefts: Vec::new(),
            bulks: Vec::new(),
            splits: Vec::new(),
            streams: Vec::new(),
            teams: Vec::new(),
            swapped: false,
            explicit: false,
            ablation: false,
            records: Vec::new(),
        }
    }

    #[test]
    fn sizes_and_shapes_go_to_the_suites_they_suit() {
        let usual = |s: Suite| vec![vec![64; s.rank()]];
        assert_eq!(selection().problems(&usual).len(), 2 + 3 + 2 + 1 + 2 + 2);
        let one = Selection { shapes: vec![vec![10, 20], vec![1, 2, 3]], suites: vec![Suite::Transpose], ..selection() };
        assert_eq!(one.problems(&usual), [Problem::Transpose { elem: Scalar::BF16, rows: 10, cols: 20 }]);
        let sized = Selection { sizes: vec![512], suites: vec![Suite::Gemm], trans: vec![(true, false)], ..selection() };
        let want = Problem::Gemm { elem: Scalar::BF16, out: Scalar::BF16, trans: (true, false), batch: 1, m: 512, n: 512, k: 512 };
        assert_eq!(sized.problems(&usual), [want]);
    }

    #[test]
    fn variants_are_all_combinations_and_name_their_schedule() {
        let s = Selection { tiles: vec![[128, 256, 64], [64, 64, 32]], warps: vec![4, 8], stages: vec![2, 3, 4], ..selection() };
        let p = Problem::Gemm { elem: Scalar::BF16, out: Scalar::F32, trans: (false, true), batch: 1, m: 64, n: 64, k: 64 };
        let all = s.variants(&p, None);
        assert_eq!(all.len(), 12);
        assert_eq!(p.workload(&all[0]).0, "128x256x64 w4 s2 g8");
        assert_eq!(p.name(), "gemm_nt_bf16_f32_64x64x64");
        let other = Problem::Transpose { elem: Scalar::BF16, rows: 64, cols: 64 };
        assert_eq!(s.variants(&other, None).len(), 4, "stages mean nothing to a transposition");
        assert_eq!(selection().variants(&other, None), [Variant::default()]);
        let target = crate::targets::by_name("sm_90a");
        let modelled = selection().variants(&p, target.as_ref());
        assert!(modelled.len() == 1 && modelled[0].units && modelled[0].tile.is_some());
        let s = Selection { overlaps: vec![true, false], tiles: vec![[128, 64, 0]], ..selection() };
        let attention = Problem::Attention { elem: Scalar::BF16, causal: false, heads: 6, length: 100, dim: 64 };
        let both = s.variants(&attention, None);
        assert_eq!((both.len(), s.variants(&p, None).len()), (2, 1));
        assert_eq!(
            (attention.workload(&both[1]).0.as_str(), attention.name().as_str()),
            ("128x64 no overlap", "attention_bf16_6x100x100x64")
        );
    }

    #[test]
    fn costs_are_the_operands_bytes_or_the_products_operations() {
        let p = Problem::VectorAdd { elem: Scalar::BF16, n: 1000 };
        assert_eq!(p.cost(), Cost::Bytes(6000.0));
        let p = Problem::RmsNorm { elem: Scalar::F32, rows: 10, cols: 8 };
        assert_eq!(p.cost(), Cost::Bytes(f64::from(10 * 8 * 4 * 2 + 8 * 4)));
        let p = Problem::Gemm { elem: Scalar::F16, out: Scalar::F16, trans: (false, false), batch: 1, m: 3, n: 5, k: 7 };
        assert_eq!(p.cost(), Cost::Flops(210.0));
        let p = Problem::Attention { elem: Scalar::F16, causal: true, heads: 2, length: 4, dim: 8 };
        assert_eq!(p.cost(), Cost::Flops(512.0));
    }
}
