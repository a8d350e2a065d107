//! Operands from in front of a specialised loop that are brought to shared memory: where that pays, and how they lie.

use super::products::{BroughtOperand, column_share};
use super::swizzled_tile::SwizzledTile;
use tilelift_ir::{Inst, Kernel, Value};
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
