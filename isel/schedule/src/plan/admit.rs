//! Specialised plans that no tasks stand for.

use super::specialised::Specialised;
use crate::reason::Refusal;
use tilelift_lane::{Registers, Target};

/// Refuses a plan that tasks do not stand for.
///
/// # Errors
/// Why not.
pub fn admit(target: &Target, plan: &Specialised) -> Result<(), Refusal> {
    if !plan.consumers.is_power_of_two() {
        return Err(Refusal::Consumers { groups: plan.consumers });
    }
    // Tasks without registers of their own are given some where a lane has few at entry.
    let units = target.units.as_ref();
    let few = units.is_none_or(|u| Registers::of(target, u, (plan.consumers + 1) * u.group_warps).entry < u.registers.most);
    if plan.registers.is_none() && few {
        return Err(Refusal::Registers);
    }
    Ok(())
}
