//! The LDS of a workgroup: bytes, which of them are defined, and who touched them when.
//!
//! Time is counted in epochs: the number of barriers that the workgroup has passed. An access counts as done in the epoch in which
//! its wave waited for it. Two accesses of different waves, one of them a write, are ordered if the first was done in an
//! earlier epoch than the second was issued in. Two writes of the same byte are no race if they write the same value.

use crate::fault::{FaultKind, Shared};
use rustc_hash::FxHashMap;

/// Who touched a dword, or a byte.
#[derive(Clone, Copy, Default, Debug)]
struct Cell {
    /// The wave that wrote last, plus one, and the epoch in which that was done.
    writer: u8,
    write_epoch: u32,
    write_atomic: bool,
    /// The wave with a write in flight, plus one, and how many.
    pending_writer: u8,
    pending_writes: u8,
    pending_atomic: bool,
    /// The wave that read last, plus one, or [`MANY`].
    reader: u8,
    read_epoch: u32,
    pending_reads: u8,
    /// A load to LDS is on its way.
    filling: bool,
}

const MANY: u8 = 255;

/// How an instruction touches LDS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
    /// By a load from memory to LDS.
    Fill,
}

/// A range of bytes that an instruction in flight touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub address: u32,
    pub len: u16,
    pub touch: Touch,
}

/// Cells of dwords; a dword whose bytes have been accessed apart has one per byte.
#[derive(Clone, Debug)]
struct Cells {
    dwords: Vec<Cell>,
    split: FxHashMap<usize, [Cell; 4]>,
}

impl Cells {
    /// Calls `f` with each cell of a range, the first byte that it stands for, and how many.
    fn each<E>(&mut self, address: u32, len: u16, mut f: impl FnMut(&mut Cell, usize, usize) -> Result<(), E>) -> Result<(), E> {
        let (mut at, end) = (address as usize, address as usize + usize::from(len));
        while at < end {
            let dword = at / 4;
            let here = (end - at).min(4 - at % 4);
            if here == 4 && (self.split.is_empty() || !self.split.contains_key(&dword)) {
                f(&mut self.dwords[dword], at, 4)?;
            } else {
                let whole = self.dwords[dword];
                let bytes = self.split.entry(dword).or_insert([whole; 4]);
                for i in at..at + here {
                    f(&mut bytes[i % 4], i, 1)?;
                }
            }
            at += here;
        }
        Ok(())
    }
}

/// The LDS of a workgroup.
#[derive(Clone, Debug)]
pub(crate) struct Lds {
    pub bytes: Vec<u8>,
    defined: Vec<bool>,
    cells: Cells,
    pub epoch: u32,
}

impl Lds {
    pub fn new(len: usize) -> Lds {
        Lds {
            bytes: vec![0xcd; len],
            defined: vec![false; len],
            cells: Cells { dwords: vec![Cell::default(); len.div_ceil(4)], split: FxHashMap::default() },
            epoch: 1,
        }
    }

    pub fn check(&self, address: u64, len: u32, align: u32, lane: u32) -> Result<usize, FaultKind> {
        let available = self.bytes.len() as u32;
        if address + u64::from(len) > u64::from(available) {
            return Err(FaultKind::LdsOutOfBounds { address: address as u32, bytes: len, available, lane });
        }
        if !address.is_multiple_of(u64::from(align)) {
            return Err(FaultKind::Misaligned { address, align, lane: Some(lane) });
        }
        Ok(address as usize)
    }

    pub fn read(&self, at: usize, len: usize) -> (&[u8], bool) {
        (&self.bytes[at..at + len], self.defined[at..at + len].iter().all(|&d| d))
    }

    pub fn write(&mut self, at: usize, data: &[u8], defined: bool) {
        self.bytes[at..at + data.len()].copy_from_slice(data);
        self.defined[at..at + data.len()].fill(defined);
    }

    /// Notes that a wave issues an access; a fault if another access is not ordered with it. `data` is what a plain write writes.
    pub fn issue(&mut self, wave: u32, lane: u32, span: Span, data: &[u8], own_reads: &dyn Fn(u32) -> u8) -> Result<(), FaultKind> {
        let me = wave as u8 + 1;
        let write = span.touch != Touch::Read;
        let (epoch, bytes, defined) = (self.epoch, &self.bytes, &self.defined);
        self.cells.each(span.address, span.len, |c, first, n| {
            let at = first as u32;
            let new = data.get(first - span.address as usize..).and_then(|d| d.get(..n));
            let same = new.is_some_and(|d| defined[first..first + n].iter().all(|&d| d) && bytes[first..first + n] == *d);
            if c.filling {
                return Err(FaultKind::LdsInFlight { address: at, lane });
            }
            let race = |other_write: bool, other_pending: bool, other: u8| {
                Err(FaultKind::Race {
                    memory: Shared::Lds,
                    address: u64::from(at),
                    lane,
                    write,
                    other_write,
                    other_pending,
                    other: (other != MANY && other != 0).then(|| (u32::MAX, u32::from(other) - 1)),
                })
            };
            let atomic = span.touch == Touch::Atomic;
            let foreign = |w: u8| w != 0 && (w != me || span.touch == Touch::Fill);
            if foreign(c.pending_writer) && !(atomic && c.pending_atomic) && !same {
                return race(true, true, c.pending_writer);
            }
            if c.writer != 0 && c.writer != me && c.write_epoch >= epoch && !(atomic && c.write_atomic) && !same {
                return race(true, false, c.writer);
            }
            if write {
                if c.pending_reads > 0 && (span.touch == Touch::Fill || c.pending_reads > own_reads(at)) {
                    return race(false, true, MANY);
                }
                if c.reader != 0 && c.reader != me && c.read_epoch >= epoch {
                    return race(false, false, c.reader);
                }
            }
            match span.touch {
                Touch::Read => c.pending_reads = c.pending_reads.saturating_add(1),
                Touch::Write | Touch::Atomic | Touch::Fill => {
                    c.pending_writer = me;
                    c.pending_writes = c.pending_writes.saturating_add(1);
                    c.pending_atomic = atomic;
                    c.filling = span.touch == Touch::Fill;
                }
            }
            Ok(())
        })
    }

    /// Notes that a wave has waited for an access.
    pub fn complete(&mut self, wave: u32, span: Span) {
        let me = wave as u8 + 1;
        let epoch = self.epoch;
        let _: Result<(), std::convert::Infallible> = self.cells.each(span.address, span.len, |c, _, _| {
            if span.touch == Touch::Read {
                c.pending_reads = c.pending_reads.saturating_sub(1);
                c.reader = if c.reader == 0 || c.reader == me || c.read_epoch < epoch { me } else { MANY };
                c.read_epoch = epoch;
                return Ok(());
            }
            c.pending_writes = c.pending_writes.saturating_sub(1);
            c.filling = false;
            if c.pending_writes == 0 {
                c.pending_writer = 0;
            }
            c.writer = me;
            c.write_epoch = epoch;
            c.write_atomic = span.touch == Touch::Atomic;
            Ok(())
        });
    }
}
