//! A proof, for every number of steps of every loop, that the roles of a lane program work together: none waits for ever, nothing is
//! read before it has arrived or overwritten while it is read, every mbarrier gets the arrivals and bytes that its phases expect.
//!
//! ```text
//! lane program ── slots, parities, barrier addresses and guards are computed, all else is unknown
//!              ── how often a loop goes round is open: both answers are followed at every iteration, the same in all roles with equal bounds
//!              ── states that were seen before are not followed again: slots and parities repeat, so there are few
//! ```
//!
//! Who changes the number of its registers gets them: [`Registers`] has the reason.
//! What multiplications take from registers and leave in them is each role's own affair: `in_flight` follows it without regard to the rest.
//!
//! A role waits only for a conjunction of events of others, so for one sequence of answers either every order of steps ends or none
//! does: one order decides about deadlock. About what must not overlap it decides, too, because each role keeps what it has learnt by
//! waiting: it may read a slot, or overwrite it, only if a wait has told it that the slot is full, or that its reads are done.
//!
//! `run` follows the instructions, `effects` what they do to local memory and barriers, of all blocks of a cluster, with roles or without,
//! whoever wrote them.

#![deny(missing_docs)]

mod effects;
mod env;
mod error;
mod eval;
mod find;
mod in_flight;
mod makers;
mod problem;
mod run;
mod site;
mod state;
mod trip_classes;
mod turns;
mod unwritten;
mod value;

pub use error::{ProtocolError, Spot};
pub use problem::{Doing, Many, Outside, Problem};
pub use run::MOST_STEPS;

use crate::find::copies;
use crate::run::agents::Groups;
use crate::state::analysis::{EFFORTS, goes_round_often};
use crate::trip_classes::Asked;
use tilelift_lane::hash::Map;
use tilelift_lane::{Block, Inst, Program, RegisterError, Registers, Target, Unit, Units, visit};

/// What a proof went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// States at which a loop's end was open.
    pub states: usize,
    /// Steps that it took, of at most [`MOST_STEPS`].
    pub steps: u64,
}

/// What there is to prove.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meets {
    /// Roles, units or blocks hand local memory to one another.
    Others,
    /// Nobody meets anybody: all warps go together, and use local memory alone.
    Nobody,
}

fn meets(program: &Program) -> Option<Meets> {
    fn any(block: &Block, is: &dyn Fn(&Unit) -> bool) -> bool {
        block.iter().any(|i| match i {
            Inst::Unit(u) => is(u),
            other => visit::blocks(other).any(|b| any(b, is)),
        })
    }
    let others = |u: &Unit| {
        use Unit::*;
        matches!(u, InitBarrier { .. } | ClusterArrive { .. } | Remote { .. } | NamedBarrier { .. } | BulkStore { .. })
    };
    let local = program.allocs.values().any(|a| a.region_bytes > 0);
    match program.roles() {
        Some(_) => Some(Meets::Others),
        // Lanes that go together have nothing to do with one another but by units.
        None if any(&program.body, &others) => Some(Meets::Others),
        None => local.then_some(Meets::Nobody),
    }
}

/// Refuses a named barrier of which two places say that different numbers of warps come.
fn named(program: &Program) -> Result<(), ProtocolError> {
    fn visit<'p>(block: &'p Block, f: &mut dyn FnMut(&'p Inst, u32, u32) -> Result<(), ProtocolError>) -> Result<(), ProtocolError> {
        block.iter().try_for_each(|inst| match inst {
            Inst::Unit(u) => match **u {
                Unit::NamedBarrier { id, warps, .. } => f(inst, id, warps),
                _ => Ok(()),
            },
            other => visit::blocks(other).try_for_each(|b| visit(b, f)),
        })
    }
    let mut first: Map<u32, (u32, Box<Spot>)> = Map::default();
    for role in program.roles().map_or(&[][..], |r| &r.roles[..]) {
        visit(&role.body, &mut |inst, id, warps| {
            let here = Spot::inst(program, inst, &role.name);
            match first.entry(id).or_insert_with(|| (warps, here.clone())) {
                (others, _) if *others == warps => Ok(()),
                (others, site) => {
                    let problem = Problem::Warps { meet: [warps, *others] };
                    Err(ProtocolError { problem, here, other: Some(site.clone()) })
                }
            }
        })?;
    }
    Ok(())
}

/// Refuses roles that ask for registers which the pool never has.
fn registers(program: &Program, target: &Target, units: &Units) -> Result<(), ProtocolError> {
    Registers::of(target, units, program.warps).check_pool(program).map_err(|e| {
        let roles = program.roles().map_or(&[][..], |r| &r.roles[..]);
        let name = match &e {
            RegisterError::PartOfGroup { role, .. } | RegisterError::Number { role, .. } => Some(role.as_str()),
            // Who asks for most waits.
            RegisterError::Pool { .. } | RegisterError::Matrix { .. } => roles.iter().max_by_key(|r| r.registers).map(|r| r.name.as_str()),
        };
        let here = Spot::program(&name.map_or("the program".to_owned(), |r| format!("the start of {r}")));
        ProtocolError { problem: Problem::Registers(e), here, other: None }
    })
}

/// Checks that lanes touch no register of a multiplication until it is over, and that warpgroups that take turns do not meet in one: the
/// part of the proof that looks at each role alone, and takes little of its time.
///
/// # Errors
/// The first instruction that reads or writes what is in flight.
pub fn check_products(program: &Program) -> Result<(), ProtocolError> {
    match program.roles() {
        Some(roles) => roles.roles.iter().try_for_each(|r| {
            in_flight::check(program, &r.name, &r.body)?;
            turns::check(program, &r.name, &r.body)
        }),
        None => in_flight::check(program, "the program", &program.body),
    }
}

/// Proves a program that its verifier accepts. One without roles, mbarriers and clusters has nothing to prove.
///
/// # Errors
/// The first thing that may go wrong, or that is not understood.
pub fn prove(program: &Program, target: &Target) -> Result<Proof, ProtocolError> {
    prove_as(program, target, true)
}

/// The same by every state, even of those that differ only by how far rings have gone round: a slower way to the same answer, and a check of
/// the quick one.
///
/// # Errors
/// As [`prove`].
pub fn prove_by_all_states(program: &Program, target: &Target) -> Result<Proof, ProtocolError> {
    prove_as(program, target, false)
}

fn prove_as(whole: &Program, target: &Target, rotates: bool) -> Result<Proof, ProtocolError> {
    let program = &*whole.roles_apart();
    let units = match &target.units {
        Some(units) => {
            registers(program, target, units)?;
            Groups { group_warps: units.group_warps, matrix: &units.matrix }
        }
        None if copies(&program.body) => Groups { group_warps: program.warps, matrix: &[] },
        None => return Ok(Proof::default()),
    };
    let Some(meets) = meets(program) else { return Ok(Proof::default()) };
    // Replicas have the same code: registers of products are looked at once.
    check_products(whole)?;
    named(program)?;
    let alone = meets == Meets::Nobody;
    match explored(program, units, Asked::Loops, (alone, rotates)) {
        // What is known of a choice by what is computed tells more than an answer: answers are for those of which nothing is known, and for those in
        // which all warps of a role meet, which nobody waits for otherwise.
        Err(e) if matches!(e.problem, Problem::Choice | Problem::WaitInChoice) || of_meetings(&e.problem) && meets_in_choice(program) => {
            let again = explored(program, units, Asked::LoopsAndChoices, (alone, rotates));
            again.map_err(|other| if matches!(other.problem, Problem::TooComplex(_)) { other } else { e })
        }
        done => done,
    }
}

/// True for what a meeting of lanes may mend.
fn of_meetings(problem: &Problem) -> bool {
    use Problem::*;
    matches!(problem, UnitBeforeLanes | UnitOverLanes | CopyOverLanes | CopiesNotWaited | NotThere | StillRead)
}

/// True if all warps of a role meet in a block of a choice.
fn meets_in_choice(program: &Program) -> bool {
    fn visit(block: &Block) -> bool {
        block.iter().any(|inst| match inst {
            Inst::If(c) => find::meets(&c.then) || find::meets(&c.otherwise),
            other => visit::blocks(other).any(visit),
        })
    }
    program.roles().is_some_and(|r| r.roles.iter().any(|r| visit(&r.body)))
}

/// Follows all answers, with more and more effort.
fn explored(program: &Program, units: Groups<'_>, asked: Asked, (alone, rotates): (bool, bool)) -> Result<Proof, ProtocolError> {
    let trip_classes = trip_classes::trip_classes(program, asked);
    let (fuel, mut first) = (run::Fuel::default(), None);
    let often = goes_round_often(program);
    for effort in EFFORTS.into_iter().filter(|e| often || !e.periods) {
        if fuel.spent() && first.is_some() {
            break;
        }
        match run::explore(program, units, &trip_classes, (effort, alone), rotates, &fuel) {
            Ok(states) => return Ok(Proof { states, steps: fuel.burnt() }),
            // Whole slots prove, and do not refuse.
            Err(_) if effort.coarse => {}
            // How often a loop goes round is better known than that it goes round as often as another one.
            Err(e) if effort.periods && !matches!(e.problem, Problem::TooComplex(_)) => first = Some(e),
            // The first answer is the one nearest to what the author wrote.
            Err(e) => first = first.or(Some(e)),
        }
    }
    first.map_or(Ok(Proof::default()), Err)
}
