//! Integer rules. Division is total: a zero divisor gives 0, and the most negative number over -1 wraps.
//!
//! Shift amounts need no care up to 32 bits: the machine clamps them to the width. `i8` values are sign-extended to 16 bits, so
//! whatever can leave 8 bits ends in `cvt.s16.s8`.
//!
//! The assembler divides by a constant as by any number, by way of a float's reciprocal. So powers of two are shifts here: a quotient that is rounded
//! towards 0 is one of the number plus the divisor less 1, where that is negative.

use super::rule::{Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::{BinOp::*, LTy, Opcode::*, UnOp::*};

const B32: LTy = LTy::B32;
const T32: LTy = LTy::I32;
const T64: LTy = LTy::I64;
const T16: LTy = LTy::Num(Scalar::I16);
const T8: LTy = LTy::Num(Scalar::I8);
const T1: LTy = LTy::I1;

/// `i32`.
pub(super) const I32: &[Rule] = rows! {
    "neg.i32" Key::Un(Neg), T32, Always => lines(&["neg.s32 $d, #a"]);
    "abs.i32" Key::Un(Abs), T32, Always => lines(&["abs.s32 $d, #a"]);
    "not.i32" Key::Un(Not), T32, Always => lines(&["not.b32 $d, #a"]);
    "add.i32" Key::Bin(Add), T32, Always => lines(&["add.s32 $d, #a, #b"]);
    "sub.i32" Key::Bin(Sub), T32, Always => lines(&["sub.s32 $d, #a, #b"]);
    "mul.i32.power" Key::Bin(Mul), T32, Power => lines(&["shl.b32 $d, #a, $k"]);
    "mul.i32" Key::Bin(Mul), T32, Always => lines(&["mul.lo.s32 $d, #a, #b"]);
    "div.i32.power" Key::Bin(Div), T32, PositivePower => lines(&[
        "shr.s32 $r0, #a, 31",
        "sub.s32 $r1, #b, 1",
        "and.b32 $r0, $r0, $r1",
        "add.s32 $r0, #a, $r0",
        "shr.s32 $d, $r0, $k",
    ]);
    "div.i32.const" Key::Bin(Div), T32, Divisor => lines(&["div.s32 $d, #a, #b"]);
    // Divisors 0 and -1 take the product, which is the quotient for both; the division gets 1 instead.
    "div.i32" Key::Bin(Div), T32, Always => lines(&[
        "add.s32 $r0, #b, 1",
        "setp.lt.u32 $p0, $r0, 2",
        "selp.b32 $r1, 1, #b, $p0",
        "div.s32 $r2, #a, $r1",
        "mul.lo.s32 $r3, #a, #b",
        "selp.b32 $d, $r3, $r2, $p0",
    ]);
    "rem.i32.power" Key::Bin(Rem), T32, PositivePower => lines(&[
        "shr.s32 $r0, #a, 31",
        "sub.s32 $r1, #b, 1",
        "and.b32 $r0, $r0, $r1",
        "add.s32 $r0, #a, $r0",
        "not.b32 $r1, $r1",
        "and.b32 $r0, $r0, $r1",
        "sub.s32 $d, #a, $r0",
    ]);
    "rem.i32.const" Key::Bin(Rem), T32, Divisor => lines(&["rem.s32 $d, #a, #b"]);
    // `a & !b` is a for the divisor 0 and 0 for -1.
    "rem.i32" Key::Bin(Rem), T32, Always => lines(&[
        "add.s32 $r0, #b, 1",
        "setp.lt.u32 $p0, $r0, 2",
        "selp.b32 $r1, 1, #b, $p0",
        "rem.s32 $r2, #a, $r1",
        "not.b32 $r3, #b",
        "and.b32 $r4, #a, $r3",
        "selp.b32 $d, $r4, $r2, $p0",
    ]);
    "minimum.i32" Key::Bin(Minimum), T32, Always => lines(&["min.s32 $d, #a, #b"]);
    "maximum.i32" Key::Bin(Maximum), T32, Always => lines(&["max.s32 $d, #a, #b"]);
    "and.i32" Key::Bin(And), T32, Always => lines(&["and.b32 $d, #a, #b"]);
    "or.i32" Key::Bin(Or), T32, Always => lines(&["or.b32 $d, #a, #b"]);
    "xor.i32" Key::Bin(Xor), T32, Always => lines(&["xor.b32 $d, #a, #b"]);
    "shl.i32" Key::Bin(Shl), T32, Always => lines(&["shl.b32 $d, #a, #b"]);
    "shr_s.i32" Key::Bin(ShrS), T32, Always => lines(&["shr.s32 $d, #a, #b"]);
    "shr_u.i32" Key::Bin(ShrU), T32, Always => lines(&["shr.u32 $d, #a, #b"]);
    "fma.i32" Key::Plain(Fma), T32, Always => lines(&["mad.lo.s32 $d, #a, #b, #c"]);
    "div_u.i32.power" Key::Bin(DivU), T32, Power => lines(&["shr.u32 $d, #a, $k"]);
    "div_u.i32" Key::Bin(DivU), T32, Always => lines(&["setp.eq.s32 $p0, #b, 0", "selp.b32 $r0, 1, #b, $p0", "div.u32 $r1, #a, $r0", "selp.b32 $d, 0, $r1, $p0"]);
    "rem_u.i32.power" Key::Bin(RemU), T32, Power => lines(&["sub.s32 $r0, #b, 1", "and.b32 $d, #a, $r0"]);
    "rem_u.i32" Key::Bin(RemU), T32, Always => lines(&["setp.eq.s32 $p0, #b, 0", "selp.b32 $r0, 1, #b, $p0", "rem.u32 $r1, #a, $r0", "selp.b32 $d, #a, $r1, $p0"]);
    "mulhi.i32" Key::Bin(MulHi), T32, Always => lines(&["mul.hi.s32 $d, #a, #b"]);
    "mulhi_u.i32" Key::Bin(MulHiU), T32, Always => lines(&["mul.hi.u32 $d, #a, #b"]);
    "minimum_u.i32" Key::Bin(MinimumU), T32, Always => lines(&["min.u32 $d, #a, #b"]);
    "maximum_u.i32" Key::Bin(MaximumU), T32, Always => lines(&["max.u32 $d, #a, #b"]);
    "popcount.i32" Key::Un(Popcount), T32, Always => lines(&["popc.b32 $d, $a"]);
    "clz.i32" Key::Un(Clz), T32, Always => lines(&["clz.b32 $d, $a"]);
    "own.i32" Key::Un(Own), T32, Always => lines(&["mov.b32 $d, #a"]);
    "fma.f16x2" Key::Plain(FmaF16x2), T32, Always => lines(&["fma.rn.f16x2 $d, $a, $b, $c"]);
    "fma.bf16x2" Key::Plain(FmaBf16x2), T32, Always => lines(&["fma.rn.bf16x2 $d, $a, $b, $c"]);
    "permute" Key::Plain(Permute), T32, Always => lines(&["prmt.b32 $d, #a, #b, #c"]);
    "mask_flip" Key::Plain(MaskFlip), T32, Always => lines(&["lop3.b32 $d, $a, #b, #c, 0x6a"]);
    "funnel" Key::Plain(Funnel), T32, Always => lines(&["shf.l.wrap.b32 $d, #b, #a, #c"]);
};

/// `i64`.
pub(super) const I64: &[Rule] = rows! {
    "neg.i64" Key::Un(Neg), T64, Always => lines(&["neg.s64 $d, #a"]);
    "abs.i64" Key::Un(Abs), T64, Always => lines(&["abs.s64 $d, #a"]);
    "not.i64" Key::Un(Not), T64, Always => lines(&["not.b64 $d, #a"]);
    "add.i64" Key::Bin(Add), T64, Always => lines(&["add.s64 $d, #a, #b"]);
    "sub.i64" Key::Bin(Sub), T64, Always => lines(&["sub.s64 $d, #a, #b"]);
    "mul.i64.power" Key::Bin(Mul), T64, Power => lines(&["shl.b64 $d, #a, $k"]);
    "mul.i64" Key::Bin(Mul), T64, Always => lines(&["mul.lo.s64 $d, #a, #b"]);
    "div.i64.power" Key::Bin(Div), T64, PositivePower => lines(&[
        "shr.s64 $q0, #a, 63",
        "sub.s64 $q1, #b, 1",
        "and.b64 $q0, $q0, $q1",
        "add.s64 $q0, #a, $q0",
        "shr.s64 $d, $q0, $k",
    ]);
    "div.i64.const" Key::Bin(Div), T64, Divisor => lines(&["div.s64 $d, #a, #b"]);
    "div.i64" Key::Bin(Div), T64, Always => lines(&[
        "add.s64 $q0, #b, 1",
        "setp.lt.u64 $p0, $q0, 2",
        "selp.b64 $q1, 1, #b, $p0",
        "div.s64 $q2, #a, $q1",
        "mul.lo.s64 $q3, #a, #b",
        "selp.b64 $d, $q3, $q2, $p0",
    ]);
    "rem.i64.power" Key::Bin(Rem), T64, PositivePower => lines(&[
        "shr.s64 $q0, #a, 63",
        "sub.s64 $q1, #b, 1",
        "and.b64 $q0, $q0, $q1",
        "add.s64 $q0, #a, $q0",
        "not.b64 $q1, $q1",
        "and.b64 $q0, $q0, $q1",
        "sub.s64 $d, #a, $q0",
    ]);
    "rem.i64.const" Key::Bin(Rem), T64, Divisor => lines(&["rem.s64 $d, #a, #b"]);
    "rem.i64" Key::Bin(Rem), T64, Always => lines(&[
        "add.s64 $q0, #b, 1",
        "setp.lt.u64 $p0, $q0, 2",
        "selp.b64 $q1, 1, #b, $p0",
        "rem.s64 $q2, #a, $q1",
        "not.b64 $q3, #b",
        "and.b64 $q4, #a, $q3",
        "selp.b64 $d, $q4, $q2, $p0",
    ]);
    "minimum.i64" Key::Bin(Minimum), T64, Always => lines(&["min.s64 $d, #a, #b"]);
    "maximum.i64" Key::Bin(Maximum), T64, Always => lines(&["max.s64 $d, #a, #b"]);
    "and.i64" Key::Bin(And), T64, Always => lines(&["and.b64 $d, #a, #b"]);
    "or.i64" Key::Bin(Or), T64, Always => lines(&["or.b64 $d, #a, #b"]);
    "xor.i64" Key::Bin(Xor), T64, Always => lines(&["xor.b64 $d, #a, #b"]);
    "shl.i64.const" Key::Bin(Shl), T64, Amount => lines(&["shl.b64 $d, #a, $k"]);
    // The machine takes 32 bits of the amount; saturate before cutting.
    "shl.i64" Key::Bin(Shl), T64, Always => lines(&["min.u64 $q0, #b, 64", "cvt.u32.u64 $r0, $q0", "shl.b64 $d, #a, $r0"]);
    "shr_s.i64.const" Key::Bin(ShrS), T64, Amount => lines(&["shr.s64 $d, #a, $k"]);
    "shr_s.i64" Key::Bin(ShrS), T64, Always => lines(&["min.u64 $q0, #b, 64", "cvt.u32.u64 $r0, $q0", "shr.s64 $d, #a, $r0"]);
    "shr_u.i64.const" Key::Bin(ShrU), T64, Amount => lines(&["shr.u64 $d, #a, $k"]);
    "shr_u.i64" Key::Bin(ShrU), T64, Always => lines(&["min.u64 $q0, #b, 64", "cvt.u32.u64 $r0, $q0", "shr.u64 $d, #a, $r0"]);
    "fma.i64" Key::Plain(Fma), T64, Always => lines(&["mad.lo.s64 $d, #a, #b, #c"]);
    "mad_wide_u" Key::Plain(MadWideU), T64, Always => lines(&["mad.wide.u32 $d, #a, #b, #c"]);
    "mad_wide" Key::Plain(MadWide), T64, Always => lines(&["mad.wide.s32 $d, #a, #b, #c"]);
    "div_u.i64.power" Key::Bin(DivU), T64, Power => lines(&["shr.u64 $d, #a, $k"]);
    "div_u.i64" Key::Bin(DivU), T64, Always => lines(&["setp.eq.s64 $p0, #b, 0", "selp.b64 $q0, 1, #b, $p0", "div.u64 $q1, #a, $q0", "selp.b64 $d, 0, $q1, $p0"]);
    "rem_u.i64.power" Key::Bin(RemU), T64, Power => lines(&["sub.s64 $q0, #b, 1", "and.b64 $d, #a, $q0"]);
    "rem_u.i64" Key::Bin(RemU), T64, Always => lines(&["setp.eq.s64 $p0, #b, 0", "selp.b64 $q0, 1, #b, $p0", "rem.u64 $q1, #a, $q0", "selp.b64 $d, #a, $q1, $p0"]);
    "mulhi.i64" Key::Bin(MulHi), T64, Always => lines(&["mul.hi.s64 $d, #a, #b"]);
    "mulhi_u.i64" Key::Bin(MulHiU), T64, Always => lines(&["mul.hi.u64 $d, #a, #b"]);
    "minimum_u.i64" Key::Bin(MinimumU), T64, Always => lines(&["min.u64 $d, #a, #b"]);
    "maximum_u.i64" Key::Bin(MaximumU), T64, Always => lines(&["max.u64 $d, #a, #b"]);
    "popcount.i64" Key::Un(Popcount), T64, Always => lines(&["popc.b64 $r0, $a", "cvt.u64.u32 $d, $r0"]);
    "clz.i64" Key::Un(Clz), T64, Always => lines(&["clz.b64 $r0, $a", "cvt.u64.u32 $d, $r0"]);
};

/// `i16`.
pub(super) const I16: &[Rule] = rows! {
    // 32 bits wide: ptxas 13.0 takes a 16-bit negative or magnitude of -32768 for +32768 where it is compared or widened. It makes a
    // negative of a difference from the constant 0, too.
    "neg.i16" Key::Un(Neg), T16, Always => lines(&["cvt.s32.s16 $r0, $a", "neg.s32 $r1, $r0", "cvt.u16.u32 $d, $r1"]);
    "abs.i16" Key::Un(Abs), T16, Always => lines(&["cvt.s32.s16 $r0, $a", "abs.s32 $r1, $r0", "cvt.u16.u32 $d, $r1"]);
    "not.i16" Key::Un(Not), T16, Always => lines(&["not.b16 $d, #a"]);
    "add.i16" Key::Bin(Add), T16, Always => lines(&["add.s16 $d, #a, #b"]);
    "sub.i16" Key::Bin(Sub), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "sub.s32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "mul.i16.power" Key::Bin(Mul), T16, Power => lines(&["shl.b16 $d, #a, $k"]);
    "mul.i16" Key::Bin(Mul), T16, Always => lines(&["mul.lo.s16 $d, #a, #b"]);
    "div.i16.const" Key::Bin(Div), T16, Divisor => lines(&["div.s16 $d, #a, #b"]);
    // In 32 bits only the divisor 0 is special; the quotient's low half wraps.
    "div.i16" Key::Bin(Div), T16, Always => lines(&[
        "cvt.s32.s16 $r0, $a",
        "cvt.s32.s16 $r1, $b",
        "setp.eq.s32 $p0, $r1, 0",
        "selp.b32 $r2, 1, $r1, $p0",
        "div.s32 $r3, $r0, $r2",
        "selp.b32 $r4, 0, $r3, $p0",
        "cvt.u16.u32 $d, $r4",
    ]);
    "rem.i16.const" Key::Bin(Rem), T16, Divisor => lines(&["rem.s16 $d, #a, #b"]);
    "rem.i16" Key::Bin(Rem), T16, Always => lines(&[
        "cvt.s32.s16 $r0, $a",
        "cvt.s32.s16 $r1, $b",
        "setp.eq.s32 $p0, $r1, 0",
        "selp.b32 $r2, 1, $r1, $p0",
        "rem.s32 $r3, $r0, $r2",
        "selp.b32 $r4, $r0, $r3, $p0",
        "cvt.u16.u32 $d, $r4",
    ]);
    // 32 bits wide: of two 16-bit minima or maxima with one immediate, ptxas 13.0 makes a packed one whose upper half compares with 0.
    "minimum.i16" Key::Bin(Minimum), T16, Always => lines(&["cvt.s32.s16 $r0, $a", "cvt.s32.s16 $r1, $b", "min.s32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "maximum.i16" Key::Bin(Maximum), T16, Always => lines(&["cvt.s32.s16 $r0, $a", "cvt.s32.s16 $r1, $b", "max.s32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "and.i16" Key::Bin(And), T16, Always => lines(&["and.b16 $d, #a, #b"]);
    "or.i16" Key::Bin(Or), T16, Always => lines(&["or.b16 $d, #a, #b"]);
    "xor.i16" Key::Bin(Xor), T16, Always => lines(&["xor.b16 $d, #a, #b"]);
    "shl.i16.const" Key::Bin(Shl), T16, Amount => lines(&["shl.b16 $d, #a, $k"]);
    "shl.i16" Key::Bin(Shl), T16, Always => lines(&["cvt.u32.u16 $r0, $b", "shl.b16 $d, #a, $r0"]);
    "shr_s.i16.const" Key::Bin(ShrS), T16, Amount => lines(&["shr.s16 $d, #a, $k"]);
    "shr_s.i16" Key::Bin(ShrS), T16, Always => lines(&["cvt.u32.u16 $r0, $b", "shr.s16 $d, #a, $r0"]);
    "shr_u.i16.const" Key::Bin(ShrU), T16, Amount => lines(&["shr.u16 $d, #a, $k"]);
    "shr_u.i16" Key::Bin(ShrU), T16, Always => lines(&["cvt.u32.u16 $r0, $b", "shr.u16 $d, #a, $r0"]);
    "div_u.i16" Key::Bin(DivU), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "setp.eq.s32 $p0, $r1, 0", "selp.b32 $r2, 1, $r1, $p0", "div.u32 $r3, $r0, $r2", "selp.b32 $r4, 0, $r3, $p0", "cvt.u16.u32 $d, $r4"]);
    "rem_u.i16" Key::Bin(RemU), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "setp.eq.s32 $p0, $r1, 0", "selp.b32 $r2, 1, $r1, $p0", "rem.u32 $r3, $r0, $r2", "selp.b32 $r4, $r0, $r3, $p0", "cvt.u16.u32 $d, $r4"]);
    "minimum_u.i16" Key::Bin(MinimumU), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "min.u32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "maximum_u.i16" Key::Bin(MaximumU), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "max.u32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "mulhi.i16" Key::Bin(MulHi), T16, Always => lines(&["mul.hi.s16 $d, #a, #b"]);
    "mulhi_u.i16" Key::Bin(MulHiU), T16, Always => lines(&["mul.hi.u16 $d, #a, #b"]);
    "popcount.i16" Key::Un(Popcount), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "popc.b32 $r1, $r0", "cvt.u16.u32 $d, $r1"]);
    "clz.i16" Key::Un(Clz), T16, Always => lines(&["cvt.u32.u16 $r0, $a", "clz.b32 $r1, $r0", "sub.s32 $r2, $r1, 16", "cvt.u16.u32 $d, $r2"]);
};

/// `i8`.
pub(super) const I8: &[Rule] = rows! {
    "neg.i8" Key::Un(Neg), T8, Always => lines(&["neg.s16 $h0, #a", "cvt.s16.s8 $d, $h0"]);
    "abs.i8" Key::Un(Abs), T8, Always => lines(&["abs.s16 $h0, #a", "cvt.s16.s8 $d, $h0"]);
    "not.i8" Key::Un(Not), T8, Always => lines(&["not.b16 $d, #a"]);
    "add.i8" Key::Bin(Add), T8, Always => lines(&["add.s16 $h0, #a, #b", "cvt.s16.s8 $d, $h0"]);
    "sub.i8" Key::Bin(Sub), T8, Always => lines(&["sub.s16 $h0, #a, #b", "cvt.s16.s8 $d, $h0"]);
    "mul.i8" Key::Bin(Mul), T8, Always => lines(&["mul.lo.s16 $h0, #a, #b", "cvt.s16.s8 $d, $h0"]);
    "div.i8" Key::Bin(Div), T8, Always => lines(&[
        "cvt.s32.s16 $r0, $a",
        "cvt.s32.s16 $r1, $b",
        "setp.eq.s32 $p0, $r1, 0",
        "selp.b32 $r2, 1, $r1, $p0",
        "div.s32 $r3, $r0, $r2",
        "selp.b32 $r4, 0, $r3, $p0",
        "cvt.u16.u32 $h0, $r4",
        "cvt.s16.s8 $d, $h0",
    ]);
    "rem.i8" Key::Bin(Rem), T8, Always => lines(&[
        "cvt.s32.s16 $r0, $a",
        "cvt.s32.s16 $r1, $b",
        "setp.eq.s32 $p0, $r1, 0",
        "selp.b32 $r2, 1, $r1, $p0",
        "rem.s32 $r3, $r0, $r2",
        "selp.b32 $r4, $r0, $r3, $p0",
        "cvt.u16.u32 $d, $r4",
    ]);
    "minimum.i8" Key::Bin(Minimum), T8, Always => lines(&["cvt.s32.s16 $r0, $a", "cvt.s32.s16 $r1, $b", "min.s32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "maximum.i8" Key::Bin(Maximum), T8, Always => lines(&["cvt.s32.s16 $r0, $a", "cvt.s32.s16 $r1, $b", "max.s32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "and.i8" Key::Bin(And), T8, Always => lines(&["and.b16 $d, #a, #b"]);
    "or.i8" Key::Bin(Or), T8, Always => lines(&["or.b16 $d, #a, #b"]);
    "xor.i8" Key::Bin(Xor), T8, Always => lines(&["xor.b16 $d, #a, #b"]);
    // Amounts are read as unsigned bytes. From 16 on the machine's own clamp applies; from 8 on the low byte is empty already.
    "shl.i8" Key::Bin(Shl), T8, Always => lines(&[
        "and.b16 $h0, #b, 255",
        "cvt.u32.u16 $r0, $h0",
        "shl.b16 $h1, #a, $r0",
        "cvt.s16.s8 $d, $h1",
    ]);
    "shr_s.i8" Key::Bin(ShrS), T8, Always => lines(&["and.b16 $h0, #b, 255", "cvt.u32.u16 $r0, $h0", "shr.s16 $d, #a, $r0"]);
    "shr_u.i8" Key::Bin(ShrU), T8, Always => lines(&[
        "and.b16 $h0, #b, 255",
        "cvt.u32.u16 $r0, $h0",
        "and.b16 $h1, #a, 255",
        "shr.u16 $h2, $h1, $r0",
        "cvt.s16.s8 $d, $h2",
    ]);
    "div_u.i8" Key::Bin(DivU), T8, Always => lines(&["and.b16 $h0, $a, 255", "and.b16 $h1, $b, 255", "cvt.u32.u16 $r0, $h0", "cvt.u32.u16 $r1, $h1", "setp.eq.s32 $p0, $r1, 0", "selp.b32 $r2, 1, $r1, $p0", "div.u32 $r3, $r0, $r2", "selp.b32 $r4, 0, $r3, $p0", "cvt.u16.u32 $h2, $r4", "cvt.s16.s8 $d, $h2"]);
    "rem_u.i8" Key::Bin(RemU), T8, Always => lines(&["and.b16 $h0, $a, 255", "and.b16 $h1, $b, 255", "cvt.u32.u16 $r0, $h0", "cvt.u32.u16 $r1, $h1", "setp.eq.s32 $p0, $r1, 0", "selp.b32 $r2, 1, $r1, $p0", "rem.u32 $r3, $r0, $r2", "selp.b32 $r4, $r0, $r3, $p0", "cvt.u16.u32 $h2, $r4", "cvt.s16.s8 $d, $h2"]);
    "minimum_u.i8" Key::Bin(MinimumU), T8, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "min.u32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "maximum_u.i8" Key::Bin(MaximumU), T8, Always => lines(&["cvt.u32.u16 $r0, $a", "cvt.u32.u16 $r1, $b", "max.u32 $r2, $r0, $r1", "cvt.u16.u32 $d, $r2"]);
    "mulhi.i8" Key::Bin(MulHi), T8, Always => lines(&["mul.lo.s16 $h0, #a, #b", "shr.s16 $d, $h0, 8"]);
    "mulhi_u.i8" Key::Bin(MulHiU), T8, Always => lines(&["and.b16 $h0, $a, 255", "and.b16 $h1, $b, 255", "mul.lo.s16 $h2, $h0, $h1", "shr.u16 $h3, $h2, 8", "cvt.s16.s8 $d, $h3"]);
    "popcount.i8" Key::Un(Popcount), T8, Always => lines(&["and.b16 $h0, $a, 255", "cvt.u32.u16 $r0, $h0", "popc.b32 $r1, $r0", "cvt.u16.u32 $d, $r1"]);
    "clz.i8" Key::Un(Clz), T8, Always => lines(&["and.b16 $h0, $a, 255", "cvt.u32.u16 $r0, $h0", "clz.b32 $r1, $r0", "sub.s32 $r2, $r1, 24", "cvt.u16.u32 $d, $r2"]);
};

/// `i1` and raw words.
pub(super) const BITS: &[Rule] = rows! {
    "not.i1" Key::Un(Not), T1, Always => lines(&["not.pred $d, $a"]);
    "and.i1" Key::Bin(And), T1, Always => lines(&["and.pred $d, $a, $b"]);
    "or.i1" Key::Bin(Or), T1, Always => lines(&["or.pred $d, $a, $b"]);
    "xor.i1" Key::Bin(Xor), T1, Always => lines(&["xor.pred $d, $a, $b"]);
    "not.b32" Key::Un(Not), B32, Always => lines(&["not.b32 $d, #a"]);
    "and.b32" Key::Bin(And), B32, Always => lines(&["and.b32 $d, #a, #b"]);
    "or.b32" Key::Bin(Or), B32, Always => lines(&["or.b32 $d, #a, #b"]);
    "xor.b32" Key::Bin(Xor), B32, Always => lines(&["xor.b32 $d, #a, #b"]);
    "shl.b32" Key::Bin(Shl), B32, Always => lines(&["shl.b32 $d, #a, #b"]);
    "shr_s.b32" Key::Bin(ShrS), B32, Always => lines(&["shr.s32 $d, #a, #b"]);
    "shr_u.b32" Key::Bin(ShrU), B32, Always => lines(&["shr.u32 $d, #a, #b"]);
};
