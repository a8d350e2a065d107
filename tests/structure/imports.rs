//! Which file of a crate takes what from which other: names are followed through the doors that hand them on.

use crate::modules::Module;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// `from` takes `name` of `to`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) name: String,
}

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Module(usize),
    /// Something that this module defines.
    In(usize),
}

/// Modules and the names that were looked for in them: circles of `use` items end here.
type Seen = BTreeSet<(usize, String)>;

pub(crate) fn imports(modules: &[Module]) -> BTreeSet<Import> {
    let mut found = BTreeSet::new();
    let mut note = |from: usize, path: &[String], name: &str| {
        if let Some(Named::In(to)) = resolve(modules, from, path, &mut Seen::new())
            && modules[from].file != modules[to].file
        {
            found.insert(Import { from: modules[from].file.clone(), to: modules[to].file.clone(), name: name.to_string() });
        }
    };
    for (at, module) in modules.iter().enumerate() {
        for path in &module.paths {
            note(at, path, path.iter().find(|w| w.starts_with(char::is_uppercase)).unwrap_or(&path[path.len() - 1]));
        }
        for path in &module.globs {
            // All names of the module, as if it were named itself.
            if let Some(Named::Module(to)) = resolve(modules, at, path, &mut Seen::new())
                && let Some(name) = modules[to].items.first()
            {
                note(at, &[path.as_slice(), std::slice::from_ref(name)].concat(), "*");
            }
        }
        for brought in &module.uses {
            // What is a module and a function is the module where names of it are used.
            let used: Vec<String> = module.paths.iter().find(|p| p[0] == brought.name).map_or(Vec::new(), |p| p[1..].to_vec());
            note(at, &[brought.path.as_slice(), &used].concat(), &brought.name);
        }
    }
    found
}

fn resolve(modules: &[Module], from: usize, path: &[String], seen: &mut Seen) -> Option<Named> {
    let (first, rest) = path.split_first()?;
    let start = match first.as_str() {
        "crate" => Named::Module(0),
        "self" => Named::Module(from),
        "super" => Named::Module(modules[from].parent?),
        name => inside(modules, from, name, !rest.is_empty(), seen)?,
    };
    follow(modules, start, rest, seen)
}

fn follow(modules: &[Module], start: Named, path: &[String], seen: &mut Seen) -> Option<Named> {
    let mut at = start;
    for (i, name) in path.iter().enumerate() {
        let Named::Module(module) = at else { return Some(at) };
        at = match name.as_str() {
            "super" => Named::Module(modules[module].parent?),
            // What a macro makes there, or what a macro is.
            _ => inside(modules, module, name, i + 1 < path.len(), seen).unwrap_or(Named::In(exported(modules, module, name))),
        };
    }
    Some(at)
}

/// What `name` is in `module`. A module and a function may have one name: in front of more names it is the module.
fn inside(modules: &[Module], module: usize, name: &str, more: bool, seen: &mut Seen) -> Option<Named> {
    let here = &modules[module];
    if !seen.insert((module, name.to_string())) {
        return None;
    }
    if let Some(&child) = here.children.get(name).filter(|_| more) {
        return Some(Named::Module(child));
    }
    if let Some(brought) = here.uses.iter().find(|u| u.name == name && u.path.first().is_some_and(|f| f != name)) {
        let of = resolve(modules, module, &brought.path, seen);
        // An import of both is taken for what the file uses.
        let both = || brought.path.split_last().and_then(|(_, way)| resolve(modules, module, way, &mut Seen::new()));
        return match (of, more.then(both).flatten()) {
            (Some(Named::In(_)), Some(Named::Module(above))) => modules[above].children.get(name).map(|&c| Named::Module(c)).or(of),
            (of, _) => of,
        };
    }
    if let Some(&child) = here.children.get(name) {
        return Some(Named::Module(child));
    }
    if here.items.contains(name) {
        return Some(Named::In(module));
    }
    here.globs.iter().find_map(|path| match resolve(modules, module, path, seen)? {
        Named::Module(of) if of != module => inside(modules, of, name, more, seen),
        Named::Module(_) | Named::In(_) => None,
    })
}

/// A macro of the whole crate stands at the crate's root, wherever it is written.
fn exported(modules: &[Module], module: usize, name: &str) -> usize {
    if module != 0 {
        return module;
    }
    modules.iter().position(|m| m.items.contains(name)).unwrap_or(module)
}
