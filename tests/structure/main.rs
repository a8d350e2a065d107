//! Imports between the folders of a crate run one way: no file imports one that imports it, no folder one that imports it, and what
//! several rooms of a folder take lies below them. A `mod.rs` or `lib.rs` that hands names on is a door, and takes nothing.

mod folders;
mod imports;
mod modules;
mod tokens;

use folders::{Circle, circles};
use imports::{Import, imports};
use modules::modules;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

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
