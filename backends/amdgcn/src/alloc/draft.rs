//! A program on its way to registers: rounds of looking at it, seeking places, and spilling. It may be left at any time, when it is known
//! that another form of the program does better.
//!
//! ```text
//! Draft ─ place ─┬─► Allocated
//!                └─► what has to be spilled ─ finish: spill, look, place ... ─► Allocated
//! ```

use super::assign::{self, Limits, Places, PlacingOrder};
use super::budget::Budget;
use super::bundle::{self, Bundles};
use super::exec::Levels;
use super::fuel::{self, Fuel};
use super::live::{self, Ranges, Seg};
use super::plan::{Demand, Files};
use super::pressure::Changes;
use super::result::{AllocError, Allocated, Spills};
use super::words::{FILES, Words, file_size};
use super::work::{Lanes, Work};
use super::{clean, exec, relieve, rewrite, spill};
use crate::mir::{File, Operand, Program, Reg, Span, VReg, VRegData};
use cranelift_entity::EntityRef;
use std::rc::Rc;

/// How places are sought after the first try, by area: registers of the vector file that stay free for what may have either, whether copies
/// vanish, and the order.
const TRIES: [(usize, bool, PlacingOrder); 5] = [
    (0, true, PlacingOrder::Start),
    (8, true, PlacingOrder::Area),
    (24, true, PlacingOrder::Area),
    (0, false, PlacingOrder::Area),
    (8, false, PlacingOrder::Start),
];

/// The same where something was spilled, after a first try in the order of the program: what is alive without a gap fits in that order if
/// no more is alive at a time than there are registers.
const CROWDED: [(usize, bool, PlacingOrder); 1] = [(0, true, PlacingOrder::Area)];

/// Rounds of spilling.
const ROUNDS: usize = 24;

/// Rounds after which more registers of a file stay free, as long as each round spills no more than such a part of the file: there are gaps enough, and none
/// that is large enough, or a tuple that comes back for a moment takes the place of another one.
const PATIENT: usize = 6;
const FEW: usize = 16;

/// A program whose registers are being allocated.
#[derive(Debug)]
pub struct Draft {
    work: Work,
    budget: Budget,
    fuel: Fuel,
    spills: Spills,
    /// Registers of each file that stay free: of the accumulation file where it has a size of its own.
    free: [usize; 3],
    round: Round,
}

/// A program in a round: which words hold a value where, and what is known when places are sought.
#[derive(Debug)]
struct Round {
    words: Words,
    ranges: Ranges,
    levels: Levels,
    search: Option<PlaceSearch>,
}

/// What is known when places are sought.
#[derive(Debug)]
struct PlaceSearch {
    fixed: Vec<(File, usize, Vec<Seg>)>,
    weights: Vec<f32>,
    unspillable: Vec<bool>,
    demand: Demand,
    /// Registers that have to be spilled, and the files when that was found.
    spilled: Vec<VReg>,
    files: Files,
    limits: Limits,
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
    bundles: Rc<Bundles>,
    places: Places,
    files: Files,
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

/// Bundles that tries have in common: those of the same files, made in the same way.
struct SharedBundles {
    files: Vec<File>,
    coalesce: bool,
    bundles: Rc<Bundles>,
    /// Steps that making them took.
    steps: usize,
}

impl Round {
    fn new(work: &Work, fuel: &Fuel) -> Result<Round, AllocError> {
        let words = Words::new(&work.program);
        let levels = exec::levels(&work.program, fuel);
        let ranges = live::ranges(&work.program, &words, &levels, fuel)?;
        Ok(Round { words, ranges, levels, search: None })
    }

    /// The most registers of both vector files in use at a time.
    fn together(&self, program: &Program) -> usize {
        let mut changes = Changes::new(self.ranges.rows);
        for file in [File::Vector, File::Acc] {
            let first = self.words.physical(file, 0);
            changes.add(self.ranges.of_all(first..first + file_size(file)));
        }
        for (reg, _) in program.vregs.iter().filter(|(_, data)| data.file != File::Scalar) {
            changes.add(self.ranges.of_all(self.words.of(reg)));
        }
        changes.counts().into_iter().max().unwrap_or(0).max(0) as usize
    }

    /// Finds out what has to be spilled whatever the places, so many registers free, and what else is asked for when they are sought.
    fn begin(&self, work: &Work, budget: Budget, free: [usize; 3], fuel: &Fuel) -> Result<PlaceSearch, AllocError> {
        let (program, words, ranges) = (&work.program, &self.words, &self.ranges);
        let fixed = assign::fixed(words, ranges);
        let mut unspillable = spill::unspillable(program, &self.levels);
        unspillable.iter_mut().zip(&work.temporaries).for_each(|(u, t)| *u |= t);
        let weights = bundle::weights(program, words, ranges);
        let demand = Demand::new(program, words, ranges);
        let (mut files, limits) = planned(&demand, (words, ranges), budget, 0, fuel);
        let within = FILES.map(|file| limits[file as usize].saturating_sub(free[file as usize]));
        let spilled = relieve::relieve(program, (words, ranges), &mut files, within, (&weights, &unspillable), fuel);
        fuel.check()?;
        Ok(PlaceSearch { fixed, weights, unspillable, demand, spilled, files, limits })
    }
}

impl PlaceSearch {
    /// Seeks places; answers nothing if something has to be spilled.
    fn place(
        &mut self,
        program: &Program,
        (words, ranges): (&Words, &Ranges),
        budget: Budget,
        first_round: bool,
        fuel: &Fuel,
    ) -> Result<Option<(Rc<Bundles>, Places)>, AllocError> {
        if !self.spilled.is_empty() {
            return Ok(None);
        }
        let mut made: Vec<SharedBundles> = Vec::new();
        let mut attempt = |slack: usize, coalesce: bool, order: PlacingOrder| {
            let known = (words, ranges);
            let (files, limits) = planned(&self.demand, known, budget, slack, fuel);
            let bundles = match made.iter().find(|m| m.coalesce == coalesce && m.files == files.of) {
                Some(m) => {
                    fuel.burn(m.steps);
                    m.bundles.clone()
                }
                None => {
                    let before = fuel.left();
                    let bundles = Rc::new(Bundles::new(program, known, &files.of, (&self.weights, &self.unspillable), coalesce, fuel));
                    let steps = (before - fuel.left()) as usize;
                    made.push(SharedBundles { files: files.of.clone(), coalesce, bundles: bundles.clone(), steps });
                    bundles
                }
            };
            let places = assign::assign(&bundles, &self.fixed, ranges.rows, limits, order, fuel)?;
            Ok(Try { bundles, places, files, limits })
        };
        let before = fuel.left();
        let tries: &[(usize, bool, PlacingOrder)] = if first_round { &TRIES } else { &CROWDED };
        let mut best = attempt(0, true, if first_round { PlacingOrder::Area } else { PlacingOrder::Start })?;
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
        let Try { bundles, places, files, limits } = best;
        if places.stuck.is_none() && places.spilled.is_empty() {
            return Ok(Some((bundles, places)));
        }
        self.spilled = places.spilled.iter().flat_map(|&b| bundles.all[b].members.iter().map(|m| m.0)).collect();
        if self.spilled.is_empty() {
            let stuck = places.stuck.map(|b| &bundles.all[b]);
            return Err(AllocError::OutOfRegisters {
                file: stuck.map_or(File::Vector, |b| b.file),
                words: stuck.map_or(0, |b| b.words.len().min(255) as u8),
            });
        }
        (self.files, self.limits) = (files, limits);
        Ok(None)
    }
}

/// Files and limits, with so many registers of the vector file free for what may have either.
fn planned(demand: &Demand, (words, ranges): (&Words, &Ranges), budget: Budget, slack: usize, fuel: &Fuel) -> (Files, Limits) {
    let Budget { scalars, file, pool } = budget;
    // Where both files come from a pool that one could use up, the other gives no room.
    let vector = if pool > file { file.saturating_sub(slack) } else { usize::MAX };
    fuel.burn(32 * ranges.count());
    let files = demand.files(words, ranges, vector, file.min(pool.saturating_sub(file)));
    let acc = (files.acc.highest() + slack / 2).next_multiple_of(4).min(file);
    let acc = if files.acc.highest() == 0 && pool <= file { 0 } else { acc.max(pool.saturating_sub(file)) };
    (files, [scalars, pool.saturating_sub(acc).min(file), acc])
}

impl Draft {
    /// Looks at a program.
    ///
    /// # Errors
    /// If it is malformed, or the work becomes too much.
    pub fn new(program: Program) -> Result<Draft, AllocError> {
        let budget = Budget::of(program.waves);
        Draft::within(program, budget, Fuel::new(fuel::STEPS))
    }

    pub(super) fn within(program: Program, budget: Budget, fuel: Fuel) -> Result<Draft, AllocError> {
        sizes(&program)?;
        let origin = program.blocks.values().map(|b| (0..b.insts.len() as u32).map(Some).collect()).collect();
        let temporaries = vec![false; program.vregs.len()];
        let mut work = Work { program, origin, temporaries, lanes: Lanes::default(), zero: None };
        clean::remove_unread(&mut work);
        let round = Round::new(&work, &fuel)?;
        // What is in use at a time is in a register or in scratch memory: where there is not enough of both, no spilling helps.
        let room = budget.pool + (spill::SCRATCH_BYTES / 4) as usize;
        let vector = |data: &VRegData| if data.file == File::Scalar { 0 } else { usize::from(data.words) };
        if work.program.vregs.values().map(vector).sum::<usize>() > room && round.together(&work.program) > room {
            return Err(AllocError::ScratchFull);
        }
        Ok(Draft { work, budget, fuel, spills: Spills::default(), free: [0; 3], round })
    }

    /// Registers of both vector files that it takes at least, if nothing is spilled: no fewer are in use at a time.
    pub fn fewest(&self) -> u32 {
        self.round.together(&self.work.program) as u32
    }

    /// Places everything; gives itself back if something has to be spilled first.
    ///
    /// # Errors
    /// If nothing can be spilled that would help, or the work becomes too much.
    pub fn place(mut self) -> Result<Result<Allocated, Box<Draft>>, AllocError> {
        let first_round = self.spills == Spills::default();
        let mut search = match self.round.search.take() {
            Some(search) => search,
            None => self.round.begin(&self.work, self.budget, self.free, &self.fuel)?,
        };
        let known = (&self.round.words, &self.round.ranges);
        let placed = search.place(&self.work.program, known, self.budget, first_round, &self.fuel)?;
        self.round.search = Some(search);
        Ok(match placed {
            Some((bundles, places)) => Ok(rewrite::rewrite(self.work, &bundles, &places, self.spills)),
            None => Err(Box::new(self)),
        })
    }

    /// Spills and places until everything has a place. Answers nothing where `enough` is given, and more is spilled than that.
    ///
    /// # Errors
    /// If even spilling finds no place, or the work becomes too much.
    pub fn finish(self, enough: Option<Spills>) -> Result<Option<Allocated>, AllocError> {
        let mut draft = Box::new(self);
        for number in 1..=ROUNDS {
            draft = match draft.place()? {
                Ok(allocated) => return Ok(Some(allocated)),
                Err(draft) => draft,
            };
            let Draft { work, round, spills, free, fuel, budget } = &mut *draft;
            let Round { words, ranges, search, .. } = round;
            // What did not place everything leaves what it sought.
            let Some(PlaceSearch { files, limits, spilled, .. }) = search else { return Err(AllocError::Spilling) };
            if number >= PATIENT {
                let mut words = [0usize; 3];
                spilled.iter().for_each(|&reg| words[files.of[reg.index()] as usize] += usize::from(work.program.vregs[reg].words));
                // Twice as many each time.
                for file in FILES.map(|file| file as usize).into_iter().filter(|&file| words[file] > 0 && words[file] <= limits[file] / FEW)
                {
                    free[file] = (2 * free[file]).max(words[file]).min(limits[file] / 4);
                }
                // What it has is what is asked of it.
                if budget.pool <= budget.file {
                    free[File::Acc as usize] = 0;
                }
            }
            let rows = |reg: VReg| ranges.of_all(words.of(reg)).to_vec();
            let mut room = spill::Room {
                acc: &mut files.acc,
                limit: limits[File::Acc as usize].saturating_sub(free[File::Acc as usize]),
                rows: &rows,
                fuel,
            };
            spill::spill(work, spilled, &files.of, &mut room, spills)?;
            fuel.check()?;
            // What was spilled stays so.
            if enough.is_some_and(|enough| spills.order() > enough.order()) {
                return Ok(None);
            }
            if number == ROUNDS {
                break;
            }
            draft.round = Round::new(&draft.work, &draft.fuel)?;
        }
        Err(AllocError::Spilling)
    }
}
