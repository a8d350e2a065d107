//! Typing of the ops on handles: local memory, barriers, async copies and products, clusters, channels; called by [`crate::typing`].

use crate::ops::{AtomicOp, Attr, Op};
use crate::types::{ChannelType, MAX_CHANNEL_TILES, MAX_LOCAL_BYTES, MAX_RANK, MAX_SLOTS, Scalar, Shape, SharedType, TileType, Type};
use crate::typing::checks::{TypeError, check_tile, dot_type, indices, mask};
use crate::typing::indexed::indexed;

/// The most arrivals or bytes of a barrier's phase: what its word can count.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;
/// The numbered barriers of a program instance.
pub const NAMED_BARRIERS: u32 = 15;
/// The most groups of copies by lanes that may stay in flight.
pub(crate) const MAX_GROUPS: u32 = 63;
/// The most warps of a program instance, and so the most tasks.
pub(crate) const MAX_WARPS: u32 = 32;

/// Checks the limits of a handle's type.
pub(crate) fn check_handle(t: &Type) -> Result<(), TypeError> {
    match t {
        Type::Shared(s) => check_shared(s),
        Type::Barrier(n) if !(1..=MAX_SLOTS).contains(n) => Err(format!("{t} has {n} barriers; there are 1 to {MAX_SLOTS} of them")),
        Type::Channel(c) => check_channel(c),
        Type::Barrier(_) | Type::Scalar(_) | Type::Tile(_) | Type::View(_) => Ok(()),
    }
}

fn check_shared(s: &SharedType) -> Result<(), TypeError> {
    check_tile(&s.tile())?;
    if s.bytes() > MAX_LOCAL_BYTES {
        return Err(format!(
            "{s} has {} bytes; a buffer of local memory has up to {MAX_LOCAL_BYTES}, so use smaller tiles or fewer slots",
            s.bytes()
        ));
    }
    if s.elem.is_packed() && s.shape.last().is_some_and(|e| e % 2 != 0) {
        return Err(format!("{s}: two {} share a byte, so the last extent must be even", s.elem));
    }
    Ok(())
}

fn check_channel(c: &ChannelType) -> Result<(), TypeError> {
    if !(1..=MAX_SLOTS).contains(&c.depth) {
        return Err(format!("{c} has {} slots; there are 1 to {MAX_SLOTS} of them", c.depth));
    }
    if !(1..=MAX_CHANNEL_TILES).contains(&c.tiles.len()) {
        return Err(format!("{c} has {} tiles in a slot; there are 1 to {MAX_CHANNEL_TILES} of them", c.tiles.len()));
    }
    let slots = |t: &TileType| SharedType { shape: std::iter::once(c.depth).chain(t.shape.iter().copied()).collect(), elem: t.elem };
    c.tiles.iter().try_for_each(|t| check_shared(&slots(t)))?;
    let bytes = c.tiles.iter().map(|t| slots(t).bytes() / u64::from(c.depth)).sum::<u64>();
    if bytes > u64::from(MAX_COUNT) {
        return Err(format!("a slot of {c} has {bytes} bytes; a barrier counts up to {MAX_COUNT}, so use smaller tiles"));
    }
    Ok(())
}

fn shared<'a>(op: Op, name: &str, t: Option<&&'a Type>) -> Result<&'a SharedType, TypeError> {
    match t {
        Some(Type::Shared(s)) => Ok(s),
        Some(t) => Err(format!("the {name} of `{op}` is {t}; it must be local memory, so allocate it with `local_alloc`")),
        None => Err(format!("the {name} of `{op}` is missing")),
    }
}

/// One barrier.
fn barrier(op: Op, t: Option<&&Type>) -> Result<(), TypeError> {
    match t {
        Some(Type::Barrier(1)) => Ok(()),
        Some(Type::Barrier(n)) => Err(format!("the barrier of `{op}` is barrier<{n}>; choose one of them with `barrier_index`")),
        Some(t) => Err(format!("the barrier of `{op}` is {t}; it must be a barrier, so allocate it with `barrier_alloc`")),
        None => Err(format!("the barrier of `{op}` is missing")),
    }
}

fn number(op: Op, name: &str, t: Option<&&Type>) -> Result<(), TypeError> {
    match t {
        Some(Type::Scalar(Scalar::I32)) => Ok(()),
        Some(t) => Err(format!("the {name} of `{op}` is {t}; it must be a scalar i32")),
        None => Err(format!("the {name} of `{op}` is missing")),
    }
}

/// A tile that fills a buffer.
fn filling(op: Op, t: Option<&&Type>, s: &SharedType) -> Result<(), TypeError> {
    match t {
        Some(Type::Tile(t)) if *t == s.tile() => Ok(()),
        Some(t) => Err(format!("the value of `{op}` is {t}; the buffer {s} takes {}", s.tile())),
        None => Err(format!("the value of `{op}` is missing")),
    }
}

/// A number attribute within bounds.
fn count(op: Op, what: &str, attr: Option<&Attr>, bounds: std::ops::RangeInclusive<u32>) -> Result<(), TypeError> {
    match attr {
        Some(Attr::Count(n)) if bounds.contains(n) => Ok(()),
        Some(Attr::Count(n)) => Err(format!("`{op}` has {n} {what}; it takes {} to {}", bounds.start(), bounds.end())),
        Some(_) | None => Err(format!("`{op}` needs its {what}")),
    }
}

/// The result of a [`crate::ops::Rule::Handle`].
pub(crate) fn handle(op: Op, args: &[&Type], present: u8, attrs: &[Attr], explicit: Option<&Type>) -> Result<Type, TypeError> {
    let t = explicit.ok_or_else(|| format!("`{op}` needs its result type: write `: type`"))?;
    let made = |what: &str| Err(format!("`{op}` makes {what}, not {t}"));
    match (op, t) {
        (Op::BarrierAlloc, Type::Barrier(_)) => count(op, "arrivals", attrs.first(), 1..=MAX_COUNT)?,
        (Op::BarrierAlloc, _) => return made("barriers"),
        (Op::ChannelAlloc, Type::Channel(_)) => count(op, "consumers", attrs.first(), 1..=MAX_WARPS)?,
        (Op::ChannelAlloc, _) => return made("a channel"),
        (Op::LocalAlloc, Type::Shared(s)) => {
            match attrs.first() {
                Some(Attr::Count(0 | 32 | 64 | 128)) => {}
                Some(Attr::Count(n)) => {
                    return Err(format!("rows of {n} bytes are not swizzled; write `swizzle=32`, 64 or 128, or leave it out"));
                }
                Some(_) | None => return Err(format!("`{op}` needs its swizzle: 0 leaves it open")),
            }
            if present & 1 != 0 {
                let of = shared(op, "alias", args.first())?;
                if of.bytes() < s.bytes() {
                    return Err(format!(
                        "{s} has {} bytes and does not fit {of} of {}; let the larger own the bytes",
                        s.bytes(),
                        of.bytes()
                    ));
                }
            }
        }
        (Op::LocalReinterpret, Type::Shared(s)) => {
            let a = shared(op, "buffer", args.first())?;
            if a.bytes() != s.bytes() {
                return Err(format!("`{op}` keeps the bytes: {a} has {}, {s} has {}", a.bytes(), s.bytes()));
            }
        }
        (Op::LocalSlice, Type::Shared(s)) => {
            let a = shared(op, "buffer", args.first())?;
            let Some(Attr::Offsets(o)) = attrs.first() else {
                return Err(format!("`{op}` needs an offset per dimension: {op} v0, [0, 64] : type"));
            };
            if a.elem != s.elem || a.shape.len() != s.shape.len() || o.len() != s.shape.len() {
                return Err(format!("`{op}` of {a} at {:?} can't make {s}: element, rank and number of offsets must agree", o.as_slice()));
            }
            if (0..o.len()).any(|i| o[i].saturating_add(s.shape[i]) > a.shape[i]) {
                return Err(format!("{s} at {:?} does not lie inside {a}; use smaller offsets or extents", o.as_slice()));
            }
            if s.elem.is_packed() && o.last().is_some_and(|o| o % 2 != 0) {
                return Err(format!("`{op}` of {a} begins inside a byte that two elements share; use an even last offset"));
            }
        }
        (_, _) => return made("local memory"),
    }
    check_handle(t)?;
    Ok(t.clone())
}

/// The result of a [`crate::ops::Rule::Local`].
pub(crate) fn local(op: Op, args: &[&Type], attrs: &[Attr]) -> Result<Type, TypeError> {
    match op {
        Op::LocalIndex => {
            let s = shared(op, "buffer", args.first())?;
            number(op, "position", args.get(1))?;
            if s.shape.len() < 2 {
                return Err(format!("`{op}` of {s} leaves no dimension; use `local_slice`"));
            }
            Ok(Type::Shared(SharedType::new(&s.shape[1..], s.elem)))
        }
        Op::LocalTranspose => {
            let s = shared(op, "buffer", args.first())?;
            let Some(Attr::Perm(p)) = attrs.first() else { return Err(format!("`{op}` needs a permutation such as [1, 0]")) };
            let mut seen = [false; MAX_RANK];
            let valid = p.len() == s.shape.len()
                && p.len() <= MAX_RANK
                && p.iter().all(|&d| (d as usize) < p.len() && !std::mem::replace(&mut seen[d as usize], true));
            if !valid {
                return Err(format!("{:?} is no permutation of the {} dimensions of {s}", p.as_slice(), s.shape.len()));
            }
            if s.elem.is_packed() && p.last().is_some_and(|&d| d as usize != p.len() - 1) {
                return Err(format!("`{op}` of {s}: two elements share a byte, so the last dimension stays"));
            }
            let shape: Shape = p.iter().map(|&d| s.shape[d as usize]).collect();
            Ok(Type::Shared(SharedType { shape, elem: s.elem }))
        }
        Op::LocalLoad => Ok(Type::Tile(shared(op, "buffer", args.first())?.tile())),
        Op::RemoteLoad => {
            number(op, "rank", args.get(1))?;
            Ok(Type::Tile(shared(op, "buffer", args.first())?.tile()))
        }
        Op::BarrierIndex => match args.first() {
            Some(Type::Barrier(_)) => number(op, "position", args.get(1)).map(|()| Type::Barrier(1)),
            Some(t) => Err(format!("`{op}` takes barriers, not {t}")),
            None => Err(format!("`{op}` needs barriers")),
        },
        Op::AsyncDot => async_dot(args, attrs),
        Op::AsyncDotWait => match args.first() {
            Some(Type::Tile(t)) => count(op, "products in flight", attrs.first(), 0..=MAX_WARPS).map(|()| Type::Tile(t.clone())),
            Some(t) => Err(format!("`{op}` takes the result of an `async_dot`, not {t}")),
            None => Err(format!("`{op}` needs the result of an `async_dot`")),
        },
        _ => Err(format!("`{op}` has no result")),
    }
}

fn async_dot(args: &[&Type], attrs: &[Attr]) -> Result<Type, TypeError> {
    let op = Op::AsyncDot;
    let a = match args.first() {
        Some(Type::Tile(t)) => t.clone(),
        other => shared(op, "first operand", other)?.tile(),
    };
    let b = shared(op, "second operand", args.get(1))?.tile();
    let Some(Type::Tile(c)) = args.get(2) else { return Err(format!("the accumulator of `{op}` must be a tile")) };
    if a.shape.len() != 2 {
        return Err(format!("`{op}` takes matrices, not {a}; index or slice the buffer"));
    }
    dot_type(op, [&a, &b, c], attrs)
}

/// Checks a [`crate::ops::Rule::Act`].
pub(crate) fn act(op: Op, args: &[&Type], present: u8, attrs: &[Attr]) -> Result<(), TypeError> {
    match op {
        Op::LocalStore => {
            let s = shared(op, "buffer", args.first())?;
            filling(op, args.get(1), s)?;
            match present {
                0 => Ok(()),
                _ if s.elem.is_packed() => {
                    Err(format!("`{op}` to {s}: two elements share a byte, which no mask takes apart; store all of them"))
                }
                _ => mask(op, args.get(2), &s.tile()),
            }
        }
        Op::BarrierExpect => {
            barrier(op, args.first())?;
            count(op, "bytes", attrs.first(), 1..=MAX_COUNT)
        }
        Op::BarrierArrive | Op::CopyAsyncArrive => barrier(op, args.first()),
        Op::BarrierWait => {
            barrier(op, args.first())?;
            number(op, "parity", args.get(1))
        }
        Op::NamedBarrierSync | Op::NamedBarrierArrive => {
            count(op, "as its number", attrs.first(), 1..=NAMED_BARRIERS)?;
            count(op, "warps", attrs.get(1), 1..=MAX_WARPS)
        }
        Op::AsyncStoreWait => count(op, "stores in flight", attrs.first(), 0..=MAX_COUNT),
        Op::CopyAsyncWait => count(op, "groups in flight", attrs.first(), 0..=MAX_GROUPS),
        Op::AsyncLoad | Op::CopyAsync | Op::AsyncStore | Op::AsyncReduce => copy(op, args, present, attrs),
        Op::GatherAsync => {
            let (v, shape) = indexed(op, args)?;
            let s = shared(op, "buffer", args.get(1 + v.rank()))?;
            if s.elem != v.elem || s.shape[..] != shape[..] {
                return Err(format!(
                    "`{op}` from {v} to {s}: it takes a buffer of the view's element and of the extents of its tiles of indices"
                ));
            }
            if present != 0 { mask(op, args.get(2 + v.rank()), &s.tile()) } else { Ok(()) }
        }
        Op::RemoteStore | Op::RemoteStoreAsync => {
            number(op, "rank", args.get(1))?;
            filling(op, args.get(2), shared(op, "buffer", args.first())?)?;
            if op == Op::RemoteStoreAsync { barrier(op, args.get(3)) } else { Ok(()) }
        }
        Op::RemoteArrive => {
            barrier(op, args.first())?;
            number(op, "rank", args.get(1))
        }
        Op::ChannelPut => {
            let c = channel(op, args)?;
            let tiles = args.get(2..).unwrap_or(&[]);
            if tiles.len() != c.tiles.len() || tiles.iter().zip(&c.tiles).any(|(have, want)| have.as_tile() != Some(want)) {
                let have = tiles.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Err(format!("`{op}` puts {have} into {c}; give it the tiles that the channel names"));
            }
            Ok(())
        }
        Op::ChannelConsumed => channel(op, args).map(|_| ()),
        // Without operands there is nothing to check.
        _ => Ok(()),
    }
}

/// A view, its indices, a buffer of that rank and element, and what a load has besides.
fn copy(op: Op, args: &[&Type], present: u8, attrs: &[Attr]) -> Result<(), TypeError> {
    let Some(Type::View(v)) = args.first() else { return Err(format!("`{op}` copies to or from a view; pass one")) };
    indices(op, args, v.rank())?;
    let s = shared(op, "buffer", args.get(1 + v.rank()))?;
    // Elements that share bytes travel as bytes, half as many in a row.
    let whole = op == Op::AsyncLoad || op == Op::CopyAsync && present == 0;
    let bytes = whole && v.elem.is_packed() && s.elem == Scalar::I8;
    if op == Op::CopyAsync && v.elem.is_packed() && s.elem == Scalar::I8 && !whole {
        return Err(format!(
            "`{op}` brings elements that share bytes as bytes, and takes neither a mask nor `other` for them; load such a tile"
        ));
    }
    if s.elem != v.elem && !bytes || s.shape.len() != v.rank() {
        return Err(format!("`{op}` between {v} and {s}: element and rank must agree; use `local_index` or `local_reinterpret`"));
    }
    match op {
        Op::AsyncLoad => {
            barrier(op, args.get(2 + v.rank()))?;
            // The bit of the keyword is that of its place in the row.
            if present != 0 { number(op, "multicast mask", args.get(3 + v.rank())) } else { Ok(()) }
        }
        Op::CopyAsync => {
            let mut rest = args.get(2 + v.rank()..).unwrap_or(&[]).iter();
            // The bits of keywords are those of their places in the row.
            if present & 0b0_1000 != 0 {
                mask(op, rest.next(), &s.tile())?;
            }
            match (present & 0b1_0000 != 0).then(|| rest.next()) {
                Some(Some(t)) if **t != Type::Scalar(s.elem) => Err(format!("`other` of `{op}` is {t}; it must be a scalar {}", s.elem)),
                Some(None) => Err(format!("`other` of `{op}` is missing")),
                Some(Some(_)) | None => Ok(()),
            }
        }
        Op::AsyncReduce => {
            let Some(Attr::Atomic(word)) = attrs.first() else { return Err(format!("`{op}` needs what to do: {op} add v0[0], v1")) };
            let whole = matches!(s.elem, Scalar::I32 | Scalar::I64);
            let ok = match word {
                AtomicOp::Add => whole || matches!(s.elem, Scalar::F32 | Scalar::F16 | Scalar::BF16),
                AtomicOp::Min | AtomicOp::Max | AtomicOp::Umin | AtomicOp::Umax | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => whole,
                AtomicOp::Xchg => false,
            };
            if ok {
                Ok(())
            } else {
                Err(format!(
                    "`{op} {word}` does not take {}: i32 and i64 take all updates but `xchg`, f32, f16 and bf16 take `add`",
                    s.elem
                ))
            }
        }
        _ => Ok(()),
    }
}

fn channel<'a>(op: Op, args: &[&'a Type]) -> Result<&'a ChannelType, TypeError> {
    let Some(Type::Channel(c)) = args.first() else { return Err(format!("`{op}` takes a channel; allocate it with `channel_alloc`")) };
    number(op, "step", args.get(1))?;
    Ok(c)
}

/// The results of a [`crate::ops::Rule::Receive`].
pub(crate) fn receive(op: Op, args: &[&Type]) -> Result<Vec<Type>, TypeError> {
    channel(op, args).map(|c| c.tiles.iter().map(|t: &TileType| Type::Tile(t.clone())).collect())
}
