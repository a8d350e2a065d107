//! What the facts of a view and its indices say about a global access.

use crate::facts::{divisor, power_of_two};
use smallvec::SmallVec;
use tilelift_ir::{Extent, Inst, Kernel, Op, Type, Value, ViewType};

/// A load or store, with what is known of its addresses.
pub(crate) struct GlobalAccess<'a> {
    /// The view's type.
    pub view: &'a ViewType,
    /// The view operand.
    pub view_value: Value,
    /// One index per dimension.
    pub indices: SmallVec<[Value; 4]>,
    /// The mask, if any.
    pub mask: Option<Value>,
    /// Largest power of two that divides each index.
    divisors: SmallVec<[u32; 4]>,
}

impl<'a> GlobalAccess<'a> {
    /// Reads a load or store of a verified kernel.
    pub fn of(kernel: &'a Kernel, i: Inst) -> GlobalAccess<'a> {
        debug_assert!(matches!(kernel.insts[i].op, Op::Load | Op::Store));
        let view_value = kernel.insts[i].args[0];
        let Type::View(view) = kernel.ty(view_value) else {
            // The verifier accepts views only.
            unreachable!("a load or store of something that is no view");
        };
        let indices: SmallVec<[Value; 4]> = SmallVec::from_slice(kernel.operand(i, "indices"));
        let divisors = indices.iter().map(|&v| divisor(kernel, v)).collect();
        let mask = kernel.operand(i, "mask").first().copied();
        GlobalAccess { view, view_value, indices, mask, divisors }
    }

    /// The dimension whose elements are next to each other, if there is one.
    pub fn contiguous(&self) -> Option<usize> {
        (0..self.view.rank()).rev().find(|&d| self.view.stride(d) == Extent::Fixed(1))
    }

    /// Dimensions by decreasing contiguity: the contiguous one, then the others from the last to the first.
    pub fn order(&self) -> Vec<usize> {
        let fast = self.contiguous();
        let rest = (0..self.view.rank()).rev().filter(|d| Some(*d) != fast);
        fast.into_iter().chain(rest).collect()
    }

    /// Elements that one lane may access at once along the contiguous dimension: bounded by the width of an access, the alignment of
    /// base, strides and index, and the extent's divisor, so that a vector is inside the view or outside it as a whole.
    pub fn vector_elements(&self, max_bytes: u32) -> u32 {
        let Some(fast) = self.contiguous() else { return 1 };
        let bytes = self.view.elem.bytes();
        let mut vec = (max_bytes / bytes).min(self.view.align / bytes).max(1);
        for d in 0..self.view.rank() {
            let known = |e: Extent| power_of_two(i64::from(e.divisor()));
            vec = vec.min(if d == fast { self.divisors[d].min(known(self.view.dims[d])) } else { known(self.view.stride(d)) });
        }
        if self.mask.is_some() { 1 } else { vec }
    }
}
