//! The frame of an ELF file of 64 bits: header, segments, sections, symbols.

use super::bytes::Bytes;

pub(super) const HEADER: u64 = 64;
pub(super) const SEGMENT: u64 = 56;
const SECTION: u64 = 64;
pub(super) const SYMBOL: u64 = 24;
/// Segments are mapped in pages of so many bytes.
pub(super) const PAGE: u64 = 4096;

/// A part of the file that is loaded, or of a meaning.
pub(super) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

pub(super) mod segment {
    pub const LOAD: u32 = 1;
    pub const DYNAMIC: u32 = 2;
    pub const NOTE: u32 = 4;
    pub const HEADERS: u32 = 6;
    pub const STACK: u32 = 0x6474_e551;
    pub const RELRO: u32 = 0x6474_e552;
    pub const EXECUTE: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const READ: u32 = 4;
}

/// A section's row in the table at the end of the file.
#[derive(Clone, Copy, Default)]
pub(super) struct Section {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry: u64,
}

pub(super) mod section {
    pub const BITS: u32 = 1;
    pub const SYMBOLS: u32 = 2;
    pub const STRINGS: u32 = 3;
    pub const HASH: u32 = 5;
    pub const DYNAMIC: u32 = 6;
    pub const NOTE: u32 = 7;
    pub const DYNAMIC_SYMBOLS: u32 = 11;
    pub const GNU_HASH: u32 = 0x6fff_fff6;
    pub const WRITE: u64 = 1;
    pub const ALLOCATE: u64 = 2;
    pub const EXECUTE: u64 = 4;
}

/// A symbol.
pub(super) struct Symbol {
    /// Where its name stands among the strings.
    pub name: u32,
    /// Binding in the upper half, kind in the lower.
    pub info: u8,
    pub visibility: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

pub(super) mod symbol {
    pub const LOCAL: u8 = 0;
    pub const GLOBAL_OBJECT: u8 = 0x11;
    pub const GLOBAL_FUNCTION: u8 = 0x12;
    pub const HIDDEN: u8 = 2;
    pub const PROTECTED: u8 = 3;
}

/// A symbol table: the first one has no name.
pub(super) fn symbols(symbols: &[Symbol]) -> Vec<u8> {
    let mut out = Bytes::default();
    out.zeros_to(SYMBOL);
    for s in symbols {
        out.u32(&[s.name]).bytes(&[s.info, s.visibility]).u16(&[s.section]).u64(&[s.value, s.size]);
    }
    out.0
}

/// Strings, each with a zero behind it, and where each begins.
pub(super) fn strings(list: &[&str]) -> (Vec<u8>, Vec<u32>) {
    let mut out = vec![0];
    let starts = list
        .iter()
        .map(|text| {
            let start = out.len() as u32;
            out.extend(text.bytes().chain([0]));
            start
        })
        .collect();
    (out, starts)
}

/// The file's header: a shared object of AMD's HSA, code object version 5.
pub(super) fn header(flags: u32, segments: usize, section_table: u64, sections: usize) -> Vec<u8> {
    const MAGIC: [u8; 9] = [0x7f, b'E', b'L', b'F', 2, 1, 1, HSA, VERSION_5];
    const HSA: u8 = 64;
    const VERSION_5: u8 = 3;
    const SHARED: u16 = 3;
    const AMDGPU: u16 = 224;
    let mut out = Bytes::default();
    out.bytes(&MAGIC).zeros_to(16);
    out.u16(&[SHARED, AMDGPU]).u32(&[1]).u64(&[0, HEADER, section_table]).u32(&[flags]);
    // The last section has the names of sections.
    out.u16(&[HEADER as u16, SEGMENT as u16, segments as u16, SECTION as u16, sections as u16, sections as u16 - 1]);
    out.0
}

pub(super) fn segments(list: &[Segment]) -> Vec<u8> {
    let mut out = Bytes::default();
    for s in list {
        out.u32(&[s.kind, s.flags]).u64(&[s.offset, s.address, s.address, s.file_size, s.memory_size, s.align]);
    }
    out.0
}

/// The table of sections, whose names begin there among the strings.
pub(super) fn sections(list: &[Section], names: &[u32]) -> Vec<u8> {
    let mut out = Bytes::default();
    for (s, &name) in list.iter().zip(names) {
        out.u32(&[name, s.kind]).u64(&[s.flags, s.address, s.offset, s.size]).u32(&[s.link, s.info]).u64(&[s.align, s.entry]);
    }
    out.0
}
