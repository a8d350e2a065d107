//! Matrix instructions, and moves to and from the registers that they accumulate in. They do not ask `exec`.

/// Hands its rows, behind those before them, to the next table.
macro_rules! matrix_rows {
    ($($done:tt)*) => { lds_rows! {
        $($done)*

        // Moves.
        VAccvgprReadB32               "v_accvgpr_read_b32"                                       MAI_MOVE   0x58             [DV1 ACC1]                        LANES;
        VAccvgprWriteB32              "v_accvgpr_write_b32"                                      MAI_MOVE   0x59             [DACC1 B32]                       LANES;

        // Dense.
        VMfmaF32_32x32x1_2bF32        "v_mfma_f32_32x32x1_2b_f32" / "v_mfma_f32_32x32x1f32"      MAI        0x40             [DA32 A1 A1 CF32]                 NOTHING;
        VMfmaF32_16x16x1_4bF32        "v_mfma_f32_16x16x1_4b_f32" / "v_mfma_f32_16x16x1f32"      MAI        0x41             [DA16 A1 A1 CF16]                 NOTHING;
        VMfmaF32_4x4x1_16bF32         "v_mfma_f32_4x4x1_16b_f32" / "v_mfma_f32_4x4x1f32"         MAI        0x42             [DA4 A1 A1 CF4]                   NOTHING;
        VMfmaF32_32x32x2F32           "v_mfma_f32_32x32x2_f32" / "v_mfma_f32_32x32x2f32"         MAI        0x44             [DA16 A1 A1 CF16]                 NOTHING;
        VMfmaF32_16x16x4F32           "v_mfma_f32_16x16x4_f32" / "v_mfma_f32_16x16x4f32"         MAI        0x45             [DA4 A1 A1 CF4]                   NOTHING;
        VMfmaF32_32x32x4_2bF16        "v_mfma_f32_32x32x4_2b_f16" / "v_mfma_f32_32x32x4f16"      MAI        0x48             [DA32 A2 A2 CF32]                 NOTHING;
        VMfmaF32_16x16x4_4bF16        "v_mfma_f32_16x16x4_4b_f16" / "v_mfma_f32_16x16x4f16"      MAI        0x49             [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_4x4x4_16bF16         "v_mfma_f32_4x4x4_16b_f16" / "v_mfma_f32_4x4x4f16"         MAI        0x4a             [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x8F16           "v_mfma_f32_32x32x8_f16" / "v_mfma_f32_32x32x8f16"         MAI        0x4c             [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_16x16x16F16          "v_mfma_f32_16x16x16_f16" / "v_mfma_f32_16x16x16f16"       MAI        0x4d             [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x4_2bBf16       "v_mfma_f32_32x32x4_2b_bf16" / "v_mfma_f32_32x32x4bf16_1k" MAI        [0x63 0x5d 0x5d] [DA32 A2 A2 CF32]                 NOTHING;
        VMfmaF32_16x16x4_4bBf16       "v_mfma_f32_16x16x4_4b_bf16" / "v_mfma_f32_16x16x4bf16_1k" MAI        [0x64 0x5e 0x5e] [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_4x4x4_16bBf16        "v_mfma_f32_4x4x4_16b_bf16" / "v_mfma_f32_4x4x4bf16_1k"    MAI        [0x65 0x5f 0x5f] [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x8Bf16          "v_mfma_f32_32x32x8_bf16" / "v_mfma_f32_32x32x8bf16_1k"    MAI        [0x66 0x60 0x60] [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_16x16x16Bf16         "v_mfma_f32_16x16x16_bf16" / "v_mfma_f32_16x16x16bf16_1k"  MAI        [0x67 0x61 0x61] [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaI32_32x32x4_2bI8         "v_mfma_i32_32x32x4_2b_i8" / "v_mfma_i32_32x32x4i8"        MAI        0x50             [DA32 A1 A1 CI32]                 NOTHING;
        VMfmaI32_16x16x4_4bI8         "v_mfma_i32_16x16x4_4b_i8" / "v_mfma_i32_16x16x4i8"        MAI        0x51             [DA16 A1 A1 CI16]                 NOTHING;
        VMfmaI32_4x4x4_16bI8          "v_mfma_i32_4x4x4_16b_i8" / "v_mfma_i32_4x4x4i8"           MAI        0x52             [DA4 A1 A1 CI4]                   NOTHING;
        VMfmaI32_32x32x8I8            "v_mfma_i32_32x32x8i8"                                     MAI        [0x54 - -]       [DA16 A1 A1 CI16]                 NOTHING;
        VMfmaI32_16x16x16I8           "v_mfma_i32_16x16x16i8"                                    MAI        [0x55 - -]       [DA4 A1 A1 CI4]                   NOTHING;
        VMfmaI32_32x32x16I8           "v_mfma_i32_32x32x16_i8"                                   MAI        [- 0x56 0x56]    [DA16 A2 A2 CI16]                 NOTHING;
        VMfmaI32_16x16x32I8           "v_mfma_i32_16x16x32_i8"                                   MAI        [- 0x57 0x57]    [DA4 A2 A2 CI4]                   NOTHING;
        VMfmaF32_32x32x4Xf32          "v_mfma_f32_32x32x4_xf32"                                  MAI        [- 0x3f -]       [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_16x16x8Xf32          "v_mfma_f32_16x16x8_xf32"                                  MAI        [- 0x3e -]       [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_16x16x32Bf8Bf8       "v_mfma_f32_16x16x32_bf8_bf8"                              MAI        [- 0x70 0x70]    [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x16Bf8Bf8       "v_mfma_f32_32x32x16_bf8_bf8"                              MAI        [- 0x74 0x74]    [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_16x16x32Bf8Fp8       "v_mfma_f32_16x16x32_bf8_fp8"                              MAI        [- 0x71 0x71]    [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x16Bf8Fp8       "v_mfma_f32_32x32x16_bf8_fp8"                              MAI        [- 0x75 0x75]    [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_16x16x32Fp8Bf8       "v_mfma_f32_16x16x32_fp8_bf8"                              MAI        [- 0x72 0x72]    [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x16Fp8Bf8       "v_mfma_f32_32x32x16_fp8_bf8"                              MAI        [- 0x76 0x76]    [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF32_16x16x32Fp8Fp8       "v_mfma_f32_16x16x32_fp8_fp8"                              MAI        [- 0x73 0x73]    [DA4 A2 A2 CF4]                   NOTHING;
        VMfmaF32_32x32x16Fp8Fp8       "v_mfma_f32_32x32x16_fp8_fp8"                              MAI        [- 0x77 0x77]    [DA16 A2 A2 CF16]                 NOTHING;
        VMfmaF64_16x16x4F64           "v_mfma_f64_16x16x4_f64" / "v_mfma_f64_16x16x4f64"         MAI        0x6e             [DA8 A2 A2 CD8]                   NOTHING;
        VMfmaF64_4x4x4_4bF64          "v_mfma_f64_4x4x4_4b_f64" / "v_mfma_f64_4x4x4f64"          MAI        0x6f             [DA2 A2 A2 CD2]                   NOTHING;

        // Dense, of gfx950.
        VMfmaF32_16x16x32F16          "v_mfma_f32_16x16x32_f16"                                  MAI        [- - 0x54]       [DA4 A4 A4 CF4]                   NOTHING;
        VMfmaF32_32x32x16F16          "v_mfma_f32_32x32x16_f16"                                  MAI        [- - 0x55]       [DA16 A4 A4 CF16]                 NOTHING;
        VMfmaF32_16x16x32Bf16         "v_mfma_f32_16x16x32_bf16"                                 MAI        [- - 0x35]       [DA4 A4 A4 CF4]                   NOTHING;
        VMfmaF32_32x32x16Bf16         "v_mfma_f32_32x32x16_bf16"                                 MAI        [- - 0x37]       [DA16 A4 A4 CF16]                 NOTHING;
        VMfmaI32_16x16x64I8           "v_mfma_i32_16x16x64_i8"                                   MAI        [- - 0x36]       [DA4 A4 A4 CI4]                   NOTHING;
        VMfmaI32_32x32x32I8           "v_mfma_i32_32x32x32_i8"                                   MAI        [- - 0x38]       [DA16 A4 A4 CI16]                 NOTHING;

        // Of narrow formats, which the modifiers name: A and B have 8, 6 or 4 registers with the format. With a scale per 32 elements, behind C.
        VMfmaF32_16x16x128F8f6f4      "v_mfma_f32_16x16x128_f8f6f4"                              MAI_NARROW [- - 0x2d]       [DA4 NARROW NARROW CF4]           NOTHING;
        VMfmaF32_32x32x64F8f6f4       "v_mfma_f32_32x32x64_f8f6f4"                               MAI_NARROW [- - 0x2e]       [DA16 NARROW NARROW CF16]         NOTHING;
        VMfmaScaleF32_16x16x128F8f6f4 "v_mfma_scale_f32_16x16x128_f8f6f4"                        VOP3PX2    [- - 0x2d]       [DA4 NARROW NARROW CF4 V1 V1]   NOTHING;
        VMfmaScaleF32_32x32x64F8f6f4  "v_mfma_scale_f32_32x32x64_f8f6f4"                         VOP3PX2    [- - 0x2e]       [DA16 NARROW NARROW CF16 V1 V1] NOTHING;
    } };
}
