//! Registers that values take, on machines with registers in which lanes do not compute.
//!
//! ```text
//! sums of products, operands as they are loaded     in either file
//! all else, and operands that are loaded in parts of words, each in a register of its own until words are made of them     where lanes compute
//! ```

use super::prices::Prices;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Inst, Op, Value, ValueDef};
use tilelift_schedule::transfers::pieces;

/// Registers for addresses, loop counts and what the assembler needs for itself.
const KEPT: u32 = 48;
/// Lanes of a program of which each may have all registers there are.
const LANES_OF_ALL: u64 = 256;

impl Prices<'_> {
    /// Registers for tiles: all, and those in which lanes compute. Programs of many lanes share what there is.
    pub(super) fn room(&self) -> [u64; 2] {
        let t = self.target;
        let all = u64::from(t.registers);
        let shared = if t.computing < t.registers { all.min(all * LANES_OF_ALL / (self.warps() * u64::from(t.lanes)).max(1)) } else { all };
        [shared, shared.min(t.computing.into())].map(|n| n.saturating_sub(KEPT.into()))
    }

    /// Registers that a value of so many words takes: all, and those in which lanes compute.
    pub(super) fn held_by(&self, v: Value, layout: &Layout, words: u64) -> [u64; 2] {
        if self.target.computing == self.target.registers {
            return [words, 0];
        }
        let ValueDef::Result(i, _) = self.kernel.values[v].def else { return [words, self.of_lanes(v, words)] };
        if self.kernel.insts[i].op == Op::Load
            && let Some([bytes, count]) = pieces(self.kernel, self.target, i, layout)
            && bytes < 4
        {
            return [count.into(); 2];
        }
        [words, self.of_lanes(v, words)]
    }

    /// The words of a value, if lanes compute with it.
    fn of_lanes(&self, v: Value, words: u64) -> u64 {
        if self.is_sum(v) || self.is_spread(v) || self.is_operand(v) { 0 } else { words }
    }

    fn is_product(&self, i: Inst) -> bool {
        self.kernel.insts[i].op.factors().is_some()
    }

    /// A sum of products, or what a loop carries of one.
    fn is_sum(&self, v: Value) -> bool {
        let kernel = self.kernel;
        match kernel.values[v].def {
            ValueDef::Result(i, n) => {
                let d = &kernel.insts[i];
                let carried =
                    d.op == Op::For && d.regions.iter().any(|&r| kernel.yields(r).get(n as usize).is_some_and(|&y| self.is_sum(y)));
                self.is_product(i) || carried
            }
            ValueDef::RegionParam(r, n) => {
                // In front of what is carried is what counts.
                let (yields, params) = (kernel.yields(r), kernel.regions[r].params.len());
                let at = (n as usize + yields.len()).checked_sub(params);
                at.and_then(|at| kernel.def_inst(*yields.get(at)?)).is_some_and(|i| self.is_product(i))
            }
            ValueDef::KernelParam(_) => false,
        }
    }

    /// A value that many elements have alike, which registers hold once.
    fn is_spread(&self, v: Value) -> bool {
        self.kernel.def_inst(v).is_some_and(|i| matches!(self.kernel.insts[i].op, Op::Splat | Op::Broadcast | Op::Iota))
    }

    /// What products take as it was loaded.
    fn is_operand(&self, v: Value) -> bool {
        let users = &self.plain.users[v];
        let moved = |i: Inst| {
            matches!(self.kernel.insts[i].op, Op::Transpose | Op::Reshape)
                && self.kernel.insts[i].results.iter().all(|&r| self.is_operand(r))
        };
        let loaded = |i: Inst| matches!(self.kernel.insts[i].op, Op::Load | Op::Transpose | Op::Reshape);
        self.kernel.def_inst(v).is_some_and(loaded) && !users.is_empty() && users.iter().all(|&i| self.is_product(i) || moved(i))
    }
}
