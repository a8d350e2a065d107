//! Whole pipelines: what a model layer is made of.

use super::*;
use tilelift::graph::How;
use tilelift::interp::ScalarArg;

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
    g.add("norm", rms_norm(4, k.next_power_of_two()), [m.div_ceil(4), 1, 1], &[x.into(), scale.into(), h.into(), eps.into()])
        .expect("norm");
    g.add("product", product(), product_grid(m, n), &[h.into(), w.into(), t.into()]).expect("product");
    let grid = pointwise_grid(m, n, SMALL);
    g.add("bias_silu", bias_act(SMALL, silu), grid, &[t.into(), bias.into(), u.into()]).expect("bias_silu");
    let add = pointwise("residual", 2, SMALL, |b, t| b.add(t[0], t[1]));
    g.add("residual", add, grid, &[u.into(), residual.into(), y.into()]).expect("residual");
    g
}

#[test]
fn four_kernels_become_one_where_rows_are_short() {
    for (m, n, k) in [(128, 128, 64), (100, 72, 96), (65, 33, 40)] {
        let fused = fuse(&layer(m, n, k));
        assert_eq!(names(&fused), ["norm + product + bias_silu + residual"], "{}", fused.report);
        assert!(matches!(fused.report.decisions[2].outcome, Outcome::Fused { how: How::Inlined, .. }), "{}", fused.report);
        for d in &fused.report.decisions[..2] {
            assert!(matches!(d.outcome, Outcome::Fused { how: How::Epilogue, .. }), "{d}");
        }
        assert!(fused.report.cost[1] < fused.report.cost[0], "{}", fused.report);
    }
}

#[test]
fn four_kernels_become_two_where_each_tile_would_fold_its_rows_again() {
    let fused = layer(2048, 4096, 2048).fuse(&targets::usual(), &FuseOptions::exact());
    assert_eq!(names(&fused), ["norm", "product + bias_silu + residual"], "{}", fused.report);
    let last = fused.report.decisions.last().expect("the set is refused");
    assert_eq!((last.producer.as_str(), refusals(last)), ("norm", vec![RefusalKind::Cost]), "{}", fused.report);
}

/// Bias, GELU and residual as three kernels behind a product that the caller looks at only through them.
fn gelu(b: &mut tilelift::ir::KernelBuilder, x: tilelift::ir::Value) -> tilelift::ir::Value {
    let square = b.mul(x, x);
    let t = b.mul(square, -0.071_354_8f32);
    let t = b.add(t, -1.595_769f32);
    let t = b.mul(t, x);
    let e = b.exp(t);
    let d = b.add(e, 1.0f32);
    b.div(x, d)
}

fn epilogue(m: u32, n: u32, k: u32) -> Graph {
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[m, k], Role::Input);
    let w = tensor(&mut g, "w", &[k, n], Role::Input);
    let bias = g.tensor("bias", Scalar::F32, &[n.into()], Role::Input);
    let residual = tensor(&mut g, "residual", &[m, n], Role::Input);
    let [t, u, v] = ["t", "u", "v"].map(|name| tensor(&mut g, name, &[m, n], Role::Intermediate));
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    g.add("product", product(), product_grid(m, n), &[x.into(), w.into(), t.into()]).expect("product");
    let grid = pointwise_grid(m, n, SMALL);
    g.add("bias", bias_act(SMALL, |_, t| t), grid, &[t.into(), bias.into(), u.into()]).expect("bias");
    let wide = [16, 128];
    let act = pointwise("gelu", 1, wide, |b, t| gelu(b, t[0]));
    g.add("gelu", act, pointwise_grid(m, n, wide), &[u.into(), v.into()]).expect("gelu");
    let add = pointwise("residual", 2, SMALL, |b, t| b.add(t[0], t[1]));
    g.add("residual", add, grid, &[v.into(), residual.into(), y.into()]).expect("residual");
    g
}

/// Bytes that lanes ask for at instructions of a kind.
fn bytes(reports: &[Report], word: &str) -> u64 {
    let sites = reports.iter().flat_map(|r| &r.sites).filter(|s| s.text.contains(word));
    sites.map(|s| s.requested_bytes).sum()
}

#[test]
fn a_fused_epilogue_touches_each_byte_once() {
    let (m, n, k) = (128, 128, 64);
    let fused = fuse(&epilogue(m, n, k));
    assert_eq!(names(&fused), ["product + bias + gelu + residual"], "{}", fused.report);
    let (_, reports) = simulated(&fused.graph, &Bound::default(), "sm_80", 0);
    let matrix = u64::from(m * n * 2);
    assert_eq!(bytes(&reports, "st.global"), matrix, "y is stored once, t, u and v never");
    assert_eq!(bytes(&reports, "ld.global.v4.b32"), matrix, "residual is loaded once, t, u and v never");
    // Operands: each tile column reads x, each tile row w. What is left is the bias, an `f32` per lane and column that it holds.
    assert_eq!(bytes(&reports, "cp.async"), u64::from(m * k * 2 * n / 64 + k * n * 2 * m / 64));
    let bias = reports[0].sites.iter().filter(|s| s.text.contains("ld.global.v2.f32"));
    let (sectors, asked) = bias.fold((0, 0), |n, s| (n.0 + s.sectors, n.1 + s.requested_bytes));
    assert_eq!(reports[0].requested_bytes, 2 * matrix + bytes(&reports, "cp.async") + asked);
    // 64 columns of 4 bytes for each of the 4 tiles, and each of the 2 warps beside each other there.
    assert_eq!(sectors * 32, 4 * 2 * 64 * 4);
}

#[test]
fn pointwise_kernels_of_different_tiles_become_one_that_touches_each_byte_once() {
    let (m, n) = (96, 128);
    let mut g = Graph::new();
    let [x, y] = ["x", "y"].map(|name| tensor(&mut g, name, &[m, n], Role::Input));
    let [t, u] = ["t", "u"].map(|name| tensor(&mut g, name, &[m, n], Role::Intermediate));
    let z = tensor(&mut g, "z", &[m, n], Role::Output);
    let tiles = [[32, 64], [16, 128], [8, 32]];
    let add = pointwise("twice", 1, tiles[0], |b, t| b.add(t[0], t[0]));
    g.add("twice", add, pointwise_grid(m, n, tiles[0]), &[x.into(), t.into()]).expect("twice");
    let act = pointwise("gelu", 1, tiles[1], |b, t| gelu(b, t[0]));
    g.add("gelu", act, pointwise_grid(m, n, tiles[1]), &[t.into(), u.into()]).expect("gelu");
    let mul = pointwise("product", 2, tiles[2], |b, t| b.mul(t[0], t[1]));
    g.add("product", mul, pointwise_grid(m, n, tiles[2]), &[u.into(), y.into(), z.into()]).expect("product");
    let fused = fuse(&g);
    assert_eq!(names(&fused), ["twice + gelu + product"], "{}", fused.report);
    let (_, reports) = simulated(&fused.graph, &Bound::default(), "sm_80", 0);
    assert_eq!(bytes(&reports, "ld.global"), u64::from(2 * m * n * 2));
    assert_eq!(bytes(&reports, "st.global"), u64::from(m * n * 2));
}

/// The library's kernels at the tiles of a machine that copies whole tiles and multiplies them by warpgroups.
fn library_layer([m, n, k]: [u32; 3], tile: [u32; 2]) -> Graph {
    use tilelift_kernels::{Gemm, RmsNorm};
    let mut g = Graph::new();
    let elem = Scalar::BF16;
    let mut make = |name: &str, dims: &[u32], role| g.tensor(name, elem, &dims.iter().map(|&d| d.into()).collect::<Vec<_>>(), role);
    let (x, scale, w) = (make("x", &[m, k], Role::Input), make("scale", &[k], Role::Input), make("w", &[k, n], Role::Input));
    let (h, t) = (make("h", &[m, k], Role::Intermediate), make("t", &[m, n], Role::Intermediate));
    let (residual, y) = (make("residual", &[m, n], Role::Input), make("y", &[m, n], Role::Output));
    let bias = g.tensor("bias", Scalar::F32, &[n.into()], Role::Input);
    let u = g.tensor("u", Scalar::F16, &[m.into(), n.into()], Role::Intermediate);
    let norm = RmsNorm::new(elem, k).for_shape(m, k);
    let eps = ScalarArg::float(Scalar::F32, 1e-5);
    g.add("norm", norm.build().expect("norm"), norm.grid(m), &[x.into(), scale.into(), h.into(), eps.into()]).expect("norm");
    let gemm = Gemm::new(elem).for_shape(m, n, k).tile(tile[0], tile[1], 64);
    g.add("gemm", gemm.build().expect("gemm"), gemm.grid(m, n), &[h.into(), w.into(), t.into()]).expect("gemm");
    // Another element type in between, so that the casts count.
    let mut b = tilelift::ir::KernelBuilder::new("bias_silu");
    let [p, q, r] = [matrix(elem), vector(Scalar::F32), matrix(Scalar::F16)].map(|v| b.param(v));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, 128), b.mul(py, 16));
    let tile = b.load(p, &[row, col], &[16, 128]);
    let tile = b.cast(tile, Scalar::F32);
    let v = b.load(q, &[col], &[128]);
    let v = b.expand_dims(v, 0);
    let tile = b.add(tile, v);
    let tile = silu(&mut b, tile);
    let tile = b.cast(tile, Scalar::F16);
    b.store(r, &[row, col], tile);
    let grid = pointwise_grid(m, n, [16, 128]);
    g.add("bias_silu", b.finish().expect("bias_silu"), grid, &[t.into(), bias.into(), u.into()]).expect("bias_silu");
    let mut b = tilelift::ir::KernelBuilder::new("residual");
    let [p, q, r] = [matrix(Scalar::F16), matrix(elem), matrix(elem)].map(|v| b.param(v));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, 64), b.mul(py, 32));
    let [p, q] = [p, q].map(|v| {
        let tile = b.load(v, &[row, col], &[32, 64]);
        b.cast(tile, Scalar::F32)
    });
    let tile = b.add(p, q);
    let tile = b.cast(tile, elem);
    b.store(r, &[row, col], tile);
    let grid = pointwise_grid(m, n, [32, 64]);
    g.add("residual", b.finish().expect("residual"), grid, &[u.into(), residual.into(), y.into()]).expect("residual");
    g
}

/// A graph without its first kernel; the caller fills what that would write.
fn without_first(graph: &Graph) -> Graph {
    let mut rest = Graph::new();
    let first = &graph.nodes()[0];
    let read = |id| graph.nodes()[1..].iter().any(|n| n.args.iter().any(|a| a.tensor().is_some_and(|t| t.0 == id)));
    for (id, t) in graph.ids().zip(graph.tensors()) {
        let handed = t.role == Role::Intermediate && read(id) && first.args.iter().any(|a| a.tensor().is_some_and(|x| x.0 == id));
        rest.tensor(&t.name, t.elem, &t.dims, if handed { Role::Input } else { t.role });
    }
    for n in &graph.nodes()[1..] {
        rest.add(&n.name, n.kernel.clone(), n.grid.clone(), &n.args).expect("as before");
    }
    rest
}

#[test]
fn a_specialised_product_stays_specialised_with_its_epilogue() {
    // The larger tile leaves no shared memory beside the ring, so that the residual is loaded in the layout of the sums.
    for (extents, tile) in [([192, 256, 128], [64, 128]), ([128, 512, 128], [128, 256])] {
        let graph = without_first(&library_layer(extents, tile));
        let fused = fuse_as(&graph, &Bound::default(), "sm_90a", FuseOptions::exact());
        assert_eq!(names(&fused), ["gemm + bias_silu + residual"], "{}", fused.report);
        let target = targets::by_name("sm_90a").expect("a known target");
        let last = &fused.graph.nodes().last().expect("a node").kernel;
        let lowered = tilelift::lower(last, &target, &Options::default()).expect("it lowers");
        assert!(lowered.plan.specialised().is_some(), "{}", lowered.plan);
        let artifact = compile(last, &target, &Options::default()).expect("it compiles");
        match tilelift_oracle::assemble(&artifact.text, "sm_90a") {
            Ok(report) => assert_eq!((report.spills, report.warnings.as_slice()), (0, [].as_slice())),
            Err(tilelift_oracle::AsmError::Missing) if !tilelift_oracle::required() => {}
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_normalisation_of_whole_rows_follows_a_product() {
    // A tile of the product holds rows of 48 or 64 columns; what lies beyond the 48th must not count.
    for (m, n) in [(100, 64), (70, 48)] {
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, 32], Role::Input);
        let w = tensor(&mut g, "w", &[32, n], Role::Input);
        let scale = tensor(&mut g, "scale", &[n], Role::Input);
        let [t, u] = ["t", "u"].map(|name| tensor(&mut g, name, &[m, n], Role::Intermediate));
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        let eps = ScalarArg::float(Scalar::F32, 1e-5);
        g.add("product", product(), product_grid(m, n), &[x.into(), w.into(), t.into()]).expect("product");
        let plus = pointwise("plus", 1, SMALL, |b, t| b.add(t[0], 1.0f32));
        g.add("plus", plus, pointwise_grid(m, n, SMALL), &[t.into(), u.into()]).expect("plus");
        let norm = rms_norm(4, 64);
        g.add("norm", norm, [m.div_ceil(4), 1, 1], &[u.into(), scale.into(), y.into(), eps.into()]).expect("norm");
        let fused = fuse(&g);
        assert_eq!(names(&fused), ["product + plus + norm"], "{}", fused.report);
        let text = tilelift::ir::text::print(&fused.graph.nodes()[0].kernel);
        assert_eq!(text.contains("select"), n < 64, "{text}");
    }
}

#[test]
fn pointwise_and_row_wise_kernels_become_one() {
    // Another number of rows a program in each row-wise kernel, other tiles in each pointwise one; the sum is looked at, too.
    for (m, n) in [(64, 64), (37, 50)] {
        let mut g = Graph::new();
        let [x, residual, up] = ["x", "residual", "up"].map(|name| tensor(&mut g, name, &[m, n], Role::Input));
        let scale = tensor(&mut g, "scale", &[n], Role::Input);
        let sum = tensor(&mut g, "sum", &[m, n], Role::Output);
        let [h, p] = ["h", "p"].map(|name| tensor(&mut g, name, &[m, n], Role::Intermediate));
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        let eps = ScalarArg::float(Scalar::F32, 1e-5);
        let add = pointwise("add", 2, SMALL, |b, t| b.add(t[0], t[1]));
        g.add("add", add, pointwise_grid(m, n, SMALL), &[x.into(), residual.into(), sum.into()]).expect("add");
        g.add("norm", rms_norm(4, 64), [m.div_ceil(4), 1, 1], &[sum.into(), scale.into(), h.into(), eps.into()]).expect("norm");
        g.add("softmax", softmax(1, 64), [m, 1, 1], &[h.into(), p.into()]).expect("softmax");
        let gate = pointwise("gate", 2, [8, 32], |b, t| {
            let s = silu(b, t[0]);
            b.mul(s, t[1])
        });
        g.add("gate", gate, pointwise_grid(m, n, [8, 32]), &[p.into(), up.into(), y.into()]).expect("gate");
        let fused = fuse(&g);
        assert_eq!(names(&fused), ["add + norm + softmax + gate"], "{}", fused.report);
    }
}

#[test]
fn a_normalisation_goes_in_front_of_a_product() {
    // The normalised matrix is never stored. What one tile of columns folds is folded by the product itself.
    for (m, n, k) in [(128, 64, 256), (70, 33, 200)] {
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, k], Role::Input);
        let scale = tensor(&mut g, "scale", &[k], Role::Input);
        let w = tensor(&mut g, "w", &[k, n], Role::Input);
        let h = tensor(&mut g, "h", &[m, k], Role::Intermediate);
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        let eps = ScalarArg::float(Scalar::F32, 1e-5);
        g.add("norm", rms_norm(4, 256), [m.div_ceil(4), 1, 1], &[x.into(), scale.into(), h.into(), eps.into()]).expect("norm");
        g.add("product", product(), product_grid(m, n), &[h.into(), w.into(), y.into()]).expect("product");
        let fused = fuse(&g);
        assert_eq!(names(&fused), ["norm + product"], "{}", fused.report);
    }
}

#[test]
fn folds_of_long_rows_stay_a_kernel() {
    // Whole rows are too large for a program of the product, and the order of sums may not change.
    let (m, n, k) = (40, 33, 4000);
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[m, k], Role::Input);
    let scale = tensor(&mut g, "scale", &[k], Role::Input);
    let w = tensor(&mut g, "w", &[k, n], Role::Input);
    let h = tensor(&mut g, "h", &[m, k], Role::Intermediate);
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    let eps = ScalarArg::float(Scalar::F32, 1e-5);
    g.add("norm", rms_norm(4, 4096), [m.div_ceil(4), 1, 1], &[x.into(), scale.into(), h.into(), eps.into()]).expect("norm");
    g.add("product", product(), product_grid(m, n), &[h.into(), w.into(), y.into()]).expect("product");
    let fused = fuse_as(&g, &Bound::default(), "sm_80", FuseOptions { always: true, ..FuseOptions::exact() });
    assert_eq!(names(&fused), ["norm (folds)", "norm + product"], "{}", fused.report);
    assert!(matches!(fused.report.decisions[0].outcome, Outcome::Fused { how: How::SplitPrologue, .. }), "{}", fused.report);
    let folds = fused.graph.tensors().last().expect("the split made one");
    assert_eq!((folds.elem, folds.dims.as_slice()), (Scalar::F32, [m.into()].as_slice()));
}
