//! Kernels that move or combine elements inside of their tiles follow producers whose tiles hold whole ones of theirs; several tensors are
//! handed on at once; scatters; reads of neighbours; masks that end with the tensor.

use super::near::{always, origin};
use super::*;
use tilelift::graph::How;
use tilelift::ir::{Access, CmpOp, Kernel, KernelBuilder, ReduceOp, SortOrder, Value};

/// What a kernel does to blocks of columns.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Blocks {
    /// Halves change places, one of them negative.
    Turn,
    /// Divided by their sum.
    Share,
    Flip,
    Scan,
    /// Pairs change places by a reshape and a transpose.
    Pairs,
    /// The largest first.
    Sort,
}

const ALL: [Blocks; 6] = [Blocks::Turn, Blocks::Share, Blocks::Flip, Blocks::Scan, Blocks::Pairs, Blocks::Sort];

/// `y = blocks of x`, and the sum of each block, which is the element of a second result with a column for each block.
fn blocks(what: Blocks, [high, wide]: [u32; 2]) -> Kernel {
    let mut b = KernelBuilder::new("blocks");
    b.warps(4);
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let sums = b.param(matrix(Scalar::F32));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, wide), b.mul(py, high));
    let t = b.load(x, &[row, col], &[high, wide]);
    let t = b.cast(t, Scalar::F32);
    let sum = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let out = match what {
        Blocks::Turn => {
            let half = [high, wide / 2];
            let (p, q) = (b.slice(t, &[0, 0], &half), b.slice(t, &[0, wide / 2], &half));
            let q = b.neg(q);
            b.concat(q, p, 1)
        }
        Blocks::Share => {
            let big = b.add(sum, 2.0f32);
            b.div(t, big)
        }
        Blocks::Flip => b.flip(t, 1),
        Blocks::Scan => b.scan(ReduceOp::Maximum, t, 1),
        Blocks::Pairs => {
            let t = b.reshape(t, &[high, wide / 2, 2]);
            let t = b.transpose(t, &[0, 2, 1]);
            b.reshape(t, &[high, wide])
        }
        Blocks::Sort => b.sort(SortOrder::Descending, t, 1),
    };
    let out = b.cast(out, Scalar::F16);
    b.store(y, &[row, col], out);
    b.store(sums, &[row, px], sum);
    b.finish().expect("well built")
}

/// A pointwise kernel at one tile, and blocks at another.
fn blocks_graph(what: Blocks, [m, n]: [u32; 2], from: [u32; 2], tile: [u32; 2]) -> Graph {
    let mut g = Graph::new();
    let x = tensor(&mut g, "x", &[m, n], Role::Input);
    let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    let s = g.tensor("s", Scalar::F32, &[m.into(), n.div_ceil(tile[1]).into()], Role::Output);
    let plus = pointwise("plus", 1, from, |b, t| b.add(t[0], 1.0f32));
    g.add("plus", plus, pointwise_grid(m, n, from), &[x.into(), t.into()]).expect("plus");
    g.add("blocks", blocks(what, tile), pointwise_grid(m, n, tile), &[t.into(), y.into(), s.into()]).expect("blocks");
    g
}

#[test]
fn blocks_follow_tiles_that_are_blocks_or_hold_some() {
    for (n, what) in ALL.into_iter().enumerate() {
        // The same columns, twice as many, and a last block that is cut off.
        for (from, extents) in [([64, 32], [70, 96]), ([16, 64], [40, 128]), ([16, 32], [33, 80])] {
            let g = blocks_graph(what, extents, from, [8, 32]);
            let fused = g.fuse(&targets::usual(), &always(FuseOptions::exact()));
            let (want, got) = (interpreted(&g, &Bound::default()), interpreted(&fused.graph, &Bound::default()));
            for i in seen(&g) {
                assert!(want.buffers[i].bytes() == got.buffers[i].bytes(), "{what:?} {from:?} {extents:?}\n{}", fused.report);
            }
            assert_eq!(names(&fused), ["plus + blocks"], "{what:?} {from:?} {extents:?}\n{}", fused.report);
            if n < 2 {
                fuse_as(&g, &Bound::default(), "sm_80", always(FuseOptions::exact()));
            }
        }
    }
}

/// Behind a product only the epilogue is possible: the product's tiles of 64 columns hold two blocks.
#[test]
fn blocks_follow_a_product_piece_by_piece() {
    for what in ALL {
        let (m, n, k) = (70, 128, 40);
        let mut g = Graph::new();
        let (x, w) = (tensor(&mut g, "x", &[m, k], Role::Input), tensor(&mut g, "w", &[k, n], Role::Input));
        let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        let s = g.tensor("s", Scalar::F32, &[m.into(), 4.into()], Role::Output);
        g.add("product", product(), product_grid(m, n), &[x.into(), w.into(), t.into()]).expect("product");
        g.add("blocks", blocks(what, [8, 32]), pointwise_grid(m, n, [8, 32]), &[t.into(), y.into(), s.into()]).expect("blocks");
        let fused = fuse_as(&g, &Bound::default(), "sm_80", always(FuseOptions::exact()));
        assert_eq!(names(&fused), ["product + blocks"], "{what:?}\n{}", fused.report);
        assert!(matches!(fused.report.decisions[0].outcome, Outcome::Fused { how: How::Epilogue, .. }), "{}", fused.report);
    }
}

#[test]
fn blocks_that_lie_across_tiles_stay_apart() {
    // Tiles of 48 columns are no multiple of 32; of 16 they are smaller.
    for from in [[8, 16], [64, 16]] {
        let g = blocks_graph(Blocks::Turn, [40, 96], from, [8, 32]);
        let fused = g.fuse(&targets::usual(), &always(FuseOptions::exact()));
        let text = fused.report.to_string();
        // The producer is written again at the blocks; the blocks are not at the producer's tiles.
        assert!(!text.contains("fused as epilogue"), "{text}");
        fuse_as(&g, &Bound::default(), "sm_80", always(FuseOptions::exact()));
    }
}

/// `y[r, c] = x[r, c - left] + x[r - up, c]`, with `outside` for what lies beside the tensor.
fn neighbours(left: i32, up: i32, outside: Option<f32>, tile: [u32; 2]) -> Kernel {
    let mut b = KernelBuilder::new("neighbours");
    b.warps(4);
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let (c, r) = (b.sub(col, left), b.sub(row, up));
    let access = || Access { other: outside.map(Into::into), ..Access::default() };
    let (p, q) = (b.load_with(x, &[row, c], &tile, access()), b.load_with(x, &[r, col], &tile, access()));
    let t = b.add(p, q);
    b.store(y, &[row, col], t);
    b.finish().expect("well built")
}

#[test]
fn what_lies_in_front_of_a_tensor_is_what_a_load_reads_there() {
    for (left, up, outside) in [(1, 2, None), (3, 0, Some(5.0)), (-2, -1, None), (0, 40, Some(-1.0))] {
        let (m, n) = (37, 50);
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, n], Role::Input);
        let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        // What is 1 where x is 0 tells what was read from what was made there.
        let plus = pointwise("plus", 1, [8, 16], |b, t| b.add(t[0], 1.0f32));
        g.add("plus", plus, pointwise_grid(m, n, [8, 16]), &[x.into(), t.into()]).expect("plus");
        let stencil = neighbours(left, up, outside, [16, 32]);
        g.add("stencil", stencil, pointwise_grid(m, n, [16, 32]), &[t.into(), y.into()]).expect("stencil");
        let fused = fuse_as(&g, &Bound::default(), "sm_80", always(FuseOptions::exact()));
        assert_eq!(names(&fused), ["plus + stencil"], "{left} {up}\n{}", fused.report);
        // So does a producer that folds its rows, and is written again value by value.
        let mut g = Graph::new();
        let (x, scale) = (tensor(&mut g, "x", &[m, n], Role::Input), tensor(&mut g, "scale", &[n], Role::Input));
        let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
        let y = tensor(&mut g, "y", &[m, n], Role::Output);
        g.add("weights", softmax(4, 64), [m.div_ceil(4), 1, 1], &[x.into(), t.into()]).expect("weights");
        let _ = scale;
        g.add("stencil", neighbours(left, up, outside, [16, 32]), pointwise_grid(m, n, [16, 32]), &[t.into(), y.into()]).expect("stencil");
        fuse_as(&g, &Bound::default(), "sm_80", always(FuseOptions::exact()));
    }
}

/// The largest and the smallest element of each row.
fn both_ends(lines: u32, cols: u32) -> Kernel {
    let mut b = KernelBuilder::new("both_ends");
    b.warps(4);
    let x = b.param(matrix(Scalar::F16));
    let views = [(); 2].map(|()| b.param(matrix(Scalar::F32)));
    let pid = b.program_id(0);
    let (row, zero) = (b.mul(pid, lines), origin(&mut b));
    for (view, op, other) in [(views[0], ReduceOp::Maximum, f64::NEG_INFINITY), (views[1], ReduceOp::Minimum, f64::INFINITY)] {
        let t = b.load_with(x, &[row, zero], &[lines, cols], Access { other: Some(other.into()), ..Access::default() });
        let t = b.cast(t, Scalar::F32);
        let t = b.reduce_keep(op, t, 1);
        b.store(view, &[row, zero], t);
    }
    b.finish().expect("well built")
}

/// `y = p - q` for numbers of rows.
fn difference(lines: u32) -> Kernel {
    let mut b = KernelBuilder::new("difference");
    b.warps(1);
    let [p, q, y] = [(); 3].map(|()| b.param(matrix(Scalar::F32)));
    let pid = b.program_id(0);
    let (row, zero) = (b.mul(pid, lines), origin(&mut b));
    let (s, t) = (b.load(p, &[row, zero], &[lines, 1]), b.load(q, &[row, zero], &[lines, 1]));
    let t = b.sub(s, t);
    b.store(y, &[row, zero], t);
    b.finish().expect("well built")
}

#[test]
fn two_results_are_handed_on_at_once() {
    // The consumer has as many rows a program, or more; the caller looks at one of the results, or at none.
    for (lines, wanted) in [(4, false), (4, true), (32, false), (32, true)] {
        let (m, n) = (37, 50);
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, n], Role::Input);
        let column = |g: &mut Graph, name: &str, role| g.tensor(name, Scalar::F32, &[m.into(), 1.into()], role);
        let p = column(&mut g, "p", Role::Intermediate);
        let q = column(&mut g, "q", if wanted { Role::Output } else { Role::Intermediate });
        let y = column(&mut g, "y", Role::Output);
        g.add("ends", both_ends(4, 64), [m.div_ceil(4), 1, 1], &[x.into(), p.into(), q.into()]).expect("ends");
        g.add("difference", difference(lines), [m.div_ceil(lines), 1, 1], &[p.into(), q.into(), y.into()]).expect("difference");
        let fused = fuse(&g);
        assert_eq!(names(&fused), ["ends + difference"], "{lines} {wanted}\n{}", fused.report);
        let args = &fused.graph.nodes()[0].args;
        assert!(!args.contains(&p.into()) && args.contains(&q.into()) == wanted, "{args:?}");
    }
}

/// Rows go to the places that `at` names; a row of the tile beyond the matrix is at `beyond`.
fn scattered(tile: [u32; 2], beyond: i32) -> Kernel {
    let mut b = KernelBuilder::new("scattered");
    b.warps(4);
    let x = b.param(matrix(Scalar::F16));
    let at = b.param(vector(Scalar::I32));
    let y = b.param(matrix(Scalar::F16));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let t = b.load(x, &[row, col], &tile);
    let r = b.load_with(at, &[row], &tile[..1], Access { other: Some(beyond.into()), ..Access::default() });
    let r = b.expand_dims(r, 1);
    let r = b.broadcast(r, &tile);
    let steps = b.iota(&tile, 1);
    let c = b.add(steps, col);
    b.scatter(y, &[r, c], t, None);
    b.finish().expect("well built")
}

#[test]
fn scatters_follow_where_nothing_outside_is_written() {
    for (m, fits) in [(64, true), (60, false)] {
        let n = 50;
        let mut g = Graph::new();
        let (x, w) = (tensor(&mut g, "x", &[m, 32], Role::Input), tensor(&mut g, "w", &[32, n], Role::Input));
        let at = g.tensor("at", Scalar::I32, &[m.into()], Role::Input);
        let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
        let y = tensor(&mut g, "y", &[m + 10, n], Role::InOut);
        g.add("product", product(), product_grid(m, n), &[x.into(), w.into(), t.into()]).expect("product");
        g.add("scattered", scattered([32, 32], -1), pointwise_grid(m, n, [32, 32]), &[t.into(), at.into(), y.into()]).expect("scattered");
        let fused = g.fuse(&targets::usual(), &FuseOptions::exact());
        let text = fused.report.to_string();
        // Else the product is written again at the scatter's tiles.
        assert_eq!(text.contains("fused as epilogue"), fits, "{text}");
        let run = |g: &Graph| {
            let mut memory = filled(g, &Bound::default());
            // Every row has a place of its own, last ones first.
            let places: Vec<u8> = (0..m as i32).rev().flat_map(|r| (r + 3).to_le_bytes()).collect();
            memory.buffers[at.index()] = Buffer::from_bytes(places);
            g.interpret(&Bound::default(), &mut memory).expect("it runs");
            memory.buffers[y.index()].bytes().to_vec()
        };
        assert!(run(&g) == run(&fused.graph), "{text}");
    }
}

/// The sum of exponentials of a row less its maximum, from one kernel that finds the maximum, one that works element by element on tiles of
/// its own and reads zeros outside, and one that adds up.
#[test]
fn masks_that_end_with_the_row_make_one_load_of_two() {
    for n in [50, 64, 100] {
        let m = 9;
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, n], Role::Input);
        let column = |g: &mut Graph, name: &str, role| g.tensor(name, Scalar::F32, &[m.into(), 1.into()], role);
        let (most, sum) = (column(&mut g, "most", Role::Intermediate), column(&mut g, "sum", Role::Output));
        let e = g.tensor("e", Scalar::F32, &[m.into(), n.into()], Role::Intermediate);
        for (name, op, from, to) in [("max", ReduceOp::Maximum, x, most), ("sum", ReduceOp::Add, e, sum)] {
            let elem = if name == "max" { Scalar::F16 } else { Scalar::F32 };
            let neutral = if name == "max" { f64::NEG_INFINITY } else { 0.0 };
            let mut b = KernelBuilder::new(name);
            b.warps(1);
            let (v, y) = (b.param(matrix(elem)), b.param(matrix(Scalar::F32)));
            let (row, zero) = (b.program_id(0), origin(&mut b));
            let cols = b.dim(v, 1);
            let start = b.full(&[1, 1], neutral, Scalar::F32);
            let all = b.for_loop(0, cols, 32, &[start], |b, j, so_far| {
                let t = b.load_with(v, &[row, j], &[1, 32], Access { other: Some(neutral.into()), ..Access::default() });
                let t = b.cast(t, Scalar::F32);
                let t = b.reduce_keep(op, t, 1);
                vec![if op == ReduceOp::Add { b.add(so_far[0], t) } else { b.maximum(so_far[0], t) }]
            })[0];
            b.store(y, &[row, zero], all);
            if name == "sum" {
                let mut b = KernelBuilder::new("exp");
                b.warps(1);
                let (v, s, y) = (b.param(matrix(Scalar::F16)), b.param(matrix(Scalar::F32)), b.param(matrix(Scalar::F32)));
                let (px, py) = (b.program_id(0), b.program_id(1));
                let (col, row, zero) = (b.mul(px, 16), b.mul(py, 4), origin(&mut b));
                let (t, s) = (b.load(v, &[row, col], &[4, 16]), b.load(s, &[row, zero], &[4, 1]));
                let t = b.cast(t, Scalar::F32);
                let t = b.sub(t, s);
                let t = b.exp(t);
                b.store(y, &[row, col], t);
                g.add("exp", b.finish().expect("exp"), pointwise_grid(m, n, [4, 16]), &[x.into(), most.into(), e.into()]).expect("exp");
            }
            g.add(name, b.finish().expect("fold"), [m, 1, 1], &[from.into(), to.into()]).expect("fold");
        }
        let fused = g.fuse(&targets::usual(), &FuseOptions::default());
        assert_eq!(names(&fused), ["max + exp + sum"], "{}", fused.report);
        let text = near::text(&fused);
        assert_eq!((text.matches(" = for ").count(), text.matches(" load ").count()), (1, 1), "{text}");
        // Terms are at most 1: each is off by 2^-20, sums and the steps of the loop by a unit for each term.
        let bound = f64::from(n) * (2f64.powi(-20) + f64::from(n) * 2f64.powi(-24));
        near::near(&g, &fused, &Bound::default(), bound);
    }
}

/// A mask that is another than the tensor's end hides nothing.
#[test]
fn a_mask_that_ends_elsewhere_keeps_what_lies_outside() {
    let (m, n) = (8, 50);
    for end in [50, 60] {
        let mut g = Graph::new();
        let x = tensor(&mut g, "x", &[m, n], Role::Input);
        let t = tensor(&mut g, "t", &[m, n], Role::Intermediate);
        let y = g.tensor("y", Scalar::F32, &[m.into(), 1.into()], Role::Output);
        let plus = pointwise("plus", 1, [8, 16], |b, t| b.add(t[0], 1.0f32));
        g.add("plus", plus, pointwise_grid(m, n, [8, 16]), &[x.into(), t.into()]).expect("plus");
        let mut b = KernelBuilder::new("sums");
        b.warps(4);
        let (v, s) = (b.param(matrix(Scalar::F16)), b.param(matrix(Scalar::F32)));
        let (pid, zero) = (b.program_id(0), origin(&mut b));
        let row = b.mul(pid, 4);
        let tile = [4, 64];
        let t4 = b.load(v, &[row, zero], &tile);
        let t4 = b.cast(t4, Scalar::F32);
        let steps = b.iota(&tile, 1);
        let inside = b.cmp(CmpOp::Lt, steps, end);
        let t4 = b.select(inside, t4, 0.5f32);
        let sum: Value = b.reduce_keep(ReduceOp::Add, t4, 1);
        b.store(s, &[row, zero], sum);
        g.add("sums", b.finish().expect("sums"), [m.div_ceil(4), 1, 1], &[t.into(), y.into()]).expect("sums");
        let fused = fuse_as(&g, &Bound::default(), "sm_80", always(FuseOptions::exact()));
        assert_eq!(names(&fused), ["plus + sums"], "{}", fused.report);
        let text = near::text(&fused);
        assert_eq!(text.matches("select").count(), if end == n { 1 } else { 2 }, "{text}");
    }
}
