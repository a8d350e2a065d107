//! Ways to run a product, best first.

use super::candidate::Candidate;
use super::device::DeviceFacts;
use super::error::{MOST_MULTIPROCESSORS, PlanError};
use super::pipelined;
use super::problem::Problem;
use super::sharing::Sharing;
use crate::gemm::Gemm;
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
        list.extend(of_both(problem, device));
        list.extend(pipelined::candidates(problem, device));
        list.sort_by(|a, b| a.micros.total_cmp(&b.micros));
    }
    Ok(list)
}

/// Bytes that rows begin at multiples of, where bulk copies take them.
const ROW_ALIGN: u64 = 16;

/// What the model of warpgroups has for a product.
fn by_warpgroups(problem: &Problem, device: &DeviceFacts) -> Vec<Candidate> {
    // The model knows operands of one type, whose rows copies take.
    if problem.weights != problem.elem || !problem.rows_at(ROW_ALIGN) {
        return Vec::new();
    }
    let list = gemm::rank(device.target(), &problem.product()).into_iter();
    list.map(|r| Candidate::of(problem, r)).filter(|c| c.takes(problem)).collect()
}

/// Columns that a tile of a product with a gate has of each matrix, at least, and where they are rows of the matrix unit.
const LEAST: [u32; 2] = [16, 64];

/// Whole tiles of a product with a gate: those of the product of both matrices at once, with half of the columns of either. They have as many sums, and
/// read as many bytes.
fn of_both(problem: &Problem, device: &DeviceFacts) -> Vec<Candidate> {
    let [m, n, k] = problem.shape;
    let mut both = problem.clone();
    both.behind.gate = false;
    both.shape = [m, 2 * n, k];
    let ways = by_warpgroups(&both, device).into_iter();
    ways.filter(|c| matches!(c.sharing, Sharing::Whole) && c.options.consumer_sets != Some(2)).filter_map(|c| halved(problem, c)).collect()
}

/// A tile of both matrices as one of each; `None` if halves of its columns are too few.
fn halved(problem: &Problem, way: Candidate) -> Option<Candidate> {
    let Gemm { bm, bn, bk, group, swapped, .. } = way.gemm;
    if !bn.is_multiple_of(2 * LEAST[usize::from(swapped)]) {
        return None;
    }
    let mut options = way.options;
    if swapped {
        // As many warpgroups as have rows of the matrix unit.
        options.consumers = options.consumers.map(|n| n.min(bn / 2 / LEAST[1]).max(1));
    }
    let gemm = Gemm { group, ..problem.gemm().tile(bm, bn / 2, bk).swap(swapped) };
    Some(Candidate { gemm, options, ranked: None, ..way })
}
