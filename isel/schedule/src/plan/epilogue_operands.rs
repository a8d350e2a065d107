//! Tiles that the consumers load behind a specialised loop, and that the ring brings: where they come from does not depend on the loop.
//!
//! ```text
//! a tile, contiguous along rows:   box 0 | box 1 | box 2 | box 3       all rows, as many columns as the swizzle width has bytes for
//! a slot of the ring:              operand A | operand B, first rows | operand B, other rows       places: as many rows of as many bytes
//! steps behind those of the loop:  boxes 0, 1, 2 ─ box 3
//! ```
//!
//! The producer begins these copies behind those of the loop's last steps, so that they are on their way while products run, and takes no memory
//! of its own for them. Operands whose rows are several swizzle atoms wide lie in another order, and their slots have no places.

use super::copied::computed_again;
use super::replay::Replay;
use super::swizzled_tile::SwizzledTile;
use std::collections::HashSet;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::Units;

/// Steps of one tile at most: more are longer on their way than the loop's last steps take.
const MAX_STEPS: u32 = 8;

/// A place for a box in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose slot it is, by the load's number.
    pub load: usize,
    /// Its first row there.
    pub row: u32,
}

/// A tile that the ring brings for what stands behind the loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpilogueOperand {
    /// The load.
    pub load: Inst,
    /// How the tile lies.
    pub tile: SwizzledTile,
    /// Places of its boxes in a slot.
    pub places: Vec<Place>,
}

impl EpilogueOperand {
    /// Steps in which it arrives.
    pub fn steps(&self) -> u32 {
        self.tile.boxes().div_ceil(self.places.len().max(1) as u32)
    }

    /// The boxes of a step, each with its number and place.
    pub fn boxes(&self, step: u32) -> impl Iterator<Item = (u32, Place)> {
        (step * self.places.len() as u32..self.tile.boxes()).zip(self.places.iter().copied())
    }

    /// The shape of a box.
    pub fn shape(&self) -> [u32; 2] {
        [self.tile.rows, self.tile.per]
    }
}

/// The places that slots of these loads have for boxes of a tile.
fn places(tile: &SwizzledTile, loads: &[(Inst, SwizzledTile)]) -> Vec<Place> {
    let fits = |t: &SwizzledTile| t.boxes() == 1 && t.swizzle == tile.swizzle && t.contiguous() + 1 == t.shape.len();
    let of = |(load, t): (usize, &SwizzledTile)| (0..t.rows / tile.rows).map(move |n| Place { load, row: n * tile.rows });
    let rows = |t: &SwizzledTile| t.rows.is_multiple_of(tile.rows) && t.shape.len() == 2;
    loads.iter().map(|l| &l.1).enumerate().filter(|(_, t)| fits(t) && rows(t)).flat_map(of).collect()
}

/// The tiles that stand behind a loop, beside it in the kernel's body, and come through slots of its loads; with what the producer computes for them.
pub(super) fn epilogue_operands(
    kernel: &Kernel,
    units: &Units,
    main: Inst,
    written: &HashSet<Value>,
    loads: &[(Inst, SwizzledTile)],
) -> (Vec<EpilogueOperand>, Replay) {
    let (mut out, mut replay) = (Vec::new(), Replay::default());
    let body = &kernel.regions[kernel.body].insts;
    // What copies round on their way nobody else is to look at.
    if loads.iter().any(|l| l.1.tf32) {
        return (out, replay);
    }
    for &i in body.iter().skip_while(|&&i| i != main).skip(1) {
        let d = &kernel.insts[i];
        if d.op != Op::Load || d.present != 0 || written.contains(&d.args[0]) {
            continue;
        }
        let Some(t) = kernel.ty(d.results[0]).as_tile().filter(|t| t.shape.len() == 2 && !t.elem.is_packed()) else { continue };
        let Ok(tile) = SwizzledTile::of(kernel, i, &t.shape, units, None) else { continue };
        if tile.contiguous() != 1 || tile.order.len() != 2 {
            continue;
        }
        let places = places(&tile, loads);
        let operand = EpilogueOperand { load: i, tile, places };
        if operand.places.is_empty() || operand.steps() > MAX_STEPS {
            continue;
        }
        if let Ok(again) = computed_again(kernel, (main, &[]), written, kernel.operand(i, "indices").to_vec()) {
            replay.add(again);
            out.push(operand);
        }
    }
    (out, replay)
}
