//! The workload of [`StreamGemm`]: one launch or two, judged as the plain product.

use super::definition::{Ran, Step, Workload, tile_rows};
use super::split::{added, bar_of_parts, definition_of, name_of, operands_of, step_of};
use crate::reference::Reference;
use crate::split_gemm::Meeting;
use crate::stream_gemm::{Deal, StreamGemm};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel};

/// [`StreamGemm`] of a shape. Workers have parts of many tiles, so all of it is one program of the workload's grid.
#[derive(Clone, Debug)]
pub struct StreamGemmCase {
    /// The kernels.
    pub config: StreamGemm,
    /// Those who work at the same time.
    pub workers: u32,
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Depth.
    pub k: u32,
}

impl StreamGemmCase {
    fn shape(&self) -> [u32; 3] {
        [self.m, self.n, self.k]
    }

    fn deal(&self) -> Result<Deal, BuildErrors> {
        self.config.deal(self.shape(), self.workers)
    }

    fn atomics(&self) -> bool {
        self.config.meeting == Meeting::Atomics
    }

    /// Parts of a tile at most.
    fn parts(&self) -> u32 {
        self.deal().map_or(1, |d| d.parts())
    }
}

impl Workload for StreamGemmCase {
    fn name(&self) -> String {
        let StreamGemm { in_flight, keep_whole, .. } = self.config;
        let how = if self.atomics() { "atomic_stream" } else { "stream" };
        let beside = if in_flight > 1 { format!("_in_flight{in_flight}") } else { String::new() };
        let rest = if keep_whole { "_rest" } else { "" };
        name_of(&self.config.gemm, self.shape(), &format!("{how}{}{beside}{rest}", self.workers))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        [1; 3]
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let g = &self.config.gemm;
        let mut list = operands_of(g, self.shape());
        if self.atomics() {
            list.push(TensorSpec::updated("c", g.out, &[self.m, self.n], Init::Normal(4)));
            return list;
        }
        list.extend(g.bias.map(|t| TensorSpec::input("bias", t, &[self.n], Init::Normal(3))));
        // A launch wants memory, even where nothing is dealt out.
        let slots = self.deal().map_or(1, |d| d.slots().max(1));
        list.push(TensorSpec::scratch("parts", g.sum(), &[slots, g.bm, g.bn]));
        list.push(TensorSpec::output("c", g.out, &[self.m, self.n]));
        list
    }
    fn steps(&self) -> Result<Vec<Step>, BuildErrors> {
        let launches = self.config.launches(self.shape(), self.workers)?;
        launches.list.into_iter().map(|l| step_of(l, &self.tensors())).collect()
    }
    fn owned(&self, _: usize, program: [u32; 3]) -> Vec<Range<usize>> {
        // What atomics add to is shared.
        if self.atomics() || program != [0; 3] { Vec::new() } else { tile_rows([0, 0], [self.m, self.n], self.m, self.n) }
    }
    fn reference<'a>(&'a self, _: usize, tensors: &'a [Tensor], ran: Ran<'a>) -> Reference<'a> {
        let definition = definition_of(&self.config.gemm, self.shape());
        if !self.atomics() {
            return definition.of(&tensors[0], &tensors[1], self.config.gemm.bias.map(|_| &tensors[2]));
        }
        added(definition, tensors, self.parts(), move |_, _| ran.is_none_or(|list| !list.is_empty()))
    }
    fn rel_l2_bar(&self) -> Option<f64> {
        Some(bar_of_parts(definition_of(&self.config.gemm, self.shape()), self.parts()))
    }
    fn deterministic(&self) -> bool {
        !self.atomics() || !self.config.gemm.out.is_float()
    }
}
