//! The lane programs of every target compute what the interpreter computes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Config, Source, generate, oracle};

fuzz_target!(|bytes: &[u8]| {
    let case = generate(&mut Source::from_bytes(bytes), &Config::small()).expect("the generator builds");
    let result = oracle::reference(&case)
        .and_then(|want| oracle::targets().iter().try_for_each(|t| oracle::lane(&case, &want, t, &Default::default()).map(drop)));
    if let Err(f) = result {
        panic!("{f}\n{}", case.to_tile_text());
    }
});
