//! What a finished launch reports: counts per instruction, and their cost on the memory system.

use indexmap::IndexMap;
use std::fmt;

/// Counters of one instruction of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) executed: u64,
    pub(crate) wavefronts: u64,
    pub(crate) ideal_wavefronts: u64,
    pub(crate) sectors: u64,
    pub(crate) lines: u64,
    pub(crate) requested_bytes: u64,
}

/// Counters of one instruction site that touched memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteReport {
    /// Line in the PTX text, from 1.
    pub line: u32,
    /// The instruction as written.
    pub text: String,
    /// Warp instructions executed.
    pub executed: u64,
    /// Shared-memory wavefronts.
    pub wavefronts: u64,
    /// Wavefronts the same accesses need without bank conflicts.
    pub ideal_wavefronts: u64,
    /// 32-byte global sectors.
    pub sectors: u64,
    /// 128-byte global lines.
    pub transactions: u64,
    /// Global bytes asked for by lanes.
    pub requested_bytes: u64,
}

impl SiteReport {
    /// Wavefronts caused by bank conflicts.
    pub fn conflict_excess(&self) -> u64 {
        self.wavefronts - self.ideal_wavefronts
    }

    /// Requested bytes over transferred bytes; above 1 when lanes share bytes. 1 when nothing was accessed.
    pub fn efficiency(&self) -> f64 {
        if self.sectors == 0 { 1.0 } else { self.requested_bytes as f64 / (self.sectors * 32) as f64 }
    }
}

/// Result of a launch that found no fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Warp instructions executed.
    pub instructions: u64,
    /// Warp instructions by opcode with modifiers, in order of first appearance in the text.
    pub by_opcode: IndexMap<String, u64>,
    /// Sites that accessed shared or global memory, in text order.
    pub sites: Vec<SiteReport>,
    /// Shared-memory wavefronts.
    pub wavefronts: u64,
    /// Wavefronts without bank conflicts.
    pub ideal_wavefronts: u64,
    /// 32-byte global sectors.
    pub sectors: u64,
    /// 128-byte global lines.
    pub transactions: u64,
    /// Global bytes asked for.
    pub requested_bytes: u64,
    /// Shared memory per CTA in bytes, static and dynamic.
    pub shared_bytes: u64,
    /// CTAs run.
    pub ctas: u64,
}

impl Report {
    /// Wavefronts caused by bank conflicts.
    pub fn conflict_excess(&self) -> u64 {
        self.wavefronts - self.ideal_wavefronts
    }

    /// Warp instructions whose opcode starts with `prefix`.
    pub fn count(&self, prefix: &str) -> u64 {
        self.by_opcode.iter().filter(|x| x.0.starts_with(prefix)).map(|x| x.1).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} CTAs, {} warp instructions", self.ctas, self.instructions)?;
        writeln!(f, "shared: {} wavefronts, {} of them from bank conflicts", self.wavefronts, self.conflict_excess())?;
        writeln!(f, "global: {} sectors, {} transactions, {} bytes requested", self.sectors, self.transactions, self.requested_bytes)?;
        for (k, v) in &self.by_opcode {
            writeln!(f, "{v:>12}  {k}")?;
        }
        for s in &self.sites {
            write!(f, "line {:>5}: `{}` x{}", s.line, s.text, s.executed)?;
            if s.ideal_wavefronts > 0 {
                write!(f, ", {} wavefronts ({} ideal)", s.wavefronts, s.ideal_wavefronts)?;
            }
            if s.sectors > 0 {
                write!(f, ", {} sectors, efficiency {:.2}", s.sectors, s.efficiency())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
