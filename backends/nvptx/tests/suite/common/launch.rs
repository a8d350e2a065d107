//! A case of the kernel library in the simulator, from its lane program.

pub use super::arguments::arguments;
use tilelift_interp::{Buffer, Memory};
use tilelift_isel::abi::marshal;
use tilelift_isel::lane::Program;
use tilelift_kernels::Case;
use tilelift_nvptx::{EmitOptions, PtxKernel, emit, sm_90a};
use tilelift_nvptx_sim as sim;

/// Schedule number 0 visits warps in reverse, the others in random orders.
pub fn schedule(seed: u64) -> sim::SimConfig {
    let policy = if seed == 0 { sim::Policy::Reverse } else { sim::Policy::Random };
    sim::SimConfig { seed, policy, ..sim::SimConfig::default() }
}

/// Prints the program of a case's only launch, runs the text on so many instances, and judges every element; says what went wrong. The text is
/// changed first.
pub fn simulate_text(
    case: &Case,
    program: &Program,
    grid: [u32; 3],
    config: sim::SimConfig,
    change: impl FnOnce(&str) -> String,
) -> Result<(), String> {
    let kernel = emit(program, &sm_90a(), &EmitOptions::default()).map_err(|e| format!("emit: {e}"))?;
    run(case, &PtxKernel { text: change(&kernel.text), ..kernel }, grid, config)
}

/// Runs a case's text, and judges every element.
pub fn run(case: &Case, kernel: &PtxKernel, grid: [u32; 3], config: sim::SimConfig) -> Result<(), String> {
    counted(case, kernel, grid, config).map(drop)
}

/// The same, with what was counted.
pub fn counted(case: &Case, kernel: &PtxKernel, grid: [u32; 3], config: sim::SimConfig) -> Result<sim::Report, String> {
    let module = sim::Module::parse(&kernel.text).map_err(|e| format!("parse: {e}"))?;
    let tensors = case.make_tensors();
    let mut device = sim::Memory::new();
    let mut bases = Vec::new();
    for (i, t) in tensors.iter().enumerate() {
        let init = if i + 1 == tensors.len() { sim::Init::Uninit(t.bytes.len()) } else { sim::Init::Bytes(t.bytes.clone()) };
        bases.push(device.alloc(&format!("tensor {i}"), init));
    }
    let first = case.launches(None).unwrap().swap_remove(0);
    let values = marshal(&kernel.params, first.grid, &first.args, |buffer, offset| bases[buffer] + offset).unwrap();
    let args = arguments(&values);
    let launch =
        sim::Launch { entry: &kernel.entry, grid, block: [kernel.threads, 1, 1], shared_bytes: kernel.shared_bytes, args: &args, config };
    let report = module.launch(&launch, &mut device).map_err(|e| e.to_string())?;
    let mut memory = Memory::new();
    for (t, &base) in tensors.iter().zip(&bases) {
        memory.add(Buffer::from_bytes(device.read(base, t.bytes.len()).unwrap().to_vec()));
    }
    let verdict = case.judge(&tensors, &memory, None).unwrap();
    if verdict.pass() { Ok(report) } else { Err(format!("numbers: {verdict}")) }
}
