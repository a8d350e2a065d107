//! Programs that touch what is not theirs: a slot, or a barrier, that its buffer does not have, registers of a product in flight, a named
//! barrier of another size, memory that nobody has written. Each is refused in these words, and the nearest right program is proved.

use tilelift_ir::verify::verify;
use tilelift_isel::{LowerOptions, ProofScope, lower, prove};
use tilelift_nvptx::sm_90a;

fn verdict(text: &str) -> Result<(), String> {
    let file = tilelift_ir::text::parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    let program = lower(&kernel, &sm_90a(), &options).unwrap_or_else(|e| panic!("{e}\n{text}")).program;
    prove(&program, &sm_90a()).map(drop).map_err(|e| e.to_string())
}

/// Each edit of a program that is proved has to be refused, in all of these words.
fn refused(good: &str, edits: &[(&str, &str, &[&str])]) {
    verdict(good).unwrap_or_else(|e| panic!("{e}\n{good}"));
    for (from, to, words) in edits {
        assert!(good.contains(from), "{from} in {good}");
        let text = good.replacen(from, to, 1);
        match verdict(&text) {
            Ok(()) => panic!("proved\n{text}"),
            Err(e) => words.iter().for_each(|w| assert!(e.contains(w), "`{w}` is not in: {e}\n{text}")),
        }
    }
}

/// Two rings: one that lanes fill and one that copies do, each behind barriers of its own.
const RINGS: &str = "kernel @rings(v0: view<f32, [?, ?%64]>, v1: view<f32, [?, ?%64]>) {
    v2 = local_alloc : shared<2x1x64xf32>
    v3 = local_alloc : shared<2x1x64xf32>
    v4 = barrier_alloc 1 : barrier<2>
    v5 = barrier_alloc 1 : barrier<2>
    v6 = barrier_alloc 1 : barrier<2>
    v7 = dim v0, 0
    tasks {
        task a warps 1 {
            for v10 in 0..v7 step 1 {
                v11 = rem v10, 2
                v12 = div v10, 2
                v13 = add v12, 1
                v14 = barrier_index v6, v11
                barrier_wait v14, v13
                v15 = load v0[v10, 0] : tile<1x64xf32>
                v16 = local_index v2, v11
                local_store v16, v15
                v17 = barrier_index v4, v11
                barrier_arrive v17
                v18 = local_index v3, v11
                v19 = barrier_index v5, v11
                barrier_expect v19, 256
                async_load v0[v10, 0], v18, v19
                yield
            }
            yield
        }
        task b warps 1 {
            for v20 in 0..v7 step 1 {
                v21 = rem v20, 2
                v22 = div v20, 2
                v23 = barrier_index v4, v21
                barrier_wait v23, v22
                v24 = barrier_index v5, v21
                barrier_wait v24, v22
                v25 = local_index v2, v21
                v26 = local_load v25
                v27 = local_index v3, v21
                v28 = local_load v27
                v29 = barrier_index v6, v21
                barrier_arrive v29
                v30 = add v26, v28
                store v1[v20, 0], v30
                yield
            }
            yield
        }
    }
}
";

#[test]
fn slots_and_barriers_lie_in_their_buffers() {
    refused(
        RINGS,
        &[
            // The slot behind the last one is the other buffer's first.
            (
                "v16 = local_index v2, v11",
                "v90 = rem v10, 3\n v16 = local_index v2, v90",
                &["(slot 2) of `shared<2x1x64xf32>` of 2:5", "below 2"],
            ),
            ("v18 = local_index v3, v11", "v90 = rem v10, 3\n v18 = local_index v3, v90", &["(slot 2)", "of 3:5", "below 2"]),
            ("v25 = local_index v2, v21", "v90 = add v21, 2\n v25 = local_index v2, v90", &["(slot 2)", "of 2:5"]),
            // The one in front of the first one is the other buffer's last.
            ("v27 = local_index v3, v21", "v90 = sub v21, 1\n v27 = local_index v3, v90", &["(slot -1)", "of 3:5", "at least 0"]),
            // The barrier behind the last one is the next ones' first.
            (
                "v17 = barrier_index v4, v11",
                "v90 = add v11, 2\n v17 = barrier_index v4, v90",
                &["barrier 2 of `barrier<2>` of 4:5", "below 2"],
            ),
            ("v19 = barrier_index v5, v11", "v90 = add v11, 2\n v19 = barrier_index v5, v90", &["barrier 2 of `barrier<2>` of 5:5"]),
            ("v24 = barrier_index v5, v21", "v90 = sub v21, 1\n v24 = barrier_index v5, v90", &["barrier -1 of `barrier<2>` of 5:5"]),
        ],
    );
}

/// Two buffers in the same bytes, one after the other.
const SHARED: &str = "kernel @shared(v0: view<f32, [4, 64]>, v1: view<f32, [4, 64]>) {
    v2 = local_alloc : shared<4x1x64xf32>
    v3 = local_alloc alias=v2 : shared<2x1x64xf32>
    v4 = local_alloc : shared<2x1x64xf32>
    for v10 in 0..4 step 1 {
        v11 = local_index v2, v10
        v12 = load v0[v10, 0] : tile<1x64xf32>
        local_store v11, v12
        yield
    }
    task_barrier
    for v20 in 0..2 step 1 {
        v21 = local_index v3, v20
        v22 = local_load v21
        store v1[v20, 0], v22
        yield
    }
}
";

#[test]
fn buffers_may_share_bytes() {
    refused(SHARED, &[("v10 in 0..4", "v10 in 0..5", &["bytes 1024 to 1280 of `shared<4x1x64xf32>` of 2:5", "below its extents"])]);
}

/// Products of one slot after the other, of which one stays in flight.
const PRODUCTS: &str = "kernel @products(v0: view<f16, [64, 64]>, v1: view<f16, [64, 64]>, v2: view<f32, [64, 64]>, v30: i32) warps=4 {
    v3 = local_alloc : shared<64x64xf16>
    v4 = local_alloc : shared<64x64xf16>
    v5 = load v0[0, 0] : tile<64x64xf16>
    local_store v3, v5
    v6 = load v1[0, 0] : tile<64x64xf16>
    local_store v4, v6
    fence_async
    task_barrier
    v9 = splat 0.0 : tile<64x64xf32>
    v20 = for v21 in 0..v30 step 1 carry v22 = v9 {
        v10 = async_dot v3, v4, v22
        v11 = async_dot_wait v10, 1
        yield v11
    }
    v12 = async_dot_wait v20, 0
    store v2[0, 0], v12
}
";

#[test]
fn products_in_flight_keep_their_registers() {
    refused(
        PRODUCTS,
        &[
            // It is dropped, and made again in the next iteration.
            (
                "yield v11\n    }\n    v12 = async_dot_wait v20, 0\n    store v2[0, 0], v12",
                "yield v22\n    }\n    store v2[0, 0], v20",
                &["is written while a multiplication in flight uses its register"],
            ),
            ("v12 = async_dot_wait v20, 0\n    store v2[0, 0], v12", "store v2[0, 0], v9", &["in flight at the end"]),
            ("v12 = async_dot_wait v20, 0", "v12 = async_dot_wait v20, 1", &["is read before the multiplication"]),
        ],
    );
    // Nothing stays in flight, so that what an iteration leaves may be dropped.
    let dropped = PRODUCTS.replace("async_dot_wait v10, 1", "async_dot_wait v10, 0").replace("yield v11", "yield v22");
    let dropped = dropped.replace("v12 = async_dot_wait v20, 0\n    store v2[0, 0], v12", "store v2[0, 0], v20");
    verdict(&dropped).unwrap_or_else(|e| panic!("{e}\n{dropped}"));
}

/// A operand A that a product takes from registers.
const FROM_REGISTERS: &str = "kernel @from_registers(v0: view<f16, [?, 64]>, v1: view<f16, [64, 64]>, v2: view<f32, [64, 64]>) warps=4 {
    v4 = local_alloc : shared<64x64xf16>
    v6 = load v1[0, 0] : tile<64x64xf16>
    local_store v4, v6
    fence_async
    task_barrier
    v9 = splat 0.0 : tile<64x64xf32>
    v8 = dim v0, 0
    v20 = for v21 in 0..v8 step 64 carry v22 = v9 {
        v5 = load v0[v21, 0] : tile<64x64xf16>
        v10 = async_dot v5, v4, v22
        v11 = async_dot_wait v10, 0
        yield v11
    }
    v12 = async_dot_wait v20, 0
    store v2[0, 0], v12
}
";

#[test]
fn operands_a_stay_in_their_registers() {
    refused(FROM_REGISTERS, &[("async_dot_wait v10, 0", "async_dot_wait v10, 1", &["in flight"])]);
}

/// Two consumer sets meet in ping-pong.
const NAMED: &str = "kernel @named(v0: view<f32, [?, 64]>, v1: view<f32, [?, 64]>) {
    v2 = local_alloc : shared<2x1x64xf32>
    v6 = dim v0, 0
    tasks {
        task a warps 2 {
            for v10 in 0..v6 step 1 {
                v11 = load v0[v10, 0] : tile<1x64xf32>
                v12 = rem v10, 2
                v13 = local_index v2, v12
                named_barrier_sync 2, 4
                local_store v13, v11
                named_barrier_arrive 1, 4
                yield
            }
            named_barrier_sync 2, 4
            yield
        }
        task b warps 2 {
            named_barrier_arrive 2, 4
            for v20 in 0..v6 step 1 {
                v21 = rem v20, 2
                v22 = local_index v2, v21
                named_barrier_sync 1, 4
                v23 = local_load v22
                named_barrier_arrive 2, 4
                store v1[v20, 0], v23
                yield
            }
            yield
        }
    }
}
";

#[test]
fn named_barriers_have_one_number_of_warps() {
    let words: &[&str] = &["a named barrier is one of 3 warps here and of 4 elsewhere", "of b; see `named_barrier", "of a"];
    refused(NAMED, &[("named_barrier_arrive 2, 4\n            for", "named_barrier_arrive 2, 3\n            for", words)]);
    refused(NAMED, &[("named_barrier_sync 1, 4", "named_barrier_sync 1, 3", words)]);
}

/// Nobody but the lanes of the program is there.
const ALONE: &str = "kernel @alone(v0: view<f32, [?, 64]>, v1: view<f32, [64]>, v9: i32, v8: i32) {
    v2 = local_alloc : shared<2x64xf32>
    v4 = splat 1.0 : tile<64xf32>
    v5 = local_index v2, 0
    local_store v5, v4
    v6 = local_index v2, 1
    local_store v6, v4
    v10 = local_index v2, v9
    v11 = local_load v10
    store v1[0], v11
}
";

#[test]
fn what_nobody_has_written_is_not_read() {
    let words: &[&str] = &["is read before anybody has written it"];
    refused(
        ALONE,
        &[
            ("local_store v5, v4", "", words),
            ("local_store v6, v4", "", words),
            // In no iteration, perhaps.
            ("local_store v6, v4", "for v20 in 0..v8 step 1 {\n local_store v6, v4\n yield\n }", words),
            (
                "v11 = local_load v10",
                "for v20 in 0..3 step 1 {\n v21 = local_index v2, v20\n local_store v21, v4\n yield\n }\n v11 = local_load v10",
                &["(slot 2)"],
            ),
        ],
    );
    // A choice of which nothing is known may write, and a loop without a count.
    for what in [
        "v20 = cmp gt v9, 0\n if v20 {\n local_store v6, v4\n yield\n } else {\n yield\n }",
        "v20 = while carry v21 = v9 {\n v22 = cmp gt v21, 0\n yield v22\n } do carry v23 {\n local_store v6, v4\n v24 = sub v23, 1\n yield v24\n }",
    ] {
        let text = ALONE.replacen("local_store v6, v4", what, 1);
        verdict(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
    let product = PRODUCTS.replacen(
        "local_store v4, v6",
        "v7 = local_slice v4, [0, 0] : shared<32x64xf16>\n v8 = splat 1.0 : tile<32x64xf16>\n local_store v7, v8",
        1,
    );
    let e = verdict(&product).expect_err("half of an operand is not written");
    assert!(e.contains("is read before anybody has written it"), "{e}");
}
