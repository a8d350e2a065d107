//! Conversions by value, and the moves of bits between register classes.
//!
//! To a float they round once. Where the machine has no single instruction the way leads through `f32` rounded to odd (toward zero,
//! with the last bit set if anything was lost), from which the second rounding is as if from the exact value (Boldo and Melquiond,
//! "When double rounding is odd", 2005). From a float they truncate and saturate; a NaN gives 0 by the machine for 32 bits from
//! `f32`, elsewhere by a select.

use super::rule::{Body::ViaF32, Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::LTy;
use tilelift_isel::lane::Opcode::{CvtBf16x2, CvtF16x2};

const I1: LTy = LTy::Num(Scalar::I1);
const I8: LTy = LTy::Num(Scalar::I8);
const I16: LTy = LTy::Num(Scalar::I16);
const I32: LTy = LTy::Num(Scalar::I32);
const I64: LTy = LTy::Num(Scalar::I64);
const F16: LTy = LTy::Num(Scalar::F16);
const BF16: LTy = LTy::Num(Scalar::BF16);
const F32: LTy = LTy::Num(Scalar::F32);
const F64: LTy = LTy::Num(Scalar::F64);
const B32: LTy = LTy::B32;

/// All conversions and bit moves.
pub(super) const ROWS: &[Rule] = rows! {
    "cvt.f16x2" Key::Plain(CvtF16x2), B32, Always => lines(&["cvt.rn.f16x2.f32 $d, $b, $a"]);
    "cvt.bf16x2" Key::Plain(CvtBf16x2), B32, Always => lines(&["cvt.rn.bf16x2.f32 $d, $b, $a"]);
    "cvt.i1.i8" Key::Cvt(Scalar::I1), I8, Always => lines(&["selp.b16 $d, 1, 0, $a"]);
    "cvt.i1.i16" Key::Cvt(Scalar::I1), I16, Always => lines(&["selp.b16 $d, 1, 0, $a"]);
    "cvt.i1.i32" Key::Cvt(Scalar::I1), I32, Always => lines(&["selp.b32 $d, 1, 0, $a"]);
    "cvt.i1.i64" Key::Cvt(Scalar::I1), I64, Always => lines(&["selp.b64 $d, 1, 0, $a"]);
    "cvt.i1.f16" Key::Cvt(Scalar::I1), F16, Always => lines(&["selp.b16 $d, 0x3C00, 0, $a"]);
    "cvt.i1.bf16" Key::Cvt(Scalar::I1), BF16, Always => lines(&["selp.b16 $d, 0x3F80, 0, $a"]);
    "cvt.i1.f32" Key::Cvt(Scalar::I1), F32, Always => lines(&["selp.f32 $d, 0f3F800000, 0f00000000, $a"]);
    "cvt.i1.f64" Key::Cvt(Scalar::I1), F64, Always => lines(&["selp.f64 $d, 0d3FF0000000000000, 0d0000000000000000, $a"]);
    "cvt.i8.i1" Key::Cvt(Scalar::I8), I1, Always => lines(&["setp.ne.s16 $d, $a, 0"]);
    "cvt.i8.i16" Key::Cvt(Scalar::I8), I16, Always => lines(&["mov.b16 $d, $a"]);
    "cvt.i8.i32" Key::Cvt(Scalar::I8), I32, Always => lines(&["cvt.s32.s16 $d, $a"]);
    "cvt.i8.i64" Key::Cvt(Scalar::I8), I64, Always => lines(&["cvt.s64.s16 $d, $a"]);
    "cvt.i8.f16" Key::Cvt(Scalar::I8), F16, Always => lines(&["cvt.rn.f16.s16 $d, $a"]);
    "cvt.i8.bf16" Key::Cvt(Scalar::I8), BF16, Always => lines(&["cvt.rn.f32.s16 $f0, $a", "cvt.rn.bf16.f32 $d, $f0"]);
    "cvt.i8.f32" Key::Cvt(Scalar::I8), F32, Always => lines(&["cvt.rn.f32.s16 $d, $a"]);
    "cvt.i8.f64" Key::Cvt(Scalar::I8), F64, Always => lines(&["cvt.rn.f64.s16 $d, $a"]);
    "cvt.i16.i1" Key::Cvt(Scalar::I16), I1, Always => lines(&["setp.ne.s16 $d, $a, 0"]);
    "cvt.i16.i8" Key::Cvt(Scalar::I16), I8, Always => lines(&["cvt.s16.s8 $d, $a"]);
    "cvt.i16.i32" Key::Cvt(Scalar::I16), I32, Always => lines(&["cvt.s32.s16 $d, $a"]);
    "cvt.i16.i64" Key::Cvt(Scalar::I16), I64, Always => lines(&["cvt.s64.s16 $d, $a"]);
    "cvt.i16.f16" Key::Cvt(Scalar::I16), F16, Always => lines(&["cvt.rn.f16.s16 $d, $a"]);
    "cvt.i16.bf16" Key::Cvt(Scalar::I16), BF16, Always => lines(&["cvt.rn.f32.s16 $f0, $a", "cvt.rn.bf16.f32 $d, $f0"]);
    "cvt.i16.f32" Key::Cvt(Scalar::I16), F32, Always => lines(&["cvt.rn.f32.s16 $d, $a"]);
    "cvt.i16.f64" Key::Cvt(Scalar::I16), F64, Always => lines(&["cvt.rn.f64.s16 $d, $a"]);
    "cvt.i32.i1" Key::Cvt(Scalar::I32), I1, Always => lines(&["setp.ne.s32 $d, $a, 0"]);
    "cvt.i32.i8" Key::Cvt(Scalar::I32), I8, Always => lines(&["cvt.u16.u32 $h0, $a", "cvt.s16.s8 $d, $h0"]);
    "cvt.i32.i16" Key::Cvt(Scalar::I32), I16, Always => lines(&["cvt.u16.u32 $d, $a"]);
    "cvt.i32.i64" Key::Cvt(Scalar::I32), I64, Always => lines(&["cvt.s64.s32 $d, $a"]);
    "cvt.i32.f16" Key::Cvt(Scalar::I32), F16, Always => lines(&["cvt.rn.f16.s32 $d, $a"]);
    "cvt.i32.bf16" Key::Cvt(Scalar::I32), BF16, Always => lines(&[
        "cvt.rz.f32.s32 $f0, $a",
        "cvt.rzi.s32.f32 $r5, $f0",
        "setp.ne.s32 $p0, $r5, $a",
        "mov.b32 $r1, $f0",
        "or.b32 $r2, $r1, 1",
        "selp.b32 $r3, $r2, $r1, $p0",
        "mov.b32 $f1, $r3",
        "cvt.rn.bf16.f32 $d, $f1",
    ]);
    "cvt.i32.f32" Key::Cvt(Scalar::I32), F32, Always => lines(&["cvt.rn.f32.s32 $d, $a"]);
    "cvt.i32.f64" Key::Cvt(Scalar::I32), F64, Always => lines(&["cvt.rn.f64.s32 $d, $a"]);
    "cvt.i64.i1" Key::Cvt(Scalar::I64), I1, Always => lines(&["setp.ne.s64 $d, $a, 0"]);
    "cvt.i64.i8" Key::Cvt(Scalar::I64), I8, Always => lines(&["cvt.u16.u64 $h0, $a", "cvt.s16.s8 $d, $h0"]);
    "cvt.i64.i16" Key::Cvt(Scalar::I64), I16, Always => lines(&["cvt.u16.u64 $d, $a"]);
    "cvt.i64.i32" Key::Cvt(Scalar::I64), I32, Always => lines(&["cvt.u32.u64 $d, $a"]);
    "cvt.i64.f16" Key::Cvt(Scalar::I64), F16, Always => lines(&["cvt.rn.f16.s64 $d, $a"]);
    "cvt.i64.bf16" Key::Cvt(Scalar::I64), BF16, Always => lines(&[
        "cvt.rz.f32.s64 $f0, $a",
        "cvt.rzi.s64.f32 $q5, $f0",
        "setp.ne.s64 $p0, $q5, $a",
        "mov.b32 $r1, $f0",
        "or.b32 $r2, $r1, 1",
        "selp.b32 $r3, $r2, $r1, $p0",
        "mov.b32 $f1, $r3",
        "cvt.rn.bf16.f32 $d, $f1",
    ]);
    "cvt.i64.f32" Key::Cvt(Scalar::I64), F32, Always => lines(&["cvt.rn.f32.s64 $d, $a"]);
    "cvt.i64.f64" Key::Cvt(Scalar::I64), F64, Always => lines(&["cvt.rn.f64.s64 $d, $a"]);
    "cvt.f16.i1" Key::Cvt(Scalar::F16), I1, Always => ViaF32;
    "cvt.f16.i8" Key::Cvt(Scalar::F16), I8, Always => ViaF32;
    "cvt.f16.i16" Key::Cvt(Scalar::F16), I16, Always => ViaF32;
    "cvt.f16.i32" Key::Cvt(Scalar::F16), I32, Always => ViaF32;
    "cvt.f16.i64" Key::Cvt(Scalar::F16), I64, Always => ViaF32;
    "cvt.f16.bf16" Key::Cvt(Scalar::F16), BF16, Always => lines(&["cvt.f32.f16 $f0, $a", "cvt.rn.bf16.f32 $d, $f0"]);
    "cvt.f16.f32" Key::Cvt(Scalar::F16), F32, Always => lines(&["cvt.f32.f16 $d, $a"]);
    "cvt.f16.f64" Key::Cvt(Scalar::F16), F64, Always => lines(&["cvt.f64.f16 $d, $a"]);
    "cvt.bf16.i1" Key::Cvt(Scalar::BF16), I1, Always => ViaF32;
    "cvt.bf16.i8" Key::Cvt(Scalar::BF16), I8, Always => ViaF32;
    "cvt.bf16.i16" Key::Cvt(Scalar::BF16), I16, Always => ViaF32;
    "cvt.bf16.i32" Key::Cvt(Scalar::BF16), I32, Always => ViaF32;
    "cvt.bf16.i64" Key::Cvt(Scalar::BF16), I64, Always => ViaF32;
    "cvt.bf16.f16" Key::Cvt(Scalar::BF16), F16, Always => ViaF32;
    "cvt.bf16.f32" Key::Cvt(Scalar::BF16), F32, Always => lines(&["mov.b32 $d, {0, $a}"]);
    "cvt.bf16.f64" Key::Cvt(Scalar::BF16), F64, Always => ViaF32;
    "cvt.f32.i1" Key::Cvt(Scalar::F32), I1, Always => lines(&["setp.neu.f32 $d, $a, 0f00000000"]);
    "cvt.f32.i8" Key::Cvt(Scalar::F32), I8, Always => lines(&[
        "cvt.rzi.s32.f32 $r0, $a",
        "min.s32 $r1, $r0, 127",
        "max.s32 $r2, $r1, -128",
        "cvt.u16.u32 $d, $r2",
    ]);
    "cvt.f32.i16" Key::Cvt(Scalar::F32), I16, Always => lines(&[
        "cvt.rzi.s32.f32 $r0, $a",
        "min.s32 $r1, $r0, 32767",
        "max.s32 $r2, $r1, -32768",
        "cvt.u16.u32 $d, $r2",
    ]);
    "cvt.f32.i32" Key::Cvt(Scalar::F32), I32, Always => lines(&["cvt.rzi.s32.f32 $d, $a"]);
    "cvt.f32.i64" Key::Cvt(Scalar::F32), I64, Always => lines(&[
        "cvt.rzi.s64.f32 $q0, $a",
        "setp.nan.f32 $p0, $a, $a",
        "selp.b64 $d, 0, $q0, $p0",
    ]);
    "cvt.f32.f16" Key::Cvt(Scalar::F32), F16, Always => lines(&["cvt.rn.f16.f32 $d, $a"]);
    "cvt.f32.bf16" Key::Cvt(Scalar::F32), BF16, Always => lines(&["cvt.rn.bf16.f32 $d, $a"]);
    "cvt.f32.f64" Key::Cvt(Scalar::F32), F64, Always => lines(&["cvt.f64.f32 $d, $a"]);
    "cvt.f64.i1" Key::Cvt(Scalar::F64), I1, Always => lines(&["setp.neu.f64 $d, $a, 0d0000000000000000"]);
    "cvt.f64.i8" Key::Cvt(Scalar::F64), I8, Always => lines(&[
        "cvt.rzi.s32.f64 $r0, $a",
        "setp.nan.f64 $p0, $a, $a",
        "selp.b32 $r3, 0, $r0, $p0",
        "min.s32 $r1, $r3, 127",
        "max.s32 $r2, $r1, -128",
        "cvt.u16.u32 $d, $r2",
    ]);
    "cvt.f64.i16" Key::Cvt(Scalar::F64), I16, Always => lines(&[
        "cvt.rzi.s32.f64 $r0, $a",
        "setp.nan.f64 $p0, $a, $a",
        "selp.b32 $r3, 0, $r0, $p0",
        "min.s32 $r1, $r3, 32767",
        "max.s32 $r2, $r1, -32768",
        "cvt.u16.u32 $d, $r2",
    ]);
    "cvt.f64.i32" Key::Cvt(Scalar::F64), I32, Always => lines(&[
        "cvt.rzi.s32.f64 $r0, $a",
        "setp.nan.f64 $p0, $a, $a",
        "selp.b32 $d, 0, $r0, $p0",
    ]);
    "cvt.f64.i64" Key::Cvt(Scalar::F64), I64, Always => lines(&[
        "cvt.rzi.s64.f64 $q0, $a",
        "setp.nan.f64 $p0, $a, $a",
        "selp.b64 $d, 0, $q0, $p0",
    ]);
    "cvt.f64.f16" Key::Cvt(Scalar::F64), F16, Always => lines(&["cvt.rn.f16.f64 $d, $a"]);
    "cvt.f64.bf16" Key::Cvt(Scalar::F64), BF16, Always => lines(&[
        "cvt.rz.f32.f64 $f0, $a",
        "cvt.f64.f32 $e0, $f0",
        "setp.neu.f64 $p0, $e0, $a",
        "mov.b32 $r0, $f0",
        "or.b32 $r1, $r0, 1",
        "selp.b32 $r2, $r1, $r0, $p0",
        "mov.b32 $f1, $r2",
        "cvt.rn.bf16.f32 $d, $f1",
    ]);
    "cvt.f64.f32" Key::Cvt(Scalar::F64), F32, Always => lines(&["cvt.rn.f32.f64 $d, $a"]);
    "bits.i32.f32" Key::Bits(I32), F32, Always => lines(&["mov.b32 $d, $a"]);
    "bits.b32.f32" Key::Bits(B32), F32, Always => lines(&["mov.b32 $d, $a"]);
    "bits.f32.i32" Key::Bits(F32), I32, Always => lines(&["mov.b32 $d, $a"]);
    "bits.f32.b32" Key::Bits(F32), B32, Always => lines(&["mov.b32 $d, $a"]);
    "bits.i64.f64" Key::Bits(I64), F64, Always => lines(&["mov.b64 $d, $a"]);
    "bits.f64.i64" Key::Bits(F64), I64, Always => lines(&["mov.b64 $d, $a"]);
};
