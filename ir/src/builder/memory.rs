//! Builder methods that touch memory: loads, stores, prefetches, gathers, scatters, atomics.

use super::{Access, KernelBuilder, Operand, Update};
use crate::entities::Value;
use crate::ops::{AtomicOp, Attr, CacheHint, MemoryOrder, Op, Scope};
use crate::types::{Scalar, Shape, Type};
use smallvec::SmallVec;

impl KernelBuilder {
    /// A tile of a view at an offset per dimension; elements outside read 0.
    #[track_caller]
    pub fn load(&mut self, view: Value, at: &[Value], shape: &[u32]) -> Value {
        self.load_with(view, at, shape, Access::default())
    }

    /// A load with a mask and a value for what is not read.
    #[track_caller]
    pub fn load_with(&mut self, view: Value, at: &[Value], shape: &[u32], access: Access) -> Value {
        let elem = self.ty(view).elem();
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(&[view]);
        args.extend_from_slice(at);
        let mut present = 0;
        if let Some(m) = access.mask {
            args.push(m);
            present |= 0b0100;
        }
        if let Some(o) = access.other {
            let o = self.value(o, Some(elem));
            args.push(o);
            present |= 0b1000;
        }
        let cache = Attr::Cache(access.cache.unwrap_or(CacheHint::Normal));
        self.push(Op::Load, &args, present, &[cache], Some(Type::tile(shape, elem)))
    }

    /// One element of a view, as a scalar; 0 outside.
    #[track_caller]
    pub fn load_scalar(&mut self, view: Value, at: &[Value]) -> Value {
        let tile = self.load(view, at, &vec![1; at.len()]);
        self.reshape(tile, &[])
    }

    /// Writes a tile to a view at an offset per dimension; elements outside are dropped.
    #[track_caller]
    pub fn store(&mut self, view: Value, at: &[Value], value: Value) {
        self.store_with(view, at, value, None);
    }

    /// A store of the elements whose mask is true.
    #[track_caller]
    pub fn store_with(&mut self, view: Value, at: &[Value], value: Value, mask: Option<Value>) {
        self.store_hinted(view, at, value, mask, CacheHint::Normal);
    }

    /// A store of the elements whose mask is true, with a hint for the caches.
    #[track_caller]
    pub fn store_hinted(&mut self, view: Value, at: &[Value], value: Value, mask: Option<Value>, cache: CacheHint) {
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(&[view]);
        args.extend_from_slice(at);
        args.push(value);
        let present = if let Some(m) = mask {
            args.push(m);
            0b1000
        } else {
            0
        };
        self.push(Op::Store, &args, present, &[Attr::Cache(cache)], None);
    }

    /// Asks the caches to fetch a tile of a view at an offset per dimension.
    pub fn prefetch(&mut self, view: Value, at: &[Value], shape: &[u32]) {
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(&[view]);
        args.extend_from_slice(at);
        self.push(Op::Prefetch, &args, 0, &[Attr::Offsets(Shape::from_slice(shape))], None);
    }

    /// Index operands as tiles of the widest one's shape: scalars are splatted, extents of 1 broadcast.
    #[track_caller]
    fn index_tiles(&mut self, at: &[Value]) -> (SmallVec<[Value; 8]>, Shape) {
        let mut shape = Shape::new();
        for &v in at {
            if let Type::Tile(t) = self.ty(v) {
                if shape.len() == t.shape.len() {
                    shape.iter_mut().zip(&t.shape).for_each(|(a, &b)| *a = if *a == 1 { b } else { *a });
                } else if shape.is_empty() {
                    shape = t.shape.clone();
                }
            }
        }
        let mut tiles = SmallVec::new();
        for &v in at {
            tiles.push(self.spread(v, &shape));
        }
        (tiles, shape)
    }

    /// The elements of a view that tiles of indices name, one per dimension; elements outside, or masked off, are `other`. Scalar
    /// indices, and extents of 1 beside larger ones, are spread.
    #[track_caller]
    pub fn gather(&mut self, view: Value, at: &[Value], access: Access) -> Value {
        let elem = self.ty(view).elem();
        let (tiles, _) = self.index_tiles(at);
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(&[view]);
        args.extend(tiles);
        let mut present = 0;
        if let Some(m) = access.mask {
            args.push(m);
            present |= 0b0100;
        }
        if let Some(o) = access.other {
            let o = self.value(o, Some(elem));
            args.push(o);
            present |= 0b1000;
        }
        self.push(Op::Gather, &args, present, &[Attr::Cache(access.cache.unwrap_or(CacheHint::Normal))], None)
    }

    /// Writes a tile (or a scalar, everywhere) to the elements of a view that tiles of indices name.
    #[track_caller]
    pub fn scatter(&mut self, view: Value, at: &[Value], value: impl Into<Operand>, mask: Option<Value>) {
        let value = self.value(value.into(), Some(self.ty(view).elem()));
        let (tiles, shape) = self.index_tiles(at);
        let value = self.spread(value, &shape);
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(&[view]);
        args.extend(tiles);
        args.push(value);
        args.extend(mask);
        let present = if mask.is_some() { 0b1000 } else { 0 };
        self.push(Op::Scatter, &args, present, &[Attr::Cache(CacheHint::Normal)], None);
    }

    /// Updates the elements of a view that tiles of indices name; gives the values from before.
    #[track_caller]
    pub fn atomic(&mut self, op: AtomicOp, view: Value, at: &[Value], value: impl Into<Operand>, how: Update) -> Value {
        let value = value.into();
        self.update(Op::Atomic, Some(op), view, at, &[value], how)
    }

    /// Where the elements of a view that tiles of indices name equal `compare` they become `value`; gives the values from before.
    #[track_caller]
    pub fn atomic_cas(&mut self, view: Value, at: &[Value], compare: impl Into<Operand>, value: impl Into<Operand>, how: Update) -> Value {
        let (compare, value) = (compare.into(), value.into());
        self.update(Op::AtomicCas, None, view, at, &[compare, value], how)
    }

    #[track_caller]
    fn update(&mut self, op: Op, word: Option<AtomicOp>, view: Value, at: &[Value], operands: &[Operand], how: Update) -> Value {
        let elem = self.ty(view).elem();
        let (tiles, shape) = self.index_tiles(at);
        let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(&[view]);
        args.extend(tiles);
        for &o in operands {
            let v = self.value(o, Some(elem));
            let v = self.spread(v, &shape);
            args.push(v);
        }
        args.extend(how.mask);
        let present = if how.mask.is_some() { 1 << (2 + operands.len()) } else { 0 };
        let sync = Attr::Sync(how.order.unwrap_or(MemoryOrder::Relaxed), how.scope.unwrap_or(Scope::Gpu));
        let attrs: SmallVec<[Attr; 1]> = word.map(Attr::Atomic).into_iter().chain([sync]).collect();
        self.push(op, &args, present, &attrs, None)
    }

    /// Elements of a tile along an axis by their positions; positions outside give 0.
    #[track_caller]
    pub fn gather_tile(&mut self, a: Value, indices: Value, axis: u32) -> Value {
        self.push(Op::GatherTile, &[a, indices], 0, &[Attr::Dim(axis)], None)
    }

    /// How often each of the numbers below `bins` appears in a tile of integers, where the mask holds.
    #[track_caller]
    pub fn histogram(&mut self, a: Value, mask: Option<Value>, bins: u32) -> Value {
        let mut args: SmallVec<[Value; 2]> = SmallVec::from_slice(&[a]);
        args.extend(mask);
        let present = if mask.is_some() { 0b10 } else { 0 };
        self.push(Op::Histogram, &args, present, &[], Some(Type::tile(&[bins], Scalar::I32)))
    }
}
