//! Typing: the result type of an instruction, from its operands, attributes and written type.
//!
//! One function per the table's [`Rule`], used by the builder, the parser and the verifier alike, so that the three cannot differ.

mod checks;
mod explicit;
mod indexed;
mod scaled;
#[cfg(test)]
mod tests;

pub use checks::TypeError;
pub(crate) use checks::check_tile;
pub use explicit::NAMED_BARRIERS;
pub(crate) use explicit::{MAX_WARPS, check_handle};
pub use scaled::SCALE_BLOCK;

use crate::ops::{Attr, Op, ReduceOp, Rule};
use crate::types::{Class, MAX_RANK, Scalar, Shape, TileType, Type};
use crate::typing::checks::{dot_type, indices, mask};
use explicit as explicit_control;
use smallvec::SmallVec;

fn same<'a>(op: Op, args: &[&'a Type]) -> Result<&'a Type, TypeError> {
    let first = args[0];
    if matches!(first, Type::View(_)) || first.is_handle() {
        return Err(format!("`{op}` takes scalars or tiles, not {first}; load it first"));
    }
    for (i, t) in args.iter().enumerate().skip(1) {
        if *t != first {
            return Err(format!(
                "operands of `{op}` differ in type: operand 1 is {first}, operand {} is {t}; use cast, splat or broadcast to make them equal",
                i + 1
            ));
        }
    }
    Ok(first)
}

fn of_class(op: Op, t: &Type, classes: &[Class]) -> Result<Type, TypeError> {
    if classes.contains(&t.elem().class()) {
        return Ok(t.clone());
    }
    let want = classes.iter().map(|c| format!("{c:?}").to_lowercase()).collect::<Vec<_>>().join(" or ");
    Err(format!("`{op}` takes {want} elements, not {}; use cast", t.elem()))
}

fn written(op: Op, explicit: Option<&Type>) -> Result<Type, TypeError> {
    let t = explicit.ok_or_else(|| format!("`{op}` needs its result type: write `: type`"))?;
    match t {
        Type::Tile(tile) => check_tile(tile)?,
        Type::View(_) => return Err(format!("`{op}` can't make a view; views are kernel parameters")),
        Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => return Err(format!("`{op}` can't make {t}; allocate it")),
        Type::Scalar(_) => {}
    }
    Ok(t.clone())
}

fn written_tile(op: Op, explicit: Option<&Type>) -> Result<TileType, TypeError> {
    match written(op, explicit)? {
        Type::Tile(t) => Ok(t),
        t => Err(format!("`{op}` makes a tile, not {t}")),
    }
}

/// The types of all results of an op that does not take them from its regions; see [`result_type`].
///
/// # Errors
/// A sentence that names the mismatch and the remedy.
pub fn result_types(
    op: Op,
    args: &[&Type],
    present: u8,
    attrs: &[Attr],
    explicit: Option<&Type>,
) -> Result<SmallVec<[Type; 1]>, TypeError> {
    if op.info().rule == Rule::Receive {
        return explicit_control::receive(op, args).map(SmallVec::from_vec);
    }
    let one = result_type(op, args, present, attrs, explicit)?;
    let mut all = SmallVec::new();
    if let Some(ty) = one {
        (1..op.info().results()).for_each(|_| all.push(ty.clone()));
        all.push(ty);
    }
    Ok(all)
}

/// The type of each result of `op` (none or one for everything but control, whose results the caller takes from its regions, and
/// `channel_get`, whose results [`result_types`] has).
///
/// `args` are the operands in the row's order, keyword operands only if present (`present` is a bit per operand of the row).
///
/// # Errors
/// A sentence that names the mismatch and the remedy.
pub fn result_type(op: Op, args: &[&Type], present: u8, attrs: &[Attr], explicit: Option<&Type>) -> Result<Option<Type>, TypeError> {
    use Class::{Bool, Float, Int};
    let info = op.info();
    if !info.typed()
        && let Some(t) = explicit
    {
        return Err(format!("`{op}` infers its type; remove `: {t}`"));
    }
    match info.rule {
        Rule::Explicit => match written(op, explicit)? {
            Type::Scalar(s) => Ok(Some(Type::Scalar(s))),
            t => Err(format!("`{op}` makes a scalar, not {t}; use splat")),
        },
        Rule::SameNumber => of_class(op, same(op, args)?, &[Int, Float]).map(Some),
        Rule::SameFloat => of_class(op, same(op, args)?, &[Float]).map(Some),
        Rule::SameInt => of_class(op, same(op, args)?, &[Int]).map(Some),
        Rule::SameBits => of_class(op, same(op, args)?, &[Int, Bool]).map(Some),
        Rule::Compare => {
            let t = same(op, args)?;
            if t.elem().is_narrow() {
                return Err(format!(
                    "`cmp` does not compare {}; cast the operands to {}, which is exact",
                    t.elem(),
                    if t.elem().is_float() { "f16 or f32" } else { "i8" }
                ));
            }
            if let Some(Attr::Cmp(c)) = attrs.first()
                && c.is_unsigned()
                && !t.elem().is_int()
            {
                return Err(format!("`cmp {c}` compares integers, not {}", t.elem()));
            }
            Ok(Some(t.with_elem(Scalar::I1)))
        }
        Rule::Select => {
            let t = same(op, &args[1..])?;
            let c = args[0];
            if c.elem() != Scalar::I1 || matches!(c, Type::View(_)) {
                return Err(format!("the condition of `select` is {c}; it must be i1 or {}", t.with_elem(Scalar::I1)));
            }
            if !matches!(c, Type::Scalar(_)) && c.shape() != t.shape() {
                return Err(format!("the condition of `select` is {c}, the operands are {t}; shapes must agree"));
            }
            Ok(Some(t.clone()))
        }
        Rule::Index => {
            if op == Op::Dim {
                let Type::View(v) = args[0] else { return Err(format!("`dim` takes a view, not {}", args[0])) };
                if let Some(Attr::Dim(d)) = attrs.first()
                    && *d as usize >= v.rank()
                {
                    return Err(format!("{v} has {} dimensions; there is no dimension {d}", v.rank()));
                }
            }
            Ok(Some(Type::Scalar(Scalar::I32)))
        }
        Rule::Iota => {
            let t = written_tile(op, explicit)?;
            if !t.elem.is_int() {
                return Err(format!("`iota` makes integers, not {}; cast the result", t.elem));
            }
            if let Some(Attr::Dim(d)) = attrs.first()
                && *d as usize >= t.shape.len()
            {
                return Err(format!("{t} has no dimension {d}"));
            }
            Ok(Some(Type::Tile(t)))
        }
        Rule::Splat => {
            let t = written_tile(op, explicit)?;
            if *args[0] != Type::Scalar(t.elem) {
                return Err(format!("`splat` of {} can't make {t}; the operand must be a scalar {}", args[0], t.elem));
            }
            Ok(Some(Type::Tile(t)))
        }
        Rule::Cast | Rule::Bitcast => {
            let t = written(op, explicit)?;
            if info.rule == Rule::Bitcast && t.elem().bits() + args[0].elem().bits() == 12 {
                return halves_type(args[0], &t).map(Some);
            }
            if matches!(args[0], Type::View(_)) || t.shape() != args[0].shape() {
                return Err(format!("`{op}` keeps the shape: {} can't become {t}", args[0]));
            }
            if info.rule == Rule::Bitcast && t.elem().bits() != args[0].elem().bits() {
                return Err(format!(
                    "`bitcast` keeps the width: {} has {} bits, {} has {}",
                    args[0],
                    args[0].elem().bits(),
                    t,
                    t.elem().bits()
                ));
            }
            Ok(Some(t))
        }
        Rule::Broadcast => {
            let t = written_tile(op, explicit)?;
            let ok = args[0].as_tile().is_some_and(|a| {
                a.elem == t.elem && a.shape.len() == t.shape.len() && a.shape.iter().zip(&t.shape).all(|(a, b)| a == b || *a == 1)
            });
            if !ok {
                return Err(format!("`broadcast` can't make {t} of {}: same rank and element, and each extent equal or 1", args[0]));
            }
            Ok(Some(Type::Tile(t)))
        }
        Rule::Reshape => {
            let t = written(op, explicit)?;
            let count = |t: &Type| t.shape().map(|s| s.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e))));
            if count(args[0]).is_none() || count(args[0]) != count(&t) || args[0].elem() != t.elem() {
                return Err(format!("`reshape` keeps elements and their number: {} can't become {t}", args[0]));
            }
            Ok(Some(t))
        }
        Rule::Transpose => {
            let Type::Tile(a) = args[0] else { return Err(format!("`transpose` takes a tile, not {}", args[0])) };
            let Some(Attr::Perm(p)) = attrs.first() else { return Err("`transpose` needs a permutation such as [1, 0]".into()) };
            let mut seen = [false; MAX_RANK];
            let valid = p.len() == a.shape.len()
                && p.len() <= MAX_RANK
                && p.iter().all(|&d| (d as usize) < a.shape.len() && !std::mem::replace(&mut seen[d as usize], true));
            if !valid {
                return Err(format!("{p:?} is no permutation of the {} dimensions of {a}", a.shape.len()));
            }
            let shape: Shape = p.iter().map(|&d| a.shape[d as usize]).collect();
            Ok(Some(Type::Tile(TileType { shape, elem: a.elem })))
        }
        Rule::Reduce => {
            let Type::Tile(a) = args[0] else { return Err(format!("`reduce` takes a tile, not {}", args[0])) };
            let (Some(Attr::Reduce(r)), Some(Attr::Dim(d))) = (attrs.first(), attrs.get(1)) else {
                return Err("`reduce` needs a combining op and an axis: reduce add v0, axis 1".into());
            };
            combines(op, *r, a.elem)?;
            if *d as usize >= a.shape.len() {
                return Err(format!("{a} has no axis {d}"));
            }
            let shape: Shape = a.shape.iter().enumerate().filter(|(i, _)| *i != *d as usize).map(|(_, &e)| e).collect();
            Ok(Some(Type::of_shape(&shape, a.elem)))
        }
        Rule::Join => {
            let Type::Tile(a) = same(op, args)? else {
                return Err(format!("`join` takes tiles, not {}; splat or reshape it first", args[0]));
            };
            let mut shape = a.shape.clone();
            shape.push(2);
            made(TileType { shape, elem: a.elem })
        }
        Rule::Split => match args[0] {
            Type::Tile(a) if a.shape.last() == Some(&2) => Ok(Some(Type::of_shape(&a.shape[..a.shape.len() - 1], a.elem))),
            t => Err(format!("`split` takes a tile whose last extent is 2, not {t}; reshape it first")),
        },
        Rule::Concat => {
            let (Type::Tile(a), Type::Tile(b)) = (args[0], args[1]) else {
                return Err(format!("`concat` takes tiles, not {} and {}; splat a scalar first", args[0], args[1]));
            };
            let axis = axis_of(op, a, attrs, 0)?;
            let agree = a.elem == b.elem
                && a.shape.len() == b.shape.len()
                && a.shape.iter().zip(&b.shape).enumerate().all(|(i, (x, y))| i == axis || x == y);
            if !agree {
                return Err(format!("`concat` of {a} and {b} along axis {axis}: elements and the other extents must agree"));
            }
            let mut shape = a.shape.clone();
            shape[axis] = shape[axis].saturating_add(b.shape[axis]);
            made(TileType { shape, elem: a.elem })
        }
        Rule::Slice => {
            let t = written_tile(op, explicit)?;
            let Type::Tile(a) = args[0] else { return Err(format!("`slice` takes a tile, not {}", args[0])) };
            let Some(Attr::Offsets(o)) = attrs.first() else {
                return Err("`slice` needs an offset per dimension: slice v0, [0, 8] : type".into());
            };
            if a.elem != t.elem || a.shape.len() != t.shape.len() || o.len() != t.shape.len() {
                return Err(format!("`slice` of {a} at {:?} can't make {t}: element, rank and number of offsets must agree", o.as_slice()));
            }
            if (0..o.len()).any(|i| o[i].saturating_add(t.shape[i]) > a.shape[i]) {
                return Err(format!("{t} at {:?} does not lie inside {a}; use smaller offsets or extents", o.as_slice()));
            }
            Ok(Some(Type::Tile(t)))
        }
        Rule::Flip => {
            let Type::Tile(a) = args[0] else { return Err(format!("`{op}` takes a tile, not {}", args[0])) };
            axis_of(op, a, attrs, 0)?;
            Ok(Some(args[0].clone()))
        }
        Rule::Scan => {
            let Type::Tile(a) = args[0] else { return Err(format!("`{op}` takes a tile, not {}", args[0])) };
            let Some(Attr::Reduce(r)) = attrs.first() else {
                return Err(format!("`{op}` needs a combining op and an axis: {op} add v0, axis 1"));
            };
            combines(op, *r, a.elem)?;
            axis_of(op, a, attrs, 1)?;
            Ok(Some(args[0].clone()))
        }
        Rule::ArgReduce => {
            let Type::Tile(a) = args[0] else { return Err(format!("`{op}` takes a tile, not {}", args[0])) };
            if a.elem == Scalar::I1 || a.elem.is_narrow() {
                return Err(format!("`{op}` does not compare {} elements; use cast", a.elem));
            }
            if a.elem.is_narrow() {
                return Err(format!("`{op}` does not compare {}; cast the tile to f16 or f32, which is exact", a.elem));
            }
            let axis = axis_of(op, a, attrs, 0)?;
            let shape: Shape = a.shape.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, &e)| e).collect();
            Ok(Some(Type::of_shape(&shape, Scalar::I32)))
        }
        Rule::Assume => match (args[0], attrs.first()) {
            (_, Some(Attr::Divisor(0)) | None) => Err("`assume` needs a positive divisor: assume v0, multiple 16".into()),
            (Type::Scalar(s), _) if s.is_int() => Ok(Some(args[0].clone())),
            (t, _) => Err(format!("`assume` takes a scalar integer, not {t}")),
        },
        Rule::Held => match args[0] {
            Type::Tile(t) if t.elem.is_packed() => {
                Err(format!("`{op}` takes no {t}, two elements of which share a byte; bitcast it to i8"))
            }
            Type::Tile(_) => Ok(Some(args[0].clone())),
            t => Err(format!("`{op}` takes a tile, not {t}: scalars have no layout")),
        },
        Rule::Assert => match args[0] {
            Type::Scalar(Scalar::I1) => Ok(None),
            Type::Tile(t) if t.elem == Scalar::I1 => Ok(None),
            t => Err(format!("the condition of `assert` is {t}; it must be i1, compare something")),
        },
        Rule::Print => match args.iter().find(|t| matches!(t, Type::View(_)) || t.is_handle()) {
            Some(t) => Err(format!("`print` takes scalars and tiles, not {t}; load a tile of it")),
            None if args.is_empty() => Err("`print` needs a value to report".into()),
            None => Ok(None),
        },
        Rule::Dot => {
            let (Type::Tile(a), Type::Tile(b), Type::Tile(c)) = (args[0], args[1], args[2]) else {
                return Err(format!("`dot` takes three tiles, not {}, {}, {}", args[0], args[1], args[2]));
            };
            dot_type(op, [a, b, c], attrs).map(Some)
        }
        Rule::DotScaled => scaled::dot_scaled(op, args).map(Some),
        Rule::Load => {
            let Type::View(v) = args[0] else { return Err(format!("`load` reads a view, not {}", args[0])) };
            let t = written_tile(op, explicit)?;
            if t.elem != v.elem || t.shape.len() != v.rank() {
                return Err(format!("`load` of {v} can't make {t}: element and rank must agree; reshape or cast the result"));
            }
            indices(op, args, v.rank())?;
            whole_bytes(op, &t)?;
            let mut rest = args[1 + v.rank()..].iter();
            if present & 0b0100 != 0 {
                mask(op, rest.next(), &t)?;
            }
            if present & 0b1000 != 0 {
                let other = rest.next().ok_or("`other` is missing")?;
                if **other != Type::Scalar(t.elem) {
                    return Err(format!("`other` of a load is {other}; it must be a scalar {}", t.elem));
                }
            }
            Ok(Some(Type::Tile(t)))
        }
        Rule::Prefetch => {
            let Type::View(v) = args[0] else { return Err(format!("`prefetch` is for a view, not {}", args[0])) };
            indices(op, args, v.rank())?;
            let Some(Attr::Offsets(shape)) = attrs.first() else {
                return Err("`prefetch` has no extents; write them behind it".into());
            };
            if shape.len() != v.rank() {
                return Err(format!("`prefetch` of {v} with {} extents; write one per dimension", shape.len()));
            }
            let t = TileType { shape: shape.clone(), elem: v.elem };
            check_tile(&t)?;
            whole_bytes(op, &t)?;
            Ok(None)
        }
        Rule::Store => {
            let Type::View(v) = args[0] else { return Err(format!("`store` writes a view, not {}", args[0])) };
            indices(op, args, v.rank())?;
            let Some(Type::Tile(t)) = args.get(1 + v.rank()) else {
                return Err("`store` needs a tile to store; splat a scalar first".into());
            };
            if t.elem != v.elem || t.shape.len() != v.rank() {
                return Err(format!("`store` of {t} into {v}: element and rank must agree; reshape or cast the tile"));
            }
            whole_bytes(op, t)?;
            if present & 0b1000 != 0 {
                mask(op, args.get(2 + v.rank()), t)?;
                if t.elem.is_packed() {
                    return Err(format!(
                        "`store` takes no mask for {}, two of which share a byte; store tiles of bytes (`bitcast` to i8) under a mask of bytes",
                        t.elem
                    ));
                }
            }
            Ok(None)
        }
        Rule::Gather => indexed::gather(op, args, present).map(Some),
        Rule::Scatter => indexed::scatter(op, args, present).map(|()| None),
        Rule::Atomic => indexed::atomic(op, args, present, attrs).map(Some),
        Rule::GatherTile => indexed::gather_tile(args, attrs).map(Some),
        Rule::Histogram => indexed::histogram(args, present, written_tile(op, explicit)?).map(Some),
        Rule::Sort | Rule::ArgSort => indexed::sort(op, args, attrs).map(Some),
        Rule::TopK | Rule::ArgTopK => indexed::top_k(op, args, attrs, written_tile(op, explicit)?).map(Some),
        Rule::Philox => match same(op, args)? {
            t if t.elem() == Scalar::I32 => Ok(Some(t.clone())),
            t => Err(format!("`{op}` takes words of i32, not {}; use cast or bitcast", t.elem())),
        },
        Rule::Handle => explicit_control::handle(op, args, present, attrs, explicit).map(Some),
        Rule::Local => explicit_control::local(op, args, attrs).map(Some),
        Rule::Act => explicit_control::act(op, args, present, attrs).map(|()| None),
        // Several results of different types: `result_types` and `combine_types` have them, or the regions' yields.
        Rule::ReduceBy | Rule::ScanBy | Rule::Control | Rule::Receive => Ok(None),
    }
}

/// The result types of `reduce_by` and the `scan_by` ops, which combine tiles of one shape along an axis.
///
/// # Errors
/// A sentence that names the mismatch and the remedy.
pub fn combine_types(op: Op, args: &[&Type], attrs: &[Attr]) -> Result<Vec<Type>, TypeError> {
    let Some(first) = args.first() else { return Err(format!("`{op}` needs a tile: {op} v0, axis 0 combine v1 with v2 {{ … }}")) };
    let mut tiles = Vec::new();
    for t in args {
        match t {
            Type::Tile(a) if t.shape() == first.shape() => tiles.push(a),
            Type::Tile(_) => return Err(format!("tiles of `{op}` differ in shape: {first} and {t}; use broadcast or reshape")),
            Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {
                return Err(format!("`{op}` takes tiles, not {t}; splat a scalar, load a view"));
            }
        }
    }
    let axis = axis_of(op, tiles[0], attrs, 0)?;
    let keep = op.info().rule == Rule::ScanBy;
    let kept = |a: &TileType| {
        let shape: Shape = a.shape.iter().enumerate().filter(|(i, _)| keep || *i != axis).map(|(_, &e)| e).collect();
        Type::of_shape(&shape, a.elem)
    };
    Ok(tiles.into_iter().map(kept).collect())
}

/// A tile type that the op makes, unless it breaks the limits.
fn made(t: TileType) -> Result<Option<Type>, TypeError> {
    check_tile(&t)?;
    Ok(Some(Type::Tile(t)))
}

/// Checks that a tile that is read or written holds whole bytes along its innermost axis.
fn whole_bytes(op: Op, t: &TileType) -> Result<(), TypeError> {
    if t.elem.is_packed() && t.shape.last().is_some_and(|e| e % 2 != 0) {
        return Err(format!("`{op}` of {t}: two {} share a byte, so the last extent must be even", t.elem));
    }
    Ok(())
}

/// A bitcast between elements of 8 and of 4 bits, which halves or doubles the innermost extent.
fn halves_type(from: &Type, to: &Type) -> Result<Type, TypeError> {
    if let (Type::Tile(a), Type::Tile(t)) = (from, to)
        && let (Some((&x, outer)), Some((&y, rest))) = (a.shape.split_last(), t.shape.split_last())
        && outer == rest
        && (if t.elem.is_packed() { x.checked_mul(2) == Some(y) } else { y.checked_mul(2) == Some(x) })
    {
        return Ok(to.clone());
    }
    Err(format!("`bitcast` of {from} can't make {to}: two elements of 4 bits are one of 8, so the last extent of a tile doubles or halves"))
}

/// The axis that attribute number `at` names.
fn axis_of(op: Op, a: &TileType, attrs: &[Attr], at: usize) -> Result<usize, TypeError> {
    match attrs.get(at) {
        Some(Attr::Dim(d)) if (*d as usize) < a.shape.len() => Ok(*d as usize),
        Some(Attr::Dim(d)) => Err(format!("{a} has no axis {d}")),
        Some(_) | None => Err(format!("`{op}` needs an axis")),
    }
}

/// Checks that a combining op takes elements of a type.
fn combines(op: Op, r: ReduceOp, elem: Scalar) -> Result<(), TypeError> {
    let ok = match r {
        ReduceOp::Add | ReduceOp::Mul | ReduceOp::Minimum | ReduceOp::Maximum => elem != Scalar::I1 && !elem.is_narrow(),
        ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => !elem.is_float() && !elem.is_narrow(),
    };
    if ok { Ok(()) } else { Err(format!("`{op} {r}` does not take {elem} elements; use cast")) }
}
