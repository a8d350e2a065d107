//! Register allocation: virtual registers become physical ones.
//!
//! ```text
//! Program ─ remove what is unread ─► levels of exec ─► live rows per word ─► files ─┬──► bundles ─► places ─► rewrite
//!                                        ▲                                          ▼                 │
//!                                        └───────────────── spill ◄── more in use than there is       │
//!                                                             ▲                                       │
//!                                                             └──────────────── what has no place ◄───┘
//! ```
//!
//! Registers are not in SSA form: they may be written many times, by words, and under `exec` in some lanes only. Liveness is per 32-bit word
//! and knows which lanes a write reaches (`exec`). Copies vanish where source and result can be the same register (`bundle`). What finds
//! no place is spilled: scalars to lanes of a vector register, vector registers to the other file, then to scratch memory (`spill`).
//! What cannot find a place, since more is in use at a time than there are registers, is spilled before places are sought (`relieve`).
//!
//! All work is counted in steps (`fuel`): a program that takes too many is refused, on every machine the same.
//!
//! What a kernel finds in registers when it begins are physical registers that the program names ([`crate::mir::Entry`]); they keep their
//! places as long as they are read. `vcc`, `exec`, `m0` and `scc` are not given out.

mod assign;
mod bundle;
mod clean;
mod effects;
mod exec;
mod fuel;
mod live;
mod matrix;
mod needs;
mod owners;
mod plan;
mod pressure;
mod relieve;
mod result;
mod spill;
#[cfg(test)]
mod tests;
mod words;
mod work;

pub use result::{AllocError, Allocated, Facts, Origin, Spills};

use crate::mir::{BlockData, File, Inst, Operand, Program, Reg, Span, Spilled, VReg};
use assign::{Limits, Order, Places};
use bundle::Bundles;
use cranelift_entity::EntityRef;
use fuel::Fuel;
use work::{Lanes, Work};

/// How places are sought after the first try, by area: registers of the vector file that stay free for what may have either, whether copies
/// vanish, and the order.
const TRIES: [(usize, bool, Order); 5] =
    [(0, true, Order::Start), (8, true, Order::Area), (24, true, Order::Area), (0, false, Order::Area), (8, false, Order::Start)];

/// The same where something was spilled, after a first try in the order of the program: what is alive without a gap fits in that order if
/// no more is alive at a time than there are registers.
const CROWDED: [(usize, bool, Order); 1] = [(0, true, Order::Area)];

/// Rounds of spilling.
const ROUNDS: usize = 24;

/// Gives every virtual register a physical one.
///
/// # Errors
/// If the program is malformed, if even spilling finds no place, or if the work becomes too much.
pub fn allocate(program: Program) -> Result<Allocated, AllocError> {
    let budget = Budget::of(program.waves);
    allocate_within(program, budget, &Fuel::new(fuel::STEPS))
}

/// Registers that may be used.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// Scalar registers.
    scalars: usize,
    /// Registers of one vector file.
    file: usize,
    /// Registers of both vector files together.
    pool: usize,
}

impl Budget {
    /// What a wavefront of a workgroup of so many may use.
    fn of(waves: u32) -> Budget {
        Budget { scalars: words::file_size(File::Scalar), file: words::file_size(File::Vector), pool: plan::pool(waves) }
    }
}

fn allocate_within(program: Program, budget: Budget, fuel: &Fuel) -> Result<Allocated, AllocError> {
    sizes(&program)?;
    let origin = program.blocks.values().map(|b| (0..b.insts.len() as u32).map(Some).collect()).collect();
    let temporaries = vec![false; program.vregs.len()];
    let mut work = Work { program, origin, temporaries, lanes: Lanes::default() };
    clean::remove_unread(&mut work);
    let mut spills = Spills::default();
    for _ in 0..ROUNDS {
        match round(&mut work, budget, &mut spills, fuel)? {
            Some((bundles, places)) => return Ok(rewrite(work, &bundles, &places, spills)),
            None => fuel.check()?,
        }
    }
    Err(AllocError::Spilling)
}

fn sizes(program: &Program) -> Result<(), AllocError> {
    for span in program.blocks.values().flat_map(|b| &b.insts).flat_map(|i| &i.operands) {
        if let Operand::Reg(Span { reg: Reg::Virtual(reg), first, words }) = span {
            let all = program.vregs.get(*reg).map_or(0, |d| d.words);
            if *words == 0 || first.checked_add(*words).is_none_or(|end| end > all) {
                return Err(AllocError::Words(*reg));
            }
        }
    }
    Ok(())
}

/// A try: how bundles were made and placed.
struct Try {
    bundles: Bundles,
    places: Places,
    files: plan::Files,
    limits: Limits,
}

impl Try {
    /// Less is better: nothing stuck, little spilled, few registers.
    fn badness(&self) -> (bool, u64, usize) {
        let cost = self.places.spilled.iter().map(|&b| {
            let bundle = &self.bundles.all[b];
            (f64::from(bundle.weight) * bundle.area as f64) as u64 + 1
        });
        (self.places.stuck.is_some(), cost.sum(), self.places.used[File::Vector as usize] + self.places.used[File::Acc as usize])
    }
}

/// Tries to place everything; spills what has no place and answers nothing if that fails.
fn round(work: &mut Work, budget: Budget, spills: &mut Spills, fuel: &Fuel) -> Result<Option<(Bundles, Places)>, AllocError> {
    let words = words::Words::new(&work.program);
    let levels = exec::levels(&work.program, fuel);
    let ranges = live::ranges(&work.program, &words, &levels, fuel)?;
    let fixed = assign::fixed(&words, &ranges);
    let mut unspillable = spill::unspillable(&work.program, &levels);
    unspillable.iter_mut().zip(&work.temporaries).for_each(|(u, t)| *u |= t);

    let Budget { scalars, file, pool } = budget;
    let planned = |slack: usize| {
        // Where both files come from a pool that one could use up, the other gives no room.
        let vector = if pool > file { file.saturating_sub(slack) } else { usize::MAX };
        fuel.burn(32 * ranges.count());
        let files = plan::files(&work.program, &words, &ranges, vector, file.min(pool.saturating_sub(file)));
        let acc = (files.acc.highest() + slack / 2).next_multiple_of(4).min(file);
        let acc = if files.acc.highest() == 0 && pool <= file { 0 } else { acc.max(pool.saturating_sub(file)) };
        (files, [scalars, pool.saturating_sub(acc).min(file), acc])
    };
    let spill = |work: &mut Work, spilled: &[VReg], files: &mut plan::Files, limits: Limits, spills: &mut Spills| {
        let rows = |reg: VReg| words.of(reg).flat_map(|w| ranges.of(w).iter().copied()).collect();
        let mut room = spill::Room { acc: &mut files.acc, limit: limits[File::Acc as usize], rows: &rows, fuel };
        spill::spill(work, spilled, &files.of, &mut room, spills)
    };
    let (mut files, limits) = planned(0);
    let crowded = relieve::relieve(&work.program, (&words, &ranges), &mut files, limits, &unspillable, fuel);
    fuel.check()?;
    if !crowded.is_empty() {
        spill(work, &crowded, &mut files, limits, spills)?;
        return Ok(None);
    }

    let attempt = |slack: usize, coalesce: bool, order: Order| {
        let (files, limits) = planned(slack);
        let bundles = Bundles::new(&work.program, &words, &ranges, &files.of, &unspillable, coalesce, fuel);
        let places = assign::assign(&bundles, &fixed, ranges.rows, limits, order, fuel)?;
        Ok(Try { bundles, places, files, limits })
    };
    let before = fuel.left();
    let tries: &[(usize, bool, Order)] = if *spills == Spills::default() { &TRIES } else { &CROWDED };
    let mut best = attempt(0, true, if *spills == Spills::default() { Order::Area } else { Order::Start })?;
    let cost = before - fuel.left();
    let least = best.files.vector.highest() + best.files.acc.highest();
    for &(slack, coalesce, order) in tries {
        let (stuck, spilled, used) = best.badness();
        let enough = !stuck && spilled == 0 && (used <= least + least / 16 + 1 || slack > 0 || !coalesce);
        if enough || fuel.left() / 8 < cost {
            break;
        }
        let other = attempt(slack, coalesce, order)?;
        if other.badness() < best.badness() {
            best = other;
        }
    }
    let Try { bundles, places, mut files, limits } = best;
    if places.stuck.is_none() && places.spilled.is_empty() {
        return Ok(Some((bundles, places)));
    }
    let spilled: Vec<VReg> = places.spilled.iter().flat_map(|&b| bundles.all[b].members.iter().map(|m| m.0)).collect();
    if spilled.is_empty() {
        let stuck = places.stuck.map(|b| &bundles.all[b]);
        return Err(AllocError::OutOfRegisters {
            file: stuck.map_or(File::Vector, |b| b.file),
            words: stuck.map_or(0, |b| b.words.len().min(255) as u8),
        });
    }
    spill(work, &spilled, &mut files, limits, spills)?;
    Ok(None)
}

/// Puts physical registers in the place of virtual ones, and removes moves of registers to themselves.
fn rewrite(work: Work, bundles: &Bundles, places: &Places, spills: Spills) -> Allocated {
    let Work { mut program, mut origin, .. } = work;
    let place = |span: Span| match span.reg {
        Reg::Virtual(reg) => {
            let (bundle, word) = bundles.of[reg.index()];
            let base = places.base[bundle].unwrap_or(0) + u16::from(word) + u16::from(span.first);
            Span::physical(bundles.all[bundle].file, base, span.words)
        }
        Reg::Physical(file, number) => Span::physical(file, number + u16::from(span.first), span.words),
        Reg::Fixed(_) => span,
    };
    for (block, data) in program.blocks.iter_mut() {
        let BlockData { insts, .. } = data;
        for operand in insts.iter_mut().flat_map(|i| &mut i.operands) {
            if let Operand::Reg(span) = operand {
                *span = place(*span);
            }
        }
        let keep: Vec<bool> = insts.iter().map(|i| !moves_to_itself(i)).collect();
        clean::retain(insts, &mut origin[block.index()], &keep);
    }
    let used = |file: File| places.used[file as usize] as u32;
    let facts = Facts { vgprs: used(File::Vector), agprs: used(File::Acc), sgprs: used(File::Scalar), spills };
    program.spilled = Spilled { scalars: spills.to_lanes, vectors: spills.to_acc + spills.to_scratch };
    Allocated { program, facts, origin }
}

fn moves_to_itself(inst: &Inst) -> bool {
    bundle::copy(inst).is_some_and(|(to, from)| to == from)
}
