//! What gfx950 adds. LLVM 19 does not know the chip: the instructions are given as dwords, and the object's flags are changed.

use crate::common::{Buf, Needs, Random, assemble, bytes, kernel, launch, u32s};
use tilelift_amdgcn_sim::{Chip, SimConfig, disassemble};

fn assemble_950(body: &str, needs: Needs) -> Option<Vec<u8>> {
    let mut object = assemble(&kernel(body, needs), Chip::Gfx942)?;
    // The low byte of the flags of the ELF header.
    assert_eq!(object[48], 0x4c);
    object[48] = 0x4f;
    Some(object)
}

/// Dwords as clang 22 encodes them.
#[test]
fn dwords_of_clang() {
    for (words, text) in [
        (&[0xd3ac_0800, 0x0802_2b14, 0xd3ad_0800, 0x0402_1904][..], "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]"),
        (&[0xd3ac_0000, 0x1002_2b14, 0xd3ae_8800, 0x3402_1904], "v_mfma_scale_f32_32x32x64_f8f6f4 a[0:15], v[4:11], a[12:19], a[0:15]"),
        (&[0xd3ad_0100, 0x0402_1904], "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]"),
        (&[0xd9c6_0008, 0x0000_0002], "ds_read_b64_tr_b16 v[0:1], v2 offset:8"),
        (&[0x7e00_b501], "v_permlane32_swap_b32 v0, v1"),
        (&[0xe05d_1010, 0x0302_0006], "buffer_load_dwordx4 v6, s[8:11], s3 offen offset:16 lds"),
        (&[0xd268_0000, 0x0002_0501], "v_cvt_pk_bf16_f32 v0, v1, v2"),
        (&[0xddf4_8000, 0x0002_0006], "global_load_lds_dwordx4 v6, s[2:3]"),
    ] {
        assert_eq!(disassemble(Chip::Gfx950, words), Some((text.to_owned(), words.len())));
    }
}

/// A row: number, side, depth, bits of an element, codes of 1, 2, 3 without sign, and whether results are integers.
struct Row(u32, usize, usize, usize, [u32; 3], bool);

const F16: [u32; 3] = [0x3c00, 0x4000, 0x4200];
const BF16: [u32; 3] = [0x3f80, 0x4000, 0x4040];
const FP8: [u32; 3] = [0x38, 0x40, 0x44];
const FP4: [u32; 3] = [2, 4, 5];

/// Runs a product with A in `v[2:9]`, B in `v[10:17]`, C in `v[20:35]`, D in `v[40:55]`, and the scales of A and B in `v60` and `v61`.
fn product(row: &Row, scaled: bool, format: u32) {
    let Row(op, m, k, bits, codes, ints) = *row;
    let mut random = Random(op.into());
    let mut number = |signed: bool| (random.next() >> 20) as i32 % 4 * if signed && random.next() >> 30 & 1 != 0 { 1 } else { -1 };
    let (per, n) = (m * k / 64, (m * k / 64 * bits).div_ceil(32));
    let results = m * m / 64;
    // Depth of an element: the lanes of a row hold consecutive runs; 8-bit elements of the mixed shapes lie in two.
    let depth =
        |group: usize, e: usize| if matches!(op, 45 | 46) && bits == 8 { k / 2 * (e / 16) + 16 * group + e % 16 } else { group * per + e };
    let code = |v: i32| match v {
        0 => 0,
        _ if ints => v as u32 & 0xff,
        _ => codes[v.unsigned_abs() as usize - 1] | if v < 0 { 1 << (bits - 1) } else { 0 },
    };
    let mut words = [vec![0u32; 64 * 8], vec![0u32; 64 * 8]];
    let mut values = [vec![0i32; m * k], vec![0i32; m * k]];
    for s in 0..2 {
        for lane in 0..64 {
            for e in 0..per {
                let v = number(true);
                values[s][lane % m * k + depth(lane / m, e)] = v;
                words[s][lane * 8 + e * bits / 32] |= code(v) << (e * bits % 32);
            }
        }
    }
    let scale = |s: usize, i: usize, block: usize| if scaled { [1, 2, 4][(i + block + s) % 3] } else { 1 };
    let mut scales = vec![0u32; 128];
    for lane in 0..64 {
        for s in 0..2 {
            // In the second byte.
            scales[2 * lane + s] = (127 + (scale(s, lane % m, lane / m) as u32).trailing_zeros()) << 8 | 0x55;
        }
    }
    let c: Vec<i32> = (0..64 * results).map(|_| number(true)).collect();
    let encode = |v: i32| if ints { v as u32 } else { (v as f32).to_bits() };
    let mut body = String::from(
        "s_load_dwordx8 s[4:11], s[0:1], 0x0\ns_load_dwordx2 s[12:13], s[0:1], 0x20\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32 v1, 5, v0\n",
    );
    for i in 0..8 {
        body += &format!(
            "global_load_dword v{}, v1, s[4:5] offset:{}\nglobal_load_dword v{}, v1, s[6:7] offset:{}\n",
            2 + i,
            4 * i,
            10 + i,
            4 * i
        );
    }
    body += &format!("v_mul_u32_u24 v1, {}, v0\n", 4 * results);
    (0..results).for_each(|i| body += &format!("global_load_dword v{}, v1, s[8:9] offset:{}\n", 20 + i, 4 * i));
    body += "v_lshlrev_b32 v1, 3, v0\nglobal_load_dwordx2 v[60:61], v1, s[12:13]\ns_waitcnt vmcnt(0)\ns_nop 4\n";
    if scaled {
        // The second byte: the low bit of the selection is set for both.
        body += &format!(".long {:#x}, {:#x}\n", 0xd3ac_0000u32 | 3 << 11, (256u32 + 60) | (256 + 61) << 9);
    }
    let first = 0xd380_0000u32 | op << 16 | 40 | format << 8;
    body += &format!(".long {first:#x}, {:#x}\n", 258u32 | (256 + 10) << 9 | (256 + 20) << 18 | format << 29);
    body += &format!("s_nop 15\ns_nop 15\nv_mul_u32_u24 v1, {}, v0\n", 4 * results);
    (0..results).for_each(|i| body += &format!("global_store_dword v1, v{}, s[10:11] offset:{}\n", 40 + i, 4 * i));
    let Some(object) = assemble_950(&body, Needs::default()) else { return };
    let raw = |w: &[u32]| Buf::In(bytes(w, u32::to_le_bytes));
    let addend: Vec<u32> = c.iter().map(|&v| encode(v)).collect();
    let buffers = vec![raw(&words[0]), raw(&words[1]), raw(&addend), Buf::Out(4 * 64 * results), raw(&scales)];
    let (out, _) = launch(&object, 1, 64, buffers, SimConfig::default()).unwrap_or_else(|f| panic!("{op}: {f}"));
    let got = u32s(&out[3]);
    assert!(n <= 8);
    for lane in 0..64 {
        for r in 0..results {
            let i = if m == 16 { 4 * (lane / 16) + r } else { 8 * (r / 4) + 4 * (lane / 32) + r % 4 };
            let j = lane % m;
            let sum: i32 = (0..k).map(|d| values[0][i * k + d] * values[1][j * k + d] * scale(0, i, d / 32) * scale(1, j, d / 32)).sum();
            assert_eq!(got[lane * results + r], encode(sum + c[lane * results + r]), "{op} scaled {scaled}: {i}, {j}");
        }
    }
}

#[test]
fn matrix_products() {
    product(&Row(84, 16, 32, 16, F16, false), false, 0);
    product(&Row(85, 32, 16, 16, F16, false), false, 0);
    product(&Row(53, 16, 32, 16, BF16, false), false, 0);
    product(&Row(55, 32, 16, 16, BF16, false), false, 0);
    product(&Row(54, 16, 64, 8, [0; 3], true), false, 0);
    product(&Row(56, 32, 32, 8, [0; 3], true), false, 0);
    for scaled in [false, true] {
        product(&Row(45, 16, 128, 8, FP8, false), scaled, 0);
        product(&Row(46, 32, 64, 8, FP8, false), scaled, 0);
        product(&Row(45, 16, 128, 4, FP4, false), scaled, 4);
        product(&Row(46, 32, 64, 4, FP4, false), scaled, 4);
    }
}

#[test]
fn lanes_change_places() {
    for (rows, word) in [(32u32, 0x7e00_b501u32 | 3 << 17), (16, 0x7e00_b301 | 3 << 17)] {
        // `v3` holds the lane, `v1` the lane and 100; the instruction is of `v3` and `v1`.
        let body = format!(
            "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_mov_b32 v3, v0\nv_add_u32 v1, 100, v0\nv_lshlrev_b32 v2, 3, v0\ns_waitcnt lgkmcnt(0)\n\
             .long {word:#x}\ns_nop 4\nv_mov_b32 v4, v3\nv_mov_b32 v5, v1\nglobal_store_dwordx2 v2, v[4:5], s[4:5]"
        );
        let Some(object) = assemble_950(&body, Needs::default()) else { return };
        let (out, _) = launch(&object, 1, 64, vec![Buf::Out(512)], SimConfig::default()).unwrap_or_else(|f| panic!("{f}"));
        let got = u32s(&out[0]);
        for l in 0..64 {
            let odd = l / rows % 2 == 1;
            let want = [if odd { l - rows + 100 } else { l }, if odd { l + 100 } else { l + rows }];
            assert_eq!(got[2 * l as usize..][..2], want, "{rows} {l}");
        }
    }
}
