//! Memory: named global buffers at spaced virtual addresses, and the shared window of a CTA.
//!
//! Both keep one bit per byte for "has been written"; shared memory keeps a second bit for "holds an
//! undefined value" (see the poison rules in the crate documentation).

use std::fmt;

/// First address of the shared window. Not zero, so that code which confuses offsets and addresses fails;
/// a multiple of 1024, so that swizzles on absolute address bits behave as on hardware.
pub(crate) const SHARED_BASE: u64 = 1024;
/// Generic address of shared-window address 0.
pub(crate) const SHARED_WINDOW: u64 = 0x7f00_0000_0000_0000;
/// Generic address of parameter 0.
pub(crate) const PARAM_WINDOW: u64 = 0x7e00_0000_0000_0000;
/// Bits of a shared address below the cluster rank; rank r is r + 1 there, and 0 is the own CTA.
pub(crate) const RANK_SHIFT: u32 = 24;
/// First buffer address.
const GLOBAL_BASE: u64 = 0x10_0000_0000;
/// Unmapped bytes between buffers.
const GUARD: u64 = 1 << 20;
/// Alignment of buffers (that of the CUDA allocator).
const BUFFER_ALIGN: u64 = 512;

/// Initial contents of a buffer.
#[derive(Clone, Debug)]
pub enum Init {
    /// These bytes, all readable.
    Bytes(Vec<u8>),
    /// This many bytes that must be written before they are read.
    Uninit(usize),
    /// This many zero bytes, all readable.
    Zeroed(usize),
}

/// A set of byte positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub(crate) fn new(len: usize, value: bool) -> Bits {
        Bits { words: vec![if value { u64::MAX } else { 0 }; len.div_ceil(64)], len }
    }

    /// Bits `at .. at + n` (n <= 32) as a mask. The range must lie inside.
    pub(crate) fn get(&self, at: usize, n: u32) -> u32 {
        let (w, s) = (at / 64, at % 64);
        let mut v = self.words[w] >> s;
        if s + n as usize > 64 {
            v |= self.words[w + 1] << (64 - s);
        }
        (v & ((1u64 << n) - 1)) as u32
    }

    /// Sets bits `at .. at + n` (n <= 32) to `value`.
    pub(crate) fn set(&mut self, at: usize, n: u32, value: bool) {
        let mask = (1u64 << n) - 1;
        let (w, s) = (at / 64, at % 64);
        let mut put = |w: usize, m: u64| {
            if value {
                self.words[w] |= m;
            } else {
                self.words[w] &= !m;
            }
        };
        put(w, mask << s);
        if s + n as usize > 64 {
            put(w + 1, mask >> (64 - s));
        }
    }

    /// First clear position in `at .. at + n`, any length.
    pub(crate) fn first_clear(&self, at: usize, n: usize) -> Option<usize> {
        self.first(at, n, 0)
    }

    /// First position in `at .. at + n`, any length, whose bit is not that of `other`, a word of equal bits.
    fn first(&self, at: usize, n: usize, other: u64) -> Option<usize> {
        let end = (at + n).min(self.len);
        let mut i = at;
        while i < end {
            let w = (self.words[i / 64] ^ other) >> (i % 64);
            if !w != 0 {
                let z = (!w).trailing_zeros() as usize;
                if z < 64 - i % 64 {
                    return (i + z < end).then_some(i + z);
                }
            }
            i = (i / 64 + 1) * 64;
        }
        None
    }

    pub(crate) fn fill(&mut self, at: usize, n: usize) {
        let mut i = at;
        while i < at + n {
            let step = (at + n - i).min(32);
            self.set(i, step as u32, true);
            i += step;
        }
    }
}

/// One buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) written: Bits,
    pub(crate) read_only: bool,
    /// It holds constants of a module: no launch writes it.
    pub(crate) constant: bool,
}

/// Global memory of the simulated device.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) buffers: Vec<Buffer>,
    next: u64,
}

/// A host access outside every buffer, or a read of bytes nothing has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryError(String);

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MemoryError {}

impl Memory {
    /// Memory without buffers.
    pub fn new() -> Memory {
        Memory { buffers: Vec::new(), next: GLOBAL_BASE }
    }

    /// Adds a buffer and returns its address (a multiple of 512). Buffers are at least 1 MiB apart, so an
    /// index that is off by less than that hits no other buffer.
    pub fn alloc(&mut self, name: &str, init: Init) -> u64 {
        let (bytes, written) = match init {
            Init::Bytes(b) => {
                let n = b.len();
                (b, Bits::new(n, true))
            }
            Init::Uninit(n) => (vec![0xAA; n], Bits::new(n, false)),
            Init::Zeroed(n) => (vec![0; n], Bits::new(n, true)),
        };
        let base = self.next.max(GLOBAL_BASE);
        self.next = (base + bytes.len() as u64 + GUARD).next_multiple_of(BUFFER_ALIGN);
        self.buffers.push(Buffer { name: name.to_string(), base, bytes, written, read_only: false, constant: false });
        base
    }

    /// Makes every kernel write to the buffer that contains `addr` an error.
    ///
    /// # Errors
    /// When no buffer contains `addr`.
    pub fn set_read_only(&mut self, addr: u64) -> Result<(), MemoryError> {
        let (i, _) = self.locate(addr, 0)?;
        self.buffers[i].read_only = true;
        Ok(())
    }

    /// Bytes `addr .. addr + len`.
    ///
    /// # Errors
    /// When the range leaves a buffer, or a byte in it was never written.
    pub fn read(&self, addr: u64, len: usize) -> Result<&[u8], MemoryError> {
        let (i, off) = self.locate(addr, len)?;
        let b = &self.buffers[i];
        if let Some(k) = b.written.first_clear(off, len) {
            return Err(MemoryError(format!("byte {k} of `{}` was never written", b.name)));
        }
        Ok(&b.bytes[off..off + len])
    }

    /// Bytes `addr .. addr + len` whether written or not; unwritten bytes read as 0xAA.
    ///
    /// # Errors
    /// When the range leaves a buffer.
    pub fn read_unchecked(&self, addr: u64, len: usize) -> Result<&[u8], MemoryError> {
        let (i, off) = self.locate(addr, len)?;
        Ok(&self.buffers[i].bytes[off..off + len])
    }

    /// Host write (allowed on read-only buffers: those are read-only for kernels).
    ///
    /// # Errors
    /// When the range leaves a buffer.
    pub fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (i, off) = self.locate(addr, data.len())?;
        let b = &mut self.buffers[i];
        b.bytes[off..off + data.len()].copy_from_slice(data);
        b.written.fill(off, data.len());
        Ok(())
    }

    /// Host view of one byte range's state: true when every byte has been written.
    ///
    /// # Errors
    /// When the range leaves a buffer.
    pub fn is_written(&self, addr: u64, len: usize) -> Result<bool, MemoryError> {
        let (i, off) = self.locate(addr, len)?;
        Ok(self.buffers[i].written.first_clear(off, len).is_none())
    }

    /// Copies those of the bytes from `addr` on that have been written; the others of `into` stay.
    ///
    /// # Errors
    /// When the range leaves a buffer.
    pub fn copy_written(&self, addr: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        let (i, off) = self.locate(addr, into.len())?;
        let (b, end) = (&self.buffers[i], off + into.len());
        let mut at = off;
        while let Some(start) = b.written.first(at, end - at, u64::MAX) {
            at = b.written.first_clear(start, end - start).unwrap_or(end);
            into[start - off..at - off].copy_from_slice(&b.bytes[start..at]);
        }
        Ok(())
    }

    /// Address of a module variable, placing it when it is not there yet.
    pub(crate) fn module_variable(&mut self, v: &crate::text::ast::Var) -> u64 {
        let name = format!("module variable {}", v.name);
        if let Some(b) = self.buffers.iter().find(|b| b.name == name) {
            return b.base;
        }
        // PTX: variables without an initialiser are zero.
        let mut bytes = v.init.clone();
        bytes.resize(v.bytes.unwrap_or(0) as usize, 0);
        let a = self.alloc(&name, Init::Bytes(bytes));
        if v.space == crate::types::Space::Const
            && let Some(b) = self.buffers.last_mut()
        {
            (b.read_only, b.constant) = (true, true);
        }
        a
    }

    fn locate(&self, addr: u64, len: usize) -> Result<(usize, usize), MemoryError> {
        match self.find(addr) {
            Some((i, off)) if off + len <= self.buffers[i].bytes.len() => Ok((i, off)),
            _ => Err(MemoryError(format!("{len} bytes at {addr:#x}: {}", self.nearest(addr, len as u64)))),
        }
    }

    /// Buffer index and offset of `addr`, if some buffer starts at or before it and reaches it.
    pub(crate) fn find(&self, addr: u64) -> Option<(usize, usize)> {
        let i = self.buffers.partition_point(|b| b.base <= addr).checked_sub(1)?;
        let off = (addr - self.buffers[i].base) as usize;
        (off < self.buffers[i].bytes.len() || (off == 0 && self.buffers[i].bytes.is_empty())).then_some((i, off))
    }

    /// Describes where `addr .. addr + len` lies relative to the nearest buffer.
    pub(crate) fn nearest(&self, addr: u64, len: u64) -> String {
        let dist = |b: &Buffer| {
            let end = b.base + b.bytes.len() as u64;
            if addr < b.base { b.base - addr } else { addr.saturating_add(len).saturating_sub(end) }
        };
        match self.buffers.iter().min_by_key(|b| dist(b)) {
            None => "there is no buffer".to_string(),
            Some(b) => {
                let n = b.bytes.len();
                let off = addr as i128 - i128::from(b.base);
                if addr < b.base {
                    format!("{} bytes before buffer `{}` ({n} bytes)", -off, b.name)
                } else {
                    format!("offset {off} of buffer `{}` ({n} bytes), {} bytes past its end", b.name, dist(b))
                }
            }
        }
    }
}

/// The shared window of one CTA.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) bytes: Vec<u8>,
    pub(crate) written: Bits,
    pub(crate) poison: Bits,
}

impl Shared {
    pub(crate) fn new(len: usize) -> Shared {
        Shared { bytes: vec![0xAA; len], written: Bits::new(len, false), poison: Bits::new(len, false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_against_bools() {
        let mut b = Bits::new(300, false);
        let mut v = vec![false; 300];
        let mut s = 5u64;
        for _ in 0..2000 {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1);
            let at = (s >> 33) as usize % 280;
            let n = 1 + (s >> 20) as u32 % 20;
            b.set(at, n, s >> 50 & 1 == 1);
            v[at..at + n as usize].fill(s >> 50 & 1 == 1);
            let q = (s >> 40) as usize % 280;
            let want = (0..20).fold(0u32, |m, i| m | u32::from(v[q + i]) << i);
            assert_eq!(b.get(q, 20), want);
            let clear = (q..300).find(|&i| !v[i]);
            assert_eq!(b.first_clear(q, 300 - q), clear);
        }
    }

    #[test]
    fn host_access() {
        let mut m = Memory::new();
        let a = m.alloc("a", Init::Bytes(vec![1, 2, 3]));
        let b = m.alloc("b", Init::Uninit(8));
        assert_eq!(m.read(a + 1, 2), Ok(&[2u8, 3][..]));
        assert!(m.read(a + 2, 2).is_err());
        assert!(m.read(b, 1).is_err());
        m.write(b + 4, &[9; 4]).unwrap();
        assert_eq!(m.is_written(b, 8), Ok(false));
        assert_eq!(m.is_written(b + 4, 4), Ok(true));
        let mut host = [7; 8];
        m.copy_written(b, &mut host).unwrap();
        assert_eq!(host[..4], [7; 4]);
        assert_eq!(host[4..], *m.read(b + 4, 4).unwrap());
        assert!(m.nearest(b + 10, 4).contains("`b`"));
    }
}
