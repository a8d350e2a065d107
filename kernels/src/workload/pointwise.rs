//! Workloads of [`VectorAdd`] and [`SiluMul`].

use super::definition::{Ran, Workload, block, suffix};
use crate::reference::{self, Reference};
use crate::silu_mul::SiluMul;
use crate::tensor::{Init, Tensor, TensorSpec};
use crate::vector_add::VectorAdd;
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar};

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
