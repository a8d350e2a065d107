//! A promise of bytes that the copies behind it do not keep, as a hint beside a refusal of the proof.
//!
//! The proof follows phases, and what a wrong number leads to may show far from it: a phase that ends too early, or never.

use tilelift_ir::kernel::Kernel;
use tilelift_ir::ops::Attr;
use tilelift_ir::{Inst, Op, Type};
use tilelift_schedule::reason::Promise;

/// The first `barrier_expect` whose bytes are not those of the copies behind it in its block. Blocks of a cluster copy to one another, so that nothing
/// is said of them.
pub(crate) fn broken(kernel: &Kernel) -> Option<Promise> {
    if kernel.cluster > 1 {
        return None;
    }
    kernel.regions.values().find_map(|region| (0..region.insts.len()).find_map(|n| of(kernel, &region.insts[n..])))
}

/// What the first instruction promises, if it does and the ones behind it bring something else.
fn of(kernel: &Kernel, insts: &[Inst]) -> Option<Promise> {
    let (&first, rest) = insts.split_first()?;
    let d = &kernel.insts[first];
    let (Op::BarrierExpect, Some(Attr::Count(promised)), Some(&barrier)) = (d.op, d.attrs.first(), d.args.first()) else { return None };
    let mut bring = 0;
    for &i in rest {
        let d = &kernel.insts[i];
        // What blocks inside copy is not known to happen.
        if !d.regions.is_empty() || d.op == Op::BarrierExpect && d.args.first() == Some(&barrier) {
            break;
        }
        if d.op == Op::AsyncLoad && d.args.contains(&barrier) {
            bring += d.args.iter().find_map(|&v| if let Type::Shared(s) = kernel.ty(v) { Some(s.bytes()) } else { None })?;
        }
    }
    let promised = u64::from(*promised);
    (bring > 0 && bring != promised).then_some(Promise { at: kernel.locs[first], promised, bring })
}
