//! The estimate of cycles where waves share: all waves of a workgroup on one compute unit, wave `w` on SIMD `w % 4`.
//!
//! ```text
//! wave 0 ─┐             ┌─► vector ─► matrix core        (of the SIMD)
//! wave 4 ─┴─ priority ──┼─► scalar
//!                       ├─► LDS queue ────► LDS ◄─────── those of other SIMDs
//!                       └─► memory queue ─► addresses ◄─ those of other SIMDs
//! ```
//!
//! The parameters are those of [`super::cost`]. A wave issues in order. A SIMD issues to each of its units as soon as the unit is free; of waves that
//! could issue at the same cycle, the one of the highest priority goes first, then the one of the lowest number. A matrix instruction is issued by
//! the vector unit, and waits there for none but the matrix core. What goes to LDS and to memory is queued, and executed one after the other for the
//! whole compute unit; waits last until that is done. What memory takes from there on is not estimated. A barrier ends when the last wave of the workgroup comes.
//!
//! Nothing is kept longer than to the next barrier: there the instructions of all waves since the last one are looked at together.

use super::cost::{Costs, Unit, Work};
use crate::chip::Chip;
use crate::decode::inst::{Inst, Op, Program};
use std::collections::VecDeque;

/// SIMDs of a compute unit.
const SIMDS: usize = 4;

/// What an instruction does to its wave besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    None,
    /// Waits until at most so many are in flight.
    Wait {
        vm: u16,
        lgkm: u16,
    },
    Priority(u8),
    /// A scalar load, which is counted.
    Load,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    work: Work,
    effect: Effect,
}

/// A wave, and what it has issued since the last barrier.
#[derive(Clone, Debug, Default)]
struct Wave {
    /// When it could issue its next instruction.
    ready: u64,
    priority: u8,
    /// When what is in flight will be done.
    vm: VecDeque<u64>,
    lgkm: VecDeque<u64>,
    steps: Vec<Step>,
    /// The step that comes next.
    next: usize,
}

/// When the units of a SIMD are free.
#[derive(Clone, Copy, Debug, Default)]
struct Simd {
    vector: u64,
    matrix: u64,
    scalar: u64,
    lds: u64,
    memory: u64,
}

/// A workgroup on its compute unit.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    waves: Vec<Wave>,
    simds: [Simd; SIMDS],
    lds: u64,
    memory: u64,
}

impl Shared {
    /// Waves that begin together.
    pub fn new(waves: usize) -> Shared {
        Shared { waves: vec![Wave::default(); waves], simds: [Simd::default(); SIMDS], lds: 0, memory: 0 }
    }

    /// A wave issues an instruction, to which conflicts add so many cycles of LDS.
    pub fn issue(&mut self, chip: Chip, wave: usize, inst: &Inst, conflicts: u64) {
        let mut work = Costs::of(chip).work(inst);
        work.hold += conflicts;
        let effect = match &inst.op {
            Op::Program(_, Program::Wait(w)) => {
                let (vm, _, lgkm) = crate::decode::wait_counts(*w);
                Effect::Wait { vm, lgkm }
            }
            Op::Program(_, Program::Priority(to)) => Effect::Priority(*to),
            Op::Smem(_) => Effect::Load,
            _ => Effect::None,
        };
        self.waves[wave].steps.push(Step { work, effect });
    }

    /// All waves are at a barrier.
    pub fn barrier(&mut self) {
        self.replay();
        let latest = self.waves.iter().map(|w| w.ready).max().unwrap_or(0);
        self.waves.iter_mut().for_each(|w| w.ready = latest);
    }

    /// All waves have ended: when.
    pub fn end(&mut self) -> u64 {
        self.replay();
        let waves = self.waves.iter().map(|w| w.ready);
        waves.chain(self.simds.iter().map(|s| s.matrix)).max().unwrap_or(0)
    }

    /// When a wave could issue its next instruction, if it has one.
    fn time(&self, at: usize) -> Option<u64> {
        let (wave, simd) = (&self.waves[at], &self.simds[at % SIMDS]);
        let free = match wave.steps.get(wave.next)?.work.unit {
            Unit::Vector => simd.vector,
            Unit::Matrix => simd.vector.max(simd.matrix),
            Unit::Scalar => simd.scalar,
            Unit::Lds => simd.lds,
            Unit::Memory => simd.memory,
            Unit::None => 0,
        };
        Some(wave.ready.max(free))
    }

    /// Issues what waves have issued since the last barrier.
    fn replay(&mut self) {
        let mut times: Vec<Option<u64>> = (0..self.waves.len()).map(|at| self.time(at)).collect();
        loop {
            let first = (0..times.len()).filter_map(|at| Some((times[at]?, u8::MAX - self.waves[at].priority, at))).min();
            let Some((now, _, at)) = first else { break };
            self.step(at, now);
            // Others of the SIMD may have lost a unit.
            for other in (at % SIMDS..times.len()).step_by(SIMDS) {
                times[other] = self.time(other);
            }
        }
        for wave in &mut self.waves {
            wave.steps.clear();
            wave.next = 0;
        }
    }

    fn step(&mut self, at: usize, now: u64) {
        let (wave, simd) = (&mut self.waves[at], &mut self.simds[at % SIMDS]);
        let Step { work, effect } = wave.steps[wave.next];
        wave.next += 1;
        wave.ready = now + work.issue;
        match work.unit {
            Unit::Vector => simd.vector = now + work.hold,
            Unit::Matrix => {
                simd.vector = now + work.issue;
                simd.matrix = now + work.hold;
            }
            Unit::Scalar => simd.scalar = now + work.hold,
            Unit::Lds => {
                simd.lds = now + work.issue;
                self.lds = self.lds.max(now) + work.hold;
                wave.lgkm.push_back(self.lds);
            }
            Unit::Memory => {
                simd.memory = now + work.issue;
                self.memory = self.memory.max(now) + work.hold;
                wave.vm.push_back(self.memory);
            }
            Unit::None => {}
        }
        match effect {
            Effect::None => {}
            Effect::Wait { vm, lgkm } => {
                for (flight, left) in [(&mut wave.vm, vm), (&mut wave.lgkm, lgkm)] {
                    while flight.len() > usize::from(left) {
                        wave.ready = wave.ready.max(flight.pop_front().unwrap_or(0));
                    }
                }
            }
            Effect::Priority(to) => wave.priority = to,
            Effect::Load => wave.lgkm.push_back(wave.ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: Step = Step { work: Work { unit: Unit::Matrix, issue: 4, hold: 32 }, effect: Effect::None };
    const READ: Step = Step { work: Work { unit: Unit::Lds, issue: 4, hold: 8 }, effect: Effect::None };
    const fn own(effect: Effect) -> Step {
        Step { work: Work { unit: Unit::None, issue: 4, hold: 0 }, effect }
    }

    fn run(waves: &[Vec<Step>]) -> Shared {
        let mut shared = Shared::new(waves.len());
        for (wave, steps) in shared.waves.iter_mut().zip(waves) {
            wave.steps.clone_from(steps);
        }
        shared
    }

    #[test]
    fn waves_of_a_simd_share_its_matrix_core_and_others_do_not() {
        let alone = vec![PRODUCT; 4];
        assert_eq!(run(std::slice::from_ref(&alone)).end(), 4 * 32);
        assert_eq!(run(&vec![alone.clone(); 4]).end(), 4 * 32);
        assert_eq!(run(&vec![alone; 8]).end(), 8 * 32);
    }

    #[test]
    fn reads_of_all_simds_follow_one_another_and_waits_last_until_they_are_done() {
        let reads = vec![READ, READ, own(Effect::Wait { vm: 63, lgkm: 0 }), PRODUCT];
        // The first of the four waits for 5 of 8 reads, the last one for all.
        assert_eq!(run(&vec![reads; 4]).end(), 8 * 8 + 32);
        let one_left = vec![READ, READ, own(Effect::Wait { vm: 63, lgkm: 1 }), PRODUCT];
        assert_eq!(run(&[one_left]).end(), 12 + 32);
    }

    #[test]
    fn the_wave_of_higher_priority_goes_first() {
        // Wave 4 is raised, and has its products behind it when wave 0 has its first one.
        let mut raised = vec![own(Effect::Priority(1))];
        raised.extend([PRODUCT; 3]);
        let mut waves = vec![vec![own(Effect::None)]; 5];
        waves[0].extend([PRODUCT; 3]);
        waves[4] = raised;
        let mut shared = run(&waves);
        shared.barrier();
        // Both began at 4; the last of wave 0 begins behind five others, and the barrier is as late as it.
        assert_eq!(shared.waves[4].ready, 4 + 5 * 32 + 4);
        waves[0].push(own(Effect::None));
        waves[4][0] = own(Effect::None);
        assert_eq!(run(&waves).end(), 4 + 6 * 32);
    }

    #[test]
    fn waves_that_are_shifted_read_while_others_multiply() {
        // In step: all read, then all multiply. A phase apart, the reads of one half are done beside the products of the other one.
        let reads = [vec![READ; 8], vec![own(Effect::Wait { vm: 63, lgkm: 0 })]].concat();
        let products = vec![PRODUCT; 8];
        let phases = |shift: bool| {
            let mut shared = Shared::new(8);
            for phase in 0..9 {
                for (at, wave) in shared.waves.iter_mut().enumerate() {
                    let at = if shift && at >= 4 { phase - 1 } else { phase };
                    if (0..8).contains(&at) {
                        wave.steps = if at % 2 == 0 { reads.clone() } else { products.clone() };
                    }
                }
                shared.barrier();
            }
            shared.end()
        };
        let busy = 2 * 4 * 8 * 32;
        assert!(phases(true) < busy + 2 * (4 * 8 * 8 + 32), "{}", phases(true));
        assert!(phases(false) > busy + 4 * 8 * 8 * 8 - 8 * 32, "{}", phases(false));
    }
}
