//! Trials: kernels whose main loop is specialised, or whose author says who does what, each with options of its compile.
//!
//! ```text
//! Source ─ generate_trial ─► Trial { case, options, classes } ─ Judge ─┬─ interp  what the compiler wrote, channels expanded   ─┐
//!                                                                      ├─ sim     the text, in the simulator                    ├─ = interpreter
//!                                                                      └─ cuda    the text, on hardware                        ─┘
//! ```
//!
//! A kernel counts if it is specialised or explicit; what the planner runs in another way, and what it refuses, is passed over with the reason.

mod classes;
mod epilogue;
mod judge;
mod matrix;
mod mixed;
mod options;
mod product;
mod ring;

pub use classes::{Axis, Classes};
pub use judge::{Answer, Judge};

use crate::case::Case;
use crate::explicit::generate_explicit;
use crate::source::Source;
use crate::specialised::generate_specialised;
use tilelift::Options;
use tilelift_ir::BuildErrors;
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
}

impl Trial {
    fn new(case: Case, options: Options, mut classes: Classes) -> Trial {
        classes.add(Axis::Level, format_args!("{:?}", options.opt));
        Trial { case, options, classes }
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

/// Makes a trial.
///
/// # Errors
/// The builder's complaints: a bug of the generator or of the builder.
pub fn generate_trial(src: &mut Source) -> Result<Trial, BuildErrors> {
    let mut classes = Classes::default();
    match src.weighted(&[10, 6, 5, 2, 2]) {
        0 => product::product(src),
        1 => mixed::mixed(src),
        2 => ring::ring(src),
        3 => {
            let case = generate_specialised(src)?;
            classes.add(Axis::Family, "columns anywhere");
            Ok(Trial::new(case, options::compile(src, LowerOptions::default()), classes))
        }
        _ => {
            let case = generate_explicit(src)?;
            classes.add(Axis::Family, "tiles through tasks");
            Ok(Trial::new(case, options::compile(src, LowerOptions::default()), classes))
        }
    }
}
