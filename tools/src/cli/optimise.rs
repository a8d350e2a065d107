//! `opt`, `explain` and `dot`: what the optimizer makes of a file, and why; how its kernels run, and what that costs.

use super::outcome::{CliError, Outcome, Streams};
use super::{for_launch, input, opt_report, options, spills};
use crate::bench::{estimate, layouts};
use crate::execute::{DeviceKind, Executor};
use lexopt::Arg::{Long, Short, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use tilelift::{OptLevel, targets};
use tilelift_decisions::{Decision, heard};
use tilelift_egraph::{Class, Options, explain as reasons, optimise};
use tilelift_ir::{Kernel, Verified, text, verify};
use tilelift_isel::{Chosen, ESTIMATE, LayoutChoice, LowerOptions, ProofScope, Target, choose, exposure};
use tilelift_kernels::{Case, CaseLaunch, Size, cases};

pub(super) const OPT_HELP: &str = "\
usage: tilelift opt FILE [OPTION…]
       tilelift opt --table [TEXT] [--target NAME] [--device cuda] [--part I/N]
       tilelift opt --fired [FILE…] [--target NAME]
       tilelift opt --times [TEXT] [--target NAME] [--device cuda] [--large | --all] [--part I/N]

Prints every kernel of the file after a stage of the optimizer. With --table: what the simulator counts for kernels of the library
whose name contains TEXT, per program, at level 0 and at level 2. With --times: the time that the cost model estimates for whole launches of
the library's acceptance cases, at level 0 and at level 2.
  --stage NAME    logical (default): equality saturation over the tile program; physical: that, then the layouts of its tiles
  --target NAME   what layouts are chosen for (with --stage physical)
  --device cuda   launches are timed as well (with --table and --times)
  --large         the large cases instead of the small ones (with --times)
  --all           of every kernel and type of rows 1 to 11 and of attention the case with most bytes (with --times)
  --part I/N      the I-th of N parts of the list, so that each takes a short time (with --table and --times)
  --allow CLASS   the loosest rules that may apply: exact, free (default), reassoc, approx
  --report        what the phases and rules did, on standard error
  --json          that as JSON on standard output, an object a line, instead of kernels (with --report)
  --fired         in how many kernels of the library, of graphs of operators and of files each rule fires, with leave for all of them";

pub(super) const EXPLAIN_HELP: &str = "\
usage: tilelift explain FILE [--allow CLASS] [--stage NAME] [--target NAME]

Prints how every kernel runs on the target (specialised, pipelined or by its tasks; warps, stages, slots), and of each loop that loads or
multiplies the loads and dots for which every iteration waits, why each is not done ahead, and what that costs: an estimate, in cycles.
Then the decisions of the compile, each with its price and what would have come next, as far as there are such (docs/decisions.md).
Then, for every value that the optimizer computes in another way than the file, the chain of rules that leads there, and what the
next best program would cost. With --stage physical, the layouts, and the rule behind each that is not the plain assignment's.
  --target NAME   what it is to run on (sm_80)
  --launch '@k(…)'   compile @k for what this launch's arguments are multiples of, as `bench FILE` does (syntax of `; run:` lines)
  --stage NAME    logical (default), or physical: layouts, too
  --allow CLASS   the loosest rules that may apply: exact, free (default), reassoc, approx";

pub(super) const DOT_HELP: &str = "\
usage: tilelift dot FILE [--allow CLASS]

Prints the graph of every kernel for Graphviz; the nodes of the chosen program are filled.
  --allow CLASS   the loosest rules that may apply: exact, free (default), reassoc, approx";

/// What the commands share.
struct Job {
    path: String,
    options: Options,
    report: bool,
    json: bool,
    fired: bool,
    more: Vec<String>,
    target: Option<Target>,
    physical: bool,
    table: bool,
    times: bool,
    choice: estimate::Choice,
    part: [usize; 2],
    device: Option<DeviceKind>,
    /// A launch that kernels are compiled for.
    launch: Option<String>,
}

/// The commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Opt,
    Explain,
    Dot,
}

/// An option that has nothing to do beside the others: its name, and what it is for.
fn idle(job: &Job, command: Command, given: &[String]) -> Option<(String, &'static str)> {
    let tables = job.table || job.times;
    let of = |name: &str| match name {
        "json" if !job.report => Some("--report"),
        "report" | "json" | "stage" | "allow" if job.fired => Some("a file without --fired"),
        "large" | "all" if !job.times => Some("--times"),
        "part" | "device" if !tables => Some("--table or --times"),
        "target" if !tables && !job.fired && !job.physical && command != Command::Explain => Some("--stage physical"),
        "stage" | "allow" | "report" if tables => Some("a file"),
        "times" if job.table => Some("a call without --table"),
        "all" if given.iter().any(|g| g == "large") => Some("a call without --large"),
        _ => None,
    };
    given.iter().find_map(|name| Some((name.clone(), of(name)?)))
}

fn job(parser: &mut lexopt::Parser, command: Command) -> Result<Job, CliError> {
    let (opt, stages) = (command == Command::Opt, command != Command::Dot);
    let mut given = Vec::new();
    let (mut json, mut fired, mut more) = (false, false, Vec::new());
    let (mut path, mut allow, mut report, mut target, mut physical) = (None, None, false, None, false);
    let mut launch = None;
    let (mut table, mut times, mut choice, mut part, mut device) = (false, false, estimate::Choice::Of(Size::Small), [1, 1], None);
    while let Some(arg) = parser.next()? {
        if let Long(name) = arg {
            given.push(name.to_owned());
        }
        match arg {
            Long("stage") if stages => physical = options::word(parser, "stage", &[("logical", false), ("physical", true)])?,
            Long("target") if stages => target = Some(options::target(parser)?),
            Long("launch") if command == Command::Explain => launch = Some(options::text(parser)?),
            Long("allow") => {
                let words: Vec<(&str, Class)> = Class::ALL.iter().map(|&c| (c.word(), c)).collect();
                allow = Some(options::word(parser, "allow", &words)?);
            }
            Long("report") if opt => report = true,
            Long("json") if opt => json = true,
            Long("fired") if opt => fired = true,
            Long("table") if opt => table = true,
            Long("times") if opt => times = true,
            Long("large") if opt => choice = estimate::Choice::Of(Size::Large),
            Long("all") if opt => choice = estimate::Choice::Widest,
            Long("part") if opt => part = piece(&parser.value()?.to_string_lossy())?,
            Long("device") if opt => device = Some(options::word(parser, "device", &[("cuda", DeviceKind::Cuda)])?),
            Value(v) if fired => more.push(v.to_string_lossy().into_owned()),
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Value(_) | Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let path = match path {
        Some(p) => p,
        None if table || times || fired => String::new(),
        None => return Err(CliError::Usage("no file is given".into())),
    };
    let usual = Options::default();
    let job = Job {
        path,
        options: Options { allow: allow.unwrap_or(usual.allow), timed: report, ..usual },
        report,
        json,
        fired,
        more,
        target,
        physical,
        table,
        times,
        choice,
        part,
        device,
        launch,
    };
    match idle(&job, command, &given) {
        Some((name, what)) => Err(CliError::Usage(format!("--{name} is for {what}"))),
        None => Ok(job),
    }
}

/// `I/N`: the number of a part, and how many there are.
fn piece(text: &str) -> Result<[usize; 2], CliError> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some([i.parse().ok()?, n.parse().ok()?]));
    match numbers {
        Some([i, n]) if (1..=n).contains(&i) => Ok([i, n]),
        _ => Err(CliError::Usage(format!("`{text}` is no part; write 1/3 for the first of three"))),
    }
}

fn each(job: &Job, streams: &mut Streams<'_>, mut f: impl FnMut(&Verified<'_>, &mut Streams<'_>) -> Outcome) -> Outcome {
    let source = input::read(&job.path)?;
    let mut file = input::load(&source, streams)?;
    if file.kernels.is_empty() {
        return Err(CliError::Failed(format!("{}: has no kernel", job.path)));
    }
    if let Some(launch) = &job.launch {
        for_launch::apply(&mut file, launch)?;
    }
    for kernel in &file.kernels {
        let verified = verify(kernel).map_err(|e| CliError::Failed(e.to_string()))?;
        f(&verified, streams)?;
    }
    Ok(())
}

pub(super) fn opt(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, Command::Opt)?;
    if job.fired {
        let target = job.target.clone().unwrap_or_else(targets::usual);
        return super::fired::fired(&job.more, &target, streams);
    }
    if job.table || job.times {
        return table(&job, streams);
    }
    each(&job, streams, |kernel, streams| {
        let (made, report) = optimise(kernel, &job.options);
        if job.json {
            let layouts = if job.physical { chosen(&job, &made, false)? } else { None };
            return Ok(writeln!(streams.out, "{}", opt_report::json(&kernel.name, &report, layouts.as_ref()))?);
        }
        if job.report {
            write!(streams.err, "@{}\n{report}", kernel.name)?;
        }
        if job.physical {
            return with_layouts(&job, &made, false, streams);
        }
        Ok(write!(streams.out, "{}", text::print(&made))?)
    })
}

pub(super) fn explain(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, Command::Explain)?;
    each(&job, streams, |kernel, streams| {
        let made = optimise(kernel, &job.options).0;
        schedule(&job, &on_grid(&job, &made)?, streams)?;
        decided(&job, kernel, streams)?;
        if job.physical {
            return with_layouts(&job, &made, true, streams);
        }
        Ok(write!(streams.out, "{}", reasons::explain(kernel, &job.options))?)
    })
}

/// The form of an improved kernel that runs on the grid of the job's launch.
fn on_grid(job: &Job, kernel: &Kernel) -> Result<Kernel, CliError> {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    let grid = job.launch.as_deref().and_then(for_launch::grid);
    let options = tilelift::Options { opt: OptLevel::None, grid, ..tilelift::Options::default() };
    tilelift::for_grid(kernel, &target, &options).map(Cow::into_owned).map_err(|e| CliError::Failed(e.to_string()))
}

/// Says how a kernel runs, and what its loops wait for, as comments.
fn schedule(job: &Job, kernel: &Kernel, streams: &mut Streams<'_>) -> Outcome {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    let verified = verify(kernel).map_err(|e| CliError::Failed(e.to_string()))?;
    let layouts = if job.physical { LayoutChoice::Searched } else { LayoutChoice::Spread };
    // Tasks that are not proved run, too, where the author says so.
    let options = LowerOptions { layouts, proof: ProofScope::Nothing, ..LowerOptions::default() };
    let said = exposed(&verified, &target, &options);
    Ok(said.lines().try_for_each(|line| writeln!(streams.out, "; {line}"))?)
}

/// Says what a compile decides, as comments: each decision once.
fn decided(job: &Job, kernel: &Kernel, streams: &mut Streams<'_>) -> Outcome {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    let opt = if job.physical { OptLevel::Physical } else { OptLevel::Logical };
    let lower = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    let grid = job.launch.as_deref().and_then(for_launch::grid);
    let (_, all) = heard(|| tilelift::compile(kernel, &target, &tilelift::Options { opt, lower, grid, ..Default::default() }).map(drop));
    let lines: BTreeSet<(Decision, String)> = all.into_iter().map(|t| (t.decision, t.to_string())).collect();
    writeln!(streams.out, "; decisions of the compile, with prices and what would have come next (docs/decisions.md):")?;
    Ok(lines.iter().try_for_each(|(d, line)| writeln!(streams.out, ";   {line} [{}]", d.entry().taker))?)
}

/// How a kernel runs, and what its loops wait for.
pub(super) fn exposed(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> String {
    let found = match exposure(kernel, target, options) {
        Ok(found) => found,
        Err(e) => return format!("@{} does not run on {}: {e}\n", kernel.name, target.name),
    };
    let mut said = format!("@{} on {}: {}\n", kernel.name, target.name, found.outline);
    for l in &found.loops {
        said += &format!("  {}\n", l.to_string().replace('\n', "\n  "));
    }
    if found.loops.iter().any(|l| !l.is_fast()) {
        said += &format!("  ({ESTIMATE})\n");
    }
    if let Ok(lowered) = tilelift_isel::lower(kernel, target, options) {
        spills::foreseen(&lowered.program, target).iter().for_each(|line| said += &format!("  {line}\n"));
    }
    said
}

/// The table of what searched layouts change, or of times.
fn table(job: &Job, streams: &mut Streams<'_>) -> Outcome {
    let device = job.device.map(|kind| options::open(kind, job.target.as_ref())).transpose()?;
    let of_device = device.as_ref().and_then(|d| d.target().cloned());
    let target = job.target.clone().or(of_device).unwrap_or_else(targets::usual);
    let mut list = if job.table { layouts::selected(&job.path) } else { estimate::selected(&job.path, job.choice) };
    if list.is_empty() {
        return Err(CliError::Usage(nothing(&job.path, job.table)));
    }
    let [part, parts] = job.part;
    let size = list.len().div_ceil(parts);
    list = list.into_iter().skip((part - 1) * size).take(size).collect();
    write!(streams.out, "{}", if job.table { layouts::head(device.is_some()) } else { estimate::HEAD.to_owned() })?;
    for case in list {
        let failed = |e: String| CliError::Failed(format!("{}: {e}", case.name));
        let launches = case.launches(None).map_err(|e| failed(e.to_string()))?;
        let times = timed(&case, &launches, device.as_ref()).map_err(failed)?;
        let line = if job.table {
            let [plain, searched] = estimate::LEVELS.map(|opt| layouts::measure(&case, &target, opt));
            layouts::row(&case.name, [plain.map_err(failed)?, searched.map_err(failed)?], times)
        } else {
            let [plain, searched] = estimate::LEVELS.map(|opt| estimate::estimated(&launches, &target, opt));
            estimate::row(&case.name, [plain.map_err(failed)?, searched.map_err(failed)?], times.unwrap_or_default())
        };
        write!(streams.out, "{line}")?;
        streams.out.flush()?;
    }
    Ok(())
}

/// Names in a message.
const FEW: usize = 12;

/// Why no case was found, and what to write instead.
fn nothing(text: &str, table: bool) -> String {
    if table {
        return format!("no kernel of the table has a name with `{text}`; known are {}", layouts::names().join(", "));
    }
    let names: Vec<String> = cases().into_iter().map(|c| c.name).collect();
    let with: Vec<&String> = names.iter().filter(|n| n.contains(text)).collect();
    if !with.is_empty() {
        return format!(
            "`{text}` is a name of large cases alone ({} of them): add `--large`, or `--all` for the widest of each kind",
            with.len()
        );
    }
    let kind = |n: &str| n.split('_').next().unwrap_or_default().to_owned();
    let mut kinds: Vec<String> = names.iter().map(|n| kind(n)).collect();
    kinds.dedup();
    let near: Vec<&str> = names.iter().filter(|n| kind(n) == kind(text)).map(String::as_str).take(FEW).collect();
    if near.is_empty() {
        kinds.sort();
        kinds.dedup();
        return format!("no case has a name with `{text}`; names begin with {}", kinds.join(", "));
    }
    format!("no case has a name with `{text}`; some are {} (`tilelift accept --list --large` prints all)", near.join(", "))
}

/// Seconds of a case's launches at both levels, where there is a device to time them on.
fn timed(case: &Case, launches: &[CaseLaunch], device: Option<&Executor>) -> Result<Option<[Option<f64>; 2]>, String> {
    #[cfg(feature = "cuda")]
    if let Some(Executor::Cuda { device, target }) = device {
        return estimate::measured(case, launches, device, target).map(Some);
    }
    let _ = (case, launches, device);
    Ok(None)
}

/// What the search over layouts says of a kernel.
fn chosen(job: &Job, kernel: &Kernel, reasons: bool) -> Result<Option<Chosen>, CliError> {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    let verified = verify(kernel).map_err(|e| CliError::Failed(e.to_string()))?;
    choose(&verified, &target, &LowerOptions::default(), reasons).map_err(|e| CliError::Failed(e.to_string()))
}

/// Prints a kernel with its layouts.
fn with_layouts(job: &Job, kernel: &Kernel, reasons: bool, streams: &mut Streams<'_>) -> Outcome {
    let target = job.target.clone().unwrap_or_else(targets::usual);
    let verified = verify(kernel).map_err(|e| CliError::Failed(e.to_string()))?;
    let Some(chosen) = chosen(job, kernel, reasons)? else {
        return Ok(write!(
            streams.out,
            "; no way through the program was found; the plain assignment's layouts stay\n{}",
            text::print(kernel)
        )?);
    };
    if let Some(why) = &chosen.declined {
        return Ok(write!(streams.out, "; {why}\n{}", chosen.text)?);
    }
    if job.report {
        let others: Vec<String> = chosen.others.iter().map(|c| (c / 16).to_string()).collect();
        writeln!(
            streams.err,
            "@{}: {} nodes in {} classes; runners-up: {}",
            kernel.name,
            chosen.size[0],
            chosen.size[1],
            others.join(" ")
        )?;
        let options = LowerOptions { layouts: LayoutChoice::Searched, ..LowerOptions::default() };
        match tilelift_isel::lower(&verified, &target, &options).map(|l| l.fallback) {
            Ok(None) => {}
            Ok(Some(why)) => {
                writeln!(streams.err, "@{}: these layouts do not fit, the plain ones are used instead: {why}", kernel.name)?;
            }
            Err(why) => writeln!(streams.err, "@{}: does not lower for {}: {why}", kernel.name, target.name)?,
        }
    }
    Ok(write!(streams.out, "{}", chosen.text)?)
}

pub(super) fn dot(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, Command::Dot)?;
    each(&job, streams, |kernel, streams| Ok(write!(streams.out, "{}", reasons::dot(kernel, &job.options))?))
}
