//! How products of warpgroups find their operands and accumulators in registers.
//!
//! ```text
//! accumulators of M x N, G warpgroups, instructions of m rows:   rows m(g + G r) to m(g + G r) + m - 1 belong to group g, repetition r
//! ```

use super::Lower;
use super::location::Tile;
use crate::layout::dot_plan::DotPlan;
use std::collections::BTreeMap;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_lane::{BinOp, GroupMatrix, LTy, LVal, LaneBuilder, Special, Vals};
use tilelift_schedule::LowerError;
use tilelift_schedule::reason::Unsupported;

impl Lower<'_> {
    /// The number of the lane's group among the consumers.
    pub(super) fn group_number(&self, b: &mut LaneBuilder) -> LVal {
        let warps = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        let warp = b.special(Special::Warp);
        let shift = b.i32(i64::from(warps.trailing_zeros()));
        b.bin(BinOp::ShrU, warp, shift)
    }
}

/// The words of each fragment of an operand A in registers, by its first row, in the first group, and its first column.
pub(super) fn a_words(
    b: &mut LaneBuilder,
    held: &Tile,
    plan: &DotPlan,
    row: &GroupMatrix,
) -> Result<BTreeMap<(u32, u32), Vals>, LowerError> {
    let Some(map) = &row.a else {
        return Err(Unsupported::RegisterA(row.name).into());
    };
    let per_word = (4 / row.operand.bytes()).max(1) as usize;
    let mut fragments = BTreeMap::new();
    for first in (0..plan.a.size(Axis::Reg)).step_by(1 << map.reg.len()) {
        let regs = &held.regs[first as usize..][..1 << map.reg.len()];
        let words: Vals =
            regs.chunks(per_word).map(|part| if per_word == 1 { b.bitcast(part[0], LTy::B32) } else { b.pack_computed(part) }).collect();
        let at = plan.a.reg_coord(first);
        fragments.entry((at[0], at[1])).or_insert(words);
    }
    Ok(fragments)
}

/// The registers of each repetition of a group's rows, in the order in which the instruction lists them.
pub(super) fn shares(layout: &Layout, row: &GroupMatrix, consumers: u32) -> Vec<Vec<u32>> {
    let (step, width) = (row.m * consumers, row.d.shape[1]);
    let columns: Vec<[u32; 2]> = row.d.reg.iter().map(|column| [column[0], column[1]]).collect();
    let place = |(r, (i, j)): (usize, (u32, u32))| {
        // Inside the fragment, registers count by the table's bits.
        let bits = columns.iter().enumerate().fold(0, |n, (bit, &[row, column])| {
            let on = (row == 0 || (i % step) & row != 0) && (column == 0 || (j % width) & column != 0);
            n | u32::from(on) << bit
        });
        ([i / step, j / width, bits], r as u32)
    };
    let mut places: Vec<([u32; 3], u32)> =
        layout.registers_along(0).into_iter().zip(layout.registers_along(1)).enumerate().map(place).collect();
    places.sort_unstable();
    places.chunk_by(|a, b| a.0[0] == b.0[0]).map(|list| list.iter().map(|&(_, r)| r).collect()).collect()
}
