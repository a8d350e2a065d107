//! Workloads of [`Quantise`], with their reference.

use super::definition::{Ran, Workload, suffix, tile_rows};
use crate::quantise::{GROUP, LEAST, Output, Quantise};
use crate::reference::{Expected, Reference};
use crate::tensor::{Init, Tensor, TensorSpec};
use std::ops::Range;
use tilelift_ir::{BuildErrors, Kernel, Scalar, num};

/// [`Quantise`] of a shape.
#[derive(Clone, Debug)]
pub struct QuantiseCase {
    /// The kernel; [`Output::Both`] has two outputs, the scales and the codes.
    pub config: Quantise,
    /// Tokens.
    pub rows: u32,
    /// Channels.
    pub cols: u32,
    /// How the matrix is filled.
    pub init: fn(u64) -> Init,
}

impl QuantiseCase {
    /// What the output of a number holds.
    fn output(&self, number: usize) -> Output {
        match (self.config.output, number) {
            (Output::Both, 0) => Output::Scales,
            (Output::Both, _) => Output::Codes,
            (one @ (Output::Cast | Output::Codes | Output::Scales), _) => one,
        }
    }
}

impl Workload for QuantiseCase {
    fn name(&self) -> String {
        let Quantise { from, to, output, .. } = &self.config;
        let what = match output {
            Output::Cast => "cast",
            Output::Codes => "quantise",
            Output::Scales => "scales",
            Output::Both => "quantise_both",
        };
        format!("{what}_{from}_{to}_{}x{}{}", self.rows, self.cols, suffix((self.init)(0)))
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        self.config.build()
    }
    fn grid(&self) -> [u32; 3] {
        self.config.grid(self.rows, self.cols)
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        let mut list = vec![TensorSpec::input("x", self.config.from, &[self.rows, self.cols], (self.init)(1))];
        if matches!(self.config.output, Output::Scales | Output::Both) {
            list.push(TensorSpec::output("s", Scalar::F32, &[self.rows, self.cols.div_ceil(GROUP)]));
        }
        if self.config.output != Output::Scales {
            list.push(TensorSpec::output("q", self.config.to, &[self.rows, self.cols]));
        }
        list
    }
    fn owned(&self, output: usize, [x, y, z]: [u32; 3]) -> Vec<Range<usize>> {
        if z > 0 {
            return Vec::new();
        }
        let width = if self.output(output) == Output::Scales { 1 } else { GROUP };
        let cols = if width == 1 { self.cols.div_ceil(GROUP) } else { self.cols };
        let origin = [u64::from(y) * u64::from(self.config.tile_rows), u64::from(x) * u64::from(width)];
        tile_rows(origin, [self.config.tile_rows, width], self.rows, cols)
    }

    /// Exact: the largest magnitude is one of the inputs, and each of the two divisions is rounded once to `f32`.
    fn reference<'a>(&'a self, output: usize, tensors: &'a [Tensor], _: Ran<'a>) -> Reference<'a> {
        let (x, cols) = (&tensors[0], self.cols as usize);
        let (to, output) = (self.config.to, self.output(output));
        let scale = move |row: usize, group: usize| {
            let first = row * cols + group * GROUP as usize;
            let last = ((group + 1) * GROUP as usize).min(cols) + row * cols;
            let most = (first..last)
                .map(|i| x.get(i).abs())
                .fold(num::round(LEAST, Scalar::F32), |m, v| if m.is_nan() || v.is_nan() { f64::NAN } else { m.max(v) });
            num::round(most / num::largest(to), Scalar::F32)
        };
        Box::new(move |range| {
            // A group's scale serves its whole stretch of the range.
            let mut last = (usize::MAX, 0.0);
            let mut one = |i: usize| match output {
                Output::Cast => num::round(x.get(i), to),
                Output::Scales => {
                    let groups = cols.div_ceil(GROUP as usize);
                    scale(i / groups, i % groups)
                }
                Output::Codes | Output::Both => {
                    let (row, group) = (i / cols, i % cols / GROUP as usize);
                    let key = row * cols.div_ceil(GROUP as usize) + group;
                    if last.0 != key {
                        last = (key, scale(row, group));
                    }
                    num::round(num::round(x.get(i) / last.1, Scalar::F32), to)
                }
            };
            range.map(|i| Expected::exact(one(i))).collect()
        })
    }
}
