//! What has to be spilled whatever the places: where more is in use than there are registers.
//!
//! A sweep over the rows: where too much is in use, what costs least per row goes, until the rest fits. An instruction that names a spilled
//! register needs one for a moment, which stays in use. Work grows as the program, times a logarithm.

use super::effects::touches;
use super::fuel::Fuel;
use super::live::{self, Ranges, Seg};
use super::plan::Files;
use super::pressure::{Changes, Pressure};
use super::words::{FILES, Words, file_size};
use crate::isa::Access;
use crate::mir::{File, Operand, Program, Reg, VReg};
use cranelift_entity::EntityRef;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Scalars that one vector register keeps in its lanes.
const LANES: usize = 64;

/// Where more is in use than a vector file has, by more than such a part, a smaller part of the file stays free: tuples and registers with gaps do not
/// fill a file to the last register, and each round that seeks places takes time.
const FAR: usize = 4;
/// The part that stays free.
const MARGIN: usize = 64;

/// A row beside an instruction that names a register, and how many words of it.
#[derive(Clone, Copy)]
struct Near {
    reg: VReg,
    row: u32,
    words: u8,
}

/// What a sweep reads.
struct Sweep<'a> {
    words: &'a Words,
    ranges: &'a Ranges,
    weights: &'a [f32],
    /// By register, and row.
    near: Vec<Near>,
    /// Where those of each register begin.
    first: Vec<u32>,
    gone: Vec<bool>,
    fuel: &'a Fuel,
}

/// Chooses registers that leave at most `limits` in use, as far as that can be, and takes them out of the files' pressure.
pub(super) fn relieve(
    program: &Program,
    (words, ranges): (&Words, &Ranges),
    files: &mut Files,
    limits: [usize; 3],
    (weights, unspillable): (&[f32], &[bool]),
    fuel: &Fuel,
) -> Vec<VReg> {
    let mut changes = Changes::new(ranges.rows);
    (0..file_size(File::Scalar)).for_each(|number| changes.add(ranges.of(words.physical(File::Scalar, number))));
    for reg in program.vregs.keys().filter(|&reg| program.vregs[reg].file == File::Scalar) {
        changes.add(ranges.of_all(words.of(reg)));
    }
    let mut scalars = Pressure::of(&changes.counts());
    let most = [scalars.highest(), files.vector.highest(), files.acc.highest()];
    if (0..3).all(|file| most[file] <= limits[file]) {
        return Vec::new();
    }
    let (near, first) = near(program);
    let mut sweep = Sweep { words, ranges, weights, near, first, gone: unspillable.to_vec(), fuel };
    let limits = FILES.map(|file| {
        let limit = limits[file as usize];
        let margin = file != File::Scalar && most[file as usize] > limit + limit / FAR;
        if margin { limit - limit / MARGIN } else { limit }
    });
    let mut found = Vec::new();
    let mut kept_in_lanes = 0usize;
    for file in FILES {
        let limit = limits[file as usize];
        let of = |reg: VReg| files.of[reg.index()];
        let all: Vec<VReg> = program.vregs.keys().filter(|&reg| of(reg) == file && !sweep.gone[reg.index()]).collect();
        let (pressure, limit) = match file {
            File::Scalar => (&mut scalars, limit),
            File::Vector => (&mut files.vector, limit.saturating_sub(kept_in_lanes.div_ceil(LANES))),
            File::Acc => (&mut files.acc, limit),
        };
        let before = found.len();
        sweep.run(&all, pressure, limit, &mut found);
        sweep.bring_back(pressure, limit, &mut found, before);
        if file == File::Scalar {
            kept_in_lanes = found[before..].iter().map(|&reg| usize::from(program.vregs[reg].words)).sum();
        }
    }
    found
}

/// Rows that instructions need registers in, whether those are spilled or not, and where those of each register begin.
fn near(program: &Program) -> (Vec<Near>, Vec<u32>) {
    let (bases, _) = live::rows(program);
    let mut found = Vec::new();
    let mut first = vec![0u32; program.vregs.len() + 1];
    let mut push = |near: Near| {
        first[near.reg.index() + 1] += 1;
        found.push(near);
    };
    for (block, data) in program.blocks.iter() {
        for (at, inst) in data.insts.iter().enumerate() {
            let before = bases[block.index()] + at as u32;
            for touch in touches(inst) {
                let Reg::Virtual(reg) = touch.span.reg else { continue };
                // The whole operand has a place, of which not all need be read.
                let named =
                    |o: &Operand| if let Operand::Reg(span) = o { (span.reg == touch.span.reg).then_some(span.words) } else { None };
                let words = inst.operands.iter().filter_map(named).fold(touch.span.words, u8::max);
                if touch.access != Access::Def {
                    push(Near { reg, row: before, words });
                }
                if touch.access != Access::Use {
                    push(Near { reg, row: before + 1, words });
                }
            }
        }
    }
    for reg in 1..first.len() {
        first[reg] += first[reg - 1];
    }
    // Each register's own come together, and are few.
    let mut next = first.clone();
    let mut near = found.clone();
    for one in found {
        let at = &mut next[one.reg.index()];
        near[*at as usize] = one;
        *at += 1;
    }
    first.windows(2).for_each(|ends| near[ends[0] as usize..ends[1] as usize].sort_by_key(|n| n.row));
    (near, first)
}

fn holds(rows: &[Seg], row: u32) -> bool {
    rows.get(rows.partition_point(|seg| seg.end <= row)).is_some_and(|seg| seg.start <= row)
}

impl Sweep<'_> {
    fn near(&self, reg: VReg) -> &[Near] {
        &self.near[self.first[reg.index()] as usize..self.first[reg.index() + 1] as usize]
    }

    /// Words that a row has less in use without a register.
    fn gain(&self, reg: VReg, row: u32) -> usize {
        let held = self.words.of(reg).filter(|&word| holds(self.ranges.of(word), row)).count();
        let near = self.near(reg);
        let from = near.partition_point(|n| n.row < row);
        let needed: usize = near[from..].iter().take_while(|n| n.row == row).map(|n| usize::from(n.words)).sum();
        held.saturating_sub(needed)
    }

    /// Takes a register out of what is in use, but for the rows beside instructions that name it; or back again.
    fn change(&mut self, reg: VReg, gone: bool, pressure: &mut Pressure) {
        self.gone[reg.index()] = gone;
        let by = if gone { -1 } else { 1 };
        for word in self.words.of(reg) {
            pressure.add(self.ranges.of(word), by);
        }
        for near in self.near(reg) {
            pressure.add(&[Seg { start: near.row, end: near.row + 1 }], -by * i32::from(near.words));
        }
    }

    /// Registers for which there is room when all others have gone stay: those first that would cost most.
    fn bring_back(&mut self, pressure: &mut Pressure, limit: usize, found: &mut Vec<VReg>, from: usize) {
        let mut gone = found.split_off(from);
        let cost = |reg: &VReg| (self.weights[reg.index()] * self.area(*reg) as f32).to_bits();
        gone.sort_by_key(|reg| (Reverse(cost(reg)), *reg));
        for reg in gone {
            self.change(reg, false, pressure);
            if self.words.of(reg).any(|word| pressure.within(self.ranges.of(word)) > limit) {
                self.change(reg, true, pressure);
                found.push(reg);
            }
        }
    }

    fn area(&self, reg: VReg) -> u64 {
        self.ranges.area(self.words.of(reg))
    }

    fn run(&mut self, all: &[VReg], pressure: &mut Pressure, limit: usize, found: &mut Vec<VReg>) {
        if pressure.highest() <= limit {
            return;
        }
        let starts = all.iter().flat_map(|&reg| self.ranges.of_all(self.words.of(reg)).iter().map(move |seg| (seg.start, reg)));
        let mut starts: Vec<(u32, VReg)> = starts.collect();
        starts.sort_unstable();
        starts.dedup();
        let mut starts = starts.into_iter().peekable();
        let mut open: BinaryHeap<Reverse<(u32, VReg)>> = BinaryHeap::new();
        let mut stay = Vec::new();
        let mut from = 0;
        while let Some(at) = pressure.above(from, limit) {
            let row = at as u32;
            // Weights are not negative, so their bits are in their order.
            let weights = self.weights;
            open.extend(
                std::iter::from_fn(|| starts.next_if(|s| s.0 <= row)).map(|(_, reg)| Reverse((weights[reg.index()].to_bits(), reg))),
            );
            while pressure.within(&[Seg { start: row, end: row + 1 }]) > limit
                && self.fuel.left() > 0
                && let Some(Reverse((weight, reg))) = open.pop()
            {
                self.fuel.burn(16);
                if self.gone[reg.index()] || !self.words.of(reg).any(|word| holds(self.ranges.of(word), row)) {
                    continue;
                }
                if self.gain(reg, row) == 0 {
                    stay.push(Reverse((weight, reg)));
                    continue;
                }
                self.change(reg, true, pressure);
                found.push(reg);
            }
            open.extend(stay.drain(..));
            from = at + 1;
        }
    }
}
