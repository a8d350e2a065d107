//! Plans of products, of every kind and target, run on the simulators of their code against sums in `f64`; plans for any number end in an answer.

use tilelift::interp::{Buffer, Memory};
use tilelift::ir::{Scalar, num};
use tilelift::isel::Target;
use tilelift::runtime::sim::SimDevice;
use tilelift::{Options, targets};
use tilelift_kernels::plan::{Candidate, DeviceFacts, Plan, PlanError, Problem, Rows, Sharing, plan, ranked};
use tilelift_kernels::{Activation, Argument, Pitch, Pitches, Residual};

fn target(name: &str) -> Target {
    targets::by_name(name).unwrap_or_else(|| panic!("no target {name}"))
}

fn device(name: &str, multiprocessors: u32) -> DeviceFacts {
    DeviceFacts::new(&target(name), multiprocessors)
}

/// Small numbers that every type holds, other ones for every buffer: sums of them are exact in every order.
fn value(buffer: usize, i: usize) -> f64 {
    ((i.wrapping_mul(7919) + i / 7 + buffer * 31) % 5) as f64 - 2.0
}

/// Runs a plan on the simulator of its target's code; what it leaves in C.
fn run(plan: &Plan, device: &DeviceFacts) -> Vec<f64> {
    let mut memory = Memory::new();
    for (n, b) in plan.buffers().iter().enumerate() {
        let places = places(b);
        let room = places.iter().max().map_or(0, |&at| at + 1);
        memory.add(match b.what {
            Argument::C | Argument::Workspace(_) => Buffer::uninit_elements(b.elem, room),
            _ => {
                // What lies between the rows is no number.
                let mut values = vec![f64::NAN; room];
                places.iter().enumerate().for_each(|(i, &at)| values[at] = value(n, i));
                Buffer::from_f64(b.elem, values)
            }
        });
    }
    let simulator = SimDevice::default();
    for step in &plan.launches {
        let options = Options { lower: step.options, ..Options::default() };
        let what = || format!("{:?} by {} on {}", plan.problem, plan.candidate.as_ref().unwrap(), device.target().name);
        let artifact = tilelift::compile(&step.launch.kernel, device.target(), &options).unwrap_or_else(|e| panic!("{}: {e}", what()));
        let loaded = simulator.load(&artifact).unwrap_or_else(|e| panic!("{}: {e}", what()));
        let ran = simulator.execute(&loaded, step.launch.grid, &plan.arguments(step), &mut memory);
        ran.unwrap_or_else(|e| panic!("{}: {e}", what()));
    }
    let at = plan.buffers().iter().position(|b| b.what == Argument::C).unwrap();
    let (all, places) = (memory.buffers[at].read_f64(plan.problem.out), places(&plan.buffers()[at]));
    // What lies between the rows of C stays as it was: never written.
    let size = plan.problem.out.bytes() as usize;
    let inside: std::collections::BTreeSet<usize> = places.iter().copied().collect();
    let bytes = |i: usize| &memory.buffers[at].bytes()[i * size..(i + 1) * size];
    assert!((0..all.len()).all(|i| inside.contains(&i) || bytes(i).iter().all(|&b| b == 0xff)), "{:?} writes between rows", plan.problem);
    places.into_iter().map(|i| all[i]).collect()
}

/// Where the elements of a buffer lie in it, in row-major order.
fn places(b: &tilelift_kernels::plan::Buffer) -> Vec<usize> {
    let view = b.view(0);
    let mut all = vec![0];
    for (&extent, &stride) in view.shape.iter().zip(&view.strides) {
        all = all.iter().flat_map(|at| (0..extent).map(move |i| at + (i * stride) as usize)).collect();
    }
    all
}

/// Compares what a plan computes with sums in `f64`: exactly, but for activations that are no maximum.
fn judge(plan: &Plan, device: &DeviceFacts) {
    let p = &plan.problem;
    let [m, n, k] = p.shape.map(|e| e as usize);
    let place = |what: Argument| plan.buffers().iter().position(|b| b.what == what);
    let (residual, bias, gate) = (place(Argument::Residual), place(Argument::Bias), place(Argument::Gate));
    let got = run(plan, device);
    assert_eq!(got.len(), p.batch as usize * m * n);
    for (i, got) in got.into_iter().enumerate() {
        let (z, row, col) = (i / (m * n), i / n % m, i % n);
        let left = |d: usize| value(0, z * m * k + if p.trans.0 { d * m + row } else { row * k + d });
        let right = |at: usize, d: usize| value(at, z * k * n + if p.trans.1 { col * k + d } else { d * n + col });
        let sum = |at: usize| (0..k).map(|d| left(d) * right(at, d)).sum::<f64>();
        let mut t = p.activation.eval(sum(1) + bias.map_or(0.0, |b| value(b, col)));
        t *= gate.map_or(1.0, sum);
        let [alpha, beta] = if matches!(p.behind.residual, Some(Residual::Scaled(_))) { p.scales.map(f64::from) } else { [1.0; 2] };
        t = alpha * t + residual.map_or(0.0, |r| beta * value(r, i));
        let want = num::round(t, p.out);
        let near = if matches!(p.activation, Activation::None | Activation::Relu) { 0.0 } else { 0.01 * want.abs().max(1.0) };
        assert!(
            (got - want).abs() <= near,
            "{p:?} by {} on {}: element {i} is {got}, not {want}",
            plan.candidate.as_ref().unwrap(),
            device.target().name
        );
    }
}

/// The first candidate of each way to share out the work.
fn each_way(problem: &Problem, device: &DeviceFacts) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    for c in ranked(problem, device).unwrap() {
        if !list.iter().any(|l| std::mem::discriminant(&l.sharing) == std::mem::discriminant(&c.sharing)) {
            list.push(c);
        }
    }
    list
}

/// Judges a plan of each way, and counts whole, split and stream-K ones.
fn judge_each_way(problem: &Problem, device: &DeviceFacts, seen: &mut [u32; 3]) {
    for c in each_way(problem, device) {
        seen[match c.sharing {
            Sharing::Whole | Sharing::Clusters(..) => 0,
            Sharing::SplitK(_) => 1,
            Sharing::StreamK(_) => 2,
        }] += 1;
        judge(&Plan::of(problem, c).unwrap(), device);
    }
}

const TARGETS: [&str; 3] = ["sm_80", "sm_90a", "gfx942"];

#[test]
fn every_way_to_share_out_the_work_gives_the_product() {
    let mut seen = [0; 3];
    for name in TARGETS {
        // Few multiprocessors, so that small products have every way.
        let device = device(name, 7);
        let problem = Problem::new(Scalar::BF16, [200, 256, 512]).output(Scalar::F32).transposed(false, true);
        judge_each_way(&problem, &device, &mut seen);
    }
    assert_eq!(seen.map(|n| n >= 3), [true; 3], "{seen:?}");
}

#[test]
fn every_way_has_bias_residual_and_gate() {
    for name in TARGETS {
        let device = device(name, 7);
        let plain = Problem::new(Scalar::F16, [72, 192, 512]).transposed(false, true).output(Scalar::F32);
        let biased = plain.clone().epilogue(Some(Scalar::F32), Activation::Relu);
        for problem in [
            biased.clone(),
            plain.clone().plus(Residual::Plain(Scalar::F16)),
            biased.clone().plus(Residual::Scaled(Scalar::F32)).scaled(0.5, -2.0),
            biased.clone().gated(),
            biased.gated().plus(Residual::Scaled(Scalar::F16)).scaled(2.0, 3.0),
        ] {
            let ways = each_way(&problem, &device);
            assert!(ways.len() >= 3, "{problem:?} on {name}: {ways:?}");
            for c in ways {
                judge(&Plan::of(&problem, c).unwrap(), &device);
            }
        }
    }
}

/// Columns of wider matrices, batches with room behind each, heads side by side in a row: with every way to share out the work.
#[test]
fn matrices_that_are_not_dense_are_planned() {
    let mut seen = [0; 3];
    for name in TARGETS {
        let device = device(name, 7);
        let of = |shape| Problem::new(Scalar::F16, shape).output(Scalar::F32);
        let (row, apart) = (|n| Some(Pitch::rows(n)), |row, batch| Some(Pitch::new(row, batch)));
        let wide = of([72, 192, 512]).transposed(false, true).pitched(Pitches { a: row(640), b: row(520), c: row(200), residual: None });
        for problem in [
            wide.clone(),
            wide.clone().plus(Residual::Plain(Scalar::F16)).epilogue(Some(Scalar::F32), Activation::Relu),
            wide.clone()
                .gated()
                .plus(Residual::Scaled(Scalar::F32))
                .scaled(2.0, 3.0)
                .pitched(Pitches { residual: row(193), ..wide.pitches }),
            // Rows that no copy takes.
            of([40, 72, 64]).pitched(Pitches { a: row(65), b: row(73), c: row(75), residual: None }),
            of([33, 65, 96]).transposed(true, false).pitched(Pitches { a: row(40), ..Pitches::DENSE }),
            // A batch with room behind each matrix, and one whose matrices lie side by side in one row.
            of([40, 72, 64]).batched(3).pitched(Pitches { a: apart(64, 4096), b: apart(72, 8192), c: apart(80, 4000), residual: None }),
            of([40, 72, 64]).batched(3).pitched(Pitches { a: apart(192, 64), c: apart(216, 72), ..Pitches::DENSE }),
        ] {
            judge_each_way(&problem, &device, &mut seen);
        }
        let rows = Rows::plan(&wide, &device, 1..=200, 2).unwrap();
        judge(&rows.launches(50).unwrap(), &device);
    }
    assert!(seen.iter().all(|&n| n >= 6), "{seen:?}");
    // The loop of a product whose rows copies take is specialised as that of a dense one.
    let (device, target) = (device("sm_90a", 132), target("sm_90a"));
    let dense = Problem::new(Scalar::BF16, [512, 1024, 1024]).transposed(false, true);
    let columns = dense.clone().pitched(Pitches { a: Some(Pitch::rows(3072)), c: Some(Pitch::rows(2048)), ..Pitches::DENSE });
    for problem in [dense, columns] {
        let step = plan(&problem, &device).unwrap().launches.remove(0);
        let lowered = tilelift::lower(&step.launch.kernel, &target, &Options { lower: step.options, ..Options::default() }).unwrap();
        assert!(matches!(lowered.plan.schedule, tilelift::isel::Schedule::Specialised(_)), "{problem:?}: {}", lowered.plan);
    }
}

#[test]
fn strides_that_put_rows_on_one_another_are_refused() {
    let device = device("sm_90a", 132);
    let of = |batch, pitches| plan(&Problem::new(Scalar::F16, [64, 128, 256]).batched(batch).pitched(pitches), &device);
    let (row, apart) = (|n| Some(Pitch::rows(n)), |row, batch| Some(Pitch::new(row, batch)));
    for (batch, pitches, wrong, least) in [
        (1, Pitches { a: row(255), ..Pitches::DENSE }, "a", 256),
        (1, Pitches { b: row(0), ..Pitches::DENSE }, "b", 128),
        (1, Pitches { c: row(u64::MAX), ..Pitches::DENSE }, "c", 128),
        (1, Pitches { residual: row(127), ..Pitches::DENSE }, "residual", 128),
        (3, Pitches { c: apart(128, 8191), ..Pitches::DENSE }, "c", 8192),
        (3, Pitches { c: apart(256, 128), ..Pitches::DENSE }, "c", 63 * 256 + 128),
        (3, Pitches { a: apart(256, 0), ..Pitches::DENSE }, "a", 64 * 256),
        (3, Pitches { a: apart(256, u64::MAX), ..Pitches::DENSE }, "a", 64 * 256),
    ] {
        let e = of(batch, pitches);
        assert!(matches!(e, Err(PlanError::Pitch { name, least: l, .. }) if (name, l) == (wrong, least)), "{pitches:?}: {e:?}");
    }
    assert!(of(3, Pitches { c: apart(384, 128), ..Pitches::DENSE }).is_ok());
}

#[test]
fn odd_batched_and_small_products_are_planned() {
    for name in TARGETS {
        let device = device(name, 132);
        let of = |shape| Problem::new(Scalar::F16, shape).output(Scalar::F32);
        for problem in [
            of([1, 64, 256]).transposed(false, true),
            of([5, 200, 640]).transposed(false, true).epilogue(Some(Scalar::F16), Activation::Silu),
            of([33, 65, 97]),
            of([129, 7, 1000]).transposed(true, false),
            of([40, 72, 64]).batched(3),
            of([17, 72, 96]).batched(2).transposed(true, true).plus(Residual::Plain(Scalar::F32)),
            of([17, 72, 96]).batched(2).gated().epilogue(Some(Scalar::F32), Activation::Silu),
            // Without depth C is what the epilogue makes of zeros.
            of([20, 24, 0]).epilogue(Some(Scalar::F32), Activation::Relu),
        ] {
            judge(&plan(&problem, &device).unwrap(), &device);
        }
    }
}

#[test]
fn all_types_are_planned() {
    for name in TARGETS {
        let device = device(name, 108);
        let types = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F8E4M3, Scalar::F8E5M2, Scalar::I8];
        for elem in types {
            judge(&plan(&Problem::new(elem, [48, 64, 512]).transposed(false, true), &device).unwrap(), &device);
        }
        let mixed = Problem::new(Scalar::F8E4M3, [48, 64, 256]).weights(Scalar::F8E5M2).transposed(false, true).output(Scalar::F32);
        judge(&plan(&mixed, &device).unwrap(), &device);
    }
}

/// Every candidate can be compiled with what its plan says, not the best one alone.
#[test]
fn every_launch_of_the_first_candidates_compiles() {
    for name in TARGETS {
        let device = device(name, 114);
        let of = |shape| Problem::new(Scalar::BF16, shape).transposed(false, true);
        for problem in [
            of([4096, 4096, 4096]).plus(Residual::Plain(Scalar::BF16)),
            of([16, 8192, 4096]).epilogue(Some(Scalar::F32), Activation::Gelu).plus(Residual::Scaled(Scalar::F32)),
            of([2048, 2048, 1024]).output(Scalar::F32).plus(Residual::Plain(Scalar::F32)),
            of([512, 2048, 4096]).gated().epilogue(None, Activation::Silu),
            of([512, 512, 512]).batched(8).plus(Residual::Plain(Scalar::BF16)),
        ] {
            for c in ranked(&problem, &device).unwrap().into_iter().take(4) {
                let what = format!("{problem:?} by {c} on {name}");
                for step in Plan::of(&problem, c).unwrap().launches {
                    let options = Options { lower: step.options, ..Options::default() };
                    tilelift::compile(&step.launch.kernel, device.target(), &options).unwrap_or_else(|e| panic!("{what}: {e}"));
                }
            }
        }
    }
}

#[test]
fn few_kernels_serve_all_numbers_of_rows() {
    for name in TARGETS {
        let device = device(name, 13);
        let problem = Problem::new(Scalar::F16, [0, 192, 384])
            .transposed(false, true)
            .output(Scalar::F32)
            .epilogue(Some(Scalar::F32), Activation::Relu);
        let mut worst = f64::INFINITY;
        for most in [1, 2, 4, 8] {
            let rows = Rows::plan(&problem, &device, 1..=2048, most).unwrap();
            assert!((1..=most).contains(&rows.kernels().len()));
            assert!(rows.worst_loss().is_finite() || most == 1, "{name} {most}: {}", rows.worst_loss());
            worst = rows.worst_loss().min(worst);
            for m in 1..=2048 {
                let k = rows.kernel_for(m).unwrap();
                assert!(rows.kernels()[k].spans.iter().any(|s| s.contains(&m)), "{m}");
            }
            assert_eq!((rows.kernel_for(0), rows.kernel_for(2049)), (None, None));
        }
        let rows = Rows::plan(&problem, &device, 1..=2048, 4).unwrap();
        assert!(worst < 0.25, "{name}: {worst}");
        // One kernel serves all of its rows: its text says nothing of them.
        let mut texts: Vec<Vec<Vec<String>>> = vec![Vec::new(); rows.kernels().len()];
        for m in [1, 16, 17, 100, 257, 1000, 2048] {
            let plan = rows.launches(m).unwrap();
            texts[rows.kernel_for(m).unwrap()].push(plan.launches.iter().map(|l| tilelift::ir::text::print(&l.launch.kernel)).collect());
            if m <= 257 {
                judge(&plan, &device);
            }
        }
        for list in texts {
            // A launch of sums may have nothing to do, and none is left out otherwise.
            assert!(list.windows(2).all(|w| w[0].iter().zip(&w[1]).all(|(a, b)| a == b)), "{name}");
        }
        assert!(rows.launches(0).unwrap().launches.is_empty());
    }
}

/// Numbers at which arithmetic goes wrong, if it does.
const ODD: [u32; 11] = [0, 1, 2, 3, 63, 129, 65535, 65536, 1 << 30, i32::MAX as u32, u32::MAX];

#[test]
fn any_number_ends_in_a_plan_or_a_reason() {
    let mut seen = [0; 2];
    for name in TARGETS {
        for (i, &m) in ODD.iter().enumerate() {
            for (j, &n) in ODD.iter().enumerate() {
                let k = ODD[(3 * i + 5 * j) % ODD.len()];
                for (x, multiprocessors) in [(i, 1), (j, 132), (i + j, ODD[(i + 2 * j) % ODD.len()])] {
                    let batch = ODD[(x * 7 + 1) % ODD.len()];
                    let problem = Problem::new([Scalar::F16, Scalar::I8, Scalar::F32][x % 3], [m, n, k]).transposed(x % 2 == 0, true);
                    for problem in [problem.clone(), problem.clone().gated(), problem.batched(batch)] {
                        let made = plan(&problem, &device(name, multiprocessors));
                        if made.as_ref().is_ok_and(|p| problem.is_empty() != p.launches.is_empty()) {
                            panic!("{problem:?}: {made:?}");
                        }
                        if let Ok(p) = &made {
                            assert!(p.buffers().iter().all(|b| b.bytes() < u64::MAX));
                            p.launches.iter().for_each(|l| assert_eq!(p.arguments(l).len(), l.launch.kernel.params.len()));
                        }
                        seen[usize::from(made.is_ok())] += 1;
                    }
                }
            }
        }
        let small = Problem::new(Scalar::F16, [1, 64, 64]);
        for last in ODD {
            for most in [0, 1, usize::MAX] {
                let rows = Rows::plan(&small, &device(name, 3), 1..=last, most);
                assert_eq!(rows.is_ok(), most > 0 && (1..=1 << 30).contains(&last), "{last} {most}");
            }
        }
        #[allow(clippy::reversed_empty_ranges)] // the caller's mistake
        let backwards = Rows::plan(&small, &device(name, 3), 5..=2, 1);
        assert!(matches!(backwards, Err(PlanError::NoRows)));
    }
    assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
}

/// The model itself, asked without a plan around it.
#[test]
fn the_model_answers_any_number() {
    use tilelift::isel::gemm::{Choice, Clusters, Pair, Product, StreamK, predict, rank};
    let mut state = 1u64;
    let mut of = |list: &[u32]| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list[(state >> 33) as usize % list.len()]
    };
    let mut answered = 0;
    for multiprocessors in ODD {
        let target = target("sm_90a").with_multiprocessors(multiprocessors);
        for _ in 0..400 {
            let (batch, shape) = (of(&ODD), [of(&ODD), of(&ODD), of(&ODD)]);
            let product = Product { batch, shape, elem: Scalar::BF16, out: Scalar::BF16, trans: (false, true) };
            let list = rank(&target, &product);
            assert!(list.is_empty() || !product.is_empty());
            assert!(list.iter().all(|r| r.prediction.total() > 0.0));
            for _ in 0..10 {
                let odd = |of: &mut dyn FnMut(&[u32]) -> u32| if of(&[0, 1, 1]) == 1 { of(&[1, 2, 4]) } else { of(&ODD) };
                let choice = Choice {
                    tile: [of(&[0, 64, 128, 4096, u32::MAX]), of(&[0, 64, 128, 4096, u32::MAX]), of(&[0, 64, 64, u32::MAX])],
                    consumers: odd(&mut of),
                    consumer_sets: odd(&mut of),
                    swapped: of(&[0, 1]) == 1,
                    stages: odd(&mut of),
                    group: odd(&mut of),
                    splits: odd(&mut of),
                    stream_k: (of(&[0, 1]) == 1).then(|| StreamK { workers: of(&ODD), in_flight: odd(&mut of), rest: of(&[0, 1]) == 1 }),
                    clusters: (of(&[0, 0, 1]) == 1).then(|| Clusters { workers: of(&ODD), pair: Pair::Rows }),
                };
                let prediction = predict(&target, &product, &choice);
                assert!(prediction.is_none() || choice.is_possible(), "{choice:?}");
                answered += u32::from(prediction.is_some());
            }
        }
    }
    assert!(answered > 100, "{answered}");
}

/// Numbers that a product of two, or a sum of two, takes beyond what integers hold.
#[test]
fn the_model_answers_where_numbers_end() {
    use tilelift::isel::gemm::{Choice, Product, StreamK, predict};
    let target = target("sm_90a");
    let product = |batch: u32, shape: [u32; 3]| Product { batch, shape, elem: Scalar::BF16, out: Scalar::BF16, trans: (false, true) };
    let choice = |consumers: u32, consumer_sets: u32, stream_k: Option<StreamK>| Choice {
        tile: [64; 3],
        consumers,
        consumer_sets,
        swapped: false,
        stages: 4,
        group: 8,
        splits: 1,
        stream_k,
        clusters: None,
    };
    let _ = predict(&target, &product(1, [4096; 3]), &choice(1 << 16, 1 << 16, None));
    let dealt = StreamK { workers: 132, in_flight: 1, rest: false };
    let _ = predict(&target, &product(u32::MAX, [u32::MAX, u32::MAX, 1 << 30]), &choice(1, 1, Some(dealt)));
}

/// A candidate of another problem is refused where its kernels lack what this one has.
#[test]
fn a_candidate_serves_its_own_kind_of_problem() {
    let device = device("sm_90a", 132);
    let plain = Problem::new(Scalar::BF16, [1000, 1000, 1000]);
    let list = ranked(&plain, &device).unwrap();
    let clusters = list.iter().find(|c| matches!(c.sharing, Sharing::Clusters(..))).expect("clusters of two for rows that are no lines");
    for other in [plain.clone().plus(Residual::Plain(Scalar::BF16)), plain.clone().gated(), plain.clone().batched(2)] {
        assert!(matches!(Plan::of(&other, clusters.clone()), Err(PlanError::Candidate { .. })), "{other:?}");
    }
    for empty in [plain.clone().rows(0), plain.clone().batched(0)] {
        assert!(Plan::of(&empty, list[0].clone()).unwrap().launches.is_empty());
    }
    // Types, storage and epilogue are the problem's, whatever the candidate was ranked for.
    let other = Problem::new(Scalar::F16, [200, 136, 264]).transposed(true, false).epilogue(Some(Scalar::F32), Activation::Relu);
    let whole = list.iter().find(|c| c.sharing == Sharing::Whole).expect("whole tiles");
    judge(&Plan::of(&other, whole.clone()).unwrap(), &device);
}

#[test]
fn clusters_give_the_product() {
    let device = device("sm_90a", 8);
    let problem = Problem::new(Scalar::BF16, [200, 264, 136]).output(Scalar::BF16);
    let list = ranked(&problem, &device).unwrap();
    let clusters: Vec<_> = list.into_iter().filter(|c| matches!(c.sharing, Sharing::Clusters(..))).take(2).collect();
    assert!(!clusters.is_empty(), "rows that are no lines have candidates with clusters");
    for c in clusters {
        judge(&Plan::of(&problem, c).unwrap(), &device);
    }
}
