//! Layouts of specialised loops' operands: swizzles, operands A through registers, results by lanes. Random ones are taken, and each has to be
//! right in the lane interpreter and in the simulator of the text, proved, and assembled without a spill or a remark.

use crate::common::assembler::together;
use crate::common::units::{clean, lowered, product, right, simulated};
use std::collections::BTreeMap;
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::{LayoutChoice, LowerOptions, Lowered, ScheduleKind, choose, lower};
use tilelift_kernels::workload::AttentionCase;
use tilelift_kernels::{Attention, Case, Gemm, Size};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};
use tilelift_schedule::candidates::{Candidates, schedule};

fn options(layouts: LayoutChoice) -> LowerOptions {
    LowerOptions { schedule: Some(ScheduleKind::Specialised), layouts, ..LowerOptions::default() }
}

/// Runs the lane program and the text, proves the roles, and assembles; gives the text.
fn whole(case: &Case, l: &Lowered, seed: u64) -> String {
    right(case, l);
    simulated(case, l, seed % 3);
    tilelift_isel::prove(&l.program, &sm_90a()).unwrap_or_else(|e| panic!("{}: {}: {e}", case.name, l.plan));
    clean(case, l)
}

/// What a plan says of its ring layouts, a word per alternative.
fn words(l: &Lowered) -> Vec<String> {
    let plan = l.plan.to_string();
    let mut out = Vec::new();
    for (name, what) in [
        ("swizzle 64", "64 and"),
        ("swizzle 64", "64 bytes"),
        ("swizzle 32", "32 and"),
        ("swizzle 32", "32 bytes"),
        ("registers", "operands A through registers"),
        ("lanes", "results stored by lanes"),
        ("bulk", "results stored through"),
    ] {
        let swizzles = plan.split(", swizzle of ").nth(1).unwrap_or_default();
        let text = if name.starts_with("swizzle") { swizzles } else { &plan };
        if text.contains(what) {
            out.push(name.to_owned());
        }
    }
    if !plan.contains(", swizzle of ") {
        out.push("swizzle 128".to_owned());
    }
    out
}

#[test]
fn random_forms_of_products_are_right() {
    let _texts = together();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut seed = 0;
    for (elem, tile) in [
        (Scalar::F16, [128, 128, 64]),
        (Scalar::BF16, [128, 64, 128]),
        (Scalar::F32, [128, 64, 32]),
        (Scalar::F8E4M3, [128, 64, 128]),
        (Scalar::I8, [64, 128, 128]),
    ] {
        for order in [(false, false), (false, true), (true, false), (true, true)] {
            // Right operands of other than 16 bits run along K; left ones that do not go through registers.
            if elem.bytes() != 2 && !order.1 {
                continue;
            }
            let gemm = Gemm::new(elem).transposed(order.0, order.1).tile(tile[0], tile[1], tile[2]);
            for shape in [[208, 144, 208], [128, 128, 256]] {
                for _ in 0..3 {
                    let case = product(&gemm, shape);
                    let l = lowered(&case, &options(LayoutChoice::Random(seed)));
                    assert_eq!(l.fallback, None, "{elem} {tile:?}");
                    whole(&case, &l, seed);
                    words(&l).into_iter().for_each(|w| *seen.entry(w).or_default() += 1);
                    seed += 1;
                }
            }
        }
    }
    for word in ["swizzle 128", "swizzle 64", "swizzle 32", "registers", "lanes", "bulk"] {
        assert!(seen.get(word).is_some_and(|&n| n >= 4), "{word}: {seen:?}");
    }
}

/// K and V wait in swizzles of all widths, together and apart; queries and probabilities are in registers as it is.
#[test]
fn random_forms_of_attention_are_right() {
    let _texts = together();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (seed, (elem, dim, causal, overlap)) in (0u64..).zip([
        (Scalar::F16, 64, true, true),
        (Scalar::BF16, 64, false, false),
        (Scalar::BF16, 128, false, true),
        (Scalar::F16, 128, true, true),
        (Scalar::BF16, 64, true, true),
        (Scalar::F16, 128, false, false),
    ]) {
        for seed in [seed, seed + 100] {
            let (queries, keys) = (130, 200);
            let config = Attention::new(elem, dim, causal).for_shape(queries, keys).tile(128, 64, 4);
            let workload = Box::new(AttentionCase { config, queries, keys, heads: 1 });
            let case = Case { name: format!("{elem} {dim} {causal}"), row: 17, size: Size::Small, workload };
            let l = lowered(&case, &LowerOptions { overlap: Some(overlap), ..options(LayoutChoice::Random(seed)) });
            assert_eq!(l.fallback, None);
            whole(&case, &l, seed);
            words(&l).into_iter().for_each(|w| *seen.entry(w).or_default() += 1);
        }
    }
    for word in ["swizzle 64", "swizzle 32", "lanes", "bulk"] {
        assert!(seen.get(word).is_some_and(|&n| n >= 2), "{word}: {seen:?}");
    }
}

/// What was chosen is written as requirements; the text without a search gives the program of the search.
#[test]
fn the_text_with_its_requirements_is_the_program_of_the_search() {
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true);
    let cases = [
        (gemm.clone().tile(128, 256, 64), [4096, 4096, 4096]),
        (gemm.clone().tile(64, 64, 128), [64, 8192, 8192]),
        (Gemm::new(Scalar::I8).transposed(true, true), [512, 1024, 768]),
    ];
    for (config, shape) in cases {
        let case = product(&config, shape);
        let plain = LowerOptions { layouts: LayoutChoice::Spread, ..options(LayoutChoice::Spread) };
        let searched = lowered(&case, &options(LayoutChoice::Searched));
        let kernel = case.build().unwrap();
        let verified = verify(&kernel).unwrap();
        let chosen = choose(&verified, &sm_90a(), &plain, false).unwrap().unwrap();
        let again = tilelift_ir::text::parse(&chosen.text).unwrap_or_else(|e| panic!("{e:?}\n{}", chosen.text));
        let [again] = &again.kernels[..] else { panic!("{}", chosen.text) };
        let by_hand = lower(&verify(again).unwrap(), &sm_90a(), &plain).unwrap_or_else(|e| panic!("{e}\n{}", chosen.text));
        let text = |l: &Lowered| emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap().text;
        assert_eq!(text(&searched), text(&by_hand), "{}", chosen.text);
        assert!(chosen.text.contains("require_layout") && chosen.text.contains("(taken)"), "{}", chosen.text);
        assert_eq!(searched.plan, lowered(&case, &plain).plan, "the plan's own layouts are as good as others: {}", chosen.text);
    }
}

/// The candidates of a schedule: cheapest first, but the plan's own in front of what is cheaper by less than prices are exact; each has a plan
/// that its decisions show in, and is written as a kernel that verifies.
#[test]
fn candidates_are_priced_and_written() {
    let target = sm_90a();
    let hints = options(LayoutChoice::Searched);
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64);
    let kernel = product(&gemm, [256, 256, 512]).build().unwrap();
    let found = schedule(&kernel, &target, &hints).unwrap();
    let totals: Vec<u64> = found.list().iter().map(|c| c.price.expect("a price").total()).collect();
    let own = found.list().iter().position(|c| found.is_own(c)).expect("the plan's own");
    let others: Vec<u64> = totals.iter().enumerate().filter(|(n, _)| *n != own).map(|(_, &t)| t).collect();
    assert!(others.is_sorted() && others.len() > 8, "{totals:?}");
    assert!(own == 0 && totals[0] <= others[0] + others[0] / 64 || totals[own] > others[0] + others[0] / 64, "{own}: {totals:?}");
    for c in found.list() {
        let price = c.price.unwrap();
        assert!(price.products > 0 && price.copies > 0 && price.epilogue > 0, "{price:?}");
        assert_eq!(price.operand_a > 0, c.ring_layouts.a_from_registers.values().any(|&r| r), "{c:?}");
        let plan = found.plan(c).unwrap_or_else(|e| panic!("{c:?}: {e}"));
        let s = plan.specialised().expect("a ring");
        assert!(s.loads.iter().all(|(i, t)| c.ring_layouts.swizzles[i] == t.swizzle), "{c:?}: {plan}");
        assert!(c.ring_layouts.a_from_registers.iter().all(|(i, &r)| s.register_a.contains(i) == r), "{c:?}: {plan}");
        assert_eq!(s.consumer_sets, c.consumer_sets.unwrap_or(2), "{c:?}: {plan}");
        let written = found.written(c).expect("a schedule").unwrap_or_else(|e| panic!("{c:?}: {e}"));
        verify(&written).unwrap_or_else(|e| panic!("{c:?}: {}", e.pretty(&written)));
    }
    let lines = found.lines();
    assert_eq!(lines.lines().count(), found.list().len(), "{lines}");
    assert!(lines.contains("the plan's own") && lines.contains("ping-pong"), "{lines}");
}

/// What is pinned, by the caller or in the text, leaves one way to decide it; so does level 1 for all of it, and what is not specialised.
#[test]
fn what_is_pinned_leaves_one_candidate() {
    let target = sm_90a();
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64);
    let kernel = product(&gemm, [256, 256, 512]).build().unwrap();
    let searched = options(LayoutChoice::Searched);
    let count = |kernel: &tilelift_ir::Kernel, hints: &LowerOptions| schedule(kernel, &target, hints).unwrap().list().len();
    let pinned =
        LowerOptions { swizzle: Some(64), a_from_registers: Some(true), bulk_stores: Some(false), consumer_sets: Some(1), ..searched };
    assert_eq!(count(&kernel, &pinned), 1);
    let open = LowerOptions { a_from_registers: None, ..pinned };
    let found = schedule(&kernel, &target, &open).unwrap();
    assert_eq!(found.list().len(), 2);
    assert!(found.list().iter().all(|c| c.ring_layouts.swizzles.values().all(|&s| s == 64)));
    // What the first one decides, required in the text, is all that is left there.
    let written = found.first().ring_layouts.written(&kernel);
    let said = schedule(&written, &target, &LowerOptions { bulk_stores: Some(false), consumer_sets: Some(1), ..searched }).unwrap();
    assert!(said.list().iter().all(|c| c.ring_layouts.swizzles.values().all(|&s| s == 64)), "{:?}", said.list());
    assert_eq!(count(&kernel, &options(LayoutChoice::Spread)), 1);
    assert_eq!(count(&kernel, &LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..searched }), 1);
}

/// Of the library's specialised loops the plan's own layouts are the best for all.
#[test]
fn the_library_takes_what_the_plan_decides() {
    let target = sm_90a();
    let hints = LowerOptions { layouts: LayoutChoice::Searched, ..LowerOptions::default() };
    let (mut seen, mut others) = (0, Vec::new());
    for case in tilelift_kernels::cases() {
        let Ok(kernel) = case.build() else { continue };
        let Ok(plan) = tilelift_isel::plan(&kernel, &target, &hints) else { continue };
        if plan.specialised().is_some() {
            seen += 1;
            let found = Candidates::of(&kernel, &target, &hints, plan);
            assert!(found.first().price.is_some(), "{}", case.name);
            others.extend((!found.is_own(found.first())).then(|| format!("{}\n{}", case.name, found.lines())));
        }
    }
    assert!(others.is_empty() && seen > 100, "{seen}: {}", others.join("\n"));
}
