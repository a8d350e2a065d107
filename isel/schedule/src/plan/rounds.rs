//! How often a loop goes round.

use crate::facts::constant;
use tilelift_ir::{Inst, Kernel, Op, Value};

/// True for a loop that goes round once or not at all, always or as a condition says: what stands for a choice, or beside one.
pub(crate) fn at_most_once(kernel: &Kernel, main: Inst) -> bool {
    let [lo, hi, step] = [0, 1, 2].map(|n| kernel.insts[main].args[n]);
    let literal = |v: Value| constant(kernel, v);
    let most = |v: Value| {
        if let Some(n) = literal(v) {
            return Some(n);
        }
        let d = kernel.def_inst(v).map(|i| &kernel.insts[i]).filter(|d| d.op == Op::Select)?;
        Some(literal(d.args[1])?.max(literal(d.args[2])?))
    };
    match (literal(lo), most(hi), literal(step)) {
        (Some(lo), Some(hi), Some(step)) => hi.saturating_sub(lo) <= step,
        _ => false,
    }
}
