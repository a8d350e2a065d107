//! Elements of a tile by their numbers along an axis (`gather_tile`).
//!
//! ```text
//! any tile                                   shared memory holds it; what is alike along an axis is there once
//! up to as many numbers as lanes, all alike  lane l holds number l, and the other lanes ask it: no memory, no barrier, no conflicts
//! along the other axes
//! ```

use super::Lower;
use super::elementwise::Coords;
use super::facts::dim_of;
use super::location::{Tile, ValueLocation};
use super::scratch::{Scratch, first_copies, position, row_major};
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{CmpOp, Inst, Kernel, Op, ProgramOrder, Type, Value};
use tilelift_lane::{LTy, LVal, LaneBuilder, ShuffleFrom, Target};
use tilelift_schedule::LowerError;

/// The tile behind a lookup's, whose copies that is.
fn behind(kernel: &Kernel, v: Value, dim: usize) -> Value {
    let shape = |v: Value| kernel.ty(v).as_tile().map(|t| t.shape.clone()).unwrap_or_default();
    match kernel.def_inst(v).map(|i| &kernel.insts[i]) {
        Some(d) if d.op == Op::Broadcast && shape(d.args[0]).get(dim) == shape(v).get(dim) => behind(kernel, d.args[0], dim),
        Some(_) | None => v,
    }
}

/// What a lookup looks at.
pub(super) struct Looked {
    /// The tile, without copies along its axes.
    pub table: Value,
    /// How the lanes hold it, if each has one number.
    pub lanes: Option<Rc<Layout>>,
}

impl Looked {
    pub(super) fn new(kernel: &Kernel, target: &Target, warps: u32, i: Inst) -> Looked {
        let dim = dim_of(kernel, i);
        let table = behind(kernel, kernel.insts[i].args[0], dim);
        let lanes = kernel.ty(table).as_tile().and_then(|t| in_lanes(&t.shape, dim, t.elem.bytes(), target, warps));
        Looked { table, lanes: lanes.map(Rc::new) }
    }

    /// Numbers that shared memory takes.
    pub(super) fn shape(&self, kernel: &Kernel) -> Vec<u32> {
        kernel.ty(self.table).as_tile().map(|t| t.shape.to_vec()).unwrap_or_default()
    }
}

/// The layout of a row of numbers, one a lane, in all warps; lanes behind its end begin anew.
fn in_lanes(shape: &[u32], dim: usize, bytes: u32, target: &Target, warps: u32) -> Option<Layout> {
    let extent = shape[dim];
    let row = shape.iter().enumerate().all(|(d, &n)| d == dim || n == 1);
    if !row || !extent.is_power_of_two() || extent > target.lanes || bytes > 4 {
        return None;
    }
    let at = |bit: u32| -> Vec<u32> { (0..shape.len()).map(|d| if d == dim && 1 << bit < extent { 1 << bit } else { 0 }).collect() };
    let (lanes, none): (Vec<Vec<u32>>, Vec<u32>) = ((0..target.lanes.trailing_zeros()).map(at).collect(), vec![0; shape.len()]);
    let lanes: Vec<&[u32]> = lanes.iter().map(|c| &c[..]).collect();
    Layout::of_bases(shape, &[], &lanes, &vec![&none[..]; warps.trailing_zeros() as usize]).ok()
}

impl Lower<'_> {
    pub(super) fn gather_tile(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let looked = Looked::new(self.kernel, self.target, self.plan.warps, i);
        let layout = self.layout_of(result)?;
        let index = self.tile(b, d.args[1], &layout)?;
        let ask = match &looked.lanes {
            Some(lanes) => {
                let held = self.tile(b, looked.table, lanes)?.regs[0];
                Ask::Lanes { held, extent: looked.shape(self.kernel)[self.dim_attr(i)] }
            }
            None => self.shared_table(b, i, &looked)?,
        };
        let coords = Coords::new(b, &layout);
        let mut regs: Vec<LVal> = Vec::new();
        for (r, first) in first_copies(&layout).into_iter().enumerate() {
            regs.push(match first < r {
                true => regs[first],
                false => ask.number(b, index.regs[r], |b, strides| position(b, &coords, &layout, r as u32, strides)),
            });
        }
        self.set_tile(result, Tile { layout, regs });
        Ok(())
    }

    /// A table in shared memory.
    fn shared_table(&mut self, b: &mut LaneBuilder, i: Inst, looked: &Looked) -> Result<Ask, LowerError> {
        let kernel = self.kernel;
        let dim = self.dim_attr(i);
        let tile = self.own_tile(b, looked.table)?;
        let shape = tile.layout.shape().to_vec();
        let strides = row_major(&shape);
        let ty = LTy::holding(kernel.ty(looked.table).elem());
        let scratch = Scratch::new(self, b, shape.iter().map(|&e| u64::from(e)).product(), ty, "gather")?;
        scratch.store_tile(b, &tile, &strides);
        let rest = (0..shape.len()).map(|d| if d == dim || shape[d] == 1 { 0 } else { strides[d] }).collect();
        Ok(Ask::Shared { scratch, extent: shape[dim], stride: strides[dim], rest, ty })
    }

    /// Brings tables in front of a loop or choice into the lanes, once.
    pub(super) fn bring_tables(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        for (table, lanes) in tables_in(self.kernel, &self.order, self.target, self.plan.warps, i) {
            if let Some(ValueLocation::Tile(_)) = self.values[table] {
                self.tile(b, table, &lanes)?;
            }
        }
        Ok(())
    }
}

/// The tables that lanes hold for lookups in a loop or choice, and how they do.
pub(super) fn tables_in(kernel: &Kernel, order: &ProgramOrder, target: &Target, warps: u32, i: Inst) -> Vec<(Value, Rc<Layout>)> {
    let lookups = kernel.insts[i].regions.iter().flat_map(|&r| order.with(r, |op| op == Op::GatherTile));
    let of_tiles = lookups.filter(|&j| matches!(kernel.ty(kernel.insts[j].args[0]), Type::Tile(_)));
    let held = |looked: Looked| looked.lanes.map(|lanes| (looked.table, lanes));
    of_tiles.filter_map(|j| held(Looked::new(kernel, target, warps, j))).collect()
}

/// Who is asked for numbers.
enum Ask {
    /// The lanes: each has one number, behind the last one they begin anew.
    Lanes { held: LVal, extent: u32 },
    /// Shared memory: numbers so far apart, and what other coordinates add.
    Shared { scratch: Scratch, extent: u32, stride: u32, rest: Vec<u32>, ty: LTy },
}

impl Ask {
    /// The number at an index, or zero if that is beyond the axis.
    fn number(&self, b: &mut LaneBuilder, index: LVal, beside: impl FnOnce(&mut LaneBuilder, &[u32]) -> LVal) -> LVal {
        match self {
            Ask::Lanes { held, extent } => {
                if let Some(lane) = b.modulo(index, *extent) {
                    return b.shuffle(*held, ShuffleFrom::Lane(lane));
                }
                let found = b.shuffle(*held, ShuffleFrom::Lane(index));
                let end = b.i32(i64::from(*extent));
                let inside = b.cmp(CmpOp::Ult, index, end);
                let zero = b.constant(b.ty(*held), 0);
                b.select(inside, found, zero)
            }
            Ask::Shared { scratch, extent, stride, rest, ty } => {
                let (end, none) = (b.i32(i64::from(*extent)), b.i32(0));
                let inside = b.cmp(CmpOp::Ult, index, end);
                let along = b.select(inside, index, none);
                let s = b.i32(i64::from(*stride));
                let along = b.mul(along, s);
                let at = beside(b, rest);
                let at = b.add(at, along);
                let at = scratch.address(b, at);
                let v = scratch.load(b, at, 0);
                let zero = b.constant(*ty, 0);
                b.select(inside, v, zero)
            }
        }
    }
}
