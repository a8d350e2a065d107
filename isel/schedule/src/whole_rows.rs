//! Rows of tiles made as long as copies and matrix instructions take them: with zeros behind, and nothing written there.
//!
//! ```text
//! load a[n, 0] : tile<64x72xbf16>, a has 72 columns         ─►      load a[n, 0] : tile<64x96xbf16>       zeros behind the view's last column
//! load b[n, h] : tile<64x72xbf16>, b has more                       load b[n, h], mask : tile<64x96xbf16>
//! dot q, kᵀ, 0     72 deep                                          96 deep
//! dot p, v, acc    72 columns; store acc                            96 columns; what is outside of the view is not written
//! ```
//!
//! Boxes of bulk copies, and the pieces that lanes copy, cut rows to multiples of 32 bytes, of which the depth of every matrix instruction is one, too. A
//! dimension is one through all that keeps it: what loops carry, what is computed element by element, products. It grows as a whole, or not at all, if
//! anybody folds it. Where a view goes on, accesses get a mask. A product that is as deep finds zeros behind both of its operands: those that a load brings,
//! or those that lanes put there. How far it grows is a question of time: fewer boxes have longer rows, of which products compute more for nothing.
//!
//! The rewrite is from tile IR to tile IR, and says nothing of how the kernel runs.

use crate::access::GlobalAccess;
use crate::one_dimension::{Axis, Near, extent};
use crate::rewrite::Rewrite;
use std::collections::BTreeSet;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, CmpOp, Extent, Inst, Kernel, Literal, Op, Region, Scalar, TileType, Type, Value};
use tilelift_lane::{Costs, Target};

/// What copies and products cut rows to at least, in bytes.
const LEAST: u32 = 32;

/// Dimensions that are looked at, at most.
const TRIED: usize = 64;

/// The kernel with such rows, and whether masks cut them; `None` if it has none that products take, or its author says how it runs or lies.
pub fn whole_rows(kernel: &Kernel, target: &Target) -> Option<(Kernel, bool)> {
    let products = kernel.insts.values().any(|d| d.op == Op::Dot);
    if !products || kernel.is_explicit() || kernel.insts.values().any(|d| d.op == Op::RequireLayout) {
        return None;
    }
    let near = Near::of(kernel);
    let (mut seen, mut found, mut tried) = (BTreeSet::new(), Vec::new(), 0);
    kernel.walk(kernel.body, &mut |i| {
        if let Some(axis) = ragged(kernel, i)
            && !seen.contains(&axis)
            && tried < TRIED
        {
            tried += 1;
            let Some(one) = near.one(axis) else { return };
            seen.extend(one.iter().copied());
            found.extend(grown(kernel, target, &one).map(|to| (one, to)));
        }
    });
    if found.is_empty() {
        return None;
    }
    taken(Decision::RowLengths, || {
        let lengths = found.iter().filter_map(|(one, to)| Some(format!("{} as {to}", extent(kernel, *one.first()?)?)));
        Told::of(format!("rows of {} elements", lengths.collect::<Vec<String>>().join(", ")))
    });
    let mut out = Rewrite::of(kernel);
    // A tile may have two such dimensions: masks are of its extents in the end.
    found.iter().for_each(|(one, to)| grow(&mut out, one, *to));
    let masked = found.iter().map(|(one, _)| cut(&mut out, kernel, one)).fold(false, |a, b| a | b);
    Some((out.finish(), masked))
}

/// The rows of a load that are no multiple of what copies take.
fn ragged(kernel: &Kernel, i: Inst) -> Option<Axis> {
    if kernel.insts[i].op != Op::Load {
        return None;
    }
    let access = GlobalAccess::of(kernel, i);
    let (axis, v) = (access.contiguous()?, kernel.insts[i].results[0]);
    let row = extent(kernel, (v, axis))? * access.view.elem.bytes();
    let long = row > LEAST && !row.is_multiple_of(LEAST) && !access.packed;
    (long && kernel.insts[i].present == 0).then_some((v, axis))
}

/// True for an access that has all of a view's dimension: what is behind that is zero, or not written.
fn ends_there(kernel: &Kernel, i: Inst, axis: usize) -> bool {
    let d = &kernel.insts[i];
    let tile = if d.op == Op::Load { d.results.first() } else { kernel.operand(i, "value").first() };
    let (Type::View(view), Some(&tile)) = (kernel.ty(d.args[0]), tile) else { return false };
    let first = kernel.operand(i, "indices").get(axis).and_then(|&v| kernel.as_const(v));
    let has = extent(kernel, (tile, axis)).unwrap_or(0);
    let all = matches!(view.dims.get(axis), Some(&Extent::Fixed(n)) if n <= has);
    all && matches!(first, Some((Literal::Int(0), _)))
}

/// How far a dimension grows: what is copied and what is multiplied take the least time, the slower of both counting. `None` if no product has it.
fn grown(kernel: &Kernel, target: &Target, one: &BTreeSet<Axis>) -> Option<u32> {
    let has = extent(kernel, *one.first()?)?;
    // Masks of elements that share bytes are of bytes.
    if one.iter().any(|&(v, _)| kernel.ty(v).elem().is_packed()) {
        return None;
    }
    let (mut loads, mut dots): (Vec<(&TileType, usize)>, Vec<[u64; 2]>) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let tile = |v: Value| kernel.ty(v).as_tile();
        if d.op == Op::Load {
            let of = (0..).zip(tile(d.results[0]).map_or(&[][..], |t| &t.shape)).find(|x| one.contains(&(d.results[0], x.0)));
            loads.extend(of.and_then(|(axis, _)| Some((tile(d.results[0])?, axis))));
        } else if d.op == Op::Dot && seen.insert(i) {
            let volume = |v: Value, n: u64| tile(v).map_or(0, |t| t.elements() * n);
            let shape = tile(d.args[0]).map_or(&[][..], |t| &t.shape);
            let depth = shape.last().map_or(0, |&k| u64::from(k));
            let own = (0..shape.len()).map(|n| (d.args[0], n)).chain([(d.args[1], shape.len().saturating_sub(1))]);
            let axes = own.filter(|a| one.contains(a)).count() as u64;
            dots.extend((axes > 0).then(|| [volume(d.results[0], depth), axes]));
        }
    });
    let least = loads.iter().map(|(t, _)| t.elem.bytes()).min()?;
    if dots.is_empty() {
        return None;
    }
    let swizzles = target.units.as_ref().map_or(&[LEAST][..], |u| u.bulk.swizzles);
    let tried = swizzles.iter().map(|&s| (has.next_multiple_of(s / least), s)).filter(|&(to, _)| to > has && to <= 2 * has);
    let cost = |&(to, swizzle): &(u32, u32)| {
        let copies: u64 = loads.iter().map(|&(t, axis)| moved(t, axis, to, swizzle, &target.costs)).sum();
        // A dimension that is more than one of a product counts once for each.
        let larger = |[volume, axes]: [u64; 2]| (0..axes).fold(volume, |v, _| v / u64::from(has) * u64::from(to));
        let products: u64 = dots.iter().map(|&d| larger(d) * target.costs.group_product.max(1) / 1024).sum();
        (copies.max(products), to)
    };
    tried.min_by_key(cost).map(|(to, _)| to)
}

/// What it takes to copy a tile whose rows have so many elements, in boxes of so many bytes.
fn moved(tile: &TileType, axis: usize, to: u32, swizzle: u32, c: &Costs) -> u64 {
    let boxes = u64::from((to * tile.elem.bytes()).div_ceil(swizzle));
    let rows = tile.elements() / u64::from(tile.shape[axis].max(1));
    (boxes * rows * c.box_row).max(boxes * rows * u64::from(swizzle / 32) * c.box_sector).max(boxes * c.box_start)
}

/// Has a dimension grow.
fn grow(out: &mut Rewrite, one: &BTreeSet<Axis>, to: u32) {
    let resized = |ty: &Type, axis: usize| match ty {
        Type::Tile(t) => {
            let mut t = t.clone();
            t.shape[axis] = to;
            Type::Tile(t)
        }
        ty => ty.clone(),
    };
    for &(v, axis) in one {
        let ty = resized(out.kernel.ty(v), axis);
        out.kernel.values[v].ty = ty;
    }
}

/// Has all behind a dimension's extent be zero and stay as it is, where that matters: behind both operands of products that are as deep, and where views go
/// on. True if a mask cuts an access.
fn cut(out: &mut Rewrite, kernel: &Kernel, one: &BTreeSet<Axis>) -> bool {
    let Some(has) = one.first().and_then(|&axis| extent(kernel, axis)) else { return false };
    let mut cut = false;
    for (region, r) in &kernel.regions {
        for &i in &r.insts {
            let (d, at) = (&kernel.insts[i], (region, i));
            match d.op {
                Op::Load | Op::Store => cut |= mask(out, kernel, at, one, has),
                Op::Dot => deep(out, kernel, at, one, has),
                _ => {}
            }
        }
    }
    cut
}

/// Has a product that is as deep find zeros behind both of its operands.
fn deep(out: &mut Rewrite, kernel: &Kernel, at: (Region, Inst), one: &BTreeSet<Axis>, has: u32) {
    let d = &kernel.insts[at.1];
    let last = kernel.ty(d.args[0]).shape().map_or(1, |s| s.len().saturating_sub(1));
    if !one.contains(&(d.args[0], last)) {
        return;
    }
    for n in (0..2).filter(|&n| !zero_behind(kernel, d.args[n])) {
        let masked = masked(out, at, (d.args[n], last - n), has);
        out.kernel.insts[at.1].args[n] = masked;
    }
}

/// Has an access whose view goes on behind a dimension leave alone what is there; true if there is such a one.
fn mask(out: &mut Rewrite, kernel: &Kernel, at: (Region, Inst), one: &BTreeSet<Axis>, has: u32) -> bool {
    let d = &kernel.insts[at.1];
    let v = if d.op == Op::Load { d.results.first() } else { kernel.operand(at.1, "value").first() };
    let axes = || v.and_then(|&v| kernel.ty(v).shape()).map_or(0..0, |s| 0..s.len());
    let mine = v.and_then(|&v| axes().find(|&axis| one.contains(&(v, axis))).map(|axis| (v, axis)));
    let Some(axis) = mine.filter(|axis| !ends_there(kernel, at.1, axis.1)) else { return false };
    let Some(inside) = inside(out, at, axis, has) else { return false };
    let place = d.op.info().operands.iter().position(|o| o.name == "mask").unwrap_or(0);
    match out.kernel.operand(at.1, "mask").first().copied() {
        // Of its other dimension.
        Some(other) => {
            let ty = out.kernel.ty(other).clone();
            let both = out.put(at, (Op::And, &[other, inside], &[]), ty);
            out.kernel.insts[at.1].args.iter_mut().filter(|a| **a == other).for_each(|a| *a = both);
        }
        None => {
            let made = &mut out.kernel.insts[at.1];
            made.args.push(inside);
            made.present |= 1 << place;
        }
    }
    true
}

/// True for what a load brings, and whatever keeps zeros zero: behind the view's end there are zeros.
fn zero_behind(kernel: &Kernel, v: Value) -> bool {
    kernel.def_inst(v).is_some_and(|i| match kernel.insts[i].op {
        Op::Load => true,
        Op::Transpose | Op::Reshape | Op::Cast => zero_behind(kernel, kernel.insts[i].args[0]),
        _ => false,
    })
}

/// A tile with zeros from an element of a dimension on, in front of an instruction.
fn masked(out: &mut Rewrite, at: (Region, Inst), (v, axis): Axis, from: u32) -> Value {
    let ty = out.kernel.ty(v).clone();
    let (Some(zero), Some(inside)) = (out.nothing(at, &ty), inside(out, at, (v, axis), from)) else { return v };
    out.put(at, (Op::Select, &[inside, v, zero], &[]), ty)
}

/// Which elements of a tile stand in front of that one of a dimension.
fn inside(out: &mut Rewrite, at: (Region, Inst), (v, axis): Axis, from: u32) -> Option<Value> {
    let tile = out.kernel.ty(v).as_tile().cloned()?;
    let like = |elem: Scalar| Type::Tile(TileType { elem, ..tile.clone() });
    let index = out.put(at, (Op::Iota, &[], &[Attr::Dim(axis as u32)]), like(Scalar::I32));
    let end = out.number(at, from.into());
    let end = out.put(at, (Op::Splat, &[end], &[]), like(Scalar::I32));
    Some(out.put(at, (Op::Cmp, &[index, end], &[Attr::Cmp(CmpOp::Lt)]), like(Scalar::I1)))
}
