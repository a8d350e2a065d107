//! Every kernel of the library that reaches machine code: LLVM assembles its text without a warning, to the same bytes and, linked, to the
//! same code object.

use super::common;
use tilelift_amdgcn::{Chip, alloc::allocate, encode::encode, machine, object, order::finish, select::select, text};
use tilelift_ir::Kernel;
use tilelift_isel::{LowerOptions, lower};

/// Compares one kernel on a chip; `None` if a stage before the encoder refuses it.
fn compared(kernel: &Kernel, chip: Chip) -> Option<Result<usize, String>> {
    let verified = tilelift_ir::verify::verify(kernel).ok()?;
    let lowered = lower(&verified, &machine::target(chip), &LowerOptions::default()).ok()?;
    let selected = select(&lowered.program, chip).ok()?;
    let program = finish(allocate(selected).ok()?);
    Some(compare(&program))
}

fn compare(program: &tilelift_amdgcn::mir::Program) -> Result<usize, String> {
    let code = encode(program).map_err(|e| e.to_string())?;
    let text = text::print(program).map_err(|e| e.to_string())?;
    let assembled = tilelift_oracle::amd_object(program.chip.name(), &text)?;
    if tilelift_oracle::section(&assembled, ".text") != Some(code.bytes.as_slice()) {
        return Err("the bytes are others than the assembler's".to_owned());
    }
    let linked = tilelift_oracle::amd_link(&assembled)?;
    let ours = object::write(program, &code);
    for section in [".note", ".dynsym", ".rodata", ".text"] {
        if tilelift_oracle::section(&ours, section) != tilelift_oracle::section(&linked, section) {
            return Err(format!("{section} is another than the linker's"));
        }
    }
    Ok(code.starts.len())
}

/// Every so manieth launch of the library's, for a chip; other ones for other chips.
fn library(chip: Chip, every: usize) {
    if crate::common::judge::is_missing(chip) || tilelift_oracle::lld().is_none() {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no ld.lld");
        return;
    }
    let launches =
        tilelift_kernels::cases().into_iter().flat_map(|case| case.launches(None).unwrap()).skip(chip as usize % every).step_by(every);
    let (mut count, mut insts, mut wrong) = (0, 0, Vec::new());
    for launch in launches {
        match compared(&launch.kernel, chip) {
            Some(Ok(n)) => (count, insts) = (count + 1, insts + n),
            Some(Err(why)) => wrong.push(format!("{chip} {}: {why}", launch.kernel.name)),
            None => {}
        }
    }
    eprintln!("{chip}: {count} kernels, {insts} instructions");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), count + wrong.len(), wrong.join("\n"));
    assert!(count > 0);
}

/// `TILELIFT_EVERY=1` takes all of them.
#[test]
fn kernels_of_the_library() {
    let every = common::every(13);
    Chip::ALL.into_iter().for_each(|chip| library(chip, every));
}
