//! `bench FILE`: launches of an author's own kernels, timed on a GPU, or counted by the simulator.

use super::outcome::{CliError, Outcome, Streams};
use super::{input, options, roofline};
#[cfg(any(feature = "cuda", feature = "hip"))]
use crate::bench::own::gpu::{Gpu, Loaded, OwnBench, Protocol};
use crate::bench::own::launches::{self, Asked};
use crate::bench::own::{self, Job, NotBenched};
use crate::bench::report::quote;
use crate::bench::sim;
use crate::execute::{DeviceKind, Executor};
use lexopt::Arg::{Long, Short, Value};
use std::ffi::OsString;
use std::fs;
use std::path::{MAIN_SEPARATOR, Path};
use tilelift::Options;
use tilelift_ir::text;
use tilelift_isel::Target;

/// Options of `bench` that take no value.
const FLAGS: [&str; 9] = ["--no-library", "--any-arguments", "--swapped", "--explicit", "--ablation", "--steady", "--emit", "--help", "-h"];

/// Launches that are timed.
const ITERATIONS: u32 = 20;
/// Program instances that are compared with the interpreter.
const CHECKED: u64 = 4;
/// Milliseconds of rest in front of a launch.
const REST_MS: f64 = 5.0;
/// Bytes of a file of launches, at most.
const MOST: u64 = 1 << 24;

/// True if an argument that is no option's value names a file: it ends in `.tile` or has a path separator.
pub(super) fn names_file(args: &[OsString]) -> bool {
    let mut value = false;
    args.iter().any(|arg| {
        let arg = arg.to_string_lossy();
        if std::mem::take(&mut value) {
            return false;
        }
        let option = arg.len() > 1 && arg.starts_with('-');
        value = option && !arg.contains('=') && !FLAGS.contains(&arg.as_ref());
        !option && (arg == "-" || arg.ends_with(".tile") || arg.contains(['/', MAIN_SEPARATOR]))
    })
}

/// A command line.
struct Command {
    path: String,
    /// Launches on the command line.
    given: Vec<String>,
    /// A file of launches.
    listed: Option<String>,
    kind: DeviceKind,
    target: Option<Target>,
    options: Options,
    iterations: u32,
    rest: f64,
    checked: u64,
    /// Compile for any arguments that keep the kernel's promises, not for what those of the launch are multiples of.
    any: bool,
    seed: u64,
    peer: Option<f64>,
    json: Option<String>,
    roofline: Option<String>,
}

fn command(parser: &mut lexopt::Parser) -> Result<Command, CliError> {
    let mut path = None;
    let mut c = Command {
        path: String::new(),
        given: Vec::new(),
        listed: None,
        kind: DeviceKind::Cuda,
        target: None,
        options: Options::default(),
        iterations: ITERATIONS,
        rest: REST_MS * 1e-3,
        checked: CHECKED,
        any: false,
        seed: 1,
        peer: None,
        json: None,
        roofline: None,
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("launch") => c.given.push(options::text(parser)?),
            Long("launches") => c.listed = Some(options::text(parser)?),
            Long("device") => {
                c.kind = options::word(parser, "device", &[("cuda", DeviceKind::Cuda), ("hip", DeviceKind::Hip), ("sim", DeviceKind::Sim)])?
            }
            Long("target") => c.target = Some(options::target(parser)?),
            Long("opt") => c.options.opt = options::opt(parser)?,
            Long("schedule") => c.options.lower.schedule = Some(options::word(parser, "schedule", &options::SCHEDULES)?),
            Long("iterations") => c.iterations = options::number(parser, "iterations", 1..=100_000)?,
            Long("rest-ms") => c.rest = options::number(parser, "rest-ms", 0.0..=1e5)? * 1e-3,
            Long("check") => c.checked = options::number(parser, "check", 0..=1 << 20)?,
            Long("any-arguments") => c.any = true,
            Long("seed") => c.seed = options::number(parser, "seed", 0..=u64::MAX)?,
            Long("peer-us") => c.peer = Some(options::number(parser, "peer-us", 1e-3..=1e9)? * 1e-6),
            Long("json") => c.json = Some(options::text(parser)?),
            Long("roofline") => c.roofline = Some(options::text(parser)?),
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Value(v) => {
                let one = "`bench FILE` takes one file; the launches of several are benched by several calls";
                return Err(CliError::Usage(format!("`{}`: {one}", v.to_string_lossy())));
            }
            Long(name) => {
                let known = "--launch, --launches, --device, --target, --opt, --schedule, --iterations, --rest-ms, --check, --any-arguments, --seed, --peer-us, --json, --roofline";
                return Err(CliError::Usage(format!("`--{name}` does not go with `bench FILE`, which takes {known}")));
            }
            Short(_) => return Err(arg.unexpected().into()),
        }
    }
    c.path = path.ok_or_else(|| CliError::Usage("no file is given".into()))?;
    if c.kind == DeviceKind::Sim && c.peer.is_some() {
        return Err(CliError::Usage("`--peer-us` is for times; leave it out with `--device sim`".into()));
    }
    if c.kind == DeviceKind::Sim && c.roofline.is_some() {
        return Err(CliError::Usage("`--roofline` draws times; leave it out with `--device sim`".into()));
    }
    Ok(c)
}

pub(super) fn run(args: Vec<OsString>, streams: &mut Streams<'_>) -> Outcome {
    let c = command(&mut lexopt::Parser::from_args(args))?;
    let source = input::read(&c.path)?;
    let file = input::load(&source, streams)?;
    let jobs = jobs(&c, &source, &file, streams)?;
    let executor = options::open(c.kind, c.target.as_ref()).map_err(|e| match c.kind {
        DeviceKind::Cuda | DeviceKind::Hip => {
            CliError::Unusable(format!("{e}; `--device sim` counts instructions and transactions of sampled instances instead"))
        }
        DeviceKind::Interp | DeviceKind::Schedule | DeviceKind::Lane | DeviceKind::Sim => e,
    })?;
    let mut rows = Vec::new();
    let result = match &executor {
        #[cfg(feature = "cuda")]
        Executor::Cuda { device, target } => timed(&c, &jobs, (device, target, &executor), &mut rows, streams),
        #[cfg(feature = "hip")]
        Executor::Hip { device, target } => timed(&c, &jobs, (device, target, &executor), &mut rows, streams),
        Executor::Interp | Executor::Schedule(_) | Executor::Lane(_) | Executor::Sim(_) => {
            counted(&c, &jobs, &executor, &mut rows, streams)
        }
    };
    let target = executor
        .target()
        .map_or_else(String::new, |t| format!(", \"target\": {}, \"multiprocessors\": {}", quote(t.name), t.costs.processors));
    let head = format!(
        "\"tilelift\": {}, \"file\": {}, \"device\": {}{target}",
        quote(env!("CARGO_PKG_VERSION")),
        quote(&c.path),
        quote(&executor.describe())
    );
    let text = format!("{{{head}, \"rows\": [\n  {}\n]}}\n", rows.join(",\n  "));
    if let Some(path) = &c.json {
        fs::write(path, &text).map_err(|e| CliError::Unusable(format!("{path}: {e}")))?;
    }
    if let Some(path) = c.roofline.as_ref().filter(|_| !rows.is_empty()) {
        roofline::of_results(path, "the results", &text, executor.target())?;
    }
    result
}

/// The launches that are asked for, each with its kernel.
fn jobs<'k>(c: &Command, source: &input::Source, file: &'k text::File, streams: &mut Streams<'_>) -> Result<Vec<Job<'k>>, CliError> {
    let mut asked: Vec<(String, Asked)> = Vec::new();
    for (n, given) in (1..).zip(&c.given) {
        let one = launches::one(n, given).map_err(|e| CliError::Usage(format!("--launch: {e}")))?;
        asked.push(("--launch".into(), one));
    }
    if let Some(path) = &c.listed {
        let text = crate::read::text(Path::new(path), MOST).map_err(|e| CliError::Unusable(format!("{path}: {e}")))?;
        let stem = Path::new(&c.path).file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let own = readable(path, launches::listed(&text), streams)?;
        let own = launches::of_file(own, &stem).map_err(|e| CliError::Failed(format!("{path}: {e}")))?;
        asked.extend(own.into_iter().map(|a| (format!("{path}:{}", a.run.line), a)));
    }
    if c.given.is_empty() && c.listed.is_none() {
        let own = readable(&source.name, launches::in_tile(&source.text), streams)?;
        asked.extend(own.into_iter().map(|a| (format!("{}:{}", source.name, a.run.line), a)));
    }
    if asked.is_empty() {
        let what = "has no `; run:` line that runs; give `--launch '@kernel(grid=…, …)'` or `--launches FILE` (docs/bench.md)";
        return Err(CliError::Failed(format!("{}: {what}", c.path)));
    }
    let mut jobs = Vec::new();
    for (place, Asked { run, .. }) in asked {
        let Some(kernel) = file.kernel(&run.kernel) else {
            let known: Vec<String> = file.kernels.iter().map(|k| format!("@{}", k.name)).collect();
            return Err(CliError::Failed(format!(
                "{place}: there is no kernel @{} in {}; it has {}",
                run.kernel,
                c.path,
                known.join(", ")
            )));
        };
        jobs.push(Job::new(kernel, run, c.any).map_err(|e| CliError::Failed(format!("{place}: @{}: {e}", kernel.name)))?);
    }
    Ok(jobs)
}

/// Launches, or an error with all lines that are none.
fn readable(path: &str, found: Result<Vec<Asked>, Vec<(u32, String)>>, streams: &mut Streams<'_>) -> Result<Vec<Asked>, CliError> {
    match found {
        Ok(list) => Ok(list),
        Err(wrong) => {
            for (line, e) in &wrong {
                writeln!(streams.err, "{path}:{line}: {e}")?;
            }
            Err(CliError::Failed(format!("{path}: {} launches make no sense", wrong.len())))
        }
    }
}

/// A line that says what the arguments of a launch are multiples of, where its kernel is compiled for that.
fn compiled_for(job: &Job<'_>) -> String {
    if job.divisors.is_empty() { String::new() } else { format!("\n  compiled for multiples in the arguments: {}", job.divisors) }
}

/// A line that says how many grid positions an instance stands for, if there are several.
fn stands_for(positions: [u32; 3]) -> String {
    if positions == [1; 3] { String::new() } else { format!("\n  an instance stands for {positions:?} neighbouring grid positions") }
}

/// How many launches failed, if some did.
fn verdict(failed: usize, of: usize) -> Outcome {
    if failed > 0 { Err(CliError::Failed(format!("{failed} of {of} launches failed"))) } else { Ok(()) }
}

/// Says why a launch is not benched.
fn refused(job: &Job<'_>, why: &NotBenched, streams: &mut Streams<'_>) -> Outcome {
    Ok(writeln!(streams.err, "{job}: {why}")?)
}

fn counted(c: &Command, jobs: &[Job<'_>], device: &Executor, rows: &mut Vec<String>, streams: &mut Streams<'_>) -> Outcome {
    writeln!(
        streams.out,
        "counts of {}; means of an instance; warp instructions, shared-memory wavefronts, 32-byte sectors",
        device.describe()
    )?;
    let width = jobs.iter().map(|j| j.to_string().len() + 1).max().unwrap_or(0);
    writeln!(streams.out, "{}", sim::head(width))?;
    let mut failed = 0;
    for job in jobs {
        match own::ready(job, c.checked, c.seed).and_then(|r| r.simulated(device, &c.options).map(|(row, checked)| (r, row, checked))) {
            Ok((ready, row, checked)) => {
                writeln!(streams.out, "{}{}\n  {}\n  checked: {checked}", row.line(width), compiled_for(job), ready.counted())?;
                rows.push(row.json());
            }
            Err(why) => {
                failed += 1;
                refused(job, &why, streams)?;
            }
        }
        streams.out.flush()?;
    }
    verdict(failed, jobs.len())
}

#[cfg(any(feature = "cuda", feature = "hip"))]
fn timed<G: Gpu>(
    c: &Command,
    jobs: &[Job<'_>],
    (device, target, executor): (&G, &Target, &Executor),
    rows: &mut Vec<String>,
    streams: &mut Streams<'_>,
) -> Outcome {
    let protocol = Protocol { iterations: c.iterations, rest: c.rest, peer: c.peer };
    let bench = OwnBench::open(device, target, protocol).map_err(|e| CliError::Unusable(e.to_string()))?;
    writeln!(
        streams.out,
        "{}, level {}; medians of {} launches between events, each behind {} ms of rest and a copy that overwrites the L2 cache",
        executor.describe(),
        c.options.opt as u32,
        c.iterations,
        c.rest * 1e3
    )?;
    let mut done: Vec<Loaded<G>> = Vec::new();
    for job in jobs {
        let loaded = own::ready(job, c.checked, c.seed).and_then(|r| {
            let counted = r.counted();
            let loaded = bench.load(r, &c.options)?;
            let timed = bench.time(&[&loaded], jobs.len() == 1)?;
            Ok((loaded, timed, counted))
        });
        match loaded {
            Ok((loaded, timed, counted)) => {
                let each = stands_for(loaded.positions);
                writeln!(streams.out, "{job}{}{each}\n  {}\n  {counted}\n  checked: {}", compiled_for(job), timed.line(), loaded.checked)?;
                rows.push(timed.json());
                done.push(loaded);
            }
            Err(why) => refused(job, &why, streams)?,
        }
        streams.out.flush()?;
    }
    // A sequence with a hole is none.
    if jobs.len() > 1 && done.len() == jobs.len() {
        match bench.time(&done.iter().collect::<Vec<_>>(), true) {
            Ok(timed) => {
                writeln!(streams.out, "all {} in a row, the cache cold in front of the first\n  {}", jobs.len(), timed.line())?;
                rows.push(timed.json());
            }
            Err(why) => return Err(CliError::Failed(format!("all in a row: {why}"))),
        }
    }
    verdict(jobs.len() - done.len(), jobs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn files_are_told_from_suites() {
        for (line, want) in [
            ("k.tile", true),
            ("kernels/k", true),
            ("--target sm_90a k.tile", true),
            ("--steady ./k.tile", true),
            ("--opt=2 k.tile --json out/x.json", true),
            ("-", true),
            ("gemm --json out/x.json", false),
            ("gemm --records a/b", false),
            ("compile --explicit", false),
            ("", false),
        ] {
            assert_eq!(names_file(&args(line)), want, "{line}");
        }
    }

    #[test]
    fn command_lines_are_read_and_refused_with_the_words_that_help() {
        let read = |line: &str| command(&mut lexopt::Parser::from_args(args(line)));
        let c = read("k.tile --launches l.txt --iterations 7 --check 2 --peer-us 250 --opt 2").map_err(|e| e.to_string()).unwrap();
        assert_eq!((c.path.as_str(), c.listed.as_deref(), c.iterations, c.checked), ("k.tile", Some("l.txt"), 7, 2));
        assert_eq!(c.peer.map(|p| (p * 1e6).round()), Some(250.0));
        for (line, part) in [
            ("a.tile b.tile", "takes one file"),
            ("a.tile --tile 64x64", "does not go with `bench FILE`"),
            ("a.tile --iterations 0", "from 1 to"),
            ("a.tile --device lane", "cuda, hip, sim"),
            ("a.tile --device sim --peer-us 3", "is for times"),
        ] {
            let e = read(line).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(e.contains(part), "{line}: {e}");
        }
    }
}
