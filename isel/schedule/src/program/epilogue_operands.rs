//! Tiles that stand behind the loop and come through the ring, in steps of their own behind those of the loop.
//!
//! ```text
//! producer    … the loop's last copies ─ a step: wait empty ─ expect the bytes ─ begin the copies of its boxes ─ the next position's copies …
//! consumers   … the loop ─ a step: wait full ─ read a box ─ some columns of the result ─ read the next box … ─ give the slot back ─ …
//! ```

use super::Refusal;
use super::schedule::{ProgramPlan, Staging};
use super::write::{Arg, Writer, number};
use crate::plan::{At, EpilogueBox, EpilogueGroup, Place, column_cut};
use std::collections::BTreeMap;
use tilelift_ir::{Attr, Inst, Op, SharedType, TileType, Type, Value};

/// What has been read of a group, and computed.
pub(super) struct Columns<'g> {
    group: &'g EpilogueGroup,
    /// The number of its first step.
    start: Arg,
    /// Steps that have been waited for.
    waited: u32,
    /// The rows that are read and computed: the first one, and how many; all of them unless results leave in parts.
    rows: Option<[u32; 2]>,
    /// Boxes that have been read.
    read: Vec<(EpilogueBox, Value)>,
    /// What values are from a column on.
    made: BTreeMap<(Value, u32), Value>,
}

impl<'g> Columns<'g> {
    fn new(group: &'g EpilogueGroup, start: Arg) -> Columns<'g> {
        Columns { group, start, waited: 0, rows: None, read: Vec::new(), made: BTreeMap::new() }
    }

    /// Other rows of the same.
    fn of_rows(&mut self, rows: [u32; 2]) {
        self.rows = Some(rows);
        self.read.clear();
        self.made.clear();
    }

    /// The first row of so many that is wanted, and how many are.
    fn rows_of(&self, all: u32) -> [u32; 2] {
        self.rows.filter(|_| all > 1).unwrap_or([0, all])
    }
}

impl ProgramPlan<'_> {
    /// The boxes that are read at an instruction.
    pub(super) fn epilogue_group(&self, i: Inst) -> Option<&EpilogueGroup> {
        self.plan.epilogue.groups.iter().find(|g| g.at == i)
    }

    /// True for what is done some columns at a time, at the store.
    pub(super) fn is_cut(&self, i: Inst) -> bool {
        let e = &self.plan.epilogue;
        let read = |g: &EpilogueGroup| !g.slices.is_empty() && e.operand(i).is_some_and(|n| g.boxes.iter().any(|b| b.operand == n));
        e.groups.iter().any(|g| g.cut.contains(&i) || read(g))
    }

    /// The producer's copies; gives the number of the step behind.
    pub(super) fn bring_behind(&self, w: &mut Writer<'_>, group: &EpilogueGroup, start: Arg) -> Result<Arg, Refusal> {
        let (kernel, e) = (self.kernel, &self.plan.epilogue);
        let mut done = start;
        for step in 0..e.steps_of(group) {
            let [slot, round] = self.ring.slot_and_round(w, done)?;
            let empty = w.bin(Op::BarrierIndex, self.ring.empty, slot)?;
            let before = w.bin(Op::Add, round, number(1))?;
            w.act(Op::BarrierWait, &[empty.into(), before.into()], &[]);
            let full = w.bin(Op::BarrierIndex, self.ring.full, slot)?;
            let bytes = e.boxes(group, step).map(|(b, _)| e.operands[b.operand].1.box_bytes()).sum();
            w.act(Op::BarrierExpect, &[full.into()], &[Attr::Count(bytes)]);
            for (b, place) in e.boxes(group, step) {
                let (load, tile) = &e.operands[b.operand];
                let view = w.get(kernel.insts[*load].args[0])?;
                let at = self.all(w, kernel.operand(*load, "indices"))?;
                let &[row, column] = &at[..] else { return Err(Refusal::Written { value: kernel.insts[*load].results[0] }) };
                let buffer = self.place(w, b.operand, slot, (place, [0, tile.rows]))?;
                let first = if b.number == 0 { column } else { w.bin(Op::Add, column, number(b.number * tile.per))?.into() };
                w.act(Op::AsyncLoad, &[view, row, first, buffer.into(), full.into()], &[]);
            }
            done = w.bin(Op::Add, done, number(1))?.into();
        }
        Ok(done)
    }

    /// Waits until all that comes behind the loop is there: others may then count on the phases behind.
    pub(super) fn wait_behind(&self, w: &mut Writer<'_>, start: Arg) -> Result<(), Refusal> {
        for step in 0..self.plan.epilogue.steps() {
            let at = step_of(w, start, step)?;
            let [slot, round] = self.ring.slot_and_round(w, at)?;
            self.ring.wait_full(w, slot.into(), round.into())?;
        }
        Ok(())
    }

    /// The consumers read a whole tile; gives the number of the step behind.
    pub(super) fn read_behind(&self, w: &mut Writer<'_>, group: &EpilogueGroup, start: Arg) -> Result<Arg, Refusal> {
        let mut columns = Columns::new(group, start);
        let parts = group.boxes.iter().map(|&b| self.read_box(w, &mut columns, b)).collect::<Result<Vec<Value>, Refusal>>()?;
        let v = self.kernel.insts[group.at].results[0];
        let whole = side_by_side(w, parts)?.ok_or(Refusal::Written { value: v })?;
        w.set(v, whole);
        step_of(w, start, self.plan.epilogue.steps_of(group))
    }

    /// Reads a box: the next one that has not been read. Behind the last one of a step the slot is given back, unless other rows of it are wanted.
    fn read_box(&self, w: &mut Writer<'_>, c: &mut Columns<'_>, b: EpilogueBox) -> Result<Value, Refusal> {
        if let Some(found) = c.read.iter().find(|r| r.0 == b) {
            return Ok(found.1);
        }
        let e = &self.plan.epilogue;
        let (load, tile) = &e.operands[b.operand];
        let wrong = Refusal::Written { value: self.kernel.insts[*load].results[0] };
        let Some(nth) = c.group.boxes.iter().position(|x| *x == b).filter(|&n| n == c.read.len()) else { return Err(wrong) };
        let each = e.places.len();
        let done = step_of(w, c.start, (nth / each) as u32)?;
        let [slot, round] = self.ring.slot_and_round(w, done)?;
        if (nth / each) as u32 == c.waited {
            self.ring.wait_full(w, slot.into(), round.into())?;
            c.waited += 1;
        }
        let buffer = self.place(w, b.operand, slot, (e.places[nth % each], c.rows_of(tile.rows)))?;
        let part = w.make(Op::LocalLoad, &[buffer.into()], &[], None)?;
        c.read.push((b, part));
        if c.rows.is_none() && (c.read.len() == c.group.boxes.len() || c.read.len().is_multiple_of(each)) {
            self.ring.give_back(w, done)?;
        }
        Ok(part)
    }

    /// Some columns of a value, from one on.
    pub(super) fn some_columns(&self, w: &mut Writer<'_>, c: &mut Columns<'_>, v: Value, first: u32) -> Result<Value, Refusal> {
        if let Some(&made) = c.made.get(&(v, first)) {
            return Ok(made);
        }
        let (kernel, width) = (self.kernel, c.group.width);
        let Some(t) = kernel.ty(v).as_tile() else { return Err(Refusal::Written { value: v }) };
        let [row, rows] = c.rows_of(t.shape[0]);
        let ty = Type::Tile(TileType { shape: [rows, width].into_iter().collect(), elem: t.elem });
        let inside = kernel.def_inst(v).filter(|&i| self.is_cut(i));
        let parts = inside.and_then(|i| Some((i, column_cut(kernel, i, first, width)?)));
        let made = match (inside, parts) {
            (Some(i), _) if self.plan.epilogue.operand(i).is_some() => self.operand_columns(w, c, i, first)?,
            (_, Some((i, parts))) => {
                let mut args: Vec<Arg> = Vec::new();
                for (v, at) in parts {
                    args.push(match at {
                        At::Columns(first) => self.some_columns(w, c, v, first)?.into(),
                        At::Whole => self.some_rows(w, c, v)?,
                    });
                }
                match (kernel.insts[i].op, &args[..]) {
                    (Op::Slice | Op::Concat | Op::RequireLayout | Op::ReleaseLayout, &[Arg::Value(same)]) => same,
                    _ => w.copy_as(i, &args, &ty)?,
                }
            }
            // As it is, and of that some columns; of what is the same everywhere the same.
            _ => {
                let splat = kernel.def_inst(v).filter(|&i| kernel.insts[i].op == Op::Splat);
                match splat {
                    Some(i) => {
                        let of = w.get(kernel.insts[i].args[0])?;
                        w.copy_as(i, &[of], &ty)?
                    }
                    None => {
                        let whole = w.get(v)?;
                        w.make(Op::Slice, &[whole], &[Attr::Offsets([row, first].into_iter().collect())], Some(&ty))?
                    }
                }
            }
        };
        c.made.insert((v, first), made);
        Ok(made)
    }

    /// The rows that are wanted of a value: of a column of numbers, or one number.
    fn some_rows(&self, w: &mut Writer<'_>, c: &Columns<'_>, v: Value) -> Result<Arg, Refusal> {
        let whole = w.get(v)?;
        let Some(t) = self.kernel.ty(v).as_tile() else { return Ok(whole) };
        let [row, rows] = c.rows_of(t.shape[0]);
        if rows == t.shape[0] {
            return Ok(whole);
        }
        let ty = Type::Tile(TileType { shape: [rows, t.shape[1]].into_iter().collect(), elem: t.elem });
        Ok(w.make(Op::Slice, &[whole], &[Attr::Offsets([row, 0].into_iter().collect())], Some(&ty))?.into())
    }

    /// The same of a tile that the ring brings.
    fn operand_columns(&self, w: &mut Writer<'_>, c: &mut Columns<'_>, load: Inst, first: u32) -> Result<Value, Refusal> {
        let (e, width) = (&self.plan.epilogue, c.group.width);
        let wrong = Refusal::Written { value: self.kernel.insts[load].results[0] };
        let Some(operand) = e.operand(load) else { return Err(wrong) };
        let tile = &e.operands[operand].1;
        // No group takes more columns at a time than a box has.
        let b = self.read_box(w, c, EpilogueBox { operand, number: first / tile.per })?;
        if tile.per == width {
            return Ok(b);
        }
        let ty = Type::Tile(TileType { shape: [c.rows_of(tile.rows)[1], width].into_iter().collect(), elem: tile.elem });
        w.make(Op::Slice, &[b.into()], &[Attr::Offsets([0, first % tile.per].into_iter().collect())], Some(&ty))
    }

    /// The place of a box in a slot, or some of its rows.
    fn place(&self, w: &mut Writer<'_>, operand: usize, slot: Value, (place, [row, rows]): (Place, [u32; 2])) -> Result<Value, Refusal> {
        let (area, tile) = (&self.plan.loads[place.load].1, &self.plan.epilogue.operands[operand].1);
        let mut buffer = w.bin(Op::LocalIndex, self.slots[place.load], slot)?;
        if area.held() != tile.elem {
            let seen = Type::Shared(SharedType::new(&[area.rows, tile.per], tile.elem));
            buffer = w.make(Op::LocalReinterpret, &[buffer.into()], &[], Some(&seen))?;
        }
        if area.rows == rows {
            return Ok(buffer);
        }
        let part = Type::Shared(SharedType::new(&[rows, tile.per], tile.elem));
        w.make(Op::LocalSlice, &[buffer.into()], &[Attr::Offsets([place.row + row, 0].into_iter().collect())], Some(&part))
    }

    /// A store that is computed some columns at a time; gives the number of the step behind.
    pub(super) fn store_cut(&self, w: &mut Writer<'_>, group: &EpilogueGroup, start: Arg) -> Result<Arg, Refusal> {
        let mut columns = Columns::new(group, start);
        let steps = self.plan.epilogue.steps_of(group);
        match self.staging.get(&group.at) {
            None => self.store_by_lanes(w, &mut columns)?,
            Some(staging) if staging.parts.1 == 1 => self.stage_columns(w, &mut columns, staging, 0)?,
            // Rows leave one part behind the other.
            Some(staging) if staging.parts.0 == 0 => {
                let rows = self.kernel.ty(self.kernel.operand(group.at, "value")[0]).shape().map_or(0, |s| s[0]) / staging.parts.1;
                for part in 0..staging.parts.1 {
                    columns.of_rows([part * rows, rows]);
                    self.stage_columns(w, &mut columns, staging, part * rows)?;
                }
                for step in 0..steps {
                    let done = step_of(w, start, step)?;
                    self.ring.give_back(w, done)?;
                }
            }
            Some(staging) => {
                let value = self.kernel.operand(group.at, "value")[0];
                let mut parts = Vec::new();
                for &first in &group.slices {
                    parts.push((first, self.some_columns(w, &mut columns, value, first)?));
                }
                parts.sort_by_key(|p| p.0);
                let whole = side_by_side(w, parts.into_iter().map(|p| p.1).collect())?.ok_or(Refusal::Written { value })?;
                self.store_parts(w, group.at, staging, whole.into())?;
            }
        }
        step_of(w, start, steps)
    }

    /// Stores columns to the buffer through which they leave, and lets them leave to rows from one on.
    fn stage_columns(&self, w: &mut Writer<'_>, c: &mut Columns<'_>, staging: &Staging, row: u32) -> Result<(), Refusal> {
        let value = self.kernel.operand(c.group.at, "value")[0];
        w.act(Op::AsyncStoreWait, &[], &[Attr::Count(0)]);
        let extents = w.extents(staging.buffer.into()).unwrap_or_default();
        let ty = Type::Shared(SharedType::new(&[extents[0], c.group.width], self.kernel.ty(value).elem()));
        for &first in &c.group.slices {
            let part = self.some_columns(w, c, value, first)?;
            let at = Attr::Offsets([0, first].into_iter().collect());
            let to = w.make(Op::LocalSlice, &[staging.buffer.into()], &[at], Some(&ty))?;
            w.act(Op::LocalStore, &[to.into(), part.into()], &[]);
        }
        self.leave(w, c.group.at, staging.buffer.into(), (0, row))
    }

    /// Lanes store columns.
    fn store_by_lanes(&self, w: &mut Writer<'_>, c: &mut Columns<'_>) -> Result<(), Refusal> {
        let (kernel, store) = (self.kernel, c.group.at);
        for &first in &c.group.slices {
            let mut args: Vec<Arg> = Vec::new();
            for (n, &v) in kernel.insts[store].args.iter().enumerate() {
                args.push(match kernel.ty(v) {
                    Type::Tile(_) => self.some_columns(w, c, v, first)?.into(),
                    // The index of the last dimension of two.
                    Type::Scalar(_) if n == 2 && first > 0 => {
                        let at = w.get(v)?;
                        w.bin(Op::Add, at, number(first))?.into()
                    }
                    _ => w.get(v)?,
                });
            }
            w.act_as(store, &args);
        }
        Ok(())
    }
}

/// The number of a step behind another one.
fn step_of(w: &mut Writer<'_>, start: Arg, step: u32) -> Result<Arg, Refusal> {
    Ok(if step == 0 { start } else { w.bin(Op::Add, start, number(step))?.into() })
}

/// Tiles side by side: neighbours of one width, again and again, so that extents stay powers of two.
fn side_by_side(w: &mut Writer<'_>, mut parts: Vec<Value>) -> Result<Option<Value>, Refusal> {
    while parts.len() > 1 {
        parts = parts.chunks(2).map(|pair| joined(w, pair)).collect::<Result<Vec<Value>, Refusal>>()?;
    }
    Ok(parts.pop())
}

/// Two tiles side by side, or one.
fn joined(w: &mut Writer<'_>, pair: &[Value]) -> Result<Value, Refusal> {
    match *pair {
        [left, right] => w.make(Op::Concat, &[left.into(), right.into()], &[Attr::Dim(1)], None),
        _ => Ok(pair[0]),
    }
}
