//! How groups of warps may share the products of a loop.

use super::asked::{Asked, GroupProduct};
use crate::plan::brought::narrowed;
use crate::plan::options::LowerOptions;
use crate::plan::overlap::{Overlap, overlap};
use crate::plan::products::{BroughtOperand, accumulator_shape, column_share, invariant};
use crate::plan::replay::Replay;
use crate::plan::rounds::at_most_once;
use crate::plan::shares::{Copies, cheaper, copies};
use crate::plan::staged::{StagedOperand, from_ring, in_rows, staged_operands};
use crate::reason::NotOverlapped;
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::GroupMatrixId;

/// How they may.
pub(super) struct Sharing<'a> {
    pub asked: Asked<'a>,
    /// Rows and columns of the products.
    pub accumulators: Vec<[u32; 2]>,
    /// The most rows of a matrix instruction.
    pub rows: u32,
    /// Accumulators that lanes add to beside the instruction are there twice.
    pub promoted: bool,
    /// Groups of a loop that computes, if it has more than one.
    pub several: u32,
    /// What each of so many computes by itself.
    pub copied: Copies,
    /// An instance runs several grid positions.
    pub persistent: bool,
    /// The loop runs more than once, or may.
    pub repeated: bool,
}

impl<'a> Sharing<'a> {
    pub fn of(asked: Asked<'a>) -> Sharing<'a> {
        let Asked { kernel, target, units, options, facts, .. } = asked;
        let dots = &facts.dots;
        let accumulators = dots.iter().filter_map(|&(i, _)| accumulator_shape(kernel, i)).collect();
        let rows = dots.iter().map(|&(_, q)| units.matrix[q.index()].m).max().unwrap_or(1);
        let promoted = dots.iter().any(|&(_, q)| units.matrix[q.index()].promotion_depth.is_some());
        // Groups of a loop that computes share columns where there are too few rows. What stands behind an operand A of such a product each may compute.
        let several = options.consumers.unwrap_or(2).max(2);
        let by_inst: BTreeMap<Inst, GroupMatrixId> = dots.iter().copied().collect();
        let by_itself = dots.iter().all(|&(i, _)| from_ring(kernel, &facts.loads, kernel.insts[i].args[1]));
        let copied = match facts.mixed {
            true => copies(kernel, units, &by_inst, several, &|i, slice| cheaper(kernel, target, &by_inst, (i, slice, by_itself), several)),
            false => Copies::default(),
        };
        let persistent = persistent_positions(kernel, options, facts.mixed, &facts.replay, &facts.around);
        let repeated = persistent || !facts.around.is_empty();
        Sharing { asked, accumulators, rows, promoted, several, copied, persistent, repeated }
    }

    /// True if so many groups share the rows of all products.
    pub fn by_rows(&self, groups: u32) -> bool {
        self.accumulators.iter().all(|s| s[0].is_multiple_of(groups * self.rows))
    }

    /// Parts of the columns of a product that so many groups take.
    pub fn across(&self, (i, q): GroupProduct, groups: u32) -> Option<u32> {
        let Asked { kernel, units, .. } = self.asked;
        let (row, shape) = (&units.matrix[q.index()], accumulator_shape(kernel, i)?);
        if groups == self.several { self.copied.shares(row, i, shape, groups) } else { row.shares(shape, groups) }.map(|s| s[1])
    }

    /// The load of operand B whose columns so many groups share, and the bytes of a group's part of a row.
    pub fn share_of(&self, d: GroupProduct, groups: u32) -> Option<(Inst, u32)> {
        column_share(self.asked.kernel, d.0, self.across(d, groups)?, &self.asked.facts.loads)
    }

    /// True if so many groups share all products, by rows or by columns that are whole swizzle atoms.
    pub fn split(&self, groups: u32) -> bool {
        let least = self.asked.units.bulk.swizzles.iter().copied().min().unwrap_or(0);
        let atoms = |d: GroupProduct| self.share_of(d, groups).is_none_or(|s| s.1 >= least);
        self.asked.facts.dots.iter().all(|&d| self.across(d, groups).is_some() && atoms(d))
    }

    /// What is brought in front of the loop, and what lanes store in each step, for so many groups.
    pub fn given(&self, groups: u32) -> (Vec<BroughtOperand>, Vec<StagedOperand>) {
        let Asked { kernel, units, written, main, facts, .. } = self.asked;
        let (loads, dots) = (&facts.loads, &facts.dots);
        let columns = |d: GroupProduct| self.across(d, groups).unwrap_or(1);
        // Operand A that lanes would store.
        let not_held = |d: &GroupProduct| columns(*d) > 1 || !in_rows(kernel, kernel.insts[d.0].args[0]);
        let rows = |n: usize| if n == 1 { dots.clone() } else { dots.iter().copied().filter(not_held).collect::<Vec<_>>() };
        let brought: Vec<BroughtOperand> = match self.persistent {
            true => Vec::new(),
            false => {
                let mut all = invariant(kernel, units, (main, written), &rows(1), loads, 1);
                for a in invariant(kernel, units, (main, written), &rows(0), loads, 0) {
                    if all.iter().all(|b| b.value != a.value) {
                        all.push(a);
                    }
                }
                all.iter_mut().for_each(|b| narrowed(kernel, units, b, dots, &columns));
                all
            }
        };
        let elsewhere = |v: Value| from_ring(kernel, loads, v) || brought.iter().any(|b| b.value == v);
        let whole = |i: Inst| groups == self.several && self.copied.readers.contains(&i);
        let staged = staged_operands(kernel, units, self.asked.region(), dots, &elsewhere, (&columns, &whole));
        (brought, staged)
    }

    /// The products of a step that run while lanes compute for the others, where lanes store these operands.
    ///
    /// # Errors
    /// Why none do.
    pub fn taken_apart(&self, staged: &[StagedOperand]) -> Result<Option<Overlap>, NotOverlapped> {
        let Asked { kernel, target, options, main, facts, .. } = self.asked;
        match (facts.mixed && !self.promoted, options.overlap) {
            (false, Some(true)) => Err(NotOverlapped::OneAccumulator),
            (false, _) | (true, Some(false)) => Ok(None),
            // There is no step behind the first one.
            (true, None) if at_most_once(kernel, main) => Ok(None),
            (true, _) => overlap(kernel, target, main, &self.products(), &facts.loads, staged).map(Some),
        }
    }

    pub fn products(&self) -> Vec<Inst> {
        self.asked.facts.dots.iter().map(|d| d.0).collect()
    }
}

/// True where an instance runs several grid positions. Positions that take long drift apart where nothing deals them out, and no longer share what is in
/// the cache; tiles that tasks need are computed in front of them, for one position.
fn persistent_positions(kernel: &Kernel, options: &LowerOptions, mixed: bool, replay: &Replay, around: &[Inst]) -> bool {
    let repeated = around.iter().any(|&i| kernel.insts[i].op == Op::For);
    options.persistent.unwrap_or(!mixed && !replay.tiles && !repeated)
}
