//! A proof, for every number of steps of every loop, that the roles of a lane program work together: none waits for ever, nothing is
//! read before it has arrived or overwritten while it is read, every barrier word gets the arrivals and bytes that its phases expect.
//!
//! ```text
//! lane program ── slots, parities, barrier addresses and guards are computed, all else is unknown
//!              ── how often a loop goes round is open: both answers are followed at every turn, the same in all roles with equal bounds
//!              ── states that were seen before are not followed again: slots and parities repeat, so there are few
//! ```
//!
//! What multiplications take from registers and leave in them is each role's own affair: [`flight`] follows it without regard to the rest.
//!
//! A role waits only for a conjunction of events of others, so for one sequence of answers either every order of steps ends or none
//! does: one order decides about deadlock. About what must not overlap it decides, too, because each role keeps what it has learnt by
//! waiting: it may read a slot, or overwrite it, only if a wait has told it that the slot is full, or that its reads are done.

mod explicit;
mod find;
mod flight;
mod regions;
mod run;
mod streams;
#[cfg(test)]
mod tests;
mod value;
mod word;

use crate::lane::Program;
use crate::target::Target;
use std::fmt;

/// Why a program is not proved, with the instructions that take part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtocolError {
    /// What may happen.
    pub problem: String,
    /// The instruction at which it shows, as printed, and its role.
    pub here: String,
    /// The other instruction that takes part.
    pub other: Option<String>,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.problem, self.here)?;
        match &self.other {
            Some(other) => write!(f, "; see {other}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// What a proof went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// States at which a loop's end was open.
    pub states: usize,
}

/// Proves a program that its verifier accepts. One without roles has nothing to prove.
///
/// # Errors
/// The first thing that may go wrong, or that is not understood.
pub fn prove(program: &Program, target: &Target) -> Result<Proof, ProtocolError> {
    let (Some(roles), Some(units)) = (program.roles(), &target.units) else { return Ok(Proof::default()) };
    roles.roles.iter().try_for_each(|r| flight::check(program, r))?;
    let streams = streams::streams(program, roles);
    let mut last = None;
    let explicit = program.allocs.values().any(|a| a.grain > 0);
    for effort in explicit::EFFORTS.into_iter().take(if explicit { explicit::EFFORTS.len() } else { 1 }) {
        match run::explore(program, roles, units, &streams, effort) {
            Ok(states) => return Ok(Proof { states }),
            // The first answer is the one nearest to what the author wrote.
            Err(e) => {
                let full = e.problem.starts_with("more than");
                last = last.or(Some(e));
                // More effort takes more states.
                if full {
                    break;
                }
            }
        }
    }
    last.map_or(Ok(Proof::default()), Err)
}
