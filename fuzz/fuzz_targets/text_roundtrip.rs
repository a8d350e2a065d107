//! Printing and parsing change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Config, Source, generate, oracle};

fuzz_target!(|bytes: &[u8]| {
    let case = generate(&mut Source::from_bytes(bytes), &Config::small()).expect("the generator builds");
    if let Err(f) = oracle::text_round_trip(&case) {
        panic!("{f}\n{}", case.to_tile_text());
    }
});
