//! Benches on hardware.
//!
//! ```text
//! row: buffer sets ─► check every candidate ─► calibrate ─► rounds { shuffle { rest, warm up, batch } } ─► medians
//! ```

use super::check::{self, Judge, Wrong};
use super::fill::Normals;
use super::limits;
use super::problem::{Cost, Problem, Variant};
use super::report::{Entry, Refusal, Row, Who};
use super::stats::{Summary, shuffled};
use crate::bench::blaslt::{BlasLt, LtError, LtProduct, Product};
use crate::bench::work::{self, Work};
use std::fmt;
use std::rc::Rc;
use std::thread;
use std::time::Duration;
use tilelift::compile;
use tilelift::runtime::cuda::{CudaBuffer, CudaDevice, CudaError, CudaKernel, CudaStream, Facts};
use tilelift_interp::Arg;
use tilelift_ir::Scalar;
use tilelift_isel::Target;
use tilelift_kernels::tensor::Role;
use tilelift_kernels::workload::Workload;
use tilelift_kernels::{Case, Size, Tensor, TensorSpec};

/// How to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Protocol {
    /// Rounds: samples per candidate.
    pub(crate) repeat: u32,
    /// Work in front of a batch that does not count, in seconds.
    pub(crate) warm: f64,
    /// Work of a batch, in seconds.
    pub(crate) batch: f64,
    /// Rest before a batch, in seconds.
    pub(crate) rest: f64,
    /// Seed of the data and of the orders.
    pub(crate) seed: u64,
    /// Buffer sets in rotation; without a number, enough that the L2 cache never holds the next launch's inputs.
    pub(crate) sets: Option<u32>,
    /// How much kernels are improved before they are lowered.
    pub(crate) opt: tilelift::OptLevel,
}

/// Why a bench on hardware stopped.
#[derive(Debug)]
pub(crate) enum BenchError {
    Cuda(CudaError),
    /// The problem's tensors do not fit into the device's memory.
    Memory {
        need: u64,
        have: u64,
    },
    /// Benches fill tensors of these types only.
    Type(Scalar),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Cuda(e) => e.fmt(f),
            BenchError::Memory { need, have } => write!(f, "the tensors need {need} bytes, the device has {have}; choose a smaller shape"),
            BenchError::Type(t) => write!(f, "benches know f16, bf16, f32 (tf32), f8e4m3, f8e5m2 and i8, not {t}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<CudaError> for BenchError {
    fn from(e: CudaError) -> BenchError {
        BenchError::Cuda(e)
    }
}

/// Most buffer sets of a row.
const MAX_SETS: u64 = 64;
/// Share of the device's memory that a row may take.
const MEMORY_SHARE: f64 = 0.8;
/// Most launches in a batch.
const MAX_LAUNCHES: f64 = 4096.0;
/// Bytes of the copy that measures the memory's speed.
const COPY: usize = 1 << 30;
/// Elements compared with sums in `f64`: with a library product to compare all elements with, and without.
const SAMPLES: (u64, u64) = (512, 4096);
/// Programs whose elements are compared with a reference.
const PROGRAMS: u64 = 64;
/// Rows of each such program, where an element is the work of many.
const ROWS: usize = 2;

/// A device, ready to bench.
pub(crate) struct Bench {
    device: CudaDevice,
    target: Target,
    stream: CudaStream,
    pub(crate) facts: Facts,
    library: Option<Rc<BlasLt>>,
    /// GB/s of a large copy, read and written.
    pub(crate) copy_rate: f64,
    protocol: Protocol,
}

/// Kernels of ours that passed their check, one behind the other.
struct Ready {
    label: String,
    launches: Vec<(CudaKernel, [u32; 3], Vec<Arg>)>,
    /// Tensors for intermediate results, and where they stand among the tensors.
    scratch: Vec<(usize, CudaBuffer)>,
}

impl Ready {
    /// One run with the tensors of a set.
    fn work<'b>(&'b self, set: &'b [CudaBuffer]) -> Result<Work<'b>, CudaError> {
        let mut buffers: Vec<&CudaBuffer> = set.iter().collect();
        for (at, buffer) in &self.scratch {
            buffers.insert((*at).min(buffers.len()), buffer);
        }
        Work::kernels(&self.launches, &buffers)
    }

    /// The most of all kernels: registers, spilled bytes, threads, shared bytes.
    fn resources(&self) -> [u32; 4] {
        self.launches.iter().fold([0; 4], |most, (kernel, _, _)| {
            let a = kernel.artifact();
            let own = [kernel.registers(), kernel.local_bytes(), a.threads, a.shared_bytes];
            std::array::from_fn(|i| most[i].max(own[i]))
        })
    }
}

/// Tensors on the device: `buffers[set][tensor]`, and the first set's on the host.
struct Data {
    host: Vec<Tensor>,
    sets: Vec<Vec<CudaBuffer>>,
}

/// A candidate's works, one per set, and how many launches make a batch.
struct Candidate<'b> {
    who: Who,
    label: String,
    resources: Option<[u32; 4]>,
    works: Vec<Work<'b>>,
    warm: u32,
    launches: u32,
    samples: Vec<f64>,
}

impl Bench {
    /// Takes a device; looks for the library under `candidates` and says why there is none.
    pub(crate) fn open(
        device: &CudaDevice,
        target: &Target,
        candidates: Option<&[std::path::PathBuf]>,
        protocol: Protocol,
    ) -> Result<(Bench, Option<LtError>), BenchError> {
        let (library, missing) = match candidates.map(|c| BlasLt::open(device, c)) {
            Some(Ok(lt)) => (Some(lt), None),
            Some(Err(e)) => (None, Some(e)),
            None => (None, None),
        };
        let (stream, facts) = (device.stream()?, device.facts()?);
        let mut bench = Bench { device: device.clone(), target: target.clone(), stream, facts, library, copy_rate: 0.0, protocol };
        bench.copy_rate = bench.measure_copy()?;
        Ok((bench, missing))
    }

    /// The library's file and version.
    pub(crate) fn library(&self) -> Option<String> {
        self.library.as_ref().map(|lt| format!("{} (version {})", lt.path().display(), lt.version()))
    }

    /// The median rate of a large copy: the machine's limit for memory-bound kernels.
    fn measure_copy(&self) -> Result<f64, BenchError> {
        let bytes = COPY.min(self.facts.memory as usize / 8);
        let mut from = self.device.alloc(bytes)?;
        let to = self.device.alloc(bytes)?;
        from.fill(0x5a)?;
        let copy = [Work::copy(&from, &to)?];
        let mut rates = Vec::new();
        for _ in 0..9 {
            thread::sleep(Duration::from_secs_f64(self.protocol.rest.min(0.1)));
            rates.push(2.0 * bytes as f64 / work::time(&copy, 3, 10, &self.stream)? * 1e-9);
        }
        Ok(Summary::of(&rates).map_or(0.0, |s| s.median))
    }

    /// Benches a problem: all its variants, and what they are compared with.
    pub(crate) fn row(&self, problem: &Problem, variants: &[Variant]) -> Result<Row, BenchError> {
        let (_, usual) = problem.workload(&Variant::default());
        let mut data = self.data(problem, &*usual)?;
        let mut refused = Vec::new();
        let product = self.product(problem, &mut refused);
        let (theirs, mut check) = match &product {
            Some((lt, judge)) => match self.check_library(lt, judge, &mut data)? {
                Ok(bytes) => (Some(bytes), format!("all elements against cublasLt, {} of these against f64", SAMPLES.0)),
                Err(wrong) => {
                    refused.push(Refusal { label: "cublasLt".into(), reason: wrong.to_string(), wrong: true });
                    (None, String::new())
                }
            },
            None => (None, String::new()),
        };
        if check.is_empty() {
            check = match problem.cost() {
                Cost::Flops(_) if judge(problem).is_some() => format!("{} random elements against f64", SAMPLES.1),
                Cost::Flops(_) => format!("{ROWS} rows of each of {PROGRAMS} programs against f64"),
                Cost::Bytes(_) => format!("{PROGRAMS} programs' elements against f64"),
            };
        }
        let mut ready = Vec::new();
        for variant in variants {
            match self.prepare(problem, variant, &mut data, theirs.as_deref())? {
                Ok(r) => ready.push(r),
                Err(r) => refused.push(r),
            }
        }
        let copies = self.copies(problem, data.sets.len())?;
        let mut candidates = Vec::new();
        for r in &ready {
            let works = data.sets.iter().map(|set| r.work(set)).collect::<Result<_, _>>()?;
            candidates.push(self.candidate(Who::Ours, r.label.clone(), Some(r.resources()), works)?);
        }
        if let (Some((lt, _)), Some(_)) = (&product, &theirs) {
            let works = data.sets.iter().map(|s| Work::product(lt, [&s[0], &s[1], &s[2]])).collect::<Result<_, _>>()?;
            candidates.push(self.candidate(Who::CublasLt, String::new(), None, works)?);
        }
        if !copies.is_empty() {
            let works = copies.iter().map(|[from, to]| Work::copy(from, to)).collect::<Result<_, _>>()?;
            candidates.push(self.candidate(Who::Copy, "of as many bytes".into(), None, works)?);
        }
        self.rounds(&mut candidates)?;
        let entries = candidates.into_iter().filter_map(Candidate::entry).collect();
        Ok(Row {
            problem: problem.name(),
            cost: problem.cost(),
            bytes: problem.bytes(),
            sets: data.sets.len(),
            check,
            limits: self.limits(problem),
            entries,
            refused,
        })
    }

    fn limits(&self, problem: &Problem) -> Vec<(&'static str, f64)> {
        let elem = problem.elem();
        match problem.cost() {
            Cost::Bytes(_) => vec![("1 GiB copy", self.copy_rate)],
            Cost::Flops(_) => {
                let peak = limits::tensor_peak(self.device.name(), elem).map(|p| ("peak", p));
                let ceiling = limits::mma_sync_ceiling(self.device.name(), elem).map(|c| ("mma.sync", c));
                peak.into_iter().chain(ceiling).collect()
            }
        }
    }

    /// Fills the buffer sets.
    fn data(&self, problem: &Problem, workload: &dyn Workload) -> Result<Data, BenchError> {
        // What a variant leaves between its launches is its own.
        let specs: Vec<TensorSpec> = workload.tensors().into_iter().filter(|t| t.role != Role::Scratch).collect();
        let bytes: u64 = specs.iter().map(|t| t.byte_len() as u64).sum();
        let room = (self.facts.memory as f64 * MEMORY_SHARE) as u64;
        // The sets but one must overflow the cache: twice its size, to be sure.
        let enough = 2 + 2 * self.facts.l2 / bytes.max(1);
        let sets = self.protocol.sets.map_or(enough, u64::from).min(MAX_SETS).min(room / (2 * bytes).max(1));
        if sets == 0 {
            return Err(BenchError::Memory { need: bytes, have: self.facts.memory });
        }
        let tf32 = matches!(problem, Problem::Gemm { .. });
        let normals = Normals::new(problem.elem(), tf32).ok_or(BenchError::Type(problem.elem()))?;
        let mut data = Data { host: Vec::new(), sets: Vec::new() };
        for set in 0..sets {
            let mut buffers = Vec::new();
            for (i, spec) in specs.iter().enumerate() {
                let mut buffer = self.device.alloc(spec.byte_len())?;
                if spec.role.is_input() {
                    let seed = self.protocol.seed.wrapping_mul(1000).wrapping_add(set * 16 + i as u64);
                    let tensor = normals.tensor(&spec.shape, seed);
                    buffer.upload(&tensor.bytes)?;
                    if set == 0 {
                        data.host.push(tensor);
                    }
                } else if set == 0 {
                    // References look at the shape of what is written only.
                    data.host.push(Tensor { elem: spec.elem, shape: spec.shape.clone(), bytes: Vec::new() });
                }
                buffers.push(buffer);
            }
            data.sets.push(buffers);
        }
        Ok(data)
    }

    /// The library's product for a problem, if there is a library and it is one.
    fn product(&self, problem: &Problem, refused: &mut Vec<Refusal>) -> Option<(LtProduct, Judge)> {
        let judge = judge(problem)?;
        let Problem::Gemm { elem, out, trans: (trans_a, trans_b), batch, m, n, k } = *problem else { return None };
        let product = Product { batch, shape: [m, n, k], trans_a, trans_b, elem, out };
        match self.library.as_ref()?.product(&self.device, &product) {
            Ok(lt) => Some((lt, judge)),
            Err(e) => {
                refused.push(Refusal { label: "cublasLt".into(), reason: e.to_string(), wrong: false });
                None
            }
        }
    }

    /// Runs the library once on the first set, and judges what it wrote; the judged bytes.
    fn check_library(&self, lt: &LtProduct, judge: &Judge, data: &mut Data) -> Result<Result<Vec<u8>, Wrong>, BenchError> {
        poison(&mut data.sets[0], judge.out)?;
        let set = &data.sets[0];
        work::run(&Work::product(lt, [&set[0], &set[1], &set[2]])?, &self.stream)?;
        let bytes = output(set)?;
        let verdict = check::unwritten(&bytes, judge.out)
            .and_then(|()| judge.sample(&data.host[0], &data.host[1], &bytes, SAMPLES.0, self.protocol.seed));
        Ok(verdict.map(|_| bytes))
    }

    /// Compiles and loads a variant, runs it once on the first set, and judges what it wrote.
    fn prepare(
        &self,
        problem: &Problem,
        variant: &Variant,
        data: &mut Data,
        theirs: Option<&[u8]>,
    ) -> Result<Result<Ready, Refusal>, BenchError> {
        let (label, workload) = problem.workload(variant);
        let name = format!("tilelift {label}");
        let refuse = |reason: String| Ok(Err(Refusal { label: name.clone(), reason, wrong: false }));
        let case = Case { name: workload.name(), row: 0, size: Size::Large, workload };
        let steps = match case.launches(None) {
            Ok(steps) => steps,
            Err(e) => return refuse(e.to_string()),
        };
        let mut launches = Vec::new();
        for (n, step) in steps.into_iter().enumerate() {
            let mut options = variant.options_of(n, self.protocol.opt);
            options.emit.max_version.get_or_insert(self.facts.ptx_version());
            let artifact = match compile(&step.kernel, &self.target, &options) {
                Ok(artifact) => artifact,
                Err(e) => return refuse(e.to_string()),
            };
            match self.device.load(&artifact) {
                Ok(kernel) => launches.push((kernel, step.grid, step.args)),
                Err(e @ (CudaError::Jit { .. } | CudaError::SharedMemory { .. } | CudaError::Target { .. })) => {
                    return refuse(e.to_string());
                }
                Err(e) => return Err(e.into()),
            }
        }
        let mut scratch = Vec::new();
        for (at, t) in case.tensors().iter().enumerate().filter(|(_, t)| t.role == Role::Scratch) {
            scratch.push((at, self.device.alloc(t.byte_len())?));
        }
        let ready = Ready { label, launches, scratch };
        let elem = case.tensors().last().map_or(problem.elem(), |t| t.elem);
        poison(&mut data.sets[0], elem)?;
        let set = &data.sets[0];
        match ready.work(set).and_then(|w| work::run(&w, &self.stream)) {
            Ok(()) => {}
            // Too many threads for the registers of the kernel, say; the context survives.
            Err(e @ CudaError::Driver { call: "cuLaunchKernelEx", .. }) => return refuse(e.to_string()),
            Err(e) => return Err(e.into()),
        }
        let bytes = output(set)?;
        let seed = self.protocol.seed;
        let verdict = check::unwritten(&bytes, elem).and_then(|()| match (judge(problem), theirs) {
            (Some(judge), Some(theirs)) => judge.against(&bytes, theirs),
            (Some(judge), None) => judge.sample(&data.host[0], &data.host[1], &bytes, SAMPLES.1, seed),
            (None, _) => {
                let rows = if matches!(problem.cost(), Cost::Flops(_)) { ROWS } else { usize::MAX };
                check::sample(&*case.workload, &data.host, &bytes, (PROGRAMS, rows), seed)
            }
        });
        Ok(match verdict {
            Ok(_) => Ok(ready),
            Err(wrong) => Err(Refusal { label: name, reason: wrong.to_string(), wrong: true }),
        })
    }

    /// Buffers for copies that move as many bytes as a memory-bound problem; none for others.
    fn copies(&self, problem: &Problem, sets: usize) -> Result<Vec<[CudaBuffer; 2]>, BenchError> {
        let Cost::Bytes(bytes) = problem.cost() else { return Ok(Vec::new()) };
        let half = (bytes / 2.0) as usize;
        (0..sets)
            .map(|i| {
                let mut pair = [self.device.alloc(half)?, self.device.alloc(half)?];
                pair[0].fill(i as u8 ^ 0x5a)?;
                Ok(pair)
            })
            .collect()
    }

    /// Measures roughly how long a work takes, to size its batches.
    fn candidate<'b>(
        &self,
        who: Who,
        label: String,
        resources: Option<[u32; 4]>,
        works: Vec<Work<'b>>,
    ) -> Result<Candidate<'b>, BenchError> {
        let rough = work::time(&works, 2, 5, &self.stream)?.max(1e-7);
        let count = |seconds: f64| (seconds / rough).ceil().clamp(1.0, MAX_LAUNCHES) as u32;
        // Whole rounds of the sets.
        let launches = count(self.protocol.batch).next_multiple_of(works.len().max(1) as u32);
        Ok(Candidate { who, label, resources, works, warm: count(self.protocol.warm), launches, samples: Vec::new() })
    }

    /// Every round times every candidate once, in a new order.
    fn rounds(&self, candidates: &mut [Candidate<'_>]) -> Result<(), BenchError> {
        for round in 0..self.protocol.repeat {
            for i in shuffled(candidates.len(), self.protocol.seed ^ (u64::from(round) << 32)) {
                thread::sleep(Duration::from_secs_f64(self.protocol.rest));
                let c = &mut candidates[i];
                c.samples.push(work::time(&c.works, c.warm, c.launches, &self.stream)?);
            }
        }
        Ok(())
    }
}

impl Candidate<'_> {
    fn entry(self) -> Option<Entry> {
        let Candidate { who, label, resources, launches, samples, .. } = self;
        Summary::of(&samples).map(|seconds| Entry { who, label, seconds, launches, resources })
    }
}

/// How to judge a product; nothing for other problems.
fn judge(problem: &Problem) -> Option<Judge> {
    match *problem {
        Problem::Gemm { batch, m, n, k, trans, elem, out } => {
            let [batch, m, n, k] = [batch, m, n, k].map(|e| e as usize);
            Some(Judge { batch, m, n, k, trans, elem, out })
        }
        Problem::VectorAdd { .. }
        | Problem::SiluMul { .. }
        | Problem::Softmax { .. }
        | Problem::RmsNorm { .. }
        | Problem::LayerNorm { .. }
        | Problem::ClusterNorm { .. }
        | Problem::StreamNorm { .. }
        | Problem::CumSum { .. }
        | Problem::Sort { .. }
        | Problem::TopK { .. }
        | Problem::Transpose { .. }
        | Problem::Attention { .. } => None,
    }
}

/// Fills a set's output with poison.
fn poison(set: &mut [CudaBuffer], elem: Scalar) -> Result<(), CudaError> {
    set.last_mut().map_or(Ok(()), |b| b.fill(check::poison(elem)))
}

/// The bytes of a set's output.
fn output(set: &[CudaBuffer]) -> Result<Vec<u8>, CudaError> {
    let Some(last) = set.last() else { return Ok(Vec::new()) };
    let mut bytes = vec![0; last.len()];
    last.download(&mut bytes)?;
    Ok(bytes)
}
