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
use crate::plan::keeps_extents;
use crate::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::propagate::carried;
use tilelift_ir::{Attr, CmpOp, Extent, Inst, Kernel, Literal, Op, Region, Scalar, TileType, Type, Value, ValueDef};
use tilelift_lane::{Costs, Target};

/// What copies and products cut rows to at least, in bytes.
const LEAST: u32 = 32;

/// A dimension of more values than so many is left as it is.
const MOST: usize = 2048;

/// A dimension of a tile.
type Axis = (Value, usize);

/// The kernel with such rows; `None` if it has none that products take, or its author says how it runs or lies.
pub fn whole_rows(kernel: &Kernel, target: &Target) -> Option<Kernel> {
    let products = kernel.insts.values().any(|d| d.op == Op::Dot);
    if !products || kernel.is_explicit() || kernel.insts.values().any(|d| d.op == Op::RequireLayout) {
        return None;
    }
    let near = Near::of(kernel);
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    kernel.walk(kernel.body, &mut |i| {
        if let Some(axis) = ragged(kernel, i)
            && !seen.contains(&axis)
            && let Some(one) = near.one(axis)
        {
            seen.extend(one.iter().copied());
            found.extend(extent(kernel, target, &one).map(|to| (one, to)));
        }
    });
    if found.is_empty() {
        return None;
    }
    taken(Decision::RowLengths, || {
        let lengths = found.iter().filter_map(|(one, to)| Some(format!("{} as {to}", of(kernel, *one.first()?)?)));
        Told::of(format!("rows of {} elements", lengths.collect::<Vec<String>>().join(", ")))
    });
    let mut out = Rewrite::of(kernel);
    for (one, to) in found {
        grow(&mut out, kernel, &one, to);
    }
    Some(out.finish())
}

/// The extent of a dimension.
fn of(kernel: &Kernel, (v, d): Axis) -> Option<u32> {
    kernel.ty(v).shape()?.get(d).copied()
}

/// The rows of a load that are no multiple of what copies take.
fn ragged(kernel: &Kernel, i: Inst) -> Option<Axis> {
    if kernel.insts[i].op != Op::Load {
        return None;
    }
    let access = GlobalAccess::of(kernel, i);
    let (axis, v) = (access.contiguous()?, kernel.insts[i].results[0]);
    let row = of(kernel, (v, axis))? * access.view.elem.bytes();
    let long = row > LEAST && !row.is_multiple_of(LEAST) && !access.packed;
    (long && kernel.insts[i].present == 0).then_some((v, axis))
}

/// True for an access that has all of a view's dimension: what is behind that is zero, or not written.
fn ends_there(kernel: &Kernel, i: Inst, axis: usize) -> bool {
    let d = &kernel.insts[i];
    let tile = if d.op == Op::Load { d.results.first() } else { kernel.operand(i, "value").first() };
    let (Type::View(view), Some(&tile)) = (kernel.ty(d.args[0]), tile) else { return false };
    let first = kernel.operand(i, "indices").get(axis).and_then(|&v| kernel.as_const(v));
    let has = of(kernel, (tile, axis)).unwrap_or(0);
    let all = matches!(view.dims.get(axis), Some(&Extent::Fixed(n)) if n <= has);
    all && matches!(first, Some((Literal::Int(0), _)))
}

/// Who reads what, and who hands it on.
struct Near<'k> {
    kernel: &'k Kernel,
    users: BTreeMap<Value, Vec<Inst>>,
    /// The holder of the region that a `yield` ends.
    ends: BTreeMap<Inst, Inst>,
}

impl<'k> Near<'k> {
    fn of(kernel: &'k Kernel) -> Near<'k> {
        let (mut users, mut ends): (BTreeMap<Value, Vec<Inst>>, _) = (BTreeMap::new(), BTreeMap::new());
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            d.args.iter().for_each(|&v| users.entry(v).or_default().push(i));
            ends.extend(d.regions.iter().filter_map(|&r| Some((kernel.terminator(r)?, i))));
        });
        Near { kernel, users, ends }
    }

    /// All that is one dimension with another; `None` if somebody needs it as it is.
    fn one(&self, axis: Axis) -> Option<BTreeSet<Axis>> {
        let extent = of(self.kernel, axis)?;
        let (mut todo, mut out) = (vec![axis], BTreeSet::new());
        while let Some(axis) = todo.pop() {
            if of(self.kernel, axis) != Some(extent) || out.len() > MOST {
                return None;
            }
            if !out.insert(axis) {
                continue;
            }
            let made = match self.kernel.values[axis.0].def {
                ValueDef::Result(i, _) => i,
                ValueDef::RegionParam(r, _) => self.kernel.holder(r)?,
                ValueDef::KernelParam(_) => return None,
            };
            todo.extend(self.at(made, axis)?);
            for &i in self.users.get(&axis.0).into_iter().flatten() {
                todo.extend(self.at(self.ends.get(&i).copied().unwrap_or(i), axis)?);
            }
        }
        Some(out)
    }

    /// What an instruction makes one with a dimension; `None` if it needs that as it is.
    fn at(&self, i: Inst, (v, axis): Axis) -> Option<Vec<Axis>> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let is_tile = |v: &Value| kernel.ty(*v).as_tile().is_some();
        let all = || d.args.iter().chain(&d.results).copied().filter(is_tile);
        match d.op {
            Op::Load | Op::Store => (d.present == 0).then(Vec::new),
            Op::Splat | Op::Iota => Some(Vec::new()),
            Op::Assert => None,
            _ if kernel.is_elementwise(i) => Some(all().map(|v| (v, axis)).collect()),
            Op::Transpose | Op::Reshape | Op::Broadcast | Op::Reduce => {
                let [from, to] = [d.args[0], *d.results.first()?];
                let pairs = self.kept(i);
                let mine = |p: &[usize; 2]| (v == from && p[0] == axis) || (v == to && p[1] == axis);
                let p = pairs.into_iter().find(mine);
                // A broadcast makes it, and all else that is not kept is gone.
                match p {
                    Some([a, b]) => Some(vec![(from, a), (to, b)]),
                    None => (d.op == Op::Broadcast && v == to).then(Vec::new),
                }
            }
            Op::Dot => self.product(i, (v, axis)),
            Op::For | Op::While | Op::If => {
                let list = carried(kernel, i).into_iter().map(|c| c.flows().flat_map(|(a, b)| [a, b]).collect::<Vec<Value>>());
                let mine: Vec<Vec<Value>> = list.filter(|c| c.contains(&v)).collect();
                (!mine.is_empty()).then(|| mine.concat().into_iter().map(|v| (v, axis)).collect())
            }
            _ => None,
        }
    }

    /// Dimensions of an operand, and of the result, that are one.
    fn kept(&self, i: Inst) -> Vec<[usize; 2]> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let shape = |v: Value| kernel.ty(v).shape().unwrap_or_default();
        let (from, to) = (shape(d.args[0]), d.results.first().map(|&v| shape(v)).unwrap_or_default());
        match (d.op, d.attrs.first()) {
            (Op::Transpose, Some(Attr::Perm(p))) => p.iter().enumerate().map(|(to, &from)| [from as usize, to]).collect(),
            (Op::Reshape, _) if keeps_extents(kernel, i) => {
                let real = |s: &[u32]| (0..s.len()).filter(|&n| s[n] != 1).collect::<Vec<usize>>();
                real(from).into_iter().zip(real(to)).map(|(a, b)| [a, b]).collect()
            }
            (Op::Broadcast, _) if from.len() == to.len() => (0..to.len()).filter(|&n| from[n] == to[n]).map(|n| [n, n]).collect(),
            (Op::Reduce, _) => {
                let gone = d.attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None });
                (0..from.len()).filter(|&n| Some(n) != gone).enumerate().map(|(to, from)| [from, to]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What a product of matrices makes one with a dimension of an operand or of the sums.
    fn product(&self, i: Inst, axis: Axis) -> Option<Vec<Axis>> {
        let d = &self.kernel.insts[i];
        let (&[a, b, c], sums) = (&d.args[..], d.results[0]) else { return None };
        if self.kernel.ty(sums).shape()?.len() != 2 {
            return None;
        }
        let groups = [vec![(a, 0), (c, 0), (sums, 0)], vec![(b, 1), (c, 1), (sums, 1)], vec![(a, 1), (b, 0)]];
        let mine: Vec<Vec<Axis>> = groups.into_iter().filter(|g| g.contains(&axis)).collect();
        Some(mine.concat())
    }
}

/// How far a dimension grows: what is copied and what is multiplied take the least time, the slower of both counting. `None` if no product has it.
fn extent(kernel: &Kernel, target: &Target, one: &BTreeSet<Axis>) -> Option<u32> {
    let has = of(kernel, *one.first()?)?;
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
            let depth = tile(d.args[0]).map_or(0, |t| u64::from(t.shape[t.shape.len() - 1]));
            let axes = [(d.args[0], 0), (d.args[0], 1), (d.args[1], 1)].into_iter().filter(|a| one.contains(a)).count() as u64;
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
        let grown = |[volume, axes]: [u64; 2]| (0..axes).fold(volume, |v, _| v / u64::from(has) * u64::from(to));
        let products: u64 = dots.iter().map(|&d| grown(d) * target.costs.group_product.max(1) / 1024).sum();
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

/// Has a dimension grow, with zeros behind both operands of products that are as deep.
fn grow(out: &mut Rewrite, kernel: &Kernel, one: &BTreeSet<Axis>, to: u32) {
    let resized = |ty: &Type, axis: usize| match ty {
        Type::Tile(t) => {
            let mut t = t.clone();
            t.shape[axis] = to;
            Type::Tile(t)
        }
        ty => ty.clone(),
    };
    let has = one.first().and_then(|&axis| of(kernel, axis)).unwrap_or(to);
    for &(v, axis) in one {
        let ty = resized(out.kernel.ty(v), axis);
        out.kernel.values[v].ty = ty;
    }
    for (region, r) in &kernel.regions {
        for &i in &r.insts {
            let (d, at) = (&kernel.insts[i], (region, i));
            match d.op {
                Op::Load | Op::Store => mask(out, kernel, at, one, has),
                Op::Dot if one.contains(&(d.args[0], 1)) => (0..2).filter(|&n| !zero_behind(kernel, d.args[n])).for_each(|n| {
                    let masked = masked(out, at, (d.args[n], 1 - n), has);
                    out.kernel.insts[i].args[n] = masked;
                }),
                _ => {}
            }
        }
    }
}

/// Has an access whose view goes on behind a dimension leave alone what is there.
fn mask(out: &mut Rewrite, kernel: &Kernel, at: (Region, Inst), one: &BTreeSet<Axis>, has: u32) {
    let d = &kernel.insts[at.1];
    let v = if d.op == Op::Load { d.results.first() } else { kernel.operand(at.1, "value").first() };
    let axes = || v.and_then(|&v| kernel.ty(v).shape()).map_or(0..0, |s| 0..s.len());
    let mine = v.and_then(|&v| axes().find(|&axis| one.contains(&(v, axis))).map(|axis| (v, axis)));
    let Some(axis) = mine.filter(|axis| !ends_there(kernel, at.1, axis.1)) else { return };
    let Some(inside) = inside(out, at, axis, has) else { return };
    let place = d.op.info().operands.iter().position(|o| o.name == "mask").unwrap_or(0);
    let made = &mut out.kernel.insts[at.1];
    made.args.push(inside);
    made.present |= 1 << place;
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
