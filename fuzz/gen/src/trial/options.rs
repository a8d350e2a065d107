//! Options of the compile of a trial: what a plan may be told, in all combinations that kernels allow.

use crate::source::Source;
use tilelift::{OptLevel, Options};
use tilelift_isel::{LowerOptions, ScheduleKind};

/// Options of a specialised loop whose operands have rows for these swizzle widths.
pub(super) fn random(src: &mut Source, swizzles: Vec<u32>) -> LowerOptions {
    LowerOptions {
        schedule: src.chance(216).then_some(ScheduleKind::Specialised),
        consumers: [None, None, Some(1), Some(2)][src.below(4) as usize],
        persistent: [None, Some(true), Some(false)][src.below(3) as usize],
        // Rings that go round several times.
        stages: [None, Some(2), Some(3), Some(4), Some(2)][src.below(5) as usize],
        swizzle: if src.chance(80) { src.pick(&swizzles).copied() } else { None },
        a_from_registers: [None, None, None, Some(true), Some(false)][src.below(5) as usize],
        bulk_stores: if src.chance(50) { Some(false) } else { None },
        early_launch: if src.chance(50) { Some(false) } else { None },
        ..LowerOptions::default()
    }
}

/// A level, and these options of the lowering.
pub(super) fn compile(src: &mut Source, lower: LowerOptions) -> Options {
    let opt = OptLevel::ALL[src.weighted(&[3, 4, 3])];
    Options { opt, lower, ..Options::default() }
}
