//! Loops of any kind as programs: any bounds, swizzle widths, layouts that are required, tiles that are loaded behind the loop, stores in
//! choices and in parts.

use crate::common::assembler::together;
use crate::common::written::{assembled, emitted, made, round_trip, run, run_lanes, run_text, same_text};
use std::collections::BTreeSet;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::{Kernel, Op, Scalar, text, verify};
use tilelift_isel::{LowerOptions, Lowered, ProofScope, ScheduleKind, lower};
use tilelift_kernels::{Size, cases};
use tilelift_nvptx::{PtxKernel, sm_90a};
use tilelift_oracle::in_parallel;
use tilelift_schedule::{plan, program};

/// Tensors of small whole numbers, of which every product and sum is exact; the last `outputs` are written.
struct Job {
    kernel: Kernel,
    grid: [u32; 3],
    tensors: Vec<(Scalar, Vec<i64>)>,
    outputs: usize,
    scalars: Vec<ScalarArg>,
}

impl Job {
    fn new(source: &str, grid: [u32; 3], tensors: &[(Scalar, &[i64])], scalars: &[i64]) -> Job {
        let mut kernels = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}")).kernels;
        let tensors = tensors.iter().map(|&(elem, shape)| (elem, shape.to_vec())).collect();
        let kernel = kernels.remove(0);
        let types = kernel.params.iter().map(|&p| kernel.ty(p)).filter(|t| t.as_view().is_none()).map(|t| t.elem());
        let scalars = types.zip(scalars).map(|(t, &x)| ScalarArg::int(t, x)).collect();
        Job { kernel, grid, tensors, outputs: 1, scalars }
    }

    fn args(&self) -> Vec<Arg> {
        let views = self.tensors.iter().enumerate().map(|(i, (elem, shape))| ViewArg::dense(i, *elem, shape).into());
        views.chain(self.scalars.iter().map(|&s| s.into())).collect()
    }

    fn memory(&self) -> Memory {
        let mut memory = Memory::new();
        for (i, (elem, shape)) in self.tensors.iter().enumerate() {
            let n = shape.iter().product::<i64>();
            // What is written is zero before, so that what nobody writes is equal, too.
            let input = i + self.outputs < self.tensors.len();
            let at = |k: i64| if input { ((k * 7 + k / 5 + i as i64) % 5 - 2) as f64 } else { 0.0 };
            memory.add(Buffer::from_f64(*elem, (0..n).map(at)));
        }
        memory
    }

    /// Written as a program, it does on every machine what the plain kernel does.
    fn agrees(&self, options: &LowerOptions) -> Lowered {
        self.agrees_with(options, assembled)
    }

    /// The same, with the text from there.
    fn agrees_with(&self, options: &LowerOptions, text_of: fn(&str, &Lowered) -> PtxKernel) -> Lowered {
        let (name, args) = (&self.kernel.name, self.args());
        let mut want = self.memory();
        run(name, &self.kernel, self.grid, &args, &mut want);
        let l = round_trip(name, &self.kernel, options);
        let same = |how: &str, got: &Memory| {
            for (n, (a, b)) in want.buffers.iter().zip(&got.buffers).enumerate() {
                let (elem, _) = self.tensors[n];
                let wrong = a.read_f64(elem).iter().zip(b.read_f64(elem)).position(|(a, b)| *a != b);
                assert!(wrong.is_none(), "{name}: {how}: {}: buffer {n} differs at {wrong:?}\n{}", l.plan, text::print(made(&l)));
            }
        };
        let mut got = self.memory();
        run(name, made(&l), self.grid, &args, &mut got);
        same("interpreter", &got);
        let mut got = self.memory();
        run_lanes(name, &l, self.grid, &args, &mut got);
        same("lanes", &got);
        let mut got = self.memory();
        run_text(name, &l, &text_of(name, &l), self.grid, &args, &mut got);
        same("text", &got);
        l
    }
}

/// A product of 64 x 64 whose loop has these bounds.
fn bounded(params: &str, bounds: &str, index: &str) -> String {
    format!(
        "kernel @bounded(v0: view<bf16, [?, ?%8]>, v1: view<bf16, [?, ?%8]>, v2: view<f32, [?, ?]>{params}) {{
    v20 = splat 0.0 : tile<64x64xf32>
    v21 = program_id x
    v22 = mul v21, 64
    v23 = for v24 in {bounds} carry v25 = v20 {{
        {index}
        v27 = load v0[v22, v26] : tile<64x64xbf16>
        v28 = load v1[0, v26] : tile<64x64xbf16>
        v29 = transpose v28, [1, 0]
        v30 = dot v27, v29, v25
        yield v30
    }}
    store v2[v22, 0], v23
}}
"
    )
}

const SHAPES: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[128, 256]), (Scalar::BF16, &[64, 256]), (Scalar::F32, &[128, 64])];

#[test]
fn bounds_are_any_numbers() {
    let _texts = together();
    let source = bounded(", v3: i32, v4: i32, v5: i32", "v3..v4 step v5", "v26 = assume v24, multiple 8");
    let most = i64::from(i32::MAX);
    // No step, one, a part of one, steps that overlap, a start in front of the view, an end that no step reaches without an overflow.
    for bounds in [[0, 256, 64], [8, 200, 24], [64, 64, 64], [128, 64, 8], [-64, 130, 64], [most - 127, most, 64], [192, most - 7, most]] {
        Job::new(&source, [2, 1, 1], &SHAPES, &bounds).agrees(&LowerOptions::default());
    }
}

#[test]
fn bounds_are_constants() {
    let _texts = together();
    for bounds in ["0..256 step 64", "64..256 step 64", "64..192 step 128", "0..0 step 64", "128..64 step 64"] {
        Job::new(&bounded("", bounds, "v26 = add v24, 0"), [2, 1, 1], &SHAPES, &[]).agrees(&LowerOptions::default());
    }
    Job::new(&bounded("", "0i64..256i64 step 64i64", "v26 = cast v24 : i32"), [2, 1, 1], &SHAPES, &[]).agrees(&LowerOptions::default());
}

/// Each grid position has as many steps as it has.
#[test]
fn bounds_follow_the_position() {
    let _texts = together();
    let source = bounded("", "v40..v43 step 64", "v26 = add v24, 0");
    let head = "    v40 = mul v21, 64\n    v41 = mul v21, 192\n    v42 = dim v0, 1\n    v43 = minimum v41, v42\n";
    let source = source.replace("    v23 = for", &format!("{head}    v23 = for"));
    let shapes: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[320, 256]), (Scalar::BF16, &[64, 256]), (Scalar::F32, &[320, 64])];
    for persistent in [true, false] {
        let options = LowerOptions { persistent: Some(persistent), ..LowerOptions::default() };
        Job::new(&source, [5, 1, 1], &shapes, &[]).agrees(&options);
    }
}

/// A step that is not positive stops the launch, as that of the plain kernel does.
#[test]
fn a_step_that_is_none_stops_the_launch() {
    let source = bounded(", v3: i32", "0..256 step v3", "v26 = assume v24, multiple 8");
    let job = Job::new(&source, [1, 1, 1], &SHAPES, &[0]);
    let l = round_trip("bounded", &job.kernel, &LowerOptions::default());
    let run = |k: &Kernel| {
        tilelift_interp::interpret(&tilelift_ir::verify(k).unwrap(), job.grid, &job.args(), &mut job.memory(), &Default::default())
    };
    assert!(run(&job.kernel).is_err() && run(made(&l)).is_err());
    let lanes = tilelift_isel::lane::interpret(&l.program, &sm_90a(), job.grid, &job.args(), &mut job.memory(), &Default::default());
    assert!(lanes.is_err());
}

/// A product whose result leaves through `tail`.
fn tailed(params: &str, tile: [u32; 3], tail: &str) -> String {
    let [m, n, k] = tile;
    format!(
        "kernel @tailed(v0: view<bf16, [?, ?%8]>, v1: view<bf16, [?, ?%8]>{params}) {{
    v20 = program_id x
    v21 = mul v20, {m}
    v22 = dim v0, 1
    v23 = splat 0.0 : tile<{m}x{n}xf32>
    v24 = for v25 in 0..v22 step {k} carry v26 = v23 {{
        v27 = load v0[v21, v25] : tile<{m}x{k}xbf16>
        v28 = load v1[0, v25] : tile<{n}x{k}xbf16>
        v29 = transpose v28, [1, 0]
        v30 = dot v27, v29, v26
        yield v30
    }}
    v31 = cast v24 : tile<{m}x{n}xbf16>
{tail}}}
"
    )
}

#[test]
fn stores_in_choices() {
    let _texts = together();
    let tail = "    v32 = cmp lt v20, v4
    if v32 {
        v33 = neg v31
        store v2[v21, 0], v33
        yield
    } else {
        v34 = cmp eq v20, 3
        if v34 {
            store v3[v21, 0], v31
            yield
        } else {
            yield
        }
        yield
    }
    store v3[v21, 64], v31
";
    let source = tailed(", v2: view<bf16, [?, ?%8]>, v3: view<bf16, [?, ?%8]>, v4: i32", [128, 64, 64], tail);
    let shapes: [(Scalar, &[i64]); 4] =
        [(Scalar::BF16, &[500, 136]), (Scalar::BF16, &[64, 136]), (Scalar::BF16, &[500, 64]), (Scalar::BF16, &[500, 128])];
    let job = Job { outputs: 2, ..Job::new(&source, [4, 1, 1], &shapes, &[2]) };
    let l = job.agrees(&LowerOptions::default());
    let mut stores = 0;
    made(&l).walk(made(&l).body, &mut |i| stores += usize::from(made(&l).insts[i].op == Op::AsyncStore));
    assert_eq!(stores, 3);
}

/// A store of one element of a leading dimension, from an arm.
#[test]
fn stores_of_a_batch() {
    let _texts = together();
    let tail = "    v32 = program_id y
    v33 = reshape v31 : tile<1x128x64xbf16>
    v34 = cmp ne v32, 1
    if v34 {
        store v2[v32, v21, 0], v33
        yield
    } else {
        yield
    }
";
    let source = tailed(", v2: view<bf16, [?, ?, ?%8]>", [128, 64, 64], tail);
    let shapes: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[200, 136]), (Scalar::BF16, &[64, 136]), (Scalar::BF16, &[3, 200, 64])];
    Job::new(&source, [2, 3, 1], &shapes, &[]).agrees(&LowerOptions::default());
}

#[test]
fn narrow_swizzles() {
    let _texts = together();
    let source = tailed(", v2: view<bf16, [?, ?%8]>", [128, 64, 64], "    store v2[v21, 0], v31\n");
    let shapes: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[200, 136]), (Scalar::BF16, &[64, 136]), (Scalar::BF16, &[200, 64])];
    for swizzle in [32, 64] {
        let l = Job::new(&source, [2, 1, 1], &shapes, &[]).agrees(&LowerOptions { swizzle: Some(swizzle), ..LowerOptions::default() });
        assert!(text::print(made(&l)).contains(&format!("local_alloc swizzle={swizzle} : shared<")), "{}", text::print(made(&l)));
    }
    // An author's, of one operand, and of the result; and a layout in registers.
    let required = source
        .replace("v29 = transpose v28", "v38 = require_layout v28, swizzle(32)\n        v29 = transpose v38")
        .replace("    store v2[v21, 0], v31", "    v39 = require_layout v31, swizzle(64)\n    store v2[v21, 0], v39");
    Job::new(&required, [2, 1, 1], &shapes, &[]).agrees(&LowerOptions::default());
    let lanes = "    v39 = require_layout v31, blocked(size=[1, 8], lanes=[4, 8], warps=[8, 1], order=[1, 0])\n    v40 = neg v39
    v41 = release_layout v40\n    store v2[v21, 0], v41";
    Job::new(&source.replace("    store v2[v21, 0], v31", lanes), [2, 1, 1], &shapes, &[]).agrees(&LowerOptions::default());
    let sums = "    v39 = require_layout v31, mma(acc)\n    store v2[v21, 0], v39";
    Job::new(&source.replace("    store v2[v21, 0], v31", sums), [2, 1, 1], &shapes, &[]).agrees(&LowerOptions::default());
}

/// Slots whose bytes are no multiple of what the widest swizzle repeats after.
#[test]
fn slots_of_odd_sizes() {
    let _texts = together();
    for (tile, step) in [([64, 24, 32], 32), ([64, 8, 16], 16), ([128, 40, 32], 32), ([64, 72, 16], 16)] {
        let source = tailed(", v2: view<bf16, [?, ?%8]>", [tile[0], tile[1], step], "    store v2[v21, 0], v31\n");
        let n = i64::from(tile[1]);
        let shapes: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[150, 136]), (Scalar::BF16, &[n, 136]), (Scalar::BF16, &[150, n])];
        Job::new(&source, [3, 1, 1], &shapes, &[]).agrees(&LowerOptions::default());
    }
}

/// What is loaded behind the loop, in places beside the sums or piece by piece.
#[test]
fn tiles_beside_the_sums() {
    let _texts = together();
    let tail = "    v32 = load v2[0, 0] : tile<1x256xf32>
    v33 = broadcast v32 : tile<128x256xf32>
    v34 = load v3[v21, 0] : tile<128x256xf32>
    v35 = add v24, v33
    v36 = add v35, v34
    v37 = cast v36 : tile<128x256xbf16>
    store v4[v21, 0], v37
";
    let params = ", v2: view<f32, [?, ?%8]>, v3: view<f32, [?, ?%8]>, v4: view<bf16, [?, ?%8]>";
    let source = tailed(params, [128, 256, 64], tail);
    let shapes: [(Scalar, &[i64]); 5] = [
        (Scalar::BF16, &[200, 136]),
        (Scalar::BF16, &[256, 136]),
        (Scalar::F32, &[1, 256]),
        (Scalar::F32, &[200, 256]),
        (Scalar::BF16, &[200, 256]),
    ];
    for (stages, bulk) in [(None, None), (Some(2), None), (None, Some(false)), (Some(2), Some(false))] {
        let options = LowerOptions { stages, bulk_stores: bulk, ..LowerOptions::default() };
        Job::new(&source, [2, 1, 1], &shapes, &[]).agrees(&options);
    }
}

/// A tile leaves in parts, one behind the other through the same bytes, from the top level and from an arm.
#[test]
fn tiles_leave_in_parts() {
    let _texts = together();
    let tail = "    v32 = cmp ne v20, 1
    if v32 {
        store v2[v21, 0], v31
        yield
    } else {
        yield
    }
    v33 = neg v31
    store v2[v21, 64], v33
";
    let source = tailed(", v2: view<bf16, [?, ?%8]>", [256, 64, 64], tail);
    let shapes: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[700, 136]), (Scalar::BF16, &[64, 136]), (Scalar::BF16, &[700, 128])];
    let job = Job::new(&source, [3, 1, 1], &shapes, &[]);
    let planned = plan::plan(&job.kernel, &sm_90a(), &LowerOptions::default()).unwrap();
    let whole = (**planned.specialised().unwrap()).clone();
    let parts = plan::Specialised { staging_parts: 2, ..whole };
    let written = program::written(&job.kernel, &sm_90a(), &parts).unwrap();
    assert_eq!(text::print(&written).matches("local_alloc : shared<128x64xbf16>").count(), 2, "{}", text::print(&written));
    // The program is the author's now.
    let l =
        lower(&verify(&written).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&written)));
    let mut memories = [(); 4].map(|()| job.memory());
    run("plain", &job.kernel, job.grid, &job.args(), &mut memories[0]);
    run("written", &written, job.grid, &job.args(), &mut memories[1]);
    run_lanes("parts", &l, job.grid, &job.args(), &mut memories[2]);
    run_text("parts", &l, &assembled("parts", &l), job.grid, &job.args(), &mut memories[3]);
    for (how, m) in ["interpreter", "lanes", "text"].iter().zip(&memories[1..]) {
        assert!(m.buffers[2].bytes() == memories[0].buffers[2].bytes(), "{how}");
    }
}

/// The library's small cases, the last ones of each kind: all their launches, in order.
#[test]
fn cases_of_the_library() {
    let _texts = together();
    let kinds = ["_split", "_atomic", "_stream", "_rest", "_plus_", "_addmm", "_bias_f16_gelu", "_bias_bf16"];
    let options = LowerOptions::default();
    let all = cases();
    let wanted: BTreeSet<&str> = kinds
        .iter()
        .filter_map(|kind| {
            let mut list = all.iter().filter(|c| c.size == Size::Small && c.name.contains(kind));
            list.rfind(|c| c.launches(None).unwrap().iter().any(|l| is_written(&l.kernel, &options)))
        })
        .map(|c| c.name.as_str())
        .collect();
    assert!(wanted.len() >= 5, "{wanted:?}");
    for case in all.iter().filter(|c| wanted.contains(c.name.as_str())) {
        let name = &case.name;
        let tensors = case.make_tensors();
        let mut memories = [(); 3].map(|()| case.memory(&tensors));
        for l in case.launches(None).unwrap() {
            if !is_written(&l.kernel, &options) {
                memories.iter_mut().for_each(|m| run(name, &l.kernel, l.grid, &l.args, m));
                continue;
            }
            let done = round_trip(name, &l.kernel, &options);
            run(name, made(&done), l.grid, &l.args, &mut memories[0]);
            run_lanes(name, &done, l.grid, &l.args, &mut memories[1]);
            run_text(name, &done, &assembled(name, &done), l.grid, &l.args, &mut memories[2]);
        }
        for (how, memory) in ["interpreter", "lanes", "text"].iter().zip(&memories) {
            let verdict = case.judge(&tensors, memory, None).unwrap();
            assert!(verdict.pass(), "{name}: {how}: {verdict}");
        }
    }
}

fn is_written(kernel: &Kernel, options: &LowerOptions) -> bool {
    let planned = plan::plan(kernel, &sm_90a(), options);
    planned.is_ok_and(|p| p.specialised().is_some_and(|s| program::written(kernel, &sm_90a(), s).is_ok()))
}

/// All of the library's specialised loops are written, and what is written reads as the same text.
#[test]
fn what_is_written_of_the_library() {
    // A build with assertions proves what it writes; the same program need not be proved again.
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    let (mut kernels, mut seen) = (Vec::new(), BTreeSet::new());
    for case in cases() {
        let all = case.launches(None).unwrap().into_iter().map(|l| l.kernel);
        kernels.extend(all.filter(|k| seen.insert(text::print(k)) && !k.is_explicit()).map(|k| (case.name.clone(), k)));
    }
    let written = in_parallel(&kernels, |(name, kernel)| {
        let Ok(p) = plan::plan(kernel, &sm_90a(), &options) else { return false };
        let Some(s) = p.specialised() else { return false };
        program::written(kernel, &sm_90a(), s).unwrap_or_else(|why| panic!("{name} is not written: {why:?}"));
        let l = lower(&verify(kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        same_text(name, &l, &options);
        true
    });
    let written = written.iter().filter(|w| **w).count();
    assert!(written > 100, "{written}");
}

fn specialised() -> LowerOptions {
    LowerOptions { schedule: Some(ScheduleKind::Specialised), ..LowerOptions::default() }
}

/// Two sets of consumers, each of two warpgroups: a slot is given back by all groups of the set that has read it.
#[test]
fn sets_of_several_warpgroups() {
    let _texts = together();
    let source = tailed(", v2: view<bf16, [?, ?%8]>", [128, 64, 64], "    store v2[v21, 0], v31\n");
    for (positions, stages) in [(1, None), (3, None), (5, Some(2)), (4, Some(3))] {
        let rows = 128 * positions - 40;
        let shapes: [(Scalar, &[i64]); 3] = [(Scalar::BF16, &[rows, 328]), (Scalar::BF16, &[64, 328]), (Scalar::BF16, &[rows, 64])];
        let options = LowerOptions { consumer_sets: Some(2), consumers: Some(2), stages, ..specialised() };
        let l = Job::new(&source, [positions as u32, 1, 1], &shapes, &[]).agrees(&options);
        let s = l.plan.specialised().unwrap();
        assert_eq!((s.consumer_sets, s.consumers), (2, 2), "{}", l.plan);
    }
}

/// Loops whose products overlap what the lanes compute, and whose number of steps follows from an extent that is fixed: none, one, several, a
/// part of one.
#[test]
fn overlapped_steps_of_a_fixed_extent() {
    let _texts = together();
    for hidden in [8, 64, 128, 344] {
        let source = format!(
            "kernel @layers(v0: view<f16, [?, 64]>, v1: view<f16, [{hidden}, 64]>, v2: view<f16, [?, 64]>, v3: view<f32, [?, 64]>) warps=8 {{
    v4 = program_id x
    v5 = mul v4, 128
    v6 = load v0[v5, 0] : tile<128x64xf16>
    v7 = dim v1, 0
    v8 = splat 0.0 : tile<128x64xf32>
    v9 = for v10 in 0..v7 step 64 carry v11 = v8 {{
        v12 = load v1[v10, 0] : tile<64x64xf16>
        v13 = transpose v12, [1, 0]
        v14 = splat 0.0 : tile<128x64xf32>
        v15 = dot v6, v13, v14
        v16 = maximum v15, v14
        v17 = cast v16 : tile<128x64xf16>
        v18 = load v2[v10, 0] : tile<64x64xf16>
        v19 = dot v17, v18, v11
        yield v19
    }}
    store v3[v5, 0], v9
}}
"
        );
        let shapes: [(Scalar, &[i64]); 4] =
            [(Scalar::F16, &[300, 64]), (Scalar::F16, &[hidden, 64]), (Scalar::F16, &[hidden, 64]), (Scalar::F32, &[300, 64])];
        for overlap in [None, Some(true), Some(false)] {
            // The first iteration ignores what the sum's registers hold. Of a loop that surely runs the text leaves them open, and what ptxas puts
            // there is reported as another product's result.
            let text_of = if overlap == Some(false) { assembled } else { emitted };
            let job = Job::new(&source, [3, 1, 1], &shapes, &[]);
            let l = job.agrees_with(&LowerOptions { overlap, ..specialised() }, text_of);
            assert_eq!(l.plan.specialised().unwrap().overlap.is_some(), overlap != Some(false), "{}", l.plan);
        }
    }
}

/// Products in chains: so many into each of some accumulators, round robin.
fn chains(elem: Scalar, step: u32, accumulators: u32, each: u32) -> String {
    let n = accumulators * each;
    let params: String =
        (0..n).map(|i| format!("v{}: view<{elem}, [?, ?%16]>, v{}: view<{elem}, [?, ?%16]>, ", 2 * i, 2 * i + 1)).collect();
    let out: Vec<String> = (0..accumulators).map(|i| format!("v{}: view<f32, [?, ?]>", 2 * n + i)).collect();
    let list = |from: u32| (0..accumulators).map(|i| format!("v{}", from + i)).collect::<Vec<String>>().join(", ");
    let carry: Vec<String> = (0..accumulators).map(|i| format!("v{} = v103", 120 + i)).collect();
    let mut body = String::new();
    let mut sums: Vec<u32> = (0..accumulators).map(|i| 120 + i).collect();
    for i in 0..n {
        let (at, sum) = (200 + 10 * i, &mut sums[(i % accumulators) as usize]);
        body += &format!(
            "        v{at} = load v{}[v101, v105] : tile<128x{step}x{elem}>
        v{} = load v{}[0, v105] : tile<64x{step}x{elem}>
        v{} = transpose v{}, [1, 0]
        v{} = dot v{at}, v{}, v{sum}\n",
            2 * i,
            at + 1,
            2 * i + 1,
            at + 2,
            at + 1,
            at + 3,
            at + 2
        );
        *sum = at + 3;
    }
    let yields: Vec<String> = sums.iter().map(|v| format!("v{v}")).collect();
    let stores: String = (0..accumulators).map(|i| format!("    store v{}[v101, 0], v{}\n", 2 * n + i, 110 + i)).collect();
    format!(
        "kernel @chains({params}{}) {{
    v100 = program_id x
    v101 = mul v100, 128
    v102 = dim v0, 1
    v103 = splat 0.0 : tile<128x64xf32>
    {} = for v105 in 0..v102 step {step} carry {} {{
{body}        yield {}
    }}
{stores}}}
",
        out.join(", "),
        list(110),
        carry.join(", "),
        yields.join(", ")
    )
}

/// Chains on every machine, with ragged ends; and lowered as the caller asks for nothing.
#[test]
fn chains_of_products_into_one_accumulator() {
    let _texts = together();
    let shapes = |elem: Scalar, n: u32, accumulators: u32, depth: i64| -> Vec<(Scalar, Vec<i64>)> {
        let operands = (0..n).flat_map(|_| [(elem, vec![200, depth]), (elem, vec![64, depth])]);
        operands.chain((0..accumulators).map(|_| (Scalar::F32, vec![200, 64]))).collect()
    };
    let cases = [(Scalar::BF16, 64, 1, 2), (Scalar::F16, 32, 1, 3), (Scalar::BF16, 32, 2, 2), (Scalar::F8E4M3, 64, 1, 2)];
    for (elem, step, accumulators, each) in cases {
        let source = chains(elem, step, accumulators, each);
        for depth in [16, 208, 336] {
            let tensors = shapes(elem, accumulators * each, accumulators, depth);
            let tensors: Vec<(Scalar, &[i64])> = tensors.iter().map(|(e, s)| (*e, &s[..])).collect();
            let job = Job { outputs: accumulators as usize, ..Job::new(&source, [2, 1, 1], &tensors, &[]) };
            let l = job.agrees(&LowerOptions::default());
            let s = l.plan.specialised().unwrap();
            assert_eq!((s.dots.len() as u32, s.mixed), (accumulators * each, false), "{}", l.plan);
        }
    }
    // Two sets of consumers; operands A through registers.
    let source = chains(Scalar::BF16, 64, 1, 2);
    let tensors = shapes(Scalar::BF16, 2, 1, 208);
    let tensors: Vec<(Scalar, &[i64])> = tensors.iter().map(|(e, s)| (*e, &s[..])).collect();
    let job = Job::new(&source, [2, 1, 1], &tensors, &[]);
    job.agrees(&LowerOptions { consumer_sets: Some(2), ..LowerOptions::default() });
    job.agrees(&LowerOptions { a_from_registers: Some(true), ..LowerOptions::default() });
}

/// A sum in the middle of a chain that something else looks at, too, is none of a chain; nor are chains that end in one another's place: each product is
/// waited for.
#[test]
fn what_is_no_chain_is_waited_for() {
    let _texts = together();
    let waited = |source: &str, outputs: u32| {
        let operands = (0..4).flat_map(|_| [(Scalar::BF16, vec![200, 208]), (Scalar::BF16, vec![64, 208])]).take(4 * outputs as usize);
        let tensors: Vec<(Scalar, Vec<i64>)> = operands.chain((0..outputs).map(|_| (Scalar::F32, vec![200, 64]))).collect();
        let tensors: Vec<(Scalar, &[i64])> = tensors.iter().map(|(e, s)| (*e, &s[..])).collect();
        let job = Job { outputs: outputs as usize, ..Job::new(source, [2, 1, 1], &tensors, &[]) };
        let l = job.agrees(&specialised());
        assert!(l.plan.specialised().unwrap().mixed, "{}", l.plan);
    };
    let two = chains(Scalar::BF16, 32, 2, 2);
    waited(&two.replace("yield v223, v233", "yield v233, v223"), 2);
    waited(&two.replace("yield v223, v233", "yield v223, v213"), 2);
    let twice = chains(Scalar::BF16, 64, 1, 2).replace("carry v120 = v103", "carry v120 = v103, v121 = v103");
    waited(&twice.replace("v110 = for", "v110, v111 = for").replace("yield v213", "yield v213, v203"), 1);
}
