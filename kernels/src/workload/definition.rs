//! What a workload is, and which elements a program owns.

use crate::reference::Reference;
use crate::tensor::{Init, Tensor, TensorSpec};
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

/// The rows of a program that holds whole rows.
pub(crate) fn whole_rows([x, y, z]: [u32; 3], tile: u32, rows: u32, cols: u32) -> Vec<Range<usize>> {
    let first = u64::from(x) * u64::from(tile);
    if y == 0 && z == 0 { tile_rows([first, 0], [tile, cols], rows, cols) } else { Vec::new() }
}
