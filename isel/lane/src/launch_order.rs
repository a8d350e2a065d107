//! Launches that overlap: a program that begins while the launch in front of it ends.
//!
//! ```text
//! launch n      ── … ── stores … ─┤ done, memory is to be seen
//! launch n + 1     begins: mbarriers, addresses ── AwaitPrevious ─ loads, stores …
//! ```
//!
//! Nothing asks for the next launch ahead of time: programs that wait beside running ones slowed those down by up to a fifth
//! (docs/log/performance.md, section 12), and the launch that comes when the last program ends hides as much.
//!
//! No access to global memory stands in front of [`Unit::AwaitPrevious`], so it does not matter to the numbers whether launches overlap.

use super::inst::Inst;
use super::program::Program;
use super::unit::Unit;
use super::visit;
use std::sync::Arc;
use tilelift_decisions::{Decision, Told, taken};

/// True if the instruction, or one in its blocks, touches global memory.
fn touches_global(inst: &Inst) -> bool {
    inst.effect().global() || visit::blocks(inst).any(|b| b.iter().any(touches_global))
}

/// Refuses a wait that a part of the program's warps, or not every run of it, comes to, and one behind an access to global memory.
pub(crate) fn in_order(program: &Program) -> Result<(), &'static str> {
    fn waits(inst: &Inst) -> bool {
        matches!(inst, Inst::Unit(u) if **u == Unit::AwaitPrevious)
    }
    fn inside(inst: &Inst) -> bool {
        inst.control().is_some() && visit::blocks(inst).any(|b| b.iter().any(|i| waits(i) || inside(i)))
    }
    if program.body.iter().any(inside) {
        return Err("a wait for the launches in front that not all lanes come to");
    }
    match program.body.iter().position(waits) {
        Some(n) if program.body[..n].iter().any(touches_global) => {
            Err("a wait for the launches in front behind an access to global memory")
        }
        Some(_) | None => Ok(()),
    }
}

/// Lets launches of the program overlap, as late in it as its first access to global memory allows.
pub fn overlap_launches(program: &mut Program) {
    if let Some(first) = program.body.iter().position(touches_global) {
        taken(Decision::LaunchOrder, || Told::of(format!("in front of instruction {first}")));
        program.body.insert(first, Inst::Unit(Arc::new(Unit::AwaitPrevious)));
    }
}
