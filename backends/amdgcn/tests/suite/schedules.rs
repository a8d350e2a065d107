//! Loops that copy ahead, as programs: their text lowers to the same lane program.

use std::path::Path;
use tilelift_amdgcn::{gfx942, gfx950};
use tilelift_ir::{text, verify::verify};
use tilelift_isel::{LowerOptions, ProofScope, Target, lower};

/// The kernels of a folder of file tests whose loops are written as programs, each compared with what its text lowers to.
fn compared(folder: &str, target: &Target) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tile").join(folder);
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        // Some files are there for what is wrong in them.
        let kernels = text::parse(&source).map_or_else(|_| Vec::new(), |f| f.kernels);
        for kernel in &kernels {
            let Ok(done) = verify(kernel).map_err(drop).and_then(|k| lower(&k, target, &options).map_err(drop)) else { continue };
            let Some(Ok(made)) = done.written.filter(|made| made.as_ref().is_ok_and(|k| k.is_explicit())) else { continue };
            let name = format!("{} of {}, {}", kernel.name, path.display(), target.name);
            let printed = text::print(&made);
            let file = text::parse(&printed).unwrap_or_else(|e| panic!("{name}: {e}\n{printed}"));
            let read = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{name}: {e:?}\n{printed}"));
            let again = lower(&read, target, &options).unwrap_or_else(|e| panic!("{name}: {e}\n{printed}"));
            assert!(again.program.to_string() == done.program.to_string(), "{name} lowers to something else\n{printed}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn what_is_written_lowers_to_the_same_program() {
    let counts = [("dot", gfx942()), ("loops", gfx942()), ("dot", gfx950())].map(|(folder, target)| compared(folder, &target));
    assert!(counts.iter().all(|&n| n >= 30), "{counts:?}");
}
