//! Kernels compiled off, by default, with layouts searched and by chaos compute in the simulators of both vendors what the interpreter computes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Source, any_level};

fuzz_target!(|bytes: &[u8]| {
    if let Err(f) = any_level(&mut Source::from_bytes(bytes)) {
        panic!("{f}");
    }
});
