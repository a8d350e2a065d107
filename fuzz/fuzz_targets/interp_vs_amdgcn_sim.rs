//! The code objects of AMD chips compute in the simulator what the interpreter computes, without a wait, a nop or a barrier too few.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift::targets;
use tilelift_fuzzgen::trial::{Answer, Judge};
use tilelift_fuzzgen::{Config, Source, generate_plain};
use tilelift_tools::execute::DeviceKind;

const TARGETS: [&str; 3] = ["gfx942", "gfx90a", "gfx950"];

fuzz_target!(|bytes: &[u8]| {
    let trial = generate_plain(&mut Source::from_bytes(bytes), &Config::small()).unwrap_or_else(|e| panic!("{e}"));
    for name in TARGETS {
        let target = targets::by_name(name).unwrap_or_else(|| panic!("{name} is no target"));
        let judge = Judge::open_for(DeviceKind::Sim, target).unwrap_or_else(|e| panic!("{e}"));
        if let Answer::Failed(f) = judge.judge(&mut trial.clone(), bytes.len() as u64) {
            panic!("{name}: {f}\n; {}\n{}", trial.asked(), trial.case.to_tile_text());
        }
    }
});
