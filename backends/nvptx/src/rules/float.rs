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
//! rcp    the machine's reciprocal, 1 unit in the last place
//! sin    |a| below 1 as it is; else a's 24-bit significand times a 96-bit window of 2/pi (Payne and Hanek, "Radian reduction for
//! cos    trigonometric functions", 1983) gives the quadrant and 62 bits of the fraction, so that the reduced argument has a relative
//!        error of 2^-23 however large a is. Then x + x^3 P(x^2) or 1 + x^2 Q(x^2), fits with relative error 2^-30
//! erf    below 15/16: x + x P(x^2) with relative error 2^-26; above: 1 - 2^(-x Q(x)), where 2^… is erfc and its error small beside 1
//! ```
//!
//! The `f64` functions are series: `e^t` to `t^13` on `|t| <= ln 2 / 2`, `ln m = 2 atanh((m - 1) / (m + 1))` to the 23rd power on
//! `[sqrt 1/2, sqrt 2]`, each cut where the rest is below 2^-56; `tanh a = E / (E + 2)` with `E = e^2a - 1`, by its own series below
//! 3/4. Their relative error stays below 2^-50.
//!
//! Measured on an H200 over every fifth `f32`: relative error at most 2^-22.7 for exp and exp2, 2^-21.9 for log (absolute 2^-22.5 near 1),
//! 2^-22.0 for log2 (2^-22.1), 2^-22.9 for rsqrt, 2^-22.0 for tanh; subnormal results of exp are off by at most 1.4 units of the
//! smallest number, those of exp2 are 0, which saves a comparison and two products. The other rules were compared bit for bit on the same
//! machine.

use super::{Body::ViaF32, Key, Rule, lines, rows};
use tilelift_ir::Scalar;
use tilelift_isel::lane::{BinOp::*, LTy, UnOp::*};

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
    "fma.f32" Key::Fma, F32, Always => lines(&["fma.rn.f32 $d, $a, #b, #c"]);
    "sqrt.f32" Key::Un(Sqrt), F32, Always => lines(&["sqrt.rn.f32 $d, $a"]);
    "rsqrt.f32" Key::Un(Rsqrt), F32, Always => lines(&["rsqrt.approx.f32 $d, $a"]);
    "floor.f32" Key::Un(Floor), F32, Always => lines(&["cvt.rmi.f32.f32 $d, $a"]);
    "ceil.f32" Key::Un(Ceil), F32, Always => lines(&["cvt.rpi.f32.f32 $d, $a"]);
    "exp2.f32" Key::Un(Exp2), F32, Always => lines(&["ex2.approx.ftz.f32 $d, $a"]);
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
    "round_bf16.f32" Key::Un(RoundBf16), F32, Always => lines(&["mov.f32 $f0, 0f00000000", "cvt.rn.bf16x2.f32 $r0, $a, $f0", "mov.b32 $d, $r0"]);
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
    "exp.f64" Key::Un(Exp), F64, Always => lines(&["max.f64 $e0, $a, 0dC087C00000000000", "min.f64 $e0, $e0, 0d4086800000000000", "mul.rn.f64 $e1, $e0, 0d3FF71547652B82FE", "cvt.rni.f64.f64 $e1, $e1", "cvt.rzi.s32.f64 $r0, $e1", "neg.f64 $e2, $e1", "fma.rn.f64 $e3, $e2, 0d3FE62E42FEE00000, $a", "fma.rn.f64 $e3, $e2, 0d3DEA39EF35793C76, $e3", "fma.rn.f64 $e4, $e3, 0d3DE6124613A86D09, 0d3E21EED8EFF8D898", "fma.rn.f64 $e4, $e4, $e3, 0d3E5AE64567F544E4", "fma.rn.f64 $e4, $e4, $e3, 0d3E927E4FB7789F5C", "fma.rn.f64 $e4, $e4, $e3, 0d3EC71DE3A556C734", "fma.rn.f64 $e4, $e4, $e3, 0d3EFA01A01A01A01A", "fma.rn.f64 $e4, $e4, $e3, 0d3F2A01A01A01A01A", "fma.rn.f64 $e4, $e4, $e3, 0d3F56C16C16C16C17", "fma.rn.f64 $e4, $e4, $e3, 0d3F81111111111111", "fma.rn.f64 $e4, $e4, $e3, 0d3FA5555555555555", "fma.rn.f64 $e4, $e4, $e3, 0d3FC5555555555555", "fma.rn.f64 $e4, $e4, $e3, 0d3FE0000000000000", "fma.rn.f64 $e4, $e4, $e3, 0d3FF0000000000000", "fma.rn.f64 $e4, $e4, $e3, 0d3FF0000000000000", "shr.s32 $r1, $r0, 1", "sub.s32 $r2, $r0, $r1", "add.s32 $r1, $r1, 1023", "add.s32 $r2, $r2, 1023", "cvt.s64.s32 $q0, $r1", "shl.b64 $q0, $q0, 52", "mov.b64 $e5, $q0", "cvt.s64.s32 $q1, $r2", "shl.b64 $q1, $q1, 52", "mov.b64 $e6, $q1", "mul.rn.f64 $e7, $e4, $e5", "mul.rn.f64 $e7, $e7, $e6", "setp.lt.f64 $p0, $a, 0dC087700000000000", "selp.f64 $d, 0d0000000000000000, $e7, $p0"]);
    "exp2.f64" Key::Un(Exp2), F64, Always => lines(&["max.f64 $e0, $a, 0dC090E00000000000", "min.f64 $e0, $e0, 0d4090180000000000", "cvt.rni.f64.f64 $e1, $e0", "cvt.rzi.s32.f64 $r0, $e1", "sub.rn.f64 $e2, $a, $e1", "mul.rn.f64 $e3, $e2, 0d3FE62E42FEFA39EF", "fma.rn.f64 $e4, $e3, 0d3DE6124613A86D09, 0d3E21EED8EFF8D898", "fma.rn.f64 $e4, $e4, $e3, 0d3E5AE64567F544E4", "fma.rn.f64 $e4, $e4, $e3, 0d3E927E4FB7789F5C", "fma.rn.f64 $e4, $e4, $e3, 0d3EC71DE3A556C734", "fma.rn.f64 $e4, $e4, $e3, 0d3EFA01A01A01A01A", "fma.rn.f64 $e4, $e4, $e3, 0d3F2A01A01A01A01A", "fma.rn.f64 $e4, $e4, $e3, 0d3F56C16C16C16C17", "fma.rn.f64 $e4, $e4, $e3, 0d3F81111111111111", "fma.rn.f64 $e4, $e4, $e3, 0d3FA5555555555555", "fma.rn.f64 $e4, $e4, $e3, 0d3FC5555555555555", "fma.rn.f64 $e4, $e4, $e3, 0d3FE0000000000000", "fma.rn.f64 $e4, $e4, $e3, 0d3FF0000000000000", "fma.rn.f64 $e4, $e4, $e3, 0d3FF0000000000000", "shr.s32 $r1, $r0, 1", "sub.s32 $r2, $r0, $r1", "add.s32 $r1, $r1, 1023", "add.s32 $r2, $r2, 1023", "cvt.s64.s32 $q0, $r1", "shl.b64 $q0, $q0, 52", "mov.b64 $e5, $q0", "cvt.s64.s32 $q1, $r2", "shl.b64 $q1, $q1, 52", "mov.b64 $e6, $q1", "mul.rn.f64 $e7, $e4, $e5", "mul.rn.f64 $e7, $e7, $e6", "setp.lt.f64 $p0, $a, 0dC090D00000000000", "selp.f64 $d, 0d0000000000000000, $e7, $p0"]);
    "log.f64" Key::Un(Log), F64, Always => lines(&["setp.lt.f64 $p0, $a, 0d0010000000000000", "mul.rn.f64 $e0, $a, 0d4350000000000000", "selp.f64 $e1, $e0, $a, $p0", "mov.b64 $q0, $e1", "shr.u64 $q1, $q0, 52", "cvt.u32.u64 $r0, $q1", "sub.s32 $r0, $r0, 1023", "selp.b32 $r1, 54, 0, $p0", "sub.s32 $r0, $r0, $r1", "and.b64 $q2, $q0, 0xFFFFFFFFFFFFF", "or.b64 $q2, $q2, 0x3FF0000000000000", "mov.b64 $e2, $q2", "setp.gt.f64 $p1, $e2, 0d3FF6A09E667F3BCD", "mul.rn.f64 $e3, $e2, 0d3FE0000000000000", "selp.f64 $e2, $e3, $e2, $p1", "selp.b32 $r2, 1, 0, $p1", "add.s32 $r0, $r0, $r2", "cvt.rn.f64.s32 $e4, $r0", "add.rn.f64 $e5, $e2, 0dBFF0000000000000", "add.rn.f64 $e6, $e2, 0d3FF0000000000000", "div.rn.f64 $e7, $e5, $e6", "mul.rn.f64 $e8, $e7, $e7", "fma.rn.f64 $e9, $e8, 0d3FA642C8590B2164, 0d3FA8618618618618", "fma.rn.f64 $e9, $e9, $e8, 0d3FAAF286BCA1AF28", "fma.rn.f64 $e9, $e9, $e8, 0d3FAE1E1E1E1E1E1E", "fma.rn.f64 $e9, $e9, $e8, 0d3FB1111111111111", "fma.rn.f64 $e9, $e9, $e8, 0d3FB3B13B13B13B14", "fma.rn.f64 $e9, $e9, $e8, 0d3FB745D1745D1746", "fma.rn.f64 $e9, $e9, $e8, 0d3FBC71C71C71C71C", "fma.rn.f64 $e9, $e9, $e8, 0d3FC2492492492492", "fma.rn.f64 $e9, $e9, $e8, 0d3FC999999999999A", "fma.rn.f64 $e9, $e9, $e8, 0d3FD5555555555555", "mul.rn.f64 $e9, $e9, $e8", "add.rn.f64 $e10, $e7, $e7", "mul.rn.f64 $e9, $e10, $e9", "fma.rn.f64 $e9, $e4, 0d3DEA39EF35793C76, $e9", "add.rn.f64 $e9, $e10, $e9", "fma.rn.f64 $e9, $e4, 0d3FE62E42FEE00000, $e9", "setp.geu.f64 $p0, $a, 0d7FF0000000000000", "selp.f64 $e9, $a, $e9, $p0", "setp.eq.f64 $p0, $a, 0d0000000000000000", "selp.f64 $e9, 0dFFF0000000000000, $e9, $p0", "setp.lt.f64 $p0, $a, 0d0000000000000000", "selp.f64 $d, 0d7FF8000000000000, $e9, $p0"]);
    "log2.f64" Key::Un(Log2), F64, Always => lines(&["setp.lt.f64 $p0, $a, 0d0010000000000000", "mul.rn.f64 $e0, $a, 0d4350000000000000", "selp.f64 $e1, $e0, $a, $p0", "mov.b64 $q0, $e1", "shr.u64 $q1, $q0, 52", "cvt.u32.u64 $r0, $q1", "sub.s32 $r0, $r0, 1023", "selp.b32 $r1, 54, 0, $p0", "sub.s32 $r0, $r0, $r1", "and.b64 $q2, $q0, 0xFFFFFFFFFFFFF", "or.b64 $q2, $q2, 0x3FF0000000000000", "mov.b64 $e2, $q2", "setp.gt.f64 $p1, $e2, 0d3FF6A09E667F3BCD", "mul.rn.f64 $e3, $e2, 0d3FE0000000000000", "selp.f64 $e2, $e3, $e2, $p1", "selp.b32 $r2, 1, 0, $p1", "add.s32 $r0, $r0, $r2", "cvt.rn.f64.s32 $e4, $r0", "add.rn.f64 $e5, $e2, 0dBFF0000000000000", "add.rn.f64 $e6, $e2, 0d3FF0000000000000", "div.rn.f64 $e7, $e5, $e6", "mul.rn.f64 $e8, $e7, $e7", "fma.rn.f64 $e9, $e8, 0d3FA642C8590B2164, 0d3FA8618618618618", "fma.rn.f64 $e9, $e9, $e8, 0d3FAAF286BCA1AF28", "fma.rn.f64 $e9, $e9, $e8, 0d3FAE1E1E1E1E1E1E", "fma.rn.f64 $e9, $e9, $e8, 0d3FB1111111111111", "fma.rn.f64 $e9, $e9, $e8, 0d3FB3B13B13B13B14", "fma.rn.f64 $e9, $e9, $e8, 0d3FB745D1745D1746", "fma.rn.f64 $e9, $e9, $e8, 0d3FBC71C71C71C71C", "fma.rn.f64 $e9, $e9, $e8, 0d3FC2492492492492", "fma.rn.f64 $e9, $e9, $e8, 0d3FC999999999999A", "fma.rn.f64 $e9, $e9, $e8, 0d3FD5555555555555", "mul.rn.f64 $e9, $e9, $e8", "add.rn.f64 $e10, $e7, $e7", "fma.rn.f64 $e9, $e10, $e9, $e10", "fma.rn.f64 $e9, $e9, 0d3FF71547652B82FE, $e4", "setp.geu.f64 $p0, $a, 0d7FF0000000000000", "selp.f64 $e9, $a, $e9, $p0", "setp.eq.f64 $p0, $a, 0d0000000000000000", "selp.f64 $e9, 0dFFF0000000000000, $e9, $p0", "setp.lt.f64 $p0, $a, 0d0000000000000000", "selp.f64 $d, 0d7FF8000000000000, $e9, $p0"]);
    "tanh.f64" Key::Un(Tanh), F64, Always => lines(&["abs.f64 $e0, $a", "min.f64 $e0, $e0, 0d4036000000000000", "add.rn.f64 $e0, $e0, $e0", "mul.rn.f64 $e1, $e0, 0d3FF71547652B82FE", "cvt.rni.f64.f64 $e1, $e1", "cvt.rzi.s32.f64 $r0, $e1", "neg.f64 $e2, $e1", "fma.rn.f64 $e3, $e2, 0d3FE62E42FEE00000, $e0", "fma.rn.f64 $e3, $e2, 0d3DEA39EF35793C76, $e3", "fma.rn.f64 $e4, $e3, 0d3DE6124613A86D09, 0d3E21EED8EFF8D898", "fma.rn.f64 $e4, $e4, $e3, 0d3E5AE64567F544E4", "fma.rn.f64 $e4, $e4, $e3, 0d3E927E4FB7789F5C", "fma.rn.f64 $e4, $e4, $e3, 0d3EC71DE3A556C734", "fma.rn.f64 $e4, $e4, $e3, 0d3EFA01A01A01A01A", "fma.rn.f64 $e4, $e4, $e3, 0d3F2A01A01A01A01A", "fma.rn.f64 $e4, $e4, $e3, 0d3F56C16C16C16C17", "fma.rn.f64 $e4, $e4, $e3, 0d3F81111111111111", "fma.rn.f64 $e4, $e4, $e3, 0d3FA5555555555555", "fma.rn.f64 $e4, $e4, $e3, 0d3FC5555555555555", "fma.rn.f64 $e4, $e4, $e3, 0d3FE0000000000000", "fma.rn.f64 $e4, $e4, $e3, 0d3FF0000000000000", "fma.rn.f64 $e4, $e4, $e3, 0d3FF0000000000000", "add.s32 $r1, $r0, 1023", "cvt.s64.s32 $q0, $r1", "shl.b64 $q0, $q0, 52", "mov.b64 $e5, $q0", "fma.rn.f64 $e6, $e4, $e5, 0dBFF0000000000000", "fma.rn.f64 $e7, $e0, 0d3CE952C77030AD4A, 0d3D2AE7F3E733B81F", "fma.rn.f64 $e7, $e7, $e0, 0d3D6AE7F3E733B81F", "fma.rn.f64 $e7, $e7, $e0, 0d3DA93974A8C07C9D", "fma.rn.f64 $e7, $e7, $e0, 0d3DE6124613A86D09", "fma.rn.f64 $e7, $e7, $e0, 0d3E21EED8EFF8D898", "fma.rn.f64 $e7, $e7, $e0, 0d3E5AE64567F544E4", "fma.rn.f64 $e7, $e7, $e0, 0d3E927E4FB7789F5C", "fma.rn.f64 $e7, $e7, $e0, 0d3EC71DE3A556C734", "fma.rn.f64 $e7, $e7, $e0, 0d3EFA01A01A01A01A", "fma.rn.f64 $e7, $e7, $e0, 0d3F2A01A01A01A01A", "fma.rn.f64 $e7, $e7, $e0, 0d3F56C16C16C16C17", "fma.rn.f64 $e7, $e7, $e0, 0d3F81111111111111", "fma.rn.f64 $e7, $e7, $e0, 0d3FA5555555555555", "fma.rn.f64 $e7, $e7, $e0, 0d3FC5555555555555", "fma.rn.f64 $e7, $e7, $e0, 0d3FE0000000000000", "fma.rn.f64 $e7, $e7, $e0, 0d3FF0000000000000", "mul.rn.f64 $e7, $e7, $e0", "setp.lt.f64 $p0, $e0, 0d3FE8000000000000", "selp.f64 $e8, $e7, $e6, $p0", "add.rn.f64 $e9, $e8, 0d4000000000000000", "div.rn.f64 $e10, $e8, $e9", "copysign.f64 $e11, $a, $e10", "setp.nan.f64 $p1, $a, $a", "selp.f64 $d, $a, $e11, $p1"]);
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
    // Its subnormal numbers are those of f32.
    "exp2.bf16" Key::Un(Exp2), BF16, Always => lines(&["mov.b32 $f0, {0, $a}", "ex2.approx.f32 $f1, $f0", "cvt.rn.bf16.f32 $d, $f1"]);
    "log.bf16" Key::Un(Log), BF16, Always => ViaF32;
    "log2.bf16" Key::Un(Log2), BF16, Always => ViaF32;
    "sqrt.bf16" Key::Un(Sqrt), BF16, Always => ViaF32;
    "rsqrt.bf16" Key::Un(Rsqrt), BF16, Always => ViaF32;
    "tanh.bf16" Key::Un(Tanh), BF16, Always => ViaF32;
    "floor.bf16" Key::Un(Floor), BF16, Always => ViaF32;
    "ceil.bf16" Key::Un(Ceil), BF16, Always => ViaF32;
    // rounding to integral values, reciprocal, sine, cosine, error function
    "round.f32" Key::Un(Round), F32, Always => lines(&["cvt.rni.f32.f32 $d, $a"]);
    "trunc.f32" Key::Un(Trunc), F32, Always => lines(&["cvt.rzi.f32.f32 $d, $a"]);
    "rcp.f32" Key::Un(Rcp), F32, Always => lines(&["rcp.approx.f32 $d, $a"]);
    "sin.f32" Key::Un(Sin), F32, Always => lines(&["mov.b32 $r0, $a", "and.b32 $r1, $r0, 0x7FFFFFFF", "shr.u32 $r3, $r1, 23", "sub.s32 $r2, $r3, 127", "and.b32 $r3, $r2, 32", "setp.ne.s32 $p0, $r3, 0", "and.b32 $r3, $r2, 64", "setp.ne.s32 $p1, $r3, 0", "selp.b32 $r4, 0x7CC1B727, 0x51, $p0", "selp.b32 $r5, 0x220A94FE, 0x7CC1B727, $p0", "selp.b32 $r6, 0x13ABE8FA, 0x220A94FE, $p0", "selp.b32 $r7, 0x9A6EE06D, 0x13ABE8FA, $p0", "selp.b32 $r8, 0xB14ACC9E, 0x9A6EE06D, $p0", "selp.b32 $r9, 0x21C820FF, 0xB14ACC9E, $p0", "selp.b32 $r4, $r6, $r4, $p1", "selp.b32 $r5, $r7, $r5, $p1", "selp.b32 $r6, $r8, $r6, $p1", "selp.b32 $r7, $r9, $r7, $p1", "shf.l.wrap.b32 $r4, $r5, $r4, $r2", "shf.l.wrap.b32 $r5, $r6, $r5, $r2", "shf.l.wrap.b32 $r6, $r7, $r6, $r2", "and.b32 $r8, $r1, 0x7FFFFF", "or.b32 $r8, $r8, 0x800000", "mul.wide.u32 $q0, $r6, $r8", "shr.u64 $q1, $q0, 32", "mad.wide.u32 $q1, $r5, $r8, $q1", "mul.lo.s32 $r9, $r4, $r8", "cvt.u64.u32 $q2, $r9", "shl.b64 $q2, $q2, 32", "add.s64 $q1, $q1, $q2", "shr.u64 $q2, $q1, 61", "cvt.u32.u64 $r9, $q2", "add.s32 $r9, $r9, 1", "shr.u32 $r9, $r9, 1", "shl.b64 $q1, $q1, 2", "cvt.rn.f32.s64 $f0, $q1", "mul.rn.f32 $f0, $f0, 0f1FC90FDB", "setp.lt.s32 $p2, $r1, 0x3F800000", "mov.b32 $f1, $r1", "selp.f32 $f0, $f1, $f0, $p2", "selp.b32 $r9, 0, $r9, $p2", "mul.rn.f32 $f1, $f0, $f0", "fma.rn.f32 $f2, $f1, 0f3636AB7F, 0fB9500E1B", "fma.rn.f32 $f2, $f2, $f1, 0f3C08889C", "fma.rn.f32 $f2, $f2, $f1, 0fBE2AAAAB", "mul.rn.f32 $f2, $f2, $f1", "fma.rn.f32 $f2, $f2, $f0, $f0", "fma.rn.f32 $f3, $f1, 0f37CA1D0A, 0fBAB5F5B6", "fma.rn.f32 $f3, $f3, $f1, 0f3D2AAA6A", "fma.rn.f32 $f3, $f3, $f1, 0fBEFFFFFF", "fma.rn.f32 $f3, $f3, $f1, 0f3F800000", "and.b32 $r10, $r9, 1", "setp.ne.s32 $p0, $r10, 0", "selp.f32 $f4, $f3, $f2, $p0", "and.b32 $r10, $r9, 2", "shl.b32 $r10, $r10, 30", "and.b32 $r11, $r0, 0x80000000", "xor.b32 $r10, $r10, $r11", "mov.b32 $r11, $f4", "xor.b32 $r11, $r11, $r10", "mov.b32 $f5, $r11", "fma.rn.f32 $d, $a, 0f00000000, $f5"]);
    "cos.f32" Key::Un(Cos), F32, Always => lines(&["mov.b32 $r0, $a", "and.b32 $r1, $r0, 0x7FFFFFFF", "shr.u32 $r3, $r1, 23", "sub.s32 $r2, $r3, 127", "and.b32 $r3, $r2, 32", "setp.ne.s32 $p0, $r3, 0", "and.b32 $r3, $r2, 64", "setp.ne.s32 $p1, $r3, 0", "selp.b32 $r4, 0x7CC1B727, 0x51, $p0", "selp.b32 $r5, 0x220A94FE, 0x7CC1B727, $p0", "selp.b32 $r6, 0x13ABE8FA, 0x220A94FE, $p0", "selp.b32 $r7, 0x9A6EE06D, 0x13ABE8FA, $p0", "selp.b32 $r8, 0xB14ACC9E, 0x9A6EE06D, $p0", "selp.b32 $r9, 0x21C820FF, 0xB14ACC9E, $p0", "selp.b32 $r4, $r6, $r4, $p1", "selp.b32 $r5, $r7, $r5, $p1", "selp.b32 $r6, $r8, $r6, $p1", "selp.b32 $r7, $r9, $r7, $p1", "shf.l.wrap.b32 $r4, $r5, $r4, $r2", "shf.l.wrap.b32 $r5, $r6, $r5, $r2", "shf.l.wrap.b32 $r6, $r7, $r6, $r2", "and.b32 $r8, $r1, 0x7FFFFF", "or.b32 $r8, $r8, 0x800000", "mul.wide.u32 $q0, $r6, $r8", "shr.u64 $q1, $q0, 32", "mad.wide.u32 $q1, $r5, $r8, $q1", "mul.lo.s32 $r9, $r4, $r8", "cvt.u64.u32 $q2, $r9", "shl.b64 $q2, $q2, 32", "add.s64 $q1, $q1, $q2", "shr.u64 $q2, $q1, 61", "cvt.u32.u64 $r9, $q2", "add.s32 $r9, $r9, 1", "shr.u32 $r9, $r9, 1", "shl.b64 $q1, $q1, 2", "cvt.rn.f32.s64 $f0, $q1", "mul.rn.f32 $f0, $f0, 0f1FC90FDB", "setp.lt.s32 $p2, $r1, 0x3F800000", "mov.b32 $f1, $r1", "selp.f32 $f0, $f1, $f0, $p2", "selp.b32 $r9, 0, $r9, $p2", "add.s32 $r9, $r9, 1", "mul.rn.f32 $f1, $f0, $f0", "fma.rn.f32 $f2, $f1, 0f3636AB7F, 0fB9500E1B", "fma.rn.f32 $f2, $f2, $f1, 0f3C08889C", "fma.rn.f32 $f2, $f2, $f1, 0fBE2AAAAB", "mul.rn.f32 $f2, $f2, $f1", "fma.rn.f32 $f2, $f2, $f0, $f0", "fma.rn.f32 $f3, $f1, 0f37CA1D0A, 0fBAB5F5B6", "fma.rn.f32 $f3, $f3, $f1, 0f3D2AAA6A", "fma.rn.f32 $f3, $f3, $f1, 0fBEFFFFFF", "fma.rn.f32 $f3, $f3, $f1, 0f3F800000", "and.b32 $r10, $r9, 1", "setp.ne.s32 $p0, $r10, 0", "selp.f32 $f4, $f3, $f2, $p0", "and.b32 $r10, $r9, 2", "shl.b32 $r10, $r10, 30", "mov.b32 $r11, $f4", "xor.b32 $r11, $r11, $r10", "mov.b32 $f5, $r11", "fma.rn.f32 $d, $a, 0f00000000, $f5"]);
    "erf.f32" Key::Un(Erf), F32, Always => lines(&["abs.f32 $f0, $a", "min.f32 $f1, $f0, 0f40800000", "fma.rn.f32 $f2, $f1, 0f36DDFE68, 0fB87A6848", "fma.rn.f32 $f2, $f2, $f1, 0fB8D5552A", "fma.rn.f32 $f2, $f2, $f1, 0f3B8D31A2", "fma.rn.f32 $f2, $f2, $f1, 0fBD068453", "fma.rn.f32 $f2, $f2, $f1, 0f3E1BA126", "fma.rn.f32 $f2, $f2, $f1, 0f3F6ABD6D", "fma.rn.f32 $f2, $f2, $f1, 0f3FD067D6", "mul.rn.f32 $f2, $f2, $f1", "neg.f32 $f2, $f2", "ex2.approx.ftz.f32 $f3, $f2", "sub.rn.f32 $f4, 0f3F800000, $f3", "mov.b32 $r0, $a", "and.b32 $r1, $r0, 0x80000000", "mov.b32 $r2, $f4", "or.b32 $r3, $r2, $r1", "mov.b32 $f5, $r3", "mul.rn.f32 $f6, $a, $a", "fma.rn.f32 $f7, $f6, 0fBA1C4C4D, 0f3BA378D3", "fma.rn.f32 $f7, $f7, $f6, 0fBCDB4197", "fma.rn.f32 $f7, $f7, $f6, 0f3DE70D23", "fma.rn.f32 $f7, $f7, $f6, 0fBEC09374", "fma.rn.f32 $f7, $f7, $f6, 0f3E0375D3", "fma.rn.f32 $f8, $f7, $a, $a", "setp.ge.f32 $p0, $f0, 0f3F700000", "selp.f32 $d, $f5, $f8, $p0"]);
    "round.f64" Key::Un(Round), F64, Always => lines(&["cvt.rni.f64.f64 $d, $a"]);
    "trunc.f64" Key::Un(Trunc), F64, Always => lines(&["cvt.rzi.f64.f64 $d, $a"]);
    "rcp.f64" Key::Un(Rcp), F64, Always => lines(&["rcp.rn.f64 $d, $a"]);
    "round.f16" Key::Un(Round), F16, Always => lines(&["cvt.rni.f16.f16 $d, $a"]);
    "trunc.f16" Key::Un(Trunc), F16, Always => lines(&["cvt.rzi.f16.f16 $d, $a"]);
    "round.bf16" Key::Un(Round), BF16, Always => ViaF32;
    "trunc.bf16" Key::Un(Trunc), BF16, Always => ViaF32;
    "rcp.f16" Key::Un(Rcp), F16, Always => ViaF32;
    "sin.f16" Key::Un(Sin), F16, Always => ViaF32;
    "cos.f16" Key::Un(Cos), F16, Always => ViaF32;
    "erf.f16" Key::Un(Erf), F16, Always => ViaF32;
    "rcp.bf16" Key::Un(Rcp), BF16, Always => ViaF32;
    "sin.bf16" Key::Un(Sin), BF16, Always => ViaF32;
    "cos.bf16" Key::Un(Cos), BF16, Always => ViaF32;
    "erf.bf16" Key::Un(Erf), BF16, Always => ViaF32;
};
