//! Why no loop of a kernel brings operands of its products by a ring.

use super::lane_copies::copied_by_lanes;
use super::products::beside_products;
use super::replay::{needs, slice_by};
use super::tensor_boxes::SwizzledTile;
use crate::counted::not_counted;
use crate::named::{Made, Named};
use crate::reason::NotSpecialised;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{Target, Units};

/// The reason, by the first load or gather of a loop that products follow from; [`NotSpecialised::Loops`] of none if there is no such loop.
pub(super) fn no_loop(kernel: &Kernel, target: &Target, units: &Units, written: &Set<Value>) -> NotSpecialised {
    let mut why = None;
    kernel.walk(kernel.body, &mut |main| {
        let d = &kernel.insts[main];
        let Some(&region) = d.regions.last().filter(|_| why.is_none() && matches!(d.op, Op::For | Op::While)) else { return };
        let body = &kernel.regions[region].insts;
        let operands = body.iter().filter(|&&i| kernel.insts[i].op == Op::Dot).flat_map(|&i| kernel.insts[i].args[..2].to_vec());
        let behind = slice_by(kernel, operands.collect(), &|i, take| needs(kernel, i, take));
        why = body.iter().filter(|i| behind.contains(i)).find_map(|&i| unbrought(kernel, target, units, written, i));
        // What a ring would bring in a loop that counts.
        if let Some(uncounted) = why.as_ref().and_then(|_| uncounted(kernel, main)) {
            why = Some(uncounted);
        }
    });
    why.unwrap_or(NotSpecialised::Loops { count: 0 })
}

/// Why it is not known how often a loop on a condition goes round; `None` of others.
pub(super) fn uncounted(kernel: &Kernel, main: Inst) -> Option<NotSpecialised> {
    let why = not_counted(kernel, main).filter(|_| kernel.insts[main].op == Op::While)?;
    Some(NotSpecialised::Uncounted { made: Box::new(Made::of(kernel, main)), why: Box::new(why) })
}

/// Why what a load or gather brings is not brought by a ring; `None` of other instructions.
fn unbrought(kernel: &Kernel, target: &Target, units: &Units, written: &Set<Value>, i: Inst) -> Option<NotSpecialised> {
    let d = &kernel.insts[i];
    match d.op {
        Op::Load => {
            let shape = kernel.ty(d.results[0]).shape()?;
            Some(SwizzledTile::of(kernel, i, shape, units, None).map_or_else(NotSpecialised::from, |_| beside_products(kernel, i)))
        }
        Op::Gather => Some(match copied_by_lanes(kernel, target, units, written, i, None) {
            Err(why) => why.into(),
            // Its rows are such that the producer's lanes would copy them, if they knew which.
            Ok(_) => NotSpecialised::Address { value: Named::of(kernel, *kernel.operand(i, "indices").first()?) },
        }),
        _ => None,
    }
}
