//! Configurations of products with any numbers end in kernels, grids and launches, or in errors.

use std::collections::HashSet;
use tilelift_ir::Scalar;
use tilelift_kernels::explicit::{ClusterGemm, Pair};
use tilelift_kernels::{FusedGemm, Gemm, Residual, SplitGemm, StreamGemm};

const ODD: [u32; 10] = [0, 1, 7, 64, 4096, 4097, 65536, 1 << 30, i32::MAX as u32, u32::MAX];
const TILES: [u32; 9] = [0, 7, 16, 32, 64, 64, 128, 4097, u32::MAX];
const WARPS: [u32; 6] = [0, 4, 4, 8, 33, u32::MAX];
const STAGES: [u32; 6] = [0, 1, 2, 4, 65, u32::MAX];

#[test]
fn any_configuration_is_a_kernel_or_an_error() {
    let (mut built, mut seen) = ([0; 7], HashSet::new());
    let mut state = 1u64;
    let mut of = |list: &[u32]| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list[(state >> 33) as usize % list.len()]
    };
    for _ in 0..2000 {
        let shape @ [m, n, k] = [of(&ODD), of(&ODD), of(&ODD)];
        let (tile, warps, stages) = ([of(&TILES), of(&TILES), of(&TILES)], of(&WARPS), of(&STAGES));
        seen.insert((shape, tile, warps, stages));
        let gemm = Gemm { group: of(&ODD), ..Gemm::new(Scalar::F16) }.tile(tile[0], tile[1], tile[2]).schedule(warps, stages);
        let gemm = gemm.for_shape(m, n, k);
        let results = [
            gemm.launches(m, n).is_ok(),
            FusedGemm::new(gemm.clone()).gated().plus(Residual::Plain(Scalar::F16)).batched(of(&ODD)).launches(m, n, of(&ODD)).is_ok(),
            SplitGemm::new(gemm.clone(), of(&ODD)).launches(m, n).is_ok(),
            StreamGemm::new(gemm.clone()).in_flight(of(&ODD)).launches(shape, of(&ODD)).is_ok(),
            StreamGemm::new(gemm.clone()).keep_whole().launches(shape, of(&ODD)).is_ok(),
            ClusterGemm::new(gemm.clone(), Pair::Rows, of(&[0, 1, 2, 7, u32::MAX])).launches(m, n, of(&ODD)).is_ok(),
            ClusterGemm::new(gemm.clone(), Pair::Columns, of(&[0, 1, 2, 7, u32::MAX])).launches(m, n, of(&ODD)).is_ok(),
        ];
        built.iter_mut().zip(results).for_each(|(count, ok)| *count += u32::from(ok));
        let _ = gemm.tile_origin(of(&ODD), m, n);
        if let Ok(deal) = StreamGemm::new(gemm).deal(shape, of(&ODD)) {
            let _ = (deal.parts(), deal.slots(), deal.dealt());
        }
    }
    assert!(seen.len() > 1900, "{}", seen.len());
    assert!(built.iter().all(|&n| n > 0), "{built:?}");
}
