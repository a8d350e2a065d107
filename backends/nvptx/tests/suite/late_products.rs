//! Products that a loop hands on in flight: what reads those of the iteration before stands in front of them.

use tilelift_ir::{text, verify};
use tilelift_isel::{LowerOptions, lower};
use tilelift_nvptx::sm_90a;

/// The first sum is read by nobody, so nothing else asks for it early.
const KERNEL: &str = "
kernel @sums(v0: view<f16, [?, 48]>, v1: view<f32, [?, ?]>) warps=1 stages=1 {
    v2 = splat 0.0 : tile<64x16xf32>
    v3 = splat 0.0 : tile<64x16xf32>
    v4, v5 = for v6 in 0..96 step 48 carry v7 = v2, v8 = v3 {
        v9 = splat 1.0f16 : tile<64x48xf16>
        v10 = splat 2.0f16 : tile<48x16xf16>
        v11 = splat 0.0 : tile<64x16xf32>
        v12 = dot v9, v10, v11
        v13 = add v7, v12
        v14 = splat 1.0 : tile<64x16xf32>
        v15 = splat true : tile<64x16xi1>
        v16 = select v15, v14, v14
        v17 = cast v16 : tile<64x16xf16>
        v18 = load v0[0, 0] : tile<16x16xf16>
        v19 = dot v17, v18, v8
        yield v13, v19
    }
    store v1[0, 0], v5
}
";

#[test]
fn sums_of_landed_products_come_in_front_of_the_next_ones() {
    let kernels = text::parse(KERNEL).unwrap_or_else(|e| panic!("{e}")).kernels;
    let kernel = &kernels[0];
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    let program = lower(&verified, &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}")).program.to_string();
    let last = |what: &str| program.rfind(what).unwrap_or_else(|| panic!("no {what} in {program}"));
    assert!(program.matches(":f32 = add").count() >= 8, "{program}");
    // Behind the loop one product more is waited for alone.
    assert!(last(":f32 = add") < last("wait_matrices 1"), "{program}");
}
