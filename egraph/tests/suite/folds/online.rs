//! Sums that follow a maximum or a mean over the same range: log-sum-exp, softmax, attention, variance; and what keeps its loop.

use super::*;

const LOG_SUM_EXP: &str = "kernel @lse(v0: view<f32, [16, ?]>, v1: view<f32, [16]>) {
    v2 = dim v0, 1
    v3 = splat -inf_f32 : tile<16xf32>
    v4 = for v5 in 0..v2 step 32 carry v6 = v3 {
        v7 = load v0[0, v5], other=-inf : tile<16x32xf32>
        v8 = reduce maximum v7, axis 1
        v9 = maximum v6, v8
        yield v9
    }
    v10 = splat 0.0 : tile<16xf32>
    v11 = for v12 in 0..v2 step 32 carry v13 = v10 {
        v14 = load v0[0, v12], other=-inf : tile<16x32xf32>
        v15 = reshape v4 : tile<16x1xf32>
        v16 = broadcast v15 : tile<16x32xf32>
        v17 = sub v14, v16
        v18 = exp v17
        v19 = reduce add v18, axis 1
        v20 = add v13, v19
        yield v20
    }
    v21 = log v11
    v22 = add v21, v4
    store v1[0], v22
}";

#[test]
fn a_log_sum_exp_in_two_loops_is_one() {
    // A sum of n tiles is rescaled n times: (n + 32) roundings and as many errors of exp, against a logarithm whose sum is at least 1.
    let (is, report) = fused(LOG_SUM_EXP, &[32, 77, 160, 1], 64.0 * 2f64.powi(-22));
    assert_eq!((count(&is, Op::For), count(&is, Op::Load)), (1, 1), "{report}{}", text::print(&is));
    assert!(report.applied("fold-rescale") > 0);
}

/// An attention forward as three kernels become when they are one: the scores are made in each of three loops, the last of which divides.
/// Rows beyond the keys of a causal mask, keys beyond the last one, and the logarithm of the sums beside.
fn attention(elem: &str, masked: bool) -> String {
    let scores = |at: usize, index: &str| {
        let v = |n: usize| format!("v{}", at + n);
        let mask = if masked {
            format!(
                "{} = iota 1 : tile<16x32xi32>\n{} = splat {index} : tile<16x32xi32>\n{} = add {}, {}\n\
                 {} = cmp lt {}, v203\n{} = cmp le {}, v206\n{} = and {}, {}\n{} = splat -inf_f32 : tile<16x32xf32>\n{} = select {}, {}, {}\n",
                v(10),
                v(11),
                v(12),
                v(10),
                v(11),
                v(13),
                v(12),
                v(14),
                v(12),
                v(15),
                v(13),
                v(14),
                v(16),
                v(17),
                v(15),
                v(9),
                v(16)
            )
        } else {
            String::new()
        };
        format!(
            "{} = load v1[{index}, 0] : tile<32x16x{elem}>\n{} = transpose {}, [1, 0]\n{} = splat 0.0 : tile<16x32xf32>\n\
             {} = dot v202, {}, {}\n{} = splat 0.25 : tile<16x32xf32>\n{} = mul {}, {}\n{mask}",
            v(0),
            v(1),
            v(0),
            v(2),
            v(3),
            v(1),
            v(2),
            v(8),
            v(9),
            v(3),
            v(8)
        )
    };
    let s = |at: usize| format!("v{}", at + if masked { 17 } else { 9 });
    format!(
        "kernel @attention(v0: view<{elem}, [16, 16]>, v1: view<{elem}, [?, 16]>, v2: view<{elem}, [?, 16]>, v3: view<f32, [16, 16]>, v4: view<f32, [16]>) {{
v200 = dim v1, 0
v202 = load v0[0, 0] : tile<16x16x{elem}>
v203 = splat v200 : tile<16x32xi32>
v204 = iota 0 : tile<16x32xi32>
v205 = splat 40 : tile<16x32xi32>
v206 = add v204, v205
v10 = splat -inf_f32 : tile<16xf32>
v11 = for v12 in 0..v200 step 32 carry v13 = v10 {{
{}v40 = reduce maximum {}, axis 1
v41 = maximum v13, v40
yield v41
}}
v50 = splat 0.0 : tile<16xf32>
v51 = for v52 in 0..v200 step 32 carry v53 = v50 {{
{}v80 = reshape v11 : tile<16x1xf32>
v81 = broadcast v80 : tile<16x32xf32>
v82 = sub {}, v81
v83 = exp v82
v84 = reduce add v83, axis 1
v85 = add v53, v84
yield v85
}}
v90 = splat 0.0 : tile<16x16xf32>
v91 = for v92 in 0..v200 step 32 carry v93 = v90 {{
{}v120 = reshape v11 : tile<16x1xf32>
v121 = broadcast v120 : tile<16x32xf32>
v122 = sub {}, v121
v123 = exp v122
v124 = reshape v51 : tile<16x1xf32>
v125 = broadcast v124 : tile<16x32xf32>
v126 = div v123, v125
v127 = cast v126 : tile<16x32x{elem}>
v128 = load v2[v92, 0] : tile<32x16x{elem}>
v129 = dot v127, v128, v93
yield v129
}}
store v3[0, 0], v91
v130 = log v51
v131 = add v130, v11
store v4[0], v131
}}",
        scores(20, "v12"), s(20), scores(60, "v52"), s(60), scores(100, "v92"), s(100)
    )
}

#[test]
fn an_attention_in_three_loops_is_one() {
    for elem in ["f32", "bf16", "f16"] {
        for masked in [false, true] {
            // Casts of shares are rounded before the division instead of behind it: half a unit of the operands each, of values up to 4 (32 at
            // the larger scale); the rest is a few roundings of f32 a tile. Without a mask keys beyond the end are zeros, so all are whole.
            let bound = match elem {
                "f32" => 64.0 * 2f64.powi(-21),
                "f16" => 32.0 * 2f64.powi(-10),
                _ => 32.0 * 2f64.powi(-7),
            };
            let opens: &[i64] = if masked { &[64, 77, 130, 1] } else { &[64, 32, 160] };
            let (is, report) = fused_by(&attention(elem, masked), opens, of_exponents(bound));
            let ops = [Op::For, Op::Dot, Op::Exp2, Op::Load].map(|op| count(&is, op));
            // The exponential of each score and, per row, of the maximum's move.
            assert_eq!(ops, [1, 2, 2, 3], "{elem}, {masked}: {report}{}", text::print(&is));
        }
    }
}

/// How a mask makes scores huge.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Hides {
    /// Instead of scores.
    Instead,
    /// Instead of products, which are scaled then.
    Scaled,
    /// By a number that is added.
    Added,
    /// By a number that the product begins with.
    Begun,
}

/// An attention in which the first keys of each row are hidden by a finite number.
fn hidden(how: Hides, low: &str) -> String {
    let mut source = attention("f32", true).replace("splat -inf_f32 : tile<16x32xf32>", &format!("splat {low} : tile<16x32xf32>"));
    source = source.replace("cmp le", "cmp ge");
    for at in [20, 60, 100] {
        let v = |n: usize| format!("v{}", at + n);
        let (chosen, tile) = (format!("{} = select {}, {}, {}\n", v(17), v(15), v(9), v(16)), "tile<16x32xf32>");
        assert!(source.contains(&chosen), "{source}");
        let number = |from: &str| format!("{} = splat {from} : {tile}\n", v(401));
        let instead = match how {
            Hides::Instead => continue,
            Hides::Scaled => {
                let scaled = format!("{} = mul {}, {}\n", v(17), v(400), v(401));
                format!("{} = select {}, {}, {}\n{}{scaled}", v(400), v(15), v(3), v(16), number("0.25"))
            }
            Hides::Added => {
                let sum = format!("{} = add {}, {}\n", v(17), v(9), v(400));
                format!("{}{} = select {}, {}, {}\n{sum}", number("0.0"), v(400), v(15), v(401), v(16))
            }
            Hides::Begun => {
                let product = format!("{} = dot v202, {}, {}\n", v(17), v(1), v(400));
                format!("{}{} = select {}, {}, {}\n{product}", number("0.0"), v(400), v(15), v(401), v(16))
            }
        };
        source = source.replace(&chosen, &instead);
    }
    source
}

/// Scores that a mask made huge cancel: a first tile of them counts nothing in the end, and a row of them has equal weights.
#[test]
fn huge_masked_scores_cancel() {
    for how in [Hides::Instead, Hides::Scaled, Hides::Added, Hides::Begun] {
        for low in ["-1e30", "-3.4028235e38", "-1e9"] {
            let (is, report) = fused_by(&hidden(how, low), &[64, 77, 32], of_exponents(4.0 * 64.0 * 2f64.powi(-21)));
            assert_eq!(count(&is, Op::For), 1, "{how:?}, {low}: {report}{}", text::print(&is));
            assert_eq!(count(&is, Op::Exp2), 2, "{how:?}, {low}: {report}{}", text::print(&is));
        }
    }
}

#[test]
fn a_softmax_in_three_loops_keeps_two() {
    let source = LOG_SUM_EXP
        .replace("@lse(v0: view<f32, [16, ?]>, v1: view<f32, [16]>)", "@softmax(v0: view<f32, [16, ?]>, v1: view<f32, [16, ?]>)");
    let (head, _) = source.split_once("v21 = log").expect("the loops");
    let source = format!(
        "{head}for v31 in 0..v2 step 32 {{
        v32 = load v0[0, v31], other=-inf : tile<16x32xf32>
        v33 = reshape v4 : tile<16x1xf32>
        v34 = broadcast v33 : tile<16x32xf32>
        v35 = sub v32, v34
        v36 = exp v35
        v37 = reshape v11 : tile<16x1xf32>
        v38 = broadcast v37 : tile<16x32xf32>
        v39 = div v36, v38
        store v1[0, v31], v39
        yield
    }}
}}"
    );
    let (is, report) = fused(&source, &[32, 77, 160, 1], 64.0 * 2f64.powi(-22));
    // The loop that stores keeps its place; each element is read once for the sums and once for the result.
    assert_eq!((count(&is, Op::For), count(&is, Op::Load)), (2, 2), "{report}{}", text::print(&is));
}

/// What must not become one loop, and its nearest neighbour that does: what is replaced by what, and the loops that remain.
#[test]
fn what_does_not_scale_with_the_maximum_keeps_its_loop() {
    let masked = "v30 = iota 1 : tile<16x32xi32>\nv31 = splat v12 : tile<16x32xi32>\nv32 = add v30, v31\nv33 = splat 40 : tile<16x32xi32>\n\
                  v34 = cmp lt v32, v33\nv35 = splat OTHER : tile<16x32xf32>\nv36 = select v34, v18, v35\nv19 = reduce add v36, axis 1";
    let (zero, other) = (masked.replace("OTHER", "0.0"), masked.replace("OTHER", "0.001"));
    let cases: &[(&str, &str, &str, usize)] = &[
        ("another range", "v12 in 0..v2", "v12 in 0..1000", 2),
        ("another step", "v12 in 0..v2 step 32", "v12 in 0..v2 step 16", 2),
        ("a start other than 0", "v10 = splat 0.0", "v10 = splat 0.5", 2),
        (
            "a bias in the sum",
            "v19 = reduce add v18, axis 1",
            "v30 = splat 0.5 : tile<16x32xf32>\nv31 = add v18, v30\nv19 = reduce add v31, axis 1",
            2,
        ),
        (
            "a factor in the sum",
            "v19 = reduce add v18, axis 1",
            "v31 = mul v18, v14\nv32 = splat 0.0 : tile<16x32xf32>\nv33 = cmp lt v14, v32\nv34 = select v33, v18, v32\nv19 = reduce add v34, axis 1",
            1,
        ),
        ("a mask with 0", "v19 = reduce add v18, axis 1", &zero, 1),
        ("a mask with another number", "v19 = reduce add v18, axis 1", &other, 2),
        (
            "a maximum of something smaller",
            "v17 = sub v14, v16",
            "v30 = splat 2.0 : tile<16x32xf32>\nv31 = mul v14, v30\nv17 = sub v31, v16",
            2,
        ),
        ("a maximum of something scaled", "v18 = exp v17", "v30 = splat 0.5 : tile<16x32xf32>\nv31 = mul v17, v30\nv18 = exp v31", 1),
        ("an exponential that grows", "v18 = exp v17", "v30 = neg v17\nv18 = exp v30", 2),
        ("a function that does not scale", "v18 = exp v17", "v18 = tanh v17", 2),
        ("a rounding", "v19 = reduce add v18, axis 1", "v31 = floor v18\nv19 = reduce add v31, axis 1", 2),
        (
            "a cast to a byte",
            "v19 = reduce add v18, axis 1",
            "v31 = cast v18 : tile<16x32xf8e4m3>\nv32 = cast v31 : tile<16x32xf32>\nv19 = reduce add v32, axis 1",
            2,
        ),
        (
            "a cast to half a word",
            "v19 = reduce add v18, axis 1",
            "v31 = cast v18 : tile<16x32xf16>\nv32 = cast v31 : tile<16x32xf32>\nv19 = reduce add v32, axis 1",
            1,
        ),
        ("a minimum", "v9 = maximum v6, v8", "v9 = minimum v6, v8", 2),
        ("a maximum that drops NaN", "v9 = maximum v6, v8", "v9 = maxnum v6, v8", 2),
        ("a maximum from a number on", "v3 = splat -inf_f32", "v3 = splat -1.0", 1),
        ("a sum in the other direction", "v8 = reduce maximum v7, axis 1", "v30 = reduce minimum v7, axis 1\nv8 = neg v30", 2),
    ];
    for (what, from, to, loops) in cases {
        assert!(LOG_SUM_EXP.contains(from), "{from}");
        let source = LOG_SUM_EXP.replacen(from, to, 1);
        let (is, report) = fused(&source, &[32, 77], 64.0 * 2f64.powi(-10));
        assert_eq!(count(&is, Op::For), *loops, "{what}: {report}{}", text::print(&is));
        assert_eq!(report.applied("fold-rescale") > 0, *loops == 1, "{what}");
        // Without leave nothing of the kind is done.
        let (is, report) = made(&parsed(&source), &allow(Class::Free));
        assert_eq!((count(&is, Op::For), report.applied("fold-rescale")), (2, 0), "{what}: {}", text::print(&is));
    }
}

#[test]
fn a_divisor_that_differs_along_the_sum_stays_inside() {
    let source = attention("f32", true);
    let per_column = source.replace(
        "v124 = reshape v51 : tile<16x1xf32>\nv125 = broadcast",
        "v140 = reshape v51 : tile<1x16xf32>\nv141 = concat v140, v140, axis 1\nv124 = abs v141\nv125 = broadcast",
    );
    assert_ne!(source, per_column);
    let (is, report) = fused(&per_column, &[64, 77], 64.0 * 2f64.powi(-15));
    let moved = ["dot-div", "dot-cast-scale", "fold-linear", "reduce-add-div"].map(|rule| report.applied(rule));
    assert_eq!((moved, count(&is, Op::For)), ([0; 4], 2), "{report}{}", text::print(&is));
}

/// Tiles as kernels for a machine have them: registers and prices do not bring the loops back.
#[test]
fn an_attention_of_large_tiles_is_one_loop() {
    for (rows, keys, depth) in [(64, 64, 64), (128, 128, 128), (128, 64, 128)] {
        let source = attention("bf16", true)
            .replace("16x32x", &format!("{rows}x{keys}@"))
            .replace("32x16x", &format!("{keys}x{depth}@"))
            .replace("16x16x", &format!("{rows}x{depth}@"))
            .replace("16x1x", &format!("{rows}x1@"))
            .replace("tile<16x", &format!("tile<{rows}x"))
            .replace("@attention", "%attention")
            .replace('@', "x")
            .replace("%attention", "@attention")
            .replace("[16, 16]", &format!("[{rows}, {depth}]"))
            .replace("[?, 16]", &format!("[?, {depth}]"))
            .replace("[16]", &format!("[{rows}]"))
            .replace("step 32", &format!("step {keys}"));
        let (is, report) = made(&parsed(&source), &allow(Class::Approx));
        assert_eq!([Op::For, Op::Dot].map(|op| count(&is, op)), [1, 2], "{report}{}", text::print(&is));
    }
}

const VARIANCE: &str = "kernel @variance(v0: view<f32, [16, ?]>, v1: view<f32, [16]>, v2: view<f32, [16]>) {
    v3 = dim v0, 1
    v4 = splat 0.0 : tile<16xf32>
    v5 = for v6 in 0..v3 step 32 carry v7 = v4 {
        v8 = load v0[0, v6] : tile<16x32xf32>
        v9 = reduce add v8, axis 1
        v10 = add v7, v9
        yield v10
    }
    v11 = cast v3 : f32
    v12 = splat v11 : tile<16xf32>
    v13 = div v5, v12
    v14 = for v15 in 0..v3 step 32 carry v16 = v4 {
        v17 = load v0[0, v15] : tile<16x32xf32>
        v18 = reshape v13 : tile<16x1xf32>
        v19 = broadcast v18 : tile<16x32xf32>
        v20 = sub v17, v19
        v21 = mul v20, v20
        v22 = iota 1 : tile<16x32xi32>
        v23 = splat v15 : tile<16x32xi32>
        v24 = add v22, v23
        v25 = splat v3 : tile<16x32xi32>
        v26 = cmp lt v24, v25
        v27 = splat 0.0 : tile<16x32xf32>
        v28 = select v26, v21, v27
        v29 = reduce add v28, axis 1
        v30 = add v16, v29
        yield v30
    }
    v31 = div v14, v12
    store v1[0], v13
    store v2[0], v31
}";

#[test]
fn a_variance_in_two_loops_is_one() {
    // The mean is far from 0 and the numbers are near to it: 10^4 times their distance. A sum of squares would have nothing left of it.
    let far = VARIANCE.replace("v9 = reduce add v8", "v40 = splat 0.0001 : tile<16x32xf32>\nv41 = mul v8, v40\nv42 = splat 1.0 : tile<16x32xf32>\nv43 = add v41, v42\nv9 = reduce add v43");
    let far = far.replace("v20 = sub v17, v19", "v50 = splat 0.0001 : tile<16x32xf32>\nv51 = mul v17, v50\nv52 = splat 1.0 : tile<16x32xf32>\nv53 = add v51, v52\nv20 = sub v53, v19");
    // The tail is not masked in the sum there, so only whole tiles have that mean.
    for (source, opens) in [(VARIANCE, &[160i64, 32, 77, 1][..]), (&far[..], &[160, 32])] {
        let (is, report) = fused(source, opens, 2f64.powi(-18));
        assert_eq!((count(&is, Op::For), count(&is, Op::Load)), (1, 1), "{report}{}", text::print(&is));
        assert!(report.applied("fold-moments") > 0);
        let (is, report) = made(&parsed(source), &allow(Class::Free));
        assert_eq!((count(&is, Op::For), report.applied("fold-moments")), (2, 0));
    }
    let kernel = parsed(&far);
    let (is, _) = made(&kernel, &allow(Class::Reassoc));
    let (want, got) = (run(&kernel, 160, 3, 1.0), run(&is, 160, 3, 1.0));
    for (a, b) in want[2].iter().zip(&got[2]) {
        // Variances of about 5e-8, to a thousandth.
        assert!(*a > 1e-8 && (a - b).abs() <= 1e-3 * a, "{a} became {b}");
    }
}

#[test]
fn rows_without_keys_so_far_are_no_numbers_too_soon() {
    // Keys from three times the row on: of the later rows the first tiles are masked whole, and with few keys all of them.
    let source = attention("f32", true)
        .replace("v205 = splat 40", "v205 = splat 0")
        .replace("v206 = add v204, v205", "v210 = splat 3 : tile<16x32xi32>\nv206 = mul v204, v210");
    let source = ["v34", "v74", "v114"].iter().fold(source, |s, v| {
        let line = s.lines().find(|l| l.starts_with(&format!("{v} = cmp le"))).expect("the mask").to_owned();
        s.replace(&line, &line.replace("cmp le", "cmp ge"))
    });
    let kernel = parsed(&source);
    let (is, report) = made(&kernel, &allow(Class::Reassoc));
    assert_eq!([Op::For, Op::Dot].map(|op| count(&is, op)), [1, 2], "{report}{}", text::print(&is));
    near(&kernel, &is, 64, 64.0 * 2f64.powi(-21));
    // Rows from 11 on have no key at all: no quotient, and a logarithm of nothing.
    let (want, got) = (run(&kernel, 32, 1, 1.0), run(&is, 32, 1, 1.0));
    for (row, (a, b)) in want[4].iter().zip(&got[4]).enumerate() {
        assert!(if row < 11 { (a - b).abs() < 1e-4 } else { a.is_nan() && *b == f64::NEG_INFINITY }, "row {row}: {a} became {b}");
    }
    for (n, (a, b)) in want[3].iter().zip(&got[3]).enumerate() {
        assert!(if n < 11 * 16 { (a - b).abs() < 1e-4 } else { a.is_nan() && b.is_nan() }, "number {n}: {a} became {b}");
    }
}

/// An attention as its author writes it in one loop, and a sum of the scores beside it in another.
const ONLINE: &str =
    "kernel @flash(v0: view<f32, [16, 16]>, v1: view<f32, [?, 16]>, v2: view<f32, [?, 16]>, v3: view<f32, [16, 16]>, v4: view<f32, [16]>) {
    v5 = dim v1, 0
    v6 = load v0[0, 0] : tile<16x16xf32>
    v7 = splat -1.0e30 : tile<16xf32>
    v8 = splat 0.0 : tile<16xf32>
    v9 = splat 0.0 : tile<16x16xf32>
    v10, v11, v12 = for v13 in 0..v5 step 32 carry v14 = v7, v15 = v8, v16 = v9 {
        v20 = load v1[v13, 0] : tile<32x16xf32>
        v21 = transpose v20, [1, 0]
        v22 = splat 0.0 : tile<16x32xf32>
        v23 = dot v6, v21, v22
        v24 = reduce maximum v23, axis 1
        v25 = maximum v14, v24
        v26 = sub v14, v25
        v27 = exp v26
        v28 = reshape v25 : tile<16x1xf32>
        v29 = broadcast v28 : tile<16x32xf32>
        v30 = sub v23, v29
        v31 = exp v30
        v32 = mul v15, v27
        v33 = reduce add v31, axis 1
        v34 = add v32, v33
        v35 = reshape v27 : tile<16x1xf32>
        v36 = broadcast v35 : tile<16x16xf32>
        v37 = mul v16, v36
        v38 = load v2[v13, 0] : tile<32x16xf32>
        v39 = dot v31, v38, v37
        yield v25, v34, v39
    }
    v50 = for v51 in 0..v5 step 32 carry v52 = v8 {
        v53 = load v1[v51, 0] : tile<32x16xf32>
        v54 = transpose v53, [1, 0]
        v55 = splat 0.0 : tile<16x32xf32>
        v56 = dot v6, v54, v55
        v57 = abs v56
        v58 = reduce maximum v57, axis 1
        v59 = maximum v52, v58
        yield v59
    }
    v60 = reshape v11 : tile<16x1xf32>
    v61 = broadcast v60 : tile<16x16xf32>
    v62 = div v12, v61
    store v3[0, 0], v62
    store v4[0], v50
}";

#[test]
fn a_loop_that_rescales_as_written_takes_others_in() {
    let (is, report) = fused_by(ONLINE, &[64, 32, 160], of_exponents(64.0 * 2f64.powi(-21)));
    assert_eq!([Op::For, Op::Dot, Op::Load].map(|op| count(&is, op)), [1, 2, 3], "{report}{}", text::print(&is));
    // To the bit, without leave: products and sums are what they were.
    let kernel = parsed(ONLINE);
    let (is, _) = made(&kernel, &allow(Class::Free));
    assert_eq!([Op::For, Op::Dot].map(|op| count(&is, op)), [1, 2], "{}", text::print(&is));
    near(&kernel, &is, 160, 0.0);
    // Who sees an accumulator in front of its step, hands it on elsewhere or adds it to itself keeps the loop.
    for (from, to) in [
        ("yield v25, v34, v39", "yield v25, v25, v39"),
        ("yield v25, v34, v39", "v40 = add v34, v15\nyield v25, v40, v39"),
        ("v24 = reduce maximum v23, axis 1", "v40 = reduce maximum v23, axis 1\nv24 = add v40, v15"),
        ("v34 = add v32, v33", "v34 = add v32, v15"),
        ("v32 = mul v15, v27", "v32 = mul v15, v15"),
    ] {
        let kernel = parsed(&ONLINE.replacen(from, to, 1));
        let (is, _) = made(&kernel, &allow(Class::Free));
        assert_eq!(count(&is, Op::For), 2, "{to}: {}", text::print(&is));
        near(&kernel, &is, 160, 0.0);
        near(&kernel, &made(&kernel, &allow(Class::Reassoc)).0, 64, 64.0 * 2f64.powi(-18));
    }
}

/// Instructions of an op in loops.
fn in_loops(k: &Kernel, op: Op) -> usize {
    let mut n = 0;
    k.walk(k.body, &mut |i| {
        if k.insts[i].op == Op::For {
            k.walk(k.insts[i].regions[0], &mut |j| n += usize::from(k.insts[j].op == op));
        }
    });
    n
}

/// What does not depend on the round is read once, in front of all loops; what does stays.
#[test]
fn what_is_the_same_in_all_rounds_is_read_in_front_of_them() {
    let body = |row: &str| {
        format!(
            "kernel @near(v0: view<f32, [?, 16]>, v1: view<f32, [16]>, v2: view<f32, [16]>) {{
    v3 = dim v0, 0
    v4 = splat -inf_f32 : tile<16xf32>
    v5 = for v6 in 0..v3 step 1 carry v7 = v4 {{
        v8 = load v1[{row}] : tile<16xf32>
        v9 = load v0[v6, 0] : tile<1x16xf32>
        v10 = reshape v9 : tile<16xf32>
        v11 = mul v8, v10
        v12 = maximum v7, v11
        yield v12
    }}
    v13 = splat 0.0 : tile<16xf32>
    v14 = for v15 in 0..v3 step 1 carry v16 = v13 {{
        v17 = load v1[0] : tile<16xf32>
        v18 = load v0[v15, 0] : tile<1x16xf32>
        v19 = reshape v18 : tile<16xf32>
        v20 = mul v17, v19
        v21 = sub v20, v5
        v22 = exp v21
        v23 = add v16, v22
        yield v23
    }}
    store v2[0], v14
}}"
        )
    };
    // Products up to 1024 are rounded or not: exponents are 2^-14 apart, and all else is far less.
    let bound = 2f64.powi(-13);
    let (is, report) = fused(&body("0"), &[1, 5, 32], bound);
    assert_eq!((count(&is, Op::For), count(&is, Op::Load), in_loops(&is, Op::Load)), (1, 2, 1), "{report}{}", text::print(&is));
    // Another place in each round.
    let (is, _) = fused(&body("v6"), &[1, 5, 16], bound);
    assert_eq!((count(&is, Op::Load), in_loops(&is, Op::Load)), (4, 3), "{}", text::print(&is));
}
