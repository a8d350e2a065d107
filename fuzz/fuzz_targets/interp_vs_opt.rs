//! The interpreter before and after the optimizer: equal bits, for the best program and for a random one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Config, Source, generate, oracle};

fuzz_target!(|bytes: &[u8]| {
    let case = generate(&mut Source::from_bytes(bytes), &Config::small()).unwrap_or_else(|e| panic!("{e}"));
    let want = oracle::reference(&case).unwrap_or_else(|f| panic!("{f}\n{}", case.to_tile_text()));
    for chaos in [None, Some(bytes.len() as u64)] {
        oracle::optimised(&case, &want, chaos).unwrap_or_else(|f| panic!("{f}\n{}", case.to_tile_text()));
    }
});
