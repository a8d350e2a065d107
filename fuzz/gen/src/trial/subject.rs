//! What a trial tries: a kernel with options of its compile.

use super::classes::{Axis, Classes};
use crate::case::Case;
use tilelift::Options;
use tilelift_isel::LowerOptions;

/// A kernel to compile with options, and to run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The kernel, its grid and arguments.
    pub case: Case,
    /// Options of the compile.
    pub options: Options,
    /// What it is made of.
    pub classes: Classes,
    /// It counts however its loops run.
    pub any: bool,
}

impl Trial {
    pub(super) fn new(case: Case, options: Options, mut classes: Classes) -> Trial {
        classes.add(Axis::Level, format_args!("{:?}", options.opt));
        Trial { case, options, classes, any: false }
    }

    /// The options that are not as usual, as a line.
    pub fn asked(&self) -> String {
        let (lower, usual) = (format!("{:#?}", self.options.lower), format!("{:#?}", LowerOptions::default()));
        // Multi-line forms differ by whole fields only, but for `Some` of several lines.
        let flat =
            |text: &str| text.replace("Some(\n        ", "Some(").replace(",\n    ),", "),").lines().map(str::to_owned).collect::<Vec<_>>();
        let usual = flat(&usual);
        let other: Vec<String> =
            flat(&lower).into_iter().filter(|l| !usual.contains(l)).map(|l| l.trim().trim_end_matches(',').to_owned()).collect();
        format!("level {:?}, {}", self.options.opt, other.join(", "))
    }
}
