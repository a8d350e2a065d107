//! Typing of the ops that take tiles of indices, count, and sort; called by [`crate::typing`].

use crate::ops::{AtomicOp, Attr, Op};
use crate::types::{Scalar, Shape, TileType, Type, ViewType};
use crate::typing::checks::{TypeError, mask};

/// The view, and the shape that its index tiles share.
pub(crate) fn indexed<'a>(op: Op, args: &[&'a Type]) -> Result<(&'a ViewType, &'a Shape), TypeError> {
    let Some(v) = args[0].as_view() else { return Err(format!("`{op}` takes a view, not {}", args[0])) };
    if v.elem.is_packed() {
        return Err(format!("`{op}` takes single elements, and two {} share a byte; pass a view<i8> and bitcast", v.elem));
    }
    let rank = v.rank();
    let mut shape: Option<&Shape> = None;
    for i in 0..rank {
        match args.get(1 + i) {
            Some(Type::Tile(t)) if t.elem == Scalar::I32 => {
                let first = *shape.get_or_insert(&t.shape);
                if t.shape != *first {
                    let want = TileType { shape: first.clone(), elem: Scalar::I32 };
                    return Err(format!("index {i} of `{op}` is {t}; it must be {want} as index 0 is, so broadcast one of them"));
                }
            }
            Some(t) => return Err(format!("index {i} of `{op}` is {t}; indices are tiles of i32, so splat a scalar or cast")),
            None => return Err(format!("`{op}` needs {rank} tiles of indices, one per dimension of the view")),
        }
    }
    shape.map(|s| (v, s)).ok_or_else(|| format!("`{op}` needs a view with a dimension"))
}

/// Checks that operand `at` is a tile of a type.
fn operand(op: Op, name: &str, arg: Option<&&Type>, want: &TileType) -> Result<(), TypeError> {
    match arg {
        Some(Type::Tile(t)) if t == want => Ok(()),
        Some(t) => Err(format!("the {name} of `{op}` is {t}; with these indices and this view it must be {want}")),
        None => Err(format!("the {name} of `{op}` is missing")),
    }
}

pub(crate) fn gather(op: Op, args: &[&Type], present: u8) -> Result<Type, TypeError> {
    let (v, shape) = indexed(op, args)?;
    let t = TileType { shape: shape.clone(), elem: v.elem };
    let mut rest = args[1 + v.rank()..].iter();
    if present & 0b0100 != 0 {
        mask(op, rest.next(), &t)?;
    }
    if present & 0b1000 != 0 {
        let other = rest.next().ok_or("`other` is missing")?;
        if **other != Type::Scalar(t.elem) {
            return Err(format!("`other` of a gather is {other}; it must be a scalar {}", t.elem));
        }
    }
    Ok(Type::Tile(t))
}

pub(crate) fn scatter(op: Op, args: &[&Type], present: u8) -> Result<(), TypeError> {
    let (v, shape) = indexed(op, args)?;
    let t = TileType { shape: shape.clone(), elem: v.elem };
    operand(op, "value", args.get(1 + v.rank()), &t)?;
    if present & 0b1000 != 0 {
        mask(op, args.get(2 + v.rank()), &t)?;
    }
    Ok(())
}

pub(crate) fn atomic(op: Op, args: &[&Type], present: u8, attrs: &[Attr]) -> Result<Type, TypeError> {
    let (v, shape) = indexed(op, args)?;
    let t = TileType { shape: shape.clone(), elem: v.elem };
    let mut at = 1 + v.rank();
    if op == Op::AtomicCas {
        operand(op, "compare operand", args.get(at), &t)?;
        at += 1;
    }
    operand(op, "value", args.get(at), &t)?;
    let masked = if op == Op::AtomicCas { present & 0b1_0000 != 0 } else { present & 0b1000 != 0 };
    if masked {
        mask(op, args.get(at + 1), &t)?;
    }
    let word = if op == Op::AtomicCas {
        None
    } else if let Some(Attr::Atomic(a)) = attrs.first() {
        Some(*a)
    } else {
        return Err("`atomic` needs what to do: atomic add v0[v1], v2".into());
    };
    let whole = t.elem.bits() == 32 || t.elem.bits() == 64;
    let ok = match word {
        Some(AtomicOp::Add) => whole || t.elem.is_float() && t.elem.bits() == 16,
        Some(AtomicOp::Xchg) => whole,
        Some(AtomicOp::Min | AtomicOp::Max | AtomicOp::Umin | AtomicOp::Umax | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) | None => {
            whole && t.elem.is_int()
        }
    };
    if !ok {
        let name = word.map_or_else(|| op.to_string(), |w| format!("{op} {w}"));
        return Err(format!(
            "`{name}` does not take {}: all updates take i32 and i64, `add` and `xchg` f32 and f64, `add` f16 and bf16",
            t.elem
        ));
    }
    Ok(Type::Tile(t))
}

/// A tile operand and the axis attribute.
fn along<'a>(op: Op, arg: &'a Type, attr: Option<&Attr>) -> Result<(&'a TileType, usize), TypeError> {
    let Type::Tile(t) = arg else { return Err(format!("`{op}` takes a tile, not {arg}")) };
    match attr {
        Some(Attr::Dim(d)) if (*d as usize) < t.shape.len() => Ok((t, *d as usize)),
        Some(Attr::Dim(d)) => Err(format!("{t} has no axis {d}")),
        Some(_) | None => Err(format!("`{op}` needs an axis: {op} v0, axis 1")),
    }
}

pub(crate) fn gather_tile(args: &[&Type], attrs: &[Attr]) -> Result<Type, TypeError> {
    let op = Op::GatherTile;
    let (a, axis) = along(op, args[0], attrs.first())?;
    let Type::Tile(i) = args[1] else { return Err(format!("the indices of `{op}` are {}; they must be a tile of i32", args[1])) };
    if i.elem != Scalar::I32 {
        return Err(format!("the indices of `{op}` are {i}; they must be i32, so cast them"));
    }
    let fits = i.shape.len() == a.shape.len() && i.shape.iter().zip(&a.shape).enumerate().all(|(d, (p, q))| d == axis || p == q);
    if !fits {
        return Err(format!("`{op}` of {a} by {i} along axis {axis}: the other extents must agree"));
    }
    Ok(Type::Tile(TileType { shape: i.shape.clone(), elem: a.elem }))
}

pub(crate) fn histogram(args: &[&Type], present: u8, t: TileType) -> Result<Type, TypeError> {
    let op = Op::Histogram;
    let a = match args[0] {
        Type::Tile(a) if a.elem.is_int() => a,
        other => return Err(format!("`{op}` counts the elements of a tile of integers, not of {other}")),
    };
    if t.elem != Scalar::I32 || t.shape.len() != 1 {
        return Err(format!("`{op}` makes a tile of one dimension of i32, not {t}"));
    }
    if present & 0b10 != 0 {
        mask(op, args.get(1), a)?;
    }
    Ok(Type::Tile(t))
}

fn direction(op: Op, attrs: &[Attr]) -> Result<(), TypeError> {
    match attrs.first() {
        Some(Attr::Sort(_)) => Ok(()),
        Some(_) | None => Err(format!("`{op}` needs a direction: {op} ascending v0, axis 0")),
    }
}

/// 8-bit floats are not compared; they have no arithmetic at all.
fn ordered(op: Op, t: &Type) -> Result<(), TypeError> {
    if t.elem().is_narrow() { Err(format!("`{op}` does not compare {} elements; use cast", t.elem())) } else { Ok(()) }
}

pub(crate) fn sort(op: Op, args: &[&Type], attrs: &[Attr]) -> Result<Type, TypeError> {
    direction(op, attrs)?;
    ordered(op, args[0])?;
    let (a, _) = along(op, args[0], attrs.get(1))?;
    let elem = if op == Op::ArgSort { Scalar::I32 } else { a.elem };
    Ok(Type::Tile(TileType { shape: a.shape.clone(), elem }))
}

pub(crate) fn top_k(op: Op, args: &[&Type], attrs: &[Attr], t: TileType) -> Result<Type, TypeError> {
    direction(op, attrs)?;
    ordered(op, args[0])?;
    let (a, axis) = along(op, args[0], attrs.get(1))?;
    let elem = if op == Op::ArgTopK { Scalar::I32 } else { a.elem };
    let fits = t.elem == elem
        && t.shape.len() == a.shape.len()
        && t.shape.iter().zip(&a.shape).enumerate().all(|(d, (p, q))| if d == axis { p <= q } else { p == q });
    if !fits {
        return Err(format!(
            "`{op}` of {a} along axis {axis} can't make {t}: element {elem}, and the same extents but a smaller one there"
        ));
    }
    Ok(Type::Tile(t))
}
