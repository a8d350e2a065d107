//! Any bytes are an artifact or an error; a damaged entry of a store is a miss.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::oracle;

fuzz_target!(|bytes: &[u8]| {
    oracle::any_entry(bytes);
});
