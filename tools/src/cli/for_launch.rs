//! A file whose kernel is compiled for what a launch's arguments are multiples of, as `bench FILE` does.

use super::outcome::CliError;
use crate::bench::own::launches;
use crate::filetest::data;
use tilelift::{Divisors, GridFacts};
use tilelift_ir::text::File;

/// What the grid of a launch is like; nothing of one that does not parse.
pub(super) fn grid(launch: &str) -> Option<GridFacts> {
    GridFacts::of(launches::one(1, launch).ok()?.run.grid)
}

/// Puts in the place of a kernel what is compiled for a launch of it; what its grid is like.
pub(super) fn apply(file: &mut File, launch: &str) -> Result<Option<GridFacts>, CliError> {
    let wrong = |e: String| CliError::Usage(format!("--launch: {e}"));
    let run = launches::one(1, launch).map_err(wrong)?.run;
    let known: Vec<String> = file.kernels.iter().map(|k| format!("@{}", k.name)).collect();
    let kernel = file.kernels.iter_mut().find(|k| k.name == run.kernel);
    let kernel = kernel.ok_or_else(|| wrong(format!("there is no kernel @{}; the file has {}", run.kernel, known.join(", "))))?;
    let args = data::shaped(&run, kernel).map_err(wrong)?;
    *kernel = Divisors::of(kernel, &args).apply(kernel);
    Ok(GridFacts::of(run.grid))
}
