//! A case: a workload, its launches, and the judgement of what came of them.

use super::verdict::{CheckError, Tally, Verdict};
use crate::rng;
use crate::tensor::{PART, Role, Tensor, TensorSpec, decode, in_parallel};
use crate::workload::{Ran, ScalarSpec, Step, Workload};
use std::ops::Range;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::{BuildErrors, Kernel};

/// How much work a case is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Size {
    /// Slow devices run every program.
    Small,
    /// Slow devices run a sample of the programs.
    Large,
}

/// A kernel, a launch, and what must come of it.
#[derive(Debug)]
pub struct Case {
    /// Unique name.
    pub name: String,
    /// Row of the kernel list: 1 pointwise, 2 quantisation, 3 softmax, 4 norms, 5 sorts, 6 transposition and indices, 7 rotary
    /// embedding, 8 GEMV, 9 GEMM, 10 GEMM of integers, 11 GEMM with epilogue, 12 GEMM with a split depth, 17 attention, 18 explicit control.
    pub row: u32,
    /// How much work it is.
    pub size: Size,
    /// The kernel with its shape.
    pub workload: Box<dyn Workload>,
}

/// A launch of a case.
#[derive(Clone, Debug)]
pub struct CaseLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid.
    pub grid: [u32; 3],
    /// Its arguments, for tensor number `i` in buffer number `i`.
    pub args: Vec<Arg>,
    /// Those of its programs that are to run; `None` for all.
    pub programs: Option<Vec<[u32; 3]>>,
}

impl Case {
    pub(crate) fn new(row: u32, size: Size, workload: impl Workload + 'static) -> Case {
        Case { name: workload.name(), row, size, workload: Box::new(workload) }
    }

    /// The kernel; the first one of several.
    ///
    /// # Errors
    /// None for the cases of [`cases`](super::cases); the type is that of every `build`.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        self.workload.build()
    }

    /// The launch grid.
    pub fn grid(&self) -> [u32; 3] {
        self.workload.grid()
    }

    /// The tensors; those of the only launch in parameter order.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.workload.tensors()
    }

    /// The scalars of the only launch, which follow the tensors in parameter order.
    pub fn scalars(&self) -> Vec<ScalarSpec> {
        self.workload.scalars()
    }

    /// The arguments of the only launch in parameter order, for tensor number `i` in buffer number `i`.
    pub fn arguments(&self) -> Vec<Arg> {
        self.arguments_of(&(0..self.tensors().len()).collect::<Vec<_>>(), &self.scalars())
    }

    /// The arguments of a launch in parameter order, for tensor number `i` in buffer number `i`.
    pub fn step_arguments(&self, step: &Step) -> Vec<Arg> {
        self.arguments_of(&step.tensors, &step.scalars)
    }

    fn arguments_of(&self, which: &[usize], scalars: &[ScalarSpec]) -> Vec<Arg> {
        let specs = self.tensors();
        let extents = |t: &TensorSpec| t.shape.iter().map(|&e| i64::from(e)).collect::<Vec<_>>();
        let views = which.iter().filter_map(|&i| specs.get(i).map(|t| ViewArg::dense(i, t.elem, &extents(t)).into()));
        let scalar = |s: &ScalarSpec| match s.elem.is_float() {
            true => ScalarArg::float(s.elem, s.value).into(),
            false => ScalarArg::int(s.elem, s.value as i64).into(),
        };
        views.chain(scalars.iter().map(scalar)).collect()
    }

    /// The launches in order, each with its arguments and those of its programs that do the work of some of the workload's.
    ///
    /// # Errors
    /// None for the cases of [`cases`](super::cases); the type is that of every `build`.
    pub fn launches(&self, programs: Option<&[[u32; 3]]>) -> Result<Vec<CaseLaunch>, BuildErrors> {
        let grid = self.grid();
        let one = |step: Step| CaseLaunch {
            programs: programs.map(|list| list.iter().flat_map(|&p| step.programs(p, grid)).collect()),
            args: self.step_arguments(&step),
            kernel: step.kernel,
            grid: step.grid,
        };
        Ok(self.workload.steps()?.into_iter().map(one).collect())
    }

    /// The tensors with their contents, outputs filled with poison.
    pub fn make_tensors(&self) -> Vec<Tensor> {
        self.tensors().iter().map(TensorSpec::make).collect()
    }

    /// As [`Case::make_tensors`] from other random numbers: one set per `variant`, of which 0 is that of `make_tensors`.
    pub fn make_variant(&self, variant: u64) -> Vec<Tensor> {
        let reseed = |t: TensorSpec| TensorSpec { init: t.init.variant(variant), ..t };
        self.tensors().into_iter().map(|t| reseed(t).make()).collect()
    }

    /// Memory with a buffer per tensor; what the kernels are to write counts as uninitialised.
    pub fn memory(&self, tensors: &[Tensor]) -> Memory {
        let mut memory = Memory::new();
        for (spec, t) in self.tensors().iter().zip(tensors) {
            memory.add(if spec.role.is_input() { Buffer::from_bytes(t.bytes.clone()) } else { Buffer::uninit(t.bytes.len()) });
        }
        memory
    }

    /// Up to `count` programs of the grid: the first, the last, and others at random, the same ones every time, in order. Of kernels
    /// with clusters, so many clusters.
    pub fn sample(&self, count: usize) -> Vec<[u32; 3]> {
        let cluster = self.build().map_or(1, |k| k.cluster.max(1));
        let whole = |[x, y, z]: [u32; 3]| (x * cluster..(x + 1) * cluster).map(move |x| [x, y, z]);
        let [x, y, z] = self.grid();
        let mut list: Vec<[u32; 3]> = Self::sample_of([x / cluster, y, z], count).into_iter().flat_map(whole).collect();
        list.sort_unstable_by_key(|&[x, y, z]| [z, y, x]);
        list
    }

    fn sample_of(grid: [u32; 3], count: usize) -> Vec<[u32; 3]> {
        let [x, y, z] = grid.map(u64::from);
        let total = x * y * z;
        let mut chosen: Vec<u64> = if total <= count as u64 {
            (0..total).collect()
        } else {
            let inner = (0..).map(|i| rng::bits(0x5a, i) % total);
            [0, total - 1].into_iter().take(count).chain(inner.take(count.saturating_sub(2))).collect()
        };
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().map(|p| [(p % x) as u32, (p / x % y) as u32, (p / x / y) as u32]).collect()
    }

    /// Judges memory after the launches: the outputs as [`Case::check`] does, and that no input was written.
    ///
    /// # Errors
    /// As [`Case::check`], or if an input was written.
    pub fn judge(&self, tensors: &[Tensor], memory: &Memory, programs: Ran<'_>) -> Result<Verdict, CheckError> {
        let specs = self.tensors();
        let mut outputs = Vec::new();
        for ((spec, t), b) in specs.iter().zip(tensors).zip(&memory.buffers) {
            if spec.role.is_output() {
                outputs.push(b.bytes());
            } else if spec.role == Role::In && t.bytes != b.bytes() {
                return Err(CheckError::InputWritten { name: spec.name });
            }
        }
        self.check(tensors, &outputs, programs)
    }

    /// Judges the outputs. `tensors` are those of [`Case::make_tensors`] (contents of outputs that are only written are not used),
    /// `outputs` the bytes of the outputs after the launch, `programs` those that ran, or `None` for all.
    ///
    /// # Errors
    /// If the tensors or the outputs are not of the case's shapes.
    pub fn check(&self, tensors: &[Tensor], outputs: &[&[u8]], programs: Ran<'_>) -> Result<Verdict, CheckError> {
        let specs = self.tensors();
        if tensors.len() != specs.len() {
            return Err(CheckError::TensorCount { want: specs.len(), got: tensors.len() });
        }
        for (spec, t) in specs.iter().zip(tensors) {
            // The bytes of what is only written are beside the point.
            if spec.role.is_input() && (t.elem != spec.elem || t.shape != spec.shape || t.bytes.len() != spec.byte_len()) {
                return Err(CheckError::Tensor { name: spec.name });
            }
        }
        let wanted: Vec<&TensorSpec> = specs.iter().filter(|s| s.role.is_output()).collect();
        if wanted.len() != outputs.len() {
            return Err(CheckError::OutputCount { want: wanted.len(), got: outputs.len() });
        }
        let mut tally: Option<Tally> = None;
        for (number, (out, bytes)) in wanted.iter().zip(outputs).enumerate() {
            if bytes.len() != out.byte_len() {
                return Err(CheckError::OutputLength { name: out.name, want: out.byte_len(), got: bytes.len() });
            }
            let one = self.check_one(number, out, tensors, bytes, programs);
            tally = Some(match tally {
                Some(mut all) => {
                    all.join(one);
                    all
                }
                None => one,
            });
        }
        tally.map(|t| t.verdict(self.workload.rel_l2_bar())).ok_or(CheckError::OutputCount { want: 1, got: 0 })
    }

    /// Judges one output.
    fn check_one(&self, number: usize, out: &TensorSpec, tensors: &[Tensor], output: &[u8], programs: Ran<'_>) -> Tally {
        let ranges = self.judged(number, out, programs);
        let reference = self.workload.reference(number, tensors, programs);
        let width = out.elem.bytes() as usize;
        let mut tally = Tally::new(out);
        // Parts are a function of the case alone, and so is the order of the sums.
        for part in in_parallel(parts(ranges, out.elements()), |(at, ranges, end)| {
            let (mut tally, mut at) = (Tally::new(out), at);
            for range in ranges {
                tally.untouched(at, &output[at * width..range.start.max(at) * width]);
                at = range.end;
                let got = output[range.start * width..range.end * width].chunks_exact(width);
                for ((i, want), raw) in range.clone().zip(reference(range)).zip(got) {
                    tally.element(i, want, decode(raw, out.elem));
                }
            }
            tally.untouched(at, &output[at * width..end * width]);
            tally
        }) {
            tally.join(part);
        }
        tally
    }

    /// The elements of an output that are judged, in order: those that the programs own, or all of a tensor that they share.
    pub(super) fn judged(&self, number: usize, out: &TensorSpec, programs: Ran<'_>) -> Vec<Range<usize>> {
        if out.role == Role::InOut {
            let row = out.shape.last().map_or(1, |&e| e as usize).max(1);
            return (0..out.elements()).step_by(row).map(|at| at..at + row).collect();
        }
        let mut ranges: Vec<Range<usize>> = match programs {
            Some(list) => list.iter().flat_map(|&p| self.workload.owned(number, p)).collect(),
            None => self.all_programs().flat_map(|p| self.workload.owned(number, p)).collect(),
        };
        ranges.sort_unstable_by_key(|r| (r.start, r.end));
        ranges.dedup();
        ranges
    }

    /// Every program of the grid, `x` fastest.
    pub fn all_programs(&self) -> impl Iterator<Item = [u32; 3]> {
        let [x, y, z] = self.grid();
        (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
    }
}

/// Sorted ranges in groups of about [`PART`] elements: where the group's share of the output begins, its ranges, and where it ends.
fn parts(ranges: Vec<Range<usize>>, total: usize) -> Vec<(usize, Vec<Range<usize>>, usize)> {
    let mut list = Vec::new();
    let (mut first, mut group, mut size) = (0, Vec::new(), 0);
    for range in ranges {
        let end = range.end;
        size += range.len();
        group.push(range);
        if size >= PART {
            list.push((first, std::mem::take(&mut group), end));
            (first, size) = (end, 0);
        }
    }
    list.push((first, group, total));
    list
}
