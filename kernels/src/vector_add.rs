//! Vector addition: `c[i] = a[i] + b[i]`.
//!
//! ```text
//!   program p:   [p*block, (p+1)*block)   the last program hangs over; loads read 0 there, stores drop
//! ```

use crate::facts::{ANY, known, programs, vector};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar};

/// `c = a + b` on vectors of length `n`, in the arithmetic of the element type.
#[derive(Clone, PartialEq, Debug)]
pub struct VectorAdd {
    /// Element type: any integer or float.
    pub elem: Scalar,
    /// Elements per program.
    pub block: u32,
    /// Warps per program.
    pub warps: u32,
    /// What is known of `n`.
    pub n: Extent,
}

impl VectorAdd {
    /// A configuration for any length.
    pub fn new(elem: Scalar) -> VectorAdd {
        VectorAdd { elem, block: 1024, warps: 4, n: ANY }
    }

    /// States the facts of a length.
    pub fn for_shape(mut self, n: u32) -> VectorAdd {
        self.n = known(n);
        self
    }

    /// The kernel; its parameters are the views `a[n]`, `b[n]`, `c[n]`.
    ///
    /// # Errors
    /// The builder's, for a block of 0 or more than the tile limit, or `i1` elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new(&format!("vector_add_{}", self.elem));
        b.warps(self.warps);
        let [x, y, z] = [(); 3].map(|()| b.param(vector(self.elem, self.n)));
        let pid = b.program_id(0);
        let at = b.mul(pid, self.block);
        let p = b.load(x, &[at], &[self.block]);
        let q = b.load(y, &[at], &[self.block]);
        let sum = b.add(p, q);
        b.store(z, &[at], sum);
        b.finish()
    }

    /// The grid for a length.
    pub fn grid(&self, n: u32) -> [u32; 3] {
        [programs(n, self.block), 1, 1]
    }
}
