//! The position of the grid at which an instance works, where instances are dealt out to dies: see [`tilelift_schedule::DieOrder::position`].

use tilelift_ir::{CmpOp, GridAxis, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Special};
use tilelift_schedule::DieOrder;

const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Where an instance is along an axis.
pub(super) fn position(b: &mut LaneBuilder, order: DieOrder, axis: GridAxis) -> LVal {
    let along = AXES.iter().position(|&a| a == axis).unwrap_or(0);
    let launched = b.special(Special::ProgramId(axis));
    let axes = order.axes as usize;
    if along >= axes {
        return launched;
    }
    let grid: Vec<LVal> = AXES[..axes].iter().map(|&a| b.special(Special::NumPrograms(a))).collect();
    let (all, countable) = instances(b, &grid);
    let at = linear(b, &grid);
    let at = dealt(b, order, at, all);
    let mine = along_axis(b, order, &grid, at, along);
    match countable {
        Some(countable) => b.select(countable, mine, launched),
        None => mine,
    }
}

/// How many instances there are, and whether that is a number of 31 bits; along one axis it always is.
fn instances(b: &mut LaneBuilder, grid: &[LVal]) -> (LVal, Option<LVal>) {
    let (mut all, mut countable) = (grid[0], None);
    let (wide, most) = (LTy::Num(Scalar::I64), b.i64(1 << 31));
    for &next in &grid[1..] {
        let [x, y] = [all, next].map(|v| b.cvt(v, wide));
        let product = b.bin(BinOp::Mul, x, y);
        let here = b.cmp(CmpOp::Lt, product, most);
        countable = Some(countable.map_or(here, |before| b.bin(BinOp::And, before, here)));
        all = b.bin(BinOp::Mul, all, next);
    }
    (all, countable)
}

/// The instance's number among all, in the order in which they are launched.
fn linear(b: &mut LaneBuilder, grid: &[LVal]) -> LVal {
    let mut at = b.special(Special::ProgramId(AXES[grid.len() - 1]));
    for n in (0..grid.len() - 1).rev() {
        let here = b.special(Special::ProgramId(AXES[n]));
        let rows = b.bin(BinOp::Mul, at, grid[n]);
        at = b.bin(BinOp::Add, rows, here);
    }
    at
}

/// The position of instance `w` of `n`.
fn dealt(b: &mut LaneBuilder, order: DieOrder, w: LVal, n: LVal) -> LVal {
    let (dies, chunk) = (order.count.max(1).trailing_zeros(), order.chunk.max(1).trailing_zeros());
    let number = |b: &mut LaneBuilder, x: u32| b.i32(i64::from(x));
    let [die_mask, local_mask, round_mask] = [(1 << dies) - 1, (1 << chunk) - 1, (1 << (dies + chunk)) - 1].map(|m: u32| number(b, m));
    let (by_dies, whole_chunk, zero) = (number(b, dies), number(b, 1 << chunk), b.i32(0));
    let inside = b.bin(BinOp::And, w, round_mask);
    let begin = b.bin(BinOp::Xor, w, inside);
    let left = b.bin(BinOp::And, n, round_mask);
    let rounds = b.bin(BinOp::Xor, n, left);
    let die = b.bin(BinOp::And, w, die_mask);
    let local = b.bin(BinOp::ShrU, w, by_dies);
    let local = b.bin(BinOp::And, local, local_mask);
    let (share, more) = (b.bin(BinOp::ShrU, left, by_dies), b.bin(BinOp::And, left, die_mask));
    let last = b.cmp(CmpOp::Eq, begin, rounds);
    let (share, more) = (b.select(last, share, whole_chunk), b.select(last, more, zero));
    let before = b.bin(BinOp::Mul, die, share);
    let extra = b.bin(BinOp::MinimumU, die, more);
    [before, extra, local].into_iter().fold(begin, |sum, part| b.bin(BinOp::Add, sum, part))
}

/// A position's part along an axis.
fn along_axis(b: &mut LaneBuilder, order: DieOrder, grid: &[LVal], at: LVal, along: usize) -> LVal {
    let &[x, y, ..] = grid else { return at };
    let (plane, inside) = if grid.len() == 3 {
        let all = b.bin(BinOp::Mul, x, y);
        divided(b, at, all)
    } else {
        (b.i32(0), at)
    };
    if along == 2 {
        return plane;
    }
    if order.group == 1 {
        let (row, column) = divided(b, inside, x);
        return if along == 0 { column } else { row };
    }
    let group = b.i32(i64::from(order.group));
    let rows = b.bin(BinOp::Mul, x, group);
    let (which, inside) = divided(b, inside, rows);
    let first = b.bin(BinOp::Mul, which, group);
    let left = b.bin(BinOp::Sub, y, first);
    let height = b.bin(BinOp::MinimumU, left, group);
    let (column, row) = divided(b, inside, height);
    if along == 0 { column } else { b.bin(BinOp::Add, first, row) }
}

/// Quotient and remainder.
fn divided(b: &mut LaneBuilder, a: LVal, by: LVal) -> (LVal, LVal) {
    let quotient = b.bin(BinOp::DivU, a, by);
    let product = b.bin(BinOp::Mul, quotient, by);
    (quotient, b.bin(BinOp::Sub, a, product))
}
