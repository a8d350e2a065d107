//! Loads that no product takes, some steps ahead of what lanes compute: the loop carries the tiles in registers.
//!
//! ```text
//! front:  load 0 … load K-1
//! body:   load i+K ─ the body, which computes with what was loaded for i ─ yield, with what was loaded for i+1 … i+K
//! ```
//!
//! Memory answers after some 700 cycles. A loop that asks for a row and looks at it has nothing else to do meanwhile, unless other programs of the multiprocessor have;
//! how many there are the grid says, if the caller knows it. So a step that asks for fewer than [`ENOUGH`] bytes a lane (more, where fewer than [`LANES`]
//! run) is begun ahead, as many steps as `stages` says and it takes to have so many under way, and registers hold. Loads past the end of the loop are put outside of the view, where they move nothing.
//!
//! Of a loop with products that is what only lanes look at: vectors of biases, scales, states. Its sums take registers, too, and those come first. The
//! operands are copied ahead by [`super`], behind this.

use super::super::Refusal;
use super::super::ahead::Ahead;
use super::super::write::{Arg, Writer};
use super::{LoopCopies, Pipelined, content, plus, run_ahead};
use crate::plan::{
    LANES_OF_ROW, Plan, Replay, at_most_once, computed_with, copied_loads, is_matrix, needs, not_operand, slice_by, spread, written_views,
};
use crate::reason::NotAhead;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Scalar, Type, Value};
use tilelift_lane::Target;
use tilelift_lane::hash::Set;

/// Bytes of a lane under way at which a machine's memory is busy, where a multiprocessor runs [`LANES`] of them.
const ENOUGH: u64 = 64;
/// Lanes that a multiprocessor runs, where nobody knows how many programs a launch has.
const LANES: u64 = 1024;
/// Registers of a lane that what is ahead may take.
const HELD: u64 = 24;
/// The same beside products, where the target has few programs for the shared memory that operands take; those that lanes bring take registers.
const HELD_BESIDE: u64 = 48;

/// Registers of a lane for operands and places of products; where lanes alone bring those, twice as many.
const COMPUTING: u64 = 64;

/// Lanes of a program that may use as many registers as a lane can name; of more each has less.
const LANES_OF_ALL: u64 = 256;

/// What programs are like: their lanes, the registers that one may use, and the stages of their loops.
#[derive(Clone, Copy)]
pub(in super::super) struct Programs {
    lanes: u32,
    registers: u64,
    stages: u32,
    /// Bytes of a lane under way at which memory is busy.
    enough: u64,
    /// Lanes hold operands of the next step, too, and their fragments have columns where those of other machines have rows.
    by_lanes: bool,
}

impl Programs {
    /// Of a plan's warps and stages. Where a launch has few programs, each lane has to ask for more.
    pub fn of(target: &Target, plan: &Plan) -> Programs {
        let (lanes, all) = (plan.warps * target.lanes, u64::from(target.registers));
        let registers = all.min(all * LANES_OF_ALL / u64::from(lanes));
        let each = target.rates.as_ref().zip(plan.programs).map(|(rates, all)| all.div_ceil(rates.multiprocessors.max(1)));
        let run = each.map_or(LANES, |each| (u64::from(each) * u64::from(lanes)).clamp(1, LANES));
        Programs { lanes, registers, stages: plan.stages, enough: ENOUGH * LANES / run, by_lanes: target.moves_by_lanes() }
    }
}

/// The kernel with such loops, for programs of so many warps and loops of so many stages; `None` if there are none.
///
/// # Errors
/// What can't be written.
pub fn loads_ahead(kernel: &Kernel, target: &Target, plan: &Plan) -> Result<Option<Kernel>, Refusal> {
    let stages = plan.stages;
    if stages < 2 || kernel.is_explicit() {
        return Ok(None);
    }
    let programs = Programs::of(target, plan);
    let mut rings: BTreeMap<Inst, LoopCopies> = BTreeMap::new();
    let mut loops = Vec::new();
    kernel.walk(kernel.body, &mut |i| loops.extend((kernel.insts[i].op == Op::For).then_some(i)));
    if loops.is_empty() {
        return Ok(None);
    }
    let (written, operands) = (written_views(kernel), copied_loads(kernel));
    for main in loops {
        // There is nothing to begin ahead.
        if at_most_once(kernel, main) {
            continue;
        }
        let Some(step) = StepLoads::of(kernel, main, &written, &|i| operands[i], programs) else { continue };
        let (steps, loads) = (step.ahead(programs), step.ring.loads.len());
        if loads > 0 && steps > 0 {
            taken(Decision::LoadsAhead, || Told::of(format!("{loads} loads, {steps} steps ahead")));
            rings.insert(main, LoopCopies { steps, ..step.ring });
        }
    }
    if rings.is_empty() {
        return Ok(None);
    }
    let mut w = Writer::new(kernel);
    let p = Pipelined { kernel, stages, rings, held: true, two: false };
    p.region(&mut w, kernel.body, false)?;
    Ok(Some(w.finish()))
}

/// What a loop loads in a step, for no product.
struct StepLoads {
    /// The loads that can run ahead and that registers hold, and what their places follow from.
    ring: LoopCopies,
    /// Bytes of a lane that they bring.
    bytes: u64,
    /// Registers of a lane that they take.
    registers: u64,
    /// Registers of a lane that what is ahead may take.
    room: u64,
    /// The loop has products.
    multiplies: bool,
    /// The loads that can run ahead, beside products that leave no room for their registers.
    crowded: Vec<(Inst, u64)>,
}

/// A load that can run ahead.
struct Found {
    load: Inst,
    replay: Replay,
    /// Of a lane.
    registers: u64,
}

impl StepLoads {
    /// Of a loop that holds no loop, in a kernel that writes these views; `operands` are loads that products alone take.
    fn of(kernel: &Kernel, main: Inst, written: &Set<Value>, operands: &dyn Fn(Inst) -> bool, programs: Programs) -> Option<StepLoads> {
        let region = kernel.insts[main].regions[0];
        let is_loop = |&i: &Inst| matches!(kernel.insts[i].op, Op::For | Op::While);
        // Most loops that hold one hold it themselves.
        if kernel.regions[region].insts.iter().any(is_loop) {
            return None;
        }
        let inside = content(kernel, region);
        if inside.0.iter().any(is_loop) {
            return None;
        }
        let products: Vec<Inst> = inside.0.iter().copied().filter(|&i| kernel.insts[i].op.factors().is_some()).collect();
        let multiplies = !products.is_empty();
        let beside = multiplies.then(|| beside_products(kernel, region, &inside.0, &products));
        let loads = kernel.regions[region].insts.iter().copied().filter(|&i| kernel.insts[i].op == Op::Load && !operands(i));
        let mut found: Vec<Found> = Vec::new();
        for load in loads.filter(|i| beside.as_ref().is_none_or(|b| b.contains(i))) {
            if let Ok(replay) = run_ahead(kernel, load, (main, &inside, written)) {
                let registers = registers_of(kernel, load, programs, multiplies);
                found.push(Found { load, replay, registers });
            }
        }
        let room = if multiplies { room_beside(kernel, region, (&products, operands), programs) } else { HELD };
        let mut step = StepLoads { ring: LoopCopies::default(), bytes: 0, registers: 0, room, multiplies, crowded: Vec::new() };
        // Beside products those that take the fewest come first.
        if multiplies {
            found.sort_by_key(|f| f.registers);
        }
        let mut bytes = 0;
        for f in found {
            if multiplies && step.registers + f.registers > room {
                step.crowded.push((f.load, f.registers));
                continue;
            }
            let (elements, elem) = elements_of(kernel, kernel.insts[f.load].results[0]);
            bytes += elements * u64::from(elem.bits()) / 8;
            step.registers += f.registers;
            step.ring.loads.push(f.load);
            step.ring.replay.add(f.replay);
        }
        step.bytes = (bytes / u64::from(programs.lanes)).max(1);
        if !multiplies {
            let halves = step.ring.loads.iter().map(|&i| halves_of(kernel, i)).sum::<u64>();
            step.registers = halves / 2 / u64::from(programs.lanes);
        }
        step.registers = step.registers.max(1);
        Some(step)
    }

    /// How many steps ahead it is begun.
    fn ahead(&self, programs: Programs) -> u32 {
        // Products wait for what is loaded, and memory for products: one step ahead pays whatever it brings.
        let asked = ((programs.enough - 1) / self.bytes).max(u64::from(self.multiplies));
        asked.min(self.room / self.registers).min(u64::from(programs.stages.max(1)) - 1) as u32
    }
}

/// Halves of registers of all that a load brings.
fn halves_of(kernel: &Kernel, load: Inst) -> u64 {
    let (elements, elem) = elements_of(kernel, kernel.insts[load].results[0]);
    elements * halves(elem)
}

/// Registers of a lane that what a load brings takes, which lies as sums of products do if it stands beside products: of a vector the lanes of a row, or all
/// rows, have the same.
fn registers_of(kernel: &Kernel, load: Inst, programs: Programs, multiplies: bool) -> u64 {
    let shape = kernel.ty(kernel.insts[load].results[0]).shape().unwrap_or(&[]);
    let over = match (multiplies, programs.by_lanes && !is_matrix(shape)) {
        (false, _) => programs.lanes,
        (true, true) => LANES_OF_ROW,
        (true, false) => spread(shape, programs.lanes),
    };
    halves_of(kernel, load).div_ceil(2 * u64::from(over.max(1)))
}

/// Registers of a lane that what is ahead may take beside products: half of what sums, what the loop carries, operands that are ahead, and [`COMPUTING`] leave.
fn room_beside(kernel: &Kernel, region: Region, (products, operands): (&[Inst], &dyn Fn(Inst) -> bool), programs: Programs) -> u64 {
    let sums: Vec<Value> = products.iter().map(|&i| kernel.insts[i].results[0]).collect();
    let carried = kernel.yields(region).iter().filter(|v| !sums.contains(v));
    let words = |&v: &Value| {
        let (elements, elem) = elements_of(kernel, v);
        (elements * halves(elem)).div_ceil(2)
    };
    let ahead =
        kernel.regions[region].insts.iter().filter(|&&i| programs.by_lanes && operands(i)).map(|&i| halves_of(kernel, i).div_ceil(2));
    let taken = (sums.iter().chain(carried).map(words).sum::<u64>() + ahead.sum::<u64>()) / u64::from(programs.lanes);
    let computing = if programs.by_lanes { 2 * COMPUTING } else { COMPUTING };
    (programs.registers.saturating_sub(computing + taken) / 2).min(if programs.by_lanes { HELD } else { HELD_BESIDE })
}

/// The loads of a loop's body that lanes compute with, of which no product's operand is a matrix' worth: such operands take the registers of fragments, which
/// many lanes have the same of.
fn beside_products(kernel: &Kernel, region: Region, inside: &BTreeSet<Inst>, products: &[Inst]) -> BTreeSet<Inst> {
    let factors = |&i: &Inst| {
        let d = &kernel.insts[i];
        d.op.factors().into_iter().flat_map(|[a, b, _]| [d.args[a], d.args[b]])
    };
    let behind = slice_by(kernel, products.iter().flat_map(factors).collect(), &|i, take| {
        if inside.contains(&i) {
            needs(kernel, i, take);
        }
    });
    let matrix = |i: &Inst| kernel.insts[*i].results.first().and_then(|&v| kernel.ty(v).shape()).is_some_and(is_matrix);
    let mut seen = computed_with(kernel, region, inside);
    seen.retain(|i| !(matrix(i) && behind.contains(i)));
    seen
}

/// Why a load of a loop is not begun ahead in registers, in such programs; `Ok` if it is.
pub(in super::super) fn held(kernel: &Kernel, programs: Programs, main: Inst, load: Inst) -> Result<(), NotAhead> {
    if at_most_once(kernel, main) {
        return Err(NotAhead::Once);
    }
    let (written, operands) = (written_views(kernel), copied_loads(kernel));
    let Some(step) = StepLoads::of(kernel, main, &written, &|i| operands[i], programs) else { return Err(NotAhead::Around) };
    if let Some(&(_, registers)) = step.crowded.iter().find(|c| c.0 == load) {
        return Err(NotAhead::Held { registers });
    }
    let region = kernel.insts[main].regions[0];
    if !step.ring.loads.contains(&load) {
        let body = content(kernel, region);
        return match run_ahead(kernel, load, (main, &body, &written)) {
            Err(why) => Err(why),
            Ok(_) if !kernel.regions[region].insts.contains(&load) => Err(NotAhead::Choice),
            Ok(_) if kernel.insts[load].op == Op::Load => Err(NotAhead::Beside { why: not_operand(kernel, load) }),
            Ok(_) => Err(NotAhead::Gathered),
        };
    }
    match step.ahead(programs) {
        0 if programs.stages < 2 => Err(NotAhead::Stages),
        0 if step.bytes >= programs.enough && !step.multiplies => Err(NotAhead::Enough { bytes: step.bytes }),
        0 => Err(NotAhead::Held { registers: step.registers }),
        _ => Ok(()),
    }
}

/// Elements of a value, and their type.
fn elements_of(kernel: &Kernel, v: Value) -> (u64, Scalar) {
    match kernel.ty(v) {
        Type::Tile(t) => (t.elements(), t.elem),
        ty => (1, ty.elem()),
    }
}

/// Halves of a register that an element takes which a loop carries: of two in a byte each has one of its own.
fn halves(elem: Scalar) -> u64 {
    match elem.bits() {
        16 => 1,
        64 => 4,
        _ => 2,
    }
}

impl Pipelined<'_> {
    /// A loop that carries what is loaded for the steps behind.
    pub(super) fn carry(
        &self,
        w: &mut Writer<'_>,
        main: Inst,
        ring: &LoopCopies,
        (ahead, args): (&Ahead<'_>, &[Arg]),
    ) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let region = kernel.insts[main].regions[0];
        let params = &kernel.regions[region].params;
        let ty = kernel.ty(params[0]).elem();
        let mut at = args[0];
        let mut state = ahead.first(w, at)?;
        let held = args.len() - 3;
        let mut init: Vec<Arg> = args[3..].to_vec();
        for _ in 0..ring.steps {
            let next = plus(w, at, args[2], 1, ty)?;
            let (tiles, behind) = self.tiles(w, (ahead, at, &state), |_| Ok(next), (main, ring))?;
            init.extend(tiles.into_iter().map(Arg::from));
            (at, state) = (next, behind);
        }
        let tiles = init.len() - held;
        init.extend(state);
        let results = w.for_loop([args[0], args[1], args[2]], &init, |w, index, carried| {
            let at = plus(w, index.into(), args[2], ring.steps, ty)?;
            let state: Vec<Arg> = carried[held + tiles..].iter().map(|&v| v.into()).collect();
            let (new, state) = self.tiles(w, (ahead, at, &state), |w| plus(w, at, args[2], 1, ty), (main, ring))?;
            w.set(params[0], index);
            Self::set_all(w, &params[1..], &carried[..held]);
            let here = &carried[held..held + ring.loads.len()];
            ring.loads.iter().zip(here).for_each(|(&load, &tile)| w.set(kernel.insts[load].results[0], tile));
            let live = crate::plan::live(kernel, region, &|i| ring.loads.contains(&i), &[]);
            let reads = |i: Inst| kernel.insts[i].op.info().effects == Effects::Reads;
            let taken = |i: Inst| !ring.loads.contains(&i) && kernel.insts[i].op != Op::Yield && (live.contains(&i) || !reads(i));
            kernel.regions[region].insts.iter().filter(|&&i| taken(i)).try_for_each(|&i| self.inst(w, i, true))?;
            let mut next = self.given(w, region)?;
            next.extend(carried[held + ring.loads.len()..held + tiles].iter().map(|&v| Arg::from(v)));
            next.extend(new.into_iter().map(Arg::from));
            next.extend(state);
            Ok(next)
        })?;
        Self::set_all(w, &kernel.insts[main].results, &results[..held]);
        Ok(())
    }
}
