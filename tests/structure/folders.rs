//! Folders of a crate, and the circles among what lies in each.

use crate::imports::Import;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Files and folders of one folder that import one another.
pub(crate) struct Circle {
    pub(crate) entries: BTreeSet<PathBuf>,
    pub(crate) imports: Vec<Import>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let entries: Vec<String> = self.entries.iter().map(|e| e.display().to_string()).collect();
        writeln!(f, "{} import one another:", entries.join(", "))?;
        for i in &self.imports {
            writeln!(f, "    {} takes {} of {}", i.from.display(), i.name, i.to.display())?;
        }
        Ok(())
    }
}

/// The circles of each folder, where a folder in it counts as one: so no import climbs, and no files go in a circle.
pub(crate) fn circles(imports: &BTreeSet<Import>) -> Vec<Circle> {
    let folders: BTreeSet<&Path> = imports.iter().flat_map(|i| [&i.from, &i.to]).filter_map(|p| p.parent()).collect();
    // `x.rs` beside the folder `x` is the folder's door, as `x/mod.rs` is.
    let place = |file: &Path| match file.with_extension("") {
        folder if folders.contains(folder.as_path()) => folder.join("mod.rs"),
        _ => file.to_path_buf(),
    };
    let mut of_folder: BTreeMap<PathBuf, Vec<(PathBuf, PathBuf, &Import)>> = BTreeMap::new();
    for import in imports {
        let (folder, from, to) = apart(&place(&import.from), &place(&import.to));
        of_folder.entry(folder).or_default().push((from, to, import));
    }
    of_folder.into_values().flat_map(|arrows| circles_among(&arrows)).collect()
}

/// The deepest folder that has both, and where in it each of them is.
fn apart(from: &Path, to: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let folder: PathBuf = from.iter().take(same).collect();
    let entry = |path: &Path| path.iter().take(same + 1).collect();
    (folder, entry(from), entry(to))
}

fn circles_among(arrows: &[(PathBuf, PathBuf, &Import)]) -> Vec<Circle> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = arrows.iter().map(|(from, ..)| (from.as_path(), reach(from, arrows))).collect();
    let both_ways = |a: &Path, b: &Path| reached.get(a).is_some_and(|r| r.contains(b)) && reached.get(b).is_some_and(|r| r.contains(a));
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    let mut found = Vec::new();
    for &entry in reached.keys() {
        if !seen.contains(entry) && both_ways(entry, entry) {
            let entries: BTreeSet<PathBuf> = reached.keys().filter(|e| both_ways(entry, e)).map(|e| e.to_path_buf()).collect();
            let imports =
                arrows.iter().filter(|(from, to, _)| entries.contains(from) && entries.contains(to)).map(|a| a.2.clone()).collect();
            seen.extend(reached.keys().filter(|e| entries.contains(**e)));
            found.push(Circle { entries, imports });
        }
    }
    found
}

/// Entries that `from` imports, straight or by others.
fn reach<'a>(from: &Path, arrows: &'a [(PathBuf, PathBuf, &Import)]) -> BTreeSet<&'a Path> {
    let mut found: BTreeSet<&Path> = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        open.extend(arrows.iter().filter(|(a, ..)| a == at).filter_map(|(_, to, _)| found.insert(to).then_some(to.as_path())));
    }
    found
}
