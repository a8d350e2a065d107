//! A case of the kernel library on a target with matrix units: lowered, and judged everywhere.

use super::assembler::nothing_to_say;
use super::launch::{schedule, simulate_text};
use tilelift_interp::{Buffer, Memory};
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{LaneOptions, interpret};
use tilelift_isel::{LowerOptions, Lowered, Schedule, lower};
use tilelift_kernels::workload::GemmCase;
use tilelift_kernels::{Case, Gemm, Size};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// A product of a shape that the kernel knows.
pub fn product(config: &Gemm, [m, n, k]: [u32; 3]) -> Case {
    let config = config.clone().for_shape(m, n, k);
    Case { name: format!("{m}x{n}x{k}"), row: 9, size: Size::Small, workload: Box::new(GemmCase { config, m, n, k }) }
}

pub fn lowered(case: &Case, options: &LowerOptions) -> Lowered {
    let kernel = case.build().unwrap();
    lower(&verify(&kernel).unwrap(), &sm_90a(), options).unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

/// Runs the lane program against the reference; every element counts.
pub fn right(case: &Case, l: &Lowered) {
    let tensors = case.make_tensors();
    let mut memory = Memory::new();
    for (i, t) in tensors.iter().enumerate() {
        let output = i + 1 == tensors.len();
        memory.add(if output { Buffer::uninit(t.bytes.len()) } else { Buffer::from_bytes(t.bytes.clone()) });
    }
    let run = interpret(&l.program, &sm_90a(), case.grid(), &case.arguments(), &mut memory, &LaneOptions::default());
    run.unwrap_or_else(|e| panic!("{}: {}: {e}", case.name, l.plan));
    let verdict = case.judge(&tensors, &memory, None).unwrap();
    assert!(verdict.pass(), "{}: {}: {verdict}", case.name, l.plan);
}

/// Runs the text in the simulator, under a schedule; every element counts.
pub fn simulated(case: &Case, l: &Lowered, seed: u64) {
    // Fewer instances than grid positions, where they may run several.
    let grid = if matches!(&l.plan.schedule, Schedule::Specialised(s) if s.persistent) { [2, 1, 1] } else { case.grid() };
    simulate_text(case, &l.program, grid, schedule(seed), str::to_owned).unwrap_or_else(|e| panic!("{}: {}: {e}", case.name, l.plan));
}

/// Assembles the text, and gives it; the assembler must neither spill nor complain.
pub fn clean(case: &Case, l: &Lowered) -> String {
    let text = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name)).text;
    nothing_to_say(&format!("{}: {}", case.name, l.plan), &text, "sm_90a");
    text
}
