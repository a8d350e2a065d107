//! The `tilelift` tool: checks, formats, runs, compiles and tests `.tile` files, and runs the kernels of the library.
//!
//! ```text
//! args ─► Command ─► a module per group: files (check, fmt, compile), optimise (opt, explain, dot), launch (run, interp, test), layout, report, trace, gemm, accept, devices
//! ```
//!
//! Results go to standard output, everything about errors to standard error. Exit codes: 0 all well, 1 an input is wrong or a check
//! failed, 2 the command line is wrong, 3 a file or device can't be used. A reader that closes the pipe ends the tool quietly.

pub mod accept;
mod bench;
mod bench_job;
mod compiling;
mod devices;
mod doctor;
mod files;
mod fired;
mod for_launch;
mod gemm;
mod input;
mod launch;
mod layer;
mod layout;
mod opt_report;
mod optimise;
mod options;
mod outcome;
mod own;
mod plan;
mod progress;
mod report;
mod roofline;
mod sim;
mod sim_report;
mod spills;
mod trace;

pub use outcome::Status;

use outcome::{CliError, Outcome, Streams};
use std::ffi::OsString;
use std::io::{self, Write};

type Run = fn(&mut lexopt::Parser, &mut Streams<'_>) -> Outcome;

struct Command {
    name: &'static str,
    summary: &'static str,
    help: &'static str,
    run: Run,
}

const COMMANDS: &[Command] = &[
    Command { name: "check", summary: "parse and verify files", help: files::CHECK_HELP, run: files::check },
    Command { name: "fmt", summary: "print files in the canonical form", help: files::FMT_HELP, run: files::fmt },
    Command {
        name: "compile",
        summary: "compile a file to PTX, to assembly or a code object for AMD chips, or to lane or tile text",
        help: files::COMPILE_HELP,
        run: files::compile,
    },
    Command { name: "run", summary: "execute the `; run:` lines of a file on a device", help: launch::RUN_HELP, run: launch::run },
    Command {
        name: "interp",
        summary: "execute the `; run:` lines of a file on the interpreter",
        help: launch::INTERP_HELP,
        run: launch::interp,
    },
    Command { name: "test", summary: "run file tests", help: launch::TEST_HELP, run: launch::test },
    Command {
        name: "sim",
        summary: "run PTX or an AMD code object, whoever compiled it, in the simulator",
        help: sim::HELP,
        run: sim::run,
    },
    Command {
        name: "opt",
        summary: "print the kernels of a file as the optimizer makes them",
        help: optimise::OPT_HELP,
        run: optimise::opt,
    },
    Command {
        name: "explain",
        summary: "how a kernel runs, what its loops wait for and why, and which rules changed it",
        help: optimise::EXPLAIN_HELP,
        run: optimise::explain,
    },
    Command {
        name: "dot",
        summary: "print the optimizer's graph in the language of Graphviz",
        help: optimise::DOT_HELP,
        run: optimise::dot,
    },
    Command {
        name: "layout",
        summary: "draw which lane holds what of a tile, and in which bank what lies in shared memory",
        help: layout::HELP,
        run: layout::run,
    },
    Command { name: "report", summary: "everything about one kernel, stage by stage, as a page", help: report::HELP, run: report::run },
    Command { name: "trace", summary: "a launch in the simulator as a timeline for Perfetto", help: trace::HELP, run: trace::run },
    Command { name: "gemm", summary: "build, compile, run and check a matrix product", help: gemm::HELP, run: gemm::run },
    Command { name: "plan", summary: "rank the tiles of a product by a model of the machine", help: plan::PLAN_HELP, run: plan::plan },
    Command { name: "tune", summary: "time the first choices of the model on a GPU", help: plan::TUNE_HELP, run: plan::tune },
    Command {
        name: "layer",
        summary: "fuse a layer or an attention of plain kernels, run both, compare, time on a GPU",
        help: layer::HELP,
        run: layer::run,
    },
    Command { name: "accept", summary: "run the acceptance cases of the kernel library", help: accept::HELP, run: accept::run },
    Command {
        name: "bench",
        summary: "time your own launches, or kernels against cuBLASLt and copies, or compiles",
        help: bench::HELP,
        run: bench::run,
    },
    Command { name: "devices", summary: "list devices and targets", help: devices::HELP, run: devices::run },
    Command { name: "doctor", summary: "what this machine has, and what to do about the rest", help: doctor::HELP, run: doctor::run },
];

/// Runs the tool on arguments (without the program's name).
pub fn run(args: Vec<OsString>, out: &mut dyn Write, err: &mut dyn Write) -> Status {
    run_in(args, Streams { out, err, terminal: false })
}

/// As [`run`], where `err` is the terminal's standard error: long commands show there how far they are.
pub fn run_at_terminal(args: Vec<OsString>, out: &mut dyn Write, err: &mut dyn Write) -> Status {
    run_in(args, Streams { out, err, terminal: true })
}

fn run_in(args: Vec<OsString>, mut streams: Streams<'_>) -> Status {
    let result = dispatch(args, &mut streams).and_then(|()| streams.out.flush().map_err(CliError::Output));
    let (status, message) = match result {
        Ok(()) => return Status::Done,
        Err(CliError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => return Status::Done,
        Err(e @ CliError::Usage(_)) => (Status::Usage, format!("{e}\ntry `tilelift help`")),
        Err(e @ (CliError::Unusable(_) | CliError::Output(_))) => (Status::Unusable, e.to_string()),
        Err(e @ CliError::Failed(_)) => (Status::Failed, e.to_string()),
    };
    // Nothing is left to tell if standard error is closed, too.
    if !message.is_empty() {
        let _ = writeln!(streams.err, "tilelift: {message}");
    }
    let _ = streams.out.flush();
    status
}

fn dispatch(args: Vec<OsString>, streams: &mut Streams<'_>) -> Outcome {
    use lexopt::Arg::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_args(args);
    let name = match parser.next()? {
        None | Some(Long("help") | Short('h')) => return help(None, streams),
        Some(Long("version") | Short('V')) => return Ok(writeln!(streams.out, "tilelift {}", env!("CARGO_PKG_VERSION"))?),
        Some(Value(v)) => v.to_string_lossy().into_owned(),
        Some(other) => return Err(other.unexpected().into()),
    };
    if name == "help" {
        let topic = match parser.next()? {
            Some(Value(v)) => Some(v.to_string_lossy().into_owned()),
            Some(other) => return Err(other.unexpected().into()),
            None => None,
        };
        return help(topic.as_deref(), streams);
    }
    let command = find(&name)?;
    // `--help` anywhere behind the command asks for the command's help.
    let rest: Vec<OsString> = parser.raw_args()?.collect();
    if rest.iter().any(|a| a == "--help" || a == "-h") {
        return help(Some(&name), streams);
    }
    (command.run)(&mut lexopt::Parser::from_args(rest), streams)
}

/// Options that several commands share, behind their own.
fn shared_help(name: &str) -> &'static str {
    if matches!(name, "layout" | "report" | "trace") { compiling::HELP } else { "" }
}

fn find(name: &str) -> Result<&'static Command, CliError> {
    COMMANDS.iter().find(|c| c.name == name).ok_or_else(|| {
        let known: Vec<&str> = COMMANDS.iter().map(|c| c.name).collect();
        CliError::Usage(format!("there is no command `{name}`; known are {}", known.join(", ")))
    })
}

fn help(topic: Option<&str>, streams: &mut Streams<'_>) -> Outcome {
    if let Some(name) = topic {
        let command = find(name)?;
        return Ok(writeln!(streams.out, "{}\n\n{}{}", command.summary, command.help, shared_help(command.name))?);
    }
    writeln!(streams.out, "tilelift: a JIT compiler for GPU tile kernels\n\nusage: tilelift COMMAND [OPTION…] [FILE…]\n")?;
    for c in COMMANDS {
        writeln!(streams.out, "  {:<9} {}", c.name, c.summary)?;
    }
    writeln!(
        streams.out,
        "\n`tilelift help COMMAND` explains a command. FILE may be `-` for standard input.\n\
         Exit codes: 0 all well, 1 an input is wrong or a check failed, 2 wrong command line, 3 a file or device can't be used."
    )?;
    Ok(())
}
