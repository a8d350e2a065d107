//! Schedules are programs: what the compiler makes of a plain loop prints, parses, is interpreted, is proved, and lowers to the same lane program.

#[path = "common/launch.rs"]
mod launch;
#[path = "common/units.rs"]
#[allow(dead_code)]
mod units;

use tilelift_interp::{Buffer, Memory, Options, interpret};
use tilelift_ir::{Kernel, Scalar, text, verify};
use tilelift_isel::{LowerOptions, Lowered, Refusal, lower, prove};
use tilelift_kernels::{Activation, Case, Gemm};
use tilelift_nvptx::sm_90a;
use units::{clean, lowered, product, right, simulated};

fn made(l: &Lowered) -> &Kernel {
    match &l.written {
        Some(Ok(made)) => made,
        other => panic!("{}: {:?}", l.plan, other.as_ref().map(|w| w.as_ref().map(|_| ()))),
    }
}

/// The text of the schedule, compiled with the same options, is the same program; and it is proved.
fn round_trip(case: &Case, options: &LowerOptions) -> Lowered {
    let options = &LowerOptions { as_program: Some(true), ..*options };
    let l = lowered(case, options);
    let printed = text::print(made(&l));
    let file = text::parse(&printed).unwrap_or_else(|e| panic!("{}: {e}\n{printed}", case.name));
    assert_eq!(text::print(&file.kernels[0]), printed, "{}", case.name);
    let verified = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{}: {}", case.name, e.pretty(&file.kernels[0])));
    let again = lower(&verified, &sm_90a(), options).unwrap_or_else(|e| panic!("{}: {e}\n{printed}", case.name));
    assert_eq!(again.program.to_string(), l.program.to_string(), "{}", case.name);
    prove(&l.program, &sm_90a()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
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

fn judged(config: Gemm, shape: [u32; 3], options: &LowerOptions) {
    let case = product(&config, shape);
    let l = round_trip(&case, options);
    interpreted(&case, &l);
    right(&case, &l);
    simulated(&case, &l, 1);
    clean(&case, &l);
}

#[test]
fn storage_orders_and_types() {
    for (elem, order) in
        [(Scalar::BF16, (false, true)), (Scalar::BF16, (false, false)), (Scalar::F16, (true, false)), (Scalar::F16, (true, true))]
    {
        judged(Gemm::new(elem).transposed(order.0, order.1).tile(128, 128, 64), [200, 136, 200], &LowerOptions::default());
    }
    judged(Gemm::new(Scalar::F32).transposed(false, true).tile(128, 128, 32), [130, 136, 200], &LowerOptions::default());
    judged(Gemm::new(Scalar::I8).transposed(false, true).tile(128, 64, 128), [130, 80, 144], &LowerOptions::default());
}

#[test]
fn tiles_and_consumers() {
    for (tile, consumers) in
        [([128, 256, 64], None), ([64, 64, 64], None), ([256, 128, 64], Some(2)), ([256, 64, 64], Some(4)), ([128, 192, 64], None)]
    {
        let options = LowerOptions { consumers, ..LowerOptions::default() };
        judged(Gemm::new(Scalar::BF16).transposed(false, true).tile(tile[0], tile[1], tile[2]), [270, 264, 136], &options);
    }
}

#[test]
fn rings_and_grids() {
    let gemm = || Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64);
    for (stages, persistent) in [(2, Some(true)), (3, Some(false)), (5, None)] {
        judged(gemm(), [200, 264, 520], &LowerOptions { stages: Some(stages), persistent, ..LowerOptions::default() });
    }
    // No step, one, and results by lanes.
    judged(gemm().output(Scalar::F32), [130, 72, 8], &LowerOptions::default());
    judged(gemm().epilogue(None, Activation::Gelu), [130, 136, 72], &LowerOptions::default());
    judged(gemm(), [130, 136, 72], &LowerOptions { bulk_results: Some(false), ..LowerOptions::default() });
}

/// What can't be written yet is refused by name, and lowered by the plan alone; so is what nobody asks for.
#[test]
fn refusals_are_data() {
    let gemm = || Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64);
    let fp8 = Gemm::new(Scalar::F8E4M3).transposed(false, true).tile(128, 128, 128);
    let of = |config: &Gemm, options: &LowerOptions| {
        let options = LowerOptions { as_program: Some(true), ..*options };
        lowered(&product(config, [200, 136, 208]), &options).written.map(|w| w.map(|_| ()))
    };
    assert!(matches!(of(&gemm(), &LowerOptions { teams: Some(2), ..LowerOptions::default() }), Some(Err(Refusal::PingPong))));
    let left = LowerOptions { left_registers: Some(true), ..LowerOptions::default() };
    assert!(matches!(of(&gemm(), &left), Some(Err(Refusal::OperandA { .. }))));
    assert!(matches!(of(&fp8, &LowerOptions::default()), Some(Err(Refusal::Promoted { .. }))));
    assert!(lowered(&product(&gemm(), [200, 136, 208]), &LowerOptions::default()).written.is_none());
}
