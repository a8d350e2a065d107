//! What is benched: a problem, and the variants of the kernel that solves it.
//!
//! ```text
//! Problem (kernel, element type, shape) ── with a Variant (tile, warps, stages) ─► Workload of the kernel library
//! ```

use std::fmt;
use tilelift::{OptLevel, Options};
use tilelift_ir::{Scalar, SortOrder};
use tilelift_isel::gemm::{Choice, Clusters, Product, StreamK};
use tilelift_isel::{LowerOptions, ScheduleKind};
use tilelift_kernels::explicit::{
    BLOCKS, ClusterGemm, ClusterGemmCase, ClusterNorm, ClusterNormCase, Ring, RingGemm, RingGemmCase, StreamNorm, StreamNormCase,
};
use tilelift_kernels::plan::{Candidate, Sharing};
use tilelift_kernels::tensor::{Init, Role};
use tilelift_kernels::workload::{
    AttentionCase, CumSumCase, FusedGemmCase, GemmCase, RmsNormCase, SiluMulCase, SoftmaxCase, SplitGemmCase, StreamGemmCase,
    TransposeCase, VectorAddCase, Workload,
};
use tilelift_kernels::workload::{LayerNormCase, SelectCase, TopKCase};
use tilelift_kernels::{
    Attention, CumSum, FusedGemm, Gemm, LayerNorm, RmsNorm, Select, SiluMul, Softmax, SplitGemm, StreamGemm, TopK, Transpose, VectorAdd,
};

/// A group of problems.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Suite {
    Elementwise,
    Norms,
    Rows,
    TopK,
    Transpose,
    Gemm,
    Attention,
}

impl Suite {
    pub(crate) const ALL: &'static [Suite] =
        &[Suite::Elementwise, Suite::Norms, Suite::Rows, Suite::TopK, Suite::Transpose, Suite::Gemm, Suite::Attention];

    /// The word on the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Suite::Elementwise => "elementwise",
            Suite::Norms => "norms",
            Suite::Rows => "rows",
            Suite::TopK => "top-k",
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
            Suite::TopK => "ROWSxCOLSxK",
            Suite::Gemm => "MxNxK or BATCHxMxNxK",
            Suite::Attention => "BATCHxHEADSxLENGTHxDIM",
        }
    }

    /// Number of extents of a shape.
    pub(crate) const fn rank(self) -> usize {
        match self {
            Suite::Elementwise => 1,
            Suite::Norms | Suite::Rows | Suite::Transpose => 2,
            Suite::TopK | Suite::Gemm => 3,
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
    /// The largest elements of long rows.
    TopK {
        elem: Scalar,
        rows: u32,
        cols: u32,
        k: u32,
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
    /// Warpgroups that multiply, of a specialised kernel.
    pub(crate) consumers: Option<u32>,
    /// Consumers that take tiles in ping-pong.
    pub(crate) consumer_sets: Option<u32>,
    /// Operands are multiplied the other way round.
    pub(crate) swapped: bool,
    /// The kernel whose author says who does what, with these numbers.
    pub(crate) explicit: Option<Ring>,
    /// How the main loop runs.
    pub(crate) schedule: Option<ScheduleKind>,
    /// Whether products run while lanes compute, where loops are specialised.
    pub(crate) overlap: Option<bool>,
    /// Whether an instance runs several grid positions, where loops are specialised.
    pub(crate) persistent: Option<bool>,
    /// Whether a launch may begin while the one in front of it ends.
    pub(crate) early: Option<bool>,
    /// The swizzle width, where loops are specialised; whether operands A go through registers, and results by bulk copies.
    pub(crate) swizzle: Option<u32>,
    pub(crate) left: Option<bool>,
    pub(crate) bulk: Option<bool>,
    /// Parts of the depth of a product.
    pub(crate) splits: Option<u32>,
    /// Steps of the depth of a product are dealt out.
    pub(crate) stream_k: Option<StreamK>,
    /// Clusters of two blocks share an operand of a product.
    pub(crate) clusters: Option<Clusters>,
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
            consumer_sets: Some(c.consumer_sets),
            swapped: c.swapped,
            splits: Some(c.splits),
            stream_k: c.stream_k,
            clusters: c.clusters,
            schedule: Some(ScheduleKind::Specialised),
            units: true,
            ..Variant::default()
        }
    }
}

impl From<&Candidate> for Variant {
    fn from(c: &Candidate) -> Variant {
        if let Some(r) = &c.ranked {
            return r.choice.into();
        }
        let Gemm { bm, bn, bk, warps, group, .. } = c.gemm;
        let plain = Variant { tile: Some([bm, bn, bk]), warps: Some(warps), group: Some(group), ..Variant::default() };
        match c.sharing {
            Sharing::Whole => plain,
            Sharing::SplitK(splits) => Variant { splits: Some(splits), ..plain },
            Sharing::StreamK(s) => Variant { stream_k: Some(s), ..plain },
            Sharing::Clusters(x, consumers) => Variant { clusters: Some(x), consumers: Some(consumers), ..plain },
        }
    }
}

impl Variant {
    /// What the compiler is told of a problem's launch, by its number: what was asked for is meant for the first, which multiplies; those that
    /// follow it (the sums of parts, say) plan for themselves.
    pub(crate) fn options_of(&self, launch: usize, opt: OptLevel) -> Options {
        // The author of kernels by clusters says who does what.
        if launch == 0 && self.clusters.is_none() { self.options(opt) } else { Options { opt, ..Options::default() } }
    }

    /// What the compiler is told.
    pub(crate) fn options(&self, opt: OptLevel) -> Options {
        // A ring of slots is as deep as fits, unless its depth was asked for.
        let Variant { schedule, stages, overlap, persistent, consumers, consumer_sets, early: early_launch, .. } = *self;
        let Variant { swizzle, left: a_from_registers, bulk: bulk_stores, .. } = *self;
        let loops =
            LowerOptions { schedule, stages, overlap, persistent, consumers, consumer_sets, early_launch, ..LowerOptions::default() };
        let lower = LowerOptions { swizzle, a_from_registers, bulk_stores, ..loops };
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
            Problem::TopK { .. } => Suite::TopK,
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
            | Problem::TopK { elem, .. }
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
            | Problem::TopK { .. }
            | Problem::Transpose { .. } => Cost::Bytes(self.bytes()),
        }
    }

    /// Bytes of its tensors: what has to come and go once.
    pub(crate) fn bytes(&self) -> f64 {
        let tensors = self.workload(&Variant::default()).1.tensors();
        tensors.iter().filter(|t| t.role != Role::Scratch).map(|t| t.byte_len() as f64).sum()
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
        name += &variant.swizzle.map(|s| format!(" swizzle {s}")).unwrap_or_default();
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
                let (consumer_sets, slots) = (variant.consumers.unwrap_or(c.consumer_sets), variant.stages.unwrap_or(c.slots));
                let config = StreamNorm { warps, consumer_sets, slots, ..c };
                let columns = config.tile_chunks * config.chunk();
                (
                    label(&[1, columns], warps, None, None)
                        + &format!(" {blocks} blocks, {} consumer sets, {} slots", config.consumer_sets, config.slots),
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
            Problem::TopK { elem, rows, cols, k } => {
                let c = TopK::new(elem, SortOrder::Descending, cols, k).for_shape(rows, cols);
                let config = TopK { group: pick(0, c.group), ..c };
                (format!("groups of {}", config.group), Box::new(TopKCase { config, rows, cols, init }))
            }
            Problem::Transpose { elem, rows, cols } => {
                let c = Transpose::new(elem).for_shape(rows, cols);
                let (tile_rows, tile_cols) = (pick(0, c.tile_rows), pick(1, c.tile_cols));
                let (warps, group) = (variant.warps.unwrap_or(c.warps), variant.group.unwrap_or(c.group));
                let config = Transpose { tile_rows, tile_cols, warps, group, ..c };
                (label(&[tile_rows, tile_cols], config.warps, None, Some(group)), Box::new(TransposeCase { config, rows, cols, init }))
            }
            Problem::Gemm { elem, out, trans, batch, m, n, k } => {
                if let Some(ring) = variant.explicit {
                    let config = RingGemm::new(elem, ring).transposed(trans.1).for_shape(m, n, k);
                    return (format!("explicit {ring}"), Box::new(RingGemmCase { config, m, n, k }));
                }
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
                    for (letter, value) in
                        [('c', variant.consumers), ('t', variant.consumer_sets.filter(|&t| t > 1)), ('s', variant.stages)]
                    {
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
                if let Some(c) = variant.clusters {
                    name += &format!(" p{c}");
                }
                match variant.stream_k {
                    Some(s) => name += &format!(" d{s}"),
                    None if splits > 1 => name += &format!(" k{splits}"),
                    None => {}
                }
                let sharing = match (variant.clusters, variant.stream_k) {
                    (Some(c), _) => Sharing::Clusters(c, variant.consumers.unwrap_or(1)),
                    (None, Some(s)) => Sharing::StreamK(s),
                    (None, None) => Sharing::SplitK(splits),
                };
                (name, product_workload(config, sharing, [m, n, k]))
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

/// A product that is run whole, in parts of its depth, dealt out by steps, or by clusters.
pub(crate) fn product_workload(config: Gemm, sharing: Sharing, [m, n, k]: [u32; 3]) -> Box<dyn Workload> {
    match sharing {
        Sharing::Whole | Sharing::SplitK(0 | 1) => Box::new(GemmCase { config, m, n, k }),
        Sharing::SplitK(splits) => Box::new(SplitGemmCase { config: SplitGemm::new(config, splits), m, n, k }),
        Sharing::StreamK(StreamK { workers, in_flight, rest }) => {
            let config = StreamGemm { keep_whole: rest, ..StreamGemm::new(config).in_flight(in_flight) };
            Box::new(StreamGemmCase { config, workers, m, n, k })
        }
        Sharing::Clusters(Clusters { workers, pair }, consumers) => {
            Box::new(ClusterGemmCase { config: ClusterGemm::new(config, pair, consumers), workers, m, n, k })
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
