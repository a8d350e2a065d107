//! What the generator knows while it writes a kernel.

use crate::case::Param;
use crate::config::Config;
use crate::source::Source;
use tilelift_ir::{Scalar, Shape, Type, Value};

/// A dimension of a written view along which programs own slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) dim: usize,
    /// The program's number along the dimension.
    pub(super) who: Value,
    pub(super) slot: u32,
}

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) v: Value,
    pub(super) elem: Scalar,
    pub(super) shape: Vec<i64>,
    /// Empty for inputs, and for outputs of a grid of one program.
    pub(super) owners: Vec<Owner>,
    pub(super) written: bool,
    /// Outputs with a tolerance are written once and never read.
    pub(super) near: bool,
    /// As of an [`Item`]; to a written view that has one, only what is within it is stored.
    pub(super) bound: Option<f64>,
}

/// A value that may be used.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) v: Value,
    pub(super) ty: Type,
    /// Largest magnitude, if all elements are finite integers.
    pub(super) bound: Option<f64>,
}

impl Item {
    pub(super) fn shape(&self) -> &[u32] {
        self.ty.shape().unwrap_or(&[])
    }
    pub(super) fn elem(&self) -> Scalar {
        self.ty.elem()
    }
    pub(super) fn elements(&self) -> u64 {
        self.shape().iter().map(|&e| u64::from(e)).product()
    }
    pub(super) fn is_tile(&self) -> bool {
        matches!(self.ty, Type::Tile(_))
    }
}

pub(super) struct Gen<'a> {
    pub(super) src: &'a mut Source,
    pub(super) cfg: &'a Config,
    pub(super) params: Vec<Param>,
    pub(super) views: Vec<View>,
    pub(super) scopes: Vec<Vec<Item>>,
    /// Scalars that make natural indices: program ids, loop indices, extents.
    pub(super) indices: Vec<Vec<Value>>,
    /// Values that something reads.
    pub(super) used: Vec<Value>,
    pub(super) shapes: Vec<Shape>,
    pub(super) grid: [u32; 3],
    /// Warps of a program, and lanes of a warp where layouts are required.
    pub(super) warps: u32,
    pub(super) lanes: u32,
    /// The number of this program instance.
    pub(super) pid: Value,
    /// Its positions on the axes x and y.
    pub(super) axes: [Value; 2],
    /// How often the region at hand runs, over all programs.
    pub(super) times: u64,
    pub(super) work: u64,
    /// Types of floats in which products were summed so far.
    pub(super) sums: Vec<Scalar>,
    /// Input data are normal deviates only.
    pub(super) rand_only: bool,
}
