//! Code objects are what LLVM's assembler and linker make of the printed text, and tools read them.

use crate::common::kernels::{branches, every_size};
use std::path::Path;
use tilelift_amdgcn::mir::Program;
use tilelift_amdgcn::{Chip, encode, object, text};

fn programs() -> Vec<Program> {
    Chip::ALL
        .into_iter()
        .flat_map(|chip| every_size(chip).into_iter().chain([branches(chip), many_arguments(chip)]).chain(named(chip)))
        .collect()
}

/// Kernels with names that YAML takes for truth values, numbers, or nothing.
fn named(chip: Chip) -> impl Iterator<Item = Program> {
    ["on", "n", "y", "true", "null", "nan", "inf", "e1", "_0"].map(|name| Program { name: name.to_owned(), ..branches(chip) }).into_iter()
}

/// Metadata of more than a page, so that addresses and places in the file part earlier.
fn many_arguments(chip: Chip) -> Program {
    use tilelift_amdgcn::mir::{ArgKind, KernArg};
    let args =
        (0..200).map(|n| KernArg { offset: 8 * n, size: 8, kind: if n % 3 == 0 { ArgKind::Pointer } else { ArgKind::Value } }).collect();
    Program { name: "a_kernel_with_a_name_that_is_longer_than_thirty_one_bytes".to_owned(), args, lds_bytes: 65536, ..branches(chip) }
}

fn ours(program: &Program) -> Vec<u8> {
    object::write(program, &encode::encode(program).unwrap())
}

#[test]
fn what_is_loaded_equals_the_linkers_bytes() {
    if tilelift_oracle::lld().is_none() {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no ld.lld");
        return;
    }
    for program in programs().iter().filter(|p| !crate::common::judge::is_missing(p.chip)) {
        let object = tilelift_oracle::amd_object(program.chip.name(), &text::print(program).unwrap()).unwrap();
        let linked = tilelift_oracle::amd_link(&object).unwrap();
        let ours = ours(program);
        // The header's first part, and its flags; then everything up to what is not loaded.
        assert_eq!(ours[..0x28], linked[..0x28], "{} {}", program.chip, program.name);
        assert_eq!(ours[0x30..0x3a], linked[0x30..0x3a], "{} {}", program.chip, program.name);
        let dynamic = |elf| tilelift_oracle::section(elf, ".dynamic").map(|s| s.as_ptr() as usize - elf.as_ptr() as usize + s.len());
        let end = dynamic(&linked).unwrap();
        assert_eq!(dynamic(&ours), Some(end));
        if let Some(at) = (0x40..end).find(|&at| ours[at] != linked[at]) {
            panic!("{} {}: byte {at:#x} is {:#x}, and the linker's {:#x}", program.chip, program.name, ours[at], linked[at]);
        }
    }
}

#[test]
fn tools_read_them() {
    let Some(objdump) = tilelift_oracle::llvm_objdump() else {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no llvm-objdump");
        return;
    };
    for program in programs() {
        let bytes = ours(&program);
        let read = tilelift_oracle::tool_output(Path::new("readelf"), &["-a", "-W"], &bytes).unwrap();
        assert!(read.contains(&format!("{}.kd", program.name)), "{read}");
        if program.chip == Chip::Gfx950 {
            // That version does not know the chip.
            continue;
        }
        let listing = tilelift_oracle::tool_output(objdump, &["-d"], &bytes).unwrap();
        assert!(listing.contains(&format!("<{}>:", program.name)) && listing.contains("s_endpgm"), "{listing}");
    }
}
