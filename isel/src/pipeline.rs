//! The way of a kernel from tile IR to a lane program: the stages in order, on one page. No stage calls an earlier one.
//!
//! ```text
//! Verified ── expand ─► without channels ── plan ─► schedule, warps, stages ── fit ─► what the machine holds: slots, how loads are done
//!          ── layouts ─► one per tile value, where operands wait ── lower ─► lane program ── prove ─► Lowered
//! ```
//!
//! What a plan asks of shared memory and registers is computed before it is lowered ([`fit`]); so a kernel is lowered once.

use crate::fit::{FEW_SLOTS, Fitted, fewer, fit, with_depth};
use crate::lane::{Target, overlap_launches};
use crate::layout::assign::{Assignment, assign};
use crate::layout::search::Search;
use crate::lower::{Lowered, MAX_REGISTERS_PER_TILE, lane_program, placed};
use std::borrow::Cow;
use std::rc::Rc;
use tilelift_ir::channel::{Units, check, expand};
use tilelift_ir::verify::Verified;
use tilelift_ir::{Inst, Kernel, Op, verify};
use tilelift_schedule::candidates::Candidates;
use tilelift_schedule::plan::{LayoutChoice, LowerOptions, Plan, SwizzledTile, plan, staged_loads};
use tilelift_schedule::program::Refusal;
use tilelift_schedule::reason::{Stage, Unsupported};
use tilelift_schedule::{LowerError, Resource, program};

/// Lowers a verified kernel for a target.
///
/// # Errors
/// [`LowerError::Unsupported`] and [`LowerError::ResourceExceeded`], placed at the guilty instruction.
pub fn lower(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let (kernel, plan) = planned(kernel, target, options)?;
    let (fitted, searched, fallback) = with_forms(&kernel, target, options, plan)?;
    let mut done = scheduled(&kernel, target, fitted, options)?;
    done.searched |= searched;
    done.fallback = fallback.or(done.fallback);
    if target.early_launch && options.early_launch != Some(false) {
        overlap_launches(&mut done.program);
    }
    Ok(done)
}

/// Plans a kernel; one with channels in the first expansion that the target's units take: copies and products by them, copies alone, all through
/// registers. A tile that bulk copies do not take goes through registers in all of them.
///
/// # Errors
/// What plans say, a channel that may deadlock, or why the plainest expansion is refused.
fn planned<'k>(kernel: &'k Kernel, target: &Target, options: &LowerOptions) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    if !kernel.regions[kernel.body].insts.iter().any(|&i| kernel.insts[i].op == Op::ChannelAlloc) {
        return Ok((Cow::Borrowed(kernel), plan(kernel, target, options)?));
    }
    if !options.unproven {
        check(kernel).map_err(|e| {
            let loc = e.sites.first().map_or_else(Default::default, |s| s.2);
            LowerError::from(Unsupported::Deadlock(Box::new(e))).at(loc)
        })?;
    }
    let copies = |load: Inst| {
        let shape = kernel.insts[load].results.first().and_then(|&v| kernel.ty(v).shape());
        let units = target.units.as_ref();
        shape.zip(units).is_some_and(|(shape, units)| SwizzledTile::of(kernel, load, shape, units, None).is_ok())
    };
    let mut refused = None;
    for units in [Units { copies: &copies, multiplies: &|_, _| true }, Units { copies: &copies, multiplies: &|_, _| false }, Units::NONE] {
        let made = expand(kernel, &units);
        verify(&made).map_err(|e| Unsupported::Malformed(Stage::Expansion, Box::new(e)))?;
        match plan(&made, target, options) {
            Ok(plan) => return Ok((Cow::Owned(made), plan)),
            Err(e) => refused = Some(e),
        }
    }
    Err(refused.unwrap_or_else(|| Unsupported::Expansion.into()))
}

/// Fits the first candidate of a schedule to the machine, if candidates are asked for. The second answer is true if it is another one than the
/// plan's own; the third is why the one that was chosen is not taken. That its decisions do not fit together is not the kernel's fault.
fn with_forms(
    kernel: &Kernel,
    target: &Target,
    options: &LowerOptions,
    own: Plan,
) -> Result<(Fitted, bool, Option<LowerError>), LowerError> {
    if options.layouts == LayoutChoice::Spread || own.specialised().is_none() {
        return Ok((fit(kernel, target, options, own)?, false, None));
    }
    let candidates = Candidates::of(kernel, target, options, own.clone());
    let chosen = match options.layouts {
        LayoutChoice::Random(seed) => candidates.random(seed),
        LayoutChoice::Spread | LayoutChoice::Searched => candidates.first().clone(),
    };
    if candidates.is_own(&chosen) {
        return Ok((fit(kernel, target, options, own)?, false, None));
    }
    match candidates.plan(&chosen).and_then(|plan| fit(kernel, target, options, plan)) {
        Ok(fitted) => Ok((fitted, true, None)),
        Err(why) => Ok((fit(kernel, target, options, own)?, false, Some(why))),
    }
}

/// Lowers a kernel by a plan: as the program that the plan is written as, if that is asked for, can be, and fits. What tasks take of shared
/// memory depends on which of their tiles live at the same time, so they are lowered to know it, and again with fewer slots; one for which
/// few would remain is lowered as it is planned.
fn scheduled(kernel: &Kernel, target: &Target, fitted: Fitted, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let mut refused = None;
    let as_program = options.as_program == Some(true);
    if as_program && let Some(made) = program::pipelined(kernel, target, &fitted.plan) {
        match made.map(|made| written(made, target, fitted.plan.clone(), false)) {
            Ok(Err(LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, .. })) => {
                refused = Some(Err(Refusal::Memory { need, have }));
            }
            Ok(done) => return done,
            Err(why) => refused = Some(Err(why)),
        }
    }
    // Slots, and whether tiles are loaded as they are wanted: then they need no way through shared memory. It is tried where few slots would
    // remain, once.
    let mut next = fitted.planned().filter(|_| as_program).map(|plan| (plan, false));
    let (mut few, mut tried) = (None, false);
    while let Some((plan, direct)) = next.take()
        && let Some(s) = plan.specialised().cloned()
    {
        match program::written(kernel, target, &s).map(|made| written(made, target, plan.clone(), direct)) {
            Err(why) => refused = Some(Err(why)),
            Ok(Err(why @ LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, .. })) => {
                refused = Some(Err(Refusal::Memory { need, have }));
                let free = options.stages.is_none();
                let slots = fewer(&why, s.depth, s.stage_bytes).filter(|&n| free && n > 1);
                next = match slots {
                    _ if direct => few.take().map(|n| (with_depth(&plan, &s, n), false)),
                    Some(n) if n >= FEW_SLOTS || tried => Some((with_depth(&plan, &s, n), false)),
                    n if !std::mem::replace(&mut tried, true) => {
                        few = n;
                        fitted.planned().map(|plan| (plan, true))
                    }
                    _ => None,
                };
            }
            Ok(done) => return done,
        }
    }
    laid_out(kernel, target, fitted, options.layouts).map(|done| Lowered { written: refused, ..done })
}

/// Lowers the kernel with tasks that a plan was written as. It is proved where the compiler is being worked on, as every stage's own check.
fn written(made: Kernel, target: &Target, plan: Plan, direct: bool) -> Result<Lowered, LowerError> {
    if cfg!(debug_assertions) {
        verify(&made).map_err(|e| Unsupported::Malformed(Stage::Schedule, Box::new(e)))?;
    }
    let options = LowerOptions { unproven: !cfg!(debug_assertions), ..LowerOptions::default() };
    let tasks = tilelift_schedule::plan::plan(&made, target, &options)?;
    let assigned = assign(&made, target, &tasks)?;
    let done = proved(&made, target, tasks, assigned, direct)?;
    Ok(Lowered { plan, written: Some(Ok(Rc::new(made))), ..done })
}

/// Chooses layouts for a plan, where they are searched, and lowers.
fn laid_out(kernel: &Kernel, target: &Target, fitted: Fitted, layouts: LayoutChoice) -> Result<Lowered, LowerError> {
    let Fitted { plan, assigned, direct, need, .. } = fitted;
    if layouts != LayoutChoice::Spread
        && plan.explicit().is_none()
        && plan.specialised().is_none()
        && fit_in_registers(kernel, target, &plan)
        && let Some(found) = Search::new(kernel, target, &plan, &assigned, &staged_loads(kernel)).solve_as(layouts)
    {
        // What a choice needs of shared memory depends on which tiles live at the same time, so it is lowered to know. One that does not fit the
        // machine is not the kernel's fault.
        return match proved(kernel, target, plan.clone(), assigned.with(&found), false) {
            Err(why) => {
                let done = proved(kernel, target, plan.clone(), assign(kernel, target, &plan)?, false)?;
                Ok(Lowered { fallback: Some(why), ..done })
            }
            done => done,
        };
    }
    let tasks = plan.explicit().map(|_| plan.clone());
    let done = match (proved(kernel, target, plan, assigned, direct), tasks) {
        // What tasks load as it is wanted needs no way through shared memory.
        (Err(why @ LowerError::ResourceExceeded { resource: Resource::SharedMemory, .. }), Some(plan)) if !direct => {
            let assigned = assign(kernel, target, &plan)?;
            proved(kernel, target, plan, assigned, true).map_err(|_| why)?
        }
        (done, _) => done?,
    };
    debug_assert!(
        need.is_none_or(|need| u64::from(done.program.shared_bytes) <= need),
        "{} bytes of shared memory where {need:?} were computed: {}",
        done.program.shared_bytes,
        done.program.name
    );
    Ok(done)
}

/// False if a tile that is computed has more elements than any layout could hold: what follows says so.
fn fit_in_registers(kernel: &Kernel, target: &Target, plan: &Plan) -> bool {
    let most = u64::from(MAX_REGISTERS_PER_TILE) * u64::from(plan.warps) * u64::from(target.lanes);
    let computed = kernel.insts.values().filter(|d| d.op != Op::Load).flat_map(|d| &d.results);
    computed.filter_map(|&v| kernel.ty(v).as_tile()).all(|t| t.elements() <= most)
}

/// Lowers with a plan and layouts, and proves what needs a proof.
fn proved(kernel: &Kernel, target: &Target, plan: Plan, assigned: Assignment, direct: bool) -> Result<Lowered, LowerError> {
    let (done, _) = lane_program(kernel, target, plan, assigned, direct, false)?;
    match done.plan.explicit() {
        // What an author writes is proved for everybody.
        Some(e) if !e.unproven => tilelift_protocol::prove(&done.program, target).map(drop).map_err(|e| {
            let e = placed(e, kernel, || {
                let assigned = assign(kernel, target, &done.plan)?;
                lane_program(kernel, target, done.plan.clone(), assigned, direct, true).map(|d| d.1)
            });
            Unsupported::Unproved { tasks: true, why: Box::new(e) }
        })?,
        Some(_) => {}
        // As every stage's own check: where the compiler is being worked on. It takes longer than all the rest.
        None if cfg!(debug_assertions) => tilelift_protocol::prove(&done.program, target)
            .map(drop)
            .map_err(|e| Unsupported::Unproved { tasks: false, why: Box::new(e) })?,
        None => {}
    }
    Ok(done)
}
