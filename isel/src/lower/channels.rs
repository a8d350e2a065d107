//! Kernels with channels: checked as such, then lowered with as much of the target's units as it takes.

use super::{Lowered, lower};
use crate::error::LowerError;
use crate::plan::{LowerOptions, PanelTile};
use crate::target::Target;
use tilelift_ir::channel::{Units, check, expand};
use tilelift_ir::{Inst, Kernel, Op, verify};

/// True if a kernel has channels.
pub(super) fn has_channels(kernel: &Kernel) -> bool {
    kernel.regions[kernel.body].insts.iter().any(|&i| kernel.insts[i].op == Op::ChannelAlloc)
}

/// Lowers the first expansion that the target takes: copies and products by its units, copies alone, all through registers. A tile that bulk
/// copies do not take goes through registers in all of them.
///
/// # Errors
/// A channel that may come to a standstill, or why the plainest expansion is refused.
pub(super) fn lower_channels(kernel: &Kernel, target: &Target, options: &LowerOptions) -> Result<Lowered, LowerError> {
    if !options.unproven {
        check(kernel).map_err(|e| {
            let loc = e.sites.first().map_or_else(Default::default, |s| s.2);
            LowerError::unsupported("a channel that may come to a standstill", e.to_string()).at(loc)
        })?;
    }
    let copies = |load: Inst| {
        let shape = kernel.insts[load].results.first().and_then(|&v| kernel.ty(v).shape());
        let units = target.units.as_ref();
        shape.zip(units).is_some_and(|(shape, units)| PanelTile::of(kernel, load, shape, units, None).is_ok())
    };
    let all = Units { copies: &copies, multiplies: &|_, _| true };
    let copied = Units { copies: &copies, multiplies: &|_, _| false };
    let mut refused = None;
    for units in [&all, &copied, &Units::NONE] {
        let made = expand(kernel, units);
        let verified =
            verify(&made).map_err(|e| LowerError::unsupported("a kernel whose channels expand to a malformed one", e.to_string()))?;
        match lower(&verified, target, options) {
            Ok(lowered) => return Ok(lowered),
            Err(e) => refused = Some(e),
        }
    }
    Err(refused.unwrap_or_else(|| LowerError::unsupported("a channel", "it has no expansion")))
}
