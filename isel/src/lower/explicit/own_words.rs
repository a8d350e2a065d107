//! Words of operand A that others read: the product gets copies of its own.
//!
//! While lanes' registers are being multiplied nothing else may read them, and how long that takes is not the affair of whoever else has the value.
//!
//! ```text
//! a = splat x                     word = pack x, x        own = own word
//! r = async_dot a, b, c    ──►    multiply own, …         in flight until it is waited for
//! store a                         store word
//! ```
//!
//! Values that lie in the same registers are one here: parts, and other shapes, of a tile. What loops hand on is not read where it is handed on.

use super::super::Lower;
use std::rc::Rc;
use tilelift_ir::{Effects, Kernel, Op, Scalar, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{LTy, LVal, LaneBuilder, UnOp};

/// True for an op whose result lies in registers of its operand.
fn same_registers(op: Op) -> bool {
    matches!(op, Op::Reshape | Op::Transpose | Op::Broadcast | Op::Slice | Op::Concat | Op::Bitcast | Op::RequireLayout | Op::ReleaseLayout)
}

/// Tiles that something reads beside products that have them as operand A.
fn read_by_others(kernel: &Kernel) -> Set<Value> {
    let mut order = Vec::new();
    kernel.walk(kernel.body, &mut |i| order.push(i));
    let mut read = Set::default();
    for i in order.into_iter().rev() {
        let d = &kernel.insts[i];
        match d.op {
            op if same_registers(op) => {
                if d.results.iter().any(|r| read.contains(r)) {
                    read.extend(d.args.iter().copied());
                }
            }
            Op::Dot | Op::AsyncDot => read.extend(d.args.iter().skip(1).copied()),
            op if op.info().effects == Effects::Control => {}
            _ => read.extend(d.args.iter().copied()),
        }
    }
    read
}

/// True for a tile whose registers others read.
fn shared(kernel: &Kernel, read: &Set<Value>, v: Value) -> bool {
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        let made = kernel.def_inst(v).map(|i| &kernel.insts[i]);
        // One register for all elements, and for all tiles of that number.
        if read.contains(&v) || made.is_some_and(|d| d.op == Op::Splat) {
            return true;
        }
        open.extend(made.filter(|d| same_registers(d.op)).into_iter().flat_map(|d| d.args.iter().copied()));
    }
    false
}

impl Lower<'_> {
    /// Words of an operand A in registers that nothing else reads while it is multiplied.
    pub(super) fn own_words(&mut self, b: &mut LaneBuilder, v: Value, words: &mut [LVal]) {
        let kernel = self.kernel;
        let read = self.read_by_others.get_or_insert_with(|| Rc::new(read_by_others(kernel))).clone();
        let shared = shared(kernel, &read, v);
        for w in words {
            if shared || b.as_const(*w).is_some() {
                let bits = b.bitcast(*w, LTy::Num(Scalar::I32));
                let own = b.un(UnOp::Own, bits);
                *w = b.bitcast(own, LTy::B32);
            }
        }
    }
}
