//! `devices`: what there is to run on, and to compile for.

use super::outcome::{Outcome, Streams};
use crate::execute::{DeviceKind, Executor};
use tilelift::targets;

pub(super) const HELP: &str =
    "usage: tilelift devices\n\nLists the devices of this machine and the targets that kernels can be compiled for.";

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    if let Some(arg) = parser.next()? {
        return Err(arg.unexpected().into());
    }
    for &kind in DeviceKind::ALL {
        match Executor::open(kind, None) {
            Ok(device) => writeln!(streams.out, "{:<7} {}", kind.word(), device.describe())?,
            Err(e) => writeln!(streams.out, "{:<7} not available: {e}", kind.word())?,
        }
    }
    for name in targets::NAMES {
        let Some(t) = targets::by_name(name) else { continue };
        let what = if targets::has_text(&t) { "text and lane program" } else { "lane program only" };
        writeln!(
            streams.out,
            "{:<7} {} lanes per warp, {} bytes of shared memory, {} matrix instructions; {what}",
            t.name,
            t.lanes,
            t.shared_bytes,
            t.matrix.len()
        )?;
    }
    Ok(())
}
