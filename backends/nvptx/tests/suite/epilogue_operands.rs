//! Tiles that stand behind a specialised loop: through the ring, some columns at a time, and without a spill.

use crate::common::assembler::nothing_to_say;
use crate::common::schedule_text::same_text;
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::{LowerOptions, Lowered, Schedule, lower};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// The kernels of the file test.
const FILE: &str = include_str!("../../../../tests/tile/loops/epilogue_operands.tile");

fn kernels() -> Vec<Kernel> {
    text::parse(FILE).unwrap_or_else(|e| panic!("{e}")).kernels.into_iter().collect()
}

fn lowered(kernel: &Kernel) -> Lowered {
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{}", e.pretty(kernel)));
    lower(&verified, &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

/// Operands, steps, and how many groups are computed some columns at a time.
fn operands(l: &Lowered) -> [usize; 3] {
    let Schedule::Specialised(s) = &l.plan.schedule else { panic!("{}", l.plan) };
    let cut = s.epilogue.groups.iter().filter(|g| !g.slices.is_empty()).count();
    [s.epilogue.operands.len(), s.epilogue.steps() as usize, cut]
}

#[test]
fn tiles_come_through_places_of_the_ring() {
    // Boxes by places: of 64 and 32 columns, 4 + 8 by 3; 4 times 2 by 3 for each store. Where columns don't meet, and lanes have the registers, they load.
    let want = [("gated", [2, 4, 1]), ("rotated", [4, 4, 2]), ("added", [0, 0, 0]), ("two_results", [0, 0, 0]), ("in_place", [0, 0, 0])];
    let all = kernels();
    assert_eq!(all.len(), want.len());
    for (kernel, (name, counts)) in all.iter().zip(want) {
        assert_eq!(kernel.name, name);
        let l = lowered(kernel);
        assert_eq!(operands(&l), counts, "{name}: {}", l.plan);
        same_text(name, &l, &LowerOptions::default());
    }
}

#[test]
fn they_do_not_spill_and_lanes_load_what_the_ring_does_not_bring() {
    for kernel in kernels().iter().filter(|k| ["gated", "rotated", "added"].contains(&k.name.as_str())) {
        let l = lowered(kernel);
        let text = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name)).text;
        assert_eq!(text.contains("ld.global"), kernel.name == "added", "{}", kernel.name);
        nothing_to_say(&kernel.name, &text, "sm_90a");
    }
}
