//! Views whose elements share bytes in pairs: the last extent and the strides but the last are even and known to be so, tiles have an
//! even last extent and begin at an even last index, and stores have no mask.

use super::state::{Gen, Item};
use crate::case::{Param, Tensor};
use crate::data::Init;
use tilelift_ir::{Extent, KernelBuilder, Scalar, Value, ViewType};

impl Gen<'_> {
    /// A view parameter of pairs with extents of at least those given; the last of them is even.
    fn pairs_view(&mut self, b: &mut KernelBuilder, elem: Scalar, shape: &[i64], init: Init) -> Value {
        let last = shape.len() - 1;
        let dense = last == 0 || !self.src.chance(80);
        let mut strides = vec![1i64; shape.len()];
        for d in (0..last).rev() {
            let gap = if dense { 0 } else { 2 * self.src.range(0, 9) };
            strides[d] = strides[d + 1] * shape[d + 1].max(1) + gap;
        }
        let even = |g: &mut Self, n: i64| {
            let most = 1 << (n as u32).trailing_zeros().min(5);
            match g.src.below(3) {
                0 => Extent::Dynamic(2),
                1 => Extent::Dynamic(most),
                _ => Extent::Fixed(n as u32),
            }
        };
        let mut dims: Vec<Extent> =
            shape.iter().map(|&n| if self.src.chance(80) { Extent::Fixed(n as u32) } else { Extent::Dynamic(1) }).collect();
        dims[last] = even(self, shape[last]);
        let mut ty = ViewType::dense(elem, &dims);
        if !dense {
            let mut facts: Vec<Extent> = strides.iter().map(|&n| even(self, n)).collect();
            facts[last] = Extent::Fixed(1);
            ty = ty.with_strides(&facts);
        }
        let align = *self.src.pick(&[16, 1, 4]).unwrap_or(&16);
        let offset = if self.src.chance(64) { u64::from(align) * (1 + u64::from(self.src.below(3))) } else { 0 };
        self.params.push(Param::Tensor(Tensor { elem, shape: shape.to_vec(), strides, dense, offset, init, tolerance: None }));
        b.param(ty.with_align(align))
    }

    /// Even extents near a tile's: equal, ragged, a multiple.
    fn pairs_shape(&mut self, tile: &[u32]) -> Vec<i64> {
        let mut shape: Vec<i64> =
            tile.iter().map(|&t| (i64::from(t) * self.src.range(1, 3) - self.src.range(0, i64::from(t) / 2)).max(1)).collect();
        let last = shape.len() - 1;
        shape[last] += shape[last] % 2;
        shape
    }

    /// A tile of integers from -2 to 2 out of a view of pairs; the tile's last extent is even.
    pub(super) fn load_pairs(&mut self, b: &mut KernelBuilder, elem: Scalar, tile: &[u32]) -> Value {
        let shape = self.pairs_shape(tile);
        let seed = self.src.seed();
        let view = self.pairs_view(b, elem, &shape, Init::Small(seed));
        self.pairs_at(b, view, &shape, tile)
    }

    fn pairs_at(&mut self, b: &mut KernelBuilder, view: Value, shape: &[i64], tile: &[u32]) -> Value {
        let last = tile.len() - 1;
        let mut at = Vec::new();
        for (d, (&extent, &t)) in shape.iter().zip(tile).enumerate() {
            let i = self.index(b, extent, t);
            at.push(match self.src.below(3) {
                _ if d < last => i,
                0 => b.mul(i, 2),
                1 => b.mul(i, i64::from(t)),
                _ => b.constant(2 * self.src.range(0, extent / 2), Scalar::I32),
            });
        }
        b.load(view, &at, tile)
    }

    /// Loads pairs and widens them, or stores a value at hand as pairs.
    pub(super) fn pairs(&mut self, b: &mut KernelBuilder) {
        let elem = *self.src.pick(&[Scalar::I4, Scalar::F4E2M1]).unwrap_or(&Scalar::I4);
        if self.src.chance(128) {
            let Some(mut tile) = self.src.pick(&self.shapes).map(|s| s.to_vec()) else { return };
            let last = tile.len() - 1;
            tile[last] += tile[last] % 2;
            let (shape, seed) = (self.pairs_shape(&tile), self.src.seed());
            let small = self.src.chance(128);
            let view = self.pairs_view(b, elem, &shape, if small { Init::Small(seed) } else { Init::Bits(seed) });
            let mut v = self.pairs_at(b, view, &shape, &tile);
            if self.src.chance(64) {
                v = b.flip(v, self.src.below(tile.len() as u32));
            }
            let wide = *self.src.pick(&[Scalar::F16, Scalar::F32, Scalar::BF16]).unwrap_or(&Scalar::F32);
            let wide = if elem == Scalar::I4 && self.src.chance(128) { Scalar::I8 } else { wide };
            let v = b.cast(v, wide);
            let bound = if small { 2.0 } else { 8.0 };
            self.put(b, v, Some(bound).filter(|_| small || elem == Scalar::I4));
            return;
        }
        let fits = |i: &Item| i.is_tile() && i.elem() != Scalar::I1 && i.shape().last().is_some_and(|n| n % 2 == 0);
        let Some(item) = self.any(fits) else { return };
        let elem = if item.elem().is_int() { Scalar::I4 } else { Scalar::F4E2M1 };
        let v = b.cast(item.v, elem);
        let tile = item.shape().to_vec();
        // Each program writes rows, or pairs, of its own.
        let programs: u32 = self.grid.iter().product();
        let mut shape: Vec<i64> = tile.iter().map(|&t| i64::from(t)).collect();
        shape[0] *= i64::from(programs);
        let init = Init::Fill(self.src.range(0, 3) - 1);
        let view = self.pairs_view(b, elem, &shape, init);
        let mut at = vec![b.constant(0, Scalar::I32); tile.len()];
        at[0] = b.mul(self.pid, i64::from(tile[0]));
        self.work += item.elements() * self.times;
        b.store(view, &at, v);
    }
    /// A tile of bytes as twice as many elements of half a byte, moved about, then joined to bytes again.
    pub(super) fn widths(&mut self, b: &mut KernelBuilder) {
        let half = *self.src.pick(&[Scalar::I4, Scalar::F4E2M1]).unwrap_or(&Scalar::I4);
        let Some(x) = self.any(|i| !i.elem().is_float() && i.elements() <= 2048) else { return };
        let mut v = if x.elem() == Scalar::I8 { x.v } else { b.cast(x.v, Scalar::I8) };
        if !x.is_tile() {
            let Some(shape) = self.src.pick(&self.shapes).cloned() else { return };
            v = b.splat(v, &shape);
        }
        v = self.moved(b, v);
        v = b.bitcast(v, half);
        v = self.moved(b, v);
        if self.src.chance(64) {
            let shape = b.ty(v).shape().unwrap_or(&[]).to_vec();
            let (c, other) = (self.truth(b, &shape), b.full(&shape, 2i64, half));
            v = b.select(c, v, other);
        }
        if b.ty(v).shape().and_then(<[u32]>::last).is_some_and(|n| n % 2 == 0) {
            v = b.bitcast(v, Scalar::I8);
            v = self.moved(b, v);
        } else {
            v = b.cast(v, Scalar::F32);
        }
        self.work += 8 * x.elements() * self.times;
        self.put(b, v, None);
    }

    /// A tile with its elements in other places, or one line of it repeated.
    fn moved(&mut self, b: &mut KernelBuilder, v: Value) -> Value {
        let shape = b.ty(v).shape().unwrap_or(&[]).to_vec();
        let axis = self.src.below(shape.len() as u32);
        let extent = shape[axis as usize];
        match self.src.below(6) {
            0 => b.flip(v, axis),
            1 => {
                let order: Vec<u32> = (0..shape.len() as u32).rev().collect();
                b.transpose(v, &order)
            }
            2 => {
                let (mut at, mut line) = (vec![0; shape.len()], shape.clone());
                (at[axis as usize], line[axis as usize]) = (self.src.below(extent), 1);
                let line = b.slice(v, &at, &line);
                b.broadcast(line, &shape)
            }
            3 if extent.is_multiple_of(2) => {
                let (mut at, mut part) = (vec![0; shape.len()], shape.clone());
                part[axis as usize] = extent / 2;
                let low = b.slice(v, &at, &part);
                at[axis as usize] = extent / 2;
                let high = b.slice(v, &at, &part);
                b.concat(high, low, axis)
            }
            _ => v,
        }
    }
}
