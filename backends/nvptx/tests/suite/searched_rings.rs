//! Layouts of kernels whose lanes copy ahead are searched: the slots of their rings lie in the map that suits those who fill them and those who
//! fetch from them, in loops that the compiler pipelines and in what authors write. Numbers stay, proofs hold, and the banks do what was priced.

use crate::common::launch::{arguments, counted, schedule};
use tilelift_interp::{Arg, Buffer, Memory, Options, ViewArg, interpret};
use tilelift_ir::{Kernel, Scalar, text, verify};
use tilelift_isel::abi::marshal;
use tilelift_isel::{LayoutChoice, LowerError, LowerOptions, Lowered, Resource, ScheduleKind, Target, choose, lower, prove};
use tilelift_kernels::workload::{AttentionCase, GemmCase};
use tilelift_kernels::{Attention, Case, Gemm, Size};
use tilelift_nvptx::{EmitOptions, PtxKernel, emit, sm_80, sm_90a};
use tilelift_nvptx_sim as sim;

fn product(config: Gemm, [m, n, k]: [u32; 3]) -> Case {
    let name = format!("{config:?} {m}x{n}x{k}");
    let config = config.for_shape(m, n, k);
    Case { name, row: 9, size: Size::Small, workload: Box::new(GemmCase { config, m, n, k }) }
}

fn attention(elem: Scalar, dim: u32, causal: bool, [queries, keys]: [u32; 2]) -> Case {
    let config = Attention::new(elem, dim, causal).tile(64, 64, 4).for_shape(queries, keys);
    let workload = Box::new(AttentionCase { config, queries, keys, heads: 1 });
    Case { name: format!("attention {elem} {dim}"), row: 9, size: Size::Small, workload }
}

fn options(layouts: LayoutChoice) -> LowerOptions {
    LowerOptions { schedule: Some(ScheduleKind::Pipelined), layouts, ..LowerOptions::default() }
}

fn lowered(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Lowered {
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    lower(&verified, target, options).unwrap_or_else(|e| panic!("{}: {e}\n{}", target.name, text::print(kernel)))
}

fn printed(l: &Lowered, target: &Target) -> PtxKernel {
    emit(&l.program, target, &EmitOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The assembler does not complain, nor does it spill, unless layouts are random.
fn clean(name: &str, kernel: &PtxKernel, chip: &str, choice: LayoutChoice) {
    let random = matches!(choice, LayoutChoice::Random(_));
    match tilelift_oracle::assemble(&kernel.text, chip) {
        Ok(r) => assert!((random || r.spills == 0 && r.stack == 0) && r.warnings.is_empty(), "{name}: {r:?}"),
        Err(tilelift_oracle::AsmError::Missing) => assert!(!tilelift_oracle::required(), "ptxas is missing"),
        Err(e) => panic!("{name}: {e}"),
    }
}

/// What a case's text does in the simulator, and judges its numbers; its program is proved and assembled.
fn judged(case: &Case, target: &Target, choice: LayoutChoice) -> (Lowered, PtxKernel, sim::Report) {
    let l = lowered(&case.build().expect("builds"), target, &options(choice));
    assert_eq!(l.fallback, None, "{}", case.name);
    assert!(matches!(l.written, Some(Ok(_))), "{}: {}", case.name, l.plan);
    prove(&l.program, target).unwrap_or_else(|e| panic!("{} {choice:?}: {e}", case.name));
    let kernel = printed(&l, target);
    let report = counted(case, &kernel, case.grid(), schedule(1)).unwrap_or_else(|e| panic!("{} {choice:?}: {e}", case.name));
    clean(&case.name, &kernel, target.name, choice);
    (l, kernel, report)
}

/// Passes and conflicts of one run of each access by all warps, as the simulator saw them.
fn once(l: &Lowered, report: &sim::Report) -> (u64, u64) {
    let sum = |count: fn(&sim::SiteReport) -> u64| {
        let ran = report.sites.iter().filter(|s| s.executed > 0);
        ran.map(|s| count(s) * u64::from(l.program.warps) / s.executed).sum()
    };
    (sum(|s| s.wavefronts), sum(sim::SiteReport::conflict_excess))
}

/// Where the plain swizzle has conflicts, another map is found that has none, on both generations of chips, and what the banks do is what the
/// layouts said.
#[test]
fn rings_of_words_and_bytes_lie_without_conflicts() {
    for target in [sm_80(), sm_90a()] {
        for (elem, (ta, tb), tile) in [
            (Scalar::F32, (false, false), [64, 64, 32]),
            (Scalar::F32, (true, false), [64, 64, 32]),
            (Scalar::I8, (true, true), [64, 64, 64]),
            (Scalar::I8, (false, false), [64, 64, 64]),
        ] {
            let shape = [128, 64, 128];
            let case = product(Gemm::new(elem).transposed(ta, tb).tile(tile[0], tile[1], tile[2]), shape);
            let (_, plain, before) = judged(&case, &target, LayoutChoice::Spread);
            let (l, searched, after) = judged(&case, &target, LayoutChoice::Searched);
            assert!(l.searched && plain.text != searched.text, "{}", case.name);
            assert!(before.conflict_excess() > 0, "{}: there is nothing to find", case.name);
            assert_eq!(after.conflict_excess(), 0, "{} on {}", case.name, target.name);
            assert_eq!((l.traffic.wavefronts, l.traffic.conflicts), once(&l, &after), "{}", case.name);
        }
    }
}

/// Weights of attention go from product to product in registers.
#[test]
fn attention_converts_its_result_alone() {
    for target in [sm_80(), sm_90a()] {
        let case = attention(Scalar::BF16, 64, true, [130, 130]);
        let (plain, _, before) = judged(&case, &target, LayoutChoice::Spread);
        let (searched, _, after) = judged(&case, &target, LayoutChoice::Searched);
        assert!(searched.conversions[2] < plain.conversions[2], "{:?} {:?}", plain.conversions, searched.conversions);
        assert!(after.conflict_excess() <= before.conflict_excess());
        assert!(after.wavefronts < before.wavefronts, "{} {}", before.wavefronts, after.wavefronts);
    }
}

/// Random prices take random maps, orders of k and places of operands: all of them are right.
#[test]
fn random_choices_compute_the_same_numbers() {
    let (mut seed, mut texts) = (0, std::collections::BTreeSet::new());
    for target in [sm_80(), sm_90a()] {
        for (elem, order, tile, shape) in [
            (Scalar::F16, (false, true), [64, 64, 32], [80, 72, 104]),
            (Scalar::BF16, (true, false), [64, 32, 64], [64, 64, 160]),
            (Scalar::F32, (false, false), [32, 64, 16], [40, 72, 52]),
            (Scalar::I8, (false, false), [64, 64, 64], [80, 80, 144]),
        ] {
            let case = product(Gemm::new(elem).transposed(order.0, order.1).tile(tile[0], tile[1], tile[2]), shape);
            for _ in 0..4 {
                seed += 1;
                texts.insert(judged(&case, &target, LayoutChoice::Random(seed)).1.text);
            }
        }
        for elem in [Scalar::F16, Scalar::BF16] {
            seed += 1;
            texts.insert(judged(&attention(elem, 64, seed % 2 == 0, [70, 130]), &target, LayoutChoice::Random(seed)).1.text);
        }
    }
    assert!(texts.len() > 30, "{} different texts", texts.len());
}

/// What an author writes with copies of his own. Rows of A and B, columns of A where `order` says so.
fn by_hand(elem: &str, sum: &str, stages: u32, [m, n, k]: [u32; 3], uses: &str) -> String {
    let zero = if sum == "i32" { "0" } else { "0.0" };
    let (ahead, pending) = (stages - 1, stages - 2);
    format!(
        "kernel @by_hand(v0: view<{elem}, [?, ?%16]>, v1: view<{elem}, [?, ?%16]>, v2: view<{sum}, [?, ?]>) warps=4 {{
            v3 = local_alloc : shared<{stages}x{m}x{k}x{elem}>
            v4 = local_alloc : shared<{stages}x{k}x{n}x{elem}>
            v5 = dim v0, 1
            for v6 in 0..{ahead} step 1 {{
                v7 = mul v6, {k}
                v8 = local_index v3, v6
                copy_async v0[0, v7], v8
                v9 = local_index v4, v6
                copy_async v1[v7, 0], v9
                copy_async_commit
                yield
            }}
            v10 = splat {zero} : tile<{m}x{n}x{sum}>
            v11, v12, v13 = for v14 in 0..v5 step {k} carry v15 = v10, v16 = 0, v17 = {ahead} {{
                copy_async_wait {pending}
                task_barrier
                v18 = add v14, {past}
                v19 = local_index v3, v17
                copy_async v0[0, v18], v19
                v20 = local_index v4, v17
                copy_async v1[v18, 0], v20
                copy_async_commit
                v21 = local_index v3, v16
                v22 = local_load v21
                v23 = local_index v4, v16
                v24 = local_load v23
                {uses}
                v26 = add v16, 1
                v27 = cmp eq v16, {ahead}
                v28 = select v27, 0, v26
                v29 = add v17, 1
                v30 = cmp eq v17, {ahead}
                v31 = select v30, 0, v29
                yield v25, v28, v31
            }}
            copy_async_wait 0
            store v2[0, 0], v11
        }}",
        past = ahead * k,
    )
}

/// Runs a kernel of `i8` views and one of `i32`, whose sums are exact, on the interpreter and in the simulator.
fn exact(kernel: &Kernel, l: &Lowered, target: &Target, shapes: [[i64; 2]; 3]) -> sim::Report {
    let bytes = |n: i64, seed: i64| (0..n).map(|i| ((i * 31 + seed * 17) % 23) as u8).collect::<Vec<u8>>();
    let begin = || {
        let mut memory = Memory::new();
        let mut args: Vec<Arg> = Vec::new();
        for (n, shape) in shapes.iter().enumerate() {
            let (elem, count) = if n == 2 { (Scalar::I32, 4 * shape[0] * shape[1]) } else { (Scalar::I8, shape[0] * shape[1]) };
            let data = if n == 2 { vec![0; count as usize] } else { bytes(count, n as i64) };
            args.push(ViewArg::dense(memory.add(Buffer::from_bytes(data)), elem, shape).into());
        }
        (memory, args)
    };
    let (mut memory, args) = begin();
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    interpret(&verified, [1; 3], &args, &mut memory, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let want = memory.buffers[2].bytes().to_vec();
    let text = printed(l, target);
    let module = sim::Module::parse(&text.text).unwrap_or_else(|e| panic!("{e}"));
    let mut device = sim::Memory::new();
    let (memory, args) = begin();
    let bases: Vec<u64> = memory.buffers.iter().map(|b| device.alloc("tensor", sim::Init::Bytes(b.bytes().to_vec()))).collect();
    let values = marshal(&text.params, [1; 3], &args, |buffer, offset| bases[buffer] + offset).expect("marshals");
    let args = arguments(&values);
    let launch = sim::Launch {
        entry: &text.entry,
        grid: [1; 3],
        block: [text.threads, 1, 1],
        shared_bytes: text.shared_bytes,
        args: &args,
        config: schedule(2),
    };
    let report = module.launch(&launch, &mut device).unwrap_or_else(|e| panic!("{e}\n{}", text.text));
    assert_eq!(device.read(bases[2], want.len()).expect("is there"), want, "{}", text::print(kernel));
    report
}

fn parsed(source: &str) -> Kernel {
    text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}")).kernels.remove(0)
}

/// Copies that an author writes find the map that suits them, as those of the compiler do; his program is proved with it.
#[test]
fn rings_by_hand_profit_in_the_same_way() {
    let kernel = parsed(&by_hand("i8", "i32", 3, [64, 64, 64], "v25 = dot v22, v24, v15"));
    let shapes = [[64, 160], [160, 64], [64, 64]];
    let plain = lowered(&kernel, &sm_80(), &LowerOptions::default());
    let before = exact(&kernel, &plain, &sm_80(), shapes);
    assert!(before.conflict_excess() > 0);
    let l = lowered(&kernel, &sm_80(), &options(LayoutChoice::Searched));
    assert!(l.searched && l.fallback.is_none(), "{:?}", l.fallback);
    let after = exact(&kernel, &l, &sm_80(), shapes);
    assert_eq!(after.conflict_excess(), 0);
    assert_eq!((l.traffic.wavefronts, l.traffic.conflicts), once(&l, &after));
    for seed in 0..8 {
        let l = lowered(&kernel, &sm_80(), &options(LayoutChoice::Random(seed)));
        assert_eq!(l.fallback, None, "{seed}");
        prove(&l.program, &sm_80()).unwrap_or_else(|e| panic!("{seed}: {e}"));
        exact(&kernel, &l, &sm_80(), shapes);
    }
}

/// Slots from which products do not fetch in the plain assignment, and tiles that several products read, lie as well as others do.
#[test]
fn slots_of_other_extents_and_of_several_readers() {
    for (source, shapes) in [
        (by_hand("i8", "i32", 2, [32, 32, 96], "v25 = dot v22, v24, v15"), [[32, 224], [224, 32], [32, 32]]),
        (by_hand("i8", "i32", 3, [48, 32, 32], "v25 = dot v22, v24, v15"), [[48, 112], [112, 32], [48, 32]]),
        (
            by_hand(
                "i8",
                "i32",
                3,
                [32, 32, 32],
                "v32 = dot v22, v24, v15\nv33 = transpose v24, [1, 0]\nv34 = dot v33, v24, v32\nv25 = dot v22, v22, v34",
            ),
            [[32, 112], [112, 32], [32, 32]],
        ),
    ] {
        let kernel = parsed(&source);
        for choice in [LayoutChoice::Spread, LayoutChoice::Searched].into_iter().chain((0..6).map(LayoutChoice::Random)) {
            let l = lowered(&kernel, &sm_80(), &options(choice));
            assert_eq!(l.fallback, None, "{choice:?}\n{source}");
            exact(&kernel, &l, &sm_80(), shapes);
        }
    }
}

/// A ring of which somebody else takes a part, or that two loads read, keeps the order of its buffer.
#[test]
fn rings_that_others_look_at_keep_their_order() {
    let uses = "v40 = local_slice v21, [0, 0] : shared<32x64xi8>\nv41 = local_load v40\nv42 = cast v41 : tile<32x64xi32>\nv43 = reduce add v42, axis 0\n\
                v44 = reshape v43 : tile<1x64xi32>\nv45 = broadcast v44 : tile<64x64xi32>\nv46 = add v15, v45\nv25 = dot v22, v24, v46";
    let kernel = parsed(&by_hand("i8", "i32", 3, [64, 64, 64], uses));
    let shapes = [[64, 160], [160, 64], [64, 64]];
    for choice in [LayoutChoice::Searched, LayoutChoice::Random(1), LayoutChoice::Random(2)] {
        let l = lowered(&kernel, &sm_80(), &options(choice));
        assert_eq!(l.fallback, None);
        let buffers = &l.plan.task_plan().expect("says what lanes do").buffers;
        let mapped: Vec<bool> = buffers.values().map(|f| f.slot.is_some()).collect();
        assert!(!mapped[0] && (mapped[1] || choice != LayoutChoice::Searched), "{choice:?}: {mapped:?}");
        exact(&kernel, &l, &sm_80(), shapes);
    }
}

/// Layouts that take more shared memory than there is are not lowered: the plain ones are, and the reason is there.
#[test]
fn what_does_not_fit_is_known_from_sizes() {
    // The ring leaves so much that rows with gaps, or a trip between layouts beside it, are too much.
    let case = product(Gemm::new(Scalar::F32).tile(128, 128, 32), [128, 128, 96]);
    let kernel = case.build().expect("builds");
    let plain = lowered(&kernel, &sm_80(), &LowerOptions { stages: Some(5), ..options(LayoutChoice::Spread) });
    let mut refused = 0;
    for seed in 0..24 {
        let l = lowered(&kernel, &sm_80(), &LowerOptions { stages: Some(5), ..options(LayoutChoice::Random(seed)) });
        match &l.fallback {
            None => assert!(l.program.shared_bytes <= sm_80().shared_bytes),
            Some(LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, .. }) => {
                assert!(need > have && l.program == plain.program && !l.searched, "{need} {have}");
                refused += 1;
            }
            Some(why) => panic!("{why}"),
        }
    }
    assert!(refused > 0, "all of them fit");
}

/// The same of a kernel without a loop: as it is written a tile changes its layout behind the product, whose operands wait in shared memory, and not
/// in front of it.
#[test]
fn what_does_not_fit_is_known_from_sizes_without_a_ring() {
    let kernel = parsed(
        "kernel @beside(v0: view<f32, [16, 1024]>, v1: view<f32, [1024, 16]>, v2: view<f32, [64, 256]>, v3: view<f32, [256, 64]>, \
                        v4: view<f32, [16, 16]>) warps=4 {
            v5 = load v0[0, 0] : tile<16x1024xf32>
            v6 = load v1[0, 0] : tile<1024x16xf32>
            v7 = load v2[0, 0] : tile<64x256xf32>
            v10 = splat 0.0 : tile<16x16xf32>
            v11 = dot v5, v6, v10
            store v4[0, 0], v11
            v8 = transpose v7, [1, 0]
            store v3[0, 0], v8
        }",
    );
    let plain = lowered(&kernel, &sm_80(), &LowerOptions::default());
    assert!(plain.program.shared_bytes >= 128 * 1024);
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..24 {
        let l = lowered(&kernel, &sm_80(), &LowerOptions { layouts: LayoutChoice::Random(seed), ..LowerOptions::default() });
        match &l.fallback {
            None => taken += u32::from(l.searched),
            Some(LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, .. }) => {
                assert!(need > have && l.program == plain.program && !l.searched, "{need} {have}");
                refused += 1;
            }
            Some(why) => panic!("{why}"),
        }
    }
    assert!(refused > 0 && taken > 0, "{refused} of them do not fit, {taken} do");
}

/// The search shows the program that is lowered, with the map of each slot.
#[test]
fn what_is_shown_is_the_written_program() {
    let case = product(Gemm::new(Scalar::F32).tile(64, 64, 32), [128, 64, 128]);
    let kernel = case.build().expect("builds");
    let verified = verify(&kernel).expect("verifies");
    let shown = choose(&verified, &sm_80(), &LowerOptions::default(), true).expect("is planned").expect("is searched");
    assert!(shown.declined.is_none() && shown.text.contains("copy_async") && shown.text.contains("plainly in"), "{}", shown.text);
}
