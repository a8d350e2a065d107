//! Casts from and to the floats of 8 and 4 bits and `i4`, whose codes lanes hold as bytes. There is no arithmetic on codes, so a cast is a sequence of integer
//! and `f32` operations that every machine has, exact in every case.
//!
//! ```text
//! code to f32   the code's exponent and fraction, moved under f32's exponent, times 2^(127 - bias): exact, subnormal codes included
//! f32 to code   normal results: add half a unit less one plus the last bit that stays, shift (round to nearest even)
//!               subnormal ones: add a number whose unit in the last place is that of the subnormals; the sum's low bits are the code
//! wider to code by way of f32 rounded to odd, after which the second rounding is the only one (Boldo and Melquiond 2005)
//! ```

use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, UnOp};

/// A format with sign, exponent and fraction in a byte.
#[derive(Clone, Copy)]
struct Format {
    bias: i64,
    /// Fraction bits.
    fraction: i64,
    /// Code of the largest magnitude that a rounding may give, infinity included.
    top: i64,
    /// Code of NaN.
    nan: i64,
    /// No negative zero: its code is NaN.
    fnuz: bool,
    /// Width of a code.
    bits: i64,
}

/// The format of an element type; `None` for the scale format, which has only an exponent, and for wider types.
fn format(elem: Scalar) -> Option<Format> {
    let f = |bias, fraction, top, nan, fnuz| Some(Format { bias, fraction, top, nan, fnuz, bits: i64::from(elem.bits()) });
    match elem {
        Scalar::F8E4M3 => f(7, 3, 0x7e, 0x7f, false),
        Scalar::F8E5M2 => f(15, 2, 0x7c, 0x7f, false),
        Scalar::F8E4M3Fnuz => f(8, 3, 0x7f, 0x80, true),
        Scalar::F8E5M2Fnuz => f(16, 2, 0x7f, 0x80, true),
        // NaN becomes the largest number.
        Scalar::F4E2M1 => f(1, 1, 7, 7, false),
        Scalar::F8E8M0
        | Scalar::I1
        | Scalar::I4
        | Scalar::I8
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::F16
        | Scalar::BF16
        | Scalar::F32
        | Scalar::F64 => None,
    }
}

/// Conversion by value between element types, on the values that hold them.
pub(super) fn cast(b: &mut LaneBuilder, v: LVal, from: Scalar, to: Scalar) -> LVal {
    if from == to {
        return v;
    }
    if matches!(to, Scalar::F16 | Scalar::BF16) && matches!(from, Scalar::I8 | Scalar::F8E4M3) {
        let number = cast_one(b, v, from, to);
        b.note_float_of_byte(number, v, from);
        return number;
    }
    cast_one(b, v, from, to)
}

/// The same of a value that nothing is remembered of.
fn cast_one(b: &mut LaneBuilder, v: LVal, from: Scalar, to: Scalar) -> LVal {
    if from == Scalar::I4 {
        return super::packed::half_to_float(b, v, to).unwrap_or_else(|| cast(b, v, Scalar::I8, to));
    }
    let v = match packed_code(b, v, from, to) {
        Some(float) => float,
        None if from.is_narrow() => decode(b, v, from),
        None => v,
    };
    if to == Scalar::I4 {
        let wide = b.cvt(v, LTy::I32);
        if !from.is_float() {
            return super::packed::extended(b, wide);
        }
        let (least, most) = (b.i32(-8), b.i32(7));
        let wide = b.bin(BinOp::Minimum, wide, most);
        let wide = b.bin(BinOp::Maximum, wide, least);
        return b.cvt(wide, LTy::Num(Scalar::I8));
    }
    if !to.is_narrow() {
        return b.cvt(v, LTy::Num(to));
    }
    let single = match from {
        Scalar::F64 => odd_from_f64(b, v),
        Scalar::I64 => {
            let wide = odd_from_i64(b, v);
            odd_from_f64(b, wide)
        }
        Scalar::I32 => {
            let wide = b.cvt(v, LTy::Num(Scalar::F64));
            odd_from_f64(b, wide)
        }
        // Exact in f32.
        Scalar::I1
        | Scalar::I4
        | Scalar::I8
        | Scalar::I16
        | Scalar::F16
        | Scalar::BF16
        | Scalar::F32
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::F8E4M3Fnuz
        | Scalar::F8E5M2Fnuz
        | Scalar::F8E8M0
        | Scalar::F4E2M1 => b.cvt(v, LTy::F32),
    };
    encode(b, single, to)
}

fn and(b: &mut LaneBuilder, a: LVal, mask: i64) -> LVal {
    let m = b.i32(mask);
    b.bin(BinOp::And, a, m)
}

fn shl(b: &mut LaneBuilder, a: LVal, by: i64) -> LVal {
    let n = b.i32(by);
    b.bin(BinOp::Shl, a, n)
}

fn shr(b: &mut LaneBuilder, a: LVal, by: i64) -> LVal {
    let n = b.i32(by);
    b.bin(BinOp::ShrU, a, n)
}

/// Where `a op limit` (both `i32`), `x`, else `y`.
fn choose(b: &mut LaneBuilder, op: CmpOp, a: LVal, limit: i64, x: LVal, y: LVal) -> LVal {
    let limit = b.i32(limit);
    let c = b.cmp(op, a, limit);
    b.select(c, x, y)
}

/// Bits of an `f32` infinity, above which are the NaNs.
const INFINITY: i64 = 0x7f80_0000;

/// The operations that convert codes of a format, to and from it, if the machine has them.
fn machine_casts(b: &LaneBuilder, elem: Scalar) -> Option<(UnOp, UnOp)> {
    match elem {
        _ if !b.code_casts.contains(&elem) => None,
        Scalar::F8E4M3 => Some((UnOp::EncodeE4M3, UnOp::DecodeE4M3)),
        Scalar::F8E5M2 => Some((UnOp::EncodeE5M2, UnOp::DecodeE5M2)),
        Scalar::F8E4M3Fnuz => Some((UnOp::EncodeE4M3Fnuz, UnOp::DecodeE4M3Fnuz)),
        Scalar::F8E5M2Fnuz => Some((UnOp::EncodeE5M2Fnuz, UnOp::DecodeE5M2Fnuz)),
        _ => None,
    }
}

/// A code made by a conversion that saturates: where the format has an infinity, what is too large is that.
fn with_infinity(b: &mut LaneBuilder, code: LVal, bits: LVal, magnitude: LVal, to: Scalar) -> LVal {
    let code = if to == Scalar::F8E5M2 {
        let sign = shr(b, bits, 24);
        let sign = and(b, sign, 0x80);
        let infinity = b.i32(0x7c);
        let infinity = b.bin(BinOp::Or, infinity, sign);
        // Half a unit above the largest number, 61440, the even neighbour is 65536.
        let infinity = choose(b, CmpOp::Lt, magnitude, 0x4770_0000, code, infinity);
        choose(b, CmpOp::Gt, magnitude, INFINITY, code, infinity)
    } else {
        code
    };
    b.cvt(code, LTy::Num(Scalar::I8))
}

/// A 4-bit code that is known to be half a byte of a word, as a 16-bit float, if that holds it.
fn packed_code(b: &mut LaneBuilder, v: LVal, from: Scalar, to: Scalar) -> Option<LVal> {
    if from != Scalar::F4E2M1 || !b.packed_halves {
        return None;
    }
    super::packed::code_to_float(b, v, if to == Scalar::F16 { to } else { Scalar::BF16 })
}

/// The `f32` of a code; exact.
fn decode(b: &mut LaneBuilder, v: LVal, from: Scalar) -> LVal {
    let code = b.cvt(v, LTy::I32);
    // The machine's conversion of e5m2 makes ptxas 13.0 spill on sm_90a.
    if from != Scalar::F8E5M2
        && let Some((_, op)) = machine_casts(b, from)
    {
        let bits = b.un(op, code);
        return b.bitcast(bits, LTy::F32);
    }
    let code = and(b, code, 0xff);
    let nan = b.i32(0x7fff_ffff);
    let Some(f) = format(from) else {
        // The exponent alone: 2^(code - 127), of which 2^-127 is subnormal.
        let bits = shl(b, code, 23);
        let smallest = b.i32(0x0040_0000);
        let bits = b.bin(BinOp::Maximum, bits, smallest);
        // The code of NaN is infinity now: nothing of it is NaN, nothing of another number is nothing.
        let number = b.bitcast(bits, LTy::F32);
        let nothing = b.constant(LTy::F32, 0);
        return b.fma(number, nothing, number);
    };
    let sign_bit = 1 << (f.bits - 1);
    let magnitude = and(b, code, sign_bit - 1);
    let moved = shl(b, magnitude, 23 - f.fraction);
    let moved = b.bitcast(moved, LTy::F32);
    let scale = b.constant(LTy::F32, (((127 + 127 - f.bias) as u64) << 23) & 0xffff_ffff);
    let value = b.mul(moved, scale);
    let mut bits = b.bitcast(value, LTy::I32);
    if f.top == 0x7c {
        let infinity = b.i32(INFINITY);
        bits = choose(b, CmpOp::Eq, magnitude, 0x7c, infinity, bits);
        bits = choose(b, CmpOp::Gt, magnitude, 0x7c, nan, bits);
    } else if !f.fnuz && f.bits == 8 {
        bits = choose(b, CmpOp::Eq, magnitude, f.nan, nan, bits);
    }
    let sign = and(b, code, sign_bit);
    let sign = shl(b, sign, 32 - f.bits);
    bits = b.bin(BinOp::Or, bits, sign);
    if f.fnuz {
        bits = choose(b, CmpOp::Eq, code, f.nan, nan, bits);
    }
    b.bitcast(bits, LTy::F32)
}

/// The code nearest to an `f32`.
fn encode(b: &mut LaneBuilder, v: LVal, to: Scalar) -> LVal {
    let bits = b.bitcast(v, LTy::I32);
    let magnitude = and(b, bits, 0x7fff_ffff);
    if let Some((op, _)) = machine_casts(b, to) {
        let code = b.un(op, bits);
        return with_infinity(b, code, bits, magnitude, to);
    }
    let code = match format(to) {
        Some(f) => {
            let drop = 23 - f.fraction;
            // Smallest normal number, as the exponent of an f32.
            let normal = 127 + 1 - f.bias;
            let last = shr(b, magnitude, drop);
            let odd = and(b, last, 1);
            let half = b.i32((1 << (drop - 1)) - 1 - ((127 - f.bias) << 23));
            let sum = b.add(magnitude, half);
            let sum = b.add(sum, odd);
            let rounded = shr(b, sum, drop);
            // A unit in the last place of 2^(normal - fraction): the sum's low bits count it.
            let magic = (normal - f.fraction + 23) << 23;
            let number = b.constant(LTy::F32, magic as u64);
            let positive = b.bitcast(magnitude, LTy::F32);
            let sum = b.add(positive, number);
            let sum = b.bitcast(sum, LTy::I32);
            let small = b.add_const(sum, -magic);
            let code = choose(b, CmpOp::Lt, magnitude, normal << 23, small, rounded);
            let top = b.i32(f.top);
            let code = b.bin(BinOp::Minimum, code, top);
            let sign = shr(b, bits, 32 - f.bits);
            let sign = and(b, sign, 1 << (f.bits - 1));
            let signed = b.bin(BinOp::Or, code, sign);
            let zero = b.i32(0);
            let signed = if f.fnuz { choose(b, CmpOp::Eq, code, 0, zero, signed) } else { signed };
            let nan = b.i32(f.nan);
            choose(b, CmpOp::Gt, magnitude, INFINITY, nan, signed)
        }
        None => {
            let last = shr(b, magnitude, 23);
            let odd = and(b, last, 1);
            let half = b.i32(0x3f_ffff);
            let sum = b.add(magnitude, half);
            let sum = b.add(sum, odd);
            let rounded = shr(b, sum, 23);
            // Below 2^-126 the fraction has no hidden bit: the middle of 2^-127 and 2^-126 is a tie to the even code 0.
            let (zero, one) = (b.i32(0), b.i32(1));
            let low = choose(b, CmpOp::Gt, magnitude, 0x0060_0000, one, zero);
            let code = choose(b, CmpOp::Lt, magnitude, 0x0080_0000, low, rounded);
            let top = b.i32(0xfe);
            let code = b.bin(BinOp::Minimum, code, top);
            // A negative number other than zero is NaN: its bits, read unsigned, are above those of -0.
            let nan = b.i32(0xff);
            let code = choose(b, CmpOp::Ugt, bits, -0x8000_0000, nan, code);
            choose(b, CmpOp::Gt, magnitude, INFINITY, nan, code)
        }
    };
    b.cvt(code, LTy::Num(Scalar::I8))
}

/// An `f64` rounded to odd: toward zero to an `f32`, whose last bit is set if anything was lost.
fn odd_from_f64(b: &mut LaneBuilder, v: LVal) -> LVal {
    let near = b.cvt(v, LTy::F32);
    let back = b.cvt(near, LTy::Num(Scalar::F64));
    let (size, want) = (b.un(UnOp::Abs, back), b.un(UnOp::Abs, v));
    let beyond = b.cmp(CmpOp::Gt, size, want);
    let lost = b.cmp(CmpOp::Ne, back, v);
    let bits = b.bitcast(near, LTy::I32);
    let less = b.add_const(bits, -1);
    let bits = b.select(beyond, less, bits);
    let one = b.i32(1);
    let marked = b.bin(BinOp::Or, bits, one);
    let bits = b.select(lost, marked, bits);
    b.bitcast(bits, LTy::F32)
}

/// An `i64` rounded to odd in `f64`: the magnitude's low 11 bits become one where they are cut.
fn odd_from_i64(b: &mut LaneBuilder, v: LVal) -> LVal {
    let f64 = LTy::Num(Scalar::F64);
    let exact = b.cvt(v, f64);
    let low = b.i64(0x7ff);
    let low = b.bin(BinOp::And, v, low);
    let (zero, one, eleven) = (b.i64(0), b.i64(1), b.i64(11));
    let lost = b.cmp(CmpOp::Ne, low, zero);
    let sticky = b.select(lost, one, zero);
    // Toward minus infinity, then odd: the last bit tells the same on both sides of zero.
    let high = b.bin(BinOp::ShrS, v, eleven);
    let high = b.bin(BinOp::Or, high, sticky);
    let high = b.cvt(high, f64);
    let scale = b.constant(f64, 2048f64.to_bits());
    let cut = b.mul(high, scale);
    let size = b.un(UnOp::Abs, exact);
    let limit = b.constant(f64, ((1u64 << 53) as f64).to_bits());
    let fits = b.cmp(CmpOp::Lt, size, limit);
    b.select(fits, exact, cut)
}
