//! Loops as terms: kernels whose loops run over one range become one loop, and what comes out is what the interpreter says of both.

mod loops;
mod narrow;
mod online;

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

/// Numbers of both runs agree within `bound`, absolute below 1 and relative above.
fn near(was: &Kernel, is: &Kernel, open: i64, bound: f64) {
    near_by(was, is, open, |_| bound);
}

/// The same for inputs of two sizes, with a bound for each.
fn near_by(was: &Kernel, is: &Kernel, open: i64, bound: impl Fn(f64) -> f64) {
    for seed in 0..4 {
        for scale in [1.0, 8.0] {
            let (want, got) = (run(was, open, seed, scale), run(is, open, seed, scale));
            for (n, (a, b)) in want.iter().flatten().zip(got.iter().flatten()).enumerate() {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= bound(scale) * a.abs().max(1.0);
                assert!(same, "{open} open, seed {seed}, number {n}: {a} became {b}\n{}\nbecame\n{}", text::print(was), text::print(is));
            }
        }
    }
}

/// Optimises with leave to reassociate, and in random ways; the first kernel and its report.
fn fused(source: &str, opens: &[i64], bound: f64) -> (Kernel, Report) {
    fused_by(source, opens, |_| bound)
}

/// The same with a bound for each size of inputs.
fn fused_by(source: &str, opens: &[i64], bound: impl Fn(f64) -> f64) -> (Kernel, Report) {
    let kernel = parsed(source);
    let (is, report) = made(&kernel, &allow(Class::Reassoc));
    for &open in opens {
        near_by(&kernel, &is, open, &bound);
    }
    for seed in 1..12 {
        let (other, _) = made(&kernel, &Options { chaos: Some(seed), ..allow(Class::Reassoc) });
        near_by(&kernel, &other, opens[0], &bound);
    }
    (is, report)
}

/// A bound where exponents are products of inputs: they are rounded once more, and the larger, the more that is.
fn of_exponents(bound: f64) -> impl Fn(f64) -> f64 {
    move |scale| bound * scale * scale
}
