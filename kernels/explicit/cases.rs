//! The kernels with shapes: what they must make of which inputs.

use super::cluster_gemm::{ClusterGemm, Pair};
use super::cluster_norm::ClusterNorm;
use super::doubling::Doubling;
use super::ring_gemm::{Ring, RingGemm};
use super::stream_norm::StreamNorm;
use crate::acceptance::{Case, Size};
use crate::activation::Activation;
use crate::gemm::Gemm;
use crate::reference::{self, Expected, GemmReference, Reference};
use crate::tensor::{Init, Tensor, TensorSpec};
use crate::workload::LayerNormCase;
use crate::workload::{Ran, ScalarSpec, Workload, block, suffix, tile_rows};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar, num};

/// The row of the kernel list.
pub const ROW: u32 = 18;

/// Rows, columns and blocks of the wide norms.
const WIDE: [(u32, u32, u32); 8] = [
    (4, 16384, 4),
    (4, 32768, 4),
    (4, 65536, 8),
    (4, 131_072, 8),
    (1152, 16384, 2),
    (1152, 32768, 4),
    (1152, 65536, 8),
    (1152, 131_072, 8),
];

/// Blocks that run at a time, of which there is one on a multiprocessor, as far as clusters of eight fit.
pub const BLOCKS: u32 = 120;

/// [`Doubling`] of a length.
#[derive(Clone, Debug)]
pub struct DoublingCase {
    /// The kernel.
    pub config: Doubling,
    /// The length.
    pub n: u32,
    /// The most programs of the grid.
    pub programs: u32,
}

impl Workload for DoublingCase {
    fn name(&self) -> String {
        format!("doubling_{}", self.n)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.n, self.programs)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        vec![TensorSpec::input("x", Scalar::F32, &[self.n], Init::Normal(1)), TensorSpec::output("y", Scalar::F32, &[self.n])]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let stride = self.grid()[0];
        let mine = (x..self.n.div_ceil(self.config.block)).step_by(stride as usize).filter(|_| x < stride && y == 0 && z == 0);
        mine.map(|t| block(u64::from(t) * u64::from(self.config.block), self.config.block, self.n)).collect()
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        // Twice a number is exact, and the sum rounds once.
        let one = move |i: usize| {
            let rank = f64::from((i as u32 / self.config.block) % 2);
            Expected::exact(num::round(2.0 * tensors[0].get(i) + rank, Scalar::F32))
        };
        Box::new(move |range| range.map(&one).collect())
    }
}

/// [`ClusterGemm`] of a shape.
#[derive(Clone, Debug)]
pub struct ClusterGemmCase {
    /// The kernel.
    pub config: ClusterGemm,
    /// Blocks that work at the same time at most.
    pub workers: u32,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl ClusterGemmCase {
    fn definition(&self) -> GemmReference {
        let Gemm { trans_a, trans_b, activation, out, .. } = self.config.gemm;
        GemmReference { shape: [self.m, self.n, self.k].map(|e| e as usize), trans_a, trans_b, tf32: false, activation, out }
    }
}

impl Workload for ClusterGemmCase {
    fn name(&self) -> String {
        let g = &self.config.gemm;
        let pair = if self.config.pair == Pair::Rows { "rows" } else { "columns" };
        format!("cluster_gemm_{pair}_{}_{}_{}_{}x{}x{}", g.order(), g.operands(), g.out, self.m, self.n, self.k)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.m, self.n, self.workers)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let g = &self.config.gemm;
        let stored = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
        let mut list = vec![
            TensorSpec::input("a", g.elem, &stored(g.trans_a, self.m, self.k), Init::Normal(1)),
            TensorSpec::input("b", g.elem_b, &stored(g.trans_b, self.k, self.n), Init::Normal(2)),
        ];
        list.extend(g.bias.map(|t| TensorSpec::input("bias", t, &[self.n], Init::Normal(3))));
        list.push(TensorSpec::output("c", g.out, &[self.m, self.n]));
        list
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let Gemm { bm, bn, .. } = self.config.gemm;
        let blocks = self.grid()[0];
        if x >= blocks || y > 0 || z > 0 {
            return Vec::new();
        }
        let origins = self.config.tile_origins(x, blocks, [self.m, self.n]);
        origins.flat_map(|origin| tile_rows(origin, [bm, bn], self.m, self.n)).collect()
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        self.definition().of(&tensors[0], &tensors[1], self.config.gemm.bias.map(|_| &tensors[2]))
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(self.definition().rel_l2())
    }
}

/// [`RingGemm`] of a shape.
#[derive(Clone, Debug)]
pub struct RingGemmCase {
    /// The kernel.
    pub config: RingGemm,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl RingGemmCase {
    fn definition(&self) -> GemmReference {
        let shape = [self.m, self.n, self.k].map(|e| e as usize);
        let activation = Activation::None;
        GemmReference { shape, trans_a: false, trans_b: self.config.trans_b, tf32: false, activation, out: self.config.elem }
    }
}

impl Workload for RingGemmCase {
    fn name(&self) -> String {
        let consumers = if self.config.ring.ping_pong() { "ping_pong" } else { "cooperative" };
        let order = if self.config.trans_b { "nt" } else { "nn" };
        format!("ring_gemm_{consumers}_{order}_{}_{}x{}x{}", self.config.elem, self.m, self.n, self.k)
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.m, self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let elem = self.config.elem;
        let b = if self.config.trans_b { [self.n, self.k] } else { [self.k, self.n] };
        vec![
            TensorSpec::input("a", elem, &[self.m, self.k], Init::Normal(1)),
            TensorSpec::input("b", elem, &b, Init::Normal(2)),
            TensorSpec::output("c", elem, &[self.m, self.n]),
        ]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        if x >= self.grid()[0] || y > 0 || z > 0 {
            return Vec::new();
        }
        let (row, col) = self.config.tile_origin(x, self.m, self.n);
        let [bm, bn, _] = self.config.ring.tile;
        tile_rows([u64::from(row), u64::from(col)], [bm, bn], self.m, self.n)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        self.definition().of(&tensors[0], &tensors[1], None)
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(self.definition().rel_l2())
    }
}

/// [`ClusterNorm`] of a shape.
#[derive(Clone, Debug)]
pub struct ClusterNormCase {
    /// The kernel.
    pub config: ClusterNorm,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for ClusterNormCase {
    fn name(&self) -> String {
        let c = &self.config;
        format!("cluster_norm_{}_{}_{}x{}{}", c.blocks, c.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, shape) = (self.config.elem, [self.rows, self.cols]);
        vec![
            TensorSpec::input("x", elem, &shape, (self.init)(1)),
            TensorSpec::input("w", elem, &[self.cols], Init::Normal(2)),
            TensorSpec::input("b", elem, &[self.cols], Init::Normal(3)),
            TensorSpec::output("y", elem, &shape),
        ]
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        vec![ScalarSpec { name: "eps", elem: Scalar::F32, value: f64::from(LayerNormCase::EPS) }]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let c = &self.config;
        let at = [u64::from(x / c.blocks) * u64::from(c.tile_rows), u64::from(x % c.blocks) * u64::from(c.tile_cols)];
        if y == 0 && z == 0 { tile_rows(at, [c.tile_rows, c.tile_cols], self.rows, self.cols) } else { Vec::new() }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::layer_norm(&tensors[0], None, &tensors[1], &tensors[2], f64::from(LayerNormCase::EPS))
    }
}

/// [`StreamNorm`] of a shape.
#[derive(Clone, Debug)]
pub struct StreamNormCase {
    /// The kernel.
    pub config: StreamNorm,
    /// Rows.
    pub rows: u32,
    /// Columns: a multiple of the kernel's chunk.
    pub cols: u32,
    /// The most clusters of the grid.
    pub clusters: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for StreamNormCase {
    fn name(&self) -> String {
        let c = &self.config;
        format!("stream_norm_{}_{}_{}x{}{}", c.blocks, c.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows, self.clusters)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, chunk) = (self.config.elem, self.config.chunk());
        let (matrix, vector) = ([self.rows, self.cols / chunk, chunk], [self.cols / chunk, chunk]);
        vec![
            TensorSpec::input("x", elem, &matrix, (self.init)(1)),
            TensorSpec::input("w", elem, &vector, Init::Normal(2)),
            TensorSpec::input("b", elem, &vector, Init::Normal(3)),
            TensorSpec::output("y", elem, &matrix),
        ]
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        vec![ScalarSpec { name: "eps", elem: Scalar::F32, value: f64::from(LayerNormCase::EPS) }]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let c = &self.config;
        let [programs, ..] = self.grid();
        let mine = (x / c.blocks..self.rows).step_by((programs / c.blocks) as usize).filter(|_| x < programs && y == 0 && z == 0);
        let width = c.tile_chunks * c.chunk();
        let of = |row| tile_rows([u64::from(row), u64::from(x % c.blocks * width)], [1, width], self.rows, self.cols);
        mine.flat_map(of).collect()
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::layer_norm(&tensors[0], None, &tensors[1], &tensors[2], f64::from(LayerNormCase::EPS))
    }
}

/// The cases of the kernels with explicit control, for devices that run it.
pub fn cases() -> Vec<Case> {
    use Scalar::{BF16, F16, F32};
    use Size::{Large, Small};
    let mut list = Vec::new();
    for (n, size) in [(1000, Small), (1, Small), (1 << 22, Large)] {
        let config = Doubling::new(256).for_shape(n);
        list.push(Case::new(ROW, size, DoublingCase { config, n, programs: if size == Small { 2 } else { 264 } }));
    }
    for ring in [Ring::PING_PONG, Ring::COOPERATIVE] {
        for (elem, trans_b, [m, n, k]) in [(BF16, true, [300, 200, 200]), (F16, false, [128, 136, 64]), (BF16, false, [256, 520, 8])] {
            let config = RingGemm::new(elem, ring).transposed(trans_b).for_shape(m, n, k);
            list.push(Case::new(ROW, Small, RingGemmCase { config, m, n, k }));
        }
        for (trans_b, [m, n, k]) in [(true, [4096, 4096, 4096]), (false, [8192, 8192, 2048])] {
            let config = RingGemm::new(BF16, ring).transposed(trans_b).for_shape(m, n, k);
            list.push(Case::new(ROW, Large, RingGemmCase { config, m, n, k }));
        }
    }
    // Clusters share either operand in every storage order; halves are columns of a slot, or rows of it; some blocks have no tile at all.
    for (trans, pair, [bm, bn, consumers], stages, [m, n, k], workers) in [
        ((false, false), Pair::Rows, [128, 256, 2], 3, [300, 272, 264], 4),
        ((false, true), Pair::Rows, [128, 192, 2], 2, [130, 200, 200], 2),
        ((true, false), Pair::Columns, [128, 128, 2], 4, [136, 520, 136], 4),
        ((true, true), Pair::Columns, [64, 64, 1], 8, [72, 72, 72], 2),
        ((false, false), Pair::Rows, [64, 96, 1], 3, [200, 96, 8], 2),
    ] {
        let gemm = Gemm { stages, ..Gemm::new(BF16).transposed(trans.0, trans.1).tile(bm, bn, 64).for_shape(m, n, k) };
        list.push(Case::new(ROW, Small, ClusterGemmCase { config: ClusterGemm::new(gemm, pair, consumers), workers, m, n, k }));
    }
    let gemm = Gemm { stages: 3, ..Gemm::new(F16).tile(128, 256, 64).for_shape(777, 8200, 4104) };
    let config = ClusterGemm::new(gemm, Pair::Rows, 2);
    list.push(Case::new(ROW, Large, ClusterGemmCase { config, workers: 132, m: 777, n: 8200, k: 4104 }));
    for (elem, blocks, rows, cols) in [(F32, 2, 3, 1000), (F16, 4, 2, 4100), (BF16, 8, 1, 16384), (F32, 8, 2, 8)] {
        let config = ClusterNorm::new(elem, blocks, cols).for_shape(rows, cols);
        list.push(Case::new(ROW, Small, ClusterNormCase { config, rows, cols, init: Init::Normal }));
    }
    for (elem, blocks, rows, cols, clusters) in
        [(F32, 2, 7, 1024, 1), (F16, 4, 9, 4224, 1), (BF16, 8, 5, 16384, 2), (BF16, 2, 3, 64, 1), (F32, 2, 6, 480, 2)]
    {
        let config = StreamNorm::new(elem, blocks, cols);
        list.push(Case::new(ROW, Small, StreamNormCase { config, rows, cols, clusters, init: Init::Normal }));
    }
    for elem in [BF16, F16] {
        for (rows, cols, _) in WIDE {
            let Some(config) = StreamNorm::for_cols(elem, cols) else { continue };
            let clusters = BLOCKS / config.blocks;
            list.push(Case::new(ROW, Large, StreamNormCase { config, rows, cols, clusters, init: Init::Normal }));
        }
    }
    for elem in [BF16, F16] {
        for (rows, cols, blocks) in WIDE {
            let config = ClusterNorm::new(elem, blocks, cols).for_shape(rows, cols);
            list.push(Case::new(ROW, Large, ClusterNormCase { config, rows, cols, init: Init::Normal }));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_interp::{Options, interpret};
    use tilelift_ir::{text, verify};

    #[test]
    fn kernels_verify_and_survive_the_text() {
        for case in cases() {
            let kernel = case.build().unwrap_or_else(|e| panic!("{}: {e}", case.name));
            if let Err(e) = verify(&kernel) {
                panic!("{}:\n{}", case.name, e.pretty(&kernel));
            }
            let printed = text::print(&kernel);
            let again = text::parse(&printed).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            assert_eq!(text::print(&again.kernels[0]), printed, "{}", case.name);
        }
    }

    fn judged(case: &Case, programs: Option<Vec<[u32; 3]>>) {
        let tensors = case.make_tensors();
        let mut memory = case.memory(&tensors);
        let launch = case.launches(programs.as_deref()).unwrap_or_else(|e| panic!("{}: {e}", case.name)).remove(0);
        let kernel = verify(&launch.kernel).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let options = Options { programs: launch.programs, ..Options::default() };
        interpret(&kernel, launch.grid, &launch.args, &mut memory, &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let verdict = case.judge(&tensors, &memory, programs.as_deref()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert!(verdict.pass(), "{}: {verdict}", case.name);
    }

    #[test]
    fn small_cases_pass_in_the_interpreter() {
        cases().iter().filter(|c| c.size == Size::Small).for_each(|c| judged(c, None));
    }

    #[test]
    fn a_sample_of_wide_rows_passes_in_the_interpreter() {
        for case in cases().iter().filter(|c| c.size == Size::Large && c.name.starts_with("cluster_norm") && c.grid()[0] <= 64) {
            judged(case, Some(case.sample(2)));
        }
    }

    #[test]
    fn samples_hold_whole_clusters() {
        for case in cases() {
            let cluster = case.build().map_or(1, |k| k.cluster);
            let sample = case.sample(3);
            assert!((sample.len() as u32).is_multiple_of(cluster) && sample.windows(2).all(|w| w[0] < w[1]), "{}", case.name);
        }
    }
}
