//! Global memory as the program sees it: buffer `i` lies at `(i + 1) << 40`, so that an address names its buffer.

use super::error::LaneFault;
use crate::value::Space;
use tilelift_interp::Memory;

/// Address bits below the buffer number.
const BUFFER_SHIFT: u32 = 40;

/// The address of a byte of a buffer.
pub(crate) fn address(buffer: usize, offset: u64) -> u64 {
    ((buffer as u64 + 1) << BUFFER_SHIFT).wrapping_add(offset)
}

/// A buffer with bytes that were never written.
struct Partial {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

pub(crate) struct Global<'a> {
    memory: &'a mut Memory,
    /// Working copies of the buffers that aren't fully initialised.
    partial: Vec<Option<Partial>>,
}

impl<'a> Global<'a> {
    pub(crate) fn new(memory: &'a mut Memory) -> Global<'a> {
        let partial = memory
            .buffers
            .iter()
            .map(|b| {
                (!b.is_initialised(0..b.len()))
                    .then(|| Partial { bytes: b.bytes().to_vec(), written: (0..b.len()).map(|i| b.is_initialised(i..i + 1)).collect() })
            })
            .collect();
        Global { memory, partial }
    }

    /// Writes back what the programs did. Of a buffer that is still not fully written, the bytes without a value stay so.
    pub(crate) fn finish(self) {
        for (buffer, partial) in self.memory.buffers.iter_mut().zip(self.partial) {
            let Some(p) = partial else { continue };
            let mut at = 0;
            for run in p.written.chunk_by(|a, b| a == b) {
                if run[0] {
                    buffer.write(at, &p.bytes[at..at + run.len()]);
                }
                at += run.len();
            }
        }
    }

    /// Buffer and offset of an access, aligned to its width.
    fn place(&self, addr: u64, bytes: usize) -> Result<(usize, usize), LaneFault> {
        let space = Space::Global;
        let outside = LaneFault::Outside { space, addr, bytes };
        let buffer = ((addr >> BUFFER_SHIFT) as usize).checked_sub(1).ok_or_else(|| outside.clone())?;
        let at = (addr & ((1 << BUFFER_SHIFT) - 1)) as usize;
        match self.memory.buffers.get(buffer) {
            Some(b) if at + bytes <= b.len() => {}
            Some(_) | None => return Err(outside),
        }
        if !at.is_multiple_of(bytes) {
            return Err(LaneFault::Misaligned { space, addr, bytes });
        }
        Ok((buffer, at))
    }

    /// Reads the bytes of one aligned access.
    pub(crate) fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), LaneFault> {
        let (buffer, at) = self.place(addr, out.len())?;
        let range = at..at + out.len();
        match &self.partial[buffer] {
            None => out.copy_from_slice(&self.memory.buffers[buffer].bytes()[range]),
            Some(p) => {
                if let Some(hole) = range.clone().find(|&i| !p.written[i]) {
                    return Err(LaneFault::Uninitialised { space: Space::Global, addr: address(buffer, hole as u64) });
                }
                out.copy_from_slice(&p.bytes[range]);
            }
        }
        Ok(())
    }

    /// Writes the bytes of one aligned access.
    pub(crate) fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), LaneFault> {
        let (buffer, at) = self.place(addr, data.len())?;
        let range = at..at + data.len();
        match &mut self.partial[buffer] {
            None => self.memory.buffers[buffer].bytes_mut()[range].copy_from_slice(data),
            Some(p) => {
                p.written[range.clone()].fill(true);
                p.bytes[range].copy_from_slice(data);
            }
        }
        Ok(())
    }
}
