//! How often a loop goes round.

use tilelift_ir::{Inst, Kernel, Literal, Op, Value};

/// The largest number that a scalar is, if it is a literal, or one of two that a condition chooses.
fn most(kernel: &Kernel, v: Value) -> Option<i64> {
    if let Some((Literal::Int(n), _)) = kernel.as_const(v) {
        return Some(n);
    }
    let d = &kernel.insts[kernel.def_inst(v)?];
    match (d.op, &d.args[..]) {
        (Op::Select, &[_, a, b]) => Some(most(kernel, a)?.max(most(kernel, b)?)),
        _ => None,
    }
}

/// True for a loop that goes round once at most.
pub(crate) fn at_most_once(kernel: &Kernel, main: Inst) -> bool {
    let [lo, hi, step] = [0, 1, 2].map(|n| kernel.insts[main].args[n]);
    let literal = |v: Value| match kernel.as_const(v) {
        Some((Literal::Int(n), _)) => Some(n),
        _ => None,
    };
    match (literal(lo), most(kernel, hi), literal(step)) {
        (Some(lo), Some(hi), Some(step)) => hi.saturating_sub(lo) <= step,
        _ => false,
    }
}
