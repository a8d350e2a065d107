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

impl Way {
    /// The trial that is compiled so; by chaos, what the optimizer makes is the same to the interpreter.
    fn made(self, trial: &Trial, seed: u64) -> Result<Trial, Failure> {
        let Trial { case, options, .. } = trial;
        let (made, opt, layouts) = match self {
            Way::Level(level) => (case.clone(), level, options.lower.layouts),
            Way::Chaos => {
                let want = oracle::reference(case)?;
                // What authors schedule themselves is not optimised.
                if !case.kernel.is_explicit() {
                    oracle::optimised(case, &want, Some(seed))?;
                }
                (oracle::better(case, Some(seed), "optimizer, chaos")?, OptLevel::None, LayoutChoice::Random(seed))
            }
        };
        let lower = LowerOptions { layouts, ..options.lower };
        Ok(Trial { case: made, options: Options { opt, lower, ..options.clone() }, ..trial.clone() })
    }
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
    let judge = Judge::open_for(DeviceKind::Sim, target).map_err(|e| failure(Kind::Generator, name, e))?;
    let trial = Trial { case: case.clone(), options, classes: Classes::default(), any: true };
    match way.made(&trial, seed).map(|mut t| judge.judge(&mut t, seed)) {
        Ok(Answer::Failed(f)) | Err(f) => Err(told(f)),
        Ok(answer) => Ok(answer),
    }
}

/// Judges a trial off, by default and by chaos. Equal, if a way is and none fails; passed over, if each refuses it.
pub fn every_way(trial: &mut Trial, judge: &Judge, seed: u64) -> Answer {
    let mut all = None;
    for way in [Way::Level(OptLevel::None), Way::Level(OptLevel::suited(&trial.case.kernel)), Way::Chaos] {
        let told = |f: Failure| Failure { message: format!("{}\n; {way:?}, seed {seed}", f.message), ..f };
        let mut made = match way.made(trial, seed) {
            Ok(t) => t,
            Err(f) => return Answer::Failed(told(f)),
        };
        let answer = judge.judge(&mut made, seed);
        trial.classes = made.classes;
        all = match (answer, all) {
            (Answer::Failed(f), _) => return Answer::Failed(told(f)),
            (Answer::PassedOver(_), Some(known)) => Some(known),
            (answer, _) => Some(answer),
        };
    }
    all.unwrap_or(Answer::Equal)
}
