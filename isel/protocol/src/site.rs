//! Where an instruction stands.

use tilelift_lane::Inst;

/// An instruction of an agent, by address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Site(pub usize, pub *const Inst);
