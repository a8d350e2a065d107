//! The targets by name.

use crate::backend::Backend;
use tilelift_isel::Target;

/// Every target name, those with a text backend first.
pub const NAMES: &[&str] = &["sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950"];

/// The target of that name, if there is one.
///
/// ```
/// assert_eq!(tilelift::targets::by_name("sm_80").map(|t| t.lanes), Some(32));
/// assert_eq!(tilelift::targets::by_name("gfx942").map(|t| t.lanes), Some(64));
/// assert!(tilelift::targets::by_name("sm_1").is_none());
/// ```
pub fn by_name(name: &str) -> Option<Target> {
    tilelift_nvptx::by_name(name).or_else(|| tilelift_amdgcn::by_name(name))
}

/// True if a backend prints text for the target.
pub fn has_text(target: &Target) -> bool {
    Backend::of(target).is_some()
}

/// True if the backend of the target makes loadable code objects: no assembler is needed.
pub fn has_objects(target: &Target) -> bool {
    matches!(Backend::of(target), Some(Backend::Amdgcn(_)))
}

/// Names of the targets that a backend prints text for.
pub fn with_text() -> Vec<&'static str> {
    NAMES.iter().copied().filter(|n| by_name(n).is_some_and(|t| has_text(&t))).collect()
}

/// The target of tools that are told none: the oldest that every text backend here supports.
pub fn usual() -> Target {
    tilelift_nvptx::sm_80()
}
