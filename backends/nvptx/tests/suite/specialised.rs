//! Specialised kernels of sm_90a: the plain product loop of the kernel library through the lane interpreter, and its text through the
//! assembler, which must have nothing to say: an advisory about serialised multiplications would mean that they wait for one another.

use crate::common::assembler::together;
use crate::common::units::{clean, lowered, product, right, simulated};
use tilelift_interp::{Buffer, Memory};
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{LaneOptions, RegisterError, interpret};
use tilelift_isel::reason::{NotSpecialised, Refusal};
use tilelift_isel::{LowerError, LowerOptions, Lowered, Resource, Schedule, ScheduleKind, Target, lower};
use tilelift_kernels::workload::{AttentionCase, FusedGemmCase};
use tilelift_kernels::{Activation, Attention, Case, FusedGemm, Gemm, Residual, Size};
use tilelift_nvptx::{EmitError, EmitOptions, emit, sm_80, sm_90a};

fn both(config: Gemm, shape: [u32; 3], options: &LowerOptions) {
    let case = product(&config, shape);
    let l = lowered(&case, &LowerOptions { schedule: Some(ScheduleKind::Specialised), ..*options });
    assert!(matches!(l.plan.schedule, Schedule::Specialised(_)), "{}: {}", case.name, l.plan);
    right(&case, &l);
    clean(&case, &l);
}

/// Sums that begin at nothing: assemblers before 12.9 are given a number for each in front of the loop, others none.
#[test]
fn sums_have_a_number_in_front_of_their_loop_for_old_assemblers() {
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64);
    let case = product(&gemm, [200, 136, 200]);
    let l = lowered(&case, &LowerOptions { schedule: Some(ScheduleKind::Specialised), ..LowerOptions::default() });
    let text = |max_version| emit(&l.program, &sm_90a(), &EmitOptions { max_version, ..EmitOptions::default() }).unwrap().text;
    // Sums of the first product, and how many of them are zeros in front of it.
    let zeros = |text: &str| -> [usize; 2] {
        let (front, product) = text.split_once("wgmma.mma_async").expect("a product");
        let sums = product.split_once('{').and_then(|(_, rest)| rest.split_once('}')).expect("a list of sums").0;
        let zero = |sum: &&str| front.contains(&format!("mov.f32 {sum}, 0f00000000;"));
        [sums.split(", ").count(), sums.split(", ").filter(zero).count()]
    };
    for (version, begun) in [(None, false), (Some((8, 8)), false), (Some((8, 7)), true), (Some((8, 0)), true)] {
        let [sums, zero] = zeros(&text(version));
        assert_eq!((sums, zero), (64, if begun { 64 } else { 0 }), "{version:?}");
    }
}

/// Sums, a bias that all rows of a lane share, and a residual as large as the sums: more than a lane holds at once. What is loaded comes
/// piece by piece then.
#[test]
fn epilogues_that_load_whole_tiles_do_not_spill() {
    let _texts = together();
    let cases = [
        ([128, 256, 64], [2, 1], Activation::Silu, Scalar::F16),
        ([128, 256, 64], [2, 1], Activation::Gelu, Scalar::F16),
        ([128, 128, 64], [1, 2], Activation::Gelu, Scalar::F16),
    ];
    for (tile, [consumers, consumer_sets], activation, elem) in cases {
        let [bm, bn, bk] = tile;
        let gemm = Gemm::new(elem).transposed(false, true).tile(bm, bn, bk).epilogue(Some(elem), activation);
        let shape = |gemm: Gemm, [m, n, k]: [u32; 3]| {
            let config = FusedGemm::new(gemm.for_shape(m, n, k)).plus(Residual::Plain(elem));
            let workload = Box::new(FusedGemmCase { config, m, n, k, batch: 1 });
            Case { name: format!("{tile:?} {activation:?}"), row: 9, size: Size::Small, workload }
        };
        let options = LowerOptions { consumers: Some(consumers), consumer_sets: Some(consumer_sets), ..LowerOptions::default() };
        let large = shape(gemm.clone(), [2048, 4096, 1024]);
        let l = lowered(&large, &options);
        assert!(matches!(l.plan.schedule, Schedule::Specialised(_)), "{}", l.plan);
        clean(&large, &l);
        let small = shape(gemm, [bm + 8, bn + 8, 136]);
        right(&small, &lowered(&small, &options));
    }
}

#[test]
fn all_storage_orders() {
    let _texts = together();
    for elem in [Scalar::BF16, Scalar::F16] {
        for order in [(false, false), (false, true), (true, false), (true, true)] {
            let gemm = Gemm::new(elem).transposed(order.0, order.1).tile(128, 128, 64);
            both(gemm, [200, 136, 200], &LowerOptions::default());
        }
    }
}

#[test]
fn the_large_tile_and_its_text() {
    let _texts = together();
    let case = product(&Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 256, 64), [136, 264, 72]);
    let l = lowered(&case, &LowerOptions::default());
    right(&case, &l);
    let text = clean(&case, &l);
    for (what, times) in [
        ("setmaxnreg.dec.sync.aligned.u32 40", 1),
        ("setmaxnreg.inc.sync.aligned.u32 232", 1),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 4),
        ("cp.async.bulk.tensor.2d.shared::cluster", 2),
        ("stmatrix.sync.aligned.m8n8.x4", 16),
        ("cp.async.bulk.tensor.2d.global.shared::cta", 4),
        ("cvta.param.u64", 3),
        (".version 8.0\n", 1),
        ("elect.sync", 1),
    ] {
        assert_eq!(text.matches(what).count(), times, "{what}");
    }
}

#[test]
fn tiles_of_all_kinds() {
    let _texts = together();
    for tile in [[64, 64, 64], [64, 8, 16], [64, 24, 32], [128, 176, 64], [128, 192, 32], [64, 96, 128], [256, 128, 16], [192, 80, 64]] {
        let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(tile[0], tile[1], tile[2]);
        both(gemm, [130, 200, 136], &LowerOptions::default());
    }
}

#[test]
fn ragged_shapes_and_short_depths() {
    let _texts = together();
    for shape in [[1, 8, 8], [7, 1000, 8], [129, 8, 136], [64, 128, 64], [300, 24, 1000]] {
        both(Gemm::new(Scalar::F16).tile(64, 128, 64), shape, &LowerOptions::default());
    }
    // Stores of rows that bulk copies do not take go out by lanes.
    both(Gemm::new(Scalar::F16).transposed(false, true).tile(64, 128, 64), [65, 129, 72], &LowerOptions::default());
}

#[test]
fn other_types() {
    let _texts = together();
    both(Gemm::new(Scalar::I8).transposed(false, true).tile(128, 64, 128), [130, 80, 144], &LowerOptions::default());
    both(Gemm::new(Scalar::BF16).output(Scalar::F32).tile(128, 64, 64), [130, 72, 136], &LowerOptions::default());
    // Operands of tf32 run along K.
    let config = Gemm::new(Scalar::F32).transposed(false, true).tile(128, 128, 32);
    both(config.clone(), [130, 136, 200], &LowerOptions::default());
    let case = product(&config, [130, 136, 200]);
    (0..2).for_each(|seed| simulated(&case, &lowered(&case, &LowerOptions::default()), seed));
}

/// Sums of 8-bit floats keep few bits: after a step each group waits for its multiplications and adds them to sums of its own.
#[test]
fn eight_bit_floats_are_added_beside_the_multiplications() {
    let _texts = together();
    for elem in [Scalar::F8E4M3, Scalar::F8E5M2] {
        for (tile, shape) in [([128, 128, 128], [130, 136, 400]), ([128, 64, 64], [200, 72, 208]), ([64, 24, 32], [65, 40, 96])] {
            let gemm = Gemm::new(elem).transposed(false, true).tile(tile[0], tile[1], tile[2]);
            both(gemm, shape, &LowerOptions::default());
        }
    }
    let plain = product(&Gemm::new(Scalar::F8E4M3).transposed(false, true), [130, 136, 400]);
    (0..2).for_each(|seed| simulated(&plain, &lowered(&plain, &LowerOptions::default()), seed));
    let case = product(&Gemm::new(Scalar::F8E4M3).transposed(false, true), [128, 128, 512]);
    let l = lowered(&case, &LowerOptions::default());
    let text = clean(&case, &l);
    assert_eq!(text.matches("wgmma.wait_group.sync.aligned 0").count(), 1);
    assert_eq!(text.matches("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3").count(), 4);
    let deep = Gemm::new(Scalar::F8E4M3).transposed(false, true).tile(64, 64, 256).for_shape(64, 64, 512).build().unwrap();
    let pinned = LowerOptions { schedule: Some(ScheduleKind::Specialised), ..LowerOptions::default() };
    let refused = lower(&verify(&deep).unwrap(), &sm_90a(), &pinned).unwrap_err().to_string();
    assert!(refused.contains("keep their bits over a depth of 128"), "{refused}");
}

/// A loop with softmax between its two products: K and V come through the ring, queries and probabilities are multiplied from registers.
#[test]
fn attention() {
    let _texts = together();
    for (elem, dim, causal, tile, [queries, keys], heads) in [
        (Scalar::BF16, 64, false, Some((64, 64)), [100, 200], 1),
        (Scalar::F16, 64, true, Some((128, 64)), [200, 200], 1),
        (Scalar::F16, 128, false, Some((128, 96)), [128, 130], 1),
        (Scalar::BF16, 128, true, Some((128, 64)), [300, 70], 1),
        (Scalar::F16, 128, true, None, [300, 300], 2),
        (Scalar::BF16, 64, true, None, [200, 500], 3),
        (Scalar::BF16, 64, false, None, [130, 130], 2),
    ] {
        let plain = Attention::new(elem, dim, causal).for_shape(queries, keys);
        let config = tile.map_or(plain.clone().for_units(), |(rows, keys)| plain.tile(rows, keys, 4));
        let config = if heads > 1 { config.heads(heads) } else { config };
        let workload = Box::new(AttentionCase { config, queries, keys, heads });
        let case = Case { name: format!("{elem} {dim} {causal} {queries}x{keys}"), row: 17, size: Size::Small, workload };
        for overlap in [false, true] {
            let options = LowerOptions { schedule: Some(ScheduleKind::Specialised), overlap: Some(overlap), ..LowerOptions::default() };
            let l = lowered(&case, &options);
            right(&case, &l);
            (0..2).for_each(|seed| simulated(&case, &l, seed));
            attention_text(&case, &l, overlap);
        }
    }
}

fn attention_text(case: &Case, l: &Lowered, overlap: bool) {
    let text = clean(case, l);
    assert_eq!(text.contains("wgmma.wait_group.sync.aligned 1"), overlap);
    // Short rows make the lanes the slower half: what they compute is held in front of the wait, by itself or by the question for the next slot.
    assert!(!text.contains("nanosleep.u32 0") || overlap && case.name.contains(" 64 "));
    // Masks stand in blocks of their own, which steps that need none jump over.
    let blocks: Vec<&str> = text.split("\n$L").collect();
    let masks = |b: &&&str| b.contains("selp.f32") && b.contains("0fFF800000");
    assert!(blocks.iter().any(|b| masks(&b)) && !blocks.iter().any(|b| masks(&b) && b.contains("ex2.approx")), "{}", case.name);
    // Queries are kept, unless they wait in shared memory, and probabilities computed: where steps do not overlap, which hand the latter on, the former are
    // written once more.
    let kept = l.plan.specialised().is_some_and(|s| s.brought.is_empty());
    let renewed = text.lines().any(|l| {
        let words: Vec<&str> = l.split([' ', ',', ';', '\t']).filter(|w| !w.is_empty()).collect();
        matches!(words[..], ["xor.b32", to, from, _] if to == from)
    });
    assert_eq!(renewed, !overlap && kept, "{}", case.name);
    // The probabilities do not leave the registers: the only round trip is that of the queries, in front of the loop.
    let (_, body) = text.split_once("setmaxnreg.inc").or(text.split_once("wgmma.fence")).unwrap();
    assert!(!body.contains("shfl.sync.idx"), "{}", case.name);
}

#[test]
fn epilogues() {
    let _texts = together();
    for activation in [Activation::None, Activation::Relu, Activation::Silu, Activation::Gelu] {
        let gemm = Gemm::new(Scalar::BF16).epilogue(Some(Scalar::BF16), activation).tile(128, 256, 64);
        both(gemm, [136, 264, 72], &LowerOptions::default());
    }
}

#[test]
fn every_choice_can_be_pinned() {
    let _texts = together();
    let gemm = || Gemm::new(Scalar::BF16).tile(128, 64, 64);
    for options in [
        LowerOptions { persistent: Some(false), ..LowerOptions::default() },
        LowerOptions { stages: Some(2), ..LowerOptions::default() },
        LowerOptions { consumers: Some(1), ..LowerOptions::default() },
        LowerOptions { schedule: Some(ScheduleKind::Specialised), stages: Some(5), ..LowerOptions::default() },
    ] {
        both(gemm(), [300, 136, 520], &options);
    }
    let l = lowered(&product(&gemm(), [128, 64, 64]), &LowerOptions { schedule: Some(ScheduleKind::Pipelined), ..LowerOptions::default() });
    assert_eq!(l.plan.to_string(), "pipelined: 4 warps, 3 stages (not specialised: asked for so)");
}

/// Two instances with five to seven tiles each: every parity of iterations, consumer sets with and without a last tile, rings of all depths.
#[test]
fn two_consumer_sets_ping_pong() {
    let _texts = together();
    for (stages, shape) in [(2, [300, 264, 72]), (3, [300, 328, 200]), (4, [640, 136, 520]), (5, [64, 64, 64])] {
        for persistent in [None, Some(true)] {
            let options = LowerOptions { consumer_sets: Some(2), stages: Some(stages), persistent, ..LowerOptions::default() };
            both(Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 64, 64), shape, &options);
        }
    }
    let wide = LowerOptions { consumer_sets: Some(2), ..LowerOptions::default() };
    both(Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 192, 64), [300, 400, 264], &wide);
    both(Gemm::new(Scalar::F32).transposed(false, true).tile(64, 128, 32), [200, 264, 100], &wide);
    let refused = |config: Gemm, options: LowerOptions| {
        let kernel = product(&config, [128, 128, 128]).build().unwrap();
        let options = LowerOptions { schedule: Some(ScheduleKind::Specialised), ..options };
        lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_err().to_string()
    };
    let plain = || Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 64, 64);
    for (config, options, words) in [
        (plain(), LowerOptions { consumer_sets: Some(3), ..LowerOptions::default() }, "3 consumer sets"),
        (plain(), LowerOptions { persistent: Some(false), ..wide }, "several grid positions"),
        (Gemm::new(Scalar::F8E4M3).transposed(false, true).tile(128, 64, 128), wide, "no more than multiply"),
        (plain().tile(128, 256, 64), wide, "do not fit the registers"),
    ] {
        let e = refused(config, options);
        assert!(e.contains(words), "{e}");
    }
}

#[test]
fn an_empty_sum_is_zero() {
    // A depth of zero at run time: the compiled kernel serves every depth.
    let config = Gemm::new(Scalar::BF16).transposed(false, true).tile(64, 32, 64);
    let general = Gemm { k: tilelift_ir::Extent::Dynamic(8), ..config.clone().for_shape(64, 32, 8) };
    let kernel = general.build().unwrap();
    let l = lower(&verify(&kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap();
    assert!(matches!(l.plan.schedule, Schedule::Specialised(_)), "{}", l.plan);
    use tilelift_interp::{Arg, ViewArg};
    let mut memory = Memory::new();
    for bytes in [16, 16, 64 * 32 * 2] {
        memory.add(Buffer::uninit(bytes));
    }
    let args: Vec<Arg> = [(0, [64, 0]), (1, [32, 0]), (2, [64, 32])].map(|(b, s)| ViewArg::dense(b, Scalar::BF16, &s).into()).into();
    interpret(&l.program, &sm_90a(), [1, 1, 1], &args, &mut memory, &LaneOptions::default()).unwrap();
    assert!(memory.buffers[2].bytes().iter().all(|&x| x == 0));
}

#[test]
fn what_does_not_fit_is_declined_with_the_reason() {
    let reason = |config: Gemm, shape: [u32; 3]| {
        let l = lowered(&product(&config, shape), &LowerOptions::default());
        let Schedule::Pipelined { why } = l.plan.schedule else { panic!("{}", l.plan) };
        why.to_string()
    };
    for (config, shape, words) in [
        (Gemm::new(Scalar::BF16), [128, 128, 131], "is not known to be a multiple of 16 bytes"),
        (Gemm::new(Scalar::BF16).tile(32, 32, 64), [128, 128, 128], "32x32x64 is not made up of 64xNx16"),
        (Gemm::new(Scalar::BF16).tile(128, 128, 40).transposed(false, true), [128, 128, 128], "is no multiple of 32 bytes"),
        (Gemm::new(Scalar::BF16).tile(256, 256, 64), [256, 256, 128], "do not fit the registers"),
    ] {
        let why = reason(config, shape);
        assert!(why.contains(words), "{why}");
    }
    let kernel = product(&Gemm::new(Scalar::BF16), [128, 128, 128]).build().unwrap();
    let older = lower(&verify(&kernel).unwrap(), &sm_80(), &LowerOptions::default()).unwrap();
    assert!(older.plan.to_string().contains("sm_80 has no bulk copies"), "{}", older.plan);
    let pinned = LowerOptions { schedule: Some(ScheduleKind::Specialised), ..LowerOptions::default() };
    let refused = lower(&verify(&kernel).unwrap(), &sm_80(), &pinned).unwrap_err().to_string();
    assert!(refused.contains("specialised") && refused.contains("no bulk copies"), "{refused}");
}

/// Assemblers refuse a product whose operands do not fit the registers that a program starts with: four warpgroups start with 128.
#[test]
fn products_fit_what_a_program_starts_with() {
    let _texts = together();
    let plan = |tile: [u32; 3], consumers: u32| {
        let case = product(&Gemm::new(Scalar::BF16).transposed(false, true).tile(tile[0], tile[1], tile[2]), [200, 424, 136]);
        let options = LowerOptions { consumers: Some(consumers), schedule: Some(ScheduleKind::Specialised), ..LowerOptions::default() };
        let l = lower(&verify(&case.build().unwrap()).unwrap(), &sm_90a(), &options);
        l.map(|l| clean(&case, &l)).map_err(|e| e.to_string())
    };
    let refused = plan([192, 208, 64], 3).unwrap_err();
    assert!(refused.contains("a product of 208 columns needs 130 registers per lane, and 128 are there"), "{refused}");
    let text = plan([256, 128, 64], 4).unwrap();
    assert!(text.contains("m64n128k16") && text.contains("setmaxnreg.inc.sync.aligned.u32 104"), "{text}");
}

/// What is converted through shared memory beside a ring is known before the kernel is lowered: the ring takes what is left, whatever a
/// machine has; where that is too little, the loop is pipelined, or refused with what does not fit.
#[test]
fn rings_take_the_slots_that_fit() {
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64).epilogue(Some(Scalar::BF16), Activation::Gelu);
    let kernel = FusedGemm::new(gemm.for_shape(1024, 896, 512)).plus(Residual::Plain(Scalar::BF16)).build().unwrap();
    let kernel = verify(&kernel).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for kib in [40u32, 72, 100, 116, 132, 148, 164, 200, 227] {
        let target = Target { shared_bytes: kib * 1024, ..sm_90a() };
        let l = match lower(&kernel, &target, &LowerOptions::default()) {
            Ok(l) => l,
            Err(e) => {
                assert!(e.exceeds(Resource::SharedMemory), "{kib} KiB: {e}");
                *seen.entry(0).or_insert(0) += 1;
                continue;
            }
        };
        assert!(l.program.shared_bytes <= target.shared_bytes, "{kib} KiB: {}", l.plan);
        let pinned = lower(&kernel, &target, &LowerOptions { schedule: Some(ScheduleKind::Specialised), ..LowerOptions::default() });
        match &l.plan.schedule {
            Schedule::Specialised(s) => {
                // Another slot would not have fitted; the swizzled tiles of the ring begin at multiples of 1024 bytes.
                assert!(s.depth == 8 || l.program.shared_bytes + s.stage_bytes + 1024 > target.shared_bytes, "{kib} KiB: {}", l.plan);
                assert_eq!(pinned.unwrap(), l);
                *seen.entry(s.depth).or_insert(0) += 1;
            }
            Schedule::Pipelined { why } => {
                let e = pinned.unwrap_err();
                let never = matches!(&e, LowerError::NotSpecialised { why: also, .. } if also == why);
                let small = **why == NotSpecialised::Asked || matches!(**why, NotSpecialised::Unwritten { why: Refusal::Exceeds { .. } });
                assert!(never || (small && e.exceeds(Resource::SharedMemory)), "{kib} KiB: {}: {e}", l.plan);
                *seen.entry(0).or_insert(0) += 1;
            }
            Schedule::Explicit(_) => panic!("{}", l.plan),
        }
    }
    assert!(seen.len() > 4 && seen.contains_key(&0), "refused or pipelined, and rings of several depths: {seen:?}");
}

/// A caller's limit on registers, or on programs of a multiprocessor, makes the pool smaller: what roles ask for may no longer be there.
#[test]
fn limits_of_the_caller_leave_roles_their_registers() {
    let case = product(&Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 256, 64), [136, 264, 72]);
    let l = lowered(&case, &LowerOptions::default());
    let text = |options: &EmitOptions| emit(&l.program, &sm_90a(), options).map(|k| k.text);
    for options in
        [EmitOptions { max_registers: Some(160), ..EmitOptions::default() }, EmitOptions { min_blocks: Some(2), ..EmitOptions::default() }]
    {
        match text(&options) {
            Err(EmitError::Registers(RegisterError::Pool { holders, have, .. })) => {
                assert_eq!(holders.iter().map(|h| (h.warps, h.registers)).collect::<Vec<_>>(), [(4, 40), (8, 232)]);
                assert!(have < 12 * 32 * 168, "{have}");
            }
            other => panic!("{options:?}: {other:?}"),
        }
    }
    // No multiple of what warpgroups hand to one another.
    let text = text(&EmitOptions { max_registers: Some(171), ..EmitOptions::default() }).unwrap();
    assert!(text.contains(".maxnreg 168\n"), "{text}");
}
