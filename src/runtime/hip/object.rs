//! Code objects, as far as the library trusts them: it is given an address without a length, and takes the file for as long as its table of
//! sections says.

use std::fmt;

/// Why a code object can't be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectFault {
    /// The artifact has none: it is for a target whose text a driver assembles.
    Empty,
    /// The bytes are no 64-bit little-endian ELF file for AMD's GPUs.
    Format,
    /// The file has no table of sections, by which the library tells its length.
    NoSections,
    /// The file ends in front of its table of sections, or of what that tells of.
    Truncated,
    /// The code is for another chip than the artifact's target.
    Chip {
        /// The chip's number in the file (`EF_AMDGPU_MACH`).
        machine: u32,
    },
}

impl fmt::Display for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectFault::Empty => f.write_str("the artifact has no code object; compile for a target whose code is encoded here"),
            ObjectFault::Format => f.write_str("the artifact's code object is no ELF file for AMD GPUs"),
            ObjectFault::NoSections => f.write_str("the artifact's code object has no section headers, by which HIP tells its length"),
            ObjectFault::Truncated => f.write_str("the artifact's code object ends in front of its section headers or of a section"),
            ObjectFault::Chip { machine } => {
                write!(f, "the artifact's code object is for another chip (machine {machine:#x}) than its target")
            }
        }
    }
}

impl std::error::Error for ObjectFault {}

/// What the first bytes of a 64-bit little-endian ELF file for the HSA are.
const IDENTITY: [u8; 8] = [0x7f, b'E', b'L', b'F', 2, 1, 1, 64];
/// `EM_AMDGPU`.
const MACHINE: u64 = 224;
/// The bits of the flags that number the chip (`EF_AMDGPU_MACH`).
const CHIP: u64 = 0xff;
/// Numbers of chips in the flags.
const CHIPS: &[(&str, u64)] = &[("gfx90a", 0x3f), ("gfx942", 0x4c), ("gfx950", 0x4f)];

/// A field of a structure: its offset and its width in bytes.
#[derive(Clone, Copy)]
struct Field(usize, usize);

// Of the file's header.
const E_MACHINE: Field = Field(18, 2);
const E_SHOFF: Field = Field(40, 8);
const E_FLAGS: Field = Field(48, 4);
const E_SHENTSIZE: Field = Field(58, 2);
const E_SHNUM: Field = Field(60, 2);
/// Bytes of the header.
const HEADER: usize = 64;

// Of a section's header.
const SH_TYPE: Field = Field(4, 4);
const SH_OFFSET: Field = Field(24, 8);
const SH_SIZE: Field = Field(32, 8);
/// Bytes of a section's header.
const SECTION: usize = 64;
/// The type of a section without bytes in the file (`SHT_NOBITS`).
const NO_BITS: u64 = 8;

/// A field of the structure that begins there; `None` if the file ends in front of it.
fn read(bytes: &[u8], start: u64, Field(offset, width): Field) -> Option<u64> {
    let at = usize::try_from(start).ok()?.checked_add(offset)?;
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
}

/// Whether a code object may be given to the library, for a device of that architecture. A chip without a number here is the library's affair.
pub(super) fn check(object: &[u8], arch: &str) -> Result<(), ObjectFault> {
    if object.is_empty() {
        return Err(ObjectFault::Empty);
    }
    let header = |field| read(object, 0, field).ok_or(ObjectFault::Format);
    if object.len() < HEADER || !object.starts_with(&IDENTITY) || header(E_MACHINE)? != MACHINE {
        return Err(ObjectFault::Format);
    }
    let (table, count) = (header(E_SHOFF)?, header(E_SHNUM)?);
    if table == 0 || count == 0 {
        return Err(ObjectFault::NoSections);
    }
    if header(E_SHENTSIZE)? != SECTION as u64 {
        return Err(ObjectFault::Format);
    }
    if !(0..count).all(|n| section_is_whole(object, table.saturating_add(n * SECTION as u64)).unwrap_or(false)) {
        return Err(ObjectFault::Truncated);
    }
    let machine = header(E_FLAGS)? & CHIP;
    match CHIPS.iter().find(|(name, _)| *name == arch) {
        Some(&(_, number)) if number != machine => Err(ObjectFault::Chip { machine: machine as u32 }),
        Some(_) | None => Ok(()),
    }
}

/// True if the section whose header begins there lies in the file; `None` if the header itself does not.
fn section_is_whole(object: &[u8], header: u64) -> Option<bool> {
    let field = |field| read(object, header, field);
    object.get(usize::try_from(header).ok()?..)?.get(..SECTION)?;
    let bytes = if field(SH_TYPE)? == NO_BITS { 0 } else { field(SH_SIZE)? };
    Some(field(SH_OFFSET)?.checked_add(bytes)? <= object.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, 16 bytes, and a table of two sections: none, and those bytes.
    fn object() -> Vec<u8> {
        let mut bytes = vec![0; 64 + 16 + 2 * 64];
        bytes[..8].copy_from_slice(&IDENTITY);
        bytes[18..20].copy_from_slice(&224u16.to_le_bytes());
        bytes[40..48].copy_from_slice(&80u64.to_le_bytes());
        bytes[48..52].copy_from_slice(&0x54cu32.to_le_bytes());
        bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
        bytes[60..62].copy_from_slice(&2u16.to_le_bytes());
        bytes[144 + 4] = 1;
        bytes[144 + 24] = 64;
        bytes[144 + 32] = 16;
        bytes
    }

    fn with(at: usize, byte: u8) -> Vec<u8> {
        let mut bytes = object();
        bytes[at] = byte;
        bytes
    }

    #[test]
    fn whole_objects_of_the_chip_pass() {
        assert_eq!(check(&object(), "gfx942"), Ok(()));
        assert_eq!(check(&object(), "gfx1100"), Ok(()), "a chip that the table lacks is not judged");
        assert_eq!(check(&with(144 + 32, 144), "gfx942"), Ok(()), "to the end");
    }

    #[test]
    fn every_fault_has_its_name() {
        let fault = |bytes: &[u8]| check(bytes, "gfx942").err();
        assert_eq!(fault(&[]), Some(ObjectFault::Empty));
        assert_eq!(fault(b"\x7fELF"), Some(ObjectFault::Format));
        assert_eq!(fault(&object()[..63]), Some(ObjectFault::Format));
        assert_eq!(fault(&with(0, b'M')), Some(ObjectFault::Format));
        assert_eq!(fault(&with(4, 1)), Some(ObjectFault::Format), "32 bits");
        assert_eq!(fault(&with(18, 62)), Some(ObjectFault::Format), "for the host");
        assert_eq!(fault(&with(58, 40)), Some(ObjectFault::Format), "section headers of another size");
        assert_eq!(fault(&with(40, 0)), Some(ObjectFault::NoSections));
        assert_eq!(fault(&with(60, 0)), Some(ObjectFault::NoSections));
        assert_eq!(check(&object(), "gfx90a"), Err(ObjectFault::Chip { machine: 0x4c }));
    }

    #[test]
    fn what_ends_too_early_is_refused() {
        let fault = |bytes: &[u8]| check(bytes, "gfx942").err();
        for end in 64..object().len() {
            assert_eq!(fault(&object()[..end]), Some(ObjectFault::Truncated), "{end}");
        }
        assert_eq!(fault(&with(47, 0xff)), Some(ObjectFault::Truncated), "the table begins past 2^63");
        assert_eq!(fault(&with(144 + 31, 0xff)), Some(ObjectFault::Truncated), "a section begins past 2^63");
        assert_eq!(fault(&with(144 + 32, 145)), Some(ObjectFault::Truncated), "a section ends a byte late");
        let mut zeroed = with(144 + 32, 145);
        zeroed[144 + 4] = NO_BITS as u8;
        assert_eq!(fault(&zeroed), None, "zeros take no bytes of the file");
    }
}
