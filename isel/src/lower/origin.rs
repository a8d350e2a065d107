//! Where in the author's text the instructions come from of which a refusal speaks.
//!
//! A lane program keeps no places. Who is refused can wait: the kernel is lowered again, which gives the same program, and every instruction
//! that acts is noted with the place of its tile op.

use tilelift_ir::{Kernel, Loc, Op};
use tilelift_lane::Inst;
use tilelift_protocol::{ProtocolError, Spot};
use tilelift_schedule::LowerError;

/// An instruction and the place of its tile op.
pub(crate) type Origin = (Inst, Loc);

/// A refusal in the words of the author's text: the ops and lines of its instructions, where they have one each.
pub(crate) fn placed(e: ProtocolError, kernel: &Kernel, origins: impl FnOnce() -> Result<Vec<Origin>, LowerError>) -> ProtocolError {
    // The first answer was no error, and so is this one.
    let origins: Vec<Origin> = origins().unwrap_or_default().into_iter().filter(|o| o.1.is_known()).collect();
    let place = |spot: Box<Spot>| {
        let Spot::Inst { inst, role, .. } = &*spot else { return spot };
        let mut places = origins.iter().filter(|o| o.0 == **inst).map(|o| o.1);
        match places.next() {
            Some(at) if places.all(|other| (other.file, other.line) == (at.file, at.line)) => {
                Box::new(Spot::Written { op: written(kernel, at), at, role: role.clone() })
            }
            Some(_) | None => spot,
        }
    };
    ProtocolError { here: place(e.here), other: e.other.map(place), problem: e.problem }
}

/// The op at a place. What it was expanded to stands there, too, but behind it in the list.
fn written(kernel: &Kernel, at: Loc) -> Option<Op> {
    kernel.insts.iter().find(|(i, _)| kernel.locs[*i] == at).map(|(_, d)| d.op)
}
