//! Random graphs: fusion never changes what the caller sees, whether it pays or not.
//!
//! The interpreter stops at elements that two programs disagree about and at elements that nobody wrote, so a fusion that lets programs
//! meet, or leaves an element out, is an error even where the numbers happen to be right.

use super::*;
use tilelift::graph::NodeArg;
use tilelift::interp::ScalarArg;
use tilelift::ir::Kernel;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const TILES: &[[u32; 2]] = &[[8, 16], [16, 64], [4, 128], [32, 32], [1, 64], [64, 64]];

/// A graph of up to seven kernels on matrices of one shape.
fn graph(r: &mut Random) -> Graph {
    let mut g = Graph::new();
    let (m, n) = (1 + r.below(40) as u32, r.of(&[1, 8, 24, 33, 64]));
    // Square ones, so that everything fits everything.
    let m = if r.below(3) == 0 { n } else { m };
    let square = tensor(&mut g, "square", &[n, n], Role::Input);
    let scale = tensor(&mut g, "scale", &[n], Role::Input);
    let bias = g.tensor("bias", Scalar::F32, &[n.into()], Role::Input);
    let turned = tensor(&mut g, "turned", &[n, m], Role::Input);
    let mut there = vec![tensor(&mut g, "x0", &[m, n], Role::Input), tensor(&mut g, "x1", &[m, n], Role::InOut)];
    let mut changing = vec![there[1]];
    let eps = ScalarArg::float(Scalar::F32, 1e-3);
    for step in 0..2 + r.below(6) {
        let x = if r.below(2) == 0 { there[there.len() - 1] } else { r.of(&there) };
        let y = r.of(&there);
        let tile = r.of(TILES);
        let grid = pointwise_grid(m, n, tile);
        if r.below(6) == 0 {
            let to = r.of(&changing);
            if to != x {
                g.add(&format!("accumulate{step}"), accumulate(tile), grid, &[x.into(), to.into()]).expect("accumulate");
                continue;
            }
        }
        let role = if r.below(4) == 0 { Role::Output } else { Role::Intermediate };
        let to = tensor(&mut g, &format!("t{step}"), &[m, n], role);
        let rows = r.of(&[1, 2, 4]);
        let by_rows = [m.div_ceil(rows), 1, 1];
        let cols = n.next_power_of_two() * r.of(&[1, 2]);
        let (kernel, grid, args): (Kernel, [u32; 3], Vec<NodeArg>) = match r.below(9) {
            0 => (pointwise("act", 1, tile, |b, t| silu(b, t[0])), grid, vec![x.into(), to.into()]),
            1 if x != y => (pointwise("add", 2, tile, |b, t| b.add(t[0], t[1])), grid, vec![x.into(), y.into(), to.into()]),
            2 => (bias_act(tile, silu), grid, vec![x.into(), bias.into(), to.into()]),
            3 => (rms_norm(rows, cols), by_rows, vec![x.into(), scale.into(), to.into(), eps.into()]),
            4 => (softmax(rows, cols), by_rows, vec![x.into(), to.into()]),
            5 => (product(), product_grid(m, n), vec![x.into(), square.into(), to.into()]),
            6 if x != y => {
                let flat = [(m * n).div_ceil(256), 1, 1];
                (gate(), flat, vec![NodeArg::Flat(x), NodeArg::Flat(y), NodeArg::Flat(to)])
            }
            7 => (checkered(tile), grid, vec![x.into(), to.into()]),
            8 if m == n && x != y && r.below(2) == 0 => (add_transposed(tile), grid, vec![x.into(), y.into(), to.into()]),
            _ => (add_transposed(tile), grid, vec![x.into(), turned.into(), to.into()]),
        };
        g.add(&format!("{}{step}", kernel.name), kernel, grid, &args).expect("a sound node");
        there.push(to);
        if role == Role::Output || r.below(2) == 0 {
            changing.push(to);
        }
    }
    // The last one is looked at.
    let y = tensor(&mut g, "y", &[m, n], Role::Output);
    let last = there[there.len() - 1];
    let copy = pointwise("copy", 1, [16, 16], |_, t| t[0]);
    g.add("copy", copy, pointwise_grid(m, n, [16, 16]), &[last.into(), y.into()]).expect("copy");
    g
}

#[test]
fn random_graphs_keep_their_meaning() {
    let target = targets::usual();
    let rounds = std::env::var("TILELIFT_GRAPH_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(60);
    let mut fusions = std::collections::BTreeMap::new();
    for seed in 0..rounds {
        let g = graph(&mut Random(seed * 7919 + 1));
        let always = seed % 2 == 0;
        let fused = g.fuse(&target, &FuseOptions { always, ..FuseOptions::exact() });
        let bound = Bound::default();
        let want = interpreted(&g, &bound);
        let mut got = filled(&fused.graph, &bound);
        if let Err(e) = fused.graph.interpret(&bound, &mut got) {
            panic!("seed {seed}: {e}\n{}", fused.report);
        }
        for i in seen(&g) {
            assert!(want.buffers[i].bytes() == got.buffers[i].bytes(), "seed {seed}: `{}` differs\n{}", g.tensors()[i].name, fused.report);
        }
        for d in &fused.report.decisions {
            match &d.outcome {
                Outcome::Fused { how, .. } => *fusions.entry(how.word()).or_insert(0) += 1,
                Outcome::Refused(all) => all.iter().for_each(|(_, r)| *fusions.entry(reason(r.kind)).or_insert(0) += 1),
            }
        }
    }
    println!("{fusions:?}");
    for word in ["epilogue", "prologue", "same tile", "shape", "place", "grid", "hazard", "order"] {
        assert!(rounds < 60 || fusions.contains_key(word), "no {word} among {fusions:?}");
    }
}

fn reason(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::Order => "order",
        RefusalKind::Grid => "grid",
        RefusalKind::Place => "place",
        RefusalKind::Shape => "shape",
        RefusalKind::Coverage => "coverage",
        RefusalKind::Hazard => "hazard",
        RefusalKind::Target => "target",
        RefusalKind::Cost => "cost",
        RefusalKind::Limit => "limit",
    }
}
