//! Producers that fold whole rows, in front of what reads them: log-sum-exp, normalisations, softmax; and what keeps them where they are.

use super::near::*;
use super::*;
use tilelift::graph::FuseRule;
use tilelift::ir::{Access, CmpOp, Kernel, KernelBuilder, ReduceOp, Value};

/// The log of the sum of exponents of each row of a matrix.
fn log_sum_exp(rows: u32, cols: u32) -> Kernel {
    let mut b = KernelBuilder::new("lse");
    b.warps(4);
    let (x, y) = (b.param(matrix(Scalar::F16)), b.param(vector(Scalar::F32)));
    let pid = b.program_id(0);
    let (row, zero) = (b.mul(pid, rows), origin(&mut b));
    let other = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    let t = b.load_with(x, &[row, zero], &[rows, cols], other);
    let t = b.cast(t, Scalar::F32);
    let max = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let t = b.sub(t, max);
    let e = b.exp(t);
    let sum = b.reduce_keep(ReduceOp::Add, e, 1);
    let t = b.log(sum);
    let t = b.add(t, max);
    let t = b.reshape(t, &[rows]);
    b.store(y, &[row], t);
    b.finish().expect("well built")
}

/// `z = x - s`, s per row in `f32`.
fn less_per_row(tile: [u32; 2]) -> Kernel {
    let mut b = KernelBuilder::new("less");
    b.warps(4);
    let x = b.param(matrix(Scalar::F16));
    let s = b.param(vector(Scalar::F32));
    let z = b.param(matrix(Scalar::F16));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let t = b.load(x, &[row, col], &tile);
    let t = b.cast(t, Scalar::F32);
    let v = b.load(s, &[row], &[tile[0]]);
    let v = b.expand_dims(v, 1);
    let t = b.sub(t, v);
    let t = b.cast(t, Scalar::F16);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

#[test]
fn a_fold_that_is_a_number_per_row_goes_in_front_of_what_reads_it() {
    for (m, n) in [(48, 64), (37, 50), (20, 1000)] {
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, n], Role::Input);
        let s = g.tensor("s", Scalar::F32, &[m.into()], Role::Intermediate);
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        let tile = [16, 32];
        g.add("lse", log_sum_exp(2, n.next_power_of_two()), [m.div_ceil(2), 1, 1], &[x.into(), s.into()]).expect("lse");
        g.add("less", less_per_row(tile), pointwise_grid(m, n, tile), &[x.into(), s.into(), y.into()]).expect("less");
        for options in [FuseOptions::default(), FuseOptions::exact()] {
            let fused = g.fuse(&targets::usual(), &always(options));
            assert_eq!(names(&fused), ["lse + less"], "{}", fused.report);
            // One unit of `f16` where the numbers are at most 10, if roundings differ.
            near(&g, &fused, &Bound::default(), if options == FuseOptions::exact() { 0.0 } else { 2f64.powi(-7) });
        }
    }
}

/// `y = (x - mean) / sqrt(variance + 1e-5)` of rows of up to `cols` columns.
fn layer_norm(rows: u32, cols: u32) -> Kernel {
    let mut b = KernelBuilder::new("layer_norm");
    b.warps(4);
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let pid = b.program_id(0);
    let (row, zero) = (b.mul(pid, rows), origin(&mut b));
    let n = b.dim(x, 1);
    let count = b.cast(n, Scalar::F32);
    let t = b.load(x, &[row, zero], &[rows, cols]);
    let t = b.cast(t, Scalar::F32);
    let sum = b.reduce_keep(ReduceOp::Add, t, 1);
    let mean = b.div(sum, count);
    let t = b.sub(t, mean);
    let steps = b.iota(&[rows, cols], 1);
    let there = b.cmp(CmpOp::Lt, steps, n);
    let none = b.full(&[rows, cols], 0, Scalar::F32);
    let t = b.select(there, t, none);
    let square = b.mul(t, t);
    let sum = b.reduce_keep(ReduceOp::Add, square, 1);
    let variance = b.div(sum, count);
    let variance = b.add(variance, 1e-5f32);
    let scale = b.rsqrt(variance);
    let t = b.mul(t, scale);
    let t = b.cast(t, Scalar::F16);
    b.store(y, &[row, zero], t);
    b.finish().expect("well built")
}

/// A kernel of rows in front of a product.
fn rows_and_product(first: Kernel, rows: u32, [m, n, k]: [u32; 3], role: Role) -> Graph {
    use tilelift::graph::NodeArg;
    use tilelift::interp::ScalarArg;
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[m, k], Role::Input);
    let scale = tensor(&mut g, "scale", &[k], Role::Input);
    let w = tensor(&mut g, "w", &[k, n], Role::Input);
    let h = tensor(&mut g, "h", &[m, k], role);
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    let mut args: Vec<NodeArg> = vec![x.into(), h.into()];
    if first.params.len() == 4 {
        args = vec![x.into(), scale.into(), h.into(), ScalarArg::float(Scalar::F32, 1e-5).into()];
    }
    g.add("rows", first, [m.div_ceil(rows), 1, 1], &args).expect("rows");
    g.add("product", product(), product_grid(m, n), &[h.into(), w.into(), y.into()]).expect("product");
    g
}

#[test]
fn kernels_of_whole_rows_go_in_front_of_a_product() {
    for [m, n, k] in [[64, 64, 128], [50, 33, 100]] {
        for (first, folds) in [(rms_norm(2, 128), 1), (layer_norm(2, 128), 2), (softmax(2, 128), 2)] {
            let softmax = first.name == "softmax";
            let g = rows_and_product(first, 2, [m, n, k], Role::Intermediate);
            let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
            assert_eq!(names(&fused), ["rows + product"], "{}", fused.report);
            let Outcome::Fused { rules, .. } = &fused.report.decisions[0].outcome else { panic!("{}", fused.report) };
            let cut = |r: &&FuseRule| matches!(r, FuseRule::Strip { extent: 128, width: 32, cut: true, .. });
            assert_eq!(rules.iter().filter(cut).count(), folds, "{}", fused.report);
            // Elements of `h` are at most the root of `k`, or one; each is off by a unit of `f16`, and so is the result.
            let most = if softmax { 1.0 } else { f64::from(k).sqrt() * f64::from(k) };
            near(&g, &fused, &Bound::default(), 4.0 * most * unit(Scalar::F16));
            // Bit for bit: maxima in pieces, sums of whole rows.
            let exact = g.fuse(&targets::usual(), &always(FuseOptions::exact()));
            assert_eq!(names(&exact), ["rows + product"], "{}", exact.report);
            near(&g, &exact, &Bound::default(), 0.0);
            assert!(!exact.report.to_string().contains("strip add"), "{}", exact.report);
        }
    }
}

#[test]
fn columns_are_folded_for_each_tile_of_them() {
    // The fold runs across the rows that a program of the product has: its loop stands inside of that over the depth.
    let mut b = KernelBuilder::new("columns");
    b.warps(4);
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let pid = b.program_id(0);
    let (col, zero) = (b.mul(pid, 4), origin(&mut b));
    let t = b.load(x, &[zero, col], &[128, 4]);
    let t = b.cast(t, Scalar::F32);
    let square = b.mul(t, t);
    let sum = b.reduce_keep(ReduceOp::Add, square, 0);
    let sum = b.add(sum, 1.0f32);
    let t = b.div(t, sum);
    let t = b.cast(t, Scalar::F16);
    b.store(y, &[zero, col], t);
    let columns = b.finish().expect("well built");
    let mut g = Graph::new();
    let (m, n, k) = (100, 40, 70);
    let x = tensor(&mut g, "x", &[m, k], Role::Input);
    let w = tensor(&mut g, "w", &[k, n], Role::Input);
    let h = tensor(&mut g, "h", &[m, k], Role::Intermediate);
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    g.add("columns", columns, [k.div_ceil(4), 1, 1], &[x.into(), h.into()]).expect("columns");
    g.add("product", product(), product_grid(m, n), &[h.into(), w.into(), y.into()]).expect("product");
    let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
    assert_eq!(names(&fused), ["columns + product"], "{}", fused.report);
    near(&g, &fused, &Bound::default(), f64::from(k) * unit(Scalar::F16) * 4.0);
    let apart = g.fuse(&targets::usual(), &FuseOptions { typical: 2048, ..FuseOptions::default() });
    near(&g, &apart, &Bound::default(), f64::from(k) * unit(Scalar::F16) * 4.0);
}

#[test]
fn what_is_written_in_between_keeps_producers_where_they_are() {
    // Somebody changes the weights behind the softmax; somebody else overwrites what they were made of, for the product to read.
    let square = |g: &mut Graph, name: &str, role| g.tensor(name, Scalar::F16, &[32.into(), 32.into()], role);
    let mut g = Graph::new();
    let x = square(&mut g, "x", Role::Input);
    let p = square(&mut g, "p", Role::Intermediate);
    let w = square(&mut g, "w", Role::Input);
    let o = square(&mut g, "o", Role::Output);
    g.add("softmax", softmax(4, 32), [8, 1, 1], &[x.into(), p.into()]).expect("softmax");
    g.add("change", accumulate([32, 8]), pointwise_grid(32, 32, [32, 8]), &[w.into(), p.into()]).expect("change");
    g.add("values", product(), product_grid(32, 32), &[p.into(), w.into(), o.into()]).expect("values");
    let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
    near(&g, &fused, &Bound::default(), 8.0 * unit(Scalar::F16));

    let mut g = Graph::new();
    let x = square(&mut g, "x", Role::InOut);
    let p = square(&mut g, "p", Role::Intermediate);
    let w = square(&mut g, "w", Role::Input);
    let o = square(&mut g, "o", Role::Output);
    g.add("softmax", softmax(4, 32), [8, 1, 1], &[x.into(), p.into()]).expect("softmax");
    let copy = pointwise("copy", 1, [32, 8], |_, t| t[0]);
    g.add("overwrite", copy, pointwise_grid(32, 32, [32, 8]), &[w.into(), x.into()]).expect("overwrite");
    g.add("values", product(), product_grid(32, 32), &[p.into(), x.into(), o.into()]).expect("values");
    let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
    let text = fused.report.to_string();
    assert!(text.contains("inlined: `overwrite` writes `x` between `softmax` and `values`"), "{text}");
    assert_eq!(fused.graph.nodes().len(), 3, "{text}");
    near(&g, &fused, &Bound::default(), 8.0 * unit(Scalar::F16));
}

#[test]
fn what_a_producer_tells_is_not_left_out() {
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[32, 64], Role::Input);
    let p = tensor(&mut g, "p", &[32, 64], Role::Intermediate);
    let w = tensor(&mut g, "w", &[64, 64], Role::Input);
    let o = tensor(&mut g, "o", &[32, 64], Role::Output);
    let mut b = KernelBuilder::new("told");
    b.warps(4);
    let [from, to] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let pid = b.program_id(0);
    let (row, zero) = (b.mul(pid, 4), origin(&mut b));
    let t = b.load(from, &[row, zero], &[4, 64]);
    let most = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let right = b.cmp(CmpOp::Le, most, 2.0);
    b.assert(right);
    let t = b.sub(t, most);
    b.store(to, &[row, zero], t);
    g.add("told", b.finish().expect("well built"), [8, 1, 1], &[x.into(), p.into()]).expect("told");
    g.add("product", product(), product_grid(32, 64), &[p.into(), w.into(), o.into()]).expect("product");
    let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
    assert_eq!(names(&fused), ["told", "product"], "{}", fused.report);
    assert!(fused.report.to_string().contains("`assert` in `told` would be left out"), "{}", fused.report);
    near(&g, &fused, &Bound::default(), 0.0);
}

#[test]
fn rows_whose_length_is_known_at_launch_are_folded_to_their_end() {
    use tilelift::graph::{Count, Grid};
    let mut g = Graph::new();
    let (m, k, n) = (g.size("m", 1), g.size("k", 8), g.size("n", 1));
    let mut make =
        |name: &str, a: &tilelift::graph::Size, b: &tilelift::graph::Size, role| g.tensor(name, Scalar::F16, &[a.clone(), b.clone()], role);
    let (x, w) = (make("x", &m, &k, Role::Input), make("w", &k, &n, Role::Input));
    let (h, y) = (make("h", &m, &k, Role::Intermediate), make("y", &m, &n, Role::Output));
    g.add("softmax", softmax(2, 256), Grid::row(Count::tiles(&m, 2)), &[x.into(), h.into()]).expect("softmax");
    let grid = Grid::row(Count::tiles(&m, 64).times(&Count::tiles(&n, 64)));
    g.add("product", product(), grid, &[h.into(), w.into(), y.into()]).expect("product");
    let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
    assert_eq!(names(&fused), ["softmax + product"], "{}", fused.report);
    let text = text(&fused);
    assert!(!text.contains("minimum"), "the product reads the rows to their end, so that the softmax wrote them:\n{text}");
    for sizes in [[64, 64, 64], [33, 200, 40], [1, 8, 1]] {
        near(&g, &fused, &Bound { sizes: sizes.to_vec(), scalars: Vec::new() }, 4.0 * unit(Scalar::F16));
    }
}

/// A kernel of rows of up to 64 columns: the largest of each row is taken from it, and `f` may do more before the store.
fn rows_less_most(f: impl FnOnce(&mut KernelBuilder, Value, Value) -> (Value, Option<Value>)) -> Kernel {
    let mut b = KernelBuilder::new("rows");
    b.warps(4);
    let [from, to] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let pid = b.program_id(0);
    let (row, zero) = (b.mul(pid, 4), origin(&mut b));
    let t = b.load(from, &[row, zero], &[4, 64]);
    let most = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let t = b.sub(t, most);
    let (t, mask) = f(&mut b, t, pid);
    b.store_with(to, &[row, zero], t, mask);
    b.finish().expect("well built")
}

#[test]
fn what_can_not_be_written_at_another_tile_says_why() {
    type Case = (&'static str, Kernel, Option<Kernel>);
    let plain = || rows_less_most(|_, t, _| (t, None));
    let gathers = {
        // Rows of the tensor in reverse, element by element.
        let mut b = KernelBuilder::new("gathers");
        b.warps(4);
        let [from, _, to] = [(); 3].map(|()| b.param(matrix(Scalar::F16)));
        let shape = [32, 64];
        let (r, c) = (b.iota(&shape, 0), b.iota(&shape, 1));
        let last = b.full(&shape, 31, Scalar::I32);
        let r = b.sub(last, r);
        let t = b.gather(from, &[r, c], Access::default());
        let zero = origin(&mut b);
        b.store(to, &[zero, zero], t);
        b.finish().expect("well built")
    };
    let cases: Vec<Case> = vec![
        (
            "stores `p` under a mask",
            rows_less_most(|b, t, _| {
                let there = b.cmp(CmpOp::Eq, t, t);
                (t, Some(there))
            }),
            None,
        ),
        (
            "the program's position is used for more than the place of its tiles",
            rows_less_most(|b, t, pid| {
                let n = b.cast(pid, Scalar::F16);
                (b.add(t, n), None)
            }),
            None,
        ),
        ("`scan` in `first`: mixes the elements of a tile", rows_less_most(|b, t, _| (b.scan(ReduceOp::Maximum, t, 1), None)), None),
        (
            "counts from another place than the tile's",
            rows_less_most(|b, t, _| {
                let steps = b.iota(&[4, 64], 0);
                let steps = b.cast(steps, Scalar::F16);
                (b.add(t, steps), None)
            }),
            None,
        ),
        ("reads `p` by `gather`, not as tiles", plain(), Some(gathers)),
    ];
    for (why, first, second) in cases {
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[32, 64], Role::Input);
        let w = tensor(&mut g, "w", &[64, 64], Role::Input);
        let p = tensor(&mut g, "p", &[32, 64], Role::Intermediate);
        let o = tensor(&mut g, "o", &[32, 64], Role::Output);
        g.add("first", first, [8, 1, 1], &[x.into(), p.into()]).expect("first");
        let (second, grid) = second.map_or_else(|| (product(), product_grid(32, 64)), |k| (k, [1, 1, 1]));
        g.add("second", second, grid, &[p.into(), w.into(), o.into()]).expect("second");
        let fused = g.fuse(&targets::usual(), &always(FuseOptions::default()));
        let set = fused.report.decisions.iter().map(ToString::to_string).find(|d| d.contains("; inlined: "));
        assert!(set.as_ref().is_some_and(|d| d.contains(why)), "{why}: {set:?}\n{}", fused.report);
        near(&g, &fused, &Bound::default(), 64.0 * 64.0 * unit(Scalar::F16));
    }
}
