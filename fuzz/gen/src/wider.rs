//! Kernels whose instances stand for several grid positions, beside the kernels that they are made of.

use crate::case::Case;
use crate::oracle::reference;
use crate::sim::{schedules, sim};
use crate::verdict::{Failure, Kind, Verdict, failure, guarded};
use tilelift_interp::Memory;
use tilelift_ir::{text, verify};
use tilelift_isel::{Target, wider};

/// The interpreter on a kernel against the interpreter on its wider forms along each axis, equal bits, and against the simulator on texts of the widest one.
/// The verdict says so for each form; there is none where a grid position decides more than the place of tiles.
///
/// # Errors
/// A panic, a form that does not verify or stops, or other numbers.
pub fn wider_forms(case: &Case, want: &Memory, targets: &[Target]) -> Result<Vec<Verdict>, Failure> {
    let at = "wider";
    let mut verdicts = Vec::new();
    let mut widest = case.clone();
    for axis in 0..3 {
        let form = guarded(at, || Ok(wider(&widest.kernel, axis)))?;
        let Some(kernel) = form.filter(|k| case.grid[axis].is_multiple_of(k.positions[axis])) else {
            verdicts.push(Verdict::Refused("a position decides more than the place of tiles, or the grid is odd".to_owned()));
            continue;
        };
        guarded(at, || verify(&kernel).map(drop).map_err(|e| failure(Kind::Malformed, at, format!("{e}\n{}", text::print(&kernel)))))?;
        widest = Case { kernel, ..case.clone() };
        let got = reference(&widest).map_err(|e| failure(Kind::Fault, at, format!("{e}\n{}", text::print(&widest.kernel))))?;
        if let Some(d) = case.exact().difference(want, &got) {
            return Err(failure(Kind::Mismatch, at, format!("{d}\n{}", text::print(&widest.kernel))));
        }
        verdicts.push(Verdict::Pass);
    }
    if widest.kernel.positions != [1; 3] {
        for target in targets {
            verdicts.push(sim(&widest, want, target, &schedules(case.kernel.insts.len() as u64)[..1])?);
        }
    }
    Ok(verdicts)
}
