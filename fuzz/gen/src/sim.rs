//! The oracle over the emitted text: interpreter ⇄ simulator of PTX, under several orders of warps.

use crate::case::Case;
use crate::verdict::{Failure, Kind, Verdict, failure, guarded, reason};
use tilelift_interp::Memory;
use tilelift_ir::{Kernel, verify};
use tilelift_isel::abi::{ParamValue, marshal};
use tilelift_isel::{LayoutChoice, LowerOptions, Target, lower};
use tilelift_nvptx::{EmitOptions, PtxKernel, emit};
use tilelift_nvptx_sim as ptx;

/// Two ways to order warps and to land copies, from a seed.
pub fn schedules(seed: u64) -> [ptx::SimConfig; 2] {
    let base = ptx::SimConfig { seed, max_instructions: 20_000_000, counters: false, ..ptx::SimConfig::default() };
    let lazy = ptx::SimConfig { landing: ptx::Landing::Lazy, ..base.clone() };
    let other = match seed % 4 {
        0 => ptx::Policy::Reverse,
        1 => ptx::Policy::Lockstep,
        2 => ptx::Policy::Pct(2000),
        _ => ptx::Policy::Starve(0),
    };
    [lazy, ptx::SimConfig { seed: seed + 1, policy: other, ..base }]
}

fn text_of(kernel: &Kernel, target: &Target, layouts: LayoutChoice, at: &str) -> Result<Result<PtxKernel, String>, Failure> {
    let verified = verify(kernel).map_err(|e| failure(Kind::Generator, "verifier", e))?;
    let lowered = match lower(&verified, target, &LowerOptions { layouts, ..LowerOptions::default() }) {
        Ok(l) => l,
        Err(e) => return Ok(Err(reason(&e))),
    };
    match emit(&lowered.program, target, &EmitOptions::default()) {
        Ok(k) => Ok(Ok(k)),
        Err(e @ tilelift_nvptx::EmitError::Unsupported(_)) => Ok(Err(format!("{at}: {e}"))),
        Err(e) => Err(failure(Kind::Malformed, at, e)),
    }
}

/// The PTX text of a kernel, or why there is none, for a report.
pub fn ptx_text(kernel: &Kernel, target: &Target) -> String {
    match text_of(kernel, target, LayoutChoice::default(), "emit") {
        Ok(Ok(k)) => k.text,
        Ok(Err(e)) => e,
        Err(e) => e.to_string(),
    }
}

/// The interpreter against the simulator of the emitted text, under each of the configurations.
///
/// # Errors
/// A panic, a text that does not parse, whatever the simulator reports, or wrong numbers.
pub fn sim(case: &Case, want: &Memory, target: &Target, configs: &[ptx::SimConfig]) -> Result<Verdict, Failure> {
    sim_with(case, want, target, LayoutChoice::default(), configs)
}

/// As [`sim`], layouts chosen so.
///
/// # Errors
/// As [`sim`].
pub fn sim_with(
    case: &Case,
    want: &Memory,
    target: &Target,
    layouts: LayoutChoice,
    configs: &[ptx::SimConfig],
) -> Result<Verdict, Failure> {
    let at = format!("sim {}", target.name);
    guarded(&at, || {
        let kernel = match text_of(&case.kernel, target, layouts, &at)? {
            Ok(k) => k,
            Err(reason) => return Ok(Verdict::Refused(reason)),
        };
        let module = ptx::Module::parse(&kernel.text).map_err(|e| failure(Kind::Malformed, &at, e))?;
        for config in configs {
            run(case, want, &kernel, &module, config, &at)?;
        }
        Ok(Verdict::Pass)
    })
}

fn run(case: &Case, want: &Memory, kernel: &PtxKernel, module: &ptx::Module, config: &ptx::SimConfig, at: &str) -> Result<(), Failure> {
    let mut memory = case.memory();
    let mut device = ptx::Memory::new();
    let bases: Vec<u64> = memory
        .buffers
        .iter()
        .enumerate()
        .map(|(i, b)| device.alloc(&format!("buffer {i}"), ptx::Init::Bytes(b.bytes().to_vec())))
        .collect();
    let grid = tilelift_ir::instances(case.grid, case.kernel.positions).unwrap_or(case.grid);
    let values = marshal(&kernel.params, grid, &case.args(), |buffer, offset| bases[buffer] + offset)
        .map_err(|e| failure(Kind::Malformed, at, e))?;
    let args: Vec<ptx::Arg> = values
        .iter()
        .map(|v| match v {
            ParamValue::Number { bits, size: 1 } => Ok(ptx::Arg::U8(*bits as u8)),
            ParamValue::Number { bits, size: 2 } => Ok(ptx::Arg::U16(*bits as u16)),
            ParamValue::Number { bits, size: 4 } => Ok(ptx::Arg::U32(*bits as u32)),
            ParamValue::Number { bits, .. } => Ok(ptx::Arg::U64(*bits)),
            ParamValue::Tensor(t) => {
                let element = ptx::MapElement::of(t.elem.name(), t.elem.bytes(), t.tf32);
                ptx::TensorMap::swizzled_box(t.base, element, &t.extents, &t.strides, &t.box_extents, t.swizzle)
                    .map(|t| ptx::Arg::TensorMap(Box::new(t)))
                    .map_err(|e| failure(Kind::Malformed, at, e))
            }
        })
        .collect::<Result<_, Failure>>()?;
    let launch = ptx::Launch {
        entry: &kernel.entry,
        grid: if tilelift_isel::lane::persistent(&kernel.params) { [grid.iter().product::<u32>().min(2), 1, 1] } else { grid },
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        args: &args,
        config: config.clone(),
    };
    module.launch(&launch, &mut device).map_err(|e| {
        // Programs that meet are the kernel's fault (the reducer may have brought them together).
        let apart = e.site.as_ref().zip(e.other.as_ref()).is_some_and(|(here, there)| here.cta != there.cta);
        let kind = if e.kind == ptx::ErrorKind::Race && apart { Kind::Generator } else { Kind::Fault };
        failure(kind, at, format!("{:?}: {e}", e.kind))
    })?;
    for (buffer, &base) in memory.buffers.iter_mut().zip(&bases) {
        let len = buffer.len();
        let bytes = device.read(base, len).map_err(|e| failure(Kind::Fault, at, e))?.to_vec();
        buffer.bytes_mut().copy_from_slice(&bytes);
    }
    match case.difference(want, &memory) {
        Some(d) => Err(failure(Kind::Mismatch, at, d)),
        None => Ok(()),
    }
}
