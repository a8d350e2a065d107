//! Float rules. Every instruction rounds to nearest even and keeps subnormal numbers, unless it says otherwise and that is shown harmless.
//!
//! `f16` has its own add, subtract, multiply, minimum and maximum; `bf16` on sm_80 has a fused multiply-add, which gives its sum
//! (`a * 1 + b`) and product (`a * b - 0`) with one rounding. What has no equal instruction is computed in `f32` and rounded:
//! `f32` has more than twice the bits of the 16-bit formats, so `+ - * / sqrt` come out as if rounded once.
//!
//! The machine's own functions and their errors (CUDA C++ Programming Guide, "Mathematical Functions"): `ex2` 2^-22.5, `lg2` absolute 2^-22
//! on [0.5, 2] and 2 units in the last place elsewhere, `rsqrt` 2 units, `rcp` 1 unit. Measured on an H200 over every fifth `f32`:
//! relative error at most 2^-22.7 for exp2, 2^-22.0 for log2 (absolute 2^-22.1 near 1), 2^-22.9 for rsqrt; subnormal results of exp2 are 0,
//! which saves a comparison and two products. The other rules were compared bit for bit on the same machine. Other functions, and all
//! of `f64` but the reciprocal, are made of these by the lowering.

use super::rule::{Body::ViaF32, Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::{BinOp::*, LTy, Opcode::*, UnOp::*};

const F32: LTy = LTy::F32;
const F64: LTy = LTy::Num(Scalar::F64);
const F16: LTy = LTy::Num(Scalar::F16);
const BF16: LTy = LTy::Num(Scalar::BF16);

/// All float rows.
pub(super) const ROWS: &[Rule] = rows! {
    // f32
    "neg.f32" Key::Un(Neg), F32, Always => lines(&["neg.f32 $d, $a"]);
    "abs.f32" Key::Un(Abs), F32, Always => lines(&["abs.f32 $d, $a"]);
    "add.f32" Key::Bin(Add), F32, Always => lines(&["add.rn.f32 $d, #a, #b"]);
    "sub.f32" Key::Bin(Sub), F32, Always => lines(&["sub.rn.f32 $d, #a, #b"]);
    "mul.f32" Key::Bin(Mul), F32, Always => lines(&["mul.rn.f32 $d, #a, #b"]);
    "div.f32" Key::Bin(Div), F32, Always => lines(&["div.rn.f32 $d, #a, #b"]);
    "minimum.f32" Key::Bin(Minimum), F32, Always => lines(&["min.NaN.f32 $d, $a, #b"]);
    "maximum.f32" Key::Bin(Maximum), F32, Always => lines(&["max.NaN.f32 $d, $a, #b"]);
    "minnum.f32" Key::Bin(MinNum), F32, Always => lines(&["min.f32 $d, $a, #b"]);
    "maxnum.f32" Key::Bin(MaxNum), F32, Always => lines(&["max.f32 $d, $a, #b"]);
    "fma.f32" Key::Plain(Fma), F32, Always => lines(&["fma.rn.f32 $d, $a, #b, #c"]);
    "sqrt.f32" Key::Un(Sqrt), F32, Always => lines(&["sqrt.rn.f32 $d, $a"]);
    "rsqrt.f32" Key::Un(Rsqrt), F32, Always => lines(&["rsqrt.approx.f32 $d, $a"]);
    "floor.f32" Key::Un(Floor), F32, Always => lines(&["cvt.rmi.f32.f32 $d, $a"]);
    "ceil.f32" Key::Un(Ceil), F32, Always => lines(&["cvt.rpi.f32.f32 $d, $a"]);
    "exp2.f32" Key::Un(Exp2), F32, Always => lines(&["ex2.approx.ftz.f32 $d, $a"]);
    "log2.f32" Key::Un(Log2), F32, Always => lines(&["lg2.approx.f32 $d, $a"]);
    "round_bf16.f32" Key::Un(RoundBf16), F32, Always => lines(&["mov.f32 $f0, 0f00000000", "cvt.rn.bf16x2.f32 $r0, $a, $f0", "mov.b32 $d, $r0"]);
    "round_tf32" Key::Plain(RoundTf32), F32, Always => lines(&["cvt.rna.tf32.f32 $r0, $a", "mov.b32 $d, $r0"]);
    // f64; its minimum and maximum lack the form that propagates NaN
    "neg.f64" Key::Un(Neg), F64, Always => lines(&["neg.f64 $d, $a"]);
    "abs.f64" Key::Un(Abs), F64, Always => lines(&["abs.f64 $d, $a"]);
    "add.f64" Key::Bin(Add), F64, Always => lines(&["add.rn.f64 $d, #a, #b"]);
    "sub.f64" Key::Bin(Sub), F64, Always => lines(&["sub.rn.f64 $d, #a, #b"]);
    "mul.f64" Key::Bin(Mul), F64, Always => lines(&["mul.rn.f64 $d, #a, #b"]);
    "div.f64" Key::Bin(Div), F64, Always => lines(&["div.rn.f64 $d, #a, #b"]);
    "minimum.f64" Key::Bin(Minimum), F64, Always => lines(&[
        "min.f64 $e0, $a, $b",
        "add.rn.f64 $e1, $a, $b",
        "setp.nan.f64 $p0, $a, $b",
        "selp.f64 $d, $e1, $e0, $p0",
    ]);
    "maximum.f64" Key::Bin(Maximum), F64, Always => lines(&[
        "max.f64 $e0, $a, $b",
        "add.rn.f64 $e1, $a, $b",
        "setp.nan.f64 $p0, $a, $b",
        "selp.f64 $d, $e1, $e0, $p0",
    ]);
    "minnum.f64" Key::Bin(MinNum), F64, Always => lines(&["min.f64 $d, $a, #b"]);
    "maxnum.f64" Key::Bin(MaxNum), F64, Always => lines(&["max.f64 $d, $a, #b"]);
    "fma.f64" Key::Plain(Fma), F64, Always => lines(&["fma.rn.f64 $d, $a, #b, #c"]);
    "sqrt.f64" Key::Un(Sqrt), F64, Always => lines(&["sqrt.rn.f64 $d, $a"]);
    "floor.f64" Key::Un(Floor), F64, Always => lines(&["cvt.rmi.f64.f64 $d, $a"]);
    "ceil.f64" Key::Un(Ceil), F64, Always => lines(&["cvt.rpi.f64.f64 $d, $a"]);
    // f16
    "neg.f16" Key::Un(Neg), F16, Always => lines(&["xor.b16 $d, $a, -32768"]);
    "abs.f16" Key::Un(Abs), F16, Always => lines(&["and.b16 $d, $a, 32767"]);
    "add.f16" Key::Bin(Add), F16, Always => lines(&["add.rn.f16 $d, $a, $b"]);
    "sub.f16" Key::Bin(Sub), F16, Always => lines(&["sub.rn.f16 $d, $a, $b"]);
    "mul.f16" Key::Bin(Mul), F16, Always => lines(&["mul.rn.f16 $d, $a, $b"]);
    "minimum.f16" Key::Bin(Minimum), F16, Always => lines(&["min.NaN.f16 $d, $a, $b"]);
    "maximum.f16" Key::Bin(Maximum), F16, Always => lines(&["max.NaN.f16 $d, $a, $b"]);
    "minnum.f16" Key::Bin(MinNum), F16, Always => lines(&["min.f16 $d, $a, $b"]);
    "maxnum.f16" Key::Bin(MaxNum), F16, Always => lines(&["max.f16 $d, $a, $b"]);
    "div.f16" Key::Bin(Div), F16, Always => ViaF32;
    // The fused operation is that of f32, rounded again.
    "fma.f16" Key::Plain(Fma), F16, Always => ViaF32;
    "exp2.f16" Key::Un(Exp2), F16, Always => ViaF32;
    "log2.f16" Key::Un(Log2), F16, Always => ViaF32;
    "sqrt.f16" Key::Un(Sqrt), F16, Always => ViaF32;
    "rsqrt.f16" Key::Un(Rsqrt), F16, Always => ViaF32;
    "floor.f16" Key::Un(Floor), F16, Always => lines(&["cvt.rmi.f16.f16 $d, $a"]);
    "ceil.f16" Key::Un(Ceil), F16, Always => lines(&["cvt.rpi.f16.f16 $d, $a"]);
    // bf16
    "neg.bf16" Key::Un(Neg), BF16, Always => lines(&["xor.b16 $d, $a, -32768"]);
    "abs.bf16" Key::Un(Abs), BF16, Always => lines(&["and.b16 $d, $a, 32767"]);
    "add.bf16" Key::Bin(Add), BF16, Always => lines(&["mov.b16 $h0, 0x3F80", "fma.rn.bf16 $d, $a, $h0, $b"]);
    "sub.bf16" Key::Bin(Sub), BF16, Always => lines(&["mov.b16 $h0, 0xBF80", "fma.rn.bf16 $d, $b, $h0, $a"]);
    "mul.bf16" Key::Bin(Mul), BF16, Always => lines(&["mov.b16 $h0, 0x8000", "fma.rn.bf16 $d, $a, $b, $h0"]);
    "minimum.bf16" Key::Bin(Minimum), BF16, Always => lines(&["min.NaN.bf16 $d, $a, $b"]);
    "maximum.bf16" Key::Bin(Maximum), BF16, Always => lines(&["max.NaN.bf16 $d, $a, $b"]);
    "minnum.bf16" Key::Bin(MinNum), BF16, Always => lines(&["min.bf16 $d, $a, $b"]);
    "maxnum.bf16" Key::Bin(MaxNum), BF16, Always => lines(&["max.bf16 $d, $a, $b"]);
    "div.bf16" Key::Bin(Div), BF16, Always => ViaF32;
    // The fused operation is that of f32, rounded again.
    "fma.bf16" Key::Plain(Fma), BF16, Always => ViaF32;
    // Its subnormal numbers are those of f32.
    "exp2.bf16" Key::Un(Exp2), BF16, Always => lines(&["mov.b32 $f0, {0, $a}", "ex2.approx.f32 $f1, $f0", "cvt.rn.bf16.f32 $d, $f1"]);
    "log2.bf16" Key::Un(Log2), BF16, Always => ViaF32;
    "sqrt.bf16" Key::Un(Sqrt), BF16, Always => ViaF32;
    "rsqrt.bf16" Key::Un(Rsqrt), BF16, Always => ViaF32;
    "floor.bf16" Key::Un(Floor), BF16, Always => ViaF32;
    "ceil.bf16" Key::Un(Ceil), BF16, Always => ViaF32;
    // rounding to integral values, reciprocal
    "round.f32" Key::Un(Round), F32, Always => lines(&["cvt.rni.f32.f32 $d, $a"]);
    "trunc.f32" Key::Un(Trunc), F32, Always => lines(&["cvt.rzi.f32.f32 $d, $a"]);
    "rcp.f32" Key::Un(Rcp), F32, Always => lines(&["rcp.approx.f32 $d, $a"]);
    "rcp_normal.f32" Key::Un(RcpNormal), F32, Always => lines(&["rcp.approx.ftz.f32 $d, $a"]);
    "round.f64" Key::Un(Round), F64, Always => lines(&["cvt.rni.f64.f64 $d, $a"]);
    "trunc.f64" Key::Un(Trunc), F64, Always => lines(&["cvt.rzi.f64.f64 $d, $a"]);
    "rcp.f64" Key::Un(Rcp), F64, Always => lines(&["rcp.rn.f64 $d, $a"]);
    "round.f16" Key::Un(Round), F16, Always => lines(&["cvt.rni.f16.f16 $d, $a"]);
    "trunc.f16" Key::Un(Trunc), F16, Always => lines(&["cvt.rzi.f16.f16 $d, $a"]);
    "round.bf16" Key::Un(Round), BF16, Always => ViaF32;
    "trunc.bf16" Key::Un(Trunc), BF16, Always => ViaF32;
    "rcp.f16" Key::Un(Rcp), F16, Always => ViaF32;
    "rcp.bf16" Key::Un(Rcp), BF16, Always => ViaF32;
};
