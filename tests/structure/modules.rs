//! The modules of a crate, as `mod` items declare them, with what each defines, imports and names by a path.

use crate::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Gives the text of a file of the crate, if it is there.
pub(crate) type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// A name that a `use` item brings into a module.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) name: String,
    pub(crate) path: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    /// Names of items, associated ones among them.
    pub(crate) items: BTreeSet<String>,
    /// Names of types that are declared, one for each declaration; associated types are none.
    pub(crate) types: Vec<String>,
    pub(crate) uses: Vec<Use>,
    /// Paths of `use x::*` items.
    pub(crate) globs: Vec<Vec<String>>,
    /// Paths in code, outside `use` items.
    pub(crate) paths: Vec<Vec<String>>,
    /// Words in code, outside `use` items.
    pub(crate) words: BTreeSet<String>,
}

/// The modules of a crate; the first is its root. What is there for tests alone is left away.
pub(crate) fn modules(root: &Path, read: Read) -> Vec<Module> {
    let mut reader = Reader { read, modules: vec![Module { file: root.to_path_buf(), ..Module::default() }] };
    let folder = root.parent().unwrap_or(Path::new("")).to_path_buf();
    reader.file(0, &folder);
    reader.modules
}

struct Reader<'a> {
    read: Read<'a>,
    modules: Vec<Module>,
}

impl Reader<'_> {
    /// Reads the file of `module`, whose submodules lie in `folder`.
    fn file(&mut self, module: usize, folder: &Path) {
        let text = (self.read)(&self.modules[module].file).unwrap_or_default();
        self.items(module, &tokens(&text), folder);
    }

    fn items(&mut self, module: usize, code: &[Token], folder: &Path) {
        let mut at = 0;
        let mut named_file = None;
        // Where the body of an `impl` or a `trait` ends: a `type` in front of that is an associated one.
        let mut body = 0;
        while at < code.len() {
            let rest = &code[at..];
            if begins_body(code, at) {
                body = body.max(at + item(rest));
            }
            if rest[0].is('#') {
                let open = if rest.get(1).is_some_and(|t| t.is('!')) { 2 } else { 1 };
                let n = open + group(&rest[open.min(rest.len())..]);
                let attribute = &rest[..n.min(rest.len())];
                at += n;
                if is_for_tests(attribute) {
                    at += item(&code[at.min(code.len())..]);
                } else if attribute.get(2).and_then(Token::word) == Some("path") {
                    named_file = attribute.iter().find_map(|t| if let Token::Text(t) = t { Some(t.clone()) } else { None });
                }
                continue;
            }
            match rest {
                [Token::Word(w), Token::Mark('('), ..] if w == "pub" => at += 1 + group(&rest[1..]),
                [Token::Word(w), Token::Word(name), Token::Mark(';'), ..] if w == "mod" => {
                    let file = self.declared(module, name, named_file.take(), folder);
                    let child = self.child(module, name, file.clone());
                    let below = file.parent().unwrap_or(Path::new(""));
                    let below =
                        if file.ends_with("mod.rs") { below.to_path_buf() } else { below.join(file.file_stem().unwrap_or_default()) };
                    self.file(child, &below);
                    at += 3;
                }
                [Token::Word(w), Token::Word(name), Token::Mark('{'), ..] if w == "mod" => {
                    let n = group(&rest[2..]);
                    let child = self.child(module, name, self.modules[module].file.clone());
                    self.items(child, &rest[3..1 + n], &folder.join(name));
                    at += 2 + n;
                }
                [Token::Word(w), ..] if w == "use" && !matches!(rest.get(1), Some(Token::Mark('<'))) => {
                    let n = rest.iter().position(|t| t.is(';')).unwrap_or(rest.len());
                    self.tree(module, &rest[1..n], &[]);
                    at += n;
                }
                [Token::Word(w), Token::Mark('!'), Token::Word(name), ..] if w == "macro_rules" => {
                    self.modules[module].items.insert(name.clone());
                    at += 3;
                }
                [Token::Word(w), Token::Word(name), ..] if DEFINES.contains(&w.as_str()) => {
                    self.modules[module].items.insert(name.clone());
                    if TYPES.contains(&w.as_str()) && (w != "type" || at >= body) {
                        self.modules[module].types.push(name.clone());
                    }
                    at += 2;
                }
                [Token::Word(_), ..] => at += self.path(module, rest),
                _ => at += 1,
            }
        }
    }

    /// The file of a module that `module` declares as `mod name;`.
    fn declared(&self, module: usize, name: &str, named: Option<String>, folder: &Path) -> PathBuf {
        let here = &self.modules[module].file;
        match named {
            Some(path) => tidy(&here.parent().unwrap_or(Path::new("")).join(path)),
            None => {
                let beside = folder.join(format!("{name}.rs"));
                if (self.read)(&beside).is_some() { beside } else { folder.join(name).join("mod.rs") }
            }
        }
    }

    fn child(&mut self, parent: usize, name: &str, file: PathBuf) -> usize {
        let child = self.modules.len();
        self.modules.push(Module { file, parent: Some(parent), ..Module::default() });
        self.modules[parent].children.insert(name.to_string(), child);
        child
    }

    /// Notes the words of the path that `code` begins with; tells how many tokens it has.
    fn path(&mut self, module: usize, code: &[Token]) -> usize {
        let mut path: Vec<String> = code[0].word().map(str::to_string).into_iter().collect();
        let mut at = 1;
        while let (Some(Token::Into), Some(Token::Word(w))) = (code.get(at), code.get(at + 1)) {
            path.push(w.clone());
            at += 2;
        }
        let here = &mut self.modules[module];
        here.words.insert(path[0].clone());
        if path.len() > 1 {
            here.paths.push(path);
        }
        at
    }

    /// Notes the names of a tree of a `use` item, which stands behind the words `prefix`.
    fn tree(&mut self, module: usize, code: &[Token], prefix: &[String]) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut at = 0;
        while at < code.len() {
            match &code[at] {
                Token::Word(w) if w == "as" => {
                    name = code.get(at + 1).and_then(Token::word).map(str::to_string);
                    at += 2;
                }
                Token::Word(w) if w == "self" && !path.is_empty() => at += 1,
                Token::Word(w) => {
                    path.push(w.clone());
                    at += 1;
                }
                Token::Mark('*') => return self.modules[module].globs.push(path),
                Token::Mark('{') => {
                    let inside = &code[at + 1..(at + group(&code[at..])).saturating_sub(1)];
                    for part in branches(inside) {
                        self.tree(module, part, &path);
                    }
                    return;
                }
                Token::Into | Token::Text(_) | Token::Mark(_) => at += 1,
            }
        }
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            self.modules[module].uses.push(Use { name, path });
        }
    }
}

/// Words in front of the name of an item.
const DEFINES: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

/// Those of them in front of the name of a type.
const TYPES: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// True if a `trait` or an `impl` block stands at this place; an `impl` in the type of something is none.
fn begins_body(code: &[Token], at: usize) -> bool {
    match code[at].word() {
        Some("trait") => code.get(at + 1).is_some_and(|t| t.word().is_some()),
        Some("impl") => match at.checked_sub(1).map(|before| &code[before]) {
            None | Some(Token::Mark('{' | '}' | ';' | ']')) => true,
            Some(before) => before.word() == Some("unsafe"),
        },
        _ => false,
    }
}

/// How many tokens the group has that `code` begins with: up to the bracket that closes the first one.
fn group(code: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// How many tokens the item has that `code` begins with: up to a `;` or to the end of its braces.
fn item(code: &[Token]) -> usize {
    let mut at = 0;
    while at < code.len() {
        match &code[at] {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') if !code[..at].iter().any(|t| t.word() == Some("use")) => return at + group(&code[at..]),
            Token::Mark('(' | '[' | '{') => at += group(&code[at..]),
            _ => at += 1,
        }
    }
    at
}

/// The parts of a list that commas separate.
fn branches(code: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while at < code.len() {
        if code[at].is(',') {
            parts.push(&code[from..at]);
            from = at + 1;
        }
        at += if code[at].is('{') { group(&code[at..]) } else { 1 };
    }
    if from < code.len() {
        parts.push(&code[from..]);
    }
    parts
}

/// `#[test]`, `#[cfg(test)]`
fn is_for_tests(attribute: &[Token]) -> bool {
    let words: Vec<&str> = attribute.iter().filter_map(Token::word).collect();
    words == ["test"] || words == ["cfg", "test"] || words == ["cfg", "doctest"]
}

/// `path` without `x/..`.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." && out.file_name().is_some() {
            out.pop();
        } else {
            out.push(part);
        }
    }
    out
}
