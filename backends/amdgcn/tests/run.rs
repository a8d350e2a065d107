//! Kernels from lane programs to the simulator.

use tilelift_amdgcn::{Chip, emit, gfx942};
use tilelift_amdgcn_sim as sim;
use tilelift_interp::{Buffer, Memory};
use tilelift_isel::abi::{ParamValue, marshal};
use tilelift_isel::lane::{LaneOptions, interpret};
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::{Case, Size, cases};

/// Words of 16-bit elements are updated as a whole: buffers end with one.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().next_multiple_of(4), 0);
    out
}

fn run(case: &Case) -> Result<(), String> {
    let target = gfx942();
    let tensors = case.make_tensors();
    let mut reference = case.memory(&tensors);
    let mut device = sim::Memory::new();
    let bases: Vec<u64> =
        tensors.iter().enumerate().map(|(i, t)| device.alloc(&format!("tensor {i}"), sim::Init::Bytes(padded(&t.bytes)))).collect();
    for launch in case.launches(None).map_err(|e| e.to_string())? {
        let verified = tilelift_ir::verify::verify(&launch.kernel).map_err(|e| e.to_string())?;
        let lowered = lower(&verified, &target, &LowerOptions::default()).map_err(|e| format!("lower: {e}"))?;
        if lowered.program.persistent() {
            return Err("persistent".into());
        }
        if std::env::var("DUMP").is_ok() {
            println!("{}", lowered.program);
        }
        let out = emit(&lowered.program, Chip::Gfx942).map_err(|e| format!("emit: {e}"))?;
        if std::env::var("DUMP").is_ok() {
            println!("{}", out.text);
        }
        let values = marshal(&lowered.program.params, launch.grid, &launch.args, |buffer, offset| bases[buffer] + offset).unwrap();
        let mut args = vec![0u8; 4096];
        for (a, v) in out.args.iter().zip(&values) {
            let ParamValue::Number { bits, .. } = v else { return Err("tensor".into()) };
            args[a.offset as usize..(a.offset + a.size) as usize].copy_from_slice(&bits.to_le_bytes()[..a.size as usize]);
        }
        let module = sim::Module::load(&out.object).map_err(|e| format!("load: {e}"))?;
        let l = sim::Launch {
            kernel: &out.entry,
            grid: launch.grid,
            block: [out.threads, 1, 1],
            dynamic_lds: 0,
            args: &args,
            config: sim::SimConfig::default(),
        };
        module.launch(&l, &mut device).map_err(|e| format!("sim: {e}"))?;
        interpret(&lowered.program, &target, launch.grid, &launch.args, &mut reference, &LaneOptions::default())
            .map_err(|e| e.to_string())?;
    }
    let mut memory = Memory::new();
    let mut off = 0;
    for (i, (t, &base)) in tensors.iter().zip(&bases).enumerate() {
        let got = device.read(base, t.bytes.len()).unwrap().to_vec();
        off += usize::from(got != reference.buffers[i].bytes());
        memory.add(Buffer::from_bytes(got));
    }
    let verdict = case.judge(&tensors, &memory, None).map_err(|e| e.to_string())?;
    if !verdict.pass() {
        return Err(format!("numbers: {verdict}"));
    }
    if off > 0 {
        println!("   {}: {off} buffers differ in bits", case.name);
    }
    Ok(())
}

#[test]
fn small_cases_are_right() {
    let filter = std::env::var("CASE").unwrap_or_default();
    let mut bad = 0;
    for case in cases().iter().filter(|c| c.size == Size::Small && c.name.contains(&filter)) {
        let t = std::time::Instant::now();
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(case))).unwrap_or_else(|_| Err("panicked".into()));
        println!("{} {:?} {:.1?}", case.name, r, t.elapsed());
        bad += u32::from(r.is_err());
    }
    assert_eq!(bad, 0);
}
