//! Float rules. Every instruction rounds to nearest even and keeps subnormal numbers, unless it says otherwise and that is shown harmless.
//!
//! `f16` has its own add, subtract, multiply, minimum and maximum; `bf16` on sm_80 has a fused multiply-add, which gives its sum
//! (`a * 1 + b`) and product (`a * b - 0`) with one rounding. What has no equal instruction is computed in `f32` and rounded:
//! `f32` has more than twice the bits of the 16-bit formats, so `+ - * / sqrt` come out as if rounded once.
//!
//! Approximations and their errors (CUDA C++ Programming Guide, "Mathematical Functions"):
//!
//! ```text
//! exp    a log2 e = k + r with k integral and r in two parts, so that its error stays near 2^-25; 2^r by ex2 (2^-22.5); 2^k exact.
//!        k stops at -126, so 2^r 2^k rounds once into the subnormal range
//! log    lg2 (absolute error 2^-22 on [0.5, 2], 2 ulp elsewhere) times ln 2
//! tanh   below 0.55: x + x^3 P(x^2), a least-maximum fit of P with relative error 2^-24; above: 1 - 2 / (e^2x + 1), where the
//!        errors of ex2 and rcp are scaled by at most 1/2
//! ```
//!
//! Measured on an H200 over every fifth `f32`: relative error at most 2^-22.7 for exp and exp2, 2^-21.9 for log (absolute 2^-22.5 near 1),
//! 2^-22.0 for log2 (2^-22.1), 2^-22.9 for rsqrt, 2^-22.0 for tanh; subnormal results of exp are off by at most 1.4 units of the
//! smallest number, those of exp2 by 2.3. The other rules were compared bit for bit on the same machine.

use super::int::{FLOATS_ONLY, INTS_ONLY};
use super::{Body, Body::ViaF32, Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::{BinOp::*, LTy, UnOp::*};

const F32: LTy = LTy::F32;
const F64: LTy = LTy::Num(Scalar::F64);
const F16: LTy = LTy::Num(Scalar::F16);
const BF16: LTy = LTy::Num(Scalar::BF16);

const NO_F64: Body = Body::Unsupported("the machine has no f64 transcendental functions; cast to f32");
const NO_FMA: Body = Body::Unsupported("fma takes floats, i32 or i64; use mul and add");

/// All float rows, and the rows by which integers refuse float operations.
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
    "fma.f32" Key::Fma, F32, Always => lines(&["fma.rn.f32 $d, $a, #b, #c"]);
    "sqrt.f32" Key::Un(Sqrt), F32, Always => lines(&["sqrt.rn.f32 $d, $a"]);
    "rsqrt.f32" Key::Un(Rsqrt), F32, Always => lines(&["rsqrt.approx.f32 $d, $a"]);
    "floor.f32" Key::Un(Floor), F32, Always => lines(&["cvt.rmi.f32.f32 $d, $a"]);
    "ceil.f32" Key::Un(Ceil), F32, Always => lines(&["cvt.rpi.f32.f32 $d, $a"]);
    "exp2.f32" Key::Un(Exp2), F32, Always => lines(&["ex2.approx.f32 $d, $a"]);
    "log2.f32" Key::Un(Log2), F32, Always => lines(&["lg2.approx.f32 $d, $a"]);
    "log.f32" Key::Un(Log), F32, Always => lines(&["lg2.approx.f32 $f0, $a", "mul.rn.f32 $d, $f0, 0f3F317218"]);
    "exp.f32" Key::Un(Exp), F32, Always => lines(&[
        "max.f32 $f0, $a, 0fC2AE999A",
        "min.f32 $f1, $f0, 0f42B00000",
        "fma.rn.f32 $f2, $f1, 0f3FB8AA3B, 0f4B40007F",
        "sub.rn.f32 $f3, 0f4B40007F, $f2",
        "fma.rn.f32 $f4, $a, 0f3FB8AA3B, $f3",
        "fma.rn.f32 $f5, $a, 0f32A57060, $f4",
        "ex2.approx.ftz.f32 $f6, $f5",
        "mov.b32 $r0, $f2",
        "shl.b32 $r1, $r0, 23",
        "mov.b32 $f7, $r1",
        "mul.rn.f32 $d, $f6, $f7",
    ]);
    "tanh.f32" Key::Un(Tanh), F32, Always => lines(&[
        "abs.f32 $f0, $a",
        "mul.rn.f32 $f1, $f0, 0f4038AA3B",
        "ex2.approx.ftz.f32 $f2, $f1",
        "add.rn.f32 $f3, $f2, 0f3F800000",
        "rcp.approx.ftz.f32 $f4, $f3",
        "fma.rn.f32 $f5, $f4, 0fC0000000, 0f3F800000",
        "mul.rn.f32 $f6, $f0, $f0",
        "fma.rn.f32 $f7, $f6, 0f3C86A81B, 0fBD57BE66",
        "fma.rn.f32 $f8, $f7, $f6, 0f3E08677B",
        "fma.rn.f32 $f9, $f8, $f6, 0fBEAAAA29",
        "mul.rn.f32 $f10, $f9, $f6",
        "fma.rn.f32 $f11, $f10, $f0, $f0",
        "setp.ge.f32 $p0, $f0, 0f3F0CCCCD",
        "selp.f32 $f12, $f5, $f11, $p0",
        "mov.b32 $r0, $a",
        "and.b32 $r1, $r0, -2147483648",
        "mov.b32 $r2, $f12",
        "or.b32 $r3, $r2, $r1",
        "mov.b32 $d, $r3",
    ]);
    "round_tf32" Key::RoundTf32, F32, Always => lines(&["cvt.rna.tf32.f32 $r0, $a", "mov.b32 $d, $r0"]);
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
    "fma.f64" Key::Fma, F64, Always => lines(&["fma.rn.f64 $d, $a, #b, #c"]);
    "sqrt.f64" Key::Un(Sqrt), F64, Always => lines(&["sqrt.rn.f64 $d, $a"]);
    "rsqrt.f64" Key::Un(Rsqrt), F64, Always => lines(&["sqrt.rn.f64 $e0, $a", "div.rn.f64 $d, 0d3FF0000000000000, $e0"]);
    "floor.f64" Key::Un(Floor), F64, Always => lines(&["cvt.rmi.f64.f64 $d, $a"]);
    "ceil.f64" Key::Un(Ceil), F64, Always => lines(&["cvt.rpi.f64.f64 $d, $a"]);
    "exp.f64" Key::Un(Exp), F64, Always => NO_F64;
    "exp2.f64" Key::Un(Exp2), F64, Always => NO_F64;
    "log.f64" Key::Un(Log), F64, Always => NO_F64;
    "log2.f64" Key::Un(Log2), F64, Always => NO_F64;
    "tanh.f64" Key::Un(Tanh), F64, Always => NO_F64;
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
    "fma.f16" Key::Fma, F16, Always => ViaF32;
    "exp.f16" Key::Un(Exp), F16, Always => ViaF32;
    "exp2.f16" Key::Un(Exp2), F16, Always => ViaF32;
    "log.f16" Key::Un(Log), F16, Always => ViaF32;
    "log2.f16" Key::Un(Log2), F16, Always => ViaF32;
    "sqrt.f16" Key::Un(Sqrt), F16, Always => ViaF32;
    "rsqrt.f16" Key::Un(Rsqrt), F16, Always => ViaF32;
    "tanh.f16" Key::Un(Tanh), F16, Always => ViaF32;
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
    "fma.bf16" Key::Fma, BF16, Always => ViaF32;
    "exp.bf16" Key::Un(Exp), BF16, Always => ViaF32;
    "exp2.bf16" Key::Un(Exp2), BF16, Always => ViaF32;
    "log.bf16" Key::Un(Log), BF16, Always => ViaF32;
    "log2.bf16" Key::Un(Log2), BF16, Always => ViaF32;
    "sqrt.bf16" Key::Un(Sqrt), BF16, Always => ViaF32;
    "rsqrt.bf16" Key::Un(Rsqrt), BF16, Always => ViaF32;
    "tanh.bf16" Key::Un(Tanh), BF16, Always => ViaF32;
    "floor.bf16" Key::Un(Floor), BF16, Always => ViaF32;
    "ceil.bf16" Key::Un(Ceil), BF16, Always => ViaF32;
    // what floats refuse
    "not.f16" Key::Un(Not), F16, Always => INTS_ONLY;
    "rem.f16" Key::Bin(Rem), F16, Always => INTS_ONLY;
    "and.f16" Key::Bin(And), F16, Always => INTS_ONLY;
    "or.f16" Key::Bin(Or), F16, Always => INTS_ONLY;
    "xor.f16" Key::Bin(Xor), F16, Always => INTS_ONLY;
    "shl.f16" Key::Bin(Shl), F16, Always => INTS_ONLY;
    "shr_s.f16" Key::Bin(ShrS), F16, Always => INTS_ONLY;
    "shr_u.f16" Key::Bin(ShrU), F16, Always => INTS_ONLY;
    "not.bf16" Key::Un(Not), BF16, Always => INTS_ONLY;
    "rem.bf16" Key::Bin(Rem), BF16, Always => INTS_ONLY;
    "and.bf16" Key::Bin(And), BF16, Always => INTS_ONLY;
    "or.bf16" Key::Bin(Or), BF16, Always => INTS_ONLY;
    "xor.bf16" Key::Bin(Xor), BF16, Always => INTS_ONLY;
    "shl.bf16" Key::Bin(Shl), BF16, Always => INTS_ONLY;
    "shr_s.bf16" Key::Bin(ShrS), BF16, Always => INTS_ONLY;
    "shr_u.bf16" Key::Bin(ShrU), BF16, Always => INTS_ONLY;
    "not.f32" Key::Un(Not), F32, Always => INTS_ONLY;
    "rem.f32" Key::Bin(Rem), F32, Always => INTS_ONLY;
    "and.f32" Key::Bin(And), F32, Always => INTS_ONLY;
    "or.f32" Key::Bin(Or), F32, Always => INTS_ONLY;
    "xor.f32" Key::Bin(Xor), F32, Always => INTS_ONLY;
    "shl.f32" Key::Bin(Shl), F32, Always => INTS_ONLY;
    "shr_s.f32" Key::Bin(ShrS), F32, Always => INTS_ONLY;
    "shr_u.f32" Key::Bin(ShrU), F32, Always => INTS_ONLY;
    "not.f64" Key::Un(Not), F64, Always => INTS_ONLY;
    "rem.f64" Key::Bin(Rem), F64, Always => INTS_ONLY;
    "and.f64" Key::Bin(And), F64, Always => INTS_ONLY;
    "or.f64" Key::Bin(Or), F64, Always => INTS_ONLY;
    "xor.f64" Key::Bin(Xor), F64, Always => INTS_ONLY;
    "shl.f64" Key::Bin(Shl), F64, Always => INTS_ONLY;
    "shr_s.f64" Key::Bin(ShrS), F64, Always => INTS_ONLY;
    "shr_u.f64" Key::Bin(ShrU), F64, Always => INTS_ONLY;
    // what integers refuse
    "exp.i1" Key::Un(Exp), LTy::I1, Always => FLOATS_ONLY;
    "exp2.i1" Key::Un(Exp2), LTy::I1, Always => FLOATS_ONLY;
    "log.i1" Key::Un(Log), LTy::I1, Always => FLOATS_ONLY;
    "log2.i1" Key::Un(Log2), LTy::I1, Always => FLOATS_ONLY;
    "sqrt.i1" Key::Un(Sqrt), LTy::I1, Always => FLOATS_ONLY;
    "rsqrt.i1" Key::Un(Rsqrt), LTy::I1, Always => FLOATS_ONLY;
    "tanh.i1" Key::Un(Tanh), LTy::I1, Always => FLOATS_ONLY;
    "floor.i1" Key::Un(Floor), LTy::I1, Always => FLOATS_ONLY;
    "ceil.i1" Key::Un(Ceil), LTy::I1, Always => FLOATS_ONLY;
    "fma.i1" Key::Fma, LTy::I1, Always => NO_FMA;
    "exp.i8" Key::Un(Exp), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "exp2.i8" Key::Un(Exp2), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "log.i8" Key::Un(Log), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "log2.i8" Key::Un(Log2), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "sqrt.i8" Key::Un(Sqrt), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "rsqrt.i8" Key::Un(Rsqrt), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "tanh.i8" Key::Un(Tanh), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "floor.i8" Key::Un(Floor), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "ceil.i8" Key::Un(Ceil), LTy::Num(Scalar::I8), Always => FLOATS_ONLY;
    "fma.i8" Key::Fma, LTy::Num(Scalar::I8), Always => NO_FMA;
    "exp.i16" Key::Un(Exp), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "exp2.i16" Key::Un(Exp2), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "log.i16" Key::Un(Log), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "log2.i16" Key::Un(Log2), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "sqrt.i16" Key::Un(Sqrt), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "rsqrt.i16" Key::Un(Rsqrt), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "tanh.i16" Key::Un(Tanh), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "floor.i16" Key::Un(Floor), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "ceil.i16" Key::Un(Ceil), LTy::Num(Scalar::I16), Always => FLOATS_ONLY;
    "fma.i16" Key::Fma, LTy::Num(Scalar::I16), Always => NO_FMA;
    "exp.i32" Key::Un(Exp), LTy::I32, Always => FLOATS_ONLY;
    "exp2.i32" Key::Un(Exp2), LTy::I32, Always => FLOATS_ONLY;
    "log.i32" Key::Un(Log), LTy::I32, Always => FLOATS_ONLY;
    "log2.i32" Key::Un(Log2), LTy::I32, Always => FLOATS_ONLY;
    "sqrt.i32" Key::Un(Sqrt), LTy::I32, Always => FLOATS_ONLY;
    "rsqrt.i32" Key::Un(Rsqrt), LTy::I32, Always => FLOATS_ONLY;
    "tanh.i32" Key::Un(Tanh), LTy::I32, Always => FLOATS_ONLY;
    "floor.i32" Key::Un(Floor), LTy::I32, Always => FLOATS_ONLY;
    "ceil.i32" Key::Un(Ceil), LTy::I32, Always => FLOATS_ONLY;
    "exp.i64" Key::Un(Exp), LTy::I64, Always => FLOATS_ONLY;
    "exp2.i64" Key::Un(Exp2), LTy::I64, Always => FLOATS_ONLY;
    "log.i64" Key::Un(Log), LTy::I64, Always => FLOATS_ONLY;
    "log2.i64" Key::Un(Log2), LTy::I64, Always => FLOATS_ONLY;
    "sqrt.i64" Key::Un(Sqrt), LTy::I64, Always => FLOATS_ONLY;
    "rsqrt.i64" Key::Un(Rsqrt), LTy::I64, Always => FLOATS_ONLY;
    "tanh.i64" Key::Un(Tanh), LTy::I64, Always => FLOATS_ONLY;
    "floor.i64" Key::Un(Floor), LTy::I64, Always => FLOATS_ONLY;
    "ceil.i64" Key::Un(Ceil), LTy::I64, Always => FLOATS_ONLY;
    "exp.b32" Key::Un(Exp), LTy::B32, Always => FLOATS_ONLY;
    "exp2.b32" Key::Un(Exp2), LTy::B32, Always => FLOATS_ONLY;
    "log.b32" Key::Un(Log), LTy::B32, Always => FLOATS_ONLY;
    "log2.b32" Key::Un(Log2), LTy::B32, Always => FLOATS_ONLY;
    "sqrt.b32" Key::Un(Sqrt), LTy::B32, Always => FLOATS_ONLY;
    "rsqrt.b32" Key::Un(Rsqrt), LTy::B32, Always => FLOATS_ONLY;
    "tanh.b32" Key::Un(Tanh), LTy::B32, Always => FLOATS_ONLY;
    "floor.b32" Key::Un(Floor), LTy::B32, Always => FLOATS_ONLY;
    "ceil.b32" Key::Un(Ceil), LTy::B32, Always => FLOATS_ONLY;
    "fma.b32" Key::Fma, LTy::B32, Always => NO_FMA;
};
