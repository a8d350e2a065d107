//! In which order the bits of an axis are folded.

use super::Owner;
use smallvec::SmallVec;
use tilelift_ir::reduce::reduce_order;
use tilelift_ir::{Attr, Inst, Kernel, Op, ReduceOp};

/// The bits of axis `dim` of what an instruction reduces, in the order in which they are folded: the op's, or, where every order gives the same bits,
/// registers first, so that fewer words are exchanged between lanes and warps.
pub(crate) fn fold_order(kernel: &Kernel, i: Inst, dim: usize, owned: &[Owner]) -> SmallVec<[u32; 24]> {
    let d = &kernel.insts[i];
    let ty = kernel.ty(d.args[0]);
    let mut bits = reduce_order(ty.shape().map_or(1, |s| s[dim])).bits;
    let any = match (d.op, d.attrs.first()) {
        // The lower position decides between equals.
        (Op::ArgMin | Op::ArgMax, _) => true,
        (Op::Reduce, Some(Attr::Reduce(r))) => match r {
            ReduceOp::Minimum | ReduceOp::Maximum | ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => true,
            ReduceOp::Add | ReduceOp::Mul => !ty.elem().is_float(),
        },
        _ => false,
    };
    if any {
        bits.sort_by_key(|&bit| match owned[bit as usize] {
            Owner::Reg(_) => 0,
            Owner::Lane(_) => 1,
            Owner::Warp(_) => 2,
        });
    }
    bits
}
