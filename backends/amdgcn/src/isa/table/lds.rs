//! Local data share. Addresses are bytes in a vector register.

/// Hands its rows, behind those before them, to the next table.
macro_rules! lds_rows {
    ($($done:tt)*) => { memory_rows! {
        $($done)*

        // Loads.
        DsReadB32       "ds_read_b32"         DS  0x36          [DA1 V1]       LANES;
        DsReadB64       "ds_read_b64"         DS  0x76          [DA2 V1]       LANES;
        DsReadB96       "ds_read_b96"         DS  0xfe          [DA3 V1]       LANES;
        DsReadB128      "ds_read_b128"        DS  0xff          [DA4 V1]       LANES;
        DsReadU8        "ds_read_u8"          DS  0x3a          [DA1 V1]       LANES;
        DsReadI8        "ds_read_i8"          DS  0x39          [DA1 V1]       LANES;
        DsReadU16       "ds_read_u16"         DS  0x3c          [DA1 V1]       LANES;
        DsReadI16       "ds_read_i16"         DS  0x3b          [DA1 V1]       LANES;
        DsReadU8D16     "ds_read_u8_d16"      DS  0x56          [UA1 V1]       LANES;
        DsReadU8D16Hi   "ds_read_u8_d16_hi"   DS  0x57          [UA1 V1]       LANES;
        DsReadI8D16     "ds_read_i8_d16"      DS  0x58          [UA1 V1]       LANES;
        DsReadI8D16Hi   "ds_read_i8_d16_hi"   DS  0x59          [UA1 V1]       LANES;
        DsReadU16D16    "ds_read_u16_d16"     DS  0x5a          [UA1 V1]       LANES;
        DsReadU16D16Hi  "ds_read_u16_d16_hi"  DS  0x5b          [UA1 V1]       LANES;
        DsRead2B32      "ds_read2_b32"        DS2 0x37          [DA2 V1]       LANES;
        DsRead2B64      "ds_read2_b64"        DS2 0x77          [DA4 V1]       LANES;
        DsRead2st64B32  "ds_read2st64_b32"    DS2 0x38          [DA2 V1]       LANES;
        DsRead2st64B64  "ds_read2st64_b64"    DS2 0x78          [DA4 V1]       LANES;
        DsReadB64TrB4   "ds_read_b64_tr_b4"   DS  [- - 0xe0]    [DA2 V1]       LANES;
        DsReadB64TrB8   "ds_read_b64_tr_b8"   DS  [- - 0xe2]    [DA2 V1]       LANES;
        DsReadB64TrB16  "ds_read_b64_tr_b16"  DS  [- - 0xe3]    [DA2 V1]       LANES;
        DsReadB96TrB6   "ds_read_b96_tr_b6"   DS  [- - 0xe1]    [DA3 V1]       LANES;

        // Stores.
        DsWriteB32      "ds_write_b32"        DS  0x0d          [V1 A1]        LANES;
        DsWriteB64      "ds_write_b64"        DS  0x4d          [V1 A2]        LANES;
        DsWriteB96      "ds_write_b96"        DS  0xde          [V1 A3]        LANES;
        DsWriteB128     "ds_write_b128"       DS  0xdf          [V1 A4]        LANES;
        DsWriteB8       "ds_write_b8"         DS  0x1e          [V1 A1]        LANES;
        DsWriteB16      "ds_write_b16"        DS  0x1f          [V1 A1]        LANES;
        DsWriteB8D16Hi  "ds_write_b8_d16_hi"  DS  0x54          [V1 A1]        LANES;
        DsWriteB16D16Hi "ds_write_b16_d16_hi" DS  0x55          [V1 A1]        LANES;
        DsWrite2B32     "ds_write2_b32"       DS2 0x0e          [V1 A1 A1]     LANES;
        DsWrite2B64     "ds_write2_b64"       DS2 0x4e          [V1 A2 A2]     LANES;
        DsWrite2st64B32 "ds_write2st64_b32"   DS2 0x0f          [V1 A1 A1]     LANES;
        DsWrite2st64B64 "ds_write2st64_b64"   DS2 0x4f          [V1 A2 A2]     LANES;

        // Atomic, without and with what was there.
        DsAddU32        "ds_add_u32"          DS  0x00          [V1 A1]        LANES;
        DsAddRtnU32     "ds_add_rtn_u32"      DS  0x20          [DA1 V1 A1]    LANES;
        DsSubU32        "ds_sub_u32"          DS  0x01          [V1 A1]        LANES;
        DsSubRtnU32     "ds_sub_rtn_u32"      DS  0x21          [DA1 V1 A1]    LANES;
        DsRsubU32       "ds_rsub_u32"         DS  0x02          [V1 A1]        LANES;
        DsRsubRtnU32    "ds_rsub_rtn_u32"     DS  0x22          [DA1 V1 A1]    LANES;
        DsIncU32        "ds_inc_u32"          DS  0x03          [V1 A1]        LANES;
        DsIncRtnU32     "ds_inc_rtn_u32"      DS  0x23          [DA1 V1 A1]    LANES;
        DsDecU32        "ds_dec_u32"          DS  0x04          [V1 A1]        LANES;
        DsDecRtnU32     "ds_dec_rtn_u32"      DS  0x24          [DA1 V1 A1]    LANES;
        DsMinI32        "ds_min_i32"          DS  0x05          [V1 A1]        LANES;
        DsMinRtnI32     "ds_min_rtn_i32"      DS  0x25          [DA1 V1 A1]    LANES;
        DsMaxI32        "ds_max_i32"          DS  0x06          [V1 A1]        LANES;
        DsMaxRtnI32     "ds_max_rtn_i32"      DS  0x26          [DA1 V1 A1]    LANES;
        DsMinU32        "ds_min_u32"          DS  0x07          [V1 A1]        LANES;
        DsMinRtnU32     "ds_min_rtn_u32"      DS  0x27          [DA1 V1 A1]    LANES;
        DsMaxU32        "ds_max_u32"          DS  0x08          [V1 A1]        LANES;
        DsMaxRtnU32     "ds_max_rtn_u32"      DS  0x28          [DA1 V1 A1]    LANES;
        DsAndB32        "ds_and_b32"          DS  0x09          [V1 A1]        LANES;
        DsAndRtnB32     "ds_and_rtn_b32"      DS  0x29          [DA1 V1 A1]    LANES;
        DsOrB32         "ds_or_b32"           DS  0x0a          [V1 A1]        LANES;
        DsOrRtnB32      "ds_or_rtn_b32"       DS  0x2a          [DA1 V1 A1]    LANES;
        DsXorB32        "ds_xor_b32"          DS  0x0b          [V1 A1]        LANES;
        DsXorRtnB32     "ds_xor_rtn_b32"      DS  0x2b          [DA1 V1 A1]    LANES;
        DsWrxchgRtnB32  "ds_wrxchg_rtn_b32"   DS  0x2d          [DA1 V1 A1]    LANES;
        DsCmpstB32      "ds_cmpst_b32"        DS  0x10          [V1 A1 A1]     LANES;
        DsCmpstRtnB32   "ds_cmpst_rtn_b32"    DS  0x30          [DA1 V1 A1 A1] LANES;
        DsCmpstF32      "ds_cmpst_f32"        DS  0x11          [V1 A1 A1]     LANES;
        DsCmpstRtnF32   "ds_cmpst_rtn_f32"    DS  0x31          [DA1 V1 A1 A1] LANES;
        DsAddF32        "ds_add_f32"          DS  0x15          [V1 A1]        LANES;
        DsAddRtnF32     "ds_add_rtn_f32"      DS  0x35          [DA1 V1 A1]    LANES;
        DsMinF32        "ds_min_f32"          DS  0x12          [V1 A1]        LANES;
        DsMinRtnF32     "ds_min_rtn_f32"      DS  0x32          [DA1 V1 A1]    LANES;
        DsMaxF32        "ds_max_f32"          DS  0x13          [V1 A1]        LANES;
        DsMaxRtnF32     "ds_max_rtn_f32"      DS  0x33          [DA1 V1 A1]    LANES;
        DsAddU64        "ds_add_u64"          DS  0x40          [V1 A2]        LANES;
        DsAddRtnU64     "ds_add_rtn_u64"      DS  0x60          [DA2 V1 A2]    LANES;
        DsSubU64        "ds_sub_u64"          DS  0x41          [V1 A2]        LANES;
        DsSubRtnU64     "ds_sub_rtn_u64"      DS  0x61          [DA2 V1 A2]    LANES;
        DsRsubU64       "ds_rsub_u64"         DS  0x42          [V1 A2]        LANES;
        DsRsubRtnU64    "ds_rsub_rtn_u64"     DS  0x62          [DA2 V1 A2]    LANES;
        DsIncU64        "ds_inc_u64"          DS  0x43          [V1 A2]        LANES;
        DsIncRtnU64     "ds_inc_rtn_u64"      DS  0x63          [DA2 V1 A2]    LANES;
        DsDecU64        "ds_dec_u64"          DS  0x44          [V1 A2]        LANES;
        DsDecRtnU64     "ds_dec_rtn_u64"      DS  0x64          [DA2 V1 A2]    LANES;
        DsMinI64        "ds_min_i64"          DS  0x45          [V1 A2]        LANES;
        DsMinRtnI64     "ds_min_rtn_i64"      DS  0x65          [DA2 V1 A2]    LANES;
        DsMaxI64        "ds_max_i64"          DS  0x46          [V1 A2]        LANES;
        DsMaxRtnI64     "ds_max_rtn_i64"      DS  0x66          [DA2 V1 A2]    LANES;
        DsMinU64        "ds_min_u64"          DS  0x47          [V1 A2]        LANES;
        DsMinRtnU64     "ds_min_rtn_u64"      DS  0x67          [DA2 V1 A2]    LANES;
        DsMaxU64        "ds_max_u64"          DS  0x48          [V1 A2]        LANES;
        DsMaxRtnU64     "ds_max_rtn_u64"      DS  0x68          [DA2 V1 A2]    LANES;
        DsAndB64        "ds_and_b64"          DS  0x49          [V1 A2]        LANES;
        DsAndRtnB64     "ds_and_rtn_b64"      DS  0x69          [DA2 V1 A2]    LANES;
        DsOrB64         "ds_or_b64"           DS  0x4a          [V1 A2]        LANES;
        DsOrRtnB64      "ds_or_rtn_b64"       DS  0x6a          [DA2 V1 A2]    LANES;
        DsXorB64        "ds_xor_b64"          DS  0x4b          [V1 A2]        LANES;
        DsXorRtnB64     "ds_xor_rtn_b64"      DS  0x6b          [DA2 V1 A2]    LANES;
        DsWrxchgRtnB64  "ds_wrxchg_rtn_b64"   DS  0x6d          [DA2 V1 A2]    LANES;
        DsCmpstB64      "ds_cmpst_b64"        DS  0x50          [V1 A2 A2]     LANES;
        DsCmpstRtnB64   "ds_cmpst_rtn_b64"    DS  0x70          [DA2 V1 A2 A2] LANES;
        DsCmpstF64      "ds_cmpst_f64"        DS  0x51          [V1 A2 A2]     LANES;
        DsCmpstRtnF64   "ds_cmpst_rtn_f64"    DS  0x71          [DA2 V1 A2 A2] LANES;
        DsAddF64        "ds_add_f64"          DS  0x5c          [V1 A2]        LANES;
        DsAddRtnF64     "ds_add_rtn_f64"      DS  0x7c          [DA2 V1 A2]    LANES;
        DsMinF64        "ds_min_f64"          DS  0x52          [V1 A2]        LANES;
        DsMinRtnF64     "ds_min_rtn_f64"      DS  0x72          [DA2 V1 A2]    LANES;
        DsMaxF64        "ds_max_f64"          DS  0x53          [V1 A2]        LANES;
        DsMaxRtnF64     "ds_max_rtn_f64"      DS  0x73          [DA2 V1 A2]    LANES;
        DsPkAddF16      "ds_pk_add_f16"       DS  [- 0x17 0x17] [V1 A1]        LANES;
        DsPkAddRtnF16   "ds_pk_add_rtn_f16"   DS  [- 0xb7 0xb7] [DA1 V1 A1]    LANES;
        DsPkAddBf16     "ds_pk_add_bf16"      DS  [- 0x18 0x18] [V1 A1]        LANES;
        DsPkAddRtnBf16  "ds_pk_add_rtn_bf16"  DS  [- 0xb8 0xb8] [DA1 V1 A1]    LANES;

        // Between lanes.
        DsSwizzleB32    "ds_swizzle_b32"      DS  0x3d          [DA1 V1]       LANES;
        DsPermuteB32    "ds_permute_b32"      DS  0x3e          [DA1 V1 A1]    LANES;
        DsBpermuteB32   "ds_bpermute_b32"     DS  0x3f          [DA1 V1 A1]    LANES;
        DsNop           "ds_nop"              DS  0x14          []             NOTHING;
    } };
}
