//! The types that a crate declares, and names that more than one of them has.

use crate::modules::Module;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A name that a crate gives to several types, with the file of each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Twice {
    pub(crate) name: String,
    pub(crate) files: Vec<PathBuf>,
}

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let files: Vec<String> = self.files.iter().map(|p| p.display().to_string()).collect();
        writeln!(f, "{} is a type of {}", self.name, files.join(" and of "))
    }
}

/// The names that several types of a crate have. Types of folders that are `twins` do not count beside one another: each folder does the same
/// for another machine.
pub(crate) fn twice(modules: &[Module], twins: &[&str]) -> Vec<Twice> {
    let mut files: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for module in modules {
        for name in &module.types {
            files.entry(name).or_default().push(module.file.clone());
        }
    }
    let found = files.into_iter().filter(|(_, files)| files.len() > 1 && !apart(files, twins));
    found.map(|(name, files)| Twice { name: name.to_string(), files }).collect()
}

/// True if each of the files lies in a twin folder, and no two in the same one.
fn apart(files: &[PathBuf], twins: &[&str]) -> bool {
    let twin = |file: &PathBuf| twins.iter().position(|t| file.starts_with(Path::new(t)));
    let mut of: Vec<Option<usize>> = files.iter().map(twin).collect();
    of.sort();
    of.iter().all(Option::is_some) && of.windows(2).all(|w| w[0] != w[1])
}
