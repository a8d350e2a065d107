//! Kernels of any ops, as the oracles judge them, compiled at any level; they count however their loops run.

use super::classes::{Axis, Classes};
use super::options;
use super::subject::Trial;
use crate::config::{Config, Mode};
use crate::kernel::generate;
use crate::source::Source;
use tilelift_ir::BuildErrors;
use tilelift_isel::LowerOptions;

/// Makes one within these limits, but for the mode: a quarter of them may round differently.
pub(super) fn plain(src: &mut Source, limits: &Config) -> Result<Trial, BuildErrors> {
    let mut classes = Classes::default();
    let (mode, family) = if src.chance(64) { (Mode::Approx, "any ops, near") } else { (Mode::Exact, "any ops") };
    let options = options::compile(src, LowerOptions::default());
    let case = generate(src, &limits.clone().with_mode(mode))?;
    classes.add(Axis::Family, family);
    let warps = case.kernel.hints.warps;
    classes.add(Axis::Warps, warps.map_or("any".to_owned(), |n| n.to_string()));
    Ok(Trial { any: true, ..Trial::new(case, options, classes) })
}
