//! Fits a plan to the machine: writes loops that copy ahead as programs, with as many slots as fit, and says how their loads are done.
//!
//! ```text
//! specialised ── write ── layouts ── footprint ─┬─ fits ────────────────────────────────────► as planned
//!                                               ├─ fits with fewer slots ───────────────────► written anew
//!                                               ├─ few are left, and whole tiles are in the way ► loads and stores as lanes hold tiles, all slots or as many as fit
//!                                               └─ does not ────────────────────────────────► pipelined, or an error
//! pipelined   ── write ── layouts ── footprint ─┬─ fits ────────────────────────────────────► as planned
//!                                               ├─ does not ────────────────────────────────► fewer stages, down to none
//!                                               └─ nor does what is loaded at its use ──────► operands for one product at a time, or an error
//! ```
//!
//! All of it is decided from sizes. The lowering allocates by the same sizes, and finds room: a kernel is lowered once. What is written has the
//! same instructions for most numbers of slots, so layouts are assigned once, too; of two slots, none is kept for what ends a step later.

use crate::layout::assign::{Assignment, assign};
use crate::layout::search::staging::suited;
use crate::lower::footprint::Footprint;
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{InstData, Kernel, Op, verify};
use tilelift_lane::Target;
use tilelift_schedule::operands_apart::operands_apart;
use tilelift_schedule::plan::{LowerOptions, Plan, ProofScope, RingLayouts, Schedule, ScheduleKind, Specialised, plan, plan_with};
use tilelift_schedule::program::{self, Pipelines, Refusal};
use tilelift_schedule::reason::{Remedy, Stage, Unsupported};
use tilelift_schedule::{LowerError, Resource};

/// Slots of a ring below which copies are no longer far enough ahead.
const FEW_SLOTS: u32 = 4;

/// Slots of a ring at least: one is filled while lanes look at the other.
const LEAST_SLOTS: u32 = 2;

/// A loop as a program.
pub(crate) struct Written {
    /// The kernel with tasks, or whose lanes copy ahead.
    pub kernel: Kernel,
    /// Its plan: as it says itself.
    pub plan: Plan,
}

impl Written {
    /// Its layouts; slots that lanes fill get their maps.
    ///
    /// # Errors
    /// What layouts say.
    fn assigned(&mut self, target: &Target) -> Result<Assignment, LowerError> {
        let assigned = assign(&self.kernel, target, &self.plan)?;
        self.plan = suited(&self.kernel, target, &self.plan, &assigned)?;
        Ok(assigned)
    }
}

/// A plan that fits the machine, with layouts.
pub(crate) struct Fitted {
    /// What is decided about the kernel.
    pub plan: Plan,
    /// What it is written as, which is lowered instead; or why it is not; absent where there is nothing to write.
    pub written: Option<Result<Written, Refusal>>,
    /// Layouts of what is lowered.
    pub assigned: Assignment,
    /// Loads are done in the layout in which their tile is wanted, and stores in the one in which it is there.
    pub direct: bool,
    /// Layouts stay as they are assigned: operands are loaded for one product at a time, and a search would have them in registers, which sums need.
    pub settled: bool,
    /// Bytes of shared memory at most, where they are known.
    pub need: Option<u64>,
}

/// Fits a plan to the machine, which was made with these layouts.
///
/// # Errors
/// What does not fit, where the caller leaves no other way; what layouts say.
pub(crate) fn fit(
    kernel: &Kernel,
    target: &Target,
    options: &LowerOptions,
    planned: Plan,
    layouts: &RingLayouts,
) -> Result<Fitted, LowerError> {
    let ring = match &planned.schedule {
        Schedule::Specialised(ring) => ring.clone(),
        Schedule::Pipelined { .. } => return pipelined(kernel, target, options, planned),
        Schedule::Explicit(_) => return authored(kernel, target, planned),
    };
    let mut found = specialised(kernel, target, options, &planned, &ring);
    // Each set that takes steps in turns has scratch memory of its own, and two slots: fewer sets, where so many do not fit.
    let mut sets = ring.slices;
    while sets > 1 && matches!(found, Err(LowerError::ResourceExceeded { .. })) {
        sets -= 1;
        let fewer = LowerOptions { slices: Some(sets), ..*options };
        let Ok(plan) = plan_with(kernel, target, &fewer, layouts) else { break };
        let Some(ring) = plan.specialised() else { break };
        found = specialised(kernel, target, options, &plan, ring);
    }
    let why = match found {
        Err(why) if options.schedule.is_none() => why,
        done => return done,
    };
    let why = match why {
        // What else the kernel holds does not fit beside the ring.
        LowerError::ResourceExceeded { resource, need, have, remedy, .. } => {
            let takers = if let Remedy::Memory(takers) = *remedy { takers } else { Vec::new() };
            Refusal::Exceeds { resource, need, have, takers }.into()
        }
        LowerError::NotSpecialised { why, .. } => *why,
        why => return Err(why),
    };
    let mut plan = plan(kernel, target, &LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..*options })?;
    taken(Decision::Specialise, || Told::of(format!("no: {why}")));
    plan.schedule = Schedule::Pipelined { why: Box::new(why) };
    pipelined(kernel, target, options, plan)
}

/// True if lanes copy in a choice or in a loop without a count, for a product there, say: the proof does not follow how many copies are in flight
/// behind it.
fn copies_by_chance(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if matches!(d.op, Op::If | Op::While) {
            d.regions.iter().for_each(|&r| {
                kernel.walk(r, &mut |j| found |= matches!(kernel.insts[j].op, Op::CopyAsync | Op::GatherAsync | Op::Dot | Op::DotScaled))
            });
        }
    });
    found
}

/// The plan of what was written. It is verified, and proved later, where the compiler is being worked on, as every stage's own check, or if the caller
/// asks for a proof of all.
fn planned(kernel: Kernel, target: &Target, asked: ProofScope) -> Result<Written, LowerError> {
    if cfg!(debug_assertions) {
        verify(&kernel).map_err(|e| Unsupported::Malformed(Stage::Schedule, Box::new(e)))?;
    }
    let proof = match asked {
        ProofScope::All => asked,
        _ if cfg!(debug_assertions) && !copies_by_chance(&kernel) => ProofScope::Authors,
        _ => ProofScope::Nothing,
    };
    let options = LowerOptions { proof, ..LowerOptions::default() };
    let plan = plan(&kernel, target, &options)?;
    Ok(Written { kernel, plan })
}

/// A specialised loop as a program that fits.
///
/// # Errors
/// What does not fit beside the fewest slots; what can't be written.
fn specialised(
    kernel: &Kernel,
    target: &Target,
    options: &LowerOptions,
    planned_as: &Plan,
    ring: &Rc<Specialised>,
) -> Result<Fitted, LowerError> {
    let write = |ring: &Specialised| {
        let made = program::written(kernel, target, ring);
        let made = made.map_err(|why| LowerError::NotSpecialised { why: Box::new(why.into()), loc: Default::default() })?;
        planned(made, target, options.proof)
    };
    let mut slotted = ring.slotted(ring.depth);
    let mut written = write(&slotted)?;
    let mut assigned = written.assigned(target)?;
    let rewrite = |ring: &Specialised, written: &mut Written, assigned: &mut Assignment| {
        let before = std::mem::replace(written, write(ring)?);
        if alike(&before.kernel, &written.kernel) {
            written.plan = suited(&written.kernel, target, &written.plan, assigned)?;
        } else {
            *assigned = written.assigned(target)?;
        }
        Ok::<_, LowerError>(())
    };
    let (mut depth, mut direct) = (ring.depth, false);
    // Slots that would be left, if they are few: what is loaded beside the ring is loaded as it is wanted then, and results are stored as they are held.
    // Neither needs a way through shared memory, if that is enough.
    let (mut few, mut tried) = (None, false);
    // Two slots are as good as three where a step's products end in it, and lanes compute between them.
    let in_one_step = ring.mixed && ring.in_flight == 0 && ring.overlap.is_none() && ring.late.is_none() && ring.slices == 1;
    let enough_ahead = if in_one_step { LEAST_SLOTS } else { FEW_SLOTS };
    // Sets that take steps in turns want a slot that is filled beside the one that each looks at.
    let (least, mut last) = (LEAST_SLOTS * ring.slices, false);
    loop {
        let footprint = Footprint::of(&written.kernel, target, &written.plan, &assigned, direct)?;
        let why = match footprint.fits() {
            Err(why) => why,
            Ok(()) => match within_share(ring, footprint.total(), depth).filter(|_| options.stages.is_none() && !direct) {
                Some(slots) => {
                    (slotted, depth) = (ring.slotted(slots), slots);
                    rewrite(&slotted, &mut written, &mut assigned)?;
                    continue;
                }
                // So many slots fit by shared scratch memory alone: all of them may fit without a way through memory, see [`Way`].
                None if !direct && !tried && options.stages.is_none() && left_apart(&footprint, target, depth, ring) < enough_ahead => {
                    (few, tried, direct) = (Some(depth), true, true);
                    if depth != ring.depth {
                        (slotted, depth) = (ring.slotted(ring.depth), ring.depth);
                        rewrite(&slotted, &mut written, &mut assigned)?;
                    }
                    continue;
                }
                None => break,
            },
        };
        let left =
            fewer(&why, depth, ring.stage_bytes).map(|n| n / ring.slices * ring.slices).filter(|&n| options.stages.is_none() && n > 1);
        let next = match left {
            _ if direct => few.take().map(|n| (n, false)).or(left.map(|n| (n, true))),
            Some(n) if n >= enough_ahead || tried => Some((n, false)),
            n if !std::mem::replace(&mut tried, true) => {
                few = n;
                Some((ring.depth, true))
            }
            _ => None,
        };
        let enough = |n: u32| ring.slices == 1 || options.stages.is_some() || n >= least;
        // What does not fit beside the fewest slots is what is said of it.
        let fewest = || (options.stages.is_none() && depth > least && !std::mem::replace(&mut last, true)).then_some((least, false));
        let Some((slots, at_use)) = next.filter(|n| enough(n.0)).or_else(fewest) else { return Err(why) };
        if slots != depth {
            slotted = ring.slotted(slots);
            rewrite(&slotted, &mut written, &mut assigned)?;
        }
        (depth, direct) = (slots, at_use);
    }
    let through = Footprint::of(&written.kernel, target, &written.plan, &assigned, false)?;
    let Way { need, direct } = Way::of(&through, (&written.kernel, target, &written.plan, &assigned))?;
    taken(Decision::Slots, || {
        let beside = if direct { ", what stands beside them is loaded at its use" } else { "" };
        let told = Told::of(format!("{depth} of {} bytes{beside}", ring.stage_bytes));
        if depth == ring.depth { told } else { told.before(format!("{} as planned, which do not fit", ring.depth), None) }
    });
    let plan = Plan { warps: planned_as.warps, stages: depth, schedule: Schedule::Specialised(slotted), programs: planned_as.programs };
    Ok(Fitted { plan, written: Some(Ok(written)), assigned, direct, settled: false, need: Some(need) })
}

/// True for kernels of the same instructions, in which layouts of one are those of the other.
fn alike(one: &Kernel, other: &Kernel) -> bool {
    let same = |(a, b): (&InstData, &InstData)| a.op == b.op && a.args == b.args && a.results == b.results;
    one.insts.len() == other.insts.len() && one.insts.values().zip(other.insts.values()).all(same)
}

/// The slots that are left of so many, of so many bytes each, where a program that needs so much is to have no more than so much.
fn left_within(have: u64, need: u64, depth: u32, bytes: u32) -> u32 {
    let over = need.saturating_sub(have).div_ceil(u64::from(bytes.max(1)));
    u64::from(depth).saturating_sub(over) as u32
}

/// The slots, of so many, that leave other programs of a multiprocessor their share of its memory, if this one does with fewer than it has, and still
/// with some.
fn within_share(ring: &Specialised, need: u64, depth: u32) -> Option<u32> {
    let left = left_within(u64::from(ring.share), need, depth, ring.stage_bytes);
    let whole = left / ring.slices * ring.slices;
    (left < depth && whole >= FEW_SLOTS).then_some(whole)
}

/// The slots that would be left of a ring of so many if no scratch memory of a task lay where other scratch memory of it lay.
fn left_apart(footprint: &Footprint<'_>, target: &Target, depth: u32, ring: &Specialised) -> u32 {
    let (need, have) = (footprint.apart(), u64::from(target.shared_bytes));
    if need <= have { depth } else { left_within(have, need, depth, ring.stage_bytes) }
}

/// The slots, of so many bytes, that would be left of a ring of so many if it gave back what does not fit; `None` if that is not what is in the
/// way.
fn fewer(why: &LowerError, depth: u32, bytes: u32) -> Option<u32> {
    match *why {
        LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, .. } => {
            Some(left_within(have, need.max(have + 1), depth, bytes))
        }
        _ => None,
    }
}

/// Pipelined loops as a program that fits, if there are any.
///
/// Where copies run by themselves, a number of stages that the caller gives is how far ahead they are, and is kept. Where lanes move tiles, it says no
/// more than that they are loaded ahead: what does not fit is loaded where it is used.
///
/// # Errors
/// What does not fit, if the caller gives a number of stages that is kept; what layouts say.
fn pipelined(kernel: &Kernel, target: &Target, options: &LowerOptions, mut plan: Plan) -> Result<Fitted, LowerError> {
    let asked = plan.stages;
    let loops = Pipelines::of(kernel, target, &plan);
    let mut refused = None;
    if let Some(loops) = &loops {
        match in_stages(target, options, &mut plan, loops)? {
            Ok(fitted) => return Ok(fitted),
            Err(why) => refused = why.map(Err),
        }
        // Tiles for lanes take the slots of operands.
        if let Some(alone) = loops.operands_alone(target) {
            plan.stages = asked;
            match in_stages(target, options, &mut plan, &alone)? {
                Ok(fitted) => return Ok(fitted),
                Err(why) => refused = why.map(Err),
            }
        }
    }
    let assigned = assign(kernel, target, &plan)?;
    if target.moves_by_lanes()
        && Footprint::of(kernel, target, &plan, &assigned, false)?.fits().is_err()
        && let Some(fitted) = apart(kernel, target, &plan)?
    {
        return Ok(fitted);
    }
    if loops.is_some() && plan.stages == 1 {
        taken(Decision::Stages, || Told::of("1: tiles are loaded where they are used"));
    }
    Ok(Fitted { plan, written: refused, assigned, direct: false, settled: false, need: None })
}

/// A kernel whose operands are loaded for one product at a time, if it fits the machine then.
///
/// # Errors
/// What layouts say.
fn apart(kernel: &Kernel, target: &Target, plan: &Plan) -> Result<Option<Fitted>, LowerError> {
    let Some(made) = operands_apart(kernel) else { return Ok(None) };
    if cfg!(debug_assertions) {
        verify(&made).map_err(|e| Unsupported::Malformed(Stage::Schedule, Box::new(e)))?;
    }
    let assigned = assign(&made, target, plan)?;
    let footprint = Footprint::of(&made, target, plan, &assigned, false)?;
    if footprint.fits().is_err() {
        return Ok(None);
    }
    let need = footprint.total();
    taken(Decision::Stages, || Told::of(format!("1: operands are loaded for each product, {need} bytes of shared memory")));
    let written = Written { kernel: made, plan: plan.clone() };
    Ok(Some(Fitted { plan: plan.clone(), written: Some(Ok(written)), assigned, direct: false, settled: true, need: Some(need) }))
}

/// Loops in as many stages as fit, two at least; else why they can't be written, if that is it.
///
/// # Errors
/// See [`pipelined`].
fn in_stages(
    target: &Target,
    options: &LowerOptions,
    plan: &mut Plan,
    loops: &Pipelines<'_>,
) -> Result<Result<Fitted, Option<Refusal>>, LowerError> {
    let have = u64::from(target.shared_bytes);
    let stages = options.stages.filter(|_| !target.moves_by_lanes());
    plan.stages = loops.stages(plan.stages);
    // Slots of fewer stages take their part of what so many bytes are for so many stages.
    let fewer = |bytes: u64, stages: u32, most: u32| (have * u64::from(stages) / bytes.max(1)).clamp(1, u64::from(most)) as u32;
    if stages.is_none() {
        plan.stages = fewer(loops.stage_bytes(), loops.slot_stages(), plan.stages);
    }
    while plan.stages > 1 {
        let made = match loops.written(plan.stages) {
            Ok(made) => made,
            Err(why) => {
                plan.stages = 1;
                return Ok(Err(Some(why)));
            }
        };
        let mut written = planned(made, target, options.proof)?;
        let assigned = written.assigned(target)?;
        let footprint = Footprint::of(&written.kernel, target, &written.plan, &assigned, false)?;
        // Registers hold what is ahead, where lanes move it: fewer stages are none. Results leave as they are held then.
        if footprint.fits().is_ok() || target.moves_by_lanes() {
            let Way { need, direct } = Way::of(&footprint, (&written.kernel, target, &written.plan, &assigned))?;
            if need <= have {
                taken(Decision::Stages, || Told::of(format!("{}, {need} bytes of shared memory", plan.stages)));
                let written = Some(Ok(written));
                return Ok(Ok(Fitted { plan: plan.clone(), written, assigned, direct, settled: false, need: Some(need) }));
            }
        }
        if stages.is_some() && loops.operands_alone(target).is_none() {
            footprint.fits()?;
        }
        if stages.is_some() {
            return Ok(Err(None));
        }
        plan.stages = fewer(footprint.alive(), plan.stages, plan.stages - 1);
    }
    Ok(Err(None))
}

/// How tiles that lanes load and store beside copies travel in a program with tasks: through shared memory, or as lanes want and hold them.
///
/// It is decided from the program alone, so that a schedule that is printed lowers to the same instructions again.
struct Way {
    /// Bytes of shared memory.
    need: u64,
    /// As lanes want and hold them.
    direct: bool,
}

impl Way {
    /// The first that fits of these; the first of all where none does, which the lowering says:
    ///
    /// ```text
    ///                                            through memory   direct
    /// each task's scratch memory for itself            1             2
    /// one after the other in the same bytes            3             4
    /// ```
    ///
    /// Where bytes have to serve twice for a way through memory, lanes are quicker without one: 2% of products of experts on an H200. `through` is what the
    /// program takes with the way through memory.
    ///
    /// # Errors
    /// What layouts say.
    fn of(through: &Footprint<'_>, (kernel, target, plan, assigned): (&Kernel, &Target, &Plan, &Assignment)) -> Result<Way, LowerError> {
        let have = u64::from(target.shared_bytes);
        let need = through.total();
        if through.apart() <= have {
            return Ok(Way { need, direct: false });
        }
        let direct = Footprint::of(kernel, target, plan, assigned, true)?;
        let at_use = direct.total();
        Ok(if direct.apart() <= have || (need > have && at_use <= have) {
            Way { need: at_use, direct: true }
        } else {
            Way { need, direct: false }
        })
    }
}

/// A kernel whose author says who does what.
///
/// # Errors
/// What layouts say.
fn authored(kernel: &Kernel, target: &Target, plan: Plan) -> Result<Fitted, LowerError> {
    let assigned = assign(kernel, target, &plan)?;
    let plan = suited(kernel, target, &plan, &assigned)?;
    let through = Footprint::of(kernel, target, &plan, &assigned, false)?;
    let Way { need, direct } = Way::of(&through, (kernel, target, &plan, &assigned))?;
    Ok(Fitted { plan, written: None, assigned, direct, settled: false, need: Some(need) })
}
