//! Registers of a lane in kernels without products: what the compiler estimates, and what the assembler comes to.

use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::{LayoutChoice, LowerOptions, lower};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// The kernels of the file test.
const FILE: &str = include_str!("../../../../tests/tile/lower/depth_first.tile");

/// Kernels, with the most registers by the estimate and by the assembler. With lines of lanes and op by op, they took 159, 127 and 95. Of the last one too little
/// would become free (154 to 119 by the estimate) for another order.
const MOST: &[(&str, [u32; 2])] = &[("applied", [68, 64]), ("columns", [112, 80]), ("largest", [154, 96])];

/// Registers of a lane, estimated, and the text.
fn compiled(kernel: &Kernel) -> (u32, String) {
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    let options = LowerOptions { layouts: LayoutChoice::Searched, ..LowerOptions::default() };
    let done = lower(&verified, &sm_90a(), &options).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let text = emit(&done.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name)).text;
    (done.program.registers(), text)
}

#[test]
fn lanes_that_hold_many_elements_take_few_registers() {
    let kernels = text::parse(FILE).unwrap_or_else(|e| panic!("{e}")).kernels;
    for (name, [estimated, assembled]) in MOST {
        let kernel = kernels.iter().find(|k| k.name == *name).expect("the file has it");
        let (registers, text) = compiled(kernel);
        assert!(registers <= *estimated, "{name}: {registers}");
        match tilelift_oracle::assemble(&text, "sm_90a") {
            Ok(r) => assert!(r.registers <= *assembled && r.spills == 0 && r.stack == 0 && r.warnings.is_empty(), "{name}: {r:?}"),
            Err(tilelift_oracle::AsmError::Missing) => assert!(!tilelift_oracle::required(), "ptxas is missing"),
            Err(e) => panic!("{name}: {e}"),
        }
    }
}
