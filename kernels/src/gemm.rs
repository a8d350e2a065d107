//! GEMM: `C = act(A · B + bias)`, with every storage order of the operands.
//!
//! ```text
//!            N                       program p ─► (pm, pn) in groups of `group` tile rows, so that the programs that run
//!        ┌──┬──┬──┐                  together share operand tiles in L2:
//!        │0 │2 │4 │  ┐
//!      M ├──┼──┼──┤  ├ group = 2     for k in 0..K step bk:  acc += A[pm, k] · B[k, pn]     (f32)
//!        │1 │3 │5 │  ┘               C[pm, pn] = cast(act(acc + bias[pn]))
//!        ├──┼──┼──┤
//!        │6 │7 │8 │
//!        └──┴──┴──┘
//! ```
//!
//! Ragged extents need no masks: elements outside a view read 0, which adds nothing to a product, and stores outside are dropped.

use crate::activation::Activation;
use crate::facts::{ANY, known, matrix, programs, vector};
use crate::launch::{Argument, Launches};
use crate::pitch::{PitchFacts, Pitches, pitched};
use tilelift_ir::{AtomicOp, BuildError, BuildErrors, Extent, Kernel, KernelBuilder, Operand, Scalar, Update, Value, ViewType};

/// A matrix product with epilogue.
#[derive(Clone, PartialEq, Debug)]
pub struct Gemm {
    /// Element type of A: `f16`, `bf16`, `f32`, whose products are taken in tf32, a float of 8 or 4 bits, `i8` or `i4`.
    pub elem: Scalar,
    /// Element type of B: that of A, or any of its kind where they have 8 and 4 bits.
    pub elem_b: Scalar,
    /// Element type of C: `f16`, `bf16` or `f32`; `i32` for integer operands.
    pub out: Scalar,
    /// A is stored `KxM` instead of `MxK`.
    pub trans_a: bool,
    /// B is stored `NxK` instead of `KxN`.
    pub trans_b: bool,
    /// Element type of a bias per column of C, if there is one.
    pub bias: Option<Scalar>,
    /// Applied to the biased sum, in `f32`.
    pub activation: Activation,
    /// Rows of C per program.
    pub bm: u32,
    /// Columns of C per program.
    pub bn: u32,
    /// Depth of a step of the loop over K.
    pub bk: u32,
    /// Tile rows per group of the program order.
    pub group: u32,
    /// Multiply the operands the other way round, `Cᵀ = Bᵀ · Aᵀ`: for machines whose matrix instructions have more rows than A.
    pub swapped: bool,
    /// Warps per program.
    pub warps: u32,
    /// Stages of the loop's pipeline.
    pub stages: u32,
    /// What is known of M.
    pub m: Extent,
    /// What is known of N.
    pub n: Extent,
    /// What is known of K.
    pub k: Extent,
    /// What is known of the strides of matrices that are not dense.
    pub pitches: Pitches<PitchFacts>,
}

impl Gemm {
    /// A configuration for any shape, with tiles of 128 x 128 and a depth of 128 bytes of A, and B of A's type; C has that type too, but
    /// is `i32` for integers and `bf16` for floats of 8 and 4 bits.
    pub fn new(elem: Scalar) -> Gemm {
        Gemm {
            elem,
            elem_b: elem,
            out: match elem {
                e if is_integer(e) => Scalar::I32,
                e if e.is_narrow() => Scalar::BF16,
                e => e,
            },
            trans_a: false,
            trans_b: false,
            bias: None,
            activation: Activation::None,
            bm: 128,
            bn: 128,
            bk: 128 / elem.bytes(),
            group: 8,
            swapped: false,
            // Larger shares per warp read the operands less often; f32 operands would run out of registers.
            warps: if elem.bytes() == 2 { 4 } else { 8 },
            stages: 3,
            m: ANY,
            n: ANY,
            k: ANY,
            pitches: Pitches::DENSE,
        }
    }

    /// Chooses how the operands are stored: A as `KxM` if `trans_a`, B as `NxK` if `trans_b`.
    pub fn transposed(mut self, trans_a: bool, trans_b: bool) -> Gemm {
        (self.trans_a, self.trans_b) = (trans_a, trans_b);
        self
    }

    /// Chooses the element type of B.
    pub fn weights(mut self, elem: Scalar) -> Gemm {
        self.elem_b = elem;
        self
    }

    /// Chooses the element type of C.
    pub fn output(mut self, out: Scalar) -> Gemm {
        self.out = out;
        self
    }

    /// Adds a bias per column and an activation.
    pub fn epilogue(mut self, bias: Option<Scalar>, activation: Activation) -> Gemm {
        // An activation on 128 accumulators a lane runs out of registers.
        if matches!(activation, Activation::Silu | Activation::Gelu) {
            self.warps = self.warps.max(8);
        }
        (self.bias, self.activation) = (bias, activation);
        self
    }

    /// Chooses the tile.
    pub fn tile(mut self, bm: u32, bn: u32, bk: u32) -> Gemm {
        (self.bm, self.bn, self.bk) = (bm, bn, bk);
        self
    }

    /// Chooses to multiply the operands the other way round.
    pub fn swap(mut self, swapped: bool) -> Gemm {
        self.swapped = swapped;
        self
    }

    /// Chooses warps per program and stages of the pipeline.
    pub fn schedule(mut self, warps: u32, stages: u32) -> Gemm {
        (self.warps, self.stages) = (warps, stages);
        self
    }

    /// States the facts of a shape.
    pub fn for_shape(mut self, m: u32, n: u32, k: u32) -> Gemm {
        (self.m, self.n, self.k) = (known(m), known(n), known(k));
        self
    }

    /// States the facts of the strides of matrices that are not dense.
    pub fn pitched(mut self, pitches: Pitches<PitchFacts>) -> Gemm {
        self.pitches = pitches;
        self
    }

    /// `nn`, `nt`, `tn` or `tt`: the storage of A and B, `n` as in the formula and `t` transposed.
    pub const fn order(&self) -> &'static str {
        match (self.trans_a, self.trans_b) {
            (false, false) => "nn",
            (false, true) => "nt",
            (true, false) => "tn",
            (true, true) => "tt",
        }
    }

    /// The element types of A and B, one name if they are one.
    pub fn operands(&self) -> String {
        if self.elem == self.elem_b { self.elem.name().to_owned() } else { format!("{}_{}", self.elem, self.elem_b) }
    }

    /// The kernel; its parameters are the views of A (`[M, K]`, or `[K, M]` if `trans_a`), B (`[K, N]`, or `[N, K]` if `trans_b`),
    /// the bias (`[N]`, only if there is one) and C (`[M, N]`).
    ///
    /// # Errors
    /// For element types that are not listed at the fields, a group of 0, and the builder's for tiles of no or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let mut b = KernelBuilder::new(&format!("gemm_{}_{}_{}", self.order(), self.operands(), self.out));
        b.warps(self.warps).stages(self.stages);
        let [a, w] = self.inputs(&mut b);
        let bias = self.bias.map(|t| b.param(vector(t, self.n)));
        let c = b.param(self.result());

        let (row, col) = self.origin(&mut b, c);
        let depth = b.dim(a, u32::from(!self.trans_a));
        let t = self.products(&mut b, [a, w], [row, col], [0.into(), depth.into()]);
        let t = self.finished(&mut b, t, bias, col);
        b.store(c, &[row, col], t);
        b.finish()
    }

    /// Parameters for the views of A and B, as [`Gemm::build`] has them.
    pub(crate) fn inputs(&self, b: &mut KernelBuilder) -> [Value; 2] {
        let a = if self.trans_a { matrix(self.elem, self.k, self.m) } else { matrix(self.elem, self.m, self.k) };
        let w = if self.trans_b { matrix(self.elem_b, self.n, self.k) } else { matrix(self.elem_b, self.k, self.n) };
        [(a, self.pitches.a), (w, self.pitches.b)].map(|(view, pitch)| b.param(pitched(view, pitch)))
    }

    /// The view of C.
    pub(crate) fn result(&self) -> ViewType {
        pitched(matrix(self.out, self.m, self.n), self.pitches.c)
    }

    /// The view of the matrix that is added, of elements of a type.
    pub(crate) fn added(&self, elem: Scalar) -> ViewType {
        pitched(matrix(elem, self.m, self.n), self.pitches.residual)
    }

    /// Adds sums of the tile at `at` to what is in C, whoever else does.
    pub(crate) fn add_to(&self, b: &mut KernelBuilder, c: Value, [row, col]: [Value; 2], sum: Value) {
        let down = positions(b, row, &[self.bm, 1], 0);
        let across = positions(b, col, &[1, self.bn], 1);
        b.atomic(AtomicOp::Add, c, &[down, across], sum, Update::default());
    }

    /// Sums from column `col` of C on with bias and activation, in C's type.
    pub(crate) fn finished(&self, b: &mut KernelBuilder, t: Value, bias: Option<Value>, col: Value) -> Value {
        let t = self.activated(b, t, bias, col);
        b.cast(t, self.out)
    }

    /// The same in the sums' type.
    pub(crate) fn activated(&self, b: &mut KernelBuilder, mut t: Value, bias: Option<Value>, col: Value) -> Value {
        if let Some(bias) = bias {
            let v = b.load(bias, &[col], &[self.bn]);
            let v = b.cast(v, Scalar::F32);
            let v = b.expand_dims(v, 0);
            t = b.add(t, v);
        }
        self.activation.apply(b, t)
    }

    /// The launch for a shape.
    ///
    /// # Errors
    /// As [`Gemm::build`].
    pub fn launches(&self, m: u32, n: u32) -> Result<Launches, BuildErrors> {
        let bias = self.bias.map(|_| Argument::Bias);
        let arguments = [Argument::A, Argument::B].into_iter().chain(bias).chain([Argument::C]).collect();
        Ok(Launches::one(self.build()?, self.grid(m, n), arguments))
    }

    /// The sum over a part of the depth of the tile at `at`, of the views of A and B.
    pub(crate) fn products(&self, b: &mut KernelBuilder, [a, w]: [Value; 2], [row, col]: [Value; 2], depth: [Operand; 2]) -> Value {
        let Gemm { bm, bn, bk, .. } = *self;
        let zero = b.full(&if self.swapped { [bn, bm] } else { [bm, bn] }, 0, self.sum());
        let sum = b.for_loop(depth[0], depth[1], bk, &[zero], |b, k, acc| {
            let (x, y) = if self.swapped {
                (operand(b, w, !self.trans_b, [col, k], [bn, bk]), operand(b, a, !self.trans_a, [k, row], [bk, bm]))
            } else {
                (operand(b, a, self.trans_a, [row, k], [bm, bk]), operand(b, w, self.trans_b, [k, col], [bk, bn]))
            };
            vec![if self.elem == Scalar::F32 { b.dot_tf32(x, y, acc[0]) } else { b.dot(x, y, acc[0]) }]
        })[0];
        if self.swapped { b.transpose(sum, &[1, 0]) } else { sum }
    }

    /// Element type of the sums.
    pub(crate) fn sum(&self) -> Scalar {
        if is_integer(self.elem) { Scalar::I32 } else { Scalar::F32 }
    }

    /// First row and column of this program's tile; `c` is a view of C, whose last two dimensions count.
    pub(crate) fn origin(&self, b: &mut KernelBuilder, c: Value) -> (Value, Value) {
        let pid = b.program_id(0);
        self.origin_of(b, c, pid)
    }

    /// The same of the tile of a program number.
    pub(crate) fn origin_of(&self, b: &mut KernelBuilder, c: Value, pid: Value) -> (Value, Value) {
        let rank = b.ty(c).as_view().map_or(2, |v| v.rank() as u32);
        let (m, n) = (b.dim(c, rank - 2), b.dim(c, rank - 1));
        let tiles = [b.ceil_div(m, self.bm), b.ceil_div(n, self.bn)];
        self.origin_among(b, tiles, pid)
    }

    /// The same of so many rows and columns of tiles.
    pub(crate) fn origin_among(&self, b: &mut KernelBuilder, [tiles_m, tiles_n]: [Value; 2], pid: Value) -> (Value, Value) {
        // Quotients take long, and every tile waits for these: remainders come of them by a product.
        let split = |b: &mut KernelBuilder, x: Value, by: Value| {
            let q = b.div(x, by);
            let whole = b.mul(q, by);
            (q, b.sub(x, whole))
        };
        let (pm, pn) = if self.group == 1 {
            split(b, pid, tiles_n)
        } else {
            let per_group = b.mul(tiles_n, self.group);
            let (which, inside) = split(b, pid, per_group);
            let first = b.mul(which, self.group);
            let left = b.sub(tiles_m, first);
            let height = b.minimum(left, self.group);
            let (pn, down) = split(b, inside, height);
            (b.add(first, down), pn)
        };
        (b.mul(pm, self.bm), b.mul(pn, self.bn))
    }

    /// First row and column of the tile of program `pid`; the same sums as the kernel's.
    pub fn tile_origin(&self, pid: u32, m: u32, n: u32) -> (u32, u32) {
        let (tiles_m, tiles_n) = (programs(m, self.bm), programs(n, self.bn));
        let per_group = tiles_n.saturating_mul(self.group).max(1);
        let first = (pid / per_group).saturating_mul(self.group);
        let height = tiles_m.saturating_sub(first).min(self.group).max(1);
        let inside = pid % per_group;
        (first.saturating_add(inside % height).saturating_mul(self.bm), (inside / height).saturating_mul(self.bn))
    }

    /// The grid for a shape.
    pub fn grid(&self, m: u32, n: u32) -> [u32; 3] {
        [programs(m, self.bm).saturating_mul(programs(n, self.bn)), 1, 1]
    }

    pub(crate) fn check(&self) -> Result<(), BuildErrors> {
        let float = |t: Scalar| matches!(t, Scalar::F16 | Scalar::BF16 | Scalar::F32);
        let integers = is_integer(self.elem);
        let narrow = self.elem.is_narrow() && self.elem != Scalar::F8E8M0;
        let fits = match self.elem_b {
            e if integers => is_integer(e),
            e if narrow => e.is_narrow() && e != Scalar::F8E8M0,
            e => e == self.elem,
        };
        let fields = [
            ("elem", Some(self.elem), integers || narrow || float(self.elem)),
            ("elem_b", Some(self.elem_b), fits),
            ("out", Some(self.out), if integers { self.out == Scalar::I32 } else { float(self.out) }),
            ("bias", self.bias, self.bias.is_none_or(float)),
        ];
        let error = |message: String| BuildError::new("Gemm::build", message);
        let mut errors: Vec<BuildError> = fields
            .into_iter()
            .filter_map(|(field, t, ok)| Some((field, t?, ok)))
            .filter(|&(_, _, ok)| !ok)
            .map(|(field, t, _)| {
                error(format!(
                    "field `{field}` is {t}; use f16, bf16 or f32 throughout, floats of 8 and 4 bits for both operands, or i8 and i4 operands with an i32 result"
                ))
            })
            .collect();
        if integers && (self.bias.is_some() || self.activation != Activation::None) {
            errors.push(error("products of integers have no epilogue: `bias` and `activation` are none".to_owned()));
        }
        for (field, extent) in [("bm", self.bm), ("bn", self.bn), ("bk", self.bk)] {
            if !(1..=MAX_TILE).contains(&extent) {
                errors.push(error(format!("field `{field}` is {extent}; a tile has extents from 1 to {MAX_TILE}")));
            }
        }
        if self.group > MAX_GROUP {
            errors.push(error(format!("field `group` is {}; the most is {MAX_GROUP}", self.group)));
        }
        if self.group == 0 {
            errors.push(error("field `group` is 0; use 1 for no grouping".to_owned()));
        }
        if errors.is_empty() { Ok(()) } else { Err(BuildErrors(errors)) }
    }
}

/// The most rows of tiles in a group: beyond it there is nothing to gain, and numbers of tiles stay within 32 bits.
const MAX_GROUP: u32 = 1 << 16;

/// The largest extent of a tile: bytes of what tiles take are counted in 32 bits.
const MAX_TILE: u32 = 4096;

/// The integers that have products.
fn is_integer(elem: Scalar) -> bool {
    matches!(elem, Scalar::I8 | Scalar::I4)
}

/// The tile of an operand at `at` with extents `shape`, both in the formula's order, from a view that may be stored transposed.
pub(crate) fn operand(b: &mut KernelBuilder, view: Value, transposed: bool, at: [Value; 2], shape: [u32; 2]) -> Value {
    if transposed {
        let t = b.load(view, &[at[1], at[0]], &[shape[1], shape[0]]);
        b.transpose(t, &[1, 0])
    } else {
        b.load(view, &at, &shape)
    }
}

/// Positions from `first` on along one dimension of a tile.
pub(crate) fn positions(b: &mut KernelBuilder, first: Value, shape: &[u32], dim: u32) -> Value {
    let t = b.iota(shape, dim);
    b.add(t, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_go_down_the_groups_as_pictured() {
        let g = Gemm { group: 2, ..Gemm::new(Scalar::BF16).tile(16, 32, 16) };
        let order: Vec<(u32, u32)> = (0..9).map(|p| g.tile_origin(p, 48, 96)).collect();
        let picture = [(0, 0), (16, 0), (0, 32), (16, 32), (0, 64), (16, 64), (32, 0), (32, 32), (32, 64)];
        assert_eq!(order, picture);
        assert_eq!(g.grid(48, 96), [9, 1, 1]);
        assert_eq!(g.grid(49, 97), [16, 1, 1]);
    }

    #[test]
    fn element_types_without_a_product_are_refused_by_name() {
        let config = Gemm { bias: Some(Scalar::I32), ..Gemm::new(Scalar::I16) };
        let errors = config.build().unwrap_err().to_string();
        for want in ["`elem` is i16", "`out` is i16", "`bias` is i32"] {
            assert!(errors.contains(want), "{errors}");
        }
        let bytes = Gemm::new(Scalar::I8).epilogue(None, Activation::Relu);
        assert!(bytes.build().unwrap_err().to_string().contains("epilogue"));
    }

    #[test]
    fn impossible_tiles_are_errors_and_grids_stay_finite() {
        for (bm, bn, bk) in [(0, 128, 64), (128, 0, 64), (128, 128, 0), (1 << 20, 1 << 20, 16)] {
            let config = Gemm::new(Scalar::F16).tile(bm, bn, bk);
            let refused = config.build().is_err() || tilelift_ir::verify(&config.build().unwrap()).is_err();
            assert!(refused, "{bm}x{bn}x{bk}");
            assert!(config.grid(1000, 1000)[0] >= 1);
        }
        let none = Gemm { group: 0, ..Gemm::new(Scalar::F16) };
        assert!(none.build().unwrap_err().to_string().contains("`group`"));
        assert_eq!(none.tile_origin(0, 100, 100), (0, 0));
    }
}
