//! `bench`: times of kernels on hardware beside cuBLASLt and device copies, counts of the simulator, times of compiles.

// The hardware half idles in a build without it.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

use super::bench_job::{COMPILE_REPEAT, Job, REPEAT, job};
use super::outcome::{CliError, Outcome, Streams};
use super::progress::Progress;
use super::{options, own, roofline};
use crate::bench::problem::{Suite, Variant};
use crate::bench::report::quote;
use crate::bench::{compile, sim};
use crate::execute::DeviceKind;
use std::ffi::OsString;
use std::fs;
use tilelift::targets;

pub(super) const HELP: &str = "\
usage: tilelift bench FILE [OPTION…]
       tilelift bench [SUITE…] [OPTION…]
       tilelift bench --roofline FILE.svg --from RESULTS.json [--target NAME]
       tilelift bench compile [--explicit] [--filter TEXT] [--target NAME] [--repeat N] [--json FILE]

FILE (it ends in `.tile`, or has a `/`): times launches of your own kernels on the GPU: those of its `; run:` lines, or others. The
outputs of sampled instances are compared with the interpreter first. docs/bench.md says what is measured and counted.
  --launch '@k(…)'    a launch in the syntax of `; run:` lines; may be given several times
  --launches FILE     launches, one a line; those behind `NAME:` are for NAME.tile
  --iterations N      timed launches (20), each behind a copy that overwrites the L2 cache; the median counts
  --rest-ms X         rest in front of each (5)
  --check N           instances that the interpreter runs, too (4; 0 for none)
  --any-arguments     compile for any arguments, not for what those of the launch are multiples of
  --peer-us X         what a peer takes for the launch, or for all of them in a row
  --device NAME       cuda (default), hip, or sim: counts of the sampled instances instead of times
  --target, --opt, --schedule, --seed, --json, --roofline   as below

SUITE: times kernels of the library on the GPU: ours in every variant asked for, cuBLASLt (products) and a device copy (the others), interleaved in one
process. Every output is checked before it is timed. Suites: elementwise, norms (softmax,
RMSNorm, LayerNorm), rows (running sums, sorts of up to 4096 columns), top-k (of long rows; values are checked, not positions), transpose, gemm, attention; all of them for `all`, or if none is named.
`compile` times every stage of the compiler for the kernels of the library, and needs no GPU.

what to run (lists are separated by commas; every combination is run)
  --suite NAME,…      as SUITE
  --sizes N,…         elements, columns, sides of squares or cubes, as the suite has it
  --shape S,…         whole shapes: N (elementwise), ROWSxCOLS (norms, rows, transpose), ROWSxCOLSxK (top-k), MxNxK or
                      BATCHxMxNxK (gemm),
                      BATCHxHEADSxLENGTHxDIM (attention)
  --dtype NAME,…      bf16 (default), f16, f32; tf32 is f32; gemm also f8e4m3, f8e5m2, i8
  --out NAME          element type of a product: bf16, f16 or f32; i32 of i8 (that of the operands; bf16 of 8-bit floats)
  --trans NAME,…      nn, nt, tn, tt (nn and nt)
  --tile T,…          tiles: MxNxK (gemm), ROWSxCOLS (transpose), ROWS (norms), N (elementwise), QUERIESxKEYS (attention)
  --warps N,…  --stages N,…  --group N,…
  --schedule NAME,…   specialised or pipelined (gemm, attention; the planner's choice)
  --splits N,…        parts of the depth, added up by a second launch (gemm; the model's choice)
  --stream-k NxA,…    stream-K: k-iterations dealt out to N workers, A tiles in flight, or, with `r` behind, those of the rest that full rounds of
                      tiles leave: 132x1, 132x3r (gemm; the model's choice)
  --clusters NX,…     clusters of two of N blocks that share an operand; pairs of rows (132r) or of columns (132c) (gemm with tile, stages and
                      consumers; the model's choice)
  --consumers N,…     consumer warpgroups (gemm, attention; the planner's choice)
  --consumer-sets N,… 1: cooperative warpgroups, 2: ping-pong (gemm; the model's choice)
  --swapped           multiply operands the other way round (gemm with a tile; the model's choice)
  --explicit          the kernels whose author says who does what, too (gemm of f16 and bf16; compile)
  --ablation          from a pipelined loop to the model's choice, one step of specialisation after the other (gemm without tiles)
  --causal WORD,…     on, off (attention; both)
  --overlap WORD,…    products run while lanes compute: on, off (attention; the planner's choice)
  --persistent WORD,… an instance runs several grid positions: on, off (gemm, attention; the planner's choice)
  --early WORD,…      launches begin while the ones in front of them end: on, off (on, where the target has it)
  --swizzle N,…       swizzle width in which operands wait: 128, 64, 32 (specialised gemm, attention; the planner's choice)
  --operand-a WORD,…  operand A from shared memory (SS), or through registers (RS): shared, registers (likewise)
  --results WORD,…    epilogue store: bulk (TMA) or lanes (likewise)
  --no-library        leave cuBLASLt out
  --filter TEXT       only problems, or kernels to compile, whose name contains the text
how to measure
  --repeat N          rounds, a batch of every candidate in each (9; compile: 200)
  --warm-ms X         launches before a batch that do not count (6)
  --batch-ms X        length of a batch (20)
  --rest-ms X         rest before a batch (100)
  --sets N            buffer sets in rotation (enough to overflow twice the L2 cache; 1 keeps inputs cached)
  --seed N            seed of data and orders (1)
  --steady            no rests, long batches: the speed of a hot GPU (as --rest-ms 0 --warm-ms 200 --batch-ms 350)
  --device NAME       cuda (default), or sim: counts per program instead of times
  --target NAME       what to compile for
  --opt N             0: kernels as written, 1: improved by equality saturation (default), 2: layouts, too
  --records FILE      measurements of `tune`: products run with the quickest choice in them instead of the model's
  --json FILE         results as JSON, too
  --roofline FILE     a chart (SVG) of what was timed: operations a second over operations per byte, under the roofs of the target's bandwidth and
                      matrix units, each kernel with its share of the floor that these set; with --from RESULTS.json, of an earlier run, and
                      without measuring
  --emit              print the compiled texts and stop";

/// What goes to the JSON file.
#[derive(Default)]
struct Json {
    /// Names and JSON values of what holds for all rows.
    head: Vec<(&'static str, String)>,
    rows: Vec<String>,
}

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let args: Vec<OsString> = parser.raw_args()?.collect();
    if roofline::names_results(&args) {
        return roofline::run(args);
    }
    if own::names_file(&args) {
        return own::run(args, streams);
    }
    let job = job(&mut lexopt::Parser::from_args(args))?;
    let mut json = Json::default();
    let result = if job.emit {
        texts(&job, streams)
    } else if job.compile {
        compiles(&job, &mut json, streams)
    } else if job.kind == DeviceKind::Cuda {
        hardware(&job, &mut json, streams)
    } else {
        counts(&job, &mut json, streams)
    };
    // What was measured before an error is worth keeping.
    let head: Vec<String> = json.head.iter().map(|(k, v)| format!("{}: {v}, ", quote(k))).collect();
    let version = quote(env!("CARGO_PKG_VERSION"));
    let text = format!("{{\"tilelift\": {version}, {}\"rows\": [\n  {}\n]}}\n", head.concat(), json.rows.join(",\n  "));
    if let Some(path) = &job.json {
        fs::write(path, &text).map_err(|e| CliError::Unusable(format!("{path}: {e}")))?;
    }
    if let Some(path) = job.roofline.as_ref().filter(|_| !json.rows.is_empty()) {
        roofline::of_results(path, "the results", &text, job.target.as_ref())?;
    }
    result
}

/// Most elements of a tensor: what an index of 32 bits can reach.
const MAX_ELEMENTS: u64 = i32::MAX as u64;

/// The problems that are not too large, and a line on standard error for each that is.
fn problems(
    job: &Job,
    usual: &dyn Fn(Suite) -> Vec<Vec<u32>>,
    streams: &mut Streams<'_>,
) -> Result<Vec<crate::bench::problem::Problem>, CliError> {
    let mut list = Vec::new();
    for p in job.selection.problems(usual) {
        let workload = p.workload(&Variant::default()).1;
        if !workload.name().contains(&job.filter) {
            continue;
        }
        let tensors = workload.tensors();
        let elements = tensors.iter().map(|t| t.shape.iter().map(|&e| u64::from(e)).product::<u64>()).max().unwrap_or(0);
        if elements > MAX_ELEMENTS {
            writeln!(streams.err, "{p}: a tensor has {elements} elements; benches take at most {MAX_ELEMENTS}")?;
        } else {
            list.push(p);
        }
    }
    if list.is_empty() { Err(CliError::Usage("no problem is left to bench".into())) } else { Ok(list) }
}

fn compiles(job: &Job, json: &mut Json, streams: &mut Streams<'_>) -> Outcome {
    // What authors write needs units that the usual target lacks.
    let usual = if job.selection.explicit { tilelift_nvptx::sm_90a } else { targets::usual };
    let target = job.target.clone().unwrap_or_else(usual);
    let repeat = job.repeat.unwrap_or(COMPILE_REPEAT);
    let mut kernels = compile::kernels();
    if job.selection.explicit {
        kernels.extend(compile::explicit(&target));
    }
    kernels.retain(|(name, _)| name.contains(&job.filter));
    if kernels.is_empty() {
        return Err(CliError::Usage(format!("no kernel's name contains `{}`; `--explicit` adds those with tasks", job.filter)));
    }
    let width = kernels.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    writeln!(
        streams.out,
        "compiles for {}, {repeat} of each after a warm-up, one thread; `plan` and `prove` are parts of `lower`, which chooses layouts, too, and `check` of `emit`",
        target.name
    )?;
    writeln!(streams.out, "{}", compile::head(width))?;
    json.head.push(("target", quote(target.name)));
    let progress = Progress::of(kernels.len(), streams);
    let mut refused = 0;
    for (name, workload) in &kernels {
        progress.begins(name);
        let measured = compile::measure(name, workload.as_ref(), &target, job.opt, repeat);
        progress.done();
        let row = match measured {
            Ok(row) => row,
            // Not every kernel is for every chip.
            Err(e) => {
                refused += 1;
                progress.aside(|| writeln!(streams.err, "{name}: {e}"))?;
                continue;
            }
        };
        progress.aside(|| writeln!(streams.out, "{}", row.line(width)).and_then(|()| streams.out.flush()))?;
        json.rows.push(row.json());
    }
    if refused == kernels.len() { Err(CliError::Failed(format!("no kernel compiles for {}", target.name))) } else { Ok(()) }
}

/// The texts of all variants.
fn texts(job: &Job, streams: &mut Streams<'_>) -> Outcome {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    for problem in problems(job, &small, streams)? {
        for variant in job.selection.variants(&problem, Some(&target)) {
            let (label, workload) = problem.workload(&variant);
            let failed = |e: String| CliError::Failed(format!("{problem} {label}: {e}"));
            let kernel = workload.build().map_err(|e| failed(e.to_string()))?;
            let artifact = tilelift::compile(&kernel, &target, &variant.options(job.opt)).map_err(|e| failed(e.to_string()))?;
            writeln!(streams.out, "// {problem} {label}\n{}", artifact.text)?;
        }
    }
    Ok(())
}

/// Shapes that the simulator runs in seconds.
fn small(suite: Suite) -> Vec<Vec<u32>> {
    match suite {
        Suite::Elementwise => vec![vec![65536]],
        Suite::Norms => vec![vec![64, 4096]],
        Suite::Rows => vec![vec![64, 1024]],
        Suite::TopK => vec![vec![4, 20_000, 50]],
        Suite::Transpose => vec![vec![512, 512]],
        Suite::Gemm => vec![vec![512, 512, 512]],
        Suite::Attention => vec![vec![1, 2, 256, 64]],
    }
}

fn counts(job: &Job, json: &mut Json, streams: &mut Streams<'_>) -> Outcome {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    let problems = problems(job, &small, streams)?;
    let jobs = || problems.iter().flat_map(|p| job.selection.variants(p, Some(&target)).into_iter().map(move |v| (p, v)));
    let width = jobs().map(|(p, v)| p.name().len() + 1 + p.workload(&v).0.len()).max().unwrap_or(0);
    writeln!(streams.out, "counts of the simulator for {}; warp instructions, shared-memory wavefronts, 32-byte sectors", target.name)?;
    writeln!(streams.out, "{}", sim::head(width))?;
    json.head.push(("target", quote(target.name)));
    let mut failed = 0;
    for (problem, variant) in jobs() {
        match sim::measure(problem, &variant, &target, job.opt) {
            Ok(row) => {
                writeln!(streams.out, "{}", row.line(width))?;
                json.rows.push(row.json());
            }
            Err(e) => {
                failed += 1;
                writeln!(streams.out, "{} {}: {e}", problem.name(), problem.workload(&variant).0)?;
            }
        }
        streams.out.flush()?;
    }
    if failed > 0 { Err(CliError::Failed(format!("{failed} variants failed"))) } else { Ok(()) }
}

#[cfg(not(feature = "cuda"))]
fn hardware(_: &Job, _: &mut Json, _: &mut Streams<'_>) -> Outcome {
    Err(CliError::Unusable("the device `cuda` is not built in; build with the feature of that name, or use --device sim".into()))
}

/// Shapes that keep a large GPU busy.
#[cfg(feature = "cuda")]
fn usual(suite: Suite) -> Vec<Vec<u32>> {
    match suite {
        Suite::Elementwise => vec![vec![1 << 27]],
        Suite::Norms => vec![vec![16384, 8192], vec![16384, 4096], vec![65536, 1024]],
        Suite::Rows => vec![vec![16384, 8192], vec![16384, 2048]],
        Suite::TopK => vec![vec![1, 128_256, 50], vec![64, 128_256, 50], vec![1, 262_144, 50], vec![64, 262_144, 50]],
        Suite::Transpose => vec![vec![8192, 8192]],
        Suite::Gemm => [1024, 2048, 4096, 8192].into_iter().map(|s| vec![s, s, s]).collect(),
        Suite::Attention => vec![vec![4, 48, 4096, 128], vec![1, 48, 16384, 128], vec![4, 48, 4096, 64]],
    }
}

#[cfg(feature = "cuda")]
fn hardware(job: &Job, json: &mut Json, streams: &mut Streams<'_>) -> Outcome {
    use crate::bench::gpu::{Bench, BenchError, Protocol};
    use crate::bench::{locate, stats};
    use crate::execute::Executor;
    use tilelift::runtime::cuda::CudaError;

    let problems = problems(job, &usual, streams)?;
    let executor = options::open(DeviceKind::Cuda, job.target.as_ref())?;
    let Executor::Cuda { device, target } = &executor else {
        return Err(CliError::Unusable("the device is no GPU".into()));
    };
    // What was measured on another device says nothing about this one.
    let (mut selection, all) = (job.selection.clone(), job.selection.records.len());
    selection.records.retain(|r| r.device == device.name());
    if selection.records.len() < all {
        writeln!(
            streams.err,
            "{} of {all} records are of another device than {}, and not used",
            all - selection.records.len(),
            device.name()
        )?;
    }
    let [warm, batch, rest] = job.times.map(|ms| ms * 1e-3);
    let protocol = Protocol { repeat: job.repeat.unwrap_or(REPEAT), warm, batch, rest, seed: job.seed, sets: job.sets, opt: job.opt };
    let wants_library = job.library && problems.iter().any(|p| p.suite() == Suite::Gemm);
    let places = wants_library.then(locate::cublaslt);
    let (bench, missing) = Bench::open(device, target, places.as_deref(), protocol).map_err(|e| CliError::Unusable(e.to_string()))?;
    writeln!(
        streams.out,
        "{}; {} rounds, each in a new order; before every batch of about {} ms: {} ms of rest, {} ms of warm-up",
        executor.describe(),
        protocol.repeat,
        job.times[1],
        job.times[2],
        job.times[0]
    )?;
    writeln!(
        streams.out,
        "times are CUDA-event means of a batch of launches; random normal data; copy of 1 GiB at {:.0} GB/s, read and written",
        bench.copy_rate
    )?;
    match (bench.library(), missing) {
        (Some(library), _) => writeln!(streams.out, "cublasLt: {library}, its heuristic's first algorithm, f32 sums")?,
        (None, Some(e)) => writeln!(streams.out, "cublasLt: none ({e})")?,
        (None, None) => {}
    }
    writeln!(streams.out)?;
    streams.out.flush()?;
    let [warm_ms, batch_ms, rest_ms] = job.times;
    json.head = vec![
        ("device", quote(device.name())),
        ("target", quote(target.name)),
        ("multiprocessors", target.costs.processors.to_string()),
        ("library", bench.library().map_or_else(|| "null".into(), |l| quote(&l))),
        ("copy_gb_per_s", format!("{:.1}", bench.copy_rate)),
        (
            "protocol",
            format!(
                "{{\"repeat\": {}, \"warm_ms\": {warm_ms}, \"batch_ms\": {batch_ms}, \"rest_ms\": {rest_ms}, \"seed\": {}}}",
                protocol.repeat, job.seed
            ),
        ),
    ];
    let mut wrong = 0;
    let progress = Progress::of(problems.len(), streams);
    // Rows, too, come in a random order, so that none always follows the same one.
    for i in stats::shuffled(problems.len(), job.seed) {
        let problem = &problems[i];
        progress.begins(&problem.name());
        let row = bench.row(problem, &selection.variants(problem, Some(target)));
        progress.done();
        match row {
            Ok(row) => {
                progress.aside(|| writeln!(streams.out, "{}", row.table()))?;
                wrong += row.refused.iter().filter(|r| r.wrong).count();
                json.rows.push(row.json());
            }
            // The next row may fit.
            Err(e @ (BenchError::Memory { .. } | BenchError::Type(_) | BenchError::Cuda(CudaError::Driver { call: "cuMemAlloc", .. }))) => {
                progress.aside(|| writeln!(streams.out, "{problem}: not timed: {e}\n"))?;
            }
            Err(e @ BenchError::Cuda(_)) => return Err(CliError::Failed(format!("{problem}: {e}; the bench stops here"))),
        }
        streams.out.flush()?;
    }
    if wrong > 0 { Err(CliError::Failed(format!("{wrong} outputs were wrong"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_problems_are_left_out() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut streams = Streams { out: &mut out, err: &mut err, terminal: false };
        let line = "transpose --shape 65536x65536,64x64";
        let j = job(&mut lexopt::Parser::from_args(line.split_whitespace())).unwrap();
        let list = problems(&j, &small, &mut streams).unwrap();
        assert_eq!(list.len(), 1);
        assert!(String::from_utf8(err).unwrap().contains("4294967296 elements"));
    }
}
