//! Products by clusters: proved as they are lowered, right on the simulator under several orders, and wrong there as on a GPU where a matrix descriptor
//! keeps the rank that stands above an address in a cluster.

use crate::common::launch::{schedule, simulate_text};
use tilelift_ir::{Scalar, verify};
use tilelift_isel::{LowerOptions, Lowered, lower};
use tilelift_kernels::explicit::{ClusterGemm, ClusterGemmCase, Pair};
use tilelift_kernels::{Case, Gemm, Size};
use tilelift_nvptx::sm_90a;

fn product(trans: (bool, bool), pair: Pair, [bm, bn, consumers]: [u32; 3], [m, n, k]: [u32; 3]) -> (Case, Lowered) {
    let gemm = Gemm { stages: 3, ..Gemm::new(Scalar::BF16).transposed(trans.0, trans.1).tile(bm, bn, 64).for_shape(m, n, k) };
    let workload = Box::new(ClusterGemmCase { config: ClusterGemm::new(gemm, pair, consumers), workers: 4, m, n, k });
    let case = Case { name: format!("{trans:?} {pair:?} {bm}x{bn} {m}x{n}x{k}"), row: 18, size: Size::Small, workload };
    let kernel = case.build().unwrap();
    let lowered = lower(&verify(&kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    (case, lowered)
}

#[test]
fn either_operand_is_shared_in_any_order_of_storage() {
    for (n, trans) in [(false, false), (false, true), (true, false), (true, true)].into_iter().enumerate() {
        for (pair, tile) in [(Pair::Rows, [64, 128, 1]), (Pair::Columns, [128, 64, 2])] {
            let (case, l) = product(trans, pair, tile, [200, 136, 264]);
            let grid = case.launches(None).unwrap()[0].grid;
            simulate_text(&case, &l.program, grid, schedule(n as u64), str::to_owned).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        }
    }
}

#[test]
fn a_rank_in_a_descriptor_is_found() {
    let (case, l) = product((false, false), Pair::Rows, [64, 128, 1], [128, 128, 64]);
    let grid = case.launches(None).unwrap()[0].grid;
    let faulty = |text: &str| {
        let lines = text.lines().map(|line| match line.strip_suffix(", 4, 14;") {
            Some(start) => start.replace("bfe.u32", "shr.u32") + ", 4;\n",
            None => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    assert!(simulate_text(&case, &l.program, grid, schedule(0), str::to_owned).is_ok());
    assert!(simulate_text(&case, &l.program, grid, schedule(0), faulty).is_err());
}
