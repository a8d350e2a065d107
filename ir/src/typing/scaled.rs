//! Products of block-scaled operands.

use super::checks::TypeError;
use crate::ops::Op;
use crate::types::{Scalar, TileType, Type};

/// Elements along K that one scale is for.
pub const SCALE_BLOCK: u32 = 32;

/// The type of a block-scaled product: that of its accumulator.
pub(super) fn dot_scaled(op: Op, args: &[&Type]) -> Result<Type, TypeError> {
    let &[Type::Tile(a), Type::Tile(scale_a), Type::Tile(b), Type::Tile(scale_b), Type::Tile(c)] = args else {
        let types: Vec<String> = args.iter().map(ToString::to_string).collect();
        return Err(format!(
            "`{op}` takes five tiles, operand and scales of A, operand and scales of B, accumulator, not {}",
            types.join(", ")
        ));
    };
    elements(op, [a, b], [scale_a, scale_b], c)?;
    let [k_a, k_b] = extents(op, [a, b, c])?;
    scales(op, a, scale_a, k_a)?;
    scales(op, b, scale_b, k_b)?;
    Ok(Type::Tile(c.clone()))
}

fn elements(op: Op, operands: [&TileType; 2], scales: [&TileType; 2], c: &TileType) -> Result<(), TypeError> {
    for (name, t) in ["A", "B"].into_iter().zip(operands) {
        if !matches!(t.elem, Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F4E2M1) {
            return Err(format!(
                "operand {name} of `{op}` is of {}; it takes f8e4m3, f8e5m2 and f4e2m1: cast it, or scale it with `mul` and use `dot`",
                t.elem
            ));
        }
    }
    for (name, t) in ["A", "B"].into_iter().zip(scales) {
        if t.elem != Scalar::F8E8M0 {
            return Err(format!(
                "the scales of operand {name} of `{op}` are {t}; they must be of f8e8m0: bitcast codes of i8, cast numbers"
            ));
        }
    }
    if c.elem != Scalar::F32 {
        return Err(format!("`{op}` accumulates in f32, not {}; cast the accumulator", c.elem));
    }
    Ok(())
}

/// Checks that the matrices fit each other; the dimensions along K.
fn extents(op: Op, [a, b, c]: [&TileType; 3]) -> Result<[usize; 2], TypeError> {
    let rank = a.shape.len();
    if !(2..=3).contains(&rank) || b.shape.len() != rank || c.shape.len() != rank {
        return Err(format!("`{op}` takes matrices, or batches of them, not {a}, {b}, {c}; reshape them"));
    }
    let (row, column) = (rank - 2, rank - 1);
    if a.shape[column] != b.shape[row] || c.shape[row] != a.shape[row] || c.shape[column] != b.shape[column] {
        return Err(format!("`{op}` of {a} by {b} into {c}: shapes must be MxK, KxN and MxN"));
    }
    if a.shape[..row] != b.shape[..row] || a.shape[..row] != c.shape[..row] {
        return Err(format!("`{op}` of {a} by {b} into {c}: the leading extents must agree; broadcast one of the operands"));
    }
    if !a.shape[column].is_multiple_of(SCALE_BLOCK) {
        return Err(format!(
            "`{op}` of {a} by {b}: K is {}; a scale is for {SCALE_BLOCK} elements along K, so it must be a multiple",
            a.shape[column]
        ));
    }
    Ok([column, row])
}

/// Checks that an operand has a scale for each block along a dimension.
fn scales(op: Op, operand: &TileType, scales: &TileType, along: usize) -> Result<(), TypeError> {
    let mut want = TileType { shape: operand.shape.clone(), elem: Scalar::F8E8M0 };
    want.shape[along] /= SCALE_BLOCK;
    if *scales == want {
        return Ok(());
    }
    Err(format!("the scales of {operand} in `{op}` are {scales}; one for each {SCALE_BLOCK} elements along K makes {want}"))
}
