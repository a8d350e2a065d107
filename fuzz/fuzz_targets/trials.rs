//! Kernels that are specialised, or whose author says who does what, compute in the simulator what the interpreter computes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::trial::{Answer, Judge};
use tilelift_fuzzgen::{Source, generate_trial};
use tilelift_tools::execute::DeviceKind;

fuzz_target!(|bytes: &[u8]| {
    let mut trial = generate_trial(&mut Source::from_bytes(bytes)).unwrap_or_else(|e| panic!("{e}"));
    let judge = Judge::open(DeviceKind::Sim).unwrap_or_else(|e| panic!("{e}"));
    if let Answer::Failed(f) = judge.judge(&mut trial, bytes.len() as u64) {
        panic!("{f}\n; {}\n{}", trial.asked(), trial.case.to_tile_text());
    }
});
