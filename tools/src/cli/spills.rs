//! What `compile` and `explain` say of kernels whose lanes need more registers than there are.

use tilelift_isel::Target;
use tilelift_isel::lane::Program;

/// A sentence for each part of a program that are likely to spill. AMD chips have none here: their backend gives registers itself, and refuses what does not fit.
pub(super) fn foreseen(program: &Program, target: &Target) -> Vec<String> {
    if tilelift_nvptx::by_name(target.name).is_none() {
        return Vec::new();
    }
    let say = |s: tilelift_nvptx::Spill| {
        let who = s.role.map_or_else(|| "lanes need".to_owned(), |role| format!("lanes of task {role} need"));
        format!(
            "{who} about {} registers at once, and {} gives each of them {}: the rest is likely to be spilled to local memory, which is slow; use \
             more warps, or a smaller tile",
            s.needs, target.name, s.has
        )
    };
    tilelift_nvptx::spills(program, target).into_iter().map(say).collect()
}
