//! Packed elements: two of 4 bits share a byte in memory, the even one in its low half. In registers each has a byte of its own, so only
//! global accesses and bitcasts between bytes and halves look different; both are accesses and tiles of bytes with a change of layout.
//!
//! ```text
//! load   words ─► bytes ─► halves        a half remembers the word it came from, so that a cast to a float takes it from there,
//! store  halves ─► bytes ─► words        two at once
//! ```

use super::Lower;
use super::location::Tile;
use crate::layout::packed::{bytes_of, halves_of};
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Inst, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::{GlobalAccess, access_layout_for};
use tilelift_schedule::reason::Unsupported;

fn shift(b: &mut LaneBuilder, op: BinOp, v: LVal, by: u32) -> LVal {
    let by = b.i32(i64::from(by));
    b.bin(op, v, by)
}

/// The halves of a byte, each a byte with the sign of the half.
fn halves(b: &mut LaneBuilder, byte: LVal) -> [LVal; 2] {
    let (word, first) = match b.byte_of_word(byte) {
        Some((word, n)) => (b.bitcast(word, LTy::I32), 8 * n),
        None => (b.cvt(byte, LTy::I32), 0),
    };
    [first, first + 4].map(|at| {
        let up = shift(b, BinOp::Shl, word, 28 - at);
        let half = shift(b, BinOp::ShrS, up, 28);
        let half = b.cvt(half, LTy::Num(Scalar::I8));
        b.note_half(half, word, at);
        half
    })
}

/// The byte of two halves.
fn byte(b: &mut LaneBuilder, [low, high]: [LVal; 2]) -> LVal {
    let [low, high] = [low, high].map(|v| b.cvt(v, LTy::I32));
    let mask = b.i32(15);
    let low = b.bin(BinOp::And, low, mask);
    let high = shift(b, BinOp::Shl, high, 4);
    let both = b.bin(BinOp::Or, low, high);
    b.cvt(both, LTy::Num(Scalar::I8))
}

/// Eight halves as a word: the one that they came out of, if they are its halves in order.
pub(super) fn word_of_halves(b: &mut LaneBuilder, halves: &[LVal]) -> LVal {
    if let Some((word, 0)) = b.half_of_word(halves[0])
        && halves.iter().enumerate().all(|(i, &v)| b.half_of_word(v) == Some((word, 4 * i as u32)))
    {
        return b.bitcast(word, LTy::B32);
    }
    // Of four bytes a, b, c, d of halves: ab in the lowest byte, cd two above.
    let pairs: Vec<LVal> = halves
        .chunks(4)
        .map(|four| {
            let bytes = b.pack(four);
            let bytes = b.bitcast(bytes, LTy::I32);
            let [low, high] = [0x000f_000f, 0x00f0_00f0].map(|mask| b.i32(mask));
            let low = b.bin(BinOp::And, bytes, low);
            let up = shift(b, BinOp::ShrU, bytes, 4);
            let high = b.bin(BinOp::And, up, high);
            b.bin(BinOp::Or, low, high)
        })
        .collect();
    let picks = b.i32(0x6420);
    let word = b.permute(pairs[0], pairs[1], picks);
    b.bitcast(word, LTy::B32)
}

/// A code of 4 bits with its sign in the upper bits of the byte.
pub(super) fn extended(b: &mut LaneBuilder, v: LVal) -> LVal {
    let wide = b.cvt(v, LTy::I32);
    let up = shift(b, BinOp::Shl, wide, 28);
    let wide = shift(b, BinOp::ShrS, up, 28);
    b.cvt(wide, LTy::Num(Scalar::I8))
}

/// The number of an `i4` that is known to be half a byte of a word, as a float: the half becomes the lowest bits of the fraction of a
/// large number, from which that number is taken. 16-bit floats come two from a word.
pub(super) fn half_to_float(b: &mut LaneBuilder, v: LVal, to: Scalar) -> Option<LVal> {
    let (word, at) = b.half_of_word(v)?;
    // The number whose unit in the last place is 1, plus 8: the half, its sign bit inverted, is its value plus 8.
    let (magic, twice) = match to {
        Scalar::F16 => (0x6408, true),
        Scalar::BF16 => (0x4308, true),
        Scalar::F32 => (0x4b00_0008, false),
        _ => return None,
    };
    let (by, which, mask) = if twice { (at % 16, at / 16, 0x000f_000f) } else { (at, 0, 15) };
    let moved = shift(b, BinOp::ShrU, word, by);
    let mask = b.i32(mask);
    let bits = b.bin(BinOp::And, moved, mask);
    let offset = b.i32(if twice { magic << 16 | magic } else { magic });
    let bits = b.bin(BinOp::Xor, bits, offset);
    let ty = LTy::Num(to);
    let number = if twice {
        let pair = b.bitcast(bits, LTy::B32);
        b.unpack(pair, ty)[which as usize]
    } else {
        b.bitcast(bits, ty)
    };
    let magic = b.constant(ty, magic as u64);
    let number = b.bin(BinOp::Sub, number, magic);
    if twice {
        b.note_float_of_half(number, word, at);
    }
    Some(number)
}

/// The number of an `f4e2m1` that is known to be half a byte of a word, as a 16-bit float, made with that of the byte's other half.
pub(super) fn code_to_float(b: &mut LaneBuilder, v: LVal, to: Scalar) -> Option<LVal> {
    let (word, at) = b.half_of_word(v)?;
    let pair = b.floats_of_codes(word, at / 8, to);
    Some(b.unpack(pair, LTy::Num(to))[(at / 4 % 2) as usize])
}

/// Registers of halves from registers of bytes.
fn split(b: &mut LaneBuilder, bytes: &[LVal], pairs: &[[usize; 2]]) -> Vec<LVal> {
    let mut regs = vec![bytes[0]; 2 * pairs.len()];
    for (&v, pair) in bytes.iter().zip(pairs) {
        let two = halves(b, v);
        pair.iter().zip(two).for_each(|(&r, v)| regs[r] = v);
    }
    regs
}

impl Lower<'_> {
    /// The indices of an access to packed elements, in bytes.
    ///
    /// # Errors
    /// An innermost index that may be odd.
    pub(super) fn byte_indices(&self, b: &mut LaneBuilder, access: &GlobalAccess<'_>) -> Result<Vec<LVal>, LowerError> {
        let mut indices = self.index_values(&access.indices)?;
        if !access.whole_bytes {
            return Err(Unsupported::InsideByte.into());
        }
        if let Some(last) = indices.last_mut() {
            *last = shift(b, BinOp::ShrS, *last, 1);
        }
        Ok(indices)
    }

    pub(super) fn load_packed(&mut self, b: &mut LaneBuilder, i: Inst, access: GlobalAccess<'_>) -> Result<(), LowerError> {
        let result = self.kernel.insts[i].results[0];
        let want = Rc::new(bytes_of(&*self.layout_of(result)?)?);
        let layout =
            if self.searched() { want } else { access_layout_for(self.target, self.plan.warps, &access, &want, Scalar::I8, true)? };
        let indices = self.byte_indices(b, &access)?;
        let other = match self.kernel.operand(i, "other").first() {
            Some(&o) => Some(self.scalar(o)?),
            None => None,
        };
        let (whole, pairs) = halves_of(&layout)?;
        let whole = Rc::new(whole);
        // A byte is read if one of its halves is wanted.
        let mask = match access.mask {
            Some(m) => Some(self.tile(b, m, &whole)?),
            None => None,
        };
        let byte_mask = mask.as_ref().map(|m| {
            let regs = pairs.iter().map(|&[x, y]| b.bin(BinOp::Or, m.regs[x], m.regs[y])).collect();
            Rc::new(Tile { layout: layout.clone(), regs })
        });
        let other_byte = other.map(|o| byte(b, [o, o]));
        let bytes = self.load_regs(b, access, &indices, &layout, (other_byte, byte_mask), (self.cache_hint(i), None))?;
        let mut regs = split(b, &bytes, &pairs);
        if let Some(m) = mask {
            let other = other.unwrap_or_else(|| b.constant(LTy::Num(Scalar::I8), 0));
            regs.iter_mut().zip(&m.regs).for_each(|(v, &c)| *v = b.select(c, *v, other));
        }
        self.set_tile(result, Tile { layout: whole, regs });
        Ok(())
    }

    /// The bytes of a tile of packed elements in a layout for bytes.
    pub(super) fn bytes_in(&mut self, b: &mut LaneBuilder, v: tilelift_ir::Value, layout: &Rc<Layout>) -> Result<Rc<Tile>, LowerError> {
        let (whole, pairs) = halves_of(layout)?;
        let tile = self.tile(b, v, &Rc::new(whole))?;
        let regs = pairs.iter().map(|&[x, y]| byte(b, [tile.regs[x], tile.regs[y]])).collect();
        Ok(Rc::new(Tile { layout: layout.clone(), regs }))
    }

    /// A bitcast between elements of 8 and of 4 bits.
    pub(super) fn bitcast_packed(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let tile = if self.kernel.ty(d.results[0]).elem().is_packed() {
            let bytes = self.own_tile(b, d.args[0])?;
            let (whole, pairs) = halves_of(&bytes.layout)?;
            Tile { layout: Rc::new(whole), regs: split(b, &bytes.regs, &pairs) }
        } else {
            let layout = self.layout_of(d.results[0])?;
            Tile::clone(&*self.bytes_in(b, d.args[0], &layout)?)
        };
        self.set_tile(d.results[0], tile);
        Ok(())
    }
}
