//! What steps of a loop take two wavefronts that share a SIMD, while those of the three other SIMDs do the same: issue slots, by replaying them.
//!
//! Each wavefront issues in order, one instruction a slot. The SIMD's vector unit and matrix unit take one at a time; local data share has a queue, and takes those of the
//! four SIMDs one after the other. A wavefront waits for what it loaded from local data share where it computes with it, and for all it has there in front of a barrier, where it waits for the
//! other wavefront, too. Memory is taken to be as far ahead as it must be.

use super::class::{Class, class};
use super::graph::{costs, memory};
use super::latency;
use crate::chip::Chip;
use crate::isa::{Access, Format, Kind, Opcode};
use crate::mir::{Block, Inst, Operand, Program, Reg, VReg};
use rustc_hash::FxHashMap;

/// SIMDs of a compute unit.
const SIMDS: u32 = 4;
/// Steps that are replayed: those behind the first ones are counted.
const STEPS: [u32; 2] = [2, 6];

/// The unit that an instruction goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IssueUnit {
    /// The matrix unit, for so many slots.
    Matrix(u32),
    Vector,
    /// Local data share, for so many slots.
    Shared(u32),
    Barrier,
    Other,
}

/// An instruction: its unit, registers that it reads, and one that it loads from local data share.
struct ReplayStep {
    unit: IssueUnit,
    reads: Vec<VReg>,
    loads: Option<VReg>,
}

impl ReplayStep {
    fn of(inst: &Inst, chip: Chip) -> ReplayStep {
        let shares = inst.op.desc().form.format == Format::Ds && memory(inst) != ([false; 2], [false; 2]);
        let unit = match class(inst, chip) {
            _ if inst.op == Opcode::SBarrier => IssueUnit::Barrier,
            _ if shares => IssueUnit::Shared(data_words(inst).div_ceil(2)),
            Class::Matrix(..) => IssueUnit::Matrix(costs(inst, chip).1),
            Class::Vector => IssueUnit::Vector,
            Class::Memory | Class::Scalar => IssueUnit::Other,
        };
        let registers = |wanted: fn(Access) -> bool| {
            let all = inst.operands.iter().zip(inst.op.desc().slots).filter(move |(_, slot)| wanted(slot.access));
            all.filter_map(|(operand, _)| match operand {
                Operand::Reg(span) => match span.reg {
                    Reg::Virtual(reg) => Some(reg),
                    Reg::Physical(..) | Reg::Fixed(_) => None,
                },
                Operand::Imm(_) | Operand::Block(_) | Operand::Off => None,
            })
        };
        let loads = if shares { registers(|a| a != Access::Use).next() } else { None };
        ReplayStep { unit, reads: registers(|a| a != Access::Def).collect(), loads }
    }
}

/// Words of data that a lane loads or stores: local data share takes two of a wavefront's in a slot.
fn data_words(inst: &Inst) -> u32 {
    let data = inst.operands.iter().zip(inst.op.desc().slots).filter(|(_, slot)| slot.kind == Kind::VectorOrAcc);
    let words = data.filter_map(|(operand, _)| if let Operand::Reg(span) = operand { Some(u32::from(span.words)) } else { None });
    words.sum()
}

/// A wavefront on its way.
#[derive(Default)]
struct ReplayWave {
    at: usize,
    /// When it could issue its next instruction.
    ready: u32,
    /// When it came to each barrier, and whether it waits at the newest one.
    met: Vec<u32>,
    waits: bool,
    /// When what it has in local data share is done, and what it loaded from there is here.
    done: u32,
    here: FxHashMap<VReg, u32>,
}

/// Slots that a step of a loop takes, which goes through these blocks; halves are in step, or the second one is one barrier behind.
pub(super) fn slots(program: &Program, way: &[Block], apart: bool) -> u32 {
    let insts = way.iter().flat_map(|&block| &program.blocks[block].insts);
    let steps: Vec<ReplayStep> = insts.map(|inst| ReplayStep::of(inst, program.chip)).collect();
    let [few, many] = STEPS.map(|count| replayed(&steps, count, apart));
    (many - few) / (STEPS[1] - STEPS[0])
}

fn replayed(steps: &[ReplayStep], count: u32, apart: bool) -> u32 {
    let total = steps.len() * count as usize;
    let mut waves = [ReplayWave::default(), ReplayWave::default()];
    if apart {
        // It waits once more in front of the loop.
        (waves[1].met, waves[1].waits) = (vec![0], true);
    }
    let (mut vector, mut matrix, mut shared) = (0, 0, 0);
    loop {
        for at in [0, 1] {
            let (own, other) = (&waves[at], &waves[1 - at]);
            // A barrier is over when the other one has come there, too, or is beyond the loop.
            let there = other.met.get(own.met.len().saturating_sub(1)).copied();
            let there = there.or((other.at >= total && !other.waits).then_some(other.ready));
            if let Some(when) = there.filter(|_| own.waits) {
                let own = &mut waves[at];
                (own.ready, own.waits) = (own.ready.max(when), false);
            }
        }
        let time = |wave: &ReplayWave| {
            let step = steps.get(wave.at % steps.len().max(1)).filter(|_| wave.at < total && !wave.waits)?;
            let operands = step.reads.iter().filter_map(|reg| wave.here.get(reg)).copied().max().unwrap_or(0);
            let free = match step.unit {
                IssueUnit::Matrix(_) => vector.max(matrix),
                IssueUnit::Vector => vector,
                IssueUnit::Barrier => wave.done,
                IssueUnit::Shared(_) | IssueUnit::Other => 0,
            };
            Some(wave.ready.max(operands).max(free))
        };
        let Some((now, at)) = (0..2).filter_map(|at| Some((time(&waves[at])?, at))).min() else { break };
        let wave = &mut waves[at];
        let step = &steps[wave.at % steps.len()];
        wave.at += 1;
        wave.ready = now + 1;
        match step.unit {
            IssueUnit::Matrix(busy) => (vector, matrix) = (now + 1, now + busy),
            IssueUnit::Vector => vector = now + 1,
            IssueUnit::Shared(taken) => {
                shared = now.max(shared) + SIMDS * taken;
                wave.done = shared + latency::LDS;
                if let Some(reg) = step.loads {
                    wave.here.insert(reg, wave.done);
                }
            }
            IssueUnit::Barrier => {
                wave.met.push(wave.ready);
                wave.waits = true;
            }
            IssueUnit::Other => {}
        }
    }
    waves.iter().map(|wave| wave.ready).max().unwrap_or(0).max(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(unit: IssueUnit) -> ReplayStep {
        ReplayStep { unit, reads: Vec::new(), loads: None }
    }

    fn steps(units: &[(IssueUnit, usize)]) -> Vec<ReplayStep> {
        units.iter().flat_map(|&(unit, count)| (0..count).map(move |_| step(unit))).collect()
    }

    fn each(steps: &[ReplayStep], apart: bool) -> u32 {
        (replayed(steps, 6, apart) - replayed(steps, 2, apart)) / 4
    }

    #[test]
    fn two_wavefronts_share_the_matrix_unit() {
        let products = steps(&[(IssueUnit::Matrix(8), 10)]);
        assert_eq!((each(&products, false), each(&products, true)), (160, 160));
    }

    /// In step, all load and all multiply: of 16 loads of 4 slots and the last one's latency, only the last product hides some slots. A stretch apart, all are hidden.
    #[test]
    fn what_is_loaded_beside_products_takes_no_time() {
        let body = steps(&[(IssueUnit::Shared(1), 8), (IssueUnit::Barrier, 1), (IssueUnit::Matrix(8), 20), (IssueUnit::Barrier, 1)]);
        let busy = 2 * 20 * 8;
        let exposed = each(&body, false) - busy;
        assert!((64 + latency::LDS - 8..=64 + latency::LDS).contains(&exposed), "{exposed}");
        assert!((busy..busy + 8).contains(&each(&body, true)), "{}", each(&body, true));
    }

    #[test]
    fn products_wait_for_what_they_read() {
        let reg = VReg::from_u32(3);
        let mut body = steps(&[(IssueUnit::Shared(1), 1), (IssueUnit::Matrix(8), 1), (IssueUnit::Barrier, 1)]);
        body[0].loads = Some(reg);
        body[1].reads.push(reg);
        // Of two loads of four slots each, the later one.
        assert!(each(&body, false) >= 8 + latency::LDS);
        body[1].reads.clear();
        body.pop();
        assert_eq!(each(&body, false), 16);
    }
}
