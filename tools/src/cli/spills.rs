//! What `compile` and `explain` say of kernels whose lanes need more registers than there are.

use tilelift_amdgcn::Chip;
use tilelift_isel::Target;
use tilelift_isel::lane::Program;

/// What to do about it.
const INSTEAD: &str = "which is slow; use more warps, or a smaller tile";

/// A sentence for each part of a program that spills to memory: that an assembler spills unless it finds a better order, or that AMD's backend does, which gives
/// registers itself.
pub(super) fn foreseen(program: &Program, target: &Target) -> Vec<String> {
    if tilelift_nvptx::by_name(target.name).is_some() {
        return tilelift_nvptx::spills(program, target).into_iter().map(|s| likely(s, target)).collect();
    }
    let made = Chip::by_name(target.name).and_then(|chip| tilelift_amdgcn::spill(program, chip));
    made.into_iter().map(|s| certain(s, target)).collect()
}

fn likely(s: tilelift_nvptx::Spill, target: &Target) -> String {
    let who = s.role.map_or_else(|| "lanes need".to_owned(), |role| format!("lanes of task {role} need"));
    format!(
        "{who} about {} registers at once as the text stands, and {} gives each of them {}: what the assembler finds no better order for is spilled to local memory, {INSTEAD}",
        s.needs, target.name, s.has
    )
}

fn certain(s: tilelift_amdgcn::Spill, target: &Target) -> String {
    format!(
        "lanes need more than the {} registers that {} gives each of them: {} bytes of each are spilled to scratch memory, {INSTEAD}",
        s.has, target.name, s.bytes
    )
}
