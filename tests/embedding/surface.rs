//! What an engine sees names no type of the lowering, the optimizer or a backend: read off the sources.

use std::path::Path;

/// Files whose public items engines use.
const FOLDERS: &[&str] = &[
    "src/embed",
    "src/artifact",
    "src/key.rs",
    "src/launch/bound.rs",
    "src/launch/check.rs",
    "src/launch/error.rs",
    "src/launch/tensor.rs",
];
const HIDDEN: &[&str] = &["tilelift_isel", "tilelift_egraph", "tilelift_lane", "tilelift_schedule", "tilelift_nvptx", "tilelift_amdgcn"];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |p: &Path| (p.display().to_string(), std::fs::read_to_string(p).unwrap_or_else(|e| panic!("{}: {e}", p.display())));
    let mut found = Vec::new();
    for place in FOLDERS.iter().map(|f| root.join(f)) {
        if place.is_dir() {
            let files = std::fs::read_dir(&place).unwrap_or_else(|e| panic!("{e}")).flatten();
            found.extend(files.map(|f| read(&f.path())));
        } else {
            found.push(read(&place));
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|w| !w.is_empty())
}

/// Names of hidden crates that a public item of a file shows.
fn shown(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut names: Vec<&str> = HIDDEN.to_vec();
    // `CompileError` and `Options` of the stages hold types of the lowering.
    names.extend(["CompileError", "Options", "LowerError"]);
    for line in code.lines().filter(|l| l.starts_with("use ") && HIDDEN.iter().any(|h| l.contains(h))) {
        names.extend(words(line).filter(|w| !["use", "self", "crate"].contains(w)));
    }
    let (mut found, mut depth, mut inside) = (Vec::new(), 0usize, None);
    for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
        let item = line.trim_start();
        if inside.is_none() && item.starts_with("pub ") && !item.starts_with("pub use") {
            inside = Some((Item::of(item), depth));
        }
        let after = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
        if let Some((kind, at)) = inside {
            let shows = match kind {
                Item::Enum | Item::Field => line,
                // A tuple structure's fields are private unless they say so.
                Item::Struct if !line.contains("(pub ") => line.split('(').next().unwrap_or(line),
                Item::Struct | Item::Other => line.split('{').next().unwrap_or(line),
            };
            found.extend(words(shows).filter(|w| names.contains(w)).map(|w| format!("{w} in `{item}`")));
            let ends = match kind {
                Item::Enum => after == at && line.contains('}'),
                Item::Field => true,
                Item::Struct | Item::Other => line.contains(['{', ';']),
            };
            if ends {
                inside = None;
            }
        }
        depth = after;
    }
    found
}

/// How much of an item is public.
#[derive(Clone, Copy)]
enum Item {
    /// All of it.
    Enum,
    /// One line.
    Field,
    /// What stands in front of its fields.
    Struct,
    /// What stands in front of its body.
    Other,
}

impl Item {
    fn of(line: &str) -> Item {
        match line.split_whitespace().nth(1).unwrap_or_default() {
            "enum" => Item::Enum,
            "struct" => Item::Struct,
            name if name.ends_with(':') => Item::Field,
            _ => Item::Other,
        }
    }
}

#[test]
fn public_items_name_nothing_that_is_hidden() {
    let sources = sources();
    assert!(sources.len() > 15);
    let mut wrong = Vec::new();
    for (name, text) in &sources {
        wrong.extend(shown(text).into_iter().map(|s| format!("{name}: {s}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_shown_is_found() {
    let in_front = "use tilelift_isel::abi::{self, AbiError};\n";
    for (item, count) in [
        ("pub struct A(AbiError);", 0),
        ("pub struct A(pub AbiError);", 1),
        ("pub struct A {\n    x: AbiError,\n    pub y: u32,\n}", 0),
        ("pub struct A {\n    x: u32,\n    pub y: AbiError,\n}", 1),
        ("pub enum A {\n    /// It.\n    B {\n        x: AbiError,\n    },\n}\nfn f(_: AbiError) {}", 1),
        ("impl A {\n    pub fn f(&self) -> AbiError {\n        g()\n    }\n}", 1),
        ("impl A {\n    pub fn f(\n        &self,\n        x: AbiError,\n    ) {\n        g()\n    }\n}", 1),
        ("impl A {\n    pub(crate) fn f(&self) -> AbiError {\n        g()\n    }\n    pub fn g() {\n        AbiError::x();\n    }\n}", 0),
        ("pub fn f() -> tilelift_egraph::Report;", 1),
    ] {
        assert_eq!(shown(&format!("{in_front}{item}\n")).len(), count, "{item}: {:?}", shown(&format!("{in_front}{item}\n")));
    }
}
