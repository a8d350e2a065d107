//! Loops as terms: kernels whose loops run over one range become one loop, and what comes out is what the interpreter says of both.

use crate::common::Random;
use tilelift_egraph::{Class, Options, Report, optimise};
use tilelift_interp::{self as interp, Arg, Buffer, Memory, ViewArg, interpret};
use tilelift_ir::{Extent, Kernel, Op, Type, num, text, verify};

fn parsed(source: &str) -> Kernel {
    text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}")).kernels.remove(0)
}

fn made(kernel: &Kernel, options: &Options) -> (Kernel, Report) {
    let (better, report) = optimise(&verify(kernel).unwrap_or_else(|e| panic!("{e}")), options);
    assert_eq!(report.fallback, None, "{}", text::print(kernel));
    (better.into_kernel(), report)
}

fn allow(allow: Class) -> Options {
    Options { allow, ..Options::default() }
}

/// How many instructions of an op there are.
fn count(k: &Kernel, op: Op) -> usize {
    let mut n = 0;
    k.walk(k.body, &mut |i| n += usize::from(k.insts[i].op == op));
    n
}

/// The float views of the kernel's parameters after a run: extents that are not fixed are `open`, numbers are between -4 and 4.
fn run(k: &Kernel, open: i64, seed: u64, scale: f64) -> Vec<Vec<f64>> {
    let (mut memory, mut random) = (Memory::new(), Random(seed));
    let mut views = Vec::new();
    let args: Vec<Arg> = k
        .params
        .iter()
        .map(|&p| {
            let Type::View(v) = k.ty(p) else { panic!("a view for each parameter") };
            let shape: Vec<i64> = v.dims.iter().map(|d| if let Extent::Fixed(n) = d { i64::from(*n) } else { open }).collect();
            let width = v.elem.bytes() as usize;
            let bytes = (0..shape.iter().product::<i64>()).flat_map(|_| {
                let x = ((random.next() % 8001) as f64 / 1000.0 - 4.0) * scale;
                let bits = if v.elem.is_float() { num::to_bits(num::round(x, v.elem), v.elem) } else { (x * 3.0) as i64 as u64 };
                bits.to_le_bytes()[..width].to_vec()
            });
            let buffer = memory.add(Buffer::from_bytes(bytes.collect()));
            views.push(v.elem);
            ViewArg::dense(buffer, v.elem, &shape).into()
        })
        .collect();
    interpret(&verify(k).expect("verifies"), [1, 1, 1], &args, &mut memory, &interp::Options::default())
        .unwrap_or_else(|e| panic!("{e}\n{}", text::print(k)));
    let buffer = |(b, elem): (&Buffer, &tilelift_ir::Scalar)| {
        let number = |c: &[u8]| {
            let mut bits = [0; 8];
            bits[..c.len()].copy_from_slice(c);
            let bits = u64::from_le_bytes(bits);
            if elem.is_float() { num::from_bits(bits, *elem) } else { num::wrap(bits as i64, *elem) as f64 }
        };
        b.bytes().chunks(elem.bytes() as usize).map(number).collect()
    };
    memory.buffers.iter().zip(&views).map(buffer).collect()
}

/// Numbers of both runs agree within `bound`, absolute below 1 and relative above; NaN may be a number where `open_rows` says so.
fn near(was: &Kernel, is: &Kernel, open: i64, bound: f64) {
    for seed in 0..4 {
        for scale in [1.0, 8.0] {
            let (want, got) = (run(was, open, seed, scale), run(is, open, seed, scale));
            for (n, (a, b)) in want.iter().flatten().zip(got.iter().flatten()).enumerate() {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= bound * a.abs().max(1.0);
                assert!(same, "{open} open, seed {seed}, number {n}: {a} became {b}\n{}\nbecame\n{}", text::print(was), text::print(is));
            }
        }
    }
}

/// Optimises with leave to reassociate, and in random ways; the first kernel and its report.
fn fused(source: &str, opens: &[i64], bound: f64) -> (Kernel, Report) {
    let kernel = parsed(source);
    let (is, report) = made(&kernel, &allow(Class::Reassoc));
    for &open in opens {
        near(&kernel, &is, open, bound);
    }
    for seed in 1..12 {
        let (other, _) = made(&kernel, &Options { chaos: Some(seed), ..allow(Class::Reassoc) });
        near(&kernel, &other, opens[0], bound);
    }
    (is, report)
}

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
            let (is, report) = fused(&attention(elem, masked), opens, bound);
            let ops = [Op::For, Op::Dot, Op::Exp, Op::Load].map(|op| count(&is, op));
            // The exponential of each score and, per row, of the maximum's move.
            assert_eq!(ops, [1, 2, 2, 3], "{elem}, {masked}: {report}{}", text::print(&is));
        }
    }
}
