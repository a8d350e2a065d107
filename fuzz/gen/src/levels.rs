//! Kernels at every level of the compiler, and by chaos: rules in a random order, a random program of the e-graph, layouts by random prices.

use crate::config::Config;
use crate::oracle;
use crate::source::Source;
use crate::trial::{Answer, Classes, Judge, Trial, generate_loops, generate_plain, generate_trial};
use crate::verdict::{Failure, Kind, failure};
use tilelift::{OptLevel, Options, targets};
use tilelift_isel::{LayoutChoice, LowerOptions};
use tilelift_tools::execute::DeviceKind;

/// The targets, two for each simulator.
pub const TARGETS: [&str; 4] = ["sm_80", "sm_90a", "gfx942", "gfx950"];

/// How a kernel is compiled.
#[derive(Clone, Copy, Debug)]
enum Way {
    Level(OptLevel),
    Chaos,
}

const WAYS: [Way; 4] = [Way::Level(OptLevel::None), Way::Level(OptLevel::Logical), Way::Level(OptLevel::Physical), Way::Chaos];

/// Compiles a kernel off, by default, with its layouts searched or by chaos, for one of four targets, and compares interpreter, interpreter of what the
/// optimizer made, and simulator. All of it comes of the source.
///
/// # Errors
/// What differs, faults or panics, with the kernel as a text.
pub fn any_level(src: &mut Source) -> Result<Answer, Failure> {
    let (name, way) = (TARGETS[src.below(4) as usize], WAYS[src.below(4) as usize]);
    let seed = u64::from(src.below(1 << 16));
    let target = targets::by_name(name).unwrap_or_else(targets::usual);
    let made = match src.below(3) {
        0 => generate_plain(src, &Config::small()),
        1 => generate_loops(src),
        _ => generate_trial(src),
    };
    let Trial { case, options, .. } = made.map_err(|e| failure(Kind::Generator, "builder", e))?;
    let told = |f: Failure| Failure { message: format!("{}\n; {way:?}, seed {seed}, {name}\n{}", f.message, case.to_tile_text()), ..f };
    let (made, opt, layouts) = match way {
        Way::Level(level) => (case.clone(), level, options.lower.layouts),
        Way::Chaos => {
            let want = oracle::reference(&case).map_err(told)?;
            // What authors schedule themselves is not optimised.
            if !case.kernel.is_explicit() {
                oracle::optimised(&case, &want, Some(seed)).map_err(told)?;
            }
            (oracle::better(&case, Some(seed), "optimizer, chaos").map_err(told)?, OptLevel::None, LayoutChoice::Random(seed))
        }
    };
    let options = Options { opt, lower: LowerOptions { layouts, ..options.lower }, ..options };
    let judge = Judge::open_for(DeviceKind::Sim, target).map_err(|e| failure(Kind::Generator, name, e))?;
    match judge.judge(&mut Trial { case: made, options, classes: Classes::default(), any: true }, seed) {
        Answer::Failed(f) => Err(told(f)),
        answer => Ok(answer),
    }
}
