//! Kernels in `f64`: every float type becomes that, so that roundings all but disappear and what is left is what a kernel means.
//!
//! Constants of graphs are short. Those that the optimizer made were rounded to `f32`: inverses of whole numbers, and products with log2 e, by which the
//! argument of an `exp` was multiplied. They become what they stand for; as no graph has an `exp2` of its own, what log2 e lacks is multiplied to the
//! argument of each.

use std::collections::BTreeMap;
use std::f64::consts::LOG2_E;
use tilelift_interp::{Arg, ScalarArg, ViewArg};
use tilelift_ir::{Attr, Cursor, Kernel, Literal, Op, Region, Scalar, Type, Value, num};

fn wide(elem: Scalar) -> Scalar {
    if elem.is_float() { Scalar::F64 } else { elem }
}

/// The kernel in `f64`; `None` if it looks at the bits of floats.
pub(super) fn kernel(k: &Kernel) -> Option<Kernel> {
    let mut k = k.clone();
    let float = |k: &Kernel, v: Value| k.ty(v).elem().is_float();
    let mut same: BTreeMap<Value, Value> = BTreeMap::new();
    let mut gone = Vec::new();
    let mut bits = false;
    k.walk(k.body, &mut |i| {
        let d = &k.insts[i];
        match (d.op, d.args.first(), d.results.first()) {
            (Op::Bitcast, Some(&x), Some(&y)) if float(&k, x) || float(&k, y) => bits = true,
            // Between floats nothing is left to convert.
            (Op::Cast, Some(&x), Some(&y)) if float(&k, x) && float(&k, y) => {
                same.insert(y, same.get(&x).copied().unwrap_or(x));
                gone.push(i);
            }
            _ => {}
        }
    });
    if bits {
        return None;
    }
    for d in k.insts.values_mut() {
        d.args.iter_mut().for_each(|v| *v = same.get(v).copied().unwrap_or(*v));
    }
    for r in k.regions.values_mut() {
        r.insts.retain(|i| !gone.contains(i));
    }
    for v in k.values.values_mut() {
        match &mut v.ty {
            Type::Scalar(s) => *s = wide(*s),
            Type::Tile(t) => t.elem = wide(t.elem),
            Type::View(w) => w.elem = wide(w.elem),
            Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => return None,
        }
    }
    for d in k.insts.values_mut().filter(|d| d.op == Op::Const) {
        if let Some(Attr::Literal(Literal::Float(bits))) = d.attrs.first_mut() {
            *bits = meant(f64::from_bits(*bits)).to_bits();
        }
    }
    powers(&mut k);
    Some(k)
}

/// Significant bits of a graph's constants.
const SHORT: i32 = 8;

/// What a constant stands for.
fn meant(c: f64) -> f64 {
    let is = |exact: f64| num::round(exact, Scalar::F32) == c;
    let short = |x: f64| {
        let unit = 2f64.powi(x.abs().log2().floor() as i32 + 1 - SHORT);
        (x / unit).round() * unit
    };
    if !c.is_finite() || c == 0.0 || short(c) == c {
        return c;
    }
    let (whole, factor) = ((1.0 / c).round(), short(c / log2_e()) * log2_e());
    if is(1.0 / whole) {
        1.0 / whole
    } else if is(factor) {
        factor
    } else {
        c
    }
}

/// log2 e as the optimizer multiplies by it.
fn log2_e() -> f64 {
    num::round(LOG2_E, Scalar::F32)
}

/// Multiplies what exponentials of two are asked for by log2 e over its number in `f32`.
fn powers(k: &mut Kernel) {
    let regions: Vec<Region> = k.regions.keys().collect();
    for region in regions {
        let mut at = 0;
        while let Some(&i) = k.regions[region].insts.get(at) {
            if k.insts[i].op == Op::Exp2 {
                let x = k.insts[i].args[0];
                let ty = k.ty(x).clone();
                let exact = Literal::Float((LOG2_E / log2_e()).to_bits());
                let mut cursor = Cursor { region, at };
                let number = k.add_inst(Op::Const, &[], 0, &[Attr::Literal(exact)], &[], &[Type::Scalar(Scalar::F64)]);
                cursor.insert(k, number);
                let mut by = k.insts[number].results[0];
                if let Type::Tile(_) = ty {
                    let splat = k.add_inst(Op::Splat, &[by], 0, &[], &[], std::slice::from_ref(&ty));
                    cursor.insert(k, splat);
                    by = k.insts[splat].results[0];
                }
                let product = k.add_inst(Op::Mul, &[x, by], 0, &[], &[], &[ty]);
                cursor.insert(k, product);
                k.insts[i].args[0] = k.insts[product].results[0];
                at = cursor.at;
            }
            at += 1;
        }
    }
}

/// The arguments of such a kernel.
pub(super) fn args(all: &[Arg]) -> Vec<Arg> {
    let one = |a: &Arg| match a {
        Arg::View(v) => Arg::View(ViewArg { elem: wide(v.elem), ..v.clone() }),
        Arg::Scalar(s) if s.elem().is_float() => Arg::Scalar(ScalarArg::float(Scalar::F64, num::from_bits(s.bits(), s.elem()))),
        Arg::Scalar(s) => Arg::Scalar(*s),
    };
    all.iter().map(one).collect()
}
