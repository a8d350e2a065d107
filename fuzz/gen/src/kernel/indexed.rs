//! Steps with indices that are data: gathers, scatters, updates, sorts, counts.

use super::state::{Gen, Item};
use tilelift_ir::{Access, AtomicOp, CmpOp, KernelBuilder, MemoryOrder, Operand, Scalar, Scope, SortOrder, Type, Update, Value};

/// Tiles with more elements are not sorted: a sort unrolls.
const MOST_SORTED: u64 = 1024;

impl Gen<'_> {
    /// A tile of `i32` of a shape; half of the time within `0..extent`.
    pub(super) fn index_tile(&mut self, b: &mut KernelBuilder, shape: &[u32], extent: i64) -> Value {
        let found = self.any(|i| i.shape() == shape && i.elem().is_int());
        let v = match found {
            Some(i) if self.src.chance(128) => b.cast(i.v, Scalar::I32),
            Some(_) | None => {
                let dim = self.src.below(shape.len() as u32);
                let at = b.iota(shape, dim);
                let at = b.mul(at, i64::from(1 + self.src.below(7)));
                b.add(at, self.src.range(0, 9) - 3)
            }
        };
        if self.src.chance(160) { b.rem_u(v, extent.max(1)) } else { v }
    }

    /// Elements of an input view that tiles of indices name.
    pub(super) fn gather(&mut self, b: &mut KernelBuilder) {
        let Some(shape) = self.src.pick(&self.shapes).cloned() else { return };
        let Some((view, extents, elem, bound)) = self.some_input() else { return };
        let at: Vec<Value> = if self.src.chance(96) {
            self.row_tiles(b, &extents, &shape)
        } else {
            extents.iter().map(|&e| self.index_tile(b, &shape, e)).collect()
        };
        let mut access = Access::default();
        let mut bound = bound;
        if self.src.chance(80) {
            access.mask = Some(self.truth(b, &shape));
        }
        if self.src.chance(80) {
            let other = self.constant(b, &Type::Scalar(elem));
            bound = bound.zip(other.bound).map(|(p, q)| p.max(q));
            access.other = Some(Operand::Value(other.v));
        }
        let v = b.gather(view, &at, access);
        self.work += 4 * u64::from(shape.iter().product::<u32>()) * self.times;
        self.put(b, v, bound);
    }

    /// Tiles of indices of a program's own slots that name each element once: an `iota` per dimension, perhaps backward.
    pub(super) fn own_tiles(&mut self, b: &mut KernelBuilder, first: &[Value], shape: &[u32]) -> Vec<Value> {
        let mut out = Vec::new();
        for (d, &at) in first.iter().enumerate() {
            let mut i = b.iota(shape, d as u32);
            if self.src.chance(96) {
                let last = b.full(shape, i64::from(shape[d]) - 1, Scalar::I32);
                i = b.sub(last, i);
            } else if self.src.chance(64) {
                let turned = b.add(i, self.src.range(0, i64::from(shape[d])));
                i = b.rem_u(turned, i64::from(shape[d]));
            }
            out.push(b.add(i, at));
        }
        out
    }

    /// Writes a tile to places that are the program's own and differ.
    pub(super) fn scatter(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(Item::is_tile) else { return };
        let view = self.output(b, x.elem(), x.shape(), None, None);
        let Some(first) = self.indices(b, &view, x.shape()) else { return };
        let at = self.own_tiles(b, &first, x.shape());
        let mask = if self.src.chance(64) { Some(self.truth(b, x.shape())) } else { None };
        self.work += 2 * x.elements() * self.times;
        b.scatter(view.v, &at, x.v, mask);
    }

    fn update_options(&mut self, b: &mut KernelBuilder, shape: &[u32]) -> Update {
        let mask = if self.src.chance(64) { Some(self.truth(b, shape)) } else { None };
        let order = if self.src.chance(48) { self.src.pick(MemoryOrder::ALL).copied() } else { None };
        let scope = if self.src.chance(32) { Some(Scope::Sys) } else { None };
        Update { mask, order, scope }
    }

    /// Updates of the program's own elements, each named once: the old values are known.
    pub(super) fn update_own(&mut self, b: &mut KernelBuilder) {
        // A float sum of one addition has one answer, unless a device takes a subnormal number for 0.
        let Some(x) =
            self.any(|i| i.is_tile() && (matches!(i.elem(), Scalar::I32 | Scalar::I64) || i.elem() == Scalar::F32 && i.bound.is_some()))
        else {
            return;
        };
        let view = self.output(b, x.elem(), x.shape(), None, None);
        let Some(first) = self.indices(b, &view, x.shape()) else { return };
        let at = self.own_tiles(b, &first, x.shape());
        let how = self.update_options(b, x.shape());
        self.work += 4 * x.elements() * self.times;
        let old = if x.elem().is_float() {
            let op = *self.src.pick(&[AtomicOp::Add, AtomicOp::Xchg]).unwrap_or(&AtomicOp::Add);
            b.atomic(op, view.v, &at, x.v, how)
        } else if self.src.chance(64) {
            let compare = self.constant(b, &x.ty);
            b.atomic_cas(view.v, &at, compare.v, x.v, how)
        } else {
            let op = *self.src.pick(AtomicOp::ALL).unwrap_or(&AtomicOp::Add);
            b.atomic(op, view.v, &at, x.v, how)
        };
        self.put(b, old, None);
    }

    /// Updates of all programs that meet anywhere. All are of one kind and commute, and nothing looks at the old values.
    pub(super) fn update_shared(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.is_tile() && matches!(i.elem(), Scalar::I32 | Scalar::I64)) else { return };
        let list: Vec<AtomicOp> = AtomicOp::ALL.iter().copied().filter(|&o| o != AtomicOp::Xchg).collect();
        let op = *self.src.pick(&list).unwrap_or(&AtomicOp::Add);
        let extent = self.src.range(1, 40);
        let view = self.shared_output(b, x.elem(), extent);
        let at = self.index_tile(b, x.shape(), extent);
        let how = self.update_options(b, x.shape());
        self.work += 4 * x.elements() * self.times;
        b.atomic(op, view, &[at], x.v, how);
    }

    pub(super) fn gather_tile(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(Item::is_tile) else { return };
        let axis = self.src.below(x.shape().len() as u32);
        let mut shape = x.shape().to_vec();
        let extent = i64::from(shape[axis as usize]);
        if self.src.chance(96) {
            shape[axis as usize] = *self.src.pick(&[1, 4, 7, 16]).unwrap_or(&1);
        }
        let at = self.index_tile(b, &shape, extent);
        let v = b.gather_tile(x.v, at, axis);
        self.work += 4 * x.elements() * self.times;
        self.put(b, v, x.bound);
    }

    pub(super) fn histogram(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.is_tile() && i.elem().is_int()) else { return };
        let bins = *self.src.pick(&[16, 5, 1, 64, 33]).unwrap_or(&16);
        let v = if self.src.chance(160) { b.rem_u(x.v, i64::from(bins).min(100)) } else { x.v };
        let mask = if self.src.chance(64) { Some(self.truth(b, x.shape())) } else { None };
        let made = b.histogram(v, mask, bins);
        self.work += 4 * x.elements() * self.times;
        self.put(b, made, Some(x.elements() as f64));
    }

    pub(super) fn sort(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.is_tile() && i.elements() <= MOST_SORTED) else { return };
        let axis = self.src.below(x.shape().len() as u32);
        let extent = x.shape()[axis as usize];
        let order = *self.src.pick(SortOrder::ALL).unwrap_or(&SortOrder::Ascending);
        self.work += 16 * x.elements() * self.times;
        let most = Some(f64::from(extent));
        match self.src.below(3) {
            0 => {
                let v = b.sort(order, x.v, axis);
                self.put(b, v, x.bound);
            }
            1 => {
                let v = b.argsort(order, x.v, axis);
                self.put(b, v, most);
            }
            _ => {
                let k = 1 + self.src.below(extent);
                let (v, at) = b.top_k(order, x.v, axis, k);
                self.put(b, v, x.bound);
                self.put(b, at, most);
            }
        }
    }

    /// An index times a number, which is then promised to be a multiple of it.
    pub(super) fn assume(&mut self, b: &mut KernelBuilder) {
        let at = self.index_scalar();
        let n = *self.src.pick(&[16u32, 4, 128, 2]).unwrap_or(&16);
        let scaled = if b.ty(at).elem() == Scalar::I8 { b.cast(at, Scalar::I32) } else { at };
        let scaled = b.mul(scaled, i64::from(n));
        let v = b.assume_multiple(scaled, n);
        self.put(b, v, None);
        if let Some(list) = self.indices.last_mut() {
            list.push(v);
        }
    }

    /// An assertion that holds.
    pub(super) fn assertion(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.elem() != Scalar::I1) else { return };
        let y = self.partner(b, &x);
        let (less, more) = (b.cmp(CmpOp::Le, x.v, y.v), b.cmp(CmpOp::Ne, x.v, y.v));
        let equal = b.cmp(CmpOp::Eq, x.v, y.v);
        let some = b.or(less, more);
        let all = b.or(some, equal);
        b.assert(all);
    }

    /// A number to start random words from.
    pub(super) fn seed_scalar(&mut self, b: &mut KernelBuilder) -> Value {
        let v = self.index_scalar();
        match b.ty(v).elem() {
            Scalar::I64 => v,
            _ => b.cast(v, Scalar::I32),
        }
    }
}
