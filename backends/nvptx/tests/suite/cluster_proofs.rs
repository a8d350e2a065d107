//! Clusters in the proof: blocks that exchange sums in rounds, with and without tasks, and what is refused of them.

use crate::common::left_out::{Part, unit, without};
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{Inst, Program, Unit};
use tilelift_isel::{LowerOptions, ProofScope, lower, prove};
use tilelift_kernels::explicit;
use tilelift_nvptx::sm_90a;

/// What of the exchange can be otherwise.
#[derive(Clone)]
struct Exchange {
    blocks: u32,
    /// Buffers that rounds alternate between.
    buffers: u32,
    /// Bytes that a round expects.
    bytes: u32,
    /// What is added to the number of the round's parity.
    parity: u32,
    /// The sums are read before, or behind, the wait for them.
    early: bool,
    /// The sums are waited for.
    waits: bool,
    /// Slots are given back.
    gives_back: bool,
    /// Every set takes every row.
    all_rows: bool,
}

const GOOD: Exchange =
    Exchange { blocks: 2, buffers: 2, bytes: 4, parity: 0, early: false, waits: true, gives_back: true, all_rows: false };

impl Exchange {
    /// Rows of a matrix, each by a cluster: a producer brings each block's part through a ring, two consumer sets take rows in ping-pong, exchange
    /// their sums with the other blocks, and divide by the total.
    fn text(&self) -> String {
        let Exchange { blocks, buffers, bytes, .. } = self;
        let peers = (0..*blocks).map(|p| {
            format!("v7{p} = cmp ne v7, {p}\n if v7{p} {{\n remote_store_async v49, {p}, v43, v48\n yield\n }} else {{\n yield\n }}\n")
        });
        let read = |p: u32| format!("v8{p} = local_index v46, {p}\n v9{p} = local_load v8{p}\n");
        let reads: String = (0..*blocks).map(read).collect();
        let sums: String = (1..*blocks)
            .map(|p| format!("v11{p} = add {}, v9{p}\n", if p == 1 { "v90".into() } else { format!("v11{}", p - 1) }))
            .collect();
        let wait = format!("v147 = add v45, {}\n{}", self.parity, if self.waits { "barrier_wait v48, v147\n" } else { "" });
        let exchanged = if self.early { format!("{reads}{wait}") } else { format!("{wait}{reads}") };
        format!(
            "kernel @rows(v0: view<f32, [?, ?%8]>, v1: view<f32, [?, ?%8]>) cluster {blocks} {{
    v2 = local_alloc : shared<4x1x256xf32>
    v3 = local_alloc : shared<2x{buffers}x{blocks}x1xf32>
    v4 = barrier_alloc 1 : barrier<4>
    v5 = barrier_alloc 1 : barrier<4>
    v6 = barrier_alloc 1 : barrier<{words}>
    v7 = cluster_rank
    v8 = program_id x
    v9 = div v8, {blocks}
    v10 = num_programs x
    v11 = div v10, {blocks}
    v12 = dim v0, 0
    v13 = mul v7, 256
    v14 = sub v12, v9
    v15 = add v14, v11
    v16 = sub v15, 1
    v17 = div v16, v11
    tasks {{
        task producer warps 1 {{
            for v20 in 0..v17 step 1 {{
                v21 = rem v20, 4
                v22 = div v20, 4
                v23 = add v22, 1
                v24 = barrier_index v5, v21
                barrier_wait v24, v23
                v25 = barrier_index v4, v21
                barrier_expect v25, 1024
                v26 = mul v20, v11
                v27 = add v26, v9
                v28 = local_index v2, v21
                async_load v0[v27, v13], v28, v25
                yield
            }}
            yield
        }}
        task consumer warps 4 replicas 2 as v30 {{
            v31 = local_index v3, v30
            v32 = mul v30, {buffers}
            v34 = for v35 in {from}..v17 step {step} carry v36 = 0 {{
                v37 = rem v35, 4
                v38 = div v35, 4
                v39 = barrier_index v4, v37
                barrier_wait v39, v38
                v40 = local_index v2, v37
                v41 = local_load v40
                {give}
                v43 = reduce add v41, axis 1
                v44 = rem v36, {buffers}
                v45 = div v36, {buffers}
                v46 = local_index v31, v44
                v47 = add v32, v44
                v48 = barrier_index v6, v47
                barrier_expect v48, {bytes}
                v49 = local_index v46, v7
                {peers}
                local_store v49, v43
                {exchanged}
                {sums}
                v56 = reshape v11{last} : tile<1x1xf32>
                v57 = broadcast v56 : tile<1x256xf32>
                v58 = div v41, v57
                v59 = mul v35, v11
                v60 = add v59, v9
                store v1[v60, v13], v58
                v61 = add v36, 1
                yield v61
            }}
            yield
        }}
    }}
}}
",
            words = 2 * buffers,
            from = if self.all_rows { "0" } else { "v30" },
            step = if self.all_rows { 1 } else { 2 },
            give = if self.gives_back { "v42 = barrier_index v5, v37\n barrier_arrive v42" } else { "" },
            peers = peers.collect::<String>(),
            last = blocks - 1,
        )
    }

    fn program(&self) -> Program {
        program(&self.text())
    }
}

/// The lane program of a kernel, proved or not.
fn program(text: &str) -> Program {
    let file = tilelift_ir::text::parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    lower(&kernel, &sm_90a(), &options).unwrap_or_else(|e| panic!("{e}\n{text}")).program
}

/// One block copies for both of its cluster; consumers give slots back to their own producer, which expects the bytes, and to that of the
/// block that copies.
const SPREAD: &str = "kernel @spread(v0: view<f32, [?, ?%8]>, v1: view<f32, [?, ?%8]>) cluster 2 {
    v2 = local_alloc : shared<2x1x32xf32>
    v3 = barrier_alloc 1 : barrier<2>
    v4 = barrier_alloc 1 : barrier<2>
    v8 = barrier_alloc 2 : barrier<2>
    v5 = cluster_rank
    v6 = dim v0, 0
    v7 = cmp eq v5, 0
    tasks {
        task producer warps 1 {
            for v10 in 0..v6 step 1 {
                v11 = rem v10, 2
                v12 = div v10, 2
                v13 = add v12, 1
                v14 = barrier_index v4, v11
                v15 = barrier_index v3, v11
                barrier_wait v14, v13
                barrier_expect v15, 128
                if v7 {
                    v16 = local_index v2, v11
                    v17 = barrier_index v8, v11
                    barrier_wait v17, v13
                    async_load v0[v10, 0], v16, v15, multicast=3
                    yield
                } else {
                    yield
                }
                yield
            }
            yield
        }
        task consumer warps 1 {
            for v20 in 0..v6 step 1 {
                v21 = rem v20, 2
                v22 = div v20, 2
                v23 = barrier_index v3, v21
                barrier_wait v23, v22
                v24 = local_index v2, v21
                v25 = local_load v24
                v26 = barrier_index v4, v21
                barrier_arrive v26
                v29 = barrier_index v8, v21
                remote_arrive v29, 0
                v27 = mul v20, 2
                v28 = add v27, v5
                store v1[v28, 0], v25
                yield
            }
            yield
        }
    }
}
";

/// Two blocks that look at each other's rows between barriers of the cluster, as often as there are rows.
const LOCKSTEP: &str = "kernel @lockstep(v0: view<f32, [?, 32]>, v1: view<f32, [?, 32]>) cluster 2 warps=1 {
    v2 = local_alloc : shared<1x32xf32>
    v3 = cluster_rank
    v4 = sub 1, v3
    v5 = dim v0, 0
    for v6 in 0..v5 step 1 {
        v7 = load v0[v6, 0] : tile<1x32xf32>
        local_store v2, v7
        cluster_barrier
        v8 = remote_load v2, v4
        cluster_barrier
        v9 = mul v6, 2
        v10 = add v9, v3
        store v1[v10, 0], v8
        yield
    }
}
";

/// A store to the neighbour, and an arrival behind it.
const SIGNAL: &str = "kernel @signal(v0: view<f32, [?]>, v1: view<f32, [?]>) cluster 2 warps=1 {
    v2 = local_alloc : shared<32xf32>
    v3 = barrier_alloc 1 : barrier<1>
    v4 = cluster_rank
    v5 = sub 1, v4
    v6 = program_id x
    v7 = mul v6, 32
    v8 = load v0[v7] : tile<32xf32>
    remote_store v2, v5, v8
    remote_arrive v3, v5
    barrier_wait v3, 0
    v9 = local_load v2
    store v1[v7], v9
}
";

#[test]
fn copies_to_several_blocks_barriers_of_the_cluster_and_remote_arrivals_are_followed() {
    every_part_is_missed("spread", &program(SPREAD));
    every_part_is_missed("lockstep", &program(LOCKSTEP));
    every_part_is_missed("signal", &program(SIGNAL));
    let faults = [
        (SPREAD, "barrier_alloc 2", "barrier_alloc 1", ""),
        (SPREAD, "multicast=3", "multicast=1", "wait for ever"),
        (SPREAD, "remote_arrive v29, 0", "remote_arrive v29, v5", "wait for ever"),
        (SPREAD, "v7 = cmp eq v5, 0", "v7 = cmp ge v5, 0", ""),
        (LOCKSTEP, "cluster_barrier\n        v9", "v9", "is written while it may still be read"),
        (LOCKSTEP, "cluster_barrier\n        v8", "v8", ""),
        (LOCKSTEP, "v5 = dim v0, 0", "v5 = program_id x", ""),
        (SIGNAL, "remote_arrive v3, v5", "remote_arrive v3, v4", "is read before"),
        (SIGNAL, "barrier_wait v3, 0\n", "barrier_wait v3, 1\n", "is read before"),
    ];
    for (text, from, to, words) in faults {
        assert!(text.contains(from), "{from}");
        let e = match prove(&program(&text.replace(from, to)), &sm_90a()) {
            Ok(_) => panic!("{to} for {from}: proved"),
            Err(e) => e.to_string(),
        };
        assert!(e.contains(words), "{to} for {from}: {e}");
    }
}

#[test]
fn sums_in_two_buffers_are_proved_in_clusters_of_all_sizes() {
    for blocks in [2, 4, 8] {
        for buffers in [2, 3] {
            let x = Exchange { blocks, buffers, bytes: 4 * (blocks - 1), ..GOOD };
            let proof = prove(&x.program(), &sm_90a()).unwrap_or_else(|e| panic!("{blocks} blocks, {buffers} buffers: {e}"));
            assert!(proof.states > 0 && proof.states < 200, "{blocks} blocks: {}", proof.states);
        }
    }
}

/// Which of eight slots were given back in the loop, and which behind it, is no more than who knows what: each by itself they are 287 states.
#[test]
fn states_that_differ_by_what_is_known_alone_are_one() {
    let case = explicit::cases().into_iter().find(|c| c.name.starts_with("cluster_gemm_columns_tt")).expect("eight slots");
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    let kernel = case.workload.build().unwrap();
    let program = lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{e}")).program;
    let proof = prove(&program, &sm_90a()).unwrap_or_else(|e| panic!("{e}"));
    assert!((100..=164).contains(&proof.states), "{}", proof.states);
}

#[test]
fn faults_of_the_exchange_are_refused_and_named() {
    let cases: [(&str, Exchange, &str); 9] = [
        ("one buffer", Exchange { buffers: 1, ..GOOD }, "may"),
        ("bytes too few", Exchange { bytes: 2, ..GOOD }, ""),
        ("bytes too many", Exchange { bytes: 8, ..GOOD }, "wait for ever"),
        ("the other parity", Exchange { parity: 1, ..GOOD }, ""),
        ("sums are read before they are waited for", Exchange { early: true, ..GOOD }, "is read before"),
        ("sums are not waited for", Exchange { waits: false, ..GOOD }, "is read before"),
        ("slots are kept", Exchange { gives_back: false, ..GOOD }, "wait for ever"),
        ("all consumer sets take all rows", Exchange { all_rows: true, ..GOOD }, ""),
        ("one block's bytes of three", Exchange { blocks: 4, bytes: 4, ..GOOD }, ""),
    ];
    for (name, fault, words) in cases {
        let e = match prove(&fault.program(), &sm_90a()) {
            Ok(_) => panic!("{name}: proved"),
            Err(e) => e.to_string(),
        };
        assert!(e.contains(words), "{name}: {e}");
    }
}

#[test]
fn file_tests_that_run_are_proved() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tile/explicit");
    let mut proved = 0;
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("it is text");
        if !text.contains("; test run") || !text.contains("sm_90a") || text.contains("; unproven") {
            continue;
        }
        let kernels = tilelift_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e:?}", path.display())).kernels;
        for k in &kernels {
            let kernel = verify(k).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
            lower(&kernel, &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{}, {}: {e}", path.display(), k.name));
            proved += 1;
        }
    }
    assert!(proved > 10, "{proved} kernels");
}

/// A slot that goes from one set to the other, which does not know whether the phase before the one it waits for is over.
#[test]
fn a_slot_that_changes_hands_unseen_is_refused() {
    let text = include_str!("../../../../tests/tile/explicit/slots_change_hands.tile");
    let e = prove(&program(text), &sm_90a()).expect_err("a wait that takes one phase for another").to_string();
    assert!(e.contains("can't tell them apart"), "{e}");
}

/// What no program in a cluster can do without.
const PARTS: [Part; 9] = [
    ("wait", |i| unit(i, |u| matches!(u, Unit::Wait { .. }))),
    ("arrival", |i| unit(i, |u| matches!(u, Unit::Arrive { .. } | Unit::RemoteArrive { .. }))),
    ("expected bytes", |i| unit(i, |u| matches!(u, Unit::ArriveExpect { .. }))),
    ("copy", |i| unit(i, |u| matches!(u, Unit::BulkLoad { .. }))),
    ("store to a neighbour", |i| unit(i, |u| matches!(u, Unit::RemoteStoreAsync { .. } | Unit::RemoteStore { .. }))),
    ("arrival at the cluster's barrier", |i| unit(i, |u| matches!(u, Unit::ClusterArrive { .. }))),
    ("wait at the cluster's barrier", |i| unit(i, |u| matches!(u, Unit::ClusterWait))),
    ("publication of mbarriers", |i| unit(i, |u| matches!(u, Unit::PublishBarriers))),
    ("mbarrier", |i| unit(i, |u| matches!(u, Unit::InitBarrier { .. }))),
];

fn every_part_is_missed(name: &str, good: &Program) {
    prove(good, &sm_90a()).unwrap_or_else(|e| panic!("{name}: {e}"));
    for (what, is) in PARTS {
        for nth in 0.. {
            let (mut bad, mut left) = (good.clone(), nth);
            if !without(&mut bad.body, &is, &mut left) {
                break;
            }
            assert!(prove(&bad, &sm_90a()).is_err(), "{name}: proved without {what} {nth}\n{bad}");
        }
    }
    // Without barriers of the cluster blocks reach into others that may not run.
    let mut bad = good.clone();
    let halves = |i: &Inst| unit(i, |u| matches!(u, Unit::ClusterArrive { .. } | Unit::ClusterWait));
    let mut none = true;
    while without(&mut bad.body, &halves, &mut 0) {
        none = false;
    }
    if !none {
        let e = prove(&bad, &sm_90a()).expect_err("no barrier in front").to_string();
        let why = ["may not be made yet", "may not run yet", "do not wait until mbarriers"];
        assert!(why.iter().any(|w| e.contains(w)), "{name}: {e}");
    }
}

#[test]
fn what_is_left_out_of_an_exchange_is_missed() {
    every_part_is_missed("rows of a cluster of 2", &GOOD.program());
    every_part_is_missed("rows of a cluster of 4", &Exchange { blocks: 4, bytes: 12, ..GOOD }.program());
}

#[test]
fn kernels_in_clusters_are_proved_and_what_is_left_out_is_missed() {
    let names = [
        "cluster_norm_2_f32_3x1000",
        "cluster_norm_4_f16_2x4100",
        "stream_norm_2_bf16_3x64",
        "stream_norm_2_f32_6x480",
        "stream_norm_4_f16_9x4224",
        "stream_norm_8_bf16_5x16384",
    ];
    for name in names {
        let Some(case) = explicit::cases().into_iter().find(|c| c.name == name) else { panic!("{name} is gone") };
        let kernel = case.build().unwrap();
        let program =
            lower(&verify(&kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}")).program;
        every_part_is_missed(name, &program);
    }
}

/// A task waits for a phase that another ends only when it has been told so.
const TWICE: &str = "kernel @twice(v0: view<f32, [32]>, v1: view<f32, [32]>) {
    v4 = local_alloc : shared<32xf32>
    v6 = barrier_alloc 1 : barrier<2>
    v7 = barrier_index v6, 0
    v8 = barrier_index v6, 1
    tasks {
        task a warps 1 {
            v9 = load v0[0] : tile<32xf32>
            local_store v4, v9
            barrier_arrive v7
            barrier_wait v8, 0
            local_store v4, v9
            barrier_arrive v7
            yield
        }
        task b warps 4 {
            barrier_wait v7, 0
            v11 = local_load v4
            barrier_wait v7, 0
            barrier_arrive v8
            barrier_wait v7, 1
            v12 = local_load v4
            v13 = add v11, v12
            store v1[0], v13
            yield
        }
    }
}
";

/// One task writes what a unit copies for the other.
const SHOWN: &str = "kernel @shown(v0: view<f32, [?, ?%4]>, v1: view<f32, [?, ?%4]>) {
    v2 = local_alloc : shared<16x32xf32>
    v3 = barrier_alloc 1 : barrier<2>
    v4 = barrier_index v3, 0
    v5 = barrier_index v3, 1
    v6 = dim v0, 0
    tasks {
        task write warps 4 {
            for v10 in 0..v6 step 1 {
                v11 = add v10, 1
                barrier_wait v5, v11
                v12 = load v0[v10, 0] : tile<16x32xf32>
                local_store v2, v12
                fence_async
                barrier_arrive v4
                yield
            }
            yield
        }
        task copy warps 1 {
            for v20 in 0..v6 step 1 {
                barrier_wait v4, v20
                async_store v1[v20, 0], v2
                async_store_wait 0
                barrier_arrive v5
                yield
            }
            yield
        }
    }
}
";

/// What a task has written itself, a unit copies.
const OWN: &str = "kernel @own(v0: view<f32, [?, ?%4]>, v1: view<f32, [?, ?%4]>) warps=4 {
    v2 = local_alloc : shared<16x32xf32>
    v3 = load v0[0, 0] : tile<16x32xf32>
    local_store v2, v3
    fence_async
    task_barrier
    async_store v1[0, 0], v2
    async_store_wait 0
}
";

/// Arrivals at a numbered barrier, and at the cluster's, tell what all lanes have done so far, and no more.
const NUMBERED: &str = "kernel @numbered(v0: view<f32, [32]>, v1: view<f32, [32]>) {
    v2 = local_alloc : shared<32xf32>
    tasks {
        task a warps 1 {
            v3 = load v0[0] : tile<32xf32>
            local_store v2, v3
            named_barrier_arrive 1, 2
            yield
        }
        task b warps 1 {
            named_barrier_sync 1, 2
            v5 = local_load v2
            store v1[0], v5
            yield
        }
    }
}
";

const HALVES: &str = "kernel @halves(v0: view<f32, [32]>, v1: view<f32, [64]>) cluster 2 warps=1 {
    v2 = local_alloc : shared<32xf32>
    v3 = cluster_rank
    v4 = sub 1, v3
    v5 = load v0[0] : tile<32xf32>
    v9 = mul v3, 32
    local_store v2, v5
    cluster_arrive
    cluster_wait
    v6 = remote_load v2, v4
    cluster_arrive
    cluster_wait
    local_store v2, v6
    v8 = local_load v2
    store v1[v9], v8
}
";

#[test]
fn what_comes_behind_a_sign_is_not_told_by_it() {
    let late = "may end before the one in front of it has been seen";
    let unshown = "`fence_async` of the writer does not come between";
    let fence_behind = ("fence_async\n                barrier_arrive v4", "barrier_arrive v4\n                fence_async");
    let reader_fences = ("barrier_wait v4, v20\n", "barrier_wait v4, v20\n fence_async\n");
    let wait_behind = ("barrier_wait v7, 0\n            barrier_arrive v8", "barrier_arrive v8\n            barrier_wait v7, 0");
    type Edits<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Edits<'_>, &str); 15] = [
        (TWICE, &[], ""),
        (TWICE, &[wait_behind], late),
        (SHOWN, &[], ""),
        (SHOWN, &[("fence_async\n", "")], unshown),
        (SHOWN, &[fence_behind], unshown),
        (SHOWN, &[("fence_async\n", ""), reader_fences], unshown),
        (SHOWN, &[("fence_async\n", "fence_async\n local_store v2, v12\n")], unshown),
        (OWN, &[], ""),
        (OWN, &[("fence_async\n", "")], unshown),
        (OWN, &[("fence_async\n    task_barrier\n", "task_barrier\n fence_async\n")], ""),
        (NUMBERED, &[], ""),
        (NUMBERED, &[("named_barrier_arrive 1, 2\n", "named_barrier_arrive 1, 2\n local_store v2, v3\n")], "is read before"),
        (HALVES, &[], ""),
        (
            HALVES,
            &[("cluster_arrive\n    cluster_wait\n    v6", "cluster_arrive\n local_store v2, v5\n cluster_wait\n v6")],
            "is read before",
        ),
        (
            HALVES,
            &[(
                "cluster_arrive\n    cluster_wait\n    local_store",
                "cluster_arrive\n v7 = remote_load v2, v4\n cluster_wait\n local_store",
            )],
            "may still be read",
        ),
    ];
    for (text, edits, words) in cases {
        let edited = edits.iter().fold(text.to_string(), |t, (from, to)| {
            assert!(t.contains(from), "{from} in {t}");
            t.replacen(from, to, 1)
        });
        match (words, prove(&program(&edited), &sm_90a())) {
            ("", proved) => drop(proved.unwrap_or_else(|e| panic!("{e}\n{edited}"))),
            (_, Ok(_)) => panic!("proved\n{edited}"),
            (_, Err(e)) => assert!(e.to_string().contains(words), "{e}\n{edited}"),
        }
    }
}
