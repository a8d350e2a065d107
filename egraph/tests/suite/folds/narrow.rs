//! Loops that go round only where a mask lets something happen: sums, maxima, attention; bounds at both ends; what keeps all its rounds.

use super::*;
use crate::common::Draft;
use tilelift_egraph::End;

/// Only the ranges of loops change.
fn narrowed(source: &str) -> (Kernel, Kernel, Report) {
    let kernel = parsed(source);
    let (is, report) = made(&kernel, &Options { only: Some("narrow"), ..allow(Class::Reassoc) });
    (kernel, is, report)
}

/// Element operations of a run.
fn work(k: &Kernel, open: i64) -> u64 {
    let mut memory = Memory::new();
    let views = k.params.iter().map(|&p| {
        let Type::View(v) = k.ty(p) else { panic!("a view for each parameter") };
        let shape: Vec<i64> = v.dims.iter().map(|d| if let Extent::Fixed(n) = d { i64::from(*n) } else { open }).collect();
        let bytes = shape.iter().product::<i64>() as usize * v.elem.bytes() as usize;
        ViewArg::dense(memory.add(Buffer::from_bytes(vec![0; bytes])), v.elem, &shape).into()
    });
    let args: Vec<Arg> = views.collect();
    interpret(&verify(k).expect("verifies"), [1, 1, 1], &args, &mut memory, &interp::Options::default()).expect("it runs").fuel
}

/// Row sums of what a mask lets through: columns `COLUMN` in tiles of 32, `INDEX` times `FACTOR`, rows from `ROW` on.
const SUMS: &str = "kernel @sums(v0: view<f32, [16, ?]>, v1: view<f32, [16]>, v2: view<i32, [1]>) {
    v3 = dim v0, 1
    v4 = splat 0.0 : tile<16xf32>
    v5 = for v6 in LOW..HIGH step STEP carry v7 = v4 {
        v8 = mul v6, FACTOR
        v9 = load v0[0, v8] : tile<16x32xf32>
        v10 = iota 1 : tile<16x32xi32>
        v11 = splat v8 : tile<16x32xi32>
        v12 = add v10, v11
        v13 = iota 0 : tile<16x32xi32>
        v14 = program_id x
        v15 = mul v14, 16
        v16 = add v15, ROW
        v17 = splat v16 : tile<16x32xi32>
        v18 = add v13, v17
        v19 = cmp MASK
        v20 = splat 0.0 : tile<16x32xf32>
        v21 = select v19, VALUES
        v22 = reduce add v21, axis 1
        v23 = add v7, v22
        yield v23
    }
    store v1[0], v5
}";

fn sums(parts: [&str; 7]) -> String {
    let words = ["LOW", "HIGH", "STEP", "FACTOR", "ROW", "MASK", "VALUES"];
    words.iter().zip(parts).fold(SUMS.to_owned(), |s, (w, p)| s.replace(w, p))
}

#[test]
fn rounds_in_which_a_mask_lets_nothing_through_go() {
    use End::{First, Last};
    let keep = "v9, v20";
    // What is written, which ends are cut, and about which part of the rounds of 640 columns stays.
    let cases: &[([&str; 7], &[End], [u64; 2])] = &[
        (["0", "v3", "32", "1", "100", "le v12, v18", keep], &[Last], [4, 20]),
        (["0", "v3", "32", "1", "100", "gt v12, v18", "v20, v9"], &[Last], [4, 20]),
        (["0", "v3", "32", "1", "100", "ge v12, v18", keep], &[First], [17, 20]),
        (["0", "v3", "32", "1", "100", "eq v12, v18", keep], &[Last, First], [1, 20]),
        (["0", "v3", "32", "1", "100", "lt v18, v12", "v20, v9"], &[Last], [4, 20]),
        // By tiles instead of columns.
        (["0", "20", "1", "32", "100", "le v12, v18", keep], &[Last], [4, 20]),
        (["0", "20", "1", "32", "100", "gt v12, v18", keep], &[First], [17, 20]),
        (["3", "20", "2", "32", "300", "gt v12, v18", keep], &[First], [6, 9]),
        // Downwards.
        (["0", "20", "1", "-32", "-100", "ge v12, v18", keep], &[Last], [5, 20]),
    ];
    for (parts, ends, [some, all]) in cases {
        let (was, is, report) = narrowed(&sums(*parts));
        let found: Vec<End> = report.narrowed.iter().map(|n| n.end).collect();
        assert_eq!(found, *ends, "{parts:?}\n{}", text::print(&is));
        for open in [640, 96, 33, 1, 0] {
            near(&was, &is, open, 0.0);
        }
        // What is the same in all rounds stands in front of the loop in either.
        let (same, _) = made(&was, &Options { only: Some("nothing"), ..allow(Class::Reassoc) });
        let (before, after) = (work(&same, 640), work(&is, 640));
        assert!(after * all <= before * (some + 1) && after * all + before >= before * some, "{parts:?}: {after} of {before}");
    }
}

#[test]
fn a_round_that_does_anything_stays() {
    let keep = "v9, v20";
    for parts in [
        // Nothing is known of where it ends.
        ["0", "v3", "32", "1", "100", "ule v12, v18", keep],
        ["0", "v3", "32", "0", "100", "le v12, v18", keep],
        // Another number than 0 is added; what is masked is let through.
        ["0", "v3", "32", "1", "100", "le v12, v18", "v9, v9"],
        // The range ends there.
        ["0", "640", "32", "1", "1000", "le v12, v18", keep],
        ["0", "20", "1", "32", "1000", "le v12, v18", keep],
        ["0", "v3", "32", "1", "v3", "lt v12, v18", keep],
    ] {
        let (_, is, report) = narrowed(&sums(parts));
        assert_eq!(report.narrowed, [], "{parts:?}\n{}", text::print(&is));
    }
    // What a round writes is seen, and so is what it counts.
    let masked = sums(["0", "v3", "32", "1", "100", "le v12, v18", keep]);
    for (from, to) in [
        ("v23 = add v7, v22", "v23 = add v7, v22\nstore v1[0], v23"),
        ("v23 = add v7, v22", "v24 = splat 1.0 : tile<16xf32>\nv25 = add v7, v24\nv23 = add v25, v22"),
        ("v22 = reduce add v21, axis 1", "v24 = splat 0.5 : tile<16x32xf32>\nv25 = add v21, v24\nv22 = reduce add v25, axis 1"),
        ("v22 = reduce add v21, axis 1", "v24 = exp v21\nv22 = reduce add v24, axis 1"),
        ("v23 = add v7, v22", "v23 = maximum v7, v22"),
        ("v23 = add v7, v22", "v23 = mul v7, v22"),
        // Numbers that may wrap.
        ("v13 = iota 0 : tile<16x32xi32>", "v24 = iota 0 : tile<16x32xi8>\nv13 = cast v24 : tile<16x32xi32>"),
        // A mask that is there for a part of the tile.
        ("v19 = cmp le v12, v18", "v24 = cmp le v12, v18\nv25 = splat 7 : tile<16x32xi32>\nv26 = cmp lt v13, v25\nv19 = or v24, v26"),
    ] {
        assert!(masked.contains(from));
        let (_, is, report) = narrowed(&masked.replace(from, to));
        assert_eq!(report.narrowed, [], "{to}\n{}", text::print(&is));
    }
    // Not without leave: infinities behind a mask would be numbers.
    let (_, report) = made(&parsed(&masked), &allow(Class::Free));
    assert_eq!(report.narrowed, []);
}

/// Maximum, sum of exponentials and product, a loop each, over keys that a window lets through: one loop over its keys.
#[test]
fn a_window_of_an_attention_is_all_that_is_read() {
    let scores = |at: usize, index: &str| {
        format!(
            "v{0} = load v1[{index}, 0] : tile<32x16xf32>\nv{1} = transpose v{0}, [1, 0]\nv{2} = splat 0.0 : tile<16x32xf32>\nv{3} = dot v8, v{1}, v{2}\n\
             v{4} = iota 1 : tile<16x32xi32>\nv{5} = splat {index} : tile<16x32xi32>\nv{6} = add v{4}, v{5}\nv{7} = iota 0 : tile<16x32xi32>\nv{8} = splat 300 : tile<16x32xi32>\n\
             v{9} = add v{7}, v{8}\nv{10} = cmp le v{6}, v{9}\nv{11} = sub v{9}, v{6}\nv{12} = splat 100 : tile<16x32xi32>\nv{13} = cmp lt v{11}, v{12}\n\
             v{14} = and v{10}, v{13}\nv{15} = splat -inf_f32 : tile<16x32xf32>\nv{16} = select v{14}, v{3}, v{15}\n",
            at,
            at + 1,
            at + 2,
            at + 3,
            at + 4,
            at + 5,
            at + 6,
            at + 7,
            at + 8,
            at + 9,
            at + 10,
            at + 11,
            at + 12,
            at + 13,
            at + 14,
            at + 15,
            at + 16
        )
    };
    let source = format!(
        "kernel @window(v0: view<f32, [16, 16]>, v1: view<f32, [?, 16]>, v2: view<f32, [?, 16]>, v3: view<f32, [16, 16]>) {{
v7 = dim v1, 0
v8 = load v0[0, 0] : tile<16x16xf32>
v10 = splat -inf_f32 : tile<16xf32>
v11 = for v12 in 0..v7 step 32 carry v13 = v10 {{
{}v40 = reduce maximum v36, axis 1
v41 = maximum v13, v40
yield v41
}}
v50 = splat 0.0 : tile<16xf32>
v51 = for v52 in 0..v7 step 32 carry v53 = v50 {{
{}v80 = reshape v11 : tile<16x1xf32>
v81 = broadcast v80 : tile<16x32xf32>
v82 = sub v76, v81
v83 = exp v82
v84 = reduce add v83, axis 1
v85 = add v53, v84
yield v85
}}
v90 = splat 0.0 : tile<16x16xf32>
v91 = for v92 in 0..v7 step 32 carry v93 = v90 {{
{}v120 = reshape v11 : tile<16x1xf32>
v121 = broadcast v120 : tile<16x32xf32>
v122 = sub v116, v121
v123 = exp v122
v124 = reshape v51 : tile<16x1xf32>
v125 = broadcast v124 : tile<16x32xf32>
v126 = div v123, v125
v128 = load v2[v92, 0] : tile<32x16xf32>
v129 = dot v126, v128, v93
yield v129
}}
store v3[0, 0], v91
}}",
        scores(20, "v12"),
        scores(60, "v52"),
        scores(100, "v92")
    );
    let (was, is, report) = narrowed(&source);
    assert_eq!(report.narrowed.len(), 6, "both ends of three loops: {}", text::print(&is));
    // Where there are no keys in the window, rows are NaN.
    for open in [640, 320, 303, 150] {
        near(&was, &is, open, 0.0);
    }
    assert!(work(&is, 640) * 3 < work(&was, 640));
    let (is, report) = fused_by(&source, &[640, 320, 303, 150], of_exponents(64.0 * 2f64.powi(-21)));
    assert_eq!((count(&is, Op::For), report.narrowed.len()), (1, 6), "{report}{}", text::print(&is));
    assert!(work(&is, 640) * 6 < work(&was, 640));
}

/// Loops over one range become one loop, which what is cut from one of them alone would prevent.
#[test]
fn loops_of_one_range_are_cut_alike() {
    let masked = sums(["0", "v3", "32", "1", "100", "le v12, v18", "v9, v20"]);
    let (head, _) = masked.split_once("    store").expect("a store");
    let plain = "    v30 = for v31 in 0..v3 step 32 carry v32 = v4 {
        v33 = load v0[0, v31] : tile<16x32xf32>
        v34 = reduce maximum v33, axis 1
        v35 = maximum v32, v34
        yield v35
    }
    v36 = add v5, v30
    store v1[0], v36
}";
    let (is, report) = made(&parsed(&format!("{head}{plain}")), &allow(Class::Reassoc));
    assert_eq!((count(&is, Op::For), report.narrowed.len()), (1, 0), "{}", text::print(&is));
}

/// Random masks of coordinates before random folds: the same bits, and many with fewer rounds.
#[test]
fn random_masks_keep_every_bit() {
    let (mut cut, mut rounds) = (0, [0, 0]);
    for seed in 0..160 {
        let mut d = Draft::new(200, seed);
        let tile = "tile<8x16xi32>";
        let coordinate = |d: &mut Draft| {
            let (a, b) = (d.push(&format!("iota 1 : {tile}")), d.push(&format!("iota 0 : {tile}")));
            let factor = [1, 1, 2, -1, 16][d.pick(5)];
            let index = d.push(&format!("mul v6, {factor}"));
            let (shift, many) = (d.pick(200) as i64 - 60, [1, 1, 3, 0][d.pick(4)]);
            let start = match d.pick(3) {
                0 => d.push(&format!("add {index}, {shift}")),
                1 => d.push(&format!("sub {index}, {shift}")),
                _ => d.push(&format!("add v3, {shift}")),
            };
            let start = d.push(&format!("splat {start} : {tile}"));
            let many = d.push(&format!("splat {many} : {tile}"));
            let (a, b) = if d.pick(2) == 0 { (a, b) } else { (b, a) };
            let a = d.push(&format!("mul {a}, {many}"));
            let a = d.push(&format!("add {a}, {start}"));
            if d.pick(3) == 0 { d.push(&format!("add {a}, {b}")) } else { a }
        };
        let mut masks = Vec::new();
        for _ in 0..1 + seed % 2 {
            let (a, b) = (coordinate(&mut d), coordinate(&mut d));
            let op = ["lt", "le", "gt", "ge", "eq", "ne"][d.pick(6)];
            masks.push(d.push(&format!("cmp {op} {a}, {b}")));
        }
        let mut mask = masks[0].clone();
        if let Some(other) = masks.get(1) {
            let op = ["and", "or"][d.pick(2)];
            mask = d.push(&format!("{op} {mask}, {other}"));
        }
        if d.pick(4) == 0 {
            mask = d.push(&format!("not {mask}"));
        }
        let x = d.push("load v0[0, v6] : tile<8x16xf32>");
        let (fold, none, start) =
            [("add", "0.0", "0.0"), ("maximum", "-inf_f32", "-inf_f32"), ("minimum", "inf_f32", "inf_f32")][d.pick(3)];
        let none = d.push(&format!("splat {none} : tile<8x16xf32>"));
        let sides = if d.pick(2) == 0 { format!("{x}, {none}") } else { format!("{none}, {x}") };
        let x = d.push(&format!("select {mask}, {sides}"));
        let x = d.push(&format!("reduce {fold} {x}, axis 1"));
        let x = d.push(&format!("{fold} v7, {x}"));
        let (low, step) = (d.pick(20), [16, 16, 5, 1][d.pick(4)]);
        let source = format!(
            "kernel @random(v0: view<f32, [8, ?]>, v1: view<f32, [8]>) {{\nv3 = dim v0, 1\nv4 = splat {start} : tile<8xf32>\n\
             v5 = for v6 in {low}..v3 step {step} carry v7 = v4 {{\n{}\nyield {x}\n}}\nstore v1[0], v5\n}}",
            d.lines.join("\n")
        );
        let (was, is, report) = narrowed(&source);
        for open in [150, 64, 17, 0] {
            near(&was, &is, open, 0.0);
        }
        if !report.narrowed.is_empty() {
            cut += 1;
            (rounds[0], rounds[1]) = (rounds[0] + work(&was, 150), rounds[1] + work(&is, 150));
        }
    }
    assert!(cut > 30 && rounds[1] * 3 < rounds[0] * 2, "{cut} of 160 cut, {rounds:?} element operations");
}
