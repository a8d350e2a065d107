//! Operands that the consumers compute and store for their products.
//!
//! ```text
//! a step    store ─ fence ─ all have stored ─ the products that read it ─ their wait ─ the slot is given back, when all have waited
//! ```
//!
//! Where no slot is given back in between, lanes meet between the wait for products and the next store. What is computed a step ahead of its products has two
//! buffers, which steps take in turns: lanes store into the one while products read the other ([`super::converted`]).

use super::Refusal;
use super::schedule::{ProgramPlan, buffer_type};
use super::write::{Arg, Writer, number};
use crate::plan::StagedOperand;
use std::collections::BTreeSet;
use tilelift_ir::{Attr, Inst, Op};

/// Buffers of what is computed a step ahead.
const BUFFERS: u32 = 2;

/// What is known of the buffers within a step.
#[derive(Clone, Default)]
pub(super) struct StagedState {
    /// What is stored in this step, by number.
    pub stored: BTreeSet<usize>,
    /// Buffers whose products are over, as each group knows of its own; lanes have not met since.
    pub read: BTreeSet<usize>,
    /// Updates whose buffers bulk copies have read, as all lanes know, by number.
    pub sent: BTreeSet<usize>,
}

/// Two dimensions, exchanged.
fn exchanged() -> Attr {
    Attr::Perm([1, 0].into_iter().collect())
}

impl ProgramPlan<'_> {
    /// Allocates the buffers, for all loops.
    pub(super) fn alloc_staged(&mut self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        for s in self.before.iter_mut() {
            s.alloc_staged(w)?;
        }
        for s in &self.plan.staged {
            let turns = self.turns(s).then_some(BUFFERS);
            let shape: Vec<u32> = turns.into_iter().chain(s.tile.shape.iter().copied()).collect();
            self.staged.push(w.buffer(&buffer_type(&shape, &s.tile), &s.tile)?);
        }
        Ok(())
    }

    /// True for a tile whose buffers steps take in turns.
    fn turns(&self, s: &StagedOperand) -> bool {
        self.plan.converts_ahead && s.moves
    }

    /// The buffer of a tile in a step.
    fn buffer_in(&self, w: &mut Writer<'_>, n: usize, step: Option<Arg>) -> Result<Arg, Refusal> {
        let whole = self.staged[n];
        let turn: Arg = match step.filter(|_| self.turns(&self.plan.staged[n])) {
            None => return Ok(whole.into()),
            Some(step @ Arg::Value(_)) => w.bin(Op::Rem, step, number(BUFFERS))?.into(),
            // The very first step.
            Some(Arg::Literal(..)) => number(0),
        };
        Ok(w.bin(Op::LocalIndex, whole, turn)?.into())
    }

    /// Stores what the products of a step read, while those of the step before run; each group has waited for the ones before that, which read the same
    /// buffers.
    pub(super) fn stage_ahead(&self, w: &mut Writer<'_>, step: Arg) -> Result<(), Refusal> {
        if self.plan.staged.iter().any(|s| self.turns(s)) {
            w.act(Op::TaskBarrier, &[], &[]);
            self.store_staged(w, &|s| s.moves, Some(step))?;
        }
        Ok(())
    }

    /// Stores what is the same in every step, in front of the loop.
    pub(super) fn stage_in_front(&self, w: &mut Writer<'_>) -> Result<(), Refusal> {
        if self.plan.staged.iter().any(|s| !s.moves) {
            w.act(Op::TaskBarrier, &[], &[]);
        }
        self.store_staged(w, &|s| !s.moves, None).map(drop)
    }

    /// The tiles that a product of a step reads and that are not stored yet, by number.
    pub(super) fn to_stage(&self, product: Inst, buffers: &StagedState) -> BTreeSet<usize> {
        let reads = |s: &StagedOperand| s.moves && s.uses.iter().any(|u| u.product == product);
        (0..self.plan.staged.len()).filter(|n| !buffers.stored.contains(n) && reads(&self.plan.staged[*n])).collect()
    }

    /// Stores what a product of a step reads, unless that is done.
    pub(super) fn stage(&self, w: &mut Writer<'_>, product: Inst, buffers: &mut StagedState) -> Result<(), Refusal> {
        let wanted = self.to_stage(product, buffers);
        if wanted.is_empty() {
            return Ok(());
        }
        // Lanes meet behind what they store; those that wait for the sums of the step before need not meet again.
        let waits = buffers.stored.is_empty() && self.waits_for_updates();
        if waits {
            self.wait_for_updates(w, buffers);
        } else if wanted.iter().any(|n| buffers.read.contains(n)) {
            w.act(Op::TaskBarrier, &[], &[]);
        }
        let all = &self.plan.staged;
        let done = self.store_staged(w, &|s| wanted.iter().any(|&n| std::ptr::eq(&all[n], s)), None)?;
        buffers.stored.extend(done);
        buffers.read.clear();
        Ok(())
    }

    /// A product is over.
    pub(super) fn read_by(&self, product: Inst, buffers: &mut StagedState) {
        let all = self.plan.staged.iter().enumerate();
        buffers.read.extend(all.filter(|(_, s)| s.moves && s.uses.iter().any(|u| u.product == product)).map(|(n, _)| n));
    }

    /// Stores some; gives their numbers.
    fn store_staged(&self, w: &mut Writer<'_>, which: &dyn Fn(&StagedOperand) -> bool, step: Option<Arg>) -> Result<Vec<usize>, Refusal> {
        let some: Vec<usize> = (0..self.plan.staged.len()).filter(|&n| which(&self.plan.staged[n])).collect();
        if some.is_empty() {
            return Ok(some);
        }
        for &n in &some {
            let s = &self.plan.staged[n];
            let mut tile = w.get(s.value)?;
            if s.transposed {
                tile = w.make(Op::Transpose, &[tile], &[exchanged()], None)?.into();
            }
            let buffer = self.buffer_in(w, n, step)?;
            w.act(Op::LocalStore, &[buffer, tile], &[]);
        }
        w.act(Op::FenceAsync, &[], &[]);
        w.act(Op::TaskBarrier, &[], &[]);
        Ok(some)
    }

    /// An operand of a product as it was stored, in a step if that is told; `None` if it was not.
    pub(super) fn staged(&self, w: &mut Writer<'_>, product: Inst, operand: usize, step: Option<Arg>) -> Result<Option<Arg>, Refusal> {
        let is = |s: &&StagedOperand| s.uses.iter().any(|u| (u.product, u.operand) == (product, operand));
        let Some(n) = self.plan.staged.iter().position(|s| is(&s)) else { return Ok(None) };
        let seen = self.plan.staged[n].uses.iter().any(|u| (u.product, u.operand, u.transposed) == (product, operand, true));
        let buffer = self.buffer_in(w, n, step)?;
        match seen {
            true => Ok(Some(w.make(Op::LocalTranspose, &[buffer], &[exchanged()], None)?.into())),
            false => Ok(Some(buffer)),
        }
    }
}
