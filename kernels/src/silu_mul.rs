//! Fused gate: `c[i] = silu(a[i]) * b[i]` with `silu(x) = x / (1 + e^-x)`, computed in `f32`.

use crate::activation::Activation;
use crate::facts::{ANY, known, programs, vector};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar};

/// `c = silu(a) * b` on vectors of length `n`, rounded once to the element type.
#[derive(Clone, PartialEq, Debug)]
pub struct SiluMul {
    /// Element type: `f32`, `f16` or `bf16`.
    pub elem: Scalar,
    /// Elements per program.
    pub block: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of `n`.
    pub n: Extent,
}

impl SiluMul {
    /// A configuration for any length.
    pub fn new(elem: Scalar) -> SiluMul {
        SiluMul { elem, block: 1024, warps: 4, n: ANY }
    }

    /// States the facts of a length.
    pub fn for_shape(mut self, n: u32) -> SiluMul {
        self.n = known(n);
        self
    }

    /// The kernel; its parameters are the views `a[n]`, `b[n]`, `c[n]`.
    ///
    /// # Errors
    /// The builder's, for a block of 0 or more than the tile limit.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("silu_mul_{}", self.elem));
        b.warps(self.warps);
        let [x, y, z] = [(); 3].map(|()| b.param(vector(self.elem, self.n)));
        let pid = b.program_id(0);
        let at = b.mul(pid, self.block);
        let p = b.load(x, &[at], &[self.block]);
        let q = b.load(y, &[at], &[self.block]);
        let p = b.cast(p, Scalar::F32);
        let q = b.cast(q, Scalar::F32);
        let gate = Activation::Silu.apply(&mut b, p);
        let product = b.mul(gate, q);
        let out = b.cast(product, self.elem);
        b.store(z, &[at], out);
        b.finish()
    }

    /// The grid for a length.
    pub fn grid(&self, n: u32) -> [u32; 3] {
        [programs(n, self.block), 1, 1]
    }
}
