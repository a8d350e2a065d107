//! What a sort compares: every element becomes one integer key, or a key and a position, so that one signed comparison decides.
//!
//! ```text
//! integer      x                                  floats and descending: padding and NaN have the largest key, so they come last
//! float bits   x ^ (sign(x) & 0x7f..f)            descending: the complement
//! with place   key << 16 | position               one i32 for elements up to 16 bits
//!              key << 32 | position               one i64 for elements up to 32 bits, else a pair
//! ```

use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder};

/// Positions that fit a word beside a key of 16 bits.
const PLACES: u32 = 1 << 16;
/// Where such a key lies in its word.
const UPPER: i64 = 0xffff_0000;

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
    elem: Scalar,
    /// The largest comes first.
    descending: bool,
    /// Positions are sorted as well.
    pub placed: bool,
    /// Keys and positions share a word.
    packed: bool,
}

impl Keys {
    /// Keys for elements of lines of so many, with their positions if those are sorted, too.
    pub fn new(elem: Scalar, descending: bool, placed: bool, length: u32) -> Keys {
        Keys { elem, descending, placed, packed: placed && elem.bits() <= 16 && length <= PLACES }
    }

    /// The type of the bare key.
    pub fn bare(self) -> LTy {
        if self.elem.bits() == 64 { LTy::I64 } else { LTy::I32 }
    }

    /// The type of [`Item::key`].
    pub fn ty(self) -> LTy {
        if self.placed && !self.packed { LTy::I64 } else { self.bare() }
    }

    /// True if positions stand beside the key.
    pub fn pair(self) -> bool {
        self.placed && self.elem.bits() == 64
    }

    pub fn largest(self, b: &mut LaneBuilder) -> LVal {
        self.constant(b, i64::MAX)
    }

    /// The bits of a number that a bare key has, from the top.
    fn constant(self, b: &mut LaneBuilder, bits: i64) -> LVal {
        match self.bare() {
            LTy::I64 => b.i64(bits),
            _ if self.packed => b.i32(bits >> 32 & UPPER),
            _ => b.i32(bits >> 32),
        }
    }

    /// The bits of a float as an integer that has its order, and back; or the complement of that.
    fn turned(self, b: &mut LaneBuilder, bits: LVal, complement: bool) -> LVal {
        let shift = if self.bare() == LTy::I64 { b.i64(63) } else { b.i32(31) };
        let (low, all) = (self.constant(b, i64::MAX), self.constant(b, -1));
        let sign = b.bin(BinOp::ShrS, bits, shift);
        let mut flip = b.bin(BinOp::And, sign, low);
        if complement {
            // Here, and not behind, it is part of one operation of three operands.
            flip = b.bin(BinOp::Xor, flip, all);
        }
        b.bin(BinOp::Xor, bits, flip)
    }

    /// An integer with the order of the element.
    pub fn key(self, b: &mut LaneBuilder, x: LVal) -> LVal {
        let bare = self.bare();
        let mut key = if self.elem == Scalar::I1 {
            let (one, zero) = (b.i32(if self.packed { i64::from(PLACES) } else { 1 }), b.i32(0));
            b.select(x, one, zero)
        } else if self.elem.is_float() {
            let bits = if self.packed {
                let zero = b.constant(LTy::Num(self.elem), 0);
                let word = b.pack(&[zero, x]);
                b.bitcast(word, bare)
            } else {
                // Formats below 32 bits are exact in f32.
                let wide = if self.elem.bits() < 32 { b.cvt(x, LTy::F32) } else { x };
                b.bitcast(wide, bare)
            };
            self.turned(b, bits, self.descending)
        } else {
            let wide = b.cvt(x, bare);
            let by = b.i32(16);
            if self.packed { b.bin(BinOp::Shl, wide, by) } else { wide }
        };
        if self.descending && !self.elem.is_float() {
            let all = self.constant(b, -1);
            key = b.bin(BinOp::Xor, key, all);
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
        if self.packed {
            return Item { key: b.bin(BinOp::Or, key, place), place: None };
        }
        self.of_words(b, &[key, place])
    }

    /// The bare key of an item.
    fn bare_key(self, b: &mut LaneBuilder, item: Item) -> LVal {
        if self.packed {
            let upper = b.i32(UPPER);
            return b.bin(BinOp::And, item.key, upper);
        }
        if !self.placed || self.pair() {
            return item.key;
        }
        let by = b.i64(32);
        let high = b.bin(BinOp::ShrU, item.key, by);
        b.cvt(high, LTy::I32)
    }

    /// The element of an item.
    pub fn value(self, b: &mut LaneBuilder, item: Item) -> LVal {
        let mut bits = self.bare_key(b, item);
        // Of floats, only NaN has the largest key.
        let last = self.largest(b);
        let nan = b.cmp(CmpOp::Eq, bits, last);
        if self.descending {
            let all = self.constant(b, -1);
            bits = b.bin(BinOp::Xor, bits, all);
        }
        if self.elem == Scalar::I1 {
            let zero = self.constant(b, 0);
            return b.cmp(CmpOp::Ne, bits, zero);
        }
        if !self.elem.is_float() {
            let by = b.i32(16);
            let bits = if self.packed { b.bin(BinOp::ShrS, bits, by) } else { bits };
            return b.cvt(bits, LTy::Num(self.elem));
        }
        let bits = self.turned(b, bits, false);
        let x = if self.packed {
            let word = b.bitcast(bits, LTy::B32);
            b.unpack(word, LTy::Num(self.elem))[1]
        } else {
            let wide = b.bitcast(bits, if self.bare() == LTy::I64 { LTy::Num(Scalar::F64) } else { LTy::F32 });
            b.cvt(wide, LTy::Num(self.elem))
        };
        // The result is the default one.
        let default = b.constant(LTy::Num(self.elem), tilelift_ir::num::to_bits(f64::NAN, self.elem));
        b.select(nan, default, x)
    }

    /// The position of an item.
    pub fn place(self, b: &mut LaneBuilder, item: Item) -> LVal {
        if self.packed {
            let lower = b.i32(i64::from(PLACES - 1));
            return b.bin(BinOp::And, item.key, lower);
        }
        match item.place {
            Some(p) => p,
            None => b.cvt(item.key, LTy::I32),
        }
    }

    /// The words of an item: of two items the one comes first whose first word is less as a signed number, or whose next one is less as an unsigned one.
    pub fn words(self, b: &mut LaneBuilder, item: Item) -> Vec<LVal> {
        let mut words = vec![item.key];
        if self.ty() == LTy::I64 {
            let by = b.i64(32);
            let high = b.bin(BinOp::ShrU, item.key, by);
            words = [high, item.key].map(|x| b.cvt(x, LTy::I32)).to_vec();
        }
        words.extend(item.place);
        words
    }

    /// The item of such words.
    pub fn of_words(self, b: &mut LaneBuilder, words: &[LVal]) -> Item {
        if self.ty() == LTy::I32 {
            return Item { key: words[0], place: None };
        }
        let [high, low] = [words[0], words[1]].map(|x| b.cvt(x, LTy::I64));
        let (by, mask) = (b.i64(32), b.i64(0xffff_ffff));
        let (high, low) = (b.bin(BinOp::Shl, high, by), b.bin(BinOp::And, low, mask));
        Item { key: b.bin(BinOp::Or, high, low), place: words.get(2).copied() }
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

    /// The words of the one of two items that comes first, and of the other one; `in_order` if `x` is known to have the lower position.
    pub fn ordered_words(self, b: &mut LaneBuilder, x: &[LVal], y: &[LVal], in_order: bool) -> (Vec<LVal>, Vec<LVal>) {
        if let (&[x], &[y]) = (x, y) {
            return (vec![b.bin(BinOp::Minimum, x, y)], vec![b.bin(BinOp::Maximum, x, y)]);
        }
        // What is chosen are words: assemblers make two comparisons of the lesser and the greater of two numbers of 64 bits.
        let later = if in_order && self.placed && !self.pair() {
            b.cmp(CmpOp::Lt, y[0], x[0])
        } else {
            let [p, q] = [x, y].map(|words| self.of_words(b, words));
            if in_order { b.cmp(CmpOp::Lt, q.key, p.key) } else { self.before(b, q, p) }
        };
        let mut chosen = |x: &[LVal], y: &[LVal]| x.iter().zip(y).map(|(&x, &y)| b.select(later, x, y)).collect();
        (chosen(y, x), chosen(x, y))
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
