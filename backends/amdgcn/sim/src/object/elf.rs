//! The part of ELF that a code object uses: program headers, the dynamic or static symbol table, notes.
//!
//! The simulator reads linked objects (`ET_DYN`): addresses are those of the program headers.

use super::bytes::{slice, text_at, u16_at, u32_at, u64_at};
use super::error::LoadError;

const MACHINE: u16 = 224;
const OS_HSA: u8 = 64;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
const METADATA: u32 = 32;

/// A piece of the file that is loaded to an address.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// A symbol with a name.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    pub name: String,
    pub value: u64,
}

/// What is needed of the file.
#[derive(Clone, Debug)]
pub(super) struct Elf {
    pub flags: u32,
    pub segments: Vec<Segment>,
    pub symbols: Vec<Symbol>,
    pub metadata: Option<Vec<u8>>,
}

fn range<'a>(bytes: &'a [u8], at: u64, len: u64, what: &'static str) -> Result<&'a [u8], LoadError> {
    slice(bytes, at, len).ok_or(LoadError::Truncated(what))
}

/// What is larger than this in memory, all pieces together, is no kernel.
const MOST: u64 = 1 << 28;

pub(super) fn parse(bytes: &[u8]) -> Result<Elf, LoadError> {
    let head = range(bytes, 0, 64, "ELF header")?;
    if head[..4] != *b"\x7fELF" || head[4] != 2 || head[5] != 1 {
        return Err(LoadError::NotElf);
    }
    let short = LoadError::Truncated("ELF header");
    let machine = u16_at(head, 18).ok_or(short.clone())?;
    if machine != MACHINE || head[7] != OS_HSA {
        return Err(LoadError::NotAmdgpu { machine, os_abi: head[7] });
    }
    let kind = u16_at(head, 16).ok_or(short.clone())?;
    if kind != 3 {
        return Err(LoadError::NotLinked { kind });
    }
    let flags = u32_at(head, 48).ok_or(short.clone())?;
    let (segments, metadata) = segments(bytes, head).ok_or(LoadError::Truncated("program headers"))?;
    let symbols = symbols(bytes, head).ok_or(LoadError::Truncated("symbol table"))?;
    Ok(Elf { flags, segments, symbols, metadata })
}

fn segments(bytes: &[u8], head: &[u8]) -> Option<(Vec<Segment>, Option<Vec<u8>>)> {
    let (at, size, count) = (u64_at(head, 32)?, u64::from(u16_at(head, 54)?), u64::from(u16_at(head, 56)?));
    let (mut segments, mut metadata, mut total) = (Vec::new(), None, 0u64);
    for i in 0..count {
        let h = slice(bytes, at.checked_add(i * size)?, 56)?;
        let (kind, offset, address) = (u32_at(h, 0)?, u64_at(h, 8)?, u64_at(h, 16)?);
        let (in_file, in_memory) = (u64_at(h, 32)?, u64_at(h, 40)?);
        match kind {
            LOAD => {
                let mut data = slice(bytes, offset, in_file)?.to_vec();
                total = total.checked_add(in_memory)?;
                if total > MOST || address.checked_add(in_memory)?.checked_add(MOST).is_none() {
                    return None;
                }
                data.resize(data.len().max(usize::try_from(in_memory).ok()?), 0);
                segments.push(Segment { address, bytes: data });
            }
            NOTE => metadata = metadata.or(note(slice(bytes, offset, in_file)?)),
            _ => {}
        }
    }
    Some((segments, metadata))
}

/// The description of the metadata note.
fn note(mut bytes: &[u8]) -> Option<Vec<u8>> {
    while bytes.len() >= 12 {
        let (name, desc, kind) = (u64::from(u32_at(bytes, 0)?), u64::from(u32_at(bytes, 4)?), u32_at(bytes, 8)?);
        let start = 12 + name.next_multiple_of(4);
        let data = slice(bytes, start, desc)?;
        if kind == METADATA && slice(bytes, 12, name)?.starts_with(b"AMDGPU") {
            return Some(data.to_vec());
        }
        bytes = bytes.get(usize::try_from(start + desc.next_multiple_of(4)).ok()?..)?;
    }
    None
}

fn symbols(bytes: &[u8], head: &[u8]) -> Option<Vec<Symbol>> {
    let (at, size, count) = (u64_at(head, 40)?, u64::from(u16_at(head, 58)?), u64::from(u16_at(head, 60)?));
    let section = |i: u64| slice(bytes, at.checked_add(i.checked_mul(size)?)?, 64);
    let mut symbols: Vec<Symbol> = Vec::new();
    for i in 0..count {
        let s = section(i)?;
        if !matches!(u32_at(s, 4)?, SYMTAB | DYNSYM) {
            continue;
        }
        let table = slice(bytes, u64_at(s, 24)?, u64_at(s, 32)?)?;
        let strings = section(u64::from(u32_at(s, 40)?))?;
        let names = slice(bytes, u64_at(strings, 24)?, u64_at(strings, 32)?)?;
        for entry in table.chunks_exact(24) {
            let name = text_at(names, u64::from(u32_at(entry, 0)?)).unwrap_or_default();
            if name.is_empty() || u16_at(entry, 6)? == 0 || symbols.iter().any(|s| s.name == name) {
                continue;
            }
            symbols.push(Symbol { name: name.to_owned(), value: u64_at(entry, 8)? });
        }
    }
    Some(symbols)
}
