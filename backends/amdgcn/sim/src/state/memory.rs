//! Global memory: buffers with a guard between them, and which of their bytes are defined.

use std::fmt;

/// What a buffer holds at first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Init {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many undefined bytes.
    Uninit(usize),
}

/// Why simulated memory was not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoryError {
    /// Not within a buffer.
    OutOfBounds {
        /// The address.
        address: u64,
        /// Bytes.
        bytes: usize,
    },
    /// Bytes that were never written.
    Undefined {
        /// The first of them.
        address: u64,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::OutOfBounds { address, bytes } => write!(f, "{bytes} bytes at {address:#x} are in no buffer"),
            MemoryError::Undefined { address } => write!(f, "the byte at {address:#x} was never written"),
        }
    }
}

impl std::error::Error for MemoryError {}

/// A buffer.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub name: String,
    pub base: u64,
    pub bytes: Vec<u8>,
    /// A bit per byte; empty if all are defined.
    defined: Vec<u64>,
}

impl Region {
    pub fn new(name: &str, base: u64, init: Init) -> Region {
        let (bytes, defined) = match init {
            Init::Bytes(b) => (b, Vec::new()),
            // A pattern that is no likely number, so that what slips through shows.
            Init::Uninit(n) => (vec![0xcd; n], vec![0; n.div_ceil(64)]),
        };
        Region { name: name.to_owned(), base, bytes, defined }
    }

    /// True if the bytes `at..at + len` of the region are defined.
    pub fn is_defined(&self, at: usize, len: usize) -> bool {
        self.defined.is_empty() || self.words(at, len).all(|(word, bits)| self.defined[word] & bits == bits)
    }

    /// The words of `defined` that stand for the bytes `at..at + len`, with their bits.
    fn words(&self, at: usize, len: usize) -> impl Iterator<Item = (usize, u64)> {
        let (end, words) = (at + len, at / 64..(at + len).div_ceil(64));
        words.filter(move |_| len > 0).map(move |word| {
            let (low, high) = (at.saturating_sub(word * 64), (end - word * 64).min(64));
            (word, u64::MAX >> (64 - (high - low)) << low)
        })
    }

    /// Copies those of the bytes from `at` on that are defined; the others of `into` stay.
    fn copy_defined(&self, at: usize, into: &mut [u8]) {
        if self.defined.is_empty() {
            into.copy_from_slice(&self.bytes[at..at + into.len()]);
            return;
        }
        for (word, bits) in self.words(at, into.len()) {
            let mut left = self.defined[word] & bits;
            while left != 0 {
                let start = left.trailing_zeros();
                let run = (left >> start).trailing_ones();
                let from = word * 64 + start as usize;
                into[from - at..][..run as usize].copy_from_slice(&self.bytes[from..][..run as usize]);
                left &= !(u64::MAX >> (64 - run) << start);
            }
        }
    }

    pub fn write(&mut self, at: usize, data: &[u8]) {
        self.bytes[at..at + data.len()].copy_from_slice(data);
        if !self.defined.is_empty() {
            for i in at..at + data.len() {
                self.defined[i / 64] |= 1 << (i % 64);
            }
        }
    }
}

/// Global memory of a simulated device.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    regions: Vec<Region>,
    last: std::cell::Cell<usize>,
}

/// The address of the first buffer; nothing else lies above.
pub(crate) const FIRST: u64 = 0x7f10_0000_0000;
const GUARD: u64 = 1 << 20;

impl Memory {
    /// No buffers.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds a buffer; its address, a multiple of 256, is the answer.
    pub fn alloc(&mut self, name: &str, init: Init) -> u64 {
        let base = self.regions.last().map_or(FIRST, |r| (r.base + r.bytes.len() as u64 + GUARD).next_multiple_of(256));
        self.regions.push(Region::new(name, base, init));
        base
    }

    /// The region of an access, and where in it.
    pub(crate) fn find(&self, address: u64, len: u64) -> Option<(usize, usize)> {
        let within =
            |r: &Region| address >= r.base && address - r.base <= r.bytes.len() as u64 && len <= r.bytes.len() as u64 - (address - r.base);
        let mut i = self.last.get();
        if !self.regions.get(i).is_some_and(within) {
            i = self.regions.partition_point(|r| r.base <= address).checked_sub(1)?;
            if !within(&self.regions[i]) {
                return None;
            }
            self.last.set(i);
        }
        Some((i, (address - self.regions[i].base) as usize))
    }

    pub(crate) fn region(&self, i: usize) -> &Region {
        &self.regions[i]
    }

    pub(crate) fn region_mut(&mut self, i: usize) -> &mut Region {
        &mut self.regions[i]
    }

    /// The buffer before an address, and how far behind its end the address lies.
    pub(crate) fn near(&self, address: u64) -> Option<(String, i64)> {
        let r = &self.regions[self.regions.partition_point(|r| r.base <= address).checked_sub(1)?];
        Some((r.name.clone(), (address - r.base) as i64 - r.bytes.len() as i64))
    }

    fn bytes_at(&self, address: u64, len: usize) -> Result<(&Region, usize), MemoryError> {
        let found = self.find(address, len as u64).ok_or(MemoryError::OutOfBounds { address, bytes: len })?;
        Ok((&self.regions[found.0], found.1))
    }

    /// Bytes of a buffer, all of them defined.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn read(&self, address: u64, len: usize) -> Result<&[u8], MemoryError> {
        let (r, at) = self.bytes_at(address, len)?;
        match (at..at + len).find(|&i| !r.is_defined(i, 1)) {
            Some(i) => Err(MemoryError::Undefined { address: r.base + i as u64 }),
            None => Ok(&r.bytes[at..at + len]),
        }
    }

    /// Bytes of a buffer, whether or not they are defined.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn read_unchecked(&self, address: u64, len: usize) -> Result<&[u8], MemoryError> {
        let (r, at) = self.bytes_at(address, len)?;
        Ok(&r.bytes[at..at + len])
    }

    /// True if all bytes are defined.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn is_written(&self, address: u64, len: usize) -> Result<bool, MemoryError> {
        let (r, at) = self.bytes_at(address, len)?;
        Ok(r.is_defined(at, len))
    }

    /// Copies those of the bytes from `address` on that are defined; the others of `into` stay.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn copy_written(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let (r, at) = self.bytes_at(address, into.len())?;
        r.copy_defined(at, into);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_defined_is_found_byte_by_byte() {
        let mut r = Region::new("r", 0, Init::Uninit(300));
        for (at, len) in [(0, 1), (3, 61), (64, 64), (130, 5), (191, 2), (299, 1)] {
            r.write(at, &vec![1; len]);
        }
        let is = |i: usize| r.defined[i / 64] >> (i % 64) & 1 != 0;
        for at in 0..300 {
            for len in [0, 1, 2, 63, 64, 65, 130].into_iter().filter(|len| at + len <= 300) {
                assert_eq!(r.is_defined(at, len), (at..at + len).all(is), "{at} {len}");
                let mut host = vec![7; len];
                r.copy_defined(at, &mut host);
                let want: Vec<u8> = (at..at + len).map(|i| if is(i) { 1 } else { 7 }).collect();
                assert_eq!(host, want, "{at} {len}");
            }
        }
    }
}
