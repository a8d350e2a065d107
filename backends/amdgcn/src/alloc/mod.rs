//! Register allocation: virtual registers become physical ones.
//!
//! ```text
//! Program ─ remove what is unread ─► levels of exec ─► live rows per word ─► files ─► bundles ─► places ─► rewrite
//!                                        ▲                                                │
//!                                        └───────────────── spill ◄── what has no place ──┘
//! ```
//!
//! Registers are not in SSA form: they may be written many times, by words, and under `exec` in some lanes only. Liveness is per 32-bit word
//! and knows which lanes a write reaches ([`exec`]). Copies vanish where source and result can be the same register ([`bundle`]). What finds
//! no place is spilled: scalars to lanes of a vector register, vector registers to the other file, then to scratch memory ([`spill`]).
//!
//! What a kernel finds in registers when it begins are physical registers that the program names ([`crate::mir::Entry`]); they keep their
//! places as long as they are read. `vcc`, `exec`, `m0` and `scc` are not given out.

mod assign;
mod bundle;
mod clean;
mod effects;
mod exec;
mod live;
mod matrix;
mod plan;
mod spill;
#[cfg(test)]
mod tests;
mod words;

use crate::mir::{BlockData, File, Inst, Operand, Program, Reg, Span, VReg, VRegData};
use assign::{Limits, Order, Places};
use bundle::Bundles;
use cranelift_entity::EntityRef;
use std::fmt;

/// A program with physical registers.
#[derive(Clone, PartialEq, Debug)]
pub struct Allocated {
    /// The program.
    pub program: Program,
    /// What it uses.
    pub facts: Facts,
    /// Per block and instruction the number that the instruction had in its block before allocation; nothing for those that spilling added.
    pub origin: Vec<Origin>,
}

/// Per instruction of a block its number before allocation.
pub type Origin = Vec<Option<u32>>;

/// Registers in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Vector registers: one more than the highest number.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers, those with names not counted.
    pub sgprs: u32,
    /// What was spilled.
    pub spills: Spills,
}

impl Facts {
    /// The number of the first accumulation register among all vector registers: a multiple of 4, at least 4.
    pub fn accum_offset(&self) -> u32 {
        self.vgprs.max(1).next_multiple_of(4)
    }

    /// Registers of both vector files that a wavefront takes from the pool: what occupancy follows from.
    pub fn pool(&self) -> u32 {
        let all = if self.agprs == 0 { self.vgprs.max(1) } else { self.accum_offset() + self.agprs };
        all.next_multiple_of(8)
    }
}

/// Words that were spilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spills {
    /// Scalars in lanes of vector registers.
    pub to_lanes: u32,
    /// Vector registers in accumulation registers.
    pub to_acc: u32,
    /// Vector registers in scratch memory.
    pub to_scratch: u32,
}

/// Why a program has no allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// An instruction needs more registers at a time than there are.
    OutOfRegisters {
        /// The file.
        file: File,
        /// Registers in a row that found no place.
        words: u8,
    },
    /// Spilling did not come to an end.
    Spilling,
    /// The chip's scratch memory needs a preparation that kernels do not have.
    NoScratch,
    /// More scratch memory than instructions can name.
    ScratchFull,
    /// An operand names words that its register lacks.
    Words(VReg),
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::OutOfRegisters { file, words } => write!(f, "no place for {words} registers in a row ({file:?})"),
            AllocError::Spilling => f.write_str("spilling does not come to an end"),
            AllocError::NoScratch => f.write_str("registers would have to be spilled to scratch memory, which is not set up on this chip"),
            AllocError::ScratchFull => f.write_str("more than 4096 bytes of scratch memory"),
            AllocError::Words(reg) => write!(f, "{reg} does not have the words that an operand names"),
        }
    }
}

impl std::error::Error for AllocError {}

/// A program on its way.
#[derive(Debug)]
struct Work {
    program: Program,
    origin: Vec<Origin>,
    /// Registers made for spilling, which are not spilled themselves.
    temporaries: Vec<bool>,
    lanes: spill::Lanes,
}

impl Work {
    fn push(&mut self, data: VRegData) -> VReg {
        self.temporaries.push(false);
        self.program.vregs.push(data)
    }

    fn temporary(&mut self, data: VRegData) -> VReg {
        self.temporaries.push(true);
        self.program.vregs.push(data)
    }
}

/// Rounds of spilling.
const ROUNDS: usize = 24;

/// Gives every virtual register a physical one.
///
/// # Errors
/// If the program is malformed, or if even spilling finds no place.
pub fn allocate(program: Program) -> Result<Allocated, AllocError> {
    let budget = Budget::of(program.waves);
    allocate_within(program, budget)
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

fn allocate_within(program: Program, budget: Budget) -> Result<Allocated, AllocError> {
    sizes(&program)?;
    let origin = program.blocks.values().map(|b| (0..b.insts.len() as u32).map(Some).collect()).collect();
    let temporaries = vec![false; program.vregs.len()];
    let mut work = Work { program, origin, temporaries, lanes: spill::Lanes::default() };
    clean::remove_unread(&mut work);
    let mut spills = Spills::default();
    for _ in 0..ROUNDS {
        match round(&mut work, budget, &mut spills)? {
            Some((bundles, places)) => return Ok(rewrite(work, &bundles, &places, spills)),
            None => continue,
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
            (f64::from(bundle.weight) * bundle.area() as f64) as u64 + 1
        });
        (self.places.stuck.is_some(), cost.sum(), self.places.used[File::Vector as usize] + self.places.used[File::Acc as usize])
    }
}

/// Tries to place everything; spills what has no place and answers nothing if that fails.
fn round(work: &mut Work, budget: Budget, spills: &mut Spills) -> Result<Option<(Bundles, Places)>, AllocError> {
    let words = words::Words::new(&work.program);
    let levels = exec::levels(&work.program);
    let ranges = live::ranges(&work.program, &words, &levels);
    let fixed = assign::fixed(&words, &ranges);
    let mut unspillable = spill::unspillable(&work.program, &levels);
    unspillable.iter_mut().zip(&work.temporaries).for_each(|(u, t)| *u |= t);

    let Budget { scalars, file, pool } = budget;
    let attempt = |slack: usize, coalesce: bool, order: Order| {
        // Where both files come from a pool that one could use up, the other gives no room.
        let vector = if pool > file { file.saturating_sub(slack) } else { usize::MAX };
        let files = plan::files(&work.program, &words, &ranges, vector, file.min(pool.saturating_sub(file)));
        let acc = (files.acc.highest() + slack / 2).next_multiple_of(4).min(file);
        let acc = if files.acc.highest() == 0 && pool <= file { 0 } else { acc.max(pool.saturating_sub(file)) };
        let limits = [scalars, pool.saturating_sub(acc).min(file), acc];
        let bundles = Bundles::new(&work.program, &words, &ranges, &files.of, &unspillable, coalesce);
        let places = assign::assign(&bundles, &fixed, ranges.rows, limits, order);
        Try { bundles, places, files, limits }
    };
    let mut best = attempt(0, true, Order::Area);
    let least = best.files.vector.highest() + best.files.acc.highest();
    for (slack, coalesce, order) in
        [(0, true, Order::Start), (8, true, Order::Area), (24, true, Order::Area), (0, false, Order::Area), (8, false, Order::Start)]
    {
        let (stuck, spilled, used) = best.badness();
        if !stuck && spilled == 0 && (used <= least + least / 16 + 1 || slack > 0 || !coalesce) {
            break;
        }
        let other = attempt(slack, coalesce, order);
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
    let rows = |reg: VReg| words.of(reg).flat_map(|w| ranges.of(w).iter().copied()).collect();
    let mut room = spill::Room { acc: &mut files.acc, limit: limits[File::Acc as usize], rows: &rows };
    spill::spill(work, &spilled, &files.of, &mut room, spills)?;
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
    Allocated { program, facts, origin }
}

fn moves_to_itself(inst: &Inst) -> bool {
    bundle::copy(inst).is_some_and(|(to, from)| to == from)
}
