//! Vector instructions beside plain Rust, on random numbers mixed with special ones. A table: text of the instruction, and what it computes.
//!
//! In the texts `D`, `A`, `B`, `C` are 32-bit registers, `DD`, `AA`, `BB`, `CC` 64-bit ones; `D` holds `C`'s value before.

use crate::common::{Buf, Needs, Random, assemble, bytes, kernel, launch};
use tilelift_amdgcn_sim::{Chip, SimConfig};

/// How results are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum As {
    Bits,
    /// NaNs are equal, and so are numbers so many units in the last place apart.
    F16(u64),
    F32(u64),
    F64(u64),
    /// Two f32, or two f16.
    F32x2,
    F16x2,
}

struct Case(&'static str, As, fn(u64, u64, u64) -> u64);

fn f(v: u64) -> f32 {
    f32::from_bits(v as u32)
}

fn d(v: u64) -> f64 {
    f64::from_bits(v)
}

fn r(v: f32) -> u64 {
    u64::from(v.to_bits())
}

fn i(v: u64) -> i32 {
    v as i32
}

fn u(v: u64) -> u32 {
    v as u32
}

fn w(v: i32) -> u64 {
    u64::from(v as u32)
}

fn x(v: u32) -> u64 {
    u64::from(v)
}

/// f16 to f32, by its definition.
fn h(v: u64) -> f32 {
    let (s, e, m) = (v >> 15 & 1, (v >> 10 & 31) as i32, (v & 0x3ff) as f32);
    let a = match e {
        0 => m * 2f32.powi(-24),
        31 if m == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + m) * 2f32.powi(e - 25),
    };
    if s == 1 { -a } else { a }
}

/// f32 (or what is exact in f64) to f16, to nearest even: by search among the neighbours.
fn rh(v: f64) -> u64 {
    if v.is_nan() {
        return 0x7e00;
    }
    let sign = if v.is_sign_negative() { 0x8000 } else { 0 };
    let a = v.abs();
    if a >= 65520.0 {
        return sign | 0x7c00;
    }
    let (mut low, mut high) = (0u64, 0x7bffu64);
    while low < high {
        let mid = (low + high).div_ceil(2);
        if f64::from(h(mid)) <= a { low = mid } else { high = mid - 1 }
    }
    let next = if low == 0x7bff { 65536.0 } else { f64::from(h(low + 1)) };
    let (below, above) = (a - f64::from(h(low)), next - a);
    let up = above < below || above == below && low % 2 == 1;
    sign | (low + u64::from(up))
}

/// The larger one; zeros have an order.
fn max(a: f32, b: f32) -> f32 {
    if a == b && b.is_sign_positive() { b } else { a.max(b) }
}

fn min(a: f32, b: f32) -> f32 {
    a.min(b)
}

const CASES: &[Case] = &[
    Case("v_mov_b32 D, A", As::Bits, |a, _, _| x(u(a))),
    Case("v_add_f32 D, A, B", As::F32(0), |a, b, _| r(f(a) + f(b))),
    Case("v_sub_f32 D, A, B", As::F32(0), |a, b, _| r(f(a) - f(b))),
    Case("v_subrev_f32 D, A, B", As::F32(0), |a, b, _| r(f(b) - f(a))),
    Case("v_mul_f32 D, A, B", As::F32(0), |a, b, _| r(f(a) * f(b))),
    Case("v_mul_f32 D, -A, |B|", As::F32(0), |a, b, _| r(-f(a) * f(b).abs())),
    Case("v_add_f32 D, A, B clamp", As::F32(0), |a, b, _| {
        let v = f(a) + f(b);
        r(if v.is_nan() { 0.0 } else { v.clamp(0.0, 1.0) })
    }),
    Case("v_add_f32 D, A, 1.0", As::F32(0), |a, _, _| r(f(a) + 1.0)),
    Case("v_mul_f32 D, 0.15915494, A", As::F32(0), |a, _, _| r(f(a) * f32::from_bits(0x3e22_f983))),
    Case("v_fma_f32 D, A, B, C", As::F32(0), |a, b, c| r(f(a).mul_add(f(b), f(c)))),
    Case("v_fma_f32 D, A, B, -C", As::F32(0), |a, b, c| r(f(a).mul_add(f(b), -f(c)))),
    Case("v_fmac_f32 D, A, B", As::F32(0), |a, b, c| r(f(a).mul_add(f(b), f(c)))),
    Case("v_fmaak_f32 D, A, B, 0x40490fdb", As::F32(0), |a, b, _| r(f(a).mul_add(f(b), std::f32::consts::PI))),
    Case("v_fmamk_f32 D, A, 0x40490fdb, B", As::F32(0), |a, b, _| r(f(a).mul_add(std::f32::consts::PI, f(b)))),
    Case("v_min_f32 D, A, B", As::F32(0), |a, b, _| r(min(f(a), f(b)))),
    Case("v_max_f32 D, A, B", As::F32(0), |a, b, _| r(f(a).max(f(b)))),
    Case("v_max3_f32 D, A, B, C", As::F32(0), |a, b, c| r(f(a).max(f(b)).max(f(c)))),
    Case("v_min3_f32 D, A, B, C", As::F32(0), |a, b, c| r(min(min(f(a), f(b)), f(c)))),
    Case("v_med3_f32 D, A, B, C", As::F32(0), |a, b, c| {
        let mut v = [f(a), f(b), f(c)];
        if v.iter().any(|x| x.is_nan()) {
            return r(min(min(v[0], v[1]), v[2]));
        }
        v.sort_by(f32::total_cmp);
        r(v[1])
    }),
    Case("v_rcp_f32 D, A", As::F32(1), |a, _, _| r(1.0 / f(a))),
    Case("v_rsq_f32 D, A", As::F32(1), |a, _, _| r((1.0 / f64::from(f(a)).sqrt()) as f32)),
    Case("v_sqrt_f32 D, A", As::F32(1), |a, _, _| r(f(a).sqrt())),
    Case("v_floor_f32 D, A", As::F32(0), |a, _, _| r(f(a).floor())),
    Case("v_ceil_f32 D, A", As::F32(0), |a, _, _| r(f(a).ceil())),
    Case("v_trunc_f32 D, A", As::F32(0), |a, _, _| r(f(a).trunc())),
    Case("v_rndne_f32 D, A", As::F32(0), |a, _, _| r(f(a).round_ties_even())),
    Case("v_cvt_i32_f32 D, A", As::Bits, |a, _, _| w(f(a) as i32)),
    Case("v_cvt_u32_f32 D, A", As::Bits, |a, _, _| x(f(a) as u32)),
    Case("v_cvt_f32_i32 D, A", As::F32(0), |a, _, _| r(i(a) as f32)),
    Case("v_cvt_f32_u32 D, A", As::F32(0), |a, _, _| r(u(a) as f32)),
    Case("v_cvt_f16_f32 D, A", As::F16(0), |a, _, _| rh(f64::from(f(a)))),
    Case("v_cvt_f32_f16 D, A", As::F32(0), |a, _, _| r(h(a))),
    Case("v_cvt_f32_ubyte2 D, A", As::F32(0), |a, _, _| r((u(a) >> 16 & 255) as f32)),
    Case("v_cvt_f64_f32 DD, A", As::F64(0), |a, _, _| f64::from(f(a)).to_bits()),
    Case("v_cvt_f32_f64 D, AA", As::F32(0), |a, _, _| r(d(a) as f32)),
    Case("v_cvt_i32_f64 D, AA", As::Bits, |a, _, _| w(d(a) as i32)),
    Case("v_cvt_f64_i32 DD, A", As::F64(0), |a, _, _| f64::from(i(a)).to_bits()),
    Case("v_add_f64 DD, AA, BB", As::F64(0), |a, b, _| (d(a) + d(b)).to_bits()),
    Case("v_mul_f64 DD, AA, -BB", As::F64(0), |a, b, _| (d(a) * -d(b)).to_bits()),
    Case("v_fma_f64 DD, AA, BB, CC", As::F64(0), |a, b, c| d(a).mul_add(d(b), d(c)).to_bits()),
    Case("v_max_f64 DD, AA, BB", As::F64(0), |a, b, _| d(a).max(d(b)).to_bits()),
    Case("v_rcp_f64 DD, AA", As::F64(1), |a, _, _| (1.0 / d(a)).to_bits()),
    Case("v_ldexp_f32 D, A, 5", As::F32(0), |a, _, _| r((f64::from(f(a)) * 32.0) as f32)),
    Case("v_add_f16 D, A, B", As::F16(0), |a, b, _| rh(f64::from(h(a)) + f64::from(h(b)))),
    Case("v_mul_f16 D, A, B", As::F16(0), |a, b, _| rh(f64::from(h(a)) * f64::from(h(b)))),
    Case("v_max_f16 D, A, B", As::F16(0), |a, b, _| rh(f64::from(max(h(a), h(b))))),
    Case("v_pk_add_f16 D, A, B", As::F16x2, |a, b, _| {
        rh(f64::from(h(a)) + f64::from(h(b))) | rh(f64::from(h(a >> 16)) + f64::from(h(b >> 16))) << 16
    }),
    Case("v_pk_mul_f16 D, A, B op_sel:[1,0] op_sel_hi:[0,1]", As::F16x2, |a, b, _| {
        rh(f64::from(h(a >> 16)) * f64::from(h(b))) | rh(f64::from(h(a)) * f64::from(h(b >> 16))) << 16
    }),
    Case("v_pk_fma_f16 D, A, B, C neg_lo:[0,0,1] neg_hi:[1,0,0]", As::F16x2, |a, b, c| {
        let g = |p: f32, q: f32, s: f32| rh(f64::from(p).mul_add(f64::from(q), f64::from(s)));
        g(h(a), h(b), -h(c)) | g(-h(a >> 16), h(b >> 16), h(c >> 16)) << 16
    }),
    Case("v_pk_max_f16 D, A, B", As::F16x2, |a, b, _| rh(f64::from(max(h(a), h(b)))) | rh(f64::from(max(h(a >> 16), h(b >> 16)))) << 16),
    Case("v_pk_fma_f32 DD, AA, BB, CC", As::F32x2, |a, b, c| {
        r(f(a).mul_add(f(b), f(c))) | r(f(a >> 32).mul_add(f(b >> 32), f(c >> 32))) << 32
    }),
    Case("v_pk_mul_f32 DD, AA, BB op_sel:[1,0] op_sel_hi:[0,0]", As::F32x2, |a, b, _| r(f(a >> 32) * f(b)) | r(f(a) * f(b)) << 32),
    Case("v_pk_add_f32 DD, AA, BB neg_lo:[0,1] neg_hi:[0,1]", As::F32x2, |a, b, _| r(f(a) - f(b)) | r(f(a >> 32) - f(b >> 32)) << 32),
    Case("v_pk_mov_b32 DD, AA, BB op_sel:[1,0]", As::Bits, |a, b, _| a >> 32 | b << 32),
    Case("v_fma_mix_f32 D, A, B, C op_sel:[0,1,0] op_sel_hi:[1,1,0]", As::F32(0), |a, b, c| r(h(a).mul_add(h(b >> 16), f(c)))),
    Case("v_fma_mixhi_f16 D, A, B, C op_sel_hi:[1,1,1]", As::F16x2, |a, b, c| c & 0xffff | rh(f64::from(h(a).mul_add(h(b), h(c)))) << 16),
    Case("v_cvt_pkrtz_f16_f32 D, A, B", As::F16x2, |a, b, _| {
        let z = |v: f32| {
            let n = rh(f64::from(v));
            let over = f64::from(h(n)).abs() > f64::from(v).abs() && !v.is_infinite();
            if v.is_nan() {
                n
            } else if over {
                n - 1
            } else {
                n
            }
        };
        z(f(a)) | z(f(b)) << 16
    }),
    Case("v_pack_b32_f16 D, A, B op_sel:[1,0,0]", As::Bits, |a, b, _| a >> 16 & 0xffff | (b & 0xffff) << 16),
    Case("v_dot2_f32_f16 D, A, B, C", As::F32(1), |a, b, c| {
        r((f64::from(h(a)) * f64::from(h(b)) + f64::from(h(a >> 16)) * f64::from(h(b >> 16)) + f64::from(f(c))) as f32)
    }),
    Case("v_dot4_i32_i8 D, A, B, C", As::Bits, |a, b, c| {
        w((0..4).fold(i(c), |s, n| s.wrapping_add(i32::from((a >> (8 * n)) as i8) * i32::from((b >> (8 * n)) as i8))))
    }),
    Case("v_cmp_class_f32 vcc, A, B\ns_nop 1\nv_cndmask_b32 D, 0, 1, vcc", As::Bits, |a, b, _| {
        let v = f(a);
        let bit = if v.is_nan() {
            u32::from(v.to_bits() & 1 << 22 != 0)
        } else {
            let k = if v.is_infinite() {
                0
            } else if v == 0.0 {
                3
            } else if v.is_subnormal() {
                2
            } else {
                1
            };
            if v.is_sign_negative() { 2 + k } else { 9 - k }
        };
        b >> bit & 1
    }),
    Case("v_cmp_lt_f32 vcc, A, B\ns_nop 1\nv_cndmask_b32 D, 0, 1, vcc", As::Bits, |a, b, _| u64::from(f(a) < f(b))),
    Case("v_cmp_nge_f32 s[20:21], A, |B|\ns_nop 1\nv_cndmask_b32 D, 0, 1, s[20:21]", As::Bits, |a, b, _| {
        u64::from(f(a).partial_cmp(&f(b).abs()).is_none_or(|o| o.is_lt()))
    }),
    Case("v_cmp_lg_f64 vcc, AA, BB\ns_nop 1\nv_cndmask_b32 D, 0, 1, vcc", As::Bits, |a, b, _| {
        u64::from(d(a).partial_cmp(&d(b)).is_some_and(|o| o.is_ne()))
    }),
    Case("v_cmp_gt_i32 vcc, A, B\ns_nop 1\nv_cndmask_b32 D, A, B, vcc", As::Bits, |a, b, _| if i(a) > i(b) { x(u(b)) } else { x(u(a)) }),
    Case("v_cmp_le_u64 vcc, AA, BB\ns_nop 1\nv_cndmask_b32 D, 0, 1, vcc", As::Bits, |a, b, _| u64::from(a <= b)),
    Case("v_cmp_lt_i16 vcc, A, B\ns_nop 1\nv_cndmask_b32 D, 0, 1, vcc", As::Bits, |a, b, _| u64::from((a as i16) < b as i16)),
    Case("v_add_u32 D, A, B", As::Bits, |a, b, _| x(u(a).wrapping_add(u(b)))),
    Case("v_sub_u32 D, A, B clamp", As::Bits, |a, b, _| x(u(a).saturating_sub(u(b)))),
    Case("v_add_i32 D, A, B clamp", As::Bits, |a, b, _| w(i(a).saturating_add(i(b)))),
    Case("v_add_co_u32 D, vcc, A, B\ns_nop 1\nv_addc_co_u32 D, vcc, A, B, vcc", As::Bits, |a, b, _| {
        x(u(a).wrapping_add(u(b)).wrapping_add(u32::from(u(a).overflowing_add(u(b)).1)))
    }),
    Case("v_sub_co_u32 D, vcc, A, B\ns_nop 1\nv_subb_co_u32 D, vcc, A, B, vcc", As::Bits, |a, b, _| {
        x(u(a).wrapping_sub(u(b)).wrapping_sub(u32::from(u(a) < u(b))))
    }),
    Case("v_mul_lo_u32 D, A, B", As::Bits, |a, b, _| x(u(a).wrapping_mul(u(b)))),
    Case("v_mul_hi_u32 D, A, B", As::Bits, |a, b, _| (x(u(a)) * x(u(b))) >> 32),
    Case("v_mul_hi_i32 D, A, B", As::Bits, |a, b, _| w(((i64::from(i(a)) * i64::from(i(b))) >> 32) as i32)),
    Case("v_mul_u32_u24 D, A, B", As::Bits, |a, b, _| x(((a & 0xff_ffff) * (b & 0xff_ffff)) as u32)),
    Case("v_mul_i32_i24 D, A, B", As::Bits, |a, b, _| w((i64::from(i(a) << 8 >> 8) * i64::from(i(b) << 8 >> 8)) as i32)),
    Case("v_mad_u64_u32 DD, vcc, A, B, CC", As::Bits, |a, b, c| (x(u(a)) * x(u(b))).wrapping_add(c)),
    Case("v_mad_i64_i32 DD, vcc, A, B, CC", As::Bits, |a, b, c| (i64::from(i(a)) * i64::from(i(b))).wrapping_add(c as i64) as u64),
    Case("v_lshl_add_u64 DD, AA, 3, CC", As::Bits, |a, _, c| (a << 3).wrapping_add(c)),
    Case("v_lshlrev_b32 D, A, B", As::Bits, |a, b, _| x(u(b) << (a & 31))),
    Case("v_lshrrev_b32 D, A, B", As::Bits, |a, b, _| x(u(b) >> (a & 31))),
    Case("v_ashrrev_i32 D, A, B", As::Bits, |a, b, _| w(i(b) >> (a & 31))),
    Case("v_lshlrev_b64 DD, A, BB", As::Bits, |a, b, _| b << (a & 63)),
    Case("v_ashrrev_i64 DD, A, BB", As::Bits, |a, b, _| (b as i64 >> (a & 63)) as u64),
    Case("v_and_or_b32 D, A, B, C", As::Bits, |a, b, c| x(u(a) & u(b) | u(c))),
    Case("v_lshl_or_b32 D, A, 7, C", As::Bits, |a, _, c| x(u(a) << 7 | u(c))),
    Case("v_add3_u32 D, A, B, C", As::Bits, |a, b, c| x(u(a).wrapping_add(u(b)).wrapping_add(u(c)))),
    Case("v_lshl_add_u32 D, A, 4, C", As::Bits, |a, _, c| x((u(a) << 4).wrapping_add(u(c)))),
    Case("v_add_lshl_u32 D, A, B, 4", As::Bits, |a, b, _| x(u(a).wrapping_add(u(b)) << 4)),
    Case("v_xad_u32 D, A, B, C", As::Bits, |a, b, c| x((u(a) ^ u(b)).wrapping_add(u(c)))),
    Case("v_bfi_b32 D, A, B, C", As::Bits, |a, b, c| x(u(a) & u(b) | !u(a) & u(c))),
    Case("v_bfe_u32 D, A, 5, 9", As::Bits, |a, _, _| x(u(a) >> 5 & 0x1ff)),
    Case("v_bfe_i32 D, A, 5, 9", As::Bits, |a, _, _| w(i(a) << 18 >> 23)),
    Case("v_bfe_u32 D, A, B, C", As::Bits, |a, b, c| x((x(u(a)) >> (b & 31) & ((1u64 << (c & 31)) - 1)) as u32)),
    Case("v_perm_b32 D, A, B, C", As::Bits, |a, b, c| {
        let all: Vec<u8> = [u(b).to_le_bytes(), u(a).to_le_bytes()].concat();
        x(u32::from_le_bytes(u(c).to_le_bytes().map(|s| match s {
            0..=7 => all[usize::from(s)],
            8..=11 => {
                if all[usize::from(2 * (s - 8) + 1)] >= 128 {
                    255
                } else {
                    0
                }
            }
            12 => 0,
            _ => 255,
        })))
    }),
    Case("v_alignbit_b32 D, A, B, C", As::Bits, |a, b, c| x(((x(u(a)) << 32 | x(u(b))) >> (c & 31)) as u32)),
    Case("v_alignbyte_b32 D, A, B, C", As::Bits, |a, b, c| x(((x(u(a)) << 32 | x(u(b))) >> (8 * (c & 3))) as u32)),
    Case("v_bfrev_b32 D, A", As::Bits, |a, _, _| x(u(a).reverse_bits())),
    Case("v_ffbh_u32 D, A", As::Bits, |a, _, _| if u(a) == 0 { x(u32::MAX) } else { x(u(a).leading_zeros()) }),
    Case("v_ffbl_b32 D, A", As::Bits, |a, _, _| if u(a) == 0 { x(u32::MAX) } else { x(u(a).trailing_zeros()) }),
    Case("v_bcnt_u32_b32 D, A, B", As::Bits, |a, b, _| x(u(a).count_ones().wrapping_add(u(b)))),
    Case("v_xnor_b32 D, A, B", As::Bits, |a, b, _| x(!(u(a) ^ u(b)))),
    Case("v_max3_i32 D, A, B, C", As::Bits, |a, b, c| w(i(a).max(i(b)).max(i(c)))),
    Case("v_med3_u32 D, A, B, C", As::Bits, |a, b, c| {
        let mut v = [u(a), u(b), u(c)];
        v.sort_unstable();
        x(v[1])
    }),
    Case("v_pk_add_u16 D, A, B", As::Bits, |a, b, _| {
        x(u32::from((a as u16).wrapping_add(b as u16)) | u32::from(((a >> 16) as u16).wrapping_add((b >> 16) as u16)) << 16)
    }),
    Case("v_pk_ashrrev_i16 D, 3, A op_sel_hi:[0,1]", As::Bits, |a, _, _| {
        x(u32::from((a as i16 >> 3) as u16) | u32::from(((a >> 16) as i16 >> 3) as u16) << 16)
    }),
    Case("v_pk_max_i16 D, A, B", As::Bits, |a, b, _| {
        x(u32::from((a as i16).max(b as i16) as u16) | u32::from(((a >> 16) as i16).max((b >> 16) as i16) as u16) << 16)
    }),
    Case("v_mul_lo_u16 D, A, B", As::Bits, |a, b, _| x(u32::from((a as u16).wrapping_mul(b as u16)))),
    Case("v_mad_u16 D, A, B, C", As::Bits, |a, b, c| {
        x(u(c) & 0xffff_0000 | u32::from((a as u16).wrapping_mul(b as u16).wrapping_add(c as u16)))
    }),
    Case("v_add_f32_sdwa D, A, B dst_sel:DWORD src0_sel:DWORD src1_sel:DWORD", As::F32(0), |a, b, _| r(f(a) + f(b))),
    Case("v_add_u32_sdwa D, A, B dst_sel:DWORD src0_sel:BYTE_1 src1_sel:WORD_1", As::Bits, |a, b, _| x((u(a) >> 8 & 255) + (u(b) >> 16))),
    Case("v_mov_b32_sdwa D, sext(A) dst_sel:DWORD src0_sel:BYTE_2", As::Bits, |a, _, _| w(i32::from((a >> 16) as i8))),
    Case(
        "v_mov_b32_sdwa D, A dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
        As::Bits,
        |a, _, c| x(u(c) & 0xffff | u(a) << 16),
    ),
    Case("v_or_b32_sdwa D, A, B dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD", As::Bits, |a, b, _| {
        (a | b) << 8 & 0xff00
    }),
    Case("v_mbcnt_lo_u32_b32 D, -1, 0\nv_mbcnt_hi_u32_b32 D, -1, D\nv_sub_u32 D, D, v40", As::Bits, |_, _, _| 0),
    Case("v_frexp_mant_f32 D, A", As::F32(0), |a, _, _| {
        let v = f(a);
        if v == 0.0 || !v.is_finite() {
            return r(v);
        }
        let mut m = f64::from(v);
        while m.abs() >= 1.0 {
            m /= 2.0;
        }
        while m.abs() < 0.5 {
            m *= 2.0;
        }
        r(m as f32)
    }),
    Case("v_cvt_pk_u8_f32 D, A, 1, B", As::Bits, |a, b, _| x(u(b) & !0xff00 | u32::from(f(a).round_ties_even() as u8) << 8)),
    Case("v_sad_u8 D, A, B, C", As::Bits, |a, b, c| {
        x((0..4).fold(u(c), |s, n| s.wrapping_add((u(a) >> (8 * n) & 255).abs_diff(u(b) >> (8 * n) & 255))))
    }),
    // A division as compilers write it; the quotient is correctly rounded.
    Case(DIVISION, As::F32(0), |a, b, _| r(f(a) / f(b))),
];

/// `A / B` with denormals on.
const DIVISION: &str = "v_div_scale_f32 v20, s[20:21], B, B, A
v_div_scale_f32 v21, vcc, A, B, A
v_rcp_f32 v22, v20
s_nop 0
v_fma_f32 v23, -v20, v22, 1.0
v_fma_f32 v22, v23, v22, v22
v_mul_f32 v24, v21, v22
v_fma_f32 v25, -v20, v24, v21
v_fma_f32 v24, v25, v22, v24
v_fma_f32 v23, -v20, v24, v21
s_nop 3
v_div_fmas_f32 v22, v23, v22, v24
v_div_fixup_f32 D, v22, B, A";

const SPECIAL: [u32; 24] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f7f_ffff,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x3f00_0000,
    0x4b80_0001,
    0x4f00_0000,
    0xcf00_0000,
    0x7c00_3c00,
    0xfc00_0001,
    0x7bff_8000,
    0x03ff_0400,
    0xffff_ffff,
    0x7fff_ffff,
    31,
    0x477f_f000,
];

fn data(seed: u64, n: usize) -> Vec<u64> {
    let mut rng = Random(seed);
    (0..n)
        .map(|k| match k % 4 {
            0 => u64::from(SPECIAL[rng.next() as usize % 24]) | u64::from(SPECIAL[rng.next() as usize % 24]) << 32,
            1 => rng.next(),
            2 => u64::from((rng.unit() * 100.0).to_bits()) | u64::from((rng.unit() * 8.0).to_bits()) << 32,
            // Halves of moderate size, and small whole numbers above.
            _ => (rng.next() & 0x83ff_83ff | 0x3800_3800) | (rng.next() & 0xff) << 32,
        })
        .collect()
}

fn equal(how: As, a: u64, b: u64) -> bool {
    let near = |x: f64, y: f64, bits: (u64, u64), ulps: u64| {
        x.is_nan() && y.is_nan() || bits.0 == bits.1 || x.is_sign_negative() == y.is_sign_negative() && bits.0.abs_diff(bits.1) <= ulps
    };
    let f32s = |p: u64, q: u64, ulps| near(f64::from(f(p)), f64::from(f(q)), (u64::from(u(p)), u64::from(u(q))), ulps);
    let f16s = |p: u64, q: u64, ulps| near(f64::from(h(p)), f64::from(h(q)), (p & 0xffff, q & 0xffff), ulps);
    match how {
        As::Bits => a == b,
        As::F16(n) => f16s(a, b, n) && a >> 16 == b >> 16,
        As::F32(n) => f32s(a, b, n) && a >> 32 == b >> 32,
        As::F64(n) => near(d(a), d(b), (a, b), n),
        As::F32x2 => f32s(a, b, 0) && f32s(a >> 32, b >> 32, 0),
        As::F16x2 => f16s(a, b, 0) && f16s(a >> 16, b >> 16, 0) && a >> 32 == b >> 32,
    }
}

/// The operands of a text as registers.
fn substituted(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (mnemonic, rest) = line.split_once(' ').unwrap_or((line, ""));
        let chars: Vec<char> = rest.chars().collect();
        let mut operands = String::new();
        let mut k = 0;
        while k < chars.len() {
            let word = |n: usize| chars.get(n).is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_');
            let alone = (k == 0 || !word(k - 1)) && "ABCD".contains(chars[k]);
            let double = alone && chars.get(k + 1) == Some(&chars[k]);
            if alone && !word(k + 1 + usize::from(double)) {
                let n = match chars[k] {
                    'D' => 10,
                    'A' => 2,
                    'B' => 4,
                    _ => 6,
                };
                operands += &if double { format!("v[{n}:{}]", n + 1) } else { format!("v{n}") };
                k += 1 + usize::from(double);
            } else {
                operands.push(chars[k]);
                k += 1;
            }
        }
        out += &format!("{mnemonic} {operands}\n");
    }
    out
}

#[test]
fn beside_plain_rust() {
    let groups = 16u32;
    let n = 64 * groups as usize;
    let (a, b, c) = (data(1, n), data(2, n), data(3, n));
    let mut body = String::from(
        "s_load_dwordx8 s[4:11], s[0:1], 0x0\nv_mov_b32 v40, v0\ns_lshl_b32 s12, s2, 6\nv_or_b32 v1, s12, v0\nv_lshlrev_b32 v1, 3, v1\n\
         s_waitcnt lgkmcnt(0)\nglobal_load_dwordx2 v[2:3], v1, s[4:5]\nglobal_load_dwordx2 v[4:5], v1, s[6:7]\n\
         global_load_dwordx2 v[6:7], v1, s[8:9]\ns_waitcnt vmcnt(0)\n",
    );
    for case in CASES {
        body += "v_mov_b32 v10, v6\nv_mov_b32 v11, 0\ns_nop 4\n";
        body += &substituted(case.0);
        body += &format!("s_nop 4\nglobal_store_dwordx2 v1, v[10:11], s[10:11]\ns_add_u32 s10, s10, {}\ns_addc_u32 s11, s11, 0\n", 8 * n);
    }
    let Some(object) = assemble(&kernel(&body, Needs::default()), Chip::Gfx942) else { return };
    let raw = |v: &[u64]| Buf::In(bytes(v, u64::to_le_bytes));
    let buffers = vec![raw(&a), raw(&b), raw(&c), Buf::Out(8 * n * CASES.len())];
    let (out, _) = launch(&object, groups, 64, buffers, SimConfig::default()).unwrap_or_else(|f| panic!("{f}"));
    let got: Vec<u64> = out[3].chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes"))).collect();
    let mut wrong = Vec::new();
    for (k, case) in CASES.iter().enumerate() {
        for j in 0..n {
            let want = (case.2)(a[j], b[j], c[j]);
            if !equal(case.1, got[k * n + j], want) {
                wrong.push(format!("{}: of {:#x}, {:#x}, {:#x}: {:#x}, not {want:#x}", case.0, a[j], b[j], c[j], got[k * n + j]));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}
