//! TMA boxes: how a tile of a view lies in shared memory when bulk copies bring it there, or take it from there.
//!
//! ```text
//! tile of a view, contiguous dimension first:    box 0 | box 1 | …      a box has as many columns as the swizzle width has
//!                                                                           bytes for, and all rows of the tile
//! ```
//!
//! A box's rows lie one behind the other, their 16-byte chunks exchanged by the swizzle (128, 64 or 32 bytes). A tile of one row, which nothing but copies
//! and lanes touches, needs none: it is one box, and what is behind it begins right there. [`SwizzledTile::of`] says which
//! accesses a tensor map takes, and why others are not taken.

use super::buffer_layout::PHASE;
use crate::access::GlobalAccess;
use crate::facts::{divisor, power_of_two};
use crate::named::Named;
use crate::reason::{CopyLimit, Index, NoBulkCopy};
use smallvec::SmallVec;
use tilelift_ir::{Effects, Extent, Inst, Kernel, Op, Scalar, Value};
use tilelift_lane::{BinOp, LVal, LaneBuilder, TensorBox, Units, Vals};

/// Swizzled tiles begin at multiples of this.
pub const ALIGN: u32 = 1024;
/// Boxes without a swizzle do at multiples of this.
pub const ROW_ALIGN: u32 = 128;

/// A tile in swizzled boxes, and the view it comes from or goes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwizzledTile {
    /// The view's dimensions, contiguous one first.
    pub order: Vec<usize>,
    /// Extents of the tile, in the view's order of dimensions.
    pub shape: Vec<u32>,
    /// Element type; of elements that share bytes, extents count these.
    pub elem: Scalar,
    /// The swizzle width in bytes; 0 of one row that lies as in memory.
    pub swizzle: u32,
    /// The most bytes that the tile's rows permit as swizzle width.
    pub widest: u32,
    /// Elements of a box's row.
    pub per: u32,
    /// Rows of a box.
    pub rows: u32,
    /// `f32` elements become tf32.
    pub tf32: bool,
}

impl SwizzledTile {
    /// The boxes that make up a tile of a view, if bulk copies take the access: as wide as is asked for, else as rows permit.
    ///
    /// # Errors
    /// Why they do not take it.
    pub fn of(kernel: &Kernel, i: Inst, shape: &[u32], units: &Units, want: Option<u32>) -> Result<SwizzledTile, NoBulkCopy> {
        if kernel.insts[i].op == Op::Gather {
            return Err(NoBulkCopy { view: Named::of(kernel, kernel.insts[i].args[0]), limit: CopyLimit::Gathered });
        }
        let access = GlobalAccess::of(kernel, i);
        // A buffer is one of bytes.
        if access.packed && kernel.insts[i].op != Op::AsyncLoad {
            return Err(NoBulkCopy { view: Named::of(kernel, access.view_value), limit: CopyLimit::Packed });
        }
        let writes = kernel.insts[i].op.info().effects.global() != Effects::Reads;
        let tile = SwizzledTile::of_access(kernel, &access, &|d| std::slice::from_ref(&access.indices[d]), writes, (shape, units, want))?;
        Ok(if kernel.insts[i].op == Op::AsyncLoad { tile.into_row(units) } else { tile })
    }

    /// The boxes in which bulk copies bring the bytes of what a load brings: elements that share bytes travel so.
    ///
    /// # Errors
    /// Why they do not take it.
    pub(crate) fn of_bytes(kernel: &Kernel, i: Inst, shape: &[u32], units: &Units) -> Result<SwizzledTile, NoBulkCopy> {
        let mut shape = shape.to_vec();
        if let (Some(last), true) = (shape.last_mut(), kernel.insts[i].args.first().is_some_and(|&v| kernel.ty(v).elem().is_packed())) {
            *last /= 2;
        }
        let access = GlobalAccess::of(kernel, i);
        let tile = SwizzledTile::of_access(kernel, &access, &|d| std::slice::from_ref(&access.indices[d]), false, (&shape, units, None))?;
        Ok(tile.into_row(units))
    }

    /// One box without a swizzle, if the tile is a row that one takes, and slots of it follow one another.
    fn into_row(self, units: &Units) -> SwizzledTile {
        let per = self.shape[self.order[0]];
        let fits = self.rows == 1 && per <= units.bulk.max_box && (per * self.held().bytes()).is_multiple_of(ROW_ALIGN);
        if fits { SwizzledTile { swizzle: 0, widest: 0, per, ..self } } else { self }
    }

    /// The boxes of a tile of a view that is updated; `first` gives what is summed up to where it begins along a dimension.
    ///
    /// # Errors
    /// Why bulk copies do not take it.
    pub(crate) fn of_update<'v>(
        kernel: &Kernel,
        view: Value,
        first: &dyn Fn(usize) -> &'v [Value],
        shape: &[u32],
        units: &Units,
    ) -> Result<SwizzledTile, NoBulkCopy> {
        SwizzledTile::of_access(kernel, &GlobalAccess::at(kernel, view, &[], None), first, true, (shape, units, None))
    }

    fn of_access<'v>(
        kernel: &Kernel,
        access: &GlobalAccess<'_>,
        first: &dyn Fn(usize) -> &'v [Value],
        writes: bool,
        (shape, units, want): (&[u32], &Units, Option<u32>),
    ) -> Result<SwizzledTile, NoBulkCopy> {
        let (view, bulk) = (&*access.view, units.bulk);
        let no = |limit: CopyLimit| NoBulkCopy { view: Named::of(kernel, access.view_value), limit };
        let Some(fast) = access.contiguous() else { return Err(no(CopyLimit::NotContiguous)) };
        // Of elements that share bytes these count, and rows end with whole ones.
        let (size, each) = (view.elem.bytes(), if access.packed { 2 } else { 1 });
        let torn = |e: Extent| !u64::from(e.divisor()).is_multiple_of(2);
        if access.packed && (fast + 1 != view.rank() || access.whole_view().dims.last().is_none_or(|&e| torn(e))) {
            return Err(no(CopyLimit::Packed));
        }
        if view.rank() as u32 > bulk.max_rank {
            return Err(no(CopyLimit::Rank { rank: view.rank(), most: bulk.max_rank }));
        }
        if writes && access.mask.is_some() {
            return Err(no(CopyLimit::Masked));
        }
        if !view.align.is_multiple_of(bulk.align) {
            return Err(no(CopyLimit::Align { align: view.align, need: bulk.align }));
        }
        let order = access.order();
        for &d in &order[1..] {
            let known = match view.stride(d) {
                Extent::Fixed(s) => u64::from(s),
                e @ Extent::Dynamic(_) => u64::from(power_of_two(i64::from(e.divisor()))),
            };
            if (known * u64::from(size)) % u64::from(bulk.align) != 0 {
                return Err(no(CopyLimit::Stride { dim: d, need: bulk.align, elements: (bulk.align / size).max(1) }));
            }
        }
        let torn = |&&at: &&Value| !(divisor(kernel, at, each * bulk.align) * size).is_multiple_of(each * bulk.align);
        if let Some(&at) = first(fast).iter().find(torn) {
            return Err(no(CopyLimit::Start {
                dim: fast,
                at: Index::of(kernel, at),
                bytes: bulk.align,
                elements: (bulk.align / size).max(1),
            }));
        }
        // A copy to global memory that reaches beyond the last column writes whole units of `align` bytes: what lies there is not its own.
        if writes {
            let extent = match view.dims[fast] {
                Extent::Fixed(n) => u64::from(n),
                e @ Extent::Dynamic(_) => u64::from(e.divisor()),
            };
            if (extent * u64::from(size)) % u64::from(bulk.align) != 0 {
                return Err(no(CopyLimit::End { dim: fast, bytes: bulk.align, elements: (bulk.align / size).max(1) }));
            }
        }
        let row = shape[fast] * size;
        let fit: SmallVec<[u32; 4]> = bulk.swizzles.iter().copied().filter(|&s| row.is_multiple_of(s)).collect();
        let Some(&widest) = fit.first() else {
            return Err(no(CopyLimit::Row { row, least: bulk.swizzles.last().copied().unwrap_or(0) }));
        };
        let swizzle = want.unwrap_or(widest);
        if !fit.contains(&swizzle) {
            return Err(no(CopyLimit::Span { row, asked: swizzle, possible: fit.to_vec() }));
        }
        if order[1..].iter().any(|&d| shape[d] > bulk.max_box) {
            return Err(no(CopyLimit::Box { most: bulk.max_box }));
        }
        let rows = order[1..].iter().map(|&d| shape[d]).product();
        let elem = kernel.ty(access.view_value).elem();
        Ok(SwizzledTile { order, shape: shape.to_vec(), elem, swizzle, widest, per: swizzle / size, rows, tf32: false })
    }

    /// A matrix of so many rows in shared memory, contiguous along them, that lanes fill; in columns of at most so many bytes.
    pub fn filled(shape: [u32; 2], elem: Scalar, units: &Units, most: u32) -> Option<SwizzledTile> {
        let row = shape[1] * elem.bytes();
        let mut fit = units.bulk.swizzles.iter().copied().filter(|&s| row.is_multiple_of(s)).peekable();
        let widest = *fit.peek()?;
        let swizzle = fit.find(|&s| s <= most)?;
        let per = swizzle / elem.bytes();
        Some(SwizzledTile { order: vec![1, 0], shape: shape.to_vec(), elem, swizzle, widest, per, rows: shape[0], tf32: false })
    }

    /// The type of its elements in shared memory: those that share bytes are bytes.
    pub fn held(&self) -> Scalar {
        if self.elem.is_packed() { Scalar::I8 } else { self.elem }
    }

    /// The dimension of the tile that runs along rows of boxes.
    pub fn contiguous(&self) -> usize {
        self.order[0]
    }

    /// The dimension along which whole rows of boxes are parts one behind the other: the slowest one with more than one element.
    pub fn down(&self) -> usize {
        let behind = || self.order.iter().skip(1).copied();
        behind().rev().find(|&d| self.shape[d] > 1).or(behind().next()).unwrap_or(0)
    }

    /// Boxes of the tile.
    pub fn boxes(&self) -> u32 {
        self.shape[self.order[0]] / self.per
    }

    /// Bytes of a box.
    pub fn box_bytes(&self) -> u32 {
        self.rows * self.per * self.held().bytes()
    }

    /// Bytes of shared memory that a slot of it takes: atoms of a swizzle have eight rows.
    pub(crate) fn room(&self) -> u32 {
        match self.swizzle {
            0 => self.bytes().next_multiple_of(ROW_ALIGN),
            _ => (self.boxes() * self.rows.next_multiple_of(PHASE) * self.swizzle).next_multiple_of(ALIGN),
        }
    }

    /// Bytes of the tile.
    pub fn bytes(&self) -> u32 {
        self.boxes() * self.box_bytes()
    }

    /// The view's dimension of the longest stride.
    pub fn slowest(&self) -> usize {
        self.order.last().copied().unwrap_or(0)
    }

    /// The first element of a box, innermost dimension first, of the tile at these indices.
    pub fn box_at(&self, b: &mut LaneBuilder, indices: &[LVal], number: u32) -> Vals {
        let along = |(n, &d): (usize, &usize)| match n {
            0 if self.elem.is_packed() => {
                let one = b.i32(1);
                let byte = b.bin(BinOp::ShrS, indices[d], one);
                b.add_const(byte, i64::from(number * self.per))
            }
            0 => b.add_const(indices[d], i64::from(number * self.per)),
            _ => indices[d],
        };
        self.order.iter().enumerate().map(along).collect()
    }

    /// What bulk copies of one box must know of view argument `view`.
    pub fn tensor_box(&self, view: u32) -> TensorBox {
        let mut b = TensorBox {
            view,
            elem: self.elem,
            rank: self.order.len() as u8,
            order: [0; TensorBox::RANK],
            extents: [0; TensorBox::RANK],
            swizzle: self.swizzle,
            tf32: self.tf32,
        };
        for (k, &d) in self.order.iter().enumerate() {
            b.order[k] = d as u8;
            b.extents[k] = if k == 0 { self.per } else { self.shape[d] };
        }
        b
    }
}
