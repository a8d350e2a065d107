//! Block-scaled products: by instructions that take scales, where the target has some of such types and extents; else as products of `bf16`.
//!
//! ```text
//!                                       x = mul (cast a : bf16), (each scale of a, 32 times, as bf16)
//! v = dot_scaled a, sa, b, sb, c   ─►   y = mul (cast b : bf16), (each scale of b, 32 times, as bf16)
//!                                       v = dot x, y, c
//! ```
//!
//! `bf16` has the exponents of scales (2^-127 is one of its subnormal numbers, NaN is NaN) and twice the bits of an element, so that an element times its
//! scale is exact but for the ends of the range, of which the op's meaning speaks. Two scales are never multiplied with each other: their product need be no
//! number of any type.
//!
//! Where lanes do not multiply 16-bit floats, they multiply in `f32` and take the upper halves: what is exact needs no rounding.
//!
//! The other way is to multiply elements as they are, 32 along the depth at a time, and each such sum by its two scales: one more product and two more
//! operations of a lane for each element of the accumulator and each 32 of the depth, which is more than the operands take as soon as the tile is larger
//! than the depth of a step, and keeps sums from staying where the unit adds them up. Its sums of 8-bit floats keep fewer bits, too.
//!
//! What comes out is what an author would write who has no `dot_scaled`, with extents split in front of casts, where elements are narrow. Whether its
//! loop is specialised, and where operands wait, is decided as for every other product whose operands lanes compute.

use crate::rewrite::Rewrite;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Region, Scalar, Shape, TileType, Type, Value};
use tilelift_lane::Target;

/// The kernel with those block-scaled products that no instruction of the target takes as products of operands that are scaled before; `None` if there
/// are none.
pub fn scaled_operands(kernel: &Kernel, target: &Target) -> Option<Kernel> {
    let mut products = [0; 2];
    kernel.walk(kernel.body, &mut |i| {
        if kernel.insts[i].op == Op::DotScaled {
            products[usize::from(by_instruction(kernel, target, i))] += 1;
        }
    });
    let [by_lanes, by_unit] = products;
    if by_lanes + by_unit > 0 {
        taken(Decision::ScaledProducts, || {
            let told = [(by_lanes, "products of operands that lanes scale"), (by_unit, "products by instructions that take scales")];
            let told: Vec<String> = told.iter().filter(|t| t.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
            Told::of(told.join(", "))
        });
    }
    if by_lanes == 0 {
        return None;
    }
    let mut to = Rewrite::of(kernel);
    rewrite_region(&mut to, target, kernel.body);
    Some(to.finish())
}

/// M, N and K of a product of matrices, of which A, B and the accumulator are given.
pub fn scaled_extents([a, _, c]: [&TileType; 3]) -> [u32; 3] {
    let last = |t: &TileType, back: usize| t.shape.len().checked_sub(back).map_or(1, |n| t.shape[n]);
    [last(c, 2), last(c, 1), last(a, 1)]
}

/// The instruction that takes scales and multiplies such matrices, its number in the target's table.
pub fn scaled_instruction(target: &Target, tiles: [&TileType; 3]) -> Option<usize> {
    let [a, b, c] = tiles;
    let extents = scaled_extents(tiles);
    let fits = |q: &usize| extents.iter().zip(target.matrix[*q].shape).all(|(e, s)| e.is_multiple_of(s));
    target.scaled_matrices([a.elem, b.elem]).find(fits).filter(|_| c.shape.len() == 2)
}

fn by_instruction(kernel: &Kernel, target: &Target, i: Inst) -> bool {
    let args = &kernel.insts[i].args;
    let tile = |at: usize| args.get(at).and_then(|&v| kernel.ty(v).as_tile());
    let tiles = (tile(0), tile(2), tile(4));
    matches!(tiles, (Some(a), Some(b), Some(c)) if scaled_instruction(target, [a, b, c]).is_some())
}

fn rewrite_region(to: &mut Rewrite, target: &Target, region: Region) {
    for i in to.kernel.regions[region].insts.clone() {
        to.kernel.insts[i].regions.clone().into_iter().for_each(|r| rewrite_region(to, target, r));
        if to.kernel.insts[i].op == Op::DotScaled && !by_instruction(&to.kernel, target, i) {
            product(to, (region, i), target.packed_halves);
        }
    }
}

/// Puts the product of scaled operands in place of one with scales; `halves` if lanes multiply 16-bit floats.
fn product(to: &mut Rewrite, at: (Region, Inst), halves: bool) {
    let d = to.kernel.insts[at.1].clone();
    let &[a, scale_a, b, scale_b, c] = &d.args[..] else { return };
    let Some(rank) = to.kernel.ty(a).shape().map(|s| s.len()) else { return };
    let (Some(x), Some(y)) = (as_it_lies(to, at, [a, scale_a], (rank - 1, halves)), as_it_lies(to, at, [b, scale_b], (rank - 2, halves)))
    else {
        return;
    };
    let ty = to.kernel.ty(c).clone();
    let sums = to.put(at, (Op::Dot, &[x, y, c], &[Attr::Precision(Precision::Exact)]), ty);
    to.replace(d.results[0], sums);
    to.kernel.regions[at.0].insts.retain(|&j| j != at.1);
}

/// An operand with its scales, of which there is one for each block along a dimension. One that is the transpose of a tile is transposed behind its scales:
/// lanes compute on a tile as it lies in memory.
fn as_it_lies(to: &mut Rewrite, at: (Region, Inst), [operand, scales]: [Value; 2], (along, halves): (usize, bool)) -> Option<Value> {
    let Some(whole) = turned(&to.kernel, operand) else { return scaled(to, at, [operand, scales], (along, halves)) };
    let scales = match turned(&to.kernel, scales) {
        Some(own) => own,
        None => transposed(to, at, scales)?,
    };
    let rank = to.kernel.ty(whole).shape()?.len();
    let made = scaled(to, at, [whole, scales], (2 * rank - 3 - along, halves))?;
    transposed(to, at, made)
}

/// What a value is the transpose of.
fn turned(kernel: &Kernel, v: Value) -> Option<Value> {
    let d = &kernel.insts[kernel.def_inst(v)?];
    let rank = kernel.ty(v).shape()?.len();
    (d.op == Op::Transpose && d.attrs.first() == Some(&Attr::Perm(last_two(rank)))).then(|| d.args[0])
}

/// The last two dimensions exchanged.
fn last_two(rank: usize) -> Shape {
    (0..rank as u32).map(|k| if k as usize + 2 < rank { k } else { 2 * rank as u32 - 3 - k }).collect()
}

fn transposed(to: &mut Rewrite, at: (Region, Inst), v: Value) -> Option<Value> {
    let (shape, elem) = (to.kernel.ty(v).shape()?, to.kernel.ty(v).elem());
    let perm = last_two(shape.len());
    let shape: Shape = perm.iter().map(|&k| shape[k as usize]).collect();
    Some(to.put(at, (Op::Transpose, &[v], &[Attr::Perm(perm)]), Type::Tile(TileType { shape, elem })))
}

/// An operand whose elements are multiplied by the scales of their blocks along a dimension.
fn scaled(to: &mut Rewrite, at: (Region, Inst), [operand, scales]: [Value; 2], (along, halves): (usize, bool)) -> Option<Value> {
    let shape = to.kernel.ty(operand).shape().map(Shape::from_slice)?;
    let blocks = to.kernel.ty(scales).shape().map(Shape::from_slice)?;
    let split = |extents: &Shape, inner: u32| {
        let mut out = extents.clone();
        out.insert(along + 1, inner);
        out
    };
    let elem = if halves { Scalar::BF16 } else { Scalar::F32 };
    let parts = split(&blocks, SCALE_BLOCK);
    let elements = cast_as(to, at, operand, (&parts, elem));
    let factors = cast_as(to, at, scales, (&split(&blocks, 1), elem));
    let ty = tile(&parts, elem);
    let factors = to.put(at, (Op::Broadcast, &[factors], &[]), ty.clone());
    let mut products = to.put(at, (Op::Mul, &[elements, factors], &[]), ty);
    if !halves {
        products = upper_half(to, at, products, &parts);
    }
    Some(to.put(at, (Op::Reshape, &[products], &[]), tile(&shape, Scalar::BF16)))
}

/// The `bf16` that are the upper halves of numbers: of few bits, so that nothing is rounded.
fn upper_half(to: &mut Rewrite, at: (Region, Inst), v: Value, extents: &Shape) -> Value {
    let by = to.number(at, 16);
    let by = to.put(at, (Op::Splat, &[by], &[]), tile(extents, Scalar::I32));
    let bits = to.put(at, (Op::Bitcast, &[v], &[]), tile(extents, Scalar::I32));
    let bits = to.put(at, (Op::ShrU, &[bits, by], &[]), tile(extents, Scalar::I32));
    let bits = to.put(at, (Op::Cast, &[bits], &[]), tile(extents, Scalar::I16));
    to.put(at, (Op::Bitcast, &[bits], &[]), tile(extents, Scalar::BF16))
}

/// A tile under other extents, its elements as another type.
fn cast_as(to: &mut Rewrite, at: (Region, Inst), v: Value, (extents, elem): (&Shape, Scalar)) -> Value {
    let narrow = tile(extents, to.kernel.ty(v).elem());
    let narrow = to.put(at, (Op::Reshape, &[v], &[]), narrow);
    to.put(at, (Op::Cast, &[narrow], &[]), tile(extents, elem))
}

fn tile(extents: &Shape, elem: Scalar) -> Type {
    Type::Tile(TileType { shape: extents.clone(), elem })
}
