//! Turns of warpgroups as the assembler leaves them: a turn ends where its products have ended, not behind what lanes compute of them. Nothing depends on the
//! arrival at a named barrier, so the assembler may move it down, and then each group waits for all that the other one computes.

use tilelift_ir::{text, verify};
use tilelift_isel::{LowerOptions, lower};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};
use tilelift_oracle::{AsmError, assemble_bytes, disassemble, nvdisasm, required};

/// Attention of bytes, whose products can't run while lanes compute; all keys are whole tiles.
const ATTENTION: &str = "kernel @bytes(v0: view<f8e4m3, [?%128, 128]>, v1: view<f8e4m3, [?%128, 128]>, v2: view<f8e4m3, [?%128, 128]>, v3: view<bf16, [?%128, 128]>) warps=8 stages=2 {
v4 = program_id x
v5 = mul v4, 128
v6 = dim v1, 0
v7 = load v0[v5, 0] : tile<128x128xf8e4m3>
v8 = splat -inf : tile<128x1xf32>
v9 = splat 0.0 : tile<128x1xf32>
v10 = splat 0.0 : tile<128x128xf32>
v11, v12, v13 = for v14 in 0..v6 step 128 carry v15 = v8, v16 = v9, v17 = v10 {
v18 = load v1[v14, 0] : tile<128x128xf8e4m3>
v19 = transpose v18, [1, 0]
v20 = splat 0.0 : tile<128x128xf32>
v21 = dot v7, v19, v20
v22 = reduce maximum v21, axis 1
v23 = reshape v22 : tile<128x1xf32>
v24 = maximum v15, v23
v25 = broadcast v24 : tile<128x128xf32>
v26 = sub v21, v25
v27 = exp2 v26
v28 = sub v15, v24
v29 = exp2 v28
v30 = reduce add v27, axis 1
v31 = reshape v30 : tile<128x1xf32>
v32 = fma v16, v29, v31
v33 = broadcast v29 : tile<128x128xf32>
v34 = mul v17, v33
v35 = cast v27 : tile<128x128xf8e4m3>
v36 = load v2[v14, 0] : tile<128x128xf8e4m3>
v37 = dot v35, v36, v34
yield v24, v32, v37
}
v38 = broadcast v12 : tile<128x128xf32>
v39 = div v13, v38
v40 = cast v39 : tile<128x128xbf16>
store v3[v5, 0], v40
}";

#[test]
fn a_turn_ends_where_its_products_do() {
    let kernel = &text::parse(ATTENTION).unwrap().kernels[0];
    let lowered = lower(&verify::verify(kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap();
    let ptx = emit(&lowered.program, &sm_90a(), &EmitOptions::default()).unwrap().text;
    assert!(ptx.contains("bar.arrive"), "its groups take turns");
    let sass = match assemble_bytes(&ptx, "sm_90a") {
        Ok((report, object)) if nvdisasm().is_some() => {
            assert!(report.spills == 0 && report.warnings.is_empty(), "{report:?}");
            disassemble(&object).unwrap()
        }
        Ok(_) | Err(AsmError::Missing) => return assert!(!required(), "ptxas or nvdisasm is missing"),
        Err(e) => panic!("{e}"),
    };
    // In the order of the text: a product of the loop, the wait for it, and what comes next of arrivals and of functions that lanes compute.
    let lines: Vec<&str> =
        sass.lines().filter(|l| ["QGMMA", "DEPBAR.LE gsb0", "BAR.ARV", "MUFU.EX2"].iter().any(|op| l.contains(op))).collect();
    let behind = |from: &str| {
        let at = lines.windows(3).filter(|w| w[0].contains("QGMMA") && w[1].contains("DEPBAR")).map(|w| w[2]);
        at.filter(|l| l.contains(from)).count()
    };
    assert!(behind("BAR.ARV") >= 1 && behind("MUFU") == 1, "{}", lines.join("\n"));
}
