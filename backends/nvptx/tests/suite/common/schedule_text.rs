//! Schedules as programs: what a plan is written as, and that its text is the same program.

use super::units::lowered;
use super::written::{self, made};
use tilelift_interp::{Arg, Buffer, Memory, Options, interpret};
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::{LowerOptions, Lowered, prove};
use tilelift_kernels::Case;
use tilelift_nvptx::sm_90a;

/// The text of a schedule, compiled with the same options, is the same program and the same PTX; and it is proved.
pub fn same_text(name: &str, l: &Lowered, options: &LowerOptions) {
    written::same_text(name, l, options);
    prove(&l.program, &sm_90a()).unwrap_or_else(|e| panic!("{name}: {e}"));
}

/// A case lowered as the program that its plan is written as.
pub fn round_trip(case: &Case, options: &LowerOptions) -> Lowered {
    let l = lowered(case, options);
    same_text(&case.name, &l, options);
    l
}

/// Memory for a case's tensors, the last of which is written.
fn memory(case: &Case) -> Memory {
    let tensors = case.make_tensors();
    let mut memory = Memory::new();
    for (i, t) in tensors.iter().enumerate() {
        let output = i + 1 == tensors.len();
        memory.add(if output { Buffer::uninit(t.bytes.len()) } else { Buffer::from_bytes(t.bytes.clone()) });
    }
    memory
}

/// What the interpreter makes of a kernel.
pub fn interpreted(name: &str, kernel: &Kernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) {
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{name}: {}", e.pretty(kernel)));
    let run = interpret(&verified, grid, args, memory, &Options::default());
    run.unwrap_or_else(|e| panic!("{name}: {e}\n{}", text::print(kernel)));
}

/// The schedule gives what the plain kernel gives, bit by bit, in the interpreter: no sum is added in another order.
pub fn same_numbers(case: &Case, l: &Lowered) {
    let (mut plain, mut tasks) = (memory(case), memory(case));
    interpreted(&case.name, &case.build().unwrap(), case.grid(), &case.arguments(), &mut plain);
    interpreted(&case.name, made(l), case.grid(), &case.arguments(), &mut tasks);
    for (a, b) in plain.buffers.iter().zip(&tasks.buffers) {
        assert!(a.bytes() == b.bytes(), "{}: the schedule gives other numbers", case.name);
    }
}
