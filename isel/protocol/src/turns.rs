//! Turns of warpgroups, in the order of the text: they begin and end by turns, on all paths alike, and in none of them do all groups of the role meet, since
//! those that wait for their turn would not come.
//!
//! The proof finds such a meeting, too, as a wait for ever; this is one look at each instruction, for what the compiler writes itself.

use crate::error::{ProtocolError, Spot};
use crate::find::any;
use crate::problem::Problem;
use tilelift_lane::visit::blocks;
use tilelift_lane::{Block, Inst, Program, TurnEnd, Unit};

/// Checks the body of a role.
pub(super) fn check(program: &Program, name: &str, body: &Block) -> Result<(), ProtocolError> {
    if !any(body, &|i| matches!(i, Inst::Unit(u) if matches!(**u, Unit::Turn { .. }))) {
        return Ok(());
    }
    follow(program, name, body, Now::None).map(drop)
}

/// Where a group stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    /// Before its first turn, or behind its last one.
    None,
    Turn,
    /// Behind a turn, in front of another one.
    Between,
}

/// Where groups stand behind a block.
fn follow(program: &Program, name: &str, block: &Block, mut now: Now) -> Result<Now, ProtocolError> {
    for inst in block {
        let refuse = |problem| Err(ProtocolError { problem, here: Spot::inst(program, inst, name), other: None });
        match inst {
            Inst::Unit(u) => {
                let Unit::Turn { end, .. } = **u else { continue };
                now = match (end, now) {
                    (TurnEnd::First, Now::None) | (TurnEnd::Wait, Now::Between) => Now::Turn,
                    (TurnEnd::Pass, Now::Turn) => Now::Between,
                    (TurnEnd::Last, Now::Turn) => Now::None,
                    _ => return refuse(Problem::TurnOrder),
                };
            }
            Inst::Barrier if now == Now::Turn => return refuse(Problem::MeetingInTurn),
            Inst::If(_) => {
                let ends = blocks(inst).map(|b| follow(program, name, b, now)).collect::<Result<Vec<Now>, _>>()?;
                match ends[..] {
                    [then, otherwise] if then == otherwise => now = then,
                    _ => return refuse(Problem::TurnOrder),
                }
            }
            // A loop leaves turns as it finds them.
            other => {
                for b in blocks(other) {
                    if follow(program, name, b, now)? != now {
                        return refuse(Problem::TurnOrder);
                    }
                }
            }
        }
    }
    Ok(now)
}
