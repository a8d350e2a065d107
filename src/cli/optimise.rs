//! `opt`, `explain` and `dot`: what the optimizer makes of a file, and why.

use super::{CliError, Outcome, Streams, input, options};
use lexopt::Arg::{Long, Short, Value};
use tilelift_egraph::{Class, Options, explain as reasons, optimise};
use tilelift_ir::{Verified, text, verify};

pub(super) const OPT_HELP: &str = "\
usage: tilelift opt FILE [OPTION…]

Prints every kernel of the file after a stage of the optimizer.
  --stage NAME    logical (default): equality saturation over the tile program
  --allow CLASS   the loosest rules that may apply: exact, free (default), reassoc, approx
  --report        what the phases and rules did, on standard error";

pub(super) const EXPLAIN_HELP: &str = "\
usage: tilelift explain FILE [--allow CLASS]

Prints, for every value that the optimizer computes in another way than the file, the chain of rules that leads there, and what the
next best program would cost.
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
}

fn job(parser: &mut lexopt::Parser, stages: bool) -> Result<Job, CliError> {
    let (mut path, mut allow, mut report) = (None, None, false);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("stage") if stages => options::word(parser, "stage", &[("logical", ())])?,
            Long("allow") => {
                let words: Vec<(&str, Class)> = Class::ALL.iter().map(|&c| (c.word(), c)).collect();
                allow = Some(options::word(parser, "allow", &words)?);
            }
            Long("report") if stages => report = true,
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Value(_) | Long(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| CliError::Usage("no file is given".into()))?;
    let usual = Options::default();
    Ok(Job { path, options: Options { allow: allow.unwrap_or(usual.allow), ..usual }, report })
}

fn each(job: &Job, streams: &mut Streams<'_>, mut f: impl FnMut(&Verified<'_>, &mut Streams<'_>) -> Outcome) -> Outcome {
    let source = input::read(&job.path)?;
    let file = input::load(&source, streams)?;
    for kernel in &file.kernels {
        let verified = verify(kernel).map_err(|e| CliError::Failed(e.to_string()))?;
        f(&verified, streams)?;
    }
    Ok(())
}

pub(super) fn opt(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, true)?;
    each(&job, streams, |kernel, streams| {
        let (made, report) = optimise(kernel, &job.options);
        if job.report {
            write!(streams.err, "@{}\n{report}", kernel.name)?;
        }
        Ok(write!(streams.out, "{}", text::print(&made))?)
    })
}

pub(super) fn explain(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, false)?;
    each(&job, streams, |kernel, streams| Ok(write!(streams.out, "{}", reasons::explain(kernel, &job.options))?))
}

pub(super) fn dot(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser, false)?;
    each(&job, streams, |kernel, streams| Ok(write!(streams.out, "{}", reasons::dot(kernel, &job.options))?))
}
