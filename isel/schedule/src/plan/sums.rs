//! What a specialised loop carries, held against its dots.
//!
//! ```text
//! p = dot x, y, carried; yield p          the next step adds to what this one has made, in the same registers
//! p = dot x, y, c; yield p                c would be copied there while the dot of the step before may still write them
//! ```

use super::overlap::is_zero;
use super::replay::{needs, slice};
use crate::named::Named;
use crate::reason::NotSpecialised;
use tilelift_ir::{Effects, Inst, Kernel, Region, Value};
use tilelift_lane::hash::Set;

/// Holds what a loop carries against its dots: something is made of them or seen of them by others, and a chain of them whose end is carried begins
/// with what is carried, with zeros, or with what the step has computed. Accumulators in flight are the step's own then.
pub(super) fn sums(kernel: &Kernel, region: Region, dots: &[Inst]) -> Result<(), NotSpecialised> {
    let yields = kernel.yields(region);
    let mut seen = yields.to_vec();
    for &i in kernel.regions[region].insts.iter().filter(|&&i| kernel.insts[i].op.info().effects != Effects::Pure) {
        needs(kernel, i, &mut |v| seen.push(v));
    }
    let seen = slice(kernel, seen);
    if !dots.iter().any(|i| seen.contains(i)) {
        return Err(NotSpecialised::Unseen);
    }
    let mut inside = Set::default();
    kernel.walk(region, &mut |i| _ = inside.insert(i));
    // What is made of nothing that the loop brings is the same in every step, wherever it stands.
    let params = &kernel.regions[region].params;
    let brings = |i: &Inst| {
        let d = &kernel.insts[*i];
        inside.contains(i) && (d.op.info().effects != Effects::Pure || d.args.iter().any(|a| params.contains(a)))
    };
    let added_to = |v: Value| dots.iter().filter(|&&i| kernel.insts[i].args[2] == v).count();
    let dot = |v: Value| kernel.def_inst(v).filter(|i| dots.contains(i));
    for &end in yields {
        let mut next = dot(end);
        while let Some(i) = next {
            let c = kernel.insts[i].args[2];
            next = dot(c);
            let own = match next {
                Some(_) => added_to(c) == 1,
                None => params.contains(&c) || is_zero(kernel, c) || slice(kernel, vec![c]).iter().any(brings),
            };
            if !own {
                return Err(NotSpecialised::Accumulates { value: Named::of(kernel, c) });
            }
        }
    }
    Ok(())
}
