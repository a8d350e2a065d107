//! The acceptance cases of the kernel library: small ones in full on the interpreter, on the lane interpreter for two vendors, and
//! on the simulator under three schedules; a sample of the programs of the large ones on the simulator. Every emitted text is
//! given to ptxas for three architectures, which may neither warn nor spill nor use local memory.
//!
//! `TILELIFT_CUDA=1` runs all of them, large ones in full, on the GPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use tilelift::ir::Kernel;
use tilelift::isel::Resource;
use tilelift::{CompileError, OptLevel, Options, compile, targets};
use tilelift_kernels::{Case, Size, cases};
use tilelift_oracle::{Batch, Once, Spills, in_parallel};
use tilelift_tools::cli::accept::{Effort, run_case};
use tilelift_tools::execute::{DeviceKind, Executor};

/// Runs a check on every case, on all processors; the sentences of failed ones.
fn each(chosen: &[Case], check: impl Fn(&Case) -> Result<(), String> + Sync) {
    let one = |case: &Case| check(case).err().map(|e| format!("{}: {e}", case.name));
    let failures: Vec<String> = in_parallel(chosen, one).into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), chosen.len(), failures.join("\n"));
}

fn of(size: Size) -> Vec<Case> {
    cases().into_iter().filter(|c| c.size == size).collect()
}

fn passes(case: &Case, kind: DeviceKind, target: &str, seeds: u64) -> Result<(), String> {
    passes_at(case, kind, target, seeds, OptLevel::None)
}

fn passes_at(case: &Case, kind: DeviceKind, target: &str, seeds: u64, opt: OptLevel) -> Result<(), String> {
    let target = targets::by_name(target).ok_or("the target is known")?;
    let device = Executor::open(kind, Some(&target)).map_err(|e| e.to_string())?;
    // The simulator's schedules differ; results may not.
    let effort = Effort { runs: if kind == DeviceKind::Sim { 2 } else { 1 }, opt, ..Effort::seeds(seeds) };
    let result = run_case(case, &device, effort)?;
    if result.verdict.pass() { Ok(()) } else { Err(result.verdict.to_string()) }
}

#[test]
fn small_cases_pass_on_the_interpreter() {
    each(&of(Size::Small), |c| passes(c, DeviceKind::Interp, "sm_80", 1));
}

/// The program that a kernel is scheduled as does what the kernel does: of each loop that is specialised, by the definition.
#[test]
fn small_cases_pass_as_they_are_scheduled() {
    each(&of(Size::Small), |c| passes_at(c, DeviceKind::Schedule, "sm_90a", 1, OptLevel::Logical));
}

#[test]
fn small_cases_pass_optimised() {
    each(&of(Size::Small), |c| {
        passes_at(c, DeviceKind::Interp, "sm_80", 1, OptLevel::Logical)?;
        passes_at(c, DeviceKind::Lane, "sm_80", 1, OptLevel::Logical)?;
        passes_at(c, DeviceKind::Sim, "sm_90a", 1, OptLevel::Logical)?;
        passes_at(c, DeviceKind::Sim, "sm_80", 1, OptLevel::Logical)
    });
}

#[test]
fn small_cases_pass_with_searched_layouts() {
    each(&of(Size::Small), |c| {
        passes_at(c, DeviceKind::Lane, "gfx942", 1, OptLevel::Physical)?;
        passes_at(c, DeviceKind::Lane, "sm_90a", 1, OptLevel::Physical)?;
        passes_at(c, DeviceKind::Sim, "sm_80", 1, OptLevel::Physical)
    });
}

#[test]
fn small_cases_pass_as_lane_programs_of_sm_80() {
    each(&of(Size::Small), |c| passes(c, DeviceKind::Lane, "sm_80", 1));
}

#[test]
fn small_cases_pass_as_lane_programs_of_gfx942() {
    each(&of(Size::Small), |c| passes(c, DeviceKind::Lane, "gfx942", 1));
}

#[test]
fn small_cases_pass_on_the_simulator_under_three_schedules() {
    each(&of(Size::Small), |c| passes(c, DeviceKind::Sim, "sm_80", 3));
}

#[test]
fn samples_of_large_cases_pass_on_the_simulator() {
    // Every seventh one: they are by far the longest of these tests. `accept --large` has all, and so has a GPU.
    let chosen: Vec<Case> = of(Size::Large).into_iter().step_by(7).collect();
    each(&chosen, |c| passes(c, DeviceKind::Sim, "sm_80", 1));
}

/// Sampled instances work where they are launched, though instances are dealt out to dies.
#[test]
fn samples_of_large_cases_pass_on_the_simulator_of_gfx942() {
    let chosen: Vec<Case> = of(Size::Large).into_iter().step_by(23).collect();
    each(&chosen, |c| passes(c, DeviceKind::Sim, "gfx942", 1));
}

#[test]
fn every_case_passes_on_the_gpu() {
    if std::env::var_os("TILELIFT_CUDA").is_none_or(|v| v != "1") {
        return;
    }
    let device = Executor::open(DeviceKind::Cuda, None).unwrap_or_else(|e| panic!("TILELIFT_CUDA=1: {e}"));
    each(&cases(), |c| {
        let verdict = run_case(c, &device, Effort { runs: 2, ..Effort::seeds(1) })?.verdict;
        if verdict.pass() { Ok(()) } else { Err(verdict.to_string()) }
    });
}

#[test]
fn ptxas_accepts_every_text_without_warnings_or_spills() {
    let all = cases();
    // Tiles made for a chip with more shared memory do not fit all.
    let too_large = AtomicUsize::new(0);
    let (once, batch) = (Once::default(), Batch::new(Spills::Refused));
    each(&all, |c| {
        // Launches share kernels.
        let mut kernels: Vec<Kernel> = Vec::new();
        for l in c.launches(None).map_err(|e| e.to_string())? {
            if kernels.iter().all(|k| k.name != l.kernel.name) {
                kernels.push(l.kernel);
            }
        }
        let each = kernels.iter().flat_map(|k| ["sm_80", "sm_89", "sm_90a"].map(|name| (k, name)));
        for (kernel, name) in each {
            let target = targets::by_name(name).ok_or("the target is known")?;
            let artifact = match compile(kernel, &target, &Options::default()) {
                Err(CompileError::Lower(e)) if name == "sm_89" && e.exceeds(Resource::SharedMemory) => {
                    too_large.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                other => other.map_err(|e| e.to_string())?,
            };
            if !once.is_new(&artifact.text, name) {
                continue;
            }
            batch.add(&c.name, &artifact.text, name).map_err(|e| e.to_string())?;
        }
        Ok(())
    });
    assert!(too_large.into_inner() < all.len() / 8, "most cases fit sm_89");
    let found = batch.finish().unwrap_or_else(|e| panic!("{e}"));
    assert!(found.is_empty(), "{}", found.join("\n"));
}
