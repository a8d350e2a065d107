//! Packed instructions, dot products, and mixed precision.

use super::lane::*;
use super::vector::Class::{Dot, Wide};
use super::vector::Enc::P;
use super::vector::Kind::{Mix, Packed16, Packed32};
use super::vector::Ty::*;
use super::vector::{Kind, MI350, Row, row};
use crate::num::{r16, r32, x16, x32};

pub(super) fn rows() -> Vec<Row> {
    let half2 = |r: Row| r.kind(Packed16);
    vec![
        half2(row("v_pk_mad_i16", P, 0, &[B16, B16, B16], B16, |e, a| sat_i16(e, h(a[0]) * h(a[1]) + h(a[2])))),
        half2(row("v_pk_mul_lo_u16", P, 1, &[B16, B16], B16, |_, a| ((a[0] & 0xffff) * (a[1] & 0xffff)) & 0xffff)),
        half2(row("v_pk_add_i16", P, 2, &[B16, B16], B16, |e, a| sat_i16(e, h(a[0]) + h(a[1])))),
        half2(row("v_pk_sub_i16", P, 3, &[B16, B16], B16, |e, a| sat_i16(e, h(a[0]) - h(a[1])))),
        half2(row("v_pk_lshlrev_b16", P, 4, &[B16, B16], B16, |_, a| (a[1] << (a[0] & 15)) & 0xffff)),
        half2(row("v_pk_lshrrev_b16", P, 5, &[B16, B16], B16, |_, a| (a[1] & 0xffff) >> (a[0] & 15))),
        half2(row("v_pk_ashrrev_i16", P, 6, &[B16, B16], B16, |_, a| (h(a[1]) >> (a[0] & 15)) as u64 & 0xffff)),
        half2(row("v_pk_max_i16", P, 7, &[B16, B16], B16, |_, a| h(a[0]).max(h(a[1])) as u64 & 0xffff)),
        half2(row("v_pk_min_i16", P, 8, &[B16, B16], B16, |_, a| h(a[0]).min(h(a[1])) as u64 & 0xffff)),
        half2(row("v_pk_mad_u16", P, 9, &[B16, B16, B16], B16, |e, a| {
            sat_u16(e, ((a[0] & 0xffff) * (a[1] & 0xffff) + (a[2] & 0xffff)) as i64)
        })),
        half2(row("v_pk_add_u16", P, 10, &[B16, B16], B16, |e, a| sat_u16(e, (a[0] & 0xffff) as i64 + (a[1] & 0xffff) as i64))),
        half2(row("v_pk_sub_u16", P, 11, &[B16, B16], B16, |e, a| sat_u16(e, (a[0] & 0xffff) as i64 - (a[1] & 0xffff) as i64))),
        half2(row("v_pk_max_u16", P, 12, &[B16, B16], B16, |_, a| (a[0] & 0xffff).max(a[1] & 0xffff))),
        half2(row("v_pk_min_u16", P, 13, &[B16, B16], B16, |_, a| (a[0] & 0xffff).min(a[1] & 0xffff))),
        half2(row("v_pk_fma_f16", P, 14, &[F16, F16, F16], F16, |e, a| fma16(e, x16(e, a[0]), x16(e, a[1]), x16(e, a[2])))),
        half2(row("v_pk_add_f16", P, 15, &[F16, F16], F16, |e, a| r16(e, x16(e, a[0]) + x16(e, a[1])))),
        half2(row("v_pk_mul_f16", P, 16, &[F16, F16], F16, |e, a| r16(e, x16(e, a[0]) * x16(e, a[1])))),
        half2(row("v_pk_min_f16", P, 17, &[F16, F16], F16, |e, a| r16(e, min(x16(e, a[0]), x16(e, a[1]))))),
        half2(row("v_pk_max_f16", P, 18, &[F16, F16], F16, |e, a| r16(e, max(x16(e, a[0]), x16(e, a[1]))))),
        row("v_dot2_f32_bf16", P, 26, &[B32, B32, F32], F32, |e, a| dot2_bf16(e, a[0], a[1], a[2])).class(Dot).on(MI350),
        half2(row("v_pk_minimum3_f16", P, 27, &[F16, F16, F16], F16, |e, a| {
            let (x, y, z) = (x16(e, a[0]), x16(e, a[1]), x16(e, a[2]));
            r16(e, if x.is_nan() || y.is_nan() || z.is_nan() { f64::NAN } else { min(min(x, y), z) })
        }))
        .on(MI350),
        half2(row("v_pk_maximum3_f16", P, 28, &[F16, F16, F16], F16, |e, a| {
            let (x, y, z) = (x16(e, a[0]), x16(e, a[1]), x16(e, a[2]));
            r16(e, if x.is_nan() || y.is_nan() || z.is_nan() { f64::NAN } else { max(max(x, y), z) })
        }))
        .on(MI350),
        row("v_fma_mix_f32", P, 32, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2])))).kind(Mix(0)),
        row("v_fma_mixlo_f16", P, 33, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2])))).kind(Mix(1)),
        row("v_fma_mixhi_f16", P, 34, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2])))).kind(Mix(2)),
        row("v_dot2_f32_f16", P, 35, &[B32, B32, F32], F32, |e, a| dot2_f16(e, a[0], a[1], a[2])).class(Dot),
        row("v_dot2_i32_i16", P, 38, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 16, true)).class(Dot),
        row("v_dot2_u32_u16", P, 39, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 16, false)).class(Dot),
        row("v_dot4_i32_i8", P, 40, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 8, true)).class(Dot),
        row("v_dot4_u32_u8", P, 41, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 8, false)).class(Dot),
        row("v_dot8_i32_i4", P, 42, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 4, true)).class(Dot),
        row("v_dot8_u32_u4", P, 43, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 4, false)).class(Dot),
        row("v_pk_fma_f32", P, 48, &[B64, B64, B64], B64, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2]))))
            .kind(Packed32)
            .class(Wide),
        row("v_pk_mul_f32", P, 49, &[B64, B64], B64, |e, a| r32(e, x32(e, a[0]) * x32(e, a[1]))).kind(Packed32).class(Wide),
        row("v_pk_add_f32", P, 50, &[B64, B64], B64, |e, a| r32(e, x32(e, a[0]) + x32(e, a[1]))).kind(Packed32).class(Wide),
        row("v_pk_mov_b32", P, 51, &[B64, B64], B64, |_, a| a[0]).kind(Kind::PkMov),
        row("v_accvgpr_read_b32", P, 88, &[B32], B32, |_, a| a[0]).kind(Kind::AccRead),
        row("v_accvgpr_write_b32", P, 89, &[B32], B32, |_, a| a[0]).kind(Kind::AccWrite),
    ]
}
