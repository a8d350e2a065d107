//! Explicit control: programs that are right, each against plain arithmetic, and programs that are wrong by a hair.

use super::{Random, SEEN};
use tilelift_interp::{Arg, Buffer, Memory, Options, ViewArg, interpret};
use tilelift_ir::text::parse;
use tilelift_ir::types::Scalar;
use tilelift_ir::verify;

/// Runs a kernel whose parameters are dense `f32` views; gives their contents, or the fault's words.
pub(super) fn run(text: &str, grid: u32, views: &[(&[i64], Vec<f64>)]) -> Result<Vec<Vec<f64>>, String> {
    let file = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let kernel = &file.kernels[0];
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    let mut memory = Memory::new();
    let mut args: Vec<Arg> = Vec::new();
    for (shape, values) in views {
        let buffer = memory.add(Buffer::from_f64(Scalar::F32, values.iter().copied()));
        args.push(ViewArg::dense(buffer, Scalar::F32, shape).into());
    }
    interpret(&verified, [grid, 1, 1], &args, &mut memory, &Options::default()).map_err(|e| e.to_string())?;
    SEEN.with_borrow_mut(|s| kernel.walk(kernel.body, &mut |i| _ = s.insert(kernel.insts[i].op)));
    Ok(memory.buffers.iter().map(|b| b.read_f64(Scalar::F32)).collect())
}

/// Small integers, whose products and sums are exact in any order.
pub(super) fn integers(seed: u64, n: i64) -> Vec<f64> {
    let mut r = Random(seed);
    (0..n).map(|_| (r.bits() % 9) as f64 - 4.0).collect()
}

fn matmul(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    (0..m * n).map(|at| (0..k).map(|p| a[at / n * k + p] * b[p * n + at % n]).sum()).collect()
}

/// A producer, a ring of slots with two barriers each, and a consumer that multiplies with a product in flight.
const RING: &str = "
kernel @ring(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<f32, [?, ?]>) {
    v3 = local_alloc : shared<3x16x8xf32>
    v4 = local_alloc : shared<3x8x24xf32>
    v5 = barrier_alloc 1 : barrier<3>
    v6 = barrier_alloc 1 : barrier<3>
    v7 = dim v0, 1
    v8 = add v7, 7
    v9 = div v8, 8
    tasks {
        task producer warps 1 registers 24 {
            for v10 in 0..v9 step 1 {
                v11 = rem v10, 3
                v12 = div v10, 3
                v13 = add v12, 1
                v14 = barrier_index v6, v11
                barrier_wait v14, v13
                v15 = barrier_index v5, v11
                barrier_expect v15, 1280
                v16 = mul v10, 8
                v17 = local_index v3, v11
                async_load v0[0, v16], v17, v15
                v18 = local_index v4, v11
                async_load v1[v16, 0], v18, v15
                yield
            }
            yield
        }
        task consumer warps 4 registers 232 {
            v20 = splat 0.0 : tile<16x24xf32>
            v21 = for v22 in 0..v9 step 1 carry v23 = v20 {
                v24 = rem v22, 3
                v25 = div v22, 3
                v26 = barrier_index v5, v24
                barrier_wait v26, v25
                v27 = local_index v3, v24
                v28 = local_index v4, v24
                v29 = async_dot v27, v28, v23
                v30 = async_dot_wait v29, 1
                v31 = cmp gt v22, 0
                if v31 {
                    v32 = sub v22, 1
                    v33 = rem v32, 3
                    v34 = barrier_index v6, v33
                    barrier_arrive v34
                    yield
                } else {
                    yield
                }
                yield v30
            }
            v35 = async_dot_wait v21, 0
            store v2[0, 0], v35
            yield
        }
    }
}";

pub(super) fn a_ring_with_a_product_in_flight() {
    for k in [8i64, 5, 40, 100] {
        let (a, b) = (integers(1, 16 * k), integers(2, k * 24));
        let want = matmul(&a, &b, [16, k as usize, 24]);
        let out = run(RING, 1, &[(&[16, k], a), (&[k, 24], b), (&[16, 24], vec![7.0; 384])]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(out[2], want, "k = {k}");
    }
}

#[test]
fn rings_of_all_lengths() {
    a_ring_with_a_product_in_flight();
}

/// A part of a program, exchanged.
#[track_caller]
fn wrong(text: &str, from: &str, to: &str, says: &str) {
    assert!(text.contains(from), "{from}");
    let k = 40i64;
    let changed = text.replacen(from, to, 1);
    let out = run(&changed, 1, &[(&[16, k], integers(1, 16 * k)), (&[k, 24], integers(2, k * 24)), (&[16, 24], vec![0.0; 384])]);
    match out {
        Ok(_) => panic!("`{to}` for `{from}` goes unnoticed"),
        Err(e) => assert!(e.contains(says), "`{to}` for `{from}` gives\n{e}\nnot\n{says}"),
    }
}

#[test]
fn faults_of_a_ring() {
    // The consumer does not wait, waits for the other parity, or for the other barrier.
    wrong(RING, "barrier_wait v26, v25", "task_barrier", "`async_load` (22:17) in task producer of program [0, 0, 0] is still bringing");
    wrong(
        RING,
        "v26 = barrier_index v5, v24\n                barrier_wait v26, v25",
        "v26 = barrier_index v5, v24\n                v90 = add v25, 1\n                barrier_wait v26, v90",
        "still bringing",
    );
    // The producer does not wait for slots to be free.
    wrong(RING, "barrier_wait v14, v13", "task_barrier", "has all its arrivals already");
    // Slots are given back while the product reads.
    wrong(RING, "v30 = async_dot_wait v29, 1", "v30 = async_dot_wait v29, 2", "still reads");
    // The result is read with the last product in flight.
    wrong(RING, "v35 = async_dot_wait v21, 0", "v35 = async_dot_wait v21, 1", "while it is in flight");
    // Bytes that do not come, or too many.
    wrong(
        RING,
        "barrier_expect v15, 1280",
        "barrier_expect v15, 1281",
        "everybody waits; task producer of program [0, 0, 0] at `barrier_wait` (17:17) for phase 0, which lacks 1 of 1 arrivals; task consumer of program [0, 0, 0] at `barrier_wait`",
    );
    wrong(RING, "barrier_expect v15, 1280", "barrier_expect v15, 768", "which got 512 bytes too many");
    // Nobody gives slots back.
    wrong(RING, "barrier_arrive v34", "task_barrier", "lacks 1 of 1 arrivals");
    wrong(RING, "barrier_arrive v34", "barrier_arrive v34\nbarrier_arrive v26", "still bringing");
    // A slot that is not there.
    wrong(RING, "v24 = rem v22, 3", "v24 = rem v22, 4", "position 3 of 3");
}

/// Staging through local memory: views of buffers, an alias, async stores and updates.
const STAGING: &str = "
kernel @staging(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<f32, [?]>, v3: view<i32, [?, ?]>) {
    v4 = local_alloc : shared<2x16x8xf32>
    v5 = local_alloc alias=v4 : shared<256xi32>
    v6 = load v0[0, 0] : tile<16x8xf32>
    v7 = local_index v4, 0
    local_store v7, v6
    v8 = local_transpose v7, [1, 0]
    v9 = local_load v8
    v10 = local_index v4, 1
    v11 = local_reinterpret v10 : shared<8x16xf32>
    local_store v11, v9
    v12 = local_slice v11, [2, 4] : shared<4x8xf32>
    v13 = splat 1.0 : tile<4x8xf32>
    local_store v12, v13
    task_barrier
    fence_async
    async_store v1[-1, 3], v11
    v14 = local_slice v11, [0, 0] : shared<1x16xf32>
    v15 = local_reinterpret v4 : shared<256xf32>
    v16 = local_slice v15, [128] : shared<16xf32>
    async_reduce add v2[2], v16
    async_store_wait 0
    v17 = splat 5 : tile<256xi32>
    local_store v5, v17
    fence_async
    v18 = local_reinterpret v5 : shared<16x16xi32>
    v19 = local_load v18
    store v3[0, 0], v19
}";

pub(super) fn staging() {
    let file = STAGING
        .replace("view<i32, [?, ?]>", "view<f32, [?, ?]>")
        .replace("store v3[0, 0], v19", "v20 = cast v19 : tile<16x16xf32>\n    store v3[0, 0], v20");
    let a = integers(3, 128);
    let views: [(&[i64], Vec<f64>); 4] =
        [(&[16, 8], a.clone()), (&[9, 20], vec![-9.0; 180]), (&[20], vec![10.0; 20]), (&[16, 16], vec![0.0; 256])];
    let out = run(&file, 1, &views).unwrap_or_else(|e| panic!("{e}"));
    // The transpose with a block of ones in it.
    let t = |i: usize, j: usize| if (2..6).contains(&i) && (4..12).contains(&j) { 1.0 } else { a[j * 8 + i] };
    for i in 0..9 {
        for j in 0..20 {
            let inside = i + 1 < 8 && (3..19).contains(&j);
            assert_eq!(out[1][i * 20 + j], if inside { t(i + 1, j - 3) } else { -9.0 }, "{i} {j}");
        }
    }
    for (j, &x) in out[2].iter().enumerate() {
        let added = if (2..18).contains(&j) { t(0, j - 2) } else { 0.0 };
        assert_eq!(x, 10.0 + added, "{j}");
    }
    assert!(out[3].iter().all(|&x| x == 5.0));
    for (from, to, says) in [
        ("task_barrier\n    fence_async", "task_barrier", "let it do `fence_async` behind the write"),
        ("    async_store_wait 0\n", "", "still reads"),
        ("async_store_wait 0", "async_store_wait 1", "`async_reduce`"),
        ("    local_store v7, v6\n", "", "nothing has written"),
        ("v7 = local_index v4, 0", "v90 = sub 0, 1\n    v7 = local_index v4, v90", "position -1 of 2"),
    ] {
        assert!(file.contains(from), "{from}");
        let e = run(&file.replacen(from, to, 1), 1, &views).expect_err(from);
        assert!(e.contains(says), "{e}");
    }
}

/// Each worker doubles the rows that fall to it, and writes who took them.
const WORKERS: &str = "
kernel @workers(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>, v2: view<i32, [?]>) {
    v3 = worker_id
    v4 = num_workers
    v5 = num_programs x
    v6 = num_programs y
    v7 = mul v5, v6
    for v8 in v3..v7 step v4 {
        v9 = rem v8, v5
        v10 = div v8, v5
        v11 = load v0[v10, v9] : tile<1x1xf32>
        v12 = add v11, v11
        store v1[v10, v9], v12
        v13 = splat v4 : tile<1xi32>
        store v2[v8], v13
        yield
    }
}";

pub(super) fn workers() {
    let kernel = parse(WORKERS).expect("parses").kernels.remove(0);
    SEEN.with_borrow_mut(|s| kernel.walk(kernel.body, &mut |i| _ = s.insert(kernel.insts[i].op)));
    let kernel = verify(&kernel).expect("verifies");
    let mut memory = Memory::new();
    let x = memory.add(Buffer::from_f64(Scalar::F32, (0..15).map(f64::from)));
    let y = memory.add(Buffer::from_f64(Scalar::F32, [-1.0; 15]));
    let who = memory.add(Buffer::from_i64(Scalar::I32, [-1; 15]));
    let args = [
        ViewArg::dense(x, Scalar::F32, &[3, 5]).into(),
        ViewArg::dense(y, Scalar::F32, &[3, 5]).into(),
        ViewArg::dense(who, Scalar::I32, &[15]).into(),
    ];
    let stats = interpret(&kernel, [5, 3, 1], &args, &mut memory, &Options::default()).expect("runs");
    assert_eq!(stats.programs, 5, "fewer workers than positions");
    assert_eq!(memory.buffers[y].read_f64(Scalar::F32), (0..15).map(|n| 2.0 * f64::from(n)).collect::<Vec<_>>());
    assert!(memory.buffers[who].read_i64(Scalar::I32).iter().all(|&n| n == 5));
    // A list of positions: as many workers as positions, of whom those in the list run.
    memory.buffers[y] = Buffer::from_f64(Scalar::F32, [-1.0; 15]);
    let some = Options { programs: Some(vec![[1, 2, 0], [0, 0, 0]]), ..Options::default() };
    interpret(&kernel, [5, 3, 1], &args, &mut memory, &some).expect("runs");
    let out = memory.buffers[y].read_f64(Scalar::F32);
    assert_eq!([out[11], out[0], out[1]], [22.0, 0.0, -1.0]);
}

#[test]
fn workers_take_all_positions() {
    workers();
}

#[test]
fn staging_and_its_faults() {
    staging();
}

/// Two blocks that exchange halves of a sum in every way there is, and a multicast load.
const CLUSTER: &str = "
kernel @cluster(v0: view<f32, [?]>, v1: view<f32, [?, ?]>) cluster 2 {
    v2 = local_alloc : shared<4x8xf32>
    v3 = barrier_alloc 1 : barrier<3>
    v4 = cluster_rank
    v5 = cluster_size
    v6 = sub v5, 1
    v7 = sub v6, v4
    v8 = program_id x
    v9 = barrier_index v3, 0
    barrier_expect v9, 32
    cluster_barrier
    v10 = local_index v2, 0
    v11 = cmp eq v4, 0
    if v11 {
        async_load v0[v8], v10, v9, multicast=3
        yield
    } else {
        yield
    }
    barrier_wait v9, 0
    v12 = local_load v10
    v13 = cast v8 : f32
    v14 = splat v13 : tile<8xf32>
    v15 = add v12, v14
    v16 = local_index v2, 1
    local_store v16, v15
    cluster_arrive
    cluster_wait
    v17 = remote_load v16, v7
    v18 = local_index v2, 2
    remote_store v18, v7, v17
    v19 = barrier_index v3, 1
    barrier_expect v19, 32
    v20 = local_index v2, 3
    remote_store_async v20, v7, v15, v19
    barrier_wait v19, 0
    v21 = local_load v20
    v22 = barrier_index v3, 2
    remote_arrive v22, v7
    barrier_wait v22, 0
    v23 = local_load v18
    store v1[v8, 0], v21_
    cluster_barrier
}";

pub(super) fn clusters() {
    let text = CLUSTER.replace(
        "    store v1[v8, 0], v21_\n",
        "    v24 = add v21, v23\n    v25 = reshape v24 : tile<1x8xf32>\n    store v1[v8, 0], v25\n",
    );
    let x = integers(4, 16);
    let views: [(&[i64], Vec<f64>); 2] = [(&[16], x.clone()), (&[4, 8], vec![0.0; 32])];
    let out = run(&text, 4, &views).unwrap_or_else(|e| panic!("{e}"));
    for p in 0..4usize {
        for j in 0..8 {
            let first = p & !1;
            // From the neighbour by an async store: its own value; by a plain one: this block's.
            let (own, other) = (x[first + j] + p as f64, x[first + j] + (p ^ 1) as f64);
            assert_eq!(out[1][p * 8 + j], own + other, "{p} {j}");
        }
    }
    assert!(run(&text, 3, &views).expect_err("odd").contains("multiple of 2"));
    for (from, to, says) in [
        ("    cluster_arrive\n    cluster_wait\n", "", "nothing has written"),
        ("    cluster_wait\n", "", "nothing has written"),
        ("    cluster_arrive\n    cluster_wait\n", "    cluster_wait\n", "do not alternate"),
        ("remote_arrive v22, v7", "barrier_arrive v22", "nothing orders the two"),
        ("multicast=3", "multicast=5", "rank 2 is outside the cluster of 2"),
        ("multicast=3", "multicast=1", "program [1, 0, 0] at `barrier_wait` (21:5) for phase 0, which lacks 32 bytes"),
        ("remote_load v16, v7", "remote_load v16, v5", "rank 2"),
    ] {
        assert!(text.contains(from), "{from}");
        let e = run(&text.replacen(from, to, 1), 2, &views).expect_err(from);
        assert!(e.contains(says), "{from}: {e}");
    }
}

#[test]
fn clusters_and_their_faults() {
    clusters();
}

/// Two consumer sets that pass local memory to and fro through numbered barriers.
const NAMED: &str = "
kernel @named(v0: view<f32, [?]>) {
    v1 = local_alloc : shared<8xf32>
    tasks {
        task a warps 4 {
            for v2 in 0..5 step 1 {
                v3 = cast v2 : f32
                v4 = splat v3 : tile<8xf32>
                local_store v1, v4
                named_barrier_arrive 1, 12
                named_barrier_sync 2, 12
                yield
            }
            yield
        }
        task b warps 8 {
            v5 = splat 0.0 : tile<8xf32>
            v6 = for v7 in 0..5 step 1 carry v8 = v5 {
                named_barrier_sync 1, 12
                v9 = local_load v1
                named_barrier_arrive 2, 12
                v10 = add v8, v9
                yield v10
            }
            store v0[0], v6
            yield
        }
    }
}";

pub(super) fn named_barriers() {
    let out = run(NAMED, 1, &[(&[8], vec![0.0; 8])]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[0], vec![10.0; 8]);
    for (from, to, says) in [
        ("named_barrier_sync 1, 12", "named_barrier_sync 1, 8", "barrier 1 got 8 warps where 12 should meet"),
        ("named_barrier_sync 1, 12", "task_barrier", "nothing orders the two"),
        ("named_barrier_sync 2, 12", "named_barrier_arrive 2, 12", "the task comes to barrier 1 again"),
        ("named_barrier_arrive 2, 12", "task_barrier", "barrier 2, to which 4 of 12 warps came"),
    ] {
        let e = run(&NAMED.replacen(from, to, 1), 1, &[(&[8], vec![0.0; 8])]).expect_err(from);
        assert!(e.contains(says), "{e}");
    }
}

#[test]
fn named_barriers_and_their_faults() {
    named_barriers();
}

/// A producer and two consumers that take every step.
const CHANNEL: &str = "
kernel @channel(v0: view<f32, [?, ?]>, v1: view<f32, [?, ?]>) {
    v2 = channel_alloc 2 : channel<3, tile<8xf32>, tile<1xf32>>
    tasks {
        task producer warps 1 {
            for v3 in 0..10 step 1 {
                v4 = load v0[v3, 0] : tile<1x8xf32>
                v5 = reshape v4 : tile<8xf32>
                v6 = cast v3 : f32
                v7 = splat v6 : tile<1xf32>
                channel_put v2, v3, v5, v7
                yield
            }
            yield
        }
        task consumer warps 4 replicas 2 as v8 {
            v9 = splat 0.0 : tile<8xf32>
            v10 = for v11 in 0..10 step 1 carry v12 = v9 {
                v13, v14 = channel_get v2, v11
                channel_consumed v2, v11
                v15 = reshape v14 : f32
                v16 = splat v15 : tile<8xf32>
                v17 = fma v13, v16, v12
                yield v17
            }
            v18 = reshape v10 : tile<1x8xf32>
            store v1[v8, 0], v18
            yield
        }
    }
}";

pub(super) fn channels() {
    let x = integers(5, 80);
    let views: [(&[i64], Vec<f64>); 2] = [(&[10, 8], x.clone()), (&[2, 8], vec![0.0; 16])];
    let out = run(CHANNEL, 1, &views).unwrap_or_else(|e| panic!("{e}"));
    for at in 0..16 {
        assert_eq!(out[1][at], (0..10).map(|s| s as f64 * x[s * 8 + at % 8]).sum::<f64>(), "{at}");
    }
    for (from, to, says) in [
        ("channel_alloc 2", "channel_alloc 3", "which 2 of 3 consumers gave back"),
        ("channel_alloc 2", "channel_alloc", "given back already"),
        ("                channel_consumed v2, v11\n", "", "which 0 of 2 consumers gave back"),
        ("channel_consumed v2, v11", "channel_consumed v2, v11\nchannel_consumed v2, v11", "twice"),
        ("channel_consumed v2, v11", "channel_consumed v2, 4", "not full of it"),
        ("channel_put v2, v3,", "channel_put v2, 1,", "steps are put in order"),
        ("for v11 in 0..10", "for v11 in 0..11", "step 10 of a channel; 10 steps have been put"),
        ("channel_get v2, v11", "channel_get v2, 0", "given back"),
    ] {
        assert!(CHANNEL.contains(from), "{from}");
        let e = run(&CHANNEL.replacen(from, to, 1), 1, &views).expect_err(from);
        assert!(e.contains(says), "{from}: {e}");
    }
}

#[test]
fn channels_and_their_faults() {
    channels();
}

#[test]
fn loops_of_a_task_end_and_cost_fuel() {
    let text = "kernel @w(v0: view<f32, [?]>) {
        tasks {
            task a warps 1 {
                v1 = while carry v2 = 0 {
                    v3 = cmp lt v2, 7
                    yield v3
                } do carry v4 {
                    v5 = add v4, 2
                    yield v5
                }
                v6 = cast v1 : f32
                v7 = splat v6 : tile<1xf32>
                store v0[0], v7
                yield
            }
            task b warps 1 {
                while {
                    yield TEST
                } do {
                    yield
                }
                yield
            }
        }
    }";
    let view: [(&[i64], Vec<f64>); 1] = [(&[1], vec![0.0])];
    assert_eq!(run(&text.replace("TEST", "false"), 1, &view).expect("ends")[0], [8.0]);
    assert!(run(&text.replace("TEST", "true"), 1, &view).expect_err("endless").contains("rounds and goes on"));
}

/// A product beside which the lanes compute: their sum is written down in front of its wait, and the order of the text stays.
pub(super) fn a_product_beside_lanes() {
    const TEXT: &str = "
kernel @beside(v0: view<f32, [16, 8]>, v1: view<f32, [8, 24]>, v2: view<f32, [16, 24]>) {
    v3 = local_alloc : shared<16x8xf32>
    v4 = local_alloc : shared<8x24xf32>
    v5 = load v0[0, 0] : tile<16x8xf32>
    local_store v3, v5
    v6 = load v1[0, 0] : tile<8x24xf32>
    local_store v4, v6
    fence_async
    task_barrier
    v7 = splat 0.0 : tile<16x24xf32>
    v8 = async_dot v3, v4, v7
    v9 = splat 2.0 : tile<16x24xf32>
    v10 = add v9, v9
    sched_barrier
    v11 = async_dot_wait v8, 0
    v12 = add v11, v10
    store v2[0, 0], v12
}";
    let (a, b) = (integers(1, 128), integers(2, 192));
    let want: Vec<f64> = matmul(&a, &b, [16, 8, 24]).iter().map(|x| x + 4.0).collect();
    let out = run(TEXT, 1, &[(&[16, 8], a), (&[8, 24], b), (&[16, 24], vec![0.0; 384])]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[2], want);
    // It ends no product.
    let early = TEXT.replace("    sched_barrier\n", "    sched_barrier\n    v13 = async_dot_wait v8, 1\n    v14 = add v13, v10\n");
    let e = run(&early, 1, &[(&[16, 8], integers(1, 128)), (&[8, 24], integers(2, 192)), (&[16, 24], vec![0.0; 384])]).unwrap_err();
    assert!(e.contains("in flight"), "{e}");
}

/// Products in turns of the groups of a task: what they compute is what they compute without turns, and the ends of turns come in order.
pub(super) fn products_in_turns() {
    const TEXT: &str = "
kernel @turns(v0: view<f32, [16, 8]>, v1: view<f32, [8, 24]>, v2: view<f32, [16, 24]>) {
    v3 = local_alloc : shared<16x8xf32>
    v4 = local_alloc : shared<8x24xf32>
    tasks {
        task all warps 8 {
            v5 = load v0[0, 0] : tile<16x8xf32>
            local_store v3, v5
            v6 = load v1[0, 0] : tile<8x24xf32>
            local_store v4, v6
            fence_async
            task_barrier
            v7 = splat 0.0 : tile<16x24xf32>
            turn_first
            v8 = for v9 in 0..3 step 1 carry v10 = v7 {
                v11 = async_dot v3, v4, v10
                v12 = async_dot_wait v11, 0
                turn_pass
                v13 = add v12, v12
                turn_wait
                yield v13
            }
            turn_last
            store v2[0, 0], v8
            yield
        }
    }
}";
    let (a, b) = (integers(1, 128), integers(2, 192));
    let views = || [(&[16i64, 8][..], a.clone()), (&[8, 24], b.clone()), (&[16, 24], vec![0.0; 384])];
    let want: Vec<f64> = matmul(&a, &b, [16, 8, 24]).iter().map(|x| 14.0 * x).collect();
    assert_eq!(run(TEXT, 1, &views()).unwrap_or_else(|e| panic!("{e}"))[2], want);
    for (from, to, says) in [
        ("turn_first", "fence_async", "`turn_pass` where no turn is"),
        ("turn_first", "turn_wait", "`turn_wait` where no turn is"),
        ("turn_pass", "fence_async", "`turn_wait` in a turn"),
        ("turn_wait", "fence_async", "`turn_pass` where no turn is"),
        ("turn_wait", "turn_first", "`turn_first` where no turn is"),
    ] {
        let e = run(&TEXT.replacen(from, to, 1), 1, &views()).expect_err(from);
        assert!(e.contains(says), "{from}: {e}");
    }
}

#[test]
fn products_in_turns_and_their_faults() {
    products_in_turns();
}
