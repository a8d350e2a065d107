//! `gemm`: the whole way once: build a matrix product, verify, lower, emit, run, and check every element.

use super::options;
use super::outcome::{CliError, Outcome, Streams};
use crate::bench::problem::product_workload;
use crate::execute::{DeviceKind, Executor, Launch};
use lexopt::Arg::{Long, Short, Value};
use std::time::Instant;
use tilelift::runtime::sim::SimConfig;
use tilelift::{Artifact, OptLevel, Options, compile_timed, targets};
#[cfg(feature = "cuda")]
use tilelift_interp::{Buffer, Memory};
use tilelift_ir::{Kernel, Scalar};
use tilelift_isel::{LowerOptions, ScheduleKind, Target};
use tilelift_kernels::plan::{self, DeviceFacts, Problem, Sharing};
use tilelift_kernels::tensor::Tensor;
use tilelift_kernels::{Activation, Case, CaseLaunch, Gemm, Size};

pub(super) const HELP: &str = "\
usage: tilelift gemm [OPTION…]

Builds C = act(A * B + bias) with the builder, compiles it, runs it on the GPU (on the simulator if there is none), and compares
every element of C with a product in f64.
  --m N --n N --k N   extents (1024 on a GPU, 256 elsewhere)
  --dtype NAME        f16 (default), bf16 or tf32
  --out NAME          element type of C: f16, bf16 or f32
  --order NAME        nn (default), nt, tn, tt: which of A and B are stored transposed
  --bias              add a bias per column
  --activation NAME   none (default), relu, silu, gelu
  --tile MxNxK        tile of a program instance
  --warps N --stages N
  --schedule NAME     specialised or pipelined (the planner's choice)
  --device NAME       cuda, hip, sim, lane, schedule or interp
  --target NAME       what to compile for
  --opt N             0: as written, 1: improved by equality saturation (default), 2: layouts, too
  --emit              print the compiled text and stop";

struct Job {
    extents: [Option<u32>; 3],
    config: Gemm,
    bias: bool,
    activation: Activation,
    kind: Option<DeviceKind>,
    target: Option<Target>,
    emit: bool,
    /// The tile was asked for; warps and stages, if they were.
    tiled: bool,
    warps: Option<u32>,
    stages: Option<u32>,
    options: Options,
}

/// Most elements of a matrix on the command line.
const MAX_ELEMENTS: u64 = 1 << 28;
/// Largest extent.
const MAX: u32 = 1 << 20;

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser)?;
    let (device, note) = match job.kind {
        Some(kind) => (options::open(kind, job.target.as_ref())?, None),
        None => options::best(job.target.as_ref())?,
    };
    let usual = if device.kind().is_hardware() { 1024 } else { 256 };
    let [m, n, k] = job.extents.map(|e| e.unwrap_or(usual));
    // Inputs, output and reference are made on the host.
    for (what, elements) in [("A", u64::from(m) * u64::from(k)), ("B", u64::from(k) * u64::from(n)), ("C", u64::from(m) * u64::from(n))] {
        if elements > MAX_ELEMENTS {
            return Err(CliError::Usage(format!(
                "{what} would have {elements} elements; this command takes at most {MAX_ELEMENTS} a matrix"
            )));
        }
    }
    let target = device.target().cloned().unwrap_or_else(targets::usual);
    let (mut config, mut options) = (job.config.clone(), job.options.clone());
    config = config.epilogue(job.bias.then_some(job.config.out), job.activation).for_shape(m, n, k);
    let mut sharing = Sharing::Whole;
    if !job.tiled && job.options.lower.schedule != Some(ScheduleKind::Pipelined) {
        let Gemm { elem, out, trans_a, trans_b, .. } = config;
        let problem = Problem::new(elem, [m, n, k]).output(out).transposed(trans_a, trans_b);
        let problem = problem.epilogue(config.bias, config.activation);
        let list = plan::ranked(&problem, &DeviceFacts::usual(&target)).map_err(|e| CliError::Failed(e.to_string()))?;
        if let Some(best) = list.into_iter().next() {
            sharing = best.sharing;
            let LowerOptions { consumers, consumer_sets, .. } = best.options;
            options.lower = LowerOptions { consumers, consumer_sets, ..options.lower };
            let (warps, stages) = (job.warps.unwrap_or(best.gemm.warps), job.stages.unwrap_or(best.gemm.stages));
            config = best.gemm.schedule(warps, stages);
        }
    }
    let work = Work::of(&config, [m, n, k]);
    let workload = product_workload(config, sharing, [m, n, k]);
    let case = Case { name: format!("{m}x{n}x{k}"), row: 9, size: Size::Small, workload };
    let launches = case.launches(None).map_err(|e| CliError::Failed(e.to_string()))?;
    // What was chosen is meant for the products; sums of their parts plan for themselves.
    let usual = Options { opt: options.opt, ..Options::default() };
    let made: Vec<(&CaseLaunch, &Options)> =
        launches.iter().enumerate().map(|(n, l)| (l, if n == 0 { &options } else { &usual })).collect();
    if job.emit {
        for (l, options) in &made {
            let (artifact, _) = compile_timed(&l.kernel, &target, options).map_err(|e| CliError::Failed(e.to_string()))?;
            write!(streams.out, "{}", artifact.text)?;
        }
        return Ok(());
    }
    if let Some(note) = note {
        let what = if targets::has_objects(&target) { "its code object" } else { "its PTX text" };
        writeln!(streams.out, "{note}; the kernel runs on the simulator of {what} instead")?;
    }
    writeln!(streams.out, "device      {}", device.describe())?;
    for (l, options) in &made {
        writeln!(streams.out, "kernel      @{}, {m} x {n} x {k}, grid {:?}", l.kernel.name, l.grid)?;
        if device.target().is_some_and(targets::has_text) {
            compiled(&l.kernel, &target, options, streams)?;
        }
    }
    if device.kind() == DeviceKind::Sim {
        work.affordable()?;
    }
    let tensors = case.make_tensors();
    let output = execute(&device, &made, &case, &tensors, &work, streams)?;
    let verdict = case.check(&tensors, &[&output], None).map_err(|e| CliError::Failed(e.to_string()))?;
    writeln!(streams.out, "check       {verdict}")?;
    if verdict.pass() { Ok(()) } else { Err(CliError::Failed("the product is wrong".into())) }
}

fn job(parser: &mut lexopt::Parser) -> Result<Job, CliError> {
    let (mut extents, mut elem, mut out, mut order, mut bias) = ([None; 3], Scalar::F16, None, (false, false), false);
    let (mut activation, mut tile, mut warps, mut stages) = (Activation::None, None, None, None);
    let (mut kind, mut target, mut emit, mut lower) = (None, None, false, LowerOptions::default());
    let mut opt = OptLevel::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("m") => extents[0] = Some(options::number(parser, "m", 1..=MAX)?),
            Long("n") => extents[1] = Some(options::number(parser, "n", 1..=MAX)?),
            Long("k") => extents[2] = Some(options::number(parser, "k", 1..=MAX)?),
            Long("dtype") => elem = options::word(parser, "dtype", &[("f16", Scalar::F16), ("bf16", Scalar::BF16), ("tf32", Scalar::F32)])?,
            Long("out") => out = Some(options::word(parser, "out", &[("f16", Scalar::F16), ("bf16", Scalar::BF16), ("f32", Scalar::F32)])?),
            Long("order") => {
                let words = [("nn", (false, false)), ("nt", (false, true)), ("tn", (true, false)), ("tt", (true, true))];
                order = options::word(parser, "order", &words)?;
            }
            Long("bias") => bias = true,
            Long("activation") => {
                let all = [Activation::None, Activation::Relu, Activation::Silu, Activation::Gelu];
                activation = options::word(parser, "activation", &all.map(|a| (a.name(), a)))?;
            }
            Long("tile") => tile = Some(tile_of(&options::text(parser)?)?),
            Long("warps") => warps = Some(options::number(parser, "warps", 1..=32)?),
            Long("stages") => stages = Some(options::number(parser, "stages", 1..=16)?),
            Long("schedule") => lower.schedule = Some(options::word(parser, "schedule", &options::SCHEDULES)?),
            Long("device") => kind = Some(options::device(parser)?),
            Long("target") => target = Some(options::target(parser)?),
            Long("opt") => opt = options::opt(parser)?,
            Long("emit") => emit = true,
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    let mut config = Gemm::new(elem).transposed(order.0, order.1);
    config.out = out.unwrap_or(config.out);
    if let Some([bm, bn, bk]) = tile {
        config = config.tile(bm, bn, bk);
    }
    config.warps = warps.unwrap_or(config.warps);
    config.stages = stages.unwrap_or(config.stages);
    lower.stages = stages;
    let options = Options { opt, lower, ..Options::default() };
    Ok(Job { extents, config, bias, activation, kind, target, emit, tiled: tile.is_some(), warps, stages, options })
}

fn tile_of(text: &str) -> Result<[u32; 3], CliError> {
    let wrong = || CliError::Usage(format!("--tile takes three extents such as 128x128x64, not `{text}`"));
    let parts: Vec<u32> =
        text.split('x').map(|p| p.parse().ok().filter(|&e| (1..=4096).contains(&e))).collect::<Option<_>>().ok_or_else(wrong)?;
    parts.try_into().map_err(|_| wrong())
}

fn compiled(kernel: &Kernel, target: &Target, options: &Options, streams: &mut Streams<'_>) -> Outcome {
    let plan = tilelift::lower(kernel, target, options).map_err(|e| CliError::Failed(e.to_string()))?.plan;
    writeln!(streams.out, "plan        {plan}")?;
    let (artifact, times) = compile_timed(kernel, target, options).map_err(|e| CliError::Failed(e.to_string()))?;
    let stages: Vec<String> = tilelift::Stage::ALL.iter().map(|&s| format!("{s} {:.2}", times.of(s).as_secs_f64() * 1e3)).collect();
    writeln!(streams.out, "compile     {:.2} ms ({} ms)", times.total().as_secs_f64() * 1e3, stages.join(", "))?;
    writeln!(
        streams.out,
        "artifact    {}, {} threads, {} bytes of shared memory",
        size(&artifact),
        artifact.threads,
        artifact.shared_bytes
    )?;
    Ok(())
}

/// The bytes that are loaded.
fn size(artifact: &Artifact) -> String {
    match artifact.object.len() {
        0 => format!("{} bytes of PTX", artifact.text.len()),
        bytes => format!("code object of {bytes} bytes"),
    }
}

/// Runs the product and returns the bytes of C.
fn execute(
    device: &Executor,
    launches: &[(&CaseLaunch, &Options)],
    case: &Case,
    tensors: &[Tensor],
    work: &Work,
    streams: &mut Streams<'_>,
) -> Result<Vec<u8>, CliError> {
    let mut memory = case.memory(tensors);
    let products = work.products;
    match device {
        #[cfg(feature = "cuda")]
        Executor::Cuda { device, target } => on_gpu(device, target, launches, &mut memory, 2.0 * products, streams)?,
        #[cfg(feature = "hip")]
        Executor::Hip { device, target } => on_hip(device, target, launches, &mut memory, 2.0 * products, streams)?,
        Executor::Interp | Executor::Schedule(_) | Executor::Lane(_) | Executor::Sim(_) => {
            let seconds = work.seconds(device.kind());
            if seconds > PATIENCE {
                writeln!(
                    streams.out,
                    "run         {products:.2e} multiply-adds, about {} here; smaller extents and larger tiles are faster",
                    duration(seconds)
                )?;
                streams.out.flush()?;
            }
            let start = Instant::now();
            let mut reports = Vec::new();
            for (l, options) in launches {
                let launch = Launch { grid: l.grid, args: &l.args, programs: None, seed: 0, steps: None, options };
                reports.extend(device.run(&l.kernel, &launch, &mut memory).map_err(|e| CliError::Failed(e.to_string()))?);
            }
            writeln!(streams.out, "run         {:.3} s for {products:.2e} multiply-adds", start.elapsed().as_secs_f64())?;
            for r in reports {
                writeln!(
                    streams.out,
                    "counts      {} warp instructions, {} shared wavefronts ({} by bank conflicts), {} global sectors, no races",
                    r.instructions,
                    r.wavefronts,
                    r.conflict_excess(),
                    r.sectors
                )?;
            }
        }
    }
    Ok(memory.buffers.pop().map_or_else(Vec::new, |b| b.bytes().to_vec()))
}

/// Seconds that need no announcement.
const PATIENCE: f64 = 3.0;

/// Multiply-adds a second, roughly, of a device that is no hardware, on a core in a release build.
const fn rate(kind: DeviceKind) -> f64 {
    match kind {
        DeviceKind::Interp | DeviceKind::Schedule => 8e7,
        DeviceKind::Lane | DeviceKind::Sim | DeviceKind::Cuda | DeviceKind::Hip => 1e7,
    }
}

/// What there is to do where no hardware does it.
struct Work {
    /// Multiply-adds.
    products: f64,
    /// Steps of all tiles along k.
    steps: f64,
    /// Warp instructions, at least.
    instructions: f64,
}

/// Instructions of a warp in a step along k, at least: two loads and their addresses, a product, the loop.
const STEP: f64 = 8.0;

impl Work {
    fn of(config: &Gemm, [m, n, k]: [u32; 3]) -> Work {
        let steps = [(m, config.bm), (n, config.bn), (k, config.bk)].map(|(e, t)| f64::from(e.div_ceil(t.max(1)))).iter().product::<f64>();
        let products = [m, n, k].map(f64::from).iter().product();
        Work { products, steps, instructions: steps * f64::from(config.warps) * STEP }
    }

    /// Seconds, roughly, on a device that is no hardware.
    fn seconds(&self, kind: DeviceKind) -> f64 {
        let overhead = match kind {
            DeviceKind::Interp | DeviceKind::Schedule => self.steps * STEP,
            DeviceKind::Lane | DeviceKind::Sim | DeviceKind::Cuda | DeviceKind::Hip => self.instructions,
        };
        self.products / rate(kind) + overhead / OVERHEAD
    }

    /// Refuses what the simulator would give up.
    fn affordable(&self) -> Outcome {
        let most = SimConfig::default().max_instructions;
        if self.instructions <= most as f64 {
            return Ok(());
        }
        Err(CliError::Failed(format!(
            "{:.1e} steps of tiles are at least {:.1e} warp instructions, and the simulator gives up after {most}; \
             use a larger `--tile`, smaller extents, or `--device interp`",
            self.steps, self.instructions
        )))
    }
}

/// Instructions a second, roughly, of a device that is no hardware, where each does little.
const OVERHEAD: f64 = 1e7;

/// `40 s`, `7 min`, `3 h`.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// Launches that warm the GPU up, and that are timed.
#[cfg(any(feature = "cuda", feature = "hip"))]
const WARM_UP: u32 = 5;
#[cfg(any(feature = "cuda", feature = "hip"))]
const TIMED: u32 = 30;

#[cfg(feature = "hip")]
fn on_hip(
    device: &tilelift::runtime::hip::HipDevice,
    target: &Target,
    launches: &[(&CaseLaunch, &Options)],
    memory: &mut tilelift_interp::Memory,
    flops: f64,
    streams: &mut Streams<'_>,
) -> Outcome {
    let failed = |e: tilelift::runtime::hip::HipError| CliError::Failed(e.to_string());
    let mut seconds = 0.0;
    for (l, options) in launches {
        let (artifact, _) = compile_timed(&l.kernel, target, options).map_err(|e| CliError::Failed(e.to_string()))?;
        let start = Instant::now();
        let kernel = device.load(&artifact).map_err(failed)?;
        writeln!(
            streams.out,
            "load        {:.1} ms in the library, {} registers, {} bytes of scratch memory",
            start.elapsed().as_secs_f64() * 1e3,
            kernel.registers(),
            kernel.local_bytes()
        )?;
        seconds += device.execute_timed(&kernel, l.grid, &l.args, memory, WARM_UP, TIMED).map_err(failed)?;
    }
    let several = if launches.len() > 1 { format!(" of {} kernels, each by itself", launches.len()) } else { String::new() };
    writeln!(streams.out, "run         {:.1} us mean of {TIMED} launches{several}, {:.1} TFLOP/s", seconds * 1e6, flops / seconds * 1e-12)?;
    Ok(())
}

#[cfg(feature = "cuda")]
fn on_gpu(
    device: &tilelift::runtime::cuda::CudaDevice,
    target: &Target,
    launches: &[(&CaseLaunch, &Options)],
    memory: &mut Memory,
    flops: f64,
    streams: &mut Streams<'_>,
) -> Outcome {
    use crate::bench::work::{self, Work};
    let failed = |e: tilelift::runtime::cuda::CudaError| CliError::Failed(e.to_string());
    let mut loaded = Vec::new();
    for (l, options) in launches {
        let (artifact, _) = compile_timed(&l.kernel, target, options).map_err(|e| CliError::Failed(e.to_string()))?;
        let start = Instant::now();
        let kernel = device.load(&artifact).map_err(failed)?;
        writeln!(
            streams.out,
            "load        {:.1} ms in the driver, {} registers, {} bytes spilled",
            start.elapsed().as_secs_f64() * 1e3,
            kernel.registers(),
            kernel.local_bytes()
        )?;
        loaded.push((kernel, l.grid, l.args.clone()));
    }
    let mut buffers = Vec::new();
    for b in &memory.buffers {
        let mut buffer = device.alloc(b.len()).map_err(failed)?;
        buffer.upload(b.bytes()).map_err(failed)?;
        buffers.push(buffer);
    }
    let stream = device.stream().map_err(failed)?;
    let all = [Work::kernels(&loaded, &buffers.iter().collect::<Vec<_>>()).map_err(failed)?];
    let seconds = work::time(&all, WARM_UP, TIMED, &stream).map_err(failed)?;
    for (host, buffer) in memory.buffers.iter_mut().zip(&buffers) {
        let mut bytes = vec![0; host.len()];
        buffer.download(&mut bytes).map_err(failed)?;
        *host = Buffer::from_bytes(bytes);
    }
    let several = if loaded.len() > 1 { format!(" of {} kernels each", loaded.len()) } else { String::new() };
    writeln!(streams.out, "run         {:.1} us mean of {TIMED} launches{several}, {:.1} TFLOP/s", seconds * 1e6, flops / seconds * 1e-12)?;
    Ok(())
}
