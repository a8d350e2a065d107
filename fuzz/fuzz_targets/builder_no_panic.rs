//! Any sequence of builder calls gives a kernel that verifies, or a list of mistakes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Source, oracle};

fuzz_target!(|bytes: &[u8]| {
    oracle::any_builder_calls(&mut Source::from_bytes(bytes));
});
