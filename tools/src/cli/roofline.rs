//! `bench … --roofline FILE`: what was measured, under the roofs of the machine; of a run, or of the result file of an earlier one.

use super::options;
use super::outcome::{CliError, Outcome};
use crate::bench::results::Results;
use crate::picture::roofline::{Machine, draw};
use lexopt::Arg::{Long, Short, Value};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use tilelift::targets;
use tilelift_isel::Target;

/// Bytes of a result file, at most.
const MOST: u64 = 1 << 26;

/// True if an earlier result file is asked for.
pub(super) fn names_results(args: &[OsString]) -> bool {
    args.iter().any(|a| a == "--from" || a.to_string_lossy().starts_with("--from="))
}

/// `bench --roofline FILE --from RESULTS [--target NAME]`.
pub(super) fn run(args: Vec<OsString>) -> Outcome {
    let (mut output, mut from, mut target) = (None, None, None);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("roofline") => output = Some(options::text(&mut parser)?),
            Long("from") => from = Some(options::text(&mut parser)?),
            Long("target") => target = Some(options::target(&mut parser)?),
            Long(_) | Short(_) | Value(_) => {
                let e = arg.unexpected();
                return Err(CliError::Usage(format!("{e}; `--from` measures nothing: it goes with `--roofline` and `--target` alone")));
            }
        }
    }
    let (Some(output), Some(from)) = (output, from) else {
        return Err(CliError::Usage("`--from RESULTS.json` goes with `--roofline FILE.svg`, which it draws".into()));
    };
    let text = crate::read::text(Path::new(&from), MOST).map_err(|e| CliError::Unusable(format!("{from}: {e}")))?;
    of_results(&output, &from, &text, target.as_ref())
}

/// Draws the results in a text, which comes from a place.
pub(super) fn of_results(output: &str, from: &str, text: &str, target: Option<&Target>) -> Outcome {
    let results = Results::read(text).map_err(|e| CliError::Failed(format!("{from}: {e}")))?;
    if results.points.is_empty() {
        return Err(CliError::Failed(format!("{from}: nothing was timed, so there is nothing to draw")));
    }
    let named = results.target.as_deref().and_then(targets::by_name);
    let Some(target) = target.cloned().or(named) else {
        return Err(CliError::Usage(format!("{from} does not say for which target it was measured: say so with `--target`")));
    };
    let target = match results.multiprocessors {
        Some(n) => target.with_multiprocessors(n),
        None => target,
    };
    let svg = draw(&Machine::of(&target), &results.points).document();
    fs::write(output, svg).map_err(|e| CliError::Unusable(format!("{output}: {e}")))
}
