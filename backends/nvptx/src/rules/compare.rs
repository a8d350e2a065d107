//! Comparisons and selections.
//!
//! Float comparisons are ordered except `ne`, which holds for a NaN. `i8` is sign-extended, which keeps the unsigned order too.
//! `i1` orders 0 before 1.

use super::rule::{Body::ViaF32, Key, Rule, lines, rows};
use tilelift_ir::{CmpOp::*, Scalar};
use tilelift_isel::lane::LTy;
use tilelift_isel::lane::Opcode::Select;

const I1: LTy = LTy::I1;
const I8: LTy = LTy::Num(Scalar::I8);
const I16: LTy = LTy::Num(Scalar::I16);
const I32: LTy = LTy::I32;
const I64: LTy = LTy::I64;
const F16: LTy = LTy::Num(Scalar::F16);
const BF16: LTy = LTy::Num(Scalar::BF16);
const F32: LTy = LTy::F32;
const F64: LTy = LTy::Num(Scalar::F64);
const B32: LTy = LTy::B32;

/// All comparisons and selections.
pub(super) const ROWS: &[Rule] = rows! {
    "cmp.eq.i8" Key::Cmp(Eq), I8, Always => lines(&["setp.eq.s16 $d, #a, #b"]);
    "cmp.ne.i8" Key::Cmp(Ne), I8, Always => lines(&["setp.ne.s16 $d, #a, #b"]);
    "cmp.lt.i8" Key::Cmp(Lt), I8, Always => lines(&["setp.lt.s16 $d, #a, #b"]);
    "cmp.le.i8" Key::Cmp(Le), I8, Always => lines(&["setp.le.s16 $d, #a, #b"]);
    "cmp.gt.i8" Key::Cmp(Gt), I8, Always => lines(&["setp.gt.s16 $d, #a, #b"]);
    "cmp.ge.i8" Key::Cmp(Ge), I8, Always => lines(&["setp.ge.s16 $d, #a, #b"]);
    "cmp.ult.i8" Key::Cmp(Ult), I8, Always => lines(&["setp.lt.u16 $d, #a, #b"]);
    "cmp.ule.i8" Key::Cmp(Ule), I8, Always => lines(&["setp.le.u16 $d, #a, #b"]);
    "cmp.ugt.i8" Key::Cmp(Ugt), I8, Always => lines(&["setp.gt.u16 $d, #a, #b"]);
    "cmp.uge.i8" Key::Cmp(Uge), I8, Always => lines(&["setp.ge.u16 $d, #a, #b"]);
    "cmp.eq.i16" Key::Cmp(Eq), I16, Always => lines(&["setp.eq.s16 $d, #a, #b"]);
    "cmp.ne.i16" Key::Cmp(Ne), I16, Always => lines(&["setp.ne.s16 $d, #a, #b"]);
    "cmp.lt.i16" Key::Cmp(Lt), I16, Always => lines(&["setp.lt.s16 $d, #a, #b"]);
    "cmp.le.i16" Key::Cmp(Le), I16, Always => lines(&["setp.le.s16 $d, #a, #b"]);
    "cmp.gt.i16" Key::Cmp(Gt), I16, Always => lines(&["setp.gt.s16 $d, #a, #b"]);
    "cmp.ge.i16" Key::Cmp(Ge), I16, Always => lines(&["setp.ge.s16 $d, #a, #b"]);
    "cmp.ult.i16" Key::Cmp(Ult), I16, Always => lines(&["setp.lt.u16 $d, #a, #b"]);
    "cmp.ule.i16" Key::Cmp(Ule), I16, Always => lines(&["setp.le.u16 $d, #a, #b"]);
    "cmp.ugt.i16" Key::Cmp(Ugt), I16, Always => lines(&["setp.gt.u16 $d, #a, #b"]);
    "cmp.uge.i16" Key::Cmp(Uge), I16, Always => lines(&["setp.ge.u16 $d, #a, #b"]);
    "cmp.eq.i32" Key::Cmp(Eq), I32, Always => lines(&["setp.eq.s32 $d, #a, #b"]);
    "cmp.ne.i32" Key::Cmp(Ne), I32, Always => lines(&["setp.ne.s32 $d, #a, #b"]);
    "cmp.lt.i32" Key::Cmp(Lt), I32, Always => lines(&["setp.lt.s32 $d, #a, #b"]);
    "cmp.le.i32" Key::Cmp(Le), I32, Always => lines(&["setp.le.s32 $d, #a, #b"]);
    "cmp.gt.i32" Key::Cmp(Gt), I32, Always => lines(&["setp.gt.s32 $d, #a, #b"]);
    "cmp.ge.i32" Key::Cmp(Ge), I32, Always => lines(&["setp.ge.s32 $d, #a, #b"]);
    "cmp.ult.i32" Key::Cmp(Ult), I32, Always => lines(&["setp.lt.u32 $d, #a, #b"]);
    "cmp.ule.i32" Key::Cmp(Ule), I32, Always => lines(&["setp.le.u32 $d, #a, #b"]);
    "cmp.ugt.i32" Key::Cmp(Ugt), I32, Always => lines(&["setp.gt.u32 $d, #a, #b"]);
    "cmp.uge.i32" Key::Cmp(Uge), I32, Always => lines(&["setp.ge.u32 $d, #a, #b"]);
    "cmp.eq.i64" Key::Cmp(Eq), I64, Always => lines(&["setp.eq.s64 $d, #a, #b"]);
    "cmp.ne.i64" Key::Cmp(Ne), I64, Always => lines(&["setp.ne.s64 $d, #a, #b"]);
    "cmp.lt.i64" Key::Cmp(Lt), I64, Always => lines(&["setp.lt.s64 $d, #a, #b"]);
    "cmp.le.i64" Key::Cmp(Le), I64, Always => lines(&["setp.le.s64 $d, #a, #b"]);
    "cmp.gt.i64" Key::Cmp(Gt), I64, Always => lines(&["setp.gt.s64 $d, #a, #b"]);
    "cmp.ge.i64" Key::Cmp(Ge), I64, Always => lines(&["setp.ge.s64 $d, #a, #b"]);
    "cmp.ult.i64" Key::Cmp(Ult), I64, Always => lines(&["setp.lt.u64 $d, #a, #b"]);
    "cmp.ule.i64" Key::Cmp(Ule), I64, Always => lines(&["setp.le.u64 $d, #a, #b"]);
    "cmp.ugt.i64" Key::Cmp(Ugt), I64, Always => lines(&["setp.gt.u64 $d, #a, #b"]);
    "cmp.uge.i64" Key::Cmp(Uge), I64, Always => lines(&["setp.ge.u64 $d, #a, #b"]);
    "cmp.eq.b32" Key::Cmp(Eq), B32, Always => lines(&["setp.eq.s32 $d, #a, #b"]);
    "cmp.ne.b32" Key::Cmp(Ne), B32, Always => lines(&["setp.ne.s32 $d, #a, #b"]);
    "cmp.lt.b32" Key::Cmp(Lt), B32, Always => lines(&["setp.lt.s32 $d, #a, #b"]);
    "cmp.le.b32" Key::Cmp(Le), B32, Always => lines(&["setp.le.s32 $d, #a, #b"]);
    "cmp.gt.b32" Key::Cmp(Gt), B32, Always => lines(&["setp.gt.s32 $d, #a, #b"]);
    "cmp.ge.b32" Key::Cmp(Ge), B32, Always => lines(&["setp.ge.s32 $d, #a, #b"]);
    "cmp.ult.b32" Key::Cmp(Ult), B32, Always => lines(&["setp.lt.u32 $d, #a, #b"]);
    "cmp.ule.b32" Key::Cmp(Ule), B32, Always => lines(&["setp.le.u32 $d, #a, #b"]);
    "cmp.ugt.b32" Key::Cmp(Ugt), B32, Always => lines(&["setp.gt.u32 $d, #a, #b"]);
    "cmp.uge.b32" Key::Cmp(Uge), B32, Always => lines(&["setp.ge.u32 $d, #a, #b"]);
    "cmp.eq.f16" Key::Cmp(Eq), F16, Always => lines(&["setp.eq.f16 $d, $a, $b"]);
    "cmp.ne.f16" Key::Cmp(Ne), F16, Always => lines(&["setp.neu.f16 $d, $a, $b"]);
    "cmp.lt.f16" Key::Cmp(Lt), F16, Always => lines(&["setp.lt.f16 $d, $a, $b"]);
    "cmp.le.f16" Key::Cmp(Le), F16, Always => lines(&["setp.le.f16 $d, $a, $b"]);
    "cmp.gt.f16" Key::Cmp(Gt), F16, Always => lines(&["setp.gt.f16 $d, $a, $b"]);
    "cmp.ge.f16" Key::Cmp(Ge), F16, Always => lines(&["setp.ge.f16 $d, $a, $b"]);
    "cmp.eq.bf16" Key::Cmp(Eq), BF16, Always => ViaF32;
    "cmp.ne.bf16" Key::Cmp(Ne), BF16, Always => ViaF32;
    "cmp.lt.bf16" Key::Cmp(Lt), BF16, Always => ViaF32;
    "cmp.le.bf16" Key::Cmp(Le), BF16, Always => ViaF32;
    "cmp.gt.bf16" Key::Cmp(Gt), BF16, Always => ViaF32;
    "cmp.ge.bf16" Key::Cmp(Ge), BF16, Always => ViaF32;
    "cmp.eq.f32" Key::Cmp(Eq), F32, Always => lines(&["setp.eq.f32 $d, #a, #b"]);
    "cmp.ne.f32" Key::Cmp(Ne), F32, Always => lines(&["setp.neu.f32 $d, #a, #b"]);
    "cmp.lt.f32" Key::Cmp(Lt), F32, Always => lines(&["setp.lt.f32 $d, #a, #b"]);
    "cmp.le.f32" Key::Cmp(Le), F32, Always => lines(&["setp.le.f32 $d, #a, #b"]);
    "cmp.gt.f32" Key::Cmp(Gt), F32, Always => lines(&["setp.gt.f32 $d, #a, #b"]);
    "cmp.ge.f32" Key::Cmp(Ge), F32, Always => lines(&["setp.ge.f32 $d, #a, #b"]);
    "cmp.eq.f64" Key::Cmp(Eq), F64, Always => lines(&["setp.eq.f64 $d, #a, #b"]);
    "cmp.ne.f64" Key::Cmp(Ne), F64, Always => lines(&["setp.neu.f64 $d, #a, #b"]);
    "cmp.lt.f64" Key::Cmp(Lt), F64, Always => lines(&["setp.lt.f64 $d, #a, #b"]);
    "cmp.le.f64" Key::Cmp(Le), F64, Always => lines(&["setp.le.f64 $d, #a, #b"]);
    "cmp.gt.f64" Key::Cmp(Gt), F64, Always => lines(&["setp.gt.f64 $d, #a, #b"]);
    "cmp.ge.f64" Key::Cmp(Ge), F64, Always => lines(&["setp.ge.f64 $d, #a, #b"]);
    "cmp.eq.i1" Key::Cmp(Eq), I1, Always => lines(&["xor.pred $p0, $a, $b", "not.pred $d, $p0"]);
    "cmp.ne.i1" Key::Cmp(Ne), I1, Always => lines(&["xor.pred $d, $a, $b"]);
    "cmp.lt.i1" Key::Cmp(Lt), I1, Always => lines(&["not.pred $p0, $a", "and.pred $d, $p0, $b"]);
    "cmp.le.i1" Key::Cmp(Le), I1, Always => lines(&["not.pred $p0, $a", "or.pred $d, $p0, $b"]);
    "cmp.gt.i1" Key::Cmp(Gt), I1, Always => lines(&["not.pred $p0, $b", "and.pred $d, $a, $p0"]);
    "cmp.ge.i1" Key::Cmp(Ge), I1, Always => lines(&["not.pred $p0, $b", "or.pred $d, $a, $p0"]);
    "select.i1" Key::Plain(Select), I1, Always => lines(&[
        "and.pred $p0, $c, $a",
        "not.pred $p1, $c",
        "and.pred $p2, $p1, $b",
        "or.pred $d, $p0, $p2",
    ]);
    "select.i8" Key::Plain(Select), I8, Always => lines(&["selp.b16 $d, #a, #b, $c"]);
    "select.i16" Key::Plain(Select), I16, Always => lines(&["selp.b16 $d, #a, #b, $c"]);
    "select.i32" Key::Plain(Select), I32, Always => lines(&["selp.b32 $d, #a, #b, $c"]);
    "select.i64" Key::Plain(Select), I64, Always => lines(&["selp.b64 $d, #a, #b, $c"]);
    "select.f16" Key::Plain(Select), F16, Always => lines(&["selp.b16 $d, #a, #b, $c"]);
    "select.bf16" Key::Plain(Select), BF16, Always => lines(&["selp.b16 $d, #a, #b, $c"]);
    "select.f32" Key::Plain(Select), F32, Always => lines(&["selp.f32 $d, #a, #b, $c"]);
    "select.f64" Key::Plain(Select), F64, Always => lines(&["selp.f64 $d, #a, #b, $c"]);
    "select.b32" Key::Plain(Select), B32, Always => lines(&["selp.b32 $d, #a, #b, $c"]);
};
