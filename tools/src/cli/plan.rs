//! `plan`: how a product will run, and what the model says of it; `tune`: what the GPU says of the first few.

use super::options;
use super::outcome::{CliError, Outcome, Streams};
use crate::bench::problem::{ELEMS, ORDERS, OUTS};
use crate::bench::records::{self, Record};
use lexopt::Arg::{Long, Short, Value};
use std::time::Instant;
use tilelift::targets;
use tilelift_ir::Scalar;
use tilelift_isel::Target;
use tilelift_isel::gemm::Product;
use tilelift_kernels::Gemm;
use tilelift_kernels::plan::{self as plans, Candidate, DeviceFacts, Sharing};

pub(super) const PLAN_HELP: &str = "\
usage: tilelift plan gemm [OPTION…]

Prints the tiles, rings and orders with which a product may run on a target, by the time that the model predicts, and, on a target with bulk copies and
group matrix instructions, what the time is made of: rounds of tiles and how full they are, the launch, the main loops and
what bounds them, epilogues, and sums of parts of the depth. The first line is what `bench gemm` and `gemm` take. `k2` stands for two parts
of the depth, `d132x3` for steps dealt out evenly to 132 workers with 3 tiles in flight, `d132x3r` for the same of the rest that full rounds of
tiles leave; a second launch adds up what several have of a tile (parts).
  --m N --n N --k N   extents (4096)
  --batch N           products, each with operands of its own (1)
  --dtype NAME        bf16 (default), f16, tf32, f8e4m3, f8e5m2, i8
  --out NAME          element type of C (that of A and B; bf16 of 8-bit floats, i32 of integers)
  --trans NAME        nn, nt (default), tn, tt
  --target NAME       sm_90a (default)
  --multiprocessors N of the machine (as many as the target's tables were measured on)
  --top N             lines (10)
  --each              so many of each way: whole tiles, parts of the depth, steps dealt out
  --records FILE      measurements of `tune`, shown beside the predictions";

pub(super) const TUNE_HELP: &str = "\
usage: tilelift tune gemm [OPTION…]

Times the first choices of the model for a product on the GPU, each checked before it is timed, beside cuBLASLt, and appends a line of
JSON per choice to a file of records, which `plan` and `bench gemm` read with the same option.
  --m … --trans       as `tilelift help plan`
  --top N             choices (8)
  --each              so many of each way: whole tiles, parts of the depth, steps dealt out
  --repeat N          rounds (5)
  --records FILE      where the records go (none: they are only printed)
  --no-library        leave cuBLASLt out";

struct Job {
    product: Product,
    target: Target,
    top: usize,
    repeat: u32,
    records: Option<String>,
    library: bool,
    /// The first choices are taken of each way to share out the work.
    each: bool,
}

/// Largest extent on the command line.
const MAX: u32 = 1 << 24;

fn job(parser: &mut lexopt::Parser, top: usize) -> Result<Job, CliError> {
    let (mut shape, mut elem, mut out, mut trans) = ([4096; 3], Scalar::BF16, None, (false, true));
    let (mut target, mut top, mut repeat, mut records, mut library) = (None, top, 5, None, true);
    let (mut named, mut batch, mut each, mut processors) = (false, 1, false, None);
    while let Some(arg) = parser.next()? {
        match arg {
            Value(v) if v == "gemm" => named = true,
            Long("batch") => batch = options::number(parser, "batch", 1..=1 << 16)?,
            Long("m") => shape[0] = options::number(parser, "m", 1..=MAX)?,
            Long("n") => shape[1] = options::number(parser, "n", 1..=MAX)?,
            Long("k") => shape[2] = options::number(parser, "k", 1..=MAX)?,
            Long("dtype") => elem = options::word(parser, "dtype", &ELEMS)?,
            Long("out") => out = Some(options::word(parser, "out", &OUTS)?),
            Long("trans") => trans = options::word(parser, "trans", &ORDERS)?,
            Long("target") => target = Some(options::target(parser)?),
            Long("multiprocessors") => processors = Some(options::number(parser, "multiprocessors", 1..=1 << 12)?),
            Long("top") => top = options::number(parser, "top", 1..=1000)?,
            Long("repeat") => repeat = options::number(parser, "repeat", 1..=1000)?,
            Long("records") => records = Some(options::text(parser)?),
            Long("no-library") => library = false,
            Long("each") => each = true,
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    if !named {
        return Err(CliError::Usage("name what is to be planned: `gemm`".into()));
    }
    let out = out.unwrap_or(Gemm::new(elem).out);
    let target = match target {
        Some(t) => t,
        None => targets::by_name(USUAL).ok_or_else(|| CliError::Unusable(format!("there is no target {USUAL}")))?,
    };
    let target = processors.map_or(target.clone(), |n| target.with_multiprocessors(n));
    Ok(Job { product: Product { batch, shape, elem, out, trans }, target, top, repeat, records, library, each })
}

/// The target that plans are for if nobody says.
const USUAL: &str = "sm_90a";

fn ranked(job: &Job) -> Result<Vec<Candidate>, CliError> {
    plans::ranked(&(&job.product).into(), &DeviceFacts::usual(&job.target)).map_err(|e| CliError::Failed(e.to_string()))
}

/// The first choices; where that is asked for, of each way to share out the work.
fn first(list: Vec<Candidate>, job: &Job) -> Vec<Candidate> {
    let mut counts = [0; 3];
    let of = |c: &Candidate| match c.sharing {
        _ if !job.each => 0,
        Sharing::StreamK(_) => 1,
        Sharing::Whole | Sharing::Clusters(..) => 0,
        Sharing::SplitK(_) => 2,
    };
    list.into_iter()
        .filter(|r| {
            let count = &mut counts[of(r)];
            *count += 1;
            *count <= job.top
        })
        .collect()
}

pub(super) fn plan(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, 10)?;
    let start = Instant::now();
    let list = ranked(&job)?;
    let took = start.elapsed();
    let known = match &job.records {
        Some(path) => records::read(path).map_err(CliError::Unusable)?,
        None => Vec::new(),
    };
    let [m, n, k] = job.product.shape;
    let flops = 2.0 * f64::from(job.product.batch) * f64::from(m) * f64::from(n) * f64::from(k);
    writeln!(
        streams.out,
        "{m}x{n}x{k} {} on {}: {} choices in {:.2} ms; times in us",
        job.product.elem,
        job.target.name,
        list.len(),
        took.as_secs_f64() * 1e3
    )?;
    writeln!(
        streams.out,
        "{:<28} {:>9} {:>8} {:>6} {:>6} {:>7} {:>9} {:>8} {:>7}  {:<14} {:>9}",
        "choice", "total", "TFLOP/s", "waves", "full", "launch", "main", "epilogue", "parts", "bound", "measured"
    )?;
    for c in &first(list, &job) {
        write!(streams.out, "{:<28} {:>9.2} {:>8.1} ", c.to_string(), c.micros, flops / c.micros * 1e-6)?;
        let Some(r) = &c.ranked else {
            writeln!(streams.out, "{:>6} {:>6} {:>7} {:>9} {:>8} {:>7}  {:<14} {:>9}", "-", "-", "-", "-", "-", "-", "pipelined", "-")?;
            continue;
        };
        let p = &r.prediction;
        let measured = records::of(&known, &job.product, &r.choice).map_or_else(|| "-".to_owned(), |x| format!("{:.2}", x.seconds * 1e6));
        writeln!(
            streams.out,
            "{:>6} {:>5.0}% {:>7.2} {:>9.2} {:>8.2} {:>7.2}  {:<14} {:>9}",
            p.waves,
            100.0 * p.filled,
            p.launch,
            p.main,
            p.epilogue,
            p.parts,
            p.bound.to_string(),
            measured
        )?;
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
pub(super) fn tune(parser: &mut lexopt::Parser, _: &mut Streams<'_>) -> Outcome {
    job(parser, 8)?;
    Err(CliError::Unusable("the device `cuda` is not built in; build with the feature of that name".into()))
}

#[cfg(feature = "cuda")]
pub(super) fn tune(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    use crate::bench::gpu::{Bench, Protocol};
    use crate::bench::locate;
    use crate::bench::problem::{Problem, Variant};
    use crate::execute::{DeviceKind, Executor};

    let job = job(parser, 8)?;
    let list = ranked(&job)?;
    let executor = options::open(DeviceKind::Cuda, Some(&job.target))?;
    let Executor::Cuda { device, target } = &executor else {
        return Err(CliError::Unusable("the device is no GPU".into()));
    };
    let protocol =
        Protocol { repeat: job.repeat, warm: 6e-3, batch: 1e-2, rest: 5e-2, seed: 1, sets: None, opt: tilelift::OptLevel::default() };
    let places = job.library.then(locate::cublaslt);
    let (bench, _) = Bench::open(device, target, places.as_deref(), protocol).map_err(|e| CliError::Unusable(e.to_string()))?;
    let Product { batch, shape: [m, n, k], elem, out, trans } = job.product;
    let problem = Problem::Gemm { elem, out, trans, batch, m, n, k };
    let chosen = first(list, &job);
    let variants: Vec<Variant> = chosen.iter().map(|c| Variant { units: target.units.is_some(), ..c.into() }).collect();
    let row = bench.row(&problem, &variants).map_err(|e| CliError::Failed(e.to_string()))?;
    write!(streams.out, "{}", row.table())?;
    let mut new = Vec::new();
    for (r, v) in chosen.iter().zip(&variants).filter_map(|(c, v)| Some((c.ranked?, v))) {
        let label = problem.workload(v).0;
        if let Some(seconds) = row.seconds(&label) {
            let predicted = r.prediction.total() * 1e-6;
            new.push(Record { device: device.name().to_owned(), product: job.product, choice: r.choice, seconds, predicted });
        }
    }
    let best = |f: fn(&Record) -> f64| new.iter().min_by(|a, b| f(a).total_cmp(&f(b)));
    if let (Some(first), Some(quickest)) = (new.first(), best(|r| r.seconds)) {
        writeln!(
            streams.out,
            "the model's first, {}: predicted {:.2} us, measured {:.2}; the best measured, {}: {:.2} ({:+.1}%)",
            first.choice,
            first.predicted * 1e6,
            first.seconds * 1e6,
            quickest.choice,
            quickest.seconds * 1e6,
            100.0 * (first.seconds / quickest.seconds - 1.0)
        )?;
    }
    if let Some(path) = &job.records {
        records::append(path, &new).map_err(CliError::Unusable)?;
    }
    let wrong = row.refused.iter().filter(|r| r.wrong).count();
    if wrong > 0 { Err(CliError::Failed(format!("{wrong} outputs were wrong"))) } else { Ok(()) }
}
