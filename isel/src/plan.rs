//! The plan: what is decided before layouts, because layouts depend on it.

use crate::error::LowerError;
use crate::target::Target;
use tilelift_ir::{Kernel, Op, Scalar, Type};

/// What the caller pins; the kernel's own hints come next, then the defaults here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct LowerOptions {
    /// Warps per program instance.
    pub warps: Option<u32>,
    /// Stages of pipelined loops; 1 turns pipelining off.
    pub stages: Option<u32>,
}

/// Decisions for a kernel on a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Warps per program instance, a power of two.
    pub warps: u32,
    /// Stages of pipelined loops, at least 1.
    pub stages: u32,
}

/// Stages when nobody asks: enough to cover global latency at the usual tile sizes.
const DEFAULT_STAGES: u32 = 3;

/// Bytes of its largest tile that a lane should hold at most, when the number of warps is free.
const TILE_BYTES_PER_LANE: u64 = 64;

/// Decides the number of warps and stages.
///
/// # Errors
/// More warps than the target runs, or a number that is no power of two.
pub fn plan(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Result<Plan, LowerError> {
    let warps = match options.warps.or(kernel.hints.warps) {
        Some(w) => w,
        None => default_warps(kernel, target),
    };
    if !warps.is_power_of_two() {
        return Err(LowerError::unsupported(format!("{warps} warps"), "the number of warps must be a power of two"));
    }
    if warps > target.max_warps {
        return Err(LowerError::ResourceExceeded {
            resource: "warps",
            need: u64::from(warps),
            have: u64::from(target.max_warps),
            remedy: "ask for fewer with `warps=`".into(),
            loc: Default::default(),
        });
    }
    let stages = options.stages.or(kernel.hints.stages).unwrap_or(DEFAULT_STAGES).max(1);
    Ok(Plan { warps, stages })
}

fn default_warps(kernel: &Kernel, target: &Target) -> u32 {
    let mut bytes = 0;
    let mut dot = false;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        dot |= d.op == Op::Dot;
        for &r in &d.results {
            if let Type::Tile(t) = kernel.ty(r)
                && t.elem != Scalar::I1
            {
                bytes = bytes.max(t.elements() * u64::from(t.elem.bytes()));
            }
        }
    });
    // Accumulators live in registers all along: a dot may hold four times as much per lane.
    let per_warp = TILE_BYTES_PER_LANE * u64::from(target.lanes) * if dot { 8 } else { 1 };
    let want = (bytes / per_warp).max(1).next_power_of_two() as u32;
    want.clamp(if dot { 4 } else { 1 }, target.max_warps.min(if dot { 8 } else { 16 }))
}
