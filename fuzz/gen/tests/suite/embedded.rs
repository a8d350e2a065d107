//! A sample of what the fuzz targets `cache_files` and `launch_arguments` try without end.

use tilelift_fuzzgen::{Source, oracle};

/// Bytes of a seed.
fn bytes(seed: u64, len: u32) -> Vec<u8> {
    let mut src = Source::from_seed(seed);
    (0..len).map(|_| src.below(256) as u8).collect()
}

#[test]
fn damaged_entries_are_errors_or_misses() {
    let read = (0..20_000).filter(|&seed| oracle::any_entry(&bytes(seed, 48))).count();
    // Changes of numbers and texts are artifacts, too.
    assert!((300..15_000).contains(&read), "{read}");
}

#[test]
fn changes_of_launches_agree_with_binding_anew() {
    let mut all = [0; 2];
    for seed in 0..20_000 {
        let counts = oracle::any_launch(&mut Source::from_seed(seed));
        all = [all[0] + counts[0], all[1] + counts[1]];
    }
    assert!(all.iter().all(|&n| n > 10_000), "{all:?}");
}
