//! Loads, stores and atomics on global memory, buffers, scratch and LDS; moves between lanes.

use crate::common::{Buf, Needs, assemble, bytes, kernel, launch, u32s};
use tilelift_amdgcn_sim::{Chip, FaultKind, Report, SimConfig};

/// Runs a body on one wave with an input of 64 numbers and an output of so many; `v1` is 4 times the lane, `s[4:5]` the input, `s[6:7]` the output.
fn run(body: &str, out: usize) -> Option<(Vec<u32>, Report)> {
    let text = format!(
        "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n\
         global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n{body}\n"
    );
    let needs = Needs { lds: 8192, scratch: 64, ..Needs::default() };
    let object = assemble(&kernel(&text, needs), Chip::Gfx942)?;
    let input: Vec<u32> = (0..64).map(|i| i * 0x0101_0101).collect();
    let buffers = vec![Buf::In(bytes(&input, u32::to_le_bytes)), Buf::In(vec![0; 4 * out])];
    let (b, report) = launch(&object, 1, 64, buffers, SimConfig::default()).unwrap_or_else(|f| panic!("{f}\n{body}"));
    Some((u32s(&b[1]), report))
}

/// A body that leaves a number per lane in `v3`.
fn lanes(body: &str, want: impl Fn(u32) -> u32) {
    let Some((got, _)) = run(&format!("{body}\ns_nop 4\nglobal_store_dword v1, v3, s[6:7]"), 64) else { return };
    assert_eq!(got, (0..64).map(want).collect::<Vec<u32>>(), "{body}");
}

/// What the input holds in a lane.
fn x(lane: u32) -> u32 {
    lane * 0x0101_0101
}

#[test]
fn widths_of_loads() {
    lanes("global_load_ubyte v3, v1, s[4:5] offset:1\ns_waitcnt vmcnt(0)", |l| l);
    lanes("global_load_sbyte v3, v1, s[4:5] offset:1\ns_waitcnt vmcnt(0)", |l| l);
    lanes("global_load_sshort v3, v1, s[4:5] offset:2\ns_waitcnt vmcnt(0)", |l| x(l) >> 16);
    lanes("v_mov_b32 v3, 7\nglobal_load_short_d16_hi v3, v1, s[4:5]\ns_waitcnt vmcnt(0)", |l| x(l) << 16 | 7);
    lanes(
        "v_lshlrev_b32 v4, 2, v1\nv_and_b32 v4, 0xf0, v4\nglobal_load_dwordx4 v[8:11], v4, s[4:5]\ns_waitcnt vmcnt(0)\nv_mov_b32 v3, v11",
        |l| x(4 * (l % 16) + 3),
    );
    lanes(
        "v_mov_b32 v5, s5\nv_add_co_u32 v4, vcc, s4, v1\ns_nop 1\nv_addc_co_u32 v5, vcc, 0, v5, vcc\nglobal_load_dword v3, v[4:5], off\ns_waitcnt vmcnt(0)",
        x,
    );
    lanes("v_mov_b32 v5, s5\nv_add_u32 v4, s4, v1\nflat_load_dword v3, v[4:5]\ns_waitcnt vmcnt(0) lgkmcnt(0)", x);
}

#[test]
fn buffers_check_their_records() {
    let resource = "s_mov_b32 s8, s4\ns_and_b32 s9, s5, 0xffff\ns_mov_b32 s10, 128\ns_mov_b32 s11, 0x20000\n";
    lanes(&format!("{resource}buffer_load_dword v3, v1, s[8:11], 0 offen\ns_waitcnt vmcnt(0)"), |l| if l < 32 { x(l) } else { 0 });
    lanes(&format!("{resource}buffer_load_dword v3, v1, s[8:11], 0 offen offset:64\ns_waitcnt vmcnt(0)"), |l| {
        if l < 16 { x(l + 16) } else { 0 }
    });
    // Stores outside vanish.
    let store = resource.replace("s4", "s6").replace("s5", "s7") + "v_mov_b32 v3, 9\nbuffer_store_dword v3, v1, s[8:11], 0 offen\n";
    let Some((got, _)) = run(&store, 64) else { return };
    assert_eq!(got, (0..64).map(|l| if l < 32 { 9 } else { 0 }).collect::<Vec<u32>>());
}

#[test]
fn loads_to_lds() {
    let resource = "s_mov_b32 s8, s4\ns_and_b32 s9, s5, 0xffff\ns_mov_b32 s10, 256\ns_mov_b32 s11, 0x20000\ns_mov_b32 m0, 64\n";
    lanes(
        &format!(
            "{resource}s_nop 0\nbuffer_load_dword v1, s[8:11], 0 offen lds\ns_waitcnt vmcnt(0)\nds_read_b32 v3, v1 offset:64\ns_waitcnt lgkmcnt(0)"
        ),
        x,
    );
    lanes(
        "s_mov_b32 m0, 32\ns_nop 0\nglobal_load_lds_dword v1, s[4:5]\ns_waitcnt vmcnt(0)\nds_read_b32 v3, v1 offset:32\ns_waitcnt lgkmcnt(0)",
        x,
    );
    // Without the wait the LDS is still being filled.
    let text = kernel(
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\ns_mov_b32 m0, 0\ns_waitcnt lgkmcnt(0)\nglobal_load_lds_dword v1, s[4:5]\nds_read_b32 v3, v1",
        Needs { lds: 256, ..Needs::default() },
    );
    let Some(object) = assemble(&text, Chip::Gfx942) else { return };
    let f = launch(&object, 1, 64, vec![Buf::In(vec![0; 256])], SimConfig::default()).expect_err("a fault");
    assert!(matches!(f.kind, FaultKind::LdsInFlight { .. }), "{f}");
}

#[test]
fn scratch_is_each_lanes_own() {
    lanes("scratch_store_dword off, v2, off offset:8\nscratch_load_dword v3, off, off offset:8\ns_waitcnt vmcnt(0)", x);
    lanes("v_and_b32 v4, 12, v1\nscratch_store_dword v4, v2, off\nscratch_load_dword v3, v4, off\ns_waitcnt vmcnt(0)", x);
}

#[test]
fn lds_forms() {
    let write = "ds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\n";
    lanes(&format!("{write}v_xor_b32 v4, 0xfc, v1\nds_read_b32 v3, v4\ns_waitcnt lgkmcnt(0)"), |l| x(63 - l));
    lanes(
        &format!("{write}v_mov_b32 v4, 0\nds_read2_b32 v[8:9], v4 offset0:3 offset1:5\ns_waitcnt lgkmcnt(0)\nv_sub_u32 v3, v9, v8"),
        |_| x(2),
    );
    lanes(&format!("{write}ds_read_u8 v3, v1 offset:2\ns_waitcnt lgkmcnt(0)"), |l| l);
    lanes("v_mov_b32 v4, 0\nds_write2st64_b32 v1, v2, v1 offset0:0 offset1:2\nds_read_b32 v3, v1 offset:512\ns_waitcnt lgkmcnt(0)", |l| {
        4 * l
    });
    lanes("v_lshlrev_b32 v4, 1, v1\nv_mov_b32 v3, v0\nds_write_b64 v4, v[2:3]\nds_read_b32 v3, v4 offset:4\ns_waitcnt lgkmcnt(0)", |l| l);
    lanes("v_lshlrev_b32 v4, 2, v1\nv_mov_b32 v5, 5\nv_mov_b32 v6, 6\nv_mov_b32 v7, v0\nv_mov_b32 v8, 8\nds_write_b128 v4, v[5:8]\nds_read_b32 v3, v4 offset:8\ns_waitcnt lgkmcnt(0)".replace("v[5:8]", "v[12:15]").replace("v_mov_b32 v5,", "v_mov_b32 v12,").replace("v_mov_b32 v6,", "v_mov_b32 v13,").replace("v_mov_b32 v7,", "v_mov_b32 v14,").replace("v_mov_b32 v8,", "v_mov_b32 v15,").as_str(), |l| l);
    lanes(
        "v_mov_b32 v4, 0\nv_mov_b32 v5, 0\nds_write_b32 v4, v5\nv_mov_b32 v5, 1\nds_add_u32 v4, v5\nds_add_u32 v4, v5\nds_read_b32 v3, v4\ns_waitcnt lgkmcnt(0)",
        |_| 128,
    );
    lanes("v_mov_b32 v5, 0\nds_write_b32 v1, v5\nds_max_u32 v1, v0\nds_max_rtn_u32 v3, v1, v0\ns_waitcnt lgkmcnt(0)", |l| l);
}

#[test]
fn atomics_on_memory() {
    let Some((got, _)) =
        run("v_mov_b32 v4, 0\nv_mov_b32 v5, 3\nglobal_atomic_add v4, v5, s[6:7]\nglobal_atomic_umax v4, v0, s[6:7] offset:4", 2)
    else {
        return;
    };
    assert_eq!(got, [192, 63]);
    let Some((got, _)) = run(
        "v_mov_b32 v4, 0\nv_mov_b32 v5, 1.0\nglobal_atomic_add_f32 v4, v5, s[6:7]\nv_mov_b32 v6, 0x3c003c00\nglobal_atomic_pk_add_f16 v4, v6, s[6:7] offset:4",
        2,
    ) else {
        return;
    };
    assert_eq!(got, [64f32.to_bits(), 0x5400_5400]);
    // Compare and swap: the first lane finds zero.
    lanes("v_mov_b32 v4, 0\nv_mov_b32 v8, 7\nv_mov_b32 v9, 0\nglobal_atomic_cmpswap v3, v4, v[8:9], s[6:7] sc0\ns_waitcnt vmcnt(0)", |l| {
        if l == 0 { 0 } else { 7 }
    });
}

#[test]
fn moves_between_lanes() {
    lanes("v_mov_b32 v3, -1\ns_nop 1\nv_mov_b32_dpp v3, v0 row_shr:1 row_mask:0xf bank_mask:0xf", |l| {
        if l % 16 == 0 { u32::MAX } else { l - 1 }
    });
    lanes("s_nop 1\nv_mov_b32_dpp v3, v0 row_shl:2 row_mask:0xf bank_mask:0xf bound_ctrl:0", |l| if l % 16 >= 14 { 0 } else { l + 2 });
    lanes("s_nop 1\nv_mov_b32_dpp v3, v0 row_ror:4 row_mask:0xf bank_mask:0xf", |l| l & !15 | ((l + 12) % 16));
    lanes("s_nop 1\nv_mov_b32_dpp v3, v0 row_newbcast:5 row_mask:0xf bank_mask:0xf", |l| l & !15 | 5);
    lanes("s_nop 1\nv_mov_b32_dpp v3, v0 row_half_mirror row_mask:0xf bank_mask:0xf", |l| l ^ 7);
    lanes("v_mov_b32 v3, 0\ns_nop 1\nv_add_u32_dpp v3, v0, v0 quad_perm:[1,0,3,2] row_mask:0x5 bank_mask:0xf", |l| {
        if l / 16 % 2 == 0 { (l ^ 1) + l } else { 0 }
    });
    lanes("v_mov_b32 v3, 0\ns_nop 1\nv_mov_b32_dpp v3, v0 row_bcast:15 row_mask:0xa bank_mask:0xf", |l| {
        if l / 16 % 2 == 1 { l / 16 * 16 - 1 } else { 0 }
    });
    lanes("v_xor_b32 v4, 0x80, v1\nds_bpermute_b32 v3, v4, v0\ns_waitcnt lgkmcnt(0)", |l| l ^ 32);
    lanes("v_xor_b32 v4, 4, v1\nds_permute_b32 v3, v4, v0\ns_waitcnt lgkmcnt(0)", |l| l ^ 1);
    lanes("ds_swizzle_b32 v3, v0 offset:swizzle(SWAP,16)\ns_waitcnt lgkmcnt(0)", |l| l ^ 16);
    lanes("ds_swizzle_b32 v3, v0 offset:swizzle(BROADCAST,8,3)\ns_waitcnt lgkmcnt(0)", |l| l & !7 | 3);
    lanes("v_readlane_b32 s20, v0, 17\ns_nop 4\nv_mov_b32 v3, s20", |_| 17);
    lanes("v_mov_b32 v3, v0\ns_mov_b32 s20, 99\nv_writelane_b32 v3, s20, 5", |l| if l == 5 { 99 } else { l });
    lanes(
        "s_mov_b64 s[8:9], exec\ns_mov_b64 exec, 0xf0\nv_readfirstlane_b32 s20, v0\ns_mov_b64 exec, s[8:9]\ns_nop 4\nv_mov_b32 v3, s20",
        |_| 4,
    );
}

#[test]
fn scalars() {
    let scalar = |body: &str, want: u32| lanes(&format!("{body}\nv_mov_b32 v3, s20"), |_| want);
    scalar("s_mov_b32 s20, 0x12345678\ns_bfe_u32 s20, s20, 0x80004", 0x67);
    scalar("s_mov_b32 s20, 0xf0\ns_bfe_i32 s20, s20, 0x40004", u32::MAX);
    scalar("s_mov_b32 s20, 5\ns_mul_i32 s20, s20, -3", (-15i32) as u32);
    scalar("s_mov_b32 s8, -1\ns_add_u32 s8, s8, 1\ns_addc_u32 s20, 3, 4", 8);
    scalar("s_mov_b32 s8, 1\ns_sub_u32 s8, s8, 2\ns_subb_u32 s20, 9, 4", 4);
    scalar("s_mov_b64 s[8:9], 0xff00\ns_ff1_i32_b64 s20, s[8:9]", 8);
    scalar("s_mov_b64 s[8:9], -1\ns_bcnt1_i32_b64 s20, s[8:9]", 64);
    scalar("s_movk_i32 s20, 0x7000\ns_addk_i32 s20, 0x10", 0x7010);
    scalar("s_cmp_lt_i32 s4, s4\ns_cselect_b32 s20, 1, 2", 2);
    scalar("s_mov_b32 s8, 0x10002\ns_pack_lh_b32_b16 s20, s8, s8", 0x1_0002);
    scalar("s_mov_b32 s8, 3\ns_lshl2_add_u32 s20, s8, 5", 17);
    scalar(
        "s_getpc_b64 s[8:9]\nL0:\ns_add_u32 s8, s8, (L1-L0)\ns_addc_u32 s9, s9, 0\ns_setpc_b64 s[8:9]\ns_trap 2\nL1:\ns_mov_b32 s20, 6",
        6,
    );
    // A loop.
    scalar("s_mov_b32 s20, 0\nL2:\ns_add_i32 s20, s20, 3\ns_cmp_lg_u32 s20, 30\ns_cbranch_scc1 L2", 30);
}

#[test]
fn conflicts_are_counted() {
    let Some((_, r)) = run("ds_write_b32 v1, v2", 64) else { return };
    assert_eq!((r.lds_cycles, r.lds_conflict_cycles), (2, 0));
    let Some((_, r)) = run("v_lshlrev_b32 v4, 5, v1\nv_and_b32 v4, 0x1fff, v4\nds_write_b32 v4, v1", 64) else { return };
    assert!(r.lds_conflict_cycles > 50, "{}", r.lds_conflict_cycles);
    let Some((_, r)) = run("global_load_dword v3, v1, s[4:5]", 64) else { return };
    assert_eq!(r.global_transactions, 8);
}
