//! `check`, `fmt` and `compile`.

use super::compiling::reason;
use super::outcome::{CliError, Outcome, Streams};
use super::{for_launch, input, options, spills};
use lexopt::Arg::{Long, Short, Value};
use std::fs;
use tilelift::{CompileError, OptLevel, Options, compile_timed, launch, lower, targets};
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::candidates::{Candidate, schedule};
use tilelift_isel::{LayoutChoice, LowerOptions, Lowered, ProofScope, Target, planned};

pub(super) const CHECK_HELP: &str =
    "usage: tilelift check FILE…\n\nParses and verifies every file; prints one line per file that is right.";

pub(super) const FMT_HELP: &str = "\
usage: tilelift fmt [--check] FILE…

Prints every file in the canonical form. Comments are no part of a kernel, so files with comments are refused.
  --check   print nothing; fail if a file is not in the canonical form already";

pub(super) const COMPILE_HELP: &str = "\
usage: tilelift compile FILE [OPTION…]

  --target NAME    the machine (sm_80 if not given); `tilelift devices` lists them
  --emit WHAT      text (the assembly, default; ptx says the same), object (the code object of an AMD chip, with `-o`), lane (the lane program), tile (the kernel behind `--opt`), schedule (the kernel that is lowered: with
                   the tasks, rings and grid positions of a specialised loop, behind a
                   comment with what its candidates cost, or the copies ahead of a pipelined one)
                   or launch (JSON with which any language launches the text that the same options give:
                   grid, block, shared memory, parameters, tensor maps; docs/launch.md)
  --kernel NAME    only this kernel
  --warps N        warps per program instance, overriding the kernel's hint
  --schedule NAME  specialised or pipelined (the planner's choice)
  --stages N       stages of pipelined loops, overriding the kernel's hint
  --unproven       compile tasks whose work together is not proved
  --prove          prove the compiler's own schedules, too; another is taken, or the kernel is refused, where one is not proved
  --opt N          0: as written, 1: equality saturation over the tile program (default), 2: layouts, too
  --launch '@k(…)' compile @k for what this launch's arguments are multiples of, as `bench FILE` does (syntax of `; run:` lines)
  -o, --output F   write to a file; `-` is standard output
  --times          report the time of each stage on standard error";

pub(super) fn check(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let paths = paths(parser)?;
    each(&paths, streams, |path, streams| {
        let source = input::read(path)?;
        let file = input::load(&source, streams)?;
        let names: Vec<String> = file.kernels.iter().map(|k| format!("@{}", k.name)).collect();
        Ok(writeln!(streams.out, "{}: {} ok", source.name, if names.is_empty() { "no kernels,".into() } else { names.join(", ") })?)
    })
}

/// Runs a command on every file; a file that fails does not keep the others from their turn.
pub(super) fn each(paths: &[String], streams: &mut Streams<'_>, mut f: impl FnMut(&str, &mut Streams<'_>) -> Outcome) -> Outcome {
    let mut last = Ok(());
    for path in paths {
        match f(path, streams) {
            Ok(()) => {}
            Err(e @ (CliError::Output(_) | CliError::Usage(_))) => return Err(e),
            Err(e @ (CliError::Failed(_) | CliError::Unusable(_))) => {
                if let Err(earlier) = std::mem::replace(&mut last, Err(e)) {
                    writeln!(streams.err, "tilelift: {earlier}")?;
                }
            }
        }
    }
    last
}

fn paths(parser: &mut lexopt::Parser) -> Result<Vec<String>, CliError> {
    let mut paths = Vec::new();
    while let Some(arg) = parser.next()? {
        match arg {
            Value(v) => paths.push(v.to_string_lossy().into_owned()),
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    some(paths)
}

pub(super) fn some(paths: Vec<String>) -> Result<Vec<String>, CliError> {
    if paths.is_empty() { Err(CliError::Usage("no file is given".into())) } else { Ok(paths) }
}

pub(super) fn fmt(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut check, mut paths) = (false, Vec::new());
    while let Some(arg) = parser.next()? {
        match arg {
            Long("check") => check = true,
            Value(v) => paths.push(v.to_string_lossy().into_owned()),
            Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    each(&some(paths)?, streams, |path, streams| {
        let source = input::read(path)?;
        let file = input::load(&source, streams)?;
        let printed = file.kernels.iter().map(text::print).collect::<Vec<_>>().join("\n");
        if !check {
            if let Some(c) = file.comments.first() {
                return Err(CliError::Failed(format!("{path}:{}: the file has comments, which printing would lose", c.line)));
            }
            write!(streams.out, "{printed}")?;
        } else if printed != without_comments(&source.text) {
            return Err(CliError::Failed(format!("{path}: is not in the canonical form")));
        }
        Ok(())
    })
}

/// The text without comments, lines that only hold a comment, and blank lines at the ends.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let (code, comment) = line.split_once(';').map_or((line, false), |(c, _)| (c, true));
        if !(comment && code.trim().is_empty()) {
            kept.push_str(if comment { code.trim_end() } else { code });
            kept.push('\n');
        }
    }
    let trimmed = kept.trim_matches('\n');
    if trimmed.is_empty() { String::new() } else { format!("{trimmed}\n") }
}

#[derive(Clone, Copy, PartialEq)]
enum Emit {
    Text,
    Object,
    Lane,
    Tile,
    Schedule,
    Launch,
}

const EMITS: [(&str, Emit); 7] = [
    ("text", Emit::Text),
    ("ptx", Emit::Text),
    ("object", Emit::Object),
    ("lane", Emit::Lane),
    ("tile", Emit::Tile),
    ("schedule", Emit::Schedule),
    ("launch", Emit::Launch),
];

pub(super) fn compile(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut path, mut target, mut emit, mut only, mut output, mut times) = (None, None, Emit::Text, None, None, false);
    let mut launch = None;
    let mut opts = Options::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("target") => target = Some(options::target(parser)?),
            Long("emit") => emit = options::word(parser, "emit", &EMITS)?,
            Long("kernel") => only = Some(options::text(parser)?.trim_start_matches('@').to_owned()),
            Long("warps") => opts.lower.warps = Some(options::number(parser, "warps", 1..=64)?),
            Long("unproven") => opts.lower.proof = ProofScope::Nothing,
            Long("prove") => opts.lower.proof = ProofScope::All,
            Long("stages") => opts.lower.stages = Some(options::number(parser, "stages", 1..=16)?),
            Long("schedule") => opts.lower.schedule = Some(options::word(parser, "schedule", &options::SCHEDULES)?),
            Long("output") | Short('o') => output = Some(options::text(parser)?),
            Long("opt") => opts.opt = options::opt(parser)?,
            Long("launch") => launch = Some(options::text(parser)?),
            Long("times") => times = true,
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Value(_) | Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| CliError::Usage("no file is given".into()))?;
    let source = input::read(&path)?;
    let mut file = input::load(&source, streams)?;
    if let Some(launch) = launch {
        opts.grid = for_launch::apply(&mut file, &launch)?;
    }
    let target = target.unwrap_or_else(targets::usual);
    let chosen: Vec<&Kernel> = file.kernels.iter().filter(|k| only.as_ref().is_none_or(|n| k.name == *n)).collect();
    if chosen.is_empty() {
        return Err(CliError::Failed(match only {
            Some(name) => format!("{path}: has no kernel @{name}"),
            None => format!("{path}: has no kernel"),
        }));
    }
    if emit == Emit::Object && output.is_none() {
        return Err(CliError::Usage("a code object goes to a file: say to which with `-o`".into()));
    }
    // An assembler takes one text, with its directives, as one file.
    let to_file = output.as_ref().is_some_and(|f| f != "-");
    if (emit == Emit::Object || emit == Emit::Text && (to_file || targets::has_objects(&target))) && chosen.len() > 1 {
        let names: Vec<String> = chosen.iter().map(|k| format!("@{}", k.name)).collect();
        let what = match emit {
            Emit::Object => "a code object",
            _ if targets::has_objects(&target) => "a file of assembly",
            _ => "a file of PTX",
        };
        return Err(CliError::Usage(format!("{what} holds one kernel, and {path} has {}: say which with `--kernel`", names.join(", "))));
    }
    let mut parts = Vec::new();
    let alone = chosen.len() == 1;
    for kernel in chosen {
        match emitted(kernel, &target, &opts, (emit, alone), times, streams)? {
            Ok(part) => parts.push(part),
            Err(e) => {
                input::report(&source, e.loc(), &format!("error[{}]: {}", e.code(), reason(&e)), 1, streams)?;
                return Err(CliError::Failed(format!("@{} does not compile for {} (stage {})", kernel.name, target.name, e.stage())));
            }
        }
    }
    let out = if emit == Emit::Launch { launch::document(&texts(parts)).into_bytes() } else { parts.concat() };
    match output {
        Some(f) if f != "-" => fs::write(&f, out).map_err(|e| CliError::Unusable(format!("{f}: {e}"))),
        Some(_) | None => Ok(streams.out.write_all(&out)?),
    }
}

/// What was made as text: all but code objects is.
fn texts(parts: Vec<Vec<u8>>) -> Vec<String> {
    parts.into_iter().map(|p| String::from_utf8_lossy(&p).into_owned()).collect()
}

/// What is asked for of a kernel, which is the only one or one of several.
fn emitted(
    kernel: &Kernel,
    target: &Target,
    opts: &Options,
    (emit, alone): (Emit, bool),
    times: bool,
    streams: &mut Streams<'_>,
) -> Result<Result<Vec<u8>, CompileError>, CliError> {
    let made: Result<String, CompileError> = match emit {
        Emit::Tile => tilelift::optimise(kernel, opts.opt).map(|k| text::print(&k)),
        Emit::Schedule => match lower(kernel, target, opts) {
            Ok(l) => match l.written {
                Some(Ok(ref made)) => Ok(considered(kernel, target, opts, &l) + &text::print(made)),
                Some(Err(why)) => return Err(CliError::Failed(format!("@{} is not written as a schedule: {why}", kernel.name))),
                None if kernel.is_explicit() => tilelift::optimise(kernel, opts.opt).map(|k| text::print(&k)),
                None if alone => return Err(CliError::Failed(format!("@{} has no schedule of its own: {}", kernel.name, l.plan))),
                // Beside others it stands as it is lowered.
                None => {
                    let why = format!("; @{} has no schedule of its own: {}\n", kernel.name, l.plan);
                    tilelift::optimise(kernel, opts.opt).map(|k| why + &text::print(&k))
                }
            },
            Err(e) => Err(e),
        },
        Emit::Lane => lower(kernel, target, opts).map(|l| l.program.to_string()),
        Emit::Text | Emit::Object | Emit::Launch => match compile_timed(kernel, target, opts) {
            Ok((artifact, t)) => {
                if times {
                    writeln!(streams.err, "@{}\n{t}", kernel.name)?;
                    // Only layouts that were searched can give way.
                    if opts.opt == OptLevel::Physical
                        && let Ok(Some(why)) = lower(kernel, target, opts).map(|l| l.fallback)
                    {
                        writeln!(streams.err, "the layouts that were found do not fit, the plain ones are used: {why}")?;
                    }
                }
                match emit {
                    Emit::Object if artifact.object.is_empty() => {
                        return Err(CliError::Failed(format!("{} has no code objects here: its driver assembles the text", target.name)));
                    }
                    Emit::Object => return Ok(Ok(artifact.object)),
                    Emit::Launch => Ok(launch::describe(&artifact)),
                    _ => Ok(artifact.text),
                }
            }
            Err(e) => Err(e),
        },
    };
    if made.is_ok()
        && emit != Emit::Tile
        && let Ok(lowered) = lower(kernel, target, opts)
    {
        spills::foreseen(&lowered.program, target).iter().try_for_each(|line| writeln!(streams.err, "@{}: {line}", kernel.name))?;
    }
    Ok(made.map(String::into_bytes))
}

/// Candidates that are shown, and the one that is taken.
const SHOWN: usize = 8;

/// The ways to run a specialised loop, with what they cost and which was taken, as a comment; nothing for other loops. Below level 2 the plan's own
/// is taken whatever others cost.
pub(super) fn considered(kernel: &Kernel, target: &Target, opts: &Options, done: &Lowered) -> String {
    if done.plan.specialised().is_none() {
        return String::new();
    }
    let hints = LowerOptions { layouts: LayoutChoice::Searched, ..opts.lowering() };
    let Some(kernel) = tilelift::for_grid(kernel, target, opts).ok().filter(|k| verify(k).is_ok()) else { return String::new() };
    let Ok((kernel, _)) = planned(&kernel, target, &hints) else { return String::new() };
    let Ok(found) = schedule(&kernel, target, &hints) else { return String::new() };
    let other = |c: &&Candidate| c.consumer_sets.is_none() && !found.is_own(c);
    let taken = found.list().iter().find(other).filter(|_| done.searched).unwrap_or_else(|| found.own());
    let head = format!("; candidates of @{} on {}, best first; cycles are a multiprocessor's\n", kernel.name, target.name);
    head + &found.best_lines(SHOWN, taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::Scalar;
    use tilelift_kernels::Gemm;

    #[test]
    fn candidates_are_those_of_the_kernel_that_is_scheduled() {
        let target = targets::by_name("sm_90a").expect("known");
        let parsed = text::parse(include_str!("../../../tests/tile/loops/guarded_products.tile")).expect("parses");
        for kernel in &parsed.kernels {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut streams = Streams { out: &mut out, err: &mut err, terminal: false };
            let made = emitted(kernel, &target, &Options::default(), (Emit::Schedule, true), false, &mut streams);
            let said = String::from_utf8(made.map_err(|e| e.to_string()).unwrap().unwrap()).unwrap();
            let taken: Vec<&str> = said.lines().filter(|line| line.contains(", taken: ")).collect();
            assert!(taken.len() == 1 && taken[0].contains("taken: specialised"), "{taken:?}");
        }
    }

    #[test]
    fn a_kernel_without_a_schedule_stands_beside_others_as_it_is() {
        let target = targets::by_name("sm_90a").expect("known");
        let kernel = tilelift_kernels::VectorAdd::new(Scalar::F32).build().unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut streams = Streams { out: &mut out, err: &mut err, terminal: false };
        let mut made = |alone| emitted(&kernel, &target, &Options::default(), (Emit::Schedule, alone), false, &mut streams);
        assert!(made(true).is_err_and(|e| e.to_string().contains("has no schedule of its own")));
        let said = String::from_utf8(made(false).map_err(|e| e.to_string()).unwrap().unwrap()).unwrap();
        assert!(said.starts_with("; @") && said.contains("has no schedule of its own"), "{said}");
        assert_eq!(text::parse(&said).unwrap().kernels.len(), 1);
    }

    #[test]
    fn a_schedule_says_what_its_candidates_cost_and_which_was_taken() {
        let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64).for_shape(256, 256, 512);
        let kernel = gemm.build().unwrap();
        let target = targets::by_name("sm_90a").expect("known");
        let shown = |opt, opts: Options| {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut streams = Streams { out: &mut out, err: &mut err, terminal: false };
            let opts = Options { opt, ..opts };
            let made =
                emitted(&kernel, &target, &opts, (Emit::Schedule, true), false, &mut streams).map_err(|e| e.to_string()).unwrap().unwrap();
            String::from_utf8(made).unwrap()
        };
        for opt in [OptLevel::Logical, OptLevel::Physical] {
            let said = shown(opt, Options::default());
            let head: Vec<&str> = said.lines().take_while(|line| line.starts_with(';')).collect();
            let taken: Vec<&&str> = head.iter().filter(|line| line.contains(", taken: ")).collect();
            assert!(head.len() > 2 && head[1].contains(" cycles a grid position: ") && taken.len() == 1, "{said}");
            assert_eq!(text::parse(&said).unwrap().kernels.len(), 1);
        }
        // Pipelined loops have no candidates.
        let lower = LowerOptions { schedule: Some(tilelift_isel::ScheduleKind::Pipelined), ..LowerOptions::default() };
        let said = shown(OptLevel::Logical, Options { lower, ..Options::default() });
        assert!(said.starts_with("kernel @"), "{said}");
    }
}
