//! Modifiers: what an instruction has no field for must be as it is by default.

use super::error::{EncodeReason, Modifier};
use crate::mir::Mods;

/// Refuses what is left when a format has taken its modifiers out.
pub(super) fn none_left(left: &Mods) -> Result<(), EncodeReason> {
    let set = [
        (left.offset != 0, Modifier::Offset),
        (left.offset1 != 0, Modifier::Offset1),
        (left.sc0, Modifier::Sc0),
        (left.sc1, Modifier::Sc1),
        (left.nt, Modifier::Nt),
        (left.neg != 0, Modifier::Neg),
        (left.neg_hi != 0, Modifier::NegHi),
        (left.abs != 0, Modifier::Abs),
        (left.clamp, Modifier::Clamp),
        (left.op_sel != 0, Modifier::OpSel),
        (left.op_sel_hi != 0 || left.op_sel_hi_off != 0, Modifier::OpSelHi),
        (left.dpp.is_some(), Modifier::Dpp),
        (left.sdwa.is_some(), Modifier::Sdwa),
        (left.cbsz != 0, Modifier::Cbsz),
        (left.abid != 0, Modifier::Abid),
        (left.blgp != 0, Modifier::Blgp),
    ];
    match set.iter().find(|(is_set, _)| *is_set) {
        Some(&(_, modifier)) => Err(EncodeReason::Modifier(modifier)),
        None => Ok(()),
    }
}

/// An error unless the condition holds.
pub(super) fn require(holds: bool, otherwise: Modifier) -> Result<(), EncodeReason> {
    if holds { Ok(()) } else { Err(EncodeReason::Modifier(otherwise)) }
}
