//! Forms of specialised loops: swizzles of panels, operands A through registers, results by lanes. Random ones are taken, and each has to be
//! right in the lane interpreter and in the simulator of the text, proved, and assembled without a spill or a remark.

#[path = "common/launch.rs"]
mod launch;
#[path = "common/units.rs"]
mod units;

use std::collections::BTreeMap;
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::{LayoutChoice, LowerOptions, Lowered, ScheduleKind, choose, lower};
use tilelift_kernels::workload::AttentionCase;
use tilelift_kernels::{Attention, Case, Gemm, Size};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};
use units::{clean, lowered, product, right, simulated};

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

/// What a plan says of its forms, a word per alternative.
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
        let panels = plan.split(", panels of ").nth(1).unwrap_or_default();
        let text = if name.starts_with("swizzle") { panels } else { &plan };
        if text.contains(what) {
            out.push(name.to_owned());
        }
    }
    if !plan.contains(", panels of ") {
        out.push("swizzle 128".to_owned());
    }
    out
}

#[test]
fn random_forms_of_products_are_right() {
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

/// K and V wait in panels of all widths, together and apart; queries and probabilities are in registers as it is.
#[test]
fn random_forms_of_attention_are_right() {
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
        assert_eq!(searched.plan, lowered(&case, &plain).plan, "the plan's own forms are as good as others: {}", chosen.text);
    }
}
