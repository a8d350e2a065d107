//! Workloads: a kernel configuration with a shape, which together say everything about a launch and its right result.
//!
//! ```text
//!   programs ─owned─► ranges of an output ─reference─► expected values
//! ```
//! Ownership lets a slow device run a few programs of a large launch, and the check look only at what these must have written.

mod attention;
mod products;
mod quantise;
mod rows;
mod scatter;
mod split;
mod stream;

pub use attention::AttentionCase;
pub use products::{FusedGemmCase, GemvCase};
pub use quantise::QuantiseCase;
pub use rows::{CumSumCase, LongSortCase, RowFoldCase};
pub use scatter::ScatterAddCase;
pub use split::SplitGemmCase;
pub use stream::StreamGemmCase;

use crate::facts::programs;
use crate::reference::{self, GemmReference, Reference};
use crate::tensor::{Init, Tensor, TensorSpec};
use crate::{Gemm, RmsNorm, SiluMul, Softmax, Transpose, VectorAdd};
use std::fmt::Debug;
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

/// A scalar argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScalarSpec {
    /// Name, as in the kernel's documentation.
    pub name: &'static str,
    /// Its type.
    pub elem: Scalar,
    /// Its value, which the type represents exactly.
    pub value: f64,
}

/// The programs that ran; `None` for all.
pub type Ran<'a> = Option<&'a [[u32; 3]]>;

/// A launch of a workload.
#[derive(Clone, Debug)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid.
    pub grid: [u32; 3],
    /// Its tensors, as indices into [`Workload::tensors`].
    pub tensors: Vec<usize>,
    /// Its scalars, behind the tensors.
    pub scalars: Vec<ScalarSpec>,
}

impl Step {
    /// The programs of this launch that do the work of a program of the workload's grid: those neighbours along `x` that share its
    /// place if this grid is so many times wider.
    pub fn programs(&self, [x, y, z]: [u32; 3], grid: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
        let share = self.grid[0] / grid[0].max(1);
        (x * share..(x + 1) * share).map(move |i| [i, y, z])
    }
}

/// A kernel, or several in sequence, with a shape. A kernel's parameters are its tensors in order and then its scalars.
///
/// Outputs are the tensors with [`Role::Out`](crate::tensor::Role::Out) or [`Role::InOut`](crate::tensor::Role::InOut), numbered among themselves. What programs write into an `Out` tensor
/// is theirs alone; of an `InOut` tensor every element is judged, by what it must be after the programs that ran.
pub trait Workload: Debug + Send + Sync {
    /// A name without spaces, with element types and extents.
    fn name(&self) -> String;
    /// The kernel; the first one of several.
    ///
    /// # Errors
    /// As the configuration's `build`.
    fn build(&self) -> Result<Kernel, BuildErrors>;
    /// The launch grid. Of several launches, the grid of independent shares of the work; a launch's own grid is a multiple in `x`.
    fn grid(&self) -> [u32; 3];
    /// The tensors.
    fn tensors(&self) -> Vec<TensorSpec>;
    /// The scalars in parameter order, behind the tensors.
    fn scalars(&self) -> Vec<ScalarSpec> {
        Vec::new()
    }
    /// The launches in order; one of all tensors if not said otherwise.
    ///
    /// # Errors
    /// As [`Workload::build`].
    fn steps(&self) -> Result<Vec<Step>, BuildErrors> {
        let tensors = (0..self.tensors().len()).collect();
        Ok(vec![Step { kernel: self.build()?, grid: self.grid(), tensors, scalars: self.scalars() }])
    }
    /// An output's elements that a program writes; each range lies in one row. Empty for programs outside the grid.
    fn owned(&self, output: usize, program: [u32; 3]) -> Vec<Range<usize>>;
    /// What an output must be. `tensors` are those of [`Workload::tensors`]; contents of `Out` tensors are not used.
    fn reference<'a>(&'a self, output: usize, tensors: &'a [Tensor], ran: Ran<'a>) -> Reference<'a>;
    /// The largest `||y - ref|| / ||ref||` allowed, if the workload bounds it beside the elementwise tolerance.
    fn rel_l2_bar(&self) -> Option<f64> {
        None
    }
    /// True if every run gives the same bits; false where programs meet in float atomics.
    fn deterministic(&self) -> bool {
        true
    }
}

/// The part of `0..extent` in a block: empty beyond the end.
pub(crate) fn block(first: u64, size: u32, extent: u32) -> Range<usize> {
    let end = (first + u64::from(size)).min(u64::from(extent));
    first.min(end) as usize..end as usize
}

/// The elements of a `tile` at an origin in a matrix of `rows x cols`, one range a row.
pub(crate) fn tile_rows(origin: [u64; 2], tile: [u32; 2], rows: u32, cols: u32) -> Vec<Range<usize>> {
    let across = block(origin[1], tile[1], cols);
    let width = cols as usize;
    let down = if across.is_empty() { 0..0 } else { block(origin[0], tile[0], rows) };
    down.map(|r| r * width + across.start..r * width + across.end).collect()
}

/// A name for how inputs are filled.
pub(crate) fn suffix(init: Init) -> &'static str {
    match init {
        Init::Normal(_) => "",
        Init::Special(_) => "_special",
        Init::Masked(_) => "_masked",
        Init::Index(..) => "_index",
        Init::Poison => "_poison",
    }
}

/// [`VectorAdd`] of a length.
#[derive(Clone, Debug)]
pub struct VectorAddCase {
    /// The kernel.
    pub config: VectorAdd,
    /// The length.
    pub n: u32,
    /// How `a` is filled; `b` is filled likewise from the next seed.
    pub init: fn(u64) -> Init,
}

impl Workload for VectorAddCase {
    fn name(&self) -> String {
        format!("vector_add_{}_{}{}", self.config.elem, self.n, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        pointwise(self.config.elem, self.n, self.init)
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        line(x, self.config.block, self.n, y == 0 && z == 0)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::vector_add(&tensors[0], &tensors[1])
    }
}

/// [`SiluMul`] of a length.
#[derive(Clone, Debug)]
pub struct SiluMulCase {
    /// The kernel.
    pub config: SiluMul,
    /// The length.
    pub n: u32,
    /// How `a` is filled; `b` is filled likewise from the next seed.
    pub init: fn(u64) -> Init,
}

impl Workload for SiluMulCase {
    fn name(&self) -> String {
        format!("silu_mul_{}_{}{}", self.config.elem, self.n, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        pointwise(self.config.elem, self.n, self.init)
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        line(x, self.config.block, self.n, y == 0 && z == 0)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::silu_mul(&tensors[0], &tensors[1])
    }
}

/// The tensors of a pointwise kernel of two inputs.
fn pointwise(elem: Scalar, n: u32, init: fn(u64) -> Init) -> Vec<TensorSpec> {
    vec![TensorSpec::input("a", elem, &[n], init(1)), TensorSpec::input("b", elem, &[n], init(2)), TensorSpec::output("c", elem, &[n])]
}

/// The block of a program in a vector.
fn line(program: u32, size: u32, n: u32, inside: bool) -> Vec<Range<usize>> {
    let range = block(u64::from(program) * u64::from(size), size, n);
    if inside && !range.is_empty() { vec![range] } else { Vec::new() }
}

/// [`Softmax`] of a shape.
#[derive(Clone, Debug)]
pub struct SoftmaxCase {
    /// The kernel.
    pub config: Softmax,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for SoftmaxCase {
    fn name(&self) -> String {
        format!("softmax_{}_{}x{}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let (elem, shape) = (self.config.elem, [self.rows, self.cols]);
        vec![TensorSpec::input("x", elem, &shape, (self.init)(1)), TensorSpec::output("y", elem, &shape)]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.cols)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::softmax(&tensors[0])
    }
}

/// [`RmsNorm`] of a shape.
#[derive(Clone, Debug)]
pub struct RmsNormCase {
    /// The kernel.
    pub config: RmsNorm,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl RmsNormCase {
    /// The `eps` of the case.
    pub const EPS: f32 = 1e-5;
}

impl Workload for RmsNormCase {
    fn name(&self) -> String {
        format!("rms_norm_{}_{}x{}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
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
            TensorSpec::output("y", elem, &shape),
        ]
    }
    fn scalars(&self) -> Vec<ScalarSpec> {
        vec![ScalarSpec { name: "eps", elem: Scalar::F32, value: f64::from(RmsNormCase::EPS) }]
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        whole_rows(program, self.config.tile_rows, self.rows, self.cols)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::rms_norm(&tensors[0], &tensors[1], f64::from(RmsNormCase::EPS))
    }
}

/// The rows of a program that holds whole rows.
pub(crate) fn whole_rows([x, y, z]: [u32; 3], tile: u32, rows: u32, cols: u32) -> Vec<Range<usize>> {
    let first = u64::from(x) * u64::from(tile);
    if y == 0 && z == 0 { tile_rows([first, 0], [tile, cols], rows, cols) } else { Vec::new() }
}

/// [`Transpose`] of a shape.
#[derive(Clone, Debug)]
pub struct TransposeCase {
    /// The kernel.
    pub config: Transpose,
    /// Rows of the input.
    pub rows: u32,
    /// Columns of the input.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl Workload for TransposeCase {
    fn name(&self) -> String {
        format!("transpose_{}_{}x{}{}", self.config.elem, self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows, self.cols)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let elem = self.config.elem;
        vec![TensorSpec::input("x", elem, &[self.rows, self.cols], (self.init)(1)), TensorSpec::output("y", elem, &[self.cols, self.rows])]
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let (tile_r, tile_c) = (self.config.tile_rows, self.config.tile_cols);
        let origin = [u64::from(x) * u64::from(tile_c), u64::from(y) * u64::from(tile_r)];
        if z == 0 { tile_rows(origin, [tile_c, tile_r], self.cols, self.rows) } else { Vec::new() }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        reference::transpose(&tensors[0])
    }
}

/// [`Gemm`] of a shape.
#[derive(Clone, Debug)]
pub struct GemmCase {
    /// The kernel.
    pub config: Gemm,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl GemmCase {
    fn definition(&self) -> GemmReference {
        let Gemm { trans_a, trans_b, activation, out, elem, .. } = self.config;
        let shape = [self.m, self.n, self.k].map(|e| e as usize);
        GemmReference { shape, trans_a, trans_b, tf32: elem == Scalar::F32, activation, out }
    }
}

impl Workload for GemmCase {
    fn name(&self) -> String {
        let c = &self.config;
        let input = if c.elem == Scalar::F32 { "tf32".to_owned() } else { c.operands() };
        let mut name = format!("gemm_{}_{input}_{}_{}x{}x{}", c.order(), c.out, self.m, self.n, self.k);
        if let Some(t) = c.bias {
            name += &format!("_bias_{t}");
        }
        if c.activation != crate::Activation::None {
            name += &format!("_{}", c.activation.name());
        }
        name
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.m, self.n)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let c = &self.config;
        let stored = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
        let mut list = vec![
            TensorSpec::input("a", c.elem, &stored(c.trans_a, self.m, self.k), Init::Normal(1)),
            TensorSpec::input("b", c.elem_b, &stored(c.trans_b, self.k, self.n), Init::Normal(2)),
        ];
        list.extend(c.bias.map(|t| TensorSpec::input("bias", t, &[self.n], Init::Normal(3))));
        list.push(TensorSpec::output("c", c.out, &[self.m, self.n]));
        list
    }
    fn owned(&self, _: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        let Gemm { bm, bn, .. } = self.config;
        let tiles = programs(self.m, bm).saturating_mul(programs(self.n, bn));
        if x >= tiles || y > 0 || z > 0 {
            return Vec::new();
        }
        let (row, col) = self.config.tile_origin(x, self.m, self.n);
        tile_rows([u64::from(row), u64::from(col)], [bm, bn], self.m, self.n)
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let bias = self.config.bias.map(|_| &tensors[2]);
        self.definition().of(&tensors[0], &tensors[1], bias)
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(self.definition().rel_l2())
    }
}
