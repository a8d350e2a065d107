//! Numbers along the rows of tiles, and masks of them: runs that begin at multiples and anywhere, quotients, remainders, sums that wrap, and ends of
//! every kind. Vectors under masks follow from what is known of such numbers.

use super::state::{Gen, Owner, View};
use crate::data::Init;
use tilelift_ir::{Access, CmpOp, KernelBuilder, Operand, Scalar, Type, Value};

/// Constants beside which blocks of numbers end, and numbers wrap.
const CORNERS: &[i64] = &[0, 8, 15, 16, 24, 63, 64, -1, -16, i32::MAX as i64 - 7, i32::MAX as i64, i32::MIN as i64];

impl Gen<'_> {
    /// A scalar of `i32` that is perhaps a multiple of something, or beside one.
    fn place(&mut self, b: &mut KernelBuilder) -> Value {
        if self.src.chance(64) {
            let c = *self.src.pick(CORNERS).unwrap_or(&0);
            return b.constant(c, Scalar::I32);
        }
        let at = self.index_scalar();
        let at = b.cast(at, Scalar::I32);
        let by = *self.src.pick(&[8i64, 16, 64, 4, 1, 3, 24]).unwrap_or(&8);
        let at = b.mul(at, by);
        match self.src.below(3) {
            0 => {
                let more = *self.src.pick(&[-1i64, 8, 1, 16, 5, 7]).unwrap_or(&1);
                b.add(at, more)
            }
            _ => at,
        }
    }

    /// Numbers that count along a dimension of a tile, the last one as a rule, or what is computed from them.
    pub(super) fn counting(&mut self, b: &mut KernelBuilder, shape: &[u32]) -> Value {
        let rank = shape.len() as u32;
        let dim = if self.src.chance(176) { rank - 1 } else { self.src.below(rank) };
        let mut x = b.iota(shape, dim);
        if self.src.chance(144) {
            let at = self.place(b);
            let at = b.splat(at, shape);
            x = match self.src.weighted(&[6, 2, 1, 1]) {
                0 => b.add(x, at),
                1 => b.or(at, x),
                2 => b.sub(x, at),
                _ => b.xor(x, at),
            };
        }
        if self.src.chance(64) {
            let by = *self.src.pick(&[8i64, 16, 24, 7, 64, -8]).unwrap_or(&8);
            x = match self.src.below(7) {
                0 => b.div(x, by),
                1 => b.rem(x, by),
                2 => b.div_u(x, by),
                3 => b.rem_u(x, by),
                4 => b.and(x, by - 1),
                5 => b.shr_s(x, 3i64),
                _ => b.minimum(x, by),
            };
        }
        x
    }

    /// A mask of such numbers.
    pub(super) fn row_mask(&mut self, b: &mut KernelBuilder, shape: &[u32]) -> Value {
        let x = self.counting(b, shape);
        let end = if self.src.chance(32) {
            self.counting(b, shape)
        } else {
            let end = self.place(b);
            b.splat(end, shape)
        };
        let op = *self.src.pick(CmpOp::ALL).unwrap_or(&CmpOp::Lt);
        let (x, end) = if self.src.chance(64) { (end, x) } else { (x, end) };
        b.cmp(op, x, end)
    }

    /// Indices of rows of a view of these extents: what counts for the last dimension, for the others what is equal along the tile's last one.
    pub(super) fn row_tiles(&mut self, b: &mut KernelBuilder, extents: &[i64], shape: &[u32]) -> Vec<Value> {
        let mut first = shape.to_vec();
        if let Some(last) = first.last_mut() {
            *last = 1;
        }
        let last = extents.len() - 1;
        let each = extents.iter().enumerate();
        each.map(|(d, &extent)| {
            if d == last {
                return self.counting(b, shape);
            }
            let row = self.index_tile(b, &first, extent);
            b.broadcast(row, shape)
        })
        .collect()
    }

    /// Accesses of views whose rows begin aligned: a load or a gather under a mask, and a store or a scatter under another, which may move vectors.
    pub(super) fn vectors(&mut self, b: &mut KernelBuilder) {
        let elem = self.elem();
        let programs: u32 = self.grid.iter().product();
        let shape = [*self.src.pick(&[4u32, 1, 7, 8]).unwrap_or(&4), *self.src.pick(&[32u32, 64, 48, 16]).unwrap_or(&32)];
        let [rows, cols] = shape.map(i64::from);
        let extents = [self.src.range(1, rows * 2), cols + 16 * self.src.range(0, 3)];
        let init = Init::Rand(self.src.seed());
        let from = self.declare_rows(b, elem, extents, init);
        self.views.push(View { v: from, elem, shape: extents.to_vec(), owners: Vec::new(), written: false, near: false, bound: None });
        let mut access = Access { mask: self.src.chance(192).then(|| self.row_mask(b, &shape)), ..Access::default() };
        if self.src.chance(80) {
            let other = self.constant(b, &Type::Scalar(elem));
            access.other = Some(Operand::Value(other.v));
        }
        let t = if self.src.chance(128) {
            let at = self.row_tiles(b, &extents, &shape);
            b.gather(from, &at, access)
        } else {
            let column = b.constant(16 * self.src.range(0, 3), Scalar::I32);
            let row = self.index(b, extents[0], shape[0]);
            b.load_with(from, &[row, column], &shape, access)
        };
        let item = self.put(b, t, None);
        self.work += 8 * item.elements() * self.times;

        let owners = if programs > 1 { vec![Owner { dim: 0, who: self.pid, slot: shape[0] }] } else { Vec::new() };
        let whole = rows * i64::from(programs);
        let extents = [whole - self.src.range(0, rows - 1), cols + 16 * self.src.range(0, 2) - 16];
        let init = Init::Fill(self.src.range(0, 3) - 1);
        let extents = [extents[0], extents[1].max(16)];
        let to = self.declare_rows(b, elem, extents, init);
        let view = View { v: to, elem, shape: extents.to_vec(), owners, written: true, near: false, bound: None };
        self.views.push(view.clone());
        let Some(first) = self.indices(b, &view, &shape) else { return };
        let mask = self.src.chance(192).then(|| self.row_mask(b, &shape));
        if self.src.chance(96) {
            let at = self.own_tiles(b, &first, &shape);
            b.scatter(to, &at, t, mask);
        } else {
            b.store_with(to, &first, t, mask);
        }
    }
}
