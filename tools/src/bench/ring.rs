//! The hand-written ring GEMM beside products that the compiler specialises: it takes the numbers of their plans.

use super::problem::{Problem, Variant};
use tilelift::OptLevel;
use tilelift_ir::{Scalar, verify};
use tilelift_isel::gemm::rank;
use tilelift_isel::{Specialised, Target, plan};
use tilelift_kernels::explicit::Ring;

/// Hand-written variants of a product: with the numbers of those of `asked` that a ring GEMM may have, and, of cooperative and ping-pong consumers
/// that are not among them, with those of the model's first choice.
pub(crate) fn rings(problem: &Problem, asked: &[Variant], target: &Target) -> Vec<Variant> {
    let mut list: Vec<Ring> = Vec::new();
    for ring in asked.iter().filter_map(|v| ring(problem, v, target)) {
        if !list.contains(&ring) {
            list.push(ring);
        }
    }
    let Some(product) = problem.product() else { return Vec::new() };
    for ping_pong in [true, false] {
        if !list.iter().any(|r| r.ping_pong() == ping_pong) {
            let ranked = rank(target, &product).into_iter().filter(|r| (r.choice.consumer_sets > 1) == ping_pong);
            list.extend(ranked.filter_map(|r| ring(problem, &r.choice.into(), target)).next());
        }
    }
    list.into_iter().map(|ring| Variant { explicit: Some(ring), ..Variant::default() }).collect()
}

/// The numbers with which a variant of a product is specialised; none of what no ring GEMM does.
fn ring(problem: &Problem, variant: &Variant, target: &Target) -> Option<Ring> {
    let &Problem::Gemm { elem: Scalar::F16 | Scalar::BF16, out, trans: (false, _), batch: 1, .. } = problem else { return None };
    let whole = variant.splits.is_none_or(|n| n == 1) && variant.stream_k.is_none() && variant.clusters.is_none();
    if out != problem.elem() || variant.swapped || !whole {
        return None;
    }
    let kernel = problem.workload(variant).1.build().ok()?;
    let verified = verify(&kernel).ok()?;
    let plan = plan(&verified, target, &variant.options(OptLevel::None).lowering()).ok()?;
    let s = plan.specialised()?;
    let Specialised { consumers, consumer_sets, depth: slots, staging_parts: parts, registers, .. } = **s;
    let plain = s.persistent && !s.promoted && s.register_a.is_empty() && s.in_flight == 1 && s.stores.len() == 1;
    let swizzled = variant.swizzle.is_some();
    let (tile, group) = variant.tile.zip(variant.group)?;
    (plain && !swizzled).then_some(Ring { tile, group, slots, consumers, consumer_sets, parts, registers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::targets;

    fn nt(shape: [u32; 3]) -> Problem {
        let [m, n, k] = shape;
        Problem::Gemm { elem: Scalar::BF16, out: Scalar::BF16, trans: (false, true), batch: 1, m, n, k }
    }

    #[test]
    fn both_kinds_of_consumers_are_had_and_those_asked_for_come_first() {
        let target = targets::by_name("sm_90a").expect("known");
        for shape in [[8192, 8192, 1024], [4096, 4096, 4096]] {
            let p = nt(shape);
            let best = rank(&target, &p.product().expect("a product"))[0].choice;
            let list: Vec<Ring> = rings(&p, &[best.into()], &target).iter().filter_map(|v| v.explicit).collect();
            assert_eq!(list.len(), 2, "{shape:?}");
            assert!(list[0].ping_pong() != list[1].ping_pong());
            let Ring { tile, group, slots, consumers, consumer_sets, .. } = list[0];
            let asked = (best.tile, best.group, best.stages, best.consumers, best.consumer_sets);
            assert_eq!((tile, group, slots, consumers, consumer_sets), asked);
        }
    }

    #[test]
    fn what_is_benched_is_what_the_compiler_makes_by_itself() {
        let target = targets::by_name("sm_90a").expect("known");
        // The optimizer, which leaves alone what authors say, has an order of its own for factors.
        let lines = |p: &Problem, v: &Variant| {
            let kernel = p.workload(v).1.build().expect("builds");
            let made = tilelift::compile(&kernel, &target, &v.options(OptLevel::Logical)).unwrap_or_else(|e| panic!("{e}"));
            let unordered = |line: &str| {
                let mut words: Vec<String> = line.split([' ', ',', ';']).map(str::to_owned).collect();
                words.sort_unstable();
                words
            };
            made.text.replace(&kernel.name, "kernel").lines().map(unordered).collect::<Vec<_>>()
        };
        for k in [1024, 8192] {
            let p = nt([8192, 8192, k]);
            let best = Variant::from(rank(&target, &p.product().expect("a product"))[0].choice);
            let twin = rings(&p, &[best], &target)[0];
            let (auto, hand) = (lines(&p, &best), lines(&p, &twin));
            assert!(auto.len() == hand.len() && auto.len() > 500);
            auto.iter().zip(&hand).for_each(|(a, b)| assert_eq!(a, b, "K = {k}"));
        }
    }

    #[test]
    fn what_no_ring_gemm_does_has_none() {
        let target = targets::by_name("sm_90a").expect("known");
        let p = nt([1024, 1024, 1024]);
        let best = Variant::from(rank(&target, &p.product().expect("a product"))[0].choice);
        let whole = Variant { splits: Some(1), stream_k: None, swapped: false, ..best };
        assert!(ring(&p, &Variant { swizzle: Some(64), ..whole }, &target).is_none());
        assert!(ring(&p, &Variant { bulk: Some(false), ..whole }, &target).is_none());
        assert!(ring(&p, &Variant { splits: Some(2), ..whole }, &target).is_none());
        assert!(ring(&p, &whole, &targets::by_name("sm_80").expect("known")).is_none());
        let norm = Problem::Softmax { elem: Scalar::BF16, rows: 8, cols: 8 };
        assert!(rings(&norm, &[Variant::default()], &target).is_empty());
    }
}
