//! Scalar instructions: arithmetic, comparisons, branches, waits, scalar memory.

/// Hands its rows, behind those before them, to the next table.
macro_rules! scalar_rows {
    ($($done:tt)*) => { vector_rows! {
        $($done)*

        // Two sources.
        SAddU32             "s_add_u32"              SOP2         0x00 [DS1 SB32 SB32]  SCC;
        SSubU32             "s_sub_u32"              SOP2         0x01 [DS1 SB32 SB32]  SCC;
        SAddI32             "s_add_i32"              SOP2         0x02 [DS1 SB32 SB32]  SCC;
        SSubI32             "s_sub_i32"              SOP2         0x03 [DS1 SB32 SB32]  SCC;
        SAddcU32            "s_addc_u32"             SOP2         0x04 [DS1 SB32 SB32]  CARRY;
        SSubbU32            "s_subb_u32"             SOP2         0x05 [DS1 SB32 SB32]  CARRY;
        SMinI32             "s_min_i32"              SOP2         0x06 [DS1 SB32 SB32]  SCC;
        SMinU32             "s_min_u32"              SOP2         0x07 [DS1 SB32 SB32]  SCC;
        SMaxI32             "s_max_i32"              SOP2         0x08 [DS1 SB32 SB32]  SCC;
        SMaxU32             "s_max_u32"              SOP2         0x09 [DS1 SB32 SB32]  SCC;
        SCselectB32         "s_cselect_b32"          SOP2         0x0a [DS1 SB32 SB32]  IF_SCC;
        SCselectB64         "s_cselect_b64"          SOP2         0x0b [DS2 SB64 SB64]  IF_SCC;
        SAndB32             "s_and_b32"              SOP2         0x0c [DS1 SB32 SB32]  SCC;
        SAndB64             "s_and_b64"              SOP2         0x0d [DS2 SB64 SB64]  SCC;
        SOrB32              "s_or_b32"               SOP2         0x0e [DS1 SB32 SB32]  SCC;
        SOrB64              "s_or_b64"               SOP2         0x0f [DS2 SB64 SB64]  SCC;
        SXorB32             "s_xor_b32"              SOP2         0x10 [DS1 SB32 SB32]  SCC;
        SXorB64             "s_xor_b64"              SOP2         0x11 [DS2 SB64 SB64]  SCC;
        SAndn2B32           "s_andn2_b32"            SOP2         0x12 [DS1 SB32 SB32]  SCC;
        SAndn2B64           "s_andn2_b64"            SOP2         0x13 [DS2 SB64 SB64]  SCC;
        SOrn2B32            "s_orn2_b32"             SOP2         0x14 [DS1 SB32 SB32]  SCC;
        SOrn2B64            "s_orn2_b64"             SOP2         0x15 [DS2 SB64 SB64]  SCC;
        SNandB32            "s_nand_b32"             SOP2         0x16 [DS1 SB32 SB32]  SCC;
        SNandB64            "s_nand_b64"             SOP2         0x17 [DS2 SB64 SB64]  SCC;
        SNorB32             "s_nor_b32"              SOP2         0x18 [DS1 SB32 SB32]  SCC;
        SNorB64             "s_nor_b64"              SOP2         0x19 [DS2 SB64 SB64]  SCC;
        SXnorB32            "s_xnor_b32"             SOP2         0x1a [DS1 SB32 SB32]  SCC;
        SXnorB64            "s_xnor_b64"             SOP2         0x1b [DS2 SB64 SB64]  SCC;
        SLshlB32            "s_lshl_b32"             SOP2         0x1c [DS1 SB32 SB32]  SCC;
        SLshlB64            "s_lshl_b64"             SOP2         0x1d [DS2 SB64 SB32]  SCC;
        SLshrB32            "s_lshr_b32"             SOP2         0x1e [DS1 SB32 SB32]  SCC;
        SLshrB64            "s_lshr_b64"             SOP2         0x1f [DS2 SB64 SB32]  SCC;
        SAshrI32            "s_ashr_i32"             SOP2         0x20 [DS1 SB32 SB32]  SCC;
        SAshrI64            "s_ashr_i64"             SOP2         0x21 [DS2 SB64 SB32]  SCC;
        SBfmB32             "s_bfm_b32"              SOP2         0x22 [DS1 SB32 SB32]  NOTHING;
        SBfmB64             "s_bfm_b64"              SOP2         0x23 [DS2 SB32 SB32]  NOTHING;
        SMulI32             "s_mul_i32"              SOP2         0x24 [DS1 SB32 SB32]  NOTHING;
        SMulHiU32           "s_mul_hi_u32"           SOP2         0x2c [DS1 SB32 SB32]  NOTHING;
        SMulHiI32           "s_mul_hi_i32"           SOP2         0x2d [DS1 SB32 SB32]  NOTHING;
        SBfeU32             "s_bfe_u32"              SOP2         0x25 [DS1 SB32 SB32]  SCC;
        SBfeI32             "s_bfe_i32"              SOP2         0x26 [DS1 SB32 SB32]  SCC;
        SBfeU64             "s_bfe_u64"              SOP2         0x27 [DS2 SB64 SB32]  SCC;
        SBfeI64             "s_bfe_i64"              SOP2         0x28 [DS2 SB64 SB32]  SCC;
        SAbsdiffI32         "s_absdiff_i32"          SOP2         0x2a [DS1 SB32 SB32]  SCC;
        SLshl1AddU32        "s_lshl1_add_u32"        SOP2         0x2e [DS1 SB32 SB32]  SCC;
        SLshl2AddU32        "s_lshl2_add_u32"        SOP2         0x2f [DS1 SB32 SB32]  SCC;
        SLshl3AddU32        "s_lshl3_add_u32"        SOP2         0x30 [DS1 SB32 SB32]  SCC;
        SLshl4AddU32        "s_lshl4_add_u32"        SOP2         0x31 [DS1 SB32 SB32]  SCC;
        SPackLlB32B16       "s_pack_ll_b32_b16"      SOP2         0x32 [DS1 SB32 SB32]  NOTHING;
        SPackLhB32B16       "s_pack_lh_b32_b16"      SOP2         0x33 [DS1 SB32 SB32]  NOTHING;
        SPackHhB32B16       "s_pack_hh_b32_b16"      SOP2         0x34 [DS1 SB32 SB32]  NOTHING;

        // One source.
        SMovB32             "s_mov_b32"              SOP1         0x00 [DS1 SB32]       NOTHING;
        SMovB64             "s_mov_b64"              SOP1         0x01 [DS2 SB64]       NOTHING;
        SCmovB32            "s_cmov_b32"             SOP1         0x02 [US1 SB32]       IF_SCC;
        SCmovB64            "s_cmov_b64"             SOP1         0x03 [US2 SB64]       IF_SCC;
        SNotB32             "s_not_b32"              SOP1         0x04 [DS1 SB32]       SCC;
        SNotB64             "s_not_b64"              SOP1         0x05 [DS2 SB64]       SCC;
        SBrevB32            "s_brev_b32"             SOP1         0x08 [DS1 SB32]       NOTHING;
        SBrevB64            "s_brev_b64"             SOP1         0x09 [DS2 SB64]       NOTHING;
        SBcnt0I32B32        "s_bcnt0_i32_b32"        SOP1         0x0a [DS1 SB32]       SCC;
        SBcnt0I32B64        "s_bcnt0_i32_b64"        SOP1         0x0b [DS1 SB64]       SCC;
        SBcnt1I32B32        "s_bcnt1_i32_b32"        SOP1         0x0c [DS1 SB32]       SCC;
        SBcnt1I32B64        "s_bcnt1_i32_b64"        SOP1         0x0d [DS1 SB64]       SCC;
        SFf0I32B32          "s_ff0_i32_b32"          SOP1         0x0e [DS1 SB32]       NOTHING;
        SFf0I32B64          "s_ff0_i32_b64"          SOP1         0x0f [DS1 SB64]       NOTHING;
        SFf1I32B32          "s_ff1_i32_b32"          SOP1         0x10 [DS1 SB32]       NOTHING;
        SFf1I32B64          "s_ff1_i32_b64"          SOP1         0x11 [DS1 SB64]       NOTHING;
        SFlbitI32B32        "s_flbit_i32_b32"        SOP1         0x12 [DS1 SB32]       NOTHING;
        SFlbitI32B64        "s_flbit_i32_b64"        SOP1         0x13 [DS1 SB64]       NOTHING;
        SFlbitI32           "s_flbit_i32"            SOP1         0x14 [DS1 SB32]       NOTHING;
        SFlbitI32I64        "s_flbit_i32_i64"        SOP1         0x15 [DS1 SB64]       NOTHING;
        SSextI32I8          "s_sext_i32_i8"          SOP1         0x16 [DS1 SB32]       NOTHING;
        SSextI32I16         "s_sext_i32_i16"         SOP1         0x17 [DS1 SB32]       NOTHING;
        SBitset0B32         "s_bitset0_b32"          SOP1         0x18 [US1 SB32]       NOTHING;
        SBitset0B64         "s_bitset0_b64"          SOP1         0x19 [US2 SB32]       NOTHING;
        SBitset1B32         "s_bitset1_b32"          SOP1         0x1a [US1 SB32]       NOTHING;
        SBitset1B64         "s_bitset1_b64"          SOP1         0x1b [US2 SB32]       NOTHING;
        SAbsI32             "s_abs_i32"              SOP1         0x30 [DS1 SB32]       SCC;
        SWqmB64             "s_wqm_b64"              SOP1         0x07 [DS2 SB64]       SCC;
        SAndSaveexecB64     "s_and_saveexec_b64"     SOP1         0x20 [DS2 SB64]       SAVEEXEC;
        SOrSaveexecB64      "s_or_saveexec_b64"      SOP1         0x21 [DS2 SB64]       SAVEEXEC;
        SXorSaveexecB64     "s_xor_saveexec_b64"     SOP1         0x22 [DS2 SB64]       SAVEEXEC;
        SAndn2SaveexecB64   "s_andn2_saveexec_b64"   SOP1         0x23 [DS2 SB64]       SAVEEXEC;
        SOrn2SaveexecB64    "s_orn2_saveexec_b64"    SOP1         0x24 [DS2 SB64]       SAVEEXEC;
        SNandSaveexecB64    "s_nand_saveexec_b64"    SOP1         0x25 [DS2 SB64]       SAVEEXEC;
        SNorSaveexecB64     "s_nor_saveexec_b64"     SOP1         0x26 [DS2 SB64]       SAVEEXEC;
        SXnorSaveexecB64    "s_xnor_saveexec_b64"    SOP1         0x27 [DS2 SB64]       SAVEEXEC;
        SAndn1SaveexecB64   "s_andn1_saveexec_b64"   SOP1         0x33 [DS2 SB64]       SAVEEXEC;
        SGetpcB64           "s_getpc_b64"            SOP1         0x1c [DS2]            NOTHING;
        SSetpcB64           "s_setpc_b64"            SOP1         0x1d [S2]             NOTHING;
        SSwappcB64          "s_swappc_b64"           SOP1         0x1e [DS2 S2]         NOTHING;

        // Comparisons of scalars.
        SCmpEqI32           "s_cmp_eq_i32"           SOPC         0x00 [SB32 SB32]      SCC;
        SCmpLgI32           "s_cmp_lg_i32"           SOPC         0x01 [SB32 SB32]      SCC;
        SCmpGtI32           "s_cmp_gt_i32"           SOPC         0x02 [SB32 SB32]      SCC;
        SCmpGeI32           "s_cmp_ge_i32"           SOPC         0x03 [SB32 SB32]      SCC;
        SCmpLtI32           "s_cmp_lt_i32"           SOPC         0x04 [SB32 SB32]      SCC;
        SCmpLeI32           "s_cmp_le_i32"           SOPC         0x05 [SB32 SB32]      SCC;
        SCmpEqU32           "s_cmp_eq_u32"           SOPC         0x06 [SB32 SB32]      SCC;
        SCmpLgU32           "s_cmp_lg_u32"           SOPC         0x07 [SB32 SB32]      SCC;
        SCmpGtU32           "s_cmp_gt_u32"           SOPC         0x08 [SB32 SB32]      SCC;
        SCmpGeU32           "s_cmp_ge_u32"           SOPC         0x09 [SB32 SB32]      SCC;
        SCmpLtU32           "s_cmp_lt_u32"           SOPC         0x0a [SB32 SB32]      SCC;
        SCmpLeU32           "s_cmp_le_u32"           SOPC         0x0b [SB32 SB32]      SCC;
        SBitcmp0B32         "s_bitcmp0_b32"          SOPC         0x0c [SB32 SB32]      SCC;
        SBitcmp1B32         "s_bitcmp1_b32"          SOPC         0x0d [SB32 SB32]      SCC;
        SBitcmp0B64         "s_bitcmp0_b64"          SOPC         0x0e [SB64 SB32]      SCC;
        SBitcmp1B64         "s_bitcmp1_b64"          SOPC         0x0f [SB64 SB32]      SCC;
        SCmpEqU64           "s_cmp_eq_u64"           SOPC         0x12 [SB64 SB64]      SCC;
        SCmpLgU64           "s_cmp_lg_u64"           SOPC         0x13 [SB64 SB64]      SCC;

        // With a constant of 16 bits.
        SMovkI32            "s_movk_i32"             SOPK         0x00 [DS1 FIELD]      NOTHING;
        SCmovkI32           "s_cmovk_i32"            SOPK         0x01 [US1 FIELD]      IF_SCC;
        SCmpkEqI32          "s_cmpk_eq_i32"          SOPK         0x02 [S1 FIELD]       SCC;
        SCmpkLgI32          "s_cmpk_lg_i32"          SOPK         0x03 [S1 FIELD]       SCC;
        SCmpkGtI32          "s_cmpk_gt_i32"          SOPK         0x04 [S1 FIELD]       SCC;
        SCmpkGeI32          "s_cmpk_ge_i32"          SOPK         0x05 [S1 FIELD]       SCC;
        SCmpkLtI32          "s_cmpk_lt_i32"          SOPK         0x06 [S1 FIELD]       SCC;
        SCmpkLeI32          "s_cmpk_le_i32"          SOPK         0x07 [S1 FIELD]       SCC;
        SCmpkEqU32          "s_cmpk_eq_u32"          SOPK         0x08 [S1 FIELD]       SCC;
        SCmpkLgU32          "s_cmpk_lg_u32"          SOPK         0x09 [S1 FIELD]       SCC;
        SCmpkGtU32          "s_cmpk_gt_u32"          SOPK         0x0a [S1 FIELD]       SCC;
        SCmpkGeU32          "s_cmpk_ge_u32"          SOPK         0x0b [S1 FIELD]       SCC;
        SCmpkLtU32          "s_cmpk_lt_u32"          SOPK         0x0c [S1 FIELD]       SCC;
        SCmpkLeU32          "s_cmpk_le_u32"          SOPK         0x0d [S1 FIELD]       SCC;
        SAddkI32            "s_addk_i32"             SOPK         0x0e [US1 FIELD]      SCC;
        SMulkI32            "s_mulk_i32"             SOPK         0x0f [US1 FIELD]      NOTHING;
        SGetregB32          "s_getreg_b32"           SOPK         0x11 [DS1 FIELD]      NOTHING;
        SSetregB32          "s_setreg_b32"           SOPK         0x12 [FIELD S1]       NOTHING;
        SSetregImm32B32     "s_setreg_imm32_b32"     SOPK_LITERAL 0x14 [FIELD LITERAL]  NOTHING;

        // Program flow.
        SNop                "s_nop"                  SOPP         0x00 [FIELD]          NOTHING;
        SEndpgm             "s_endpgm"               SOPP         0x01 []               NOTHING;
        SBranch             "s_branch"               SOPP         0x02 [TARGET]         NOTHING;
        SCbranchScc0        "s_cbranch_scc0"         SOPP         0x04 [TARGET]         IF_SCC;
        SCbranchScc1        "s_cbranch_scc1"         SOPP         0x05 [TARGET]         IF_SCC;
        SCbranchVccz        "s_cbranch_vccz"         SOPP         0x06 [TARGET]         IF_VCC;
        SCbranchVccnz       "s_cbranch_vccnz"        SOPP         0x07 [TARGET]         IF_VCC;
        SCbranchExecz       "s_cbranch_execz"        SOPP         0x08 [TARGET]         IF_EXEC;
        SCbranchExecnz      "s_cbranch_execnz"       SOPP         0x09 [TARGET]         IF_EXEC;
        SBarrier            "s_barrier"              SOPP         0x0a []               NOTHING;
        SSetkill            "s_setkill"              SOPP         0x0b [FIELD]          NOTHING;
        SWaitcnt            "s_waitcnt"              SOPP         0x0c [FIELD]          NOTHING;
        SSethalt            "s_sethalt"              SOPP         0x0d [FIELD]          NOTHING;
        SSleep              "s_sleep"                SOPP         0x0e [FIELD]          NOTHING;
        SSetprio            "s_setprio"              SOPP         0x0f [FIELD]          NOTHING;
        SSendmsg            "s_sendmsg"              SOPP         0x10 [FIELD]          NOTHING;
        STrap               "s_trap"                 SOPP         0x12 [FIELD]          NOTHING;
        SIcacheInv          "s_icache_inv"           SOPP         0x13 []               NOTHING;

        // Scalar memory.
        SLoadDword          "s_load_dword"           SMEM         0x00 [DS1 S2 OFFSET]  NOTHING;
        SLoadDwordx2        "s_load_dwordx2"         SMEM         0x01 [DS2 S2 OFFSET]  NOTHING;
        SLoadDwordx4        "s_load_dwordx4"         SMEM         0x02 [DS4 S2 OFFSET]  NOTHING;
        SLoadDwordx8        "s_load_dwordx8"         SMEM         0x03 [DS8 S2 OFFSET]  NOTHING;
        SLoadDwordx16       "s_load_dwordx16"        SMEM         0x04 [DS16 S2 OFFSET] NOTHING;
        SBufferLoadDword    "s_buffer_load_dword"    SMEM         0x08 [DS1 S4 OFFSET]  NOTHING;
        SBufferLoadDwordx2  "s_buffer_load_dwordx2"  SMEM         0x09 [DS2 S4 OFFSET]  NOTHING;
        SBufferLoadDwordx4  "s_buffer_load_dwordx4"  SMEM         0x0a [DS4 S4 OFFSET]  NOTHING;
        SBufferLoadDwordx8  "s_buffer_load_dwordx8"  SMEM         0x0b [DS8 S4 OFFSET]  NOTHING;
        SBufferLoadDwordx16 "s_buffer_load_dwordx16" SMEM         0x0c [DS16 S4 OFFSET] NOTHING;
        SDcacheInv          "s_dcache_inv"           SMEM         0x20 []               NOTHING;
        SDcacheWb           "s_dcache_wb"            SMEM         0x21 []               NOTHING;
        SMemtime            "s_memtime"              SMEM         0x24 [DS2]            NOTHING;
        SMemrealtime        "s_memrealtime"          SMEM         0x25 [DS2]            NOTHING;
    } };
}
