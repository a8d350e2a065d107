//! The scalar instructions on registers: names, numbers and what they compute.

use crate::num::{ones, sext};

/// Which instructions need more than their operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Special {
    /// None of the below.
    None,
    /// The result goes to EXEC too; the destination gets the old EXEC.
    SaveExec,
    /// The result goes to EXEC and the destination.
    WriteExec,
    /// The destination is kept if SCC is clear.
    CMov,
    /// The destination is a source as well.
    DstSource,
    GetPc,
    SetPc,
    SwapPc,
    Call,
    GetReg,
    SetReg,
    SetRegImm,
    /// Known, and not simulated.
    Refused,
}

/// What is computed: two sources and SCC give the result and SCC.
pub(crate) type Eval = fn(u64, u64, bool) -> (u64, bool);

/// The encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Enc {
    S1,
    S2,
    SC,
    SK,
}

/// A row of the table. Widths are in dwords; 0 is absent.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub name: &'static str,
    pub enc: Enc,
    pub op: u8,
    pub dst: u8,
    pub a: u8,
    pub b: u8,
    pub reads_scc: bool,
    pub writes_scc: bool,
    /// Each bit of the result depends on the same bit of the sources only.
    pub bitwise: bool,
    pub special: Special,
    pub eval: Eval,
}

const fn row(name: &'static str, enc: Enc, op: u8, widths: [u8; 3], scc: &[u8; 2], eval: Eval) -> Row {
    let [dst, a, b] = widths;
    let (reads_scc, writes_scc) = (scc[0] == b'r', scc[1] == b'w');
    Row { name, enc, op, dst, a, b, reads_scc, writes_scc, bitwise: false, special: Special::None, eval }
}

const fn bits(name: &'static str, op: u8, w: u8, eval: Eval) -> Row {
    Row { bitwise: true, ..row(name, Enc::S2, op, [w, w, w], b"-w", eval) }
}

const fn special(name: &'static str, enc: Enc, op: u8, widths: [u8; 3], special: Special) -> Row {
    Row { special, ..row(name, enc, op, widths, b"--", |a, _, _| (a, false)) }
}

const fn exec(name: &'static str, op: u8, save: bool, eval: Eval) -> Row {
    Row {
        bitwise: true,
        special: if save { Special::SaveExec } else { Special::WriteExec },
        ..row(name, Enc::S1, op, [2, 2, 0], b"-w", eval)
    }
}

fn lo(v: u64) -> u64 {
    v & 0xffff_ffff
}

fn s(v: u64) -> i64 {
    i64::from(v as i32)
}

fn with_overflow(r: i64) -> (u64, bool) {
    (lo(r as u64), r != i64::from(r as i32))
}

fn nz(v: u64) -> (u64, bool) {
    (v, v != 0)
}

fn bfe(a: u64, b: u64, width: u32, signed: bool) -> (u64, bool) {
    let (at, n) = ((b as u32) & (width - 1), (b >> 16 & 0x7f) as u32);
    let v = if signed && n > 0 && at + n < width {
        (sext(a >> at, n)) as u64
    } else if signed {
        if n == 0 { 0 } else { (sext(a, width) >> at) as u64 }
    } else {
        a >> at & ones(n)
    };
    nz(v & ones(width))
}

fn find(v: u64, none_bits: u32) -> u64 {
    if v & ones(none_bits) == 0 { lo(u64::MAX) } else { u64::from(v.trailing_zeros()) }
}

/// Leading bits that equal the sign, or all ones if all do.
fn flbit_signed(v: u64, width: u32) -> u64 {
    let x = sext(v, width);
    let y = if x < 0 { !x } else { x } as u64;
    if y == 0 { lo(u64::MAX) } else { u64::from(y.leading_zeros() - (64 - width)) }
}

fn wqm(v: u64) -> u64 {
    (0..16).filter(|q| v >> (4 * q) & 15 != 0).fold(0, |m, q| m | 15 << (4 * q))
}

fn quadmask(v: u64) -> u64 {
    (0..16).filter(|q| v >> (4 * q) & 15 != 0).fold(0, |m, q| m | 1 << q)
}

use Enc::{S1, S2, SC, SK};
use Special as Sp;

/// All rows.
pub(crate) static ROWS: &[Row] = &[
    row("s_add_u32", S2, 0, [1, 1, 1], b"-w", |a, b, _| (lo(a + b), a + b > u64::from(u32::MAX))),
    row("s_sub_u32", S2, 1, [1, 1, 1], b"-w", |a, b, _| (lo(a.wrapping_sub(b)), b > a)),
    row("s_add_i32", S2, 2, [1, 1, 1], b"-w", |a, b, _| with_overflow(s(a) + s(b))),
    row("s_sub_i32", S2, 3, [1, 1, 1], b"-w", |a, b, _| with_overflow(s(a) - s(b))),
    row("s_addc_u32", S2, 4, [1, 1, 1], b"rw", |a, b, c| {
        let r = a + b + u64::from(c);
        (lo(r), r >> 32 != 0)
    }),
    row("s_subb_u32", S2, 5, [1, 1, 1], b"rw", |a, b, c| (lo(a.wrapping_sub(b).wrapping_sub(u64::from(c))), b + u64::from(c) > a)),
    row("s_min_i32", S2, 6, [1, 1, 1], b"-w", |a, b, _| (lo(s(a).min(s(b)) as u64), s(a) < s(b))),
    row("s_min_u32", S2, 7, [1, 1, 1], b"-w", |a, b, _| (a.min(b), a < b)),
    row("s_max_i32", S2, 8, [1, 1, 1], b"-w", |a, b, _| (lo(s(a).max(s(b)) as u64), s(a) > s(b))),
    row("s_max_u32", S2, 9, [1, 1, 1], b"-w", |a, b, _| (a.max(b), a > b)),
    row("s_cselect_b32", S2, 10, [1, 1, 1], b"r-", |a, b, c| (if c { a } else { b }, false)),
    row("s_cselect_b64", S2, 11, [2, 2, 2], b"r-", |a, b, c| (if c { a } else { b }, false)),
    bits("s_and_b32", 12, 1, |a, b, _| nz(a & b)),
    bits("s_and_b64", 13, 2, |a, b, _| nz(a & b)),
    bits("s_or_b32", 14, 1, |a, b, _| nz(a | b)),
    bits("s_or_b64", 15, 2, |a, b, _| nz(a | b)),
    bits("s_xor_b32", 16, 1, |a, b, _| nz(a ^ b)),
    bits("s_xor_b64", 17, 2, |a, b, _| nz(a ^ b)),
    bits("s_andn2_b32", 18, 1, |a, b, _| nz(a & !b)),
    bits("s_andn2_b64", 19, 2, |a, b, _| nz(a & !b)),
    bits("s_orn2_b32", 20, 1, |a, b, _| nz(lo(a | !b))),
    bits("s_orn2_b64", 21, 2, |a, b, _| nz(a | !b)),
    bits("s_nand_b32", 22, 1, |a, b, _| nz(lo(!(a & b)))),
    bits("s_nand_b64", 23, 2, |a, b, _| nz(!(a & b))),
    bits("s_nor_b32", 24, 1, |a, b, _| nz(lo(!(a | b)))),
    bits("s_nor_b64", 25, 2, |a, b, _| nz(!(a | b))),
    bits("s_xnor_b32", 26, 1, |a, b, _| nz(lo(!(a ^ b)))),
    bits("s_xnor_b64", 27, 2, |a, b, _| nz(!(a ^ b))),
    row("s_lshl_b32", S2, 28, [1, 1, 1], b"-w", |a, b, _| nz(lo(a << (b & 31)))),
    row("s_lshl_b64", S2, 29, [2, 2, 1], b"-w", |a, b, _| nz(a << (b & 63))),
    row("s_lshr_b32", S2, 30, [1, 1, 1], b"-w", |a, b, _| nz(a >> (b & 31))),
    row("s_lshr_b64", S2, 31, [2, 2, 1], b"-w", |a, b, _| nz(a >> (b & 63))),
    row("s_ashr_i32", S2, 32, [1, 1, 1], b"-w", |a, b, _| nz(lo((s(a) >> (b & 31)) as u64))),
    row("s_ashr_i64", S2, 33, [2, 2, 1], b"-w", |a, b, _| nz((a as i64 >> (b & 63)) as u64)),
    row("s_bfm_b32", S2, 34, [1, 1, 1], b"--", |a, b, _| (lo(ones((a & 31) as u32) << (b & 31)), false)),
    row("s_bfm_b64", S2, 35, [2, 1, 1], b"--", |a, b, _| (ones((a & 63) as u32) << (b & 63), false)),
    row("s_mul_i32", S2, 36, [1, 1, 1], b"--", |a, b, _| (lo(a.wrapping_mul(b)), false)),
    row("s_bfe_u32", S2, 37, [1, 1, 1], b"-w", |a, b, _| bfe(a, b, 32, false)),
    row("s_bfe_i32", S2, 38, [1, 1, 1], b"-w", |a, b, _| bfe(a, b, 32, true)),
    row("s_bfe_u64", S2, 39, [2, 2, 1], b"-w", |a, b, _| bfe(a, b, 64, false)),
    row("s_bfe_i64", S2, 40, [2, 2, 1], b"-w", |a, b, _| bfe(a, b, 64, true)),
    special("s_cbranch_g_fork", S2, 41, [0, 2, 2], Sp::Refused),
    row("s_absdiff_i32", S2, 42, [1, 1, 1], b"-w", |a, b, _| nz(lo(s(a).abs_diff(s(b))))),
    special("s_rfe_restore_b64", S2, 43, [0, 2, 1], Sp::Refused),
    row("s_mul_hi_u32", S2, 44, [1, 1, 1], b"--", |a, b, _| ((a * b) >> 32, false)),
    row("s_mul_hi_i32", S2, 45, [1, 1, 1], b"--", |a, b, _| (lo(((s(a) * s(b)) >> 32) as u64), false)),
    row("s_lshl1_add_u32", S2, 46, [1, 1, 1], b"-w", |a, b, _| (lo((a << 1) + b), ((a << 1) + b) >> 32 != 0)),
    row("s_lshl2_add_u32", S2, 47, [1, 1, 1], b"-w", |a, b, _| (lo((a << 2) + b), ((a << 2) + b) >> 32 != 0)),
    row("s_lshl3_add_u32", S2, 48, [1, 1, 1], b"-w", |a, b, _| (lo((a << 3) + b), ((a << 3) + b) >> 32 != 0)),
    row("s_lshl4_add_u32", S2, 49, [1, 1, 1], b"-w", |a, b, _| (lo((a << 4) + b), ((a << 4) + b) >> 32 != 0)),
    row("s_pack_ll_b32_b16", S2, 50, [1, 1, 1], b"--", |a, b, _| (a & 0xffff | lo(b << 16), false)),
    row("s_pack_lh_b32_b16", S2, 51, [1, 1, 1], b"--", |a, b, _| (a & 0xffff | b & 0xffff_0000, false)),
    row("s_pack_hh_b32_b16", S2, 52, [1, 1, 1], b"--", |a, b, _| (a >> 16 | b & 0xffff_0000, false)),
    // One source.
    Row { bitwise: true, ..row("s_mov_b32", S1, 0, [1, 1, 0], b"--", |a, _, _| (a, false)) },
    Row { bitwise: true, ..row("s_mov_b64", S1, 1, [2, 2, 0], b"--", |a, _, _| (a, false)) },
    Row { reads_scc: true, ..special("s_cmov_b32", S1, 2, [1, 1, 0], Sp::CMov) },
    Row { reads_scc: true, ..special("s_cmov_b64", S1, 3, [2, 2, 0], Sp::CMov) },
    Row { bitwise: true, ..row("s_not_b32", S1, 4, [1, 1, 0], b"-w", |a, _, _| nz(lo(!a))) },
    Row { bitwise: true, ..row("s_not_b64", S1, 5, [2, 2, 0], b"-w", |a, _, _| nz(!a)) },
    row("s_wqm_b32", S1, 6, [1, 1, 0], b"-w", |a, _, _| nz(wqm(a))),
    row("s_wqm_b64", S1, 7, [2, 2, 0], b"-w", |a, _, _| nz(wqm(a))),
    row("s_brev_b32", S1, 8, [1, 1, 0], b"--", |a, _, _| (u64::from((a as u32).reverse_bits()), false)),
    row("s_brev_b64", S1, 9, [2, 2, 0], b"--", |a, _, _| (a.reverse_bits(), false)),
    row("s_bcnt0_i32_b32", S1, 10, [1, 1, 0], b"-w", |a, _, _| nz(u64::from((a as u32).count_zeros()))),
    row("s_bcnt0_i32_b64", S1, 11, [1, 2, 0], b"-w", |a, _, _| nz(u64::from(a.count_zeros()))),
    row("s_bcnt1_i32_b32", S1, 12, [1, 1, 0], b"-w", |a, _, _| nz(u64::from(a.count_ones()))),
    row("s_bcnt1_i32_b64", S1, 13, [1, 2, 0], b"-w", |a, _, _| nz(u64::from(a.count_ones()))),
    row("s_ff0_i32_b32", S1, 14, [1, 1, 0], b"--", |a, _, _| (find(lo(!a), 32), false)),
    row("s_ff0_i32_b64", S1, 15, [1, 2, 0], b"--", |a, _, _| (find(!a, 64), false)),
    row("s_ff1_i32_b32", S1, 16, [1, 1, 0], b"--", |a, _, _| (find(a, 32), false)),
    row("s_ff1_i32_b64", S1, 17, [1, 2, 0], b"--", |a, _, _| (find(a, 64), false)),
    row("s_flbit_i32_b32", S1, 18, [1, 1, 0], b"--", |a, _, _| {
        (if a == 0 { lo(u64::MAX) } else { u64::from((a as u32).leading_zeros()) }, false)
    }),
    row("s_flbit_i32_b64", S1, 19, [1, 2, 0], b"--", |a, _, _| (if a == 0 { lo(u64::MAX) } else { u64::from(a.leading_zeros()) }, false)),
    row("s_flbit_i32", S1, 20, [1, 1, 0], b"--", |a, _, _| (flbit_signed(a, 32), false)),
    row("s_flbit_i32_i64", S1, 21, [1, 2, 0], b"--", |a, _, _| (flbit_signed(a, 64), false)),
    row("s_sext_i32_i8", S1, 22, [1, 1, 0], b"--", |a, _, _| (lo(sext(a, 8) as u64), false)),
    row("s_sext_i32_i16", S1, 23, [1, 1, 0], b"--", |a, _, _| (lo(sext(a, 16) as u64), false)),
    Row { special: Sp::DstSource, ..row("s_bitset0_b32", S1, 24, [1, 1, 0], b"--", |a, d, _| (d & !(1 << (a & 31)), false)) },
    Row { special: Sp::DstSource, ..row("s_bitset0_b64", S1, 25, [2, 1, 0], b"--", |a, d, _| (d & !(1 << (a & 63)), false)) },
    Row { special: Sp::DstSource, ..row("s_bitset1_b32", S1, 26, [1, 1, 0], b"--", |a, d, _| (d | 1 << (a & 31), false)) },
    Row { special: Sp::DstSource, ..row("s_bitset1_b64", S1, 27, [2, 1, 0], b"--", |a, d, _| (d | 1 << (a & 63), false)) },
    special("s_getpc_b64", S1, 28, [2, 0, 0], Sp::GetPc),
    special("s_setpc_b64", S1, 29, [0, 2, 0], Sp::SetPc),
    special("s_swappc_b64", S1, 30, [2, 2, 0], Sp::SwapPc),
    special("s_rfe_b64", S1, 31, [0, 2, 0], Sp::Refused),
    exec("s_and_saveexec_b64", 32, true, |a, e, _| nz(a & e)),
    exec("s_or_saveexec_b64", 33, true, |a, e, _| nz(a | e)),
    exec("s_xor_saveexec_b64", 34, true, |a, e, _| nz(a ^ e)),
    exec("s_andn2_saveexec_b64", 35, true, |a, e, _| nz(a & !e)),
    exec("s_orn2_saveexec_b64", 36, true, |a, e, _| nz(a | !e)),
    exec("s_nand_saveexec_b64", 37, true, |a, e, _| nz(!(a & e))),
    exec("s_nor_saveexec_b64", 38, true, |a, e, _| nz(!(a | e))),
    exec("s_xnor_saveexec_b64", 39, true, |a, e, _| nz(!(a ^ e))),
    row("s_quadmask_b32", S1, 40, [1, 1, 0], b"-w", |a, _, _| nz(quadmask(a))),
    row("s_quadmask_b64", S1, 41, [2, 2, 0], b"-w", |a, _, _| nz(quadmask(a))),
    special("s_movrels_b32", S1, 42, [1, 1, 0], Sp::Refused),
    special("s_movrels_b64", S1, 43, [2, 2, 0], Sp::Refused),
    special("s_movreld_b32", S1, 44, [1, 1, 0], Sp::Refused),
    special("s_movreld_b64", S1, 45, [2, 2, 0], Sp::Refused),
    special("s_cbranch_join", S1, 46, [0, 2, 0], Sp::Refused),
    row("s_abs_i32", S1, 48, [1, 1, 0], b"-w", |a, _, _| nz(lo(s(a).unsigned_abs()))),
    special("s_set_gpr_idx_idx", S1, 50, [0, 1, 0], Sp::Refused),
    exec("s_andn1_saveexec_b64", 51, true, |a, e, _| nz(!a & e)),
    exec("s_orn1_saveexec_b64", 52, true, |a, e, _| nz(!a | e)),
    exec("s_andn1_wrexec_b64", 53, false, |a, e, _| nz(!a & e)),
    exec("s_andn2_wrexec_b64", 54, false, |a, e, _| nz(a & !e)),
    row("s_bitreplicate_b64_b32", S1, 55, [2, 1, 0], b"--", |a, _, _| ((0..32).fold(0, |m, i| m | ((a >> i & 1) * 3) << (2 * i)), false)),
    // Compares.
    row("s_cmp_eq_i32", SC, 0, [0, 1, 1], b"-w", |a, b, _| (0, a == b)),
    row("s_cmp_lg_i32", SC, 1, [0, 1, 1], b"-w", |a, b, _| (0, a != b)),
    row("s_cmp_gt_i32", SC, 2, [0, 1, 1], b"-w", |a, b, _| (0, s(a) > s(b))),
    row("s_cmp_ge_i32", SC, 3, [0, 1, 1], b"-w", |a, b, _| (0, s(a) >= s(b))),
    row("s_cmp_lt_i32", SC, 4, [0, 1, 1], b"-w", |a, b, _| (0, s(a) < s(b))),
    row("s_cmp_le_i32", SC, 5, [0, 1, 1], b"-w", |a, b, _| (0, s(a) <= s(b))),
    row("s_cmp_eq_u32", SC, 6, [0, 1, 1], b"-w", |a, b, _| (0, a == b)),
    row("s_cmp_lg_u32", SC, 7, [0, 1, 1], b"-w", |a, b, _| (0, a != b)),
    row("s_cmp_gt_u32", SC, 8, [0, 1, 1], b"-w", |a, b, _| (0, a > b)),
    row("s_cmp_ge_u32", SC, 9, [0, 1, 1], b"-w", |a, b, _| (0, a >= b)),
    row("s_cmp_lt_u32", SC, 10, [0, 1, 1], b"-w", |a, b, _| (0, a < b)),
    row("s_cmp_le_u32", SC, 11, [0, 1, 1], b"-w", |a, b, _| (0, a <= b)),
    row("s_bitcmp0_b32", SC, 12, [0, 1, 1], b"-w", |a, b, _| (0, a >> (b & 31) & 1 == 0)),
    row("s_bitcmp1_b32", SC, 13, [0, 1, 1], b"-w", |a, b, _| (0, a >> (b & 31) & 1 == 1)),
    row("s_bitcmp0_b64", SC, 14, [0, 2, 1], b"-w", |a, b, _| (0, a >> (b & 63) & 1 == 0)),
    row("s_bitcmp1_b64", SC, 15, [0, 2, 1], b"-w", |a, b, _| (0, a >> (b & 63) & 1 == 1)),
    special("s_setvskip", SC, 16, [0, 1, 1], Sp::Refused),
    special("s_set_gpr_idx_on", SC, 17, [0, 1, 1], Sp::Refused),
    row("s_cmp_eq_u64", SC, 18, [0, 2, 2], b"-w", |a, b, _| (0, a == b)),
    row("s_cmp_lg_u64", SC, 19, [0, 2, 2], b"-w", |a, b, _| (0, a != b)),
    // A constant of 16 bits: `b` is its sign extension; the destination is the first source where there is one.
    row("s_movk_i32", SK, 0, [1, 0, 0], b"--", |_, k, _| (k, false)),
    Row { reads_scc: true, ..special("s_cmovk_i32", SK, 1, [1, 0, 0], Sp::CMov) },
    row("s_cmpk_eq_i32", SK, 2, [0, 1, 0], b"-w", |a, k, _| (0, a == k)),
    row("s_cmpk_lg_i32", SK, 3, [0, 1, 0], b"-w", |a, k, _| (0, a != k)),
    row("s_cmpk_gt_i32", SK, 4, [0, 1, 0], b"-w", |a, k, _| (0, s(a) > s(k))),
    row("s_cmpk_ge_i32", SK, 5, [0, 1, 0], b"-w", |a, k, _| (0, s(a) >= s(k))),
    row("s_cmpk_lt_i32", SK, 6, [0, 1, 0], b"-w", |a, k, _| (0, s(a) < s(k))),
    row("s_cmpk_le_i32", SK, 7, [0, 1, 0], b"-w", |a, k, _| (0, s(a) <= s(k))),
    row("s_cmpk_eq_u32", SK, 8, [0, 1, 0], b"-w", |a, k, _| (0, a == k & 0xffff)),
    row("s_cmpk_lg_u32", SK, 9, [0, 1, 0], b"-w", |a, k, _| (0, a != k & 0xffff)),
    row("s_cmpk_gt_u32", SK, 10, [0, 1, 0], b"-w", |a, k, _| (0, a > k & 0xffff)),
    row("s_cmpk_ge_u32", SK, 11, [0, 1, 0], b"-w", |a, k, _| (0, a >= k & 0xffff)),
    row("s_cmpk_lt_u32", SK, 12, [0, 1, 0], b"-w", |a, k, _| (0, a < k & 0xffff)),
    row("s_cmpk_le_u32", SK, 13, [0, 1, 0], b"-w", |a, k, _| (0, a <= k & 0xffff)),
    row("s_addk_i32", SK, 14, [1, 1, 0], b"-w", |a, k, _| with_overflow(s(a) + s(k))),
    row("s_mulk_i32", SK, 15, [1, 1, 0], b"--", |a, k, _| (lo(a.wrapping_mul(k)), false)),
    special("s_cbranch_i_fork", SK, 16, [0, 2, 0], Sp::Refused),
    special("s_getreg_b32", SK, 17, [1, 0, 0], Sp::GetReg),
    special("s_setreg_b32", SK, 18, [0, 1, 0], Sp::SetReg),
    special("s_setreg_imm32_b32", SK, 20, [0, 0, 0], Sp::SetRegImm),
    special("s_call_b64", SK, 21, [2, 0, 0], Sp::Call),
];
