//! What is refused, with the reason; and what is proven for extents that are known at launch only.

use super::*;
use tilelift::graph::{Count, GraphError, Grid, How, NodeArg};
use tilelift::ir::KernelBuilder;

const TILE: [u32; 2] = [16, 32];

fn copy() -> tilelift::ir::Kernel {
    pointwise("copy", 1, TILE, |_, t| t[0])
}

fn double() -> tilelift::ir::Kernel {
    pointwise("double", 1, TILE, |b, t| b.add(t[0], t[0]))
}

/// Two kernels with a tensor of 40 x 48 between them: from `x` to `t`, from `t` to `y`.
fn two(first: tilelift::ir::Kernel, grid: [u32; 3], second: tilelift::ir::Kernel, second_grid: [u32; 3]) -> Graph {
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[40, 48], Role::Input);
    let t = tensor(&mut g, "t", &[40, 48], Role::Intermediate);
    let y = tensor(&mut g, "y", &[40, 48], Role::Output);
    g.add("first", first, grid, &[x.into(), t.into()]).expect("first");
    g.add("second", second, second_grid, &[t.into(), y.into()]).expect("second");
    g
}

/// The reasons against a pair, after fusing it wherever it is right.
fn why(g: &Graph) -> (Vec<RefusalKind>, String) {
    let fused = fuse_as(g, &Bound::default(), "sm_80", FuseOptions { always: true, ..FuseOptions::exact() });
    let apart = fused.report.decisions.iter().find(|d| matches!(d.outcome, Outcome::Refused(_)));
    let apart = apart.unwrap_or_else(|| panic!("everything was fused\n{}", fused.report));
    (refusals(apart), apart.to_string())
}

fn grid() -> [u32; 3] {
    pointwise_grid(40, 48, TILE)
}

#[test]
fn a_tile_that_does_not_move_with_the_other_is_refused() {
    // Reads the transposed place: no tile of one is a tile of the other.
    let mut b = KernelBuilder::new("flipped");
    let [x, z] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, 16), b.mul(py, 16));
    let t = b.load(x, &[col, row], &[16, 16]);
    b.store(z, &[row, col], t);
    let flipped = b.finish().expect("well built");
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[48, 48], Role::Input);
    let t = tensor(&mut g, "t", &[48, 48], Role::Intermediate);
    let y = tensor(&mut g, "y", &[48, 48], Role::Output);
    g.add("first", running_maximum(true, 2), [24, 1, 1], &[x.into(), t.into()]).expect("first");
    g.add("flipped", flipped, [3, 3, 1], &[t.into(), y.into()]).expect("flipped");
    let (kinds, text) = why(&g);
    assert_eq!(kinds, [RefusalKind::Shape, RefusalKind::Grid, RefusalKind::Shape, RefusalKind::Shape]);
    assert!(text.contains("`store` in `flipped`: combines elements of different places"), "{text}");
    assert!(text.contains("`first` runs on a grid of 24x1x1, `flipped` on one of 3x3x1"), "{text}");
    assert!(text.contains("prologue: `scan` in `first`: mixes the elements of a tile"), "{text}");
}

#[test]
fn a_consumer_that_covers_a_part_is_refused() {
    // One program short: what it leaves out must stay as it was.
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[40, 48], Role::Input);
    let t = tensor(&mut g, "t", &[40, 48], Role::Output);
    let y = tensor(&mut g, "y", &[40, 48], Role::InOut);
    g.add("first", product(), product_grid(40, 48), &[x.into(), x.into(), t.into()]).expect("shapes are checked at launch");
    g.add("second", double(), [1, 3, 1], &[t.into(), y.into()]).expect("second");
    let fused = g.fuse(&targets::usual(), &FuseOptions { always: true, ..FuseOptions::exact() });
    assert_eq!(fused.graph.nodes().len(), 2);
    let kinds = refusals(&fused.report.decisions[0]);
    assert_eq!(kinds[0], RefusalKind::Coverage, "{}", fused.report);
    let set = fused.report.decisions.last().expect("the set is refused");
    assert!(set.to_string().contains("`first` would have to stay: `t` is looked at by the caller"), "{set}");
}

#[test]
fn a_node_in_between_keeps_the_order() {
    // `between` reads what `first` writes and writes what `last` reads: the two can't become neighbours.
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[40, 48], Role::Input);
    let [t, u] = ["t", "u"].map(|n| tensor(&mut g, n, &[40, 48], Role::Intermediate));
    let y = tensor(&mut g, "y", &[40, 48], Role::Output);
    g.add("first", softmax(2, 64), [20, 1, 1], &[x.into(), t.into()]).expect("first");
    // Columns, where the others have rows: nothing joins them.
    g.add("between", running_maximum(false, 16), [3, 1, 1], &[t.into(), u.into()]).expect("between");
    // Rows again, as in `first`: one kernel with it, were it not for the one in between.
    let mut b = KernelBuilder::new("last");
    let [p, q, z] = [(); 3].map(|()| b.param(matrix(Scalar::F16)));
    let at = b.program_id(0);
    let at = b.mul(at, 2);
    let zero = b.constant(0, Scalar::I32);
    let [p, q] = [p, q].map(|v| b.load(v, &[at, zero], &[2, 64]));
    let most = b.reduce_keep(tilelift::ir::ReduceOp::Maximum, q, 1);
    let tile = b.add(p, most);
    b.store(z, &[at, zero], tile);
    g.add("last", b.finish().expect("well built"), [20, 1, 1], &[t.into(), u.into(), y.into()]).expect("last");
    let fused = fuse_as(&g, &Bound::default(), "sm_80", FuseOptions { always: true, ..FuseOptions::exact() });
    let first = fused.report.decisions.iter().find(|d| d.producer == "first" && d.consumer.contains("last")).expect("a pair");
    assert_eq!(refusals(first), [RefusalKind::Order], "{}", fused.report);
    assert!(first.to_string().contains("stands between `first` and"), "{first}");
}

#[test]
fn what_is_changed_in_place_is_changed_once() {
    // Tiles of a product that overlap would add twice; these do not overlap, which takes looking at every program.
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[70, 70], Role::Input);
    let t = tensor(&mut g, "t", &[70, 70], Role::Intermediate);
    let y = tensor(&mut g, "y", &[70, 70], Role::InOut);
    let w = tensor(&mut g, "w", &[70, 70], Role::Input);
    g.add("product", product(), product_grid(70, 70), &[x.into(), w.into(), t.into()]).expect("product");
    g.add("accumulate", accumulate(TILE), pointwise_grid(70, 70, TILE), &[t.into(), y.into()]).expect("accumulate");
    let fused = fuse(&g);
    assert_eq!(names(&fused), ["product + accumulate"], "{}", fused.report);
}

#[test]
fn what_others_read_is_stored_still() {
    let mut g = two(softmax(2, 64), [20, 1, 1], double(), grid());
    let t = g.tensors().iter().position(|t| t.name == "t").expect("it is there");
    let z = tensor(&mut g, "z", &[40, 48], Role::Output);
    // Columns, which stay apart from rows, so that `t` is stored.
    let ids: Vec<TensorId> = g.ids().collect();
    g.add("columns", running_maximum(false, 16), [3, 1, 1], &[ids[t].into(), z.into()]).expect("columns");
    let fused = fuse(&g);
    assert_eq!(names(&fused), ["first + second", "columns"], "{}", fused.report);
    let stores = fused.graph.nodes()[0].args.iter().filter(|a| **a == NodeArg::Tensor(ids[t])).count();
    assert_eq!(stores, 1, "t is an argument still");
}

#[test]
fn a_prologue_of_a_product_masks_what_lies_outside() {
    // `x + 1` is not 0 outside of x, and the columns beyond the depth must be.
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[50, 40], Role::Input);
    let w = tensor(&mut g, "w", &[40, 33], Role::Input);
    let t = tensor(&mut g, "t", &[50, 40], Role::Intermediate);
    let y = tensor(&mut g, "y", &[50, 33], Role::Output);
    let plus = pointwise("plus", 1, TILE, |b, t| b.add(t[0], 1.0f32));
    g.add("plus", plus, pointwise_grid(50, 40, TILE), &[x.into(), t.into()]).expect("plus");
    g.add("product", product(), product_grid(50, 33), &[t.into(), w.into(), y.into()]).expect("product");
    let fused = fuse(&g);
    assert_eq!(names(&fused), ["plus + product"], "{}", fused.report);
    assert!(matches!(fused.report.decisions[0].outcome, Outcome::Fused { how: How::Prologue, .. }));
    let text = tilelift::ir::text::print(&fused.graph.nodes()[0].kernel);
    assert_eq!(text.matches("cmp lt").count(), 1, "rows outside are dropped anyway:\n{text}");
}

#[test]
fn a_prologue_that_is_computed_too_often_costs_too_much() {
    // Each of 32 tile columns would compute the quotients of its rows again.
    let mut g = Graph::new();
    let (m, n, k) = (256, 2048, 256);
    let x = tensor(&mut g, "x", &[m, k], Role::Input);
    let w = tensor(&mut g, "w", &[k, n], Role::Input);
    let t = tensor(&mut g, "t", &[m, k], Role::Intermediate);
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    let act = pointwise("act", 1, TILE, |b, t| {
        let mut v = t[0];
        for _ in 0..12 {
            v = silu(b, v);
        }
        v
    });
    g.add("act", act, pointwise_grid(m, k, TILE), &[x.into(), t.into()]).expect("act");
    g.add("product", product(), product_grid(m, n), &[t.into(), w.into(), y.into()]).expect("product");
    let fused = g.fuse(&targets::usual(), &FuseOptions::exact());
    assert!(refusals(&fused.report.decisions[0]).contains(&RefusalKind::Cost), "{}", fused.report);
}

#[test]
fn extents_that_are_known_at_launch_are_fused_by_form() {
    let mut g = Graph::new();
    let (m, n) = (g.size("m", 1), g.size("n", 8));
    let dims = [m.clone(), n.clone()];
    let x = g.tensor("x", Scalar::F16, &dims, Role::Input);
    let bias = g.tensor("bias", Scalar::F32, std::slice::from_ref(&n), Role::Input);
    let [t, u] = ["t", "u"].map(|name| g.tensor(name, Scalar::F16, &dims, Role::Intermediate));
    let y = g.tensor("y", Scalar::F16, &dims, Role::Output);
    let tiles = |tile: [u32; 2]| Grid([Count::tiles(&n, tile[1]), Count::tiles(&m, tile[0]), Count::from(1)]);
    let rows = Grid::row(Count::tiles(&m, 2));
    g.add("softmax", softmax(2, 64), rows, &[x.into(), t.into()]).expect("softmax");
    g.add("bias", bias_act(TILE, silu), tiles(TILE), &[t.into(), bias.into(), u.into()]).expect("bias");
    g.add("double", double(), tiles(TILE), &[u.into(), y.into()]).expect("double");
    let launch = |sizes: [u32; 2]| Bound { sizes: sizes.to_vec(), scalars: Vec::new() };
    for sizes in [[1, 8], [33, 40], [64, 64]] {
        let fused = fuse_as(&g, &launch(sizes), "sm_80", FuseOptions::exact());
        assert_eq!(names(&fused), ["softmax + bias + double"], "{}", fused.report);
    }
    let wrong = g.launches(&launch([4, 5])).expect_err("5 is no multiple of 8");
    assert_eq!(wrong, GraphError::Value { name: "n".into(), what: "5 is no multiple of 8".into() });
    assert!(matches!(g.launches(&Bound::default()), Err(GraphError::Value { .. })));
}

#[test]
fn a_vector_kernel_follows_the_tiles_of_a_product() {
    let mut g = Graph::new();
    let [x, w] = ["x", "w"].map(|n| tensor(&mut g, n, &[64, 64], Role::Input));
    let gate_by = tensor(&mut g, "gate_by", &[64, 64], Role::Input);
    let t = tensor(&mut g, "t", &[64, 64], Role::Intermediate);
    let y = tensor(&mut g, "y", &[64, 64], Role::Output);
    g.add("product", product(), product_grid(64, 64), &[x.into(), w.into(), t.into()]).expect("product");
    let flat = [NodeArg::Flat(t), NodeArg::Flat(gate_by), NodeArg::Flat(y)];
    g.add("gate", gate(), [16, 1, 1], &flat).expect("gate");
    let fused = fuse(&g);
    assert_eq!(names(&fused), ["product + gate"], "{}", fused.report);
}

/// Arguments that are refused, and with which error.
type Wrong<'a> = (&'a [NodeArg], fn(&GraphError) -> bool);

#[test]
fn a_graph_refuses_what_it_can_see_is_wrong() {
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[40, 48], Role::Input);
    let t = tensor(&mut g, "t", &[40, 48], Role::Intermediate);
    let v = tensor(&mut g, "v", &[48], Role::Output);
    let word = g.tensor("word", Scalar::F32, &[40.into(), 48.into()], Role::Output);
    let elsewhere = Graph::new().size("elsewhere", 1);
    let other = g.tensor("other", Scalar::F16, &[elsewhere.clone(), elsewhere], Role::Output);
    let mut add = |args: &[NodeArg]| g.add("n", copy(), grid(), args).expect_err("refused");
    let refused: &[Wrong<'_>] = &[
        (&[x.into()], |e| matches!(e, GraphError::Count { want: 2, got: 1, .. })),
        (&[t.into(), x.into()], |e| matches!(e, GraphError::ReadBeforeWrite { .. })),
        (&[x.into(), x.into()], |e| matches!(e, GraphError::TwoViews { .. } | GraphError::WritesInput { .. })),
        (&[x.into(), v.into()], |e| matches!(e, GraphError::Promise { what, .. } if what.contains("dimensions"))),
        (&[x.into(), word.into()], |e| matches!(e, GraphError::Promise { what, .. } if what.contains("elements"))),
        (&[x.into(), other.into()], |e| matches!(e, GraphError::UnknownSize { .. })),
        (&[NodeArg::Flat(x), t.into()], |e| matches!(e, GraphError::Promise { .. })),
        (&[x.into(), tilelift::interp::ScalarArg::int(Scalar::I32, 1).into()], |e| matches!(e, GraphError::Kind { .. })),
    ];
    for (args, right) in refused {
        let e = add(args);
        assert!(right(&e), "{args:?}: {e:?}");
        assert!(!e.to_string().is_empty());
    }
}

#[test]
fn what_a_kernel_reads_after_its_own_store_is_not_the_producers() {
    // `t = 2 t; y = t`: the second load sees what the kernel stored.
    let mut b = KernelBuilder::new("twice");
    let [t, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, TILE[1]), b.mul(py, TILE[0]));
    let tile = b.load(t, &[row, col], &TILE);
    let tile = b.add(tile, tile);
    b.store(t, &[row, col], tile);
    let tile = b.load(t, &[row, col], &TILE);
    b.store(y, &[row, col], tile);
    let g = two(double(), grid(), b.finish().expect("well built"), grid());
    let (kinds, text) = why(&g);
    assert!(kinds.contains(&RefusalKind::Hazard), "{text}");
    assert!(text.contains("`second` may read elements of `t` that it stored"), "{text}");
}

#[test]
fn scalars_that_grow_without_end_end_the_attempt() {
    // 2^60 terms, if each were looked at.
    let mut b = KernelBuilder::new("grown");
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let (mut at, row) = (b.program_id(0), b.program_id(1));
    for _ in 0..60 {
        at = b.mul(at, at);
    }
    let row = b.mul(row, TILE[0]);
    let col = b.mul(at, TILE[1]);
    let tile = b.load(x, &[row, col], &TILE);
    b.store(y, &[row, col], tile);
    // The first two columns of tiles: 0 and 1, raised to any power.
    let g = two(double(), grid(), b.finish().expect("well built"), [2, 3, 1]);
    let fused = g.fuse(&targets::usual(), &FuseOptions { always: true, ..FuseOptions::exact() });
    assert_eq!(interpreted(&g, &Bound::default()).buffers[2].bytes(), interpreted(&fused.graph, &Bound::default()).buffers[2].bytes());
}
