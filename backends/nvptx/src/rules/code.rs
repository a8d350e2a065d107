//! Conversions of 8-bit floats' codes, which sm_89 and later have; the target table says so. They take and give pairs, of which one half
//! is zero here.

use super::{Body, Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::{LTy, UnOp::*};

const T32: LTy = LTy::I32;
const F32_ONLY: Body = Body::Unsupported("an f32 is rounded to bf16; cast the operand");
const WORDS_ONLY: Body = Body::Unsupported("codes are converted as i32; widen the operand");

/// Encoders and decoders, and the rows by which other types refuse them.
pub(super) const ROWS: &[Rule] = rows! {
    "encode_e4m3.i32" Key::Un(EncodeE4M3), T32, Always => lines(&["mov.b32 $f0, $a", "cvt.rn.satfinite.e4m3x2.f32 $h0, 0f00000000, $f0", "cvt.u32.u16 $d, $h0"]);
    "decode_e4m3.i32" Key::Un(DecodeE4M3), T32, Always => lines(&["cvt.u16.u32 $h0, $a", "cvt.rn.f16x2.e4m3x2 $r0, $h0", "cvt.u16.u32 $h1, $r0", "cvt.f32.f16 $f0, $h1", "mov.b32 $d, $f0"]);
    "encode_e5m2.i32" Key::Un(EncodeE5M2), T32, Always => lines(&["mov.b32 $f0, $a", "cvt.rn.satfinite.e5m2x2.f32 $h0, 0f00000000, $f0", "cvt.u32.u16 $d, $h0"]);
    "decode_e5m2.i32" Key::Un(DecodeE5M2), T32, Always => lines(&["cvt.u16.u32 $h0, $a", "cvt.rn.f16x2.e5m2x2 $r0, $h0", "cvt.u16.u32 $h1, $r0", "cvt.f32.f16 $f0, $h1", "mov.b32 $d, $f0"]);
    "round_bf16.i1" Key::Un(RoundBf16), LTy::I1, Always => F32_ONLY;
    "round_bf16.i8" Key::Un(RoundBf16), LTy::Num(Scalar::I8), Always => F32_ONLY;
    "round_bf16.i16" Key::Un(RoundBf16), LTy::Num(Scalar::I16), Always => F32_ONLY;
    "round_bf16.i32" Key::Un(RoundBf16), T32, Always => F32_ONLY;
    "round_bf16.i64" Key::Un(RoundBf16), LTy::I64, Always => F32_ONLY;
    "round_bf16.f16" Key::Un(RoundBf16), LTy::Num(Scalar::F16), Always => F32_ONLY;
    "round_bf16.bf16" Key::Un(RoundBf16), LTy::Num(Scalar::BF16), Always => F32_ONLY;
    "round_bf16.f64" Key::Un(RoundBf16), LTy::Num(Scalar::F64), Always => F32_ONLY;
    "round_bf16.b32" Key::Un(RoundBf16), LTy::B32, Always => F32_ONLY;
    "encode_e4m3.i1" Key::Un(EncodeE4M3), LTy::I1, Always => WORDS_ONLY;
    "encode_e4m3.i8" Key::Un(EncodeE4M3), LTy::Num(Scalar::I8), Always => WORDS_ONLY;
    "encode_e4m3.i16" Key::Un(EncodeE4M3), LTy::Num(Scalar::I16), Always => WORDS_ONLY;
    "encode_e4m3.i64" Key::Un(EncodeE4M3), LTy::I64, Always => WORDS_ONLY;
    "encode_e4m3.f16" Key::Un(EncodeE4M3), LTy::Num(Scalar::F16), Always => WORDS_ONLY;
    "encode_e4m3.bf16" Key::Un(EncodeE4M3), LTy::Num(Scalar::BF16), Always => WORDS_ONLY;
    "encode_e4m3.f32" Key::Un(EncodeE4M3), LTy::F32, Always => WORDS_ONLY;
    "encode_e4m3.f64" Key::Un(EncodeE4M3), LTy::Num(Scalar::F64), Always => WORDS_ONLY;
    "encode_e4m3.b32" Key::Un(EncodeE4M3), LTy::B32, Always => WORDS_ONLY;
    "encode_e5m2.i1" Key::Un(EncodeE5M2), LTy::I1, Always => WORDS_ONLY;
    "encode_e5m2.i8" Key::Un(EncodeE5M2), LTy::Num(Scalar::I8), Always => WORDS_ONLY;
    "encode_e5m2.i16" Key::Un(EncodeE5M2), LTy::Num(Scalar::I16), Always => WORDS_ONLY;
    "encode_e5m2.i64" Key::Un(EncodeE5M2), LTy::I64, Always => WORDS_ONLY;
    "encode_e5m2.f16" Key::Un(EncodeE5M2), LTy::Num(Scalar::F16), Always => WORDS_ONLY;
    "encode_e5m2.bf16" Key::Un(EncodeE5M2), LTy::Num(Scalar::BF16), Always => WORDS_ONLY;
    "encode_e5m2.f32" Key::Un(EncodeE5M2), LTy::F32, Always => WORDS_ONLY;
    "encode_e5m2.f64" Key::Un(EncodeE5M2), LTy::Num(Scalar::F64), Always => WORDS_ONLY;
    "encode_e5m2.b32" Key::Un(EncodeE5M2), LTy::B32, Always => WORDS_ONLY;
    "decode_e4m3.i1" Key::Un(DecodeE4M3), LTy::I1, Always => WORDS_ONLY;
    "decode_e4m3.i8" Key::Un(DecodeE4M3), LTy::Num(Scalar::I8), Always => WORDS_ONLY;
    "decode_e4m3.i16" Key::Un(DecodeE4M3), LTy::Num(Scalar::I16), Always => WORDS_ONLY;
    "decode_e4m3.i64" Key::Un(DecodeE4M3), LTy::I64, Always => WORDS_ONLY;
    "decode_e4m3.f16" Key::Un(DecodeE4M3), LTy::Num(Scalar::F16), Always => WORDS_ONLY;
    "decode_e4m3.bf16" Key::Un(DecodeE4M3), LTy::Num(Scalar::BF16), Always => WORDS_ONLY;
    "decode_e4m3.f32" Key::Un(DecodeE4M3), LTy::F32, Always => WORDS_ONLY;
    "decode_e4m3.f64" Key::Un(DecodeE4M3), LTy::Num(Scalar::F64), Always => WORDS_ONLY;
    "decode_e4m3.b32" Key::Un(DecodeE4M3), LTy::B32, Always => WORDS_ONLY;
    "decode_e5m2.i1" Key::Un(DecodeE5M2), LTy::I1, Always => WORDS_ONLY;
    "decode_e5m2.i8" Key::Un(DecodeE5M2), LTy::Num(Scalar::I8), Always => WORDS_ONLY;
    "decode_e5m2.i16" Key::Un(DecodeE5M2), LTy::Num(Scalar::I16), Always => WORDS_ONLY;
    "decode_e5m2.i64" Key::Un(DecodeE5M2), LTy::I64, Always => WORDS_ONLY;
    "decode_e5m2.f16" Key::Un(DecodeE5M2), LTy::Num(Scalar::F16), Always => WORDS_ONLY;
    "decode_e5m2.bf16" Key::Un(DecodeE5M2), LTy::Num(Scalar::BF16), Always => WORDS_ONLY;
    "decode_e5m2.f32" Key::Un(DecodeE5M2), LTy::F32, Always => WORDS_ONLY;
    "decode_e5m2.f64" Key::Un(DecodeE5M2), LTy::Num(Scalar::F64), Always => WORDS_ONLY;
    "decode_e5m2.b32" Key::Un(DecodeE5M2), LTy::B32, Always => WORDS_ONLY;
};
