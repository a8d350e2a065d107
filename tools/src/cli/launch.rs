//! `run`, `interp` and `test`: everything that executes `; run:` lines.

use super::files::{each, some};
use super::outcome::{CliError, Outcome, Streams};
use super::progress::Progress;
use super::{input, options};
use crate::execute::{DeviceKind, Executor, Launch};
use crate::filetest::runline::{ArgSpec, Init, MOST_STEPS, RunLine};
use crate::filetest::{self, data, directive};
use lexopt::Arg::{Long, Short, Value};
use std::path::Path;
use tilelift::{OptLevel, Options};
use tilelift_interp::{Arg, Memory};
use tilelift_ir::Kernel;
use tilelift_isel::ProofScope;

pub(super) const RUN_HELP: &str = "\
usage: tilelift run FILE… [OPTION…]

Executes every `; run:` line of the files, prints what the kernels wrote, and compares it with the interpreter.
  --device NAME   cuda, hip, sim, lane, schedule or interp (hip for AMD's targets, cuda for others, if there is such a GPU; else sim)
  --target NAME   what to compile for
  --seed N        schedule of the simulator (0)
  --steps N       rounds after which a `while` is given up, and most programs of a grid (4194304; on the simulator 1048576);
                  the interpreters give up after 4096 N operations on elements, the reference after 16 N instructions,
                  the simulator after 100 N warp instructions
  --opt N         0: as written, 1: improved by equality saturation (default), 2: layouts, too
  --schedule NAME specialised or pipelined (the planner's choice)
  --warps N, --stages N   instead of the kernel's hints
  --unproven              run tasks whose work together is not proved
  --prove                 prove the compiler's own schedules, too";

pub(super) const INTERP_HELP: &str = "\
usage: tilelift interp FILE… [OPTION…]

Executes every `; run:` line of the files on the reference interpreter and prints what the kernels wrote.
  --steps N   rounds after which a `while` is given up, and most programs of a grid (4194304); all of it is given up after 16 N
              instructions, or 4096 N operations on elements";

pub(super) const TEST_HELP: &str = "\
usage: tilelift test PATH… [OPTION…]

Runs the file tests of files and folders; docs/testing.md describes the directives.
  --device cuda   run the launches on the GPU, too
  --seeds N       schedules of the simulator per launch (3)
  --steps N       as for `run`
  --opt N         this level of optimisation only, instead of all of them
  --bless         accept changed precise output (as TILELIFT_BLESS=1)";

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut paths, mut kind, mut target, mut seed, mut steps) = (Vec::new(), None, None, 0, None);
    let mut options = Options::default();
    let mut compiling = None;
    while let Some(arg) = parser.next()? {
        if let Long(name @ ("target" | "seed" | "opt" | "schedule" | "warps" | "stages" | "unproven" | "prove")) = arg {
            compiling = Some(name.to_owned());
        }
        match arg {
            Long("device") => kind = Some(options::device(parser)?),
            Long("target") => target = Some(options::target(parser)?),
            Long("steps") => steps = Some(options::number(parser, "steps", 0..=u64::MAX)?),
            Long("seed") => seed = options::number(parser, "seed", 0..=u64::MAX)?,
            Long("opt") => options.opt = options::opt(parser)?,
            Long("schedule") => options.lower.schedule = Some(options::word(parser, "schedule", &options::SCHEDULES)?),
            Long("warps") => options.lower.warps = Some(options::number(parser, "warps", 1..=64)?),
            Long("unproven") => options.lower.proof = ProofScope::Nothing,
            Long("prove") => options.lower.proof = ProofScope::All,
            Long("stages") => options.lower.stages = Some(options::number(parser, "stages", 1..=16)?),
            Value(v) => paths.push(v.to_string_lossy().into_owned()),
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let paths = some(paths)?;
    if let (Some(DeviceKind::Interp), Some(name)) = (kind, compiling) {
        let why = "the interpreter runs kernels as they are written; leave it out, or choose another `--device`";
        return Err(CliError::Usage(format!("`--{name}` is for devices that compile; {why}")));
    }
    let device = match kind {
        Some(kind) => options::open(kind, target.as_ref())?,
        None => {
            let (device, note) = options::best(target.as_ref())?;
            if let Some(note) = note {
                writeln!(streams.err, "{note}; the kernels run on {}", device.describe())?;
            }
            device
        }
    };
    each(&paths, streams, |path, streams| execute(path, &device, (seed, steps), &options, streams))
}

pub(super) fn interp(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut paths, mut steps) = (Vec::new(), None);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("steps") => steps = Some(options::number(parser, "steps", 0..=u64::MAX)?),
            Value(v) => paths.push(v.to_string_lossy().into_owned()),
            // The launches are what there is to do; the option is accepted for symmetry with other tools.
            Long("run") => {}
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let device = options::open(DeviceKind::Interp, None)?;
    let options = Options { opt: OptLevel::None, ..Options::default() };
    each(&some(paths)?, streams, |path, streams| execute(path, &device, (0, steps), &options, streams))
}

fn execute(path: &str, device: &Executor, schedule: (u64, Option<u64>), options: &Options, streams: &mut Streams<'_>) -> Outcome {
    let source = input::read(path)?;
    let file = input::load(&source, streams)?;
    let (directives, unproven) = directives(path, &source.text, streams)?;
    let mut options = options.clone();
    if unproven && options.lower.proof == ProofScope::Authors {
        options.lower.proof = ProofScope::Nothing;
    }
    if directives.is_empty() {
        return Err(CliError::Failed(format!(
            "{path}: has no `; run:` line, which says with what a kernel is launched: write one such as `; run: @k(grid=4, v0=rand:1[64], out v1=[64])` \
             (docs/testing.md)"
        )));
    }
    let mut wrong = 0;
    for run in &directives {
        let kernel =
            file.kernel(&run.kernel).ok_or_else(|| CliError::Failed(format!("{path}:{}: there is no kernel @{}", run.line, run.kernel)))?;
        if let Err(message) = one(path, run, kernel, device, schedule, &options, streams)? {
            writeln!(streams.err, "{path}:{}: {message}", run.line)?;
            wrong += 1;
        }
    }
    if wrong > 0 { Err(CliError::Failed(format!("{path}: {wrong} of {} launches failed", directives.len()))) } else { Ok(()) }
}

/// The run lines of a file, and whether it says that its tasks are not proved.
pub(super) fn directives(path: &str, text: &str, streams: &mut Streams<'_>) -> Result<(Vec<RunLine>, bool), CliError> {
    if !text.contains("; test ") && !text.contains("run:") {
        return Ok((Vec::new(), false));
    }
    // A file that is only run need not be a file test.
    let lines = if text.contains("; test ") { text.to_owned() } else { format!("{text}\n; test run") };
    match directive::parse(&lines) {
        Ok(d) => Ok((d.runs, d.unproven)),
        Err(errors) => {
            for e in &errors {
                writeln!(streams.err, "{path}:{}: {}", e.line, e.message)?;
            }
            Err(CliError::Failed(format!("{path}: {} directives make no sense", errors.len())))
        }
    }
}

/// Most programs of a grid on the simulator, unless another bound is asked for: each takes some microseconds to begin.
const SIM_PROGRAMS: u64 = MOST_STEPS / 4;

/// Runs one line; the inner error is a failed launch or comparison.
fn one(
    path: &str,
    run: &RunLine,
    kernel: &Kernel,
    device: &Executor,
    (seed, steps): (u64, Option<u64>),
    options: &Options,
    streams: &mut Streams<'_>,
) -> Result<Result<(), String>, CliError> {
    let programs = steps.or((device.kind() == DeviceKind::Sim).then_some(SIM_PROGRAMS));
    let (args, memory) = match run.bounded(programs).and_then(|()| data::arguments(run, kernel)) {
        Ok(pair) => pair,
        Err(e) => return Ok(Err(e)),
    };
    let launch = Launch { grid: run.grid, args: &args, programs: None, seed, steps, options };
    let mut want = memory.clone();
    let bounded = Launch { steps: Some(steps.unwrap_or(MOST_STEPS)), ..launch };
    let reference = Executor::Interp.run(kernel, &bounded, &mut want);
    if let Some(part) = &run.fails {
        return Ok(match reference {
            Err(e) if e.to_string().contains(part.as_str()) => {
                writeln!(streams.out, "{path}:{}: @{} is refused, as it should be: {e}", run.line, run.kernel)?;
                Ok(())
            }
            Err(e) => Err(format!("the launch fails, but not with `{part}`: {e}")),
            Ok(_) => Err("the launch must fail, but it runs".into()),
        });
    }
    if let Err(e) = reference {
        return Ok(Err(format!("interpreter: {e}")));
    }
    let mut got = memory.clone();
    if let Err(e) = device.run(kernel, &launch, &mut got) {
        return Ok(Err(format!("{}: {e}", device.describe())));
    }
    writeln!(streams.out, "{path}:{}: @{} on {}, grid {:?}", run.line, run.kernel, device.describe(), run.grid)?;
    // The interpreter knows what was written; devices may hand whole buffers back.
    let unwritten = data::unwritten(run, &args, &want);
    show(run, &args, [&memory, &got], &unwritten, streams)?;
    let verdict = data::compare(&args, &want, &got, &run.tolerance).and_then(|()| {
        run.expect.iter().try_for_each(|e| match &args[e.param] {
            Arg::View(view) => data::written(e, view, &want).and_then(|()| data::expected(e, view, &got, &run.tolerance)),
            Arg::Scalar(_) => Ok(()),
        })
    });
    if verdict.is_ok() && device.kind() != DeviceKind::Interp {
        let rest = if unwritten.is_empty() { "" } else { ", as far as anything was written" };
        writeln!(streams.out, "  agrees with the interpreter{rest}")?;
    }
    Ok(verdict)
}

/// Elements of a tensor that are printed.
const SHOWN: usize = 8;

/// Lines of `print` that are shown.
const LINES: usize = 64;

/// Prints the tensors that the launch changed, and what the kernel printed.
fn show(run: &RunLine, args: &[Arg], [before, after]: [&Memory; 2], unwritten: &[usize], streams: &mut Streams<'_>) -> Outcome {
    for (param, (arg, spec)) in args.iter().zip(&run.args).enumerate() {
        let Arg::View(view) = arg else { continue };
        let name = run.name(param);
        if unwritten.contains(&param) {
            writeln!(streams.out, "  nothing was written to {name}")?;
            continue;
        }
        let poison = matches!(spec, ArgSpec::Tensor(t) if t.init == Init::Poison);
        if !poison && before.buffers[view.buffer].bytes() == after.buffers[view.buffer].bytes() {
            continue;
        }
        let values = data::elements(view, after);
        let head: Vec<String> = values.iter().take(SHOWN).map(|v| v.to_string()).collect();
        let rest = if values.len() > SHOWN { format!(", … {} more", values.len() - SHOWN) } else { String::new() };
        writeln!(streams.out, "  {name} {} {:?} = [{}{rest}]", view.elem, view.shape, head.join(", "))?;
    }
    // Devices without a place to print to leave this empty.
    for line in after.printed.iter().take(LINES) {
        writeln!(streams.out, "  printed by program {line}")?;
    }
    if let Some(more) = after.printed.len().checked_sub(LINES).filter(|&n| n > 0) {
        writeln!(streams.out, "  … {more} more lines are printed")?;
    }
    Ok(())
}

pub(super) fn test(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let mut paths = Vec::new();
    let mut config = filetest::Config { bless: std::env::var_os("TILELIFT_BLESS").is_some_and(|v| v == "1"), ..Default::default() };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("device") => {
                let kind = options::device(parser)?;
                // The interpreter and the simulator run in any case.
                if kind.is_hardware() {
                    config.hardware = Some(options::open(kind, None)?);
                }
            }
            Long("seeds") => config.seeds = options::number(parser, "seeds", 0..=1000)?,
            Long("steps") => config.steps = Some(options::number(parser, "steps", 0..=u64::MAX)?),
            Long("opt") => config.opt = Some(options::opt(parser)?),
            Long("bless") => config.bless = true,
            Value(v) => paths.push(v.to_string_lossy().into_owned()),
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let (mut passed, mut failed) = (0, 0);
    let mut files = Vec::new();
    for path in some(paths)? {
        files.extend(filetest::find(Path::new(&path)).map_err(|f| CliError::Unusable(f.to_string()))?);
    }
    let progress = Progress::of(files.len(), streams);
    for file in &files {
        progress.begins(&file.to_string_lossy());
        match filetest::run_file(file, &config) {
            Ok(()) => passed += 1,
            Err(failures) => {
                failed += 1;
                progress.aside(|| failures.iter().try_for_each(|f| writeln!(streams.err, "{f}")))?;
            }
        }
        progress.done();
    }
    drop(progress);
    writeln!(streams.out, "{passed} passed, {failed} failed")?;
    if failed > 0 {
        Err(CliError::Failed(String::new()))
    } else if passed == 0 {
        Err(CliError::Failed("there are no .tile files".into()))
    } else {
        Ok(())
    }
}
