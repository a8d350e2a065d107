//! Kernels with explicit control: proved, then through lane interpreter, simulator and assembler.

#[path = "common/launch.rs"]
mod launch;

use launch::{schedule, simulate};
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{LaneOptions, interpret};
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::{Case, Size, explicit};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// True for kernels whose consumers take tiles in turns: which steps are whose is not in their local memory, and not proved.
fn in_turns(case: &Case) -> bool {
    case.name.contains("turns")
}

#[test]
fn small_cases_are_right_on_lanes_and_in_text() {
    for case in explicit::cases().iter().filter(|c| c.size == Size::Small) {
        let kernel = case.build().unwrap();
        let options = LowerOptions { unproven: in_turns(case), ..LowerOptions::default() };
        let l = lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let tensors = case.make_tensors();
        let mut memory = case.memory(&tensors);
        interpret(&l.program, &sm_90a(), case.grid(), &case.arguments(), &mut memory, &LaneOptions::default())
            .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let verdict = case.judge(&tensors, &memory, None).unwrap();
        assert!(verdict.pass(), "{}: {verdict}", case.name);
        for seed in 0..2 {
            simulate(case, &l.program, case.grid(), schedule(seed)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        }
    }
}

#[test]
fn the_assembler_has_nothing_to_say() {
    for case in &explicit::cases() {
        let kernel = case.build().unwrap();
        let options = LowerOptions { unproven: true, ..LowerOptions::default() };
        let l = lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let text = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name)).text;
        match tilelift_oracle::assemble(&text, "sm_90a") {
            Ok(r) => assert!(r.spills == 0 && r.stack == 0 && r.warnings.is_empty(), "{}: {r:?}", case.name),
            Err(tilelift_oracle::AsmError::Missing) => assert!(!tilelift_oracle::required(), "ptxas is missing"),
            Err(e) => panic!("{}: {e}", case.name),
        }
    }
}
