//! How local memory lies: buffers that asynchronous units touch, or lanes fill by copies, are swizzled, all others are row-major.
//!
//! ```text
//! rows of a buffer: its elements without those of the contiguous dimension, counted in row-major order
//! row r, byte c:    block r / rows ─► atom c / swizzle ─► swizzled_byte(swizzle, r mod rows, c mod swizzle)
//! a slot of a ring is a block: boxes, operands of products and slots begin where the swizzle repeats; rows that are one atom wide lie as
//! those of one block throughout
//! ```
//!
//! A ring that lanes fill and products fetch from may have another map for its slots, where one was searched (see [`slots`](super::slots)).
//!
//! All types under which the bytes of an allocation are known share one layout, so that it is decided for all of them at once.

use super::buffer_layout::{BufferLayout, Swizzled};
use super::handle::{Handle, allocation, handle, shared};
use super::lanes::Filled;
use super::locals::Locals;
use super::overlap::is_zero;
use super::tensor_boxes::SwizzledTile;
use crate::error::LowerError;
use crate::reason::{NoBufferLayout, Unsupported};
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Attr, Inst, Kernel, Op, SharedType, Type, Value};
use tilelift_lane::{Target, Units};

/// What an asynchronous unit asks of a buffer.
struct Wish {
    contiguous: usize,
    /// Rows that must lie in one block.
    rows: u32,
    /// Bytes of which the swizzle must be a divisor.
    swizzles: Vec<u32>,
}

fn wish(kernel: &Kernel, h: &Handle, contiguous: usize) -> Wish {
    let t = root_type(kernel, h.root);
    let (shape, size) = (&t.shape, t.elem.bytes());
    let rows = h.parts.iter().filter(|p| p.of != contiguous).map(|p| shape[p.of]).product();
    let part = h.parts.iter().find(|p| p.of == contiguous);
    let swizzles = part.map(|p| vec![p.extent * size, p.at * size]).unwrap_or_default();
    Wish { contiguous, rows, swizzles: [vec![shape[contiguous] * size], swizzles].concat() }
}

fn root_type(kernel: &Kernel, root: Inst) -> &SharedType {
    match kernel.ty(kernel.insts[root].results[0]) {
        Type::Shared(t) => t,
        // Roots are what makes shared types.
        _ => unreachable!("the root of a handle is no buffer"),
    }
}

/// The layouts of all buffers, by the instruction that gives the type, the boxes of the copies, and who touches what.
pub struct Buffers {
    pub buffers: BTreeMap<Inst, BufferLayout>,
    pub boxes: BTreeMap<Inst, SwizzledTile>,
    /// Stores of lanes that round to tf32.
    pub rounded: BTreeSet<Inst>,
    pub locals: Locals,
}

/// What each unit asks of an allocation, and of which root. Rows of a product's operand run as copies to or from its buffer run: as the view lies;
/// without such a copy, as the author laid the buffer out.
fn wishes(kernel: &Kernel, asking: &[(Inst, Handle, Option<usize>)]) -> BTreeMap<Inst, Vec<(Inst, Inst, Wish)>> {
    let mut rows: BTreeMap<Inst, usize> = BTreeMap::new();
    for (_, h, along) in asking {
        if let Some(k) = *along {
            rows.entry(h.root).or_insert(k);
        }
    }
    let mut wishes: BTreeMap<Inst, Vec<(Inst, Inst, Wish)>> = BTreeMap::new();
    for (i, h, along) in asking {
        let contiguous = along.or_else(|| rows.get(&h.root).copied()).unwrap_or(root_type(kernel, h.root).shape.len() - 1);
        wishes.entry(allocation(kernel, h.root)).or_default().push((*i, h.root, wish(kernel, h, contiguous)));
    }
    wishes
}

/// Decides the layouts in a kernel with these instructions, in program order.
///
/// # Errors
/// What no layout satisfies, at the instruction that asks for it.
pub fn buffers(kernel: &Kernel, target: &Target, insts: &[Inst]) -> Result<Buffers, LowerError> {
    let units = target.units.as_ref();
    let mut roots: BTreeMap<Inst, Vec<Inst>> = BTreeMap::new();
    let mut asking: Vec<(Inst, Handle, Option<usize>)> = Vec::new();
    let mut boxes = BTreeMap::new();
    for &i in insts {
        let d = &kernel.insts[i];
        let mut ask = |v: Value, along: Option<usize>| {
            if let Some(h) = handle(kernel, v) {
                let along = along.map(|k| h.parts[k].of);
                asking.push((i, h, along));
            }
        };
        match (d.op, units) {
            (Op::LocalAlloc | Op::LocalReinterpret, _) => {
                if root_type(kernel, i).elem.is_packed() {
                    return Err(LowerError::from(Unsupported::PackedBuffer).at(kernel.locs[i]));
                }
                roots.entry(allocation(kernel, i)).or_default().push(i);
            }
            (Op::AsyncLoad | Op::AsyncStore | Op::AsyncReduce, Some(units)) => {
                let buffer = kernel.operand(i, "buffer")[0];
                let Some(t) = shared(kernel, buffer) else { continue };
                let tile = SwizzledTile::of(kernel, i, &t.shape, units, None).map_err(|why| LowerError::NoBulkCopy {
                    op: d.op,
                    why: Box::new(why),
                    loc: kernel.locs[i],
                })?;
                ask(buffer, Some(tile.contiguous()));
                boxes.insert(i, tile);
            }
            (Op::AsyncDot, Some(_)) => {
                for &v in &d.args[..2] {
                    ask(v, None);
                }
            }
            _ => {}
        }
    }
    let wishes = wishes(kernel, &asking);
    let (locals, mut buffers) = (Locals::of(kernel, insts), BTreeMap::new());
    let lanes = Filled::new(kernel, &locals, target.moves_by_lanes());
    for (alloc, roots) in roots {
        let asked = wishes.get(&alloc).map(Vec::as_slice).unwrap_or(&[]);
        for root in roots {
            let t = root_type(kernel, root);
            let swizzled = if rows(asked, &boxes, kernel, alloc) { None } else { blocks(kernel, root, asked, units, &lanes)? };
            buffers.insert(root, BufferLayout { shape: t.shape.to_vec(), size: t.elem.bytes(), swizzled, slot: None });
        }
    }
    for (&i, tile) in &mut boxes {
        let Some(h) = handle(kernel, kernel.operand(i, "buffer")[0]) else { continue };
        if let Some(p) = buffers.get(&h.root).and_then(|f| f.swizzled) {
            (tile.swizzle, tile.per) = (p.swizzle, p.swizzle / tile.elem.bytes());
        }
    }
    let rounded = round_at_copies(kernel, insts, &locals, &mut boxes)?;
    Ok(Buffers { buffers, boxes, rounded, locals })
}

/// True if all that units do with an allocation is to bring rows that need no swizzle.
fn rows(asked: &[(Inst, Inst, Wish)], boxes: &BTreeMap<Inst, SwizzledTile>, kernel: &Kernel, alloc: Inst) -> bool {
    !asked.is_empty() && swizzle(kernel, alloc).is_none() && asked.iter().all(|(i, ..)| boxes.get(i).is_some_and(|t| t.swizzle == 0))
}

/// Products that round on their way take f32 as copies and stores of lanes round it: then nothing else may look at the buffer. Where something else looks
/// at an operand that goes through registers, it is rounded there. The stores are answered.
fn round_at_copies(
    kernel: &Kernel,
    insts: &[Inst],
    locals: &Locals,
    boxes: &mut BTreeMap<Inst, SwizzledTile>,
) -> Result<BTreeSet<Inst>, LowerError> {
    let mut rounded = BTreeSet::new();
    let rounding: Vec<Inst> = insts.iter().copied().filter(|&i| rounds(kernel, i)).collect();
    if rounding.is_empty() {
        return Ok(rounded);
    }
    // Loads whose tiles products that round take as their operand A, and nothing else.
    let mut for_rounding: SecondaryMap<Value, bool> = SecondaryMap::with_default(true);
    for &j in insts {
        let args = &kernel.insts[j].args;
        args.iter().for_each(|&v| for_rounding[v] &= args[0] == v && rounds(kernel, j));
    }
    let for_rounding = |load: Inst| {
        let d = &kernel.insts[load];
        d.op == Op::LocalLoad && d.results.first().is_some_and(|&v| for_rounding[v])
    };
    let moves = Moves::of(kernel, insts);
    // Allocations that were looked at, for operands that must be rounded where they are copied and for others.
    let mut done = BTreeSet::new();
    for i in rounding {
        let d = &kernel.insts[i];
        let loaded = kernel.def_inst(d.args[0]).filter(|&l| for_rounding(l));
        let through = loaded.and_then(|l| handle(kernel, kernel.insts[l].args[0])).map(|h| (h, false));
        let operands = d.args[..2].iter().filter_map(|&v| handle(kernel, v)).map(|h| (h, true)).chain(through);
        // With the store that moves it on, where one does.
        let mut open: Vec<(Inst, bool, Option<Inst>)> = operands.map(|(h, must)| (allocation(kernel, h.root), must, None)).collect();
        while let Some((alloc, must, moved)) = open.pop() {
            if !done.insert((alloc, must)) {
                continue;
            }
            let uses = locals.uses(alloc);
            let touches = |j: Inst| match kernel.insts[j].op {
                Op::LocalLoad => !for_rounding(j) && !moves.loads.contains(&j),
                // Lanes copy bits as they are.
                Op::AsyncStore | Op::CopyAsync | Op::GatherAsync => true,
                // What goes through registers is rounded there, once.
                Op::LocalStore => !must && !moves.from.contains_key(&j) && !is_zero(kernel, kernel.insts[j].args[1]),
                Op::RemoteLoad | Op::RemoteStore | Op::RemoteStoreAsync => !must,
                _ => false,
            };
            if let Some(&j) = uses.iter().find(|&&j| touches(j)) {
                if !must {
                    continue;
                }
                // Whoever moves it on rounds it.
                if let Some(store) = moved {
                    rounded.insert(store);
                    continue;
                }
                let why = Unsupported::Buffer(kernel.insts[j].op, NoBufferLayout::Rounded);
                return Err(LowerError::from(why).at(kernel.locs[j]));
            }
            uses.iter().for_each(|j| {
                if let Some(t) = boxes.get_mut(j) {
                    t.tf32 = true;
                }
            });
            // Zeros are what they are.
            let stores = uses.iter().filter(|&&j| kernel.insts[j].op == Op::LocalStore && !is_zero(kernel, kernel.insts[j].args[1]));
            rounded.extend(stores.filter(|j| must && !moves.from.contains_key(j)));
            // What a task transposes is rounded where it was copied from.
            open.extend(uses.iter().filter_map(|j| Some((*moves.from.get(j)?, must, Some(*j)))));
        }
    }
    Ok(rounded)
}

/// Elements that tasks put in another order on their way from one allocation to another one, as a task that transposes does.
struct Moves {
    /// The allocation that each such store's elements come from.
    from: BTreeMap<Inst, Inst>,
    /// Loads of such elements, which are for nothing else.
    loads: BTreeSet<Inst>,
}

impl Moves {
    fn of(kernel: &Kernel, insts: &[Inst]) -> Moves {
        let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
        insts.iter().for_each(|&i| kernel.insts[i].args.iter().for_each(|&v| uses[v] += 1));
        let mut moves = Moves { from: BTreeMap::new(), loads: BTreeSet::new() };
        for &store in insts.iter().filter(|&&i| kernel.insts[i].op == Op::LocalStore) {
            let mut v = kernel.operand(store, "value")[0];
            let load = loop {
                match kernel.def_inst(v).filter(|_| uses[v] == 1).map(|i| (i, kernel.insts[i].op)) {
                    Some((i, Op::LocalLoad)) => break Some(i),
                    Some((i, Op::Transpose | Op::RequireLayout | Op::ReleaseLayout)) => v = kernel.insts[i].args[0],
                    _ => break None,
                }
            };
            if let Some((load, h)) = load.and_then(|l| Some((l, handle(kernel, kernel.insts[l].args[0])?))) {
                moves.from.insert(store, allocation(kernel, h.root));
                moves.loads.insert(load);
            }
        }
        moves
    }
}

/// True for a product that rounds its operands to tf32.
fn rounds(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    d.op == Op::AsyncDot && matches!(d.attrs.first(), Some(Attr::Precision(tilelift_ir::Precision::Tf32)))
}

/// Bytes of a swizzled row of an allocation, if its author says so.
fn swizzle(kernel: &Kernel, alloc: Inst) -> Option<u32> {
    match (kernel.insts[alloc].op, kernel.insts[alloc].attrs.first()) {
        (Op::LocalAlloc, Some(&Attr::Count(n))) if n > 0 => Some(n),
        _ => None,
    }
}

/// The swizzle of a buffer under one of its types, if anything asks for one.
fn blocks(
    kernel: &Kernel,
    root: Inst,
    asked: &[(Inst, Inst, Wish)],
    units: Option<&Units>,
    lanes: &Filled<'_>,
) -> Result<Option<Swizzled>, LowerError> {
    let refuse = |i: Inst, why: NoBufferLayout| Err(LowerError::from(Unsupported::Buffer(kernel.insts[i].op, why)).at(kernel.locs[i]));
    let said = swizzle(kernel, allocation(kernel, root));
    let (Some(first), Some(units)) = (asked.first(), units) else {
        return match (said, units) {
            (Some(_), Some(_)) => refuse(root, NoBufferLayout::NoUnit),
            _ => Ok(lanes.swizzled(root)),
        };
    };
    let row_bytes = |root: Inst, c: usize| {
        let t = root_type(kernel, root);
        t.shape[c] * t.elem.bytes()
    };
    let whole = row_bytes(first.1, first.2.contiguous);
    let rows = asked.iter().map(|w| w.2.rows).max().unwrap_or(1);
    for (i, at, w) in asked {
        if row_bytes(*at, w.contiguous) != whole || !rows.is_multiple_of(w.rows) {
            return refuse(*i, NoBufferLayout::RowLength);
        }
    }
    // Under its own type rows run along what its own uses say, else along the last dimension.
    let shape = &root_type(kernel, root).shape;
    let own: Vec<&(Inst, Inst, Wish)> = asked.iter().filter(|w| w.1 == root).collect();
    let contiguous = own.first().map_or(shape.len() - 1, |w| w.2.contiguous);
    if let Some(w) = own.iter().find(|w| w.2.contiguous != contiguous) {
        return refuse(w.0, NoBufferLayout::Contiguous);
    }
    if row_bytes(root, contiguous) != whole {
        return refuse(root, NoBufferLayout::RowBytes { units: whole, own: row_bytes(root, contiguous) });
    }
    let last = asked.iter().all(|w| w.2.contiguous + 1 == root_type(kernel, w.1).shape.len());
    if asked.iter().any(|w| w.1 != root) && !(last && contiguous + 1 == shape.len()) {
        return refuse(root, NoBufferLayout::LastDimension);
    }
    let fits = |s: &&u32| asked.iter().all(|w| w.2.swizzles.iter().all(|b| b.is_multiple_of(**s)));
    let found = units.bulk.swizzles.iter().filter(fits).find(|&&s| said.is_none_or(|n| n == s));
    let Some(&swizzle) = found else {
        if let Some(n) = said {
            let possible = units.bulk.swizzles.iter().filter(fits).copied().collect();
            return refuse(root, NoBufferLayout::Swizzle { asked: n, possible });
        }
        let least = units.bulk.swizzles.last().copied().unwrap_or(0);
        return refuse(first.0, NoBufferLayout::NoSwizzle { least });
    };
    let total: u32 = shape.iter().product::<u32>() / shape[contiguous];
    if !total.is_multiple_of(rows) {
        return refuse(root, NoBufferLayout::Boxes);
    }
    Ok(Some(Swizzled { contiguous, swizzle, rows }))
}
