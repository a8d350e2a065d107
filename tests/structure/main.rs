//! Imports between the folders of a crate run one way: no file imports one that imports it, no folder one that imports it, and what
//! several rooms of a folder take lies below them. A `mod.rs` or `lib.rs` that hands names on is a door, and takes nothing.
//!
//! Names of types are told apart in a crate: no two of a library have the same one.

mod folders;
mod imports;
mod modules;
mod tokens;
mod types;

use folders::{Circle, circles};
use imports::{Import, imports};
use modules::modules;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use types::{Twice, twice};

/// Folders with a `Cargo.toml` below `folder`.
fn crates(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry of a folder").path()).filter(|p| p.is_dir()).collect();
    paths.sort();
    if folder.join("Cargo.toml").exists() {
        found.push(folder.to_path_buf());
    }
    for path in paths {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if !name.starts_with('.') && name != "target" && name != "src" {
            crates(&path, found);
        }
    }
}

/// The roots of a crate's library and programs.
fn roots(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["src/lib.rs", "src/main.rs"].map(PathBuf::from).into();
    for entry in std::fs::read_dir(folder.join("src/bin")).into_iter().flatten().flatten() {
        found.push(Path::new("src/bin").join(entry.file_name()));
    }
    found.retain(|p| folder.join(p).is_file());
    found
}

fn imports_of(folder: &Path) -> BTreeSet<Import> {
    let read = |file: &Path| std::fs::read_to_string(folder.join(file)).ok();
    roots(folder).iter().flat_map(|root| imports(&modules(root, &read))).collect()
}

#[test]
fn no_import_climbs_and_no_folders_go_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = Vec::new();
    crates(root, &mut folders);
    assert!(folders.len() > 10, "the crates of the workspace are found: {folders:?}");
    let (mut wrong, mut all) = (String::new(), 0);
    for folder in folders {
        let name = folder.strip_prefix(root).expect("a folder of the workspace").display().to_string();
        let imports = imports_of(&folder);
        println!("{name}: {} imports between its files", imports.len());
        all += imports.len();
        for circle in circles(&imports) {
            wrong.push_str(&format!("in the crate of ./{name}: {circle}"));
        }
    }
    assert!(all > 2000, "only {all} imports are found");
    assert!(wrong.is_empty(), "imports that climb, or go in a circle:\n{wrong}");
}

/// The circles of a crate of these files.
fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<PathBuf, String> = files.iter().map(|(p, t)| (PathBuf::from(p), t.to_string())).collect();
    let found = imports(&modules(Path::new("src/lib.rs"), &|file| files.get(file).cloned()));
    circles(&found).iter().map(Circle::to_string).collect()
}

#[test]
fn doors_declare_and_hand_on() {
    let door = "//! A door.\nmod low;\nmod high;\npub use low::{Low, low};\npub use high::high;\n";
    let high = "use crate::room::Low;\npub fn high() -> Low { super::low() }\n";
    let low = "pub struct Low;\npub fn low() -> Low { Low }\n";
    let files = [
        ("src/lib.rs", "mod room;\npub use room::Low;\n"),
        ("src/room/mod.rs", door),
        ("src/room/low.rs", low),
        ("src/room/high.rs", high),
    ];
    assert_eq!(planted(&files), Vec::<String>::new());
}

#[test]
fn a_door_is_not_taken_from() {
    let door = "mod low;\npub use low::low;\npub struct Shared;\n";
    let low = "use super::Shared;\npub fn low(_: Shared) {}\n";
    let found = planted(&[("src/lib.rs", "mod room;\n"), ("src/room.rs", door), ("src/room/low.rs", low)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("src/room/low.rs takes Shared of src/room.rs"), "{found:?}");
}

#[test]
fn an_import_that_climbs_is_found() {
    // A file of a folder takes what a file beside the folder has that takes of the folder: by a path in its code, through a door.
    let files = [
        ("src/lib.rs", "mod room;\nmod above;\npub use above::Above;\n"),
        ("src/above.rs", "use crate::room::Low;\npub struct Above(pub Low);\n"),
        ("src/room/mod.rs", "mod low;\nmod other;\npub use low::Low;\n"),
        ("src/room/low.rs", "pub struct Low;\n"),
        ("src/room/other.rs", "// crate::Nothing\nfn f() -> crate::Above { panic!(\"crate::Nothing\") }\n"),
    ];
    let found = planted(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("src/room/other.rs takes Above of src/above.rs"), "{found:?}");
    assert!(!found[0].contains("Nothing"), "{found:?}");
}

#[test]
fn folders_in_a_circle_are_found() {
    let files = [
        ("src/lib.rs", "mod a;\nmod b;\n"),
        ("src/a/mod.rs", "pub mod one;\npub mod two;\n"),
        ("src/a/one.rs", "pub struct One;\n"),
        ("src/a/two.rs", "use crate::b::three::{self, Three};\npub fn two(t: Three) { three::take(t) }\n"),
        ("src/b/mod.rs", "pub mod three;\npub mod four;\n"),
        ("src/b/three.rs", "pub struct Three;\npub fn take(_: Three) {}\n"),
        ("src/b/four.rs", "pub type Four = crate::a::one::One;\n"),
    ];
    let found = planted(&files);
    assert_eq!(found.len(), 1, "no files import one another, folders do: {found:?}");
    assert!(found[0].starts_with("src/a, src/b import one another"), "{found:?}");
}

#[test]
fn what_stands_there_for_tests_is_left_away() {
    let high = "pub fn high() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
    let low = "pub fn low() {}\n#[cfg(test)]\nuse crate::high::high;\n#[test]\nfn t() { crate::high::high() }\n";
    let files = [("src/lib.rs", "mod low;\nmod high;\n"), ("src/low.rs", low), ("src/high.rs", &format!("use crate::low::low;\n{high}"))];
    assert_eq!(planted(&files), Vec::<String>::new());
}

/// The libraries in which a type's name has one meaning: the compiler's own.
const LIBRARIES: [&str; 11] = [
    "",
    "ir",
    "ir/interp",
    "ir/decisions",
    "egraph",
    "isel",
    "isel/lane",
    "isel/protocol",
    "isel/schedule",
    "backends/nvptx",
    "backends/amdgcn",
];

/// Folders that do the same for different devices, with the same names for it.
const TWINS: [&str; 3] = ["src/runtime/cuda", "src/runtime/hip", "src/runtime/sim"];

/// Names that callers of the library have for two types each, by a path that tells them apart: `launch::Bound` and `graph::Bound`, `Refusal` and
/// `graph::Refusal`.
const PUBLISHED: [(&str, [&str; 2]); 2] =
    [("Bound", ["src/graph/run.rs", "src/launch/bound.rs"]), ("Refusal", ["src/embed/error.rs", "src/graph/fuse/report.rs"])];

#[test]
fn a_name_of_a_type_has_one_meaning_in_a_crate() {
    let (mut wrong, mut all) = (String::new(), 0);
    let mut published: Vec<Twice> =
        PUBLISHED.map(|(name, files)| Twice { name: name.to_string(), files: files.map(PathBuf::from).into() }).into();
    for name in LIBRARIES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let read = |file: &Path| std::fs::read_to_string(folder.join(file)).ok();
        let modules = modules(Path::new("src/lib.rs"), &read);
        let types: usize = modules.iter().map(|m| m.types.len()).sum();
        println!("{name}: {types} types");
        assert!(types > 4, "only {types} types are found in ./{name}");
        all += types;
        for mut found in twice(&modules, &TWINS) {
            found.files.sort();
            let declared = published.iter().position(|p| name.is_empty() && *p == found);
            match declared {
                Some(at) => drop(published.remove(at)),
                None => wrong.push_str(&format!("in the crate of ./{name}: {found}")),
            }
        }
    }
    assert!(all > 1300, "only {all} types are found");
    assert!(wrong.is_empty(), "names that several types of a crate have:\n{wrong}");
    assert!(published.is_empty(), "these stand in the list, and have a name of their own: {published:?}");
}

/// Names that several types of a crate of these files have.
fn planted_types(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<PathBuf, String> = files.iter().map(|(p, t)| (PathBuf::from(p), t.to_string())).collect();
    twice(&modules(Path::new("src/lib.rs"), &|file| files.get(file).cloned()), &TWINS).iter().map(Twice::to_string).collect()
}

#[test]
fn a_name_of_two_types_is_found() {
    let low = "pub struct Low;\npub(super) struct Ring<'a> { of: &'a Low }\nenum Kind { Ring }\ntype Step = u32;\n";
    let high = "fn f(_: impl Fn()) {\n    struct Ring;\n}\n/// A step.\ntrait Step {}\nstruct Kinds(Kind);\n";
    let found = planted_types(&[("src/lib.rs", "mod low;\nmod high;\n"), ("src/low.rs", low), ("src/high.rs", high)]);
    let said = ["Ring", "Step"].map(|name| format!("{name} is a type of src/low.rs and of src/high.rs\n"));
    assert_eq!(found, said);
    let inside = "mod a {\n    union One {}\n}\nmod b {\n    type One = u8;\n}\n";
    assert_eq!(planted_types(&[("src/lib.rs", inside)]), ["One is a type of src/lib.rs and of src/lib.rs\n"]);
}

#[test]
fn what_is_no_type_of_its_own_has_any_name() {
    let low = "pub struct Low;\nimpl Iterator for Low {\n    type Item = u8;\n}\npub enum Kind { Low }\nfn item() {}\n";
    let high = "pub trait Item { type Item; }\nimpl<T: Fn() -> [u8; 2]> Item for T {\n    type Item = u8;\n}\n#[cfg(test)]\nmod tests {\n    struct Low;\n}\n";
    assert_eq!(
        planted_types(&[("src/lib.rs", "mod low;\nmod high;\nuse low::Low;\n"), ("src/low.rs", low), ("src/high.rs", high)]),
        Vec::<String>::new()
    );
}

#[test]
fn twins_share_names_with_one_another_alone() {
    let files = |sim: &'static str, door: &'static str| {
        planted_types(&[
            ("src/lib.rs", "mod runtime;\n"),
            ("src/runtime/mod.rs", door),
            ("src/runtime/cuda.rs", "mod facts;\n"),
            ("src/runtime/cuda/facts.rs", "pub struct Facts;\n"),
            ("src/runtime/sim/mod.rs", sim),
        ])
    };
    let door = "mod cuda;\nmod sim;\n";
    assert_eq!(files("struct Facts;\n", door), Vec::<String>::new());
    assert_eq!(files("struct Facts;\nmod a {\n    struct Facts;\n}\n", door).len(), 1);
    assert_eq!(files("", "mod cuda;\nmod sim;\nstruct Facts;\n").len(), 1);
}
