//! Accesses of a tile through a window of global memory: an address alike in all lanes, and from there an offset of 32 bits, out of whose bounds nothing
//! is read but zeros and nothing is written.
//!
//! ```text
//! base    pointer + bytes * sum over d of index[d] * stride[d]                         alike in all lanes
//! at      lane part of the row * stride + lane part of the column, in bytes; an offset behind all where the column is outside of the view
//! bytes   rows of the tile that are inside * stride: at < bytes iff the row, and the column, are inside
//! ```
//!
//! An access is then guarded by `at < bytes` alone, its address is `base + at`, and the selection of a target that has such accesses
//! ([`Target::windows`](tilelift_lane::Target::windows)) finds both. It holds where the tile is near: rows of less than 2^30 bytes together, none of which
//! reaches into the next, at places that are not negative. That is asked once for the tile; elsewhere lanes have guards of their own.

use super::Lower;
use super::points::{Points, Together, together};
use tilelift_ir::layout::Layout;
use tilelift_ir::{CmpOp, Extent, Kernel, Literal, Op, Value, ValueDef};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Param, ParamSource};

/// Bytes of a window at most.
const MOST: i64 = 1 << 30;
/// An offset behind every window, however far down its rows: the bits of -0.5, which instructions have without a literal.
const OUTSIDE: i64 = 0xbf00_0000;

/// A window on a view, for a tile of some layout.
pub(super) struct Window {
    /// A condition, alike in all lanes, under which it may be used.
    pub near: LVal,
    base: LVal,
    bytes: LVal,
    /// The dimension of rows, if there are several, and their stride in bytes.
    rows: Option<(usize, LVal)>,
    /// Columns have to be asked for.
    columns: bool,
    /// Columns that are inside together.
    together: u32,
    /// Bytes of an access.
    size: u32,
}

fn both(b: &mut LaneBuilder, a: LVal, c: LVal) -> LVal {
    b.bin(BinOp::And, a, c)
}

impl Lower<'_> {
    /// The window for accesses of `size` bytes, if the view and the layout are of a kind that has one.
    pub(super) fn window(&self, b: &mut LaneBuilder, p: &Points<'_>, layout: &Layout, size: u32) -> Option<Window> {
        let (view, rank) = (&p.access.view, p.access.view.rank());
        let last = rank.checked_sub(1)?;
        if !self.target.windows || p.mask.is_some() || p.access.packed || view.stride(last) != Extent::Fixed(1) {
            return None;
        }
        let mut several = (0..last).filter(|&d| layout.shape()[d] > 1);
        let row = several.next();
        if several.next().is_some() {
            return None;
        }
        let elem = i64::from(view.elem.bytes());
        // A bound of all lanes is no guard.
        let together: Together = together(&p.access, false);
        let (zero, whole) = (b.i32(0), b.i32(-i64::from(size)));
        let mut near = self.not_negative(b, p, last, row.is_some());
        // Rows, or columns, of the tile that are inside.
        let room = |b: &mut LaneBuilder, d: usize| {
            let extent = self.extent(b, p.view, d);
            let room = b.bin(BinOp::Sub, extent, p.index[d]);
            let (room, most) = (b.bin(BinOp::Maximum, room, zero), b.i32(i64::from(layout.shape()[d])));
            b.bin(BinOp::Minimum, room, most)
        };
        let columns = row.is_some() && layout.shape()[last] > together[last];
        let all = |d: usize| layout.shape()[d] <= together[d];
        let (mut bytes, rows) = match row {
            Some(d) => {
                let from = self.not_negative(b, p, d, true);
                near = both(b, near, from);
                let (stride, here) = self.row_stride(b, p, d, layout.shape()[d]);
                near = both(b, near, here);
                let stride = b.bin(BinOp::And, stride, whole);
                let room = if all(d) { b.i32(i64::from(layout.shape()[d])) } else { room(b, d) };
                (b.bin(BinOp::Mul, room, stride), Some((d, stride)))
            }
            None => {
                let (room, elem) = (room(b, last), b.i32(elem));
                let bytes = b.bin(BinOp::Mul, room, elem);
                (b.bin(BinOp::And, bytes, whole), None)
            }
        };
        let asked = |d: usize| if Some(d) == row { all(d) } else { d != last || (row.is_some() && !columns) };
        let mut dims: Vec<usize> = (0..rank).filter(|&d| asked(d)).collect();
        // What a loop does not change first.
        dims.sort_by_key(|&d| b.depth(p.index[d]));
        for d in dims {
            let extent = self.extent(b, p.view, d);
            let inside = b.cmp(CmpOp::Ult, p.index[d], extent);
            bytes = b.select(inside, bytes, zero);
        }
        let base = self.window_base(b, p, rows);
        Some(Window { near, base, bytes, rows, columns, together: together[last], size })
    }

    /// True, as a condition, where an index is not negative. A loop that begins at 0 counts up: where a sum with its index overflows all the same, the
    /// view has almost 2^31 rows, of which none is left behind that place, or columns, which are no window.
    fn not_negative(&self, b: &mut LaneBuilder, p: &Points<'_>, d: usize, rows: bool) -> LVal {
        if rows && counted(self.kernel, p.access.indices[d]) {
            return b.constant(LTy::I1, 1);
        }
        let zero = b.i32(0);
        b.cmp(CmpOp::Ge, p.index[d], zero)
    }

    /// The stride of rows in bytes, and whether so many of them are a window: not too large, each in front of the next.
    fn row_stride(&self, b: &mut LaneBuilder, p: &Points<'_>, d: usize, rows: u32) -> (LVal, LVal) {
        let last = p.access.view.rank() - 1;
        let elem = b.i64(i64::from(p.access.view.elem.bytes()));
        let stride = self.stride(b, p.view, d);
        let columns = self.extent(b, p.view, last);
        let columns = b.cvt(columns, LTy::I64);
        let apart = b.cmp(CmpOp::Le, columns, stride);
        let stride = b.mul(stride, elem);
        let most = b.i64(MOST / i64::from(rows));
        let small = b.cmp(CmpOp::Le, stride, most);
        (b.cvt(stride, LTy::I32), both(b, apart, small))
    }

    /// Where rows are a window, neither they nor columns are counted with more than 32 bits.
    fn window_base(&self, b: &mut LaneBuilder, p: &Points<'_>, rows: Option<(usize, LVal)>) -> LVal {
        let n = self.param_number(p.view);
        let elem = i64::from(p.access.view.elem.bytes());
        let last = p.access.view.rank() - 1;
        let mut base = b.param(Param { ty: LTy::I64, source: ParamSource::Pointer(n) });
        let mut dims: Vec<usize> = (0..=last).collect();
        dims.sort_by_key(|&d| b.depth(p.index[d]));
        for d in dims {
            let (one, scale) = (b.i32(1), b.i32(elem));
            base = match rows {
                Some((row, stride)) if d == row => b.mad_wide_u(p.index[d], stride, base),
                Some(_) if d == last => {
                    let columns = b.bin(BinOp::Mul, p.index[d], scale);
                    b.mad_wide_u(columns, one, base)
                }
                None if d == last => b.mad_wide_u(p.index[d], scale, base),
                _ => {
                    let (stride, scale) = (self.stride(b, p.view, d), b.i64(elem));
                    let stride = b.mul(stride, scale);
                    let index = b.cvt(p.index[d], LTy::I64);
                    let there = b.mul(index, stride);
                    b.add(base, there)
                }
            };
        }
        base
    }
}

/// True for the index of a loop that counts up from 0 or more, and for its sum with a constant that is not negative.
fn counted(kernel: &Kernel, v: Value) -> bool {
    let constant = |v: Value| matches!(kernel.as_const(v), Some((Literal::Int(c), _)) if c >= 0);
    match kernel.values[v].def {
        ValueDef::RegionParam(r, 0) => {
            kernel.holder(r).is_some_and(|i| kernel.insts[i].op == Op::For && kernel.insts[i].args.first().is_some_and(|&lo| constant(lo)))
        }
        ValueDef::Result(i, _) if kernel.insts[i].op == Op::Add => match kernel.insts[i].args[..] {
            [a, by] => constant(by) && counted(kernel, a) || constant(a) && counted(kernel, by),
            _ => false,
        },
        ValueDef::Result(..) | ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => false,
    }
}

impl Window {
    /// Address and guard of the access that starts at register `reg`; `writer` says which lanes have a part.
    pub fn point(
        &self,
        b: &mut LaneBuilder,
        cx: &Lower<'_>,
        p: &Points<'_>,
        (layout, reg): (&Layout, u32),
        writer: Option<LVal>,
    ) -> (LVal, LVal) {
        let c = layout.reg_coord(reg);
        let last = p.access.view.rank() - 1;
        let elem = i64::from(p.access.view.elem.bytes());
        let (part, rest) = p.coords.split(b, last, c[last]);
        let zero = b.i32(0);
        let column = part.unwrap_or(zero);
        let scale = b.i32(elem);
        let mut at = b.bin(BinOp::Mul, column, scale);
        let mut down = None;
        if let Some((d, stride)) = self.rows {
            let (part, rest) = p.coords.split(b, d, c[d]);
            if let Some(part) = part {
                let row = b.bin(BinOp::Mul, part, stride);
                at = b.bin(BinOp::Add, row, at);
            }
            let rest = b.i32(i64::from(rest));
            down = Some(b.bin(BinOp::Mul, stride, rest));
        }
        at = b.add_const(at, i64::from(rest) * elem);
        let inside = self.columns.then(|| {
            let here = b.bin(BinOp::Add, p.index[last], column);
            let here = b.add_const(here, i64::from(p.coords.first_of(last, rest, self.together)));
            let extent = cx.extent(b, p.view, last);
            b.cmp(CmpOp::Ult, here, extent)
        });
        if let Some(taken) = b.and_guard(writer, inside) {
            let outside = b.i32(OUTSIDE);
            at = b.select(taken, at, outside);
        }
        if let Some(down) = down {
            at = b.bin(BinOp::Add, at, down);
        }
        let one = b.i32(1);
        debug_assert!(self.size.is_power_of_two());
        (b.mad_wide_u(at, one, self.base), b.cmp(CmpOp::Ult, at, self.bytes))
    }
}
