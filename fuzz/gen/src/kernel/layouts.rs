//! Layouts that a kernel requires: a tile is held in one, computed with, carried by a loop, released.

use super::state::{Gen, Item};
use tilelift_ir::{KernelBuilder, LayoutSpec, Scalar, Shape, Value};

impl Gen<'_> {
    /// `bits` bits dealt to the dimensions at random, as counts.
    fn dealt(&mut self, rank: usize, bits: u32) -> Shape {
        let mut counts = Shape::from_elem(1, rank);
        for _ in 0..bits {
            let d = self.src.below(rank as u32) as usize;
            counts[d] *= 2;
        }
        counts
    }

    fn spec(&mut self, shape: &[u32]) -> LayoutSpec {
        let rank = shape.len();
        let lanes = self.lanes.trailing_zeros();
        let warps = self.warps.trailing_zeros();
        let size = self.src.below(3);
        let (size, lanes, warps) = (self.dealt(rank, size), self.dealt(rank, lanes), self.dealt(rank, warps));
        let mut order: Shape = (0..rank as u32).rev().collect();
        let (i, j) = (self.src.below(rank as u32) as usize, self.src.below(rank as u32) as usize);
        order.swap(i, j);
        if self.src.chance(192) {
            return LayoutSpec::Blocked { size, lanes, warps, order };
        }
        // The same written out: the bits of a dimension go to registers, lanes, warps, and to registers again; what finds none makes copies.
        let mut lists: [Vec<Shape>; 3] = Default::default();
        let mut used = vec![0; rank];
        let room: Vec<u32> = shape.iter().map(|e| e.trailing_zeros()).collect();
        let at = |d: usize, used: &mut [u32]| {
            let mut c = Shape::from_elem(0, rank);
            if used[d] < room[d] {
                c[d] = 1 << used[d];
                used[d] += 1;
            }
            c
        };
        for (list, counts) in [(0, &size), (1, &lanes), (2, &warps)] {
            for &d in &order {
                for _ in 0..counts[d as usize].trailing_zeros() {
                    let c = at(d as usize, &mut used);
                    if list > 0 || c.iter().any(|&x| x != 0) {
                        lists[list].push(c);
                    }
                }
            }
        }
        for d in 0..rank {
            while used[d] < room[d] {
                let c = at(d, &mut used);
                lists[0].push(c);
            }
        }
        let [registers, lanes, warps] = lists;
        LayoutSpec::Linear { registers, lanes, warps }
    }

    /// Ops on a held tile, with partners that are free.
    fn held_ops(&mut self, b: &mut KernelBuilder, mut v: Value, like: &Item) -> Value {
        for _ in 0..self.src.below(3) {
            let free = self.partner(b, like).v;
            v = match (like.elem() == Scalar::I1, self.src.below(3)) {
                (true, 0) => b.and(v, free),
                (true, 1) => b.or(v, free),
                (true, _) => b.xor(v, free),
                (false, 0) => b.maximum(v, free),
                (false, 1) => b.sub(v, free),
                (false, _) => b.minimum(free, v),
            };
            if b.ty(v).shape().is_some_and(|s| s.len() == 2) && like.elem().is_int() && self.src.chance(48) {
                v = b.flip(v, 1);
            }
        }
        v
    }

    pub(super) fn require(&mut self, b: &mut KernelBuilder) {
        let Some(x) = self.any(|i| i.is_tile() && !i.elem().is_narrow()) else { return };
        let spec = self.spec(x.shape());
        let mut v = b.require_layout(x.v, spec.clone());
        v = self.held_ops(b, v, &x);
        if self.src.chance(96) {
            let rounds = self.src.range(0, 3);
            let before = self.times;
            self.times *= rounds as u64 + 1;
            let (gen_cell, like) = (std::cell::RefCell::new(&mut *self), &x);
            let out = b.for_loop(0, rounds, 1, &[v], |b, _, carried| {
                let mut g = gen_cell.borrow_mut();
                let mut next = g.held_ops(b, carried[0], like);
                if g.src.chance(96) {
                    next = b.release_layout(next);
                    next = g.held_ops(b, next, like);
                }
                if g.src.chance(64) {
                    next = b.require_layout(next, spec.clone());
                }
                vec![next]
            });
            v = out[0];
            self.times = before;
        }
        let v = b.release_layout(v);
        self.put(b, v, None);
    }
}
