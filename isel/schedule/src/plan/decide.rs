//! The decision: warps, stages, and how the main loop runs.

use super::admit::admit;
use super::options::{LowerOptions, ScheduleKind};
use super::ring_layouts::{RingLayouts, swizzle_sites};
use super::specialise::{specialise, told};
use super::specialised::Specialised;
use super::tasks::{TaskPlan, plan_tasks};
use crate::error::LowerError;
use crate::reason::{AtOdds, NotSpecialised, Outline, Remedy, Resource, Unmet, Unsupported};
use std::fmt;
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::require::spec;
use tilelift_ir::{Inst, Kernel, Op, Scalar, Type};
use tilelift_lane::Target;

/// How the main loop runs, decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// See [`ScheduleKind::Pipelined`].
    Pipelined {
        /// Why it is not specialised.
        why: Box<NotSpecialised>,
    },
    /// See [`ScheduleKind::Specialised`].
    Specialised(Rc<Specialised>),
    /// As the author says.
    Explicit(Rc<TaskPlan>),
}

/// Decisions for a kernel on a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Warps that compute per program instance, a power of two; of a specialised kernel those of the consumers.
    pub warps: u32,
    /// Stages of pipelined loops, at least 1.
    pub stages: u32,
    /// How the main loop runs.
    pub schedule: Schedule,
    /// Programs of a launch, if the caller knows ([`LowerOptions::programs`]).
    pub programs: Option<u32>,
}

impl Plan {
    /// The specialised schedule, if it is that.
    pub fn specialised(&self) -> Option<&Rc<Specialised>> {
        match &self.schedule {
            Schedule::Specialised(s) => Some(s),
            Schedule::Pipelined { .. } | Schedule::Explicit(_) => None,
        }
    }

    /// The plan of a kernel with explicit control, if it is that.
    pub fn task_plan(&self) -> Option<&Rc<TaskPlan>> {
        match &self.schedule {
            Schedule::Explicit(e) => Some(e),
            Schedule::Pipelined { .. } | Schedule::Specialised(_) => None,
        }
    }
}

impl Plan {
    /// What is said of it.
    pub fn outline(&self) -> Outline {
        match &self.schedule {
            Schedule::Pipelined { why } => Outline::Pipelined { warps: self.warps, stages: self.stages, ahead: true, why: why.clone() },
            Schedule::Specialised(s) => Outline::Specialised(s.outline()),
            Schedule::Explicit(e) => e.outline(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outline().fmt(f)
    }
}

/// Stages when nobody asks: enough to cover global latency at the usual tile sizes.
const DEFAULT_STAGES: u32 = 3;

/// Bytes of its largest tile that a lane should hold at most, when the number of warps is free.
const TILE_BYTES_PER_LANE: u64 = 64;

/// Decides the number of warps and stages.
///
/// # Errors
/// What the target lacks for explicit control, more warps than the target runs, or a number that is no power of two.
pub fn plan(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Result<Plan, LowerError> {
    plan_with(kernel, target, options, &RingLayouts::default())
}

/// The same with layouts of a specialised loop, where the kernel's author leaves them open.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(kernel: &Kernel, target: &Target, options: &LowerOptions, ring_layouts: &RingLayouts) -> Result<Plan, LowerError> {
    let specialised = || {
        let ring_layouts = RingLayouts::required(kernel)?.or(&RingLayouts::asked(kernel, options)).or(ring_layouts);
        let found = specialise(kernel, target, options, &ring_layouts)?;
        admit(target, &found)?;
        Ok(found)
    };
    let explicit = kernel.is_explicit();
    let why = match (options.schedule, options.warps) {
        _ if explicit => None,
        (Some(ScheduleKind::Pipelined), _) => Some(NotSpecialised::Asked),
        (None, Some(warps)) => Some(NotSpecialised::Warps { warps }),
        (Some(ScheduleKind::Specialised), _) | (None, None) => match specialised() {
            Ok(s) => {
                let warps = s.consumers * target.units.as_ref().map_or(1, |u| u.group_warps);
                return Ok(Plan { warps, stages: s.depth, schedule: Schedule::Specialised(Rc::new(s)), programs: options.programs });
            }
            Err(why) if options.schedule.is_some() => {
                let refused = swizzle_refused(kernel, Some(&why));
                return Err(refused.unwrap_or_else(|| LowerError::NotSpecialised { why: Box::new(why), loc: Default::default() }));
            }
            Err(why) => Some(why),
        },
    };
    if let Some(e) = swizzle_refused(kernel, why.as_ref()) {
        return Err(e);
    }
    let warps = match options.warps.or(kernel.hints.warps) {
        Some(w) => w,
        None => {
            let warps = default_warps(kernel, target);
            taken(Decision::Warps, || Told::of(format!("{warps}, by the largest tile")));
            warps
        }
    };
    if !warps.is_power_of_two() {
        return Err(Unsupported::Warps(warps).into());
    }
    if warps > target.max_warps {
        return Err(LowerError::ResourceExceeded {
            resource: Resource::Warps,
            need: u64::from(warps),
            have: u64::from(target.max_warps),
            remedy: Box::new(Remedy::Warps),
            loc: Default::default(),
        });
    }
    let stages = options.stages.or(kernel.hints.stages).unwrap_or(DEFAULT_STAGES).max(1);
    let Some(why) = why else {
        let e = plan_tasks(kernel, target, options, warps)?;
        return Ok(Plan { warps: e.warps, stages: 1, schedule: Schedule::Explicit(Rc::new(e)), programs: options.programs });
    };
    Ok(Plan { warps, stages, schedule: Schedule::Pipelined { why: Box::new(why) }, programs: options.programs })
}

/// Tells what a plan decides, once it is known that the kernel runs so.
pub fn tell(plan: &Plan) {
    match &plan.schedule {
        Schedule::Pipelined { why } if !matches!(**why, NotSpecialised::Asked) => {
            taken(Decision::Specialise, || Told::of(format!("no: {why}")));
        }
        Schedule::Specialised(s) => {
            taken(Decision::Specialise, || Told::of(s.outline()));
            s.loops().for_each(told);
        }
        Schedule::Pipelined { .. } | Schedule::Explicit(_) => {}
    }
}

/// Swizzles are those of bulk copies in a specialised loop: an error if some are required and there is no such loop, and why; no reason stands for a kernel
/// with tasks.
fn swizzle_refused(kernel: &Kernel, why: Option<&NotSpecialised>) -> Option<LowerError> {
    let sites = swizzle_sites(kernel);
    // The one that is named, if one is.
    let values = why.map(NotSpecialised::values).unwrap_or_default();
    let named = |i: &&Inst| kernel.insts[**i].args.iter().chain(&kernel.insts[**i].results).any(|v| values.contains(v));
    let &site = sites.iter().find(named).or(sites.first())?;
    let what = spec(kernel, site).cloned().map(Box::new);
    let why = Box::new(why.map_or(Unmet::Tasks, |why| Unmet::NotSpecialised(Box::new(why.clone()))));
    Some(LowerError::Requirement { what, why, other: Box::new(AtOdds::Schedule), loc: kernel.locs[site] })
}

fn default_warps(kernel: &Kernel, target: &Target) -> u32 {
    let mut bytes = 0;
    let mut dot = false;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        dot |= matches!(d.op, Op::Dot | Op::DotScaled);
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
