//! Which specialised loops of the library are written as programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::LowerOptions;
use tilelift_schedule::{plan, program};
use tilelift_kernels::cases;
use tilelift_nvptx::sm_90a;

/// The kind of a refusal.
fn kind(debug: &str) -> String {
    debug.split([' ', '{']).next().unwrap_or_default().to_owned()
}

fn census(kernels: &[(String, Kernel)]) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, k) in kernels {
        if k.is_explicit() || verify(k).is_err() {
            continue;
        }
        for (what, options) in [("", LowerOptions::default()), ("+2 teams", LowerOptions { teams: Some(2), ..LowerOptions::default() })] {
        let Ok(p) = plan::plan(k, &sm_90a(), &options) else { continue };
        let Some(s) = p.specialised() else { continue };
        let kind = match program::written(k, &sm_90a(), s) {
            Ok(_) => "written".to_owned(),
            Err(e) => kind(&format!("{e:?}")),
        };
        out.entry(kind + what).or_default().push(name.clone());
        }
    }
    out
}

#[test]
fn count() {
    let (mut list, mut seen) = (Vec::new(), BTreeSet::new());
    for case in cases() {
        for l in case.launches(None).unwrap() {
            if seen.insert(text::print(&l.kernel)) {
                list.push((case.name.clone(), l.kernel));
            }
        }
    }
    let print = |what: &str, c: BTreeMap<String, Vec<String>>| {
        println!("== {what}");
        c.iter().for_each(|(k, v)| println!("{k}: {} {:?}", v.len(), if k.starts_with("written") || k.starts_with("PingP") { &v[..1] } else { &v[..] }));
    };
    print("library", census(&list));
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tile");
    for d in std::fs::read_dir(root).unwrap() {
        for f in std::fs::read_dir(d.unwrap().path()).unwrap() {
            let p = f.unwrap().path();
            if let Ok(t) = std::fs::read_to_string(&p)
                && let Ok(file) = text::parse(&t)
            {
                files.extend(file.kernels.into_iter().map(|k| (format!("{}/{}", p.file_name().unwrap().to_string_lossy(), k.name), k)));
            }
        }
    }
    print("tests/tile", census(&files));
}
