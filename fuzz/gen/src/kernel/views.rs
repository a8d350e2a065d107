//! Views, loads and stores.
//!
//! Input views may be read anywhere. A view that is written belongs to the programs in parts: along some dimensions each program owns a
//! slot, and loads and stores of it stay inside the program's own slots, so that two programs never meet.
//!
//! ```text
//! slot 0 of program 0 │ slot 1 of program 1 │ …       index = pid * slot + c,  0 <= c <= slot - extent of the tile
//! ```

use super::state::{Gen, Item, Owner, View};
use crate::case::{Param, Tensor, Tolerance};
use crate::data::Init;
use tilelift_ir::{Access, Extent, KernelBuilder, Operand, Scalar, Type, Value, ViewType};

/// The bound of written views that have one.
const SMALL: f64 = 3.0;

impl Gen<'_> {
    /// An extent near a wanted one: equal, ragged, a multiple, a part.
    fn extent_near(&mut self, tile: i64) -> i64 {
        match self.src.weighted(&[6, 4, 3, 3, 2, 1]) {
            0 => tile,
            1 => (tile * 2 - self.src.range(0, tile)).max(1),
            2 => tile * self.src.range(1, 3),
            3 => (tile - self.src.range(0, tile)).max(1),
            4 => tile + 16 * self.src.range(0, 3),
            _ => self.src.range(0, 5),
        }
    }

    fn fact(&mut self, n: i64) -> Extent {
        let n = n as u32;
        match self.src.weighted(&[4, 4, 3]) {
            0 => Extent::Dynamic(1),
            1 => Extent::Dynamic(if n == 0 { 64 } else { 1 << n.trailing_zeros().min(self.src.below(8)) }),
            _ => Extent::Fixed(n),
        }
    }

    /// Declares a view parameter with the given extents and a tensor for it.
    fn declare(
        &mut self,
        b: &mut KernelBuilder,
        elem: Scalar,
        shape: &[i64],
        init: Init,
        written: bool,
        tolerance: Option<Tolerance>,
    ) -> Value {
        let rank = shape.len();
        let mut strides = vec![1i64; rank];
        let dense = !self.src.chance(100);
        if dense {
            for d in (1..rank).rev() {
                strides[d - 1] = strides[d] * shape[d].max(1);
            }
        } else {
            // Some order of the dimensions, with gaps.
            let mut left: Vec<usize> = (0..rank).collect();
            let mut step = if self.src.chance(48) { 2 } else { 1 };
            while !left.is_empty() {
                let last = left.len() as u32 - 1;
                let d = left.remove((last - self.src.below(last + 1)) as usize);
                strides[d] = step;
                step *= shape[d].max(1);
                match self.src.below(4) {
                    1 => step += self.src.range(0, 7),
                    2 => step = (step + 7) / 8 * 8,
                    3 => step = (step + 15) / 16 * 16,
                    _ => {}
                }
            }
            if !written && self.src.chance(24) {
                let d = self.src.below(rank as u32) as usize;
                strides[d] = 0;
            }
        }
        let dims: Vec<Extent> = shape.iter().map(|&n| self.fact(n)).collect();
        let mut ty = ViewType::dense(elem, &dims);
        // What a dense view derives from fixed extents must hold for empty ones as well; they are never accessed.
        if !dense {
            let facts: Vec<Extent> =
                strides.iter().map(|&n| if n == 1 && self.src.chance(200) { Extent::Fixed(1) } else { self.fact(n) }).collect();
            ty = ty.with_strides(&facts);
        }
        let align = match self.src.weighted(&[5, 2, 1, 1]) {
            0 => 16,
            1 => elem.bytes(),
            2 => elem.bytes().max(4),
            _ => 64,
        };
        ty = ty.with_align(align);
        let offset = if self.src.chance(64) { u64::from(align.max(elem.bytes())) * (1 + u64::from(self.src.below(3))) } else { 0 };
        self.params.push(Param::Tensor(Tensor { elem, shape: shape.to_vec(), strides, dense, offset, init, tolerance }));
        b.param(ty)
    }

    /// Declares a dense view whose rows are multiples of 16 elements, and says so.
    pub(super) fn declare_rows(&mut self, b: &mut KernelBuilder, elem: Scalar, shape: [i64; 2], init: Init) -> Value {
        let tensor = Tensor { elem, shape: shape.to_vec(), strides: vec![shape[1], 1], dense: true, offset: 0, init, tolerance: None };
        self.params.push(Param::Tensor(tensor));
        let known = if self.src.chance(128) { Extent::Dynamic(16) } else { Extent::Fixed(shape[1] as u32) };
        b.param(ViewType::dense(elem, &[Extent::Dynamic(1), known]))
    }

    fn view_elements(shape: &[i64]) -> i64 {
        shape.iter().map(|&e| e.max(1)).product()
    }

    /// An input view for tiles of about the given extents.
    pub(super) fn input(&mut self, b: &mut KernelBuilder, elem: Scalar, tile: &[u32], small: bool) -> usize {
        let mut shape: Vec<i64> = tile.iter().map(|&e| self.extent_near(i64::from(e))).collect();
        for d in 0..shape.len() {
            if Self::view_elements(&shape) > 16384 {
                shape[d] = i64::from(tile[d]);
            }
        }
        let seed = self.src.seed();
        let init = if small {
            Init::Small(seed)
        } else if self.rand_only {
            Init::Rand(seed)
        } else if self.src.chance(self.cfg.specials) {
            if self.src.chance(100) { Init::Bits(seed) } else { Init::Edge(seed) }
        } else if self.src.chance(32) {
            Init::Iota
        } else {
            Init::Rand(seed)
        };
        let bound = if small { Some(2.0) } else { None };
        let v = self.declare(b, elem, &shape, init, false, None);
        self.views.push(View { v, elem, shape, owners: Vec::new(), written: false, near: false, bound });
        self.views.len() - 1
    }

    /// Where a load of `tile` elements along a dimension of `extent` starts.
    pub(super) fn index(&mut self, b: &mut KernelBuilder, extent: i64, tile: u32) -> Value {
        let t = i64::from(tile);
        match self.src.weighted(&[8, 5, 5, 4, 3, 3, 2, 1, if self.cfg.wild { 1 } else { 0 }]) {
            0 => b.constant(0, Scalar::I32),
            1 => {
                let v = self.index_scalar();
                if b.ty(v) == &Type::Scalar(Scalar::I32) { b.mul(v, t) } else { b.constant(0, Scalar::I32) }
            }
            2 => self.index_i32(b),
            3 => {
                let c = self.src.range(0, extent.max(1));
                b.constant(c, Scalar::I32)
            }
            4 => {
                let c = (self.src.range(0, extent.max(1)) / 16) * 16;
                b.constant(c, Scalar::I32)
            }
            5 => {
                let v = self.index_i32(b);
                let c = self.src.range(0, 16) - 8;
                b.add(v, c)
            }
            6 => {
                let c = -self.src.range(1, t);
                b.constant(c, Scalar::I32)
            }
            7 => match self.any(|i| i.ty == Type::Scalar(Scalar::I32)) {
                Some(i) => i.v,
                None => b.constant(1, Scalar::I32),
            },
            _ => {
                let c = *self.src.pick(&[i64::from(i32::MAX) - 3, i64::from(i32::MIN), i64::from(i32::MAX), 1 << 30]).unwrap_or(&0);
                b.constant(c, Scalar::I32)
            }
        }
    }

    fn index_i32(&mut self, b: &mut KernelBuilder) -> Value {
        let v = self.index_scalar();
        b.cast(v, Scalar::I32)
    }

    fn own_index(&mut self, b: &mut KernelBuilder, o: &Owner, tile: u32) -> Value {
        let at = b.mul(o.who, o.slot);
        let c = self.src.range(0, i64::from(o.slot - tile));
        if c == 0 { at } else { b.add(at, c) }
    }

    /// Indices for a tile of a view that keep the owners' rule; `None` if the tile is larger than a slot.
    pub(super) fn indices(&mut self, b: &mut KernelBuilder, view: &View, tile: &[u32]) -> Option<Vec<Value>> {
        if view.owners.iter().any(|o| o.slot < tile[o.dim]) {
            return None;
        }
        let mut at = Vec::new();
        for (d, &t) in tile.iter().enumerate() {
            let own = view.owners.iter().find(|o| o.dim == d).copied();
            at.push(match own {
                Some(o) => self.own_index(b, &o, t),
                None => self.index(b, view.shape[d], t),
            });
        }
        Some(at)
    }

    /// Loads a tile, perhaps with a mask and `other`.
    fn load(&mut self, b: &mut KernelBuilder, view: &View, at: &[Value], tile: &[u32], plain: bool) -> Item {
        if !plain && self.src.chance(8) {
            b.prefetch(view.v, at, tile);
        }
        let mut access = Access::default();
        let mut bound = view.bound;
        if !plain && self.src.chance(56) {
            access.mask = Some(self.truth(b, tile));
        }
        if !plain && self.src.chance(56) {
            let other = self.constant(b, &Type::Scalar(view.elem));
            bound = bound.zip(other.bound).map(|(p, q)| p.max(q));
            access.other = Some(Operand::Value(other.v));
        }
        let v = b.load_with(view.v, at, tile, access);
        self.put(b, v, bound)
    }

    pub(super) fn load_new(&mut self, b: &mut KernelBuilder) {
        let Some(tile) = self.src.pick(&self.shapes).cloned() else { return };
        let elem = self.elem();
        let small = self.src.chance(80);
        let n = self.input(b, elem, &tile, small);
        let view = self.views[n].clone();
        if let Some(at) = self.indices(b, &view, &tile) {
            self.load(b, &view, &at, &tile, false);
        }
    }

    /// Loads of a view that exists, in the shape of a tile at hand, one of the palette, or its own.
    pub(super) fn load_again(&mut self, b: &mut KernelBuilder) {
        let list: Vec<View> = self.views.iter().filter(|v| !v.near && !v.elem.is_narrow()).cloned().collect();
        let Some(view) = self.src.pick(&list).cloned() else { return };
        let mut shapes: Vec<Vec<u32>> = self.shapes.iter().filter(|s| s.len() == view.shape.len()).map(|s| s.to_vec()).collect();
        shapes.extend(self.scopes.iter().flatten().filter(|i| i.shape().len() == view.shape.len()).map(|i| i.shape().to_vec()));
        let Some(mut tile) = self.src.pick(&shapes).cloned() else { return };
        for o in &view.owners {
            tile[o.dim] = tile[o.dim].min(o.slot);
        }
        if let Some(at) = self.indices(b, &view, &tile) {
            self.load(b, &view, &at, &tile, false);
        }
    }

    /// A view to write tiles of this shape to.
    pub(super) fn output(
        &mut self,
        b: &mut KernelBuilder,
        elem: Scalar,
        tile: &[u32],
        bound: Option<f64>,
        tolerance: Option<Tolerance>,
    ) -> View {
        let programs: u32 = self.grid.iter().product();
        let mut owners = Vec::new();
        let rank = tile.len();
        if programs > 1 {
            let dim = self.src.below(rank as u32) as usize;
            let pad = if self.src.chance(64) { self.src.below(9) } else { 0 };
            if rank >= 2 && self.grid[2] == 1 && self.src.chance(128) {
                let other = (dim + 1) % rank;
                owners.push(Owner { dim, who: self.axes[0], slot: tile[dim] + pad });
                owners.push(Owner { dim: other, who: self.axes[1], slot: tile[other] });
            } else {
                owners.push(Owner { dim, who: self.pid, slot: tile[dim] + pad });
            }
        }
        let mut shape: Vec<i64> = Vec::new();
        for (d, &t) in tile.iter().enumerate() {
            let own = owners.iter().find(|o| o.dim == d).copied();
            shape.push(match own {
                Some(o) => {
                    let count = if owners.len() == 1 {
                        programs
                    } else if o.who == self.axes[0] {
                        self.grid[0]
                    } else {
                        self.grid[1]
                    };
                    let whole = i64::from(o.slot * count);
                    let cut = if self.src.chance(80) { self.src.range(0, whole) } else { 0 };
                    (whole - cut).max(1)
                }
                None => self.extent_near(i64::from(t)),
            });
        }
        let init = Init::Fill(self.src.range(0, 3) - 1);
        let v = self.declare(b, elem, &shape, init, true, tolerance);
        let view = View { v, elem, shape, owners, written: true, near: tolerance.is_some(), bound };
        self.views.push(view.clone());
        view
    }

    /// A view of one dimension that all programs update at once, and nothing else touches.
    pub(super) fn shared_output(&mut self, b: &mut KernelBuilder, elem: Scalar, extent: i64) -> Value {
        let init = Init::Fill(self.src.range(0, 3) - 1);
        self.declare(b, elem, &[extent], init, true, None)
    }

    /// An input view with given contents.
    pub(super) fn input_of(&mut self, b: &mut KernelBuilder, elem: Scalar, tile: &[u32], init: Init) -> View {
        let shape: Vec<i64> = tile.iter().map(|&e| i64::from(e)).collect();
        let v = self.declare(b, elem, &shape, init, false, None);
        View { v, elem, shape, owners: Vec::new(), written: false, near: false, bound: None }
    }

    /// An input view at hand: its value, extents, element type and bound.
    pub(super) fn some_input(&mut self) -> Option<(Value, Vec<i64>, Scalar, Option<f64>)> {
        let list: Vec<View> = self.views.iter().filter(|v| !v.written).cloned().collect();
        let view = self.src.pick(&list)?;
        Some((view.v, view.shape.clone(), view.elem, view.bound))
    }

    pub(super) fn store_any(&mut self, b: &mut KernelBuilder) {
        let Some(item) = self.any(|_| true) else { return };
        self.store_item(b, &item);
    }

    /// Stores an item, to a new view or one that exists.
    pub(super) fn store_item(&mut self, b: &mut KernelBuilder, item: &Item) {
        let mut item = item.clone();
        if !item.is_tile() {
            // Scalars are seen as tiles of one element.
            let rank = 1 + self.src.below(2) as usize;
            item.v = b.reshape(item.v, &[1u32; 2][..rank]);
            item.ty = b.ty(item.v).clone();
        }
        let fits = |v: &&View| {
            v.written
                && !v.near
                && v.elem == item.elem()
                && v.bound.is_none_or(|most| item.bound.is_some_and(|x| x <= most))
                && v.shape.len() == item.shape().len()
                && v.owners.iter().all(|o| item.shape()[o.dim] <= o.slot)
        };
        let list: Vec<View> = self.views.iter().filter(fits).cloned().collect();
        let view = match self.src.pick(&list).cloned() {
            Some(v) if self.src.chance(80) => v,
            Some(_) | None => {
                let small = item.bound.is_some_and(|x| x <= SMALL) && self.src.chance(160);
                self.output(b, item.elem(), item.shape(), Some(SMALL).filter(|_| small), None)
            }
        };
        let Some(at) = self.indices(b, &view, item.shape()) else { return };
        let mask = if self.src.chance(48) { Some(self.truth(b, item.shape())) } else { None };
        self.work += item.elements() * self.times;
        b.store_with(view.v, &at, item.v, mask);
    }

    /// Stores an approximate item to a view of its own.
    pub(super) fn store_near(&mut self, b: &mut KernelBuilder, item: &Item, tolerance: Tolerance) {
        let view = self.output(b, item.elem(), item.shape(), None, Some(tolerance));
        let Some(at) = self.indices(b, &view, item.shape()) else { return };
        b.store(view.v, &at, item.v);
    }

    /// A dot operand straight from memory: a plain load at natural indices, one of which may be the loop's.
    pub(super) fn load_operand(
        &mut self,
        b: &mut KernelBuilder,
        elem: Scalar,
        tile: &[u32; 2],
        k: Option<(usize, Value)>,
        small: bool,
    ) -> Item {
        // A view at hand, which may have been written before, or a new one.
        let fits = |v: &&View| {
            small
                && !v.near
                && v.elem == elem
                && v.shape.len() == 2
                && v.bound.is_some_and(|x| x <= SMALL)
                && v.owners.iter().all(|o| tile[o.dim] <= o.slot)
        };
        let list: Vec<View> = self.views.iter().filter(fits).cloned().collect();
        let view = match self.src.pick(&list).cloned() {
            Some(v) if self.src.chance(96) => v,
            Some(_) | None => {
                let n = self.input(b, elem, tile, small);
                self.views[n].clone()
            }
        };
        if !view.owners.is_empty() {
            let at = self.indices(b, &view, tile).unwrap_or_default();
            return self.load(b, &view, &at, tile, true);
        }
        let mut at = Vec::new();
        for (d, &extent) in tile.iter().enumerate() {
            at.push(match k {
                Some((dim, iv)) if dim == d => match self.src.weighted(&[8, 1, 1]) {
                    0 => iv,
                    1 => b.add(iv, 1),
                    _ => b.mul(iv, 2),
                },
                Some(_) | None => self.index(b, view.shape[d], extent),
            });
        }
        let plain = self.rand_only || !self.src.chance(40);
        self.load(b, &view, &at, tile, plain)
    }

    /// The extent of an input view as a scalar, with its value.
    pub(super) fn some_extent(&mut self, b: &mut KernelBuilder) -> Option<(Value, i64)> {
        let view = self.src.pick(&self.views).cloned()?;
        let d = self.src.below(view.shape.len() as u32);
        Some((b.dim(view.v, d), view.shape[d as usize]))
    }
}
