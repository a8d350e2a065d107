//! The proof follows states that differ only by how far rings have gone round as one. That has to change no answer: every program is proved
//! both ways here, the good ones, and those from which an instruction is left out, or which do it twice.

use crate::common::left_out::{Part, twice, unit, without};
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{Program, Unit};
use tilelift_isel::{LowerOptions, lower, prove, prove_by_all_states};
use tilelift_kernels::explicit::{self, Ring, RingGemm};
use tilelift_nvptx::sm_90a;

/// Kernels with rings that rotate: in one block, and in clusters of two, four and eight.
const KERNELS: [&str; 5] = [
    "ring_gemm_ping_pong_nt_bf16_300x200x200",
    "ring_gemm_cooperative_nn_f16_128x136x64",
    "stream_norm_2_bf16_3x64",
    "stream_norm_4_f16_9x4224",
    "stream_norm_8_bf16_5x16384",
];

const PARTS: [Part; 6] = [
    ("wait", |i| unit(i, |u| matches!(u, Unit::Wait { .. }))),
    ("arrival", |i| unit(i, |u| matches!(u, Unit::Arrive { .. } | Unit::RemoteArrive { .. } | Unit::ArriveExpect { .. }))),
    ("copy", |i| unit(i, |u| matches!(u, Unit::BulkLoad { .. }))),
    ("fence", |i| unit(i, |u| matches!(u, Unit::FenceUnits))),
    ("wait for products", |i| unit(i, |u| matches!(u, Unit::WaitMatrices { .. }))),
    ("wait for stores", |i| unit(i, |u| matches!(u, Unit::WaitStoresRead { .. } | Unit::CommitStores { .. }))),
];

fn program(name: &str) -> Program {
    let Some(case) = explicit::cases().into_iter().find(|c| c.name == name) else { panic!("{name} is gone") };
    let kernel = case.build().unwrap();
    lower(&verify(&kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}")).program
}

/// True if a program is proved, which both ways have to say, or refuse.
fn proved(name: &str, what: &str, p: &Program) -> bool {
    let (quick, slow) = (prove(p, &sm_90a()), prove_by_all_states(p, &sm_90a()));
    assert_eq!(quick.is_ok(), slow.is_ok(), "{name}: {what}: {quick:?} {slow:?}");
    quick.is_ok()
}

#[test]
fn rings_rotate_in_clusters_of_all_sizes() {
    for name in KERNELS {
        let p = program(name);
        let all = prove_by_all_states(&p, &sm_90a()).unwrap_or_else(|e| panic!("{name}: {e}")).states;
        let few = prove(&p, &sm_90a()).unwrap_or_else(|e| panic!("{name}: {e}")).states;
        assert!(few * 3 < all * 2, "{name}: {few} of {all}");
    }
}

/// Six slots in ping-pong: each of twelve cases of where a tile's loop ends would follow its first iterations by itself, and every round of twelve from each state. It would
/// take 128,273 steps.
#[test]
fn what_is_the_same_in_all_cases_of_a_loop_is_followed_in_one() {
    let ring = Ring { tile: [128, 128, 64], slots: 6, ..Ring::PING_PONG };
    let kernel = RingGemm::new(Scalar::BF16, ring).transposed(true).for_shape(4096, 4096, 4096).build().unwrap();
    let p = lower(&verify(&kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap().program;
    let proof = prove(&p, &sm_90a()).unwrap();
    assert!(proof.steps < 97_000, "{proof:?}");
}

#[test]
fn what_is_left_out_or_done_twice_is_judged_alike() {
    for name in KERNELS {
        let good = program(name);
        let (mut refused, mut all) = (0, 0);
        for (what, is) in PARTS {
            for (way, change) in [("without", without as fn(&mut _, &_, &mut _) -> bool), ("twice", twice)] {
                for nth in 0.. {
                    let (mut other, mut left) = (good.clone(), nth);
                    if !change(&mut other.body, &is, &mut left) {
                        break;
                    }
                    all += 1;
                    refused += usize::from(!proved(name, &format!("{way} {what} {nth}"), &other));
                }
            }
        }
        // A second wait for the same phase is in order, and so is a second fence.
        assert!(refused * 2 > all && refused < all, "{name}: {refused} of {all} refused");
    }
}
