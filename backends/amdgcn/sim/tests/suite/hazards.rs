//! Wait states: for every rule the number that is needed is accepted, and one fewer is found.

use crate::common::{Buf, Needs, assemble, kernel, launch};
use tilelift_amdgcn_sim::{Chip, FaultKind, Rule, SimConfig};

/// A rule: first instruction, second, and the wait states that must lie between them.
struct Case(Rule, &'static str, &'static str, u32);

fn nops(n: u32) -> String {
    let mut left = n;
    let mut out = String::new();
    while left > 0 {
        let now = left.min(16);
        out += &format!("s_nop {}\n", now - 1);
        left -= now;
    }
    out
}

fn check(chip: Chip, cases: &[Case]) {
    // All registers are defined, and nothing is near.
    let mut setup = String::from("s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_mov_b64 vcc, 0\ns_mov_b32 m0, 0\n");
    (1..64).for_each(|i| setup += &format!("v_mov_b32 v{i}, 0\n"));
    (0..64).for_each(|i| setup += &format!("v_accvgpr_write_b32 a{i}, 0\n"));
    (8..48).for_each(|i| setup += &format!("s_mov_b32 s{i}, 0\n"));
    setup += "s_waitcnt lgkmcnt(0)\ns_mov_b32 s8, s4\ns_mov_b32 s9, s5\ns_mov_b32 s10, 0x1000\ns_mov_b32 s11, 0x20000\n";
    setup += &nops(32);
    let needs = Needs { chip, lds: 4096, vgprs: 128, accum: 64, ..Needs::default() };
    for Case(rule, first, second, needed) in cases {
        for had in [*needed, needed.saturating_sub(1)] {
            let body = format!("{setup}{first}\n{}{second}\ns_waitcnt vmcnt(0) lgkmcnt(0)\n", nops(had));
            let Some(object) = assemble(&kernel(&body, needs), chip) else { return };
            let run = launch(&object, 1, 64, vec![Buf::In(vec![0; 4096])], SimConfig::default());
            match run {
                Ok(_) => assert!(had == *needed, "{chip} {rule:?}: `{first}`, {had} wait states, `{second}` was not found"),
                Err(f) => match f.kind {
                    FaultKind::Hazard { rule: r, needed: n, had: h, .. } if had < *needed => {
                        assert_eq!((r, n, h), (*rule, *needed, had), "{chip} `{first}` `{second}`");
                    }
                    _ => panic!("{chip} `{first}`, {had} wait states, `{second}`: {f}"),
                },
            }
            if *needed == 0 {
                break;
            }
        }
    }
}

/// Rules that the three chips share, with the names of gfx942.
fn common_cases() -> Vec<Case> {
    vec![
        Case(Rule::VectorResultInDpp, "v_mov_b32 v1, v2", "v_mov_b32_dpp v3, v1 row_shr:1 row_mask:0xf bank_mask:0xf", 2),
        Case(Rule::ExecBeforeDpp, "v_cmpx_eq_u32 vcc, v1, v1", "v_mov_b32_dpp v3, v4 row_shr:1 row_mask:0xf bank_mask:0xf", 5),
        Case(Rule::ScalarInAddress, "v_readfirstlane_b32 s12, v1", "buffer_load_dword v3, v4, s[8:11], s12 offen", 5),
        Case(Rule::ScalarAsLane, "v_readfirstlane_b32 s12, v1", "v_readlane_b32 s13, v3, s12", 4),
        Case(Rule::DivFmas, "v_cmp_eq_u32 vcc, v1, v2", "v_div_fmas_f32 v3, v4, v5, v6", 4),
        Case(Rule::M0BeforeLds, "s_mov_b32 m0, s20", "buffer_load_dword v4, s[8:11], 0 offen lds", 1),
        Case(Rule::StoreDataOverwritten, "global_store_dwordx4 v1, v[4:7], s[4:5]", "v_mov_b32 v6, 1", 1),
        Case(Rule::DotProduct, "v_dot2_f32_f16 v1, v2, v3, v4", "v_add_f32 v5, v1, v2", 3),
    ]
}

#[test]
fn gfx942() {
    let mut cases = common_cases();
    cases.extend([
        Case(Rule::MatrixResultRead, "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_add_f32 v20, v0, v21", 7),
        Case(Rule::MatrixResultRead, "v_mfma_f32_32x32x8_f16 a[0:15], v[8:9], v[10:11], a[0:15]", "v_accvgpr_read_b32 v20, a15", 11),
        Case(Rule::MatrixResultRead, "v_mfma_f32_32x32x8_f16 v[16:31], v[8:9], v[10:11], v[16:31]", "ds_write_b32 v1, v16", 11),
        Case(Rule::MatrixResultRead, "v_mfma_f32_32x32x4_2b_f16 a[0:31], v[8:9], v[10:11], a[0:31]", "v_accvgpr_read_b32 v20, a15", 19),
        Case(Rule::MatrixResultRead, "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_add_f32 v20, v0, v21", 5),
        Case(Rule::MatrixResultRead, "v_mfma_f32_16x16x4_f32 v[0:3], v8, v10, v[4:7]", "v_add_f32 v20, v0, v21", 10),
        Case(Rule::MatrixResultRead, "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[12:19]", "v_add_f32 v20, v0, v21", 11),
        Case(Rule::MatrixResultRead, "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[12:19]", "global_store_dword v20, v0, s[4:5]", 18),
        Case(Rule::MatrixResultOverwritten, "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_mov_b32 v2, v21", 7),
        Case(
            Rule::MatrixResultAsFactor,
            "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[4:7]",
            "v_mfma_f32_16x16x16_f16 v[12:15], v[0:1], v[10:11], v[4:7]",
            7,
        ),
        Case(
            Rule::MatrixResultAsAddend,
            "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[0:3]",
            "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[0:3]",
            0,
        ),
        Case(
            Rule::MatrixResultAsAddend,
            "v_mfma_f32_32x32x8_f16 v[16:31], v[8:9], v[10:11], v[16:31]",
            "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[18:21]",
            9,
        ),
        Case(
            Rule::MatrixResultAsAddend,
            "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]",
            "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]",
            2,
        ),
        Case(Rule::MatrixAddendOverwritten, "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_mov_b32 v5, v21", 3),
        Case(Rule::MatrixAddendOverwritten, "v_mfma_f32_32x32x8_f16 v[32:47], v[8:9], v[10:11], v[16:31]", "v_mov_b32 v17, v1", 7),
        Case(Rule::VectorResultInMatrix, "v_mov_b32 v8, v1", "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[4:7]", 2),
        Case(Rule::ExecBeforeMatrix, "v_cmpx_eq_u32 vcc, v1, v1", "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], v[4:7]", 4),
        Case(Rule::ScalarInVector, "v_readfirstlane_b32 s12, v1", "v_add_f32 v3, s12, v4", 2),
        Case(Rule::ScalarInVector, "v_cmp_eq_u32 vcc, v1, v2", "v_cndmask_b32 v3, v4, v5, vcc", 2),
        Case(Rule::Transcendental, "v_exp_f32 v1, v2", "v_add_f32 v3, v1, v4", 1),
        Case(Rule::VectorResultInLane, "v_mov_b32 v3, v1", "v_readfirstlane_b32 s12, v3", 1),
        Case(Rule::PartialResult, "v_cvt_pk_fp8_f32 v3, v1, v2 op_sel:[0,0,1]", "v_add_u32 v4, v3, v1", 1),
        Case(
            Rule::PartialResult,
            "v_mov_b32_sdwa v3, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
            "v_add_u32 v4, v3, v1",
            1,
        ),
        Case(Rule::ExecBeforeLane, "v_cmpx_eq_u32 vcc, v1, v1", "v_readfirstlane_b32 s12, v3", 4),
    ]);
    check(Chip::Gfx942, &cases);
}

#[test]
fn gfx90a() {
    let mut cases = common_cases();
    cases.extend([
        Case(Rule::MatrixResultRead, "v_mfma_f32_16x16x16f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_add_f32 v20, v0, v21", 11),
        Case(Rule::MatrixResultRead, "v_mfma_f32_32x32x8f16 a[0:15], v[8:9], v[10:11], a[0:15]", "v_accvgpr_read_b32 v20, a15", 19),
        Case(Rule::MatrixResultRead, "v_mfma_f32_4x4x4f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_add_f32 v20, v0, v21", 5),
        Case(Rule::MatrixAddendOverwritten, "v_mfma_f32_16x16x16f16 v[0:3], v[8:9], v[10:11], v[4:7]", "v_mov_b32 v5, v21", 7),
        // Not a hazard here.
        Case(Rule::ScalarInVector, "v_readfirstlane_b32 s12, v1", "v_add_f32 v3, s12, v4", 0),
        Case(Rule::Transcendental, "v_exp_f32 v1, v2", "v_add_f32 v3, v1, v4", 0),
    ]);
    check(Chip::Gfx90a, &cases);
}
