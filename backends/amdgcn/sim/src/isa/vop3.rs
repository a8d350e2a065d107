//! Vector instructions that exist in the long encoding only.

use super::lane::*;
use super::vector::Class::Wide;
use super::vector::Enc::V3;
use super::vector::Ty::*;
use super::vector::{Kind, MI200, MI300, MI350, Row, row};
use crate::num::{BF16, bf8, fp8, r16, r32, r64, x16, x32, x64};

fn f(e: &crate::num::Env, v: u64) -> f64 {
    f32_of(x32(e, v))
}

pub(super) fn rows() -> Vec<Row> {
    let mut all = arithmetic();
    all.extend(integers());
    all.extend(conversions());
    all
}

fn arithmetic() -> Vec<Row> {
    vec![
        row("v_mad_legacy_f32", V3, 448, &[F32, F32, F32], F32, |e, a| {
            let (x, y) = (x32(e, a[0]), x32(e, a[1]));
            r32(e, if x == 0.0 || y == 0.0 { 0.0 } else { x * y } + x32(e, a[2]))
        })
        .on(MI200),
        row("v_mad_f32", V3, 449, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]) * x32(e, a[1]) + x32(e, a[2]))).on(MI200),
        row("v_cubeid_f32", V3, 452, &[F32, F32, F32], F32, |_, a| a[0]).kind(Kind::Refused),
        row("v_cubesc_f32", V3, 453, &[F32, F32, F32], F32, |_, a| a[0]).kind(Kind::Refused),
        row("v_cubetc_f32", V3, 454, &[F32, F32, F32], F32, |_, a| a[0]).kind(Kind::Refused),
        row("v_cubema_f32", V3, 455, &[F32, F32, F32], F32, |_, a| a[0]).kind(Kind::Refused),
        row("v_fma_f32", V3, 459, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2])))),
        row("v_fma_f64", V3, 460, &[F64, F64, F64], F64, |e, a| r64(e, x64(e, a[0]).mul_add(x64(e, a[1]), x64(e, a[2])))),
        row("v_min3_f32", V3, 464, &[F32, F32, F32], F32, |e, a| r32_of(e, min(min(f(e, a[0]), f(e, a[1])), f(e, a[2])))),
        row("v_max3_f32", V3, 467, &[F32, F32, F32], F32, |e, a| r32_of(e, max(max(f(e, a[0]), f(e, a[1])), f(e, a[2])))),
        row("v_med3_f32", V3, 470, &[F32, F32, F32], F32, |e, a| r32_of(e, med3(f(e, a[0]), f(e, a[1]), f(e, a[2])))),
        row("v_div_fixup_f32", V3, 478, &[F32, F32, F32], F32, |e, a| r32_of(e, div_fixup(f(e, a[0]), f(e, a[1]), f(e, a[2])))),
        row("v_div_fixup_f64", V3, 479, &[F64, F64, F64], F64, |e, a| r64(e, div_fixup(x64(e, a[0]), x64(e, a[1]), x64(e, a[2])))),
        row("v_div_scale_f32", V3, 480, &[F32, F32, F32], F32, |_, a| a[0]).kind(Kind::DivScale),
        row("v_div_scale_f64", V3, 481, &[F64, F64, F64], F64, |_, a| a[0]).kind(Kind::DivScale),
        row("v_div_fmas_f32", V3, 482, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2]))))
            .kind(Kind::DivFmas),
        row("v_div_fmas_f64", V3, 483, &[F64, F64, F64], F64, |e, a| r64(e, x64(e, a[0]).mul_add(x64(e, a[1]), x64(e, a[2]))))
            .kind(Kind::DivFmas),
        row("v_mad_legacy_f16", V3, 490, &[F16, F16, F16], F16, |e, a| r16(e, x16(e, a[0]) * x16(e, a[1]) + x16(e, a[2]))),
        row("v_fma_legacy_f16", V3, 494, &[F16, F16, F16], F16, |e, a| fma16(e, x16(e, a[0]), x16(e, a[1]), x16(e, a[2]))),
        row("v_div_fixup_legacy_f16", V3, 495, &[F16, F16, F16], F16, |e, a| r16(e, div_fixup(x16(e, a[0]), x16(e, a[1]), x16(e, a[2])))),
        row("v_min3_f16", V3, 500, &[F16, F16, F16], F16, |e, a| r16(e, min(min(x16(e, a[0]), x16(e, a[1])), x16(e, a[2]))))
            .kind(Kind::KeepHigh),
        row("v_max3_f16", V3, 503, &[F16, F16, F16], F16, |e, a| r16(e, max(max(x16(e, a[0]), x16(e, a[1])), x16(e, a[2]))))
            .kind(Kind::KeepHigh),
        row("v_med3_f16", V3, 506, &[F16, F16, F16], F16, |e, a| r16(e, med3(x16(e, a[0]), x16(e, a[1]), x16(e, a[2]))))
            .kind(Kind::KeepHigh),
        row("v_mad_f16", V3, 515, &[F16, F16, F16], F16, |e, a| r16(e, x16(e, a[0]) * x16(e, a[1]) + x16(e, a[2]))).kind(Kind::KeepHigh),
        row("v_fma_f16", V3, 518, &[F16, F16, F16], F16, |e, a| fma16(e, x16(e, a[0]), x16(e, a[1]), x16(e, a[2]))).kind(Kind::KeepHigh),
        row("v_div_fixup_f16", V3, 519, &[F16, F16, F16], F16, |e, a| r16(e, div_fixup(x16(e, a[0]), x16(e, a[1]), x16(e, a[2]))))
            .kind(Kind::KeepHigh),
        row("v_add_f64", V3, 640, &[F64, F64], F64, |e, a| r64(e, x64(e, a[0]) + x64(e, a[1]))),
        row("v_mul_f64", V3, 641, &[F64, F64], F64, |e, a| r64(e, x64(e, a[0]) * x64(e, a[1]))),
        row("v_min_f64", V3, 642, &[F64, F64], F64, |e, a| r64(e, min(x64(e, a[0]), x64(e, a[1])))),
        row("v_max_f64", V3, 643, &[F64, F64], F64, |e, a| r64(e, max(x64(e, a[0]), x64(e, a[1])))),
        row("v_ldexp_f64", V3, 644, &[F64, B32], F64, |e, a| r64(e, ldexp(x64(e, a[0]), s(a[1])))),
        row("v_ldexp_f32", V3, 648, &[F32, B32], F32, |e, a| r32_of(e, ldexp(f(e, a[0]), s(a[1])))),
        row("v_trig_preop_f64", V3, 658, &[F64, B32], F64, |_, a| a[0]).kind(Kind::Refused),
        row("v_mul_legacy_f32", V3, 673, &[F32, F32], F32, |e, a| {
            let (x, y) = (x32(e, a[0]), x32(e, a[1]));
            r32(e, if x == 0.0 || y == 0.0 { 0.0 } else { x * y })
        }),
        row("v_minimum3_f32", V3, 680, &[F32, F32, F32], F32, |e, a| {
            let (x, y, z) = (f(e, a[0]), f(e, a[1]), f(e, a[2]));
            r32_of(e, if x.is_nan() || y.is_nan() || z.is_nan() { f64::NAN } else { min(min(x, y), z) })
        })
        .on(MI350),
        row("v_maximum3_f32", V3, 681, &[F32, F32, F32], F32, |e, a| {
            let (x, y, z) = (f(e, a[0]), f(e, a[1]), f(e, a[2]));
            r32_of(e, if x.is_nan() || y.is_nan() || z.is_nan() { f64::NAN } else { max(max(x, y), z) })
        })
        .on(MI350),
    ]
}

fn med3_i(a: i64, b: i64, c: i64) -> i64 {
    a.min(b).max(a.max(b).min(c))
}

fn integers() -> Vec<Row> {
    vec![
        row("v_mad_i32_i24", V3, 450, &[B32, B32, B32], B32, |e, a| {
            sat_i32(e, crate::num::sext(a[0], 24) * crate::num::sext(a[1], 24) + s(a[2]))
        }),
        row("v_mad_u32_u24", V3, 451, &[B32, B32, B32], B32, |e, a| {
            sat_u32(e, i128::from((a[0] & 0xff_ffff) * (a[1] & 0xff_ffff)) + i128::from(lo(a[2])))
        }),
        row("v_bfe_u32", V3, 456, &[B32, B32, B32], B32, |_, a| bfe_u(a[0], a[1], a[2])),
        row("v_bfe_i32", V3, 457, &[B32, B32, B32], B32, |_, a| bfe_i(a[0], a[1], a[2])),
        row("v_bfi_b32", V3, 458, &[B32, B32, B32], B32, |_, a| a[0] & a[1] | lo(!a[0]) & a[2]),
        row("v_lerp_u8", V3, 461, &[B32, B32, B32], B32, |_, a| {
            (0..4).fold(0, |r, i| {
                let at = 8 * i;
                r | (((a[0] >> at & 255) + (a[1] >> at & 255) + (a[2] >> at & 1)) / 2) << at
            })
        }),
        row("v_alignbit_b32", V3, 462, &[B32, B32, B32], B32, |_, a| lo((lo(a[0]) << 32 | lo(a[1])) >> (a[2] & 31))),
        row("v_alignbyte_b32", V3, 463, &[B32, B32, B32], B32, |_, a| lo((lo(a[0]) << 32 | lo(a[1])) >> (8 * (a[2] & 3)))),
        row("v_min3_i32", V3, 465, &[B32, B32, B32], B32, |_, a| lo(s(a[0]).min(s(a[1])).min(s(a[2])) as u64)),
        row("v_min3_u32", V3, 466, &[B32, B32, B32], B32, |_, a| lo(a[0]).min(lo(a[1])).min(lo(a[2]))),
        row("v_max3_i32", V3, 468, &[B32, B32, B32], B32, |_, a| lo(s(a[0]).max(s(a[1])).max(s(a[2])) as u64)),
        row("v_max3_u32", V3, 469, &[B32, B32, B32], B32, |_, a| lo(a[0]).max(lo(a[1])).max(lo(a[2]))),
        row("v_med3_i32", V3, 471, &[B32, B32, B32], B32, |_, a| lo(med3_i(s(a[0]), s(a[1]), s(a[2])) as u64)),
        row("v_med3_u32", V3, 472, &[B32, B32, B32], B32, |_, a| med3_i(lo(a[0]) as i64, lo(a[1]) as i64, lo(a[2]) as i64) as u64),
        row("v_sad_u8", V3, 473, &[B32, B32, B32], B32, |e, a| sat_u32(e, i128::from(sad_u8(a[0], a[1]) + lo(a[2])))),
        row("v_sad_hi_u8", V3, 474, &[B32, B32, B32], B32, |e, a| sat_u32(e, i128::from((sad_u8(a[0], a[1]) << 16) + lo(a[2])))),
        row("v_sad_u16", V3, 475, &[B32, B32, B32], B32, |e, a| {
            let d = (a[0] & 0xffff).abs_diff(a[1] & 0xffff) + (a[0] >> 16 & 0xffff).abs_diff(a[1] >> 16 & 0xffff);
            sat_u32(e, i128::from(d + lo(a[2])))
        }),
        row("v_sad_u32", V3, 476, &[B32, B32, B32], B32, |e, a| sat_u32(e, i128::from(lo(a[0]).abs_diff(lo(a[1])) + lo(a[2])))),
        row("v_msad_u8", V3, 484, &[B32, B32, B32], B32, |_, a| a[0]).kind(Kind::Refused),
        row("v_qsad_pk_u16_u8", V3, 485, &[B64, B32, B64], B64, |_, a| a[0]).kind(Kind::Refused),
        row("v_mqsad_pk_u16_u8", V3, 486, &[B64, B32, B64], B64, |_, a| a[0]).kind(Kind::Refused),
        row("v_mqsad_u32_u8", V3, 487, &[B64, B32, B128], B128, |_, a| a[0]).kind(Kind::Refused),
        row("v_mad_u64_u32", V3, 488, &[B32, B32, B64], B64, |_, a| a[0]).kind(Kind::Mad64 { signed: false }).class(Wide),
        row("v_mad_i64_i32", V3, 489, &[B32, B32, B64], B64, |_, a| a[0]).kind(Kind::Mad64 { signed: true }).class(Wide),
        row("v_mad_legacy_u16", V3, 491, &[B16, B16, B16], B16, mad_u16),
        row("v_mad_legacy_i16", V3, 492, &[B16, B16, B16], B16, |e, a| sat_i16(e, h(a[0]) * h(a[1]) + h(a[2]))),
        row("v_perm_b32", V3, 493, &[B32, B32, B32], B32, |_, a| perm(a[0], a[1], a[2])),
        row("v_mad_u32_u16", V3, 497, &[B16, B16, B32], B32, |e, a| {
            sat_u32(e, i128::from((a[0] & 0xffff) * (a[1] & 0xffff)) + i128::from(lo(a[2])))
        }),
        row("v_mad_i32_i16", V3, 498, &[B16, B16, B32], B32, |e, a| sat_i32(e, h(a[0]) * h(a[1]) + s(a[2]))),
        row("v_xad_u32", V3, 499, &[B32, B32, B32], B32, |_, a| lo((a[0] ^ a[1]).wrapping_add(a[2]))),
        row("v_min3_i16", V3, 501, &[B16, B16, B16], B16, |_, a| h(a[0]).min(h(a[1])).min(h(a[2])) as u64 & 0xffff).kind(Kind::KeepHigh),
        row("v_min3_u16", V3, 502, &[B16, B16, B16], B16, |_, a| (a[0] & 0xffff).min(a[1] & 0xffff).min(a[2] & 0xffff))
            .kind(Kind::KeepHigh),
        row("v_max3_i16", V3, 504, &[B16, B16, B16], B16, |_, a| h(a[0]).max(h(a[1])).max(h(a[2])) as u64 & 0xffff).kind(Kind::KeepHigh),
        row("v_max3_u16", V3, 505, &[B16, B16, B16], B16, |_, a| (a[0] & 0xffff).max(a[1] & 0xffff).max(a[2] & 0xffff))
            .kind(Kind::KeepHigh),
        row("v_med3_i16", V3, 507, &[B16, B16, B16], B16, |_, a| med3_i(h(a[0]), h(a[1]), h(a[2])) as u64 & 0xffff).kind(Kind::KeepHigh),
        row("v_med3_u16", V3, 508, &[B16, B16, B16], B16, |_, a| {
            med3_i((a[0] & 0xffff) as i64, (a[1] & 0xffff) as i64, (a[2] & 0xffff) as i64) as u64
        })
        .kind(Kind::KeepHigh),
        row("v_lshl_add_u32", V3, 509, &[B32, B32, B32], B32, |_, a| lo((lo(a[0]) << (a[1] & 31)).wrapping_add(a[2]))),
        row("v_add_lshl_u32", V3, 510, &[B32, B32, B32], B32, |_, a| lo(lo(a[0].wrapping_add(a[1])) << (a[2] & 31))),
        row("v_add3_u32", V3, 511, &[B32, B32, B32], B32, |_, a| lo(a[0].wrapping_add(a[1]).wrapping_add(a[2]))),
        row("v_lshl_or_b32", V3, 512, &[B32, B32, B32], B32, |_, a| lo(a[0] << (a[1] & 31)) | a[2]),
        row("v_and_or_b32", V3, 513, &[B32, B32, B32], B32, |_, a| a[0] & a[1] | a[2]),
        row("v_or3_b32", V3, 514, &[B32, B32, B32], B32, |_, a| a[0] | a[1] | a[2]),
        row("v_mad_u16", V3, 516, &[B16, B16, B16], B16, mad_u16).kind(Kind::KeepHigh),
        row("v_mad_i16", V3, 517, &[B16, B16, B16], B16, |e, a| sat_i16(e, h(a[0]) * h(a[1]) + h(a[2]))).kind(Kind::KeepHigh),
        row("v_lshl_add_u64", V3, 520, &[B64, B32, B64], B64, |_, a| (a[0] << (a[1] & 7)).wrapping_add(a[2])).kind(Kind::Upward).on(MI300),
        row("v_bitop3_b16", V3, 563, &[B16, B16, B16], B16, |_, a| a[0]).kind(Kind::Refused).on(MI350),
        row("v_bitop3_b32", V3, 564, &[B32, B32, B32], B32, |_, a| a[0]).kind(Kind::BitOp3).on(MI350),
        row("v_ashr_pk_i8_i32", V3, 613, &[B32, B32, B32], B16, |_, a| {
            let one = |v: u64| ((s(v) >> (a[2] & 31)).clamp(-128, 127) as u64) & 255;
            one(a[0]) | one(a[1]) << 8
        })
        .kind(Kind::KeepHigh)
        .on(MI350),
        row("v_ashr_pk_u8_i32", V3, 614, &[B32, B32, B32], B16, |_, a| {
            let one = |v: u64| (s(v) >> (a[2] & 31)).clamp(0, 255) as u64;
            one(a[0]) | one(a[1]) << 8
        })
        .kind(Kind::KeepHigh)
        .on(MI350),
        row("v_mul_lo_u32", V3, 645, &[B32, B32], B32, |_, a| lo(a[0].wrapping_mul(a[1]))).class(Wide),
        row("v_mul_hi_u32", V3, 646, &[B32, B32], B32, |_, a| (lo(a[0]) * lo(a[1])) >> 32).class(Wide),
        row("v_mul_hi_i32", V3, 647, &[B32, B32], B32, |_, a| lo(((s(a[0]) * s(a[1])) >> 32) as u64)).class(Wide),
        row("v_readlane_b32", V3, 649, &[B32, Lane], B32, |_, a| a[0]).kind(Kind::ReadLane),
        row("v_writelane_b32", V3, 650, &[B32, Lane], B32, |_, a| a[0]).kind(Kind::WriteLane),
        row("v_bcnt_u32_b32", V3, 651, &[B32, B32], B32, |_, a| lo(u64::from((a[0] as u32).count_ones()) + lo(a[1]))),
        row("v_mbcnt_lo_u32_b32", V3, 652, &[B32, B32], B32, |_, a| {
            let below = if a[2] >= 32 { u32::MAX } else { (1u32 << a[2]) - 1 };
            lo(u64::from((a[0] as u32 & below).count_ones()) + lo(a[1]))
        })
        .kind(Kind::LaneId),
        row("v_mbcnt_hi_u32_b32", V3, 653, &[B32, B32], B32, |_, a| {
            let below = if a[2] < 32 { 0 } else { (1u32 << (a[2] - 32)) - 1 };
            lo(u64::from((a[0] as u32 & below).count_ones()) + lo(a[1]))
        })
        .kind(Kind::LaneId),
        row("v_lshlrev_b64", V3, 655, &[B32, B64], B64, |_, a| a[1] << (a[0] & 63)).kind(Kind::Upward).class(Wide),
        row("v_lshrrev_b64", V3, 656, &[B32, B64], B64, |_, a| a[1] >> (a[0] & 63)).class(Wide),
        row("v_ashrrev_i64", V3, 657, &[B32, B64], B64, |_, a| (a[1] as i64 >> (a[0] & 63)) as u64).class(Wide),
        row("v_bfm_b32", V3, 659, &[B32, B32], B32, |_, a| lo(crate::num::ones((a[0] & 31) as u32) << (a[1] & 31))),
        row("v_add_i32", V3, 668, &[B32, B32], B32, |e, a| sat_i32(e, s(a[0]) + s(a[1]))),
        row("v_sub_i32", V3, 669, &[B32, B32], B32, |e, a| sat_i32(e, s(a[0]) - s(a[1]))),
        row("v_add_i16", V3, 670, &[B16, B16], B16, |e, a| sat_i16(e, h(a[0]) + h(a[1]))).kind(Kind::KeepHigh),
        row("v_sub_i16", V3, 671, &[B16, B16], B16, |e, a| sat_i16(e, h(a[0]) - h(a[1]))).kind(Kind::KeepHigh),
    ]
}

fn mad_u16(e: &crate::num::Env, a: [u64; 3]) -> u64 {
    sat_u16(e, ((a[0] & 0xffff) * (a[1] & 0xffff) + (a[2] & 0xffff)) as i64)
}

fn conversions() -> Vec<Row> {
    vec![
        row("v_cvt_pk_u8_f32", V3, 477, &[F32, B32, B32], B32, |_, a| cvt_pk_u8(a[0], a[1], a[2])),
        row("v_cvt_pkaccum_u8_f32", V3, 496, &[F32, B32], B32, |_, a| a[0]).kind(Kind::Refused),
        row("v_cvt_pk_f16_f32", V3, 615, &[F32, F32], B32, |e, a| r16(e, f(e, a[0])) | r16(e, f(e, a[1])) << 16).on(MI350),
        row("v_cvt_pk_bf16_f32", V3, 616, &[F32, F32], B32, |e, a| {
            u64::from(BF16.encode(f(e, a[0]))) | u64::from(BF16.encode(f(e, a[1]))) << 16
        })
        .on(MI350),
        row("v_cvt_pknorm_i16_f32", V3, 660, &[F32, F32], B32, |e, a| norm16(f(e, a[0]), true) | norm16(f(e, a[1]), true) << 16),
        row("v_cvt_pknorm_u16_f32", V3, 661, &[F32, F32], B32, |e, a| norm16(f(e, a[0]), false) | norm16(f(e, a[1]), false) << 16),
        row("v_cvt_pkrtz_f16_f32", V3, 662, &[F32, F32], B32, |_, a| pkrtz(a[0], a[1])),
        row("v_cvt_pk_u16_u32", V3, 663, &[B32, B32], B32, |_, a| lo(a[0]).min(0xffff) | lo(a[1]).min(0xffff) << 16),
        row("v_cvt_pk_i16_i32", V3, 664, &[B32, B32], B32, |_, a| {
            let one = |v: u64| s(v).clamp(-0x8000, 0x7fff) as u64 & 0xffff;
            one(a[0]) | one(a[1]) << 16
        }),
        row("v_cvt_pknorm_i16_f16", V3, 665, &[F16, F16], B32, |e, a| norm16(x16(e, a[0]), true) | norm16(x16(e, a[1]), true) << 16),
        row("v_cvt_pknorm_u16_f16", V3, 666, &[F16, F16], B32, |e, a| norm16(x16(e, a[0]), false) | norm16(x16(e, a[1]), false) << 16),
        row("v_pack_b32_f16", V3, 672, &[F16, F16], B32, |_, a| a[0] & 0xffff | (a[1] & 0xffff) << 16),
        row("v_cvt_pk_fp8_f32", V3, 674, &[F32, F32], B32, |e, a| to_fp8(e, a[0]) | to_fp8(e, a[1]) << 8).kind(Kind::Half).on(MI300),
        row("v_cvt_pk_bf8_f32", V3, 675, &[F32, F32], B32, |e, a| to_bf8(e, a[0]) | to_bf8(e, a[1]) << 8).kind(Kind::Half).on(MI300),
        row("v_cvt_sr_fp8_f32", V3, 676, &[F32, B32], B32, |e, a| to_8_stochastic(a[0], a[1], fp8(e.fnuz), 3)).kind(Kind::Byte).on(MI300),
        row("v_cvt_sr_bf8_f32", V3, 677, &[F32, B32], B32, |e, a| to_8_stochastic(a[0], a[1], bf8(e.fnuz), 2)).kind(Kind::Byte).on(MI300),
        row("v_cvt_sr_f16_f32", V3, 678, &[F32, B32], B32, |_, a| a[0]).kind(Kind::Refused).on(MI350),
        row("v_cvt_sr_bf16_f32", V3, 679, &[F32, B32], B32, |_, a| a[0]).kind(Kind::Refused).on(MI350),
    ]
}
