//! Any arguments are bound or refused, and a change of one is taken exactly where binding all of them anew is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Source, oracle};

fuzz_target!(|bytes: &[u8]| {
    oracle::any_launch(&mut Source::from_bytes(bytes));
});
