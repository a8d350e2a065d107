//! Loops without products whose loads are some steps ahead of what lanes compute: the loop carries the tiles in registers.
//!
//! ```text
//! front:  load 0 … load K-1
//! body:   load i+K ─ the body, which computes with what was loaded for i ─ yield, with what was loaded for i+1 … i+K
//! ```
//!
//! Memory answers after some 700 cycles. A loop that asks for a row and looks at it has nothing else to do meanwhile, unless other programs of the multiprocessor have;
//! how many there are nobody knows here. So a step that asks for fewer than [`ENOUGH`] bytes a lane is begun ahead, as many steps as `stages` says and
//! it takes to have so many under way, and registers hold. Loads past the end of the loop are put outside of the view, where they move nothing.

use super::super::Refusal;
use super::super::ahead::Ahead;
use super::super::write::{Arg, Writer};
use super::{Pipelined, Ring, content, plus, run_ahead};
use crate::plan::written_views;
use crate::reason::NotAhead;
use std::collections::BTreeMap;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Effects, Inst, Kernel, Op, Scalar, Type, Value};
use tilelift_lane::hash::Set;

/// Bytes of a lane under way at which a machine's memory is busy, even where a multiprocessor runs few programs.
const ENOUGH: u64 = 64;
/// Registers of a lane that what is ahead may take.
const HELD: u64 = 24;

/// The kernel with such loops, for programs of so many lanes and loops of so many stages; `None` if there are none.
///
/// # Errors
/// What can't be written.
pub fn loads_ahead(kernel: &Kernel, lanes: u32, stages: u32) -> Result<Option<Kernel>, Refusal> {
    if stages < 2 || kernel.is_explicit() {
        return Ok(None);
    }
    let mut rings: BTreeMap<Inst, Ring> = BTreeMap::new();
    let mut loops = Vec::new();
    kernel.walk(kernel.body, &mut |i| loops.extend((kernel.insts[i].op == Op::For).then_some(i)));
    if loops.is_empty() {
        return Ok(None);
    }
    let written = written_views(kernel);
    for main in loops {
        let Some(step) = Step::of(kernel, main, &written) else { continue };
        let (steps, loads) = (step.ahead(lanes, stages), step.ring.loads.len());
        if loads > 0 && steps > 0 {
            taken(Decision::LoadsAhead, || Told::of(format!("{loads} loads, {steps} steps ahead")));
            rings.insert(main, Ring { steps, ..step.ring });
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

/// What a loop without products loads in a step.
struct Step {
    /// The loads that can run ahead, and what their places follow from.
    ring: Ring,
    /// Their bytes.
    bytes: u64,
    /// Halves of registers that they take.
    halves: u64,
}

impl Step {
    /// Of a loop that holds neither loops nor products, in a kernel that writes these views.
    fn of(kernel: &Kernel, main: Inst, written: &Set<Value>) -> Option<Step> {
        let region = kernel.insts[main].regions[0];
        let inside = content(kernel, region);
        let lanes_alone = |i: &Inst| !matches!(kernel.insts[*i].op, Op::Dot | Op::For | Op::While);
        if !inside.0.iter().all(lanes_alone) {
            return None;
        }
        let mut step = Step { ring: Ring::default(), bytes: 0, halves: 0 };
        for &load in kernel.regions[region].insts.iter().filter(|&&i| kernel.insts[i].op == Op::Load) {
            if let Ok(found) = run_ahead(kernel, load, (main, &inside, written)) {
                let (elements, elem) = elements_of(kernel, kernel.insts[load].results[0]);
                step.bytes += elements * u64::from(elem.bits()) / 8;
                step.halves += elements * halves(elem);
                step.ring.loads.push(load);
                step.ring.replay.add(found);
            }
        }
        Some(step)
    }

    /// Bytes and registers that a lane of so many has of it.
    fn of_lane(&self, lanes: u32) -> [u64; 2] {
        [self.bytes, self.halves / 2].map(|n| (n / u64::from(lanes)).max(1))
    }

    /// How many steps ahead it is begun.
    fn ahead(&self, lanes: u32, stages: u32) -> u32 {
        let [each, held] = self.of_lane(lanes);
        ((ENOUGH - 1) / each).min(HELD / held).min(u64::from(stages.max(1)) - 1) as u32
    }
}

/// Why a load of a loop is not begun ahead in registers, where programs have so many lanes and loops so many stages; `Ok` if it is.
pub(in super::super) fn held(kernel: &Kernel, (lanes, stages): (u32, u32), main: Inst, load: Inst) -> Result<(), NotAhead> {
    let written = written_views(kernel);
    let Some(step) = Step::of(kernel, main, &written) else { return Err(NotAhead::Around) };
    if !step.ring.loads.contains(&load) {
        let body = content(kernel, kernel.insts[main].regions[0]);
        return match run_ahead(kernel, load, (main, &body, &written)) {
            Err(why) => Err(why),
            Ok(_) if kernel.insts[load].op == Op::Load => Err(NotAhead::Choice),
            Ok(_) => Err(NotAhead::Gathered),
        };
    }
    let [bytes, registers] = step.of_lane(lanes);
    match step.ahead(lanes, stages) {
        0 if stages < 2 => Err(NotAhead::Stages),
        0 if bytes >= ENOUGH => Err(NotAhead::Enough { bytes }),
        0 => Err(NotAhead::Held { registers }),
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
    pub(super) fn carry(&self, w: &mut Writer<'_>, main: Inst, ring: &Ring, (ahead, args): (&Ahead<'_>, &[Arg])) -> Result<(), Refusal> {
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
