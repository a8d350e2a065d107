//! Loading: an ELF code object becomes a [`Module`] of kernels with their descriptors, arguments and machine code.
//!
//! Every byte may be anything; what is wrong with them is a [`LoadError`].

mod bytes;
mod descriptor;
mod elf;
mod error;
mod msgpack;

pub use descriptor::Descriptor;
pub use error::LoadError;

use crate::chip::Chip;
use elf::Elf;
use msgpack::Value;

/// An argument that the metadata declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// The name, if there is one.
    pub name: String,
    /// Where it lies in the segment of arguments.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
    /// What it is.
    pub kind: ArgumentKind,
}

/// What an argument is. Hidden arguments are filled by the launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// A pointer to global memory.
    Buffer,
    /// A value.
    Value,
    /// Workgroups along an axis.
    BlockCount(u8),
    /// Work items of a workgroup along an axis.
    GroupSize(u8),
    /// Work items of the last, partial workgroup along an axis.
    Remainder(u8),
    /// Work items before the first along an axis.
    GlobalOffset(u8),
    /// The number of axes.
    GridDims,
    /// A hidden argument that the simulator leaves zero.
    Zero,
}

fn argument_kind(kind: &str) -> ArgumentKind {
    let axis = match kind.as_bytes().last() {
        Some(b'y') => 1,
        Some(b'z') => 2,
        _ => 0,
    };
    match kind {
        "global_buffer" | "dynamic_shared_pointer" => ArgumentKind::Buffer,
        "by_value" => ArgumentKind::Value,
        "hidden_block_count_x" | "hidden_block_count_y" | "hidden_block_count_z" => ArgumentKind::BlockCount(axis),
        "hidden_group_size_x" | "hidden_group_size_y" | "hidden_group_size_z" => ArgumentKind::GroupSize(axis),
        "hidden_remainder_x" | "hidden_remainder_y" | "hidden_remainder_z" => ArgumentKind::Remainder(axis),
        "hidden_global_offset_x" | "hidden_global_offset_y" | "hidden_global_offset_z" => ArgumentKind::GlobalOffset(axis),
        "hidden_grid_dims" => ArgumentKind::GridDims,
        _ => ArgumentKind::Zero,
    }
}

/// A kernel of a module.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// The name by which it is launched.
    pub name: String,
    /// What it asks of the hardware.
    pub descriptor: Descriptor,
    /// Its arguments, if the metadata declare them.
    pub arguments: Vec<Argument>,
    /// The most work items of a workgroup.
    pub max_workgroup: u32,
    /// The address of the first instruction.
    pub(crate) entry: u64,
}

/// A loaded code object.
#[derive(Clone, Debug)]
pub struct Module {
    chip: Chip,
    kernels: Vec<Kernel>,
    /// Loaded pieces: addresses and bytes.
    pub(crate) segments: Vec<(u64, Vec<u8>)>,
}

impl Module {
    /// Reads a linked code object.
    ///
    /// # Errors
    /// [`LoadError`], for whatever the bytes are.
    pub fn load(bytes: &[u8]) -> Result<Module, LoadError> {
        let elf = elf::parse(bytes)?;
        let chip = Chip::of_flags(elf.flags).ok_or(LoadError::UnknownChip { flags: elf.flags })?;
        let metadata = elf.metadata.as_deref().and_then(msgpack::parse);
        let mut kernels = Vec::new();
        for symbol in &elf.symbols {
            let Some(name) = symbol.name.strip_suffix(".kd") else { continue };
            kernels.push(kernel(&elf, chip, name, symbol.value, metadata.as_ref())?);
        }
        let segments = elf.segments.into_iter().map(|s| (s.address, s.bytes)).collect();
        Ok(Module { chip, kernels, segments })
    }

    /// The chip that the code is for.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// The kernels, in the order of the symbol table.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// A kernel by its name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// The text of the instruction at an address of the code object; `None` if there is none that is known.
    pub fn text_at(&self, address: u64) -> Option<String> {
        crate::decode::decode(self.chip, address, &|a| self.word(a)).ok().map(|i| i.to_string())
    }

    /// The addresses of a kernel's instructions, from its first one to the end of the code that is known; none of a kernel that there is not.
    pub fn addresses(&self, kernel: &str) -> Vec<u64> {
        let mut all = Vec::new();
        let mut next = self.kernel(kernel).map(|k| k.entry);
        while let Some(at) = next {
            let found = crate::decode::decode(self.chip, at, &|a| self.word(a));
            next = found.ok().map(|i| i.next());
            all.extend(next.map(|_| at));
        }
        all
    }

    /// The dword at an address of the loaded code.
    pub(crate) fn word(&self, address: u64) -> Option<u32> {
        let (base, bytes) = self.segments.iter().find(|(base, bytes)| address >= *base && address - base < bytes.len() as u64)?;
        bytes::u32_at(bytes, address - base)
    }
}

fn loaded(elf: &Elf, address: u64, len: u64) -> Option<&[u8]> {
    elf.segments.iter().find_map(|s| bytes::slice(&s.bytes, address.checked_sub(s.address)?, len))
}

fn kernel(elf: &Elf, chip: Chip, name: &str, address: u64, metadata: Option<&Value>) -> Result<Kernel, LoadError> {
    let bad = || LoadError::BadDescriptor { kernel: name.to_owned() };
    let descriptor = loaded(elf, address, 64).and_then(|b| Descriptor::read(b, chip)).ok_or_else(bad)?;
    if descriptor.split {
        return Err(LoadError::SplitWorkgroups { kernel: name.to_owned() });
    }
    let entry = address.wrapping_add_signed(descriptor.entry);
    if entry % 4 != 0 || loaded(elf, entry, 4).is_none() {
        return Err(LoadError::BadEntry { kernel: name.to_owned() });
    }
    let symbol = format!("{name}.kd");
    let listed = metadata.and_then(|m| m.get("amdhsa.kernels")).map(Value::array).unwrap_or_default();
    let facts = listed.iter().find(|k| k.get(".symbol").and_then(Value::text) == Some(&symbol));
    let number = |v: Option<&Value>| v.and_then(Value::uint).and_then(|n| u32::try_from(n).ok());
    let mut arguments = Vec::new();
    for a in facts.and_then(|k| k.get(".args")).map(Value::array).unwrap_or_default() {
        let (Some(offset), Some(size)) = (number(a.get(".offset")), number(a.get(".size"))) else { continue };
        arguments.push(Argument {
            name: a.get(".name").and_then(Value::text).unwrap_or_default().to_owned(),
            offset,
            size,
            kind: argument_kind(a.get(".value_kind").and_then(Value::text).unwrap_or_default()),
        });
    }
    let max_workgroup = number(facts.and_then(|k| k.get(".max_flat_workgroup_size"))).unwrap_or(1024);
    Ok(Kernel { name: name.to_owned(), descriptor, arguments, max_workgroup, entry })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(Module::load(b"").err(), Some(LoadError::Truncated("ELF header")));
        assert_eq!(Module::load(&[0; 64]).err(), Some(LoadError::NotElf));
        let mut elf = vec![0u8; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(Module::load(&elf).err(), Some(LoadError::NotAmdgpu { machine: 0, os_abi: 0 }));
    }
}
