//! Stages of pipelined loops: how far ahead tiles are loaded is a wish.

use tilelift_amdgcn::{Chip, emit, gfx942};
use tilelift_ir::text;
use tilelift_isel::{LowerOptions, lower};

/// Two products of one step, whose operands A of so many rows lie in local data share together if they are loaded ahead.
fn two_products(rows: u32) -> String {
    format!(
        "kernel @k(v0: view<i8, [?, ?], [?%16, 1]>, v1: view<i8, [?, ?], [?%16, 1]>, v2: view<i8, [?, ?], [?%16, 1]>, v3: view<i32, [?, ?]>) {{
            v4 = program_id x
            v5 = mul v4, {rows}
            v6 = splat 0 : tile<{rows}x32xi32>
            v7 = dim v0, 1
            v8, v9 = for v10 in 0..v7 step 256 carry v11 = v6, v12 = v6 {{
                v13 = load v0[v5, v10] : tile<{rows}x256xi8>
                v14 = load v1[0, v10] : tile<32x256xi8>
                v15 = transpose v14, [1, 0]
                v16 = dot v13, v15, v11
                v17 = load v2[v5, v10] : tile<{rows}x256xi8>
                v18 = dot v17, v15, v12
                yield v16, v18
            }}
            v19 = add v8, v9
            store v3[v5, 0], v19
        }}"
    )
}

/// A number of stages that does not fit is no reason to refuse: lanes move the tiles, one step ahead or none.
#[test]
fn stages_that_do_not_fit_become_fewer() {
    let stages = |rows: u32, asked: Option<u32>| {
        let file = text::parse(&two_products(rows)).unwrap_or_else(|e| panic!("{e}"));
        let verified = tilelift_ir::verify::verify(&file.kernels[0]).expect("a kernel");
        let options = LowerOptions { stages: asked, ..Default::default() };
        let lowered = lower(&verified, &gfx942(), &options).unwrap_or_else(|e| panic!("{rows}, {asked:?}: {e}"));
        emit(&lowered.program, Chip::Gfx942).unwrap_or_else(|e| panic!("{rows}, {asked:?}: {e}"));
        lowered.plan.stages
    };
    assert_eq!([None, Some(2), Some(3)].map(|asked| stages(192, asked)), [1; 3]);
    assert_eq!([None, Some(2), Some(3), Some(1)].map(|asked| stages(64, asked)), [2, 2, 2, 1]);
}
