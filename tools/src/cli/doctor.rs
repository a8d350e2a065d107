//! `doctor`: what this machine has of what the compiler can use, and what to do about the rest.

use super::accept::{Effort, run_case};
use super::outcome::{CliError, Outcome, Streams};
use crate::bench::locate;
use crate::execute::{DeviceKind, Executor};
use std::path::PathBuf;
use tilelift::targets;
use tilelift_kernels::{Case, cases};

pub(super) const HELP: &str = "\
usage: tilelift doctor

Says what this machine has of what the compiler can use: the driver, its devices, cuBLASLt and ptxas; runs a small product on every
device that there is; and says what to do about what is missing.";

/// The acceptance case that every device must pass.
const CASE: &str = "gemm_nt_bf16_bf16_255x129x130";

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    if let Some(arg) = parser.next()? {
        return Err(arg.unexpected().into());
    }
    line(streams, "compiler", &format!("tilelift {}; needs nothing else to compile", env!("CARGO_PKG_VERSION")))?;
    for name in targets::NAMES {
        let Some(t) = targets::by_name(name) else { continue };
        let what = match (targets::has_text(&t), targets::has_objects(&t)) {
            (true, true) => "assembly and code objects; runs on the simulator, and through HIP where that is installed",
            (true, false) => "PTX text; runs on GPUs and the simulator",
            (false, _) => "lane programs for the lane interpreter",
        };
        line(streams, "target", &format!("{name}: {what}"))?;
    }
    let places = locate::cublaslt();
    hardware(streams, &places)?;
    hip(streams)?;
    match locate::ptxas() {
        Some(path) => {
            let version = locate::ptxas_version(&path).unwrap_or_else(|e| format!("does not run: {e}"));
            line(streams, "ptxas", &format!("{}: {version}", path.display()))?;
        }
        None => {
            line(streams, "ptxas", "not found. Only tests use it; `pip install nvidia-cuda-nvcc` brings it, TILELIFT_PTXAS may name it")?
        }
    }
    checks(streams)
}

fn line(streams: &mut Streams<'_>, topic: &str, text: &str) -> Outcome {
    Ok(writeln!(streams.out, "{topic:<9} {}", text.replace('\n', "\n          "))?)
}

#[cfg(not(feature = "hip"))]
fn hip(streams: &mut Streams<'_>) -> Outcome {
    line(streams, "hip", "not looked for: built without the feature `hip`")
}

#[cfg(feature = "hip")]
fn hip(streams: &mut Streams<'_>) -> Outcome {
    use tilelift::runtime::hip::HipDevice;

    let count = match HipDevice::count() {
        Ok(count) => count,
        Err(e) => return line(streams, "hip", &format!("not usable: {e}")),
    };
    line(streams, "hip", &format!("found, it sees {count} devices"))?;
    for ordinal in 0..count {
        match HipDevice::new(ordinal) {
            Ok(d) => {
                let target = d.target_name().map_or_else(|| "no target here".into(), |t| format!("target {t}"));
                line(streams, "device", &format!("{ordinal}: {}, {}; {target}", d.name(), d.arch()))?;
            }
            Err(e) => line(streams, "device", &format!("{ordinal}: not usable: {e}"))?,
        }
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn hardware(streams: &mut Streams<'_>, _: &[PathBuf]) -> Outcome {
    line(streams, "driver", "not looked for: built without the feature `cuda`")
}

#[cfg(feature = "cuda")]
fn hardware(streams: &mut Streams<'_>, places: &[PathBuf]) -> Outcome {
    use crate::bench::blaslt::BlasLt;
    use tilelift::runtime::cuda::CudaDevice;

    let count = match CudaDevice::count() {
        Ok(count) => count,
        Err(e) => {
            line(streams, "driver", &format!("not usable: {e}"))?;
            return line(streams, "cublasLt", "not looked for: it works on a GPU only, and only benches use it");
        }
    };
    if count == 0 {
        line(streams, "driver", "found, but it sees no device; check CUDA_VISIBLE_DEVICES, and that this process may use the GPUs")?;
    }
    let mut first = None;
    for ordinal in 0..count {
        let found = CudaDevice::new(ordinal).and_then(|d| d.facts().map(|f| (d, f)));
        let (device, facts) = match found {
            Ok(pair) => pair,
            Err(e) => {
                line(streams, "device", &format!("{ordinal}: not usable: {e}"))?;
                continue;
            }
        };
        if first.is_none() {
            line(streams, "driver", &format!("found, supports CUDA {}.{}", facts.driver / 1000, facts.driver % 1000 / 10))?;
        }
        let (major, minor) = device.capability();
        let target =
            device.target_name().map_or_else(|| "no target: compute capability 8.0 is the least".into(), |t| format!("target {t}"));
        let clock = if facts.clock_khz > 0 { format!(", up to {} MHz", facts.clock_khz / 1000) } else { String::new() };
        line(
            streams,
            "device",
            &format!(
                "{ordinal}: {}, compute capability {major}.{minor}, {} multiprocessors{clock}, {:.1} GiB, {} MiB of L2 cache, {} bytes of shared memory per block; {target}",
                device.name(),
                facts.multiprocessors,
                facts.memory as f64 / f64::from(1 << 30),
                facts.l2 >> 20,
                device.shared_per_block()
            ),
        )?;
        first.get_or_insert(device);
    }
    match first.map(|d| BlasLt::open(&d, places)) {
        Some(Ok(lt)) => line(streams, "cublasLt", &format!("{}, version {}", lt.path().display(), lt.version())),
        Some(Err(e)) => line(streams, "cublasLt", &format!("not usable: {e}. Only benches use it")),
        None => Ok(()),
    }
}

/// Runs the case on every device that opens.
fn checks(streams: &mut Streams<'_>) -> Outcome {
    let case: Option<Case> = cases().into_iter().find(|c| c.name == CASE);
    let Some(case) = case else { return Err(CliError::Failed(format!("the kernel library has no case {CASE}"))) };
    let mut failed = 0;
    for &kind in DeviceKind::ALL {
        let device = match Executor::open(kind, None) {
            Ok(device) => device,
            // What is wrong with the hardware was said above.
            Err(e) if !kind.is_hardware() => {
                failed += 1;
                line(streams, "check", &format!("{kind}: {e}"))?;
                continue;
            }
            Err(_) => continue,
        };
        let verdict = match run_case(&case, &device, Effort::seeds(1)) {
            Ok(result) if result.verdict.pass() => format!("{CASE} on {}: right", device.describe()),
            Ok(result) => {
                failed += 1;
                format!("{CASE} on {}: {}", device.describe(), result.verdict)
            }
            Err(e) => {
                failed += 1;
                format!("{CASE} on {}: {e}", device.describe())
            }
        };
        line(streams, "check", &verdict)?;
    }
    if failed > 0 { Err(CliError::Failed(format!("{failed} devices failed their check"))) } else { Ok(()) }
}
