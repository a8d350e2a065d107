//! Proofs of what the optimizer does to the kernels of the library and of the file tests: every step is an instance of the rule it
//! names, and every value that was chosen follows from what was written.

use std::path::{Path, PathBuf};
use tilelift_egraph::prove::{Proof, prove};
use tilelift_egraph::{Class, Options};
use tilelift_ir::{Kernel, text, verify};
use tilelift_kernels::{Size, cases};

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder is there").map(|e| e.expect("it can be read").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "tile") {
            out.push(path);
        }
    }
}

/// Every kernel with its name; files that are tests of errors hold none.
pub(crate) fn corpus() -> Vec<(String, Kernel)> {
    let small = cases().into_iter().filter(|c| c.size == Size::Small);
    let mut out: Vec<(String, Kernel)> = small.map(|c| (c.name.clone(), c.build().expect("kernels of the library build"))).collect();
    let library = out.len();
    let mut paths = Vec::new();
    files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tile")), &mut paths);
    for path in paths {
        let source = std::fs::read_to_string(&path).expect("a text");
        let kernels = text::parse(&source).map_or(Vec::new(), |f| f.kernels);
        out.extend(kernels.into_iter().filter(|k| verify(k).is_ok()).map(|k| (path.display().to_string(), k)));
    }
    assert!(library >= 40 && out.len() >= library + 80, "{library} kernels of the library, {} in all", out.len());
    out
}

#[test]
fn every_step_is_an_instance_of_its_rule_and_every_choice_follows() {
    let mut sum = Proof::default();
    for (name, kernel) in corpus() {
        let verified = verify(&kernel).expect("verified before");
        for options in [
            Options { allow: Class::Approx, ..Options::default() },
            Options { chaos: Some(4), ..Options::default() },
            Options { chaos: Some(7), nodes: 300, ..Options::default() },
        ] {
            let p = prove(&verified, &options).unwrap_or_else(|e| panic!("{name}, @{}: {e}", kernel.name));
            sum = Proof { steps: sum.steps + p.steps, roots: sum.roots + p.roots, edges: sum.edges + p.edges };
        }
    }
    println!("{sum:?}");
    assert!(sum.steps > 1000 && sum.roots > 1000 && sum.edges > 1000, "{sum:?}");
}
