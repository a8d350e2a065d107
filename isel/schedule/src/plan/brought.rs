//! Operands from in front of a specialised loop that are brought to shared memory: where that pays, and how they lie.

use super::products::{BroughtOperand, accumulator_shape, column_share};
use super::results::transposed;
use super::tensor_boxes::SwizzledTile;
use super::views::{behind_reshapes, trace};
use std::collections::BTreeMap;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::{GroupMatrix, GroupMatrixId, Target, Units};

/// True where a product takes no longer with its operand A in shared memory than in registers.
pub(super) fn shared_as_quick(target: &Target, row: &GroupMatrix, shape: Option<[u32; 2]>) -> bool {
    let c = &target.costs;
    let n = u64::from(shape.map_or(0, |s| s[1]));
    u64::from(row.m) * u64::from(row.k) * n * c.group_product / 1024 >= c.group_operands[0] + c.group_operands[1] * n
}

/// Narrows the swizzle of an operand B whose columns groups share: each has whole swizzle atoms.
pub(super) fn narrowed(
    kernel: &Kernel,
    units: &Units,
    b: &mut BroughtOperand,
    dots: &[(Inst, GroupMatrixId)],
    columns: &dyn Fn((Inst, GroupMatrixId)) -> u32,
) {
    let tile = [(b.load, b.tile.clone())];
    let reads = |d: &&(Inst, GroupMatrixId)| kernel.insts[d.0].args[1] == b.value;
    let shares = dots.iter().filter(reads).filter_map(|&d| column_share(kernel, d.0, columns(d), &tile));
    let Some(most) = shares.map(|s| s.1).min().filter(|&most| most < b.tile.swizzle) else { return };
    let fit = units.bulk.swizzles.iter().copied().find(|&s| most.is_multiple_of(s));
    if let Some(narrow) = fit.and_then(|s| SwizzledTile::of(kernel, b.load, &b.tile.shape, units, Some(s)).ok()) {
        b.tile = narrow;
    }
}

/// True if nobody but these looks at a value.
pub(super) fn used_only_by(kernel: &Kernel, v: Value, dots: &[(Inst, GroupMatrixId)]) -> bool {
    let mut others = false;
    kernel.walk(kernel.body, &mut |i| others |= kernel.insts[i].args.contains(&v) && dots.iter().all(|d| d.0 != i));
    !others
}

/// Results behind the loop, and behind all loops around it, that may leave through the bytes of an operand A that was brought: each group stores its own
/// rows, and has read those of the operand by then. The number of the operand for each.
pub(super) fn over_brought(
    kernel: &Kernel,
    (main, around): (Inst, &[Inst]),
    stores: &[(Inst, SwizzledTile)],
    brought: &[BroughtOperand],
    dots: &[Inst],
) -> BTreeMap<Inst, usize> {
    let (mut behind, mut after) = (false, Vec::new());
    kernel.walk(kernel.body, &mut |i| {
        after.extend(behind.then_some(i));
        behind |= i == main;
    });
    let goes_round = |store: Inst| {
        let mut found = false;
        let loops = around.iter().map(|&i| &kernel.insts[i]).filter(|d| d.op == Op::For);
        loops.flat_map(|d| &d.regions).for_each(|&r| kernel.walk(r, &mut |i| found |= i == store));
        found
    };
    // The rows of the operand lie as those of the result do.
    let rows_of = |b: &BroughtOperand, rows: u32| {
        let along = trace(kernel, b.value, &|j| (j == b.load).then(|| b.tile.contiguous()));
        let mut reads = dots.iter().filter(|&&i| kernel.insts[i].args.contains(&b.value));
        along.is_some_and(|a| a.1 == 1)
            && b.tile.rows == rows
            && reads.all(|&i| kernel.insts[i].args[1] != b.value && accumulator_shape(kernel, i).is_some_and(|s| s[0] == rows))
    };
    let mut out: BTreeMap<Inst, usize> = BTreeMap::new();
    for (i, t) in stores {
        let value = behind_reshapes(kernel, kernel.operand(*i, "value")[0]);
        if !after.contains(i) || goes_round(*i) || transposed(kernel, value) {
            continue;
        }
        let fits = |b: &BroughtOperand| b.tile.swizzle == t.swizzle && b.tile.bytes() >= t.bytes() && rows_of(b, t.rows);
        let free = (0..brought.len()).find(|n| fits(&brought[*n]) && out.values().all(|m| m != n));
        out.extend(free.map(|n| (*i, n)));
    }
    out
}
