//! Where in the author's text the instructions come from of which a refusal speaks.
//!
//! A lane program keeps no places. Who is refused can wait: the kernel is lowered again, which gives the same program, and every instruction
//! that acts is noted with the place of its tile op.

use crate::error::LowerError;
use crate::lane::print::inst_text;
use crate::lane::{Inst, Program};
use crate::protocol::ProtocolError;
use tilelift_ir::Loc;

/// An instruction and the place of its tile op.
pub(super) type Origin = (Inst, Loc);

/// A refusal with the lines of its instructions, where they have one each.
pub(super) fn placed(e: ProtocolError, program: &Program, origins: impl FnOnce() -> Result<Vec<Origin>, LowerError>) -> ProtocolError {
    // The first answer was no error, and so is this one.
    let origins: Vec<(String, Loc)> =
        origins().unwrap_or_default().into_iter().filter(|o| o.1.is_known()).map(|(i, loc)| (inst_text(program, &i), loc)).collect();
    let line = |loc: Loc| (loc.file, loc.line);
    let place = |site: String| {
        let text = site.split('`').nth(1).unwrap_or("");
        let mut lines = origins.iter().filter(|o| o.0 == text).map(|o| o.1);
        match lines.next() {
            Some(at) if lines.all(|other| line(other) == line(at)) => match at.file {
                Some(_) => format!("{site} ({at})"),
                None => format!("{site} (line {})", at.line),
            },
            Some(_) | None => site,
        }
    };
    ProtocolError { here: place(e.here), other: e.other.map(place), problem: e.problem }
}
