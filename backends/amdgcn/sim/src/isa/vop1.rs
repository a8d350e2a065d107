//! Vector instructions with one source.

use super::lane::*;
use super::vector::Class::Trans;
use super::vector::Enc::V1;
use super::vector::Ty::*;
use super::vector::{Kind, MI300, MI350, Row, row};
use crate::num::{F16 as HALF, r16, r32, r64, sext, x16, x32, x64};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("v_nop", V1, 0, &[], No, |_, _| 0).kind(Kind::Nop),
        row("v_mov_b32", V1, 1, &[B32], B32, |_, a| a[0]),
        row("v_readfirstlane_b32", V1, 2, &[B32], B32, |_, a| a[0]).kind(Kind::ReadFirst),
        row("v_cvt_i32_f64", V1, 3, &[F64], B32, |e, a| lo(to_int(x64(e, a[0]), -2147483648.0, 2147483647.0) as u64)),
        row("v_cvt_f64_i32", V1, 4, &[B32], F64, |_, a| (s(a[0]) as f64).to_bits()),
        row("v_cvt_f32_i32", V1, 5, &[B32], F32, |_, a| u64::from((a[0] as i32 as f32).to_bits())),
        row("v_cvt_f32_u32", V1, 6, &[B32], F32, |_, a| u64::from((a[0] as u32 as f32).to_bits())),
        row("v_cvt_u32_f32", V1, 7, &[F32], B32, |e, a| to_int(f32_of(x32(e, a[0])), 0.0, 4294967295.0) as u64),
        row("v_cvt_i32_f32", V1, 8, &[F32], B32, |e, a| lo(to_int(f32_of(x32(e, a[0])), -2147483648.0, 2147483647.0) as u64)),
        row("v_cvt_f16_f32", V1, 10, &[F32], F16, |e, a| r16(e, f32_of(x32(e, a[0])))),
        row("v_cvt_f32_f16", V1, 11, &[F16], F32, |e, a| r32_of(e, x16(e, a[0]))),
        row("v_cvt_rpi_i32_f32", V1, 12, &[F32], B32, |e, a| {
            lo(to_int((f32_of(x32(e, a[0])) + 0.5).floor(), -2147483648.0, 2147483647.0) as u64)
        }),
        row("v_cvt_flr_i32_f32", V1, 13, &[F32], B32, |e, a| lo(to_int(f32_of(x32(e, a[0])).floor(), -2147483648.0, 2147483647.0) as u64)),
        row("v_cvt_off_f32_i4", V1, 14, &[B32], F32, |_, a| u64::from((sext(a[0], 4) as f32 / 16.0).to_bits())),
        row("v_cvt_f32_f64", V1, 15, &[F64], F32, |e, a| r32_of(e, x64(e, a[0]))),
        row("v_cvt_f64_f32", V1, 16, &[F32], F64, |e, a| r64(e, f32_of(x32(e, a[0])))),
        row("v_cvt_f32_ubyte0", V1, 17, &[B32], F32, |_, a| u64::from(((a[0] & 0xff) as f32).to_bits())),
        row("v_cvt_f32_ubyte1", V1, 18, &[B32], F32, |_, a| u64::from(((a[0] >> 8 & 0xff) as f32).to_bits())),
        row("v_cvt_f32_ubyte2", V1, 19, &[B32], F32, |_, a| u64::from(((a[0] >> 16 & 0xff) as f32).to_bits())),
        row("v_cvt_f32_ubyte3", V1, 20, &[B32], F32, |_, a| u64::from(((a[0] >> 24 & 0xff) as f32).to_bits())),
        row("v_cvt_u32_f64", V1, 21, &[F64], B32, |e, a| to_int(x64(e, a[0]), 0.0, 4294967295.0) as u64),
        row("v_cvt_f64_u32", V1, 22, &[B32], F64, |_, a| f64::from(a[0] as u32).to_bits()),
        row("v_trunc_f64", V1, 23, &[F64], F64, |e, a| r64(e, x64(e, a[0]).trunc())),
        row("v_ceil_f64", V1, 24, &[F64], F64, |e, a| r64(e, x64(e, a[0]).ceil())),
        row("v_rndne_f64", V1, 25, &[F64], F64, |e, a| r64(e, x64(e, a[0]).round_ties_even())),
        row("v_floor_f64", V1, 26, &[F64], F64, |e, a| r64(e, x64(e, a[0]).floor())),
        row("v_fract_f32", V1, 27, &[F32], F32, |e, a| r32(e, fract32(x32(e, a[0])))),
        row("v_trunc_f32", V1, 28, &[F32], F32, |e, a| r32(e, x32(e, a[0]).trunc())),
        row("v_ceil_f32", V1, 29, &[F32], F32, |e, a| r32(e, x32(e, a[0]).ceil())),
        row("v_rndne_f32", V1, 30, &[F32], F32, |e, a| r32(e, x32(e, a[0]).round_ties_even())),
        row("v_floor_f32", V1, 31, &[F32], F32, |e, a| r32(e, x32(e, a[0]).floor())),
        // The approximations flush denormals whatever the mode says.
        row("v_exp_f32", V1, 32, &[F32], F32, |e, a| flush(r32_of(e, exp2(f32_of(flushed(a[0])))))).class(Trans),
        row("v_log_f32", V1, 33, &[F32], F32, |e, a| flush(r32_of(e, f32_of(flushed(a[0])).log2()))).class(Trans),
        row("v_rcp_f32", V1, 34, &[F32], F32, |e, a| r32_of(e, 1.0 / f32_of(x32(e, a[0])))).class(Trans),
        row("v_rcp_iflag_f32", V1, 35, &[F32], F32, |e, a| r32_of(e, 1.0 / f32_of(x32(e, a[0])))).class(Trans),
        row("v_rsq_f32", V1, 36, &[F32], F32, |e, a| r32_of(e, 1.0 / f32_of(x32(e, a[0])).sqrt())).class(Trans),
        row("v_rcp_f64", V1, 37, &[F64], F64, |e, a| rcp64(e, a[0])).class(Trans),
        row("v_rsq_f64", V1, 38, &[F64], F64, |e, a| r64(e, 1.0 / x64(e, a[0]).sqrt())).class(Trans),
        row("v_sqrt_f32", V1, 39, &[F32], F32, |e, a| r32(e, x32(e, a[0]).sqrt())).class(Trans),
        row("v_sqrt_f64", V1, 40, &[F64], F64, |e, a| r64(e, x64(e, a[0]).sqrt())).class(Trans),
        row("v_sin_f32", V1, 41, &[F32], F32, |e, a| r32_of(e, sin_turns(f32_of(x32(e, a[0]))))).class(Trans),
        row("v_cos_f32", V1, 42, &[F32], F32, |e, a| r32_of(e, cos_turns(f32_of(x32(e, a[0]))))).class(Trans),
        row("v_not_b32", V1, 43, &[B32], B32, |_, a| lo(!a[0])),
        row("v_bfrev_b32", V1, 44, &[B32], B32, |_, a| u64::from((a[0] as u32).reverse_bits())),
        row("v_ffbh_u32", V1, 45, &[B32], B32, |_, a| if lo(a[0]) == 0 { 0xffff_ffff } else { u64::from((a[0] as u32).leading_zeros()) }),
        row("v_ffbl_b32", V1, 46, &[B32], B32, |_, a| if lo(a[0]) == 0 { 0xffff_ffff } else { u64::from((a[0] as u32).trailing_zeros()) }),
        row("v_ffbh_i32", V1, 47, &[B32], B32, |_, a| ffbh_i32(a[0])),
        row("v_frexp_exp_i32_f64", V1, 48, &[F64], B32, |e, a| lo(frexp_exp(x64(e, a[0])) as u64)),
        row("v_frexp_mant_f64", V1, 49, &[F64], F64, |e, a| r64(e, frexp_mant(x64(e, a[0])))),
        row("v_fract_f64", V1, 50, &[F64], F64, |e, a| {
            let x = x64(e, a[0]);
            r64(e, (x - x.floor()).min(f64::from_bits(0x3fef_ffff_ffff_ffff)))
        }),
        row("v_frexp_exp_i32_f32", V1, 51, &[F32], B32, |e, a| lo(frexp_exp(f32_of(x32(e, a[0]))) as u64)),
        row("v_frexp_mant_f32", V1, 52, &[F32], F32, |e, a| r32_of(e, frexp_mant(f32_of(x32(e, a[0]))))),
        row("v_clrexcp", V1, 53, &[], No, |_, _| 0).kind(Kind::Nop),
        row("v_screen_partition_4se_b32", V1, 55, &[B32], B32, |_, a| a[0]).kind(Kind::Refused),
        row("v_mov_b64", V1, 56, &[B64], B64, |_, a| a[0]).kind(Kind::Halves).on(MI300),
        row("v_cvt_f16_u16", V1, 57, &[B16], F16, |e, a| r16(e, (a[0] & 0xffff) as f64)),
        row("v_cvt_f16_i16", V1, 58, &[B16], F16, |e, a| r16(e, h(a[0]) as f64)),
        row("v_cvt_u16_f16", V1, 59, &[F16], B16, |e, a| to_int(x16(e, a[0]), 0.0, 65535.0) as u64),
        row("v_cvt_i16_f16", V1, 60, &[F16], B16, |e, a| to_int(x16(e, a[0]), -32768.0, 32767.0) as u64 & 0xffff),
        row("v_rcp_f16", V1, 61, &[F16], F16, |e, a| r16(e, 1.0 / x16(e, a[0]))).class(Trans),
        row("v_sqrt_f16", V1, 62, &[F16], F16, |e, a| r16(e, x16(e, a[0]).sqrt())).class(Trans),
        row("v_rsq_f16", V1, 63, &[F16], F16, |e, a| r16(e, 1.0 / x16(e, a[0]).sqrt())).class(Trans),
        row("v_log_f16", V1, 64, &[F16], F16, |e, a| r16(e, x16(e, a[0]).log2())).class(Trans),
        row("v_exp_f16", V1, 65, &[F16], F16, |e, a| r16(e, exp2(x16(e, a[0])))).class(Trans),
        row("v_frexp_mant_f16", V1, 66, &[F16], F16, |e, a| r16(e, frexp_mant(x16(e, a[0])))),
        row("v_frexp_exp_i16_f16", V1, 67, &[F16], B16, |e, a| frexp_exp(x16(e, a[0])) as u64 & 0xffff),
        row("v_floor_f16", V1, 68, &[F16], F16, |e, a| r16(e, x16(e, a[0]).floor())),
        row("v_ceil_f16", V1, 69, &[F16], F16, |e, a| r16(e, x16(e, a[0]).ceil())),
        row("v_trunc_f16", V1, 70, &[F16], F16, |e, a| r16(e, x16(e, a[0]).trunc())),
        row("v_rndne_f16", V1, 71, &[F16], F16, |e, a| r16(e, x16(e, a[0]).round_ties_even())),
        row("v_fract_f16", V1, 72, &[F16], F16, |e, a| {
            let x = x16(e, a[0]);
            r16(e, (x - x.floor()).min(HALF.decode(0x3bff)))
        }),
        row("v_sin_f16", V1, 73, &[F16], F16, |e, a| r16(e, sin_turns(x16(e, a[0])))).class(Trans),
        row("v_cos_f16", V1, 74, &[F16], F16, |e, a| r16(e, cos_turns(x16(e, a[0])))).class(Trans),
        row("v_exp_legacy_f32", V1, 75, &[F32], F32, |e, a| flush(r32_of(e, exp2(f32_of(flushed(a[0])))))).class(Trans),
        row("v_log_legacy_f32", V1, 76, &[F32], F32, |e, a| flush(r32_of(e, f32_of(flushed(a[0])).log2()))).class(Trans),
        row("v_cvt_norm_i16_f16", V1, 77, &[F16], B16, |e, a| norm16(x16(e, a[0]), true)),
        row("v_cvt_norm_u16_f16", V1, 78, &[F16], B16, |e, a| norm16(x16(e, a[0]), false)),
        row("v_sat_pk_u8_i16", V1, 79, &[B32], B16, |_, a| (h(a[0]).clamp(0, 255) | h(a[0] >> 16).clamp(0, 255) << 8) as u64),
        row("v_swap_b32", V1, 81, &[B32], B32, |_, a| a[0]).kind(Kind::Swap),
        row("v_accvgpr_mov_b32", V1, 82, &[B32], B32, |_, a| a[0]).kind(Kind::AccMov),
        row("v_cvt_f32_fp8", V1, 84, &[B32], F32, |e, a| r32(e, from_fp8(e, a[0]))).kind(Kind::FromByte).on(MI300),
        row("v_cvt_f32_bf8", V1, 85, &[B32], F32, |e, a| r32(e, from_bf8(e, a[0]))).kind(Kind::FromByte).on(MI300),
        row("v_cvt_pk_f32_fp8", V1, 86, &[B32], B64, |e, a| r32(e, from_fp8(e, a[0])) | r32(e, from_fp8(e, a[0] >> 8)) << 32)
            .kind(Kind::FromHalf)
            .on(MI300),
        row("v_cvt_pk_f32_bf8", V1, 87, &[B32], B64, |e, a| r32(e, from_bf8(e, a[0])) | r32(e, from_bf8(e, a[0] >> 8)) << 32)
            .kind(Kind::FromHalf)
            .on(MI300),
        row("v_prng_b32", V1, 88, &[B32], B32, |_, a| lo(a[0] << 1) ^ ((a[0] >> 31 & 1) * 197)).on(MI350),
        row("v_permlane16_swap_b32", V1, 89, &[B32], B32, |_, a| a[0]).kind(Kind::SwapRows(16)).on(MI350),
        row("v_permlane32_swap_b32", V1, 90, &[B32], B32, |_, a| a[0]).kind(Kind::SwapRows(32)).on(MI350),
        row("v_cvt_f32_bf16", V1, 91, &[B16], F32, |_, a| lo(a[0] << 16)).on(MI350),
    ]
}

fn flushed(bits: u64) -> f32 {
    let x = f32::from_bits(bits as u32);
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn flush(bits: u64) -> u64 {
    u64::from(flushed(bits).to_bits())
}

fn exp2(x: f64) -> f64 {
    x.exp2()
}
