//! Copies by the lanes of a task: a pipelined product, masks, and programs that are wrong by a hair.

use super::explicit::{integers, run};

/// Copies run two steps ahead of the products, through three slots.
const PIPELINE: &str = "
kernel @pipeline(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<f32, [?, ?]>) {
    v3 = local_alloc : shared<3x16x8xf32>
    v4 = local_alloc : shared<3x8x24xf32>
    v7 = dim v0, 1
    for v10 in 0..2 step 1 {
        v11 = mul v10, 8
        v12 = local_index v3, v10
        copy_async v0[0, v11], v12
        v13 = local_index v4, v10
        copy_async v1[v11, 0], v13
        copy_async_commit
        yield
    }
    v20 = splat 0.0 : tile<16x24xf32>
    v21 = for v22 in 0..v7 step 8 carry v23 = v20 {
        v24 = div v22, 8
        v25 = rem v24, 3
        copy_async_wait 1
        task_barrier
        v26 = local_index v3, v25
        v27 = local_load v26
        v28 = local_index v4, v25
        v29 = local_load v28
        v30 = add v24, 2
        v31 = rem v30, 3
        v32 = add v22, 16
        v33 = local_index v3, v31
        copy_async v0[0, v32], v33
        v34 = local_index v4, v31
        copy_async v1[v32, 0], v34
        copy_async_commit
        v35 = dot v27, v29, v23
        yield v35
    }
    copy_async_wait 0
    store v2[0, 0], v21
}";

fn product(text: &str, k: i64) -> Result<Vec<f64>, String> {
    let (a, b) = (integers(1, 16 * k), integers(2, k * 24));
    run(text, 1, &[(&[16, k], a), (&[k, 24], b), (&[16, 24], vec![7.0; 384])]).map(|mut out| out.remove(2))
}

pub(super) fn a_pipelined_product() {
    for k in [0i64, 5, 8, 40, 100] {
        let (a, b) = (integers(1, 16 * k), integers(2, k * 24));
        let want: Vec<f64> =
            (0..16 * 24).map(|at| (0..k).map(|p| a[(at / 24 * k + p) as usize] * b[(p * 24 + at % 24) as usize]).sum()).collect();
        assert_eq!(product(PIPELINE, k).unwrap_or_else(|e| panic!("{e}")), want, "k = {k}");
    }
}

#[test]
fn pipelines_of_all_lengths() {
    a_pipelined_product();
}

#[test]
fn faults_of_a_pipeline() {
    let wrong = |from: &str, to: &str, says: &str| {
        assert!(PIPELINE.contains(from), "{from}");
        match product(&PIPELINE.replacen(from, to, 1), 40) {
            Ok(_) => panic!("`{to}` for `{from}` goes unnoticed"),
            Err(e) => assert!(e.contains(says), "`{to}` for `{from}` gives\n{e}\nnot\n{says}"),
        }
    };
    // Nobody waits, or for too few groups, or the lanes do not meet behind the wait.
    wrong("copy_async_wait 1", "", "`copy_async` (9:9) in program [0, 0, 0] is still bringing");
    wrong("copy_async_wait 1", "copy_async_wait 2", "still bringing");
    wrong("copy_async_wait 1\n        task_barrier", "task_barrier\n        copy_async_wait 1", "still bringing");
    // A group that is not closed is waited for by nobody.
    wrong("copy_async v1[v11, 0], v13\n        copy_async_commit", "copy_async v1[v11, 0], v13", "still bringing");
    // The copy goes to the slot that is being read, or to one that is on its way.
    wrong("v30 = add v24, 2", "v30 = add v24, 3", "may still access by `local_load` (22:9)");
    wrong("v30 = add v24, 2", "v30 = add v24, 1", "still bringing");
    // The lanes do not meet between the reads of a slot and the next copy to it.
    wrong("task_barrier", "", "still bringing");
    // Copies are in flight when the task ends.
    wrong("copy_async_wait 0\n", "", "still on its way");
}

/// What is masked or outside of the view is the other value.
const MASKED: &str = "
kernel @masked(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<f32, [?, ?]>) {
    v3 = local_alloc : shared<8x16xf32>
    v4 = local_alloc : shared<8x16xf32>
    v5 = iota 1 : tile<8x16xi32>
    v9 = splat 11 : tile<8x16xi32>
    v6 = cmp lt v5, v9
    copy_async v0[2, 0], v3, mask=v6
    copy_async v0[2, 0], v4, mask=v6, other=5.0
    copy_async_commit
    copy_async_wait 0
    task_barrier
    v7 = local_load v3
    v8 = local_load v4
    store v1[0, 0], v7
    store v2[0, 0], v8
}";

#[test]
fn masks_and_edges() {
    let a = integers(3, 7 * 13);
    let out =
        run(MASKED, 1, &[(&[7, 13], a.clone()), (&[8, 16], vec![7.0; 128]), (&[8, 16], vec![7.0; 128])]).unwrap_or_else(|e| panic!("{e}"));
    for (n, other) in [(1, 0.0), (2, 5.0)] {
        let want: Vec<f64> = (0..128).map(|at| if at / 16 < 5 && at % 16 < 11 { a[(at / 16 + 2) * 13 + at % 16] } else { other }).collect();
        assert_eq!(out[n], want, "{other}");
    }
}

/// A task gathers rows in the order of a list, and waits for nothing: another one reads each when it is there.
const ARRIVING: &str = "
kernel @arriving(v0: view<f32, [?, ?]>, v1: view<f32, [?]>, v2: view<f32, [?, ?]>) {
    v3 = local_alloc : shared<2x4x8xf32>
    v4 = barrier_alloc 1 : barrier<2>
    v5 = barrier_alloc 1 : barrier<2>
    v6 = dim v2, 0
    tasks {
        task producer warps 1 {
            for v10 in 0..v6 step 4 {
                v11 = div v10, 4
                v12 = rem v11, 2
                v13 = div v11, 2
                v14 = add v13, 1
                v15 = barrier_index v5, v12
                barrier_wait v15, v14
                v16 = load v1[v10] : tile<4xf32>
                v17 = cast v16 : tile<4xi32>
                v18 = reshape v17 : tile<4x1xi32>
                v19 = broadcast v18 : tile<4x8xi32>
                v20 = iota 1 : tile<4x8xi32>
                v21 = splat 6 : tile<4x8xi32>
                v22 = cmp lt v20, v21
                v23 = local_index v3, v12
                gather_async v0[v19, v20], v23, mask=v22
                v24 = barrier_index v4, v12
                copy_async_arrive v24
                yield
            }
            yield
        }
        task consumer warps 1 {
            for v30 in 0..v6 step 4 {
                v31 = div v30, 4
                v32 = rem v31, 2
                v33 = div v31, 2
                v34 = barrier_index v4, v32
                barrier_wait v34, v33
                v35 = local_index v3, v32
                v36 = local_load v35
                v37 = barrier_index v5, v32
                barrier_arrive v37
                store v2[v30, 0], v36
                yield
            }
            yield
        }
    }
}";

fn arriving(text: &str, rows: i64) -> Result<Vec<f64>, String> {
    let list: Vec<f64> = (0..rows).map(|n| ((5 * n + 3) % 9) as f64).collect();
    let views = [(&[8, 7][..], integers(4, 56)), (&[rows][..], list), (&[rows, 8][..], vec![7.0; 8 * rows as usize])];
    run(text, 1, &views).map(|mut out| out.remove(2))
}

pub(super) fn rows_that_arrive() {
    let a = integers(4, 56);
    for rows in [0i64, 4, 8, 24] {
        let at = |n: usize| ((5 * (n / 8) + 3) % 9, n % 8);
        // Row 8 is outside of the view.
        let want: Vec<f64> =
            (0..8 * rows as usize).map(|n| if at(n).0 < 8 && at(n).1 < 6 { a[at(n).0 * 7 + at(n).1] } else { 0.0 }).collect();
        assert_eq!(arriving(ARRIVING, rows).unwrap_or_else(|e| panic!("{e}")), want, "{rows} rows");
    }
}

#[test]
fn rows_arrive_in_order() {
    rows_that_arrive();
}

#[test]
fn faults_of_what_arrives() {
    let wrong = |from: &str, to: &str, says: &str| {
        assert!(ARRIVING.contains(from), "{from}");
        match arriving(&ARRIVING.replacen(from, to, 1), 24) {
            Ok(_) => panic!("`{to}` for `{from}` goes unnoticed"),
            Err(e) => assert!(e.contains(says), "`{to}` for `{from}` gives\n{e}\nnot\n{says}"),
        }
    };
    wrong("copy_async_arrive v24", "barrier_arrive v24", "still bringing");
    wrong("barrier_wait v34, v33", "", "");
    wrong("barrier_wait v15, v14", "", "");
    wrong("copy_async_arrive v24", "copy_async_wait 0", "lacks 1 of 1 arrivals");
    wrong("v5 = barrier_alloc 1", "v5 = barrier_alloc 2", "lacks 1 of 2 arrivals");
}
