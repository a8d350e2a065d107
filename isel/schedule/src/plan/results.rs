//! The results of a specialised loop: which stores leave in bulk, and through which tile.

use super::apart::meets_no_write;
use super::replay::slice;
use super::ring_layouts::{EpilogueStore, RingLayouts};
use super::tensor_boxes::SwizzledTile;
use super::views::{behind_reshapes, parts_rows};
use crate::access::GlobalAccess;
use crate::named::Named;
use crate::reason::{Misplaced, NotStaged};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value};
use tilelift_lane::Units;

/// The stores of a region, of the arms of its choices and of loops around the main one: all warpgroups go the same way, so results leave from there
/// as well.
fn result_stores(kernel: &Kernel, r: Region, around: &[Inst], visit: &mut dyn FnMut(Inst)) {
    for &i in &kernel.regions[r].insts {
        let d = &kernel.insts[i];
        match d.op {
            Op::Store => visit(i),
            Op::If => d.regions.iter().for_each(|&arm| result_stores(kernel, arm, around, visit)),
            Op::For if around.contains(&i) => result_stores(kernel, d.regions[0], around, visit),
            _ => {}
        }
    }
}

/// True for a matrix that is computed of the transpose of a loop's result.
pub(super) fn transposed(kernel: &Kernel, mut v: Value) -> bool {
    let mut found = false;
    while let Some(i) = kernel.def_inst(v).filter(|&i| kernel.insts[i].op != Op::For) {
        let d = &kernel.insts[i];
        found |= d.op == Op::Transpose;
        match d.args.first() {
            Some(&next) if matches!(d.op, Op::Transpose | Op::Cast) => v = next,
            _ => return false,
        }
    }
    found
}

/// True for what is computed of the results of a loop of products, and lies as they do.
fn made_by_products(kernel: &Kernel, v: Value) -> bool {
    let multiplies = |i: Inst| {
        let mut found = false;
        kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut |j| found |= kernel.insts[j].op == Op::Dot));
        found
    };
    slice(kernel, vec![v]).into_iter().any(multiplies)
}

/// True for a store to a view that something may read when the store has begun: behind it, or in a loop around it.
fn read_behind(kernel: &Kernel, store: Inst) -> bool {
    let view = kernel.insts[store].args[0];
    let reads = |i: Inst| {
        let d = &kernel.insts[i];
        matches!(d.op.info().effects.global(), Effects::Reads | Effects::Updates) && d.args.first() == Some(&view)
    };
    let (mut behind, mut found) = (false, false);
    kernel.walk(kernel.body, &mut |i| {
        found |= behind && reads(i);
        behind |= i == store;
        let d = &kernel.insts[i];
        if matches!(d.op, Op::For | Op::While) {
            let (mut stores, mut loads) = (false, false);
            d.regions.iter().for_each(|&r| kernel.walk(r, &mut |j| (stores, loads) = (stores | (j == store), loads | reads(j))));
            found |= stores && loads;
        }
    });
    found
}

/// The tile through which a store at the kernel's end leaves: of elements of 16 or 32 bits, as large as an accumulator or some of its columns.
fn result_tile(
    kernel: &Kernel,
    i: Inst,
    units: &Units,
    accumulators: &[[u32; 2]],
    (want, wide): (Option<u32>, bool),
) -> Result<SwizzledTile, NotStaged> {
    let value = kernel.operand(i, "value")[0];
    let mut from = behind_reshapes(kernel, value);
    // Rows that are parted are still the rows of one matrix.
    let parted = kernel.def_inst(from).filter(|&i| parts_rows(kernel, i));
    if let Some(i) = parted {
        from = behind_reshapes(kernel, kernel.insts[i].args[0]);
    }
    let no = |why: Misplaced| NotStaged { value: Named::of(kernel, value), why };
    let (Some(tile), Some(t)) = (kernel.ty(value).as_tile(), kernel.ty(from).as_tile()) else {
        return Err(no(Misplaced::NoTile));
    };
    // Products whose operands were exchanged leave transposed.
    // Some columns of one leave as all of them do; a tile of that shape that is made of none lies in no such way.
    let columns = |a: &[u32; 2], [rows, columns]: [u32; 2]| {
        a[0] == rows && (a[1] == columns || a[1].is_multiple_of(columns) && made_by_products(kernel, from))
    };
    let whole = |shape: [u32; 2]| {
        accumulators.iter().any(|a| columns(a, shape)) || accumulators.contains(&[shape[1], shape[0]]) && transposed(kernel, from)
    };
    if t.shape.len() != 2 || !whole([t.shape[0], t.shape[1]]) {
        return Err(no(Misplaced::Shape));
    }
    // What 32-bit elements take of the ring is for those who ask: how much it gains is not measured.
    let asked = want.is_some() || wide;
    if t.elem.bytes() != 2 && !(asked && t.elem.bytes() == 4) {
        return Err(no(Misplaced::Elem(t.elem)));
    }
    if read_behind(kernel, i) {
        return Err(no(Misplaced::ReadBehind));
    }
    if !meets_no_write(kernel, i) {
        return Err(no(Misplaced::WrittenTwice));
    }
    if GlobalAccess::of(kernel, i).contiguous() != Some(tile.shape.len() - 1) {
        return Err(no(Misplaced::Rows));
    }
    let staged = SwizzledTile::of(kernel, i, &tile.shape, units, want).map_err(|why| no(Misplaced::Copy(why)))?;
    // Rows are the view's dimension behind its columns, and others have one element; or they lie one behind the other as the view's dimensions do.
    let long = staged.order.iter().rev().copied().filter(|&d| staged.shape[d] > 1);
    let in_order = parted.is_some() && long.is_sorted();
    if !in_order && staged.shape[staged.order[1]] != t.shape[0] {
        return Err(no(Misplaced::View));
    }
    Ok(staged)
}

/// The results that leave in bulk; none where `by_tasks` says that each task stores its own columns, unless that is asked for. `wide` ones, of 32-bit
/// elements, are asked for.
///
/// # Errors
/// One that is asked to leave so does not.
pub(super) fn bulk_results(
    kernel: &Kernel,
    units: &Units,
    ring_layouts: &RingLayouts,
    around: &[Inst],
    accumulators: &[[u32; 2]],
    [by_tasks, wide]: [bool; 2],
) -> Result<Vec<(Inst, SwizzledTile)>, NotStaged> {
    let (mut stores, mut results) = (Vec::new(), Vec::new());
    result_stores(kernel, kernel.body, around, &mut |i| results.push(i));
    for i in results {
        let want = match ring_layouts.epilogue.get(&i) {
            Some(EpilogueStore::Lanes) => continue,
            Some(EpilogueStore::Bulk(swizzle)) => Some(*swizzle),
            None if by_tasks => continue,
            None => None,
        };
        match result_tile(kernel, i, units, accumulators, (want, wide)) {
            Ok(tile) => stores.push((i, tile)),
            Err(why) if want.is_some() => return Err(why),
            Err(_) => {}
        }
    }
    Ok(stores)
}
