//! Every op of the table is generated, or stands here with the reason why not.

use std::collections::{BTreeMap, BTreeSet};
use tilelift_fuzzgen::{Config, Mode, Source, generate};
use tilelift_ir::{Attr, Kernel, Literal, Op, Region, Scalar, Value};

/// Ops that the generator leaves out, and why.
const LEFT_OUT: &[(Op, &str)] = &[(Op::Print, "no device prints: every oracle but the interpreter would refuse the kernel")];

/// Generated kernels; op coverage must not hang on luck, so there are far more than any op needs.
const KERNELS: u64 = 1500;

fn kernels() -> impl Iterator<Item = Kernel> {
    (0..KERNELS).map(|seed| {
        let mode = if seed % 4 == 0 { Mode::Approx } else { Mode::Exact };
        let cfg = Config::default().with_mode(mode);
        generate(&mut Source::from_seed(seed), &cfg).unwrap_or_else(|e| panic!("seed {seed}: {e}")).kernel
    })
}

/// True if a `while` stands inside the region of another.
fn nested_while(k: &Kernel, r: Region, inside: bool) -> bool {
    k.regions[r].insts.iter().any(|&i| {
        let d = &k.insts[i];
        let here = d.op == Op::While;
        here && inside || d.regions.iter().any(|&inner| nested_while(k, inner, inside || here))
    })
}

#[test]
fn every_op_is_generated_or_left_out_with_a_reason() {
    let mut seen = BTreeSet::new();
    let mut nested = 0;
    for k in kernels() {
        k.walk(k.body, &mut |i| _ = seen.insert(k.insts[i].op));
        nested += u32::from(nested_while(&k, k.body, false));
    }
    // Explicit control has a generator of its own, `generate_explicit`.
    for &op in Op::ALL.iter().filter(|op| !op.is_explicit()) {
        match LEFT_OUT.iter().find(|l| l.0 == op) {
            Some((_, reason)) => assert!(!seen.contains(&op), "`{op}` is generated, though LEFT_OUT says: {reason}"),
            None => assert!(seen.contains(&op), "`{op}` is never generated: give it a step in src/kernel, or a reason in LEFT_OUT"),
        }
    }
    assert!(nested >= 5, "only {nested} kernels nest `while` loops");
}

/// `dot a, b, 0` plus `c` may become `dot a, b, c`, whose sums are rounded as they come; equal bits are asked for, so `c` is no fraction.
#[test]
fn sums_of_products_meet_no_fraction() {
    let mut sums = 0;
    for (seed, k) in kernels().enumerate() {
        let mut made: BTreeMap<Value, (Op, bool)> = BTreeMap::new();
        k.walk(k.body, &mut |i| {
            let d = &k.insts[i];
            let fraction = |v: &Value| made.get(v).is_some_and(|m| m.1);
            let literal = d.attrs.iter().any(|a| matches!(a, Attr::Literal(Literal::Float(bits)) if f64::from_bits(*bits).fract() != 0.0));
            let dot = |v: &Value| made.get(v).is_some_and(|m| m.0 == Op::Dot) && k.ty(*v).elem() == Scalar::F32;
            if d.op == Op::Add && d.args.iter().any(dot) {
                sums += 1;
                assert!(!d.args.iter().any(fraction), "kernel {seed} adds a fraction to the sums of a product");
            }
            let fraction = literal || d.op == Op::Splat && d.args.iter().any(fraction);
            made.extend(d.results.iter().map(|&v| (v, (d.op, fraction))));
        });
    }
    assert!(sums >= 5, "only {sums} kernels add anything to sums of a product");
}
