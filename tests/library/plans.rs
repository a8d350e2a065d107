//! The optimizer must not take a kernel's schedule away: what is specialised as written is specialised at every level, by the same plan.

use tilelift::ir::{Kernel, Scalar};
use tilelift::isel::{LowerOptions, Schedule};
use tilelift::{OptLevel, Options, compile, lower, targets};
use tilelift_kernels::{Activation, Attention, Gemm, VectorAdd};

fn plans(kernel: &Kernel) -> Vec<String> {
    let levels = (0..).map_while(OptLevel::from_number);
    let plan = |opt| {
        let target = targets::by_name("sm_90a").unwrap();
        let lowered = lower(kernel, &target, &Options { opt, ..Options::default() }).unwrap();
        assert!(matches!(lowered.plan.schedule, Schedule::Specialised(_)), "{} at {opt:?}: {}", kernel.name, lowered.plan);
        lowered.plan.to_string()
    };
    levels.map(plan).collect()
}

#[test]
fn products_are_specialised_alike_at_every_level() {
    let shapes = [[4096, 4096, 4096], [2048, 2048, 2048], [8192, 8192, 256]];
    for [m, n, k] in shapes {
        for elem in [Scalar::BF16, Scalar::F16, Scalar::I8, Scalar::F8E4M3] {
            for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
                // Right operands of other than 16 bits run along K; left ones that do not go through registers, which they share with the sums.
                if elem.bytes() != 2 && !trans_b {
                    continue;
                }
                let wide = if elem == Scalar::F8E4M3 || (elem.bytes() == 1 && trans_a) { 128 } else { 256 };
                let plain = Gemm::new(elem).transposed(trans_a, trans_b);
                let plain = plain.clone().tile(128, wide, plain.bk).for_shape(m, n, k);
                let epilogue = plain.clone().epilogue(Some(elem), Activation::Gelu);
                for gemm in [plain, epilogue].into_iter().take(if elem.bytes() == 2 { 2 } else { 1 }) {
                    let all = plans(&gemm.build().unwrap());
                    assert!(all.windows(2).all(|w| w[0] == w[1]), "{gemm:?}: {all:#?}");
                }
            }
        }
    }
}

#[test]
fn attention_is_specialised_alike_at_every_level() {
    for (dim, causal, heads) in [(64, false, None), (64, true, Some(48)), (128, false, Some(48)), (128, true, None)] {
        for elem in [Scalar::BF16, Scalar::F16] {
            let plain = Attention::new(elem, dim, causal).for_units().for_shape(4096, 4096);
            let kernel = heads.map_or(plain.clone(), |h| plain.heads(h)).build().unwrap();
            let all = plans(&kernel);
            assert!(all.windows(2).all(|w| w[0] == w[1]), "{dim} {causal}: {all:#?}");
            // Products run while lanes compute, and the machine deals out the programs.
            assert!(all[0].contains("2 consumer groups") && all[0].contains("in flight while lanes compute"), "{}", all[0]);
            assert!(all[0].contains("results stored through") && all[0].contains("one grid position each"), "{}", all[0]);
        }
    }
}

#[test]
fn launches_overlap_where_the_target_has_that_and_nobody_says_no() {
    let kernels = [VectorAdd::new(Scalar::F32).build().unwrap(), Gemm::new(Scalar::BF16).build().unwrap()];
    for kernel in &kernels {
        for (name, early_launch, overlaps) in [("sm_90a", None, true), ("sm_90a", Some(false), false), ("sm_80", Some(true), false)] {
            let options = Options { lower: LowerOptions { early_launch, ..LowerOptions::default() }, ..Options::default() };
            let artifact = compile(kernel, &targets::by_name(name).unwrap(), &options).unwrap();
            assert_eq!(artifact.early_launch, overlaps, "{} {name} {early_launch:?}", kernel.name);
            let wait = artifact.text.find("griddepcontrol.wait");
            assert_eq!(wait.is_some(), overlaps);
            // Nothing global is touched in front of it.
            let first = ["ld.global", "cp.async", "st.global"].iter().filter_map(|i| artifact.text.find(i)).min();
            assert!(wait.is_none_or(|w| first.is_some_and(|f| w < f)), "{}", artifact.text);
        }
    }
}

#[test]
fn attention_of_one_group_of_warps_is_specialised() {
    let kernel = Attention::new(Scalar::BF16, 128, false).for_shape(1024, 1024).build().unwrap();
    let lowered = lower(&kernel, &targets::by_name("sm_90a").unwrap(), &Options::default()).unwrap();
    let plan = lowered.plan.specialised().unwrap_or_else(|| panic!("{}", lowered.plan));
    assert_eq!((plan.consumers, plan.consumer_sets, plan.overlap.is_some()), (1, 1, true), "{}", lowered.plan);
}
