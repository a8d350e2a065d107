//! Who owns the bits of a dimension: registers, lanes or warps.

use tilelift_ir::layout::{Axis, Layout};

/// Which bit of which axis owns one bit of the dimension that is reduced, scanned or sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Reg(u32),
    Lane(u32),
    Warp(u32),
}

/// The owner of each bit of dimension `dim`; `None` unless each bit has an owner of its own.
pub(crate) fn owners(layout: &Layout, dim: usize) -> Option<Vec<Owner>> {
    let bits = layout.shape()[dim].trailing_zeros();
    let mut found = vec![None; bits as usize];
    for axis in [Axis::Reg, Axis::Lane, Axis::Warp] {
        for i in 0..layout.bits(axis) {
            let c = layout.column(axis, i);
            if c[dim] == 0 {
                continue;
            }
            let alone = c[dim].is_power_of_two() && c.iter().enumerate().all(|(k, &x)| k == dim || x == 0);
            let at = c[dim].trailing_zeros() as usize;
            if !alone || at >= found.len() || found[at].is_some() {
                return None;
            }
            found[at] = Some(match axis {
                Axis::Reg => Owner::Reg(i),
                Axis::Lane => Owner::Lane(i),
                Axis::Warp | Axis::Block | Axis::Off => Owner::Warp(i),
            });
        }
    }
    found.into_iter().collect()
}
