//! Registers for a program in one of two orders: with loads early, or as it was selected; before both, as ping-pong of the workgroup's halves.
//!
//! An order that loads early may cost spills, or wavefronts that could run at a time. It is kept where it costs neither. The other order is
//! looked at no further than is needed to know which one does better.

use super::class::{Class, class};
use super::ping_pong::{PingPong, candidates};
use super::schedule::schedule;
use crate::alloc::{AllocError, Allocated, Draft, Spills};
use crate::mir::Program;

/// Unified registers of a lane.
const REGISTERS: u32 = 512;
/// Wavefronts that share a unit, of which more do not hide more latency than an order with loads early.
const ENOUGH_WAVES: u32 = 4;

/// The same of those that multiply matrices in loops: what one does beside its products runs beside those of the other.
const ENOUGH_THAT_MULTIPLY: u32 = 2;
/// Units of vector instructions that the wavefronts of a compute unit share.
const SIMDS: u32 = 4;

/// Ping-pongs of a program for which places of registers are sought.
const PLACED: usize = 2;

/// Wavefronts that share a unit, as far as more of them count: those of the workgroups for which a compute unit has local data share.
fn most_waves(program: &Program) -> u32 {
    let groups = crate::machine::lds_bytes(program.chip) / program.lds_bytes.max(1);
    let multiplies =
        program.blocks.values().filter(|b| b.depth > 0).flat_map(|b| &b.insts).any(|i| matches!(class(i, program.chip), Class::Matrix(..)));
    (groups.saturating_mul(program.waves) / SIMDS).clamp(1, if multiplies { ENOUGH_THAT_MULTIPLY } else { ENOUGH_WAVES })
}

/// Wavefronts that can run at a time with so many registers, of at most so many.
fn waves(pool: u32, most: u32) -> u32 {
    (REGISTERS / pool.max(1)).min(most)
}

/// Allocates a program, reordered if that costs neither spills nor wavefronts that could run at a time.
///
/// The program that was allocated stands beside the result: origins of instructions are positions in it.
///
/// # Errors
/// If neither order has an allocation, or the first one's takes too much work.
pub fn schedule_and_allocate(program: Program) -> Result<(Program, Allocated), AllocError> {
    let mut orders = Orders::new(program.clone());
    let (order, allocated) = match orders.without_spills()? {
        Some(made) => made,
        None => orders.with_spills(None)?.ok_or(AllocError::Spilling)?,
    };
    let early = || schedule(&program);
    let apart = |found: PingPong| candidates(&program, &early()).into_iter().find(|(other, _)| *other == found).map(|(_, made)| made);
    let ordered = match order {
        Order::Early => Some(early()),
        Order::PingPong(found) => apart(found),
        Order::Selected => None,
    };
    Ok((ordered.unwrap_or(program), allocated))
}

/// An order of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Loads go up.
    Early,
    /// As instructions were selected.
    Selected,
    /// Ping-pong of the workgroup's halves; loads go up within stretches.
    PingPong(PingPong),
}

/// How far an order has come.
enum Progress {
    /// It has to spill.
    Spills(Box<Draft>),
    /// It has no allocation.
    Fails(AllocError),
}

/// A program, and how far its orders have come.
pub(crate) struct Orders {
    /// See [`most_waves`].
    most: u32,
    program: Option<Program>,
    early: Progress,
    selected: Progress,
}

/// An order, and its registers.
pub(crate) type Made = (Order, Allocated);

impl Orders {
    /// Nothing is known of its orders.
    pub(crate) fn new(program: Program) -> Orders {
        let unknown = || Progress::Fails(AllocError::Spilling);
        Orders { most: most_waves(&program), program: Some(program), early: unknown(), selected: unknown() }
    }

    /// The better order, if it spills nothing.
    ///
    /// # Errors
    /// If the first order takes too much work.
    pub(crate) fn without_spills(&mut self) -> Result<Option<Made>, AllocError> {
        let Some(program) = self.program.take() else { return Ok(None) };
        let all = self.most;
        let scheduled = schedule(&program);
        let apart = candidates(&program, &scheduled);
        let early = match placed(Draft::new(scheduled)) {
            Ok(early) => Some(early),
            // What is too much work in one order is so in the other.
            Err(Progress::Fails(AllocError::TooMuchWork)) => return Err(AllocError::TooMuchWork),
            Err(progress) => {
                self.early = progress;
                None
            }
        };
        if let Some(made) = ping_pong(&program, apart, early.as_ref()) {
            return Ok(Some(made));
        }
        let most = early.as_ref().map_or(0, |a| waves(a.facts.pool(), all));
        if most == all {
            return Ok(early.map(|a| (Order::Early, a)));
        }
        let draft = Draft::new(program);
        let Some(early) = early else {
            return Ok(match placed(draft) {
                Ok(selected) => Some((Order::Selected, selected)),
                Err(progress) => {
                    self.selected = progress;
                    None
                }
            });
        };
        // The first order needs no spills: the second one is better only if it leaves room for more wavefronts.
        let better = match draft {
            Ok(draft) if waves(draft.fewest(), all) > most => match draft.place() {
                Ok(Ok(selected)) if waves(selected.facts.pool(), all) > most => Some((Order::Selected, selected)),
                _ => None,
            },
            _ => None,
        };
        Ok(Some(better.unwrap_or((Order::Early, early))))
    }

    /// The better order, where both spill or fail: [`Orders::without_spills`] answered nothing. Nothing comes where `enough` is given and both
    /// spill as much or more.
    ///
    /// # Errors
    /// If neither order has an allocation, or the first one's takes too much work.
    pub(crate) fn with_spills(self, enough: Option<Spills>) -> Result<Option<Made>, AllocError> {
        let early = match self.early {
            Progress::Spills(draft) => draft.finish(enough),
            Progress::Fails(e) => Err(e),
        };
        if early == Err(AllocError::TooMuchWork) {
            return Err(AllocError::TooMuchWork);
        }
        let bound = match &early {
            Ok(Some(a)) => Some(a.facts.spills),
            _ => enough,
        };
        let selected = match self.selected {
            Progress::Spills(draft) => draft.finish(bound),
            Progress::Fails(e) => Err(e),
        };
        let cost = |a: &Allocated| (a.facts.spills.order(), self.most - waves(a.facts.pool(), self.most));
        Ok(match (early, selected) {
            (Ok(Some(a)), Ok(Some(b))) if cost(&a) > cost(&b) => Some((Order::Selected, b)),
            (Ok(Some(a)), _) => Some((Order::Early, a)),
            (_, Ok(Some(b))) => Some((Order::Selected, b)),
            (Ok(None), _) | (_, Ok(None)) => None,
            (Err(_), Err(e)) => return Err(e),
        })
    }
}

/// The first ping-pong of a program that has registers, if a compute unit has room for no other workgroup of the other order: that one would fill the time in
/// which all wavefronts of this one wait.
fn ping_pong(program: &Program, apart: Vec<(PingPong, Program)>, early: Option<&Allocated>) -> Option<Made> {
    let by_lds = crate::machine::lds_bytes(program.chip) / program.lds_bytes.max(1);
    let groups = |pool: u32| by_lds.min(waves(pool, u32::MAX) * SIMDS / program.waves.max(1));
    if early.is_some_and(|early| groups(early.facts.pool()) > 1) {
        return None;
    }
    // What has more alive at a time than there are registers is not looked at further.
    let drafts = apart.into_iter().filter_map(|(found, made)| {
        let draft = Draft::new(made).ok()?;
        (groups(draft.fewest()) > 0).then_some((found, draft))
    });
    drafts.take(PLACED).find_map(|(found, draft)| match draft.place() {
        Ok(Ok(allocated)) if groups(allocated.facts.pool()) > 0 => Some((Order::PingPong(found), allocated)),
        _ => None,
    })
}

/// What a draft comes to without spills.
fn placed(draft: Result<Draft, AllocError>) -> Result<Allocated, Progress> {
    match draft.and_then(Draft::place) {
        Ok(Ok(allocated)) => Ok(allocated),
        Ok(Err(draft)) => Err(Progress::Spills(draft)),
        Err(e) => Err(Progress::Fails(e)),
    }
}
