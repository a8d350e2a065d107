//! Programs that shortcuts of the proof would let pass if they took too much for alike: parts of one slot, one block of several, one slot,
//! one round. Each is proved as it should be, and refused with its fault.

use crate::common::arguments;
use tilelift_interp::{Arg, ScalarArg, ViewArg};
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::abi::marshal;
use tilelift_isel::lane::Program;
use tilelift_isel::{LowerOptions, ProofScope, lower, prove, prove_by_all_states};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};
use tilelift_nvptx_sim as sim;

/// Two tasks each bring a part of what a third one reads.
const JOINED: &str = "kernel @joined(v0: view<f32, [?, ?%4]>, v1: view<f32, [?, ?%4]>) cluster 2 {
    v2 = local_alloc : shared<1x4xf32>
    v3 = barrier_alloc 1 : barrier<1>
    v4 = barrier_alloc 1 : barrier<1>
    v5 = cluster_rank
    v6 = dim v0, 0
    cluster_barrier
    tasks {
        task first warps 1 {
            for v10 in 0..v6 step 1 {
                v11 = add v10, 1
                barrier_wait v4, v11
                v12 = load v0[v10, 0] : tile<1x1xf32>
                v13 = local_slice v2, [0, 0] : shared<1x1xf32>
                remote_store_async v13, v5, v12, v3
                yield
            }
            yield
        }
        task second warps 1 {
            for v20 in 0..v6 step 1 {
                v21 = add v20, 1
                barrier_wait v4, v21
                v22 = load v0[v20, 1] : tile<1x1xf32>
                v23 = local_slice v2, [0, 1] : shared<1x1xf32>
                remote_store_async v23, v5, v22, v3
                yield
            }
            yield
        }
        task reader warps 1 {
            for v30 in 0..v6 step 1 {
                barrier_expect v3, 8
                barrier_wait v3, v30
                v31 = local_slice v2, [0, 0] : shared<1x2xf32>
                v32 = local_load v31
                barrier_arrive v4
                v33 = mul v30, 2
                v34 = add v33, v5
                store v1[v34, 0], v32
                yield
            }
            yield
        }
    }
}
";

/// A producer fills both halves of a slot, and each of two consumers reads one.
const HALVES: &str = "kernel @halves(v0: view<f32, [?, ?%64]>, v1: view<f32, [?, ?%64]>) {
    v2 = local_alloc : shared<4x2x1x32xf32>
    v3 = barrier_alloc 1 : barrier<4>
    v4 = barrier_alloc 2 : barrier<4>
    v6 = dim v0, 0
    tasks {
        task producer warps 1 {
            for v10 in 0..v6 step 1 {
                v11 = rem v10, 4
                v12 = div v10, 4
                v13 = add v12, 1
                v14 = barrier_index v4, v11
                barrier_wait v14, v13
                v15 = barrier_index v3, v11
                barrier_expect v15, 256
                v16 = local_index v2, v11
                v17 = local_index v16, 0
                async_load v0[v10, 0], v17, v15
                v18 = local_index v16, 1
                async_load v0[v10, 32], v18, v15
                yield
            }
            yield
        }
        task consumer warps 1 replicas 2 as v30 {
            for v20 in 0..v6 step 1 {
                v21 = rem v20, 4
                v22 = div v20, 4
                v23 = barrier_index v3, v21
                barrier_wait v23, v22
                v24 = local_index v2, v21
                v25 = local_index v24, v30
                v26 = local_load v25
                v27 = barrier_index v4, v21
                barrier_arrive v27
                v28 = mul v30, 32
                store v1[v20, v28], v26
                yield
            }
            yield
        }
    }
}
";

/// Four blocks send one another a number each in every round.
fn rounds() -> String {
    let sends: String = (0..4).map(|p| format!("remote_store_async v17, {p}, v12, v15\n")).collect();
    format!(
        "kernel @rounds(v0: view<f32, [?, ?%4]>, v1: view<f32, [?, ?%4]>) cluster 4 {{
    v2 = local_alloc : shared<2x4x1xf32>
    v3 = barrier_alloc 1 : barrier<2>
    v5 = cluster_rank
    v6 = dim v0, 0
    cluster_barrier
    tasks {{
        task all warps 1 {{
            for v10 in 0..v6 step 1 {{
                v11 = load v0[v10, 0] : tile<1x1xf32>
                v12 = reshape v11 : tile<1xf32>
                v13 = rem v10, 2
                v14 = div v10, 2
                v15 = barrier_index v3, v13
                barrier_expect v15, 16
                v16 = local_index v2, v13
                v17 = local_index v16, v5
                {sends}
                barrier_wait v15, v14
                v18 = local_load v16
                v19 = mul v10, 4
                v20 = add v19, v5
                v21 = reshape v18 : tile<1x4xf32>
                store v1[v20, 0], v21
                yield
            }}
            yield
        }}
    }}
}}
"
    )
}

/// What is done with a condition only.
fn only(condition: &str, what: &str) -> String {
    format!("v90 = {condition}\n if v90 {{\n {what}\n yield\n }} else {{\n yield\n }}\n")
}

fn lowered(text: &str) -> Program {
    let file = tilelift_ir::text::parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    lower(&kernel, &sm_90a(), &options).unwrap_or_else(|e| panic!("{e}\n{text}")).program
}

fn verdict(text: &str) -> Result<(), String> {
    let program = lowered(text);
    let answer = prove(&program, &sm_90a());
    // Rings that rotate change no answer.
    assert_eq!(answer.is_ok(), prove_by_all_states(&program, &sm_90a()).is_ok(), "{answer:?}\n{program}");
    answer.map(drop).map_err(|e| e.to_string())
}

/// Each edit of a program that is proved has to be refused, in these words.
fn refused(good: &str, edits: &[(&str, String, &str)]) {
    verdict(good).unwrap_or_else(|e| panic!("{e}\n{good}"));
    for (from, to, words) in edits {
        assert!(good.contains(from), "{from} in {good}");
        let text = good.replacen(from, to, 1);
        match verdict(&text) {
            Ok(()) => panic!("proved\n{text}"),
            Err(e) => assert!(e.contains(words), "{e}\n{text}"),
        }
    }
}

#[test]
fn who_joins_a_write_has_to_know_that_reads_are_over() {
    let text = "barrier_wait v4, v21\n                v22 = load v0[v20, 1] : tile<1x1xf32>";
    let late = "v22 = load v0[v20, 1] : tile<1x1xf32>";
    let store = "remote_store_async v23, v5, v22, v3";
    // The second one sees that the phase before is over, but not that it has been read; nor does the first one, where it is the other way.
    let second = JOINED.replacen(text, late, 1).replacen(store, &format!("{store}\n barrier_wait v3, v20"), 1);
    let e = verdict(&second).expect_err("it may overwrite what is read");
    assert!(e.contains("may still be read"), "{e}");
    let text = "barrier_wait v4, v11\n";
    let store = "remote_store_async v13, v5, v12, v3";
    let first = JOINED.replacen(text, "", 1).replacen(store, &format!("{store}\n barrier_wait v3, v10"), 1);
    let e = verdict(&first).expect_err("it may overwrite what is read");
    assert!(e.contains("may still be read"), "{e}");
    refused(JOINED, &[("barrier_expect v3, 8", "barrier_expect v3, 4".into(), ""), ("barrier_arrive v4", String::new(), "wait for ever")]);
}

#[test]
fn parts_of_slots_are_told_apart() {
    let (last, second) = ("async_load v0[v10, 32], v18, v15", "async_load v0[v10, 0], v17, v15");
    let arrive = "barrier_arrive v27\n";
    refused(
        HALVES,
        &[
            // The second half is never filled, or the first one twice.
            (last, "async_load v0[v10, 0], v17, v15".into(), ""),
            ("v18 = local_index v16, 1", "v18 = local_index v16, 0".into(), ""),
            // In one slot, in the first round, in all but the first.
            (last, only("cmp ne v11, 3", last), ""),
            (last, only("cmp ne v10, 0", last), ""),
            (last, only("cmp eq v10, 0", last), ""),
            (second, only("cmp ne v11, 2", second), ""),
            // One of two consumers does not say that it is done, or only in one slot.
            (arrive, only("cmp eq v30, 0", arrive), ""),
            (arrive, only("cmp ne v21, 3", arrive), ""),
            ("barrier_alloc 2", "barrier_alloc 1".into(), ""),
            // It says so before it reads.
            (
                "v26 = local_load v25\n                v27 = barrier_index v4, v21\n                barrier_arrive v27",
                "v27 = barrier_index v4, v21\n barrier_arrive v27\n v26 = local_load v25".into(),
                "may still be read",
            ),
            // It reads the next slot.
            ("v24 = local_index v2, v21", "v91 = add v21, 1\n v92 = rem v91, 4\n v24 = local_index v2, v92".into(), "is read before"),
        ],
    );
}

#[test]
fn blocks_are_not_taken_for_alike() {
    let good = rounds();
    let wait = "barrier_wait v15, v14\n";
    let third = "remote_store_async v17, 2, v12, v15\n";
    let expect = "barrier_expect v15, 16\n";
    let mut edits = Vec::new();
    for rank in 0..4 {
        let but = |what: &str| only(&format!("cmp ne v5, {rank}"), what);
        // One block does not wait, send to the third one, or expect.
        edits.extend([(wait, but(wait), ""), (third, but(third), ""), (expect, but(expect), "")]);
        edits.push((wait, format!("v91 = cmp eq v5, {rank}\n v92 = cast v91 : i32\n v93 = add v14, v92\n barrier_wait v15, v93\n"), ""));
    }
    edits.extend([
        // In one of the two buffers, or in the first round.
        (wait, only("cmp eq v13, 0", wait), ""),
        (wait, only("cmp gt v10, 0", wait), ""),
        (third, only("cmp eq v13, 1", third), ""),
        // All blocks send to one place.
        ("v17 = local_index v16, v5", "v17 = local_index v16, 0".into(), ""),
        // One buffer for all rounds.
        ("v16 = local_index v2, v13", "v16 = local_index v2, 0".into(), ""),
    ]);
    refused(&good, &edits);
}

/// Two tasks meet in three of four rounds, and count them.
const SKIPS: &str = "kernel @skips(v0: view<f32, [?, 64]>) {
    v3 = barrier_alloc 1 : barrier<1>
    v4 = barrier_alloc 1 : barrier<1>
    v6 = dim v0, 0
    tasks {
        task first warps 1 {
            v9 = for v10 in 0..v6 step 1 carry v11 = 0 {
                v12 = rem v10, 4
                v13 = cmp lt v12, 3
                v14 = if v13 {
                    barrier_arrive v4
                    barrier_wait v3, v11
                    v15 = add v11, 1
                    yield v15
                } else {
                    yield v11
                }
                yield v14
            }
            yield
        }
        task second warps 1 {
            v19 = for v20 in 0..v6 step 1 carry v21 = 0 {
                v22 = rem v20, 4
                v23 = cmp lt v22, 3
                v24 = if v23 {
                    barrier_wait v4, v21
                    barrier_arrive v3
                    barrier_wait v3, v21
                    v25 = add v21, 1
                    yield v25
                } else {
                    yield v21
                }
                yield v24
            }
            yield
        }
    }
}
";

/// A wait by the index goes wrong in the second group of rounds, which must not be taken for the first one rotated.
#[test]
fn rounds_are_rotated_with_all_who_wait_for_them() {
    refused(SKIPS, &[("barrier_wait v3, v21", "barrier_wait v3, v20".to_owned(), "")]);
}

/// Some rounds let a result leave, by a buffer that nobody else touches.
const LEAVES: &str = "kernel @leaves(v0: view<bf16, [?, ?%64]>, v1: i32, v2: view<bf16, [?, ?%64]>) {
    v3 = local_alloc : shared<64x64xbf16>
    v4 = dim v0, 0
    v5 = barrier_alloc 1 : barrier<1>
    v6 = local_alloc : shared<64x64xbf16>
    v7 = barrier_alloc 1 : barrier<1>
    tasks {
        task writer warps 4 {
            v10 = splat 1.0 : tile<64x64xbf16>
            v18 = for v11 in 0..v4 step 1 carry v19 = 0 {
                barrier_wait v5, v19
                v13 = local_load v6
                barrier_arrive v7
                v12 = cmp lt v11, v1
                if v12 {
                    async_store_wait 0
                    local_store v3, v13
                    fence_async
                    task_barrier
                    async_store v0[v11, 0], v3
                    yield
                } else {
                    yield
                }
                v17 = add v19, 1
                yield v17
            }
            yield
        }
        task loader warps 1 {
            v28 = for v21 in 0..v4 step 1 carry v29 = 0 {
                v22 = add v29, 1
                barrier_wait v7, v22
                barrier_expect v5, 8192
                async_load v2[v21, 0], v6, v5
                v27 = add v29, 1
                yield v27
            }
            yield
        }
    }
}
";

/// Behind a choice that may go either way nothing counts that only one arm did, and all is in flight that one arm began.
#[test]
fn what_one_arm_does_may_not_have_been_done() {
    let body = LEAVES.split("if v12 {\n").nth(1).and_then(|rest| rest.split("                    yield\n").next()).unwrap();
    let choice =
        format!("if v12 {{\n{body}                    yield\n                }} else {{\n                    yield\n                }}\n");
    let no_wait = body.replace("async_store_wait 0\n", "");
    let may_wait = |rest: &str| format!("if v12 {{\n async_store_wait 0\n yield\n }} else {{\n yield\n }}\n{rest}");
    refused(
        LEAVES,
        &[
            // The buffer may still be read.
            ("async_store_wait 0\n", String::new(), "may still be read"),
            // It is waited for in some rounds only.
            (&choice, may_wait(&no_wait), "may still be read"),
            (&choice, may_wait(&choice.replace("async_store_wait 0\n", "")), "may still be read"),
            // Behind the choice lanes write it, or read what may not be there.
            (&choice, format!("{choice} local_store v3, v10\n"), "may still be read"),
            (&choice, format!("{choice} v90 = local_load v3\n store v0[v11, 0], v90\n"), "is read before"),
            // What units are to see is not fenced.
            ("fence_async\n", String::new(), "fence_async"),
            // The other arm waits for somebody.
            ("} else {\n                    yield", "} else {\n barrier_wait v5, v19\n yield".to_owned(), ""),
        ],
    );
}

/// Runs the text on views of these types and 128 rows and 64 columns, and a number.
fn simulated(text: &str, views: &[Scalar], number: i64) -> Result<(), String> {
    let kernel = emit(&lowered(text), &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let module = sim::Module::parse(&kernel.text).unwrap_or_else(|e| panic!("{e}"));
    let mut device = sim::Memory::new();
    let zeros = |elem: &Scalar| sim::Init::Bytes(vec![0; 128 * 64 * elem.bytes() as usize]);
    let bases: Vec<u64> = views.iter().enumerate().map(|(n, elem)| device.alloc(&format!("view {n}"), zeros(elem))).collect();
    let views = views.iter().enumerate().map(|(n, &elem)| ViewArg::dense(n, elem, &[128, 64]).into());
    let args: Vec<Arg> = views.chain([ScalarArg::int(Scalar::I32, number).into()]).collect();
    let values = marshal(&kernel.params, [1, 1, 1], &args, |buffer, offset| bases[buffer] + offset).unwrap();
    let launch = sim::Launch {
        entry: &kernel.entry,
        grid: [1, 1, 1],
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        args: &arguments::arguments(&values),
        config: sim::SimConfig { seed: 1, policy: sim::Policy::Random, ..sim::SimConfig::default() },
    };
    module.launch(&launch, &mut device).map(drop).map_err(|e| e.to_string())
}

/// The proof refuses an edit in these words, and the simulator stops at it, unless the number makes it harmless.
fn caught(good: &str, views: &[Scalar], (from, to): (&str, &str), words: &str) {
    refused(good, &[(from, to.to_owned(), words)]);
    let text = good.replacen(from, to, 1);
    for number in [0, 1000] {
        simulated(good, views, number).unwrap_or_else(|e| panic!("{e}\n{good}"));
    }
    simulated(&text, views, 1000).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert!(simulated(&text, views, 0).is_err(), "not seen\n{text}");
}

/// What lanes write leaves by a bulk store, behind a fence.
const FENCED: &str = "kernel @fenced(v0: view<bf16, [?, ?%64]>, v1: i32) {
    v3 = local_alloc : shared<64x64xbf16>
    v4 = dim v0, 0
    tasks {
        task writer warps 4 {
            v10 = splat 1.0 : tile<64x64xbf16>
            for v11 in 0..v4 step 64 {
                async_store_wait 0
                task_barrier
                local_store v3, v10
                fence_async
                task_barrier
                async_store v0[v11, 0], v3
                yield
            }
            async_store_wait 0
            yield
        }
    }
}
";

/// A fence in one arm of a choice is none behind it, whatever else the arm does.
#[test]
fn a_fence_of_one_arm_does_not_count_behind_the_choice() {
    let words = "`fence_async` of the writer does not come between";
    caught(FENCED, &[Scalar::BF16], ("fence_async\n", &only("cmp lt v11, v1", "fence_async")), words);
    // An arm with a loop, whose number of iterations is open, over reads.
    let reads = "fence_async\n for v20 in 0..v4 step 64 {\n v21 = local_load v3\n store v0[v20, 0], v21\n yield\n }";
    refused(FENCED, &[("fence_async\n", only("cmp lt v11, v1", reads), words)]);
    // Behind a fence on every way, reads of an arm change nothing.
    let good =
        FENCED.replacen("fence_async\n", &format!("fence_async\n{}", only("cmp lt v11, v1", "v21 = local_load v3\n v22 = neg v21")), 1);
    verdict(&good).unwrap_or_else(|e| panic!("{e}\n{good}"));
}

/// Products of all warps together, without tasks.
const TOGETHER: &str = "kernel @together(v0: view<bf16, [?, ?%64]>, v1: view<f32, [?, ?]>, v2: i32) warps=4 {
    v3 = local_alloc : shared<64x64xbf16>
    v4 = local_alloc : shared<64x64xbf16>
    v5 = load v0[0, 0] : tile<64x64xbf16>
    local_store v3, v5
    local_store v4, v5
    fence_async
    task_barrier
    v10 = splat 0.0 : tile<64x64xf32>
    v11 = async_dot v3, v4, v10
    v12 = async_dot v4, v4, v10
    v13 = async_dot_wait v12, 0
    store v1[64, 0], v13
    task_barrier
    local_store v3, v5
    v14 = async_dot_wait v11, 0
    store v1[0, 0], v14
}
";

/// Nor does a wait for products, where one arm has it; nor a fence, where nobody meets anybody.
#[test]
fn a_wait_of_one_arm_does_not_count_behind_the_choice() {
    let views = [Scalar::BF16, Scalar::F32];
    let wait = "v13 = async_dot_wait v12, 0\n    store v1[64, 0], v13\n";
    caught(TOGETHER, &views, (wait, &only("cmp lt v2, 5", wait).replace("lt", "gt")), "in flight where a choice that multiplies");
    let fence = only("cmp gt v2, 5", "fence_async");
    caught(TOGETHER, &views, ("fence_async\n", &fence), "`fence_async` of the writer does not come between");
    // A product that begins and ends in one arm is nobody else's affair.
    let own = "v20 = async_dot v3, v4, v10\n v21 = async_dot_wait v20, 0\n store v1[0, 0], v21\n";
    let good = TOGETHER.replacen("v11 = async_dot", &format!("{}v11 = async_dot", only("cmp gt v2, 5", own)), 1);
    verdict(&good).unwrap_or_else(|e| panic!("{e}\n{good}"));
}
