//! The way of a kernel from tile IR to a lane program: the stages in order, on one page. No stage calls an earlier one.
//!
//! ```text
//! Verified ── expand ─► without channels ── plan ─► schedule, warps, stages ── layouts ─► one per tile value, where operands wait
//!                                                                    ── lower ─► lane program ── prove ─► Lowered
//! ```
//!
//! What a plan asks of shared memory and registers may not fit beside the rest of the kernel: then the ring gets fewer slots, loads go
//! straight to where they are used, or the loop is pipelined instead ([`fitted`]).

use crate::lane::{Target, overlap_launches};
use crate::layout::assign::{Assignment, assign};
use crate::layout::search::{Search, ring_forms};
use crate::lower::{Lowered, MAX_REGISTERS_PER_TILE, SHARED, exceeds_registers, lane_program, placed};
use std::rc::Rc;
use tilelift_ir::channel::{Units, check, expand};
use tilelift_ir::verify::Verified;
use tilelift_ir::{Inst, Kernel, Op, verify};
use tilelift_schedule::plan::{LayoutChoice, LowerOptions, PanelTile, Plan, RingForms, ScheduleKind, plan, plan_with, staged_loads};
use tilelift_schedule::{LowerError, program};

/// Slots of a ring below which copies are no longer far enough ahead.
const FEW_SLOTS: u32 = 4;

/// Lowers a verified kernel for a target.
///
/// # Errors
/// [`LowerError::Unsupported`] and [`LowerError::ResourceExceeded`], placed at the guilty instruction.
pub fn lower(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let kernel: &Kernel = kernel;
    if has_channels(kernel) {
        return lower_channels(kernel, target, options);
    }
    let own = plan(kernel, target, options)?;
    let searched = options.layouts != LayoutChoice::Spread && own.specialised().is_some();
    if let Some(forms) = if searched { ring_forms(kernel, target, options, &own)? } else { None } {
        // Forms that do not fit the machine together are not the kernel's fault.
        return match fitted(kernel, target, options, &forms) {
            Ok(done) => Ok(Lowered { searched: true, ..done }),
            Err(why) => Ok(Lowered { gave_way: Some(why.to_string()), ..fitted(kernel, target, options, &RingForms::default())? }),
        };
    }
    fitted(kernel, target, options, &RingForms::default())
}

/// Lowers a kernel with operand layouts of its specialised loop, if it has one, so that all of it fits the machine.
fn fitted(kernel: &Kernel, target: &Target, options: &LowerOptions, forms: &RingForms) -> Result<Lowered, LowerError> {
    let first = plan_with(kernel, target, options, forms)?;
    let free = options.schedule.is_none() && first.specialised().is_some();
    let ring = first.specialised().map(|s| (s.depth, s.stage_bytes)).filter(|_| options.stages.is_none());
    let mut done = scheduled(kernel, target, first.clone(), options, false);
    if first.explicit().is_some() && matches!(done, Err(LowerError::ResourceExceeded { resource: SHARED, .. })) {
        // What tasks load as it is wanted needs no way through shared memory.
        done = scheduled(kernel, target, first.clone(), options, true).or(done);
    }
    if let Some((depth, bytes)) = ring {
        // The ring took what the kernel needs, and gives back as many slots; it is told of the first thing that does not fit, so that
        // others may not fit behind it.
        let mut stages = fewer(&done, depth, bytes);
        let mut loads = Some(first);
        while let Some(n) = stages {
            // Where few would remain, what is loaded beside it is loaded as it is wanted and needs no way through shared memory, if
            // that is enough.
            if n < FEW_SLOTS
                && let Some(whole) = loads.take()
                && let Ok(direct) = scheduled(kernel, target, whole, options, true)
            {
                done = Ok(direct);
                break;
            }
            if n < 2 {
                break;
            }
            let smaller = LowerOptions { stages: Some(n), ..*options };
            done = scheduled(kernel, target, plan_with(kernel, target, &smaller, forms)?, options, false);
            stages = fewer(&done, n, bytes);
        }
    }
    if free && matches!(done, Err(LowerError::ResourceExceeded { .. })) {
        // What else the kernel holds may not fit beside the ring.
        let pipelined = LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..*options };
        done = scheduled(kernel, target, plan(kernel, target, &pipelined)?, options, false);
    }
    let mut done = done?;
    if target.early_launch && options.early_launch != Some(false) {
        overlap_launches(&mut done.program);
    }
    Ok(done)
}

/// The slots, of so many bytes, that would be left of a ring of so many if it gave back what did not fit beside it; `None` if all did.
fn fewer(done: &Result<Lowered, LowerError>, depth: u32, bytes: u32) -> Option<u32> {
    match done {
        Err(LowerError::ResourceExceeded { resource: SHARED, need, have, .. }) => {
            let over = need.saturating_sub(*have).div_ceil(u64::from(bytes.max(1))).max(1);
            Some(u64::from(depth).saturating_sub(over) as u32)
        }
        _ => None,
    }
}

/// Lowers a kernel by a plan: as the program that the plan is written as, if that is asked for and it can be.
fn scheduled(kernel: &Kernel, target: &Target, plan: Plan, options: &LowerOptions, direct: bool) -> Result<Lowered, LowerError> {
    let mut refused = None;
    if let Some(s) = plan.specialised()
        && options.as_program == Some(true)
    {
        match program::written(kernel, target, s) {
            Ok(made) => return written(made, target, plan.clone(), direct),
            Err(why) => refused = Some(Err(why)),
        }
    }
    laid_out(kernel, target, plan, options.layouts, direct).map(|done| Lowered { written: refused, ..done })
}

/// Lowers the kernel with tasks that a plan was written as. It is proved where the compiler is being worked on, as every stage's own check.
fn written(made: Kernel, target: &Target, plan: Plan, direct: bool) -> Result<Lowered, LowerError> {
    if cfg!(debug_assertions) {
        verify(&made).map_err(|e| LowerError::unsupported("a schedule that is no kernel", e.to_string()))?;
    }
    let options = LowerOptions { unproven: !cfg!(debug_assertions), ..LowerOptions::default() };
    let tasks = tilelift_schedule::plan::plan(&made, target, &options)?;
    let assigned = assign(&made, target, &tasks)?;
    let done = proved(&made, target, tasks, assigned, direct)?;
    Ok(Lowered { plan, written: Some(Ok(Rc::new(made))), ..done })
}

/// Chooses layouts for a plan, and lowers.
fn laid_out(kernel: &Kernel, target: &Target, plan: Plan, layouts: LayoutChoice, direct: bool) -> Result<Lowered, LowerError> {
    let plain = assign(kernel, target, &plan)?;
    let direct = direct || crowded(kernel, &plan, &plain);
    if layouts != LayoutChoice::Spread
        && !direct
        && plan.explicit().is_none()
        && plan.specialised().is_none()
        && fit_in_registers(kernel, target, &plan)
        && let Some(found) = Search::new(kernel, target, &plan, &plain, &staged_loads(kernel)).solve_as(layouts)
    {
        // A choice that does not fit the machine is not the kernel's fault.
        match proved(kernel, target, plan.clone(), plain.with(&found), false) {
            Err(why) => {
                let done = proved(kernel, target, plan.clone(), assign(kernel, target, &plan)?, false)?;
                return Ok(Lowered { gave_way: Some(why.to_string()), ..done });
            }
            done => return done,
        }
    }
    proved(kernel, target, plan, plain, direct)
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
            LowerError::unsupported("tasks that are not proved to work together", format!("{e}; mend it, or compile with `--unproven`"))
        })?,
        Some(_) => {}
        // As every stage's own check: where the compiler is being worked on. It takes longer than all the rest.
        None if cfg!(debug_assertions) => tilelift_protocol::prove(&done.program, target)
            .map(drop)
            .map_err(|e| LowerError::unsupported("a specialised kernel whose roles are not proved", e.to_string()))?,
        None => {}
    }
    Ok(done)
}

/// True if the sums of a specialised loop and whole tiles that are loaded beside it do not fit a lane's registers together.
fn crowded(kernel: &Kernel, plan: &Plan, assigned: &Assignment) -> bool {
    let Some(s) = plan.specialised() else { return false };
    let Some([_, most]) = s.registers else { return false };
    exceeds_registers(kernel, assigned, &kernel.regions[kernel.body].insts, |i| i == s.main, most)
}

/// True if a kernel has channels.
fn has_channels(kernel: &Kernel) -> bool {
    kernel.regions[kernel.body].insts.iter().any(|&i| kernel.insts[i].op == Op::ChannelAlloc)
}

/// Lowers the first expansion that the target takes: copies and products by its units, copies alone, all through registers. A tile that bulk
/// copies do not take goes through registers in all of them.
///
/// # Errors
/// A channel that may come to a standstill, or why the plainest expansion is refused.
fn lower_channels(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Result<Lowered, LowerError> {
    if !options.unproven {
        check(kernel).map_err(|e| {
            let loc = e.sites.first().map_or_else(Default::default, |s| s.2);
            LowerError::unsupported("a channel that may come to a standstill", e.to_string()).at(loc)
        })?;
    }
    let copies = |load: Inst| {
        let shape = kernel.insts[load].results.first().and_then(|&v| kernel.ty(v).shape());
        let units = target.units.as_ref();
        shape.zip(units).is_some_and(|(shape, units)| PanelTile::of(kernel, load, shape, units, None).is_ok())
    };
    let all = Units { copies: &copies, multiplies: &|_, _| true };
    let copied = Units { copies: &copies, multiplies: &|_, _| false };
    let mut refused = None;
    for units in [&all, &copied, &Units::NONE] {
        let made = expand(kernel, units);
        let verified =
            verify(&made).map_err(|e| LowerError::unsupported("a kernel whose channels expand to a malformed one", e.to_string()))?;
        match lower(&verified, target, options) {
            Ok(lowered) => return Ok(lowered),
            Err(e) => refused = Some(e),
        }
    }
    Err(refused.unwrap_or_else(|| LowerError::unsupported("a channel", "it has no expansion")))
}
