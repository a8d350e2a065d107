//! The PTX text computes in the simulator what the interpreter computes, without races or poison.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::{Config, Source, generate, oracle};

fuzz_target!(|bytes: &[u8]| {
    let case = generate(&mut Source::from_bytes(bytes), &Config::small()).expect("the generator builds");
    let seed = bytes.len() as u64;
    let result =
        oracle::reference(&case).and_then(|want| oracle::sim(&case, &want, &oracle::targets()[0], &oracle::schedules(seed)).map(drop));
    if let Err(f) = result {
        panic!("{f}\n{}", case.to_tile_text());
    }
});
