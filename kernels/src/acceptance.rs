//! Acceptance cases: one list that the interpreter, the simulators and the hardware all run.
//!
//! ```text
//!   case.make_tensors() ─► launch case.build() on case.grid() ─► case.check(tensors, output bytes, programs that ran)
//! ```
//! Inputs and tolerances are functions of the case alone, so two devices are judged by the same numbers. A slow device runs
//! [`Case::sample`] of a large case; the check then looks at the elements of these programs, and that the others kept their poison.

use crate::quantise::Output;
use crate::reference::Expected;
use crate::tensor::{Init, Role, Tensor, TensorSpec, decode};
use crate::workload::{
    AttentionCase, FusedGemmCase, GemmCase, GemvCase, QuantiseCase, RmsNormCase, ScalarSpec, SiluMulCase, SoftmaxCase, TransposeCase,
    VectorAddCase, Workload,
};
use crate::workload_more::{BincountCase, GatherRowsCase, LayerNormCase, RotaryCase, SelectCase};
use crate::{
    Activation, Attention, Bincount, FusedGemm, GatherRows, Gemm, Gemv, LayerNorm, Quantise, Residual, RmsNorm, Rotary, Select, SiluMul,
    Softmax, Transpose, VectorAdd, rng,
};
use std::fmt;
use std::ops::Range;
use tilelift_ir::interp::{Arg, ScalarArg, ViewArg};
use tilelift_ir::{BuildErrors, Kernel, Scalar, SortOrder, num};

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
    /// embedding, 8 GEMV, 9 GEMM, 10 GEMM of integers, 11 GEMM with epilogue, 12 attention.
    pub row: u32,
    /// How much work it is.
    pub size: Size,
    /// The kernel with its shape.
    pub workload: Box<dyn Workload>,
}

impl Case {
    fn new(row: u32, size: Size, workload: impl Workload + 'static) -> Case {
        Case { name: workload.name(), row, size, workload: Box::new(workload) }
    }

    /// The kernel.
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

    /// The tensors in parameter order; the last is the output.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.workload.tensors()
    }

    /// The scalars, which follow the tensors in parameter order.
    pub fn scalars(&self) -> Vec<ScalarSpec> {
        self.workload.scalars()
    }

    /// The launch arguments in parameter order, for tensor number `i` in buffer number `i`.
    pub fn arguments(&self) -> Vec<Arg> {
        let extents = |t: &TensorSpec| t.shape.iter().map(|&e| i64::from(e)).collect::<Vec<_>>();
        let views = self.tensors().into_iter().enumerate().map(|(i, t)| ViewArg::dense(i, t.elem, &extents(&t)).into());
        let scalars = self.scalars().into_iter().map(|s| ScalarArg::float(s.elem, s.value).into());
        views.chain(scalars).collect()
    }

    /// The tensors with their contents, the output filled with poison.
    pub fn make_tensors(&self) -> Vec<Tensor> {
        self.tensors().iter().map(TensorSpec::make).collect()
    }

    /// As [`Case::make_tensors`] from other random numbers: one set per `variant`, of which 0 is that of `make_tensors`.
    pub fn make_variant(&self, variant: u64) -> Vec<Tensor> {
        let reseed = |t: TensorSpec| TensorSpec { init: t.init.variant(variant), ..t };
        self.tensors().into_iter().map(|t| reseed(t).make()).collect()
    }

    /// Up to `count` programs of the grid: the first, the last, and others at random, the same ones every time, in order.
    pub fn sample(&self, count: usize) -> Vec<[u32; 3]> {
        let [x, y, z] = self.grid().map(u64::from);
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

    /// Judges an output. `tensors` are those of [`Case::make_tensors`] (the last one's contents are not used), `output` the bytes of
    /// the last tensor after the launch, `programs` those that ran, or `None` for all.
    ///
    /// # Errors
    /// If the tensors or the output are not of the case's shapes.
    pub fn check(&self, tensors: &[Tensor], output: &[u8], programs: Option<&[[u32; 3]]>) -> Result<Verdict, CheckError> {
        let specs = self.tensors();
        if tensors.len() != specs.len() {
            return Err(CheckError::TensorCount { want: specs.len(), got: tensors.len() });
        }
        for (spec, t) in specs.iter().zip(tensors) {
            // The output's own bytes are beside the point.
            if spec.role == Role::In && (t.elem != spec.elem || t.shape != spec.shape || t.bytes.len() != spec.byte_len()) {
                return Err(CheckError::Tensor { name: spec.name });
            }
        }
        let out = &specs[specs.len() - 1];
        if output.len() != out.byte_len() {
            return Err(CheckError::OutputLength { want: out.byte_len(), got: output.len() });
        }
        let mut ranges: Vec<Range<usize>> = match programs {
            Some(list) => list.iter().flat_map(|&p| self.workload.owned(p)).collect(),
            None => self.all_programs().flat_map(|p| self.workload.owned(p)).collect(),
        };
        ranges.sort_unstable_by_key(|r| (r.start, r.end));
        ranges.dedup();
        let reference = self.workload.reference(tensors);
        let mut tally = Tally::new(out.elem);
        let width = out.elem.bytes() as usize;
        let mut at = 0;
        for range in ranges {
            tally.untouched(at, &output[at * width..range.start.max(at) * width]);
            at = range.end;
            let got = output[range.start * width..range.end * width].chunks_exact(width);
            for ((i, want), raw) in range.clone().zip(reference(range)).zip(got) {
                tally.element(i, want, decode(raw, out.elem));
            }
        }
        tally.untouched(at, &output[at * width..]);
        Ok(tally.verdict(self.workload.rel_l2_bar()))
    }

    /// Every program of the grid, `x` fastest.
    pub fn all_programs(&self) -> impl Iterator<Item = [u32; 3]> {
        let [x, y, z] = self.grid();
        (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])))
    }
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
    /// The output has another size.
    OutputLength {
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
            CheckError::OutputLength { want, got } => write!(f, "the output has {want} bytes, not {got}; pass the last tensor's bytes"),
        }
    }
}
impl std::error::Error for CheckError {}

/// An element and how far it is off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
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
        if let Some(Worst { index, got, want, e }) = self.worst {
            write!(f, ", worst E {e:.3} at element {index}: got {got:e}, want {:e} +- {:.2e}", want.value, want.tolerance)?;
        }
        if let Some(i) = self.first_stray {
            write!(f, ", {} bytes written outside the programs' elements, first at element {i}", self.stray_bytes)?;
        }
        Ok(())
    }
}

/// Gathers a verdict.
struct Tally {
    elem: Scalar,
    verdict: Verdict,
    error2: f64,
    norm2: f64,
}

impl Tally {
    fn new(elem: Scalar) -> Tally {
        let verdict = Verdict { elements: 0, mismatches: 0, worst: None, rel_l2: 0.0, rel_l2_bar: None, stray_bytes: 0, first_stray: None };
        Tally { elem, verdict, error2: 0.0, norm2: 0.0 }
    }

    fn element(&mut self, index: usize, want: Expected, got: f64) {
        let e = distance(want, got, self.elem);
        let v = &mut self.verdict;
        v.elements += 1;
        v.mismatches += usize::from(e > 1.0);
        if v.worst.is_none_or(|w| e > w.e) {
            v.worst = Some(Worst { index, got, want, e });
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

use Scalar::{BF16, F16, F32, I8, I32};
use Size::{Large, Small};

/// Every case, in the order of the kernel list.
pub fn cases() -> Vec<Case> {
    let mut list = Vec::new();
    pointwise(&mut list);
    quantisations(&mut list);
    rows(&mut list);
    mean_norms(&mut list);
    sorts(&mut list);
    indices(&mut list);
    embeddings(&mut list);
    transposes(&mut list);
    vectors(&mut list);
    products(&mut list);
    integers(&mut list);
    epilogues(&mut list);
    fused(&mut list);
    attentions(&mut list);
    list
}

fn pointwise(list: &mut Vec<Case>) {
    for (n, size) in [(1, Small), (7, Small), (98_432, Small), (1_000_003, Large)] {
        for elem in [F32, F16, BF16, I32] {
            let config = VectorAdd::new(elem).for_shape(n);
            list.push(Case::new(1, size, VectorAddCase { config, n, init: Init::Normal }));
        }
        for elem in [F32, F16, BF16] {
            let config = SiluMul::new(elem).for_shape(n);
            list.push(Case::new(1, size, SiluMulCase { config, n, init: Init::Normal }));
        }
    }
    for elem in [F32, F16, BF16] {
        let n = 4099;
        let config = VectorAdd { block: 512, ..VectorAdd::new(elem) }.for_shape(n);
        list.push(Case::new(1, Small, VectorAddCase { config, n, init: Init::Special }));
        let config = SiluMul { block: 512, ..SiluMul::new(elem) }.for_shape(n);
        list.push(Case::new(1, Small, SiluMulCase { config, n, init: Init::Special }));
    }
}

fn quantisations(list: &mut Vec<Case>) {
    use Scalar::{F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    let plain: fn(u64) -> Init = Init::Normal;
    for (rows, cols, size) in [(35, 256, Small), (257, 640, Large), (2048, 512, Large), (8192, 8192, Large)] {
        for output in [Output::Codes, Output::Scales] {
            let config = Quantise::new(BF16, F8E4M3, output).for_shape(rows, cols);
            list.push(Case::new(2, size, QuantiseCase { config, rows, cols, init: plain }));
        }
        for from in [BF16, F32] {
            let config = Quantise::new(from, F8E4M3, Output::Cast).for_shape(rows, cols);
            list.push(Case::new(2, size, QuantiseCase { config, rows, cols, init: plain }));
        }
    }
    let (rows, cols) = (33, 130);
    for (from, to) in [(BF16, F8E4M3), (F16, F8E5M2), (F32, F8E4M3Fnuz), (F32, F8E5M2Fnuz), (F8E4M3, F16), (F8E5M2, F32)] {
        let config = Quantise::new(from, to, Output::Cast).for_shape(rows, cols);
        list.push(Case::new(2, Small, QuantiseCase { config, rows, cols, init: Init::Special }));
    }
}

fn rows(list: &mut Vec<Case>) {
    let plain: fn(u64) -> Init = Init::Normal;
    let shapes = [
        (33, 1, Small, plain),
        (20, 781, Small, plain),
        (19, 300, Small, Init::Masked),
        (50, 5, Small, Init::Special),
        (1823, 781, Large, plain),
        (8192, 8192, Large, plain),
    ];
    for (rows, cols, size, init) in shapes {
        for elem in [F32, F16, BF16] {
            // Short rows share a program; the last program hangs over.
            let tile_rows = if cols <= 8 { 4 } else { 1 };
            let config = Softmax { tile_rows, ..Softmax::new(elem, cols) }.for_shape(rows, cols);
            list.push(Case::new(3, size, SoftmaxCase { config, rows, cols, init }));
        }
    }
    for (rows, cols, size) in [(10, 1000, Small), (7, 129, Small), (1024, 1024, Large), (4096, 8192, Large), (1151, 8192, Large)] {
        for elem in [F16, BF16, F32] {
            let tile_rows = if cols <= 256 { 4 } else { 1 };
            let config = RmsNorm { tile_rows, ..RmsNorm::new(elem, cols) }.for_shape(rows, cols);
            list.push(Case::new(4, size, RmsNormCase { config, rows, cols }));
        }
    }
}

fn mean_norms(list: &mut Vec<Case>) {
    for (rows, cols, size) in [(10, 1000, Small), (7, 129, Small), (1024, 1024, Large), (4096, 8192, Large), (1151, 8192, Large)] {
        for elem in [F16, BF16, F32] {
            for residual in [false, true] {
                let tile_rows = if cols <= 256 { 4 } else { 1 };
                let config = LayerNorm { tile_rows, ..LayerNorm::new(elem, cols, residual) }.for_shape(rows, cols);
                list.push(Case::new(4, size, LayerNormCase { config, rows, cols }));
            }
        }
    }
}

fn sorts(list: &mut Vec<Case>) {
    use SortOrder::{Ascending, Descending};
    let shapes = [
        (5, 257, 257, Ascending, Small),
        (5, 257, 257, Descending, Small),
        (20, 128, 6, Descending, Small),
        (320, 128, 6, Descending, Large),
        (300, 200, 8, Descending, Large),
        (64, 2048, 2048, Ascending, Large),
    ];
    for (rows, cols, k, order, size) in shapes {
        for elem in [F32, F16, I32] {
            for positions in [false, true] {
                let config = Select::new(elem, order, positions, cols, k).for_shape(rows, cols);
                list.push(Case::new(5, size, SelectCase { config: config.clone(), rows, cols, init: Init::Normal }));
                if elem != I32 && size == Small {
                    list.push(Case::new(5, size, SelectCase { config, rows, cols, init: Init::Special }));
                }
            }
        }
    }
}

fn indices(list: &mut Vec<Case>) {
    for (rows, cols, n, size) in [(131, 67, 100, Small), (4096, 4096, 4096, Large)] {
        for elem in [F32, F16, I8] {
            let config = GatherRows::new(elem).for_shape(cols);
            list.push(Case::new(6, size, GatherRowsCase { config, rows, n, cols }));
        }
    }
    for (n, bins, size) in [(10_000, 1000, Small), (100, 7, Small), (1_000_003, 4096, Large)] {
        list.push(Case::new(6, size, BincountCase { config: Bincount::default(), n, bins }));
    }
}

fn embeddings(list: &mut Vec<Case>) {
    for (heads, length, size) in [(3, 50, Small), (32, 1024, Large)] {
        for dim in [64, 128] {
            for interleaved in [false, true] {
                for elem in [BF16, F32] {
                    let config = Rotary::new(elem, dim, interleaved).for_shape(length);
                    list.push(Case::new(7, size, RotaryCase { config, heads, length }));
                }
            }
        }
    }
}

fn transposes(list: &mut Vec<Case>) {
    for (rows, cols, size) in [(131, 67, Small), (4096, 4096, Large)] {
        for elem in [F32, F16, I8] {
            let config = Transpose::new(elem).for_shape(rows, cols);
            list.push(Case::new(6, size, TransposeCase { config, rows, cols, init: Init::Normal }));
        }
    }
    for elem in [F32, F16] {
        let (rows, cols) = (96, 160);
        let config = Transpose { tile_rows: 32, ..Transpose::new(elem) }.for_shape(rows, cols);
        list.push(Case::new(6, Small, TransposeCase { config, rows, cols, init: Init::Special }));
    }
}

/// The storage orders of the operands.
const ORDERS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A GEMM whose tile suits the shape: the default for large shapes, smaller ones where that would be mostly padding.
fn gemm(elem: Scalar, m: u32, n: u32, k: u32) -> Gemm {
    let config = match m.min(n) {
        0..=16 => Gemm::new(elem).tile(16, 16, 16).schedule(1, 2),
        17..=256 => Gemm { group: 3, ..Gemm::new(elem) }.tile(64, 64, 32).schedule(4, 3),
        _ => Gemm::new(elem),
    };
    config.for_shape(m, n, k)
}

fn products(list: &mut Vec<Case>) {
    let shapes = [(5, 11, 7, Small), (255, 129, 130, Small), (1000, 1000, 200, Large), (512, 512, 512, Large), (1024, 1024, 1024, Large)];
    for (m, n, k, size) in shapes {
        for elem in [F16, BF16, F32] {
            for (trans_a, trans_b) in ORDERS {
                let config = gemm(elem, m, n, k).transposed(trans_a, trans_b);
                list.push(Case::new(9, size, GemmCase { config, m, n, k }));
            }
        }
    }
    for elem in [F16, BF16] {
        let (m, n, k) = (255, 129, 130);
        let config = gemm(elem, m, n, k).output(F32);
        list.push(Case::new(9, Small, GemmCase { config, m, n, k }));
    }
}

fn epilogues(list: &mut Vec<Case>) {
    let shapes = [(5, 11, 7, Small), (255, 129, 130, Small), (1024, 896, 1840, Large)];
    for (m, n, k, size) in shapes {
        for elem in [F16, BF16, F32] {
            for (i, &activation) in Activation::ALL.iter().enumerate() {
                let (trans_a, trans_b) = ORDERS[i];
                let config = gemm(elem, m, n, k).transposed(trans_a, trans_b).epilogue(Some(elem), activation);
                list.push(Case::new(11, size, GemmCase { config, m, n, k }));
            }
        }
        let config = gemm(BF16, m, n, k).transposed(false, true).output(F32).epilogue(Some(F32), Activation::Gelu);
        list.push(Case::new(11, size, GemmCase { config, m, n, k }));
        let config = gemm(F16, m, n, k).output(BF16).epilogue(None, Activation::Silu);
        list.push(Case::new(11, size, GemmCase { config, m, n, k }));
    }
}

fn vectors(list: &mut Vec<Case>) {
    for (n, k, size) in [(37, 256, Small), (1024, 1024, Large), (28672, 8192, Large)] {
        for (elem, quantised) in [(F16, false), (BF16, false), (F16, true)] {
            let config = Gemv::new(elem, quantised).for_shape(n, k);
            list.push(Case::new(8, size, GemvCase { config, n, k }));
        }
    }
    let (n, k) = (13, 99);
    // Rows of an odd length are read element by element: a smaller tile.
    let config = Gemv { depth: 128, ..Gemv::new(F16, false) }.for_shape(n, k);
    list.push(Case::new(8, Small, GemvCase { config, n, k }));
}

fn integers(list: &mut Vec<Case>) {
    for (m, n, k, size) in [(45, 70, 33, Small), (300, 400, 416, Large), (512, 1024, 768, Large)] {
        for (trans_a, trans_b) in ORDERS {
            let config = gemm(I8, m, n, k).transposed(trans_a, trans_b);
            list.push(Case::new(10, size, GemmCase { config, m, n, k }));
        }
    }
}

fn fused(list: &mut Vec<Case>) {
    let mut push = |size, config: FusedGemm, batch, m, n, k| list.push(Case::new(11, size, FusedGemmCase { config, batch, m, n, k }));
    for (m, n, k, size) in [(20, 33, 24, Small), (1024, 896, 104, Large), (1024, 896, 24, Large)] {
        for elem in [F16, BF16, F32] {
            let plain = gemm(elem, m, n, k).transposed(false, true);
            push(size, FusedGemm::new(plain.clone().epilogue(Some(elem), Activation::Gelu)).plus(Residual::Plain(elem)), 1, m, n, k);
            push(size, FusedGemm::new(plain.clone()).plus(Residual::Scaled(elem)), 1, m, n, k);
            // Two accumulators: half the columns.
            let (bm, bn, bk) = if m < 64 { (32, 32, 32) } else { (plain.bm, plain.bn / 2, plain.bk) };
            push(size, FusedGemm::new(plain.tile(bm, bn, bk).epilogue(None, Activation::Silu)).gated(), 1, m, n, k);
        }
    }
    for (batch, m, n, k, size) in [(3, 20, 33, 24, Small), (8, 395, 256, 320, Large)] {
        for (elem, trans_b) in [(F16, false), (BF16, true), (F32, false)] {
            push(size, FusedGemm::new(gemm(elem, m, n, k).transposed(false, trans_b)).batched(batch), batch, m, n, k);
        }
    }
    let (m, n, k) = (32_768, 256, 256);
    push(Large, FusedGemm::new(gemm(BF16, m, n, k).epilogue(Some(BF16), Activation::Gelu)).plus(Residual::Plain(BF16)), 1, m, n, k);
}

fn attentions(list: &mut Vec<Case>) {
    for (queries, keys, dim, size) in [(33, 50, 32, Small), (7, 129, 64, Small), (1000, 1000, 64, Large), (1024, 1024, 128, Large)] {
        for elem in [F16, BF16] {
            for causal in [false, true] {
                let plain = Attention::new(elem, dim, causal);
                let config = if size == Small { plain.tile(16, 32, 1) } else { plain };
                let config = config.for_shape(queries, keys);
                list.push(Case::new(12, size, AttentionCase { config, queries, keys }));
            }
        }
    }
}

#[cfg(test)]
mod tests;
