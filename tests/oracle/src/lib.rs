//! External judges for tests: finds NVIDIA's assembler and reads its report; finds the disassembler and follows operands through what was
//! assembled; finds Triton and takes its PTX.
//!
//! A test asks for an oracle and runs without it if there is none, unless `TILELIFT_REQUIRE_ORACLES=1` says that a missing one
//! is a failure.

#![deny(missing_docs)]

mod follow;
mod nvdisasm;
mod ptxas;
mod triton;

pub use follow::{Finding, Followed, Stray, follow, has_operands};
pub use nvdisasm::{disassemble, nvdisasm};
pub use ptxas::{AsmError, AsmReport, assemble, assemble_bytes, ptxas, ptxas_version};
pub use triton::{TRITON, TritonKernel, compile_triton, triton};

/// True if a missing oracle must fail the test.
pub fn required() -> bool {
    std::env::var_os("TILELIFT_REQUIRE_ORACLES").is_some_and(|v| v == "1")
}
