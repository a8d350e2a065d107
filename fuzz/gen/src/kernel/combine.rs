//! Steps with combining regions, random numbers, and 8-bit floats, which only move and convert.

use super::state::{Gen, Item};
use crate::data::Init;
use tilelift_ir::{CmpOp, KernelBuilder, Operand, Scalar, Value};

const NARROW: [Scalar; 5] = [Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F8E4M3Fnuz, Scalar::F8E5M2Fnuz, Scalar::F8E8M0];

impl Gen<'_> {
    /// One yield of a combining region: an exact op on elements of one type.
    fn combination(&mut self, b: &mut KernelBuilder, x: Value, y: Value, condition: Value) -> Value {
        let elem = b.ty(x).elem();
        if elem == Scalar::I1 {
            return match self.src.below(4) {
                0 => b.or(x, y),
                1 => b.and(x, y),
                2 => b.xor(x, y),
                _ => b.select(condition, x, y),
            };
        }
        match self.src.below(8) {
            0 => b.add(x, y),
            1 => b.select(condition, x, y),
            2 => b.maximum(x, y),
            3 => b.sub(x, y),
            4 => {
                let t = b.mul(x, 3i64);
                b.add(t, y)
            }
            5 => b.minimum(y, x),
            6 if elem.is_int() => b.xor(x, y),
            6 => b.fma(x, y, x),
            _ => y,
        }
    }

    /// `reduce_by`, `scan_by` or `scan_reverse_by` of one to three tiles, with an op that need be neither associative nor commutative.
    pub(super) fn combine(&mut self, b: &mut KernelBuilder) {
        let Some(first) = self.any(|i| i.is_tile() && i.elements() <= 2048) else { return };
        let mut tiles = vec![first.v];
        for _ in 0..self.src.below(3) {
            if let Some(i) = self.any(|i| i.shape() == first.shape()) {
                tiles.push(i.v);
            }
        }
        let axis = self.src.below(first.shape().len() as u32);
        let outside = self.any(|i| !i.is_tile() && i.elem() == first.elem());
        let which = self.src.below(3);
        let gen_cell = std::cell::RefCell::new(&mut *self);
        let region = |b: &mut KernelBuilder, x: &[Value], y: &[Value]| {
            let g = &mut **gen_cell.borrow_mut();
            let ordered = g.src.chance(128);
            let mut left = x[0];
            if let Some(o) = &outside {
                left = if o.elem() == Scalar::I1 { b.xor(left, o.v) } else { b.maximum(left, o.v) };
            }
            let c = b.cmp(if ordered { CmpOp::Gt } else { CmpOp::Ne }, left, y[0]);
            x.iter().zip(y).map(|(&x, &y)| g.combination(b, x, y, c)).collect()
        };
        let made = match which {
            0 => b.reduce_by(&tiles, axis, region),
            1 => b.scan_by(&tiles, axis, region),
            _ => b.scan_reverse_by(&tiles, axis, region),
        };
        self.work += 16 * first.elements() * tiles.len() as u64 * self.times;
        for v in made {
            self.put(b, v, None);
        }
    }

    /// Random words, and numbers made of them.
    pub(super) fn random(&mut self, b: &mut KernelBuilder) {
        let seed = self.seed_scalar(b);
        let offset = self.any(|i| matches!(i.elem(), Scalar::I32 | Scalar::I64) && i.elements() <= 1024);
        let Some(offset) = offset else { return };
        self.work += 40 * offset.elements() * self.times;
        match self.src.below(3) {
            0 => {
                for v in b.random_words(seed, offset.v) {
                    self.put(b, v, None);
                }
            }
            1 => {
                let v = b.uniform(seed, offset.v);
                self.put(b, v, None);
            }
            _ => {
                let v = b.normal(seed, offset.v);
                self.put(b, v, None);
            }
        }
    }

    /// A tile of 8-bit floats, loaded or cast, moved about, then stored or cast back.
    pub(super) fn narrow(&mut self, b: &mut KernelBuilder) {
        let elem = *self.src.pick(&NARROW).unwrap_or(&NARROW[0]);
        let mut v = if self.src.chance(128) {
            let Some(shape) = self.src.pick(&self.shapes).cloned() else { return };
            let seed = self.src.seed();
            let view = {
                let init = if self.src.chance(80) { Init::Bits(seed) } else { Init::Rand(seed) };
                self.input_of(b, elem, &shape, init)
            };
            let Some(at) = self.indices(b, &view, &shape) else { return };
            let mut access = tilelift_ir::Access::default();
            if self.src.chance(64) {
                access.mask = Some(self.truth(b, &shape));
            }
            if self.src.chance(64) {
                access.other = Some(Operand::Float(1.0));
            }
            b.load_with(view.v, &at, &shape, access)
        } else {
            let Some(x) = self.any(|i| i.is_tile() && i.elem() != Scalar::I1) else { return };
            b.cast(x.v, elem)
        };
        let shape: Vec<u32> = b.ty(v).shape().unwrap_or(&[]).to_vec();
        let axis = self.src.below(shape.len() as u32);
        match self.src.below(7) {
            0 => v = b.flip(v, axis),
            1 => {
                let c = self.truth(b, &shape);
                let other = b.full(&shape, 2.0, elem);
                v = b.select(c, v, other);
            }
            2 => v = b.slice(v, &vec![0; shape.len()], &shape),
            4 => {
                let at = self.index_tile(b, &shape, i64::from(shape[axis as usize]));
                v = b.gather_tile(v, at, axis);
            }
            5 => v = b.reduce_by(&[v], axis, |_, _, y| vec![y[0]])[0],
            3 if shape.len() == 2 => v = b.transpose(v, &[1, 0]),
            _ => {}
        }
        self.work += 8 * u64::from(shape.iter().product::<u32>()) * self.times;
        let item = Item { v, ty: b.ty(v).clone(), bound: None };
        if self.src.chance(100) {
            return self.store_item(b, &item);
        }
        let to = *self.src.pick(&[Scalar::F32, Scalar::F16, Scalar::BF16]).unwrap_or(&Scalar::F32);
        let v = b.cast(v, to);
        self.put(b, v, None);
    }
}
