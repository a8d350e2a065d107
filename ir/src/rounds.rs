//! How often a loop goes round, as far as its bounds tell.

use crate::entities::Value;
use crate::kernel::{Kernel, iterations};
use crate::ops::{Attr, Literal, Op};
use crate::types::Extent;

/// Instructions that are looked through.
const DEEP: usize = 12;

/// The rounds of a `for` with these bounds and this step, or the most that it may have: of `min(n, x)` no more than `n` is known. `None` if
/// nothing is known.
pub fn most_rounds(kernel: &Kernel, bounds: &[Value]) -> Option<u64> {
    let &[lo, hi, step] = bounds.get(..3)? else { return None };
    iterations(bound(kernel, lo, false, DEEP)?, bound(kernel, hi, true, DEEP)?, bound(kernel, step, false, 0)?)
}

/// The most, or the least, that an integer can be.
fn bound(kernel: &Kernel, v: Value, most: bool, deep: usize) -> Option<i64> {
    if let Some((l, _)) = kernel.as_const(v) {
        return if let Literal::Int(n) = l { Some(n) } else { None };
    }
    let deep = deep.checked_sub(1)?;
    let d = &kernel.insts[kernel.def_inst(v)?];
    let of = |n: usize| bound(kernel, *d.args.get(n)?, most, deep);
    let either = |f: fn(i64, i64) -> i64| match (of(0), of(1)) {
        (Some(a), Some(b)) => Some(f(a, b)),
        (a, b) => a.or(b),
    };
    match d.op {
        Op::Dim => match (d.attrs.first()?, kernel.ty(d.args[0]).as_view()?) {
            (Attr::Dim(k), view) => match view.dims.get(*k as usize)? {
                Extent::Fixed(n) => Some(i64::from(*n)),
                Extent::Dynamic(_) => (!most).then_some(0),
            },
            _ => None,
        },
        Op::ProgramId | Op::NumPrograms => (!most).then_some(0),
        Op::Minimum if most => either(i64::min),
        Op::Maximum if !most => either(i64::max),
        Op::Add => of(0)?.checked_add(of(1)?),
        Op::Mul => Some((of(0)?, of(1)?)).filter(|&(a, b)| a >= 0 && b >= 0).and_then(|(a, b)| a.checked_mul(b)),
        Op::Div => Some((of(0)?, kernel.as_const(*d.args.get(1)?)?)).and_then(|(a, by)| match by.0 {
            Literal::Int(by) if by > 0 => Some(a / by),
            _ => None,
        }),
        _ => None,
    }
}
