//! Code objects, as far as the library trusts them: it is given an address without a length, and reads the tables that the ELF header tells of.

use std::fmt;

/// Why a code object can't be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectFault {
    /// The artifact has none: it is for a target whose text a driver assembles.
    Empty,
    /// The bytes are no 64-bit little-endian ELF file for AMD's GPUs.
    Format,
    /// The file ends in front of what its header tells of.
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
            ObjectFault::Truncated => f.write_str("the artifact's code object ends in front of its section headers"),
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

/// A field of the header: its offset and its width in bytes.
struct Field(usize, usize);

const E_MACHINE: Field = Field(18, 2);
const E_SHOFF: Field = Field(40, 8);
const E_FLAGS: Field = Field(48, 4);
const E_SHENTSIZE: Field = Field(58, 2);
const E_SHNUM: Field = Field(60, 2);
/// Bytes of the header.
const HEADER: usize = 64;

/// Whether a code object may be given to the library, for a device of that architecture. A chip without a number here is the library's affair.
pub(super) fn check(object: &[u8], arch: &str) -> Result<(), ObjectFault> {
    if object.is_empty() {
        return Err(ObjectFault::Empty);
    }
    let header = object.get(..HEADER).ok_or(ObjectFault::Format)?;
    let read = |Field(at, width): Field| header[at..at + width].iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    if !header.starts_with(&IDENTITY) || read(E_MACHINE) != MACHINE {
        return Err(ObjectFault::Format);
    }
    // The library takes the end of this table for the end of the file.
    let end = (read(E_SHENTSIZE) * read(E_SHNUM)).checked_add(read(E_SHOFF));
    if end.is_none_or(|end| end > object.len() as u64) {
        return Err(ObjectFault::Truncated);
    }
    let machine = read(E_FLAGS) & CHIP;
    match CHIPS.iter().find(|(name, _)| *name == arch) {
        Some(&(_, number)) if number != machine => Err(ObjectFault::Chip { machine: machine as u32 }),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header and a table of two sections behind it.
    fn object() -> Vec<u8> {
        let mut bytes = vec![0; 64 + 2 * 64];
        bytes[..8].copy_from_slice(&IDENTITY);
        bytes[18..20].copy_from_slice(&224u16.to_le_bytes());
        bytes[40..48].copy_from_slice(&64u64.to_le_bytes());
        bytes[48..52].copy_from_slice(&0x54cu32.to_le_bytes());
        bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
        bytes[60..62].copy_from_slice(&2u16.to_le_bytes());
        bytes
    }

    #[test]
    fn whole_objects_of_the_chip_pass() {
        assert_eq!(check(&object(), "gfx942"), Ok(()));
        assert_eq!(check(&object(), "gfx1100"), Ok(()), "a chip that the table lacks is not judged");
    }

    #[test]
    fn every_fault_has_its_name() {
        let with = |at: usize, byte: u8| {
            let mut bytes = object();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(check(&[], "gfx942"), Err(ObjectFault::Empty));
        assert_eq!(check(b"\x7fELF", "gfx942"), Err(ObjectFault::Format));
        assert_eq!(check(&with(0, b'M'), "gfx942"), Err(ObjectFault::Format));
        assert_eq!(check(&with(4, 1), "gfx942"), Err(ObjectFault::Format), "32 bits");
        assert_eq!(check(&with(18, 62), "gfx942"), Err(ObjectFault::Format), "for the host");
        assert_eq!(check(&object()[..191], "gfx942"), Err(ObjectFault::Truncated));
        assert_eq!(check(&with(47, 0xff), "gfx942"), Err(ObjectFault::Truncated), "the end is past 2^64");
        assert_eq!(check(&object(), "gfx90a"), Err(ObjectFault::Chip { machine: 0x4c }));
    }
}
