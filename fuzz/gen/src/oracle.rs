//! Oracles: what must agree with what. Each runs a case two ways and says how they differ.
//!
//! A panic anywhere below counts as a failure of its own kind, and is caught, so that a long run goes on.

use crate::case::Case;
pub use crate::embedded::{any_entry, any_launch};
pub use crate::misuse::{any_builder_calls, any_text};
pub use crate::sim::{ptx_text, schedules, sim, sim_with};
pub use crate::verdict::{Failure, Kind, Verdict, reason};
use crate::verdict::{failure, guarded};
use tilelift_interp::{self as interp, Memory};
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::lane::{self, LaneOptions};
use tilelift_isel::{LayoutChoice, LowerOptions, Target, lower};

/// Element operations of a case after which it counts as endless.
const FUEL: u64 = 1 << 29;

/// What the interpreter leaves in memory.
///
/// # Errors
/// A kernel that does not verify or run: a bug of the generator, the verifier or the interpreter.
pub fn reference(case: &Case) -> Result<Memory, Failure> {
    guarded("interpreter", || {
        let verified = verify(&case.kernel).map_err(|e| failure(Kind::Generator, "verifier", e))?;
        let mut memory = case.memory();
        let options = interp::Options { fuel: FUEL, ..interp::Options::default() };
        interp::interpret(&verified, case.grid, &case.args(), &mut memory, &options)
            .map_err(|e| failure(Kind::Generator, "interpreter", e))?;
        Ok(memory)
    })
}

/// Printing and parsing change nothing, and the parsed kernel means the same.
///
/// # Errors
/// The first difference.
pub fn text_round_trip(case: &Case) -> Result<Verdict, Failure> {
    let at = "text";
    guarded(at, || {
        let first = text::print(&case.kernel);
        let file = text::parse(&first).map_err(|e| failure(Kind::Text, at, e))?;
        let [parsed] = &file.kernels[..] else {
            return Err(failure(Kind::Text, at, format!("{} kernels parsed from one", file.kernels.len())));
        };
        let second = text::print(parsed);
        if first != second {
            return Err(failure(Kind::Text, at, format!("printed again, it reads\n{second}")));
        }
        let again = Case { kernel: parsed.clone(), ..case.clone() };
        let (want, got) = (reference(case)?, reference(&again)?);
        match case.difference(&want, &got) {
            Some(d) => Err(failure(Kind::Text, at, format!("the parsed kernel computes something else: {d}"))),
            None => Ok(Verdict::Pass),
        }
    })
}

/// The targets of the lane oracle.
pub fn targets() -> [Target; 2] {
    [tilelift_nvptx::sm_80(), tilelift_amdgcn::gfx942()]
}

/// The interpreter against the lane interpreter, for one target and schedule.
///
/// # Errors
/// A panic, a program that the lane verifier refuses, a fault or wrong numbers.
pub fn lane(case: &Case, want: &Memory, target: &Target, options: &LowerOptions) -> Result<Verdict, Failure> {
    let at = format!("lane {}", target.name);
    guarded(&at, || {
        let verified = verify(&case.kernel).map_err(|e| failure(Kind::Generator, "verifier", e))?;
        let lowered = match lower(&verified, target, options) {
            Ok(l) => l,
            Err(e) => return Ok(Verdict::Refused(reason(&e))),
        };
        lane::verify(&lowered.program, target).map_err(|e| failure(Kind::Malformed, &at, e))?;
        let mut memory = case.memory();
        let lane_options = LaneOptions { fuel: FUEL << 6, ..LaneOptions::default() };
        lane::interpret(&lowered.program, target, case.grid, &case.args(), &mut memory, &lane_options)
            .map_err(|e| failure(Kind::Fault, &at, e))?;
        match case.difference(want, &memory) {
            Some(d) => Err(failure(Kind::Mismatch, &at, d)),
            None => Ok(Verdict::Pass),
        }
    })
}

/// What the optimizer makes of a case's kernel by exact rules.
pub(crate) fn better(case: &Case, chaos: Option<u64>, at: &str) -> Result<Case, Failure> {
    let verified = verify(&case.kernel).map_err(|e| failure(Kind::Generator, "verifier", e))?;
    // One chaos of three in windows of a few instructions, as large programs are taken.
    let window = chaos.filter(|seed| seed % 3 == 0).map(|seed| 1 + (seed / 3) as usize % 24);
    let options = tilelift_egraph::Options { allow: tilelift_egraph::Class::Exact, chaos, window, ..Default::default() };
    let (kernel, report) = tilelift_egraph::optimise(&verified, &options);
    match report.fallback {
        Some(why) => Err(failure(Kind::Malformed, at, why)),
        None => Ok(Case { kernel: kernel.into_kernel(), ..case.clone() }),
    }
}

/// What the optimizer does to a case's kernel, if it verifies.
pub fn report_of(case: &Case) -> Option<tilelift_egraph::Report> {
    verify(&case.kernel).ok().map(|v| tilelift_egraph::optimise(&v, &tilelift_egraph::Options::default()).1)
}

/// The interpreter on the kernel against the interpreter on what the optimizer makes of it by exact rules: equal bits. With `chaos`,
/// rules come in a random order, and a random program of the graph, or about the dearest, is taken.
///
/// # Errors
/// A panic, a kernel that does not verify or stops, or other numbers.
pub fn optimised(case: &Case, want: &Memory, chaos: Option<u64>) -> Result<Verdict, Failure> {
    let at = chaos.map_or("optimizer".to_owned(), |seed| format!("optimizer, chaos {seed}"));
    guarded(&at, || {
        let better = better(case, chaos, &at)?;
        let got = reference(&better).map_err(|e| failure(Kind::Fault, &at, format!("{e}\n{}", text::print(&better.kernel))))?;
        match case.exact().difference(want, &got) {
            Some(d) => Err(failure(Kind::Mismatch, &at, format!("{d}\n{}", text::print(&better.kernel)))),
            None => Ok(Verdict::Pass),
        }
    })
}

/// The interpreter on the kernel against the simulator on the text of what the optimizer makes of it, layouts searched; with `chaos`, by
/// random prices.
///
/// # Errors
/// As [`optimised`] and [`sim`].
pub fn optimised_text(case: &Case, want: &Memory, chaos: Option<u64>, target: &Target) -> Result<Verdict, Failure> {
    let at = chaos.map_or("optimizer, sim".to_owned(), |seed| format!("optimizer, chaos {seed}, sim"));
    let better = guarded(&at, || better(case, chaos, &at))?;
    let seed = case.kernel.insts.len() as u64;
    let layouts = chaos.map_or(LayoutChoice::Searched, LayoutChoice::Random);
    sim_with(&better, want, target, layouts, &schedules(seed)[(seed % 2) as usize..][..1])
        .map_err(|f| failure(f.kind, &at, format!("{}\n{}", f.message, text::print(&better.kernel))))
}

/// The lane program of a kernel as text, for a report on a failure.
pub fn lane_text(kernel: &Kernel, target: &Target) -> String {
    match verify(kernel) {
        Ok(v) => match lower(&v, target, &LowerOptions::default()) {
            Ok(l) => l.program.to_string(),
            Err(e) => e.to_string(),
        },
        Err(e) => e.to_string(),
    }
}
