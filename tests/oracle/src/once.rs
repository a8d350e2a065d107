//! Which texts a test has had assembled.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Architectures whose registers and units are one another's: a text for one of them that names its target alone differently, and the version that knows
/// it, is no new one for the assembler.
const ALIKE: [&str; 2] = ["sm_80", "sm_89"];

/// The texts that a test has had assembled, so that each is once: shapes of the same facts, levels that change nothing, and targets of one kind give the
/// same text.
#[derive(Default)]
pub struct Once(Mutex<HashSet<u64>>);

impl Once {
    /// True the first time that a text comes, for an architecture or one like it.
    pub fn is_new(&self, text: &str, arch: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        ALIKE.iter().find(|&&a| a == arch).map_or(arch, |_| ALIKE[0]).hash(&mut hasher);
        text.lines().filter(|l| ![".target", ".version"].iter().any(|d| l.starts_with(d))).for_each(|l| l.hash(&mut hasher));
        // A thread that panicked has left a set that is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_new_once_for_targets_of_one_kind() {
        let once = Once::default();
        let text = |arch: &str, body: &str| format!(".version {}\n.target {arch}\n{body}\n", if arch == "sm_80" { "7.0" } else { "7.8" });
        let asked = [("sm_80", "a"), ("sm_89", "a"), ("sm_90a", "a"), ("sm_90a", "a"), ("sm_89", "b"), ("sm_80", "b")];
        assert_eq!(asked.map(|(arch, body)| once.is_new(&text(arch, body), arch)), [true, false, true, false, true, false]);
    }
}
