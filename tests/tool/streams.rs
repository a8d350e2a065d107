//! Products dealt out by steps, on sm_90a: they are specialised, with a proved protocol; the assembler neither spills nor complains; every
//! run gives the same bits; shapes without an element, and a depth of nothing, are no trouble.

use tilelift::ir::Scalar;
use tilelift::isel::{LowerOptions, Schedule, prove};
use tilelift::{OptLevel, Options, compile, targets};
use tilelift_kernels::workload::StreamGemmCase;
use tilelift_kernels::{Activation, Case, Gemm, Size, StreamGemm};
use tilelift_tools::execute::{DeviceKind, Executor, Launch};

fn case(config: &StreamGemm, [m, n, k]: [u32; 3], workers: u32) -> Case {
    let mut config = config.clone();
    config.gemm = config.gemm.for_shape(m, n, k);
    Case {
        name: format!("{m}x{n}x{k} by {workers}"),
        row: 12,
        size: Size::Small,
        workload: Box::new(StreamGemmCase { config, workers, m, n, k }),
    }
}

/// Runs all launches on a device; the bytes of C, poison where nothing was written.
fn run(case: &Case, device: &Executor, options: &Options, seed: u64) -> Vec<u8> {
    let tensors = case.make_tensors();
    let mut memory = case.memory(&tensors);
    for (n, l) in case.launches(None).unwrap().iter().enumerate() {
        if l.grid.contains(&0) {
            continue;
        }
        // What is asked of the products is not asked of the sums.
        let usual = Options { opt: options.opt, ..Options::default() };
        let options = if n == 0 { options } else { &usual };
        let launch = Launch { grid: l.grid, args: &l.args, programs: None, seed, steps: None, options };
        device.run(&l.kernel, &launch, &mut memory).unwrap_or_else(|e| panic!("{}, launch {n}: {e}", case.name));
    }
    if case.tensors().last().unwrap().elements() > 0 {
        let verdict = case.judge(&tensors, &memory, None).unwrap();
        assert!(verdict.pass(), "{}: {verdict}", case.name);
    }
    memory.buffers.pop().unwrap().bytes().to_vec()
}

/// Assembled without a word, if there is an assembler.
fn clean(name: &str, text: &str) {
    match tilelift_oracle::assemble(text, "sm_90a") {
        Ok(r) => assert!(r.spills == 0 && r.stack == 0 && r.warnings.is_empty(), "{name}: {r:?}"),
        Err(tilelift_oracle::AsmError::Missing) => assert!(!tilelift_oracle::required(), "ptxas is missing"),
        Err(e) => panic!("{name}: {e}"),
    }
}

/// Tile, warpgroups and consumer sets, element type, storage of the operands; whether tiles are kept whole; the activation of a biased epilogue.
type Row = ([u32; 3], [u32; 2], Scalar, (bool, bool), bool, Option<Activation>);

const ROWS: &[Row] = &[
    ([128, 256, 64], [2, 1], Scalar::F16, (false, true), false, None),
    ([128, 256, 64], [2, 1], Scalar::BF16, (true, false), false, None),
    ([128, 256, 64], [2, 1], Scalar::BF16, (false, true), true, None),
    ([128, 256, 64], [2, 1], Scalar::F16, (false, false), true, Some(Activation::Relu)),
    ([256, 128, 64], [2, 1], Scalar::BF16, (true, true), true, None),
    ([192, 128, 64], [1, 2], Scalar::BF16, (false, true), true, None),
    ([128, 192, 64], [1, 2], Scalar::BF16, (false, true), true, None),
    ([128, 128, 64], [1, 2], Scalar::F16, (false, true), true, None),
    ([128, 128, 32], [2, 1], Scalar::F32, (false, true), true, None),
    ([128, 192, 128], [2, 1], Scalar::I8, (false, true), false, None),
    ([192, 256, 64], [2, 1], Scalar::F16, (false, true), false, None),
    ([192, 256, 64], [2, 1], Scalar::BF16, (true, false), false, None),
];

#[test]
fn all_are_specialised_proved_and_assembled_without_a_word() {
    let target = targets::by_name("sm_90a").unwrap();
    let device = Executor::open(DeviceKind::Sim, Some(&target)).unwrap();
    for &(tile, [consumers, consumer_sets], elem, (ta, tb), whole, activation) in ROWS {
        let [bm, bn, bk] = tile;
        let name = format!("{tile:?} {elem}");
        // More sums than two groups hold, but for operands the other way round.
        let mut gemm = Gemm::new(elem).transposed(ta, tb).tile(bm, bn, bk).swap(bm * bn > 128 * 256);
        if let Some(a) = activation {
            gemm = gemm.epilogue(Some(elem), a);
        }
        let config = StreamGemm { keep_whole: whole, ..StreamGemm::new(gemm).in_flight(2) };
        let lower = LowerOptions { consumers: Some(consumers), consumer_sets: Some(consumer_sets), ..LowerOptions::default() };
        let options = Options { lower, ..Options::default() };
        let launches = case(&config, [2048, 3072, 4096], 132).launches(None).unwrap();
        let lowered = tilelift::lower(&launches[0].kernel, &target, &options).unwrap();
        let Schedule::Specialised(s) = &lowered.plan.schedule else { panic!("{name}: {}", lowered.plan) };
        assert!(s.persistent, "{name}: {s}");
        // Whole tiles leave from an arm of a choice, as other products' do from the end.
        assert_eq!(s.to_string().contains("results stored through"), whole && elem.bytes() == 2, "{name}: {s}");
        prove(&lowered.program, &target).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (n, l) in launches.iter().enumerate() {
            let usual = Options::default();
            clean(&name, &compile(&l.kernel, &target, if n == 0 { &options } else { &usual }).unwrap().text);
        }
        // Few workers: persistent instances have several positions each.
        let small = case(&config, [bm + 8, 2 * bn + 8, 3 * bk + 16], if whole { 4 } else { 7 });
        let [first, second] = [0, 1].map(|seed| run(&small, &device, &options, seed));
        assert!(first == second, "{name}: not the same bits");
    }
}

#[test]
fn nothing_to_add_is_zero_and_nothing_to_write_is_nothing() {
    let target = targets::by_name("sm_90a").unwrap();
    let options = Options::default();
    for kind in [DeviceKind::Interp, DeviceKind::Lane, DeviceKind::Sim] {
        let device = Executor::open(kind, Some(&target)).unwrap();
        for whole in [false, true] {
            let plain =
                StreamGemm { keep_whole: whole, ..StreamGemm::new(Gemm::new(Scalar::F16).tile(64, 64, 64).transposed(false, true)) };
            for shape in [[0, 64, 64], [64, 0, 64], [0, 0, 0]] {
                assert!(run(&case(&plain, shape, 3), &device, &options, 0).is_empty(), "{shape:?}");
            }
            let zeros = run(&case(&plain, [72, 136, 0], 5), &device, &options, 0);
            assert!(zeros.len() == 72 * 136 * 2 && zeros.iter().all(|&b| b == 0), "{kind:?}");
        }
        let atomics = StreamGemm::new(Gemm::new(Scalar::F16).output(Scalar::F32).tile(64, 64, 64).transposed(false, true)).by_atomics();
        let same = case(&atomics, [72, 136, 0], 5);
        assert_eq!(run(&same, &device, &options, 0), same.make_tensors()[2].bytes, "{kind:?}");
    }
}

/// Segments have as many steps as each has, so that two consumer sets do not pass over one another's: they share each segment. Some have no step.
#[test]
fn segments_without_a_step_are_zero() {
    let target = targets::by_name("sm_90a").unwrap();
    let lower = LowerOptions { consumers: Some(1), consumer_sets: Some(2), ..LowerOptions::default() };
    let options = Options { lower, ..Options::default() };
    let gemm = Gemm::new(Scalar::F16).tile(64, 64, 64).transposed(false, true);
    for kind in [DeviceKind::Lane, DeviceKind::Sim] {
        let device = Executor::open(kind, Some(&target)).unwrap();
        for (seed, k) in [(0, 0), (1, 0), (2, 72), (3, 136)] {
            let case = case(&StreamGemm::new(gemm.clone()), [392, 136, k], 9);
            let launches = case.launches(None).unwrap();
            let lowered = tilelift::lower(&launches[0].kernel, &target, &options).unwrap();
            assert!(lowered.plan.specialised().is_some_and(|s| s.consumer_sets == 1), "{}", lowered.plan);
            prove(&lowered.program, &target).unwrap_or_else(|e| panic!("{e}"));
            let c = run(&case, &device, &options, seed);
            assert!(k > 0 || c.iter().all(|&b| b == 0), "{kind:?}");
        }
    }
}

/// The order of the sums is part of the meaning: all devices agree on every bit of an `i32`, and each device with itself at any level.
#[test]
fn levels_and_devices_agree_on_integers() {
    let target = targets::by_name("sm_90a").unwrap();
    let config = StreamGemm::new(Gemm::new(Scalar::I8).tile(64, 64, 128).transposed(false, true)).in_flight(2).keep_whole();
    let case = case(&config, [136, 200, 400], 5);
    let mut seen: Option<Vec<u8>> = None;
    for kind in [DeviceKind::Interp, DeviceKind::Lane, DeviceKind::Sim] {
        let device = Executor::open(kind, Some(&target)).unwrap();
        for opt in [OptLevel::None, OptLevel::Logical, OptLevel::Physical] {
            let bytes = run(&case, &device, &Options { opt, ..Options::default() }, 1);
            assert_eq!(*seen.get_or_insert_with(|| bytes.clone()), bytes, "{kind:?} {opt:?}");
        }
    }
}
