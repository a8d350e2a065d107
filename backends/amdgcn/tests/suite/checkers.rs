//! The kernels of the library, allocated and finished: the checkers are content with each, and nothing is spilled that need not be.

use super::common;
use tilelift_amdgcn::alloc::Facts;
use tilelift_amdgcn::{Chip, check, machine, order, select::select};
use tilelift_ir::Kernel;
use tilelift_isel::{LowerOptions, lower};

/// Checks one kernel; `None` if a stage before allocation refuses it.
fn checked(kernel: &Kernel, chip: Chip) -> Option<Result<(usize, Facts), String>> {
    let verified = tilelift_ir::verify::verify(kernel).ok()?;
    let lowered = lower(&verified, &machine::target(chip), &LowerOptions::default()).ok()?;
    let selected = select(&lowered.program, chip).ok()?;
    Some(check_all(&selected))
}

fn check_all(selected: &tilelift_amdgcn::mir::Program) -> Result<(usize, Facts), String> {
    let (scheduled, allocated) = order::schedule_and_allocate(selected.clone()).map_err(|e| e.to_string())?;
    check::barriers(&scheduled).map_err(|f| format!("{} faults of barriers: {:?}", f.len(), f[0]))?;
    check::allocation(&scheduled, &allocated).map_err(|f| format!("{} faults of allocation: {:?}", f.len(), f[0]))?;
    let facts = allocated.facts;
    let finished = order::finish(allocated);
    check::waits(&finished).map_err(|f| format!("{} faults of waits: {:?}", f.len(), f[0]))?;
    check::hazards(&finished).map_err(|f| format!("{} hazards: {:?}", f.len(), f[0]))?;
    check::scratch(&finished).map_err(|f| format!("{} faults of scratch memory: {:?}", f.len(), f[0]))?;
    check::priorities(&finished).map_err(|f| format!("{} wrong priorities: {:?}", f.len(), f[0]))?;
    Ok((finished.blocks.values().map(|b| b.insts.len()).sum(), facts))
}

/// Every so manieth launch of the library's, for a chip; other ones for other chips.
fn library(chip: Chip, every: usize) {
    let launches =
        tilelift_kernels::cases().into_iter().flat_map(|case| case.launches(None).unwrap()).skip(chip as usize % every).step_by(every);
    let (mut count, mut insts, mut spilled, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for launch in launches {
        match checked(&launch.kernel, chip) {
            Some(Ok((n, facts))) => {
                (count, insts) = (count + 1, insts + n);
                if facts.spills != Default::default() {
                    spilled.push(format!("{}: {:?}", launch.kernel.name, facts));
                }
            }
            Some(Err(why)) => wrong.push(format!("{chip} {}: {why}", launch.kernel.name)),
            None => {}
        }
    }
    eprintln!("{chip}: {count} kernels, {insts} instructions, {} spill:\n{}", spilled.len(), spilled.join("\n"));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), count + wrong.len(), wrong.join("\n"));
    assert!(count > 0);
}

/// `TILELIFT_EVERY=1` takes all of them.
#[test]
fn kernels_of_the_library() {
    let every = common::every(13);
    Chip::ALL.into_iter().for_each(|chip| library(chip, every));
}
