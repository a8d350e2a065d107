//! Configurations of products with any numbers end in kernels, grids and launches, or in errors.

use tilelift_ir::Scalar;
use tilelift_kernels::explicit::{ClusterGemm, Pair};
use tilelift_kernels::{FusedGemm, Gemm, Residual, SplitGemm, StreamGemm};

const ODD: [u32; 10] = [0, 1, 7, 64, 4096, 4097, 65536, 1 << 30, i32::MAX as u32, u32::MAX];

#[test]
fn any_configuration_is_a_kernel_or_an_error() {
    let mut built = 0;
    let mut at = 0;
    let mut next = || {
        at += 7;
        ODD[(at / ODD.len() + at) % ODD.len()]
    };
    for _ in 0..2000 {
        let shape @ [m, n, k] = [next(), next(), next()];
        let tile = [next(), next(), next()].map(|e| if e > 4097 && k % 2 == 0 { 16 } else { e });
        let gemm =
            Gemm { group: next(), ..Gemm::new(Scalar::F16) }.tile(tile[0], tile[1], tile[2]).schedule(next(), next()).for_shape(m, n, k);
        let results = [
            gemm.launches(m, n).is_ok(),
            FusedGemm::new(gemm.clone()).gated().plus(Residual::Plain(Scalar::F16)).batched(next()).launches(m, n, next()).is_ok(),
            SplitGemm::new(gemm.clone(), next()).launches(m, n).is_ok(),
            StreamGemm::new(gemm.clone()).in_flight(next()).launches(shape, next()).is_ok(),
            StreamGemm::new(gemm.clone()).keep_whole().launches(shape, next()).is_ok(),
            ClusterGemm::new(gemm.clone(), Pair::Rows, next()).launches(m, n, next()).is_ok(),
            ClusterGemm::new(gemm.clone(), Pair::Columns, next()).launches(m, n, next()).is_ok(),
        ];
        built += results.iter().filter(|&&ok| ok).count();
        let _ = gemm.tile_origin(next(), m, n);
        if let Ok(deal) = StreamGemm::new(gemm).deal(shape, next()) {
            let _ = (deal.parts(), deal.slots(), deal.dealt());
        }
    }
    assert!(built > 50, "{built}");
}
