//! Local memory by matrix loads and stores: eight lanes name rows of 16 bytes, and all lanes have parts of them.
//!
//! ```text
//! plan      which registers an instruction moves: a question about the layout alone, rows of 16 bytes being whole in the buffer
//! address   lane l names the row that the fragment has where its row bits, and the matrix, are those of l; the buffer's layout says where
//! ```

use super::super::Lower;
use super::super::elementwise::Coords;
use super::super::vectors::{computed_words, from_words};
use crate::lower::location::{Local, Tile};
use smallvec::SmallVec;
use tilelift_ir::Scalar;
use tilelift_ir::layout::{AccessColumns, Axis, Coord, Layout, LdMatrixPlan, ldmatrix_applies};
use tilelift_lane::{LTy, LVal, LaneBuilder, Vals};
use tilelift_schedule::LowerError;

/// Bytes of a matrix's row.
const ROW: u32 = 16;

/// How a handle is moved.
struct Matrices {
    plan: LdMatrixPlan,
    /// What each bit of a lane's number adds to the element that it names: row bits, then the matrix.
    lanes: Vec<Coord>,
}

fn difference(x: &Coord, y: &Coord) -> Coord {
    x.iter().zip(y).map(|(x, y)| x ^ y).collect()
}

impl Matrices {
    /// `None` where rows of 16 bytes are not whole, or the layout is no fragment of matrices.
    fn of(local: &Local, layout: &Layout, elem: Scalar) -> Option<Matrices> {
        let whole = local.contiguous().is_some() && local.vector_bytes() >= ROW && layout.free_mask(Axis::Reg) == 0;
        if !whole || elem.is_packed() {
            return None;
        }
        let columns = AccessColumns::global(layout, &local.order()).ok()?;
        let plan = ldmatrix_applies(&columns, elem.bytes())?;
        let first = &plan.groups.first()?.regs;
        let per = first.len() / plan.count as usize;
        let at = |k: usize| first.get(k).map(|&r| layout.reg_coord(r));
        let start = at(0)?;
        let lane = |bit| layout.column(Axis::Lane, bit);
        let mut lanes = if plan.trans { vec![difference(&at(1)?, &start), lane(0), lane(1)] } else { vec![lane(2), lane(3), lane(4)] };
        for bit in 0..plan.count.ilog2() {
            lanes.push(difference(&at(per << bit)?, &start));
        }
        // Lanes beyond the matrices name what others do.
        lanes.resize(layout.bits(Axis::Lane) as usize, difference(&start, &start));
        Some(Matrices { plan, lanes })
    }

    /// The elements of all registers.
    fn load(&self, b: &mut LaneBuilder, local: &Local, layout: &Layout, elem: Scalar) -> Result<Vec<Option<LVal>>, LowerError> {
        let mut out = vec![None; layout.size(Axis::Reg) as usize];
        let coords = Coords::of_lanes(b, layout, &self.lanes);
        let per = 4 / elem.bytes();
        for group in &self.plan.groups {
            let (addr, offset) = local.at(b, &coords, &layout.reg_coord(group.regs[0]))?;
            let words = b.load_matrix(self.plan.count as usize, local.alloc, addr, offset, self.plan.trans);
            for (regs, &word) in group.regs.chunks(per as usize).zip(&words) {
                let word = if per == 1 { b.bitcast(word, LTy::Num(elem)) } else { word };
                let elems = from_words(b, &[word], elem, per);
                regs.iter().zip(elems).for_each(|(&r, e)| out[r as usize] = Some(e));
            }
        }
        Ok(out)
    }

    fn store(&self, b: &mut LaneBuilder, local: &Local, tile: &Tile, elem: Scalar) -> Result<(), LowerError> {
        let coords = Coords::of_lanes(b, &tile.layout, &self.lanes);
        let per = 4 / elem.bytes();
        for group in &self.plan.groups {
            let (addr, offset) = local.at(b, &coords, &tile.layout.reg_coord(group.regs[0]))?;
            let mut srcs = Vals::new();
            for regs in group.regs.chunks(per as usize) {
                let elems: SmallVec<[LVal; 4]> = regs.iter().map(|&r| tile.regs[r as usize]).collect();
                let word = computed_words(b, &elems, elem)[0];
                srcs.push(if per == 1 { b.bitcast(word, LTy::B32) } else { word });
            }
            b.store_matrix(srcs, local.alloc, addr, offset);
        }
        Ok(())
    }
}

impl Lower<'_> {
    /// The elements of a handle in a layout, if matrix loads bring them.
    pub(super) fn load_by_matrices(
        &self,
        b: &mut LaneBuilder,
        local: &Local,
        layout: &Layout,
        elem: Scalar,
    ) -> Result<Option<Vec<Option<LVal>>>, LowerError> {
        let matrices = Matrices::of(local, layout, elem).filter(|_| self.target.load_matrix);
        matrices.map(|m| m.load(b, local, layout, elem)).transpose()
    }

    /// Stores a tile to a handle by matrix stores; false if they do not take it. They have no guard, so nothing may be there twice, and
    /// the lane form of them is not transposed.
    pub(super) fn store_by_matrices(&self, b: &mut LaneBuilder, local: &Local, tile: &Tile, elem: Scalar) -> Result<bool, LowerError> {
        let once = [Axis::Lane, Axis::Warp].iter().all(|&a| tile.layout.free_mask(a) == 0);
        let matrices = Matrices::of(local, &tile.layout, elem).filter(|m| once && self.target.units.is_some() && !m.plan.trans);
        matrices.as_ref().map(|m| m.store(b, local, tile, elem)).transpose().map(|done| done.is_some())
    }
}
