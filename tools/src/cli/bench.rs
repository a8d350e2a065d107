//! `bench`: times of kernels on hardware beside cuBLASLt and device copies, counts of the simulator, times of compiles.

// The hardware half idles in a build without it.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))]

use super::outcome::{CliError, Outcome, Streams};
use super::progress::Progress;
use super::{options, own, roofline};
use crate::bench::problem::{ELEMS, ORDERS, OUTS, Suite, Variant};
use crate::bench::report::quote;
use crate::bench::selection::Selection;
use crate::bench::{compile, records, sim};
use crate::execute::DeviceKind;
use lexopt::Arg::{Long, Short, Value};
use std::ffi::OsString;
use std::fs;
use tilelift::{OptLevel, targets};
use tilelift_ir::Scalar;
use tilelift_isel::Target;

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
  --peer-us X         what a peer takes for the launch, or for all of them in a row
  --device NAME       cuda (default), or sim: counts of the sampled instances instead of times
  --target, --opt, --schedule, --seed, --json, --roofline   as below

SUITE: times kernels of the library on the GPU: ours in every variant asked for, cuBLASLt (products) and a device copy (the others), interleaved in one
process. Every output is checked before it is timed. Suites: elementwise, norms (softmax,
RMSNorm, LayerNorm), rows (running sums, sorts of up to 4096 columns), transpose, gemm, attention; all of them for `all`, or if none is named.
`compile` times every stage of the compiler for the kernels of the library, and needs no GPU.

what to run (lists are separated by commas; every combination is run)
  --suite NAME,…      as SUITE
  --sizes N,…         elements, columns, sides of squares or cubes, as the suite has it
  --shape S,…         whole shapes: N (elementwise), ROWSxCOLS (norms, transpose), MxNxK or
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

/// A command line.
#[derive(Clone, Debug)]
struct Job {
    selection: Selection,
    compile: bool,
    repeat: Option<u32>,
    /// Warm-up, batch and rest in milliseconds.
    times: [f64; 3],
    sets: Option<u32>,
    seed: u64,
    library: bool,
    kind: DeviceKind,
    target: Option<Target>,
    json: Option<String>,
    roofline: Option<String>,
    opt: OptLevel,
    emit: bool,
    /// What the names of problems have to contain.
    filter: String,
}

const REPEAT: u32 = 9;
const COMPILE_REPEAT: u32 = 200;
const BURST: [f64; 3] = [6.0, 20.0, 100.0];
const STEADY: [f64; 3] = [200.0, 350.0, 0.0];
/// Largest extent on the command line.
const MAX: u32 = 1 << 30;
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

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

fn job(parser: &mut lexopt::Parser) -> Result<Job, CliError> {
    let mut s = Selection::default();
    let (mut compile, mut repeat, mut times, mut sets, mut seed) = (false, None, BURST, None, 1);
    let mut filter = String::new();
    let (mut library, mut kind, mut target, mut json, mut opt) = (true, DeviceKind::Cuda, None, None, OptLevel::default());
    let (mut emit, mut device, mut roofline) = (false, false, None);
    while let Some(arg) = parser.next()? {
        match arg {
            Value(v) if v == "compile" => compile = true,
            Long("suite") => {
                for word in options::text(parser)?.split(',') {
                    suite_of(word, &mut s.suites)?;
                }
            }
            Value(v) => suite_of(&v.to_string_lossy(), &mut s.suites)?,
            Long("sizes") => s.sizes = numbers(parser, "sizes", MAX)?,
            Long("shape") => {
                let list = options::text(parser)?;
                for word in list.split(',') {
                    s.shapes.push(extents(word, "shape", 4, MAX)?);
                }
            }
            Long("dtype") => s.elems = words(parser, "dtype", &ELEMS)?,
            Long("out") => s.out = Some(options::word(parser, "out", &OUTS)?),
            Long("trans") => s.trans = words(parser, "trans", &ORDERS)?,
            Long("tile") => {
                let list = options::text(parser)?;
                for word in list.split(',') {
                    let mut tile = [0; 3];
                    let given = extents(word, "tile", 3, 1 << 20)?;
                    tile[..given.len()].copy_from_slice(&given);
                    s.tiles.push(tile);
                }
            }
            Long("warps") => s.warps = numbers(parser, "warps", 32)?,
            Long("stages") => s.stages = numbers(parser, "stages", 16)?,
            Long("consumers") => s.consumers = numbers(parser, "consumers", 8)?,
            Long("stream-k") => {
                let list = options::text(parser)?;
                let one = |w: &str| w.parse().map_err(|e| CliError::Usage(format!("--stream-k: {e}")));
                s.stream_k = list.split(',').map(one).collect::<Result<_, _>>()?;
            }
            Long("clusters") => {
                let list = options::text(parser)?;
                let one = |w: &str| w.parse().map_err(|e| CliError::Usage(format!("--clusters: {e}")));
                s.clusters = list.split(',').map(one).collect::<Result<_, _>>()?;
            }
            Long("splits") => s.splits = numbers(parser, "splits", 64)?,
            Long("swapped") => s.swapped = true,
            Long("explicit") => s.explicit = true,
            Long("ablation") => s.ablation = true,
            Long("consumer-sets") => s.consumer_sets = numbers(parser, "consumer-sets", 2)?,
            Long("group") => s.groups = numbers(parser, "group", 1 << 16)?,
            Long("schedule") => s.schedules = words(parser, "schedule", &options::SCHEDULES)?,
            Long("causal") => s.causal = words(parser, "causal", &SWITCH)?,
            Long("overlap") => s.overlaps = words(parser, "overlap", &SWITCH)?,
            Long("early") => s.early = words(parser, "early", &SWITCH)?,
            Long("persistent") => s.persistent = words(parser, "persistent", &SWITCH)?,
            Long("swizzle") => s.swizzles = numbers(parser, "swizzle", 128)?,
            Long("operand-a") => s.register_a = words(parser, "operand-a", &options::OPERAND_A)?,
            Long("results") => s.bulks = words(parser, "results", &options::RESULTS)?,
            Long("no-library") => library = false,
            Long("filter") => filter = parser.value()?.to_string_lossy().into_owned(),
            Long("repeat") => repeat = Some(options::number(parser, "repeat", 1..=100_000)?),
            Long("warm-ms") => times[0] = options::number(parser, "warm-ms", 0.0..=1e5)?,
            Long("batch-ms") => times[1] = options::number(parser, "batch-ms", 0.0..=1e5)?,
            Long("rest-ms") => times[2] = options::number(parser, "rest-ms", 0.0..=1e5)?,
            Long("steady") => times = STEADY,
            Long("sets") => sets = Some(options::number(parser, "sets", 1..=64)?),
            Long("seed") => seed = options::number(parser, "seed", 0..=u64::MAX)?,
            Long("device") => {
                device = true;
                kind = options::word(parser, "device", &[("cuda", DeviceKind::Cuda), ("sim", DeviceKind::Sim)])?;
            }
            Long("target") => target = Some(options::target(parser)?),
            Long("opt") => opt = options::opt(parser)?,
            Long("emit") => emit = true,
            Long("records") => s.records = records::read(&options::text(parser)?).map_err(CliError::Unusable)?,
            Long("json") => json = Some(options::text(parser)?),
            Long("roofline") => roofline = Some(options::text(parser)?),
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    if compile && !s.suites.is_empty() {
        return Err(CliError::Usage("`compile` goes with no other suite: it needs no GPU and measures another thing".into()));
    }
    if compile && (!s.shapes.is_empty() || !s.tiles.is_empty() || device) {
        return Err(CliError::Usage(
            "`bench compile` times the library's kernels and runs nothing; leave out `--shape`, `--tile` and `--device`".into(),
        ));
    }
    if roofline.is_some() && (compile || emit || kind == DeviceKind::Sim) {
        return Err(CliError::Usage("`--roofline` draws times of kernels: leave out `compile`, `--emit` and `--device sim`".into()));
    }
    if s.swapped && s.tiles.is_empty() {
        return Err(CliError::Usage("`--swapped` goes with `--tile`; without one the model decides that, too".into()));
    }
    if !s.records.is_empty() && !s.tiles.is_empty() {
        return Err(CliError::Usage("`--records` chooses tiles; leave out `--tile`".into()));
    }
    if s.explicit && !s.suites.is_empty() && !s.suites.contains(&Suite::Gemm) {
        return Err(CliError::Usage(
            "`--explicit` goes with `bench gemm` and `bench compile`; the other suites have such kernels in their lists, or none".into(),
        ));
    }
    if s.ablation && (s.suites != [Suite::Gemm] || !s.tiles.is_empty() || !s.splits.is_empty() || !s.stream_k.is_empty() || s.swapped) {
        return Err(CliError::Usage(
            "`--ablation` chooses the variants of `bench gemm` itself; leave out other suites, tiles, splits, streams and `--swapped`"
                .into(),
        ));
    }
    if !(s.splits.is_empty() && s.stream_k.is_empty())
        && s.suites.contains(&Suite::Gemm)
        && let Some(shape) = s.shapes.iter().find(|s| s.len() == 4 && s[0] > 1)
    {
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        return Err(CliError::Usage(format!(
            "`--splits` and `--stream-k` share the depth of one product, and {} is a batch; leave out one or the other",
            shape.join("x")
        )));
    }
    if s.suites.is_empty() {
        s.suites = Suite::ALL.to_vec();
    }
    if s.elems.is_empty() {
        s.elems = vec![Scalar::BF16];
    }
    if s.causal.is_empty() {
        s.causal = vec![false, true];
    }
    if s.trans.is_empty() {
        s.trans = ORDERS[..2].iter().map(|o| o.1).collect();
    }
    for shape in &s.shapes {
        if !s.suites.iter().any(|u| u.takes(shape.len())) {
            let wanted: Vec<String> = s.suites.iter().map(|u| format!("{} (for {})", u.extents(), u.word())).collect();
            return Err(CliError::Usage(format!(
                "a shape of {} extents suits none of the suites; they take {}",
                shape.len(),
                wanted.join(", ")
            )));
        }
    }
    Ok(Job { selection: s, compile, repeat, times, sets, seed, library, kind, target, json, roofline, opt, emit, filter })
}

/// Adds the suite of a word, or every suite for `all`.
fn suite_of(word: &str, list: &mut Vec<Suite>) -> Outcome {
    if word == "all" {
        list.extend(Suite::ALL);
        return Ok(());
    }
    match Suite::ALL.iter().copied().find(|s| s.word() == word) {
        Some(suite) => {
            list.push(suite);
            Ok(())
        }
        None => Err(CliError::Usage(format!(
            "there is no suite `{word}`; known are all, {}, compile; a file ends in `.tile` or has a `/`",
            suites()
        ))),
    }
}

fn suites() -> String {
    Suite::ALL.iter().map(|s| s.word()).collect::<Vec<_>>().join(", ")
}

/// A list of numbers from 1 to `max`.
fn numbers(parser: &mut lexopt::Parser, name: &str, max: u32) -> Result<Vec<u32>, CliError> {
    let list = options::text(parser)?;
    let one = |w: &str| w.parse().ok().filter(|n| (1..=max).contains(n));
    let wrong = |w: &str| CliError::Usage(format!("--{name} takes numbers from 1 to {max} separated by commas, not `{w}`"));
    list.split(',').map(|w| one(w).ok_or_else(|| wrong(w))).collect()
}

/// A list of words.
fn words<T: Copy>(parser: &mut lexopt::Parser, name: &str, known: &[(&str, T)]) -> Result<Vec<T>, CliError> {
    let list = options::text(parser)?;
    let all: Vec<&str> = known.iter().map(|(w, _)| *w).collect();
    let wrong = |w: &str| CliError::Usage(format!("--{name} takes {} separated by commas, not `{w}`", all.join(", ")));
    list.split(',').map(|w| known.iter().find(|(k, _)| *k == w).map(|&(_, t)| t).ok_or_else(|| wrong(w))).collect()
}

/// One to `most` extents with `x` between them.
fn extents(word: &str, name: &str, most: usize, max: u32) -> Result<Vec<u32>, CliError> {
    let parts: Option<Vec<u32>> = word.split('x').map(|p| p.parse().ok().filter(|e| (1..=max).contains(e))).collect();
    parts
        .filter(|p| (1..=most).contains(&p.len()))
        .ok_or_else(|| CliError::Usage(format!("--{name} takes up to {most} extents from 1 to {max} such as 128x128x64, not `{word}`")))
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
    for (name, workload) in &kernels {
        progress.begins(name);
        let row =
            compile::measure(name, workload.as_ref(), &target, job.opt, repeat).map_err(|e| CliError::Failed(format!("{name}: {e}")))?;
        progress.done();
        progress.aside(|| writeln!(streams.out, "{}", row.line(width)).and_then(|()| streams.out.flush()))?;
        json.rows.push(row.json());
    }
    Ok(())
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

    fn parse(line: &str) -> Result<Job, CliError> {
        job(&mut lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn lists_shapes_and_overrides_are_read() {
        let j =
            parse("gemm --shape 4096x2048x512,64x64x64 --dtype bf16,tf32 --trans nt --tile 128x256x64 --warps 4,8 --stages 3 --repeat 5")
                .unwrap();
        let s = &j.selection;
        assert_eq!((s.suites.as_slice(), s.shapes.len(), s.elems.len()), (&[Suite::Gemm][..], 2, 2));
        assert_eq!((s.trans.as_slice(), s.tiles.as_slice()), (&[(false, true)][..], &[[128, 256, 64]][..]));
        let p = s.problems(&|_| Vec::new())[0];
        assert_eq!((s.variants(&p, None).len(), j.repeat, j.times), (2, Some(5), BURST));
        let j = parse("transpose --tile 32x64 --steady --rest-ms 5 --device sim").unwrap();
        assert_eq!((j.selection.tiles[0], j.times, j.kind), ([32, 64, 0], [200.0, 350.0, 5.0], DeviceKind::Sim));
        let j = parse("").unwrap();
        assert_eq!((j.selection.suites.len(), j.selection.trans.len(), j.compile), (6, 2, false));
        assert!(parse("compile --target sm_90a").unwrap().compile);
    }

    #[test]
    fn wrong_lines_are_refused_with_the_words_that_help() {
        let cases = [
            ("gem", "elementwise"),
            ("gemm --sizes 0", "from 1 to"),
            ("gemm --sizes 8,", "separated by commas"),
            ("gemm --shape 1x2x3x4x5", "up to 4 extents"),
            ("gemm --shape 64x64", "MxNxK"),
            ("--dtype int8", "bf16"),
            ("--trans nx", "nn, nt"),
            ("--device lane", "cuda, sim"),
            ("--warm-ms -1", "number from"),
            ("--warm-ms NaN", "number from"),
            ("compile gemm", "no other suite"),
            ("compile --device sim", "runs nothing"),
            ("gemm --swapped", "goes with `--tile`"),
            ("--frobnicate", "frobnicate"),
        ];
        for (line, want) in cases {
            let e = parse(line).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(e.contains(want), "{line}: {e}");
        }
    }

    #[test]
    fn huge_problems_are_left_out() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut streams = Streams { out: &mut out, err: &mut err, terminal: false };
        let j = parse("transpose --shape 65536x65536,64x64").unwrap();
        let list = problems(&j, &small, &mut streams).unwrap();
        assert_eq!(list.len(), 1);
        assert!(String::from_utf8(err).unwrap().contains("4294967296 elements"));
    }
}
