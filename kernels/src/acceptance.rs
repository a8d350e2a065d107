//! Acceptance cases: one list that the interpreter, the simulators and the hardware all run.
//!
//! ```text
//!   case.make_tensors() ─► case.memory() ─► case.launches() in order ─► case.judge(tensors, memory, programs that ran)
//! ```
//! Inputs and tolerances are functions of the case alone, so two devices are judged by the same numbers. A slow device runs
//! [`Case::sample`] of a large case; the check then looks at the elements of these programs, and that the others kept their poison.

mod list;

pub use list::cases;

use crate::reference::Expected;
use crate::rng;
use crate::tensor::{PART, Role, Tensor, TensorSpec, decode, in_parallel};
use crate::workload::{Ran, ScalarSpec, Step, Workload};
use std::fmt;
use std::ops::Range;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::{BuildErrors, Kernel, Scalar, num};

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
    /// None for the cases of [`cases`]; the type is that of every `build`.
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
    /// None for the cases of [`cases`]; the type is that of every `build`.
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
    fn judged(&self, number: usize, out: &TensorSpec, programs: Ran<'_>) -> Vec<Range<usize>> {
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

/// Why an output could not be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckError {
    /// The number of tensors is not the case's.
    TensorCount {
        /// The case's.
        want: usize,
        /// The given.
        got: usize,
    },
    /// An input is not of the case's element type, shape or size.
    Tensor {
        /// Which.
        name: &'static str,
    },
    /// An input was written.
    InputWritten {
        /// Which.
        name: &'static str,
    },
    /// The number of outputs is not the case's.
    OutputCount {
        /// The case's.
        want: usize,
        /// The given.
        got: usize,
    },
    /// An output has another size.
    OutputLength {
        /// Which.
        name: &'static str,
        /// Bytes of the case's output.
        want: usize,
        /// Bytes given.
        got: usize,
    },
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::TensorCount { want, got } => write!(f, "the case has {want} tensors, not {got}; pass those of `make_tensors`"),
            CheckError::Tensor { name } => write!(f, "tensor `{name}` is not the case's; pass those of `make_tensors`"),
            CheckError::InputWritten { name } => write!(f, "the kernel wrote its input `{name}`"),
            CheckError::OutputCount { want, got } => {
                write!(f, "the case has {want} outputs, not {got}; pass the bytes of every tensor that it writes")
            }
            CheckError::OutputLength { name, want, got } => {
                write!(f, "output `{name}` has {want} bytes, not {got}; pass the whole tensor's bytes")
            }
        }
    }
}
impl std::error::Error for CheckError {}

/// An element and how far it is off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    /// The output.
    pub tensor: &'static str,
    /// Row-major index in the output.
    pub index: usize,
    /// What was found.
    pub got: f64,
    /// What was asked for.
    pub want: Expected,
    /// `|got - want| / tolerance`; infinite where one of them is NaN or infinite and the other is not, or an exact value is missed.
    pub e: f64,
}

/// The judgement of an output.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Elements judged.
    pub elements: usize,
    /// Elements outside their tolerance.
    pub mismatches: usize,
    /// The element with the largest `e`, if there is any element.
    pub worst: Option<Worst>,
    /// `||got - want|| / ||want||` over the finite expected values; 0 if they are all 0 and met.
    pub rel_l2: f64,
    /// Its bar, if the case has one.
    pub rel_l2_bar: Option<f64>,
    /// Bytes of other programs' elements that lost their poison.
    pub stray_bytes: usize,
    /// The first of them, as an element's index.
    pub first_stray: Option<usize>,
}

impl Verdict {
    /// True if every judged element is within its tolerance, the norm within its bar, and nothing else was written.
    pub fn pass(&self) -> bool {
        self.elements > 0 && self.mismatches == 0 && self.stray_bytes == 0 && self.rel_l2_bar.is_none_or(|bar| self.rel_l2 <= bar)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.pass() { "pass" } else { "FAIL" };
        write!(f, "{word}: {} of {} elements outside tolerance, relL2 {:.3e}", self.mismatches, self.elements, self.rel_l2)?;
        if let Some(bar) = self.rel_l2_bar {
            write!(f, " (bar {bar:.3e})")?;
        }
        if let Some(Worst { tensor, index, got, want, e }) = self.worst {
            write!(f, ", worst E {e:.3} at `{tensor}` element {index}: got {got:e}, want {:e} +- {:.2e}", want.value, want.tolerance)?;
        }
        if let Some(i) = self.first_stray {
            write!(f, ", {} bytes written outside the programs' elements, first at element {i}", self.stray_bytes)?;
        }
        Ok(())
    }
}

/// Gathers a verdict.
struct Tally {
    tensor: &'static str,
    elem: Scalar,
    verdict: Verdict,
    error2: f64,
    norm2: f64,
}

impl Tally {
    fn new(out: &TensorSpec) -> Tally {
        let verdict = Verdict { elements: 0, mismatches: 0, worst: None, rel_l2: 0.0, rel_l2_bar: None, stray_bytes: 0, first_stray: None };
        Tally { tensor: out.name, elem: out.elem, verdict, error2: 0.0, norm2: 0.0 }
    }

    fn element(&mut self, index: usize, want: Expected, got: f64) {
        let e = distance(want, got, self.elem);
        let v = &mut self.verdict;
        v.elements += 1;
        v.mismatches += usize::from(e > 1.0);
        if v.worst.is_none_or(|w| e > w.e) {
            v.worst = Some(Worst { tensor: self.tensor, index, got, want, e });
        }
        // Infinities that agree add nothing; those that do not are mismatches already.
        if want.value.is_finite() && got.is_finite() {
            self.error2 += (got - want.value).powi(2);
            self.norm2 += want.value.powi(2);
        }
    }

    /// Counts bytes of elements from `first` on that are no longer poison.
    fn untouched(&mut self, first: usize, bytes: &[u8]) {
        let v = &mut self.verdict;
        for (i, _) in bytes.iter().enumerate().filter(|&(_, &b)| b != 0xff) {
            v.stray_bytes += 1;
            v.first_stray.get_or_insert(first + i / self.elem.bytes() as usize);
        }
    }

    /// Takes in the tally of elements behind.
    fn join(&mut self, other: Tally) {
        let (v, o) = (&mut self.verdict, other.verdict);
        v.elements += o.elements;
        v.mismatches += o.mismatches;
        v.stray_bytes += o.stray_bytes;
        v.first_stray = v.first_stray.or(o.first_stray);
        if let Some(w) = o.worst
            && v.worst.is_none_or(|mine| w.e > mine.e)
        {
            v.worst = Some(w);
        }
        self.error2 += other.error2;
        self.norm2 += other.norm2;
    }

    fn verdict(mut self, bar: Option<f64>) -> Verdict {
        self.verdict.rel_l2 = if self.error2 == 0.0 { 0.0 } else { (self.error2 / self.norm2).sqrt() };
        self.verdict.rel_l2_bar = bar;
        self.verdict
    }
}

/// How far a value is from the expected one, in tolerances.
fn distance(want: Expected, got: f64, elem: Scalar) -> f64 {
    if want.value.is_nan() || got.is_nan() {
        return if want.value.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if want.tolerance == 0.0 {
        let same = want.value == got && want.value.is_sign_negative() == got.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    // A value beyond the type's range is infinite in the type.
    let rounded = if elem.is_float() { num::round(want.value, elem) } else { want.value };
    if got == rounded {
        0.0
    } else if got.is_finite() && want.value.is_finite() {
        (got - want.value).abs() / want.tolerance
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests;
