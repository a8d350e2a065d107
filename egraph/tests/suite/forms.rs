//! Forms that several rules reach together: what a softmax, a dequantised product and a sum of a product become.

use tilelift_egraph::{Class, Options, optimise};
use tilelift_interp::{self as interp, Arg, Buffer, Memory, ScalarArg, ViewArg, interpret};
use tilelift_ir::{Kernel, Op, Scalar, Type, text, verify};

/// What the optimizer makes of a kernel with rules up to a class.
fn made(source: &str, allow: Class) -> (Kernel, Kernel) {
    let kernel = text::parse(source).unwrap_or_else(|e| panic!("{e}")).kernels[0].clone();
    let (better, report) = optimise(&verify(&kernel).expect("verifies"), &Options { allow, ..Options::default() });
    assert_eq!(report.fallback, None);
    (kernel, better.into_kernel())
}

/// How many instructions of an op make that many elements.
fn count(k: &Kernel, op: Op, elements: u64) -> usize {
    let mut n = 0;
    k.walk(k.body, &mut |i| {
        let made = k.insts[i].results.first().map(|&r| k.ty(r));
        n += usize::from(k.insts[i].op == op && matches!(made, Some(Type::Tile(t)) if t.elements() == elements));
    });
    n
}

/// The last view, as floats, after a run on small numbers.
fn run(k: &Kernel, scalars: &[f64]) -> Vec<f64> {
    let mut memory = Memory::new();
    let mut state = 12345u64;
    let mut scalars = scalars.iter();
    let args: Vec<Arg> = k
        .params
        .iter()
        .map(|&p| match k.ty(p) {
            Type::View(v) => {
                let shape: Vec<i64> = v.dims.iter().map(|d| i64::from(d.divisor())).collect();
                let bytes = (0..shape.iter().product::<i64>()).flat_map(|_| {
                    state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    let x = (state >> 40) as f64 / f64::from(1 << 24) * 4.0 - 2.0;
                    if v.elem == Scalar::I8 { vec![(x * 50.0) as i8 as u8] } else { (x as f32).to_le_bytes().to_vec() }
                });
                let buffer = memory.add(Buffer::from_bytes(bytes.collect()));
                ViewArg::dense(buffer, v.elem, &shape).into()
            }
            ty => ScalarArg::float(ty.elem(), *scalars.next().expect("a scalar for each parameter")).into(),
        })
        .collect();
    interpret(&verify(k).expect("verifies"), [1, 1, 1], &args, &mut memory, &interp::Options::default()).expect("runs");
    let bytes = memory.buffers.last().expect("a view").bytes();
    bytes.chunks(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
}

/// Results agree within `bound`, relative to the largest.
fn near(a: &[f64], b: &[f64], bound: f64) {
    let scale = a.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    assert!(scale > 0.0);
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= bound * scale, "{x} became {y}");
    }
}

const SOFTMAX: &str = "kernel @softmax(v0: view<f32, [16, 32]>, v2: f32, v1: view<f32, [16, 32]>) {
    v11 = load v0[0, 0] : tile<16x32xf32>
    v3 = tanh v11
    v4 = splat SCALE : tile<16x32xf32>
    v5 = mul v3, v4
    v6 = reduce maximum v5, axis 1
    v7 = reshape v6 : tile<16x1xf32>
    v8 = broadcast v7 : tile<16x32xf32>
    v9 = sub v5, v8
    v10 = exp v9
    store v1[0, 0], v10
}";

#[test]
fn a_softmax_is_one_fused_product_and_one_exponential() {
    let (was, is) = made(&SOFTMAX.replace("SCALE", "0.125"), Class::Approx);
    let ops = [Op::Fma, Op::Exp2, Op::Mul, Op::Sub, Op::Exp, Op::Add].map(|op| count(&is, op, 512));
    assert_eq!(ops, [1, 1, 0, 0, 0, 0], "{}", text::print(&is));
    // |scale x| < 1/2, so the exponent's rounding is below 2^-24; the functions are off by at most 2^-21 and 2^-22.
    near(&run(&was, &[0.0]), &run(&is, &[0.0]), 2f64.powi(-20));
    // A scale that is known at launch only may be any number, and so may be what memory holds: differences come first.
    let (was, is) = made(&SOFTMAX.replace("SCALE", "v2"), Class::Approx);
    let ops = [Op::Fma, Op::Exp2, Op::Mul, Op::Sub, Op::Exp].map(|op| count(&is, op, 512));
    assert_eq!(ops, [0, 1, 2, 1, 0], "{}", text::print(&is));
    for scale in [0.3, -0.3, -1e30] {
        near(&run(&was, &[scale]), &run(&is, &[scale]), 2f64.powi(-20));
    }
    let (was, is) = made(&SOFTMAX.replace("tanh v11", "abs v11").replace("SCALE", "0.125"), Class::Approx);
    let ops = [Op::Fma, Op::Exp2, Op::Sub, Op::Exp].map(|op| count(&is, op, 512));
    assert_eq!(ops, [0, 1, 1, 0], "{}", text::print(&is));
    near(&run(&was, &[0.0]), &run(&is, &[0.0]), 2f64.powi(-20));
}

#[test]
fn only_exact_forms_without_leave() {
    let (was, is) = made(&SOFTMAX.replace("SCALE", "-0.3").replace("sub v5", "sub v3"), Class::Exact);
    assert_eq!([Op::Fma, Op::Exp2].map(|op| count(&is, op, 512)), [0, 0], "{}", text::print(&is));
    // The maximum of what a negative constant scales is the scaled minimum, to the bit.
    assert!(text::print(&is).contains("reduce minimum"), "{}", text::print(&is));
    assert_eq!(run(&was, &[0.0]), run(&is, &[0.0]));
}

#[test]
fn a_dequantised_product_takes_the_codes() {
    let source =
        "kernel @dequantise(v0: view<i8, [64, 32]>, v1: view<f32, [64]>, v2: view<i8, [32, 64]>, v14: f32, v3: view<f32, [64, 64]>) {
        v4 = load v0[0, 0] : tile<64x32xi8>
        v5 = load v1[0] : tile<64xf32>
        v6 = load v2[0, 0] : tile<32x64xi8>
        v7 = cast v4 : tile<64x32xf32>
        v8 = reshape v5 : tile<64x1xf32>
        v9 = broadcast v8 : tile<64x32xf32>
        v10 = mul v7, v9
        v11 = cast v6 : tile<32x64xf32>
        v15 = splat v14 : tile<32x64xf32>
        v16 = mul v11, v15
        v12 = splat 0.0 : tile<64x64xf32>
        v13 = dot v10, v16, v12
        store v3[0, 0], v13
    }";
    let (was, is) = made(source, Class::Reassoc);
    let mut operands = Vec::new();
    is.walk(is.body, &mut |i| {
        if is.insts[i].op == Op::Dot {
            operands.extend(is.insts[i].args.iter().map(|&v| is.ty(v).elem()));
        }
    });
    assert_eq!(operands, [Scalar::I8, Scalar::I8, Scalar::I32], "{}", text::print(&is));
    // 32 terms of the sums, two scales, against the largest result: (32 + 4) 2^-24 of the sum of magnitudes, which is below 2^4 of it.
    near(&run(&was, &[0.7]), &run(&is, &[0.7]), 40.0 * 2f64.powi(-20));
    // Without leave only what is the same sum remains.
    let (_, is) = made(source, Class::Free);
    assert!(text::print(&is).contains("dot") && count(&is, Op::Mul, 2048) == 2, "{}", text::print(&is));
}

#[test]
fn a_sum_of_a_product_needs_no_product() {
    let source = "kernel @rows(v0: view<f32, [64, 32]>, v1: view<f32, [32, 64]>, v2: view<f32, [64]>) {
        v3 = load v0[0, 0] : tile<64x32xf32>
        v4 = load v1[0, 0] : tile<32x64xf32>
        v5 = splat 0.0 : tile<64x64xf32>
        v6 = dot v3, v4, v5
        v7 = reduce add v6, axis 1
        store v2[0], v7
    }";
    let (was, is) = made(source, Class::Reassoc);
    assert!(!text::print(&is).contains("dot"), "{}", text::print(&is));
    // 2048 products of up to 4 against the largest of 64 sums.
    near(&run(&was, &[]), &run(&is, &[]), 2048.0 * 2f64.powi(-24));
}
