//! Kernels in `f64`: every float type becomes that, so that roundings all but disappear and what is left is what a kernel means.

use std::collections::BTreeMap;
use tilelift_interp::{Arg, ScalarArg, ViewArg};
use tilelift_ir::{Kernel, Op, Scalar, Type, Value, num};

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
    Some(k)
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
