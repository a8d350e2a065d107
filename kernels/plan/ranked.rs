//! Ways to run a product, best first.

use super::candidate::Candidate;
use super::device::DeviceFacts;
use super::error::{MOST_MULTIPROCESSORS, PlanError};
use super::pipelined;
use super::problem::Problem;
use tilelift_schedule::gemm;

/// Ways to run a product on a device, best first; none if there is nothing to do. Every one has launches.
///
/// # Errors
/// Extents that kernels don't count, types or an epilogue that no kernel has, a device without multiprocessors.
pub fn ranked(problem: &Problem, device: &DeviceFacts) -> Result<Vec<Candidate>, PlanError> {
    problem.check()?;
    if !(1..=MOST_MULTIPROCESSORS).contains(&device.multiprocessors()) {
        return Err(PlanError::Multiprocessors { found: device.multiprocessors() });
    }
    if problem.is_empty() {
        return Ok(Vec::new());
    }
    let mut list = by_warpgroups(problem, device);
    if list.is_empty() {
        return Ok(pipelined::candidates(problem, device));
    }
    if problem.behind.gate {
        // Whole tiles with two sums are the other model's.
        list.extend(pipelined::candidates(problem, device));
        list.sort_by(|a, b| a.micros.total_cmp(&b.micros));
    }
    Ok(list)
}

/// What the model of warpgroups has for a product.
fn by_warpgroups(problem: &Problem, device: &DeviceFacts) -> Vec<Candidate> {
    // The model knows operands of one type.
    if problem.weights != problem.elem {
        return Vec::new();
    }
    let list = gemm::rank(device.target(), &problem.product()).into_iter();
    list.map(|r| Candidate::of(problem, r)).filter(|c| c.takes(problem)).collect()
}
