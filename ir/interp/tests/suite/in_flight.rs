//! What async units may not do at once, and what they tell: products that stay in their registers, stores that nothing orders, bytes that say
//! how far their task has come.

use super::explicit::{integers, run};

/// Runs a program in which `a * b` may be begun any number of times; gives `a * b` once more, and the result.
fn product(body: &str) -> Result<(Vec<f64>, Vec<f64>), String> {
    let text = format!(
        "kernel @p(v0: view<f32, [16, 16]>, v1: view<f32, [16, 16]>, v2: view<f32, [16, 16]>) {{
            v3 = local_alloc : shared<16x16xf32>
            v4 = local_alloc : shared<16x16xf32>
            v5 = load v0[0, 0] : tile<16x16xf32>
            local_store v3, v5
            v6 = load v1[0, 0] : tile<16x16xf32>
            local_store v4, v6
            fence_async
            v7 = splat 0.0 : tile<16x16xf32>
            v8 = program_id x
            {body}
            store v2[0, 0], v90
        }}"
    );
    let (a, b) = (integers(1, 256), integers(2, 256));
    let want = (0..256).map(|at| (0..16).map(|k| a[at / 16 * 16 + k] * b[k * 16 + at % 16]).sum()).collect();
    let shape: &[i64] = &[16, 16];
    let out = run(&text, 1, &[(shape, a), (shape, b), (shape, vec![0.0; 256])])?;
    Ok((want, out[2].clone()))
}

#[track_caller]
fn times(body: &str, n: f64) {
    let (once, out) = product(body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out, once.iter().map(|x| n * x).collect::<Vec<f64>>());
}

#[track_caller]
fn refused(body: &str, says: &str) {
    let e = product(body).expect_err(says);
    assert!(e.contains(says), "{e}");
}

const MOVED: &str = "stays where its accumulator is";

#[test]
fn products_go_on_in_place() {
    // One behind the other, carried where the accumulator was, by loops in loops.
    times("v10 = async_dot v3, v4, v7\nv11 = async_dot v3, v4, v10\nv90 = async_dot_wait v11, 0", 2.0);
    let inner = "v20 = for v21 in 0..3 step 1 carry v22 = v7 {
        v23 = for v24 in 0..2 step 1 carry v25 = v22 {
            v26 = async_dot v3, v4, v25
            v27 = async_dot_wait v26, 1
            yield v27
        }
        WAIT
        yield v23
    }
    v90 = async_dot_wait v20, 0";
    times(&inner.replace("WAIT", "").replace("yield v23", "v28 = async_dot_wait v23, 0\nyield v28"), 6.0);
    times(
        "v10, v11 = while carry v12 = 0, v13 = v7 {
            v14 = cmp lt v12, 4
            yield v14
        } do carry v15, v16 {
            v17 = async_dot v3, v4, v16
            v18 = add v15, 1
            yield v18, v17
        }
        v90 = async_dot_wait v11, 0",
        4.0,
    );
    // A result that nobody needs, but that others wait for.
    times("v10 = async_dot v3, v4, v7\nv11 = async_dot v3, v4, v7\nv90 = async_dot_wait v11, 0", 1.0);
    times("v9 = add v5, v7\nv10 = async_dot v9, v4, v7\nv90 = async_dot_wait v10, 0", 1.0);
}

#[test]
fn products_in_flight_do_not_move() {
    let after = "v14 = async_dot_wait v11, 0\nv15 = async_dot_wait v12, 0\nv90 = add v14, v15";
    refused(&format!("v10 = async_dot v3, v4, v7\nv11 = async_dot v3, v4, v10\nv12 = async_dot v3, v4, v10\n{after}"), MOVED);
    // Once it is waited for it is a tile as any other.
    times(
        &format!(
            "v9 = async_dot v3, v4, v7\nv10 = async_dot_wait v9, 0\nv11 = async_dot v3, v4, v10\nv12 = async_dot v3, v4, v10\n{after}"
        ),
        4.0,
    );
    refused("v10 = async_dot v3, v4, v7\nv11 = async_dot v3, v4, v10\nv12 = async_dot_wait v11, 0\nv90 = async_dot_wait v10, 0", MOVED);
    let swap = "v10 = async_dot v3, v4, v7
        v11 = async_dot v3, v4, v7
        v16, v17 = for v20 in 0..2 step 1 carry v21 = v10, v22 = v11 {
            v23 = async_dot v3, v4, v21
            yield v22, v23
        }
        v12 = async_dot_wait v17, 0
        v90 = add v12, v16";
    refused(swap, MOVED);
    times(&swap.replace("yield v22, v23", "yield v23, v22"), 4.0);
    times(&swap.replace("yield v22, v23", "v24 = async_dot_wait v23, 0\nyield v22, v24"), 4.0);
    // Not the accumulator that was carried.
    let fresh = "v10 = async_dot v3, v4, v7
        v16 = for v20 in 0..2 step 1 carry v21 = v10 {
            v22 = async_dot_wait v21, 0
            v23 = async_dot v3, v4, v7
            yield v23
        }
        v90 = async_dot_wait v16, 0";
    refused(fresh, MOVED);
    let choice = "v10 = async_dot v3, v4, v7
        v11 = cmp eq v8, 0
        v12 = if v11 {
            v13 = async_dot v3, v4, v10
            yield v13
        } else {
            yield v10
        }
        v90 = async_dot_wait v12, 0";
    refused(choice, MOVED);
    // What a choice yields is waited for, and each way of it may go on from a product that the others leave alone.
    let waited = choice.replace("yield v13", "v14 = async_dot_wait v13, 0\nyield v14");
    refused(&waited, MOVED);
    times(&waited.replace("yield v10", "yield v7").replace("v90 = async_dot_wait v12, 0", "v90 = add v12, v7"), 2.0);
}

#[test]
fn products_are_waited_for() {
    let lost = "v10 = for v20 in 0..4 step 1 carry v21 = v7 {
            v22 = async_dot v3, v4, v21
            WAIT
            yield v7
        }
        v11 = async_dot v3, v4, v10
        v90 = async_dot_wait v11, 0";
    refused(&lost.replace("WAIT", ""), "12:13: `async_dot` in program [0, 0, 0]: the round of a loop that began this product ends");
    times(&lost.replace("WAIT", "v23 = async_dot_wait v22, 0"), 1.0);
    let left = "v10 = for v20 in 0..4 step 1 carry v21 = v7 {
            v22 = add v5, v7
            v23 = async_dot v22, v4, v21
            WAIT
        }
        v90 = async_dot_wait v10, 0";
    refused(&left.replace("WAIT", "yield v23"), "registers of its operand A");
    times(&left.replace("WAIT", "v24 = async_dot_wait v23, 0\nyield v24"), 4.0);
    // What is carried may be multiplied until the next round has begun its products, and no longer.
    let carried = "v10, v11 = for v20 in 0..4 step 1 carry v21 = v7, v19 = v5 {
            v23 = async_dot v19, v4, v21
            v24 = async_dot_wait v23, PENDING
            v22 = add v5, v7
            yield v24, v22
        }
        v90 = async_dot_wait v10, 0";
    times(&carried.replace("PENDING", "1"), 4.0);
    refused(&carried.replace("PENDING", "2"), "registers of its operand A");
    let end = "v10 = cmp eq v8, 0
        v90 = if v10 {
            v11 = async_dot v3, v4, v7
            yield v7
        } else {
            yield v7
        }
        v20 = cmp eq v8, 1
        if v20 {
            v21 = async_dot v3, v4, v7
            v22 = async_dot_wait v21, 0
            yield
        } else {
            WAIT
            yield
        }";
    refused(&end.replace("WAIT", ""), "its task ends while this product is in flight");
    times(&end.replace("WAIT", "v23 = async_dot v3, v4, v7\nv24 = async_dot_wait v23, 0"), 0.0);
}

/// A producer that waits again for a phase that it has waited for, and a consumer.
const AGAIN: &str = "
kernel @again(v0: view<f32, [?, 64]>, v1: view<f32, [?, 64]>) {
    v3 = local_alloc : shared<1x64xf32>
    v5 = barrier_alloc 1 : barrier<1>
    v6 = barrier_alloc 1 : barrier<1>
    v9 = dim v0, 0
    tasks {
        task producer warps 1 {
            for v10 in 0..v9 step 1 {
                v14 = add v10, 1
                barrier_wait v6, v14
                barrier_expect v5, 256
                barrier_wait v6, v14
                async_load v0[v10, 0], v3, v5
                yield
            }
            yield
        }
        task consumer warps 1 {
            for v22 in 0..v9 step 1 {
                barrier_wait v5, v22
                v31 = local_load v3
                barrier_arrive v6
                store v1[v22, 0], v31
                yield
            }
            yield
        }
    }
}";

#[test]
fn bytes_tell_how_far_their_task_has_come() {
    let x = integers(3, 320);
    let views: [(&[i64], Vec<f64>); 2] = [(&[5, 64], x.clone()), (&[5, 64], vec![0.0; 320])];
    assert_eq!(run(AGAIN, 1, &views).unwrap_or_else(|e| panic!("{e}"))[1], x);
    // Behind the copy the wait may come at any time.
    let late = AGAIN
        .replace("                barrier_wait v6, v14\n                async_load", "                async_load")
        .replace("v3, v5\n", "v3, v5\n                barrier_wait v6, v14\n");
    assert!(run(&late, 1, &views).expect_err("late").contains("phases of one parity look alike"));
    // They do not tell what has been written.
    let text = "kernel @t(v0: view<f32, [64]>, v1: view<f32, [64]>) {
        v3 = local_alloc : shared<64xf32>
        v4 = local_alloc : shared<64xf32>
        v5 = barrier_alloc 1 : barrier<1>
        tasks {
            task a warps 1 {
                v6 = splat 1.0 : tile<64xf32>
                barrier_expect v5, 256
                local_store v3, v6
                async_load v0[0], v4, v5
                yield
            }
            task b warps 1 {
                barrier_wait v5, 0
                v7 = local_load v3
                store v1[0], v7
                yield
            }
        }
    }";
    let views: [(&[i64], Vec<f64>); 2] = [(&[64], integers(1, 64)), (&[64], vec![0.0; 64])];
    assert!(run(text, 1, &views).expect_err("race").contains("nothing orders the two"));
}

#[test]
fn blocks_of_a_cluster_stay_until_all_have_ended() {
    let text = "kernel @c(v0: view<f32, [?]>) cluster 2 {
        v1 = local_alloc : shared<8xf32>
        v2 = cluster_rank
        v3 = cast v2 : f32
        v4 = splat v3 : tile<8xf32>
        local_store v1, v4
        cluster_barrier
        v5 = cmp eq v2, 0
        if v5 {
            v6 = remote_load v1, 1
            store v0[0], v6
            yield
        } else {
            yield
        }
    }";
    assert_eq!(run(text, 2, &[(&[8], vec![7.0; 8])]).unwrap_or_else(|e| panic!("{e}"))[0], [1.0; 8]);
}

#[test]
fn nothing_orders_what_units_write() {
    let text = |first: &str, second: &str| {
        format!(
            "kernel @u(v0: view<f32, [12, 12]>) {{
                v1 = local_alloc : shared<4x4xf32>
                v2 = splat 1.0 : tile<4x4xf32>
                local_store v1, v2
                fence_async
                {first}, v1
                async_store_wait 0
                {second}, v1
                async_store_wait 0
            }}"
        )
    };
    let go = |first: &str, second: &str| run(&text(first, second), 1, &[(&[12, 12], vec![0.0; 144])]);
    for (first, second) in [
        ("async_store v0[0, 0]", "async_store v0[0, 0]"),
        ("async_store v0[0, 0]", "async_store v0[3, 3]"),
        ("async_store v0[4, 4]", "async_store v0[1, 2]"),
        ("async_reduce add v0[0, 0]", "async_store v0[3, 0]"),
        ("async_store v0[0, 0]", "async_reduce add v0[0, 0]"),
    ] {
        let e = go(first, second).expect_err(second);
        assert!(e.contains("(6:17) writes some of these elements, too") && e.contains("8:17"), "{e}");
    }
    for (first, second) in [
        ("async_store v0[0, 0]", "async_store v0[0, 4]"),
        ("async_store v0[4, 4]", "async_store v0[0, 4]"),
        ("async_store v0[4, 8]", "async_store v0[5, 12]"),
        ("async_reduce add v0[0, 0]", "async_reduce add v0[2, 2]"),
    ] {
        go(first, second).unwrap_or_else(|e| panic!("{e}"));
    }
}
