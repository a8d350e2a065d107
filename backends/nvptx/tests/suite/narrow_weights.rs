//! Weights of 4 bits that lanes make floats of, in front of products: how many instructions that takes, and that products run meanwhile. The text is what
//! the assembler gets: each weight is there three times, in front of the loop and in the two rounds in which it is printed. What stores the results
//! is counted, too.

use crate::common::assembler::nothing_to_say;
use tilelift_ir::{text, verify};
use tilelift_isel::{LowerOptions, lower};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

const COPIES: usize = 3;

/// The text of a kernel of a file of tests, which the assembler must have nothing to say to.
fn ptx(file: &str, name: &str) -> String {
    let file = text::parse(file).unwrap();
    let kernel = file.kernels.iter().find(|k| k.name == name).unwrap();
    let l = lower(&verify::verify(kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let ptx = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}")).text;
    nothing_to_say(name, &ptx, "sm_90a");
    ptx
}

/// Lines of a text that compute: no loads, products, branches and declarations.
fn computing(ptx: &str) -> usize {
    let words =
        ["prmt", "lop3", "and.", "or.", "xor.", "shl.", "shr.", "cvt.", "mul.", "fma.", "sub.", "selp", "min.", "max.", "shfl", "mov.b16"];
    ptx.lines().filter(|l| words.iter().any(|w| l.trim_start().starts_with(w))).count()
}

#[test]
fn few_instructions_make_a_weight() {
    let floats = include_str!("../../../../tests/tile/loops/weights_of_four_bits.tile");
    let halves = include_str!("../../../../tests/tile/loops/halves_of_bytes_by_hand.tile");
    let tables = include_str!("../../../../tests/tile/loops/tables_of_few_numbers.tile");
    for (file, name, a_weight) in [
        (floats, "powers", 6.0),
        (floats, "powers_f16", 6.0),
        (floats, "floats_of_8_bits", 7.0),
        (floats, "few_rows", 5.5),
        (floats, "by_way_of_f32", 6.0),
        (halves, "words32", 6.5),
        (halves, "minus8", 6.0),
        (halves, "signed", 6.5),
        (halves, "tab16", 4.5),
        (tables, "codebook", 6.5),
    ] {
        let ptx = ptx(file, name);
        // Eight warps have 128 columns of 64 weights.
        let weights = COPIES * 128 * 64 / 256;
        let found = computing(&ptx) as f64 / weights as f64;
        assert!(found <= a_weight, "{name}: {found} instructions a weight");
        assert!(ptx.contains("wgmma.wait_group.sync.aligned 1"), "{name}: products do not run meanwhile");
        assert!(!ptx.contains("cvt.rn.f32.s16"), "{name}: conversions at a quarter of the rate");
    }
}

#[test]
fn a_table_of_few_numbers_is_in_no_memory() {
    let ptx = ptx(include_str!("../../../../tests/tile/loops/tables_of_few_numbers.tile"), "codebook");
    let asked = ptx.matches("shfl.sync.idx.b32").count();
    assert!((COPIES * 32..=COPIES * 32 + 4).contains(&asked), "{asked} lanes are asked");
    // Once, in front of the loop, the numbers may go from where they were loaded to their lanes.
    assert!(ptx.matches("st.shared.f32").count() + ptx.matches("st.shared.b32").count() <= 1, "{ptx}");
}
