//! Tiles through windows: what of them is outside costs neither lanes that are switched off nor zeros that are written.

use tilelift_amdgcn::{AmdKernel, Chip, emit, gfx942};
use tilelift_ir::text;
use tilelift_isel::{LowerOptions, lower};

fn made(kernel: &str) -> AmdKernel {
    let file = text::parse(kernel).unwrap_or_else(|e| panic!("{e}"));
    let verified = tilelift_ir::verify::verify(&file.kernels[0]).expect("a kernel");
    let lowered = lower(&verified, &gfx942(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    emit(&lowered.program, Chip::Gfx942).unwrap_or_else(|e| panic!("{e}"))
}

/// Blocks of a text that have such an instruction.
fn blocks<'a>(text: &'a str, with: &str) -> Vec<Vec<&'a str>> {
    let blocks = text.split(".Lbb").map(|block| block.lines().skip(1).map(str::trim).collect::<Vec<_>>());
    blocks.filter(|block| block.iter().any(|line| line.starts_with(with))).collect()
}

const PRODUCT: &str = "kernel @k(v0: view<f16, [?, ?%8]>, v1: view<f16, [?, ?%8]>, v2: view<f32, [?, ?]>) warps=4 stages=2 {
    v3 = program_id x
    v4 = program_id y
    v5 = mul v3, 128
    v6 = mul v4, 128
    v7 = dim v0, 1
    v8 = splat 0.0 : tile<128x128xf32>
    v9 = for v10 in 0..v7 step 64 carry v11 = v8 {
        v12 = load v0[v6, v10] : tile<128x64xf16>
        v13 = load v1[v10, v5] : tile<64x128xf16>
        v14 = dot v12, v13, v11
        yield v14
    }
    store v2[v6, v5], v9
}";

#[test]
fn operands_and_results_of_products_have_bounds() {
    let text = made(PRODUCT).text;
    let loads = blocks(&text, "buffer_load_dwordx4");
    // Two operands, in front of the loop and in it.
    assert_eq!(loads.len(), 4, "{text}");
    for block in &loads {
        assert_eq!(block.iter().filter(|l| l.starts_with("buffer_load")).count(), 4, "{block:#?}");
        assert!(!block.iter().any(|l| l.contains("exec")), "{block:#?}");
        let vector = block.iter().filter(|l| l.starts_with("v_")).count();
        assert!(vector <= 5, "{block:#?}");
    }
    let stores = blocks(&text, "buffer_store_dword");
    assert_eq!(stores.len(), 1, "{text}");
    let stored = stores[0].iter().filter(|l| l.starts_with("buffer_store")).count();
    let vector = stores[0].iter().filter(|l| l.starts_with("v_") && !l.starts_with("v_accvgpr")).count();
    assert!(stored == 64 && vector <= 80 && !stores[0].iter().any(|l| l.contains("exec")), "{vector}: {:#?}", stores[0]);
}

/// A mask of the author's is no bound.
#[test]
fn masks_switch_lanes_off() {
    let masked = "kernel @k(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>) warps=1 {
        v2 = iota 0 : tile<64x16xi32>
        v3 = splat 11 : tile<64x16xi32>
        v4 = cmp lt v2, v3
        v5 = load v0[0, 0], mask=v4 : tile<64x16xf32>
        store v1[0, 0], v5
    }";
    let text = made(masked).text;
    assert!(blocks(&text, "buffer_load").is_empty() && text.contains("s_and_saveexec_b64"), "{text}");
}

/// Of tiles that are whole no lane asks anything, and loops find the patterns of their permutes in registers.
#[test]
fn whole_tiles_ask_no_lane() {
    let asks = |text: &str| {
        let loads = blocks(text, "buffer_load_dwordx4");
        assert_eq!(loads.len(), 4, "{text}");
        loads.iter().flatten().filter(|l| l.starts_with("v_cmp") || l.starts_with("v_cndmask") || l.starts_with("s_max_i32")).count()
    };
    let [any, whole] = [PRODUCT.to_owned(), PRODUCT.replace("[?, ?%8]", "[?%128, ?%128]")].map(|kernel| made(&kernel).text);
    assert!(asks(&any) > 0, "{any}");
    assert_eq!(asks(&whole), 0, "{whole}");
    for text in [&any, &whole] {
        let steps: Vec<Vec<&str>> = blocks(text, "v_mfma").into_iter().filter(|b| b.iter().any(|l| l.starts_with("v_perm_b32"))).collect();
        assert_eq!(steps.len(), 1, "{text}");
        assert!(!steps[0].iter().any(|l| l.starts_with("s_mov_b32")), "{text}");
    }
}

/// A mask that facts of divisibility decide for all steps is not computed.
#[test]
fn masks_of_whole_steps_vanish() {
    let masked = |fact: &str| {
        let kernel = format!(
            "kernel @k(v0: view<f32, [64, {fact}]>, v1: view<f32, [64]>) warps=1 {{
        v2 = dim v0, 1
        v3 = splat 0.0 : tile<64xf32>
        v4 = for v5 in 0..v2 step 64 carry v6 = v3 {{
            v7 = load v0[0, v5] : tile<64x64xf32>
            v8 = iota 1 : tile<64x64xi32>
            v9 = add v8, v5
            v10 = cmp lt v9, v2
            v11 = splat 1.0 : tile<64x64xf32>
            v12 = select v10, v7, v11
            v13 = reduce add v12, axis 1
            v14 = add v6, v13
            yield v14
        }}
        store v1[0], v4
    }}"
        );
        made(&kernel).text.matches("v_cmp_lt_i32").count()
    };
    assert!(masked("?") > 0 && masked("?%32") > 0);
    assert_eq!(masked("?%64"), 0);
}
