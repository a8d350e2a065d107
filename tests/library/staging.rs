//! Where operands of dots wait is an alternative of the search over layouts: fragments straight from memory, or a map of shared memory,
//! a swizzle or rows with gaps. Of pipelined loops it is the program that is searched, which copies ahead into rings.

use tilelift::isel::{LowerOptions, choose};
use tilelift::{ir, targets};

/// The kernel with its layouts, and the rule behind each.
fn chosen(text: &str) -> String {
    let file = ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let kernel = ir::verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e}"));
    let target = targets::by_name("sm_80").expect("a known target");
    choose(&kernel, &target, &LowerOptions::default(), true).expect("it is planned").expect("it is searched").text
}

/// The layout of the result of the line that contains a text.
fn layout_of<'t>(text: &'t str, line: &str) -> &'t str {
    let line = text.lines().find(|l| l.contains(line)).unwrap_or_else(|| panic!("no `{line}` in\n{text}"));
    let name = line.split(" in L").nth(1).and_then(|r| r.split(|c: char| !c.is_ascii_digit()).next()).unwrap_or_else(|| panic!("{line}"));
    let head = format!("; L{name} = ");
    text.lines().find(|l| l.starts_with(&head)).unwrap_or_else(|| panic!("no {head} in\n{text}"))
}

fn in_memory(layout: &str) -> bool {
    layout.contains("off:")
}

/// Q is read by every round of the loop and loaded once: it goes to registers as it is multiplied. K comes anew each round, its copies ahead of
/// it: it waits in shared memory.
const TWO: &str = "
kernel @two(v0: view<f16, [64, 64]>, v1: view<f16, [?%64, 64]>, v2: view<f32, [64, 64]>) warps=4 stages=3 {
    v3 = load v0[0, 0] : tile<64x64xf16>
    v4 = dim v1, 0
    v5 = splat 0.0 : tile<64x64xf32>
    v6 = for v7 in 0..v4 step 64 carry v8 = v5 {
        v9 = load v1[v7, 0] : tile<64x64xf16>
        v10 = transpose v9, [1, 0]
        v11 = dot v3, v10, v8
        yield v11
    }
    store v2[0, 0], v6
}
";

#[test]
fn what_is_loaded_once_goes_to_fragments_and_what_is_copied_ahead_waits_in_memory() {
    let text = chosen(TWO);
    assert!(!in_memory(layout_of(&text, " load v0[")), "{text}");
    assert!(in_memory(layout_of(&text, "local_load")) && text.contains("copy_async v1["), "{text}");
    let line = text.lines().find(|l| l.contains(" load v0[")).unwrap();
    assert!(line.contains("(anchor)") && line.contains("plainly in"), "the rule and the plain place are named: {line}");
}

/// Words of four bytes of which the plain swizzle makes conflicts: another map is taken.
const TURNED: &str = "
kernel @turned(v0: view<f32, [64, ?%32]>, v1: view<f32, [?%32, 64]>, v2: view<f32, [64, 64]>) warps=4 stages=3 {
    v4 = dim v0, 1
    v5 = splat 0.0 : tile<64x64xf32>
    v6 = for v7 in 0..v4 step 32 carry v8 = v5 {
        v9 = load v0[0, v7] : tile<64x32xf32>
        v10 = load v1[v7, 0] : tile<32x64xf32>
        v11 = dot v9, v10, v8 tf32
        yield v11
    }
    store v2[0, 0], v6
}
";

#[test]
fn a_map_with_fewer_passes_takes_the_place_of_the_plain_one() {
    let text = chosen(TURNED);
    let [left, right] = &text.lines().filter(|l| l.contains("local_load")).collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(in_memory(layout_of(&text, right)) && right.contains("plainly in"), "{text}");
    // Where matrix loads have no conflicts the plain map stays.
    assert!(in_memory(layout_of(&text, left)) && !left.contains("plainly in"), "{text}");
}
