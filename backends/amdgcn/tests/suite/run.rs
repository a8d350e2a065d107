//! Every small case of the kernel library, from its kernel to the simulator: judged against its reference, as on any device.

use crate::common::device::segment;
use tilelift_amdgcn::{Chip, emit, machine};
use tilelift_amdgcn_sim as sim;
use tilelift_interp::{Buffer, Memory};
use tilelift_isel::abi::marshal;
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::{Case, Size, cases};
use tilelift_oracle::in_parallel;

/// Words of 16-bit elements are updated as a whole: buffers end with one.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().next_multiple_of(4), 0);
    out
}

fn run(case: &Case, chip: Chip) -> Result<(), String> {
    let tensors = case.make_tensors();
    let mut device = sim::Memory::new();
    let alloc =
        |(i, t): (usize, &tilelift_kernels::tensor::Tensor)| device.alloc(&format!("tensor {i}"), sim::Init::Bytes(padded(&t.bytes)));
    let bases: Vec<u64> = tensors.iter().enumerate().map(alloc).collect();
    for launch in case.launches(None).map_err(|e| e.to_string())? {
        let verified = tilelift_ir::verify::verify(&launch.kernel).map_err(|e| e.to_string())?;
        let lowered = lower(&verified, &machine::target(chip), &LowerOptions::default()).map_err(|e| format!("lower: {e}"))?;
        let kernel = emit(&lowered.program, chip).map_err(|e| format!("emit: {e}"))?;
        let values =
            marshal(&kernel.params, launch.grid, &launch.args, |buffer, offset| bases[buffer] + offset).map_err(|e| e.to_string())?;
        // A program whose instances run several positions of the grid gets a row of them.
        let grid = if lowered.program.persistent() { [launch.grid.iter().product::<u32>().min(3), 1, 1] } else { launch.grid };
        let launch = sim::Launch {
            kernel: &kernel.entry,
            grid,
            block: [kernel.threads, 1, 1],
            dynamic_lds: 0,
            args: &segment(&kernel, &values),
            config: sim::SimConfig::default(),
        };
        let module = sim::Module::load(&kernel.object).map_err(|e| format!("load: {e}"))?;
        module.launch(&launch, &mut device).map_err(|e| format!("run: {e}"))?;
    }
    let mut memory = Memory::new();
    for (t, &base) in tensors.iter().zip(&bases) {
        memory.add(Buffer::from_bytes(device.read(base, t.bytes.len()).map_err(|e| format!("{e:?}"))?.to_vec()));
    }
    let verdict = case.judge(&tensors, &memory, None).map_err(|e| e.to_string())?;
    if verdict.pass() { Ok(()) } else { Err(format!("numbers: {verdict}")) }
}

#[test]
fn small_cases_are_right() {
    /// Of so many cases, one runs on the chips beside gfx942.
    const OTHERS: usize = 7;
    let filter = std::env::var("CASE").unwrap_or_default();
    let all = cases();
    let small = all.iter().filter(|c| c.size == Size::Small && c.name.contains(&filter)).enumerate();
    let on_chips = small.flat_map(|(at, case)| Chip::ALL.map(|chip| (at, case, chip)));
    let chosen = on_chips.filter(|(at, _, chip)| *chip == Chip::Gfx942 || (at + *chip as usize).is_multiple_of(OTHERS));
    let chosen: Vec<(&Case, Chip)> = chosen.map(|(_, case, chip)| (case, chip)).collect();
    let one = |&(case, chip): &(&Case, Chip)| run(case, chip).err().map(|e| format!("{chip} {}: {e}", case.name));
    let wrong: Vec<String> = in_parallel(&chosen, one).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
