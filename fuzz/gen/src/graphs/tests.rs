//! The oracle is awake: graphs of which a kernel is a little wrong fail.

use super::{GraphCase, GraphOptions, generate_graph, judge_graph};
use crate::source::Source;
use crate::verdict::Kind;
use tilelift::graph::Graph;
use tilelift_ir::{Attr, Kernel, Literal, Op};

/// The graph with one kernel changed; `None` if there is nothing to change, or extents are known at launch only.
fn altered(case: &GraphCase, change: fn(&mut Kernel) -> bool) -> Option<GraphCase> {
    let mut graph = Graph::new();
    if !case.bound.sizes.is_empty() {
        return None;
    }
    for t in case.graph.tensors() {
        graph.tensor(&t.name, t.elem, &t.dims, t.role);
    }
    let mut done = false;
    for node in case.graph.nodes() {
        let mut kernel = node.kernel.clone();
        done = done || change(&mut kernel);
        graph.add(&node.name, kernel, node.grid.clone(), &node.args).ok()?;
    }
    done.then(|| GraphCase { graph, ..case.clone() })
}

/// Changes the first instruction that it can.
fn first(k: &mut Kernel, mut change: impl FnMut(&mut tilelift_ir::InstData, bool) -> bool) -> bool {
    let mut all = Vec::new();
    k.walk(k.body, &mut |i| all.push(i));
    all.into_iter().any(|i| {
        let float = k.insts[i].results.first().is_some_and(|&v| k.ty(v).elem().is_float());
        change(&mut k.insts[i], float)
    })
}

fn failures(change: fn(&mut Kernel) -> bool) -> (u32, Vec<(Kind, String)>) {
    let (mut tried, mut failed) = (0, Vec::new());
    for seed in 0..60 {
        let case = generate_graph(&mut Source::from_seed(seed)).expect("a graph");
        let Some(other) = altered(&case, change) else { continue };
        tried += 1;
        if let Err(f) = judge_graph(&other, &GraphOptions::of(seed)) {
            failed.push((f.kind, f.at));
        }
    }
    (tried, failed)
}

#[test]
fn a_sum_that_is_a_difference_is_found() {
    let (tried, failed) = failures(|k| {
        first(k, |d, float| {
            let found = d.op == Op::Add && float;
            if found {
                d.op = Op::Sub;
            }
            found
        })
    });
    assert!(tried >= 10 && failed.len() as u32 * 10 >= tried * 9, "{failed:?} of {tried}");
    // Nearly all of them before anything is fused; one that adds little to a mean of squares in `f64` alone.
    assert!(failed.iter().filter(|f| f.0 == Kind::Generator).count() as u32 * 2 > tried, "{failed:?}");
}

/// A number that is off by less than half a unit of `f32` hides among roundings, but not in `f64`.
#[test]
fn a_number_that_is_off_by_less_than_a_rounding_is_found() {
    let (tried, failed) = failures(|k| {
        first(k, |d, float| {
            let Some(Attr::Literal(Literal::Float(bits))) = d.attrs.first_mut().filter(|_| float) else { return false };
            let x = f64::from_bits(*bits);
            let other = x * (1.0 + 2f64.powi(-22));
            let found = other.is_finite() && other != x;
            if found {
                *bits = other.to_bits();
            }
            found
        })
    });
    let ideal = failed.iter().filter(|f| f.1.ends_with("in f64")).count();
    assert!(tried >= 10 && ideal >= 3, "{failed:?} of {tried}");
}
