//! Why bytes do not load.

use std::fmt;

/// Why bytes are no code object that can be simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// Not a little-endian 64-bit ELF file.
    NotElf,
    /// An ELF file of another machine.
    NotAmdgpu {
        /// The machine number.
        machine: u16,
        /// The operating-system number.
        os_abi: u8,
    },
    /// An object before linking.
    NotLinked {
        /// The type of ELF file.
        kind: u16,
    },
    /// A chip that is not simulated.
    UnknownChip {
        /// The flags of the file.
        flags: u32,
    },
    /// A part that points outside the file.
    Truncated(&'static str),
    /// A descriptor that is not in the loaded bytes or contradicts itself.
    BadDescriptor {
        /// The kernel.
        kernel: String,
    },
    /// A kernel whose workgroups may be split over compute units (`tg_split`), where nothing keeps accesses in order.
    SplitWorkgroups {
        /// The kernel.
        kernel: String,
    },
    /// The entry of a kernel is not in the loaded bytes.
    BadEntry {
        /// The kernel.
        kernel: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NotElf => f.write_str("not a 64-bit little-endian ELF file"),
            LoadError::NotAmdgpu { machine, os_abi } => write!(f, "an ELF file of machine {machine}, system {os_abi}, not amdgcn on HSA"),
            LoadError::NotLinked { kind } => write!(f, "an ELF file of type {kind}; only linked code objects (3) run"),
            LoadError::UnknownChip { flags } => write!(f, "the flags {flags:#x} name no chip that is simulated"),
            LoadError::Truncated(what) => write!(f, "the {what} points outside the file"),
            LoadError::BadDescriptor { kernel } => write!(f, "the descriptor of kernel `{kernel}` is missing or contradicts itself"),
            LoadError::SplitWorkgroups { kernel } => {
                write!(
                    f,
                    "workgroups of kernel `{kernel}` may be split over compute units, which is not simulated; assemble it without `.amdhsa_tg_split 1`"
                )
            }
            LoadError::BadEntry { kernel } => write!(f, "the entry of kernel `{kernel}` is outside the code"),
        }
    }
}

impl std::error::Error for LoadError {}
