//! What all workgroups of a launch share: memory, arguments, code, the report, and who touched which byte of memory.

use super::races::{Access, Races};
use crate::chip::Chip;
use crate::fault::{FaultKind, Result};
use crate::object::Module;
use crate::record::Recording;
use crate::report::Report;
use crate::state::memory::{FIRST, Memory, Region};

/// Where flat addresses mean LDS, and where they mean scratch.
pub(crate) const SHARED_BASE: u64 = 0x0001_0000_0000_0000;
pub(crate) const PRIVATE_BASE: u64 = 0x0002_0000_0000_0000;
/// Where the code object is loaded.
pub(crate) const CODE_BASE: u64 = 0x7e00_0000_0000;
/// Where the segment of arguments and the dispatch packet lie.
pub(crate) const ARGS_BASE: u64 = 0x7d00_0000_0000;
pub(crate) const PACKET_BASE: u64 = 0x7d80_0000_0000;
/// Where the page of addresses with scratch memory ends: the memory of all waves begins shortly below it, and most of it is behind.
pub(crate) const SCRATCH_PAGE: u64 = 0x7f01_0000_0000;

/// The device during a launch.
pub(crate) struct Device<'m> {
    pub chip: Chip,
    pub memory: &'m mut Memory,
    pub module: &'m Module,
    /// Arguments and packet: read only.
    pub constants: [Region; 2],
    pub races: Option<Races>,
    pub report: Report,
    /// What happens is taken down, if somebody wants it.
    pub record: Option<Recording>,
}

impl Device<'_> {
    /// Checks that bytes are in a buffer, or in what is read only.
    pub fn locate(&self, address: u64, len: u64, lane: Option<u32>) -> Result<()> {
        if self.memory.find(address, len).is_some() || self.constant(address, len).is_some() {
            return Ok(());
        }
        Err(FaultKind::OutOfBounds { address, bytes: len as u32, near: self.memory.near(address), lane })
    }

    fn constant(&self, address: u64, len: u64) -> Option<&[u8]> {
        let within = |base: u64, bytes: &'_ [u8]| {
            let at = usize::try_from(address.checked_sub(base)?).ok()?;
            (at.checked_add(len as usize)? <= bytes.len()).then_some(at)
        };
        for r in &self.constants {
            if let Some(at) = within(r.base, &r.bytes) {
                return Some(&r.bytes[at..at + len as usize]);
            }
        }
        self.module.segments.iter().find_map(|(base, bytes)| {
            let at = within(CODE_BASE + base, bytes)?;
            Some(&bytes[at..at + len as usize])
        })
    }

    /// Reads bytes; the answer is whether they are defined.
    pub fn read(&self, address: u64, out: &mut [u8], lane: Option<u32>) -> Result<bool> {
        let len = out.len();
        if let Some((i, at)) = self.memory.find(address, len as u64) {
            let r = self.memory.region(i);
            out.copy_from_slice(&r.bytes[at..at + len]);
            return Ok(r.is_defined(at, len));
        }
        match self.constant(address, len as u64) {
            Some(b) => {
                out.copy_from_slice(b);
                Ok(true)
            }
            None => Err(FaultKind::OutOfBounds { address, bytes: len as u32, near: self.memory.near(address), lane }),
        }
    }

    pub fn write(&mut self, address: u64, data: &[u8], lane: Option<u32>) -> Result<()> {
        let found = self.memory.find(address, data.len() as u64);
        let (i, at) =
            found.ok_or_else(|| FaultKind::OutOfBounds { address, bytes: data.len() as u32, near: self.memory.near(address), lane })?;
        self.memory.region_mut(i).write(at, data);
        Ok(())
    }

    /// Notes an access to global memory; a fault if another one is not ordered with it.
    #[allow(clippy::too_many_arguments)]
    pub fn issue(&mut self, group: u32, wave: u32, epoch: u32, address: u64, len: u16, touch: Access, lane: u32) -> Result<()> {
        match &mut self.races {
            // What lies below the buffers is read only.
            Some(r) if address >= FIRST => {
                r.issue((group, wave, epoch), address, len, touch).map_err(|o| o.fault(address, touch.write, lane))
            }
            _ => Ok(()),
        }
    }

    /// Notes that a wave has waited for accesses.
    pub fn complete(&mut self, group: u32, wave: u32, epoch: u32, accesses: &[(u64, u16, bool)]) {
        if let Some(r) = &mut self.races {
            for &(address, len, write) in accesses {
                r.complete((group, wave, epoch), address, len, write);
            }
        }
    }
}
