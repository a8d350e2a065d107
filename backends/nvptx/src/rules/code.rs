//! Conversions of 8-bit floats' codes, which sm_89 and later have; the target table says so. They take and give pairs, of which one half
//! is zero where a single one is wanted.

use super::rule::{Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::Opcode::{CvtE4M3x2, CvtE5M2x2};
use tilelift_isel::lane::{LTy, UnOp::*};

const T32: LTy = LTy::I32;
const I16: LTy = LTy::Num(Scalar::I16);

/// Encoders and decoders.
pub(super) const ROWS: &[Rule] = rows! {
    "encode_e4m3.i32" Key::Un(EncodeE4M3), T32, Always => lines(&["mov.b32 $f0, $a", "cvt.rn.satfinite.e4m3x2.f32 $h0, 0f00000000, $f0", "cvt.u32.u16 $d, $h0"]);
    "cvt.e4m3x2" Key::Plain(CvtE4M3x2), I16, Always => lines(&["cvt.rn.satfinite.e4m3x2.f32 $d, $b, $a"]);
    "cvt.e5m2x2" Key::Plain(CvtE5M2x2), I16, Always => lines(&["cvt.rn.satfinite.e5m2x2.f32 $d, $b, $a"]);
    "decode_e4m3.i32" Key::Un(DecodeE4M3), T32, Always => lines(&["cvt.u16.u32 $h0, $a", "cvt.rn.f16x2.e4m3x2 $r0, $h0", "cvt.u16.u32 $h1, $r0", "cvt.f32.f16 $f0, $h1", "mov.b32 $d, $f0"]);
    "decode_e4m3x2.i32" Key::Un(DecodeE4M3x2), T32, Always => lines(&["cvt.u16.u32 $h0, $a", "cvt.rn.f16x2.e4m3x2 $d, $h0"]);
    "encode_e5m2.i32" Key::Un(EncodeE5M2), T32, Always => lines(&["mov.b32 $f0, $a", "cvt.rn.satfinite.e5m2x2.f32 $h0, 0f00000000, $f0", "cvt.u32.u16 $d, $h0"]);
    "decode_e5m2.i32" Key::Un(DecodeE5M2), T32, Always => lines(&["cvt.u16.u32 $h0, $a", "cvt.rn.f16x2.e5m2x2 $r0, $h0", "cvt.u16.u32 $h1, $r0", "cvt.f32.f16 $f0, $h1", "mov.b32 $d, $f0"]);
};
