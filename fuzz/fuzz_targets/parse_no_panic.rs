//! Any text parses or is refused; what parses and verifies prints and parses again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tilelift_fuzzgen::oracle;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        oracle::any_text(text);
    }
});
