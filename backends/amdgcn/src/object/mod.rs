//! Code objects: the ELF file that HIP loads.
//!
//! ```text
//! read      header, segments, .note (metadata), .dynsym, .gnu.hash, .hash, .dynstr, .rodata (descriptor)
//! execute   .text
//! write     .dynamic
//! -         .symtab, .strtab, .shstrtab, table of sections
//! ```
//!
//! Up to `.dynamic` all bytes behind the header are those that LLVM's linker writes, tested so: no loader of AMD's is at hand.

mod bytes;
mod descriptor;
mod elf;
mod hash;
mod msgpack;

use crate::chip::Chip;
use crate::encode::Code;
use crate::kernel::metadata;
use crate::mir::Program;
use bytes::Bytes;
use elf::{HEADER, PAGE, SEGMENT, SYMBOL, Section, Segment, Symbol, section, segment, symbol};

const SEGMENTS: u64 = 8;
/// The sections' places in their table.
const DYNSYM: u32 = 2;
const DYNSTR: u32 = 5;
const RODATA: u16 = 6;
const TEXT: u16 = 7;
const DYNAMIC: u16 = 8;
const STRTAB: u32 = 10;
const DESCRIPTOR_ALIGN: u64 = 64;
const CODE_ALIGN: u64 = 256;

/// The chip, with any setting of what can be switched (`xnack`, `sramecc`).
fn flags(chip: Chip) -> u32 {
    match chip {
        Chip::Gfx90a => 0x53f,
        Chip::Gfx942 => 0x54c,
        Chip::Gfx950 => 0x54f,
    }
}

/// A run of bytes in the file, and where it is loaded.
#[derive(Clone, Copy)]
struct LoadedBytes {
    offset: u64,
    address: u64,
    size: u64,
}

/// Hands out places one behind the other.
struct Layout {
    offset: u64,
    address: u64,
}

impl Layout {
    fn place(&mut self, size: usize, align: u64) -> LoadedBytes {
        let address = self.address.next_multiple_of(align);
        let offset = self.offset + (address - self.address);
        let size = size as u64;
        (self.offset, self.address) = (offset + size, address + size);
        LoadedBytes { offset, address, size }
    }

    /// What comes is in pages of its own, at the same place within a page as in the file.
    fn next_segment(&mut self) {
        self.address = self.address.next_multiple_of(PAGE) + self.address % PAGE;
    }
}

/// The code object of a program and its machine code.
pub fn write(program: &Program, code: &Code) -> Vec<u8> {
    let note = note(program);
    let names = [program.name.clone(), format!("{}.kd", program.name)];
    let names = [names[0].as_str(), names[1].as_str()];
    let (dynstr, starts) = elf::strings(&names);
    let (gnu, sysv) = (hash::gnu(&names), hash::sysv(&names));

    let mut layout = Layout { offset: HEADER + SEGMENTS * SEGMENT, address: HEADER + SEGMENTS * SEGMENT };
    let note_run = layout.place(note.len(), 4);
    let dynsym_run = layout.place(3 * SYMBOL as usize, 8);
    let gnu_run = layout.place(gnu.len(), 8);
    let sysv_run = layout.place(sysv.len(), 4);
    let dynstr_run = layout.place(dynstr.len(), 1);
    let rodata_run = layout.place(64, DESCRIPTOR_ALIGN);
    layout.next_segment();
    let text_run = layout.place(code.bytes.len(), CODE_ALIGN);
    layout.next_segment();
    let dynamic = dynamic(dynsym_run, dynstr_run, gnu_run, sysv_run);
    let dynamic_run = layout.place(dynamic.len(), 8);

    let own = own_symbols(&starts, text_run, rodata_run);
    let dynsym = elf::symbols(&own);
    let (strtab, starts) = elf::strings(&["_DYNAMIC", names[0], names[1]]);
    let mut all = vec![Symbol {
        name: starts[0],
        info: symbol::LOCAL,
        visibility: symbol::HIDDEN,
        section: DYNAMIC,
        value: dynamic_run.address,
        size: 0,
    }];
    all.extend(own_symbols(&starts[1..], text_run, rodata_run));
    let symtab = elf::symbols(&all);

    let loaded = [
        (note_run, note),
        (dynsym_run, dynsym),
        (gnu_run, gnu),
        (sysv_run, sysv),
        (dynstr_run, dynstr),
        (rodata_run, descriptor::descriptor(program, text_run.address - rodata_run.address)),
        (text_run, code.bytes.clone()),
        (dynamic_run, dynamic),
    ];
    let mut file = Bytes::default();
    file.zeros_to(HEADER);
    file.bytes(&elf::segments(&segments(note_run, rodata_run, text_run, dynamic_run)));
    for (run, bytes) in &loaded {
        file.zeros_to(run.offset).bytes(bytes);
    }

    let runs = loaded.map(|(run, _)| run);
    finish(file, sections(&runs), symtab, strtab, flags(program.chip))
}

/// Writes what is not loaded, and the header.
fn finish(mut file: Bytes, mut sections: Vec<Section>, symtab: Vec<u8>, strtab: Vec<u8>, flags: u32) -> Vec<u8> {
    let end = |file: &Bytes| file.0.len() as u64;
    file.zeros_to(end(&file).next_multiple_of(8));
    let symbols = Section { name: ".symtab", kind: section::SYMBOLS, link: STRTAB, info: 2, align: 8, entry: SYMBOL, ..Section::default() };
    sections.push(Section { offset: end(&file), size: symtab.len() as u64, ..symbols });
    file.bytes(&symtab);
    let strings = Section { name: ".strtab", kind: section::STRINGS, align: 1, ..Section::default() };
    sections.push(Section { offset: end(&file), size: strtab.len() as u64, ..strings });
    file.bytes(&strtab);
    let names: Vec<&str> = sections.iter().map(|s| s.name).chain([".shstrtab"]).skip(1).collect();
    let (shstrtab, mut starts) = elf::strings(&names);
    starts.insert(0, 0);
    sections.push(Section { name: ".shstrtab", offset: end(&file), size: shstrtab.len() as u64, ..strings });
    file.bytes(&shstrtab);
    file.zeros_to(end(&file).next_multiple_of(8));
    let header = elf::header(flags, SEGMENTS as usize, end(&file), sections.len());
    file.bytes(&elf::sections(&sections, &starts));
    file.0.splice(..header.len(), header);
    file.0
}

/// The kernel and its descriptor.
fn own_symbols(starts: &[u32], text: LoadedBytes, rodata: LoadedBytes) -> [Symbol; 2] {
    let of = |name: u32, info: u8, section: u16, run: LoadedBytes| Symbol {
        name,
        info,
        visibility: symbol::PROTECTED,
        section,
        value: run.address,
        size: run.size,
    };
    [of(starts[0], symbol::GLOBAL_FUNCTION, TEXT, text), of(starts[1], symbol::GLOBAL_OBJECT, RODATA, rodata)]
}

/// The note with the metadata.
fn note(program: &Program) -> Vec<u8> {
    const METADATA: u32 = 32;
    const OWNER: &[u8] = b"AMDGPU\0";
    let packed = msgpack::pack(&metadata(program));
    let mut out = Bytes::default();
    out.u32(&[OWNER.len() as u32, packed.len() as u32, METADATA]).bytes(OWNER).zeros_to(20).bytes(&packed);
    let end = out.0.len().next_multiple_of(4);
    out.zeros_to(end as u64);
    out.0
}

/// Where the loader finds symbols, strings and hash tables.
fn dynamic(dynsym: LoadedBytes, dynstr: LoadedBytes, gnu: LoadedBytes, sysv: LoadedBytes) -> Vec<u8> {
    const END: u64 = 0;
    const HASH: u64 = 4;
    const STRINGS: u64 = 5;
    const SYMBOLS: u64 = 6;
    const STRINGS_SIZE: u64 = 10;
    const SYMBOL_SIZE: u64 = 11;
    const GNU_HASH: u64 = 0x6fff_fef5;
    let mut out = Bytes::default();
    out.u64(&[SYMBOLS, dynsym.address, SYMBOL_SIZE, SYMBOL, STRINGS, dynstr.address, STRINGS_SIZE, dynstr.size]);
    out.u64(&[GNU_HASH, gnu.address, HASH, sysv.address, END, 0]);
    out.0
}

fn segments(note: LoadedBytes, rodata: LoadedBytes, text: LoadedBytes, dynamic: LoadedBytes) -> Vec<Segment> {
    use segment::{DYNAMIC, EXECUTE, HEADERS, LOAD, NOTE, READ, RELRO, STACK, WRITE};
    let of = |kind, flags, run: LoadedBytes, memory_size, align| Segment {
        kind,
        flags,
        offset: run.offset,
        address: run.address,
        file_size: run.size,
        memory_size,
        align,
    };
    let headers = LoadedBytes { offset: HEADER, address: HEADER, size: SEGMENTS * SEGMENT };
    let start = LoadedBytes { offset: 0, address: 0, size: rodata.offset + rodata.size };
    let nothing = LoadedBytes { offset: 0, address: 0, size: 0 };
    let rest_of_page =
        dynamic.address.next_multiple_of(PAGE).max((dynamic.address + dynamic.size).next_multiple_of(PAGE)) - dynamic.address;
    vec![
        of(HEADERS, READ, headers, headers.size, 8),
        of(LOAD, READ, start, start.size, PAGE),
        of(LOAD, READ | EXECUTE, text, text.size, PAGE),
        of(LOAD, READ | WRITE, dynamic, rest_of_page, PAGE),
        of(DYNAMIC, READ | WRITE, dynamic, dynamic.size, 8),
        of(RELRO, READ, dynamic, rest_of_page, 1),
        of(STACK, READ | WRITE, nothing, 0, 0),
        of(NOTE, READ, note, note.size, 4),
    ]
}

/// The rows of what is loaded, behind the empty first one.
fn sections(runs: &[LoadedBytes; 8]) -> Vec<Section> {
    use section::{ALLOCATE, BITS, DYNAMIC, DYNAMIC_SYMBOLS, EXECUTE, GNU_HASH, HASH, NOTE, STRINGS, WRITE};
    let read = |name, kind, align| Section { name, kind, align, flags: ALLOCATE, ..Section::default() };
    let rows = [
        read(".note", NOTE, 4),
        Section { link: DYNSTR, info: 1, entry: SYMBOL, ..read(".dynsym", DYNAMIC_SYMBOLS, 8) },
        Section { link: DYNSYM, ..read(".gnu.hash", GNU_HASH, 8) },
        Section { link: DYNSYM, entry: 4, ..read(".hash", HASH, 4) },
        read(".dynstr", STRINGS, 1),
        read(".rodata", BITS, DESCRIPTOR_ALIGN),
        Section { flags: ALLOCATE | EXECUTE, ..read(".text", BITS, CODE_ALIGN) },
        Section { flags: ALLOCATE | WRITE, link: DYNSTR, entry: 16, ..read(".dynamic", DYNAMIC, 8) },
    ];
    let placed = rows.into_iter().zip(runs).map(|(row, run)| Section { address: run.address, offset: run.offset, size: run.size, ..row });
    [Section::default()].into_iter().chain(placed).collect()
}
