//! The kernels with explicit control through the front: what every target says to them, and on the GPU what they compute. The lane
//! interpreter and the simulator have them in `backends/nvptx/tests/suite/explicit.rs`.

use tilelift::{Options, compile, targets};
use tilelift_isel::LowerOptions;
use tilelift_kernels::explicit::cases;
use tilelift_tools::cli::accept::{Effort, run_case};
use tilelift_tools::execute::{DeviceKind, Executor};

/// The target with the units.
const TARGET: &str = "sm_90a";

#[test]
fn every_case_compiles_and_other_targets_say_what_they_lack() {
    let target = targets::by_name(TARGET).expect("known");
    for case in cases() {
        let kernel = case.build().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let lower = LowerOptions::default();
        let options = Options { lower, ..Options::default() };
        let made = compile(&kernel, &target, &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(made.cluster, kernel.cluster, "{}", case.name);
        for other in ["sm_80", "gfx942"] {
            let refused = tilelift::lower(&kernel, &targets::by_name(other).expect("known"), &options).expect_err(&case.name);
            assert_eq!(refused.code(), "unsupported", "{} on {other}: {refused}", case.name);
        }
    }
}

#[test]
fn all_cases_pass_on_the_gpu() {
    if std::env::var_os("TILELIFT_CUDA").is_none() {
        return;
    }
    let device = Executor::open(DeviceKind::Cuda, targets::by_name(TARGET).as_ref()).unwrap_or_else(|e| panic!("{e}"));
    for case in cases() {
        let result = run_case(&case, &device, Effort::seeds(1)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert!(result.verdict.pass(), "{}: {}", case.name, result.verdict);
    }
}
