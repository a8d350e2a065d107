//! Launches of kernels whose loop is written as a program: on the interpreter, on lanes and in text, beside the plain kernel.

use super::arguments::arguments;
use super::assembler::nothing_to_say;
use tilelift_interp::{Arg, Buffer, Memory, Options, interpret};
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::abi::marshal;
use tilelift_isel::lane::{LaneOptions, interpret as on_lanes};
use tilelift_isel::{LowerOptions, Lowered, lower, prove};
use tilelift_nvptx::{EmitOptions, PtxKernel, emit, sm_90a};
use tilelift_nvptx_sim as sim;

/// The program that a plan was written as.
pub fn made(l: &Lowered) -> &Kernel {
    match &l.written {
        Some(Ok(made)) => made,
        other => panic!("{}: {:?}", l.plan, other.as_ref().map(|w| w.as_ref().map(|_| ()))),
    }
}

/// A kernel lowered as a program. Its text, compiled with the same options, is the same program; and it is proved.
pub fn round_trip(name: &str, kernel: &Kernel, options: &LowerOptions) -> Lowered {
    let l = lower(&verify(kernel).unwrap(), &sm_90a(), options).unwrap_or_else(|e| panic!("{name}: {e}"));
    same_text(name, &l, options);
    prove(&l.program, &sm_90a()).unwrap_or_else(|e| panic!("{name}: {e}"));
    l
}

/// What a kernel was written as is printed, read and lowered with the same options: the same lane program, the same PTX.
pub fn same_text(name: &str, l: &Lowered, options: &LowerOptions) {
    let printed = text::print(made(l));
    let file = text::parse(&printed).unwrap_or_else(|e| panic!("{name}: {e}\n{printed}"));
    assert_eq!(text::print(&file.kernels[0]), printed, "{name}");
    let verified = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{name}: {}\n{printed}", e.pretty(&file.kernels[0])));
    let again = lower(&verified, &sm_90a(), options).unwrap_or_else(|e| panic!("{name}: {e}\n{printed}"));
    assert!(again.program.to_string() == l.program.to_string(), "{name} lowers to something else\n{printed}");
    assert!(emitted(name, &again) == emitted(name, l), "{name}: another text\n{printed}");
}

/// The PTX text.
pub fn emitted(name: &str, l: &Lowered) -> PtxKernel {
    emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The PTX text; the assembler must neither spill nor complain.
pub fn assembled(name: &str, l: &Lowered) -> PtxKernel {
    let kernel = emitted(name, l);
    nothing_to_say(&format!("{name}: {}", l.plan), &kernel.text, "sm_90a");
    kernel
}

/// A launch on the interpreter.
pub fn run(name: &str, kernel: &Kernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) {
    let verified = verify(kernel).unwrap();
    interpret(&verified, grid, args, memory, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}\n{}", text::print(kernel)));
}

/// A launch of the lane program.
pub fn run_lanes(name: &str, l: &Lowered, grid: [u32; 3], args: &[Arg], memory: &mut Memory) {
    on_lanes(&l.program, &sm_90a(), grid, args, memory, &LaneOptions::default()).unwrap_or_else(|e| panic!("{name}: {}: {e}", l.plan));
}

/// A launch of the text in the simulator, on few instances where they run several grid positions.
pub fn run_text(name: &str, l: &Lowered, kernel: &PtxKernel, grid: [u32; 3], args: &[Arg], memory: &mut Memory) {
    let module = sim::Module::parse(&kernel.text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut device = sim::Memory::new();
    let bases: Vec<u64> = memory
        .buffers
        .iter()
        .enumerate()
        .map(|(i, b)| {
            // What is still to be written holds poison.
            device.alloc(&format!("buffer {i}"), sim::Init::Bytes(b.bytes().to_vec()))
        })
        .collect();
    let values = marshal(&kernel.params, grid, args, |buffer, offset| bases[buffer] + offset).unwrap();
    let args = arguments(&values);
    let few = l.plan.specialised().is_some_and(|s| s.persistent);
    let config = sim::SimConfig { seed: 1, policy: sim::Policy::Random, ..sim::SimConfig::default() };
    let launch = sim::Launch {
        entry: &kernel.entry,
        grid: if few { [2, 1, 1] } else { grid },
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        args: &args,
        config,
    };
    module.launch(&launch, &mut device).unwrap_or_else(|e| panic!("{name}: {}: {e}", l.plan));
    for (b, &base) in memory.buffers.iter_mut().zip(&bases) {
        *b = Buffer::from_bytes(device.read(base, b.len()).unwrap().to_vec());
    }
}
