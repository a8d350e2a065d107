//! GEMM whose depth is split over programs, for products with fewer tiles than a machine has multiprocessors.
//!
//! ```text
//!            ┌ part 0 of K ─► W[0, tile] ┐
//!   tile ────┼ part 1 of K ─► W[1, tile] ┼─ second launch, in this order ─► C = act(W[0] + W[1] + … + bias)     Meeting::Workspace
//!            └ …                         ┘
//!   tile, part ─► atomic add into C, which the caller has filled                                                Meeting::Atomics
//! ```
//!
//! Through the workspace the sums of the parts meet in one order: every run gives the same bits. Atomics meet in any order.

use crate::activation::Activation;
use crate::facts::{programs, vector};
use crate::fused_gemm::{Behind, Parts};
use crate::gemm::Gemm;
use crate::launch::{Argument, Launch, Launches, Workspace};
use tilelift_ir::{BuildError, BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

/// Where the parts of the depth meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Meeting {
    /// In a workspace `[splits, M, N]` of the sums' type, which a second launch adds up in order.
    Workspace,
    /// In C itself, by atomic additions; C has the sums' type, and no epilogue.
    Atomics,
}

/// A matrix product with its depth in parts.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitGemm {
    /// The product: types, storage, epilogue, tile.
    pub gemm: Gemm,
    /// Parts of the depth.
    pub splits: u32,
    /// Where they meet.
    pub meeting: Meeting,
    /// What is behind the sums, where they meet in a workspace.
    pub behind: Behind,
}

/// Most parts: the second launch has a load for each in its text.
const MOST: u32 = 64;

/// Rows of a tile that a program of the second launch adds up, where they divide the tile's.
const ROWS: u32 = 8;

impl SplitGemm {
    /// A product in parts that meet in a workspace.
    pub fn new(gemm: Gemm, splits: u32) -> SplitGemm {
        SplitGemm { gemm, splits, meeting: Meeting::Workspace, behind: Behind::default() }
    }

    /// Lets the parts meet in C.
    pub fn by_atomics(mut self) -> SplitGemm {
        self.meeting = Meeting::Atomics;
        self
    }

    /// Chooses what is behind the sums.
    pub fn behind(mut self, behind: Behind) -> SplitGemm {
        self.behind = behind;
        self
    }

    fn check(&self) -> Result<(), BuildErrors> {
        self.gemm.check()?;
        self.behind.check(&self.gemm)?;
        let error = |message: &str| Err(BuildErrors(vec![BuildError::new("SplitGemm::build", message)]));
        if self.splits == 0 || self.splits > MOST {
            return error("`splits` goes from 1 to 64");
        }
        let plain = self.gemm.bias.is_none() && self.gemm.activation == Activation::None && self.gemm.out == self.gemm.sum();
        if self.meeting == Meeting::Atomics && !(plain && self.behind.is_nothing()) {
            return error("parts that meet by atomics have no epilogue, and C has the type of the sums (f32, or i32 of integers)");
        }
        Ok(())
    }

    /// The first kernel; its parameters are the views of A, B, as [`Gemm::build`] has them, and the workspace, or C for atomics. Its
    /// grid is that of the product, `splits` times as wide.
    ///
    /// # Errors
    /// As [`Gemm::build`]; no or too many parts; an epilogue beside atomics.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let g = &self.gemm;
        let mut b = KernelBuilder::new(&format!("split_gemm_{}_{}_{}", g.order(), g.operands(), g.sum()));
        b.warps(g.warps).stages(g.stages);
        let [a, w] = g.inputs(&mut b);
        let out = b.param(match self.meeting {
            Meeting::Workspace => self.workspace(),
            Meeting::Atomics => g.result(),
        });
        let pid = b.program_id(0);
        let tile = b.div(pid, self.splits);
        let part = b.rem(pid, self.splits);
        let (row, col) = g.origin_of(&mut b, out, tile);
        let depth = b.dim(a, u32::from(!g.trans_a));
        // Whole steps for every part: the last ones may have fewer, or none.
        let steps = b.ceil_div(depth, g.bk);
        let each = b.ceil_div(steps, self.splits);
        let long = b.mul(each, g.bk);
        let first = b.mul(part, long);
        let last = b.add(first, long);
        let last = b.minimum(last, depth);
        let sum = g.products(&mut b, [a, w], [row, col], [first.into(), last.into()]);
        match self.meeting {
            Meeting::Workspace => {
                let t = b.expand_dims(sum, 0);
                b.store(out, &[part, row, col], t);
            }
            Meeting::Atomics => g.add_to(&mut b, out, [row, col], sum),
        }
        b.finish()
    }

    /// The second kernel, of parts that meet in a workspace; its parameters are the views of the workspace, of the gate's (only if there is one), the
    /// bias (`[N]`, only if there is one), R (only if there is one) and C, then `alpha` and `beta` (if scaled).
    ///
    /// # Errors
    /// As [`SplitGemm::build`].
    pub fn build_sums(&self) -> Result<Kernel, BuildErrors> {
        self.check()?;
        let g = &self.gemm;
        let mut b = KernelBuilder::new(&format!("split_gemm_sums_{}_{}", g.sum(), g.out));
        b.warps(4);
        let workspaces: Vec<Value> = (0..1 + usize::from(self.behind.gate)).map(|_| b.param(self.workspace())).collect();
        let bias = g.bias.map(|t| b.param(vector(t, g.n)));
        let residual = self.behind.residual.map(|r| b.param(g.added(r.elem())));
        let c = b.param(g.result());
        let scales = self.behind.scales(&mut b);
        let pid = b.program_id(0);
        let tile = b.div(pid, self.pieces());
        let piece = b.rem(pid, self.pieces());
        let (row, col) = g.origin_of(&mut b, c, tile);
        let rows = g.bm / self.pieces();
        let down = b.mul(piece, rows);
        let row = b.add(row, down);
        let load = |b: &mut KernelBuilder, w: Value, part: u32| {
            let part = b.constant(i64::from(part), Scalar::I32);
            let t = b.load(w, &[part, row, col], &[1, rows, g.bn]);
            b.reshape(t, &[rows, g.bn])
        };
        let mut sums = Vec::new();
        for w in workspaces {
            let parts: Vec<Value> = (0..self.splits).map(|s| load(&mut b, w, s)).collect();
            sums.push(parts[1..].iter().fold(parts[0], |t, &part| b.add(t, part)));
        }
        let t = Parts { bias, residual, scales, batch: None }.finished(&mut b, g, &sums, [row, col], rows);
        b.store(c, &[row, col], t);
        b.finish()
    }

    /// The launches for a shape: the parts of the product, those of the gate's (if there is one), and their sums; by atomics, the first one, into C as it
    /// was filled.
    ///
    /// # Errors
    /// As [`SplitGemm::build`].
    pub fn launches(&self, m: u32, n: u32) -> Result<Launches, BuildErrors> {
        let kernel = self.build()?;
        let grid = self.grid(m, n);
        if self.meeting == Meeting::Atomics {
            return Ok(Launches::one(kernel, grid, vec![Argument::A, Argument::B, Argument::C]));
        }
        let factors: &[Argument] = if self.behind.gate { &[Argument::B, Argument::Gate] } else { &[Argument::B] };
        let workspaces = factors.iter().map(|_| Workspace::new(self.gemm.sum(), &[self.splits, m, n])).collect();
        let of = |(i, &right): (usize, &Argument)| Launch {
            kernel: kernel.clone(),
            grid,
            arguments: vec![Argument::A, right, Argument::Workspace(i)],
        };
        let mut list: Vec<Launch> = factors.iter().enumerate().map(of).collect();
        let parts = (0..factors.len()).map(Argument::Workspace);
        let arguments = parts.chain(self.gemm.bias.map(|_| Argument::Bias)).chain(self.behind.arguments()).collect();
        list.push(Launch { kernel: self.build_sums()?, grid: self.grid_sums(m, n), arguments });
        Ok(Launches { list, workspaces })
    }

    /// The workspace's view.
    fn workspace(&self) -> ViewType {
        ViewType::dense(self.gemm.sum(), &[Extent::Fixed(self.splits), self.gemm.m, self.gemm.n])
    }

    /// Programs of the second launch per tile.
    fn pieces(&self) -> u32 {
        if self.gemm.bm.is_multiple_of(ROWS) { (self.gemm.bm / ROWS).max(1) } else { 1 }
    }

    /// The first launch's grid for a shape.
    pub fn grid(&self, m: u32, n: u32) -> [u32; 3] {
        self.wide(m, n, self.splits)
    }

    /// The second launch's grid for a shape.
    pub fn grid_sums(&self, m: u32, n: u32) -> [u32; 3] {
        self.wide(m, n, self.pieces())
    }

    fn wide(&self, m: u32, n: u32, times: u32) -> [u32; 3] {
        [programs(m, self.gemm.bm).saturating_mul(programs(n, self.gemm.bn)).saturating_mul(times), 1, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Activation;

    #[test]
    fn parts_and_epilogues_that_do_not_go_together_are_refused() {
        let plain = Gemm::new(Scalar::BF16).output(Scalar::F32);
        for splits in [0, 65] {
            let e = SplitGemm::new(plain.clone(), splits).build().unwrap_err().to_string();
            assert!(e.contains("from 1 to 64"), "{e}");
        }
        let biased = plain.clone().epilogue(Some(Scalar::F32), Activation::None);
        for wrong in [biased, Gemm::new(Scalar::BF16)] {
            let e = SplitGemm::new(wrong, 2).by_atomics().build().unwrap_err().to_string();
            assert!(e.contains("type of the sums"), "{e}");
        }
        assert_eq!(SplitGemm::new(plain.tile(64, 128, 64), 3).grid(128, 128), [6, 1, 1]);
    }
}
