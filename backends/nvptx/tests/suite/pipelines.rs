//! Pipelined loops are programs: what the compiler makes of them for chips without bulk units prints, parses, is interpreted, is proved, and
//! lowers to the same text.

use crate::common::assembler::{nothing_to_say, together};
use crate::common::launch::{arguments, run, schedule};
use tilelift_interp::{Arg, Buffer, Memory, Options, ViewArg, interpret};
use tilelift_ir::{Kernel, Scalar, text, verify};
use tilelift_isel::abi::marshal;
use tilelift_isel::lane::{Block, Inst, LaneOptions, interpret as lanes};
use tilelift_isel::{LowerError, LowerOptions, Lowered, Target, lower, prove, prove_by_all_states};
use tilelift_kernels::workload::{AttentionCase, GemmCase};
use tilelift_kernels::{Activation, Attention, Case, Gemm, Size};
use tilelift_nvptx::{EmitOptions, PtxKernel, emit, sm_80, sm_90a};
use tilelift_nvptx_sim as sim;

fn product(config: &Gemm, [m, n, k]: [u32; 3]) -> Case {
    let config = config.clone().for_shape(m, n, k);
    Case { name: format!("{m}x{n}x{k}"), row: 9, size: Size::Small, workload: Box::new(GemmCase { config, m, n, k }) }
}

fn lowered(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Lowered {
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    lower(&verified, target, options).unwrap_or_else(|e| panic!("{}: {e}\n{}", target.name, text::print(kernel)))
}

fn printed(l: &Lowered, target: &Target) -> PtxKernel {
    emit(&l.program, target, &EmitOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn made(l: &Lowered) -> &Kernel {
    match &l.written {
        Some(Ok(made)) => made,
        other => panic!("{}: {:?}", l.plan, other.as_ref().map(|w| w.as_ref().map(|_| ()))),
    }
}

/// The text of the schedule compiles to the same text, and it is proved.
fn round_trip(case: &Case, target: &Target, options: &LowerOptions) -> Lowered {
    let l = lowered(&case.build().expect("builds"), target, options);
    let schedule = text::print(made(&l));
    let file = text::parse(&schedule).unwrap_or_else(|e| panic!("{}: {e}\n{schedule}", case.name));
    assert_eq!(text::print(&file.kernels[0]), schedule, "{}", case.name);
    let again = lowered(&file.kernels[0], target, options);
    assert_eq!(printed(&again, target).text, printed(&l, target).text, "{}", case.name);
    let proof = prove(&l.program, target).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    assert!(proof.states > 0, "{}: nothing was followed", case.name);
    prove_by_all_states(&l.program, target).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    l
}

/// The schedule on the interpreter.
fn interpreted(case: &Case, l: &Lowered) {
    let tensors = case.make_tensors();
    let mut memory = Memory::new();
    for (i, t) in tensors.iter().enumerate() {
        let output = i + 1 == tensors.len();
        memory.add(if output { Buffer::uninit(t.bytes.len()) } else { Buffer::from_bytes(t.bytes.clone()) });
    }
    let verified = verify(made(l)).expect("verifies");
    let run = interpret(&verified, case.grid(), &case.arguments(), &mut memory, &Options::default());
    run.unwrap_or_else(|e| panic!("{}: {e}\n{}", case.name, text::print(made(l))));
    let verdict = case.judge(&tensors, &memory, None).unwrap();
    assert!(verdict.pass(), "{}: {verdict}", case.name);
}

/// The assembler neither spills nor complains.
fn clean(case: &Case, kernel: &PtxKernel, chip: &str) {
    nothing_to_say(&case.name, &kernel.text, chip);
}

/// All judges.
fn judged(case: &Case, options: &LowerOptions) {
    let target = sm_80();
    let l = round_trip(case, &target, options);
    interpreted(case, &l);
    let kernel = printed(&l, &target);
    run(case, &kernel, case.grid(), schedule(1)).unwrap_or_else(|e| panic!("{}: {e}\n{}", case.name, text::print(made(&l))));
    clean(case, &kernel, "sm_80");
}

#[test]
fn storage_orders_and_types() {
    let _texts = together();
    for (elem, order) in
        [(Scalar::BF16, (false, true)), (Scalar::BF16, (false, false)), (Scalar::F16, (true, false)), (Scalar::F16, (true, true))]
    {
        judged(&product(&Gemm::new(elem).transposed(order.0, order.1).tile(64, 64, 32), [80, 136, 104]), &LowerOptions::default());
    }
    judged(&product(&Gemm::new(Scalar::I8).transposed(false, true).tile(64, 64, 64), [80, 80, 144]), &LowerOptions::default());
    judged(&product(&Gemm::new(Scalar::F32).tile(64, 64, 32), [80, 72, 100]), &LowerOptions::default());
}

/// Every number of iterations from none to more than the ring has slots, with every depth of the ring.
#[test]
fn iterations_and_stages() {
    let _texts = together();
    let gemm = Gemm::new(Scalar::F16).tile(32, 32, 16);
    for stages in [2, 3, 4] {
        for k in [1, 8, 16, 40, 64, 80, 144] {
            judged(&product(&gemm, [40, 40, k]), &LowerOptions { stages: Some(stages), ..LowerOptions::default() });
        }
    }
}

#[test]
fn tiles_and_epilogues() {
    let _texts = together();
    judged(&product(&Gemm::new(Scalar::F16).tile(128, 128, 32), [200, 136, 72]), &LowerOptions::default());
    judged(&product(&Gemm::new(Scalar::BF16).tile(64, 128, 64).epilogue(None, Activation::Gelu), [70, 136, 136]), &LowerOptions::default());
    // Rows of which nothing is known: every other width of copies, or none.
    for k in [33, 34, 36] {
        let case = product(&Gemm::new(Scalar::F16).transposed(false, true).tile(64, 64, 32), [64, 64, k]);
        let l = lowered(&case.build().expect("builds"), &sm_80(), &LowerOptions::default());
        assert_eq!(l.written.is_some(), k != 33, "{k}");
        if l.written.is_some() {
            judged(&case, &LowerOptions::default());
        }
    }
}

#[test]
fn attention() {
    let _texts = together();
    for (elem, dim, causal, (queries, keys)) in
        [(Scalar::F16, 64, false, (100, 200)), (Scalar::BF16, 64, true, (130, 130)), (Scalar::F16, 128, true, (64, 64))]
    {
        let config = Attention::new(elem, dim, causal).tile(64, 64, 4).for_shape(queries, keys);
        let workload = Box::new(AttentionCase { config, queries, keys, heads: 1 });
        judged(&Case { name: format!("attention {dim}"), row: 9, size: Size::Small, workload }, &LowerOptions::default());
    }
}

/// A kernel of `i8` views and one of `i32`, whose sums are exact, by all judges: bytes that are compared.
fn exact(kernel: &str, shapes: [&[i64]; 3], grid: [u32; 3]) {
    let l = right(kernel, shapes, grid);
    prove(&l.program, &sm_80()).unwrap_or_else(|e| panic!("{e}\n{}", text::print(made(&l))));
    prove_by_all_states(&l.program, &sm_80()).unwrap_or_else(|e| panic!("{e}"));
}

/// The same without a proof.
fn right(kernel: &str, shapes: [&[i64]; 3], grid: [u32; 3]) -> Lowered {
    let target = sm_80();
    let plain = text::parse(kernel).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    let l = lowered(&plain, &target, &LowerOptions::default());
    let count = |s: &[i64]| s.iter().product::<i64>() as usize;
    let bytes = |n: usize, seed: usize| (0..n).map(|i| ((i * 31 + seed * 17) % 23) as u8).collect::<Vec<u8>>();
    let begin = || {
        let mut memory = Memory::new();
        let mut args: Vec<Arg> = Vec::new();
        for (n, shape) in shapes.iter().enumerate() {
            let (elem, size) = if n == 2 { (Scalar::I32, 4 * count(shape)) } else { (Scalar::I8, count(shape)) };
            let buffer = memory.add(if n == 2 { Buffer::from_bytes(vec![0; size]) } else { Buffer::from_bytes(bytes(size, n)) });
            args.push(ViewArg::dense(buffer, elem, shape).into());
        }
        (memory, args)
    };
    let interpreted = |k: &Kernel| {
        let (mut memory, args) = begin();
        let verified = verify(k).unwrap_or_else(|e| panic!("{}", e.pretty(k)));
        interpret(&verified, grid, &args, &mut memory, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{}", text::print(k)));
        memory.buffers[2].bytes().to_vec()
    };
    let want = interpreted(&plain);
    assert!(want.iter().any(|&b| b != 0));
    assert_eq!(interpreted(made(&l)), want);
    let (mut memory, args) = begin();
    lanes(&l.program, &target, grid, &args, &mut memory, &LaneOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(memory.buffers[2].bytes(), want);
    let kernel = printed(&l, &target);
    let module = sim::Module::parse(&kernel.text).unwrap_or_else(|e| panic!("{e}"));
    let mut device = sim::Memory::new();
    let (memory, args) = begin();
    let bases: Vec<u64> = memory.buffers.iter().map(|b| device.alloc("tensor", sim::Init::Bytes(b.bytes().to_vec()))).collect();
    let values = marshal(&kernel.params, grid, &args, |buffer, offset| bases[buffer] + offset).expect("marshals");
    let args = arguments(&values);
    let launch = sim::Launch {
        entry: &kernel.entry,
        grid,
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        args: &args,
        config: schedule(2),
    };
    module.launch(&launch, &mut device).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(device.read(bases[2], want.len()).expect("is there"), want);
    l
}

/// Loads with masks stay loads, beside those that run ahead.
#[test]
fn masks() {
    exact(
        "kernel @masked(v0: view<i8, [?, ?%16]>, v1: view<i8, [?, ?%16]>, v2: view<i32, [?, ?]>) warps=4 {
            v3 = dim v0, 1
            v4 = splat 0 : tile<32x32xi32>
            v5 = iota 0 : tile<32x32xi32>
            v6 = iota 1 : tile<32x32xi32>
            v7 = cmp ge v5, v6
            v8 = for v9 in 0..v3 step 32 carry v10 = v4 {
                v11 = load v0[0, v9] : tile<32x32xi8>
                v12 = load v1[v9, 0], mask=v7 : tile<32x32xi8>
                v13 = dot v11, v12, v10
                yield v13
            }
            store v2[0, 0], v8
        }",
        [&[30, 112], &[112, 32], &[30, 32]],
        [1, 1, 1],
    );
}

/// A loop that pipelines inside of one that stores what it gives: slots are free when it begins again. Bounds are no literals.
#[test]
fn loops_in_loops() {
    exact(
        "kernel @nested(v0: view<i8, [?, ?%16]>, v1: view<i8, [?, ?%16]>, v2: view<i32, [?, ?]>) warps=4 {
            v3 = dim v0, 1
            v4 = dim v0, 0
            v5 = program_id x
            v6 = num_programs x
            v7 = mul v5, 32
            v8 = mul v6, 32
            for v9 in v7..v4 step v8 {
                v10 = splat 0 : tile<32x32xi32>
                v11 = mul v5, 16
                v12 = for v13 in v11..v3 step 32 carry v14 = v10 {
                    v15 = load v0[v9, v13] : tile<32x32xi8>
                    v16 = load v1[v13, 0] : tile<32x32xi8>
                    v17 = dot v15, v16, v14
                    yield v17
                }
                store v2[v9, 0], v12
                yield
            }
        }",
        [&[150, 112], &[112, 32], &[150, 32]],
        [2, 1, 1],
    );
}

/// The rings of all loops are there together: many loops have few slots each, or none. Who asks for stages hears that they do not fit.
#[test]
fn rings_of_many_loops() {
    let target = sm_80();
    let kernel = |loops: usize| {
        let mut body = String::from("v3 = dim v0, 1\nv4 = splat 0 : tile<64x64xi32>\n");
        for n in 0..loops {
            let v = |k: usize| 5 + 6 * n + k;
            let sum = if n == 0 { 4 } else { v(0) - 6 };
            body += &format!("v{} = for v{} in 0..v3 step 64 carry v{} = v{sum} {{\n", v(0), v(1), v(2));
            body += &format!("v{} = load v0[0, v{}] : tile<64x64xi8>\nv{} = load v1[v{}, 0] : tile<64x64xi8>\n", v(3), v(1), v(4), v(1));
            body += &format!("v{} = dot v{}, v{}, v{}\nyield v{}\n}}\n", v(5), v(3), v(4), v(2), v(5));
        }
        let last = 5 + 6 * (loops - 1);
        let text = format!(
            "kernel @many(v0: view<i8, [?, ?%16]>, v1: view<i8, [?, ?%16]>, v2: view<i32, [?, ?]>) warps=4 {{\n{body}store v2[0, 0], v{last}\n}}"
        );
        text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernels.remove(0)
    };
    for loops in [1, 3, 24, 300] {
        let l = lowered(&kernel(loops), &target, &LowerOptions::default());
        // Two tiles of 4 KiB each.
        let most = (target.shared_bytes as usize / (8192 * loops)) as u32;
        assert_eq!(l.written.is_some(), most > 1, "{loops} loops: {}", l.plan);
        assert!(l.plan.stages <= most.max(1), "{loops} loops: {}", l.plan);
        assert!(l.program.shared_bytes <= target.shared_bytes, "{loops} loops");
    }
    let asked = LowerOptions { stages: Some(3), ..LowerOptions::default() };
    let many = kernel(24);
    let refused = lower(&verify(&many).expect("verifies"), &target, &asked).map(|l| l.plan.to_string());
    assert!(matches!(refused, Err(LowerError::ResourceExceeded { .. })), "{refused:?}");
}

/// Calls `f` with every list of instructions of a program.
fn each_block(block: &mut Block, f: &mut dyn FnMut(&mut Block)) {
    f(block);
    for inst in block.iter_mut() {
        match inst {
            Inst::For(l) => each_block(&mut l.body, f),
            Inst::If(c) => {
                each_block(&mut c.then, f);
                each_block(&mut c.otherwise, f);
            }
            _ => {}
        }
    }
}

/// Refuses a program that lacks one of the instructions that `is` names, or has it changed.
fn refused(l: &Lowered, what: &str, is: &dyn Fn(&Inst) -> bool, change: &dyn Fn(&mut Inst) -> bool) {
    let mut sites = 0;
    each_block(&mut l.program.clone().body, &mut |b| sites += b.iter().filter(|i| is(i)).count());
    assert!(sites > 0, "no {what}");
    for n in 0..sites {
        let (mut planted, mut at) = (l.program.clone(), 0);
        each_block(&mut planted.body, &mut |b| {
            b.retain_mut(|i| {
                at += usize::from(is(i));
                !(is(i) && at == n + 1) || change(i)
            });
        });
        assert!(prove(&planted, &sm_80()).is_err(), "{what} {n} is not missed");
    }
}

/// The proof finds what the loops of a program lack: the wait, a group of its own for each step, the barrier.
fn loops_are_proved(l: &Lowered) {
    let in_loop = |i: &Inst| matches!(i, Inst::WaitCopies { pending } if *pending > 0);
    refused(l, "wait", &in_loop, &|_| false);
    refused(l, "wait for fewer", &in_loop, &|i| {
        if let Inst::WaitCopies { pending } = i {
            *pending += 1;
        }
        true
    });
    refused(l, "group", &|i| matches!(i, Inst::CommitCopies), &|_| false);
    let mut loops = 0;
    each_block(&mut l.program.clone().body, &mut |b| loops += usize::from(b.iter().any(in_loop)));
    for n in 0..loops {
        // Behind the loop nobody reads what is copied.
        let (mut at, mut first, mut planted) = (0, true, l.program.clone());
        each_block(&mut planted.body, &mut |b| {
            if b.iter().any(in_loop) {
                at += 1;
                b.retain(|i| at != n + 1 || !matches!(i, Inst::Barrier) || !std::mem::take(&mut first));
            }
        });
        assert!(prove(&planted, &sm_80()).is_err(), "the barrier of loop {n} is not missed");
    }
}

/// The proof finds what a program lacks, the last wait among it.
#[test]
fn planted_faults_are_found() {
    let case = product(&Gemm::new(Scalar::F16).tile(64, 64, 32), [80, 72, 104]);
    let l = round_trip(&case, &sm_80(), &LowerOptions::default());
    loops_are_proved(&l);
    refused(&l, "last wait", &|i| matches!(i, Inst::WaitCopies { pending: 0 }), &|_| false);
}

/// The same of loops in a row: what is forgotten of the rings in front is nothing that those behind are proved by, and there are as many
/// states more with each loop, not as many times more.
#[test]
fn planted_faults_are_found_in_every_loop() {
    let text = include_str!("../../../../tests/tile/dot/seven_pipelined_loops.tile");
    let file = text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let options = LowerOptions { warps: Some(2), ..LowerOptions::default() };
    let l = lowered(&file.kernels[0], &sm_80(), &options);
    let states = |l: &Lowered| prove(&l.program, &sm_80()).unwrap_or_else(|e| panic!("{e}")).states;
    assert!((7..400).contains(&states(&l)), "{} states", states(&l));
    loops_are_proved(&l);
}

/// Chips with bulk units run the same programs, where their loops are pipelined.
#[test]
fn the_same_on_sm_90a() {
    let _texts = together();
    let case = product(&Gemm::new(Scalar::BF16).tile(64, 64, 32), [80, 136, 104]);
    let options = LowerOptions { schedule: Some(tilelift_isel::ScheduleKind::Pipelined), ..LowerOptions::default() };
    let l = round_trip(&case, &sm_90a(), &options);
    interpreted(&case, &l);
    let kernel = printed(&l, &sm_90a());
    run(&case, &kernel, case.grid(), schedule(1)).unwrap_or_else(|e| panic!("{e}"));
    clean(&case, &kernel, "sm_90a");
}

/// A loop of one stage does not copy ahead, and there is nothing to write.
#[test]
fn one_stage_is_no_pipeline() {
    let kernel = product(&Gemm::new(Scalar::F16).tile(64, 64, 32), [80, 72, 104]).build().expect("builds");
    assert!(lowered(&kernel, &sm_80(), &LowerOptions { stages: Some(1), ..LowerOptions::default() }).written.is_none());
}

/// Loops that copy ahead stand in choices and in loops that end when they find out. The proof does not follow them there.
#[test]
fn loops_in_choices() {
    right(
        "kernel @choice(v0: view<i8, [?, ?%16]>, v1: view<i8, [?, ?%16]>, v2: view<i32, [?, ?]>) warps=4 {
            v3 = splat 0 : tile<32x32xi32>
            v4 = dim v0, 1
            v5 = program_id x
            v6 = mul v5, 32
            v7 = cmp gt v5, 0
            v8 = if v7 {
                v9 = for v10 in 0..v4 step 32 carry v11 = v3 {
                    v12 = load v0[v6, v10] : tile<32x32xi8>
                    v13 = load v1[v10, 0] : tile<32x32xi8>
                    v14 = dot v12, v13, v11
                    yield v14
                }
                yield v9
            } else {
                v15 = splat 7 : tile<32x32xi32>
                yield v15
            }
            store v2[v6, 0], v8
        }",
        [&[60, 112], &[112, 32], &[60, 32]],
        [2, 1, 1],
    );
    right(
        "kernel @endless(v0: view<i8, [?, ?%16]>, v1: view<i8, [?, ?%16]>, v2: view<i32, [?, ?]>) warps=4 {
            v3 = splat 0 : tile<32x32xi32>
            v4 = dim v0, 1
            v5 = dim v0, 0
            v6, v7 = while carry v8 = v5, v9 = v3 {
                v10 = cmp gt v8, 0
                yield v10
            } do carry v21, v12 {
                v11 = sub v21, 30
                v13 = for v14 in 0..v4 step 32 carry v15 = v12 {
                    v16 = load v0[v11, v14] : tile<32x32xi8>
                    v17 = load v1[v14, 0] : tile<32x32xi8>
                    v18 = dot v16, v17, v15
                    yield v18
                }
                yield v11, v13
            }
            store v2[0, 0], v7
        }",
        [&[90, 112], &[112, 32], &[32, 32]],
        [1, 1, 1],
    );
}

/// Every kernel of the library whose loops copy ahead is written.
#[test]
fn the_library() {
    let target = sm_80();
    let mut written = 0;
    for case in tilelift_kernels::cases() {
        let Ok(tile) = case.build() else { continue };
        if tile.is_explicit() {
            continue;
        }
        let l = lowered(&tile, &target, &LowerOptions::default());
        if l.written.is_none() {
            assert!(!l.program.to_string().contains("wait_copies 1"), "{}", case.name);
            continue;
        }
        made(&l);
        written += 1;
    }
    assert!(written > 200, "{written} written");
}
