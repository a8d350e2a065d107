//! `y = 2 x + rank`: one task brings a tile to local memory, the other computes with it. The rank is that of the program in its cluster
//! of two.
//!
//! ```text
//! producer   wait empty  load x ─► slot  arrive full
//! consumer   wait full   slot ─► y       arrive empty          and both go on to the tile `num_programs` further
//! ```

use crate::facts::{ANY, known, programs, vector};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Task};

/// Programs of a cluster.
const CLUSTER: u32 = 2;

/// Twice a vector, plus the rank of the program that has the tile.
#[derive(Clone, PartialEq, Debug)]
pub struct Doubling {
    /// Elements of a tile.
    pub block: u32,
    /// What is known of the length.
    pub n: Extent,
}

impl Doubling {
    /// Tiles of so many elements.
    pub fn new(block: u32) -> Doubling {
        Doubling { block, n: ANY }
    }

    /// States the facts of a length.
    pub fn for_shape(mut self, n: u32) -> Doubling {
        self.n = known(n);
        self
    }

    /// The kernel; its parameters are the views `x[n]` and `y[n]` of `f32`.
    ///
    /// # Errors
    /// The builder's, for tiles of no or too many elements.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("doubling");
        b.cluster(CLUSTER);
        let (x, y) = (b.param(vector(Scalar::F32, self.n)), b.param(vector(Scalar::F32, self.n)));
        let full = b.barrier_alloc(1, 1);
        let empty = b.barrier_alloc(1, 1);
        let slot = b.local_alloc(&[self.block], Scalar::F32);
        let rank = b.cluster_rank();
        let (first, stride) = (b.program_id(0), b.num_programs(0));
        let n = b.dim(x, 0);
        let tiles = b.ceil_div(n, self.block);
        let zero = b.constant(0, Scalar::I32);
        let tasks = [Task::new("producer", 4), Task::new("consumer", 1)];
        b.tasks(&tasks, |b, task, _| {
            b.for_loop(first, tiles, stride, &[zero], |b, tile, step| {
                let at = b.mul(tile, self.block);
                let next = b.add(step[0], 1);
                if task == 0 {
                    b.barrier_wait(empty, next);
                    let t = b.load(x, &[at], &[self.block]);
                    b.local_store(slot, t);
                    b.barrier_arrive(full);
                } else {
                    b.barrier_wait(full, step[0]);
                    let t = b.local_load(slot);
                    b.barrier_arrive(empty);
                    let t = b.mul(t, 2.0f32);
                    let r = b.cast(rank, Scalar::F32);
                    let t = b.add(t, r);
                    b.store(y, &[at], t);
                }
                vec![next]
            });
        });
        b.finish()
    }

    /// The grid of at most so many programs for a length.
    pub fn grid(&self, n: u32, most: u32) -> [u32; 3] {
        [programs(n, self.block).clamp(1, most.max(1)).next_multiple_of(CLUSTER), 1, 1]
    }
}
