//! Where in the author's text the instructions come from of which a refusal speaks.
//!
//! A lane program keeps no places. Who is refused can wait: the kernel is lowered again, which gives the same program, and every instruction
//! that acts is noted with the place of its tile op.

use crate::lane::inst_text;
use crate::lane::{Inst, Program};
use tilelift_ir::Loc;
use tilelift_protocol::ProtocolError;
use tilelift_schedule::LowerError;

/// An instruction and the place of its tile op.
pub(crate) type Origin = (Inst, Loc);

/// A refusal with the lines of its instructions, where they have one each.
pub(crate) fn placed(e: ProtocolError, program: &Program, origins: impl FnOnce() -> Result<Vec<Origin>, LowerError>) -> ProtocolError {
    // The first answer was no error, and so is this one.
    let origins: Vec<(String, u32)> =
        origins().unwrap_or_default().into_iter().map(|(i, loc)| (inst_text(program, &i), loc.line)).filter(|o| o.1 > 0).collect();
    let place = |site: String| {
        let text = site.split('`').nth(1).unwrap_or("");
        let mut lines = origins.iter().filter(|o| o.0 == text).map(|o| o.1);
        match lines.next() {
            Some(line) if lines.all(|other| other == line) => format!("{site} (line {line})"),
            Some(_) | None => site,
        }
    };
    ProtocolError { here: place(e.here), other: e.other.map(place), problem: e.problem }
}
