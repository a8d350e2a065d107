//! The way of a kernel from tile IR to a lane program: the stages in order, on one page. No stage calls an earlier one.
//!
//! ```text
//! Verified ── expand ─► without channels ── plan ─► schedule, warps, stages ── fit ─► loops written as programs: slots, layouts, how loads are done
//!          ── search ─► layouts that are cheaper, if they fit ── lower ─► lane program ── prove ─► Lowered
//! ```
//!
//! A loop that is specialised or pipelined is written as a program, tile IR again, and that is lowered. What it asks of shared memory and registers
//! is computed before it is lowered ([`fit`]); so a kernel is lowered once. A specialised loop whose program does not lower all the same goes the whole
//! way again, pipelined: a plan that comes to that lacks a question of its own. `tests/tool/determinism.rs` counts ([`lowered_programs`]).

use crate::fit::{Fitted, Written, fit};
use crate::layout::assign::{Assignment, multiplies_products};
use crate::layout::search::{Search, is_searched, with_slots};
use crate::lower::footprint::Footprint;
use crate::lower::origin::placed;
use crate::lower::promised;
use crate::lower::{Lowered, lane_program};
use std::borrow::Cow;
use std::rc::Rc;
use tilelift_ir::channel::{Capabilities, check, expand};
use tilelift_ir::verify::Verified;
use tilelift_ir::{Inst, Kernel, Op, verify};
use tilelift_lane::{Target, overlap_launches};
use tilelift_protocol::Problem;
use tilelift_schedule::LowerError;
use tilelift_schedule::beside::beside;
use tilelift_schedule::candidates::Candidates;
use tilelift_schedule::counted::{counted, counted_ahead};
use tilelift_schedule::exchange::exchanged;
use tilelift_schedule::guarded::guarded;
use tilelift_schedule::loads_first;
use tilelift_schedule::offsets::offsets;
use tilelift_schedule::padded::padded;
use tilelift_schedule::plan::{
    LayoutChoice, LowerOptions, Plan, ProofScope, RingLayouts, Schedule, ScheduleKind, SwizzledTile, plan, tell,
};
use tilelift_schedule::program::{Pipelines, batches_apart, loads_ahead};
use tilelift_schedule::reason::{NotSpecialised, Stage, Unsupported};
use tilelift_schedule::scaled::scaled_operands;
use tilelift_schedule::whole_rows::whole_rows;
use tilelift_schedule::wide_sums::wide_sums;

/// Lowers a verified kernel for a target.
///
/// # Errors
/// [`LowerError::Unsupported`] and [`LowerError::ResourceExceeded`], placed at the guilty instruction.
pub fn lower(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let done = match best_planned(kernel, target, options) {
        Err(why) if options.proof == ProofScope::All && options.schedule.is_none() && is_unproved_schedule(&why) => {
            pipelined_as_written(kernel, target, options, why)?
        }
        done => done?,
    };
    tell(&done.plan);
    Ok(done)
}

/// True for a schedule of the compiler's that is not proved.
fn is_unproved_schedule(why: &LowerError) -> bool {
    matches!(why, LowerError::Unsupported { why, .. } if matches!(**why, Unsupported::Unproved { tasks: false, .. }))
}

/// Lowers a kernel whose specialised loop is not proved: its loops, as its author wrote them, are pipelined.
///
/// # Errors
/// What was said of that loop, if they do not lower either.
fn pipelined_as_written(kernel: &Verified<'_>, target: &Target, options: &LowerOptions, why: LowerError) -> Result<Lowered, LowerError> {
    let options = LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..*options };
    let Ok((made, mut plan)) = planned(kernel, target, &options) else { return Err(why) };
    if matches!(plan.schedule, Schedule::Pipelined { .. }) {
        plan.schedule = Schedule::Pipelined { why: Box::new(NotSpecialised::Unlowered { why: why.to_string() }) };
    }
    as_planned(kernel, made, target, &options, plan).map_err(|_| why)
}

/// Lowers a kernel as it is best planned.
fn best_planned(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let (made, plan) = planned(kernel, target, options)?;
    let (many, specialised) = (made.insts.len(), plan.specialised().is_some());
    let done = as_planned(kernel, made, target, options, plan);
    if !specialised || done.as_ref().is_ok_and(|d| d.plan.specialised().is_some()) {
        return done;
    }
    // What products beside its loops take may be what does not fit.
    let (made, plan) = planned_with(kernel, target, options, false)?;
    if plan.specialised().is_none() || made.insts.len() == many {
        return done;
    }
    as_planned(kernel, made, target, options, plan)
}

/// Lowers what is made of a kernel, by its plan.
fn as_planned(asked: &Kernel, kernel: Cow<'_, Kernel>, target: &Target, options: &LowerOptions, plan: Plan) -> Result<Lowered, LowerError> {
    let asked = asked.insts.len();
    let lanes = plan.warps * target.lanes;
    let ahead = if plan.specialised().is_none() { loads_ahead(&kernel, target, &plan).ok().flatten() } else { None };
    let kernel = ahead.map_or(kernel, Cow::Owned);
    debug_assert!(verify(&kernel).is_ok(), "{}: {:?}", kernel.name, verify(&kernel).err());
    let kernel = match loads_first(&kernel, lanes) {
        Some(made) => Cow::Owned(made),
        None => kernel,
    };
    let open = plan.specialised().is_some() && options.schedule.is_none();
    let mut done = match scheduled((&kernel, asked), target, options, plan) {
        Err(why) if open && (options.proof == ProofScope::All || !is_own_fault(&why)) => {
            pipelined_instead((&kernel, asked), target, options, why)?
        }
        done => done?,
    };
    if target.early_launch && options.early_launch != Some(false) {
        overlap_launches(&mut done.program);
    }
    Ok(done)
}

/// Fits a plan to the machine, and lowers it.
fn scheduled((kernel, asked): (&Kernel, usize), target: &Target, options: &LowerOptions, plan: Plan) -> Result<Lowered, LowerError> {
    let (fitted, searched, fallback) = with_candidates(kernel, target, options, plan)?;
    let mut done = lowered((kernel, asked), target, fitted, options)?;
    done.searched |= searched;
    done.fallback = fallback.or(done.fallback);
    Ok(done)
}

/// True for what a stage's own check says of what the compiler has written, where the compiler is being worked on: that is no question of the schedule
/// there, but a fault to be mended. Elsewhere, and where a proof of all is asked for, the loop goes another way.
fn is_own_fault(why: &LowerError) -> bool {
    cfg!(debug_assertions)
        && matches!(why, LowerError::Unsupported { why, .. } if matches!(**why, Unsupported::Unproved { .. } | Unsupported::Malformed(..)))
}

/// Lowers a kernel whose specialised loop is written as a program that does not lower: its loops are pipelined.
///
/// # Errors
/// What was said of that program, if they do not lower either.
fn pipelined_instead(
    (kernel, asked): (&Kernel, usize),
    target: &Target,
    options: &LowerOptions,
    why: LowerError,
) -> Result<Lowered, LowerError> {
    let options = LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..*options };
    let Ok(mut plan) = plan(kernel, target, &options) else { return Err(why) };
    plan.schedule = Schedule::Pipelined { why: Box::new(NotSpecialised::Unlowered { why: why.to_string() }) };
    scheduled((kernel, asked), target, &options, plan).map_err(|_| why)
}

/// Plans a kernel as it is, with numbers that loops carry for tiles ([`offsets`]), or with its batches of products taken apart ([`batches_apart`]) and rows as long as copies take them ([`whole_rows`]), if that
/// is better.
fn in_other_extents<'k>(kernel: &'k Kernel, target: &Target, options: &LowerOptions) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    let mut found = summed(kernel, target, options);
    let specialised =
        |found: &Result<(Cow<'_, Kernel>, Plan), LowerError>| found.as_ref().is_ok_and(|(_, plan)| plan.specialised().is_some());
    if specialised(&found) {
        return found;
    }
    if let Some(made) = offsets(kernel) {
        found = better(found, (&made, false), target, options);
        if specialised(&found) {
            return found;
        }
    }
    let apart = batches_apart(kernel);
    if let Some(made) = &apart {
        found = better(found, (made, false), target, options);
    }
    match whole_rows(apart.as_ref().unwrap_or(kernel), target).filter(|_| !specialised(&found)) {
        Some((made, masked)) => better(found, (&made, masked), target, options),
        None => found,
    }
}

/// A kernel with its plan, or another form of it, if its loops are specialised only then, or more of what they load runs ahead; this alone counts for a form
/// in which lanes mask what copies bring.
fn better<'k>(
    plain: Result<(Cow<'k, Kernel>, Plan), LowerError>,
    (made, masked): (&Kernel, bool),
    target: &Target,
    options: &LowerOptions,
) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    debug_assert!(verify(made).is_ok(), "{}: {:?}", made.name, verify(made).err());
    let ahead = |kernel: &Kernel, plan: &Plan| match plan.specialised() {
        Some(s) => s.loops().map(|l| l.loads.len()).sum(),
        None => Pipelines::of(kernel, target, plan).map_or(0, |p| p.ahead()),
    };
    match (summed(made, target, options), &plain) {
        (Ok((seen, plan)), _) if plan.specialised().is_some() && (!masked || plain.is_err()) => Ok((Cow::Owned(seen.into_owned()), plan)),
        (Ok((seen, plan)), Ok((was, own))) if ahead(&seen, &plan) > ahead(was, own) => Ok((Cow::Owned(seen.into_owned()), plan)),
        _ => plain,
    }
}

/// Plans a kernel as it is, or with sums that are wider ([`wide_sums`]), if its loops are specialised only then.
fn summed<'k>(kernel: &'k Kernel, target: &Target, options: &LowerOptions) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    let plain = rewritten(kernel, target, options);
    let open = options.schedule != Some(ScheduleKind::Pipelined);
    if open
        && !plain.as_ref().is_ok_and(|(_, plan)| plan.specialised().is_some())
        && let Some(made) = wide_sums(kernel, target)
    {
        debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
        if let Ok((seen, plan)) = rewritten(&made, target, options)
            && plan.specialised().is_some()
        {
            return Ok((Cow::Owned(seen.into_owned()), plan));
        }
    }
    plain
}

/// Plans a kernel in which what counts are counted loops ([`counted`]), and what does not is counted in front if it is specialised then
/// ([`counted_ahead`]); of those loops that have products in choices as those of [`guarded`], if they are specialised then.
fn rewritten<'k>(kernel: &'k Kernel, target: &Target, options: &LowerOptions) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    let made = counted(kernel);
    let specialised = |plan: &Plan| plan.specialised().is_some();
    debug_assert!(made.as_ref().is_none_or(|made| verify(made).is_ok()), "{}: {:?}", kernel.name, made.map(|made| verify(&made).err()));
    let found = match &made {
        Some(made) => guarded_if_specialised(made, target, options).map(|(seen, plan)| (Cow::Owned(seen.into_owned()), plan)),
        None => guarded_if_specialised(kernel, target, options),
    };
    if found.as_ref().map_or(made.is_some(), |(_, plan)| specialised(plan)) {
        return found;
    }
    // Consumers go through a loop on a condition behind their own; with one that counts it is asked whether it has copies of its own.
    if made.is_some()
        && let Ok((kernel, plan)) = guarded_if_specialised(kernel, target, options)
        && specialised(&plan)
    {
        return Ok((kernel, plan));
    }
    if target.units.is_some()
        && options.schedule != Some(ScheduleKind::Pipelined)
        && let Some(ahead) = counted_ahead(made.as_ref().unwrap_or(kernel))
    {
        debug_assert!(verify(&ahead).is_ok(), "{}: {:?}", ahead.name, verify(&ahead).err());
        if let Ok((seen, plan)) = guarded_if_specialised(&ahead, target, options)
            && specialised(&plan)
        {
            return Ok((Cow::Owned(seen.into_owned()), plan));
        }
    }
    found
}

/// Plans a kernel with products in choices as loops of one round, if its loops are specialised then and not as they are.
fn guarded_if_specialised<'k>(kernel: &'k Kernel, target: &Target, options: &LowerOptions) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    let mut plain = exchanged_if_specialised(kernel, target, options);
    let open = options.schedule != Some(ScheduleKind::Pipelined) && target.units.is_some();
    if !open || plain.as_ref().is_ok_and(|(_, plan)| plan.specialised().is_some()) {
        return plain;
    }
    let Some(made) = guarded(kernel) else { return plain };
    debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
    let Ok((seen, plan)) = exchanged_if_specialised(&made, target, options) else { return plain };
    match (&plan.schedule, plain.as_mut().map(|(_, p)| &mut p.schedule)) {
        (Schedule::Specialised(_), _) => return Ok((Cow::Owned(seen.into_owned()), plan)),
        // As it is there is no loop to speak of.
        (Schedule::Pipelined { why }, Ok(Schedule::Pipelined { why: own })) if matches!(**own, NotSpecialised::Loops { count: 0 }) => {
            own.clone_from(why);
        }
        _ => {}
    }
    plain
}

/// Plans a kernel with operands of its products exchanged where that gains something, if its loops are specialised then; else as it is, products padded
/// that are smaller than any matrix instruction.
fn exchanged_if_specialised<'k>(
    kernel: &'k Kernel,
    target: &Target,
    options: &LowerOptions,
) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    let open = options.schedule != Some(ScheduleKind::Pipelined);
    if let Some(made) = exchanged(kernel, target).filter(|_| open)
        && let Ok(plan) = plan(&made, target, options)
        && plan.specialised().is_some()
    {
        debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
        return Ok((Cow::Owned(made), plan));
    }
    let own = plan(kernel, target, options);
    if !own.as_ref().is_ok_and(|p| p.specialised().is_some())
        && let Some(made) = padded(kernel, target)
        && let Ok(plan) = plan(&made, target, options)
    {
        debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
        return Ok((Cow::Owned(made), plan));
    }
    Ok((Cow::Borrowed(kernel), own?))
}

/// Plans a kernel whose loops are specialised with the products beside them in loops of one round, if those are specialised then, too.
fn with_products_beside(kernel: &Kernel, target: &Target, options: &LowerOptions, own: &Plan) -> Option<(Kernel, Plan)> {
    own.specialised()?;
    let made = beside(kernel)?;
    debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
    let plan = plan(&made, target, options).ok()?;
    // While one group computes nobody multiplies, and a ring leaves room for no other program: lanes' own instructions are quicker then.
    plan.specialised().filter(|s| s.consumers * s.consumer_sets > 1)?;
    let mut products = 0;
    made.walk(made.body, &mut |i| products += usize::from(made.insts[i].op == Op::Dot));
    let taken: usize = plan.specialised()?.loops().map(|l| l.dots.len()).sum();
    (taken == products).then_some((made, plan))
}

/// The kernel that is scheduled, and its plan: as it is, or with loops and products written otherwise, so that they are specialised. One with channels is
/// that in the first expansion that the target's units take: copies and products by them, copies alone, all through
/// registers. A tile that bulk copies do not take goes through registers in all of them.
///
/// # Errors
/// What plans say, a channel that may deadlock, or why the plainest expansion is refused.
pub fn planned<'k>(kernel: &'k Kernel, target: &Target, options: &LowerOptions) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    planned_with(kernel, target, options, true)
}

/// The same, products beside loops in loops of their own or not; block-scaled products as the target multiplies them.
fn planned_with<'k>(
    kernel: &'k Kernel,
    target: &Target,
    options: &LowerOptions,
    own_loops: bool,
) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    let Some(made) = scaled_operands(kernel, target) else { return expanded(kernel, target, options, own_loops) };
    debug_assert!(verify(&made).is_ok(), "{}: {:?}", made.name, verify(&made).err());
    let (seen, plan) = expanded(&made, target, options, own_loops)?;
    Ok((Cow::Owned(seen.into_owned()), plan))
}

/// The same of a kernel whose block-scaled products the target has instructions for.
fn expanded<'k>(
    kernel: &'k Kernel,
    target: &Target,
    options: &LowerOptions,
    own_loops: bool,
) -> Result<(Cow<'k, Kernel>, Plan), LowerError> {
    if !kernel.regions[kernel.body].insts.iter().any(|&i| kernel.insts[i].op == Op::ChannelAlloc) {
        let (seen, plan) = in_other_extents(kernel, target, options)?;
        let made = if own_loops { with_products_beside(&seen, target, options, &plan) } else { None };
        return Ok(made.map_or((seen, plan), |(made, plan)| (Cow::Owned(made), plan)));
    }
    if options.proof != ProofScope::Nothing {
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
    for units in [
        Capabilities { copies: &copies, multiplies: &|_, _| true },
        Capabilities { copies: &copies, multiplies: &|_, _| false },
        Capabilities::NONE,
    ] {
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
fn with_candidates(
    kernel: &Kernel,
    target: &Target,
    options: &LowerOptions,
    own: Plan,
) -> Result<(Fitted, bool, Option<LowerError>), LowerError> {
    let plain = RingLayouts::default();
    if options.layouts == LayoutChoice::Spread || own.specialised().is_none() {
        return Ok((fit(kernel, target, options, own, &plain)?, false, None));
    }
    let candidates = Candidates::of(kernel, target, options, own.clone());
    let chosen = match options.layouts {
        LayoutChoice::Random(seed) => candidates.random(seed),
        LayoutChoice::Spread | LayoutChoice::Searched => candidates.first().clone(),
    };
    if candidates.is_own(&chosen) {
        return Ok((fit(kernel, target, options, own, &plain)?, false, None));
    }
    match candidates.plan(&chosen).and_then(|plan| fit(kernel, target, options, plan, &chosen.ring_layouts)) {
        Ok(fitted) => Ok((fitted, true, None)),
        Err(why) => Ok((fit(kernel, target, options, own, &plain)?, false, Some(why))),
    }
}

/// Lowers what a plan came to: the program that its loops are written as, or the kernel itself; `asked` are the instructions of its author.
fn lowered((kernel, asked): (&Kernel, usize), target: &Target, fitted: Fitted, options: &LowerOptions) -> Result<Lowered, LowerError> {
    let Fitted { plan, written, assigned, direct, settled, need } = fitted;
    let assigned = Rc::new(assigned);
    let made = matches!(written, Some(Ok(_)));
    let mixed = plan.specialised().is_some_and(|s| s.mixed);
    let fit = |plan| Laid { plan, assigned, direct, settled, need, asked, made, mixed, proof: options.proof };
    match written {
        Some(Ok(Written { kernel: made, plan: own })) => {
            let done = laid_out(&made, target, fit(own), options.layouts)?;
            Ok(Lowered { plan, written: Some(Ok(Rc::new(made))), ..done })
        }
        Some(Err(why)) => Ok(Lowered { written: Some(Err(why)), ..laid_out(kernel, target, fit(plan), options.layouts)? }),
        None => laid_out(kernel, target, fit(plan), options.layouts),
    }
}

/// A kernel's plan with layouts.
struct Laid {
    plan: Plan,
    assigned: Rc<Assignment>,
    /// See [`Fitted::direct`].
    direct: bool,
    /// See [`Fitted::settled`].
    settled: bool,
    /// See [`Fitted::need`].
    need: Option<u64>,
    /// Instructions of its author.
    asked: usize,
    /// The compiler wrote the kernel.
    made: bool,
    /// Lanes compute between its products.
    mixed: bool,
    /// What is proved.
    proof: ProofScope,
}

/// Chooses layouts, where they are searched, and lowers. What a choice needs of shared memory and registers follows from sizes; one that does not
/// fit the machine is not the kernel's fault.
fn laid_out(kernel: &Kernel, target: &Target, plain: Laid, layouts: LayoutChoice) -> Result<Lowered, LowerError> {
    // Where lanes bring all fragments by themselves, products of products gain more by a search than it costs.
    let chained = || target.moves_by_lanes() && multiplies_products(kernel, &plain.assigned);
    let layouts = if layouts == LayoutChoice::Spread && chained() { LayoutChoice::Searched } else { layouts };
    if layouts == LayoutChoice::Spread || plain.direct || plain.settled || !is_searched(kernel, target, &plain.plan) {
        return proved(kernel, target, plain);
    }
    let Some(found) = Search::new(kernel, target, &plain.plan, &plain.assigned).solve_as(layouts) else {
        return proved(kernel, target, plain);
    };
    let searched = || {
        let assigned = Rc::new((*plain.assigned).clone().with(&found));
        let plan = with_slots(kernel, &plain.plan, &found)?;
        let footprint = Footprint::of(kernel, target, &plan, &assigned, false)?;
        footprint.fits()?;
        // What no size tells is how much code it is, and whether it can be proved.
        proved(kernel, target, Laid { plan, assigned, direct: false, need: Some(footprint.total()), ..plain })
    };
    let why = match searched() {
        Err(why) => why,
        done => return done,
    };
    Ok(Lowered { fallback: Some(why), ..proved(kernel, target, plain)? })
}

#[cfg(debug_assertions)]
thread_local! {
    static LOWERED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Programs that were lowered on this thread so far, in builds with debug assertions: tests see by it that what fits is known before. In other builds
/// nobody counts.
pub fn lowered_programs() -> u64 {
    #[cfg(debug_assertions)]
    return LOWERED.get();
    #[cfg(not(debug_assertions))]
    0
}

/// Lowers with a plan and layouts, and proves what needs a proof.
fn proved(kernel: &Kernel, target: &Target, laid: Laid) -> Result<Lowered, LowerError> {
    let Laid { plan, assigned, direct, settled: _, need, asked, made, mixed, proof } = laid;
    #[cfg(debug_assertions)]
    LOWERED.set(LOWERED.get() + 1);
    let (done, _) = lane_program((kernel, asked), target, plan.clone(), assigned.clone(), direct, false)?;
    debug_assert!(
        need.is_none_or(|need| u64::from(done.program.shared_bytes) <= need),
        "{} bytes of shared memory where {need:?} were computed: {}",
        done.program.shared_bytes,
        done.program.name
    );
    match done.plan.task_plan() {
        // What an author writes is proved for everybody; what the compiler writes, as every stage's own check, where the compiler is being worked
        // on, or if the caller asks for it: it takes longer than all the rest.
        Some(e) if !e.unproven => match tilelift_protocol::prove(&done.program, target) {
            Ok(_) => {}
            // That a check of our own comes to no end says nothing against what was checked.
            Err(e) if made && proof != ProofScope::All && matches!(e.problem, Problem::TooComplex(_)) => {}
            Err(e) => {
                let e =
                    placed(e, kernel, || lane_program((kernel, asked), target, plan.clone(), assigned.clone(), direct, true).map(|d| d.1));
                let at = e.loc();
                return Err(LowerError::from(Unsupported::Unproved {
                    tasks: !made,
                    why: Box::new(e),
                    promise: promised::broken(kernel).map(Box::new),
                })
                .at(at));
            }
        },
        // What an assembler would make of registers in flight, nobody sees but in numbers that are wrong.
        Some(_) if made && mixed => tilelift_protocol::check_products(&done.program).map_err(|e| Unsupported::Unproved {
            tasks: false,
            why: Box::new(e),
            promise: None,
        })?,
        Some(_) => {}
        None if cfg!(debug_assertions) || proof == ProofScope::All => tilelift_protocol::prove(&done.program, target)
            .map(drop)
            .map_err(|e| Unsupported::Unproved { tasks: false, why: Box::new(e), promise: None })?,
        None => {}
    }
    Ok(done)
}
