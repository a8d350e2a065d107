//! What a sort compares: every element becomes one integer key, or a key and a position, so that one signed comparison decides.
//!
//! ```text
//! integer      x                                  floats and descending: padding and NaN have the largest key, so they come last
//! float bits   x ^ (sign(x) & 0x7f..f)            descending: the complement
//! with place   key << 32 | position               one i64 for elements up to 32 bits, else a pair
//! ```

use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder};

/// The key of an element and, if it does not fit there, its position.
#[derive(Clone, Copy)]
pub(super) struct Item {
    /// The key, with the position if that fits.
    pub key: LVal,
    /// The position beside it.
    pub place: Option<LVal>,
}

/// How elements become keys.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// Type of the elements.
    pub elem: Scalar,
    /// The largest comes first.
    pub descending: bool,
    /// Positions are sorted as well.
    pub placed: bool,
}

impl Keys {
    /// The type of the bare key.
    pub fn bare(self) -> LTy {
        if self.elem.bits() == 64 { LTy::I64 } else { LTy::I32 }
    }

    /// The type of [`Item::key`].
    pub fn ty(self) -> LTy {
        if self.placed { LTy::I64 } else { self.bare() }
    }

    /// True if positions stand beside the key.
    pub fn pair(self) -> bool {
        self.placed && self.elem.bits() == 64
    }

    pub fn largest(self, b: &mut LaneBuilder) -> LVal {
        if self.bare() == LTy::I64 { b.i64(i64::MAX) } else { b.i32(i64::from(i32::MAX)) }
    }

    /// An integer with the order of the element.
    pub fn key(self, b: &mut LaneBuilder, x: LVal) -> LVal {
        let bare = self.bare();
        let mut key = if self.elem == Scalar::I1 {
            let (one, zero) = (b.i32(1), b.i32(0));
            b.select(x, one, zero)
        } else if self.elem.is_float() {
            // Formats below 32 bits are exact in f32.
            let wide = if self.elem.bits() < 32 { b.cvt(x, LTy::F32) } else { x };
            let bits = b.bitcast(wide, bare);
            let (shift, low) = if bare == LTy::I64 { (b.i64(63), b.i64(i64::MAX)) } else { (b.i32(31), b.i32(i64::from(i32::MAX))) };
            let sign = b.bin(BinOp::ShrS, bits, shift);
            let flip = b.bin(BinOp::And, sign, low);
            b.bin(BinOp::Xor, bits, flip)
        } else {
            b.cvt(x, bare)
        };
        if self.descending {
            let ones = if bare == LTy::I64 { b.i64(-1) } else { b.i32(-1) };
            key = b.bin(BinOp::Xor, key, ones);
        }
        if self.elem.is_float() {
            let nan = b.cmp(CmpOp::Ne, x, x);
            let last = self.largest(b);
            key = b.select(nan, last, key);
        }
        key
    }

    /// A bare key and a position as an item.
    pub fn item(self, b: &mut LaneBuilder, key: LVal, place: LVal) -> Item {
        if !self.placed {
            return Item { key, place: None };
        }
        if self.pair() {
            return Item { key, place: Some(place) };
        }
        let (key, place) = (b.cvt(key, LTy::I64), b.cvt(place, LTy::I64));
        let by = b.i64(32);
        let high = b.bin(BinOp::Shl, key, by);
        Item { key: b.bin(BinOp::Or, high, place), place: None }
    }

    /// The element of an item.
    pub fn value(self, b: &mut LaneBuilder, item: Item) -> LVal {
        let bare = self.bare();
        let mut bits = item.key;
        if self.placed && !self.pair() {
            let by = b.i64(32);
            let high = b.bin(BinOp::ShrU, bits, by);
            bits = b.cvt(high, LTy::I32);
        }
        if self.descending {
            let ones = if bare == LTy::I64 { b.i64(-1) } else { b.i32(-1) };
            bits = b.bin(BinOp::Xor, bits, ones);
        }
        if self.elem == Scalar::I1 {
            let zero = b.i32(0);
            return b.cmp(CmpOp::Ne, bits, zero);
        }
        if !self.elem.is_float() {
            return b.cvt(bits, LTy::Num(self.elem));
        }
        let (shift, low) = if bare == LTy::I64 { (b.i64(63), b.i64(i64::MAX)) } else { (b.i32(31), b.i32(i64::from(i32::MAX))) };
        let sign = b.bin(BinOp::ShrS, bits, shift);
        let flip = b.bin(BinOp::And, sign, low);
        let bits = b.bin(BinOp::Xor, bits, flip);
        let wide = b.bitcast(bits, if bare == LTy::I64 { LTy::Num(Scalar::F64) } else { LTy::F32 });
        let x = b.cvt(wide, LTy::Num(self.elem));
        // The largest key has the bits of some NaN; the result is the default one.
        let nan = b.constant(LTy::Num(self.elem), tilelift_ir::num::to_bits(f64::NAN, self.elem));
        let is_nan = b.cmp(CmpOp::Ne, x, x);
        b.select(is_nan, nan, x)
    }

    /// The position of an item.
    pub fn place(self, b: &mut LaneBuilder, item: Item) -> LVal {
        match item.place {
            Some(p) => p,
            None => b.cvt(item.key, LTy::I32),
        }
    }

    /// True if `x` comes in front of `y`.
    pub fn before(self, b: &mut LaneBuilder, x: Item, y: Item) -> LVal {
        let less = b.cmp(CmpOp::Lt, x.key, y.key);
        let (Some(p), Some(q)) = (x.place, y.place) else { return less };
        let same = b.cmp(CmpOp::Eq, x.key, y.key);
        let first = b.cmp(CmpOp::Lt, p, q);
        let tie = b.bin(BinOp::And, same, first);
        b.bin(BinOp::Or, less, tie)
    }

    /// The one of two items that comes first, and the other one.
    pub fn ordered(self, b: &mut LaneBuilder, x: Item, y: Item) -> (Item, Item) {
        if self.ty() == LTy::I32 {
            let of = |key: LVal| Item { key, place: None };
            return (of(b.bin(BinOp::Minimum, x.key, y.key)), of(b.bin(BinOp::Maximum, x.key, y.key)));
        }
        let first = self.before(b, x, y);
        (choose(b, first, x, y), choose(b, first, y, x))
    }
}

/// One of two items.
pub(super) fn choose(b: &mut LaneBuilder, c: LVal, x: Item, y: Item) -> Item {
    let key = b.select(c, x.key, y.key);
    let place = x.place.zip(y.place).map(|(p, q)| b.select(c, p, q));
    Item { key, place }
}
