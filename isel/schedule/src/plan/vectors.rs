//! Short tiles that a step loads beside its operands (log-sum-exp, scales, gates): the producer's lanes copy them into slots beside those of the
//! ring, so that no consumer waits for memory, and none holds them in registers before it looks at them.
//!
//! ```text
//! producer    wait empty ─ expect, bulk copies, copies of its lanes ─ wait for the copies of the step before ─ arrive full for that
//! consumers   wait full ─ … ─ read a vector where it is wanted
//! ```

use crate::access::GlobalAccess;
use std::collections::HashSet;
use tilelift_ir::{Inst, Kernel, Op, Scalar, Value};

/// Elements of such a tile at least and at most: below there is nothing to hold, above copies by lanes take too long.
const ELEMENTS: std::ops::RangeInclusive<u64> = 16..=1024;

/// Bytes of the shortest copy that a lane does.
const LEAST_COPY: u32 = 4;

/// True for a load that the producer's lanes may copy, if they can say from where: from a view that nobody writes.
pub(super) fn may_be_copied(kernel: &Kernel, written: &HashSet<Value>, i: Inst) -> bool {
    let d = &kernel.insts[i];
    if d.op != Op::Load || d.present != 0 || written.contains(&d.args[0]) {
        return false;
    }
    let Some(t) = kernel.ty(d.results[0]).as_tile() else { return false };
    let long = t.shape.iter().filter(|&&e| e > 1).count() == 1 && ELEMENTS.contains(&t.elements());
    if !long || t.elem.is_packed() || t.elem == Scalar::I1 {
        return false;
    }
    GlobalAccess::of(kernel, i).vector_elements(LEAST_COPY.max(t.elem.bytes())) * t.elem.bytes() >= LEAST_COPY
}
