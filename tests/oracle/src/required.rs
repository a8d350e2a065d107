//! Whether tests may run without an oracle.

/// True if a missing oracle must fail the test.
pub fn required() -> bool {
    std::env::var_os("TILELIFT_REQUIRE_ORACLES").is_some_and(|v| v == "1")
}
