//! Loops and choices, with carried tiles and scalars. Every loop ends after a few rounds.

use super::limit;
use super::state::{Gen, Item};
use tilelift_ir::{CmpOp, KernelBuilder, ReduceOp, Scalar, Type, Value};

impl Gen<'_> {
    /// Values to carry around a loop.
    fn inits(&mut self, b: &mut KernelBuilder) -> Vec<Item> {
        let mut list = Vec::new();
        for _ in 0..self.src.below(4) {
            if self.src.chance(48) {
                let shape = self.src.pick(&self.shapes).cloned().unwrap_or_default();
                let elem = self.elem();
                list.push(self.constant(b, &Type::of_shape(&shape, elem)));
            } else if let Some(i) = self.any(|_| true) {
                list.push(i);
            }
        }
        list
    }

    /// Opens a scope with the given values, unbounded.
    fn open(&mut self, b: &KernelBuilder, values: &[Value], indices: Vec<Value>) {
        self.scopes.push(values.iter().map(|&v| Item { v, ty: b.ty(v).clone(), bound: None }).collect());
        self.indices.push(indices);
    }

    fn close(&mut self) {
        self.scopes.pop();
        self.indices.pop();
    }

    /// Values of the given types to yield: made in the innermost scope if possible.
    fn yields(&mut self, b: &mut KernelBuilder, like: &[Type]) -> Vec<Value> {
        like.iter()
            .map(|ty| {
                let inner: Vec<Value> = self.scopes.last().into_iter().flatten().rev().filter(|i| i.ty == *ty).map(|i| i.v).collect();
                let found = self.src.pick(&inner).copied();
                let v = match found {
                    Some(v) if !self.src.chance(32) => Some(v),
                    Some(_) | None => self.any(|i| i.ty == *ty).map(|i| i.v),
                };
                let v = match v {
                    Some(v) => v,
                    None => self.constant(b, ty).v,
                };
                self.used.push(v);
                v
            })
            .collect()
    }

    fn rounds(&mut self, b: &mut KernelBuilder, depth: u32, trips: u64, count: u32) -> u64 {
        let before = self.times;
        self.times *= trips.max(1);
        self.steps(b, count, depth + 1);
        before
    }

    /// Lower and upper bound and step of a loop, with the number of rounds.
    fn bounds(&mut self, b: &mut KernelBuilder) -> (Value, Value, Value, u64) {
        let trips = self.src.range(0, 4);
        let step = *self.src.pick(&[1i64, 16, 32, 2, 7, 64]).unwrap_or(&1);
        let lo = if self.src.chance(64) { self.src.range(0, 40) - 20 } else { 0 };
        let ty = [Scalar::I32, Scalar::I64, Scalar::I16, Scalar::I8][self.src.weighted(&[20, 2, 2, 1])];
        if ty == Scalar::I32
            && self.src.chance(64)
            && let Some((hi, n)) = self.some_extent(b)
        {
            let step = step.max(n / 4).max(1);
            let (lo, step) = (b.constant(0, ty), b.constant(step, ty));
            return (lo, hi, step, 5);
        }
        let cut = self.src.range(0, step - 1);
        let (lo, hi, step) = if self.cfg.wild && self.src.chance(12) {
            // Ends at the largest number of the type: the index must not wrap.
            let top = limit(ty) as i64;
            ((top - trips * step).max(-top), top - cut.min(top), step)
        } else {
            (lo, (lo + trips * step - cut).min(limit(ty) as i64), step)
        };
        (b.constant(lo, ty), b.constant(hi, ty), b.constant(step, ty), trips.max(1) as u64)
    }

    pub(super) fn for_loop(&mut self, b: &mut KernelBuilder, depth: u32) {
        let inits = self.inits(b);
        let (lo, hi, step, trips) = self.bounds(b);
        let types: Vec<Type> = inits.iter().map(|i| i.ty.clone()).collect();
        let init: Vec<Value> = inits.iter().map(|i| i.v).collect();
        let count = 1 + self.src.below(6);
        let results = b.for_loop(lo, hi, step, &init, |b, iv, carried| {
            self.open(b, carried, vec![iv]);
            let before = self.rounds(b, depth, trips, count);
            let next = self.yields(b, &types);
            self.times = before;
            self.close();
            next
        });
        for v in results {
            self.put(b, v, None);
        }
    }

    pub(super) fn while_loop(&mut self, b: &mut KernelBuilder, depth: u32) {
        let inits = self.inits(b);
        let trips = self.src.range(0, 4);
        let start = b.constant(0, Scalar::I32);
        let mut types = vec![Type::Scalar(Scalar::I32)];
        types.extend(inits.iter().map(|i| i.ty.clone()));
        let init: Vec<Value> = [start].into_iter().chain(inits.iter().map(|i| i.v)).collect();
        let count = 1 + self.src.below(5);
        // Both regions borrow the generator, one after the other.
        let gen_cell = std::cell::RefCell::new(self);
        let results = b.while_loop(
            &init,
            |b, seen| {
                let mut g = gen_cell.borrow_mut();
                let g = &mut **g;
                g.open(b, seen, vec![seen[0]]);
                let more = b.cmp(CmpOp::Lt, seen[0], trips);
                let before = g.times;
                g.times *= trips as u64 + 1;
                let also = if g.src.chance(64) { g.uniform_truth(b) } else { None };
                g.times = before;
                g.close();
                match also {
                    Some(c) => b.and(more, c),
                    None => more,
                }
            },
            |b, carried| {
                let mut g = gen_cell.borrow_mut();
                let g = &mut **g;
                g.open(b, carried, vec![carried[0]]);
                let before = g.rounds(b, depth, trips as u64, count);
                let mut next = g.yields(b, &types[1..]);
                next.insert(0, b.add(carried[0], 1));
                g.times = before;
                g.close();
                next
            },
        );
        let this = gen_cell.into_inner();
        for v in results {
            this.put(b, v, None);
        }
    }

    /// A scalar condition that data decides.
    fn uniform_truth(&mut self, b: &mut KernelBuilder) -> Option<Value> {
        let x = self.any(|_| true)?;
        let mut t = x.v;
        if x.elem() != Scalar::I1 {
            let y = self.partner(b, &x);
            t = b.cmp(CmpOp::Le, x.v, y.v);
        }
        if x.is_tile() {
            let op = if self.src.chance(128) { ReduceOp::And } else { ReduceOp::Or };
            for left in (1..=x.shape().len() as u32).rev() {
                let axis = self.src.below(left);
                t = b.reduce(op, t, axis);
            }
            self.work += 3 * x.elements() * self.times;
        }
        Some(t)
    }

    pub(super) fn if_else(&mut self, b: &mut KernelBuilder, depth: u32) {
        let data = self.src.chance(100);
        let made = if data { self.uniform_truth(b) } else { None };
        let c = match made {
            Some(c) => c,
            None => self.truth(b, &[]),
        };
        let types: Vec<Type> = self.inits(b).into_iter().map(|i| i.ty).collect();
        let gen_cell = std::cell::RefCell::new(self);
        let arm = |b: &mut KernelBuilder| {
            let mut g = gen_cell.borrow_mut();
            let g = &mut **g;
            g.open(b, &[], Vec::new());
            let count = g.src.below(6);
            g.steps(b, count, depth + 1);
            let y = g.yields(b, &types);
            g.close();
            y
        };
        let results = b.if_else(c, arm, arm);
        let this = gen_cell.into_inner();
        for v in results {
            this.put(b, v, None);
        }
    }
}
