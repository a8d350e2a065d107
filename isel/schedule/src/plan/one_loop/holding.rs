//! What lanes hold in registers: how many each has, sets that take steps in turns, and what goes to shared memory so that the rest fits.

use super::asked::{Asked, GroupProduct};
use super::groups::Groups;
use crate::plan::brought::{shared_as_quick, used_only_by};
use crate::plan::budget::{BESIDE_ACCUMULATORS, Held, budget, loaded_behind};
use crate::plan::copied::{behind, in_ring};
use crate::plan::late_products::Late;
use crate::plan::overlap::Overlap;
use crate::plan::pressure::pressure;
use crate::plan::products::{BroughtOperand, a_from_registers, accumulator_shape, invariant, operand_registers};
use crate::plan::step_order::{StepPart, in_place, step_order};
use crate::reason::NotSpecialised;
use cranelift_entity::EntityRef;
use tilelift_ir::{Inst, Value};
use tilelift_lane::Registers;

/// Registers of a lane that warps of the producer and of the consumers have; `None` where they keep what they start with.
type RoleRegisters = Option<[u32; 2]>;

/// What is decided.
pub(super) struct Holding {
    /// Sets that take steps in turns.
    pub slices: u32,
    /// Groups of warps that consume, and warps of the program.
    pub groups: u32,
    pub warps: u32,
    pub registers: RoleRegisters,
    /// What is brought in front of the loop.
    pub brought: Vec<BroughtOperand>,
    /// Registers of a lane for all accumulators, and for those of the last product of each chain.
    pub accumulators: u32,
    last: u32,
}

impl Holding {
    /// Also says which products run while lanes compute: none, where registers do not hold that.
    pub fn of(g: &Groups<'_>, mut parts: Option<Overlap>) -> Result<(Holding, Option<Overlap>), NotSpecialised> {
        let Asked { kernel, target, units, options, main, written, facts, .. } = g.sharing.asked;
        let shape = |i: Inst| accumulator_shape(kernel, i).map(|s| s[0] * s[1]);
        let accumulators = facts.dots.iter().filter_map(|&(i, _)| Some(shape(i)? / g.lanes_of(Some(i)))).sum::<u32>();
        let last = facts.last.iter().filter_map(|&i| Some(shape(i)? / g.lanes)).sum::<u32>();
        let transposers = u32::from(!facts.transposed_b.is_empty());
        let each = g.consumer_sets * g.consumers;
        let warps_of = |slices: u32| (each * slices + 1 + transposers) * units.group_warps;
        let mut h = Holding { slices: 1, groups: each, warps: 0, registers: None, brought: Vec::new(), accumulators, last };
        let share_of_groups = |h: &Holding, groups: u32, brought: &[BroughtOperand]| {
            let a = facts.register_a.iter().map(|&i| operand_registers(kernel, kernel.insts[i].args[0], g.lanes)).sum::<u32>();
            let held = h.beside_computing(g, brought) + a;
            let held = Held { copied: facts.pieces, ..Held::summed(held, loaded_behind(kernel, main, g.lanes)) };
            budget(target, units, [groups, transposers], held)
        };
        // As many sets as there are registers for: what one waits for, the others have the time to compute.
        let held_by = |&n: &u32| warps_of(n) <= target.max_warps && share_of_groups(&h, each * n, &g.needed).is_ok();
        let slices = (2..=g.most_slices).rev().find(held_by).unwrap_or(g.most_slices.min(2));
        (h.slices, h.groups, h.warps) = (slices, each * slices, warps_of(slices));
        if h.warps > target.max_warps {
            return Err(NotSpecialised::TooManyWarps { warps: h.warps, most: target.max_warps, target: target.name });
        }
        let with = |h: &Holding, all: u32, spare: u32| {
            let held = Held { all, spare, beside: loaded_behind(kernel, main, g.lanes), copied: facts.pieces };
            budget(target, units, [h.groups, transposers], held)
        };
        let one_step = |h: &Holding, brought: &[BroughtOperand]| with(h, most_held(g, brought), 0);
        // Of a loop that is taken apart: what all its products hold at once. Lanes compute in place of that.
        let at_once = |h: &Holding, brought: &[BroughtOperand]| {
            let all = h.accumulators + h.operands_a(g, brought);
            with(h, all, BESIDE_ACCUMULATORS).or_else(|_| with(h, all, BESIDE_ACCUMULATORS / 2))
        };
        // Where lanes are the longer half, they don't load what bulk copies bring meanwhile, and pass it through shared memory to the registers of products.
        // Elsewhere products are quicker with it there.
        let mut brought = g.needed.clone();
        if parts.as_ref().is_some_and(|p| p.hold) && !g.sharing.persistent {
            let as_quick = |&(i, q): &GroupProduct| shared_as_quick(target, &units.matrix[q.index()], accumulator_shape(kernel, i));
            let quick: Vec<GroupProduct> = facts.dots.iter().copied().filter(as_quick).collect();
            for a in invariant(kernel, units, (main, written), &quick, &g.loads, 0) {
                if brought.iter().all(|b| b.value != a.value) && used_only_by(kernel, a.value, &quick) {
                    brought.push(a);
                }
            }
        }
        h.registers = match share_of_groups(&h, h.groups, &brought) {
            Ok(registers) => registers,
            Err(why) => {
                // At one grid position, once: nobody has to wait until what was brought before is read.
                if !g.sharing.persistent {
                    let stored = |a: &BroughtOperand| facts.dots.iter().any(|d| g.stored(d.0, a.value));
                    for a in invariant(kernel, units, (main, written), &facts.dots, &g.loads, 0) {
                        if brought.iter().all(|b| b.value != a.value) && !stored(&a) {
                            brought.push(a);
                        }
                    }
                }
                match share_of_groups(&h, h.groups, &brought) {
                    Ok(registers) => registers,
                    Err(_) => match parts.as_ref().map(|_| at_once(&h, &brought)) {
                        Some(Ok(registers)) => registers,
                        _ if facts.mixed && options.overlap != Some(true) => {
                            parts = None;
                            one_step(&h, &brought).map_err(|_| why)?
                        }
                        _ => return Err(why),
                    },
                }
            }
        };
        h.brought = brought;
        Ok((h, parts))
    }

    /// Registers that a lane of the consumers has.
    pub fn have(&self, g: &Groups<'_>) -> u32 {
        let Asked { target, units, .. } = g.sharing.asked;
        self.registers.map_or(Registers::of(target, units, self.warps).entry, |r| r[1])
    }

    /// True for an operand A that is in shared memory without the ring.
    pub fn stored_or_brought(&self, g: &Groups<'_>, product: Inst, v: Value) -> bool {
        g.stored(product, v) || self.brought.iter().any(|b| b.value == v)
    }

    /// Registers of operands A, where so much is brought.
    pub fn operands_a(&self, g: &Groups<'_>, brought: &[BroughtOperand]) -> u32 {
        let elsewhere = |i: Inst, v: Value| g.stored(i, v) || brought.iter().any(|b| b.value == v);
        a_from_registers(g.sharing.asked.kernel, &g.sharing.asked.facts.dots, &g.loads, &elsewhere, &|i| g.lanes_of(i))
    }

    /// Registers of accumulators and operands A, where so much is brought. What stands between the products of a loop that computes takes as much beside
    /// them as addresses and the epilogue do.
    pub fn beside_computing(&self, g: &Groups<'_>, brought: &[BroughtOperand]) -> u32 {
        match (g.sharing.asked.facts.mixed, g.sharing.promoted) {
            (true, _) => self.accumulators + self.operands_a(g, brought) + BESIDE_ACCUMULATORS,
            (false, true) => self.accumulators + self.last,
            (false, false) => self.last,
        }
    }

    /// Registers of the sums that the loop leaves.
    pub fn sums(&self) -> u32 {
        self.last
    }
}

/// Registers of a lane, most at any point of a step in this order.
pub(super) fn held_in(g: &Groups<'_>, brought: &[BroughtOperand], order: &[StepPart], late: Option<&Late>) -> u32 {
    let kernel = g.sharing.asked.kernel;
    let in_ring = |v: Value| kernel.def_inst(v).is_some_and(|i| in_ring(kernel, &g.loads, i));
    let elsewhere = |v: Value| in_ring(v) || brought.iter().any(|b| b.value == v || behind(kernel, b.value, v));
    let (lanes_of, stored) = (|i: Option<Inst>| g.lanes_of(i), |i: Inst, v: Value| g.stored(i, v));
    pressure(kernel, g.sharing.asked.region(), order, &lanes_of, g.sharing.promoted, late, (&elsewhere, &stored))
}

/// The same, of a step none of whose products reaches into the next one.
pub(super) fn most_held(g: &Groups<'_>, brought: &[BroughtOperand]) -> u32 {
    let Asked { kernel, written, .. } = g.sharing.asked;
    let (region, computed) = (g.sharing.asked.region(), |i: Inst| g.computed(i));
    let order = match g.sharing.promoted {
        true => in_place(kernel, region, &computed),
        false => step_order(kernel, region, written, &computed),
    };
    held_in(g, brought, &order, None)
}
