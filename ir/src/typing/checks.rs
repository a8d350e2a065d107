//! Checks that several typing rules make.

use crate::ops::{Attr, Op, Precision};
use crate::types::{Class, MAX_RANK, MAX_TILE_ELEMENTS, Scalar, TileType, Type};

/// Why an instruction has no type: a sentence that names the operand and the remedy.
pub type TypeError = String;

/// Checks extents: positive, at most [`MAX_RANK`] of them, at most [`MAX_TILE_ELEMENTS`] elements.
pub(crate) fn check_tile(t: &TileType) -> Result<(), TypeError> {
    if t.shape.is_empty() || t.shape.len() > MAX_RANK {
        return Err(format!("{t} has {} dimensions; a tile has 1 to {MAX_RANK}", t.shape.len()));
    }
    if t.shape.contains(&0) {
        return Err(format!("{t} has an extent 0; extents are positive"));
    }
    if t.elements() > MAX_TILE_ELEMENTS {
        return Err(format!("{t} has more than {MAX_TILE_ELEMENTS} elements; use a smaller tile and a loop"));
    }
    Ok(())
}

pub(crate) fn indices(op: Op, args: &[&Type], rank: usize) -> Result<(), TypeError> {
    for i in 0..rank {
        match args.get(1 + i) {
            Some(Type::Scalar(Scalar::I32)) => {}
            Some(t) => return Err(format!("index {i} of `{op}` is {t}; indices are scalar i32")),
            None => return Err(format!("`{op}` needs {rank} indices, one per dimension of the view")),
        }
    }
    Ok(())
}

pub(crate) fn mask(op: Op, arg: Option<&&Type>, t: &TileType) -> Result<(), TypeError> {
    let want = TileType { shape: t.shape.clone(), elem: Scalar::I1 };
    match arg {
        Some(Type::Tile(m)) if *m == want => Ok(()),
        Some(m) => Err(format!("the mask of `{op}` is {m}; it must be {want}")),
        None => Err(format!("the mask of `{op}` is missing")),
    }
}

pub(crate) fn dot_type(op: Op, [a, b, c]: [&TileType; 3], attrs: &[Attr]) -> Result<Type, TypeError> {
    let rank = a.shape.len();
    if !(2..=3).contains(&rank) || b.shape.len() != rank || c.shape.len() != rank {
        return Err(format!("`{op}` takes matrices, or batches of them, not {a}, {b}, {c}; reshape them"));
    }
    let (row, column) = (rank - 2, rank - 1);
    let batch = |t: &TileType| if rank == 3 { Some(t.shape[0]) } else { None };
    if a.shape[column] != b.shape[row] || c.shape[row] != a.shape[row] || c.shape[column] != b.shape[column] {
        return Err(format!("`{op}` of {a} by {b} into {c}: shapes must be MxK, KxN and MxN"));
    }
    if batch(a) != batch(b) || batch(a) != batch(c) {
        return Err(format!("`{op}` of {a} by {b} into {c}: the leading extents must agree; broadcast one of the operands"));
    }
    let narrow = |s: Scalar| s.class() == Class::Narrow && s != Scalar::F8E8M0;
    let small = |s: Scalar| matches!(s, Scalar::I8 | Scalar::I4);
    let mixed = (narrow(a.elem) && narrow(b.elem)) || (small(a.elem) && small(b.elem));
    if a.elem != b.elem && !mixed {
        return Err(format!("operands of `{op}` are {} and {}; cast one of them", a.elem, b.elem));
    }
    let acc_ok = match a.elem {
        Scalar::F16 => matches!(c.elem, Scalar::F32 | Scalar::F16),
        Scalar::BF16 | Scalar::F32 => c.elem == Scalar::F32,
        Scalar::F64 => c.elem == Scalar::F64,
        Scalar::I4 | Scalar::I8 => c.elem == Scalar::I32,
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F4E2M1 => c.elem == Scalar::F32,
        Scalar::F8E8M0 | Scalar::I1 | Scalar::I16 | Scalar::I32 | Scalar::I64 => false,
    };
    if !acc_ok {
        return Err(format!(
            "`{op}` of {} can't accumulate in {}: f16 in f16 or f32, bf16, f32 and floats of 8 and 4 bits in f32, f64 in f64, i8 and i4 in i32",
            a.elem, c.elem
        ));
    }
    if let Some(Attr::Precision(p @ (Precision::Tf32 | Precision::Tf32x3))) = attrs.first()
        && a.elem != Scalar::F32
    {
        return Err(format!("`{op} … {p}` takes f32 operands, not {}", a.elem));
    }
    Ok(Type::Tile(c.clone()))
}
