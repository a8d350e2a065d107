//! Kernels with channels: checked as such, then lowered with as much of the target's units as it takes.

use super::{Lowered, lower};
use crate::error::LowerError;
use crate::lane::Target;
use crate::plan::LowerOptions;
use tilelift_ir::channel::{Units, check, expand};
use tilelift_ir::{Kernel, Op, verify};

/// True if a kernel has channels.
pub(super) fn has_channels(kernel: &Kernel) -> bool {
    kernel.regions[kernel.body].insts.iter().any(|&i| kernel.insts[i].op == Op::ChannelAlloc)
}

/// Lowers the first expansion that the target takes: copies and products by its units, copies alone, all through registers.
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
    let copies = Units { copies: &|_, _| true, multiplies: &|_, _| false };
    let mut refused = None;
    for units in [&Units::ALL, &copies, &Units::NONE] {
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
