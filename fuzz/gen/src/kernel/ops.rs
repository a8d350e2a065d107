//! Steps that compute: elementwise ops, reductions, shapes, leaves.

use super::state::{Gen, Item};
use super::{EXTENTS, limit};
use crate::config::Mode;
use crate::data::edges;
use tilelift_ir::{CmpOp, KernelBuilder, Op, ReduceOp, Scalar, Shape, Type, Value, num};

type Unary = fn(&mut KernelBuilder, Value) -> Value;
type Binary = fn(&mut KernelBuilder, Value, Value) -> Value;

impl Gen<'_> {
    /// A literal of a type, spread over a shape.
    pub(super) fn constant(&mut self, b: &mut KernelBuilder, ty: &Type) -> Item {
        let elem = ty.elem();
        let specials = self.cfg.specials;
        let (scalar, bound) = if self.src.chance(specials) {
            let list = edges(elem);
            let bits = *self.src.pick(&list).unwrap_or(&0);
            let v = if elem.is_float() { b.constant(num::from_bits(bits, elem), elem) } else { b.constant(bits as i64, elem) };
            (v, None)
        } else if elem.is_float() {
            let x: f64 = *self.src.pick(&[1.0, 0.0, 2.0, -1.0, 0.5, 3.0, -0.75, 10.0, 0.001]).unwrap_or(&1.0);
            (b.constant(x, elem), Some(10.0).filter(|_| x.fract() == 0.0))
        } else {
            let x = *self.src.pick(&[1i64, 0, 2, 3, -1, 5, 7, 31, -13]).unwrap_or(&1);
            (b.constant(if elem == Scalar::I1 { x & 1 } else { x }, elem), Some(31.0))
        };
        let v = match ty {
            Type::Tile(t) => b.splat(scalar, &t.shape),
            Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => scalar,
        };
        Item { v, ty: ty.clone(), bound: bound.filter(|&x| x <= limit(elem)) }
    }

    /// Another value of the type: one at hand, itself, or a literal.
    pub(super) fn partner(&mut self, b: &mut KernelBuilder, of: &Item) -> Item {
        match self.src.weighted(&[6, 1, 2]) {
            0 => {
                let found = self.any(|i| i.ty == of.ty && i.v != of.v);
                match found {
                    Some(i) => i,
                    None => self.other_type(b, of),
                }
            }
            1 => of.clone(),
            _ => self.constant(b, &of.ty),
        }
    }

    /// A value of the same shape cast to the type, else a literal.
    fn other_type(&mut self, b: &mut KernelBuilder, of: &Item) -> Item {
        match self.any(|i| i.shape() == of.shape() && i.v != of.v) {
            Some(i) => {
                let v = b.cast(i.v, of.elem());
                let bound = i.bound.filter(|&x| x <= limit(of.elem()));
                Item { v, ty: of.ty.clone(), bound }
            }
            None => self.constant(b, &of.ty),
        }
    }

    pub(super) fn binary(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|_| true) else { return };
        let y = self.partner(b, &x);
        let e = x.elem();
        let both = |f: fn(f64, f64) -> f64| x.bound.zip(y.bound).map(|(p, q)| f(p, q));
        let small = both(f64::max);
        let sum = both(|p, q| p + q);
        let added: [(Binary, Option<f64>); 2] = [(|b, x, y| b.add(x, y), sum), (|b, x, y| b.sub(x, y), sum)];
        let number: [(Binary, Option<f64>); 3] =
            [(|b, x, y| b.mul(x, y), both(|p, q| p * q)), (|b, x, y| b.maximum(x, y), small), (|b, x, y| b.minimum(x, y), small)];
        let float: [(Binary, Option<f64>); 3] =
            [(|b, x, y| b.div(x, y), None), (|b, x, y| b.maxnum(x, y), small), (|b, x, y| b.minnum(x, y), small)];
        let bits: [(Binary, Option<f64>); 3] = [(|b, x, y| b.and(x, y), None), (|b, x, y| b.or(x, y), None), (|b, x, y| b.xor(x, y), None)];
        let int: [(Binary, Option<f64>); 11] = [
            (|b, x, y| b.div(x, y), x.bound),
            (|b, x, y| b.rem(x, y), x.bound),
            (|b, x, y| b.shl(x, y), None),
            (|b, x, y| b.shr_s(x, y), x.bound),
            (|b, x, y| b.shr_u(x, y), None),
            (|b, x, y| b.div_u(x, y), None),
            (|b, x, y| b.rem_u(x, y), None),
            (|b, x, y| b.mulhi(x, y), None),
            (|b, x, y| b.mulhi_u(x, y), None),
            (|b, x, y| b.minimum_u(x, y), None),
            (|b, x, y| b.maximum_u(x, y), None),
        ];
        let mut list: Vec<(Binary, Option<f64>)> = Vec::new();
        if e == Scalar::I1 {
            list.extend(bits);
        } else {
            list.extend(number);
            // The optimizer adds to the products what is added to their sum.
            if !self.sums.contains(&e) || sum.is_some_and(|x| x <= limit(e)) {
                list.extend(added);
            }
            if e.is_float() { list.extend(float) } else { list.extend(int.into_iter().chain(bits)) }
        }
        let Some(&(op, bound)) = self.src.pick(&list) else { return };
        let v = op(b, x.v, y.v);
        self.put(b, v, bound);
    }

    pub(super) fn unary(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|_| true) else { return };
        let e = x.elem();
        let number: [(Unary, Option<f64>); 2] = [(|b, x| b.neg(x), x.bound), (|b, x| b.abs(x), x.bound)];
        let float: [(Unary, Option<f64>); 5] = [
            (|b, x| b.floor(x), x.bound),
            (|b, x| b.ceil(x), x.bound),
            (|b, x| b.sqrt(x), None),
            (|b, x| b.round(x), x.bound),
            (|b, x| b.trunc(x), x.bound),
        ];
        let int: [(Unary, Option<f64>); 2] = [(|b, x| b.popcount(x), Some(64.0)), (|b, x| b.clz(x), Some(64.0))];
        let mut list: Vec<(Unary, Option<f64>)> = Vec::new();
        if e != Scalar::I1 {
            list.extend(number);
        }
        if e.is_float() {
            list.extend(float)
        } else {
            list.push((|b, x| b.not(x), None))
        }
        if e.is_int() {
            list.extend(int);
        }
        let Some(&(op, bound)) = self.src.pick(&list) else { return };
        let v = op(b, x.v);
        self.put(b, v, bound);
    }

    pub(super) fn fma(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.elem().is_float()) else { return };
        let (y, z) = (self.partner(b, &x), self.partner(b, &x));
        let v = b.fma(x.v, y.v, z.v);
        let bound = x.bound.zip(y.bound).zip(z.bound).map(|((p, q), r)| p * q + r);
        self.put(b, v, bound);
    }

    /// A truth value of a shape: one at hand, or a comparison.
    pub(super) fn truth(&mut self, b: &mut KernelBuilder, shape: &[u32]) -> Value {
        let want = Type::of_shape(shape, Scalar::I1);
        if self.src.chance(96)
            && let Some(i) = self.any(|i| i.ty == want)
        {
            return i.v;
        }
        if let (true, Some(x)) = (self.src.chance(96), self.any(|i| i.shape() == shape && i.elem() != Scalar::I1)) {
            let y = self.partner(b, &x);
            return b.cmp(CmpOp::Lt, x.v, y.v);
        }
        if shape.is_empty() {
            let at = self.index_scalar();
            let n = self.src.range(0, 3);
            return b.cmp(CmpOp::Gt, at, n);
        }
        if self.src.chance(144) {
            return self.row_mask(b, shape);
        }
        let dim = self.src.below(shape.len() as u32);
        let at = b.iota(shape, dim);
        let n = self.src.range(0, i64::from(shape[dim as usize]));
        b.cmp(CmpOp::Lt, at, n)
    }

    /// A scalar that makes a natural index.
    pub(super) fn index_scalar(&mut self) -> Value {
        let list: Vec<Value> = self.indices.iter().flatten().rev().copied().collect();
        let v = *self.src.pick(&list).unwrap_or(&self.pid);
        self.used.push(v);
        v
    }

    pub(super) fn compare(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|_| true) else { return };
        let y = self.partner(b, &x);
        let ordered = CmpOp::ALL.iter().copied().filter(|c| x.elem().is_int() || !c.is_unsigned());
        let list: Vec<CmpOp> = ordered.collect();
        let c = *self.src.pick(&list).unwrap_or(&CmpOp::Eq);
        let v = b.cmp(c, x.v, y.v);
        self.put(b, v, Some(1.0));
    }

    pub(super) fn select(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|_| true) else { return };
        let y = self.partner(b, &x);
        let shape: Shape = if self.src.chance(64) { Shape::new() } else { Shape::from_slice(x.shape()) };
        let c = self.truth(b, &shape);
        let v = b.select(c, x.v, y.v);
        let bound = x.bound.zip(y.bound).map(|(p, q)| p.max(q));
        self.put(b, v, bound);
    }

    pub(super) fn cast(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|_| true) else { return };
        let to = self.elem();
        if to == x.elem() {
            return;
        }
        let v = b.cast(x.v, to);
        self.put(b, v, if to == Scalar::I1 { Some(1.0) } else { x.bound });
    }

    pub(super) fn bitcast(&mut self, b: &mut KernelBuilder) {
        let Some(mut x) = self.any(|i| i.elem() != Scalar::I1) else { return };
        let list: Vec<Scalar> =
            Scalar::ALL.iter().copied().filter(|s| s.bits() == x.elem().bits() && *s != x.elem() && !s.is_narrow()).collect();
        let Some(&to) = self.src.pick(&list) else { return };
        if x.elem().is_float() {
            // The payload of a NaN is not defined, so none may reach the cast.
            let number = b.cmp(CmpOp::Eq, x.v, x.v);
            x.v = b.select(number, x.v, 0i64);
        }
        let v = b.bitcast(x.v, to);
        self.put(b, v, None);
    }

    /// Brings any numbers near zero, as integers: what a dot may take.
    pub(super) fn shrink_values(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.elem() != Scalar::I1) else { return };
        let v = self.small_of(b, x.v);
        self.put(b, v, Some(3.0));
    }

    /// Integers from -3 to 3 that depend on the value.
    pub(super) fn small_of(&mut self, b: &mut KernelBuilder, v: Value) -> Value {
        if b.ty(v).elem().is_float() {
            let down = b.floor(v);
            let size = b.abs(down);
            let near = b.cmp(CmpOp::Lt, size, 4i64);
            b.select(near, down, 1i64)
        } else {
            b.rem(v, 4)
        }
    }

    pub(super) fn reduce(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(Item::is_tile) else { return };
        let e = x.elem();
        let list: &[ReduceOp] = match e {
            Scalar::I1 => &[ReduceOp::And, ReduceOp::Or, ReduceOp::Xor],
            _ if e.is_float() => &[ReduceOp::Add, ReduceOp::Maximum, ReduceOp::Minimum, ReduceOp::Mul],
            _ => ReduceOp::ALL,
        };
        let op = *self.src.pick(list).unwrap_or(&list[0]);
        let axis = self.src.below(x.shape().len() as u32);
        let bound = match op {
            ReduceOp::Add => x.bound.map(|p| p * f64::from(x.shape()[axis as usize])),
            ReduceOp::Minimum | ReduceOp::Maximum => x.bound,
            ReduceOp::Mul | ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => None,
        };
        let v = if self.src.chance(100) { b.reduce_keep(op, x.v, axis) } else { b.reduce(op, x.v, axis) };
        self.work += x.elements() * self.times;
        self.put(b, v, bound);
    }

    /// Join, split, concat, slice or flip.
    pub(super) fn rearrange(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(Item::is_tile) else { return };
        let shape = Shape::from_slice(x.shape());
        let axis = self.src.below(shape.len() as u32);
        let extent = shape[axis as usize];
        match self.src.below(5) {
            0 if x.elements() * 2 <= u64::from(self.cfg.max_elements) && shape.len() < 5 => {
                let y = self.partner(b, &x);
                let v = b.join(x.v, y.v);
                self.put(b, v, x.bound.zip(y.bound).map(|(p, q)| p.max(q)));
            }
            1 if shape.last() == Some(&2) && shape.len() > 1 => {
                let (p, q) = b.split(x.v);
                self.put(b, p, x.bound);
                self.put(b, q, x.bound);
            }
            2 if x.elements() * 2 <= u64::from(self.cfg.max_elements) => {
                let y = self.partner(b, &x);
                let v = b.concat(x.v, y.v, axis);
                self.put(b, v, x.bound.zip(y.bound).map(|(p, q)| p.max(q)));
            }
            3 => {
                // Half of the time whole chunks, which need no memory.
                let size = if self.src.chance(128) && extent.is_multiple_of(2) { extent / 2 } else { 1 + self.src.below(extent) };
                let mut offsets = vec![0; shape.len()];
                let at = self.src.below(extent - size + 1);
                offsets[axis as usize] = if self.src.chance(128) { at / size * size } else { at };
                let mut to = shape.to_vec();
                to[axis as usize] = size;
                let v = b.slice(x.v, &offsets, &to);
                self.put(b, v, x.bound);
            }
            _ => {
                let v = b.flip(x.v, axis);
                self.put(b, v, x.bound);
            }
        }
    }

    pub(super) fn scan(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(Item::is_tile) else { return };
        let e = x.elem();
        let list: &[ReduceOp] = match e {
            Scalar::I1 => &[ReduceOp::And, ReduceOp::Or, ReduceOp::Xor],
            _ if e.is_float() => &[ReduceOp::Add, ReduceOp::Maximum, ReduceOp::Minimum, ReduceOp::Mul],
            _ => ReduceOp::ALL,
        };
        let op = *self.src.pick(list).unwrap_or(&list[0]);
        let axis = self.src.below(x.shape().len() as u32);
        let bound = match op {
            ReduceOp::Add => x.bound.map(|p| p * f64::from(x.shape()[axis as usize])),
            ReduceOp::Minimum | ReduceOp::Maximum => x.bound,
            ReduceOp::Mul | ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => None,
        };
        let v = if self.src.chance(128) { b.scan(op, x.v, axis) } else { b.scan_reverse(op, x.v, axis) };
        self.work += 8 * x.elements() * self.times;
        self.put(b, v, bound);
    }

    pub(super) fn arg_reduce(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.is_tile() && i.elem() != Scalar::I1) else { return };
        let axis = self.src.below(x.shape().len() as u32);
        let v = if self.src.chance(128) { b.argmin(x.v, axis) } else { b.argmax(x.v, axis) };
        self.work += 4 * x.elements() * self.times;
        self.put(b, v, Some(f64::from(x.shape()[axis as usize])));
    }

    pub(super) fn reshape(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.is_tile() || i.elem() != Scalar::I1) else { return };
        let mut shape = Shape::from_slice(x.shape());
        for _ in 0..=self.src.below(3) {
            match self.src.below(4) {
                // Merge neighbours.
                0 if shape.len() >= 2 => {
                    let d = self.src.below(shape.len() as u32 - 1) as usize;
                    let inner = shape.remove(d + 1);
                    shape[d] *= inner;
                }
                // Split off a factor.
                1 if !shape.is_empty() && shape.len() < 5 => {
                    let d = self.src.below(shape.len() as u32) as usize;
                    let fit: Vec<u32> = [1, 2, 4, 8, 16, 3, 5, 11, 33].into_iter().filter(|n| shape[d].is_multiple_of(*n)).collect();
                    let low = *self.src.pick(&fit).unwrap_or(&1);
                    let high = shape[d] / low;
                    shape[d] = high;
                    shape.insert(d + 1, low);
                }
                2 if shape.len() < 5 => {
                    let d = self.src.below(1 + shape.len() as u32) as usize;
                    shape.insert(d, 1);
                }
                3 => {
                    if let Some(d) = shape.iter().position(|&e| e == 1) {
                        shape.remove(d);
                    }
                }
                _ => {}
            }
        }
        let v = b.reshape(x.v, &shape);
        self.put(b, v, x.bound);
    }

    pub(super) fn transpose(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.shape().len() >= 2) else { return };
        let mut left: Vec<u32> = (0..x.shape().len() as u32).rev().collect();
        let mut perm = Vec::new();
        while !left.is_empty() {
            let k = self.src.below(left.len() as u32) as usize;
            perm.push(left.remove(k));
        }
        let v = b.transpose(x.v, &perm);
        self.put(b, v, x.bound);
    }

    pub(super) fn broadcast(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.shape().contains(&1)) else {
            // Nothing has an extent 1: give some tile one.
            let Some(x) = self.any(|i| i.is_tile() && i.elements() <= 256) else { return };
            let d = self.src.below(1 + x.shape().len() as u32) as usize;
            let v = b.expand_dims(x.v, d);
            let one = Item { v, ty: b.ty(v).clone(), bound: x.bound };
            return self.broadcast_item(b, &one);
        };
        self.broadcast_item(b, &x);
    }

    fn broadcast_item(&mut self, b: &mut KernelBuilder, x: &Item) {
        let mut shape = Shape::from_slice(x.shape());
        // The shape of another tile, if it fits.
        let fits =
            |i: &Item| i.is_tile() && i.shape().len() == shape.len() && i.shape().iter().zip(&shape).all(|(&p, &q)| p == q || q == 1);
        if let (false, Some(other)) = (self.src.chance(64), self.any(|i| fits(i) && i.elements() > x.elements())) {
            let v = b.broadcast(x.v, other.shape());
            self.put(b, v, x.bound);
            return;
        }
        for d in 0..shape.len() {
            let room = self.cfg.max_elements / shape.iter().product::<u32>().max(1);
            if shape[d] == 1 && room > 1 {
                let fit: Vec<u32> = EXTENTS.iter().copied().filter(|&e| e <= room).collect();
                shape[d] = *self.src.pick(&fit).unwrap_or(&1);
            }
        }
        let v = b.broadcast(x.v, &shape);
        self.put(b, v, x.bound);
    }

    pub(super) fn leaf(&mut self, b: &mut KernelBuilder) {
        let Some(shape) = self.src.pick(&self.shapes).cloned() else { return };
        match self.src.below(4) {
            0 => {
                let dim = self.src.below(shape.len() as u32);
                let v = b.iota(&shape, dim);
                self.put(b, v, Some(f64::from(shape[dim as usize])));
            }
            1 => {
                let Some(x) = self.any(|i| !i.is_tile()) else { return };
                let v = b.splat(x.v, &shape);
                self.put(b, v, x.bound);
            }
            2 => {
                let elem = self.elem();
                let c = self.constant(b, &Type::tile(&shape, elem));
                self.put(b, c.v, c.bound);
            }
            _ => {
                let axis = self.src.below(3) as usize;
                let v = if self.src.chance(128) { b.num_programs(axis) } else { b.program_id(axis) };
                self.put(b, v, Some(64.0));
            }
        }
    }

    /// An approximate function right in front of a store.
    pub(super) fn approx_store(&mut self, b: &mut KernelBuilder) {
        debug_assert_eq!(self.cfg.mode, Mode::Approx);
        if self.src.chance(64) {
            return self.dot_store(b);
        }
        let Some(x) = self.any(|i| i.is_tile() && i.elem().is_float() && i.elem() != Scalar::F64) else { return };
        let list: Vec<Op> = Op::ALL.iter().copied().filter(|op| op.info().error.is_some()).collect();
        let Some(&op) = self.src.pick(&list) else { return };
        let mut args = vec![x.v];
        while args.len() < op.info().operands.len() {
            args.push(self.partner(b, &x).v);
        }
        let v = b.elementwise(op, &args);
        // Twice the bounds of the op table for `f32`; narrower types round once more, to a neighbour at most.
        let twice = |e: i32| 2f64.powi(e + 1);
        let (rel, abs) = op.info().error.map_or((0.0, 0.0), |e| (twice(e.relative), e.absolute.map_or(0.0, twice)));
        let item = Item { v, ty: b.ty(v).clone(), bound: None };
        self.work += 4 * item.elements() * self.times;
        self.store_near(b, &item, crate::case::Tolerance { rel, abs });
    }
}
