//! Every kernel of the file tests and of the library that lowers for a chip has a machine program that keeps the rules.

use std::path::{Path, PathBuf};
use tilelift_amdgcn::{
    Chip, encode, machine, mir,
    select::{Reason, SelectError, select},
};
use tilelift_ir::{Kernel, text};
use tilelift_isel::{LowerOptions, lower};

fn tiles(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            tiles(&path, out);
        } else if path.extension().is_some_and(|e| e == "tile") {
            out.push(path);
        }
    }
}

/// The instructions as text.
fn shown(program: &mir::Program) -> String {
    let lines = program.blocks.iter().flat_map(|(b, data)| {
        let insts = data.insts.iter().map(|i| format!("  {}", tilelift_amdgcn::text::inst(i, program.chip)));
        std::iter::once(format!("{b}:")).chain(insts).collect::<Vec<_>>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The program with some physical register for each virtual one, whatever else is there: instructions take no others than the encoder does.
fn somewhere(program: &mir::Program) -> mir::Program {
    let mut out = program.clone();
    for data in out.blocks.values_mut() {
        for operand in data.insts.iter_mut().flat_map(|i| &mut i.operands) {
            let mir::Operand::Reg(span) = operand else { continue };
            let mir::Reg::Virtual(v) = span.reg else { continue };
            let (file, number) = (program.vregs[v].file, v.as_u32() as u16);
            // Tuples are the same or apart: a result that overlaps an addend by chance is refused.
            span.reg = mir::Reg::Physical(file, if file == mir::File::Scalar { 4 * (number % 20) } else { 32 * (number % 7) });
        }
    }
    out
}

/// Selects for a chip; says what went wrong. `None` if the kernel does not lower for it, or updates what the chip can't.
fn selected(kernel: &Kernel, chip: Chip) -> Option<Result<(), String>> {
    let verified = tilelift_ir::verify::verify(kernel).ok()?;
    let lowered = lower(&verified, &machine::target(chip), &LowerOptions::default()).ok()?;
    let made = std::panic::catch_unwind(|| select(&lowered.program, chip));
    Some(match made {
        Ok(Ok(program)) => {
            if std::env::var("DUMP").is_ok() {
                println!("{}", shown(&program));
            }
            let encoded = || match encode::encode(&somewhere(&program)) {
                // Branches that are too long are bridged later.
                Ok(_) | Err(encode::EncodeError { reason: encode::EncodeReason::Branch(_), .. }) => Ok(()),
                Err(e) => Err(e.to_string()),
            };
            mir::verify(&program).map_err(|e| e.to_string()).and_then(|()| encoded())
        }
        Ok(Err(SelectError::Computation(_, _, Reason::Chip(_)))) if chip == Chip::Gfx90a => return None,
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err("panicked".to_owned()),
    })
}

#[test]
fn kernels_of_the_file_tests_are_selected() {
    let mut files = Vec::new();
    tiles(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tile"), &mut files);
    let filter = std::env::var("CASE").unwrap_or_default();
    let (mut count, mut wrong) = (0, Vec::new());
    for path in files.iter().filter(|p| p.to_string_lossy().contains(&filter)) {
        let Ok(file) = text::parse(&std::fs::read_to_string(path).unwrap()) else { continue };
        for (kernel, chip) in file.kernels.iter().flat_map(|k| Chip::ALL.map(|chip| (k, chip))) {
            match selected(kernel, chip) {
                Some(Ok(())) => count += 1,
                Some(Err(why)) => wrong.push(format!("{chip} {} @{}: {why}", path.display(), kernel.name)),
                None => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), count + wrong.len(), wrong.join("\n"));
    assert!(count > 0);
}

#[test]
fn kernels_of_the_library_are_selected() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (at, case) in tilelift_kernels::cases().into_iter().enumerate() {
        // Each on one chip.
        for (launch, chip) in case.launches(None).unwrap().iter().zip(Chip::ALL.into_iter().cycle().skip(at % Chip::ALL.len())) {
            match selected(&launch.kernel, chip) {
                Some(Ok(())) => count += 1,
                Some(Err(why)) => wrong.push(format!("{chip} {}: {why}", case.name)),
                None => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), count + wrong.len(), wrong.join("\n"));
    assert!(count > 0);
}
