//! What a file holds that is to be run: a text, a code object, or neither.

use std::fmt;
use tilelift_amdgcn_sim::{LoadError, Module};

/// Most bytes of a text or code object.
pub const MAX_CODE: u64 = 1 << 26;

/// Code that a simulator runs.
#[derive(Clone, Debug)]
pub enum Code {
    /// PTX text, not parsed yet.
    Ptx(String),
    /// A code object for an AMD chip.
    Object(Module),
}

/// Why bytes are no code that a simulator runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoCode {
    /// Assembly for an AMD chip.
    Assembly,
    /// An ELF file that is no code object for a chip that is simulated.
    Object(LoadError),
    /// A CUDA binary.
    Cubin,
    /// Several objects in one file, as compilers of HIP write them.
    Bundle,
    /// Bytes that are neither text nor an ELF file.
    Unknown,
    /// A text that is no PTX.
    Text,
}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCode::Assembly => f.write_str(
                "is assembly for an AMD chip, and the simulator runs what the chip runs: assemble it (llvm-mc -triple=amdgcn-amd-amdhsa \
                 -mcpu=gfx942 -filetype=obj), link it (ld.lld -shared), and name the linked object; of a `.tile` file, \
                 `tilelift compile --target gfx942 --emit object` makes one",
            ),
            NoCode::Object(e @ LoadError::NotLinked { .. }) => write!(f, "does not run: {e}; link it with `ld.lld -shared`"),
            NoCode::Object(e @ LoadError::UnknownChip { .. }) => write!(f, "does not run: {e}; these are gfx90a, gfx942 and gfx950"),
            NoCode::Object(
                e @ (LoadError::NotElf
                | LoadError::NotAmdgpu { .. }
                | LoadError::Truncated(_)
                | LoadError::BadDescriptor { .. }
                | LoadError::SplitWorkgroups { .. }
                | LoadError::BadEntry { .. }),
            ) => write!(f, "does not run: {e}"),
            NoCode::Cubin => f.write_str("is a CUDA binary; the simulator of NVIDIA chips runs PTX text"),
            NoCode::Bundle => {
                f.write_str("holds several objects; take the one of the chip out with `clang-offload-bundler --unbundle`, and name that")
            }
            NoCode::Unknown => f.write_str("is neither PTX text nor a code object of an AMD chip"),
            NoCode::Text => f.write_str("is a text without `.version` and `.target`, so no PTX; code objects of AMD chips run, too"),
        }
    }
}

impl std::error::Error for NoCode {}

/// The machine number of CUDA binaries.
const CUDA: u16 = 190;

impl Code {
    /// Tells what the bytes are, by themselves.
    ///
    /// # Errors
    /// [`NoCode`].
    pub fn of(bytes: Vec<u8>) -> Result<Code, NoCode> {
        if bytes.starts_with(b"\x7fELF") {
            return match Module::load(&bytes) {
                Ok(module) => Ok(Code::Object(module)),
                Err(LoadError::NotAmdgpu { machine: CUDA, .. }) => Err(NoCode::Cubin),
                Err(e) => Err(NoCode::Object(e)),
            };
        }
        if bytes.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") || bytes.starts_with(b"CCOB") {
            return Err(NoCode::Bundle);
        }
        let Ok(text) = String::from_utf8(bytes) else { return Err(NoCode::Unknown) };
        let begins = |word: &str| text.lines().any(|l| l.trim_start().starts_with(word));
        if begins(".amdgcn_target") || begins(".amdhsa_") {
            return Err(NoCode::Assembly);
        }
        if begins(".version") || begins(".target") { Ok(Code::Ptx(text)) } else { Err(NoCode::Text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_run_is_told_apart() {
        let why = |bytes: &[u8]| Code::of(bytes.to_vec()).err();
        assert_eq!(why(b"\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n"), Some(NoCode::Assembly));
        assert_eq!(why(b"__CLANG_OFFLOAD_BUNDLE__...."), Some(NoCode::Bundle));
        assert_eq!(why(&[0xff, 0xfe, 0, 1]), Some(NoCode::Unknown));
        assert_eq!(why(b"kernel @k() {}"), Some(NoCode::Text));
        assert_eq!(why(b"\x7fELF"), Some(NoCode::Object(LoadError::Truncated("ELF header"))));
        let elf = |machine: u8, system: u8, kind: u8| {
            let mut elf = vec![0u8; 64];
            elf[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, system]);
            (elf[16], elf[18]) = (kind, machine);
            elf
        };
        assert_eq!(why(&elf(190, 51, 2)), Some(NoCode::Cubin));
        assert_eq!(why(&elf(224, 64, 1)), Some(NoCode::Object(LoadError::NotLinked { kind: 1 })));
        assert_eq!(why(&elf(224, 64, 3)), Some(NoCode::Object(LoadError::UnknownChip { flags: 0 })));
        assert!(matches!(Code::of(b"// PTX\n.version 8.0\n.target sm_80\n".to_vec()), Ok(Code::Ptx(_))));
    }
}
