//! Trials: kernels whose main loop is specialised, or whose author says who does what, each with options of its compile.
//!
//! ```text
//! Source ─ generate_trial ─► Trial { case, options, classes } ─ Judge ─┬─ interp  what the compiler wrote, channels expanded   ─┐
//!                                                                      ├─ sim     the text, in the simulator                    ├─ = interpreter
//!                                                                      └─ cuda    the text, on hardware                        ─┘
//! ```
//!
//! A kernel counts if it is specialised or explicit; what the planner runs in another way, and what it refuses, is passed over with the reason.
//! For a target that specialises nothing, each counts that it does not refuse.

mod classes;
mod epilogue;
mod judge;
mod loops;
mod matrix;
mod mixed;
mod options;
mod plain;
mod product;
mod ring;
mod step;
mod subject;
mod walk;

pub use classes::{Axis, Classes};
pub(crate) use judge::refused;
pub use judge::{Answer, Judge};
pub use subject::Trial;

use crate::config::Config;
use crate::explicit::generate_explicit;
use crate::source::Source;
use crate::specialised::generate_specialised;
use tilelift_ir::BuildErrors;
use tilelift_isel::LowerOptions;

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

/// Makes a trial of plain products whose loops stand in anything, and go where memory says; it counts however its loops run.
///
/// # Errors
/// As [`generate_trial`].
pub fn generate_loops(src: &mut Source) -> Result<Trial, BuildErrors> {
    loops::loops(src)
}

/// Makes a trial of a kernel of any ops within these limits; it counts however its loops run.
///
/// # Errors
/// As [`generate_trial`].
pub fn generate_plain(src: &mut Source, limits: &Config) -> Result<Trial, BuildErrors> {
    plain::plain(src, limits)
}
