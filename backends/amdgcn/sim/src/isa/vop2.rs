//! Vector instructions with two sources in the short encoding.

use super::lane::*;
use super::vector::Class::{Dot, Wide};
use super::vector::Enc::V2;
use super::vector::Kind::{Carry, Mac, MadAK, MadMK};
use super::vector::Ty::*;
use super::vector::{MI200, MI300, MI350, Row, row};
use crate::num::{Env, r16, r32, r64, x16, x32, x64};

fn carry_add(a: u64, b: u64, c: u64) -> u64 {
    lo(a) + lo(b) + c
}

/// The difference; bit 32 is the borrow.
fn borrow(a: u64, b: u64, c: u64) -> u64 {
    let r = lo(a) as i64 - lo(b) as i64 - c as i64;
    lo(r as u64) | u64::from(r < 0) << 32
}

/// Saturates what a carry says has left 32 bits.
fn clamped(e: &Env, v: u64, sub: bool) -> u64 {
    match (e.clamp && v >> 32 & 1 != 0, sub) {
        (false, _) => v,
        (true, false) => 1 << 32 | 0xffff_ffff,
        (true, true) => 1 << 32,
    }
}

fn i24(v: u64) -> i64 {
    crate::num::sext(v, 24)
}

fn u24(v: u64) -> u64 {
    v & 0xff_ffff
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("v_cndmask_b32", V2, 0, &[F32, F32, Mask], B32, |_, a| if a[2] != 0 { a[1] } else { a[0] }),
        row("v_add_f32", V2, 1, &[F32, F32], F32, |e, a| r32(e, x32(e, a[0]) + x32(e, a[1]))),
        row("v_sub_f32", V2, 2, &[F32, F32], F32, |e, a| r32(e, x32(e, a[0]) - x32(e, a[1]))),
        row("v_subrev_f32", V2, 3, &[F32, F32], F32, |e, a| r32(e, x32(e, a[1]) - x32(e, a[0]))),
        row("v_fmac_f64", V2, 4, &[F64, F64, F64], F64, |e, a| r64(e, x64(e, a[0]).mul_add(x64(e, a[1]), x64(e, a[2])))).kind(Mac),
        row("v_mul_f32", V2, 5, &[F32, F32], F32, |e, a| r32(e, x32(e, a[0]) * x32(e, a[1]))),
        row("v_mul_i32_i24", V2, 6, &[B32, B32], B32, |_, a| lo((i24(a[0]) * i24(a[1])) as u64)),
        row("v_mul_hi_i32_i24", V2, 7, &[B32, B32], B32, |_, a| lo(((i24(a[0]) * i24(a[1])) >> 32) as u64)),
        row("v_mul_u32_u24", V2, 8, &[B32, B32], B32, |_, a| lo(u24(a[0]) * u24(a[1]))),
        row("v_mul_hi_u32_u24", V2, 9, &[B32, B32], B32, |_, a| (u24(a[0]) * u24(a[1])) >> 32),
        row("v_min_f32", V2, 10, &[F32, F32], F32, |e, a| r32_of(e, min(f32_of(x32(e, a[0])), f32_of(x32(e, a[1]))))),
        row("v_max_f32", V2, 11, &[F32, F32], F32, |e, a| r32_of(e, max(f32_of(x32(e, a[0])), f32_of(x32(e, a[1]))))),
        row("v_min_i32", V2, 12, &[B32, B32], B32, |_, a| lo(s(a[0]).min(s(a[1])) as u64)),
        row("v_max_i32", V2, 13, &[B32, B32], B32, |_, a| lo(s(a[0]).max(s(a[1])) as u64)),
        row("v_min_u32", V2, 14, &[B32, B32], B32, |_, a| lo(a[0]).min(lo(a[1]))),
        row("v_max_u32", V2, 15, &[B32, B32], B32, |_, a| lo(a[0]).max(lo(a[1]))),
        row("v_lshrrev_b32", V2, 16, &[B32, B32], B32, |_, a| lo(a[1]) >> (a[0] & 31)),
        row("v_ashrrev_i32", V2, 17, &[B32, B32], B32, |_, a| lo((s(a[1]) >> (a[0] & 31)) as u64)),
        row("v_lshlrev_b32", V2, 18, &[B32, B32], B32, |_, a| lo(a[1] << (a[0] & 31))),
        row("v_and_b32", V2, 19, &[B32, B32], B32, |_, a| a[0] & a[1]),
        row("v_or_b32", V2, 20, &[B32, B32], B32, |_, a| a[0] | a[1]),
        row("v_xor_b32", V2, 21, &[B32, B32], B32, |_, a| a[0] ^ a[1]),
        row("v_mac_f32", V2, 22, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]) * x32(e, a[1]) + x32(e, a[2]))).kind(Mac).on(MI200),
        row("v_dot2c_f32_bf16", V2, 22, &[B32, B32, F32], F32, |e, a| dot2_bf16(e, a[0], a[1], a[2])).kind(Mac).class(Dot).on(MI350),
        row("v_fmamk_f32", V2, 23, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2]))))
            .kind(MadMK)
            .on(MI300),
        row("v_fmaak_f32", V2, 24, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2]))))
            .kind(MadAK)
            .on(MI300),
        row("v_madmk_f32", V2, 23, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]) * x32(e, a[1]) + x32(e, a[2]))).kind(MadMK).on(MI200),
        row("v_madak_f32", V2, 24, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]) * x32(e, a[1]) + x32(e, a[2]))).kind(MadAK).on(MI200),
        row("v_add_co_u32", V2, 25, &[B32, B32], B32, |e, a| clamped(e, carry_add(a[0], a[1], 0), false)).kind(Carry),
        row("v_sub_co_u32", V2, 26, &[B32, B32], B32, |e, a| clamped(e, borrow(a[0], a[1], 0), true)).kind(Carry),
        row("v_subrev_co_u32", V2, 27, &[B32, B32], B32, |e, a| clamped(e, borrow(a[1], a[0], 0), true)).kind(Carry),
        row("v_addc_co_u32", V2, 28, &[B32, B32, Mask], B32, |e, a| clamped(e, carry_add(a[0], a[1], a[2]), false)).kind(Carry),
        row("v_subb_co_u32", V2, 29, &[B32, B32, Mask], B32, |e, a| clamped(e, borrow(a[0], a[1], a[2]), true)).kind(Carry),
        row("v_subbrev_co_u32", V2, 30, &[B32, B32, Mask], B32, |e, a| clamped(e, borrow(a[1], a[0], a[2]), true)).kind(Carry),
        row("v_add_f16", V2, 31, &[F16, F16], F16, |e, a| r16(e, x16(e, a[0]) + x16(e, a[1]))),
        row("v_sub_f16", V2, 32, &[F16, F16], F16, |e, a| r16(e, x16(e, a[0]) - x16(e, a[1]))),
        row("v_subrev_f16", V2, 33, &[F16, F16], F16, |e, a| r16(e, x16(e, a[1]) - x16(e, a[0]))),
        row("v_mul_f16", V2, 34, &[F16, F16], F16, |e, a| r16(e, x16(e, a[0]) * x16(e, a[1]))),
        row("v_mac_f16", V2, 35, &[F16, F16, F16], F16, mad16).kind(Mac),
        row("v_madmk_f16", V2, 36, &[F16, F16, F16], F16, mad16).kind(MadMK),
        row("v_madak_f16", V2, 37, &[F16, F16, F16], F16, mad16).kind(MadAK),
        row("v_add_u16", V2, 38, &[B16, B16], B16, |e, a| sat_u16(e, (a[0] & 0xffff) as i64 + (a[1] & 0xffff) as i64)),
        row("v_sub_u16", V2, 39, &[B16, B16], B16, |e, a| sat_u16(e, (a[0] & 0xffff) as i64 - (a[1] & 0xffff) as i64)),
        row("v_subrev_u16", V2, 40, &[B16, B16], B16, |e, a| sat_u16(e, (a[1] & 0xffff) as i64 - (a[0] & 0xffff) as i64)),
        row("v_mul_lo_u16", V2, 41, &[B16, B16], B16, |_, a| ((a[0] & 0xffff) * (a[1] & 0xffff)) & 0xffff),
        row("v_lshlrev_b16", V2, 42, &[B16, B16], B16, |_, a| (a[1] << (a[0] & 15)) & 0xffff),
        row("v_lshrrev_b16", V2, 43, &[B16, B16], B16, |_, a| (a[1] & 0xffff) >> (a[0] & 15)),
        row("v_ashrrev_i16", V2, 44, &[B16, B16], B16, |_, a| (h(a[1]) >> (a[0] & 15)) as u64 & 0xffff),
        row("v_max_f16", V2, 45, &[F16, F16], F16, |e, a| r16(e, max(x16(e, a[0]), x16(e, a[1])))),
        row("v_min_f16", V2, 46, &[F16, F16], F16, |e, a| r16(e, min(x16(e, a[0]), x16(e, a[1])))),
        row("v_max_u16", V2, 47, &[B16, B16], B16, |_, a| (a[0] & 0xffff).max(a[1] & 0xffff)),
        row("v_max_i16", V2, 48, &[B16, B16], B16, |_, a| h(a[0]).max(h(a[1])) as u64 & 0xffff),
        row("v_min_u16", V2, 49, &[B16, B16], B16, |_, a| (a[0] & 0xffff).min(a[1] & 0xffff)),
        row("v_min_i16", V2, 50, &[B16, B16], B16, |_, a| h(a[0]).min(h(a[1])) as u64 & 0xffff),
        row("v_ldexp_f16", V2, 51, &[F16, B16], F16, |e, a| r16(e, ldexp(x16(e, a[0]), h(a[1])))),
        row("v_add_u32", V2, 52, &[B32, B32], B32, |e, a| sat_u32(e, i128::from(lo(a[0])) + i128::from(lo(a[1])))),
        row("v_sub_u32", V2, 53, &[B32, B32], B32, |e, a| sat_u32(e, i128::from(lo(a[0])) - i128::from(lo(a[1])))),
        row("v_subrev_u32", V2, 54, &[B32, B32], B32, |e, a| sat_u32(e, i128::from(lo(a[1])) - i128::from(lo(a[0])))),
        row("v_dot2c_f32_f16", V2, 55, &[B32, B32, F32], F32, |e, a| dot2_f16(e, a[0], a[1], a[2])).kind(Mac).class(Dot),
        row("v_dot2c_i32_i16", V2, 56, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 16, true)).kind(Mac).class(Dot),
        row("v_dot4c_i32_i8", V2, 57, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 8, true)).kind(Mac).class(Dot),
        row("v_dot8c_i32_i4", V2, 58, &[B32, B32, B32], B32, |e, a| dot_int(e, a[0], a[1], a[2], 4, true)).kind(Mac).class(Dot),
        row("v_fmac_f32", V2, 59, &[F32, F32, F32], F32, |e, a| r32(e, x32(e, a[0]).mul_add(x32(e, a[1]), x32(e, a[2])))).kind(Mac),
        row("v_pk_fmac_f16", V2, 60, &[B32, B32, B32], B32, |e, a| {
            let half = |at: u32| fma16(e, x16(e, a[0] >> at), x16(e, a[1] >> at), x16(e, a[2] >> at));
            half(0) | half(16) << 16
        })
        .kind(Mac),
        row("v_xnor_b32", V2, 61, &[B32, B32], B32, |_, a| lo(!(a[0] ^ a[1]))),
    ]
    .into_iter()
    .map(|r| if r.dst == F64 { r.class(Wide) } else { r })
    .collect()
}

/// Product and sum rounded apart.
fn mad16(e: &Env, a: [u64; 3]) -> u64 {
    let product = r16(e, x16(e, a[0]) * x16(e, a[1]));
    r16(e, x16(e, product) + x16(e, a[2]))
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::isa::vector::Kind;

    #[test]
    fn masks_are_third_sources_of_carries_and_selects() {
        for r in rows().iter().filter(|r| r.src[2] == super::Mask) {
            assert!(r.kind == Kind::Carry || r.name == "v_cndmask_b32");
        }
    }
}
