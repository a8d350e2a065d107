//! Views that a kernel writes. What is read from others is the same whenever it is read.

use tilelift_ir::{Effects, Kernel, Value};
use tilelift_lane::hash::Set;

/// Views that a kernel writes.
pub(crate) fn written_views(kernel: &Kernel) -> Set<Value> {
    let mut out = Set::default();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if matches!(d.op.info().effects.global(), Effects::Writes | Effects::Updates) {
            out.extend(d.args.first().copied());
        }
    });
    out
}
