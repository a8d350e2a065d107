//! `mma.sync`.
//!
//! Fragments are gathered into small matrices by the PTX ISA layouts, multiplied, and scattered. Floating-point
//! products are exact in f64, their sum over k runs in f64, the accumulator is added there too, and the
//! result is rounded once. Hardware may sum in any order with less precision, so results agree
//! within an error bound, not bit by bit. Integer results are exact.
//!
//! ```text
//!   lane = 4 g + t      16-bit A (16 x 16):   reg i, half e -> row g + 8 (i & 1), k = 2 t + 8 (i >> 1) + e
//!                       16-bit B (16 x 8):    reg i, half e -> k = 2 t + 8 i + e, column g
//!                       32-bit C (16 x 8):    reg i         -> row g + 8 (i >> 1), column 2 t + (i & 1)
//! ```

use crate::num::{F16, bf16_to_f32, f16_to_f32, float8, round_f64};
use crate::program::op::Mma;
use crate::program::operand::MmaTy;
use crate::state::warp::{FULL, Warp};
use crate::types::{Round, Ty};
use smallvec::SmallVec;

/// Elements per register of an operand.
pub(crate) fn per_reg(t: MmaTy) -> usize {
    match t {
        MmaTy::F16 | MmaTy::Bf16 => 2,
        MmaTy::S8 | MmaTy::U8 | MmaTy::E4m3 | MmaTy::E5m2 => 4,
        MmaTy::Tf32 | MmaTy::F64 => 1,
    }
}

/// Element `e` of a register. 8-bit integers are exact in f64, and so are their sums here.
pub(crate) fn element(t: MmaTy, v: u64, e: usize) -> f64 {
    match t {
        MmaTy::F16 => f16_to_f32((v >> (16 * e)) as u16).into(),
        MmaTy::Bf16 => bf16_to_f32((v >> (16 * e)) as u16).into(),
        // The low 13 bits are ignored by the hardware.
        MmaTy::Tf32 => f32::from_bits(v as u32 & !0x1fff).into(),
        MmaTy::F64 => f64::from_bits(v),
        MmaTy::S8 => ((v >> (8 * e)) as i8).into(),
        MmaTy::U8 => ((v >> (8 * e)) as u8).into(),
        MmaTy::E4m3 => float8((v >> (8 * e)) as u8, 4),
        MmaTy::E5m2 => float8((v >> (8 * e)) as u8, 5),
    }
}

/// Executes with all 32 lanes.
pub(crate) fn exec(w: &mut Warp, o: &Mma) {
    let (mut a, mut b) = ([[0f64; 32]; 16], [[0f64; 8]; 32]);
    let (mut bad_row, mut bad_col) = (0u32, 0u32);
    let (pa, pb) = (per_reg(o.a_ty), per_reg(o.b_ty));
    let (k, m) = (o.k as usize, o.m as usize);
    // m8n8k4 has one A register and 8 rows; the others interleave rows first.
    let row_regs = m / 8;
    for (i, &r) in o.a.iter().enumerate() {
        let v = w.wide(r);
        let p = w.poison(r);
        for (l, &v) in v.iter().enumerate() {
            let (g, t) = (l >> 2, l & 3);
            let row = g + 8 * (i % row_regs);
            let k0 = pa * t + 4 * pa * (i / row_regs);
            for e in 0..pa {
                a[row][k0 + e] = element(o.a_ty, v, e);
            }
            bad_row |= (p >> l & 1) << row;
        }
    }
    for (i, &r) in o.b.iter().enumerate() {
        let v = w.wide(r);
        let p = w.poison(r);
        for (l, &v) in v.iter().enumerate() {
            let (g, t) = (l >> 2, l & 3);
            let k0 = pb * t + 4 * pb * i;
            for e in 0..pb {
                b[k0 + e][g] = element(o.b_ty, v, e);
            }
            bad_col |= (p >> l & 1) << g;
        }
    }
    let mut acc = [[0f64; 8]; 16];
    for (row, out) in a.iter().zip(acc.iter_mut()).take(m) {
        for (x, bs) in row.iter().zip(&b).take(k) {
            for n in 0..8 {
                out[n] += x * bs[n];
            }
        }
    }
    // C is read before D is written: D may name the same registers in another order.
    match o.acc {
        Ty::F16 => {
            let old: SmallVec<[([u32; 32], u32); 2]> = o.c.iter().map(|&c| (w.r32(c), w.poison(c))).collect();
            for (i, (&d, &(old, mut p))) in o.d.iter().zip(&old).enumerate() {
                let mut v = [0u32; 32];
                for l in 0..32 {
                    let (row, col) = ((l >> 2) + 8 * i, 2 * (l & 3));
                    for h in 0..2 {
                        let x = acc[row][col + h] + f64::from(f16_to_f32((old[l] >> (16 * h)) as u16));
                        v[l] |= (round_f64(x, F16, Round::Rn) as u32) << (16 * h);
                        p |= ((bad_row >> row | bad_col >> (col + h)) & 1) << l;
                    }
                }
                w.set_r(d, FULL, &v, p);
            }
        }
        Ty::F64 => {
            let old: SmallVec<[([u64; 32], u32); 2]> = o.c.iter().map(|&c| (w.d64(c), w.poison(c))).collect();
            for (i, (&d, &(old, mut p))) in o.d.iter().zip(&old).enumerate() {
                let mut v = [0u64; 32];
                for l in 0..32 {
                    let (row, col) = (l >> 2, 2 * (l & 3) + i);
                    v[l] = (acc[row][col] + f64::from_bits(old[l])).to_bits();
                    p |= ((bad_row >> row | bad_col >> col) & 1) << l;
                }
                w.set_d(d, FULL, &v, p);
            }
        }
        _ => {
            let old: SmallVec<[([u32; 32], u32); 4]> = o.c.iter().map(|&c| (w.r32(c), w.poison(c))).collect();
            for (i, (&d, &(old, mut p))) in o.d.iter().zip(&old).enumerate() {
                let mut v = [0u32; 32];
                for l in 0..32 {
                    let (row, col) = ((l >> 2) + 8 * (i >> 1), 2 * (l & 3) + (i & 1));
                    let x = acc[row][col];
                    v[l] = if o.acc == Ty::S32 {
                        let s = i64::from(old[l] as i32) + x as i64;
                        if o.sat { s.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { s as u32 }
                    } else {
                        let x = (x + f64::from(f32::from_bits(old[l]))) as f32;
                        if x.is_nan() { crate::num::NAN32 } else { x.to_bits() }
                    };
                    p |= ((bad_row >> row | bad_col >> col) & 1) << l;
                }
                w.set_r(d, FULL, &v, p);
            }
        }
    }
}
