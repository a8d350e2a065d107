//! Whole pipelines: what a model layer is made of.

use super::*;
use tilelift::graph::How;
use tilelift::ir::interp::ScalarArg;

const SMALL: [u32; 2] = [32, 64];

/// RMSNorm, product, bias and SiLU, residual: four kernels.
fn layer(m: u32, n: u32, k: u32) -> Graph {
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[m, k], Role::Input);
    let scale = tensor(&mut g, "scale", &[k], Role::Input);
    let w = tensor(&mut g, "w", &[k, n], Role::Input);
    let bias = g.tensor("bias", Scalar::F32, &[n.into()], Role::Input);
    let residual = tensor(&mut g, "residual", &[m, n], Role::Input);
    let h = tensor(&mut g, "h", &[m, k], Role::Intermediate);
    let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
    let u = tensor(&mut g, "u", &[m, n], Role::Intermediate);
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    let eps = ScalarArg::float(Scalar::F32, 1e-5);
    g.add("norm", rms_norm(4, k.next_power_of_two()), [m.div_ceil(4), 1, 1], &[x.into(), scale.into(), h.into(), eps.into()]).expect("norm");
    g.add("product", product(), product_grid(m, n), &[h.into(), w.into(), t.into()]).expect("product");
    let grid = pointwise_grid(m, n, SMALL);
    g.add("bias_silu", bias_act(SMALL, silu), grid, &[t.into(), bias.into(), u.into()]).expect("bias_silu");
    let add = pointwise("residual", 2, SMALL, |b, t| b.add(t[0], t[1]));
    g.add("residual", add, grid, &[u.into(), residual.into(), y.into()]).expect("residual");
    g
}

#[test]
fn four_kernels_become_two() {
    for (m, n, k) in [(128, 128, 64), (100, 72, 96), (65, 33, 40)] {
        let fused = fuse(&layer(m, n, k));
        assert_eq!(names(&fused), ["norm", "product + bias_silu + residual"], "{}", fused.report);
        for d in &fused.report.decisions[..2] {
            assert!(matches!(d.outcome, Outcome::Fused { how: How::Epilogue, .. }), "{d}");
        }
        assert!(fused.report.cost[1] < fused.report.cost[0] && fused.report.bytes[1] < fused.report.bytes[0]);
    }
}
