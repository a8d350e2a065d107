//! The optimizer's logical stage: equality saturation over a verified kernel.
//!
//! ```text
//! Verified ── skeleton ─► Graph + Skeleton ── saturate ─► Graph ── extract ─► Choice ── elaborate ─► Kernel
//!             pure ops in, effects in order     rules            cost              value numbering, loops
//! ```
//!
//! [`optimise`] is a pure function: the same kernel and options give the same bytes on any machine and any thread. It always has an
//! answer: fuel that runs out means extraction of what is there. `docs/optimizer.md` lists the rules.
//!
//! The crate knows no target.

#![deny(missing_docs)]

mod analysis;
pub mod cost;
mod elaborate;
pub mod explain;
mod extract;
mod fault;
mod folds;
mod forest;
mod fuse;
mod graph;
mod hash;
mod language;
mod log;
mod narrow;
mod options;
mod passes;
pub mod physical;
pub mod prove;
mod report;
mod rescale;
pub mod rules;
mod saturate;
mod sink;
mod skeleton;
mod solve;
mod term;
mod whole;
mod windows;

pub use fault::{Broken, Fallback};
pub use narrow::{End, Narrowed};
pub use options::{Options, PhaseReport, RuleReport, Stop};
pub use report::{MOST_INSTRUCTIONS, Report, Skipped};
pub use rules::{Class, Rule};

use solve::{Solved, solve};
use tilelift_ir::{Verified, VerifiedKernel, VerifyCode};

/// Makes a better kernel of a kernel.
pub fn optimise(kernel: &Verified<'_>, options: &Options) -> (VerifiedKernel, Report) {
    let same = || VerifiedKernel::from(*kernel);
    let kept = |why: Fallback, report: Report| (same(), Report { fallback: Some(why), ..report });
    let (made, report) = match (Skipped::of(kernel), options.window) {
        (Some(why @ Skipped::Explicit), _) => return (same(), Report { skipped: Some(why), ..Report::default() }),
        (_, Some(window)) => windows::optimise(kernel, options, window),
        (Some(Skipped::Size { .. }), None) => windows::optimise(kernel, options, windows::WINDOW),
        (None, None) => match solve(kernel, options, false) {
            Some(Solved { made, report, .. }) => (made.map_err(Fallback::Broken), report),
            None => return kept(Fallback::NoProgram, Report::default()),
        },
    };
    match made {
        Err(why) => kept(why, report),
        Ok(made) => match VerifiedKernel::of(made) {
            Ok(made) => (made, report),
            // What moved lets layouts meet that the author keeps apart.
            Err(e) if e.errors.iter().all(|e| e.code == VerifyCode::Layout) => (same(), report),
            Err(e) => kept(Fallback::Invalid(Box::new(e)), report),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_kernels::{Size, cases};

    /// The kernel that is taken is the best of those that were kept, and ranking by the whole kernel is more than ranking by nodes.
    #[test]
    fn the_best_whole_kernel_is_taken() {
        let (mut kept, mut overruled) = (0, 0);
        for case in cases().iter().filter(|c| c.size == Size::Small) {
            let kernel = case.build().expect("kernels of the library build");
            let options = Options { allow: Class::Approx, ..Options::default() };
            // Those that are not written elsewhere, since they can't be better, are here.
            let s = solve(&kernel, &options, true).expect("a program");
            for (other, whole) in &s.others {
                assert_eq!(s.forest.check(other), Ok(()), "{}", case.name);
                assert!((whole.time(), other.total) >= (s.whole.time(), s.choice.total), "{}: {whole} before {}", case.name, s.whole);
                overruled += usize::from(other.total < s.choice.total);
            }
            assert_eq!(s.forest.check(&s.choice), Ok(()), "{}", case.name);
            assert_eq!(whole::judge(s.made.as_ref().expect("it was made")), s.whole, "{}", case.name);
            kept += s.others.len();
        }
        assert!(kept >= 50, "only {kept} runners-up");
        println!("{kept} kept, {overruled} overruled");
    }
}
