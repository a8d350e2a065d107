//! Tiles that the consumers load behind a specialised loop, and that the ring brings: where they come from does not depend on the loop.
//!
//! ```text
//! a tile, contiguous along rows:   box 0 | box 1 | box 2 | box 3       all rows, as many columns as the swizzle width has bytes for
//! a slot of the ring:              operand A | operand B, first rows | operand B, other rows       places: as many rows of as many bytes
//! steps behind those of the loop:  boxes 0, 1, 2 ─ box 3               in the order in which they are read
//! ```
//!
//! The producer begins these copies behind those of the loop's last steps, so that they are on their way while products run, and takes no memory
//! of its own for them. Operands whose rows are several swizzle atoms wide lie in another order, and their slots have no places.
//!
//! That is worth its steps where columns meet (a rotary embedding takes two that are half a head apart): lanes would hold all of them at a time. Where
//! each column is made by itself, lanes load, if they have the registers.
//!
//! What a store makes of such tiles is computed some columns at a time where its ops allow (see [`super::column_cut`]): a lane holds a box of each
//! tile beside its sums then, not all of them. Columns that ask for the same boxes come one behind the other.

use super::buffer_layout::PHASE;
use super::column_cut::{At, column_cut};
use super::copied::computed_again;
use super::replay::Replay;
use super::tensor_boxes::SwizzledTile;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::Units;
use tilelift_lane::hash::Set;

/// Steps of what one store asks for, at most: more are longer on their way than the loop's last steps take.
const MAX_STEPS: u32 = 16;

/// A place for a box in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose slot it is, by the load's number.
    pub load: usize,
    /// Its first row there.
    pub row: u32,
}

/// A box of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpilogueBox {
    /// Which operand's.
    pub operand: usize,
    /// Which of its boxes.
    pub number: u32,
}

/// Boxes that arrive one behind the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpilogueGroup {
    /// The store that is computed of them, some columns at a time; or the load of a tile that is read as a whole.
    pub at: Inst,
    /// In the order in which they are read.
    pub boxes: Vec<EpilogueBox>,
    /// First columns of what is stored at a time, in this order; none for a tile that is read as a whole.
    pub slices: Vec<u32>,
    /// Columns at a time.
    pub width: u32,
    /// What is computed some columns at a time, and nowhere else.
    pub cut: BTreeSet<Inst>,
}

/// What stands behind the loop and comes through the ring.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Epilogue {
    /// The loads, in program order, with how their tiles lie.
    pub operands: Vec<(Inst, SwizzledTile)>,
    /// Places for their boxes in a slot.
    pub places: Vec<Place>,
    /// In the order of the program.
    pub groups: Vec<EpilogueGroup>,
}

impl Epilogue {
    /// Steps of the ring that a group takes.
    pub fn steps_of(&self, group: &EpilogueGroup) -> u32 {
        group.boxes.len().div_ceil(self.places.len().max(1)) as u32
    }

    /// Steps of all.
    pub fn steps(&self) -> u32 {
        self.groups.iter().map(|g| self.steps_of(g)).sum()
    }

    /// The boxes of a group's step, each with its place.
    pub fn boxes<'e>(&'e self, group: &'e EpilogueGroup, step: u32) -> impl Iterator<Item = (EpilogueBox, Place)> + 'e {
        group.boxes.iter().skip(step as usize * self.places.len()).copied().zip(self.places.iter().copied())
    }

    /// The number of an operand that a load is.
    pub fn operand(&self, load: Inst) -> Option<usize> {
        self.operands.iter().position(|o| o.0 == load)
    }
}

/// The places that slots of these loads have for boxes of a tile.
fn places(tile: &SwizzledTile, loads: &[(Inst, SwizzledTile)]) -> Vec<Place> {
    // Boxes begin where swizzle atoms do.
    if !tile.rows.is_multiple_of(PHASE) {
        return Vec::new();
    }
    let fits = |t: &SwizzledTile| t.boxes() == 1 && t.swizzle == tile.swizzle && t.contiguous() + 1 == t.shape.len();
    let of = |(load, t): (usize, &SwizzledTile)| (0..t.rows / tile.rows).map(move |n| Place { load, row: n * tile.rows });
    let rows = |t: &SwizzledTile| t.rows.is_multiple_of(tile.rows) && t.shape.len() == 2;
    loads.iter().map(|l| &l.1).enumerate().filter(|(_, t)| fits(t) && rows(t)).flat_map(of).collect()
}

/// The tiles that stand behind a loop, beside it in the kernel's body, and come through slots of its loads; with what the producer computes for them. `held` where
/// lanes would hold too much of them.
pub(super) fn epilogue_operands(
    kernel: &Kernel,
    units: &Units,
    (main, held): (Inst, bool),
    written: &Set<Value>,
    loads: &[(Inst, SwizzledTile)],
) -> (Epilogue, Replay) {
    let (mut out, mut replay) = (Epilogue::default(), Replay::default());
    // What copies round on their way nobody else is to look at.
    if loads.iter().any(|l| l.1.tf32) {
        return (out, replay);
    }
    let behind: Vec<Inst> = kernel.regions[kernel.body].insts.iter().copied().skip_while(|&i| i != main).skip(1).collect();
    for &i in &behind {
        let d = &kernel.insts[i];
        if d.op != Op::Load || d.present != 0 || written.contains(&d.args[0]) {
            continue;
        }
        let Some(t) = kernel.ty(d.results[0]).as_tile().filter(|t| t.shape.len() == 2 && !t.elem.is_packed()) else { continue };
        // As wide as its rows permit, or as the slots are.
        let widths = [None].into_iter().chain(loads.iter().map(|l| Some(l.1.swizzle)));
        let tiles = widths.filter_map(|s| SwizzledTile::of(kernel, i, &t.shape, units, s).ok());
        let mut placed = tiles.map(|t| (places(&t, loads).len() as u32, t)).filter(|p| p.0 > 0);
        let Some((found, tile)) = placed.next() else { continue };
        if tile.contiguous() != 1 || tile.order.len() != 2 || tile.boxes().div_ceil(found) > MAX_STEPS {
            continue;
        }
        if let Ok(again) = computed_again(kernel, (main, &[]), written, kernel.operand(i, "indices").to_vec()) {
            replay.add(again);
            out.operands.push((i, tile));
        }
    }
    // All lie in the same places: those of most bytes.
    let alike = |t: &SwizzledTile| (t.rows, t.swizzle);
    let bytes = |t: &SwizzledTile| out.operands.iter().filter(|o| alike(&o.1) == alike(t)).map(|o| u64::from(o.1.bytes())).sum::<u64>();
    let Some(most) = out.operands.iter().map(|o| &o.1).max_by_key(|t| (bytes(t), alike(t))).cloned() else { return (out, replay) };
    out.operands.retain(|o| alike(&o.1) == alike(&most));
    out.places = places(&most, loads);
    out.groups = groups(kernel, &behind, &out);
    match held || out.groups.iter().any(|g| columns_meet(kernel, g)) {
        true => (out, replay),
        false => (Epilogue::default(), Replay::default()),
    }
}

/// True if a group makes a column of others: by lanes all of its tiles would be held at a time. What is made column by column the lanes load as
/// they go; the ring has its next products on their way meanwhile, which boxes of such tiles would only delay (log §42).
fn columns_meet(kernel: &Kernel, group: &EpilogueGroup) -> bool {
    group.cut.iter().any(|&i| matches!(kernel.insts[i].op, Op::Slice | Op::Concat))
}

/// Who reads what in which order.
fn groups(kernel: &Kernel, behind: &[Inst], e: &Epilogue) -> Vec<EpilogueGroup> {
    if e.operands.is_empty() {
        return Vec::new();
    }
    let mut users: SecondaryMap<Value, Vec<Inst>> = SecondaryMap::new();
    kernel.walk(kernel.body, &mut |i| kernel.insts[i].args.iter().for_each(|&v| users[v].push(i)));
    let mut by_store: Vec<EpilogueGroup> = Vec::new();
    for &store in behind.iter().filter(|&&i| matches!(kernel.insts[i].op, Op::Store | Op::Scatter)) {
        by_store.extend(stored_in_columns(kernel, behind, e, store));
    }
    // A tile of which something else is made, too, is read where it stands, and so are those beside it.
    by_store.retain(|g| {
        let cut = |i: &Inst| g.cut.contains(i) || *i == g.at;
        let own = |i: Inst| kernel.insts[i].results.iter().all(|&v| users[v].iter().all(cut));
        g.boxes.iter().map(|b| e.operands[b.operand].0).chain(g.cut.iter().copied()).all(own)
    });
    let taken: BTreeSet<usize> = by_store.iter().flat_map(|g| g.boxes.iter().map(|b| b.operand)).collect();
    for (operand, (load, tile)) in e.operands.iter().enumerate().filter(|(n, _)| !taken.contains(n)) {
        let boxes = (0..tile.boxes()).map(|number| EpilogueBox { operand, number }).collect();
        by_store.push(EpilogueGroup { at: *load, boxes, slices: Vec::new(), width: tile.shape[1], cut: BTreeSet::new() });
    }
    let place = |i: Inst| behind.iter().position(|&j| j == i);
    by_store.sort_by_key(|g| place(g.at));
    by_store
}

/// A store that is computed some columns at a time, if that can be and it asks for operands.
fn stored_in_columns(kernel: &Kernel, behind: &[Inst], e: &Epilogue, store: Inst) -> Option<EpilogueGroup> {
    let d = &kernel.insts[store];
    let value = kernel.operand(store, "value")[0];
    let [_, columns] = kernel.ty(value).as_tile()?.shape[..] else { return None };
    // Lanes that store name the last column's place by the last index.
    if d.op == Op::Store && d.present != 0 {
        return None;
    }
    let tiles: Vec<Value> = d.args.iter().copied().filter(|&v| kernel.ty(v).as_tile().is_some()).collect();
    // What is made of operands.
    let mut depends: BTreeSet<Inst> = BTreeSet::new();
    for &i in behind {
        let from = |v: &Value| kernel.def_inst(*v).is_some_and(|j| depends.contains(&j) || e.operand(j).is_some());
        if kernel.insts[i].args.iter().any(from) {
            depends.insert(i);
        }
    }
    let width = e.operands.iter().map(|o| o.1.per).min()?;
    if !columns.is_multiple_of(width) {
        return None;
    }
    let mut cut = BTreeSet::new();
    let mut slices = Vec::new();
    for first in (0..columns).step_by(width as usize) {
        let mut boxes = Vec::new();
        let mut open: Vec<(Value, u32)> = tiles.iter().rev().map(|&v| (v, first)).collect();
        let mut seen: BTreeSet<(Value, u32)> = BTreeSet::new();
        while let Some((v, first)) = open.pop() {
            let Some(i) = kernel.def_inst(v).filter(|_| seen.insert((v, first))) else { continue };
            if let Some(operand) = e.operand(i) {
                let per = e.operands[operand].1.per;
                boxes.extend((first / per..(first + width).div_ceil(per)).map(|number| EpilogueBox { operand, number }));
                continue;
            }
            match column_cut(kernel, i, first, width) {
                Some(parts) if depends.contains(&i) => {
                    cut.insert(i);
                    open.extend(parts.into_iter().rev().filter_map(|(v, at)| match at {
                        At::Columns(first) => Some((v, first)),
                        At::Whole => None,
                    }));
                }
                _ if depends.contains(&i) => return None,
                // As it is, and of that some columns.
                _ => {}
            }
        }
        slices.push((boxes, first));
    }
    // Whoever needs all of a tile needs it as it is.
    let all =
        |&i: &Inst| kernel.insts[i].args.iter().all(|&v| kernel.def_inst(v).is_none_or(|j| !depends.contains(&j) || cut.contains(&j)));
    if !cut.iter().all(all) {
        return None;
    }
    slices.sort_by_key(|(boxes, _)| boxes.iter().map(|b| b.number * e.operands[b.operand].1.per).min());
    let mut boxes: Vec<EpilogueBox> = Vec::new();
    for b in slices.iter().flat_map(|s| &s.0) {
        if !boxes.contains(b) {
            boxes.push(*b);
        }
    }
    let few = boxes.len().div_ceil(e.places.len().max(1)) as u32 <= MAX_STEPS;
    (!boxes.is_empty() && few).then(|| EpilogueGroup { at: store, boxes, slices: slices.iter().map(|s| s.1).collect(), width, cut })
}
