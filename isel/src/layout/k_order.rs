//! The order of k in a product. Its sum may be taken in any order on which both operands agree, so the bits of k may be renamed on both sides:
//!
//! ```text
//! operand A    reg: k0 k1 k2    lane: m0 … m4, k3        a lane takes 8 in a row
//! scores       reg: k0 k1 k3    lane: m0 … m4, k2        a lane has 4 in a row, and 4 more
//! renamed      k2 ↔ k3, in B as well: the scores lie as operand A, and no element moves
//! ```

use crate::layout::dot_plan::DotPlan;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};

const AXES: [Axis; 3] = [Axis::Reg, Axis::Lane, Axis::Warp];

/// The same product with the k of a lane's registers first, so that its part of a row is one run of memory. `None` where it is the same, or
/// can't be said.
pub(super) fn by_registers(plan: &DotPlan) -> Option<DotPlan> {
    reordered(plan, &lane_order(&plan.b, 0)?)
}

/// The same product with the k of operand A (0) or B (1) in the lanes and registers in which another layout has it. `None` where it is the same, or
/// the layouts differ by more than the order of k.
pub(super) fn following(plan: &DotPlan, operand: usize, layout: &Layout) -> Option<DotPlan> {
    let (own, dim) = if operand == 0 { (&plan.a, 1) } else { (&plan.b, 0) };
    reordered(plan, &order_between(own, layout, dim)?)
}

fn reordered(plan: &DotPlan, order: &[u32]) -> Option<DotPlan> {
    let (a, b) = (reorder(&plan.a, 1, order)?, reorder(&plan.b, 0, order)?);
    (a != *plan.a || b != *plan.b).then(|| DotPlan { a: Rc::new(a), b: Rc::new(b), others: Vec::new(), ..plan.clone() })
}

/// Bits of a dimension: those of registers, then the others; `None` unless each is a column of its own.
fn lane_order(l: &Layout, dim: usize) -> Option<Vec<u32>> {
    let mut order = Vec::new();
    for axis in AXES {
        for i in 0..l.bits(axis) {
            let c = l.column(axis, i)[dim];
            if c != 0 {
                order.push(single(c)?);
            }
        }
    }
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let whole = sorted.iter().enumerate().all(|(at, &b)| b == at as u32) && l.shape()[dim] == 1 << sorted.len();
    whole.then_some(order)
}

/// Which bit of a dimension of `from` becomes each bit of `to`, so that lanes and warps hold the same, and registers in the same order along it.
fn order_between(from: &Layout, to: &Layout, dim: usize) -> Option<Vec<u32>> {
    if from.shape() != to.shape() || from.rank() != 2 || AXES.iter().any(|&axis| !to.odd(axis).is_empty()) {
        return None;
    }
    let across = 1 - dim;
    let mut pairs = Vec::new();
    for axis in [Axis::Lane, Axis::Warp] {
        if from.bits(axis) != to.bits(axis) {
            return None;
        }
        for i in 0..from.bits(axis) {
            let (x, y) = (from.column(axis, i), to.column(axis, i));
            match (x[dim], y[dim]) {
                _ if x[across] != y[across] => return None,
                (0, 0) => {}
                (x, y) => pairs.push((single(x)?, single(y)?)),
            }
        }
    }
    let along = |l: &Layout| -> Option<Vec<u32>> {
        let columns = (0..l.bits(Axis::Reg)).map(|i| l.column(Axis::Reg, i)[dim]);
        columns.filter(|&c| c != 0).map(single).collect()
    };
    let (x, y) = (along(from)?, along(to)?);
    if x.len() != y.len() {
        return None;
    }
    pairs.extend(x.into_iter().zip(y));
    let mut order = vec![None; pairs.len()];
    pairs.into_iter().for_each(|(x, y)| {
        if let Some(place) = order.get_mut(y as usize) {
            *place = Some(x);
        }
    });
    let order: Vec<u32> = order.into_iter().collect::<Option<_>>()?;
    (from.shape()[dim] == 1 << order.len()).then_some(order)
}

/// The only bit of a column.
fn single(column: u32) -> Option<u32> {
    column.is_power_of_two().then(|| column.trailing_zeros())
}

/// The map of a tile in which a lane's part of a line is one run, of one in which that holds of the line with its bits in the order of the lanes' registers. `None` where these are in
/// order, or can't be said.
pub(super) fn lines_of(reader: &Layout, dim: usize) -> Option<impl Fn(&Layout) -> Option<Layout> + use<>> {
    let order = lane_order(reader, dim)?;
    let mut back = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&bit, n)| back[bit as usize] = n);
    (!order.is_sorted()).then_some(move |l: &Layout| reorder(l, dim, &back))
}

/// A layout with the bits of a dimension renamed: bit `order[n]` becomes bit `n`.
fn reorder(l: &Layout, dim: usize, order: &[u32]) -> Option<Layout> {
    let mut axes = Vec::new();
    for axis in AXES.into_iter().chain([Axis::Off]) {
        if !l.odd(axis).is_empty() {
            return None;
        }
        let columns = (0..l.bits(axis)).map(|i| {
            let mut c = l.column(axis, i);
            c[dim] = order.iter().enumerate().fold(0, |sum, (n, &bit)| sum | (c[dim] >> bit & 1) << n);
            c
        });
        axes.push((axis, columns.collect()));
    }
    Layout::from_columns(l.shape(), &axes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::layout::FragmentMap;

    /// A lane of operand A takes 8 in a row of 16, one of the scores has 4 in a row of 8, twice: two bits are exchanged, and the registers line up.
    #[test]
    fn an_operand_follows_scores_whose_runs_are_half_as_long() {
        let lanes = [&[1, 0][..], &[2, 0], &[4, 0], &[8, 0], &[16, 0]];
        let with = |last: &'static [u32]| lanes.into_iter().chain([last]).collect::<Vec<_>>();
        let a = FragmentMap::new(&[32, 16], &[&[0, 1], &[0, 2], &[0, 4]], &with(&[0, 8]), &[]).expect("a fragment");
        let d = FragmentMap::new(&[32, 32], &[&[0, 1], &[0, 2], &[0, 8], &[0, 16]], &with(&[0, 4]), &[]).expect("a fragment");
        let [a, d] = [a, d].map(|f| Layout::fragment(&[32, 32], &f, &[1, 1], &[0, 1]).expect("a layout"));
        let order = order_between(&a, &d, 1).expect("an order");
        assert_eq!(order, [0, 1, 3, 2, 4]);
        assert_eq!(reorder(&a, 1, &order), Some(d.clone()));
        // What is across lanes there is no order of k.
        assert_eq!(order_between(&a, &d.transpose(&[1, 0]).expect("a layout"), 1), None);
        assert_eq!(order_between(&a, &a, 1), Some((0..5).collect()));
    }

    /// The map of lines in a lane's order is a map of the lines as they are, in which a lane reads one run.
    #[test]
    fn lines_in_the_order_of_lanes() {
        let reader = Layout::from_columns(&[8], &[(Axis::Reg, vec![[1][..].into(), [4][..].into()]), (Axis::Lane, vec![[2][..].into()])])
            .expect("a layout");
        let line = Layout::from_columns(&[8], &[(Axis::Off, [1, 2, 4].map(|c| [c][..].into()).to_vec())]).expect("a map");
        let made = lines_of(&reader, 0).expect("another order")(&line).expect("a map");
        assert_eq!([0, 1, 2].map(|bit| made.column(Axis::Off, bit)[0]), [1, 4, 2]);
        assert!(
            lines_of(&Layout::from_columns(&[8], &[(Axis::Reg, [1, 2, 4].map(|c| [c][..].into()).to_vec())]).expect("a layout"), 0)
                .is_none()
        );
    }
}
