//! External judges for tests: finds NVIDIA's assembler and reads its report; finds the disassembler and follows operands through what was
//! assembled; finds Triton and takes its PTX; finds LLVM's assemblers and linker for AMD chips, HIP's headers and a C compiler.
//!
//! A test asks for an oracle and runs without it if there is none, unless `TILELIFT_REQUIRE_ORACLES=1` says that a missing one
//! is a failure.

#![deny(missing_docs)]

mod assemble;
mod batch;
mod error;
mod follow;
mod hip;
mod llvm;
mod nvdisasm;
mod once;
mod parallel;
mod ptxas;
mod required;
mod triton;

pub use assemble::{AsmReport, assemble, assemble_bytes, ptxas_version};
pub use batch::{Batch, Spills};
pub use error::AsmError;
pub use follow::{Finding, Followed, Stray, follow, has_operands};
pub use hip::{c_compiler, hip_headers};
pub use llvm::{Line, amd_link, amd_object, assembles, encodings, lld, llvm_mc, llvm_objdump, section, tool_output, zig};
pub use nvdisasm::{disassemble, nvdisasm};
pub use once::Once;
pub use parallel::in_parallel;
pub use ptxas::ptxas;
pub use required::required;
pub use triton::{TRITON, TritonFiles, TritonKernel, compile_triton, triton};
