//! The header, the library, a host in C and one in Python agree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tilelift_oracle::required;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder that the library was built to: that of the tests, or the one around it.
fn library(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap_or_else(|e| panic!("{e}")).parent().expect("it is in a folder").to_path_buf();
    let around = deps.parent().expect("it is in a folder").to_path_buf();
    let found = [deps, around].into_iter().map(|f| f.join(name)).find(|p| p.exists());
    found.unwrap_or_else(|| panic!("{name} is not built"))
}

/// A tool of the machine; `None` if there is none and none is required.
fn tool(name: &str) -> Option<Command> {
    match Command::new(name).arg("--version").output() {
        Ok(_) => Some(Command::new(name)),
        Err(e) if required() => panic!("{name}: {e}"),
        Err(_) => {
            println!("skipped: there is no {name}");
            None
        }
    }
}

fn right(what: &str, out: &Output) -> String {
    let (said, wrong) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{what}: {}\n{said}{wrong}", out.status);
    assert!(!wrong.contains("warning"), "{what}: {wrong}");
    said.into_owned()
}

/// A folder of one test, gone when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tilelift-capi-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{e}"));
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Names of functions behind a word, in a text.
fn functions(text: &str, is: impl Fn(&str, usize) -> bool) -> BTreeSet<&str> {
    let name = |at: usize| text[at..].split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
    text.match_indices("tilelift_").filter(|&(at, _)| is(text, at)).map(|(at, _)| name(at)).filter(|n| n.len() > 9).collect()
}

#[test]
fn the_header_declares_what_the_library_has() {
    let header = std::fs::read_to_string(here("include/tilelift.h")).unwrap_or_else(|e| panic!("{e}"));
    let code: String = header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let called = |text: &str, at: usize| text[at..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').starts_with('(');
    let declared = functions(&code, called);
    let mut source = String::new();
    for file in ["lib.rs", "compiler.rs", "artifact.rs", "error.rs", "launch.rs"] {
        source += &std::fs::read_to_string(here("src").join(file)).unwrap_or_else(|e| panic!("{e}"));
    }
    // Functions stand behind `fn`, those of a table behind its indent.
    let made = |text: &str, at: usize| {
        text[..at].ends_with("fn ")
            || text[..at].ends_with("    ") && text[at..].lines().next().is_some_and(|l| l.ends_with(';') && !l.contains(['(', '=']))
    };
    assert_eq!(declared, functions(&source, made));
    assert!(declared.len() > 30, "{declared:?}");
    assert!(header.contains(&format!("#define TILELIFT_ABI_VERSION {}\n", tilelift_capi::ABI_VERSION)));
}

#[test]
fn a_host_in_c() {
    let Some(_) = tool("cc") else { return };
    let folder = Folder::new("c");
    let shared = library("libtilelift_capi.so");
    let libraries = [
        (shared.clone(), vec![format!("-Wl,-rpath,{}", shared.parent().expect("a folder").display())]),
        (library("libtilelift_capi.a"), ["-lpthread", "-ldl", "-lm"].map(str::to_owned).into()),
    ];
    for (n, (library, more)) in libraries.iter().enumerate() {
        let program = folder.0.join(format!("embed{n}"));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&program).arg("-I").arg(here("include"));
        cc.arg(here("tests/embed.c")).arg(library).args(more);
        right("cc", &cc.output().unwrap_or_else(|e| panic!("{e}")));
        let cache = folder.0.join(format!("cache{n}"));
        let said = right("embed.c", &Command::new(&program).arg(&cache).output().unwrap_or_else(|e| panic!("{e}")));
        assert_eq!(said, "right\n");
    }
}

/// Compiles everywhere; launches where there is a GPU.
#[test]
fn a_host_in_python() {
    let Some(mut python) = tool("python3") else { return };
    let out = python.arg(here("examples/launch.py")).arg(library("libtilelift_capi.so")).output();
    let said = right("launch.py", &out.unwrap_or_else(|e| panic!("{e}")));
    // What is bound and what is changed of it, in bits: an address, an extent, a float.
    let bound = said.contains("no CUDA driver") && said.contains("[65536, 10000, 1075838976], then [131072, 2048, 1056964608]");
    assert!(said.contains("@scale for sm_80") && (said.contains("every value is right") || bound), "{said}");
    assert!(said.contains("refused: argument 0 ends at byte 40016 of a buffer of 40000 bytes"), "{said}");
}
